"""Raw torques against a fit: which samples are outliers, and what stands in their place (see `robust`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dynid.data.treatment import Treatment
from dynid.estimation.equation import Equation
from dynid.robot.motion import Motion
from dynid.robot.transform import Array

LIMIT = 4.0
"""Robust deviations beyond which a raw sample is unknown."""

NORMAL = 1.4826
"""Standard deviation over median of |e|, where noise is normal."""

FLOOR = 1e-9
"""Scales are at least this share of a channel's torque: rounding is no outlier."""

REMEMBERED = 16_000_000
"""Bytes of raw rows from which medians are taken."""


@dataclass(eq=False)
class Sampled:
    """Raw rows spread over the logs, in bounded memory: residuals of any fit can be looked at without another pass."""

    rows: list[Array] = field(default_factory=list)
    every: int = 1

    def add(self, wide: Array) -> None:
        """Remember some rows."""
        self.rows.append(wide[:: self.every].copy())
        if sum(rows.nbytes for rows in self.rows) > REMEMBERED:
            self.rows, self.every = [np.concatenate(self.rows)[::2].copy()], 2 * self.every

    def limits(self, equation: Equation, fit: tuple[Array, ...]) -> Array:
        """Between which residuals (channels, 2) raw samples are good: 4 robust deviations about the median.

        The median counts while outliers of one sign pull at the fit; a second look at the good ones alone takes the
        outliers out of the deviation.
        """
        limits = []
        for c, channel in enumerate(equation.channels):
            own = np.concatenate([channel.row(rows) for rows in self.rows])
            e, floor = own[:, -1] - own[:, :-1] @ fit[c], FLOOR * float(np.abs(own[:, -1]).max()) + 1e-300
            centre, scale = _centre(e, floor)
            inside = e[np.abs(e - centre) <= LIMIT * scale]
            centre, scale = _centre(inside, floor)
            limits.append((centre - LIMIT * scale, centre + LIMIT * scale))
        return np.array(limits)


def _centre(e: Array, floor: float) -> tuple[float, float]:
    """Median and robust standard deviation."""
    centre = float(np.median(e))
    return centre, max(NORMAL * float(np.median(np.abs(e - centre))), floor)


@dataclass(eq=False)
class Tally:
    """What a pass put aside of one channel; weight: sum of all rows' weights, full: of those that Huber leaves alone.

    t, share: instants of the window under way, and the shares of good samples around them.
    """

    samples: int = 0
    unknown: int = 0
    rows: int = 0
    light: int = 0
    lightest: int = 0
    weight: float = 0.0
    full: float = 0.0
    t: Array = field(default_factory=lambda: np.zeros(0))
    share: Array = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, eq=False)
class Cleaned(Equation):
    """The same equation, but torques beyond 4 deviations of a fit are unknown.

    fit: values of every channel's columns; limits (channels, 2): between which raw residuals are good; reach: samples
    on each side from which an unknown one is filled, 0 where nothing is; sampled: raw rows; tallies per channel.
    """

    fit: tuple[Array, ...] = ()
    limits: Array = field(default_factory=lambda: np.zeros((0, 2)))
    reach: int = 0
    sampled: Sampled = field(default_factory=Sampled)
    tallies: tuple[Tally, ...] = ()

    def write(self, motion: Motion, stops: Array, measured: Array | None, *, out: Array | None = None) -> Array:
        """Wide rows, with unknown torques filled in."""
        wide = super().write(motion, stops, measured, out=out)
        self.sampled.add(wide)
        for c, channel in enumerate(self.channels):
            rows = channel.row(wide)
            e = rows[:, -1] - rows[:, :-1] @ self.fit[c]
            good = (e >= self.limits[c, 0]) & (e <= self.limits[c, 1])
            tally = self.tallies[c]
            tally.samples += len(e)
            tally.unknown += len(e) - int(good.sum())
            tally.t, tally.share = motion.t, np.ones(len(e))
            if self.reach and not good.all():
                mean, tally.share = _around(e, good, self.reach)
                rows[~good, -1] += (mean - e)[~good]
        return wide


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
