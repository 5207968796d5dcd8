"""Periodic series of a base frequency and its multiples (Swevers), from rest to rest, for any number of periods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynid.errors import ExcitationError
from dynid.excitation.entry import find_entry
from dynid.excitation.quintics import Quintics
from dynid.excitation.series import Basis, derivative, extremes_of
from dynid.excitation.shape import Extremes
from dynid.robot.limits import Limits
from dynid.robot.motion import Motion
from dynid.robot.transform import Array

_PHASES = 10
SAMPLES = 200
"""Samples of a period over which the condition number is reported."""


@dataclass(frozen=True, slots=True, eq=False)
class FourierShape:
    """coefficients (n, 2 H + 1): constant, sines, cosines of multiples of 1 / period; phase (s): where it begins."""

    coefficients: Array
    period: float
    periods: int
    phase: float
    entry: Quintics
    exit: Quintics

    @staticmethod
    def of(
        coefficients: Array,
        period: float,
        periods: int,
        limits: Limits,
        rest: Array | None,
        names: tuple[str, ...],
        accept: Callable[[Quintics], bool] = lambda _: True,
    ) -> FourierShape:
        """Find where to enter the series, and polynomials from and to rest that `accept` allows."""
        refusal: ExcitationError | None = None
        for phase in _calm_phases(coefficients, period, limits):
            q, v, a = (x[0] for x in _evaluate(coefficients, period, np.array([phase])))
            try:
                entry = find_entry((q, v, a), limits, rest, names, accept)
                back = find_entry((q, -v, a), limits, rest, names, accept)
            except ExcitationError as error:
                refusal = refusal or error
                continue
            return FourierShape(coefficients, period, periods, phase, entry, back)
        raise refusal or ExcitationError("there is no instant to enter the motion")

    @property
    def harmonics(self) -> int:
        """Number of harmonics."""
        return int(self.coefficients.shape[1] - 1) // 2

    @property
    def duration(self) -> float:
        """Whole motion in s: entry, periods, exit."""
        return self.entry.duration + self.periods * self.period + self.exit.duration

    def motion(self, rate: float) -> Motion:
        """Samples of the whole motion at a rate in Hz."""
        times = np.arange(int(np.ceil(self.duration * rate - 1e-9)) + 1, dtype=np.float64) / rate
        t = np.minimum(times, self.duration)  # the last sample is at rest, at most one step later
        q, v, a = (np.empty((len(t), len(self.coefficients))) for _ in range(3))
        first, last = self.entry.duration, self.duration - self.exit.duration
        before, after = t < first, t > last
        inside = ~before & ~after
        q[inside], v[inside], a[inside] = _evaluate(self.coefficients, self.period, t[inside] - first + self.phase)
        if before.any():
            part = self.entry.sample(t[before])
            q[before], v[before], a[before] = part.q, part.v, part.a
        if after.any():  # an entry, backwards in time
            part = self.exit.sample((self.duration - t[after])[::-1])
            q[after], v[after], a[after] = part.q[::-1], -part.v[::-1], part.a[::-1]
        return Motion(times, q, v, a)

    def exciting_motion(self) -> Motion:
        """One period."""
        t = np.arange(SAMPLES, dtype=np.float64) * (self.period / SAMPLES)
        return Motion(t, *_evaluate(self.coefficients, self.period, t))

    def extremes(self) -> Extremes:
        """Exact extremes by the roots of trigonometric polynomials and polynomials."""
        x = self.coefficients
        speed = derivative(x, self.period)
        lowest, highest = extremes_of(x, self.period)
        v_peak = np.abs(extremes_of(speed, self.period)).max(axis=0)
        a_peak = np.abs(extremes_of(derivative(speed, self.period), self.period)).max(axis=0)
        for part in (self.entry.extremes(), self.exit.extremes()):
            lowest, highest = np.minimum(lowest, part.lowest), np.maximum(highest, part.highest)
            v_peak, a_peak = np.maximum(v_peak, part.speed), np.maximum(a_peak, part.acceleration)
        return Extremes(lowest, highest, v_peak, a_peak)


def _evaluate(x: Array, period: float, t: Array) -> tuple[Array, Array, Array]:
    basis = Basis.at(t, period, (x.shape[1] - 1) // 2)
    return basis.q @ x.T, basis.v @ x.T, basis.a @ x.T


def _calm_phases(x: Array, period: float, limits: Limits) -> list[float]:
    """Instants at which speeds and accelerations are far from their limits, the calmest first, a few of them."""
    t = np.arange(SAMPLES, dtype=np.float64) * (period / SAMPLES)
    _, v, a = _evaluate(x, period, t)
    use = np.maximum(np.abs(v) / limits.velocity, np.abs(a) / limits.acceleration)
    calm = np.argsort(use.max(axis=1))[: SAMPLES // 2]
    return [float(t[k]) for k in calm[:: len(calm) // _PHASES]]
