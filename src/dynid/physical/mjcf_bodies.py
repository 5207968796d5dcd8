"""The bodies of an MJCF as their <inertial> states them: readers may clip negative masses and merge bodies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dynid.physical.stated import StatedBody
from dynid.robot.mjcf_inertias import plain_pose, stated_inertia
from dynid.robot.robot import Robot
from dynid.robot.transform import Transform
from dynid.robot.xml import numbers, read_xml

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_T = TypeVar("_T")
_CHANGING = ("inertiafromgeom", "boundmass", "boundinertia", "balanceinertia", "settotalmass")


class _NotPlainError(Exception):
    """The file has something that only a full reader understands."""


def _plain(value: _T | None) -> _T:
    if value is None:
        raise _NotPlainError
    return value


def written_bodies(path: Path, robot: Robot) -> list[StatedBody] | None:
    """Every body below <worldbody> that the robot has; None where the file says it in ways that are not read here.

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
                    _walk(body, -1, Transform.identity(), moving, found)
    except (_NotPlainError, ValueError):
        return None
    return found


def _walk(body: Element, carrier: int, T: Transform, moving: dict[str, int], found: list[StatedBody]) -> None:
    name = body.get("name", "")
    pose = _plain(plain_pose(body))
    if any(any(numbers(joint, "pos", (0.0, 0.0, 0.0))) for joint in body.findall("joint")):
        raise _NotPlainError  # the link's frame is then the joint's
    carrier, T = (moving[name], Transform.identity()) if name in moving else (carrier, T @ pose)
    inertia = stated_inertia(body)
    if body.find("inertial") is not None or name in moving:
        found.append(StatedBody(name, _plain(inertia), carrier, T))
    else:
        _plain(inertia)
    for child in body.findall("body"):
        _walk(child, carrier, T, moving, found)
