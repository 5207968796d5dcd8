"""Energy differences (J) between samples: Gautier 1991, eq. 10 and 11.

Rows are h(k+1) - h(k): the functions h themselves have constants in them that would count as columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.dynamics.kernels.adjoints import scalar_rows_adjoint
from dynid.dynamics.kernels.geometry import Gradient
from dynid.dynamics.kernels.rows import ENERGY, POWER, write_scalar_rows
from dynid.dynamics.kernels.threads import run_on_sample_ranges
from dynid.dynamics.model import gradient_by_active
from dynid.dynamics.scene import ColumnSet, Scene
from dynid.errors import MotionError
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

# Power (W) of all joints: torque times velocity, the derivative of the energy model.


@dataclass(frozen=True, slots=True)
class Power:
    """Power (W) of all joints: one row per sample."""

    overlap: int = 0

    def channels(self, robot: Robot) -> tuple[str, ...]:
        """Name of the one row per sample: power."""
        return ("power",)

    def observed_motion(self, motion: Motion) -> Motion:
        """Return the motion unchanged: power depends on all of it."""
        return motion

    def rows(self, scene: Scene) -> Array:
        """Rows (N, 1, columns): power per unit of each parameter."""
        return power_or_energy_rows(scene, POWER)[:, None, :]

    def adjoint(self, scene: Scene, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * rows) by the active q, v, a."""
        return gradient_by_active(scene, power_or_energy_adjoint(scene, POWER, weights[:, 0]))

    def support(self, robot: Robot, columns: ColumnSet) -> NDArray[np.bool_]:
        """Mask (1, columns) of entries that can be nonzero: all."""
        return np.ones((1, len(columns)), dtype=np.bool_)


def power_or_energy_rows(scene: Scene, mode: int) -> Array:
    """Rows (N, columns) of power or energy, as the mode says."""
    layout, out = scene.row_layout(mode), np.zeros((len(scene), len(scene.columns)))

    def write_sample_range(start: int, stop: int) -> None:
        write_scalar_rows(scene.geometry, layout, scene.samples_between(start, stop), out[start:stop])

    run_on_sample_ranges(len(scene), write_sample_range)
    return out


def power_or_energy_adjoint(scene: Scene, mode: int, weights: Array) -> tuple[Array, Array, Array]:
    """Gradient of sum(weights * rows) by the tree's q, v, a; weights (N, columns)."""
    layout, gradient = scene.row_layout(mode), Gradient(*(np.zeros_like(scene.q) for _ in range(3)))
    weights = np.ascontiguousarray(weights)

    def differentiate_sample_range(start: int, stop: int) -> None:
        samples, part = scene.samples_between(start, stop), gradient.samples_between(start, stop)
        scalar_rows_adjoint(scene.geometry, layout, samples, weights[start:stop], part)

    run_on_sample_ranges(len(scene), differentiate_sample_range)
    return gradient


@dataclass(frozen=True, slots=True)
class Energy:
    """Kinetic plus potential energy gained from one sample to the next: N - 1 rows."""

    overlap: int = 1

    def channels(self, robot: Robot) -> tuple[str, ...]:
        """Name of the one row per pair of samples: energy."""
        return ("energy",)

    def observed_motion(self, motion: Motion) -> Motion:
        """Return the motion unchanged; raise where it has fewer than two samples."""
        if len(motion) < 2:
            raise MotionError(
                "too_few_samples", "the energy model takes differences between samples and needs at least two",
            )  # fmt: skip
        return motion

    def rows(self, scene: Scene) -> Array:
        """Rows (N - 1, 1, columns): energy gained from sample to sample per unit of each parameter."""
        return np.diff(power_or_energy_rows(scene, ENERGY), axis=0)[:, None, :]

    def adjoint(self, scene: Scene, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * rows) by the active q, v, a."""
        h = np.zeros((len(scene), len(scene.columns)))
        h[1:] += weights[:, 0]
        h[:-1] -= weights[:, 0]
        return gradient_by_active(scene, power_or_energy_adjoint(scene, ENERGY, h))

    def support(self, robot: Robot, columns: ColumnSet) -> NDArray[np.bool_]:
        """Mask (1, columns) of entries that can be nonzero: all."""
        return np.ones((1, len(columns)), dtype=np.bool_)
