"""A log read again with the treatment of a result: what was measured, what the result predicts, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.dynamics.friction import STOP
from dynid.errors import DynidError, LogError
from dynid.estimation.accumulate.logs import treatment_of_further_log
from dynid.estimation.identification import Identification
from dynid.estimation.regression.equation import ChannelColumns, Equation
from dynid.estimation.regression.rows import Rows, rows_of_log
from dynid.logs.cutoff import power_spectrum
from dynid.logs.filtering import Treatment
from dynid.logs.findings import Findings
from dynid.logs.log import Log, logs_with_common_progress
from dynid.logs.survey import Survey, survey
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

# Where in frequency a motion and its torques are: power densities of the first rows of a log.


ROWS = 32_768
SPECTRUM_POINTS = 160
"""Frequencies that are drawn, at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """Densities (frequencies, joints) of velocities and of torques (None where these were not used), f in Hz."""

    f: Array
    velocity: Array
    torque: Array | None


def find_spectrum(seen: Survey, has_torques: bool) -> Spectrum:
    """Spectra of the first rows on a regular grid; positions stand for velocities."""
    x = seen.samples.select_rows(slice(0, ROWS))
    f, S = power_spectrum(x.t, x.q, seen.rate)
    velocity = S * (2.0 * np.pi * f[:, None]) ** 2
    torque = power_spectrum(x.t, x.tau, seen.rate)[1] if has_torques and x.tau is not None else None
    bounds = _bin_starts(len(f))
    middle = np.array([f[start] for start in bounds])
    thin = [None if y is None else np.maximum.reduceat(y, bounds, axis=0) for y in (velocity, torque)]
    assert thin[0] is not None
    return Spectrum(middle, thin[0], thin[1])


def _bin_starts(count: int) -> list[int]:
    """Starts of bins that grow with frequency; the constant part is left out."""
    edges = np.unique(np.geomspace(1, max(count - 1, 1), SPECTRUM_POINTS).astype(int))
    return [int(k) for k in edges if k < count] or [0]


# Long curves with few points that hide no peak: the lowest and the highest sample of every bin.


