"""Bounds on criteria: no motion beats them, brute force agrees, and factors of grids hold on dense samples."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import dynid
from dynid.errors import ExcitationError
from dynid.excitation.bound import (
    CriterionBound,
    StateBox,
    arc_excess,
    certified_maximum,
    chebyshev_factor,
    check_bound_available,
    excess_over_bound,
    find_bound,
    turn_factor,
)
from dynid.excitation.criteria import BaseRows, find_criterion
from dynid.excitation.excitation import find_limits
from dynid.excitation.fourier_search import FourierProblem, random_coefficients, scale_to_limits
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

PLAIN = ("viscous", "coulomb", "offset")


def box_of(robot: Robot, friction: tuple[str, ...] = (), *, model: str = "torque", **limits: Any) -> StateBox:
    rows = BaseRows.for_robot(robot, model=model, rotor_inertia=bool(friction), friction=friction)
    return StateBox.for_rows(rows, find_limits(robot, limits or None), None)


def limits_of(robot: Robot) -> dict[str, Any]:
    """Limits for robots without published ones, those of the file else."""
    if robot.name == "panda":
        return {}
    return {"position": np.tile([-2.2, 1.7], (robot.n, 1)), "velocity": 2.0, "acceleration": 7.0}


@cache
def two_links() -> Robot:
    return Robot.from_mdh([{"alpha": np.pi / 2}, {"d": 0.5}], name="2R")


def robot_named(name: str) -> Robot:
    return two_links() if name == "2R" else dynid.load_robot(name)


@cache
def bound_of(name: str, friction: tuple[str, ...], criterion: str) -> CriterionBound:
    robot = robot_named(name)
    return find_bound(box_of(robot, friction, **limits_of(robot)), criterion, 200)


def random_series_values(robot: Robot, friction: tuple[str, ...], criterion: str, count: int) -> list[float]:
    """Criterion of random Fourier motions scaled to their limits, over 200 samples."""
    limits = find_limits(robot, limits_of(robot) or None)
    rows = BaseRows.for_robot(robot, model="torque", rotor_inertia=bool(friction), friction=friction)
    problem = FourierProblem(rows, criterion, (1.0, 0.0), None, limits, None, 10.0, 8)
    return [scale_to_limits(problem, random_coefficients(problem, seed))[0] for seed in range(count)]


@pytest.mark.parametrize(("friction", "criterion"), [((), "d"), ((), "a"), ((), "e"), (PLAIN, "d"), (PLAIN, "e")])
def test_no_random_motion_of_two_links_beats_its_bound(friction: tuple[str, ...], criterion: str) -> None:
    bound = bound_of("2R", friction, criterion)
    assert bound.is_proven
    assert -1e-9 <= bound.gap < 0.06
    assert min(random_series_values(two_links(), friction, criterion, 40)) > bound.value


@pytest.mark.parametrize("criterion", ["d", "a"])
def test_designed_motions_keep_above_their_bound(criterion: str) -> None:
    robot = two_links()
    found = dynid.design_excitation(
        robot, criterion=criterion, limits=limits_of(robot), starts=2, harmonics=8, rotor_inertia=False, friction=(),
        margin=0.0, bound=True,
    )  # fmt: skip
    assert found.bound is not None
    assert found.excess_over_bound is not None
    assert found.bound_is_proven
    assert found.value > found.bound
    assert 1.0 < found.excess_over_bound < 4.0
    other = find_bound(box_of(robot, **limits_of(robot)), criterion, found.samples)
    assert found.bound == pytest.approx(other.value, rel=1e-9)


def test_default_design_keeps_above_its_bound() -> None:
    """Criterion v with friction columns: a in the metric of the predicted torques."""
    robot = two_links()
    found = dynid.design_excitation(robot, limits=limits_of(robot), starts=2, bound=True)
    assert found.criterion == "v"
    assert found.bound is not None
    assert found.bound_is_proven
    assert found.least is not None
    assert found.least.gap < 0.06
    assert found.excess_over_bound is not None
    assert found.excess_over_bound == pytest.approx(found.value / found.bound)
    assert 1.0 < found.excess_over_bound < 5.0


@pytest.mark.parametrize("option", ["after", "target"])
def test_bound_is_refused_for_designs_that_add_to_what_is_known(option: str) -> None:
    with pytest.raises(ExcitationError) as caught:
        check_bound_available("v", **{option: "result.json"})
    assert caught.value.code == "option_not_applicable"


def test_random_states_never_exceed_the_certified_maximum_and_nearly_reach_it() -> None:
    robot = two_links()
    rng = np.random.default_rng(0)
    for friction in ((), ("viscous",), PLAIN):
        box = box_of(robot, friction, **limits_of(robot))
        K = rng.standard_normal((4, len(box.rows.names)))
        states = box.random_states(40_000, rng)
        seen = float(((box.matrix(states) @ K.T) ** 2).sum(axis=(1, 2)).max())
        proven = certified_maximum(box, K, seen)
        assert seen < proven < 1.15 * seen


def test_brute_force_on_a_grid_agrees_with_the_bound_of_two_links() -> None:
    robot = two_links()
    box = box_of(robot, **limits_of(robot))
    line, ends = np.linspace(-1.0, 1.0, 11), np.array([-1.0, 1.0])
    axes = np.meshgrid(line, line, np.linspace(-1, 1, 5), np.linspace(-1, 1, 5), ends, ends, indexing="ij")
    states = np.stack([axis.ravel() for axis in axes], axis=1).reshape(-1, 3, 1, 2)
    W = box.matrix(states)
    p = W.shape[2]
    w = np.full(len(W), 1.0 / len(W))
    for _ in range(400):  # D-optimal weights of the grid's states
        M = np.einsum("i,icp,icq->pq", w, W, W)
        w *= ((W @ np.linalg.inv(np.linalg.cholesky(M)).T) ** 2).sum(axis=(1, 2)) / p
    achieved = -float(np.linalg.slogdet(200 * M)[1])
    bound = bound_of("2R", (), "d")
    assert bound.value < achieved
    assert excess_over_bound("d", achieved, bound.value, p) < 1.04


def test_metric_of_the_identity_is_criterion_a_and_rows_in_other_units_agree() -> None:
    robot = two_links()
    box = box_of(robot, **limits_of(robot))
    plain = bound_of("2R", (), "a")
    p = len(box.rows.names)
    assert find_bound(box, "a", 200, metric=np.eye(p)).value == pytest.approx(plain.value, rel=1e-3)
    L = np.random.default_rng(3).standard_normal((3, p))  # a target that is blind to some directions
    other = find_bound(box, "a", 200, metric=L)
    rows = box.rows
    problem = FourierProblem(rows, "a", (1.0, 0.0), None, find_limits(robot, limits_of(robot)), None, 10.0, 8)
    for seed in range(10):
        y = scale_to_limits(problem, random_coefficients(problem, seed))[1]
        t, basis = problem.sample_instants(200)
        A = rows.matrix(problem.motion_of_coefficients(y, basis, t))
        assert np.trace(L @ np.linalg.inv(A.T @ A) @ L.T) > other.value
    assert other.gap < 0.06


def test_noise_of_the_channels_scales_the_bound() -> None:
    robot = two_links()
    box = box_of(robot, **limits_of(robot))
    louder = StateBox(box.rows, box.middle, box.size, box.round_turn, np.full(2, 3.0))
    assert find_bound(louder, "a", 200).value == pytest.approx(9.0 * bound_of("2R", (), "a").value, rel=1e-3)
    assert find_bound(box, "a", 400).value == pytest.approx(0.5 * bound_of("2R", (), "a").value, rel=1e-3)


def test_bound_of_energy_rows_holds_for_points() -> None:
    robot = two_links()
    limits = {"position": np.tile([-2.0, 2.0], (2, 1)), "velocity": 2.0}
    found = dynid.design_excitation(
        robot, shape="points", criterion="d", limits=limits, points=20, starts=1, bound=True
    )
    assert found.bound is not None
    assert found.excess_over_bound is not None
    assert not found.bound_is_proven
    assert 1.0 < found.excess_over_bound < 3.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gautier3", "puma560", "panda"])
@pytest.mark.parametrize("criterion", ["d", "a"])
def test_no_motion_of_larger_arms_beats_its_bound(name: str, criterion: str) -> None:
    robot = robot_named(name)
    bound = bound_of(name, (), criterion)
    assert bound.is_proven == (name == "gautier3")
    assert bound.gap < 0.06
    assert min(random_series_values(robot, (), criterion, 20)) > bound.value
    found = dynid.design_excitation(
        robot, criterion=criterion, limits=limits_of(robot) or None, starts=2, rotor_inertia=False, friction=()
    )
    assert 1.0 < excess_over_bound(criterion, found.value, bound.value, len(found.rows.names)) < 12.0


def polynomials(count: int, rng: np.random.Generator) -> Array:
    """Coefficients (count, 3) of polynomials of degree 2, whose sums of squares are nowhere negative."""
    return rng.standard_normal((count, 2, 3)) * rng.uniform(0.1, 3.0, (count, 1, 3))


@pytest.mark.parametrize("nodes", [8, 16, 32])
def test_chebyshev_factor_covers_polynomials_of_degree_four(nodes: int) -> None:
    c = polynomials(400, np.random.default_rng(nodes))

    def largest(v: Array) -> Array:
        return np.asarray(((c @ np.vander(v, 3, increasing=True).T) ** 2).sum(axis=1).max(axis=1))

    ratio = largest(np.linspace(-1.0, 1.0, 4001)) / largest(np.cos(np.arange(nodes + 1) * np.pi / nodes))
    assert ratio.max() <= chebyshev_factor(nodes)
    assert chebyshev_factor(nodes) - 1.0 < 12.0 / nodes**2


@pytest.mark.parametrize("nodes", [10, 20, 60])
def test_factors_of_turns_and_arcs_cover_trigonometric_polynomials(nodes: int) -> None:
    rng = np.random.default_rng(nodes)
    c = rng.standard_normal((400, 2, 5)) * rng.uniform(0.1, 3.0, (400, 1, 5))

    def values(q: Array) -> Array:
        basis = np.stack([np.ones_like(q), np.sin(q), np.cos(q), np.sin(2 * q), np.cos(2 * q)])
        return np.asarray(((c @ basis) ** 2).sum(axis=1))

    turn = np.linspace(0.0, 2.0 * np.pi, 4001)
    whole = values(turn).max(axis=1)
    assert (whole / values(turn[:-1][:: 4000 // nodes]).max(axis=1)).max() <= turn_factor(4000 // (4000 // nodes))
    arc = np.linspace(-1.1, 0.8, 3001)
    few = np.linspace(-1.1, 0.8, nodes)
    excess = (values(arc).max(axis=1) - values(few).max(axis=1)) / whole
    assert excess.max() <= arc_excess(few[1] - few[0])


def test_rows_have_the_degrees_that_the_proof_counts_on() -> None:
    """W is trigonometric of degree 2 in each angle and polynomial of degree 2 in sliding positions and velocities."""
    robot = Robot.from_mdh(
        [{"alpha": 0.3, "d": 0.2}, {"alpha": 1.0, "d": 0.4, "r": 0.1}, {"type": "prismatic", "alpha": 0.7, "d": 0.3}]
    )
    box = box_of(robot, ("viscous",), position=np.tile([-1.0, 1.0], (3, 1)), velocity=1.0, acceleration=1.0)
    rng = np.random.default_rng(1)
    for kind, joint in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)):
        x = np.repeat(box.random_states(1, rng), 60, axis=0)
        s = np.linspace(-1.0, 1.0, 60)
        x[:, kind, 0, joint] = s
        W = box.matrix(x).reshape(60, -1)
        angle = kind == 0 and joint < 2
        basis = (
            np.stack([np.ones(60), np.sin(s), np.cos(s), np.sin(2 * s), np.cos(2 * s)], axis=1)
            if angle
            else np.vander(s, 3)
        )
        rest = W - basis @ np.linalg.lstsq(basis, W, rcond=None)[0]
        assert np.abs(rest).max() < 1e-10 * np.abs(W).max()


def test_certified_maximum_covers_sliding_joints_and_full_turns() -> None:
    robot = Robot.from_mdh([{"alpha": np.pi / 2}, {"type": "prismatic", "alpha": 0.7, "d": 0.3}])
    box = box_of(
        robot, ("viscous",), position=np.array([[-np.inf, np.inf], [0.1, 0.9]]), velocity=1.5, acceleration=4.0
    )
    assert box.round_turn.tolist() == [True, False]
    rng = np.random.default_rng(2)
    K = rng.standard_normal((3, len(box.rows.names)))
    seen = float(((box.matrix(box.random_states(60_000, rng)) @ K.T) ** 2).sum(axis=(1, 2)).max())
    assert seen < certified_maximum(box, K, seen) < 1.2 * seen


@pytest.mark.parametrize("criterion", ["condition", "frobenius", "scaling", "condition+scaling"])
def test_criteria_without_a_bound_are_refused(criterion: str) -> None:
    with pytest.raises(ExcitationError) as caught:
        dynid.design_excitation(two_links(), criterion=criterion, limits=limits_of(two_links()), bound=True)
    assert caught.value.code == "criterion_without_bound"


def test_unbounded_states_and_columns_with_memory_are_refused() -> None:
    with pytest.raises(ExcitationError) as caught:
        box_of(two_links(), position=np.tile([-1.0, 1.0], (2, 1)), velocity=1.0)
    assert caught.value.code == "bound_needs_limits"
    with pytest.raises(ExcitationError) as caught:
        box_of(two_links(), ("stop1e-3",), **limits_of(two_links()))
    assert caught.value.code == "bound_not_available"


def test_criterion_values_share_the_units_of_the_bound() -> None:
    """A measure's own criterion value, taken by the criteria of a design, is above its bound by the gap only."""
    robot = two_links()
    box = box_of(robot, **limits_of(robot))
    states = box.random_states(300, np.random.default_rng(4))
    W = box.matrix(states).reshape(-1, len(box.rows.names))
    for criterion in ("d", "a", "e"):
        judge = find_criterion(criterion, weights=(1.0, 0.0), mask=np.ones(W.shape, dtype=np.bool_))
        value = judge.value(W)
        bound = find_bound(box, criterion, 300).value
        assert 1.0 < excess_over_bound(criterion, value, bound, W.shape[1]) < 20.0
