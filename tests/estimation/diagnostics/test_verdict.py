"""The verdict: good, usable, weak or do not trust, for the reason that was built in."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import dynid
from dynid.estimation.diagnostics.plausibility import TorqueScale
from dynid.estimation.diagnostics.verdict import Call, Evidence, assess_evidence
from dynid.estimation.identification import Identification
from dynid.estimation.inference.score import Score
from dynid.messages import Message, Option
from dynid.robot.motion import Motion
from dynid.robot.robot import JointLimits, Robot
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
        assert "% of the signal" in reasons(result)
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
    assert "does not generalise" in reasons(result)


def test_dull_motion_is_doubted() -> None:
    """Tiny slow motion with noise: parameters are not known, and the verdict says so."""
    robot, _, _ = data()
    motion = fourier_motion(robot, duration=20.0, rate=50.0, size=0.03)
    tau = torque(robot, motion)
    tau = tau + 0.3 * tau.std(axis=0) * np.random.default_rng(0).standard_normal(tau.shape)
    result = dynid.identify(robot, log_of(motion, tau), friction=PLAIN)
    assert result.verdict.level != "good"
    assert "weak_parameters" in [reason.code for reason in result.verdict.reasons]


@pytest.mark.parametrize(("share", "said"), [(0.3, True), (0.01, False)])
def test_torques_that_are_often_at_their_limits_are_doubted(share: float, said: bool) -> None:
    """What is left of a joint that is saturated in 30 % of the rows fits well, but is a selection."""
    robot, motion, tau = data()
    limit = np.quantile(np.abs(tau[:, 1]), 1.0 - share)
    tau = tau.copy()
    tau[:, 1] = np.clip(tau[:, 1], -limit, limit)
    verdict = dynid.identify(robot, log_of(motion, tau), friction=PLAIN).verdict
    found = [reason for reason in verdict.reasons if reason.code == "torques_at_limits"]
    assert bool(found) == said
    if said:
        assert verdict.level != "good"
        assert found[0].facts["joints"] == [robot.joint_names[1]]
        assert abs(found[0].facts["share"] - share) < 0.02


def test_short_logs_are_doubted() -> None:
    robot, motion, tau = data(duration=0.6)
    result = dynid.identify(robot, log_of(motion, tau), friction=())
    assert result.verdict.level != "good"
    robot, motion, tau = data(duration=4.0)  # no mistake is named, whatever explains so little best
    result = dynid.identify(robot, log_of(motion, -tau), friction=PLAIN)
    assert result.diagnosis is None
    assert "mistake_found" not in [reason.code for reason in result.verdict.reasons]
    with pytest.raises(dynid.DynidError) as caught:
        dynid.diagnose(result)
    assert caught.value.code == "no_samples_to_diagnose"


@pytest.mark.parametrize(
    ("more", "step"),
    [
        ({"recipe": False}, "friction='auto'"),
        ({"recipe": False, "can_diagnose": True}, "friction='auto'"),
        ({"can_diagnose": True}, "diagnose(result)"),
        ({}, "write_report"),
    ],
)
def test_friction_by_the_data_comes_before_all_alternatives(more: dict[str, Any], step: str) -> None:
    verdict = assess_evidence(evidence([0.15] * 3, [1.0] * 3, [R] * 3, **more))
    assert verdict.reasons[0].code == "poor_prediction"
    assert step in str(verdict.next_step)
    hopeless = assess_evidence(evidence([0.7] * 3, [1.0] * 3, [R] * 3, **more))  # here the wiring is in question first
    assert hopeless.reasons[0].code == "torques_not_explained"
    assert ("diagnose(result)" in str(hopeless.next_step)) == ("can_diagnose" in more)


def test_gains_that_nominal_masses_know_are_said_once() -> None:
    gain = Found(0.01, what=Message("mistaken_gain", "a factor"), options=(Option("gain", [1.0, 2.0]),))
    scales = [TorqueScale(joint, ratio) for joint, ratio in (("1", 0.1), ("2", 0.2))]
    verdict = assess_evidence(evidence([0.05] * 2, [1.0] * 2, [R] * 2, mistake=gain, scales=scales))
    assert [reason.code for reason in verdict.reasons] == ["torques_of_wrong_size"]
    assert verdict.level == "do not trust"  # the factor between joints is a mistake that changes the error
    assert verdict.next_step.facts["options"] == [Option("gain", [10.0, 5.0])]


def test_a_payload_alone_is_identified_next() -> None:
    """With the logs that carry it apart, and what the logs were read with; a name that is no log's is no command."""
    what = Message("mistaken_payload", "a payload", loaded=["b.csv"])
    verdict = assess_evidence(evidence([0.15] * 2, [1.0] * 2, [R] * 2, mistake=Found(0.05, what=what, options=())))
    assert str(verdict.next_step) == "identify_payload(robot, loaded, unloaded)"
    command = "dynid identify ur10 a.csv logs/b.csv --diagnose --sign tau.3 --cutoff=8 --no-rotor-inertia --out r.json"
    call = Call(command, "ur10", "a.csv --unloaded logs/b.csv")
    assert str(verdict.with_next_command(call).next_step) == (
        "dynid payload ur10 --loaded logs/b.csv --unloaded a.csv --sign tau.3 --cutoff=8 --no-rotor-inertia"
    )
    other = replace(call, logs="a.csv --unloaded c.csv")
    assert str(verdict.with_next_command(other).next_step) == command


