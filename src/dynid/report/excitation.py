"""A page on a designed motion: joint curves with their limits, and how much of each limit is used."""

from __future__ import annotations

import math
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from dynid.excitation.excitation import Excitation
from dynid.robot.files import write_text

_QUANTITIES = (("position", "q", "rad, m"), ("velocity", "v", "rad/s, m/s"), ("acceleration", "a", "rad/s^2, m/s^2"))
_SAMPLES = 800


def write_page(excitation: Excitation, path: Path) -> None:
    """Write one HTML file with everything inside it."""
    from jinja2 import Environment, select_autoescape
    from plotly.offline import get_plotlyjs

    text = (resources.files("dynid.report") / "templates" / "excitation.html").read_text(encoding="utf-8")
    template = Environment(autoescape=select_autoescape(default=True, default_for_string=True)).from_string(text)
    summary = (
        f"{excitation.duration:.1f} s from rest to rest; condition number {excitation.condition:.4g} of "
        f"{len(excitation.rows.names)} base columns ({excitation.rows.model} model); margin to the limits "
        f"{max(excitation.margin, 0.0):.2%}, proven over all time."
    )
    page = template.render(
        title=f"Exciting motion for {excitation.robot.name}",
        summary=summary,
        warnings=excitation.warnings,
        header=("joint", "position", "velocity", "acceleration"),
        rows=[
            (name, *(f"{100 * u:.1f} %" for u in use))
            for name, use in zip(excitation.robot.joint_names, excitation.use, strict=True)
        ],
        plotly_script=get_plotlyjs(),
        figures=[figure_html(excitation, *quantity) for quantity in _QUANTITIES],
    )
    write_text(path, page)


def figure_html(excitation: Excitation, quantity: str, letter: str, unit: str) -> str:
    """Curves of all joints; limits as dashed lines in the same colour, shown with their joint."""
    import plotly.graph_objects as go

    rate = max(10.0, _SAMPLES / excitation.duration)
    motion = excitation.motion(rate)
    figure = go.Figure()
    colours = ("#2563a6", "#d1495b", "#3a7d44", "#8e5ea2", "#e08a00", "#0e9594", "#7a5230", "#555b6e")
    for j, name in enumerate(excitation.robot.joint_names):
        colour = colours[j % len(colours)]
        y = getattr(motion, letter)[:, j]
        figure.add_trace(go.Scatter(x=motion.t, y=y, name=name, legendgroup=name, line={"color": colour}))
        for bound in _bounds(excitation, quantity, j):
            figure.add_trace(_limit_line(motion.t, bound, name, colour))
    figure.update_layout(
        title=f"{quantity} [{unit}]", xaxis_title="t [s]", height=380, margin={"l": 50, "r": 20, "t": 50, "b": 40}
    )
    plain = {"displaylogo": False, "modeBarButtonsToRemove": ["sendDataToCloud"], "responsive": True}
    return str(figure.to_html(full_html=False, include_plotlyjs=False, config=plain))


def _bounds(excitation: Excitation, quantity: str, j: int) -> tuple[float, ...]:
    limits = excitation.limits
    if quantity == "position":
        bounds = tuple(float(x) for x in limits.position[j])
    else:
        bounds = (-float(getattr(limits, quantity)[j]), float(getattr(limits, quantity)[j]))
    return tuple(x for x in bounds if math.isfinite(x))


def _limit_line(t: Any, bound: float, name: str, colour: str) -> Any:
    import plotly.graph_objects as go

    return go.Scatter(
        x=[float(t[0]), float(t[-1])],
        y=np.full(2, bound),
        legendgroup=name,
        showlegend=False,
        hoverinfo="skip",
        mode="lines",
        line={"color": colour, "dash": "dash", "width": 1},
    )
