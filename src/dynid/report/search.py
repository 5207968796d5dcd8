"""How the search for a motion went: the criterion of every start against its iterations, and what that tells."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dynid.excitation.history import Descent, SearchHistory
from dynid.report.figure import Figure, Trace, axis, line, log_axis
from dynid.report.words import COLOURS, number, percent

NEAR, FALLING, LAST_PART = 1.1, 0.01, 0.9
"""A start is near the best one within 10 %; it still fell if its last tenth brought more than 1 %."""

NAMES = {
    "condition": "condition number", "frobenius": "Frobenius condition number", "scaling": "scaling S",
    "condition+scaling": "condition number and scaling, weighted", "a": "trace of the covariance",
    "d": "log determinant of the covariance", "e": "largest eigenvalue of the covariance",
}  # fmt: skip
OTHERS, FAR = "#7b8494", 8.0


def draw_search(history: SearchHistory) -> Figure:
    """One line per start, the chosen one in front."""
    traces: list[Trace] = []
    for descent in history.descents:
        if descent.start != history.chosen:
            first = {"showlegend": not traces, "legendgroup": "others", "opacity": 0.55}
            traces.append(_line(descent, _others(history), OTHERS, width=1.2, **first))
    best = history.best
    chosen = f"start {best.start + 1}: this motion"
    traces.append(_line(best, chosen, COLOURS[0], width=2.6))
    layout = {
        "xaxis": axis("iteration", rangemode="tozero"), "yaxis": _upright(history),
        "showlegend": len(traces) > 1, "hovermode": "closest",
    }  # fmt: skip
    return Figure(f"{name_of(history.criterion).capitalize()} while searching", traces, layout, 360)


def _upright(history: SearchHistory) -> dict[str, Any]:
    """The axis of the criterion; values far above the best are left outside, to show where the lines end."""
    name = name_of(history.criterion)
    lowest = min(float(descent.values.min()) for descent in history.descents)
    highest = max(float(descent.values.max()) for descent in history.descents)
    if lowest <= 0.0:  # a log determinant
        return axis(name)
    highest = max(min(highest, FAR * history.best.end), max(descent.end for descent in history.descents))
    return log_axis(name, lowest, highest, range=[math.log10(0.93 * lowest), math.log10(1.07 * highest)])


def name_of(criterion: str) -> str:
    """A criterion in words."""
    return NAMES.get(criterion, criterion)


def tell_search(history: SearchHistory, columns: int) -> str:
    """What is seen in the drawing, and what may do better; columns: of the matrix W."""
    best, count = history.best, len(history.descents)
    valid = [descent for descent in history.descents if not descent.refused]
    near = sum(ratio(descent.end, best.end, history.criterion, columns) <= NEAR for descent in valid)
    said = []
    if count > 1:
        said.append(f"{near} of {count} starts ended within 10 % of the best, which is start {best.start + 1}.")
    if count > len(valid):
        said.append(f"{count - len(valid)} better ones were refused: their motions collide, or cannot be entered.")
    drop = last_drop(best, history.criterion, columns)
    if history.stopped:
        ran = f", {count} of {history.planned} starts were run" if count < history.planned else ""
        said.append(f"The search was stopped early{ran}; more time (--time-budget) may do better.")
    elif drop > FALLING:
        said.append(
            f"The best start still fell by {percent(drop)} over the last tenth of its iterations; "
            f"a search with more starts (--starts {2 * history.planned}) may do better."
        )
    elif 2 * near < count or count == 1:
        tried = "Only one start was tried" if count == 1 else "Starts end far apart"
        said.append(f"{tried}; more of them (--starts {max(4, 2 * history.planned)}) may do better.")
    else:
        said.append("The best start had come to rest, and others ended near it: more starts would hardly help.")
    return " ".join(said)


def last_drop(descent: Descent, criterion: str, columns: int) -> float:
    """Share by which the iterates fell over the last tenth of the iterations."""
    iterations, values = descent.iterations[:-1], descent.values[:-1]
    if len(values) < 2:
        return 0.0
    before = values[iterations <= LAST_PART * iterations[-1]]
    return 1.0 - 1.0 / max(ratio(float(before[-1]), float(values[-1]), criterion, columns), 1.0) if len(before) else 0.0


def ratio(value: float, best: float, criterion: str, columns: int) -> float:
    """How many times larger a criterion is; a log determinant counts as the geometric mean of the variances."""
    if criterion == "d":
        return math.exp((value - best) / columns)
    return value / best


def _others(history: SearchHistory) -> str:
    return "other starts" if len(history.descents) > 2 else "the other start"


def _line(descent: Descent, name: str, colour: str, **more: Any) -> Trace:
    hover = f"start {descent.start + 1} ({number(descent.seconds, 2)} s)<br>iteration %{{x}}: %{{y:.4g}}<extra></extra>"
    return line(descent.iterations.astype(np.float64), descent.values, name, colour, hovertemplate=hover, **more)
