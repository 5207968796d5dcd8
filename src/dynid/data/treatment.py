"""What is done to a log before its rows are written: cut-off, velocities and accelerations, decimation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dynid.data.lowpass import Lowpass, extend
from dynid.data.windows import Window
from dynid.robot.motion import Motion
from dynid.robot.transform import Array

THIN = 20.0
"""Thinned rate over cut-off, at least."""

BAND = 5.0
"""Cut-off of the torques' way to the thinned rate, over the cut-off."""


@dataclass(frozen=True)
class Treatment:
    """cutoff in Hz (None: nothing is filtered) at a sampling rate in Hz.

    The same filter is applied to the motion, and then to every column and to the measured channels; velocities and
    accelerations that were not recorded are derivatives of the filtered signals before them. A complete motion
    without noise is taken as it is (`smooth=False`). delay (s): how much later torques were recorded than positions.

    A motion that was filtered holds nothing above a few times the cut-off, so its rows are written at a thinned rate
    of at least 20 times the cut-off (every `thinning`-th sample); torques get there through a low-pass at 5 times the
    cut-off, which leaves the band below the cut-off alone to 3e-6.
    """

    rate: float
    cutoff: float | None
    smooth: bool = True
    delay: float = 0.0

    @cached_property
    def motion_filter(self) -> Lowpass | None:
        """Filter of positions and their derivatives, cut where 1e-8 is left."""
        return Lowpass(self.cutoff, self.rate, 1e-8) if self.cutoff is not None and self.smooth else None

    @cached_property
    def thinning(self) -> int:
        """Samples per instant at which rows are written, before the filter of the rows decimates them."""
        return max(1, int(self.rate / (THIN * self.cutoff))) if self.cutoff is not None and self.smooth else 1

    @property
    def thin_rate(self) -> float:
        """Rate (Hz) at which rows are written."""
        return self.rate / self.thinning

    @cached_property
    def torque_filter(self) -> Lowpass | None:
        """Filter that brings measured channels to the thinned rate."""
        return Lowpass(BAND * self.cutoff, self.rate) if self.cutoff is not None and self.thinning > 1 else None

    @cached_property
    def row_filter(self) -> Lowpass | None:
        """Filter of columns and torques at the thinned rate, with decimation."""
        return None if self.cutoff is None else Lowpass(self.cutoff, self.thin_rate)

    @property
    def context(self) -> int:
        """Samples needed on each side of those for which rows are wanted."""
        motion = 0 if self.motion_filter is None else self.motion_filter.half
        rows = 0 if self.row_filter is None else (self.row_filter.half + 1) * self.thinning
        return max(motion + rows + self.lag, self.trim)

    @property
    def lag(self) -> int:
        """Samples at an end of a segment for which the delay leaves no torque."""
        return int(np.ceil(abs(self.delay) * self.rate))

    @property
    def decimation(self) -> int:
        """Every so many instants of the thinned rate become a row."""
        return 1 if self.row_filter is None else self.row_filter.decimation

    @property
    def trim(self) -> int:
        """Samples at each end of a segment that give no rows.

        Derivatives rest on the filter's continuation there (2 periods), or the delay leaves no torque.
        """
        return self.lag + (int(2.0 * self.rate / self.cutoff) if self.cutoff is not None and self.smooth else 0)

    @property
    def shortest(self) -> int:
        """Samples below which a segment gives no row worth having."""
        if self.cutoff is None:
            return 1 + 2 * self.trim
        return 2 * self.trim + max(2 * self.decimation * self.thinning, int(self.rate / self.cutoff))


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Motion and measured channels at the thinned rate; first is the segment's thinned index of the first sample."""

    first: int
    motion: Motion
    measured: Array


