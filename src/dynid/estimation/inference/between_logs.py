"""Several logs: the variance between them, and whether they are of the same robot.

What the model lacks follows the motion, so that logs of other motions give other values: their scatter is part of
the uncertainty, and blocks of one log do not show it. And a log may be of another robot: with a payload, warmer, or
mounted otherwise. Both are seen in the shifts of the values when a whole log is left out. In whitened unknowns the
Gram matrices G of all logs add up to the identity, and the shift is -(I - G)^-1 u, u = Z'e of the log's rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from types import MappingProxyType

import numpy as np
import scipy.linalg

from dynid.dynamics.friction import HARMONICS
from dynid.dynamics.models import Torque
from dynid.dynamics.scene import Stage
from dynid.estimation.accumulate.factor import Block
from dynid.estimation.accumulate.one_pass import total_factors
from dynid.estimation.accumulate.state import State
from dynid.estimation.inference.jackknife import (
    ESSENTIAL,
    FEWEST,
    SHARED,
    Jackknife,
    group_blocks,
    group_normal_equations,
    jackknife,
    jackknife_from_shifts,
    row_pieces_of_groups,
    shift_without_group,
)
from dynid.estimation.regression.equation import Equation, Unknowns
from dynid.estimation.solve.least_squares import Constraints, Solution, solve
from dynid.messages import Message, Option
from dynid.robot.inertia import SYMBOLS
from dynid.robot.motion import Motion
from dynid.robot.parameter import Parameter
from dynid.robot.transform import Array

ONE_LOG = Message(
    "one_log", "one log cannot show how much the parameters vary between recordings",
    "the intervals hold for motions like this one; add logs of other motions",
)  # fmt: skip

SAME, NEAR = 0.9, 0.1
"""Share of a log's samples that are near those of another one if it shows the same motion, and what near is: the root
mean square difference of positions and velocities, each over its standard deviation."""

MOST_COMPARED = 32
"""Groups of logs that a log is compared with: of more, those nearest by means and deviations."""


def group_logs_by_motion(state: State) -> list[list[int]]:
    """Logs in groups of the same motion, the longest of a group first; by samples that were kept."""
    from scipy.spatial import cKDTree

    some: dict[int, list[Array]] = {}
    for rows in state.kept:
        some.setdefault(rows.log, []).append(np.hstack([rows.q, rows.v]))
    samples = {log: np.concatenate(parts) for log, parts in some.items()}
    if len(samples) < state.logs or state.logs < 2:
        return [[log] for log in range(state.logs)]
    spread = np.std(np.concatenate(list(samples.values())), axis=0)
    scale = np.where(spread > 0.0, spread, 1.0) * np.sqrt(len(spread))
    groups: list[list[int]] = []
    looks = np.empty((len(samples), 2 * len(spread)))  # means and deviations, by which the nearest groups are found
    ranges: list[tuple[Array, Array]] = []
    for log in sorted(samples, key=lambda log: -len(samples[log])):
        whole = samples[log] / scale
        own = whole[:: max(1, len(whole) // 400)]
        look = np.concatenate([whole.mean(axis=0), whole.std(axis=0)])
        for g in _nearest(looks[: len(groups)], look):
            lowest, highest = ranges[g]
            is_inside = (own >= lowest - NEAR) & (own <= highest + NEAR)
            if is_inside.mean(axis=0).min() < SAME:
                continue
            if np.mean(cKDTree(samples[groups[g][0]] / scale).query(own)[0] < NEAR) >= SAME:
                groups[g].append(log)
                break
        else:
            looks[len(groups)] = look
            ranges.append((whole.min(axis=0), whole.max(axis=0)))
            groups.append([log])
    return groups


def _nearest(looks: Array, look: Array) -> Sequence[int]:
    """Places of the groups that may show the same motion, in their order: all, or the nearest of many."""
    if len(looks) <= MOST_COMPARED:
        return range(len(looks))
    distance = ((looks - look) ** 2).sum(axis=1)
    return [int(g) for g in np.sort(np.argpartition(distance, MOST_COMPARED)[:MOST_COMPARED])]


def describe_single_motion(groups: list[list[int]]) -> Message | None:
    """Message where all logs show one motion, which cannot show what another would change; else None."""
    logs = sum(map(len, groups))
    if len(groups) > 1:
        return None
    return ONE_LOG if logs == 1 else Message(
        "logs_of_one_motion", "all {logs} logs show the same motion ({percent:.0f} % of the samples of each are near "
        "those of the longest): they cannot show how much the parameters vary between motions",
        "intervals and held-out errors hold for motions like this one; add a log of another motion", logs=logs,
        percent=100.0 * SAME,
    )  # fmt: skip


VISCOUS = ("Fv", "Fq", "Fa")
"""Symbols of friction that grows with velocity; the others of friction, but for offsets, are dry friction."""

CHANGED = {
    "payload": ("as a payload at the last link would", "check what the robot carried; `identify_payload` measures it"),
    "friction": (
        "as friction that changes with temperature would, or that the model lacks",
        "warm up alike, or identify with {friction_per_log}",
    ),
    "offsets": ("in its torque offsets", "tare the torque sensors, or identify with {offsets_per_log}"),
    "gravity": (
        "as a mount that is tilted by {degrees:.2g} deg would",
        "identify it on its own with {option}, if gravity in the other logs is as in the robot file",
    ),
    "parameters": ("in its parameters", "identify the logs one by one and compare"),
}
"""How a log differs, and what to do, by the kind of the difference."""

LEAST_SHARE = 1e-3
"""Share of what is known of an unknown below which a log, or all others together, do not show it."""


@dataclass(frozen=True, slots=True, eq=False)
class LogShare:
    """What one log says of the whitened unknowns: gram Z'Z, rhs Z'e, squares e'e about the common values.

    scores (groups, rank): Z'e of its blocks about the log's own fit, each as if fitted without its group. Z may have
    more columns than there are unknowns: those of gravity, see `GravityColumns`.
    """

    gram: Array
    rhs: Array
    squares: float
    scores: Array


@dataclass(frozen=True, slots=True, eq=False)
class LogContrasts:
    """Each log against all others. inverse (unknowns, rank): unknowns from whitened ones; shared: see `jackknife`."""

    logs: tuple[int, ...]
    shares: tuple[LogShare, ...]
    inverse: Array
    shared: float

    def by_groups(self, groups: list[list[int]]) -> LogContrasts:
        """Contrasts of each group of logs with all others; unchanged for one group or groups of one."""
        if len(groups) in (1, len(self.logs)):
            return self
        shares = [[self.shares[self.logs.index(log)] for log in group if log in self.logs] for group in groups]
        merged = tuple(
            LogShare(
                np.sum([log.gram for log in group], axis=0), np.sum([log.rhs for log in group], axis=0),
                sum(log.squares for log in group), np.concatenate([log.scores for log in group]),
            ) for group in shares if group
        )  # fmt: skip
        return replace(self, logs=tuple(range(len(merged))), shares=merged)

    def shifts_without_each_log(self) -> tuple[Array, Array]:
        """Shifts (logs, unknowns) of the values without each log, and the shares of information that rest on it."""
        white = np.maximum((self.inverse**2).sum(axis=1), 1e-300)
        shifts, shares = (np.zeros((len(self.logs), len(self.inverse))) for _ in range(2))
        for g, log in enumerate(self.shares):
            w, V = np.linalg.eigh(np.eye(len(log.gram)) - log.gram)
            w = np.clip(w, ESSENTIAL, 1.0)
            shifts[g] = -(self.inverse @ (V @ ((V.T @ log.rhs) / w)))
            more = ((self.inverse @ V) ** 2 @ (1.0 / w - 1.0)) / white  # variance without this log over that with it
            shares[g] = more / (1.0 + more)
        return shifts, shares

    def contrast_covariance(self, g: int, own: Array, others: Sequence[Array]) -> tuple[Array, float]:
        """Covariance (m, m) of own @ e - sum of others[h] @ e[h], e sums of Z'e over a log and over each other one.

        From the scatter of blocks about each log's fit, with its degrees of freedom (Satterthwaite).
        """
        rest = [log.scores @ others[h].T for h, log in enumerate(self.shares) if h != g]
        parts = []
        for seen, lost in ((self.shares[g].scores @ own.T, 1), (np.concatenate(rest), len(rest))):
            parts.append((jackknife_from_shifts(seen, seen, 0, shared=self.shared).covariance, len(seen) - lost))
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
    noise_corrected: bool = False,
) -> LogContrasts | None:
    """Compare each log with all others; None where there is only one."""
    blocks_of_log: dict[int, list[Block]] = {}
    for block in blocks:
        blocks_of_log.setdefault(block.log, []).append(block)
    logs = tuple(sorted(blocks_of_log))
    if len(logs) < 2:
        return None
    inverse = solution.whitening
    shares = []
    for log in logs:
        own = tuple(blocks_of_log[log])
        groups = group_blocks(own, max(FEWEST, most // len(logs)))
        parts = [
            group_normal_equations(unknowns, solution, inverse, pieces)
            for pieces in row_pieces_of_groups(groups, soft=derived, noise_corrected=noise_corrected)
        ]
        gram, rhs = np.sum([gram for gram, _ in parts], axis=0), np.sum([rhs for _, rhs in parts], axis=0)
        squares = sum(
            factor.residual_squares(unknowns.values_of_channel(log, c, solution.values)) / solution.noise[c] ** 2
            for block in own
            for c, factor in enumerate(block.factors)
        )
        shares.append(LogShare(gram, rhs, squares, _scores_about_own_fit(gram, rhs, parts)))
    return LogContrasts(logs, tuple(shares), inverse, SHARED if derived else 0.0)


def _scores_about_own_fit(gram: Array, rhs: Array, parts: list[tuple[Array, Array]]) -> Array:
    """Z'e (groups, rank) of a log's groups, e about the log's own fit and each as if fitted without its group."""
    w, V = np.linalg.eigh(gram)
    seen = w > ESSENTIAL
    root, back = V[:, seen] * np.sqrt(w[seen]), (V[:, seen] / np.sqrt(w[seen])).T  # gram = root root'
    best = back @ rhs
    scores = np.zeros((len(parts), len(gram)))
    for b, (own, score) in enumerate(parts):
        share = back @ own @ back.T
        scores[b] = root @ shift_without_group(share, back @ score - share @ best)[0]
    return scores


