"""What is in a log file: its columns with a meaning and the reason for it, sampling, and each joint's channels checked.

Start with `inspect_log`. Nothing is repaired here; columns without names get a meaning by their content.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dynid.errors import DynidError, LogError
from dynid.logs.column_names import FACTORS, split_unit
from dynid.logs.columns import ColumnPlan
from dynid.logs.filtering import Splitting, windows_of_log
from dynid.logs.findings import BEYOND, QUANTITIES, ChannelScale, Findings
from dynid.logs.log import Log, Samples
from dynid.logs.readers.table import Field, Table, Wanted, numbered_columns
from dynid.logs.simulate import simulate
from dynid.logs.survey import Survey, plateau_level, standing_range, survey
from dynid.messages import ANYTHING, Message, Option
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

ROWS = 65_536
"""Rows that are looked at in each column."""

MOST_COLUMNS = 400
FEWEST_SAMPLES = 20
"""Rows from which on the size of an array may be a number of samples."""

PICTURE = 120
"""Points of the small picture of a column."""

BLOCKS = 200
"""Stretches of time over which a column is compared with the integral of another."""

ALIKE = 0.98
"""Correlation from which on a column is the derivative of another."""

EXPLAINED = 0.8
"""Share of a torque's variance beyond friction that a model must explain for its sign and scale to count."""

OTHER_LENGTH = "has another number of rows than most"
CHANNELS = ("q", "v", "a", "tau")


@dataclass(frozen=True, slots=True, eq=False)
class InspectedColumn:
    """One column: how options call it, its meaning (channel and joint) and why, unit, and figures of its first rows.

    unit: by the file's names, '' where they say none. noise: standard deviation of what is not smooth; resolution:
    distance of its levels, 0 where there are many; missing: share of rows without a value.
    """

    number: int
    reference: str
    name: str
    problem: str = ""
    channel: str = ""
    joint: str = ""
    why: Message | None = None
    unit: str = ""
    low: float = np.nan
    high: float = np.nan
    spread: float = 0.0
    noise: float = 0.0
    resolution: float = 0.0
    missing: float = 0.0
    remarks: tuple[Message, ...] = ()
    picture: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class TorqueMatch:
    """A torque column beside the nominal torque of a joint: scale = recorded / nominal, and the share explained.

    gravity: scale of the gravity torques alone over that of the others; NaN where the motion does not tell.
    """

    joint: str
    column: str
    scale: float
    explained: float
    gravity: float = np.nan


@dataclass(frozen=True, slots=True)
class JointCheck:
    """A joint's channels: positions (rad or m) beside limits, velocity over the slope of positions, torques.

    alike: correlation of velocity and slope; standing: whether the joint never moves. matches: its recorded torque
    beside the nominal ones of all joints, its own first. remarks: what looks wrong, each with the option that mends it.
    """

    joint: str
    kind: str
    low: float
    high: float
    limits: tuple[float, float]
    beyond: float
    standing: bool
    ratio: float = np.nan
    alike: float = np.nan
    matches: tuple[TorqueMatch, ...] = ()
    remarks: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Inspection:
    """What is in a log.

    columns: all of the file; problem: why its channels cannot be read by name, None where they can; mapping, units:
    what has to be said for it to be read, by channel; rate (Hz), jitter, longest_gap, seconds: of its time, NaN where
    that is not known; standstill: share of the time in which all joints stand still.
    """

    log: str
    columns: tuple[InspectedColumn, ...]
    rows: int
    is_whole: bool
    problem: Message | None = None
    mapping: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    units: Mapping[str, Any] = field(default_factory=dict)
    rate: float = np.nan
    jitter: float = np.nan
    gaps: int = 0
    longest_gap: float = 0.0
    seconds: float = np.nan
    standstill: float = np.nan
    joints: tuple[JointCheck, ...] = ()
    findings: tuple[Message, ...] = ()
    locks: Mapping[str, float] = field(default_factory=dict)
    slopes: tuple[tuple[int, int, float], ...] = ()
    """Pairs (position, velocity) of columns, counted from 1, with the ratio velocity / slope."""

    @property
    def warnings(self) -> tuple[Message, ...]:
        """What looks wrong: with single joints, and why names do not tell the channels."""
        own = () if self.problem is None else (self.problem,)
        return (*own, *(remark for joint in self.joints for remark in joint.remarks))


