"""What rotors of known inertia that turn faster than their joints do to the base and to the joints.

A rotor with inertia J about its axis u, carried by the link before joint j, spins with n qd_j; the rest of its motion
is the carrier's, whose parameters hold its mass. With the carrier's angular velocity w its kinetic energy has two terms
more, n J qd_j u.w and (n^2 J) qd_j^2 / 2. The last is that of Ia. The first is an angular momentum n J qd_j u, whose
rate m = n J (qdd_j u + qd_j w x u) comes from the base through all joints i before the carrier, tau_i += z_i.m, and it
loads joint j with n J u.dw/dt.
"""

from __future__ import annotations

import numpy as np

from dynid.kernel.poses import Poses, angular_motion, link_poses
from dynid.models.model import project
from dynid.models.scene import Scene
from dynid.robot.transform import Array


def rotor_moments(scene: Scene) -> Array:
    """Moment (N, 3) of the base on the robot, in frame 0, for the spin of all rotors of known inertia."""
    return np.asarray(sum((m for _, _, m, _ in _spins(scene)[1]), np.zeros((len(scene), 3))))


def rotor_torques(scene: Scene, *, behind_gear: bool = False) -> Array:
    """Joint torques (N, n) of these spins beside Ia qdd; behind the gear a joint's own rotor does not show."""
    poses, spins = _spins(scene)
    robot, tau = scene.robot, np.zeros((len(scene), len(scene.robot.tree_joints), 1))
    column = {k: j for j, k in enumerate(robot.tree_joints)}
    for j, carrier, moment, own in spins:
        tau[:, j, 0] += 0.0 if behind_gear else own
        while carrier >= 0:
            link = robot.links[carrier]
            if link.kind == "revolute":
                tau[:, column[carrier], 0] += ((poses.rotation[carrier] @ link.axis) * moment).sum(axis=1)
            carrier = link.parent
    return project(scene, tau)[:, :, 0]


def _spins(scene: Scene) -> tuple[Poses, list[tuple[int, int, Array, Array]]]:
    """Of every rotor: its joint's place in the tree, its carrier, the moment m (N, 3), and n J u.dw/dt (N,)."""
    robot, spins = scene.robot, []
    poses = link_poses(robot, scene.q)
    omega, alpha = angular_motion(robot, poses, scene.v, scene.a)
    place = {robot.links[k].joint: j for j, k in enumerate(robot.tree_joints)}
    parent = {link.joint: link.parent for link in robot.links}
    for rotor in () if robot.sensor is None else robot.sensor.spinning:
        carrier, j = parent[rotor.joint], place[rotor.joint]
        u, nJ = poses.rotation[carrier] @ rotor.axis, rotor.ratio * rotor.inertia
        moment = nJ * (scene.a[:, j, None] * u + scene.v[:, j, None] * np.cross(omega[carrier], u))
        spins.append((j, carrier, moment, nJ * (u * alpha[carrier]).sum(axis=1)))
    return poses, spins
