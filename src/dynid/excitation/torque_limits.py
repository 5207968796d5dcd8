"""Torques of the nominal robot along a motion, against their limits: a penalty while searching, a check at the end."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dynid.excitation.criteria import BaseRows
from dynid.excitation.quintics import PathGradient, Quintics, hermite_values, penalty_along_path
from dynid.excitation.shape import middle_and_half_range
from dynid.messages import Message
from dynid.robot.motion import Motion
from dynid.robot.robot import Limits, Robot
from dynid.robot.transform import Array

_SAFETY = 0.97
"""The optimiser keeps this share of a torque limit, the check all of it."""


_POSTURES, CONFINED = 500, 0.5
"""Random postures that are tried; a robot that torques can hold still in less than this share of them is confined."""


@dataclass(frozen=True, slots=True, eq=False)
class HeldPostures:
    """Share of the postures inside the limits that torques can hold, the easiest one (n,), and who lacks most often."""

    share: float
    easiest: Array
    joint: str

    def warning(self) -> Message:
        """Message on torques that keep a motion from most of its range."""
        return Message(
            "efforts_confine_motion", "the effort limits can hold the robot still in {percent:.2g} % of the postures "
            "inside the position limits only, most often for joint '{joint}': the motion is confined to these",
            "raise that limit, or reduce the payload, for a better "
            "design", percent=100.0 * self.share, joint=self.joint,
        )  # fmt: skip


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

    def excess_over_limits(self, path: Quintics, share: Array, instants: int) -> PathGradient:
        """Sum of squared torques beyond a share (n,) of the limits, over so many instants of a path's segments."""
        basis = hermite_values(np.linspace(0.0, 1.0, instants))
        return penalty_along_path(path, basis, replace(self, limit=self.limit * share).torque_penalty)

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

    def held_postures(self, limits: Limits, seed: int = 0) -> HeldPostures | None:
        """Which of random postures inside the position limits can be held; None where loops need not close in them."""
        robot = self.rows.robot
        if robot.closures:
            return None
        middle, half = middle_and_half_range(limits)
        half = np.where(np.isfinite(half), half, np.pi)
        q = middle + half * np.random.default_rng(seed).uniform(-1.0, 1.0, (_POSTURES, len(half)))
        shares = self.holding_torque_shares(q)
        most = shares.max(axis=1)
        joint = robot.joint_names[int(np.argmax((shares >= 1.0).mean(axis=0)))]
        return HeldPostures(float((most < 1.0).mean()), q[int(np.argmin(most))], joint)
