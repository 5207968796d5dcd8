"""Fifth-order polynomials through points (q, v, a), with their exact extremes (Gautier & Khalil 1992, eq. 24-29).

A segment of duration u runs on s = t / u in [0, 1]; the accelerations at its ends are free, where the paper takes 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynid.excitation.shape import Extremes
from dynid.robot.motion import Motion
from dynid.robot.robot import Limits
from dynid.robot.transform import Array

DEGREE = 5
BISECTIONS = 60
APPROACH, SHORTEST = 0.25, 1.0
"""Share of the speed limits on the way from a given pose to the motion and back, and its least duration (s)."""


def _hermite_coefficients() -> Array:
    """Powers of s (columns) of the Hermite polynomials for q0, q1, u v0, u v1, u^2 a0, u^2 a1 (rows), exact."""
    ends = np.zeros((6, 6))
    for derivative in range(3):
        for end in range(2):
            row = 2 * derivative + end
            for k in range(derivative, DEGREE + 1):
                falling = np.prod(np.arange(k, k - derivative, -1.0))
                ends[row, k] = falling if end or k == derivative else 0.0
    return np.asarray(np.round(2.0 * np.linalg.inv(ends).T) / 2.0, dtype=np.float64)


HERMITE = _hermite_coefficients()


def hermite_values(s: Array, orders: int = 3) -> tuple[Array, ...]:
    """The six Hermite polynomials and their derivatives at s (M,), (6, M) each: `orders` of them in all."""
    values = []
    c = HERMITE
    for _ in range(orders):
        values.append(c @ s[None, :] ** np.arange(c.shape[1])[:, None])
        c = differentiate_polynomials(c)
    return tuple(values)


def differentiate_polynomials(c: Array) -> Array:
    """Derivative of polynomials with ascending coefficients in the last axis."""
    return c[..., 1:] * np.arange(1.0, c.shape[-1])


def evaluate_polynomials(c: Array, s: Array) -> Array:
    """Polynomials c (..., k) at s (..., m), by Horner."""
    value = np.broadcast_to(c[..., -1:], s.shape).copy()
    for k in range(c.shape[-1] - 2, -1, -1):
        value *= s
        value += c[..., k : k + 1]
    return value


def turning_points(c: Array) -> Array:
    """Every s in [0, 1] where polynomials c (..., k) can be extreme, both ends included, (..., k).

    Between the turning points of its derivative a polynomial is monotone, so each of its zeros is bracketed:
    bisection finds it whatever the leading coefficients are. Brackets without a zero give their upper end.
    """
    ends = np.zeros((*c.shape[:-1], 2))
    ends[..., 1] = 1.0
    if c.shape[-1] <= 2:
        return ends
    slope = differentiate_polynomials(c)
    breaks = turning_points(slope)
    low, high = breaks[..., :-1].copy(), breaks[..., 1:].copy()
    rising = evaluate_polynomials(slope, high) > 0.0
    crossed = (evaluate_polynomials(slope, low) > 0.0) != rising
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        above = (evaluate_polynomials(slope, middle) > 0.0) == rising
        high = np.where(above & crossed, middle, high)
        low = np.where(above | ~crossed, low, middle)
    return np.sort(np.concatenate([ends, high], axis=-1), axis=-1)


@dataclass(frozen=True, slots=True, eq=False)
class Quintics:
    """Segments of durations u (S,) in s between S + 1 nodes q, v, a (S + 1, n)."""

    u: Array
    q: Array
    v: Array
    a: Array

    @property
    def duration(self) -> float:
        """Seconds from the first node to the last."""
        return float(self.u.sum())

    @property
    def times(self) -> Array:
        """Time of each node from the first, (S + 1,) in s."""
        return np.concatenate([[0.0], np.cumsum(self.u)])

    def segment_end_states(self) -> Array:
        """End states of each segment, q0, q1, u v0, u v1, u^2 a0, u^2 a1, (S, n, 6)."""
        u = self.u[:, None]
        ends = [self.q[:-1], self.q[1:], u * self.v[:-1], u * self.v[1:], u**2 * self.a[:-1], u**2 * self.a[1:]]
        return np.stack(ends, axis=-1)

    def coefficients(self) -> Array:
        """Polynomial coefficients of all segments, ascending powers of s in 0..1, (S, n, 6)."""
        return self.segment_end_states() @ HERMITE

    def sample(self, t: Array) -> Motion:
        """Positions, velocities and accelerations at times t (N,); outside the duration it stays at its ends."""
        times = self.times
        k = np.clip(np.searchsorted(times, t, side="right") - 1, 0, len(self.u) - 1)
        u = self.u[k]
        inside = np.clip((t - times[k]) / u, 0.0, 1.0)
        s = np.broadcast_to(inside[:, None, None], (len(t), self.q.shape[1], 1))
        c = self.coefficients()[k]
        first = differentiate_polynomials(c)
        q, v, a = (evaluate_polynomials(part, s)[..., 0] for part in (c, first, differentiate_polynomials(first)))
        return Motion(t, q, v / u[:, None], a / u[:, None] ** 2)

    def peaks(self) -> tuple[Array, Array, Array, Array, Array]:
        """Lowest and highest position, largest speed, acceleration and jerk of each segment, (S, n) each."""
        u = self.u[:, None]
        c = self.coefficients()
        first = differentiate_polynomials(c)
        second = differentiate_polynomials(first)
        parts = (c, first, second, differentiate_polynomials(second))
        q, v, a, jerk = (evaluate_polynomials(part, turning_points(part)) for part in parts)
        speed, acceleration, jerk = (np.abs(x).max(axis=-1) / u**k for k, x in enumerate((v, a, jerk), 1))
        return q.min(axis=-1), q.max(axis=-1), speed, acceleration, jerk

    def backwards(self) -> Quintics:
        """The same path from its end to its beginning."""
        return Quintics(self.u[::-1], self.q[::-1], -self.v[::-1], self.a[::-1])

    def with_approach(self, pose: Array, limits: Limits) -> Quintics:
        """The path, which begins at rest, after a slow straight way to it from rest in a pose (n,).

        Joints reach at most APPROACH of their velocity limits, its square of their acceleration limits, its cube of
        their jerk limits: a quintic from rest to rest over a way d in T has peaks of 15/8 d/T, 10/sqrt(3) d/T^2 and
        60 d/T^3.
        """
        way = np.abs(self.q[0] - pose)
        if not way.any():
            return self
        by_speed = 15.0 / 8.0 * way / (APPROACH * limits.velocity)
        by_acceleration = np.sqrt(10.0 / np.sqrt(3.0) * way / limits.acceleration) / APPROACH
        by_jerk = np.cbrt(60.0 * way / limits.jerk) / APPROACH
        u = max(SHORTEST, 1.0001 * float(np.max([by_speed, by_acceleration, by_jerk])))
        still = np.zeros((1, len(pose)))
        q, v, a = (np.concatenate([x, y]) for x, y in ((pose[None], self.q), (still, self.v), (still, self.a)))
        return Quintics(np.concatenate([[u], self.u]), q, v, a)

    def extremes(self) -> Extremes:
        """Exact extremes over all time."""
        lowest, highest, *peaks = self.peaks()
        return Extremes(lowest.min(axis=0), highest.max(axis=0), *(peak.max(axis=0) for peak in peaks))


Penalty = Callable[[Motion], tuple[float, tuple[Array, Array, Array]]]
"""A mean over the samples of a motion, and its gradient by q, v, a."""


@dataclass(frozen=True, slots=True, eq=False)
class PathGradient:
    """A figure along a path, with its gradients by segment times u (S,) and by the nodes' q, v, a (S + 1, n)."""

    value: float
    by_u: Array
    by_q: Array
    by_v: Array
    by_a: Array

    def scaled(self, factor: float) -> PathGradient:
        """The figure times a factor."""
        return PathGradient(factor * self.value, *(factor * x for x in (self.by_u, self.by_q, self.by_v, self.by_a)))

    def __add__(self, other: PathGradient) -> PathGradient:
        parts = zip(
            (self.by_u, self.by_q, self.by_v, self.by_a), (other.by_u, other.by_q, other.by_v, other.by_a), strict=True
        )
        return PathGradient(self.value + other.value, *(x + y for x, y in parts))


