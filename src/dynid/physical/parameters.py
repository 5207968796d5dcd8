"""The result: standard parameters that real bodies can have, what they cost, and who decided them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from dynid.concurrency import cached_property
from dynid.dynamics.friction import PLAIN
from dynid.errors import IdentificationError, PhysicalError
from dynid.estimation.identification import Identification
from dynid.estimation.records import (
    DAMAGE,
    ArrayRecord,
    Record,
    describe_damage,
    finite_numbers,
    read_json,
    read_numbers,
    record_array,
)
from dynid.estimation.result_file import IdentificationRecord, rebuild_identification, record_identification
from dynid.physical.attribution import DETERMINED, Binding
from dynid.robot.inertia import pseudo_inertia
from dynid.robot.motion import Motion
from dynid.robot.parameter import Parameter, by_name
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.storage.files import write_text


@dataclass(frozen=True, eq=False)
class PhysicalParameters:
    """Values of the standard parameters `names` (those of the robot in order, then friction as identified).

    identification: what they were made from. prior: what was believed of them. from_data (0 to 1): how much of that
    belief's doubt the data took away; structural: the same if data had no noise; sigma: standard deviation where the
    data alone decide (NaN elsewhere). fitted: the identified parameters as these bodies have them. nrmse_before,
    nrmse_after per channel on the data used; cost: how much the sum of squares grew, in squares of the noise; chance:
    probability that noise alone makes bodies differ so much from the estimate (from the jackknife's covariance).
    eigenvalues: smallest share of its prior that each link with mass keeps, at least `margin`. bindings: bounds that
    the data press against.
    """

    identification: Identification
    names: tuple[Parameter, ...]
    units: tuple[str, ...]
    values: Array
    prior: Array
    prior_source: tuple[str, ...]
    structural: Array
    from_data: Array
    sigma: Array
    fitted: Array
    nrmse_before: Array
    nrmse_after: Array
    cost: float
    chance: float
    margin: float
    eigenvalues: Array
    bindings: tuple[Binding, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    @cached_property
    def robot(self) -> Robot:
        """The robot with these parameters, and with friction as far as a robot can hold it."""
        robot = self.identification.robot
        bodies = robot.with_parameters(self.values[: len(robot.parameter_names)])
        links = list(bodies.links)
        for k in robot.active_links:
            friction = self._friction(links[k].label) if self.holds_friction else ()
            links[k] = replace(links[k], friction=friction)
        return replace(bodies, links=tuple(links))

    @property
    def holds_friction(self) -> bool:
        """Whether the robot holds all friction that was identified."""
        return set(self.identification.friction) <= set(PLAIN) and self.identification.equation.is_direct

    @property
    def is_changed(self) -> bool:
        """Whether the fit had to give way: no bodies have the identified parameters."""
        return self.cost > 0.0

    @property
    def total_mass(self) -> float:
        """Mass of all links, kg."""
        return float(sum(self.value("M" + link.label) for link in self.identification.robot.links))

    @property
    def determined(self) -> tuple[bool, ...]:
        """Which parameters the data alone determine."""
        return tuple(bool(share >= DETERMINED) for share in self.structural)

    @cached_property
    def model(self) -> Identification:
        """The identification with the values of these bodies in place of its own."""
        return replace(self.identification, values=self.fitted)

    def predict(self, motion: Motion) -> Array:
        """What was measured along a motion, as these bodies would give it, with all friction."""
        return self.model.predict(motion)

    def value(self, name: str) -> float:
        """Value of one parameter."""
        from dynid.errors import PhysicalError

        if name not in self.names:
            raise PhysicalError(f"there is no parameter '{name}' in these physical parameters")
        return float(self.values[self.names.index(name)])

    def pseudo_inertias(self) -> Array:
        """Pseudo-inertia matrices (links, 4, 4), positive definite."""
        return np.array([pseudo_inertia(link.inertia) for link in self.robot.links])

    def save(self, path: str | Path) -> None:
        """Write as versioned JSON; `PhysicalParameters.load` gives it back exactly."""
        write_physical(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> PhysicalParameters:
        """Read what `save` wrote."""
        return read_physical(Path(path))

    def _friction(self, label: str) -> tuple[tuple[str, float], ...]:
        found = []
        for block, symbol in zip(PLAIN, ("Fv", "Fc", "Fo"), strict=True):
            own = [v for n, v in zip(self.names, self.values, strict=True) if n.of_all_logs == symbol + label]
            if own:
                found.append((block, float(np.mean(own))))
        return tuple(found)


# Physical parameters on disk: versioned JSON that gives back exactly what was written, with the result inside.


FORMAT: Literal["dynid physical parameters"] = "dynid physical parameters"
VERSION: Literal[1] = 1


class ValueRecord(Record):
    """One parameter, for people and other software; the exact numbers are in the arrays."""

    name: str
    unit: str
    value: float
    sigma: float | None
    from_data: float


class PhysicalRecord(Record):
    """All of it."""

    format: Literal["dynid physical parameters"]
    version: Literal[1]
    parameters: list[ValueRecord]
    values: ArrayRecord
    prior: ArrayRecord
    prior_source: list[str]
    structural: ArrayRecord
    from_data: ArrayRecord
    sigma: ArrayRecord
    fitted: ArrayRecord
    nrmse_before: ArrayRecord
    nrmse_after: ArrayRecord
    cost: Annotated[float, Field(ge=0.0)]
    chance: Annotated[float, Field(ge=0.0, le=1.0)]
    margin: Annotated[float, Field(gt=0.0)]
    eigenvalues: ArrayRecord
    bindings: list[tuple[str, str, float]]
    notes: list[str]
    warnings: list[str]
    identification: IdentificationRecord


def write_physical(found: PhysicalParameters, path: Path) -> None:
    """Write beside, then rename."""
    x = found
    record = PhysicalRecord(
        format=FORMAT,
        version=VERSION,
        parameters=[
            ValueRecord(name=n, unit=u, value=float(v), sigma=float(s) if np.isfinite(s) else None, from_data=float(d))
            for n, u, v, s, d in zip(x.names, x.units, x.values, x.sigma, x.from_data, strict=True)
        ],
        values=record_array(x.values),
        prior=record_array(x.prior),
        prior_source=list(x.prior_source),
        structural=record_array(x.structural),
        from_data=record_array(x.from_data),
        sigma=record_array(x.sigma),
        fitted=record_array(x.fitted),
        nrmse_before=record_array(x.nrmse_before),
        nrmse_after=record_array(x.nrmse_after),
        cost=x.cost,
        chance=x.chance,
        margin=x.margin,
        eigenvalues=record_array(x.eigenvalues),
        bindings=[(b.link, b.reason, b.share) for b in x.bindings],
        notes=list(x.notes),
        warnings=list(x.warnings),
        identification=record_identification(x.identification),
    )
    write_text(path, json.dumps(record.model_dump(), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_physical(path: Path) -> PhysicalParameters:
    """Read and check; raise PhysicalError with place and remedy."""
    try:
        data = read_json(path, FORMAT, VERSION, "`dynid physical` writes one with --out physical.json")
    except IdentificationError as error:
        raise PhysicalError(str(error)) from error
    try:
        return _rebuild(PhysicalRecord.model_validate(data))
    except DAMAGE as error:
        raise PhysicalError(f"{path}: {describe_damage(error)}") from error


def _rebuild(r: PhysicalRecord) -> PhysicalParameters:
    result = rebuild_identification(r.identification)
    robot, standard = result.robot, result.robot.parameter_names
    known = by_name((*result.equation.names, *standard), len(result.factors))
    names = tuple(known[p.name] for p in r.parameters if p.name in known)
    if names[: len(standard)] != standard or not len(set(names)) == len(names) == len(r.parameters):
        raise PhysicalError("the parameters are not those of the robot and of the identification in the file")
    p, c, k = len(names), len(result.channels), r.eigenvalues.shape[0]
    values: dict[str, Any] = {
        "values": finite_numbers(r.values, p), "prior": finite_numbers(r.prior, p),
        "structural": finite_numbers(r.structural, p), "from_data": finite_numbers(r.from_data, p),
        "sigma": read_numbers(r.sigma, p), "fitted": finite_numbers(r.fitted, len(result.names)),
        "nrmse_before": read_numbers(r.nrmse_before, c), "nrmse_after": read_numbers(r.nrmse_after, c),
        "eigenvalues": finite_numbers(r.eigenvalues, k),
    }  # fmt: skip
    if len(r.prior_source) != len(robot.links):
        raise PhysicalError("prior_source must speak of every link")
    found = PhysicalParameters(
        identification=result, names=names, units=tuple(p.unit for p in r.parameters), **values,
        prior_source=tuple(r.prior_source), cost=r.cost, chance=r.chance, margin=r.margin,
        bindings=tuple(Binding(*b) for b in r.bindings), notes=tuple(r.notes), warnings=tuple(r.warnings),
    )  # fmt: skip
    for link in found.robot.links:
        if link.inertia.any() and np.linalg.eigvalsh(pseudo_inertia(link.inertia))[0] <= 0.0:
            raise PhysicalError(f"link {link.name} is no body")
    return found
