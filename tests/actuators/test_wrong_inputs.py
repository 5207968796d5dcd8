"""Wrong inputs of identify_actuators: each is named in a line or two, as an error or a warning with a code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco")

from campaign.drives import Drive, columns, leg_text, random_command, random_drive, record

from dynid import DynidError, identify_actuators, load_robot
from dynid.actuators.controller import read_controller
from dynid.actuators.mistakes import judge_drives
from dynid.actuators.rollout import RolloutErrors
from dynid.messages import command_line_wording
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

Table = dict[str, Array]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> tuple[Robot, Drive, Table]:
    text = leg_text()
    path = tmp_path_factory.mktemp("leg") / "leg.xml"
    path.write_text(text, encoding="utf-8")
    rng = np.random.default_rng(3)
    drive = random_drive(rng, text, delay=0.006, rate=200.0, bits=16)
    return load_robot(path), drive, columns(record(text, drive, random_command(rng, text, 8.0), 8.0))


def degrees(table: Table, wanted: Callable[[str], bool]) -> Table:
    return {key: np.degrees(x) if wanted(key) else x for key, x in table.items()}


def times(table: Table, factor: float, part: str) -> Table:
    return {key: factor * x if part in key else x for key, x in table.items()}


LOGS: dict[str, tuple[str, Callable[[Table], Table]]] = {
    "all in degrees": ("positions_in_degrees", lambda t: degrees(t, lambda key: key != "t")),
    "commands in degrees": ("commands_in_degrees", lambda t: degrees(t, lambda key: "cmd" in key)),
    "commands exchanged": ("command_of_other_joint", lambda t: t | {"q_cmd2": t["q_cmd3"], "q_cmd3": t["q_cmd2"]}),
    "command reversed": ("command_reversed", lambda t: t | {"q_cmd2": -t["q_cmd2"]}),
    "commands are positions": ("commands_are_positions", lambda t: t | {f"q_cmd{j}": t[f"q{j}"] for j in (1, 2, 3)}),
    "commands constant": ("commands_constant", lambda t: {k: 0.0 * x if "cmd" in k else x for k, x in t.items()}),
    "a command missing": ("missing_command", lambda t: {k: x for k, x in t.items() if k != "q_cmd2"}),
    "no commands": ("missing_commands", lambda t: {k: x for k, x in t.items() if "cmd" not in k}),
    "no positions": ("missing_positions", lambda t: {k: x for k, x in t.items() if k not in ("q1", "q2", "q3")}),
    "an empty position": ("position_without_numbers", lambda t: t | {"q1": np.nan * t["q1"]}),
    "an empty command": ("command_without_numbers", lambda t: t | {"q_cmd1": np.nan * t["q1"]}),
    "one command in degrees": ("commands_in_degrees", lambda t: degrees(t, lambda key: key == "q_cmd2")),
    "commands in steps": (
        "commands_in_other_units",
        lambda t: {k: x * 652.0 if "cmd" in k else x for k, x in t.items()},
    ),
    "commands in turns": (
        "commands_in_other_units",
        lambda t: {k: x / 6.283 if "cmd" in k else x for k, x in t.items()},
    ),
    "all in steps": ("positions_in_other_units", lambda t: times(t, 652.0, "q")),
    "time in us": ("log_rate_unfit", lambda t: t | {"t": 1e6 * t["t"]}),
    "slow": ("log_rate_unfit", lambda t: {k: x[::20] for k, x in t.items()}),
    "time in ms": ("log_rate_unfit", lambda t: t | {"t": 1e3 * t["t"]}),
    "30 samples": ("log_too_short", lambda t: {k: x[:30] for k, x in t.items()}),
    "one second": ("log_too_short", lambda t: {k: x[:200] for k, x in t.items()}),
    "at rest": ("no_motion", lambda t: {k: x if k == "t" else 0.0 * x + x[0] for k, x in t.items()}),
}


@pytest.mark.parametrize("name", LOGS)
def test_wrong_logs(case: tuple[Robot, Drive, Table], name: str) -> None:
    robot, drive, table = case
    code, change = LOGS[name]
    with pytest.raises(DynidError) as caught:
        identify_actuators(robot, change(table), controller={"kp": drive.kp, "kd": drive.kd})
    assert caught.value.code == code
    assert caught.value.remedy
    assert len(str(caught.value).splitlines()) <= 2


CONTROLLERS: dict[str, tuple[str, Any]] = {
    "no gains": ("missing_gain", {"kind": "position"}),
    "none": ("missing_controller", None),
    "unknown kind": ("unknown_controller_kind", {"kind": "positon", "kp": 1.0}),
    "unknown key": ("unknown_controller_key", {"Kp": 1.0}),
    "negative": ("invalid_gain", {"kp": -3.0}),
    "text": ("invalid_gain", {"kp": "high"}),
    "two values": ("joint_count_mismatch", {"kp": [1.0, 2.0]}),
    "unknown joint": ("unknown_joint", {"kp": 1.0, "joint": {"hpi": {"kp": 2.0}}}),
    "without its command": ("missing_commands", {"kind": "velocity", "kd": 1.0}),
    "no file": ("file_unreadable", "nowhere.toml"),
    "other file": ("unsupported_suffix", "drives.json"),
    "rate": ("invalid_rate", {"kp": 1.0, "rate": 0}),
    "loop": ("unknown_loop", {"kp": 1.0, "loop": "motor"}),
    "list": ("controller_malformed", [1, 2]),
    "a servo of unknown stiffness": (
        "servo_gain_unknown",
        {"kind": "servo", "kp": "unknown", "voltage": 12.0, "resistance": 1.0},
    ),
}


@pytest.mark.parametrize("name", CONTROLLERS)
def test_wrong_controllers(case: tuple[Robot, Drive, Table], name: str) -> None:
    code, controller = CONTROLLERS[name]
    with pytest.raises(DynidError) as caught:
        identify_actuators(case[0], case[2], controller=controller)
    assert caught.value.code == code
    assert caught.value.remedy or code == "file_unreadable"
    assert len(str(caught.value).splitlines()) <= 2


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("invalid_delay", {"delay": 6.0}),
        ("invalid_delay", {"delay": -0.01}),
        ("invalid_delay", {"delay": "fast"}),
        ("invalid_delay", {"sensor_delay": "old"}),
        ("sensor_delay_not_visible", {"sensor_delay": "auto", "controller": {"kp": 1.0, "loop": "host"}}),
        ("invalid_polish", {"polish": -1}),
        ("invalid_cutoff", {"cutoff": 1e4}),
        ("unknown_link", {"links": "arm"}),
        ("masses_and_gains_unknown", {"links": "all", "controller": {"kp": "unknown"}}),
    ],
)
def test_wrong_arguments(case: tuple[Robot, Drive, Table], code: str, options: dict[str, Any]) -> None:
    robot, drive, table = case
    with pytest.raises(DynidError) as caught:
        identify_actuators(robot, table, **({"controller": {"kp": drive.kp, "kd": drive.kd}} | options))
    assert caught.value.code == code
    assert caught.value.remedy


def test_a_floating_base_is_refused_with_the_remedy(case: tuple[Robot, Drive, Table], tmp_path: Path) -> None:
    base = '<body name="base"><freejoint/><inertial pos="0 0 0" mass="3" diaginertia=".1 .1 .1"/>'
    text = leg_text().replace('<body name="hip"', base + '<body name="hip"')
    path = tmp_path / "floating.xml"
    path.write_text(text.replace("</worldbody>", "</body></worldbody>"), encoding="utf-8")
    with pytest.raises(DynidError) as caught:
        identify_actuators(load_robot(path), case[2], controller={"kp": 1.0})
    assert caught.value.code == "floating_base"
    assert "stand" in caught.value.remedy


def test_a_robot_file_without_masses_is_named_and_never_good(case: tuple[Robot, Drive, Table]) -> None:
    robot = case[0].with_parameters(np.zeros(len(case[0].parameter_names)))
    found = identify_actuators(robot, case[2], controller={"kp": case[1].kp, "kd": case[1].kd})
    assert "links_without_mass" in [text.code for text in found.warnings]
    assert found.verdict.level != "good"


def reversed_joint(table: Table, j: int) -> Table:
    return {key: -x if key in (f"q{j}", f"q_cmd{j}") else x for key, x in table.items()}


def exchanged(table: Table, i: int, j: int) -> Table:
    keys = {f"q{i}": f"q{j}", f"q{j}": f"q{i}", f"q_cmd{i}": f"q_cmd{j}", f"q_cmd{j}": f"q_cmd{i}"}
    return {key: table[keys.get(key, key)] for key in table}


def early(table: Table, samples: int) -> Table:
    return {
        key: np.r_[x[samples:], np.full(samples, x[-1])] if key in ("q1", "q2", "q3", "q4") else x
        for key, x in table.items()
    }


def late(table: Table, samples: int) -> Table:
    return {
        key: np.r_[np.full(samples, x[0]), x[:-samples]] if key in ("q1", "q2", "q3", "q4") else x
        for key, x in table.items()
    }


Change = Callable[[Table], Table]
SAME: Change = dict
MISTAKES: dict[str, tuple[Change, Callable[[Drive], dict[str, Any]]]] = {
    "gains_swapped": (SAME, lambda d: {"controller": {"kp": d.kd, "kd": d.kp}}),
    "gains_per_degree": (SAME, lambda d: {"controller": {"kp": np.radians(d.kp), "kd": np.radians(d.kd)}}),
    "gains_scaled": (SAME, lambda d: {"controller": {"kp": 2.5 * d.kp, "kd": 2.5 * d.kd}}),
    "kp_wrong": (SAME, lambda d: {"controller": {"kp": d.kp * (1.0, 1.0, 1.8), "kd": d.kd}}),
    "delay_wrong": (SAME, lambda d: {"delay": 0.03}),
    "torque_limit_too_low": (SAME, lambda d: {"controller": {"kp": d.kp, "kd": d.kd, "max_torque": 1.0}}),
    "delay_negative": (lambda t: early(t, 4), lambda d: {}),
    "delay_beyond_search": (lambda t: late(t, 40), lambda d: {}),
    "joint_reversed": (lambda t: reversed_joint(t, 2), lambda d: {}),
    "joints_exchanged": (lambda t: exchanged(t, 2, 3), lambda d: {}),
    "zero_offset_seen": (lambda t: t | {"q2": t["q2"] + 0.2, "q_cmd2": t["q_cmd2"] + 0.2}, lambda d: {}),
    "damping_negative": (SAME, lambda d: {"controller": {"kp": d.kp, "kd": 3.0 * d.kd}}),
    "gains_of_other_joint": (SAME, lambda d: {"controller": {"kp": d.kp[[0, 2, 1]], "kd": d.kd[[0, 2, 1]]}}),
    "gains_doubted": (SAME, lambda d: {"controller": {"kp": 1.1 * d.kp, "kd": d.kd}}),
    "loop_wrong": (SAME, lambda d: {"controller": {"kp": d.kp, "kd": d.kd, "loop": "host"}}),
    "rate_not_visible": (SAME, lambda d: {"controller": {"kp": d.kp, "kd": d.kd, "rate": 1000}}),
    "rate_wrong": (SAME, lambda d: {"controller": {"kp": d.kp, "kd": d.kd, "rate": 100}}),
    "sensor_delay_seen": (SAME, lambda d: {"sensor_delay": 0.005}),
    "delays_differ": (lambda t: t | {"q_cmd2": np.r_[t["q_cmd2"][3:], np.full(3, t["q_cmd2"][-1])]}, lambda d: {}),
    "positions_late": (lambda t: t | {"q2": np.r_[np.full(3, t["q2"][0]), t["q2"][:-3]]}, lambda d: {}),
    "command_zero_seen": (lambda t: t | {"q_cmd2": t["q_cmd2"] + 0.3}, lambda d: {}),
    "command_unrelated": (lambda t: t | {"q_cmd2": t["q_cmd3"]}, lambda d: {}),
    "command_scaled": (lambda t: t | {"q_cmd3": 0.7 * t["q_cmd3"]}, lambda d: {}),
    "joint_stands_still": (
        lambda t: {k: 0.0 * x + x[0] if k in ("q1", "q_cmd1") else x for k, x in t.items()}, lambda d: {}
    ),
}  # fmt: skip


LONG = (
    "gains_scaled", "joints_exchanged", "delay_beyond_search", "damping_negative", "gains_per_degree",
    "gains_of_other_joint", "command_unrelated", "positions_late", "command_scaled", "joint_reversed",
)  # fmt: skip
"""Those that take seconds: run with the slow tests."""

ROLLOUTS = RolloutErrors(
    np.array([0.5]), np.array([0.02]), np.array([1e-4]), np.array([1e-4]), np.full((1, 2), 1e-4), np.ones(1),
    np.arange(4.0), np.random.default_rng(0).normal(size=(4, 2)), np.random.default_rng(1).normal(size=(4, 2)),
    np.random.default_rng(2).normal(size=(4, 2)),
)  # fmt: skip
"""Small errors on held-out motion."""


@pytest.mark.parametrize("code", [pytest.param(x, marks=[pytest.mark.slow] * (x in LONG)) for x in MISTAKES])
def test_mistakes_that_the_fit_shows(case: tuple[Robot, Drive, Table], code: str) -> None:
    """They are named, and the verdict is not good."""
    robot, drive, table = case
    change, options = MISTAKES[code]
    given: dict[str, Any] = {"controller": {"kp": drive.kp, "kd": drive.kd, "loop": "drive"}} | options(drive)
    found = identify_actuators(robot, change(table), **given)
    (said,) = (warning for warning in found.warnings if warning.code == code)
    assert said.remedy
    assert found.verdict.level != "good"
    assert found.verdict.next_step


def test_late_positions_of_a_joint_are_named_with_their_time(case: tuple[Robot, Drive, Table]) -> None:
    robot, drive, table = case
    shifted = table | {"q3": np.r_[np.full(2, table["q3"][0]), table["q3"][:-2]]}
    found = identify_actuators(robot, shifted, controller={"kp": drive.kp, "kd": drive.kd, "loop": "drive"})
    (said,) = (w for w in found.warnings if w.code == "positions_late")
    assert said.facts["joint"] == "knee"
    assert said.facts["late"] == pytest.approx(10.0)
    assert found.verdict.level == "do not trust"


@pytest.fixture(scope="module")
def saturated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Robot, Drive, Table]:
    """A leg of two joints whose drives are at their limits for some of the time."""
    text = leg_text(2)
    path = tmp_path_factory.mktemp("saturated") / "leg.xml"
    path.write_text(text, encoding="utf-8")
    rng = np.random.default_rng(5)
    free = random_drive(rng, text, delay=0.006, rate=200.0, bits=16)
    drive = replace(free, max_torque=0.05 * free.kp)
    return load_robot(path), drive, columns(record(text, drive, random_command(rng, text, 8.0), 8.0))


@pytest.mark.parametrize(("share", "code"), [(0.8, "torque_limit_too_low"), (1.0, ""), (3.0, "torque_limit_too_high")])
def test_a_limit_of_torque_that_does_not_fit_is_named(
    saturated: tuple[Robot, Drive, Table], share: float, code: str
) -> None:
    robot, drive, table = saturated
    known = {"kp": drive.kp, "kd": drive.kd, "loop": "drive", "max_torque": share * drive.max_torque}
    found = identify_actuators(robot, table, controller=known)
    assert [w.code for w in found.warnings if w.code.startswith("torque_limit")] == [code] * bool(code)
    if code:
        assert found.verdict.level == "do not trust"
        assert "unknown" in found.verdict.next_step


@pytest.mark.slow
def test_other_kp_are_named_for_all_joints_that_they_fit(case: tuple[Robot, Drive, Table]) -> None:
    """Also for joints that are explained well enough; zeros, which the wrong gains pretend, are not."""
    robot, drive, table = case
    wrong = {"kp": drive.kp * (1.0, 2.0, 2.6), "kd": drive.kd, "loop": "drive"}
    found = identify_actuators(robot, table, controller=wrong)
    (said,) = (w for w in found.warnings if w.code == "kp_wrong")
    assert "'hip'" in said
    assert "'knee'" in said
    assert "zero_offset_seen" not in {w.code for w in found.warnings}


def test_a_kd_that_is_not_given_is_noted(case: tuple[Robot, Drive, Table]) -> None:
    robot, drive, _ = case
    (said,) = read_controller({"kp": drive.kp}, robot).notes
    assert said.code == "kd_not_given"
    assert read_controller({"kp": drive.kp, "kd": drive.kd}, robot).notes == ()


def test_numbers_of_gains_that_cannot_be_do_not_break_the_solver(case: tuple[Robot, Drive, Table]) -> None:
    robot, drive, table = case
    found = identify_actuators(robot, table, controller={"kp": drive.kp, "kd": 1e3 * drive.kd, "loop": "drive"})
    assert found.verdict.level == "do not trust"


def test_samples_that_were_lost_do_not_change_the_loop(case: tuple[Robot, Drive, Table]) -> None:
    robot, drive, table = case
    kept = np.random.default_rng(1).uniform(size=len(table["t"])) > 0.1
    gains = {"kp": drive.kp, "kd": drive.kd}
    found = identify_actuators(robot, {key: x[kept] for key, x in table.items()}, controller=gains)
    assert found.loop == "drive"
    np.testing.assert_allclose(found.of("Ia"), drive.armature, rtol=0.1)


@pytest.mark.slow
def test_gravity_upside_down_is_named(case: tuple[Robot, Drive, Table]) -> None:
    robot, drive, table = case
    turned = load_robot(robot.source, gravity=[0.0, 0.0, 9.81])
    found = identify_actuators(turned, table, controller={"kp": drive.kp, "kd": drive.kd, "loop": "drive"})
    (said,) = (w for w in found.warnings if w.code == "gravity_reversed")
    assert "gravity" in said.remedy
    assert found.verdict.level == "do not trust"


@pytest.mark.slow
def test_gravity_from_another_side_or_none_is_named(case: tuple[Robot, Drive, Table]) -> None:
    """The robot on a wall, and in orbit, where the file stands on the floor."""
    robot, drive, table = case
    known = {"kp": drive.kp, "kd": drive.kd, "loop": "drive"}
    found = identify_actuators(load_robot(robot.source, gravity=[0.0, 9.81, 0.0]), table, controller=known)
    (said,) = (w for w in found.warnings if w.code == "gravity_elsewhere")
    np.testing.assert_allclose(said.facts["fix"].value, robot.gravity, atol=0.5)
    text = leg_text().replace("<option ", '<option gravity="0 0 0" ')
    rng = np.random.default_rng(3)
    drive = random_drive(rng, leg_text(), delay=0.006, rate=200.0, bits=16)
    free = columns(record(text, drive, random_command(rng, leg_text(), 8.0), 8.0))
    found = identify_actuators(robot, free, controller=known)
    (said,) = (w for w in found.warnings if w.code == "gravity_absent")
    assert said.facts["fix"].value == [0.0, 0.0, 0.0]
    assert found.verdict.level == "do not trust"


def test_right_inputs_are_called_good(case: tuple[Robot, Drive, Table]) -> None:
    robot, drive, table = case
    found = identify_actuators(robot, table, controller={"kp": drive.kp, "kd": drive.kd})
    assert found.warnings == ()
    assert found.verdict.level == "usable"  # 6 s to learn from: the armature of a joint is known to 15 %
    assert [w.code for w in found.verdict.reasons] == ["rollout_error", "armature_weakly_determined"]
    rng = np.random.default_rng(3)
    drive = random_drive(rng, leg_text(), delay=0.006, rate=200.0, bits=16)
    longer = columns(record(leg_text(), drive, random_command(rng, leg_text(), 16.0), 16.0))
    found = identify_actuators(robot, longer, controller={"kp": drive.kp, "kd": drive.kd})
    assert found.warnings == ()
    assert found.verdict.level == "good"


def test_a_verdict_names_armatures_with_wide_intervals() -> None:
    good = judge_drives((), (), ROLLOUTS, {"hip": 0.02, "knee": 0.04})
    assert good.level == "good"
    assert "knee" not in str(good)
    named = judge_drives((), (), ROLLOUTS, {"hip": 0.02, "knee": 0.07})
    assert named.level == "good"
    assert "joints 'knee' is known to +- 7 % only" in str(named)
    assert "larger accelerations" in named.next_step
    wide = judge_drives((), (), ROLLOUTS, {"hip": 0.12, "knee": 0.07})
    assert wide.level == "usable"
    assert "joints 'hip', 'knee' is known to +- 12, 7 % only" in str(wide)
    assert wide.next_step.code == "repair"
    assert "dynid excite --for actuators" in command_line_wording(wide.next_step)


ARM = """<mujoco model="arm4"><compiler angle="radian" autolimits="true"/><worldbody><body name="turret" pos="0 0 .1">
<joint name="yaw" axis="0 0 1" range="-1.5 1.5"/><geom type="cylinder" size=".05 .05" mass="1.1"/>
<body name="upper" pos="0 0 .06"><joint name="shoulder" axis="0 1 0" range="-1 1"/>
<geom type="capsule" fromto="0 0 0 0 0 .25" size=".03" mass=".9"/><body name="fore" pos="0 0 .25">
<joint name="elbow" axis="0 1 0" range="-1.5 1.5"/><geom type="capsule" fromto="0 0 0 0 0 .2" size=".025" mass=".55"/>
<body name="hand" pos="0 0 .2"><joint name="wrist" axis="0 1 0" range="-1.5 1.5"/>
<geom type="box" pos=".02 0 .05" size=".03 .02 .05" mass=".3"/></body></body></body></body></worldbody></mujoco>"""
ON_ARM: dict[str, tuple[Change, Callable[[Drive], dict[str, Any]]]] = {
    "gains_swapped": (SAME, lambda d: {"kp": d.kd, "kd": d.kp}),
    "gains_per_degree": (SAME, lambda d: {"kp": np.radians(d.kp), "kd": np.radians(d.kd)}),
    "gains_scaled": (SAME, lambda d: {"kp": 10.0 * d.kp, "kd": 10.0 * d.kd, "max_torque": 1e3}),
    "gains_doubted": (SAME, lambda d: {"kp": 1.1 * d.kp}),
    "damping_negative": (SAME, lambda d: {"kd": 3.0 * d.kd}),
    "joints_exchanged": (lambda t: exchanged(t, 2, 3), lambda d: {}),
    "joint_reversed": (lambda t: reversed_joint(t, 2), lambda d: {}),
    "delay_beyond_search": (lambda t: late(t, 40), lambda d: {}),
    "delay_negative": (lambda t: early(t, 5), lambda d: {}),
    "zero_offset_seen": (lambda t: t | {"q2": t["q2"] + 0.2, "q_cmd2": t["q_cmd2"] + 0.2}, lambda d: {}),
    "command_zero_seen": (lambda t: t | {"q_cmd2": t["q_cmd2"] + 0.25}, lambda d: {}),
    "command_unrelated": (lambda t: t | {"q_cmd2": t["q_cmd3"]}, lambda d: {}),
    "torque_limit_too_low": (SAME, lambda d: {"max_torque": 0.03 * d.kp}),
    "rate_wrong": (SAME, lambda d: {"rate": 50}),
}  # fmt: skip


@pytest.mark.slow
def test_mistakes_on_an_arm_of_which_nothing_was_tuned(tmp_path: Path) -> None:
    """None of the constants were chosen by looking at it."""
    path = tmp_path / "arm.xml"
    path.write_text(ARM, encoding="utf-8")
    robot, rng = load_robot(path), np.random.default_rng(2026)
    drive = random_drive(rng, ARM, delay=0.005, rate=250.0, bits=16)
    table = columns(record(ARM, drive, random_command(rng, ARM, 14.0), 14.0))
    right = {"kp": drive.kp, "kd": drive.kd, "loop": "drive"}
    found = identify_actuators(robot, table, controller=right)
    assert found.warnings == ()
    for code, (change, options) in ON_ARM.items():
        found = identify_actuators(robot, change(table), controller=right | options(drive))
        assert code in {warning.code for warning in found.warnings}, f"{code}: {found.warnings}"
        assert found.verdict.level != "good"
