"""The robot in viser's scene: one frame per link, which carries its shapes; moving it is setting their poses."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dynid.dynamics.kernels.links import link_poses
from dynid.errors import MeshRefusedError
from dynid.excitation.cell import MOUNT, Plane, Solid
from dynid.messages import Message
from dynid.robot.io.meshes import MeshFolders
from dynid.robot.io.urdf import locked_joint_motion, pose_from_origin
from dynid.robot.io.xml import read_numbers, read_xml
from dynid.robot.robot import Link, Robot
from dynid.robot.transform import Array, Transform

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from viser import ViserServer

# What is drawn of a robot without meshes: bones between the frames, a drum on every joint, its axis.


THIN = 0.012
"""Radius of a bone as a share of the robot's reach."""

SMALLEST = 0.1
"""Reach of a robot whose frames all coincide, m."""


@dataclass(frozen=True, slots=True, eq=False)
class Skeleton:
    """Segments (count, 2, 3) in m per link, in the link's own frame; -1 is the base.

    `bones` go from a frame to those that it carries, `axes` along the axis of its joint; `reach` is the length of the
    longest chain of frames.
    """

    bones: dict[int, Array]
    axes: dict[int, Array]
    reach: float

    @property
    def radius(self) -> float:
        """Radius of a bone in m."""
        return THIN * self.reach


def make_skeleton(robot: Robot, q: Array) -> Skeleton:
    """Build the bones of a robot; q (N, joints of the tree): positions to be shown, so that rails are long enough."""
    reach = _longest_chain_length(robot, q)
    column = {k: j for j, k in enumerate(robot.tree_joints)}
    bones: dict[int, list[Array]] = {k: [] for k in range(-1, len(robot.links))}
    axes: dict[int, list[Array]] = {k: [] for k in range(-1, len(robot.links))}
    for k, link in enumerate(robot.links):
        place = link.placement
        if np.linalg.norm(place.translation) > 1e-6 * reach:
            bones[link.parent].append(np.array([np.zeros(3), place.translation]))
        if link.kind == "prismatic":
            axis, shown = place.rotation @ link.axis, q[:, column[k]]
            ends = np.array([min(0.0, shown.min()), max(0.0, shown.max())])
            if np.ptp(ends) > 1e-6 * reach:
                bones[link.parent].append(place.translation + ends[:, None] * axis)
        if link.moves:
            axes[k].append(0.1 * reach * np.array([-link.axis, link.axis]))
    number = {link.joint: k for k, link in enumerate(robot.links)}
    for closure in robot.closures:
        for frame, point in zip(closure.links, closure.points, strict=True):
            if np.linalg.norm(point) > 1e-6 * reach:
                bones[number.get(frame, -1)].append(np.array([np.zeros(3), point]))
    carried = {link.parent for link in robot.links} | {k for k, parts in bones.items() if parts}
    for k, link in enumerate(robot.links):
        if k not in carried:
            bones[k].append(np.array([np.zeros(3), _end_of_last_link(link, reach)]))
    return Skeleton(_segments_by_link(bones), _segments_by_link(axes), reach)


def _longest_chain_length(robot: Robot, q: Array) -> float:
    """Length of the longest chain of frames, measured at a few of the positions, as slides change it."""
    few = q[np.unique(np.linspace(0, len(q) - 1, 20).astype(int))]
    position = link_poses(robot, few).position
    length = {-1: np.zeros(len(few))}
    for k in robot.topological_order:
        parent = robot.links[k].parent
        length[k] = length[parent] + np.linalg.norm(position[k] - position[parent], axis=1)
    return max(SMALLEST, float(max(values.max() for values in length.values())))


def _end_of_last_link(link: Link, reach: float) -> Array:
    """End of a last link: its centre of mass where that is known, else a stub that shows how it turns."""
    mass, moments = link.inertia[9], link.inertia[6:9]
    if np.isfinite(mass) and mass > 0.0 and np.isfinite(moments).all():
        centre = moments / mass
        if 0.03 * reach < np.linalg.norm(np.cross(link.axis, centre)) < reach:
            return np.asarray(centre)
    across = np.eye(3)[int(np.argmin(np.abs(link.axis)))]
    across = across - (across @ link.axis) * link.axis
    return np.asarray(0.12 * reach * across / np.linalg.norm(across))


