"""The same robot built in pinocchio, as an oracle that nobody here wrote."""

from __future__ import annotations

from typing import Any

import numpy as np
import pinocchio as pin

from dynid.robot.inertia import from_pinocchio, to_body
from dynid.robot.motion import Motion
from dynid.robot.robot import Link, Robot
from dynid.robot.transform import Array, Transform


class Twin:
    """A pinocchio model of a robot's open tree, one joint per moving link, fixed links merged by hand."""

    def __init__(self, robot: Robot, *, free_root: bool = False) -> None:
        self.robot = robot
        self.model = pin.Model()
        self.model.gravity = pin.Motion(np.array(robot.gravity), np.zeros(3))
        self.free = free_root or robot.floating
        self.joint: dict[int, int] = {}
        self.pose: dict[int, Any] = {-1: pin.SE3.Identity()}
        self.root = 0
        if self.free:
            self.root = self.model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "root")
        self.joint[-1] = self.root
        for k in depth_first(robot):
            self._add(k, robot.links[k])
        self.data = self.model.createData()

    def _add(self, k: int, link: Link) -> None:
        parent, T = self.joint[link.parent], self.pose[link.parent] * se3(link.placement)
        if link.moves:
            model = pin.JointModelRevoluteUnaligned if link.kind == "revolute" else pin.JointModelPrismaticUnaligned
            self.joint[k] = self.model.addJoint(parent, model(np.array(link.axis)), T, link.joint)
            self.pose[k] = pin.SE3.Identity()
        else:
            self.joint[k], self.pose[k] = parent, T
        if not np.isnan(link.inertia).any():
            body = to_body(link.inertia)
            inertia = pin.Inertia(body.mass, body.com, body.inertia)
            self.model.appendBodyToJoint(self.joint[k], inertia, self.pose[k])

    def order(self, x: Array) -> Array:
        """Pinocchio's order of the joints from the tree's."""
        place = {self.joint[k]: j for j, k in enumerate(self.robot.tree_joints)}
        first = 2 if self.free else 1
        return np.asarray(x[[place[i] for i in range(first, self.model.njoints)]])

    def regressor(self, q: Array, v: Array, a: Array, motion: Motion | None = None, n: int = 0) -> Array:
        """Torque regressor: free-root rows first, then joints in the tree's order; columns as links, ten each.

        Needs a twin whose links all move (or is the base).
        """
        q, v, a = self.order(q), self.order(v), self.order(a)
        if self.free:
            pose, twist, rate = np.array([0.0, 0, 0, 0, 0, 0, 1]), np.zeros(6), np.zeros(6)
            if motion is not None and motion.base_pose is not None:
                assert motion.base_velocity is not None
                assert motion.base_acceleration is not None
                pose, twist, rate = motion.base_pose[n], motion.base_velocity[n], motion.base_acceleration[n]
            q, v, a = np.concatenate([pose, q]), np.concatenate([twist, v]), np.concatenate([rate, a])
        Y = np.array(pin.computeJointTorqueRegressor(self.model, self.data, q, v, a)).reshape(self.model.nv, -1)
        rows = [self.model.joints[self.joint[k]].idx_v for k in self.robot.tree_joints]
        if self.free:
            rows = [*range(6), *rows]
        blocks = [from_pinocchio(Y[rows, 10 * (self.joint[k] - 1) :][:, :10]) for k in range(len(self.robot.links))]
        return np.hstack(blocks)

    def torque(self, q: Array, v: Array, a: Array) -> Array:
        """Inverse dynamics with the nominal inertias, rotors left out, in the tree's order."""
        tau = pin.rnea(self.model, self.data, self.order(q), self.order(v), self.order(a))
        return np.asarray(tau[[self.model.joints[self.joint[k]].idx_v for k in self.robot.tree_joints]])

    def energy(self, q: Array, v: Array) -> float:
        """Kinetic plus potential energy."""
        q, v = self.order(q), self.order(v)
        kinetic = pin.computeKineticEnergy(self.model, self.data, q, v)
        return float(kinetic + pin.computePotentialEnergy(self.model, self.data, q))


def depth_first(robot: Robot) -> list[int]:
    """Links so that every subtree stands together: pinocchio's derivatives rely on it."""
    order: list[int] = []
    stack = [k for k in reversed(range(len(robot.links))) if robot.links[k].parent == -1]
    while stack:
        k = stack.pop()
        order.append(k)
        stack += [c for c in reversed(range(len(robot.links))) if robot.links[c].parent == k]
    return order


def se3(T: Transform) -> Any:
    """Pinocchio's pose."""
    return pin.SE3(np.array(T.rotation), np.array(T.translation))
