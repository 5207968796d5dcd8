"""Which parameters the data hardly tell apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynid.report.figure import Figure, numbers
from dynid.report.subject import Subject
from dynid.report.table import Cell, Table, cell
from dynid.report.words import plot_text

PAIRS, READABLE = 10, 45
"""Pairs that are listed, and names that can be read along an axis."""

SCALE = [[0.0, "#b3303f"], [0.5, "rgba(160,160,160,0.04)"], [1.0, "#2f7fc6"]]


@dataclass(frozen=True, slots=True)
class CorrelationSection:
    """The correlation matrix and its largest entries."""

    name: str = "correlation"
    title: str = "Correlation"

    def fill(self, subject: Subject) -> Mapping[str, Any] | None:
        """None where there are no two uncertain parameters."""
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
            pairs.append([Cell(names[i]), Cell(names[j]), cell(float(R[i, j]), f"{R[i, j]:+.3f}")])
        shown = [plot_text(name) for name in names]
        ticks = {
            "showticklabels": len(names) <= READABLE,
            "tickfont": {"size": 9},
            "ticks": "",
            "showgrid": False,
            "automargin": True,
        }
        trace = {
            "type": "heatmap", "x": shown, "y": shown, "z": numbers(R), "zmin": -1, "zmax": 1, "colorscale": SCALE,
            "hovertemplate": "%{y}, %{x}: %{z:.2f}<extra></extra>", "colorbar": {"thickness": 12, "len": 0.6},
        }  # fmt: skip
        layout = {
            "xaxis": {**ticks, "type": "category"},
            "yaxis": {**ticks, "type": "category", "autorange": "reversed"},
            "hovermode": "closest",
        }
        figure = Figure("Correlation matrix of the parameters", [trace], layout, 560)
        return {"drawing": figure, "table": Table("Most correlated pairs", ("one", "other", "correlation"), pairs, 2)}
