"""MJCF, the format of MuJoCo, from any robot: bodies, joints with armature, damping and dry friction, gravity."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dynid.dynamics.friction import joint_scales
from dynid.errors import ExportError
from dynid.exports.subject import ExportSubject, check_bodies, composite_inertias, renamed_link_notes
from dynid.exports.verify import TreeState, random_states
from dynid.messages import Message
from dynid.robot.inertia import to_body
from dynid.robot.io.xml import format_numbers, unique_names, xml_attribute
from dynid.robot.motion import Motion
from dynid.robot.robot import Closure, Link, Robot
from dynid.robot.transform import Array, Transform, quaternion_from_rotation, rotation_about

# Loops that only numbers close, as MuJoCo can hold them: two points of two bodies that stay together.


TOGETHER = 1e-9
"""Distance (m) of two points that are one."""


def check_loops_closed_by_points(robot: Robot) -> None:
    """Refuse loops that are not closed by points alone, in all three directions, wherever the robot is."""
    for closure in robot.closures:
        if any(direction not in ("x", "y", "z") for direction in closure.keep):
            raise ExportError(
                "closure_keeps_directions", "{closure} of '{robot}' keeps directions; MJCF is written for points only",
                closure=_closure_label(closure), robot=robot.name,
            )  # fmt: skip
    state = TreeState.of(robot, random_states(robot, 5))
    for closure in robot.closures:
        for q in state.q:
            places = link_poses_at(robot, q)
            a, b = (
                _point_in_world(robot, places, link, x) for link, x in zip(closure.links, closure.points, strict=True)
            )
            if (apart := float(np.linalg.norm(a - b))) > TOGETHER:
                raise ExportError(
                    "closure_points_apart", "{closure} of '{robot}' keeps {keep}, while its points are {distance:.3g} "
                    "m apart; MJCF is written for points that meet", closure=_closure_label(closure), robot=robot.name,
                    keep=list(closure.keep), distance=apart,
                )  # fmt: skip


def _closure_label(closure: Closure) -> str:
    """A loop in words."""
    return f"the loop of {' and '.join(closure.links)}"


def closure_link(robot: Robot, name: str) -> int:
    """Return the number of the link that a closure names by its joint."""
    return next(k for k, link in enumerate(robot.links) if link.joint == name)


def _point_in_world(robot: Robot, places: dict[int, Transform], name: str, point: Array) -> Array:
    """Point of a link in frame 0."""
    T = places[closure_link(robot, name)]
    return np.asarray(T.rotation @ point + T.translation)


def link_poses_at(robot: Robot, q: Array) -> dict[int, Transform]:
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


def write_mjcf(subject: ExportSubject) -> tuple[str, tuple[Message, ...]]:
    """Return the text of an MJCF file, and notes on what it cannot hold."""
    robot = subject.robot
    check_loops_closed_by_points(robot)
    bodies = composite_inertias(robot)
    check_bodies(robot, bodies, "MuJoCo", strictly=True)
    names = unique_names(link.name for link in robot.links)
    joints = unique_names(link.joint for link in robot.links)
    carried = [link.name for link in robot.links if link.kind == "fixed" and np.any(link.inertia)]
    notes = renamed_link_notes(robot, names)
    if carried:
        notes.append(Message(
            "fixed_link_mass_merged", "the mass of the fixed links {links} is counted in the links that carry them",
            links=list(carried),
        ))  # fmt: skip
    passive = [link.joint for k, link in enumerate(robot.links) if link.friction and k not in robot.active_links]
    if passive:
        notes.append(Message(
            "passive_friction_left_out", "friction of the passive joints {joints} is left out; the model does not "
            "have it either", joints=list(passive),
        ))  # fmt: skip
    lines = [
        f'<mujoco model="{xml_attribute(unique_names([robot.name])[0])}">',
        '  <compiler angle="radian" autolimits="true" balanceinertia="false" boundmass="0" boundinertia="0"/>',
        f'  <option gravity="{format_numbers(robot.gravity)}"/>',
        "  <worldbody>",
    ]
    children: dict[int, list[int]] = {}
    for k, link in enumerate(robot.links):
        children.setdefault(link.parent, []).append(k)
    sites, impedances = _closure_sites(robot), friction_impedances(subject)
    order: list[int] = []
    todo: list[tuple[int, int, bool]] = [(k, 2, False) for k in reversed(children.get(-1, []))]
    while todo:
        k, depth, closing = todo.pop()
        indent = "  " * depth
        if closing:
            lines.append(f"{indent}</body>")
            continue
        lines += [indent + line for line in _body_lines(subject, k, names[k], joints[k], bodies, impedances)]
        lines += [f"{indent}  {site}" for site in sites.get(k, [])]
        order.append(k)
        todo.append((k, depth, True))
        todo += [(child, depth + 1, False) for child in reversed(children.get(k, []))]
    lines += ["  </worldbody>", *_coupling_lines(robot, joints), *_assembled_keyframe(robot, order), "</mujoco>"]
    return "\n".join(lines) + "\n", tuple(notes)


def _body_lines(
    subject: ExportSubject, k: int, name: str, joint: str, bodies: Mapping[int, Array], impedances: Mapping[int, float]
) -> list[str]:
    """Lines of a link's <body>, those of its joint and inertia included."""
    link = subject.robot.links[k]
    T = link.placement
    place = f'pos="{format_numbers(T.translation)}" quat="{format_numbers(quaternion_from_rotation(T.rotation))}"'
    lines = [f'<body name="{xml_attribute(name)}" {place}>']
    if link.moves:
        lines.append("  " + _joint_line(link, joint, joint_dynamics(subject, k), impedances.get(k)))
    if k in bodies:
        lines.append("  " + _inertial_element(bodies[k]))
    return lines


