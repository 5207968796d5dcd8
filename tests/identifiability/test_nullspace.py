"""The exact recursion: published counts, corner cases, and its agreement with the finite field."""

from __future__ import annotations

import decimal
from dataclasses import dataclass, replace
from math import pi
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid import Robot, load_robot, regressor
from dynid.dynamics.scene import standard_columns
from dynid.errors import DynidError
from dynid.identifiability.exact_geometry import Angle, cosine_sine, read_angle, reads_exactly
from dynid.identifiability.finite_field import find_over_finite_field
from dynid.identifiability.nullspace import find_by_nullspace, find_kept_by_nullspace
from dynid.robot.inertia import SYMBOLS
from dynid.robot.robot import Link
from dynid.robot.transform import Array, Transform, freeze, rotation_x, rotation_z
from humanoid import humanoid
from robots import random_motion, random_tree

QUARTER = pi / 2
Rows: TypeAlias = tuple[dict[str, Any], ...]
CHANNELS = ("Fx", "Fy", "Fz", "Mx", "My", "Mz")
GRAVITIES = ((0.0, 0.0, -9.81), (0.0, -9.81, 0.0), (3.1, -2.2, -8.7), (0.0, 4.9, -8.5), (0.0, 0.0, 0.0))


@dataclass(frozen=True, slots=True)
class Case:
    """A robot and the question asked about it."""

    robot: Robot
    model: str
    rotor_inertia: bool
    tared: bool
    channels: tuple[str, ...] | None

    @property
    def question(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "rotor_inertia": self.rotor_inertia,
            "tared": self.tared,
            "channels": self.channels,
        }


def special_robot(rng: np.random.Generator, *, tiny: bool = False) -> Robot:
    """A chain or tree of 2 to 8 joints with the coincidences of real robots: right angles, lengths of zero.

    Half of them are bare, with most lengths zero and many slides: there the spaces of the recursion stay small.
    """
    serial, bare = rng.random(2) < 0.5
    small = [float(f"{rng.uniform(1, 9):.2f}e{-rng.integers(3, 16)}") for _ in range(2)] if tiny else []
    angles = [0.0, QUARTER, -QUARTER] if bare else [0.0, QUARTER, -QUARTER, pi, 0.0, QUARTER, 0.7, -0.7, pi / 6, pi / 3]
    kinds = ["revolute"] * 3 + ["prismatic"] * (3 if bare else 1) + ["fixed"]

    def length() -> float:
        if small and rng.random() < 0.25:
            return float(rng.choice(small))
        return 0.0 if rng.random() < (0.75 if bare else 0.4) else float(rng.choice([0.3, -0.2, 0.45]))

    def angle() -> float:
        return float(rng.choice(angles))

    rows: list[dict[str, Any]] = []
    for k in range(int(rng.integers(2, 6 if bare else 9))):
        row: dict[str, Any] = {"type": str(rng.choice(kinds)), "alpha": angle(), "d": length(), "r": length()}
        if not serial:
            row |= {"parent": int(rng.integers(max(0, k - 2), k + 1)), "gamma": angle(), "b": length()}
        if rng.random() < 0.3:
            row["theta"] = angle()
        rows.append(row)
    rows[-1]["type"] = str(rng.choice(["revolute", "prismatic"]))
    return Robot.from_mdh(rows, gravity=GRAVITIES[rng.integers(len(GRAVITIES))])


def reframe(robot: Robot, rng: np.random.Generator) -> Robot:
    """The same machine in link frames turned by right angles, so that axes lie along x, y or z: no table rows."""
    turns = [rotation_z(QUARTER * rng.integers(4)) @ rotation_x(QUARTER * rng.integers(4)) for _ in robot.links]
    links = []
    for link, Q in zip(robot.links, turns, strict=True):
        P = np.eye(3) if link.parent < 0 else turns[link.parent]
        placement = Transform(P.T @ link.placement.rotation @ Q, P.T @ link.placement.translation)
        links.append(replace(link, mdh=None, placement=placement, axis=freeze(Q.T @ link.axis)))
    return replace(robot, links=tuple(links))


