"""A log as windows on regular segments: repaired, resampled and split at gaps, in bounded memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dynid.data.findings import Findings
from dynid.data.log import Log, Samples
from dynid.data.survey import Survey
from dynid.robot.transform import Array

SIZE = 16_384
REGULAR = 0.01


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
    """How a log is cut: context samples on each side of a core, gaps (s) that split, shortest segment (samples)."""

    context: int
    gap: float
    shortest: int
    regular: bool


def windows(log: Log, seen: Survey, cut: Splitting, found: Findings) -> Iterator[Window]:
    """Yield the windows of a log in order; what was found on the way is counted in `found`."""
    for segment, pieces in enumerate(_segments(log, seen, cut, found)):
        yield from _windows_of(segment, pieces, cut, found)


def _windows_of(segment: int, pieces: Iterator[Samples], cut: Splitting, found: Findings) -> Iterator[Window]:
    """Cut one segment; the last window takes what is left."""
    held: list[Samples] = []
    first, done = 0, 0  # index of the first sample held; rows before `done` have been handed out
    counted = False
    for piece in pieces:
        held.append(piece)
        length = first + sum(map(len, held))
        if length - cut.context - done >= SIZE and length >= cut.shortest:
            samples = join(held)
            stop = length - cut.context
            yield Window(segment, first, slice(done - first, stop - first), first == 0, False, samples)
            counted = True
            keep = max(first, stop - cut.context)
            held = [samples.take(slice(keep - first, None))]
            first, done = keep, stop
    if not held:
        return
    samples = join(held)
    length = first + len(samples)
    if length < cut.shortest and not counted:
        found.short_segments += 1
        return
    found.segments += 1
    if length > done:
        yield Window(segment, first, slice(done - first, length - first), first == 0, True, samples)


def _segments(log: Log, seen: Survey, cut: Splitting, found: Findings) -> Iterator[Iterator[Samples]]:
    """Group the pieces of a log by segment; each group must be used up before the next is asked for."""
    stream = _pieces(log, seen, cut, found)
    ahead = next(stream, None)
    while ahead is not None:
        state: list[tuple[bool, Samples] | None] = [ahead]

        def group(state: list[tuple[bool, Samples] | None] = state) -> Iterator[Samples]:
            assert state[0] is not None
            yield state[0][1]
            state[0] = None
            for breaks, piece in stream:
                if breaks:
                    state[0] = (breaks, piece)
                    return
                yield piece

        yield group()
        ahead = state[0]


def _pieces(log: Log, seen: Survey, cut: Splitting, found: Findings) -> Iterator[tuple[bool, Samples]]:
    """Yield (a new segment begins here, regular samples)."""
    step = 1.0 / seen.rate
    last: Samples | None = None  # what resampling goes on from
    for restart, samples in _clean(log, seen, found):
        if last is None or restart:
            joined, new = samples, True
        else:
            joined, new = join([last, samples]), False
        steps = np.diff(joined.t)
        places = np.flatnonzero(steps > cut.gap)
        found.gaps += len(places)
        if len(places):
            found.longest_gap = max(found.longest_gap, float(steps.max()))
        bounds = [0, *(int(k) + 1 for k in places), len(joined)]
        for number, (start, stop) in enumerate(itertools.pairwise(bounds)):
            part = joined.take(slice(start, stop)) if len(bounds) > 2 else joined
            continued = number == 0 and not new
            even = _regular(part, step, continued, cut.regular, found)
            if len(even):
                yield (number > 0 or new), even
            last = _left_over(part, even)


def _left_over(part: Samples, even: Samples) -> Samples:
    """What the next piece goes on from: the last sample on the grid and the recorded ones after it."""
    if not len(even):
        return part
    after = part.take(slice(int(np.searchsorted(part.t, even.t[-1], side="right")), None))
    return join([even.take(slice(-1, None)), after]) if len(after) else even.take(slice(-1, None))


def _regular(part: Samples, step: float, continued: bool, wanted: bool, found: Findings) -> Samples:
    """Samples on the grid; the first one of a continued piece was handed out before."""
    skip = 1 if continued else 0
    steps = np.diff(part.t)
    off = float(np.abs(steps - step).max()) if len(steps) else 0.0
    if not wanted or off <= REGULAR * step:
        return part.take(slice(skip, None))
    found.jitter = max(found.jitter, off)
    count = int(np.floor((part.t[-1] - part.t[0]) / step + 1e-9))
    t = part.t[0] + step * np.arange(skip, count + 1)
    found.resampled += len(t)
    return Samples(t, *(_interpolated(t, part.t, x) for x in _channels(part)))


def _interpolated(t: Array, known: Array, x: Array | None) -> Array | None:
    if x is None:
        return None
    k = np.clip(np.searchsorted(known, t, side="right") - 1, 0, len(known) - 2)
    share = ((t - known[k]) / (known[k + 1] - known[k]))[:, None]
    return np.asarray(x[k] * (1.0 - share) + x[k + 1] * share)


def _clean(log: Log, seen: Survey, found: Findings) -> Iterator[tuple[bool, Samples]]:
    """Yield (the clock was set back here, finite samples in order of time without repetition)."""
    last = -np.inf
    back = max(1.0, 100.0 / seen.rate)
    for samples in log.surroundings():
        found.samples += len(samples)
        for restart, part in _split_at_restarts(_finite(samples, seen, found), last, back):
            found.restarts += restart
            ordered = _ordered(part, -np.inf if restart else last, found)
            if len(ordered):
                held = (np.diff(ordered.q, axis=0) == 0.0).all(axis=1)
                found.repeated_positions += int(held.sum())
                yield restart, ordered
                last = float(ordered.t[-1])


def _finite(samples: Samples, seen: Survey, found: Findings) -> Samples:
    good = np.isfinite(samples.t)
    for x in _channels(samples):
        if x is not None:
            sums = x.sum(axis=1)  # an infinity or NaN anywhere shows in the sum
            good &= np.isfinite(sums)
    found.not_finite += int((~good).sum())
    if samples.tau is not None and np.isfinite(seen.saturation).any():
        cut = (np.abs(samples.tau) >= seen.saturation).any(axis=1) & good
        found.saturated += int(cut.sum())
        good &= ~cut
    return samples if good.all() else samples.take(np.flatnonzero(good))


def _split_at_restarts(samples: Samples, last: float, back: float) -> Iterator[tuple[bool, Samples]]:
    if not len(samples):
        return
    t = np.concatenate([[last], samples.t])
    places = [int(k) for k in np.flatnonzero(np.diff(t) < -back)]
    bounds = sorted({0, *places, len(samples)})
    for start, stop in itertools.pairwise(bounds):
        yield start in places, samples.take(slice(start, stop)) if len(bounds) > 2 else samples


def _ordered(samples: Samples, last: float, found: Findings) -> Samples:
    steps = np.diff(samples.t)
    if len(steps) == 0 or steps.min() > 0.0:
        return samples if samples.t[0] > last else _after(samples, last, found)
    found.out_of_order += int((steps < 0.0).sum())
    _, places = np.unique(samples.t, return_index=True)
    found.repeated_times += len(samples) - len(places)
    return _after(samples.take(places), last, found)


def _after(samples: Samples, last: float, found: Findings) -> Samples:
    late = samples.t > last
    found.repeated_times += int((~late).sum())
    return samples if late.all() else samples.take(np.flatnonzero(late))


def _channels(samples: Samples) -> tuple[Array | None, ...]:
    return samples.q, samples.v, samples.a, samples.tau, samples.reaction


def join(pieces: list[Samples]) -> Samples:
    """One run of samples from several."""
    if len(pieces) == 1:
        return pieces[0]
    columns = zip(*(_channels(piece) for piece in pieces), strict=True)
    joined = (None if any(x is None for x in column) else np.concatenate(column) for column in columns)  # type: ignore[arg-type]
    return Samples(np.concatenate([piece.t for piece in pieces]), *joined)
