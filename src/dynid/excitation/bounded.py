"""A smooth map from all coefficients to those that respect the limits at every checked instant.

Limits are linear in a joint's coefficients and symmetric about its mid-range, so dividing them by the largest use of
a limit makes them valid. The maximum is taken as a p-norm, which is never smaller: y = x / (1 + |use(x)|_p^p)^(1/p).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.excitation.series import Basis
from dynid.excitation.shape import middle_and_half
from dynid.robot.limits import Limits
from dynid.robot.transform import Array


@dataclass(frozen=True, slots=True, eq=False)
class BoundedCoefficients:
    """The map for n joints; use[j] (instants of all limits, 2 H + 1) gives peak over limit of joint j."""

    use: Array

    @staticmethod
    def of(basis: Basis, limits: Limits) -> BoundedCoefficients:
        """Collect the limits of all joints; unlimited ones weigh nothing."""
        _, half = middle_and_half(limits)
        parts = [
            basis.q[None] / half[:, None, None],
            basis.v[None] / limits.velocity[:, None, None],
            basis.a[None] / limits.acceleration[:, None, None],
        ]
        return BoundedCoefficients(np.concatenate(parts, axis=1))

    def apply(self, x: Array, p: float) -> tuple[Array, Array]:
        """Valid coefficients y (n, 2 H + 1) and the divisors (n,)."""
        divisor, _ = self._divisor(x, p)
        return x / divisor[:, None], divisor

    def pull_back(self, x: Array, p: float, by_y: Array) -> Array:
        """Gradient by x from that by y."""
        divisor, slope = self._divisor(x, p)
        along = (by_y * x).sum(axis=1) / divisor**2
        return np.asarray(by_y / divisor[:, None] - along[:, None] * slope)

    def _divisor(self, x: Array, p: float) -> tuple[Array, Array]:
        """(1 + sum |use|^p)^(1/p) and its slope by x, without overflow."""
        u = np.einsum("jic,jc->ji", self.use, x)
        size = np.abs(u)
        top = np.maximum(size.max(axis=1), 1.0)
        parts = (size / top[:, None]) ** p
        total = top**-p + parts.sum(axis=1)
        divisor = top * total ** (1.0 / p)
        weight = parts / np.maximum(size, 1e-300) * np.sign(u) / total[:, None]
        return divisor, np.einsum("ji,jic->jc", weight, self.use) * divisor[:, None]