ReadLog = Callable[[Mapping[str, Any], Mapping[str, Any]], Log]
"""Reads the log with further columns and units, beside those that the user gave."""


def inspect_log(word: str, robot: Robot, read: ReadLog, open_file: Callable[[], Table]) -> Inspection:
    """Inspect one log.

    Parameters
    ----------
    word
        What the log is called in messages.
    robot
        The robot of the log, with what the user locked.
    read
        Reads the log with columns and units in addition to the user's options.
    open_file
        Opens the file as a table of all of its columns, where its channels cannot be found by name.

    Raises
    ------
    LogError
        Where the file holds no table at all.

    """
    problem: Message | None = None
    log: Log | None = None
    mapping: dict[str, tuple[str, ...]] = {}
    units: dict[str, Any] = {}
    try:
        log = read({}, {})
        table = _table_of_log(log)
    except LogError as error:
        if error.code in ("file_not_found", "file_unreadable", "not_a_file"):
            raise
        problem, table = error.message, open_file()
    columns, values, is_whole = _look_at_columns(table)
    slopes: tuple[tuple[int, int, float], ...] = ()
    if log is None:
        guess = _Guess(robot, columns, values)
        slopes, columns = guess.slopes, guess.columns
        mapping, units = guess.mapping, guess.units
        if mapping:
            try:
                log = read(mapping, units)
            except LogError:
                log, mapping, units = None, {}, {}
    else:
        columns = _columns_by_plan(columns, robot, log)
        slopes = _find_slopes(columns, values)
    found = Inspection(
        word, columns, max((len(x) for x in values), default=0), is_whole, problem, mapping, units, slopes=slopes
    )
    found = replace(found, columns=_with_units(found.columns, robot, found.units))
    return found if log is None else _inspect_channels(found, robot, log, read)


