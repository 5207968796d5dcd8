"""A motion file in, a simulated log out: reading, writing, and what a person sees."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynid.cli.terminal import escape_markup
from dynid.concurrency import NEEDS_SPAWN, is_polars_without_threads
from dynid.errors import DynidError, LogError, MotionError
from dynid.excitation.excitation import MOST, SCRIPT_STEP
from dynid.excitation.quintics import Quintics
from dynid.logs.cameras import Camera, Triangulation, read_cameras, triangulate
from dynid.logs.column_names import reaction_channels
from dynid.logs.log import Log
from dynid.logs.markers import MarkerFit
from dynid.logs.read import read_log, robot_with_locks_of
from dynid.messages import Message
from dynid.robot.load import hold_missing_joints, may_be_locked_unseen
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.storage.files import write_text, write_then_replace
from dynid.storage.records import read_text

if TYPE_CHECKING:
    from rich.console import Console

SUFFIXES = (".csv", ".parquet", ".npz")

_KEYS = {"positions": "q", "velocities": "v", "accelerations": "a"}
_YAML_FORM = Message("unknown_yaml", "this is not the YAML that dynid excite writes", "use its .csv or .json")


def robot_with_joints_of_motion(path: Path, robot: Robot) -> Robot:
    """Robot with the joints held at 0 that a motion does not have."""
    if path.suffix.lower() == ".script":
        return robot
    if path.suffix.lower() not in (".json", ".yaml", ".yml"):
        return robot_with_locks_of(robot, [read_log(path, robot)])
    data = _read_trajectory_file(path)
    given = data.get("joint_names") if isinstance(data, Mapping) else None
    missing = [joint for joint in robot.joint_names if joint not in given] if isinstance(given, list) else []
    fits = len(missing) < robot.n and may_be_locked_unseen(robot, missing)
    return hold_missing_joints(robot, dict.fromkeys(missing, 0.0), ()) if fits else robot


def read_script_positions(path: Path, robot: Robot) -> tuple[Array, Array]:
    """Read times (N,) and positions (N, 6) from the URScript that `dynid excite` writes; LogError for others."""
    text = _read_text(path)
    rows = re.findall(rf"^ *{SCRIPT_STEP}\(\[([-+.\d,]*)\]\)$", text, re.MULTILINE)
    step = re.search(r"\bt=(\d[\d.]*)", text)
    try:
        q = np.array([[float(x) for x in row.split(",")] for row in rows])
        t = np.arange(float(len(q))) * float(step[1] if step else 0.0)
    except ValueError:
        q = np.zeros(0)
    if q.ndim != 2 or len(q) < 2 or not t[1] > 0.0:
        raise LogError(
            str(path), "unknown_script", "this is not the URScript that dynid excite writes", "use its .csv or .yaml",
        )  # fmt: skip
    if q.shape[1] != robot.n:
        raise LogError(
            str(path), "joint_count_mismatch", "the script moves {count} joints; '{name}' has {n}", count=q.shape[1],
            name=robot.name, n=robot.n,
        )  # fmt: skip
    return t, q


def _read_trajectory_file(path: Path) -> Any:
    """Read the data of a JointTrajectory, or of the one in a FollowJointTrajectory goal, from .json or .yaml."""
    data = _parse_trajectory_text(str(path), _read_text(path), path.suffix.lower())
    return data["trajectory"] if isinstance(data, Mapping) and "trajectory" in data else data


def _read_text(path: Path) -> str:
    """Read the text of a file."""
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LogError(str(path), "file_unreadable", "cannot be read: {reason}", reason=reason) from error


def read_motion(path: Path, robot: Robot) -> Motion:
    """Read a motion t, q, v, a: a JointTrajectory as .json or .yaml, else columns matched as those of a log."""
    if path.suffix.lower() in (".json", ".yaml", ".yml"):
        arrays = _arrays_of_trajectory(str(path), _read_trajectory_file(path), robot)
    elif path.suffix.lower() == ".script":
        raise LogError(
            str(path), "missing_derivatives", "a motion needs velocities and accelerations, which URScript does not "
            "have", "use the .csv or .yaml of dynid excite",
        )  # fmt: skip
    else:
        log = read_log(path, robot)
        missing = [what for key, what in (("v", "velocities"), ("a", "accelerations")) if key not in log.channels]
        if missing:
            raise LogError(
                str(path), "missing_derivatives", "a motion needs {missing} (columns v1.., a1..)",
                "dynid excite --out writes them", missing=' and '.join(missing),
            )  # fmt: skip
        assert log.v is not None and log.a is not None  # noqa: PT018
        arrays = log.t, log.q, log.v, log.a
    try:
        return Motion(*arrays)
    except MotionError as error:
        raise LogError(str(path), error.message) from error


def _parse_trajectory_text(name: str, text: str, suffix: str) -> Any:
    """Data of a trajectory file in JSON or YAML."""
    if suffix != ".json":
        return _parse_yaml(name, text)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LogError(name, "not_json", "this is not JSON: {error}", error=error) from error


def _parse_yaml(name: str, text: str) -> dict[str, Any]:
    """Parse the YAML that `dynid excite` writes: one key per line, lists of numbers in brackets."""
    names: list[str] = []
    points: list[dict[str, Any]] = []
    for line in text.splitlines():
        word = line.strip()
        try:
            if word.startswith('- "'):
                names.append(json.loads(word[2:]))
            elif word.startswith("- {"):
                points.append(json.loads(word[2:]))
            elif word.startswith("joint_names: ["):
                names = json.loads(word[13:])
            elif match := re.fullmatch(r"(- )?(\w+): (\[.*\])", word):
                if match[1]:
                    points.append({})
                points[-1][match[2]] = json.loads(match[3])
            elif match := re.fullmatch(r"time_from_start: \{sec: (\d+), nanosec: (\d+)\}", word):
                points[-1]["time_from_start"] = {"sec": int(match[1]), "nanosec": int(match[2])}
            elif word not in ("", "trajectory:", "joint_names:", "points:") and not word.startswith("#"):
                raise LogError(name, _YAML_FORM)
        except (ValueError, IndexError) as error:
            raise LogError(name, _YAML_FORM) from error
    return {"joint_names": names, "points": points}


def _arrays_of_trajectory(name: str, data: Any, robot: Robot) -> tuple[Array, Array, Array, Array]:
    """Arrays of a trajectory_msgs/JointTrajectory, its joints brought into the robot's order."""
    lists = isinstance(data, Mapping) and all(isinstance(data.get(key), list) for key in ("joint_names", "points"))
    if not lists or not data["points"]:
        raise LogError(name, "not_joint_trajectory", "this is not a JointTrajectory: it needs joint_names and points")
    given = [str(joint) for joint in data["joint_names"]]
    missing = [joint for joint in robot.joint_names if joint not in given]
    if missing or len(given) != robot.n:
        raise LogError(
            name, "joint_names_mismatch", "its joints are {given}; '{name}' has {joint_names}", given=list(given),
            name=robot.name, joint_names=list(robot.joint_names),
        )  # fmt: skip
    order = [given.index(joint) for joint in robot.joint_names]
    rows: dict[str, list[list[float]]] = {"q": [], "v": [], "a": []}
    times = []
    for k, point in enumerate(data["points"]):
        try:
            for key, letter in _KEYS.items():
                values = [float(x) for x in point[key]]
                if len(values) != robot.n:
                    raise LogError(
                        name, "joint_count_mismatch", "point {k} has {count} {key} for {n} joints", k=k,
                        count=len(values), key=key, n=robot.n,
                    )  # fmt: skip
                rows[letter].append([values[j] for j in order])
            stamp = point["time_from_start"]
            times.append(float(stamp["sec"]) + 1e-9 * float(stamp["nanosec"]))
        except KeyError as error:
            raise LogError(
                name, "trajectory_point_incomplete", "point {k} has no {missing}; a motion needs all of {keys}", k=k,
                missing=error.args[0], keys=list(_KEYS),
            ) from None  # fmt: skip
        except (TypeError, ValueError, OverflowError) as error:
            raise LogError(
                name, "values_not_numeric", "point {k} is not made of numbers: {error}", k=k, error=error,
            ) from error  # fmt: skip
    return np.array(times), *(np.array(rows[letter]) for letter in "qva")  # type: ignore[return-value]


