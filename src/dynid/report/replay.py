"""A log read again with the treatment of a result: what was measured, what the result predicts, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.dynamics.friction import STOP
from dynid.errors import LogError
from dynid.estimation.accumulate.logs import treatment_of_further_log
from dynid.estimation.identification import Identification
from dynid.estimation.regression.equation import ChannelColumns, Equation
from dynid.estimation.regression.rows import Rows, rows_of_log
from dynid.logs.cutoff import power_spectrum
from dynid.logs.filtering import Treatment
from dynid.logs.findings import Findings
from dynid.logs.log import Log, logs_with_common_progress
from dynid.logs.survey import Survey, survey
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
    """Extremes of K signals in bins of equally many rows, filled while a log is read.

    There are at most 2 `most` bins: when there are more, neighbours merge and bins become twice as long. A bin keeps
    the lowest and the highest row of each signal, with their own instants, so every peak stays where it was.
    """

    def __init__(self, signals: int, most: int) -> None:
        self.most, self.width, self.segment = most, 1, -1
        self.bins_t, self.bins_x = np.empty((0, 2, signals)), np.empty((0, 2, signals))
        self.segments = np.empty(0, dtype=np.int64)
        self.t, self.x = np.empty(0), np.empty((0, signals))

    def add_rows(self, t: Array, x: Array, segment: int = 0) -> None:
        """Add rows (N, K) at instants t (N,) in their order; a new segment breaks the curves."""
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

    def curve(self, signal: int) -> tuple[Array, Array]:
        """Instants and values of one signal, NaN between segments."""
        self.finish_last_bin()
        t, x = self.bins_t[:, :, signal], self.bins_x[:, :, signal]
        twice = np.stack([np.ones(len(t), dtype=np.bool_), t[:, 1] != t[:, 0]], axis=1)
        places = np.repeat(self.segments[:, None], 2, axis=1)[twice]
        breaks = np.flatnonzero(np.diff(places)) + 1
        return np.insert(t[twice], breaks, np.nan), np.insert(x[twice], breaks, np.nan)

    def _store_bins(self, rows: int, width: int) -> None:
        """Store so many waiting rows as bins of this width."""
        x = self.x[:rows].reshape(rows // width, width, -1)
        t = np.broadcast_to(self.t[:rows].reshape(rows // width, width, 1), x.shape)
        bins_t, bins_x = _extremes_of_bins(t, x)
        self.bins_t, self.bins_x = np.concatenate([self.bins_t, bins_t]), np.concatenate([self.bins_x, bins_x])
        self.segments = np.concatenate([self.segments, np.full(len(bins_t), self.segment)])
        self.t, self.x = self.t[rows:], self.x[rows:]

    def _merge_bins_in_pairs(self) -> None:
        """Halve the number of bins."""
        count = len(self.segments) // 2
        pairs = (count, 4, self.bins_x.shape[2])
        t, x = _extremes_of_bins(self.bins_t[: 2 * count].reshape(pairs), self.bins_x[: 2 * count].reshape(pairs))
        self.bins_t = np.concatenate([t, self.bins_t[2 * count :]])
        self.bins_x = np.concatenate([x, self.bins_x[2 * count :]])
        self.segments = np.concatenate([self.segments[: 2 * count : 2], self.segments[2 * count :]])
        self.width *= 2


def _extremes_of_bins(t: Array, x: Array) -> tuple[Array, Array]:
    """Lowest and highest of bins (B, w, K), in order of time: (B, 2, K) both."""
    places = np.sort(np.stack([x.argmin(axis=1), x.argmax(axis=1)], axis=1), axis=1)
    return np.take_along_axis(t, places, axis=1), np.take_along_axis(x, places, axis=1)


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


POINTS = 9_000
"""Bins of all channels of all logs of a page together."""

CLOUD = 700
"""Points of a cloud, about."""

OF_VELOCITY = ("viscous", "coulomb", "offset", "tanh", "quadratic", "asymmetry", "stribeck")
"""Friction blocks that are curves over the velocity, beside the stop operators."""


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """One log as the result sees it.

    curves: measured, predicted and residual of every channel, one after the other; clouds: of every torque channel
    (velocity, torque that friction must explain), empty where that has no meaning; rmse, nrmse per channel.
    """

    name: str
    findings: Findings
    curves: Envelope
    clouds: tuple[Array, ...]
    spectrum: Spectrum
    rmse: Array
    nrmse: Array

    def curve_of_channel(self, kind: int, channel: int) -> tuple[Array, Array]:
        """Instants and values: kind 0 is measured, 1 predicted, 2 the residual."""
        return self.curves.curve(kind * len(self.rmse) + channel)


def replay_logs(
    result: Identification,
    logs: Sequence[Log],
    *,
    fitted: bool,
    pages: int = 1,
    on_progress: Callable[[str, float], None] | None = None,
) -> tuple[Replay, ...]:
    """Read logs again and predict them; fitted: they are those of the result; pages: how many logs share the page."""
    logs = logs_with_common_progress(logs, on_progress, "drawing")
    return tuple(_replay_log(result, log, k if fitted else 0, pages) for k, log in enumerate(logs))


def column_values(result: Identification, log: int) -> Array:
    """Values in the order of the equation's columns; offsets are those of one log."""
    values = dict(zip(result.names, result.values.tolist(), strict=True))
    return np.array([values.get(name, values.get(name.of_log(log + 1), 0.0)) for name in result.equation.names])


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


