"""Positions on one assembly mode of a robot's loops: followed in floats, then enclosed in balls."""

from __future__ import annotations

import math

import numpy as np

from dynid.base.balls import Mechanism, Numbers, UndecidedError, apply, balls_of, middle, solve
from dynid.errors import DeadPointError, LoopError, ModelError
from dynid.kernel.loops import loop_map
from dynid.robot.transform import Array

DEAD = 1e-6
"""Ratio of the extreme singular values of the passive joints' Jacobian below which an assembly is at a dead point."""
STEP = 0.1
"""Of a path (rad, or share of the mechanism's size)."""


def assemble(mechanism: Mechanism) -> Array:
    """Y in floats at the declared assembly, as the kernel finds it; refused at a dead point or where it is open."""
    robot, n = mechanism.robot, mechanism.n
    loop = loop_map(robot)
    assert loop is not None
    y = np.concatenate([loop.at, loop.start])
    frames = " and ".join("-".join(c.links) for c in robot.closures)
    try:
        tree = loop.solve(loop.at[None], np.zeros((1, n)), np.zeros((1, n))).q[0]
        joints = [robot.links[k].joint for k in robot.tree_joints]
        y[n:] = [tree[joints.index(name)] for c in robot.closures for name in c.passive]
    except (LoopError, DeadPointError):
        y = _least_squares(mechanism, y)
    value, J = mechanism.closures(y[None])
    left = float(np.abs(value).max())
    if not left <= 1e-9 * max(1.0, mechanism.size):
        raise ModelError(
            f"'{robot.name}': the loop {frames} does not close near its declared assembly ({left:.2g} m or rad are "
            "left); correct start, at and points of the closure"
        )
    sigma = np.linalg.svd(J[0][:, n:], compute_uv=False)
    if sigma[-1] <= DEAD * sigma[0]:
        followers = ", ".join(name for c in robot.closures for name in c.passive)
        raise ModelError(
            f"'{robot.name}': the loop {frames} is at a dead point in its declared assembly, where the passive joints "
            f"{followers} are not determined; give start and at of a position away from it, which also selects the "
            "assembly mode"
        )
    return y


def _least_squares(mechanism: Mechanism, y: Array) -> Array:
    """Positions of the followers that leave least of the equations, by damped Gauss-Newton steps."""
    n, y = mechanism.n, y.copy()
    for _ in range(200):
        value, J = mechanism.closures(y[None])
        step = np.linalg.lstsq(J[0][:, n:], -value[0], rcond=1e-12)[0]
        y[n:] += step * min(1.0, 0.3 / max(float(np.abs(step).max()), 1e-300))
    return y


class Paths:
    """Random positions on the assembly mode, each reached from the assembly along a regular path."""

    def __init__(self, mechanism: Mechanism, start: Array) -> None:
        self.mechanism, self.start = mechanism, start
        self.rng = np.random.default_rng(0)
        self.radius = 1.0
        self.pool = np.zeros((0, len(start)))
        J = mechanism.closures(start[None])[1][:, :, mechanism.n :]
        self.sign = float(np.sign(np.linalg.det(J))[0])
        self.least = min(0.02, 0.3 * float(_regularity(J)[0]))

    def take(self, count: int) -> Array:
        """Return so many positions y; the neighbourhood shrinks where few paths get through."""
        n, robot = self.mechanism.n, self.mechanism.robot
        while self.radius > 1e-3:
            if len(self.pool) < count:
                away = self.radius * self.rng.uniform(-1.0, 1.0, (2 * count + 5, n)) * self.mechanism.units[:n]
                self.pool = np.concatenate([self.pool, self._follow(away)])
            if len(self.pool) >= count:
                taken, self.pool = self.pool[:count], self.pool[count:]
                return taken
            self.radius *= 0.6
        frames = " and ".join("-".join(c.links) for c in robot.closures)
        raise ModelError(
            f"'{robot.name}': the loop {frames} is too close to a dead point in its declared assembly; give start and "
            "at of a position farther from it"
        )

    def _follow(self, away: Array) -> Array:
        """Positions at the ends of those straight lines of active positions along which the loops stay regular."""
        mechanism, n, units = self.mechanism, self.mechanism.n, self.mechanism.units
        closed = 1e-10 * max(1.0, mechanism.size)
        steps = max(3, math.ceil(self.radius / STEP))
        y = np.tile(self.start, (len(away), 1))
        J = mechanism.closures(y)[1]
        for _ in range(steps):
            part = away / steps
            y = np.concatenate([y[:, :n] + part, y[:, n:] - _step(J, apply(J[:, :, :n], part), n)], axis=1)
            begin = y
            for _ in range(6):
                value, J = mechanism.closures(y)
                left = np.abs(value).max(axis=1)
                if (left <= closed).all():
                    break
                y = np.concatenate([y[:, :n], y[:, n:] - _step(J, value, n)], axis=1)
            passive = J[:, :, n:]
            fine = (
                (left <= closed)
                & (np.abs((y - begin) / units).max(axis=1) <= min(STEP, self.radius / 3))
                & (np.sign(np.linalg.det(passive)) == self.sign)
                & (_regularity(passive) >= self.least)
            )
            y, J, away, value = y[fine], J[fine], away[fine], value[fine]
            if not len(y):
                break
        return np.concatenate([y[:, :n], y[:, n:] - _step(J, value, n)], axis=1)


def _step(J: Array, right: Array, n: int) -> Array:
    """Move of the followers for a change of the equations; huge where they are singular, so that the path ends."""
    passive = J[:, :, n:]
    dead = np.linalg.det(passive) == 0.0
    step = np.linalg.solve(np.where(dead[:, None, None], np.eye(passive.shape[1]), passive), right[..., None])[..., 0]
    return np.asarray(np.where(dead[:, None], 1e3, np.clip(step, -1e3, 1e3)))


def _regularity(J: Array) -> Array:
    sigma = np.linalg.svd(J, compute_uv=False)
    return np.asarray(sigma[:, -1] / sigma[:, 0])


def enclose(mechanism: Mechanism, y: Array) -> Numbers:
    """Balls around the positions that the followers take exactly at the active positions of y.

    Newton's method in long arithmetic, then one Krawczyk step: it maps a box around the approximation into itself, so
    there is one and only one solution inside.
    """
    from flint import arb, ctx

    n = mechanism.n
    balls = balls_of(y, y.shape)
    if not mechanism.robot.closures:
        return balls
    for _ in range(math.ceil(math.log2(ctx.dps / 12))):
        value, J = mechanism.closures(balls)
        balls[:, n:] = middle(balls[:, n:] - solve(J[:, :, n:], value[..., None])[..., 0])
    value, J = mechanism.closures(balls)
    unit = np.broadcast_to(np.eye(J.shape[1], dtype=int), (len(y), J.shape[1], J.shape[1]))
    inverse = middle(solve(J[:, :, n:], unit))
    shift = apply(inverse, value)
    size = max(float(x.abs_upper()) for x in shift.ravel())
    box = np.full(shift.shape, arb(0, 4.0 * max(size, 10.0 ** (5 - ctx.dps))), dtype=object)
    wide = balls.copy()
    wide[:, n:] = balls[:, n:] + box
    rest = apply(unit - inverse @ mechanism.closures(wide)[1][:, :, n:], box) - shift
    if not all(b.contains_interior(x) for b, x in zip(box.ravel(), rest.ravel(), strict=True)):
        raise UndecidedError(
            f"'{mechanism.robot.name}': the positions of its loops could not be verified; use method='qr'"
        )
    balls[:, n:] = balls[:, n:] + rest
    return balls
