"""Deviations that cover: the delete-block jackknife on block factors (all joints of a block together).

Residuals of real robots are coloured and depend on the motion, so the textbook covariance claims two to four times
too much precision. Leaving out one block of time after the other asks the data instead. In coordinates where the
weighted matrix is orthonormal, leaving out block g is (I - Z'Z)^-1 Z'e with Z, e its rows: no refit from scratch.
Where residuals remember longer than a block, neighbours shift the values alike; where a motion is repeated, what the
model lacks is repeated too, and blocks a period apart shift them alike. The variance grows with both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from dynid.estimation.accumulate.one_pass import Block
from dynid.estimation.regression.equation import Equation
from dynid.estimation.regression.unknowns import Unknowns
from dynid.estimation.solve.least_squares import Factors, Solution
from dynid.robot.transform import Array

FEWEST = 4
ESSENTIAL = 1e-6
"""A block that holds all but this share of what is known of some direction cannot be left out."""


CHANCE = 0.4
"""Median correlation of blocks some lag apart that chance may give, times the square root of the pairs over the blocks.

Single unknowns scatter with 1; the median over all of them, which are correlated, with about a third of that.
"""

FEW = 3.0
"""The same times the square root of the unknowns, where they are few: 2.4 times the scatter of their median."""

OPPOSITE = 0.2
"""Median correlation of neighbours below whose negative they err in opposite directions."""

LEAST = 0.25
"""Smallest growth of a variance: neighbours of opposite sign are not trusted to cancel more."""


@dataclass(frozen=True, slots=True, eq=False)
class Jackknife:
    """Shifts (groups, unknowns) of the values when a group of blocks is left out; covariance (unknowns, unknowns)."""

    shifts: Array
    covariance: Array
    groups: int
    essential_groups: int

    @property
    def sigma(self) -> Array:
        """Standard deviations."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def quantile(self) -> float:
        """Half width of the 95 % interval in deviations: Student's t with groups - 1 degrees of freedom."""
        from scipy.stats import t

        return float(t.ppf(0.975, self.groups - 1))


def jackknife(
    unknowns: Unknowns, solution: Solution, blocks: tuple[Block, ...], most: int = 128, *, derived: bool = False
) -> Jackknife | None:
    """Leave out one group of blocks after the other; None where there are too few.

    derived: residuals are noise of derivatives for the most part.
    """
    groups = grouped(blocks, most)
    if len(groups) < FEWEST:
        return None
    inverse = solution.free @ scipy.linalg.solve_triangular(solution.R, np.eye(solution.rank))
    shifts, steps = np.zeros((len(groups), len(unknowns))), np.zeros((len(groups), solution.rank))
    essential = 0
    for g, group in enumerate(groups):
        gram = np.zeros((solution.rank, solution.rank))
        pull = np.zeros(solution.rank)
        for block in group:
            for c, factor in enumerate(block.factors):
                if not len(factor.R):
                    continue
                place = unknowns.place[block.log, unknowns.channels[c]]
                used = place >= 0
                R = factor.R[:, :-1][:, used] / solution.noise[c]
                residual = factor.R[:, -1] / solution.noise[c] - R @ solution.values[place[used]]
                Z = R @ inverse[place[used]]
                gram += Z.T @ Z
                pull += Z.T @ residual
        steps[g], alone = left_out(gram, pull)
        essential += alone
        shifts[g] = -(inverse @ steps[g])
    return of_shifts(shifts, steps, essential, derived=derived)


def of_shifts(shifts: Array, steps: Array, essential: int, *, derived: bool = False) -> Jackknife:
    """Covariance from the shifts (groups, unknowns) and those of whitened unknowns, `steps` (groups, rank)."""
    G = len(shifts)
    centred = shifts - shifts.mean(axis=0)
    grown = centred * np.sqrt(_memory(centred, steps - steps.mean(axis=0), derived) * (G - 1.0) / G)
    return Jackknife(shifts, grown.T @ grown, G, essential)