def _replay_log(result: Identification, log: Log, number: int, pages: int) -> Replay:
    """Read one log again and predict its channels."""
    equation = result.equation
    seen = survey(log, equation.robot, measured=equation.options.required_channels, joints=equation.joints)
    treatment = _treatment_of_log(result, log, seen)
    found = Findings(log.name, seen.rate, notes=list(log.notes))
    C = len(equation.channels)
    curves = Envelope(3 * C, int(np.clip(POINTS / (C * max(1, pages)), 100, 500)))
    gauge = _ReplaySums(equation, column_values(result, min(number, len(result.factors) - 1)))
    for rows in rows_of_log(equation, log, number=number, seen=seen, treatment=treatment, found=found):
        measured, predicted = gauge.predict_and_accumulate(rows)
        curves.add_rows(rows.t, np.concatenate([measured, predicted, measured - predicted], axis=1), rows.segment)
    if not gauge.count:
        raise LogError(log.name, "log_short_for_filter", "no piece of it is long enough for the result's filter")
    clouds = tuple(np.empty((0, 2)) if cloud.points is None else cloud.points for cloud in gauge.clouds)
    rmse = np.sqrt(gauge.squares / gauge.count)
    with np.errstate(divide="ignore", invalid="ignore"):
        nrmse = rmse / gauge.measured_deviation
    return Replay(log.name, found, curves, clouds, find_spectrum(seen, equation.options.has_torques), rmse, nrmse)


class _ReplaySums:
    """Sums and clouds under way."""

    def __init__(self, equation: Equation, values: Array) -> None:
        C = len(equation.channels)
        self.equation, self.values = equation, values
        self.count, self.squares, self.mean, self.power = 0, np.zeros(C), np.zeros(C), np.zeros(C)
        friction = (
            equation.is_direct_drive and equation.options.model in ("torque", "torque+reaction") and equation.friction
        )
        self.shared = (
            [_velocity_friction_columns(equation, channel) for channel in equation.torque_channels] if friction else []
        )
        self.clouds = [PointSample(CLOUD) for _ in self.shared]

    @property
    def measured_deviation(self) -> Array:
        """Standard deviation of the measured channels."""
        return np.sqrt(self.power / self.count)

    def predict_and_accumulate(self, rows: Rows) -> tuple[Array, Array]:
        """Measured and predicted channels (K, C) of some rows, which are also added to the sums of errors."""
        measured, predicted = [], []
        for c, channel in enumerate(self.equation.channels):
            own, values = channel.rows_in_wide(rows.wide), self.values[channel.columns]
            y = own[:, :-1] @ values
            measured.append(own[:, -1].copy())
            predicted.append(y)
            if c < len(self.clouds):
                shown = own[:, -1] - y + own[:, :-1][:, self.shared[c]] @ values[self.shared[c]]
                self.clouds[c].add_points(np.column_stack([rows.v[:, channel.joint], shown]))
        y, p = np.column_stack(measured), np.column_stack(predicted)
        self._update_mean_and_spread(y, p)
        return y, p

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