POOLED, POOLED_DRY = 4.0, 1.5
"""Degrees of freedom that the excess of a kind of parameters counts for, beside that of the parameter itself.

Blocks of dry friction overlap: there are fewer of them than there are parameters.
"""

DRY = "dry"
FRICTIONAL = (DRY, "viscous")
"""Kinds whose excess is at least that of the kind: what the model lacks of friction is shared out among the blocks."""


def _kind_of_scatter(name: Parameter) -> str:
    """Kind of parameters that scatter alike between logs: blocks of dry friction overlap and share model errors."""
    if name.kind != "friction":
        return f"{name.kind} {name.unit}"
    if name.symbol in VISCOUS:
        return "viscous"
    return DRY if name.symbol[0] == "F" and name.symbol != "Fo" else name.symbol


def sigma_growth_by_logs(found: Jackknife, names: Sequence[Parameter], contrasts: LogContrasts) -> Array:
    """Growth (unknowns,) of sigma by the variance between logs, shrunk towards the mean of a kind, as logs are few.

    Leaving out whole logs gives (K - 1) / K sum of shifts^2, whose mean is sum of h / (1 - h) times the variance if
    logs differ by chance only, h their shares. The excess over that, in units of the variance, is averaged over the
    parameters of a kind (dry or viscous friction, a unit of the others) and with the parameter's own (moderated
    variances, Smyth 2004). Student's t with the logs left out and `POOLED` degrees of freedom takes the place of that
    of the blocks: sigma grows by the ratio of the two.
    """
    from scipy.special import stdtrit

    K, variance = len(contrasts.logs), np.diag(found.covariance)
    shifts, shares = contrasts.shifts_without_each_log()
    used = (shares > LEAST_SHARE) & (shares < 1.0 - LEAST_SHARE) & (variance > 0.0)
    count = used.sum(axis=0)
    h = np.where(used, shares, 0.5)
    each = shifts**2 / np.where(variance > 0.0, variance, 1.0) - h / (1.0 - h)
    excess = (K - 1.0) / K * np.where(used, each, 0.0).sum(axis=0)
    kinds = np.array([_kind_of_scatter(name) for name in names])
    growth = np.ones(len(names))
    for kind in set(kinds[count > 1]):
        own = (kinds == kind) & (count > 1)
        pooled, freedom = max(0.0, float(excess[own].mean())), count[own] - 1.0
        count_of_kind = POOLED_DRY if kind == DRY else POOLED
        moderated = (POOLED * pooled + freedom * excess[own]) / (POOLED + freedom)
        if kind in FRICTIONAL:
            moderated = np.maximum(moderated, pooled)
        quantile = stdtrit(np.minimum(count_of_kind + freedom, found.groups - 1.0), 0.975) / found.quantile
        growth[own] = quantile * np.sqrt(1.0 + np.maximum(moderated, 0.0))
    return growth


