"""What is drawn of a robot without meshes: bones between the frames, a drum on every joint, its axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.kernel.poses import link_poses
from dynid.robot.robot import Link, Robot
from dynid.robot.transform import Array

THIN = 0.012
"""Radius of a bone as a share of the robot's reach."""

SMALLEST = 0.1
"""Reach of a robot whose frames all coincide, m."""


@dataclass(frozen=True, slots=True, eq=False)
class Skeleton:
    """Segments (count, 2, 3) in m per link, in the link's own frame; -1 is the base.

    `bones` go from a frame to those that it carries, `axes` along the axis of its joint; `reach` is the length of the
    longest chain of frames.
    """

    bones: dict[int, Array]
    axes: dict[int, Array]
    reach: float

    @property
    def radius(self) -> float:
        """Radius of a bone in m."""
        return THIN * self.reach


def skeleton_of(robot: Robot, q: Array) -> Skeleton:
    """Lay out the bones; q (N, joints of the tree) are the positions to be shown: rails are as long as they need."""
    reach = _reach(robot, q)
    column = {k: j for j, k in enumerate(robot.tree_joints)}
    bones: dict[int, list[Array]] = {k: [] for k in range(-1, len(robot.links))}
    axes: dict[int, list[Array]] = {k: [] for k in range(-1, len(robot.links))}
    for k, link in enumerate(robot.links):
        place = link.placement
        if np.linalg.norm(place.translation) > 1e-6 * reach:
            bones[link.parent].append(np.array([np.zeros(3), place.translation]))
        if link.kind == "prismatic":
            axis, shown = place.rotation @ link.axis, q[:, column[k]]
            ends = np.array([min(0.0, shown.min()), max(0.0, shown.max())])
            if np.ptp(ends) > 1e-6 * reach:
                bones[link.parent].append(place.translation + ends[:, None] * axis)
        if link.moves:
            axes[k].append(0.1 * reach * np.array([-link.axis, link.axis]))
    number = {link.joint: k for k, link in enumerate(robot.links)}
    for closure in robot.closures:
        for frame, point in zip(closure.links, closure.points, strict=True):
            if np.linalg.norm(point) > 1e-6 * reach:
                bones[number.get(frame, -1)].append(np.array([np.zeros(3), point]))
    carried = {link.parent for link in robot.links} | {k for k, parts in bones.items() if parts}
    for k, link in enumerate(robot.links):
        if k not in carried:
            bones[k].append(np.array([np.zeros(3), _tip(link, reach)]))
    return Skeleton(_stacked(bones), _stacked(axes), reach)


def _reach(robot: Robot, q: Array) -> float:
    """Length of the longest chain of frames; measured in a few of the positions, as slides change it."""
    few = q[np.unique(np.linspace(0, len(q) - 1, 20).astype(int))]
    position = link_poses(robot, few).position
    length = {-1: np.zeros(len(few))}
    for k in robot.topological_order:
        parent = robot.links[k].parent
        length[k] = length[parent] + np.linalg.norm(position[k] - position[parent], axis=1)
    return max(SMALLEST, float(max(values.max() for values in length.values())))


def _tip(link: Link, reach: float) -> Array:
    """End of a last link: its centre of mass where that is known, else a stub that shows how it turns."""
    mass, moments = link.inertia[9], link.inertia[6:9]
    if np.isfinite(mass) and mass > 0.0 and np.isfinite(moments).all():
        centre = moments / mass
        if 0.03 * reach < np.linalg.norm(np.cross(link.axis, centre)) < reach:
            return np.asarray(centre)
    across = np.eye(3)[int(np.argmin(np.abs(link.axis)))]
    across = across - (across @ link.axis) * link.axis
    return np.asarray(0.12 * reach * across / np.linalg.norm(across))


def _stacked(segments: dict[int, list[Array]]) -> dict[int, Array]:
    return {k: np.stack(parts) for k, parts in segments.items() if parts}
