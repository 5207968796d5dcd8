"""A log as windows on regular segments: repaired, resampled and split at gaps, in bounded memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.logs.content import ContentMarker
from dynid.logs.findings import ChannelWatch, Findings, RowsLeftOut
from dynid.logs.log import Log, Samples
from dynid.logs.ordering import Unwrapper, concatenate_samples, map_samples, rows_in_time_order
from dynid.logs.survey import Survey

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
