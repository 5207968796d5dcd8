"""What changed between periods: hypotheses tested against a robot's baseline, calibrated by the fleet, attributed.

A period is compared with the baseline of its robot: rigid parameters theta_0 from the first periods, with friction of
every recording apart. Each hypothesis adds few directions T to what the baseline predicts,

    y - W theta_0 = T e + F phi + noise,

F phi being friction that is free per recording. With M the projection off F, e = (T'MT)^-1 T'M (y - W theta_0); its
covariance comes from leaving out blocks of time, of the period and of the baseline apart (residuals are coloured: the
textbook covariance claims far too much). Hotelling's T^2 = e'V^-1 e is then nu k / (nu - k + 1) times an
F(k, nu - k + 1), nu by Nel & Van der Merwe (1986). Directions of friction are a share of the baseline's own friction
of one joint.

What a fleet adds: how much T^2 of untouched periods exceeds its distribution (what the model lacks, friction that
follows temperature) is seen in the baselines of all robots, each period against the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from dynid.dynamics.friction import STOP
from dynid.errors import DynidError
from dynid.estimation.accumulate.factor import Block
from dynid.estimation.accumulate.state import State
from dynid.estimation.inference.jackknife import jackknife_from_shifts
from dynid.estimation.regression.equation import Equation, Indices
from dynid.payload.two_runs import find_carrier, payload_to_base_matrix
from dynid.robot.inertia import SYMBOLS
from dynid.robot.transform import Array

DRY = ("coulomb", "tanh", "stribeck")
"""Friction blocks that are dry friction, beside the stop operators."""

VISCOUS = ("viscous", "quadratic")
POSITION = ("spring", "sine")

PAYLOAD = "payload"
RIGID = (PAYLOAD, "gain")
"""Hypotheses about rigid parameters."""

PAYLOAD_SIZES = np.array([0.01] * 6 + [0.1] * 3 + [1.0])
"""A payload of 1 kg, 0.1 m away: sizes of its ten parameters, to tell which of them the motion shows at all."""

MOST_GROUPS = 64
WEAK = 1e-10


@dataclass(frozen=True, slots=True)
class Effect:
    """One hypothesis on one period: kind (payload, coulomb, viscous, gain), its joint, size and its variance.

    size: kg, or a share of the baseline; statistic: T^2 of `rank` directions, with `freedom` degrees of freedom;
    unexplained: squares (in units of the noise) that free rigid parameters would explain beyond this hypothesis.
    """

    kind: str
    joint: str
    size: float
    variance: float
    statistic: float
    rank: int
    freedom: float
    unexplained: float


@dataclass(frozen=True, eq=False)
class Prior:
    """What is known of the parameters of an equation before a robot's data: mean and precision (columns, columns)."""

    mean: Array
    precision: Array

    @staticmethod
    def weak(equation: Equation, values: Array) -> Prior:
        """Prior about values, each as uncertain as three times the largest of its unit."""
        units = np.array(equation.units)
        size = np.array([np.abs(values[units == unit]).max() for unit in equation.units])
        size = 3.0 * np.where(size > 0.0, size, 1.0)
        return Prior(values, np.diag(1.0 / size**2))


@dataclass(frozen=True, eq=False)
class Columns:
    """Where the columns of an equation stand in the normal equations: rigid, friction, one per gain, measured last."""

    equation: Equation
    payload: Array
    dry: tuple[Indices, ...]
    viscous: tuple[Indices, ...]
    joints: tuple[str, ...]

    @staticmethod
    def of_equation(equation: Equation) -> Columns:
        """Columns of an equation of joint torques."""
        robot, blocks, n = equation.robot, equation.columns_by_friction_block, equation.robot.n
        payload = np.zeros((equation.base.count, 0))
        with suppress(DynidError):  # several ends: no payload is looked for
            payload = payload_to_base_matrix(equation.base, find_carrier(robot, None))
        dry = [c for name, c in blocks.items() if name in DRY or STOP.fullmatch(name)]
        viscous = [c for name, c in blocks.items() if name in VISCOUS]
        joints = tuple(robot.joint_names[c.joint] for c in equation.torque_channels)
        places = [c.joint for c in equation.torque_channels]
        assert all(len(c) == n for c in (*dry, *viscous))
        of_dry, of_viscous = (
            tuple(np.array([c[j] for c in some], dtype=np.int64) for j in places) for some in (dry, viscous)
        )
        return Columns(equation, payload, of_dry, of_viscous, joints)

    @property
    def rigid(self) -> int:
        """Number of rigid columns, which come first."""
        return self.equation.rigid_column_count

    @property
    def common(self) -> Indices:
        """Columns that all recordings of a robot share: rigid ones and torques of a position."""
        of_position = [c for name, c in self.equation.columns_by_friction_block.items() if name.startswith(POSITION)]
        return np.concatenate([np.arange(self.rigid), *of_position])

    @property
    def count(self) -> int:
        """Number of columns of the equation."""
        return len(self.equation.names)

    @property
    def size(self) -> int:
        """Number of columns of the normal equations."""
        return self.count + len(self.joints) + 1