@pytest.mark.parametrize(("action", "more"), [("report", "--report page.html"), ("diagnose", "--diagnose")])
def test_what_was_asked_for_is_not_added_again(action: Any, more: str) -> None:
    command = f"dynid identify ur10 a.csv {more}"
    assert Call(command, "ur10", "a.csv").next_command(action, ()) == command


def test_positions_that_range_too_far_for_the_limits_are_never_good() -> None:
    """Whatever the error; the mistake that explains them takes their place."""
    small: Any = evidence([0.01] * 2, [1.0] * 2, [R] * 2, moving_too_far={"2": (250.0, 12.6)}, can_diagnose=True)
    verdict = assess_evidence(small)
    assert verdict.level == "usable"
    assert [reason.code for reason in verdict.reasons] == ["positions_impossible"]
    assert verdict.next_step.facts["action"] == "diagnose"
    units = Found(0.009, what=Message("mistaken_units", "degrees"), options=(Option("units", {"q": "deg"}),))
    assert [reason.code for reason in verdict.with_mistake(units).reasons] == ["mistake_found"]


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
    assert "of the accelerations derived from the positions is noise" in str(wide.verdict)
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
    reason = result.verdict.reasons[0]
    assert (reason.code, reason.facts["kind"]) == ("mistake_found", "mistaken_sign")
    assert reason.facts["error"] < 0.1 * reason.facts["before"]
    signs = [f"tau.{joint}" for joint in robot.joint_names]
    assert str(result.verdict.next_step) == f"identify(robot, read_log(path, robot, sign={signs!r}), friction=())"


def evidence(nrmse: list[float], spread: list[float], kinds: list[str], **more: object) -> Evidence:
    """Figures of a result without any fault but its errors."""
    error, size = np.array(nrmse), np.array(spread)
    found = Score(error * size, error, error, 0.0, None, "others", 100)
    return Evidence(
        channels=[str(k + 1) for k in range(len(error))], fit=found, validation=found, unidentifiable=(),
        base_condition=50.0, groups=20, essential_groups=0, delay=None, weak=(), impossible=(), kinds=kinds,
        joints=len(error), torque_joints=[str(k + 1) for k in range(len(error))], **more,  # type: ignore[arg-type]
    )  # fmt: skip


@dataclass(frozen=True)
class Found:
    """A mistake that was found."""

    error: float
    before: float = 0.05
    is_named: bool = True
    what: Message = field(default_factory=lambda: Message("torque_reversed", "the torque of joint 2 is reversed"))
    options: tuple[Option, ...] = (Option("sign", "tau.2"),)