def resample_motion(motion: Motion, rate: float) -> Motion:
    """Resample a motion by the quintics through its positions, velocities and accelerations."""
    if not (math.isfinite(rate) and rate > 0.0):
        raise DynidError(
            "rate_not_positive", "--rate {rate:g}:", "give a positive number of samples per second", rate=rate,
        )  # fmt: skip
    length = float(motion.t[-1] - motion.t[0])
    samples = length * rate + 1.0 + 1e-6
    if not 2.0 <= samples <= MOST:
        raise DynidError(
            "too_many_samples", "--rate {rate:g}: the motion of {length:.6g} s would have {count:.7g} samples",
            rate=rate, length=length, count=float(np.floor(samples)),
        )  # fmt: skip
    count = int(samples)
    t = np.minimum(np.arange(count) / rate, length)
    part = Quintics(np.diff(motion.t), motion.q, motion.v, motion.a).sample(t)
    return Motion(motion.t[0] + np.arange(count) / rate, part.q, part.v, part.a)


def show_simulated_log(log: Log, robot: Robot, screen: Console) -> None:
    """Print what was simulated: samples, noise, and torques per joint."""
    from rich.table import Table

    first, last = log.span
    screen.print(
        f"{escape_markup(robot.name)}: {len(log)} samples over {last - first:.6g} s, torques of the nominal parameters",
        style="bold",
        highlight=False,
    )
    table = Table("joint", "torque, rms", "torque, peak", "unit", box=None)
    for j, name in enumerate(robot.joint_names):
        rms, peak = _rms_and_peak_torques(log)[j]
        turns = robot.links[robot.active_links[j]].kind == "revolute"
        table.add_row(escape_markup(name), f"{rms:.4g}", f"{peak:.4g}", "N m" if turns else "N")
    screen.print(table)


