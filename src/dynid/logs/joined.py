"""Several tables that are one recording, each with times of its own: joined row by row on the times of one of them.

The times are those of the table that holds the positions (the slowest one where there are several): positions are
differentiated twice, which no interpolation survives well. Other tables are brought to these times: one that is slower
or as fast by a cubic between the neighbouring samples, a faster one by its mean over one joined period, so that what
the joined rate cannot carry does not fold into it. Nothing is made up over gaps: a row that has no samples of a table
around it is left out and counted. All is read in chunks, each table once per pass.

With h the period of a table, T the joined one, both even, and x(k) the k-th derivative of a channel, interpolation is
off by at most 0.0161 h^3 max|x(3)| + 3/128 h^4 max|x(4)|, a mean by 3/640 T^4 max|x(4)| + h^2/12 max|x(2)|.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dynid.errors import LogError
from dynid.logs.column_names import (
    ColumnNameReader,
    distinguishing_prefixes,
    folder_of_field,
    name_numbers_in_files,
    si_factor,
)
from dynid.logs.columns import ColumnPlan, match_time
from dynid.logs.ordering import SLOWEST
from dynid.logs.read import find_time_unit, sample_stamps, times_in_seconds
from dynid.logs.readers.table import Batch, Field, Part, Table, Wanted
from dynid.logs.stray_times import LATE, StrayTimes, are_usable_times, times_of_recording
from dynid.messages import Message, Option, Wording
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

if TYPE_CHECKING:
    from dynid.logs.log import Log

NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?%?"
TIME_RANGE = re.compile(rf"(?P<start>{NUMBER})?:(?P<stop>{NUMBER})?")

PERIODS = 4.0
"""Periods of a table by which two of its samples may be apart and still tell what was between them."""

FASTER = 1.5
"""A table that is faster than the joined rate by more than this is averaged."""

PROBE = 2048
"""Rows that tell the period of a table."""

HELD = 65_536
"""Samples of a faster table among rows that are joined at once, about."""

STRETCHES = 3
"""Stretches of time without samples that are named."""

TIME = "t"
"""Name of the joined times."""


@dataclass(frozen=True, slots=True, eq=False)
class FilePart:
    """One of the files of a recording.

    Parameters
    ----------
    source : path, frame or mapping
        What `read_log` takes.
    shift : float
        Added to its times, s.
    ranges : tuple of str
        Times that count, as on the command line: "2.5:20" in s after its start, or "0%:65%".
    rows : (int or None, int or None), optional
        First and last row that count, counted from 1 and both included; None leaves an end open.
    """

    source: Any
    shift: float = 0.0
    ranges: tuple[str, ...] = ()
    rows: tuple[int | None, int | None] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.ranges, str):
            object.__setattr__(self, "ranges", (self.ranges,))
        if not isinstance(self.shift, int | float) or not np.isfinite(self.shift):
            raise LogError(
                str(self.source)[:60], "invalid_shift", "shift must be a finite number of seconds, got {value!r}",
                value=str(self.shift)[:60],
            )  # fmt: skip

    @property
    def suffix(self) -> str:
        """Ranges and time shift as written after the name of the file."""
        rows = [] if self.rows is None else ["#" + ":".join("" if end is None else str(end) for end in self.rows)]
        shift = [_shift_text(self.shift)] if self.shift else []
        return "".join(f"@{text}" for text in (*rows, *self.ranges, *shift))


def _shift_text(shift: float) -> str:
    """A shift of time to the microsecond, never with an exponent: days of seconds keep their fractions."""
    return f"{shift:+.6f}".rstrip("0").removesuffix(".")


@dataclass(slots=True)
class Seen:
    """What reading a table has seen: rows left out, and the share of the file that was read."""

    unused: int = 0
    done: float = np.nan


def file_parts(source: object) -> list[FilePart]:
    """The files of a recording: one, or those of a list."""
    several = list(source) if isinstance(source, list | tuple) else [source]
    parts = [part if isinstance(part, FilePart) else FilePart(part) for part in several]
    if not parts or any(isinstance(part.source, list | tuple) for part in parts):
        raise LogError(
            "read_log", "invalid_recording", "a recording in several files is a list of them, got {value!r}",
            value=str(source)[:60],
        )  # fmt: skip
    names = [str(part.source) for part in parts if isinstance(part.source, str | PathLike)]
    if twice := [name for name in names if names.count(name) > 1]:
        raise LogError("+".join(names), "file_twice", "'{file}' is there twice", "name it once", file=twice[0])
    return parts


@dataclass(frozen=True, slots=True, eq=False)
class TimedTable:
    """A table with its time: `origin` is the instant, in s, from which its own times count.

    plan: of the time alone; factor: of its unit; first: stamp to count from; step: the period, in s; start, stop: part
    of it that counts, in its own times; given: what the user said of the file.
    """

    table: Table
    plan: ColumnPlan
    factor: float
    first: int | float | None
    origin: Fraction
    step: float = np.inf
    start: float = -np.inf
    stop: float = np.inf
    given: FilePart = field(default_factory=lambda: FilePart(None))

    @staticmethod
    def from_table(
        table: Table, part: FilePart, robot: Robot, columns: Mapping[str, object], unit: str | None
    ) -> TimedTable:
        """Find the time of a table, its unit and its period, and cut it to its ranges."""
        plan = match_time(table.name, table.fields, robot, columns)
        unit, first, notes = find_time_unit(table, plan, unit)
        factor = si_factor(table.name, "t", unit, plan.t.field)
        origin = Fraction(0 if first is None else first) * Fraction(str(factor)) + Fraction(part.shift)
        found = TimedTable(table, replace(plan, notes=(*plan.notes, *notes)), factor, first, origin, given=part)
        found = replace(found, step=_usual_period(found))
        for text in part.ranges:
            found = cut_log(found, text)
        return found

    @property
    def name(self) -> str:
        """Name of the table in messages."""
        return self.table.name

    def seconds_after(self, other: TimedTable) -> float:
        """Seconds by which its own times are later on the clock of another table."""
        return float(self.origin - other.origin)

    def own_times(self, rows: int = PROBE) -> Iterator[Array]:
        """Yield its own times that belong to the recording, in s, in the order of the file."""
        for t in times_of_recording(self._stamps(batch) for batch in self.table.batches(self.plan.wanted_fields, rows)):
            yield t[(t >= self.start) & (t < self.stop)]

    def _stamps(self, batch: Batch) -> Array:
        """Stamps of a batch, in the table's own unit."""
        return times_in_seconds(sample_stamps(batch, self.plan), self.factor, self.first)

    @property
    def span(self) -> tuple[float, float]:
        """First and last of its own times."""
        first, last = np.inf, -np.inf
        for t in self.own_times():
            first, last = min(first, float(t.min(initial=np.inf))), max(last, float(t.max(initial=-np.inf)))
        if not first <= last:
            raise LogError(self.name, "no_samples", "there are no samples in it")
        return first, last

    def between(self, start: float | None = None, stop: float | None = None) -> TimedTable:
        """Return the part from `start` to before `stop`, in s after the first sample; negative: before the end."""
        first, last = self.span
        begin = self.start if start is None else (last if start < 0 else first) + start
        finish = self.stop if stop is None else (last if stop < 0 else first) + stop
        if not begin < finish or begin > last or finish <= first:
            raise LogError(
                self.name, "range_without_samples", "there is nothing between {begin:.6g} s and {finish:.6g} s; it "
                "lasts {last:.6g} s", begin=max(begin, first) - first, finish=min(finish, last) - first,
                last=last - first,
            )  # fmt: skip
        return replace(self, start=begin, stop=finish)

    def rows_with_times(self, wanted: tuple[Wanted, ...], rows: int, seen: Seen) -> Iterator[tuple[Array, Array]]:
        """Yield its own times and the wanted fields side by side, in the order of the file.

        Rows that repeat the one before, or whose times are missing or stray, are left out and counted in `seen`;
        equal stamps of a rounded clock are spread up to the next one. Raises where the clock was set back.
        """
        for t, x in _spread_equal_times(self._rows_of_recording(wanted, rows, seen), self.step, seen):
            inside = (t >= self.start) & (t < self.stop)
            if inside.any():
                yield t[inside], x[inside]

    def _rows_of_recording(self, wanted: tuple[Wanted, ...], rows: int, seen: Seen) -> Iterator[tuple[Array, Array]]:
        """Rows whose times belong to the recording, as they are."""
        stray, last = StrayTimes(self.step), -np.inf
        t, x = np.zeros(0), np.zeros((0, 0))
        both = tuple(dict.fromkeys((*self.plan.wanted_fields, *wanted)))
        batches = self.table.batches(both, rows)
        final = False
        while not final:
            batch = next(batches, None)
            final = batch is None
            if batch is not None:
                more = self._stamps(batch)
                columns = [np.asarray(batch[one.name], dtype=np.float64).reshape(len(more), -1) for one in wanted]
                usable = are_usable_times(more)
                seen.unused, seen.done = seen.unused + int((~usable).sum()), getattr(batch, "done", np.nan)
                block = np.concatenate([np.zeros((len(more), 0)), *columns], axis=1)[usable]
                t, x = np.append(t, more[usable]), np.concatenate([x, block]) if len(t) else block
                if len(t) <= 2 * LATE:
                    continue
            good = stray.find_belonging(t, final=final)
            seen.unused += int((~good).sum())
            ready, values = t[: len(good)][good], x[: len(good)][good]
            t, x = t[len(good) :], x[len(good) :]
            back = np.flatnonzero(np.diff(ready, prepend=last) < -max(1.0, 100.0 * self.step))
            if len(back):
                before = ready[back[0] - 1] if back[0] else last
                raise LogError(
                    self.name, "clock_set_back", "the clock was set back from {before:.6g} s to {after:.6g} s, so that "
                    "its rows cannot be joined with those of another file", "take the rows before or after "
                    "it: {rows}", rows=Wording("dynid.FilePart(file, rows=(FIRST, LAST))", "FILE@#FIRST:LAST"),
                    before=float(before), after=float(ready[back[0]]),
                )  # fmt: skip
            if len(ready):
                last = ready[-1]
                yield ready, values


