"""Every regressor that pinocchio has too, on random trees: relative difference at most 1e-12."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from dynid import Motion, Robot, load_robot, regressor, regressor_adjoint
from dynid.robot.transform import Array
from humanoid import humanoid
from pinocchio_twin import Twin
from robots import random_motion, random_tree

TOLERANCE = 1e-12


def relative(found: Array, expected: Array) -> float:
    return float(np.abs(found - expected).max() / max(float(np.abs(expected).max()), 1e-12))


def without_rotors(robot: Robot) -> Array:
    return np.array([x for x, name in zip(robot.parameters, robot.parameter_names, strict=True) if name[:2] != "Ia"])


def rows(robot: Robot, motion: Motion, model: str) -> Array:
    W = regressor(robot, motion, model=model, rotor_inertia=False)
    return W.matrix.reshape(-1, len(W.channels), len(W.columns))


def check_against_twin(robot: Robot, seed: int) -> None:
    motion = random_motion(robot, seed=seed, samples=3)
    twin, free = Twin(robot), Twin(robot, free_root=True)
    still = np.zeros_like(motion.v)
    for model, v in (("torque", motion.v), ("static", still)):
        expected = np.stack([twin.regressor(q, w, a) for q, w, a in zip(motion.q, v, motion.a, strict=True)])
        assert relative(rows(robot, motion, model), expected) <= TOLERANCE
    expected = np.stack([free.regressor(*x)[:6] for x in zip(motion.q, motion.v, motion.a, strict=True)])
    assert relative(rows(robot, motion, "reaction"), expected) <= TOLERANCE


def check_energy(robot: Robot, seed: int) -> None:
    motion = random_motion(robot, seed=seed, samples=4)
    twin = Twin(robot)
    energy = np.array([twin.energy(q, v) for q, v in zip(motion.q, motion.v, strict=True)])
    W = regressor(robot, motion, model="energy", rotor_inertia=False).matrix
    assert relative(W @ without_rotors(robot), np.diff(energy)) <= TOLERANCE


@pytest.mark.parametrize("block", range(10))
def test_random_trees(block: int) -> None:
    for seed in range(30 * block, 30 * block + 30):
        robot = random_tree(seed, fixed_share=0.0, shuffled=seed % 3 == 0)
        check_against_twin(robot, seed)
        check_energy(robot, seed)


@pytest.mark.parametrize("seed", range(30))
def test_trees_with_fixed_joints_give_pinocchios_torques_and_energies(seed: int) -> None:
    robot = random_tree(seed, fixed_share=0.3)
    motion = random_motion(robot, seed=seed)
    twin = Twin(robot)
    torque = np.stack([twin.torque(*x) for x in zip(motion.q, motion.v, motion.a, strict=True)])
    W = regressor(robot, motion, rotor_inertia=False).matrix
    assert relative(W @ without_rotors(robot), torque.ravel()) <= TOLERANCE
    check_energy(robot, seed)


@pytest.mark.parametrize("name", ["panda", "ur10"])
def test_known_arms(name: str) -> None:
    check_against_twin(load_robot(name), 0)


def test_humanoid() -> None:
    check_against_twin(humanoid(), 0)
    check_energy(humanoid(), 0)


@pytest.mark.parametrize("seed", range(40))
def test_floating_bases(seed: int) -> None:
    robot = random_tree(seed, floating=True, fixed_share=0.0)
    motion = random_motion(robot, seed=seed)
    twin = Twin(robot)
    samples = zip(motion.q, motion.v, motion.a, strict=True)
    expected = np.stack([twin.regressor(*x, motion, n) for n, x in enumerate(samples)])
    assert relative(rows(robot, motion, "torque"), expected) <= TOLERANCE


@pytest.mark.parametrize("seed", range(20))
def test_adjoint_equals_the_derivatives_of_the_recursive_newton_euler_algorithm(seed: int) -> None:
    robot = random_tree(seed, fixed_share=0.0)
    motion = random_motion(robot, seed=seed, samples=3)
    twin = Twin(robot)
    force = np.random.default_rng(seed).standard_normal((len(motion), robot.n))
    weights = (force[:, :, None] * without_rotors(robot)).reshape(-1, 10 * len(robot.links))
    found = regressor_adjoint(robot, motion, weights, rotor_inertia=False)
    back = np.argsort(twin.order(np.arange(robot.n, dtype=np.float64)))
    for n in range(len(motion)):
        q, v, a = (twin.order(x[n]) for x in (motion.q, motion.v, motion.a))
        pin.computeRNEADerivatives(twin.model, twin.data, q, v, a)
        M = np.triu(twin.data.M) + np.triu(twin.data.M, 1).T
        for mine, D in zip(found, (twin.data.dtau_dq, twin.data.dtau_dv, M), strict=True):
            expected = (twin.order(force[n]) @ D)[back]
            np.testing.assert_allclose(mine[n], expected, rtol=0, atol=1e-9 * max(1.0, np.abs(expected).max()))
