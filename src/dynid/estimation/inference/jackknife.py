"""Deviations that cover: the delete-block jackknife on block factors (all joints of a block together).

Residuals of real robots are coloured and depend on the motion, so the textbook covariance claims two to four times
too much precision. Leaving out one block of time after the other asks the data instead. In coordinates where the
weighted matrix is orthonormal, leaving out block g is (I - Z'Z)^-1 Z'e with Z, e its rows: no refit from scratch.
Where residuals remember longer than a block, neighbours shift the values alike; where a motion is repeated, what the
model lacks is repeated too, and blocks a period apart shift them alike. The variance grows with both.

Noise of derivatives is the opposite: of a sum of it little but both ends is left, and what one block has at its end
its neighbour has at its start with the other sign. There blocks pass into one another over part of their length, as
tapered blocks do (Paparoditis & Politis 2001): the weights of every row still add up to one, and the ends are gone.
What that noise pulls the values by, block by block, is not chance, and is taken off.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from dynid.estimation.accumulate.factor import Block, ChannelFactor
from dynid.estimation.accumulate.one_pass import RAMP, total_factors
from dynid.estimation.regression.equation import Equation, Unknowns
from dynid.estimation.solve.least_squares import (
    Estimator,
    Factors,
    Solution,
    solve_by_estimator,
    stack_weighted_rows,
)
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

SHARED = 0.25 * RAMP / (1.0 - 0.5 * RAMP)
"""Correlation of blocks that pass into one another, for white noise: mean of r (1 - r) over that of r^2, r the weight.

Over a ramp of 2 RAMP these are 1/8 and 3/8 for each of both.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Jackknife:
    """Shifts (groups, unknowns) of the values when a group of blocks is left out; covariance (unknowns, unknowns).

    growth (unknowns,): of the standard deviations by the variance between logs, which is part of the covariance. It is
    known of each parameter alone, so correlations are those within the logs.
    """

    shifts: Array
    covariance: Array
    groups: int
    essential_groups: int
    growth: Array | None = None

    @property
    def sigma(self) -> Array:
        """Standard deviations."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def quantile(self) -> float:
        """Half width of the 95 % interval in deviations: Student's t with groups - 1 degrees of freedom."""
        from scipy.special import stdtrit

        return float(stdtrit(self.groups - 1, 0.975))


def covariance_within_logs(covariance: Array, systematic: Array, growth: Array | None) -> Array:
    """Covariance without the variance between logs; systematic (sources, parameters): shares that do not grow."""
    if growth is None:
        return covariance
    fixed = systematic.T @ systematic
    return np.asarray((covariance - fixed) / np.outer(growth, growth) + fixed)


def torque_covariance(covariance: Array, systematic: Array, growth: Array | None) -> Array:
    """Covariance for torques and other sums, where large variances of correlated parameters cancel.

    Scaling them one by one would undo that: here all grow by one factor, the lower quartile of theirs.
    """
    if growth is None:
        return covariance
    within, fixed = covariance_within_logs(covariance, systematic, growth), systematic.T @ systematic
    return np.asarray((within - fixed) * np.quantile(growth, 0.25) ** 2 + fixed)


@dataclass(frozen=True, slots=True, eq=False)
class GroupPiece:
    """Rows of a group: weights of what they show of the unknowns, and of their residual."""

    log: int
    factors: tuple[ChannelFactor, ...]
    weight: float = 1.0
    residual_weight: float = 1.0


def row_pieces_of_groups(
    groups: list[tuple[Block, ...]], *, soft: bool, noise_corrected: bool = False
) -> list[list[GroupPiece]]:
    """Weighted rows of each group; soft: groups pass into their neighbours, and out at the ends of the recording.

    noise_corrected: without what noise shifts the values by.
    """
    pieces = [[GroupPiece(block.log, block.factors) for block in group] for group in groups]
    if not soft:
        return pieces
    blocks = [(g, block) for g, group in enumerate(groups) for block in group]
    for (g, left), (h, right) in itertools.pairwise(blocks):
        if not _is_consecutive(left, right):
            continue
        for factors, own, other in ((left.tail, g, h), (right.head, h, g)) if g != h else ():
            pieces[own].append(GroupPiece(left.log, factors, -1.0, -1.0))
            pieces[other].append(GroupPiece(left.log, factors))
    for g, block, factors in _unjoined_block_ends(blocks):
        pieces[g].append(GroupPiece(block.log, factors, -2.0, -2.0))  # all at the end itself, where a block shares half
    for g, block in blocks if noise_corrected else ():
        pieces[g].append(GroupPiece(block.log, block.noise, 0.0, -1.0))
    return pieces


def _is_consecutive(left: Block, right: Block) -> bool:
    """Whether a block begins where the one before ends, within half its length."""
    return left.log == right.log and right.start - left.stop < 0.5 * (left.stop - left.start)


