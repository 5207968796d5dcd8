"""What gives each section, equation and table of the papers, with its output; as a script it writes docs/papers.md."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

PAGE = Path(__file__).parents[1] / "docs" / "papers.md"

HEAD = """# The five papers, command by command

For each section, equation and table that a program can give: the command or call, and what it printed when this page
was written by `python tests/papers_page.py`; a test runs all of it again. Where the papers err or leave something open
is on the pages of the [theory](theory/numerical_base.md); which function holds which equation is in the
[architecture](architecture.md).
"""


@dataclass(frozen=True)
class Entry:
    """where: section, equation or table; said: what is shown; code: a command (`dynid ...`) or Python; keep: lines."""

    where: str
    said: str
    code: str
    keep: tuple[str, ...] = ()


GAUTIER_1991 = (
    Entry("Table I", "the geometry of the robot like the PUMA 560", "dynid mdh puma560", ("joint", " 3 ", " 4 ")),
    Entry("Eq. 4, 5, 6", "torques are linear in the 66 standard parameters: W at samples", """
        from dynid import base_parameters, load_robot, regressor
        from dynid.identifiability.numeric import random_samples

        robot = load_robot("puma560")
        motion = random_samples(robot, 20, seed=0)
        W = regressor(robot, motion)
        print(W.matrix.shape)
    """),
    Entry("Eq. 8, 9", "torques at zero velocity", """
        print(regressor(robot, motion, model="static").matrix.shape)
    """),
    Entry("Eq. 10, 11, 12", "energy functions: differences between neighbouring samples, without the constants", """
        print(regressor(robot, motion, model="energy").matrix.shape)
        print(base_parameters(robot, model="energy", method="qr").count)
    """),
    Entry("Eq. 13-17; Table II", "T and R of the QR decompositions, singular values, V2 N", (
        "dynid base puma560 --diagnostics"
    ), ("rows, rank", "40 base parameters")),
    Entry("Eq. 18, the permutation P", "any order of preference, and the change of basis", (
        "dynid base puma560 --prefer M6,MZ4"
    ), ("MR6 =", "MZR4 =")),
    Entry("Eq. 20; Table IV", "the rows of beta", """
        base = base_parameters(robot, method="qr")
        beta = base.regrouping.matrix[base.names.index("XX2")]
        print({str(name): round(float(x), 6) for name, x in zip(base.columns, beta) if abs(x) > 1e-9})
    """),
    Entry("Eq. 21-23, 26, 27", "the same by singular values", """
        print(base_parameters(robot, method="svd").names == base.names)
    """),
    Entry("Eq. 24, 25", "the solution of least norm, X_M = V1 V1' X", """
        XB = base.values(robot.parameters)
        X_M = base.minimum_norm(XB)
        print(abs(base.values(X_M) - XB).max() < 1e-10, bool((X_M @ X_M) < (robot.parameters @ robot.parameters)))
    """),
    Entry("Eq. 28; Table III", "values of the base parameters; ZZR1 is the sum, ZZ1 the link's own", (
        "dynid base puma560 --values puma560"
    ), ("ZZR1  ", "XXR2  ", "ZZR2  ")),
    Entry("Table V", "the 17 relations with the table's symbols", (
        "dynid base puma560"
    ), ("XXR2 =", "ZZR3 =", "relations:")),
    Entry("Scaling of W", "rows whose entries have similar sizes", (
        "dynid base puma560 --model energy --scaling 0,1 --method qr"
    ), ("40 base parameters",)),
    Entry("Graph-structured robots", "loops: the HPR's parallelogram (a reconstruction of its geometry)", (
        "dynid base hpr"
    ), ("35 base parameters", "MXR3 =", "MXR4 =")),
)  # fmt: skip

KHALIL_1994 = (
    Entry("Section I; relations 15, 16; rule 1", "parameters that join the parent's", (
        "dynid base rx90 --method rules --eliminations"
    ), ("1a   ", "base parameters (torque")),
    Entry("Section II; Table 1; rules 2, 3", "slides between r1 and r2: the last moment along a_r1 goes", """
        from dynid import Robot
        from dynid.identifiability.explanation import find_eliminated_parameters

        slide = Robot.from_mdh([{}, {"type": "prismatic", "alpha": 0.5, "d": 0.2}, {"alpha": 0.9, "d": 0.1}])
        gone = find_eliminated_parameters(base_parameters(slide))
        print({str(x.parameter): x.rule for x in gone if x.rule == "rule_3"})
    """),
    Entry("Section III; rules 4, 5, 6", "which rule removed which parameter of link 1", (
        "dynid base puma560 --eliminations"
    ), ("1     4 ", "1     5 ")),
    Entry("Comparison", "the rules against all other methods", (
        "dynid base rx90 --method all"
    ), (" nullspace  ", " rules  ", "agree")),
)  # fmt: skip

GAUTIER_1992 = (
    Entry("Table 1", "the robot with three joints", "dynid mdh gautier3", ("joint", " 2 ", " 3 ")),
    Entry("Eq. 1-10", "identification by differences of energy, without accelerations", """
        import numpy as np

        from dynid import Motion, identify, simulate

        gautier3 = load_robot("gautier3")
        t = np.linspace(0.0, 10.0, 4001)
        w, A = 0.6 * np.arange(1, 6), np.random.default_rng(0).standard_normal((5, 3)) / np.arange(1, 6)[:, None] / 2
        B = np.random.default_rng(1).standard_normal((5, 3)) / np.arange(1, 6)[:, None] / 2
        s, c = np.sin(np.outer(t, w)), np.cos(np.outer(t, w))
        swing = Motion(t, s @ A + c @ B, (c * w) @ A - (s * w) @ B, -(s * w**2) @ A - (c * w**2) @ B)
        result = identify(gautier3, simulate(gautier3, swing), model="energy", friction=())
        truth = result.equation.base.values(gautier3.parameters)
        print(len(result.names), bool(abs(result.values - truth).max() < 1e-6))
    """),
    Entry("Eq. 11-13; Tables 3-5", "perturbation bounds of least squares", """
        print(bool(result.bounds.of_measurement < 1e-6), bool(result.bounds.per_matrix_error >= result.condition))
    """),
    Entry("Eq. 14-19", "condition number and scaling of random sequences of 30 points (Table 2, first column)", """
        from dynid.excitation.criteria import condition_number

        points = random_samples(gautier3, 31, seed=0)
        W = regressor(gautier3, points, model="energy").matrix[:, base_parameters(gautier3, model="energy").kept]
        print(W.shape, bool(condition_number(W) > 10.0))
    """),
)  # fmt: skip

HA = (
    Entry("Table 1", "the SCARA", "dynid mdh scara", ("joint", " 1 ", " 2 ")),
    Entry("Eq. 2.2-2.24, 3.1-3.12", "model parameters X_ij and functions F_ij without known lengths", (
        "dynid unknown scara --unknown A1,A2"
    ), ("blocks", "X22 =", "X31 =", "F21 =")),
    Entry("Remark after 2.23", "with known geometry X = M V", """
        from dynid import model_parameters

        scara = load_robot("scara")
        print(model_parameters(scara, unknown=()).count, model_parameters(scara, unknown=("A1", "A2")).matrix().shape)
    """),
    Entry("Counts", "the PUMA 560 with four unknown lengths", (
        "dynid unknown puma560 --unknown D3,R3,D4,R4 --count-only"
    ), ("model parameters", "blocks")),
    Entry("Eq. 2.26, 3.13-3.18; Table 2", "the integral form, by the trapezoid rule and by one of order 8", """
        q = swing.q[:, [0, 1, 2, 0]] * [1.0, 1.0, 0.2, -0.7]
        v, a = (x[:, [0, 1, 2, 0]] * [1.0, 1.0, 0.2, -0.7] for x in (swing.v, swing.a))
        moves = Motion(t, q, v, a)
        log = simulate(scara.with_parameters(np.nan_to_num(scara.parameters, nan=0.3)), moves)
        found = {
            rule: identify(
                scara, log, model="momentum", unknown=("A1", "A2"), friction=(), quadrature=rule, rotor_inertia=False
            )
            for rule in ("trapezoid", "smooth")
        }
        off = abs(found["trapezoid"].values / found["smooth"].values - 1.0)
        print([str(name) for name in found["smooth"].names], bool(off.max() < 1e-2))
    """),
    Entry("Eq. 2.25, 2.28, 2.30", "all joints together, and joint by joint from the last", """
        steps = identify(
            scara, log, model="momentum", unknown=("A1", "A2"), friction=(), rotor_inertia=False, estimator="recursive"
        )
        print(bool(abs(steps.values / found["smooth"].values - 1.0).max() < 1e-6))
    """),
    Entry("Lengths from X", "beyond the paper: what of the lengths follows", (
        "dynid unknown scara --unknown A1,A2 --known MX2=0 --known MX3=0"
    ), ("Of the lengths",)),
)  # fmt: skip

RAUCENT = (
    Entry("Section 4, example", "the one-link manipulator: N_d = 2, N_r = 5", (
        "dynid base one_link --model reaction --no-rotor-inertia"
    ), ("5 base parameters", "theta_d = S")),
    Entry("Section 4", "barycentric parameters", (
        "dynid base puma562 --model reaction --no-rotor-inertia --barycentric"
    ), ("ZZR1 = K", "XZR2 = K", "MXR2 = m")),
    Entry("Eq. 5; section 5.1", "theta_d = S theta_r of the PUMA 562, and which channels that takes", (
        "dynid base puma562 --model reaction --no-rotor-inertia"
    ), ("theta_d = S", "smallest sets")),
    Entry("Table 1", "the identified values, in the table of the robot", """
        puma = load_robot("puma562")
        found = base_parameters(puma, rotor_inertia=False)
        print({name: float(x) for name, x in zip(found.labels, found.values(puma.parameters))})
    """),
)  # fmt: skip

PAPERS = (
    ("Gautier 1991, Numerical Calculation of the Base Inertial Parameters of Robots", GAUTIER_1991, ""),
    ('Khalil & Bennis 1994, Comments on "Direct Calculation of Minimum Set of Inertial Parameters of Serial Robots"',
     KHALIL_1994, ""),
    ("Gautier & Khalil 1992, Exciting Trajectories for the Identification of Base Inertial Parameters of Robots",
     GAUTIER_1992,
     "Not run here, because a search takes seconds to minutes: sections 4 and 5, Tables 2 and 6 to 12 are `dynid "
     "excite gautier3 --shape points --criterion condition --points 30` and `--criterion condition+scaling` "
     "([excitation](excitation.md))."),
    ("Ha, Ko & Kwon, Estimation Algorithms of the Model Parameters of Robotic Manipulators", HA, ""),
    ("Raucent, Campion, Bastin & Samin 1992, Identification of the Barycentric Parameters of Robot Manipulators from "
     "External Measurements", RAUCENT,
     "The load experiment of section 5.3 (Table 2) is repeated in `tests/golden/test_load_experiment.py`."),
)  # fmt: skip


def output_of(entry: Entry, names: dict[str, object]) -> str:
    """What an entry prints; of a command, the lines that hold one of its words."""
    printed = io.StringIO()
    code = _code(entry)
    with contextlib.redirect_stdout(printed):
        if code.startswith("dynid "):
            _run_command(code)
        else:
            exec(compile(code, f"<{entry.where}>", "exec"), names)
    lines = [line.rstrip() for line in printed.getvalue().splitlines()]
    if entry.keep:
        lines = [line for line in lines if any(word in line for word in entry.keep)]
    return "\n".join(lines)


def _code(entry: Entry) -> str:
    """Code without the indentation of this file."""
    lines = entry.code.strip("\n").rstrip().splitlines()
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[indent:] for line in lines)


def _run_command(line: str) -> None:
    """Run a command in this process, 120 columns wide."""
    from dynid.cli import main

    with mock.patch.object(sys, "argv", shlex.split(line)), mock.patch.dict(os.environ, COLUMNS="120", NO_COLOR="1"):
        try:
            main()
        except SystemExit as left:
            if left.code not in (0, None):
                raise RuntimeError(f"{line}: exit {left.code}") from left


def page() -> str:
    """The whole page."""
    names: dict[str, object] = {}
    parts = [HEAD]
    for title, entries, note in PAPERS:
        parts.append(f"## {title}\n")
        for entry in entries:
            output, code = output_of(entry, names), _code(entry)
            assert output, f"{entry.where}: nothing printed"
            kind = "console" if code.startswith("dynid ") else "py"  # run by the test of this page alone
            parts.append(f"**{entry.where}**: {entry.said}.\n\n```{kind}\n{code}\n```\n\n```text\n{output}\n```\n")
        if note:
            parts.append(f"{note}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
