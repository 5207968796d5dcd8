"""The matrix that an identification would solve: a model's base columns along a motion, with their adjoint."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dynid.dynamics.friction import HARMONICS, PLAIN, find_friction_block, friction_columns, friction_rows
from dynid.dynamics.regressor import find_model
from dynid.dynamics.scene import Scene, Stage, standard_columns
from dynid.errors import FIX_THE_BASE, ExcitationError
from dynid.identifiability.base_parameters import base_parameters, cached_base_parameters
from dynid.identifiability.samples import random_samples
from dynid.robot.motion import Motion
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

MODELS = ("torque", "energy", "momentum", "reaction")
COLLINEAR = 1e-9
"""Share of a friction column at random samples that is left beside the columns before it, where that counts as none."""


@dataclass(frozen=True, slots=True, eq=False)
class BaseRows:
    """W (rows, b) on the base columns of a model, with friction columns last where wanted.

    A declared force sensor whose offsets are not known adds a column per channel, as in the identification.

    kept: columns of the standard regressor; names of all b columns; support (channels, b): entries that are not
    structurally zero. rounding (n,): velocities over which sign(v) of Coulomb friction is rounded to tanh, for searches
    that need gradients; None leaves it sharp. free (b,): columns among the base and all friction columns, where some of
    these are left out because they are collinear with others (the offset of a vertical prismatic joint); None: all.
    """

    robot: Robot
    model: str
    stage: Stage
    kept: NDArray[np.int64]
    friction: tuple[str, ...]
    names: tuple[Parameter, ...]
    support: NDArray[np.bool_]
    rounding: Array | None = None
    free: NDArray[np.int64] | None = None

    @staticmethod
    def for_robot(
        robot: Robot, *, model: str, rotor_inertia: bool, friction: tuple[str, ...], seed: int = 0
    ) -> BaseRows:
        """Find the base columns of a robot and which of their entries can be nonzero."""
        if model not in MODELS:
            raise ExcitationError(
                "model_not_for_excitation", "excitation is designed for {models}, not for '{model}'",
                models=list(MODELS), model=model,
            )  # fmt: skip
        if friction and model != "torque":
            raise ExcitationError("columns_need_torque_model", "friction and offset columns belong to the torque model")
        if robot.floating:
            raise ExcitationError(
                "floating_base", "'{robot}' floats; a motion of its joints alone is designed on a fixed base",
                "{fixed_base}", robot=robot.name, fixed_base=FIX_THE_BASE,
            )  # fmt: skip
        tared = model == "reaction" and robot.sensor is not None and robot.sensor.is_tared
        base = base_parameters(robot, model=model, rotor_inertia=rotor_inertia, tared=tared)
        stage = Stage.for_robot(robot, standard_columns(robot, rotor_inertia=rotor_inertia))
        names = (*base.names, *(column.name for column in friction_columns(robot, friction)))
        if robot.sensor is not None and tared:
            names = (*names, *robot.sensor.offset_parameters)
        rows = BaseRows(robot, model, stage, np.array(base.kept), friction, names, np.zeros((0, 0), dtype=np.bool_))
        if friction:
            rows = rows._without_collinear_friction(seed)
        return replace(rows, support=rows._find_support(seed))

    @property
    def rows_per_sample(self) -> int:
        """Number of rows of a sample."""
        return len(find_model(self.model).channels(self.robot))

    @property
    def units(self) -> tuple[str, ...]:
        """Units of the parameters of all columns."""
        return tuple(name.unit for name in self.names)

    def base_matrix(self) -> Array:
        """Matrix (base, standard parameters) that regroups standard parameters into those of the base columns."""
        rotors = len(self.stage.columns) == len(self.robot.parameter_names)
        return cached_base_parameters(self.robot, model=self.model, rotor_inertia=rotors).matrix

    def rows_along(self, motion: Motion) -> RowsAlong:
        """The rows of one motion: closed loops are solved once for W and its adjoint."""
        return RowsAlong(self, motion, self.stage.scene_along(find_model(self.model).observed_motion(motion)))

    def matrix(self, motion: Motion) -> Array:
        """W (rows, b), sample by sample."""
        return self.rows_along(motion).matrix()

    def adjoint(self, motion: Motion, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * W) by q, v, a; the gradient of a sharp sign(v) counts as zero."""
        return self.rows_along(motion).adjoint(weights)

    def with_rounded_signs(self, widths: Array) -> BaseRows:
        """Return the rows with sign(v) rounded over velocities `widths` (n,), so that it has a gradient."""
        return replace(self, rounding=widths)

    def friction_column(self, block: str) -> int:
        """First column of a friction block that has one symbol."""
        before = self.friction[: self.friction.index(block)]
        return len(self.kept) + sum(len(find_friction_block(name).symbols) for name in before) * self.robot.n

    @property
    def full_width(self) -> int:
        """Number of base and friction columns, collinear ones included."""
        return len(self.kept) + len(friction_columns(self.robot, self.friction))

    def warm_up(self) -> None:
        """Run rows and adjoint once, so that they are compiled before a search counts its time or forks."""
        along = self.rows_along(self._random_motion(0))
        along.adjoint(np.ones_like(along.matrix()))

    def nonzero_entries(self, rows: int) -> NDArray[np.bool_]:
        """Entries of a matrix of so many rows that are not structurally zero."""
        return np.tile(self.support, (rows // self.rows_per_sample, 1))

    def _random_motion(self, seed: int) -> Motion:
        """Forty random samples inside the limits."""
        q, v, a = np.random.default_rng(seed).uniform(-1.0, 1.0, (3, 40, self.robot.n))
        if self.robot.closures:
            q = random_samples(self.robot, 40, seed).q
        return Motion(np.arange(40.0), q, v, a)

    def _without_collinear_friction(self, seed: int) -> BaseRows:
        """Return the rows without friction columns that are combinations of columns before them."""
        W = self.matrix(self._random_motion(seed))
        R = np.linalg.qr(W / np.maximum(np.linalg.norm(W, axis=0), COLLINEAR), mode="r")
        rigid = np.arange(len(self.names)) < len(self.kept)
        free = np.flatnonzero(rigid | (np.abs(np.diag(R)) > COLLINEAR))
        if len(free) == len(self.names):
            return self
        return replace(self, free=free, names=tuple(self.names[k] for k in free))

    def _find_support(self, seed: int) -> NDArray[np.bool_]:
        """Entries (channels, b) that are not zero at random samples."""
        W = self.matrix(self._random_motion(seed))
        size = np.abs(W.reshape(-1, self.rows_per_sample, W.shape[1])).max(axis=0)
        return np.asarray(size > 1e-12 * size.max())


@dataclass(frozen=True, slots=True, eq=False)
class RowsAlong:
    """W along one motion and its adjoint, on the same scene."""

    rows: BaseRows
    motion: Motion
    scene: Scene

    def matrix(self) -> Array:
        """W (rows, b), sample by sample."""
        rows = self.rows
        W = find_model(rows.model).rows(self.scene)[:, :, rows.kept]
        if rows.friction:
            W = np.concatenate([W, friction_rows(self.motion, rows.friction)], axis=2)
        if rows.rounding is not None and "coulomb" in rows.friction:
            joints = np.arange(rows.robot.n)
            W[:, joints, rows.friction_column("coulomb") + joints] = np.tanh(self.motion.v / rows.rounding)
        if rows.free is not None:
            W = W[:, :, rows.free]
        offsets = len(rows.names) - W.shape[2]
        if offsets:
            W = np.concatenate([W, np.broadcast_to(np.eye(offsets), (len(W), offsets, offsets))], axis=2)
        return W.reshape(-1, W.shape[2])

    def adjoint(self, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * W) by q, v, a; the gradient of a sharp sign(v) counts as zero."""
        rows = self.rows
        parts = weights.reshape(-1, rows.rows_per_sample, weights.shape[1])
        if rows.free is not None:
            chosen, parts = parts, np.zeros((*parts.shape[:2], rows.full_width))
            parts[:, :, rows.free] = chosen
        full = np.zeros((*parts.shape[:2], len(rows.stage.columns)))
        full[:, :, rows.kept] = parts[:, :, : len(rows.kept)]
        gq, gv, ga = find_model(rows.model).adjoint(self.scene, full)
        joints = np.arange(rows.robot.n)
        if "viscous" in rows.friction:
            gv += parts[:, joints, rows.friction_column("viscous") + joints]
        if rows.rounding is not None and "coulomb" in rows.friction:
            slope = (1.0 - np.tanh(self.motion.v / rows.rounding) ** 2) / rows.rounding
            gv += slope * parts[:, joints, rows.friction_column("coulomb") + joints]
        for block in rows.friction:
            if block not in PLAIN:
                for k, (by_q, by_v) in enumerate(_friction_slopes(block, self.motion.q, self.motion.v)):
                    part = parts[:, joints, rows.friction_column(block) + k * rows.robot.n + joints]
                    gq, gv = gq + by_q * part, gv + by_v * part
        return gq, gv, ga


STEP = 1e-6
"""Of differences of friction columns, rad and rad/s."""


def _friction_slopes(block: str, q: Array, v: Array) -> list[tuple[Array, Array]]:
    """Slopes (N, n) by q and v of each column of a block, jumps of a sign left out; none of blocks with a memory."""
    if block in HARMONICS:
        k = HARMONICS[block]
        return [(k * np.cos(k * q), 0.0 * v), (-k * np.sin(k * q), 0.0 * v)]
    value = find_friction_block(block).value
    if value is None:
        return []
    ends = [value(q + STEP, v), value(q - STEP, v), value(q, v + STEP), value(q, v - STEP)]
    smooth = np.abs(v) > STEP
    return [
        ((after - before) / (2.0 * STEP), np.where(smooth, (faster - slower) / (2.0 * STEP), 0.0))
        for after, before, faster, slower in zip(*ends, strict=True)
    ]
