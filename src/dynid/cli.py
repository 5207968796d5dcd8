"""The command line: parse, call, show.

Exit 0: done; 1: done, with warnings that must be read; 2: the input is at fault.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dynid.completion import complete_robot
from dynid.errors import DynidError
from dynid.export_commands import export
from dynid.identification_commands import identify, simulate
from dynid.marker_commands import markers
from dynid.payload_commands import gains, payload
from dynid.physical_commands import check, physical
from dynid.report_commands import report
from dynid.unknown_commands import unknown
from dynid.view_commands import view

app = typer.Typer(
    add_completion=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Identification of robot dynamics: a robot file and a log in, trustworthy parameters out.",
)

RobotArgument = Annotated[
    str,
    typer.Argument(
        help="a .urdf, an MJCF .xml, a .toml table, or a bundled robot's name", autocompletion=complete_robot
    ),
]
JsonOption = Annotated[Path | None, typer.Option("--json", help="write the result to this file, for machines")]


@app.command()
def robots(json: JsonOption = None) -> None:
    """List the bundled robots.

    Example: dynid robots
    """
    from dynid import terminal
    from dynid.robot.load import bundled_robots, load_robot

    terminal.check_place("--json", json)
    loaded = {name: load_robot(name) for name in bundled_robots()}
    if json:
        facts = {
            name: {"joints": robot.n, "structure": terminal.structure(robot), "source": robot.source}
            for name, robot in loaded.items()
        }
        terminal.write_json(json, facts)
    terminal.console().print(terminal.robots_table(loaded))


@app.command()
def mdh(
    robot: RobotArgument,
    out: Annotated[Path | None, typer.Option("--out", help="write the table to this .toml file")] = None,
    json: JsonOption = None,
    snap: Annotated[bool, typer.Option(help="take almost-right angles for right ones")] = True,
) -> None:
    """Turn any robot into its modified Denavit-Hartenberg table, parameters included.

    Example: dynid mdh my_robot.urdf --out my_robot.toml
    """
    from dynid import terminal
    from dynid.robot.files import write_text
    from dynid.robot.load import load_robot
    from dynid.robot.table_text import table_text

    terminal.check_place("--out", out, suffixes=(".toml",), keep=[Path(robot)])
    terminal.check_place("--json", json, keep=[Path(robot)])
    table = load_robot(robot, snap=snap).to_mdh()
    screen = terminal.console()
    if out:
        write_text(out, table_text(table))
    if json:
        terminal.write_json(json, terminal.robot_facts(table))
    screen.print(terminal.mdh_table(table))
    screen.print(f"angles in degrees, lengths in m; gravity {[float(x) for x in table.gravity]} m/s^2")
    terminal.show_notes(table, screen)
    if out:
        screen.print(f"wrote {out}")


@app.command()
def base(
    robot: RobotArgument,
    method: Annotated[str | None, typer.Option(help="qr, svd, rules, nullspace, or all to compare them")] = None,
    model: Annotated[str, typer.Option(help="torque, static, energy, power, momentum or reaction")] = "torque",
    rotor_inertia: Annotated[bool, typer.Option(help="count the rotors' inertias Ia")] = True,
    tared: Annotated[bool, typer.Option(help="six free offsets in the reaction model")] = False,
    values: Annotated[Path | None, typer.Option(help="a robot file, or JSON {name: value}: adds values")] = None,
    latex: Annotated[bool, typer.Option(help="relations in LaTeX")] = False,
    barycentric: Annotated[bool, typer.Option("--barycentric", help="relations in barycentric letters too")] = False,
    seed: Annotated[int, typer.Option(min=0, help="of the random samples of qr and svd")] = 0,
    json: JsonOption = None,
) -> None:
    """Show which inertial parameters can be identified at all, and how the others join them.

    With --model reaction also how joint torques follow from forces on the base, and which channels that takes.

    Example: dynid base puma560 --method all
    """
    from dynid import base_face, plate_face, terminal
    from dynid.base.find import base_parameters, compare_methods
    from dynid.robot.load import load_robot

    terminal.check_place("--json", json, keep=[Path(robot), *([values] if values else [])])
    loaded = load_robot(robot)
    screen = terminal.console()
    terminal.show_notes(loaded, screen)
    if method == "all":
        compared = compare_methods(loaded, model=model, rotor_inertia=rotor_inertia, tared=tared, seed=seed)
        found = next(iter(compared.results.values()))
        screen.print(base_face.comparison_table(compared))
    else:
        compared = None
        found = base_parameters(loaded, model=model, method=method, rotor_inertia=rotor_inertia, tared=tared, seed=seed)
    numbers = found.values(base_face.read_values(values, loaded)) if values else None
    base_face.show(found, screen, latex=latex, values=numbers)
    facts = base_face.facts(found, compared, numbers) if json else {}
    warnings = [*found.warnings, *(base_face.disagreements(compared) if compared else ())]
    if barycentric:
        plate_face.show_barycentric(found, screen)
        facts["barycentric"] = plate_face.barycentric_facts(found)
    if model == "reaction":
        answer = plate_face.find_answer(loaded, tared=tared)
        plate_face.show_answer(answer, screen)
        facts["plate"] = plate_face.answer_facts(answer)
        warnings += answer.warnings
    if json:
        terminal.write_json(json, facts)
    terminal.finish(warnings)


@app.command()
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
    time_budget: Annotated[float | None, typer.Option(help="seconds; the best so far is kept")] = None,
    lock: Annotated[list[str] | None, typer.Option(help="hold a joint: NAME=POSITION, repeatable")] = None,
    json: JsonOption = None,
) -> None:
    """Design a motion that reveals the base parameters, valid at every instant.

    Example: dynid excite panda --out traj.csv
    """
    from dynid import excitation_face, terminal
    from dynid.excitation.design import design_excitation
    from dynid.robot.load import load_robot

    terminal.check_place("--out", out, suffixes=(".csv",))
    if not 0.0 < rate < float("inf"):
        raise DynidError(f"--rate {rate:g}: give a positive number of samples per second")
    terminal.check_place("--json", json, keep=[Path(robot)])
    loaded = load_robot(robot, lock=terminal.parse_locks(lock or []))
    limits = excitation_face.limits_from_options(loaded, position, velocity, acceleration)
    screen = terminal.console()
    terminal.show_notes(loaded, screen)
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
    excitation_face.show(found, screen)
    files = excitation_face.write_files(found, out, rate) if out else []
    if json:
        terminal.write_json(json, excitation_face.facts(found, files))
    if files:
        screen.print(f"wrote {', '.join(files)}", highlight=False)
    terminal.finish(found.warnings)


app.command()(simulate)
app.command()(identify)
app.command()(payload)
app.command()(gains)
app.command()(markers)
app.command()(unknown)
app.command()(export)
app.command()(physical)
app.command()(check)
app.command()(report)
app.command()(view)


@app.command()
def demo(
    robot: Annotated[str, typer.Argument(help="a bundled robot or a file", autocompletion=complete_robot)] = "puma560",
    out: Annotated[Path, typer.Option("--out", help="folder for the files")] = Path("out/demo"),
    seed: Annotated[int, typer.Option("--seed", min=0, help="of motions and noise")] = 0,
    json: JsonOption = None,
) -> None:
    """Do the main job on a robot, simulated: exciting motion, noisy recording, identification, validation, report.

    Example: dynid demo panda
    """
    from dynid import terminal
    from dynid.demo import MainJob
    from dynid.identification_face import line, progress
    from dynid.robot.load import load_robot

    terminal.check_place("--json", json)
    job = MainJob(load_robot(robot), out, seed=seed)
    screen = terminal.console()
    terminal.show_notes(job.robot, screen)
    with progress(screen, "demo") as tell:
        for done, text in job.run():
            line(screen, text)
            if tell:
                tell("demo", done)
    if json:
        terminal.write_json(json, job.facts)
    terminal.show_summary(job.summary, screen)
    terminal.finish([terminal.spoken(warning) for warning in job.warnings])


def main() -> None:
    """Run the command line; a mistake of the user becomes a line or two and exit code 2."""
    try:
        code = app(prog_name="dynid", standalone_mode=False)
    except DynidError as error:
        from dynid.terminal import spoken

        sys.stderr.write(f"dynid: {spoken(str(error))}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        sys.exit(_misused(error))
    if code == 130:
        sys.stderr.write("dynid: interrupted\n")
    sys.exit(code or 0)


def _misused(error: Exception) -> int:
    """Say in one line what is wrong with the options; anything else is a bug and goes on."""
    if not hasattr(error, "format_message"):
        raise error
    message = str(error.format_message())
    sys.stderr.write(message + "\n" if message.lstrip().startswith("Usage") else f"dynid: {message} (see --help)\n")
    return 2


if __name__ == "__main__":
    main()
