"""Closed loops: from the active joints to all joints of the tree, with every derivative that is needed.

The tree's joints depend on y = (active joints, joints that closures make passive) through the couplings,
q = C y + c; the closures phi(q) = 0 make the second part of y follow the first. With J, H and T the first three
derivatives of phi and G that of q by the active joints, J D2q[x, y] = -H(Gx, Gy) and
J D3q[x, y, z] = -T(Gx, Gy, Gz) - H(Gx, D2q[y, z]) - H(Gy, D2q[z, x]) - H(Gz, D2q[x, y]); Gdot is D2q[v, .].
Gradients need these against a dual l of the equations only: l.H(x, .) and l.T(x, x, .), which are sums along a loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dynid.concurrency import cached_property
from dynid.dynamics.kernels.closing import (
    BEYOND,
    DEAD,
    REACHED,
    SINGULAR,
    Closings,
    Loops,
    Paths,
    Workspace,
    allocate_workspace,
    closure_arrays,
    follow_paths,
    invert_matrix,
    loop_scales,
    write_closure_equations,
    write_link_poses,
)
from dynid.dynamics.kernels.compiled import compiled, inlined
from dynid.dynamics.kernels.links import PRISMATIC, Geometry, tree_arrays
from dynid.dynamics.kernels.spatial_algebra import (
    POSE,
    Vector,
    add,
    cross,
    dot,
    load_pose,
    load_row_vector,
    rotate,
    rotate_back,
    scale,
)
from dynid.dynamics.kernels.threads import run_on_sample_ranges
from dynid.errors import DeadPointError, LoopError, SingularPathError
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


class TreeMotion(NamedTuple):
    """Motion of all joints of the tree: q, v, a (N, joints), and v = G v_active with G, Gdot (N, joints, n)."""

    q: Array
    v: Array
    a: Array
    G: Array
    Gdot: Array


@dataclass(frozen=True, eq=False)
class LoopMap:
    """The dependence of the tree's joints on the active ones."""

    robot: Robot
    C: Array
    offset: Array
    n: int
    start: Array
    at: Array
    gap: float = 0.0

    @cached_property
    def _loops(self) -> Loops:
        """The loops as plain arrays for the kernels."""
        geometry = tree_arrays(self.robot)
        closings = closure_arrays(self.robot, geometry)
        scales = loop_scales(self.robot, closings, geometry, self.C, np.concatenate([self.at, self.start]))
        return Loops(geometry, closings, scales, self.C, self.offset)

    def tree_motion(self, q: Array, v: Array, a: Array, t: Array | None = None) -> TreeMotion:
        """Positions, velocities and accelerations of the tree's joints, with the Gdot v term in the accelerations.

        t (N,): instants that an error names. Where `gap` is not 0, the closures stay open by it (rad, or lengths of the
        loop) with random signs: so the effect of rounding shows, enlarged.
        """
        N = len(q)
        if not self.robot.closures:
            G = np.broadcast_to(self.C, (N, *self.C.shape))
            return TreeMotion(q @ self.C.T + self.offset, v @ self.C.T, a @ self.C.T, G, np.zeros_like(G))
        paths = self._follow_to_closed_loops(q, t)
        tree = paths.y @ self.C.T + self.offset
        if self.gap:
            signs = np.random.default_rng(0).choice([-1.0, 1.0], (N, len(self.start)))
            opened = np.einsum("Nij,Nj->Ni", self.inverse_of_passive(tree), self.gap * signs / paths.scales.row)
            tree = tree - opened @ self.C[:, self.n :].T
        still = np.zeros_like(tree)
        G = np.zeros((*tree.shape, self.n))
        motion = TreeMotion(tree, still, still.copy(), G, G.copy())
        v, a = np.ascontiguousarray(v), np.ascontiguousarray(a)

        def move_samples(first: int, last: int) -> None:
            """Write the motion of a range of samples."""
            part = TreeMotion(*(x[first:last] for x in motion))
            _write_tree_motion(self._loops, v[first:last], a[first:last], part)

        run_on_sample_ranges(N, move_samples)
        return motion

    def pull_back(
        self,
        motion: TreeMotion,
        gradient: tuple[Array, Array, Array],
        by_G: Array | None = None,
        by_Gdot: Array | None = None,
    ) -> tuple[Array, Array, Array]:
        """Gradients by the active q, v, a from those by the tree's q, v, a and by G and Gdot.

        gradient (N, joints) each; by_G and by_Gdot (N, joints, n). Where G is constant, only G' remains.
        """
        if not self.robot.closures:
            gq, gv, ga = (np.einsum("Nij,Ni->Nj", motion.G, g) for g in gradient)
            return gq, gv, ga
        none = np.zeros((len(motion.q), self.C.shape[0], 0))
        by_tree = TreeMotion(
            *(np.ascontiguousarray(g) for g in gradient),
            *(none if g is None else np.ascontiguousarray(g) for g in (by_G, by_Gdot)),
        )
        out = Active(*(np.zeros((len(motion.q), self.n)) for _ in range(3)))

        def pull_back_samples(first: int, last: int) -> None:
            """Write the gradients of a range of samples."""
            part, by_part, into = (tuple(x[first:last] for x in group) for group in (motion, by_tree, out))
            _write_pull_back(self._loops, TreeMotion(*part), TreeMotion(*by_part), Active(*into))

        run_on_sample_ranges(len(motion.q), pull_back_samples)
        return out.q, out.v, out.a

    def inverse_of_passive(self, tree: Array) -> Array:
        """Inverse (N, m, m) of the closures' derivatives by the passive joints; NaN where it is singular."""
        out = np.empty((len(tree), len(self.start), len(self.start)))
        _write_inverse_of_passive(self._loops, np.ascontiguousarray(tree), out)
        return out

    def follow_paths(self, q: Array, least: float = SINGULAR) -> Paths:
        """Follow paths from the assembly to q (N, n); return how they ended. least: smallest regularity allowed."""
        return follow_paths(self._loops, np.concatenate([self.at, self.start]), q, least)

    def _follow_to_closed_loops(self, q: Array, t: Array | None = None) -> Paths:
        """Follow paths from the assembly to q (N, n); raise LoopError where one does not close."""
        paths = self.follow_paths(q)
        if (paths.end != REACHED).any():
            sample = int(np.argmax(paths.end != REACHED))
            frames, time = self._closed_link_names(), None if t is None else float(t[sample])
            if paths.end[sample] == DEAD:
                raise DeadPointError(sample, frames, time)
            if paths.end[sample] == BEYOND:
                raise SingularPathError(sample, frames, time)
            raise LoopError(sample, float(paths.left[sample]), frames, time)
        return paths

    def _closed_link_names(self) -> str:
        """Text that names the links of all closures."""
        return " and ".join("-".join(c.links) for c in self.robot.closures)


