"""Logs with outliers and collisions: a robust reference from a first pass, and outliers of the raw torques against it.

Gross errors are found where they are still single samples: before any filter. A first pass keeps stretches of two
seconds, spread over the logs, in bounded memory: rows of a reference model (all base columns, friction of REFERENCE)
and the raw torques. Its parameters are Huber's M-estimate on raw samples, from which a hard rejection beyond 4
deviations goes on; no friction block that the gate chooses takes part, so nothing feeds back. The second pass is that
of estimator="wls", for every model and friction, on torques without the outliers against the reference. Glitches of
positions are interpolated here too, not in `logs`: only this estimator corrects samples, in the same first pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.ndimage import median_filter, minimum_filter1d

from dynid.errors import LogError
from dynid.estimation.regression.equation import Equation, Unknowns
from dynid.estimation.regression.rows import FrictionState, prepare_row_tasks
from dynid.logs.filtering import PreparedWindow, Treatment, Window
from dynid.logs.findings import Findings
from dynid.logs.log import Log
from dynid.logs.survey import Survey
from dynid.messages import Message, Option
from dynid.robot.transform import Array

# Raw torques against a reference: wrong samples are replaced, stretches in which the robot touches something are seen.
#
# The residual e of a raw sample against the reference holds noise, what the reference lacks, and
# trouble. A sample is bad where |e| is beyond 6 of its robust deviations, where e is beyond 3 from its running median
# m, or where |m| is beyond 5 of its own. What a reference lacks is slow, so e - m is measured by the scale of m at
# least; it lacks dry friction most, so near reversals scales are their own. Medians reach half a period of the cut-off
# to each side. In the place of a bad sample comes the reference plus the mean of the good residuals around, so that
# all that follows (filters, balances) sees no jump. Rows of which less than half of the samples are good are left out.


GROSS, FAST, LASTING = 6.0, 3.0, 5.0
"""Robust deviations of e, e - m and m beyond which a sample is bad."""

NORMAL = 1.4826
"""Standard deviation over median of |x|, where x is normal."""

FLOOR = 1e-3
"""Scales are at least this share of a joint's usual torque: what is smaller is not an outlier."""

HALF = 0.5
"""Share of good samples below which a row is left out."""

GLITCH = 3
"""Samples on each side among which a position is compared with its median."""

NEAR = 0.2
"""Share of the samples that are near a reversal."""

OUTLIER_ROUNDS = 1
LISTED = 5
"""Contacts that are reported with their times."""

Mask = NDArray[np.bool_]


def robust_scale(x: Array) -> float:
    """Standard deviation by the median of |x|, then by that of what is within 4 of it, twice."""
    size = np.abs(x)
    scale = NORMAL * float(np.median(size)) if len(size) else 0.0
    for _ in range(2):
        inside = size[size <= 4.0 * scale]
        scale = NORMAL * float(np.median(inside)) if len(inside) else scale
    return scale


@dataclass(frozen=True, slots=True, eq=False)
class ResidualLimits:
    """Sizes of e, e - m and m that are still good, for one joint: (2,) each, where it moves and near its reversals.

    slow: velocity below which, anywhere within reach, a reversal is near. Dry friction is what models lack most.
    """

    gross: Array
    fast: Array
    lasting: Array
    slow: float

    @staticmethod
    def from_residuals(pieces: list[Array], speeds: list[Array], reach: list[int], size: float) -> ResidualLimits:
        """Limits from residuals and speeds of pieces of time; size: usual one of the joint's torque."""
        floor = FLOOR * size + 1e-300
        e = np.concatenate(pieces)
        speed = np.concatenate([_lowest_speed_nearby(v, r) for v, r in zip(speeds, reach, strict=True)])
        slow = float(np.quantile(speed, NEAR))
        near = (speed <= slow).astype(np.int64)
        gross = GROSS * _robust_scales(e, near, floor)
        bounds = np.split(gross[near], np.cumsum([len(x) for x in pieces])[:-1])
        m = np.concatenate(
            [running_median(x, np.abs(x) <= g, r) for x, g, r in zip(pieces, bounds, reach, strict=True)]
        )
        lacks = _robust_scales(m, near, floor)
        return ResidualLimits(
            gross, FAST * np.maximum(_robust_scales(e - m, near, floor), lacks), LASTING * lacks, slow
        )

    def are_good(self, e: Array, speed: Array, reach: int) -> Mask:
        """Mask of the consecutive residuals that are within the limits."""
        near = (_lowest_speed_nearby(speed, reach) <= self.slow).astype(np.int64)
        good = np.abs(e) <= self.gross[near]
        if reach:
            m = running_median(e, good, reach)
            still = good & (np.abs(m) <= self.lasting[near])
            good = still & (np.abs(e - m) <= self.fast[near])
            for _ in range(OUTLIER_ROUNDS):  # a mean of good ones leans less to one side than a median of all
                good = still & (np.abs(e - mean_of_good_neighbours(e, good, reach)[0]) <= self.fast[near])
        return good