def _inertial_element(x: Array) -> str:
    """Return the <inertial> of ten parameters, in the body's axes."""
    body = to_body(x)
    J = body.inertia
    full = format_numbers((J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2]))
    return f'<inertial pos="{format_numbers(body.com)}" mass="{body.mass!r}" fullinertia="{full}"/>'


FRICTION_TIME = 0.004
"""Time constant (s) of dry friction, the least that MuJoCo takes with its default time step: with the default of 0.02 s
friction turns 10 ms before the velocity.
"""

SOFTEST, HARDEST = 0.9, 0.9999
"""Impedance of dry friction: MuJoCo's default, and the most that it takes."""

SLIDING = 2e-3
"""Velocity (rad/s) at which dry friction is to have reached its limit."""


def friction_impedances(subject: ExportSubject) -> dict[int, float]:
    """Impedance d by which the dry friction of a joint reaches its limit at 2 mrad/s, by the link's number.

    MuJoCo's dry friction is a soft constraint, -D (a + b v) up to its limit with D = d / (1 - d) M, b = 2 / (d T): with
    its default of d = 0.9 a light joint with much friction, as those behind gears are, has viscous friction instead.
    M: inverse of the diagonal of the inverse mass matrix, with all joints at zero.
    """
    robot = subject.robot
    if robot.couplings or robot.closures:
        return {}
    still, unit = np.zeros((robot.n + 1, robot.n)), np.vstack([np.zeros(robot.n), np.eye(robot.n)])
    torque = subject.rigid_torques(Motion(np.arange(robot.n + 1.0), still, still, unit))
    inertia = 1.0 / np.maximum(np.diag(np.linalg.pinv(torque[1:] - torque[0])), 1e-9)
    found = {}
    for j, (k, speed) in enumerate(zip(robot.active_links, SLIDING * joint_scales(robot), strict=True)):
        ratio = dict(robot.links[k].friction).get("coulomb", 0.0) * FRICTION_TIME / (2.0 * speed * inertia[j])
        if ratio > 0.0:  # d / (1 - d) / d = ratio
            found[k] = float(np.clip(1.0 - 1.0 / ratio if ratio > 1.0 else 0.0, SOFTEST, HARDEST))
    return found


def friction_softness(impedance: float | None) -> dict[str, str]:
    """Attributes of a joint that make its dry friction as hard as it must be."""
    if impedance is None:
        return {}
    d = f"{impedance:.6g}"
    return {"solreffriction": f"{FRICTION_TIME!r} 1", "solimpfriction": f"{d} {d} 0.001 0.5 2"}


