"""Base parameters through the front door: published numbers, robustness, warnings, loops, floating bases."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from campaign.base import check
from numpy.testing import assert_allclose

from command_line import CommandLine
from dynid import DynidError, Motion, Robot, base_parameters, compare_methods, load_robot, regressor
from dynid.identifiability import base_parameters as front_door
from dynid.identifiability import numeric
from dynid.identifiability.finite_field import find_over_finite_field
from dynid.identifiability.numeric import random_samples
from dynid.robot.transform import Array
from humanoid import humanoid, quadruped
from pinocchio_twin import Twin

NO_EFFECT = ("XX1", "XY1", "XZ1", "YY1", "YZ1", "MX1", "MY1", "MZ1", "M1", "MZ2", "M2")
REGROUPED = "Ia1 YY2 Ia2 YY3 MZ3 M3 YY4 MZ4 M4 YY5 MZ5 M5 YY6 MZ6 M6".split()
# Gautier 1991, Table III, recomputed without its rounding to four decimals.
VALUES = {
    "ZZ1": 5.01856, "XX2": -2.05, "XY2": 0.7, "XZ2": -1.07, "YZ2": 0.65, "ZZ2": 6.55, "MX2": 4.3, "MY2": 0.6,
    "XX3": 0.76344, "XY3": 0.6872, "XZ3": 0.55, "YZ3": -0.6, "ZZ3": 0.96456, "MX3": 0.528, "MY3": 1.14, "Ia3": 1.0,
    "XX4": -0.42, "XY4": 0.02, "XZ4": 0.02, "YZ4": 0.015, "ZZ4": 0.07, "MX4": 0.02, "MY4": -0.07, "Ia4": 0.3,
    "XX5": 0.02, "XY5": 0.01, "XZ5": 0.01, "YZ5": 0.01, "ZZ5": 0.06, "MX5": 0.02, "MY5": 0.03, "Ia5": 0.3,
    "XX6": 0.0, "XY6": 0.01, "XZ6": 0.01, "YZ6": 0.01, "ZZ6": 0.02, "MX6": 0.01, "MY6": 0.01, "Ia6": 0.3,
}  # fmt: skip
PUMA_ROWS = [
    {},
    {"alpha": -math.pi / 2},
    {"d": 0.5, "r": 0.2},
    {"alpha": -math.pi / 2, "d": 0.02, "r": 0.6},
    {"alpha": math.pi / 2},
    {"alpha": -math.pi / 2},
]


def rank(W: Array) -> int:
    """Independent oracle: singular values of unit columns above 1e-9."""
    size = np.linalg.norm(W, axis=0)
    sigma = np.linalg.svd(W[:, size > 1e-10 * size.max()] / size[size > 1e-10 * size.max()], compute_uv=False)
    return int((sigma > 1e-9 * sigma[0]).sum())


@pytest.mark.parametrize("model", ["torque", "static", "energy"])
@pytest.mark.parametrize("method", ["qr", "svd", "nullspace", "rules"])
def test_puma_560(model: str, method: str) -> None:
    robot = load_robot("puma560")
    base = base_parameters(robot, model=model, method=method)
    assert base.no_effect == NO_EFFECT
    assert base.regrouped == tuple(REGROUPED)
    assert base.count == 40
    assert base.names == tuple(VALUES)
    assert len(base.relations) == 17
    np.testing.assert_allclose(base.values(robot.parameters), list(VALUES.values()), rtol=0, atol=1e-9)
    assert base.gap > 1e11
    assert not base.warnings


def test_an_elevated_base_does_not_add_an_energy_parameter() -> None:
    """Gautier's eq. 12 taken literally gives 41 here: energy functions contain constants."""
    rows = [{**PUMA_ROWS[0], "r": 0.67}, *PUMA_ROWS[1:]]
    for method in ("qr", "svd", "nullspace", "rules"):
        assert base_parameters(Robot.from_mdh(rows), model="energy", method=method).names == tuple(VALUES)


