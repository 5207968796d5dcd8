"""Robots with bodies that could exist, what is identified of them, and conditions that bodies satisfy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import dynid
from dynid.estimation.identification import Identification
from dynid.physical.parameters import PhysicalParameters
from dynid.robot.inertia import pseudo_inertia
from dynid.robot.robot import Robot
from dynid.robot.transform import Array, freeze
from fourier import fourier_motion
from frictions import PLAIN, with_friction
from robots import random_inertia, random_tree


def with_bodies(robot: str | Robot, seed: int = 0, *, friction: bool = False) -> Robot:
    """The robot's geometry with random bodies, rotors and friction."""
    robot = dynid.load_robot(robot) if isinstance(robot, str) else robot
    rng = np.random.default_rng(seed)
    blocks = PLAIN if friction else ()
    links = tuple(
        replace(
            link,
            inertia=freeze(random_inertia(rng)),
            rotor=float(rng.uniform(0.01, 0.5)),
            zero=frozenset(),
            friction=tuple((name, float(rng.uniform(0.1, 2.0))) for name in blocks) if link.moves else (),
        )
        for link in robot.links
    )
    return replace(robot, links=links, published=None)  # nobody published these


def bodied(source: str, seed: int = 0) -> Robot:
    """A bundled robot with random bodies, or `tree`; all with plain friction."""
    return with_friction(random_tree(seed) if source == "tree" else with_bodies(source, seed))


def blind(robot: Robot) -> Robot:
    """The same robot of unknown values."""
    unknown = robot.with_parameters(np.full(len(robot.parameter_names), np.nan))
    return replace(unknown, links=tuple(replace(link, friction=()) for link in unknown.links))


def identified(
    robot: Robot, *, noise: float = 0.0, seed: int = 0, known: bool = False, **options: Any
) -> Identification:
    """Identify from 10 s of simulated motion; the identification knows nominal values only if `known`."""
    log = dynid.simulate(robot, fourier_motion(robot, rate=50.0), noise=noise or None, seed=seed)
    given = {"friction": PLAIN, "intervals": "white"} | options
    return dynid.identify(robot if known else blind(robot), log, **given)


def smallest_eigenvalue(found: PhysicalParameters) -> float:
    """Smallest eigenvalue of all pseudo-inertias, by numpy alone."""
    return min(float(np.linalg.eigvalsh(pseudo_inertia(link.inertia))[0]) for link in found.robot.links)


def torque_error(robot: Robot, predicted: Any, seed: int = 77) -> float:
    """RMS error of fresh torques over their size."""
    motion = fourier_motion(robot, rate=20.0, seed=seed)
    tau = dynid.simulate(robot, motion).tau
    assert tau is not None
    difference: Array = predicted(motion) - tau
    return float(np.sqrt((difference**2).mean()) / np.sqrt((tau**2).mean()))
