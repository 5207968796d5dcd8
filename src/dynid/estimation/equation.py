"""The linear equation of an identification: base, user and friction columns of every joint torque.

Rows are written wide: the base columns that each channel can see, then the user columns, then all friction values,
then the measured torques, so that one filter call serves all; `ChannelColumns` pick a channel's own row from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dynid.base.find import base_parameters
from dynid.base.numeric import find_by_qr
from dynid.base.parameters import BaseParameters
from dynid.base.sampling import sample_matrix
from dynid.errors import IdentificationError
from dynid.models.columns import standard_columns
from dynid.models.friction import FrictionShapes, find_block, friction_columns
from dynid.models.scene import Stage
from dynid.models.torque import Torque
from dynid.robot.joint_column import JointColumn
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ChannelColumns:
    """What one channel's row is made of: global columns, their places in the wide row, and factors."""

    joint: int
    columns: Indices
    places: Indices
    factors: Array
    measured: int

    def row(self, wide: Array) -> Array:
        """Rows [W | y] (N, columns + 1) of this channel."""
        picked = wide[:, np.append(self.places, self.measured)]
        if np.any(self.factors != 1.0):
            picked[:, :-1] *= self.factors
        return picked


@dataclass(frozen=True, eq=False)
class Equation:
    """Columns of one robot under the torque model, for the torques of some joints.

    rigid: first estimate of the base and user parameters, from which the `load` block takes the rigid torque.
    transmission (n, n): motor positions = transmission @ joint positions; friction acts there.
    """

    robot: Robot
    base: BaseParameters
    shapes: FrictionShapes
    extra: tuple[JointColumn, ...]
    transmission: Array
    joints: tuple[int, ...]
    rigid: Array | None = None

    @staticmethod
    def of(
        robot: Robot,
        *,
        friction: tuple[str, ...],
        rotor_inertia: bool,
        scale: Array,
        extra: tuple[JointColumn, ...] = (),
        transmission: Array | None = None,
        joints: tuple[int, ...] | None = None,
    ) -> Equation:
        """Find the base columns and lay out all others."""
        for column in extra:
            for joint in (column.joint, column.of):
                if joint not in robot.joint_names:
                    raise IdentificationError(
                        f"column '{column.name}' speaks of joint '{joint}'; joints are {', '.join(robot.joint_names)}"
                    )
        joints = tuple(range(robot.n)) if joints is None else joints
        base = base_parameters(robot, rotor_inertia=rotor_inertia)
        if len(joints) < robot.n:
            base = _seen_by(base, joints)
        transmission = np.eye(robot.n) if transmission is None else transmission
        return Equation(robot, base, FrictionShapes(friction, scale), extra, transmission, joints)

    def with_rigid(self, values: Array) -> Equation:
        """Return the same equation with a first estimate of base and user parameters."""
        return replace(self, rigid=np.array(values[: self.rigid_count]))

    def with_friction(self, blocks: tuple[str, ...]) -> Equation:
        """Return the equation with other friction blocks."""
        return replace(self, shapes=replace(self.shapes, blocks=blocks))

    @property
    def friction(self) -> tuple[str, ...]:
        """Names of the friction blocks."""
        return self.shapes.blocks

    @property
    def base_count(self) -> int:
        """Base columns, which come first."""
        return self.base.count

    @property
    def rigid_count(self) -> int:
        """Base and user columns."""
        return self.base.count + len(self.extra)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters: base, user, friction block by block and joint by joint."""
        friction = (column.name for column in friction_columns(self.robot, self.friction))
        return (*self.base.names, *(column.name for column in self.extra), *friction)

    @cached_property
    def units(self) -> tuple[str, ...]:
        """Units of the parameters."""
        base = (self.base.question.columns[k].unit for k in self.base.kept)
        friction = (column.unit for column in friction_columns(self.robot, self.friction))
        return (*base, *("1" for _ in self.extra), *friction)

    @cached_property
    def blocks_of(self) -> dict[str, Indices]:
        """Columns of every friction block."""
        places, start = {}, self.rigid_count
        for name in self.friction:
            width = len(find_block(name).symbols) * self.robot.n
            places[name] = np.arange(start, start + width)
            start += width
        return places

    @cached_property
    def _stage(self) -> Stage:
        return Stage.of(self.robot, standard_columns(self.robot, rotor_inertia=self.base.question.rotor_inertia))

    @cached_property
    def _support(self) -> NDArray[np.bool_]:
        """Which base columns a channel can see, (n, base)."""
        return Torque().support(self.robot, self._stage.columns)[:, list(self.base.kept)]

    @cached_property
    def _packed(self) -> Indices:
        """Entries of a standard regressor's sample (n * columns) that the wide row keeps."""
        kept, p = np.array(self.base.kept, dtype=np.int64), len(self._stage.columns)
        return np.concatenate([j * p + kept[self._support[j]] for j in range(self.robot.n)])

    @property
    def width(self) -> int:
        """Entries of a wide row."""
        return len(self._packed) + len(self.extra) + (self.shapes.count + 1) * self.robot.n

    @cached_property
    def channels(self) -> tuple[ChannelColumns, ...]:
        """One per joint."""
        n, extra_at = self.robot.n, len(self._packed)
        friction_at = extra_at + len(self.extra)
        starts = np.concatenate([[0], np.cumsum(self._support.sum(axis=1))])
        channels = []
        for j in self.joints:
            own = [k for k, column in enumerate(self.extra) if self.robot.joint_names.index(column.joint) == j]
            motors = np.flatnonzero(self.transmission[:, j])
            local = (np.arange(self.shapes.count)[:, None] * n + motors).ravel()
            columns = [np.flatnonzero(self._support[j]), self.base_count + np.array(own, dtype=np.int64)]
            places = [np.arange(starts[j], starts[j + 1]), extra_at + np.array(own, dtype=np.int64)]
            factors = np.concatenate([
                np.ones(len(columns[0]) + len(own)), np.tile(self.transmission[motors, j], self.shapes.count)
            ])  # fmt: skip
            channels.append(
                ChannelColumns(
                    j,
                    np.concatenate([*columns, self.rigid_count + local]),
                    np.concatenate([*places, friction_at + local]),
                    factors,
                    friction_at + self.shapes.count * n + j,
                )
            )
        return tuple(channels)

    def rigid_rows(self, motion: Motion) -> Array:
        """Base and user entries of the wide rows, (N, packed + user)."""
        rows = Torque().rows(self._stage.scene(motion))
        flat = np.take(rows.reshape(len(rows), -1), self._packed, axis=1)
        if not self.extra:
            return flat
        names = self.robot.joint_names
        own = [column.values(names, motion.q, motion.v)[:, None] for column in self.extra]
        return np.concatenate([flat, *own], axis=1)

    def rigid_torque(self, rows: Array, values: Array) -> Array:
        """Torque (N, n) of the base and user parameters."""
        coefficients = np.zeros((rows.shape[1], self.robot.n))
        for channel in self.channels:
            j = channel.joint
            mine = channel.columns < self.rigid_count
            coefficients[channel.places[mine], j] = values[channel.columns[mine]]
        return np.asarray(rows @ coefficients)

    def write(self, motion: Motion, stops: Array, measured: Array | None) -> Array:
        """Wide rows (N, width) along a motion; stops (N, w, n) as `shapes.run` gives them on motor positions."""
        N, n = motion.q.shape
        rigid = self.rigid_rows(motion)
        wide = np.empty((N, self.width))
        wide[:, : rigid.shape[1]] = rigid
        load = None
        if "load" in self.friction and self.rigid is not None:
            torque = self.rigid_torque(rigid, self.rigid)
            load = torque if self.is_direct else np.asarray(np.linalg.solve(self.transmission.T, torque.T).T)
        values = self.shapes.values(self.motor(motion.q), self.motor(motion.v), stops, load)
        wide[:, rigid.shape[1] : -n] = values.reshape(N, -1)
        wide[:, -n:] = 0.0 if measured is None else measured
        return wide

    def motor(self, x: Array) -> Array:
        """Positions or velocities where friction acts."""
        return x if self.is_direct else np.ascontiguousarray(x @ self.transmission.T)

    @cached_property
    def is_direct(self) -> bool:
        """Whether every motor drives one joint."""
        return bool(np.array_equal(self.transmission, np.eye(self.robot.n)))

    def predict(self, wide: Array, values: Array) -> Array:
        """Torques (N, n) of parameters along wide rows."""
        return np.column_stack([channel.row(wide)[:, :-1] @ values[channel.columns] for channel in self.channels])


def _seen_by(base: BaseParameters, joints: tuple[int, ...]) -> BaseParameters:
    """Base parameters that the torques of some joints reveal, by random samples of their rows."""
    question = base.question
    W = sample_matrix(question, 3 * len(question.columns) * question.robot.n, 0)
    rows = W.reshape(-1, question.robot.n, W.shape[1])[:, joints].reshape(-1, W.shape[1])
    found = find_by_qr(rows, left_out=question.known)
    return BaseParameters(question, "qr", found.regrouping, found.gap, found.diagnostics, base.warnings)
