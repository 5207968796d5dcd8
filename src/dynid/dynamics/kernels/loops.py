"""Closed loops: from the active joints to all joints of the tree, with every derivative that is needed.

The tree's joints depend on y = (active joints, joints that closures make passive) through the couplings,
q = C y + c; the closures phi(q) = 0 make the second part of y follow the first. Derivatives of phi along
straight lines in joint space come exactly from Taylor polynomials of the frames' poses: the first is J x, the
second H(x, x), the third T(x, x, x); the mixed ones follow by polarisation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.dynamics.kernels.closing import (
    BEYOND,
    DEAD,
    REACHED,
    SINGULAR,
    Paths,
    closure_arrays,
    closure_derivatives,
    columns_that_move_loops,
    follow_paths,
)
from dynid.dynamics.kernels.geometry import tree_arrays
from dynid.errors import DeadPointError, LoopError, SingularPathError
from dynid.robot.robot import DIRECTIONS, Closure, Robot
from dynid.robot.transform import Array, skew


@dataclass(frozen=True, slots=True, eq=False)
class TreeMotion:
    """Motion of all joints of the tree: q, v, a (N, joints), and v = G v_active with G (N, joints, n)."""

    q: Array
    v: Array
    a: Array
    G: Array
    Gdot: Array


@dataclass(frozen=True, slots=True, eq=False)
class LoopMap:
    """The dependence of the tree's joints on the active ones."""

    robot: Robot
    C: Array
    offset: Array
    n: int
    start: Array
    at: Array
    gap: float = 0.0

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
            tree = tree + self._solve_passive_motion(
                -self.gap * signs / paths.scales.row, self._inverse_and_jacobian(tree)[0]
            )
        P, G = self._inverse_and_jacobian(tree)
        velocity = np.einsum("Nij,Nj->Ni", G, v)
        Gdot = self._derivative_of_jacobian(tree, velocity, G, P)
        acceleration = np.einsum("Nij,Nj->Ni", G, a) + np.einsum("Nij,Nj->Ni", Gdot, v)
        return TreeMotion(tree, velocity, acceleration, G, Gdot)

    def pull_back(
        self,
        motion: TreeMotion,
        v: Array,
        a: Array,
        gradient: tuple[Array, Array, Array],
        by_G: Array | None,
        by_Gdot: Array | None,
    ) -> tuple[Array, Array, Array]:
        """Gradients by the active q, v, a from those by the tree's q, v, a and by G and Gdot.

        gradient (N, joints) each; by_G and by_Gdot (N, joints, n). Where G is constant, only G' remains.
        """
        gq, gv, ga = gradient
        G, Gdot = motion.G, motion.Gdot
        out_q, out_v, out_a = (np.einsum("Nij,Ni->Nj", G, g) for g in (gq, gv, ga))
        if not self.robot.closures:
            return out_q, out_v, out_a
        out_v = out_v + 2.0 * np.einsum("Nij,Ni->Nj", Gdot, ga)
        P, _ = self._inverse_and_jacobian(motion.q)
        for b in self._loop_moving_joints:
            dq = G[:, :, b]
            dG = self._derivative_of_jacobian(motion.q, dq, G, P)
            dv = np.einsum("Nij,Nj->Ni", dG, v)
            dGdot = np.zeros_like(G)
            for c in self._loop_moving_joints:
                dGdot[:, :, c] = self._derivative_of_jacobian_rate(motion, dq, dv, dG, c, P)
            da = np.einsum("Nij,Nj->Ni", dG, a) + np.einsum("Nij,Nj->Ni", dGdot, v)
            out_q[:, b] += (gv * dv + ga * da).sum(axis=1)
            if by_G is not None:
                out_q[:, b] += (by_G * dG).sum(axis=(1, 2))
            if by_Gdot is not None:
                out_q[:, b] += (by_Gdot * dGdot).sum(axis=(1, 2))
                out_v[:, b] += (by_Gdot * dG).sum(axis=(1, 2))
        return out_q, out_v, out_a

    def follow_paths(self, q: Array, least: float = SINGULAR) -> Paths:
        """Follow paths from the assembly to q (N, n); return how they ended. least: smallest regularity allowed."""
        return follow_paths(self.robot, self.C, self.offset, np.concatenate([self.at, self.start]), q, least)

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

    @property
    def _loop_moving_joints(self) -> list[int]:
        """Active joints that move a loop; the others have a constant column in G."""
        closings = closure_arrays(self.robot, tree_arrays(self.robot))
        return [int(b) for b in np.flatnonzero(columns_that_move_loops(closings, self.C[:, : self.n]))]

    def _inverse_and_jacobian(self, tree: Array) -> tuple[Array, Array]:
        """Inverse (N, m, m) of the closures' derivatives by the passive joints, and G (N, joints, n)."""
        J = closure_derivatives(self.robot, self.C, tree)
        P = _inverse_or_nan(J[:, :, self.n :])
        passive = -np.einsum("Nij,Njk->Nik", P, J[:, :, : self.n])
        active = np.broadcast_to(np.eye(self.n), (len(tree), self.n, self.n))
        return P, np.asarray(np.einsum("ij,Njk->Nik", self.C, np.concatenate([active, passive], axis=1)))

    def _solve_passive_motion(self, right: Array, P: Array) -> Array:
        """Tree motion (N, joints) with fixed active joints and J x = right, P the inverse of J."""
        return np.asarray(np.einsum("Nij,Nj->Ni", P, right) @ self.C[:, self.n :].T)

    def _derivative_of_jacobian(self, tree: Array, x: Array, G: Array, P: Array) -> Array:
        """Derivative of G along x: J dg = -H(x, g) for every column g."""
        dG = np.zeros_like(G)
        for c in self._loop_moving_joints:
            dG[:, :, c] = self._solve_passive_motion(-self._second_derivative(tree, x, G[:, :, c]), P)
        return dG

    def _derivative_of_jacobian_rate(
        self, motion: TreeMotion, dq: Array, dv: Array, dG: Array, c: int, P: Array
    ) -> Array:
        """Derivative of column c of Gdot along dq, where v changes by dv and G by dG."""
        tree, v = motion.q, motion.v
        g, gdot = motion.G[:, :, c], motion.Gdot[:, :, c]
        right = self._second_derivative(tree, dq, gdot) + self._third_derivative(tree, dq, v, g)
        right = right + self._second_derivative(tree, dv, g) + self._second_derivative(tree, v, dG[:, :, c])
        return self._solve_passive_motion(-right, P)

    def _second_derivative(self, tree: Array, x: Array, y: Array) -> Array:
        """Second derivative H(x, y) of the closure equations along x and y."""
        return 0.25 * (self._closure_derivatives(tree, x + y, 2)[2] - self._closure_derivatives(tree, x - y, 2)[2])

    def _third_derivative(self, tree: Array, x: Array, y: Array, z: Array) -> Array:
        """Third derivative T(x, y, z) of the closure equations along x, y and z."""
        parts = ((x + y + z, 1.0), (x + y - z, -1.0), (x - y + z, -1.0), (x - y - z, 1.0))
        return np.asarray(sum(sign * self._closure_derivatives(tree, d, 3)[3] for d, sign in parts)) / 24.0

    def _closure_derivatives(self, tree: Array, x: Array, degree: int) -> list[Array]:
        """Derivatives 0 to degree of phi(tree + s x) by s at s = 0, each (N, equations)."""
        poses = _PoseSeries(self.robot, tree, x, degree)
        parts = [_closure_series(poses, closure) for closure in self.robot.closures]
        return [np.concatenate([part[order] for part in parts], axis=1) for order in range(degree + 1)]


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


