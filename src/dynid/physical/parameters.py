"""The result: standard parameters that real bodies can have, what they cost, and who decided each: data or prior."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import scipy.linalg
import scipy.sparse as sparse

from dynid.concurrency import cached_property
from dynid.deprecated import accept_old_names
from dynid.dynamics.friction import PLAIN
from dynid.errors import PhysicalError
from dynid.estimation.diagnostics.verdict import LEVELS, Level, Verdict
from dynid.estimation.identification import Identification, StoredIdentification
from dynid.estimation.records import Known, check_shape, split_parameter_rows
from dynid.messages import Message, Option, Wording, html_summary, printable
from dynid.physical.constraints import BodyConstraints, LinearRows
from dynid.physical.prior import FROM_SIZE, Prior
from dynid.physical.problem import (
    UNIT,
    ConeRows,
    IdentifiedCombinations,
    Matrix,
    Problem,
    build_problem_from_rows,
    demand_rows,
    identified_combinations,
    minimise_over_cones,
    smallest_relative_eigenvalue,
)
from dynid.physical.search import MARGIN, FoundBodies
from dynid.robot.inertia import pseudo_inertia
from dynid.robot.motion import Motion
from dynid.robot.parameter import Parameter, parameters_by_name
from dynid.robot.robot import Robot
from dynid.robot.transform import Array, FiniteArray
from dynid.storage.files import write_text
from dynid.storage.records import ROW, Data, Form, Limit, json_text, polars_frame, read_record, to_plain_data

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
    """One constraint that the data push against.

    Attributes
    ----------
    link : str
        Its link; "" for bounds of the user and of friction.
    reason : Message
        The constraint in words.
    share : float
        Its share of all constraint forces, 0 to 1.
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
        return Message("mass_not_positive", "the data suggest no mass, or a negative one")
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


UNLIKELY = 1e-3
"""Probability below which noise does not explain that bodies cannot have the estimate."""

SHOWN = 0.5
"""Share of a mass that comes from the data from which on it counts as shown by them."""


