"""Limits of the active joints, infinite where nobody published one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynid.robot.transform import Array, freeze


@dataclass(frozen=True, slots=True)
class JointLimits:
    """Limits of one joint (rad, rad/s, rad/s^2, N m; m and N for prismatic joints)."""

    lower: float = -np.inf
    upper: float = np.inf
    velocity: float = np.inf
    acceleration: float = np.inf
    effort: float = np.inf


UNLIMITED = JointLimits()


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """Limits of n joints: position (n, 2), velocity, acceleration, effort (n,), infinite where unknown."""

    position: Array
    velocity: Array
    acceleration: Array
    effort: Array

    @staticmethod
    def stack(joints: Sequence[JointLimits]) -> Limits:
        """Collect the limits of single joints."""
        return Limits(
            freeze(np.array([(j.lower, j.upper) for j in joints]).reshape(-1, 2)),
            freeze([j.velocity for j in joints]),
            freeze([j.acceleration for j in joints]),
            freeze([j.effort for j in joints]),
        )