def test_table_two_of_the_paper() -> None:
    base = base_parameters(load_robot("puma560"), model="energy", method="svd")
    table = base.diagnostics
    assert table is not None
    assert len(table.columns) == 55
    assert (np.abs(table.T) > table.tolerance).sum() == 40
    assert (table.sigma > 1e-10 * table.sigma[0]).sum() == 40
    unchanged = {base.columns[table.columns[k]] for k in np.flatnonzero(np.abs(table.V2N) < 1e-9)}
    absorbing = {line.split("R")[0] + line.split(" ")[0].split("R")[-1] for line in base.relations}
    assert unchanged == set(base.names) - absorbing
    assert len(unchanged) == 23


@pytest.mark.parametrize("unit", [1.0, 1e3])
def test_units_seeds_and_numbers_of_rows_do_not_matter(unit: float) -> None:
    rows = [{k: v * unit if k in ("d", "r") else v for k, v in row.items()} for row in PUMA_ROWS]
    robot = Robot.from_mdh(rows, gravity=(0, 0, -9.81 * unit))
    for seed in range(100):
        for count in (66, 198):
            base = base_parameters(robot, method="qr", model=("torque", "energy")[seed % 2], seed=seed, rows=count)
            assert base.names == tuple(VALUES), (seed, count)


def test_scaling_makes_the_entries_alike() -> None:
    base = base_parameters(load_robot("puma560"), model="energy", method="qr", scaling=(0.0, 1.0))
    assert base.scaled is not None
    assert base.scaled.after <= 200 < 1e6 < base.scaled.before
    assert base.names == tuple(VALUES)


@pytest.mark.parametrize("block", [*range(4), *(pytest.param(k, marks=pytest.mark.slow) for k in range(4, 20))])
def test_all_methods_agree_on_special_robots(block: int) -> None:
    findings = [finding for seed in range(50 * block, 50 * block + 50) if (finding := check(seed))]
    assert findings == []


@pytest.mark.parametrize(
    ("name", "rotors", "count"),
    [
        ("rx90", True, 40),
        ("puma560", True, 40),
        ("puma560", False, 36),
        ("panda", False, 43),
        ("iiwa", False, 43),
        ("lwr4", False, 43),
        ("ur10", False, 36),
        ("ur10", True, 40),
        ("gautier3", False, 15),
        ("scara", False, 6),
        ("one_link", False, 2),
        ("puma562", False, 9),
    ],
)
def test_known_counts(name: str, rotors: bool, count: int) -> None:
    for method in ("nullspace", "qr", "svd", "rules"):
        assert base_parameters(load_robot(name), method=method, rotor_inertia=rotors).count == count, method


@pytest.mark.parametrize(
    ("name", "count", "tared"), [("puma560", 41, 40), ("puma562", 11, 10), ("one_link", 5, 3), ("iiwa", 48, 47)]
)
def test_reactions(name: str, count: int, tared: int) -> None:
    robot = load_robot(name)
    for method in ("nullspace", "qr", "svd"):
        assert base_parameters(robot, model="reaction", rotor_inertia=False, method=method).count == count
        found = base_parameters(robot, model="reaction", rotor_inertia=False, tared=True, method=method)
        assert found.count == tared
    assert not any(name.startswith("Ia") for name in base_parameters(robot, model="reaction").names)