def _inverse_or_nan(A: Array) -> Array:
    """Inverse for every sample; NaN where A is exactly singular."""
    singular = np.linalg.det(A) == 0.0
    inverse = np.linalg.inv(np.where(singular[:, None, None], np.eye(A.shape[1]), A))
    inverse[singular] = np.nan
    return np.asarray(inverse)


class _PoseSeries:
    """Taylor polynomials, of some degree in s, of the links' poses at joint positions q + s x."""

    def __init__(self, robot: Robot, q: Array, x: Array, degree: int) -> None:
        self.robot, self.q, self.x, self.degree = robot, q, x, degree
        self.joint = {k: j for j, k in enumerate(robot.tree_joints)}
        self.index = {link.joint: k for k, link in enumerate(robot.links)}
        self.known: dict[int, tuple[list[Array], list[Array]]] = {}

    def pose_coefficients(self, joint: str) -> tuple[list[Array], list[Array]]:
        """Taylor coefficients of a link's rotation R (N, 3, 3) and position p (N, 3), in the base frame."""
        return self._link_pose_series(self.index[joint])

    def _link_pose_series(self, k: int) -> tuple[list[Array], list[Array]]:
        """Pose of link k in the base's frame, as Taylor coefficients."""
        if k in self.known:
            return self.known[k]
        link = self.robot.links[k]
        R, p = self._local_pose_series(k)
        if link.parent >= 0:
            R0, p0 = self._link_pose_series(link.parent)
            p = [a + b for a, b in zip(p0, _multiply_series("Nij,Nj->Ni", R0, p), strict=True)]
            R = _multiply_series("Nij,Njk->Nik", R0, R)
        self.known[k] = R, p
        return R, p

    def _local_pose_series(self, k: int) -> tuple[list[Array], list[Array]]:
        """Pose of link k in its parent, as Taylor coefficients."""
        link = self.robot.links[k]
        N = len(self.q)
        R0 = np.broadcast_to(link.placement.rotation, (N, 3, 3))
        p0 = np.broadcast_to(link.placement.translation, (N, 3))
        R, p = [R0] + [np.zeros((N, 3, 3))] * self.degree, [p0] + [np.zeros((N, 3))] * self.degree
        if not link.moves:
            return R, p
        q, x = self.q[:, self.joint[k]], self.x[:, self.joint[k]]
        if link.kind == "prismatic":
            e = link.placement.rotation @ link.axis
            return R, [p0 + q[:, None] * e, x[:, None] * e, *p[2:]][: self.degree + 1]
        K = skew(link.axis)
        sine, cosine = np.sin(q)[:, None, None], np.cos(q)[:, None, None]
        turned = np.eye(3) + sine * K + (1.0 - cosine) * (K @ K)
        terms = [R0 @ turned]
        for order in range(1, self.degree + 1):
            terms.append(terms[-1] @ K * (x / order)[:, None, None])
        return terms, p