def _groups_of_logs(blocks: tuple[Block, ...]) -> list[list[tuple[Block, ...]]]:
    """Blocks of every log in groups of neighbours, at most MOST_GROUPS in all."""
    logs = sorted({block.log for block in blocks})
    of_log = [tuple(block for block in blocks if block.log == log) for log in logs]
    every = max(1, int(np.ceil(len(blocks) / MOST_GROUPS)))
    return [[own[k : k + every] for k in range(0, len(own), every)] for own in of_log]


Normal = list[Array]
"""Normal equations (groups, channels, columns + 1, columns + 1) of every log of a period, measured torques last."""


def normal_equations(columns: Columns, noise: Array, state: State) -> Normal:
    """Normal equations of every log and channel, by groups of blocks; noise (channels,): of the rows, as weights."""
    out = []
    for groups in _groups_of_logs(state.blocks):
        grams = np.zeros((len(groups), len(noise), columns.count + 1, columns.count + 1))
        for g, group in enumerate(groups):
            for block in group:
                for c, (channel, factor) in enumerate(zip(columns.equation.channels, block.factors, strict=True)):
                    R = factor.R / noise[c]
                    place = np.append(channel.columns, columns.count)
                    grams[g, c][place[:, None], place] += R.T @ R
        out.append(grams)
    return out


@dataclass(frozen=True, eq=False)
class Baseline:
    """A robot as it was: values of all columns, friction being the mean over its recordings.

    shifts (groups, columns): of the values when a group of blocks of time is left out.
    """

    values: Array
    shifts: Array


def fit_baseline(columns: Columns, periods: Sequence[Normal], prior: Prior) -> Baseline:
    """Fit the baseline of one robot: rigid parameters of all recordings, friction of each apart."""
    logs = [grams.sum(axis=1) for period in periods for grams in period]
    count, last = columns.count, columns.count
    pull = np.zeros((count + 1, count + 1))
    pull[:count, :count] = prior.precision
    pull[:count, last] = pull[last, :count] = prior.precision @ prior.mean
    scale = np.ones(count + 1)
    total = np.sum([grams.sum(axis=0) for grams in logs], axis=0)
    scale[:count] = 1.0 / np.sqrt(np.diag(total + pull)[:count])
    outer = np.outer(scale, scale)
    pull = pull * outer / len(logs)
    common, own = columns.common, np.setdiff1d(np.arange(count), columns.common)
    right = np.append(common, last)

    def eliminate(M: Array) -> tuple[Array, Array]:
        """Friction of one log as a function of the common columns, and the normal equations without it."""
        X = np.linalg.solve(M[..., own[:, None], own], M[..., own[:, None], right])
        return np.asarray(X), np.asarray(M[..., right[:, None], right] - M[..., right[:, None], own] @ X)

    def solve_common(S: Array) -> Array:
        """Common values, from normal equations with the right side last."""
        return np.asarray(np.linalg.solve(S[..., :-1, :-1], S[..., :-1, -1:])[..., 0])

    def assemble(theta: Array, phi: Array) -> Array:
        """Values of all columns from the common ones and the mean friction."""
        values = np.zeros((*theta.shape[:-1], count))
        values[..., common], values[..., own] = theta, phi
        return values * scale[:count]

    whole = [eliminate(grams.sum(axis=0) * outer + pull) for grams in logs]
    S = np.sum([s for _, s in whole], axis=0)
    theta = solve_common(S)
    X = np.mean([x for x, _ in whole], axis=0)
    values = assemble(theta, X[:, -1] - X[:, :-1] @ theta)
    shifts = []
    for grams, (X_l, S_l) in zip(logs, whole, strict=True):
        X_g, S_g = eliminate((grams.sum(axis=0) - grams) * outer + pull)
        theta_g = solve_common(S - S_l + S_g)
        mean = X + (X_g - X_l) / len(logs)
        phi = mean[..., -1] - (mean[..., :-1] @ theta_g[..., None])[..., 0]
        shifts.append(assemble(theta_g, phi) - values)
    return Baseline(values, np.concatenate(shifts))