def _unjoined_block_ends(blocks: list[tuple[int, Block]]) -> Iterator[tuple[int, Block, tuple[ChannelFactor, ...]]]:
    """Yield heads and tails of blocks without a consecutive neighbour, with the numbers of their groups."""
    yield *blocks[0], blocks[0][1].head
    for left, right in itertools.pairwise(blocks):
        if not _is_consecutive(left[1], right[1]):
            yield *left, left[1].tail
            yield *right, right[1].head
    yield *blocks[-1], blocks[-1][1].tail


def fade_out_ends(unknowns: Unknowns, solution: Solution, blocks: tuple[Block, ...]) -> Solution:
    """Solution with rows faded in and out at the ends of recordings, where noise of derivatives does not cancel."""
    ends = [
        GroupPiece(block.log, factors, 2.0, 2.0)
        for _, block, factors in _unjoined_block_ends([(0, block) for block in blocks])
    ]
    step, alone = _shifts_without_groups(unknowns, solution)(ends)
    return solution if alone else replace(solution, values=solution.values - solution.sparse_whitening @ step)


class ChannelWhitening:
    """Whitening of many unknowns, channel by channel: each shows few of the whitened ones."""

    def __init__(self, unknowns: Unknowns, solution: Solution) -> None:
        self.unknowns, self.solution = unknowns, solution
        self._known: dict[bytes, tuple[Array, tuple[slice, ...]]] = {}
        self._own: list[slice] | None = None

    def of_channel(self, log: int, channel: int) -> tuple[Array, tuple[slice, ...]]:
        """Rows of the whitening for the unknowns of a channel, side by side in slices of whitened ones, and these.

        The first slice is what only this channel shows, the second the rest.
        """
        place = self.unknowns.place[log, self.unknowns.channels[channel]]
        key = place.tobytes()
        if key not in self._known:
            own = self.solution.sparse_whitening[place[place >= 0]]
            shown = np.flatnonzero(own.any(axis=0))
            breaks = np.flatnonzero(np.diff(shown) > 1)[:1] + 1
            slices = tuple(slice(int(x[0]), int(x[-1]) + 1) for x in np.split(shown, breaks) if len(x))
            self._known[key] = np.concatenate([own[:, :0], *(own[:, x] for x in slices)], axis=1), slices
        return self._known[key]

    def shift_without_group(self, pieces: list[GroupPiece]) -> tuple[Array, bool]:
        """Shift without a group, and whether it is essential: what single channels show is eliminated there."""
        gram, rhs = self.normal_equations(pieces)
        M, x = np.eye(len(gram)) - gram, rhs.copy()
        owned, parts = np.zeros(len(gram), dtype=np.bool_), list[tuple[slice, Array, Array]]()
        try:
            for own in self._own_slices():
                L = scipy.linalg.cholesky(M[own, own], lower=True)
                owned[own] = True
                parts.append((own, L, np.asarray(scipy.linalg.solve_triangular(L, M[own], lower=True))))
                x[own] = scipy.linalg.solve_triangular(L, x[own], lower=True)
            rest = np.flatnonzero(~owned)
            left, right = M[np.ix_(rest, rest)], x[rest]
            across = np.concatenate([part[:, rest] for *_, part in parts])
            if len(parts):
                left -= across.T @ across
                right -= across.T @ np.concatenate([x[own] for own, *_ in parts])
            factor = scipy.linalg.cho_factor(left)
            pivots = np.concatenate([np.diag(factor[0]), *(np.diag(L) for _, L, _ in parts)])
            if pivots.min(initial=1.0) ** 2 > ESSENTIAL:
                x[rest] = scipy.linalg.cho_solve(factor, right)
                for own, L, part in parts:
                    x[own] = scipy.linalg.solve_triangular(L, x[own] - part[:, rest] @ x[rest], lower=True, trans="T")
                return x, False
        except np.linalg.LinAlgError:
            pass
        return shift_without_group(gram, rhs)

    def _own_slices(self) -> list[slice]:
        """Whitened unknowns that only one channel shows, channel by channel."""
        if self._own is None:
            shown = dict[bytes, tuple[slice, ...]]()
            for log in range(len(self.unknowns.place)):
                for c, columns in enumerate(self.unknowns.channels):
                    shown[self.unknowns.place[log, columns].tobytes()] = self.of_channel(log, c)[1]
            count = np.zeros(self.solution.rank, dtype=np.int64)
            for slices in shown.values():
                for part in slices:
                    count[part] += 1
            self._own = [x[0] for x in shown.values() if len(x) > 1 and (count[x[0]] == 1).all()]
        return self._own

    def normal_equations(self, pieces: list[GroupPiece]) -> tuple[Array, Array]:
        """Z'Z and Z'e of the rows of a group, Z those of the whitened unknowns."""
        solution, unknowns = self.solution, self.unknowns
        gram, rhs = np.zeros((solution.rank, solution.rank)), np.zeros(solution.rank)
        for piece in pieces:
            for c, factor in enumerate(piece.factors):
                if not len(factor.R):
                    continue
                place = unknowns.place[piece.log, unknowns.channels[c]]
                W, slices = self.of_channel(piece.log, c)
                rows = factor.R[:, :-1][:, place >= 0] / solution.noise[c]
                e = factor.R[:, -1] / solution.noise[c] - rows @ solution.values[place[place >= 0]]
                if not piece.weight:
                    score = W.T @ (rows.T @ e)
                else:
                    Z = rows @ W
                    score, share = Z.T @ e, Z.T @ Z
                starts = np.cumsum([0, *(x.stop - x.start for x in slices)])
                parts = [slice(a, b) for a, b in itertools.pairwise(starts.tolist())]
                for at, part in zip(slices, parts, strict=True):
                    rhs[at] += piece.residual_weight * score[part]
                    for other, beside in zip(slices, parts, strict=True) if piece.weight else ():
                        gram[at, other] += piece.weight * share[part, beside]
        return gram, rhs


