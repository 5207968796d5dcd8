"""The command `inspect`: parse, call, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.options import (
    HeaderOption,
    JsonOption,
    LockOption,
    OrderOption,
    RobotArgument,
    RowsOption,
    SignOption,
    ZeroOption,
    load_robot_for_command,
    parse_locks,
    urdf_options_as_arguments,
)


def inspect(
    robot: RobotArgument,
    logs: Annotated[list[str], typer.Argument(metavar="LOG...", help="recordings, also without a header")],
    *,
    out: Annotated[Path | None, typer.Option("--out", help="write a page to map columns by eye to this .html")] = None,
    column: Annotated[list[str] | None, typer.Option(help="CHANNEL=NAME[,NAME...], as for identify")] = None,
    units: Annotated[list[str] | None, typer.Option(help="other units than SI: q=deg,tau=Nmm")] = None,
    gear: Annotated[str | None, typer.Option(help="motor per joint: a ratio, one per joint, or a matrix FILE")] = None,
    gain: Annotated[str | None, typer.Option(help="N m per A: one number, or one per joint")] = None,
    topic: Annotated[str | None, typer.Option(help="of a bag; several are joined: /a+/b")] = None,
    sign: SignOption = None,
    zero: ZeroOption = None,
    order: OrderOption = None,
    header: HeaderOption = None,
    rows: RowsOption = None,
    lock: LockOption = None,
    json: JsonOption = None,
) -> None:
    """What is in this file: columns, their meaning and why, sampling, and channels that look wrong.

    The page of --out has drop-downs for columns, units, signs, zeros, gears and gains, and gives the finished line.

    Example: dynid inspect puma560 log.csv --out inspect.html
    """
    from dynid.cli import log_options, terminal
    from dynid.cli.output import inspection
    from dynid.report.inspection import Reading, write_inspection_page

    inputs = [Path(robot), *log_options.files_of_log_arguments(logs), *([Path(gear)] if gear else [])]
    log_options.check_output_files(out, json, suffixes=(".html",), keep=inputs)
    loaded = load_robot_for_command(robot, lock=parse_locks(lock or []))
    reader = log_options.LogReader.from_options(
        loaded, column or [], units or [], gear, gain, topic, sign=sign, zero=zero, order=order, header=header,
        rows=rows,
    )  # fmt: skip
    screen, outputs = terminal.make_console(json), terminal.Outputs()
    found = [inspection.inspect_word(word, loaded, reader) for word in logs]
    given = Reading(
        robot, tuple(logs), tuple(column or ()), tuple(units or ()), gear, gain, tuple(sign or ()), tuple(zero or ()),
        tuple(order or ()), rows, header, topic, tuple(lock or ()), tuple(urdf_options_as_arguments()),
    )  # fmt: skip
    reading = given.after(found[0])
    outputs.write_file(out, lambda place: write_inspection_page(place, loaded, found, given))
    outputs.write_json_file(json, lambda: inspection.inspection_json_data(found, reading))
    terminal.show_notes(loaded, screen)
    for one in found:
        inspection.show_inspection(one, screen)
    inspection.show_next_step(found[0], reading, out, screen)
    outputs.show_written_files(screen)
    outputs.finish(inspection.remarks_of(found))