def with_predicted_torques(columns: Columns, baseline: Baseline, grams: Array) -> Array:
    """Normal equations (groups, size, size) of one log: columns, rigid torque predicted for each channel, measured."""
    G, channels, _, _ = grams.shape
    count, size = columns.count, columns.size
    rigid = slice(0, columns.rigid)
    theta = baseline.values[rigid]
    out = np.zeros((G, size, size))
    place = np.append(np.arange(count), size - 1)
    out[:, place[:, None], place] = grams.sum(axis=1)
    for c in range(channels):
        side = grams[:, c, :, rigid] @ theta
        out[:, place, count + c] = out[:, count + c, place] = side
        out[:, count + c, count + c] = side[:, rigid] @ theta
    return out


@dataclass(frozen=True, eq=False)
class _Reduced:
    """Normal equations of some directions P (size, k), free friction projected off: of all data, and without a group.

    total (k, k); without (groups, k, k).
    """

    total: Array
    without: Array


def _project(M: Array, P: Array, nuisance: Indices) -> Array:
    """P'MP - P'M_n (M_nn)^-1 M_n'P, for one or many M (..., size, size)."""
    MP = M @ P
    own = np.swapaxes(MP, -1, -2) @ P
    if not len(nuisance):
        return np.asarray(own)
    N = M[..., nuisance[:, None], nuisance]
    scale = np.sqrt(np.maximum(np.diagonal(N, axis1=-2, axis2=-1), 1e-300))
    scaled = N / (scale[..., :, None] * scale[..., None, :]) + WEAK * np.eye(len(nuisance))
    B = MP[..., nuisance, :] / scale[..., :, None]
    return np.asarray(own - np.swapaxes(B, -1, -2) @ np.linalg.solve(scaled, B))


def _reduce(logs: list[Array], P: Array, nuisance: Indices, first: int) -> _Reduced:
    """Directions with free friction of every log projected off; without a group only the first of them."""
    totals = [_project(grams.sum(axis=0), P, nuisance) for grams in logs]
    total = np.sum(totals, axis=0)
    parts = []
    for grams, own in zip(logs, totals, strict=True):
        left = grams.sum(axis=0)[None] - grams
        rest = (total - own)[None, :first, :first]
        parts.append(rest + (_project(left, P[:, :first], nuisance) if len(grams) > 1 else 0.0))
    return _Reduced(total, np.concatenate(parts))


@dataclass(frozen=True, eq=False)
class _Found:
    """Estimate e (k,) and its covariances: by the period's blocks and by the baseline's, with their groups.

    groups: as many equal ones as those of the period are worth.
    """

    e: Array
    own: Array
    base: Array
    groups: float
    base_groups: int
    explained: float

    @property
    def covariance(self) -> Array:
        """Covariance of the estimate."""
        return self.own + self.base

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the covariance (Nel & Van der Merwe 1986)."""
        k = len(self.e)
        inverse = np.linalg.pinv(self.covariance)
        parts = 0.0
        for S, groups in ((self.own, self.groups), (self.base, self.base_groups)):
            U = S @ inverse
            parts += (np.trace(U @ U) + np.trace(U) ** 2) / max(groups - 1, 1)
        return float(np.clip((k + k**2) / max(parts, 1e-12), 1.0, max(self.groups + self.base_groups - 2, 1)))

    @property
    def statistic(self) -> float:
        """Hotelling's T^2."""
        return float(self.e @ np.linalg.pinv(self.covariance, hermitian=True) @ self.e)


