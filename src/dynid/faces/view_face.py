"""What the viewer shows, read from files, and what a person is told about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dynid.data.read import read_log
from dynid.errors import FIX_THE_BASE, DynidError, LogError
from dynid.faces.log_options import parse_columns
from dynid.faces.simulation_face import read_motion
from dynid.faces.terminal import escaped, spoken
from dynid.robot.robot import Robot
from dynid.view.path import Path as JointPath
from dynid.view.path import path_of
from dynid.view.visuals import Shape, read_shapes

if TYPE_CHECKING:
    from rich.console import Console

SHOWN = 5
"""Notes that are printed at most."""


def read_path(file: Path, robot: Robot, column: Sequence[str] = ()) -> JointPath:
    """Read positions over time: a motion as `dynid simulate` takes it, or a log, which needs no velocities.

    column: where channels of a log are, CHANNEL=NAME[,NAME...].
    """
    if robot.floating:
        raise DynidError(f"'{robot.name}' floats; a moving base is not shown; {FIX_THE_BASE}")
    try:
        if file.suffix.lower() in (".json", ".yaml", ".yml"):
            motion = read_motion(file, robot)
            return path_of(robot, motion.t, motion.q)
        log = read_log(file, robot, columns=parse_columns(column) or None)
    except LogError as error:
        raise LogError(error.log, spoken(error.problem)) from error
    try:
        return path_of(robot, log.t, log.q)
    except DynidError as error:
        raise LogError(log.name, str(error)) from error


def read_shapes_of(source: str, robot: Robot, lock: Mapping[str, float]) -> tuple[list[Shape], list[str]]:
    """Shapes of a URDF, and notes on those that are not drawn; other robots are drawn as skeletons."""
    file = Path(source)
    if file.suffix.lower() != ".urdf" or not file.is_file():
        return [], []
    return read_shapes(file, robot, lock)


def show_notes(notes: Sequence[str], screen: Console) -> None:
    """Print why meshes are not drawn."""
    for note in notes[:SHOWN]:
        screen.print(f"note: {escaped(note)}", highlight=False, soft_wrap=True)
    if len(notes) > SHOWN:
        screen.print(f"note: {len(notes) - SHOWN} more shapes are not drawn, for such reasons", highlight=False)


def facts(
    robot: Robot, path: JointPath | None, shapes: Sequence[Shape], notes: Sequence[str], address: str
) -> dict[str, object]:
    """What is shown, for machines."""
    return {
        "robot": robot.name,
        "address": address,
        "joints": list(robot.joint_names),
        "duration": None if path is None else path.length,
        "shapes": len(shapes),
        "notes": list(notes),
    }


def announce(address: str, screen: Console, *, browser: bool) -> None:
    """Tell where the robot is to be seen, and open it."""
    import sys
    import webbrowser

    screen.print(f"look at {address} (Ctrl-C stops)", highlight=False)
    sys.stdout.flush()
    if browser:
        webbrowser.open(address)