def joint_dynamics(subject: ExportSubject, k: int) -> dict[str, float]:
    """Attributes of a joint that were identified, zeros left out: armature, friction, spring (rad or m).

    The model has rotors and friction at active joints only. A spring is about the position at which it holds the
    joint's constant torque, too.
    """
    robot, link = subject.robot, subject.robot.links[k]
    if k not in robot.active_links:
        return {}
    friction = dict(link.friction)
    found = {
        "armature": link.rotor,
        "damping": friction.get("viscous", 0.0),
        "frictionloss": friction.get("coulomb", 0.0),
        "stiffness": 0.0 if subject.springs is None else float(subject.springs[robot.active_links.index(k)]),
    }
    found = {key: x for key, x in found.items() if x > 0.0}
    if "stiffness" in found:
        found["springref"] = -friction.get("offset", 0.0) / found["stiffness"]
    return found


def _joint_line(link: Link, name: str, dynamics: Mapping[str, float], impedance: float | None) -> str:
    """Line of a link's <joint>."""
    kind = "hinge" if link.kind == "revolute" else "slide"
    words = [f'name="{xml_attribute(name)}" type="{kind}" axis="{format_numbers(link.axis)}"']
    if math.isfinite(link.limits.lower) and math.isfinite(link.limits.upper):
        words.append(f'range="{format_numbers((link.limits.lower, link.limits.upper))}"')
    if math.isfinite(link.limits.effort):
        words.append(f'actuatorfrcrange="{format_numbers((-link.limits.effort, link.limits.effort))}"')
    words += [f'{word}="{x!r}"' for word, x in dynamics.items()]
    words += [f'{word}="{text}"' for word, text in friction_softness(impedance).items()]
    return f"<joint {' '.join(words)}/>"


def _coupling_lines(robot: Robot, joints: list[str]) -> list[str]:
    """Equalities of two joints; where a joint follows several, a tendon of constant length ties them together."""
    if not robot.couplings and not robot.closures:
        return []
    place = {link.joint: xml_attribute(name) for link, name in zip(robot.links, joints, strict=True)}
    tendons, equalities = [], []
    for k, coupling in enumerate(robot.couplings, 1):
        passive, offset = place[coupling.passive], format_numbers((coupling.offset, 0.0, 0.0, 0.0, 0.0))
        leaders = [(place[name], factor) for name, factor in coupling.factors if factor != 0.0]
        if len(leaders) == 1:
            leader, factor = leaders[0]
            terms = format_numbers((coupling.offset, factor, 0.0, 0.0, 0.0))
            equalities.append(f'<joint joint1="{passive}" joint2="{leader}" polycoef="{terms}"/>')
            continue
        ties = "".join(f'<joint joint="{name}" coef="{-factor!r}"/>' for name, factor in leaders)
        tendons.append(f'<fixed name="coupling{k}"><joint joint="{passive}" coef="1"/>{ties}</fixed>')
        equalities.append(f'<tendon tendon1="coupling{k}" polycoef="{offset}"/>')
    for k in range(1, len(robot.closures) + 1):
        equalities.append(f'<connect site1="loop{k}a" site2="loop{k}b"/>')
    lines = ["  <tendon>", *(f"    {line}" for line in tendons), "  </tendon>"] if tendons else []
    return [*lines, "  <equality>", *(f"    {line}" for line in equalities), "  </equality>"]


def _closure_sites(robot: Robot) -> dict[int, list[str]]:
    """Points of the loops on their links."""
    sites: dict[int, list[str]] = {}
    for k, closure in enumerate(robot.closures, 1):
        for end, link, point in zip("ab", closure.links, closure.points, strict=True):
            sites.setdefault(closure_link(robot, link), []).append(
                f'<site name="loop{k}{end}" pos="{format_numbers(point)}"/>'
            )
    return sites


def _assembled_keyframe(robot: Robot, order: list[int]) -> list[str]:
    """Return a keyframe at which all loops are closed and all couplings hold."""
    if not robot.closures and not robot.couplings:
        return []
    at, still = assembly_positions(robot)[None], np.zeros((1, robot.n))
    state = TreeState.of(robot, Motion(np.zeros(1), at, still, still))
    position = dict(zip(robot.tree_joints, state.q[0], strict=True))
    qpos = format_numbers(position[k] for k in order if k in position)
    return ["  <keyframe>", f'    <key name="assembled" qpos="{qpos}"/>', "  </keyframe>"]


def assembly_positions(robot: Robot) -> Array:
    """Positions (n,) of the active joints at which the loops were closed first."""
    return next((np.array(c.at) for c in robot.closures if c.at is not None), np.zeros(robot.n))
