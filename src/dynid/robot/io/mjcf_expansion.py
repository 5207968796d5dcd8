"""The parts of an MJCF that MuJoCo expands: included files, defaults and classes, frames, parts without a name."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import SubElement

import numpy as np

from dynid.errors import DynidError, ParserDiedError, ParserFailedError, RobotFileError
from dynid.messages import Message
from dynid.robot.inertia import Body, from_body
from dynid.robot.io.meshes import LEVELS, MeshFolders, check_mesh_file
from dynid.robot.io.xml import read_numbers, read_xml
from dynid.robot.transform import Array, Transform, quaternion_from_rotation, rotation_about
from dynid.storage.files import ELEMENTS, run_isolated

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_DEEPEST_INCLUDE = 8
MOST_INCLUDES = 200
"""Files that an MJCF may include, each as often as it is included."""


def expand_includes(path: Path, element: Element, folder: Path) -> None:
    """Replace <include file="..."/> by the other file's content, inside the robot's folder only."""
    _expand_includes_inside(path, element, folder, 0, count(1))
    size = _expanded_size(element)
    if problem := ELEMENTS.exceeded("the file and what it includes have {figure} elements", size):
        raise RobotFileError(str(path), [problem])


def _expanded_size(element: Element) -> int:
    """Number of elements below an element, and itself, once MuJoCo has multiplied what it is told to."""
    inside = 1 + sum(map(_expanded_size, element))
    if element.tag not in ("replicate", "composite", "flexcomp"):
        return inside
    words = element.get("count", "1").split()[:3]
    return inside * math.prod(int(word) if word.isdecimal() and len(word) < 10 else 1 for word in words)


def _expand_includes_inside(path: Path, element: Element, folder: Path, depth: int, number: Iterator[int]) -> None:
    """Replace the includes below an element; number: counts them."""
    if all(part.tag != "include" for part in element.iter()):
        return
    parts: list[Element] = []
    for child in element:
        if child.tag != "include":
            _expand_includes_inside(path, child, folder, depth, number)
            parts.append(child)
            continue
        name = child.get("file", "")
        other = (folder / name).resolve()
        if depth >= _DEEPEST_INCLUDE:
            raise RobotFileError(
                str(path), "nesting_too_deep", "include '{file}': includes are nested too deeply", file=name,
            )  # fmt: skip
        if next(number) > MOST_INCLUDES:
            raise RobotFileError(
                str(path), "too_many_includes", "more than {most} files are included", "write them into one file",
                most=MOST_INCLUDES,
            )  # fmt: skip
        if not other.is_relative_to(folder) or not other.is_file():
            raise RobotFileError(
                str(path), "file_not_found", "include '{file}': there is no such file in the folder of the robot",
                "put it there", file=name,
            )  # fmt: skip
        included = read_xml(other, "mujoco", "an included file is an MJCF too", also="mujocoinclude")
        _expand_includes_inside(path, included, folder, depth + 1, number)
        parts += included
    element[:] = parts


def orientations_to_quaternions(root: Element) -> None:
    """Replace orientations that pinocchio misreads by quaternions.

    These are angles about axes that are not unit vectors, and Euler angles about fixed axes (capital letters of
    `eulerseq`). What is not a number is left to `check_mjcf_numbers`.
    """
    given = {key: x for compiler in root.findall("compiler") for key, x in compiler.attrib.items()}
    sequence, unit = given.get("eulerseq", "xyz"), 1.0 if given.get("angle") == "radian" else math.pi / 180.0
    is_fixed = len(sequence) == 3 and set(sequence.lower()) <= set("xyz") and sequence != sequence.lower()
    for element in (e for world in root.findall("worldbody") for e in world.iter()):
        with suppress(ValueError):
            if "axisangle" in element.attrib:
                *axis, angle = read_numbers(element, "axisangle", (0.0,) * 4)
                if (size := float(np.linalg.norm(axis))) > 0.0:
                    _set_quaternion(element, "axisangle", rotation_about(np.array(axis) / size, unit * angle))
            elif "euler" in element.attrib and is_fixed:
                R = np.eye(3)
                for letter, angle in zip(sequence, read_numbers(element, "euler", (0.0,) * 3), strict=True):
                    turn = rotation_about(np.eye(3)["xyz".index(letter.lower())], unit * angle)
                    R = R @ turn if letter.islower() else turn @ R
                _set_quaternion(element, "euler", R)


def _set_quaternion(element: Element, old: str, R: Array) -> None:
    """Set the quaternion of an element and remove the attribute `old` that it replaces."""
    element.attrib.pop(old)
    element.set("quat", " ".join(repr(float(x)) for x in quaternion_from_rotation(R)))


def merge_defaults(root: Element) -> None:
    """Merge all <default> into one, as MuJoCo does: included files bring their own, pinocchio knows one."""
    several = root.findall("default")
    for other in several[1:]:
        for part in other:
            same = several[0].find(part.tag) if part.tag != "default" else None
            if same is None:
                several[0].append(part)
            else:
                same.attrib.update(part.attrib)
        root.remove(other)


def expand_joint_defaults(root: Element) -> None:
    """Write into every joint what its class, or that of its body, gives it, as pinocchio overlooks some of it."""
    classes: dict[str, dict[str, str]] = {}

    def collect_class_defaults(default: Element, inherited: dict[str, str]) -> None:
        """Joint attributes of a default class and those nested in it."""
        own = dict(inherited)
        for joint in default.findall("joint"):
            own |= joint.attrib
        classes[default.get("class", "main")] = own
        for nested in default.findall("default"):
            collect_class_defaults(nested, own)

    def write_joint_attributes(body: Element, of_body: str) -> None:
        """Write the defaults into the joints of a body and of those it carries."""
        of_body = body.get("childclass", of_body)
        for joint in body.findall("joint"):
            for key, value in classes.get(joint.get("class", of_body), {}).items():
                joint.attrib.setdefault(key, value)
        for child in (*body.findall("body"), *body.findall("frame")):
            write_joint_attributes(child, of_body)

    for default in root.findall("default"):
        collect_class_defaults(default, {})
        classes.setdefault("main", classes[default.get("class", "main")])
    for world in root.findall("worldbody"):
        write_joint_attributes(world, "main")


def frames_to_bodies(path: Path, root: Element) -> None:
    """Replace <frame>s by bodies fixed to the body around them; refuse what MuJoCo would multiply."""
    for world in root.findall("worldbody"):
        for part in world.iter():
            if part.tag in ("replicate", "attach") and any(p.tag in ("body", "joint") for p in (part, *part.iter())):
                raise RobotFileError(
                    str(path), "element_not_supported", "<{tag}> is not read",
                    "load the file in MuJoCo and save what it makes of it", tag=part.tag,
                )  # fmt: skip
        _frames_of_body_to_bodies(
            path, world, any(c.get("inertiafromgeom") == "true" for c in root.findall("compiler"))
        )


def _frames_of_body_to_bodies(path: Path, owner: Element, by_shapes: bool) -> None:
    """Replace the frames in a body, and those in them, by bodies; shapes count only without a stated inertia.

    by_shapes: they count in any case.
    """
    for part in list(owner):
        if part.tag == "frame":
            if any(child.tag in ("joint", "freejoint", "inertial") for child in part):
                raise RobotFileError(
                    str(path), "element_not_supported", "frame '{frame}': joints and inertias in it are not read",
                    "put them outside", frame=part.get("name", ""),
                )  # fmt: skip
            if owner.find("inertial") is not None and not by_shapes:
                for geom in part.findall("geom"):
                    part.remove(geom)
            part.tag = "body"
            part.attrib.pop("name", None)
        if part.tag == "body":
            _frames_of_body_to_bodies(path, part, by_shapes)


def name_bodies_and_joints(root: Element) -> None:
    """Name bodies and joints that have no name, which MuJoCo allows: by number, and after their body."""
    taken = {part.get("name") for part in root.iter()}

    def unused_name(wanted: str) -> str:
        """The wanted name, numbered where it is taken."""
        names = (wanted if k == 1 else f"{wanted}_{k}" for k in count(1))
        name = next(name for name in names if name not in taken)
        taken.add(name)
        return name

    for world in root.findall("worldbody"):
        for number, body in enumerate(world.iter("body"), 1):
            if not body.get("name"):
                body.set("name", unused_name(f"body{number}"))
            for joint in body.findall("joint"):
                if not joint.get("name"):
                    joint.set("name", unused_name(f"{body.get('name')}_joint"))


def drop_shapes_of_known_inertia(root: Element, top: Element) -> None:
    """Remove the shapes of bodies that state their inertia: they are not needed, and could not all be read."""
    if any(compiler.get("inertiafromgeom") == "true" for compiler in root.findall("compiler")):
        return
    for body in top.iter("body"):
        if body.find("inertial") is not None:
            for geom in body.findall("geom"):
                body.remove(geom)


# Inertias of MJCF bodies: those that are stated, and those that follow from shapes, which only MuJoCo knows.
#
# Pinocchio guesses them from some shapes and takes others for nothing; its guesses are not used.


def inertias_from_shapes(path: Path, root: Element, moving: list[Element], notes: list[Message]) -> set[str]:
    """Set the <inertial> that MuJoCo finds from shapes, where none is stated; return links that stay unknown.

    These are the moving bodies that are such bodies or carry them.
    """
    all_of_them = any(
        compiler.get("inertiafromgeom") == "true" or float(compiler.get("settotalmass", "-1")) > 0.0
        for compiler in root.findall("compiler")
    )
    shaped = [
        body
        for top in moving
        for body in top.iter("body")
        if body.find("geom") is not None and (all_of_them or body.find("inertial") is None)
    ]
    if not shaped:
        return set()
    found = _compile_inertias(path, root)
    if not isinstance(found, Message):
        for body in shaped:
            _set_inertial(body, found[body])
        for compiler in root.findall("compiler"):
            compiler.attrib.pop("inertiafromgeom", None)
        notes.append(Message(
            "shape_inertias_from_mujoco", "inertias of {count} bodies follow from their shapes, by MuJoCo",
            count=len(shaped),
        ))  # fmt: skip
        return set()
    notes.append(Message(
        "shape_inertias_unknown", "inertias of {count} bodies follow from their shapes and are unknown: {reason}",
        "{remedy}", count=len(shaped), reason=found.what, remedy=found.remedy,
    ))  # fmt: skip
    carriers = {name for top in moving for name in _moving_bodies_with_shapes(top, "", shaped)}
    return carriers - {""}


def balance_inertias(root: Element) -> None:
    """Replace moments that violate the triangle inequality by their mean, where the file wants that of MuJoCo."""
    if any(compiler.get("balanceinertia") == "true" for compiler in root.findall("compiler")):
        for inertial in (i for world in root.findall("worldbody") for i in world.iter("inertial")):
            moments = np.linalg.eigvalsh(_inertia_tensor(inertial))
            if moments[0] + moments[1] < moments[2]:
                inertial.attrib.pop("fullinertia", None)
                inertial.set("diaginertia", " ".join([repr(float(moments.mean()))] * 3))


def _inertia_tensor(inertial: Element) -> Array:
    """Inertia matrix about the centre of mass, in the axes of the <inertial>."""
    if "fullinertia" not in inertial.attrib:
        return np.diag(read_numbers(inertial, "diaginertia", (0.0, 0.0, 0.0)))
    xx, yy, zz, xy, xz, yz = read_numbers(inertial, "fullinertia", (0.0,) * 6)
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def stated_inertia(body: Element) -> Array | None:
    """Ten parameters of a body in its frame as its <inertial> states them; None where only a full reader knows them."""
    inertial = body.find("inertial")
    if inertial is None:
        return np.zeros(10) if body.find("geom") is None else None
    T = pose_by_quaternion(inertial)
    if T is None:
        return None
    mass = read_numbers(inertial, "mass", (0.0,))[0]
    return from_body(Body(mass, T.translation, T.rotation @ _inertia_tensor(inertial) @ T.rotation.T))


def pose_by_quaternion(element: Element) -> Transform | None:
    """Pose by pos and quat; None where another notation turns it."""
    q = np.array(read_numbers(element, "quat", (1.0, 0.0, 0.0, 0.0)))
    size = float(np.linalg.norm(q))
    if any(key in element.attrib for key in ("euler", "axisangle", "xyaxes", "zaxis")) or not size > 0.0:
        return None
    w, x, y, z = q / size
    R = np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip
    return Transform(R, np.array(read_numbers(element, "pos", (0.0, 0.0, 0.0))))


def _moving_bodies_with_shapes(body: Element, carrier: str, shaped: list[Element]) -> list[str]:
    """Names of moving bodies that have, or carry, a body with shapes in place of a stated inertia."""
    if body.find("joint") is not None:
        carrier = body.get("name", "")
    found = [carrier] if body in shaped else []
    return found + [
        name for child in body.findall("body") for name in _moving_bodies_with_shapes(child, carrier, shaped)
    ]


def _compile_inertias(path: Path, root: Element) -> dict[Element, tuple[Any, ...]] | Message:
    """Mass, centre, orientation and principal moments of every body by MuJoCo, or the reason why there are none."""
    if find_spec("mujoco") is None:
        return Message("needs_extra_package", "MuJoCo is not installed", "pip install mujoco")
    import mujoco  # noqa: F401  (before the fork)

    try:
        alone = _copy_with_massive_shapes(path, root)
        _, values = run_isolated(lambda: _compile_bodies(alone))
    except (DynidError, ParserDiedError) as error:
        return error.message
    except ParserFailedError as error:
        reason = str(error).strip().splitlines()[0]
        return Message("mujoco_cannot_load", "MuJoCo cannot load the file ({reason})", reason=reason)
    bodies = [body for world in root.findall("worldbody") for body in world.iter("body")]
    if len(bodies) != len(values[0]) - 1:
        return Message("mujoco_bodies_differ", "MuJoCo finds other bodies than are written in the file")
    return dict(zip(bodies, zip(*(x[1:] for x in values), strict=True), strict=True))


def _compile_bodies(alone: Element) -> tuple[None, list[Array]]:
    """Masses, centres, orientations and principal moments of MuJoCo's bodies; in a process of its own, for meshes."""
    model = compile_mjcf(alone)
    return None, [model.body_mass, model.body_ipos, model.body_iquat, model.body_inertia]


