"""Which bounds the data press against, in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.physical.cone import smallest_share
from dynid.physical.prior import Prior
from dynid.physical.problem import Problem
from dynid.physical.search import MARGIN, Found
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


@dataclass(frozen=True, slots=True)
class Binding:
    """One bound that the data press against: its link ("" for bounds of the user and of friction), and why in words.

    share: how much of all pressure is on it, 0 to 1.
    """

    link: str
    reason: str
    share: float

    def __str__(self) -> str:
        return self.reason


def find_bindings(robot: Robot, problem: Problem, prior: Prior, found: Found) -> tuple[Binding, ...]:
    """Bounds of the first step, hardest pressed first; none where bodies can have the estimate."""
    if found.fit is None:
        return ()
    values = problem.values(found.fit)
    total = float(found.link_pressure.sum() + found.row_pressure.sum()) or 1.0
    several = []
    for k, pressure in zip(problem.links, found.link_pressure, strict=True):
        x = values[problem.names.index("XX" + robot.links[k].label) :][:10]
        smallest, w = smallest_share(x, prior.inertia[k])
        if pressure > 1e-6 * total and smallest < 4.0 * MARGIN:
            reason = f"link {robot.links[k].name}: {_in_words(x, prior.inertia[k], w)}"
            several.append(Binding(robot.links[k].name, reason, float(pressure) / total))
    for label, pressure in zip(problem.below.labels, found.row_pressure, strict=True):
        if pressure > 1e-6 * total:
            several.append(Binding("", f"{label} is at its limit", float(pressure) / total))
    return tuple(sorted(several, key=lambda b: -b.share))


def _in_words(x: Array, prior: Array, w: Array) -> str:
    """What w'Pw -> 0 means: the mass vanishes, or all of it lies in the plane w[:3] . r + w[3] = 0."""
    if x[9] < 1e-2 * prior[9]:
        return "the data ask for no mass, or a negative one"
    n = w[:3] / max(float(np.linalg.norm(w[:3])), 1e-300)
    axis = int(np.argmax(np.abs(n)))
    first, second, third = ("YY", "ZZ", "XX"), ("XX", "ZZ", "YY"), ("XX", "YY", "ZZ")
    a, b, c = (first, second, third)[axis]
    if abs(n[axis]) > 0.98:
        return (
            f"the data ask for a body thinner than none along {'xyz'[axis]} "
            f"(triangle inequality {a} + {b} >= {c} about its centre of mass)"
        )
    return f"the data ask for a body thinner than none along ({n[0]:.2f}, {n[1]:.2f}, {n[2]:.2f})"
