"""Masses of random arms from noisy recordings: ranges, intervals, and what a wrong robot file is corrected by.

`python -m campaign.bodies [arms] [--scheduler ADDRESS]`: arms of 3 to 7 joints with bodies along their links, rotors,
friction and noise of 1 to 3 % of the torques. The robot file's masses, centres and inertias are off by 10 to 30 %.
Masses must be inside `.ranges` in 99 %, parameters from the data inside their intervals in 93 to 98 %; the median error
of the masses must be below that of the file, that of no arm above twice it, and torques of a fresh motion within 1 % of
the estimate's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from campaign.several_logs import random_motion
from campaign.spread import run_tasks
from dynid import Identification, Log, Robot, identify, physical_parameters, simulate
from dynid.robot.inertia import Body, from_body, from_pseudo_inertia, pseudo_inertia
from dynid.robot.robot import JointLimits

PLAIN = ("viscous", "coulomb", "offset")
SHOWN = 0.9
"""Share from the data from which on a parameter is said to come from them."""


def random_arm(seed: int) -> Robot:
    """An arm of 3 to 7 turning joints with bodies of metal and air along its links, lighter to the end."""
    rng = np.random.default_rng([seed, 20])
    n = int(rng.integers(3, 8))
    turns = [0.0, *rng.choice([-np.pi / 2, np.pi / 2, 0.0], n - 1, p=[0.4, 0.4, 0.2])]
    lengths = rng.uniform(0.15, 0.45, n)
    rows = []
    for k, turn in enumerate(turns):
        along = rng.random() < 0.5
        rows.append(
            {"alpha": float(turn), "d": float((not along) * lengths[k] * (k > 0)), "r": float(along * lengths[k])}
        )
    arm = Robot.from_mdh(rows, gravity=(0.0, 0.0, -9.81), name=f"arm{seed}")
    links = []
    for k, link in enumerate(arm.links):
        ends = [child.placement.translation for child in arm.links if child.parent == k]
        tip = ends[0] if ends else np.array([0.0, 0.0, 0.1])
        mass = float(rng.uniform(2.0, 9.0) * 0.75**k)
        radius = float(rng.uniform(0.03, 0.07))
        length = float(np.linalg.norm(tip))
        direction = tip / length if length > 1e-6 else np.array([0.0, 0.0, 1.0])
        spread = (length**2 / 12.0) * np.outer(direction, direction) + 0.5 * radius**2 * np.diag(
            rng.uniform(0.7, 1.3, 3)
        )
        centre = 0.5 * tip * rng.uniform(0.6, 1.3) + 0.3 * radius * rng.standard_normal(3)
        body = from_body(Body(mass, centre, mass * (np.trace(spread) * np.eye(3) - spread)))
        about = body[5] + mass * 0.01
        friction = (
            ("viscous", float(rng.uniform(0.5, 3.0))),
            ("coulomb", float(rng.uniform(0.5, 4.0))),
            ("offset", 0.2),
        )
        limits = JointLimits(-2.5, 2.5, 2.0, 10.0)
        rotor = float(about * rng.uniform(0.1, 1.0))
        links.append(replace(link, inertia=body, rotor=rotor, friction=friction, limits=limits))
    return replace(arm, links=tuple(links))


def wrong_file(robot: Robot, seed: int) -> Robot:
    """The robot with masses, centres and inertias off by 10 to 30 %, and nothing said of rotors and friction."""
    rng, links = np.random.default_rng([seed, 30]), []
    for link in robot.links:
        off = rng.uniform(0.1, 0.3, 4) * rng.choice([-1.0, 1.0], 4)
        P = (1.0 + off[3]) * pseudo_inertia(link.inertia)
        A = np.diag([*(1.0 + 0.5 * off[:3]), 1.0])
        links.append(replace(link, inertia=from_pseudo_inertia(A @ P @ A.T), rotor=float("nan"), friction=()))
    return replace(robot, links=tuple(links))


def recorded(robot: Robot, seed: int) -> Log:
    """30 s at 100 Hz of a random motion, noise of 1 to 3 % of every torque's spread."""
    rng = np.random.default_rng([seed, 40])
    motion = random_motion(robot, seed, seconds=30.0)
    motion = type(motion)(motion.t[::10], motion.q[::10], motion.v[::10], motion.a[::10])
    tau = simulate(robot, motion).tau
    assert tau is not None
    tau = tau + rng.uniform(0.01, 0.03) * tau.std(axis=0) * rng.standard_normal(tau.shape)
    return Log(motion.t, motion.q, v=motion.v, a=motion.a, tau=tau, name=f"log {seed}")