CutLike = TypeVar("CutLike", "Log", "TimedTable")


def cut_log(log: CutLike, text: str) -> CutLike:
    """Return the part of a log that `2.5:20` (s after its start, negative: before its end) or `0%:65%` means."""
    match = TIME_RANGE.fullmatch(text)
    if match is None:
        raise LogError(
            log.name, "range_malformed", "cannot read the range '{text}'", "write FILE@2.5:20 in s, or FILE@0%:65%",
            text=text,
        )  # fmt: skip
    first, last = log.span
    start, stop = (_parse_range_end(log, text, match[side], last - first) for side in ("start", "stop"))
    begins = start is None or start == 0.0
    return log.between(None if begins else start, None if match["stop"] == "100%" else stop)


def _parse_range_end(log: Log | TimedTable, text: str, word: str | None, length: float) -> float | None:
    """Start or end (s) of a time range such as `2.5`, `-2` or `65%`; None where it is left open."""
    if word is None:
        return None
    value = float(word.rstrip("%"))
    if word.endswith("%"):
        if abs(value) > 100.0:
            raise LogError(log.name, "range_beyond_log", "the range '{text}' goes beyond 100 %", text=text)
        value *= length / 100.0
    if abs(value) > length * (1.0 + 1e-9):
        raise LogError(
            log.name, "range_beyond_log", "the range '{text}' goes beyond the log; it lasts {length:.6g} s", text=text,
            length=length,
        )  # fmt: skip
    return value


