"""What the user knows of the bodies beside the data, as linear rows on the parameters.

The bodies of a robot file are taken as it states them, before fixed joints merge them, with the moving link of each.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from dynid.errors import MeshRefusedError, PhysicalError, RobotFileError
from dynid.messages import Message
from dynid.physical.prior import is_massless, refuse_other_robot
from dynid.robot.inertia import SYMBOLS, pseudo_inertia
from dynid.robot.io.meshes import LEVELS, MeshFolders, read_mesh_vertices
from dynid.robot.io.mjcf_expansion import pose_by_quaternion, stated_inertia
from dynid.robot.io.urdf import link_inertia, locked_joint_motion, pose_from_origin
from dynid.robot.io.xml import file_and_line_text, read_numbers, read_xml
from dynid.robot.load import load_with_locks_of
from dynid.robot.robot import Robot
from dynid.robot.transform import Array, Transform

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


# A body as a robot file states it.


@dataclass(frozen=True, slots=True, eq=False)
class StatedBody:
    """Ten parameters in the frame of the body's own link; carrier: index of the moving link that has it (-1: the base).

    placement: T_carrier_link.
    """

    name: str
    inertia: Array
    carrier: int
    placement: Transform


# The bodies of an MJCF as their <inertial> states them: readers may clip negative masses and merge bodies.


_T = TypeVar("_T")
_CHANGING = ("inertiafromgeom", "boundmass", "boundinertia", "balanceinertia", "settotalmass")


class _UnsupportedMjcfError(Exception):
    """The file has something that only a full reader understands."""


def _require_readable(value: _T | None) -> _T:
    """Return the value; raise where it is None: the file states it in a way that is not read here."""
    if value is None:
        raise _UnsupportedMjcfError
    return value


def mjcf_bodies(path: Path, robot: Robot) -> list[StatedBody] | None:
    """Bodies below <worldbody> that the robot has; None where the file states them in ways not read here.

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
                    _collect_mjcf_bodies(body, -1, Transform.identity(), moving, found)
    except (_UnsupportedMjcfError, ValueError):
        return None
    return found


def _collect_mjcf_bodies(
    body: Element, carrier: int, T: Transform, moving: dict[str, int], found: list[StatedBody]
) -> None:
    """Append a <body> and those inside it; T: its pose in the link that carries it."""
    name = body.get("name", "")
    pose = _require_readable(pose_by_quaternion(body))
    if any(any(read_numbers(joint, "pos", (0.0, 0.0, 0.0))) for joint in body.findall("joint")):
        raise _UnsupportedMjcfError  # the link's frame is then the joint's
    carrier, T = (moving[name], Transform.identity()) if name in moving else (carrier, T @ pose)
    inertia = stated_inertia(body)
    if body.find("inertial") is not None or name in moving:
        found.append(StatedBody(name, _require_readable(inertia), carrier, T))
    else:
        _require_readable(inertia)
    for child in body.findall("body"):
        _collect_mjcf_bodies(child, carrier, T, moving, found)


def stated_bodies(source: str, robot: Robot) -> list[StatedBody]:
    """Bodies of a URDF or MJCF as written; those of other files as they were loaded."""
    if source.lower().endswith((".urdf", ".xacro")):
        return _urdf_bodies(Path(source), robot)
    if source.lower().endswith(".xml"):
        found = mjcf_bodies(Path(source), robot)
        if found is not None:
            return found
    still = Transform.identity()
    return [StatedBody(x.name, x.inertia, k, still) for k, x in enumerate(robot.links) if not is_massless(x)]


def _urdf_bodies(path: Path, robot: Robot) -> list[StatedBody]:
    """Bodies of all <link> elements, frames without a body left out."""
    bodies = []
    for element, carrier, T in urdf_links_with_carriers(path, robot):
        name = element.get("name", "")
        x = link_inertia(element)
        if not x.any() and (carrier < 0 or robot.links[carrier].name != name):
            continue  # a frame without a body, held by another link
        bodies.append(StatedBody(name, x, carrier, T))
    return bodies


def urdf_links_with_carriers(path: Path, robot: Robot) -> list[tuple[Element, int, Transform]]:
    """Every <link> of a URDF with the index of the moving link that has it (-1: the base), and T_carrier_link."""
    root = read_xml(path, "robot", "is this a URDF?", text=robot.description if str(path) == robot.source else "")
    moving = {link.name: k for k, link in enumerate(robot.links)}
    above = {_name_of_joint_link(joint, "child"): joint for joint in root.findall("joint")}
    found = []
    for element in root.findall("link"):
        T, place = Transform.identity(), element.get("name", "")
        while place not in moving and place in above:
            T = pose_from_origin(above[place]) @ locked_joint_motion(above[place], robot.locks) @ T
            place = _name_of_joint_link(above[place], "parent")
        found.append((element, moving.get(place, -1), T))
    return found


