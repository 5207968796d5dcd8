"""A robot as versioned JSON that gives it back exactly; nothing in it is ever executed."""

from __future__ import annotations

from pathlib import Path

from dynid.errors import ExportError, IdentificationError
from dynid.exports.subject import ExportSubject
from dynid.robot.robot import Robot, StoredRobot
from dynid.storage.records import DAMAGE, describe_damage, from_plain_data, json_text, read_json, to_plain_data

FORMAT = "dynid robot"
VERSION = 1


def write_robot_json(subject: ExportSubject) -> str:
    """JSON text of the robot's record, with its parameters by name for other readers."""
    robot = subject.robot
    data = {
        "format": FORMAT,
        "version": VERSION,
        "kind": "base parameters in the place of standard ones" if subject.of_base else "standard parameters",
        "units": "SI, rad",
        "parameters": dict(zip(robot.parameter_names, map(float, robot.parameters), strict=True)),
        "friction": {
            robot.links[k].joint: {name: float(x) for name, x in robot.links[k].friction} for k in robot.active_links
        },
        "warnings": list(subject.losses),
        "robot": to_plain_data(StoredRobot, robot),
    }
    return json_text(data)


def read_robot_json(path: Path) -> Robot:
    """Read a robot that `export` wrote."""
    data = read_json(path, FORMAT, VERSION, "`dynid export` writes one", IdentificationError)
    try:
        robot: Robot = from_plain_data(StoredRobot, data.get("robot"))
    except DAMAGE as error:
        raise ExportError(
            "file_damaged", "{path}: {damage}", path=path,
            damage=describe_damage(error, inside='robot.'),
        ) from error  # fmt: skip
    return robot
