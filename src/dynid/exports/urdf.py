"""URDF: a new file from any robot, or the user's with new inertial elements and friction.

In the latter every byte outside these elements stays, but for limits that the format demands.

Links on fixed (or locked) joints move together with the link that carries them, and only their sum was identified. The
carrier gets what remains when the others keep their nominal values, if a body can have that; else the carrier gets
almost all, and the others almost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.parsers import expat

import numpy as np

from dynid.errors import ExportError, RobotFileError
from dynid.exports.subject import ExportSubject, check_bodies, renamed_link_notes
from dynid.messages import Message, Option
from dynid.robot.inertia import ROUNDING, Body, change_of_frame, from_body, is_possible_body, to_body
from dynid.robot.io.urdf import UNLIMITED, link_inertia, locked_joint_motion, pose_from_origin
from dynid.robot.io.xml import format_numbers, read_xml, unique_names, xml_attribute
from dynid.robot.load import load_robot
from dynid.robot.robot import Coupling, Link, Robot, composite_inertias
from dynid.robot.transform import SNAP_TOLERANCE, Array, Transform, rpy_from_rotation

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

# A new URDF from any robot: fixed places, axes, limits, friction and bodies, in the robot's own frames.


STANDARD_GRAVITY = (0.0, 0.0, -9.81)
_DYNAMICS = (("viscous", "damping"), ("coulomb", "friction"))
"""Friction that a URDF holds, and the attributes for it."""


def write_urdf(subject: ExportSubject) -> tuple[str, tuple[Message, ...]]:
    """Text of a new URDF, and notes on what it cannot hold."""
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
    """Notes on what no URDF holds: gravity and rotor inertias."""
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
    """Lines of the <inertial>: origin at the centre of mass, axes of the link; none for a massless link."""
    if not np.any(x):
        return []
    body = to_body(x)
    J = body.inertia
    elements = {"ixx": J[0, 0], "ixy": J[0, 1], "ixz": J[0, 2], "iyy": J[1, 1], "iyz": J[1, 2], "izz": J[2, 2]}
    words = " ".join(f'{name}="{float(value) + 0.0!r}"' for name, value in elements.items())
    return [
        f"{indent}<inertial>",
        f'{indent}  <origin xyz="{format_numbers(body.com)}" rpy="0 0 0"/>',
        f'{indent}  <mass value="{body.mass!r}"/>',
        f"{indent}  <inertia {words}/>",
        f"{indent}</inertial>",
    ]


def _joint_lines(robot: Robot, k: int, joints: list[str], parent: str, child: str) -> list[str]:
    """Lines of a link's <joint>: origin, axis, limits, friction, mimic."""
    link = robot.links[k]
    T, limits = link.placement, link.limits
    bounded = math.isfinite(limits.lower) and math.isfinite(limits.upper)
    kind = "continuous" if link.kind == "revolute" and not bounded else link.kind
    lines = [
        f'  <joint name="{xml_attribute(joints[k])}" type="{kind}">',
        f'    <origin xyz="{format_numbers(T.translation)}" rpy="{format_numbers(rpy_from_rotation(T.rotation))}"/>',
        f'    <parent link="{xml_attribute(parent)}"/>',
        f'    <child link="{xml_attribute(child)}"/>',
    ]
    if not link.moves:
        return [*lines, "  </joint>"]
    lines.append(f'    <axis xyz="{format_numbers(link.axis)}"/>')
    if k in robot.active_links and link.rotor != 0.0:
        unit = "kg m^2" if link.kind == "revolute" else "kg"
        lines.append(f"    <!-- rotor inertia on the joint side, which a URDF cannot hold: {link.rotor!r} {unit} -->")
    effort, velocity = (x if math.isfinite(x) else UNLIMITED for x in (limits.effort, limits.velocity))
    lower, upper = (limits.lower, limits.upper) if bounded else (-UNLIMITED, UNLIMITED)
    place = f'lower="{lower!r}" upper="{upper!r}" ' if kind != "continuous" else ""
    if bounded or kind == "prismatic" or min(effort, velocity) < UNLIMITED:
        lines.append(f'    <limit {place}effort="{effort!r}" velocity="{velocity!r}"/>')
    friction = dict(link.friction)
    words = [f'{word}="{friction[key]!r}"' for key, word in _DYNAMICS if friction.get(key, 0.0) > 0.0]
    if words:
        lines.append(f"    <dynamics {' '.join(words)}/>")
    place_of = {other.joint: joints[i] for i, other in enumerate(robot.links)}
    for coupling in (c for c in robot.couplings if c.passive == link.joint):
        leader, factor = _single_mimicked_joint(robot, coupling)
        lines.append(
            f'    <mimic joint="{xml_attribute(place_of[leader])}" multiplier="{factor!r}" '
            f'offset="{coupling.offset!r}"/>'
        )
    return [*lines, "  </joint>"]


