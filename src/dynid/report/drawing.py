"""The robot as a skeleton in space, drawn by the page on a canvas: links as lines, joints with their axes, frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynid.dynamics.kernels.geometry import Poses, link_poses, tree_arrays
from dynid.dynamics.kernels.loops import loop_map
from dynid.errors import DynidError
from dynid.report.elements import escape_control_characters, script_json, typed_array
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

HINT = (
    "Drag to turn, arrow keys too. Orange: axes of revolute joints; purple: of prismatic ones; red, green, blue: x, y, "
    "z of the base and of the last link."
)


@dataclass(frozen=True, slots=True, eq=False)
class Skeleton:
    """A robot that the page poses and draws; label: what a person who cannot see it is told; clocks: see `poses`.

    poses: of every recording that it can replay, instants (K,) and positions (K, joints of the tree), else one posture.
    """

    robot: Robot
    poses: Sequence[tuple[Array, Array]]
    label: str
    note: str = HINT
    shows_path: bool = False

    @property
    def json(self) -> str:
        """Geometry and poses as JSON for a script element."""
        return script_json({**geometry(self.robot), **self._bounds(), "poses": [
            {"t": typed_array(t), "q": typed_array(q)} for t, q in self.poses
        ], "path": self.shows_path})  # fmt: skip

    def _bounds(self) -> dict[str, Any]:
        """Centre and radius of a ball that holds the robot in all poses, in m."""
        some = [q[:: max(1, len(q) // 50)] for _, q in self.poses]
        points = np.concatenate([p for q in some for p in link_poses(self.robot, q).position.values()])
        centre = 0.5 * (points.min(axis=0) + points.max(axis=0))
        return {"centre": centre.tolist(), "size": max(float(np.linalg.norm(points - centre, axis=1).max()), 0.05)}


def geometry(robot: Robot) -> dict[str, Any]:
    """Links of a robot in an order where parents come first, for a script that poses them.

    Of each link: parent, kind (0 fixed, 1 revolute, 2 prismatic), place of its joint among those of the tree, rotation
    A + B sin q + C cos q (27 numbers), translation, axis and the joint's name; loops: link and point where one closes.
    """
    tree = tree_arrays(robot)
    place = {int(k): i for i, k in enumerate(tree.link)}
    number = {link.name: k for k, link in enumerate(robot.links)}
    links = [
        {
            "parent": int(tree.parent[i]), "kind": int(tree.kind[i]), "joint": int(tree.joint[i]),
            "rotation": np.asarray(tree.rotation[i]).ravel().tolist(), "translation": tree.translation[i].tolist(),
            "axis": tree.axis[i].tolist(), "name": escape_control_characters(robot.links[int(tree.link[i])].joint),
        }
        for i in range(len(tree.link))
    ]  # fmt: skip
    loops = [
        {"link": place.get(number.get(name, -1), -1), "point": np.asarray(point).tolist()}
        for closure in robot.closures
        for name, point in zip(closure.links, closure.points, strict=True)
    ]
    return {"links": links, "loops": loops}


def tree_positions(robot: Robot, q: Array) -> Array:
    """Positions (N, joints of the tree) for those of the active joints (N, n); loops are closed."""
    loops = loop_map(robot)
    return np.asarray(q if loops is None else loops.tree_motion(q, np.zeros_like(q), np.zeros_like(q)).q)


def tree_poses(robot: Robot, q: Array) -> Poses:
    """Poses of all links for positions (N, n) of the active joints; loops are closed."""
    return link_poses(robot, tree_positions(robot, q))


def middle_posture(robot: Robot) -> Array:
    """Posture (n,) in the middle of the limits, 0 for joints without."""
    limited = np.asarray(np.isfinite(robot.limits.position).all(axis=1))
    return np.asarray(np.where(limited[:, None], robot.limits.position, 0.0).mean(axis=1))


def draw_robot(robot: Robot, posture: Array) -> Skeleton | None:
    """Skeleton at a posture (n,); None where loops cannot be closed there."""
    return draw_recordings(robot, [(np.zeros(1), posture[None])], f"Skeleton of {robot.name}, to be turned")


def draw_recordings(
    robot: Robot, recordings: Sequence[tuple[Array, Array]], label: str, *, shows_path: bool = False
) -> Skeleton | None:
    """Skeleton that replays recordings: instants (K,) and positions (K, n); None where loops cannot be closed."""
    try:
        poses = [(t, tree_positions(robot, q)) for t, q in recordings]
    except DynidError:
        return None
    note = HINT
    if shows_path:
        last = robot.links[robot.topological_order[-1]].name
        note = f"Blue: path of the frame of {last}. {HINT}"
    return Skeleton(robot, poses, label, note, shows_path)


def draw_path(robot: Robot, t: Array, q: Array) -> Skeleton | None:
    """Skeleton that replays a motion, with the last link's path along positions (N, n)."""
    return draw_recordings(robot, [(t, q)], f"Skeleton of {robot.name} and the path of its last link", shows_path=True)
