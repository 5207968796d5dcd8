"""Measured against predicted, with the residual, on the data used and on others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynid.estimation.diagnostics.residuals import ChannelCheck
from dynid.estimation.identification import Identification
from dynid.report.elements import (
    ARROW,
    Cell,
    Figure,
    Table,
    corner_title,
    escape_plot_text,
    line_trace,
    number_cell,
    number_text,
    percent_text,
    short_log_name,
    titled_axis,
    typed_array,
)
from dynid.report.page import ReportSubject
from dynid.report.replay import Replay, column_values, is_velocity_friction
from dynid.robot.transform import Array

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

    def build_content(self, subject: ReportSubject) -> Mapping[str, Any]:
        """Table of errors, and figures of measured and predicted curves per log and channel."""
        parts = []
        for what, replays in (("validation", subject.held_out), ("used for fitting", subject.used)):
            for replay in replays[:MOST_LOGS]:
                figures = [_prediction_figure(subject, replay, c) for c in range(len(subject.result.channels))]
                parts.append({"title": f"{short_log_name(replay.name)} ({what})", "figures": figures})
        hidden = sum(max(0, len(replays) - MOST_LOGS) for replays in (subject.used, subject.held_out))
        return {
            "table": _errors_table(subject),
            "source": subject.result.validation.source,
            "parts": parts,
            "seen": bool(subject.used) and not subject.held_out,
            "hidden": hidden,
        }


def _errors_table(subject: ReportSubject) -> Table:
    """Table of errors per channel, on the data used, on validation data and per log."""
    result = subject.result
    head = ["channel", "RMSE", "NRMSE", "RMSE validation", "NRMSE validation"]
    several = len(subject.used) > 1 or len(subject.held_out) > 1
    replays = subject.replays[:8] if several else ()
    head += [f"NRMSE {short_log_name(r.name)}" for r in replays]
    rows = []
    for c, name in enumerate(result.channels):
        fit, other = result.fit, result.validation
        row = [Cell(name)]
        for score in (fit, other):
            row.append(number_cell(float(score.rmse[c]), number_text(float(score.rmse[c]), 3)))
            row.append(_nrmse_cell(float(score.nrmse[c])))
        rows.append(row + [_nrmse_cell(float(r.nrmse[c])) for r in replays])
    return Table("Errors per channel", head, rows)


def _nrmse_cell(nrmse: float) -> Cell:
    """Cell of an NRMSE in percent, coloured by its size."""
    mark = "good" if nrmse < 0.1 else "fair" if nrmse < 0.3 else "bad" if np.isfinite(nrmse) else ""
    return number_cell(nrmse, percent_text(nrmse), mark)


def channel_title(subject: ReportSubject, channel: int) -> str:
    """Title of a channel in a figure."""
    name = escape_plot_text(subject.result.channels[channel])
    of_joint = subject.result.equation.channels[channel].joint >= 0
    return f"joint {name}" if of_joint else name


def channel_unit(subject: ReportSubject, channel: int) -> str:
    """Unit of a channel."""
    result = subject.result
    kind = result.equation.channel_kinds[channel]
    if kind != "torque" or result.model in UNITS:
        return UNITS[result.model if kind == "torque" else kind]
    robot, joint = result.robot, result.equation.channels[channel].joint
    return OF_JOINTS[robot.links[robot.active_links[joint]].kind][result.model == "momentum"]


def _prediction_figure(subject: ReportSubject, replay: Replay, c: int) -> Figure:
    """Measured, predicted and residual curves of a channel along a log."""
    name = subject.result.channels[c]
    measured, predicted, residual = (replay.curve_of_channel(kind, c) for kind in range(3))
    traces = [
        line_trace(*measured, "measured", MEASURED, width=2.6),
        line_trace(*predicted, "predicted", PREDICTED, width=1.0),
        line_trace(*residual, "residual", RESIDUAL, width=0.9, yaxis="y2"),
    ]
    unit = channel_unit(subject, c)
    title = channel_title(subject, c)
    layout = {
        "title": corner_title(f"{title}, error {percent_text(float(replay.nrmse[c]))}"),
        "xaxis": titled_axis("t [s]", anchor="y2"),
        "yaxis": titled_axis(f"[{unit}]", domain=[0.36, 1.0]),
        "yaxis2": titled_axis("residual", domain=[0.0, 0.28]),
    }  # fmt: skip
    return Figure(f"{name}: measured, predicted and residual on {short_log_name(replay.name)}", traces, layout, 320)


# What the residual still knows.


TELLING, COLOURED = 0.1, 0.3
"""Share of a residual's variance, and autocorrelation, from which on a person should know of it."""


@dataclass(frozen=True, slots=True)
class ResidualsSection:
    """Colour, and dependence on velocity and position, per channel."""

    name: str = "residuals"
    title: str = "Residual checks"

    def build_content(self, subject: ReportSubject) -> Mapping[str, Any] | None:
        """Table of checks of the residuals; None where nothing was checked."""
        result = subject.result
        if not result.checks:
            return None
        joints = set(result.joints)
        rows = [
            _residual_row(check, check.channel in joints and not result.equation.options.is_scalar)
            for check in result.checks
        ]
        head = ("channel", "in words", "autocorrelation", "goes with velocity", "goes with position")
        delay = result.found_delay
        return {
            "table": Table("Residuals per channel", head, rows, 2),
            "delay": None if delay is None else (f"{1e3 * delay.seconds:.3g}", f"{1e3 * delay.sigma:.2g}"),
        }


