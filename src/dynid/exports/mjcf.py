"""MJCF, the format of MuJoCo, from any robot: bodies, joints with armature, damping and dry friction, gravity."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

import numpy as np

from dynid.dynamics.friction import joint_scales
from dynid.errors import ExportError, RobotFileError
from dynid.exports.subject import ExportSubject, check_bodies, renamed_link_notes
from dynid.exports.urdf import CarriedLink, check_same_robot, end_of_tag, split_among_carried_links
from dynid.exports.verify import TreeState, random_states
from dynid.messages import Message
from dynid.robot.inertia import Body, change_of_frame, from_body, to_body
from dynid.robot.io.mjcf_expansion import expand_includes, frames_to_bodies, name_bodies_and_joints
from dynid.robot.io.xml import format_numbers, read_xml, unique_names, xml_attribute
from dynid.robot.load import load_robot
from dynid.robot.motion import Motion
from dynid.robot.robot import Closure, Link, Robot, composite_inertias
from dynid.robot.transform import Array, Transform, quaternion_from_rotation, rotation_about

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

# Loops that only numbers close, as MuJoCo can hold them: two points of two bodies that stay together.


TOGETHER = 1e-9
"""Distance (m) of two points that are one."""


def check_loops_closed_by_points(robot: Robot) -> None:
    """Raise for loops that are not closed by points alone, in all three directions, wherever the robot is."""
    for closure in robot.closures:
        if any(direction not in ("x", "y", "z") for direction in closure.keep):
            raise ExportError(
                "closure_keeps_directions", "{closure} of '{robot}' keeps directions; MJCF is written for points only",
                closure=_closure_label(closure), robot=robot.name,
            )  # fmt: skip
    state = TreeState.along_motion(robot, random_states(robot, 5))
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
    """Text that names the two links of a loop."""
    return f"the loop of {' and '.join(closure.links)}"


def closure_link(robot: Robot, name: str) -> int:
    """Index of the link that a closure names by its joint."""
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
    """Text of an MJCF file, and notes on what it cannot hold."""
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
    """Text of the <inertial> of ten parameters, in the body's axes."""
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
    if robot.couplings or robot.closures or subject.keeps_softness:
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
    """Attributes of a joint that set how hard MuJoCo makes its dry friction."""
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
    """Lines of equalities of two joints, or of a tendon where a joint follows several."""
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
    """Lines of <site>s at the points of the loops, by link."""
    sites: dict[int, list[str]] = {}
    for k, closure in enumerate(robot.closures, 1):
        for end, link, point in zip("ab", closure.links, closure.points, strict=True):
            sites.setdefault(closure_link(robot, link), []).append(
                f'<site name="loop{k}{end}" pos="{format_numbers(point)}"/>'
            )
    return sites


def _assembled_keyframe(robot: Robot, order: list[int]) -> list[str]:
    """Lines of a keyframe at which all loops are closed and all couplings hold."""
    if not robot.closures and not robot.couplings:
        return []
    at, still = assembly_positions(robot)[None], np.zeros((1, robot.n))
    state = TreeState.along_motion(robot, Motion(np.zeros(1), at, still, still))
    position = dict(zip(robot.tree_joints, state.q[0], strict=True))
    qpos = format_numbers(position[k] for k in order if k in position)
    return ["  <keyframe>", f'    <key name="assembled" qpos="{qpos}"/>', "  </keyframe>"]


def assembly_positions(robot: Robot) -> Array:
    """Positions (n,) of the active joints at which the loops were closed first."""
    return next((np.array(c.at) for c in robot.closures if c.at is not None), np.zeros(robot.n))


# A file of the user with new inertias, armatures and friction: all else stays, byte for byte.


@dataclass(slots=True)
class ElementBytes:
    """Bytes of an element: where it and its start tag begin and end, and its attributes."""

    start: int
    inside: int
    end: int
    attributes: dict[str, str]


_PATCHED = ("mujoco", "compiler", "body", "joint", "inertial")
_ATTRIBUTE = re.compile(rb"\s([^\s=]+)\s*=\s*(\"[^\"]*\"|'[^']*')")
_NEUTRAL = {
    "inertiafromgeom": "auto", "balanceinertia": "false", "boundmass": "0", "boundinertia": "0", "settotalmass": "-1",
}  # fmt: skip
"""Defaults of the compiler, which leave inertias as they are."""


