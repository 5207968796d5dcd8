"""Torque limits along a motion, with the robot's nominal parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import tostring

import numpy as np

from dynid.errors import DynidError
from dynid.excitation.quintics import PathGradient, Quintics, gradient_by_nodes, hermite_values, states_at_instants
from dynid.excitation.regressor_rows import BaseRows
from dynid.messages import Message, Option
from dynid.robot.io.meshes import LEVELS, MeshFolders
from dynid.robot.io.xml import read_xml
from dynid.robot.motion import Motion
from dynid.robot.robot import Limits, Robot
from dynid.robot.transform import Array

_SAFETY = 0.97
"""The optimiser keeps this share of a torque limit, the check all of it."""
_INSTANTS = 9
"""Instants of a path's segment at which its torques are seen, both ends included."""
_BASIS = hermite_values(np.linspace(0.0, 1.0, _INSTANTS))


@dataclass(frozen=True, slots=True, eq=False)
class Effort:
    """Torques of the nominal robot against their limits, effort (n,)."""

    rows: BaseRows
    XB: Array
    limit: Array

    @staticmethod
    def for_robot(robot: Robot, limits: Limits) -> Effort | None:
        """Effort limits of a robot; None where there are none or a nominal parameter that matters is unknown."""
        if not np.isfinite(limits.effort).any():
            return None
        from dynid.identifiability.base_parameters import base_parameters

        base = base_parameters(robot)
        XB = base.values(robot.parameters)
        if np.isnan(XB).any():
            return None
        return Effort(BaseRows.for_robot(robot, model="torque", rotor_inertia=True, friction=()), XB, limits.effort)

    def torque_penalty(self, motion: Motion) -> tuple[float, tuple[Array, Array, Array]]:
        """Mean over samples of squared torques beyond the limits, and its gradient by q, v, a."""
        rows = self.rows.rows_along(motion)
        tau = (rows.matrix() @ self.XB).reshape(len(motion), -1)
        over = np.maximum(np.abs(tau) / self.limit - _SAFETY, 0.0)
        if not over.any():
            zero = np.zeros_like(motion.q)
            return 0.0, (zero, zero, zero)
        by_tau = 2.0 * over * np.sign(tau) / self.limit / len(motion)
        weights = by_tau.reshape(-1, 1) * self.XB
        return float((over**2).sum() / len(motion)), rows.adjoint(weights)

    def excess_over_limits(self, path: Quintics, share: Array) -> PathGradient:
        """Sum of squared torques beyond a share (n,) of the limits, over instants of a path's segments."""
        states = states_at_instants(path, _BASIS)
        S, n, M = states[0].shape
        q, v, a = (x.transpose(0, 2, 1).reshape(-1, n) for x in states)
        mean, by = replace(self, limit=self.limit * share).torque_penalty(Motion(np.arange(float(S * M)), q, v, a))
        slopes = [S * M * g.reshape(S, M, n).transpose(0, 2, 1) for g in by]
        return gradient_by_nodes(path, _BASIS, S * M * mean, states, slopes)

    def torque_shares(self, motion: Motion) -> Array:
        """Torque over limit at each sample, (N, n), with its sign."""
        return np.asarray((self.rows.matrix(motion) @ self.XB).reshape(len(motion), -1) / self.limit)

    def use_of_limits(self, motion: Motion) -> Array:
        """Peak torque over limit, (n,): on the samples, plus a bound on what may rise between them.

        Between samples a function exceeds them by at most an eighth of its second difference; twice the largest
        one seen is allowed for.
        """
        shares = self.torque_shares(motion)
        bend = np.abs(np.diff(shares, n=2, axis=0)).max(axis=0, initial=0.0)
        return np.asarray(np.abs(shares).max(axis=0) + 0.25 * bend)

    def holding_torque_shares(self, q: Array) -> Array:
        """Torques (N, n) that hold the robot still at poses q (N, n), over their limits."""
        return np.abs(self.torque_shares(Motion(np.arange(float(len(q))), q, np.zeros_like(q), np.zeros_like(q))))