def group_normal_equations(
    unknowns: Unknowns, solution: Solution, inverse: Array, pieces: list[GroupPiece]
) -> tuple[Array, Array]:
    """Z'Z and Z'e of the rows of a group, Z those of the whitened unknowns."""
    gram, rhs = np.zeros((solution.rank, solution.rank)), np.zeros(solution.rank)
    for piece in pieces:
        seen = [(c, factor.R) for c, factor in enumerate(piece.factors) if len(factor.R)]
        Z, e = np.empty((sum(len(R) for _, R in seen), solution.rank)), list[Array]()
        start, score = 0, np.zeros(len(unknowns))
        for c, rows in seen:
            place = unknowns.place[piece.log, unknowns.channels[c]]
            used = place >= 0
            R = (rows[:, :-1] if used.all() else rows[:, :-1][:, used]) / solution.noise[c]
            e.append(rows[:, -1] / solution.noise[c] - R @ solution.values[place[used]])
            if piece.weight:
                np.matmul(R, inverse[place[used]], out=Z[start : start + len(R)])
                start += len(R)
            else:
                score[place[used]] += R.T @ e[-1]
        if piece.weight and seen:
            gram += piece.weight * (Z.T @ Z)
            rhs += piece.residual_weight * (Z.T @ np.concatenate(e))
        elif seen:
            rhs += piece.residual_weight * (inverse.T @ score)
    return gram, rhs


def jackknife(
    unknowns: Unknowns,
    solution: Solution,
    blocks: tuple[Block, ...],
    most: int = 128,
    *,
    derived: bool = False,
    noise_corrected: bool = False,
) -> Jackknife | None:
    """Delete-group jackknife of the values: leave out one group of blocks after the other; None for too few.

    derived: residuals are mostly noise of derivatives; noise_corrected: values are corrected for what it shifts.
    """
    groups = group_blocks(blocks, most)
    if len(groups) < FEWEST:
        return None
    steps, essential = np.zeros((len(groups), solution.rank)), 0
    shift = _shifts_without_groups(unknowns, solution)
    for g, pieces in enumerate(row_pieces_of_groups(groups, soft=derived, noise_corrected=noise_corrected)):
        steps[g], alone = shift(pieces)
        essential += alone
    shifts = -(steps @ solution.sparse_whitening.T)
    steps = solution.turn_whitened(steps)
    return jackknife_from_shifts(shifts, steps, essential, shared=SHARED if derived else 0.0)


def _shifts_without_groups(unknowns: Unknowns, solution: Solution) -> Callable[[list[GroupPiece]], tuple[Array, bool]]:
    """Function that gives the shift of the unknowns whitened by `sparse_whitening` without a group of pieces."""
    if solution.merged is not None:
        return ChannelWhitening(unknowns, solution).shift_without_group
    return lambda pieces: shift_without_group(*group_normal_equations(unknowns, solution, solution.whitening, pieces))


def jackknife_by_refits(
    estimator: Estimator, unknowns: Unknowns, solution: Solution, blocks: tuple[Block, ...], most: int = 128
) -> Jackknife | None:
    """Delete-group jackknife of an estimator of one's own, which is called again without each group of blocks."""
    groups = group_blocks(blocks, most)
    if len(groups) < FEWEST:
        return None
    inverse = solution.whitening
    shifts, essential = np.zeros((len(groups), len(unknowns))), 0
    for g, factors in enumerate(factors_without_each_group(groups)):
        shifts[g] = solve_by_estimator(estimator, unknowns, factors, solution).values - solution.values
        seen = np.linalg.svd(stack_weighted_rows(unknowns, factors, solution.noise)[0] @ inverse, compute_uv=False)
        essential += len(seen) < solution.rank or bool(seen[solution.rank - 1] ** 2 < ESSENTIAL)
    steps = shifts @ (solution.R @ np.linalg.pinv(solution.free)).T
    return jackknife_from_shifts(shifts, steps, essential)