def _robust_scales(x: Array, near: NDArray[np.int64], floor: float) -> Array:
    """Robust deviations (2,); near reversals at least that of the rest."""
    moving, reversing = (max(robust_scale(x[near == k]), floor) for k in (0, 1))
    return np.array([moving, max(moving, reversing)])


def _lowest_speed_nearby(speed: Array, reach: int) -> Array:
    """Lowest speed within `reach` samples of each."""
    return np.asarray(minimum_filter1d(speed, 2 * reach + 1, mode="nearest")) if reach else speed


def running_median(e: Array, good: Mask, reach: int) -> Array:
    """Median of the residuals around, bad ones replaced by the mean of good ones; 0 where it reaches nowhere."""
    if not reach:
        return np.zeros(len(e))
    filled = e if good.all() else np.where(good, e, mean_of_good_neighbours(e, good, reach)[0])
    return np.asarray(median_filter(filled, 2 * reach + 1, mode="nearest"))


def mean_of_good_neighbours(e: Array, good: Mask, reach: int) -> tuple[Array, Array]:
    """Mean of the good residuals within `reach` samples, 0 where there are none, and their share."""
    sums = np.concatenate([[0.0], np.cumsum(np.where(good, e, 0.0))])
    counts = np.concatenate([[0], np.cumsum(good)])
    k = np.arange(len(e))
    start, stop = np.maximum(k - reach, 0), np.minimum(k + reach + 1, len(e))
    some = counts[stop] - counts[start]
    return (sums[stop] - sums[start]) / np.maximum(some, 1), some / np.maximum(stop - start, 1)


def interpolate_glitches(q: Array, limit: Array) -> tuple[Array, Mask]:
    """Positions (N, n) with those that jump beyond a limit (n,) interpolated by a spline, and a mask of these."""
    bad = np.abs(q - median_filter(q, (2 * GLITCH + 1, 1), mode="nearest")) > limit
    k, out = np.arange(len(q)), q.copy() if bad.any() else q
    for j in np.flatnonzero(bad.any(axis=0)):
        good = ~bad[:, j]
        out[~good, j] = CubicSpline(k[good], q[good, j])(k[~good])
    return out, np.asarray(bad.any(axis=1))


def glitch_limit(q: Array) -> Array:
    """Distance (n,) of a position from the median of its neighbours that only a glitch has."""
    off = np.abs(q - median_filter(q, (2 * GLITCH + 1, 1), mode="nearest"))
    span = np.ptp(np.quantile(q, [0.05, 0.95], axis=0), axis=0)
    return np.asarray(10.0 * np.quantile(off, 0.9, axis=0) + 1e-3 * span)


@dataclass(slots=True)
class OutlierTally:
    """What a pass left out: samples seen, bad ones and rows left out per joint, glitches, contacts (log, s, s)."""

    joints: int
    samples: int = 0
    glitches: int = 0
    bad: Array = field(init=False)
    left_out: Array = field(init=False)
    contacts: int = 0
    first: list[tuple[int, float, float, set[int]]] = field(default_factory=list)
    last: tuple[int, float] = (-1, -np.inf)

    def __post_init__(self) -> None:
        self.bad, self.left_out = np.zeros(self.joints), np.zeros(self.joints)

    def add_contacts(self, log: int, t: Array, good: Mask, apart: float) -> None:
        """Add contacts where rows (K, n) are not good; those less than `apart` (s) apart are one."""
        self.left_out += (~good).sum(axis=0)
        for k in np.flatnonzero(~good.all(axis=1)).tolist():
            now = float(t[k])
            same = self.last[0] == log and now - self.last[1] <= apart
            self.contacts += not same
            if not same and len(self.first) < LISTED:
                self.first.append((log, now, now, set()))
            if self.first and self.contacts == len(self.first):
                _, start, _, joints = self.first[-1]
                self.first[-1] = (log, start, now, joints | set(np.flatnonzero(~good[k]).tolist()))
            self.last = (log, now)


