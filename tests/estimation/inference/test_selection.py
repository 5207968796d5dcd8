"""The gate admits what truly is there and nothing else; its errors are those of a plain cross validation."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from dynid.dynamics.friction import HARMONICS, find_friction_block
from dynid.estimation.accumulate.logs import collect_logs
from dynid.estimation.inference.cross_validation import DEFAULT, GAIN, OPTIONAL, Folds, choose_friction_blocks
from dynid.estimation.inference.jackknife import group_blocks
from dynid.estimation.options import Options
from dynid.estimation.regression.equation import Unknowns
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from fourier import fourier_motion
from frictions import PLAIN, log_of, plain_matrix, torque, truth, with_friction


def arm() -> tuple[Robot, Motion, Array]:
    robot = with_friction(dynid.load_robot("gautier3"))
    motion = fourier_motion(robot, duration=20.0, rate=50.0)
    return robot, motion, torque(robot, motion)


def test_held_out_errors_are_those_of_refits() -> None:
    robot, motion, clean = arm()
    tau = clean + np.random.default_rng(0).standard_normal(clean.shape) * [0.1, 1.0, 0.5]
    state = collect_logs(robot, [log_of(motion, tau)], Options(friction=PLAIN))
    noise = np.array([0.1, 1.0, 0.5])
    unknowns = Unknowns.for_equation(state.equation, PLAIN, 1)
    folds = Folds.from_blocks(unknowns, state.blocks, noise)
    W = plain_matrix(robot, motion, unknowns.names)
    without = np.array([k for k, name in enumerate(unknowns.names) if not name.startswith("Fc")])
    for chosen in (np.arange(len(unknowns)), without):
        squares = np.zeros(robot.n)
        for group in group_blocks(state.blocks, 5):
            out = (motion.t >= group[0].start - 1e-9) & (motion.t <= group[-1].stop + 1e-9)
            rows = (W[~out][:, :, chosen] / noise[:, None]).reshape(-1, len(chosen))
            x, *_ = np.linalg.lstsq(rows, (tau[~out] / noise).ravel(), rcond=None)
            squares += ((tau[out] - W[out][:, :, chosen] @ x) ** 2).sum(axis=0)
        assert_allclose(folds.rmse(folds.errors_of_fits(chosen)), np.sqrt(squares / len(tau)), rtol=1e-6)
        assert_allclose(
            folds.nrmse(folds.errors_of_fits(chosen)), np.sqrt(squares / len(tau)) / tau.std(axis=0), rtol=1e-6
        )
    blocks, trials = choose_friction_blocks(
        state.equation, state.blocks, noise, logs=1, per_log=(), left_out=state.unseen_harmonics,
        always=("viscous", "offset"), optional=("coulomb",),
    )  # fmt: skip
    assert blocks == ("viscous", "offset", "coulomb")
    (trial,) = trials
    assert (trial.block, trial.admitted) == ("coulomb", True)
    assert_allclose(trial.before, folds.nrmse(folds.errors_of_fits(without)).mean(), rtol=1e-6)
    assert_allclose(trial.error, folds.nrmse(folds.errors_of_fits(np.arange(len(unknowns)))).mean(), rtol=1e-6)


EXTRA: dict[str, Callable[[Array, Array], Array]] = {
    "spring": lambda q, v: 8.0 * q,
    "sine": lambda q, v: 6.0 * np.sin(q) + 4.0 * np.cos(q),
    "sine2": lambda q, v: 6.0 * np.sin(2.0 * q) - 3.0 * np.cos(2.0 * q),
    "sine4": lambda q, v: 3.0 * np.sin(4.0 * q) - 5.0 * np.cos(4.0 * q),
    "sine6": lambda q, v: 5.0 * np.cos(6.0 * q),
    "asymmetry": lambda q, v: 6.0 * np.abs(v),
    "stribeck": lambda q, v: 10.0 * np.exp(-((v / 0.5) ** 2)) * np.sign(v),
}


@pytest.mark.parametrize("block", EXTRA)
def test_a_true_term_is_admitted(block: str) -> None:
    robot, motion, clean = arm()
    tau = clean + EXTRA[block](motion.q, motion.v)
    tau = tau + 0.5 * np.random.default_rng(1).standard_normal(tau.shape)
    result = dynid.identify(robot, log_of(motion, tau))
    assert block in result.friction
    first = next(trial for trial in result.trials if trial.admitted)
    assert first.block == block
    assert first.error <= (1.0 - GAIN) * first.before


@pytest.mark.parametrize("seed", range(5))
def test_plain_data_with_white_noise_get_no_optional_block(seed: int) -> None:
    """Friction inside what every robot gets: viscous, offset and a smooth dry one."""
    robot = dynid.load_robot("gautier3")
    motion = fourier_motion(robot, duration=20.0, rate=50.0, seed=seed)
    tau = torque(robot, motion) + 2.0 * motion.v + 3.0 * np.tanh(motion.v / 0.1) + 1.0
    tau = tau + np.random.default_rng(seed).standard_normal(tau.shape)
    result = dynid.identify(robot, log_of(motion, tau))
    assert result.friction == DEFAULT
    assert {trial.block for trial in result.trials} == set(OPTIONAL) - {"rest"}  # it never rests
    assert not any(trial.admitted for trial in result.trials)
    assert all(trial.error > (1.0 - GAIN) * trial.before for trial in result.trials)


def test_rounding_admits_nothing() -> None:
    """Without noise the first term that is true explains all; nothing is tried after it."""
    robot, motion, clean = arm()
    result = dynid.identify(robot, log_of(motion, clean))
    assert result.friction == (*DEFAULT, "coulomb")
    assert_allclose(result.values, truth(robot, result), rtol=0.0, atol=1e-8)


def test_a_joint_that_stands_still_is_judged_over_all_time() -> None:
    """Its rows stay in their blocks of time, so that held-out stretches of its torque are predicted."""
    robot, motion, _ = arm()
    q, v, a = motion.q.copy(), motion.v.copy(), motion.a.copy()
    q[:, 1], v[:, 1], a[:, 1] = 0.3, 0.0, 0.0
    motion = Motion(motion.t, q, v, a)
    tau = torque(robot, motion)
    tau = tau + 0.5 * np.random.default_rng(0).standard_normal(tau.shape)
    result = dynid.identify(robot, log_of(motion, tau))
    assert_allclose(result.validation.nrmse, result.nrmse, rtol=0.2)
    assert not any("alone shows" in reason for reason in result.verdict.reasons)
    assert result.factors[0][1].count == len(motion)


def test_trials_are_kept_in_order_of_the_questions() -> None:
    robot, motion, clean = arm()
    tau = clean + 0.5 * np.random.default_rng(1).standard_normal(clean.shape) + 8.0 * motion.q
    result = dynid.identify(robot, log_of(motion, tau))
    admitted = [trial for trial in result.trials if trial.admitted]
    assert result.friction == (*DEFAULT, *(trial.block for trial in admitted))
    rounds = len(OPTIONAL) - 1 - np.arange(len(admitted) + 1)  # `rest` is not asked for where nothing rests
    assert len(result.trials) == rounds.sum()
    for before, after in itertools.pairwise(admitted):
        assert after.before == before.error


def swing(reach: Array, seed: int) -> Motion:
    """Sums of six sines per joint over ranges (n,) in rad, for 40 s."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, 40.0, 0.01)
    w = 2.0 * np.pi * rng.uniform(0.05, 0.5, (6, 1, len(reach)))
    size, phase = rng.uniform(0.3, 1.0, w.shape) / w, rng.uniform(0.0, 6.3, w.shape)
    x = [(size * w**k * np.sin(w * t[:, None] + phase + k * np.pi / 2.0)).sum(axis=0) for k in range(3)]
    factor = reach / np.ptp(x[0], axis=0)
    return Motion(t, (x[0] - (x[0].max(axis=0) + x[0].min(axis=0)) / 2.0) * factor, x[1] * factor, x[2] * factor)


