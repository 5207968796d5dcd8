"""The verdict: good, usable, weak or do not trust, for the reason that was built in."""

from __future__ import annotations

import numpy as np
import pytest

import dynid
from dynid.estimation.identification import Identification
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from fourier import fourier_motion
from frictions import PLAIN, log_of, torque, with_friction


def data(name: str = "gautier3", *, duration: float = 20.0, seed: int = 0) -> tuple[Robot, Motion, Array]:
    robot = with_friction(dynid.load_robot(name))
    motion = fourier_motion(robot, duration=duration, rate=50.0, seed=seed)
    tau = torque(robot, motion)
    return robot, motion, tau + 0.02 * tau.std(axis=0) * np.random.default_rng(seed).standard_normal(tau.shape)


def reasons(result: Identification) -> str:
    return "; ".join(result.verdict.reasons)


@pytest.mark.parametrize("friction", [PLAIN, "auto"])
@pytest.mark.parametrize("name", ["gautier3", "puma560", "scara"])
def test_good_data_are_called_good(name: str, friction: str | tuple[str, ...]) -> None:
    robot, motion, tau = data(name)
    result = dynid.identify(robot, log_of(motion, tau), friction=friction)
    assert result.verdict.level == "good"
    assert result.warnings == ()
    assert str(result.verdict).startswith("good: validation NRMSE 0.0")


@pytest.mark.parametrize(("noise", "level"), [(0.15, "usable"), (0.25, "weak"), (0.45, "weak"), (0.7, "do not trust")])
def test_the_error_on_data_not_used_decides(noise: float, level: str) -> None:
    robot, motion, tau = data()
    tau = tau + noise * tau.std(axis=0) * np.random.default_rng(5).standard_normal(tau.shape)
    result = dynid.identify(robot, log_of(motion, tau), friction=PLAIN)
    assert result.verdict.level == level
    assert str(result.verdict).startswith(level)
    assert ("do not control with it" in str(result.verdict)) == (level == "weak")
    assert {reason.code for reason in result.verdict.reasons} & {"poor_prediction", "torques_not_explained"}


def test_one_joint_without_explanation_is_named() -> None:
    robot, motion, tau = data("puma560")
    tau[:, 5] = tau[:, 5].std() * np.random.default_rng(5).standard_normal(len(tau))
    result = dynid.identify(robot, log_of(motion, tau), friction=PLAIN)
    matters = result.validation.spread[5] > 0.1 * result.validation.spread.max()
    assert result.verdict.level == ("weak" if matters or result.validation.mean > 0.2 else "usable")
    assert "the torque of joint 6 is not explained" in reasons(result)


def test_noise_alone_is_not_trusted() -> None:
    robot, motion, tau = data()
    noise = np.random.default_rng(0).standard_normal(tau.shape) * tau.std(axis=0)
    for friction in (PLAIN, "auto"):
        result = dynid.identify(robot, log_of(motion, noise), friction=friction)
        assert result.verdict.level == "do not trust"
        assert "as large as" in reasons(result)
        assert set(result.verdict.reasons) <= set(result.warnings)


@pytest.mark.parametrize("friction", [PLAIN, "auto"])
@pytest.mark.parametrize(("mine", "theirs"), [("puma560", "ur10"), ("ur10", "puma560"), ("iiwa", "panda")])
def test_the_log_of_another_robot_is_not_trusted(mine: str, theirs: str, friction: str | tuple[str, ...]) -> None:
    """Torques that belong to another motion of another robot."""
    robot, other = dynid.load_robot(mine), dynid.load_robot(theirs)
    rng = np.random.default_rng(0)
    other = with_friction(other.with_parameters(rng.uniform(0.2, 2.0, len(other.parameters))))
    motion = fourier_motion(robot, duration=30.0, rate=50.0)
    strange = fourier_motion(other, duration=30.0, rate=50.0, seed=8)
    result = dynid.identify(robot, log_of(motion, torque(other, strange)), friction=friction)
    assert result.verdict.level == "do not trust"


@pytest.mark.parametrize("friction", [PLAIN, "auto"])
def test_joints_in_the_wrong_order_are_not_trusted(friction: str | tuple[str, ...]) -> None:
    robot, motion, tau = data("puma560", duration=30.0)
    result = dynid.identify(robot, log_of(motion, tau[:, [2, 0, 1, 5, 3, 4]]), friction=friction)
    assert result.verdict.level == "do not trust"