def _name_of_joint_link(joint: Element, tag: str) -> str:
    """Name of the link in a joint's <parent> or <child>, as the tag says."""
    element = joint.find(tag)
    return "" if element is None else element.get("link", "")


def read_attribute_numbers(
    path: Path, name: str, element: Element | None, key: str, default: tuple[float, ...]
) -> tuple[float, ...]:
    """Finite numbers of an attribute; RobotFileError names the link."""
    try:
        return read_numbers(element, key, default)
    except ValueError as error:
        raise RobotFileError(
            str(path), "values_not_numeric", "link '{link}': {reason}", link=name, reason=error,
        ) from error  # fmt: skip


Interval = tuple[float, float]


LIGHTEST, HEAVIEST = 1e-9, 1e9
"""Masses that can be asked for, kg; the solver of the cones loses its digits far beyond."""


@dataclass(frozen=True, slots=True, eq=False)
class Ellipsoid:
    """Solid ellipsoid in a link's frame: (x - c)' E^-1 (x - c) <= 1.

    Parameters
    ----------
    centre : (3,) array
        Centre c, m.
    shape : (3, 3) array
        Matrix E, m^2.
    """

    centre: Array
    shape: Array


@dataclass(frozen=True, slots=True, eq=False)
class BodyConstraints:
    """total_mass (kg) of all links; bounds (low, high) by parameter; centre (3, 2) by link: a box for the mass centre.

    within: an ellipsoid by link, in which all of its mass lies (needed for that, and enough for its centre: the mean of
    1 - (x - c)' shape^-1 (x - c) over the mass is not negative).
    """

    total_mass: float | None = None
    bounds: Mapping[str, Interval] = field(default_factory=dict)
    centre: Mapping[str, Sequence[Interval]] = field(default_factory=dict)
    within: Mapping[str, Ellipsoid] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class LinearRows:
    """matrix @ values == right, or <= right; labels say in words what each row asks for."""

    matrix: Array
    right: Array
    labels: tuple[str, ...]

    @staticmethod
    def from_rows(rows: list[tuple[Array, float, str]], width: int) -> LinearRows:
        """Stack single rows, each with its right side and label."""
        if not rows:
            return LinearRows(np.zeros((0, width)), np.zeros(0), ())
        return LinearRows(
            np.array([r for r, _, _ in rows]), np.array([b for _, b, _ in rows]), tuple(t for *_, t in rows)
        )

    def with_rows(self, other: LinearRows) -> LinearRows:
        """Return these rows with others below them."""
        matrix, right = np.concatenate([self.matrix, other.matrix]), np.concatenate([self.right, other.right])
        return LinearRows(matrix, right, (*self.labels, *other.labels))


def constraint_rows(robot: Robot, names: Sequence[str], demands: BodyConstraints) -> tuple[LinearRows, LinearRows]:
    """Rows of equations and inequalities on the parameters `names`: standard ones in order, then friction."""
    unit, place = np.eye(len(names)), {name: k for k, name in enumerate(names)}
    equal: list[tuple[Array, float, str]] = []
    below: list[tuple[Array, float, str]] = []
    for link in robot.links:
        for symbol in sorted(link.zero & {"XY", "XZ", "YZ", "MX", "MY", "MZ"}):
            if not is_massless(link):
                equal.append((unit[place[symbol + link.label]], 0.0, f"{symbol}{link.label} = 0 (known zero)"))
    if demands.total_mass is not None:
        mass = check_total_mass(demands.total_mass)
        total = np.sum([unit[place["M" + link.label]] for link in robot.links if not is_massless(link)], axis=0)
        equal.append((total, mass, f"total mass {mass:.6g} kg"))
    for name, interval in demands.bounds.items():
        low, high = _check_interval(f"the bounds of {name}", interval)
        row = unit[_parameter_index(name, place)]
        if low == high:
            equal.append((row, low, f"{name} = {low:.6g}"))
            continue
        if np.isfinite(high):
            below.append((row, high, f"{name} <= {high:.6g}"))
        if np.isfinite(low):
            below.append((-row, -low, f"{name} >= {low:.6g}"))
    for name, box in demands.centre.items():
        label = _label_of_link(robot, name)
        if len(box) != 3:
            raise PhysicalError(
                "bounds_malformed", "the box of the centre of mass of {link} needs (low, high) for x, y and z",
                link=name,
            )  # fmt: skip
        m = unit[place["M" + label]]
        for axis, interval in zip("XYZ", box, strict=True):
            low, high = _check_interval(f"the centre of mass of {name}, {axis.lower()}", interval)
            h, where = unit[place[f"M{axis}{label}"]], f"centre of mass of {name}: {axis.lower()}"
            if np.isfinite(high):
                below.append((h - high * m, 0.0, f"{where} <= {high:.6g} m"))
            if np.isfinite(low):
                below.append((low * m - h, 0.0, f"{where} >= {low:.6g} m"))
    for name, ellipsoid in demands.within.items():
        first = place[SYMBOLS[0] + _label_of_link(robot, name)]
        row = np.zeros(len(names))
        row[first : first + 10] = -_ellipsoid_row(name, ellipsoid)
        below.append((row, 0.0, f"the mass of {name} inside its ellipsoid"))
    return LinearRows.from_rows(equal, len(names)), LinearRows.from_rows(below, len(names))


