"""What physics guarantees, over random robots of every kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dynid import Motion, Robot, load_robot, regressor
from dynid.dynamics.kernels.loops import loop_map
from dynid.robot.transform import Array
from loops_in_space import four_bar, slider_crank
from robots import coupled_tree, random_motion, random_tree, smooth_path

# Coefficients of the derivative in the middle of nine samples, exact for polynomials of degree 8.
STENCIL = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
STEP = 5e-3

ROBOTS: dict[str, Callable[[int], Robot]] = {
    "tree": lambda seed: random_tree(seed, fixed_share=0.2),
    "shuffled tree": lambda seed: random_tree(seed, shuffled=True),
    "coupled": coupled_tree,
    "slider-crank": slider_crank,
    "four-bar": four_bar,
}


def close(found: Array, expected: Array, tolerance: float) -> None:
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


def around(robot: Robot, seed: int) -> Motion:
    return smooth_path(robot, STEP * np.arange(-4.0, 5.0) + 0.7, seed=seed)


@pytest.mark.parametrize("kind", ROBOTS)
@pytest.mark.parametrize("seed", range(8))
def test_rate_of_energy_is_power(kind: str, seed: int) -> None:
    robot = ROBOTS[kind](seed)
    motion = around(robot, seed)
    gained = regressor(robot, motion, model="energy").matrix
    energy = np.vstack([np.zeros(gained.shape[1]), np.cumsum(gained, axis=0)])
    power = regressor(robot, motion[4:5], model="power").matrix[0]
    close(STENCIL @ energy / STEP, power, 1e-9)


@pytest.mark.parametrize("kind", ROBOTS)
@pytest.mark.parametrize("seed", range(8))
def test_rate_of_momentum_minus_slope_of_lagrangian_is_torque(kind: str, seed: int) -> None:
    robot = ROBOTS[kind](seed)
    motion = around(robot, seed)
    momentum = regressor(robot, motion, model="momentum").matrix.reshape(9, robot.n, -1)
    slope = regressor(robot, motion[4:5], model="lagrangian_gradient").matrix
    torque = regressor(robot, motion[4:5]).matrix
    close(np.einsum("k,kjp->jp", STENCIL, momentum) / STEP - slope, torque, 1e-9)


@pytest.mark.parametrize("kind", ROBOTS)
@pytest.mark.parametrize("seed", range(8))
def test_power_is_velocity_times_torque(kind: str, seed: int) -> None:
    robot = ROBOTS[kind](seed)
    motion = random_motion(robot, seed=seed, spread=0.5)
    torque = regressor(robot, motion).matrix.reshape(len(motion), robot.n, -1)
    power = regressor(robot, motion, model="power").matrix
    close(np.einsum("nj,njp->np", motion.v, torque), power, 1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_static_is_torque_at_zero_velocity(seed: int) -> None:
    robot = random_tree(seed)
    motion = random_motion(robot, seed=seed)
    still = replace(motion, v=np.zeros_like(motion.v))
    static = regressor(robot, motion, model="static").matrix
    np.testing.assert_array_equal(static, regressor(robot, still).matrix)


@pytest.mark.parametrize("kind", ["coupled", "slider-crank", "four-bar"])
@pytest.mark.parametrize("seed", range(8))
def test_projected_rows_do_the_work_of_the_open_tree(kind: str, seed: int) -> None:
    robot = ROBOTS[kind](seed)
    motion = random_motion(robot, seed=seed, spread=0.5)
    loop = loop_map(robot)
    assert loop is not None
    tree = loop.tree_motion(motion.q, motion.v, motion.a)
    opened = replace(robot, couplings=(), closures=())
    whole = regressor(opened, Motion(motion.t, tree.q, tree.v, tree.a), rotor_inertia=False).matrix
    part = regressor(robot, motion, rotor_inertia=False).matrix
    work = np.einsum("nj,njp->np", tree.v, whole.reshape(len(motion), opened.n, -1))
    close(np.einsum("nj,njp->np", motion.v, part.reshape(len(motion), robot.n, -1)), work, 1e-12)


@pytest.mark.parametrize("kind", ["slider-crank", "four-bar"])
@pytest.mark.parametrize("seed", range(5))
def test_closed_loops_move_consistently(kind: str, seed: int) -> None:
    robot = ROBOTS[kind](seed)
    motion = around(robot, seed)
    loop = loop_map(robot)
    assert loop is not None
    tree = loop.tree_motion(motion.q, motion.v, motion.a)
    close(STENCIL @ tree.q / STEP, tree.v[4], 1e-9)
    close(STENCIL @ tree.v / STEP, tree.a[4], 1e-9)
    close(np.einsum("k,kij->ij", STENCIL, tree.G) / STEP, tree.Gdot[4], 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_floating_base_momentum_law(seed: int) -> None:
    """A free body turned by hand: d(momentum)/dt - dL/dq = wrench, in the base's own turning frame."""
    robot = random_tree(seed, joints=3, floating=True)
    joints = around(robot, seed)
    t = joints.t
    rate = np.array([0.3, -0.5, 0.8])  # constant in the body's frame
    angle = np.linalg.norm(rate) * t
    axis = rate / np.linalg.norm(rate)
    quaternion = np.column_stack([np.sin(angle / 2)[:, None] * axis, np.cos(angle / 2)])
    linear = np.column_stack([np.sin(t), np.cos(2 * t), 0.1 * t**2])
    slope = np.column_stack([np.cos(t), -2 * np.sin(2 * t), 0.2 * t])
    pose = np.hstack([np.zeros((9, 3)), quaternion])  # position does not enter the momentum or its rate
    velocity = np.hstack([linear, np.tile(rate, (9, 1))])
    motion = replace(
        joints, base_pose=pose, base_velocity=velocity, base_acceleration=np.hstack([slope, np.zeros((9, 3))])
    )
    momentum = regressor(robot, motion, model="momentum").matrix.reshape(9, robot.n + 6, -1)
    lagrangian = regressor(robot, motion[4:5], model="lagrangian_gradient").matrix
    torque = regressor(robot, motion[4:5]).matrix
    close(np.einsum("k,kjp->jp", STENCIL, momentum) / STEP - lagrangian, torque, 1e-9)


def test_eleven_energy_functions_of_the_puma_are_constant() -> None:
    """Gautier 1991, application: 11 constant h_i, and the same columns vanish in d and d0."""
    robot = load_robot("puma560")
    motion = random_motion(robot, samples=60)
    names = np.array(robot.parameter_names)
    zero = {}
    for model in ("energy", "torque", "static"):
        W = regressor(robot, motion, model=model).matrix
        zero[model] = set(names[np.abs(W).max(axis=0) <= 1e-13])
    assert zero["energy"] == zero["torque"] == zero["static"]
    assert zero["energy"] == {"XX1", "XY1", "XZ1", "YY1", "YZ1", "MX1", "MY1", "MZ1", "M1", "MZ2", "M2"}
