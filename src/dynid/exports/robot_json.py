"""A robot as versioned JSON that gives it back exactly; nothing in it is ever executed."""

from __future__ import annotations

import json
from pathlib import Path

from dynid.errors import ExportError
from dynid.estimation.records import DAMAGE, describe_damage, read_json
from dynid.exports.subject import Subject
from dynid.robot.record import RobotRecord, rebuild_robot, record_robot
from dynid.robot.robot import Robot

FORMAT = "dynid robot"
VERSION = 1


def write_robot_json(subject: Subject) -> str:
    """Return the robot's record, and its parameters by name for other readers."""
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
        "robot": record_robot(robot).model_dump(),
    }
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def read_robot_json(path: Path) -> Robot:
    """Read a robot that `export` wrote."""
    data = read_json(path, FORMAT, VERSION, "`dynid export` writes one")
    try:
        return rebuild_robot(RobotRecord.model_validate(data.get("robot")))
    except DAMAGE as error:
        raise ExportError(
            "file_damaged", "{path}: {damage}", path=path,
            damage=describe_damage(error, inside='robot.'),
        ) from error  # fmt: skip
