"""A log as windows on regular segments, repaired and resampled in bounded memory, then filtered.

Filtering gives velocities and accelerations below the cut-off frequency, and decimates.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from dynid.concurrency import cached_property
from dynid.dynamics.kernels.threads import run_on_sample_ranges
from dynid.errors import DynidError
from dynid.logs.content import ContentMarker
from dynid.logs.findings import ChannelWatch, Findings, RowsLeftOut
from dynid.logs.log import Log, Samples
from dynid.logs.ordering import Unwrapper, concatenate_samples, map_samples, rows_in_time_order
from dynid.logs.survey import Survey
from dynid.robot.motion import Motion
from dynid.robot.transform import Array

SIZE = 4096
"""Samples in the core of a window; more where the context is long."""

REGULAR = 0.01
"""Share of the usual step by which steps may differ in a log that is taken as recorded."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Samples of one segment with some before and after: rows are wanted for first + core only.

    segment counts the segments of a log; first is the index in the segment of the first sample given here; starts
    and ends say whether the segment does so here. Channels that were not recorded are None.
    """

    segment: int
    first: int
    core: slice
    starts: bool
    ends: bool
    samples: Samples


@dataclass(frozen=True, slots=True)
class Splitting:
    """How a log is cut: context samples on each side of a core, gaps (s) that split, shortest segment (samples).

    regular: samples are wanted on a regular grid. A segment is taken as recorded up to its first step that differs
    from the usual one by more than 1 %; from there on it is interpolated linearly at the usual step. thinning: samples
    of which one will be kept, so that windows may be longer. nearest: torques on the grid are those of the nearest
    sample instead, so that a wrong one stays one.
    """

    context: int
    gap: float
    shortest: int
    regular: bool
    thinning: int = 1
    nearest: bool = False


def windows_of_log(log: Log, seen: Survey, cut: Splitting, found: Findings) -> Iterator[Window]:
    """Yield the windows of a log in order; what was found on the way is counted in `found`.

    The windows do not depend on the chunks in which the log is read.
    """
    found.notes.extend(seen.notes)
    found.interval = log.interval
    watch = None
    if seen.scales:
        watch = ChannelWatch(seen.names, seen.rate, seen.scales, seen.turning, seen.joints, seen.frozen_times)
    for segment, pieces in enumerate(_pieces_by_segment(log, seen, cut, found, watch)):
        yield from _cut_segment_into_windows(segment, pieces, cut, found)
    found.notes.extend(log.left_out)
    add_line_numbers(log, [found.strays, found.missing, *(watch.rows_named_in_messages if watch is not None else ())])
    if watch is not None:
        watch.add_findings(found)


def _cut_segment_into_windows(
    segment: int, pieces: Iterator[Samples], cut: Splitting, found: Findings
) -> Iterator[Window]:
    """Cut one segment into cores of one size; the last window takes what is left."""
    size = max(SIZE * cut.thinning, 12 * cut.context)
    held: list[Samples] = []
    first, done, length = 0, 0, 0  # indices in the segment: first sample held, first one not handed out, end
    for piece in pieces:
        held.append(piece)
        length += len(piece)
        enough = max(done + size + cut.context, cut.shortest)
        if length <= enough:
            continue
        samples = concatenate_samples(held)
        while length > enough:  # one more: the last window has something to give
            start, stop = first, done + size
            part = samples.select_rows(slice(start - first, stop + cut.context - first))
            yield Window(segment, start, slice(done - start, stop - start), start == 0, False, part)
            samples = samples.select_rows(slice(max(first, stop - cut.context) - first, None))
            first, done = max(first, stop - cut.context), stop
            enough = done + size + cut.context
        held = [_copy_samples(samples)]
    if length < cut.shortest:
        found.short_segments += 1
        return
    found.segments += 1
    samples = concatenate_samples(held)
    yield Window(segment, first, slice(done - first, length - first), first == 0, True, samples)


def _copy_samples(samples: Samples) -> Samples:
    """Copy samples, so that the large arrays of which they are views can be freed."""
    return map_samples(samples, samples.t.copy(), np.copy)


def add_line_numbers(log: Log, lists: Sequence[RowsLeftOut]) -> None:
    """Add line numbers in the file to lists of rows, in one pass over it."""
    rows = sorted({row for some in lists for row in some.first})
    word, numbers = log.line_numbers(rows)
    lines = dict(zip(rows, numbers, strict=True))
    for some in lists:
        some.lines = [lines[row] for row in some.first]
        some.text = f"{word} {', '.join(map(str, some.lines))}" if some.lines else ""


def _pieces_by_segment(
    log: Log, seen: Survey, cut: Splitting, found: Findings, watch: ChannelWatch | None
) -> Iterator[Iterator[Samples]]:
    """Yield the regular pieces of a log, grouped by segment; use up each group before the next."""
    stream = _regular_pieces(log, seen, cut, found, watch)
    ahead = [piece for _, piece in itertools.islice(stream, 1)]  # the first piece of the next segment, if any

    def pieces_of_segment() -> Iterator[Samples]:
        """Pieces up to the next break."""
        yield ahead.pop()
        for breaks, piece in stream:
            if breaks:
                ahead.append(piece)
                return
            yield piece

    while ahead:
        yield pieces_of_segment()


def _regular_pieces(
    log: Log, seen: Survey, cut: Splitting, found: Findings, watch: ChannelWatch | None
) -> Iterator[tuple[bool, Samples]]:
    """Yield (whether a new segment begins here, samples cleaned and resampled as the splitting asks)."""
    step = 1.0 / seen.rate
    line: _GridResampler | None = None
    newest = -np.inf
    turns, marking = Unwrapper(seen.turning, seen.rate), ContentMarker()
    begin, end = log.interval
    for restart, recorded in rows_in_time_order(log.chunks_of_whole_recording(), step, seen.saturation, found, watch):
        if restart:
            turns = Unwrapper(seen.turning, seen.rate)
        inside = (recorded.t >= begin) & (recorded.t < end)
        marking.add_samples(recorded if inside.all() else recorded.select_rows(np.flatnonzero(inside)))
        samples = replace(recorded, q=turns.unwrap(recorded.q, found, recorded.t))
        steps = np.diff(samples.t, prepend=newest)
        if line is None or restart:
            steps[0] = 0.0
        breaks = np.flatnonzero(steps > cut.gap).tolist()
        if breaks:
            counted = [k for k in breaks if found.count_in_interval(samples.t[k : k + 1])]
            found.gaps += len(counted)
            found.longest_gap = max(found.longest_gap, *steps[counted].tolist(), 0.0)
        if line is None or restart:
            breaks.insert(0, 0)
        for start, stop in itertools.pairwise(sorted({0, *breaks, len(samples)})):
            begins = start in breaks
            if line is None or begins:
                line = _GridResampler(step, cut, found)
            piece = line.resample_up_to(samples.select_rows(slice(start, stop)))
            if len(piece):
                yield begins, piece
        newest = float(samples.t[-1])
    found.content = marking.content()


class _GridResampler:
    """One segment on its way to a regular grid: as recorded until a step is irregular, interpolated from there on."""

    def __init__(self, step: float, cut: Splitting, found: Findings) -> None:
        self.step, self.cut, self.found = step, cut, found
        self.last: Samples | None = None  # the last recorded sample
        self.origin: float | None = None  # where the grid begins; `count` of its instants are done
        self.count = 0

    def resample_up_to(self, part: Samples) -> Samples:
        """Add samples of the segment; return those on the regular grid up to the last one."""
        before, self.last = self.last, _copy_samples(part.select_rows(slice(-1, None)))
        if not self.cut.regular:
            return part
        if before is None:  # the first sample is where it is
            before = part.select_rows(slice(0, 1))
            steps = np.append(self.step, np.diff(part.t))
        else:
            steps = np.diff(part.t, prepend=before.t[0])
        off = np.abs(steps - self.step)
        if off.max() <= REGULAR * self.step and self.origin is None:
            return part
        self.found.jitter = max(self.found.jitter, float(off.max()))
        if self.origin is not None:
            return self._interpolate(self.origin, concatenate_samples([before, part]))
        place = int(np.argmax(off > REGULAR * self.step))
        as_recorded = part.select_rows(slice(0, place))
        if place:
            before = part.select_rows(slice(place - 1, place))
        self.origin, self.count = float(before.t[0]), 1
        return concatenate_samples(
            [
                as_recorded,
                self._interpolate(self.origin, concatenate_samples([before, part.select_rows(slice(place, None))])),
            ]
        )

    def _interpolate(self, origin: float, known: Samples) -> Samples:
        """Values at the instants of the grid that lie between the samples; times count from the origin."""
        t = known.t - origin
        stop = int(t[-1] / self.step) + 1
        grid = self.step * np.arange(self.count, stop, dtype=np.float64)
        self.count = stop
        self.found.resampled += self.found.count_in_interval(origin + grid)
        k = np.clip(np.searchsorted(t, grid, side="right") - 1, 0, len(t) - 2)
        width = t[k + 1] - t[k]
        share = np.divide(grid - t[k], width, out=np.ones(len(grid)), where=width > 0.0)[:, None]
        even = map_samples(known, origin + grid, lambda x: x[k] * (1.0 - share) + x[k + 1] * share)
        if known.tau is None or not self.cut.nearest:
            return even
        return replace(even, tau=known.tau[k + (share[:, 0] > 0.5)])


# The zero-phase low-pass: a Butterworth filter of order 4 run forwards and backwards, as a linear-phase FIR.
#
# Its gain is 1 / (1 + (tan(w/2) / tan(wc/2))^8), that of scipy's filtfilt with butter(4). The impulse response is
# symmetric and dies out exponentially, so it is cut where the rest is small: a filter with finite memory, which
# streams, stops at gaps and, with decimation, is computed only for the samples that are kept.


TOGETHER = 8
"""Outputs per matrix product; twice as many where columns are few, or the calls would cost most."""

WIDE = 64

LONGEST_PERIOD = 5_000
"""Samples in a period of the lowest cut-off: the impulse response has some hundred times as many."""


@dataclass(frozen=True)
class Lowpass:
    """A cut-off (Hz) at a sampling rate (Hz); `rest` of the impulse response is cut off."""

    cutoff: float
    rate: float
    rest: float = 1e-4

    def __post_init__(self) -> None:
        lowest = self.rate / LONGEST_PERIOD
        if not self.cutoff >= lowest:
            raise DynidError(
                "cutoff_too_low", "a cut-off of {cutoff:g} Hz is too low for samples at {rate:.6g} Hz: one period "
                "has more than {samples} of them", "give at least {lowest:.3g} Hz", cutoff=self.cutoff, rate=self.rate,
                samples=LONGEST_PERIOD, lowest=lowest,
            )  # fmt: skip

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
    """Valid part of the convolution along the first axis, by FFT in blocks that overlap."""
    out = np.empty((len(x) - len(taps) + 1, x.shape[1]))
    if not out.size:
        return out
    size = scipy.fft.next_fast_len(min(len(x), max(BLOCK * len(taps), LEAST_BLOCK)), real=True)
    response, step = scipy.fft.rfft(taps, size), size - len(taps) + 1
    columns = np.ascontiguousarray(x.T)
    for start in range(0, len(out), step):
        spectrum = scipy.fft.rfft(columns[:, start : start + size], size, axis=1)
        block = scipy.fft.irfft(spectrum * response, size, axis=1)
        out[start : start + step] = block[:, len(taps) - 1 : len(taps) - 1 + min(step, len(out) - start)].T
    return out


BLOCK, LEAST_BLOCK = 6, 4096
"""Length of such a block over that of the filter, and in samples, at least."""


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


MOST_EXTENDED = 2000
"""Columns that are continued beyond the ends at once."""


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
    if not (before or after):
        return filter_.decimate(rows[start:stop], step)
    out = np.empty((len(wanted), rows.shape[1]))
    for column in range(0, rows.shape[1], MOST_EXTENDED):  # of wide rows some at a time: they are copied
        some = slice(column, column + MOST_EXTENDED)
        longer = extend_by_reflection(rows[:, some], before, after)
        out[:, some] = filter_.decimate(longer[start + before : stop + before], step)
    return out


def kept_indices(core: tuple[int, int], treatment: Treatment) -> NDArray[np.int64]:
    """Downsampled indices in the segment that become rows: every `decimation`-th of a core."""
    step = treatment.decimation
    first = -(-core[0] // step) * step
    return np.arange(first, core[1], step, dtype=np.int64)
