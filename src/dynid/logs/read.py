"""Logs from files: the format by the suffix, the channels by the columns' names."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from dynid.errors import LogError
from dynid.logs.column_names import (
    FACTORS,
    ColumnPlace,
    check_units,
    column_numbers_of_file,
    distinguishing_prefixes,
    find_unit,
    mapped_column_numbers,
    parse_header,
    si_factor,
    split_unit,
)
from dynid.logs.columns import ColumnPlan, match_columns
from dynid.logs.log import CHANNELS, CHUNK, ArraySource, Log, Samples, Wiring
from dynid.logs.readers.table import (
    ALL_ROWS,
    Batch,
    Numbers,
    RenamedTable,
    RowRange,
    Table,
    TableRows,
    Wanted,
    check_field_names,
    check_row_count,
)
from dynid.messages import ANYTHING, Message, Option, Wording
from dynid.robot.load import hold_missing_joints, lock_loaded_robot, may_lack_last_joints
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.storage.files import suggest_similar_file

if TYPE_CHECKING:
    from dynid.logs.joined import FilePart

# The format of a log file, by its suffix, and what its first bytes say where the two disagree.


TEXT = (".csv", ".txt", ".tsv", ".dat", ".log")
EXCEL = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods")
_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"PK\x03\x04", "a zip archive such as NPZ or an Excel workbook"),
    (b"\xd0\xcf\x11\xe0", "an Excel workbook"),
    (b"PAR1", "Parquet"),
    (b"\x89HDF\r\n\x1a\n", "HDF5"),
    (b"SQLite format 3\x00", "a rosbag2 database (.db3)"),
    (b"\x89MCAP0\r\n", "MCAP"),
    (b"MATLAB", "MAT"),
)
FORMATS = (
    "CSV (.csv .txt .tsv .dat .log, also .gz), .parquet, .npz .npy, .mat, .h5 .hdf5, .db3, .mcap, or the folder of a "
    "rosbag2"
)


TopicLike = str | Sequence[str]


def is_bag(path: Path) -> bool:
    """Whether a log is a bag, by its name."""
    return path.is_dir() or path.suffix.lower() in (".db3", ".mcap")


def format_hint_from_content(path: Path) -> str:
    """Return '; its content looks like ...' where the first bytes of a file are those of a known format."""
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except OSError:
        return ""
    if not head:
        return "; the file is empty"
    return next((f"; its content looks like {kind}" for magic, kind in _MAGIC if head.startswith(magic)), "")


def _openers_by_suffix() -> dict[str, Callable[[Path], Table]]:
    """Functions that open log files, by suffix."""
    from dynid.logs.readers.hdf5 import open_hdf5, open_mat
    from dynid.logs.readers.npz import open_npy, open_npz
    from dynid.logs.readers.parquet import open_parquet

    return {
        **dict.fromkeys((".parquet", ".pq"), open_parquet),
        ".npz": open_npz,
        ".npy": open_npy,
        ".mat": open_mat,
        **dict.fromkeys((".h5", ".hdf5"), open_hdf5),
    }


def open_table(path: Path, topic: TopicLike | None = None, layout: Layout | None = None) -> tuple[Table, ...]:
    """Open a log file for reading, after a look at its name only: one table, or one per topic of a bag."""
    from dynid.logs.readers.csv_text import open_text
    from dynid.logs.readers.rosbag import open_bag

    name, layout = str(path), layout or Layout()
    try:
        is_folder = path.is_dir()
        if not is_folder and not path.is_file():
            if path.exists():
                raise LogError(name, "not_a_file", "this is not a file")
            raise LogError(name, "file_not_found", "there is no such file{near}", near=suggest_similar_file(path))
        if is_folder:
            if not (path / "metadata.yaml").is_file():
                raise LogError(
                    name, "folder_not_rosbag", "this folder is not a rosbag2: there is no metadata.yaml in it",
                    "name a file",
                )  # fmt: skip
        else:
            with path.open("rb"):
                pass
    except OSError as error:
        raise LogError(
            name, "file_unreadable", "cannot be opened: {reason}", reason=error.strerror or str(error),
        ) from error  # fmt: skip
    suffix = path.suffix.lower()
    if suffix in EXCEL:
        raise LogError(
            name, "excel_not_supported", "this is an Excel workbook", "save the sheet as CSV (File, Save As, CSV "
            "UTF-8), or read it with pandas or polars and give read_log the frame",
        )  # fmt: skip
    if is_bag(path):
        if layout.names:
            raise LogError(
                name, "header_not_applicable", "{header} is for tables; a bag names its fields", header=Option("header")
            )
        return tuple(map(layout.with_row_range, open_bag(path, topic)))
    if topic is not None:
        raise LogError(
            name, "topic_not_applicable", "{topic} is for bags only", "pick columns with {columns}",
            topic=Option("topic"), columns=Option("columns"),
        )  # fmt: skip
    inner = Path(path.stem).suffix.lower()
    openers = _openers_by_suffix()
    if suffix in TEXT or (suffix == ".gz" and inner in ("", *TEXT)):
        return (open_text(path, layout.names, layout.numbers, layout.part),)
    if suffix not in openers:
        raise LogError(
            name, "unsupported_suffix", "the suffix '{suffix}' is not a known format", "use {formats}",
            suffix=inner + suffix if suffix == ".gz" else suffix, formats=FORMATS,
        )  # fmt: skip
    table = openers[suffix](path)
    check_field_names(name, [one.name for one in table.fields])
    check_row_count(name, max((max(one.shape, default=0) for one in table.fields), default=0))
    return (layout.with_row_range(layout.with_user_names(table)),)


@dataclass(frozen=True, slots=True)
class Layout:
    """What the user says of a table: names of its columns ('': not to be used), numbers that call some, its rows."""

    names: tuple[str, ...] = ()
    numbers: frozenset[int] = frozenset()
    part: RowRange | None = None

    def with_user_names(self, table: Table) -> Table:
        """The table under the column names that the user gives."""
        return RenamedTable(table, self.names) if self.names else table

    def with_row_range(self, table: Table) -> Table:
        """The table with the rows that count alone."""
        return TableRows(table, self.part) if self.part else table


LogLike = str | PathLike[str] | Mapping[str, Any] | Array | Any
"""What `read_log` opens: a file, a frame of polars or pandas, or arrays by name."""


def list_logs(logs: Any) -> list[Any]:
    """Several logs, or one file, frame, mapping of arrays or `Log`, as a list."""
    from dynid.logs.joined import FilePart

    is_one = isinstance(logs, Log | FilePart | str | PathLike | Mapping | np.ndarray) or hasattr(type(logs), "columns")
    return [logs] if is_one else list(logs)


def check_row_range(log: str, rows: object) -> RowRange | None:
    """Check a range of rows (first, last), counted from 1 and both included; None stands for an open end."""
    if rows is None:
        return None
    first, last = tuple(rows) if isinstance(rows, Sequence) and len(rows) == 2 else (0, 0)
    first = 1 if first is None else first
    is_whole = all(
        isinstance(x, int | np.integer) and not isinstance(x, bool) for x in (first, 1 if last is None else last)
    )
    if not is_whole or first < 1 or (last is not None and last < first):
        raise LogError(
            log, "rows_malformed", "{option} must be FIRST and LAST of the rows, counted from 1 and both included, got "
            "{value!r}", "write {example}", option=Wording("rows", "--rows"), value=str(rows)[:60],
            example=Option("rows", (200, 4000)),
        )  # fmt: skip
    return RowRange(int(first), None if last is None else int(last))


# Motor-side logs: drive gains, gear ratios and couplings between motors and joints.


@dataclass(frozen=True, slots=True, eq=False)
class Transmission:
    """Motor positions = gear @ joint positions, so joint torques = gear' @ motor torques: the power is the same.

    `gear` (n, n) and `gain` (n,) in Nm/A, None where the log is on the joint side or in torques already.
    """

    gear: Array | None = None
    gain: Array | None = None

    @property
    def coupling(self) -> Array | None:
        """The transmission scaled to the joint side, diag(1/d) gear; None where every motor moves one joint."""
        if self.gear is None or np.array_equal(self.gear, np.diag(np.diag(self.gear))):
            return None
        return self.gear / np.diag(self.gear)[:, None]

    def joint_motion(self, motor: Array) -> Array:
        """Positions, velocities or accelerations (N, n) of the joints."""
        if self.gear is None:
            return motor
        if self.coupling is None:
            return motor / np.diag(self.gear)
        return np.ascontiguousarray(np.linalg.solve(self.gear, motor.T).T)

    def joint_torque(self, motor: Array) -> Array:
        """Joint torques (N, n) of drive signals."""
        if self.gain is not None:
            motor = motor * self.gain
        if self.gear is None:
            return motor
        return motor * np.diag(self.gear) if self.coupling is None else motor @ self.gear


def _check_transmission_array(log: str, key: str, value: object, shapes: tuple[tuple[int, ...], ...]) -> Array:
    """Finite gear or gain as an array of one of the shapes; LogError where it is none."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    n = shapes[-1][0]
    if array.shape not in shapes or not np.isfinite(array).all():
        matrix = " or a ({n}, {n}) matrix" if len(shapes) == 3 else ""
        raise LogError(
            log, "invalid_gain_or_gear", "{key} must be a finite number, {n} numbers" + matrix + ", got {value!r}",
            key=key, n=n, value=str(value)[:60],
        )  # fmt: skip
    if np.abs(array).max(initial=0.0) > LARGEST_RATIO or (np.abs(array[array != 0.0]) < 1.0 / LARGEST_RATIO).any():
        raise LogError(
            log, "gain_or_gear_out_of_range", "{key} has {value:.3g}, and no drive has more than {most:.0e} or less "
            "than {least:.0e}", key=key, value=max(array[array != 0.0].flat, key=lambda x: abs(np.log10(abs(x)))),
            most=LARGEST_RATIO, least=1.0 / LARGEST_RATIO,
        )  # fmt: skip
    return array


