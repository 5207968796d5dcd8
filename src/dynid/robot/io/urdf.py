"""URDF files, through pinocchio; meshes are never needed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynid.errors import RobotFileError
from dynid.messages import Message, Option
from dynid.robot.inertia import Body, from_body, inertia_matrix
from dynid.robot.io.pinocchio_tree import (
    JointProperties,
    floating_base_link,
    joint_is_at,
    links_from_pinocchio,
    merge_fixed_links,
    merged_inertias,
)
from dynid.robot.io.xml import file_and_line_text, read_numbers, read_xml
from dynid.robot.load import lock_joints
from dynid.robot.mdh import SnappedAngle, describe_snapped_angles
from dynid.robot.robot import Coupling, JointLimits, Robot
from dynid.robot.transform import Array, Transform, freeze, rotation_about, rotation_from_rpy, snap_angle

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_TYPES = ("revolute", "continuous", "prismatic", "fixed")
_TENSOR = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
_NUMBERS: dict[str, dict[str, dict[str, int]]] = {
    "link": {
        "inertial": {}, "inertial/origin": {"xyz": 3, "rpy": 3}, "inertial/mass": {"value": 1},
        "inertial/inertia": dict.fromkeys(_TENSOR, 1),
    },
    "fixed": {"parent": {}, "child": {}, "origin": {"xyz": 3, "rpy": 3}},
    "joint": {
        "parent": {}, "child": {}, "origin": {"xyz": 3, "rpy": 3}, "axis": {"xyz": 3},
        "limit": {"lower": 1, "upper": 1, "velocity": 1, "effort": 1}, "dynamics": {"damping": 1, "friction": 1},
        "mimic": {"multiplier": 1, "offset": 1},
    },
}  # fmt: skip
"""Elements of which there is one at most, but for the origin of a joint, which makers' files have twice: the count of
numbers in each attribute."""

_NEEDED = {"mass": ("value",), "inertia": _TENSOR, "axis": ("xyz",)}
"""Attributes without which parsers drop the element, or what is around it, and go on."""

MOST_JOINTS = 1500
"""Joints of a file that is read: parsers go down the tree by recursion, and a chain of 4,000 links ends the process."""

UNLIMITED = 1e9
"""A travel, speed or effort from which on it is not a limit; the format insists on a number."""


def read_urdf(path: Path, *, floating_base: bool, lock: Mapping[str, float], snap: bool, text: str = "") -> Robot:
    """Read a URDF: fixed joints merged, mimic joints as couplings, rounded rpy angles snapped with a note.

    text: the URDF that a xacro file was expanded to.

    All numbers are read here; pinocchio gets them as they were read, and what it makes of them is compared.
    """
    import pinocchio as pin

    root = read_xml(path, "robot", "is this a URDF? (MJCF files end in .xml)", text=text)
    _check_urdf(path, root)
    notes = [
        Message(
            "two_origins", "{place}joint '{joint}' has two <origin>; the first one counts",
            place=file_and_line_text(joint), joint=joint.get("name"),
        )
        for joint in _joint_elements(root)
        if len(joint.findall("origin")) > 1
    ]  # fmt: skip
    notes += _snap_angles(root) if snap else []
    couplings = _read_couplings(path, root)
    try:
        model = pin.buildModelFromXML(_simplify_for_pinocchio(root))
    except (ValueError, RuntimeError) as error:
        raise RobotFileError(
            str(path), "pinocchio_cannot_load", "pinocchio cannot read it: {reason}",
            reason=str(error).splitlines()[-1],
        ) from error  # fmt: skip
    inertias = merged_inertias(str(path), model, _read_bodies(path, root, model))
    links = links_from_pinocchio(model, _read_joint_properties(path, root), str(path), {}, inertias)
    if floating_base:
        base = floating_base_link(_root_link(root), inertias[0])
        links = [base, *(replace(link, parent=link.parent + 1) for link in links)]
    robot = Robot(
        name=root.get("name") or path.stem,
        links=tuple(links),
        gravity=freeze([0.0, 0.0, -9.81]),
        couplings=couplings,
        source=str(path),
        notes=tuple(notes),
        description=text,
    )
    return merge_fixed_links(lock_joints(robot, lock))


def pose_from_origin(owner: Element, *, snap: bool = False) -> Transform:
    """Pose that the <origin> of a joint, an inertial or a shape states."""
    origin = owner.find("origin")
    roll, pitch, yaw = (snap_angle(x) if snap else x for x in read_numbers(origin, "rpy", (0.0,) * 3))
    return Transform(rotation_from_rpy(roll, pitch, yaw), np.array(read_numbers(origin, "xyz", (0.0,) * 3)))


def locked_joint_motion(joint: Element, lock: Mapping[str, float]) -> Transform:
    """Motion of a <joint> that is locked at a position."""
    position = lock.get(joint.get("name", ""), 0.0)
    if position == 0.0:
        return Transform.identity()
    axis = np.array(read_numbers(joint.find("axis"), "xyz", (1.0, 0.0, 0.0)))
    axis = axis / np.linalg.norm(axis)
    if joint.get("type") == "prismatic":
        return Transform(np.eye(3), position * axis)
    return Transform(rotation_about(axis, position), np.zeros(3))


def link_inertia(link: Element, *, snap: bool = False) -> Array:
    """Ten parameters of a <link> in its frame, as its <inertial> states them; zeros without one."""
    inertial = link.find("inertial")
    if inertial is None or not len(inertial):
        return np.zeros(10)
    mass = read_numbers(inertial.find("mass"), "value", (0.0,))[0]
    tensor = inertial.find("inertia")
    about = inertia_matrix(np.array([read_numbers(tensor, key, (0.0,))[0] for key in _TENSOR]))
    T = pose_from_origin(inertial, snap=snap)
    return from_body(Body(mass, T.translation, T.rotation @ about @ T.rotation.T))


def _joint_elements(root: Element) -> list[Element]:
    """List of all <joint> elements of the robot."""
    return root.findall("joint")


def _parent_or_child_name(joint: Element, tag: str) -> str:
    """Name of the link in a joint's <parent> or <child>, as the tag says."""
    element = joint.find(tag)
    return "" if element is None else element.get("link", "")