def _spread_equal_times(
    pieces: Iterable[tuple[Array, Array]], step: float, seen: Seen
) -> Iterator[tuple[Array, Array]]:
    """Yield rows with stamps that differ; step: the usual time between rows. Those of the last stamp wait."""
    t, x = np.zeros(0), np.zeros((0, 0))
    for more, block in itertools.chain(pieces, [(np.array([np.inf]), None)]):
        if block is None:
            t, x = np.append(t, more), np.concatenate([x, np.zeros((1, x.shape[1]))])
        else:
            t, x = np.append(t, more), np.concatenate([x, block]) if len(t) else block
        stop = len(t) - int(np.argmax(np.append(t[::-1] != t[-1], True)))
        following, ready, values = t[-1], t[:stop], x[:stop]
        t, x = t[stop:], x[stop:]
        if not len(ready):
            continue
        if (np.diff(ready) == 0.0).any():
            again = np.append(False, (np.diff(ready) == 0.0) & (values[1:] == values[:-1]).all(axis=1))
            seen.unused += int(again.sum())
            ready, values = ready[~again], values[~again]
            starts = np.flatnonzero(np.diff(ready, prepend=np.nan) != 0.0)
            counts = np.diff(starts, append=len(ready))
            apart = np.diff(ready[starts], append=following) / counts
            apart = np.where(np.isinf(apart), step, np.clip(apart, 0.0, 1.5 * step))
            ready = ready + (np.arange(len(ready)) - np.repeat(starts, counts)) * np.repeat(apart, counts)
        yield ready, values


def _usual_period(table: TimedTable) -> float:
    """Usual time between samples, by the first ones: the median step, or the mean of all but the longest 1 %."""
    t = next(table.own_times(), np.zeros(0))
    steps = np.sort(np.abs(np.diff(t)))
    if not len(steps) or steps[-1] == 0.0:
        raise LogError(
            table.name, "time_constant", "it has no two times that differ, so that it cannot be joined with others",
            "name the column of time with {columns}", columns=Option("columns", {"t": "NAME"}),
        )  # fmt: skip
    usual, shared = np.median(steps[steps > 0.0]), np.mean(steps == 0.0)
    if shared > 0.1:  # a rounded clock
        return float(usual * (1.0 - shared))
    return float(max(usual, steps[: max(1, int(0.99 * len(steps)))].mean()))


@dataclass(slots=True)
class _Absent:
    """Joined times at which a table has no samples around: how many, and the first stretches of them."""

    count: int = 0
    stretches: list[list[float]] = field(default_factory=list)
    more: int = 0
    _open: bool = False

    def add_rows(self, t: Array, good: NDArray[np.bool_]) -> None:
        """Count rows at times t, and which of them have samples around them."""
        self.count += int((~good).sum())
        if good.all():
            self._open = False
            return
        edges = np.flatnonzero(np.diff(np.concatenate([[True], good, [True]]).astype(np.int8)))
        for begin, end in edges.reshape(-1, 2):
            if begin == 0 and self._open:
                if not self.more:
                    self.stretches[-1][1] = float(t[end - 1])
            elif len(self.stretches) < STRETCHES:
                self.stretches.append([float(t[begin]), float(t[end - 1])])
            else:
                self.more += 1
        self._open = not good[-1]


