"""The robot in viser's scene: one frame per link, which carries its shapes; moving it is setting their poses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dynid.kernel.poses import link_poses
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.view.skeleton import Skeleton
from dynid.view.visuals import Shape

if TYPE_CHECKING:
    from viser import ViserServer

BONE, DRUM, AXIS = (70, 110, 170), (235, 140, 40), (200, 40, 40)
"""Colours: steel blue bones, orange joints, red axes."""


class Scene:
    """A robot drawn by a viser server; `show` puts it into a position."""

    def __init__(self, server: ViserServer, robot: Robot, skeleton: Skeleton, shapes: Sequence[Shape]) -> None:
        self._server, self._robot = server, robot
        self._bones: list[Any] = []
        self._shapes: list[Any] = []
        self._frames: dict[int, Any] = {}
        self._prepare(skeleton.reach)
        covered = {shape.link for shape in shapes}
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
                    flat_shading=True,
                    side="double",
                )
            )
        self.has_shapes = bool(self._shapes)

    def show(self, q: Array) -> None:
        """Put the robot into a position, q (1, joints of the tree)."""
        from scipy.spatial.transform import Rotation

        poses = link_poses(self._robot, q)
        with self._server.atomic():
            for k, frame in self._frames.items():
                x, y, z, w = Rotation.from_matrix(poses.rotation[k][0]).as_quat()
                frame.wxyz, frame.position = (w, x, y, z), poses.position[k][0]

    def show_skeleton(self, visible: bool) -> None:
        """Show or hide the bones and joint axes."""
        for handle in self._bones:
            handle.visible = visible

    def show_meshes(self, visible: bool) -> None:
        """Show or hide what the URDF draws."""
        for handle in self._shapes:
            handle.visible = visible

    def show_frames(self, visible: bool) -> None:
        """Show or hide the axes x, y, z of the links' frames."""
        for frame in self._frames.values():
            frame.show_axes = visible

    def _prepare(self, reach: float) -> None:
        """Floor, up direction and camera."""
        scene, gravity = self._server.scene, self._robot.gravity
        size = float(np.linalg.norm(gravity))
        up = -gravity / size if size > 0.0 else np.array([0.0, 0.0, 1.0])
        scene.set_up_direction((float(up[0]), float(up[1]), float(up[2])))
        planes: tuple[Literal["yz", "xz", "xy"], ...] = ("yz", "xz", "xy")
        plane = planes[int(np.argmax(np.abs(up)))]
        cell = 10.0 ** np.floor(np.log10(reach))
        scene.add_grid("/floor", 4.0 * reach, 4.0 * reach, plane=plane, cell_size=cell / 5.0, section_size=cell)
        across = np.roll(np.abs(up), 1)
        sideways = np.cross(up, across)
        camera = self._server.initial_camera
        camera.up = up
        camera.look_at = 0.3 * reach * up
        camera.position = reach * (1.0 * across + 0.7 * sideways + 0.6 * up)

    def _draw_bones(self, k: int, skeleton: Skeleton, *, visible: bool) -> None:
        scene, radius = self._server.scene, skeleton.radius
        for number, (start, end) in enumerate(skeleton.bones.get(k, ())):
            self._bones.append(self._rod(f"/robot/{k}/bone{number}", start, end, radius, BONE, visible))
        if k not in skeleton.axes:
            return
        axis = skeleton.axes[k]
        direction = (axis[0, 1] - axis[0, 0]) / np.linalg.norm(axis[0, 1] - axis[0, 0])
        drum = 2.5 * radius * direction
        self._bones.append(self._rod(f"/robot/{k}/joint", -drum, drum, 2.0 * radius, DRUM, visible))
        self._bones.append(
            scene.add_line_segments(
                f"/robot/{k}/axis",
                axis.astype(np.float32),
                np.array(AXIS, dtype=np.uint8),
                thickness=0.35 * radius,
                visible=visible,
            )
        )

    def _rod(self, name: str, start: Array, end: Array, radius: float, colour: tuple[int, int, int], seen: bool) -> Any:
        from trimesh import creation

        body: Any = creation.cylinder(radius=radius, segment=np.array([start, end]), sections=24)
        return self._server.scene.add_mesh_simple(
            name, np.asarray(body.vertices, dtype=np.float32), np.asarray(body.faces, dtype=np.uint32),
            color=colour, visible=seen,
        )  # fmt: skip
