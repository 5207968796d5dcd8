"""The robot as a skeleton in space: links as lines, joints with their axes, the frames of base and last link."""

from __future__ import annotations

import numpy as np

from dynid.dynamics.kernels.geometry import Poses, link_poses
from dynid.dynamics.kernels.loops import loop_map
from dynid.errors import DynidError
from dynid.report.elements import Figure, Trace, escape_plot_text, typed_array
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

AXES = ("#d1495b", "#3a9d5d", "#3b82c4")
LINK, REVOLUTE, PRISMATIC, PATH = "#7b8494", "#e08a00", "#9a6bb0", "#3b82c4"
BASE = 0.15
"""Length of the base's axes over the robot's size."""


def tree_poses(robot: Robot, q: Array) -> Poses:
    """Poses of all links for positions (N, n) of the active joints; loops are closed."""
    loops = loop_map(robot)
    tree = q if loops is None else loops.tree_motion(q, np.zeros_like(q), np.zeros_like(q)).q
    return link_poses(robot, np.asarray(tree))


def middle_posture(robot: Robot) -> Array:
    """Posture (n,) in the middle of the limits, 0 for joints without."""
    limited = np.asarray(np.isfinite(robot.limits.position).all(axis=1))
    return np.asarray(np.where(limited[:, None], robot.limits.position, 0.0).mean(axis=1))


def draw_robot(robot: Robot, posture: Array) -> Figure | None:
    """Figure of the skeleton at a posture (n,); None where loops cannot be closed there."""
    try:
        poses = tree_poses(robot, posture[None])
    except DynidError:
        return None
    points = {k: p[0] for k, p in poses.position.items()}
    size = max(float(np.ptp(np.array(list(points.values())), axis=0).max()), 0.1)
    traces = [_link_traces(robot, poses, points)]
    traces += [_frame_trace(points[-1], np.eye(3), BASE * size, "base")]
    last = robot.topological_order[-1]
    traces += [
        _frame_trace(
            points[last], poses.rotation[last][0], 0.14 * size, f"frame of {escape_plot_text(robot.links[last].name)}"
        )
    ]
    for kind, colour in (("revolute", REVOLUTE), ("prismatic", PRISMATIC)):
        traces += _joint_traces(robot, poses, points, kind, colour, 0.09 * size)
    return Figure(
        f"Skeleton of {robot.name} in three dimensions, to be turned with the mouse or a finger",
        traces, space_layout(np.array(list(points.values()))), 460,
        "Drag to turn, scroll or pinch to zoom. Orange: axes of revolute joints; violet: of prismatic ones; "
        "red, green, blue: x, y, z of the base and of the last link.",
    )  # fmt: skip


def draw_path(robot: Robot, q: Array) -> Figure | None:
    """Figure of the last link's path along positions (N, n), with the skeleton where it begins."""
    start = draw_robot(robot, q[0])
    if start is None:
        return None
    try:
        poses = tree_poses(robot, q)
    except DynidError:
        return None
    last = robot.topological_order[-1]
    name = escape_plot_text(robot.links[last].name)
    path = _line_trace(poses.position[last], PATH, 4, f"path of {name}")
    note = f"Blue: path of the frame of {robot.links[last].name}; the skeleton stands where it begins. {start.note}"
    label = f"Path of the last link of {robot.name} in three dimensions"
    layout = space_layout(np.concatenate([poses.position[last], [p[0] for p in poses.position.values()]]))
    return Figure(label, [path, *start.traces], layout, start.height, note)


def space_layout(points: Array) -> dict[str, object]:
    """Layout of a drawing in space: a cube around points (N, 3) and axes there, so that every robot fits."""
    low, high = points.min(axis=0), points.max(axis=0)
    middle, half = (low + high) / 2.0, (0.5 + BASE) * max(float((high - low).max()), 0.1)
    axes = {
        f"{x}axis": {
            "title": {"text": f"{x} [m]"}, "showbackground": False, "nticks": 5,
            "range": [float(centre - half), float(centre + half)],
        }
        for x, centre in zip("xyz", middle, strict=True)
    }  # fmt: skip
    camera = {"eye": {"x": 1.25, "y": -1.5, "z": 0.7}, "center": {"x": 0, "y": 0, "z": -0.08}}
    return {
        "scene": {**axes, "aspectmode": "cube", "camera": camera, "dragmode": "orbit"},
        "margin": {"l": 0, "r": 0, "t": 0, "b": 0}, "showlegend": False,
    }  # fmt: skip


def _link_traces(robot: Robot, poses: Poses, points: dict[int, Array]) -> Trace:
    """Trace of lines from frame to frame, and to the points at which loops are closed."""
    rows: list[Array] = []
    for k, link in enumerate(robot.links):
        rows += [points[link.parent], points[k], np.full(3, np.nan)]
    place = {link.name: k for k, link in enumerate(robot.links)}
    for closure in robot.closures:
        for name, point in zip(closure.links, closure.points, strict=True):
            k = place.get(name, -1)  # or the base
            rows += [points[k], points[k] + poses.rotation[k][0] @ point, np.full(3, np.nan)]
    return _line_trace(np.array(rows), LINK, 9, "links")


def _joint_traces(
    robot: Robot, poses: Poses, points: dict[int, Array], kind: str, colour: str, half: float
) -> list[Trace]:
    """Traces of lines along the axes of the joints of one kind, and markers at them."""
    own = [k for k in robot.tree_joints if robot.links[k].kind == kind]
    if not own:
        return []
    axes = {k: poses.rotation[k][0] @ robot.links[k].axis for k in own}
    rows = [x for k in own for x in (points[k] - half * axes[k], points[k] + half * axes[k], np.full(3, np.nan))]
    centres = np.array([points[k] for k in own])
    names = [escape_plot_text(robot.links[k].joint) for k in own]
    marks = {
        **_line_trace(centres, colour, 1, kind), "mode": "markers", "marker": {"size": 4, "color": colour},
        "hovertext": names, "hoverinfo": "text",
    }  # fmt: skip
    return [_line_trace(np.array(rows), colour, 6, kind), marks]


def _frame_trace(origin: Array, rotation: Array, length: float, name: str) -> Trace:
    """Trace of the three coloured axes of a frame."""
    rows = [x for k in range(3) for x in (origin, origin + length * rotation[:, k], origin)]
    colours = [colour for colour in AXES for _ in range(3)]
    return {**_line_trace(np.array(rows), "", 4, name), "line": {"width": 4, "color": colours}}


def _line_trace(rows: Array, colour: str, width: int, name: str) -> Trace:
    """Trace of a polyline in space; NaN breaks it."""
    x, y, z = (typed_array(column) for column in rows.T)
    return {
        "type": "scatter3d", "mode": "lines", "x": x, "y": y, "z": z, "name": name, "hoverinfo": "name",
        "line": {"color": colour, "width": width}, "connectgaps": False,
    }  # fmt: skip
