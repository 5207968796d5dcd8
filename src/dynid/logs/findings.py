"""What a recording turned out to be: counted while it is read, told in sentences."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dynid.logs.content import Content
from dynid.robot.transform import Array

SHOWN = 5
"""Rows that are named one by one."""


@dataclass(slots=True)
class Places:
    """Rows of a file that were left out: how many, the first ones (counted from 0), and where these are in words."""

    count: int = 0
    first: list[int] = field(default_factory=list)
    text: str = ""

    def add(self, rows: NDArray[np.int64]) -> None:
        """Take in further rows."""
        self.count += len(rows)
        self.first = sorted([*self.first, *rows[:SHOWN].tolist()])[:SHOWN]

    def __str__(self) -> str:
        more = ", ..." if self.count > len(self.first) else ""
        return f"{_rows(self.count)} ({self.text}{more})" if self.text else _rows(self.count)


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
    missing: Places = field(default_factory=Places)
    strays: Places = field(default_factory=Places)
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
    notes: list[str] = field(default_factory=list)
    content: Content | None = None
    interval: tuple[float, float] = (-np.inf, np.inf)

    def counts(self, t: Array) -> NDArray[np.bool_]:
        """Which instants lie in the interval; those that are none do."""
        begin, end = self.interval
        return np.asarray(((t >= begin) & (t < end)) | ~np.isfinite(t))

    def count(self, t: Array) -> int:
        """How many instants lie in the interval."""
        return len(t) if not np.isfinite(self.interval).any() else int(self.counts(t).sum())

    def see(self, q: Array, seconds: float) -> None:
        """Take in positions (N, n) of rows that are used, standing for some seconds."""
        before, self.used = self.used, self.used + seconds
        low, high, mean = q.min(axis=0), q.max(axis=0), q.mean(axis=0)
        if before > 0.0:
            low, high = np.minimum(low, self.lowest), np.maximum(high, self.highest)
            mean = (before * np.array(self.mean) + seconds * mean) / self.used
        self.lowest, self.highest, self.mean = tuple(low.tolist()), tuple(high.tolist()), tuple(mean.tolist())

    @property
    def sentences(self) -> tuple[str, ...]:
        """What a person should know about the recording, each with what was done."""
        told = list(self.notes)
        if self.resampled:
            told.append(
                f"time steps vary by up to {1e3 * self.jitter:.3g} ms: resampled linearly to a regular grid of "
                f"{self.rate:.6g} Hz"
            )
        if self.repeated_times:
            told.append(f"{_rows(self.repeated_times)} with the time stamp and positions of the row before: left out")
        if self.spread_times:
            told.append(
                f"{_rows(self.spread_times)} with the time stamp of the row before but other positions (a rounded "
                "clock): spread evenly up to the next stamp"
            )
        if self.out_of_order:
            told.append(f"{_rows(self.out_of_order)} out of order: sorted by time")
        if self.late:
            told.append(f"{_rows(self.late)} out of order by too much to be sorted: left out")
        if self.restarts:
            told.append(f"the clock is set back {_times(self.restarts)}: split there")
        if self.strays.count:
            told.append(f"{self.strays} with a time far from those of the rows around: left out")
        if self.missing.count:
            told.append(f"{self.missing} with missing or infinite values: left out")
        if self.saturated:
            told.append(f"{_rows(self.saturated)} with a torque at its limit (saturation): left out")
        if self.unwrapped:
            told.append(f"positions jump by a turn {self.unwrapped} times (recorded modulo 2 pi): made continuous")
        if self.gaps:
            told.append(f"{_many(self.gaps, 'gap')}, the longest of {self.longest_gap:.3g} s: the log is split there")
        if self.short_segments:
            told.append(f"{_many(self.short_segments, 'piece')} shorter than the filter: left out")
        if self.samples and self.repeated_positions > 0.01 * self.samples:
            share = 100.0 * self.repeated_positions / self.samples
            told.append(
                f"{share:.0f} % of the rows repeat the positions of the row before (held samples, or standstill)"
            )
        if self.used and self.standstill > 0.2 * self.used:
            told.append(f"all joints stand still for {100.0 * self.standstill / self.used:.0f} % of the time")
        return tuple(told)


def _many(count: int, thing: str) -> str:
    return f"1 {thing}" if count == 1 else f"{count} {thing}s"


def _rows(count: int) -> str:
    return _many(count, "row")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
