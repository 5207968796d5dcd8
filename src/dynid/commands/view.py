"""The command `view`: parse, call, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.commands.options import JsonOption, LockOption, RobotArgument
from dynid.errors import DynidError


def view(
    robot: RobotArgument,
    trajectory: Annotated[
        Path | None, typer.Argument(help="a motion or a log; without one, a slider per joint")
    ] = None,
    port: Annotated[int, typer.Option(help="of the page on this machine; 0 takes any that is free")] = 8080,
    browser: Annotated[bool, typer.Option(help="open the page in the browser")] = True,
    seconds: Annotated[float | None, typer.Option(help="stop by itself after this time; Ctrl-C if missing")] = None,
    column: Annotated[list[str] | None, typer.Option(help="CHANNEL=NAME[,NAME...], as for identify")] = None,
    lock: LockOption = None,
    json: JsonOption = None,
) -> None:
    """Show a robot in the browser, moving along a trajectory: meshes of its URDF, or a skeleton with axes and frames.

    Example: dynid view panda traj.csv
    """
    from dynid.faces import terminal, view_face
    from dynid.robot.load import load_robot
    from dynid.view.server import check_installed, run

    check_installed()
    terminal.check_place("--json", json, keep=[Path(robot), *([] if trajectory is None else [trajectory])])
    if seconds is not None and not seconds > 0.0:
        raise DynidError(f"--seconds {seconds:g}: give a positive time")
    locks = terminal.parse_locks(lock or [])
    loaded = load_robot(robot, lock=locks)
    path = None if trajectory is None else view_face.read_path(trajectory, loaded, column or ())
    shapes, notes = view_face.read_shapes_of(robot, loaded, locks)
    screen = terminal.console(json)
    terminal.show_notes(loaded, screen)
    view_face.show_notes(notes, screen)

    def on_start(address: str) -> None:
        if json:
            terminal.write_json(json, view_face.facts(loaded, path, shapes, notes, address))
        view_face.announce(address, screen, browser=browser)

    run(loaded, path, shapes, port=port, seconds=seconds, on_start=on_start)