def factors_without_each_group(groups: list[tuple[Block, ...]]) -> Iterator[Factors]:
    """Yield the factors of all groups of blocks but one, for each of them in turn."""
    behind: list[tuple[Block, ...]] = [()]
    for group in reversed(groups[1:]):
        behind.append(_one_block_per_log((*group, *behind[-1])))
    before: tuple[Block, ...] = ()
    for group, rest in zip(groups, reversed(behind), strict=True):
        yield total_factors((*before, *rest))
        before = _one_block_per_log((*before, *group))


def _one_block_per_log(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Blocks merged into one per log."""
    return tuple(Block(log, 0.0, 0.0, factors) for log, factors in total_factors(blocks).items())


def jackknife_from_shifts(shifts: Array, steps: Array, essential: int, *, shared: float = 0.0) -> Jackknife:
    """Covariance from the shifts (groups, unknowns) and those of whitened unknowns, `steps` (groups, rank).

    shared: correlation that neighbours have because they pass into one another.
    """
    G = len(shifts)
    centred = shifts - shifts.mean(axis=0)
    grown = centred * np.sqrt(_variance_growth(centred, steps - steps.mean(axis=0), shared) * (G - 1.0) / G)
    return Jackknife(shifts, grown.T @ grown, G, essential)


def _variance_growth(shifts: Array, steps: Array, shared: float) -> Array:
    """Growth (unknowns,) of the variances where blocks err alike; steps (groups, rank): shifts of whitened unknowns.

    Lags at which the median correlation over the whitened unknowns is above chance count with each unknown's own
    correlation, at least the median; of neighbours the median counts in any case, or the unknown's own as far as rows
    that they share explain it. (The unknowns themselves may hang on a few weak directions, as those of one channel of
    energy do: chance would move all of them together.)
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
        least = shared if lag == 1 else 0.0
        if rho > least + chance * np.sqrt(len(shifts) - lag) / len(shifts):
            growth += 2.0 * np.maximum(own, rho)
        elif lag == 1:  # centring makes it smaller by one over the groups
            growth += 2.0 * np.maximum(rho, np.clip(np.maximum(own, rho) + 1.0 / len(shifts), 0.0, least))
    return growth


def shift_without_group(gram: Array, rhs: Array) -> tuple[Array, bool]:
    """Shift (I - gram)^-1 rhs without a group, and whether it is essential: then large, but finite."""
    M = np.eye(len(gram)) - gram
    try:
        factor = scipy.linalg.cho_factor(M)
        if np.diag(factor[0]).min(initial=1.0) ** 2 > ESSENTIAL:
            return np.asarray(scipy.linalg.cho_solve(factor, rhs)), False
    except np.linalg.LinAlgError:
        pass
    w, V = np.linalg.eigh(M)
    return np.asarray(V @ ((V.T @ rhs) / np.maximum(w, ESSENTIAL))), True


def group_blocks(blocks: tuple[Block, ...], most: int) -> list[tuple[Block, ...]]:
    """Blocks in groups of neighbours, at most `most` groups, of equal weight."""
    edges = np.linspace(0, len(blocks), min(most, len(blocks)) + 1).round().astype(int)
    return [blocks[start:stop] for start, stop in zip(edges[:-1], edges[1:], strict=True)]  # noqa: RUF007


# Uncertain sensitivities of a force plate: how the values would shift, per channel, by one standard deviation.
#
# A channel that reads (1 + e) y shifts the values by e (A'A)^-1 A_c'y_c, A the weighted rows and A_c those of the
# channel. More data do not help: these shifts are the same for all logs of one plate.


def sensitivity_shifts(equation: Equation, unknowns: Unknowns, solution: Solution, factors: Factors) -> Array:
    """Shifts (channels, unknowns) by uncertain sensitivities of the force plate, no rows where none are declared."""
    relative = equation.sensor.sensitivity_sigma
    if relative is None or not equation.base_channels:
        return np.zeros((0, len(unknowns)))
    half = solution.whitening
    first = len(equation.channels) - len(equation.base_channels)
    shifts = np.zeros((len(relative), len(unknowns)))
    for k, spread in enumerate(relative):
        rhs = np.zeros(len(unknowns))
        for log, of_log in factors.items():
            rows, right = unknowns.rows_of_factor(log, first + k, of_log[first + k])
            rhs += rows.T @ right / solution.noise[first + k] ** 2
        shifts[k] = spread * (half @ (half.T @ rhs))
    return shifts