def _single_mimicked_joint(robot: Robot, coupling: Coupling) -> tuple[str, float]:
    """Joint that a passive joint mimics, and the factor; raise where it follows several."""
    moving = [(name, factor) for name, factor in coupling.factors if factor != 0.0]
    if len(moving) != 1:
        raise ExportError(
            "mimic_of_several_joints", "joint '{joint}' of '{robot}' follows {leaders} joints; in a URDF it can mimic "
            "one", "export .xml, .c, .toml or .json", joint=coupling.passive, robot=robot.name, leaders=len(moving),
        )  # fmt: skip
    return moving[0]


# A file of the user with new inertial elements: where elements stand in its bytes, so that nothing else is touched.


@dataclass(frozen=True, slots=True)
class LinkBytes:
    """Bytes of a link of a URDF: the end of its start tag, whether that closes it too, and its inertial elements."""

    name: str
    inside: int
    is_empty: bool
    inertials: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class JointBytes:
    """Bytes of a joint of a URDF: the end of its start tag, and that of its <limit>'s with the attributes there.

    dynamics: start and end of the start tag of every <dynamics>, and its attributes.
    """

    name: str
    kind: str
    inside: int
    limit: int | None = None
    attributes: tuple[str, ...] = ()
    dynamics: tuple[tuple[int, int, dict[str, str]], ...] = ()


