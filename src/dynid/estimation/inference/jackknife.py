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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from dynid.estimation.accumulate.factor import Block, ChannelFactor
from dynid.estimation.accumulate.one_pass import RAMP
from dynid.estimation.regression.equation import Equation
from dynid.estimation.regression.unknowns import Unknowns
from dynid.estimation.solve.least_squares import Factors, Solution
from dynid.robot.parameter import Parameter
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

    growth (unknowns,): of the standard deviations by the variance between logs. It is known of each parameter alone:
    the covariance, in which large variances of correlated parameters cancel in a torque, is that within the logs.
    """

    shifts: Array
    covariance: Array
    groups: int
    essential_groups: int
    growth: Array | None = None

    @property
    def sigma(self) -> Array:
        """Standard deviations."""
        sigma = np.sqrt(np.diag(self.covariance))
        return sigma if self.growth is None else sigma * self.growth

    @property
    def quantile(self) -> float:
        """Half width of the 95 % interval in deviations: Student's t with groups - 1 degrees of freedom."""
        from scipy.stats import t

        return float(t.ppf(0.975, self.groups - 1))


@dataclass(frozen=True, slots=True, eq=False)
class GroupPiece:
    """Rows of a group: `weight` of what they show of the unknowns, and of how their residual pulls."""

    log: int
    factors: tuple[ChannelFactor, ...]
    weight: float = 1.0
    pull: float = 1.0