class Active(NamedTuple):
    """Gradients by the active q, v, a, (N, n) each."""

    q: Array
    v: Array
    a: Array


# Derivatives of the closure equations. In the axes of a closure's first frame, the second frame is moved by the joints
# on the way to it: back from the first frame, then on to the second. A joint turns all that comes after it, so for
# joints i <= j <= k on that way, with w their axes and u_k what joint k does to a vector by itself, the vector's
# derivatives are u_k, w_j x u_k and w_i x (w_j x u_k). The vectors are the second tip and the three axes of its frame.


class Ways(NamedTuple):
    """Memory of one position: w (joints on ways, 3), u (4, joints on ways, 3), and sums of V and A on the way."""

    w: Array
    u: Array
    V: Array
    A: Array


VECTORS = 4
"""Vectors whose change the closure equations are made of: the tip of the second frame, then its axes."""


@inlined
def _allocate_ways(closings: Closings) -> Ways:
    """Allocate the memory of one position."""
    count = closings.way.shape[0]
    return Ways(np.empty((count, 3)), np.empty((VECTORS, count, 3)), np.empty((count, 3)), np.empty((count, 3)))


@inlined
def _store_row(x: Array, i: int, a: Vector) -> None:
    """Store a vector in row i of a matrix."""
    x[i, 0], x[i, 1], x[i, 2] = a