@pytest.mark.parametrize("machine", ["quadruped", "humanoid"])
def test_floating_machines_against_pinocchios_rank(machine: str) -> None:
    robot = _floating(quadruped() if machine == "quadruped" else humanoid())
    base = base_parameters(robot, rotor_inertia=False)
    twin = Twin(robot)
    columns = 10 * len(robot.links)
    motion = random_samples(robot, 3 * columns // (robot.n + 6) + 1, seed=1)
    samples = zip(motion.q, motion.v, motion.a, strict=True)
    W = np.vstack([twin.regressor(*x, motion, n) for n, x in enumerate(samples)])
    assert isinstance(twin.model, pin.Model)
    assert rank(W) == base.count
    assert rank(W[:, base.kept]) == base.count


def _floating(robot: Robot) -> Robot:
    from dynid.robot.load import _with_floating_base

    return _with_floating_base(robot)


@pytest.mark.parametrize(
    ("name", "count", "without"), [("hpr", 35, 32), ("sr400", 42, None), ("slider_crank", 6, None)]
)
def test_closed_loops(name: str, count: int, without: int | None) -> None:
    robot = load_robot(name)
    base = base_parameters(robot)
    assert base.method == "exact"
    for method in ("qr", "svd"):
        assert base_parameters(robot, method=method).names == base.names
    assert base.count == count
    if without is not None:
        assert base_parameters(robot, rotor_inertia=False).count == without
    motion = random_samples(robot, 30, seed=5)
    W = regressor(robot, motion).matrix
    X = np.random.default_rng(0).standard_normal(len(robot.parameter_names))
    np.testing.assert_allclose(W[:, base.kept] @ base.values(X), W @ X, rtol=0, atol=1e-9)


def test_slider_crank_across_gravity() -> None:
    base = base_parameters(load_robot("slider_crank", gravity=(0, 0, -9.81)))
    assert base.names == ("ZZ1", "ZZ2", "MX2", "MY2")


def test_relations_of_closed_loops_stay_symbolic() -> None:
    text = "\n".join(base_parameters(load_robot("hpr")).relations)
    assert "D4**2*(M4 + M6 + M7)" in text
    assert "XYR2 = XY2 + XY5" in text


@pytest.mark.parametrize("angle", [1e-6, 1e-7])
@pytest.mark.parametrize("method", [None, "qr", "svd", "rules", "nullspace"])
def test_almost_parallel_axes_are_not_a_silent_number(angle: float, method: str | None, tmp_path: Path) -> None:
    file = tmp_path / "almost.toml"
    file.write_text(f"[[joint]]\n[[joint]]\nalpha = {angle}\nd = 0.3\n")
    base = base_parameters(load_robot(file, snap=False), method=method, rotor_inertia=False)
    assert base.warnings
    assert "joint 2: alpha" in " ".join(base.warnings)
    assert not base_parameters(load_robot(file), method=method, rotor_inertia=False).warnings


@pytest.mark.parametrize("method", [None, "qr", "rules"])
def test_a_rounded_right_angle_is_noticed(method: str | None) -> None:
    rows = [*PUMA_ROWS]
    rows[1] = {"alpha": -1.5708}
    base = base_parameters(Robot.from_mdh(rows), method=method)
    assert base.count == 41
    assert any("multiple of 90 degrees" in warning for warning in base.warnings)


@pytest.mark.parametrize("block", [0, 1, 2, *(pytest.param(k, marks=pytest.mark.slow) for k in range(3, 8))])
def test_tiny_offsets_are_decided_exactly_and_sampling_says_when_it_cannot_know(block: int) -> None:
    """Offsets of 1e-3 to 1e-15 m in otherwise normal robots: 200 of them, against the finite field."""
    for seed in range(25 * block, 25 * block + 25):
        robot = _with_tiny_offsets(seed)
        exact = base_parameters(robot, rotor_inertia=seed % 2 == 0)
        field = find_over_finite_field(robot, rotor_inertia=seed % 2 == 0)
        assert field.agree
        assert exact.kept == field.kept
        for method in ("qr", "svd"):
            sampled = base_parameters(robot, method=method, rotor_inertia=seed % 2 == 0)
            assert sampled.names == exact.names or sampled.warnings, (seed, method)


def _with_tiny_offsets(seed: int) -> Robot:
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(int(rng.integers(3, 7))):
        row = {"alpha": float(rng.choice([0.0, math.pi / 2, -math.pi / 2])), "d": 0.0, "r": 0.0}
        for letter in ("d", "r"):
            kind = rng.random()
            if kind < 0.35:
                row[letter] = round(float(rng.uniform(0.1, 0.6)), 3)
            elif kind < 0.6:
                row[letter] = 10.0 ** -int(rng.integers(3, 16))
        rows.append(row)
    rows[-1]["d"] = 0.3
    return Robot.from_mdh(rows, gravity=[(0, 0, -9.81), (9.81, 0, 0)][seed % 2])


def test_friction_and_offset_columns() -> None:
    robot = load_robot("puma560")
    base = base_parameters(robot, friction=("viscous", "coulomb", "offset"))
    assert base.method == "qr"
    assert base.count == 40 + 18
    assert base.names[-1] == "Fo6"
    assert base.matrix.shape == (58, 66 + 18)


def test_an_offset_can_hide_in_gravity() -> None:
    """A vertical slide: the weight is constant, so mass, rotor and offset share two combinations."""
    robot = Robot.from_mdh([{"type": "prismatic"}])
    assert base_parameters(robot, friction=("offset",)).names == ("M1", "Ia1")


def test_known_zeros_take_no_part() -> None:
    base = base_parameters(load_robot("scara"), rotor_inertia=False)
    assert base.known == ("MX4", "MY4", "MZ4")
    assert not set(base.known) & {*base.names, *base.regrouped, *base.no_effect}
    everything = {*base.known, *base.names, *base.regrouped, *base.no_effect}
    assert len(everything) == 40


def test_values_are_unknown_where_they_need_the_unknown() -> None:
    robot = load_robot("puma560")
    X = np.array(robot.parameters)
    X[robot.parameter_names.index("M3")] = np.nan
    values = dict(zip(VALUES, base_parameters(robot).values(X), strict=True))
    assert math.isnan(values["ZZ1"])
    assert values["XX4"] == pytest.approx(-0.42)
    X[robot.parameter_names.index("M1")] = np.nan  # no effect
    assert not np.isnan(base_parameters(robot).values(X)[1:][-8:]).any()


def test_urdf_robots_have_relations_in_their_own_frames(tmp_path: Path) -> None:
    from robot.io.test_urdf import ARM

    file = tmp_path / "arm.urdf"
    file.write_text(ARM)
    robot = load_robot(file, lock={"left": 0.0})
    found = {method: base_parameters(robot, method=method) for method in ("nullspace", "rules", "qr", "svd")}
    assert len({base.names for base in found.values()}) == 1
    assert any(":" in relation for relation in found["rules"].relations)


def test_methods_side_by_side() -> None:
    compared = compare_methods(load_robot("puma560"))
    assert set(compared.results) == {"nullspace", "rules", "qr", "svd"}
    assert "agree" in compared.verdict
    loops = compare_methods(load_robot("sr400"))
    assert "rules" in loops.refused
    assert set(loops.results) == {"exact", "qr", "svd"}
    assert "exact, qr, svd agree" in loops.verdict
    tiny = compare_methods(Robot.from_mdh([{}, {"d": 1e-13}, {"d": 0.4}]))
    assert "trust nullspace" in tiny.verdict
    assert all("joint 2: d" in " ".join(found.warnings) for found in tiny.results.values())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "qrr"}, "methods are"),
        ({"model": "torques"}, "base parameters exist for"),
        ({"model": "torque", "tared": True}, "reaction"),
        ({"friction": ("sticky",)}, "friction block"),
        ({"friction": ("viscous",), "method": "nullspace"}, "method='qr'"),
        ({"model": "reaction", "method": "rules"}, "nullspace"),
    ],
)
def test_bad_questions(options: dict[str, object], words: str) -> None:
    with pytest.raises(DynidError, match=words):
        base_parameters(load_robot("puma560"), **options)  # type: ignore[arg-type]