# Do the logs agree? Each log's own values against those of the others, and changes that are known to happen.


@dataclass(frozen=True, slots=True)
class LogDifference:
    """A log in which the robot differs: kind is "payload", "friction", "offsets", "gravity" or "parameters".

    parameters: those whose own value in this log differs, the clearest first; p: level at which this is chance; gain:
    share of the residual (root mean square) that the change explains. gravity (m/s^2): in this log, where that differs.
    """

    log: int
    kind: str
    parameters: tuple[str, ...]
    p: float
    gain: float
    gravity: tuple[float, ...] = ()


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

FURTHER = 0.05
"""The same of a further change, where logs are known to differ, and of each of several beside all others."""

MINOR = (0.0, 0.03, 0.2, 0.2)
"""Root of the share of the first squares that one change after the other must explain: after large ones little is left.
"""

HALF = 0.5
"""Share of what a log's own values explain that a known change must explain to be named."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Whether logs agree, by one set of unknowns: level of chance, levels of the unknowns, changes, squares left."""

    p: float
    levels: Array
    differences: tuple[LogDifference, ...]
    squares: float


def compare_logs(
    state: State, unknowns: Unknowns, solution: Solution, contrasts: LogContrasts, *, constraints: Constraints | None
) -> Agreement | None:
    """Test whether logs have the same parameters, and name what changed.

    Torques that depend on the position would absorb another gravity or payload: where these without them explain as
    much, they are what changed.
    """
    if min(len(log.scores) for log in contrasts.shares) < FEWEST:
        return None
    found = _find_differences(state, unknowns, solution, contrasts)
    parameters = tuple((str(n), float(x)) for n, x in zip(unknowns.names, found.levels, strict=True) if np.isfinite(x))
    blocks = state.equation.columns_by_friction_block
    absorbing = [k for name in (*HARMONICS, "spring") if name in blocks for k in blocks[name]]
    dropped = set(unknowns.place[:, absorbing].ravel().tolist()) - {-1}
    if dropped:
        fewer = unknowns.without_unknowns(sorted(dropped))
        if constraints is not None:
            kept = [k for k in range(len(unknowns)) if k not in dropped]
            constraints = Constraints(constraints.matrix[:, kept], constraints.right)
        plain = solve(fewer, total_factors(state.blocks), constraints=constraints, noise=solution.noise)
        again = contrast_logs(fewer, plain, state.blocks)
        other = None if again is None else _find_differences(state, fewer, plain, again)
        if other is not None and other.differences and other.squares <= found.squares:
            found = other
    return Agreement(found.p, parameters, found.differences)


