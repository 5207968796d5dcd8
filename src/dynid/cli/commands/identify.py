"""The commands `inspect`, `init`, `simulate` and `identify`: parse, call, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dynid.cli.options import (
    BoundOption,
    GeometryOption,
    GravityOption,
    HeaderOption,
    JsonOption,
    LockOption,
    OrderOption,
    PriorWeightOption,
    RobotArgument,
    RowsOption,
    SensorOption,
    SignOption,
    SnapOption,
    TotalMassOption,
    ZeroOption,
    complete_robot_name,
    load_robot_for_command,
    parse_locks,
    parse_names,
    parse_numbers,
    path_beside_log,
    refuse_unused_options,
    robot_file_options,
    urdf_options_as_arguments,
)
from dynid.errors import DynidError
from dynid.messages import Message


def inspect(
    robot: RobotArgument,
    logs: Annotated[list[str], typer.Argument(metavar="LOG...", help="recordings, also without a header")],
    *,
    out: Annotated[Path | None, typer.Option("--out", help="write a page to map columns by eye to this .html")] = None,
    column: Annotated[list[str] | None, typer.Option(help="CHANNEL=NAME[,NAME...], as for identify")] = None,
    units: Annotated[list[str] | None, typer.Option(help="units other than SI: q=deg,tau=Nmm")] = None,
    gear: Annotated[
        str | None, typer.Option(help="gear ratio, motor over joint: one number, one per joint, or a matrix FILE")
    ] = None,
    gain: Annotated[str | None, typer.Option(help="N m per A: one number, or one per joint")] = None,
    topic: Annotated[str | None, typer.Option(help="of a bag; several are joined: /a+/b")] = None,
    sign: SignOption = None,
    zero: ZeroOption = None,
    order: OrderOption = None,
    header: HeaderOption = None,
    rows: RowsOption = None,
    lock: LockOption = None,
    json: JsonOption = None,
) -> None:
    """What is in this file: columns, their meaning and why, sampling, and channels that look wrong.

    The page of --out has drop-downs for columns, units, signs, zeros, gears and gains, and gives the finished line.

    Example: dynid inspect puma560 log.csv --out inspect.html
    """
    from dynid.cli import log_options, terminal
    from dynid.cli.output import inspection
    from dynid.report.inspection import Reading, write_inspection_page

    inputs = [Path(robot), *log_options.files_of_log_arguments(logs), *([Path(gear)] if gear else [])]
    log_options.check_output_files(out, json, suffixes=(".html",), keep=inputs)
    loaded = load_robot_for_command(robot, lock=parse_locks(lock or []))
    reader = log_options.LogReader.from_options(
        loaded, column or [], units or [], gear, gain, topic, sign=sign, zero=zero, order=order, header=header,
        rows=rows,
    )  # fmt: skip
    screen, outputs = terminal.make_console(json), terminal.Outputs()
    found = [inspection.inspect_word(word, loaded, reader) for word in logs]
    given = Reading(
        robot, tuple(logs), tuple(column or ()), tuple(units or ()), gear, gain, tuple(sign or ()), tuple(zero or ()),
        tuple(order or ()), rows, header, topic, tuple(lock or ()), tuple(urdf_options_as_arguments()),
    )  # fmt: skip
    reading = given.after(found[0])
    outputs.write_file(out, lambda place: write_inspection_page(place, loaded, found, given))
    outputs.write_json_file(json, lambda: inspection.inspection_json_data(found, reading))
    terminal.show_notes(loaded, screen)
    for one in found:
        inspection.show_inspection(one, screen)
    inspection.show_next_step(found[0], reading, out, screen)
    outputs.show_written_files(screen)
    outputs.finish(inspection.remarks_of(found))


def simulate(
    robot: RobotArgument,
    trajectory: Annotated[Path, typer.Argument(help="a motion with t, q, v, a, as dynid excite --out writes it")],
    *,
    out: Annotated[Path | None, typer.Option("--out", help="the log to write: .csv, .parquet or .npz")] = None,
    rate: Annotated[float | None, typer.Option(help="samples per second (default: as in the trajectory)")] = None,
    noise: Annotated[str, typer.Option(help="standard deviation of the torques, N m: one, or one per joint")] = "0",
    plate: Annotated[bool, typer.Option("--plate", help="write the forces on the base as well")] = False,
    plate_noise: Annotated[str, typer.Option(help="standard deviation of forces and moments on the base")] = "0",
    sensor: SensorOption = None,
    seed: Annotated[int, typer.Option(min=0, help="of the noise")] = 0,
    gravity: GravityOption = None,
    lock: LockOption = None,
    snap: SnapOption = True,
    json: JsonOption = None,
) -> None:
    """Simulate the log that a robot with its nominal parameters would give along a trajectory.

    Example: dynid simulate puma560 traj.csv --noise 0.1 --out log.csv
    """
    from dynid.cli import log_options, terminal
    from dynid.cli.output import recordings
    from dynid.logs.simulate import simulate as simulated

    inputs = [trajectory, Path(robot), *([sensor] if sensor else [])]
    log_options.check_output_files(out, json, suffixes=recordings.SUFFIXES, keep=inputs)
    loaded = log_options.with_force_plate(log_options.load_robot_from_options(robot, gravity, lock or [], snap), sensor)
    loaded = recordings.robot_with_joints_of_motion(trajectory, loaded)
    motion = recordings.read_motion(trajectory, loaded)
    if rate is not None:
        motion = recordings.resample_motion(motion, rate)
    if not plate and loaded.sensor is None:
        refuse_unused_options({"--plate-noise": plate_noise != "0"}, "no forces on the base are written; add --plate")
    deviations = parse_numbers(noise, "--noise", f"one number or {loaded.n}")
    channels = 6 if loaded.sensor is None else len(loaded.sensor.channels)
    forces = parse_numbers(plate_noise, "--plate-noise", f"one number or {channels}")
    log = simulated(
        loaded, motion, noise=deviations[0] if len(deviations) == 1 else deviations,
        plate_noise=forces[0] if len(forces) == 1 else forces, seed=seed,
    )  # fmt: skip
    screen, outputs = terminal.make_console(json), terminal.Outputs()
    with_plate = loaded if plate or loaded.sensor is not None else None
    outputs.write_file(out, lambda place: recordings.write_log(place, log, with_plate))
    outputs.write_json_file(json, lambda: recordings.simulation_json_data(log, loaded, deviations, seed, out))
    terminal.show_notes(loaded, screen)
    recordings.show_simulated_log(log, loaded, screen)
    outputs.show_written_files(screen, "nothing was written; --out log.csv keeps the log")
    outputs.finish(loaded.warnings)


def identify(
    robot: RobotArgument,
    logs: Annotated[
        list[str],
        typer.Argument(metavar="LOG...", help="recordings; log.csv@2.5:20 takes a part, a.csv+b.csv joins files"),
    ],
    *,
    model: Annotated[str, typer.Option(help="torque, power, energy, momentum, reaction or torque+reaction")] = "torque",
    window: Annotated[
        str | None, typer.Option(help="of energy and momentum, s (default: from the motion), or a list 0:0.5,0.5:1")
    ] = None,
    quadrature: Annotated[
        str, typer.Option(help="of energy and momentum: smooth (order 8), or trapezoid (order 2)")
    ] = "smooth",
    sensor: SensorOption = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="continue although the plate does not determine everything")
    ] = False,
    unknown: Annotated[str | None, typer.Option(help="lengths and angles that are unknown: r, d3, or symbols")] = None,
    friction: Annotated[str, typer.Option(help="auto, none, or blocks: viscous,coulomb,offset,...")] = "auto",
    rotor_inertia: Annotated[bool, typer.Option(help="identify the rotors' inertias Ia")] = True,
    estimator: Annotated[str, typer.Option(help="wls, ols, ridge, huber or recursive")] = "wls",
    cutoff: Annotated[float | None, typer.Option(help="cut-off frequency, Hz (default: automatic)")] = None,
    validate: Annotated[list[str] | None, typer.Option(help="other LOGs, or a share to hold out: 35%")] = None,
    joints: Annotated[str | None, typer.Option(help="joints whose torques to use: NAME,NAME,...")] = None,
    known: Annotated[list[str] | None, typer.Option(help="a parameter that is known: NAME=VALUE, repeatable")] = None,
    equal: Annotated[list[str] | None, typer.Option(help="two parameters that are equal: A=B, repeatable")] = None,
    offsets_per_log: Annotated[bool, typer.Option("--offsets-per-log", help="every log has its own offsets")] = False,
    friction_per_log: Annotated[
        bool, typer.Option("--friction-per-log", help="every log has its own friction, offsets included")
    ] = False,
    delay: Annotated[float, typer.Option(help="seconds by which torques were recorded after positions")] = 0.0,
    prefer: Annotated[
        str | None, typer.Option(help="base parameters to keep first: MX5,YY2; data: best conditioned along the log")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="CHANNEL=NAME[,NAME...]: where t, q, v, a, tau, q3 are; v= leaves v out")
    ] = None,
    units: Annotated[list[str] | None, typer.Option(help="units other than SI: q=deg,tau=Nmm")] = None,
    gear: Annotated[
        str | None, typer.Option(help="gear ratio, motor over joint: one number, one per joint, or a matrix FILE")
    ] = None,
    gain: Annotated[str | None, typer.Option(help="N m per A: one number, or one per joint")] = None,
    topic: Annotated[str | None, typer.Option(help="of a bag; several are joined: /a+/b")] = None,
    sign: SignOption = None,
    zero: ZeroOption = None,
    order: OrderOption = None,
    header: HeaderOption = None,
    rows: RowsOption = None,
    gravity: GravityOption = None,
    lock: LockOption = None,
    snap: SnapOption = True,
    diagnose: Annotated[bool, typer.Option("--diagnose", help="try other signs, order, gravity, zeros, ...")] = False,
    details: Annotated[
        bool, typer.Option("--details", help="everything: logs, all parameters, notes, what the data cannot show")
    ] = False,
    compare: Annotated[bool, typer.Option("--compare", help="all models and estimators side by side")] = False,
    every: Annotated[bool, typer.Option("--all", help="with --compare: show every parameter")] = False,
    physical: Annotated[
        Path | None, typer.Option("--physical", help="find bodies that fit, and save them to this .json")
    ] = None,
    urdf: Annotated[
        Path | None, typer.Option("--urdf", help="write the robot with these bodies (default: next to the log)")
    ] = None,
    total_mass: TotalMassOption = None,
    geometry: GeometryOption = None,
    bound: BoundOption = None,
    prior_weight: PriorWeightOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="with --urdf: write even a result that is not to be trusted")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", help="save the whole result to this .json")] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="write a page on the result, .html (default: next to the log)")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Identify the parameters of a robot from logs, with intervals, validation and a verdict.

    Example: dynid identify puma560 log.csv@0%:65% --validate log.csv@65%: --out result.json
    """
    from dynid.cli import log_options, terminal
    from dynid.cli.output import comparison, identification, inertial
    from dynid.cli.output import report as report_output
    from dynid.estimation.identification import diagnose as diagnosed
    from dynid.estimation.identify import identify as identified

    comparison.check_comparison_options(compare=compare, every=every, model=model, estimator=estimator, out=out)
    if compare and report is not None:
        raise DynidError(
            "option_not_applicable", "--report is about a single result", "save some with --out and compare them with "
            "dynid report",
        )  # fmt: skip
    if compare:
        beside = {
            "--physical": physical,
            "--urdf": urdf,
            "--unknown": unknown,
            "--partial": partial,
            "--sensor": sensor,
            "--diagnose": diagnose,
            "--details": details,
            "--prefer": prefer,
            "--quadrature": quadrature != "smooth",
        }
        refuse_unused_options(beside, "applies to a single result; leave it out with --compare")
    if "reaction" not in model:
        refuse_unused_options({"--sensor": sensor, "--partial": partial}, f"--model {model} uses no force plate")
    if urdf is None:
        refuse_unused_options({"--force": force}, "needs --urdf; leave it out")
    known_bodies = {
        "total_mass": total_mass, "geometry": geometry, "prior_weight": prior_weight,
        "bounds": inertial.parse_bounds(bound or []), "package_path": robot_file_options().get("package_path", ()),
    }  # fmt: skip
    if urdf is None and physical is None:
        refuse_unused_options(
            {"--total-mass": total_mass, "--geometry": geometry, "--bound": bound, "--prior-weight": prior_weight},
            "applies to bodies; add --physical or --urdf",
        )
    files = log_options.files_of_log_arguments((*logs, *(validate or ())))
    report, urdf = path_beside_log(report, files, "_report.html"), path_beside_log(urdf, files, "_identified.urdf")
    inputs = [*files, Path(robot), *([Path(gear)] if gear else []), *([sensor] if sensor else [])]
    log_options.check_output_files(out, json, suffixes=(".json",), keep=inputs)
    report_output.check_report_path(report, (out, json), inputs)
    inertial.check_output_paths(physical, urdf, [path for path in (out, json, report) if path], inputs)
    loaded = log_options.with_force_plate(log_options.load_robot_from_options(robot, gravity, lock or [], snap), sensor)
    screen, outputs = terminal.make_console(json), terminal.Outputs()
    wiring = {"sign": sign, "zero": zero, "order": order}
    reader = log_options.LogReader.from_options(
        loaded, column or [], units or [], gear, gain, topic, header=header, rows=rows, **wiring
    )
    options: dict[str, Any] = {
        "window": log_options.parse_window(window), "friction": log_options.parse_friction(friction),
        "rotor_inertia": rotor_inertia,
        "cutoff": cutoff, "delay": delay, "offsets_per_log": offsets_per_log,
        "friction_per_log": friction_per_log,
        "joints": None if joints is None else [name for name in joints.split(",") if name],
        "known": log_options.parse_known(known or []), "equal": log_options.parse_equal(equal or []),
    }  # fmt: skip
    held_out, read = log_options.parse_validation(validate or [], reader), [reader.read_log(word) for word in logs]
    loaded, whole = reader.robot_with_locks(), loaded
    if compare:
        comparison.run_comparison(loaded, read, held_out, options, screen, json=json, every=every)
        return
    with identification.show_progress(screen) as tell:
        result = identified(
            loaded, read, model=model, estimator=estimator, validate=held_out, partial=partial, on_progress=tell,
            unknown=None if unknown is None else [word.strip() for word in unknown.split(",") if word.strip()],
            prefer="data" if prefer == "data" else parse_names("--prefer", prefer) or None, quadrature=quadrature,
            **options,
        )  # fmt: skip
        if diagnose:
            result = result.with_diagnosis(diagnosed(result, on_progress=tell))
    held = [f"{name}={x!r}" for name, x in loaded.locks.items() if name not in whole.locks]
    result = report_output.record_command(result, robot, [*(lock or ()), *held], logs, out)
    outputs.write_file(out, result.save)
    bodies = inertial.PhysicalOutputs(result, outputs, physical, urdf, force=force, **known_bodies)
    bodies.write_files()
    found: list[Message] = []
    with identification.show_progress(screen) as tell:
        matrix = [Path(gear)] if gear is not None and Path(gear).is_file() else []
        outputs.write_file(report, lambda place: found.extend(report_output.write_identification_report(
            result, place, read, held_out, tell, physical=bodies.found, files=matrix, warnings=bodies.warnings
        )))  # fmt: skip
    warnings = list(dict.fromkeys((*result.warnings, *bodies.warnings, *found)))
    outputs.write_json_file(json, lambda: identification.identification_json_data(result) | {"warnings": warnings})
    identification.show_identification(result, screen, details=details)
    if diagnose and result.diagnosis is not None:
        screen.print(identification.diagnosis_table(result.diagnosis))
    bodies.show_bodies(screen, details=details)
    terminal.show_notes(loaded, screen)
    outputs.show_written_files(screen, "nothing was written")
    if out is None:
        terminal.print_line(screen, "--out result.json keeps the result for dynid physical, export and report")
    outputs.finish(warnings)


