"""How well the motion excites: singular values of the weighted matrix, and its weakest direction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynid.estimation.identification import Identification
from dynid.report.figure import Figure, axis, numbers
from dynid.report.subject import Subject
from dynid.report.table import Cell, Table, cell
from dynid.report.words import number
from dynid.robot.transform import Array

TERMS = 6


@dataclass(frozen=True, slots=True)
class ConditionSection:
    """Condition numbers, singular values, and what the smallest of them is about."""

    name: str = "condition"
    title: str = "Condition"

    def fill(self, subject: Subject) -> Mapping[str, Any]:
        """From the factors of the result."""
        result = subject.result
        values, directions = weighted_singular_values(result)
        weakest = directions[-1] if len(directions) else np.zeros(0)
        largest = np.argsort(-np.abs(weakest), kind="stable")[:TERMS]
        rows = [[Cell(result.names[k]), cell(float(weakest[k]), f"{weakest[k]:+.2f}")] for k in largest]
        trace = {
            "type": "bar", "y": numbers(np.maximum(values, 1e-16 * values.max(initial=1.0))),
            "x": numbers(np.arange(1.0, len(values) + 1.0)), "marker": {"color": "#3b82c4"},
            "hovertemplate": "%{x}: %{y:.3g}<extra></extra>",
        }  # fmt: skip
        layout = {
            "xaxis": axis("number"), "yaxis": axis("singular value", type="log", exponentformat="power", nticks=6),
            "bargap": 0.25, "showlegend": False,
        }  # fmt: skip
        return {
            "condition": number(result.condition, 4),
            "base_condition": number(result.base_condition, 4),
            "rank": result.rank,
            "count": len(result.names),
            "bound": number(result.bounds.of_measurement, 3),
            "drawing": Figure("Singular values of the weighted matrix", [trace], layout, 300),
            "table": Table("Weakest direction", ("parameter", "share"), rows),
        }


def weighted_singular_values(result: Identification) -> tuple[Array, Array]:
    """Singular values of W of all logs and channels, each divided by its noise, and their directions (k, p)."""
    noise = np.where(np.isfinite(result.noise) & (result.noise > 0.0), result.noise, 1.0)
    stacked = np.concatenate([f.R[:, :-1] / noise[c] for of_log in result.factors for c, f in enumerate(of_log)])
    values, directions = np.linalg.svd(stacked, full_matrices=False)[1:]
    return np.asarray(values), np.asarray(directions)