def group_pieces(groups: list[tuple[Block, ...]], *, soft: bool, pulled: bool = False) -> list[list[GroupPiece]]:
    """Rows of each group; soft: groups pass into their neighbours, and out at the ends of what was recorded.

    pulled: without what noise pulls the values by.
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
    for g, block in blocks if pulled else ():
        pieces[g].append(GroupPiece(block.log, block.noise, 0.0, -1.0))
    return pieces


def _is_consecutive(left: Block, right: Block) -> bool:
    """Whether a block goes on where the one before ends, at less than half its length."""
    return left.log == right.log and right.start - left.stop < 0.5 * (left.stop - left.start)


def _unjoined_block_ends(blocks: list[tuple[int, Block]]) -> Iterator[tuple[int, Block, tuple[ChannelFactor, ...]]]:
    """Heads and tails of blocks that nothing goes on from, with the numbers of their groups."""
    yield *blocks[0], blocks[0][1].head
    for left, right in itertools.pairwise(blocks):
        if not _is_consecutive(left[1], right[1]):
            yield *left, left[1].tail
            yield *right, right[1].head
    yield *blocks[-1], blocks[-1][1].tail


def fade_out_ends(unknowns: Unknowns, solution: Solution, blocks: tuple[Block, ...]) -> Solution:
    """Fade the rows in and out at the ends of what was recorded: there nothing makes up for noise of derivatives."""
    inverse = solution.free @ scipy.linalg.solve_triangular(solution.R, np.eye(solution.rank))
    ends = [
        GroupPiece(block.log, factors, 2.0, 2.0)
        for _, block, factors in _unjoined_block_ends([(0, block) for block in blocks])
    ]
    step, alone = shift_without_group(*_group_normal_equations(unknowns, solution, inverse, ends))
    return solution if alone else replace(solution, values=solution.values - inverse @ step)


def _group_normal_equations(
    unknowns: Unknowns, solution: Solution, inverse: Array, pieces: list[GroupPiece]
) -> tuple[Array, Array]:
    """Z'Z and Z'e of the rows of a group, Z those of the whitened unknowns."""
    gram, pull = np.zeros((solution.rank, solution.rank)), np.zeros(solution.rank)
    for piece in pieces:
        for c, factor in enumerate(piece.factors):
            if not len(factor.R):
                continue
            place = unknowns.place[piece.log, unknowns.channels[c]]
            used = place >= 0
            R = (factor.R[:, :-1] if used.all() else factor.R[:, :-1][:, used]) / solution.noise[c]
            residual = factor.R[:, -1] / solution.noise[c] - R @ solution.values[place[used]]
            if piece.weight:
                Z = R @ inverse[place[used]]
                gram += piece.weight * (Z.T @ Z)
                pull += piece.pull * (Z.T @ residual)
            else:
                pull += piece.pull * (inverse[place[used]].T @ (R.T @ residual))
    return gram, pull


def jackknife(
    unknowns: Unknowns,
    solution: Solution,
    blocks: tuple[Block, ...],
    most: int = 128,
    *,
    derived: bool = False,
    pulled: bool = False,
) -> Jackknife | None:
    """Leave out one group of blocks after the other; None where there are too few.

    derived: residuals are noise of derivatives for the most part; pulled: values are corrected for what it shifts.
    """
    groups = group_blocks(blocks, most)
    if len(groups) < FEWEST:
        return None
    inverse = solution.free @ scipy.linalg.solve_triangular(solution.R, np.eye(solution.rank))
    shifts, steps = np.zeros((len(groups), len(unknowns))), np.zeros((len(groups), solution.rank))
    essential = 0
    for g, pieces in enumerate(group_pieces(groups, soft=derived, pulled=pulled)):
        steps[g], alone = shift_without_group(*_group_normal_equations(unknowns, solution, inverse, pieces))
        essential += alone
        shifts[g] = -(inverse @ steps[g])
    return jackknife_from_shifts(shifts, steps, essential, shared=SHARED if derived else 0.0)


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


def shift_without_group(gram: Array, pull: Array) -> tuple[Array, bool]:
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


def group_blocks(blocks: tuple[Block, ...], most: int) -> list[tuple[Block, ...]]:
    """Blocks in groups of neighbours, at most `most` groups, of equal weight."""
    edges = np.linspace(0, len(blocks), min(most, len(blocks)) + 1).round().astype(int)
    return [blocks[start:stop] for start, stop in zip(edges[:-1], edges[1:], strict=True)]  # noqa: RUF007


# Several logs: each against all others.
#
# What the model lacks follows the motion, so that logs of other motions give other values: their scatter is part of
# the uncertainty, and blocks of one log do not show it. And a log may be of another robot: with a payload, warmer, or
# mounted otherwise. Both are seen in the shifts of the values when a whole log is left out. In whitened unknowns the
# Gram matrices G of all logs add up to the identity, and the shift is -(I - G)^-1 u, u = Z'e of the log's rows.


LEAST_SHARE = 1e-3
"""Share of what is known of an unknown below which a log, or all others together, do not show it."""


@dataclass(frozen=True, slots=True, eq=False)
class LogShare:
    """What one log says of the whitened unknowns: gram Z'Z, pull Z'e, squares e'e about the common values.

    scores (groups, rank): Z'e of its blocks about the log's own fit, each as if fitted without its group.
    """

    gram: Array
    pull: Array
    squares: float
    scores: Array


@dataclass(frozen=True, slots=True, eq=False)
class LogContrasts:
    """Each log against all others. inverse (unknowns, rank): unknowns from whitened ones; shared: see `jackknife`."""

    logs: tuple[int, ...]
    shares: tuple[LogShare, ...]
    inverse: Array
    shared: float

    def without_each_log(self) -> tuple[Array, Array]:
        """Shifts (logs, unknowns) of the values without a log, and shares of what is known that rest on this log."""
        white = np.maximum((self.inverse**2).sum(axis=1), 1e-300)
        shifts, shares = (np.zeros((len(self.logs), len(self.inverse))) for _ in range(2))
        for g, log in enumerate(self.shares):
            w, V = np.linalg.eigh(np.eye(len(log.gram)) - log.gram)
            w = np.clip(w, ESSENTIAL, 1.0)
            shifts[g] = -(self.inverse @ (V @ ((V.T @ log.pull) / w)))
            more = ((self.inverse @ V) ** 2 @ (1.0 / w - 1.0)) / white  # variance without this log over that with it
            shares[g] = more / (1.0 + more)
        return shifts, shares

    def variance(self, g: int, own: Array, others: Array) -> tuple[Array, float]:
        """Covariance (m, m) of own @ e - others @ e', e and e' sums of Z'e over a log and over all others.

        From the scatter of blocks about each log's fit, with its degrees of freedom (Satterthwaite).
        """
        rest = np.concatenate([log.scores for h, log in enumerate(self.shares) if h != g])
        parts = []
        for scores, map_, lost in ((self.shares[g].scores, own, 1), (rest, others, len(self.logs) - 1)):
            seen = scores @ map_.T
            parts.append((jackknife_from_shifts(seen, seen, 0, shared=self.shared).covariance, len(scores) - lost))
        traces = np.array([np.trace(covariance) for covariance, _ in parts])
        freedom = traces.sum() ** 2 / max(sum(a**2 / df for a, (_, df) in zip(traces, parts, strict=True)), 1e-300)
        return parts[0][0] + parts[1][0], float(max(freedom, 1.0))


def contrast_logs(
    unknowns: Unknowns,
    solution: Solution,
    blocks: tuple[Block, ...],
    most: int = 128,
    *,
    derived: bool = False,
    pulled: bool = False,
) -> LogContrasts | None:
    """Compare each log with all others; None where there is only one."""
    logs = tuple(sorted({block.log for block in blocks}))
    if len(logs) < 2:
        return None
    inverse = solution.free @ scipy.linalg.solve_triangular(solution.R, np.eye(solution.rank))
    shares = []
    for log in logs:
        own = tuple(block for block in blocks if block.log == log)
        groups = group_blocks(own, max(FEWEST, most // len(logs)))
        parts = [
            _group_normal_equations(unknowns, solution, inverse, pieces)
            for pieces in group_pieces(groups, soft=derived, pulled=pulled)
        ]
        gram, pull = np.sum([gram for gram, _ in parts], axis=0), np.sum([pull for _, pull in parts], axis=0)
        squares = sum(
            factor.residual_squares(unknowns.of_channel(log, c, solution.values)) / solution.noise[c] ** 2
            for block in own
            for c, factor in enumerate(block.factors)
        )
        shares.append(LogShare(gram, pull, squares, _scores_about_own_fit(gram, pull, parts)))
    return LogContrasts(logs, tuple(shares), inverse, SHARED if derived else 0.0)


def _scores_about_own_fit(gram: Array, pull: Array, parts: list[tuple[Array, Array]]) -> Array:
    """Z'e (groups, rank) of a log's groups, e about the log's own fit and each as if fitted without its group."""
    w, V = np.linalg.eigh(gram)
    seen = w > ESSENTIAL
    root, back = V[:, seen] * np.sqrt(w[seen]), (V[:, seen] / np.sqrt(w[seen])).T  # gram = root root'
    best = back @ pull
    scores = np.zeros((len(parts), len(gram)))
    for b, (own, pulled) in enumerate(parts):
        share = back @ own @ back.T
        scores[b] = root @ shift_without_group(share, back @ pulled - share @ best)[0]
    return scores


