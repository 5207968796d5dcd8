"""Blocked cross validation on factors: stretches of time, each predicted from the others, nothing read twice.

Normal equations are good enough here, because only errors are compared; every channel's are kept on its own columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from dynid.concurrency import cached_property
from dynid.estimation.accumulate.factor import Block
from dynid.estimation.inference.jackknife import group_blocks
from dynid.estimation.regression.equation import Indices
from dynid.estimation.regression.unknowns import Unknowns
from dynid.robot.transform import Array

FOLDS = 5
RIDGE = 1e-11


@dataclass(frozen=True, slots=True, eq=False)
class FoldShare:
    """What one log gives to one channel of one fold: normal equations on the unknowns at `places`."""

    channel: int
    places: Indices
    gram: Array
    rhs: Array


@dataclass(frozen=True, eq=False)
class Folds:
    """Shares of every fold; squares, counts (folds, channels): sums of y^2 and rows; spread (channels,) of y.

    at_rest, rest_squares, rest_counts: the same of rows at rest or shortly after, which hardly count in the others.
    """

    unknowns: Unknowns
    shares: tuple[tuple[FoldShare, ...], ...]
    squares: Array
    spread: Array
    counts: Array
    noise: Array
    at_rest: tuple[tuple[FoldShare, ...], ...]
    rest_squares: Array
    rest_counts: Array

    @staticmethod
    def from_blocks(unknowns: Unknowns, blocks: tuple[Block, ...], noise: Array, folds: int = FOLDS) -> Folds:
        """Sum up blocks into folds of neighbours, equally many each (of every log, where logs have own unknowns)."""
        groups = fold_groups(unknowns, blocks, folds)
        shape = (len(groups), len(unknowns.channels))
        squares, sums, counts = np.zeros((2, *shape)), np.zeros((2, *shape)), np.zeros((2, *shape))
        shares: tuple[list[tuple[FoldShare, ...]], ...] = ([], [])
        for f, group in enumerate(groups):
            for k in range(2):
                own = []
                for log in sorted({block.log for block in group}):
                    some = [block.unsettled if k else block.factors for block in group if block.log == log]
                    for c in range(shape[1]):
                        factors = [factor[c] for factor in some if factor]
                        if not factors:
                            continue
                        place = unknowns.place[log, unknowns.channels[c]]
                        used = place >= 0
                        rows = np.concatenate([factor.R for factor in factors])
                        R, y = rows[:, :-1][:, used], rows[:, -1]
                        own.append(FoldShare(c, place[used], R.T @ R, R.T @ y))
                        squares[k, f, c] += float(y @ y)
                        sums[k, f, c] += sum(factor.total for factor in factors)
                        counts[k, f, c] += sum(factor.count for factor in factors)
                shares[k].append(tuple(own))
        spread = squares[0].sum(axis=0) - sums[0].sum(axis=0) ** 2 / np.maximum(counts[0].sum(axis=0), 1.0)
        return Folds(
            unknowns, tuple(shares[0]), squares[0], np.maximum(spread, 1e-300), counts[0], noise,
            tuple(shares[1]), squares[1], counts[1],
        )  # fmt: skip

    @property
    def count(self) -> int:
        """Number of folds."""
        return len(self.shares)

    def count_with_rest(self, unknowns: Indices) -> int:
        """Number of folds whose rows at rest show some of these unknowns, which are 0 in motion."""
        return sum(
            any(np.diag(share.gram)[np.isin(share.places, unknowns)].any() for share in shares)
            for shares in self.at_rest
        )

    @cached_property
    def normal_equations(self) -> tuple[Array, Array]:
        """Weighted normal equations of every fold: (folds, unknowns, unknowns) and (folds, unknowns)."""
        u = len(self.unknowns)
        gram, rhs = np.zeros((self.count, u, u)), np.zeros((self.count, u))
        for f, shares in enumerate(self.shares):
            for share in shares:
                weight = 1.0 / self.noise[share.channel] ** 2
                gram[f][np.ix_(share.places, share.places)] += weight * share.gram
                rhs[f, share.places] += weight * share.rhs
        return gram, rhs

    def errors_of_fits(self, chosen: Indices) -> Array:
        """Sums of squared errors (folds, channels) on each fold of fits of some unknowns to the others."""
        return np.asarray(self.errors_with_each_set(chosen, [chosen[:0]])[0][0])

    def errors_with_each_set(self, chosen: Indices, further: Sequence[Indices]) -> tuple[Array, Array]:
        """Sums of squared errors (sets, folds, channels) of the chosen unknowns with each of several further sets.

        In motion, and at rest or shortly after.
        """
        gram, rhs = self.normal_equations
        every, base = np.concatenate([chosen, *further]), len(chosen)
        ends = np.cumsum([0, *map(len, further)]).tolist()
        sets = [slice(start, stop) for start, stop in itertools.pairwise(ends)]
        values = np.zeros((self.count, len(further), rhs.shape[1]))
        for f, (A, b, scale) in enumerate(_equations_without_each_fold(gram[:, every][:, :, every], rhs[:, every])):
            L = scipy.linalg.cholesky(A[:base, :base], lower=True, check_finite=False)
            across = _solve_lower(L, A[:base, base:])
            left = A[base:, base:] - across.T @ across
            inverses = [np.linalg.inv(left[some, some]) for some in sets]
            x = np.zeros((len(every), len(sets)))
            for _ in range(2):  # once more with what is left: some sets are collinear with the chosen ones
                missing = b[:, None] - A @ x
                own = _solve_lower(L, missing[:base])
                rest = missing[base:] - across.T @ own
                for m, (some, inverse) in enumerate(zip(sets, inverses, strict=True)):
                    more = inverse @ rest[some, m]
                    own[:, m] -= across[:, some] @ more
                    x[base:][some, m] += more
                x[:base] += _solve_lower(L, own, transposed=True)
            x *= scale[:, None]
            values[f][:, chosen] = x[:base].T
            for m, places in enumerate(further):
                values[f, m, places] = x[base:][sets[m], m]
        return (
            _residual_squares_of_fits(values, self.shares, self.squares),
            _residual_squares_of_fits(values, self.at_rest, self.rest_squares),
        )

    def fits_under_constraints(self, free: Array, fixed: Array, prior: tuple[Array, Array] | None) -> Array:
        """Fits (folds, unknowns) x = free @ u + fixed without each fold, with prior rows (matrix, right)."""
        gram, rhs = self.normal_equations
        if prior is not None:
            P = prior[0] @ free
            prior = P.T @ P, P.T @ (prior[1] - prior[0] @ fixed)
        u = _fit_without_each_fold(free.T @ (gram @ free), (rhs - gram @ fixed) @ free, prior)
        return np.asarray(u @ free.T + fixed)

    def errors_of_ridge_fits(self, weight: Array, nominal: Array) -> Array:
        """Sums of squared errors (folds, channels) on each fold of ridge fits towards nominal values to the others."""
        gram, rhs = self.normal_equations
        return self.errors_of_values(_fit_without_each_fold(gram, rhs, (np.diag(weight), weight * nominal)))

    def errors_of_values(self, values: Array) -> Array:
        """Sums of squared errors (folds, channels) of values (folds, unknowns) that were fitted without each fold."""
        return np.asarray(_residual_squares_of_fits(values[:, None], self.shares, self.squares)[0])

    def nrmse(self, errors: Array) -> Array:
        """NRMSE (channels,) of sums of squared errors on data not used for fitting."""
        return np.asarray(np.sqrt(errors.sum(axis=0) / self.spread))

    def nrmse_at_rest(self, errors: Array) -> Array:
        """RMSE (channels,) of errors at rest over the standard deviation of all of a channel; NaN without such rows."""
        variance = self.spread / np.maximum(self.counts.sum(axis=0), 1.0)
        count = self.rest_counts.sum(axis=0)
        return np.asarray(np.sqrt(errors.sum(axis=0) / np.where(count > 0.0, count, np.nan) / variance))

    def rmse(self, errors: Array) -> Array:
        """RMSE (channels,) of sums of squared errors on data not used for fitting."""
        return np.asarray(np.sqrt(errors.sum(axis=0) / np.maximum(self.counts.sum(axis=0), 1.0)))


def _residual_squares_of_fits(values: Array, shares: tuple[tuple[FoldShare, ...], ...], squares: Array) -> Array:
    """Sums of squared residuals (fits, folds, channels) of values (folds, fits, unknowns)."""
    squares = np.repeat(squares[None], values.shape[1], axis=0)
    for f, of_fold in enumerate(shares):
        for share in of_fold:
            x = values[f][:, share.places]
            squares[:, f, share.channel] += ((x @ share.gram - 2.0 * share.rhs) * x).sum(axis=1)
    return np.maximum(squares, 0.0)


def _fit_without_each_fold(gram: Array, rhs: Array, prior: tuple[Array, Array] | None) -> Array:
    """Solutions (folds, r) without each fold."""
    equations = _equations_without_each_fold(gram, rhs, prior)
    return np.array([scale * scipy.linalg.solve(A, b, assume_a="sym") for A, b, scale in equations])


def _equations_without_each_fold(
    gram: Array, rhs: Array, prior: tuple[Array, Array] | None = None
) -> Iterator[tuple[Array, Array, Array]]:
    """Yield normal equations without each fold, with a diagonal of about 1, and the scale of the unknowns."""
    whole, right = gram.sum(axis=0), rhs.sum(axis=0)
    if prior is not None:
        whole, right = whole + prior[0], right + prior[1]
    scale = 1.0 / np.sqrt(np.maximum(np.diag(whole), 1e-300))
    for f in range(len(gram)):
        A = (whole - gram[f]) * scale[:, None] * scale
        A[np.diag_indices_from(A)] += RIDGE
        yield A, scale * (right - rhs[f]), scale


def _solve_lower(L: Array, b: Array, *, transposed: bool = False) -> Array:
    """Solve with a lower triangular matrix, or with its transpose."""
    return np.asarray(
        scipy.linalg.solve_triangular(L, b, trans="T" if transposed else "N", lower=True, check_finite=False)
    )


def fold_groups(unknowns: Unknowns, blocks: tuple[Block, ...], folds: int) -> list[tuple[Block, ...]]:
    """Groups of blocks to hold out: never a whole log of several blocks, where each has offsets of its own."""
    if (unknowns.place == unknowns.place[0]).all():
        return group_blocks(blocks, folds)
    groups: list[list[Block]] = [[] for _ in range(min(folds, len(blocks)))]
    for log in sorted({block.log for block in blocks}):
        for k, group in enumerate(group_blocks(tuple(block for block in blocks if block.log == log), len(groups))):
            groups[(k + log) % len(groups)].extend(group)
    return [tuple(group) for group in groups if group]