def proposed_options(error: DynidError, given: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return locks and units that the remedy of an error names, as far as they are new."""
    for option in error.facts.values():
        if isinstance(option, Option) and option.keyword in given and isinstance(option.value, Mapping):
            new = {k: v for k, v in option.value.items() if k not in given[option.keyword] and v is not ANYTHING}
            if new:
                return {option.keyword: new}
    return {}


def _table_of_log(log: Log) -> Table:
    """Return the table that a log is read from."""
    source: Any = getattr(log.source, "whole", log.source)
    table: Table = source.table
    return table


# The columns of a table, whatever they mean.


def _look_at_columns(table: Table) -> tuple[tuple[InspectedColumn, ...], list[Array], bool]:
    """Return all columns with their figures, their values, and whether these are all rows of the file."""
    fields = [entry for entry in table.fields if entry.name][:MOST_COLUMNS]
    usable = [entry for entry in fields if not entry.problem]
    length = _usual_length(usable)
    usable = [entry for entry in usable if not entry.shape or (length in entry.shape and _width(entry, length) <= 64)]
    pieces: dict[str, list[Array]] = {entry.name: [] for entry in usable}
    count, is_whole = 0, True
    wanted = tuple(Wanted(entry.name, _is_turned(entry, length)) for entry in usable)
    for batch in table.batches(wanted, ROWS) if wanted else ():
        for name, numbers in batch.items():
            pieces[name].append(np.asarray(numbers, dtype=np.float64)[: ROWS - count])
        count += len(next(iter(batch.values())))
        if count >= ROWS:
            is_whole = getattr(batch, "done", 1.0) >= 1.0 and count == ROWS
            break
    arrays = {name: np.concatenate(parts) if parts else np.zeros(0) for name, parts in pieces.items()}
    counted = {(one.name, k): str(number) for number, (one, k) in enumerate(numbered_columns(tuple(fields)), 1)}
    if any(entry.name.isdigit() and counted.get((entry.name, None)) != entry.name for entry in fields):
        counted = {}
    columns: list[InspectedColumn] = []
    values: list[Array] = []
    for entry in fields:
        if entry.name not in arrays:
            columns.append(InspectedColumn(len(columns) + 1, entry.name, entry.name, entry.problem or OTHER_LENGTH))
            values.append(np.zeros(0))
            continue
        array = arrays[entry.name]
        for k in [None] if array.ndim == 1 else range(min(array.shape[1], MOST_COLUMNS)):
            name = entry.name if k is None else f"{entry.name}[:, {k}]"
            reference = counted.get((entry.name, k), name)
            shown = "" if k is None and reference == entry.name and entry.name.isdigit() else name
            x = array if k is None else array[:, k]
            unit = entry.unit or split_unit(entry.name)[1] or ""
            columns.append(_measure(InspectedColumn(len(columns) + 1, reference, shown, unit=unit), x))
            values.append(x)
    return tuple(columns[:MOST_COLUMNS]), values[:MOST_COLUMNS], is_whole


def _usual_length(fields: Sequence[Field]) -> int:
    """Return the number of samples that most arrays of a file have; 0 for tables, whose columns have one length."""
    sizes = [size for entry in fields for size in entry.shape if size >= FEWEST_SAMPLES]
    return max(set(sizes), key=lambda size: (sizes.count(size), size)) if sizes else 0


def _width(entry: Field, length: int) -> int:
    """Number of columns of an array with so many samples."""
    return 1 if entry.is_column else entry.shape[0] if _is_turned(entry, length) else entry.shape[1]


def _is_turned(entry: Field, length: int) -> bool:
    """Whether the samples of a matrix run along its second axis."""
    return len(entry.shape) == 2 and entry.shape[0] != length and entry.shape[1] == length


def _measure(column: InspectedColumn, x: Array) -> InspectedColumn:
    """Return a column with the figures of its values (N,)."""
    known = x[np.isfinite(x)]
    missing = 1.0 - len(known) / max(len(x), 1)
    if not len(known):
        what = Message("column_empty", "no value in any of the rows")
        return replace(column, missing=missing, remarks=(what,))
    low, high = float(known.min()), float(known.max())
    remarks: list[Message] = []
    noise = spread = resolution = 0.0
    if low == high:
        remarks.append(Message("column_constant", "{value:.6g} in all rows: dead, or not used", value=low))
    elif len(known) > 8:
        scale = ChannelScale.from_values(known[:, None], 1.0)
        spread, resolution = float(scale.spread[0]), float(scale.resolution[0])
        noise = float(np.median(np.abs(np.diff(known, 3))) / (0.6745 * np.sqrt(20.0)))
        if scale.is_coarse[0]:
            remarks.append(Message(
                "column_coarse", "coarse: {levels} levels, {step:.3g} apart", levels=int(scale.levels[0]),
                step=resolution,
            ))  # fmt: skip
        elif np.isfinite(level := plateau_level(known)):
            remarks.append(Message("column_clipped", "held at +-{level:.4g}: saturated or clipped", level=level))
        if scale.hold > 1.0:
            remarks.append(Message("column_held", "a new value every {rows:.3g} rows only", rows=scale.hold))
    if missing > 0.0:
        remarks.append(Message("column_missing", "{percent:.2g} % of the rows are empty", percent=100.0 * missing))
    return replace(
        column, low=low, high=high, spread=spread, noise=noise, resolution=resolution, missing=missing,
        remarks=tuple(remarks), picture=_thin(x),
    )  # fmt: skip


def _thin(x: Array) -> tuple[float, ...]:
    """Return least and largest values of stretches in turn, for a small picture."""
    size = -(-len(x) // (PICTURE // 2))
    parts = [part[np.isfinite(part)] for part in np.split(x, range(size, len(x), size))] if size else []
    return tuple(float(f"{end:.5g}") for part in parts if len(part) for end in (part.min(), part.max()))


def _columns_by_plan(columns: Sequence[InspectedColumn], robot: Robot, log: Log) -> tuple[InspectedColumn, ...]:
    """Return the columns with the channels and joints that they are read as."""
    source: Any = getattr(log.source, "whole", log.source)
    plan: ColumnPlan = source.plan
    given = {str(key).split(".")[0].rstrip("0123456789") for key in source.given.get("columns") or {}}
    joints = [name for name in robot.joint_names if name not in plan.held]
    meaning: dict[str, tuple[str, str, str | None]] = {_name_of_place(plan.t): ("t", "", plan.t_unit)}
    for channel, places in plan.channels.items():
        order = source.wiring.order(channel) if channel != "reaction" else range(len(places))
        names = joints if channel != "reaction" else [str(k + 1) for k in range(len(places))]
        for j, k in enumerate(order):
            meaning[_name_of_place(places[int(k)])] = channel, names[j], plan.units[channel][int(k)]
    done = []
    for column in columns:
        said = meaning.get(column.name or column.reference)
        if said is not None:
            channel, joint, unit = said
            how = "as given" if channel in given else "by its name"
            why = Message("column_by_name", "{how}", how=how)
            column = replace(column, channel=channel, joint=joint, why=why, unit=unit or column.unit)
        done.append(column)
    return tuple(done)


def _name_of_place(place: Any) -> str:
    """Return the name of a place in a table as columns are listed."""
    return place.field if place.column is None else f"{place.field}[:, {place.column}]"


# Columns without names: what they can be by their content.


def _find_slopes(columns: Sequence[InspectedColumn], values: Sequence[Array]) -> tuple[tuple[int, int, float], ...]:
    """Return pairs of columns of which the second is the time derivative of the first, and the ratio to it."""
    t = next((x for column, x in zip(columns, values, strict=True) if column.channel == "t"), None)
    if t is None:
        return ()
    unit = next(column.unit for column in columns if column.channel == "t") or "s"
    seconds = t * FACTORS["t"].get(unit, 1.0)
    others = [k for k, column in enumerate(columns) if column.channel != "t" and column.spread > 0.0]
    others = [k for k in others if np.isfinite(values[k]).all() and len(values[k]) == len(t)]
    if len(t) < 20 or not others or not np.isfinite(t).all() or len(others) > 120:
        return ()
    x = np.column_stack([values[k] for k in others])
    size = max(1, len(t) // BLOCKS)
    ends = np.arange(0, len(t), size)
    steps = np.diff(seconds)[:, None]
    area = np.vstack([np.zeros(len(others)), np.cumsum(0.5 * (x[1:] + x[:-1]) * steps, axis=0)])
    moved, integral = np.diff(x[ends], axis=0), np.diff(area[ends], axis=0)
    power = moved.T @ integral
    norms = np.outer(np.linalg.norm(moved, axis=0), np.linalg.norm(integral, axis=0))
    alike = np.divide(power, norms, out=np.zeros_like(power), where=norms > 0.0)
    np.fill_diagonal(alike, 0.0)
    alike = np.where(np.abs(alike) >= np.abs(alike.T), alike, 0.0)  # of a vibration, each is almost the other's slope
    pairs = []
    for i in range(len(others)):
        k = int(np.argmax(np.abs(alike[i])))
        if abs(alike[i, k]) > ALIKE and np.abs(alike[:, k]).max() == abs(alike[i, k]):
            ratio = float(power[i, k] / (moved[:, i] @ moved[:, i]))
            pairs.append((others[i] + 1, others[k] + 1, ratio))
    return tuple(pairs)


class _Guess:
    """Meanings of columns without names: time, positions, velocities, accelerations and torques of a robot's joints."""

    def __init__(self, robot: Robot, columns: Sequence[InspectedColumn], values: Sequence[Array]) -> None:
        self.robot, self.values = robot, values
        self.columns = tuple(columns)
        self.mapping: dict[str, tuple[str, ...]] = {}
        self.units: dict[str, Any] = {}
        self.slopes: tuple[tuple[int, int, float], ...] = ()
        if self._find_time():
            self.slopes = _find_slopes(self.columns, values)
            self._find_channels()

    def _say(self, places: Sequence[int], channel: str, what: str, **facts: Any) -> None:
        """Give columns the meaning of a channel, one per joint in their order."""
        names = self.robot.joint_names if channel != "t" else ("",)
        columns = list(self.columns)
        for k, joint in zip(places, names, strict=True):
            why = Message("column_by_content", what, **facts)
            columns[k] = replace(columns[k], channel=channel, joint=joint, why=why)
        self.columns = tuple(columns)
        self.mapping[channel] = tuple(self.columns[k].reference for k in places)

    def _find_time(self) -> bool:
        """Find the column that grows most regularly."""
        best: tuple[float, int] | None = None
        for k, x in enumerate(self.values):
            steps = np.diff(x)
            if len(steps) < 8 or not np.isfinite(steps).all() or np.mean(steps > 0.0) < 0.99:
                continue
            counts = bool(np.all(steps == 1.0))  # a counter of rows, where there is a clock too
            off = float(np.median(np.abs(steps - np.median(steps))) / np.median(steps)) + counts
            best = min(best or (np.inf, 0), (off, k))
        if best is None:
            return False
        k, step = best[1], float(np.median(np.diff(self.values[best[1]])))
        unit = next((unit for unit, factor in FACTORS["t"].items() if factor * step < 0.5), "ns")
        self._say([k], "t", "grows by {step:.4g} from row to row, which is taken as {unit}", step=step, unit=unit)
        self.columns = tuple(replace(c, unit=unit) if c.channel == "t" else c for c in self.columns)
        if unit != "s":
            self.units["t"] = unit
        return True

    def _find_channels(self) -> None:
        """Find positions by their derivatives, or as the smoothest group; torques are what is left."""
        n = self.robot.n
        slope = {i - 1: (k - 1, ratio) for i, k, ratio in self.slopes}
        targets = {k for k, _ in slope.values()}
        roots = [i for i in slope if i not in targets]
        rest = [k for k, column in enumerate(self.columns) if column.channel == "" and column.spread > 0.0]
        if len(roots) == n:
            partners = [slope[i][0] for i in roots]
            self._say(roots, "q", "other columns are its derivatives")
            self._say(partners, "v", "the derivative of a position")
            further = [slope[k][0] for k in partners if k in slope]
            if len(further) == n:
                self._say(further, "a", "the derivative of a velocity")
            self._find_units(roots, partners, [slope[i][1] for i in roots])
        elif len(rest) == 2 * n:
            share = {k: self.columns[k].noise / self.columns[k].spread for k in rest}
            ranked = sorted(rest, key=lambda k: share[k])
            if share[ranked[n]] > 10.0 * share[ranked[n - 1]]:
                smooth = sorted(ranked[:n])
            else:
                first, second = (np.median([share[k] for k in half]) for half in (rest[:n], rest[n:]))
                smooth = rest[:n] if first <= second else rest[n:]
            self._say(smooth, "q", "the smoother half of the columns")
            self._find_units(smooth, [], [])
        rest = [k for k, column in enumerate(self.columns) if column.channel == "" and column.spread > 0.0]
        if "q" in self.mapping and len(rest) == n:
            self._say(rest, "tau", "the {n} columns that are left", n=n)

    def _find_units(self, q: Sequence[int], v: Sequence[int], ratios: Sequence[float]) -> None:
        """Find degrees by limits that positions leave and would keep as degrees, or by their size."""
        turns = np.array([self.robot.links[k].kind == "revolute" for k in self.robot.active_links])
        low, high = (np.array([getattr(self.columns[k], end) for k in q]) for end in ("low", "high"))
        limits, degree = self.robot.limits.position, np.pi / 180.0
        outside = (low < limits[:, 0] - 0.1) | (high > limits[:, 1] + 0.1)
        fits = (degree * low >= limits[:, 0] - 0.1) & (degree * high <= limits[:, 1] + 0.1)
        unlimited = ~np.isfinite(limits).all(axis=1) & (high - low > 4.0 * np.pi)
        if 2 * (turns & (outside | unlimited)).sum() > turns.sum() and fits[turns].all():
            self.units["q"] = [("deg" if turn else "m") for turn in turns] if not turns.all() else "deg"
        if v and len(ratios):
            ratio = float(np.median(np.abs(np.array(ratios)[turns]))) if turns.any() else 1.0
            in_degrees = "q" in self.units
            same = abs(np.log(ratio)) < 0.5
            if in_degrees and same:
                self.units["v"] = [("deg/s" if turn else "m/s") for turn in turns] if not turns.all() else "deg/s"
            elif not in_degrees and abs(np.log(ratio * degree)) < 0.5:
                self.units["v"] = "deg/s"


# Channels of the joints: beside limits, each other and the nominal model.


def _inspect_channels(found: Inspection, robot: Robot, log: Log, read: ReadLog) -> Inspection:
    """Return the inspection with sampling, findings and checks of all joints."""
    from dynid.logs.read import robot_with_locks_of

    locked = robot_with_locks_of(robot, [log])
    measured = tuple(name for name in ("tau", "reaction") if name in log.channels)[:1]
    units = dict(found.units)
    messages: list[Message] = []
    seen: Survey | None = None
    while seen is None:
        try:
            seen = survey(log, locked, measured=measured)
        except LogError as error:
            new = proposed_options(error, {"units": units}).get("units")
            if not new:
                messages.append(error.message)
                break
            messages.append(Message(
                "read_with_other_units", "{reason}; here it is read with {units}", reason=error.message.what,
                units=Option("units", new), because=error.message.code,
            ))  # fmt: skip
            units |= new
            log = read(found.mapping, units)
    found = replace(found, units=units, locks=dict(log.locks), columns=_with_units(found.columns, locked, units))
    if seen is None:
        return replace(found, findings=(*log.notes, *messages), problem=found.problem or messages[-1])
    findings = Findings(log.name, seen.rate, notes=list(log.notes))
    cut = Splitting(0, max(20.0 / seen.rate, 0.1), 1, True)
    steps = np.diff(seen.samples.t)
    for window in windows_of_log(log, seen, cut, findings):
        findings.add_positions(window.samples.q, len(window.samples) / seen.rate)
    checks = _check_joints(found, locked, log, seen)
    still = _standing_share(seen, locked)
    first, last = log.span
    said = [x for x in findings.sentences if x not in messages]
    return replace(
        found, rate=seen.rate, jitter=float(np.abs(steps[steps < cut.gap] - 1.0 / seen.rate).max(initial=0.0)),
        gaps=findings.gaps, longest_gap=findings.longest_gap, seconds=last - first, standstill=still,
        joints=checks, findings=(*messages, *said),
    )  # fmt: skip


def _with_units(
    columns: Sequence[InspectedColumn], robot: Robot, units: Mapping[str, Any]
) -> tuple[InspectedColumn, ...]:
    """Return the columns with the units in which they are read."""
    done = []
    for column in columns:
        unit = units.get(column.channel, column.unit)
        if not isinstance(unit, str):
            unit = unit[robot.joint_names.index(column.joint)]
        done.append(replace(column, unit=unit))
    return tuple(done)


def _standing_share(seen: Survey, robot: Robot) -> float:
    """Return the share of the rows in which no joint moves over a tenth of a second."""
    t, q = seen.samples.t, seen.samples.q
    step = min(max(1, round(0.1 * seen.rate)), len(q) - 1)
    moved = np.abs(q[step:] - q[:-step]) > 0.2 * standing_range(np.ones(robot.n))
    return float(np.mean(~moved.any(axis=1))) if len(t) > 1 else np.nan


def _check_joints(found: Inspection, robot: Robot, log: Log, seen: Survey) -> tuple[JointCheck, ...]:
    """Check the channels of every joint."""
    samples = seen.samples
    limits = robot.limits.position
    standing = seen.standing_joints(np.ones(robot.n))
    ratios, alike = _velocity_over_slope(samples)
    matches = _torques_beside_nominal(found, robot, samples, seen.rate)
    checks = []
    for j, name in enumerate(robot.joint_names):
        low, high = float(samples.q[:, j].min()), float(samples.q[:, j].max())
        beyond = max(limits[j, 0] - low, high - limits[j, 1], 0.0)
        check = JointCheck(
            name, robot.links[robot.active_links[j]].kind, low, high, (float(limits[j, 0]), float(limits[j, 1])),
            float(beyond), bool(standing[j]), float(ratios[j]), float(alike[j]), matches.get(name, ()),
        )  # fmt: skip
        checks.append(replace(check, remarks=tuple(_remarks(check, found))))
    return tuple(checks)


def _remarks(check: JointCheck, found: Inspection) -> list[Message]:
    """Return what looks wrong with a joint's channels."""
    said: list[Message] = []
    joint = check.joint
    unit = "rad" if check.kind == "revolute" else "m"
    if check.beyond > BEYOND:
        said.append(Message(
            "joint_beyond_limits", "joint {joint} goes {far:.3g} {unit} beyond its limits",
            "check its unit, sign and zero: {zero}", joint=joint, far=check.beyond, unit=unit,
            zero=Option("zero", {joint: ANYTHING}),
        ))  # fmt: skip
    if check.standing:
        said.append(Message("joint_stands", "joint {joint} stands still throughout", joint=joint))
    if check.alike < -0.9:
        said.append(Message(
            "velocity_reversed", "the velocity of joint {joint} is the slope of its position with the other sign",
            "turn it with {sign}", joint=joint, sign=Option("sign", [f"v.{joint}"]),
        ))  # fmt: skip
    elif check.alike > 0.9 and abs(np.log(check.ratio)) > np.log(1.5):
        said.append(Message(
            "velocity_scaled", "the velocity of joint {joint} is {ratio:.3g} times the slope of its position",
            "check the units of q, v and t", joint=joint, ratio=check.ratio,
        ))  # fmt: skip
    elif not check.standing and abs(check.alike) < 0.5:
        said.append(Message(
            "velocity_unlike", "the velocity of joint {joint} does not follow its position",
            "check the columns of q and v", joint=joint,
        ))  # fmt: skip
    own = next((match for match in check.matches if match.joint == joint), None)
    if own is None:
        return said
    best = max(check.matches, key=lambda match: match.explained)
    if own.gravity < -0.3:
        said.append(Message(
            "gravity_reversed", "the gravity torques of joint {joint} have the other sign than the rest of its torque",
            "is the robot mounted upside down? give {gravity}", joint=joint, gravity=Option("gravity"),
        ))  # fmt: skip
    elif abs(own.gravity) < 0.3:
        said.append(Message(
            "gravity_missing", "there are no gravity torques in the torque of joint {joint}",
            "record it without compensation of gravity, or give {gravity}", joint=joint, gravity=Option("gravity"),
        ))  # fmt: skip
    elif own.explained > EXPLAINED and own.scale < 0.0:
        said.append(Message(
            "torque_reversed", "the torque of joint {joint} is reversed: {scale:.3g} times that of the nominal model",
            "turn it with {sign}", joint=joint, scale=own.scale, sign=Option("sign", [f"tau.{joint}"]),
        ))  # fmt: skip
    elif best.explained > max(EXPLAINED, own.explained + 0.2):
        said.append(Message(
            "torque_of_other_joint", "the torque of joint {joint} looks like that of joint {other}",
            "check the order of the columns of tau", joint=joint, other=best.joint,
        ))  # fmt: skip
    elif own.explained > EXPLAINED and abs(np.log(abs(own.scale))) > np.log(1.8):
        said.append(Message(
            "torque_scaled", "the torque of joint {joint} is {scale:.3g} times that of the nominal model",
            "check its unit, or give {gain}", joint=joint, scale=own.scale, gain=Option("gain"),
        ))  # fmt: skip
    return said


def _velocity_over_slope(samples: Samples) -> tuple[Array, Array]:
    """Return velocity over the slope of positions, and their correlation, per joint; NaN without velocities."""
    n = samples.q.shape[1]
    if samples.v is None or len(samples) < 20:
        return np.full(n, np.nan), np.full(n, np.nan)
    wide = max(1, len(samples) // 2000)
    slope = (samples.q[wide:] - samples.q[:-wide]) / (samples.t[wide:] - samples.t[:-wide])[:, None]
    middle = 0.5 * (samples.v[wide:] + samples.v[:-wide])
    power, size = (slope * middle).sum(axis=0), (slope**2).sum(axis=0)
    norm = np.sqrt(size * (middle**2).sum(axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.abs(power / size), np.where(norm > 0.0, power / norm, np.nan)


def _torques_beside_nominal(
    found: Inspection, robot: Robot, samples: Samples, rate: float
) -> dict[str, tuple[TorqueMatch, ...]]:
    """Return each joint's recorded torque beside the nominal ones; nothing where there are no nominal values."""
    motion, tau = (None, None) if samples.tau is None else _smooth_motion(samples, rate)
    if motion is None or tau is None:
        return {}
    try:
        whole = simulate(robot, motion).tau
        still = simulate(robot, replace(motion, v=np.zeros_like(motion.v), a=np.zeros_like(motion.a))).tau
    except DynidError:
        return {}
    assert whole is not None
    assert still is not None
    columns = {c.joint: c.reference for c in found.columns if c.channel == "tau"}
    done: dict[str, tuple[TorqueMatch, ...]] = {}
    for c, name in enumerate(robot.joint_names):
        matches = [
            _match_torque(name, robot.joint_names[j], columns.get(name, ""), tau[:, c], whole[:, j], still[:, j],
                          motion.v[:, j])
            for j in range(robot.n)
        ]  # fmt: skip
        done[name] = tuple(sorted(matches, key=lambda match: match.joint != name))
    return done


def _match_torque(
    name: str, joint: str, column: str, y: Array, nominal: Array, gravity: Array, v: Array
) -> TorqueMatch:
    """Fit a recorded torque (N,) by a scaled nominal one and friction."""
    friction = np.column_stack([v, np.sign(v) * (np.abs(v) > 0.02 * np.abs(v).max(initial=0.0)), np.ones(len(v))])

    def rest(columns: Array) -> tuple[Array, float]:
        x, *_ = np.linalg.lstsq(columns, y, rcond=None)
        return np.asarray(x, dtype=np.float64), float(((y - columns @ x) ** 2).sum())

    _, before = rest(friction)
    x, after = rest(np.column_stack([nominal, friction]))
    explained = 1.0 - after / before if before > 0.0 and np.ptp(nominal) > 0.0 else 0.0
    ratio, moving = np.nan, nominal - gravity
    if name == joint and min(gravity.std(), moving.std()) > 0.15 * nominal.std() > 0.0:
        apart, after_apart = rest(np.column_stack([gravity, moving, friction]))
        is_sure = before > 0.0 and 1.0 - after_apart / before > EXPLAINED and apart[1]
        ratio = float(apart[0] / apart[1]) if is_sure else np.nan
    return TorqueMatch(joint, column, float(x[0]), float(explained), ratio)


def _smooth_motion(samples: Samples, rate: float) -> tuple[Motion | None, Array | None]:
    """Return motion and torques on a regular grid, smoothed over a fifth of a second, at most 4000 rows."""
    from scipy.signal import savgol_filter

    assert samples.tau is not None
    size = 2 * max(3, round(0.1 * rate)) + 1
    if len(samples) < 3 * size:
        return None, None
    grid = np.arange(samples.t[0], samples.t[-1], 1.0 / rate)
    q, tau = (np.column_stack([np.interp(grid, samples.t, x) for x in block.T]) for block in (samples.q, samples.tau))
    q, v, a = (savgol_filter(q, size, 4, deriv=k, delta=1.0 / rate, axis=0) for k in range(3))
    keep = slice(size, len(grid) - size, max(1, len(grid) // 4000))
    tau = savgol_filter(tau, size, 4, axis=0)
    return Motion(grid[keep], q[keep], v[keep], a[keep]), tau[keep]


def describe_channel(channel: str, joint: str) -> str:
    """Return a channel and joint in words: position of elbow, time."""
    return "time" if channel == "t" else f"{QUANTITIES[channel]} of {joint}" if channel else ""


def consecutive_numbers(references: Sequence[str]) -> str:
    """Return references as an option lists them, numbers in a row as a range: 2:8."""
    if len(references) > 1 and all(word.isdigit() for word in references):
        numbers = [int(word) for word in references]
        if all(b == a + 1 for a, b in itertools.pairwise(numbers)):
            return f"{numbers[0]}:{numbers[-1]}"
    return ",".join(references)