@accept_old_names
@dataclass(frozen=True, eq=False)
class PhysicalParameters:
    """Physically consistent standard parameters: those of the robot in order, then friction as identified.

    Attributes
    ----------
    identification : Identification
        What they were made from.
    names : tuple of Parameter
        Names of the parameters.
    units : tuple of str
        Their units.
    values : (p,) array
        Their values.
    prior : (p,) array
        Values of the prior.
    prior_source : tuple of str
        Where the prior of each link came from.
    structural : (p,) array
        Share of the prior's uncertainty that data without noise would remove, 0 to 1.
    from_data : (p,) array
        Share of the prior's uncertainty that the data removed, 0 to 1.
    sigma : (p,) array
        Standard deviation where the data alone decide, NaN elsewhere.
    fitted : (identified,) array
        The identified parameters as these bodies have them.
    nrmse_before : (channels,) array
        NRMSE of the identification on the data used.
    nrmse_after : (channels,) array
        NRMSE of these bodies on the data used.
    cost : float
        Growth of the weighted sum of squares, in units of the noise variance.
    chance : float
        Probability that noise alone makes bodies differ so much from the estimate (from the jackknife's covariance).
    margin : float
        Smallest eigenvalue that is allowed, relative to the prior.
    eigenvalues : (links,) array
        Smallest eigenvalue of each link with mass, relative to its prior, at least `margin`.
    bindings : tuple of Binding
        Constraints that the data push against.
    notes : tuple of Message
        How the bodies were found.
    warnings : tuple of Message
        What to know about them.
    prior_weight : float or None
        Weight of the divergence from the prior, in units of the noise variance; None in files of older versions.
    equations : LinearRows or None
        Equations that the bodies satisfy; None in files of older versions.
    inequalities : LinearRows or None
        Inequalities that the bodies satisfy; None in files of older versions.
    """

    identification: StoredIdentification
    names: tuple[Parameter, ...]
    units: tuple[str, ...]
    values: FiniteArray
    prior: FiniteArray
    prior_source: tuple[str, ...]
    structural: FiniteArray
    from_data: FiniteArray
    sigma: Array
    fitted: FiniteArray
    nrmse_before: Array
    nrmse_after: Array
    cost: Annotated[float, Limit(ge=0.0)]
    chance: Annotated[float, Limit(ge=0.0, le=1.0)]
    margin: Annotated[float, Limit(gt=0.0)]
    eigenvalues: FiniteArray
    bindings: tuple[Annotated[Binding, ROW], ...]
    notes: tuple[Message, ...]
    warnings: tuple[Message, ...]
    prior_weight: Annotated[float, Limit(ge=0.0)] | None = None
    equations: LinearRows | None = None
    inequalities: LinearRows | None = None

    @cached_property
    def robot(self) -> Robot:
        """The robot with these parameters, and with friction as far as a robot can hold it."""
        robot = self.identification.robot
        bodies = robot.with_parameters(self.values[: len(robot.parameter_names)])
        links = list(bodies.links)
        for k in robot.active_links:
            friction = self._robot_friction(links[k].label) if self.robot_has_all_friction else ()
            links[k] = replace(links[k], friction=friction)
        return replace(bodies, links=tuple(links))

    def __repr__(self) -> str:
        before, after = float(np.nanmean(self.nrmse_before)), float(np.nanmean(self.nrmse_after))
        name = printable(self.identification.robot.name)
        return (
            f"<PhysicalParameters of '{name}': {self.total_mass:.4g} kg in all, fit NRMSE "
            f"{after:.4f} ({before:.4f} without constraints), {self.verdict.level}>"
        )

    def _repr_html_(self) -> str:
        """Verdict and bodies, for notebooks."""
        facts = {
            "physical parameters": self.identification.robot.name, "verdict": str(self.verdict),
            "next": str(self.verdict.next_step), "total mass": f"{self.total_mass:.4g} kg",
            "active bounds": "; ".join(map(str, self.bindings)), "warnings": len(self.warnings) or "",
        }  # fmt: skip
        both = zip(self.names, self.values, self.units, self.from_data, strict=True)
        rows = [(name, f"{x:.5g}", unit, f"{100.0 * share:.0f} %") for name, x, unit, share in both]
        return html_summary(facts, ["parameter", "value", "unit", "from the data"], rows)

    def table(self) -> Any:
        """Standard parameters of all links, and friction.

        Returns
        -------
        polars.DataFrame
            parameter, value, sigma (NaN where the prior has a say), unit, prior, and the share that the data decide.

        """
        known = np.append(self.prior, np.full(len(self.names) - len(self.prior), np.nan))
        return polars_frame({
            "parameter": self.names, "value": self.values, "sigma": self.sigma, "unit": self.units, "prior": known,
            "from_data": self.from_data,
        })  # fmt: skip

    @property
    def robot_has_all_friction(self) -> bool:
        """Whether the robot holds all friction that was identified."""
        return set(self.identification.friction) <= set(PLAIN) and self.identification.equation.is_direct_drive

    @property
    def is_changed(self) -> bool:
        """Whether physical consistency changed the identified parameters: no bodies have them as they are."""
        return bool(self.bindings)

    @property
    def total_mass(self) -> float:
        """Mass of all links, kg."""
        return float(sum(self.value("M" + link.label) for link in self.identification.robot.links))

    @property
    def determined(self) -> tuple[bool, ...]:
        """Whether the data alone determine each parameter."""
        return tuple(bool(share >= DETERMINED) for share in self.structural)

    @cached_property
    def verdict(self) -> Verdict:
        """Verdict on the bodies: no better than the identification's, nor than what is known of their masses."""
        codes, sizes = {warning.code for warning in self.warnings}, self.prior_source.count(FROM_SIZE)
        reasons = [Message("total_mass", "{mass:.4g} kg in all", mass=self.total_mass)]
        level: Level = "usable" if sizes or self.warnings else "good"
        doubtful = {"mass_far_from_prior", "centre_outside_link", "density_implausible"}
        if codes & doubtful or ("bodies_fit_worse" in codes and self.chance < UNLIKELY):
            level = "weak"
        if sizes and not self._total_mass_is_given:
            reasons.append(Message(
                "masses_from_sizes", "masses of {count} of {links} links were guessed from their sizes where the data "
                "do not show them", count=sizes, links=len(self.prior_source),
            ))  # fmt: skip
        free = [
            link.name for link in self.robot.links
            if link.inertia.any() and self.from_data[self.names.index("M" + link.label)] < SHOWN
        ]  # fmt: skip
        if free:
            reasons.append(Message(
                "masses_of_prior", "the data hardly show the masses of {links}: these are the prior's; {ranges} shows "
                "their ranges", links=free, ranges=Wording(".ranges", "--ranges"),
            ))  # fmt: skip
        if "bodies_fit_worse" in codes:
            growth = float(np.nanmax(self.nrmse_after / self.nrmse_before)) - 1.0
            what = "bodies fit worse than the estimate, by up to {growth:.0%}"
            reasons.append(Message("bodies_fit_worse", what, growth=growth))
        reasons += [warning for warning in self.warnings if warning.code in doubtful]
        identified = self.identification.verdict
        if LEVELS.index(identified.level) > LEVELS.index(level):
            level = identified.level
            reasons.append(Message("identification_verdict", "the identification is {level}", level=level))
        return Verdict(level, tuple(reasons), self._next_step(bool(free)))

    @property
    def _total_mass_is_given(self) -> bool:
        """Whether the user knows the total mass."""
        labels = () if self.equations is None else self.equations.labels
        return any(label.startswith("total mass") for label in labels)

    def _next_step(self, masses_are_free: bool) -> Message:
        """Message on what makes the bodies better, or on what to do with them."""
        if masses_are_free and not self._total_mass_is_given:
            return Message("give_total_mass", "weigh the robot and give {option}", option=Option("total_mass"))
        how = Wording("export(bodies, 'robot.urdf')", "dynid export physical.json robot.urdf")
        return Message("export_bodies", "{how}", how=how)

    @cached_property
    def model(self) -> Identification:
        """The identification with the values of these bodies in place of its own."""
        return self.identification.replace(values=self.fitted)

    @property
    def ranges(self) -> Array:
        """Low and high end (parameters, 2) over all bodies that can exist and fit as well; infinite where unbounded.

        As well: the weighted squares are at most three jackknife deviations (nine variances) above those of the best
        bodies under the same constraints; see `BodyRanges`. Of friction and other parameters of no link: their
        intervals, infinite where other parameters hide in them. Computed on demand, once.
        """
        half = np.full(len(self.names), np.inf)
        half[np.isfinite(self.sigma)] = 3.0 * self.sigma[np.isfinite(self.sigma)]
        ends = np.column_stack([self.values - half, self.values + half])
        ends[: len(self.body_ranges.parameters)] = self.body_ranges.parameters
        return ends

    @property
    def centre_ranges(self) -> Array:
        """Low and high end (links, 3, 2) of the links' centres of mass, in m, as `ranges`; NaN for massless links."""
        return self.body_ranges.centres

    @cached_property
    def body_ranges(self) -> BodyRanges:
        """Ranges of standard parameters and centres of mass, with the increase of the misfit that they allow."""
        result, robot = self.identification, self.identification.robot
        seen, k = identified_combinations(result), len(robot.parameter_names)
        rows = demand_rows(result, seen.names, BodyConstraints())
        if self.equations is not None and self.inequalities is not None:
            rows = self.equations, self.inequalities
        found, believed = (robot.with_parameters(x[:k]) for x in (self.values, self.prior))
        both = [0.5 * (a.inertia + b.inertia) for a, b in zip(found.links, believed.links, strict=True)]
        rotors = np.array([max(a.rotor, b.rotor, 1e-6) for a, b in zip(found.links, believed.links, strict=True)])
        near = Prior(np.array(both), rotors, rotors, rotors, (), ())
        return find_ranges(result, build_problem_from_rows(result, seen, near, rows))

    def predict(self, motion: Motion) -> Array:
        """Predict the measured channels along a motion for these bodies, with all friction.

        Parameters
        ----------
        motion : Motion
            The motion, N samples.

        Returns
        -------
        (N, channels) array
            Torques, N m or N, or what the model measures.
        """
        return self.model.predict(motion)

    def value(self, name: str) -> float:
        """Value of one parameter.

        Parameters
        ----------
        name : str
            Name of the parameter.

        Returns
        -------
        float
            Value in SI units.

        Raises
        ------
        PhysicalError
            If there is no parameter of this name.
        """
        if name not in self.names:
            raise PhysicalError(
                "unknown_parameter", "there is no parameter '{parameter}' in these physical parameters", parameter=name,
            )  # fmt: skip
        return float(self.values[self.names.index(name)])

    def pseudo_inertias(self) -> Array:
        """Pseudo-inertia matrices of the links, positive definite.

        Returns
        -------
        (links, 4, 4) array
            Second moments (kg m^2), first moments (kg m) and mass (kg).
        """
        return np.array([pseudo_inertia(link.inertia) for link in self.robot.links])

    def save(self, path: str | Path) -> None:
        """Write as versioned JSON; `PhysicalParameters.load` restores it exactly.

        Parameters
        ----------
        path : str or Path
            The file.
        """
        write_text(Path(path), json_text(to_plain_data(StoredPhysical, self)))

    @staticmethod
    def load(path: str | Path) -> PhysicalParameters:
        """Read what `save` wrote.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        PhysicalParameters
            The parameters.

        Raises
        ------
        DynidError
            If the file is not of this kind.
        """
        remedy = "`dynid physical` writes one with --out physical.json"
        found: PhysicalParameters = read_record(StoredPhysical, Path(path), remedy, PhysicalError)
        return found

    def _robot_friction(self, label: str) -> tuple[tuple[str, float], ...]:
        """Viscous, Coulomb and offset friction of a joint, the mean over all logs."""
        found = []
        for block, symbol in zip(PLAIN, ("Fv", "Fc", "Fo"), strict=True):
            own = [v for n, v in zip(self.names, self.values, strict=True) if n.of_all_logs == symbol + label]
            if own:
                found.append((block, float(np.mean(own))))
        return tuple(found)


