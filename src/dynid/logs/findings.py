"""What a recording turned out to be: counted while it is read, reported as messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynid.logs.content import Content
from dynid.messages import Message
from dynid.robot.transform import Array

SHOWN = 5
"""Rows that are named one by one."""


@dataclass(slots=True)
class RowsLeftOut:
    """Rows of a file that were left out: how many, the first ones (counted from 0), and where these are in words."""

    count: int = 0
    first: list[int] = field(default_factory=list)
    text: str = ""

    def add(self, rows: NDArray[np.int64]) -> None:
        """Take in further rows."""
        self.count += len(rows)
        self.first = sorted([*self.first, *rows[:SHOWN].tolist()])[:SHOWN]

    @property
    def facts(self) -> dict[str, Any]:
        """How many rows and where, for a message."""
        more = ", ..." if self.count > len(self.first) else ""
        where = f" ({self.text}{more})" if self.text else ""
        rows = _count_facts(self.count)
        return rows | {"rows": f"{rows['rows']}{where}", "first": self.first}


@dataclass(slots=True)
class Findings:
    """Counts of one pass over a log; the only value here that changes, because it is filled while streaming.

    rate in Hz; jitter is the largest deviation of a step from the usual one, in s; times in s. lowest, highest, mean:
    positions of every joint in the rows that were used. missing: rows without a value; strays: those without a time;
    content: what tells the recording from others. interval: instants between which rows count, where a log is a part
    of a recording and the rest is read for the sake of its filters.
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

    def is_in_interval(self, t: Array) -> NDArray[np.bool_]:
        """Which instants (N,) lie in the interval of the part that counts; NaN does."""
        begin, end = self.interval
        return np.asarray(((t >= begin) & (t < end)) | ~np.isfinite(t))

    def count_in_interval(self, t: Array) -> int:
        """How many instants lie in the interval of the part that counts."""
        return len(t) if not np.isfinite(self.interval).any() else int(self.is_in_interval(t).sum())

    def add_positions(self, q: Array, seconds: float) -> None:
        """Take in positions (N, n) of rows that are used, standing for some seconds."""
        before, self.used = self.used, self.used + seconds
        low, high, mean = q.min(axis=0), q.max(axis=0), q.mean(axis=0)
        if before > 0.0:
            low, high = np.minimum(low, self.lowest), np.maximum(high, self.highest)
            mean = (before * np.array(self.mean) + seconds * mean) / self.used
        self.lowest, self.highest, self.mean = tuple(low.tolist()), tuple(high.tolist()), tuple(mean.tolist())

    @property
    def sentences(self) -> tuple[Message, ...]:
        """What a person should know about the recording, each with what was done."""
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
                self.restarts, "clock_set_back", "the clock is set back {times}: split there",
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
                self.saturated, "saturated_torque", "{rows} with a torque at its limit (saturation): left out",
                _count_facts(self.saturated),
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


def _count_facts(count: int, thing: str = "row") -> dict[str, Any]:
    """Facts on a number of things: 3, and 3 rows."""
    return {"count": count, f"{thing}s": f"1 {thing}" if count == 1 else f"{count} {thing}s"}
