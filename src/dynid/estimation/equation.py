"""The linear equation of an identification: rows of base, user and friction columns along a motion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.base.find import remembered_base_parameters
from dynid.base.numeric import find_by_qr
from dynid.base.parameters import BaseParameters
from dynid.base.sampling import draw
from dynid.concurrency import cached_property
from dynid.errors import IdentificationError
from dynid.estimation.layout import Indices, Layout
from dynid.estimation.measure import TORQUE, Measure
from dynid.kernel.rows import MOMENTUM
from dynid.models.friction import FrictionShapes, friction_columns
from dynid.models.lagrangian import LagrangianGradient
from dynid.models.model import project
from dynid.models.reaction import Reaction
from dynid.models.rotors import rotor_moments
from dynid.models.torque import write_picked, write_tree_rows
from dynid.robot.joint_column import JointColumn
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

CHUNK = 1024
"""Samples whose full regressor of the base is held at once."""


@dataclass(frozen=True, eq=False)
class Equation(Layout):
    """A layout that writes its rows."""

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
        measure: Measure = TORQUE,
        unknown: tuple[str, ...] | None = None,
    ) -> Equation:
        """Find the base columns (model parameters where some of the geometry is unknown) and lay out all others."""
        taken = {*robot.parameter_names, *(column.name for column in friction_columns(robot, friction))}
        for column in extra:
            for joint in (column.joint, column.of):
                if joint not in robot.joint_names:
                    raise IdentificationError(
                        f"column '{column.name}' speaks of joint '{joint}'; joints are {', '.join(robot.joint_names)}"
                    )
            if column.name in taken:
                raise IdentificationError(f"column '{column.name}' has the name of another parameter; rename it")
        joints = tuple(range(robot.n)) if joints is None else joints
        transmission = np.eye(robot.n) if transmission is None else transmission
        shapes = FrictionShapes(friction, scale)
        if unknown is not None:
            from dynid.estimation.free_geometry import FreeEquation, free_parameters

            free = free_parameters(robot, unknown, rotor_inertia)
            return FreeEquation(robot, free, shapes, extra, transmission, joints, None, measure)
        if measure.has_reactions:
            tared = robot.sensor is None or robot.sensor.is_tared
            base = remembered_base_parameters(robot, model=measure.model, rotor_inertia=rotor_inertia, tared=tared)
        else:
            base = remembered_base_parameters(robot, model="torque", rotor_inertia=rotor_inertia)
            if len(joints) < robot.n:
                base = _seen_by(base, joints)
        return Equation(robot, base, shapes, extra, transmission, joints, None, measure)

    @cached_property
    def picks(self) -> tuple[Indices, Indices]:
        """Which entries of a standard regressor's sample (n * columns) go where in the wide row."""
        kept, p = np.array(self.base.kept, dtype=np.int64), len(self.stage.columns)
        pick = [c.joint * p + kept[c.columns[: c.base]] for c in self.torque_channels]
        place = [np.arange(c.start, c.start + c.base) for c in self.torque_channels]
        return np.concatenate(pick), np.concatenate(place)

    def write(self, motion: Motion, stops: Array, measured: Array | None, *, out: Array | None = None) -> Array:
        """Rows of torques (N, width) along a motion; stops (N, w, n) as `shapes.run` gives them on motor positions."""
        wide = np.empty((len(motion), self.width)) if out is None else out
        self._write_rigid(motion, wide)
        if self.torque_channels:
            self.place_friction(wide, self.friction_values(motion, stops, wide))
        for channel in self.torque_channels:
            wide[:, channel.stop - 1] = 0.0 if measured is None else measured[:, channel.reads]
        if measured is not None and self.base_channels:
            known = self.known_reactions(motion)
            for c, channel in enumerate(self.base_channels):
                wide[:, channel.stop - 1] = measured[:, channel.reads] - known[:, c]
        return wide

    def known_reactions(self, motion: Motion) -> Array:
        """Readings (N, channels) of the base that no parameter explains: known offsets, weights and rotors."""
        known = np.tile(self.sensor.constant(self.robot.gravity), (len(motion), 1))
        if self.sensor.rotors:
            known += rotor_moments(self.stage.scene(motion)) @ self.sensor.map[:, 3:].T
        return known

    def friction_values(self, motion: Motion, stops: Array, rows: Array | None = None) -> Array:
        """Values (N, columns per motor, n) of all blocks; rows: wide rows whose rigid part is written, if there are."""
        load = None
        if "load" in self.friction and self.rigid is not None:
            torque = self.rigid_torque(self.rigid_rows(motion) if rows is None else rows, self.rigid)
            load = torque if self.is_direct else np.asarray(np.linalg.solve(self.transmission.T, torque.T).T)
        return self.shapes.values(motion.t, self.motor(motion.q), self.motor(motion.v), stops, load)

    def place_friction(self, wide: Array, values: Array) -> None:
        """Put values of all blocks where the joints feel them."""
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
        wide = np.zeros((len(motion), self.width))
        self._write_rigid(motion, wide)
        return wide

    def _write_rigid(self, motion: Motion, wide: Array) -> None:
        if self.base_channels:
            self._write_reactions(motion, wide)
        if not self.torque_channels:
            return
        self.write_base(motion, wide)
        for channel in self.torque_channels:
            for position, k in enumerate(channel.extra, start=channel.start + channel.base):
                wide[:, position] = self.extra[k].values(self.robot.joint_names, motion.q, motion.v)

    def write_base(self, motion: Motion, wide: Array) -> None:
        """Base columns of the joint torques."""
        pick, place = self.picks
        write_picked(self.stage.scene(motion), pick, place, wide)

    def momentum_parts(self, motion: Motion) -> tuple[Array, Array]:
        """dL/dqd and dL/dq (N, picked entries) of the base columns; accelerations are not looked at."""
        pick, _ = self.picks
        scene = self.stage.scene(motion)
        momentum = project(scene, write_tree_rows(scene, MOMENTUM)).reshape(len(motion), -1)[:, pick]
        return momentum, LagrangianGradient().rows(scene).reshape(len(motion), -1)[:, pick]

    def _write_reactions(self, motion: Motion, wide: Array) -> None:
        kept = np.array(self.base.kept, dtype=np.int64)
        for start in range(0, len(motion), CHUNK):
            part = slice(start, min(start + CHUNK, len(motion)))
            rows = Reaction().rows(self.stage.scene(motion[part]))
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


def _seen_by(base: BaseParameters, joints: tuple[int, ...]) -> BaseParameters:
    """Base parameters that the torques of some joints reveal, by random samples of their rows."""
    question = base.question
    drawn = draw(question, 3 * len(question.columns) * question.robot.n, 0)
    rows = np.arange(len(drawn.matrix)).reshape(-1, question.robot.n)[:, joints].ravel()
    noise = None if drawn.noise is None else drawn.noise[rows]
    found = find_by_qr(drawn.matrix[rows], left_out=question.known, noise=noise)
    return BaseParameters(question, "qr", found.regrouping, found.gap, found.diagnostics, base.warnings)
