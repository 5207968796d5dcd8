"""The matrix that an identification would solve: a model's base columns along a motion, with their adjoint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.base.find import base_parameters
from dynid.errors import FIX_THE_BASE, ExcitationError
from dynid.models.columns import standard_columns
from dynid.models.friction import friction_columns, friction_rows
from dynid.models.regressor import find_model
from dynid.models.scene import Stage
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

MODELS = ("torque", "energy", "momentum", "reaction")


@dataclass(frozen=True, slots=True, eq=False)
class BaseRows:
    """W (rows, b) on the base columns of a model, with friction columns last where wanted.

    A declared force sensor whose offsets are not known adds a column per channel, as in the identification.

    kept: columns of the standard regressor; names of all b columns; support (channels, b): entries that are not
    structurally zero.
    """

    robot: Robot
    model: str
    stage: Stage
    kept: NDArray[np.int64]
    friction: tuple[str, ...]
    names: tuple[str, ...]
    support: NDArray[np.bool_]

    @staticmethod
    def of(robot: Robot, *, model: str, rotor_inertia: bool, friction: tuple[str, ...], seed: int = 0) -> BaseRows:
        """Find the base columns and what of them can be nonzero."""
        if model not in MODELS:
            raise ExcitationError(f"excitation is designed for {', '.join(MODELS)}, not for '{model}'")
        if friction and model != "torque":
            raise ExcitationError("friction and offset columns belong to the torque model")
        if robot.floating:
            raise ExcitationError(
                f"'{robot.name}' floats; a motion of its joints alone is designed on a fixed base; {FIX_THE_BASE}"
            )
        tared = model == "reaction" and robot.sensor is not None and robot.sensor.is_tared
        base = base_parameters(robot, model=model, rotor_inertia=rotor_inertia, tared=tared)
        stage = Stage.of(robot, standard_columns(robot, rotor_inertia=rotor_inertia))
        names = (*base.names, *(column.name for column in friction_columns(robot, friction)))
        if robot.sensor is not None and tared:
            names = (*names, *(f"O{channel}" for channel in robot.sensor.channels))
        rows = BaseRows(robot, model, stage, np.array(base.kept), friction, names, np.zeros((0, 0), dtype=np.bool_))
        support = rows._find_support(seed)
        return BaseRows(robot, model, stage, rows.kept, friction, names, support)

    @property
    def channels(self) -> int:
        """Rows of a sample."""
        return len(find_model(self.model).channels(self.robot))

    @property
    def units(self) -> tuple[str, ...]:
        """Units of the parameters of all columns."""
        base = (self.stage.columns.columns[k].unit for k in self.kept)
        friction = tuple(column.unit for column in friction_columns(self.robot, self.friction))
        offsets = self.names[len(self.kept) + len(friction) :]
        return (*base, *friction, *("N" if name.startswith("OF") else "N m" for name in offsets))

    def matrix(self, motion: Motion) -> Array:
        """W (rows, b), sample by sample."""
        model = find_model(self.model)
        rows = model.rows(self.stage.scene(model.seen(motion)))[:, :, self.kept]
        if self.friction:
            rows = np.concatenate([rows, friction_rows(motion, self.friction)], axis=2)
        offsets = len(self.names) - rows.shape[2]
        if offsets:
            rows = np.concatenate([rows, np.broadcast_to(np.eye(offsets), (len(rows), offsets, offsets))], axis=2)
        return rows.reshape(-1, rows.shape[2])

    def adjoint(self, motion: Motion, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * W) by q, v, a; the slope of sign(v) counts as zero."""
        model = find_model(self.model)
        scene = self.stage.scene(model.seen(motion))
        parts = weights.reshape(-1, self.channels, weights.shape[1])
        full = np.zeros((*parts.shape[:2], len(self.stage.columns)))
        full[:, :, self.kept] = parts[:, :, : len(self.kept)]
        gq, gv, ga = model.adjoint(scene, full)
        if "viscous" in self.friction:
            first = len(self.kept) + self.friction.index("viscous") * self.robot.n
            for j in range(self.robot.n):
                gv[:, j] += parts[:, j, first + j]
        return gq, gv, ga

    def mask(self, rows: int) -> NDArray[np.bool_]:
        """Entries of a matrix of so many rows that are not structurally zero."""
        return np.tile(self.support, (rows // self.channels, 1))

    def _find_support(self, seed: int) -> NDArray[np.bool_]:
        rng = np.random.default_rng(seed)
        q, v, a = rng.uniform(-1.0, 1.0, (3, 40, self.robot.n))
        W = self.matrix(Motion(np.arange(40.0), q, v, a))
        size = np.abs(W.reshape(-1, self.channels, W.shape[1])).max(axis=0)
        return np.asarray(size > 1e-12 * size.max())