POOLED = 4.0
"""Degrees of freedom that the excess of a kind of parameters counts for, beside that of the parameter itself."""


def growth_by_logs(found: Jackknife, names: Sequence[Parameter], contrasts: LogContrasts) -> Array:
    """Growth (unknowns,) of sigma by the variance between logs, shrunk towards the mean of a kind, as logs are few.

    Leaving out whole logs gives (K - 1) / K sum of shifts^2, whose mean is sum of h / (1 - h) times the variance if
    logs differ by chance only, h their shares. The excess over that, in units of the variance, is averaged over the
    parameters of a kind (a symbol of friction, a unit of the others) and with the parameter's own (moderated variances,
    Smyth 2004). Student's t with the logs left out and `POOLED` degrees of freedom takes the place of that of the
    blocks: sigma grows by the ratio of the two.
    """
    from scipy.stats import t

    K, variance = len(contrasts.logs), np.diag(found.covariance)
    shifts, shares = contrasts.without_each_log()
    used = (shares > LEAST_SHARE) & (shares < 1.0 - LEAST_SHARE) & (variance > 0.0)
    count = used.sum(axis=0)
    h = np.where(used, shares, 0.5)
    each = shifts**2 / np.where(variance > 0.0, variance, 1.0) - h / (1.0 - h)
    excess = (K - 1.0) / K * np.where(used, each, 0.0).sum(axis=0)
    kinds = np.array([f"{name.kind} {name.symbol if name.kind == 'friction' else name.unit}" for name in names])
    growth = np.ones(len(names))
    for kind in set(kinds[count > 1]):
        own = (kinds == kind) & (count > 1)
        pooled, freedom = max(0.0, float(excess[own].mean())), count[own] - 1.0
        moderated = (POOLED * pooled + freedom * excess[own]) / (POOLED + freedom)
        quantile = t.ppf(0.975, np.minimum(POOLED + freedom, found.groups - 1.0)) / found.quantile
        growth[own] = quantile * np.sqrt(1.0 + np.maximum(moderated, 0.0))
    return growth


# Do the logs agree? Each log's own values against those of the others, and changes that are known to happen.


@dataclass(frozen=True, slots=True)
class LogDifference:
    """A log in which the robot differs: kind is "payload", "friction", "gravity" or "parameters".

    parameters: those whose own value in this log differs, the clearest first; p: level at which this is chance; gain:
    share of the residual (root mean square) that the change explains.
    """

    log: int
    kind: str
    parameters: tuple[str, ...]
    p: float
    gain: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """Whether several logs are of the same robot: p, the level of the test of all parameters together.

    parameters: (name, level) of the test of each, all logs taken together; differences: what to warn of.
    """

    p: float
    parameters: tuple[tuple[str, float], ...]
    differences: tuple[LogDifference, ...] = ()


LEVEL = 0.01
"""Level at which logs are said to differ."""

