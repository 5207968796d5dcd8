"""Blocked cross validation on factors: folds in time, each predicted from the others; the choice of friction blocks.

Nothing is read twice. Normal equations are good enough here, because only errors are compared; every channel's are
kept on its own columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from dynid.concurrency import cached_property
from dynid.dynamics.friction import HARMONICS
from dynid.estimation.accumulate.factor import Block
from dynid.estimation.inference.jackknife import group_blocks
from dynid.estimation.regression.equation import Equation, Indices, Unknowns
from dynid.estimation.solve.least_squares import MANY, Solution, is_selection
from dynid.robot.transform import Array

# The 95 % band of predicted torques: uncertain parameters, what the model leaves, and friction of slow joints. Its
# constants were chosen on some splits of recordings and simulated robots; docs/identify.md has the shares on others.


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
        arrow = self._arrow if len(chosen) + sum(map(len, further)) >= MANY else None
        if arrow is not None and all((arrow.owner[some] >= 0).all() for some in further):
            values = arrow.fits_with_each_set(chosen, further)
            return (
                _residual_squares_of_fits(values, self.shares, self.squares),
                _residual_squares_of_fits(values, self.at_rest, self.rest_squares),
            )
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

    @cached_property
    def _arrow(self) -> _ArrowEquations | None:
        """Normal equations with the unknowns of single channels apart; None where logs have unknowns of their own."""
        places = dict[int, Indices]()
        for shares in self.shares:
            for share in shares:
                if not np.array_equal(places.setdefault(share.channel, share.places), share.places):
                    return None
        return _ArrowEquations(self, places)

    def fits_under_constraints(self, free: Array, fixed: Array, prior: tuple[Array, Array] | None) -> Array:
        """Fits (folds, unknowns) x = free @ u + fixed without each fold, with prior rows (matrix, right)."""
        gram, rhs = self.normal_equations
        if prior is not None:
            P = prior[0] @ free
            prior = P.T @ P, P.T @ (prior[1] - prior[0] @ fixed)
        if is_selection(free):
            at = np.argmax(free, axis=0)
            reduced = gram if len(at) == len(free) else gram[:, at][:, :, at]
        else:
            reduced = free.T @ (gram @ free)
        u = _fit_without_each_fold(reduced, (rhs - gram @ fixed) @ free, prior)
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


class _ArrowEquations:
    """Weighted normal equations, channel by channel: most unknowns are one channel's own, and are eliminated there.

    owner (unknowns,): the only channel that shows an unknown, -1 where several do.
    """

    def __init__(self, folds: Folds, places: dict[int, Indices]) -> None:
        count, self.places = len(folds.unknowns), places
        self.owner = np.full(count, -1, dtype=np.int64)
        seen = np.bincount(np.concatenate(list(places.values())), minlength=count)
        for c, at in places.items():
            self.owner[at[seen[at] == 1]] = c
        self.folds, self.weights = folds, 1.0 / folds.noise**2
        self.whole = {c: (np.zeros((len(at), len(at))), np.zeros(len(at))) for c, at in places.items()}
        for share in itertools.chain(*folds.shares):
            gram, rhs = self.whole[share.channel]
            gram += self.weights[share.channel] * share.gram
            rhs += self.weights[share.channel] * share.rhs
        diagonal = np.zeros(count)
        for c, at in places.items():
            diagonal[at] += np.diag(self.whole[c][0])
        self.scale = 1.0 / np.sqrt(np.maximum(diagonal, 1e-300))

    def fits_with_each_set(self, chosen: Indices, further: Sequence[Indices]) -> Array:
        """Fits (folds, sets, unknowns) of the chosen unknowns with each of several further sets, without each fold."""
        return np.array([self._fits_without(shares, chosen, further) for shares in self.folds.shares])

    def _fits_without(self, fold: tuple[FoldShare, ...], chosen: Indices, further: Sequence[Indices]) -> Array:
        """Fits (sets, unknowns) without one fold.

        As by Cholesky factors of the chosen unknowns, own ones first, each set then eliminated behind them.
        """
        count, scale = len(self.scale), self.scale
        every = np.concatenate([chosen, *further])
        used, shared = np.zeros(count, dtype=np.bool_), np.sort(chosen[self.owner[chosen] < 0])
        used[every] = True
        number = np.full(count, -1)
        number[shared] = np.arange(len(shared))
        sets, extra = np.full(count, -1), np.concatenate([chosen[:0], *further])
        for m, some in enumerate(further):
            sets[some] = m
        number[extra] = np.arange(len(extra))
        S, E = RIDGE * np.eye(len(shared)), np.zeros((len(shared), len(extra)))
        beside = np.zeros((len(extra), len(extra)))
        parts, b = list[_Part](), np.zeros(count)
        for c, at in self.places.items():
            gram, rhs = self.whole[c]
            for share in fold:
                if share.channel == c:
                    gram, rhs = gram - self.weights[c] * share.gram, rhs - self.weights[c] * share.rhs
            own, some = np.flatnonzero(used[at]), at[used[at]]
            A = gram[np.ix_(own, own)] * scale[some][:, None] * scale[some]
            b[some] += scale[some] * rhs[own]
            of_set = sets[some] >= 0
            o, s, e = (np.flatnonzero(x) for x in (
                (self.owner[some] >= 0) & ~of_set, self.owner[some] < 0, of_set,
            ))  # fmt: skip
            L = scipy.linalg.cholesky(A[np.ix_(o, o)] + RIDGE * np.eye(len(o)), lower=True, check_finite=False)
            across = _solve_lower(L, A[np.ix_(o, np.concatenate([s, e]))])
            left = A[np.ix_(np.concatenate([s, e]), np.concatenate([s, e]))] - across.T @ across
            j, k = number[some[s]], number[some[e]]
            S[np.ix_(j, j)] += left[: len(s), : len(s)]
            E[np.ix_(j, k)] += left[: len(s), len(s) :]
            beside[np.ix_(k, k)] = left[len(s) :, len(s) :]
            parts.append(_Part(A, some, some[o], some[s], some[e], L, across[:, : len(s)], across[:, len(s) :]))
        L = scipy.linalg.cholesky(S, lower=True, check_finite=False)
        F = _solve_lower(L, E)
        at_set = [number[some] for some in further]
        inverses = [np.linalg.inv(beside[np.ix_(k, k)] + RIDGE * np.eye(len(k)) - F[:, k].T @ F[:, k]) for k in at_set]
        x = np.zeros((count, len(further)))
        for _ in range(2):  # once more with what is left: some sets are collinear with the chosen ones
            missing = np.where(used, b, 0.0)[:, None] - RIDGE * x
            for part in parts:
                missing[part.places] -= part.A @ x[part.places]
            halves = [_solve_lower(part.L, missing[part.own]) for part in parts]
            z, rest = missing[shared], missing[extra]
            for part, y in zip(parts, halves, strict=True):
                z[number[part.shared]] -= part.across.T @ y
                rest[number[part.extra]] -= part.beside.T @ y
            z = _solve_lower(L, z)
            more = np.zeros_like(rest)
            for m, (k, inverse) in enumerate(zip(at_set, inverses, strict=True)):
                more[k, m] = inverse @ (rest[k, m] - F[:, k].T @ z[:, m])
            z = _solve_lower(L, z - F @ more, transposed=True)
            x[shared] += z
            x[extra] += more
            for part, y in zip(parts, halves, strict=True):
                y = y - part.beside @ more[number[part.extra]] - part.across @ z[number[part.shared]]
                x[part.own] += _solve_lower(part.L, y, transposed=True)
        return np.asarray((x * scale[:, None]).T)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Scaled equations A of one channel on the unknowns at `places`: its own ones, shared ones and those of sets.

    L: Cholesky factor of the own ones; across, beside: its inverse times their products with the others.
    """

    A: Array
    places: Indices
    own: Indices
    shared: Indices
    extra: Indices
    L: Array
    across: Array
    beside: Array


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
    from scipy.special import fdtri

    rank, free = solution.rank, solution.free
    if (np.count_nonzero(free, axis=0) > 1).any() or (np.count_nonzero(free, axis=1) > 1).any():
        everything = tuple(range(len(solution.values)))  # constraints tie parameters together: none is dropped
        return SignificantParameters(everything, solution.values.copy(), 1.0)
    places = np.argmax(solution.free != 0.0, axis=0)
    x = solution.values[places].copy()
    inverse = scipy.linalg.solve_triangular(solution.R, np.eye(rank))
    P = inverse @ inverse.T  # as it is to begin with: of what is left of it, V V' is taken off where it is needed
    variance, V = np.diag(P).copy(), np.zeros((rank, rank))
    rounding = 1e-14 * variance  # what is left of a variance is at least this
    left = np.ones(rank, dtype=np.bool_)
    grown, dropped = 0.0, 0
    freedom = max(groups - 1, 3)
    limit = fdtri(1, freedom, 0.95)
    while dropped < rank - 1:
        growth = np.where(left, x**2 / variance, np.inf)
        k = int(np.argmin(growth))
        together = fdtri(dropped + 1, freedom, 0.95)
        if growth[k] / inflation > limit or (grown + growth[k]) / inflation / (dropped + 1) > together:
            break
        grown += float(growth[k])
        column = P[:, k] - V[:, :dropped] @ V[k, :dropped]
        column[k] = max(column[k], rounding[k])
        x -= column * (x[k] / column[k])
        V[:, dropped] = column / np.sqrt(column[k])
        variance = np.where(left, np.maximum(variance - V[:, dropped] ** 2, rounding), 1.0)
        left[k], variance[k] = False, 1.0
        dropped += 1
    values = np.zeros(len(solution.values))
    kept = places[left]
    values[kept] = x[left]
    residual = float((solution.residual_squares / solution.noise**2).sum())
    order = np.argsort(kept)
    return SignificantParameters(tuple(int(k) for k in kept[order]), values, 1.0 + grown / max(residual, 1e-300))