def _estimate(reduced: _Reduced, k: slice, right: int, sensitivity: slice, baseline: Array) -> _Found:
    """Estimate of directions k of a reduction; baseline (groups, columns): shifts of what `sensitivity` predicts."""
    S, b = reduced.total[k, k], reduced.total[k, right]
    scale = 1.0 / np.sqrt(np.maximum(np.diag(S), 1e-300))
    A = S * np.outer(scale, scale) + WEAK * np.eye(len(S))
    e = scale * np.linalg.solve(A, scale * b)
    S_g = reduced.without[:, k, k] * np.outer(scale, scale) + WEAK * np.eye(len(S))
    e_g = scale * np.linalg.solve(S_g, (scale * reduced.without[:, k, right])[..., None])[..., 0]
    shifts = e_g - e
    root = np.linalg.cholesky(A)
    steps = (shifts / scale) @ root
    own = jackknife_from_shifts(shifts, steps, 0).covariance
    shares = 1.0 - np.trace(np.linalg.solve(A, S_g), axis1=-2, axis2=-1) / len(S)
    H = scale[:, None] * np.linalg.solve(A, scale[:, None] * reduced.total[k, sensitivity])
    moved = baseline @ H.T
    moved = moved - moved.mean(axis=0) if len(moved) else moved
    G = max(len(moved), 2)
    return _Found(e, own, moved.T @ moved * (G - 1.0) / G, _effective(shares), max(len(moved), 2), float(b @ e))


def _effective(shares: Array) -> float:
    """Number of equal groups whose variance is as uncertain as that of groups with these shares of the information.

    With independent groups of equal noise (Bell & McCaffrey 2002): few that tell most count as few.
    """
    known = np.maximum(shares, 0.0)
    return float(max(known.sum() ** 2 / max((known**2).sum(), 1e-300), 2.0))


def find_effects(columns: Columns, baseline: Baseline, period: Normal) -> list[Effect]:
    """Test every hypothesis on one period of a robot against its baseline."""
    logs = [with_predicted_torques(columns, baseline, grams) for grams in period]
    rigid, count, size, n = columns.rigid, columns.count, columns.size, len(columns.joints)
    eye, x0 = np.eye(size), baseline.values
    friction = np.arange(rigid, count)
    total = np.sum([grams.sum(axis=0) for grams in logs], axis=0)
    basis = _payload_basis(columns, _project(total, eye[:, :rigid], friction))
    k = basis.shape[1]
    spread = np.zeros((size, k))
    spread[: len(columns.payload)] = columns.payload @ basis
    response = eye[:, -1].copy()
    response[:rigid] -= x0[:rigid]
    # directions: payload, gains, response, then the rigid columns
    P = np.column_stack([spread, eye[:, count : count + n], response, eye[:, :rigid]])
    found = _reduce(logs, P, friction, k + n + 1)
    right, sens = k + n, slice(k + n + 1, None)
    S, b = found.total[sens, sens], found.total[sens, right]
    d = 1.0 / np.sqrt(np.maximum(np.diag(S), 1e-300))
    most = float((d * b) @ np.linalg.solve(S * np.outer(d, d) + 1e-9 * np.eye(len(S)), d * b))
    effects = []
    shifts = baseline.shifts[:, :rigid]
    if k:
        own = _estimate(found, slice(0, k), right, sens, shifts)
        mass = basis[SYMBOLS.index("M")]
        effects.append(Effect(
            "payload", "", float(mass @ own.e), float(mass @ own.covariance @ mass), own.statistic, k, own.freedom,
            max(0.0, most - own.explained),
        ))  # fmt: skip
    for j, joint in enumerate(columns.joints):
        own = _estimate(found, slice(k + j, k + j + 1), right, sens, shifts)
        effects.append(_single("gain", joint, own, max(0.0, most - own.explained)))
    free = [_with_directions(grams, spread) for grams in logs]  # the payload may have changed, too
    base = baseline.shifts[:, : columns.count]
    for kind, groups in (("coulomb", columns.dry), ("viscous", columns.viscous)):
        for joint, own_columns in zip(columns.joints, groups, strict=True):
            level = x0[own_columns]
            if not len(own_columns) or not np.abs(level).max() > 0.0:
                continue
            wide = np.zeros((size + k, 2 + rigid + len(own_columns)))
            wide[own_columns, 0] = level
            wide[:size, 1] = response
            wide[own_columns, 1] -= level
            wide[:rigid, 2 : 2 + rigid] = np.eye(rigid)
            wide[own_columns, 2 + rigid :] = np.eye(len(own_columns))
            reduced = _reduce(free, wide, np.concatenate([np.setdiff1d(friction, own_columns), size + np.arange(k)]), 2)
            moved = base[:, np.concatenate([np.arange(rigid), own_columns])]
            effects.append(_single(kind, joint, _estimate(reduced, slice(0, 1), 1, slice(2, None), moved), most))
    return effects


