"""The cell around a robot (floor, obstacles, tool, payload) as checked values, and the solids of the robot itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any
from xml.etree.ElementTree import tostring

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dynid.dynamics.kernels.links import link_poses
from dynid.errors import DynidError, ExcitationError, ParserDiedError, ParserFailedError
from dynid.messages import Message, Option
from dynid.robot.inertia import ROTOR, Body, from_body
from dynid.robot.io.meshes import LEVELS, MeshFolders, check_mesh_file, read_mesh_vertices
from dynid.robot.io.mjcf import MjcfShape, read_mjcf_shapes
from dynid.robot.io.toml_rows import describe_location
from dynid.robot.io.xml import read_xml
from dynid.robot.robot import Limits, Robot
from dynid.robot.transform import Array, freeze, rotation_from_rpy
from dynid.storage.files import read_toml, run_isolated

MOUNT = -1
"""Link of what does not move: the robot's mount, and the obstacles."""
FLOOR = "floor"
THICKNESS = 0.06
"""Radius of a link without geometry, as a share of the robot's reach."""
LARGEST_FILE, LARGEST_MESH, MOST_TRIANGLES = 2**20, 2**26, 200_000
FAR = 1000.0
"""Largest coordinate of a cell, m."""
URDF, MJCF, CAPSULES = "URDF", "MJCF", "capsules"
SIDES = 24
"""Sides of the prism around a cylinder."""


@dataclass(frozen=True, slots=True, eq=False)
class Solid:
    """Convex hull of points (V, 3) in the frame of a link, thickened by a radius (m).

    A `surface` stands still and is not a hull: its points are the corners of triangles, three after three.
    """

    name: str
    link: int
    points: Array
    radius: float = 0.0
    surface: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Plane:
    """Everything stays where normal . x >= offset; normal (3,) is a unit vector of frame 0."""

    name: str
    normal: Array
    offset: float
    is_workspace: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """What a motion has to keep away from, by `clearance` (m), and how fast the tool may go (m/s; None: any speed).

    attached: solids of tool and payload; bodies: what these add to links, by link; file: where it was read; warnings:
    what is odd about it.
    """

    planes: tuple[Plane, ...] = ()
    obstacles: tuple[Solid, ...] = ()
    attached: tuple[Solid, ...] = ()
    bodies: tuple[tuple[int, Body], ...] = ()
    clearance: float = 0.0
    tool_speed: float | None = None
    file: str = ""
    warnings: tuple[Message, ...] = ()

    @property
    def floor(self) -> float | None:
        """Height of the floor, where one is given."""
        return next((plane.offset for plane in self.planes if plane.name == FLOOR), None)

    def loaded_robot(self, robot: Robot) -> Robot:
        """Return the robot with the bodies of tool and payload on its links."""
        links = list(robot.links)
        for k, body in self.bodies:
            known = links[k].zero & {ROTOR}  # a symmetric link with a load is not symmetric
            links[k] = replace(links[k], inertia=freeze(links[k].inertia + from_body(body)), zero=known)
        return replace(robot, links=tuple(links)) if self.bodies else robot


# The file of a cell, as a person writes it.


