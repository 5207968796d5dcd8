"""Raw torques beside a reference: wrong samples are replaced, stretches in which the robot touches something are seen.

The residual e of a raw sample against the reference (see `robust`) holds noise, what the reference lacks, and trouble.
A sample is bad where |e| is beyond 6 of its robust deviations, where e is beyond 3 from its running median m, or where
|m| is beyond 5 of its own. What a reference lacks is slow, so e - m is measured by the scale of m at least; it lacks
dry friction most, so near reversals scales are their own. Medians reach half a period of the cut-off to each side.
In the place of a bad sample comes the reference plus the mean of the good residuals around, so that all that follows
(filters, balances) sees no jump. Rows of which less than half of the samples are good are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.ndimage import median_filter, minimum_filter1d

from dynid.robot.transform import Array

GROSS, FAST, LASTING = 6.0, 3.0, 5.0
"""Robust deviations of e, e - m and m beyond which a sample is bad."""

NORMAL = 1.4826
"""Standard deviation over median of |x|, where x is normal."""

FLOOR = 1e-3
"""Scales are at least this share of a joint's usual torque: what is smaller is no outlier."""

HALF = 0.5
"""Share of good samples below which a row is left out."""

GLITCH = 3
"""Samples on each side among which a position is compared with its median."""

NEAR = 0.2
"""Share of the samples that are near a reversal."""

ROUNDS = 1
TOLD = 5
"""Contacts that are told with their times."""

Mask = NDArray[np.bool_]


def robust_scale(x: Array) -> float:
    """Standard deviation by the median of |x|, then by that of what is within 4 of it, twice."""
    size = np.abs(x)
    scale = NORMAL * float(np.median(size)) if len(size) else 0.0
    for _ in range(2):
        inside = size[size <= 4.0 * scale]
        scale = NORMAL * float(np.median(inside)) if len(inside) else scale
    return scale


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """Sizes of e, e - m and m that are still good, for one joint: (2,) each, where it moves and near its reversals.

    slow: velocity below which, anywhere within reach, a reversal is near. Dry friction is what models lack most.
    """

    gross: Array
    fast: Array
    lasting: Array
    slow: float

    @staticmethod
    def of(pieces: list[Array], speeds: list[Array], reach: list[int], size: float) -> Limits:
        """From residuals and speeds of pieces of time; size: usual one of the joint's torque."""
        floor = FLOOR * size + 1e-300
        e = np.concatenate(pieces)
        speed = np.concatenate([_lowest(v, r) for v, r in zip(speeds, reach, strict=True)])
        slow = float(np.quantile(speed, NEAR))
        near = (speed <= slow).astype(np.int64)
        gross = GROSS * _scales(e, near, floor)
        bounds = np.split(gross[near], np.cumsum([len(x) for x in pieces])[:-1])
        m = np.concatenate(
            [running_median(x, np.abs(x) <= g, r) for x, g, r in zip(pieces, bounds, reach, strict=True)]
        )
        lacks = _scales(m, near, floor)
        return Limits(gross, FAST * np.maximum(_scales(e - m, near, floor), lacks), LASTING * lacks, slow)

    def judge(self, e: Array, speed: Array, reach: int) -> Mask:
        """Which of consecutive residuals are good."""
        near = (_lowest(speed, reach) <= self.slow).astype(np.int64)
        good = np.abs(e) <= self.gross[near]
        if reach:
            m = running_median(e, good, reach)
            still = good & (np.abs(m) <= self.lasting[near])
            good = still & (np.abs(e - m) <= self.fast[near])
            for _ in range(ROUNDS):  # a mean of good ones leans less to one side than a median of all
                good = still & (np.abs(e - around(e, good, reach)[0]) <= self.fast[near])
        return good


def _scales(x: Array, near: NDArray[np.int64], floor: float) -> Array:
    """Robust deviations (2,); near reversals at least that of the rest."""
    moving, reversing = (max(robust_scale(x[near == k]), floor) for k in (0, 1))
    return np.array([moving, max(moving, reversing)])


def _lowest(speed: Array, reach: int) -> Array:
    return np.asarray(minimum_filter1d(speed, 2 * reach + 1, mode="nearest")) if reach else speed


def running_median(e: Array, good: Mask, reach: int) -> Array:
    """Median of the residuals around, bad ones replaced by the mean of good ones; 0 where it reaches nowhere."""
    if not reach:
        return np.zeros(len(e))
    filled = e if good.all() else np.where(good, e, around(e, good, reach)[0])
    return np.asarray(median_filter(filled, 2 * reach + 1, mode="nearest"))


def around(e: Array, good: Mask, reach: int) -> tuple[Array, Array]:
    """Mean of the good residuals within `reach` samples, 0 where there are none, and their share."""
    sums = np.concatenate([[0.0], np.cumsum(np.where(good, e, 0.0))])
    counts = np.concatenate([[0], np.cumsum(good)])
    k = np.arange(len(e))
    start, stop = np.maximum(k - reach, 0), np.minimum(k + reach + 1, len(e))
    some = counts[stop] - counts[start]
    return (sums[stop] - sums[start]) / np.maximum(some, 1), some / np.maximum(stop - start, 1)


def without_glitches(q: Array, limit: Array) -> tuple[Array, Mask]:
    """Positions (N, n) of which those that jump away beyond a limit (n,) are interpolated (spline); which rows."""
    bad = np.abs(q - median_filter(q, (2 * GLITCH + 1, 1), mode="nearest")) > limit
    k, out = np.arange(len(q)), q.copy() if bad.any() else q
    for j in np.flatnonzero(bad.any(axis=0)):
        good = ~bad[:, j]
        out[~good, j] = CubicSpline(k[good], q[good, j])(k[~good])
    return out, np.asarray(bad.any(axis=1))


def glitch_limit(q: Array) -> Array:
    """Distance (n,) of a position from the median of its neighbours that only a glitch has."""
    off = np.abs(q - median_filter(q, (2 * GLITCH + 1, 1), mode="nearest"))
    span = np.ptp(np.quantile(q, [0.05, 0.95], axis=0), axis=0)
    return np.asarray(10.0 * np.quantile(off, 0.9, axis=0) + 1e-3 * span)


@dataclass(slots=True)
class Tally:
    """What a pass put aside: samples seen, bad ones and rows left out per joint, glitches, contacts (log, s, s)."""

    joints: int
    samples: int = 0
    glitches: int = 0
    bad: Array = field(init=False)
    left_out: Array = field(init=False)
    contacts: int = 0
    first: list[tuple[int, float, float, set[int]]] = field(default_factory=list)
    last: tuple[int, float] = (-1, -np.inf)

    def __post_init__(self) -> None:
        self.bad, self.left_out = np.zeros(self.joints), np.zeros(self.joints)

    def see_contacts(self, log: int, t: Array, good: Mask, apart: float) -> None:
        """Take in which rows (K, n) count; those left out are contacts, one where less than `apart` (s) apart."""
        self.left_out += (~good).sum(axis=0)
        for k in np.flatnonzero(~good.all(axis=1)).tolist():
            now = float(t[k])
            same = self.last[0] == log and now - self.last[1] <= apart
            self.contacts += not same
            if not same and len(self.first) < TOLD:
                self.first.append((log, now, now, set()))
            if self.first and self.contacts == len(self.first):
                _, start, _, joints = self.first[-1]
                self.first[-1] = (log, start, now, joints | set(np.flatnonzero(~good[k]).tolist()))
            self.last = (log, now)