def _rms_and_peak_torques(log: Log) -> list[tuple[float, float]]:
    """Root mean square and largest torque of every joint."""
    assert log.tau is not None
    return [(float(np.sqrt((x**2).mean())), float(np.abs(x).max())) for x in log.tau.T]


def simulation_json_data(
    log: Log, robot: Robot, noise: Sequence[float], seed: int, out: Path | None
) -> dict[str, object]:
    """Data of the simulated log for `--json`."""
    first, last = log.span
    return {
        "robot": robot.name,
        "joints": list(robot.joint_names),
        "samples": len(log),
        "duration": last - first,
        "rms": [rms for rms, _ in _rms_and_peak_torques(log)],
        "peak": [peak for _, peak in _rms_and_peak_torques(log)],
        "noise": list(noise),
        "seed": seed,
        "file": str(out) if out else None,
    }


def write_log(path: Path, log: Log, plate: Robot | None = None) -> None:
    """Write t, q1.., v1.., a1.., tau1.. by suffix to a temporary file, then rename it: never half-written.

    plate: the robot whose force plate's channels are written, too.
    """
    assert log.v is not None
    assert log.a is not None
    assert log.tau is not None
    columns = {"t": log.t}
    for letter, block in (("q", log.q), ("v", log.v), ("a", log.a), ("tau", log.tau)):
        columns |= {f"{letter}{j + 1}": block[:, j] for j in range(block.shape[1])}
    if plate is not None and log.reaction is not None:
        columns |= dict(zip(reaction_channels(plate), log.reaction.T, strict=True))
    with write_then_replace(path) as beside:
        _write_columns(beside, columns)


def _write_columns(path: Path, columns: Mapping[str, Array]) -> None:
    """Write named columns as NPZ, Parquet or CSV, by the suffix."""
    if path.suffix.lower() == ".npz":
        with path.open("wb") as file:  # given a name, NumPy would add .npz to one in capitals
            np.savez(file, **columns)  # type: ignore[arg-type]
        return
    import polars as pl

    if is_polars_without_threads():
        raise DynidError(NEEDS_SPAWN.about(str(path)))
    frame = pl.DataFrame(dict(columns))
    if path.suffix.lower() == ".parquet":
        try:
            frame.write_parquet(path)
        except pl.exceptions.ComputeError as error:  # such as a full disk
            raise OSError(str(error)) from error
    else:
        frame.write_csv(path)


# Marker files in, logs of joint positions out: the command `markers`.


MARKER_SUFFIXES = (".csv",)
TIMES = ("t", "time", "timestamp")
LENGTHS = {"m": 1.0, "cm": 1e-2, "mm": 1e-3}


@dataclass(frozen=True, slots=True, eq=False)
class MarkerFile:
    """t (N,) in s, positions (N, m, 3) in m of the markers in question, links (m,), and all other columns."""

    t: Array
    positions: Array
    names: tuple[str, ...]
    links: tuple[str, ...]
    others: dict[str, Array]
    triangulation: Triangulation | None = None
    """Where the file has image points of cameras."""


