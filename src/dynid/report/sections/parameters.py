"""The parameters: values with intervals, sorted and coloured by relative deviation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynid.errors import DynidError
from dynid.estimation.identification import Identification
from dynid.report.subject import Subject
from dynid.report.table import Cell, Table, cell
from dynid.report.words import PLUS_MINUS, STAR, number, percent, unit
from dynid.robot.robot import Robot

CERTAIN, FAIR = 0.1, 0.5
"""Half width over value up to which a parameter is well known, and known at all."""


@dataclass(frozen=True, slots=True)
class ParametersSection:
    """One sortable table."""

    name: str = "parameters"
    title: str = "Parameters"

    def fill(self, subject: Subject) -> Mapping[str, Any]:
        """Rows by relative deviation."""
        result = subject.result
        how = f"jackknife over {result.groups} blocks of time" if result.groups else "textbook formula, white residuals"
        return {"table": _table(result), "how": how, "essential": len(result.essential), "count": len(result.names)}


def nominal_values(result: Identification) -> dict[str, float]:
    """Values of the parameters by the robot file, as far as it tells."""
    base, known = result.equation.base, {}
    try:
        known = dict(zip(base.names, map(float, base.values(result.robot.parameters)), strict=True))
    except DynidError:  # no nominal values in this notation
        known = {}
    known |= nominal_friction(result.robot)
    return {name: value for name, value in known.items() if math.isfinite(value)}


def nominal_friction(robot: Robot) -> dict[str, float]:
    """Friction by the robot file."""
    symbols = {"viscous": "Fv", "coulomb": "Fc", "offset": "Fo"}
    links = [robot.links[k] for k in robot.active_links]
    return {symbols[block] + link.label: x for link in links for block, x in link.friction if block in symbols}


def relative_half(result: Identification) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Half width of the 95 % interval over the value, infinite where that is zero."""
    half, size = result.quantile * result.sigma, np.abs(result.values)
    return np.divide(half, size, out=np.where(half > 0.0, np.inf, 0.0), where=size > 0.0)


def mark_of(share: float) -> str:
    """Colour by relative deviation."""
    return "good" if share <= CERTAIN else "fair" if share <= FAIR else "bad"


def _table(result: Identification) -> Table:
    nominal, relative = nominal_values(result), relative_half(result)
    has_nominal = any(name in nominal for name in result.names)
    head = ["parameter", "unit", "essential", "value", f"{PLUS_MINUS} 95 %", "relative"]
    head += ["nominal", "off nominal"] if has_nominal else []
    half, essential = result.quantile * result.sigma, set(result.essential)
    rows = []
    for k in np.argsort(relative, kind="stable"):
        name, share = result.names[k], float(relative[k])
        fixed = half[k] == 0.0
        row = [
            Cell(name), Cell(unit(result.units[k]), mark="soft"), _star(name in essential),
            cell(float(result.values[k]), number(float(result.values[k]), 5)),
            cell(float(half[k]), number(float(half[k]), 2)),
            Cell("fixed", -1.0, "soft") if fixed else cell(share, percent(share), mark_of(share), _bar(share)),
        ]  # fmt: skip
        rows.append(row + (_nominal(float(result.values[k]), float(half[k]), nominal.get(name)) if has_nominal else []))
    return Table("Identified parameters, best known first", head, rows, 3)


def _bar(share: float) -> float:
    """How far a bar is filled: from 0.1 % to 100 %, by its logarithm."""
    return float(np.clip(1.0 + np.log10(max(share, 1e-3)) / 3.0, 0.02, 1.0))


def _star(essential: bool) -> Cell:
    return Cell(STAR, 0.0) if essential else Cell("", 1.0)


def _nominal(value: float, half: float, nominal: float | None) -> list[Cell]:
    if nominal is None:
        return [cell(math.nan, "-"), cell(math.nan, "-")]
    off = abs(value - nominal) / half if half > 0.0 else math.nan
    mark = "" if not math.isfinite(off) else "soft" if off <= 1.0 else "fair"
    text = "inside" if off <= 1.0 else f"{number(off, 2)} half widths" if math.isfinite(off) else "-"
    return [cell(nominal, number(nominal, 5)), cell(off, text, mark)]
