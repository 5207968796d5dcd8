"""A URDF of a robot that is given as a table: the one file that all sides load."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

from dynid.robot.robot import Link, Robot
from dynid.robot.transform import Array

SPEED, EFFORT = 3.0, 100.0
"""Limits (rad/s, N m) of joints without: peers draw their trajectories inside them."""


def write_urdf(robot: Robot, path: Path) -> Path:
    """Write links of unit mass and inertia; joints turn about their z axes."""
    root = ElementTree.Element("robot", name=robot.name)
    ElementTree.SubElement(root, "link", name="base")
    for link in robot.links:
        if link.kind != "revolute" or tuple(link.axis) != (0.0, 0.0, 1.0):
            raise ValueError(f"link '{link.name}' does not turn about its z axis")
        _add_link(root, link)
        _add_joint(root, link, "base" if link.parent < 0 else robot.links[link.parent].name)
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(path, encoding="unicode")
    return path


def _add_link(root: ElementTree.Element, link: Link) -> None:
    inertial = ElementTree.SubElement(ElementTree.SubElement(root, "link", name=link.name), "inertial")
    ElementTree.SubElement(inertial, "origin", xyz="0 0 0", rpy="0 0 0")
    ElementTree.SubElement(inertial, "mass", value="1")
    ElementTree.SubElement(inertial, "inertia", ixx="1", ixy="0", ixz="0", iyy="1", iyz="0", izz="1")


def _add_joint(root: ElementTree.Element, link: Link, parent: str) -> None:
    joint = ElementTree.SubElement(root, "joint", name=link.joint, type="revolute")
    ElementTree.SubElement(joint, "parent", link=parent)
    ElementTree.SubElement(joint, "child", link=link.name)
    xyz, rpy = link.placement.translation, roll_pitch_yaw(link.placement.rotation)
    ElementTree.SubElement(joint, "origin", xyz=_words(*xyz), rpy=_words(*rpy))
    ElementTree.SubElement(joint, "axis", xyz="0 0 1")
    known = link.limits
    limits = {
        "lower": _finite(known.lower, -math.pi),
        "upper": _finite(known.upper, math.pi),
        "velocity": _finite(known.velocity, SPEED),
        "effort": _finite(known.effort, EFFORT),
    }
    ElementTree.SubElement(joint, "limit", {name: _words(x) for name, x in limits.items()})


def _finite(limit: float, default: float) -> float:
    return limit if math.isfinite(limit) else default


def roll_pitch_yaw(R: Array) -> tuple[float, float, float]:
    """Angles about fixed x, y, z of a rotation whose x axis is not vertical."""
    return math.atan2(R[2, 1], R[2, 2]), math.asin(-R[2, 0]), math.atan2(R[1, 0], R[0, 0])


def _words(*numbers: float) -> str:
    return " ".join(repr(float(x) + 0.0) for x in numbers)
