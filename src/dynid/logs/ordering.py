"""Rows of a log in order of time: what cannot be used is left out, late rows are sorted in, equal stamps are spread."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dynid.logs.findings import ChannelWatch, Findings
from dynid.logs.log import Samples
from dynid.logs.stray_times import FEW, LATE, StrayTimes, are_usable_times
from dynid.robot.transform import Array

MOST = 65_536
"""Rows that may share one time stamp; a clock that stands longer gives no time at all."""


def rows_in_time_order(
    chunks: Iterator[Samples], step: float, saturation: Array, found: Findings, watch: ChannelWatch | None = None
) -> Iterator[tuple[bool, Samples]]:
    """Yield (whether the clock was set back here, finite samples with increasing time); step: the usual one (s).

    watch: looks at the channels of the log, and for rubbish rows, which are left out.
    """
    queue = _TimeOrderQueue(step, found)
    restarted = False
    for samples in drop_stray_times(chunks, step, found, watch):
        for restart, part in split_at_restarts(_drop_saturated(samples, saturation, found), queue.newest, step):
            if restart:
                found.restarts += 1
                ready = queue.flush()
                if len(ready):
                    yield restarted, ready
                restarted = True
            ready = queue.push_rows(part)
            if len(ready):
                yield restarted, ready
                restarted = False
    ready = queue.flush()
    if len(ready):
        yield restarted, ready


def finite_rows(samples: Samples) -> NDArray[np.bool_]:
    """Mask of the rows with a finite time and nothing but finite values."""
    good = are_usable_times(samples.t)
    with np.errstate(invalid="ignore", over="ignore"):
        for x in recorded_channels(samples):
            if x is not None and not np.isfinite(x.sum()):  # an infinity or NaN anywhere shows in the sum
                good &= np.isfinite(x.sum(axis=1))
    return good


Rows = NDArray[np.int64]


def drop_stray_times(
    chunks: Iterator[Samples], step: float, found: Findings, watch: ChannelWatch | None = None
) -> Iterator[Samples]:
    """Yield the rows that are finite and not corrupt and whose times belong to the recording; others are counted."""
    strays = StrayTimes(step)
    held: list[Samples] = []
    places: list[Rows] = []  # in the file, of the rows that are held

    def release_judged_rows(final: bool) -> Samples:
        """Rows whose times are judged, without stray ones; the rest waits."""
        nonlocal held, places
        samples, rows = concatenate_samples(held), np.concatenate(places)
        good = strays.find_belonging(samples.t, final=final)
        found.strays.add_rows(rows[: len(good)][~good])
        rest = slice(len(good), None)
        held, places = ([], []) if len(good) == len(rows) else ([samples.select_rows(rest)], [rows[rest]])
        return samples.select_rows(slice(0, len(good)) if good.all() else np.flatnonzero(good))

    finite = _drop_missing(chunks, found, watch)
    for samples, rows in finite if watch is None else _drop_corrupt_rows(finite, found, watch):
        held.append(samples)
        places.append(rows)
        if sum(map(len, places)) > LATE + FEW:
            yield release_judged_rows(False)
    if held:
        yield release_judged_rows(True)


def _drop_missing(
    chunks: Iterator[Samples], found: Findings, watch: ChannelWatch | None
) -> Iterator[tuple[Samples, Rows]]:
    """Yield the finite rows with their places in the file, and count the others."""
    row = 0
    for samples in chunks:
        samples = samples if watch is None else zero_missing_torques(samples, watch.joints)
        good, huge = finite_rows(samples), np.isfinite(samples.t) & ~are_usable_times(samples.t)
        missing = np.flatnonzero(~good & ~huge & found.is_in_interval(samples.t))
        found.strays.add_rows(row + np.flatnonzero(huge))
        found.missing.add_rows(row + missing)
        if watch is not None and len(missing):
            watch.count_missing_values(samples.select_rows(missing))
        yield samples if good.all() else samples.select_rows(np.flatnonzero(good)), row + np.flatnonzero(good)
        row += len(samples)
        found.samples += found.count_in_interval(samples.t)


def _drop_corrupt_rows(
    pieces: Iterator[tuple[Samples, Rows]], found: Findings, watch: ChannelWatch
) -> Iterator[tuple[Samples, Rows]]:
    """Yield rows without corrupt values and count the others; the last rows of a piece wait for the next ones."""
    rest: tuple[Samples, Rows] | None = None

    def judge_rows(samples: Samples, rows: Rows) -> tuple[Samples, Rows]:
        """The rows that are usable; the watch looks at those that count."""
        inside = found.is_in_interval(samples.t)
        good = watch.usable_rows(samples, rows, inside)
        if not good.all():
            samples, rows, inside = samples.select_rows(np.flatnonzero(good)), rows[good], inside[good]
        if inside.all():
            watch.add_usable_rows(samples, rows)
        else:
            watch.add_usable_rows(samples.select_rows(np.flatnonzero(inside)), rows[inside])
        moving = ~watch.are_frozen(samples.t) if len(watch.frozen_times) else inside[:0]
        return (samples.select_rows(np.flatnonzero(moving)), rows[moving]) if len(moving) else (samples, rows)

    for samples, rows in pieces:
        if rest is not None:
            samples, rows = concatenate_samples([rest[0], samples]), np.concatenate([rest[1], rows])
        ready = watch.stray.decidable_row_count(samples)
        rest = None if ready == len(rows) else (samples.select_rows(slice(ready, None)), rows[ready:])
        yield judge_rows(samples.select_rows(slice(0, ready)), rows[:ready])
    if rest is not None:
        yield judge_rows(*rest)
    watch.close_log()


def zero_missing_torques(samples: Samples, joints: Sequence[int]) -> Samples:
    """Samples with zeros in place of missing torques of joints that are not used."""
    if samples.tau is None or len(joints) == samples.tau.shape[1]:
        return samples
    unused = np.ones(samples.tau.shape[1], dtype=np.bool_)
    unused[list(joints)] = False
    return replace(samples, tau=np.where(unused & ~np.isfinite(samples.tau), 0.0, samples.tau))


def _drop_saturated(samples: Samples, saturation: Array, found: Findings) -> Samples:
    """Samples without rows whose torque is at its saturation level, which are counted."""
    if samples.tau is None or not np.isfinite(saturation).any():
        return samples
    good = np.asarray((np.abs(samples.tau) < saturation).all(axis=1))
    found.saturated += found.count_in_interval(samples.t[~good])
    return samples if good.all() else samples.select_rows(np.flatnonzero(good))


def split_at_restarts(samples: Samples, newest: float, step: float) -> Iterator[tuple[bool, Samples]]:
    """Yield (whether the clock was set back before these, samples): back by more than 1 s and 100 steps."""
    if not len(samples):
        return
    places = np.flatnonzero(np.diff(samples.t, prepend=newest) < -max(1.0, 100.0 * step)).tolist()
    if not places:
        yield False, samples
        return
    for start, stop in itertools.pairwise(sorted({0, *places, len(samples)})):
        yield start in places, samples.select_rows(slice(start, stop))


class _TimeOrderQueue:
    """Rows on their way: the last ones wait for rows that come late, and for the next time stamp."""

    def __init__(self, step: float, found: Findings) -> None:
        self.step, self.found = step, found
        self._reset()

    def _reset(self) -> None:
        """Drop all waiting rows and begin anew."""
        self.held: Samples | None = None
        self.newest = self.given = -np.inf  # time of the last row that came, and that was handed out
        self.position: Array | None = None

    def push_rows(self, part: Samples) -> Samples:
        """Add the next rows, which are not empty, and return those that are ready."""
        self.found.out_of_order += self.found.count_in_interval(part.t[np.diff(part.t, prepend=self.newest) < 0.0])
        self.newest = float(part.t[-1])
        rows = part if self.held is None else concatenate_samples([self.held, part])
        if np.any(np.diff(rows.t) < 0.0):
            rows = rows.select_rows(np.argsort(rows.t, kind="stable"))
        late = int(np.searchsorted(rows.t, self.given, side="right"))
        self.found.late += self.found.count_in_interval(rows.t[:late])
        stop = max(late, int(np.searchsorted(rows.t, rows.t[-LATE]))) if len(rows) > LATE else late
        self.held = rows.select_rows(slice(stop, None))
        if len(self.held) > MOST:
            self.found.repeated_times += self.found.count_in_interval(self.held.t[1:])
            self.held = self.held.select_rows(slice(-1, None))
        return self._release_rows(
            rows.select_rows(slice(late, stop)), float(self.held.t[0]) if len(self.held) else np.inf
        )

    def flush(self) -> Samples:
        """Return all waiting rows and begin anew."""
        rows = _NOTHING if self.held is None else self._release_rows(self.held, np.inf)
        self._reset()
        return rows

    def _release_rows(self, rows: Samples, following: float) -> Samples:
        """Return sorted rows with strictly increasing time, stamps resolved."""
        if not len(rows):
            return rows
        rows = resolve_duplicate_stamps(rows, following, self.step, self.found)
        self.given = float(rows.t[-1])
        same = np.flatnonzero(rows.q[1:, 0] == rows.q[:-1, 0])  # few, as a rule: the other joints of these only
        repeated = rows.t[same + 1][(rows.q[same + 1] == rows.q[same]).all(axis=1)]
        before = self.position is not None and bool((rows.q[0] == self.position).all())
        self.found.repeated_positions += self.found.count_in_interval(repeated) + self.found.count_in_interval(
            rows.t[:before]
        )
        self.position = rows.q[-1].copy()
        return rows


def resolve_duplicate_stamps(rows: Samples, following: float, step: float, found: Findings) -> Samples:
    """Drop repeated rows and spread other rows of one stamp, as a rounded clock gives them, up to the next stamp.

    Where positions are the same too, the row is a repetition and left out; else the rows are spread evenly up to
    the next stamp (`following` after the last one), at most the usual step apart.
    """
    same = np.diff(rows.t) <= 0.0
    if not same.any():
        return rows
    again = np.append(False, same & (rows.q[1:] == rows.q[:-1]).all(axis=1))
    found.repeated_times += found.count_in_interval(rows.t[again])
    rows = rows.select_rows(np.flatnonzero(~again))
    stamps, starts, counts = np.unique(rows.t, return_index=True, return_counts=True)
    found.spread_times += found.count_in_interval(rows.t) - found.count_in_interval(stamps)
    apart = np.minimum(np.diff(stamps, append=following) / counts, step)
    rank = np.arange(len(rows)) - np.repeat(starts, counts)
    return map_samples(rows, rows.t + rank * np.repeat(apart, counts), lambda x: x)


def recorded_channels(samples: Samples) -> tuple[Array | None, ...]:
    """Arrays of all channels but time, None for those not recorded."""
    return samples.q, samples.v, samples.a, samples.tau, samples.reaction


def map_samples(samples: Samples, t: Array, change: Callable[[Array], Array]) -> Samples:
    """Samples at other times, with `change` applied to every channel."""
    rest = (samples.v, samples.a, samples.tau, samples.reaction)
    return Samples(t, change(samples.q), *(None if x is None else change(x) for x in rest))


def concatenate_samples(pieces: list[Samples]) -> Samples:
    """Concatenate several pieces of samples into one."""
    if len(pieces) == 1:
        return pieces[0]
    t, q = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("t", "q"))
    rest = zip(*((p.v, p.a, p.tau, p.reaction) for p in pieces), strict=True)
    return Samples(t, q, *(None if any(x is None for x in xs) else np.concatenate([*xs]) for xs in rest))


_NOTHING = Samples(np.zeros(0), np.zeros((0, 0)))


# Positions that were recorded modulo a turn, made continuous again.


SLOWEST = 10.0
"""Sampling rate (Hz) below which a joint may really move half a turn between two samples."""


class Unwrapper:
    """Unwraps positions chunk by chunk: a jump of more than half a turn is a turn of the counter."""

    def __init__(self, turning: NDArray[np.bool_], rate: float) -> None:
        self.turning = np.flatnonzero(turning) if rate >= SLOWEST else np.zeros(0, dtype=np.int64)
        self.last: Array | None = None
        self.added = np.zeros(len(self.turning))

    def unwrap(self, q: Array, found: Findings | None = None, t: Array | None = None) -> Array:
        """Continuous positions (N, n); q itself where nothing jumps. found: where turns, at instants t, are counted."""
        if not len(self.turning) or not len(q):
            return q
        angles = q[:, self.turning]
        steps = np.diff(angles, axis=0, prepend=angles[:1] if self.last is None else self.last)
        self.last = angles[-1:].copy()
        jumps = np.abs(steps).max() > np.pi
        if not jumps and not self.added.any():
            return q
        whole = np.round(steps / (2.0 * np.pi))
        if found is not None:
            rows = np.nonzero(whole)[0]
            found.unwrapped += len(rows) if t is None else found.count_in_interval(t[rows])
        added = self.added - 2.0 * np.pi * np.cumsum(whole, axis=0)
        self.added = added[-1]
        out = q.copy()
        out[:, self.turning] += added
        return out
