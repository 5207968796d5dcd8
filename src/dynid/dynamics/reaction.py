"""Forces and moments of the base on the robot (N, N m), in frame 0 about its origin.

Rows of the reaction model of Raucent et al. 1992, eq. 4b, 6a, 6d, 7, 8.

Where the robot stands on a declared sensor, the readings of its channels. Joint torques, friction and rotors (which
turn with the links here) are inside the robot and do not show.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.dynamics.kernels.adjoints import joint_rows_adjoint
from dynid.dynamics.kernels.geometry import Gradient, Poses, RowLayout, angular_motion, link_poses
from dynid.dynamics.kernels.rows import TORQUE, write_joint_rows
from dynid.dynamics.kernels.threads import run_on_sample_ranges
from dynid.dynamics.model import gradient_by_active, project_to_active
from dynid.dynamics.scene import BASE_CHANNELS, ColumnSet, Scene
from dynid.errors import ModelError
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


@dataclass(frozen=True, slots=True)
class Reaction:
    """Six rows per sample, Fx Fy Fz Mx My Mz, or those of the sensor's channels."""

    overlap: int = 0

    def channels(self, robot: Robot) -> tuple[str, ...]:
        """Names of the rows: six, or the sensor's; raise for a floating base, which stands on nothing."""
        if robot.floating:
            raise ModelError(
                "floating_base", "'{robot}' has a floating base and no reactions", "the torque model gives the wrench "
                "on it", robot=robot.name,
            )  # fmt: skip
        return BASE_CHANNELS if robot.sensor is None else robot.sensor.channels

    def observed_motion(self, motion: Motion) -> Motion:
        """Return the motion unchanged: reactions depend on all of it."""
        return motion

    def rows(self, scene: Scene) -> Array:
        """Reactions per unit of each parameter."""
        layout, out = _base_rows_layout(scene), np.zeros((len(scene), 6, len(scene.columns)))

        def write_sample_range(start: int, stop: int) -> None:
            write_joint_rows(scene.geometry, layout, scene.samples_between(start, stop), out[start:stop])

        run_on_sample_ranges(len(scene), write_sample_range)
        sensor = scene.robot.sensor
        return (
            out
            if sensor is None
            else np.asarray(np.einsum("cw,Nwp->Ncp", sensor.wrench_to_readings, out, optimize=True))
        )

    def adjoint(self, scene: Scene, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * rows) by the active q, v, a."""
        layout, gradient = _base_rows_layout(scene), Gradient(*(np.zeros_like(scene.q) for _ in range(3)))
        sensor = scene.robot.sensor
        if sensor is not None:
            weights = np.ascontiguousarray(np.einsum("cw,Ncp->Nwp", sensor.wrench_to_readings, weights, optimize=True))

        def differentiate_sample_range(start: int, stop: int) -> None:
            samples, part = scene.samples_between(start, stop), gradient.samples_between(start, stop)
            joint_rows_adjoint(scene.geometry, layout, samples, weights[start:stop], part)

        run_on_sample_ranges(len(scene), differentiate_sample_range)
        return gradient_by_active(scene, gradient)

    def support(self, robot: Robot, columns: ColumnSet) -> NDArray[np.bool_]:
        """Mask (channels, columns) of entries that can be nonzero: all links, no rotors."""
        return np.tile(columns.mask_of_links(set(range(len(robot.links)))), (len(self.channels(robot)), 1))


def _base_rows_layout(scene: Scene) -> RowLayout:
    """Row layout of the base frame alone, without the joints."""
    return scene.row_layout(TORQUE)._replace(channels=6, rows=6)


# What rotors of known inertia that turn faster than their joints do to the base and to the joints.
#
# A rotor with inertia J about its axis u, carried by the link before joint j, spins with n qd_j; the rest of its
# motion is the carrier's, whose parameters hold its mass. With the carrier's angular velocity w its kinetic energy has
# two terms more, n J qd_j u.w and (n^2 J) qd_j^2 / 2. The last is that of Ia. The first is an angular momentum n J
# qd_j u, whose rate m = n J (qdd_j u + qd_j w x u) comes from the base through all joints i before the carrier, tau_i
# += z_i.m, and it loads joint j with n J u.dw/dt.


def rotor_moments(scene: Scene) -> Array:
    """Moment (N, 3) of the base on the robot, in frame 0, for the spin of all rotors of known inertia."""
    return np.asarray(sum((m for _, _, m, _ in _rotor_spins(scene)[1]), np.zeros((len(scene), 3))))


def rotor_torques(scene: Scene, *, behind_gear: bool = False) -> Array:
    """Joint torques (N, n) of the rotors' spins in addition to Ia qdd; behind the gear without a joint's own rotor."""
    poses, spins = _rotor_spins(scene)
    robot, tau = scene.robot, np.zeros((len(scene), len(scene.robot.tree_joints), 1))
    column = {k: j for j, k in enumerate(robot.tree_joints)}
    for j, carrier, moment, own in spins:
        tau[:, j, 0] += 0.0 if behind_gear else own
        while carrier >= 0:
            link = robot.links[carrier]
            if link.kind == "revolute":
                tau[:, column[carrier], 0] += ((poses.rotation[carrier] @ link.axis) * moment).sum(axis=1)
            carrier = link.parent
    return project_to_active(scene, tau)[:, :, 0]


def _rotor_spins(scene: Scene) -> tuple[Poses, list[tuple[int, int, Array, Array]]]:
    """Poses, and per rotor: its joint's place in the tree, its carrier, moment m (N, 3) and n J u.dw/dt (N,)."""
    robot, spins = scene.robot, []
    poses = link_poses(robot, scene.q)
    omega, alpha = angular_motion(robot, poses, scene.v, scene.a)
    place = {robot.links[k].joint: j for j, k in enumerate(robot.tree_joints)}
    parent = {link.joint: link.parent for link in robot.links}
    for rotor in () if robot.sensor is None else robot.sensor.spinning_rotors:
        carrier, j = parent[rotor.joint], place[rotor.joint]
        u, nJ = poses.rotation[carrier] @ rotor.axis, rotor.ratio * rotor.inertia
        moment = nJ * (scene.a[:, j, None] * u + scene.v[:, j, None] * np.cross(omega[carrier], u))
        spins.append((j, carrier, moment, nJ * (u * alpha[carrier]).sum(axis=1)))
    return poses, spins
