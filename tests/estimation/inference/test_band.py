"""The 95 % band of torques holds 93 to 97 % of what is measured on held-out data, filtered alike."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import butter, sosfiltfilt

import dynid
from dynid.robot.motion import Motion
from dynid.robot.transform import Array
from recordings import CASES, Case, logs
from several_logs import invented, log_of_motion, motion_of


@pytest.mark.parametrize("name", CASES)
def test_recordings_lie_inside_the_band(name: str) -> None:
    case = CASES[name]
    robot = dynid.load_robot(case.robot)
    fit, held_out = logs(case, robot, cut=False)
    result = dynid.identify(robot, fit, rotor_inertia=case.rotor_inertia, cutoff=case.cutoff)
    inside = np.concatenate([inside_band(case, result, log) for log in held_out])
    assert 0.93 <= inside.mean() <= 0.97


def inside_band(case: Case, result: dynid.Identification, log: dynid.Log) -> Array:
    """Which samples (N, n) of a log lie inside, with nothing of dynid but prediction and band."""
    t, places = np.unique(log.t, return_index=True)
    grid = np.arange(t[0], t[-1], 1.0 / case.rate)
    sos = butter(4, case.cutoff / (0.5 * case.rate), output="sos")

    def low(x: Array) -> Array:
        even = np.column_stack([np.interp(grid, t, column) for column in x[places].T])
        return np.asarray(sosfiltfilt(sos, even, axis=0, padlen=int(3 * case.rate / case.cutoff)))

    q = low(log.q)
    v = low(log.v) if case.measured_velocity and log.v is not None else np.gradient(q, 1.0 / case.rate, axis=0)
    motion = Motion(grid, q, v, np.gradient(v, 1.0 / case.rate, axis=0))
    assert log.tau is not None
    error = low(log.tau) - np.asarray(sosfiltfilt(sos, result.predict(motion), axis=0))
    return np.asarray(np.abs(error) <= result.band(motion))[case.trim : -case.trim]


@pytest.mark.parametrize("friction", [("viscous", "coulomb", "offset"), "auto"])
@pytest.mark.parametrize("name", ["gautier3", "puma560"])
def test_other_motions_of_simulated_robots_lie_inside_the_band(name: str, friction: str | tuple[str, ...]) -> None:
    """Friction that the model lacks; three logs, and ten of other motions. Ends, where filters settle, are left out."""
    robot, inside = invented(name), []
    for run in range(2):
        fit = [log_of_motion(robot, 20 * run + seed, plain=False, duration=20.0) for seed in range(3)]
        result = dynid.identify(robot, fit, friction=friction, cutoff=8.0)
        sos = butter(4, 8.0 / 50.0, output="sos")
        for seed in range(20 * run + 10, 20 * run + 15):
            log = log_of_motion(robot, seed, plain=False)
            assert log.v is not None
            assert log.a is not None
            assert log.tau is not None
            motion = Motion(log.t, log.q, log.v, log.a)
            error = sosfiltfilt(sos, log.tau - result.predict(motion), axis=0)
            inside.append((np.abs(error) <= result.band(motion))[50:-50])
    assert 0.93 <= np.mean(inside) <= 0.97


def test_validation_beyond_the_data_is_said_and_widens_the_band() -> None:
    """A motion four times as wide leaves what was seen; another one as wide does not."""
    robot = invented("gautier3")
    narrow, other, wide = (narrow_log(robot, seed, size) for seed, size in ((1, 0.25), (2, 0.25), (3, 1.5)))
    codes = []
    for held_out in (other, wide):
        result = dynid.identify(robot, narrow, friction=("viscous", "coulomb", "offset"), validate=[held_out])
        codes.append("validation_beyond_data" in {note.code for note in result.notes})
    assert codes == [False, True]
    widths = []
    for log in (other, wide):
        assert log.v is not None
        assert log.a is not None
        widths.append(result.band(Motion(log.t, log.q, log.v, log.a)).mean())
    assert widths[1] > 2.0 * widths[0]


def narrow_log(robot: dynid.Robot, seed: int, size: float) -> dynid.Log:
    """A log of 20 s whose positions and velocities are so many times those of `log_of_motion`'s."""
    motion = motion_of(robot, seed, duration=20.0)
    motion = Motion(motion.t, size * motion.q, size * motion.v, size * motion.a)
    log = dynid.simulate(robot, motion, noise=0.3)
    return dynid.Log(motion.t, motion.q, v=motion.v, a=motion.a, tau=log.tau)


def test_slow_joints_have_a_wider_band() -> None:
    """At rest dry friction is known to its own size, no better."""
    robot = invented("gautier3")
    log = log_of_motion(robot, 1, plain=True, duration=20.0)
    result = dynid.identify(robot, log, friction=("viscous", "coulomb", "offset"))
    dry = np.array([result.value(f"Fc{k}") for k in (1, 2, 3)])
    assert log.v is not None
    assert log.a is not None
    motion = Motion(log.t[:1], log.q[:1], log.v[:1], log.a[:1])
    still, fast = (result.band(Motion(motion.t, motion.q, v + 0.0 * motion.v, motion.a)) for v in (0.0, 1.0))
    assert np.all(still >= dry)
    assert np.all(fast < 0.5 * dry)
    old = result.replace(calibration=None, band_factor=np.full(3, 2.0))
    plain = result.replace(calibration=None)
    np.testing.assert_allclose(old.band(motion), 2.0 * plain.band(motion), rtol=1e-12)
