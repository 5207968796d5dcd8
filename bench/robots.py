"""The robots and motions that are timed."""

from __future__ import annotations

import math

import numpy as np

from dynid.robot.motion import Motion
from dynid.robot.robot import Robot

Row = dict[str, float]


def robot_of(joints: int) -> Robot:
    """Robot with 3 (the first of PUMA), 6 (PUMA 560), 7 (Panda) or 30 joints (a tree like a humanoid)."""
    rows = {3: puma()[:3], 6: puma(), 7: panda(), 30: humanoid()}[joints]
    return Robot.from_mdh(rows, name=f"{joints} joints")


def chain_of(joints: int) -> Robot:
    """Serial chain of revolute joints at alternating right angles, all lengths nonzero."""
    lengths = tuple(np.linspace(0.1, 0.4, joints))
    alpha = tuple(90 if k % 2 == 0 else -90 for k in range(joints))
    return Robot.from_mdh(mdh_rows(alpha=alpha, d=lengths, r=lengths[::-1]), name=f"chain of {joints}")


def puma() -> list[Row]:
    """PUMA 560, Gautier 1991, table 1."""
    return mdh_rows(alpha=(0, -90, 0, -90, 90, -90), d=(0, 0, 0.5, 0.02, 0, 0), r=(0, 0, 0.2, 0.6, 0, 0))


def panda() -> list[Row]:
    """Franka Emika Panda."""
    return mdh_rows(
        alpha=(0, -90, 90, 90, -90, 90, 90),
        d=(0, 0, 0, 0.0825, -0.0825, 0, 0.088),
        r=(0.333, 0, 0.316, 0, 0.384, 0, 0),
    )


def humanoid() -> list[Row]:
    """Five chains of six joints from the base, as two legs, two arms and a neck."""
    rows: list[Row] = []
    for limb in range(5):
        lengths = np.linspace(0.1, 0.4, 6)
        chain = mdh_rows(alpha=(90, -90) * 3, d=tuple(lengths), r=tuple(lengths[::-1]))
        chain[0] |= {"parent": 0, "gamma": math.radians(72 * limb)}
        rows += chain
    return rows


def mdh_rows(*, alpha: tuple[float, ...], d: tuple[float, ...], r: tuple[float, ...]) -> list[Row]:
    """Rows of revolute joints; alpha in degrees, d and r in m."""
    return [{"alpha": math.radians(x), "d": y, "r": z} for x, y, z in zip(alpha, d, r, strict=True)]


def random_motion(robot: Robot, samples: int) -> Motion:
    """Independent samples, the same in every run."""
    rng = np.random.default_rng(7)
    q, v, a = (rng.standard_normal((samples, robot.n)) for _ in range(3))
    return Motion(np.arange(samples, dtype=np.float64), q, v, a)
