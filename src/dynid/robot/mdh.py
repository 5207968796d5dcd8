"""Modified Denavit-Hartenberg (Khalil-Kleinfinger) frames: from a row to a pose, and from any tree to a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.messages import Message, Option
from dynid.robot.expression import Expression
from dynid.robot.force_sensor import ForceSensor
from dynid.robot.inertia import SYMBOLS, change_of_frame
from dynid.robot.robot import Closure, Link, MdhRow, Robot
from dynid.robot.transform import Array, Transform, freeze, rotation_x, rotation_z

_ROUNDING = 1e-12
"""Angles (rad) and lengths (m) below this are rounding, not geometry, when frames are derived from a tree."""

_PARALLEL = 1e-8
"""Axes this close to parallel (rad) are treated as parallel, with a note.

Their common normal lies so far away (offset / angle) that lengths of a table could not hold it: the error would be
1e-16 / angle, that of the change is the angle, and here both are equal.
"""

Z_AXIS = freeze([0.0, 0.0, 1.0])


def mdh_transform(row: MdhRow) -> Transform:
    """Pose of frame j in its parent at q = 0: Rz(gamma) Tz(b) Rx(alpha) Tx(d) Rz(theta) Tz(r)."""
    return (
        Transform(rotation_z(row.gamma.value), np.array([0.0, 0.0, row.b.value]))
        @ Transform(rotation_x(row.alpha.value), np.zeros(3))
        @ Transform(rotation_z(row.theta.value), np.array([row.d.value, 0.0, row.r.value]))
    )


def to_mdh(robot: Robot) -> Robot:
    """Return the robot with all links in modified Denavit-Hartenberg frames; torques stay the same.

    Frame 0 stays where it is (gravity, base reactions and a floating base keep their meaning). On each axis
    the frame sits at the foot of the common normal to the first child's axis, so that this child needs no
    gamma and b; the last frame of a chain takes theta = 0 and r = 0.
    """
    if all(link.mdh is not None or link.kind == "floating" for link in robot.links):
        return robot
    T_link_mdh: dict[int, Transform] = {-1: Transform.identity()}
    rows: dict[int, MdhRow] = {}
    for k in robot.topological_order:
        link = robot.links[k]
        if link.kind == "floating":
            T_link_mdh[k] = Transform.identity()
            continue
        rows[k], T_link_mdh[k] = _find_mdh_frame(robot, k, T_link_mdh)
    links = tuple(
        link if k not in rows else _link_in_mdh_frame(robot, k, rows[k], T_link_mdh[k])
        for k, link in enumerate(robot.links)
    )
    closures = tuple(_closure_in_mdh_frames(robot, c, T_link_mdh) for c in robot.closures)
    return replace(
        robot, links=links, closures=closures, notes=(*robot.notes, *_describe_turned_axes(robot, T_link_mdh)),
        sensor=_turn_rotor_axes(robot, T_link_mdh),
    )  # fmt: skip


def _turn_rotor_axes(robot: Robot, T_link_mdh: dict[int, Transform]) -> ForceSensor | None:
    """The sensor with the axes of its rotors in the new frames of the links that carry them."""
    if robot.sensor is None:
        return None
    carrier = {link.joint: link.parent for link in robot.links}
    rotors = tuple(replace(r, axis=T_link_mdh[carrier[r.joint]].rotation.T @ r.axis) for r in robot.sensor.rotors)
    return replace(robot.sensor, rotors=rotors)


def _describe_turned_axes(robot: Robot, T_link_mdh: dict[int, Transform]) -> list[Message]:
    """Notes on joints whose axis was turned because it is almost parallel to its parent's."""
    notes = []
    for k, T in T_link_mdh.items():
        if k < 0 or not robot.links[k].moves:
            continue
        off = float(np.linalg.norm(np.cross(T.rotation[:, 2], robot.links[k].axis)))
        if off > 2 * _ROUNDING:
            notes.append(Message(
                "axes_taken_for_parallel", "joint '{joint}': {angle:.1g} rad from parallel to the axis before, treated "
                "as parallel", joint=robot.links[k].joint, angle=off,
            ))  # fmt: skip
    return notes


