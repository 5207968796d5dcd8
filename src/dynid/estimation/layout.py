"""The layout of an equation: which columns it has, and where every channel's own stand in the wide row.

Rows are written wide, channel beside channel: the base columns that a channel can see, its user columns, its friction
and its measured torque, so that one filter call serves all and a channel's own row is a slice. Channels of a force
plate under the robot come after those of the joints: base columns and a free offset.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dynid.base.parameters import BaseParameters
from dynid.concurrency import cached_property
from dynid.data.log import Samples
from dynid.estimation.measure import TORQUE, Measure
from dynid.models.columns import standard_columns
from dynid.models.friction import FrictionShapes, find_block, friction_columns
from dynid.models.reaction import Reaction
from dynid.models.scene import Stage
from dynid.models.torque import Torque
from dynid.robot.force_sensor import ForceSensor
from dynid.robot.joint_column import JointColumn
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ChannelColumns:
    """One channel's row [W | y] inside the wide row, from start to stop: base, user, friction, measured.

    columns: its entries as columns of the equation, the first `base` of them base columns; extra: its user columns, as
    numbers among the equation's; motors and factors (motors,): friction columns come block by block, for the motors
    that drive this joint. A channel of all joints together (power, energy) or of the robot's base has joint -1.
    reads: which measured channel it is about.
    """

    joint: int
    start: int
    stop: int
    columns: Indices
    base: int
    extra: Indices
    motors: Indices
    factors: Array
    reads: int = 0
    of_base: bool = False

    def row(self, wide: Array) -> Array:
        """Rows [W | y] (N, columns + 1) of this channel, a view."""
        return wide[:, self.start : self.stop]

    def settled(self, joints: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether friction had settled (N,), from that of all joints (N, n); the base does not feel it."""
        if self.of_base:
            return np.ones(len(joints), dtype=np.bool_)
        return joints[:, self.joint] if self.joint >= 0 else np.asarray(joints.all(axis=1))