REFERENCE = ("viscous", "offset", "coulomb", "stop1e-4", "stop1e-3", "stop1e-2", "tanh", "quadratic", "sine", "sine2")
"""Friction of the reference."""

K = 1.345
"""Huber's constant: 95 % efficient where noise is normal."""

REJECTED = 4.0
"""Robust deviations beyond which a sample has no part in the last steps."""

ROUNDS = 20
PIECE = 2.0
"""Seconds of a stretch that is kept."""

KEPT_BYTES = 64_000_000
RIDGE = 1e-11
GLITCHES = 0.05
"""Share of samples above which jumps of positions are not glitches, but how the log is."""


@dataclass(frozen=True, slots=True, eq=False)
class LogPiece:
    """A stretch of log number `log`: t (K,), v (K, n), rows of the reference; raw times (N,) and torques (N, n)."""

    log: int
    t: Array
    v: Array
    wide: Array
    raw_t: Array
    raw: Array


@dataclass(frozen=True, slots=True, eq=False)
class OutlierModel:
    """A reference: values and limits per channel, reach (samples) and limits of glitches per log; a tally."""

    equation: Equation
    values: tuple[Array, ...]
    limits: tuple[ResidualLimits, ...]
    reach: tuple[int, ...]
    glitches: tuple[Array, ...]
    tally: OutlierTally

    def with_empty_tally(self) -> OutlierModel:
        """Return the model with an empty tally."""
        return replace(self, tally=OutlierTally(self.equation.robot.n))

    def detector(self, number: int, treatment: Treatment, half: int) -> OutlierDetector:
        """Detector of the outliers of one log, whose rows reach `half` downsampled instants beyond their filter."""
        return OutlierDetector(self, number, treatment, half)


class OutlierDetector:
    """The outliers of one log, window after window, which friction states are carried through.

    context: samples that it needs on each side of a window.
    """

    def __init__(self, model: OutlierModel, number: int, treatment: Treatment, half: int) -> None:
        self.model, self.number, self.treatment = model, number, treatment
        self.reach = model.reach[number]
        filtered = treatment.cutoff is not None
        self.row_reach = self.reach * filtered + half * treatment.downsampling_step
        thin = treatment.downsampling_filter
        self.context = 3 * self.reach + self.row_reach + (0 if thin is None else thin.half_length)
        self.friction: FrictionState | None = None

    def interpolate_glitches(self, window: Window) -> Window:
        """Window with single jumps of positions interpolated, which are counted."""
        if not self.reach:
            return window
        q, bad = interpolate_glitches(window.samples.q, self.model.glitches[self.number])
        self.model.tally.glitches += int(bad[window.core].sum())
        return replace(window, samples=replace(window.samples, q=q)) if bad.any() else window

    def replace_outliers(self, window: Window, prepared: PreparedWindow) -> tuple[Window, Array]:
        """Window with outliers of the torques replaced, and the share (N, n) of good samples around each."""
        model, x, motion = self.model, window.samples, prepared.motion
        assert x.tau is not None
        if self.friction is None or window.starts:
            self.friction = FrictionState(model.equation, prepared, self.treatment.row_writing_rate)
        wide = model.equation.write_torque_rows(motion, self.friction.stops_along_window(prepared), None)
        tau, share = x.tau.copy(), np.ones(x.tau.shape)
        t = x.t - self.treatment.delay
        known = _instants_between(t, motion.t)
        model.tally.samples += len(x.t[window.core])
        for c, channel in enumerate(model.equation.torque_channels):
            own = channel.rows_in_wide(wide)
            predicted = np.interp(t[known], motion.t, own[:, :-1] @ model.values[c] - own[:, -1])
            j = channel.joint
            e = tau[known, j] - predicted
            good = model.limits[c].are_good(e, np.abs(np.interp(t[known], motion.t, motion.v[:, j])), self.reach)
            if not good.all():
                tau[known, j] = np.where(
                    good, tau[known, j], predicted + mean_of_good_neighbours(e, good, self.reach)[0]
                )
                share[known, j] = mean_of_good_neighbours(e, good, self.row_reach)[1]
                bad = np.zeros(len(tau), dtype=np.bool_)
                bad[known] = ~good
                model.tally.bad[j] += bad[window.core].sum()
        return replace(window, samples=replace(x, tau=tau)), share

    def rows_without_outliers(self, t: Array, share: Array) -> Mask:
        """Mask (K, n) of rows that count, by the shares of good samples at their instants."""
        good = np.asarray(share >= HALF)
        if self.row_reach:
            self.model.tally.add_contacts(self.number, t, good, 3.0 * self.row_reach / self.treatment.rate)
        else:
            self.model.tally.left_out += (~good).sum(axis=0)
        return good


