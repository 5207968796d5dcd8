"""The linear equation of an identification: rows of base, user and friction columns along a motion, and the unknowns.

The unknowns are the columns that are solved for; those of each log map to them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dynid.concurrency import cached_property
from dynid.dynamics.friction import PLAIN, FrictionShapes, find_friction_block, friction_columns
from dynid.dynamics.kernels.rows import MOMENTUM
from dynid.dynamics.models import (
    LagrangianGradient,
    Reaction,
    Torque,
    project_to_active,
    rotor_moments,
    rotor_torques,
    tree_rows,
    write_picked_torques,
)
from dynid.dynamics.scene import Stage, standard_columns
from dynid.errors import IdentificationError
from dynid.estimation.accumulate.factor import ChannelFactor
from dynid.estimation.options import Options
from dynid.identifiability.base_parameters import cached_base_parameters, find_preferred_columns, keep_preferred
from dynid.identifiability.numeric import draw_rows, find_by_qr
from dynid.identifiability.parameters import BaseParameters
from dynid.logs.log import Samples
from dynid.robot.force_sensor import ForceSensor, is_force_channel
from dynid.robot.motion import Motion
from dynid.robot.parameter import Parameter
from dynid.robot.robot import JointColumn, Robot
from dynid.robot.transform import Array


@dataclass(frozen=True, slots=True, eq=False)
class Unknowns:
    """Names and units of what is solved for; place (logs, columns): index of an equation's column, -1: left out."""

    names: tuple[Parameter, ...]
    units: tuple[str, ...]
    place: NDArray[np.int64]
    channels: tuple[NDArray[np.int64], ...]

    def __len__(self) -> int:
        return len(self.names)

    @staticmethod
    def for_equation(
        equation: Equation,
        blocks: tuple[str, ...],
        logs: int,
        *,
        per_log: Collection[str] = (),
        left_out: NDArray[np.int64] | None = None,
    ) -> Unknowns:
        """Unknowns of some friction blocks and of all base, user and offset columns that a channel can see.

        per_log: blocks of which every log has its own parameters. left_out: columns that are not used all the same.
        """
        present = np.zeros(len(equation.names), dtype=np.bool_)
        for channel in equation.channels:
            present[channel.columns] = True
        for name, columns in equation.columns_by_friction_block.items():
            if name not in blocks:
                present[columns] = False
        if left_out is not None:
            present[left_out] = False
        chosen = np.flatnonzero(present)
        place = np.full((logs, len(equation.names)), -1, dtype=np.int64)
        place[:, chosen] = np.arange(len(chosen))
        names = [equation.names[k] for k in chosen]
        units = [equation.units[k] for k in chosen]
        own = [k for k in equation.offset_columns if present[k]]  # of the base: every run has its own
        own += [
            k
            for name in equation.columns_by_friction_block
            if name in per_log
            for k in equation.columns_by_friction_block[name]
            if present[k]
        ]
        if logs > 1 and own:
            for log in range(1, logs):
                place[log, own] = len(names) + np.arange(len(own))
                names += [equation.names[k].of_log(log + 1) for k in own]
                units += [equation.units[k] for k in own]
            for k in own:
                names[place[0, k]] = equation.names[k].of_log(1)
        return Unknowns(tuple(names), tuple(units), place, tuple(c.columns for c in equation.channels))

    def without_unknowns(self, dropped: Sequence[int]) -> Unknowns:
        """Return the unknowns without those that are dropped."""
        gone = set(dropped)
        kept = [k for k in range(len(self)) if k not in gone]
        new = np.full(len(self) + 1, -1, dtype=np.int64)
        new[kept] = np.arange(len(kept))
        place = new[self.place]  # -1 stays -1: the last entry
        return Unknowns(tuple(self.names[k] for k in kept), tuple(self.units[k] for k in kept), place, self.channels)

    def rows_of_factor(self, log: int, channel: int, factor: ChannelFactor) -> tuple[Array, Array]:
        """Rows (k, unknowns) and right sides (k,) of one channel's factor."""
        place = self.place[log, self.channels[channel]]
        used = place >= 0
        rows = np.zeros((len(factor.R), len(self)))
        rows[:, place[used]] = factor.R[:, :-1][:, used]
        return rows, factor.R[:, -1]

    def values_of_channel(self, log: int, channel: int, values: Array) -> Array:
        """Values of one channel's own columns, 0 where a column is left out."""
        place = self.place[log, self.channels[channel]]
        return np.where(place >= 0, values[place], 0.0)


