"""What a recording turned out to be: counted while it is read, reported as messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynid.logs.content import Content
from dynid.logs.log import Samples
from dynid.messages import Message, Option, Wording
from dynid.robot.transform import Array

SHOWN = 5
"""Rows that are named one by one."""

MUCH_SATURATED = 0.05
"""Share of rows with a torque at its limit from which on the verdict says so."""

BEYOND, TURN, BEYOND_LIMITS = 5e-4, 2.0 * np.pi, "joints_beyond_limits"
"""How far beyond its limits a joint may be (rad or m) without a word, as limits are rounded; a turn; the code of it."""


@dataclass(slots=True)
class RowsLeftOut:
    """Rows of a file that were left out: how many, the first ones (counted from 0), and where these are in words."""

    count: int = 0
    first: list[int] = field(default_factory=list)
    text: str = ""
    lines: list[int] = field(default_factory=list)

    def add_rows(self, rows: NDArray[np.int64]) -> None:
        """Add further rows to those left out."""
        self.count += len(rows)
        self.first = sorted([*self.first, *rows[:SHOWN].tolist()])[:SHOWN]

    @property
    def facts(self) -> dict[str, Any]:
        """Facts for a message: how many rows were left out, and where."""
        more = ", ..." if self.count > len(self.first) else ""
        where = f" ({self.text}{more})" if self.text else ""
        rows = _count_facts(self.count)
        return rows | {"rows": f"{rows['rows']}{where}", "first": self.first, "lines": self.lines}


@dataclass(slots=True)
class Findings:
    """Counts of one pass over a log; the only value here that changes, because it is filled while streaming.

    rate in Hz; jitter is the largest deviation of a step from the usual one, in s; times in s. lowest, highest, mean:
    positions of every joint in the rows that were used. missing: rows without a value; strays: those without a time;
    content: what tells the recording from others. interval: instants between which rows count, where a log is a part
    of a recording and the rest is read for the sake of its filters. beyond (2, n): how far every joint was beyond its
    position limits (rad or m), and for how long (s).
    """

    log: str
    rate: float
    samples: int = 0
    used: float = 0.0
    repeated_times: int = 0
    spread_times: int = 0
    late: int = 0
    repeated_positions: int = 0
    out_of_order: int = 0
    missing: RowsLeftOut = field(default_factory=RowsLeftOut)
    strays: RowsLeftOut = field(default_factory=RowsLeftOut)
    saturated: int = 0
    unwrapped: int = 0
    resampled: int = 0
    jitter: float = 0.0
    restarts: int = 0
    gaps: int = 0
    longest_gap: float = 0.0
    segments: int = 0
    short_segments: int = 0
    standstill: float = 0.0
    lowest: tuple[float, ...] = ()
    highest: tuple[float, ...] = ()
    mean: tuple[float, ...] = ()
    notes: list[Message] = field(default_factory=list)
    content: Content | None = None
    interval: tuple[float, float] = (-np.inf, np.inf)
    limited: RowsLeftOut = field(default_factory=RowsLeftOut)
    limited_joints: list[str] = field(default_factory=list)
    beyond: Array = field(default_factory=lambda: np.zeros((2, 0)))

    @property
    def bad_channels(self) -> tuple[Message, ...]:
        """Notes that speak against single joints."""
        bad = (m for m in self.notes if m.code.startswith(BAD) and "affected" in m.facts)
        return tuple(m for m in bad if not m.facts.get("left_out"))

    def is_in_interval(self, t: Array) -> NDArray[np.bool_]:
        """Mask of the instants (N,) inside the interval that counts; NaN counts as inside."""
        begin, end = self.interval
        return np.asarray(((t >= begin) & (t < end)) | ~np.isfinite(t))

    def count_in_interval(self, t: Array) -> int:
        """Number of instants inside the interval that counts."""
        return len(t) if not np.isfinite(self.interval).any() else int(self.is_in_interval(t).sum())

    def add_positions(self, q: Array, seconds: float) -> None:
        """Add positions (N, n) of rows that are used, which stand for some seconds."""
        before, self.used = self.used, self.used + seconds
        low, high, mean = q.min(axis=0), q.max(axis=0), q.mean(axis=0)
        if before > 0.0:
            low, high = np.minimum(low, self.lowest), np.maximum(high, self.highest)
            mean = (before * np.array(self.mean) + seconds * mean) / self.used
        self.lowest, self.highest, self.mean = tuple(low.tolist()), tuple(high.tolist()), tuple(mean.tolist())

    def add_positions_beyond_limits(self, q: Array, seconds: float, limits: Array) -> None:
        """Add how far and how long positions (N, n) are beyond limits (n, 2); whole turns count for nothing."""
        if self.beyond.size and (q.min(axis=0) >= limits[:, 0]).all() and (q.max(axis=0) <= limits[:, 1]).all():
            return
        limited = np.isfinite(limits).all(axis=1) & (np.ptp(limits, axis=1) < TURN)
        middle = np.where(limited[:, None], limits, 0.0).mean(axis=1)
        turns = np.where(limited, TURN * np.round((q.mean(axis=0) - middle) / TURN), 0.0)
        over = np.maximum(limits[:, 0] - (q - turns), (q - turns) - limits[:, 1])
        before = self.beyond if self.beyond.size else np.zeros((2, len(limits)))
        lasted = before[1] + seconds * (over > BEYOND).mean(axis=0)
        self.beyond = np.stack([np.maximum(before[0], over.max(axis=0)), lasted])

    def describe_positions_beyond_limits(self, joints: Sequence[str]) -> list[Message]:
        """Message on the joints that were beyond their position limits, with how far and how long; none without."""
        far = {name: (x, s) for name, x, s in zip(joints, *self.beyond.tolist(), strict=False) if x > BEYOND}
        if not far:
            return []
        return [Message(
            BEYOND_LIMITS, "beyond its position limits: {some} (rad or m); there a joint may touch its stops, whose "
            "torque is not in the model", "check the zeros of these joints; stay inside the limits with a margin, or "
            "leave these times out", joints=far, farthest=max(x for x, _ in far.values()),
            some=[f"joint {name} by {x:.2g} for {s:.2g} s" for name, (x, s) in far.items()],
        )]  # fmt: skip

    @property
    def sentences(self) -> tuple[Message, ...]:
        """Messages on what a person should know about the recording, each with what was done."""
        repeated = 100.0 * self.repeated_positions / self.samples if self.samples else 0.0
        standing = 100.0 * self.standstill / self.used if self.used else 0.0
        reports: tuple[tuple[float, str, str, dict[str, Any]], ...] = (
            (
                self.resampled, "resampled",
                "time steps vary by up to {jitter:.3g} ms: resampled linearly to a regular grid of {rate:.6g} Hz",
                {"jitter": 1e3 * self.jitter, "rate": self.rate},
            ),
            (
                self.repeated_times, "repeated_rows",
                "{rows} with the time stamp and positions of the row before: left out",
                _count_facts(self.repeated_times),
            ),
            (
                self.spread_times, "repeated_time_stamps", "{rows} with the time stamp of the row before but other "
                "positions (a rounded clock): spread evenly up to the next stamp",
                _count_facts(self.spread_times),
            ),
            (
                self.out_of_order, "rows_out_of_order", "{rows} out of order: sorted by time",
                _count_facts(self.out_of_order),
            ),
            (
                self.late, "rows_too_late", "{rows} out of order by too much to be sorted: left out",
                _count_facts(self.late),
            ),
            (
                self.restarts, "clock_set_back", "the clock jumps back {times}: the log is split there",
                {"count": self.restarts, "times": "once" if self.restarts == 1 else f"{self.restarts} times"},
            ),
            (
                self.strays.count, "stray_times", "{rows} with a time far from those of the rows around: left out",
                self.strays.facts,
            ),
            (
                self.missing.count, "missing_values", "{rows} with missing or infinite values: left out",
                self.missing.facts,
            ),
            (
                self.saturated, "saturated_torque", "{rows} with a torque at its limit (saturation" + (
                " of joint {joints}): left out" if self.limited_joints else "): left out"),
                replace(self.limited, count=self.saturated).facts | {"joints": self.limited_joints},
            ),
            (
                self.unwrapped, "positions_wrapped",
                "positions jump by a turn {count} times (recorded modulo 2 pi): made continuous",
                {"count": self.unwrapped},
            ),
            (
                self.gaps, "gaps", "{gaps}, the longest of {longest:.3g} s: the log is split there",
                _count_facts(self.gaps, "gap") | {"longest": self.longest_gap},
            ),
            (
                self.short_segments, "short_pieces", "{pieces} shorter than the filter: left out",
                _count_facts(self.short_segments, "piece"),
            ),
            (
                repeated > 1.0, "repeated_positions",
                "{percent:.0f} % of the rows repeat the positions of the row before (held samples, or standstill)",
                {"percent": repeated},
            ),
            (
                standing > 20.0, "standstill", "all joints stand still for {percent:.0f} % of the time",
                {"percent": standing},
            ),
        )  # fmt: skip
        return (*self.notes, *(Message(code, what, **facts) for seen, code, what, facts in reports if seen))


def describe_saturation(found: Sequence[Findings]) -> list[Message]:
    """Message on torques that were at their limits for so long that the rest is a selection; none without."""
    share = sum(x.saturated for x in found) / max(sum(x.samples for x in found), 1)
    if share < MUCH_SATURATED:
        return []
    joints = list(dict.fromkeys(name for x in found for name in x.limited_joints))
    return [Message(
        "torques_at_limits", "a torque{who} is at its limit in {percent:.0f} % of the rows: left out, so that the "
        "largest torques are missing", "record a slower motion, which keeps torques inside their limits",
        who=f" (joint {', '.join(joints)})" if joints else "", percent=100.0 * share, share=share, joints=joints,
    )]  # fmt: skip


def _count_facts(count: int, thing: str = "row") -> dict[str, Any]:
    """Facts on a number of things: 3, and 3 rows."""
    return {"count": count, f"{thing}s": f"1 {thing}" if count == 1 else f"{count} {thing}s"}


# Channels: which values of positions, velocities and torques cannot be right.


JUMP = 10.0
"""Usual steps of fast motion that make a jump."""

SHORT = 3
"""Rows after which a position that jumped away must be back, if they are rubbish."""

LOOK = 256
"""Rows of a stretch that tell its usual step."""

MOST_HELD, SCREENED = 64, 4096
"""Rows that wait for the next ones, at most, and rows that are looked at together."""

MOST_STRETCHES, SMALL_SHARE = 1000, 0.2
"""Frozen stretches of a channel that are left out at most, and their share of all rows."""

FROZEN = 10
"""Rows for which a value must stay the same, at least, to be frozen."""

COARSE = 0.25
"""Step of a channel, over its standard deviation, from which on its resolution matters."""

FEW_LEVELS = 400
"""Levels of a position below which derived velocities and accelerations are coarse."""

BAD = ("dead_", "missing_", "frozen_", "coarse_")
"""How codes of findings begin that speak against a channel."""

QUANTITIES = {"q": "position", "v": "velocity", "a": "acceleration", "tau": "torque", "reaction": "force"}


@dataclass(frozen=True, slots=True, eq=False)
class ChannelScale:
    """What is usual in one channel, per joint (n,).

    step: change from row to row in fast motion; low, high: beyond these no value belongs; limits (n, 2): where it is
    cut off, infinite where it is not; run: rows for which a value may repeat; usual: its median; resolution: distance
    of its levels, 0 where there are many; spread: standard deviation; levels: how many there are. starts_unset: it is 0
    at first and jumps to its value. hold: rows after which any joint has a new value, where that is regular, else 1.
    bend: change of the step from row to row; noisy: it goes up and down from row to row; often: many values are the
    usual one; moving: rows in which it changes by a tenth of the step or more.
    """

    step: Array
    low: Array
    high: Array
    limits: Array
    run: Array
    usual: Array
    resolution: Array
    levels: NDArray[np.int64]
    spread: Array
    starts_unset: NDArray[np.bool_]
    hold: float
    bend: Array
    noisy: NDArray[np.bool_]
    often: NDArray[np.bool_]
    moving: NDArray[np.int64]

    @classmethod
    def from_values(cls, x: Array, margin: float) -> ChannelScale:
        """Usual range and steps of values (N, n); margin: how many times its range a channel may go beyond it."""
        columns = np.ascontiguousarray(x.T)
        step = _usual_steps(columns)
        looks = [_look_at_values(column, limit) for column, limit in zip(columns, JUMP * step, strict=True)]
        step = np.where([len(look.jumps) > 0.1 * len(x) for look in looks], np.inf, step)
        ranges = [_range_between_jumps(look, few) for look, few in zip(looks, np.isfinite(step), strict=True)]
        low, high = np.array(ranges).T
        room = np.where(np.isfinite(step), high - low, np.inf)
        room = margin * np.maximum(room, 0.02 * np.max(room, initial=0.0, where=np.isfinite(room)))
        belonging = [_values_between(*each) for each in zip(looks, low - room, high + room, strict=True)]
        levels, resolution = zip(*map(_count_levels, belonging), strict=True)
        some = columns[:, :: max(1, len(x) // 8192)]
        usual = np.median(some, axis=1)
        return cls(
            step, low - room, high + room, np.tile([-np.inf, np.inf], (len(columns), 1)),
            np.array([look.usual_run for look in looks]), usual, np.array(resolution), np.array(levels),
            np.array([np.std(y) if len(y) else 0.0 for y in belonging]),
            np.array([look.starts_unset and few for look, few in zip(looks, np.isfinite(step), strict=True)]),
            _rows_between_updates(x, max(look.changes for look in looks)), _usual_steps(columns, 2),
            np.array([look.turns / max(len(x) - 2, 1) > 0.3 for look in looks]),
            np.asarray((some == usual[:, None]).mean(axis=1) > 0.2),
            np.array([np.count_nonzero(look.steps > 0.1 * size) for look, size in zip(looks, step, strict=True)]),
        )  # fmt: skip

    @property
    def is_coarse(self) -> NDArray[np.bool_]:
        """Mask (n,) of joints whose quantisation steps matter beside the standard deviation."""
        return np.asarray((self.levels > 1) & (self.resolution > COARSE * self.spread))


@dataclass(frozen=True, slots=True, eq=False)
class _Look:
    """One joint's values (N,), sizes of the steps between them (N - 1,), rows after steps beyond a limit.

    changes: steps that are not 0; turns: steps up after steps down and the other way round; usual_run: rows for which
    nine of ten values stay the same, at most; starts_unset: it is 0 at first and jumps to its value.
    """

    values: Array
    steps: Array
    jumps: NDArray[np.int64]
    changes: int
    turns: int
    usual_run: float
    starts_unset: bool


def _look_at_values(x: Array, limit: float) -> _Look:
    """Values (N,) with their steps and jumps; limit: largest step that is not a jump."""
    steps = np.diff(x)
    turns, changes = int(np.count_nonzero(steps[1:] * steps[:-1] < 0.0)), int(np.count_nonzero(steps))
    usual_run = 1.0
    if 10 * (len(steps) - changes + 1) > changes:  # else nine of ten stay for one row
        runs = np.diff(np.flatnonzero(steps) + 1, prepend=0, append=len(x))
        usual_run = float(np.quantile(runs, 0.9)) if len(runs) > FROZEN else 1.0
    np.abs(steps, out=steps)
    jumps = np.flatnonzero(steps > limit) + 1 if steps.max(initial=0.0) > limit else np.zeros(0, dtype=np.int64)
    zeros = int(np.argmax(x != 0.0)) if x[0] == 0.0 else 0
    return _Look(x, steps, jumps, changes, turns, usual_run, bool(zeros and steps[zeros - 1] > limit))


def _usual_steps(columns: Array, order: int = 1) -> Array:
    """Change (n,) from row to row in the fastest of 64 stretches: four of five changes there are smaller.

    order: 2 for the change of the changes of values (n, N).
    """
    length = columns.shape[1] - order + 1
    size = min(max(100, length // 64), length - 1)
    count = (length - 1) // size if size > 0 else 0
    if count < 1:
        return np.full(len(columns), np.inf)
    stretches = np.lib.stride_tricks.sliding_window_view(columns, min(size, LOOK) + order, axis=1)[:, ::size][:, :count]
    steps, size = np.sort(np.abs(np.diff(stretches, order)), axis=2), min(size, LOOK)
    zeros = (steps == 0.0).sum(axis=2)
    place = np.minimum(zeros + (0.8 * (size - zeros)).astype(np.int64), size - 1)
    few = size - zeros < 5  # changes: a frozen stretch and the jump after it
    fast = np.sort(np.where(few, 0.0, np.take_along_axis(steps, place[:, :, None], axis=2)[:, :, 0]), axis=1)
    fastest = fast[:, -1]
    for other in fast.T[::-1][1:4]:  # stretches full of rubbish
        fastest = np.where((other > 0.0) & (fastest > 1e4 * other), other, fastest)
    return np.where(fastest > 0.0, fastest, np.inf)


def _range_between_jumps(look: _Look, few: np.bool_) -> tuple[float, float]:
    """Range of the values (N,) without short or constant stretches between two jumps, which may be corrupt."""
    x = look.values
    if not few or not len(look.jumps):
        return float(x.min()), float(x.max())
    parts = [part for part in np.split(x, look.jumps) if len(part) > SHORT and np.ptp(part) > 0.0]
    if not parts:
        return -np.inf, np.inf
    return float(min(part.min() for part in parts)), float(max(part.max() for part in parts))


def _values_between(look: _Look, low: float, high: float) -> Array:
    """The values inside bounds."""
    inside = (look.values >= low) & (look.values <= high)
    return look.values if inside.all() else look.values[inside]


def _count_levels(x: Array) -> tuple[int, float]:
    """Number of levels of a channel (N,) and the distance of two neighbours, where these are few; else 0."""
    room = float(np.ptp(x)) if len(x) else 0.0
    x = x[:: max(1, len(x) // 8192)]
    if room == 0.0:
        return 0, 0.0
    scaled = (x - x.min()) / room
    met = np.zeros(1 << 16, dtype=np.bool_)  # a level each, or several: there are this many at least
    met[np.rint(1e6 * scaled).astype(np.int64) & (len(met) - 1)] = True
    if np.count_nonzero(met) > 0.5 * len(x):
        return 0, 0.0
    steps = np.diff(np.sort(np.round(scaled, 6)))
    count = 1 + int(np.count_nonzero(steps))
    if count > 0.5 * len(x):
        return 0, 0.0
    return count, room * float(np.quantile(steps[steps > 0.0], 0.1))


def _rows_between_updates(x: Array, most: int) -> float:
    """Number of rows after which values (N, n) change, where that is regular: slow updates, not a coarse encoder.

    most: changes of the joint that changes most often.
    """
    if most - 1 > max(0.7 * len(x), 50):
        return 1.0
    changes = np.flatnonzero((np.diff(x, axis=0) != 0.0).any(axis=1))
    waits = np.diff(changes)
    if len(waits) < 50 or len(waits) > 0.7 * len(x):
        return 1.0
    least = int(np.median(waits))
    for pair in ((least, least), (least - 1, least), (least, least + 1)):
        regular = (waits >= pair[0]) & (waits <= pair[1])
        steps = np.abs(np.diff(x[changes[:-1][regular]], axis=0)).max(axis=1, initial=0.0)
        if regular.mean() > 0.9 and len(np.unique(np.round(steps / max(steps.max(initial=0.0), 1e-300), 3))) > 5:
            return float(waits[regular].mean())
    return 1.0


class StrayValues:
    """Finds rubbish rows chunk by chunk: values that jump out of all bounds, or positions that jump away and back.

    A value is out of bounds until it returns; a position that jumps to exactly 0 is unset until it changes. Other
    jumps may be real.
    """

    def __init__(self, scales: Mapping[str, ChannelScale], turning: NDArray[np.bool_]) -> None:
        self.scales, self.turning = scales, turning
        self.last: dict[str, Array] = {}
        self.state: dict[str, list[str]] = {}
        self.time = np.full(1, -np.inf)
        self.limits = {name: np.tile(JUMP * scale.step, SCREENED) for name, scale in scales.items()}
        self.work = np.empty(max(map(len, self.limits.values()), default=0))

    def decidable_row_count(self, samples: Samples) -> int:
        """Number of the next rows that can be judged before later ones are known."""
        ready = len(samples)
        some = samples.q[max(0, ready - MOST_HELD - 1) :]
        jumps = np.flatnonzero(self._are_jumps("q", some, ready > len(some)).any(axis=1)) + ready - len(some)
        for k in jumps[::-1].tolist():
            if ready - k > SHORT + 1 or len(samples) - k > MOST_HELD:
                break
            ready = k
        return ready

    def _are_jumps(self, name: str, x: Array, is_tail: bool = False) -> NDArray[np.bool_]:
        """Mask of values (N, n) far from the ones before; is_tail: the first ones do not follow the last seen."""
        far = np.zeros(x.shape, dtype=np.bool_)
        limit = JUMP * self.scales[name].step
        if len(x):
            far[1:] = np.abs(x[1:] - x[:-1]) > limit
            if name in self.last and not is_tail:
                far[0] = np.abs(x[0] - self.last[name][0]) > limit
        return far

    def _may_jump(self, name: str, x: Array) -> bool:
        """Whether some value (N, n) is far from the one before, by a quick look that needs little memory."""
        limits, flat, n = self.limits[name], np.ravel(x), x.shape[1]
        if name in self.last and (np.abs(x[0] - self.last[name][0]) > limits[:n]).any():
            return True
        for start in range(n, len(flat), len(limits)):
            now = flat[start : start + len(limits)]
            steps = np.subtract(now, flat[start - n : start - n + len(now)], out=self.work[: len(now)])
            if (np.abs(steps, out=steps) > limits[: len(now)]).any():
                return True
        return False

    def find_corrupt_rows(self, samples: Samples) -> Iterator[tuple[str, int, NDArray[np.int64]]]:
        """Yield (channel, joint, corrupt rows) of the next samples, which are finite."""
        for name in self.scales:
            x = getattr(samples, name)
            if x is None or not len(x):
                continue
            state = self._states_at_start(name, x[0]) if name not in self.last else self.state[name]
            self.state[name] = state
            if any(state) or self._may_jump(name, x):
                jumps = self._are_jumps(name, x)
                for j in [j for j in range(x.shape[1]) if state[j] or jumps[:, j].any()]:
                    bad = self._find_in_column(name, j, x[:, j], np.flatnonzero(jumps[:, j]), samples.t)
                    if len(bad):
                        yield name, j, bad
            self.last[name] = x[-1:].copy()
        self.time = samples.t[-1:].copy() if len(samples) else self.time

    def _states_at_start(self, name: str, x: Array) -> list[str]:
        """States of a channel in the first row, (n,)."""
        scale = self.scales[name]
        outside, unset = (x < scale.low) | (x > scale.high), scale.starts_unset & (x == 0.0) & (name == "q")
        return ["outside" if a else "unset" if b else "" for a, b in zip(outside, unset, strict=True)]

    def _find_in_column(self, name: str, j: int, x: Array, jumps: NDArray[np.int64], t: Array) -> NDArray[np.int64]:
        """Corrupt rows of one joint's values (N,); its state is carried on to the next rows."""
        scale, state = self.scales[name], self.state[name]
        outside = (x < scale.low[j]) | (x > scale.high[j])
        bad, done = np.zeros(len(x), dtype=np.bool_), 0

        def follow(first: int) -> int:
            """Mark rows as long as the state lasts; the row after them."""
            over = np.flatnonzero(~outside[first:] if state[j] == "outside" else x[first:] != 0.0)
            stop = first + int(over[0]) if len(over) else len(x)
            bad[first:stop] = True
            state[j] = state[j] if stop == len(x) else ""
            return stop

        if state[j]:
            done = follow(0) + 1
        for k in jumps.tolist():
            if k < done:
                continue
            before = x[k - 1] if k else float(self.last[name][0, j])
            state[j] = "outside" if outside[k] else "unset" if name == "q" and x[k] == 0.0 else ""
            if state[j]:
                done = follow(k) + 1
            elif name == "q" and not (self.turning[j] and abs(abs(x[k] - before) / (2.0 * np.pi) - 1.0) < 0.1):
                back = np.flatnonzero(np.abs(x[k + 1 : k + 1 + SHORT] - before) < 0.5 * JUMP * scale.step[j])
                times = np.append(t[k - 1] if k else self.time, t[k : k + 2 + back[0]]) if len(back) else t[:0]
                if len(back) and np.all(np.diff(times) > 0.0):
                    bad[k : k + 1 + back[0]] = True
                    done = k + 2 + int(back[0])
        return np.flatnonzero(bad)