@compiled
def _write_ways(geometry: Geometry, closings: Closings, pose: Array, ways: Ways) -> None:
    """Write axes and single derivatives of the joints on the ways of all closures."""
    w, u, _, _ = ways
    for k in range(closings.frames.shape[0]):
        R1, _ = load_pose(pose, closings.frames[k, 0] * POSE)
        R2, p2 = load_pose(pose, closings.frames[k, 1] * POSE)
        tip = add(p2, rotate(R2, load_row_vector(closings.points, k, 3)))
        for i in range(closings.way_start[k], closings.way_start[k + 1]):
            j = closings.way[i]
            row = closings.row[j]
            R, p = load_pose(pose, row * POSE)
            axis = scale(closings.side[k, j], rotate(R, load_row_vector(geometry.axis, row, 0)))
            if geometry.kind[row] == PRISMATIC:
                _store_row(w, i, (0.0, 0.0, 0.0))
                _store_row(u[0], i, rotate_back(R1, axis))
                for c in range(3):
                    _store_row(u[1 + c], i, (0.0, 0.0, 0.0))
                continue
            own = rotate_back(R1, axis)
            _store_row(w, i, own)
            _store_row(u[0], i, rotate_back(R1, cross(axis, add(tip, scale(-1.0, p)))))
            for c in range(3):
                _store_row(u[1 + c], i, cross(own, rotate_back(R1, (R2[c], R2[3 + c], R2[6 + c]))))


@inlined
def _unit(k: int) -> Vector:
    """Unit vector k."""
    return 1.0 if k == 0 else 0.0, 1.0 if k == 1 else 0.0, 1.0 if k == 2 else 0.0


@inlined
def _dual_of_vector(closings: Closings, dual: Array, k: int, f: int) -> Vector:
    """What a dual (m,) of closure k's equations is of vector f; axes enter by half the skew part of their matrix."""
    tip, turn = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    for r in range(closings.keep.shape[0]):
        if closings.keep[r, 0] == k:
            direction = closings.keep[r, 1]
            if direction < 3:
                tip = add(tip, scale(dual[r], _unit(direction)))
            else:
                turn = add(turn, scale(0.5 * dual[r], _unit(direction - 3)))
    return tip if f == 0 else cross(turn, _unit(f - 1))


@compiled
def _add_bend(closings: Closings, ways: Ways, dual: Array, x: Array, factor: float, out: Array) -> None:
    """Add a multiple of dual.H(x, .) (joints,) to out: the second derivative of the equations against a dual (m,)."""
    w, u, _, _ = ways
    for k in range(closings.frames.shape[0]):
        first, last = closings.way_start[k], closings.way_start[k + 1]
        for f in range(VECTORS):
            d = _dual_of_vector(closings, dual, k, f)
            if d[0] == 0.0 and d[1] == 0.0 and d[2] == 0.0:
                continue
            ahead, behind = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)  # sums of u x from here on, and of w x before
            for i in range(first, last):
                ahead = add(ahead, scale(x[closings.way[i]], load_row_vector(u[f], i, 0)))
            for i in range(first, last):
                j = closings.way[i]
                wi, ui = load_row_vector(w, i, 0), load_row_vector(u[f], i, 0)
                out[j] += factor * (dot(cross(d, wi), ahead) + dot(cross(d, behind), ui))
                ahead = add(ahead, scale(-x[j], ui))
                behind = add(behind, scale(x[j], wi))


@compiled
def _add_twist(closings: Closings, ways: Ways, dual: Array, x: Array, factor: float, out: Array) -> None:
    """Add a multiple of dual.T(x, x, .) (joints,) to out: the third derivative of the equations against a dual (m,)."""
    w, u, V, A = ways
    for k in range(closings.frames.shape[0]):
        first, last = closings.way_start[k], closings.way_start[k + 1]
        for f in range(VECTORS):
            d = _dual_of_vector(closings, dual, k, f)
            if d[0] == 0.0 and d[1] == 0.0 and d[2] == 0.0:
                continue
            ahead, twice = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)  # first and second derivative along x, from here on
            for i in range(last - 1, first - 1, -1):
                here = x[closings.way[i]]
                wi, ui = load_row_vector(w, i, 0), load_row_vector(u[f], i, 0)
                twice = add(twice, scale(here, cross(wi, add(scale(here, ui), scale(2.0, ahead)))))
                ahead = add(ahead, scale(here, ui))
                _store_row(V, i, ahead)
                _store_row(A, i, twice)
            behind, beta = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)  # sum of w x before, and d against two joints before
            for i in range(first, last):
                j = closings.way[i]
                wi, ui = load_row_vector(w, i, 0), load_row_vector(u[f], i, 0)
                turned, own = cross(d, behind), cross(d, wi)
                out[j] += factor * (
                    dot(own, load_row_vector(A, i, 0))
                    + 2.0 * dot(cross(turned, wi), load_row_vector(V, i, 0))
                    + dot(beta, ui)
                )
                beta = add(beta, scale(x[j], cross(add(scale(2.0, turned), scale(x[j], own)), wi)))
                behind = add(behind, scale(x[j], wi))


