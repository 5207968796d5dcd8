"""Where the links are: poses along a motion of the open tree, all samples at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.robot.robot import Robot
from dynid.robot.transform import Array, skew


@dataclass(frozen=True, slots=True, eq=False)
class Poses:
    """Of every link: rotation (N, 3, 3) and position (N, 3) of its frame in frame 0; entry -1 is frame 0 itself."""

    rotation: dict[int, Array]
    position: dict[int, Array]


def link_poses(robot: Robot, q: Array) -> Poses:
    """Poses of all links; q (N, joints of the tree) in the order of `robot.tree_joints`."""
    N = len(q)
    rotation = {-1: np.broadcast_to(np.eye(3), (N, 3, 3))}
    position = {-1: np.zeros((N, 3))}
    column = {k: j for j, k in enumerate(robot.tree_joints)}
    for k in robot.topological_order:
        link = robot.links[k]
        R, p = rotation[link.parent], position[link.parent]
        p = p + R @ link.placement.translation
        R = R @ link.placement.rotation
        if link.kind == "prismatic":
            p = p + (R @ link.axis) * q[:, column[k], None]
        elif link.kind == "revolute":
            R = R @ _turns(link.axis, q[:, column[k]])
        rotation[k], position[k] = R, p
    return Poses(rotation, position)


def _turns(axis: Array, angle: Array) -> Array:
    """Rotations (N, 3, 3) about a unit axis (Rodrigues)."""
    K = skew(axis)
    return np.asarray(np.eye(3) + np.sin(angle)[:, None, None] * K + (1.0 - np.cos(angle))[:, None, None] * (K @ K))


def angular_motion(robot: Robot, poses: Poses, v: Array, a: Array) -> tuple[dict[int, Array], dict[int, Array]]:
    """Angular velocity and acceleration (N, 3) of every link in frame 0; v, a (N, joints of the tree)."""
    omega, alpha = {-1: np.zeros((len(v), 3))}, {-1: np.zeros((len(v), 3))}
    column = {k: j for j, k in enumerate(robot.tree_joints)}
    for k in robot.topological_order:
        link = robot.links[k]
        before = omega[k] = omega[link.parent]
        alpha[k] = alpha[link.parent]
        if link.kind == "revolute":
            z, j = poses.rotation[k] @ link.axis, column[k]
            omega[k] = before + z * v[:, j, None]
            alpha[k] = alpha[k] + z * a[:, j, None] + np.cross(before, z) * v[:, j, None]
    return omega, alpha