# The layout of the file: the result inside, parameters once more for people.


FORMAT = "dynid physical parameters"


@dataclass(frozen=True, slots=True)
class StoredParameter:
    """One parameter, for people and other software; the exact numbers are in the arrays."""

    name: str
    unit: str
    value: float
    sigma: Known
    from_data: float


def _write_parameters_as_rows(x: PhysicalParameters, data: Data) -> Data:
    """Layout of the file: one entry per parameter in place of arrays of names and units; no fields of later versions.

    Files of before are written as they were.
    """
    for name in ("prior_weight", "equations", "inequalities"):
        if getattr(x, name) is None:
            del data[name]
    rows = zip(data.pop("names"), data.pop("units"), x.values, x.sigma, x.from_data, strict=True)
    return {
        "parameters": to_plain_data(tuple[StoredParameter, ...], tuple(StoredParameter(*row) for row in rows)),
        **data,
    }


def _check_contents(x: PhysicalParameters) -> PhysicalParameters:
    """Raise where a file's parameters are not those of its robot and identification, or its bodies impossible."""
    robot, result, p = x.identification.robot, x.identification, len(x.names)
    standard = robot.parameter_names
    known = parameters_by_name((*result.equation.names, *standard), len(result.factors))
    if x.names[: len(standard)] != standard or set(x.names) - known.keys() or len(set(x.names)) < p:
        raise PhysicalError(
            "record_parameters_mismatch", "the parameters are not those of the robot and of the identification in the "
            "file",
        )  # fmt: skip
    x = replace(x, names=tuple(known[name] for name in x.names))
    for name in ("values", "prior", "structural", "from_data", "sigma"):
        check_shape(name, getattr(x, name), p)
    check_shape("fitted", x.fitted, len(result.names))
    check_shape("nrmse_before", x.nrmse_before, len(result.channels))
    check_shape("nrmse_after", x.nrmse_after, len(result.channels))
    check_shape("eigenvalues", x.eigenvalues, len(x.eigenvalues))
    if len(x.prior_source) != len(robot.links):
        raise PhysicalError("record_prior_source_incomplete", "prior_source must name every link")
    for link in x.robot.links:
        if link.inertia.any() and np.linalg.eigvalsh(pseudo_inertia(link.inertia))[0] <= 0.0:
            raise PhysicalError("link_not_physical", "link {name} is not a physically possible body", name=link.name)
    return x


StoredPhysical = Annotated[
    PhysicalParameters,
    Form(
        (FORMAT, 1),
        read=lambda data: split_parameter_rows(data, StoredParameter),
        write=_write_parameters_as_rows,
        check=_check_contents,
    ),
]
