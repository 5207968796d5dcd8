"""Robots of unknown geometry: columns of model parameters X (Ha, Ko & Kwon) in place of base parameters.

Everything else is the same: friction, filters, factors, weights, gate, deviations, recursion.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dynid.concurrency import cached_property
from dynid.dynamics.scene import Column
from dynid.estimation.regression.equation import CHUNK, Indices
from dynid.identifiability.parameters import BaseParameters
from dynid.identifiability.relations import Regrouping
from dynid.identifiability.samples import Question
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.unknown_geometry.model_parameters import ModelParameters, model_parameters


@dataclass(frozen=True, slots=True, eq=False)
class UnknownGeometryQuestion(Question):
    """Columns are the model parameters."""

    found: ModelParameters | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of the model parameters; the link that each names has no meaning."""
        assert self.found is not None
        return tuple(Column(name, -1) for name in self.found.names)

    @property
    def known_zero_columns(self) -> tuple[int, ...]:
        """No columns: known zeros are left out of the model parameters already."""
        return ()


@dataclass(frozen=True, eq=False)
class UnknownGeometryParameters(BaseParameters):
    """Model parameters in the place of base parameters."""

    @property
    def found(self) -> ModelParameters:
        """The model parameters."""
        assert isinstance(self.question, UnknownGeometryQuestion)
        assert self.question.found is not None
        return self.question.found

    @cached_property
    def matrix(self) -> Array:
        """(count, standard parameters) at the nominal geometry."""
        return self.found.matrix()

    def values(self, X: Array) -> Array:
        """Values at the nominal geometry from standard parameters in the table's frames."""
        return self.found.values(self.robot.to_mdh().with_parameters(X))

    @cached_property
    def relations(self) -> tuple[str, ...]:
        """Text of every model parameter in standard parameters and unknowns."""
        return self.found.expressions


@lru_cache(maxsize=16)
def find_model_parameters(robot: Robot, unknown: tuple[str, ...], rotor_inertia: bool) -> UnknownGeometryParameters:
    """Find the model parameters; results are cached by robot."""
    found = model_parameters(robot, unknown=unknown, rotor_inertia=rotor_inertia)
    question = UnknownGeometryQuestion(robot, "torque", rotor_inertia, False, (), found)
    regrouping = Regrouping(tuple(range(found.count)), np.eye(found.count))
    return UnknownGeometryParameters(question, "unknown geometry", regrouping, np.inf, None, found.warnings)


@dataclass(frozen=True, slots=True, eq=False)
class ModelColumns:
    """Columns of model parameters in the place of those of base parameters."""

    found: ModelParameters

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of unknown lengths and angles of the geometry, as they were declared."""
        return self.found.declared

    @property
    def support(self) -> NDArray[np.bool_]:
        """Mask (n, columns) of the columns that a joint's torque can see."""
        return self.found.tables.support

    def write_picked_entries(self, motion: Motion, pick: Indices, place: Indices, wide: Array) -> None:
        """Write the picked entries of the rows along a motion into wide rows."""
        for start in range(0, len(motion), CHUNK):
            part = slice(start, min(start + CHUNK, len(motion)))
            wide[part, place] = self._rows_of_model(motion[part], "torque")[:, pick]

    def momentum_and_lagrangian_gradient(self, motion: Motion, pick: Indices) -> tuple[Array, Array]:
        """Momentum dL/dqd and gradient dL/dq of the picked entries."""
        return self._rows_of_model(motion, "momentum")[:, pick], self._rows_of_model(motion, "lagrangian_gradient")[
            :, pick
        ]

    def _rows_of_model(self, motion: Motion, model: str) -> Array:
        """Rows (N, joints * columns) of "torque", "momentum" or "lagrangian_gradient"."""
        rows = np.empty((len(motion), len(self.support), self.found.count))
        self.found.write(motion, rows, model=model)
        return rows.reshape(len(motion), -1)