def _residual_row(check: ChannelCheck, of_joint: bool) -> list[Cell]:
    """Row of the table of residual checks of one channel, with what they mean."""
    told = []
    if check.velocity > TELLING:
        told.append("friction is not fully explained")
    if check.position > TELLING:
        told.append("something depends on position (gears, cables, geometry)")
    if abs(check.colour) > COLOURED:
        told.append("coloured: the model misses something slow, intervals account for it")
    shares = [
        number_cell(x, percent_text(x) if of_joint else "-", "fair" if x > TELLING else "")
        for x in (check.velocity, check.position)
    ]
    colour = number_cell(check.colour, f"{check.colour:+.2f}", "fair" if abs(check.colour) > COLOURED else "")
    words = Cell("; ".join(told) or "nothing to be seen", mark="" if told else "soft")
    return [Cell(check.channel), words, colour, *shares]


# Friction curves, with the torque that they have to explain.


GRID = 161


@dataclass(frozen=True, slots=True)
class FrictionSection:
    """Torque over velocity per joint: the identified curve, and what the rigid body leaves of the measurement."""

    name: str = "friction"
    title: str = "Friction"

    def build_content(self, subject: ReportSubject) -> Mapping[str, Any] | None:
        """Figures of friction over velocity; None where friction was not identified."""
        result = subject.result
        if not result.friction:
            return None
        joints = [channel.joint for channel in result.equation.torque_channels]
        others = [block for block in result.friction if not is_velocity_friction(block)]
        shown = next((replay for replay in subject.used if any(len(cloud) for cloud in replay.clouds)), None)
        trials = result.trials
        return {
            "blocks": result.friction,
            "others": others,
            "figures": [_friction_figure(subject, j, shown.clouds[c] if shown else None) for c, j in enumerate(joints)],
            "has_cloud": shown is not None,
            "only": short_log_name(shown.name) if shown is not None and len(subject.used) > 1 else None,
            "logs": len(subject.used),
            "admitted": [
                f"{t.block} ({percent_text(t.before)} {ARROW} {percent_text(t.error)})" for t in trials if t.admitted
            ],
        }


def friction_curve(result: Identification, joint: int, v: Array) -> Array:
    """Friction (N,) while a motor slides at velocities v, of the blocks that are curves over it."""
    equation = result.equation
    n, logs = equation.robot.n, len(result.factors)
    values = np.mean([column_values(result, log) for log in range(logs)], axis=0)[equation.rigid_column_count :]
    still = np.zeros((len(v), n))
    moving = still.copy()
    moving[:, joint] = v
    stops = np.repeat(np.sign(moving)[:, None], len(equation.shapes.stop_widths), axis=1)
    columns = equation.shapes.column_values(np.arange(len(v), dtype=np.float64), still, moving, stops, still)[
        :, :, joint
    ]
    total = np.zeros(len(v))
    for name, places in equation.columns_by_friction_block.items():
        if is_velocity_friction(name):
            for place in places[places % n == (places[0] + joint) % n] - equation.rigid_column_count:
                total += values[place] * columns[:, place // n]
    return total


def _curve_velocities(limit: float, cloud: Array | None) -> Array:
    """Velocities at which a friction curve is drawn: those seen, or up to the limit, dense around 0."""
    fastest = limit if np.isfinite(limit) and limit > 0.0 else 1.0
    low, high = (-fastest, fastest) if cloud is None or not len(cloud) else (cloud[:, 0].min(), cloud[:, 0].max())
    near = 1e-6 * max(abs(low), abs(high), 1e-3) * np.array([-1.0, 0.0, 1.0])
    v = np.union1d(np.linspace(low, high, GRID), near[(near >= low) & (near <= high)])
    return np.asarray(v)


def _friction_figure(subject: ReportSubject, joint: int, cloud: Array | None) -> Figure:
    """Identified friction of a joint over velocity, and the measurement minus the rigid body."""
    result = subject.result
    name, turns = (
        result.robot.joint_names[joint],
        result.robot.links[result.robot.active_links[joint]].kind == "revolute",
    )
    v = _curve_velocities(float(result.robot.limits.velocity[joint]), cloud)
    traces = []
    if cloud is not None:
        traces.append({
            "type": "scatter", "mode": "markers", "x": typed_array(cloud[:, 0]), "y": typed_array(cloud[:, 1]),
            "name": "measured less rigid body", "marker": {"size": 3, "color": "#8a94a3", "opacity": 0.55},
        })  # fmt: skip
    traces.append(line_trace(v, friction_curve(result, joint, v), "identified", "#e08a00", width=2.4))
    units = ("rad/s", "N m") if turns else ("m/s", "N")
    layout = {
        "title": corner_title(f"joint {escape_plot_text(name)}"),
        "xaxis": titled_axis(f"v [{units[0]}]"), "yaxis": titled_axis(f"[{units[1]}]"), "hovermode": "closest",
    }  # fmt: skip
    return Figure(f"Friction of joint {name} over its velocity", traces, layout, 290)
