"""The parameters: values with intervals, sorted and coloured by relative deviation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynid.errors import DynidError
from dynid.estimation.identification import Identification
from dynid.report.drawing import draw_robot, middle_posture
from dynid.report.elements import (
    PLUS_MINUS,
    STAR,
    Cell,
    Figure,
    Table,
    name_axis,
    number_cell,
    number_text,
    percent_text,
    titled_axis,
    typed_array,
    unit_text,
)
from dynid.report.page import ReportSubject
from dynid.report.replay import nominal_friction_by_name, nominal_values_by_name
from dynid.robot.robot import Link, Robot
from dynid.robot.transform import Array

CERTAIN, FAIR = 0.1, 0.5
"""Half width over value up to which a parameter is well known, and known at all."""


@dataclass(frozen=True, slots=True)
class ParametersSection:
    """One sortable table."""

    name: str = "parameters"
    title: str = "Parameters"

    def build_content(self, subject: ReportSubject) -> Mapping[str, Any]:
        """Table of the parameters, sorted by relative deviation."""
        result = subject.result
        how = f"jackknife over {result.groups} blocks of time" if result.groups else "textbook formula, white residuals"
        return {
            "table": _parameters_table(result),
            "how": how,
            "essential": len(result.essential),
            "count": len(result.names),
        }


def relative_half_width(result: Identification) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Half width of the 95 % interval over the value, infinite where that is zero."""
    half, size = result.quantile * result.sigma, np.abs(result.values)
    return np.divide(half, size, out=np.where(half > 0.0, np.inf, 0.0), where=size > 0.0)


def precision_colour(share: float) -> str:
    """Style class for a relative deviation: good, fair or bad."""
    return "good" if share <= CERTAIN else "fair" if share <= FAIR else "bad"


def _parameters_table(result: Identification) -> Table:
    """Table of the parameters with intervals, and nominal values where there are some."""
    nominal, relative = nominal_values_by_name(result), relative_half_width(result)
    has_nominal = any(name in nominal for name in result.names)
    head = ["parameter", "unit", "essential", "value", f"{PLUS_MINUS} 95 %", "relative"]
    head += ["nominal", "off nominal"] if has_nominal else []
    half, essential = result.quantile * result.sigma, set(result.essential)
    rows = []
    for k in np.argsort(relative, kind="stable"):
        name, share = result.names[k], float(relative[k])
        fixed = half[k] == 0.0
        row = [
            Cell(name), Cell(unit_text(result.units[k]), mark="soft"), _essential_cell(name in essential),
            number_cell(float(result.values[k]), number_text(float(result.values[k]), 5)),
            number_cell(float(half[k]), number_text(float(half[k]), 2)),
            Cell("fixed", -1.0, "soft") if fixed
            else number_cell(share, percent_text(share), precision_colour(share), _bar_fill(share)),
        ]  # fmt: skip
        rows.append(
            row + (_nominal_cells(float(result.values[k]), float(half[k]), nominal.get(name)) if has_nominal else [])
        )
    return Table("Identified parameters, best known first", head, rows, 3)


def _bar_fill(share: float) -> float:
    """Filled share of a bar for a relative half width from 0.1 % to 100 %, logarithmic."""
    return float(np.clip(1.0 + np.log10(max(share, 1e-3)) / 3.0, 0.02, 1.0))


def _essential_cell(essential: bool) -> Cell:
    """Cell with a star for an essential parameter."""
    return Cell(STAR, 0.0) if essential else Cell("", 1.0)


def _nominal_cells(value: float, half: float, nominal: float | None) -> list[Cell]:
    """Cells of the nominal value and of whether it is inside the interval."""
    if nominal is None:
        return [number_cell(math.nan, "-"), number_cell(math.nan, "-")]
    off = abs(value - nominal) / half if half > 0.0 else math.nan
    mark = "" if not math.isfinite(off) else "soft" if off <= 1.0 else "fair"
    text = "inside" if off <= 1.0 else f"{number_text(off, 2)} half widths" if math.isfinite(off) else "-"
    return [number_cell(nominal, number_text(nominal, 5)), number_cell(off, text, mark)]


# Physically consistent values beside nominal ones, where somebody found them.


