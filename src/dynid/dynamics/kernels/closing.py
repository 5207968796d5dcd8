"""Positions of the joints that follow in closed loops: Newton's method along a path from the assembly, per sample."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynid.dynamics.kernels.compiled import compiled, inlined
from dynid.dynamics.kernels.links import PRISMATIC, Geometry, Integers, write_link_rotation
from dynid.dynamics.kernels.spatial_algebra import (
    POSE,
    POSITION,
    Vector,
    add,
    cross,
    load_pose,
    load_rotation,
    load_row_vector,
    rotate,
    rotate_back,
    scale,
    store_vector,
)
from dynid.dynamics.kernels.threads import run_on_sample_ranges
from dynid.robot.robot import DIRECTIONS, Robot
from dynid.robot.transform import Array

CLOSED = 1e-12
"""What may be left of the closure equations, as a share of the lengths that they add up; rounding leaves 1e-16."""

ON_THE_WAY = 1e-4
"""The same at the steps before the last, as a share of the loop's length."""

REACHED, OPEN, DEAD, BEYOND = 0, 1, 2, 3
"""How a path ended: closed; where no Newton step closes; at a singular position; where only a path through a singular
position would lead."""

SINGULAR = 1e-6
"""Regularity of a position that is taken for singular: rounding, amplified by its inverse squared, is 2e-4 there."""

_STEP = 0.25
_LONGEST = 0.5
_SHORTEST = 1e-9
_MOST_STEPS = 1000
"""Steps of the active joints (rad, or lengths of the loop): the first, the longest, what is given up at, and after how
many more than a smooth path needs."""

_TURN = 0.5
"""Change of the passive Jacobian over a step, |J^-1 J_new - 1|; below 1 there is no singular position on the way."""

_CORRECTION = 0.25
"""Newton's part of a step (rad, or lengths of the loop) beyond which another assembly may have been reached."""

_DEAD_NEAR = 1e-5
_NEWTON = 20


class Closings(NamedTuple):
    """Closures of a robot as plain arrays.

    frames (K, 2): rows of the geometry; points (K, 6): those that stay together, in these frames; side (K, joints): 1
    where a joint moves the second frame alone, -1 the first alone, else 0; row (joints,): the link that a joint moves;
    keep (m, 2): closure and direction of every equation; way, way_start (K + 1,): the joints between both frames of a
    closure, way[way_start[k]:way_start[k + 1]], in their order from the first frame to the second.
    """

    frames: Integers
    points: Array
    side: Array
    row: Integers
    keep: Integers
    way: Integers
    way_start: Integers


def closure_arrays(robot: Robot, geometry: Geometry) -> Closings:
    """A robot's closures as plain arrays for the kernels."""
    position = {robot.links[int(k)].joint: i for i, k in enumerate(geometry.link)}
    joints = len(robot.tree_joints)
    frames = np.array([[position[name] for name in c.links] for c in robot.closures], dtype=np.int64).reshape(-1, 2)
    side = np.zeros((len(frames), joints))
    for k, pair in enumerate(frames):
        for i, sign in zip(pair, (-1.0, 1.0), strict=True):
            np.add.at(side[k], geometry.chain_joint[geometry.chain[i] : geometry.chain[i + 1]], sign)
    ways = []
    for k, pair in enumerate(frames):
        back, on = (geometry.chain_joint[geometry.chain[i] : geometry.chain[i + 1]].tolist() for i in pair)
        ways.append([j for j in (*reversed(back), *on) if side[k, j] != 0.0])
    return Closings(
        frames=frames,
        points=np.array([np.concatenate(c.points) for c in robot.closures]).reshape(-1, 6),
        side=side,
        row=np.array([int(np.flatnonzero(geometry.joint == j)[0]) for j in range(joints)], dtype=np.int64),
        keep=np.array(
            [[k, DIRECTIONS.index(name)] for k, c in enumerate(robot.closures) for name in c.keep], dtype=np.int64
        ).reshape(-1, 2),
        way=np.array([j for way in ways for j in way], dtype=np.int64),
        way_start=np.cumsum([0, *map(len, ways)]),
    )