def find_elements(path: Path, data: bytes) -> dict[str, list[ElementBytes]]:
    """Elements to be edited, by tag in the order of the file; those of defaults are left out.

    The file is one that `read_xml` has accepted (no document type, no entities).
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\x00" in data:
        raise RobotFileError(
            str(path), "unsupported_text_encoding", "only text in UTF-8 or another extension of ASCII is updated",
            "convert it",
        )  # fmt: skip
    parser = expat.ParserCreate()
    trail: list[tuple[str, ElementBytes]] = []
    found: dict[str, list[ElementBytes]] = {tag: [] for tag in _PATCHED}

    def on_start_tag(tag: str, attributes: dict[str, str]) -> None:
        """Note where an element and its start tag begin and end."""
        at = parser.CurrentByteIndex
        inside = end_of_tag(data, at)
        trail.append((tag, ElementBytes(at, inside, inside, attributes)))
        of_robot = tag in ("body", "joint", "inertial") and len(trail) > 2 and trail[1][0] == "worldbody"
        if of_robot or (tag in ("mujoco", "compiler") and len(trail) <= 2):
            found[tag].append(trail[-1][1])

    def on_end_tag(tag: str) -> None:
        """Note where an element ends."""
        element = trail.pop()[1]
        if data[element.inside - 2 : element.inside - 1] != b"/":
            element.end = end_of_tag(data, parser.CurrentByteIndex)

    parser.StartElementHandler, parser.EndElementHandler = on_start_tag, on_end_tag
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise RobotFileError(str(path), "not_xml", "not an XML file: {reason}", reason=error) from error
    return found


def _same_numbers(old: str, new: str) -> bool:
    """Whether two attributes are the same text, or the same numbers: 45 and 45.0."""
    try:
        return old == new or [float(x) for x in old.split()] == [float(x) for x in new.split()]
    except ValueError:
        return False


def attribute_edits(data: bytes, element: ElementBytes, new: Mapping[str, str | None]) -> list[tuple[int, int, bytes]]:
    """Edits (start, end, new bytes) that give an element's attributes new values, or remove them (None)."""
    edits, missing = [], dict(new)
    for match in _ATTRIBUTE.finditer(data, element.start, element.inside):
        name = match[1].decode("utf-8", "replace")
        if name in missing:
            text = missing.pop(name)
            if text is None:
                edits.append((match.start(), match.end(), b""))
            elif not _same_numbers(element.attributes[name], text):
                edits.append((match.start(2), match.end(2), f'"{xml_attribute(text)}"'.encode()))
    words = "".join(f' {key}="{xml_attribute(text)}"' for key, text in missing.items() if text is not None)
    at = element.inside - (2 if data[element.inside - 2 : element.inside - 1] == b"/" else 1)
    return [*edits, (at, at, words.encode())] if words else edits


