"""A six-joint arm under a PD controller that is fed with noisy encoders: time stepping with exact dry friction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numba
import numpy as np
import pinocchio as pin

import dynid
from dynid.robot.inertia import Body, from_body
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from pinocchio_twin import Twin

STEP = 5e-4
"""Of the integrator; the controller runs, and is recorded, every second step."""


@dataclass(frozen=True)
class Loop:
    """Bandwidth (Hz) of the controller, cut-off (Hz) of its velocity; lowest frequency (Hz) and size of the motion."""

    bandwidth: float = 6.0
    velocity_filter: float = 50.0
    frequency: float = 0.1
    size: float = 0.6


@cache
def arm() -> Robot:
    """PUMA 560 with bodies that could exist, and plain friction."""
    robot = dynid.load_robot("puma560")
    parameters, links = [], []
    for k, (m, Ia, Fv, Fc) in enumerate(
        zip((7.0, 9.0, 5.0, 2.5, 1.6, 1.2), (0.8, 0.9, 0.4, 0.12, 0.1, 0.06), (5.0, 6.0, 3.0, 0.8, 0.6, 0.4),
            (6.0, 7.0, 4.0, 1.2, 1.0, 0.7), strict=True)
    ):  # fmt: skip
        size = 0.2 / (1.0 + 0.5 * k)
        com = size * np.array([0.3, -0.2, 0.4])
        inertia = m * size**2 * (np.diag([0.5, 0.6, 0.4]) + 0.03 * (1.0 - np.eye(3)))
        parameters += [*from_body(Body(m, com, inertia)), Ia]
        links.append(replace(robot.links[k], friction=(("viscous", Fv), ("coulomb", Fc))))
    return replace(robot, links=tuple(links)).with_parameters(np.array(parameters))


@numba.njit  # type: ignore[untyped-decorator]
def next_velocity(M: Array, push: Array, dry: Array) -> Array:
    """Solve M v = push - step f, f in dry * sign(v), by projected Gauss-Seidel."""
    inverse = np.linalg.inv(M)
    free, f = inverse @ push, np.zeros(len(push))
    for _ in range(100):
        change = 0.0
        for j in range(len(f)):
            v = free[j] - STEP * (inverse[j] * f).sum()
            new = min(max(f[j] + v / (STEP * inverse[j, j]), -dry[j]), dry[j])
            change = max(change, abs(new - f[j]))
            f[j] = new
        if change < 1e-8:
            break
    return free - STEP * (inverse @ f)


@cache
def recorded(noise: float, seed: int, seconds: float = 12.0, loop: Loop = Loop()) -> dynid.Log:  # noqa: B008
    """Positions as the encoders show them (noise in rad), and the torques of the controller, at 1 kHz."""
    robot = arm()
    twin = Twin(robot)
    model, data, n = twin.model, twin.data, robot.n
    rotors = np.array([robot.parameters[robot.parameter_names.index(f"Ia{k}")] for k in range(1, n + 1)])
    viscous, dry = (np.array([dict(link.friction)[name] for link in robot.links]) for name in ("viscous", "coulomb"))
    rng = np.random.default_rng(1007)
    t: Array = np.arange(round(seconds / STEP), dtype=np.float64) * STEP
    k = np.arange(1, 6)
    w = 2.0 * np.pi * loop.frequency * k
    A, B = rng.standard_normal((2, 5, n)) / k[:, None] ** 0.25
    s, c = np.sin(np.outer(t, w)), np.cos(np.outer(t, w))
    q_ref = s @ A + c @ B
    scale = loop.size / np.abs(q_ref).max(axis=0)
    q_ref, v_ref = q_ref * scale, ((c * w) @ A - (s * w) @ B) * scale
    a_ref = (-(s * w**2) @ A - (c * w**2) @ B) * scale
    rng = np.random.default_rng(seed)
    q, v = q_ref[0].copy(), v_ref[0].copy()
    inertia = np.diag(pin.crba(model, data, q)) + rotors
    rate = 2.0 * np.pi * loop.bandwidth
    share = 1.0 - np.exp(-2.0 * np.pi * loop.velocity_filter * 2.0 * STEP)
    seen, before, speed, tau = q, q, v.copy(), np.zeros(n)
    positions, torques = [], []
    for i in range(len(t)):
        if i % 2 == 0:
            seen = q + noise * rng.standard_normal(n)
            if i:
                speed = speed + share * ((seen - before) / (2.0 * STEP) - speed)
            before = seen
            tau = inertia * (rate**2 * (q_ref[i] - seen) + 2.0 * rate * (v_ref[i] - speed) + a_ref[i])
            tau += pin.computeGeneralizedGravity(model, data, q_ref[i]) + viscous * v_ref[i]
            positions.append(seen)
            torques.append(tau)
        M = np.triu(pin.crba(model, data, q))
        M = M + np.triu(M, 1).T + np.diag(rotors)
        push = M @ v + STEP * (tau - pin.nonLinearEffects(model, data, q, v) - viscous * v)
        v = next_velocity(M, push, dry)
        q = q + STEP * v
    return dynid.Log(t[::2], np.array(positions), tau=np.array(torques))