def test_values_of_the_wrong_length() -> None:
    with pytest.raises(DynidError, match="66 parameters"):
        base_parameters(load_robot("puma560")).values(np.zeros(3))


def test_golden_relations_of_the_parallelogram_robot() -> None:
    """Coefficients recomputed independently: hpr, the relations with a fraction in them."""
    base = base_parameters(load_robot("hpr"))
    row = dict(zip(base.robot.parameter_names, base.matrix[base.names.index("MX3")], strict=True))
    assert row["MX5"] == pytest.approx(0.25 / 0.7, abs=1e-9)
    assert row["M5"] == pytest.approx(0.25, abs=1e-9)
    assert json.dumps(sorted(k for k, v in row.items() if abs(v) > 1e-9)) == '["M5", "MX3", "MX5"]'


def test_only_the_direction_of_gravity_counts() -> None:
    robot = load_robot("puma560")
    weak = replace(robot, gravity=np.array([0.0, 0.0, -1e-3]))
    assert base_parameters(weak).names == base_parameters(robot).names


def test_values_of_the_puma_562_are_those_of_its_table() -> None:
    """Raucent et al. 1992, Table 1: theta_d in the paper's axes, which are our y, z, x for links 2 and 3."""
    robot = load_robot("puma562")
    base = base_parameters(robot, rotor_inertia=False)
    X = dict(zip(base.names, base.values(robot.parameters), strict=True))
    theta = [
        X["ZZ1"] + X["XX2"] + X["XX3"], -X["XX2"], X["ZZ2"], X["XZ2"], -X["XX3"], X["ZZ3"], X["XZ3"], X["MX2"],
        X["MX3"],
    ]  # fmt: skip
    assert_allclose(theta, [1.665, 2.888, 2.234, -0.598, 0.567, 0.545, -0.103, 3.212, 0.802], atol=1e-12)