LARGEST_RATIO = 1e9
"""Beyond which, and below whose inverse, no gear ratio and no gain in SI units is."""


def read_transmission(log: str, gear: object, gain: object, n: int) -> Transmission:
    """Return the transmission of `gear` (number, n ratios or (n, n) matrix) and `gain` (number or n)."""
    ratios, gains = None, None
    if gain is not None:
        gains = np.broadcast_to(_check_transmission_array(log, "gain", gain, ((), (n,))), (n,))
        if not gains.all():
            raise LogError(log, "gain_zero", "gain has a zero", "give Nm per A")
    if gear is not None:
        value = _check_transmission_array(log, "gear", gear, ((), (n,), (n, n)))
        ratios = value if value.ndim == 2 else np.diag(np.broadcast_to(value, (n,)))
        if not np.diag(ratios).all():
            place = int(np.flatnonzero(np.diag(ratios) == 0)[0]) + 1
            raise LogError(
                log, "gear_ratio_zero", "gear has a zero ratio on the diagonal, at joint {number}; motor k must move "
                "joint k", number=place,
            )  # fmt: skip
        scaled = ratios / np.diag(ratios)[:, None]
        if np.linalg.cond(scaled) > 1e12:
            raise LogError(log, "gear_singular", "gear is singular: the motors' positions do not determine the joints'")
    return Transmission(ratios, gains)