def _link_in_mdh_frame(robot: Robot, k: int, row: MdhRow, T_link_mdh: Transform) -> Link:
    """Link k in its new frame; known zeros are kept where they are zeros there too."""
    link = robot.links[k]
    A = change_of_frame(T_link_mdh.inverse())
    return replace(
        link,
        placement=mdh_transform(row),
        axis=Z_AXIS,
        mdh=row,
        inertia=freeze(transform_parameters(A, link.inertia)),
        zero=transform_known_zeros(A, link.zero)[0],
    )


def transform_parameters(A: Array, inertia: Array) -> Array:
    """Parameters A @ x, where an unknown (NaN) one spoils only what depends on it."""
    unknown = np.isnan(inertia)
    moved = np.asarray(A @ np.where(unknown, 0.0, inertia))
    moved[(np.abs(A[:, unknown]) > _ROUNDING).any(axis=1)] = np.nan
    return moved


def transform_known_zeros(A: Array, zero: frozenset[str]) -> tuple[frozenset[str], bool]:
    """Parameters that stay known zeros after a change of frame A, and whether none was lost."""
    free = [i for i, symbol in enumerate(SYMBOLS) if symbol not in zero]
    still = {s for i, s in enumerate(SYMBOLS) if not (np.abs(A[i, free]) > _ROUNDING).any()}
    return frozenset(still | (zero & {"Ia"})), len(still) == len(zero - {"Ia"})


def _closure_in_mdh_frames(robot: Robot, closure: Closure, T_link_mdh: dict[int, Transform]) -> Closure:
    """The closure with its points in the new link frames."""
    index = {link.joint: k for k, link in enumerate(robot.links)}
    points = []
    for joint, point in zip(closure.links, closure.points, strict=True):
        T = T_link_mdh[index[joint]].inverse()
        points.append(freeze(T.rotation @ point + T.translation))
    return replace(closure, points=(points[0], points[1]))


@dataclass(frozen=True, slots=True, eq=False)
class _Axis:
    """A directed line in space."""

    point: Array
    direction: Array


def _find_mdh_frame(robot: Robot, k: int, T_link_mdh: dict[int, Transform]) -> tuple[MdhRow, Transform]:
    """Row of link k and the pose of its MDH frame in its old link frame."""
    link = robot.links[k]
    T_parent_link = T_link_mdh[link.parent].inverse() @ link.placement
    axis = _Axis(T_parent_link.translation, T_parent_link.rotation @ link.axis)
    gamma, b, alpha, d, x, foot = _normal_from_parent(axis)
    child = next((c for c in robot.links if c.parent == k and c.kind != "floating"), None)
    origin, x_axis = foot, x
    if child is not None:
        T_parent_child = T_parent_link @ child.placement
        target = _Axis(T_parent_child.translation, T_parent_child.rotation @ child.axis)
        origin, x_axis = _normal_to_child(axis, target, foot, x)
    y = np.cross(axis.direction, x)
    theta = _clean_angle(math.atan2(float(x_axis @ y), float(x_axis @ x)))
    r = _clean_length(float((origin - foot) @ axis.direction))
    row = MdhRow(*(Expression(value) for value in (gamma, b, alpha, d, theta, r)))
    return row, T_parent_link.inverse() @ mdh_transform(row)


