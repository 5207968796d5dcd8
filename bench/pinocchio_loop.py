"""What a user of pinocchio writes today: a Python loop over the samples, with a copy of each result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pinocchio as pin

from dynid.dynamics.regressor import regressor
from dynid.robot.inertia import from_pinocchio
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


class PinocchioLoop:
    """A robot of revolute joints about z in pinocchio, and the loop."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self.model = model_of(robot)
        self.data = self.model.createData()

    def write_regressor(self, motion: Motion, out: Array) -> None:
        """Fill out (N, n, 10 n)."""
        model, data, q, v, a = self.model, self.data, motion.q, motion.v, motion.a
        for k in range(len(motion)):
            out[k] = pin.computeJointTorqueRegressor(model, data, q[k], v[k], a[k])

    def check_against_dynid(self, motion: Motion) -> None:
        """Raise unless both write the same numbers: a timing of different work would say nothing."""
        n = self.robot.n
        ours = regressor(self.robot, motion, rotor_inertia=False).matrix.reshape(len(motion), n, n, 10)
        theirs = np.empty((len(motion), n, 10 * n))
        self.write_regressor(motion, theirs)
        np.testing.assert_allclose(ours, from_pinocchio(theirs.reshape(ours.shape)), rtol=1e-9, atol=1e-9)


def model_of(robot: Robot) -> Any:
    """Pinocchio's model, with its fastest kind of joint."""
    model = pin.Model()
    model.gravity = pin.Motion(np.array(robot.gravity), np.zeros(3))
    for k in robot.topological_order:
        link = robot.links[k]
        if k not in robot.tree_joints or link.kind != "revolute" or tuple(link.axis) != (0.0, 0.0, 1.0):
            raise ValueError(f"link '{link.name}' does not turn about its z axis")
        pose = pin.SE3(np.array(link.placement.rotation), np.array(link.placement.translation))
        model.addJoint(link.parent + 1, pin.JointModelRZ(), pose, link.joint)
    return model
