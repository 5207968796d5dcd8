"""The command `markers`: parse, call, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.commands.options import JsonOption, RobotArgument


def markers(
    robot: RobotArgument,
    file: Annotated[Path, typer.Argument(help="CSV: t, and NAME_x NAME_y NAME_z per marker, empty where hidden")],
    marker: Annotated[list[str] | None, typer.Option(help="NAME=LINK (or joint) that carries it, repeatable")] = None,
    start: Annotated[str, typer.Option(help="joint positions at the beginning: rad or m, one per joint")] = "",
    still: Annotated[float, typer.Option(help="seconds that the robot stands so; longer is better")] = 0.0,
    unit: Annotated[str, typer.Option(help="of the markers' positions: m, cm or mm")] = "m",
    refine_camera: Annotated[bool, typer.Option("--refine-camera", help="adjust the camera's pose too")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="the log to write, .csv; other columns go along")] = None,
    json: JsonOption = None,
) -> None:
    """Find joint positions from markers on the links, seen in frame 0 by cameras.

    Example: dynid markers puma562 seen.csv --marker a=1 --marker b=2 --marker c=3 --start 0,0,0 --still 1 --out log.csv
    """
    from dynid.data.markers import angles_from_markers
    from dynid.faces import log_options, marker_face, terminal
    from dynid.robot.load import load_robot

    log_options.check_outputs(out, json, suffixes=marker_face.SUFFIXES, keep=[file, Path(robot)])
    loaded = load_robot(robot)
    posture = terminal.parse_numbers(start, "--start", f"the {loaded.n} joint positions at the beginning")
    read = marker_face.read_markers(file, marker or [], unit)
    at = marker_face.still_frames(read.t, still)
    fit = angles_from_markers(
        loaded, read.t, read.positions, read.links, start=posture, at=at, refine_camera=refine_camera
    )
    screen, outputs = terminal.console(json), terminal.Outputs()
    outputs.put(out, lambda place: marker_face.write_log(place, fit, read.others))
    outputs.put_json(json, lambda: marker_face.facts(fit, loaded, read))
    terminal.show_notes(loaded, screen)
    marker_face.show(fit, loaded, read, screen)
    outputs.show(screen, "nothing was written; --out log.csv keeps the log")
    outputs.finish(fit.warnings)
