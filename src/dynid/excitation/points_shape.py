"""Points (q, v, a) and the motion through them (Gautier & Khalil 1992, section 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.errors import ExcitationError
from dynid.excitation.quintics import Quintics
from dynid.excitation.shape import Extremes
from dynid.robot.motion import Motion
from dynid.robot.transform import Array


@dataclass(frozen=True, slots=True, eq=False)
class PointsShape:
    """The r + 1 points q, v, a (r + 1, n) at times (r + 1,), and the path from rest to rest where there is one.

    Without acceleration limits the times only number the points, and a is zero.
    """

    times: Array
    q: Array
    v: Array
    a: Array
    path: Quintics | None

    @property
    def segments(self) -> Array | None:
        """Durations in s: entry, the r segments between points, exit, (r + 2,); None without a motion."""
        return None if self.path is None else self.path.u

    @property
    def duration(self) -> float:
        """Seconds of motion from rest to rest."""
        return self._path().duration

    def motion(self, rate: float) -> Motion:
        """Samples at a rate in Hz, from rest to rest; the last one is at rest."""
        path = self._path()
        if not (np.isfinite(rate) and rate > 0.0):
            raise ExcitationError(f"the rate must be positive, got {rate:g} Hz")
        t = np.arange(int(np.ceil(path.duration * rate - 1e-9)) + 1, dtype=np.float64) / rate
        inside = path.sample(t[t < path.duration])
        rest = (path.q[-1:], path.v[-1:], path.a[-1:])
        q, v, a = (np.concatenate([x, y]) for x, y in zip((inside.q, inside.v, inside.a), rest, strict=True))
        return Motion(t, q[: len(t)], v[: len(t)], a[: len(t)])

    def exciting_motion(self) -> Motion:
        """The points, over which the condition number is taken; those of rest are left out."""
        return Motion(self.times, self.q, self.v, self.a)

    def extremes(self) -> Extremes:
        """Exact extremes over all time, or of the points alone where there is no motion."""
        if self.path is not None:
            return self.path.extremes()
        none = np.zeros(self.q.shape[1])
        return Extremes(self.q.min(axis=0), self.q.max(axis=0), np.abs(self.v).max(axis=0), none)

    def shrunk(self, factors: Array, middle: Array) -> PointsShape:
        """The same with each joint's motion shrunk by a factor about a position, (n,) each."""
        if self.path is None:
            return PointsShape(self.times, middle + factors * (self.q - middle), factors * self.v, self.a, None)
        path = self.path
        return of_path(Quintics(path.u, middle + factors * (path.q - middle), factors * path.v, factors * path.a))

    def _path(self) -> Quintics:
        if self.path is None:
            raise ExcitationError("a motion through the points needs acceleration limits; give limits['acceleration']")
        return self.path


def of_path(path: Quintics) -> PointsShape:
    """The shape of a path: its inner nodes are the points."""
    inner = slice(1, -1)
    return PointsShape(path.times[inner], path.q[inner], path.v[inner], path.a[inner], path)
