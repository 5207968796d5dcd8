"""The result: standard parameters that real bodies can have, what they cost, and who decided them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np

from dynid.concurrency import cached_property
from dynid.deprecated import accept_old_names
from dynid.dynamics.friction import PLAIN
from dynid.errors import PhysicalError
from dynid.estimation.diagnostics.verdict import LEVELS, Level, Verdict
from dynid.estimation.identification import Identification, StoredIdentification
from dynid.estimation.records import Known, check_shape, split_parameter_rows
from dynid.messages import Message, Option, Wording
from dynid.physical.attribution import DETERMINED, Binding, BodyRanges, find_ranges
from dynid.physical.constraints import BodyConstraints, LinearRows
from dynid.physical.prior import FROM_SIZE, Prior
from dynid.physical.problem import build_problem_from_rows, demand_rows, identified_combinations
from dynid.robot.inertia import pseudo_inertia
from dynid.robot.motion import Motion
from dynid.robot.parameter import Parameter, parameters_by_name
from dynid.robot.robot import Robot
from dynid.robot.transform import Array, FiniteArray
from dynid.storage.files import write_text
from dynid.storage.records import ROW, Data, Form, Limit, json_text, read_record, to_plain_data

UNLIKELY = 1e-3
"""Probability below which noise does not explain that bodies cannot have the estimate."""

SHOWN = 0.5
"""Share of a mass that comes from the data from which on it counts as shown by them."""


@accept_old_names
@dataclass(frozen=True, eq=False)
class PhysicalParameters:
    """Values of the standard parameters `names` (those of the robot in order, then friction as identified).

    identification: what they were made from. prior: what was believed of them. from_data (0 to 1): how much of that
    belief's doubt the data took away; structural: the same if data had no noise; sigma: standard deviation where the
    data alone decide (NaN elsewhere). fitted: the identified parameters as these bodies have them. nrmse_before,
    nrmse_after per channel on the data used; cost: how much the sum of squares grew, in squares of the noise; chance:
    probability that noise alone makes bodies differ so much from the estimate (from the jackknife's covariance).
    eigenvalues: smallest share of its prior that each link with mass keeps, at least `margin`. bindings: bounds that
    the data press against. prior_weight: of the divergence from the prior, in squares of the noise. equations,
    inequalities: what bodies satisfy beside the data. The last three are None in files of before.
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
                "masses_of_prior", "the data hardly show the masses of {links}: these are the prior's; {ranges} says "
                "how far they can be moved", links=free, ranges=Wording(".ranges", "--ranges"),
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
        """Measured channels along a motion as these bodies would give them, with all friction."""
        return self.model.predict(motion)

    def value(self, name: str) -> float:
        """Value of one parameter."""
        if name not in self.names:
            raise PhysicalError(
                "unknown_parameter", "there is no parameter '{parameter}' in these physical parameters", parameter=name,
            )  # fmt: skip
        return float(self.values[self.names.index(name)])

    def pseudo_inertias(self) -> Array:
        """Pseudo-inertia matrices (links, 4, 4), positive definite."""
        return np.array([pseudo_inertia(link.inertia) for link in self.robot.links])

    def save(self, path: str | Path) -> None:
        """Write as versioned JSON; `PhysicalParameters.load` gives it back exactly."""
        write_text(Path(path), json_text(to_plain_data(StoredPhysical, self)))

    @staticmethod
    def load(path: str | Path) -> PhysicalParameters:
        """Read what `save` wrote."""
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
        raise PhysicalError("record_prior_source_incomplete", "prior_source must speak of every link")
    for link in x.robot.links:
        if link.inertia.any() and np.linalg.eigvalsh(pseudo_inertia(link.inertia))[0] <= 0.0:
            raise PhysicalError("link_not_physical", "link {name} is no body", name=link.name)
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
