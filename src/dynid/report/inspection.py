"""A page that shows what is in a log and maps its columns by drop-downs; it ends in the line that reads it."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dynid.logs.column_names import FACTORS
from dynid.logs.inspection import (
    CHANNELS,
    EXPLAINED,
    InspectedColumn,
    Inspection,
    JointCheck,
    consecutive_numbers,
    describe_channel,
)
from dynid.report.page import escape_control_characters, number_text, short_log_name, template_environment
from dynid.robot.robot import Robot
from dynid.storage.files import write_text

WIDTH, HEIGHT = 150, 30
"""Size of the small picture of a column, px."""

GEARS = (1.0, 50.0, 80.0, 100.0, 101.0, 120.0, 121.0, 160.0, 161.0)
ZEROS = ("-180deg", "-90deg", "90deg", "180deg")


@dataclass(frozen=True, slots=True)
class Reading:
    """How logs are read, as options of a command line: what the user gave, and what an inspection found needful."""

    robot: str
    logs: tuple[str, ...]
    column: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    gear: str | None = None
    gain: str | None = None
    sign: tuple[str, ...] = ()
    zero: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    rows: str | None = None
    header: str | None = None
    topic: str | None = None
    lock: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Further words, such as --xacro."""

    def after(self, found: Inspection) -> Reading:
        """Return the reading with the columns and units that an inspection found."""
        columns = tuple(f"{channel}={consecutive_numbers(names)}" for channel, names in found.mapping.items())
        units = tuple(
            f"{channel}={unit if isinstance(unit, str) else ','.join(unit)}" for channel, unit in found.units.items()
        )
        return replace(self, column=(*self.column, *columns), units=(*self.units, *units))

    def command(self, name: str = "identify") -> str:
        """Return the whole command line, quoted for POSIX shells."""
        words = ["dynid", name, *(f"./{word}" if word.startswith("-") else word for word in (self.robot, *self.logs))]
        for option in ("column", "units", "gear", "gain", "sign", "zero", "order", "rows", "header", "topic", "lock"):
            value = getattr(self, option)
            for word in (value,) if isinstance(value, str) else value or ():
                words += [f"--{option}", word]
        return shlex.join([*words, *self.others])


def channels_read_by_name(found: Inspection, reading: Reading) -> dict[str, list[int] | None]:
    """Columns (counted from 0) of each channel as they are read by name; None for those that options give."""
    given = {word.partition("=")[0].split(".")[0].rstrip("0123456789") for word in reading.column}
    given |= set(found.mapping) | ({"q", "v", "a", "tau"} if reading.order else set())
    by_name: dict[str, list[int] | None] = {}
    for channel in ("t", *CHANNELS):
        own = [column for column in found.columns if column.channel == channel]
        by_name[channel] = None if channel in given else [column.number - 1 for column in own]
    return by_name


def write_inspection_page(path: Path, robot: Robot, found: Sequence[Inspection], given: Reading) -> None:
    """Write the page on inspected logs; what its drop-downs choose holds for all of them, as options do."""
    first = found[0]
    state = {
        "robot": given.robot, "logs": list(given.logs), "others": list(given.others), "header": given.header or "",
        "topic": given.topic or "", "lock": list(given.lock), "rows": given.rows or "", "count": first.rows,
        "gear": given.gear or "", "gain": given.gain or "", "sign": list(given.sign), "zero": list(given.zero),
        "joints": [_joint_state(robot, first, j) for j in range(robot.n)],
        "columns": [_column_state(column, first, given) for column in first.columns],
        "byName": channels_read_by_name(first, given), "slopes": [list(pair) for pair in first.slopes],
        "units": {channel: list(factors) for channel, factors in FACTORS.items() if channel != "reaction"},
        "factors": {channel: dict(factors) for channel, factors in FACTORS.items()},
        "gears": GEARS, "zeros": ZEROS,
    }  # fmt: skip
    names = [short_log_name(one.log) for one in found]
    html = template_environment().get_template("inspection.html").render(
        title=escape_control_characters(f"What is in {names[0]}{' and others' if len(names) > 1 else ''}?"),
        lead=escape_control_characters(f"A log of the robot {robot.name}. Choose what the columns are; the line at the "
                                       "end reads it so."),
        logs=[_log_content(one, name) for one, name in zip(found, names, strict=True)],
        state=_script_json(state),
    )  # fmt: skip
    write_text(path, html)


def _script_json(data: object) -> str:
    """Return data as JSON for a script element, which no character of it can end."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _joint_state(robot: Robot, found: Inspection, j: int) -> dict[str, Any]:
    """Return what the page's script needs to know of a joint; limits that are infinite are null."""
    name = robot.joint_names[j]
    check = next((joint for joint in found.joints if joint.joint == name), None)
    own = next((match for match in check.matches if match.joint == name), None) if check else None
    known = own is not None and own.explained > EXPLAINED and own.scale != 0.0
    scale = own.scale if own is not None and known else 1.0
    gains = sorted({float(f"{abs(1.0 / scale):.{digits}g}") for digits in (1, 2, 3)} - {1.0}) if known else []
    return {
        "name": name,
        "kind": robot.links[robot.active_links[j]].kind,
        "limits": [x if math.isfinite(x) else None for x in robot.limits.position[j].tolist()],
        "torque": {"column": own.column, "scale": scale} if own is not None and known else None,
        "gains": gains,
    }