def find_links_and_joints(path: Path, data: bytes) -> tuple[dict[str, LinkBytes], list[JointBytes]]:
    """Find links and joints of a URDF that `read_xml` has accepted (no document type, no entities)."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\x00" in data:
        raise RobotFileError(
            str(path), "unsupported_text_encoding", "only text in UTF-8 or another extension of ASCII is updated",
            "convert it",
        )  # fmt: skip
    parser = expat.ParserCreate()
    trail: list[str] = []
    found: dict[str, LinkBytes] = {}
    joints: list[JointBytes] = []
    open_link: list[tuple[str, int, bool, list[tuple[int, int]]]] = []
    start = 0

    def on_start_tag(tag: str, attributes: dict[str, str]) -> None:
        """Note where links, joints, inertial elements and limits begin."""
        nonlocal start
        trail.append(tag)
        if trail == ["robot", "link"]:
            end = end_of_tag(data, parser.CurrentByteIndex)
            open_link.append((attributes.get("name", ""), end, data[end - 2 : end - 1] == b"/", []))
        elif trail == ["robot", "link", "inertial"]:
            start = parser.CurrentByteIndex
        elif trail == ["robot", "joint"]:
            inside = end_of_tag(data, parser.CurrentByteIndex)
            joints.append(JointBytes(attributes.get("name", ""), attributes.get("type", ""), inside))
        elif trail == ["robot", "joint", "limit"]:
            joints[-1].limit, joints[-1].attributes = end_of_tag(data, parser.CurrentByteIndex), tuple(attributes)
        elif trail == ["robot", "joint", "dynamics"]:
            at = parser.CurrentByteIndex
            joints[-1].dynamics += ((at, end_of_tag(data, at), attributes),)

    def on_end_tag(tag: str) -> None:
        """Note where links and inertial elements end."""
        if trail == ["robot", "link", "inertial"]:
            end = end_of_tag(data, start)
            if data[end - 2 : end - 1] != b"/":  # not <inertial/>, whose end is reported after it
                end = end_of_tag(data, parser.CurrentByteIndex)
            open_link[-1][3].append((start, end))
        elif trail == ["robot", "link"]:
            name, end, is_empty, inertials = open_link.pop()
            found[name] = LinkBytes(name, end, is_empty, tuple(inertials))
        trail.pop()

    def refuse_document_type(*_: object) -> None:
        """Raise for a <!DOCTYPE>."""
        raise RobotFileError(
            str(path), "document_type_not_allowed", "document types and entities are not read",
            "remove the <!DOCTYPE ...>",
        )  # fmt: skip

    parser.StartElementHandler, parser.EndElementHandler = on_start_tag, on_end_tag
    parser.StartDoctypeDeclHandler = refuse_document_type
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise RobotFileError(str(path), "not_xml", "not an XML file: {reason}", reason=error) from error
    return found, joints


def end_of_tag(data: bytes, start: int) -> int:
    """Index after the `>` that ends the tag; one inside quotes does not."""
    quote = b""
    for k in range(start, len(data)):
        character = data[k : k + 1]
        if quote:
            quote = b"" if character == quote else quote
        elif character in (b'"', b"'"):
            quote = character
        elif character == b">":
            return k + 1
    return len(data)


SPECK = from_body(Body(1e-6, np.zeros(3), 1e-9 * np.eye(3)))
"""Almost nothing, but a body: a milligram, some millimetres large."""


@dataclass(frozen=True, eq=False)
class CarriedLink:
    """A link that rides on another one: its place there, and its nominal parameters in its own frame."""

    name: str
    T_carrier_rider: Transform
    nominal: Array


def split_among_carried_links(
    robot: Robot, bodies: Mapping[int, Array], riders: Mapping[str, list[CarriedLink]], *, strictly: bool = False
) -> tuple[dict[str, Array], list[Message]]:
    """Parameters of links and of those fixed to them, by name, each in its frame; bodies: their sums.

    strictly: no link may be without mass.
    """
    new: dict[str, Array] = {}
    notes: list[Message] = []
    for k, link in enumerate(robot.links):
        own = [rider for rider in riders[link.name] if np.any(rider.nominal)]
        rest = bodies[k] - sum((change_of_frame(r.T_carrier_rider) @ r.nominal for r in own), np.zeros(10))
        if np.abs(rest).max() <= ROUNDING * np.abs(bodies[k]).max():
            rest = np.zeros(10)  # a link without mass of its own
        names = [f"'{r.name}'" for r in own]
        if not own or is_possible_body(rest, strictly=strictly, part_of=bodies[k]):
            if own:
                notes.append(Message(
                    "merged_links_kept_values", "link '{link}' got what was identified minus {merged}, which kept "
                    "their values", link=link.name, merged=names,
                ))  # fmt: skip
            new[link.name] = rest
            continue
        new[link.name] = bodies[k] - sum((change_of_frame(r.T_carrier_rider) @ SPECK for r in own), np.zeros(10))
        new |= {r.name: SPECK for r in own}
        notes.append(Message(
            "merged_links_mass_moved", "link '{link}' got all that was identified, and {merged} almost nothing: with "
            "their nominal values, the rest would be no body", link=link.name, merged=names,
        ))  # fmt: skip
    return new, notes


def update_urdf(subject: ExportSubject, template: Path, lock: Mapping[str, float]) -> tuple[bytes, tuple[Message, ...]]:
    """Bytes of the template with the subject's inertial parameters, and notes on what was done."""
    robot = subject.robot
    snap = check_same_robot(robot, template, lock)
    bodies = {k: np.array(link.inertia) for k, link in enumerate(robot.links)}
    check_bodies(robot, bodies, "a URDF")
    root = read_xml(template, "robot", "is this a URDF?")
    new, notes = split_among_carried_links(robot, bodies, _find_carried_links(root, robot, lock, snap))
    friction = {robot.links[k].joint: dict(robot.links[k].friction) for k in robot.active_links}
    data, limited = _replace_elements(template, new, {name: own for name, own in friction.items() if own})
    if limited:
        notes.append(Message(
            "joint_limits_added", "limits that a URDF needs and the file leaves out were added to {joints} joints, "
            "too wide to matter", joints=limited,
        ))  # fmt: skip
    return data, (*notes, *urdf_notes(robot))