# The layout of an equation: which columns it has, and where every channel's own stand in the wide row.
#
# Rows are written wide, channel beside channel: the base columns that a channel can see, its user columns, its
# friction and its measured torque, so that one filter call serves all and a channel's own row is a slice. Channels of
# a force plate under the robot come after those of the joints: base columns and a free offset.


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

    def rows_in_wide(self, wide: Array) -> Array:
        """Rows [W | y] (N, columns + 1) of this channel, a view."""
        return wide[:, self.start : self.stop]

    def are_rows_settled(self, joints: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Mask (N,) of rows in which friction of this channel's joints had settled, from (N, n); all for the base."""
        if self.of_base:
            return np.ones(len(joints), dtype=np.bool_)
        return joints[:, self.joint] if self.joint >= 0 else np.asarray(joints.all(axis=1))

    def row_weights(self, joints: Array) -> Array:
        """Weights (N,) of this channel's rows, from the shares of good samples of all joints (N, n)."""
        if self.of_base:
            return np.ones(len(joints))
        return joints[:, self.joint] if self.joint >= 0 else np.asarray(joints.min(axis=1))


class RigidColumns(Protocol):
    """Rows of the rigid columns of the joint torques: of base parameters, or of model parameters (`unknown_geometry`).

    pick, place: which entries of a sample's rows (n * columns) go where in the wide row.
    """

    @property
    def unknown(self) -> tuple[str, ...] | None:
        """Names of unknown lengths and angles of the geometry, None where all is known."""
        ...

    @property
    def support(self) -> NDArray[np.bool_]:
        """Mask (n, columns) of the columns that a joint's torque can see."""
        ...

    def write_picked_entries(self, motion: Motion, pick: Indices, place: Indices, wide: Array) -> None:
        """Write the picked entries of the rows along a motion into wide rows."""
        ...

    def momentum_and_lagrangian_gradient(self, motion: Motion, pick: Indices) -> tuple[Array, Array]:
        """Momentum dL/dqd and gradient dL/dq (N, picked entries); accelerations are not used."""
        ...


@dataclass(frozen=True, eq=False)
class BaseColumns:
    """Columns of base parameters: those kept of the standard regressor."""

    robot: Robot
    stage: Stage
    kept: tuple[int, ...]
    unknown: None = None

    @cached_property
    def support(self) -> NDArray[np.bool_]:
        """Mask (n, base) of the base columns that a joint's torque can see."""
        return Torque().support(self.robot, self.stage.columns)[:, list(self.kept)]

    def write_picked_entries(self, motion: Motion, pick: Indices, place: Indices, wide: Array) -> None:
        """Write the picked entries of the rows along a motion into wide rows."""
        write_picked_torques(self.stage.scene_along(motion), pick, place, wide)

    def momentum_and_lagrangian_gradient(self, motion: Motion, pick: Indices) -> tuple[Array, Array]:
        """Momentum dL/dqd and gradient dL/dq (N, picked entries); accelerations are not used."""
        scene = self.stage.scene_along(motion)
        momentum = project_to_active(scene, tree_rows(scene, MOMENTUM)).reshape(len(motion), -1)[:, pick]
        return momentum, LagrangianGradient().rows(scene).reshape(len(motion), -1)[:, pick]


CHUNK = 1024
"""Samples whose full regressor of the base is held at once."""


@dataclass(frozen=True, eq=False)
class Equation:
    """Columns of one robot, for the torques of some joints, what of these torques is measured, and its rows.

    options: those that decide about rows (`Options.row_options`), resolved for the robot.
    stage: the robot with its standard columns.
    rigid: first estimate of the base and user parameters, from which the `load` block takes the rigid torque.
    transmission (n, n): motor positions = transmission @ joint positions; friction acts there.
    """

    robot: Robot
    options: Options
    base: BaseParameters
    stage: Stage
    columns: RigidColumns
    shapes: FrictionShapes
    transmission: Array
    rigid: Array | None = None

    @staticmethod
    def for_robot(
        robot: Robot, options: Options, *, friction: tuple[str, ...], scale: Array, transmission: Array | None = None
    ) -> Equation:
        """Find the base columns (model parameters where geometry is unknown) and lay out all others."""
        options = options.row_options()
        taken = {*robot.parameter_names, *(column.name for column in friction_columns(robot, friction))}
        for column in options.columns:
            for joint in (column.joint, column.of):
                if joint not in robot.joint_names:
                    raise IdentificationError(
                        "unknown_joint", "column '{name}' refers to joint '{joint}'; joints are {joint_names}",
                        name=column.name, joint=joint, joint_names=list(robot.joint_names),
                    )  # fmt: skip
            if column.name in taken:
                raise IdentificationError(
                    "column_named_as_parameter", "column '{name}' has the name of another parameter", "rename it",
                    name=column.name,
                )  # fmt: skip
        transmission = np.eye(robot.n) if transmission is None else transmission
        shapes = FrictionShapes(friction, scale)
        base: BaseParameters
        if options.unknown:
            from dynid.estimation.regression import unknown_geometry  # loads the symbolic part, which few need

            base = free = unknown_geometry.find_model_parameters(robot, tuple(options.unknown), options.rotor_inertia)
        else:
            base = _find_base_parameters(robot, options)
        stage = Stage.for_robot(robot, standard_columns(robot, rotor_inertia=options.rotor_inertia))
        columns = unknown_geometry.ModelColumns(free.found) if options.unknown else BaseColumns(robot, stage, base.kept)
        return Equation(robot, options, base, stage, columns, shapes, transmission)

    @property
    def user_columns(self) -> tuple[JointColumn, ...]:
        """Columns of the user: torques of known shape and unknown size."""
        return tuple(self.options.columns)

    @cached_property
    def joints(self) -> tuple[int, ...]:
        """Joints whose torques are used."""
        return self.options.joint_indices(self.robot)

    @property
    def unknown(self) -> tuple[str, ...] | None:
        """Names of unknown lengths and angles of the geometry, None where all is known."""
        return self.columns.unknown

    def with_rigid_estimate(self, values: Array) -> Equation:
        """Return the equation with a first estimate of base and user parameters, for load-dependent friction."""
        return replace(self, rigid=np.array(values[: self.rigid_column_count]))

    def with_friction(self, blocks: tuple[str, ...]) -> Equation:
        """Return the equation with other friction blocks."""
        return replace(self, shapes=replace(self.shapes, blocks=blocks))

    def as_torque_equation(self) -> Equation:
        """Return the equation for the joint torques themselves, whatever this one is about."""
        return replace(self, options=self.options.with_model("torque"))

    def torque_equation(self) -> Equation | None:
        """Equation of the joint torques where this one is about something else; None where torques are used."""
        if self.options.model in ("torque", "torque+reaction"):
            return None
        if self.options.has_torques:
            return self.as_torque_equation()
        scale, transmission = self.shapes.scale, self.transmission
        return Equation.for_robot(self.robot, Options(), friction=PLAIN, scale=scale, transmission=transmission)

    @property
    def friction(self) -> tuple[str, ...]:
        """Names of the friction blocks."""
        return self.shapes.blocks

    @property
    def has_rotor_inertias(self) -> bool:
        """Whether rotor inertias are among the parameters that the data are asked for."""
        return self.base.question.rotor_inertia and self.options.has_torques

    @property
    def base_column_count(self) -> int:
        """Number of base columns, which come first."""
        return self.base.count

    @property
    def rigid_column_count(self) -> int:
        """Number of rigid columns: base parameters and the user's."""
        return self.base.count + len(self.user_columns)

    @cached_property
    def names(self) -> tuple[Parameter, ...]:
        """Names of the parameters: base, user, friction block by block and joint by joint, offsets of the base."""
        friction = (column.name for column in friction_columns(self.robot, self.friction))
        offsets = self.sensor.offset_parameters if self.is_tared else ()
        return (*self.base.names, *(column.parameter for column in self.user_columns), *friction, *offsets)

    @cached_property
    def units(self) -> tuple[str, ...]:
        """Units of the parameters."""
        return tuple(name.unit for name in self.names)

    @cached_property
    def sensor(self) -> ForceSensor:
        """The force plate under the robot; one in frame 0 where none is declared."""
        return self.robot.sensor or ForceSensor()

    @property
    def is_tared(self) -> bool:
        """Whether forces on the base are used and have unknown offsets."""
        return self.options.has_reactions and self.sensor.is_tared

    @property
    def offset_columns(self) -> Indices:
        """Columns of the offsets of the base's channels."""
        count = len(self.sensor.channels) if self.is_tared else 0
        return np.arange(len(self.names) - count, len(self.names))

    @cached_property
    def columns_by_friction_block(self) -> dict[str, Indices]:
        """Column indices of every friction block."""
        places, start = {}, self.rigid_column_count
        for name in self.friction:
            width = len(find_friction_block(name).symbols) * self.robot.n
            places[name] = np.arange(start, start + width)
            start += width
        return places

    @cached_property
    def channels(self) -> tuple[ChannelColumns, ...]:
        """Measured channels: one per joint in use, or one for all; then those of the base."""
        if not self.options.is_scalar:
            return (*self.torque_channels, *self.base_channels)
        seen = np.unique(np.concatenate([channel.columns for channel in self.torque_channels]))
        base, none = int((seen < self.base_column_count).sum()), np.zeros(0, dtype=np.int64)
        return (ChannelColumns(-1, 0, len(seen) + 1, seen, base, none, none, np.zeros(0)),)

    @property
    def channel_names(self) -> tuple[str, ...]:
        """Names of the joints, or of the one channel, and of those of the base."""
        joints = tuple(self.robot.joint_names[c.joint] for c in self.channels if c.joint >= 0)
        return (*joints, *self.sensor.channels) if self.options.has_reactions else joints or (self.options.model,)

    @property
    def channel_kinds(self) -> tuple[str, ...]:
        """Kind of every channel: torque (and what is made of it), force or moment."""
        names = zip(self.channels, self.channel_names, strict=True)
        return tuple(
            "torque" if not c.of_base else "force" if is_force_channel(name) else "moment" for c, name in names
        )

    @cached_property
    def torque_channels(self) -> tuple[ChannelColumns, ...]:
        """Channels of the joints in use, none where torques are not measured."""
        if not self.options.has_torques:
            return ()
        count, n = self.shapes.columns_per_joint, self.robot.n
        channels: list[ChannelColumns] = []
        start = 0
        for j in self.joints:
            base = np.flatnonzero(self.columns.support[j])
            own = [k for k, column in enumerate(self.user_columns) if self.robot.joint_names.index(column.joint) == j]
            extra = np.array(own, dtype=np.int64)
            motors = np.flatnonzero(self.transmission[:, j])
            friction = (np.arange(count)[:, None] * n + motors).ravel()
            columns = np.concatenate([base, self.base_column_count + extra, self.rigid_column_count + friction])
            stop = start + len(columns) + 1
            channels.append(
                ChannelColumns(j, start, stop, columns, len(base), extra, motors, self.transmission[motors, j], j)
            )
            start = stop
        return tuple(channels)

    @cached_property
    def base_channels(self) -> tuple[ChannelColumns, ...]:
        """Channels of the base that are measured."""
        if not self.options.has_reactions:
            return ()
        start = self.torque_channels[-1].stop if self.torque_channels else 0
        first = self.robot.n if self.options.has_torques else 0
        support = Reaction().support(self.robot, self.stage.columns)[:, list(self.base.kept)]
        none, channels = np.zeros(0, dtype=np.int64), []
        for c, seen in enumerate(support):
            base = np.flatnonzero(seen)
            columns = np.concatenate([base, self.offset_columns[[c]] if self.is_tared else none])
            stop = start + len(columns) + 1
            channels.append(
                ChannelColumns(-1, start, stop, columns, len(base), none, none, np.zeros(0), first + c, True)
            )
            start = stop
        return tuple(channels)

    @property
    def row_width(self) -> int:
        """Number of entries of a wide row: all channels side by side."""
        return (*self.torque_channels, *self.base_channels)[-1].stop

    def measured_channels(self, samples: Samples) -> Array:
        """Recorded channels (N, k) that rows are about."""
        tau = samples.tau if self.options.has_torques else None
        reaction = samples.reaction if self.options.has_reactions else None
        return np.concatenate([x for x in (tau, reaction) if x is not None], axis=1)

    def to_motor_side(self, x: Array) -> Array:
        """Positions or velocities of the motors, where friction acts, from those of the joints."""
        return x if self.is_direct_drive else np.ascontiguousarray(x @ self.transmission.T)

    @cached_property
    def is_direct_drive(self) -> bool:
        """Whether every motor drives one joint."""
        return bool(np.array_equal(self.transmission, np.eye(self.robot.n)))

    @cached_property
    def rigid_entry_indices(self) -> tuple[Indices, Indices]:
        """Indices of entries in a sample's rigid rows (n * columns), and their places in the wide row."""
        kept, p = np.array(self.base.kept, dtype=np.int64), len(self.base.question.columns)
        pick = [c.joint * p + kept[c.columns[: c.base]] for c in self.torque_channels]
        place = [np.arange(c.start, c.start + c.base) for c in self.torque_channels]
        return np.concatenate(pick), np.concatenate(place)

    def write_torque_rows(
        self, motion: Motion, stops: Array, measured: Array | None, *, out: Array | None = None
    ) -> Array:
        """Rows of torques (N, width) along a motion; stops (N, w, n): `shapes.stop_values_along` motor positions.

        The last entry of a channel is what its parameters explain: measured values (0 without) minus known ones.
        """
        wide = np.empty((len(motion), self.row_width)) if out is None else out
        self._write_rigid(motion, wide)
        if self.torque_channels:
            self.write_friction(wide, self.friction_values(motion, stops, wide))
        rotors = self.known_torques(motion)
        for channel in self.torque_channels:
            tau = 0.0 if measured is None else measured[:, channel.reads]
            wide[:, channel.stop - 1] = tau if rotors is None else tau - rotors[:, channel.joint]
        if measured is not None and self.base_channels:
            known = self.known_reactions(motion)
            for c, channel in enumerate(self.base_channels):
                wide[:, channel.stop - 1] = measured[:, channel.reads] - known[:, c]
        return wide

    def known_torques(self, motion: Motion) -> Array | None:
        """Joint torques (N, n) that no parameter explains: the spin of declared rotors; None without such."""
        if not self.torque_channels or not self.sensor.spinning_rotors:
            return None
        return rotor_torques(self.stage.scene_along(motion), behind_gear=not self.base.question.rotor_inertia)

    @property
    def only_rigid_rows_change_with_acceleration(self) -> bool:
        """Whether of all entries of a row only those of base parameters know the acceleration."""
        return self.options.model == "torque" and "load" not in self.friction and not self.sensor.spinning_rotors

    def known_reactions(self, motion: Motion) -> Array:
        """Readings (N, channels) of the base that no parameter explains: known offsets, weights and rotors."""
        known = np.tile(self.sensor.constant_readings(self.robot.gravity), (len(motion), 1))
        if self.sensor.rotors:
            known += rotor_moments(self.stage.scene_along(motion)) @ self.sensor.wrench_to_readings[:, 3:].T
        return known

    def friction_values(self, motion: Motion, stops: Array, rows: Array | None = None) -> Array:
        """Values (N, columns per motor, n) of all blocks; rows: wide rows whose rigid part is written, if there are."""
        load = None
        if "load" in self.friction and self.rigid is not None:
            torque = self.rigid_torque(self.rigid_rows(motion) if rows is None else rows, self.rigid)
            load = torque if self.is_direct_drive else np.asarray(np.linalg.solve(self.transmission.T, torque.T).T)
        return self.shapes.column_values(
            motion.t, self.to_motor_side(motion.q), self.to_motor_side(motion.v), stops, load
        )

    def write_friction(self, wide: Array, values: Array) -> None:
        """Write the values of all friction blocks into wide rows, where the joints feel them."""
        for channel in self.torque_channels:
            first = channel.start + channel.base + len(channel.extra)
            if len(channel.motors) == 1 and channel.factors[0] == 1.0:
                wide[:, first : channel.stop - 1] = values[:, :, channel.motors[0]]
            else:
                wide[:, first : channel.stop - 1] = (values[:, :, channel.motors] * channel.factors).reshape(
                    len(wide), -1
                )

    def rigid_rows(self, motion: Motion) -> Array:
        """Wide rows of which only base and user entries are written, the others zero."""
        wide = np.zeros((len(motion), self.row_width))
        self._write_rigid(motion, wide)
        return wide

    def _write_rigid(self, motion: Motion, wide: Array) -> None:
        """Write base and user columns into wide rows."""
        if self.base_channels:
            self._write_reactions(motion, wide)
        if not self.torque_channels:
            return
        self.columns.write_picked_entries(motion, *self.rigid_entry_indices, wide)
        for channel in self.torque_channels:
            for position, k in enumerate(channel.extra, start=channel.start + channel.base):
                wide[:, position] = self.user_columns[k].values(self.robot.joint_names, motion.q, motion.v)

    def _write_reactions(self, motion: Motion, wide: Array) -> None:
        """Write base columns and offsets of the base's channels into wide rows."""
        kept = np.array(self.base.kept, dtype=np.int64)
        for start in range(0, len(motion), CHUNK):
            part = slice(start, min(start + CHUNK, len(motion)))
            rows = Reaction().rows(self.stage.scene_along(motion[part]))
            for c, channel in enumerate(self.base_channels):
                wide[part, channel.start : channel.start + channel.base] = rows[
                    :, c, kept[channel.columns[: channel.base]]
                ]
                wide[part, channel.start + channel.base : channel.stop - 1] = 1.0

    def rigid_torque(self, wide: Array, values: Array) -> Array:
        """Torque (N, n) of the base and user parameters."""
        torque = np.zeros((len(wide), self.robot.n))
        for channel in self.torque_channels:
            rigid = channel.base + len(channel.extra)
            own = wide[:, channel.start : channel.start + rigid]
            torque[:, channel.joint] = own @ values[channel.columns[:rigid]]
        return torque


def _find_base_parameters(robot: Robot, options: Options) -> BaseParameters:
    """Base parameters of what the options say is measured."""
    assert options.prefer != "data"  # names by now
    prefer, rotors = tuple(options.prefer or ()), options.rotor_inertia
    if options.has_reactions:
        tared = robot.sensor is None or robot.sensor.is_tared
        return cached_base_parameters(robot, model=options.model, rotor_inertia=rotors, tared=tared, prefer=prefer)
    base = cached_base_parameters(robot, model="torque", rotor_inertia=rotors, prefer=prefer)
    joints = options.joint_indices(robot)
    if len(joints) == robot.n:
        return base
    return keep_preferred(_base_parameters_seen_by(base, joints), find_preferred_columns(base.question, prefer))


def _base_parameters_seen_by(base: BaseParameters, joints: tuple[int, ...]) -> BaseParameters:
    """Base parameters that the torques of some joints reveal, by random samples of their rows."""
    question = base.question
    drawn = draw_rows(question, 3 * len(question.columns) * question.robot.n, 0)
    rows = np.arange(len(drawn.matrix)).reshape(-1, question.robot.n)[:, joints].ravel()
    noise = None if drawn.noise is None else drawn.noise[rows]
    found = find_by_qr(drawn.matrix[rows], left_out=question.known_zero_columns, noise=noise)
    return BaseParameters(question, "qr", found.regrouping, found.gap, found.diagnostics, base.warnings)
