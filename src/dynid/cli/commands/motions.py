"""The commands `excite`, `view` and `markers`: parse, call, show."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.options import (
    HeaderOption,
    JsonOption,
    LockOption,
    OrderOption,
    RobotArgument,
    RowsOption,
    SignOption,
    ZeroOption,
    load_robot_for_command,
    parse_locks,
    parse_numbers,
    refuse_unused_options,
)
from dynid.errors import DynidError


def excite(
    robot: RobotArgument,
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", help=".csv with a ROS 2 .yaml next to it, .yaml, .json or .script (URScript); .html too"),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="samples per second of the files (default: 100; .script: the controller's)")
    ] = None,
    speed: Annotated[str, typer.Option(help="share of the designed speed, for a rehearsal: 25% or 0.25")] = "100%",
    shape: Annotated[str, typer.Option(help="fourier or points")] = "fourier",
    model: Annotated[str | None, typer.Option(help="torque, energy, momentum or reaction")] = None,
    criterion: Annotated[
        str | None, typer.Option(help="v (default of fourier), condition, frobenius, scaling, a, d, e, ...")
    ] = None,
    rotor_inertia: Annotated[
        bool | None, typer.Option(help="count the rotors' inertias Ia (default: yes for fourier)")
    ] = None,
    friction: Annotated[
        str | None, typer.Option(help="extra columns (default of fourier: viscous,coulomb,offset); '' for none")
    ] = None,
    task: Annotated[
        Path | None, typer.Option(help="a .csv of your own motion, whose torques are predicted (criterion v)")
    ] = None,
    position: Annotated[str | None, typer.Option(help="limit +- rad or m: one number, or one per joint")] = None,
    velocity: Annotated[str | None, typer.Option(help="limit in rad/s or m/s: one number, or one per joint")] = None,
    acceleration: Annotated[
        str | None, typer.Option(help="limit in rad/s^2 or m/s^2: one number, or one per joint")
    ] = None,
    jerk: Annotated[str | None, typer.Option(help="limit in rad/s^3 or m/s^3: one number, or one per joint")] = None,
    margin: Annotated[float, typer.Option(help="share of the limits to leave unused (effort excepted)")] = 0.05,
    rest: Annotated[
        str | None, typer.Option(help="posture to start from and return to: rad or m, one per joint")
    ] = None,
    duration: Annotated[float | None, typer.Option(help="period of the fourier shape in s")] = None,
    harmonics: Annotated[
        int | None, typer.Option(help="multiples of the base frequency (default: 8 for criterion v, else 5)")
    ] = None,
    periods: Annotated[int, typer.Option(help="how often the period is repeated")] = 1,
    points: Annotated[int | None, typer.Option(help="rows of the points shape")] = None,
    starts: Annotated[int | None, typer.Option(help="random starts")] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="address of a Dask scheduler whose workers run the starts: tcp://head:8786")
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option(help="standard deviation of the noise on every row (default: 1; criterion v: 1 % of each effort)"),
    ] = None,
    after: Annotated[Path | None, typer.Option(help="a result of identify; the motion complements its data")] = None,
    target: Annotated[
        str | None, typer.Option(help="what is to become known: names (M6,Fv3), payload or unidentifiable")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="of the random starts")] = 0,
    time_budget: Annotated[
        float | None,
        typer.Option(help="seconds of search; the best so far is kept (--pareto: of all designs, default 50)"),
    ] = None,
    floor: Annotated[float | None, typer.Option(help="height of the floor in frame 0, m")] = None,
    obstacles: Annotated[Path | None, typer.Option(help="a .toml of boxes, planes, meshes, tool and payload")] = None,
    clearance: Annotated[float, typer.Option(help="distance to keep from floor and obstacles, m")] = 0.0,
    tool_speed: Annotated[float | None, typer.Option(help="largest speed of the tool, m/s")] = None,
    weights: Annotated[
        str | None, typer.Option(help="of condition and scaling, for condition+scaling: l1,l2 or l1,l2,power")
    ] = None,
    pareto: Annotated[
        bool, typer.Option("--pareto", help="a table: the front of condition number against scaling")
    ] = False,
    bound: Annotated[
        bool, typer.Option("--bound", help="how good any motion inside the limits can be (criteria a, d, e, v)")
    ] = False,
    purpose: Annotated[
        str | None, typer.Option("--for", help="actuators: with chirps and steps, for dynid actuators")
    ] = None,
    lock: LockOption = None,
    json: JsonOption = None,
) -> None:
    """Design a motion that reveals the base parameters, valid at every instant.

    Example: dynid excite panda --out traj.csv
    """
    from dynid.cli import log_options, terminal
    from dynid.cli.output import motions
    from dynid.excitation.design import design_excitation, pareto_front
    from dynid.excitation.excitation import SUFFIXES, check_motion_file

    if pareto:
        refuse_unused_options(
            {
                "--out": out,
                "--criterion": criterion,
                "--weights": weights,
                "--bound": bound,
                "--target": target,
                "--for": purpose,
            },
            "--pareto compares designs; take the weights of one for --criterion condition+scaling --weights",
        )
    keep = [Path(robot), *(file for file in (task, after) if file is not None)]
    log_options.check_output_files(out, json, suffixes=SUFFIXES, keep=keep)
    if rate is not None and not 0.0 < rate < float("inf"):
        raise DynidError(
            "rate_not_positive", "--rate {rate:g}:", "give a positive number of samples per second", rate=rate,
        )  # fmt: skip
    share = motions.parse_speed(speed)
    if out is None:
        refuse_unused_options(
            {"--rate": rate, "--speed": share != 1.0}, "applies to the files of --out, which is missing"
        )
    loaded = load_robot_for_command(robot, lock=parse_locks(lock or []))
    if out is not None:
        check_motion_file(loaded, out, rate)
    posture = None if rest is None else parse_numbers(rest, "--rest", f"the {loaded.n} joint positions")
    limits = log_options.limits_from_options(loaded, position, velocity, acceleration, jerk)
    screen, outputs = terminal.make_console(json), terminal.Outputs()
    if out is not None and shape == "points":
        motions.require_acceleration_limits(loaded, limits)
    with motions.progress_bar(screen) as bar:
        progress = bar.add_task("designing the motion", total=1.0) if bar else None
        report = (lambda text, done: bar.update(progress, completed=done, description=text)) if bar else None
        design = partial(
            design_excitation, loaded, shape=shape, model=model, rotor_inertia=rotor_inertia, limits=limits,
            friction=None if friction is None else tuple(word for word in friction.split(",") if word),
            duration=duration, harmonics=harmonics, points=points, starts=starts, seed=seed,
            periods=periods, noise=noise, task=task, margin=margin, after=after, target=target,
            rest=posture, obstacles=obstacles, floor=floor, clearance=clearance, tool_speed=tool_speed,
            bound=bound, purpose=purpose, client=scheduler,
        )  # fmt: skip
        if pareto:
            front = pareto_front(design, time_budget=time_budget, on_progress=report)
        else:
            shares = (1.0, 0.0) if weights is None else tuple(parse_numbers(weights, "--weights", "l1,l2"))
            found = design(criterion=criterion, weights=shares, time_budget=time_budget, on_progress=report)
    if pareto:
        outputs.write_json_file(json, lambda: motions.front_json_data(loaded, front))
        terminal.show_notes(loaded, screen)
        screen.print(motions.front_table(loaded, front))
        outputs.finish(tuple(dict.fromkeys(said for point in front for said in point.excitation.warnings)))
        return
    for place, write in motions.excitation_output_files(found, out, rate, share) if out else ():
        outputs.write_file(place, write)
    outputs.write_json_file(json, lambda: motions.excitation_json_data(found, outputs.written, share))
    terminal.show_notes(loaded, screen)
    motions.show_before_run(found, out, screen)
    motions.show_excitation(found, screen)
    if out is not None and share < 1.0:
        motions.show_rehearsal(found, out, share, screen)
    outputs.show_written_files(screen)
    outputs.finish(found.warnings)


# The command `view`: parse, call, show.


def view(
    robot: RobotArgument,
    trajectory: Annotated[
        Path | None, typer.Argument(help="a motion or a log; without one, a slider per joint")
    ] = None,
    *,
    port: Annotated[int, typer.Option(help="of the page on this machine; 0 takes any that is free")] = 8080,
    browser: Annotated[bool, typer.Option(help="open the page in the browser")] = True,
    seconds: Annotated[float | None, typer.Option(help="stop after this time (default: Ctrl-C)")] = None,
    column: Annotated[list[str] | None, typer.Option(help="CHANNEL=NAME[,NAME...], as for identify")] = None,
    sign: SignOption = None,
    zero: ZeroOption = None,
    order: OrderOption = None,
    header: HeaderOption = None,
    rows: RowsOption = None,
    result: Annotated[
        Path | None, typer.Option(help="a result of identify: torques and residuals of the log along the time")
    ] = None,
    obstacles: Annotated[Path | None, typer.Option(help="a .toml of a cell, as for excite, to show around it")] = None,
    floor: Annotated[float | None, typer.Option(help="height of the floor in frame 0, m, as for excite")] = None,
    lock: LockOption = None,
    json: JsonOption = None,
) -> None:
    """Show a robot in the browser, moving along a trajectory: shapes of its file, or a skeleton with axes and frames.

    With --result, the joints are coloured by their residuals, and their torques are drawn beside them.

    Example: dynid view panda log.csv --result result.json
    """
    from dynid.cli import log_options, terminal
    from dynid.cli.output import motions
    from dynid.viewer.server import check_viewer_installed, run_viewer

    check_viewer_installed()
    inputs = [path for path in (trajectory, result, obstacles) if path is not None]
    terminal.check_output_path("--json", json, keep=[Path(robot), *inputs])
    if seconds is not None and not seconds > 0.0:
        raise DynidError("duration_not_positive", "--seconds {seconds:g}:", "give a positive time", seconds=seconds)
    if trajectory is None or trajectory.suffix.lower() in (".json", ".yaml", ".yml", ".script"):
        reading = {
            "--column": column, "--sign": sign, "--zero": zero, "--order": order, "--header": header, "--rows": rows,
        }  # fmt: skip
        refuse_unused_options(reading, "says how to read a log, but none is given")
        refuse_unused_options({"--result": result}, "needs the log of its torques")
    loaded = load_robot_for_command(robot, lock=parse_locks(lock or []))
    reader = log_options.LogReader.from_options(
        loaded, column or (), (), None, None, None, sign=sign, zero=zero, order=order, header=header, rows=rows
    )
    path = None
    if trajectory is not None:
        loaded = motions.robot_with_joints_of_path(trajectory, loaded, reader)
        path = motions.read_joint_path(trajectory, loaded, reader)
    torques = None
    if result is not None and trajectory is not None and path is not None:
        torques = motions.read_torque_traces(result, trajectory, loaded, reader, path)
    shapes, notes = motions.read_robot_shapes(robot, loaded)
    cell, ground = motions.read_cell_shapes(obstacles, floor, loaded)
    shapes += cell
    screen = terminal.make_console(json)
    terminal.show_notes(loaded, screen)
    motions.show_shape_notes(notes, screen)

    def on_start(address: str) -> None:
        if json:
            terminal.write_json(json, motions.view_json_data(loaded, path, shapes, notes, address, torques))
        motions.open_in_browser(address, screen, browser=browser)

    run_viewer(
        loaded, path, shapes, port=port, seconds=seconds, on_start=on_start, torques=torques, floor=ground,
    )  # fmt: skip


# The command `markers`: parse, call, show.


def markers(
    robot: RobotArgument,
    file: Annotated[Path, typer.Argument(help="CSV: t, and NAME_x NAME_y NAME_z per marker, empty where hidden")],
    *,
    marker: Annotated[list[str] | None, typer.Option(help="NAME=LINK (or joint) that carries it, repeatable")] = None,
    start: Annotated[str, typer.Option(help="joint positions at the beginning: rad or m, one per joint")] = "",
    still: Annotated[
        float, typer.Option(help="seconds for which the robot holds this posture; longer is better")
    ] = 0.0,
    unit: Annotated[str, typer.Option(help="of the markers' positions, or of cameras' matrices: m, cm or mm")] = "m",
    cameras: Annotated[
        Path | None, typer.Option(help="a .toml of cameras: FILE has image points CAMERA.NAME.u, CAMERA.NAME.v in px")
    ] = None,
    refine_camera: Annotated[bool, typer.Option("--refine-camera", help="adjust the camera's pose too")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="the log to write, .csv; other columns are copied")] = None,
    lock: LockOption = None,
    json: JsonOption = None,
) -> None:
    """Find joint positions from markers on the links, seen in frame 0 by cameras.

    Example: dynid markers puma562 seen.csv --marker a=1 --marker b=2 --marker c=3 --start 0,0,0 --still 1 --out log.csv
    """
    from dynid.cli import log_options, terminal
    from dynid.cli.output import recordings
    from dynid.logs.markers import angles_from_markers

    log_options.check_output_files(
        out, json, suffixes=recordings.MARKER_SUFFIXES, keep=[file, Path(robot), *([cameras] if cameras else [])]
    )
    loaded = load_robot_for_command(robot, lock=parse_locks(lock or []))
    posture = parse_numbers(start, "--start", f"the {loaded.n} joint positions at the beginning")
    read = recordings.read_markers(file, marker or [], unit, cameras)
    at = recordings.still_frame_range(read.t, still)
    fit = angles_from_markers(
        loaded, read.t, read.positions if read.triangulation is None else read.triangulation, read.links,
        start=posture, at=at, refine_camera=refine_camera,
    )  # fmt: skip
    screen, outputs = terminal.make_console(json), terminal.Outputs()
    outputs.write_file(out, lambda place: recordings.write_marker_log(place, fit, read.others))
    outputs.write_json_file(json, lambda: recordings.marker_json_data(fit, loaded, read))
    terminal.show_notes(loaded, screen)
    recordings.show_marker_fit(fit, loaded, read, screen)
    outputs.show_written_files(screen, "nothing was written; --out log.csv keeps the log")
    outputs.finish(fit.warnings)