class _Follower:
    """A table on its way to the times of another: only the samples around the rows at hand are kept."""

    def __init__(
        self, table: TimedTable, wanted: tuple[Wanted, ...], base: TimedTable, rows: int, turns: Sequence[float] = ()
    ) -> None:
        self.table, self.absent, self.seen = table, _Absent(), Seen()
        self._turns = {k: turn for k, turn in enumerate(turns) if np.isfinite(turn) and table.step * SLOWEST <= 1.0}
        self._last, self._added, self.unwrapped = dict[int, float](), dict.fromkeys(self._turns, 0.0), 0
        self._stream = table.rows_with_times(wanted, rows, self.seen)
        self._later = table.seconds_after(base)  # its own times on the clock of the base
        self._period = base.step if table.step * FASTER < base.step else 0.0
        self._back = max(1.0, 100.0 * base.step) + 1.5 * self._period + PERIODS * table.step
        self._t, self._x = np.zeros(0), np.zeros((0, 0))

    def values_at(self, t: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return values (rows, columns) at the times of the base, and which rows have samples around them."""
        last = float(t.max()) + 1.5 * self._period
        while np.count_nonzero(self._t > last) <= LATE:
            times, values = next(self._stream, (None, None))
            if times is None or values is None:
                break
            values = self._unwrap(values)
            self._x = np.concatenate([self._x, values]) if len(self._t) else values
            self._t = np.append(self._t, times + self._later)
            if (np.diff(self._t) < 0.0).any():
                order = np.argsort(self._t, kind="stable")
                self._t, self._x = self._t[order], self._x[order]
            self._drop_samples_before(float(t.min()))
        if len(self._t) < 2:
            values, good = np.full((len(t), self._x.shape[1]), np.nan), np.zeros(len(t), dtype=np.bool_)
        else:
            values, good = _resample_at(t, self._t, self._x, PERIODS * self.table.step, self._period)
        self.absent.add_rows(t, good)
        self._drop_samples_before(float(t[-1]))
        return values, good

    def _unwrap(self, values: Array) -> Array:
        """Unwrap columns that jump by a turn, as nothing lies between its two sides."""
        out = values
        for k, turn in self._turns.items():
            known = np.flatnonzero(np.isfinite(values[:, k]))
            x = values[known, k]
            whole = np.round(np.diff(x, prepend=self._last.get(k, x[0] if len(x) else 0.0)) / turn)
            if whole.any() or self._added[k]:
                out = out.copy() if out is values else out
                added = self._added[k] - turn * np.cumsum(whole)
                out[known, k] += added
                self._added[k] = float(added[-1]) if len(x) else self._added[k]
                self.unwrapped += int(np.count_nonzero(whole))
            self._last[k] = float(x[-1]) if len(x) else self._last.get(k, 0.0)
        return out

    def _drop_samples_before(self, instant: float) -> None:
        """Drop samples that no row after an instant needs, however late it comes."""
        keep = int(np.searchsorted(self._t, instant - self._back)) - LATE
        if keep > 0:
            self._t, self._x = self._t[keep:], self._x[keep:]


def _resample_at(t: Array, known: Array, x: Array, gap: float, period: float) -> tuple[Array, NDArray[np.bool_]]:
    """Values at times t of samples x (N, k) at increasing times; period: over which to average, 0: interpolate.

    Also returns at which times there are samples: between two of them that are no further apart than `gap`.
    """
    reach = 1.5 * period
    low, high = (
        np.clip(np.searchsorted(known, edge, "right") - 1, 0, len(known) - 2) for edge in (t - reach, t + reach)
    )
    gaps = np.append(0, np.cumsum(np.diff(known) > gap))
    little = 1e-3 * gap / PERIODS  # equal stamps may differ by their rounding
    good = (t - reach >= known[0] - little) & (t + reach <= known[-1] + little) & (gaps[high + 1] == gaps[low])
    return (_average_over_period(t, known, x, period) if period else _interpolate_by_cubics(t, known, x, gap)), good


def _interpolate_by_cubics(t: Array, known: Array, x: Array, gap: float) -> Array:
    """Cubic between neighbours with slopes by the samples around each; parabola beside a gap or an end.

    At even steps h exact for polynomials of degree 2, else off by at most 0.0161 h^3 max|x(3)| + 3/128 h^4 max|x(4)|,
    beside a gap by 0.065 h^3 max|x(3)|; a straight line is off by h^2/8 max|x(2)|. A sample at the very time stays as
    it is. Slopes over two steps, not those of the cubic through four samples: they bear stamps that nearly coincide.
    """
    k = np.clip(np.searchsorted(known, t, "right") - 1, 0, len(known) - 2)
    h = np.maximum(known[k + 1] - known[k], 1e-300)
    s = np.clip((t - known[k]) / h, 0.0, 1.0)[:, None]
    before, after = np.maximum(k - 1, 0), np.minimum(k + 2, len(known) - 1)
    rise = x[k + 1] - x[k]
    slopes, known_slopes = [], []
    for first, last, far in ((before, k + 1, known[k] - known[before]), (k, after, known[after] - known[k + 1])):
        slopes.append((x[last] - x[first]) * (h / np.maximum(known[last] - known[first], 1e-300))[:, None])
        usable = (0.0 < far) & (far <= gap)
        known_slopes.append(usable[:, None] & np.isfinite(slopes[-1]))
    (left, right), (has_left, has_right) = slopes, known_slopes
    left, right = (
        np.where(has_left, left, np.where(has_right, 2.0 * rise - right, rise)),
        np.where(has_right, right, np.where(has_left, 2.0 * rise - left, rise)),
    )
    cubic = x[k] + s * (left + s * (3.0 * rise - 2.0 * left - right + s * (left + right - 2.0 * rise)))
    return np.where(s == 0.0, x[k], np.where(s == 1.0, x[k + 1], cubic))


def _average_over_period(t: Array, known: Array, x: Array, period: float) -> Array:
    """Mean over a period T around t of the polygon through samples, corrected for curvature.

    (27 (I(t + T/2) - I(t - T/2)) - (I(t + 3T/2) - I(t - 3T/2))) / 24 T with the integral I: 1 up to T^4, 0 at the
    frequencies 1/T, 2/T, ... that would fold to standstill.
    """
    missing = np.isnan(x)
    some = missing.any()
    filled = np.where(missing, 0.0, x) if some else x
    h = np.diff(known)
    area = np.concatenate([np.zeros((1, x.shape[1])), np.cumsum(0.5 * (filled[1:] + filled[:-1]) * h[:, None], axis=0)])
    slope = np.diff(filled, axis=0) / np.maximum(h, 1e-300)[:, None]

    def integral(at: Array) -> tuple[Array, NDArray[np.int64]]:
        k = np.clip(np.searchsorted(known, at, "right") - 1, 0, len(known) - 2)
        d = (at - known[k])[:, None]
        return area[k] + d * (filled[k] + 0.5 * d * slope[k]), k

    (far, low), (near, _), (near_up, _), (far_up, high) = (integral(t + s * period) for s in (-1.5, -0.5, 0.5, 1.5))
    mean = (27.0 * (near_up - near) - (far_up - far)) / (24.0 * period)
    if some:
        count = np.concatenate([np.zeros((1, x.shape[1])), np.cumsum(missing, axis=0)])
        mean[count[high + 2] > count[low]] = np.nan
    return np.asarray(mean)


@dataclass(frozen=True, slots=True, eq=False)
class JoinedTable:
    """Tables of one recording as one table, whose fields are those of all of them.

    places: which table and which of its fields a field is; base: the table that gives the times; turns: what a turn is
    in the columns of fields with positions, NaN where a column is none.
    """

    tables: tuple[TimedTable, ...]
    fields: tuple[Field, ...]
    places: Mapping[str, tuple[int, Wanted]]
    base: int = 0
    notes: tuple[Message, ...] = ()
    left_out: list[Message] = field(default_factory=list)
    turns: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The files, as the command line names them together."""
        words = [part.table.name + part.given.suffix for part in self.tables]
        return "+".join(dict.fromkeys(words))

    @property
    def files(self) -> tuple[str, ...]:
        """The files one by one."""
        named = [part.table.name for part in self.tables if isinstance(part.given.source, str | PathLike)]
        return tuple(dict.fromkeys(named))

    def at_times_of(self, plan: ColumnPlan) -> JoinedTable:
        """Choose the table that gives the times: that of the positions, of several the slowest; check that all meet."""
        holders = {self.places[place.field][0] for place in plan.channels["q"]}
        used = {self.places[one.name][0] for one in plan.wanted_fields if one.name != TIME}
        base = max(sorted(holders), key=lambda k: self.tables[k].step)
        chosen = replace(self, base=base)
        others = [self.tables[k] for k in sorted(used - {base})]
        main = self.tables[base]
        for other in others:
            channels = [c for c, some in plan.channels.items() if self.tables[self.places[some[0].field][0]] is other]
            _check_times_meet(self.name, main, other, channels)
        said = Message(
            "joined_on_times", "rows are at the times of {base}, which holds the positions ({rate:.4g} Hz)",
            base=chosen.label(main), rate=1.0 / main.step,
        )  # fmt: skip
        averaged = [part for part in others if part.step * FASTER < main.step]
        notes = [
            Message(
                "joined_by_averaging", "{other} ({rate:.4g} Hz) is faster: it is averaged over {period:.3g} s",
                other=chosen.label(part), rate=1.0 / part.step, period=main.step,
            )
            if part in averaged
            else Message(
                "joined_by_interpolation", "{other} ({rate:.4g} Hz) is interpolated: it holds nothing above {most:.3g} "
                "Hz", other=chosen.label(part), rate=1.0 / part.step, most=0.5 / part.step,
            )
            for part in others
        ]  # fmt: skip
        ends = [(part.start + later, part.stop + later) for part in self.tables for later in [part.seconds_after(main)]]
        start, stop = max(first for first, _ in ends), min(last for _, last in ends)
        whole = [replace(part, start=-np.inf, stop=np.inf) for part in self.tables]
        whole[base] = replace(main, start=start, stop=stop)
        return replace(chosen, tables=tuple(whole), notes=(*self.notes, *((said, *notes) if others else ())))

    def with_turns(self, plan: ColumnPlan, factors: Array | None) -> JoinedTable:
        """Return the table with positions marked as angles to unwrap; factors: to SI, of each joint, None for 1."""
        widths = {one.name: 1 if one.is_column else one.shape[1] for one in self.fields}
        places = plan.channels["q"]
        turns = {place.field: [np.nan] * widths[place.field] for place in places}
        for place, factor in zip(places, np.ones(len(places)) if factors is None else factors, strict=True):
            turns[place.field][place.column or 0] = 2.0 * np.pi / factor
        return replace(self, turns={name: tuple(some) for name, some in turns.items()})

    def label(self, part: TimedTable) -> str:
        """Short name of a table among the others."""
        return _short_table_labels([one.table for one in self.tables])[self.tables.index(part)]

    def batches(self, wanted: tuple[Wanted, ...], rows: int) -> Iterator[Batch]:
        """Yield batches of all tables side by side, at the times of one of them."""
        self.left_out.clear()
        base, seen = self.tables[self.base], Seen()
        mine = {k: tuple(one for one in wanted if one.name != TIME and self.places[one.name][0] == k)
                for k in range(len(self.tables))}  # fmt: skip
        inner = {k: tuple(self.places[one.name][1] for one in some) for k, some in mine.items()}
        widths = {one.name: 1 if one.is_column else one.shape[1] for one in self.fields}
        turns = {k: [x for one in some for x in self.turns.get(one.name, [np.nan] * widths[one.name])]
                 for k, some in mine.items()}  # fmt: skip
        followers = [_Follower(part, inner[k], base, rows, turns[k]) for k, part in enumerate(self.tables)
                     if k != self.base and inner[k]]  # fmt: skip
        order = [self.base, *(k for k in range(len(self.tables)) if k != self.base and inner[k])]
        start = 0.0 if base.first is not None else float(base.origin)
        total, given, begin = 0, 0, 0.0
        for t, x in _cut_into_short_pieces(
            base.rows_with_times(inner[self.base], rows, seen), base, [one.table for one in followers]
        ):
            begin = begin if total else float(t[0])
            total += len(t)
            found = [follower.values_at(t) for follower in followers]
            good = np.logical_and.reduce([np.ones(len(t), dtype=np.bool_), *(mask for _, mask in found)])
            blocks = dict(zip(order, [x, *(values for values, _ in found)], strict=True))
            for first in range(0, len(good), rows):
                part = first + np.flatnonzero(good[first : first + rows])
                if len(part):
                    given += len(part)
                    batch = {TIME: t[part] + start}
                    for k, block in blocks.items():
                        batch |= _fields_of_columns(block[part], mine[k], self.fields)
                    yield Part(batch, seen.done)
        self._report(base, followers, seen, (total, begin))
        if not given:
            raise LogError(self.name, "no_joined_rows", *_NO_ROWS, base=self.label(base),
                           others=[self.label(one.table) for one in followers if one.absent.count])  # fmt: skip

    def _report(self, base: TimedTable, followers: Sequence[_Follower], seen: Seen, rows: tuple[int, float]) -> None:
        """Add messages on what was left out; rows: their number and the time of the first one."""
        total, begin = rows
        for table, of in ((base, seen), *((one.table, one.seen) for one in followers)):
            if of.unused:
                what = "{rows} rows of {file} repeat others or have no usable time: left out"
                self.left_out.append(Message("joined_rows_without_time", what, rows=of.unused, file=self.label(table)))
        for follower in followers:
            if follower.unwrapped:
                what = "{count} jumps of positions of {file} by a turn were made continuous"
                facts = {"count": follower.unwrapped, "file": self.label(follower.table)}
                self.left_out.append(Message("joined_positions_unwrapped", what, **facts))
            absent = follower.absent
            if absent.count:
                spans = [(f"{a - begin:.4g} s", f"{b - begin:.4g} s") for a, b in absent.stretches]
                listed = ", ".join(a if a == b else f"{a} to {b}" for a, b in spans)
                self.left_out.append(Message(
                    "joined_rows_left_out", "{rows} of {total} rows of {base} are left out: {other} has no samples "
                    "around them, at {stretches}", rows=absent.count, total=total, base=self.label(base),
                    other=self.label(follower.table),
                    stretches=listed + (f" and {absent.more} more times" if absent.more else ""),
                ))  # fmt: skip
        for part in self.tables:
            self.left_out.extend(getattr(part.table, "left_out", ()))


_NO_ROWS = (
    "no row of {base} has samples of {others} around it",
    "check that their clocks agree and that none has large gaps",
)


def _fields_of_columns(block: Array, wanted: Sequence[Wanted], fields: Sequence[Field]) -> dict[str, Array]:
    """Fields by name from columns side by side."""
    widths = {one.name: 1 if one.is_column else one.shape[1] for one in fields}
    flat = {one.name: one.is_column for one in fields}
    found, start = dict[str, Array](), 0
    for one in wanted:
        part = block[:, start : start + widths[one.name]]
        found[one.name] = part[:, 0] if flat[one.name] else part
        start += widths[one.name]
    return found


def _cut_into_short_pieces(
    pieces: Iterable[tuple[Array, Array]], base: TimedTable, others: Sequence[TimedTable]
) -> Iterator[tuple[Array, Array]]:
    """Cut rows where they have gaps, and so that few samples of faster tables lie among them: these stay in memory."""
    size = max(256, int(HELD * min([1.0, *(other.step / base.step for other in others)])))
    for t, x in pieces:
        breaks = np.flatnonzero(np.abs(np.diff(t)) > max(1.0, 100.0 * base.step)) + 1
        for first, last in itertools.pairwise(sorted({0, *breaks.tolist(), len(t)})):
            for start in range(first, last, size):
                part = slice(start, min(start + size, last))
                yield t[part], x[part]


def _check_times_meet(name: str, base: TimedTable, other: TimedTable, channels: Sequence[str]) -> None:
    """Raise where two tables have no time in common; only as much of them is read as needed."""
    both = (base, other)
    begins = [
        next((float(t.min()) for t in part.own_times() if len(t)), np.inf) + part.seconds_after(base) for part in both
    ]
    late = int(np.argmax(begins))
    early = both[1 - late]
    offset = early.seconds_after(base)
    if any((t + offset >= begins[late]).any() for t in early.own_times()):
        return
    ranges = [f"{x[0]:.3f} s to {x[1]:.3f} s" for x in ([float(part.origin) + t for t in part.span] for part in both)]
    shift = base.seconds_after(other) + base.span[0] - other.span[0] + other.given.shift
    text = _shift_text(shift)
    remedy = "if both began at the same instant, give {shifted}"
    if any(np.isfinite([part.start, part.stop]).any() for part in both):
        whole = [replace(part, start=-np.inf, stop=np.inf) for part in both]
        _check_times_meet(name, whole[0], whole[1], channels)  # raises where it is the clocks
        remedy = "let their ranges overlap"
    elif _topic_of_table(other.table) and base.name == other.name:
        remedy = "leave {channels} out with {columns}"
    labels = _short_table_labels([base.table, other.table])
    raise LogError(
        name, "times_never_meet", "the times of {base} ({base_range}) and of {other} ({other_range}) do not overlap",
        remedy, base=labels[0], base_range=ranges[0], other=labels[1], other_range=ranges[1], channels=list(channels),
        shifted=Wording(f"dynid.FilePart({other.name!r}, shift={text})", f"'{other.name}@{text}'"),
        columns=Option("columns", dict.fromkeys(channels)),
    )  # fmt: skip


def _short_table_labels(tables: Sequence[Table]) -> list[str]:
    """Short names of tables that differ: the topic of a bag, the stem of a file, or its whole name."""
    short = [_topic_of_table(table) or Path(table.name).name for table in tables]
    same = [short[:k].count(x) + 1 for k, x in enumerate(short)]
    long = [
        f"{table.name} {x}" if x != table.name else f"{x} {k}" for x, table, k in zip(short, tables, same, strict=True)
    ]
    return [x if short.count(x) == 1 else y for x, y in zip(short, long, strict=True)]


def _topic_of_table(table: Table) -> str | None:
    """The topic of a bag that a table, or some rows of it, is."""
    return getattr(getattr(table, "table", table), "topic", None)


def _prefixed_field_name(prefix: str, name: str) -> str:
    """The name of a field with that of its table before it."""
    return f"{prefix}.{name.removeprefix('.')}"


def join_tables(
    opened: Sequence[tuple[Table, FilePart]], robot: Robot, columns: Mapping[str, object] | None, unit: str | None,
    motor_side: bool,
) -> tuple[JoinedTable, dict[str, object]]:  # fmt: skip
    """Join tables, and return the mapping of columns in terms of the joined fields.

    Fields of one name in several tables are called by their table: `a.status` and `b.status`; of channels that both
    tell, the user has to choose.
    """
    tables = [table for table, _ in opened]
    prefixes = distinguishing_prefixes([_topic_of_table(table) or Path(table.name).stem for table in tables])
    together = "+".join(dict.fromkeys(table.name for table in tables))
    files = [(prefix, table.name, table.fields) for prefix, table in zip(prefixes, tables, strict=True)]
    columns = name_numbers_in_files(together, columns or {}, files)
    given = columns.pop("t", ())
    times = list(given) if isinstance(given, list | tuple) else [given]
    parts, used = [], set[object]()
    for (table, part), prefix in zip(opened, prefixes, strict=True):
        own = {one.name for one in table.fields}
        mine = [
            (x, y) for x in times for y in (x, str(x).removeprefix(f"{prefix}.")) if str(y).partition("[")[0] in own
        ]
        used |= {x for x, _ in mine}
        parts.append(TimedTable.from_table(table, part, robot, {"t": mine[0][1]} if mine else {}, unit))
    name = JoinedTable(tuple(parts), (), {}).name
    if unknown := [x for x in times if x not in used]:
        raise LogError(
            name, "unknown_column", "{option} names '{column}', which is in none of the files",
            option=Wording("columns", "--column"), column=unknown[0],
        )  # fmt: skip
    listed = [_own_fields(part) for part in parts]
    clashes = {x for k, some in enumerate(listed) for x in some for other in listed[k + 1 :] if x in other} | {TIME}
    reader = ColumnNameReader(robot, motor_side=motor_side)
    _refuse_two_of_a_channel(name, listed, prefixes, columns, robot, reader)
    fields, places, spellings = [Field(TIME, (_ROWS,), "s")], dict[str, tuple[int, Wanted]](), dict[str, str]()
    for k, (some, prefix) in enumerate(zip(listed, prefixes, strict=True)):
        for short, (one, wanted) in some.items():
            joined = _prefixed_field_name(prefix, short) if short in clashes else short
            fields.append(replace(one, name=joined))
            places[joined] = (k, wanted)
            spellings |= {
                _prefixed_field_name(prefix, short): joined,
                _prefixed_field_name(prefix, wanted.name): joined,
            }
            spellings.setdefault(wanted.name, joined)
    notes = tuple(dict.fromkeys(x for part in parts for x in (*part.table.notes, *part.plan.notes)))
    table = JoinedTable(tuple(parts), tuple(fields), places, notes=notes)
    names = {one.name for one in fields}

    def respell(value: object) -> object:
        if isinstance(value, (list, tuple)):
            return [respell(x) for x in value]
        if not isinstance(value, str) or value in names or value in spellings:
            return spellings.get(str(value), value) if value not in names else value
        array, bracket, column = value.partition("[")
        return spellings.get(array, array) + bracket + column

    return table, {"t": TIME, **{key: respell(value) for key, value in columns.items()}}


_ROWS = 1 << 40
"""Length of the arrays of a joined recording, as far as the matching of columns is concerned: larger than any width."""


def _own_fields(part: TimedTable) -> dict[str, tuple[Field, Wanted]]:
    """Fields of a table besides its time, by their names outside of the folder of the time, and how to read them."""
    times = {part.plan.t.field} if part.plan.t.column is None else set()
    times |= {part.plan.nanoseconds} if part.plan.nanoseconds is not None else set()
    folder = folder_of_field(part.plan.t.field)
    shape = {one.name: one.shape for one in part.table.fields}[part.plan.t.field]
    length = max(shape, default=0)
    found: dict[str, tuple[Field, Wanted]] = {}
    for one in part.table.fields:
        if one.name in times:
            continue
        turned, width = False, 0
        if len(one.shape) == 2 and not one.problem:
            turned = one.shape[0] != length and one.shape[1] == length
            width = one.shape[0] if turned else one.shape[1]
            fits = turned or one.shape[0] == length or not shape
        else:
            fits = not one.shape or not shape or one.shape == (length,)
        problem = one.problem or ("" if fits else f"has shape {one.shape}, the time of its file {length} samples")
        if one.name in getattr(part.table, "twice", ()):
            problem = "is the name of two columns of its file"
        new = replace(one, shape=(_ROWS, width) if width else (), problem=problem)
        short = one.name.removeprefix(folder) or one.name
        found[one.name if short in found else short] = (new, Wanted(one.name, turned))
    return found


def _refuse_two_of_a_channel(
    log: str, listed: Sequence[Mapping[str, tuple[Field, Wanted]]], prefixes: Sequence[str],
    columns: Mapping[str, object], robot: Robot, reader: ColumnNameReader,
) -> None:  # fmt: skip
    """Raise where a channel has the same columns in several tables and the user did not choose."""
    for k, some in enumerate(listed):
        for other, more in enumerate(listed[k + 1 :], k + 1):
            both = [(name, reader.read_name(name)) for name in some if name in more]
            for _, meaning in both:
                if meaning is None or meaning.channel == "t" or meaning.channel in columns:
                    continue
                whole = meaning.joint is not None or meaning.number is not None or robot.n == 1
                if not whole and some[meaning.field][0].is_column:
                    continue  # the position in axis1.csv, and the one in axis2.csv
                alike = [name for name, x in both if x is not None and x.channel == meaning.channel]
                if any(f"{meaning.channel}{j + 1}" in columns for j in range(robot.n)):
                    continue
                value = [_prefixed_field_name(prefixes[k], name) for name in alike]
                raise LogError(
                    log, "ambiguous_column", "{channel} is both in '{first}' and in '{second}' ({found:6})",
                    "say which with {columns}", channel=meaning.channel, first=prefixes[k], second=prefixes[other],
                    found=alike, columns=Option("columns", {meaning.channel: value[0] if len(value) == 1 else value}),
                )  # fmt: skip
