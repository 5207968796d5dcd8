"""The commands `physical` and `check`: parse, call, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.commands.options import JsonOption
from dynid.errors import DynidError


def physical(
    result: Annotated[Path, typer.Argument(help="a result that dynid identify --out wrote")],
    prior: Annotated[str | None, typer.Option(help="a robot file or name whose links are believed in")] = None,
    total_mass: Annotated[float | None, typer.Option(help="mass of all moving links together, kg")] = None,
    geometry: Annotated[str | None, typer.Option(help="a .urdf whose collision shapes hold the links' mass")] = None,
    bound: Annotated[list[str] | None, typer.Option(help="NAME=LOW:HIGH of a parameter, repeatable")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="save all of it to this .json")] = None,
    json: JsonOption = None,
) -> None:
    """Find mass, centre of mass and inertia of every link that real bodies can have, from a result.

    Example: dynid physical result.json --total-mass 18 --out physical.json
    """
    from dynid.estimation.identification import Identification
    from dynid.faces import physical_face, terminal
    from dynid.physical.find import physical_parameters

    inputs = [result, *(Path(source) for source in (prior, geometry) if source)]
    terminal.check_place("--out", out, suffixes=(".json",), keep=inputs)
    terminal.check_place("--json", json, keep=inputs)
    if out is not None and json is not None and out.resolve() == json.resolve():
        raise DynidError(f"--out and --json both name {out}; choose two names")
    bounds = physical_face.parse_bounds(bound or [])
    identified = Identification.load(result)
    screen, outputs = terminal.console(json), terminal.Outputs()
    found = physical_parameters(identified, prior=prior, total_mass=total_mass, bounds=bounds, geometry=geometry)
    outputs.put(out, found.save)
    outputs.put_json(json, lambda: physical_face.facts(found))
    physical_face.show(found, screen)
    outputs.show(screen)
    outputs.finish(found.warnings)


def check(
    robot: Annotated[str, typer.Argument(help="a .urdf, an MJCF .xml, a .toml table, or a bundled robot's name")],
    out: Annotated[Path | None, typer.Option("--out", help="write the mended robot as a .toml table")] = None,
    json: JsonOption = None,
) -> None:
    """List the links of a robot file that no body can have, and whether joint torques feel it.

    Example: dynid check my_robot.urdf
    """
    from dynid.faces import physical_face, terminal
    from dynid.physical.check import check_robot
    from dynid.robot.files import write_text
    from dynid.robot.table_text import table_text

    terminal.check_place("--out", out, suffixes=(".toml",), keep=[Path(robot)])
    terminal.check_place("--json", json, keep=[Path(robot)])
    found = check_robot(robot)
    screen, outputs = terminal.console(json), terminal.Outputs()

    def write_mended(place: Path) -> None:
        if found.mended is None:
            raise DynidError(f"--out {place}: there is nothing to write; the file is in order or cannot be mended")
        write_text(place, table_text(found.mended.to_mdh()))

    outputs.put(out, write_mended)
    outputs.put_json(json, lambda: physical_face.check_facts(found))
    terminal.show_notes(found.robot, screen)
    physical_face.show_check(found, screen)
    outputs.show(screen)
    outputs.finish(found.warnings)
