"""What a recording holds, by its values: the same samples are found again in a copy, a part or another format."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from dynid.logs.log import Samples
from dynid.robot.transform import Array

Marks = NDArray[np.uint64]

RUN = 16
"""Successive rows behind a mark. Rounded values of two recordings may meet by chance, but not so often in a row."""

KEPT = 2048
"""Marks of a recording that are kept, spread over it evenly whatever its length."""

_WEIGHTS: Marks = np.random.default_rng(1991).integers(0, 1 << 63, 4096, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_FACTOR, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
_ALL, _LOWER = np.uint64((1 << 64) - 1), np.uint64((1 << 32) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """Marks of a recording, increasing, at `times` (s): the smallest of all.

    A mark belongs to RUN successive rows (to all, where there are fewer): its upper half is a hash of the first row,
    its lower half one of all of them. Rows that repeat the row before do not count.
    """

    marks: Marks
    times: Array

    @property
    def largest_possible_mark(self) -> np.uint64:
        """Largest mark that would have been kept."""
        return _ALL if len(self.marks) < KEPT else np.uint64(self.marks[-1])

    def shared_intervals(self, other: Content) -> list[tuple[float, float]]:
        """Intervals of time (s) in which this recording holds samples of another one."""
        known = self.marks <= min(self.largest_possible_mark, other.largest_possible_mark)
        order = np.argsort(self.times[known], kind="stable")
        t, same = self.times[known][order], np.isin(self.marks[known], other.marks)[order]
        if len(t) and same.all():
            return [(-np.inf, np.inf)]
        edges = np.flatnonzero(np.diff(same, prepend=False, append=False)).reshape(-1, 2)
        bounds = np.concatenate([[-np.inf], t, [np.inf]])
        return [(float(bounds[start]), float(bounds[stop + 1])) for start, stop in edges.tolist() if stop - start >= 3]


def find_recordings_alike(contents: Sequence[Content | None], first: int = 0) -> Iterator[tuple[int, Iterator[int]]]:
    """Recordings from the `first` on that share marks with earlier ones: their places, and those of the others.

    Others come in increasing order and are looked for while they are taken: of many copies one is enough.
    """
    marks = [np.zeros(0, dtype=np.uint64) if x is None else x.marks for x in contents]
    known, count = np.unique(np.concatenate(marks), return_counts=True) if marks else (marks, np.zeros(0))
    shared = known[count > 1]
    holders: dict[int, list[int]] = {}
    for place, own in enumerate(marks):
        some = own[np.isin(own, shared, assume_unique=True)].tolist() if len(shared) else []
        earlier = [holders[mark] for mark in some if mark in holders]
        if earlier and place >= first:
            yield place, _merge_places(earlier)
        for mark in some:
            holders.setdefault(mark, []).append(place)


def _merge_places(increasing: list[list[int]]) -> Iterator[int]:
    """Places of several lists, each once, in increasing order."""
    return (place for place, _ in groupby(heapq.merge(*increasing)))


@dataclass(frozen=True, slots=True, eq=False)
class _HashedRows:
    """Keys and times (N,) of successive rows, and their values (N, n) by channel, as bits."""

    keys: Marks
    t: Array
    values: tuple[Marks, ...]

    def select_rows(self, part: slice | NDArray[np.int64]) -> _HashedRows:
        """Return some of the rows."""
        return _HashedRows(self.keys[part], self.t[part], tuple(x[part] for x in self.values))

    def append_rows(self, after: _HashedRows) -> _HashedRows:
        """Return these rows with others after them."""
        values = zip(self.values, after.values, strict=True)
        keys, t = np.concatenate([self.keys, after.keys]), np.concatenate([self.t, after.t])
        return _HashedRows(keys, t, tuple(np.concatenate(pair) for pair in values))


class ContentMarker:
    """Marks the content of a recording while it is read, in little memory."""

    def __init__(self) -> None:
        self._held: _HashedRows | None = None  # the last rows, which begin runs that go on
        self._content = Content(np.zeros(0, dtype=np.uint64), np.zeros(0))

    def add_samples(self, samples: Samples) -> None:
        """Add the next samples: positions, and torques or else forces on the base."""
        if not len(samples):
            return
        measured = samples.reaction if samples.tau is None else samples.tau
        values = tuple(np.ascontiguousarray(x).view(np.uint64) for x in (samples.q, measured) if x is not None)
        rows = _HashedRows(_hash_some_columns(values), samples.t, values)
        before = rows.keys[:1] + np.uint64(1) if self._held is None else self._held.keys[-1:]
        fresh = np.flatnonzero(np.diff(rows.keys, prepend=before))
        rows = rows if len(fresh) == len(samples) else rows.select_rows(fresh)
        if self._held is not None:
            edge = self._held.append_rows(rows.select_rows(slice(0, RUN - 1)))
            self._mark_runs(edge)
            rows = rows if len(rows.keys) >= RUN else edge
        self._mark_runs(rows)
        self._held = rows.select_rows(slice(-RUN + 1, None))

    def _mark_runs(self, rows: _HashedRows, run: int = RUN) -> None:
        """Add the marks of all complete runs of rows."""
        keys = rows.keys[: max(0, len(rows.keys) - run + 1)]
        some = np.flatnonzero(keys <= (self._content.largest_possible_mark | _LOWER))
        if len(some) > KEPT:
            some = some[keys[some] <= (np.partition(keys[some], KEPT)[KEPT] | _LOWER)]
        if not len(some):
            return
        windows = [x[some[:, None] + np.arange(run)].reshape(len(some), -1) for x in rows.values]
        marks = (keys[some] & ~_LOWER) | (_hash_rows(np.concatenate(windows, axis=1)) >> _HALF)
        together, first = np.unique(np.concatenate([self._content.marks, marks]), return_index=True)
        self._content = Content(together[:KEPT], np.concatenate([self._content.times, rows.t[some]])[first[:KEPT]])

    def content(self) -> Content:
        """Content of what was added; of a recording that is shorter than a run, one mark."""
        if self._held is not None and not len(self._content.marks):
            self._mark_runs(self._held, len(self._held.keys))
        return self._content


def _mix_bits(x: Marks) -> Marks:
    """Scramble hashes so that similar values get unrelated ones."""
    x = (x ^ (x >> _HALF)) * _FACTOR
    return np.asarray(x ^ (x >> np.uint64(29)))


def _hash_rows(rows: Marks) -> Marks:
    """A hash (N,) of every row."""
    return _mix_bits(np.asarray(np.einsum("ij,j->i", rows, np.resize(_WEIGHTS, rows.shape[1]))))


def _hash_some_columns(values: tuple[Marks, ...]) -> Marks:
    """A hash (N,) of every row by three columns of each channel, which is three times faster than by all."""
    total = np.zeros(len(values[0]), dtype=np.uint64)
    for k, x in enumerate(values):
        for j in (0, x.shape[1] // 2, x.shape[1] - 1):
            total += x[:, j] * _WEIGHTS[31 * k + j]
    return _mix_bits(total)
