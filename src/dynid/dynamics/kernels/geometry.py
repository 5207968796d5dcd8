"""A robot's tree as plain arrays, so that one compiled kernel serves all robots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynid.robot.robot import Link, Robot
from dynid.robot.transform import Array, skew

FIXED, REVOLUTE, PRISMATIC = 0, 1, 2
_KINDS = {"fixed": FIXED, "floating": FIXED, "revolute": REVOLUTE, "prismatic": PRISMATIC}

Integers = NDArray[np.int64]


class Geometry(NamedTuple):
    """Links in an order where parents come first.

    parent (L,), -1 for the base; kind (L,); joint (L,): index of the tree joint, -1 where the link is fixed;
    rotation (L, 3, 9): R(q) = A + B sin q + C cos q, row by row; translation (L, 3) and axis (L, 3); link (L,):
    index in `robot.links`; chain (L + 1,) and chain_joint: joints on the way from the base to each link,
    chain_joint[chain[i]:chain[i + 1]], the link's own joint last.
    """

    parent: Integers
    kind: Integers
    joint: Integers
    rotation: Array
    translation: Array
    axis: Array
    link: Integers
    chain: Integers
    chain_joint: Integers


class Samples(NamedTuple):
    """Motion of N samples: of the base frame (N or 1, BASE_FRAME), and of the tree's joints, q, qd, qdd (N, joints)."""

    base_frame: Array
    q: Array
    qd: Array
    qdd: Array


class Gradient(NamedTuple):
    """Derivatives of a number by the tree's q, qd, qdd, (N, joints) each."""

    q: Array
    qd: Array
    qdd: Array

    def samples_between(self, start: int, stop: int) -> Gradient:
        """Return views of a range of samples."""
        return Gradient(*(x[start:stop] for x in self))


class RowLayout(NamedTuple):
    """What stands in a sample's rows, and where.

    kind: TORQUE, MOMENTUM, POWER or ENERGY; channels: rows of the base frame before the joints', 0 or 6; rows: all, or
    6 for the base frame alone; p: columns; inertial (L,): where a link's ten begin; rotor (joints,): where Ia stands,
    or -1.
    """

    kind: int
    channels: int
    rows: int
    p: int
    inertial: Integers
    rotor: Integers


def tree_arrays(robot: Robot) -> Geometry:
    """Convert a robot's open tree to plain arrays for the kernels."""
    order = robot.topological_order
    position = {k: i for i, k in enumerate(order)} | {-1: -1}
    joint_of = {k: j for j, k in enumerate(robot.tree_joints)}
    links = [robot.links[k] for k in order]
    parent = [position[link.parent] for link in links]
    joint = [joint_of.get(k, -1) for k in order]
    chains: list[list[int]] = []
    for i in range(len(links)):
        before = chains[parent[i]] if parent[i] >= 0 else []
        chains.append(before + ([joint[i]] if joint[i] >= 0 else []))
    return Geometry(
        parent=np.array(parent),
        kind=np.array([_KINDS[link.kind] for link in links]),
        joint=np.array(joint),
        rotation=np.array([_rotation_terms(link) for link in links]),
        translation=np.array([link.placement.translation for link in links]),
        axis=np.array([link.axis for link in links]),
        link=np.array(order),
        chain=np.cumsum([0, *map(len, chains)]),
        chain_joint=np.array([j for chain in chains for j in chain], dtype=np.int64),
    )


def _rotation_terms(link: Link) -> Array:
    """A, B, C of R(q) = A + B sin q + C cos q (Rodrigues); a joint that does not turn has B = C = 0."""
    R = link.placement.rotation
    if link.kind != "revolute":
        return np.stack([R.ravel(), np.zeros(9), np.zeros(9)])
    aa = np.outer(link.axis, link.axis)
    return np.stack([(R @ aa).ravel(), (R @ skew(link.axis)).ravel(), (R @ (np.eye(3) - aa)).ravel()])


# Where the links are: poses along a motion of the open tree, all samples at once.


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
            R = R @ _rotations_about_axis(link.axis, q[:, column[k]])
        rotation[k], position[k] = R, p
    return Poses(rotation, position)


def _rotations_about_axis(axis: Array, angle: Array) -> Array:
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