@dataclass(frozen=True, eq=False)
class _MjcfTemplate:
    """An MJCF file as it is written and as it is read: bytes of its elements, and elements with names for all.

    bodies, joints, inertials: pairs of what stands in this file, in its order. root: with included files.
    every: all bodies in the order of MuJoCo; model: the file in MuJoCo, where bodies are numbered from 1 on.
    """

    path: Path
    data: bytes
    found: dict[str, list[ElementBytes]]
    root: Element
    here: dict[Element, ElementBytes]
    every: list[Element]
    model: Any
    mujoco: Any

    @staticmethod
    def read(path: Path) -> _MjcfTemplate:
        """Read a template; raise where it cannot be updated."""
        try:
            import mujoco
        except ImportError as error:
            raise ExportError(
                "needs_extra_package", "updating {template} needs MuJoCo", "pip install mujoco", template=path,
            ) from error  # fmt: skip
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ExportError(
                "file_unreadable", "cannot read {template}: {reason}", template=path, reason=error.strerror or error,
            ) from error  # fmt: skip
        root = read_xml(path, "mujoco", "is this an MJCF?")
        found = find_elements(path, data)
        worlds = root.findall("worldbody")
        here = {
            element: at
            for tag in ("body", "joint", "inertial")
            for element, at in zip((e for world in worlds for e in world.iter(tag)), found[tag], strict=True)
        }
        expand_includes(path, root, path.resolve().parent)
        every = [body for world in root.findall("worldbody") for body in world.iter("body")]
        own_names = [body.get("name", "") for body in every]
        frames_to_bodies(path, root)
        name_bodies_and_joints(root)
        mujoco.set_mju_user_warning(lambda text: None)  # else it writes a MUJOCO_LOG.TXT wherever it is run
        try:
            if any(compiler.get("fusestatic") == "true" for compiler in root.findall("compiler")):
                spec = mujoco.MjSpec.from_file(str(path))
                spec.compiler.fusestatic = False  # every body is asked for
                model = spec.compile()
            else:
                model = mujoco.MjModel.from_xml_path(str(path))
        except ValueError as error:
            reason = str(error).strip().splitlines()[0]
            raise ExportError(
                "mujoco_cannot_load", "{path}: MuJoCo cannot load it: {reason}", path=path, reason=reason,
            ) from error  # fmt: skip
        finally:
            mujoco.set_mju_user_warning(None)
        if [model.body(k).name for k in range(1, model.nbody)] != own_names:
            raise ExportError(
                "mujoco_bodies_differ", "{template}: MuJoCo finds other bodies than are written in the file",
                template=path,
            )  # fmt: skip
        return _MjcfTemplate(path, data, found, root, here, every, model, mujoco)

    @property
    def in_degrees(self) -> bool:
        """Whether angles are in degrees."""
        return [c.get("angle") for c in self.root.findall("compiler") if c.get("angle")][-1:] != ["radian"]

    def poses(self, robot: Robot) -> dict[Element, Transform]:
        """Poses of all bodies in frame 0, with the robot's joints at zero and locked ones where they are held."""
        data = self.mujoco.MjData(self.model)
        held = {link.joint: 0.0 for link in robot.links} | dict(robot.locks)
        for k, body in enumerate(self.every, 1):
            joints = [j.get("name", "") for j in body.findall("joint")]
            for name, number in zip(joints, range(self.model.body_jntadr[k], self.model.njnt), strict=False):
                if name in held:
                    data.qpos[self.model.jnt_qposadr[number]] = held[name]
        self.mujoco.mj_kinematics(self.model, data)
        return {
            body: Transform(data.xmat[k].reshape(3, 3).copy(), data.xpos[k].copy())
            for k, body in enumerate(self.every, 1)
        }

    def sprung_joints(self) -> list[Element]:
        """<joint> elements that have a spring in the file."""
        found = []
        for k, body in enumerate(self.every, 1):
            joints = body.findall("joint")
            for joint, number in zip(joints, range(self.model.body_jntadr[k], self.model.njnt), strict=False):
                more = getattr(self.model, "jnt_stiffnesspoly", np.zeros((self.model.njnt, 1)))[number]
                found += [joint] if np.any(self.model.jnt_stiffness[number]) or np.any(more) else []
        return found

    def nominal_inertia(self, body: Element) -> Array:
        """Ten parameters of a body in its frame, as MuJoCo has them."""
        k = self.every.index(body) + 1
        flat = np.zeros(9)
        self.mujoco.mju_quat2Mat(flat, self.model.body_iquat[k])
        R = flat.reshape(3, 3)
        J = R @ np.diag(self.model.body_inertia[k]) @ R.T
        return from_body(Body(float(self.model.body_mass[k]), self.model.body_ipos[k].copy(), J))


def update_mjcf(
    subject: ExportSubject, template: Path, folder: Path
) -> tuple[bytes, tuple[Message, ...], ExportSubject]:
    """Bytes of the template with the subject's inertias, armatures and friction, notes, and what it then holds.

    With notes, and the subject as the file holds it: joints with a spring of their own get no other.
    """
    robot = subject.robot
    check_same_robot(robot, template, robot.locks)
    file = _MjcfTemplate.read(template)
    _check_gravity(robot, file)
    own = {j.get("name") for j in file.sprung_joints()}
    subject = subject.without_soft_springs(np.array([name in own for name in robot.joint_names]))
    moving = {link.joint: link for link in robot.links}
    carrier = {moving[j.get("name", "")].name: body for body in file.every for j in body.findall("joint")
               if j.get("name") in moving}  # fmt: skip
    lost = [link.joint for link in robot.links if link.name not in carrier or carrier[link.name] not in file.here]
    if lost:
        raise ExportError(
            "template_bodies_included", "{template}: the bodies of joints {joints} are in included files",
            "update the file that holds them, or put them into this one", template=template, joints=lost,
        )  # fmt: skip
    whole = {k: x for k, x in composite_inertias(robot).items() if "/" not in robot.links[k].name or np.any(x)}
    check_bodies(robot, whole, "MuJoCo", strictly=True)
    plain = {link.joint: k for k, link in enumerate(load_robot(template, lock=robot.locks, snap=False).links)}
    unsnapped = load_robot(template, lock=robot.locks, snap=False)
    at_zero = link_poses_at(unsnapped, np.zeros(len(unsnapped.tree_joints)))
    poses = file.poses(robot)
    T_link = {link.name: at_zero[plain[link.joint]] for link in robot.links}
    riders = {link.name: _find_carried_bodies(file, carrier[link.name], set(moving)) for link in robot.links}
    last = {id(body): name for name, body in carrier.items()}  # of several joints of a body the last one carries it
    carried = {
        name: [CarriedLink(b.get("name", ""), T_link[name].inverse() @ poses[b], file.nominal_inertia(b)) for b in own]
        if last[id(carrier[name])] == name else []
        for name, own in riders.items()
    }  # fmt: skip
    bodies = {k: whole.get(k, np.zeros(10)) for k in range(len(robot.links))}
    new, notes = split_among_carried_links(robot, bodies, carried, strictly=True)
    element = {b.get("name", ""): b for b in file.every}
    placed: dict[Element, Array] = {}
    for name, x in new.items():
        if name not in carrier:
            placed[element[name]] = x
        elif np.any(x):
            placed[carrier[name]] = change_of_frame(poses[carrier[name]].inverse() @ T_link[name]) @ x
    if subject.keeps_softness:  # drives alone were identified
        other = {b: x for b, x in placed.items() if not np.allclose(x, file.nominal_inertia(b), rtol=1e-9, atol=1e-12)}
        placed = placed if other and any(map(_changed_inertias, file.found["compiler"])) else other
    edits, more = _compiler_edits(file, folder, placed)
    end = b"\r\n" if b"\r\n" in file.data else b"\n"
    for body, x in placed.items():
        edits += _inertial_edits(file, body, x, end)
    edits += _joint_edits(subject, file)
    data = file.data
    for start, stop, text in sorted(edits, reverse=True):
        data = data[:start] + text + data[stop:]
    return data, (*notes, *more, *_notes_on_kept_elements(subject, file)), subject