def read_markers(path: Path, markers: Sequence[str], unit: str, cameras: Path | None = None) -> MarkerFile:
    """Read a CSV with a time and the columns NAME_x, NAME_y, NAME_z of every marker NAME=LINK; empty: hidden.

    With a file of cameras, the columns are CAMERA.NAME.u and CAMERA.NAME.v, of two cameras or more for every marker.
    """
    if unit not in LENGTHS:
        raise DynidError("unknown_unit", "--unit {unit}: lengths are in {lengths}", unit=unit, lengths=list(LENGTHS))
    carriers = _parse_marker_links(markers)
    header, table = _read_marker_table(path)
    time = next((name for name in header if name.lower() in TIMES), None)
    if time is None:
        raise DynidError(
            "missing_time", "{path}: there is no column t or time; it has {header}", path=path,
            header=', '.join(header)[:200],
        )  # fmt: skip
    found: Triangulation | None = None
    if cameras is None:
        wanted = {f"{name}_{axis}": (k, j) for k, name in enumerate(carriers) for j, axis in enumerate("xyz")}
        missing = [name for name in wanted if name not in header]
        if missing:
            raise DynidError(
                "unknown_column", "{path}: there is no column '{missing}'; it has {header}", path=path,
                missing=missing[0], header=', '.join(header)[:200],
            )  # fmt: skip
        positions = np.empty((len(table), len(carriers), 3))
        for name, (k, j) in wanted.items():
            positions[:, k, j] = table[:, header.index(name)] * LENGTHS[unit]
    else:
        wanted, found = _triangulate_columns(path, read_cameras(cameras), tuple(carriers), header, table)
        found = found.scaled(LENGTHS[unit])
        positions = found.points
    others = {name: table[:, k] for k, name in enumerate(header) if name not in wanted and name != time}
    t = table[:, header.index(time)]
    if not np.isfinite(t).all():
        raise DynidError(
            "missing_time_value", "{path}: line {t} has no time", path=path,
            t=int(np.flatnonzero(~np.isfinite(t))[0]) + 2,
        )  # fmt: skip
    return MarkerFile(t, positions, tuple(carriers), tuple(carriers.values()), others, found)


def _triangulate_columns(
    path: Path, cameras: Sequence[Camera], markers: Sequence[str], header: Sequence[str], table: Array
) -> tuple[dict[str, tuple[int, int]], Triangulation]:
    """Columns of image points by camera and marker, and the triangulated markers."""
    seen = np.full((len(table), len(markers), len(cameras), 2), np.nan)
    used: dict[str, tuple[int, int]] = {}
    for k, marker in enumerate(markers):
        count = 0
        for c, camera in enumerate(cameras):
            names = [f"{camera.name}.{marker}.{letter}" for letter in "uv"]
            there = [name in header for name in names]
            if any(there) and not all(there):
                raise DynidError(
                    "unknown_column", "{path}: there is no column '{missing}' for the other coordinate", path=path,
                    missing=names[there.index(False)],
                )  # fmt: skip
            for j, name in enumerate(names if all(there) else ()):
                seen[:, k, c, j] = table[:, header.index(name)]
                used[name] = k, j
            count += all(there)
        if count < 2:
            raise DynidError(
                "too_few_cameras", "{path}: marker '{marker}' has columns of {count} cameras, it needs two: {names}, "
                "...; it has {header}", path=path, marker=marker, count=count,
                names=[f"{camera.name}.{marker}.u" for camera in cameras[:2]], header=', '.join(header)[:200],
            )  # fmt: skip
    return used, triangulate(cameras, seen)


def _parse_marker_links(markers: Sequence[str]) -> dict[str, str]:
    """Link of every marker, from NAME=LINK words."""
    carriers: dict[str, str] = {}
    for word in markers:
        name, sign, link = word.partition("=")
        if not (name and sign and link) or name in carriers:
            raise DynidError("option_malformed", "--marker {word}:", "give NAME=LINK, every marker once", word=word)
        carriers[name] = link
    if not carriers:
        raise DynidError(
            "missing_marker_names", "name the markers:", "--marker NAME=LINK for every marker with columns NAME_x, "
            "NAME_y, NAME_z",
        )  # fmt: skip
    return carriers


