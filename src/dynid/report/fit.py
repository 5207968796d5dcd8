"""Measured against predicted, with the residual, on the data used and on others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynid.estimation.diagnostics.residuals import ChannelCheck
from dynid.estimation.identification import Identification
from dynid.report.page import (
    ARROW,
    COLOURS,
    Cell,
    Figure,
    ReportSubject,
    Table,
    corner_title,
    draw_recordings,
    escape_plot_text,
    joint_dash,
    line_trace,
    number_cell,
    number_text,
    percent_text,
    short_log_name,
    titled_axis,
    typed_array,
)
from dynid.report.replay import Moment, Replay, column_values, is_velocity_friction
from dynid.robot.transform import Array

MOST_LOGS = 4
"""Logs of each kind that are drawn."""

UNITS = {"power": "W", "energy": "J", "force": "N", "moment": "N m"}
OF_JOINTS = {"revolute": ("N m", "N m s"), "prismatic": ("N", "N s")}
"""Units of torques and momenta."""

SIGMAS = 2.0
"""Half width of the band around the residual, in standard deviations."""


@dataclass(frozen=True, slots=True)
class PredictionSection:
    """Where the model fails: errors per channel, the largest residuals, and curves where the logs are at hand."""

    name: str = "prediction"
    title: str = "Nominal, identified, measured"

    def build_content(self, subject: ReportSubject) -> Mapping[str, Any]:
        """Tables of errors and of the worst moments; figures per log and channel, and the robot that replays it."""
        drawn = _drawn_replays(subject)
        parts = [
            {
                "title": f"{short_log_name(replay.name)} ({what})", "figures": _figures_of_log(subject, replay, clock),
                "origin": replay.time_origin,
            }
            for clock, (what, replay) in enumerate(drawn)
        ]  # fmt: skip
        poses = [(replay.poses[:, 0] - replay.time_origin, replay.poses[:, 1:]) for _, replay in drawn]
        moments = worst_moments(subject)
        return {
            "table": _errors_table(subject),
            "source": subject.result.validation.source,
            "moments": _moments_table(subject, moments) if moments else None,
            "told": _describe_moments(subject, moments),
            "parts": parts,
            "drawing": draw_recordings(subject.result.robot, poses, "Skeleton of the robot at the cursor's time")
            if drawn and not subject.result.robot.floating
            else None,
            "seen": bool(subject.used) and not subject.held_out,
            "hidden": len(subject.replays) - len(drawn),
            "has_nominal": any(replay.nominal_nrmse is not None for _, replay in drawn),
        }


def _drawn_replays(subject: ReportSubject) -> list[tuple[str, Replay]]:
    """Logs that are drawn, those not used for fitting first; the place in this list is the number of the clock."""
    parts = (("validation", subject.held_out), ("used for fitting", subject.used))
    return [(what, replay) for what, replays in parts for replay in replays[:MOST_LOGS]]


def _figures_of_log(subject: ReportSubject, replay: Replay, clock: int) -> list[Figure]:
    """Figures of one log: its channels, worst first, then positions."""
    order = np.argsort(-np.nan_to_num(replay.nrmse, nan=-1.0), kind="stable")
    figures = [_prediction_figure(subject, replay, int(c), clock) for c in order]
    return figures + _position_figures(subject, replay, clock)


def _errors_table(subject: ReportSubject) -> Table:
    """Table of errors per channel, the worst first: on validation data, on the data used and per log."""
    result, nominal = subject.result, subject.nominal_nrmse
    head = ["channel", "unit of RMSE", "NRMSE validation", "RMSE validation", "NRMSE fit", "RMSE fit"]
    head += [] if nominal is None else ["NRMSE nominal"]
    several = len(subject.used) > 1 or len(subject.held_out) > 1
    replays = subject.replays[:8] if several else ()
    head += [f"NRMSE {short_log_name(r.name)}" for r in replays]
    rows = []
    for c in np.argsort(-np.nan_to_num(result.validation.nrmse, nan=-1.0), kind="stable"):
        row = [Cell(result.channels[c]), Cell(channel_unit(subject, c), mark="soft")]
        for score in (result.validation, result.fit):
            row.append(_nrmse_cell(float(score.nrmse[c])))
            row.append(number_cell(float(score.rmse[c]), number_text(float(score.rmse[c]), 3)))
        row += [] if nominal is None else [number_cell(float(nominal[c]), percent_text(float(nominal[c])))]
        rows.append(row + [_nrmse_cell(float(r.nrmse[c])) for r in replays])
    return Table("Errors per channel, worst first", head, rows, 2)


def _nrmse_cell(nrmse: float) -> Cell:
    """Cell of an NRMSE in percent, coloured by its size."""
    mark = "good" if nrmse < 0.1 else "fair" if nrmse < 0.3 else "bad" if np.isfinite(nrmse) else ""
    return number_cell(nrmse, percent_text(nrmse), mark)


def channel_title(subject: ReportSubject, channel: int) -> str:
    """Title of a channel."""
    name = subject.result.channels[channel]
    return f"joint {name}" if subject.result.equation.channels[channel].joint >= 0 else name


def channel_unit(subject: ReportSubject, channel: int) -> str:
    """Unit of a channel."""
    result = subject.result
    kind = result.equation.channel_kinds[channel]
    if kind != "torque" or result.model in UNITS:
        return UNITS[result.model if kind == "torque" else kind]
    robot, joint = result.robot, result.equation.channels[channel].joint
    return OF_JOINTS[robot.links[robot.active_links[joint]].kind][result.model == "momentum"]


def _prediction_figure(subject: ReportSubject, replay: Replay, c: int, clock: int) -> Figure:
    """Measured, identified and nominal curves of a channel along a log, and the residual within its band."""
    unit, has_nominal = channel_unit(subject, c), replay.nominal_nrmse is not None
    t, x = replay.curves.curves(c)
    columns = {"t": typed_array(t - replay.time_origin), "measured": typed_array(x[:, 0]),
               "identified": typed_array(x[:, 1])}  # fmt: skip
    hover = {"hovertemplate": f"%{{y:.4~g}} {unit}"}
    traces = [line_trace("t", "measured", "measured", "measured", width=2.6, **hover)]
    heading = [(channel_title(subject, c), "name")]
    if replay.nominal_nrmse is not None:
        columns["nominal"] = typed_array(x[:, 3])
        traces.append(line_trace("t", "nominal", "nominal", "nominal", width=1.4, dash="dash", **hover))
        heading.append((f"nominal {percent_text(float(replay.nominal_nrmse[c]))} {ARROW}", "nominal"))
    heading.append((f"identified {percent_text(float(replay.nrmse[c]))}", "identified"))
    traces += [
        line_trace("t", "identified", "identified", "identified", width=1.4, **hover),
        line_trace("t", "residual", "residual", "residual", width=1.1, yaxis="y2", **hover),
    ]
    sigma = float(subject.result.noise[c])
    band = {
        "type": "rect", "xref": "paper", "x0": 0, "x1": 1, "yref": "y2", "y0": -SIGMAS * sigma, "y1": SIGMAS * sigma,
        "fillcolor": "band", "line": {"width": 0}, "layer": "below",
    }  # fmt: skip
    layout = {
        "xaxis": {**_time_axis(replay), "anchor": "y2"},
        "yaxis": titled_axis(f"[{unit}]", domain=[0.4, 1.0], fixedrange=True),
        "yaxis2": titled_axis(f"residual [{unit}]", domain=[0.0, 0.32], fixedrange=True),
        "shapes": [band] if np.isfinite(sigma) else [], "hovermode": "x unified", "hoversubplots": "axis",
    }  # fmt: skip
    what = "measured, identified, nominal" if has_nominal else "measured, identified"
    label = f"{subject.result.channels[c]}: {what} and residual on {short_log_name(replay.name)}"
    return Figure(label, traces, layout, 300, columns=columns, clock=clock, channel=c, heading=heading)


def _time_axis(replay: Replay) -> dict[str, Any]:
    """Layout of the axis of time of one log."""
    origin = f" after {replay.time_origin:.0f} s" if replay.time_origin else ""
    return titled_axis(f"t [s]{origin}", unifiedhovertitle={"text": "t = %{x:.3f} s"}, hoverformat=".3f")


def _position_figures(subject: ReportSubject, replay: Replay, clock: int) -> list[Figure]:
    """Figures of the joints' positions along a log; those of revolute and prismatic joints are on axes of their own."""
    robot, figures = subject.result.robot, []
    for kind, unit in (("revolute", "rad"), ("prismatic", "m")):
        own = [j for j, k in enumerate(robot.active_links) if robot.links[k].kind == kind]
        traces = []
        for j in own:
            t, x = replay.positions.curves(j)
            name, colour, dash = escape_plot_text(robot.joint_names[j]), COLOURS[j % len(COLOURS)], joint_dash(j)
            hover = f"%{{y:.4~g}} {unit}"
            traces.append(line_trace(t - replay.time_origin, x[:, 0], name, colour, dash=dash, hovertemplate=hover))
        layout = {
            "xaxis": _time_axis(replay), "yaxis": titled_axis(f"q [{unit}]", fixedrange=True),
            "hovermode": "x unified", "showlegend": True,
        }  # fmt: skip
        if own:
            label = f"Positions of the {kind} joints on {short_log_name(replay.name)}"
            heading = [(f"positions of {kind} joints", "name")]
            figures.append(Figure(label, traces, layout, 260, clock=clock, heading=heading))
    return figures