def shuffle(robot: Robot, rng: np.random.Generator) -> Robot:
    order = rng.permutation(len(robot.links))
    place = {int(old): new for new, old in enumerate(order)} | {-1: -1}
    links = tuple(replace(robot.links[old], parent=place[robot.links[old].parent]) for old in order)
    return replace(robot, links=links)


def set_afloat(robot: Robot) -> Robot:
    still = Transform.identity()
    base = Link("base", "base", "0", -1, "floating", still, freeze([0, 0, 1]), freeze(np.ones(10)))
    return replace(robot, links=(base, *(replace(link, parent=link.parent + 1) for link in robot.links)))


def with_known_zeros(robot: Robot, rng: np.random.Generator) -> Robot:
    symbols = np.array([*SYMBOLS, "Ia"])
    links = tuple(replace(x, zero=frozenset(symbols[rng.random(11) < 0.25].tolist())) for x in robot.links)
    return replace(robot, links=links)


def random_case(seed: int, *, tiny: bool = False) -> Case:
    """One robot in five afloat, reframed, shuffled or with known zeros; all models."""
    rng = np.random.default_rng(seed)
    robot = special_robot(rng, tiny=tiny)
    dress = rng.integers(10)
    if dress == 0:
        return Case(set_afloat(robot), "torque", bool(rng.integers(2)), False, None)
    if dress in (1, 2) and not tiny and reads_exactly(turned := reframe(robot, rng)):
        robot = turned
    if dress == 3:
        robot = shuffle(robot, rng)
    if dress == 4:
        robot = with_known_zeros(robot, rng)
    model = str(rng.choice(["torque", "torque", "reaction", "reaction", "torque+reaction"]))
    channels = None
    if model != "torque" and rng.random() < 0.7:
        channels = tuple(name for name in CHANNELS if rng.random() < 0.5)
    return Case(robot, model, bool(rng.integers(2)), bool(rng.integers(2)), channels)


def names_kept(robot: Robot, **question: Any) -> tuple[str, ...]:
    names = standard_columns(robot, rotor_inertia=question.get("rotor_inertia", True)).names
    return tuple(names[k] for k in find_by_nullspace(robot, **question).kept)


def count(robot: Robot, **question: Any) -> int:
    found = find_by_nullspace(robot, **question)
    assert found.matrix.shape[0] == len(found.kept)
    return len(found.kept)


def plain_count(*rows: dict[str, Any], gravity: tuple[float, float, float] = GRAVITIES[0], **question: Any) -> int:
    return count(Robot.from_mdh(rows, gravity=gravity), **({"rotor_inertia": False} | question))


def measured_rows(case: Case, samples: int) -> Array:
    """Rows of the case's channels; the mean is taken off what has a free offset."""
    parts = []
    motion = random_motion(case.robot, samples=samples, seed=3)
    for model in case.model.split("+"):
        W = regressor(case.robot, motion, model=model, rotor_inertia=case.rotor_inertia)
        cube = W.matrix.reshape(samples, len(W.channels), -1)
        if model == "reaction":
            cube = cube[:, [k for k, name in enumerate(W.channels) if name in (case.channels or CHANNELS)]]
            cube = cube - cube.mean(axis=0) if case.tared else cube
        parts.append(cube.reshape(-1, cube.shape[2]))
    return np.concatenate(parts)


def random_values(case: Case) -> Array:
    names = standard_columns(case.robot, rotor_inertia=case.rotor_inertia).names
    X = np.random.default_rng(1).standard_normal(len(names))
    X[[k for k, name in enumerate(names) if name in case.robot.known_zeros]] = 0.0
    return X


def check_agreement(case: Case) -> None:
    """Kept columns as the finite field's."""
    expected = find_over_finite_field(case.robot, **case.question)
    assert expected.agree
    assert find_by_nullspace(case.robot, **case.question).kept == expected.kept


def check_regrouping(case: Case) -> None:
    """W[:, kept] (matrix X) = W X, to 1e-10 of the largest measurement."""
    found = find_by_nullspace(case.robot, **case.question)
    if case.channels == ():
        return
    W, X = measured_rows(case, samples=8), random_values(case)
    y = W @ X
    scale = 1e-10 * max(1.0, float(np.abs(y).max()))
    assert_allclose(W[:, found.kept] @ (found.matrix @ X), y, rtol=0.0, atol=scale)
    assert_allclose(found.matrix[:, found.kept], np.eye(len(found.kept)), rtol=0.0, atol=0.0)