@dataclass(slots=True)
class _Run:
    """A stretch in which one value repeats: its first row, its times, how many rows, sums of position and velocity.

    before: steps of the position just before it.
    """

    row: int
    t: float
    end: float
    value: float
    first: float
    last: float
    before: float
    sums: Array

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return int(self.sums[0])

    @property
    def position_spread(self) -> float:
        """Standard deviation of the position in it."""
        count, total, squares = self.sums[:3]
        return float(np.sqrt(max(squares / count - (total / count) ** 2, 0.0)))

    @property
    def rms_velocity(self) -> float:
        """Recorded velocity in it, rms."""
        return float(np.sqrt(self.sums[3] / self.sums[0]))

    @property
    def is_uniform(self) -> bool:
        """Whether the position goes from its first to its last value at constant speed."""
        count, total = self.sums[:2]
        way = self.last - self.first
        even = way**2 * (count + 1.0) / max(count - 1.0, 1.0) / 12.0
        off = abs(total / count - 0.5 * (self.first + self.last))
        return bool(off <= 1e-3 * abs(way) and abs(self.position_spread**2 - even) <= 0.01 * even)


@dataclass(slots=True)
class _Places:
    """Stretches of one kind: rows in all, the first row and the times of some, the longest (rows)."""

    rows: RowsLeftOut = field(default_factory=RowsLeftOut)
    total: int = 0
    stretches: int = 0
    longest: int = 0
    times: list[tuple[float, float]] = field(default_factory=list)
    value: float = np.nan

    def add_stretch(self, run: _Run) -> None:
        """Add a stretch of repeated values to those of its kind."""
        self.total, self.stretches, self.longest = (
            self.total + run.row_count,
            self.stretches + 1,
            max(self.longest, run.row_count),
        )
        self.rows.add_rows(np.array([run.row]))
        self.times = [*self.times, (run.t, run.end)][:MOST_STRETCHES]
        self.value = run.value