def excess_over_bounds(path: Quintics, basis: tuple[Array, ...], bounds: tuple[Array, ...]) -> PathGradient:
    """Sum of squared relative excesses of a path over its bounds, at the instants of a Hermite basis.

    Bounds are mid-range, reach, speed, acceleration, and jerk where it is in the basis, (n,) each.
    """
    middle, *limits = bounds
    states = states_at_instants(path, basis)
    value, slopes = 0.0, []
    for order, (x, limit) in enumerate(zip(states, limits, strict=True)):
        y = (x - middle[:, None] if order == 0 else x) / limit[:, None]
        over = np.maximum(np.abs(y) - 1.0, 0.0)
        value += float(np.vdot(over, over))
        slopes.append(2.0 * over * np.sign(y) / limit[:, None])
    return gradient_by_nodes(path, basis, value, states, slopes)


def states_at_instants(path: Quintics, basis: tuple[Array, ...]) -> list[Array]:
    """Positions, velocities and accelerations at the M instants of a Hermite basis in each segment, (S, n, M) each."""
    ends, u = path.segment_end_states(), path.u[:, None, None]
    return [ends @ B / u**order for order, B in enumerate(basis)]


def gradient_by_nodes(
    path: Quintics, basis: tuple[Array, ...], value: float, states: list[Array], by_states: list[Array]
) -> PathGradient:
    """Gradient by durations and nodes from the gradient by sampled states, (S, n, M) each, by the chain rule."""
    u = path.u[:, None]
    by_ends = np.zeros((len(u), path.q.shape[1], len(HERMITE)))
    by_u = np.zeros_like(path.u)
    for order, (B, x, g) in enumerate(zip(basis, states, by_states, strict=True)):
        by_ends += g @ B.T / u[..., None] ** order
        by_u -= order * np.einsum("ijk,ijk->i", g, x) / path.u
    q0, q1, v0, v1, a0, a1 = np.moveaxis(by_ends, 2, 0)
    by_u += (v0 * path.v[:-1] + v1 * path.v[1:] + 2.0 * u * (a0 * path.a[:-1] + a1 * path.a[1:])).sum(axis=1)
    return PathGradient(
        value,
        by_u,
        _sum_at_nodes(q0, q1),
        _sum_at_nodes(u * v0, u * v1),
        _sum_at_nodes(u**2 * a0, u**2 * a1),
    )


def penalty_along_path(path: Quintics, basis: tuple[Array, ...], penalty: Penalty) -> PathGradient:
    """Sum over the instants of a Hermite basis in all segments of a penalty that is a mean over samples."""
    states = states_at_instants(path, basis)
    S, n, M = states[0].shape
    q, v, a = (x.transpose(0, 2, 1).reshape(-1, n) for x in states)
    mean, by = penalty(Motion(np.arange(float(S * M)), q, v, a))
    slopes = [S * M * g.reshape(S, M, n).transpose(0, 2, 1) for g in by]
    return gradient_by_nodes(path, basis, S * M * mean, states, slopes)


def _sum_at_nodes(left: Array, right: Array) -> Array:
    """Gradients by the nodes from gradients by both ends of each segment."""
    nodes = np.zeros((len(left) + 1, left.shape[1]))
    nodes[:-1] += left
    nodes[1:] += right
    return nodes