@dataclass(frozen=True, slots=True)
class PhysicalSection:
    """Standard parameters that a body can have; left out as long as none were handed in."""

    name: str = "physical"
    title: str = "Physical parameters"

    def build_content(self, subject: ReportSubject) -> Mapping[str, Any] | None:
        """Table of standard parameters, one row each; None where none were handed in."""
        found, robot = subject.physical, subject.result.robot
        if found is None:
            return None
        nominal = dict(
            zip(robot.parameter_names, map(float, robot.parameters), strict=True)
        ) | nominal_friction_by_name(robot)
        rows = []
        for name, value in zip(found.names, map(float, found.values), strict=True):
            known = nominal.get(name, math.nan)
            rows.append([Cell(name), number_cell(value, number_text(value, 5)),
                         number_cell(known, number_text(known, 5)),
                         number_cell(value - known, number_text(value - known, 3))])  # fmt: skip
        title = f"Standard parameters of bodies; {found.verdict}"
        return {"table": Table(title, ("parameter", "physical", "nominal", "difference"), rows)}


# The robot: a drawing and its table.


@dataclass(frozen=True, slots=True)
class RobotSection:
    """Skeleton, modified Denavit-Hartenberg table, gravity."""

    name: str = "robot"
    title: str = "Robot"

    def build_content(self, subject: ReportSubject) -> Mapping[str, Any]:
        """Table of the robot, and its skeleton in the middle of its limits where no log is replayed."""
        robot, unknown = subject.result.robot, subject.result.equation.unknown
        try:
            table = _mdh_table(robot.to_mdh())
        except DynidError:  # frames that the notation does not have; the drawing needs none
            table = None
        return {
            "robot": robot,
            "gravity": ", ".join(number_text(float(x), 4) for x in robot.gravity),
            "drawing": None if subject.replays else draw_robot(robot, middle_posture(robot)),
            "replays": bool(subject.replays),
            "table": table,
            "unknown": ", ".join(unknown or ()),
        }


def _mdh_table(robot: Robot) -> Table:
    """Modified Denavit-Hartenberg table of a robot, with its limits."""
    head = ("joint", "parent", "type", "gamma", "b", "alpha", "d", "theta", "r", "from", "to", "speed", "effort")
    rows = [_mdh_row(robot, link) for link in robot.links if link.mdh is not None]
    return Table("Modified Denavit-Hartenberg table: degrees and m, limits likewise, N m or N", head, rows, 3)


def _mdh_row(robot: Robot, link: Link) -> list[Cell]:
    """Row of a link in the modified Denavit-Hartenberg table."""
    assert link.mdh is not None
    parent = robot.links[link.parent].joint if link.parent >= 0 else "base"
    row = [Cell(link.joint), Cell(parent), Cell(link.kind)]
    for letter in ("gamma", "b", "alpha", "d", "theta", "r"):
        entry = getattr(link.mdh, letter)
        value = math.degrees(entry.value) if letter in ("gamma", "alpha", "theta") else entry.value
        row.append(number_cell(value, f"{entry.text} = {value:.5g}" if entry.text else f"{value:.5g}"))
    turns = math.degrees(1.0) if link.kind == "revolute" else 1.0
    limits = link.limits
    for value in (turns * limits.lower, turns * limits.upper, turns * limits.velocity, limits.effort):
        row.append(number_cell(value, f"{value:.4g}" if math.isfinite(value) else "-"))
    return row


# What can be identified at all, and how the other parameters join.


FEW = 8
"""Relations that are shown at once."""


@dataclass(frozen=True, slots=True)
class IdentifiableSection:
    """Base parameters (or model parameters of unknown geometry) with their relations, and what the data lost."""

    name: str = "identifiable"
    title: str = "What is identifiable"

    def build_content(self, subject: ReportSubject) -> Mapping[str, Any]:
        """Counts, names and relations of the base parameters, and what the data do not determine."""
        result = subject.result
        base, free = result.equation.base, result.equation.unknown is not None
        return {
            "model": result.model,
            "free": free,
            "count": base.count,
            "rank": result.base_rank,
            "columns": len(base.columns),
            "groups": []
            if free
            else [
                ("have no effect on the measurement", base.no_effect),
                ("show only in sums with others", base.regrouped),
                ("are known to be zero", base.known),
            ],
            "relations": base.relations[:FEW],
            "more_relations": base.relations[FEW:],
            "lost": result.unidentifiable,
        }


# How well the motion excites: singular values of the weighted matrix, and its weakest direction.


TERMS = 6