# Mistakes in the wiring of a log: columns exchanged, signs turned, zeros off.


NOT_GIVEN = ("path", "robot", "sign", "zero", "order")
"""Arguments of `read_log` that a source keeps otherwise: wiring is its own value."""

OrderLike = Sequence[str] | Mapping[str, Sequence[str]]
_QUANTITY = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S*)\s*")
_ORDERED = ("q", "tau")


def read_wiring(log: str, plan: ColumnPlan, robot: Robot, sign: object, zero: object, order: object) -> Wiring:
    """Check sign, zero and order of `read_log` against the robot and the channels of a file."""
    by_column = {c: np.array(plan.named.get(c, range(robot.n)), dtype=np.int64) for c in (*_ORDERED, "v", "a")}
    orders = _read_orders(log, plan, robot, order, by_column)
    signs = _read_signs(log, plan, robot, sign)
    return Wiring(
        orders["q"], orders["tau"], signs["q"], signs["q"] * signs["v"], signs["q"] * signs["a"], signs["tau"],
        _read_zeros(log, robot, zero), by_column["q"], by_column["tau"],
    )  # fmt: skip


def _read_orders(
    log: str, plan: ColumnPlan, robot: Robot, given: object, by_column: Mapping[str, NDArray[np.int64]]
) -> dict[str, NDArray[np.int64]]:
    """The column of each joint, of q (with v and a) and of tau; by_column: whose they are by their names."""
    option = Wording("order", "--order")
    several = dict(given) if isinstance(given, Mapping) else {} if given is None else dict.fromkeys(_ORDERED, given)
    found = {channel: np.arange(robot.n) for channel in _ORDERED}
    for channel, names in several.items():
        if channel not in _ORDERED:
            raise LogError(
                log, "unknown_channel", "{option} has no channel {channel!r}", "use q (for positions, velocities and "
                "accelerations), tau, or none for all", option=option, channel=channel,
            )  # fmt: skip
        if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(x, str) for x in names):
            raise LogError(
                log, "order_malformed", "{option} must be a list of the joints' names, got {value!r}", option=option,
                value=str(names)[:60],
            )  # fmt: skip
        for name in names:
            _check_joint(log, option, name, robot)
        if sorted(names) != sorted(robot.joint_names):
            twice = [x for x in robot.joint_names if names.count(x) > 1]
            what = ", {twice:20} more than once" if twice else ""
            raise LogError(
                log, "order_incomplete", "{option} lacks {missing:20}" + what, "name each joint once", option=option,
                missing=[x for x in robot.joint_names if x not in names], twice=twice,
            )  # fmt: skip
        if channel not in plan.channels:
            if isinstance(given, Mapping):
                raise _missing_channel_error(log, option, channel, channel)
            continue
        for other in (c for c in ("v", "a") if channel == "q" and c in plan.channels):
            if (by_column[other] != by_column["q"]).any():
                raise LogError(
                    log, "order_ambiguous", "{option}: the columns of {channel} name their joints in another order "
                    "than those of q", "name the columns with {columns}", option=option, channel=other,
                    columns=Option("columns", {"q": [ANYTHING], other: [ANYTHING]}),
                )  # fmt: skip
        found[channel][[robot.joint_names.index(name) for name in names]] = by_column[channel]
    return found


def _read_signs(log: str, plan: ColumnPlan, robot: Robot, given: object) -> dict[str, Array]:
    """Signs per channel and joint."""
    option = Wording("sign", "--sign")
    signs = {channel: np.ones(robot.n) for channel in ("q", "v", "a", "tau")}
    known = {f"{channel}.{name}": (channel, j) for channel in signs for j, name in enumerate(robot.joint_names)}
    seen: set[str] = set()
    several = isinstance(given, Iterable) and not isinstance(given, str | Mapping)
    for entry in () if given is None else given if several else (given,):  # type: ignore[attr-defined]
        if not isinstance(entry, str) or entry not in known:
            raise LogError(
                log, "unknown_sign", "{option} names {entry!r}, which is not a channel of a joint", "write q, v, a or "
                "tau, a dot, and the joint, such as {near}", option=option, entry=entry,
                near=get_close_matches(str(entry), known, n=2, cutoff=0.4) or list(known)[-1:],
            )  # fmt: skip
        channel, j = known[entry]
        if entry in seen:
            raise LogError(
                log, "sign_twice", "{option} names '{entry}' twice", "name it once", option=option, entry=entry
            )
        if channel not in plan.channels:
            raise _missing_channel_error(log, option, entry, channel)
        seen.add(entry)
        signs[channel][j] = -1.0
    return signs


