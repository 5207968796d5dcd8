"""Essential parameters: backward elimination of what the data do not need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from dynid.estimation.least_squares import Solution
from dynid.robot.transform import Array


@dataclass(frozen=True, slots=True, eq=False)
class Essential:
    """What is left: indices of the unknowns, their values, and by how much the weighted residual grew (a ratio)."""

    kept: tuple[int, ...]
    values: Array
    growth: float


def eliminate(solution: Solution, inflation: float, groups: int) -> Essential:
    """Drop the least significant parameter as long as a test at 5 % does not miss it.

    The growth of the weighted sum of squares by one parameter, divided by `inflation` (how much larger real
    variances are than white ones), is compared with the quantile of F(1, groups - 1); the same holds for all
    dropped ones together, with their number as degrees of freedom.
    """
    from scipy.stats import f

    rank = solution.rank
    if not np.array_equal(solution.free @ solution.free.T, np.diag(np.diag(solution.free @ solution.free.T))):
        everything = tuple(range(len(solution.values)))  # constraints tie parameters together: none is dropped
        return Essential(everything, solution.values.copy(), 1.0)
    places = np.argmax(solution.free != 0.0, axis=0)
    R = solution.R
    x = solution.values[places].copy()
    inverse = scipy.linalg.solve_triangular(R, np.eye(rank))
    P = inverse @ inverse.T
    left = list(range(rank))
    grown, dropped = 0.0, 0
    freedom = max(groups - 1, 3)
    limit = float(f.ppf(0.95, 1, freedom))
    while len(left) > 1:
        growth = x**2 / np.diag(P)
        k = int(np.argmin(growth))
        together = float(f.ppf(0.95, dropped + 1, freedom))
        if growth[k] / inflation > limit or (grown + growth[k]) / inflation / (dropped + 1) > together:
            break
        grown += float(growth[k])
        dropped += 1
        x = x - P[:, k] * (x[k] / P[k, k])
        P = P - np.outer(P[:, k], P[k]) / P[k, k]
        keep = [i for i in range(len(left)) if i != k]
        x, P, left = x[keep], P[np.ix_(keep, keep)], [left[i] for i in keep]
    values = np.zeros(len(solution.values))
    kept = places[left]
    values[kept] = x
    residual = float((solution.residual_squares / solution.noise**2).sum())
    order = np.argsort(kept)
    return Essential(tuple(int(k) for k in kept[order]), values, 1.0 + grown / max(residual, 1e-300))
