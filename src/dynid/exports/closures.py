"""Loops that only numbers close, as MuJoCo can hold them: two points of two bodies that stay together."""

from __future__ import annotations

import numpy as np

from dynid.errors import ExportError
from dynid.exports.tree_state import TreeState, states_near
from dynid.robot.loops import Closure
from dynid.robot.robot import Robot
from dynid.robot.transform import Array, Transform, rotation_about

TOGETHER = 1e-9
"""Distance (m) of two points that are one."""


def check_points_meet(robot: Robot) -> None:
    """Refuse loops that are not closed by points alone, in all three directions, wherever the robot is."""
    for closure in robot.closures:
        if any(direction not in ("x", "y", "z") for direction in closure.keep):
            raise ExportError(f"{_named(closure)} of '{robot.name}' keeps directions; MJCF is written for points only")
    state = TreeState.of(robot, states_near(robot, 5))
    for closure in robot.closures:
        for q in state.q:
            places = poses(robot, q)
            a, b = (_in_world(robot, places, link, x) for link, x in zip(closure.links, closure.points, strict=True))
            if (apart := float(np.linalg.norm(a - b))) > TOGETHER:
                raise ExportError(
                    f"{_named(closure)} of '{robot.name}' keeps {', '.join(closure.keep)}, while its points are "
                    f"{apart:.3g} m apart; MJCF is written for points that meet"
                )


def _named(closure: Closure) -> str:
    return f"the loop of {' and '.join(closure.links)}"


def carrier(robot: Robot, name: str) -> int:
    """Return the number of the link that a closure names by its joint."""
    return next(k for k, link in enumerate(robot.links) if link.joint == name)


def _in_world(robot: Robot, places: dict[int, Transform], name: str, point: Array) -> Array:
    T = places[carrier(robot, name)]
    return np.asarray(T.rotation @ point + T.translation)


def poses(robot: Robot, q: Array) -> dict[int, Transform]:
    """Poses of all links in frame 0, from the positions of all joints of the tree."""
    position = dict(zip(robot.tree_joints, map(float, q), strict=True))
    places = {-1: Transform.identity()}
    for k in robot.topological_order:
        link = robot.links[k]
        T = places[link.parent] @ link.placement
        if link.kind == "revolute":
            T = T @ Transform(rotation_about(link.axis, position[k]), np.zeros(3))
        elif link.kind == "prismatic":
            T = T @ Transform(np.eye(3), position[k] * link.axis)
        places[k] = T
    return places
