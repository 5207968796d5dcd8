"""Random robots with special geometry: where papers fail."""

from __future__ import annotations

import math

import numpy as np

from dynid import Robot

ANGLES = (0.0, math.pi / 2, -math.pi / 2, math.pi)
GRAVITIES = ((0.0, 0.0, -9.81), (9.81, 0.0, 0.0), (0.0, -9.81, 0.0), (1.3, -4.1, -8.6), (0.0, 0.0, 0.0))


def special_robot(seed: int, *, most: int = 8) -> Robot:
    """A chain or tree of 2 to 8 revolute and prismatic joints with parallel, perpendicular, meeting or general axes."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, most + 1))
    serial = rng.random() < 0.6
    prismatic = rng.choice([0.0, 0.25, 0.6])
    general = rng.choice([0.0, 0.15, 0.5])
    rows: list[dict[str, object]] = []
    for j in range(n):
        parent = j if serial or j == 0 else int(rng.integers(0, j + 1))
        row: dict[str, object] = {
            "parent": parent,
            "type": "prismatic" if rng.random() < prismatic else "revolute",
            "alpha": _angle(rng, general),
            "d": _length(rng),
            "r": _length(rng),
            "theta": _angle(rng, general) if rng.random() < 0.3 else 0.0,
        }
        if not serial and parent != j:
            row |= {"gamma": _angle(rng, general), "b": _length(rng)}
        rows.append(row)
    gravity = GRAVITIES[int(rng.integers(len(GRAVITIES)))]
    return Robot.from_mdh(rows, gravity=gravity, name=f"special-{seed}")


def _angle(rng: np.random.Generator, general: float) -> float:
    return float(rng.uniform(-3.0, 3.0)) if rng.random() < general else float(rng.choice(ANGLES))


def _length(rng: np.random.Generator) -> float:
    return round(float(rng.uniform(-1.0, 1.0)), 3) if rng.random() < 0.5 else 0.0
