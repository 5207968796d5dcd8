"""What is in a log, as a person sees it in the terminal, as data, and as the command line that reads it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynid.cli.log_options import LogReader, split_recording
from dynid.cli.terminal import escape_markup, print_line, show_note
from dynid.errors import LogError
from dynid.logs.column_names import parse_header
from dynid.logs.inspection import (
    InspectedColumn,
    Inspection,
    JointCheck,
    describe_channel,
    inspect_log,
)
from dynid.logs.log import Log
from dynid.logs.read import Layout, check_row_range, is_bag, open_table
from dynid.logs.readers.table import Table as LogTable
from dynid.messages import Message
from dynid.report.inspection import Reading
from dynid.robot.robot import Robot

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def inspect_word(word: str, robot: Robot, reader: LogReader) -> Inspection:
    """Inspect the log of a LOG argument with the options of a reader."""
    parts = split_recording(word)

    def read(columns: Mapping[str, Any], units: Mapping[str, Any]) -> Log:
        own = LogReader(
            reader.robot, {**reader.columns, **{k: list(v) if k != "t" else v[0] for k, v in columns.items()}},
            {**reader.units, **units}, reader.gear, reader.gain, reader.topic, reader.sign, reader.zero, reader.order,
            reader.header, reader.rows,
        )  # fmt: skip
        return own.read_log(word)

    def open_file() -> LogTable:
        if len(parts) > 1:
            return open_table(Path(parts[0].source), reader.topic)[0]
        path = Path(parts[0].source)
        names = () if reader.header is None else parse_header(str(path), reader.header, robot)
        part = check_row_range(str(path), None)
        try:
            return open_table(path, reader.topic, Layout(names, frozenset(), part))[0]
        except LogError as error:
            if error.code != "missing_header" or is_bag(path):
                raise
        return open_table(path, reader.topic, Layout(names, frozenset({1}), part))[0]

    return inspect_log(word, robot, read, open_file)


def show_inspection(found: Inspection, screen: Console) -> None:
    """Print what is in a log: what looks wrong first, then sampling, columns and joints."""
    print_line(screen, f"{found.log}: {_summary_text(found)}", style="bold")
    if found.problem is not None:
        print_line(screen, f"not read automatically: {found.problem.for_command_line}", style="yellow")
    for remark in (remark for joint in found.joints for remark in joint.remarks):
        print_line(screen, f"look at this: {remark.for_command_line}", style="red")
    screen.print(columns_table(found))
    if found.joints:
        screen.print(joints_table(found.joints))
        if not any(joint.matches for joint in found.joints):
            print_line(screen, "torques were not compared with a model: the robot has no nominal values, or no motion")
    for note in found.findings:
        show_note(note, screen)


def show_next_step(found: Inspection, reading: Reading, out: Path | None, screen: Console) -> None:
    """Print the line that reads the log, or where its columns can be chosen if they are not known."""
    line = reading.command()
    if found.problem is not None and not found.joints:
        line = f"choose the columns in {out}" if out else f"{reading.command('inspect')} --out inspect.html"
    screen.print(f"next: {escape_markup(line)}", highlight=False, soft_wrap=True)


def _summary_text(found: Inspection) -> str:
    """Line on rows, rate, jitter, gaps and standstill."""
    text = f"{len(found.columns)} columns, {found.rows}{'' if found.is_whole else ' or more'} rows"
    if math.isnan(found.rate):
        return text
    text += f", {found.seconds:.4g} s at {found.rate:.5g} Hz"
    text += f", jitter {1e3 * found.jitter:.2g} ms" if found.jitter * found.rate > 1e-4 else ", no jitter"
    text += f", {found.gaps} gaps, the longest of {found.longest_gap:.3g} s" if found.gaps else ", no gaps"
    return text + f", all joints stand still for {100.0 * found.standstill:.0f} % of the time"


def columns_table(found: Inspection) -> Table:
    """Table of all columns."""
    from rich.table import Table

    table = Table("column", "meaning", "unit", box=None)
    for title in ("least", "most", "step", "noise"):
        table.add_column(title, justify="right")
    table.add_column("why, remarks")
    for c in found.columns:
        name = f"{c.number} {c.name}".strip()
        words = [] if c.why is None else [str(c.why)]
        words += [x.for_command_line for x in c.remarks] + ([c.problem] if c.problem else [])
        figures = ("", "", "", "") if math.isnan(c.low) else (
            f"{c.low:.4g}", f"{c.high:.4g}", f"{c.resolution:.2g}" if c.resolution else "", f"{c.noise:.2g}",
        )  # fmt: skip
        table.add_row(
            escape_markup(name), escape_markup(describe_channel(c.channel, c.joint)), c.unit, *figures,
            escape_markup("; ".join(words)),
        )  # fmt: skip
    return table


def joints_table(joints: Sequence[JointCheck]) -> Table:
    """Table of the joints: positions beside limits, velocity over slope, torque over that of the nominal model."""
    from rich.table import Table

    table = Table("joint", box=None)
    for title in ("least", "most", "limits", "v / slope", "tau / nominal", "explained"):
        table.add_column(title, justify="right")
    for joint in joints:
        low, high = joint.limits
        limits = f"{low:.4g} .. {high:.4g}" if math.isfinite(low) or math.isfinite(high) else "none"
        own = next((match for match in joint.matches if match.joint == joint.joint), None)
        table.add_row(
            escape_markup(joint.joint), f"{joint.low:.4g}", f"{joint.high:.4g}", limits,
            "" if math.isnan(joint.ratio) else f"{math.copysign(joint.ratio, joint.alike):.3g}",
            *(("", "") if own is None else (f"{own.scale:.3g}", f"{100.0 * max(own.explained, 0.0):.0f} %")),
            style="red" if joint.remarks else None,
        )  # fmt: skip
    return table


def inspection_json_data(found: Sequence[Inspection], reading: Reading) -> dict[str, object]:
    """Data of the inspected logs for `--json`."""
    return {
        "robot": reading.robot,
        "command": reading.command(),
        "logs": [_log_json_data(one) for one in found],
    }


def _log_json_data(found: Inspection) -> dict[str, object]:
    """Data of one log for `--json`."""
    return {
        "log": found.log,
        "rows": found.rows,
        "whole": found.is_whole,
        "problem": found.problem,
        "rate": found.rate,
        "jitter": found.jitter,
        "gaps": found.gaps,
        "longest_gap": found.longest_gap,
        "seconds": found.seconds,
        "standstill": found.standstill,
        "mapping": dict(found.mapping),
        "units": dict(found.units),
        "locks": dict(found.locks),
        "columns": [_column_json_data(column) for column in found.columns],
        "joints": [_joint_json_data(joint) for joint in found.joints],
        "findings": list(found.findings),
    }


def _column_json_data(column: InspectedColumn) -> dict[str, object]:
    """Data of one column."""
    names = ("number", "reference", "name", "problem", "channel", "joint", "why", "unit", "low", "high", "spread",
             "noise", "resolution", "missing", "remarks")  # fmt: skip
    return {name: getattr(column, name) for name in names}


def _joint_json_data(joint: JointCheck) -> dict[str, object]:
    """Data of one joint."""
    names = ("joint", "kind", "low", "high", "limits", "beyond", "standing", "ratio", "alike", "remarks")
    torques = [
        {"joint": m.joint, "column": m.column, "scale": m.scale, "explained": m.explained, "gravity": m.gravity}
        for m in joint.matches
    ]
    return {name: getattr(joint, name) for name in names} | {"torques": torques}


def remarks_of(found: Sequence[Inspection]) -> list[Message]:
    """Warnings of all inspected logs, each with its log where there are several."""
    if len(found) == 1:
        return list(found[0].warnings)
    return [message.about(one.log) for one in found for message in one.warnings]
