"""The bodies of an MJCF as their <inertial> states them: readers may clip negative masses and merge bodies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dynid.physical.stated import StatedBody
from dynid.robot.inertia import Body, from_body, inertia_matrix
from dynid.robot.robot import Robot
from dynid.robot.transform import Array, Transform
from dynid.robot.xml import numbers, read_xml

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_CHANGING = ("inertiafromgeom", "boundmass", "boundinertia", "balanceinertia", "settotalmass")
_TURNED = ("euler", "axisangle", "xyaxes", "zaxis")


class _NotPlainError(Exception):
    """The file has something that only a full reader understands."""


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
    pose = _pose(body)
    if any(any(numbers(joint, "pos", (0.0, 0.0, 0.0))) for joint in body.findall("joint")):
        raise _NotPlainError  # the link's frame is then the joint's
    carrier, T = (moving[name], Transform.identity()) if name in moving else (carrier, T @ pose)
    inertial = body.find("inertial")
    if inertial is not None:
        found.append(StatedBody(name, _inertia(inertial), carrier, T))
    elif body.find("geom") is not None:
        raise _NotPlainError
    elif name in moving:
        found.append(StatedBody(name, np.zeros(10), carrier, T))
    for child in body.findall("body"):
        _walk(child, carrier, T, moving, found)


def _inertia(inertial: Element) -> Array:
    T = _pose(inertial)
    mass = numbers(inertial, "mass", (0.0,))[0]
    xx, yy, zz = numbers(inertial, "diaginertia", (0.0, 0.0, 0.0))
    about = np.diag([xx, yy, zz])
    if "fullinertia" in inertial.attrib:
        xx, yy, zz, xy, xz, yz = numbers(inertial, "fullinertia", (0.0,) * 6)
        about = inertia_matrix(np.array([xx, xy, xz, yy, yz, zz, 0.0, 0.0, 0.0, 0.0]))
    x = from_body(Body(mass, T.translation, T.rotation @ about @ T.rotation.T))
    if not np.isfinite(x).all():
        raise _NotPlainError
    return x


def _pose(element: Element) -> Transform:
    if any(key in element.attrib for key in _TURNED):
        raise _NotPlainError
    q = np.array(numbers(element, "quat", (1.0, 0.0, 0.0, 0.0)))
    size = float(np.linalg.norm(q))
    if not size > 0.0:
        raise _NotPlainError
    w, x, y, z = q / size
    R = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    return Transform(R, np.array(numbers(element, "pos", (0.0, 0.0, 0.0))))
