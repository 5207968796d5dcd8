"""Points and the motion through them, on the robot and the limits of Gautier & Khalil 1992."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaign.robots import ur5, with_share_of_effort

from dynid import Excitation, Robot, design_excitation, regressor
from dynid.errors import ExcitationError
from dynid.excitation import points_search as goal_module
from dynid.excitation import points_search as search_module
from dynid.excitation.criteria import BaseRows, condition_number, scaling_number
from dynid.excitation.design import RATIOS, pareto_front
from dynid.excitation.points import PointLimits, PointsShape, PointVariables
from dynid.excitation.points_search import (
    HomotopyStage,
    PointsSearch,
    SmoothedCriterion,
    design_points,
    shrink_to_fit,
)
from dynid.excitation.quintics import Quintics, turning_points
from dynid.excitation.shape import use_of_limits
from dynid.excitation.starts import random_points
from dynid.excitation.torque_limits import CONFINED, Effort
from dynid.robot.load import load_robot
from dynid.robot.motion import Motion
from dynid.robot.robot import Limits
from dynid.robot.transform import Array

UNLIMITED = np.full(3, np.inf)
A = Limits(np.tile([-np.pi / 2, np.pi / 2], (3, 1)), np.full(3, 0.7), UNLIMITED, UNLIMITED)
MOVING = replace(A, acceleration=np.full(3, 3.0))


@cache
def rows_of(robot: str, model: str = "energy") -> BaseRows:
    return BaseRows.for_robot(load_robot(robot), model=model, rotor_inertia=False, friction=())


def design(
    points: int,
    *,
    limits: Limits = A,
    criterion: str = "condition",
    weights: tuple[float, float] = (1.0, 0.0),
    starts: int = 8,
    seed: int = 0,
    rows: BaseRows | None = None,
    seconds: float = np.inf,
) -> PointsShape:
    end = time.monotonic() + seconds
    return design_points(
        rows or rows_of("gautier3"),
        criterion=criterion,
        weights=weights,
        limits=limits,
        points=points,
        starts=starts,
        seed=seed,
        time_left=lambda: end - time.monotonic(),
        on_progress=None,
    )


def matrix(shape: PointsShape) -> Array:
    return rows_of("gautier3").matrix(shape.exciting_motion())


def root_use(shape: PointsShape, limits: Limits) -> float:
    """Peak over limit with numpy's roots of each polynomial."""
    assert shape.path is not None
    path, worst = shape.path, 0.0
    middle, half = limits.position.mean(axis=1), 0.5 * np.ptp(limits.position, axis=1)
    c = path.coefficients()
    for i, j in itertools.product(range(len(path.u)), range(path.q.shape[1])):
        poly = np.poly1d(c[i, j, ::-1])
        for order, limit in enumerate((half[j], limits.velocity[j], limits.acceleration[j])):
            p = np.polyder(poly, order) if order else poly - middle[j]
            s = np.roots(np.polyder(p))
            s = np.concatenate([[0.0, 1.0], np.clip(s.real[np.abs(s.imag) < 1e-6], 0.0, 1.0)])
            worst = max(worst, float(np.abs(p(s)).max() / path.u[i] ** order / limit))
    return worst


@pytest.mark.parametrize(
    ("points", "target", "starts"),
    [
        (30, 12.5, 3),
        (100, 4.5, 2),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((15, 27.0, 8), (20, 20.0, 4), (50, 8.0, 2))),
    ],
)
def test_condition_on_the_papers_robot(points: int, target: float, starts: int) -> None:
    shape = design(points, starts=starts)
    W = matrix(shape)
    assert W.shape == (points, 15)
    assert condition_number(W) <= target
    assert use_of_limits(shape.extremes(), A).max() <= 1.0


@pytest.mark.parametrize(("points", "mean"), [(30, 953.98), (100, 496.41), (500, 422.05)])
def test_random_sequences_are_those_of_table_2(points: int, mean: float) -> None:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(50):
        q, v = random_points(A, points, rng)
        found.append(condition_number(rows_of("gautier3").matrix(Motion(np.arange(points + 1.0), q, v, 0.0 * q))))
    assert np.mean(found) == pytest.approx(mean, rel=0.25)


@pytest.mark.slow
def test_most_seeds_end_near_the_best() -> None:
    found = [condition_number(matrix(design(30, starts=2, seed=seed))) for seed in range(3)]
    assert np.median(found) <= 1.3 * min(found)