MATERIAL = 0.15
"""Share of the residual that a change must explain to be reported: what the model lacks, which follows the motion, also
looks like a change of the robot, but explains less (up to 0.11 between public recordings of one robot)."""


def compare_logs(contrasts: LogContrasts, names: Sequence[Parameter], changes: dict[str, Array]) -> Agreement | None:
    """Test whether logs have the same parameters; changes: directions (rank, m) of whitened unknowns by kind."""
    if min(len(log.scores) for log in contrasts.shares) < FEWEST:
        return None
    K = len(contrasts.logs)
    pairs = 1 if K == 2 else K  # of two logs each is the other's contrast
    single = np.array([_levels_of_own_values(contrasts, g) for g in range(K)])
    tests = [(*_test_change(contrasts, g, D), g, kind) for g in range(K) for kind, D in changes.items() if D.shape[1]]
    levels = np.fmin.reduce(single, axis=0)
    known = np.isfinite(levels)
    p_single = pairs * max(int(known.sum()), 1) * float(np.min(levels[known], initial=1.0))
    p_change = pairs * max(len(changes), 1) * min((p for p, *_ in tests), default=1.0)
    p = min(1.0, 2.0 * min(p_single, p_change))
    parameters = tuple(
        (str(n), min(1.0, pairs * float(x))) for n, x in zip(names, levels, strict=True) if np.isfinite(x)
    )
    if p >= LEVEL or not tests:
        return Agreement(p, parameters)
    level, explained, g, kind = max(tests, key=lambda test: test[1])
    squares = sum(log.squares for log in contrasts.shares)
    gain = 1.0 - float(np.sqrt(max(0.0, 1.0 - explained / max(squares, 1e-300))))
    if gain < MATERIAL:
        return Agreement(p, parameters)
    clear = [k for k in np.argsort(single[g]) if single[g, k] * pairs * known.sum() < LEVEL]
    if level > 0.05:  # none of the known changes
        kind = "parameters"
    found = LogDifference(contrasts.logs[g], kind, tuple(str(names[k]) for k in clear), p, gain)
    return Agreement(p, parameters, (found,))


def _levels_of_own_values(contrasts: LogContrasts, g: int) -> Array:
    """Levels (unknowns,) of the test that a log's own value is that of the others; NaN where one does not show it."""
    from scipy.stats import t

    log, inverse = contrasts.shares[g], contrasts.inverse
    w, V = np.linalg.eigh(log.gram)
    own, others = (np.where(x > ESSENTIAL, 1.0 / np.maximum(x, ESSENTIAL), 0.0) for x in (w, 1.0 - w))
    hidden = ((inverse @ V) ** 2 @ ((own == 0.0) | (others == 0.0))) > 1e-6 * (inverse**2).sum(axis=1)
    difference = inverse @ (V @ ((own + others) * (V.T @ log.pull)))
    covariance, freedom = contrasts.variance(g, inverse @ (V * own) @ V.T, inverse @ (V * others) @ V.T)
    sigma = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    return np.where(hidden, np.nan, 2.0 * t.sf(np.abs(difference) / sigma, freedom))


def _test_change(contrasts: LogContrasts, g: int, D: Array) -> tuple[float, float]:
    """Level of the test that a log's parameters do not change along D (rank, m), and the squares that it explains.

    The squares are less twice those of chance, so that changes of more directions compare with those of fewer.

    The sum of squares that the change explains against its mean by the scatter of blocks, by an F distribution with
    Box's degrees of freedom.
    """
    from scipy.stats import f

    log = contrasts.shares[g]
    rest = np.eye(len(log.gram)) - log.gram
    w, V = np.linalg.eigh(D.T @ log.gram @ rest @ D)
    B = D @ (V[:, w > 1e-6 * w[-1]] / np.sqrt(w[w > 1e-6 * w[-1]]))
    score = B.T @ log.pull
    explained = float(score @ score)
    S, freedom = contrasts.variance(g, B.T @ rest, B.T @ log.gram)
    mean = max(float(np.trace(S)), 1e-300)
    level = float(f.sf(explained / mean, mean**2 / max(float((S**2).sum()), 1e-300), freedom))
    return level, explained - 2.0 * mean


# Uncertain sensitivities of a force plate: how the values would shift, per channel, by one standard deviation.
#
# A channel that reads (1 + e) y shifts the values by e (A'A)^-1 A_c'y_c, A the weighted rows and A_c those of the
# channel. More data do not help: these shifts are the same for all logs of one plate.


def sensitivity_shifts(equation: Equation, unknowns: Unknowns, solution: Solution, factors: Factors) -> Array:
    """Shifts (channels, unknowns) by uncertain sensitivities of the force plate, no rows where none are declared."""
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