def _segments_by_link(segments: dict[int, list[Array]]) -> dict[int, Array]:
    """Segments of each link as one array."""
    return {k: np.stack(parts) for k, parts in segments.items() if parts}


# Shapes of a URDF, each in the frame of the link of the robot that carries it.


KINDS = (".stl", ".obj", ".ply", ".glb", ".dae")
"""Mesh files that are read."""

OBSTACLE, LINK = (170, 120, 90), (191, 191, 199)
"""Colours of a cell's solids, and of links whose file names none."""

SHEER = 0.25
"""Opacity of planes, behind which a robot may stand."""

LARGEST = 100 * 1024 * 1024
"""Bytes of a mesh file; more is a mistake."""


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A triangle mesh in m, in the frame of a link (-1: the base); colour as red, green, blue from 0 to 255.

    opacity: from 0 to 1, None for a solid one.
    """

    link: int
    vertices: Array
    faces: Array
    colour: tuple[int, int, int]
    opacity: float | None = None


def shape_of_plane(plane: Plane, half: float) -> Shape:
    """Square of this half edge (m) of a plane, below the point of it that is nearest to the origin."""
    across = np.cross(plane.normal, np.eye(3)[int(np.argmin(np.abs(plane.normal)))])
    across = half * across / np.linalg.norm(across)
    other = np.cross(plane.normal, across)
    corners = plane.offset * plane.normal + np.array([across + other, other - across, -across - other, across - other])
    return Shape(MOUNT, corners, np.array([[0, 1, 2], [0, 2, 3]]), OBSTACLE, SHEER)


def shape_of_solid(solid: Solid, colour: tuple[int, int, int] = OBSTACLE) -> Shape:
    """Shape of a solid of a cell or robot: its triangles, or the hull of its points, thickened."""
    from trimesh import convex, creation

    if solid.surface:
        triangles: Any = np.arange(len(solid.points)).reshape(-1, 3)
        return Shape(solid.link, solid.points, triangles, colour)
    ball = creation.icosphere(subdivisions=1, radius=solid.radius).vertices if solid.radius else np.zeros((1, 3))
    hull: Any = convex.convex_hull((solid.points[:, None] + ball).reshape(-1, 3))
    return Shape(solid.link, np.asarray(hull.vertices), np.asarray(hull.faces), colour)


def read_shapes(urdf: Path, robot: Robot, lock: Mapping[str, float]) -> tuple[list[Shape], list[Message]]:
    """Read the visuals of a URDF: the shapes that can be drawn, and a note for each that cannot."""
    root = read_xml(urdf, "robot", "is this a URDF?", text=robot.description)
    folders = MeshFolders.for_urdf(urdf, package_path=robot.package_path)
    carriers = _find_carrying_links(root, robot, lock)
    shapes: list[Shape] = []
    notes: list[Message] = []
    for link in root.findall("link"):
        if link.get("name", "") not in carriers:
            continue
        carrier, T_carrier_link = carriers[link.get("name", "")]
        for visual in link.findall("visual"):
            try:
                vertices, faces = _read_geometry(visual.find("geometry"), folders)
                T = T_carrier_link @ _pose_matrix(pose_from_origin(visual))
                colour = _read_colour(visual.find("material"), root)
            except MeshRefusedError as error:
                notes.append(error.message)
                continue
            except ValueError as error:
                notes.append(Message(
                    "visual_unreadable", "visual of link '{link}': {reason}", link=link.get('name'), reason=error,
                ))  # fmt: skip
                continue
            shapes.append(Shape(carrier, vertices @ T[:3, :3].T + T[:3, 3], faces, colour))
    return shapes, list(dict.fromkeys(notes))


def _find_carrying_links(root: Element, robot: Robot, lock: Mapping[str, float]) -> dict[str, tuple[int, Array]]:
    """Robot's link that carries each link of the file (fixed ones were merged), and its pose there, by name."""
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
            T = T @ _pose_matrix(pose_from_origin(joints[name]) @ locked_joint_motion(joints[name], lock))
            found[name] = carrier, T
    return found


