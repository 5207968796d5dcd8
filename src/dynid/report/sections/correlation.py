"""Which parameters the data hardly tell apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynid.report.figure import Figure, named, numbers
from dynid.report.subject import Subject
from dynid.report.table import Cell, Table, cell

PAIRS, READABLE, ROW = 10, 130, 11
"""Pairs that are listed, names that can be read along an axis, and px of one of them."""

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
        n = len(names)
        ticks = {
            **named(names), "showticklabels": n <= READABLE, "tickfont": {"size": 9 if n <= 60 else 8}, "ticks": "",
            "showgrid": False, "zeroline": False,
        }  # fmt: skip
        places = list(range(n))
        trace = {
            "type": "heatmap", "x": places, "y": places, "z": numbers(R), "zmin": -1, "zmax": 1, "colorscale": SCALE,
            "hovertemplate": "%{y}, %{x}: %{z:.2f}<extra></extra>", "colorbar": {"thickness": 12, "len": 0.6},
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
