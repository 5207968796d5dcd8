"""Derivatives of closure equations along straight lines in joint space, by Taylor polynomials of the links' poses.

Shares no formula with the kernels: what they compute by sums over the joints of a loop is checked against this.
"""

from __future__ import annotations

import numpy as np

from dynid.robot.robot import DIRECTIONS, Closure, Robot
from dynid.robot.transform import Array, skew


def closure_taylor_derivatives(robot: Robot, tree: Array, x: Array, degree: int) -> list[Array]:
    """Derivatives 0 to degree of the closure equations at tree + s x (N, joints) by s at s = 0, (N, equations) each."""
    poses = _PoseSeries(robot, tree, x, degree)
    parts = [_closure_series(poses, closure) for closure in robot.closures]
    return [np.concatenate([part[order] for part in parts], axis=1) for order in range(degree + 1)]


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
