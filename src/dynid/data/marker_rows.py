"""Markers on the links, linearised: where joint positions, marker offsets and the camera put them.

A marker seen at x (frame 0) sits at R'(x - p) in the frame of its link, which must be its offset o at every instant:
e = R'(x - p) - o. All frames of a motion at once; hidden markers have no rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.kernel.poses import link_poses
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

DAMPING = 1e-10
"""Relative, so that joints which a frame does not show stay where they are."""


@dataclass(frozen=True, slots=True, eq=False)
class Carried:
    """A robot and which link carries each marker (-1: its base); free: joints that some marker shows."""

    robot: Robot
    links: tuple[int, ...]
    free: NDArray[np.bool_]

    @staticmethod
    def of(robot: Robot, links: tuple[int, ...]) -> Carried:
        """Find which joints are below some marker."""
        below = {k for link in links for k in ancestors(robot, link)}
        return Carried(robot, links, np.array([k in below for k in robot.tree_joints]))


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Linear rows e - J dq - H ds of some frames, zero where a marker is hidden.

    e (N, m, 3); J (N, m, 3, n); R (N, m, 3, 3) rotation of the marker's link; x (N, m, 3); seen (N, m).
    """

    e: Array
    J: Array
    R: Array
    x: Array
    seen: NDArray[np.bool_]

    @property
    def information(self) -> Array:
        """J'J of every frame, (N, n, n)."""
        J = self.J.reshape(len(self.J), -1, self.J.shape[-1])
        return np.asarray(J.transpose(0, 2, 1) @ J)

    @property
    def gradient(self) -> Array:
        """J'e of every frame, (N, n)."""
        J = self.J.reshape(len(self.J), -1, self.J.shape[-1])
        return np.asarray((J.transpose(0, 2, 1) @ self.e.reshape(len(J), -1, 1))[..., 0])

    def shared(self, unknown: NDArray[np.bool_], camera: bool) -> Array:
        """H (N, m * 3, s): by unknown offsets, then by a small turn and shift of the camera in frame 0."""
        N, m = self.seen.shape
        columns = np.zeros((N, m, 3, 3 * int(unknown.sum()) + 6 * camera))
        for place, k in enumerate(np.flatnonzero(unknown)):
            columns[:, k, :, 3 * place : 3 * place + 3] = self.seen[:, k, None, None] * np.eye(3)
        if camera:
            Rt = -self.R.transpose(0, 1, 3, 2) * self.seen[..., None, None]
            turn = np.stack([np.cross(axis, self.x) for axis in np.eye(3)], axis=-1)
            columns[..., -6:-3], columns[..., -3:] = Rt @ turn, Rt
        return columns.reshape(N, 3 * m, -1)


def ancestors(robot: Robot, link: int) -> tuple[int, ...]:
    """The link itself and all before it, without the base."""
    found = []
    while link >= 0:
        found.append(link)
        link = robot.links[link].parent
    return tuple(found)


def visible(x: Array) -> NDArray[np.bool_]:
    """Whether all three coordinates are there, for every point."""
    return np.asarray(np.isfinite(x).all(axis=-1))


def names_of(carried: Carried, which: NDArray[np.bool_]) -> str:
    """Joints by a mask (n,), for messages."""
    joints = zip(carried.robot.tree_joints, which, strict=True)
    return ", ".join(carried.robot.links[k].joint for k, yes in joints if yes)


def local_positions(carried: Carried, q: Array, x: Array) -> Array:
    """Markers (N, m, 3) seen from the links that carry them, NaN where hidden."""
    poses = link_poses(carried.robot, q)
    R = np.stack([poses.rotation[k] for k in carried.links], axis=1)
    p = np.stack([poses.position[k] for k in carried.links], axis=1)
    return np.asarray((R.transpose(0, 1, 3, 2) @ (x - p)[..., None])[..., 0])


def marker_rows(carried: Carried, q: Array, x: Array, offsets: Array) -> Rows:
    """Rows at joint positions q (N, n), markers x (N, m, 3) in frame 0 and offsets (m, 3), NaN where not known yet."""
    robot, links = carried.robot, carried.links
    poses = link_poses(robot, q)
    N, m, n = len(q), len(links), len(robot.tree_joints)
    R = np.stack([poses.rotation[k] for k in links], axis=1)
    p = np.stack([poses.position[k] for k in links], axis=1)
    seen = visible(x) & visible(offsets)
    x = np.where(seen[..., None], x, p)
    J = np.zeros((N, m, 3, n))
    for j, k in enumerate(robot.tree_joints):
        carriers = [i for i, link in enumerate(links) if k in ancestors(robot, link)]
        if not carriers:
            continue
        axis = poses.rotation[k] @ robot.links[k].axis
        if robot.links[k].kind == "revolute":
            J[..., j][:, carriers] = np.cross(axis[:, None], x[:, carriers] - poses.position[k][:, None])
        else:
            J[..., j][:, carriers] = axis[:, None]
    Rt = R.transpose(0, 1, 3, 2)
    J = (Rt @ J) * seen[..., None, None]
    e = np.where(seen[..., None], (Rt @ (x - p)[..., None])[..., 0] - np.nan_to_num(offsets), 0.0)
    return Rows(e, J, R, x, seen)


def damped(A: Array) -> Array:
    """Information matrices that can be inverted: directions that a frame does not show get a little."""
    size = np.einsum("nii->ni", A)
    floor = DAMPING * np.maximum(size.max(axis=1, keepdims=True), 1e-300)
    return np.asarray(A + np.einsum("ni,ij->nij", np.maximum(DAMPING * size, floor), np.eye(A.shape[1])))
