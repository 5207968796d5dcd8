"""Which optional friction blocks to admit: blocked cross validation on the factors, nothing read twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from dynid.dynamics.friction import HARMONICS
from dynid.estimation.accumulate.factor import Block
from dynid.estimation.inference.cross_validation import Folds
from dynid.estimation.regression.equation import Equation, Indices
from dynid.estimation.regression.unknowns import Unknowns
from dynid.estimation.solve.least_squares import Solution
from dynid.robot.transform import Array

DEFAULT = ("viscous", "offset", "stop1e-4", "stop1e-3", "stop1e-2", "tanh", "quadratic")
"""Blocks that every robot gets."""

OPTIONAL = (
    "lag", "load", "stop3e-4", "stop3e-3", "stop1e-1", "coulomb", "spring", *HARMONICS, "asymmetry", "stribeck", "rest",
)  # fmt: skip
"""Blocks that must earn their place."""

GAIN = 0.03
"""Smallest relative improvement of the cross-validated error that admits a block."""

LOSS = 0.05
"""Relative growth of the error at rest that refuses a block, whatever it gains in motion."""

EXACT = 1e-6
"""NRMSE below which only rounding is left to explain."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One question to the gate: blocks tried, their mean NRMSE on held-out blocks of time, and the answer.

    Errors are those in motion; of `rest`, which is 0 there, those at rest and shortly after.
    """

    block: str
    error: float
    before: float
    admitted: bool


def choose_friction_blocks(
    equation: Equation,
    blocks: tuple[Block, ...],
    noise: Array,
    *,
    logs: int,
    per_log: tuple[str, ...],
    left_out: Indices,
    always: tuple[str, ...] = DEFAULT,
    optional: Sequence[str] = OPTIONAL,
) -> tuple[tuple[str, ...], tuple[Trial, ...]]:
    """Admit optional blocks one by one, the best first, as long as the held-out error in motion falls by 3 %.

    A block that raises the error at rest by more than 5 % is refused; `rest` is asked for last, and judged by the error
    at rest. left_out: columns of the equation that are not used (`State.unseen_harmonics`).
    """
    places = equation.columns_by_friction_block  # a state of an older version lacks some
    optional = [name for name in optional if name in places and not np.isin(places[name], left_out).all()]
    everything = (*always, *optional)
    unknowns = Unknowns.for_equation(equation, everything, logs, per_log=per_log, left_out=left_out)
    folds = Folds.from_blocks(unknowns, blocks, noise)
    chosen = always
    trials: list[Trial] = []
    if folds.count < 3:
        return chosen, ()

    torques = len(equation.channels) - len(equation.base_channels)
    rests = folds.count_with_rest(unknowns.place[:, places.get("rest", [])]) >= 3

    def held_out_errors(names: Sequence[str]) -> dict[str, tuple[float, float]]:
        """Mean NRMSE of the torques on held-out blocks of time with the chosen blocks and each of some others.

        In motion, and at rest or shortly after (0 where the robot rests in less than three folds).
        """
        known = unknowns_with_blocks(equation, unknowns, everything, chosen)
        more = [
            np.setdiff1d(unknowns.place[:, equation.columns_by_friction_block.get(name, [])], [*known, -1])
            for name in names
        ]
        errors = zip(names, *folds.errors_with_each_set(known, more), strict=True)
        return {
            name: (
                float(folds.nrmse(moving)[:torques].mean()),
                float(np.nanmean(folds.nrmse_at_rest(resting)[:torques])) if rests else 0.0,
            )
            for name, moving, resting in errors
        }

    now, now_at_rest = held_out_errors([""])[""]
    while True:
        others = [name for name in optional if name not in (*chosen, "rest")]
        tried = held_out_errors(others) if others and now >= EXACT else {}
        if not tried:
            break
        harmless = [name for name in tried if tried[name][1] <= (1.0 + LOSS) * now_at_rest] or others
        best = min(harmless, key=lambda name: tried[name][0])
        good = tried[best][0] <= min((1.0 - GAIN) * now, 1.0)  # above 1 nothing is explained, and nothing is learned
        good = good and tried[best][1] <= (1.0 + LOSS) * now_at_rest
        trials += [Trial(name, error, now, good and name == best) for name, (error, _) in tried.items()]
        if not good:
            break
        chosen, (now, now_at_rest) = (*chosen, best), tried[best]
    if "rest" in optional and rests and now >= EXACT:
        at_rest = held_out_errors(["rest"])["rest"][1]
        good = at_rest <= min((1.0 - GAIN) * now_at_rest, 1.0)
        trials.append(Trial("rest", at_rest, now_at_rest, good))
        chosen = (*chosen, "rest") if good else chosen
    return chosen, tuple(trials)


def unknowns_with_blocks(
    equation: Equation, unknowns: Unknowns, all_blocks: tuple[str, ...], some: tuple[str, ...]
) -> Indices:
    """Indices of the unknowns that remain with only `some` of the friction blocks."""
    left_out = [k for name in all_blocks if name not in some for k in equation.columns_by_friction_block[name]]
    gone = set(unknowns.place[:, left_out].ravel().tolist()) - {-1} if left_out else set()
    return np.array([k for k in range(len(unknowns)) if k not in gone], dtype=np.int64)


# Essential parameters: backward elimination of what the data do not need.


@dataclass(frozen=True, slots=True, eq=False)
class SignificantParameters:
    """What is left: indices of the unknowns, their values, and by how much the weighted residual grew (a ratio)."""

    kept: tuple[int, ...]
    values: Array
    growth: float


def eliminate_insignificant(solution: Solution, inflation: float, groups: int) -> SignificantParameters:
    """Drop the least significant parameter again and again, until a test at 5 % rejects that.

    The growth of the weighted sum of squares by one parameter, divided by `inflation` (how much larger real
    variances are than white ones), is compared with the quantile of F(1, groups - 1); the same holds for all
    dropped ones together, with their number as degrees of freedom.
    """
    from scipy.stats import f

    rank = solution.rank
    if not np.array_equal(solution.free @ solution.free.T, np.diag(np.diag(solution.free @ solution.free.T))):
        everything = tuple(range(len(solution.values)))  # constraints tie parameters together: none is dropped
        return SignificantParameters(everything, solution.values.copy(), 1.0)
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
    return SignificantParameters(tuple(int(k) for k in kept[order]), values, 1.0 + grown / max(residual, 1e-300))
