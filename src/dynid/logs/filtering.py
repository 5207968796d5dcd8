"""What is done to a log before its rows are written: cut-off, velocities and accelerations, decimation."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dynid.concurrency import cached_property
from dynid.dynamics.kernels.threads import run_on_sample_ranges
from dynid.logs.log import Samples
from dynid.logs.segments import Window
from dynid.robot.motion import Motion
from dynid.robot.transform import Array

# The zero-phase low-pass: a Butterworth filter of order 4 run forwards and backwards, as a linear-phase FIR.
#
# Its gain is 1 / (1 + (tan(w/2) / tan(wc/2))^8), that of scipy's filtfilt with butter(4). The impulse response is
# symmetric and dies out exponentially, so it is cut where the rest is small: a filter with finite memory, which
# streams, stops at gaps and, with decimation, is computed only for the samples that are kept.


TOGETHER = 8
"""Outputs per matrix product; twice as many where columns are few, or the calls would cost most."""

WIDE = 64


@dataclass(frozen=True)
class Lowpass:
    """A cut-off (Hz) at a sampling rate (Hz); `rest` of the impulse response is cut off."""

    cutoff: float
    rate: float
    rest: float = 1e-4

    @cached_property
    def _impulse_responses(self) -> tuple[Array, Array, Array]:
        """Impulse responses (2 half + 1,) of the filter and of its first two time derivatives."""
        corner = self._cutoff_per_sample
        longest = 2.0 * np.pi / min(corner, np.pi - corner)  # it rings near half the sampling rate too
        size = int(2 ** np.ceil(np.log2(128.0 * max(4.0, longest))))
        w = np.pi * np.arange(size // 2 + 1) / (size // 2)
        with np.errstate(over="ignore"):
            gain = 1.0 / (1.0 + (np.tan(np.minimum(w, np.pi - 1e-9) / 2.0) / np.tan(corner / 2.0)) ** 8)
        h = np.fft.irfft(gain, size)
        outside = np.cumsum(np.abs(h[: size // 2])[::-1])[::-1]  # what is left out beyond each lag
        half = int(np.argmax(outside < self.rest)) if (outside < self.rest).any() else size // 2 - 1
        slope = np.fft.irfft(1j * w * gain * self.rate, size)
        bend = np.fft.irfft(-((w * self.rate) ** 2) * gain, size)
        lags = np.arange(-half, half + 1)
        h, slope, bend = h[lags], slope[lags], bend[lags]
        bend -= h * bend.sum() / h.sum()  # no answer to a constant
        return h / h.sum(), slope, bend

    @property
    def _cutoff_per_sample(self) -> float:
        """Cut-off in rad per sample, below half the sampling rate."""
        return 2.0 * np.pi * min(self.cutoff, 0.499 * self.rate) / self.rate

    @property
    def half_length(self) -> int:
        """Samples that the filter needs on each side."""
        return len(self._impulse_responses[0]) // 2

    @property
    def decimation(self) -> int:
        """Largest step at which filtered samples can be kept: what aliases is below 1e-3."""
        return max(1, int(self.rate / (5.0 * self.cutoff)))

    def smooth(self, x: Array) -> Array:
        """Filtered samples; x (N + 2 half, c) gives (N, c)."""
        return _convolve(x, self._impulse_responses[0])

    def differentiate(self, x: Array) -> Array:
        """Time derivative of the filtered samples, per second; x (N + 2 half, c) gives (N, c)."""
        return _convolve(x, self._impulse_responses[1])

    def differentiate_twice(self, x: Array) -> Array:
        """Second time derivative of the filtered samples, per second squared."""
        return _convolve(x, self._impulse_responses[2])

    def decimate(self, x: Array, step: int, derivative: int = 0) -> Array:
        """Every `step`-th filtered sample (or time derivative), beginning with the first; nothing else is computed.

        Groups of outputs are one matrix product of a small Toeplitz matrix with a window of the samples.
        """
        h = self._impulse_responses[derivative]
        taps, N = len(h), len(x) - 2 * self.half_length
        count = (N - 1) // step + 1 if N > 0 else 0
        out = np.empty((count, x.shape[1]))
        together = TOGETHER if x.shape[1] >= WIDE else 2 * TOGETHER
        toeplitz = np.zeros((together, taps + (together - 1) * step))
        for k in range(together):
            toeplitz[k, k * step : k * step + taps] = h[::-1]

        def filter_range(begin: int, end: int) -> None:
            """Filter output samples from begin to end."""
            for first in range(begin, end, together):
                some = min(together, end - first)
                width = taps + (some - 1) * step
                start = first * step
                np.matmul(toeplitz[:some, :width], x[start : start + width], out=out[first : first + some])

        run_on_sample_ranges(count, filter_range)
        return out


def extend_by_reflection(x: Array, before: int, after: int) -> Array:
    """Continue samples beyond both ends by odd reflection: linear in x, so both sides of an equation may have it."""
    if before == 0 and after == 0:
        return x
    if len(x) == 1:
        return np.repeat(x, before + after + 1, axis=0)
    pad = [(before, after)] + [(0, 0)] * (x.ndim - 1)
    return np.asarray(np.pad(x, pad, mode="reflect", reflect_type="odd"))


def _convolve(x: Array, taps: Array) -> Array:
    """Valid part of the convolution along the first axis, by FFT in blocks."""
    from scipy.signal import oaconvolve

    if x.shape[1] == 0:
        return np.zeros((len(x) - len(taps) + 1, 0))
    columns = np.ascontiguousarray(x.T)
    return np.ascontiguousarray(oaconvolve(columns, taps[None, :], mode="valid", axes=1).T)


THIN = 20.0
"""Thinned rate over cut-off, at least."""

BAND = 5.0
"""Cut-off on the way to the thinned rate, over the cut-off."""


@dataclass(frozen=True)
class Treatment:
    """cutoff in Hz (None: nothing is filtered) at a sampling rate in Hz.

    The same filter is applied to every column and to the measured channels. The motion is filtered before, with a
    cut-off `motion` (the same where missing) that is higher where noise allows; velocities and accelerations that were
    not recorded are derivatives of the filtered signals. A complete motion
    without noise is taken as it is (`smooth=False`). delay (s): how much later torques were recorded than positions.

    A motion that is filtered holds nothing above a few times the cut-off, so its rows are written at a thinned rate
    of at least 20 times the cut-off (every `thinning`-th sample). All signals get there through a low-pass at 5 times
    the cut-off, which leaves the band below the cut-off alone to 3e-6. stride: least instants from row to row, where
    rows are long integrals and neighbours hardly differ. noise (3, n): standard deviations of the white noise of
    recorded positions, velocities and accelerations, None where it is unknown or none.
    """

    rate: float
    cutoff: float | None
    smooth: bool = True
    delay: float = 0.0
    motion: float | None = None
    stride: int = 1
    noise: Array | None = field(default=None, compare=False)

    @cached_property
    def downsampling_step(self) -> int:
        """Samples per instant at which rows are written, before the filter of the rows decimates them."""
        return max(1, int(self.rate / (THIN * self.cutoff))) if self.cutoff is not None and self.smooth else 1

    @property
    def row_writing_rate(self) -> float:
        """Rate (Hz) at which rows are written."""
        return self.rate / self.downsampling_step

    @cached_property
    def downsampling_filter(self) -> Lowpass | None:
        """Filter that brings all signals to the downsampled rate; None without downsampling."""
        return (
            Lowpass(BAND * self.cutoff, self.rate) if self.cutoff is not None and self.downsampling_step > 1 else None
        )

    @cached_property
    def motion_filter(self) -> Lowpass | None:
        """Filter of positions and their derivatives at the downsampled rate, cut off where 1e-8 is left."""
        return (
            Lowpass(self.motion or self.cutoff, self.row_writing_rate, 1e-8)
            if self.cutoff is not None and self.smooth
            else None
        )

    @cached_property
    def row_filter(self) -> Lowpass | None:
        """Filter of columns and torques at the downsampled rate, with decimation."""
        return None if self.cutoff is None else Lowpass(self.cutoff, self.row_writing_rate)

    @property
    def context_samples(self) -> int:
        """Samples needed on each side of those for which rows are wanted."""
        thin = 0 if self.downsampling_filter is None else self.downsampling_filter.half_length + self.downsampling_step
        filters = (self.motion_filter, self.row_filter)
        return max(
            thin + self.downsampling_step * sum(f.half_length for f in filters if f is not None) + self.delay_samples,
            self.trimmed_samples,
        )

    @property
    def delay_samples(self) -> int:
        """Samples at an end of a segment for which the delay leaves no torque."""
        return int(np.ceil(abs(self.delay) * self.rate))

    @property
    def decimation(self) -> int:
        """Number of instants of the downsampled rate per row."""
        return max(self.stride, 1 if self.row_filter is None else self.row_filter.decimation)

    @property
    def trimmed_samples(self) -> int:
        """Samples at each end of a segment that give no rows.

        Derivatives rest on the filter's continuation there (2 periods), or the delay leaves no torque.
        """
        return self.delay_samples + (
            int(2.0 * self.rate / self.cutoff) if self.cutoff is not None and self.smooth else 0
        )

    @property
    def shortest_segment(self) -> int:
        """Samples below which a segment gives no row worth having."""
        if self.cutoff is None:
            return 1 + 2 * self.trimmed_samples
        return 2 * self.trimmed_samples + max(
            2 * self.decimation * self.downsampling_step, int(self.rate / self.cutoff)
        )


@dataclass(frozen=True, slots=True, eq=False)
class PreparedWindow:
    """Motion and measured channels at the thinned rate; first is the segment's thinned index of the first sample."""

    first: int
    motion: Motion
    measured: Array