def _column_state(column: InspectedColumn, found: Inspection, given: Reading) -> dict[str, Any]:
    """Return what the page's script needs to know of a column; said: the unit that the file itself gives."""
    asked = {word.partition("=")[0] for words in given.units for word in words.split(",") if "=" in word}
    is_said = bool(column.unit) and column.channel not in found.units and column.channel not in asked
    return {
        "ref": column.reference, "channel": column.channel if column.channel in ("t", *CHANNELS) else "",
        "joint": column.joint, "unit": _unit_of_column(column, found, given), "said": column.unit if is_said else "",
        "usable": not column.problem, "low": column.low if math.isfinite(column.low) else None,
        "high": column.high if math.isfinite(column.high) else None,
    }  # fmt: skip


def _unit_of_column(column: InspectedColumn, found: Inspection, given: Reading) -> str:
    """Return the unit in which a column is read at first."""
    asked: dict[str, list[str]] = {}
    for words in given.units:
        for word in words.split(","):
            channel, equals, unit = word.rpartition("=")
            last = asked.setdefault(channel, []) if equals else next(reversed(asked.values()), [])
            last.append(unit)
    for channel, units in found.units.items():
        asked[channel] = [units] if isinstance(units, str) else list(units)
    units = asked.get(column.channel, [])
    if not units:
        return column.unit
    joints = [joint.joint for joint in found.joints]
    return units[joints.index(column.joint)] if len(units) > 1 and column.joint in joints else units[0]


def _log_content(found: Inspection, name: str) -> dict[str, Any]:
    """Return the values for the template's part on one log."""
    cards = [("columns", str(len(found.columns))), ("rows", f"{found.rows}{'' if found.is_whole else ' or more'}")]
    if math.isfinite(found.rate):
        cards += [
            ("rate", f"{found.rate:.5g} Hz"), ("length", f"{found.seconds:.4g} s"),
            ("jitter", f"{1e3 * found.jitter:.2g} ms" if found.jitter * found.rate > 1e-4 else "none"),
            ("gaps", f"{found.gaps}, up to {found.longest_gap:.3g} s" if found.gaps else "none"),
            ("standstill", f"{100.0 * found.standstill:.0f} %"),
        ]  # fmt: skip
    return {
        "name": escape_control_characters(name),
        "cards": cards,
        "problem": "" if found.problem is None else escape_control_characters(found.problem.for_command_line),
        "columns": [_column_content(column) for column in found.columns],
        "joints": [_joint_content(joint) for joint in found.joints],
        "findings": [escape_control_characters(x.for_command_line) for x in found.findings],
    }


def _column_content(column: InspectedColumn) -> dict[str, Any]:
    """Return the cells of a column."""
    remarks = [x.for_command_line for x in column.remarks] + ([column.problem] if column.problem else [])
    known = math.isfinite(column.low)
    return {
        "number": column.number,
        "name": escape_control_characters(column.name),
        "meaning": escape_control_characters(describe_channel(column.channel, column.joint)),
        "unit": column.unit,
        "why": "" if column.why is None else str(column.why),
        "range": f"{number_text(column.low)} .. {number_text(column.high)}" if known else "",
        "step": number_text(column.resolution, 2) if column.resolution else "",
        "noise": number_text(column.noise, 2) if known else "",
        "remarks": escape_control_characters("; ".join(remarks)),
        "points": _polyline(column.picture),
    }


def _polyline(values: Sequence[float]) -> str:
    """Return the points of a small picture."""
    if len(values) < 2:
        return ""
    low, room = min(values), (max(values) - min(values)) or 1.0
    return " ".join(
        f"{k * WIDTH / (len(values) - 1):.1f},{HEIGHT - 2 - (HEIGHT - 4) * (x - low) / room:.1f}"
        for k, x in enumerate(values)
    )


def _joint_content(joint: JointCheck) -> dict[str, Any]:
    """Return the cells of a joint."""
    low, high = joint.limits
    own = next((match for match in joint.matches if match.joint == joint.joint), None)
    return {
        "name": escape_control_characters(joint.joint),
        "range": f"{number_text(joint.low)} .. {number_text(joint.high)}",
        "limits": f"{number_text(low)} .. {number_text(high)}" if math.isfinite(low) or math.isfinite(high) else "none",
        "slope": "" if math.isnan(joint.ratio) else number_text(math.copysign(joint.ratio, joint.alike), 3),
        "torque": "" if own is None else number_text(own.scale, 3),
        "explained": "" if own is None else f"{100.0 * max(own.explained, 0.0):.0f} %",
        "remarks": [{"code": x.code, "text": escape_control_characters(x.for_command_line)} for x in joint.remarks],
    }
