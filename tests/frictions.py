"""Robots with plain friction, the values that an identification should find, and its matrix written by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import dynid
from dynid.estimation.identification import Identification
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

PLAIN = ("viscous", "coulomb", "offset")
SYMBOL = {"viscous": "Fv", "coulomb": "Fc", "offset": "Fo"}


def with_friction(robot: Robot, seed: int = 0) -> Robot:
    """Nominal friction at every active joint."""
    rng = np.random.default_rng(seed)
    links = tuple(
        replace(link, friction=tuple((name, float(rng.uniform(0.2, 2.0))) for name in PLAIN)) if link.moves else link
        for link in robot.links
    )
    return replace(robot, links=links)


def truth(robot: Robot, result: Identification | dynid.Sequential) -> Array:
    """Nominal values of what was identified, 0 for columns that the robot does not have."""
    base = result.equation.base
    values = dict(zip(base.names, base.values(robot.parameters), strict=True))
    for k in robot.active_links:
        for name, value in robot.links[k].friction:
            values[SYMBOL[name] + robot.links[k].label] = value
    return np.array([values.get(name, 0.0) for name in result.names])


def plain_matrix(robot: Robot, motion: Motion, names: tuple[str, ...]) -> Array:
    """W (N, n, len(names)) of base and plain friction parameters, from the regressor and the definitions."""
    N, n = motion.q.shape
    rigid = dynid.regressor(robot, motion)
    W = rigid.matrix.reshape(N, n, -1)
    labels = [robot.links[k].label for k in robot.active_links]
    out = np.zeros((N, n, len(names)))
    for k, name in enumerate(names):
        if name in robot.parameter_names:
            out[:, :, k] = W[:, :, robot.parameter_names.index(name)]
        else:
            j = labels.index(name[2:])
            out[:, j, k] = {"Fv": motion.v[:, j], "Fc": np.sign(motion.v[:, j]), "Fo": np.ones(N)}[name[:2]]
    return out


def log_of(motion: Motion, tau: Array, name: str = "log") -> dynid.Log:
    """A log with everything recorded."""
    return dynid.Log(motion.t, motion.q, v=motion.v, a=motion.a, tau=tau, name=name)


def torque(robot: Robot, motion: Motion) -> Array:
    """Nominal torques (N, n)."""
    tau = dynid.simulate(robot, motion).tau
    assert tau is not None
    return tau
