"""Positions of the joints that follow in closed loops: Newton's method along a path from the assembly, per sample."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynid.kernel.compiled import (
    Vector,
    add,
    compiled,
    cross,
    inlined,
    load,
    load_rotation,
    scale,
    sine_cosine,
    store,
    turn,
    turn_back,
)
from dynid.kernel.geometry import PRISMATIC, REVOLUTE, Geometry, Integers, geometry_of
from dynid.kernel.threads import share_samples
from dynid.robot.loops import DIRECTIONS
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

CLOSED = 1e-12
"""What may be left of the closure equations, m or rad."""

ON_THE_WAY = 1e-6
"""The same at the steps before the last."""

_STEP = 0.15
_NEWTON = 12
_POSE = 12
"""Of a link, in the base's frame: R (9, row by row) and p (3)."""


class Closings(NamedTuple):
    """Closures of a robot as plain arrays.

    frames (K, 2): rows of the geometry; points (K, 6): those that stay together, in these frames; side (K, joints): 1
    where a joint moves the second frame alone, -1 the first alone, else 0; row (joints,): the link that a joint moves;
    keep (m, 2): closure and direction of every equation.
    """

    frames: Integers
    points: Array
    side: Array
    row: Integers
    keep: Integers


def closings_of(robot: Robot, geometry: Geometry) -> Closings:
    """Arrays of a robot's closures."""
    position = {robot.links[int(k)].joint: i for i, k in enumerate(geometry.link)}
    joints = len(robot.tree_joints)
    frames = np.array([[position[name] for name in c.links] for c in robot.closures], dtype=np.int64).reshape(-1, 2)
    side = np.zeros((len(frames), joints))
    for k, pair in enumerate(frames):
        for i, sign in zip(pair, (-1.0, 1.0), strict=True):
            np.add.at(side[k], geometry.chain_joint[geometry.chain[i] : geometry.chain[i + 1]], sign)
    return Closings(
        frames=frames,
        points=np.array([np.concatenate(c.points) for c in robot.closures]).reshape(-1, 6),
        side=side,
        row=np.array([int(np.flatnonzero(geometry.joint == j)[0]) for j in range(joints)], dtype=np.int64),
        keep=np.array(
            [[k, DIRECTIONS.index(name)] for k, c in enumerate(robot.closures) for name in c.keep], dtype=np.int64
        ).reshape(-1, 2),
    )


def follow(robot: Robot, C: Array, offset: Array, start: Array, q: Array) -> tuple[Array, Array]:
    """Y (N, n + passive) at active joints q (N, n), and what is left of the equations (N,).

    The tree's joints are C y + offset; start (n + passive,) is near an assembly.
    """
    geometry = geometry_of(robot)
    closings = closings_of(robot, geometry)
    y = np.empty((len(q), len(start)))
    left = np.empty(len(q))

    def work(first: int, last: int) -> None:
        _follow(geometry, closings, C, offset, start, np.ascontiguousarray(q), first, last, y, left)

    share_samples(len(q), work)
    return y, left


@compiled
def _follow(
    geometry: Geometry, closings: Closings, C: Array, offset: Array, start: Array, q: Array, first: int, last: int,
    y: Array, left: Array,
) -> None:  # fmt: skip
    n = q.shape[1]
    m = closings.keep.shape[0]
    tree = np.empty(C.shape[0])
    pose = np.empty(geometry.parent.shape[0] * _POSE)
    J = np.empty((m, C.shape[0]))
    A = np.empty((m, m + 1))
    assembled = start.copy()
    gap = _newton(geometry, closings, C, offset, n, assembled, CLOSED, tree, pose, J, A)
    now = np.empty(start.shape[0])
    for s in range(first, last):
        now[:] = assembled
        left[s] = gap
        far = 0.0
        for j in range(n):
            far = max(far, abs(q[s, j] - assembled[j]))
        steps = max(1, int(np.ceil(far / _STEP)))
        for k in range(1, steps + 1):
            if not left[s] <= ON_THE_WAY:
                break
            for j in range(n):
                now[j] = assembled[j] + (q[s, j] - assembled[j]) * (k / steps) if k < steps else q[s, j]
            goal = CLOSED if k == steps else ON_THE_WAY
            left[s] = _newton(geometry, closings, C, offset, n, now, goal, tree, pose, J, A)
        y[s] = now


@compiled
def _newton(
    geometry: Geometry, closings: Closings, C: Array, offset: Array, n: int, y: Array, goal: float,
    tree: Array, pose: Array, J: Array, A: Array,
) -> float:  # fmt: skip
    """Move y[n:] until the equations hold; what is left of them."""
    worst = np.inf
    for _ in range(_NEWTON + 1):
        for i in range(C.shape[0]):
            tree[i] = offset[i]
            for c in range(C.shape[1]):
                tree[i] += C[i, c] * y[c]
        _place_links(geometry, tree, pose)
        _equations(geometry, closings, pose, J, A)
        m = A.shape[0]
        worst = 0.0
        for r in range(m):
            worst = max(worst, abs(A[r, m]))
        if worst <= goal or not np.isfinite(worst):
            return worst
        for r in range(m):
            for c in range(m):
                A[r, c] = 0.0
                for i in range(C.shape[0]):
                    A[r, c] += J[r, i] * C[i, n + c]
        if not _eliminate(A):
            return worst
        for c in range(m):
            y[n + c] -= A[c, m]
    return worst