def _single(kind: str, joint: str, found: _Found, unexplained: float) -> Effect:
    """Effect of a hypothesis of one direction."""
    return Effect(
        kind, joint, float(found.e[0]), float(found.covariance[0, 0]), found.statistic, 1, found.freedom, unexplained
    )


def _with_directions(grams: Array, D: Array) -> Array:
    """Normal equations (groups, size, size) with further columns D (size, k) at the end."""
    side = grams @ D
    return np.concatenate([
        np.concatenate([grams, side], axis=2),
        np.concatenate([np.swapaxes(side, 1, 2), np.swapaxes(side, 1, 2) @ D], axis=2),
    ], axis=1)  # fmt: skip


def _payload_basis(columns: Columns, S: Array) -> Array:
    """Payload parameters (10, k) in directions that the motion shows: a payload of 1 kg there exceeds the noise."""
    K = columns.payload * PAYLOAD_SIZES if columns.payload.shape[1] else columns.payload
    if not K.shape[1]:
        return np.zeros((10, 0))
    w, V = np.linalg.eigh(K.T @ S[: len(K), : len(K)] @ K)
    keep = w > 1.0
    return np.asarray(PAYLOAD_SIZES[:, None] * V[:, keep])


# What the fleet tells: how far untouched periods are from the distribution, and which periods differ.


HEAVY, HEAVIER, NARROWER = 20.0, 3.0, 1.6
"""Degrees of freedom of the distribution by which scatter between periods is fitted, by baseline periods and by all.

Among all of them some have changed: these must not count. For normal scatter such a fit is narrower by that factor.
"""

TAIL, BEYOND = 0.98, 10.0
"""Quantile at which the tail of all statistics of one kind is matched, as far as that many are beyond it."""

FEWEST_CONTRASTS = 16
"""Baseline comparisons from which on a fleet tells by itself how its periods scatter."""

FEWEST_ROBOTS = 8
"""Robots from which on most periods may be taken as untouched, where there are too few baseline comparisons."""

USUAL_SCATTER = {"viscous": 0.1, "coulomb": 0.02, "gain": 0.0}
USUAL_SPREAD = 0.5
ASSUMED = 6.0
"""Scatter of friction between untouched periods, as a share, and of the logarithm of what is not explained, where few
comparisons tell; it counts as much as that many of them.
"""


@dataclass(frozen=True, slots=True)
class Contrast:
    """Effects of one period of a robot against `baseline` periods; own: whether it is a baseline period itself.

    temperature: mean of the period minus that of the baseline, in K; None where it was not recorded; rigid: number of
    rigid parameters.
    """

    robot: str
    period: str
    effects: tuple[Effect, ...]
    baseline: int
    own: bool
    temperature: float | None = None
    rigid: int = 1

    @property
    def unexplained(self) -> float:
        """Squares, in units of the noise, that free rigid parameters would explain."""
        return max((effect.unexplained for effect in self.effects), default=0.0)