def compile_mjcf(root: Element) -> Any:
    """MuJoCo's model of a file; ValueError where it cannot load it."""
    from xml.etree.ElementTree import tostring

    import mujoco

    mujoco.set_mju_user_warning(lambda text: None)  # else it writes a MUJOCO_LOG.TXT wherever it is run
    try:
        return mujoco.MjModel.from_xml_string(tostring(root, encoding="unicode"))
    finally:
        mujoco.set_mju_user_warning(None)


def with_shapes_only(path: Path, root: Element) -> Element:
    """Copy of a file with bodies, joints and shapes only, whose meshes are in the folders of the robot."""
    alone = _copy_without_surroundings(root)
    compilers = alone.findall("compiler")
    _resolve_meshes(path, alone)
    for compiler in compilers:
        for key in ("discardvisual", "fusestatic", "inertiafromgeom"):
            compiler.attrib.pop(key, None)
    for world in alone.findall("worldbody"):
        for body in world.iter("body"):  # masses do not matter, and some are not stated
            for inertial in body.findall("inertial"):
                body.remove(inertial)
            SubElement(body, "inertial", {"pos": "0 0 0", "mass": "1", "diaginertia": "1 1 1"})
    return alone


def _copy_without_surroundings(root: Element) -> Element:
    """Copy of a file with bodies and their shapes only: no world, materials, lights, and no meshes that none uses."""
    alone = deepcopy(root)
    for world in alone.findall("worldbody"):
        for part in [part for part in world if part.tag not in ("body", "frame")]:
            world.remove(part)
    for part in [part for part in alone if part.tag not in ("compiler", "option", "default", "asset", "worldbody")]:
        alone.remove(part)
    for parent in list(alone.iter()):
        parent.attrib.pop("material", None)
        for part in [part for part in parent if part.tag in ("site", "camera", "light")]:
            parent.remove(part)
    used = {geom.get("mesh") for geom in alone.iter("geom")}
    for asset in alone.findall("asset"):
        for part in list(asset):
            if part.tag != "mesh" or (part.get("name") or Path(part.get("file", "")).stem) not in used:
                asset.remove(part)
    return alone


