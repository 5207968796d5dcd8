"""Random robots of modified Denavit-Hartenberg tables with special angles, zeros and unknowns."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dynid.robot.inertia import SYMBOLS
from dynid.robot.robot import Robot
from robots import random_inertia

RIGHT = (0.0, 90.0, -90.0, 180.0)
SPECIAL = (45.0, 30.0, -60.0, 120.0)


def random_table(seed: int, *, joints: int | None = None) -> tuple[Robot, tuple[str, ...]]:
    """A serial robot of one to three moving joints, sometimes with fixed ones, and what of it is unknown."""
    rng = np.random.default_rng(seed)
    n = joints or int(rng.integers(1, 4))
    rows: list[dict[str, object]] = []
    moving = 0
    while moving < n:
        kind = str(rng.choice(["revolute", "prismatic", "fixed"], p=[0.65, 0.25, 0.1]))
        moving += kind != "fixed"
        row: dict[str, object] = {"type": kind, "alpha": _angle(rng), "d": _length(rng), "r": _length(rng)}
        if rng.random() < 0.3:
            row |= {"theta": _angle(rng)}
        if rng.random() < 0.1:
            row |= {"gamma": _angle(rng), "b": _length(rng)}
        rows.append(row)
    gravities = [(0.0, 0.0, -9.81), (0.0, 9.81, 0.0), (1.5, -3.0, 2.25), (0.0, 0.0, 0.0)]
    robot = Robot.from_mdh(rows, gravity=gravities[rng.choice(4, p=[0.5, 0.2, 0.2, 0.1])], name=f"table-{seed}")
    links = tuple(
        replace(link, inertia=random_inertia(rng), rotor=float(rng.uniform(0.01, 0.5)), zero=_zeros(rng))
        for link in robot.links
    )
    robot = replace(robot, links=links)
    values = [0.0 if name in robot.known_zeros else x
              for name, x in zip(robot.parameter_names, robot.parameters, strict=True)]  # fmt: skip
    return robot.with_parameters(np.array(values)), _unknown(rng, len(rows))


def _angle(rng: np.random.Generator) -> float:
    kind = rng.choice(3, p=[0.7, 0.2, 0.1])
    return (
        math.radians(float(rng.choice(RIGHT if kind == 0 else SPECIAL))) if kind < 2 else round(rng.uniform(-3, 3), 3)
    )


def _length(rng: np.random.Generator) -> float:
    return 0.0 if rng.random() < 0.5 else round(float(rng.uniform(-0.6, 0.6)), 2)


def _zeros(rng: np.random.Generator) -> frozenset[str]:
    return frozenset(s for s in SYMBOLS if rng.random() < 0.5) if rng.random() < 0.3 else frozenset()


def _unknown(rng: np.random.Generator, rows: int) -> tuple[str, ...]:
    words = [w for w in ("d", "r") if rng.random() < 0.5]
    if rng.random() < 0.3:
        words.append(f"{rng.choice(['alpha', 'theta', 'd', 'r', 'b', 'gamma'])}{rng.integers(1, rows + 1)}")
    return tuple(words)
