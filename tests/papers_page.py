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
    Entry("Eq. 1-4", "eleven standard parameters of every link", """
        from dynid import base_parameters, load_robot, regressor

        robot = load_robot("puma560")
        print(len(robot.parameter_names), *robot.parameter_names[11:22])
    """),
    Entry("Eq. 5-7", "torques are linear in the 66 standard parameters: W at samples", """
        from dynid.identifiability.numeric import random_samples

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
    Entry("Table II, rows 1-3 and 39-41", "the same as arrays (V2 N too; `--json FILE` has all of V2)", """
        table = base_parameters(robot, method="qr").diagnostics
        for i in (0, 1, 2, 38, 39, 40):
            T, sigma = abs(table.T[i]), table.sigma[i]
            print(i + 1, *(f"{x:.3g}" if x > 1e-9 else "below 1e-9" for x in (T, sigma)))
        print(sum(abs(x) > 1e-9 for x in table.R), "of R,", sum(abs(x) < 1e-9 for x in table.V2N), "zero rows of V2 N")
    """),
    Entry("Eq. 18, the permutation P", "any order of preference, and the change of basis", (
        "dynid base puma560 --prefer M6,MZ4"
    ), ("MR6 =", "MZR4 =")),
    Entry("Eq. 19, 20; Table IV", "the 17 rows of beta (1 on the kept column)", """
        base = base_parameters(robot, method="qr")
        for beta in base.regrouping.matrix:
            row = {str(name): round(float(x), 6) for name, x in zip(base.columns, beta) if abs(x) > 1e-9}
            if len(row) > 1:
                print(row)
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
    ), ("  kg m",)),
    Entry("Table V", "the 17 relations with the table's symbols", (
        "dynid base puma560"
    ), ("no effect", "regrouped", "relations:", " = ")),
    Entry("Scaling of W", "rows whose entries have similar sizes", (
        "dynid base puma560 --model energy --scaling 0,1 --method qr"
    ), ("40 base parameters", "scaling", "gap")),
    Entry("Graph-structured robots", "loops: the HPR's parallelogram (a reconstruction of its geometry)", (
        "dynid base hpr"
    ), ("35 base parameters", "MXR3 =", "MXR4 =")),
)  # fmt: skip

