"""Figures as Plotly's own JSON, with numbers as compact bytes; drawn by the page's script when it is opened."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynid.report.words import plot_text
from dynid.robot.transform import Array

Trace = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """traces and layout in Plotly's words; label: what a person who cannot see it is told; height in px."""

    label: str
    traces: Sequence[Trace]
    layout: Mapping[str, Any]
    height: int = 320
    note: str = ""

    @property
    def json(self) -> str:
        """For a script element: no character of it can end the element."""
        text = json.dumps({"data": list(self.traces), "layout": dict(self.layout)}, ensure_ascii=True, allow_nan=False)
        return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def numbers(x: Array) -> dict[str, Any]:
    """Numbers as Plotly's typed arrays: single precision is more than a screen shows."""
    data = np.ascontiguousarray(x, dtype="<f4")
    packed: dict[str, Any] = {"dtype": "f4", "bdata": base64.b64encode(data.tobytes()).decode("ascii")}
    return packed if data.ndim == 1 else packed | {"shape": ", ".join(map(str, data.shape))}


def line(x: Array, y: Array, name: str, colour: str, **more: Any) -> Trace:
    """A curve; `name` must have gone through `plot_text` if it comes from a file."""
    width, dash = more.pop("width", 1.4), more.pop("dash", "solid")
    return {
        "type": "scatter", "mode": "lines", "x": numbers(x), "y": numbers(y), "name": name,
        "line": {"color": colour, "width": width, "dash": dash}, **more,
    }  # fmt: skip


def corner_title(text: str) -> dict[str, Any]:
    """A title in the upper left corner, beside the legend."""
    return {"text": text, "font": {"size": 13}, "x": 0, "xanchor": "left", "y": 0.99, "yanchor": "top"}


def log_axis(title: str, lowest: float, highest: float, **more: Any) -> dict[str, Any]:
    """A logarithmic axis: powers of ten over a wide range, else plain numbers."""
    decades = math.log10(highest / lowest)
    if decades > 2.5:
        ticks: dict[str, Any] = {"dtick": math.ceil(decades / 6.0), "exponentformat": "power"}
    else:  # 1, 2, 5, 10, 20, ...; where these are too few, as many as fit
        ticks = {"tickformat": "~g", **({"dtick": "D2"} if decades > 0.8 else {"nticks": 6})}
    return axis(title, type="log", **ticks, **more)


def named(names: Sequence[str]) -> dict[str, Any]:
    """An axis of numbers 0, 1, ... that shows names, which need not differ."""
    return {"tickvals": list(range(len(names))), "ticktext": [plot_text(name) for name in names], "automargin": True}


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with its title."""
    return {"title": {"text": title}, "automargin": True, **more}
