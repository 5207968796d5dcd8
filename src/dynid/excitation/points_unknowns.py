"""The free variables behind points inside their limits (Gautier & Khalil 1992, section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.excitation.points_shape import PointsShape, of_path
from dynid.excitation.quintics import Quintics
from dynid.excitation.walks import Box, slow_walk
from dynid.robot.transform import Array

SPREAD = 3.0
"""Segment times stay within exp(+-SPREAD) of the usual one."""


@dataclass(frozen=True, slots=True, eq=False)
class Unknowns:
    """Free variables z behind the points: every z gives points inside the box (Gautier & Khalil 1992, section 4.2).

    rest (n,): the pose before and after the points; where it is given, the variables of rest have no effect.
    """

    box: Box
    points: int
    rest: Array | None = None

    @property
    def moving(self) -> bool:
        """Whether accelerations, points of rest and segment times are variables too."""
        return self.box.moving

    @property
    def scales(self) -> Array:
        """Half widths of position, velocity and acceleration, (3, 1, n)."""
        a = np.where(np.isfinite(self.box.acceleration), self.box.acceleration, 4.0 * self.box.speed / self.box.segment)
        return np.stack([self.box.reach, self.box.speed, a])[:, None, :]

    def start(self, rng: np.random.Generator) -> Array:
        """A slow walk with random velocities."""
        shape = (self.points, len(self.box.reach))
        x = np.stack([slow_walk(shape, rng), rng.uniform(-1.0, 1.0, shape)])
        z = np.arcsin(0.98 * x).ravel()
        if not self.moving:
            return z
        rest = np.arcsin(0.98 * x[0, [0, -1]]).ravel()
        return np.concatenate([z, np.zeros(x[0].size), rest, self._first_times(x[0])])

    def _first_times(self, x: Array) -> Array:
        """Variables of the usual segment times; long enough from and to a given rest."""
        times = np.zeros(self.points + 1)
        if self.rest is None:
            return times
        way = np.abs(self.box.middle + 0.98 * self.box.reach * x[[0, -1]] - self.rest)
        needed = np.maximum(2.0 * way / self.box.speed, np.sqrt(6.0 * way / self.box.acceleration)).max(axis=1)
        share = np.log(np.maximum(needed, self.box.segment) / self.box.segment) / SPREAD
        times[[0, -1]] = SPREAD * np.arctanh(np.minimum(share, 0.9))
        return times

    def place(self, z: Array) -> PointsShape:
        """Points, and the path through them where they move."""
        shape = (self.points, len(self.box.reach))
        size = shape[0] * shape[1]
        if not self.moving:
            q, v = self.scales[:2] * np.sin(z.reshape(2, *shape))
            return PointsShape(np.arange(float(self.points)), q + self.box.middle, v, np.zeros(shape), None)
        q, v, a = self.scales * np.sin(z[: 3 * size].reshape(3, *shape))
        rest = self.box.reach * np.sin(z[3 * size : -self.points - 1].reshape(2, -1))
        if self.rest is not None:
            rest = np.tile(self.rest - self.box.middle, (2, 1))
        u = self.box.segment * np.exp(SPREAD * np.tanh(z[-self.points - 1 :] / SPREAD))
        still = np.zeros((1, shape[1]))
        q = np.concatenate([rest[:1], q, rest[1:]]) + self.box.middle
        return of_path(Quintics(u, q, *(np.concatenate([still, x, still]) for x in (v, a))))

    def pull(self, z: Array, by: tuple[Array, Array, Array], by_rest: Array, by_u: Array) -> Array:
        """Slope by z from slopes by q, v, a of the points, by both positions of rest and by the segment times."""
        size = by[0].size
        parts = 3 if self.moving else 2
        x = z[: parts * size].reshape(parts, *by[0].shape)
        slope = (self.scales[:parts] * np.cos(x) * np.stack(by[:parts])).ravel()
        if not self.moving:
            return slope
        rest = by_rest * self.box.reach * np.cos(z[3 * size : -self.points - 1].reshape(2, -1))
        if self.rest is not None:
            rest = np.zeros_like(rest)
        y = np.tanh(z[-self.points - 1 :] / SPREAD)
        u = self.box.segment * np.exp(SPREAD * y)
        return np.concatenate([slope, rest.ravel(), by_u * u * (1.0 - y**2)])
