"""Torque limits along a motion, with the robot's nominal parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dynid.excitation.base_rows import BaseRows
from dynid.excitation.quintics import Quintics, Slopes, hermite_values, pull_to_nodes, states_at
from dynid.robot.limits import Limits
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
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
        rows = self.rows.along(motion)
        tau = (rows.matrix() @ self.XB).reshape(len(motion), -1)
        over = np.maximum(np.abs(tau) / self.limit - _SAFETY, 0.0)
        if not over.any():
            zero = np.zeros_like(motion.q)
            return 0.0, (zero, zero, zero)
        by_tau = 2.0 * over * np.sign(tau) / self.limit / len(motion)
        weights = by_tau.reshape(-1, 1) * self.XB
        return float((over**2).sum() / len(motion)), rows.adjoint(weights)

    def excess(self, path: Quintics, share: Array) -> Slopes:
        """Squares of what exceeds a share (n,) of the limits, summed over instants of each segment of a path."""
        states = states_at(path, _BASIS)
        S, n, M = states[0].shape
        q, v, a = (x.transpose(0, 2, 1).reshape(-1, n) for x in states)
        mean, by = replace(self, limit=self.limit * share).penalty(Motion(np.arange(float(S * M)), q, v, a))
        slopes = [S * M * g.reshape(S, M, n).transpose(0, 2, 1) for g in by]
        return pull_to_nodes(path, _BASIS, S * M * mean, states, slopes)

    def shares(self, motion: Motion) -> Array:
        """Torque over limit at each sample, (N, n), with its sign."""
        return np.asarray((self.rows.matrix(motion) @ self.XB).reshape(len(motion), -1) / self.limit)

    def use(self, motion: Motion) -> Array:
        """Peak torque over limit, (n,): on the samples, plus a bound on what may rise between them.

        Between samples a function exceeds them by at most an eighth of its second difference; twice the largest
        one seen is allowed for.
        """
        shares = self.shares(motion)
        bend = np.abs(np.diff(shares, n=2, axis=0)).max(axis=0, initial=0.0)
        return np.asarray(np.abs(shares).max(axis=0) + 0.25 * bend)

    def holding(self, q: Array) -> Array:
        """Share of the limits that it takes to hold the robot still at poses q (N, n), (N, n)."""
        return np.abs(self.shares(Motion(np.arange(float(len(q))), q, np.zeros_like(q), np.zeros_like(q))))
