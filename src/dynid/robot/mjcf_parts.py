"""The parts of an MJCF: included files, several defaults, and shapes that a reader of inertias does not need."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from dynid.errors import RobotFileError
from dynid.robot.xml import read_xml

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_DEEPEST_INCLUDE = 8


def include(path: Path, element: Element, folder: Path, depth: int) -> None:
    """Replace <include file="..."/> by the other file's content, inside the robot's folder only."""
    for child in list(element):
        if child.tag != "include":
            include(path, child, folder, depth)
            continue
        name = child.get("file", "")
        other = (folder / name).resolve()
        if depth >= _DEEPEST_INCLUDE:
            raise RobotFileError(str(path), [f"include '{name}': includes are nested too deeply"])
        if not other.is_relative_to(folder) or not other.is_file():
            problem = f"include '{name}': there is no such file in the folder of the robot; put it there"
            raise RobotFileError(str(path), [problem])
        included = read_xml(other, "mujoco", "an included file is an MJCF too", also="mujocoinclude")
        include(path, included, folder, depth + 1)
        place = list(element).index(child)
        element.remove(child)
        for offset, part in enumerate(included):
            element.insert(place + offset, part)


def merge_defaults(root: Element) -> None:
    """Make one <default> of several, as MuJoCo does: included files bring their own, pinocchio knows one."""
    several = root.findall("default")
    for other in several[1:]:
        for part in other:
            same = several[0].find(part.tag) if part.tag != "default" else None
            if same is None:
                several[0].append(part)
            else:
                same.attrib.update(part.attrib)
        root.remove(other)


def name_parts(root: Element) -> None:
    """Name bodies and joints that have no name, which MuJoCo allows: by number, and after their body."""
    taken = {part.get("name") for part in root.iter()}

    def free(wanted: str) -> str:
        names = (wanted if k == 1 else f"{wanted}_{k}" for k in count(1))
        name = next(name for name in names if name not in taken)
        taken.add(name)
        return name

    for world in root.findall("worldbody"):
        for number, body in enumerate(world.iter("body"), 1):
            if not body.get("name"):
                body.set("name", free(f"body{number}"))
            for joint in body.findall("joint"):
                if not joint.get("name"):
                    joint.set("name", free(f"{body.get('name')}_joint"))


def drop_shapes(root: Element, top: Element) -> None:
    """Take out the shapes of bodies that state their inertia: they are not needed, and could not all be read."""
    if any(compiler.get("inertiafromgeom") == "true" for compiler in root.findall("compiler")):
        return
    for body in top.iter("body"):
        if body.find("inertial") is not None:
            for geom in body.findall("geom"):
                body.remove(geom)