@compiled
def _differentiate_closures(loops: Loops, q: Array, work: Workspace, ways: Ways, S: Array, P: Array) -> bool:
    """Write poses, J, ways, J by the passive joints into S and its inverse into P (m, m); False where singular."""
    geometry, closings, _, C, _ = loops
    m = closings.keep.shape[0]
    n = C.shape[1] - m
    work.tree[:] = q
    write_link_poses(geometry, work.tree, work.pose)
    write_closure_equations(geometry, closings, work.pose, work.J, work.A)
    _write_ways(geometry, closings, work.pose, ways)
    for r in range(m):
        for c in range(m):
            S[r, c] = 0.0
            for i in range(C.shape[0]):
                S[r, c] += work.J[r, i] * C[i, n + c]
    return invert_matrix(S, P)


@compiled
def _write_inverse_of_passive(loops: Loops, tree: Array, out: Array) -> None:
    """Write the inverse of J by the passive joints at tree (N, joints) into out (N, m, m)."""
    work, ways = allocate_workspace(loops.geometry, loops.closings), _allocate_ways(loops.closings)
    S = np.empty((out.shape[1], out.shape[1]))
    for s in range(tree.shape[0]):
        if not _differentiate_closures(loops, tree[s], work, ways, S, out[s]):
            out[s] = np.nan


@compiled
def _write_tree_motion(loops: Loops, v: Array, a: Array, motion: TreeMotion) -> None:
    """Write velocities, accelerations, G and Gdot at the positions of a motion, for active v, a (N, n)."""
    _, closings, _, C, _ = loops
    m, joints, n = closings.keep.shape[0], C.shape[0], v.shape[1]
    work, ways = allocate_workspace(loops.geometry, closings), _allocate_ways(closings)
    S, P = np.empty((m, m)), np.empty((m, m))
    unit, bent = np.zeros(m), np.empty(joints)
    by_active, rates = np.empty((m, n)), np.empty((m, n))
    for s in range(v.shape[0]):
        regular = _differentiate_closures(loops, motion.q[s], work, ways, S, P)
        if not regular:
            P[:] = np.nan
        for r in range(m):
            for c in range(n):
                by_active[r, c] = 0.0
                for i in range(joints):
                    by_active[r, c] += work.J[r, i] * C[i, c]
        _add_passive(C, P, by_active, motion.G[s])
        for i in range(joints):
            motion.v[s, i] = 0.0
            for c in range(n):
                motion.G[s, i, c] += C[i, c]
                motion.v[s, i] += motion.G[s, i, c] * v[s, c]
        for r in range(m):
            unit[r] = 1.0
            bent[:] = 0.0
            _add_bend(closings, ways, unit, motion.v[s], 1.0, bent)
            unit[r] = 0.0
            for c in range(n):
                rates[r, c] = 0.0
                for i in range(joints):
                    rates[r, c] += bent[i] * motion.G[s, i, c]
        _add_passive(C, P, rates, motion.Gdot[s])
        for i in range(joints):
            motion.a[s, i] = 0.0
            for c in range(n):
                motion.a[s, i] += motion.G[s, i, c] * a[s, c] + motion.Gdot[s, i, c] * v[s, c]


@compiled
def _add_passive(C: Array, P: Array, right: Array, out: Array) -> None:
    """Add to out (joints, n) the motion of the tree that answers right (m, n) of the equations: -C P right."""
    m, n = right.shape
    for c in range(n):
        for r in range(m):
            answer = 0.0
            for k in range(m):
                answer += P[r, k] * right[k, c]
            for i in range(C.shape[0]):
                out[i, c] -= C[i, n + r] * answer


@compiled
def _write_dual(C: Array, P: Array, by: Array, dual: Array) -> None:
    """Write the dual (m,) of the equations that answers a gradient (joints,) by the passive joints: P' C' by."""
    m = P.shape[0]
    n = C.shape[1] - m
    dual[:] = 0.0
    for r in range(m):
        along = 0.0
        for i in range(C.shape[0]):
            along += C[i, n + r] * by[i]
        for k in range(m):
            dual[k] += P[r, k] * along