def _check_gravity(robot: Robot, file: _MjcfTemplate) -> None:
    """Raise for a template with another gravity."""
    if np.abs(file.model.opt.gravity - np.array(robot.gravity)).max() > 1e-9 * np.abs(robot.gravity).max(initial=1.0):
        raise ExportError(
            "template_of_other_robot", "{template}: its gravity is {theirs}, that of '{robot}' {ours}",
            "change <option gravity=...> there", template=file.path, theirs=file.model.opt.gravity.tolist(),
            robot=robot.name, ours=robot.gravity.tolist(),
        )  # fmt: skip


def _find_carried_bodies(file: _MjcfTemplate, body: Element, moving: set[str]) -> list[Element]:
    """Bodies that no joint of the robot moves against this one; frames are only places."""
    found: list[Element] = []
    for child in body.findall("body"):
        if any(joint.get("name") in moving for joint in child.findall("joint")):
            continue
        found += [child] if child in file.every else []
        found += _find_carried_bodies(file, child, moving)
    return found


def _changed_inertias(compiler: ElementBytes) -> dict[str, str | None]:
    """Attributes of a <compiler> that change inertias, to be removed."""
    return {key: None for key, x in _NEUTRAL.items() if compiler.attributes.get(key, x) != x}


def _compiler_edits(
    file: _MjcfTemplate, folder: Path, placed: dict[Element, Array]
) -> tuple[list[tuple[int, int, bytes]], list[Message]]:
    """Edits of <compiler>: inertias are taken as they are, and other files are found from the new folder.

    Where all inertias followed from shapes or were scaled, those of the other bodies are written out, into `placed`.
    """
    compilers, notes = file.found["compiler"], []
    edits: list[tuple[int, int, bytes]] = []
    changed = [_changed_inertias(c) if placed else {} for c in compilers]
    included = [c for c in file.root.findall("compiler") if any(c.get(key, x) != x for key, x in _NEUTRAL.items())]
    if placed and len(included) > sum(map(bool, changed)):
        raise ExportError(
            "template_compiler_included", "{template}: an included file has a <compiler> that changes inertias",
            "put it into this one", template=file.path,
        )  # fmt: skip
    if any(key in ("inertiafromgeom", "settotalmass", "boundmass", "boundinertia") for own in changed for key in own):
        others = [body for body in file.every if body not in placed and body in file.here]
        placed |= {body: file.nominal_inertia(body) for body in others if np.any(file.nominal_inertia(body))}
    old = file.path.resolve().parent
    uses_files = any(e.get("file") for asset in file.root.findall("asset") for e in asset)
    moves = old != folder.resolve() and (uses_files or b"<include" in file.data)
    if moves and b"<include" in file.data:
        raise ExportError(
            "template_includes_files", "{template} includes other files, by paths from its folder",
            "write the new file into {folder}", template=file.path, folder=old,
        )  # fmt: skip
    way = os.path.relpath(old, folder.resolve()) if moves else ""
    for compiler, own in zip(compilers, changed, strict=True):
        for key in ("meshdir", "texturedir", "assetdir") if way else ():
            if key in compiler.attributes and not Path(compiler.attributes[key]).is_absolute():
                own[key] = (Path(way) / compiler.attributes[key]).as_posix()
        edits += attribute_edits(file.data, compiler, own) if own else []
    given = {key for compiler in compilers for key in compiler.attributes}
    missing = {"meshdir", "texturedir"} - given if way and "assetdir" not in given else set()
    if missing:
        words = " ".join(f'{key}="{xml_attribute(Path(way).as_posix())}"' for key in sorted(missing))
        edits.append((file.found["mujoco"][0].inside,) * 2 + (f"\n  <compiler {words}/>".encode(),))
    if moves:
        what = "meshes and textures are looked for in {folder}, as a path from the new file"
        notes.append(Message("template_folder_changed", what, folder=old))
    return edits, notes


