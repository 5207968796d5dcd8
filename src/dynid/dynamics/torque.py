"""Joint torques (N m, N): the inverse dynamic model, Gautier 1991, eq. 5."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.dynamics.kernels.adjoints import joint_rows_adjoint
from dynid.dynamics.kernels.geometry import Gradient, Integers
from dynid.dynamics.kernels.rows import TORQUE, write_joint_rows, write_picked_rows
from dynid.dynamics.kernels.threads import run_on_sample_ranges
from dynid.dynamics.model import gradient_by_active, joint_channels, joint_support, project_to_active, weights_on_tree
from dynid.dynamics.scene import ColumnSet, Scene, with_zero_velocities
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


@dataclass(frozen=True, slots=True)
class JointRows:
    """Rows of a wrench-like quantity per joint: torques here, momenta in a sibling."""

    mode: int = TORQUE
    overlap: int = 0

    def channels(self, robot: Robot) -> tuple[str, ...]:
        """One per active joint; a floating base adds the wrench on it."""
        return joint_channels(robot)

    def observed_motion(self, motion: Motion) -> Motion:
        """Return the motion as it is."""
        return motion

    def rows(self, scene: Scene) -> Array:
        """Torques per unit of each parameter."""
        return project_to_active(scene, write_tree_rows(scene, self.mode))

    def adjoint(self, scene: Scene, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * rows)."""
        gradient = tree_rows_adjoint(scene, self.mode, weights_on_tree(scene, weights))
        by_G = None
        if scene.robot.closures:
            rows = write_tree_rows(scene, self.mode)[:, scene.base_rows :]
            by_G = np.einsum("Nip,Njp->Nij", rows, weights[:, scene.base_rows :], optimize=True)
        return gradient_by_active(scene, gradient, by_G)

    def support(self, robot: Robot, columns: ColumnSet) -> NDArray[np.bool_]:
        """Zeros above the chain."""
        return joint_support(robot, columns, rotor=True)


class Torque(JointRows):
    """Joint torques; of a floating base also the wrench on it, in its own frame."""


def write_picked_torques(scene: Scene, pick: Integers, place: Integers, out: Array) -> None:
    """Write chosen entries of the torque rows: out[n, place[e]] is entry pick[e] of sample n's (n * columns,) row."""
    if scene.tree is not None:
        rows = project_to_active(scene, write_tree_rows(scene, TORQUE))
        out[:, place] = rows.reshape(len(rows), -1)[:, pick]
        return

    layout = scene.layout(TORQUE)

    def write_sample_range(start: int, stop: int) -> None:
        write_picked_rows(scene.geometry, layout, scene.samples(start, stop), pick, place, out[start:stop])

    run_on_sample_ranges(len(scene), write_sample_range)


def write_tree_rows(scene: Scene, mode: int) -> Array:
    """Rows (N, base rows + joints of the tree, columns)."""
    layout = scene.layout(mode)
    out = np.zeros((len(scene), layout.rows, layout.p))

    def write_sample_range(start: int, stop: int) -> None:
        write_joint_rows(scene.geometry, layout, scene.samples(start, stop), out[start:stop])

    run_on_sample_ranges(len(scene), write_sample_range)
    return out


def tree_rows_adjoint(scene: Scene, mode: int, weights: Array) -> tuple[Array, Array, Array]:
    """Gradient of sum(weights * tree rows) by the tree's q, v, a."""
    layout, gradient = scene.layout(mode), Gradient(*(np.zeros_like(scene.q) for _ in range(3)))

    def differentiate_sample_range(start: int, stop: int) -> None:
        samples, part = scene.samples(start, stop), gradient.samples_between(start, stop)
        joint_rows_adjoint(scene.geometry, layout, samples, weights[start:stop], part)

    run_on_sample_ranges(len(scene), differentiate_sample_range)
    return gradient


# Torques at zero velocity, d0 of Gautier 1991, eq. 8: accelerations stay.


class Static(JointRows):
    """The torque model with all velocities set to zero."""

    def observed_motion(self, motion: Motion) -> Motion:
        """Return the motion with zero velocities."""
        return with_zero_velocities(motion)

    def adjoint(self, scene: Scene, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * rows); velocities do not matter."""
        gq, gv, ga = super().adjoint(scene, weights)
        return gq, np.zeros_like(gv), ga