@compiled
def _write_pull_back(loops: Loops, motion: TreeMotion, by: TreeMotion, out: Active) -> None:
    """Write gradients by the active q, v, a from those by the tree's motion; by.G, by.Gdot may have no columns."""
    _, closings, _, C, _ = loops
    m, joints, n = closings.keep.shape[0], C.shape[0], out.q.shape[1]
    work, ways = allocate_workspace(loops.geometry, closings), _allocate_ways(closings)
    S, P = np.empty((m, m)), np.empty((m, m))
    dual, second = np.empty(m), np.empty(m)
    by_q, by_v = np.empty(joints), np.empty(joints)  # to be multiplied by G'
    by_rate = np.empty(joints)  # of q, to be multiplied by Gdot'
    bent, column = np.empty(joints), np.empty(joints)
    for s in range(out.q.shape[0]):
        v = motion.v[s]
        if not _differentiate_closures(loops, motion.q[s], work, ways, S, P):
            P[:] = np.nan
        by_q[:], by_v[:], by_rate[:] = by.q[s], by.v[s], by.v[s]
        _write_dual(C, P, by.a[s], dual)
        _add_bend(closings, ways, dual, motion.a[s], -1.0, by_q)
        _add_twist(closings, ways, dual, v, -1.0, by_q)
        _add_bend(closings, ways, dual, v, -2.0, by_rate)
        for c in range(by.G.shape[2]):
            _write_dual(C, P, by.G[s, :, c], dual)
            _add_bend(closings, ways, dual, motion.G[s, :, c], -1.0, by_q)
        for c in range(by.Gdot.shape[2]):
            _write_dual(C, P, by.Gdot[s, :, c], dual)
            bent[:] = 0.0
            _add_bend(closings, ways, dual, motion.G[s, :, c], -1.0, bent)
            by_v += bent
            by_rate += bent
            _add_bend(closings, ways, dual, motion.Gdot[s, :, c], -1.0, by_q)
            for sign in (1.0, -1.0):  # T(v, g, .) = (T(v + g, v + g, .) - T(v - g, v - g, .)) / 4
                column[:] = v + sign * motion.G[s, :, c]
                _add_twist(closings, ways, dual, column, -0.25 * sign, by_q)
            bent[:] = 0.0
            _add_bend(closings, ways, dual, v, 1.0, bent)
            _write_dual(C, P, bent, second)
            _add_bend(closings, ways, second, motion.G[s, :, c], 1.0, by_q)
        for b in range(n):
            out.q[s, b] = out.v[s, b] = out.a[s, b] = 0.0
            for i in range(joints):
                G, Gdot = motion.G[s, i, b], motion.Gdot[s, i, b]
                out.q[s, b] += G * by_q[i] + Gdot * by_rate[i]
                out.v[s, b] += G * by_v[i] + 2.0 * Gdot * by.a[s, i]
                out.a[s, b] += G * by.a[s, i]


def loop_map(robot: Robot) -> LoopMap | None:
    """Map from the active joints to those of the tree; None for a robot without loops."""
    if not robot.couplings and not robot.closures:
        return None
    names = [robot.links[k].joint for k in robot.tree_joints]
    followers = [name for closure in robot.closures for name in closure.passive]
    independent = [*robot.joint_names, *followers]
    C, offset = np.zeros((len(names), len(independent))), np.zeros(len(names))
    for column, name in enumerate(independent):
        C[names.index(name), column] = 1.0
    waiting = list(robot.couplings)
    known = set(independent)
    while waiting:
        coupling = next(c for c in waiting if all(name in known for name, _ in c.factors))
        row = names.index(coupling.passive)
        for name, factor in coupling.factors:
            C[row] += factor * C[names.index(name)]
            offset[row] += factor * offset[names.index(name)]
        offset[row] += coupling.offset
        known.add(coupling.passive)
        waiting.remove(coupling)
    start = np.concatenate([c.start for c in robot.closures]) if robot.closures else np.zeros(0)
    given = [c.at for c in robot.closures if c.at is not None]
    at = given[0] if given else np.zeros(robot.n)
    return LoopMap(robot, C, offset, robot.n, start, np.asarray(at))