def _root_link(root: Element) -> str:
    """Name of the link that is no joint's child."""
    children = {_parent_or_child_name(joint, "child") for joint in _joint_elements(root)}
    return next(link.get("name", "") for link in root.findall("link") if link.get("name") not in children)


def _check_urdf(path: Path, root: Element) -> None:
    """Raise RobotFileError that lists all that is wrong with numbers and tree, before pinocchio sees the file."""
    problems: list[Message] = []
    links = [link.get("name", "") for link in root.findall("link")]
    joints = [joint.get("name", "") for joint in _joint_elements(root)]
    if len(joints) > MOST_JOINTS:
        raise RobotFileError(
            str(path), "too_many_joints", "it has {joints} joints; more than {most} are not read",
            "leave out what does not move", joints=len(joints), most=MOST_JOINTS,
        )  # fmt: skip
    for kind, names in (("link", links), ("joint", joints)):
        for name in [n for n, count in Counter(names).items() if count > 1 or not n]:
            problems.append(Message(
                "element_name_not_unique", "{kind} '{name}': every {kind} needs a unique name", kind=kind,
                name=name,
            ))  # fmt: skip
    if not links:
        problems.append(Message("robot_without_links", "there is no <link>; a URDF needs links and joints"))
    parent_of: dict[str, str] = {}
    for joint in _joint_elements(root):
        name = joint.get("name", "")
        if joint.get("type") not in _TYPES:
            problems.append(Message(
                "unsupported_joint_type", "joint '{joint}': type {kind!r} is not supported", "use {types}", joint=name,
                kind=joint.get('type'), types=list(_TYPES),
            ))  # fmt: skip
        for tag in ("parent", "child"):
            if _parent_or_child_name(joint, tag) not in links:
                problems.append(Message(
                    "unknown_link", "joint '{joint}': its {role} link '{link}' does not exist", joint=name, role=tag,
                    link=_parent_or_child_name(joint, tag),
                ))  # fmt: skip
        child = _parent_or_child_name(joint, "child")
        if child in parent_of:
            problems.append(Message(
                "link_with_two_parents", "link '{link}' hangs on two joints; a URDF is a tree",
                "write a table with [[closure]]", link=child,
            ))  # fmt: skip
        parent_of[child] = _parent_or_child_name(joint, "parent")
    if not problems:
        problems += _check_tree(links, parent_of)
    for owner in (*root.findall("link"), *_joint_elements(root)):
        problems += _check_numbers(owner)
    if problems:
        raise RobotFileError(str(path), problems)