def _find_differences(state: State, unknowns: Unknowns, solution: Solution, contrasts: LogContrasts) -> Comparison:
    """Test single unknowns and known changes of every log."""
    K, names = len(contrasts.logs), unknowns.names
    pairs = 1 if K == 2 else K  # of two logs each is the other's contrast
    single = np.array([_p_values_of_own_values(contrasts, g) for g in range(K)])
    levels = np.fmin.reduce(single, axis=0)
    known = np.isfinite(levels)
    p_single = pairs * max(int(known.sum()), 1) * float(np.min(levels[known], initial=1.0))
    changes, rows = possible_changes(state, unknowns, solution), contrast_rows(state, unknowns, solution, contrasts)
    search = ChangeSearch(contrasts if rows is None else rows, changes)
    p_change = pairs * len(KINDS) * min((test.level for test in search.test_all_changes()), default=1.0)
    p = min(1.0, 2.0 * min(p_single, p_change))
    if p < LEVEL:
        search.find_changes()
        shifts = search.shifts_beside_gravity()
        if shifts:  # gravity acts on a payload too
            rows = contrast_rows(state, unknowns, solution, contrasts, shifts)
            search = ChangeSearch(contrasts if rows is None else rows, changes)
            search.find_changes()
    differences = []
    for k, found in enumerate(search.accepted):
        clear = [k for k in np.argsort(single[found.log]) if single[found.log, k] * pairs * known.sum() < LEVEL]
        g = np.array(state.equation.robot.gravity) + search.gravity_step(found.log) if found.kind == "gravity" else None
        differences.append(LogDifference(
            contrasts.logs[found.log], found.kind, tuple(str(names[k]) for k in clear), p,
            search.explained_share_of_accepted(k),
            () if g is None else tuple(g.tolist()),
        ))  # fmt: skip
    return Comparison(p, np.minimum(1.0, pairs * levels), tuple(differences), search.squares)


def _p_values_of_own_values(contrasts: LogContrasts, g: int) -> Array:
    """p-values (unknowns,) of the test that a log's own value is that of the others; NaN where one lacks it."""
    from scipy.stats import t

    log, inverse = contrasts.shares[g], contrasts.inverse
    w, V = np.linalg.eigh(log.gram)
    own, others = (np.where(x > ESSENTIAL, 1.0 / np.maximum(x, ESSENTIAL), 0.0) for x in (w, 1.0 - w))
    hidden = ((inverse @ V) ** 2 @ ((own == 0.0) | (others == 0.0))) > 1e-6 * (inverse**2).sum(axis=1)
    difference = inverse @ (V @ ((own + others) * (V.T @ log.rhs)))
    from_others = [inverse @ (V * others) @ V.T] * len(contrasts.logs)
    covariance, freedom = contrasts.contrast_covariance(g, inverse @ (V * own) @ V.T, from_others)
    sigma = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    return np.where(hidden, np.nan, 2.0 * t.sf(np.abs(difference) / sigma, freedom))


