"""A verdict recommends to predict torques: these are judged, whatever a result was fitted to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid import Log, Robot, identify, joint_parameters, simulate
from dynid.estimation.accumulate.state import State
from dynid.robot.motion import Motion
from dynid.robot.transform import Array
from fourier import fourier_motion
from frictions import with_friction
from plates import arm
from recordings import CASES, logs

SCALAR = ("power", "energy", "momentum")


def recording(robot: Robot, *, seed: int = 0, noise: float = 0.3, duration: float = 10.0) -> tuple[Log, Motion]:
    motion = fourier_motion(robot, seed=seed, duration=duration)
    return simulate(robot, motion, noise=noise, plate_noise=noise, seed=seed), motion


def nrmse(log: Log, predicted: Array) -> Array:
    assert log.tau is not None
    return np.asarray(np.sqrt(((predicted - log.tau) ** 2).mean(axis=0)) / log.tau.std(axis=0))


@pytest.mark.parametrize("model", SCALAR)
def test_the_figure_is_that_of_predict_on_other_logs(model: str) -> None:
    robot = with_friction(arm("gautier3"))
    (log, _), (other, motion) = recording(robot), recording(robot, seed=5)
    result = identify(robot, log, model=model, friction=("viscous", "coulomb", "offset"), validate=other)
    assert result.cutoff is None
    assert result.torques is not None
    np.testing.assert_allclose(result.torques.nrmse, nrmse(other, result.predict(motion)), rtol=1e-9)
    inside = identify(robot, log, model=model, friction=("viscous", "coulomb", "offset"))
    assert inside.torques is not None
    np.testing.assert_allclose(inside.torques.mean, result.torques.mean, rtol=0.3)


def test_forces_on_the_base_are_judged_by_torques_with_friction_and_rotors_fitted_beside() -> None:
    robot = with_friction(arm("puma560"))
    (log, _), (other, motion) = recording(robot, noise=0.1), recording(robot, seed=5, noise=0.1)
    result = identify(robot, log, model="reaction", validate=other)
    assert result.torques is not None
    assert other.tau is not None
    links = joint_parameters(result).torque(motion)
    left = other.tau - links
    for j in range(robot.n):  # friction and rotor fitted to this very log can only be better
        W = np.column_stack([motion.a[:, j], motion.v[:, j], np.sign(motion.v[:, j]), np.ones(len(motion))])
        left[:, j] -= W @ np.linalg.lstsq(W, left[:, j], rcond=None)[0]
    best = left.std(axis=0) / other.tau.std(axis=0)
    np.testing.assert_allclose(result.torques.nrmse, best, rtol=0.05)
    assert result.verdict.level == "good"
    assert "joint_parameters" in result.verdict.next_step
    inside = identify(robot, log, model="reaction")
    assert inside.torques is not None
    np.testing.assert_allclose(inside.torques.mean, result.torques.mean, rtol=0.2)


def test_torques_that_contradict_the_plate_are_named() -> None:
    robot = arm("puma560")
    log, _ = recording(robot, noise=0.1)
    assert log.tau is not None
    odd = Log(log.t, log.q, v=log.v, a=log.a, tau=log.tau * [1.0, 9.0, 1.0, 1.0, 1.0, 1.0], reaction=log.reaction)
    result = identify(robot, odd, model="reaction")
    assert result.diagnosis is not None
    assert result.diagnosis.best is not None
    halved = 2.0 * result.diagnosis.best.error <= result.diagnosis.best.before
    assert result.verdict.level == ("do not trust" if halved else "weak")
    first, mean, poor = result.verdict.reasons
    assert (first.code, first.facts["kind"]) == ("mistake_found", "mistaken_gain")
    (option,) = result.verdict.next_step.facts["options"]
    assert option.keyword == "gain"
    assert option.value == pytest.approx([1.0, 1.0 / 9.0, 1.0, 1.0, 1.0, 1.0], rel=0.01)
    assert (mean.code, mean.facts["of"]) == ("poor_prediction", "of the joint torques ")
    assert "gains of the torques" in mean.remedy
    assert poor.code == "channels_predicted_poorly"
    assert poor.facts["nrmse"] == pytest.approx({"2": 0.58}, abs=0.005)


def test_what_was_judged_is_said_where_there_are_no_torques(tmp_path: Path) -> None:
    robot = arm("puma560")
    log, _ = recording(robot, noise=0.1)
    result = identify(robot, Log(log.t, log.q, v=log.v, a=log.a, reaction=log.reaction), model="reaction")
    assert result.torques is None
    assert result.verdict.level == "good"
    assert "of the forces on the base alone: joint torques were not judged" in str(result.verdict)
    result.save(tmp_path / "r.json")
    assert dynid.Identification.load(tmp_path / "r.json").torques is None


@pytest.mark.parametrize("model", ["power", "momentum"])
def test_states_keep_the_torques_through_files(model: str, tmp_path: Path) -> None:
    robot = with_friction(arm("gautier3"))
    (log, _), (other, _) = recording(robot), recording(robot, seed=5)
    state = dynid.collect_state(robot, log, model=model, friction=())
    more = dynid.collect_state(robot, other, like=state)
    more.save(tmp_path / "more.json")
    apart = dynid.identify_states([state, State.load(tmp_path / "more.json")])
    once = dynid.identify_states([state, more])
    assert apart.torques is not None
    assert once.torques is not None
    np.testing.assert_allclose(apart.torques.nrmse, once.torques.nrmse, rtol=1e-12)
    whole = identify(robot, [log, other], model=model, friction=()).torques  # held out are other stretches of time
    assert whole is not None
    np.testing.assert_allclose(apart.torques.mean, whole.mean, rtol=0.2)
    once.save(tmp_path / "r.json")
    again = dynid.Identification.load(tmp_path / "r.json").torques
    assert again is not None
    np.testing.assert_array_equal(again.nrmse, once.torques.nrmse)


@pytest.mark.parametrize("name", ["panda", "lwr4"])
@pytest.mark.parametrize("model", ["power", "energy"])
def test_real_scalar_results_that_predict_no_torques_are_not_trusted(name: str, model: str) -> None:
    case = CASES[name]
    robot = dynid.load_robot(case.robot)
    fit, others = logs(case, robot, cut=True)
    result = identify(robot, fit, model=model, rotor_inertia=case.rotor_inertia, cutoff=case.cutoff, validate=others)
    assert result.validation.mean < 0.2
    assert result.torques is not None
    assert result.torques.mean > 1.0
    assert result.verdict.level == "do not trust"
    assert f"NRMSE of {result.torques.mean:.3g}" in result.verdict.reasons[0]
    assert "model='torque'" in result.verdict.next_step