Number = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-FAR, le=FAR)]
Size = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0.0, le=FAR)]
Vector = Annotated[list[Number], Field(min_length=3, max_length=3)]
Name = Annotated[str, Field(max_length=80, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")]


class _Table(BaseModel):
    """A table that refuses keys it does not know."""

    model_config = ConfigDict(extra="forbid")


class _Placed(_Table):
    """Something with a pose; `rpy` turns about fixed x, y, z, in this order, in rad."""

    name: Name | None = None
    position: Vector = [0.0, 0.0, 0.0]
    rpy: Vector = [0.0, 0.0, 0.0]

    def transform(self, points: Array) -> Array:
        """Points (V, 3) of its own frame, where it stands."""
        return np.asarray(points @ rotation_from_rpy(*self.rpy).T + np.array(self.position))


class _Box(_Placed):
    """A box by its edges, m, centred at its position."""

    size: Annotated[list[Size], Field(min_length=3, max_length=3)]


class _Plane(_Table):
    """The robot stays where normal . x >= offset."""

    name: Name | None = None
    normal: Vector
    offset: Number = 0.0


class _Mesh(_Placed):
    """Triangles of an STL or OBJ file beside this one."""

    file: Annotated[str, Field(min_length=1, max_length=255)]
    scale: Size = 1.0


class _Workspace(_Table):
    """A box that nothing leaves."""

    lower: Vector
    upper: Vector


class _Attached(_Placed):
    """A tool or payload in the frame of a link, the last one where missing: a box, or a capsule along its z."""

    link: str | None = None
    size: Annotated[list[Size], Field(min_length=3, max_length=3)] | None = None
    radius: Size | None = None
    length: Annotated[float, Field(strict=True, ge=0.0, le=FAR)] = 0.0
    mass: Annotated[float, Field(strict=True, gt=0.0, le=1e5)] | None = None
    com: Vector | None = None


class _CellTable(_Table):
    """A whole file."""

    box: Annotated[list[_Box], Field(max_length=200)] = []
    plane: Annotated[list[_Plane], Field(max_length=100)] = []
    mesh: Annotated[list[_Mesh], Field(max_length=20)] = []
    workspace: _Workspace | None = None
    tool: _Attached | None = None
    payload: _Attached | None = None


def read_cell(
    robot: Robot,
    obstacles: Mapping[str, Any] | str | Path | None,
    *,
    floor: float | None = None,
    clearance: float = 0.0,
    tool_speed: float | None = None,
) -> Cell | None:
    """Read and check what a motion has to respect; None where nothing is given.

    obstacles: a TOML file, or a mapping of the same form; floor: height of a horizontal plane in frame 0 (m).
    """
    if obstacles is None and floor is None and tool_speed is None and clearance == 0.0:
        return None
    for name, value, low in (("floor", floor, -FAR), ("clearance", clearance, 0.0), ("tool_speed", tool_speed, 1e-6)):
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if value is not None and not (number and low <= value <= FAR):
            raise ExcitationError(
                "invalid_cell_option", "{option} must be {kind}, got {value!r}", option=Option(name), value=value,
                kind={"floor": "a height in m", "clearance": "a distance in m, 0 or more"}.get(name, "a speed in m/s"),
            )  # fmt: skip
    cell = Cell() if obstacles is None else _read_obstacles(robot, obstacles)
    if clearance > 0.0 and floor is None and not cell.planes and not cell.obstacles:
        raise ExcitationError(
            "option_not_applicable", "{option} needs something to keep away from:", "give {floor} or {obstacles}",
            option=Option("clearance", clearance), floor=Option("floor"), obstacles=Option("obstacles"),
        )  # fmt: skip
    below = () if floor is None else (Plane(FLOOR, np.array([0.0, 0.0, 1.0]), float(floor)),)
    speed = None if tool_speed is None else float(tool_speed)
    return replace(cell, planes=(*below, *cell.planes), clearance=float(clearance), tool_speed=speed)


def _read_obstacles(robot: Robot, source: Mapping[str, Any] | str | Path) -> Cell:
    """Cell of a TOML file or a mapping."""
    data, file, folder = source, "", Path()
    if not isinstance(source, Mapping):
        path = Path(source)
        file, folder = str(path), path.parent
        if path.is_file() and path.stat().st_size > LARGEST_FILE:
            raise ExcitationError("file_too_large", "{file}: larger than 1 MiB", file=file)
        data = read_toml(path)
    where = file or "obstacles"
    try:
        table = _CellTable.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise ExcitationError(
            "invalid_cell", "{file}: {place}: {reason}", file=where, place=describe_location(tuple(first["loc"])),
            reason=first["msg"][:1].lower() + first["msg"][1:],
        ) from error  # fmt: skip
    planes = [_read_plane(where, k, plane) for k, plane in enumerate(table.plane, 1)]
    if table.workspace is not None:
        planes += _workspace_planes(where, table.workspace)
    solids = [
        Solid(box.name or f"box {k}", MOUNT, box.transform(_box_corners(np.array(box.size))))
        for k, box in enumerate(table.box, 1)
    ]
    for k, mesh in enumerate(table.mesh, 1):
        corners = mesh.scale * _read_triangles(where, folder, mesh.file)
        solids.append(Solid(mesh.name or f"mesh {k}", MOUNT, mesh.transform(corners), surface=True))
    attached, bodies = [], []
    for kind, part in (("tool", table.tool), ("payload", table.payload)):
        if part is not None:
            solid, body = _read_attached(where, robot, kind, part)
            attached += [solid] if solid else []
            bodies += [body] if body else []
    warnings = () if planes or solids or attached or bodies else (Message(
        "empty_cell", "{file}: there is nothing in it: no obstacle is avoided",
        "describe them by [[box]], [[plane]], [[mesh]] or [workspace]", file=where,
    ),)  # fmt: skip
    return Cell(tuple(planes), tuple(solids), tuple(attached), tuple(bodies), file=file, warnings=warnings)


def _read_plane(file: str, k: int, table: _Plane) -> Plane:
    """Plane with a unit normal, which keeps its offset along it."""
    size = float(np.linalg.norm(table.normal))
    if size < 1e-6:
        raise ExcitationError("invalid_cell", "{file}: plane {k}: its normal is zero", file=file, k=k)
    return Plane(table.name or f"plane {k}", np.array(table.normal) / size, table.offset / size)


def _workspace_planes(file: str, table: _Workspace) -> list[Plane]:
    """Six planes around a box."""
    lower, upper = np.array(table.lower), np.array(table.upper)
    if not (lower < upper).all():
        raise ExcitationError("invalid_cell", "{file}: workspace: lower is not below upper", file=file)
    sides = [(axis, sign) for axis in range(3) for sign in (1.0, -1.0)]
    return [
        Plane(f"workspace {'xyz'[axis]} {'lower' if sign > 0 else 'upper'}", sign * np.eye(3)[axis],
              float(lower[axis] if sign > 0 else -upper[axis]), is_workspace=True)
        for axis, sign in sides
    ]  # fmt: skip


def _read_attached(file: str, robot: Robot, kind: str, table: _Attached) -> tuple[Solid | None, Any]:
    """Solid of a tool or payload (None without a size), and its body with its link (None without a mass)."""
    names = {link.name: k for k, link in enumerate(robot.links)} | {link.joint: k for k, link in enumerate(robot.links)}
    if table.link is not None and table.link not in names:
        raise ExcitationError(
            "unknown_link", "{file}: {kind}: there is no link '{link}'", "links are {links:20}", file=file, kind=kind,
            link=table.link, links=[link.name for link in robot.links],
        )  # fmt: skip
    k = last_link(robot) if table.link is None else names[table.link]
    if (table.size is not None and table.radius is not None) or (table.length > 0.0 and table.radius is None):
        raise ExcitationError(
            "invalid_cell", "{file}: {kind}: give a size (box), or a radius with a length (capsule along z)",
            file=file, kind=kind,
        )  # fmt: skip
    if table.size is None and table.radius is None and table.mass is None:
        raise ExcitationError(
            "invalid_cell", "{file}: {kind} is empty:", "give a size, a radius or a mass", file=file, kind=kind
        )
    if table.com is not None and table.mass is None:
        raise ExcitationError("invalid_cell", "{file}: {kind}: com needs a mass", file=file, kind=kind)
    local = _box_corners(np.array(table.size)) if table.size else np.outer([0.0, table.length], [0.0, 0.0, 1.0])
    points = table.transform(local if table.size or table.length else local[:1])
    solid = Solid(table.name or kind, k, points, table.radius or 0.0) if table.size or table.radius else None
    com = points.mean(axis=0) if table.com is None else np.array(table.com)
    return solid, None if table.mass is None else (k, Body(table.mass, com, np.zeros((3, 3))))


def last_link(robot: Robot) -> int:
    """Link that the most joints carry, the last of several, or what is fixed to it."""
    depth = {MOUNT: 0}
    for k in robot.topological_order:
        depth[k] = depth[robot.links[k].parent] + robot.links[k].moves
    most = max(depth.values())
    return max(k for k in depth if depth[k] == most)


def _read_triangles(file: str, folder: Path, name: str) -> Array:
    """Corners (3 T, 3) of the triangles of an STL or OBJ file in a folder or below it."""
    path = (folder / name).resolve()
    facts = {"file": file, "mesh": name}
    if not path.is_relative_to(folder.resolve()):
        raise ExcitationError("mesh_outside_folder", "{file}: mesh {mesh} is outside of its folder", **facts)
    if path.suffix.lower() not in (".stl", ".obj"):
        raise ExcitationError("unsupported_suffix", "{file}: mesh {mesh}: meshes are .stl or .obj", **facts)
    if not path.is_file():
        raise ExcitationError("file_not_found", "{file}: mesh {mesh}: there is no such file", **facts)
    if path.stat().st_size > LARGEST_MESH:
        raise ExcitationError("file_too_large", "{file}: mesh {mesh}: larger than 64 MiB", **facts)
    corners = read_mesh_vertices(path)
    if corners is not None and path.suffix.lower() == ".obj":
        corners = corners[_obj_faces(path, len(corners), facts)]
    if corners is None or not 0 < len(corners) <= 3 * MOST_TRIANGLES or len(corners) % 3:
        raise ExcitationError(
            "mesh_without_triangles", "{file}: mesh {mesh} needs 1 to {most} triangles", most=MOST_TRIANGLES, **facts
        )
    return corners


def _obj_faces(path: Path, count: int, facts: Mapping[str, str]) -> Array:
    """Indices (3 T,) of the triangles of an OBJ file; polygons become fans."""
    faces: list[int] = []
    try:
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            words = line.split()
            if words and words[0] == "f":
                numbers = [int(word.split("/")[0]) for word in words[1:]]
                at = [k - 1 if k > 0 else count + k for k in numbers]
                faces += [k for i in range(1, len(at) - 1) for k in (at[0], at[i], at[i + 1])]
    except ValueError as error:
        raise ExcitationError("mesh_unreadable", "{file}: mesh {mesh}: {reason}", reason=error, **facts) from error
    if any(not 0 <= k < count for k in faces):
        raise ExcitationError(
            "mesh_unreadable", "{file}: mesh {mesh}: a face refers to a vertex that does not exist", **facts
        )
    return np.array(faces, dtype=np.int64)


def _box_corners(size: Array) -> Array:
    """Corners (8, 3) of a box about the origin."""
    return np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)]) * size


