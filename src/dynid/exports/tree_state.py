"""Positions, velocities and accelerations of all joints of a tree whose passive joints follow linearly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


def linear_couplings(robot: Robot) -> tuple[Array, Array]:
    """Positions of the tree's joints from the active ones, G q + offset, couplings of couplings resolved."""
    index = {robot.links[k].joint: i for i, k in enumerate(robot.tree_joints)}
    leaders = {coupling.passive: coupling for coupling in robot.couplings}
    G, offset = np.zeros((len(index), robot.n)), np.zeros(len(index))

    def resolve(name: str) -> tuple[Array, float]:
        if name not in leaders:
            return np.eye(robot.n)[robot.joint_names.index(name)], 0.0
        row, constant = np.zeros(robot.n), leaders[name].offset
        for other, factor in leaders[name].factors:
            more, shift = resolve(other)
            row, constant = row + factor * more, constant + factor * shift
        return row, constant

    for name, i in index.items():
        G[i], offset[i] = resolve(name)
    return G, offset


@dataclass(frozen=True, eq=False)
class TreeState:
    """Arrays (N, joints of the tree), and G (joints of the tree, n), by which torques are projected: tau @ G."""

    q: Array
    v: Array
    a: Array
    G: Array

    @staticmethod
    def of(robot: Robot, motion: Motion) -> TreeState:
        """State of all joints along a motion of the active ones."""
        G, offset = linear_couplings(robot)
        return TreeState(motion.q @ G.T + offset, motion.v @ G.T, motion.a @ G.T, G)