def _normal_from_parent(axis: _Axis) -> tuple[float, float, float, float, Array, Array]:
    """Gamma, b, alpha, d, direction and foot of the common normal from the parent's z axis."""
    u, p = axis.direction, axis.point
    sine = math.hypot(u[0], u[1])
    if sine <= _PARALLEL:  # the normal from the parent's origin, no b
        d = math.hypot(p[0], p[1])
        gamma = _clean_angle(math.atan2(p[1], p[0])) if d > _ROUNDING else 0.0
        alpha, b, d = (0.0 if u[2] > 0.0 else math.pi), 0.0, _clean_length(d)
        foot_height = 0.0
    else:
        gamma = _clean_angle(math.atan2(u[0], -u[1]))
        if abs(gamma) > math.pi / 2 + _ROUNDING:  # of both directions of the normal, the one nearer to the x axis
            gamma = _clean_angle(gamma - math.copysign(math.pi, gamma))
        x = rotation_z(gamma)[:, 0]
        d = _clean_length(float(p @ x))
        alpha = _clean_angle(math.atan2(float(u @ np.cross(Z_AXIS, x)) * -1.0, float(u[2])))
        # the foot on the parent's axis: (p + s u - d x) parallel to z
        horizontal = u[:2] / sine
        s = -float(p[:2] @ horizontal) / sine
        foot_height = float(p[2] + s * u[2])
        b = _clean_length(foot_height)
    T = Transform(rotation_z(gamma), np.array([0.0, 0.0, b])) @ Transform(
        rotation_x(alpha), rotation_x(alpha) @ np.array([d, 0.0, 0.0])
    )
    return gamma, b, alpha, d, T.rotation[:, 0], T.translation


def _normal_to_child(axis: _Axis, target: _Axis, foot: Array, x: Array) -> tuple[Array, Array]:
    """Origin on the axis and x direction, at the common normal to the child's axis."""
    z, u = axis.direction, target.direction
    cross = np.cross(z, u)
    sine = float(np.linalg.norm(cross))
    between = target.point - foot
    if sine <= _PARALLEL:  # stay at the foot, r = 0
        across = between - (between @ z) * z
        distance = float(np.linalg.norm(across))
        return foot, (across / distance if distance > _ROUNDING else x)
    normal = cross / sine
    distance = float(between @ normal)
    if distance < -_ROUNDING or (abs(distance) <= _ROUNDING and normal @ x < -_ROUNDING):
        normal = -normal
    s = float(np.cross(between, u) @ cross) / sine**2
    return foot + s * z, normal


def _clean_angle(angle: float) -> float:
    """Angle without rounding errors beside a multiple of 90 degrees."""
    quarter = round(angle / (math.pi / 2))
    exact = quarter * (math.pi / 2)
    angle = exact if abs(angle - exact) <= _ROUNDING else angle
    return math.pi if angle == -math.pi else angle


def _clean_length(length: float) -> float:
    """Length without rounding errors beyond twelve decimals."""
    nearest = round(length, 12)
    return nearest if abs(length - nearest) <= 4e-15 * max(1.0, abs(length)) else length


# Notes on angles that were rounded to right ones.


_ONE_BY_ONE = 2
_NAMED = 3


@dataclass(frozen=True, slots=True)
class SnappedAngle:
    """An angle that was rounded to a multiple of 90 degrees: where, by how much (rad), and the note on it alone."""

    where: str
    off: float
    note: Message


def describe_snapped_angles(snapped: Sequence[SnappedAngle]) -> list[Message]:
    """Return a note on each, or one on all where they are many."""
    if len(snapped) <= _ONE_BY_ONE:
        return [one.note for one in snapped]
    worst = max(snapped, key=lambda one: one.off)
    names = "; ".join(one.where for one in snapped[:_NAMED])
    more = "; ..." if len(snapped) > _NAMED else ""
    return [Message(
        "angles_snapped", "angles in {count} places ({places}{more}) are rounded to multiples of 90 degrees, by at "
        "most {angle:.1g} rad ({worst})", "{snap} keeps them", count=len(snapped), places=names, more=more,
        angle=worst.off, worst=worst.where, snap=Option("snap", False),
    )]  # fmt: skip
