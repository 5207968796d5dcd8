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
FAR = 1.0
"""Way (the same units) from a closure's start to the assembly that is worth a warning."""


def assemble(mechanism: Mechanism) -> tuple[Array, tuple[str, ...]]:
    """Y in floats at the assembly nearest to the declared one, with warnings; refused at a dead point or if open."""
    robot, n = mechanism.robot, mechanism.n
    loop = loop_map(robot)
    assert loop is not None
    frames = " and ".join("-".join(c.links) for c in robot.closures)
    declared = np.concatenate([loop.at, loop.start])
    ends = [_close(mechanism, declared, damping) for damping in (0.0, 1.0)]
    y = min(ends, key=lambda x: (not _is_closed(mechanism, x), np.abs((x - declared) / mechanism.units).max()))
    value, J = mechanism.closures(y[None])
    if not _is_closed(mechanism, y):
        left = float(np.abs(value).max())
        raise ModelError(
            f"'{robot.name}': the loop {frames} does not close near its declared assembly ({left:.2g} m or rad are "
            "left); correct start, at and points of the closure"
        )
    if _regularity(J[:, :, n:])[0] <= DEAD:
        followers = ", ".join(name for c in robot.closures for name in c.passive)
        raise ModelError(
            f"'{robot.name}': the loop {frames} is at a dead point in its declared assembly, where the passive joints "
            f"{followers} are not determined; give start and at of a position away from it, which also selects the "
            "assembly mode"
        )
    found = ", ".join(f"{x:.6g}" for x in y[n:])
    if np.abs((y - declared) / mechanism.units).max() > FAR:
        return y, (f"the loop {frames} closes far from its start; if start = [{found}] (rad, m) is meant, write that",)
    try:
        tree = loop.solve(loop.at[None], np.zeros((1, n)), np.zeros((1, n))).q
    except (LoopError, DeadPointError):
        tree = np.full((1, len(robot.tree_joints)), np.nan)
    joints = [robot.links[k].joint for k in robot.tree_joints]
    other = tree[0, [joints.index(name) for c in robot.closures for name in c.passive]]
    if not np.abs(mechanism.closures(np.concatenate([y[:n], other])[None])[1] - J).max() <= 1e-6 * np.abs(J).max():
        return y, (f"start of the loop {frames} is too rough for the models to find this assembly: write [{found}]",)
    return y, ()


def _close(mechanism: Mechanism, y: Array, damping: float) -> Array:
    """Close the loops by short steps, which do not jump to another assembly as full Newton steps do.

    Without damping they are Gauss-Newton's, which never pass a singular position; with it, Levenberg and Marquardt's.
    """
    n, y, units = mechanism.n, y.copy(), mechanism.units[mechanism.n :]
    for _ in range(300):
        value, J = mechanism.closures(y[None])
        A = J[0][:, n:] * units
        extra = math.sqrt(damping * mechanism.size * float(np.abs(value).max())) * np.eye(len(A))
        step = np.linalg.lstsq(np.concatenate([A, extra]), np.concatenate([-value[0], 0 * value[0]]), rcond=1e-12)[0]
        size = float(np.abs(step).max())
        y[n:] += units * step * min(1.0, STEP / max(size, 1e-300))
        if size < 1e-15:
            break
    return y


def _is_closed(mechanism: Mechanism, y: Array) -> bool:
    return float(np.abs(mechanism.closures(y[None])[0]).max()) <= 1e-9 * max(1.0, mechanism.size)


class Paths:
    """Random positions on the assembly mode, each reached from the assembly along a regular path."""

    def __init__(self, mechanism: Mechanism, start: Array, rng: np.random.Generator) -> None:
        self.mechanism, self.start, self.rng = mechanism, start, rng
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
    from flint import arb, ctx  # noqa: TID251  (read only, inside flint_precision)

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