@pytest.mark.parametrize("seed", [0, 2])
def test_a_joint_on_a_short_way_gets_no_harmonic_of_a_longer_period(seed: int) -> None:
    """Others that move far admit the block. Beyond its range the joint is predicted as without harmonics."""
    robot = dynid.load_robot("gautier3")
    reach = np.radians([270.0, 30.0, 200.0])

    def measured(motion: Motion) -> Array:
        ripple = sum(np.sin(k * motion.q + [0.3 * k, k, 2.0 * k]) * [10.0, 10.0, 10.0] / k for k in range(1, 9))
        return torque(robot, motion) + ripple + 10.0 * np.tanh(motion.v / 0.02)

    motion, beyond = swing(reach, seed), swing(1.5 * reach, seed + 50)
    tau = measured(motion) + 2.0 * np.random.default_rng(seed).standard_normal(motion.q.shape)
    result = dynid.identify(robot, dynid.Log(motion.t, motion.q, tau=tau))
    high = {name for name, k in HARMONICS.items() if k > 2} & set(result.friction)
    assert high
    symbols = {find_friction_block(name).symbols[0] for name in high}
    assert {name.joint for name in result.names if name.symbol in symbols} == {"1", "3"}
    low = dynid.identify(robot, dynid.Log(motion.t, motion.q, tau=tau), friction=(*DEFAULT, "sine", "sine2"))
    wanted = measured(beyond)
    errors = [np.sqrt(((r.predict(beyond) - wanted) ** 2).mean(axis=0)) / wanted.std(axis=0) for r in (result, low)]
    assert errors[0][1] <= 1.1 * errors[1][1]
