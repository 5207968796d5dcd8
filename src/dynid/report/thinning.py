"""Long curves with few points that hide no peak: the lowest and the highest sample of every bin."""

from __future__ import annotations

import numpy as np

from dynid.robot.transform import Array


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

    def add(self, t: Array, x: Array, segment: int = 0) -> None:
        """Take rows (N, K) at instants t (N,) in their order; where the segment is another, curves are broken."""
        if segment != self.segment:
            self.close()
            self.segment = segment
        self.t, self.x = np.concatenate([self.t, t]), np.concatenate([self.x, x])
        whole = len(self.t) // self.width * self.width
        if whole:
            self._store(whole, self.width)
        while len(self.segments) > 2 * self.most:
            self._halve()

    def close(self) -> None:
        """Make a bin of the rows that wait."""
        if len(self.t):
            self._store(len(self.t), len(self.t))

    def curve(self, signal: int) -> tuple[Array, Array]:
        """Instants and values of one signal, NaN between segments."""
        self.close()
        t, x = self.bins_t[:, :, signal], self.bins_x[:, :, signal]
        twice = np.stack([np.ones(len(t), dtype=np.bool_), t[:, 1] != t[:, 0]], axis=1)
        places = np.repeat(self.segments[:, None], 2, axis=1)[twice]
        breaks = np.flatnonzero(np.diff(places)) + 1
        return np.insert(t[twice], breaks, np.nan), np.insert(x[twice], breaks, np.nan)

    def _store(self, rows: int, width: int) -> None:
        x = self.x[:rows].reshape(rows // width, width, -1)
        t = np.broadcast_to(self.t[:rows].reshape(rows // width, width, 1), x.shape)
        bins_t, bins_x = _extremes(t, x)
        self.bins_t, self.bins_x = np.concatenate([self.bins_t, bins_t]), np.concatenate([self.bins_x, bins_x])
        self.segments = np.concatenate([self.segments, np.full(len(bins_t), self.segment)])
        self.t, self.x = self.t[rows:], self.x[rows:]

    def _halve(self) -> None:
        count = len(self.segments) // 2
        pairs = (count, 4, self.bins_x.shape[2])
        t, x = _extremes(self.bins_t[: 2 * count].reshape(pairs), self.bins_x[: 2 * count].reshape(pairs))
        self.bins_t = np.concatenate([t, self.bins_t[2 * count :]])
        self.bins_x = np.concatenate([x, self.bins_x[2 * count :]])
        self.segments = np.concatenate([self.segments[: 2 * count : 2], self.segments[2 * count :]])
        self.width *= 2


def _extremes(t: Array, x: Array) -> tuple[Array, Array]:
    """Lowest and highest of bins (B, w, K), in order of time: (B, 2, K) both."""
    places = np.sort(np.stack([x.argmin(axis=1), x.argmax(axis=1)], axis=1), axis=1)
    return np.take_along_axis(t, places, axis=1), np.take_along_axis(x, places, axis=1)


class Cloud:
    """Some of many points, evenly spread over the rows: every k-th, k doubled when they become too many."""

    def __init__(self, most: int) -> None:
        self.most, self.every, self.seen = most, 1, 0
        self.points: Array | None = None

    def add(self, points: Array) -> None:
        """Take points (N, K)."""
        first = -self.seen % self.every
        self.seen += len(points)
        some = points[first :: self.every]
        self.points = some.copy() if self.points is None else np.concatenate([self.points, some])
        while len(self.points) > 2 * self.most:
            self.points = self.points[::2]
            self.every *= 2