def _read_zeros(log: str, robot: Robot, given: object) -> Array:
    """Zeros added to the positions, in rad or m, from numbers or texts with a unit."""
    option = Wording("zero", "--zero")
    zeros = np.zeros(robot.n)
    if given is not None and not isinstance(given, Mapping):
        raise LogError(
            log, "zero_malformed", "{option} must be a mapping from joints to angles or lengths, got {value!r}",
            option=option, value=str(given)[:60],
        )  # fmt: skip
    for name, value in (given or {}).items():
        j = _check_joint(log, option, name, robot)
        kind = robot.links[robot.active_links[j]].kind
        units = ("rad", "deg") if kind == "revolute" else ("m", "mm")
        match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
        number, unit = (match[1], match[2]) if match else (value, "")
        if unit and find_unit(unit) not in units:
            raise LogError(
                log, "unit_unfit_for_joint", "{option}: '{unit}' is not a unit of the {kind} joint '{joint}'",
                "use {units}", option=option, unit=unit, kind=kind, joint=name, units=list(units),
            )  # fmt: skip
        try:
            zeros[j] = np.nan if isinstance(value, bool) else float(number) * FACTORS["q"][find_unit(unit) or units[0]]
        except (TypeError, ValueError):
            zeros[j] = np.nan
        if not np.isfinite(zeros[j]):
            raise LogError(
                log, "zero_not_finite", "{option}: {value!r} of joint '{joint}' is not a finite number",
                "write it in {unit}, or with a unit as {example}", option=option, value=str(value)[:60], joint=name,
                unit=units[0], example="-90deg" if kind == "revolute" else "12.5mm",
            )  # fmt: skip
    return zeros


def _check_joint(log: str, option: Wording, name: object, robot: Robot) -> int:
    """Index of a joint by its name; raise where the robot has none of this name."""
    if name in robot.joint_names:
        return robot.joint_names.index(name)
    near = get_close_matches(str(name), robot.joint_names, n=1, cutoff=0.5)
    raise LogError(
        log, "unknown_joint", "{option}: '{robot}' has no joint {name!r}", "did you mean {near:1}?" if near else
        "its joints are {joints:20}", option=option, robot=robot.name, name=name, near=near, joints=robot.joint_names,
    )  # fmt: skip


def _missing_channel_error(log: str, option: Wording, entry: str, channel: str) -> LogError:
    """Error on an option that names a channel which was not recorded."""
    what = {"v": "velocities", "a": "accelerations", "tau": "torques"}[channel]
    return LogError(
        log, "channel_not_recorded", "{option} names '{entry}', but there are no {what} in it", "leave it out",
        option=option, entry=entry, what=what,
    )  # fmt: skip


# Units of a stamp since 1970 and sizes from which on it is in them: 1973 in ms, us and ns. In the next larger unit it
# would be thousands of years later.
EPOCHS = (("ns", 1e17), ("us", 1e14), ("ms", 1e11))
PROBE = 64
"""Rows that tell the unit of time and where it begins."""

# No position, velocity, torque or force of a robot is as large: such numbers stand for missing ones (1e30, DBL_MAX).
LARGEST = 1e12


Stamp = tuple[tuple[str, int, int, int], ...]
"""Name, inode, size and time of the last change (ns) of the files of a log: another stamp, another content."""


def file_stamp(path: Path) -> Stamp:
    """Stamp (size, time of change) of a file, or of those in the folder of a bag; empty where there is none."""
    try:
        inside = (".yaml", ".db3", ".mcap")
        files = [path] if not path.is_dir() else sorted(file for file in path.iterdir() if file.suffix in inside)
        looks = [(file.name, file.stat()) for file in files]
    except OSError:
        return ()
    return tuple((name, look.st_ino, look.st_size, look.st_mtime_ns) for name, look in looks)


