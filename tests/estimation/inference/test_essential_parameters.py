"""Essential parameters predict as well as all of them; what is truly zero goes, what is large stays."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from dynid.estimation.identification import Identification
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from fourier import fourier_motion
from frictions import PLAIN, log_of, plain_matrix, torque, truth, with_friction


def identified(seed: int) -> tuple[Robot, Motion, Identification]:
    robot = with_friction(dynid.load_robot("puma560"))
    small = np.random.default_rng(5).uniform(size=len(robot.parameters)) < 0.4
    robot = robot.with_parameters(np.where(small, 0.0, robot.parameters))
    motion = fourier_motion(robot, duration=20.0, rate=50.0)
    tau = torque(robot, motion)
    tau = tau + np.random.default_rng(seed).standard_normal(tau.shape) * 0.1 * tau.std(axis=0)
    return robot, motion, dynid.identify(robot, log_of(motion, tau), friction=PLAIN)


@pytest.mark.parametrize("seed", range(3))
def test_the_reduced_model_predicts_as_well(seed: int) -> None:
    robot, _, result = identified(seed)
    fresh = fourier_motion(robot, duration=20.0, rate=50.0, seed=7)
    W, clean = plain_matrix(robot, fresh, result.names), torque(robot, fresh)
    noise = np.random.default_rng(100 + seed).standard_normal(clean.shape) * 0.1 * clean.std(axis=0)
    full, reduced = (
        np.sqrt(((clean + noise - W @ values) ** 2).mean(axis=0)) for values in (result.values, result.essential_values)
    )
    assert (reduced / full).mean() < 1.01
    assert len(result.essential) < 0.8 * len(result.names)


@pytest.mark.parametrize("seed", range(3))
def test_zeros_go_and_large_ones_stay(seed: int) -> None:
    robot, _, result = identified(seed)
    true = truth(robot, result)
    kept = np.array([name in result.essential for name in result.names])
    zero = true == 0.0
    assert zero.sum() >= 5
    assert (kept & zero).sum() <= 0.3 * zero.sum()
    large = np.abs(true) > 8.0 * result.sigma
    assert large.sum() >= 10
    assert kept[large].all()
    assert_allclose(result.essential_values[~kept], 0.0)


def test_values_are_those_of_a_fit_to_what_is_left() -> None:
    robot, motion, result = identified(0)
    left = [result.names.index(name) for name in result.essential]
    tau = torque(robot, motion)
    tau = tau + np.random.default_rng(0).standard_normal(tau.shape) * 0.1 * tau.std(axis=0)
    W = plain_matrix(robot, motion, result.names)[:, :, left] / result.noise[:, None]
    x, *_ = np.linalg.lstsq(W.reshape(-1, len(left)), (tau / result.noise).ravel(), rcond=None)
    assert_allclose(result.essential_values[left], x, rtol=1e-7, atol=1e-9)


def test_ties_drop_nothing() -> None:
    robot, motion, _ = identified(0)
    tau = torque(robot, motion)
    tau = tau + np.random.default_rng(0).standard_normal(tau.shape)
    result = dynid.identify(robot, log_of(motion, tau), friction=PLAIN, equal=[("Fv1", "Fv2")])
    assert result.essential == result.names
    assert_allclose(result.essential_values, result.values)
