"""The parts of an MJCF that MuJoCo expands: included files, defaults and classes, frames, parts without a name."""

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


def spell_joints(root: Element) -> None:
    """Write into every joint what its class, or the class of its body, gives it: pinocchio overlooks some of it."""
    classes: dict[str, dict[str, str]] = {}

    def learn(default: Element, inherited: dict[str, str]) -> None:
        own = dict(inherited)
        for joint in default.findall("joint"):
            own |= joint.attrib
        classes[default.get("class", "main")] = own
        for nested in default.findall("default"):
            learn(nested, own)

    def spell(body: Element, of_body: str) -> None:
        of_body = body.get("childclass", of_body)
        for joint in body.findall("joint"):
            for key, value in classes.get(joint.get("class", of_body), {}).items():
                joint.attrib.setdefault(key, value)
        for child in (*body.findall("body"), *body.findall("frame")):
            spell(child, of_body)

    for default in root.findall("default"):
        learn(default, {})
        classes.setdefault("main", classes[default.get("class", "main")])
    for world in root.findall("worldbody"):
        spell(world, "main")


def fix_frames(path: Path, root: Element) -> None:
    """Make bodies of <frame>s, which move with the body around them; refuse what MuJoCo would multiply."""
    for world in root.findall("worldbody"):
        for part in world.iter():
            if part.tag in ("replicate", "attach") and any(p.tag in ("body", "joint") for p in (part, *part.iter())):
                problem = f"<{part.tag}> is not read; load the file in MuJoCo and save what it makes of it"
                raise RobotFileError(str(path), [problem])
        _fix_frames(path, world)


def _fix_frames(path: Path, owner: Element) -> None:
    """Frames directly in a body, and in these; shapes in them count only where the body does not state its inertia."""
    for part in list(owner):
        if part.tag == "frame":
            if any(child.tag in ("joint", "freejoint", "inertial") for child in part):
                problem = f"frame '{part.get('name', '')}': joints and inertias in it are not read; put them outside"
                raise RobotFileError(str(path), [problem])
            if owner.find("inertial") is not None:
                for geom in part.findall("geom"):
                    part.remove(geom)
            part.tag = "body"
            part.attrib.pop("name", None)
        if part.tag == "body":
            _fix_frames(path, part)


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
