"""Raw torques against a fit: which samples are outliers, and what stands in their place (see `robust`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import median_filter

from dynid.data.treatment import Treatment
from dynid.estimation.equation import Equation
from dynid.robot.motion import Motion
from dynid.robot.transform import Array

LIMIT = 4.0
"""Robust deviations beyond which a sample is an outlier."""

CONTACT = 10.0
"""Robust deviations of the running median of residuals beyond which the robot touches something."""

TOUCH = 0.25
"""Share of a joint's usual torque that a contact has at least: what a model lacks is less."""

NORMAL = 1.4826
"""Standard deviation over median of |e|, where noise is normal."""

FLOOR = 1e-9
"""Scales are at least this share of a channel's torque: rounding is no outlier."""

REMEMBERED = 65_536
"""Residuals per channel from which a median is taken."""


@dataclass(eq=False)
class Sampled:
    """Numbers spread over the logs, in bounded memory, for a median of their sizes."""

    parts: list[Array] = field(default_factory=list)
    every: int = 1

    def add(self, x: Array) -> None:
        """Remember some."""
        self.parts.append(np.abs(x[:: self.every]))
        if sum(map(len, self.parts)) > REMEMBERED:
            self.parts, self.every = [np.concatenate(self.parts)[::2].copy()], 2 * self.every

    @cached_property
    def wide_scale(self) -> float:
        """Robust standard deviation of all."""
        return NORMAL * float(np.median(np.concatenate(self.parts))) if self.parts else 0.0

    @cached_property
    def scale(self) -> float:
        """Robust standard deviation of what is within 4 of the wide ones: without the outliers."""
        seen = np.concatenate(self.parts) if self.parts else np.zeros(1)
        return NORMAL * float(np.median(seen[seen <= LIMIT * self.wide_scale]))


@dataclass(eq=False)
class Tally:
    """What a pass saw and put aside of one channel.

    fast, slow: residuals beside their running median, and the median itself; weight: sum of all rows' weights, full:
    of those that Huber leaves alone; t, share: instants of the window under way, and the shares of good samples there.
    """

    samples: int = 0
    unknown: int = 0
    rows: int = 0
    light: int = 0
    lightest: int = 0
    weight: float = 0.0
    full: float = 0.0
    largest: float = 0.0
    fast: Sampled = field(default_factory=Sampled)
    slow: Sampled = field(default_factory=Sampled)
    torque: Sampled = field(default_factory=Sampled)
    t: Array = field(default_factory=lambda: np.zeros(0))
    share: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def limits(self) -> tuple[float, float]:
        """Sizes of fast and slow residuals that are still good in the next pass."""
        floor = FLOOR * self.largest + 1e-300
        slow = CONTACT * max(self.slow.scale, self.fast.scale, floor)
        return LIMIT * max(self.fast.scale, floor), max(slow, TOUCH * self.torque.wide_scale)


@dataclass(frozen=True, eq=False)
class Cleaned(Equation):
    """The same equation, but torques that are outliers against a fit are unknown.

    fit: values of every channel's columns; limits (channels, 2): of fast and slow residuals; reach: samples on each
    side in which medians and means are taken, 0 where nothing is filtered and rows are judged alone.
    """

    fit: tuple[Array, ...] = ()
    limits: Array = field(default_factory=lambda: np.zeros((0, 2)))
    reach: int = 0
    tallies: tuple[Tally, ...] = ()

    def write(self, motion: Motion, stops: Array, measured: Array | None, *, out: Array | None = None) -> Array:
        """Wide rows, with unknown torques filled in."""
        wide = super().write(motion, stops, measured, out=out)
        for c, channel in enumerate(self.channels):
            rows, tally = channel.row(wide), self.tallies[c]
            tally.samples += len(rows)
            tally.t, tally.share = motion.t, np.ones(len(rows))
            if self.reach:
                self._clean(rows, c, tally)
        return wide

    def _clean(self, rows: Array, c: int, tally: Tally) -> None:
        e = rows[:, -1] - rows[:, :-1] @ self.fit[c]
        slow = median_filter(e, 2 * self.reach + 1, mode="nearest")
        tally.largest = max(tally.largest, float(np.abs(rows[:, -1]).max(initial=0.0)))
        tally.fast.add(e - slow)
        tally.slow.add(slow)
        tally.torque.add(rows[:, -1])
        good = (np.abs(e - slow) <= self.limits[c, 0]) & (np.abs(slow) <= self.limits[c, 1])
        tally.unknown += len(e) - int(good.sum())
        if not good.all():
            mean, tally.share = _around(e, good, self.reach)
            rows[~good, -1] += (mean - e)[~good]


def _around(e: Array, good: NDArray[np.bool_], reach: int) -> tuple[Array, Array]:
    """Mean of the good residuals around every sample, 0 where there are none, and their share."""
    sums = np.concatenate([[0.0], np.cumsum(np.where(good, e, 0.0))])
    counts = np.concatenate([[0], np.cumsum(good)])
    k = np.arange(len(e))
    start, stop = np.maximum(k - reach, 0), np.minimum(k + reach + 1, len(e))
    some = counts[stop] - counts[start]
    return (sums[stop] - sums[start]) / np.maximum(some, 1), some / (stop - start)


@dataclass(frozen=True)
class FullRate(Treatment):
    """A treatment that writes rows at the log's own rate: there a wrong sample is still one sample."""

    @cached_property
    def thinning(self) -> int:
        """Every sample."""
        return 1
