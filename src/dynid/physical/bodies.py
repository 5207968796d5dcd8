"""The bodies of a robot file as it states them, before fixed joints merge them, and the moving link that has each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dynid.errors import RobotFileError
from dynid.physical.mjcf_bodies import written_bodies
from dynid.physical.prior import is_massless
from dynid.physical.stated import StatedBody
from dynid.robot.robot import Robot
from dynid.robot.transform import Transform
from dynid.robot.urdf import link_inertia, pose_of
from dynid.robot.xml import numbers, read_xml

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


def stated_bodies(source: str, robot: Robot) -> list[StatedBody]:
    """Bodies of a URDF or MJCF as written; those of other files as they were loaded."""
    if source.lower().endswith(".urdf"):
        return _urdf_bodies(Path(source), robot)
    if source.lower().endswith(".xml"):
        found = written_bodies(Path(source), robot)
        if found is not None:
            return found
    still = Transform.identity()
    return [StatedBody(x.name, x.inertia, k, still) for k, x in enumerate(robot.links) if not is_massless(x)]


def _urdf_bodies(path: Path, robot: Robot) -> list[StatedBody]:
    bodies = []
    for element, carrier, T in carried_links(path, robot):
        name = element.get("name", "")
        x = link_inertia(element)
        if not x.any() and (carrier < 0 or robot.links[carrier].name != name):
            continue  # a frame without a body, held by another link
        bodies.append(StatedBody(name, x, carrier, T))
    return bodies


def carried_links(path: Path, robot: Robot) -> list[tuple[Element, int, Transform]]:
    """Every <link> of a URDF with the index of the moving link that has it (-1: the base), and T_carrier_link."""
    root = read_xml(path, "robot", "is this a URDF?")
    moving = {link.name: k for k, link in enumerate(robot.links)}
    above = {_link(joint, "child"): joint for joint in root.findall("joint")}
    found = []
    for element in root.findall("link"):
        T, place = Transform.identity(), element.get("name", "")
        while place not in moving and place in above:
            T = pose_of(above[place]) @ T
            place = _link(above[place], "parent")
        found.append((element, moving.get(place, -1), T))
    return found


def _link(joint: Element, tag: str) -> str:
    element = joint.find(tag)
    return "" if element is None else element.get("link", "")


def numbers_of(
    path: Path, name: str, element: Element | None, key: str, default: tuple[float, ...]
) -> tuple[float, ...]:
    """Finite numbers of an attribute; RobotFileError names the link."""
    try:
        return numbers(element, key, default)
    except ValueError as error:
        raise RobotFileError(str(path), [f"link '{name}': {error}"]) from error