@pytest.mark.parametrize(
    ("name", "question", "expected"),
    [
        ("puma560", {}, 40),
        ("puma560", {"rotor_inertia": False}, 36),
        ("puma560", {"model": "energy"}, 40),
        ("puma560", {"model": "reaction", "tared": True}, 40),
        ("puma560", {"model": "reaction"}, 41),
        ("puma560", {"model": "torque+reaction"}, 47),
        ("rx90", {}, 40),
        ("panda", {"rotor_inertia": False}, 43),
        ("panda", {"rotor_inertia": False, "model": "reaction"}, 48),
        ("iiwa", {"rotor_inertia": False}, 43),
        ("iiwa", {"rotor_inertia": False, "model": "reaction", "tared": True}, 47),
        ("ur10", {"rotor_inertia": False}, 36),
        ("scara", {"rotor_inertia": False}, 6),
        ("puma562", {"rotor_inertia": False}, 9),
        ("puma562", {"rotor_inertia": False, "model": "reaction"}, 11),
        ("puma562", {"rotor_inertia": False, "model": "reaction", "tared": True}, 10),
        ("one_link", {"rotor_inertia": False}, 2),
        ("one_link", {"rotor_inertia": False, "model": "reaction"}, 5),
    ],
)
def test_published_counts(name: str, question: dict[str, Any], expected: int) -> None:
    assert count(load_robot(name), **question) == expected


def test_a_floating_base_shows_all_its_parameters() -> None:
    robot = load_robot("puma560", floating_base=True)
    assert count(robot) == 58
    assert count(robot, rotor_inertia=False) == 52
    assert names_kept(robot)[:10] == robot.parameter_names[:10]


def test_regrouping_of_the_puma_560() -> None:
    """Gautier 1991, Table V: ZZR1 = Ia1 + ZZ1 + YY2 + D3^2 M3 + R3^2 M3 ... in the kept row of ZZ1."""
    robot = load_robot("puma560")
    found = find_by_nullspace(robot)
    names = robot.parameter_names
    row = dict(zip(names, found.matrix[found.kept.index(names.index("ZZ1"))], strict=True))
    assert row["Ia1"] == row["YY2"] == row["YY3"] == 1.0
    assert row["MZ3"] == pytest.approx(0.4, rel=1e-15)
    assert row["M3"] == pytest.approx(0.5**2 + 0.2**2, rel=1e-15)
    unused = [name for name, column in zip(names, found.matrix.T, strict=True) if not column.any()]
    assert unused == [*(s + "1" for s in SYMBOLS if s != "ZZ"), "MZ2", "M2"]


def test_without_gravity_axes_through_one_point() -> None:
    """Axes through one point without gravity, also behind a fixed joint."""
    still = GRAVITIES[-1]
    across = {"alpha": QUARTER}
    assert plain_count({}, across, gravity=still) == 6
    assert plain_count({}, across, {"alpha": -QUARTER}, gravity=still) == 11
    assert plain_count({"type": "fixed", "alpha": 0.3, "d": 0.2}, {"parent": 1}, across, gravity=still) == 6
    assert plain_count({}, across | {"d": 0.1}, gravity=still) == 8


def test_rotor_inertia_joins_the_link_it_turns() -> None:
    """Rotors of later joints: where their inertia joins others."""
    parallel = Robot.from_mdh([{}, {"d": 0.5}])
    assert {"Ia1", "Ia2"} & set(names_kept(parallel)) == {"Ia2"}
    across = Robot.from_mdh([{}, {"alpha": QUARTER, "d": 0.5}])
    assert not {"Ia1", "Ia2"} & set(names_kept(across))
    tilted = Robot.from_mdh([{}, {"alpha": 0.7, "d": 0.5}])
    assert "Ia2" in names_kept(tilted)
    slide = Robot.from_mdh([{"type": "prismatic", "alpha": QUARTER}, {"alpha": QUARTER}])
    assert "Ia1" not in names_kept(slide)
    lift = Robot.from_mdh([{"type": "prismatic"}, {"alpha": QUARTER}])
    assert "Ia1" in names_kept(lift)


