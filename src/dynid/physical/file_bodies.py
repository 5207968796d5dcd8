"""The bodies of a robot file as it states them, before fixed joints merge them, and the moving link that has each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dynid.errors import RobotFileError
from dynid.physical.prior import is_massless
from dynid.robot.io.mjcf_expansion import pose_by_quaternion, stated_inertia
from dynid.robot.io.urdf import link_inertia, locked_joint_motion, pose_from_origin
from dynid.robot.io.xml import read_numbers, read_xml
from dynid.robot.robot import Robot
from dynid.robot.transform import Array, Transform

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

# A body as a robot file states it.


@dataclass(frozen=True, slots=True, eq=False)
class StatedBody:
    """Ten parameters in the frame of the body's own link; carrier: index of the moving link that has it (-1: the base).

    placement: T_carrier_link.
    """

    name: str
    inertia: Array
    carrier: int
    placement: Transform


# The bodies of an MJCF as their <inertial> states them: readers may clip negative masses and merge bodies.


_T = TypeVar("_T")
_CHANGING = ("inertiafromgeom", "boundmass", "boundinertia", "balanceinertia", "settotalmass")


class _UnsupportedMjcfError(Exception):
    """The file has something that only a full reader understands."""


def _require_readable(value: _T | None) -> _T:
    """Return the value; raise where it is None: the file states it in a way that is not read here."""
    if value is None:
        raise _UnsupportedMjcfError
    return value


def mjcf_bodies(path: Path, robot: Robot) -> list[StatedBody] | None:
    """Bodies below <worldbody> that the robot has; None where the file states them in ways not read here.

    Read are <inertial> with pos, quat, diaginertia or fullinertia, and bodies placed by pos and quat.
    """
    root = read_xml(path, "mujoco", "is this an MJCF?")
    if any(c.get(key) is not None for c in root.findall("compiler") for key in _CHANGING):
        return None
    if next(root.iter("include"), None) is not None:
        return None
    moving = {link.name: k for k, link in enumerate(robot.links)}
    found: list[StatedBody] = []
    try:
        for world in root.findall("worldbody"):
            for body in world.findall("body"):
                if body.get("name") in moving or any(b.get("name") in moving for b in body.iter("body")):
                    _collect_mjcf_bodies(body, -1, Transform.identity(), moving, found)
    except (_UnsupportedMjcfError, ValueError):
        return None
    return found


def _collect_mjcf_bodies(
    body: Element, carrier: int, T: Transform, moving: dict[str, int], found: list[StatedBody]
) -> None:
    """Append a <body> and those inside it; T: its pose in the link that carries it."""
    name = body.get("name", "")
    pose = _require_readable(pose_by_quaternion(body))
    if any(any(read_numbers(joint, "pos", (0.0, 0.0, 0.0))) for joint in body.findall("joint")):
        raise _UnsupportedMjcfError  # the link's frame is then the joint's
    carrier, T = (moving[name], Transform.identity()) if name in moving else (carrier, T @ pose)
    inertia = stated_inertia(body)
    if body.find("inertial") is not None or name in moving:
        found.append(StatedBody(name, _require_readable(inertia), carrier, T))
    else:
        _require_readable(inertia)
    for child in body.findall("body"):
        _collect_mjcf_bodies(child, carrier, T, moving, found)


def stated_bodies(source: str, robot: Robot) -> list[StatedBody]:
    """Bodies of a URDF or MJCF as written; those of other files as they were loaded."""
    if source.lower().endswith((".urdf", ".xacro")):
        return _urdf_bodies(Path(source), robot)
    if source.lower().endswith(".xml"):
        found = mjcf_bodies(Path(source), robot)
        if found is not None:
            return found
    still = Transform.identity()
    return [StatedBody(x.name, x.inertia, k, still) for k, x in enumerate(robot.links) if not is_massless(x)]


def _urdf_bodies(path: Path, robot: Robot) -> list[StatedBody]:
    """Bodies of all <link> elements, frames without a body left out."""
    bodies = []
    for element, carrier, T in urdf_links_with_carriers(path, robot):
        name = element.get("name", "")
        x = link_inertia(element)
        if not x.any() and (carrier < 0 or robot.links[carrier].name != name):
            continue  # a frame without a body, held by another link
        bodies.append(StatedBody(name, x, carrier, T))
    return bodies


def urdf_links_with_carriers(path: Path, robot: Robot) -> list[tuple[Element, int, Transform]]:
    """Every <link> of a URDF with the index of the moving link that has it (-1: the base), and T_carrier_link."""
    root = read_xml(path, "robot", "is this a URDF?", text=robot.description if str(path) == robot.source else "")
    moving = {link.name: k for k, link in enumerate(robot.links)}
    above = {_name_of_joint_link(joint, "child"): joint for joint in root.findall("joint")}
    found = []
    for element in root.findall("link"):
        T, place = Transform.identity(), element.get("name", "")
        while place not in moving and place in above:
            T = pose_from_origin(above[place]) @ locked_joint_motion(above[place], robot.locks) @ T
            place = _name_of_joint_link(above[place], "parent")
        found.append((element, moving.get(place, -1), T))
    return found


def _name_of_joint_link(joint: Element, tag: str) -> str:
    """Name of the link in a joint's <parent> or <child>, as the tag says."""
    element = joint.find(tag)
    return "" if element is None else element.get("link", "")


def read_attribute_numbers(
    path: Path, name: str, element: Element | None, key: str, default: tuple[float, ...]
) -> tuple[float, ...]:
    """Finite numbers of an attribute; RobotFileError names the link."""
    try:
        return read_numbers(element, key, default)
    except ValueError as error:
        raise RobotFileError(
            str(path), "values_not_numeric", "link '{link}': {reason}", link=name, reason=error,
        ) from error  # fmt: skip