@dataclass(frozen=True, eq=False)
class Layout:
    """Columns of one robot, for the torques of some joints, and what of these torques is measured.

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
    measure: Measure = TORQUE

    @property
    def unknown(self) -> tuple[str, ...] | None:
        """What of the geometry is unknown, None where nothing is."""
        return None

    def with_rigid(self, values: Array) -> Self:
        """Return the same with a first estimate of base and user parameters."""
        return replace(self, rigid=np.array(values[: self.rigid_count]))

    def with_friction(self, blocks: tuple[str, ...]) -> Self:
        """Return the same with other friction blocks."""
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
        """Names of the parameters: base, user, friction block by block and joint by joint, offsets of the base."""
        friction = (column.name for column in friction_columns(self.robot, self.friction))
        offsets = (f"O{name}" for name in self.sensor.channels) if self.is_tared else ()
        return (*self.base.names, *(column.name for column in self.extra), *friction, *offsets)

    @cached_property
    def units(self) -> tuple[str, ...]:
        """Units of the parameters."""
        base = (self.base.question.columns[k].unit for k in self.base.kept)
        friction = (column.unit for column in friction_columns(self.robot, self.friction))
        offsets = ("N" if name.startswith("F") else "N m" for name in self.sensor.channels if self.is_tared)
        return (*base, *("1" for _ in self.extra), *friction, *offsets)

    @cached_property
    def sensor(self) -> ForceSensor:
        """The force plate under the robot; without a word on it, one in frame 0."""
        return self.robot.sensor or ForceSensor()

    @property
    def is_tared(self) -> bool:
        """Whether forces on the base are used and have unknown offsets."""
        return self.measure.has_reactions and self.sensor.is_tared

    @property
    def offsets(self) -> Indices:
        """Columns of the offsets of the base's channels."""
        count = len(self.sensor.channels) if self.is_tared else 0
        return np.arange(len(self.names) - count, len(self.names))

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
    def stage(self) -> Stage:
        """The robot with its standard columns, ready for a motion."""
        return Stage.of(self.robot, standard_columns(self.robot, rotor_inertia=self.base.question.rotor_inertia))

    @cached_property
    def _support(self) -> NDArray[np.bool_]:
        """Which base columns a joint's torque can see, (n, base)."""
        return Torque().support(self.robot, self.stage.columns)[:, list(self.base.kept)]

    @cached_property
    def channels(self) -> tuple[ChannelColumns, ...]:
        """What is measured: one per joint in use, or one for all; then those of the base."""
        if not self.measure.is_scalar:
            return (*self.torque_channels, *self.base_channels)
        seen = np.unique(np.concatenate([channel.columns for channel in self.torque_channels]))
        base, none = int((seen < self.base_count).sum()), np.zeros(0, dtype=np.int64)
        return (ChannelColumns(-1, 0, len(seen) + 1, seen, base, none, none, np.zeros(0)),)

    @property
    def channel_names(self) -> tuple[str, ...]:
        """Names of the joints, or of the one channel, and of those of the base."""
        joints = tuple(self.robot.joint_names[c.joint] for c in self.channels if c.joint >= 0)
        return (*joints, *self.sensor.channels) if self.measure.has_reactions else joints or (self.measure.model,)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of every channel: torque (and what is made of it), force or moment."""
        names = zip(self.channels, self.channel_names, strict=True)
        return tuple("torque" if not c.of_base else "force" if name.startswith("F") else "moment" for c, name in names)

    @cached_property
    def torque_channels(self) -> tuple[ChannelColumns, ...]:
        """One per joint in use, none where torques are not measured."""
        if not self.measure.has_torques:
            return ()
        count, n = self.shapes.count, self.robot.n
        channels: list[ChannelColumns] = []
        start = 0
        for j in self.joints:
            base = np.flatnonzero(self._support[j])
            own = [k for k, column in enumerate(self.extra) if self.robot.joint_names.index(column.joint) == j]
            extra = np.array(own, dtype=np.int64)
            motors = np.flatnonzero(self.transmission[:, j])
            friction = (np.arange(count)[:, None] * n + motors).ravel()
            columns = np.concatenate([base, self.base_count + extra, self.rigid_count + friction])
            stop = start + len(columns) + 1
            channels.append(
                ChannelColumns(j, start, stop, columns, len(base), extra, motors, self.transmission[motors, j], j)
            )
            start = stop
        return tuple(channels)

    @cached_property
    def base_channels(self) -> tuple[ChannelColumns, ...]:
        """One per channel of the base that is measured."""
        if not self.measure.has_reactions:
            return ()
        start = self.torque_channels[-1].stop if self.torque_channels else 0
        first = self.robot.n if self.measure.has_torques else 0
        support = Reaction().support(self.robot, self.stage.columns)[:, list(self.base.kept)]
        none, channels = np.zeros(0, dtype=np.int64), []
        for c, seen in enumerate(support):
            base = np.flatnonzero(seen)
            columns = np.concatenate([base, self.offsets[[c]] if self.is_tared else none])
            stop = start + len(columns) + 1
            channels.append(
                ChannelColumns(-1, start, stop, columns, len(base), none, none, np.zeros(0), first + c, True)
            )
            start = stop
        return tuple(channels)

    @property
    def width(self) -> int:
        """Entries of a wide row of torques and forces on the base."""
        return (*self.torque_channels, *self.base_channels)[-1].stop

    def measured(self, samples: Samples) -> Array:
        """Recorded channels (N, k) that rows are about."""
        tau = samples.tau if self.measure.has_torques else None
        reaction = samples.reaction if self.measure.has_reactions else None
        return np.concatenate([x for x in (tau, reaction) if x is not None], axis=1)

    def motor(self, x: Array) -> Array:
        """Positions or velocities where friction acts."""
        return x if self.is_direct else np.ascontiguousarray(x @ self.transmission.T)

    @cached_property
    def is_direct(self) -> bool:
        """Whether every motor drives one joint."""
        return bool(np.array_equal(self.transmission, np.eye(self.robot.n)))
