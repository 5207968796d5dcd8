"""The command `base`: parse, call, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.commands.options import JsonOption, RobotArgument


def base(
    robot: RobotArgument,
    method: Annotated[str | None, typer.Option(help="exact, nullspace, rules, qr, svd, or all to compare them")] = None,
    model: Annotated[str, typer.Option(help="torque, static, energy, power, momentum or reaction")] = "torque",
    rotor_inertia: Annotated[bool, typer.Option(help="count the rotors' inertias Ia")] = True,
    tared: Annotated[bool, typer.Option(help="six free offsets in the reaction model")] = False,
    values: Annotated[Path | None, typer.Option(help="a robot file, or JSON {name: value}: adds values")] = None,
    latex: Annotated[bool, typer.Option(help="relations in LaTeX")] = False,
    barycentric: Annotated[bool, typer.Option("--barycentric", help="relations in barycentric letters too")] = False,
    seed: Annotated[int, typer.Option(min=0, help="of random positions and samples")] = 0,
    json: JsonOption = None,
) -> None:
    """Show which inertial parameters can be identified at all, and how the others join them.

    With --model reaction also how joint torques follow from forces on the base, and which channels that takes.

    Example: dynid base puma560 --method all
    """
    from dynid.base.find import base_parameters, compare_methods
    from dynid.faces import base_face, plate_face, terminal
    from dynid.robot.load import load_robot

    terminal.check_place("--json", json, keep=[Path(robot), *([values] if values else [])])
    loaded = load_robot(robot)
    screen, outputs = terminal.console(json), terminal.Outputs()
    if method == "all":
        compared = compare_methods(loaded, model=model, rotor_inertia=rotor_inertia, tared=tared, seed=seed)
        found = next(iter(compared.results.values()))
    else:
        compared = None
        found = base_parameters(loaded, model=model, method=method, rotor_inertia=rotor_inertia, tared=tared, seed=seed)
    numbers = found.values(base_face.read_values(values, loaded)) if values else None
    facts = base_face.facts(found, compared, numbers)
    warnings = [*found.warnings, *(base_face.disagreements(compared) if compared else ())]
    if barycentric:
        facts["barycentric"] = plate_face.barycentric_facts(found)
    answer = plate_face.find_answer(loaded, tared=tared) if model == "reaction" else None
    if answer is not None:
        facts["plate"] = plate_face.answer_facts(answer)
        warnings += answer.warnings
    outputs.put_json(json, lambda: facts)
    terminal.show_notes(loaded, screen)
    if compared is not None:
        screen.print(base_face.comparison_table(compared))
    base_face.show(found, screen, latex=latex, values=numbers)
    if barycentric:
        plate_face.show_barycentric(found, screen)
    if answer is not None:
        plate_face.show_answer(answer, screen)
    outputs.finish(warnings)