def columns_that_move_loops(closings: Closings, C: Array) -> NDArray[np.bool_]:
    """Mask (k,) of the columns of C (joints, k) that move a loop."""
    return np.asarray((closings.side != 0.0).any(axis=0) @ np.abs(C) > 0.0)


class Scales(NamedTuple):
    """What makes equations and joints of a loop comparable, whatever its size.

    row (m,): of the equations, 1/length for positions; column (n + m,): of y, the length for prismatic joints;
    reach (n,): of steps of the active joints, 0 where one does not move any loop; length: the loops' longest link, m;
    rounding: what the equations, scaled, may miss when closed.
    """

    row: Array
    column: Array
    reach: Array
    length: float
    rounding: float


def loop_scales(robot: Robot, closings: Closings, geometry: Geometry, C: Array, start: Array) -> Scales:
    """Scales of a robot's loops."""
    lengths, total = [np.abs(closings.points).max(initial=0.0)], 0.0
    for pair, points in zip(closings.frames, closings.points, strict=True):
        chains = []
        for i in map(int, pair):
            chain = set()
            while i >= 0:
                chain.add(i)
                i = int(geometry.parent[i])
            chains.append(chain)
        lengths += [np.linalg.norm(geometry.translation[i]) for i in chains[0] ^ chains[1]]
        total = max(total, np.linalg.norm(geometry.translation[list(chains[0] | chains[1])], axis=1).sum()
                    + np.abs(points).sum())  # fmt: skip
    n = robot.n
    slides = np.array([geometry.kind[closings.row[np.argmax(c != 0.0)]] == PRISMATIC for c in C.T])
    lengths += list(np.abs(start[slides]))
    length = float(max(lengths)) or 1.0
    moves = columns_that_move_loops(closings, C[:, :n])
    return Scales(
        row=np.where(closings.keep[:, 1] < 3, 1.0 / length, 1.0),
        column=np.where(slides, length, 1.0),
        reach=np.where(moves, np.where(slides[:n], 1.0 / length, 1.0), 0.0),
        length=length,
        rounding=CLOSED * (1.0 + float(total) / length),
    )


class Loops(NamedTuple):
    """The closed loops of a robot: the tree's joints are C y + offset, y the active joints and those that follow."""

    geometry: Geometry
    closings: Closings
    scales: Scales
    C: Array
    offset: Array


class Workspace(NamedTuple):
    """Memory of one position: tree (joints,), pose (L * POSE,), the equations' J (m, joints), and A (m, m + 1)."""

    tree: Array
    pose: Array
    J: Array
    A: Array


class Jacobian(NamedTuple):
    """Scaled derivatives of the equations: by the passive joints (m, m), the inverse of these, by the active (m, n)."""

    passive: Array
    inverse: Array
    active: Array


class Paths(NamedTuple):
    """Where paths from the assembly to N samples ended.

    y (N, n + passive); left (N,): what is left of the equations, m or rad; end (N,): REACHED, OPEN, DEAD or BEYOND;
    regularity: 1/(|J| |J^-1|) of the passive Jacobian at the assembly.
    """

    scales: Scales
    y: Array
    left: Array
    end: Integers
    regularity: float


def follow_paths(loops: Loops, start: Array, q: Array, least: float = SINGULAR) -> Paths:
    """Follow straight lines of the active joints from the assembly to q (N, n), never through a singular position.

    start (n + passive,) is near an assembly. A path ends where the regularity falls below `least`, or below 0.3 of what
    it is at the assembly if that is less.
    """
    N = len(q)
    paths = Paths(loops.scales, np.empty((N, len(start))), np.empty(N), np.empty(N, dtype=np.int64), 0.0)
    q = np.ascontiguousarray(q, dtype=np.float64)
    regularity = np.empty(max(1, N))

    def follow_samples(first: int, last: int) -> None:
        """Follow the paths to a range of samples."""
        part = paths._replace(y=paths.y[first:last], left=paths.left[first:last], end=paths.end[first:last])
        regularity[first] = _follow_paths(loops, start, q[first:last], least, part)

    run_on_sample_ranges(N, follow_samples)
    return paths._replace(regularity=float(regularity[0]))