@dataclass(frozen=True, slots=True, eq=False)
class SiFactors:
    """Factors to SI: of the time, and per column of each channel; `first` is the stamp from which time counts.

    by_joint: channels whose factors are those of the joints, as the user gave them, in whatever order columns come.
    """

    t: float
    channels: Mapping[str, Array | None]
    first: int | float | None = None
    by_joint: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class FileSource:
    """A log file that is read again, batch by batch, whenever its samples are asked for.

    given: keywords of `read_log` that were given; locks: positions of the robot's joints that the file does not have.
    """

    table: Table
    plan: ColumnPlan
    scale: SiFactors
    transmission: Transmission
    wiring: Wiring
    stamp: Stamp | None = ()
    """None: in memory."""
    given: Mapping[str, object] = field(default_factory=dict)
    locks: Mapping[str, float] = field(default_factory=dict)

    def rewired(self, wiring: Wiring) -> FileSource:
        """Return the file source with further corrections of the wiring."""
        return replace(self, wiring=self.wiring.then(wiring, self.transmission.gear))

    def check_unchanged(self) -> None:
        """Raise LogError where the file is another one than was opened."""
        now = None if self.stamp is None else tuple(look for path in self.paths for look in file_stamp(path))
        if now != self.stamp:
            if not now:
                raise LogError(self.name, "file_gone", "cannot be opened: No such file or directory any more")
            what, remedy = "the file has changed since it was opened", "read it again once it is complete"
            raise LogError(self.name, "file_changed", what, remedy)

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.table.name

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that are read; none of a frame."""
        return () if self.stamp is None else tuple(map(Path, getattr(self.table, "files", (self.name,))))

    @property
    def size(self) -> int:
        """Bytes of the files, or of the arrays of a frame."""
        if self.stamp is not None:
            return sum(look[2] for look in self.stamp)
        parts = getattr(self.table, "tables", ())  # a joined table knows no length
        tables: list[Table] = [part.table for part in parts] or [self.table]
        return 8 * sum(math.prod(entry.shape) for table in tables for entry in table.fields)

    @property
    def part(self) -> RowRange:
        """Range of the file's rows that count."""
        return getattr(self.table, "part", ALL_ROWS)

    @property
    def channels(self) -> frozenset[str]:
        """Names of the recorded channels among v, a, tau, reaction."""
        return frozenset(name for name in CHANNELS if name in self.plan.channels)

    @property
    def standing_joints(self) -> frozenset[str]:
        """Joints of `locks` whose position is recorded: they stood there."""
        return frozenset(joint for joint, place in self.plan.held.items() if place is not None)

    @property
    def unused_columns(self) -> tuple[str, ...]:
        """Names of columns that are not used, with the reason where they hold no numbers."""
        used = {field.name for field in self.plan.wanted_fields}
        return tuple(
            f"'{field.name}'" + (f" ({field.problem})" if field.problem else "")
            for field in self.table.fields
            if field.name not in used
        )

    @property
    def left_out(self) -> tuple[Message, ...]:
        """Messages on what the reader could not use, as far as the file was read."""
        return tuple(getattr(self.table, "left_out", ()))

    @property
    def lines(self) -> Callable[[Sequence[int]], str] | None:
        """Function that gives the text on lines of rows, for a text file; None for other formats."""
        return getattr(self.table, "lines", None)

    @property
    def line_numbers(self) -> Callable[[Sequence[int]], list[int]] | None:
        """Function that returns the line numbers of rows, for a text file; None for other formats."""
        return getattr(self.table, "line_numbers", None)

    def chunks(self, rows: int) -> Iterator[Samples]:
        """Yield the samples from the beginning of the file, at most `rows` at a time; it must not change meanwhile."""
        self.check_unchanged()
        try:
            for batch in self.table.batches(self.plan.wanted_fields, rows):
                t = times_in_seconds(sample_stamps(batch, self.plan), self.scale.t, self.scale.first)
                channels = [self._read_channel(batch, name) for name in ("q", *CHANNELS)]
                yield Samples(t, *channels, done=getattr(batch, "done", np.nan))  # type: ignore[arg-type]
        except LogError:
            self.check_unchanged()
            raise
        self.check_unchanged()

    def _read_channel(self, batch: Batch, name: str) -> Array | None:
        """A channel of a batch in SI units, wiring not yet corrected; None where it is not in the file."""
        places = self.plan.channels.get(name)
        if places is None:
            return None
        factors = self.scale.channels.get(name)
        if name != "reaction":
            order = self.wiring.order(name)
            places = tuple(places[k] for k in order)
            factors = factors if factors is None or name in self.scale.by_joint else factors[order]
        block = columns_of_batch(batch, places)
        if factors is not None:
            block *= factors
        block[np.abs(block) > LARGEST] = np.nan
        if name == "reaction":
            return block
        if (self.wiring.sign(name) < 0.0).any():
            block *= self.wiring.sign(name)
        if name == "tau":
            return self.transmission.joint_torque(block)
        motion = self.transmission.joint_motion(block)
        return motion + self.wiring.zero if name == "q" and self.wiring.zero.any() else motion


def sample_stamps(batch: Batch, plan: ColumnPlan) -> Numbers:
    """Stamps of the samples; where seconds and nanoseconds are two columns, whole ns."""
    t = _column_of_batch(batch, plan.t)
    if plan.nanoseconds is None:
        return t
    seconds, fine = np.asarray(t, dtype=np.float64), np.asarray(batch[plan.nanoseconds], dtype=np.float64)
    if not (np.abs(seconds) + np.abs(fine) < 1e9 * LARGEST).all() or np.abs(seconds).max(initial=0.0) > 9e9:
        with np.errstate(over="ignore"):
            return np.asarray(1e9 * seconds + fine)  # rounded to 0.3 us, but what is missing stays missing
    return np.asarray(seconds.astype(np.int64) * 10**9 + fine.astype(np.int64))


def _column_of_batch(batch: Batch, place: ColumnPlace) -> Numbers:
    """The numbers of one place in a batch."""
    values = batch[place.field]
    return values if place.column is None else values[:, place.column]


def columns_of_batch(batch: Batch, places: tuple[ColumnPlace, ...]) -> Array:
    """Return the columns side by side as a fresh (rows, n) array; infinite values are NaN."""
    whole = batch[places[0].field]
    if whole.ndim == 2 and places == tuple(ColumnPlace(places[0].field, k) for k in range(whole.shape[1])):
        block = np.array(whole, dtype=np.float64, order="C")
    else:
        block = np.empty((len(whole), len(places)))
        for k, place in enumerate(places):
            block[:, k] = _column_of_batch(batch, place)
    return _finite_or_nan(block)


def _finite_or_nan(values: Array) -> Array:
    """Values with NaN in place of infinite ones."""
    with np.errstate(all="ignore"):
        suspicious = not np.isfinite(values.sum())
    if suspicious:
        values[np.isinf(values)] = np.nan
    return values


def times_in_seconds(stamps: Numbers, factor: float, first: int | float | None) -> Array:
    """Return stamps in s; integers are taken from the first one before they become floating."""
    if first is not None:
        stamps = (_signed_integers(stamps) if stamps.dtype.kind in "iub" else stamps.astype(np.float64)) - first
    t = _finite_or_nan(np.array(stamps, dtype=np.float64))
    if factor != 1.0:
        t *= factor
    return t


def _signed_integers(stamps: Numbers) -> Numbers:
    """Integers with a sign, or floating numbers where these are too small for them."""
    if stamps.dtype.kind == "u" and stamps.max(initial=0) > np.iinfo(np.int64).max:
        return stamps.astype(np.float64)
    return stamps.astype(np.int64)


