"""Forces and moments of the base on the robot (N, N m), in frame 0 about its origin: Raucent et al. 1992, eq. 4b.

Where the robot stands on a declared sensor, the readings of its channels. Joint torques, friction and rotors (which
turn with the links here) are inside the robot and do not show.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.errors import ModelError
from dynid.kernel.adjoint import joint_rows_adjoint
from dynid.kernel.rows import TORQUE, write_joint_rows
from dynid.kernel.threads import share_samples
from dynid.models.columns import ColumnSet
from dynid.models.model import to_active
from dynid.models.scene import BASE_CHANNELS, Scene
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


@dataclass(frozen=True, slots=True)
class Reaction:
    """Six rows per sample, Fx Fy Fz Mx My Mz, or those of the sensor's channels."""

    overlap: int = 0

    def channels(self, robot: Robot) -> tuple[str, ...]:
        """Six, or the sensor's; a floating base has nothing to stand on."""
        if robot.floating:
            raise ModelError(
                f"'{robot.name}' has a floating base and no reactions; the torque model gives the wrench on it"
            )
        return BASE_CHANNELS if robot.sensor is None else robot.sensor.channels

    def seen(self, motion: Motion) -> Motion:
        """Return the motion as it is."""
        return motion

    def rows(self, scene: Scene) -> Array:
        """Reactions per unit of each parameter."""
        out = np.zeros((len(scene), 6, len(scene.columns)))

        def work(start: int, stop: int) -> None:
            write_joint_rows(
                scene.geometry, TORQUE, 6, scene.column, scene.rotor, scene.base,
                scene.q[start:stop], scene.v[start:stop], scene.a[start:stop], out[start:stop],
            )  # fmt: skip

        share_samples(len(scene), work)
        sensor = scene.robot.sensor
        return out if sensor is None else np.asarray(np.einsum("cw,Nwp->Ncp", sensor.map, out, optimize=True))

    def adjoint(self, scene: Scene, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * rows)."""
        gq, gv, ga = (np.zeros_like(scene.q) for _ in range(3))
        sensor = scene.robot.sensor
        if sensor is not None:
            weights = np.ascontiguousarray(np.einsum("cw,Ncp->Nwp", sensor.map, weights, optimize=True))

        def work(start: int, stop: int) -> None:
            joint_rows_adjoint(
                scene.geometry, TORQUE, 6, scene.column, scene.rotor, scene.base,
                scene.q[start:stop], scene.v[start:stop], scene.a[start:stop], weights[start:stop],
                gq[start:stop], gv[start:stop], ga[start:stop],
            )  # fmt: skip

        share_samples(len(scene), work)
        return to_active(scene, (gq, gv, ga))

    def support(self, robot: Robot, columns: ColumnSet) -> NDArray[np.bool_]:
        """All links, no rotors."""
        return np.tile(columns.of_links(set(range(len(robot.links)))), (len(self.channels(robot)), 1))
