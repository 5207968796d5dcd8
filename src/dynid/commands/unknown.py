"""The command `unknown`: parse, call, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.commands.options import JsonOption, RobotArgument


def unknown(
    robot: RobotArgument,
    unknown: Annotated[
        str | None, typer.Option(help="what is not known: d,r (all), d3 (one), a symbol; '' for nothing")
    ] = None,
    count_only: Annotated[bool, typer.Option("--count-only", help="only how many there are, at once")] = False,
    rotor_inertia: Annotated[bool, typer.Option(help="count the rotors' inertias Ia")] = False,
    seed: Annotated[int, typer.Option(min=0, help="of the random points of --count-only")] = 0,
    json: JsonOption = None,
) -> None:
    """Show the model parameters of a robot whose lengths or angles are not known.

    Example: dynid unknown puma560 --unknown d,r
    """
    from dynid.faces import terminal, unknown_face
    from dynid.robot.load import load_robot
    from dynid.unknown.find import count_model_parameters, model_parameters

    terminal.check_place("--json", json, keep=[Path(robot)])
    loaded = load_robot(robot)
    screen, outputs = terminal.console(json), terminal.Outputs()
    if count_only:
        count = count_model_parameters(loaded, unknown=unknown, rotor_inertia=rotor_inertia, seed=seed)
        outputs.put_json(json, lambda: unknown_face.count_facts(loaded.name, count))
        terminal.show_notes(loaded, screen)
        unknown_face.show_count(loaded.name, count, screen)
        return outputs.finish()
    found = model_parameters(loaded, unknown=unknown, rotor_inertia=rotor_inertia)
    outputs.put_json(json, lambda: unknown_face.facts(found))
    terminal.show_notes(loaded, screen)
    unknown_face.show(found, screen)
    outputs.finish(found.warnings)
