"""Torques at zero velocity, d0 of Gautier 1991, eq. 8: accelerations stay."""

from __future__ import annotations

import numpy as np

from dynid.models.scene import Scene, at_rest
from dynid.models.torque import JointRows
from dynid.robot.motion import Motion
from dynid.robot.transform import Array


class Static(JointRows):
    """The torque model with all velocities set to zero."""

    def seen(self, motion: Motion) -> Motion:
        """Return the motion with zero velocities."""
        return at_rest(motion)

    def adjoint(self, scene: Scene, weights: Array) -> tuple[Array, Array, Array]:
        """Gradient of sum(weights * rows); velocities do not matter."""
        gq, gv, ga = super().adjoint(scene, weights)
        return gq, np.zeros_like(gv), ga