# The command `init`: a project file from a robot and its logs.


def init(
    robot: Annotated[
        str | None,
        typer.Argument(
            help="a robot file or name (default: the one in this folder)", autocompletion=complete_robot_name
        ),
    ] = None,
    logs: Annotated[
        list[str] | None, typer.Argument(metavar="[LOG]...", help="recordings (default: those in this folder)")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Write a project file dynid.toml from a robot and its logs: columns, units, rates, what to fit and to validate.

    Example: dynid init my_robot.urdf run1.csv run2.csv
    """
    from dynid.cli import project, terminal
    from dynid.storage.files import write_text

    out = Path(project.FILE)
    if out.exists() or out.is_symlink():
        raise DynidError(
            "file_exists", "{out}: this project file exists already", "edit it, or remove it first", out=out,
        )  # fmt: skip
    terminal.check_output_path("--out", out)
    terminal.check_output_path("--json", json)
    found = project.sketch_project(robot, logs or [], Path("."), load_robot_for_command)
    text = found.project_file_text()
    project.parse_project(out, text.encode())
    screen, outputs = terminal.make_console(json), terminal.Outputs()
    outputs.write_file(out, lambda place: write_text(place, text))
    outputs.write_json_file(json, found.facts)
    for line in found.summary_lines():
        terminal.print_line(screen, line)
    outputs.show_written_files(screen)
    outputs.finish(found.warnings)