KHALIL_1994 = (
    Entry("Section I; eq. 1-3; relations 15, 16; rule 1", "parameters that join the parent's", (
        "dynid base rx90 --method rules --eliminations"
    ), ("1a   ", "base parameters (torque")),
    Entry("Section II, case a; eq. 4; Table 1", "a slide between r1 and r2 that is not parallel to r1, in symbols", """
        from dynid import Robot
        from dynid.identifiability.explanation import find_eliminated_parameters


        def slide_between(alpha):
            rows = [{}, {"type": "prismatic", "alpha": alpha, "d": "D2"}, {"alpha": 0.9, "d": "D3"}]
            return base_parameters(Robot.from_mdh(rows, symbols={"D2": 0.2, "D3": 0.1, "A": 0.5}))


        oblique = slide_between("A")
        print(*(text for text in oblique.relations if text.startswith(("MXR2", "MYR2"))), sep="\\n")
        print({str(x.parameter): x.rule for x in find_eliminated_parameters(oblique) if x.rule == "rule_3"})
    """),
    Entry("Section II, case b; eq. 5, 6; rule 2", "the slide is parallel to r1", """
        parallel = slide_between(0.0)
        print({str(x.parameter): x.rule for x in find_eliminated_parameters(parallel) if x.rule == "rule_2"})
        print(parallel.relations[0])
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
    Entry("Section 3; eq. 11-13", "perturbation bounds of a result, for r > b in Lawson and Hanson's form", """
        print(bool(result.bounds.of_measurement < 1e-6), bool(result.bounds.per_matrix_error >= result.condition))
    """),
    Entry("Eq. 14-19; section 6.1; Table 2, random sequences", (
        "condition numbers of 10 sequences within 90 degrees and 0.7 rad/s: least, mean, largest"
    ), """
        from dynid.excitation.criteria import condition_number

        kept = base_parameters(gautier3, model="energy", rotor_inertia=False).kept
        rng = np.random.default_rng(0)


        def random_rows(r):
            q, v = rng.uniform(-np.pi / 2, np.pi / 2, (r + 1, 3)), rng.uniform(-0.7, 0.7, (r + 1, 3))
            points = Motion(np.arange(r + 1.0), q, v, 0 * q)
            return regressor(gautier3, points, model="energy", rotor_inertia=False).matrix[:, kept]


        for r in (15, 20, 30, 50, 100, 200, 300, 500):
            found = [condition_number(random_rows(r)) for _ in range(10)]
            print(r, *(f"{x:.3g}" for x in (min(found), np.mean(found), max(found))))
    """),
    Entry("Section 4; eq. 20-23; Table 2, optimum; section 6.2", (
        "points that excite, of 30, 20 and 15 equations (to the next 10), and both goals together (scaling: to the "
        "next 100)"
    ), """
        from dynid import design_excitation

        limits = {"position": [[-np.pi / 2, np.pi / 2]] * 3, "velocity": 0.7, "acceleration": 3.0}
        options = {"shape": "points", "limits": limits, "starts": 1, "margin": 0.0, "friction": ()}
        options["rotor_inertia"] = False
        exciting = {r: design_excitation(gautier3, points=r, criterion="condition", **options) for r in (30, 20, 15)}
        print({r: round(x.condition, -1) for r, x in exciting.items()})
        both = design_excitation(gautier3, points=30, criterion="condition+scaling", weights=(1.0, 0.1), **options)
        print(round(both.condition, -1), round(both.scaling, -2))
    """),
    Entry("Section 5; eq. 24-29; Fig. 3-5", "quintics between the points, within all limits at every instant", """
        motion = exciting[30].motion(200)
        print(bool(exciting[30].margin >= 0), bool(abs(motion.v).max() <= 0.7), bool(abs(motion.a).max() <= 3.0))
    """),
    Entry("Section 6.3; eq. 11; Tables 3 and 8", (
        "r, k, |dY|/|Y| and |dX|/|X| (to a digit), and the bound (12)"
    ), """
        X = base_parameters(gautier3, rotor_inertia=False).values(gautier3.parameters)
        matrices = {r: (exciting[r].matrix, random_rows(r)) for r in (30, 15)}
        norm = np.linalg.norm


        def perturbed(W, in_Y, in_W):
            Y, rng = W @ X, np.random.default_rng(1)
            dY = in_Y / 4 * abs(Y).max() * rng.standard_normal(len(Y))
            dW = in_W / 4 * abs(W).max() * rng.standard_normal(W.shape)
            dX = np.linalg.lstsq(W + dW, Y + dY, rcond=None)[0] - X
            return norm(dY) / norm(Y), norm(dW, 2) / norm(W, 2), norm(dX) / norm(X), condition_number(W + dW)


        for r, both in matrices.items():
            for k in (0.001, 0.01, 0.1):
                for what, W in zip(("exciting", "random"), both):
                    y, _, x, condition = perturbed(W, k, 0.0)
                    print(r, k, what, f"{y:.0e} {x:.0e}", "bound holds:", bool(x <= condition * y))
    """),
    Entry("Tables 4, 5, 9 and 10", "r, k, |dX|/|X| for errors of W, and of W and Y", """
        for r, both in matrices.items():
            for k in (0.001, 0.01, 0.1):
                for what, W in zip(("exciting", "random"), both):
                    print(r, k, what, *(f"{perturbed(W, y, k)[2]:.0e}" for y in (0.0, k)))
    """),
    Entry("Tables 6, 7, 11 and 12", "standard deviations of the 15 parameters (to a digit), and their values", """
        for r, k in ((30, 0.01), (15, 0.001)):
            for what, W in zip(("exciting", "random"), matrices[r]):
                sigma = k / 4 * abs(W @ X).max() * np.sqrt(np.diag(np.linalg.inv(W.T @ W)))
                print(r, k, what, f"sigma {np.median(sigma):.0e}, at most {sigma.max():.0e}")
        print({name: round(float(x), 4) for name, x in zip(base_parameters(gautier3, rotor_inertia=False).labels, X)})
    """),
    Entry("Appendix, examples 1 and 2", "a matrix with condition 2249 (1-norm), and one whose scaling deceives", """
        A = np.array([[4.1, 2.8], [9.7, 6.6]])
        print(round(float(np.linalg.cond(A, 1)), 1), np.linalg.solve(A, [4.11, 9.7]).round(2))
        print(round(condition_number(np.diag([1.0, 1e-6]))), round(condition_number(np.diag([1.0, 1e-6]) * [1.0, 1e6])))
    """),
)  # fmt: skip

HA = (
    Entry("Table 1", "the SCARA", "dynid mdh scara", ("joint", " 1 ", " 2 ")),
    Entry("Eq. 2.2-2.24, 3.1-3.12", "model parameters X_ij and functions F_ij without known lengths", (
        "dynid unknown scara --unknown A1,A2"
    ), ("blocks m", "  X", "  F")),
    Entry("Remark after 2.23", "with known geometry X = M V", """
        from dynid import model_parameters

        scara = load_robot("scara")
        print(model_parameters(scara, unknown=()).count, model_parameters(scara, unknown=("A1", "A2")).matrix().shape)
    """),
    Entry("Counts", "the PUMA 560 with four unknown lengths", (
        "dynid unknown puma560 --unknown D3,R3,D4,R4 --count-only"
    ), ("model parameters", "blocks")),
    Entry("Fig. 3-5", "a motion of four seconds at 2 ms", """
        t = np.linspace(0.0, 4.0, 2001)
        w = np.array([[1.7, 4.3], [2.3, 5.1], [2.9, 6.1], [3.1, 5.7]])
        A = np.array([[1.1, -0.4], [0.8, 0.5], [0.09, -0.05], [1.3, -0.6]])
        x = w * t[:, None, None] + [[0.3, 1.1], [-0.7, 0.4], [0.9, -0.2], [1.7, 0.6]]
        waves = A * np.sin(x), A * w * np.cos(x), -A * w**2 * np.sin(x)
        log = simulate(scara, Motion(t, *(wave.sum(axis=2) for wave in waves)))
        print(log.tau[0].round(4))
    """),
    Entry("Eq. 2.25-2.28, 3.13-3.18; Table 2", (
        "both algorithms on three lists of intervals (`--window 0:0.5,0.5:1,1:1.5` and so on); the errors are those of "
        "the trapezoid rule"
    ), """
        lists = {
            1: [(0.0, 0.5), (0.5, 1.0), (1.0, 1.5)],
            2: [(1.0, 1.5), (1.5, 2.0), (2.5, 3.0)],
            3: [(2.5, 3.0), (3.0, 3.5), (3.5, 4.0)],
        }
        same = {"model": "momentum", "unknown": ("A1", "A2"), "friction": (), "rotor_inertia": False}
        for estimator in ("ols", "recursive"):
            for number, window in lists.items():
                found = identify(scara, log, estimator=estimator, window=window, quadrature="trapezoid", **same)
                print(estimator, number, found.values.round(4))
        found = identify(scara, log, estimator="ols", window=lists[3], quadrature="smooth", **same)
        print("smooth", 3, found.values.round(4))
    """),
    Entry("Eq. 2.30", "each joint's own block must have full rank: not on intervals at whose ends the robot stands", """
        from dynid import DynidError

        q, v, a = np.zeros((3, len(t), 4))
        for k, size in enumerate(([0.4, -0.3, 0.1, 0.5], [0.1, 0.3, -0.1, 0.2], [-0.1, 0.2, 0.05, 0.3]), start=1):
            w, x = np.pi / 2 * k, np.pi / 2 * k * t[:, None]
            for y, f in ((q, 1.0 - np.cos(x)), (v, w * np.sin(x)), (a, w**2 * np.cos(x))):
                y += size * f
        stops = simulate(scara, Motion(t, q, v, a))
        try:
            identify(scara, stops, estimator="recursive", window=[(0.0, 2.0), (2.0, 4.0), (0.0, 4.0)], **same)
        except DynidError as error:
            print(str(error).partition(";")[0])
    """),
    Entry("Lengths from X", "beyond the paper: what of the lengths follows", (
        "dynid unknown scara --unknown A1,A2 --known MX2=0 --known MX3=0"
    ), ("These parameters determine",)),
)  # fmt: skip

RAUCENT = (
    Entry("Section 2", "the force plate: pose, sense, channels, offsets, noise", """
        from dynid import ForceSensor

        puma = load_robot("puma562").with_sensor(ForceSensor(position=[0.0, 0.0, -0.1], offsets="tared"))
        print(puma.sensor.channels, puma.sensor.sense, puma.sensor.offsets)
    """),
    Entry("Section 3; eq. 1-4", "D-model and R-model: rows of torques, and of forces and moments on the base", """
        states = random_samples(puma, 5, seed=0)
        for model in ("torque", "reaction"):
            rows = regressor(puma, states, model=model, rotor_inertia=False)
            print(model, rows.channels, rows.matrix.shape)
    """),
    Entry("Section 4, example", "the one-link manipulator: N_d = 2, N_r = 5", (
        "dynid base one_link --model reaction --no-rotor-inertia"
    ), ("5 base parameters", "theta_d = S")),
    Entry("Section 4", "barycentric parameters", (
        "dynid base puma562 --model reaction --no-rotor-inertia --barycentric"
    ), ("ZZR1 = K", "XZR2 = K", "MXR2 = m")),
    Entry("Eq. 5; section 5.1", "theta_d = S theta_r of the PUMA 562, and which channels that takes", (
        "dynid base puma562 --model reaction --no-rotor-inertia"
    ), ("theta_d = S", "smallest sets")),
    Entry("Section 5.2; Table 1", (
        "external identification from a simulated plate; theta_d(1) of the paper is ZZR1 + XXR2 + XXR3 = 1.665"
    ), """
        from dynid import joint_parameters

        found = base_parameters(puma, rotor_inertia=False)
        print({name: round(float(x), 3) for name, x in zip(found.labels, found.values(puma.parameters))})
        w, t = np.array([1.1, 1.7, 2.3]), np.linspace(0.0, 12.0, 2401)[:, None]
        wave = Motion(t[:, 0], np.sin(w * t) + 0.3, w * np.cos(w * t), -(w**2) * np.sin(w * t))
        body = puma.with_parameters(np.nan_to_num(puma.parameters))
        result = identify(puma, simulate(body, wave, plate_noise=0.1, seed=0), model="reaction", rotor_inertia=False)
        seen = joint_parameters(result)
        off = abs(seen.values - found.values(body.parameters)) / seen.sigma
        print(len(seen.values), bool((off < 3.5).all()))
    """),
    Entry("Section 5.3; Table 2", "the load of 3.87 kg at 0.514 m by joint 3 alone: M l and M l^2", """
        from dynid import identify_payload

        t = np.arange(0.0, 12.0, 0.01)[:, None]
        w, A = np.array([1.9, 4.7, 8.3]), np.array([0.9, 0.35, 0.15])
        x, still = t * w + [0.2, 1.0, 2.1], np.zeros((len(t), 2))
        three = [np.column_stack([still, y @ A]) for y in (np.sin(x), w * np.cos(x), -(w**2) * np.sin(x))]
        alone, X = Motion(t[:, 0], *three), body.parameters.copy()
        for name, change in {"MX3": 3.87 * 0.514, "M3": 3.87, "YY3": 3.87 * 0.514**2, "ZZ3": 3.87 * 0.514**2}.items():
            X[body.parameter_names.index(name)] += change
        logs = [simulate(robot, alone) for robot in (body.with_parameters(X), body)]
        load = identify_payload(puma, *logs, friction=(), joints=["3"])
        print({name: round(load.value(name), 4) for name in ("MX", "ZZ")})
    """),
)  # fmt: skip

PAPERS = (
    ("Gautier 1991, Numerical Calculation of the Base Inertial Parameters of Robots", GAUTIER_1991, ""),
    ('Khalil & Bennis 1994, Comments on "Direct Calculation of Minimum Set of Inertial Parameters of Serial Robots"',
     KHALIL_1994, ""),
    ("Gautier & Khalil 1992, Exciting Trajectories for the Identification of Base Inertial Parameters of Robots",
     GAUTIER_1992,
     "On the command line: `dynid excite gautier3 --shape points --criterion condition --points 30` "
     "([excitation](excitation.md)). What a search ends in is rounded here, because it differs in its last digits "
     "from machine to machine."),
    ("Ha, Ko & Kwon, Estimation Algorithms of the Model Parameters of Robotic Manipulators", HA, ""),
    ("Raucent, Campion, Bastin & Samin 1992, Identification of the Barycentric Parameters of Robot Manipulators from "
     "External Measurements", RAUCENT,
     "More of the load experiment, with friction and noise, is in `tests/golden/test_load_experiment.py`."),
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
