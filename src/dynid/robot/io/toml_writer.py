"""Writing a robot as a TOML table that `load_robot` reads back."""

from __future__ import annotations

import math

import numpy as np

from dynid.robot.expression import Expression
from dynid.robot.force_sensor import ForceSensor
from dynid.robot.inertia import SYMBOLS, to_body
from dynid.robot.mdh import to_mdh
from dynid.robot.robot import Closure, JointLimits, Link, PublishedMasses, Robot
from dynid.robot.transform import rpy_from_rotation


def table_text(robot: Robot) -> str:
    """Return the robot as a TOML table that `load_robot` reads back."""
    robot = to_mdh(robot)
    lines = [f"name = {_quoted_text(robot.name)}"]
    if robot.source:
        lines.append(f"source = {_quoted_text(robot.source)}")
    lines.append(f"gravity = [{', '.join(map(repr, map(float, robot.gravity)))}]")
    if robot.unknown:
        lines.append(f"unknown = [{', '.join(map(_quoted_text, robot.unknown))}]")
    if robot.symbols:
        lines += ["", "[symbols]", *(f"{_quoted_text(k)} = {float(v)!r}" for k, v in robot.symbols.items())]
    number = {-1: 0}
    table = [k for k, link in enumerate(robot.links) if link.kind != "floating"]
    for j, k in enumerate(table, 1):
        number[k] = j
    if robot.floating:
        number[0] = 0
    for k in table:
        lines += _joint_lines(robot.links[k], number)
    lines += _loop_lines(robot)
    lines += [] if robot.sensor is None else sensor_toml_lines(robot.sensor)
    for k in table:
        lines += _link_lines(robot.links[k])
    lines += [] if robot.published is None else _published_lines(robot.published)
    return "\n".join(lines) + "\n"


def _joint_lines(link: Link, number: dict[int, int]) -> list[str]:
    """Lines of a [[joint]]; number: the file's joint number of each link."""
    assert link.mdh is not None
    lines = ["", "[[joint]]", f"name = {_quoted_text(link.joint)}", f"parent = {number[link.parent]}"]
    lines.append(f'type = "{link.kind}"')
    for letter in ("gamma", "b", "alpha", "d", "theta", "r"):
        value: Expression = getattr(link.mdh, letter)
        if value.text is not None and not value.degrees:
            lines.append(f"{letter} = {_quoted_text(value.text)}")
        elif value.value != 0.0:
            lines.append(f"{letter} = {value.value!r}")
    lines += _limit_lines(link.limits)
    return lines


def _limit_lines(limits: JointLimits) -> list[str]:
    """Lines of the finite limits of a joint."""
    parts = []
    if math.isfinite(limits.lower) and math.isfinite(limits.upper):
        parts.append(f"position = [{limits.lower!r}, {limits.upper!r}]")
    for name in ("velocity", "acceleration", "effort"):
        if math.isfinite(getattr(limits, name)):
            parts.append(f"{name} = {getattr(limits, name)!r}")
    return [f"limits = {{ {', '.join(parts)} }}"] if parts else []


def _points_text(closure: Closure) -> str:
    """The two points of a closure, coordinates as they were written where they have symbols."""
    numbers = [float(x) for point in closure.points for x in point]
    texts = [_quoted_text(t) if t else repr(x) for t, x in zip(closure.texts or [""] * 6, numbers, strict=True)]
    return f"[{', '.join(texts[:3])}], [{', '.join(texts[3:])}]"


def _loop_lines(robot: Robot) -> list[str]:
    """Lines of all [[coupling]] and [[closure]] tables."""
    lines: list[str] = []
    for coupling in robot.couplings:
        factors = ", ".join(f"{_quoted_text(name)} = {factor!r}" for name, factor in coupling.factors)
        lines += ["", "[[coupling]]", f"passive = {_quoted_text(coupling.passive)}", f"of = {{ {factors} }}"]
        lines.append(f"offset = {coupling.offset!r}")
    for closure in robot.closures:
        lines += ["", "[[closure]]", f"frames = [{', '.join(map(_quoted_text, closure.links))}]"]
        lines.append(f"keep = [{', '.join(map(_quoted_text, closure.keep))}]")
        lines.append(f"passive = [{', '.join(map(_quoted_text, closure.passive))}]")
        lines.append(f"points = [{_points_text(closure)}]")
        lines.append(f"start = {[float(x) for x in closure.start]}")
        if closure.at is not None:
            lines.append(f"at = {[float(x) for x in closure.at]}")
    for column in robot.columns:
        if column.positions is None or column.torque is None:
            continue  # a Python function
        lines += [
            "",
            "[[column]]",
            f"name = {_quoted_text(column.name)}",
            f"joint = {_quoted_text(column.joint)}",
        ]
        lines.append(f"of = {_quoted_text(column.of)}")
        lines.append(f"positions = {column.positions.tolist()}")
        lines.append(f"torque = {column.torque.tolist()}")
    return lines


def _link_lines(link: Link) -> list[str]:
    """Lines of the nominal values of a link."""
    lines = [
        f"{s} = {float(x)!r}"
        for s, x in zip(SYMBOLS, link.inertia, strict=True)
        if not np.isnan(x) and s not in link.zero
    ]
    if not np.isnan(link.rotor):
        lines.append(f"rotor_inertia = {link.rotor!r}")
    if link.zero:
        lines.append(f"zero = [{', '.join(_quoted_text(s) for s in (*SYMBOLS, 'Ia') if s in link.zero)}]")
    if link.friction:
        lines.append(f"friction = {{ {', '.join(f'{k} = {v!r}' for k, v in link.friction)} }}")
    return ["", f"[link.{_quoted_text(link.joint)}]", *lines] if lines else []


def _published_lines(published: PublishedMasses) -> list[str]:
    """Lines of the published masses, and of what else is published of the links."""
    lines = ["", "[published]", f"source = {_quoted_text(published.source)}"]
    lines += [] if published.total is None else [f"total = {published.total!r}"]
    lines += [] if published.includes_base else ["includes_base = false"]
    lines += [] if published.base is None else [f"base = {published.base!r}"]
    for name, x in published.links.items():
        lines += ["", f"[published.link.{_quoted_text(name)}]", f"mass = {float(x[9])!r}"]
        if not np.isnan(x[6:]).any():
            lines.append(f"com = {(x[6:9] / x[9]).tolist()}")
        if not np.isnan(x).any():
            lines.append(f"inertia = {to_body(x).inertia[np.triu_indices(3)].tolist()}")
    return lines


def _quoted_text(text: str) -> str:
    """Return a TOML basic string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped) + '"'


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
