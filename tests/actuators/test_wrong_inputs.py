"""Wrong inputs of identify_actuators: each is named in a line or two, as an error or a warning with a code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco")

from campaign.drives import Drive, columns, leg_text, random_command, random_drive, record

from dynid import DynidError, identify_actuators, load_robot
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
    "an empty command": ("command_without_numbers", lambda t: t | {"q_cmd1": np.nan * t["q1"]}),
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
}


@pytest.mark.parametrize("name", CONTROLLERS)
def test_wrong_controllers(case: tuple[Robot, Drive, Table], name: str) -> None:
    code, controller = CONTROLLERS[name]
    with pytest.raises(DynidError) as caught:
        identify_actuators(case[0], case[2], controller=controller)
    assert caught.value.code == code
    assert len(str(caught.value).splitlines()) <= 2


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("invalid_delay", {"delay": 6.0}),
        ("invalid_delay", {"delay": -0.01}),
        ("invalid_delay", {"delay": "fast"}),
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


def test_a_floating_base_is_refused_with_the_remedy(case: tuple[Robot, Drive, Table], tmp_path: Path) -> None:
    base = '<body name="base"><freejoint/><inertial pos="0 0 0" mass="3" diaginertia=".1 .1 .1"/>'
    text = leg_text().replace('<body name="hip"', base + '<body name="hip"')
    path = tmp_path / "floating.xml"
    path.write_text(text.replace("</worldbody>", "</body></worldbody>"), encoding="utf-8")
    with pytest.raises(DynidError) as caught:
        identify_actuators(load_robot(path), case[2], controller={"kp": 1.0})
    assert caught.value.code == "floating_base"
    assert "stand" in caught.value.remedy


@pytest.mark.parametrize(
    "code", ["gains_swapped", "gains_per_degree", "delay_wrong", "torque_limit_too_low", "delay_negative"]
)
def test_mistakes_that_the_fit_shows(case: tuple[Robot, Drive, Table], code: str) -> None:
    robot, drive, table = case
    known: dict[str, Any] = {"kp": drive.kp, "kd": drive.kd}
    options: dict[str, Any] = {"controller": known}
    if code == "gains_swapped":
        options = {"controller": {"kp": drive.kd, "kd": drive.kp}}
    elif code == "gains_per_degree":
        options = {"controller": {"kp": np.radians(drive.kp), "kd": np.radians(drive.kd)}}
    elif code == "delay_wrong":
        options["delay"] = 0.03
    elif code == "torque_limit_too_low":
        options = {"controller": known | {"max_torque": 1.0}}
    else:
        table = {k: np.r_[x[4:], np.full(4, x[-1])] if k in ("q1", "q2", "q3") else x for k, x in table.items()}
    found = identify_actuators(robot, table, **options)
    assert code in {warning.code for warning in found.warnings}
