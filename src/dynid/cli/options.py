"""Arguments and options that several commands have."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

# What the shell offers after TAB; light, because it runs at every key.


def complete_robot_name(incomplete: str) -> list[str]:
    """Names of bundled robots; where none fits, the shell offers files."""
    folder = resources.files("dynid") / "robot" / "library"
    names = (file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))
    return sorted(name for name in names if name.startswith(incomplete))


RobotArgument = Annotated[
    str,
    typer.Argument(
        help="a .urdf, an MJCF .xml, a .toml table, or a bundled robot's name", autocompletion=complete_robot_name
    ),
]
JsonOption = Annotated[Path | None, typer.Option("--json", help="machine-readable output; - is standard output")]
LockOption = Annotated[list[str] | None, typer.Option(help="hold a joint: NAME=POSITION, repeatable")]
GravityOption = Annotated[str | None, typer.Option(help="acceleration of gravity in m/s^2: x,y,z")]
SignOption = Annotated[
    list[str] | None, typer.Option(help="a channel with the wrong sign: tau.JOINT, q.JOINT (v and a too), repeatable")
]
ZeroOption = Annotated[
    list[str] | None, typer.Option(help="added to positions: JOINT=-90deg; rad or m without a unit, repeatable")
]
OrderOption = Annotated[
    list[str] | None, typer.Option(help="joints in the order of the columns: NAME,NAME,...; tau=NAME,... of tau alone")
]
HeaderOption = Annotated[
    str | None, typer.Option(help="names of all columns of a table: 't,q*7,_*3,tau*7'; _ skips one")
]
RowsOption = Annotated[str | None, typer.Option(help="rows to use, FIRST:LAST, counted from 1; LOG@#200:4000 for one")]
SensorOption = Annotated[Path | None, typer.Option(help="a .toml file that describes the force plate")]
SnapOption = Annotated[bool, typer.Option(help="take almost-right angles of the robot file for right ones")]
