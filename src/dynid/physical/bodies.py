"""The bodies of a robot file as it states them, before fixed joints merge them, and the moving link that has each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dynid.errors import RobotFileError
from dynid.physical.mjcf_bodies import written_bodies
from dynid.physical.prior import is_massless
from dynid.physical.stated import StatedBody
from dynid.robot.inertia import Body, from_body
from dynid.robot.robot import Robot
from dynid.robot.transform import Array, Transform
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
        inertial = element.find("inertial")
        x = np.zeros(10) if inertial is None else _inertia(path, name, inertial)
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
            T = pose_of(path, place, above[place]) @ T
            place = _link(above[place], "parent")
        found.append((element, moving.get(place, -1), T))
    return found


def _link(joint: Element, tag: str) -> str:
    element = joint.find(tag)
    return "" if element is None else element.get("link", "")


def _inertia(path: Path, name: str, inertial: Element) -> Array:
    mass = numbers_of(path, name, inertial.find("mass"), "value", (0.0,))[0]
    J = inertial.find("inertia")
    xx, xy, xz, yy, yz, zz = (
        numbers_of(path, name, J, key, (0.0,))[0] for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    )
    T = pose_of(path, name, inertial)
    about = T.rotation @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ T.rotation.T
    return from_body(Body(mass, T.translation, about))


def pose_of(path: Path, name: str, owner: Element) -> Transform:
    """Pose that the <origin> of an element states."""
    origin = owner.find("origin")
    x, y, z = numbers_of(path, name, origin, "xyz", (0.0, 0.0, 0.0))
    r, p, w = numbers_of(path, name, origin, "rpy", (0.0, 0.0, 0.0))
    (cr, sr), (cp, sp), (cw, sw) = ((np.cos(a), np.sin(a)) for a in (r, p, w))
    R = np.array(
        [
            [cw * cp, cw * sp * sr - sw * cr, cw * sp * cr + sw * sr],
            [sw * cp, sw * sp * sr + cw * cr, sw * sp * cr - cw * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )
    return Transform(R, np.array([x, y, z]))


def numbers_of(
    path: Path, name: str, element: Element | None, key: str, default: tuple[float, ...]
) -> tuple[float, ...]:
    """Finite numbers of an attribute; RobotFileError names the link."""
    try:
        values = numbers(element, key, default)
    except ValueError as error:
        raise RobotFileError(str(path), [f"link '{name}': {error}"]) from error
    if not np.isfinite(values).all():
        raise RobotFileError(str(path), [f"link '{name}': {key} must be finite"])
    return values