def template_friction_warnings(robot: Robot, template: Path, lock: Mapping[str, float]) -> tuple[Message, ...]:
    """Warnings where joints of the template have friction that the model does not know: there it stays."""
    old = {link.joint: dict(link.friction) for link in load_robot(template, lock=lock).links}
    kept = [f"'{link.joint}'" for link in robot.links if not link.friction and any(old[link.joint].values())]
    if not kept:
        return ()
    what = "the file's friction of joints {joints} is kept, of which the model has none"
    return (Message("template_friction_kept", what, joints=kept),)


def check_same_robot(robot: Robot, template: Path, lock: Mapping[str, float]) -> bool:
    """Raise for a template of another robot: names, tree, kinds, axes and places must agree.

    Return whether almost right angles of the file were snapped when the robot was loaded.
    """
    others = {snap: load_robot(template, lock=lock, snap=snap) for snap in (True, False)}
    ours, theirs = ({link.joint: link for link in r.links} for r in (robot, others[True]))
    if ours.keys() != theirs.keys():
        missing, more = sorted(ours.keys() - theirs.keys()), sorted(theirs.keys() - ours.keys())
        parts = ["it has no joint {missing}"] * bool(missing)
        parts += ["its joint {moving} moves (lock it as in the identification)"] * bool(more)
        raise ExportError(
            "template_of_other_robot", "{template} is not a file of '{robot}': " + " and ".join(parts),
            template=template, robot=robot.name, missing=missing, moving=more,
        )  # fmt: skip
    for joint, link in ours.items():
        twin = theirs[joint]
        parents = [r.links[x.parent].joint if x.parent >= 0 else "" for r, x in ((robot, link), (others[True], twin))]
        if link.name != twin.name or link.kind != twin.kind or parents[0] != parents[1]:
            raise ExportError(
                "template_of_other_robot", "{template} is not a file of '{robot}': joint '{joint}' differs",
                template=template, robot=robot.name, joint=joint,
            )  # fmt: skip
        if (off := _pose_and_axis_difference(link, twin)) > 2.0 * SNAP_TOLERANCE:
            raise ExportError(
                "template_of_other_robot", "{template} is not a file of '{robot}': joint '{joint}' sits "
                "{distance:.3g} off", template=template, robot=robot.name, joint=joint, distance=off,
            )  # fmt: skip
    off_by = {
        snap: max(_pose_and_axis_difference(ours[link.joint], link) for link in other.links)
        for snap, other in others.items()
    }
    return off_by[True] <= off_by[False]


def _pose_and_axis_difference(a: Link, b: Link) -> float:
    """Largest difference of two links' places and axes."""
    pairs = (
        (a.placement.rotation, b.placement.rotation),
        (a.placement.translation, b.placement.translation),
        (a.axis, b.axis),
    )
    return max(float(np.abs(x - y).max()) for x, y in pairs)


def _find_carried_links(
    root: Element, robot: Robot, lock: Mapping[str, float], snap: bool
) -> dict[str, list[CarriedLink]]:
    """Links that fixed and locked joints put on each moving link, by its name."""
    links = {element.get("name", ""): element for element in root.findall("link")}
    moving = {link.joint for link in robot.links}
    carried: dict[str, list[CarriedLink]] = {link.name: [] for link in robot.links}
    joints: dict[str, list[Element]] = {}
    for joint in root.findall("joint"):
        parent = joint.find("parent")
        joints.setdefault("" if parent is None else parent.get("link", ""), []).append(joint)
    for name, riders in carried.items():
        waiting = [(name, Transform.identity())]
        while waiting:
            at, T = waiting.pop()
            for joint in (j for j in joints.get(at, []) if j.get("name", "") not in moving):
                child = joint.find("child")
                rider = "" if child is None else child.get("link", "")
                place = T @ pose_from_origin(joint, snap=snap) @ locked_joint_motion(joint, lock)
                riders.append(CarriedLink(rider, place, link_inertia(links[rider], snap=snap)))
                waiting.append((rider, place))
    return carried