def _ellipsoid_row(name: str, ellipsoid: Ellipsoid) -> Array:
    """Row on ten parameters: the integral over the mass of 1 - (x - c)' shape^-1 (x - c)."""
    c, shape = np.asarray(ellipsoid.centre, dtype=np.float64), np.asarray(ellipsoid.shape, dtype=np.float64)
    if c.shape != (3,) or shape.shape != (3, 3) or not np.isfinite(c).all() or not np.isfinite(shape).all():
        raise PhysicalError(
            "wrong_shape", "the ellipsoid of {link} needs a centre of 3 and a shape of 3 x 3 finite numbers", link=name,
        )  # fmt: skip
    if np.linalg.eigvalsh(0.5 * (shape + shape.T)).min() <= 0.0:
        raise PhysicalError(
            "ellipsoid_not_positive_definite", "the shape of the ellipsoid of {link} is not positive definite",
            link=name,
        )  # fmt: skip
    K = np.linalg.inv(0.5 * (shape + shape.T))
    Q = np.zeros((4, 4))
    Q[:3, :3], Q[:3, 3], Q[3, :3], Q[3, 3] = -K, K @ c, c @ K, 1.0 - c @ K @ c
    return np.array([float(np.sum(Q * pseudo_inertia(unit))) for unit in np.eye(10)])


def _label_of_link(robot: Robot, name: str) -> str:
    """Label of a link that the user names; PhysicalError if no link with mass has that name."""
    found = [link for link in robot.links if name in (link.name, link.joint)]
    if not found or is_massless(found[0]):
        raise PhysicalError(
            "unknown_link", "there is no link '{link}' with mass", "links are {links}", link=name,
            links=[x.name for x in robot.links],
        )  # fmt: skip
    return found[0].label


def _parameter_index(name: str, place: Mapping[str, int]) -> int:
    """Index of a parameter that the user names; PhysicalError if there is none."""
    if name not in place:
        near = difflib.get_close_matches(name, list(place), n=3) or list(place)[:8]
        raise PhysicalError(
            "unknown_parameter", "there is no parameter '{parameter}' here to be bounded", "near it are {near}",
            parameter=name, near=list(near),
        )  # fmt: skip
    return place[name]


def bounds_by_parameter(robot: Robot, bounds: Mapping[str, Interval]) -> dict[str, Interval]:
    """Bounds by the names of the robot's parameters: `M:elbow` may be `M2` there."""
    owned = {f"{name.symbol}:{owner}": name for name in robot.parameter_names for owner in (name.link, name.joint)}
    known = set(robot.parameter_names)
    return {name if name in known else owned.get(name, name): interval for name, interval in bounds.items()}


def _check_interval(what: str, interval: object) -> Interval:
    """Bounds (low, high) as numbers; PhysicalError if they are none or reversed."""
    try:
        low, high = (float(x) for x in interval)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        low = high = np.nan
    if np.isnan(low) or np.isnan(high):
        raise PhysicalError(
            "bounds_malformed", "{subject}: got {given}", "give two numbers (low, high)", subject=what,
            given=str(interval)[:60],
        )  # fmt: skip
    if low > high or low == np.inf or high == -np.inf:
        raise PhysicalError(
            "bounds_reversed", "{subject} contradict each other: {low:.6g} is above {high:.6g}", subject=what, low=low,
            high=high,
        )  # fmt: skip
    return low, high


