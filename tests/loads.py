"""Robots that carry a known body, and logs of runs with and without it."""

from __future__ import annotations

import numpy as np

import dynid
from dynid.robot.inertia import SYMBOLS
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from fourier import fourier_motion
from frictions import with_friction
from robots import random_inertia

LOAD = dynid.payload_parameters(2.0, (0.05, -0.03, 0.12), (0.02, 0.001, -0.002, 0.03, 0.001, 0.015))


def robot_with_friction(name: str) -> Robot:
    """A bundled robot with values and plain friction; the Panda gets invented values."""
    robot = dynid.load_robot(name)
    if not np.isfinite(robot.parameters).all():
        rng = np.random.default_rng(3)
        robot = robot.with_parameters(np.concatenate([np.append(random_inertia(rng), 0.1) for _ in range(robot.n)]))
    return with_friction(robot)


def carrying(robot: Robot, p: Array, link: int = -1) -> Robot:
    """The robot with a body of parameters p on one link."""
    X, label = robot.parameters.copy(), robot.links[link].label
    X[[robot.parameter_names.index(symbol + label) for symbol in SYMBOLS]] += p
    return robot.with_parameters(X)


def log_along(robot: Robot, motion: Motion, *, noise: float = 0.0, q_noise: float = 0.0, seed: int = 0) -> dynid.Log:
    """A log; noise: share of the spread of every torque; with noise on q, velocities are not recorded."""
    log = dynid.simulate(robot, motion)
    assert log.tau is not None
    rng = np.random.default_rng(seed)
    tau = log.tau + noise * log.tau.std(axis=0) * rng.standard_normal(log.tau.shape)
    name = f"log {seed}"
    if q_noise:
        return dynid.Log(log.t, log.q + q_noise * rng.standard_normal(log.q.shape), tau=tau, name=name)
    return dynid.Log(log.t, log.q, v=log.v, a=log.a, tau=tau, name=name)


def two_logs(
    robot: Robot, p: Array, *, link: int = -1, seed: int = 0, rate: float = 100.0, noise: float = 0.0,
    q_noise: float = 0.0, motion: int = 1,
) -> tuple[dynid.Log, dynid.Log]:  # fmt: skip
    """Logs with and without the body, on different motions."""
    with_it = fourier_motion(robot, seed=motion + 1, rate=rate)
    without = fourier_motion(robot, seed=motion, rate=rate)
    return (
        log_along(carrying(robot, p, link), with_it, noise=noise, q_noise=q_noise, seed=2 * seed + 1),
        log_along(robot, without, noise=noise, q_noise=q_noise, seed=2 * seed),
    )


def scaled(log: dynid.Log, factors: Array) -> dynid.Log:
    """The log as drives with other factors would have recorded it."""
    assert log.tau is not None
    return dynid.Log(log.t, log.q, v=log.v, a=log.a, tau=log.tau * factors, name=log.name)