KINDS = ("payload", "friction", "offsets", "gravity")
"""Changes that are known to happen."""


@dataclass(frozen=True, slots=True, eq=False)
class ChangeTest:
    """How much a change of one log along D (columns, m) explains: squares less twice those of chance; its level."""

    log: int
    kind: str
    level: float
    explained: float
    D: Array


class ChangeSearch:
    """Looks for changes of single logs, one after the other, with all parameters shared but for those that changed.

    maps[l] (columns of log l, parameters): from parameters, those of all logs and then the steps of changes that were
    accepted, to the log's own columns.
    """

    def __init__(self, contrasts: LogContrasts, changes: dict[str, Array]) -> None:
        self.contrasts = contrasts
        self.changes = {kind: D for kind, D in changes.items() if D.shape[1]}
        self.rank = contrasts.inverse.shape[1]
        self.accepted: list[ChangeTest] = []
        self._refit_with_changes()
        self.first_squares = self.squares

    def _refit_with_changes(self) -> None:
        """Solve again for the parameters, with the changes that were accepted."""
        self.maps = [
            np.hstack([
                np.eye(len(log.gram), self.rank),
                *(x.D if x.log == h else np.zeros((len(log.gram), x.D.shape[1])) for x in self.accepted),
            ])
            for h, log in enumerate(self.contrasts.shares)
        ]  # fmt: skip
        pairs = list(zip(self.maps, self.contrasts.shares, strict=True))
        w, V = np.linalg.eigh(sum(M.T @ log.gram @ M for M, log in pairs))
        seen = w > 1e-9 * w[-1]
        self.inverse = (V[:, seen] / w[seen]) @ V[:, seen].T
        rhs = sum(M.T @ log.rhs for M, log in pairs)
        self.values = self.inverse @ rhs
        self.residual_rhs = [log.rhs - log.gram @ (M @ self.values) for M, log in pairs]
        self.squares = max(sum(log.squares for _, log in pairs) - float(rhs @ self.values), 1e-300)

    def test_all_changes(self, only: int | None = None) -> Iterator[ChangeTest]:
        """Test every known change of every log, or of one."""
        for g, log in enumerate(self.contrasts.shares):
            if only not in (None, g):
                continue
            rank = self.rank
            both = len(self.maps) == 2  # of two logs none can be said to be the other one: gravity alone has a file
            for kind, D in self.changes.items() if g or not both or only == g else ():
                yield self.test_change(g, kind, np.pad(D, ((0, len(log.gram) - rank), (0, 0))))
            if len(log.gram) > rank:
                yield self.test_change(g, "gravity", np.eye(len(log.gram))[:, rank:])

    def test_change(self, g: int, kind: str, D: Array) -> ChangeTest:
        """Test a change of log g along D (columns, m).

        The sum of squares that it explains against its mean by the scatter of blocks, by an F distribution with Box's
        degrees of freedom.
        """
        from scipy.stats import f

        log, K = self.contrasts.shares[g], self.contrasts.shares[g].gram @ self.maps[g]
        left = log.gram - K @ self.inverse @ K.T
        size = np.sqrt(np.maximum(np.diag(D.T @ left @ D), 0.0))
        scaled = D / np.where(size > 0.0, size, np.inf)
        w, V = np.linalg.eigh(scaled.T @ left @ scaled)
        B = scaled @ (V[:, w > 1e-6 * max(w[-1], 1e-300)] / np.sqrt(w[w > 1e-6 * max(w[-1], 1e-300)]))
        score = B.T @ self.residual_rhs[g]
        others = [B.T @ K @ self.inverse @ M.T for M in self.maps]
        S, freedom = self.contrasts.contrast_covariance(g, B.T - others[g], others)
        mean, explained = max(float(np.trace(S)), 1e-300), float(score @ score)
        level = float(f.sf(explained / mean, mean**2 / max(float((S**2).sum()), 1e-300), freedom))
        return ChangeTest(g, kind, level, explained - 2.0 * mean, D)

    def rms_reduction(self, test: ChangeTest) -> float:
        """Share by which the rms residual falls if a change is accepted, less what chance gives."""
        return 1.0 - float(np.sqrt(max(0.0, 1.0 - test.explained / self.squares)))

    def find_changes(self) -> None:
        """Accept changes one after the other, or two of a log at once, and drop those that the others explain."""
        while len(self.accepted) < len(MINOR):
            found = self._find_change(MINOR[len(self.accepted)])
            if found is None:
                break
            self._accept_changes([*self.accepted, *self._split_change(found)])
        while len(self.accepted) > 1:
            gains = [self.explained_share_of_accepted(k) for k in range(len(self.accepted))]
            k = int(np.argmin(gains))
            if gains[k] >= FURTHER:
                break
            self._accept_changes([*self.accepted[:k], *self.accepted[k + 1 :]])

    def _find_change(self, minor: float) -> ChangeTest | None:
        """The change that explains most; None where none is material, or only for what little is left."""
        best = max(self.test_all_changes(), key=lambda test: test.explained)
        every = self.test_change(best.log, "parameters", np.eye(len(self.maps[best.log]), self.rank))
        if best.level < LEVEL and best.explained >= HALF * every.explained:
            found, least = best, FURTHER if self.accepted and best.level < 0.1 * LEVEL else MATERIAL
        else:
            found, least = every, 2.0 * MATERIAL
        is_minor = found.explained < minor**2 * self.first_squares
        return None if is_minor or self.rms_reduction(found) < least else found

    def _split_change(self, found: ChangeTest) -> list[ChangeTest]:
        """The change, or the two of the same log that together explain more than it."""
        own = [test for test in self.test_all_changes(found.log) if test.kind != "offsets"]  # part of friction
        pairs = [(self.test_change(found.log, "both", np.hstack([x.D, y.D])), x, y) for x, y in combinations(own, 2)]
        if not pairs or found.kind == "parameters":
            return [found]
        both, x, y = max(pairs, key=lambda pair: pair[0].explained)
        left, more = self.squares - found.explained, both.explained - found.explained
        is_more = more >= MINOR[1] ** 2 * self.first_squares and 1.0 - np.sqrt(max(0.0, 1.0 - more / left)) >= MATERIAL
        return [x, y] if is_more and found.kind not in (x.kind, y.kind) else [found]

    def _accept_changes(self, changes: list[ChangeTest]) -> None:
        """Accept changes: logs have their own values along these from now on."""
        self.accepted = changes
        self._refit_with_changes()

    def explained_share_of_accepted(self, k: int) -> float:
        """Share of the residual that one of the changes explains beside the others."""
        every, squares = self.accepted, self.squares
        self._accept_changes([*every[:k], *every[k + 1 :]])
        without = self.squares
        self._accept_changes(every)
        return 1.0 - float(np.sqrt(min(1.0, squares / without)))

    def gravity_step(self, log: int) -> Array:
        """Difference of gravity (3,) in a log, with all changes that were accepted."""
        return np.asarray((self.maps[log] @ self.values)[self.rank : self.rank + 3])

    def shifts_beside_gravity(self) -> dict[int, Array]:
        """Changes of the unknowns in logs in which gravity changes too."""
        logs = {found.log for found in self.accepted if found.kind == "gravity"}
        logs &= {found.log for found in self.accepted if found.kind != "gravity"}
        first = self.values[: self.rank]
        return {log: self.contrasts.inverse @ ((self.maps[log] @ self.values)[: self.rank] - first) for log in logs}