R, P = "revolute", "prismatic"
LEVELS = [
    ([0.05, 0.25, 0.29], [1.0, 1.0, 1.0], [R, R, R], {}, "usable"),  # the mean is above 0.1
    ([0.05, 0.05, 0.29, 0.01], [1.0] * 4, [R] * 4, {}, "good"),
    ([0.05, 0.02, 0.31, 0.01], [1.0] * 4, [R] * 4, {}, "usable"),
    ([0.05, 0.02, 0.31, 0.01], [20.0, 1.0, 1.9, 1.0], [R] * 4, {}, "good"),  # joint 3 does not matter
    ([0.05, 0.02, 0.31, 0.01], [20.0, 1.0, 1.9, 1.0], [R, R, P, R], {}, "usable"),  # N are not N m: it does
    ([0.05, 0.02, 0.51, 0.01], [1.0] * 4, [R] * 4, {}, "weak"),
    ([0.19, 0.19], [1.0, 1.0], [R, R], {}, "usable"),
    ([0.21, 0.21], [1.0, 1.0], [R, R], {}, "weak"),
    ([0.49, 0.49], [1.0, 1.0], [R, R], {}, "weak"),
    ([0.52, 0.49], [1.0, 1.0], [R, R], {}, "do not trust"),
    ([np.nan, np.nan], [1.0, 1.0], [R, R], {}, "do not trust"),
    ([0.05, 0.05], [1.0, 1.0], [R, R], {"condition": 2e6}, "weak"),
    ([0.05, 0.05], [1.0, 1.0], [R, R], {"condition": 9e5}, "good"),
    ([0.05, 0.05], [1.0, 1.0], [R, R], {"mistake": Found(0.024)}, "do not trust"),
    ([0.05, 0.05], [1.0, 1.0], [R, R], {"mistake": Found(0.026)}, "usable"),
    ([0.05, 0.05], [1.0, 1.0], [R, R], {"mistake": Found(0.04, before=0.3)}, "do not trust"),  # its own error counts
    ([0.05, 0.05], [1.0, 1.0], [R, R], {"mistake": Found(0.024, is_named=False)}, "good"),
    ([0.3, 0.3], [1.0, 1.0], [R, R], {"mistake": Found(0.2, before=0.3)}, "weak"),
]


@pytest.mark.parametrize(("nrmse", "spread", "kinds", "more", "level"), LEVELS)
def test_levels_follow_their_limits(
    nrmse: list[float], spread: list[float], kinds: list[str], more: dict[str, object], level: str
) -> None:
    verdict = assess_evidence(evidence(nrmse, spread, kinds, **more))
    assert verdict.level == level
    if isinstance(found := more.get("mistake"), Found) and found.is_named:  # wiring comes first
        assert verdict.reasons[0].code == "mistake_found"
        called = verdict.with_next_command(Call("dynid identify arm.urdf 'my log.csv'", "arm.urdf")).next_step
        assert str(called) == "dynid identify arm.urdf 'my log.csv' --sign tau.2"


@pytest.mark.parametrize("bad", [{"impossible": ("Ia1",)}, {"negative": ("1",)}, {"weak": ("ZZ1",)}])
def test_nothing_impossible_is_good(bad: dict[str, Any]) -> None:
    verdict = assess_evidence(replace(evidence([0.01] * 3, [1.0] * 3, [R] * 3), **bad))
    assert verdict.level == "usable"


@pytest.mark.parametrize("name", ["gautier3", "scara"])
def test_degrees_taken_for_radians_are_never_good(name: str) -> None:
    """Robots without position limits, for which degrees are not obvious; without gravity, inertias are impossible."""
    robot = dynid.load_robot(name)
    motion = fourier_motion(robot, duration=20.0, rate=50.0, size=0.05)
    tau = torque(robot, motion)
    result = dynid.identify(robot, dynid.Log(motion.t, np.degrees(motion.q), tau=tau))
    assert result.verdict.level in (("usable", "weak", "do not trust") if name == "scara" else ("weak", "do not trust"))
    assert name != "scara" or "impossible_parameters" in [reason.code for reason in result.verdict.reasons]