# The moments at which the model fails most, and what the robot was doing.


MOST_MOMENTS = 10
REVERSAL = 0.1
"""Seconds from a reversal, by velocity and acceleration, within which a joint is near it."""

STILL = 1e-3
"""Velocity (rad/s or m/s) below which a joint stands."""

CLOSE, ALL_OF_IT = 0.01, 0.97
"""Distance from a position limit over the range, and share of a velocity or effort limit, that are at the limit."""


@dataclass(frozen=True, slots=True)
class WorstMoment:
    """A peak of the residual on one of the drawn logs; over_sigma: in standard deviations of the channel."""

    clock: int
    moment: Moment
    over_sigma: float
    near_reversal: bool
    circumstances: tuple[str, ...]


def worst_moments(subject: ReportSubject) -> list[WorstMoment]:
    """Largest peaks of all residuals on the drawn logs, in standard deviations of their channel."""
    noise, found = subject.result.noise, []
    for clock, (_, replay) in enumerate(_drawn_replays(subject)):
        for moment in (one for moments in replay.moments for one in moments):
            sigma = float(noise[moment.channel])
            if np.isfinite(sigma) and sigma > 0.0:
                near, words = describe_moment(subject, moment)
                found.append(WorstMoment(clock, moment, abs(moment.residual) / sigma, near, words))
    return sorted(found, key=lambda one: -one.over_sigma)[:MOST_MOMENTS]


