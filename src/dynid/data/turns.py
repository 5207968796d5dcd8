"""Positions that were recorded modulo a turn, made continuous again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dynid.data.findings import Findings
from dynid.robot.transform import Array

SLOWEST = 10.0
"""Sampling rate (Hz) below which a joint may really move half a turn between two samples."""


class Turns:
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
            found.unwrapped += len(rows) if t is None else found.count(t[rows])
        added = self.added - 2.0 * np.pi * np.cumsum(whole, axis=0)
        self.added = added[-1]
        out = q.copy()
        out[:, self.turning] += added
        return out
