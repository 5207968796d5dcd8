"""Positions, velocities and accelerations of all joints of a tree, passive ones included."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.dynamics.scene import Stage, standard_columns
from dynid.identifiability.samples import random_samples
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


def linear_couplings(robot: Robot) -> tuple[Array, Array]:
    """Positions of the tree's joints from the active ones, G q + offset, couplings of couplings resolved."""
    index = {robot.links[k].joint: i for i, k in enumerate(robot.tree_joints)}
    leaders = {coupling.passive: coupling for coupling in robot.couplings}
    G, offset = np.zeros((len(index), robot.n)), np.zeros(len(index))

    def resolve_coupling(name: str) -> tuple[Array, float]:
        """Row of G and offset of one joint."""
        if name not in leaders:
            return np.eye(robot.n)[robot.joint_names.index(name)], 0.0
        row, constant = np.zeros(robot.n), leaders[name].offset
        for other, factor in leaders[name].factors:
            more, shift = resolve_coupling(other)
            row, constant = row + factor * more, constant + factor * shift
        return row, constant

    for name, i in index.items():
        G[i], offset[i] = resolve_coupling(name)
    return G, offset


@dataclass(frozen=True, eq=False)
class TreeState:
    """Arrays (N, joints of the tree), and G (N, joints of the tree, n), by which torques are projected."""

    q: Array
    v: Array
    a: Array
    G: Array

    @staticmethod
    def of(robot: Robot, motion: Motion) -> TreeState:
        """State of all joints along a motion of the active ones, loops closed."""
        scene = Stage.of(robot, standard_columns(robot, rotor_inertia=True)).scene(motion)
        G = np.broadcast_to(np.eye(robot.n), (len(motion), robot.n, robot.n)) if scene.tree is None else scene.tree.G
        return TreeState(scene.q, scene.v, scene.a, np.asarray(G))

    def project_torques(self, tau: Array) -> Array:
        """Torques (N, n) of the active joints from those of the tree."""
        return np.asarray(np.einsum("Nij,Ni->Nj", self.G, tau))


def random_states(robot: Robot, samples: int) -> Motion:
    """Random states: anywhere for trees, on the given assembly mode for loops, which cannot close everywhere."""
    rng = np.random.default_rng(0)
    q, v, a = (rng.standard_normal((samples, robot.n)) for _ in range(3))
    if robot.closures:
        q = random_samples(robot, samples, 0).q
    return Motion(np.arange(float(samples)), q, v, a)


def assembly_positions(robot: Robot) -> Array:
    """Positions (n,) of the active joints at which the loops were closed first."""
    return next((np.array(c.at) for c in robot.closures if c.at is not None), np.zeros(robot.n))