# Self-collision along a motion, where the robot's URDF has collision geometry (through pinocchio and coal).


SAFETY = 0.01
"""Links nearer than this (m) count as colliding."""

_RATE = 20.0


@dataclass(frozen=True, slots=True, eq=False)
class CollisionChecker:
    """Pairs of links that are apart in the rest pose and must stay apart."""

    robot: Robot
    model: Any
    geometry: Any

    @staticmethod
    def for_robot(robot: Robot) -> tuple[CollisionChecker | None, Message | None]:
        """Return a checker; None, with a warning on why, where the collision geometry cannot be used."""
        path = Path(robot.source)
        if path.suffix.lower() not in (".urdf", ".xacro") or not path.is_file() or robot.couplings:
            return None, None
        root = read_xml(path, "robot", "is this a URDF?", text=robot.description)
        meshes = [mesh for shape in root.iter("collision") for mesh in shape.iter("mesh")]
        if next(root.iter("collision"), None) is None:
            return None, None
        import pinocchio as pin

        folders = MeshFolders.for_urdf(path, levels=LEVELS, package_path=robot.package_path)
        try:
            for mesh in meshes:
                mesh.set("filename", f"file://{folders.find_mesh(mesh.get('filename', ''))}")
            text = tostring(root, encoding="unicode")
            model = pin.buildModelFromXML(text)
            geometry = pin.buildGeomFromUrdfString(model, text, pin.GeometryType.COLLISION)
        except (ValueError, RuntimeError, DynidError) as error:
            reason = str(error).strip().splitlines()[-1]
            return None, Message(
                "self_collision_not_checked", "self-collision was not checked: {reason}",
                "name the folder of the meshes' package with {option}", reason=reason, option=Option("package_path"),
            )  # fmt: skip
        geometry.addAllCollisionPairs()
        checker = CollisionChecker(robot, model, geometry)
        checker._drop_touching_pairs()
        return checker, None

    def _drop_touching_pairs(self) -> None:
        """Drop pairs on the same or neighbouring joints, and those that touch in the neutral pose already."""
        import pinocchio as pin

        objects = self.geometry.geometryObjects
        near = self._too_near_pairs(pin.neutral(self.model))
        for k in reversed(range(len(self.geometry.collisionPairs))):
            pair = self.geometry.collisionPairs[k]
            a, b = (objects[i].parentJoint for i in (pair.first, pair.second))
            neighbours = a == b or self.model.parents[a] == b or self.model.parents[b] == a
            if neighbours or near[k]:
                self.geometry.removeCollisionPair(pair)

    def _too_near_pairs(self, q: Array) -> list[bool]:
        """Whether each pair of links is nearer than the safety distance."""
        import pinocchio as pin

        data, geometry_data = self.model.createData(), pin.GeometryData(self.geometry)
        pin.computeDistances(self.model, data, self.geometry, geometry_data, q)
        return [result.min_distance < SAFETY for result in geometry_data.distanceResults]

    def first_collision(self, motion: Motion) -> str | None:
        """Return the names of two links that come too near and when, or None."""
        step = max(1, round(1.0 / (_RATE * float(np.median(np.diff(motion.t))))))
        for k in range(0, len(motion), step):
            near = self._too_near_pairs(self._pinocchio_configuration(motion.q[k]))
            if any(near):
                pair = self.geometry.collisionPairs[near.index(True)]
                names = [self.geometry.geometryObjects[i].name for i in (pair.first, pair.second)]
                return f"{names[0]} and {names[1]} at {motion.t[k]:.2f} s"
        return None

    def _pinocchio_configuration(self, q: Array) -> Array:
        """Pinocchio's configuration, with joints that were locked where they are."""
        import pinocchio as pin

        full = np.array(pin.neutral(self.model))
        for name, value in (*self.robot.locks.items(), *zip(self.robot.joint_names, q, strict=True)):
            joint = self.model.joints[self.model.getJointId(name)]
            if joint.nq == 2:
                full[joint.idx_q : joint.idx_q + 2] = np.cos(value), np.sin(value)
            else:
                full[joint.idx_q] = value
        return full