def test_errors_are_those_of_predict_in_motion_and_at_rest() -> None:
    """A joint that pauses: its errors at rest and in motion, counted by hand, beside trivial models fitted by hand."""
    robot = with_friction(dynid.load_robot("gautier3"))

    def recorded(seed: int) -> tuple[Motion, dynid.Log]:
        motion = fourier_motion(robot, duration=12.0, rate=100.0, seed=seed)
        still = (motion.t > 4.0) & (motion.t < 7.0)
        q, v, a = motion.q.copy(), motion.v.copy(), motion.a.copy()
        q[still, 1], v[still, 1], a[still, 1] = q[still, 1][0], 0.0, 0.0
        motion = Motion(motion.t, q, v, a)
        noise = np.where(still, 3.0, 0.3)[:, None] * np.random.default_rng(seed).standard_normal(q.shape)
        return motion, log_of(motion, torque(robot, motion) + noise)

    (_, used), (motion, log) = recorded(0), recorded(3)
    result = dynid.identify(robot, used, friction=PLAIN, validate=log)
    assert result.cutoff is None
    assert log.tau is not None
    assert used.tau is not None
    left, still = log.tau - result.predict(motion), np.abs(motion.v[:, 1]) < 1e-3
    found = result.joint_errors[1]
    assert found.joint == "2"
    assert found.standing == pytest.approx(still.mean())
    assert found.moving_rmse == pytest.approx(np.sqrt((left[~still, 1] ** 2).mean()))
    assert found.standing_rmse == pytest.approx(np.sqrt((left[still, 1] ** 2).mean()))
    off = log.tau[:, 1] - used.tau[:, 1].mean()
    assert found.mean_moving_rmse == pytest.approx(np.sqrt((off[~still] ** 2).mean()))
    assert found.mean_standing_rmse == pytest.approx(np.sqrt((off[still] ** 2).mean()))
    assert found.moving_rmse < found.gravity_moving_rmse < found.mean_moving_rmse
    standing = result.joint_errors[0]
    assert np.isnan(standing.standing_rmse) or standing.standing < 0.01
    inside = dynid.identify(robot, used, friction=PLAIN)  # held-out stretches: together the whole error
    for error, rmse in zip(inside.joint_errors, inside.validation.rmse, strict=True):
        squares = [error.moving_rmse**2, np.nan_to_num(error.standing_rmse) ** 2]
        assert np.sqrt(np.dot(squares, [1.0 - error.standing, error.standing])) == pytest.approx(rmse)
    assert "validation_same_motion" not in [note.code for note in result.notes]


def test_what_torques_cannot_show_is_said() -> None:
    robot, motion, tau = data("puma560")
    result = dynid.identify(robot, log_of(motion, tau), friction=PLAIN)
    codes = {text.code: text.facts for text in result.verdict.unproven}
    assert codes.keys() == {"common_factor_unproven", "lengths_unproven", "zero_unproven", "motions_unproven"}
    assert codes["zero_unproven"]["joints"] == ["1", "6"]
    # it is so: a common factor changes nothing but the parameters, a zero of the first joint nothing at all
    for other in (log_of(motion, 1.3 * tau), log_of(replace(motion, q=motion.q + np.eye(6)[0]), tau)):
        again = dynid.identify(robot, other, friction=PLAIN)
        np.testing.assert_allclose(again.validation.nrmse, result.validation.nrmse, rtol=1e-6)
    (note,) = [note for note in result.notes if note.code == "validation_same_motion"]
    assert note.facts["low"] == pytest.approx(1.1 * result.validation.mean)
    assert note.facts["high"] == pytest.approx(1.2 * result.validation.mean)


@pytest.mark.parametrize("noise", [0.0, 0.15])
def test_joints_beyond_their_limits_are_reported(noise: float) -> None:
    """With how far and how long; where the fit is poor, the next motion keeps clear of the stops."""
    robot, motion, tau = data()
    lower, upper = motion.q.min(axis=0) - 0.1, motion.q.max(axis=0) + 0.1
    upper[1] = motion.q[:, 1].max() - 0.005
    limits = [JointLimits(low, high, 5.0) for low, high in zip(lower, upper, strict=True)]
    links = [replace(link, limits=limit) for link, limit in zip(robot.links, limits, strict=True)]
    over = np.maximum(motion.q[:, 1] - upper[1], 0.0)
    tau = tau + 3000.0 * over[:, None] * np.array([0.0, 1.0, 0.0])
    tau = tau + noise * tau.std(axis=0) * np.random.default_rng(5).standard_normal(tau.shape)
    result = dynid.identify(replace(robot, links=tuple(links)), log_of(motion, tau), friction=PLAIN)
    said = [message for _, found in result.findings for message in found if message.code == "joints_beyond_limits"]
    assert [list(message.facts["joints"]) for message in said] == [["2"]]
    far, seconds = said[0].facts["joints"]["2"]
    assert far == pytest.approx(0.005, rel=0.1)
    assert seconds == pytest.approx((over > 5e-4).sum() / 50.0, rel=0.3)
    codes = [reason.code for reason in result.verdict.reasons]
    if noise:
        assert codes[0] == "joints_beyond_limits"
        assert Option("margin", 0.1) in result.verdict.next_step.facts["options"]
    else:
        assert result.verdict.level == "good"
    inside = dynid.identify(robot, log_of(motion, tau), friction=PLAIN)
    assert "joints_beyond_limits" not in {message.code for _, found in inside.findings for message in found}
