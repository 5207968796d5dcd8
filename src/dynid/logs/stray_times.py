"""Times that are not part of a recording: single rows with a clock of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from dynid.robot.transform import Array

LATE = 64
"""Rows by which a row may come late and still find its place."""

FEW = 3
"""Rows that make no piece of a recording: where the clock jumps before and after them, their times are stray."""

FIRST = 1024
"""Rows that tell the usual step."""

LATEST = 1e20
"""Seconds beyond which no clock is, also where its nanoseconds are taken for seconds."""


def are_usable_times(t: Array) -> NDArray[np.bool_]:
    """Mask of the times that a clock may show."""
    return np.asarray(np.abs(t) < LATEST)


def usual_step(t: Array) -> float:
    """Median of the nonzero steps of times, infinite where there is none."""
    steps = np.abs(np.diff(t))
    return float(np.median(steps[steps > 0.0])) if (steps > 0.0).any() else np.inf


def times_of_recording(pieces: Iterable[Array]) -> Iterator[Array]:
    """Yield the times of a recording, piece by piece, without those that are missing or stray."""
    strays: StrayTimes | None = None
    held = np.zeros(0)
    for piece in pieces:
        held = np.concatenate([held, piece[are_usable_times(piece)]])
        if len(held) < FIRST:
            continue
        strays = strays or StrayTimes(usual_step(held))
        good = strays.find_belonging(held, final=False)
        if good.any():
            yield held[: len(good)][good]
        held = held[len(good) :]
    if len(held):
        yield held[(strays or StrayTimes(usual_step(held))).find_belonging(held, final=True)]


class StrayTimes:
    """Finds rows whose times are not part of a recording, such as 1e154 or the year 2000 in a single row.

    The clock jumps by more than 100 steps (back: also 1 s) and returns within 64 rows, or there are so few rows between
    two jumps, or at an end, that they are not pieces. Gaps, and clocks that start again for longer, are none of these.
    """

    def __init__(self, step: float) -> None:
        self.step, self.back = step, max(1.0, 100.0 * step)
        self.last = np.nan  # time of the last row that belongs
        self.count = 0

    def find_belonging(self, t: Array, *, final: bool) -> NDArray[np.bool_]:
        """Mask of the times that belong to the recording; undecided last ones are to be given again with later ones.

        At first more than LATE + FEW rows are needed, unless there are no more.
        """
        good = np.ones(len(t), dtype=np.bool_)
        start = 0
        while start < len(t):
            jumps = self._is_jump(np.append(t[start] - self.last, np.diff(t[start:])))  # NaN at first: no jump
            place = start + int(np.argmax(jumps)) if jumps.any() else len(t)
            if place > start:
                self.last, self.count = t[place - 1], self.count + place - start
            if place == len(t):
                break
            if not final and len(t) - place <= LATE:
                return good[:place]
            away = self._stray_row_count(t[place : place + LATE + 1], final=final)
            good[place : place + away] = False
            if not away:
                if self.count <= FEW and self._is_far_from_recording(t[place]):
                    good[:place] = False
                self.last = t[place]
            start = place + away
        return good

    def _is_jump(self, steps: Array) -> NDArray[np.bool_]:
        """Mask of the time steps that are too long or go back too far."""
        return np.asarray((steps > 100.0 * self.step) | (steps < -self.back))

    def _stray_row_count(self, t: Array, *, final: bool) -> int:
        """Number of stray rows after a jump: until the clock returns, or few that are out of order or far off."""
        returned = ~self._is_jump(t - self.last)
        if returned.any():
            return int(np.argmax(returned))
        apart = self._is_jump(np.diff(t))
        alone = int(np.argmax(apart)) + 1 if apart.any() else len(t)
        if alone > FEW:
            return 0
        if alone < len(t):
            return alone if t[0] < self.last or t[alone] < t[alone - 1] else 0
        return alone if final and alone < self.count and self._is_far_from_recording(t[0]) else 0

    def _is_far_from_recording(self, t: float) -> bool:
        """Whether few rows at an end are not part of the rest: out of order, or a thousand steps away."""
        return bool(t < self.last or t - self.last > 1000.0 * self.step)
