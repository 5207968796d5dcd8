"""Generalised momentum dL/dqd (N m s, N s): the integral form of the dynamics, Ha, Ko & Kwon, eq. 2.26."""

from __future__ import annotations

from dataclasses import dataclass

from dynid.kernel.rows import MOMENTUM
from dynid.models.torque import JointRows


@dataclass(frozen=True, slots=True)
class Momentum(JointRows):
    """The momentum of every joint; of a floating base also its own, in its frame."""

    mode: int = MOMENTUM
