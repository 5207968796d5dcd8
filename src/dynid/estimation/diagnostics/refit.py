"""Refits of thinned rows under another reading of the logs: other signs, order, zeros, gravity, units or delays.

What is fitted is always the same: rigid columns, viscous and dry friction and an offset per joint. Friction, rotor
inertias and the mean inertia about every joint must not be negative, so that one figure, the error on held-out
stretches of time, is evidence of torques and of physics: torques with the wrong sign may fit as well as right ones,
but not with friction that dissipates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dynid.concurrency import cached_property
from dynid.dynamics.friction import STOP, FrictionShapes, stop_width
from dynid.dynamics.models import Torque
from dynid.dynamics.scene import Stage
from dynid.estimation.diagnostics.plausibility import mean_inertias_of_base, mean_inertias_of_standard
from dynid.estimation.regression.equation import Equation
from dynid.estimation.regression.rows import Rows
from dynid.robot.motion import Motion
from dynid.robot.parameter import Parameter
from dynid.robot.transform import Array

STRETCHES = 10
"""Stretches of time into which samples are divided."""

FOLDS = tuple((k, k + 5) for k in range(5))
"""Stretches that are held out together."""

RIDGE = 1e-9
"""Added to normal equations with a diagonal of one: parameters that rows do not determine stay small."""

WIDEST_STOP = 0.05
"""Width (rad) from which on a stop operator is a spring for the most part."""

LEAST_SAMPLES, SAMPLES_PER_COLUMN = 60, 3
"""Samples below which nothing is refitted: in all, and per rigid column of a channel."""

MOST_KEPT = 30_000
"""Samples whose rows are kept, of all readings together."""

MOST_PRODUCTS = 60_000_000
"""Entries of the products of all channels that are kept, of all readings together: half a gigabyte."""

MOTOR_SPAN = 3.0 * np.pi
"""Range of a position (rad) from which on it may be that of a motor: there only memory, which is a matter of distance,
may stand for dry friction beside viscous one, since signs of velocities are the same for any gear ratio."""

FINE_STOPS = ("stop3e-4", "stop1e-3", "stop3e-3", "stop1e-2", "stop3e-2")
TURNING = (0.05, 0.2)
"""Shares of the typical velocity below which dry friction turns."""

VELOCITY_OFF = 0.01
"""Difference between recorded velocities and slopes of the positions (relative, rms) that is looked into."""

LEAST_LAG, LAG_SHARE = 4e-3, 0.7
"""Lag (s) of recorded velocities, and share of the squares of that difference that it explains, to be sure of it."""

SURE_LAG, SURE_LAG_SHARE = 8e-3, 0.9
"""The same by integrals, which noise does not hide: drives filter velocities, which takes a few milliseconds."""

FOREIGN, LARGE_MOTION = 0.5, 0.05
"""Integral of a recorded velocity less the position, over the position (both rms, without a line in time), from which
on it belongs to another motion; rms of a motion over the largest below which nothing is said."""

HARMONICS = (1, 2, 3, 4, 5, 6)
"""Of the joint angle: torques that depend on the position, as those of sensors that are not round."""

ROWS_WORK, FIT_WORK, LIMITED_FIT_WORK = (110.0, 22.0, 1.05e-2), (75.0, 13.0), (150.0, 37.0)
"""Work of refits, in units of about 1 us: of rows with their products, of a fit, of one within limits; each once, per
channel and, of the rows, per entry."""

AT_ONCE_WORK = 10.0
"""The same of fits that are done at once: per channel."""

FEW_COLUMNS, PRODUCTS_WORK = 100, (1.5e-4, 1.2e-3, 4e-5)
"""Columns of a channel up to which these figures hold; what more of them add: per entry of the rows and column, per
channel and entry of the products, per cube of the columns."""

MOST_SIGNS = 12
"""Channels up to which all combinations of signs are compared."""

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Reading:
    """How recorded channels are read: q = q_factor * q[q_order] + zero, tau = gain * tau[tau_order].

    gravity (m/s^2): None for the robot's. delay (s): of the torques, beyond what was corrected. rotors: joints whose
    rotor inertia is fitted beside the columns of the identification; springs: joints with a spring; loads: logs
    whose last links have parameters of their own; derived: velocities and accelerations are those of the positions.
    sines: position-dependent torques beside everything else.
    """

    q_order: tuple[int, ...]
    q_factor: tuple[float, ...]
    zero: tuple[float, ...]
    tau_order: tuple[int, ...]
    gain: tuple[float, ...]
    gravity: tuple[float, ...] | None = None
    delay: float = 0.0
    rotors: tuple[int, ...] = ()
    springs: tuple[int, ...] = ()
    loads: tuple[int, ...] = ()
    derived: bool = False
    sines: bool = False

    @staticmethod
    def as_recorded(n: int) -> Reading:
        """The reading that takes every channel as it is."""
        return Reading(tuple(range(n)), (1.0,) * n, (0.0,) * n, tuple(range(n)), (1.0,) * n)

    @property
    def columns_key(self) -> tuple[object, ...]:
        """Key of what the regressor columns depend on, to find them again."""
        return *self.motion_key, self.gravity, self.rotors, self.springs, self.loads, self.sines, self.delay

    @property
    def motion_key(self) -> tuple[object, ...]:
        """Key of what the motion depends on, to find it again."""
        return self.q_order, self.q_factor, self.zero, self.derived


@dataclass(frozen=True, slots=True, eq=False)
class KeptSamples:
    """Filtered samples of the logs: q, v, a (N, n), tau (N, channels), friction (channels, N, columns), log (N,).

    joints: of the channels. odd (columns,): friction that turns its sign with the velocity; stops: names of its columns
    from the third on. recorded: all times, torques and positions of rows that follow one another, for torques at
    instants between and friction with memory. slopes: velocities and accelerations of the positions, where other
    velocities were recorded; foreign: joints whose recorded velocities are those of another motion.
    """

    equation: Equation
    joints: tuple[int, ...]
    t: Array
    q: Array
    v: Array
    a: Array
    tau: Array
    friction: Array
    odd: NDArray[np.bool_]
    stops: tuple[str, ...]
    log: Indices
    piece: Indices
    recorded: tuple[tuple[Array, Array, Array], ...]
    slopes: tuple[Array, Array] | None
    foreign: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.t)

    @property
    def velocity_lag(self) -> float:
        """Lag (s) of recorded velocities behind positions; 0 where no lag explains how they differ."""
        if self.slopes is None:
            return 0.0
        v, a = self.slopes
        off, power = self.v - v, np.maximum((a**2).sum(axis=0), 1e-300)
        lags = -(off * a).sum(axis=0) / power
        shares = lags**2 * power / np.maximum((off**2).sum(axis=0), 1e-300)
        lag, share = float(np.median(lags)), float(np.median(shares))
        return lag if abs(lag) > LEAST_LAG and share > LAG_SHARE else 0.0

    @property
    def are_velocities_wrong(self) -> bool:
        """Whether recorded velocities are surely not those of the positions: late, early, or of another motion."""
        return self.slopes is not None and (bool(self.foreign) or self.velocity_lag != 0.0)

    def torques_after(self, delay: float) -> Array:
        """Torques (N, channels) recorded `delay` seconds after each sample."""
        from scipy.interpolate import CubicSpline

        if delay == 0.0:
            return self.tau
        tau = self.tau.copy()
        for k, (t, values, _) in enumerate(self.recorded):
            inside = self.piece == k
            tau[inside] = CubicSpline(t, values)(np.clip(self.t[inside] + delay, t[0], t[-1]))
        return tau

    def with_free_timing(self) -> KeptSamples:
        """The samples with friction that may also come earlier or later: what then speaks for a delay is the rest.

        Its memory is given more widths, and columns that turn with the velocity, at once or a little earlier or later.
        """
        if set(FINE_STOPS) <= set(self.stops):
            return self
        stops = tuple(
            name for _, name in sorted({stop_width(name): name for name in (*self.stops, *FINE_STOPS)}.items())
        )
        first, found = 2 + len(self.stops), []
        for c, j in enumerate(self.joints):
            slow = np.array(TURNING) * self.v[:, j].std() + 1e-12
            smooth = np.tanh(self.v[:, [j]] / slow[0]) * (np.ptp(self.q[:, j]) < MOTOR_SPAN)
            turning = self.a[:, [j]] / slow / np.cosh(np.clip(self.v[:, [j]] / slow, -50.0, 50.0)) ** 2
            own = self.friction[c]
            found.append(np.hstack([own[:, :2], self._stops_along(j, 1.0, stops), own[:, first:], smooth, turning]))
        odd = np.append(np.ones(found[0].shape[1] - len(TURNING)), np.zeros(len(TURNING))).astype(np.bool_)
        odd[1] = False
        return replace(self, friction=np.array(found), odd=odd, stops=stops)

    def with_own_friction(self) -> KeptSamples:
        """The samples with dry friction as it was asked for: without memory where the equation has none."""
        first, asked = 2 + len(self.stops), set(self.equation.friction)
        stops = [k for k, name in enumerate(self.stops) if name in asked]
        dry = [2 + k for k in stops] + [k for k in range(first, len(self.odd)) if self.odd[k]]
        if not dry or len(dry) == len(self.odd) - 2:
            return self
        some, names = [0, 1, *dry], tuple(self.stops[k] for k in stops)
        return replace(self, friction=np.ascontiguousarray(self.friction[:, :, some]), odd=self.odd[some], stops=names)

    def scaled_friction(self, channel: int, factor: float) -> Array:
        """Friction columns (N, columns) of a channel whose positions are `factor` times the recorded ones.

        Its memory is a matter of distance; all else changes at most in size.
        """
        own = self.friction[channel].copy()
        own[:, 2 : 2 + len(self.stops)] = self._stops_along(self.joints[channel], factor, self.stops)
        return np.asarray(own)

    def _stops_along(self, joint: int, factor: float, names: tuple[str, ...]) -> Array:
        """Values (N, stops) of stop operators along the positions of a joint, times a factor."""
        shapes = FrictionShapes(names, self.equation.shapes.scale[[joint]])
        found = np.empty((len(self), len(names)))
        for k, (t, _, q) in enumerate(self.recorded):
            inside, path = self.piece == k, np.ascontiguousarray(factor * q[:, [joint]])
            along = _three_sample_means(shapes.stop_values_along(path, shapes.initial_stop_states(path, len(path))))[
                :, :, 0
            ]
            found[inside] = along[np.searchsorted(t, self.t[inside])]
        return found

    def thin_out(self, count: int) -> KeptSamples:
        """About `count` of the samples, spread over all."""
        places = np.linspace(0, len(self) - 1, min(count, len(self)) // STRETCHES * STRETCHES).astype(np.int64)
        some = {name: getattr(self, name)[places] for name in ("t", "q", "v", "a", "tau", "log", "piece")}
        slopes = None if self.slopes is None else (self.slopes[0][places], self.slopes[1][places])
        return replace(self, friction=self.friction[:, places], slopes=slopes, **some)

    @staticmethod
    def from_rows(equation: Equation, kept: Sequence[Rows], count: int) -> KeptSamples | None:
        """Filtered samples from about `count` of the rows, where friction has settled; None where there are too few."""
        pieces = [rows for rows in kept if len(rows.t) > 3]
        channels = equation.torque_channels
        if not pieces or not channels:
            return None
        settled = np.concatenate([(rows.settled & rows.good).all(axis=1) for rows in pieces])
        usable = np.flatnonzero(settled) if settled.mean() > 0.5 else np.arange(len(settled))
        width = max(channel.base + len(channel.extra) for channel in channels)
        if len(usable) < max(LEAST_SAMPLES, SAMPLES_PER_COLUMN * width):
            return None
        count = min(count, len(usable)) // STRETCHES * STRETCHES
        places = usable[np.linspace(0, len(usable) - 1, count).astype(np.int64)]
        t, q, v, a = (np.concatenate([getattr(rows, x) for rows in pieces])[places] for x in ("t", "q", "v", "a"))
        piece = np.concatenate([np.full(len(rows.t), k) for k, rows in enumerate(pieces)])[places]
        log = np.array([rows.log for rows in pieces])[piece]
        recorded = tuple(
            (rows.t, np.column_stack([channel.rows_in_wide(rows.wide)[:, -1] for channel in channels]), rows.q)
            for rows in pieces
        )
        tau = np.concatenate([torque for _, torque, _ in recorded])[places]
        slopes = _slopes_of_positions(pieces)
        slopes = None if slopes is None else (slopes[0][places], slopes[1][places])
        friction, odd, stops = _friction_columns(equation, pieces, places)
        joints = tuple(channel.joint for channel in channels)
        foreign = _joints_of_foreign_velocities(pieces)
        return KeptSamples(
            equation, joints, t, q, v, a, tau, friction, odd, stops, log, piece, recorded, slopes, foreign
        )


def _slopes_of_positions(pieces: Sequence[Rows]) -> tuple[Array, Array] | None:
    """Velocities and accelerations of the positions, None where the recorded ones are these for all that can be seen.

    Derivatives of the positions or, where recorded velocities surely come late or early, these at the right time:
    positions may be too noisy for derivatives.
    """
    from scipy.interpolate import CubicSpline

    lag = _lag_of_velocities(pieces)
    if abs(lag) > SURE_LAG:
        moved = [
            [np.column_stack([np.interp(rows.t + lag, rows.t, column) for column in x.T]) for x in (rows.v, rows.a)]
            for rows in pieces
        ]
        return np.concatenate([v for v, _ in moved]), np.concatenate([a for _, a in moved])
    splines = [CubicSpline(rows.t, rows.q) for rows in pieces]
    v, a = (np.concatenate([f(rows.t, k) for f, rows in zip(splines, pieces, strict=True)]) for k in (1, 2))
    recorded = np.concatenate([rows.v for rows in pieces])
    off = np.sqrt(((v - recorded) ** 2).mean(axis=0) / np.maximum((recorded**2).mean(axis=0), 1e-300))
    return (v, a) if off.max() > VELOCITY_OFF else None


def _lag_of_velocities(pieces: Sequence[Rows]) -> float:
    """Lag (s) of velocities behind positions, by integrals: these lag by as much; 0 where a lag explains little.

    An integral drifts, so that a line in time is taken off. Joints that stand still tell nothing.
    """
    products = np.zeros((3, pieces[0].q.shape[1]))
    for rows in pieces:
        off, v, _ = _detrended_integrals(rows)
        products += np.array([(off * v).sum(axis=0), (v**2).sum(axis=0), (off**2).sum(axis=0)])
    across, power, squares = products[:, (products[1:] > 1e-100).all(axis=0)]
    if not len(across):
        return 0.0
    lag, share = np.median(-across / power), np.median(across**2 / (power * squares))
    return float(lag) if share > SURE_LAG_SHARE else 0.0


def _detrended_integrals(rows: Rows) -> tuple[Array, Array, Array]:
    """Integrals of the velocities less the positions, velocities and positions (N, n), each without a line in time."""
    steps = 0.5 * np.diff(rows.t)[:, None] * (rows.v[1:] + rows.v[:-1])
    line = np.column_stack([np.ones(len(rows.t)), rows.t - rows.t.mean()])
    line /= np.maximum(np.linalg.norm(line, axis=0), 1e-300)
    off = np.cumsum(np.vstack([np.zeros(steps.shape[1]), steps]), axis=0) - rows.q
    off, v, q = (x - line @ (line.T @ x) for x in (off, rows.v, rows.q))
    return off, v, q


def _joints_of_foreign_velocities(pieces: Sequence[Rows]) -> tuple[int, ...]:
    """Joints that move much, and whose velocities integrate to another motion than that of their positions."""
    off, q = (sum((x[k] ** 2).sum(axis=0) for x in map(_detrended_integrals, pieces)) for k in (0, 2))
    is_foreign = (off > FOREIGN**2 * q) & (q > LARGE_MOTION**2 * np.max(q))
    return tuple(np.flatnonzero(is_foreign).tolist())


def _friction_columns(
    equation: Equation, pieces: Sequence[Rows], places: Indices
) -> tuple[Array, NDArray[np.bool_], tuple[str, ...]]:
    """Viscous friction, an offset, dry friction with its memory, (channels, N, columns); which are odd; the stops.

    Dry friction is that of the rows; rows without stop operators get some along their positions.
    """
    v = np.concatenate([rows.v for rows in pieces])[places]
    widths = {stop_width(name): name for name in equation.friction if STOP.fullmatch(name)}
    stops = [name for width, name in sorted(widths.items()) if 0.0 < width < WIDEST_STOP]
    names = [*stops, *(name for name in equation.friction if name == "coulomb")] if equation.is_direct_drive else []
    along = None
    if not stops or not names:
        names = [name for name in names if name not in stops]
        stops = ["stop1e-3", "stop1e-2"]
        shapes = FrictionShapes(tuple(stops), equation.shapes.scale)
        along = np.concatenate(
            [
                _three_sample_means(shapes.stop_values_along(x.q, shapes.initial_stop_states(x.q, len(x.q))))
                for x in pieces
            ]
        )
    found, has_both = [], along is None and names[-1] == "coulomb"
    span = np.max([rows.q.max(axis=0) for rows in pieces], axis=0) - np.min([x.q.min(axis=0) for x in pieces], axis=0)
    for channel in equation.torque_channels:
        j = channel.joint
        place = {int(k): c for c, k in enumerate(channel.columns)}
        own = [v[:, j], np.ones(len(v))] + ([] if along is None else list(along[places][:, :, j].T))
        for name in names:
            k = place[int(equation.columns_by_friction_block[name][j])]
            own.append(np.concatenate([channel.rows_in_wide(rows.wide)[:, k] for rows in pieces])[places])
        columns = np.column_stack(own)
        if has_both and span[j] >= MOTOR_SPAN:
            columns[:, -1] = 0.0
        found.append(columns)
    odd = np.ones(found[0].shape[1], dtype=np.bool_)
    odd[1] = False
    return np.array(found), odd, tuple(stops)


def _three_sample_means(x: Array) -> Array:
    """Means over three samples, as a filter makes them of jumps."""
    ends = np.concatenate([x[:1], x, x[-1:]])
    return np.asarray(0.25 * ends[:-2] + 0.5 * ends[1:-1] + 0.25 * ends[2:])


@dataclass(frozen=True, slots=True, eq=False)
class Reduced:
    """Normal equations without the unknowns that only one channel has: those that all share are left.

    scale (..., channels, own), inverse (..., channels, own, own): of the own ones and of their Cholesky factors;
    across (..., channels, own, shared), torque (..., channels, own, torques): inverse times scaled products of own
    columns with shared ones and with torques; gram (..., channels, shared, shared), pull (..., channels, shared,
    torques): what is left; diagonal (..., channels, shared): before. Nothing depends on the weights of the channels.
    spans: range of the shared unknowns that each channel has, where these are many.
    """

    scale: Array
    inverse: Array
    across: Array
    torque: Array
    gram: Array
    pull: Array
    diagonal: Array
    spans: tuple[slice, ...] = ()

    @staticmethod
    def from_products(gram: Array, pull: Array, own: int, spans: tuple[slice, ...] = ()) -> Reduced:
        """Eliminate the first unknowns from products (..., channels, k, k) and (..., channels, k, torques)."""
        scale = _inverse_square_roots(np.einsum("...kk->...k", gram[..., :own, :own]))
        A = gram[..., :own, :own] * scale[..., :, None] * scale[..., None, :] + RIDGE * np.eye(own)
        inverse = np.linalg.inv(np.linalg.cholesky(A))
        both = np.concatenate([gram[..., :own, own:], pull[..., :own, :]], axis=-1)
        across, torque = np.split(inverse @ (scale[..., None] * both), [gram.shape[-1] - own], axis=-1)
        turned = across.swapaxes(-1, -2)
        diagonal = np.einsum("...kk->...k", gram[..., own:, own:])
        left = gram[..., own:, own:] - turned @ across, pull[..., own:, :] - turned @ torque
        return Reduced(scale, inverse, across, torque, *left, diagonal, spans)

    def cholesky_factor(self, weights: Array) -> tuple[Array, Array]:
        """Scale and Cholesky factor of the equations of shared unknowns, with weights of the channels."""
        scale = _inverse_square_roots(weights @ self.diagonal)
        A = self._weighted_gram(weights) * scale[:, None] * scale
        A.ravel()[:: len(A) + 1] += RIDGE
        return scale, np.asarray(np.linalg.cholesky(A), dtype=np.float64)

    def _weighted_gram(self, weights: Array) -> Array:
        """Sum (shared, shared) of the channels' equations times their weights."""
        if not self.spans:
            return np.asarray(np.tensordot(weights, self.gram, axes=1))
        total = np.zeros(self.gram.shape[1:])
        for weight, gram, span in zip(weights, self.gram, self.spans, strict=True):
            total[span, span] += weight * gram[span, span]
        return total

    def __getitem__(self, fold: int) -> Reduced:
        """Those of one of several."""
        arrays: dict[str, Any] = {x.name: getattr(self, x.name)[fold] for x in fields(self) if x.name != "spans"}
        return Reduced(**arrays, spans=self.spans)


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """Rows (channels, N, k) of all channels: columns of unknowns that only one has, then of those that all share.

    tau (N, channels): torques as recorded. By physics limits @ shared unknowns >= 0; positive (channels, own): which of
    the own ones must not be negative.
    """

    rows: Array
    tau: Array
    limits: Array
    positive: NDArray[np.bool_]

    @property
    def own_unknown_count(self) -> int:
        """Number of unknowns that a channel does not share."""
        return int(self.positive.shape[1])

    @cached_property
    def row_products(self) -> tuple[Array, Array]:
        """Products of the rows with themselves (channels, k, k) and with all torques (channels, k, torques)."""
        turned = self.rows.transpose(0, 2, 1)
        return turned @ self.rows, turned @ self.tau

    @cached_property
    def row_products_of_folds(self) -> tuple[Array, Array]:
        """Products of the rows of every fold: (folds, channels, k, k) and (folds, channels, k, torques)."""
        C, N, k = self.rows.shape
        rows = self.rows.reshape(C, STRETCHES, N // STRETCHES, k).transpose(1, 0, 2, 3)
        turned = rows.transpose(0, 1, 3, 2)
        gram, pull = turned @ rows, turned @ self.tau.reshape(STRETCHES, 1, N // STRETCHES, -1)
        return _sums_over_folds(gram), _sums_over_folds(pull)

    @property
    def has_many_columns(self) -> bool:
        """Whether products of the rows are larger by far than the rows: few of them are kept then."""
        return int(self.rows.shape[2]) > FEW_COLUMNS

    def rows_of_fold(self, fold: int) -> tuple[Array, Array]:
        """Rows (channels, N, k) and torques (N, channels) of a fold."""
        some = np.concatenate([np.arange(len(self.tau)).reshape(STRETCHES, -1)[k] for k in FOLDS[fold]])
        return self.rows[:, some], self.tau[some]

    @cached_property
    def spans(self) -> tuple[slice, ...]:
        """Range of the shared unknowns that each channel has, where these are many."""
        if not self.has_many_columns:
            return ()
        shown = np.asarray(self.rows[:, :, self.own_unknown_count :].any(axis=1))
        seen = [np.flatnonzero(shown[c]) for c in range(len(shown))]
        return tuple(slice(int(x[0]), int(x[-1]) + 1) if len(x) else slice(0, 0) for x in seen)

    @cached_property
    def reduced_equations(self) -> Reduced:
        """Reduced equations of all rows: those of the shared unknowns."""
        return Reduced.from_products(*self.row_products, self.own_unknown_count, self.spans)

    def reduced_without_fold(self, fold: int) -> Reduced:
        """Reduced equations of all rows but those of a fold."""
        if not self.has_many_columns:
            return self._reduced_without_each_fold[fold]
        rows, tau = self.rows_of_fold(fold)
        gram, pull = self.row_products
        turned = rows.transpose(0, 2, 1)
        return Reduced.from_products(gram - turned @ rows, pull - turned @ tau, self.own_unknown_count, self.spans)

    @cached_property
    def _reduced_without_each_fold(self) -> Reduced:
        """Reduced equations of all rows but those of each fold, (folds, ...)."""
        (gram, pull), (all_gram, all_pull) = self.row_products_of_folds, self.row_products
        return Reduced.from_products(all_gram - gram, all_pull - pull, self.own_unknown_count)


@dataclass(slots=True)
class Work:
    """Work of refits so far, counted, not timed: the same everywhere; limit: from which on no more should be begun."""

    done: float = 0.0
    limit: float = np.inf

    @property
    def is_exhausted(self) -> bool:
        """Whether the limit is reached."""
        return self.done > self.limit


def _rows_work(rows: Array) -> float:
    """Work of rows (..., channels, N, k) and their products."""
    k = rows.shape[-1]
    more = PRODUCTS_WORK[1] * rows.size // rows.shape[-2] * k if k > FEW_COLUMNS else 0.0
    return float((ROWS_WORK[2] + PRODUCTS_WORK[0] * max(k - FEW_COLUMNS, 0)) * rows.size + more)


def _fit_work(channels: int, columns: int) -> float:
    """Work of a fit beyond that of one with few columns."""
    if columns <= FEW_COLUMNS:
        return 0.0
    return PRODUCTS_WORK[1] * channels * columns**2 + PRODUCTS_WORK[2] * columns**3


class Refit:
    """Refits samples under other readings, and says how well they predict what was held out; counts its work."""

    def __init__(self, samples: KeptSamples, work: Work | None = None) -> None:
        self.samples = samples
        self.work = Work() if work is None else work
        self.n = samples.equation.robot.n
        self._equations: dict[tuple[object, ...], NormalEquations] = {}
        self._standard: dict[tuple[object, ...], tuple[Array, Array, Indices]] = {}
        self._torques: dict[float, tuple[Array, Array, Array]] = {}
        self._friction: dict[tuple[int, float], Array] = {}
        self.fits: dict[tuple[Reading, bool], tuple[Array, float]] = {}
        self._held_out: dict[Reading, Array] = {}
        self._last_motion: tuple[object, ...] = ()

    def delayed_torques(self, delay: float) -> tuple[Array, Array, Array]:
        """Torques (N, channels) with so much less delay, their squares (stretches, channels), those about the mean."""
        if delay not in self._torques:
            tau = self.samples.torques_after(delay)
            power = (tau**2).reshape(STRETCHES, -1, tau.shape[1]).sum(axis=1)
            self._torques[delay] = tau, power, ((tau - tau.mean(axis=0)) ** 2).sum(axis=0)
        return self._torques[delay]

    def motion_as_read(self, reading: Reading) -> Motion:
        """The motion as it is read; its times do not matter."""
        x, order, factor = self.samples, list(reading.q_order), np.array(reading.q_factor)
        slopes = x.slopes if reading.derived and x.slopes is not None else (x.v, x.a)
        q, v, a = (y[:, order] * factor for y in (x.q, *slopes))
        return Motion(np.arange(float(len(x))), q + np.array(reading.zero), v, a)

    def normal_equations(self, reading: Reading) -> NormalEquations:
        """Rows of every channel under a reading."""
        key, most = reading.columns_key, MOST_KEPT // len(self.samples)
        C, _, own = self.samples.friction.shape
        most = min(most, MOST_PRODUCTS // (C * (own + self.samples.equation.rigid_column_count) ** 2))
        found = self._equations.pop(key, None)  # to the end: those that were not used for long are dropped
        self._equations[key] = found = self._write_rows(reading) if found is None else found
        if len(self._equations) > max(most, 1):
            del self._equations[next(iter(self._equations))]
        return found

    def _write_rows(self, reading: Reading) -> NormalEquations:
        """Write the rows of every channel under a reading: rigid, payload, friction, rotor and spring columns."""
        samples, motion = self.samples, self.motion_as_read(reading)
        C, N, count = samples.friction.shape
        rigid, limits = self._rigid_columns(reading, motion), self._rigid_nonnegativity_rows
        if reading.gravity is not None:
            limits = self._standard_nonnegativity_rows
        loads = reading.loads and [(samples.log == log)[:, None] for log in reading.loads]
        if loads:  # what the last links' own parameters change, as far as base columns show it
            changes = rigid @ (self._payload_columns if reading.gravity is None else self._standard_payload_columns)
            rigid = np.concatenate([rigid, *(changes * inside for inside in loads)], axis=2)
            limits = np.pad(limits, ((0, 0), (0, rigid.shape[2] - limits.shape[1])))
        more = [(joints, x) for joints, x in ((reading.rotors, motion.a), (reading.springs, motion.q)) if joints]
        own, sines = count + len(more), len(HARMONICS) if reading.sines else 0
        rows = np.zeros((C, N, own + 2 * sines + rigid.shape[2]))
        rows[:, :, own + 2 * sines :] = rigid
        positive = np.zeros((C, own + 2 * sines), dtype=np.bool_)
        positive[:, :count] = samples.odd
        self._write_friction(reading, motion, rows)
        for c, j in enumerate(samples.joints):
            for k, (joints, values) in enumerate(more, start=count):
                if j in joints:
                    rows[c, :, k], positive[c, k] = values[:, j], True
        if sines:
            phase = motion.q.T[list(samples.joints), :, None] * np.array(HARMONICS)
            rows[:, :, own : own + sines], rows[:, :, own + sines : own + 2 * sines] = np.sin(phase), np.cos(phase)
        self.work.done += ROWS_WORK[0] + ROWS_WORK[1] * C + _rows_work(rows)
        return NormalEquations(rows, self.delayed_torques(reading.delay)[0], limits, positive)

    def _write_friction(self, reading: Reading, motion: Motion, rows: Array) -> None:
        """Write the friction columns, the first ones, of every channel under a reading."""
        samples, count = self.samples, self.samples.friction.shape[2]
        for c, j in enumerate(samples.joints):
            source = reading.q_order[j]
            if source in samples.joints:
                rows[c, :, :count] = self._friction_columns_of_channel(
                    samples.joints.index(source), abs(reading.q_factor[j])
                )
            if reading.q_factor[j] < 0.0:
                rows[c, :, :count] *= np.where(samples.odd, -1.0, 1.0)
            rows[c, :, 0] = motion.v[:, j]  # viscous friction, by velocities as they are read

    def squared_errors_at_once(self, readings: Sequence[Reading]) -> Array:
        """Mean squared NRMSE (readings,) of free fits, of readings that differ by motion, signs and order alone.

        Quicker than one by one where samples are few, and without the errors of single channels.
        """
        samples = self.samples
        C, N, count = samples.friction.shape
        different = {reading.motion_key: reading for reading in readings}
        places = {key: k for k, key in enumerate(different)}
        motions = [self.motion_as_read(reading) for reading in different.values()]
        whole = Motion(
            np.arange(float(N * len(motions))), *(np.concatenate([getattr(x, y) for x in motions]) for y in "qva")
        )
        rigid = samples.equation.rigid_rows(whole).T[self._rigid_places].reshape(C, -1, len(motions), N)
        rows = np.zeros((len(motions), C, N, count + rigid.shape[1]))
        rows[..., count:] = rigid.transpose(2, 0, 3, 1)
        for one, reading, motion in zip(rows, different.values(), motions, strict=True):
            self._write_friction(reading, motion, one)
        self.work.done += (AT_ONCE_WORK * C + _fit_work(C, rows.shape[-1])) * len(readings) + _rows_work(rows)
        tau, power, spread = self.delayed_torques(readings[0].delay)
        turned = rows.transpose(0, 1, 3, 2)
        reduced = Reduced.from_products(turned @ rows, turned @ tau, count)
        source = np.array([[samples.joints.index(r.tau_order[j]) for j in samples.joints] for r in readings])
        gain = np.array([[r.gain[j] for j in samples.joints] for r in readings])
        weights = 1.0 / np.maximum(spread[source] * gain**2, 1e-12 * max(float(spread.max()), 1e-300))
        b, c = np.array([[places[reading.motion_key]] for reading in readings]), np.arange(C)
        k = reduced.gram.shape[-1]
        scale = _inverse_square_roots((weights[:, None] @ reduced.diagonal[b[:, 0]])[:, 0])
        A = np.empty((len(readings), k, k))
        for each, weight, at in zip(A, weights, b[:, 0], strict=True):
            each[:] = (weight @ reduced.gram[at].reshape(C, -1)).reshape(k, k)
        A = A * scale[:, :, None] * scale[:, None, :] + RIDGE * np.eye(k)
        shared = ((weights * gain)[:, None] @ reduced.pull[b, c, :, source])[:, 0] * scale
        u = np.linalg.solve(np.linalg.cholesky(A), shared[:, :, None])[:, :, 0]
        own = power.sum(axis=0)[source] - (reduced.torque[b, c, :, source] ** 2).sum(axis=2)
        left = (weights * gain**2 * own).sum(axis=1) - (u**2).sum(axis=1)
        return np.asarray(np.maximum(left, 0.0) / C)

    def _friction_columns_of_channel(self, channel: int, factor: float) -> Array:
        """Friction columns (N, columns) of a channel whose positions are `factor` times the recorded ones."""
        if factor == 1.0:
            return np.asarray(self.samples.friction[channel])
        if (channel, factor) not in self._friction:
            if len(self._friction) > MOST_KEPT // len(self.samples):
                self._friction.clear()
            self._friction[channel, factor] = self.samples.scaled_friction(channel, factor)
        return self._friction[channel, factor]

    def _rigid_columns(self, reading: Reading, motion: Motion) -> Array:
        """Rigid columns (channels, N, columns), zero where a channel has none."""
        if reading.gravity is None:
            wide = self.samples.equation.rigid_rows(motion)
            return wide.T[self._rigid_places].transpose(0, 2, 1)
        if reading.motion_key not in self._standard:
            if reading.motion_key != self._last_motion:  # one gravity of this motion costs less than all of them
                self._last_motion = reading.motion_key
                return self._standard_columns_under(motion, np.array(reading.gravity))
            self._standard = {reading.motion_key: self._standard_columns(motion)}
        still, per_gravity, places = self._standard[reading.motion_key]
        W = still.copy()
        W[:, :, places] += np.tensordot(np.array(reading.gravity), per_gravity, axes=1)
        return W

    @cached_property
    def _rigid_places(self) -> Indices:
        """Places (channels, columns) of rigid columns in wide rows; where there is none, that of the torque, left 0."""
        equation = self.samples.equation
        places = np.array([[channel.stop - 1] * equation.rigid_column_count for channel in equation.torque_channels])
        for own, channel in zip(places, equation.torque_channels, strict=True):
            width = channel.base + len(channel.extra)
            own[channel.columns[:width]] = channel.start + np.arange(width)
        return places

    def _standard_columns(self, motion: Motion) -> tuple[Array, Array, Indices]:
        """Standard columns (channels, N, columns) without gravity; those that it changes, per unit (3, ...); where."""
        still, *others = (self._standard_columns_under(motion, g) for g in np.vstack([np.zeros(3), np.eye(3)]))
        per_gravity = np.array(others) - still
        places = np.flatnonzero(per_gravity.any(axis=(0, 1, 2)))
        return still, per_gravity[..., places], places

    def _standard_columns_under(self, motion: Motion, gravity: Array) -> Array:
        """Standard columns (channels, N, columns) under a gravity."""
        equation = self.samples.equation
        stage = Stage.for_robot(replace(equation.robot, gravity=gravity), equation.stage.columns)
        rows = Torque().rows(stage.scene_along(motion))[:, list(self.samples.joints)][:, :, self._free_columns]
        return np.asarray(rows.transpose(1, 0, 2))

    @cached_property
    def _standard_columns_of_last_links(self) -> list[int]:
        """Numbers of the standard columns of links that carry no other."""
        equation = self.samples.equation
        links, last = equation.robot.links, set(equation.robot.active_links)
        for k in equation.robot.active_links:  # all before it, through links that are fixed to it
            while (k := links[k].parent) >= 0:
                last.discard(k)
        names = {links[k].name for k in last}
        return [k for k, column in enumerate(equation.base.question.columns) if column.name.link in names]

    @cached_property
    def _payload_columns(self) -> Array:
        """Matrix (rigid columns, r): base parameters that a payload on the links that carry no other changes."""
        equation = self.samples.equation
        U, s, _ = np.linalg.svd(
            equation.base.regrouping.matrix[:, self._standard_columns_of_last_links], full_matrices=False
        )
        basis = U[:, s > 1e-9 * max(float(s.max(initial=0.0)), 1e-300)]
        return np.pad(basis, ((0, equation.rigid_column_count - len(basis)), (0, 0)))

    @cached_property
    def _standard_payload_columns(self) -> Array:
        """Standard columns that a payload on the last links changes."""
        return np.eye(len(self._free_columns))[:, np.isin(self._free_columns, self._standard_columns_of_last_links)]

    @cached_property
    def _rigid_nonnegativity_rows(self) -> Array:
        """Rows on the equation's columns that must not be negative: mean inertias, rotor inertias that stand alone."""
        equation = self.samples.equation
        p = equation.rigid_column_count
        limits = [np.zeros((0, p))]
        if equation.unknown is None:
            inertias = mean_inertias_of_base(equation)
            limits.append(np.pad(inertias, ((0, 0), (0, p - inertias.shape[1]))))
            limits.append(np.eye(p)[[k for k, name in enumerate(equation.base.names) if name in self._lone_rotors]])
        return np.concatenate(limits)

    @cached_property
    def _lone_rotors(self) -> list[Parameter]:
        """Names of the rotor inertias that no other parameter is regrouped with."""
        base = self.samples.equation.base
        alone = np.count_nonzero(base.regrouping.matrix, axis=1) == 1
        return [name for name, is_alone in zip(base.names, alone, strict=True) if name.kind == "rotor" and is_alone]

    @cached_property
    def _free_columns(self) -> Indices:
        """Standard columns of parameters that are not known to be zero."""
        question = self.samples.equation.base.question
        return np.setdiff1d(np.arange(len(question.columns)), question.known_zero_columns)

    @cached_property
    def _standard_nonnegativity_rows(self) -> Array:
        """Rows on the standard columns that must not be negative: as of the base columns, whatever the gravity."""
        equation = self.samples.equation
        names = [column.name for column in equation.stage.columns.columns]
        rotors = [k for k, name in enumerate(names) if name.kind == "rotor"]
        rigid = [k for k in range(len(names)) if k not in rotors]
        limits = np.zeros((self.n, len(names)))
        limits[:, rigid] = mean_inertias_of_standard(equation)
        joints = equation.robot.joint_names
        limits[[joints.index(names[k].joint or "") for k in rotors], rotors] = 1.0
        lone = [k for k in rotors if names[k] in self._lone_rotors]
        return np.concatenate([limits, np.eye(len(names))[lone]])[:, self._free_columns]

    def fitted_error(self, reading: Reading, *, limited: bool = False) -> float:
        """Mean NRMSE of a fit to all samples; without limits on its parameters a lower bound, and quick."""
        return self._fit_all_samples(reading, limited)[1]

    def squared_residuals(self, reading: Reading, *, limited: bool) -> Array:
        """Sums of squared residuals (channels,) of a fit to all samples."""
        return self._fit_all_samples(reading, limited)[0]

    def _fit_all_samples(self, reading: Reading, limited: bool) -> tuple[Array, float]:
        """Sums of squared residuals (channels,) of a fit to all samples, and the mean NRMSE."""
        if (reading, limited) not in self.fits:
            task = ReadingTask(self, reading)
            self.add_fits(1, limited=limited)
            left = task.residual_squares(task.fit_unknowns(task.channel_weights(None), limited=limited))
            self.fits[reading, limited] = left, float(np.sqrt(left / task.spread).mean())
        return self.fits[reading, limited]

    def add_fits(self, count: int, *, limited: bool) -> None:
        """Add fits to the work done."""
        once, per_channel = LIMITED_FIT_WORK if limited else FIT_WORK
        C, _, own = self.samples.friction.shape
        more = _fit_work(C, own + self.samples.equation.rigid_column_count)
        self.work.done += count * (once + per_channel * C + more)

    def weighted_geometric_error(self, reading: Reading) -> float:
        """Geometric mean NRMSE of a fit to all samples, weighted by what is left: least where they are likeliest."""
        self.add_fits(1, limited=False)
        task = ReadingTask(self, reading)
        left = task.residual_squares(
            task.fit_unknowns(task.channel_weights(self._fit_all_samples(reading, False)[0]), limited=False)
        )
        return float(np.exp(0.5 * np.log(np.maximum(left / task.spread, 1e-12)).mean()))

    def held_out_errors(self, reading: Reading) -> Array:
        """NRMSE (channels,) on held-out stretches of time, of fits within the limits of physics."""
        return np.asarray(np.sqrt(self._held_out_squares(reading).sum(axis=0)))

    def errors_of_folds(self, reading: Reading) -> Array:
        """Mean NRMSE (folds,) on the stretches of each fold while they were held out."""
        return np.asarray(np.sqrt(len(FOLDS) * self._held_out_squares(reading)).mean(axis=1))

    def _held_out_squares(self, reading: Reading) -> Array:
        """Sums of squared residuals (folds, channels) on held-out stretches, relative to the torque."""
        if reading not in self._held_out:
            task = ReadingTask(self, reading)
            self.work.done += _rows_work(task.equations.rows)
            self.add_fits(len(FOLDS), limited=True)
            weights = task.channel_weights(self._fit_all_samples(reading, True)[0])
            left = [task.residual_squares(task.fit_unknowns(weights, fold), fold) for fold in range(len(FOLDS))]
            self._held_out[reading] = np.array(left) / task.spread
        return self._held_out[reading]


class ReadingTask:
    """Normal equations of one reading, with its torques."""

    def __init__(self, refit: Refit, reading: Reading) -> None:
        joints, self.equations = refit.samples.joints, refit.normal_equations(reading)
        self.count, self.channels = len(refit.samples), np.arange(len(joints))
        self.source = [joints.index(reading.tau_order[j]) for j in joints]
        self.gain = np.array([reading.gain[j] for j in joints])
        _, power, spread = refit.delayed_torques(reading.delay)
        self.power, self.spread = power[:, self.source] * self.gain**2, spread[self.source] * self.gain**2
        self.spread = np.maximum(self.spread, 1e-12 * max(float(self.spread.max()), 1e-300))

    def channel_weights(self, left: Array | None) -> Array:
        """Weights of the channels: one over the variance of the torque, or of what was left of it."""
        return np.asarray(self.count / (self.spread if left is None else np.maximum(left, 1e-8 * self.spread)))

    def _products_with_own_torque(self, products: Array) -> Array:
        """Products (channels, k) with each channel's own torque, out of (channels, k, torques)."""
        return np.asarray(products[self.channels, :, self.source] * self.gain[:, None])

    def fit_unknowns(self, weights: Array, fold: int | None = None, *, limited: bool = True) -> Array:
        """Unknowns (channels, k), own and shared ones, that fit all samples, or all but those of a fold.

        Limits are kept by non-negative least squares on the dual.
        """
        from scipy.optimize import nnls

        equations, roots = self.equations, np.sqrt(weights)[:, None]
        reduced = equations.reduced_equations if fold is None else equations.reduced_without_fold(fold)
        scale, L = reduced.cholesky_factor(weights)
        alone, shared = (
            roots * self._products_with_own_torque(reduced.torque),
            scale * (weights @ self._products_with_own_torque(reduced.pull)),
        )
        own, u = alone.size, np.append(alone, _solve_triangular(L, shared))
        if limited:
            c, k = np.nonzero(equations.positive & (reduced.scale > 0.0))
            i, alone = np.arange(len(c)), reduced.inverse[c, :, k]
            across = (alone[:, None] @ reduced.across[c])[:, 0] * (roots[c] * -scale)
            M = np.zeros((len(u), len(c) + len(equations.limits)))
            M[:own].reshape(len(roots), -1, M.shape[1])[c, :, i] = alone
            M[own:] = _solve_triangular(L, np.concatenate([across, equations.limits * scale]).T)
            M /= np.maximum(np.sqrt((M * M).sum(axis=0)), 1e-300)
            if (u @ M).min(initial=0.0) < 0.0:
                u = u + M @ nnls(M, -u, maxiter=30 * M.shape[1])[0]
        shared = scale * _solve_triangular(L, u[own:], transposed=True)
        rest = u[:own].reshape(len(roots), -1) / roots - reduced.across @ shared
        alone = reduced.scale * (rest[:, None] @ reduced.inverse)[:, 0]
        return np.hstack([alone, np.tile(shared, (len(roots), 1))])

    def residual_squares(self, x: Array, fold: int | None = None) -> Array:
        """Sums of squared residuals (channels,) with unknowns (channels, k)."""
        if self.equations.has_many_columns:
            equations = self.equations
            rows, tau = (equations.rows, equations.tau) if fold is None else equations.rows_of_fold(fold)
            left = tau[:, self.source] * self.gain - (rows @ x[:, :, None])[:, :, 0].T
            return np.asarray((left**2).sum(axis=0))
        gram, pull = (
            self.equations.row_products if fold is None else (y[fold] for y in self.equations.row_products_of_folds)
        )
        power = (self.power if fold is None else self.power[list(FOLDS[fold])]).sum(axis=0)
        left = (
            power
            - 2.0 * (x * self._products_with_own_torque(pull)).sum(axis=1)
            + ((gram @ x[:, :, None])[:, :, 0] * x).sum(axis=1)
        )
        return np.asarray(np.maximum(left, 0.0))

    def best_torque_signs(self) -> Array:
        """Signs (channels,) of the torques of least error of a free fit; the opposite ones fit alike.

        What a fit explains is |P s|^2, s the signs and column c of P what channel c pulls: the best of all signs where
        channels are few, else those of the largest singular vector, turned one by one while that helps.
        """
        P = self._whitened_pulls(self.channel_weights(None))
        C = P.shape[1]
        if C <= MOST_SIGNS:
            signs = 1.0 - 2.0 * ((np.arange(2 ** (C - 1))[:, None] >> np.arange(C)) & 1)
            return np.asarray(signs[((signs @ P.T) ** 2).sum(axis=1).argmax()])
        Q = P.T @ P
        s = np.where(np.linalg.eigh(Q)[1][:, -1] < 0.0, -1.0, 1.0)
        for _ in range(C):
            gains = -s * (Q @ s) + np.diag(Q)  # a quarter of what turning each sign adds
            if gains.max() <= 0.0:
                break
            s[gains.argmax()] *= -1.0
        return s

    def _whitened_pulls(self, weights: Array) -> Array:
        """Whitened right-hand sides (shared unknowns, channels), one for each channel's torque."""
        reduced = self.equations.reduced_equations
        scale, L = reduced.cholesky_factor(weights)
        return _solve_triangular(L, (weights[:, None] * self._products_with_own_torque(reduced.pull) * scale).T)

    def best_torque_factors(self) -> Array:
        """Factor (channels,) of each channel's torque that suits the others' parameters, as a further unknown."""
        weights, reduced = self.channel_weights(None), self.equations.reduced_equations
        pulls = self._whitened_pulls(weights)
        own = (self._products_with_own_torque(reduced.torque) ** 2).sum(axis=1)
        left = weights * ((1.0 + RIDGE) * self.power.sum(axis=0) - own) - (pulls**2).sum(axis=0)
        return np.asarray(((pulls.sum(axis=1)[:, None] - pulls) * pulls).sum(axis=0) / np.maximum(left, 1e-300))


def _sums_over_folds(stretches: Array) -> Array:
    """Sums over the stretches of every fold."""
    return np.array([stretches[list(fold)].sum(axis=0) for fold in FOLDS])


def _inverse_square_roots(diagonal: Array) -> Array:
    """One over the square roots, 0 where there is none."""
    return np.where(diagonal > 0.0, 1.0 / np.sqrt(np.maximum(diagonal, 1e-300)), 0.0)


def _solve_triangular(L: Array, b: Array, *, transposed: bool = False) -> Array:
    """Solve with a lower triangular matrix, or with its transpose."""
    return np.asarray(scipy.linalg.lapack.dtrtrs(L.T, b, lower=0, trans=0 if transposed else 1)[0])
