"""Force sensors as people write them: the table [sensor] of a robot file, or a file of its own."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from dynid.errors import DynidError, RobotFileError
from dynid.robot.force_sensor import ForceSensor, Rotor
from dynid.robot.io.toml_schema import SensorTable, describe_validation_error
from dynid.robot.robot import Robot
from dynid.robot.transform import freeze, rotation_from_rpy, rpy_from_rotation
from dynid.storage.files import hash_file, read_toml


def read_sensor(path: str | Path) -> ForceSensor:
    """Read a TOML file with the keys of a robot table's [sensor], angles in rad (or `angles = "deg"`)."""
    data = read_toml(Path(path))
    data = data.get("sensor", data)
    if not isinstance(data, dict):
        raise RobotFileError(
            str(path), "sensor_table_malformed", "sensor: not a table", "write a table [sensor], or its keys alone",
        )  # fmt: skip
    angles = data.pop("angles", "rad")
    if angles not in ("rad", "deg"):
        raise RobotFileError(
            str(path), "unknown_angle_unit", "angles: 'rad' or 'deg', got {angles!r:.40}", angles=angles,
        )  # fmt: skip
    try:
        return sensor_from_table(SensorTable.model_validate(data), degrees=angles == "deg")
    except ValidationError as error:
        raise RobotFileError(str(path), describe_validation_error(error, ("sensor",))) from error
    except DynidError as error:
        raise RobotFileError(str(path), error.message) from error


def with_sensor_from_file(robot: Robot, path: str | Path) -> Robot:
    """Return the robot on the force plate that a file describes."""
    return replace(robot.with_sensor(read_sensor(path)), files=(*robot.files, hash_file(Path(path))))


def sensor_from_table(table: SensorTable, *, degrees: bool) -> ForceSensor:
    """Build the sensor of a checked table."""
    known = isinstance(table.offsets, list)
    return ForceSensor(
        freeze(table.position),
        rotation_from_rpy(*(angle * (math.pi / 180.0 if degrees else 1.0) for angle in table.rpy)),
        freeze(table.reference),
        table.sense,
        tuple(table.channels),
        "known" if isinstance(table.offsets, list) else table.offsets,
        freeze(table.offsets) if known else None,
        table.mass,
        freeze(table.com),
        None if table.noise is None else freeze(table.noise),
        None if table.sensitivity_sigma is None else freeze(table.sensitivity_sigma),
        tuple(
            Rotor(r.joint, r.ratio, math.nan if r.inertia is None else r.inertia, freeze(r.axis)) for r in table.rotor
        ),
    )


def sensor_toml_lines(sensor: ForceSensor) -> list[str]:
    """Lines of the table [sensor] that `sensor_from_table` reads back, angles in rad."""
    lines = ["", "[sensor]"]
    for name in ("position", "reference", "com"):
        if getattr(sensor, name).any():
            lines.append(f"{name} = {getattr(sensor, name).tolist()}")
    if not np.array_equal(sensor.rotation, np.eye(3)):
        lines.append(f"rpy = {list(rpy_from_rotation(sensor.rotation))}")
    lines += [f'sense = "{sensor.sense}"', f"channels = {list(sensor.channels)}".replace("'", '"')]
    lines.append(f'offsets = "{sensor.offsets}"' if sensor.offset is None else f"offsets = {sensor.offset.tolist()}")
    if sensor.mass:
        lines.append(f"mass = {sensor.mass!r}")
    for name in ("noise", "sensitivity_sigma"):
        values = getattr(sensor, name)
        if values is not None:
            lines.append(f"{name} = {values.tolist()}")
    for rotor in sensor.rotors:
        quoted = rotor.joint.replace("\\", "\\\\").replace('"', '\\"')
        lines += ["", "[[sensor.rotor]]", f'joint = "{quoted}"', f"ratio = {rotor.ratio!r}"]
        lines += [] if math.isnan(rotor.inertia) else [f"inertia = {rotor.inertia!r}"]
        lines.append(f"axis = {rotor.axis.tolist()}")
    return lines