@inlined
def allocate_workspace(geometry: Geometry, closings: Closings) -> Workspace:
    """Allocate the memory of one position."""
    m, joints = closings.keep.shape[0], closings.row.shape[0]
    pose = np.empty(geometry.parent.shape[0] * POSE)
    return Workspace(np.empty(joints), pose, np.empty((m, joints)), np.empty((m, m + 1)))


@inlined
def _allocate_jacobian(m: int, n: int) -> Jacobian:
    """Allocate the memory of the equations' scaled derivatives, m passive and n active joints."""
    return Jacobian(np.empty((m, m)), np.empty((m, m)), np.empty((m, n)))


@compiled
def _follow_paths(loops: Loops, start: Array, q: Array, least: float, paths: Paths) -> float:
    """Follow the paths to q (N, n), fill `paths` and return the regularity at the assembly."""
    geometry, closings, scales, _, _ = loops
    _, y, left, end, _ = paths
    n = q.shape[1]
    m = closings.keep.shape[0]
    work = allocate_workspace(geometry, closings)
    at_start, here = _allocate_jacobian(m, n), _allocate_jacobian(m, n)
    assembled = start.copy()
    gap, _ = _close_loops_by_newton(loops, assembled, 0.0, work, at_start)
    best = _regularity(at_start)
    now, trial = np.empty(start.shape[0]), np.empty(start.shape[0])
    Pk, Bk = np.empty((m, m)), np.empty((m, n))
    for s in range(q.shape[0]):
        now[:] = assembled
        Pk[:], Bk[:] = at_start.inverse, at_start.active
        left[s], end[s] = gap * scales.length, REACHED
        far = 0.0
        for j in range(n):
            far = max(far, abs(q[s, j] - assembled[j]) * scales.reach[j])
        if not (gap <= scales.rounding and best > SINGULAR):
            y[s] = now
            end[s] = DEAD if gap <= scales.rounding else OPEN
            continue
        limit = min(least, 0.3 * best)
        done = 0.0
        step = _STEP / far if far > _STEP else 1.0
        for _ in range(_MOST_STEPS + int(10.0 * far)):
            ahead = done + step
            is_last = ahead >= 1.0 - 1e-12
            for j in range(n):
                trial[j] = q[s, j] if is_last else assembled[j] + (q[s, j] - assembled[j]) * ahead
            for c in range(m):
                change = 0.0
                for r in range(m):
                    for j in range(n):
                        change += Pk[c, r] * Bk[r, j] * (trial[j] - now[j])
                trial[n + c] = now[n + c] - scales.column[n + c] * change
            goal = 0.0 if is_last else ON_THE_WAY
            rest, moved = _close_loops_by_newton(loops, trial, goal, work, here)
            closed = rest <= (scales.rounding if is_last else ON_THE_WAY)
            turned = _inverse_error(Pk, here.passive) if closed else np.inf
            if not (closed and moved <= _CORRECTION and turned <= _TURN):
                step *= 0.5
                if step * max(far, 1.0) < _SHORTEST:
                    break
                continue
            now[:], Pk[:], Bk[:] = trial, here.inverse, here.active
            left[s] = rest * scales.length
            if _regularity(here) < limit:
                done = 1.0 if is_last else done
                end[s] = DEAD
                break
            if is_last:
                done = 1.0
                break
            done = ahead
            if turned < 0.5 * _TURN:
                step = min(1.5 * step, _LONGEST / far if far > _LONGEST else 1.0)
        if (1.0 - done) * far <= _DEAD_NEAR:
            end[s] = REACHED if done == 1.0 and end[s] == REACHED else DEAD
        else:
            trial[:n] = q[s]
            trial[n:] = now[n:]
            rest, _ = _close_loops_by_newton(loops, trial, 0.0, work, here)
            end[s] = BEYOND if rest <= scales.rounding else OPEN
            left[s] = rest * scales.length
        y[s, :n] = q[s]
        y[s, n:] = now[n:]
    return best