@dataclass(frozen=True, slots=True)
class ConditionSection:
    """Condition numbers, singular values, and what the smallest of them is about."""

    name: str = "condition"
    title: str = "Condition"

    def build_content(self, subject: ReportSubject) -> Mapping[str, Any]:
        """Singular values and condition number, from the factors of the result."""
        result = subject.result
        values, directions = weighted_singular_values(result)
        weakest = directions[-1] if len(directions) else np.zeros(0)
        largest = np.argsort(-np.abs(weakest), kind="stable")[:TERMS]
        rows = [[Cell(result.names[k]), number_cell(float(weakest[k]), f"{weakest[k]:+.2f}")] for k in largest]
        trace = {
            "type": "bar", "y": typed_array(np.maximum(values, 1e-16 * values.max(initial=1.0))),
            "x": typed_array(np.arange(1.0, len(values) + 1.0)), "marker": {"color": "#3b82c4"},
            "hovertemplate": "%{x}: %{y:.3g}<extra></extra>",
        }  # fmt: skip
        layout = {
            "xaxis": titled_axis("number"),
            "yaxis": titled_axis("singular value", type="log", exponentformat="power", nticks=6),
            "bargap": 0.25, "showlegend": False,
        }  # fmt: skip
        return {
            "condition": number_text(result.condition, 4),
            "base_condition": number_text(result.base_condition, 4),
            "rank": result.rank,
            "count": len(result.names),
            "bound": number_text(result.bounds.of_measurement, 3),
            "drawing": Figure("Singular values of the weighted matrix", [trace], layout, 300),
            "table": Table("Weakest direction", ("parameter", "share"), rows),
        }


def weighted_singular_values(result: Identification) -> tuple[Array, Array]:
    """Singular values of W of all logs and channels, each divided by its noise, and their directions (k, p)."""
    noise = np.where(np.isfinite(result.noise) & (result.noise > 0.0), result.noise, 1.0)
    stacked = np.concatenate([f.R[:, :-1] / noise[c] for of_log in result.factors for c, f in enumerate(of_log)])
    values, directions = np.linalg.svd(stacked, full_matrices=False)[1:]
    return np.asarray(values), np.asarray(directions)


# Which parameters the data hardly tell apart.


PAIRS, READABLE, ROW = 10, 130, 11
"""Pairs that are listed, names that can be read along an axis, and px of one of them."""

SCALE = [[0.0, "#b3303f"], [0.5, "rgba(160,160,160,0.04)"], [1.0, "#2f7fc6"]]


@dataclass(frozen=True, slots=True)
class CorrelationSection:
    """The correlation matrix and its largest entries."""

    name: str = "correlation"
    title: str = "Correlation"

    def build_content(self, subject: ReportSubject) -> Mapping[str, Any] | None:
        """Correlations of the parameters; None where there are no two uncertain ones."""
        result = subject.result
        some = np.flatnonzero(result.sigma > 0.0)
        if len(some) < 2:
            return None
        R = np.clip(result.correlation[np.ix_(some, some)], -1.0, 1.0)
        names = [result.names[k] for k in some]
        rows, columns = np.triu_indices(len(some), 1)
        worst = np.argsort(-np.abs(R[rows, columns]), kind="stable")[:PAIRS]
        pairs = []
        for i, j in zip(rows[worst], columns[worst], strict=True):
            pairs.append([Cell(names[i]), Cell(names[j]), number_cell(float(R[i, j]), f"{R[i, j]:+.3f}")])
        n = len(names)
        ticks = {
            **name_axis(names), "showticklabels": n <= READABLE, "tickfont": {"size": 9 if n <= 60 else 8},
            "ticks": "", "showgrid": False, "zeroline": False,
        }  # fmt: skip
        places = list(range(n))
        trace = {
            "type": "heatmap", "x": places, "y": places, "z": typed_array(R), "zmin": -1, "zmax": 1,
            "colorscale": SCALE, "hovertemplate": "%{y}, %{x}: %{z:.2f}<extra></extra>",
            "colorbar": {"thickness": 12, "len": 0.6},
        }  # fmt: skip
        layout = {
            "xaxis": {**ticks, "tickangle": -90},
            "yaxis": {**ticks, "autorange": "reversed"},
            "hovermode": "closest",
            "meta": "matrix",
        }
        height = 560 if n > READABLE else max(560, 100 + ROW * n)
        figure = Figure("Correlation matrix of the parameters", [trace], layout, height)
        return {"drawing": figure, "table": Table("Most correlated pairs", ("one", "other", "correlation"), pairs, 2)}
