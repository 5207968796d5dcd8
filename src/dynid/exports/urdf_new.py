"""A new URDF from any robot: fixed places, axes, limits, friction and bodies, in the robot's own frames."""

from __future__ import annotations

import math

import numpy as np

from dynid.errors import ExportError
from dynid.exports.names import numbers_text, renamed_link_notes, unique_names, xml_attribute
from dynid.exports.subject import ExportSubject, check_bodies, composite_inertias, roll_pitch_yaw
from dynid.messages import Message, Option
from dynid.robot.inertia import to_body
from dynid.robot.io.urdf import UNLIMITED
from dynid.robot.robot import Coupling, Robot
from dynid.robot.transform import Array

STANDARD_GRAVITY = (0.0, 0.0, -9.81)


def write_urdf(subject: ExportSubject) -> tuple[str, tuple[Message, ...]]:
    """Return the file's text, and notes on what it cannot hold."""
    robot = subject.robot
    if robot.closures:
        raise ExportError("closed_loops", "'{robot}' is a closed mechanism; a URDF is a tree", robot=robot.name)
    check_bodies(
        robot,
        {**{k: np.array(link.inertia) for k, link in enumerate(robot.links)}, **composite_inertias(robot)},
        "a URDF",
    )
    base, *links = unique_names(["base", *(link.name for link in robot.links)])
    joints = unique_names(link.joint for link in robot.links)
    lines = ['<?xml version="1.0"?>', f'<robot name="{xml_attribute(unique_names([robot.name])[0])}">']
    lines.append(f'  <link name="{xml_attribute(base)}"/>')
    for k, link in enumerate(robot.links):
        lines += [f'  <link name="{xml_attribute(links[k])}">', *inertial_lines(link.inertia, "    "), "  </link>"]
    for k, link in enumerate(robot.links):
        parent = links[link.parent] if link.parent >= 0 else base
        lines += _joint_lines(robot, k, joints, parent, links[k])
    notes = (*renamed_link_notes(robot, links), *urdf_notes(robot))
    return "\n".join([*lines, "</robot>"]) + "\n", notes


def urdf_notes(robot: Robot) -> tuple[Message, ...]:
    """What no URDF holds: gravity and rotor inertias."""
    notes = []
    if tuple(robot.gravity) != STANDARD_GRAVITY:
        notes.append(Message(
            "format_without_gravity", "a URDF has no gravity", "load it with {gravity}",
            gravity=Option("gravity", tuple(robot.gravity.tolist())),
        ))  # fmt: skip
    rotors = [robot.links[k].joint for k in robot.active_links if robot.links[k].rotor != 0.0]
    if rotors:
        notes.append(Message(
            "format_without_rotor_inertia", "a URDF has no rotor inertias", "Ia of {joints} must be added where it is "
            "used", joints=list(rotors),
        ))  # fmt: skip
    return tuple(notes)


def inertial_lines(x: Array, indent: str) -> list[str]:
    """Return the inertial element: origin at the centre of mass, axes of the link; nothing for a massless link."""
    if not np.any(x):
        return []
    body = to_body(x)
    J = body.inertia
    elements = {"ixx": J[0, 0], "ixy": J[0, 1], "ixz": J[0, 2], "iyy": J[1, 1], "iyz": J[1, 2], "izz": J[2, 2]}
    words = " ".join(f'{name}="{float(value) + 0.0!r}"' for name, value in elements.items())
    return [
        f"{indent}<inertial>",
        f'{indent}  <origin xyz="{numbers_text(body.com)}" rpy="0 0 0"/>',
        f'{indent}  <mass value="{body.mass!r}"/>',
        f"{indent}  <inertia {words}/>",
        f"{indent}</inertial>",
    ]


def _joint_lines(robot: Robot, k: int, joints: list[str], parent: str, child: str) -> list[str]:
    link = robot.links[k]
    T, limits = link.placement, link.limits
    bounded = math.isfinite(limits.lower) and math.isfinite(limits.upper)
    kind = "continuous" if link.kind == "revolute" and not bounded else link.kind
    lines = [
        f'  <joint name="{xml_attribute(joints[k])}" type="{kind}">',
        f'    <origin xyz="{numbers_text(T.translation)}" rpy="{numbers_text(roll_pitch_yaw(T.rotation))}"/>',
        f'    <parent link="{xml_attribute(parent)}"/>',
        f'    <child link="{xml_attribute(child)}"/>',
    ]
    if not link.moves:
        return [*lines, "  </joint>"]
    lines.append(f'    <axis xyz="{numbers_text(link.axis)}"/>')
    if k in robot.active_links and link.rotor != 0.0:
        unit = "kg m^2" if link.kind == "revolute" else "kg"
        lines.append(f"    <!-- rotor inertia on the joint side, which a URDF cannot hold: {link.rotor!r} {unit} -->")
    effort, velocity = (x if math.isfinite(x) else UNLIMITED for x in (limits.effort, limits.velocity))
    lower, upper = (limits.lower, limits.upper) if bounded else (-UNLIMITED, UNLIMITED)
    place = f'lower="{lower!r}" upper="{upper!r}" ' if kind != "continuous" else ""
    if bounded or kind == "prismatic" or min(effort, velocity) < UNLIMITED:
        lines.append(f'    <limit {place}effort="{effort!r}" velocity="{velocity!r}"/>')
    friction = dict(link.friction)
    words = [f'{word}="{friction[key]!r}"' for key, word in (("viscous", "damping"), ("coulomb", "friction"))
             if friction.get(key, 0.0) > 0.0]  # fmt: skip
    if words:
        lines.append(f"    <dynamics {' '.join(words)}/>")
    place_of = {other.joint: joints[i] for i, other in enumerate(robot.links)}
    for coupling in (c for c in robot.couplings if c.passive == link.joint):
        leader, factor = _single_leader(robot, coupling)
        lines.append(
            f'    <mimic joint="{xml_attribute(place_of[leader])}" multiplier="{factor!r}" '
            f'offset="{coupling.offset!r}"/>'
        )
    return [*lines, "  </joint>"]


def _single_leader(robot: Robot, coupling: Coupling) -> tuple[str, float]:
    """Return the one joint that a passive joint mimics."""
    moving = [(name, factor) for name, factor in coupling.factors if factor != 0.0]
    if len(moving) != 1:
        raise ExportError(
            "mimic_of_several_joints", "joint '{joint}' of '{robot}' follows {leaders} joints; in a URDF it can mimic "
            "one", "export .xml, .c, .toml or .json", joint=coupling.passive, robot=robot.name, leaders=len(moving),
        )  # fmt: skip
    return moving[0]
