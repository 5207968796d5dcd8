"""Robots on force plates: complete values, a plate that stands anyhow, readings without noise."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.spatial.transform import Rotation

from dynid import (
    ForceSensor,
    Identification,
    Log,
    Motion,
    Robot,
    identify,
    joint_parameters,
    load_robot,
    simulate,
)
from dynid.robot.transform import Array


def complete(robot: Robot) -> Robot:
    """Values for what a table leaves open: one solid body per link, nothing where zeros are known."""
    rng = np.random.default_rng(8)
    values = []
    for link in robot.links:
        m, c = 2.0 + rng.random(), rng.uniform(-0.1, 0.1, 3)
        A = rng.uniform(-0.1, 0.1, (3, 3))
        S = A @ A.T + 0.01 * np.eye(3) + m * np.outer(c, c)
        inertia = np.trace(S) * np.eye(3) - S
        own = [*inertia[np.triu_indices(3)], *(m * c), m, 0.3]
        symbols = ("XX", "XY", "XZ", "YY", "YZ", "ZZ", "MX", "MY", "MZ", "M", "Ia")
        moves = 11 if link.moves else 10
        values += [0.0 if s in link.zero else x for s, x in zip(symbols[:moves], own[:moves], strict=True)]
    given = robot.parameters
    return robot.with_parameters(np.where(np.isnan(given), values, given))


@cache
def arm(name: str) -> Robot:
    return complete(load_robot(name))


ANY = ForceSensor(
    position=np.array([0.1, -0.2, -0.3]),
    rotation=Rotation.from_euler("xyz", [0.4, -0.5, 1.2]).as_matrix(),
    reference=np.array([0.02, 0.0, 0.05]),
    sense="robot_on_plate",
    channels=("Mz", "Fx", "Fy", "Mx", "My", "Fz"),
)


def theta_d(robot: Robot, log: Log, **options: object) -> tuple[Array, Array, Identification]:
    """Identified and true parameters of the joint torques."""
    result = identify(robot, log, **{"model": "reaction", **options})  # type: ignore[arg-type]
    found = joint_parameters(result)
    return found.values, found.base.values(robot.parameters), result


def reaction(robot: Robot, motion: Motion) -> Array:
    """Readings without noise."""
    log = simulate(robot, motion)
    assert log.reaction is not None
    return log.reaction
