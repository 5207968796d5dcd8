"""The command `excite`: parse, call, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.commands.options import JsonOption, LockOption, RobotArgument
from dynid.errors import DynidError


def excite(
    robot: RobotArgument,
    out: Annotated[Path | None, typer.Option("--out", help="a .csv; a ROS .yaml and an .html go beside it")] = None,
    rate: Annotated[float, typer.Option(help="samples per second of the files")] = 100.0,
    shape: Annotated[str, typer.Option(help="fourier or points")] = "fourier",
    model: Annotated[str | None, typer.Option(help="torque, energy, momentum or reaction")] = None,
    criterion: Annotated[str, typer.Option(help="condition, frobenius, scaling, a, d, e, ...")] = "condition",
    rotor_inertia: Annotated[bool, typer.Option(help="count the rotors' inertias Ia")] = False,
    friction: Annotated[str, typer.Option(help="extra columns: viscous,coulomb,offset")] = "",
    position: Annotated[str | None, typer.Option(help="limit +- rad or m: one number, or one per joint")] = None,
    velocity: Annotated[str | None, typer.Option(help="limit in rad/s or m/s: one number, or one per joint")] = None,
    acceleration: Annotated[str | None, typer.Option(help="limit in rad/s^2 or m/s^2, likewise")] = None,
    duration: Annotated[float | None, typer.Option(help="period of the fourier shape in s")] = None,
    harmonics: Annotated[int, typer.Option(help="multiples of the base frequency")] = 5,
    periods: Annotated[int, typer.Option(help="how often the period is repeated")] = 1,
    points: Annotated[int | None, typer.Option(help="rows of the points shape")] = None,
    starts: Annotated[int | None, typer.Option(help="random starts")] = None,
    noise: Annotated[
        float, typer.Option(help="standard deviation of the noise on every row, for the expected errors")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="of the random starts")] = 0,
    time_budget: Annotated[float | None, typer.Option(help="seconds of search; the best so far is kept")] = None,
    lock: LockOption = None,
    json: JsonOption = None,
) -> None:
    """Design a motion that reveals the base parameters, valid at every instant.

    Example: dynid excite panda --out traj.csv
    """
    from dynid.excitation.design import design_excitation
    from dynid.faces import excitation_face, terminal
    from dynid.robot.load import load_robot

    terminal.check_place("--out", out, suffixes=(".csv",))
    if not 0.0 < rate < float("inf"):
        raise DynidError(f"--rate {rate:g}: give a positive number of samples per second")
    terminal.check_place("--json", json, keep=[Path(robot)])
    loaded = load_robot(robot, lock=terminal.parse_locks(lock or []))
    limits = excitation_face.limits_from_options(loaded, position, velocity, acceleration)
    screen, outputs = terminal.console(json), terminal.Outputs()
    if out is not None and shape == "points":
        excitation_face.check_accelerations(loaded, limits)
    with excitation_face.progress_bar(screen) as bar:
        task = bar.add_task("designing the motion", total=1.0) if bar else None
        found = design_excitation(
            loaded, shape=shape, model=model, criterion=criterion, rotor_inertia=rotor_inertia, limits=limits,
            friction=tuple(word for word in friction.split(",") if word), duration=duration, harmonics=harmonics,
            points=points, starts=starts, seed=seed, time_budget=time_budget, periods=periods, noise=noise,
            on_progress=(lambda text, done: bar.update(task, completed=done, description=text)) if bar else None,
        )  # fmt: skip
    for place, write in excitation_face.files_of(found, out, rate) if out else ():
        outputs.put(place, write)
    outputs.put_json(json, lambda: excitation_face.facts(found, outputs.written))
    terminal.show_notes(loaded, screen)
    excitation_face.show(found, screen)
    outputs.show(screen)
    outputs.finish(found.warnings)
