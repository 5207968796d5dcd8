"""Random points inside the limits: uniform ones, and the slow walks that make good starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.errors import ExcitationError
from dynid.robot.limits import Limits
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

STEP = 0.2
"""Deviation of a walk's step, as a part of the half range."""


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """What points may use: mid-range, reach to both sides, speed, acceleration (inf where unlimited), (n,) each."""

    middle: Array
    reach: Array
    speed: Array
    acceleration: Array

    @staticmethod
    def of(robot: Robot, limits: Limits) -> Box:
        """Finite positions and speeds: a full turn where nothing limits a revolute joint, no speed beyond its reach."""
        prismatic = np.array([robot.links[k].kind == "prismatic" for k in robot.active_links])
        lower, upper = (np.array(side) for side in limits.position.T)
        free = ~(np.isfinite(lower) & np.isfinite(upper))
        _refuse(robot, free & prismatic, "a prismatic joint needs both position limits")
        turn = np.pi
        lower = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper - 2.0 * turn, -turn))
        upper = np.where(np.isfinite(upper), upper, lower + 2.0 * turn)
        reachable = np.sqrt(limits.acceleration * (upper - lower))
        speed = np.minimum(limits.velocity, reachable)
        _refuse(robot, ~np.isfinite(speed), "points need a velocity limit (or an acceleration limit)")
        return Box(0.5 * (lower + upper), 0.5 * (upper - lower), speed, np.array(limits.acceleration))

    @property
    def segment(self) -> float:
        """A usual time from point to point in s: a walk's step at full speed, or reversing the speed twice."""
        return float(max((4.0 * self.speed / self.acceleration).max(), (2.0 * STEP * self.reach / self.speed).max()))

    def narrowest(self, robot: Robot) -> str:
        """Say which joint can move least, and which limit stops it."""
        room = np.stack([self.reach, self.speed])
        kind, j = np.unravel_index(int(np.argmin(room)), room.shape)
        forced = self.speed[j] >= np.sqrt(2.0 * self.acceleration[j] * self.reach[j])
        limit = "position" if kind == 0 else ("acceleration" if forced else "velocity")
        unit = "m" if robot.links[robot.active_links[j]].kind == "prismatic" else "rad"
        size = f"{room[kind, j]:.3g} {unit}" + ("" if kind == 0 else "/s")
        return f"the least room has joint '{robot.joint_names[j]}', held to +-{size} by its {limit} limit"

    @property
    def moving(self) -> bool:
        """Whether any joint has an acceleration limit, so that there is a motion through the points."""
        return bool(np.isfinite(self.acceleration).any())


def _refuse(robot: Robot, bad: NDArray[np.bool_], reason: str) -> None:
    if bad.any():
        raise ExcitationError(f"joint '{robot.joint_names[int(np.argmax(bad))]}': {reason}")


def random_points(limits: Limits, points: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Uniform q, v (points + 1, n) inside finite limits: the random sequences of Gautier & Khalil 1992, Table 2."""
    lower, upper = limits.position.T
    q = rng.uniform(lower, upper, (points + 1, len(lower)))
    return q, rng.uniform(-limits.velocity, limits.velocity, q.shape)


def slow_walk(shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """A random walk in [-1, 1] that turns back at the walls, `shape` (points, joints)."""
    x = rng.uniform(-1.0, 1.0, (1, shape[1])) + np.cumsum(rng.normal(0.0, STEP, shape), axis=0)
    return np.asarray(np.abs((x + 1.0) % 4.0 - 2.0) - 1.0)