# The robot's own solids: the shapes of its URDF or MJCF, or capsules along its skeleton.


@dataclass(frozen=True, slots=True, eq=False)
class RobotSolids:
    """Solids of a robot; kind: shapes of its URDF, of its MJCF, or CAPSULES along its skeleton.

    note: that they are capsules; unread: why the shapes of the robot's file could not be used, where it has some; bare:
    links that have none; around: how many shapes of an MJCF stand around the robot, which are not used.
    """

    solids: tuple[Solid, ...]
    kind: str
    note: Message | None = None
    unread: Message | None = None
    bare: tuple[str, ...] = ()
    around: int = 0


def read_collision_geometry(robot: Robot) -> tuple[tuple[Any, list[_UrdfShape]] | None, Message | None]:
    """Pinocchio's model and the shapes of a URDF; None, with a warning where there are some that cannot be read."""
    path = Path(robot.source)
    if path.suffix.lower() not in (".urdf", ".xacro") or not path.is_file():
        return None, None
    root = read_xml(path, "robot", "is this a URDF?", text=robot.description)
    meshes = [mesh for shape in root.iter("collision") for mesh in shape.iter("mesh")]
    if next(root.iter("collision"), None) is None:
        return None, None
    import coal  # type: ignore[import-untyped]  # noqa: F401  (before the fork)
    import pinocchio as pin

    folders = MeshFolders.for_urdf(path, levels=LEVELS, package_path=robot.package_path)
    files: dict[str, None] = {}
    remedy = ""
    try:
        for mesh in meshes:
            found = folders.find_mesh(mesh.get("filename", ""))
            check_mesh_file(found)
            files[found.name] = None
            mesh.set("filename", f"file://{found}")
        text = tostring(root, encoding="unicode")
        model = pin.buildModelFromXML(text)
        facts, points = run_isolated(lambda: _read_urdf_shapes(model, text))
    except ParserDiedError as error:
        subject = f"mesh {next(iter(files))}" if len(files) == 1 else f"one of {len(files)} meshes"
        reason: Message | str = error.message.about(subject) if files else error.message
    except ParserFailedError as error:
        lines = str(error).strip().splitlines()  # those of coal begin with a place in its source
        reason = next((line.removeprefix("message: ") for line in lines if line.startswith("message: ")), lines[0])
    except DynidError as error:
        reason, remedy = error.message, "name the folder of the meshes' package with {option}"
    except (ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[-1]
    else:
        shapes = [
            _UrdfShape(joint, np.reshape(pose, (4, 4)), x, radius)
            for (joint, pose, radius), x in zip(facts, points, strict=True)
        ]
        return (model, shapes), None
    return None, Message(
        "self_collision_not_checked", "self-collision was not checked: {reason}", remedy, reason=reason,
        option=Option("package_path"),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _UrdfShape:
    """A shape by the convex hull (N, 3) of its points and a radius, with its pose (4, 4) in the frame of a joint."""

    joint: int
    pose: Array
    points: Array
    radius: float


def _read_urdf_shapes(model: Any, text: str) -> tuple[list[tuple[int, list[float], float]], list[Array]]:
    """Joint, pose and radius of the shapes of a URDF, and their points.

    The parsers of meshes are compiled code that damaged files crash: this runs in a process of its own.
    """
    import pinocchio as pin

    facts, points = [], []
    for part in pin.buildGeomFromUrdfString(model, text, pin.GeometryType.COLLISION).geometryObjects:
        if (shape := _points_of_shape(part.geometry)) is not None:
            if not np.isfinite(shape[0]).all():
                raise ValueError("a shape has coordinates that are not finite")
            facts.append((int(part.parentJoint), part.placement.homogeneous.ravel().tolist(), shape[1]))
            points.append(shape[0])
    return facts, points


def robot_solids(robot: Robot, limits: Limits) -> RobotSolids:
    """Solids of a robot's links and mount."""
    is_mjcf, around = Path(robot.source).suffix.lower() == ".xml" and Path(robot.source).is_file(), 0
    if is_mjcf:
        solids, around, unread = _mjcf_solids(robot)
    else:
        read, unread = read_collision_geometry(robot)
        solids = () if read is None else _urdf_solids(robot, *read)
    if solids:
        covered = {solid.link for solid in solids}
        bare = tuple(link.name for k, link in enumerate(robot.links) if k not in covered and link.moves)
        return RobotSolids(solids, MJCF if is_mjcf else URDF, bare=bare, around=around)
    reach = _reach(robot, limits)
    why = "the robot has no collision geometry" if unread is None else "the robot's shapes cannot be read ({reason})"
    note = Message(
        "links_as_capsules", why + ": its links are taken as capsules of {radius:.0f} mm radius along the skeleton",
        "leave more clearance where they are thicker", radius=1000 * THICKNESS * reach,
        reason=None if unread is None else unread.facts["reason"],
    )  # fmt: skip
    return RobotSolids(
        tuple(_skeleton_capsules(robot, limits, THICKNESS * reach)), "capsules", note, unread, (), around
    )


def _mjcf_solids(robot: Robot) -> tuple[tuple[Solid, ...], int, Message | None]:
    """Convex hulls of an MJCF's shapes in the frames of the robot's links; how many shapes are not the robot's; reason.

    The reason is why none can be read, where that is so.

    Shapes that cannot touch others are for the eye only, and are used where a file has no others.
    """
    own = {robot.links[k].joint: k for k in robot.tree_joints}
    shapes, around, unread = read_mjcf_shapes(Path(robot.source), (*own, *robot.locks), robot.locks)
    if unread is not None:
        return (), around, Message(
            "self_collision_not_checked", "self-collision was not checked: {reason}", "{remedy}", reason=unread.what,
            remedy=unread.remedy,
        )  # fmt: skip
    poses = link_poses(robot, np.zeros((1, len(robot.tree_joints))))
    solids = []
    for shape in [shape for shape in shapes if shape.collides] or shapes:
        k = next((own[name] for name in shape.joints if name in own), MOUNT)
        points, radius = _points_of_mjcf_shape(shape)
        world = points @ shape.pose.rotation.T + shape.pose.translation
        inside = (world - poses.position[k][0]) @ poses.rotation[k][0]
        solids.append(Solid(robot.links[k].name if k != MOUNT else "mount", k, inside, radius))
    return tuple(solids), around, None


def _points_of_mjcf_shape(shape: MjcfShape) -> tuple[Array, float]:
    """Points and radius of a shape of an MJCF, in its own frame; a box stands around an ellipsoid."""
    size = shape.size
    match shape.kind:
        case "sphere":
            return np.zeros((1, 3)), float(size[0])
        case "capsule":
            return np.outer([-size[1], size[1]], np.eye(3)[2]), float(size[0])
        case "cylinder":
            return _prism_around_cylinder(float(size[0]), float(size[1])), 0.0
        case "mesh":
            return hull_points(shape.vertices), 0.0
    return _box_corners(2.0 * size), 0.0


def _urdf_solids(robot: Robot, model: Any, shapes: list[_UrdfShape]) -> tuple[Solid, ...]:
    """Convex hulls of collision geometry in the frames of the robot's links, found by the poses of both at zero."""
    import pinocchio as pin

    own = {robot.links[k].joint: k for k in robot.tree_joints}
    q, data = np.array(pin.neutral(model)), model.createData()
    for name, value in robot.locks.items():
        joint = model.joints[model.getJointId(name)]
        q[joint.idx_q : joint.idx_q + joint.nq] = (np.cos(value), np.sin(value)) if joint.nq == 2 else value
    pin.forwardKinematics(model, data, q)
    poses = link_poses(robot, np.zeros((1, len(robot.tree_joints))))
    solids = []
    for shape in shapes:
        carrier = shape.joint
        while carrier and model.names[carrier] not in own:
            carrier = model.parents[carrier]
        k = own[model.names[carrier]] if carrier else MOUNT
        T = data.oMi[shape.joint].homogeneous @ shape.pose
        world = shape.points @ T[:3, :3].T + T[:3, 3]
        inside = (world - poses.position[k][0]) @ poses.rotation[k][0]
        solids.append(Solid(robot.links[k].name if k != MOUNT else "mount", k, inside, shape.radius))
    return tuple(solids)


def _points_of_shape(shape: Any) -> tuple[Array, float] | None:
    """Points and radius of one of coal's shapes, in its own frame; prisms stand around cylinders and cones."""
    import coal

    match shape:
        case coal.Box():
            return _box_corners(2.0 * np.array(shape.halfSide)), 0.0
        case coal.Sphere():
            return np.zeros((1, 3)), float(shape.radius)
        case coal.Capsule():
            return np.array([[0.0, 0.0, -shape.halfLength], [0.0, 0.0, shape.halfLength]]), float(shape.radius)
        case coal.Cylinder() | coal.Cone():
            return _prism_around_cylinder(float(shape.radius), float(shape.halfLength)), 0.0
        case coal.ConvexBase():
            return hull_points(np.array(shape.points())), 0.0
        case coal.BVHModelBase():
            return hull_points(np.array(shape.vertices())), 0.0
    return None


def _prism_around_cylinder(radius: float, half: float) -> Array:
    """Corners (2 SIDES, 3) of a prism around a cylinder along z, of this half length."""
    angle = 2.0 * np.pi * np.arange(SIDES) / SIDES
    ring = radius / np.cos(np.pi / SIDES) * np.column_stack([np.cos(angle), np.sin(angle), 0.0 * angle])
    return np.concatenate([ring + z * np.eye(3)[2] for z in (-half, half)])


def hull_points(points: Array) -> Array:
    """Those of the points that their convex hull needs; corners of a box around flat ones."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        return np.array(points[ConvexHull(points).vertices])
    except (QhullError, ValueError):
        low, high = points.min(axis=0) - 5e-5, points.max(axis=0) + 5e-5
        return np.asarray(_box_corners(high - low) + 0.5 * (low + high))


def _reach(robot: Robot, limits: Limits) -> float:
    """Length of the longest chain of frames, slides drawn out (m)."""
    column = {robot.active_links[j]: j for j in range(robot.n)}
    length = {MOUNT: 0.0}
    for k in robot.topological_order:
        link = robot.links[k]
        drawn = np.abs(limits.position[column[k]]).max() if link.kind == "prismatic" and k in column else 0.0
        own = float(np.linalg.norm(link.placement.translation)) + (drawn if np.isfinite(drawn) else 0.0)
        length[k] = length[link.parent] + own
    return max(0.1, max(length.values()))


def _skeleton_capsules(robot: Robot, limits: Limits, radius: float) -> list[Solid]:
    """Capsules from the origin of each link to those that it carries; a slide has its stroke behind it."""
    column = {robot.active_links[j]: j for j in range(robot.n)}
    ends: dict[int, list[Array]] = {k: [] for k in range(MOUNT, len(robot.links))}
    for k, link in enumerate(robot.links):
        ends[link.parent].append(link.placement.translation)
        if link.kind == "prismatic" and k in column and np.isfinite(limits.position[column[k]]).all():
            ends[k].append(-link.axis * np.ptp(limits.position[column[k]]))
    for k, link in enumerate(robot.links):
        mass, moments = link.inertia[9], link.inertia[6:9]
        end = 2.0 * moments / mass if mass > 0.0 else moments  # the centre of mass is half-way
        if not ends[k] and np.linalg.norm(end) < 0.3 * radius / THICKNESS:
            ends[k].append(end)
    solids = []
    for k, far in ends.items():
        name = "mount" if k == MOUNT else robot.links[k].name
        bones = [np.array([np.zeros(3), end]) for end in far if np.linalg.norm(end) > 1e-6]
        solids += [Solid(name, k, points, radius) for points in bones or ([] if k == MOUNT else [np.zeros((1, 3))])]
    return solids
