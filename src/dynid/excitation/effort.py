"""Torque limits along a motion, with the robot's nominal parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.excitation.base_rows import BaseRows
from dynid.robot.limits import Limits
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

_SAFETY = 0.97
"""The optimiser keeps this share of a torque limit, the check all of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Effort:
    """Torques of the nominal robot against their limits, effort (n,)."""

    rows: BaseRows
    XB: Array
    limit: Array

    @staticmethod
    def of(robot: Robot, limits: Limits) -> Effort | None:
        """None where no effort is limited or a nominal parameter that matters is unknown."""
        if not np.isfinite(limits.effort).any():
            return None
        from dynid.base.find import base_parameters

        base = base_parameters(robot)
        XB = base.values(robot.parameters)
        if np.isnan(XB).any():
            return None
        return Effort(BaseRows.of(robot, model="torque", rotor_inertia=True, friction=()), XB, limits.effort)

    def penalty(self, motion: Motion) -> tuple[float, tuple[Array, Array, Array]]:
        """Squares of what exceeds the limits, mean over samples, and its gradient by q, v, a."""
        tau = (self.rows.matrix(motion) @ self.XB).reshape(len(motion), -1)
        over = np.maximum(np.abs(tau) / self.limit - _SAFETY, 0.0)
        if not over.any():
            zero = np.zeros_like(motion.q)
            return 0.0, (zero, zero, zero)
        by_tau = 2.0 * over * np.sign(tau) / self.limit / len(motion)
        weights = by_tau.reshape(-1, 1) * self.XB
        return float((over**2).sum() / len(motion)), self.rows.adjoint(motion, weights)

    def use(self, motion: Motion) -> Array:
        """Peak torque over limit, (n,): on the samples, plus a bound on what may rise between them.

        Between samples a function exceeds them by at most an eighth of its second difference; twice the largest
        one seen is allowed for.
        """
        tau = (self.rows.matrix(motion) @ self.XB).reshape(len(motion), -1)
        bend = np.abs(np.diff(tau, n=2, axis=0)).max(axis=0, initial=0.0)
        return np.asarray((np.abs(tau).max(axis=0) + 0.25 * bend) / self.limit)
