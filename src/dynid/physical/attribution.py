"""Who decides each parameter: the data, or the prior; and how surely, where it is the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sparse

from dynid.estimation.identification import Identification
from dynid.messages import Message
from dynid.physical.cone import UNIT, ConeRows, Matrix, minimise_over_cones, smallest_relative_eigenvalue
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

    from_data: by how much the data, with their noise, reduce the prior's standard deviation (0 to 1); sigma: standard
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
        left_over = np.sqrt(np.clip(1.0 - (known - remaining) / prior, 0.0, 1.0))
        from_data = np.where(prior > 0.0, np.where(left_over < 1e-7, 1.0, 1.0 - left_over), 1.0)
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


# Ranges: how far each parameter can be moved by bodies that can exist and fit as well.


INCREASE = 9.0
"""Growth of the misfit within which bodies count as fitting as well, in jackknife variances: three deviations."""

CAP = 1e3
"""Traces of S up to which bodies are looked for: what goes further counts as unbounded."""

LOOSE = (1e-8, 1e-6)
"""Tolerances of the solver, tried in turn."""

THIN = 1e-6
"""Least eigenvalue of S of bodies that can exist."""


@dataclass(frozen=True, slots=True, eq=False)
class BodyRanges:
    """Low and high end (standard parameters, 2), and those of the links' centres of mass (links, 3, 2) in m.

    Infinite ends: unbounded. increase: of the misfit over that of the best bodies, in squares of the noise.
    """

    parameters: Array
    centres: Array
    increase: float


class RangeSearch:
    """Extremes over all bodies under the problem's rows whose misfit is at most `increase` above the least.

    Friction, and whatever else no link has, is free: it is projected out. The unknowns (x, tau, t) are homogeneous: x
    and the misfit t are multiples of tau, which is 1 for parameters. For a centre of mass, a ratio, the mass is 1
    instead (Charnes and Cooper 1962).
    """

    def __init__(self, result: Identification, problem: Problem) -> None:
        self.width: int = problem.basis.shape[1] - (len(problem.names) - len(result.robot.parameter_names))
        self.problem = problem
        A, b = problem.data @ problem.seen / problem.unit, problem.data @ problem.estimate / problem.unit
        free = scipy.linalg.orth(A[:, self.width :]) if A.shape[1] > self.width else np.zeros((len(A), 0))
        A = A[:, : self.width]
        U, s, Vt = np.linalg.svd(A - free @ (free.T @ A), full_matrices=False)
        keep = s > 1e-11 * s[0]
        self.data, self.target = s[keep, None] * Vt[keep], U[:, keep].T @ b
        own = [k for k, name in enumerate(result.names) if name.kind != "friction" and result.white_sigma[k] > 0.0]
        ratio = (result.sigma[own] / result.white_sigma[own]) ** 2
        inflation = max(float(np.quantile(ratio[np.isfinite(ratio)], 0.75)) if own else 1.0, 1.0)
        self.increase = INCREASE * inflation * max(result.quantile / 1.96, 1.0) ** 2
        self.tau = np.eye(self.width + 2)[self.width]
        radius, one = float(np.sqrt(self.increase)), ConeRows("equal", self.tau[None, :], np.ones(1))
        self.rows = self._homogeneous_rows(radius)
        self.ends_at_least = minimise_over_cones(*self._goal(np.eye(self.width + 2)[-1]), [one, *self.rows], LOOSE)
        if self.is_feasible:
            least = float(self.ends_at_least.v[-1]) * radius
            self.rows = self._homogeneous_rows(float(np.hypot(least, radius)))
            limit = (np.eye(self.width + 2)[-1] - self.tau)[None, :]
            self.rows.append(ConeRows("below", limit, np.zeros(1)))

    @property
    def is_feasible(self) -> bool:
        """Whether the solver found the least misfit; without it nothing can be said."""
        return self.ends_at_least.status == "solved"

    def find(self, value: Array, constant: float = 0.0, over: Array | None = None) -> tuple[float, float]:
        """Find the low and high end of value @ x + constant, or of (value @ x) / (over @ x), over all bodies."""
        value = np.concatenate([value[: self.width], [0.0, 0.0]])
        size = float(np.abs(value).max())
        if size == 0.0:
            return constant, constant
        norm = self.tau if over is None else np.concatenate([over[: self.width], [0.0, 0.0]])
        mass = float(np.abs(norm).max())
        unit, ends = ConeRows("equal", norm[None, :] / mass, np.ones(1)), []
        for sign in (1.0, -1.0):
            end = -sign * np.inf
            if self.is_feasible:
                answer = minimise_over_cones(*self._goal(sign * value / size), [unit, *self.rows], LOOSE)
                reach = float(value @ answer.v) / (1.0 if over is None else mass)
                caps = answer.multipliers[1 : 1 + self._caps] * CAP * float(self.tau @ answer.v)
                if answer.status == "solved" and caps.max() * size < 0.02 * max(abs(float(value @ answer.v)), 1e-9):
                    end = constant + reach
            ends.append(end)
        return ends[0], ends[1]

    def _goal(self, gradient: Array) -> tuple[Matrix, Array]:
        """Hessian and gradient of a linear goal for the solver."""
        return sparse.csc_matrix((len(gradient),) * 2), gradient

    @property
    def _caps(self) -> int:
        """Number of rows that keep bodies and rotors from growing without end."""
        return self.width - 9 * len(self.problem.links)

    def _homogeneous_rows(self, radius: float) -> list[ConeRows]:
        """Rows for the solver: caps, the misfit over a radius, the user's rows, and bodies."""
        problem, n, L = self.problem, self.width, len(self.problem.links)

        def of_tau(matrix: Array, right: Array) -> Array:
            return np.column_stack([matrix, -right, np.zeros(len(right))])

        caps = np.zeros((self._caps, n))
        for i in range(L):
            caps[i, 10 * i : 10 * i + 10] = UNIT
        caps[L:, 10 * L :] = np.eye(n - 10 * L)
        ball = np.concatenate([-np.eye(n + 2)[-1:], of_tau(self.data, self.target) / radius])
        found = [
            ConeRows("below", of_tau(caps, np.full(len(caps), CAP)), np.zeros(len(caps))),
            ConeRows("ball", ball, np.zeros(len(ball))),
            ConeRows("below", -self.tau[None, :], np.zeros(1)),
        ]
        for kind, rows in (("equal", problem.equal), ("below", problem.below)):
            own = np.abs(rows.matrix[:, n:]).max(axis=1, initial=0.0) == 0.0  # not those of friction, which is free
            found.append(ConeRows(kind, of_tau(rows.matrix[own, :n], rows.right[own]), np.zeros(int(own.sum()))))
        bodies = of_tau(-np.eye(n)[: 10 * L], -THIN * np.tile(UNIT, L))
        return [*found, ConeRows("psd", bodies, np.zeros(10 * L))]


def find_ranges(result: Identification, problem: Problem) -> BodyRanges:
    """Find the ranges of all standard parameters and centres of mass; the problem's coordinates near the bodies."""
    search, robot = RangeSearch(result, problem), result.robot
    k = len(robot.parameter_names)
    ends = []
    for name, row, constant in zip(robot.parameter_names, problem.basis[:k], problem.constant[:k], strict=True):
        low, high = search.find(row, constant)
        positive = name.symbol in ("M", "XX", "YY", "ZZ") or name.kind == "rotor"
        ends.append((max(low, 0.0) if positive and high > 0.0 else low, high))
    centres = np.full((len(robot.links), 3, 2), np.nan)
    for i in problem.links:
        first = robot.parameter_names.index("MX" + robot.links[i].label)
        for axis in range(3):
            centres[i, axis] = search.find(problem.basis[first + axis], over=problem.basis[first + 3])
    return BodyRanges(np.array(ends), centres, search.increase)