def _pose_matrix(T: Transform) -> Array:
    """Pose as a matrix (4, 4)."""
    return np.block([[T.rotation, T.translation[:, None]], [np.eye(4)[3:]]])


def _read_geometry(geometry: Element | None, folders: MeshFolders) -> tuple[Array, Array]:
    """Vertices and triangles of a <geometry>."""
    from trimesh import creation

    shape = None if geometry is None else next(iter(geometry), None)
    if shape is None:
        raise ValueError("it has no geometry")
    if shape.tag == "mesh":
        vertices, faces = _load_mesh(folders, shape.get("filename", ""))
        return vertices * np.array(read_numbers(shape, "scale", (1.0, 1.0, 1.0))), faces
    if shape.tag == "box":
        body: Any = creation.box(extents=_read_lengths(shape, "size", 3))
    elif shape.tag == "cylinder":
        body = creation.cylinder(
            radius=_read_lengths(shape, "radius", 1)[0], height=_read_lengths(shape, "length", 1)[0]
        )
    elif shape.tag == "sphere":
        body = creation.icosphere(subdivisions=2, radius=_read_lengths(shape, "radius", 1)[0])
    else:
        raise ValueError(f"<{shape.tag}> is not drawn; mesh, box, cylinder and sphere are")
    return np.asarray(body.vertices), np.asarray(body.faces)


def _read_lengths(shape: Element, key: str, count: int) -> tuple[float, ...]:
    """Positive lengths of a simple shape; ValueError for others."""
    sizes = read_numbers(shape, key, (math.nan,) * count)
    if not all(0.0 < size < math.inf for size in sizes):
        raise ValueError(f"<{shape.tag}> needs a positive {key}")
    return sizes


def _load_mesh(folders: MeshFolders, name: str) -> tuple[Array, Array]:
    """Vertices and triangles of a mesh file, from its bytes alone: textures and other files are not opened."""
    import trimesh

    path = folders.find_mesh(name)
    if path.suffix.lower() not in KINDS:
        raise MeshRefusedError("unsupported_suffix", "mesh {mesh}: meshes are {kinds}", mesh=name, kinds=KINDS)
    if path.stat().st_size > LARGEST:
        raise MeshRefusedError(
            "file_too_large", "mesh {mesh}: larger than {limit} MiB", mesh=name, limit=LARGEST // 2**20
        )
    try:
        if path.suffix.lower() == ".dae":
            _refuse_entities(path)
        body: Any = trimesh.load(io.BytesIO(path.read_bytes()), file_type=path.suffix.lower()[1:], force="mesh")
        vertices, faces = np.asarray(body.vertices, dtype=np.float64), np.asarray(body.faces)
    except ImportError as error:
        raise MeshRefusedError(
            "needs_extra_package", "mesh {mesh}: reading it needs another package ({reason})", mesh=name, reason=error
        ) from error
    except Exception as error:  # whatever a broken file makes the reader raise
        needs = ".dae needs pip install pycollada" if path.suffix.lower() == ".dae" else ""
        raise MeshRefusedError(
            "mesh_unreadable", "mesh {mesh}: cannot be read ({kind}: {reason})", needs, mesh=name,
            kind=type(error).__name__, reason=str(error),
        ) from error  # fmt: skip
    if not len(faces) or not np.isfinite(vertices).all():
        raise MeshRefusedError("mesh_without_triangles", "mesh {mesh}: there are no triangles in it", mesh=name)
    return vertices, faces


def _refuse_entities(path: Path) -> None:
    """Raise for a Collada file with document types or entities, which its reader would trust."""
    from defusedxml.ElementTree import parse

    parse(path, forbid_dtd=True)


def _read_colour(material: Element | None, root: Element) -> tuple[int, int, int]:
    """Colour of a <material>, by name where it is defined at the file's top."""
    if material is not None and material.find("color") is None:
        named = [m for m in root.findall("material") if m.get("name") == material.get("name")]
        material = named[0] if named else None
    color = None if material is None else material.find("color")
    rgba = read_numbers(color, "rgba", (0.75, 0.75, 0.78, 1.0))
    red, green, blue = (round(255 * min(max(x, 0.0), 1.0)) for x in rgba[:3])
    return red, green, blue


