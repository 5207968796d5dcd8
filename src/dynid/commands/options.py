"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.faces.completion import complete_robot

RobotArgument = Annotated[
    str,
    typer.Argument(
        help="a .urdf, an MJCF .xml, a .toml table, or a bundled robot's name", autocompletion=complete_robot
    ),
]
JsonOption = Annotated[Path | None, typer.Option("--json", help="machine-readable output; - is standard output")]
LockOption = Annotated[list[str] | None, typer.Option(help="hold a joint: NAME=POSITION, repeatable")]
GravityOption = Annotated[str | None, typer.Option(help="acceleration of gravity in m/s^2: x,y,z")]
SensorOption = Annotated[Path | None, typer.Option(help="a .toml file that describes the force plate")]
SnapOption = Annotated[bool, typer.Option(help="take almost-right angles of the robot file for right ones")]