# Gravity's direction is not a parameter: its columns are written along rows that were kept.


MOST_ROWS = 1500
"""Of a log, along which columns of gravity are written."""

SHRINK = 1e-3
"""Share of what is known of a direction below which the other logs' values give way to those of all logs."""


class GravityColumns:
    """Torques by each component of gravity (m/s^2), for given parameters, and those of parameters it alone reveals.

    Parameters that gravity of the robot file does not show, such as the first moments of a link that turns about a
    vertical axis, are felt where the mount is tilted. Their values are unknown: so are the sizes of their columns.
    """

    def __init__(self, equation: Equation) -> None:
        self.equation = equation
        robot, base = equation.robot, equation.base
        self.stages = [Stage.for_robot(replace(robot, gravity=g), equation.stage.columns) for g in np.eye(3)]
        known = set(base.question.known_zero_columns)
        free = [k for k in range(len(base.question.columns)) if k not in known]
        M = base.regrouping.matrix[:, free]
        self.hidden = np.zeros((M.shape[1] + len(base.question.known_zero_columns), M.shape[1] - len(M)))
        self.hidden[free] = scipy.linalg.null_space(M)
        self.basis = np.zeros((3 * self.hidden.shape[1], 0))

    def torques_per_gravity(self, q: Array) -> Array:
        """Torques (3, N, channels, columns) per unit of gravity along each axis and of each standard parameter."""
        still = np.zeros_like(q)
        motion = Motion(np.arange(float(len(q))), q, still, still)
        joints = [channel.joint for channel in self.equation.torque_channels]
        return np.array([Torque().rows(stage.scene_along(motion))[:, joints] for stage in self.stages])

    def find_hidden_columns(self, q: Array) -> None:
        """Find and store the independent columns of parameters that only another gravity shows."""
        G = self.torques_per_gravity(q)
        columns = np.moveaxis(G @ self.hidden, 0, 2).reshape(-1, 3 * self.hidden.shape[1])
        w, V = np.linalg.eigh(columns.T @ columns)
        self.basis = V[:, w > 1e-10 * max(float((G**2).sum()), 1e-300)]

    def columns_of_log(self, q: Array, base_values: Array) -> Array:
        """Columns (N, channels, 3 + hidden) along positions, with base parameters as they are."""
        G = self.torques_per_gravity(q)
        X = np.zeros(G.shape[3])
        X[list(self.equation.base.kept)] = base_values
        hidden = np.moveaxis(G @ self.hidden, 0, 2).reshape(*G.shape[1:3], -1) @ self.basis
        return np.concatenate([np.moveaxis(G @ X, 0, 2), hidden], axis=2)