@dataclass(frozen=True, eq=False)
class Calibration:
    """How untouched periods of a fleet scatter, beyond what the blocks of one period tell.

    scatter: by kind and joint, (g, tau^2): the variance of a size is g times its own plus tau^2 for every period; tail:
    by kind, factor of T^2; freedom: degrees of freedom of both; unexplained: median over the fleet, and the standard
    deviation of its logarithm; slopes: share of friction per K, by kind and joint, where temperature was recorded and
    friction follows it; is_assumed: few comparisons tell, scatter is mostly what is usual.
    """

    scatter: dict[tuple[str, str], tuple[float, float]]
    tail: dict[str, float]
    unexplained: float
    unexplained_spread: float
    freedom: int
    slopes: dict[tuple[str, str], float]
    is_assumed: bool = False

    @staticmethod
    def of_fleet(contrasts: Sequence[Contrast]) -> Calibration:
        """Calibrate by baseline periods, each against the others of its robot.

        Where these are few, by all periods of many robots, or, for few robots, by what is usual.
        """
        own = [c for c in contrasts if c.own]
        is_baseline = len(own) >= FEWEST_CONTRASTS
        robots = len({c.robot for c in contrasts})
        if not is_baseline and (len(contrasts) < FEWEST_CONTRASTS or robots < FEWEST_ROBOTS):
            return Calibration._of_few(own or list(contrasts), len(own))
        used = own if is_baseline else list(contrasts)
        slopes = _temperature_slopes(used)
        used = [at_baseline_temperature(c, slopes) for c in used]
        pairs = [(effect, 1.0 + 1.0 / c.baseline) for c in used for effect in c.effects]
        left = np.log(np.maximum([c.unexplained for c in used], 1e-300))
        keys = sorted({(effect.kind, effect.joint) for effect, _ in pairs})
        scatter = {
            key: _fit_scatter([(e, c) for e, c in pairs if (e.kind, e.joint) == key], robust=not is_baseline)
            for key in keys
            if key[0] != PAYLOAD
        }
        tail = {}
        for kind in sorted({kind for kind, _ in keys}):
            some = [(e, c) for e, c in pairs if e.kind == kind]
            level = float(np.clip(1.0 - BEYOND / len(some), 0.8, TAIL)) if is_baseline else 0.5
            ratio = np.array([_statistic(e, c, scatter) for e, c in some]) / _quantiles([e for e, _ in some], level)
            tail[kind] = float(max(1.0, np.quantile(ratio, level)))
        middle = np.quantile(left, 0.9) - np.median(left)  # the upper side: there the alarms are
        freedom = max(1, len(used) - len({c.robot for c in used}))  # periods of a robot share its baseline
        return Calibration(
            scatter, tail, float(np.exp(np.median(left))), float(middle) / 1.2816, freedom, slopes
        )  # fmt: skip

    @staticmethod
    def _of_few(contrasts: Sequence[Contrast], count: int) -> Calibration:
        """Calibrate by what is usual, and by the first `count` comparisons as far as these tell otherwise."""
        if not contrasts:
            return Calibration({}, {}, 1.0, np.inf, 1, {})
        pairs = [(effect, 1.0 + 1.0 / c.baseline) for c in contrasts[:count] for effect in c.effects]
        scatter = dict[tuple[str, str], tuple[float, float]]()
        for kind, usual in USUAL_SCATTER.items():  # joints of one robot warm together: they count as one
            excess = [(e.size**2 - e.variance) / factor for e, factor in pairs if e.kind == kind]
            seen = max(0.0, float(np.mean(excess))) if excess else 0.0
            between = (ASSUMED * usual**2 + count * seen) / (ASSUMED + count)
            joints = {e.joint for c in contrasts for e in c.effects if e.kind == kind}
            scatter |= {(kind, joint): (1.0, between) for joint in joints}
        left = np.log(np.maximum([c.unexplained for c in contrasts], 1e-300))
        middle = float(np.median(left))
        squares = float(((left[:count] - middle) ** 2).sum())
        spread = float(np.sqrt((ASSUMED * USUAL_SPREAD**2 + squares) / (ASSUMED + count)))
        freedom = max(1, int(ASSUMED) + count - len({c.robot for c in contrasts}))
        return Calibration(scatter, {}, float(np.exp(middle)), spread, freedom, {}, is_assumed=True)

    def log_p(self, effects: Sequence[Effect], baseline: int) -> Array:
        """Logarithms of the p-values of effects against so many baseline periods."""
        from scipy.stats import f

        factor = 1.0 + 1.0 / baseline
        T2 = [_statistic(e, factor, self.scatter) / self.tail.get(e.kind, 1.0) for e in effects]
        k = np.array([e.rank for e in effects])
        nu = np.maximum([self._freedom(e, factor) for e in effects], k + 0.5)
        return np.asarray(f.logsf(np.array(T2) * (nu - k + 1.0) / (nu * k), k, nu - k + 1.0))

    def _freedom(self, effect: Effect, factor: float) -> float:
        """Degrees of freedom of the variance of an effect."""
        if effect.kind in RIGID or not self.scatter:
            return effect.freedom
        g, between = self.scatter.get((effect.kind, effect.joint), (1.0, 0.0))
        own, other = g * effect.variance, factor * between
        if self.is_assumed and own + other > 0.0:  # Satterthwaite: of blocks and periods
            return (own + other) ** 2 / (own**2 / effect.freedom + other**2 / self.freedom)
        return min(effect.freedom, self.freedom)  # by how much own deviations are too small comes from periods, too

    def log_p_unexplained(self, contrast: Contrast) -> float:
        """Logarithm of the p-value of what free rigid parameters would explain, whatever it is."""
        from scipy.stats import t

        sigma = self.unexplained_spread
        if not np.isfinite(sigma) or sigma <= 0.0:
            return 0.0
        return float(t.logsf(np.log(max(contrast.unexplained, 1e-300) / self.unexplained) / sigma, self.freedom))

    def sigma(self, effect: Effect, baseline: int) -> float:
        """Standard deviation of the size of an effect, with the variance between untouched periods."""
        g, between = self.scatter.get((effect.kind, effect.joint), (1.0, 0.0))
        variance = g * effect.variance + between * (1.0 + 1.0 / baseline)
        return float(np.sqrt(variance * self.tail.get(effect.kind, 1.0)))