def check_total_mass(value: object) -> float:
    """Total mass in kg; PhysicalError if it is not positive or that of no robot, in whatever unit."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = np.nan
    if not (np.isfinite(number) and number > 0.0):
        raise PhysicalError(
            "mass_not_positive", "the total mass must be a positive number of kg, got {given}", given=str(value)[:60]
        )
    if not LIGHTEST <= number <= HEAVIEST:
        what = "the total mass must be from {least:g} to {most:g} kg, got {given:g}"
        raise PhysicalError("mass_out_of_range", what, least=LIGHTEST, most=HEAVIEST, given=number)
    return number


# Ellipsoids around the shapes that a URDF gives its links: all mass of a link lies inside.
#
# Collision shapes are taken, visual ones where there are none: spheres, boxes, cylinders, and meshes as STL or OBJ.


ROUND = 32
"""Points on the rim of a cylinder."""


def link_ellipsoids(
    source: str | Path, robot: Robot, package_path: str | PathLike[str] | Sequence[str | PathLike[str]] = ()
) -> tuple[dict[str, Ellipsoid], tuple[Message, ...]]:
    """Smallest ellipsoid around the shapes of every link that has some, and notes on shapes that were not read."""
    path = Path(source)
    if path.suffix.lower() != ".urdf":
        raise PhysicalError("unsupported_suffix", "{path}: shapes of links are read from a .urdf file", path=path)
    drawn = load_with_locks_of(path, robot, package_path=package_path)
    refuse_other_robot(robot, drawn, "the geometry")
    folders = MeshFolders.for_urdf(path, levels=LEVELS, package_path=drawn.package_path)
    points: dict[int, list[Array]] = {}
    notes: list[Message] = []
    missing: set[int] = set()
    for element, carrier, T in urdf_links_with_carriers(path, robot):
        shapes = element.findall("collision") or element.findall("visual")
        for shape in shapes if carrier >= 0 else ():
            name = element.get("name", "")
            own = _points_of_shape(path, name, shape.find("geometry"), folders)
            if isinstance(own, str):
                notes.append(Message(
                    "link_shape_unusable", "link {link}: {reason}; its mass is not bounded by its shape", link=name,
                    reason=own,
                ))  # fmt: skip
                missing.add(carrier)
                continue
            try:
                placed = T @ pose_from_origin(shape)
            except ValueError as error:
                raise RobotFileError(
                    str(path), "values_not_numeric", "{place}link '{link}', {tag}: {reason}",
                    place=file_and_line_text(shape), link=name, tag=shape.tag, reason=error,
                ) from error  # fmt: skip
            points.setdefault(carrier, []).append(own @ placed.rotation.T + placed.translation)
    whole = {k: np.concatenate(some) for k, some in points.items() if k not in missing}
    if not whole and not notes:
        raise PhysicalError("robot_without_shapes", "{path}: no link has a <collision> or <visual> shape", path=path)
    return {robot.links[k].name: smallest_enclosing_ellipsoid(some) for k, some in whole.items()}, tuple(
        dict.fromkeys(notes)
    )


def smallest_enclosing_ellipsoid(points: Array) -> Ellipsoid:
    """Smallest ellipsoid around points (N, 3), by Khachiyan's iteration; it covers all of them."""
    some = points if len(points) <= 2000 else points[_extreme_point_indices(points)]
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


def _extreme_point_indices(points: Array) -> Array:
    """Indices of points that are farthest in one of many directions: those near the hull."""
    directions = np.random.default_rng(0).standard_normal((1000, 3))
    return np.unique((points @ directions.T).argmax(axis=0))


def _points_of_shape(path: Path, name: str, geometry: Element | None, folders: MeshFolders) -> Array | str:
    """Points (N, 3) whose hull holds a shape, or a text on why there are none."""
    for shape in geometry if geometry is not None else ():
        if shape.tag == "box":
            half = 0.5 * np.array(read_attribute_numbers(path, name, shape, "size", (0.0, 0.0, 0.0)))
            return np.asarray(half * np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, 8).T)
        if shape.tag in ("sphere", "cylinder"):
            r = read_attribute_numbers(path, name, shape, "radius", (0.0,))[0]
            angle = np.linspace(0.0, 2.0 * np.pi, ROUND, endpoint=False)
            rim = r / np.cos(np.pi / ROUND) * np.column_stack([np.cos(angle), np.sin(angle), 0.0 * angle])
            if shape.tag == "sphere":
                return np.concatenate([rim, rim[:, [1, 2, 0]], rim[:, [2, 0, 1]]])
            up = np.array([0.0, 0.0, 0.5 * read_attribute_numbers(path, name, shape, "length", (0.0,))[0]])
            return np.concatenate([rim + up, rim - up])
        if shape.tag == "mesh":
            try:
                file = folders.find_mesh(shape.get("filename", ""))
            except MeshRefusedError as error:
                return str(error)
            scale = np.array(read_attribute_numbers(path, name, shape, "scale", (1.0, 1.0, 1.0)))
            vertices = read_mesh_vertices(file)
            return f"the mesh {file.name} is neither STL nor OBJ" if vertices is None else scale * vertices
    return "its shape is of an unknown kind"