def prepare(window: Window, treatment: Treatment, measured: Array) -> Prepared:
    """Filter a window's motion and complete it; `measured` (N, channels) goes along, shifted by the delay."""
    x = window.samples
    measured = _shifted(measured, treatment)
    filter_ = treatment.motion_filter
    if filter_ is None:
        assert x.v is not None
        assert x.a is not None
        return _with_torques(window, treatment, window.first, Motion(x.t, x.q, x.v, x.a), measured)
    every = _Instants.of(window, filter_.half, treatment.thinning)
    q = every.filtered(x.q, filter_)
    v = every.filtered(x.q, filter_, 1) if x.v is None else every.filtered(x.v, filter_)
    if x.a is not None:
        a = every.filtered(x.a, filter_)
    else:
        a = every.filtered(x.q, filter_, 2) if x.v is None else every.filtered(x.v, filter_, 1)
    motion = Motion(x.t[every.places], q, v, a)
    thin = treatment.torque_filter
    torques = measured[every.places] if thin is None else every.filtered(measured, thin)
    return _with_torques(window, treatment, every.first, motion, torques)


@dataclass(frozen=True, slots=True)
class _Instants:
    """Thinned indices first to stop (left out) of a window's segment for which a filter has all it needs."""

    window: Window
    step: int
    first: int
    stop: int

    @staticmethod
    def of(window: Window, half: int, step: int) -> _Instants:
        start = window.first + (0 if window.starts else half)
        stop = window.first + len(window.samples) - (0 if window.ends else half)
        return _Instants(window, step, -(-start // step), max(-(-start // step), -(-stop // step)))

    @property
    def places(self) -> slice:
        """Where they are in the window."""
        start = self.first * self.step - self.window.first
        return slice(start, start + (self.stop - self.first - 1) * self.step + 1, self.step)

    def filtered(self, x: Array, filter_: Lowpass, derivative: int = 0) -> Array:
        """Filtered samples at these instants; the segment is continued by odd reflection beyond its ends."""
        half = filter_.half
        start = self.places.start - half
        stop = self.places.stop + half
        before, after = max(0, -start), max(0, stop - len(x))
        part = extend(x, before, after)[start + before : stop + before]
        if self.step > 1:
            return filter_.decimate(part, self.step, derivative)
        return (filter_.smooth, filter_.differentiate, filter_.differentiate_twice)[derivative](part)


def _with_torques(window: Window, treatment: Treatment, first: int, motion: Motion, measured: Array) -> Prepared:
    """Leave out the samples at the segment's end (its start, for a negative delay) that have no torque."""
    lag = -(-treatment.lag // treatment.thinning)
    start = lag if window.starts and treatment.delay < 0.0 else 0
    stop = len(motion) - (lag if window.ends and treatment.delay > 0.0 else 0)
    if start == 0 and stop == len(motion):
        return Prepared(first, motion, measured)
    return Prepared(first + start, motion[start:stop], measured[start:stop])


def _shifted(measured: Array, treatment: Treatment) -> Array:
    """Channels as they would have been recorded without the delay, by linear interpolation."""
    shift = treatment.delay * treatment.rate
    if shift == 0.0:
        return measured
    k = np.clip(np.arange(len(measured)) + shift, 0.0, len(measured) - 1.0)
    low = np.minimum(k.astype(np.int64), max(0, len(measured) - 2))
    share = (k - low)[:, None]
    return np.asarray(measured[low] * (1.0 - share) + measured[low + 1] * share)


def decimated(rows: Array, first: int, core: tuple[int, int], ends: tuple[bool, bool], treatment: Treatment) -> Array:
    """Filtered wide rows at the segment's thinned indices of `kept_indices(core)`.

    rows begin at thinned index `first` of the segment; ends says whether the segment starts and ends with them.
    """
    filter_ = treatment.row_filter
    wanted = kept_indices(core, treatment)
    if filter_ is None:
        return rows[wanted[0] - first : wanted[-1] - first + 1] if len(wanted) else rows[:0]
    if not len(wanted):
        return rows[:0]
    half, step = filter_.half, treatment.decimation
    start, stop = int(wanted[0]) - half - first, int(wanted[-1]) + half + 1 - first
    before, after = (max(0, -start) if ends[0] else 0), (max(0, stop - len(rows)) if ends[1] else 0)
    if before or after:
        rows = extend(rows, before, after)
    return filter_.decimate(rows[start + before : stop + before], step)


def kept_indices(core: tuple[int, int], treatment: Treatment) -> NDArray[np.int64]:
    """Thinned indices in the segment that become rows: every `decimation`-th of a core, itself in thinned indices."""
    step = treatment.decimation
    first = -(-core[0] // step) * step
    return np.arange(first, core[1], step, dtype=np.int64)