def _check_numbers(owner: Element) -> list[Message]:
    """Messages on what is missing, doubled or no number in a link or joint, with its line."""
    problems: list[Message] = []
    named = f"{owner.tag} '{owner.get('name')}'"
    for tags, counts in _NUMBERS["fixed" if owner.get("type") == "fixed" else owner.tag].items():
        found = owner.findall(tags)
        if len(found) > 1 and tags != "origin":
            again = Message(
                "element_twice", "{place}{element} has two <{tag}>", "remove one", place=file_and_line_text(found[1]),
                element=named, tag=found[1].tag,
            )  # fmt: skip
            return [*problems, again]
        for element in found[:1]:
            where = f"{file_and_line_text(element)}{named}, {tags.replace('/', ', ')}"
            for key, count in counts.items():
                try:
                    read_numbers(element, key, (0.0,) * count)
                except ValueError as error:
                    problems.append(Message("values_not_numeric", "{where}: {reason}", where=where, reason=error))
            missing = [key for key in _NEEDED.get(element.tag, ()) if key not in element.attrib]
            if missing:
                problems.append(Message(
                    "inertial_numbers_missing", "{where}: {missing} missing", "write every number, zeros too",
                    where=where, missing=list(missing),
                ))  # fmt: skip
    for inertial in owner.findall("inertial"):
        missing = [f"<{tag}>" for tag in ("mass", "inertia") if len(inertial) and inertial.find(tag) is None]
        if missing:
            problems.append(Message(
                "inertial_numbers_missing", "{place}{element}, inertial: {missing} missing",
                "give mass and inertia, or remove the <inertial>", place=file_and_line_text(inertial), element=named,
                missing=' and '.join(missing),
            ))  # fmt: skip
    return problems


def _check_tree(links: list[str], parent_of: dict[str, str]) -> list[Message]:
    """Messages on what keeps links and joints from being one tree."""
    roots = [link for link in links if link not in parent_of]
    if len(roots) == 1 and all(_reaches_root(link, roots[0], parent_of) for link in links):
        return [] if parent_of else [Message("no_moving_joint", "there is no <joint>; nothing can move")]
    if len(roots) > 1:
        what = "{count} links have no parent joint ({roots}); a robot has one root"
        return [Message("several_roots", what, count=len(roots), roots=roots)]
    cycle = [link for link in links if not (roots and _reaches_root(link, roots[0], parent_of))]
    return [Message("joint_cycle", "the links {links} form a cycle; a URDF is a tree", links=cycle)]


def _reaches_root(link: str, root: str, parent_of: dict[str, str]) -> bool:
    """Whether a link's ancestors lead to the root."""
    seen: set[str] = set()
    while link != root and link in parent_of and link not in seen:
        seen.add(link)
        link = parent_of[link]
    return link == root


