"""Integrals of sampled signals over time, to a stated order, also where a joint's sign of velocity makes them jump.

Between two samples the integrand is the polynomial through the nearest POINTS samples (order 8 on smooth signals, on
any grid of instants), or a straight line (`trapezoid`, order 2). Samples are never joined across a change of the sign
of velocity: the step in which it happens is cut at the instant of the change, and each side is continued from its own
samples, so that sign(v), |v| and torques with Coulomb friction are integrated to high order too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.robot.transform import Array

POINTS = 8
"""Samples per polynomial; half of them is how far a step looks."""

CAREFUL = 4
"""Samples from which a side is continued up to a change of sign, where there is noise that more would amplify."""

QUADRATURES = ("smooth", "trapezoid")

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """Where a signal may jump: after samples `after` (K,), at instants `when` (K,)."""

    after: Indices
    when: Array

    @staticmethod
    def none() -> Cuts:
        """No cuts, for a smooth signal."""
        return Cuts(np.zeros(0, dtype=np.int64), np.zeros(0))


def sign_changes(t: Array, v: Array, sign: Array) -> Cuts:
    """Instants at which the sign (N,) of a velocity (N,) changes, by the cubic through four samples around."""
    after = np.flatnonzero(np.diff(sign) != 0.0)
    if not len(after):
        return Cuts.none()
    left, right = t[after], t[after + 1]
    step = right - left
    u = np.where(sign[after] == 0.0, 0.0, 1.0)  # out of a standstill, or into one
    through = sign[after] * sign[after + 1] < 0.0
    if through.any():
        k = after[through]
        m = min(4, len(t))
        nodes = np.clip(k - 1, 0, len(t) - m)[:, None] + np.arange(m)
        x = (t[nodes] - left[through, None]) / step[through, None]
        c = np.linalg.solve(x[:, :, None] ** np.arange(m), v[nodes][:, :, None])[:, :, 0]
        root = v[k] / (v[k] - v[k + 1])
        slopes = np.arange(1, m)
        for _ in range(4):
            value = (c * root[:, None] ** np.arange(m)).sum(axis=1)
            slope = (c[:, 1:] * slopes * root[:, None] ** (slopes - 1)).sum(axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                better = root - value / slope
            root = np.where((better >= 0.0) & (better <= 1.0), better, root)
        u[through] = root
    return Cuts(after, left + u * step)


def merge_cuts(several: list[Cuts]) -> Cuts:
    """Merge the cuts of several signals; of two in one step the first counts."""
    after = np.concatenate([cuts.after for cuts in several])
    when = np.concatenate([cuts.when for cuts in several])
    order = np.lexsort((when, after))
    first = np.unique(after[order], return_index=True)[1]
    return Cuts(after[order][first], when[order][first])


def integrate(t: Array, f: Array, *, cuts: Cuts | None = None, rule: str = "smooth", careful: bool = False) -> Array:
    """Integral (N, c) of columns f (N, c) from the first sample to every other; careful: there is noise in f."""
    total = np.zeros(f.shape)
    if len(t) < 2:
        return total
    if rule == "trapezoid":
        steps = 0.5 * np.diff(t)[:, None] * (f[:-1] + f[1:])
    else:
        steps = _integrate_steps(t, f, Cuts.none() if cuts is None else cuts, CAREFUL if careful else POINTS)
    np.cumsum(steps, axis=0, out=total[1:])
    return total


def _integrate_steps(t: Array, f: Array, cuts: Cuts, beyond: int) -> Array:
    """Integrals (N - 1, c) from sample to sample; sides are continued to a cut from `beyond` samples."""
    N = len(t)
    steps = np.zeros((N - 1, f.shape[1]))
    begin, end = _smooth_pieces(N, cuts.after)  # of the piece of every sample
    k = np.setdiff1d(np.arange(N - 1), cuts.after)
    first = np.clip(k - (POINTS // 2 - 1), begin[k], np.maximum(begin[k], end[k] - POINTS + 1))
    count = np.minimum(POINTS, end[k] - first + 1)
    usual = np.diff(t)
    even = usual.max() - usual.min() <= 1e-6 * usual.mean()
    inner = (first == k - (POINTS // 2 - 1)) & (count == POINTS) if even else np.zeros(len(k), dtype=np.bool_)
    if inner.any():
        w = (
            _quadrature_weights(np.arange(1.0 - POINTS // 2, POINTS // 2 + 1)[None, :], np.zeros(1), np.ones(1))[0]
            * usual.mean()
        )
        own = np.zeros((N - POINTS + 1, f.shape[1]))
        for i in range(POINTS):
            own += w[i] * f[i : N - POINTS + 1 + i]
        steps[k[inner]] = own[first[inner]]
    rest = ~inner
    k = k[rest]
    _add_polynomial_integrals(steps, t, f, k=k, first=first[rest], count=count[rest], low=t[k], high=t[k + 1])
    a = cuts.after
    count = np.minimum(beyond, a - begin[a] + 1)
    _add_polynomial_integrals(steps, t, f, k=a, first=a - count + 1, count=count, low=t[a], high=cuts.when)
    count = np.minimum(beyond, end[a + 1] - a)
    _add_polynomial_integrals(steps, t, f, k=a, first=a + 1, count=count, low=cuts.when, high=t[a + 1])
    return steps


def _smooth_pieces(N: int, after: Indices) -> tuple[Indices, Indices]:
    """First and last sample (N,) of the smooth piece in which every sample lies."""
    bounds = np.concatenate([[0], after + 1, [N]])
    lengths = np.diff(bounds)
    return np.repeat(bounds[:-1], lengths), np.repeat(bounds[1:] - 1, lengths)


def _add_polynomial_integrals(
    steps: Array, t: Array, f: Array, *, k: Indices, first: Indices, count: Indices, low: Array, high: Array
) -> None:
    """Add to steps k the integrals from low to high of the polynomials through `count` samples from `first` on."""
    for m in np.unique(count):
        some = count == m
        nodes = first[some, None] + np.arange(m)
        origin, step = t[k[some]], t[k[some] + 1] - t[k[some]]
        x = (t[nodes] - origin[:, None]) / step[:, None]
        w = _quadrature_weights(x, (low[some] - origin) / step, (high[some] - origin) / step) * step[:, None]
        for i in range(int(m)):
            steps[k[some]] += w[:, i, None] * f[nodes[:, i]]


def _quadrature_weights(x: Array, low: Array, high: Array) -> Array:
    """Weights (M, m) of samples at x (M, m) in the integral of their polynomial from low to high (M,)."""
    powers = np.arange(x.shape[1])
    moments = (high[:, None] ** (powers + 1) - low[:, None] ** (powers + 1)) / (powers + 1)
    return np.asarray(np.linalg.solve(np.swapaxes(x[:, :, None] ** powers, 1, 2), moments[:, :, None])[:, :, 0])
