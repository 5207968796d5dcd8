"""Gradient of the Lagrangian dL/dq (N m, N), the other half of the integral form: d(momentum)/dt - dL/dq = torque."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.dynamics.kernels.adjoints import lagrangian_rows_adjoint
from dynid.dynamics.kernels.geometry import Gradient
from dynid.dynamics.kernels.rows import MOMENTUM, write_lagrangian_rows
from dynid.dynamics.kernels.threads import run_on_sample_ranges
from dynid.dynamics.model import gradient_by_active, joint_channels, joint_support, project_to_active, weights_on_tree
from dynid.dynamics.scene import ColumnSet, Scene
from dynid.dynamics.torque import JointRows, tree_rows_adjoint, write_tree_rows
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


@dataclass(frozen=True, slots=True)
class LagrangianGradient:
    """dL/dq of every joint; in a closed loop G' dL/dq + Gdot' dL/dqd."""

    overlap: int = 0

    def channels(self, robot: Robot) -> tuple[str, ...]:
        """One per active joint; a floating base adds six."""
        return joint_channels(robot)

    def observed_motion(self, motion: Motion) -> Motion:
        """Return the motion as it is."""
        return motion

    def rows(self, scene: Scene) -> Array:
        """Slope of the Lagrangian per unit of each parameter."""
        rows = project_to_active(scene, _lagrangian_tree_rows(scene))
        if scene.tree is not None and scene.robot.closures:
            momentum = write_tree_rows(scene, MOMENTUM)[:, scene.base_rows :]
            rows[:, scene.base_rows :] += np.einsum("Nij,Nip->Njp", scene.tree.Gdot, momentum, optimize=True)
        return rows

    def adjoint(self, scene: Scene, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * rows)."""
        weights_tree = weights_on_tree(scene, weights)
        layout, gradient = scene.layout(MOMENTUM), Gradient(*(np.zeros_like(scene.q) for _ in range(3)))

        def differentiate_sample_range(start: int, stop: int) -> None:
            samples, part = scene.samples(start, stop), gradient.samples_between(start, stop)
            lagrangian_rows_adjoint(scene.geometry, layout, samples, weights_tree[start:stop], part)

        run_on_sample_ranges(len(scene), differentiate_sample_range)
        if scene.tree is None or not scene.robot.closures:
            return gradient_by_active(scene, gradient)
        joint_weights = weights[:, scene.base_rows :]
        bent = np.zeros_like(weights_tree)
        bent[:, scene.base_rows :] = np.einsum("Nij,Njp->Nip", scene.tree.Gdot, joint_weights, optimize=True)
        mq, mv, _ = tree_rows_adjoint(scene, MOMENTUM, bent)
        by_G, by_Gdot = (
            np.einsum("Nip,Njp->Nij", rows[:, scene.base_rows :], joint_weights, optimize=True)
            for rows in (_lagrangian_tree_rows(scene), write_tree_rows(scene, MOMENTUM))
        )
        return gradient_by_active(scene, (gradient.q + mq, gradient.qd + mv, gradient.qdd), by_G, by_Gdot)

    def support(self, robot: Robot, columns: ColumnSet) -> NDArray[np.bool_]:
        """Zeros above the chain; rotors have a momentum but no slope."""
        return joint_support(robot, columns, rotor=bool(robot.closures))


def _lagrangian_tree_rows(scene: Scene) -> Array:
    """Rows of dL/dq of the base and all joints of the tree."""
    layout = scene.layout(MOMENTUM)
    out = np.zeros((len(scene), layout.rows, layout.p))

    def write_sample_range(start: int, stop: int) -> None:
        write_lagrangian_rows(scene.geometry, layout, scene.samples(start, stop), out[start:stop])

    run_on_sample_ranges(len(scene), write_sample_range)
    return out


# Generalised momentum dL/dqd (N m s, N s): the integral form of the dynamics, Ha, Ko & Kwon, eq. 2.26.


@dataclass(frozen=True, slots=True)
class Momentum(JointRows):
    """The momentum of every joint; of a floating base also its own, in its frame."""

    mode: int = MOMENTUM
