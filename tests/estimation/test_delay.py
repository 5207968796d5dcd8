"""Torques that were recorded later or earlier than positions: found, with a deviation, and corrected."""

from __future__ import annotations

import numpy as np
import pytest

import dynid
from dynid.robot.robot import Robot
from fourier import fourier_motion
from frictions import PLAIN, torque, truth, with_friction

RATE = 200.0


def delayed(samples: int, seed: int = 0) -> tuple[Robot, dynid.Log]:
    """Positions and torques of 16 s, the torques those of some samples before."""
    robot = with_friction(dynid.load_robot("puma560"))
    motion = fourier_motion(robot, duration=18.0, rate=RATE)
    tau = torque(robot, motion)
    i = np.arange(200, 200 + int(16 * RATE))
    noise = np.random.default_rng(seed).standard_normal((len(i), robot.n)) * 0.01 * tau.std(axis=0)
    return robot, dynid.Log(motion.t[i], motion.q[i], tau=tau[i - samples] + noise)


@pytest.mark.parametrize("samples", [-20, -3, 1, 4, 20])
def test_a_delay_is_found_and_corrected(samples: int) -> None:
    robot, log = delayed(samples)
    true = samples / RATE
    result = dynid.identify(robot, log, friction=PLAIN)
    found = result.found_delay
    assert found is not None
    assert abs(found.seconds - true) < 3.0 * found.sigma
    assert found.sigma < 0.1 * abs(true) + 5e-4
    reason = result.verdict.reasons[0]
    assert (reason.code, reason.facts["kind"]) == ("mistake_found", "mistaken_delay")
    (option,) = reason.facts["options"]
    assert option.value == pytest.approx(found.seconds, abs=1e-4)
    assert option.render("python") in reason.remedy
    assert option.render("command line") in reason.for_command_line
    corrected = dynid.identify(robot, log, friction=PLAIN, delay=true)
    assert corrected.found_delay is not None
    assert abs(corrected.found_delay.seconds) < 3.0 * corrected.found_delay.sigma
    assert all(reason.code not in ("torques_delayed", "mistake_found") for reason in corrected.verdict.reasons)
    assert corrected.nrmse.mean() < result.nrmse.mean()
    z = np.abs(corrected.values - truth(robot, corrected)) / corrected.sigma
    assert (z < 3.0).mean() > 0.95


def test_what_is_left_of_a_delay_is_told_as_the_whole() -> None:
    robot, log = delayed(8)
    result = dynid.identify(robot, log, friction=PLAIN, delay=0.01)
    (option,) = result.verdict.reasons[0].facts["options"]
    told = option.value
    assert result.found_delay is not None
    assert told == pytest.approx(0.01 + result.found_delay.seconds, abs=1e-4)
    assert told == pytest.approx(0.04, abs=3.0 * result.found_delay.sigma + 1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_no_delay_is_claimed_where_there_is_none(seed: int) -> None:
    robot, log = delayed(0, seed)
    result = dynid.identify(robot, log, friction=PLAIN)
    assert result.found_delay is not None
    assert abs(result.found_delay.seconds) < 4.0 * result.found_delay.sigma
    assert all(reason.code != "torques_delayed" for reason in result.verdict.reasons)
