"""Weighted least squares on factors: one weight per channel, rank decided on the data, constraints exact."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dynid.concurrency import cached_property
from dynid.errors import IdentificationError, LoopError
from dynid.estimation.accumulate.factor import ChannelFactor
from dynid.estimation.accumulate.state import State
from dynid.estimation.regression.equation import Equation, Unknowns
from dynid.identifiability.numeric import TOLERANCE, find_by_qr, random_samples
from dynid.identifiability.relations import Regrouping
from dynid.logs.survey import standing_range
from dynid.messages import Message
from dynid.robot.motion import Motion
from dynid.robot.parameter import Parameter
from dynid.robot.transform import Array

Factors = dict[int, tuple[ChannelFactor, ...]]
"""One factor per channel for every log."""

ITERATIONS = 30
SETTLED = 1e-4
FLOOR = 1e-10
"""Noise of a channel is at least this share of its signal: data without noise keep finite weights."""

CLEAR = 3.0
"""Power of a direction over what noise of the motion alone would give, from which on the motion excites it."""

SURE = 10.0
"""Standard deviations from zero of a share that a parameter really has in another one."""

SILENT = 1e-4
"""A channel without any signal counts as one of this share of the largest."""

MANY = 200
"""Unknowns from which on rows are merged channel by channel: stacked, most of them would be zero."""

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """Linear equations matrix @ x = right that the solution satisfies exactly."""

    matrix: Array
    right: Array


@dataclass(frozen=True, eq=False)
class Solution:
    """Values x = free @ u + fixed of all unknowns; noise (channels,): standard deviation of each channel's rows.

    R (r, r) is the triangular factor of the weighted rows in u, so that the covariance of u is (R'R)^-1;
    regrouping: what the data could tell apart, as a regrouping of the unknowns (None: all of them); prior: further
    rows that took part; own_covariance: that of a user's estimator. merged: where unknowns are many, a triangular
    factor (r, r) of the same rows with the u in another order, and the rank (r,) of each in it: mostly zeros, as
    what only one channel has comes first.
    """

    values: Array
    noise: Array
    free: Array
    fixed: Array
    R: Array
    regrouping: Regrouping | None
    residual_squares: Array
    counts: Array
    prior: tuple[Array, Array] | None = None
    own_covariance: Array | None = None
    merged: tuple[Array, Indices] | None = None

    @property
    def rank(self) -> int:
        """Rank of the weighted matrix."""
        return len(self.R)

    @cached_property
    def singular(self) -> Array:
        """Singular values of the weighted rows in u."""
        return np.asarray(np.linalg.svd(self.R, compute_uv=False), dtype=np.float64)

    @property
    def condition(self) -> float:
        """2-norm condition number of the weighted matrix, of what was kept."""
        return float(self.singular[0] / self.singular[-1]) if len(self.singular) else np.inf

    @property
    def scaled_condition(self) -> float:
        """Condition number of what was solved, every column in units of its own size: independent of units."""
        if not len(self.R):
            return 1.0
        if is_selection(self.free):
            return float(np.linalg.cond(self.R / np.linalg.norm(self.R, axis=0)))
        size = np.linalg.norm(self.R @ self.free.T, axis=0)
        basis = np.linalg.qr(np.where(size > 0.0, size, 1.0)[:, None] * self.free)[1]
        return float(np.linalg.cond(np.linalg.solve(basis.T, self.R.T)))

    @cached_property
    def covariance(self) -> Array:
        """Covariance of the values if residuals were white: the naive one."""
        if self.own_covariance is not None:
            return self.own_covariance
        return np.asarray(self.whitening @ self.whitening.T)

    @cached_property
    def whitening(self) -> Array:
        """Matrix (unknowns, r) free @ R^-1: unknowns of whitened ones, whose covariance is the identity."""
        return _spread(self.free, scipy.linalg.solve_triangular(self.R, np.eye(self.rank)))

    @cached_property
    def sparse_whitening(self) -> Array:
        """The same for other whitened unknowns, turned, with as many zeros as can be."""
        if self.merged is None:
            return self.whitening
        T, rank = self.merged
        return _spread(self.free, scipy.linalg.solve_triangular(T, np.eye(self.rank))[rank])

    def turn_whitened(self, steps: Array) -> Array:
        """Whitened unknowns (..., r) from those of `sparse_whitening`."""
        if self.merged is None:
            return steps
        T, rank = self.merged
        return np.asarray(scipy.linalg.solve_triangular(T, steps.T)[rank].T @ self.R.T)


def _spread(free: Array, inverse: Array) -> Array:
    """Product free @ inverse."""
    if not is_selection(free):
        return np.asarray(free @ inverse)
    spread = np.zeros(free.shape)
    spread[np.argmax(free, axis=0)] = inverse
    return spread


def is_selection(free: Array) -> bool:
    """Whether the columns of a matrix are some of those of the identity, in their order."""
    if free.shape[1] > len(free):
        return False
    at = np.argmax(free, axis=0) if free.size else np.zeros(0, dtype=np.int64)
    ones = free[at, np.arange(free.shape[1])]
    return bool((ones == 1.0).all() and np.count_nonzero(free) == free.shape[1] and (np.diff(at) > 0).all())


def solve(
    unknowns: Unknowns,
    factors: Factors,
    *,
    weighted: bool = True,
    constraints: Constraints | None = None,
    prior: tuple[Array, Array] | None = None,
    noise: Array | None = None,
) -> Solution:
    """Weighted least squares for the unknowns; the noise of every channel is found by iteration where `weighted`.

    prior (matrix (k, unknowns), right (k,)): further rows, already weighted (ridge).
    """
    channels = len(unknowns.channels)
    counts = np.array([sum(f[c].count for f in factors.values()) for c in range(channels)], dtype=np.float64)
    squares = np.array([sum(f[c].sum_of_squares for f in factors.values()) for c in range(channels)])
    if not counts.any():
        raise IdentificationError("no_rows_to_solve", "there are no rows to solve")
    size = np.sqrt(squares / np.maximum(counts, 1.0))
    floor = FLOOR * np.maximum(size, SILENT * size.max()) + 1e-300
    fixed_noise = noise is not None
    noise = np.ones(channels) if noise is None else noise
    tied = prior is not None or (constraints is not None and len(constraints.matrix) > 0)
    rows, solution = ChannelRows.from_factors(unknowns, factors), None
    merged = MergedRows.from_channels(rows, unknowns, factors, noise) if rows.is_joined and not tied else None
    regrouping, known = (None, False) if merged is None else (merged.regrouping, True)
    for _ in range(1 if fixed_noise else ITERATIONS if weighted else 2):
        if merged is not None:
            solution = merged.solve(noise, counts)
        else:
            A, b = rows.stack(noise)
            if prior is not None:
                A, b = np.concatenate([A, prior[0]]), np.concatenate([b, prior[1]])
            if not known:
                regrouping, known = find_regrouping(A, constraints), True
            solution = _solve_once(
                A, b, unknowns, factors, noise=noise, regrouping=regrouping, constraints=constraints, counts=counts
            )
        found = np.maximum(channel_noise(solution) if weighted else pooled_noise(solution), floor)
        change = np.abs(np.log(found / noise)).max()
        if fixed_noise or change < SETTLED:
            break
        noise = found
    assert solution is not None
    return replace(solution, prior=prior, R=_triangle(solution.R))


def stack_weighted_rows(unknowns: Unknowns, factors: Factors, noise: Array) -> tuple[Array, Array]:
    """Rows of all factors, each divided by the noise of its channel, and right sides: stacked, or what counts of it."""
    return ChannelRows.from_factors(unknowns, factors).stack(noise)


@dataclass(frozen=True, slots=True, eq=False)
class ChannelRows:
    """Rows of all channels on the unknowns and, as the last column, right sides: parts of channel, columns and rows."""

    parts: tuple[tuple[int, Indices, Array], ...]
    count: int

    @staticmethod
    def from_factors(unknowns: Unknowns, factors: Factors, *, join: bool = False) -> ChannelRows:
        """Rows of every log and channel; where unknowns are many or so asked, those of a channel on the same joined."""
        parts, count = list[tuple[int, Indices, Array]](), len(unknowns)
        for log, of_log in factors.items():
            for c, factor in enumerate(of_log):
                place = unknowns.place[log, unknowns.channels[c]]
                used = np.append(place >= 0, True)
                parts.append((c, np.append(place, count)[used], factor.R[:, used]))
        join = join or count >= MANY
        return ChannelRows(tuple(_join_logs(parts, count + 1) if join else parts), count)

    @property
    def is_joined(self) -> bool:
        """Whether rows were joined, as unknowns are many."""
        return self.count >= MANY

    def stack(self, noise: Array) -> tuple[Array, Array]:
        """Rows (k, unknowns) divided by the noise (channels,), and right sides (k,)."""
        both = stack_rows([(columns, rows / noise[c]) for c, columns, rows in self.parts], self.count + 1)
        return both[:, :-1], both[:, -1]

    def merge(self, noise: Array) -> tuple[Array, Indices]:
        """Triangular factor of the rows and right sides, and the rank (unknowns + 1,) of every column in it."""
        return merge_triangles([(columns, rows / noise[c]) for c, columns, rows in self.parts], self.count + 1)


@dataclass(frozen=True, slots=True, eq=False)
class MergedRows:
    """Rows of many unknowns that are merged into a triangle, with the unknowns in the order in which this is cheap.

    regrouping: of all unknowns; rows: on those that are kept of them.
    """

    rows: ChannelRows
    regrouping: Regrouping | None
    unknowns: Unknowns
    factors: Factors

    @staticmethod
    def from_channels(rows: ChannelRows, unknowns: Unknowns, factors: Factors, noise: Array) -> MergedRows:
        """Rows of all unknowns, or of those that the data tell apart."""
        triangle, rank = rows.merge(noise)
        if _is_surely_regular(triangle[:-1, :-1]):
            return MergedRows(rows, None, unknowns, factors)
        regrouping = find_regrouping(triangle[:, rank[:-1]], None)
        if regrouping is not None:
            kept = set(regrouping.kept)
            some = unknowns.without_unknowns([k for k in range(len(unknowns)) if k not in kept])
            rows = ChannelRows.from_factors(some, factors, join=True)
        return MergedRows(rows, regrouping, unknowns, factors)

    def solve(self, noise: Array, counts: Array) -> Solution:
        """Weighted least squares with the noise (channels,); its R has the columns of the unknowns, unordered."""
        triangle, rank = self.rows.merge(noise)
        u = scipy.linalg.solve_triangular(triangle[:-1, :-1], triangle[:-1, -1])[rank[:-1]]
        values = np.zeros(len(self.unknowns))
        values[slice(None) if self.regrouping is None else list(self.regrouping.kept)] = u
        squares = _residual_squares(self.unknowns, self.factors, values, len(noise))
        R, merged = triangle[:-1, rank[:-1]], (triangle[:-1, :-1], rank[:-1])
        free, none = _free_directions(len(self.unknowns), self.regrouping, None)
        return Solution(values, noise, free, none, R, self.regrouping, squares, counts, merged=merged)


def _is_surely_regular(R: Array) -> bool:
    """Whether no column of a triangular matrix comes near to being dependent, whatever the order: a sufficient test.

    In columns of unit norm, the least singular value is at least one over the norm of the inverse.
    """
    norm = np.linalg.norm(R, axis=0)
    if not norm.min(initial=np.inf) > 1e-10 * norm.max(initial=0.0):
        return False
    inverse, info = scipy.linalg.lapack.dtrtri(R / norm)
    return info == 0 and bool(np.linalg.norm(inverse) < 0.1 / TOLERANCE)


def _residual_squares(unknowns: Unknowns, factors: Factors, values: Array, channels: int) -> Array:
    """Sums of squared residuals (channels,) of values."""
    squares = np.zeros(channels)
    for log, of_log in factors.items():
        for c, factor in enumerate(of_log):
            squares[c] += factor.residual_squares(unknowns.values_of_channel(log, c, values))
    return squares


def _join_logs(parts: Sequence[tuple[int, Indices, Array]], count: int) -> list[tuple[int, Indices, Array]]:
    """Triangular factors of the rows of one channel on the same columns, those that no other part has in front."""
    joined = dict[tuple[int, bytes], list[tuple[int, Indices, Array]]]()
    for part in parts:
        joined.setdefault((part[0], part[1].tobytes()), []).append(part)
    found = []
    rank, _ = _rank_columns([same[0][1] for same in joined.values()], count)
    for same in joined.values():
        channel, columns, _ = same[0]
        turned = np.argsort(rank[columns])
        found.append((channel, columns[turned], _triangle(np.concatenate([rows[:, turned] for *_, rows in same]))))
    return found


def _triangle(rows: Array) -> Array:
    """Triangular factor of rows (k, columns): themselves where they are triangular."""
    if len(rows) <= rows.shape[1] and not np.tril(rows, -1).any():
        return rows
    return np.asarray(np.linalg.qr(rows, mode="r"))


def _rank_columns(parts: Sequence[Indices], count: int) -> tuple[Indices, Indices]:
    """Rank (count,) of every column, those that few parts have first, part by part, and how many have it."""
    seen, rank = np.bincount(np.concatenate(parts), minlength=count), np.empty(count, dtype=np.int64)
    whose = np.zeros(count, dtype=np.int64)
    for k, columns in enumerate(parts):
        whose[columns] = k
    rank[np.lexsort((whose, seen))] = np.arange(count)
    return rank, seen


def stack_rows(parts: Sequence[tuple[Indices, Array]], count: int) -> Array:
    """Stack rows (k, columns) of parts on all columns; where these are many, a factor R with the same R'R.

    That is found by merging triangles into one another: columns that only one part has cost nothing, and nothing is
    multiplied that the parts do not have.
    """
    if count <= MANY:
        wide = np.zeros((sum(len(rows) for _, rows in parts), count))
        start = 0
        for columns, rows in parts:
            wide[start : start + len(rows), columns] = rows
            start += len(rows)
        return wide
    total, rank = merge_triangles(parts, count)
    return np.asarray(total[:, rank])


def merge_triangles(parts: Sequence[tuple[Indices, Array]], count: int) -> tuple[Array, Indices]:
    """Triangular factor of the rows of parts, with columns in another order, and the rank (count,) of each in it."""
    rank, seen = _rank_columns([columns for columns, _ in parts], count)
    total, group = np.zeros((count, count), order="F"), np.arange(count)
    for columns, rows in sorted(parts, key=lambda part: len(part[0])):  # small ones first: they fill little
        turned = np.argsort(rank[columns])
        at, triangle = rank[columns[turned]], _triangle(rows[:, turned])
        alone = min(int(np.count_nonzero(seen[columns] == 1)), len(triangle))
        total[at[:alone, None], at] = triangle[:alone]
        rest, at = triangle[alone:, alone:], at[alone:]
        if rest.size:
            joined = np.isin(group, group[at])  # columns that rows so far have beside these
            group[joined] = group[at[0]]
            beside = np.flatnonzero(joined & (np.arange(count) >= at[0]))
            wide = np.zeros((len(rest), len(beside)), order="F")
            wide[:, np.searchsorted(beside, at)] = rest
            corner = np.asfortranarray(total[np.ix_(beside, beside)])
            merged, *_, info = scipy.linalg.lapack.dtpqrt(min(wide.shape), min(32, len(beside)), corner, wide)
            assert info == 0
            total[np.ix_(beside, beside)] = merged
    return total, rank


def find_regrouping(A: Array, constraints: Constraints | None) -> Regrouping | None:
    """Regrouping of the unknowns by the data; None where these separate all of them."""
    if constraints is not None and len(constraints.matrix):
        size = np.abs(A).max()
        A = np.concatenate([A, constraints.matrix * size])
    found = find_by_qr(A)
    return None if len(found.regrouping.kept) == A.shape[1] else found.regrouping


@dataclass(frozen=True, slots=True, eq=False)
class NoisyRows:
    """Weighted rows A (k, columns) of a channel, standing for `count`, and what noise of the motion gives of them.

    columns: which unknowns. D (l, columns): rows with E[D'D] the part of A'A that comes from noise, which is all of it
    in directions that the motion does not excite.
    """

    columns: Indices
    A: Array
    D: Array
    count: int


def regroup_above_noise(
    parts: list[NoisyRows], minor: NDArray[np.bool_], constraints: Constraints | None = None
) -> Regrouping | None:
    """Regrouping of unknowns that only noise of the motion separates; None where all stand clear of it.

    From left to right, as in `find_by_qr`: what is left of a column after the accepted ones is compared with what is
    left of it in D by the same combination. minor (unknowns,): friction that comes first and is kept in any case;
    what is left of it by noise only takes nothing off the others, which would make them as noisy.
    """
    count = len(minor)
    A, D = (stack_rows([(part.columns, getattr(part, x)) for part in parts], count) for x in "AD")
    if constraints is not None and len(constraints.matrix):
        A = np.concatenate([A, constraints.matrix * np.abs(A).max()])
    Q, noise, kept, dropped, clear = np.zeros((len(A), count)), np.zeros((len(D), count)), list[int](), list[int](), 0
    for some in (np.flatnonzero(minor), np.flatnonzero(~minor)):
        lead = _lead_above_noise(A[:, some], D[:, some], Q[:, :clear], noise[:, :clear])
        kept += some[: lead[0].shape[1]].tolist()
        Q[:, clear : clear + lead[0].shape[1]], noise[:, clear : clear + lead[0].shape[1]] = lead
        clear += lead[0].shape[1]
        for k in some[lead[0].shape[1] :].tolist():
            x, d, used = A[:, k], D[:, k], slice(0, clear)
            for _ in range(2):
                share = Q[:, used].T @ x
                x, d = x - Q[:, used] @ share, d - noise[:, used] @ share
            power = float(x @ x)
            is_clear = power > CLEAR * float(d @ d)
            (kept if is_clear or minor[k] else dropped).append(k)
            if is_clear:
                size = np.sqrt(power) + 1e-300
                Q[:, clear], noise[:, clear] = x / size, d / size
                clear += 1
    if not dropped:
        return None
    kept.sort()
    matrix = np.zeros((len(kept), count))
    matrix[np.arange(len(kept)), kept] = 1.0
    for k in dropped:
        matrix[:, k] = _column_shares_above_noise(parts, kept, k, count)
    return Regrouping(tuple(kept), matrix)


def _lead_above_noise(A: Array, D: Array, Q: Array, noise: Array) -> tuple[Array, Array]:
    """Directions of the first columns of A, as far as all of them stand clear of D, and their noise; all at once.

    After those of Q, with their noise. What is left of column k after those before is R_kk times direction k.
    """
    for _ in range(2):
        share = Q.T @ A
        A, D = A - Q @ share, D - noise @ share
    own, R = np.linalg.qr(A)
    size, norm = np.abs(np.diag(R)), np.linalg.norm(A, axis=0)
    first = int(np.argmin(np.append(size > ROUNDING * norm[: len(size)], False)))
    found = scipy.linalg.solve_triangular(R[:first, :first], D[:, :first].T, trans="T").T
    clear = int(np.argmin(np.append(CLEAR * (found**2).sum(axis=0) < 1.0, False)))
    return own[:, :clear], found[:, :clear]


ROUNDING = 1e-9
"""Share of a column's norm below which what is left of it may be rounding: there nothing is divided by it."""


def _column_shares_above_noise(parts: list[NoisyRows], kept: list[int], k: int, count: int) -> Array:
    """Shares (kept,) of column k in the columns kept, without those that are none but for noise.

    Rows of every channel are weighted by what is left of them; the part of noise in their products is taken off.
    """
    A = stack_rows([(part.columns, part.A) for part in parts], count)
    scale = np.linalg.norm(A[:, kept], axis=0) + 1e-300
    direction = np.zeros(count)
    direction[kept] = -(np.linalg.lstsq(A[:, kept] / scale, A[:, k], rcond=None)[0] / scale)
    direction[k] = 1.0
    power = [float(((part.A @ direction[part.columns]) ** 2).sum()) / max(part.count, 1) for part in parts]
    left = np.sqrt(np.array(power))
    left = np.maximum(left, 1e-6 * left.max()) + 1e-300
    A, D = (
        stack_rows([(part.columns, getattr(part, x) / s) for part, s in zip(parts, left, strict=True)], count)
        for x in "AD"
    )
    some = list(range(len(kept)))
    while some:
        columns = A[:, [kept[i] for i in some]]
        scale = np.linalg.norm(columns, axis=0) + 1e-300
        Q, R = np.linalg.qr(columns / scale)
        inverse = scipy.linalg.solve_triangular(R, np.eye(len(some)))
        noise = D[:, [kept[i] for i in some]] / scale
        x = inverse @ (Q.T @ A[:, k])
        x = x + inverse @ (inverse.T @ (noise.T @ (noise @ x - D[:, k])))
        sure = np.abs(x) / np.linalg.norm(inverse, axis=1)
        if sure.min() > SURE:
            break
        some.pop(int(np.argmin(sure)))
    shares = np.zeros(len(kept))
    if some:
        shares[some] = x / scale
    return shares


def _solve_once(
    A: Array,
    b: Array,
    unknowns: Unknowns,
    factors: Factors,
    *,
    noise: Array,
    regrouping: Regrouping | None,
    constraints: Constraints | None,
    counts: Array,
) -> Solution:
    """Weighted least squares with the given noise of every channel."""
    free, fixed = _free_directions(len(unknowns), regrouping, constraints)
    kept = slice(None) if regrouping is None else list(regrouping.kept)
    has_constraints = constraints is not None and len(constraints.matrix)
    reduced, right = (A @ free, b - A @ fixed) if has_constraints else (A[:, kept], b)
    scale = np.linalg.norm(reduced, axis=0)
    scale[scale == 0.0] = 1.0
    Q, R = np.linalg.qr(reduced / scale)
    if not (np.isfinite(R).all() and np.diag(R).all()):
        raise IdentificationError(
            "numbers_out_of_range", "the rows of the logs have no solution: their numbers are too large or too small",
            "check units, gear and gain",
        )  # fmt: skip
    u = scipy.linalg.solve_triangular(R, Q.T @ right) / scale
    values = free @ u + fixed
    squares = _residual_squares(unknowns, factors, values, len(noise))
    return Solution(values, noise, free, fixed, R * scale, regrouping, squares, counts)


def _free_directions(count: int, regrouping: Regrouping | None, constraints: Constraints | None) -> tuple[Array, Array]:
    """Directions (unknowns, u) that are free, and one point that satisfies the constraints."""
    free = np.eye(count)
    if regrouping is not None:
        free = free[:, list(regrouping.kept)]
    fixed = np.zeros(count)
    if constraints is None or not len(constraints.matrix):
        return free, fixed
    C = constraints.matrix @ free
    u, *_ = np.linalg.lstsq(C, constraints.right, rcond=None)
    if not np.allclose(C @ u, constraints.right, rtol=1e-8, atol=1e-10 * (1.0 + np.abs(constraints.right).max())):
        raise IdentificationError("constraints_contradictory", "the known and equal parameters contradict each other")
    return np.asarray(free @ scipy.linalg.null_space(C)), np.asarray(free @ u)


def channel_noise(solution: Solution) -> Array:
    """Standard deviation per channel; the parameters' share of the degrees of freedom is taken off."""
    counts = solution.counts
    freedom = np.maximum(counts - solution.rank * counts / counts.sum(), 1.0)
    return np.asarray(np.sqrt(solution.residual_squares / freedom))


def pooled_noise(solution: Solution) -> Array:
    """Standard deviation pooled over all channels, repeated for each."""
    freedom = max(solution.counts.sum() - solution.rank, 1.0)
    return np.full(len(solution.counts), np.sqrt(solution.residual_squares.sum() / freedom))


# Estimators of one's own, on the same rows.


@dataclass(frozen=True, slots=True, eq=False)
class LinearProblem:
    """The filtered rows A x = b that an estimator of one's own solves.

    Rows are compressed: A and b have the same A'A, A'b and b'b as all samples of the logs, channel by channel, so that
    every estimator that rests on squares (ridge, lasso, total least squares, semidefinite programs) finds the same
    values on them. What looks at single samples (M-estimators) does not.

    Parameters
    ----------
    A : ndarray, shape (k, p)
        Regressor of the base parameters and friction that the data determine, in SI units, not weighted.
    b : ndarray, shape (k,)
        Measured torques, in the unit of their channel.
    noise : ndarray, shape (k,)
        Standard deviation of each row's channel, as weighted least squares found it: `A / noise[:, None]` is weighted.
    names : tuple of Parameter, length p
        Names of the columns.
    units : tuple of str, length p
        Units of the values.
    count : int
        Number of samples, of all channels, that the rows stand for.

    """

    A: Array
    b: Array
    noise: Array
    names: tuple[Parameter, ...]
    units: tuple[str, ...]
    count: int


Estimator = Callable[[LinearProblem], Array | tuple[Array, Array]]
"""Gives values (p,) of a problem, and their covariance (p, p) if it knows one."""


def build_problem(unknowns: Unknowns, factors: Factors, noise: Array, kept: Sequence[int]) -> LinearProblem:
    """Rows of all logs and channels on the unknowns that are kept."""
    parts = [(c, *unknowns.rows_of_factor(log, c, f)) for log, of_log in factors.items() for c, f in enumerate(of_log)]
    return LinearProblem(
        np.concatenate([rows for _, rows, _ in parts])[:, list(kept)],
        np.concatenate([right for *_, right in parts]),
        np.repeat([noise[c] for c, *_ in parts], [len(right) for *_, right in parts]),
        tuple(unknowns.names[k] for k in kept),
        tuple(unknowns.units[k] for k in kept),
        sum(factor.count for of_log in factors.values() for factor in of_log),
    )


def estimator_name(estimator: str | Estimator) -> str:
    """Name of an estimator: that of the function, for one's own."""
    return estimator if isinstance(estimator, str) else str(getattr(estimator, "__name__", type(estimator).__name__))


def call_estimator(estimator: Estimator, problem: LinearProblem) -> tuple[Array, Array | None]:
    """Values (p,) and covariance (p, p), if any, that an estimator of one's own gives, checked."""
    found = estimator(problem)
    values, covariance = found if isinstance(found, tuple) else (found, None)
    count = len(problem.names)
    for what, given, shape in (("values", values, (count,)), ("covariance", covariance, (count, count))):
        if given is None and what == "covariance":
            continue
        array = np.asarray(given)
        if array.shape != shape or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
            raise IdentificationError(
                "estimator_gave_nonsense", "estimator '{estimator}' must return finite {what} of shape {expected}, "
                "one per column of A, got {got}", estimator=estimator_name(estimator), what=what, expected=str(shape),
                got=f"shape {array.shape}" if array.shape != shape else "values that are no finite numbers",
            )  # fmt: skip
    return np.asarray(values, dtype=np.float64), None if covariance is None else np.asarray(covariance, np.float64)


def solve_by_estimator(estimator: Estimator, unknowns: Unknowns, factors: Factors, plain: Solution) -> Solution:
    """Solution with the values of an estimator of one's own; plain: that of weighted least squares."""
    kept = list(range(len(unknowns)) if plain.regrouping is None else plain.regrouping.kept)
    found, spread = call_estimator(estimator, build_problem(unknowns, factors, plain.noise, kept))
    values, covariance = np.zeros(len(unknowns)), None
    values[kept] = found
    if spread is not None:
        covariance = np.zeros((len(unknowns), len(unknowns)))
        covariance[np.ix_(kept, kept)] = spread
    squares = _residual_squares(unknowns, factors, values, len(plain.noise))
    return replace(plain, values=values, residual_squares=squares, own_covariance=covariance)


# Known and equal parameters as equations of the unknowns, also where they are standard parameters that regroup.


def build_constraints(
    equation: Equation,
    unknowns: Unknowns,
    known: Mapping[str, float],
    equal: Sequence[tuple[str, str]],
    declared: Mapping[str, float],
) -> tuple[Constraints | None, tuple[Message, ...]]:
    """Constraints from known and equal parameters, and notes on those without effect; declared: known by default.

    Everything is first written on standard parameters X (and friction). Data see XB = M X only, so a statement
    C X = d counts as far as it is free of the null space N of M: combinations l'C with l'C N = 0.
    """
    mute = [name for name in declared if name not in known]
    known = {**known, **{name: declared[name] for name in mute}}
    if not known and not equal:
        return None, ()
    base = equation.base
    columns = list(base.columns)
    others = [name for name in unknowns.names if name not in base.names]
    everything = [*columns, *others]
    C = np.zeros((len(known) + len(equal), len(everything)))
    d = np.zeros(len(C))
    for row, (name, value) in enumerate(known.items()):
        C[row, _index_of_parameter(name, everything)] = 1.0
        d[row] = _check_finite(name, value)
    for row, (left, right) in enumerate(equal, start=len(known)):
        C[row, _index_of_parameter(left, everything)] += 1.0
        C[row, _index_of_parameter(right, everything)] -= 1.0
    M = np.zeros((len(unknowns), len(everything)))
    index = {name: k for k, name in enumerate(unknowns.names)}
    for row, name in enumerate(base.names):
        if name in index:
            M[index[name], : len(columns)] = base.regrouping.matrix[row]
    for name in others:
        M[index[name], everything.index(name)] = 1.0
    spoken = ["" if name in mute else name for name in known]
    return _observable_constraints(C, d, M, [*spoken, *(f"{a} = {b}" for a, b in equal)])


def _observable_constraints(
    C: Array, d: Array, M: Array, spoken: list[str]
) -> tuple[Constraints | None, tuple[Message, ...]]:
    """Constraints on what the data can determine, and messages on those without effect."""
    what = "'{constraint}' alone does not help: the parameter appears only in sums with others"
    silent = tuple(
        Message("constraint_without_effect", what, constraint=text)
        for text, row in zip(spoken, C, strict=True)
        if text and not _in_row_space(row, M)
    )
    N = scipy.linalg.null_space(M)
    hidden = C @ N
    hidden[np.abs(hidden) < 1e-10] = 0.0  # rounding: a null space is sought relative to the largest entry
    combine = scipy.linalg.null_space(hidden.T).T if hidden.any() else np.eye(len(C))
    if not len(combine):
        return None, silent
    gamma = np.linalg.lstsq(M.T, (combine @ C).T, rcond=None)[0].T
    return Constraints(np.asarray(gamma), np.asarray(combine @ d)), silent


def _in_row_space(row: Array, M: Array) -> bool:
    """Whether a row is a combination of those of M."""
    coefficients, *_ = np.linalg.lstsq(M.T, row, rcond=None)
    return bool(np.linalg.norm(M.T @ coefficients - row) < 1e-8)


def _index_of_parameter(name: str, everything: Sequence[str]) -> int:
    """Index of a parameter by its name; IdentificationError with similar names where there is none."""
    if name not in everything:
        near = difflib.get_close_matches(name, everything, n=3) or everything[:8]
        raise IdentificationError(
            "unknown_parameter", "there is no parameter '{parameter}' here; near it are {near}", parameter=name,
            near=near,
        )  # fmt: skip
    return everything.index(name)


def _check_finite(name: str, value: float) -> float:
    """Return a finite number; IdentificationError where the value of a parameter is none."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise IdentificationError(
            "known_value_not_finite", "the known value of '{parameter}' must be a finite number, got {value!r}",
            parameter=name, value=value,
        )  # fmt: skip
    return number


# Columns that no motion can tell from others, and those that only a joint that stood still would tell apart.


def structurally_independent_columns(
    equation: Equation, unknowns: Unknowns, seed: int = 0
) -> tuple[tuple[int, ...], Array]:
    """Indices of the unknowns independent on random motion, left to right, and the matrix that regroups all.

    An offset joins a mass that gravity pulls along its joint; a position-dependent torque joins gravity's.
    """
    motion, stops = _random_motion(equation, unknowns, seed)
    parts, count = _channel_rows(equation, unknowns, 0, motion, stops), len(unknowns)
    # offsets of further logs stand for themselves: what holds for the first log's holds for theirs
    others = np.setdiff1d(np.arange(count), unknowns.place[0][unknowns.place[0] >= 0])
    parts += [(others[[k]], np.ones((1, 1))) for k in range(len(others))]
    if count > MANY:
        triangle, rank = merge_triangles(parts, count)
        if _is_surely_regular(triangle):
            return tuple(range(count)), np.eye(count)
        found = find_by_qr(triangle[:, rank])
    else:
        found = find_by_qr(stack_rows(parts, count))
    return found.regrouping.kept, found.regrouping.matrix


def random_rows(equation: Equation, unknowns: Unknowns) -> list[Array]:
    """Rows (N, unknowns) of every channel on random motion, of all logs."""
    logs = len(unknowns.place)
    written = [
        _spread_rows(_channel_rows(equation, unknowns, log, *_random_motion(equation, unknowns, log)), len(unknowns))
        for log in range(logs)
    ]
    return [np.concatenate(of_channel) for of_channel in zip(*written, strict=True)]


def _spread_rows(parts: Sequence[tuple[Indices, Array]], count: int) -> list[Array]:
    """Rows (N, count) of parts (columns, rows) on all columns."""
    spread = [np.zeros((len(rows), count)) for _, rows in parts]
    for wide, (columns, rows) in zip(spread, parts, strict=True):
        wide[:, columns] = rows
    return spread


def regrouping_of_standing_joints(
    state: State, unknowns: Unknowns, constraints: Constraints | None
) -> Regrouping | None:
    """Regrouping of the unknowns while joints stand still; None where all of them move.

    Noise of an encoder at rest is no motion: columns that it alone makes independent would take any value, and a
    wrong one with a small deviation. So rows of random motion decide, with those joints held where they stood.
    """
    if not any(still.any() for still, _ in standing_joints(state).values()):
        return None
    try:
        rows = [own for of_log in random_rows_with_held_joints(state, unknowns) for own in of_log]
    except LoopError:  # a closed loop may not close with a joint held there: the data decide alone
        return None
    return find_regrouping(np.concatenate(rows), constraints)


def random_rows_with_held_joints(state: State, unknowns: Unknowns) -> list[list[Array]]:
    """Rows (N, unknowns) of every log and torque channel on random motion, joints that stood still being held."""
    equation, rows = state.equation, []
    where = standing_joints(state)
    for log in range(state.logs):
        motion, stops = _random_motion(equation, unknowns, log)
        q, v, a = motion.q.copy(), motion.v.copy(), motion.a.copy()
        if log in where:
            still, posture = where[log]
            q[:, still], v[:, still], a[:, still] = posture[still], 0.0, 0.0
            stops[:, :, ~(equation.transmission[:, ~still] != 0.0).any(axis=1)] = 0.0
        parts = _channel_rows(equation, unknowns, log, Motion(motion.t, q, v, a), stops)
        rows.append(_spread_rows(parts, len(unknowns)))
    return rows


def standing_joints(state: State) -> dict[int, tuple[NDArray[np.bool_], Array]]:
    """Masks (n,) of joints that stood still, and mean positions (n,), by log."""
    smallest = standing_range(state.equation.shapes.scale)
    return {
        log: (np.array(found.highest) - np.array(found.lowest) < smallest, np.array(found.mean))
        for log, found in enumerate(state.findings)
    }


def _random_motion(equation: Equation, unknowns: Unknowns, seed: int) -> tuple[Motion, Array]:
    """Random motion, and values (N, w, n) of the stops that it does not determine."""
    channels = len(equation.torque_channels) + len(equation.base_channels)
    motion = random_samples(equation.robot, 3 * len(unknowns) // channels + 5, seed)
    shape = len(motion), len(equation.shapes.stop_widths), equation.robot.n
    return motion, np.random.default_rng(seed).uniform(-1.0, 1.0, shape)


def _channel_rows(
    equation: Equation, unknowns: Unknowns, log: int, motion: Motion, stops: Array
) -> list[tuple[Indices, Array]]:
    """Unknowns (k,) of every channel, and rows (N, k) on them.

    2 N of them where the block `rest`, which is 0 in motion, is used.
    """
    wide = equation.write_torque_rows(motion, stops, None)
    if (unknowns.place[log, equation.columns_by_friction_block.get("rest", [])] >= 0).any():
        still = Motion(motion.t, motion.q, np.zeros_like(motion.v), np.zeros_like(motion.a))
        wide = np.concatenate([wide, equation.write_torque_rows(still, np.ascontiguousarray(stops[::-1]), None)])
    parts = []
    for channel in (*equation.torque_channels, *equation.base_channels):
        place = unknowns.place[log, channel.columns]
        parts.append((place[place >= 0], channel.rows_in_wide(wide)[:, :-1][:, place >= 0]))
    return parts
