"""The closed-form rules: published counts and relations, corner cases one by one, and a law over random robots."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid import Robot, base_parameters, load_robot, regressor
from dynid.dynamics.scene import standard_columns
from dynid.errors import ModelError
from dynid.identifiability.rules import RuleResult, find_by_rules
from dynid.robot.robot import Coupling
from dynid.robot.transform import Array, Transform, freeze, rotation_x, rotation_z
from robots import _shuffle, random_motion, random_rotation, random_tree
from rule_tables import ACROSS, DOWN, NONE, RIGHT, TILTED, as_polynomial, fixed, kept_names, row, slide, table, texts

# The oracle: left to right on unit columns, projecting on accepted columns only.


def random_rows(robot: Robot, *, rotor_inertia: bool, seed: int, share: float = 3.0) -> Array:
    """W with at least `share` rows per column; gravity of size 1 so that no part drowns."""
    size = float(np.linalg.norm(robot.gravity))
    robot = replace(robot, gravity=robot.gravity / size if size else robot.gravity)
    p = len(standard_columns(robot, rotor_inertia=rotor_inertia))
    samples = math.ceil(share * p / robot.n) + 5
    motion = random_motion(robot, samples=samples, seed=seed, spread=1.5)
    return regressor(robot, motion, rotor_inertia=rotor_inertia).matrix


def first_independent(W: Array, free: list[int], tolerance: float = 1e-9) -> tuple[int, ...]:
    Q = np.zeros((W.shape[0], 0))
    kept = []
    for k in free:
        size = np.linalg.norm(W[:, k])
        if size <= tolerance:
            continue
        w = W[:, k] / size
        for _ in range(2):
            w = w - Q @ (Q.T @ w)
        rest = np.linalg.norm(w)
        if rest > tolerance:
            kept.append(k)
            Q = np.hstack([Q, (w / rest)[:, None]])
    return tuple(kept)


def check(robot: Robot, *, rotor_inertia: bool, seed: int = 0) -> RuleResult:
    """The set is the first independent one, and the torques stay the same on fresh samples."""
    result = find_by_rules(robot, rotor_inertia=rotor_inertia)
    names = standard_columns(robot, rotor_inertia=rotor_inertia).names
    free = [k for k, name in enumerate(names) if name not in robot.known_zeros]
    W = random_rows(robot, rotor_inertia=rotor_inertia, seed=seed)
    expected = first_independent(W, free)
    got = result.regrouping.kept
    assert [names[k] for k in got] == [names[k] for k in expected]
    fresh = random_rows(robot, rotor_inertia=rotor_inertia, seed=seed + 1, share=1.0)
    X = np.random.default_rng(seed).standard_normal(len(names))
    X[[k for k in range(len(names)) if k not in free]] = 0.0
    y = fresh @ X
    assert_allclose(fresh[:, got] @ (result.regrouping.matrix @ X), y, rtol=0, atol=1e-10 * np.abs(y).max())
    assert set(got) | set(result.no_effect) | set(result.regrouped) == set(free)
    return result


def special_robot(rng: np.random.Generator) -> Robot:
    """A robot full of coincidences: axes parallel, perpendicular, meeting, along gravity."""
    n, serial = int(rng.integers(2, 9)), rng.random() < 0.6
    share_p, share_f = rng.choice([0.0, 0.2, 0.5]), rng.choice([0.0, 0.15])
    bend, offset = rng.choice([0.2, 0.5, 0.8]), rng.choice([0.1, 0.4, 0.8])
    if rng.random() < 0.3:
        bend, offset = 0.05, 0.3

    def angle() -> float:
        if rng.random() > bend:
            return 0.0
        return float(rng.choice([RIGHT, -RIGHT, math.pi, rng.uniform(-3, 3)], p=[0.35, 0.35, 0.15, 0.15]))

    def length() -> float:
        return float(rng.choice([0.25, -0.25, 0.5, round(rng.uniform(-1, 1), 3)])) if rng.random() < offset else 0.0

    rows = []
    for k in range(n):
        kind = rng.choice(["revolute", "prismatic", "fixed"], p=[1 - share_p - share_f, share_p, share_f])
        line: dict[str, Any] = {"type": str(kind), "alpha": angle(), "d": length(), "theta": angle(), "r": length()}
        if not serial and k:
            line["parent"] = int(rng.integers(0 if rng.random() < 0.3 else max(0, k - 2), k + 1))
        if (not serial and rng.random() < 0.5) or kind == "fixed":
            line |= {"gamma": angle(), "b": length()}
        rows.append(line)
    rows[int(rng.integers(n))]["type"] = "revolute"
    gravity = (DOWN, NONE, ACROSS, (0.0, 9.81, 0.0), TILTED)[rng.choice(5, p=[0.3, 0.3, 0.15, 0.1, 0.15])]
    return Robot.from_mdh(rows, gravity=gravity)


@pytest.mark.parametrize("seed", range(10))
def test_the_rules_choose_the_first_independent_columns_of_special_robots(seed: int) -> None:
    rng = np.random.default_rng([seed, 1994])
    for k in range(25):
        check(special_robot(rng), rotor_inertia=bool(rng.integers(2)), seed=k)


def in_other_frames(robot: Robot, rng: np.random.Generator, kinds: int = 3) -> Robot:
    """The same robot with link frames of its own: only moved along the axis, turned by right angles, or freely."""
    T_mdh_own = {-1: Transform.identity()}
    for k in range(len(robot.links)):
        quarters = rotation_x(RIGHT * rng.integers(4)) @ rotation_z(RIGHT * rng.integers(4))
        R = (np.eye(3), quarters, random_rotation(rng))[rng.integers(kinds)]
        T_mdh_own[k] = Transform(R, np.array([0.0, 0.0, rng.choice([0.0, 0.15, -0.4])]))  # still on the axis
    links = tuple(
        replace(
            link,
            placement=T_mdh_own[link.parent].inverse() @ link.placement @ T_mdh_own[k],
            axis=freeze(T_mdh_own[k].rotation.T @ link.axis),
            mdh=None,
        )
        for k, link in enumerate(robot.links)
    )
    return replace(robot, links=links)


def test_robots_in_other_frames_keep_their_own_first_columns() -> None:
    rng = np.random.default_rng(7)
    for k in range(40):
        robot = special_robot(rng)
        other = in_other_frames(robot, rng, kinds=1 + k % 3)
        count = len(find_by_rules(robot).regrouping.kept)
        assert len(check(other, rotor_inertia=True, seed=k).regrouping.kept) == count


def test_a_frame_moved_along_its_axis_mixes_moments_into_products_of_inertia() -> None:
    robot = table(row(alpha=-RIGHT), row(alpha=-RIGHT, d=0.25, r=0.1), gravity=NONE)
    links = tuple(replace(link, mdh=None) for link in robot.links)
    result = check(replace(robot, links=links), rotor_inertia=True)
    assert_allclose(result.regrouping.matrix, find_by_rules(robot).regrouping.matrix, rtol=0, atol=1e-15)


def test_arbitrary_trees_keep_their_own_first_columns() -> None:
    for seed in range(12):
        check(random_tree(seed, joints=5, shuffled=seed % 2 == 1), rotor_inertia=seed % 3 > 0, seed=seed)


def test_links_in_any_order_and_known_zeros_lead_to_the_first_free_columns() -> None:
    rng = np.random.default_rng(11)
    symbols = ("XX", "XY", "XZ", "YY", "YZ", "ZZ", "MX", "MY", "MZ", "M", "Ia")
    for k in range(60):
        robot = special_robot(rng)
        robot = _shuffle(robot, rng) if k % 3 else robot
        share = 0.3 if k % 2 else 0.0
        zeros = [frozenset(s for s in symbols if rng.random() < share) for _ in robot.links]
        robot = replace(robot, links=tuple(replace(li, zero=z) for li, z in zip(robot.links, zeros, strict=True)))
        check(robot, rotor_inertia=bool(rng.integers(2)), seed=k)


def test_passive_joints_have_no_rotor_and_couplings_are_left_to_the_caller() -> None:
    rng = np.random.default_rng(13)
    for k in range(30):
        tree = special_robot(rng)
        if tree.n < 2:
            continue
        active, passive = (tree.joint_names[i] for i in rng.choice(tree.n, 2, replace=False))
        robot = replace(tree, couplings=(Coupling(passive, ((active, 1.0),), 0.0),))
        names = standard_columns(robot).names
        W = random_rows(tree, rotor_inertia=True, seed=k)
        W = W[:, [standard_columns(tree).names.index(name) for name in names]]
        assert find_by_rules(robot).regrouping.kept == first_independent(W, list(range(len(names))))


# Published counts, relations and values.


@pytest.mark.parametrize(
    ("name", "with_rotors", "without"),
    [("puma560", 40, 36), ("rx90", 40, 36), ("ur10", 40, 36), ("panda", 48, 43), ("scara", 9, 6)],
)
def test_known_robots_have_their_known_counts(name: str, with_rotors: int, without: int) -> None:
    robot = load_robot(name)
    counts = [len(find_by_rules(robot, rotor_inertia=r).regrouping.kept) for r in (True, False)]
    assert counts == [with_rotors, without]


@pytest.mark.parametrize(("name", "count"), [("hpr", 47), ("sr400", 55)])
def test_open_trees_of_closed_robots_have_their_known_counts(name: str, count: int) -> None:
    robot = replace(load_robot(name), couplings=(), closures=())
    assert len(find_by_rules(robot).regrouping.kept) == count


def test_puma_560_loses_the_parameters_of_table_v() -> None:
    """Gautier 1991, Table V: 11 without effect, 15 regrouped."""
    robot = load_robot("puma560")
    names, result = robot.parameter_names, find_by_rules(robot)
    assert " ".join(names[k] for k in result.no_effect) == "XX1 XY1 XZ1 YY1 YZ1 MX1 MY1 MZ1 M1 MZ2 M2"
    gone = "Ia1 YY2 Ia2 YY3 MZ3 M3 YY4 MZ4 M4 YY5 MZ5 M5 YY6 MZ6 M6"
    assert " ".join(names[k] for k in result.regrouped) == gone


PUMA_560 = {  # Gautier 1991, Table III
    "ZZ1": 5.01856, "XX2": -2.05, "XY2": 0.7, "XZ2": -1.07, "YZ2": 0.65, "ZZ2": 6.55, "MX2": 4.3, "MY2": 0.6,
    "XX3": 0.76344, "XY3": 0.6872, "XZ3": 0.55, "YZ3": -0.6, "ZZ3": 0.96456, "MX3": 0.528, "MY3": 1.14,
    "Ia3": 1.0, "XX4": -0.42, "XY4": 0.02, "XZ4": 0.02, "YZ4": 0.015, "ZZ4": 0.07, "MX4": 0.02, "MY4": -0.07,
    "Ia4": 0.3, "XX5": 0.02, "XY5": 0.01, "XZ5": 0.01, "YZ5": 0.01, "ZZ5": 0.06, "MX5": 0.02, "MY5": 0.03,
    "Ia5": 0.3, "XX6": 0.0, "XY6": 0.01, "XZ6": 0.01, "YZ6": 0.01, "ZZ6": 0.02, "MX6": 0.01, "MY6": 0.01,
    "Ia6": 0.3,
}  # fmt: skip


def test_puma_560_has_the_values_of_table_iii() -> None:
    robot = load_robot("puma560")
    regrouping = find_by_rules(robot).regrouping
    values = dict(
        zip((robot.parameter_names[k] for k in regrouping.kept), regrouping.matrix @ robot.parameters, strict=True)
    )
    assert list(values) == list(PUMA_560)
    assert_allclose(list(values.values()), list(PUMA_560.values()), rtol=0, atol=1e-9)


TABLE_V = (
    "ZZR1 = ZZ1 + YY2 + YY3 + 2*R3*MZ3 + (R3**2 + D3**2 + D4**2)*(M4 + M5 + M6) + (R3**2 + D3**2)*M3 + Ia1",
    "XXR2 = XX2 - YY2 - D3**2*(M3 + M4 + M5 + M6)",
    "XZR2 = XZ2 - D3*MZ3 - D3*R3*(M3 + M4 + M5 + M6)",
    "ZZR2 = ZZ2 + D3**2*(M3 + M4 + M5 + M6) + Ia2",
    "MXR2 = MX2 + D3*(M3 + M4 + M5 + M6)",
    "XXR3 = XX3 - YY3 + YY4 + 2*R4*MZ4 + (R4**2 - D4**2)*(M4 + M5 + M6)",
    "XYR3 = XY3 - D4*MZ4 - D4*R4*(M4 + M5 + M6)",
    "ZZR3 = ZZ3 + YY4 + 2*R4*MZ4 + (D4**2 + R4**2)*(M4 + M5 + M6)",
    "MXR3 = MX3 + D4*(M4 + M5 + M6)",
    "MYR3 = MY3 + MZ4 + R4*(M4 + M5 + M6)",
    "XXR4 = XX4 - YY4 + YY5",
    "ZZR4 = ZZ4 + YY5",
    "MYR4 = MY4 - MZ5",
    "XXR5 = XX5 - YY5 + YY6",
    "ZZR5 = ZZ5 + YY6",
    "MYR5 = MY5 + MZ6",
    "XXR6 = XX6 - YY6",
)  # Gautier 1991, Table V


def test_puma_560_has_the_seventeen_relations_of_table_v() -> None:
    printed = texts(load_robot("puma560"), rotor_inertia=True, symbolic=True)
    assert [as_polynomial(t) for t in printed] == [as_polynomial(t) for t in TABLE_V]


def test_puma_560_reads_like_table_v() -> None:
    printed = texts(load_robot("puma560"), rotor_inertia=True, symbolic=True)
    assert printed[0] == (
        "ZZR1 = ZZ1 + Ia1 + YY2 + YY3 + 2*R3*MZ3 + (D3**2 + R3**2)*M3 + (D3**2 + R3**2 + D4**2)*(M4 + M5 + M6)"
    )
    assert set(printed) > set(TABLE_V[10:])
    assert printed[5] == "XXR3 = XX3 - YY3 + YY4 + 2*R4*MZ4 + (R4**2 - D4**2)*(M4 + M5 + M6)"


# Corner cases: the names that stay, without rotor inertias unless said.


@pytest.mark.parametrize(("gravity", "kept"), [(DOWN, "ZZ1"), (NONE, "ZZ1"), (TILTED, "ZZ1 MX1 MY1")])
def test_one_axis_feels_only_gravity_that_is_not_along_it(gravity: tuple[float, ...], kept: str) -> None:
    assert kept_names(table(row(r=0.3), gravity=gravity)) == kept


def test_a_horizontal_axis_has_three_parameters() -> None:
    assert kept_names(table(row(alpha=RIGHT))) == "ZZ1 MX1 MY1"


def test_gravity_with_rounding_across_the_axis_is_along_it() -> None:
    assert kept_names(table(row(), gravity=(6e-16, 0.0, -9.81))) == "ZZ1"


@pytest.mark.parametrize("gravity", [(5e-15, 0.0, -9.81), (5e-14, 0.0, -9.81), (0.0, 5e-13, -9.81)])
@pytest.mark.parametrize("steps", range(4))
def test_rules_and_recursion_read_the_same_numbers(gravity: tuple[float, ...], steps: int) -> None:
    """Gravity almost along the first axis, and an angle some units in the last place off 90 degrees."""
    robot = table(row(), row(alpha=RIGHT + steps * math.ulp(RIGHT), d=0.3), gravity=gravity)
    rules, recursion = (base_parameters(robot, method=method) for method in ("rules", "nullspace"))
    assert rules.names == recursion.names


FULL = "XX{0} XY{0} XZ{0} YZ{0} ZZ{0}"


def test_two_axes_that_meet_have_six_parameters_without_gravity() -> None:
    robot = table(row(), row(alpha=RIGHT, r=0.3), gravity=NONE)
    assert kept_names(robot) == "ZZ1 " + FULL.format(2)
    assert "XZR2 = XZ2 - 0.3*MX2" in texts(robot)
    assert "YZR2 = YZ2 - 0.3*MY2" in texts(robot)
    check(robot, rotor_inertia=False)


def test_two_oblique_axes_may_meet_away_from_both_origins() -> None:
    robot = table(row(), row(gamma=0.2, b=0.4, alpha=0.5, r=0.3), gravity=NONE)
    assert "XZR2 = XZ2 - 0.3*MX2" in texts(robot)
    assert len(check(robot, rotor_inertia=False).regrouping.kept) == 6


@pytest.mark.parametrize("change", [{"gravity": (0.0, 0.0, -9.81)}, {"d": 0.1}])
def test_two_axes_with_gravity_or_apart_have_eight_parameters(change: dict[str, Any]) -> None:
    robot = table(row(), row(alpha=RIGHT, d=change.get("d", 0.0)), gravity=change.get("gravity", NONE))
    assert len(find_by_rules(robot, rotor_inertia=False).regrouping.kept) == 8


def test_a_spherical_wrist_has_eleven_parameters_without_gravity() -> None:
    robot = table(row(), row(alpha=RIGHT, r=0.3), row(alpha=-RIGHT, r=-0.2), gravity=NONE)
    assert len(find_by_rules(robot, rotor_inertia=False).regrouping.kept) == 13  # the third axis passes by O at r2
    meeting = table(row(), row(alpha=RIGHT), row(alpha=-RIGHT, r=-0.2), gravity=NONE)
    assert kept_names(meeting) == f"ZZ1 {FULL.format(2)} {FULL.format(3)}"
    assert "XZR3 = XZ3 + 0.2*MX3" in texts(meeting)


def test_axes_that_meet_behind_a_fixed_joint_count_too() -> None:
    bent = table(row(), fixed(alpha=0.4, d=0.3), row(alpha=RIGHT, theta=0.1, d=-0.3), gravity=NONE)
    assert len(check(bent, rotor_inertia=False).regrouping.kept) == 6
    apart = table(row(), fixed(alpha=0.4, d=0.3), row(alpha=RIGHT, d=-0.2), gravity=NONE)
    assert len(check(apart, rotor_inertia=False).regrouping.kept) == 8


def test_a_slide_hides_no_moment_of_axes_that_meet() -> None:
    robot = table(row(), slide(), row(alpha=RIGHT), gravity=NONE)
    assert kept_names(robot) == f"ZZ1 M2 {FULL.format(3)} MX3 MY3"


def test_the_first_rotor_joins_the_first_inertia() -> None:
    assert kept_names(table(slide(alpha=0.3), row(alpha=0.7)), rotor_inertia=True) == "M1 Ia1 ZZ2 MX2 MY2"
    assert texts(table(row()), rotor_inertia=True) == ("ZZR1 = ZZ1 + Ia1",)


@pytest.mark.parametrize(("alpha", "joins"), [(RIGHT, True), (-RIGHT, True), (1.5, False), (0.0, False)])
def test_the_second_rotor_joins_only_across_the_first_axis(alpha: float, joins: bool) -> None:
    robot = table(row(), row(alpha=alpha, d=0.2), row(alpha=RIGHT))
    assert ("Ia2" in kept_names(robot, rotor_inertia=True).split()) != joins


def test_the_rotor_of_a_third_axis_across_the_first_joins_when_it_is_the_first_not_parallel() -> None:
    robot = table(row(), row(d=0.4), row(alpha=RIGHT), row(alpha=RIGHT))
    assert [n for n in kept_names(robot, rotor_inertia=True).split() if n[:2] == "Ia"] == ["Ia2", "Ia4"]


def test_slides_across_gravity_and_each_other_take_their_rotors() -> None:
    robot = table(slide(alpha=RIGHT), slide(alpha=RIGHT, theta=RIGHT), slide(alpha=0.5), gravity=NONE)
    assert kept_names(robot, rotor_inertia=True) == "M1 M2 M3 Ia3"
    assert texts(robot, rotor_inertia=True) == ("MR1 = M1 + Ia1 - Ia2", "MR2 = M2 + Ia2")


def test_a_slide_along_gravity_keeps_its_rotor() -> None:
    assert kept_names(table(slide()), rotor_inertia=True) == "M1 Ia1"
    assert kept_names(table(slide(), gravity=ACROSS), rotor_inertia=True) == "M1"


def test_a_slide_parallel_to_the_first_axis_takes_its_rotor_across_gravity() -> None:
    rows = row(), slide(d=0.3)
    assert kept_names(table(*rows, gravity=ACROSS), rotor_inertia=True) == "ZZ1 MX1 MY1 M2"
    assert kept_names(table(*rows, gravity=DOWN), rotor_inertia=True) == "ZZ1 M2 Ia2"
    assert "ZZR1 = ZZ1 + Ia1 + ZZ2 + 0.6*MX2 - 0.09*Ia2" in texts(table(*rows, gravity=NONE), rotor_inertia=True)
    oblique = table(row(), slide(alpha=RIGHT), gravity=NONE)
    assert "Ia2" in kept_names(oblique, rotor_inertia=True)


def test_a_slide_after_a_parallel_slide_keeps_its_rotor() -> None:
    robot = table(row(), slide(), slide(d=0.2), gravity=NONE)
    assert kept_names(robot, rotor_inertia=True) == "ZZ1 M2 M3 Ia3"


def test_axes_in_line_at_q_zero_only_are_not_in_line() -> None:
    assert kept_names(table(row(), row(d=0.5), row(d=-0.5))) == "ZZ1 ZZ2 MX2 MY2 ZZ3 MX3 MY3"


def test_axes_in_line_through_a_slide_are_in_line() -> None:
    assert kept_names(table(row(), slide(d=0.5), row(d=-0.5))) == "ZZ1 M2 ZZ3"
    assert kept_names(table(row(), slide(d=0.5), row(d=-0.4))) == "ZZ1 M2 ZZ3 MX3 MY3"


def test_an_oblique_slide_before_or_between_moves_the_line() -> None:
    before = table(slide(alpha=RIGHT), row(alpha=-RIGHT))
    assert kept_names(before) == "M1 ZZ2 MX2 MY2"
    between = table(row(), slide(alpha=RIGHT), row(alpha=-RIGHT))
    assert kept_names(between).endswith("ZZ3 MX3 MY3")


def test_a_half_turn_counts_as_parallel() -> None:
    assert kept_names(table(row(), row(alpha=math.pi, d=0.5))) == "ZZ1 ZZ2 MX2 MY2"
    assert kept_names(table(row(), row(alpha=math.pi))) == "ZZ1 ZZ2"


def test_slides_alone_leave_their_masses() -> None:
    assert kept_names(table(slide(), slide(alpha=0.4), slide(alpha=RIGHT, d=0.2))) == "M1 M2 M3"


def test_the_angle_of_a_slide_can_undo_the_bend_before_it() -> None:
    robot = table(row(), slide(alpha=0.7), row(alpha=-0.7))  # parallel to r1 again
    assert kept_names(robot) == "ZZ1 MX2 MY2 M2 ZZ3 MX3 MY3"


@pytest.mark.parametrize(
    ("letters", "kept", "text"),
    [
        ({"alpha": 0.5}, "MX2 MY2 M2", "MYR2 = MY2 - 0.546302*MZ2"),
        ({"alpha": RIGHT, "theta": 0.5}, "MX2 MZ2 M2", "MXR2 = MX2 - 0.546302*MY2"),
        ({"alpha": RIGHT}, "MX2 MZ2 M2", None),
        ({"alpha": RIGHT, "theta": RIGHT}, "MY2 MZ2 M2", None),
    ],
)
def test_an_oblique_slide_loses_one_moment(letters: dict[str, float], kept: str, text: str | None) -> None:
    """Khalil & Bennis 1994, Table 1, column by column."""
    robot = table(row(), slide(**letters))
    assert kept_names(robot) == "ZZ1 " + kept
    assert [t for t in texts(robot) if t.startswith("M")] == ([text] if text else [])
    check(robot, rotor_inertia=False)


def test_a_parallel_slide_follows_relation_6() -> None:
    """Khalil & Bennis 1994, relation (6): moments to the link before, 2 d C and -2 d S to ZZ_i."""
    robot = table(row(), slide(alpha=math.pi, d="D2", theta="T2"), gravity=TILTED, D2=0.3, T2=0.4)
    assert texts(robot, symbolic=True) == (
        "ZZR1 = ZZ1 + ZZ2 + 2*D2*cos(T2)*MX2 - 2*D2*sin(T2)*MY2",
        "MXR1 = MX1 + cos(T2)*MX2 - sin(T2)*MY2",
        "MYR1 = MY1 - sin(T2)*MX2 - cos(T2)*MY2",
    )
    check(robot, rotor_inertia=False)


def test_relation_6_comes_before_table_1() -> None:
    robot = table(row(), slide(alpha=0.6, d=0.2), slide(alpha=-0.6, d=0.1), gravity=TILTED)
    assert kept_names(robot) == "ZZ1 MX1 MY1 MX2 MY2 M2 M3"
    check(robot, rotor_inertia=False)


def test_relation_6_in_a_tree_uses_the_full_pose() -> None:
    robot = table(row(), slide(gamma=0.3, b=0.2, d=0.4, theta=0.5, r=0.1), slide(parent=1, gamma=1.0, d=0.2))
    assert kept_names(robot) == "ZZ1 M2 M3"
    check(robot, rotor_inertia=True)


def test_branches_from_the_base_have_their_own_first_axis() -> None:
    robot = table(row(), row(parent=0, alpha=RIGHT), row(parent=2, alpha=RIGHT))
    assert kept_names(robot, rotor_inertia=True) == f"ZZ1 ZZ2 MX2 MY2 {FULL.format(3)} MX3 MY3"


def test_a_fixed_link_joins_its_parent_completely() -> None:
    robot = table(row(), row(alpha=RIGHT), fixed(alpha=0.3, d=0.2, theta=0.1, r=0.4))
    result = check(robot, rotor_inertia=True)
    assert not any(robot.parameter_names[k].endswith("3") for k in result.regrouping.kept)


def test_a_fixed_link_on_the_base_has_no_effect() -> None:
    robot = table(fixed(alpha=RIGHT), row())
    assert set(range(10)) <= set(find_by_rules(robot).no_effect)
    assert kept_names(robot) == "ZZ2 MX2 MY2"


@pytest.mark.parametrize("offset", [1e-4, 1e-9, 1e-15])
def test_offsets_count_however_small_they_are(offset: float) -> None:
    """Beside normal lengths these drown in floating-point ranks."""
    assert kept_names(table(row(r=1.0), row(d=offset))) == "ZZ1 ZZ2 MX2 MY2"
    assert len(find_by_rules(table(row(), row(alpha=RIGHT, d=offset), gravity=NONE)).regrouping.kept) == 8


def test_an_angle_close_to_ninety_degrees_is_not_ninety_degrees() -> None:
    near = table(row(), row(alpha=1.5708))
    assert "Ia2" in kept_names(near, rotor_inertia=True)


def test_cancelling_lengths_and_angles_cancel_exactly() -> None:
    """0.1 + 0.2 - 0.3 is not 0 in floating point, nor are 30 + 60 degrees a right angle."""
    flat = table(row(), slide(d=0.1), slide(d=0.2), row(d=-0.3))
    assert kept_names(flat) == "ZZ1 M2 M3 ZZ4"
    bent = table(row(), fixed(alpha=0.1), fixed(alpha=0.2), row(alpha=-0.3, d=0.1))
    assert kept_names(bent) == "ZZ1 ZZ4 MX4 MY4"
    for first in (1.0, 30.0, 45.0, 22.5, 0.125):
        square = table(row(), fixed(alpha=math.radians(first)), row(alpha=math.radians(90.0 - first)))
        assert "Ia3" not in kept_names(square, rotor_inertia=True)
    assert "Ia3" in kept_names(table(row(), fixed(alpha=0.7), row(alpha=0.87)), rotor_inertia=True)


def test_a_slide_across_the_axis_by_two_bends_loses_the_right_moment() -> None:
    robot = table(row(), fixed(alpha=math.radians(30.0)), slide(alpha=math.radians(60.0), theta=0.5))
    assert kept_names(robot) == "ZZ1 MX3 MZ3 M3"


def test_a_floating_base_is_refused() -> None:
    with pytest.raises(ModelError, match="nullspace"):
        find_by_rules(random_tree(3, floating=True))
