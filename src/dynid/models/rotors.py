"""What known rotors that turn faster than their joints do to the base: the moment of their spin.

A rotor with inertia J about its axis u, carried by the link before joint j, spins with ratio * qd_j; the rest of its
motion is the carrier's, whose parameters hold its mass. Its spin is an angular momentum J ratio qd_j u, and the base
feels J ratio (qdd_j u + qd_j omega x u), omega the carrier's angular velocity.
"""

from __future__ import annotations

import numpy as np

from dynid.kernel.poses import angular_velocities, link_poses
from dynid.models.scene import Scene
from dynid.robot.transform import Array


def rotor_moments(scene: Scene) -> Array:
    """Moment (N, 3) of the base on the robot, in frame 0, for the spin of all rotors of known inertia."""
    robot, total = scene.robot, np.zeros((len(scene), 3))
    rotors = () if robot.sensor is None else robot.sensor.rotors
    known = [rotor for rotor in rotors if np.isfinite(rotor.inertia) and rotor.ratio != 1.0]
    if not known:
        return total
    poses = link_poses(robot, scene.q)
    omega = angular_velocities(robot, poses, scene.v)
    place = {robot.links[k].joint: j for j, k in enumerate(robot.tree_joints)}
    carrier = {link.joint: link.parent for link in robot.links}
    for rotor in known:
        link, j = carrier[rotor.joint], place[rotor.joint]
        u = poses.rotation[link] @ rotor.axis
        spin = scene.a[:, j, None] * u + scene.v[:, j, None] * np.cross(omega[link], u)
        total += rotor.inertia * rotor.ratio * spin
    return total