FOLLOWS = 4.0
"""Standard deviations of a slope from which on friction follows temperature."""


def _temperature_slopes(contrasts: Sequence[Contrast]) -> dict[tuple[str, str], float]:
    """Share of friction per K, by kind and joint: weighted least squares over the fleet, where it is sure."""
    pairs = [(e, c.temperature) for c in contrasts for e in c.effects if c.temperature is not None]
    slopes = {}
    for key in sorted({(e.kind, e.joint) for e, _ in pairs if e.kind not in RIGID}):
        some = [(e, t) for e, t in pairs if (e.kind, e.joint) == key]
        x, y = np.array([t for _, t in some]), np.array([e.size for e, _ in some])
        w = 1.0 / np.maximum([e.variance for e, _ in some], 1e-300)
        if len(some) < FEWEST_CONTRASTS or not (w * x**2).sum() > 0.0:
            continue
        slope = float((w * x * y).sum() / (w * x**2).sum())
        left = y - slope * x
        spread = float((w**2 * x**2 * left**2).sum()) / float((w * x**2).sum()) ** 2
        if slope**2 > FOLLOWS**2 * spread:
            slopes[key] = slope
    return slopes


def at_baseline_temperature(contrast: Contrast, slopes: dict[tuple[str, str], float]) -> Contrast:
    """Comparison without what of friction follows the temperature."""
    change = contrast.temperature
    if change is None or not slopes:
        return contrast
    effects = []
    for e in contrast.effects:
        size = e.size - slopes.get((e.kind, e.joint), 0.0) * change
        is_same = e.kind in RIGID or size == e.size
        effects.append(e if is_same else replace(e, size=size, statistic=size**2 / max(e.variance, 1e-300)))
    return replace(contrast, effects=tuple(effects))


def _statistic(effect: Effect, factor: float, scatter: dict[tuple[str, str], tuple[float, float]]) -> float:
    """T^2 with the variance between untouched periods; factor: of the period and of its baseline together."""
    g, between = scatter.get((effect.kind, effect.joint), (1.0, 0.0))
    if effect.rank > 1 or (g, between) == (1.0, 0.0):
        return effect.statistic
    return effect.size**2 / (g * effect.variance + factor * between)


def _quantiles(effects: Sequence[Effect], level: float) -> Array:
    """Quantiles of T^2."""
    from scipy.stats import f

    k = np.array([e.rank for e in effects])
    nu = np.maximum([e.freedom for e in effects], k + 0.5)
    return np.asarray(f.ppf(level, k, nu - k + 1.0) * nu * k / (nu - k + 1.0))