def test_values_of_the_one_link_manipulator_are_those_of_a_body() -> None:
    """Its reactions are the paper's: Cy = Kyy qdd + mbz (d A - g s) and so on, with the table's numbers."""
    robot = load_robot("one_link")
    m, ly, lz = 5.0, 0.05, 0.3
    q, qd, qdd, d, g = 0.4, 0.7, -1.3, 0.7, 9.81
    c, s = math.cos(q), math.sin(q)
    A, B = qdd * c - qd**2 * s, qdd * s + qd**2 * c
    Kyy, Kyz = 0.04 + lz**2 * m, -ly * lz * m
    expected = [
        m * lz * A, 0.0, m * g - m * lz * B,
        g * m * ly + Kyz * B, Kyy * qdd + m * lz * (d * A - g * s), Kyz * A,
    ]  # fmt: skip
    motion = Motion(np.zeros(1), np.full((1, 1), q), np.full((1, 1), qd), np.full((1, 1), qdd))
    found = regressor(robot, motion, model="reaction").matrix @ robot.parameters
    assert_allclose(found * np.sign(found[2]), expected, rtol=1e-12, atol=1e-12)


def test_scaling_on_the_command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    command = CommandLine(monkeypatch, capsys)
    out = command("base", "scara", "--model", "energy", "--scaling", "0,1").out
    before, after = (float(x) for x in re.findall(r"scaling S (\S+) before, (\S+) after", out)[0])
    assert after < before
    assert "not two weights" in command("base", "scara", "--scaling", "1", code=2).err
    assert "not two weights" in command("base", "scara", "--scaling", "1,nan", code=2).err
    assert "takes no samples" in command("base", "scara", "--method", "rules", "--scaling", "0,1", code=2).err


@pytest.mark.parametrize("triangular", [True, False])
def test_columns_are_accepted_in_panels_as_one_by_one(triangular: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """600 columns of rank 400, dependent from the first ones on, some almost so: the same ones, residuals to 1e-12."""
    rng = np.random.default_rng(5)
    B = rng.standard_normal((900, 400))
    A = np.zeros((900, 600))
    fresh = np.sort(np.append(rng.choice(np.arange(5, 600), 397, replace=False), [0, 1, 2]))
    for k in range(600):
        before = int(np.searchsorted(fresh, k))
        few = fresh[rng.choice(before, min(before, 5), replace=False)]
        A[:, k] = 0.2 * A[:, few] @ rng.standard_normal(len(few))
        A[:, k] += (1.0 if rng.random() < 0.95 else 1e-3) * B[:, before] if k in fresh else 0.0
    A /= np.linalg.norm(A, axis=0)
    A = np.asarray(np.linalg.qr(A, mode="r")) if triangular else A
    monkeypatch.setattr(numeric, "PANEL", 10_000)
    whole = numeric.accept_columns(A, None)
    monkeypatch.setattr(numeric, "PANEL", 64)
    panels = numeric.accept_columns(A, None)
    assert np.flatnonzero(whole.accepted).tolist() == fresh.tolist()
    assert np.array_equal(panels.accepted, whole.accepted)
    assert_allclose(panels.residual, whole.residual, rtol=1e-9, atol=1e-11)


def test_large_robots_on_inexact_frames_say_that_samples_were_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a number of columns the exact result stands alone, with a warning; its parameters stay the same."""
    rng = np.random.default_rng(2)
    rows = [{"alpha": rng.uniform(-3.0, 3.0), "d": rng.uniform(0.1, 0.3), "r": 0.1} for _ in range(5)]
    table = Robot.from_mdh(rows, name="bent")
    robot = replace(table, links=tuple(replace(link, mdh=None) for link in table.links))
    compared = base_parameters(robot)
    monkeypatch.setattr(front_door, "MOST_SAMPLED", 20)
    alone = base_parameters(robot)
    assert alone.names == compared.names
    assert "exact_without_samples" in [w.code for w in alone.warnings]
    assert "exact_without_samples" not in [w.code for w in compared.warnings]
