"""Ellipsoids around the shapes that a URDF gives its links: all mass of a link lies inside.

Collision shapes are taken, visual ones where there are none: spheres, boxes, cylinders, and meshes as STL or OBJ.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dynid.errors import PhysicalError, RobotFileError
from dynid.physical.bodies import carried_links, numbers_of
from dynid.physical.demands import Ellipsoid
from dynid.physical.prior import refuse_other_robot
from dynid.robot.load import load_robot
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.robot.urdf import pose_of
from dynid.robot.xml import place_of

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

LARGEST_MESH = 256 * 1024 * 1024
ROUND = 32
"""Points on the rim of a cylinder."""


def link_ellipsoids(source: str | Path, robot: Robot) -> tuple[dict[str, Ellipsoid], tuple[str, ...]]:
    """Smallest ellipsoid around the shapes of every link that has some, and notes on shapes that were not read."""
    path = Path(source)
    if path.suffix.lower() != ".urdf":
        raise PhysicalError(f"{path}: shapes of links are read from a .urdf file")
    refuse_other_robot(robot, load_robot(path), "the geometry")
    points: dict[int, list[Array]] = {}
    notes: list[str] = []
    missing: set[int] = set()
    for element, carrier, T in carried_links(path, robot):
        shapes = element.findall("collision") or element.findall("visual")
        for shape in shapes if carrier >= 0 else ():
            name = element.get("name", "")
            own, problem = _points(path, name, shape.find("geometry"))
            if own is None:
                notes.append(f"link {name}: {problem}; its mass is not bounded by its shape")
                missing.add(carrier)
                continue
            try:
                placed = T @ pose_of(shape)
            except ValueError as error:
                raise RobotFileError(str(path), [f"{place_of(shape)}link '{name}', {shape.tag}: {error}"]) from error
            points.setdefault(carrier, []).append(own @ placed.rotation.T + placed.translation)
    whole = {k: np.concatenate(some) for k, some in points.items() if k not in missing}
    if not whole and not notes:
        raise PhysicalError(f"{path}: no link has a <collision> or <visual> shape")
    return {robot.links[k].name: around(some) for k, some in whole.items()}, tuple(dict.fromkeys(notes))


def around(points: Array) -> Ellipsoid:
    """Smallest ellipsoid around points (N, 3), by Khachiyan's iteration; it covers all of them."""
    some = points if len(points) <= 2000 else points[_extreme(points)]
    N, d = len(some), 3
    Q, u = np.column_stack([some, np.ones(N)]).T, np.full(N, 1.0 / N)
    for _ in range(2000):
        M = (Q * u) @ Q.T
        far = np.einsum("iN,ij,jN->N", Q, np.linalg.pinv(M, hermitian=True), Q)
        k = int(np.argmax(far))
        if far[k] < (d + 1) * (1.0 + 1e-3):
            break
        step = (far[k] - d - 1.0) / ((d + 1.0) * (far[k] - 1.0))
        u *= 1.0 - step
        u[k] += step
    centre = some.T @ u
    shape = d * ((some.T * u) @ some - np.outer(centre, centre))
    size = max(float(np.trace(shape)), 1e-12)
    shape += 1e-6 * size * np.eye(3)  # flat shapes have some thickness
    away = points - centre
    reach = float(np.einsum("Ni,ij,Nj->N", away, np.linalg.inv(shape), away).max())
    return Ellipsoid(centre, shape * max(reach, 1e-12))


def _extreme(points: Array) -> Array:
    """Indices of points that are farthest in many directions: those of the hull matter."""
    directions = np.random.default_rng(0).standard_normal((1000, 3))
    return np.unique((points @ directions.T).argmax(axis=0))


def _points(path: Path, name: str, geometry: Element | None) -> tuple[Array | None, str]:
    """Points (N, 3) whose hull holds a shape, or why there are none."""
    for shape in geometry if geometry is not None else ():
        if shape.tag == "box":
            half = 0.5 * np.array(numbers_of(path, name, shape, "size", (0.0, 0.0, 0.0)))
            return half * np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, 8).T, ""
        if shape.tag in ("sphere", "cylinder"):
            r = numbers_of(path, name, shape, "radius", (0.0,))[0]
            angle = np.linspace(0.0, 2.0 * np.pi, ROUND, endpoint=False)
            rim = r / np.cos(np.pi / ROUND) * np.column_stack([np.cos(angle), np.sin(angle), 0.0 * angle])
            if shape.tag == "sphere":
                return np.concatenate([rim, rim[:, [1, 2, 0]], rim[:, [2, 0, 1]]]), ""
            up = np.array([0.0, 0.0, 0.5 * numbers_of(path, name, shape, "length", (0.0,))[0]])
            return np.concatenate([rim + up, rim - up]), ""
        if shape.tag == "mesh":
            file = _find(path, shape.get("filename", ""))
            if file is None:
                return None, f"the mesh '{shape.get('filename', '')[:80]}' is not there"
            scale = np.array(numbers_of(path, name, shape, "scale", (1.0, 1.0, 1.0)))
            vertices = read_vertices(file)
            return (
                (None, f"the mesh {file.name} is neither STL nor OBJ") if vertices is None else (scale * vertices, "")
            )
    return None, "its shape is of an unknown kind"


def _find(path: Path, name: str) -> Path | None:
    """A mesh file beside the URDF or beside one of the folders above it; `package://` names one of these."""
    inside = name.removeprefix("file://").removeprefix("package://")
    for folder in list(path.resolve().parents)[:5]:
        for tried in (inside, inside.partition("/")[2]) if name.startswith("package://") else (inside,):
            if tried and (folder / tried).is_file():
                return folder / tried
    return None


def read_vertices(file: Path) -> Array | None:
    """Vertices (N, 3) of an STL or OBJ file, None where it is neither."""
    if file.stat().st_size > LARGEST_MESH:
        raise PhysicalError(f"{file}: larger than 256 MiB")
    raw = file.read_bytes()
    if file.suffix.lower() == ".stl":
        count = int.from_bytes(raw[80:84], "little") if len(raw) >= 84 else -1
        if count > 0 and len(raw) == 84 + 50 * count:
            facets = np.frombuffer(raw, dtype=np.uint8, offset=84).reshape(count, 50)[:, 12:48]
            return _checked(file, np.ascontiguousarray(facets).view("<f4").reshape(-1, 3).astype(np.float64))
        word = "vertex"
    elif file.suffix.lower() == ".obj":
        word = "v"
    else:
        return None
    lines = (line.split() for line in raw.decode("utf-8", "replace").splitlines())
    try:
        return _checked(file, np.array([[float(x) for x in line[1:4]] for line in lines if line and line[0] == word]))
    except ValueError as error:
        raise PhysicalError(f"{file}: a vertex is not three numbers") from error


def _checked(file: Path, vertices: Array) -> Array:
    if vertices.ndim != 2 or vertices.shape[1] != 3 or not np.isfinite(vertices).all():
        raise PhysicalError(f"{file}: this mesh has no vertices of three finite numbers")
    return vertices
