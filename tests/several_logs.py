"""Logs of different motions of one robot whose friction the plain model lacks."""

from __future__ import annotations

import numpy as np

import dynid
from dynid.dynamics.friction import FrictionShapes
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from robots import random_inertia


def invented(name: str, seed: int = 3) -> Robot:
    """A bundled robot with bodies that could exist and small rotors."""
    robot, rng = dynid.load_robot(name), np.random.default_rng(seed)
    own = [np.append(random_inertia(rng) * (1.0 if k < 3 else 0.3), 0.1) for k in range(robot.n)]
    return robot.with_parameters(np.concatenate(own))


def motion_of(robot: Robot, seed: int, *, duration: float = 10.0, rate: float = 100.0) -> Motion:
    """A Fourier series of random period, size and centre."""
    rng = np.random.default_rng(seed + 77000)
    t = np.arange(int(duration * rate)) / rate
    base, size = 2.0 * np.pi * rng.uniform(0.09, 0.12), rng.uniform(0.35, 0.65, robot.n)
    q = np.tile(rng.uniform(-1.0, 1.0, robot.n), (len(t), 1))
    k = np.arange(1, 6)
    A, B = rng.standard_normal((2, 5, robot.n)) / np.sqrt(k)[:, None]
    scale = size / np.sqrt((A**2 + B**2).sum(axis=0) / 2.0)
    w, s, c = base * k, np.sin(np.outer(t, base * k)), np.cos(np.outer(t, base * k))
    q += (s @ A + c @ B) * scale
    v = ((c * w) @ A - (s * w) @ B) * scale
    a = -((s * w**2) @ A + (c * w**2) @ B) * scale
    return Motion(t, q, v, a)


def friction_torque(motion: Motion, rigid: Array, *, plain: bool, scale: float = 1.0) -> Array:
    """Friction (N, n); not plain: with memory, a Stribeck hump, a part that grows with the load, and a bent slope."""
    n, v = motion.v.shape[1], motion.v
    size = scale * np.array([5.0, 6.0, 4.0, 1.5, 1.0, 1.0, 0.75])[:n] * np.random.default_rng(5).uniform(0.5, 1.5, n)
    if plain:
        return np.asarray(size * (np.sign(v) + 0.8 * v + 0.05))
    shapes = FrictionShapes(("stop1e-2", "stop1e-1"), np.ones(n))
    short, long = np.moveaxis(shapes.stop_values_along(motion.q, shapes.initial_stop_states(motion.q, 50)), 1, 0)
    dry = short * (1.0 + 0.6 * np.exp(-((v / 0.15) ** 2))) * (1.0 + 0.05 * np.abs(rigid) / size) + 0.3 * long
    return np.asarray(size * (dry + 0.8 * np.sign(v) * np.abs(v) ** 0.8 + 0.05))


def log_of_motion(
    robot: Robot, seed: int, *, plain: bool, scale: float = 1.0, noise: float = 0.005, duration: float = 10.0
) -> dynid.Log:
    """A log; noise: share of the spread of every torque; scale: of friction."""
    motion = motion_of(robot, seed, duration=duration)
    rigid = dynid.simulate(robot, motion).tau
    assert rigid is not None
    tau = rigid + friction_torque(motion, rigid, plain=plain, scale=scale)
    tau = tau + noise * tau.std(axis=0) * np.random.default_rng(seed + 99).standard_normal(tau.shape)
    return dynid.Log(motion.t, motion.q, v=motion.v, a=motion.a, tau=tau, name=f"log {seed}")
