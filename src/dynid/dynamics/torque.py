"""Joint torques (N m, N), momenta and the gradient of the Lagrangian, row by row of the joints.

Torques: the inverse dynamic model, Gautier 1991, eq. 5. Momenta and dL/dq: the two halves of the integral form,
d(momentum)/dt - dL/dq = torque.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.dynamics.kernels.adjoints import joint_rows_adjoint, lagrangian_rows_adjoint
from dynid.dynamics.kernels.geometry import Gradient, Integers
from dynid.dynamics.kernels.rows import MOMENTUM, TORQUE, write_joint_rows, write_lagrangian_rows, write_picked_rows
from dynid.dynamics.kernels.threads import run_on_sample_ranges
from dynid.dynamics.model import (
    gradient_by_active,
    joint_channels,
    joint_support,
    project_to_active,
    weights_of_tree_rows,
)
from dynid.dynamics.scene import ColumnSet, Scene, with_zero_velocities
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


@dataclass(frozen=True, slots=True)
class JointRows:
    """Rows of a wrench-like quantity per joint: torques here, momenta in `Momentum`."""

    mode: int = TORQUE
    overlap: int = 0

    def channels(self, robot: Robot) -> tuple[str, ...]:
        """Names of the rows: one per active joint; a floating base adds the wrench on it."""
        return joint_channels(robot)

    def observed_motion(self, motion: Motion) -> Motion:
        """Return the motion unchanged: torques and momenta depend on all of it."""
        return motion

    def rows(self, scene: Scene) -> Array:
        """Rows (N, channels, columns): torques (or momenta) per unit of each parameter."""
        return project_to_active(scene, tree_rows(scene, self.mode))

    def adjoint(self, scene: Scene, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * rows) by the active q, v, a."""
        gradient = tree_rows_adjoint(scene, self.mode, weights_of_tree_rows(scene, weights))
        by_G = None
        if scene.robot.closures:
            rows = tree_rows(scene, self.mode)[:, scene.base_row_count :]
            by_G = np.einsum("Nip,Njp->Nij", rows, weights[:, scene.base_row_count :], optimize=True)
        return gradient_by_active(scene, gradient, by_G)

    def support(self, robot: Robot, columns: ColumnSet) -> NDArray[np.bool_]:
        """Mask (channels, columns) of entries that can be nonzero: a joint's torque sees the links beyond it."""
        return joint_support(robot, columns, rotor=True)


class Torque(JointRows):
    """Joint torques; of a floating base also the wrench on it, in its own frame."""


def write_picked_torques(scene: Scene, pick: Integers, place: Integers, out: Array) -> None:
    """Write chosen entries of the torque rows: out[n, place[e]] is entry pick[e] of sample n's (n * columns,) row."""
    if scene.tree is not None:
        rows = project_to_active(scene, tree_rows(scene, TORQUE))
        out[:, place] = rows.reshape(len(rows), -1)[:, pick]
        return

    layout = scene.row_layout(TORQUE)

    def write_sample_range(start: int, stop: int) -> None:
        write_picked_rows(scene.geometry, layout, scene.samples_between(start, stop), pick, place, out[start:stop])

    run_on_sample_ranges(len(scene), write_sample_range)


def tree_rows(scene: Scene, mode: int) -> Array:
    """Rows (N, base rows + joints of the tree, columns) of torque or momentum, as the mode says."""
    layout = scene.row_layout(mode)
    out = np.zeros((len(scene), layout.rows, layout.p))

    def write_sample_range(start: int, stop: int) -> None:
        write_joint_rows(scene.geometry, layout, scene.samples_between(start, stop), out[start:stop])

    run_on_sample_ranges(len(scene), write_sample_range)
    return out


def tree_rows_adjoint(scene: Scene, mode: int, weights: Array) -> tuple[Array, Array, Array]:
    """Gradient of sum(weights * tree rows) by the tree's q, v, a."""
    layout, gradient = scene.row_layout(mode), Gradient(*(np.zeros_like(scene.q) for _ in range(3)))

    def differentiate_sample_range(start: int, stop: int) -> None:
        samples, part = scene.samples_between(start, stop), gradient.samples_between(start, stop)
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


@dataclass(frozen=True, slots=True)
class LagrangianGradient:
    """dL/dq of every joint; in a closed loop G' dL/dq + Gdot' dL/dqd."""

    overlap: int = 0

    def channels(self, robot: Robot) -> tuple[str, ...]:
        """Names of the rows: one per active joint; a floating base adds six."""
        return joint_channels(robot)

    def observed_motion(self, motion: Motion) -> Motion:
        """Return the motion unchanged; accelerations do not matter."""
        return motion

    def rows(self, scene: Scene) -> Array:
        """Rows (N, channels, columns): dL/dq per unit of each parameter."""
        rows = project_to_active(scene, _lagrangian_tree_rows(scene))
        if scene.tree is not None and scene.robot.closures:
            momentum = tree_rows(scene, MOMENTUM)[:, scene.base_row_count :]
            rows[:, scene.base_row_count :] += np.einsum("Nij,Nip->Njp", scene.tree.Gdot, momentum, optimize=True)
        return rows

    def adjoint(self, scene: Scene, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * rows) by the active q, v, a."""
        weights_tree = weights_of_tree_rows(scene, weights)
        layout, gradient = scene.row_layout(MOMENTUM), Gradient(*(np.zeros_like(scene.q) for _ in range(3)))

        def differentiate_sample_range(start: int, stop: int) -> None:
            samples, part = scene.samples_between(start, stop), gradient.samples_between(start, stop)
            lagrangian_rows_adjoint(scene.geometry, layout, samples, weights_tree[start:stop], part)

        run_on_sample_ranges(len(scene), differentiate_sample_range)
        if scene.tree is None or not scene.robot.closures:
            return gradient_by_active(scene, gradient)
        joint_weights = weights[:, scene.base_row_count :]
        bent = np.zeros_like(weights_tree)
        bent[:, scene.base_row_count :] = np.einsum("Nij,Njp->Nip", scene.tree.Gdot, joint_weights, optimize=True)
        mq, mv, _ = tree_rows_adjoint(scene, MOMENTUM, bent)
        by_G, by_Gdot = (
            np.einsum("Nip,Njp->Nij", rows[:, scene.base_row_count :], joint_weights, optimize=True)
            for rows in (_lagrangian_tree_rows(scene), tree_rows(scene, MOMENTUM))
        )
        return gradient_by_active(scene, (gradient.q + mq, gradient.qd + mv, gradient.qdd), by_G, by_Gdot)

    def support(self, robot: Robot, columns: ColumnSet) -> NDArray[np.bool_]:
        """Mask (channels, columns) of entries that can be nonzero: links beyond the joint, no rotors."""
        return joint_support(robot, columns, rotor=bool(robot.closures))


def _lagrangian_tree_rows(scene: Scene) -> Array:
    """Rows of dL/dq of the base and all joints of the tree."""
    layout = scene.row_layout(MOMENTUM)
    out = np.zeros((len(scene), layout.rows, layout.p))

    def write_sample_range(start: int, stop: int) -> None:
        write_lagrangian_rows(scene.geometry, layout, scene.samples_between(start, stop), out[start:stop])

    run_on_sample_ranges(len(scene), write_sample_range)
    return out


# Generalised momentum dL/dqd (N m s, N s): the integral form of the dynamics, Ha, Ko & Kwon, eq. 2.26.


@dataclass(frozen=True, slots=True)
class Momentum(JointRows):
    """The momentum of every joint; of a floating base also its own, in its frame."""

    mode: int = MOMENTUM
