"""Several logs: the variance between them, and whether they are of the same robot.

What the model lacks follows the motion, so that logs of other motions give other values: their scatter is part of
the uncertainty, and blocks of one log do not show it. And a log may be of another robot: with a payload, warmer, or
mounted otherwise. Both are seen in the shifts of the values when a whole log is left out. In whitened unknowns the
Gram matrices G of all logs add up to the identity, and the shift is -(I - G)^-1 u, u = Z'e of the log's rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

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
    group_pieces,
    jackknife,
    jackknife_from_shifts,
    shift_without_group,
)
from dynid.estimation.regression.unknowns import Unknowns
from dynid.estimation.solve.least_squares import Solution, solve
from dynid.estimation.solve.recursive import Levels
from dynid.messages import Message, Option
from dynid.robot.inertia import SYMBOLS
from dynid.robot.parameter import Parameter
from dynid.robot.transform import Array

ONE_LOG = Message(
    "one_log", "one log cannot show how much the parameters vary between recordings",
    "the intervals hold for motions like this one; add logs of other motions",
)  # fmt: skip

VISCOUS = ("Fv", "Fq", "Fa")
"""Symbols of friction that grows with velocity; the others of friction, but for offsets, are dry friction."""

CHANGED = {
    "payload": ("as a payload at the last link would", "check what the robot carried; `identify_payload` measures it"),
    "friction": (
        "as friction that changes with temperature would, or that the model lacks",
        "warm up alike, or identify with {friction_per_log}",
    ),
    "gravity": (
        "in what gravity acts on, as another mounting would",
        "check the mounting and gravity's direction of each log; {offsets_per_log} where torque sensors drift",
    ),
    "parameters": ("in its parameters", "identify the logs one by one and compare"),
}
"""How a log differs, and what to do, by the kind of the difference."""

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
            group_normal_equations(unknowns, solution, inverse, pieces)
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


def add_variance_between_logs(
    state: State,
    unknowns: Unknowns,
    solution: Solution,
    deviations: Jackknife | None,
    levels: Levels | None,
    *,
    derived: bool,
    pulled: bool,
) -> tuple[Jackknife | None, LogContrasts | None]:
    """Deviations with the scatter of logs, and each log against all others; those of a recursion grow as batch's do."""
    batch, within = solution, deviations
    if levels is not None and state.logs > 1:
        batch = solve(unknowns, total_factors(state.blocks))
        within = jackknife(unknowns, batch, state.blocks, derived=derived, pulled=pulled)
    contrasts = contrast_logs(unknowns, batch, state.blocks, derived=derived, pulled=pulled)
    if contrasts is None or deviations is None or within is None:
        return deviations, contrasts
    growth = growth_by_logs(within, unknowns.names, contrasts)
    return replace(deviations, covariance=deviations.covariance * np.outer(growth, growth), growth=growth), contrasts


def describe_agreement(agreement: Agreement | None) -> tuple[Message, ...]:
    """Note how far the logs agree, where there is nothing to warn of."""
    if agreement is None or agreement.differences:
        return ()
    if agreement.p >= LEVEL:
        return (Message("logs_agree", "the logs agree (p = {p:.2g})", p=agreement.p),)
    return (Message(
        "logs_differ_slightly", "the logs differ more than by chance (p = {p:.1g}), but neither payload nor friction "
        "nor gravity explains {percent:.0f} % of the residual: what the model lacks follows the motion, and the "
        "intervals hold that", p=agreement.p, percent=100.0 * MATERIAL,
    ),)  # fmt: skip


def describe_differences(state: State, agreement: Agreement | None) -> tuple[Message, ...]:
    """Warn of logs that are not of the same robot."""
    warnings = []
    for found in () if agreement is None else agreement.differences:
        how, remedy = CHANGED[found.kind]
        logs = [log.log for log in state.findings]
        others = [name for k, name in enumerate(logs) if k != found.log]
        warnings.append(Message(
            "logs_disagree", "{log} differs from {others:3} " + how + ": that explains {percent:.0f} % of the residual "
            "(clearest in {parameters:5}; chance: p = {p:.1g})" if found.parameters else
            "{log} differs from {others:3} " + how + ": that explains {percent:.0f} % of the residual "
            "(chance: p = {p:.1g})", remedy, log=logs[found.log], others=others, kind=found.kind,
            parameters=list(found.parameters), percent=100.0 * found.gain, p=found.p,
            friction_per_log=Option("friction_per_log", True), offsets_per_log=Option("offsets_per_log", True),
        ))  # fmt: skip
    return tuple(warnings)


def possible_changes(state: State, unknowns: Unknowns, solution: Solution) -> dict[str, Array]:
    """Directions (rank, m) of the whitened unknowns along which a log may differ: payload, friction, gravity."""
    equation, values = state.equation, solution.values
    shared = np.array([name.log is None for name in unknowns.names])
    gravity = np.array([name.unit in ("kg", "kg m") or name.symbol == "Fo" for name in unknowns.names]) & shared
    changes = {"gravity": np.eye(len(unknowns))[:, gravity]}
    friction = []
    for joint in equation.robot.joint_names:
        own = [name.kind == "friction" and name.joint == joint and name.symbol[0] == "F" for name in unknowns.names]
        grows = np.array([name.symbol in VISCOUS for name in unknowns.names])
        for part in (grows, ~grows & ~gravity):
            friction.append(np.where(np.array(own) & part & shared, values, 0.0))
    changes["friction"] = np.array([x for x in friction if x.any()]).reshape(-1, len(unknowns)).T
    links = equation.robot.links
    ends = [k for k, link in enumerate(links) if link.kind != "floating" and k not in {some.parent for some in links}]
    if equation.unknown is None and len(ends) == 1:
        standard = equation.base.robot.parameter_names
        first = standard.index(equation.base.robot.links[ends[0]].parameter(SYMBOLS[0]))
        place = unknowns.place[0, : equation.base_count]
        changes["payload"] = np.zeros((len(unknowns), 10))
        changes["payload"][place[place >= 0]] = equation.base.matrix[place >= 0, first : first + 10]
    to_white = solution.R @ np.linalg.pinv(solution.free)
    return {kind: to_white @ D for kind, D in changes.items()}
