"""What is shown: positions of all joints of the tree over time, loops closed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.errors import DynidError
from dynid.kernel.loops import LoopMap, loop_map
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

RATE = 50.0
"""Positions per second that are kept for drawing."""

MOST = 200_000
"""Positions that are kept at most; longer recordings are shown more coarsely."""


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """Positions q (N, joints of the tree) at the instants t (N,) in s from 0 on."""

    t: Array
    q: Array

    @property
    def length(self) -> float:
        """Duration in s."""
        return float(self.t[-1])

    def at(self, time: float) -> Array:
        """Positions (1, joints) at an instant."""
        return np.array([[np.interp(time, self.t, column) for column in self.q.T]])


def path_of(robot: Robot, t: Array, q: Array) -> Path:
    """Thin the active joints' positions q (N, n) for drawing, and close the loops.

    Samples without numbers, and those whose time does not go on, are passed over.
    """
    there = np.isfinite(t) & np.isfinite(q).all(axis=1)
    t, q = t[there], q[there]
    ahead = np.diff(np.maximum.accumulate(t), prepend=-np.inf) > 0.0 if len(t) else there[:0]
    t, q = t[ahead], q[ahead]
    if len(t) < 2:
        raise DynidError("a trajectory to be shown needs two samples at least, of finite numbers and growing times")
    length = float(t[-1] - t[0])
    count = int(min(np.ceil(length * RATE) + 1, MOST))
    grid = np.linspace(0.0, length, max(count, 2))
    active = np.column_stack([np.interp(grid, t - t[0], column) for column in q.T])
    return Path(grid, tree_positions(active, loop_map(robot)))


def tree_positions(q: Array, loop: LoopMap | None) -> Array:
    """Positions (N, joints of the tree) from those of the active joints (N, n)."""
    if loop is None:
        return np.asarray(q)
    still = np.zeros_like(q)
    return np.asarray(loop.solve(q, still, still).q)


def rest(robot: Robot) -> Array:
    """Positions (n,) to begin with: where a closed loop is known to close, else zero, brought inside the limits."""
    loop = loop_map(robot)
    if loop is not None and robot.closures:
        return np.array(loop.at, dtype=np.float64)
    return np.clip(np.zeros(robot.n), robot.limits.position[:, 0], robot.limits.position[:, 1])
