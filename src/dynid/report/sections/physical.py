"""Physically consistent values beside nominal ones, where somebody found them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dynid.report.sections.parameters import nominal_friction
from dynid.report.subject import Subject
from dynid.report.table import Cell, Table, cell
from dynid.report.words import number


@dataclass(frozen=True, slots=True)
class PhysicalSection:
    """Standard parameters that a body can have; left out as long as none were handed in."""

    name: str = "physical"
    title: str = "Physical parameters"

    def fill(self, subject: Subject) -> Mapping[str, Any] | None:
        """One row per standard parameter."""
        found, robot = subject.physical, subject.result.robot
        if found is None:
            return None
        nominal = dict(zip(robot.parameter_names, map(float, robot.parameters), strict=True)) | nominal_friction(robot)
        rows = []
        for name, value in zip(found.names, map(float, found.values), strict=True):
            known = nominal.get(name, math.nan)
            rows.append([Cell(name), cell(value, number(value, 5)), cell(known, number(known, 5)),
                         cell(value - known, number(value - known, 3))])  # fmt: skip
        return {"table": Table("Standard parameters", ("parameter", "physical", "nominal", "difference"), rows)}
