"""Random robots with special geometry, where papers fail; an arm whose torques are known."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from dynid import Robot, load_robot

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


UR5 = """
name = "ur5"
convention = "standard"
angles = "deg"
"""
UR5_JOINTS = (
    # d, a (m), alpha (deg), effort (N m), mass (kg), centre (m), inertia about it (kg m^2): xx, yy, zz
    (0.089159, 0.0, 90, 150, 3.7, (0.0, -0.02561, 0.00193), (0.010267, 0.010267, 0.00666)),
    (0.0, -0.425, 0, 150, 8.393, (0.2125, 0.0, 0.11336), (0.0151, 0.2269, 0.2269)),
    (0.0, -0.39225, 0, 150, 2.33, (0.15, 0.0, 0.0265), (0.0041, 0.0494, 0.0494)),
    (0.10915, 0.0, 90, 28, 1.219, (0.0, -0.0018, 0.01634), (0.01112, 0.0219, 0.01112)),
    (0.09465, 0.0, -90, 28, 1.219, (0.0, 0.0018, 0.01634), (0.01112, 0.0219, 0.01112)),
    (0.0823, 0.0, 0, 28, 0.1879, (0.0, 0.0, -0.001159), (0.000171, 0.000171, 0.000338)),
)
"""Universal Robots UR5: lengths, masses, centres and torques as the manufacturer's support articles give them, written
from memory; inertias are of the right size only. A turn to each side, 180 deg/s, 800 deg/s^2."""


def ur5(folder: Path) -> Robot:
    """A UR5 without rotors, by a table that is written into a folder."""
    text = UR5
    for d, a, alpha, effort, *_ in UR5_JOINTS:
        text += f"""
[[joint]]
d = {d}
a = {a}
alpha = {alpha}
limits = {{ position = [-360, 360], velocity = 180, acceleration = 800, effort = {effort} }}
"""
    for k, (*_, mass, com, (xx, yy, zz)) in enumerate(UR5_JOINTS, 1):
        text += f"""
[link.{k}]
mass = {mass}
com = {list(com)}
inertia = [{xx}, 0.0, 0.0, {yy}, 0.0, {zz}]
rotor_inertia = 0.0
"""
    path = folder / "ur5.toml"
    path.write_text(text, encoding="utf-8")
    return load_robot(path)


def with_share_of_effort(robot: Robot, share: float) -> dict[str, object]:
    """Limits of a robot with a share of its efforts."""
    limits = robot.limits
    return {
        "position": limits.position, "velocity": limits.velocity, "acceleration": limits.acceleration,
        "effort": share * limits.effort,
    }  # fmt: skip