def _replace_elements(
    template: Path, new: Mapping[str, Array], friction: Mapping[str, Mapping[str, float]]
) -> tuple[bytes, int]:
    """Bytes of the template with new inertial elements and friction by joint, and how many limits were added."""
    try:
        data = template.read_bytes()
    except OSError as error:
        raise ExportError(
            "file_unreadable", "cannot read {template}: {reason}", template=template,
            reason=error.strerror or error,
        ) from error  # fmt: skip
    edits: list[tuple[int, int, bytes]] = []
    places, joints = find_links_and_joints(template, data)
    edits += [edit for joint in joints for edit in _limit_edits(data, joint)]
    limited = len(edits)
    end = b"\r\n" if b"\r\n" in data else b"\n"
    edits += [
        edit for joint in joints if joint.name in friction for edit in _friction_edits(data, joint, friction, end)
    ]
    for name, x in new.items():
        edits += _inertial_edits(template, data, places[name], x, end)
    for start, stop, text in sorted(edits, reverse=True):
        data = data[:start] + text + data[stop:]
    return data, limited


def _limit_edits(data: bytes, joint: JointBytes) -> list[tuple[int, int, bytes]]:
    """Edits (start, end, new bytes) that add limits which parsers insist on, and which limit nothing."""
    if joint.kind not in ("revolute", "prismatic"):
        return []
    missing = {"lower": -UNLIMITED, "upper": UNLIMITED} if joint.limit is None else {}
    missing |= {key: UNLIMITED for key in ("effort", "velocity") if key not in joint.attributes}
    words = " ".join(f'{key}="{value!r}"' for key, value in missing.items()).encode()
    if joint.limit is None:
        return [(joint.inside, joint.inside, b"<limit " + words + b"/>")]
    at = joint.limit - (2 if data[joint.limit - 2 : joint.limit - 1] == b"/" else 1)
    return [(at, at, b" " + words)] if missing else []


def _friction_edits(
    data: bytes, joint: JointBytes, friction: Mapping[str, Mapping[str, float]], end: bytes
) -> list[tuple[int, int, bytes]]:
    """Edits (start, end, new bytes) of a joint's <dynamics>, whose other attributes stay; none where equal."""
    own = {word: max(friction[joint.name].get(key, 0.0), 0.0) for key, word in _DYNAMICS}
    words = " ".join(f'{word}="{x!r}"' for word, x in own.items()).encode()
    if not joint.dynamics:
        return [(joint.inside, joint.inside, end + b"    <dynamics " + words + b"/>")] if any(own.values()) else []
    edits = []
    for start, stop, attributes in joint.dynamics:
        if {word: float(attributes.get(word, 0.0)) for word in own} == own:
            continue  # as it is
        others = "".join(f' {key}="{xml_attribute(x)}"' for key, x in attributes.items() if key not in own).encode()
        close = b"/>" if data[stop - 2 : stop - 1] == b"/" else b">"
        edits.append((start, stop, b"<dynamics " + words + others + close))
    return edits


def _inertial_edits(
    template: Path, data: bytes, place: LinkBytes, x: Array, end: bytes
) -> list[tuple[int, int, bytes]]:
    """Edits (start, end, new bytes) that replace a link's inertial element."""
    if len(place.inertials) > 1:
        raise RobotFileError(
            str(template), "two_inertial_elements", "link '{link}' has two <inertial>", "remove one", link=place.name,
        )  # fmt: skip
    if place.inertials:
        start, stop = place.inertials[0]
        before = data[data.rfind(b"\n", 0, start) + 1 : start]
        indent = before.decode("ascii") if not before.strip(b" \t") else "    "
        lines = inertial_lines(x, indent) or [indent]
        return [(start, stop, end.join(line.encode() for line in lines)[len(indent) :])]
    if not np.any(x):
        return []
    block = b"".join(end + line.encode() for line in inertial_lines(x, "    "))
    if not place.is_empty:
        return [(place.inside, place.inside, block)]
    return [(place.inside - 2, place.inside, b">" + block + end + b"  </link>")]