def find_time_unit(
    table: Table, plan: ColumnPlan, asked: str | None
) -> tuple[str, int | float | None, tuple[Message, ...]]:
    """Return the unit of time, the stamp to count from (None: 0), and notes: asked for, in the header, or by size.

    The first rows decide, not the first alone, which may be unset or wrong. Raises where there is not one sample.
    """
    batch = next(
        (batch for batch in table.batches(plan.wanted_fields, PROBE) if len(_column_of_batch(batch, plan.t))), None
    )
    if batch is None:
        raise LogError(table.name, "no_samples", "there are no samples in it")
    first = _first_valid_stamp(sample_stamps(batch, plan))
    if plan.nanoseconds is not None:
        return "ns", first, ()
    size = abs(float(first))
    notes: tuple[Message, ...] = ()
    unit = asked or plan.t_unit
    if asked is None and split_unit(plan.t.field)[1] not in (None, "s"):
        what = "the time '{column}' is in {unit}"
        notes = (Message("time_unit_from_column_name", what, column=plan.t.field, unit=plan.t_unit),)
    if unit is None:
        unit = next((word for word, least in EPOCHS if size > least), "s")
        if unit != "s":
            what = "the time '{column}' is in {unit} since 1970, by its size; t counts from the first sample"
            notes = (Message("time_since_1970", what, column=plan.t.field, unit=unit),)
    return unit, first if unit != "s" and size > EPOCHS[-1][1] else None, notes