def _read_marker_table(path: Path) -> tuple[list[str], Array]:
    """Header and numbers of a CSV file of markers."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            header = [word.strip() for word in next(lines, [])]
            rows = []
            for number, line in enumerate(lines, 2):
                if line:
                    rows.append(_parse_marker_row(path, number, line, len(header)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DynidError("not_csv", "{path}: cannot be read as CSV: {error}", path=path, error=error) from error
    if len(set(header)) < len(header) or not rows:
        raise DynidError(
            "table_malformed", "{path}: a CSV with one line of distinct names and lines of numbers is needed",
            path=path,
        )  # fmt: skip
    return header, np.array(rows)


def _parse_marker_row(path: Path, number: int, line: list[str], count: int) -> list[float]:
    """Numbers of one line of a marker file, NaN where a cell is empty."""
    if len(line) != count:
        raise DynidError(
            "cell_count_mismatch", "{path}: line {number} has {count} entries, the first line {expected}", path=path,
            number=number, count=len(line), expected=count,
        )  # fmt: skip
    try:
        return [float(word) if word.strip() else np.nan for word in line]
    except ValueError as error:
        raise DynidError(
            "values_not_numeric", "{path}: line {number}: {error}", path=path, number=number, error=error,
        ) from error  # fmt: skip


def still_frame_range(t: Array, still: float) -> slice:
    """Slice of the frames of the first `still` seconds, at least one."""
    if not 0.0 <= still <= t[-1] - t[0]:
        raise DynidError(
            "still_time_outside_recording", "--still {still}: seconds between 0 and the {t:.6g} of the recording",
            still=still, t=t[-1] - t[0],
        )  # fmt: skip
    return slice(0, max(int(np.searchsorted(t - t[0], still, side="right")), 1))


def show_marker_fit(fit: MarkerFit, robot: Robot, file: MarkerFile, screen: Console) -> None:
    """Print how well markers and joints fit."""
    from rich.table import Table

    screen.print(
        f"{len(fit.t)} frames, {len(file.names)} markers: they fit within {1e3 * fit.residual:.3g} mm (rms)",
        highlight=False,
    )
    if file.triangulation is not None:
        facts, lists = _camera_json_data(file.triangulation), []
        for key, factor in (("error", 1.0), ("sigma", 1e3)):
            lists.append(", ".join(f"{x:.2g}" for x in factor * np.asarray(facts[key], dtype=np.float64)))
        screen.print(
            f"image points miss by {lists[0]} px (rms per camera); markers are known to {lists[1]} mm in x, y, z",
            highlight=False,
        )
    joints = Table("joint", "least", "most", "deviation", box=None)
    for j, name in enumerate(robot.joint_names):
        seen = fit.q[np.isfinite(fit.q[:, j]), j]
        typical = np.median(fit.sigma[:, j])
        joints.add_row(escape_markup(name), f"{seen.min():.4f}", f"{seen.max():.4f}", f"{typical:.2g}")
    screen.print(joints)
    places = Table("marker", "link", "x mm", "y mm", "z mm", "rms mm", box=None)
    for name, link, o, rms in zip(file.names, file.links, fit.offsets, fit.marker_residual, strict=True):
        places.add_row(escape_markup(name), escape_markup(link), *(f"{1e3 * x:.1f}" for x in o), f"{1e3 * rms:.2g}")
    screen.print(places)


def write_marker_log(path: Path, fit: MarkerFit, others: dict[str, Array]) -> None:
    """Write t, q1 .. and every other column of the marker file, empty where unknown."""
    columns = {"t": fit.t} | {f"q{j + 1}": fit.q[:, j] for j in range(fit.q.shape[1])}
    columns |= {name: x for name, x in others.items() if name not in columns}
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(columns)
    for row in np.column_stack(list(columns.values())).tolist():
        lines.writerow(["" if x != x else repr(x) for x in row])
    write_text(path, text.getvalue())


def _camera_json_data(found: Triangulation) -> dict[str, object]:
    """Data on the cameras for `--json`: errors in pixels, typical deviations in m, and what was dropped."""
    spread = np.sqrt(np.einsum("nmii->nmi", found.covariance))
    typical = np.nanmedian(spread, axis=(0, 1)) if np.isfinite(spread).any() else np.full(3, np.nan)
    return {"error": found.error.tolist(), "sigma": typical.tolist(), "dropped": dict(found.dropped)}


def marker_json_data(fit: MarkerFit, robot: Robot, file: MarkerFile) -> dict[str, object]:
    """Data of the markers' fit for `--json`, without its samples."""
    return {
        "robot": robot.name,
        "joints": robot.joint_names,
        "markers": file.names,
        "cameras": None if file.triangulation is None else _camera_json_data(file.triangulation),
        "links": file.links,
        "frames": len(fit.t),
        "residual": fit.residual,
        "marker_residual": fit.marker_residual.tolist(),
        "offsets": fit.offsets.tolist(),
        "sigma": np.median(fit.sigma, axis=0).tolist(),
        "warnings": fit.warnings,
    }
