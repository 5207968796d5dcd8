"""Measured against predicted, with the residual, on the data used and on others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynid.report.figure import Figure, axis, corner_title, line
from dynid.report.replay import Replay
from dynid.report.subject import Subject
from dynid.report.table import Cell, Table, cell
from dynid.report.words import number, percent, plot_text, short_name

MEASURED, PREDICTED, RESIDUAL = "#8a94a3", "#2f7fc6", "#d1495b"
MOST_LOGS = 4
"""Logs of each kind that are drawn."""

UNITS = {"power": "W", "energy": "J", "force": "N", "moment": "N m"}
OF_JOINTS = {"revolute": ("N m", "N m s"), "prismatic": ("N", "N s")}
"""Units of torques and momenta."""


@dataclass(frozen=True, slots=True)
class PredictionSection:
    """Errors per channel, and curves where the logs are at hand."""

    name: str = "prediction"
    title: str = "Measured and predicted"

    def fill(self, subject: Subject) -> Mapping[str, Any]:
        """Table and figures per log and channel."""
        parts = []
        for what, replays in (("validation", subject.held_out), ("used for fitting", subject.used)):
            for replay in replays[:MOST_LOGS]:
                figures = [_figure(subject, replay, c) for c in range(len(subject.result.channels))]
                parts.append({"title": f"{short_name(replay.name)} ({what})", "figures": figures})
        hidden = sum(max(0, len(replays) - MOST_LOGS) for replays in (subject.used, subject.held_out))
        return {
            "table": _errors(subject),
            "source": subject.result.validation.source,
            "parts": parts,
            "seen": bool(subject.used) and not subject.held_out,
            "hidden": hidden,
        }


def _errors(subject: Subject) -> Table:
    result = subject.result
    head = ["channel", "RMSE", "NRMSE", "RMSE validation", "NRMSE validation"]
    several = len(subject.used) > 1 or len(subject.held_out) > 1
    replays = subject.replays[:8] if several else ()
    head += [f"NRMSE {short_name(r.name)}" for r in replays]
    rows = []
    for c, name in enumerate(result.channels):
        fit, other = result.fit, result.validation
        row = [Cell(name)]
        for score in (fit, other):
            row.append(cell(float(score.rmse[c]), number(float(score.rmse[c]), 3)))
            row.append(_share(float(score.nrmse[c])))
        rows.append(row + [_share(float(r.nrmse[c])) for r in replays])
    return Table("Errors per channel", head, rows)


def _share(nrmse: float) -> Cell:
    mark = "good" if nrmse < 0.1 else "fair" if nrmse < 0.3 else "bad" if np.isfinite(nrmse) else ""
    return cell(nrmse, percent(nrmse), mark)


def channel_title(subject: Subject, channel: int) -> str:
    """What a channel is called in a figure."""
    name = plot_text(subject.result.channels[channel])
    of_joint = subject.result.equation.channels[channel].joint >= 0
    return f"joint {name}" if of_joint else name


def unit_of(subject: Subject, channel: int) -> str:
    """Unit of a channel."""
    result = subject.result
    kind = result.equation.kinds[channel]
    if kind != "torque" or result.model in UNITS:
        return UNITS[result.model if kind == "torque" else kind]
    robot, joint = result.robot, result.equation.channels[channel].joint
    return OF_JOINTS[robot.links[robot.active_links[joint]].kind][result.model == "momentum"]


def _figure(subject: Subject, replay: Replay, c: int) -> Figure:
    name = subject.result.channels[c]
    measured, predicted, residual = (replay.curve(kind, c) for kind in range(3))
    traces = [
        line(*measured, "measured", MEASURED, width=2.6),
        line(*predicted, "predicted", PREDICTED, width=1.0),
        line(*residual, "residual", RESIDUAL, width=0.9, yaxis="y2"),
    ]
    unit = unit_of(subject, c)
    title = channel_title(subject, c)
    layout = {
        "title": corner_title(f"{title}, error {percent(float(replay.nrmse[c]))}"),
        "xaxis": axis("t [s]", anchor="y2"),
        "yaxis": axis(f"[{unit}]", domain=[0.36, 1.0]),
        "yaxis2": axis("residual", domain=[0.0, 0.28]),
    }  # fmt: skip
    return Figure(f"{name}: measured, predicted and residual on {short_name(replay.name)}", traces, layout, 320)