def _inertial_edits(file: _MjcfTemplate, body: Element, x: Array, end: bytes) -> list[tuple[int, int, bytes]]:
    """Edits (start, end, new bytes) that replace a body's <inertial>, or add it where there is none."""
    text = _inertial_element(x).encode()
    own = [file.here[e] for e in body.findall("inertial") if e in file.here]
    if own:
        return [(own[0].start, own[0].end, text)]
    if body not in file.here:
        return []
    at = file.here[body]
    if file.data[at.inside - 2 : at.inside - 1] == b"/":
        return [(at.inside - 2, at.inside, b">" + text + b"</body>")]
    line = file.data[file.data.rfind(b"\n", 0, at.start) + 1 : at.start]
    indent = line + b"  " if not line.strip(b" \t") else b""
    return [(at.inside, at.inside, end + indent + text if indent else text)]


def _joint_edits(subject: ExportSubject, file: _MjcfTemplate) -> list[tuple[int, int, bytes]]:
    """Edits of the joints: names where there is none, armature, friction, springs."""
    robot, impedances, edits = subject.robot, friction_impedances(subject), []
    place = {link.joint: k for k, link in enumerate(robot.links)}
    for body in file.every:
        for joint in (j for j in body.findall("joint") if j in file.here):
            name, at = joint.get("name", ""), file.here[joint]
            own: dict[str, str | None] = {} if "name" in at.attributes else {"name": name}
            if name in place and place[name] in robot.active_links:
                link, found = robot.links[place[name]], joint_dynamics(subject, place[name])
                own["armature"] = repr(found.get("armature", 0.0))
                if link.friction:
                    own |= {key: repr(found.get(key, 0.0)) for key in ("damping", "frictionloss")}
                    own |= friction_softness(impedances.get(place[name]))
                if "stiffness" in found:
                    zero = found["springref"]
                    degrees = file.in_degrees and link.kind == "revolute"
                    own |= {
                        "stiffness": repr(found["stiffness"]),
                        "springref": repr(math.degrees(zero) if degrees else zero),
                    }
            edits += attribute_edits(file.data, at, own) if own else []
    return edits


def _notes_on_kept_elements(subject: ExportSubject, file: _MjcfTemplate) -> list[Message]:
    """Notes on what the file has and the model has not: it stays, and MuJoCo's torques contain it."""
    model, mujoco, robot = file.model, file.mujoco, subject.robot
    notes = []
    if model.body_gravcomp.any():
        bodies = [model.body(k).name for k in np.flatnonzero(model.body_gravcomp)]
        what = "the file compensates gravity of bodies {bodies}, which the model does not: it is kept"
        notes.append(Message("template_gravity_compensation", what, bodies=bodies))
    held = {} if subject.springs is None else dict(zip(robot.joint_names, subject.springs, strict=True))
    springs = [j.get("name", "") for j in file.sprung_joints() if held.get(j.get("name", ""), 0.0) == 0.0]
    if springs:
        what = "springs of joints {joints} are kept, which the model does not have"
        notes.append(Message("template_springs_kept", what, joints=springs))
    ids = {link.joint: mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, link.joint) for link in robot.links}
    at = {name: model.jnt_dofadr[k] for name, k in ids.items() if k >= 0}
    kept = [
        link.joint for link in robot.links
        if not link.friction and link.joint in at
        and (model.dof_damping[at[link.joint]] or model.dof_frictionloss[at[link.joint]])
    ]  # fmt: skip
    if kept:
        what = "the file's friction of joints {joints} is kept, of which the model has none"
        notes.append(Message("template_friction_kept", what, joints=kept))
    return notes