@dataclass(frozen=True)
class Found:
    """What one arm showed: hits of ranges and intervals of masses, errors of masses, growth of the torques' error."""

    inside: tuple[bool, ...]
    covered: tuple[bool, ...]
    error: float
    file_error: float
    torques: float


def check(seed: int) -> Found:
    """Identify one arm, find its bodies and compare."""
    robot = random_arm(seed)
    result: Identification = identify(wrong_file(robot, seed), recorded(robot, seed), friction=PLAIN)
    bodies = physical_parameters(result)
    true = dict(zip(robot.parameter_names, robot.parameters, strict=True))
    file = dict(zip(robot.parameter_names, result.robot.parameters, strict=True))
    masses = [name for name in robot.parameter_names if name.symbol == "M"]
    ends = dict(zip(bodies.names, bodies.ranges, strict=True))
    inside = tuple(bool(ends[m][0] <= true[m] <= ends[m][1]) for m in masses)
    covered = []
    for k, name in enumerate(bodies.names):
        if name in true and np.isfinite(bodies.sigma[k]) and bodies.from_data[k] > SHOWN:
            covered.append(bool(abs(bodies.values[k] - true[name]) <= result.quantile * bodies.sigma[k]))
    error, file_error = (
        float(np.mean([abs(x[m] / true[m] - 1.0) for m in masses]))
        for x in (dict(zip(bodies.names, bodies.values, strict=True)), file)
    )
    motion = random_motion(robot, seed + 100_000, seconds=10.0)
    tau = simulate(robot, motion).tau
    assert tau is not None
    power = np.sqrt((tau**2).mean(axis=0))
    off = [np.sqrt(((x.predict(motion) - tau) ** 2).mean(axis=0)) / power for x in (bodies, result)]
    return Found(inside, tuple(covered), error, file_error, float((off[0] - off[1]).max()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; how many of the laws are broken."""
    parser = argparse.ArgumentParser(prog="python -m campaign.bodies")
    parser.add_argument("arms", nargs="?", type=int, default=300)
    parser.add_argument("--scheduler", help="address of a Dask scheduler, in place of this process")
    asked = parser.parse_args(arguments)
    seeds, several = range(asked.arms), list[Found]()
    found = map(check, seeds) if asked.scheduler is None else run_tasks(check, seeds, scheduler=asked.scheduler)
    for count, one in enumerate(found, 1):
        several.append(one)
        if count % 25 == 0:
            sys.stdout.write(f"{count} arms\n")
            sys.stdout.flush()
    inside = np.concatenate([x.inside for x in several])
    covered = np.concatenate([x.covered for x in several])
    error, file_error = (np.array(x) for x in zip(*((x.error, x.file_error) for x in several), strict=True))
    torques = np.array([x.torques for x in several])
    sys.stdout.write(
        f"masses inside ranges: {inside.mean():.4f} of {len(inside)}\n"
        f"parameters from the data inside their intervals: {covered.mean():.4f} of {len(covered)}\n"
        f"median mass error: {np.median(error):.4f}, of the file {np.median(file_error):.4f}; "
        f"largest ratio {(error / file_error).max():.2f}\n"
        f"torques worse than the estimate's by at most {torques.max():.4f} of their size\n"
    )
    laws = [
        inside.mean() >= 0.99, 0.93 <= covered.mean() <= 0.98, np.median(error) < np.median(file_error),
        (error / file_error).max() <= 2.0, torques.max() <= 0.01,
    ]  # fmt: skip
    return sum(not law for law in laws)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