def velocity_of_certain_motion(scales: Mapping[str, ChannelScale]) -> float:
    """Velocity (rad/s or m/s) above which a joint certainly moves; infinite where none is recorded."""
    return max(0.02, 0.1 * float(scales["v"].spread.max())) if "v" in scales else np.inf


class ChannelWatch:
    """Watches the channels of a log row by row, in little memory, for dead and frozen ones; reports what it found."""

    def __init__(
        self, names: Sequence[str], rate: float, scales: Mapping[str, ChannelScale], turning: NDArray[np.bool_],
        joints: Sequence[int], frozen_times: Array | None = None,
    ) -> None:  # fmt: skip
        self.names, self.rate, self.scales, self.turning = tuple(names), rate, scales, turning
        self.joints = tuple(joints)  # whose torques count
        self.frozen_times = np.zeros((0, 2)) if frozen_times is None else frozen_times  # known before, to be left out
        self.stray = StrayValues(scales, turning)
        self.rows = 0
        self.rubbish: dict[tuple[str, int], RowsLeftOut] = {}
        self.rubbish_rows = RowsLeftOut()
        self.extremes: dict[tuple[str, int], float] = {}  # of the rubbish
        self.missing: dict[tuple[str, int], int] = {}
        self.limited: dict[tuple[str, int], RowsLeftOut] = {}
        self.frozen: dict[tuple[str, int], _Places] = {}
        self.same: dict[tuple[str, int], RowsLeftOut] = {}
        self.moving: dict[tuple[str, int], int] = {}
        self.runs: dict[str, list[_Run | None]] = {}  # those that are open; None: of the last row alone
        self.newest: tuple[Samples, int] | None = None  # the last row and its place
        self.least = {name: np.maximum(FROZEN, 10.0 * scale.run) for name, scale in scales.items()}
        self.tail = np.zeros((0, len(self.names)))  # the last positions
        self.origin = np.zeros(len(self.names))

    def count_missing_values(self, samples: Samples) -> None:
        """Count the values that are missing or infinite, by channel and joint."""
        for name in self.scales:
            for j, count in enumerate((~np.isfinite(getattr(samples, name))).sum(axis=0).tolist()):
                if count:
                    self.missing[name, j] = self.missing.get((name, j), 0) + count

    def usable_rows(self, samples: Samples, rows: NDArray[np.int64], inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Mask (N,) of the next finite samples that are neither corrupt nor clipped; rows: their places in the file.

        inside: which of them count.
        """
        bad = np.zeros(len(samples), dtype=np.bool_)
        for name, j, some in self.stray.find_corrupt_rows(samples):
            bad[some] = True
            counted = some[inside[some]]
            self.rubbish.setdefault((name, j), RowsLeftOut()).add_rows(rows[counted])
            values = [self.extremes.get((name, j), 0.0), *getattr(samples, name)[counted, j].tolist()]
            self.extremes[name, j] = max(values, key=abs)
        self.rubbish_rows.add_rows(rows[bad & inside])
        for name, scale in self.scales.items():
            x = getattr(samples, name)
            for j in np.flatnonzero(np.isfinite(scale.limits).any(axis=1)).tolist():
                at_limit = ((x[:, j] <= scale.limits[j, 0]) | (x[:, j] >= scale.limits[j, 1])) & ~bad
                if at_limit.any():
                    self.limited.setdefault((name, j), RowsLeftOut()).add_rows(rows[at_limit & inside])
                    bad |= at_limit & (name != "tau")
        return ~bad

    def add_usable_rows(self, samples: Samples, rows: NDArray[np.int64]) -> None:
        """Add the next usable rows to the counts and runs; rows: their places in the file."""
        if not len(samples):
            return
        q = samples.q
        if not self.rows:
            self.origin = q[0].copy()
        q_before = np.concatenate([self.tail, q[:3]])
        for name in ("q", "v", "tau"):
            if name in self.scales:
                self._count_usual_values(name, getattr(samples, name), q, rows)
                self._follow_runs(name, getattr(samples, name), samples, rows, q_before)
        self.rows += len(samples)
        self.tail = np.concatenate([self.tail, q[-4:]])[-4:]
        self.newest = samples.select_rows(np.array([len(samples) - 1])), int(rows[-1])

    def _count_usual_values(self, name: str, x: Array, q: Array, rows: NDArray[np.int64]) -> None:
        """Count the rows in which a joint moves and its torque or velocity has the value that it has often."""
        scale = self.scales[name]
        for j in np.flatnonzero(scale.often).tolist() if name != "q" else ():
            steps = np.diff(q[:, j], prepend=self.tail[-1, j] if len(self.tail) else q[0, j])
            moves = np.abs(steps) > 0.1 * self.scales["q"].step[j]
            self.moving[name, j] = self.moving.get((name, j), 0) + int(moves.sum())
            self.same.setdefault((name, j), RowsLeftOut()).add_rows(rows[moves & (x[:, j] == scale.usual[j])])

    def _follow_runs(self, name: str, x: Array, samples: Samples, rows: NDArray[np.int64], q_before: Array) -> None:
        """Continue the stretches in which values (N, n) repeat; those at the end stay open."""
        least = self.least[name]
        runs = self.runs.setdefault(name, [None] * x.shape[1])
        stride = int(least.min()) // 2
        some = np.ravel(x[::stride])  # two of these lie in every long stretch
        same = some[len(runs) :] == some[: -len(runs)]
        busy = (x[-1] == x[-min(2, len(x))]) | [run is not None for run in runs]
        if same.any():
            row, joint = np.nonzero(same.reshape(-1, len(runs)))
            between = stride * row + np.arange(1, stride)[:, None]
            busy[joint[(x[between, joint] == x[stride * row, joint]).all(axis=0)]] = True
        if self.newest is not None:
            busy |= x[0] == getattr(self.newest[0], name)[0]
        for j, is_busy in enumerate(busy.tolist()):
            run = self._follow_runs_of_joint(name, j, x, samples, rows, q_before) if is_busy else None
            runs[j] = run if run is not None and run.row_count > 1 else None

    def _follow_runs_of_joint(
        self, name: str, j: int, x: Array, samples: Samples, rows: NDArray[np.int64], q_before: Array
    ) -> _Run:
        """Continue the stretches in which one joint's values repeat; return the run that stays open."""
        N, column, run = len(x), np.ascontiguousarray(x[:, j]), self._open_run(name, j)
        first, least = 0, float(self.least[name][j])
        if run is not None and column[0] == run.value:
            others = np.flatnonzero(column != run.value)
            first = int(others[0]) if len(others) else N
            run = self._measure_run(j, x, samples, rows, q_before, 0, first, run)
        if first < N:
            if run is not None and run.row_count >= least:
                self._classify_run(name, j, run, float(column[first]))
            some = column[first :: int(least) // 2]
            if (some[1:] == some[:-1]).any():
                starts = np.append(first, first + 1 + np.flatnonzero(column[first + 1 :] != column[first:-1]))
                for k in np.flatnonzero(np.diff(starts) >= least).tolist():
                    whole = self._measure_run(j, x, samples, rows, q_before, int(starts[k]), int(starts[k + 1]))
                    self._classify_run(name, j, whole, float(column[starts[k + 1]]))
            start = N - 1
            if start > first and column[-2] == column[-1]:
                others = np.flatnonzero(column[first:] != column[-1])
                start = first + int(others[-1]) + 1 if len(others) else first
            run = self._measure_run(j, x, samples, rows, q_before, start, N)
        assert run is not None
        return run

    def _open_run(self, name: str, j: int) -> _Run | None:
        """The run that is open at the last row; None before the first."""
        run = self.runs[name][j]
        if run is not None or self.newest is None:
            return run
        samples, row = self.newest
        t, value = float(samples.t[0]), float(getattr(samples, name)[0, j])
        u, v = float(samples.q[0, j] - self.origin[j]), 0.0 if samples.v is None else float(samples.v[0, j])
        before = float(np.abs(np.diff(self.tail[:, j])).sum()) / 3.0
        return _Run(row, t, t, value, u, u, before, np.array([1.0, u, u * u, v * v]))

    def _measure_run(
        self, j: int, x: Array, samples: Samples, rows: NDArray[np.int64], q_before: Array, start: int, stop: int,
        earlier: _Run | None = None,
    ) -> _Run:  # fmt: skip
        """A stretch of rows start to stop of one joint's values, after what it had in chunks before."""
        u = samples.q[start:stop, j] - self.origin[j]
        v = np.zeros(1) if samples.v is None else samples.v[start:stop, j]
        sums = np.array([stop - start, u.sum(), u @ u, v @ v])
        if earlier is not None:
            return _Run(
                earlier.row, earlier.t, float(samples.t[stop - 1]), earlier.value, earlier.first, float(u[-1]),
                earlier.before, earlier.sums + sums,
            )  # fmt: skip
        place = start + len(self.tail)  # of the first row in what is known from three rows before the chunk on
        near = samples.q[start - 3 : start + 1, j] if start > 2 else q_before[max(0, place - 3) : place + 1, j]
        before = float(np.abs(np.diff(near)).sum()) / 3.0
        return _Run(
            int(rows[start]), float(samples.t[start]), float(samples.t[stop - 1]), float(x[start, j]), float(u[0]),
            float(u[-1]), before, sums,
        )  # fmt: skip

    def _classify_run(self, name: str, j: int, run: _Run, following: float) -> None:
        """Decide whether a stretch of one value is frozen, and count it; following: the value after it, else NaN."""
        scale, limits = self.scales["q"], self.scales[name].limits[j]
        step = scale.step[j]
        if run.value <= limits[0] or run.value >= limits[1]:
            return
        if name != "q":
            frozen = run.position_spread > 2.0 * step and (self.scales[name].noisy[j] or not run.is_uniform)
        else:
            jump = abs(following - run.value)
            wraps = self.turning[j] and abs(jump / (2.0 * np.pi) - 1.0) < 0.1
            returns = run.before > 0.2 * step and jump > max(3.0 * step, 0.2 * run.row_count * run.before) and not wraps
            stops = run.before > max(0.1 * step, 5.0 * scale.bend[j]) and run.row_count >= 5 * FROZEN
            frozen = (
                returns or (stops and np.isnan(following)) or run.rms_velocity > velocity_of_certain_motion(self.scales)
            )
        if frozen:
            self.frozen.setdefault((name, j), _Places()).add_stretch(run)

    def find_frozen_times(self) -> Array:
        """Return intervals of time (k, 2) in which a channel is frozen, its first value left out, if these are few."""
        few = [
            places.times for (name, j), places in self.frozen.items()
            if self._is_used(name, j) and places.total <= SMALL_SHARE * self.rows
            and not (name != "q" and self.scales[name].is_coarse[j])
        ]  # fmt: skip
        return np.array(sorted({interval for times in few for interval in times})).reshape(-1, 2)

    def are_frozen(self, t: Array) -> NDArray[np.bool_]:
        """Mask of instants (N,) that lie in those intervals."""
        frozen = np.zeros(len(t), dtype=np.bool_)
        for start, end in self.frozen_times:
            frozen |= (t > start) & (t <= end)
        return frozen

    def close_log(self) -> None:
        """Close the log: decide about runs that are still open."""
        for name, runs in self.runs.items():
            for j, run in enumerate(runs):
                if run is not None and run.row_count >= self.least[name][j]:
                    self._classify_run(name, j, run, np.nan)

    @property
    def rows_named_in_messages(self) -> list[RowsLeftOut]:
        """Lists of rows that messages name, so that their line numbers in the file can be added."""
        frozen = [place.rows for place in self.frozen.values()]
        return [self.rubbish_rows, *self.limited.values(), *frozen, *self.same.values()]

    def add_findings(self, found: Findings) -> None:
        """Add messages on the channels to the findings of the log; the log must be closed before."""
        wrong = [*self._dead_channels(), *self._missing_channels()]
        dead = {(message.facts["channel"], joint) for message in wrong for joint in message.facts["affected"]}
        wrong += [*self._frozen_channels(dead), *self._coarse_channels(dead)]
        notes = [*self._clipped_channels(), *self._held_channels()]
        if self.rubbish_rows.count:
            some = [
                f"{QUANTITIES[name]} {self._joint_or_channel_name(name, j)} {self.extremes[name, j]:.4g}"
                for name, j in self.rubbish
            ]
            more = f" and {len(some) - 4} more" if len(some) > 4 else ""
            notes.append(Message(
                "rubbish_rows", "{rows} with impossible values ({some}{more}): left out", some=some[:4], more=more,
                channels={
                    f"{name}.{self._joint_or_channel_name(name, j)}": rows.count
                    for (name, j), rows in self.rubbish.items()
                },
                share=self.rubbish_rows.count / max(self.rows + self.rubbish_rows.count, 1), **self.rubbish_rows.facts,
            ))  # fmt: skip
        limited = {j: rows for (name, j), rows in self.limited.items() if name == "tau"}
        found.limited_joints = [self.names[j] for j in sorted(limited)]
        places = sorted({place for rows in limited.values() for place in zip(rows.first, rows.lines, strict=True)})
        found.limited.first, found.limited.lines = ([place[k] for place in places[:SHOWN]] for k in (0, 1))
        found.limited.text = next((rows.text for rows in limited.values() if len(limited) == 1), "")
        found.notes.extend([*wrong, *notes])

    def _joint_or_channel_name(self, name: str, j: int) -> str:
        """Name of joint j, or of channel j of the base."""
        return str(j + 1) if name == "reaction" else self.names[j]

    def _is_used(self, name: str, j: int) -> bool:
        """Whether a channel is used by the identification."""
        return name != "tau" or j in self.joints

    def _facts_on_leaving_out(self, channel: str, affected: Sequence[str]) -> dict[str, Any]:
        """Facts for a message on leaving out a channel of some joints, with the remedy as a template."""
        others = [self.names[j] for j in self.joints if self.names[j] not in affected]
        if channel == "v":
            return {"remedy": "leave velocities out with {option}", "option": Option("columns", {"v": None})}
        if channel == "tau" and others:
            return {"remedy": "leave the torque out with {option}", "option": Option("joints", others)}
        return {"remedy": "record it again"}

    def _channel_message(self, kind: str, what: str, channel: str, affected: Sequence[str], **facts: Any) -> Message:
        """A message about a channel of some joints, with a code such as dead_torque."""
        facts = self._facts_on_leaving_out(channel, affected) | facts
        code, remedy = "_".join((kind, QUANTITIES[channel])), facts.pop("remedy")
        return Message(
            code, what, remedy, channel=channel, affected=list(affected), quantity=QUANTITIES[channel], **facts
        )

    def _dead_channels(self) -> Iterator[Message]:
        """Yield messages on channels with the same value in most rows."""
        dead: dict[tuple[str, int], tuple[int, float, RowsLeftOut]] = {}
        for name in ("tau", "v", "q"):
            for j in range(len(self.runs.get(name, ()))):
                run = self._open_run(name, j)
                same, frozen = self.same.get((name, j), RowsLeftOut()), self.frozen.get((name, j))
                often = frozen is not None and frozen.total > 0.5 * self.rows
                if not self._is_used(name, j) or self.rows < 2 * FROZEN or (self._is_coarse(name, j) and not often):
                    continue
                if (
                    name == "tau"
                    and run is not None
                    and run.row_count == self.rows
                    and self.scales["q"].spread[j] > 2e-3
                ):  # it moves
                    dead[name, j] = self.rows, run.value, RowsLeftOut()
                elif frozen is not None and often:
                    dead[name, j] = frozen.total, frozen.value, frozen.rows
                elif name != "q" and same.count > max(FROZEN, 0.5 * self.moving.get((name, j), 0)):
                    dead[name, j] = same.count, float(self.scales[name].usual[j]), same
        torques = [self.names[j] for name, j in dead if name == "tau"]
        for (name, j), (count, value, rows) in dead.items():
            in_motion = rows is self.same.get((name, j))
            share = count / max(count, self.moving[name, j]) if in_motion else count / self.rows
            what = "the {quantity} of joint {joint} is {value:.4g} in {percent:.0f} % of the rows{where}"
            what += " in which the joint moves" if in_motion else ""
            what += ", although its velocity says that it moves" if name == "q" else ""
            yield self._channel_message(
                "dead", what + " (a dead signal)", name, [self.names[j]], joint=self.names[j], value=value, count=count,
                share=share, percent=100.0 * share, where=_where_text(rows), lines=rows.lines, first=rows.first,
                **(self._facts_on_leaving_out(name, torques) if name == "tau" else {}),
            )  # fmt: skip

    def _missing_channels(self) -> Iterator[Message]:
        """Yield messages on channels without a value in many rows."""
        total = self.rows + max(self.missing.values(), default=0)
        much = {key: count for key, count in self.missing.items() if count > 0.2 * total and self._is_used(*key)}
        for (name, j), count in much.items():
            affected = [self._joint_or_channel_name(other, k) for other, k in much if other == name]
            yield self._channel_message(
                "missing", "the {quantity} of joint {joint} is missing in {percent:.0f} % of the rows, which are left "
                "out", name, affected, joint=self._joint_or_channel_name(name, j), count=count, share=count / total,
                percent=100.0 * count / total, lines=[], first=[],
            )  # fmt: skip

    def _frozen_channels(self, dead: set[tuple[str, str]]) -> Iterator[Message]:
        """Yield messages on channels that repeat a value while the robot moves; joints frozen together share one."""
        together: dict[tuple[str, int, tuple[int, ...]], list[int]] = {}
        for (name, j), places in self.frozen.items():
            coarse = name != "q" and self.scales[name].is_coarse[j]
            if self._is_used(name, j) and not coarse and (name, self.names[j]) not in dead:
                together.setdefault((name, places.total, tuple(places.rows.first)), []).append(j)
        cut = Wording("log.between(start, stop)", "LOG@START:STOP")
        for (name, count, first), joints in together.items():
            places = self.frozen[name, joints[0]]
            remedy: dict[str, Any] = {"remedy": "cut these times out with {cut}", "cut": cut}
            if name == "tau":
                remedy = {
                    "remedy": "cut these times out with {cut}, or use {option}", "cut": cut,
                    "option": Option("estimator", "huber"),
                }  # fmt: skip
            known = set(map(tuple, self.frozen_times.tolist()))
            left_out = places.stretches <= MOST_STRETCHES and known.issuperset(places.times)
            times = f"{places.stretches} times" if places.stretches > 1 else "once"
            what = "the {quantity} of joint {joints} stays at its last value {times} while the robot moves, {rows}, "
            what += "{longest:.3g} s at most{where}" + (": left out" if left_out else "")
            remedy = {"remedy": ""} if left_out else {} if name == "v" else remedy
            yield self._channel_message(
                "frozen", what, name, [self.names[j] for j in joints], left_out=left_out,
                joints=[self.names[j] for j in joints], times=times, rows=_count_facts(count)["rows"], count=count,
                stretches=places.stretches, share=count / max(self.rows, 1), longest=places.longest / self.rate,
                where=_where_text(places.rows), lines=places.rows.lines, first=list(first),
                at=[start for start, _ in places.times[:SHOWN]], **remedy,
            )  # fmt: skip

    def _is_coarse(self, name: str, j: int) -> bool:
        """Whether the steps of a channel are so wide that they matter."""
        scale = self.scales[name]
        if self.scales["q"].moving[j] < 2 * FROZEN:
            return False
        few = 1 < scale.levels[j] < FEW_LEVELS and scale.resolution[j] > 2e-4 and scale.spread[j] > 0.02
        return bool(few if name == "q" else scale.is_coarse[j])

    def _coarse_channels(self, dead: set[tuple[str, str]]) -> Iterator[Message]:
        """Yield messages on channels with few levels."""
        for name in (name for name in ("tau", "q", "v") if name in self.scales):
            coarse = [j for j in range(len(self.names)) if self._is_coarse(name, j) and self._is_used(name, j)]
            coarse = [j for j in coarse if (name, self.names[j]) not in dead]
            if not coarse:
                continue
            scale, joints = self.scales[name], [self.names[j] for j in coarse]
            worst = max(coarse, key=lambda j: float(scale.resolution[j] / scale.spread[j]))
            yield self._channel_message(
                "coarse", "the {quantity} of joint {joints} is coarse: {levels} levels, {step:.3g} apart, "
                "{percent:.2g} % of the standard deviation{at_worst}", name, joints, joints=joints,
                levels=int(scale.levels[worst]), step=float(scale.resolution[worst]),
                percent=100.0 * scale.resolution[worst] / scale.spread[worst],
                at_worst=f" in joint {self.names[worst]}" if len(coarse) > 1 else "", count=self.rows, share=1.0,
                steps={self.names[j]: float(scale.resolution[j]) for j in coarse}, lines=[], first=[],
                **({} if name == "v" else {"remedy": "record it with a finer resolution"}),
            )  # fmt: skip

    def _clipped_channels(self) -> Iterator[Message]:
        """Yield messages on positions and velocities that are clipped."""
        for (name, j), rows in self.limited.items():
            if name == "tau" or not rows.count:
                continue
            level = self.scales[name].limits[j]
            yield self._channel_message(
                "clipped", "{rows} with the {quantity} of joint {joint} cut off at {levels}: left out", name,
                [self.names[j]], joint=self.names[j], levels=[f"{x:.4g}" for x in level if np.isfinite(x)],
                share=rows.count / max(self.rows, 1), **rows.facts,
                **({} if name == "v" else {"remedy": ""}),
            )  # fmt: skip

    def _held_channels(self) -> Iterator[Message]:
        """Yield messages on channels that have a new value every few rows only."""
        holds = {name: self.scales[name].hold for name in ("q", "v", "tau") if name in self.scales}
        for hold in sorted({hold for hold in holds.values() if hold > 1.0}):
            names = [name for name in holds if holds[name] == hold]
            late = 0.5 * (hold - holds["q"]) / self.rate if names == ["tau"] else 0.0
            remedy = "torques come {ms:.2g} ms late on average: compare with {option}" if late > 5e-4 else ""
            yield Message(
                "held_samples", "{quantities} change only every {ratio:.4g} rows: recorded at {row_rate:.4g} Hz, "
                "sampled at {rate:.4g} Hz", remedy, channels=names, ratio=hold, rate=self.rate / hold,
                quantities=[PLURALS[name] for name in names], row_rate=self.rate, ms=1e3 * late,
                option=Option("delay", round(late, 5)),
            )  # fmt: skip


def _where_text(rows: RowsLeftOut) -> str:
    """Text in parentheses on where the first rows are: ` (line 7, 12)`."""
    return f" ({rows.text}{', ...' if rows.count > len(rows.first) else ''})" if rows.text else ""


PLURALS = {"q": "positions", "v": "velocities", "tau": "torques"}
