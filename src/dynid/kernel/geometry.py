"""A robot's tree as plain arrays, so that one compiled kernel serves all robots."""

from __future__ import annotations

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


def geometry_of(robot: Robot) -> Geometry:
    """Arrays of a robot's open tree."""
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