@pytest.mark.parametrize(
    ("points", "target", "starts", "seed"),
    [pytest.param(*case, marks=pytest.mark.slow) for case in ((15, (42.0, 240.0), 4, 0), (30, (19.5, 170.0), 6, 0))],
)
def test_condition_and_scaling_together(points: int, target: tuple[float, float], starts: int, seed: int) -> None:
    W = matrix(design(points, criterion="condition+scaling", weights=(1.0, 0.03), starts=starts, seed=seed))
    assert condition_number(W) <= target[0]
    assert scaling_number(W, rows_of("gautier3").nonzero_entries(points)) <= target[1]


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that stops early, for laws that any end of it must keep."""
    monkeypatch.setattr(goal_module, "SHARPNESS", (2.0, 8.0))
    monkeypatch.setattr(search_module, "ROUNDS", 1)


@pytest.mark.slow
def test_the_motion_through_the_points_is_valid_at_every_instant() -> None:
    shape = design(30, limits=MOVING, starts=2)
    assert condition_number(matrix(shape)) <= 16.0
    assert shape.duration <= 30.0
    assert use_of_limits(shape.extremes(), MOVING).max() <= 1.0
    assert root_use(shape, MOVING) <= 1.0 + 1e-9
    goes_from_rest_to_rest_through_the_points(shape)


def goes_from_rest_to_rest_through_the_points(shape: PointsShape) -> None:
    motion = shape.motion(500.0)
    assert np.abs(motion.v[[0, -1]]).max() < 1e-12
    assert np.abs(motion.a[[0, -1]]).max() < 1e-9
    assert motion.t[-1] == pytest.approx(shape.duration, abs=2e-3)
    assert shape.path is not None
    at = shape.path.sample(shape.times)
    np.testing.assert_allclose(at.q, shape.q, atol=1e-12)
    np.testing.assert_allclose(at.v, shape.v, atol=1e-11)
    np.testing.assert_allclose(np.diff(motion.q, axis=0) * 500.0, motion.v[:-1], atol=0.01)
    np.testing.assert_allclose(np.diff(motion.v, axis=0) * 500.0, motion.a[:-1], atol=0.5)
    x = shape.extremes()
    assert np.all(np.abs(motion.v).max(axis=0) <= x.speed + 1e-12)
    assert np.all(np.abs(motion.a).max(axis=0) <= x.acceleration + 1e-12)


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("limits", [A, pytest.param(MOVING, marks=pytest.mark.slow)])
def test_the_seed_decides(limits: Limits) -> None:
    first, again, other = (design(16, limits=limits, starts=1, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.q, again.q)
    np.testing.assert_array_equal(first.v, again.v)
    assert not np.array_equal(first.q, other.q)


@pytest.mark.parametrize(
    ("stage", "torque", "jerk"),
    [
        (HomotopyStage(4.0, 0.0, 10.0), np.inf, np.inf),
        (HomotopyStage(2.0, 0.01, 1.0), np.inf, np.inf),
        (HomotopyStage(2.0, np.inf, 1.0), np.inf, np.inf),
        (HomotopyStage(2.0, 0.0, 10.0), 20.0, np.inf),
        (HomotopyStage(2.0, 0.0, 10.0), np.inf, 6.0),
    ],
)
def test_slopes_are_exact(stage: HomotopyStage, torque: float, jerk: float) -> None:
    rows = rows_of("gautier3")
    goal = SmoothedCriterion.for_rows("condition+scaling", (1.0, 0.1), rows, 16, None)
    effort = Effort.for_robot(rows.robot, replace(MOVING, effort=np.full(3, torque)))
    search = PointsSearch(
        rows,
        goal,
        PointVariables(PointLimits.for_robot(rows.robot, replace(MOVING, jerk=np.full(3, jerk))), 17),
        np.ones((5, 3)),
        effort,
    )
    rng = np.random.default_rng(5)
    z = search.unknowns.random_start(rng)
    z += rng.normal(0.0, 0.2, z.size)
    way = rng.normal(size=z.size)
    h = 1e-6
    numeric = (search.value_and_gradient(z + h * way, stage)[0] - search.value_and_gradient(z - h * way, stage)[0]) / (
        2.0 * h
    )
    assert search.value_and_gradient(z, stage)[1] @ way == pytest.approx(numeric, rel=1e-4)


def test_turning_points_of_polynomials_of_lower_degree() -> None:
    c = np.zeros((2, 6))
    c[0, :3] = 0.0, 1.0, -1.0
    c[1, 0] = 2.0
    found = turning_points(c)
    assert np.abs(found[0] - 0.5).min() < 1e-15
    assert np.all((found >= 0.0) & (found <= 1.0))


def test_constant_speed_and_the_papers_counterexample() -> None:
    still = np.zeros((2, 1))
    q, v = np.array([[0.0], [0.14]]), np.full((2, 1), 0.7)
    for u, peak in ((0.2, 0.0), (0.4, 5.05)):
        found = Quintics(np.array([u]), q, v, still).extremes().acceleration[0]
        assert found == pytest.approx(peak, abs=0.01)


@pytest.mark.usefixtures("brief")
def test_a_prismatic_joint() -> None:
    rows = rows_of("scara")
    limits = Limits(
        np.array([[-2.0, 2.0], [-2.0, 1.0], [0.1, 0.3], [-3.0, 3.0]]),
        np.array([2.0, 2.0, 0.5, 4.0]),
        np.array([8.0, 8.0, 4.0, 20.0]),
        np.full(4, np.inf),
    )
    shape = design(12, limits=limits, starts=2, rows=rows)
    assert use_of_limits(shape.extremes(), limits).max() <= 1.0
    assert root_use(shape, limits) <= 1.0 + 1e-9
    assert condition_number(rows.matrix(shape.exciting_motion())) < 1e4


@pytest.mark.usefixtures("brief")
def test_the_torque_model_uses_the_accelerations() -> None:
    rows = rows_of("gautier3", "torque")
    shape = design(20, limits=MOVING, starts=1, rows=rows)
    assert np.abs(shape.a).max() > 0.1
    assert condition_number(rows.matrix(shape.exciting_motion())) < 300.0
    with pytest.raises(ExcitationError, match="torque model need accelerations"):
        design(20, starts=1, rows=rows)


@pytest.mark.usefixtures("brief")
def test_weights_by_noise() -> None:
    rows = rows_of("gautier3")
    shape = design_points(
        rows, criterion="a", weights=(1.0, 0.0), limits=A, points=16, starts=1, seed=0, noise=0.1, on_progress=None
    )
    assert np.isfinite(condition_number(rows.matrix(shape.exciting_motion())))
    with pytest.raises(ExcitationError, match="noise must be positive"):
        design_points(rows, criterion="a", weights=(1.0, 0.0), limits=A, points=16, noise=-1.0)


def test_the_time_budget_is_kept() -> None:
    rows_of("gautier3")
    begin = time.monotonic()
    shape = design(30, limits=MOVING, starts=1000, seconds=1.0)
    assert time.monotonic() - begin < 3.0
    assert use_of_limits(shape.extremes(), MOVING).max() <= 1.0
    assert use_of_limits(design(30, limits=MOVING, seconds=0.0).extremes(), MOVING).max() <= 1.0


def test_an_interrupt_keeps_the_best_so_far() -> None:
    told: list[float] = []

    def interrupt(text: str, part: float) -> None:
        told.append(part)
        if part > 0.2:
            raise KeyboardInterrupt

    shape = design_points(
        rows_of("gautier3"), criterion="condition", weights=(1.0, 0.0), limits=A, points=30, on_progress=interrupt
    )
    assert condition_number(matrix(shape)) < 30.0
    assert told == sorted(told)


@pytest.mark.usefixtures("brief")
def test_points_alone_have_no_motion() -> None:
    shape = design(16, starts=1, seconds=0.5)
    assert shape.segments is None
    with pytest.raises(ExcitationError, match="acceleration limits"):
        shape.motion(100.0)


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (replace(A, position=np.array([[-1.0, 1.0], [1.0, -1.0], [-1.0, 1.0]])), "joint '2': the lower position"),
        (replace(A, velocity=np.array([0.7, 0.7, 0.0])), "joint '3': its velocity limit must be positive"),
        (replace(A, velocity=UNLIMITED), "joint '1': points need a velocity limit"),
        (replace(A, velocity=np.array([0.7, 1e-9, 0.7])), "joint '2', held to \\+-1e-09 rad/s by its velocity limit"),
    ],
)
@pytest.mark.usefixtures("brief")
def test_impossible_limits_name_the_joint(limits: Limits, text: str) -> None:
    with pytest.raises(ExcitationError, match=text):
        design(16, limits=limits, starts=1)


def test_too_few_points_and_unlimited_slides() -> None:
    with pytest.raises(ExcitationError, match="14 points give 14 rows, too few for 15"):
        design(14)
    limits = Limits(np.tile([-np.inf, np.inf], (4, 1)), np.ones(4), np.full(4, np.inf), np.full(4, np.inf))
    with pytest.raises(ExcitationError, match="joint '3': a prismatic joint needs both position limits"):
        design(12, limits=limits, rows=rows_of("scara"))


@pytest.mark.usefixtures("brief")
@pytest.mark.slow
def test_the_search_keeps_torque_limits_and_the_condition() -> None:
    """Without torques in the search this motion is shrunk afterwards, and its condition is in the hundreds."""
    robot, effort = load_robot("gautier3"), np.full(3, 60.0)
    box = {"position": A.position, "velocity": A.velocity, "acceleration": MOVING.acceleration, "effort": effort}
    held = design_excitation(robot, shape="points", points=20, starts=1, seed=1, limits=box)
    assert (np.abs(_torques(robot, held)) <= effort).all()
    assert held.margin >= 0.0
    assert held.condition <= 30.0


def test_the_last_resort_shrinks_about_a_pose_that_can_be_held() -> None:
    rows = rows_of("gautier3")
    limits = replace(MOVING, effort=np.full(3, 60.0))
    effort = Effort.for_robot(rows.robot, limits)
    assert effort is not None
    unknowns = PointVariables(PointLimits.for_robot(rows.robot, limits), 21)
    shape = unknowns.points_at(unknowns.random_start(np.random.default_rng(2)))
    assert effort.use_of_limits(shape.motion(200.0)).max() > 1.0
    held = shrink_to_fit(shape, effort)
    assert held is not None
    assert effort.use_of_limits(held.motion(400.0)).max() <= 1.0
    assert shrink_to_fit(shape, replace(effort, limit=np.full(3, 1e-3))) is None


def _torques(robot: Robot, found: Excitation) -> Array:
    motion = found.motion(300.0)
    return (regressor(robot, motion).matrix @ robot.parameters).reshape(len(motion), -1)


def test_a_motion_through_points_starts_and_ends_in_the_pose_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        SmoothedCriterion, "stages", lambda self: [HomotopyStage(8.0, 0.0, 1e2, 60), HomotopyStage(32.0, 0.0, 1e4, 60)]
    )
    monkeypatch.setattr(search_module, "ITERATIONS", 60)
    robot, rest = load_robot("gautier3"), [0.9, -1.2, 0.4]
    limits = {"position": [[-np.pi / 2, np.pi / 2]] * 3, "velocity": 0.7, "acceleration": 3.0, "effort": 60.0}
    found = design_excitation(robot, shape="points", points=20, limits=limits, starts=1, rest=rest)
    motion = found.motion(200.0)
    for end in (0, -1):
        np.testing.assert_allclose(motion.q[end], rest, rtol=0.0, atol=1e-12)
        assert not motion.v[end].any()
        assert not motion.a[end].any()
    assert found.margin >= 0.0
    assert found.condition < 100.0  # as without a given rest: the points are free all the same
    assert found.effort is not None
    assert found.effort.use_of_limits(motion).max() <= 1.0


def test_front_of_condition_and_scaling_has_no_dominated_pair() -> None:
    def design(**options: Any) -> Excitation:
        return design_excitation(
            load_robot("gautier3"), shape="points", points=16, starts=1, margin=0.0,
            limits={"position": A.position, "velocity": A.velocity}, **options,
        )  # fmt: skip

    told: list[float] = []
    front = pareto_front(design, time_budget=6.0, on_progress=lambda _, done: told.append(done))
    pairs = [(point.excitation.condition, point.excitation.scaling) for point in front]
    assert len(pairs) >= 2
    assert pairs == sorted(pairs)
    assert all(a[1] > b[1] for a, b in itertools.pairwise(pairs))
    assert len(told) > len(RATIOS)  # gaps were filled
    assert any(len(point.weights) == 2 for point in front)


@pytest.mark.slow
def test_tight_torque_limits_hardly_cost_a_large_arm_anything(tmp_path: Path) -> None:
    """A third of the efforts of an arm that may turn twice: shrinking its motion moves its far points by much."""
    robot = ur5(tmp_path)
    limits = with_share_of_effort(robot, 0.3)
    held, free = (
        design_excitation(robot, shape="points", points=40, starts=1, limits=given, time_budget=60.0)
        for given in (limits, {**limits, "effort": robot.limits.effort})
    )
    torques = np.abs(_torques(robot, held)).max(axis=0)
    assert (torques <= 0.3 * robot.limits.effort).all()
    assert (torques > 0.8 * 0.3 * robot.limits.effort).any()
    assert held.margin >= 0.0
    assert held.condition < 1.6 * free.condition


def test_a_slow_motion_keeps_its_postures() -> None:
    unknowns = PointVariables(PointLimits.for_robot(load_robot("gautier3"), MOVING), 21)
    shape = unknowns.points_at(unknowns.random_start(np.random.default_rng(0)))
    slow = shape.slowed(1.3)
    t = np.linspace(0.0, shape.duration, 50)
    assert shape.path is not None
    assert slow.path is not None
    before, after = shape.path.sample(t), slow.path.sample(1.3 * t)
    np.testing.assert_allclose(after.q, before.q, atol=1e-12)
    np.testing.assert_allclose(after.v, before.v / 1.3, atol=1e-12)
    np.testing.assert_allclose(after.a, before.a / 1.69, atol=1e-11)


def test_variables_of_a_shape_give_the_shape() -> None:
    for limits in (A, MOVING):
        unknowns = PointVariables(PointLimits.for_robot(load_robot("gautier3"), limits), 21)
        z = unknowns.random_start(np.random.default_rng(3))
        np.testing.assert_allclose(unknowns.variables_of(unknowns.points_at(z)), z, atol=1e-9)


@pytest.mark.slow
def test_front_at_somewhat_higher_speed_dominates_the_pair_of_the_paper() -> None:
    """(11.16, 175) for 30 rows; limits are not stated there. 0.7 rad/s gives its random column, not its optimum."""
    front = pareto_front(
        partial(
            design_excitation, load_robot("gautier3"), shape="points", points=30, margin=0.0,
            limits={"position": A.position, "velocity": np.full(3, 0.8)},
        ),
        time_budget=240.0,
    )  # fmt: skip
    assert any(point.excitation.condition <= 11.16 and point.excitation.scaling <= 175.0 for point in front)


def test_postures_that_torques_hold_are_counted_by_the_law_of_a_pendulum() -> None:
    """A mass on a horizontal axis: |cos q| <= c holds in a share 2 asin(c) / pi of a turn."""
    arm = Robot.from_mdh([{"alpha": -np.pi / 2}])
    arm = arm.with_parameters(np.array([0, 0, 0, 0, 0, 0.1, 2.0, 0, 0, 4.0, 0.0]))  # MX = 2 kg m
    for c in (0.1, 0.5, 0.9):
        limits = Limits(np.array([[-np.pi, np.pi]]), np.ones(1), np.ones(1), np.array([c * 2.0 * 9.81]))
        effort = Effort.for_robot(arm, limits)
        assert effort is not None
        held = effort.held_postures(limits)
        assert held is not None
        assert held.share == pytest.approx(2.0 * np.arcsin(c) / np.pi, abs=0.06)  # three deviations of 500 draws
        assert abs(np.cos(held.easiest[0])) < 0.05
        assert held.joint == arm.joint_names[0]


def test_starts_of_an_arm_that_is_hardly_strong_enough_begin_where_it_can_stay(tmp_path: Path) -> None:
    """A UR5 with 15 % of its efforts: few postures can be held, and most points of a start are among them."""
    robot = ur5(tmp_path)
    given = with_share_of_effort(robot, 0.15)
    limits = replace(robot.limits, effort=np.asarray(given["effort"]), acceleration=np.full(6, 3.0))
    effort = Effort.for_robot(robot, limits)
    assert effort is not None
    held = effort.held_postures(limits)
    assert held is not None
    assert held.share < CONFINED
    assert held.warning().code == "efforts_confine_motion"
    rows = BaseRows.for_robot(robot, model="energy", rotor_inertia=False, friction=())
    box = PointLimits.for_robot(robot, limits)
    goal = SmoothedCriterion.for_rows("condition", (1.0, 0.0), rows, 72, None, None)
    search = PointsSearch(rows, goal, PointVariables(box, 73), np.full((5, 6), 0.999), effort)
    for seed in range(3):
        z = search.unknowns.random_start(np.random.default_rng(seed))
        shares = [
            (effort.holding_torque_shares(search.unknowns.points_at(x).exciting_motion().q).max(axis=1) < 1.0).mean()
            for x in (z, search.start_near_refuge(z, seed))
        ]
        assert shares[0] < 0.5 < shares[1]