def describe_moment(subject: ReportSubject, moment: Moment) -> tuple[bool, tuple[str, ...]]:
    """Whether the channel's joint is near a reversal, and all that is special about its motion."""
    joint = subject.result.equation.channels[moment.channel].joint
    if joint < 0 or subject.result.equation.options.is_scalar:
        return False, ()
    v, a, q = float(moment.v[joint]), float(moment.a[joint]), float(moment.q[joint])
    limits, words = subject.result.robot.limits, []
    near = STILL <= abs(v) <= REVERSAL * abs(a)
    if abs(v) < STILL:
        words.append("standing still")
    elif near:
        words.append("near reversal")
    low, high = (float(x) for x in limits.position[joint])
    if np.isfinite(high - low) and not low + CLOSE * (high - low) < q < high - CLOSE * (high - low):
        words.append("at limit (position)")
    if abs(v) >= ALL_OF_IT * float(limits.velocity[joint]):
        words.append("at limit (velocity)")
    if subject.result.model == "torque" and abs(moment.measured) >= ALL_OF_IT * float(limits.effort[joint]):
        words.append("at limit (effort)")
    return near, tuple(words)


def _moments_table(subject: ReportSubject, moments: Sequence[WorstMoment]) -> Table:
    """Table of the worst moments; the first cell of a row takes all figures there."""
    robot, drawn, rows = subject.result.robot, _drawn_replays(subject), []
    for one in moments:
        m, replay = one.moment, drawn[one.clock][1]
        joint, t = subject.result.equation.channels[m.channel].joint, m.t - replay.time_origin
        speed = Cell("-", float("nan"))
        if joint >= 0 and not subject.result.equation.options.is_scalar:
            per = "rad/s" if robot.links[robot.active_links[joint]].kind == "revolute" else "m/s"
            speed = number_cell(abs(float(m.v[joint])), f"{number_text(abs(float(m.v[joint])), 3)} {per}")
        rows.append([
            Cell(channel_title(subject, m.channel), moment=(one.clock, t, m.channel)),
            Cell(short_log_name(replay.name)), Cell(", ".join(one.circumstances) or "moving"),
            number_cell(t, f"{t:.3f} s"),
            number_cell(m.residual, f"{number_text(m.residual, 3)} {channel_unit(subject, m.channel)}"),
            number_cell(one.over_sigma, f"{one.over_sigma:.1f} sigma"), speed,
        ])  # fmt: skip
    head = ("joint", "log", "motion of the joint", "time", "residual", "in deviations", "speed")
    return Table("Worst moments: a click takes every figure and the robot there", head, rows, 3)


def _describe_moments(subject: ReportSubject, moments: Sequence[WorstMoment]) -> str:
    """Sentence on what the worst moments have in common."""
    if not moments:
        return ""
    names = [channel_title(subject, one.moment.channel) for one in moments]
    most = max(dict.fromkeys(names), key=names.count)
    said = [f"{names.count(most)} at {most}"] if len(set(names)) > 1 or len(names) > 1 else []
    near = sum(one.near_reversal for one in moments)
    limit = sum(any(word.startswith("at limit") for word in one.circumstances) for one in moments)
    said += [f"{near} near a reversal of the joint"] if near else []
    said += [f"{limit} at a limit"] if limit else []
    what = "Of the {} largest residual peaks, {}.".format(len(moments), ", ".join(said)) if said else ""
    remedy = (
        " Most of them are where friction changes its sign: a friction model with a memory may help."
        if near > len(moments) / 2
        else ""
    )
    return what + remedy


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
    words = Cell("; ".join(told) or "nothing conspicuous", mark="" if told else "soft")
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
            "name": "measured less rigid body", "marker": {"size": 3, "color": "measured", "opacity": 0.45},
        })  # fmt: skip
    traces.append(line_trace(v, friction_curve(result, joint, v), "identified", "identified", width=2.4))
    units = ("rad/s", "N m") if turns else ("m/s", "N")
    layout = {
        "title": corner_title(f"joint {escape_plot_text(name)}"),
        "xaxis": titled_axis(f"v [{units[0]}]"), "yaxis": titled_axis(f"[{units[1]}]"), "hovermode": "closest",
    }  # fmt: skip
    return Figure(f"Friction of joint {name} over its velocity", traces, layout, 290)
