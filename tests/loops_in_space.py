"""Closed mechanisms with implicit loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid import Robot
from dynid.robot.robot import Closure
from dynid.robot.transform import freeze
from robots import random_inertia


def _with_inertias(robot: Robot, seed: int) -> Robot:
    rng = np.random.default_rng(seed)
    links = tuple(
        replace(link, inertia=freeze(random_inertia(rng)), rotor=float(rng.uniform(0.1, 1.0))) for link in robot.links
    )
    return replace(robot, links=links)


def slider_crank(seed: int) -> Robot:
    """Crank, rod and a slider on a turning table: one loop in a plane that an active joint turns."""
    rng = np.random.default_rng(seed)
    crank, rod = rng.uniform(0.1, 0.25), rng.uniform(0.8, 1.2)
    rows = [
        {"alpha": 0.4, "r": 0.2},
        {"parent": 1, "alpha": np.pi / 2},
        {"parent": 2, "d": crank},
        {"parent": 1, "type": "prismatic", "gamma": np.pi / 2, "alpha": np.pi / 2},
    ]
    robot = Robot.from_mdh(rows, gravity=rng.standard_normal(3) * 5.0, name="slider-crank")
    closure = Closure(
        links=("3", "4"),
        keep=("x", "y"),
        passive=("3", "4"),
        points=(freeze([rod, 0.0, 0.0]), freeze([0.0, 0.0, 0.0])),
        start=freeze([0.0, crank + rod]),
    )
    return _with_inertias(replace(robot, closures=(closure,)), seed)


def four_bar(seed: int) -> Robot:
    """A planar four-bar with a tool joint on its coupler: two passive joints."""
    rng = np.random.default_rng(seed + 50)
    base, crank, coupler, rocker = 1.0, rng.uniform(0.2, 0.3), rng.uniform(0.9, 1.0), rng.uniform(0.7, 0.8)
    rows = [
        {"alpha": 0.3},
        {"parent": 1, "d": crank},
        {"parent": 0, "alpha": 0.3, "d": base},
        {"parent": 2, "alpha": 1.1, "d": 0.3, "r": 0.2},
    ]
    robot = Robot.from_mdh(rows, gravity=rng.standard_normal(3) * 5.0, name="four-bar")
    # assembled at q1 = 0: crank along x, then a triangle of coupler, rocker and the rest of the base
    rest = base - crank
    angle = np.arccos((rest**2 + coupler**2 - rocker**2) / (2 * rest * coupler))
    other = np.pi - np.arccos((rest**2 + rocker**2 - coupler**2) / (2 * rest * rocker))
    closure = Closure(
        links=("2", "3"),
        keep=("x", "y"),
        passive=("2", "3"),
        points=(freeze([coupler, 0.0, 0.0]), freeze([rocker, 0.0, 0.0])),
        start=freeze([angle, other]),
    )
    return _with_inertias(replace(robot, closures=(closure,)), seed)