BONE, DRUM, AXIS = (70, 110, 170), (235, 140, 40), (200, 40, 40)
"""Colours: steel blue bones, orange joints, red axes."""

SMALL_RESIDUAL, LARGE_RESIDUAL, PATH = (86, 180, 233), (213, 94, 0), (0, 158, 115)
"""Colours of joints by their residual, sky blue to vermilion, and green of the tool's path; told apart by all."""


def residual_colour(size: float) -> tuple[int, int, int]:
    """Colour of a joint whose residual is `size` times its usual one: from 0 to three times; grey where not known."""
    if not math.isfinite(size):
        return (150, 150, 150)
    share = min(abs(size) / 3.0, 1.0)
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(SMALL_RESIDUAL, LARGE_RESIDUAL, strict=True))
    return red, green, blue


def find_tool_link(robot: Robot) -> int:
    """Link at the end of the longest chain: what carries the tool."""
    depth = {-1: 0}
    for k in robot.topological_order:
        depth[k] = depth[robot.links[k].parent] + 1
    return max(depth, key=lambda k: (depth[k], k))


class Scene:
    """A robot drawn by a viser server; `show_position` puts it into a position.

    floor: its height in frame 0, m; without one the floor is drawn through the origin.
    """

    def __init__(
        self,
        server: ViserServer,
        robot: Robot,
        skeleton: Skeleton,
        shapes: Sequence[Shape],
        *,
        floor: float | None = None,
    ) -> None:
        self._server, self._robot, self._skeleton = server, robot, skeleton
        self._drums: dict[int, Any] = {}
        self._labels: dict[int, Any] = {}
        self._path: Any = None
        self._bones: list[Any] = []
        self._shapes: list[Any] = []
        self._frames: dict[int, Any] = {}
        self._add_floor_and_camera(skeleton.reach, floor)
        covered = {shape.link for shape in shapes if shape.colour != OBSTACLE}
        for k in range(-1, len(robot.links)):
            self._frames[k] = server.scene.add_frame(
                f"/robot/{k}", axes_length=0.08 * skeleton.reach, axes_radius=0.004 * skeleton.reach,
                origin_radius=0.006 * skeleton.reach,
            )  # fmt: skip
            self._draw_bones(k, skeleton, visible=k not in covered)
        for number, shape in enumerate(shapes):
            self._shapes.append(
                server.scene.add_mesh_simple(
                    f"/robot/{shape.link}/shape{number}",
                    shape.vertices.astype(np.float32),
                    shape.faces.astype(np.uint32),
                    color=shape.colour,
                    opacity=shape.opacity,
                    flat_shading=True,
                    side="double",
                )
            )
        self.has_shapes = bool(self._shapes)
        self.shows_skeleton = not covered

    def show_position(self, q: Array) -> None:
        """Move the drawn robot to a position, q (1, joints of the tree)."""
        from scipy.spatial.transform import Rotation

        poses = link_poses(self._robot, q)
        with self._server.atomic():
            for k, frame in self._frames.items():
                rotation = poses.rotation[k][0].copy()  # scipy 1.14 takes none that is read-only
                x, y, z, w = Rotation.from_matrix(rotation).as_quat()
                frame.wxyz, frame.position = (w, x, y, z), poses.position[k][0]

    def draw_tool_path(self, q: Array) -> None:
        """Draw the way of the last link's end along positions q (N, joints of the tree)."""
        k = find_tool_link(self._robot)
        poses = link_poses(self._robot, q)
        last = self._skeleton.bones.get(k)
        end = np.zeros(3) if last is None or not len(last) else last[0][1]
        points = poses.position[k] + poses.rotation[k] @ end
        segments = np.stack([points[:-1], points[1:]], axis=1).astype(np.float32)
        self._path = self._server.scene.add_line_segments(
            "/path", segments, np.array(PATH, dtype=np.uint8), thickness=0.3 * self._skeleton.radius
        )

    def show_tool_path(self, visible: bool) -> None:
        """Show or hide the way of the tool."""
        if self._path is not None:
            self._path.visible = visible

    def colour_joints(self, sizes: Mapping[int, float]) -> None:
        """Colour the drums of joints by residuals in terms of their usual ones, by link; they are always shown."""
        for k, size in sizes.items():
            if k in self._drums and self._drums[k].color != residual_colour(size):
                self._drums[k].color = residual_colour(size)
            if k in self._drums and not self._drums[k].visible:
                self._drums[k].visible = True

    def mark_limits(self, texts: Mapping[int, str]) -> None:
        """Write texts beside the joints of some links, and nothing beside all others."""
        for k in {*self._labels, *texts}:
            if k not in self._labels:
                self._labels[k] = self._server.scene.add_label(f"/robot/{k}/limit", texts[k])
            self._labels[k].visible = k in texts
            if k in texts and self._labels[k].text != texts[k]:
                self._labels[k].text = texts[k]

    def show_skeleton(self, visible: bool) -> None:
        """Show or hide the bones and joint axes."""
        for handle in self._bones:
            handle.visible = visible

    def show_meshes(self, visible: bool) -> None:
        """Show or hide the meshes and shapes of the URDF."""
        for handle in self._shapes:
            handle.visible = visible

    def show_frames(self, visible: bool) -> None:
        """Show or hide the axes x, y, z of the links' frames."""
        for frame in self._frames.values():
            frame.show_axes = visible

    def _add_floor_and_camera(self, reach: float, floor: float | None) -> None:
        """Add the floor with its height, set the up direction and the camera."""
        scene, gravity = self._server.scene, self._robot.gravity
        size = float(np.linalg.norm(gravity))
        up = -gravity / size if size > 0.0 else np.array([0.0, 0.0, 1.0])
        scene.set_up_direction((float(up[0]), float(up[1]), float(up[2])))
        planes: tuple[Literal["yz", "xz", "xy"], ...] = ("yz", "xz", "xy")
        plane = planes[int(np.argmax(np.abs(up)))]
        cell = 10.0 ** np.floor(np.log10(reach))
        plane = plane if floor is None else "xy"  # a floor that is given is horizontal in frame 0
        scene.add_grid(
            "/floor", 4.0 * reach, 4.0 * reach, plane=plane, cell_size=cell / 5.0, section_size=cell,
            position=(0.0, 0.0, 0.0 if floor is None else floor),
        )  # fmt: skip
        if floor is not None:
            scene.add_label("/floor/height", f"floor at {floor:g} m", position=(0.5 * reach, 0.0, 0.0))
        across = np.roll(np.abs(up), 1)
        sideways = np.cross(up, across)
        camera = self._server.initial_camera
        camera.up = up
        camera.look_at = 0.3 * reach * up
        camera.position = reach * (1.0 * across + 0.7 * sideways + 0.6 * up)

    def _draw_bones(self, k: int, skeleton: Skeleton, *, visible: bool) -> None:
        """Draw the bones of a link, and its joint's axis."""
        scene, radius = self._server.scene, skeleton.radius
        for number, (start, end) in enumerate(skeleton.bones.get(k, ())):
            self._bones.append(self._add_rod(f"/robot/{k}/bone{number}", start, end, radius, BONE, visible))
        if k not in skeleton.axes:
            return
        axis = skeleton.axes[k]
        direction = (axis[0, 1] - axis[0, 0]) / np.linalg.norm(axis[0, 1] - axis[0, 0])
        drum = 2.5 * radius * direction
        self._drums[k] = self._add_rod(f"/robot/{k}/joint", -drum, drum, 2.0 * radius, DRUM, visible)
        self._bones.append(self._drums[k])
        self._bones.append(
            scene.add_line_segments(
                f"/robot/{k}/axis",
                axis.astype(np.float32),
                np.array(AXIS, dtype=np.uint8),
                thickness=0.35 * radius,
                visible=visible,
            )
        )

    def _add_rod(
        self, name: str, start: Array, end: Array, radius: float, colour: tuple[int, int, int], seen: bool
    ) -> Any:
        """Draw a cylinder between two points."""
        from trimesh import creation

        body: Any = creation.cylinder(radius=radius, segment=np.array([start, end]), sections=24)
        return self._server.scene.add_mesh_simple(
            name, np.asarray(body.vertices, dtype=np.float32), np.asarray(body.faces, dtype=np.uint32),
            color=colour, visible=seen,
        )  # fmt: skip
