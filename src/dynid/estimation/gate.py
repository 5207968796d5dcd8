"""Which optional friction blocks to admit: blocked cross validation on the factors, nothing read twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from dynid.estimation.equation import Equation, Indices
from dynid.estimation.gathering import Block
from dynid.estimation.jackknife import grouped
from dynid.estimation.unknowns import Unknowns
from dynid.robot.transform import Array

DEFAULT = ("viscous", "offset", "stop1e-4", "stop1e-3", "stop1e-2", "tanh", "quadratic")
"""Blocks that every robot gets."""

OPTIONAL = ("lag", "load", "stop1e-1", "coulomb", "spring", "sine", "sine2", "asymmetry", "stribeck")
"""Blocks that must earn their place."""

GAIN = 0.03
"""Smallest relative improvement of the cross-validated error that admits a block."""

EXACT = 1e-6
"""NRMSE below which only rounding is left to explain."""

FOLDS = 5
RIDGE = 1e-11


@dataclass(frozen=True, slots=True)
class Trial:
    """One question to the gate: blocks tried, their mean NRMSE on held-out blocks of time, and the answer."""

    block: str
    error: float
    before: float
    admitted: bool


@dataclass(frozen=True, slots=True, eq=False)
class Folds:
    """Normal equations of every fold and channel; only used to compare errors.

    prior: normal equations (gram, pull) of further rows, weighted, that take part in every fit (ridge).
    """

    unknowns: Unknowns
    gram: Array
    pull: Array
    squares: Array
    spread: Array
    counts: Array
    noise: Array
    prior: tuple[Array, Array] | None = None

    @staticmethod
    def of(unknowns: Unknowns, blocks: tuple[Block, ...], noise: Array, folds: int = FOLDS) -> Folds:
        """Sum up the folds: neighbouring blocks, equally many each (of every log, where logs have own unknowns)."""
        groups = _folds(unknowns, blocks, folds)
        F, C, u = len(groups), len(unknowns.channels), len(unknowns)
        gram, pull, squares = np.zeros((F, C, u, u)), np.zeros((F, C, u)), np.zeros((F, C))
        sums, counts = np.zeros((F, C)), np.zeros((F, C))
        for f, group in enumerate(groups):
            for log in sorted({block.log for block in group}):
                for c in range(C):
                    factors = [block.factors[c] for block in group if block.log == log]
                    place = unknowns.place[log, unknowns.channels[c]]
                    used = place >= 0
                    rows = np.concatenate([factor.R for factor in factors])
                    R, y = rows[:, :-1][:, used], rows[:, -1]
                    gram[f, c][np.ix_(place[used], place[used])] += R.T @ R
                    pull[f, c, place[used]] += R.T @ y
                    squares[f, c] += float(y @ y)
                    sums[f, c] += sum(factor.total for factor in factors)
                    counts[f, c] += sum(factor.count for factor in factors)
        total = counts.sum(axis=0)
        spread = squares.sum(axis=0) - sums.sum(axis=0) ** 2 / np.maximum(total, 1.0)
        return Folds(unknowns, gram, pull, squares, np.maximum(spread, 1e-300), counts, noise)

    def held_out(self, chosen: Indices) -> tuple[Array, Array]:
        """Sums of squares (folds, channels) of the held-out residuals, and the values (folds, chosen) behind them."""
        weights = 1.0 / self.noise**2
        gram = np.einsum("fcij,c->fij", self.gram[:, :, chosen][:, :, :, chosen], weights)
        pull = np.einsum("fci,c->fi", self.pull[:, :, chosen], weights)
        whole, right = gram.sum(axis=0), pull.sum(axis=0)
        if self.prior is not None:
            whole, right = whole + self.prior[0][np.ix_(chosen, chosen)], right + self.prior[1][chosen]
        scale = 1.0 / np.sqrt(np.maximum(np.diag(whole), 1e-300))
        values = np.zeros((len(gram), len(chosen)))
        squares = np.zeros(self.squares.shape)
        for f in range(len(gram)):
            A = (whole - gram[f]) * scale[:, None] * scale
            A[np.diag_indices_from(A)] += RIDGE
            x = scale * scipy.linalg.solve(A, scale * (right - pull[f]), assume_a="sym")
            values[f] = x
            own = self.gram[f][:, chosen][:, :, chosen]
            squares[f] = self.squares[f] - 2.0 * self.pull[f][:, chosen] @ x + np.einsum("cij,i,j->c", own, x, x)
        return np.maximum(squares, 0.0), values

    def within(self, free: Array, fixed: Array, prior: tuple[Array, Array] | None = None) -> Folds:
        """Write the folds on u, with x = free @ u + fixed: what constraints leave; prior rows (matrix, right) in x."""
        gram = free.T @ (self.gram @ free)
        pull = (self.pull - self.gram @ fixed) @ free
        squares = self.squares - (2.0 * self.pull - self.gram @ fixed) @ fixed
        if prior is not None:
            P = prior[0] @ free
            prior = P.T @ P, P.T @ (prior[1] - prior[0] @ fixed)
        return replace(self, gram=gram, pull=pull, squares=squares, prior=prior)

    def nrmse(self, chosen: Indices) -> Array:
        """NRMSE (channels,) on data not used for fitting."""
        squares, _ = self.held_out(chosen)
        return np.asarray(np.sqrt(squares.sum(axis=0) / self.spread))

    def rmse(self, chosen: Indices) -> Array:
        """RMSE (channels,) on data not used for fitting."""
        squares, _ = self.held_out(chosen)
        return np.asarray(np.sqrt(squares.sum(axis=0) / np.maximum(self.counts.sum(axis=0), 1.0)))


def choose_blocks(
    equation: Equation,
    blocks: tuple[Block, ...],
    noise: Array,
    *,
    logs: int,
    offsets_per_log: bool,
    always: tuple[str, ...] = DEFAULT,
    optional: Sequence[str] = OPTIONAL,
) -> tuple[tuple[str, ...], tuple[Trial, ...]]:
    """Admit optional blocks one by one, the best first, as long as the held-out error falls by 3 %."""
    everything = (*always, *optional)
    unknowns = Unknowns.of(equation, everything, logs, offsets_per_log=offsets_per_log)
    folds = Folds.of(unknowns, blocks, noise)
    chosen = always
    trials: list[Trial] = []
    if len(folds.gram) < 3:
        return chosen, ()

    def error(some: tuple[str, ...]) -> float:
        return float(folds.nrmse(columns_of(equation, unknowns, everything, some)).mean())

    now = error(chosen)
    while True:
        tried = {} if now < EXACT else {name: error((*chosen, name)) for name in optional if name not in chosen}
        if not tried:
            break
        best = min(tried, key=lambda name: tried[name])
        good = tried[best] <= min((1.0 - GAIN) * now, 1.0)  # above 1 nothing is explained, and nothing is learned
        trials += [Trial(name, value, now, good and name == best) for name, value in tried.items()]
        if not good:
            break
        chosen, now = (*chosen, best), tried[best]
    return chosen, tuple(trials)


def _folds(unknowns: Unknowns, blocks: tuple[Block, ...], folds: int) -> list[tuple[Block, ...]]:
    """Stretches to hold out: never a whole log of several blocks, where each has offsets of its own."""
    if (unknowns.place == unknowns.place[0]).all():
        return grouped(blocks, folds)
    groups: list[list[Block]] = [[] for _ in range(min(folds, len(blocks)))]
    for log in sorted({block.log for block in blocks}):
        for k, group in enumerate(grouped(tuple(block for block in blocks if block.log == log), len(groups))):
            groups[(k + log) % len(groups)].extend(group)
    return [tuple(group) for group in groups if group]


def columns_of(equation: Equation, unknowns: Unknowns, all_blocks: tuple[str, ...], some: tuple[str, ...]) -> Indices:
    """Unknowns that remain when only some of the blocks are taken."""
    left_out = [k for name in all_blocks if name not in some for k in equation.blocks_of[name]]
    gone = set(unknowns.place[:, left_out].ravel().tolist()) - {-1} if left_out else set()
    return np.array([k for k in range(len(unknowns)) if k not in gone], dtype=np.int64)
