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


def angular_velocities(robot: Robot, poses: Poses, v: Array) -> dict[int, Array]:
    """Angular velocity (N, 3) of every link in frame 0; v (N, joints of the tree)."""
    omega = {-1: np.zeros((len(v), 3))}
    column = {k: j for j, k in enumerate(robot.tree_joints)}
    for k in robot.topological_order:
        link = robot.links[k]
        omega[k] = omega[link.parent]
        if link.kind == "revolute":
            omega[k] = omega[k] + (poses.rotation[k] @ link.axis) * v[:, column[k], None]
    return omega
