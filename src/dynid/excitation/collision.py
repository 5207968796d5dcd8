"""Self-collision along a motion, where the robot's URDF has collision geometry (through pinocchio and coal)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

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
    def of(robot: Robot) -> tuple[CollisionChecker | None, str | None]:
        """Return a checker, or a word on why there is none although the file has collision geometry."""
        path = Path(robot.source)
        if path.suffix.lower() != ".urdf" or not path.is_file() or robot.couplings:
            return None, None
        if "<collision" not in path.read_text(encoding="utf-8", errors="replace"):
            return None, None
        import pinocchio as pin

        try:
            model = pin.buildModelFromUrdf(str(path))
            folders = [str(folder) for folder in (*path.resolve().parents[:3], *_packages())]
            geometry = pin.buildGeomFromUrdf(model, str(path), pin.GeometryType.COLLISION, package_dirs=folders)
        except (ValueError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[-1]
            return None, f"self-collision was not checked: {reason}; let ROS_PACKAGE_PATH name the meshes' package"
        geometry.addAllCollisionPairs()
        checker = CollisionChecker(robot, model, geometry)
        checker._forget_touching_pairs()
        return checker, None

    def _forget_touching_pairs(self) -> None:
        """Drop pairs on the same or neighbouring joints, and those that touch in the neutral pose already."""
        import pinocchio as pin

        objects = self.geometry.geometryObjects
        near = self._near(pin.neutral(self.model))
        for k in reversed(range(len(self.geometry.collisionPairs))):
            pair = self.geometry.collisionPairs[k]
            a, b = (objects[i].parentJoint for i in (pair.first, pair.second))
            neighbours = a == b or self.model.parents[a] == b or self.model.parents[b] == a
            if neighbours or near[k]:
                self.geometry.removeCollisionPair(pair)

    def _near(self, q: Array) -> list[bool]:
        import pinocchio as pin

        data, geometry_data = self.model.createData(), pin.GeometryData(self.geometry)
        pin.computeDistances(self.model, data, self.geometry, geometry_data, q)
        return [result.min_distance < SAFETY for result in geometry_data.distanceResults]

    def first_collision(self, motion: Motion) -> str | None:
        """Return the names of two links that come too near and when, or None."""
        step = max(1, round(1.0 / (_RATE * float(np.median(np.diff(motion.t))))))
        for k in range(0, len(motion), step):
            near = self._near(self._configuration(motion.q[k]))
            if any(near):
                pair = self.geometry.collisionPairs[near.index(True)]
                names = [self.geometry.geometryObjects[i].name for i in (pair.first, pair.second)]
                return f"{names[0]} and {names[1]} at {motion.t[k]:.2f} s"
        return None

    def _configuration(self, q: Array) -> Array:
        """Pinocchio's configuration; joints that were locked stay at neutral."""
        import pinocchio as pin

        full = np.array(pin.neutral(self.model))
        for name, value in zip(self.robot.joint_names, q, strict=True):
            joint = self.model.joints[self.model.getJointId(name)]
            if joint.nq == 2:
                full[joint.idx_q : joint.idx_q + 2] = np.cos(value), np.sin(value)
            else:
                full[joint.idx_q] = value
        return full


def _packages() -> list[Path]:
    """Folders of ROS_PACKAGE_PATH, each a package or a folder of packages."""
    named = [Path(word) for word in os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep) if word]
    return [folder for path in named for folder in (path, path.parent)]