def test_collinear_for_every_position() -> None:
    """R R R returns to the first axis only at q = 0, R P R always."""
    away, back = {"d": 0.5}, {"d": -0.5}
    elbow = names_kept(Robot.from_mdh([{}, away, back]), rotor_inertia=False)
    lift = names_kept(Robot.from_mdh([{}, away | {"type": "prismatic"}, back]), rotor_inertia=False)
    assert {"MX3", "MY3"} <= set(elbow)
    assert not {"MX3", "MY3"} & set(lift)


def test_one_joint_and_prismatic_chains() -> None:
    """Axes along gravity, turned by 180 degrees, almost parallel."""
    assert plain_count({}) == 1
    assert plain_count({"alpha": QUARTER}) == 3
    slide = {"type": "prismatic"}
    assert plain_count(slide, slide | {"alpha": QUARTER}, slide | {"alpha": QUARTER}) == 3
    assert plain_count({}, {"alpha": pi, "d": 0.4}) == plain_count({}, {"d": 0.4}) == 4
    assert plain_count({}, {"alpha": 1e-9}) == plain_count({}, {"alpha": 0.5}) == 8
    assert plain_count({}, {"alpha": 0.5, "theta": 0.3}, {"alpha": -0.5}) > plain_count({}, {}, {})


def test_angles_that_add_up_to_a_right_angle() -> None:
    """30 + 60 degrees make a right angle, although their floats do not."""
    rows: Rows = ({}, {"alpha": pi / 6, "type": "fixed"}, {"alpha": pi / 3, "d": 0.5}, {"alpha": QUARTER})
    direct: Rows = ({}, {"alpha": QUARTER, "d": 0.5}, {"alpha": QUARTER})
    assert plain_count(*rows) == plain_count(*direct)
    assert plain_count(*rows, rotor_inertia=True) == plain_count(*direct, rotor_inertia=True)


def test_reaction_counts_of_trees() -> None:
    """N_d, N_r and tared, gravity along the first axis."""
    three: Rows = ({}, {"alpha": QUARTER, "d": 0.1, "r": 0.2}, {"alpha": 0.4, "d": 0.3, "r": 0.1})
    lift: Rows = ({"type": "prismatic"}, {}, {"alpha": QUARTER, "d": 0.3})
    arm: Rows = ({"parent": 1, "alpha": QUARTER, "d": 0.3}, {"d": 0.4, "alpha": QUARTER})
    torso: Rows = ({}, *arm, arm[0] | {"d": -0.3}, arm[1])
    for rows, counts in ((three, (15, 20, 19)), (lift, (9, 15, 15)), (torso, (29, 34, 33))):
        torque = plain_count(*rows)
        reaction, tared = (plain_count(*rows, model="reaction", tared=choice) for choice in (False, True))
        assert (torque, reaction, tared) == counts


def test_forces_alone_miss_rotations() -> None:
    robot = load_robot("puma560")
    forces = count(robot, model="reaction", channels=("Fx", "Fy", "Fz"))
    moments = count(robot, model="reaction", channels=("Mx", "Mz"), tared=True)
    assert forces < moments == count(robot, model="reaction", tared=True)


def test_momentum_sees_no_gravity() -> None:
    robot = Robot.from_mdh([{}, {"alpha": QUARTER}, {"alpha": -QUARTER}])
    assert count(robot, model="momentum", rotor_inertia=False) == 11
    assert count(robot, rotor_inertia=False) > 11


@pytest.mark.parametrize("block", range(10))
def test_random_robots_agree_with_the_finite_field(block: int) -> None:
    for seed in range(16 * block, 16 * block + 16):
        case = random_case(seed)
        check_agreement(case)
        check_regrouping(case)


@pytest.mark.parametrize("block", range(4))
def test_tiny_offsets_agree_with_the_finite_field(block: int) -> None:
    for seed in range(10 * block, 10 * block + 10):
        check_agreement(random_case(5000 + seed, tiny=True))


