"""A robot in motion, as the kernels want it: geometry, columns and the joints of the open tree."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dynid.concurrency import cached_property
from dynid.dynamics.kernels.links import (
    BASE_FRAME,
    GRAVITY,
    HEIGHT,
    Geometry,
    Integers,
    RowLayout,
    Samples,
    tree_arrays,
)
from dynid.dynamics.kernels.loops import LoopMap, TreeMotion, loop_map
from dynid.dynamics.kernels.spatial_algebra import LINEAR, SPATIAL
from dynid.robot.inertia import ROTOR, SYMBOLS
from dynid.robot.motion import Motion, check_motion
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

# The columns of a regressor, described once for base parameters, excitation and estimation.


@dataclass(frozen=True, slots=True)
class Column:
    """One parameter, and the index of its link in `robot.links`."""

    name: Parameter
    link: int


@dataclass(frozen=True, eq=False)
class ColumnSet:
    """Columns in order; a link's ten inertial ones stand side by side, its rotor's after them."""

    columns: tuple[Column, ...]

    def __len__(self) -> int:
        return len(self.columns)

    @cached_property
    def names(self) -> tuple[Parameter, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def first_column_of_link(self) -> dict[int, int]:
        """Index of the first of each link's ten inertial columns."""
        places: dict[int, int] = {}
        for k, column in enumerate(self.columns):
            if column.name.kind == "inertial":
                places.setdefault(column.link, k)
        return places

    @cached_property
    def rotor_column_of_link(self) -> dict[int, int]:
        """Index of each link's rotor inertia column."""
        return {column.link: k for k, column in enumerate(self.columns) if column.name.kind == "rotor"}

    def mask_of_links(self, links: set[int]) -> NDArray[np.bool_]:
        """Mask of the inertial columns of some links."""
        return np.array([c.name.kind == "inertial" and c.link in links for c in self.columns], dtype=np.bool_)


def standard_columns(robot: Robot, *, rotor_inertia: bool = True) -> ColumnSet:
    """Columns of the standard parameters, in the order of `robot.parameter_names`."""
    columns: list[Column] = []
    for k, link in enumerate(robot.links):
        columns += [Column(link.parameter(symbol), k) for symbol in SYMBOLS]
        if rotor_inertia and k in robot.active_links:
            columns.append(Column(link.parameter(ROTOR), k))
    return ColumnSet(tuple(columns))


BASE_CHANNELS = ("Fx", "Fy", "Fz", "Mx", "My", "Mz")


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """Arrays of one robot along one motion.

    column (L,) and rotor (joints,) place the columns for the kernel; base (N or 1, BASE_FRAME): motion of the base
    frame; q, v, a (N, joints of the tree).
    """

    robot: Robot
    columns: ColumnSet
    geometry: Geometry
    column: Integers
    rotor: Integers
    base: Array
    q: Array
    v: Array
    a: Array
    motion: Motion
    loop: LoopMap | None
    tree: TreeMotion | None

    def __len__(self) -> int:
        return len(self.q)

    @property
    def base_row_count(self) -> int:
        """Number of rows of the base before those of the joints: six if it floats, else none."""
        return 6 if self.robot.floating else 0

    def samples_between(self, start: int, stop: int) -> Samples:
        """Motion of a range of samples, as the kernels take it."""
        base = self.base[start:stop] if len(self.base) > 1 else self.base
        return Samples(base, self.q[start:stop], self.v[start:stop], self.a[start:stop])

    def row_layout(self, kind: int) -> RowLayout:
        """Layout of the rows of the base frame and all joints of the tree, for a kind of row."""
        channels = self.base_row_count
        return RowLayout(kind, channels, channels + self.q.shape[1], len(self.columns), self.column, self.rotor)


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """What of a scene does not depend on the motion, prepared once."""

    robot: Robot
    columns: ColumnSet
    geometry: Geometry
    column: Integers
    rotor: Integers
    loop: LoopMap | None

    @staticmethod
    def for_robot(robot: Robot, columns: ColumnSet) -> Stage:
        """Prepare a robot with its columns for the kernels."""
        geometry = tree_arrays(robot)
        first, rotors = columns.first_column_of_link, columns.rotor_column_of_link
        column = np.array([first[int(k)] for k in geometry.link], dtype=np.int64)
        rotor = np.array([rotors.get(k, -1) for k in robot.tree_joints], dtype=np.int64)
        return Stage(robot, columns, geometry, column, rotor, loop_map(robot))

    def with_loop_gap(self, gap: float) -> Stage:
        """The stage with closed loops left open by a gap (see `LoopMap.tree_motion`)."""
        return self if self.loop is None else replace(self, loop=replace(self.loop, gap=gap))

    def scene_along(self, motion: Motion) -> Scene:
        """Scene of the robot along a motion: arrays of all samples."""
        check_motion(self.robot, motion)
        tree = None
        q, v, a = motion.q, motion.v, motion.a
        if self.loop is not None:
            tree = self.loop.tree_motion(q, v, a, motion.t)
            q, v, a = (np.ascontiguousarray(x) for x in (tree.q, tree.v, tree.a))
        return Scene(
            self.robot, self.columns, self.geometry, self.column, self.rotor, _base_frame_motion(self.robot, motion),
            q, v, a, motion, self.loop, tree,
        )  # fmt: skip


def with_zero_velocities(motion: Motion) -> Motion:
    """Return the same positions and accelerations with all velocities zero."""
    still = None if motion.base_velocity is None else np.zeros_like(motion.base_velocity)
    return replace(motion, v=np.zeros_like(motion.v), base_velocity=still)


def _base_frame_motion(robot: Robot, motion: Motion) -> Array:
    """Motion of the base frame in its own axes; motions of floating bases are (linear, angular) as in pinocchio."""
    if motion.base_pose is None or motion.base_velocity is None or motion.base_acceleration is None:
        return motion_of_resting_base(robot)
    R = _rotations_from_quaternions(motion.base_pose[:, 3:])
    v, w = motion.base_velocity[:, :3], motion.base_velocity[:, 3:]
    gravity = np.einsum("Nij,i->Nj", R, robot.gravity)
    base = np.zeros((len(motion), BASE_FRAME))
    base[:, :LINEAR] = w
    base[:, LINEAR:SPATIAL] = v
    base[:, SPATIAL : SPATIAL + LINEAR] = motion.base_acceleration[:, 3:]
    base[:, SPATIAL + LINEAR : GRAVITY] = motion.base_acceleration[:, :3] + np.cross(w, v) - gravity
    base[:, GRAVITY:HEIGHT] = gravity
    base[:, HEIGHT] = -motion.base_pose[:, :3] @ robot.gravity
    return base


def motion_of_resting_base(robot: Robot) -> Array:
    """Motion (1, BASE_FRAME) of a base frame that does not move."""
    base = np.zeros((1, BASE_FRAME))
    base[0, SPATIAL + LINEAR : GRAVITY] = -robot.gravity
    base[0, GRAVITY:HEIGHT] = robot.gravity
    return base


def _rotations_from_quaternions(quaternions: Array) -> Array:
    """Rotation matrices (N, 3, 3) of unit quaternions x y z w."""
    from scipy.spatial.transform import Rotation

    return np.asarray(Rotation.from_quat(quaternions).as_matrix())