class Envelope:
    """Rows of C channels, each of S signals, that hold the extremes of some signals in bins of equally many rows.

    It is filled while a log is read. There are at most 2 `most` bins: when there are more, neighbours merge and bins
    become twice as long. A bin keeps the rows in which a signal of `keys` is lowest and highest, for each channel its
    own, with their instants and all signals: every peak stays where it was, and signals of a channel stay comparable.
    """

    def __init__(self, channels: int, most: int, *, signals: int = 1, keys: tuple[int, ...] = (0,)) -> None:
        self.most, self.keys, self.width, self.segment = most, keys, 1, -1
        self.bins_t = np.empty((0, 2 * len(keys), channels))
        self.bins_x = np.empty((0, 2 * len(keys), channels, signals))
        self.segments = np.empty(0, dtype=np.int64)
        self.t, self.x = np.empty(0), np.empty((0, channels, signals))

    def add_rows(self, t: Array, x: Array, segment: int = 0) -> None:
        """Add rows (N, C, S) at instants t (N,) in their order; a new segment breaks the curves."""
        if segment != self.segment:
            self.finish_last_bin()
            self.segment = segment
        self.t, self.x = np.concatenate([self.t, t]), np.concatenate([self.x, x])
        whole = len(self.t) // self.width * self.width
        if whole:
            self._store_bins(whole, self.width)
        while len(self.segments) > 2 * self.most:
            self._merge_bins_in_pairs()

    def finish_last_bin(self) -> None:
        """Store the waiting rows as the last bin."""
        if len(self.t):
            self._store_bins(len(self.t), len(self.t))

    def curves(self, channel: int) -> tuple[Array, Array]:
        """Instants (K,) and all signals (K, S) of one channel, NaN between segments."""
        self.finish_last_bin()
        t, x = self.bins_t[:, :, channel], self.bins_x[:, :, channel]
        new = np.concatenate([np.ones((len(t), 1), dtype=np.bool_), t[:, 1:] != t[:, :-1]], axis=1)
        places = np.repeat(self.segments[:, None], t.shape[1], axis=1)[new]
        breaks = np.flatnonzero(np.diff(places)) + 1
        return np.insert(t[new], breaks, np.nan), np.insert(x[new], breaks, np.nan, axis=0)

    def _store_bins(self, rows: int, width: int) -> None:
        """Store so many waiting rows as bins of this width."""
        x = self.x[:rows].reshape(rows // width, width, *self.x.shape[1:])
        t = np.broadcast_to(self.t[:rows].reshape(rows // width, width, 1), x.shape[:3])
        bins_t, bins_x = self._extremes_of_bins(t, x)
        self.bins_t, self.bins_x = np.concatenate([self.bins_t, bins_t]), np.concatenate([self.bins_x, bins_x])
        self.segments = np.concatenate([self.segments, np.full(len(bins_t), self.segment)])
        self.t, self.x = self.t[rows:], self.x[rows:]

    def _merge_bins_in_pairs(self) -> None:
        """Halve the number of bins."""
        count = len(self.segments) // 2
        t = self.bins_t[: 2 * count].reshape(count, -1, self.bins_t.shape[2])
        t, x = self._extremes_of_bins(t, self.bins_x[: 2 * count].reshape(*t.shape, -1))
        self.bins_t = np.concatenate([t, self.bins_t[2 * count :]])
        self.bins_x = np.concatenate([x, self.bins_x[2 * count :]])
        self.segments = np.concatenate([self.segments[: 2 * count : 2], self.segments[2 * count :]])
        self.width *= 2

    def _extremes_of_bins(self, t: Array, x: Array) -> tuple[Array, Array]:
        """Rows of the extremes in bins (B, w, C, S), in order of time: (B, 2 keys, C) and (B, 2 keys, C, S)."""
        found = [place for k in self.keys for place in (x[..., k].argmin(axis=1), x[..., k].argmax(axis=1))]
        places = np.sort(np.stack(found, axis=1), axis=1)
        return np.take_along_axis(t, places, axis=1), np.take_along_axis(x, places[..., None], axis=1)


class PointSample:
    """Some of many points, evenly spread over the rows: every k-th, k doubled when they become too many."""

    def __init__(self, most: int) -> None:
        self.most, self.every, self.seen = most, 1, 0
        self.points: Array | None = None

    def add_points(self, points: Array) -> None:
        """Add further points (N, K); every other one is dropped when they become too many."""
        first = -self.seen % self.every
        self.seen += len(points)
        some = points[first :: self.every]
        self.points = some.copy() if self.points is None else np.concatenate([self.points, some])
        while len(self.points) > 2 * self.most:
            self.points = self.points[::2]
            self.every *= 2


ROWS_DRAWN = 20_000
"""Rows of all channels of all logs of a page together, about."""

POSES = 500
"""Poses of a recording that a page can show, at least, where it has so many."""

CLOUD = 700
"""Points of a cloud, about."""

OF_VELOCITY = ("viscous", "coulomb", "offset", "tanh", "quadratic", "asymmetry", "stribeck")
"""Friction blocks that are curves over the velocity, beside the stop operators."""


LATE = 16384.0
"""Instant (s) from which on single precision is coarser than a millisecond."""

MOMENTS, APART = 12, 0.3
"""Largest residuals of a channel that are kept, and seconds between two of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """A peak of a channel's residual: instant, value, and the motion there (q, v, a of all joints)."""

    channel: int
    t: float
    residual: float
    measured: float
    q: Array
    v: Array
    a: Array


class LargestResiduals:
    """Peaks of the residuals of C channels, found while a log is read; of close ones the largest stays."""

    def __init__(self, channels: int) -> None:
        self.moments: list[list[Moment]] = [[] for _ in range(channels)]

    def add_rows(self, rows: Rows, measured: Array, residual: Array) -> None:
        """Add rows with measured channels and residuals (K, C)."""
        size = np.abs(residual)
        beside = np.pad(size, ((1, 1), (0, 0)), constant_values=-1.0)
        peaks = (size >= beside[:-2]) & (size >= beside[2:])
        for c, known in enumerate(self.moments):
            least = abs(known[-1].residual) if len(known) == MOMENTS else -1.0
            places = np.flatnonzero(peaks[:, c] & (size[:, c] > least))
            for k in places[np.argsort(-size[places, c], kind="stable")][: 4 * MOMENTS].tolist():
                known.append(Moment(
                    c, float(rows.t[k]), float(residual[k, c]), float(measured[k, c]),
                    *(np.array(x[k]) for x in (rows.q, rows.v, rows.a)),
                ))  # fmt: skip
            self.moments[c] = _largest_apart(known)


def _largest_apart(moments: list[Moment]) -> list[Moment]:
    """Largest moments of a channel, at most `MOMENTS`, none close to a larger one."""
    kept: list[Moment] = []
    for one in sorted(moments, key=lambda moment: -abs(moment.residual)):
        if len(kept) < MOMENTS and all(abs(one.t - other.t) >= APART for other in kept):
            kept.append(one)
    return kept


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """One log as the result sees it.

    curves: measured, identified, residual and, where the robot has nominal values, nominal torque of every channel;
    positions of every joint; moments: largest residuals of every channel; poses (K, 1 + n): instants and positions,
    those of the moments among them. clouds: of every torque channel (velocity, torque that friction must explain),
    empty where that has no meaning; rmse, nrmse per channel; nominal_nrmse: of the nominal values, where there are any.
    """

    name: str
    findings: Findings
    curves: Envelope
    positions: Envelope
    moments: tuple[tuple[Moment, ...], ...]
    poses: Array
    clouds: tuple[Array, ...]
    spectrum: Spectrum
    rmse: Array
    nrmse: Array
    nominal_nrmse: Array | None = None

    @property
    def time_origin(self) -> float:
        """Instant from which the page counts, s: 0 unless instants are too late for single precision."""
        first, last = float(self.poses[0, 0]), float(self.poses[-1, 0])
        return 0.0 if max(abs(first), abs(last)) < LATE else float(np.floor(first))

    def curve_of_channel(self, kind: int, channel: int) -> tuple[Array, Array]:
        """Instants and values: kind 0 is measured, 1 identified, 2 the residual, 3 nominal."""
        t, x = self.curves.curves(channel)
        return t, x[:, kind]


def replay_logs(
    result: Identification,
    logs: Sequence[Log],
    *,
    fitted: bool,
    pages: int = 1,
    with_nominal: bool = True,
    on_progress: Callable[[str, float], None] | None = None,
) -> tuple[Replay, ...]:
    """Read logs again and predict them; fitted: they are those of the result; pages: how many logs share the page.

    with_nominal: by the nominal values as well, where the robot has them.
    """
    logs = logs_with_common_progress(logs, on_progress, "drawing")
    nominal = nominal_column_values(result) if with_nominal else None
    return tuple(_replay_log(result, log, k if fitted else 0, pages, nominal) for k, log in enumerate(logs))


def column_values(result: Identification, log: int) -> Array:
    """Values in the order of the equation's columns; offsets are those of one log."""
    values = dict(zip(result.names, result.values.tolist(), strict=True))
    return np.array([values.get(name, values.get(name.of_log(log + 1), 0.0)) for name in result.equation.names])


def nominal_column_values(result: Identification) -> Array | None:
    """Values of the equation's columns by the robot file; None where it does not state all inertial ones.

    Friction that the file does not state counts as none, and so do offsets and columns of the user.
    """
    nominal = nominal_values_by_name(result)
    inertial = result.equation.base.names
    if not inertial or any(name not in nominal for name in inertial):
        return None
    return np.array([nominal.get(name, 0.0) for name in result.equation.names])


def nominal_values_by_name(result: Identification, robot: Robot | None = None) -> dict[str, float]:
    """Nominal values of the result's parameters, where the robot file states them, or those of another robot."""
    base, robot = result.equation.base, robot or result.robot
    known: dict[str, float] = {}
    with suppress(DynidError):  # no nominal values in this notation
        known |= dict(zip(base.names, map(float, base.values(robot.parameters)), strict=True))
    known |= nominal_friction_by_name(robot)
    return {name: value for name, value in known.items() if np.isfinite(value)}


def nominal_friction_by_name(robot: Robot) -> dict[str, float]:
    """Nominal friction of all joints, from the robot file, by parameter name."""
    symbols = {"viscous": "Fv", "coulomb": "Fc", "offset": "Fo"}
    links = [robot.links[k] for k in robot.active_links]
    return {symbols[block] + link.label: x for link in links for block, x in link.friction if block in symbols}


def is_velocity_friction(block: str) -> bool:
    """Whether a friction block is a curve over the velocity."""
    return block in OF_VELOCITY or STOP.fullmatch(block) is not None


def _treatment_of_log(result: Identification, log: Log, seen: Survey) -> Treatment:
    """Treatment of a log as the identification treats further logs; LogError where that is not possible."""
    if result.cutoff is None:
        if seen.samples.v is None or seen.samples.a is None:
            raise LogError(
                log.name, "missing_derivatives", "it has no velocities or accelerations, which this result was made "
                "from",
            )  # fmt: skip
    elif result.cutoff >= 0.5 * seen.rate:
        raise LogError(
            log.name, "sampling_below_cutoff", "its {rate:.4g} Hz are too slow for the result's cut-off of "
            "{cutoff:.4g} Hz", rate=seen.rate, cutoff=result.cutoff,
        )  # fmt: skip
    return treatment_of_further_log(seen, result.cutoff, result.delay)


def _replay_log(result: Identification, log: Log, number: int, pages: int, nominal: Array | None) -> Replay:
    """Read one log again and predict its channels."""
    equation = result.equation
    seen = survey(log, equation.robot, measured=equation.options.required_channels, joints=equation.joints)
    treatment = _treatment_of_log(result, log, seen)
    found = Findings(log.name, seen.rate, notes=list(log.notes))
    C, n = len(equation.channels), equation.robot.n
    most = int(np.clip(ROWS_DRAWN / (8 * C * max(1, pages)), 50, 300))  # up to two times as many bins of four rows
    curves = Envelope(C, most, signals=3 if nominal is None else 4, keys=(0, 2))
    positions, poses, largest = Envelope(n, 150), PointSample(POSES), LargestResiduals(C)
    gauge = _ReplaySums(equation, column_values(result, min(number, len(result.factors) - 1)), nominal)
    for rows in rows_of_log(equation, log, number=number, seen=seen, treatment=treatment, found=found):
        signals = gauge.predict_and_accumulate(rows)
        curves.add_rows(rows.t, signals, rows.segment)
        positions.add_rows(rows.t, rows.q[:, :, None], rows.segment)
        poses.add_points(np.column_stack([rows.t, rows.q]))
        largest.add_rows(rows, signals[:, :, 0], signals[:, :, 2])
    if not gauge.count:
        raise LogError(log.name, "log_short_for_filter", "no piece of it is long enough for the result's filter")
    assert poses.points is not None
    marked = [[m.t, *m.q] for moments in largest.moments for m in moments]
    return Replay(
        log.name, found, curves, positions, tuple(map(tuple, largest.moments)),
        np.unique(np.concatenate([poses.points, np.reshape(marked, (-1, n + 1))]), axis=0),
        tuple(np.empty((0, 2)) if cloud.points is None else cloud.points for cloud in gauge.clouds),
        find_spectrum(seen, equation.options.has_torques), np.sqrt(gauge.squares / gauge.count),
        gauge.errors(gauge.squares), None if nominal is None else gauge.errors(gauge.nominal_squares),
    )  # fmt: skip


class _ReplaySums:
    """Sums and clouds under way."""

    def __init__(self, equation: Equation, values: Array, nominal: Array | None) -> None:
        C = len(equation.channels)
        self.equation, self.values, self.nominal, self.nominal_squares = equation, values, nominal, np.zeros(C)
        self.count, self.squares, self.mean, self.power = 0, np.zeros(C), np.zeros(C), np.zeros(C)
        friction = (
            equation.is_direct_drive and equation.options.model in ("torque", "torque+reaction") and equation.friction
        )
        self.shared = (
            [_velocity_friction_columns(equation, channel) for channel in equation.torque_channels] if friction else []
        )
        self.clouds = [PointSample(CLOUD) for _ in self.shared]

    def errors(self, squares: Array) -> Array:
        """NRMSE of the channels by sums of squares of their residuals."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.sqrt(squares / self.count) / np.sqrt(self.power / self.count))

    def predict_and_accumulate(self, rows: Rows) -> Array:
        """Signals (K, C, 3 or 4) as in `Replay.curves` of some rows, which are also added to the sums of errors."""
        measured, predicted, nominal = [], [], []
        for c, channel in enumerate(self.equation.channels):
            own, values = channel.rows_in_wide(rows.wide), self.values[channel.columns]
            y = own[:, :-1] @ values
            measured.append(own[:, -1].copy())
            predicted.append(y)
            if self.nominal is not None:
                nominal.append(own[:, :-1] @ self.nominal[channel.columns])
            if c < len(self.clouds):
                shown = own[:, -1] - y + own[:, :-1][:, self.shared[c]] @ values[self.shared[c]]
                self.clouds[c].add_points(np.column_stack([rows.v[:, channel.joint], shown]))
        y, p = np.column_stack(measured), np.column_stack(predicted)
        self._update_mean_and_spread(y, p)
        signals = [y, p, y - p]
        if nominal:
            signals.append(np.column_stack(nominal))
            self.nominal_squares += ((y - signals[3]) ** 2).sum(axis=0)
        return np.stack(signals, axis=2)

    def _update_mean_and_spread(self, y: Array, p: Array) -> None:
        """Update mean and spread of measured channels part by part (Chan, Golub & LeVeque): nothing cancels."""
        before, self.count = self.count, self.count + len(y)
        self.squares += ((y - p) ** 2).sum(axis=0)
        shift = y.mean(axis=0) - self.mean
        self.power += ((y - y.mean(axis=0)) ** 2).sum(axis=0) + shift**2 * before * len(y) / self.count
        self.mean += shift * len(y) / self.count


def _velocity_friction_columns(equation: Equation, channel: ChannelColumns) -> NDArray[np.bool_]:
    """Mask of a channel's columns that are friction over the velocity."""
    blocks = [columns for name, columns in equation.columns_by_friction_block.items() if is_velocity_friction(name)]
    return np.isin(channel.columns, np.concatenate(blocks) if blocks else np.empty(0, dtype=np.int64))
