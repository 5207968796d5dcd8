"""The delete-block jackknife equals refits without each block, and says when a block cannot be left out."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import t

import dynid
from dynid.estimation.accumulate.logs import collect_logs
from dynid.estimation.accumulate.one_pass import total_factors
from dynid.estimation.accumulate.state import State
from dynid.estimation.inference.jackknife import group_blocks, jackknife
from dynid.estimation.options import Options
from dynid.estimation.regression.equation import Unknowns
from dynid.estimation.solve.least_squares import Solution, solve
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from fourier import fourier_motion
from frictions import PLAIN, log_of, plain_matrix, torque, with_friction


def case(seed: int = 0, duration: float = 10.0) -> tuple[Robot, Motion, Array]:
    robot = with_friction(dynid.load_robot("gautier3"))
    motion = fourier_motion(robot, duration=duration, rate=50.0)
    tau = torque(robot, motion)
    return robot, motion, tau + np.random.default_rng(seed).standard_normal(tau.shape) * [0.1, 1.0, 0.5]


def solved(robot: Robot, motion: Motion, tau: Array) -> tuple[State, Unknowns, Solution]:
    state = collect_logs(robot, [log_of(motion, tau)], Options(friction=PLAIN))
    unknowns = Unknowns.for_equation(state.equation, PLAIN, 1)
    return state, unknowns, solve(unknowns, total_factors(state.blocks))


@pytest.mark.parametrize("most", [128, 5])
def test_shifts_are_those_of_refits(most: int) -> None:
    robot, motion, tau = case()
    state, unknowns, solution = solved(robot, motion, tau)
    found = jackknife(unknowns, solution, state.blocks, most)
    assert found is not None
    W = plain_matrix(robot, motion, unknowns.names) / solution.noise[:, None]
    y = tau / solution.noise
    groups = group_blocks(state.blocks, most)
    assert found.groups == len(groups) == min(most, len(state.blocks))
    shifts = []
    for group in groups:
        kept = (motion.t < group[0].start - 1e-9) | (motion.t > group[-1].stop + 1e-9)
        x, *_ = np.linalg.lstsq(W[kept].reshape(-1, W.shape[2]), y[kept].ravel(), rcond=None)
        shifts.append(x - solution.values)
    assert_allclose(found.shifts, shifts, rtol=1e-8, atol=1e-8)
    G, centred = len(shifts), np.array(shifts) - np.mean(shifts, axis=0)
    growth, white = np.ones(len(unknowns)), centred @ solution.R.T
    for lag in range(1, G):
        rho = (centred[lag:] * centred[:-lag]).sum(axis=0) / (centred**2).sum(axis=0)
        middle = np.median((white[lag:] * white[:-lag]).sum(axis=0) / (white**2).sum(axis=0))
        chance = max(0.4, 3.0 / np.sqrt(white.shape[1])) * np.sqrt(G - lag) / G
        if middle > chance:
            growth += 2.0 * np.maximum(rho, middle)
        elif lag == 1:
            growth += 2.0 * max(0.0, middle)
    scale = np.sqrt(np.outer(growth, growth))
    assert_allclose(found.covariance, scale * (G - 1) / G * (centred.T @ centred), rtol=1e-6, atol=1e-10)
    assert found.essential_groups == 0
    assert found.quantile == t.ppf(0.975, G - 1)


def test_every_block_is_in_one_group() -> None:
    state, *_ = solved(*case())
    for most in (1, 3, 5, 7, 128):
        groups = group_blocks(state.blocks, most)
        assert [block for group in groups for block in group] == list(state.blocks)
        fewest = len(state.blocks) // len(groups)
        assert {len(group) for group in groups} <= {fewest, fewest + 1}


def test_under_constraints_shifts_are_those_of_refits() -> None:
    robot, motion, tau = case()
    result = dynid.identify(robot, log_of(motion, tau), friction=PLAIN, known={"Fv1": 1.0}, equal=[("Fc1", "Fc2")])
    state, *_ = solved(robot, motion, tau)
    W = plain_matrix(robot, motion, result.names) / result.noise[:, None]
    y = tau / result.noise
    one, two, v = (result.names.index(name) for name in ("Fc1", "Fc2", "Fv1"))
    W[:, :, one] += W[:, :, two]
    y = y - W[:, :, v]
    left = [k for k in range(len(result.names)) if k not in (two, v)]
    shifts = []
    for block in state.blocks:
        kept = (motion.t < block.start - 1e-9) | (motion.t > block.stop + 1e-9)
        x, *_ = np.linalg.lstsq(W[kept][:, :, left].reshape(-1, len(left)), y[kept].ravel(), rcond=None)
        shifts.append(x - result.values[left])
    G, centred = len(shifts), np.array(shifts) - np.mean(shifts, axis=0)
    rho = [(centred[lag:] * centred[:-lag]).sum(axis=0) / (centred**2).sum(axis=0) for lag in range(1, G)]
    sigma = np.sqrt((G - 1) / G * (centred**2).sum(axis=0))
    memory = (result.sigma[left] / sigma) ** 2
    assert memory.min() >= 1.0 - 1e-9
    assert memory.max() <= 1.0 + 2.0 * np.maximum(np.max(rho, axis=1), 0.0).sum() + 1e-9
    assert np.median(memory) < 1.5  # white noise


def test_too_few_blocks_give_the_textbook_deviations_and_say_so() -> None:
    robot, motion, tau = case(duration=0.3)
    result = dynid.identify(robot, log_of(motion, tau), friction=())
    assert result.groups == 0
    assert_allclose(result.sigma, result.white_sigma)
    assert any("too few blocks" in warning for warning in result.warnings)
    assert_allclose(result.quantile, 1.959964, atol=1e-6)


def test_a_block_that_alone_shows_a_parameter_is_found() -> None:
    """Joint 3 turns for one second only: its friction rests on one or two blocks."""
    robot = with_friction(dynid.load_robot("gautier3"))
    motion = fourier_motion(robot, duration=20.0, rate=50.0)
    moving = (motion.t >= 8.0) & (motion.t < 8.98)
    bump = np.where(moving, 1.0 - np.cos(2.0 * np.pi * (motion.t - 8.0) / 0.98), 0.0)
    q, v, a = motion.q.copy(), motion.v.copy(), motion.a.copy()
    w = 2.0 * np.pi / 0.98
    q[:, 2], v[:, 2] = bump, np.where(moving, w * np.sin(w * (motion.t - 8.0)), 0.0)
    a[:, 2] = np.where(moving, w * w * np.cos(w * (motion.t - 8.0)), 0.0)
    motion = Motion(motion.t, q, v, a)
    tau = torque(robot, motion)
    tau = tau + 0.1 * np.random.default_rng(0).standard_normal(tau.shape)
    result = dynid.identify(robot, log_of(motion, tau), friction=PLAIN)
    assert any("block of time alone shows some combination" in reason for reason in result.verdict.reasons)
    assert np.isfinite(result.sigma).all()


def test_slow_residuals_grow_the_deviation_and_white_ones_do_not() -> None:
    """Residuals that remember several blocks: deviations are larger than those of white noise of the same power."""
    robot, motion, _ = case(duration=40.0)
    clean = torque(robot, motion)
    rng = np.random.default_rng(2)
    white = rng.standard_normal(clean.shape)
    slow = np.empty_like(white)
    slow[0] = white[0]
    for k in range(1, len(slow)):
        slow[k] = 0.995 * slow[k - 1] + np.sqrt(1.0 - 0.995**2) * white[k]
    ratio = {}
    for name, noise in (("white", white), ("slow", slow)):
        result = dynid.identify(robot, log_of(motion, clean + noise), friction=PLAIN)
        ratio[name] = float(np.median(result.sigma / result.white_sigma))
    assert 0.8 < ratio["white"] < 1.25
    assert ratio["slow"] > 3.0 * ratio["white"]
