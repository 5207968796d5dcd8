"""An exciting motion as a person sees it in the terminal, and as machines read it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynid.cli.log_options import LogReader
from dynid.cli.output.recordings import read_motion, read_script_positions, robot_with_joints_of_motion
from dynid.cli.terminal import escape_markup, print_line, show_note
from dynid.errors import FIX_THE_BASE, DynidError, LogError
from dynid.estimation.identification import Identification
from dynid.excitation.cell import MJCF, read_cell, robot_solids
from dynid.excitation.design import ParetoPoint
from dynid.excitation.excitation import Excitation, find_limits
from dynid.messages import Message
from dynid.report.excitation import (
    LIMITED,
    before_run_lines,
    bound_text,
    margin_text,
    nominal_base_values,
    write_page,
)
from dynid.report.replay import replay_logs
from dynid.robot.robot import Robot
from dynid.viewer.scene import LINK, Shape, read_shapes, shape_of_plane, shape_of_solid
from dynid.viewer.server import JointPath, TorqueTraces, make_joint_path

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WORST = 10


def progress_bar(screen: Console) -> AbstractContextManager[Any]:
    """Context with a progress bar in a terminal, nothing when piped."""
    if not screen.is_terminal:
        return nullcontext(None)
    from rich.progress import Progress

    return Progress(console=screen, transient=True)


def require_acceleration_limits(robot: Robot, limits: Mapping[str, object] | None) -> None:
    """Raise, before the search, for a motion through points without acceleration limits."""
    if not np.isfinite(find_limits(robot, limits).acceleration).all():
        raise DynidError(
            "missing_acceleration_limits", "a motion through points needs acceleration limits", "give --acceleration",
        )  # fmt: skip


def show_before_run(excitation: Excitation, out: Path | None, screen: Console) -> None:
    """Print the box of what to know before the motion is run."""
    from rich.panel import Panel
    from rich.table import Table

    known = excitation.before_run
    if known is None:
        return
    grid, last = Table.grid(padding=(0, 2)), ""
    grid.add_column(no_wrap=True, style="bold")
    grid.add_column()
    for name, said in before_run_lines(known, excitation, out):
        grid.add_row("" if name == last else escape_markup(name), escape_markup(said))
        last = name
    screen.print(Panel(grid, title="before you run it", title_align="left", highlight=False))


def show_excitation(excitation: Excitation, screen: Console) -> None:
    """Print the figures, the use of limits, and the errors to expect."""
    screen.print(
        f"{excitation.robot.name}: condition {excitation.condition:.4g} of {len(excitation.rows.names)} base columns "
        f"({excitation.rows.model} model), scaling {excitation.scaling:.3g}, {_duration_text(excitation)}",
        style="bold",
        highlight=False,
    )
    if excitation.criterion == "v":
        first, value = (100 * math.sqrt(x) for x in (excitation.first_value, excitation.value))
        size = "limits" if np.isfinite(excitation.limits.effort).all() else "usual size"
        screen.print(
            f"criterion v: torques predicted to {value:.3g} % of their {size} (root mean square), {first:.3g} % for a "
            "random motion",
            highlight=False,
        )
    elif math.isfinite(excitation.value):
        screen.print(
            f"criterion {excitation.criterion}: {excitation.first_value:.4g} for a random motion, "
            f"{excitation.value:.4g} now",
            highlight=False,
        )
    if (said := bound_text(excitation)) is not None:
        screen.print(said, highlight=False)
    screen.print(limit_use_table(excitation))
    if excitation.effort is None and np.isfinite(excitation.limits.effort).any():
        screen.print("effort limits are not checked: the robot file has no values for all parameters that matter")
    screen.print(expected_errors_table(excitation) if excitation.information is None else target_table(excitation))
    screen.print(
        f"{margin_text(excitation)}; the limits hold at every instant, proven by roots",
        highlight=False,
        markup=False,
    )


def _duration_text(excitation: Excitation) -> str:
    """Text on the duration of the motion, or that there is none."""
    return f"{excitation.duration:.1f} s" if math.isfinite(excitation.duration) else "points without a motion"


def limit_use_table(excitation: Excitation) -> Table:
    """Table of peak over limit of every joint."""
    from rich.table import Table

    kinds = LIMITED if np.isfinite(excitation.limits.jerk).any() else LIMITED[:3]
    table = Table("joint", *kinds, "effort", box=None, title="peak over limit")
    effort = None
    if excitation.effort is not None:
        effort = excitation.effort.use_of_limits(excitation.motion(200.0))
    for j, (name, use) in enumerate(zip(excitation.robot.joint_names, excitation.use, strict=True)):
        shown = [f"{100 * u:.1f} %" if u > 0.0 else "-" for u in use[: len(kinds)]]
        table.add_row(escape_markup(name), *shown, "-" if effort is None else f"{100 * effort[j]:.1f} %")
    return table


def expected_errors_table(excitation: Excitation) -> Table:
    """Table of the largest expected deviations; relative where the robot file knows the values."""
    from rich.table import Table

    errors, values = excitation.expected, nominal_base_values(excitation)
    shown = min(WORST, len(errors))
    noise = ", ".join(f"{sigma:.3g}" for sigma in dict.fromkeys(excitation.assumed_noise))
    title = f"expected standard deviation for noise {noise} on the rows of one period, the {shown} largest"
    table = Table("parameter", "deviation", "relative", box=None, title=title)
    ranked = sorted(errors, key=lambda name: -(errors[name] / abs(values[name]) if values.get(name) else errors[name]))
    for name in ranked[:WORST]:
        relative = f"{100 * errors[name] / abs(values[name]):.3g} %" if values.get(name) else "unknown value"
        table.add_row(escape_markup(name), f"{errors[name]:.3g}", relative)
    return table


def target_table(excitation: Excitation) -> Table:
    """Table of the targeted parameters: standard deviations now, and expected with a log of this motion."""
    from rich.table import Table

    rows = [(name, now, then, then / now) for name, (now, then) in excitation.targets.items()]
    shown = "the targets" if len(rows) <= WORST else f"{WORST} of {len(rows)} targets"
    table = Table("parameter", "now", "expected", "ratio", box=None, title=f"standard deviations of {shown}")
    for name, *figures in sorted(rows, key=lambda row: -row[3] if math.isfinite(row[3]) else -math.inf)[:WORST]:
        table.add_row(escape_markup(name), *(f"{x:.3g}" if math.isfinite(x) else "-" for x in figures))
    return table


def front_table(robot: Robot, front: Sequence[ParetoPoint]) -> Table:
    """Table of designs of which none is better in condition number and scaling, with the weights that gave them."""
    from rich.table import Table

    title = f"{escape_markup(robot.name)}: condition number against scaling, none is better in both"
    table = Table("condition", "scaling", "duration", "--weights", box=None, title=title)
    for point in front:
        e = point.excitation
        shares = ",".join(f"{x:.6g}" for x in point.weights)
        table.add_row(f"{e.condition:.4g}", f"{e.scaling:.4g}", _duration_text(e), shares)
    return table


def front_json_data(robot: Robot, front: Sequence[ParetoPoint]) -> dict[str, object]:
    """Data of the front for `--json`."""
    points = [
        {"condition": p.excitation.condition, "scaling": p.excitation.scaling, "weights": list(p.weights)}
        for p in front
    ]
    return {"robot": robot.name, "front": points}


def parse_speed(text: str) -> float:
    """Parse --speed: a share of the designed speed, `25%` or `0.25`."""
    try:
        speed = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        speed = math.nan
    if not 0.0 < speed <= 1.0:
        raise DynidError(
            "speed_out_of_range", "--speed {text}:", "give a share of the designed speed, such as 25% or 0.25",
            text=text,
        )  # fmt: skip
    return speed


def excitation_output_files(
    excitation: Excitation, out: Path, rate: float | None, speed: float
) -> list[tuple[Path, Callable[[Path], object]]]:
    """Files to write with their writers: the motion, with a ROS goal beside a CSV, and a page.

    A rehearsal takes the name that was given, so that nobody runs it fast by mistake; the motion at full speed goes
    beside it.
    """
    places = [out, out.with_suffix(".yaml")] if out.suffix.lower() == ".csv" else [out]
    files: list[tuple[Path, Callable[[Path], object]]] = [
        (place, partial(excitation.save, rate=rate, speed=speed)) for place in places
    ]
    if speed < 1.0:
        fast = [place.with_stem(f"{place.stem}_full_speed") for place in places]
        files += [(place, partial(excitation.save, rate=rate)) for place in fast]
    return [*files, (out.with_suffix(".html"), partial(write_page, excitation))]


def show_rehearsal(excitation: Excitation, out: Path, speed: float, screen: Console) -> None:
    """Print what a rehearsal is for, and where the motion at full speed is."""
    print_line(
        screen,
        f"rehearsal: {out.name} follows the same path at {100.0 * speed:.4g} % of the speed, in "
        f"{excitation.duration / speed:.1f} s. It is for watching: friction and inertias are identified poorly from "
        f"it. The motion to identify from is {out.stem}_full_speed{out.suffix}.",
    )


def excitation_json_data(excitation: Excitation, files: Sequence[str], speed: float) -> dict[str, object]:
    """Data of the designed motion for `--json`; noise: one number, or a list of one per channel where they differ."""
    noise = excitation.assumed_noise
    return {
        "robot": excitation.robot.name,
        "model": excitation.rows.model,
        "criterion": excitation.criterion,
        "value": excitation.value,
        "bound": excitation.bound,
        "bound_is_proven": excitation.bound_is_proven,
        "duality_gap": None if excitation.least is None else excitation.least.gap,
        "excess_over_bound": excitation.excess_over_bound,
        "condition": excitation.condition,
        "scaling": excitation.scaling,
        "margin": excitation.margin,
        "duration": excitation.duration,
        "speed": speed,
        "use": {
            name: dict(zip(LIMITED, map(float, use), strict=True))
            for name, use in zip(excitation.robot.joint_names, excitation.use, strict=True)
        },
        "before_run": None if excitation.before_run is None else excitation.before_run.facts(),
        "noise": float(noise[0]) if (noise == noise[0]).all() else noise.tolist(),
        "expected_errors": excitation.expected,
        "targets": {
            name: {"now": now if math.isfinite(now) else None, "expected": then if math.isfinite(then) else None}
            for name, (now, then) in excitation.targets.items()
        },
        "warnings": list(excitation.warnings),
        "files": list(files),
        "history": None if excitation.history is None else excitation.history.facts(),
    }


# What the viewer shows, read from files, and what a person is told about it.


WALL = 1.0
"""Half edge of the square that is drawn of a plane, m."""
SHOWN = 5
"""Notes that are printed at most."""


def robot_with_joints_of_path(file: Path, robot: Robot, reader: LogReader) -> Robot:
    """Robot without the joints that a motion or log does not have."""
    if file.suffix.lower() in (".json", ".yaml", ".yml", ".script"):
        return robot_with_joints_of_motion(file, robot)
    reader.read_log(str(file))
    return reader.robot_with_locks()


def read_joint_path(file: Path, robot: Robot, reader: LogReader) -> JointPath:
    """Read positions over time: a motion as `dynid simulate` takes it, or a log, which needs no velocities."""
    if robot.floating:
        raise DynidError(
            "floating_base", "'{robot}' floats; a moving base is not shown", "{fix}", robot=robot.name,
            fix=FIX_THE_BASE,
        )  # fmt: skip
    if file.suffix.lower() in (".json", ".yaml", ".yml"):
        motion = read_motion(file, robot)
        return make_joint_path(robot, motion.t, motion.q)
    if file.suffix.lower() == ".script":
        return make_joint_path(robot, *read_script_positions(file, robot))
    log = reader.read_log(str(file))
    try:
        return make_joint_path(robot, log.t, log.q)
    except DynidError as error:
        raise LogError(log.name, error.message) from error


def read_robot_shapes(source: str, robot: Robot) -> tuple[list[Shape], list[Message]]:
    """Read the shapes of a URDF or MJCF, and notes on those that are not drawn; none for other robots."""
    file = Path(source)
    if not file.is_file():
        return [], []
    if file.suffix.lower() in (".urdf", ".xacro"):
        return read_shapes(file, robot, robot.locks)
    own = robot_solids(robot, robot.limits)
    if own.kind == MJCF:
        return [shape_of_solid(solid, LINK) for solid in own.solids], []
    return [], [] if own.unread is None else [own.unread]


def read_cell_shapes(obstacles: Path | None, floor: float | None, robot: Robot) -> tuple[list[Shape], float | None]:
    """Read planes and solids of a cell, tool and payload, as shapes, and the height of its floor; no workspace."""
    cell = read_cell(robot, obstacles, floor=floor)
    if cell is None:
        return [], None
    walls = [shape_of_plane(plane, WALL) for plane in cell.planes if not plane.is_workspace]
    return [*walls, *(shape_of_solid(solid) for solid in (*cell.obstacles, *cell.attached))], cell.floor


def read_torque_traces(result: Path, file: Path, robot: Robot, reader: LogReader, path: JointPath) -> TorqueTraces:
    """Read a result, and predict the torques of a log by it, on the times of its path."""
    found = Identification.load(result)
    if found.robot.joint_names != robot.joint_names:
        raise DynidError(
            "result_of_other_robot", "{file}: this result is of '{other}' with joints {others}, not of '{robot}' with "
            "{joints}", file=result, other=found.robot.name, others=found.robot.joint_names, robot=robot.name,
            joints=robot.joint_names,
        )  # fmt: skip
    if found.model not in ("torque", "torque+reaction"):
        raise DynidError(
            "result_without_torques", "{file}: this result has no joint torques (model '{model}')", "give one of "
            "--model torque", file=result, model=found.model,
        )  # fmt: skip
    log = reader.read_log(str(file))
    (replay,) = replay_logs(found, [log], fitted=False)
    start = float(log.t[np.isfinite(log.t) & np.isfinite(log.q).all(axis=1)][0])
    measured, predicted = (np.full((len(path.t), robot.n), np.nan) for _ in range(2))
    rmse = np.full(robot.n, np.nan)
    for c, j in enumerate(channel.joint for channel in found.equation.torque_channels):  # the first of all channels
        rmse[j] = replay.rmse[c]
        for kind, block in ((0, measured), (1, predicted)):
            t, x = replay.curve_of_channel(kind, c)
            block[:, j] = np.interp(path.t, t[np.isfinite(t)] - start, x[np.isfinite(t)], left=np.nan, right=np.nan)
    return TorqueTraces(path.t, measured, predicted, rmse)


def show_shape_notes(notes: Sequence[Message], screen: Console) -> None:
    """Print why meshes are not drawn."""
    for note in notes[:SHOWN]:
        show_note(note, screen)
    if len(notes) > SHOWN:
        screen.print(f"note: {len(notes) - SHOWN} more shapes are not drawn, for similar reasons", highlight=False)


def view_json_data(
    robot: Robot,
    path: JointPath | None,
    shapes: Sequence[Shape],
    notes: Sequence[Message],
    address: str,
    torques: TorqueTraces | None = None,
) -> dict[str, object]:
    """Data on what the viewer shows, for `--json`."""
    return {
        "robot": robot.name,
        "address": address,
        "joints": list(robot.joint_names),
        "duration": None if path is None else path.duration,
        "shapes": len(shapes),
        "residuals": None if torques is None else torques.rmse.tolist(),
        "notes": list(notes),
    }


def open_in_browser(address: str, screen: Console, *, browser: bool) -> None:
    """Print the address of the viewer, and open it in the browser where asked for."""
    import sys
    import webbrowser

    screen.print(f"look at {address} (Ctrl-C stops)", highlight=False)
    sys.stdout.flush()
    if browser:
        webbrowser.open(address)