def _copy_with_massive_shapes(path: Path, root: Element) -> Element:
    """Copy of a file with only the shapes that have mass and their meshes: other files need not be there."""
    known = deepcopy(root)
    for world in known.findall("worldbody"):
        drop_shapes_of_known_inertia(known, world)
    alone = _copy_without_surroundings(known)
    for compiler in alone.findall("compiler"):
        compiler.attrib.pop("fusestatic", None)  # every body is asked for
    _resolve_meshes(path, alone)
    return alone


def _resolve_meshes(path: Path, alone: Element) -> None:
    """Replace the names of meshes by their files, in the folders of the robot only, as those of a URDF are."""
    compilers = alone.findall("compiler")
    folder = next((d for c in compilers if (d := c.get("meshdir") or c.get("assetdir"))), "")
    folders = MeshFolders.for_urdf(path, levels=LEVELS)
    for mesh in (mesh for asset in alone.findall("asset") for mesh in asset if mesh.get("file")):
        found = folders.find_mesh(str(Path(folder) / mesh.get("file", "")))
        check_mesh_file(found)
        mesh.attrib.setdefault("name", Path(mesh.get("file", "")).stem)
        mesh.set("file", str(found))
    for compiler in compilers:
        for key in ("meshdir", "assetdir", "strippath"):
            compiler.attrib.pop(key, None)


def _set_inertial(body: Element, values: tuple[Any, ...]) -> None:
    """Replace the <inertial> of a body."""
    for old in body.findall("inertial"):
        body.remove(old)
    mass, centre, orientation, moments = values
    words = {"pos": centre, "quat": orientation, "diaginertia": moments}
    written = {key: " ".join(repr(float(x)) for x in value) for key, value in words.items()}
    if mass > 0.0:
        SubElement(body, "inertial", {"mass": repr(float(mass)), **written})
    for geom in body.findall("geom"):
        body.remove(geom)
