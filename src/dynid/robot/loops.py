"""How joints of a closed mechanism depend on each other: explicit couplings and implicit closures."""

from __future__ import annotations

from dataclasses import dataclass

from dynid.robot.transform import Array

DIRECTIONS = ("x", "y", "z", "rx", "ry", "rz")
"""What a closure can keep together: positions along, and rotations about, the first frame's axes."""


@dataclass(frozen=True, slots=True)
class Coupling:
    """A gear, mimic joint or parallelogram: q_passive = sum(factor * q) + offset."""

    passive: str
    factors: tuple[tuple[str, float], ...]
    offset: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """Two points on two links that stay together in the directions `keep`; the passive joints follow.

    `points` are in the two links' frames (m); `start` holds the passive joints' positions near those they
    take when every active joint is at `at`; it selects the assembly.
    """

    links: tuple[str, str]
    keep: tuple[str, ...]
    passive: tuple[str, ...]
    points: tuple[Array, Array]
    start: Array
    at: Array | None = None
