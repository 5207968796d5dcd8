"""Shapes of a URDF, each in the frame of the link of the robot that carries it."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.robot.xml import numbers, read_xml
from dynid.view.mesh_paths import MeshFolders, MeshRefusedError

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A triangle mesh in m, in the frame of a link (-1: the base); colour as red, green, blue from 0 to 255."""

    link: int
    vertices: Array
    faces: Array
    colour: tuple[int, int, int]


def read_shapes(urdf: Path, robot: Robot, lock: Mapping[str, float]) -> tuple[list[Shape], list[str]]:
    """Read the visuals of a URDF: the shapes that can be drawn, and a note for each that cannot."""
    root = read_xml(urdf, "robot", "is this a URDF?")
    folders = MeshFolders.of(urdf)
    carriers = _carriers(root, robot, lock)
    shapes: list[Shape] = []
    notes: list[str] = []
    for link in root.findall("link"):
        if link.get("name", "") not in carriers:
            continue
        carrier, T_carrier_link = carriers[link.get("name", "")]
        for visual in link.findall("visual"):
            try:
                vertices, faces = _geometry(visual.find("geometry"), folders)
                T = T_carrier_link @ _pose(visual.find("origin"))
                colour = _colour(visual.find("material"), root)
            except MeshRefusedError as error:
                notes.append(str(error))
                continue
            except ValueError as error:
                notes.append(f"visual of link '{link.get('name')}': {error}")
                continue
            shapes.append(Shape(carrier, vertices @ T[:3, :3].T + T[:3, 3], faces, colour))
    return shapes, list(dict.fromkeys(notes))


def _carriers(root: Element, robot: Robot, lock: Mapping[str, float]) -> dict[str, tuple[int, Array]]:
    """Of every link of the file: the robot's link that carries it (fixed ones were merged), and its pose there."""
    own = {link.name: k for k, link in enumerate(robot.links)}
    joints = {joint.find("child").get("link", ""): joint for joint in root.findall("joint")}  # type: ignore[union-attr]
    found: dict[str, tuple[int, Array]] = {}

    for link in root.findall("link"):
        way = [link.get("name", "")]
        while way[-1] not in found and way[-1] not in own and way[-1] in joints:
            way.append(joints[way[-1]].find("parent").get("link", ""))  # type: ignore[union-attr]
        first = way.pop()
        carrier, T = found.setdefault(first, (own.get(first, -1), np.eye(4)))
        for name in reversed(way):
            T = T @ _pose(joints[name].find("origin")) @ _held(joints[name], lock)
            found[name] = carrier, T
    return found


def _held(joint: Element, lock: Mapping[str, float]) -> Array:
    """Motion of a joint that is held at a position."""
    T, q = np.eye(4), lock.get(joint.get("name", ""), 0.0)
    if q == 0.0 or joint.get("type") == "fixed":
        return T
    axis = np.array(numbers(joint.find("axis"), "xyz", (1.0, 0.0, 0.0)))
    axis = axis / np.linalg.norm(axis)
    if joint.get("type") == "prismatic":
        T[:3, 3] = q * axis
    else:
        from scipy.spatial.transform import Rotation

        T[:3, :3] = Rotation.from_rotvec(q * axis).as_matrix()
    return T


def _pose(origin: Element | None) -> Array:
    """Pose of an <origin>: roll, pitch, yaw about fixed axes."""
    x, y, z = numbers(origin, "xyz", (0.0, 0.0, 0.0))
    r, p, w = numbers(origin, "rpy", (0.0, 0.0, 0.0))
    cr, sr, cp, sp, cw, sw = (f(angle) for angle in (r, p, w) for f in (math.cos, math.sin))
    return np.array(
        [
            [cw * cp, cw * sp * sr - sw * cr, cw * sp * cr + sw * sr, x],
            [sw * cp, sw * sp * sr + cw * cr, sw * sp * cr - cw * sr, y],
            [-sp, cp * sr, cp * cr, z],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )


def _geometry(geometry: Element | None, folders: MeshFolders) -> tuple[Array, Array]:
    from trimesh import creation

    shape = None if geometry is None else next(iter(geometry), None)
    if shape is None:
        raise ValueError("it has no geometry")
    if shape.tag == "mesh":
        vertices, faces = _load(folders, shape.get("filename", ""))
        return vertices * np.array(numbers(shape, "scale", (1.0, 1.0, 1.0))), faces
    if shape.tag == "box":
        body: Any = creation.box(extents=_sizes(shape, "size", 3))
    elif shape.tag == "cylinder":
        body = creation.cylinder(radius=_sizes(shape, "radius", 1)[0], height=_sizes(shape, "length", 1)[0])
    elif shape.tag == "sphere":
        body = creation.icosphere(subdivisions=2, radius=_sizes(shape, "radius", 1)[0])
    else:
        raise ValueError(f"<{shape.tag}> is not drawn; mesh, box, cylinder and sphere are")
    return np.asarray(body.vertices), np.asarray(body.faces)


def _sizes(shape: Element, key: str, count: int) -> tuple[float, ...]:
    """Positive lengths of a simple shape."""
    sizes = numbers(shape, key, (math.nan,) * count)
    if not all(0.0 < size < math.inf for size in sizes):
        raise ValueError(f"<{shape.tag}> needs a positive {key}")
    return sizes


def _load(folders: MeshFolders, name: str) -> tuple[Array, Array]:
    """Triangles of a mesh file, read from its bytes alone: textures and other files that it names are not opened."""
    import trimesh

    path = folders.find(name)
    try:
        if path.suffix.lower() == ".dae":
            _refuse_entities(path)
        body: Any = trimesh.load(io.BytesIO(path.read_bytes()), file_type=path.suffix.lower()[1:], force="mesh")
        vertices, faces = np.asarray(body.vertices, dtype=np.float64), np.asarray(body.faces)
    except ImportError as error:
        raise MeshRefusedError(f"mesh {name}: reading it needs another package ({error})") from error
    except Exception as error:  # whatever a broken file makes the reader raise
        needs = "; .dae needs pip install pycollada" if path.suffix.lower() == ".dae" else ""
        raise MeshRefusedError(f"mesh {name}: cannot be read ({type(error).__name__}: {error}){needs}") from error
    if not len(faces) or not np.isfinite(vertices).all():
        raise MeshRefusedError(f"mesh {name}: there are no triangles in it")
    return vertices, faces


def _refuse_entities(path: Path) -> None:
    """Collada is XML, and its reader trusts it: look for document types and entities before."""
    from defusedxml.ElementTree import parse

    parse(path, forbid_dtd=True)


def _colour(material: Element | None, root: Element) -> tuple[int, int, int]:
    if material is not None and material.find("color") is None:
        named = [m for m in root.findall("material") if m.get("name") == material.get("name")]
        material = named[0] if named else None
    color = None if material is None else material.find("color")
    rgba = numbers(color, "rgba", (0.75, 0.75, 0.78, 1.0))
    red, green, blue = (round(255 * min(max(x, 0.0), 1.0)) for x in rgba[:3])
    return red, green, blue