@compiled
def _place_links(geometry: Geometry, q: Array, pose: Array) -> None:
    """Poses of all links in the base's frame."""
    for i in range(geometry.parent.shape[0]):
        o = i * _POSE
        j = geometry.joint[i]
        sine, cosine = 0.0, 0.0
        if geometry.kind[i] == REVOLUTE:
            sine, cosine = sine_cosine(q[j])
        for k in range(9):
            pose[o + k] = (
                geometry.rotation[i, 0, k] + sine * geometry.rotation[i, 1, k] + cosine * geometry.rotation[i, 2, k]
            )
        p = (geometry.translation[i, 0], geometry.translation[i, 1], geometry.translation[i, 2])
        if geometry.kind[i] == PRISMATIC:
            e = (geometry.axis[i, 0], geometry.axis[i, 1], geometry.axis[i, 2])
            p = add(p, scale(q[j], turn(load_rotation(pose, o), e)))
        before = geometry.parent[i] * _POSE
        if before >= 0:
            R0 = load_rotation(pose, before)
            p = add(load(pose, before + 9), turn(R0, p))
            for c in range(3):
                column = turn(R0, (pose[o + c], pose[o + 3 + c], pose[o + 6 + c]))
                pose[o + c], pose[o + 3 + c], pose[o + 6 + c] = column
        store(pose, o + 9, p)


@compiled
def _equations(geometry: Geometry, closings: Closings, pose: Array, J: Array, A: Array) -> None:
    """Closure equations into A's last column, their derivatives by the tree's joints into J.

    A joint that moves both frames changes nothing between them; one that moves the first changes what one that moves
    the second would, with the other sign.
    """
    m = A.shape[0]
    for r in range(m):
        k, direction = closings.keep[r, 0], closings.keep[r, 1]
        first, second = closings.frames[k, 0] * _POSE, closings.frames[k, 1] * _POSE
        R1, R2 = load_rotation(pose, first), load_rotation(pose, second)
        one = (closings.points[k, 0], closings.points[k, 1], closings.points[k, 2])
        two = (closings.points[k, 3], closings.points[k, 4], closings.points[k, 5])
        tip1 = add(load(pose, first + 9), turn(R1, one))
        tip2 = add(load(pose, second + 9), turn(R2, two))
        x = turn_back(R1, (R2[0], R2[3], R2[6]))
        y = turn_back(R1, (R2[1], R2[4], R2[7]))
        z = turn_back(R1, (R2[2], R2[5], R2[8]))
        between = turn_back(R1, add(tip2, scale(-1.0, tip1)))
        A[r, m] = _pick(between, x, y, z, direction)
        for j in range(J.shape[1]):
            J[r, j] = 0.0
            if closings.side[k, j] == 0.0:
                continue
            i = closings.row[j]
            o = i * _POSE
            e = (geometry.axis[i, 0], geometry.axis[i, 1], geometry.axis[i, 2])
            w = turn(load_rotation(pose, o), e)
            if geometry.kind[i] == PRISMATIC:
                zero = (0.0, 0.0, 0.0)
                J[r, j] = closings.side[k, j] * _pick(turn_back(R1, w), zero, zero, zero, direction)
                continue
            moved = turn_back(R1, cross(w, add(tip2, scale(-1.0, load(pose, o + 9)))))
            w1 = turn_back(R1, w)
            J[r, j] = closings.side[k, j] * _pick(moved, cross(w1, x), cross(w1, y), cross(w1, z), direction)


@inlined
def _pick(position: Vector, x: Vector, y: Vector, z: Vector, direction: int) -> float:
    """One of six: the position's entries, then half the skew part of the matrix with columns x, y, z."""
    if direction < 3:
        return position[direction]
    if direction == 3:
        return 0.5 * (y[2] - z[1])
    if direction == 4:
        return 0.5 * (z[0] - x[2])
    return 0.5 * (x[1] - y[0])


@compiled
def _eliminate(A: Array) -> bool:
    """Solve A[:, :m] x = A[:, m] in place, x into the last column; False where A is singular."""
    m = A.shape[0]
    for c in range(m):
        pivot = c
        for r in range(c + 1, m):
            if abs(A[r, c]) > abs(A[pivot, c]):
                pivot = r
        if A[pivot, c] == 0.0:
            return False
        for k in range(c, m + 1):
            A[c, k], A[pivot, k] = A[pivot, k], A[c, k]
        for r in range(c + 1, m):
            factor = A[r, c] / A[c, c]
            for k in range(c, m + 1):
                A[r, k] -= factor * A[c, k]
    for c in range(m - 1, -1, -1):
        for k in range(c + 1, m):
            A[c, m] -= A[c, k] * A[k, m]
        A[c, m] /= A[c, c]
    return True
