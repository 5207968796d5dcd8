"""Who decides each parameter: the data, or the prior; and how surely, where it is the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.estimation.identification import Identification
from dynid.messages import Message
from dynid.physical.cone import smallest_relative_eigenvalue
from dynid.physical.prior import Prior
from dynid.physical.problem import IdentifiedCombinations, Problem
from dynid.physical.search import MARGIN, FoundBodies
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

DETERMINED = 1.0 - 1e-6
"""Structural share from which on a parameter counts as determined by the data alone."""


@dataclass(frozen=True, slots=True, eq=False)
class DataShares:
    """structural: 1 where the identified parameters determine a parameter, 0 where they do not touch it.

    from_data: how much of the doubt of the prior the data, with their noise, take away (0 to 1); sigma: standard
    deviation, NaN where the prior has a say. Both are those of bodies inside their bounds: a bound that binds makes
    deviations smaller.
    """

    structural: Array
    from_data: Array
    sigma: Array


def find_data_shares(result: Identification, seen: IdentifiedCombinations, problem: Problem) -> DataShares:
    """Share of each parameter that comes from the data, linear-Gaussian, and not from the prior.

    What a prior says of one parameter given another (bodies of one shape) is not counted as the data's: a parameter
    that no data show has share 0.
    """
    T = np.diag(np.linalg.norm(problem.basis, axis=1))
    B = seen.matrix @ T
    size = np.linalg.norm(B, axis=1)
    size = np.where(size > 0.0, size, 1.0)  # 0: a rotor whose inertia is declared
    U, s, Vt = np.linalg.svd(B / size[:, None], full_matrices=False)
    keep = s > 1e-9 * s[0]
    V = Vt[keep].T
    prior = (T**2).sum(axis=1)
    known = ((T @ V) ** 2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        structural = np.where(prior > 0.0, np.minimum(known / prior, 1.0), 1.0)
    # seen parameters have covariance C; in coordinates: Vt x = diag(1/s) U' (theta / size)
    half = (U[:, keep] / s[keep]).T / size
    C = half @ result.covariance @ half.T
    C = 0.5 * (C + C.T)
    left = C @ np.linalg.pinv(C + np.eye(len(C)), hermitian=True)  # posterior of the seen part, prior 1
    TV = T @ V
    with np.errstate(divide="ignore", invalid="ignore"):
        remaining = np.einsum("ij,jk,ik->i", TV, left, TV)
        from_data = np.where(prior > 0.0, np.clip((known - remaining) / prior, 0.0, 1.0), 1.0)
    variance = np.einsum("ij,jk,ik->i", TV, C, TV)
    determined = structural >= DETERMINED
    friction = np.arange(len(problem.names)) >= len(result.robot.parameter_names)
    from_data = np.where(friction & determined, 1.0, from_data)
    sigma = np.where(determined, np.sqrt(np.maximum(variance, 0.0)), np.nan)
    return DataShares(structural, from_data, np.where(prior > 0.0, sigma, np.nan))


# Which bounds the data press against, in words.


@dataclass(frozen=True, slots=True)
class Binding:
    """One bound that the data press against: its link ("" for bounds of the user and of friction), and why in words.

    share: how much of all pressure is on it, 0 to 1.
    """

    link: str
    reason: Message
    share: float

    def __str__(self) -> str:
        return str(self.reason)


def find_active_bounds(robot: Robot, problem: Problem, prior: Prior, found: FoundBodies) -> tuple[Binding, ...]:
    """Active bounds of the first step, hardest pressed first; none where bodies can have the estimate."""
    if found.best is None:
        return ()
    values = problem.values(found.best)
    total = float(found.link_pressure.sum() + found.row_pressure.sum()) or 1.0
    several = []
    for k, pressure in zip(problem.links, found.link_pressure, strict=True):
        x = values[problem.names.index("XX" + robot.links[k].label) :][:10]
        smallest, w = smallest_relative_eigenvalue(x, prior.inertia[k])
        if pressure > 1e-6 * total and smallest < 4.0 * MARGIN:
            reason = _describe_binding(x, prior.inertia[k], w).about(f"link {robot.links[k].name}")
            several.append(Binding(robot.links[k].name, reason, float(pressure) / total))
    for label, pressure in zip(problem.below.labels, found.row_pressure, strict=True):
        if pressure > 1e-6 * total:
            reason = Message("bound_active", "{bound} is at its limit", bound=label)
            several.append(Binding("", reason, float(pressure) / total))
    return tuple(sorted(several, key=lambda b: -b.share))


def _describe_binding(x: Array, prior: Array, w: Array) -> Message:
    """Message on what w'Pw -> 0 means: the mass vanishes, or all of it lies in a plane."""
    if x[9] < 1e-2 * prior[9]:
        return Message("mass_not_positive", "the data ask for no mass, or a negative one")
    n = w[:3] / max(float(np.linalg.norm(w[:3])), 1e-300)
    axis = int(np.argmax(np.abs(n)))
    first, second, third = ("YY", "ZZ", "XX"), ("XX", "ZZ", "YY"), ("XX", "YY", "ZZ")
    a, b, c = (first, second, third)[axis]
    if abs(n[axis]) > 0.98:
        return Message(
            "triangle_inequality_violated", "the data violate the triangle inequality {smaller[0]} + {smaller[1]} >= "
            "{largest} about its centre of mass (no extent along {axis})", smaller=[a, b], largest=c, axis="xyz"[axis],
        )  # fmt: skip
    return Message(
        "triangle_inequality_violated", "the data violate the triangle inequality about its centre of mass (no extent "
        "along ({direction[0]:.2f}, {direction[1]:.2f}, {direction[2]:.2f}))", direction=n.tolist(),
    )  # fmt: skip
