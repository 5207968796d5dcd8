"""URDF files, through pinocchio; meshes are never needed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dynid.errors import RobotFileError
from dynid.robot.inertia import from_pinocchio
from dynid.robot.limits import JointLimits
from dynid.robot.locking import lock_joints
from dynid.robot.loops import Coupling
from dynid.robot.pinocchio_tree import JointFacts, base_link, links_of_model, merge_fixed
from dynid.robot.robot import Robot
from dynid.robot.snapping import Snapped, tell_snapped
from dynid.robot.transform import freeze, snap_angle
from dynid.robot.xml import numbers, read_xml

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_TYPES = ("revolute", "continuous", "prismatic", "fixed")


def read_urdf(path: Path, *, floating_base: bool, lock: Mapping[str, float], snap: bool) -> Robot:
    """Read a URDF: fixed joints merged, mimic joints as couplings, rounded rpy angles snapped with a note."""
    from xml.etree.ElementTree import tostring

    import pinocchio as pin

    root = read_xml(path, "robot", "is this a URDF? (MJCF files end in .xml)")
    _check(path, root)
    notes = _snap(path, root) if snap else []
    couplings = _couplings(path, root)
    _strip(root)
    _check_numbers(path, root)
    try:
        model = pin.buildModelFromXML(tostring(root, encoding="unicode"))
    except (ValueError, RuntimeError) as error:
        raise RobotFileError(str(path), [f"pinocchio cannot read it: {str(error).splitlines()[-1]}"]) from error
    links = links_of_model(model, _facts(path, root), str(path), {})
    if floating_base:
        base = base_link(_root_link(root), from_pinocchio(np.array(model.inertias[0].toDynamicParameters())))
        links = [base, *(replace(link, parent=link.parent + 1) for link in links)]
    robot = Robot(
        name=root.get("name") or path.stem,
        links=tuple(links),
        gravity=freeze([0.0, 0.0, -9.81]),
        couplings=couplings,
        source=str(path),
        notes=tuple(notes),
    )
    return merge_fixed(lock_joints(robot, lock))


def _joints(root: Element) -> list[Element]:
    return root.findall("joint")


def _child(joint: Element, tag: str) -> str:
    element = joint.find(tag)
    return "" if element is None else element.get("link", "")


def _root_link(root: Element) -> str:
    children = {_child(joint, "child") for joint in _joints(root)}
    return next(link.get("name", "") for link in root.findall("link") if link.get("name") not in children)


def _check(path: Path, root: Element) -> None:
    """Say what is wrong with the tree in words, all at once, before pinocchio sees it."""
    problems: list[str] = []
    links = [link.get("name", "") for link in root.findall("link")]
    joints = [joint.get("name", "") for joint in _joints(root)]
    for kind, names in (("link", links), ("joint", joints)):
        for name in dict.fromkeys(n for n in names if names.count(n) > 1 or not n):
            problems.append(f"{kind} '{name}': every {kind} needs a name of its own")
    if not links:
        problems.append("there is no <link>; a URDF needs links and joints")
    parent_of: dict[str, str] = {}
    for joint in _joints(root):
        name = joint.get("name", "")
        if joint.get("type") not in _TYPES:
            problems.append(f"joint '{name}': type {joint.get('type')!r} is not supported; use {', '.join(_TYPES)}")
        for tag in ("parent", "child"):
            if _child(joint, tag) not in links:
                problems.append(f"joint '{name}': its {tag} link '{_child(joint, tag)}' does not exist")
        child = _child(joint, "child")
        if child in parent_of:
            problems.append(f"link '{child}' hangs on two joints; a URDF is a tree (write a table with [[closure]])")
        parent_of[child] = _child(joint, "parent")
    if not problems:
        problems += _check_tree(links, parent_of)
    if problems:
        raise RobotFileError(str(path), problems)


def _check_tree(links: list[str], parent_of: dict[str, str]) -> list[str]:
    roots = [link for link in links if link not in parent_of]
    if len(roots) == 1 and all(_reaches(link, roots[0], parent_of) for link in links):
        return [] if parent_of else ["there is no <joint>; nothing can move"]
    if len(roots) > 1:
        return [f"{len(roots)} links have no parent joint ({', '.join(roots)}); a robot has one root"]
    lost = [link for link in links if not (roots and _reaches(link, roots[0], parent_of))]
    return [f"the links {', '.join(lost)} form a cycle; a URDF is a tree"]


def _reaches(link: str, root: str, parent_of: dict[str, str]) -> bool:
    seen: set[str] = set()
    while link != root and link in parent_of and link not in seen:
        seen.add(link)
        link = parent_of[link]
    return link == root


def _numbers(
    path: Path, where: str, element: Element | None, attribute: str, default: tuple[float, ...]
) -> tuple[float, ...]:
    try:
        values = numbers(element, attribute, default)
    except ValueError as error:
        raise RobotFileError(str(path), [f"{where}: {error}"]) from error
    if not all(math.isfinite(x) for x in values):
        raise RobotFileError(str(path), [f"{where}: {attribute} must be finite"])
    return values


def _snap(path: Path, root: Element) -> list[str]:
    """Set rpy angles that are almost multiples of 90 degrees to them; return notes on that."""
    found: list[Snapped] = []
    owners = [(f"joint '{j.get('name')}'", j) for j in _joints(root)]
    for link in root.findall("link"):
        owners += [(f"link '{link.get('name')}', inertial", inertial) for inertial in link.findall("inertial")]
    for where, owner in owners:
        origin = owner.find("origin")
        if origin is None or "rpy" not in origin.attrib:
            continue
        rpy = _numbers(path, where, origin, "rpy", (0.0, 0.0, 0.0))
        snapped = [snap_angle(angle) for angle in rpy]
        if any(a != b for a, b in zip(rpy, snapped, strict=True)):
            written = origin.get("rpy", "")
            origin.set("rpy", " ".join(map(repr, snapped)))
        off = max(abs(a - b) for a, b in zip(rpy, snapped, strict=True))
        if off > 1e-12:
            shown = ", ".join(f"{math.degrees(angle):g}" for angle in snapped)
            note = f"{where}: rpy {written} taken for {shown} degrees; snap=False keeps it"
            found.append(Snapped(where, off, note))
    return tell_snapped(found)


def _couplings(path: Path, root: Element) -> tuple[Coupling, ...]:
    """Mimic joints; the tags are removed, so that pinocchio sees the open tree."""
    couplings: list[Coupling] = []
    names = [joint.get("name", "") for joint in _joints(root)]
    fixed = {joint.get("name", "") for joint in _joints(root) if joint.get("type") == "fixed"}
    for joint in _joints(root):
        mimic = joint.find("mimic")
        if mimic is None:
            continue
        if joint.get("type") == "fixed":  # a gripper that was frozen in the file: what does not move follows nothing
            joint.remove(mimic)
            continue
        name, master = joint.get("name", ""), mimic.get("joint", "")
        where = f"joint '{name}', mimic"
        if master not in names or master == name:
            raise RobotFileError(str(path), [f"{where}: it follows '{master}', which is no other joint of the robot"])
        if master in fixed:
            raise RobotFileError(str(path), [f"{where}: it follows '{master}', which is fixed; make it fixed, too"])
        factor = _numbers(path, where, mimic, "multiplier", (1.0,))[0]
        offset = _numbers(path, where, mimic, "offset", (0.0,))[0]
        couplings.append(Coupling(name, ((master, factor),), offset))
        joint.remove(mimic)
    followers = {c.passive: c.factors[0][0] for c in couplings}
    for name in followers:
        seen, master = {name}, followers[name]
        while master in followers and master not in seen:
            seen.add(master)
            master = followers[master]
        if master in seen:
            raise RobotFileError(
                str(path), [f"joint '{name}', mimic: the joints {', '.join(sorted(seen))} follow each other"]
            )
    return tuple(couplings)


def _strip(root: Element) -> None:
    """Leave to pinocchio what it needs: no shapes, and limits with all the attributes on which its parser insists."""
    from xml.etree.ElementTree import SubElement

    for link in root.findall("link"):
        for shape in [*link.findall("visual"), *link.findall("collision")]:
            link.remove(shape)
    for joint in _joints(root):
        limit = joint.find("limit")
        if limit is None and joint.get("type") in ("revolute", "prismatic"):
            limit = SubElement(joint, "limit")
        if limit is not None:
            for key in ("effort", "velocity"):
                limit.set(key, limit.get(key) or "0")


def _check_numbers(path: Path, root: Element) -> None:
    """Say where a pose, axis, mass or inertia is no number, before pinocchio sees it."""
    for joint in _joints(root):
        where = f"joint '{joint.get('name')}'"
        _numbers(path, f"{where}, origin", joint.find("origin"), "xyz", (0.0,) * 3)
        _numbers(path, f"{where}, origin", joint.find("origin"), "rpy", (0.0,) * 3)
        _numbers(path, f"{where}, axis", joint.find("axis"), "xyz", (1.0, 0.0, 0.0))
    for link in root.findall("link"):
        inertial = link.find("inertial")
        if inertial is None:
            continue
        where = f"link '{link.get('name')}', inertial"
        for key in ("xyz", "rpy"):
            _numbers(path, f"{where}, origin", inertial.find("origin"), key, (0.0,) * 3)
        _numbers(path, f"{where}, mass", inertial.find("mass"), "value", (0.0,))
        for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"):
            _numbers(path, f"{where}, inertia", inertial.find("inertia"), key, (0.0,))


def _facts(path: Path, root: Element) -> dict[str, JointFacts]:
    facts: dict[str, JointFacts] = {}
    for joint in _joints(root):
        name = joint.get("name", "")
        limit, dynamics = joint.find("limit"), joint.find("dynamics")
        where = f"joint '{name}'"
        lower = _numbers(path, where, limit, "lower", (0.0,))[0]
        upper = _numbers(path, where, limit, "upper", (0.0,))[0]
        if joint.get("type") == "continuous" or lower == upper == 0.0:
            lower, upper = -math.inf, math.inf
        elif lower >= upper:
            raise RobotFileError(str(path), [f"{where}: the lower limit {lower:g} is not below the upper {upper:g}"])
        velocity, effort = (_positive(_numbers(path, where, limit, key, (0.0,))[0]) for key in ("velocity", "effort"))
        friction = tuple(
            (kind, value)
            for kind, key in (("viscous", "damping"), ("coulomb", "friction"))
            if (value := _numbers(path, where, dynamics, key, (0.0,))[0]) != 0.0
        )
        facts[name] = JointFacts(
            _child(joint, "child"), JointLimits(lower, upper, velocity, math.inf, effort), friction
        )
    return facts


def _positive(value: float) -> float:
    """A limit of zero or less was left out."""
    return value if value > 0.0 else math.inf