def _fit_scatter(effects: list[tuple[Effect, float]], *, robust: bool) -> tuple[float, float]:
    """Growth g >= 1 and variance tau^2 >= 0 between periods, by maximum likelihood of a Student's t.

    Data of a few periods hardly tell one from the other: the mean of both, each fitted alone, guards against either.
    """
    from scipy.optimize import minimize_scalar

    size, variance, factor = (np.array(x) for x in zip(*((e.size, e.variance, c) for e, c in effects), strict=True))
    heavy, narrower = (HEAVIER, NARROWER) if robust else (HEAVY, 1.0)
    unit = max(float(np.mean(size**2)), 1e-300)

    def cost(V: Array) -> float:
        V = V / narrower
        return float((np.log(V) + (heavy + 1.0) * np.log1p(size**2 / (heavy * V))).sum())

    most = float(np.log(max((size**2 / np.maximum(variance, 1e-300)).max(), 2.0)))
    g = float(np.exp(minimize_scalar(lambda x: cost(np.exp(x) * variance), bounds=(0.0, most), method="bounded").x))
    root = minimize_scalar(lambda x: cost(variance + factor * unit * x**2), bounds=(0.0, 3.0), method="bounded").x
    return 0.5 * (1.0 + g), 0.5 * unit * float(root) ** 2


SURE = 0.01
"""Level, over the number of hypotheses, from which on a hypothesis may explain a period."""

PENALTY = 2.0
"""Squares that every direction of a hypothesis costs, in units of what chance gives it."""

UNEXPLAINED = 4.0
"""Squares left to free rigid parameters, over the fleet's median, from which on a hypothesis does not explain."""

SHARE = 0.3
"""Share of what free rigid parameters would explain that a hypothesis may leave."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one period shows: the hypothesis that explains it best.

    Attributes
    ----------
    robot : str
        Name of the robot.
    period : str
        Name of the period.
    kind : str
        payload, coulomb, viscous, gain, or not explained.
    joint : str
        Joint, if it is about one.
    size : float
        kg of a payload, else a share of the baseline.
    sigma : float
        Its standard deviation.
    log_p : float
        Logarithm of the p-value of the period, all hypotheses together.
    """

    robot: str
    period: str
    kind: str
    joint: str
    size: float
    sigma: float
    log_p: float

    @property
    def p(self) -> float:
        """The p-value."""
        return float(np.exp(self.log_p))


def attribute(contrast: Contrast, calibration: Calibration) -> Finding:
    """The hypothesis that explains a period best, and the p-value of the period.

    Payload and gains are tested with free friction, which they do not feel: where they are significant, they explain
    first, by what they leave to free rigid parameters and how many directions they take for it.
    """
    contrast = at_baseline_temperature(contrast, calibration.slopes)
    logs = calibration.log_p(contrast.effects, contrast.baseline).tolist()
    pairs = list(zip(logs, contrast.effects, strict=True))
    general, most = calibration.log_p_unexplained(contrast), contrast.unexplained
    count = len(pairs) + 1
    least = min(general, *(log_p for log_p, _ in pairs))
    of_period = least + np.log(count)
    if least > -20.0:  # Sidak
        of_period = float(np.log(-np.expm1(count * np.log1p(-np.exp(least)))))
    rigid = [e for log_p, e in pairs if e.kind in RIGID and log_p < np.log(SURE / count)]
    share = calibration.unexplained / contrast.rigid
    best = min(pairs, key=lambda pair: pair[0])[1]
    if rigid:
        best = min(rigid, key=lambda e: e.unexplained + PENALTY * share * e.rank)
    left = best.unexplained if best.kind in RIGID else most
    none = general < np.log(SURE / count) and min(pairs, key=lambda pair: pair[0])[0] > np.log(SURE / count)
    is_explained = not none and left <= max(
        UNEXPLAINED * calibration.unexplained, SHARE * most if best.kind in RIGID else 0.0
    )
    name, log_p = (contrast.robot, contrast.period), min(0.0, float(of_period))
    if not is_explained:
        return Finding(*name, "not explained", "", np.nan, np.nan, log_p)
    return Finding(*name, best.kind, best.joint, best.size, calibration.sigma(best, contrast.baseline), log_p)