@compiled
def _close_loops_by_newton(
    loops: Loops, y: Array, goal: float, work: Workspace, jacobian: Jacobian
) -> tuple[float, float]:
    """Move the passive joints y[n:] until the equations hold to the goal, or their residual falls no further.

    Return what is left and how far y was moved, both scaled; the Jacobian is that at y or less than a last step away.
    """
    geometry, closings, scales, C, offset = loops
    tree, pose, J, A = work
    S, P, B = jacobian
    m = A.shape[0]
    n = C.shape[1] - m
    least = np.inf
    moved, last = 0.0, 0.0
    dy = np.zeros(m)
    for _ in range(_NEWTON):
        for i in range(C.shape[0]):
            tree[i] = offset[i]
            for c in range(C.shape[1]):
                tree[i] += C[i, c] * y[c]
        write_link_poses(geometry, tree, pose)
        write_closure_equations(geometry, closings, pose, J, A)
        worst = 0.0
        for r in range(m):
            worst = max(worst, abs(A[r, m]) * scales.row[r])
        if not worst < np.inf or (least <= scales.rounding and worst >= 0.5 * least):
            if worst > least or not worst < np.inf:  # the step before was one too many
                for c in range(m):
                    y[n + c] += dy[c]
                return least, moved - last
            return worst, moved
        least = worst
        for r in range(m):
            for c in range(n + m):
                total = 0.0
                for i in range(C.shape[0]):
                    total += J[r, i] * C[i, c]
                total *= scales.row[r]
                if c < n:
                    B[r, c] = total
                else:
                    S[r, c - n] = total * scales.column[c]
        if not invert_matrix(S, P) or worst <= goal:
            return worst, moved
        last = 0.0
        for c in range(m):
            step = 0.0
            for r in range(m):
                step += P[c, r] * A[r, m] * scales.row[r]
            last = max(last, abs(step))
            dy[c] = step * scales.column[n + c]
            y[n + c] -= dy[c]
        moved += last
        if moved > 1e3:
            return worst, moved
    return least, moved


@compiled
def invert_matrix(S: Array, P: Array) -> bool:
    """Write the inverse of S into P by Gauss and Jordan; return False, with P zero, where S is singular."""
    m = S.shape[0]
    A = S.copy()
    for r in range(m):
        for c in range(m):
            P[r, c] = 1.0 if r == c else 0.0
    for c in range(m):
        pivot = c
        for r in range(c + 1, m):
            if abs(A[r, c]) > abs(A[pivot, c]):
                pivot = r
        if A[pivot, c] == 0.0 or not np.isfinite(A[pivot, c]):
            P[:] = 0.0
            return False
        for k in range(m):
            A[c, k], A[pivot, k] = A[pivot, k], A[c, k]
            P[c, k], P[pivot, k] = P[pivot, k], P[c, k]
        share = 1.0 / A[c, c]
        for k in range(m):
            A[c, k] *= share
            P[c, k] *= share
        for r in range(m):
            factor = A[r, c]
            if r == c or factor == 0.0:
                continue
            for k in range(m):
                A[r, k] -= factor * A[c, k]
                P[r, k] -= factor * P[c, k]
    return True


@compiled
def _regularity(jacobian: Jacobian) -> float:
    """1/(|S| |S^-1|) in Frobenius' norm, about the smallest singular value over the largest; 0 where S is singular."""
    S, P, _ = jacobian
    size, inverse = 0.0, 0.0
    for r in range(S.shape[0]):
        for c in range(S.shape[0]):
            size += S[r, c] * S[r, c]
            inverse += P[r, c] * P[r, c]
    return 1.0 / np.sqrt(size * inverse) if inverse > 0.0 and np.isfinite(inverse) else 0.0


