"""Drive gains with their deviations, and the robot's parameters in true units."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from dynid.errors import IdentificationError
from dynid.payload.payload import numbers
from dynid.robot.parameter import Parameter
from dynid.robot.transform import Array


@dataclass(frozen=True, eq=False)
class Gains:
    """Gains g of the joints `names`: true torque = g * measured signal, as `read_log(..., gain=...)` takes them.

    values and sigma are NaN where the payload does not reveal a gain. parameters: base parameters and friction in true
    units (N m, kg, ...), as far as revealed gains tell. quantile * sigma is the half width of a 95 % interval.
    nrmse per joint: error over the spread of the measured signal, of all logs together.
    """

    robot: str
    link: str
    payload: Array
    names: tuple[Parameter, ...]
    values: Array
    sigma: Array
    quantile: float
    groups: int
    parameter_names: tuple[Parameter, ...]
    parameter_units: tuple[str, ...]
    parameters: Array
    parameter_sigma: Array
    friction: tuple[str, ...]
    cutoff: float | None
    nrmse: Array
    findings: tuple[tuple[str, tuple[str, ...]], ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def intervals(self) -> Array:
        """95 % intervals of the gains, (joints, 2)."""
        half = self.quantile * self.sigma
        return np.column_stack([self.values - half, self.values + half])

    def value(self, name: str) -> float:
        """Gain of one joint."""
        if name not in self.names:
            raise IdentificationError(f"there is no joint '{name}' in these gains; joints are {', '.join(self.names)}")
        return float(self.values[self.names.index(name)])

    def facts(self) -> dict[str, object]:
        """Everything for machines; None where a number is not known."""
        return {
            "robot": self.robot,
            "link": self.link,
            "payload": numbers(self.payload),
            "names": list(self.names),
            "values": numbers(self.values),
            "sigma": numbers(self.sigma),
            "intervals": [numbers(pair) for pair in self.intervals],
            "parameters": {
                "names": list(self.parameter_names),
                "units": list(self.parameter_units),
                "values": numbers(self.parameters),
                "sigma": numbers(self.parameter_sigma),
            },
            "friction": list(self.friction),
            "cutoff": self.cutoff,
            "nrmse": numbers(self.nrmse),
            "logs": [{"name": name, "findings": list(found)} for name, found in self.findings],
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }

    def to_json(self) -> str:
        """Everything as JSON text."""
        return json.dumps(self.facts(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def __str__(self) -> str:
        half = self.quantile * self.sigma
        rows = zip(self.names, self.values, half, strict=True)
        return "\n".join(
            ["drive gains (+-: 95 % interval)", *(f"  {name:<4} {g:.5g} +- {h:.2g}" for name, g, h in rows)]
        )