def _first_valid_stamp(stamps: Numbers) -> int | float:
    """The first of some stamps that lies among the others; 0 where there is no finite one."""
    known = _signed_integers(stamps) if stamps.dtype.kind in "iub" else stamps.astype(np.float64)
    known = known[np.abs(known) < 1e300] if known.dtype.kind == "f" else known
    if not len(known):
        return 0
    away = np.abs(known - np.sort(known)[len(known) // 2].item()).astype(np.float64)
    return known[int(np.argmax(away <= 100.0 * np.median(away)))].item()  # type: ignore[no-any-return]


UnitsLike = str | Sequence[str]
GearLike = float | Sequence[float] | Sequence[Sequence[float]] | Array


IN_CURRENT = Message(
    "torques_in_current", "tau is a current, used as it is: parameters are in units of current",
    "{gain} gives Nm per A", gain=Option("gain"),
)  # fmt: skip
"""Note on a log without torques."""


def read_log(
    path: LogLike | Sequence[LogLike],
    robot: Robot,
    *,
    columns: Mapping[str, str | Sequence[str] | None] | None = None,
    units: Mapping[str, UnitsLike] | None = None,
    gear: GearLike | None = None,
    gain: float | Sequence[float] | Array | None = None,
    topic: TopicLike | None = None,
    sign: str | Sequence[str] | None = None,
    zero: Mapping[str, float | str] | None = None,
    order: OrderLike | None = None,
    header: str | Sequence[str] | None = None,
    rows: tuple[int | None, int | None] | None = None,
) -> Log:
    """Open a log: CSV (also .gz), Parquet, NPZ, MAT, HDF5, a rosbag2 or an MCAP file, a frame or arrays by name.

    Only the beginning is read here; the samples stay in the file until they are needed. Columns are matched by their
    names.

    Parameters
    ----------
    path : path, frame, mapping or array, or a sequence of them
        The file; a frame of polars or pandas; a mapping of names to arrays; or an array with a `header`. Arrays are
        used without a copy where possible. A list is one recording, such as positions and torques apart, joined on
        time; a `FilePart` in it shifts the times of one file or takes a part of it.
    robot : Robot
        As `load_robot` returns it.
    columns : mapping, optional
        Which columns to read, with keys t, q, v, a, tau, reaction (a column, an array or a list in the order of the
        joints; None leaves a channel out), or q1, tau3, v.elbow for single ones. Columns may be numbers, counted from
        1, or ranges such as "2:8", the last one included.
    units : mapping, optional
        Units other than SI by channel, as one unit or one per joint.
    gear : float, (n,) or (n, n) array, optional
        Ratio, ratios, or matrix G with motor positions = G @ joint positions, of a motor-side log.
    gain : float or (n,) array, optional
        Drive gains, N m/A. Units apply first, then gain, then gear.
    topic : str or sequence of str, optional
        Topics of a bag; several as a list or "/a+/b".
    sign : str or sequence of str, optional
        Channels of joints that are recorded with the wrong sign, such as "tau.elbow"; "q.elbow" turns v and a too,
        "v.elbow" or "a.elbow" only these.
    zero : mapping of str to float or str, optional
        What is added to positions, {"elbow": -pi / 2} in rad or m, or "-90deg".
    order : sequence of str or mapping, optional
        Joints in the order of the file's columns, for all channels, or {"tau": [...]} and {"q": [...]} (with v and a).
    header : str or sequence of str, optional
        Names of all columns of a table without a header, or in place of it: "t,q*7,_*3,tau*7" (`_` skips a column); for
        several files "t,q*7+t,tau*7".
    rows : (int or None, int or None), optional
        First and last row to read, counted from 1 and both included, in each file; None leaves an end open.

    Returns
    -------
    Log
        The log, with `notes` on what was decided.

    Raises
    ------
    LogError
        If the file cannot be read or its columns do not fit the robot.

    Notes
    -----
    Columns are taken in order, then units, signs, gain and gear are applied, then zeros at the joints: q used = sign *
    q recorded + zero.

    Joints that the file does not have, such as those of a gripper, are not columns of the log: its `locks` hold their
    positions, 0 where there are none, or the recorded one of a joint that stands still and has no torques; functions
    that take the log lock these joints of the robot. A joint missing between two that are there is an error.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import load_robot, read_log
    >>> t = np.arange(0.0, 1.0, 0.01)
    >>> arrays = {"t": t, "q1": np.degrees(np.sin(t)), "tau1": np.cos(t)}
    >>> log = read_log(arrays, load_robot("one_link"), units={"q": "deg"})
    >>> log.q.shape, round(log.q.max(), 3)
    ((100, 1), np.float64(0.836))
    """
    given = {key: value for key, value in locals().items() if key not in NOT_GIVEN and value is not None}
    if isinstance(topic, list | tuple):
        given["topic"] = "+".join(map(str, topic))  # as the command line says it
    from dynid.logs.joined import JoinedTable, file_parts, join_tables

    parts = file_parts(path)
    named = [part for part in parts if isinstance(part.source, str | PathLike)]
    name = "+".join(str(Path(fspath(part.source))) for part in named) or IN_MEMORY
    stamp = tuple(look for part in named for look in file_stamp(Path(part.source))) if named else None
    opened = _open_parts(parts, robot, topic=topic, header=header, rows=rows, columns=columns)
    motor_side = gear is not None
    in_time, mapping = _unit_of_time(units), cast("Mapping[str, object] | None", columns)
    table = opened[0][0]
    if len(opened) > 1 or parts[0].shift or parts[0].ranges:
        table, mapping = join_tables(opened, robot, columns, in_time, motor_side)
        name = table.name
    plan = match_columns(name, table.fields, robot, mapping, motor_side=motor_side)
    for used in plan.wanted_fields:
        if used.name in getattr(table, "twice", ()):
            raise LogError(
                name, "column_name_twice", "the header names the column '{name}' twice", "number the columns with "
                "{columns}, counted from 1", name=used.name, columns=Option("columns", {"q": "2:7"}),
            )  # fmt: skip
    joined = isinstance(table, JoinedTable)
    if isinstance(table, JoinedTable):
        table = table.at_times_of(plan)
    locks = _read_locks(table, plan, robot, units)
    robot = lock_loaded_robot(robot, locks)
    transmission = read_transmission(name, gear, gain, robot.n)
    asked = check_units(name, units, robot, motor_side)
    if gain is not None and "tau" not in plan.channels:
        raise LogError(
            name, "gain_without_torques", "gain is given, but there are no torques or currents that it would scale",
        )  # fmt: skip
    if joined:
        unit, first, time_notes = "s", None, tuple[Message, ...]()
    else:
        unit, first, time_notes = find_time_unit(table, plan, in_time)
    factors, unit_notes = _si_factors(name, plan, asked)
    if isinstance(table, JoinedTable) and not motor_side:
        table = table.with_turns(plan, factors["q"])
    scale = SiFactors(si_factor(name, "t", unit, plan.t.field), factors, first, frozenset(asked))
    notes = [*table.notes, *plan.notes, *time_notes, *unit_notes]
    if (plan.in_current or "A" in asked.get("tau", ())) and transmission.gain is None:
        notes.append(IN_CURRENT)
    wiring = read_wiring(name, plan, robot, sign, zero, order)
    source = FileSource(table, plan, scale, transmission, wiring, stamp, given, locks)
    return Log.from_source(source, coupling=transmission.coupling, notes=tuple(notes))


STILL = {"revolute": 0.01, "prismatic": 0.001}
"""How far (rad, m) a joint without torques may move in a log and still count as standing: encoders jitter."""


def _unit_of_time(units: Mapping[str, UnitsLike] | None) -> str | None:
    """Unit of time that the user asked for, None where none was."""
    asked = units.get("t") if isinstance(units, Mapping) else None
    first = asked if isinstance(asked, str) or not asked else asked[0]
    return find_unit(first) if isinstance(first, str) else None


def _read_locks(
    table: Table, plan: ColumnPlan, robot: Robot, units: Mapping[str, UnitsLike] | None
) -> dict[str, float]:
    """Positions (rad, m) of the joints that a file does not have: 0, or where those without torques stand."""
    places = {joint: place for joint, place in plan.held.items() if place is not None}
    locks = dict.fromkeys(plan.held, 0.0)
    if not places:
        return locks
    kinds = {link.joint: link.kind for link in robot.links}
    asked = units.get("q") if isinstance(units, Mapping) else None
    ranges = {joint: [np.inf, -np.inf] for joint in places}
    fields = dict.fromkeys(place.field for place in (plan.t, *places.values()))
    wanted = tuple(Wanted(name, name in plan.turned) for name in fields)
    for batch in table.batches(wanted, CHUNK):
        for joint, place in places.items():
            values = np.asarray(_column_of_batch(batch, place), dtype=np.float64)
            values = values[np.abs(values) < LARGEST]
            low, high = ranges[joint]
            ranges[joint] = [min(low, values.min(initial=np.inf)), max(high, values.max(initial=-np.inf))]
    for joint, (low, high) in ranges.items():
        unit = asked if isinstance(asked, str) else split_unit(places[joint].field)[1]
        angular = find_unit(unit) in ("rad", "deg") if unit else True
        fits = unit is not None and angular == (kinds[joint] == "revolute")
        factor = si_factor(table.name, "q", unit) if fits and unit is not None else 1.0
        if not low <= high:
            continue  # never a number: as good as not there
        if factor * (high - low) > STILL[kinds[joint]]:
            raise LogError(
                table.name, "joint_moves_without_torque", "joint '{joint}' moves by {travel:.3g} {unit}, but has no "
                "torques in it", "name their column with {columns}, or, if its motion does not matter, hold it with "
                "{lock}", joint=joint, travel=factor * (high - low),
                unit="rad" if kinds[joint] == "revolute" else "m",
                columns=Option("columns", {f"tau.{joint}": ANYTHING}), lock=Option("lock", {joint: ANYTHING}),
            )  # fmt: skip
        locks[joint] = float(factor * 0.5 * (low + high))
    return locks


def robot_with_locks_of(robot: Robot, logs: Iterable[Log]) -> Robot:
    """Return the robot with the joints locked that its logs do not have; logs must agree on what these are."""
    kinds = {link.joint: link.kind for link in robot.links}
    several = {log: log.locks or _joints_after_arrays(log, robot) for log in logs}
    held: dict[str, float] = {}
    seen: dict[str, str] = {}
    for log, locks in several.items():
        for joint, position in locks.items():
            if joint not in robot.joint_names:
                continue  # locked already
            if joint in seen and joint in log.standing_joints and abs(held[joint] - position) > STILL[kinds[joint]]:
                raise LogError(
                    log.name, "locked_joint_differs", "joint '{joint}', which has no torques, stands at "
                    "{position:.6g}, and at {other:.6g} in {log}", "use logs with one position, or hold it with {lock}",
                    joint=joint, position=position, other=held[joint], log=seen[joint],
                    lock=Option("lock", {joint: ANYTHING}),
                )  # fmt: skip
            if joint in log.standing_joints and joint not in seen:
                held[joint], seen[joint] = position, log.name
            held.setdefault(joint, position)
    for log, locks in several.items():
        if more := [joint for joint in held if joint not in locks]:
            raise LogError(
                log.name, "joints_missing_in_other_logs", "it has the joints {joints:20}, which other logs lack",
                "hold them with {lock}, if they stood still", joints=more,
                lock=Option("lock", {joint: held[joint] for joint in more}),
            )  # fmt: skip
    return hold_missing_joints(robot, held, seen)


def _joints_after_arrays(log: Log, robot: Robot) -> dict[str, float]:
    """Joints of a gripper after those of a log in memory, whose columns are counted; none where it has all."""
    source = getattr(log.source, "whole", log.source)
    width = source.samples.q.shape[1] if isinstance(source, ArraySource) else robot.n
    return dict.fromkeys(robot.joint_names[width:], 0.0) if may_lack_last_joints(robot, width) else {}


IN_MEMORY = "frame"
"""What messages call a log that is not a file."""


def _open_parts(
    parts: Sequence[FilePart], robot: Robot, *, topic: TopicLike | None, header: object, rows: object, columns: object
) -> list[tuple[Table, FilePart]]:
    """Open the files and frames of a recording: topics are for its bags, headers for the others."""
    files = [Path(fspath(part.source)) if isinstance(part.source, str | PathLike) else None for part in parts]
    bags = [file is not None and is_bag(file) for file in files]
    several = header.split("+") if isinstance(header, str) and len(parts) > 1 else [header]
    headers = iter(several * (len(parts) - sum(bags)) if len(several) == 1 else several)
    if len(several) not in (1, len(parts) - sum(bags)):
        raise LogError(
            "+".join(map(str, files)), "header_count_mismatch", "{header} describes {given} files, there are {count}",
            "write one for all, or one for each with a + between", header=Option("header"), given=len(several),
            count=len(parts) - sum(bags),
        )  # fmt: skip
    opened: list[tuple[Table, FilePart]] = []
    prefixes = distinguishing_prefixes([IN_MEMORY if file is None else file.stem for file in files])
    for part, file, of_bag, prefix in zip(parts, files, bags, prefixes, strict=True):
        name = IN_MEMORY if file is None else str(file)
        own = (header if all(bags) else None) if of_bag else next(headers)
        counted = {*mapped_column_numbers(columns), *mapped_column_numbers(column_numbers_of_file(columns, prefix))}
        layout = Layout(
            () if own is None else parse_header(name, own, robot), frozenset(counted),
            check_row_range(name, rows if part.rows is None else part.rows),
        )  # fmt: skip
        topics = topic if of_bag or not any(bags) else None
        tables = _open_frame(part.source, topics, layout) if file is None else open_table(file, topics, layout)
        opened += [(table, part) for table in tables]
    return opened


def _open_frame(source: object, topic: TopicLike | None, layout: Layout) -> tuple[Table, ...]:
    """Open a frame or arrays in memory as a table."""
    from dynid.logs.readers.parquet import open_frame

    if topic is not None:
        raise LogError(IN_MEMORY, "topic_not_applicable", "{topic} is for bags only", topic=Option("topic"))
    return (layout.with_row_range(layout.with_user_names(open_frame(IN_MEMORY, source))),)


def _si_factors(
    name: str, plan: ColumnPlan, asked: Mapping[str, tuple[str, ...]]
) -> tuple[dict[str, Array | None], list[Message]]:
    """Return factors to SI per channel, None where all are 1: units asked for, else those of the header."""
    factors: dict[str, Array | None] = {}
    notes: list[Message] = []
    for channel, places in plan.channels.items():
        header = plan.units[channel]
        if channel in asked:
            values = [si_factor(name, channel, unit) for unit in asked[channel]]
        else:
            values = [
                1.0 if unit is None else si_factor(name, channel, unit, place.field)
                for unit, place in zip(header, places, strict=True)
            ]
            said = list(dict.fromkeys(unit for unit in header if unit is not None))
            if said:
                notes.append(Message(
                    "unit_from_column_names", "{channel} is in {units}, by the names of its columns", channel=channel,
                    units=said,
                ))  # fmt: skip
        factors[channel] = None if all(value == 1.0 for value in values) else np.array(values)
    if unknown := set(asked) - set(plan.channels) - {"t"}:
        raise LogError(
            name, "units_without_channel", "units are given for {channels}, which the file does not have",
            channels=sorted(unknown),
        )  # fmt: skip
    return factors, notes
