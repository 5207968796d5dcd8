"""Exact base parameters of robots with loops: counts that no tolerance decides, and what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from campaign.loops import (
    as_couplings,
    check,
    closed,
    four_bar,
    hpr_closure,
    names_by_energy,
    slider_crank,
    spatial_loop,
    sr400_closure,
)

from command_line import CommandLine
from dynid import DynidError, Robot, base_parameters, compare_methods, load_robot
from dynid.identifiability.finite_field import find_over_finite_field
from dynid.identifiability.numeric import Question, model_matrix
from dynid.robot.motion import Motion
from dynid.robot.robot import Coupling
from dynid.robot.transform import Transform, freeze

PARALLELOGRAM = """
name = "para"
gravity = [0.0, -9.81, 0.0]
[[joint]]
LIMITS
[[joint]]
d = 0.4
[[joint]]
parent = 0
d = 0.7
[[closure]]
frames = ["2", "3"]
points = [[0.7, 0, 0], [0.4, 0, 0]]
keep = ["x", "y"]
passive = ["2", "3"]
start = [-1.5707963267948966, 1.5707963267948966]
at = [1.5707963267948966]
"""


def parallelogram(**options: object) -> Robot:
    robot = four_bar(0.7, 0.4, 0.7, 0.4, at=1.2, **options)  # type: ignore[arg-type]
    assert robot is not None
    return robot


def starting(robot: Robot, start: list[float], at: list[float]) -> Robot:
    closure = replace(robot.closures[0], start=freeze(start), at=freeze(at))
    return replace(robot, closures=(closure,))


@pytest.mark.parametrize("limits", ["", "limits = { position = [0.3, 2.8] }"])
def test_a_parallelogram_has_three_as_a_closure_and_as_couplings(limits: str, tmp_path: Path) -> None:
    file = tmp_path / "para.toml"
    file.write_text(PARALLELOGRAM.replace("LIMITS", limits))
    robot = load_robot(file)
    base = base_parameters(robot)
    assert base.method == "exact"
    assert base.names == ("ZZ1", "MX1", "MY1")
    assert not base.warnings
    assert base.relations[0] == "ZZR1 = ZZ1 + Ia1 + ZZ3 + 0.16*M2"
    coupled = base_parameters(as_couplings(robot), method="exact")
    np.testing.assert_allclose(coupled.matrix, base.matrix, rtol=0, atol=1e-15)
    assert base.certificate is not None
    assert coupled.certificate is not None
    assert base.gap == base.certificate.gap > 1e70
    assert dict(base.certificate.assembly) == pytest.approx({"1": math.pi / 2, "2": -math.pi / 2, "3": math.pi / 2})
    assert coupled.certificate.primes
    assert not coupled.certificate.assembly


@pytest.mark.parametrize("seed", range(8))
def test_random_mechanisms(seed: int) -> None:
    """Planar ones here (theory, couplings, energy rows in mpmath, five seeds); 300 of all kinds in the campaign."""
    block, kind = divmod(seed, 4)
    assert check(6 * block + kind) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4, 5, 10, 11])
def test_random_spatial_loops(seed: int) -> None:
    assert check(seed) is None


def test_spatial_loops() -> None:
    """A generic loop of seven revolute joints has 31; the slow test compares names with the other route."""
    for seed in (4, 10):
        assert base_parameters(spatial_loop(seed)).count == 31


@pytest.mark.parametrize(("robot", "count", "without"), [(hpr_closure(), 35, 32), (sr400_closure(), 42, 39)])
def test_closures_of_the_library_robots_equal_their_couplings(robot: Robot, count: int, without: int) -> None:
    coupled = load_robot(robot.name)
    for rotors, expected in ((True, count), (False, without)):
        base = base_parameters(robot, rotor_inertia=rotors)
        other = base_parameters(coupled, rotor_inertia=rotors)
        assert base.count == expected
        assert base.names == other.names
        np.testing.assert_allclose(base.matrix, other.matrix, rtol=0, atol=1e-14)
    assert base_parameters(robot).relations == base_parameters(coupled).relations


MODELS = ("torque", "static", "energy", "power", "momentum", "reaction", "torque+reaction")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["hpr", "slider_crank"])
def test_every_model_equals_its_samples_and_keeps_them(name: str, model: str) -> None:
    """Samples have velocities and accelerations, the exact rows positions alone."""
    robot = load_robot(name)
    for tared in (False, True) if "reaction" in model else (False,):
        base = base_parameters(robot, model=model, tared=tared)
        assert base.method == "exact"
        assert base.names == base_parameters(robot, model=model, tared=tared, method="qr").names
        rng = np.random.default_rng(0)
        motion = Motion(np.arange(20.0), *rng.uniform(-1.0, 1.0, (3, 20, robot.n)))
        W = model_matrix(Question(robot, model, True, tared, ()), motion)
        X = rng.standard_normal(len(robot.parameter_names))
        left = W[:, : len(X)] @ X - W[:, base.kept] @ base.values(X)
        if tared:
            T = W[:, len(X) :]
            left = left - T @ np.linalg.lstsq(T, left, rcond=None)[0]
        assert np.abs(left).max() < 1e-10


def test_measured_channels_and_known_zeros() -> None:
    from dynid.robot.force_sensor import ForceSensor

    robot = load_robot("hpr").with_sensor(ForceSensor(channels=("Fx", "Mz")))
    base = base_parameters(robot, model="reaction")
    field = find_over_finite_field(robot, model="reaction", channels=("Fx", "Mz"))
    assert base.kept == field.kept
    assert base.certificate is not None
    assert base.certificate.primes
    turned = ForceSensor(rotation=np.array([[0.6, 0.8, 0.0], [-0.8, 0.6, 0.0], [0.0, 0.0, 1.0]]))
    assert base_parameters(robot.with_sensor(turned), model="reaction").count == 37
    part = robot.with_sensor(replace(turned, channels=("Fx", "Mz")))
    assert base_parameters(part, model="reaction").method == "qr"
    with pytest.raises(DynidError, match="only in frame 0"):
        base_parameters(part, model="reaction", method="exact")
    links = tuple(replace(x, zero=frozenset({"ZZ", "MX"})) if k == 2 else x for k, x in enumerate(robot.links))
    bare = base_parameters(replace(load_robot("hpr"), links=links))
    assert bare.known == ("ZZ3", "MX3")
    assert not set(bare.known) & {*bare.names, *bare.no_effect, *bare.regrouped}
    assert bare.count == len(find_over_finite_field(replace(load_robot("hpr"), links=links)).kept)


def test_other_assemblies_of_the_same_table() -> None:
    assert base_parameters(parallelogram(crossed=True)).count == 8
    for crossed in (False, True):
        rhombus = four_bar(0.5, 0.5, 0.5, 0.5, at=1.2, crossed=crossed, least=0.0)
        assert rhombus is not None
        assert base_parameters(rhombus).count == 3


def test_a_rough_start_selects_the_nearest_assembly() -> None:
    rng = np.random.default_rng(5)
    for seed in range(8):
        rough = rng.uniform(-0.25, 0.25, 2)
        assert base_parameters(parallelogram(rough=rough)).count == 3, seed
        assert base_parameters(parallelogram(rough=rough, crossed=True)).count == 8, seed


@pytest.mark.parametrize("excess", [1e-14, 1e-12, 1e-9, 1e-7])
def test_lengths_that_are_almost_equal_are_reported(excess: float) -> None:
    robot = four_bar(0.7, 0.4, 0.7 + excess, 0.4, at=1.2)
    assert robot is not None
    base = base_parameters(robot)
    assert base.count == 8
    assert "ZZ2, MX2, MY2, ZZ3, MY3 are kept only because" in " ".join(base.warnings)


def test_lengths_that_rounding_parted_are_equal(tmp_path: Path) -> None:
    file = tmp_path / "para.toml"
    text = PARALLELOGRAM.replace("LIMITS", "").replace("[[joint]]\nd = 0.4", "[[joint]]\nd = '3*A'", 1)
    file.write_text(text.replace("[[joint]]", "[symbols]\nA = 0.1\n[[joint]]", 1).replace("[0.4,", "[0.3,"))
    assert 3 * 0.1 != 0.3
    assert base_parameters(load_robot(file)).count == 3


def test_a_coupling_that_is_almost_a_parallelogram_is_reported() -> None:
    robot = as_couplings(parallelogram())
    off = replace(robot, couplings=(Coupling("2", (("1", -1.0 + 1e-9),)), robot.couplings[1]))
    assert any("kept only because" in warning for warning in base_parameters(off).warnings)
    assert not base_parameters(robot).warnings


@pytest.mark.parametrize(
    ("start", "at", "words"),
    [
        ([0.0, 0.0], [0.0], "dead point"),
        ([0.02, -0.01], [0.0], "dead point"),
        ([math.pi, math.pi], [math.pi], "dead point"),
    ],
)
def test_an_assembly_at_a_dead_point_is_refused(start: list[float], at: list[float], words: str) -> None:
    robot = starting(parallelogram(), start, at)
    for method in (None, "exact"):
        with pytest.raises(DynidError, match=words) as error:
            base_parameters(robot, method=method)
        assert "start and at" in str(error.value)
        assert "\n" not in str(error.value)


def test_near_a_dead_point_the_mode_is_still_followed() -> None:
    for angle in (1e-2, 1e-4):
        assert base_parameters(starting(parallelogram(), [-angle, angle], [angle])).count == 3


def test_a_loop_that_does_not_close_is_refused() -> None:
    robot = parallelogram()
    short = replace(robot, closures=(replace(robot.closures[0], points=(freeze([0.1, 0, 0]), freeze([0.1, 0, 0]))),))
    with pytest.raises(DynidError, match="does not close near its declared assembly") as error:
        base_parameters(short)
    assert "\n" not in str(error.value)


def test_a_start_that_is_far_from_any_assembly_is_reported() -> None:
    base = base_parameters(starting(parallelogram(), [0.2, 2.8], [1.2]))
    assert base.count in (3, 8)
    assert any("far from its start" in warning for warning in base.warnings)


def test_couplings_and_closures_in_one_robot() -> None:
    """A parallelogram as a closure, a wrist geared to it: the same as couplings throughout."""
    rows = [{}, {"d": 0.4}, {"parent": 0, "d": 0.7}, {"parent": 2, "d": 0.3, "alpha": math.pi / 2}, {"d": 0.2}]
    robot = Robot.from_mdh(rows, gravity=(0.0, -9.81, 0.0), name="mixed")
    geared = Coupling("5", (("3", 2.0), ("4", -0.5)), math.pi / 2)
    implicit = closed(robot, ("2", "3"), ([0.7, 0, 0], [0.4, 0, 0]), ("2", "3"), [-1.2, 1.2], [1.2, 0.0])
    implicit = replace(implicit, couplings=(geared,))
    explicit = replace(as_couplings(robot), couplings=(*as_couplings(robot).couplings, geared))
    one, two = base_parameters(implicit), base_parameters(explicit)
    assert one.names == two.names
    assert two.certificate is not None
    assert two.certificate.primes
    np.testing.assert_allclose(one.matrix, two.matrix, rtol=0, atol=1e-13)


def test_two_loops_and_five_bars() -> None:
    """A second parallelogram on the coupler of the first: 6; a five-bar with two active joints: 11."""
    rows = [{}, {"d": 0.4}, {"parent": 0, "d": 0.7}, {"parent": 2}, {"parent": 4, "d": 0.3}, {"parent": 2, "d": 0.5}]
    robot = Robot.from_mdh(rows, gravity=(0.0, -9.81, 0.0), name="double")
    first = closed(robot, ("2", "3"), ([0.7, 0, 0], [0.4, 0, 0]), ("2", "3"), [-1.2, 1.2], [1.2, 0.8])
    second = closed(robot, ("5", "6"), ([0.5, 0, 0], [0.3, 0, 0]), ("5", "6"), [-0.8, 0.8], [1.2, 0.8])
    assert base_parameters(replace(robot, closures=(*first.closures, *second.closures))).count == 6
    rows = [{}, {"d": 0.3}, {"parent": 0, "d": 0.8}, {"parent": 3, "d": 0.35}]
    robot = Robot.from_mdh(rows, gravity=(0.0, -9.81, 0.0), name="five-bar")
    five = closed(robot, ("2", "4"), ([0.6, 0, 0], [0.6, 0, 0]), ("2", "4"), [-1.2, 1.0], [2.0, 1.0])
    assert base_parameters(five).count == 11


def test_mimic_joints_of_a_urdf(tmp_path: Path) -> None:
    from robot.io.test_urdf import ARM

    file = tmp_path / "arm.urdf"
    file.write_text(ARM)
    robot = load_robot(file)
    assert robot.couplings
    base = base_parameters(robot)
    assert base.names == base_parameters(robot, method="qr").names
    assert base.method == "exact"


def test_frames_known_to_the_precision_of_a_float_are_compared_with_samples() -> None:
    """The same robot in turned frames: rounding parts its parallel axes: 49 by the exact method."""
    rng = np.random.default_rng(1)
    robot = load_robot("hpr")
    turns = {-1: Transform.identity()}
    links = []
    for k, link in enumerate(robot.links):
        Q = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        turns[k] = Transform(Q * np.sign(np.linalg.det(Q)), np.zeros(3))
        placement = turns[link.parent].inverse() @ link.placement @ turns[k]
        links.append(replace(link, placement=placement, axis=turns[k].rotation.T @ link.axis, mdh=None))
    turned = replace(robot, links=tuple(links))
    base = base_parameters(turned)
    assert (base.method, base.count) == ("qr", 35)
    assert "precision of a float" in " ".join(base.warnings)
    exact = base_parameters(turned, method="exact")
    assert exact.count > 35
    assert "kept only because" in " ".join(exact.warnings)


def test_floating_bases_with_couplings() -> None:
    robot = load_robot("hpr", floating_base=True)
    base = base_parameters(robot)
    assert base.method == "exact"
    assert base.kept == find_over_finite_field(robot).kept
    with pytest.raises(DynidError, match="floating base"):
        base_parameters(robot, model="reaction", method="exact")


def test_only_the_direction_of_gravity_counts_and_none_does_too() -> None:
    robot = parallelogram()
    weak = replace(robot, gravity=np.array([0.0, -1e-6, 0.0]))
    assert base_parameters(weak).names == base_parameters(robot).names
    across = replace(robot, gravity=np.array([0.0, 0.0, -9.81]))
    none = replace(robot, gravity=np.zeros(3))
    assert base_parameters(across).names == base_parameters(none).names == ("ZZ1",)
    assert base_parameters(robot, model="momentum").names == ("ZZ1",)


def test_open_trees_take_the_recursion() -> None:
    base = base_parameters(load_robot("puma560"), method="exact")
    assert base.method == "nullspace"
    assert base.certificate is None
    assert base.count == 40


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "exact", "friction": ("viscous",)}, "method='qr' with friction"),
        ({"method": "exact", "rows": 30}, "rows= is for the samples of method='qr' or 'svd'"),
        ({"method": "nullspace"}, "method='exact'"),
        ({"method": "rules"}, "method='exact'"),
    ],
)
def test_what_belongs_to_other_methods(options: dict[str, object], words: str) -> None:
    with pytest.raises(DynidError, match=words):
        base_parameters(parallelogram(), **options)  # type: ignore[arg-type]


def test_friction_takes_samples() -> None:
    assert base_parameters(load_robot("slider_crank"), friction=("viscous",)).method == "qr"


def test_the_exact_method_is_the_reference_for_loops() -> None:
    robot = parallelogram()
    compared = compare_methods(robot)
    assert next(iter(compared.results)) == "exact"
    assert {"nullspace", "rules"} <= set(compared.refused)
    assert "agree" in compared.verdict or "trust exact" in compared.verdict
    with pytest.raises(DynidError, match="dead point"):
        compare_methods(starting(robot, [0.0, 0.0], [0.0]))


def test_the_command_shows_the_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = CommandLine(monkeypatch, capsys)
    file, out = tmp_path / "para.toml", tmp_path / "out.json"
    file.write_text(PARALLELOGRAM.replace("LIMITS", ""))
    result = run("base", str(file), "--method", "exact", "--json", str(out))
    text = " ".join(result.out.split())
    assert "3 base parameters (torque model, method exact)" in text
    assert "certificate: 3 independent columns proven" in text
    assert "assembly mode through 1 = 1.5708, 2 = -1.5708, 3 = 1.5708" in text
    facts = json.loads(out.read_text())
    assert facts["certificate"]["count"] == facts["count"] == 3
    assert facts["certificate"]["gap"] > 1e70
    assert facts["certificate"]["assembly"]["3"] == pytest.approx(math.pi / 2)
    coupled = run("base", "hpr", "--method", "exact")
    assert "modulo 2 primes" in " ".join(coupled.out.split())


def test_a_slider_crank_with_its_slider_beside_the_axis() -> None:
    robot = slider_crank(0.2, 0.7, 0.1, at=0.4, gravity=(1.0, -9.0, 0.0))
    assert base_parameters(robot).names == names_by_energy(robot, rotor_inertia=True)
