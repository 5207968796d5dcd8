"""Numbers of an MJCF, checked before pinocchio sees them: it takes words for zeros without saying so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dynid.errors import RobotFileError
from dynid.robot.xml import numbers, place_of

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_COUNTS = {
    "body": {"pos": 3, "quat": 4, "axisangle": 4, "euler": 3, "xyaxes": 6, "zaxis": 3},
    "joint": {"pos": 3, "axis": 3, "range": 2, "damping": 0, "frictionloss": 1, "armature": 1,
        "actuatorfrcrange": 2,},
    "inertial": {
        "pos": 3, "quat": 4, "axisangle": 4, "euler": 3, "xyaxes": 6, "zaxis": 3, "mass": 1, "diaginertia": 3,
        "fullinertia": 6,
    },
}  # fmt: skip
"""How many numbers an attribute has, by element; 0: as many as there are."""


def check_numbers(path: Path, root: Element) -> None:
    """Say where a pose, axis, mass or inertia is no number, all at once."""
    problems: list[str] = []
    for compiler in root.findall("compiler"):
        _check(compiler, "compiler", {"settotalmass": 1, "boundmass": 1, "boundinertia": 1}, problems)
    for body in (b for world in root.findall("worldbody") for b in world.iter("body")):
        where = f"body '{body.get('name')}'"
        _check(body, where, _COUNTS["body"], problems)
        for inertial in body.findall("inertial"):
            _check(inertial, f"{where}, inertial", _COUNTS["inertial"], problems)
            _check_inertial(inertial, f"{place_of(inertial)}{where}, inertial", problems)
        for second in body.findall("inertial")[1:]:
            problems.append(f"{place_of(second)}{where} has two <inertial>; remove one")
        for joint in body.findall("joint"):
            name = f"joint '{joint.get('name')}'"
            _check(joint, name, _COUNTS["joint"], problems)
    if problems:
        raise RobotFileError(str(path), problems)


def _check_inertial(inertial: Element, where: str, problems: list[str]) -> None:
    missing = [key for key in ("pos", "mass") if key not in inertial.attrib]
    if missing:
        problems.append(f"{where}: {' and '.join(missing)} missing; write every number, zeros too")
    moments = [key for key in ("diaginertia", "fullinertia") if key in inertial.attrib]
    if len(moments) > 1:
        problems.append(f"{where}: diaginertia and fullinertia; remove one")
    if not moments:
        inertial.set("diaginertia", "0 0 0")  # as in MuJoCo; pinocchio invents some


def _check(element: Element, where: str, counts: dict[str, int], problems: list[str]) -> None:
    for key, count in counts.items():
        if key in element.attrib:
            size = count or max(1, len(element.attrib[key].split()))
            try:
                numbers(element, key, (0.0,) * size)
            except ValueError as error:
                problems.append(f"{place_of(element)}{where}: {error}")