def survey_without_glitches(seen: Survey) -> Survey:
    """Survey with jumps of positions interpolated: they would be taken for noise when a cut-off is chosen."""
    q, bad = interpolate_glitches(seen.samples.q, glitch_limit(seen.samples.q))
    return replace(seen, samples=replace(seen.samples, q=q)) if bad.mean() < GLITCHES else seen


def fit_outlier_model(
    equation: Equation,
    logs: Sequence[Log],
    surveys: Sequence[Survey],
    treatments: Sequence[Treatment],
    nominal: Sequence[float],
) -> OutlierModel:
    """Read the logs once and fit the reference; nominal (Hz): cut-off of logs that are not filtered, 0: no series."""
    reference = replace(equation.with_friction(REFERENCE).as_torque_equation(), rigid=None)
    reach = tuple(
        0 if f == 0.0 else max(1, int(0.5 * s.rate / (treatment.cutoff or f)))
        for s, treatment, f in zip(surveys, treatments, nominal, strict=True)
    )
    none = OutlierTally(equation.robot.n)
    empty = OutlierModel(reference, (), (), reach, tuple(glitch_limit(s.samples.q) for s in surveys), none)
    pieces = _PieceCollector()
    for number, (log, seen, treatment) in enumerate(zip(logs, surveys, treatments, strict=True)):
        found = Findings(log.name, seen.rate)
        for task in prepare_row_tasks(
            reference, log, number=number, seen=seen, treatment=treatment, found=found, outliers=empty, clean=False
        ):
            pieces.add_window(
                task.window, task.prepared, log=number, stops=task.stops, equation=reference, treatment=treatment,
                interval=log.interval,
            )  # fmt: skip
    if not pieces.kept:
        raise LogError(
            logs[0].name, "log_short_for_outliers", "it is too short to detect outliers",
            "use {estimator}", estimator=Option("estimator", "wls"),
        )  # fmt: skip
    values = _fit_reference(reference, pieces.kept)
    return replace(empty, values=values, limits=_residual_limits(reference, values, pieces.kept, reach), tally=none)


@dataclass(eq=False)
class _PieceCollector:
    """Stretches spread over the logs; every other one goes when they become too many."""

    kept: list[LogPiece] = field(default_factory=list)
    every: int = 1
    seen: int = 0

    def add_window(
        self, window: Window, prepared: PreparedWindow, *, log: int, stops: Array, equation: Equation,
        treatment: Treatment, interval: tuple[float, float],
    ) -> None:  # fmt: skip
        """Add the core of a window, cut into stretches; drop every other one when they become too many."""
        x, motion = window.samples, prepared.motion
        assert x.tau is not None
        core = x.t[window.core]
        begin, end = max(core[0], interval[0], motion.t[0]), min(core[-1], interval[1], motion.t[-1])
        first, last = np.searchsorted(motion.t, [begin, end])
        step = max(2, int(PIECE * treatment.row_writing_rate))
        for start in range(first, last, step):
            self.seen += 1
            if self.seen % self.every:
                continue
            part = slice(start, min(start + step, last))
            t = motion.t[part]
            raw = _instants_between(x.t - treatment.delay, t)
            wide = equation.write_torque_rows(motion[part], stops[part], None)
            self.kept.append(LogPiece(log, t, motion.v[part], wide, x.t[raw] - treatment.delay, x.tau[raw].copy()))
            while len(self.kept) > 8 and sum(p.wide.nbytes for p in self.kept) > KEPT_BYTES:
                self.kept, self.every = self.kept[::2], 2 * self.every