def prepare_window(window: Window, treatment: Treatment, measured: Array) -> PreparedWindow:
    """Filter a window's motion and complete it; `measured` (N, channels) goes along, shifted by the delay."""
    first, x, measured = _downsample(window, treatment, _undo_delay(measured, treatment))
    filter_ = treatment.motion_filter
    if filter_ is None:
        assert x.v is not None
        assert x.a is not None
        return _with_measured_channels(window, treatment, first, Motion(x.t, x.q, x.v, x.a), measured)
    half = filter_.half_length
    before, after = (half if window.starts else 0), (half if window.ends else 0)
    q = extend_by_reflection(x.q, before, after)
    v = None if x.v is None else extend_by_reflection(x.v, before, after)
    smooth = filter_.smooth(q)
    velocity = filter_.differentiate(q) if v is None else filter_.smooth(v)
    if x.a is not None:
        acceleration = filter_.smooth(extend_by_reflection(x.a, before, after))
    else:
        acceleration = filter_.differentiate_twice(q) if v is None else filter_.differentiate(v)
    skip = half - before
    inside = slice(skip, skip + len(smooth))
    motion = Motion(x.t[inside], smooth, velocity, acceleration)
    return _with_measured_channels(window, treatment, first + skip, motion, measured[inside])


def _downsample(window: Window, treatment: Treatment, measured: Array) -> tuple[int, Samples, Array]:
    """Filter all signals to the downsampled rate; return them with the index of the first instant in the segment.

    The segment is continued by odd reflection beyond its ends.
    """
    x, filter_, step = window.samples, treatment.downsampling_filter, treatment.downsampling_step
    if filter_ is None:
        return window.first, x, measured
    half = filter_.half_length
    start = window.first + (0 if window.starts else half)
    stop = window.first + len(x) - (0 if window.ends else half)
    first = -(-start // step)
    places = slice(first * step - window.first, stop - window.first, step)
    signals = [y for y in (x.q, x.v, x.a, measured) if y is not None]
    together = np.concatenate(signals, axis=1)
    begin, end = places.start - half, places.start + (len(x.t[places]) - 1) * step + half + 1
    before, after = max(0, -begin), max(0, end - len(together))
    thin = filter_.decimate(extend_by_reflection(together, before, after)[begin + before : end + before], step)
    parts = iter(np.split(thin, np.cumsum([y.shape[1] for y in signals])[:-1], axis=1))
    q, v, a, rest = (None if y is None else next(parts) for y in (x.q, x.v, x.a, measured))
    assert q is not None
    assert rest is not None
    return first, Samples(x.t[places], q, v, a), rest


def _with_measured_channels(
    window: Window, treatment: Treatment, first: int, motion: Motion, measured: Array
) -> PreparedWindow:
    """Prepared window without the samples at the segment's end (or start) for which a delay leaves no torque."""
    lag = -(-treatment.delay_samples // treatment.downsampling_step)
    start = lag if window.starts and treatment.delay < 0.0 else 0
    stop = len(motion) - (lag if window.ends and treatment.delay > 0.0 else 0)
    if start == 0 and stop == len(motion):
        return PreparedWindow(first, motion, measured)
    return PreparedWindow(first + start, motion[start:stop], measured[start:stop])


def _undo_delay(measured: Array, treatment: Treatment) -> Array:
    """Channels as they would have been recorded without the delay, by linear interpolation."""
    shift = treatment.delay * treatment.rate
    if shift == 0.0:
        return measured
    k = np.clip(np.arange(len(measured)) + shift, 0.0, len(measured) - 1.0)
    low = np.minimum(k.astype(np.int64), max(0, len(measured) - 2))
    share = (k - low)[:, None]
    return np.asarray(measured[low] * (1.0 - share) + measured[low + 1] * share)


def filter_and_decimate_rows(
    rows: Array, first: int, core: tuple[int, int], ends: tuple[bool, bool], treatment: Treatment
) -> Array:
    """Filter wide rows and return those at the segment's downsampled indices `kept_indices(core)`.

    rows begin at thinned index `first` of the segment; ends says whether the segment starts and ends with them.
    """
    filter_ = treatment.row_filter
    wanted = kept_indices(core, treatment)
    if filter_ is None:
        return rows[wanted[0] - first : wanted[-1] - first + 1 : treatment.decimation] if len(wanted) else rows[:0]
    if not len(wanted):
        return rows[:0]
    half, step = filter_.half_length, treatment.decimation
    start, stop = int(wanted[0]) - half - first, int(wanted[-1]) + half + 1 - first
    before, after = (max(0, -start) if ends[0] else 0), (max(0, stop - len(rows)) if ends[1] else 0)
    if before or after:
        rows = extend_by_reflection(rows, before, after)
    return filter_.decimate(rows[start + before : stop + before], step)


def kept_indices(core: tuple[int, int], treatment: Treatment) -> NDArray[np.int64]:
    """Downsampled indices in the segment that become rows: every `decimation`-th of a core."""
    step = treatment.decimation
    first = -(-core[0] // step) * step
    return np.arange(first, core[1], step, dtype=np.int64)
