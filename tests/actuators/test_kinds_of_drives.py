"""Drives of every kind against what was simulated: servos, velocity and current loops, limits, delays, zeros, play."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco")

from campaign.drives import Drive, columns, leg_text, random_command, random_drive, record

from dynid import Actuators, identify_actuators, load_robot
from dynid.actuators.controller import limit_rate, read_controller
from dynid.actuators.rollout import Windows
from dynid.logs.commands import CommandedMotion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

SECONDS = 9.0
LEG = leg_text(2)


@pytest.fixture(scope="module")
def leg(tmp_path_factory: pytest.TempPathFactory) -> Robot:
    path = tmp_path_factory.mktemp("leg") / "leg.xml"
    path.write_text(LEG, encoding="utf-8")
    return load_robot(path)


def drive_of(change: Callable[[Drive], dict[str, Any]] | None = None, **options: Any) -> tuple[Drive, dict[str, Array]]:
    """A drive and its recording."""
    rng = np.random.default_rng(3)
    drive = random_drive(rng, LEG, **({"rate": 500.0, "bits": 16, "delay": 0.006} | options))
    if change is not None:
        drive = replace(drive, **change(drive))
    return drive, columns(record(LEG, drive, random_command(rng, LEG, SECONDS), SECONDS))


def check(found: Actuators, drive: Drive, *, armature: float = 0.05, rollout: float = 1e-3) -> None:
    """Delay within 0.6 ms, armatures and rollouts of 0.5 s within their limits."""
    assert abs(found.delay - drive.delay) < 0.6e-3
    np.testing.assert_allclose(found.of("Ia"), drive.armature, rtol=armature)
    assert found.rollout is not None
    assert found.rollout.at(0.5) < rollout


def as_servo(drive: Drive) -> dict[str, Any]:
    """A hobby servo with the same stiffness."""
    kt = np.sqrt(0.5 * drive.kd)
    return {
        "kind": "servo", "torque_constant": kt, "resistance": 1.0, "voltage": 24.0, "kp": drive.kp / (24.0 * kt),
        "kd": 0.3 * drive.kd / (24.0 * kt), "damping": 0.3 * drive.damping, "dead_band": 0.005,
    }  # fmt: skip


def test_a_servo_with_a_dead_band(leg: Robot) -> None:
    drive, log = drive_of(as_servo)
    known = {"kind": "servo", "kp": drive.kp, "kd": drive.kd, "dead_band": 0.005, "voltage": 24.0, "resistance": 1.0}
    found = identify_actuators(leg, log, controller=known | {"torque_constant": drive.torque_constant})
    check(found, drive)
    sought = identify_actuators(leg, log, controller=known | {"torque_constant": "unknown"})
    np.testing.assert_allclose(sought.gains.torque_constant, drive.torque_constant, rtol=0.02)


@pytest.mark.slow
def test_a_velocity_loop(leg: Robot) -> None:
    drive, log = drive_of(kind="velocity")
    check(identify_actuators(leg, log, controller={"kind": "velocity", "kd": drive.kd}), drive)
    sought = identify_actuators(leg, log, controller={"kind": "velocity", "kd": "unknown"})
    np.testing.assert_allclose(sought.gains.kd, drive.kd, rtol=0.05)


def test_a_current_loop_whose_gain_gravity_weighs(leg: Robot) -> None:
    drive, log = drive_of(kind="current", gain=0.7)
    found = identify_actuators(leg, log, controller={"kind": "current", "gain": "unknown"})
    check(found, drive, rollout=2e-3)
    np.testing.assert_allclose(found.gains.gain, 0.7, rtol=0.03)


def test_a_command_is_followed_at_a_limited_rate() -> None:
    t = np.array([0.0, 0.1, 0.2, 0.5, 0.6])
    asked = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
    found = limit_rate(t, asked, np.array([2.0, np.inf]))
    np.testing.assert_allclose(found[:, 0], [0.0, 0.2, 0.4, 1.0, 0.8])
    np.testing.assert_array_equal(found[:, 1], asked[:, 1])


def test_rollouts_begin_where_a_limited_command_is_known(leg: Robot) -> None:
    """A recording that begins while the drive is behind its command: 0.5 rad at 1 rad/s."""
    t = np.arange(0.0, 4.0, 0.002)
    command = np.full((len(t), 2), 0.5)
    q = np.minimum(t[:, None], 0.5) * np.ones(2)
    part = CommandedMotion("late", t, q, None, {"q_cmd": command})
    for limit, first in ((1.0, 0.6), (np.inf, 0.1)):
        windows = Windows([part], read_controller({"kp": 1.0, "kd": 0.1, "rate_limit": limit}, leg), 0.5, 10.0)
        assert windows.starts[0][1] == pytest.approx(first, abs=0.01)


def test_a_rate_limit_is_found_where_nobody_gave_it(leg: Robot) -> None:
    drive, log = drive_of(rate_limit=1.5)
    found = identify_actuators(leg, log, controller={"kp": drive.kp, "kd": drive.kd})
    assert "rate_limit_found" in {note.code for note in found.notes}
    limited = np.isfinite(found.gains.rate_limit)
    np.testing.assert_allclose(found.gains.rate_limit[limited], 1.5, rtol=0.03)
    check(found, drive)


@pytest.mark.slow
def test_load_dependent_friction(leg: Robot) -> None:
    drive, log = drive_of(load=0.1)
    found = identify_actuators(leg, log, controller={"kp": drive.kp, "kd": drive.kd})
    at = found.names.index("Fl:thigh")
    low, high = found.intervals[at]
    assert low <= 0.1 <= high
    assert high - low < 0.06
    check(found, drive, rollout=2e-3)
    plain_drive, plain_log = drive_of()
    plain = identify_actuators(leg, plain_log, controller={"kp": plain_drive.kp, "kd": plain_drive.kd})
    assert not any(p.symbol == "Fl" for p in plain.names)


def test_the_age_of_the_drives_own_positions(leg: Robot) -> None:
    drive, log = drive_of(sensor_delay=0.003)
    gains = {"kp": drive.kp, "kd": drive.kd}
    given = identify_actuators(leg, log, controller=gains, sensor_delay=0.003)
    check(given, drive)
    found = identify_actuators(leg, log, controller=gains, sensor_delay="auto")
    assert abs(found.sensor_delay - 0.003) < found.quantile * found.sensor_delay_sigma < 1.5e-3
    low, high = found.intervals[:2].T
    assert ((low <= drive.armature) & (drive.armature <= high)).all()
    assert "delay_is_a_sum" in {note.code for note in found.notes}


@pytest.mark.parametrize(
    ("rate", "log_every", "loop"),
    [
        (1000.0, 0.2, "drive"),
        pytest.param(100.0, 5.0, "drive", marks=pytest.mark.slow),
        pytest.param(100.0, 5.0, "host", marks=pytest.mark.slow),
    ],
)
def test_logs_that_are_slower_or_faster_than_the_controller(
    leg: Robot, rate: float, log_every: float, loop: str
) -> None:
    drive, log = drive_of(rate=rate, log_every=log_every, loop=loop, delay=0.004)
    found = identify_actuators(leg, log, controller={"kp": drive.kp, "kd": drive.kd, "rate": rate, "loop": loop})
    check(found, drive, armature=0.06, rollout=2e-3)


def test_zeros_of_commands_and_of_encoders(leg: Robot) -> None:
    drive, log = drive_of(command_zero=np.array([-0.03, 0.04]))
    gains = {"kp": drive.kp, "kd": drive.kd}
    found = identify_actuators(leg, log, controller=gains)
    np.testing.assert_allclose(found.zero_offsets, drive.command_zero, atol=2e-3)
    check(found, drive)
    drive, log = drive_of(zero=np.array([0.15, 0.0]))
    found = identify_actuators(leg, log, controller=gains)
    (said,) = (w for w in found.warnings if w.code == "zero_offset_seen")
    assert said.facts["joints"] == ["hip"]
    assert float(said.facts["angles"][0]) == pytest.approx(0.15, abs=0.04)
    assert found.verdict.level != "good"


@pytest.mark.slow
@pytest.mark.parametrize("play", [0.003, 0.006, 0.01])
def test_backlash_is_reported(leg: Robot, play: float) -> None:
    drive, log = drive_of(backlash=play)
    found = identify_actuators(leg, log, controller={"kp": drive.kp, "kd": drive.kd})
    assert "backlash" in {warning.code for warning in found.warnings}
    assert found.verdict.level != "good"
