"""Drive gains with their deviations, and the robot's parameters in true units."""

from __future__ import annotations

import json
from dataclasses import dataclass

from dynid.errors import IdentificationError
from dynid.messages import Message
from dynid.payload.payload import ResultWithFit, floats_for_json
from dynid.robot.parameter import Parameter
from dynid.robot.transform import Array


@dataclass(frozen=True, eq=False)
class Gains(ResultWithFit):
    """Gains g of the joints `names`: true torque = g * measured signal, as `read_log(..., gain=...)` takes them.

    values and sigma are NaN where the payload does not reveal a gain. parameters: base parameters and friction in true
    units (N m, kg, ...), as far as revealed gains tell.
    """

    payload: Array
    sigma: Array
    parameter_names: tuple[Parameter, ...]
    parameter_units: tuple[str, ...]
    parameters: Array
    parameter_sigma: Array
    warnings: tuple[Message, ...]

    @property
    def intervals(self) -> Array:
        """95 % intervals of the gains, (joints, 2)."""
        return self.fit.intervals(self.sigma)

    def value(self, name: str) -> float:
        """Gain of one joint."""
        if name not in self.names:
            raise IdentificationError(
                "unknown_joint", "there is no joint '{joint}' in these gains; joints are {joints}", joint=name,
                joints=list(self.names),
            )  # fmt: skip
        return float(self.values[self.names.index(name)])

    def facts(self) -> dict[str, object]:
        """The gains as JSON-ready data; None where a number is not known."""
        return self.fit.facts(self.sigma) | {
            "payload": floats_for_json(self.payload),
            "parameters": {
                "names": list(self.parameter_names),
                "units": list(self.parameter_units),
                "values": floats_for_json(self.parameters),
                "sigma": floats_for_json(self.parameter_sigma),
            },
            "warnings": list(self.warnings),
        }

    def to_json(self) -> str:
        """The gains as JSON text."""
        return json.dumps(self.facts(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def __str__(self) -> str:
        half = self.quantile * self.sigma
        rows = zip(self.names, self.values, half, strict=True)
        return "\n".join(
            ["drive gains (+-: 95 % interval)", *(f"  {name:<4} {g:.5g} +- {h:.2g}" for name, g, h in rows)]
        )
