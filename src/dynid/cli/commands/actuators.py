"""The command `actuators`: parse, call, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.options import (
    GravityOption,
    HeaderOption,
    JsonOption,
    LockOption,
    OrderOption,
    RobotArgument,
    RowsOption,
    SignOption,
    SnapOption,
    ZeroOption,
)
from dynid.errors import DynidError


def actuators(
    robot: RobotArgument,
    logs: Annotated[list[str], typer.Argument(help="recordings of q and q_cmd; log.csv@2:20 takes a part")],
    *,
    controller: Annotated[
        Path | None, typer.Option(help="kind, kp, kd, max_torque (.toml; default: the MJCF's actuators)")
    ] = None,
    validate: Annotated[
        list[str] | None, typer.Option(help="a LOG for rollouts, repeatable (default: the last quarter of the logs)")
    ] = None,
    delay: Annotated[str, typer.Option(help="of commands, s; auto: estimated")] = "auto",
    sensor_delay: Annotated[
        str, typer.Option(help="age of the positions with which a drive closes its loop, s; auto: estimated")
    ] = "0",
    polish: Annotated[int, typer.Option(help="rollouts in MuJoCo for Gauss-Newton after the linear estimate")] = 0,
    links: Annotated[
        str | None, typer.Option(help="links whose masses are identified too: NAME,NAME,... or all")
    ] = None,
    cutoff: Annotated[float | None, typer.Option(help="cut-off frequency, Hz (default: automatic)")] = None,
    out: Annotated[Path | None, typer.Option(help="the result, for dynid export and report (.json)")] = None,
    mjcf: Annotated[Path | None, typer.Option(help="the robot's MJCF with new values in place (.xml)")] = None,
    urdf: Annotated[Path | None, typer.Option(help="the robot with <dynamics> (.urdf)")] = None,
    isaac: Annotated[Path | None, typer.Option(help="DelayedPDActuatorCfg for Isaac Lab (.py), syntax checked")] = None,
    report: Annotated[Path | None, typer.Option(help="a page with rollouts and parameters (.html)")] = None,
    column: Annotated[list[str] | None, typer.Option(help="CHANNEL=NAME[,NAME...]: q, v, q_cmd, v_cmd, ...")] = None,
    units: Annotated[list[str] | None, typer.Option(help="units other than SI: q=deg")] = None,
    gear: Annotated[
        str | None, typer.Option(help="gear ratio, motor over joint: one number, one per joint, or a matrix FILE")
    ] = None,
    topic: Annotated[str | None, typer.Option(help="of a bag; several are joined: /a+/b")] = None,
    sign: SignOption = None,
    zero: ZeroOption = None,
    order: OrderOption = None,
    header: HeaderOption = None,
    rows: RowsOption = None,
    gravity: GravityOption = None,
    lock: LockOption = None,
    snap: SnapOption = True,
    json: JsonOption = None,
) -> None:
    """Identify armature, friction, delay and gains of drives from commands and positions, without torques.

    Columns q_cmd1, q_cmd2, ... (also target, position_command, v_cmd, tau_ff, pwm) are matched like all others.

    Example: dynid actuators leg.xml run.csv --controller drives.toml --polish 60 --mjcf leg_identified.xml
    """
    from dynid.actuators.identify_actuators import identify_actuators
    from dynid.cli import log_options, terminal
    from dynid.cli.output import actuators as output
    from dynid.cli.output.identification import show_progress
    from dynid.exports.export import export
    from dynid.report.actuators import write_actuators_page

    checked = [*logs, *(validate or [])]
    inputs = [Path(robot), *log_options.files_of_log_arguments(checked), *([controller] if controller else [])]
    files = {"--out": (out, ".json"), "--mjcf": (mjcf, ".xml"), "--urdf": (urdf, ".urdf"), "--isaac": (isaac, ".py"),
             "--report": (report, ".html")}  # fmt: skip
    for option, (path, suffix) in files.items():
        terminal.check_output_path(option, path, suffixes=(suffix,), keep=inputs)
    terminal.check_output_path("--json", json, keep=inputs)
    both = sorted(set(logs) & set(validate or []))
    if both:
        raise DynidError("log_used_twice", "{log}: given as a log and with --validate", "name it once", log=both[0])
    known = log_options.load_robot_from_options(robot, gravity, lock or [], snap)
    screen = terminal.make_console(json)
    reader = log_options.LogReader.from_options(
        known, column or [], units or [], gear, None, topic, sign=sign, zero=zero, order=order, header=header,
        rows=rows,
    )  # fmt: skip
    with show_progress(screen) as tell:
        found = identify_actuators(
            known, [reader.read_log(word) for word in logs], controller=controller,
            delay=_parse_delay("--delay", delay),
            polish=polish, validate=[reader.read_log(word) for word in validate] if validate else None,
            sensor_delay=_parse_delay("--sensor-delay", sensor_delay), links=_parse_links(links), cutoff=cutoff,
            on_progress=tell,
        )  # fmt: skip
    outputs = terminal.Outputs()
    outputs.write_file(out, found.save)
    written = [outputs.write_file(path, lambda place: export(found, place)) for path in (mjcf, urdf, isaac)]
    outputs.write_file(report, lambda place: write_actuators_page(found, place))
    outputs.write_json_file(json, found.facts)
    terminal.show_notes(known, screen)
    output.show_actuators(found, screen)
    for one in written:
        for note in () if one is None else one.notes:
            terminal.show_note(note, screen)
    outputs.show_written_files(screen)
    losses = [warning for one in written if one is not None for warning in one.warnings]
    outputs.finish((*found.warnings, *losses))


def _parse_delay(option: str, text: str) -> float | str:
    """Seconds, or 'auto'."""
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError as error:
        raise DynidError(
            "option_malformed", "{option} {text}:", "give seconds, or auto", option=option, text=text
        ) from error


def _parse_links(text: str | None) -> str | list[str]:
    """Names of links, or 'all'."""
    if not text:
        return []
    return text if text == "all" else [word.strip() for word in text.split(",")]