def contrast_rows(
    state: State,
    unknowns: Unknowns,
    solution: Solution,
    contrasts: LogContrasts,
    shifts: Mapping[int, Array] = MappingProxyType({}),
) -> LogContrasts | None:
    """Compare logs by rows that were kept, with columns of gravity beside the unknowns; None where that is not a model.

    shifts: how the unknowns of some logs differ.
    """
    equation, kept = state.equation, state.kept
    if equation.options.model != "torque" or equation.unknown is not None or equation.robot.floating:
        return None
    places = {log: [rows for rows in kept if rows.log == log and len(rows.t)] for log in contrasts.logs}
    if not all(places.values()):
        return None
    gravity = GravityColumns(equation)
    gravity.find_hidden_columns(
        np.concatenate([rows.q[:: max(1, len(rows.q) // 20)] for rows in kept if len(rows.t)])[:400]
    )
    shares = []
    for g, (log, share) in enumerate(zip(contrasts.logs, contrasts.shares, strict=True)):
        others = np.linalg.solve((1.0 + SHRINK) * np.eye(len(share.gram)) - share.gram, share.rhs)
        values = solution.values - contrasts.inverse @ others + shifts.get(g, 0.0)
        place = unknowns.place[log, : equation.base_column_count]
        base_values = np.where(place >= 0, values[place], 0.0)
        blocks = group_blocks(tuple(b for b in state.blocks if b.log == log), max(FEWEST, 128 // len(contrasts.logs)))
        ends = np.array([group[-1].stop for group in blocks])
        step = max(1, sum(len(rows.t) for rows in places[log]) // MOST_ROWS)
        rank = contrasts.inverse.shape[1]
        width = rank + 3 + gravity.basis.shape[1]
        parts = [(np.zeros((width, width)), np.zeros(width)) for _ in blocks]
        squares = 0.0
        for rows in places[log]:
            E = gravity.columns_of_log(rows.q[::step], base_values)
            group = np.minimum(np.searchsorted(ends, rows.t[::step]), len(blocks) - 1)
            for c, channel in enumerate(equation.channels):
                own, place = channel.rows_in_wide(rows.wide)[::step], unknowns.place[log, channel.columns]
                used = channel.are_rows_settled(rows.settled)[::step] & channel.are_rows_settled(rows.good)[::step]
                R = own[:, :-1][:, place >= 0]
                A = np.hstack([R @ contrasts.inverse[place[place >= 0]], E[:, c]]) / solution.noise[c]
                e = (own[:, -1] - R @ solution.values[place[place >= 0]]) / solution.noise[c]
                for k in set(group[used].tolist()):
                    inside = used & (group == k)
                    parts[k][0][...] += A[inside].T @ A[inside]
                    parts[k][1][...] += A[inside].T @ e[inside]
                squares += float(e[used] @ e[used])
        parts = [part for part in parts if part[0].any()]
        if len(parts) < FEWEST:
            return None
        gram, rhs = np.sum([gram for gram, _ in parts], axis=0), np.sum([rhs for _, rhs in parts], axis=0)
        shares.append(LogShare(gram, rhs, squares, _scores_about_own_fit(gram, rhs, parts)))
    return LogContrasts(contrasts.logs, tuple(shares), contrasts.inverse, contrasts.shared)


def add_variance_between_logs(
    state: State,
    unknowns: Unknowns,
    solution: Solution,
    deviations: Jackknife | None,
    *,
    by_batch: bool,
    groups: list[list[int]],
    derived: bool,
    noise_corrected: bool,
) -> tuple[Jackknife | None, LogContrasts | None]:
    """Jackknife with the scatter between logs, and contrasts of each log with all others.

    by_batch: weighted least squares tells the scatter, as the solution comes from another estimator. groups: of logs
    that show the same motion and count as one, as long as there are others.
    """
    batch, within = solution, deviations
    if by_batch and state.logs > 1:
        batch = solve(unknowns, total_factors(state.blocks))
        within = jackknife(unknowns, batch, state.blocks, derived=derived, noise_corrected=noise_corrected)
    contrasts = contrast_logs(unknowns, batch, state.blocks, derived=derived, noise_corrected=noise_corrected)
    if contrasts is None or deviations is None or within is None:
        return deviations, contrasts
    growth = sigma_growth_by_logs(within, unknowns.names, contrasts.by_groups(groups))
    return replace(deviations, covariance=deviations.covariance * np.outer(growth, growth), growth=growth), contrasts


def describe_agreement(agreement: Agreement | None) -> tuple[Message, ...]:
    """Note on how far the logs agree, where there is nothing to warn of."""
    if agreement is None or agreement.differences:
        return ()
    if agreement.p >= LEVEL:
        return (Message("logs_agree", "the logs agree (p = {p:.2g})", p=agreement.p),)
    return (Message(
        "logs_differ_slightly", "the logs differ more than by chance (p = {p:.1g}), but neither payload nor friction "
        "nor gravity explains {percent:.0f} % of the residual: what the model lacks depends on the motion, and the "
        "intervals include that", p=agreement.p, percent=100.0 * MATERIAL,
    ),)  # fmt: skip


def describe_differences(state: State, agreement: Agreement | None) -> tuple[Message, ...]:
    """Warnings on logs in which the robot differs."""
    warnings = []
    for found in () if agreement is None else agreement.differences:
        how, remedy = CHANGED[found.kind]
        logs = [log.log for log in state.findings]
        others = [name for k, name in enumerate(logs) if k != found.log]
        g, now = np.array(found.gravity or (0.0, 0.0, 1.0)), np.array(state.equation.robot.gravity)
        cosine = float(g @ now) / max(float(np.linalg.norm(g) * np.linalg.norm(now)), 1e-300)
        facts = {
            "friction_per_log": Option("friction_per_log", True), "offsets_per_log": Option("offsets_per_log", True),
            "degrees": float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))),
            "option": Option("gravity", [float(f"{x:.3g}") for x in found.gravity]),
        }  # fmt: skip
        warnings.append(Message(
            "logs_disagree", "{log} differs from {others:3} " + how + ": that explains {percent:.0f} % of the residual "
            "(clearest in {parameters:5}; chance: p = {p:.1g})" if found.parameters and found.kind != "gravity" else
            "{log} differs from {others:3} " + how + ": that explains {percent:.0f} % of the residual "
            "(chance: p = {p:.1g})", remedy, log=logs[found.log], others=others, kind=found.kind,
            parameters=list(found.parameters), percent=100.0 * found.gain, p=found.p, **facts,
        ))  # fmt: skip
    return tuple(warnings)


def possible_changes(state: State, unknowns: Unknowns, solution: Solution) -> dict[str, Array]:
    """Directions (rank, m) of the whitened unknowns along which a log may differ: payload, friction, offsets."""
    equation, values = state.equation, solution.values
    shared = np.array([name.log is None for name in unknowns.names])
    offsets = np.array([name.symbol == "Fo" for name in unknowns.names]) & shared
    changes = {"offsets": np.eye(len(unknowns))[:, offsets]}
    friction = []
    for joint in equation.robot.joint_names:
        own = [name.kind == "friction" and name.joint == joint and name.symbol[0] == "F" for name in unknowns.names]
        grows = np.array([name.symbol in VISCOUS for name in unknowns.names])
        for part in (grows, ~grows & ~offsets, offsets):
            friction.append(np.where(np.array(own) & part & shared, values, 0.0))
    changes["friction"] = np.array([x for x in friction if x.any()]).reshape(-1, len(unknowns)).T
    links = equation.robot.links
    ends = [k for k, link in enumerate(links) if link.kind != "floating" and k not in {some.parent for some in links}]
    if equation.unknown is None and len(ends) == 1:
        standard = equation.base.robot.parameter_names
        first = standard.index(equation.base.robot.links[ends[0]].parameter(SYMBOLS[0]))
        place = unknowns.place[0, : equation.base_column_count]
        changes["payload"] = np.zeros((len(unknowns), 10))
        changes["payload"][place[place >= 0]] = equation.base.matrix[place >= 0, first : first + 10]
    to_white = solution.R @ np.linalg.pinv(solution.free)
    return {kind: to_white @ D for kind, D in changes.items()}