def _memory(shifts: Array, steps: Array, derived: bool) -> Array:
    """Growth (unknowns,) of the variances where blocks err alike; steps (groups, rank): shifts of whitened unknowns.

    Lags at which the median correlation over the whitened unknowns is above chance count with each unknown's own
    correlation, at least the median; of neighbours the median counts in any case. Where it is below zero in noise of
    derivatives, variances shrink: that at the end of a block is made up for by that at the start of the next. (The
    unknowns themselves may hang on a few weak directions, as those of one channel of energy do: chance would move all
    of them together.)
    """
    power = (shifts**2).sum(axis=0)
    spread = (steps**2).sum(axis=0)
    seen = power > 0.0
    growth = np.ones(shifts.shape[1])
    chance = max(CHANCE, FEW / np.sqrt(max(steps.shape[1], 1)))
    if not seen.any():
        return growth
    for lag in range(1, len(shifts)):
        own = (shifts[lag:] * shifts[:-lag]).sum(axis=0) / np.where(seen, power, 1.0)
        rho = float(np.median((steps[lag:] * steps[:-lag]).sum(axis=0)[spread > 0.0] / spread[spread > 0.0]))
        limit = chance * np.sqrt(len(shifts) - lag) / len(shifts)
        if rho > limit:
            growth += 2.0 * np.maximum(own, rho)
        elif lag == 1:
            growth += 2.0 * np.clip(own, rho, 0.0) if derived and rho < -OPPOSITE else 2.0 * max(0.0, rho)
    return np.maximum(growth, LEAST)


def left_out(gram: Array, pull: Array) -> tuple[Array, bool]:
    """(I - gram)^-1 pull; directions that rest on this block alone keep a large but finite shift."""
    M = np.eye(len(gram)) - gram
    try:
        factor = scipy.linalg.cho_factor(M)
        if np.diag(factor[0]).min(initial=1.0) ** 2 > ESSENTIAL:
            return np.asarray(scipy.linalg.cho_solve(factor, pull)), False
    except np.linalg.LinAlgError:
        pass
    w, V = np.linalg.eigh(M)
    return np.asarray(V @ ((V.T @ pull) / np.maximum(w, ESSENTIAL))), True


def grouped(blocks: tuple[Block, ...], most: int) -> list[tuple[Block, ...]]:
    """Blocks in groups of neighbours, at most `most` groups, of equal weight."""
    edges = np.linspace(0, len(blocks), min(most, len(blocks)) + 1).round().astype(int)
    return [blocks[start:stop] for start, stop in zip(edges[:-1], edges[1:], strict=True)]  # noqa: RUF007


# Uncertain sensitivities of a force plate: how the values would shift, per channel, by one standard deviation.
#
# A channel that reads (1 + e) y shifts the values by e (A'A)^-1 A_c'y_c, A the weighted rows and A_c those of the
# channel. More data do not help: these shifts are the same for all logs of one plate.


def gain_shifts(equation: Equation, unknowns: Unknowns, solution: Solution, factors: Factors) -> Array:
    """Shifts (channels of the base, unknowns), no rows where no uncertainty is declared."""
    relative = equation.sensor.sensitivity_sigma
    if relative is None or not equation.base_channels:
        return np.zeros((0, len(unknowns)))
    half = solution.free @ scipy.linalg.solve_triangular(solution.R, np.eye(solution.rank))
    first = len(equation.channels) - len(equation.base_channels)
    shifts = np.zeros((len(relative), len(unknowns)))
    for k, spread in enumerate(relative):
        pull = np.zeros(len(unknowns))
        for log, of_log in factors.items():
            rows, right = unknowns.rows(log, first + k, of_log[first + k])
            pull += rows.T @ right / solution.noise[first + k] ** 2
        shifts[k] = spread * (half @ (half.T @ pull))
    return shifts