def test_a_validation_log_of_another_robot_is_not_trusted() -> None:
    robot, motion, tau = data()
    other = robot.with_parameters(robot.parameters * np.random.default_rng(0).uniform(-2.0, 4.0, len(robot.parameters)))
    fresh = fourier_motion(robot, seed=5, rate=50.0)
    result = dynid.identify(robot, log_of(motion, tau), friction=PLAIN, validate=log_of(fresh, torque(other, fresh)))
    assert result.verdict.level == "do not trust"
    assert "does not carry over" in reasons(result)


def test_dull_motion_is_doubted() -> None:
    """Tiny slow motion with noise: parameters are not known, and the verdict says so."""
    robot, _, _ = data()
    motion = fourier_motion(robot, duration=20.0, rate=50.0, size=0.03)
    tau = torque(robot, motion)
    tau = tau + 0.3 * tau.std(axis=0) * np.random.default_rng(0).standard_normal(tau.shape)
    result = dynid.identify(robot, log_of(motion, tau), friction=PLAIN)
    assert result.verdict.level != "good"
    assert "not known to half of the largest of the kind" in reasons(result)


def test_short_logs_are_doubted() -> None:
    robot, motion, tau = data(duration=0.6)
    result = dynid.identify(robot, log_of(motion, tau), friction=())
    assert result.verdict.level != "good"


def test_impossible_values_are_told() -> None:
    robot, motion, tau = data()
    result = dynid.identify(robot, log_of(motion, tau - 8.0 * motion.v), friction=PLAIN)
    assert result.verdict.level == "usable"
    (impossible,) = result.verdict.reasons
    assert impossible.code == "impossible_parameters"
    assert impossible.facts["parameters"] == ["Fv1", "Fv2", "Fv3"]


def test_every_doubt_names_a_next_step() -> None:
    robot, motion, tau = data()
    for torques in (tau, -tau, tau[::-1], tau + 3.0 * tau.std(axis=0) * np.sin(40.0 * motion.t)[:, None]):
        result = dynid.identify(robot, log_of(motion, np.ascontiguousarray(torques)), friction=PLAIN)
        assert result.verdict.next_step
        assert result.verdict.reasons
        assert (result.verdict.level == "good") == (result.warnings == ())


def test_friction_that_is_truly_zero_is_not_accused() -> None:
    """Estimates of zero are negative by more than an interval now and then: that is chance, not doubt."""
    robot = dynid.load_robot("gautier3")
    motion = fourier_motion(robot, rate=50.0)
    tau = torque(robot, motion)
    for seed in range(30):
        noisy = tau + 0.5 * np.random.default_rng(seed).standard_normal(tau.shape)
        assert dynid.identify(robot, log_of(motion, noisy), friction=PLAIN).verdict.level == "good"


def test_accelerations_that_are_mostly_noise_are_told() -> None:
    robot = dynid.load_robot("puma560")
    log = dynid.simulate(robot, fourier_motion(robot, duration=20.0, rate=200.0), noise=0.1)
    q = log.q + 1e-4 * np.random.default_rng(1).standard_normal(log.q.shape)
    noisy = dynid.Log(log.t, q, tau=log.tau)
    wide = dynid.identify(robot, noisy, friction=(), cutoff=30.0)
    assert "accelerations derived from the positions are noise" in str(wide.verdict)
    small = wide.value("ZZ1") - wide.equation.base.values(robot.parameters)[0]
    assert small < -3.0 * wide.sigma[wide.names.index("ZZ1")]  # and they are: biased towards zero beyond the deviations
    for options in ({}, {"model": "momentum", "cutoff": 30.0}):
        assert "accelerations" not in str(dynid.identify(robot, noisy, friction=(), **options).verdict)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["gautier3", "puma560"])
def test_reversed_torques_are_told(name: str) -> None:
    robot = dynid.load_robot(name)
    log = dynid.simulate(robot, fourier_motion(robot, duration=20.0), noise=0.05)
    assert log.tau is not None
    reversed_ = dynid.Log(log.t, log.q, v=log.v, a=log.a, tau=-log.tau)
    result = dynid.identify(robot, reversed_, friction=())
    assert result.verdict.level == "do not trust"
    assert result.verdict.reasons[0].code == "torques_reversed"
    signs = [f"tau.{joint}" for joint in robot.joint_names]
    assert str(result.verdict.next_step) == f"identify(robot, read_log(path, robot, sign={signs!r}), friction=())"
