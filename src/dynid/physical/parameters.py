"""The result: standard parameters that real bodies can have, what they cost, and who decided them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np

from dynid.concurrency import cached_property
from dynid.dynamics.friction import PLAIN
from dynid.errors import PhysicalError
from dynid.estimation.identification import Identification, StoredIdentification
from dynid.estimation.records import Known, check_shape, split_parameter_rows
from dynid.messages import Message
from dynid.physical.attribution import DETERMINED, Binding
from dynid.robot.inertia import pseudo_inertia
from dynid.robot.motion import Motion
from dynid.robot.parameter import Parameter, parameters_by_name
from dynid.robot.robot import Robot
from dynid.robot.transform import Array, FiniteArray
from dynid.storage.files import write_text
from dynid.storage.records import ROW, Data, Form, Limit, json_text, read_record, to_plain_data


@dataclass(frozen=True, eq=False)
class PhysicalParameters:
    """Values of the standard parameters `names` (those of the robot in order, then friction as identified).

    identification: what they were made from. prior: what was believed of them. from_data (0 to 1): how much of that
    belief's doubt the data took away; structural: the same if data had no noise; sigma: standard deviation where the
    data alone decide (NaN elsewhere). fitted: the identified parameters as these bodies have them. nrmse_before,
    nrmse_after per channel on the data used; cost: how much the sum of squares grew, in squares of the noise; chance:
    probability that noise alone makes bodies differ so much from the estimate (from the jackknife's covariance).
    eigenvalues: smallest share of its prior that each link with mass keeps, at least `margin`. bindings: bounds that
    the data press against. prior_weight: of the divergence from the prior, in squares of the noise (None: in files of
    before).
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

    @cached_property
    def robot(self) -> Robot:
        """The robot with these parameters, and with friction as far as a robot can hold it."""
        robot = self.identification.robot
        bodies = robot.with_parameters(self.values[: len(robot.parameter_names)])
        links = list(bodies.links)
        for k in robot.active_links:
            friction = self._robot_friction(links[k].label) if self.holds_friction else ()
            links[k] = replace(links[k], friction=friction)
        return replace(bodies, links=tuple(links))

    @property
    def holds_friction(self) -> bool:
        """Whether the robot holds all friction that was identified."""
        return set(self.identification.friction) <= set(PLAIN) and self.identification.equation.is_direct_drive

    @property
    def is_changed(self) -> bool:
        """Whether the fit had to give way: no bodies have the identified parameters."""
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
    def model(self) -> Identification:
        """The identification with the values of these bodies in place of its own."""
        return self.identification.replace(values=self.fitted)

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
    if x.prior_weight is None:
        del data["prior_weight"]
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