@pytest.mark.parametrize("seed", range(12))
def test_arbitrary_axes(seed: int) -> None:
    robot = random_tree(seed, joints=5, floating=seed % 3 == 0, shuffled=seed % 3 == 1)
    case = Case(robot, "torque", seed % 2 == 0, False, None)
    check_agreement(case)
    check_regrouping(case)


@pytest.mark.parametrize("seed", range(30))
def test_the_count_does_not_depend_on_the_frames(seed: int) -> None:
    """The same machine with and without table rows; `reads_exactly` tells where floats are not good enough."""
    rng = np.random.default_rng(seed)
    robot = special_robot(rng)
    turned = reframe(robot, rng)
    assert reads_exactly(robot)
    if reads_exactly(turned):
        assert count(turned) == count(robot)


def test_the_humanoid() -> None:
    case = Case(humanoid(), "torque", True, False, None)
    assert count(case.robot) == 216
    check_regrouping(case)


def test_the_order_of_the_links_does_not_change_the_count() -> None:
    robot = load_robot("puma560")
    assert count(shuffle(robot, np.random.default_rng(1))) == 40


def test_the_callers_decimals_keep_their_precision() -> None:
    with decimal.localcontext() as context:
        context.prec = 9
        assert count(load_robot("puma560")) == 40
        assert decimal.getcontext().prec == 9
    assert count(load_robot("puma560")) == 40


def test_rounding_in_gravity_is_not_gravity() -> None:
    tilted = Robot.from_mdh([{}, {"alpha": QUARTER}], gravity=(9.81 * float(np.cos(QUARTER)), 0.0, -9.81))
    assert count(tilted) == count(Robot.from_mdh([{}, {"alpha": QUARTER}]))


def test_angles_are_read_as_what_they_stand_for() -> None:
    assert read_angle(-QUARTER) == Angle(270_000)
    assert read_angle(pi / 6) == Angle(30_000)
    assert read_angle(0.3) == Angle(None, decimal.Decimal("0.3"))
    assert read_angle(QUARTER + 1e-15).millidegrees is None
    for value in (0.3, -2.0, 7.5, pi / 5, 1e-12, 100.0):
        c, s = cosine_sine(read_angle(value))
        assert float(c) == pytest.approx(np.cos(value), abs=1e-15)
        assert float(s) == pytest.approx(np.sin(value), abs=1e-15)
        with decimal.localcontext(decimal.Context(prec=130)):
            assert abs(c * c + s * s - 1) < decimal.Decimal("1e-118")
    with decimal.localcontext(decimal.Context(prec=130)):  # cos 30 and cos 36 degrees are algebraic
        c30, c36 = cosine_sine(Angle(30_000))[0], cosine_sine(Angle(36_000))[0]
        assert abs(4 * c30 * c30 - 3) < decimal.Decimal("1e-118")
        assert abs(4 * c36 * c36 - 2 * c36 - 1) < decimal.Decimal("1e-118")
    quarters = [tuple(map(int, cosine_sine(Angle(k)))) for k in (0, 90_000, 180_000, 270_000)]
    assert quarters == [(1, 0), (0, 1), (-1, 0), (0, -1)]


def test_refusals_name_the_remedy() -> None:
    with pytest.raises(DynidError, match="method='exact'"):
        find_by_nullspace(load_robot("sr400"))
    with pytest.raises(DynidError, match="'lagrangian_gradient'"):
        find_by_nullspace(load_robot("puma560"), model="lagrangian_gradient")
    with pytest.raises(DynidError, match="Fq"):
        find_by_nullspace(load_robot("puma560"), model="reaction", channels=("Fq",))
    with pytest.raises(DynidError, match="floating"):
        find_by_nullspace(load_robot("puma560", floating_base=True), model="reaction")


@pytest.mark.parametrize("seed", range(6))
def test_kept_columns_alone(seed: int) -> None:
    """The kept columns without their rows, of trees, a person and an arm with known zeros."""
    for some in (random_tree(seed=seed), humanoid(), load_robot("puma560")):
        question: dict[str, Any] = {
            "model": "torque",
            "rotor_inertia": bool(seed % 2),
            "tared": False,
            "channels": None,
        }
        assert find_kept_by_nullspace(some, **question) == set(find_by_nullspace(some, **question).kept)
