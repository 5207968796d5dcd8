"""Energy differences (J) between samples: Gautier 1991, eq. 10 and 11.

Rows are h(k+1) - h(k): the functions h themselves have constants in them that would count as columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.errors import MotionError
from dynid.kernel.rows import ENERGY
from dynid.models.columns import ColumnSet
from dynid.models.model import to_active
from dynid.models.power import rows_adjoint, write_rows
from dynid.models.scene import Scene
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


@dataclass(frozen=True, slots=True)
class Energy:
    """Kinetic plus potential energy gained from one sample to the next: N - 1 rows."""

    overlap: int = 1

    def channels(self, robot: Robot) -> tuple[str, ...]:
        """One channel."""
        return ("energy",)

    def seen(self, motion: Motion) -> Motion:
        """Return the motion as it is; two samples are the least."""
        if len(motion) < 2:
            raise MotionError("the energy model takes differences between samples and needs at least two")
        return motion

    def rows(self, scene: Scene) -> Array:
        """Energy gained per unit of each parameter."""
        return np.diff(write_rows(scene, ENERGY), axis=0)[:, None, :]

    def adjoint(self, scene: Scene, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * rows)."""
        h = np.zeros((len(scene), len(scene.columns)))
        h[1:] += weights[:, 0]
        h[:-1] -= weights[:, 0]
        return to_active(scene, rows_adjoint(scene, ENERGY, h))

    def support(self, robot: Robot, columns: ColumnSet) -> NDArray[np.bool_]:
        """Everything may move."""
        return np.ones((1, len(columns)), dtype=np.bool_)
