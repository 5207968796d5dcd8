"""Trigonometric polynomials q(t) = c + sum a_k sin(k w t) + b_k cos(k w t), and their exact extremes.

Positions, speeds and accelerations are linear in the coefficients x = (c, a_1..a_H, b_1..b_H); extremes come from
the roots of the derivative as a polynomial in z = exp(i w t).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.robot.transform import Array


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """Values of the functions and their derivatives at instants: q, v, a matrices (instants, 2 H + 1)."""

    q: Array
    v: Array
    a: Array

    @staticmethod
    def at(t: Array, period: float, harmonics: int) -> Basis:
        """Evaluate at instants t (s)."""
        kw = 2.0 * np.pi / period * np.arange(1, harmonics + 1)
        s, c = np.sin(np.outer(t, kw)), np.cos(np.outer(t, kw))
        one, zero = np.ones((len(t), 1)), np.zeros((len(t), 1))
        return Basis(
            np.hstack([one, s, c]), np.hstack([zero, c * kw, -s * kw]), np.hstack([zero, -s * kw**2, -c * kw**2])
        )


def derivative(x: Array, period: float) -> Array:
    """Coefficients (n, 2 H + 1) of the time derivative."""
    H = (x.shape[1] - 1) // 2
    kw = 2.0 * np.pi / period * np.arange(1, H + 1)
    a, b = x[:, 1 : H + 1], x[:, H + 1 :]
    return np.hstack([np.zeros((len(x), 1)), -b * kw, a * kw])


def extremes_of(x: Array, period: float) -> tuple[Array, Array]:
    """Lowest and highest value of each series over all time, (n,) each."""
    H = (x.shape[1] - 1) // 2
    slope = derivative(x, period)
    lowest, highest = np.empty(len(x)), np.empty(len(x))
    for j, row in enumerate(slope):
        t = _zeros(row, H) * period / (2.0 * np.pi)
        values = Basis.at(np.append(t, 0.0), period, H).q @ x[j]
        lowest[j], highest[j] = values.min(), values.max()
    return lowest, highest


def _zeros(row: Array, H: int) -> Array:
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
