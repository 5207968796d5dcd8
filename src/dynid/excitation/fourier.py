"""Periodic series of a base frequency and its multiples (Swevers), from rest to rest, for any number of periods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynid.errors import ExcitationError
from dynid.excitation.quintics import Quintics, hermite_values
from dynid.excitation.shape import Extremes, middle_and_half_range
from dynid.robot.motion import Motion
from dynid.robot.robot import Limits
from dynid.robot.transform import Array

# From rest into a periodic motion and back: one fifth-order polynomial per joint, inside all limits.


_DURATIONS = np.concatenate([np.geomspace(1.0, 40.0, 36), np.geomspace(0.9, 0.2, 8)])
"""Tried in this order (s): calm entries first, hasty ones where nothing else fits."""
_PLACES = 41
_INSIDE = hermite_values(np.linspace(0.0, 1.0, 25), 4)
"""Hermite polynomials and three derivatives at instants of a segment, which refuse most segments at little cost."""


def find_entry_segment(
    state: tuple[Array, Array, Array],
    limits: Limits,
    rest: Array | None,
    names: tuple[str, ...],
    accept: Callable[[Quintics], bool],
) -> Quintics:
    """Shortest acceptable segment from a rest pose of its choice to a state (q, v, a), after an approach to that pose.

    rest (n,): where the approach begins; there is none where it is missing.
    """
    q, v, a = state
    still = np.zeros_like(q)
    stops = names[0]
    for T in _DURATIONS:
        for places in _candidate_rest_positions(q, v, float(T), limits):
            use = _use_at_instants(places, state, float(T), limits).min(axis=1)
            if use.max() <= 1.0:
                chosen, use = _best_rest_positions(places, state, float(T), limits)
            stops = names[int(np.argmax(use))]
            if use.max() <= 1.0:
                entry = Quintics(np.array([T]), np.stack([chosen, q]), np.stack([still, v]), np.stack([still, a]))
                if rest is not None:
                    entry = entry.with_approach(rest, limits)
                if accept(entry):
                    return entry
    raise ExcitationError(
        "no_entry_from_rest", "no entry from rest stays inside all limits (joint '{joint}' is nearest to one)",
        "choose another rest pose", joint=stops,
    )  # fmt: skip


def _candidate_rest_positions(q: Array, v: Array, T: float, limits: Limits) -> list[Array]:
    """Candidate rest positions (n, places): anywhere, at the start of a steady acceleration, or where the state is."""
    natural = q - 0.5 * v * T
    lower, upper = limits.position.T
    low = np.where(np.isfinite(lower), lower, natural - 0.5)
    high = np.where(np.isfinite(upper), upper, natural + 0.5)
    grid = low[:, None] + (high - low)[:, None] * np.linspace(0.005, 0.995, _PLACES)
    return [np.hstack([natural[:, None], q[:, None], grid]), natural[:, None], q[:, None]]


def _use_at_instants(places: Array, state: tuple[Array, Array, Array], T: float, limits: Limits) -> Array:
    """Use of limits by segments from every place (n, places) at some instants: no more than the exact use."""
    q, v, a = (x[:, None] for x in state)
    still = np.zeros_like(places)
    ends = np.stack([places, still + q, still, still + T * v, still, still + T**2 * a], axis=-1)
    middle, half = middle_and_half_range(limits)
    bounds = (half, limits.velocity, limits.acceleration, limits.jerk)
    uses = [
        np.abs(ends @ B / T**order - (middle[:, None, None] if order == 0 else 0.0)).max(axis=2) / bound[:, None]
        for order, (B, bound) in enumerate(zip(_INSIDE, bounds, strict=True))
    ]
    return np.asarray(np.maximum.reduce(uses))


def _best_rest_positions(
    places: Array, state: tuple[Array, Array, Array], T: float, limits: Limits
) -> tuple[Array, Array]:
    """Per joint the rest position with the smallest exact use of limits, and that use."""
    middle, half = middle_and_half_range(limits)
    chosen, use = np.empty(len(places)), np.empty(len(places))
    for j, row in enumerate(places):
        still = np.zeros(len(row))
        nodes = [
            np.stack([first, np.full(len(row), x[j])]) for first, x in zip((row, still, still), state, strict=True)
        ]
        lowest, highest, speed, acceleration, jerk = (x[0] for x in Quintics(np.array([T]), *nodes).peaks())
        reach = np.maximum(highest - middle[j], middle[j] - lowest) / half[j]
        uses = np.maximum(reach, np.maximum(speed / limits.velocity[j], acceleration / limits.acceleration[j]))
        uses = np.maximum(uses, jerk / limits.jerk[j])
        best = int(np.argmin(uses))
        chosen[j], use[j] = row[best], uses[best]
    return chosen, use


# Trigonometric polynomials q(t) = c + sum a_k sin(k w t) + b_k cos(k w t), and their exact extremes.
#
# Positions, speeds and accelerations are linear in the coefficients x = (c, a_1..a_H, b_1..b_H); extremes come from
# the roots of the derivative as a polynomial in z = exp(i w t).


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """Values of the functions and their derivatives at instants: q, v, a, jerk matrices (instants, 2 H + 1)."""

    q: Array
    v: Array
    a: Array
    jerk: Array

    @staticmethod
    def at_instants(t: Array, period: float, harmonics: int) -> Basis:
        """Evaluate the basis functions at instants t (s)."""
        kw = 2.0 * np.pi / period * np.arange(1, harmonics + 1)
        s, c = np.sin(np.outer(t, kw)), np.cos(np.outer(t, kw))
        one, zero = np.ones((len(t), 1)), np.zeros((len(t), 1))
        return Basis(
            np.hstack([one, s, c]), np.hstack([zero, c * kw, -s * kw]), np.hstack([zero, -s * kw**2, -c * kw**2]),
            np.hstack([zero, -c * kw**3, s * kw**3]),
        )  # fmt: skip


def derivative_coefficients(x: Array, period: float) -> Array:
    """Coefficients (n, 2 H + 1) of the time derivative."""
    H = (x.shape[1] - 1) // 2
    kw = 2.0 * np.pi / period * np.arange(1, H + 1)
    a, b = x[:, 1 : H + 1], x[:, H + 1 :]
    return np.hstack([np.zeros((len(x), 1)), -b * kw, a * kw])


def series_extremes(x: Array, period: float) -> tuple[Array, Array]:
    """Lowest and highest value of each series over all time, (n,) each."""
    H = (x.shape[1] - 1) // 2
    slope = derivative_coefficients(x, period)
    lowest, highest = np.empty(len(x)), np.empty(len(x))
    for j, row in enumerate(slope):
        t = _zero_phases(row, H) * period / (2.0 * np.pi)
        values = Basis.at_instants(np.append(t, 0.0), period, H).q @ x[j]
        lowest[j], highest[j] = values.min(), values.max()
    return lowest, highest


def derivative_peaks(x: Array, period: float) -> list[Array]:
    """Largest speed, acceleration and jerk of each series over all time, (n,) each."""
    peaks = []
    for _ in range(3):
        x = derivative_coefficients(x, period)
        peaks.append(np.abs(series_extremes(x, period)).max(axis=0))
    return peaks


def _zero_phases(row: Array, H: int) -> Array:
    """Phases at which a series without constant part vanishes; other phases among them do no harm."""
    a, b = row[1 : H + 1], row[H + 1 :]
    # sum a_k sin(k phi) + b_k cos(k phi) = Re sum (b_k - i a_k) z^k; times 2 z^H a polynomial of degree 2 H
    c = b - 1j * a
    polynomial = np.concatenate([c[::-1], [0.0], np.conj(c)])
    scale = np.abs(polynomial).max()
    if scale == 0.0:
        return np.zeros(0)
    leading = int(np.argmax(np.abs(polynomial) > 1e-14 * scale))
    roots = np.roots(polynomial[leading : len(polynomial) - leading])
    return np.asarray(np.angle(roots))


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
    def with_entry_and_exit(
        coefficients: Array,
        period: float,
        periods: int,
        *,
        limits: Limits,
        rest: Array | None,
        names: tuple[str, ...],
        accept: Callable[[Quintics], bool] = lambda _: True,
    ) -> FourierShape:
        """Choose where to enter the series, and polynomials from and to rest that `accept` allows."""
        refusal: ExcitationError | None = None
        for phase in _phases_far_from_limits(coefficients, period, limits, rest):
            q, v, a = (x[0] for x in _sample_series(coefficients, period, np.array([phase])))
            try:
                entry = find_entry_segment((q, v, a), limits, rest, names, accept)
                back = find_entry_segment((q, -v, a), limits, rest, names, accept)
            except ExcitationError as error:
                refusal = refusal or error
                continue
            return FourierShape(coefficients, period, periods, phase, entry, back)
        raise refusal or ExcitationError("no_entry_instant", "there is no instant to enter the motion")

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
        q[inside], v[inside], a[inside] = _sample_series(self.coefficients, self.period, t[inside] - first + self.phase)
        if before.any():
            part = self.entry.sample(t[before])
            q[before], v[before], a[before] = part.q, part.v, part.a
        if after.any():  # an entry, backwards in time
            part = self.exit.sample((self.duration - t[after])[::-1])
            q[after], v[after], a[after] = part.q[::-1], -part.v[::-1], part.a[::-1]
        return Motion(times, q, v, a)

    def exciting_motion(self) -> Motion:
        """Samples of one period, over which the condition number is taken."""
        t = np.arange(SAMPLES, dtype=np.float64) * (self.period / SAMPLES)
        return Motion(t, *_sample_series(self.coefficients, self.period, t))

    def extremes(self) -> Extremes:
        """Exact extremes by the roots of trigonometric polynomials and polynomials."""
        x = self.coefficients
        lowest, highest = series_extremes(x, self.period)
        v_peak, a_peak, j_peak = derivative_peaks(x, self.period)
        for part in (self.entry.extremes(), self.exit.extremes()):
            lowest, highest = np.minimum(lowest, part.lowest), np.maximum(highest, part.highest)
            v_peak, a_peak = np.maximum(v_peak, part.speed), np.maximum(a_peak, part.acceleration)
            j_peak = np.maximum(j_peak, part.jerk)
        return Extremes(lowest, highest, v_peak, a_peak, j_peak)


def _sample_series(x: Array, period: float, t: Array) -> tuple[Array, Array, Array]:
    """Positions, velocities and accelerations of the series at instants t."""
    basis = Basis.at_instants(t, period, (x.shape[1] - 1) // 2)
    return basis.q @ x.T, basis.v @ x.T, basis.a @ x.T


def _phases_far_from_limits(x: Array, period: float, limits: Limits, rest: Array | None) -> list[float]:
    """A few instants at which speeds and accelerations are far from their limits, the farthest first.

    With a pose of rest (n,), that comes first whose pose is reached from there in the shortest time.
    """
    t = np.arange(SAMPLES, dtype=np.float64) * (period / SAMPLES)
    q, v, a = _sample_series(x, period, t)
    use = np.maximum(np.abs(v) / limits.velocity, np.abs(a) / limits.acceleration)
    calm = np.argsort(use.max(axis=1))[: SAMPLES // 2]
    chosen = calm[:: len(calm) // _PHASES]
    if rest is not None:
        way = np.abs(q[chosen] - rest)
        needed = np.maximum(way / limits.velocity, np.sqrt(way / limits.acceleration))
        chosen = chosen[np.argsort(needed.max(axis=1), kind="stable")]
    return [float(t[k]) for k in chosen]
