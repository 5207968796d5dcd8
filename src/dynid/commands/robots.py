"""The commands `robots` and `mdh`: which robots there are, and any robot as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.commands.options import JsonOption, RobotArgument


def robots(json: JsonOption = None) -> None:
    """List the bundled robots.

    Example: dynid robots
    """
    from dynid.faces import terminal
    from dynid.robot.load import bundled_robots, load_robot

    terminal.check_place("--json", json)
    loaded = {name: load_robot(name) for name in bundled_robots()}
    facts = {
        name: {"joints": robot.n, "structure": terminal.structure(robot), "source": robot.source}
        for name, robot in loaded.items()
    }
    outputs = terminal.Outputs()
    outputs.put_json(json, lambda: facts)
    terminal.console(json).print(terminal.robots_table(loaded))
    outputs.finish()


def mdh(
    robot: RobotArgument,
    out: Annotated[Path | None, typer.Option("--out", help="write the table to this .toml file")] = None,
    json: JsonOption = None,
    snap: Annotated[bool, typer.Option(help="take almost-right angles for right ones")] = True,
) -> None:
    """Turn any robot into its modified Denavit-Hartenberg table, parameters included.

    Example: dynid mdh my_robot.urdf --out my_robot.toml
    """
    from dynid.faces import terminal
    from dynid.robot.files import write_text
    from dynid.robot.load import load_robot
    from dynid.robot.table_text import table_text

    terminal.check_place("--out", out, suffixes=(".toml",), keep=[Path(robot)])
    terminal.check_place("--json", json, keep=[Path(robot)])
    table = load_robot(robot, snap=snap).to_mdh()
    screen, outputs = terminal.console(json), terminal.Outputs()
    outputs.put(out, lambda place: write_text(place, table_text(table)))
    outputs.put_json(json, lambda: terminal.robot_facts(table))
    screen.print(terminal.mdh_table(table))
    screen.print(f"angles in degrees, lengths in m; gravity {[float(x) for x in table.gravity]} m/s^2")
    terminal.show_notes(table, screen)
    outputs.show(screen)
    outputs.finish()