@compiled
def _inverse_error(P: Array, S: Array) -> float:
    """Largest row sum of |P S - 1|."""
    m = S.shape[0]
    most = 0.0
    for r in range(m):
        row = 0.0
        for c in range(m):
            total = -1.0 if r == c else 0.0
            for k in range(m):
                total += P[r, k] * S[k, c]
            row += abs(total)
        most = max(most, row)
    return most


@compiled
def write_link_poses(geometry: Geometry, q: Array, pose: Array) -> None:
    """Write the poses of all links in the base frame into pose."""
    for i in range(geometry.parent.shape[0]):
        at = i * POSE
        j = geometry.joint[i]
        write_link_rotation(geometry, i, q[j] if j >= 0 else 0.0, pose, at)
        p = load_row_vector(geometry.translation, i, 0)
        if geometry.kind[i] == PRISMATIC:
            p = add(p, scale(q[j], rotate(load_rotation(pose, at), load_row_vector(geometry.axis, i, 0))))
        before = geometry.parent[i] * POSE
        if before >= 0:
            R, origin = load_pose(pose, before)
            p = add(origin, rotate(R, p))
            for c in range(at, at + 3):  # column by column
                pose[c], pose[c + 3], pose[c + 6] = rotate(R, (pose[c], pose[c + 3], pose[c + 6]))
        store_vector(pose, at + POSITION, p)


@compiled
def write_closure_equations(geometry: Geometry, closings: Closings, pose: Array, J: Array, A: Array) -> None:
    """Write closure equations into A's last column, their derivatives by the tree's joints into J.

    A joint that moves both frames changes nothing between them; one that moves the first changes what one that moves
    the second would, with the other sign.
    """
    m = A.shape[0]
    for r in range(m):
        k, direction = closings.keep[r, 0], closings.keep[r, 1]
        R1, p1 = load_pose(pose, closings.frames[k, 0] * POSE)
        R2, p2 = load_pose(pose, closings.frames[k, 1] * POSE)
        tip1 = add(p1, rotate(R1, load_row_vector(closings.points, k, 0)))
        tip2 = add(p2, rotate(R2, load_row_vector(closings.points, k, 3)))
        x = rotate_back(R1, (R2[0], R2[3], R2[6]))
        y = rotate_back(R1, (R2[1], R2[4], R2[7]))
        z = rotate_back(R1, (R2[2], R2[5], R2[8]))
        between = rotate_back(R1, add(tip2, scale(-1.0, tip1)))
        A[r, m] = _closure_equation(between, x, y, z, direction)
        for j in range(J.shape[1]):
            J[r, j] = 0.0
            if closings.side[k, j] == 0.0:
                continue
            i = closings.row[j]
            R, p = load_pose(pose, i * POSE)
            w = rotate(R, load_row_vector(geometry.axis, i, 0))
            if geometry.kind[i] == PRISMATIC:
                zero = (0.0, 0.0, 0.0)
                J[r, j] = closings.side[k, j] * _closure_equation(rotate_back(R1, w), zero, zero, zero, direction)
                continue
            moved = rotate_back(R1, cross(w, add(tip2, scale(-1.0, p))))
            w1 = rotate_back(R1, w)
            J[r, j] = closings.side[k, j] * _closure_equation(
                moved, cross(w1, x), cross(w1, y), cross(w1, z), direction
            )


@inlined
def _closure_equation(position: Vector, x: Vector, y: Vector, z: Vector, direction: int) -> float:
    """One of the six closure equations: entries of the position, then half the skew part of the matrix (x, y, z)."""
    if direction < 3:
        return position[direction]
    if direction == 3:
        return 0.5 * (y[2] - z[1])
    if direction == 4:
        return 0.5 * (z[0] - x[2])
    return 0.5 * (x[1] - y[0])