def _snap_angles(root: Element) -> list[Message]:
    """Set rpy angles that are almost multiples of 90 degrees to these; return notes on that."""
    found: list[SnappedAngle] = []
    owners = [(f"joint '{j.get('name')}'", j) for j in _joint_elements(root)]
    for link in root.findall("link"):
        owners += [(f"link '{link.get('name')}', inertial", inertial) for inertial in link.findall("inertial")]
    for where, owner in owners:
        origin = owner.find("origin")
        if origin is None or "rpy" not in origin.attrib:
            continue
        rpy = read_numbers(origin, "rpy", (0.0, 0.0, 0.0))
        snapped = [snap_angle(angle) for angle in rpy]
        if any(a != b for a, b in zip(rpy, snapped, strict=True)):
            written = origin.get("rpy", "")
            origin.set("rpy", " ".join(map(repr, snapped)))
        off = max(abs(a - b) for a, b in zip(rpy, snapped, strict=True))
        if off > 1e-12:
            shown = ", ".join(f"{math.degrees(angle):g}" for angle in snapped)
            note = Message(
                "angle_snapped", "{where}: rpy {written} rounded to {degrees} degrees", "{snap} keeps it", where=where,
                written=written, degrees=shown, angle=off, snap=Option("snap", False),
            )  # fmt: skip
            found.append(SnappedAngle(where, off, note))
    return describe_snapped_angles(found)


def _read_couplings(path: Path, root: Element) -> tuple[Coupling, ...]:
    """Read mimic joints as couplings."""
    couplings: list[Coupling] = []
    names = [joint.get("name", "") for joint in _joint_elements(root)]
    fixed = {joint.get("name", "") for joint in _joint_elements(root) if joint.get("type") == "fixed"}
    for joint in _joint_elements(root):
        mimic = joint.find("mimic")
        if mimic is None or joint.get("type") == "fixed":  # what does not move follows nothing
            continue
        name, master = joint.get("name", ""), mimic.get("joint", "")
        where = f"joint '{name}', mimic"
        if master not in names or master == name:
            raise RobotFileError(
                str(path), "unknown_mimic_joint", "{where}: it follows '{master}', which is no other joint of the "
                "robot", where=where, master=master,
            )  # fmt: skip
        if master in fixed:
            raise RobotFileError(
                str(path), "mimic_of_fixed_joint", "{where}: it follows '{master}', which is fixed",
                "make it fixed, too", where=where, master=master,
            )  # fmt: skip
        factor, offset = read_numbers(mimic, "multiplier", (1.0,))[0], read_numbers(mimic, "offset", (0.0,))[0]
        couplings.append(Coupling(name, ((master, factor),), offset))
    followers = {c.passive: c.factors[0][0] for c in couplings}
    for name in followers:
        seen, master = {name}, followers[name]
        while master in followers and master not in seen:
            seen.add(master)
            master = followers[master]
        if master in seen:
            raise RobotFileError(
                str(path), "coupling_cycle", "joint '{joint}', mimic: the joints {joints} follow each other",
                joint=name, joints=sorted(seen),
            )  # fmt: skip
    return tuple(couplings)


def _simplify_for_pinocchio(root: Element) -> str:
    """URDF text for pinocchio: the open tree and its bodies, numbers as they were read here."""
    from xml.etree.ElementTree import Element, SubElement, tostring

    def copy_with_numbers(into: Element, element: Element | None, counts: Mapping[str, int]) -> None:
        """Copy an element with these attributes as the numbers that were read."""
        if element is not None:
            words = {
                k: " ".join(map(repr, read_numbers(element, k, (0.0,) * n)))
                for k, n in counts.items()
                if element.get(k)
            }
            SubElement(into, element.tag, words)

    plain = Element("robot", {"name": root.get("name") or "robot"})
    for link in root.findall("link"):
        made = SubElement(plain, "link", {"name": link.get("name", "")})
        inertial = link.find("inertial")
        if inertial is not None and len(inertial):
            made = SubElement(made, "inertial")
            for tag in ("origin", "mass", "inertia"):
                copy_with_numbers(made, inertial.find(tag), _NUMBERS["link"][f"inertial/{tag}"])
    for joint in _joint_elements(root):
        kind = joint.get("type", "")
        made = SubElement(plain, "joint", {"name": joint.get("name", ""), "type": kind})
        for tag in ("parent", "child"):
            SubElement(made, tag, {"link": _parent_or_child_name(joint, tag)})
        copy_with_numbers(made, joint.find("origin"), _NUMBERS["joint"]["origin"])
        if kind != "fixed":
            copy_with_numbers(made, joint.find("axis"), _NUMBERS["joint"]["axis"])
        if kind in ("revolute", "prismatic"):
            SubElement(made, "limit", {"lower": "0", "upper": "0", "effort": "0", "velocity": "0"})
    return tostring(plain, encoding="unicode")


