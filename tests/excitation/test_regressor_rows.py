"""Rows along one motion: W and its adjoint share a scene, so that closed loops are solved once."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dynid import load_robot
from dynid.dynamics.kernels.loops import LoopMap, TreeMotion
from dynid.excitation.criteria import BaseRows
from dynid.robot.motion import Motion
from dynid.robot.transform import Array


def test_a_closed_loop_is_solved_once_for_matrix_and_adjoint(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = BaseRows.for_robot(load_robot("slider_crank"), model="torque", rotor_inertia=False, friction=("viscous",))
    rng = np.random.default_rng(4)
    motion = Motion(np.arange(6.0), *rng.uniform(-0.2, 0.2, (3, 6, rows.robot.n)))
    weights = rng.normal(size=(6 * rows.rows_per_sample, len(rows.names)))
    apart = rows.matrix(motion), rows.adjoint(motion, weights)
    solved: list[int] = []
    solve = LoopMap.tree_motion

    def counted(loops: LoopMap, q: Array, v: Array, a: Array, t: Array) -> TreeMotion:
        solved.append(len(q))
        return solve(loops, q, v, a, t)

    monkeypatch.setattr(LoopMap, "tree_motion", counted)
    along = rows.rows_along(motion)
    assert_array_equal(along.matrix(), apart[0])
    assert_array_equal(along.adjoint(weights), apart[1])
    assert solved == [6]


def test_slopes_of_rounded_coulomb_friction() -> None:
    """By differences, with a block of two symbols first; rounded over little, W is the sharp one."""
    robot = load_robot("gautier3")
    friction = ("sine", "coulomb", "viscous")
    sharp = BaseRows.for_robot(robot, model="torque", rotor_inertia=False, friction=friction)
    rows = sharp.with_rounded_signs(np.array([0.1, 0.2, 0.3]))
    rng = np.random.default_rng(1)
    q, v, a = rng.uniform(-0.5, 0.5, (3, 5, 3))
    weights, way, h = rng.normal(size=(15, len(rows.names))), rng.normal(size=(5, 3)), 1e-6

    def figure(by: float) -> float:
        return float((weights * rows.matrix(Motion(np.arange(5.0), q, v + by * way, a))).sum())

    motion = Motion(np.arange(5.0), q, v, a)
    numeric = (figure(h) - figure(-h)) / (2.0 * h)
    assert (rows.adjoint(motion, weights)[1] * way).sum() == pytest.approx(numeric, rel=1e-7)
    assert_array_equal(sharp.with_rounded_signs(np.full(3, 1e-6)).matrix(motion), sharp.matrix(motion))


def test_slopes_of_all_friction_without_a_memory() -> None:
    """By differences of positions and velocities together; a search that ignores a column's slope is misled."""
    friction = ("tanh", "quadratic", "sine2", "asymmetry", "stribeck", "spring", "coulomb", "viscous", "sine", "offset")
    rows = BaseRows.for_robot(load_robot("gautier3"), model="torque", rotor_inertia=True, friction=friction)
    rows = rows.with_rounded_signs(np.array([0.1, 0.2, 0.3]))
    rng = np.random.default_rng(1)
    q, v, a = rng.uniform(-0.5, 0.5, (3, 5, 3))
    weights, way, h = rng.normal(size=(15, len(rows.names))), rng.normal(size=(2, 5, 3)), 1e-5

    def figure(by: float) -> float:
        return float((weights * rows.matrix(Motion(np.arange(5.0), q + by * way[0], v + by * way[1], a))).sum())

    slope = rows.adjoint(Motion(np.arange(5.0), q, v, a), weights)
    numeric = (figure(h) - figure(-h)) / (2.0 * h)
    assert (slope[0] * way[0]).sum() + (slope[1] * way[1]).sum() == pytest.approx(numeric, rel=1e-6)


def test_collinear_friction_columns_are_left_out() -> None:
    """The offset of a vertical prismatic joint cannot be distinguished from its weight; slopes by differences."""
    robot = load_robot("scara")
    friction = ("viscous", "coulomb", "offset")
    rows = BaseRows.for_robot(robot, model="torque", rotor_inertia=True, friction=friction)
    rounded = rows.with_rounded_signs(np.full(4, 0.2))
    rng = np.random.default_rng(2)
    q, v, a = rng.uniform(-0.5, 0.5, (3, 40, 4))
    W = rows.matrix(Motion(np.arange(40.0), q, v, a))
    assert np.linalg.matrix_rank(W) == W.shape[1] == len(rows.names) == rows.support.shape[1]
    assert {"Fo1", "Fo2", "Fo4"} <= set(rows.names)
    assert "Fo3" not in rows.names
    weights, way, h = rng.normal(size=W.shape), rng.normal(size=(40, 4)), 1e-6

    def figure(by: float) -> float:
        return float((weights * rounded.matrix(Motion(np.arange(40.0), q, v + by * way, a))).sum())

    slope = (rounded.adjoint(Motion(np.arange(40.0), q, v, a), weights)[1] * way).sum()
    assert slope == pytest.approx((figure(h) - figure(-h)) / (2.0 * h), rel=1e-6)
