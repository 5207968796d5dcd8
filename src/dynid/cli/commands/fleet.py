"""The commands `fleet` and `watch`: parse, call, show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynid.cli.options import (
    GravityOption,
    HeaderOption,
    JsonOption,
    LockOption,
    OrderOption,
    RobotArgument,
    SignOption,
    SnapOption,
    ZeroOption,
)
from dynid.errors import DynidError

if TYPE_CHECKING:
    from dynid.cli.log_options import LogReader

FrictionOption = Annotated[str, typer.Option(help="auto, none, or blocks: viscous,coulomb,offset,...")]
RotorOption = Annotated[bool, typer.Option(help="identify the rotors' inertias Ia")]
CutoffOption = Annotated[float | None, typer.Option(help="cut-off frequency, Hz (default: automatic)")]
DelayOption = Annotated[float, typer.Option(help="seconds by which torques were recorded after positions")]
JointsOption = Annotated[str | None, typer.Option(help="joints whose torques to use: NAME,NAME,...")]
ColumnOption = Annotated[list[str] | None, typer.Option(help="CHANNEL=NAME[,NAME...], as in dynid identify")]
UnitsOption = Annotated[list[str] | None, typer.Option(help="units other than SI: q=deg,tau=Nmm")]
GearOption = Annotated[
    str | None, typer.Option(help="gear ratio, motor over joint: one number, one per joint, or a matrix FILE")
]
GainOption = Annotated[str | None, typer.Option(help="N m per A: one number, or one per joint")]
TopicOption = Annotated[str | None, typer.Option(help="of a bag; several are joined: /a+/b")]
AlphaOption = Annotated[float, typer.Option(help="false discovery rate of the changes")]
ReportOption = Annotated[Path | None, typer.Option(help="a page with map, alarms and trends (.html)")]


def fleet(
    robot: RobotArgument,
    data: Annotated[
        str, typer.Argument(help="folder robot=R/week=W/LOG, pattern '{robot}/{date}_*.csv', Parquet file, or URL")
    ],
    *,
    by: Annotated[str, typer.Option(help="names of robot and period in the paths or columns")] = "robot,week",
    baseline: Annotated[
        int | None, typer.Option(help="first periods of each robot that are its reference (default: 4, at most half)")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="folder of states and results; a stopped run continues there")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="processes on this machine (default: one per core)")] = None,
    scheduler: Annotated[str | None, typer.Option(help="address of a Dask scheduler: tcp://head:8786")] = None,
    robots: Annotated[
        Path | None, typer.Option(help="what is special about single robots: [R07] robot, gain, payload, ... (.toml)")
    ] = None,
    alpha: AlphaOption = 0.01,
    table: Annotated[Path | None, typer.Option(help="all parameters of all periods (.csv or .parquet)")] = None,
    changes: Annotated[Path | None, typer.Option(help="all changes (.csv or .parquet)")] = None,
    report: ReportOption = None,
    friction: FrictionOption = "auto",
    rotor_inertia: RotorOption = True,
    cutoff: CutoffOption = None,
    joints: JointsOption = None,
    delay: DelayOption = 0.0,
    column: ColumnOption = None,
    units: UnitsOption = None,
    gear: GearOption = None,
    gain: GainOption = None,
    topic: TopicOption = None,
    sign: SignOption = None,
    zero: ZeroOption = None,
    order: OrderOption = None,
    header: HeaderOption = None,
    gravity: GravityOption = None,
    lock: LockOption = None,
    snap: SnapOption = True,
    json: JsonOption = None,
) -> None:
    """Identify every robot of a fleet in every period, and tell what changed since its first periods.

    Logs of any format, by robot and period, are read by Dask workers; columns and cut-off are chosen from a sample of
    the fleet. With --out a stopped run goes on, and new logs cost only themselves.

    Example: dynid fleet arm.urdf data/ --by robot,week --baseline 4 --out fleet/ --report fleet.html
    """
    from dynid.cli import log_options, terminal
    from dynid.cli.output import fleet as output
    from dynid.cli.output.identification import show_progress
    from dynid.fleet.fleet import check_rate, identify_fleet

    files = {"--table": (table, (".csv", ".parquet")), "--changes": (changes, (".csv", ".parquet")),
             "--report": (report, (".html",))}  # fmt: skip
    for option, (path, suffixes) in files.items():
        terminal.check_output_path(option, path, suffixes=suffixes, keep=[Path(robot)])
    terminal.check_output_path("--json", json, keep=[Path(robot)])
    if scheduler is not None and workers is not None:
        raise DynidError("option_not_applicable", "--workers: a scheduler has its own workers", "leave it out")
    check_rate(alpha)
    known = log_options.load_robot_from_options(robot, gravity, lock or [], snap)
    screen = terminal.make_console(json)
    reader = log_options.LogReader.from_options(
        known, column or [], units or [], gear, gain, topic, sign=sign, zero=zero, order=order, header=header
    )
    with show_progress(screen, "planning") as tell:
        found = identify_fleet(
            known, data, by=by.split(","), baseline=baseline, out=out, client=scheduler, workers=workers,
            friction=log_options.parse_friction(friction), rotor_inertia=rotor_inertia, cutoff=cutoff,
            joints=None if joints is None else [name for name in joints.split(",") if name], delay=delay,
            read=_reading_options(reader), robots=robots, on_progress=tell,
        )  # fmt: skip
    outputs = terminal.Outputs()
    outputs.write_file(table, lambda place: output.write_frame(found.table(), place))
    outputs.write_file(changes, lambda place: output.write_frame(found.changes(alpha), place))
    outputs.write_file(report, lambda place: found.report(place, alpha))
    outputs.write_json_file(json, lambda: found.facts(alpha))
    terminal.show_notes(known, screen)
    output.show_fleet(found, screen, alpha)
    outputs.show_written_files(screen)
    outputs.finish([*(alarm.message for alarm in found.alarms(alpha)), *found.gaps])


def watch(
    robot: RobotArgument,
    folder: Annotated[Path, typer.Argument(help="where logs of one robot arrive; each is a period")],
    *,
    out: Annotated[Path, typer.Option(help="folder of states and results; a stopped watch continues there")],
    baseline: Annotated[int, typer.Option(help="first logs that are the reference")] = 4,
    once: Annotated[bool, typer.Option("--once", help="stop when all logs in the folder have been read")] = False,
    every: Annotated[float, typer.Option(help="seconds between checks of the folder")] = 2.0,
    alpha: AlphaOption = 0.01,
    friction: FrictionOption = "auto",
    rotor_inertia: RotorOption = True,
    cutoff: CutoffOption = None,
    joints: JointsOption = None,
    delay: DelayOption = 0.0,
    column: ColumnOption = None,
    units: UnitsOption = None,
    gear: GearOption = None,
    gain: GainOption = None,
    topic: TopicOption = None,
    sign: SignOption = None,
    zero: ZeroOption = None,
    order: OrderOption = None,
    header: HeaderOption = None,
    gravity: GravityOption = None,
    lock: LockOption = None,
    snap: SnapOption = True,
) -> None:
    """Watch a folder into which logs of one robot arrive: a line per log, and one per change.

    The page OUT/watch.html is kept current. Ctrl-C ends it; it goes on where it was.

    Example: dynid watch arm.urdf arriving/ --out watched/ --baseline 6
    """
    from dynid.cli import log_options, terminal
    from dynid.fleet.fleet import check_rate
    from dynid.fleet.watch import watch_folder

    check_rate(alpha)
    if not every > 0.0:
        raise DynidError("option_malformed", "--every {every}:", "give a number of seconds above 0", every=every)
    known = log_options.load_robot_from_options(robot, gravity, lock or [], snap)
    screen = terminal.make_console()
    reader = log_options.LogReader.from_options(
        known, column or [], units or [], gear, gain, topic, sign=sign, zero=zero, order=order, header=header
    )
    terminal.show_notes(known, screen)
    seen = []
    try:
        for event in watch_folder(
            known, folder, out=out, baseline=baseline, every=every, once=once, alpha=alpha,
            friction=log_options.parse_friction(friction), rotor_inertia=rotor_inertia, cutoff=cutoff,
            joints=None if joints is None else [name for name in joints.split(",") if name], delay=delay,
            read=_reading_options(reader),
        ):  # fmt: skip
            terminal.print_line(screen, event.message, style="bold" if event.is_warning else None)
            seen += [event.message] if event.is_warning else []
    except KeyboardInterrupt:
        terminal.print_line(screen, f"stopped; dynid watch continues with what is in {out}")
    terminal.finish_with_warnings(seen)


def _reading_options(reader: LogReader) -> dict[str, Any]:
    """Options of `read_log` that were given."""
    given: dict[str, Any] = {
        "columns": dict(reader.columns), "units": dict(reader.units), "gear": reader.gear, "gain": reader.gain,
        "topic": reader.topic, "sign": list(reader.sign), "zero": reader.zero, "order": reader.order,
        "header": reader.header,
    }  # fmt: skip
    return {
        key: value
        for key, value in given.items()
        if value is not None and not (isinstance(value, dict | list) and not value)
    }