def _fit_reference(equation: Equation, pieces: list[LogPiece]) -> tuple[Array, ...]:
    """Values of every channel's columns: Huber's M-estimate on raw samples, then without those beyond 4 deviations."""
    unknowns = Unknowns.for_equation(equation, equation.friction, 1)
    count, channels = len(unknowns), equation.torque_channels
    rows = [np.concatenate([c.rows_in_wide(p.wide)[:, :-1] for p in pieces]) for c in channels]
    right = [
        np.concatenate([p.raw[_nearest_raw_samples(p), c.joint] + c.rows_in_wide(p.wide)[:, -1] for p in pieces])
        for c in channels
    ]
    places = [unknowns.place[0, c.columns] for c in channels]
    values, left = np.zeros(count), right
    for step in range(2 * ROUNDS):
        scales = [max(robust_scale(e), FLOOR * robust_scale(y)) + 1e-300 for e, y in zip(left, right, strict=True)]
        gram, rhs = np.zeros((count, count)), np.zeros(count)
        for W, y, e, place, s in zip(rows, right, left, places, scales, strict=True):
            u = np.abs(e) / s
            weight = (K / np.maximum(u, K) if step < ROUNDS else u <= REJECTED) if step else np.ones(len(y))
            weighted = W * (weight / s**2)[:, None]
            gram[np.ix_(place, place)] += weighted.T @ W
            rhs[place] += weighted.T @ y
        size = np.sqrt(np.maximum(np.diag(gram), 1e-300))
        before = values
        values = np.linalg.solve(gram / size[:, None] / size + RIDGE * np.eye(count), rhs / size) / size
        left = [y - W @ values[place] for W, y, place in zip(rows, right, places, strict=True)]
        if step > ROUNDS and np.abs((values - before) * size).max() < 1e-6 * np.abs(values * size).max():
            break
    return tuple(values[place] for place in places)


def _instants_between(t: Array, others: Array) -> slice:
    """Slice of instants between the first and the last of others, with one more after these."""
    return slice(int(np.searchsorted(t, others[0])), int(np.searchsorted(t, others[-1])) + 1)


def _nearest_raw_samples(piece: LogPiece) -> Array:
    """Indices of the raw samples nearest to the instants of the rows."""
    after = np.clip(np.searchsorted(piece.raw_t, piece.t), 0, len(piece.raw_t) - 1)
    before = np.maximum(after - 1, 0)
    return np.asarray(np.where(piece.t - piece.raw_t[before] < piece.raw_t[after] - piece.t, before, after))


def _residual_limits(
    equation: Equation, values: tuple[Array, ...], pieces: list[LogPiece], reach: tuple[int, ...]
) -> tuple[ResidualLimits, ...]:
    """Limits of good residuals for every torque channel."""
    limits = []
    for c, channel in enumerate(equation.torque_channels):
        own = [(channel.rows_in_wide(p.wide), p) for p in pieces]
        left = [p.raw[:, channel.joint] - np.interp(p.raw_t, p.t, W[:, :-1] @ values[c] - W[:, -1]) for W, p in own]
        speeds = [np.abs(np.interp(p.raw_t, p.t, p.v[:, channel.joint])) for p in pieces]
        size = robust_scale(np.concatenate([p.raw[:, channel.joint] for p in pieces]))
        limits.append(ResidualLimits.from_residuals(left, speeds, [reach[p.log] for p in pieces], size))
    return tuple(limits)


def describe_outliers(model: OutlierModel, logs: Sequence[Log], *, in_validation: bool) -> tuple[Message, ...]:
    """Messages on what was left out; in_validation: outliers were detected in the validation data too."""
    tally, names = model.tally, model.equation.robot.joint_names
    lines = []
    for channel in model.equation.torque_channels:
        j = channel.joint
        lines.append(Message(
            "outliers_dropped", "joint '{joint}': {outliers:,} of {samples:,} torques ({percent:.1f} %) dropped as "
            "outliers, {rows:,} rows left out", joint=names[j], outliers=int(tally.bad[j]), samples=tally.samples,
            percent=float(100.0 * tally.bad[j] / max(tally.samples, 1)), rows=int(tally.left_out[j]),
        ))  # fmt: skip
    if tally.glitches:
        lines.append(Message(
            "position_glitches", "{samples:,} samples with a position that jumps away and back: made continuous",
            samples=tally.glitches,
        ))  # fmt: skip
    if tally.contacts:
        where = "; ".join(
            f"{f'{logs[log].name}, ' if len(logs) > 1 else ''}{start:.2f} to {stop:.2f} s "
            f"({', '.join(names[j] for j in sorted(joints))})"
            for log, start, stop, joints in tally.first
        )
        more = f", and {tally.contacts - len(tally.first)} more" if tally.contacts > len(tally.first) else ""
        lines.append(Message(
            "contacts", "contacts, or torques that are wrong for longer, seen {count} times: {where}{more}",
            count=tally.contacts, where=where, more=more,
            first=[(logs[log].name, start, stop, [names[j] for j in sorted(joints)])
                   for log, start, stop, joints in tally.first],
        ))  # fmt: skip
    if in_validation:
        lines.append(Message(
            "validation_judged", "validation data were treated in the same way: errors are those of the good rows"
        ))  # fmt: skip
    else:
        lines.append(Message("validation_not_judged", "validation data were taken as recorded"))
    return tuple(lines)