def _read_bodies(path: Path, root: Element, model: Any) -> list[tuple[str, int, Transform, Array | None]]:
    """Every link with pinocchio's joint that moves it, T_joint_link and its parameters; joints must be as stated."""
    joints: dict[str, list[Element]] = {}
    for joint in _joint_elements(root):
        joints.setdefault(_parent_or_child_name(joint, "parent"), []).append(joint)
    elements = {link.get("name", ""): link for link in root.findall("link")}
    bodies: list[tuple[str, int, Transform, Array | None]] = []
    waiting = [(_root_link(root), 0, Transform.identity())]
    while waiting:
        name, at, T = waiting.pop()
        bodies.append((name, at, T, link_inertia(elements[name])))
        for joint in joints.get(name, []):
            place, moved = T @ pose_from_origin(joint), model.getJointId(joint.get("name", ""))
            if joint.get("type") == "fixed":
                waiting.append((_parent_or_child_name(joint, "child"), at, place))
                continue
            axis = np.array(read_numbers(joint.find("axis"), "xyz", (1.0, 0.0, 0.0)))
            axis = axis / (np.linalg.norm(axis) or 1.0)
            if model.parents[moved] != at or not joint_is_at(model, moved, place, axis):
                raise RobotFileError(
                    str(path), "pinocchio_places_differ", "joint '{joint}': pinocchio puts it elsewhere",
                    joint=joint.get('name'),
                )  # fmt: skip
            waiting.append((_parent_or_child_name(joint, "child"), moved, Transform.identity()))
    return bodies


def _read_joint_properties(path: Path, root: Element) -> dict[str, JointProperties]:
    """Child link, limits and friction of every joint that moves."""
    facts: dict[str, JointProperties] = {}
    for joint in (j for j in _joint_elements(root) if j.get("type") != "fixed"):
        name = joint.get("name", "")
        limit, dynamics = joint.find("limit"), joint.find("dynamics")
        lower, upper, velocity, effort = (
            read_numbers(limit, key, (0.0,))[0] for key in ("lower", "upper", "velocity", "effort")
        )
        if joint.get("type") == "continuous" or lower == upper == 0.0 or min(-lower, upper) >= UNLIMITED:
            lower, upper = -math.inf, math.inf
        elif lower >= upper:
            raise RobotFileError(
                str(path), "position_limits_reversed", "{place}joint '{joint}': the lower limit {lower:g} is not below "
                "the upper {upper:g}", place=file_and_line_text(joint), joint=name, lower=lower, upper=upper,
            )  # fmt: skip
        friction = tuple(
            (kind, value)
            for kind, key in (("viscous", "damping"), ("coulomb", "friction"))
            if (value := read_numbers(dynamics, key, (0.0,))[0]) != 0.0
        )
        limits = JointLimits(lower, upper, _positive_or_unlimited(velocity), math.inf, _positive_or_unlimited(effort))
        facts[name] = JointProperties(_parent_or_child_name(joint, "child"), limits, friction)
    return facts


def _positive_or_unlimited(value: float) -> float:
    """Limit as it is; infinite where it is zero or less, which stands for none, or beyond all bounds."""
    return value if 0.0 < value < UNLIMITED else math.inf
