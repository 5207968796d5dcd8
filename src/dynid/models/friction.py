"""Friction and offset columns of a joint's own torque: Fv v, Fc sign(v), Fo."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynid.errors import ModelError
from dynid.models.columns import Column
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


class FrictionBlock(NamedTuple):
    """One column per active joint: the symbol of its parameters and their units for turning and sliding joints."""

    symbol: str
    turning: str
    sliding: str


FRICTION = {
    "viscous": FrictionBlock("Fv", "N m s", "N s/m"),
    "coulomb": FrictionBlock("Fc", "N m", "N"),
    "offset": FrictionBlock("Fo", "N m", "N"),
}


def friction_columns(robot: Robot, blocks: tuple[str, ...]) -> tuple[Column, ...]:
    """Columns of the blocks, block by block, joint by joint."""
    unknown = [name for name in blocks if name not in FRICTION]
    if unknown:
        raise ModelError(f"there is no friction block '{unknown[0]}'; blocks are {', '.join(FRICTION)}")
    columns = []
    for name in blocks:
        block = FRICTION[name]
        for k in robot.active_links:
            link = robot.links[k]
            unit = block.turning if link.kind == "revolute" else block.sliding
            columns.append(Column(block.symbol + link.label, unit, "friction", k))
    return tuple(columns)


def friction_rows(motion: Motion, blocks: tuple[str, ...]) -> Array:
    """Rows (N, n, len(blocks) * n): each joint's friction acts on its own torque."""
    N, n = motion.v.shape
    values = {"viscous": motion.v, "coulomb": np.sign(motion.v), "offset": np.ones((N, n))}
    rows = np.zeros((N, n, len(blocks) * n))
    for b, name in enumerate(blocks):
        for j in range(n):
            rows[:, j, b * n + j] = values[name][:, j]
    return rows
