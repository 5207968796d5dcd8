"""Marker files in, logs of joint positions out: the command `markers`."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dynid.data.markers import MarkerFit
from dynid.errors import DynidError
from dynid.faces.terminal import escaped
from dynid.robot.files import write_text
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

if TYPE_CHECKING:
    from rich.console import Console

SUFFIXES = (".csv",)
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


def read_markers(path: Path, markers: Sequence[str], unit: str) -> MarkerFile:
    """Read a CSV with a time and the columns NAME_x, NAME_y, NAME_z of every marker NAME=LINK; empty: hidden."""
    if unit not in LENGTHS:
        raise DynidError(f"--unit {unit}: lengths are in {', '.join(LENGTHS)}")
    carriers = _carriers(markers)
    header, table = _table(path)
    time = next((name for name in header if name.lower() in TIMES), None)
    if time is None:
        raise DynidError(f"{path}: there is no column t or time; it has {', '.join(header)[:200]}")
    wanted = {f"{name}_{axis}": (k, j) for k, name in enumerate(carriers) for j, axis in enumerate("xyz")}
    missing = [name for name in wanted if name not in header]
    if missing:
        raise DynidError(f"{path}: there is no column '{missing[0]}'; it has {', '.join(header)[:200]}")
    positions = np.empty((len(table), len(carriers), 3))
    for name, (k, j) in wanted.items():
        positions[:, k, j] = table[:, header.index(name)] * LENGTHS[unit]
    others = {name: table[:, k] for k, name in enumerate(header) if name not in wanted and name != time}
    t = table[:, header.index(time)]
    if not np.isfinite(t).all():
        raise DynidError(f"{path}: line {int(np.flatnonzero(~np.isfinite(t))[0]) + 2} has no time")
    return MarkerFile(t, positions, tuple(carriers), tuple(carriers.values()), others)


def _carriers(markers: Sequence[str]) -> dict[str, str]:
    carriers: dict[str, str] = {}
    for word in markers:
        name, sign, link = word.partition("=")
        if not (name and sign and link) or name in carriers:
            raise DynidError(f"--marker {word}: give NAME=LINK, every marker once")
        carriers[name] = link
    if not carriers:
        raise DynidError("name the markers: --marker NAME=LINK for every marker with columns NAME_x, NAME_y, NAME_z")
    return carriers


def _table(path: Path) -> tuple[list[str], Array]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            header = [word.strip() for word in next(lines, [])]
            rows = []
            for number, line in enumerate(lines, 2):
                if line:
                    rows.append(_numbers(path, number, line, len(header)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DynidError(f"{path}: cannot be read as CSV: {error}") from error
    if len(set(header)) < len(header) or not rows:
        raise DynidError(f"{path}: a CSV with one line of distinct names and lines of numbers is needed")
    return header, np.array(rows)


def _numbers(path: Path, number: int, line: list[str], count: int) -> list[float]:
    if len(line) != count:
        raise DynidError(f"{path}: line {number} has {len(line)} entries, the first line {count}")
    try:
        return [float(word) if word.strip() else np.nan for word in line]
    except ValueError as error:
        raise DynidError(f"{path}: line {number}: {error}") from error


def still_frames(t: Array, still: float) -> slice:
    """Frames from the first on for some seconds, at least one."""
    if not 0.0 <= still <= t[-1] - t[0]:
        raise DynidError(f"--still {still}: seconds between 0 and the {t[-1] - t[0]:.6g} of the recording")
    return slice(0, max(int(np.searchsorted(t - t[0], still, side="right")), 1))


def show(fit: MarkerFit, robot: Robot, file: MarkerFile, screen: Console) -> None:
    """Print what fits how well, markers and joints."""
    from rich.table import Table

    screen.print(
        f"{len(fit.t)} frames, {len(file.names)} markers: they fit within {1e3 * fit.residual:.3g} mm (rms)",
        highlight=False,
    )
    joints = Table("joint", "least", "most", "deviation", box=None)
    for j, name in enumerate(robot.joint_names):
        seen = fit.q[np.isfinite(fit.q[:, j]), j]
        typical = np.median(fit.sigma[:, j])
        joints.add_row(escaped(name), f"{seen.min():.4f}", f"{seen.max():.4f}", f"{typical:.2g}")
    screen.print(joints)
    places = Table("marker", "link", "x mm", "y mm", "z mm", "rms mm", box=None)
    for name, link, o, rms in zip(file.names, file.links, fit.offsets, fit.marker_residual, strict=True):
        places.add_row(escaped(name), escaped(link), *(f"{1e3 * x:.1f}" for x in o), f"{1e3 * rms:.2g}")
    screen.print(places)


def write_log(path: Path, fit: MarkerFit, others: dict[str, Array]) -> None:
    """Write t, q1 .. and every other column of the marker file, empty where unknown."""
    columns = {"t": fit.t} | {f"q{j + 1}": fit.q[:, j] for j in range(fit.q.shape[1])}
    columns |= {name: x for name, x in others.items() if name not in columns}
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(columns)
    for row in np.column_stack(list(columns.values())).tolist():
        lines.writerow(["" if x != x else repr(x) for x in row])
    write_text(path, text.getvalue())


def facts(fit: MarkerFit, robot: Robot, file: MarkerFile) -> dict[str, object]:
    """The fit for machines, without its samples."""
    return {
        "robot": robot.name,
        "joints": robot.joint_names,
        "markers": file.names,
        "links": file.links,
        "frames": len(fit.t),
        "residual": fit.residual,
        "marker_residual": fit.marker_residual.tolist(),
        "offsets": fit.offsets.tolist(),
        "sigma": np.median(fit.sigma, axis=0).tolist(),
        "warnings": fit.warnings,
    }