def _multiply_series(rule: str, a: list[Array], b: list[Array]) -> list[Array]:
    """Product of two Taylor polynomials, cut at their degree."""
    return [np.asarray(sum(np.einsum(rule, a[i], b[k - i]) for i in range(k + 1))) for k in range(len(a))]


def _closure_series(poses: _PoseSeries, closure: Closure) -> list[Array]:
    """Derivatives of one closure's equations, in the axes of its first frame."""
    (R1, p1), (R2, p2) = (poses.pose_coefficients(name) for name in closure.links)
    tip1 = [a + np.einsum("Nij,j->Ni", R, closure.points[0]) for a, R in zip(p1, R1, strict=True)]
    tip2 = [a + np.einsum("Nij,j->Ni", R, closure.points[1]) for a, R in zip(p2, R2, strict=True)]
    between = [b - a for a, b in zip(tip1, tip2, strict=True)]
    position = _multiply_series("Nji,Nj->Ni", R1, between)
    E = _multiply_series("Nji,Njk->Nik", R1, R2)
    turn = [0.5 * np.stack([M[:, 2, 1] - M[:, 1, 2], M[:, 0, 2] - M[:, 2, 0], M[:, 1, 0] - M[:, 0, 1]], 1) for M in E]
    picks = [DIRECTIONS.index(name) for name in closure.keep]
    factorials = (1.0, 1.0, 2.0, 6.0)[: len(turn)]
    return [f * np.concatenate([a, b], axis=1)[:, picks] for f, a, b in zip(factorials, position, turn, strict=True)]
