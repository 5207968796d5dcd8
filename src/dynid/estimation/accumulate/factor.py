"""Triangular factors: all that least squares needs to know of any number of rows (docs/decisions/0006)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated

import numpy as np
from scipy.linalg.lapack import dgeqrf, dtpqrt

from dynid.robot.transform import Array, freeze
from dynid.storage.records import Bytes, Limit

CHUNK, PANEL, WIDE = 384, 8, 20
"""Rows per chunk, columns per panel and columns from which on long matrices are triangularised in chunks: by trial."""


@dataclass(frozen=True, slots=True, eq=False)
class ChannelFactor:
    """Rows [W | y] of one channel, compressed: R (k, p + 1) with R'R = [W y]'[W y], k <= 2 (p + 1).

    count: rows that it stands for; total: sum of y. Merging is associative and commutative (up to rounding).
    """

    R: Annotated[Array, Bytes(2, finite=True)]
    count: Annotated[int, Limit(ge=0)]
    total: float

    @staticmethod
    def empty(columns: int) -> ChannelFactor:
        """Return a factor without rows."""
        return ChannelFactor(np.zeros((0, columns + 1)), 0, 0.0)

    @staticmethod
    def from_rows(rows: Array) -> ChannelFactor:
        """Compress rows [W | y] into a factor; few rows are kept as they are."""
        return ChannelFactor(triangularise(rows), len(rows), float(rows[:, -1].sum()))

    @property
    def sum_of_squares(self) -> float:
        """Sum of squares of the measured y."""
        return float((self.R[:, -1] ** 2).sum())

    @property
    def sum_of_squares_about_mean(self) -> float:
        """Sum of squares of the measured y about their mean."""
        return max(0.0, self.sum_of_squares - self.total**2 / self.count) if self.count else 0.0

    def residual_squares(self, values: Array) -> float:
        """Sum of squares of y - W values."""
        return float(((self.R[:, -1] - self.R[:, :-1] @ values) ** 2).sum())

    def select_columns(self, columns: Array) -> ChannelFactor:
        """Return the factor with some of the columns of W."""
        return ChannelFactor(self.R[:, [*columns, self.R.shape[1] - 1]], self.count, self.total)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A stretch of one log: a factor per channel, from start to stop (s, the log's time).

    head, tail: what the blocks before and after share of its first and last rows where blocks pass into one another
    (see `jackknife`); noise: what noise of the accelerations alone gives. None of them where no motion was derived.
    unsettled: of its rows at rest or shortly after, which hardly count in `factors`; nothing where there are none.
    """

    log: int
    start: float
    stop: float
    factors: tuple[ChannelFactor, ...]
    head: tuple[ChannelFactor, ...] = ()
    tail: tuple[ChannelFactor, ...] = ()
    noise: tuple[ChannelFactor, ...] = ()
    unsettled: tuple[ChannelFactor, ...] = ()


def merge_factors(factors: Sequence[ChannelFactor]) -> ChannelFactor:
    """Stack factors and triangularise again: order does not matter."""
    if len(factors) == 1:
        return factors[0]
    R = triangularise(np.concatenate([factor.R for factor in factors]))
    return ChannelFactor(R, sum(f.count for f in factors), sum(f.total for f in factors))


def triangularise(rows: Array) -> Array:
    """Triangular factor R of rows, or the rows themselves where they are at most twice as many as the columns."""
    if len(rows) <= 2 * rows.shape[1]:
        return rows
    if rows.shape[1] >= WIDE and len(rows) >= 2 * CHUNK:
        return _triangularise_in_chunks(rows)
    # LAPACK on a Fortran copy: twice as fast as numpy.linalg.qr, which copies to and fro
    packed, *_ = dgeqrf(_scratch.fortran_copy(rows), lwork=64 * rows.shape[1], overwrite_a=1)
    return np.asarray(packed[: rows.shape[1]] * _upper_triangle_mask(rows.shape[1]))


def _triangularise_in_chunks(rows: Array) -> Array:
    """Triangular factor, chunk by chunk: each is reflected into the factor so far while it is in the cache."""
    R = np.zeros((rows.shape[1], rows.shape[1]), order="F")
    for start in range(0, len(rows), CHUNK):
        chunk = _scratch.fortran_copy(rows[start : start + CHUNK])
        R, *_ = dtpqrt(0, PANEL, R, chunk, overwrite_a=1, overwrite_b=1)
    return np.ascontiguousarray(R)


@cache
def _upper_triangle_mask(size: int) -> Array:
    """Matrix of ones on and above the diagonal."""
    return freeze(np.triu(np.ones((size, size))))


class _Scratch(threading.local):
    """Room for the copy to work on, per thread: fresh pages from the system would cost more than the arithmetic."""

    memory: Array = np.empty(0)

    def fortran_copy(self, rows: Array) -> Array:
        """Return the rows, columns first, in memory that the next call uses again."""
        if len(self.memory) < rows.size:
            self.memory = np.empty(rows.size)
        copy = self.memory[: rows.size].reshape(rows.shape, order="F")
        copy[...] = rows
        return copy


_scratch = _Scratch()
