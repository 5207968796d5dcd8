"""A page on a designed motion: curves with their limits, the path in space, condition, and errors to expect."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dynid.excitation.clearance import BeforeRun
from dynid.excitation.excitation import Excitation, noise_per_channel
from dynid.excitation.points import PointsShape
from dynid.excitation.starts import Descent, SearchHistory
from dynid.identifiability.base_parameters import base_parameters
from dynid.messages import command_line_wording
from dynid.report.page import (
    COLOURS,
    Cell,
    Figure,
    Figures,
    Section,
    Table,
    Trace,
    corner_title,
    draw_path,
    escape_plot_text,
    joint_dash,
    line_trace,
    log_axis,
    number_cell,
    number_text,
    percent_text,
    plotly_figures,
    render_page,
    titled_axis,
)
from dynid.report.page import unit_text as raised
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.storage.files import write_text

# How the search for a motion went: the criterion of every start against its iterations, and what that tells.


NEAR, FALLING, LAST_PART = 1.1, 0.01, 0.9
"""A start is near the best one within 10 %; it still fell if its last tenth brought more than 1 %."""

NAMES = {
    "condition": "condition number", "frobenius": "Frobenius condition number", "scaling": "scaling S",
    "condition+scaling": "condition number and scaling, weighted", "a": "trace of the covariance",
    "d": "log determinant of the covariance", "e": "largest eigenvalue of the covariance",
    "v": "mean variance of predicted torques",
}  # fmt: skip
OTHERS, FAR = "#7b8494", 8.0


def draw_search(history: SearchHistory) -> Figure:
    """Figure of the search: one line per start, the chosen one in front."""
    traces: list[Trace] = []
    for descent in history.descents:
        if descent.start != history.chosen:
            first = {"showlegend": not traces, "legendgroup": "others", "opacity": 0.55}
            traces.append(_search_trace(descent, _other_starts_label(history), OTHERS, width=1.2, **first))
    best = history.best
    chosen = f"start {best.start + 1}: this motion"
    traces.append(_search_trace(best, chosen, COLOURS[0], width=2.6))
    layout = {
        "xaxis": titled_axis("iteration", rangemode="tozero"), "yaxis": _criterion_axis(history),
        "showlegend": len(traces) > 1, "hovermode": "closest",
    }  # fmt: skip
    return Figure(f"{criterion_name(history.criterion).capitalize()} while searching", traces, layout, 360)


def _criterion_axis(history: SearchHistory) -> dict[str, Any]:
    """Layout of the axis of the criterion; values far above the best are left outside."""
    name = criterion_name(history.criterion)
    lowest = min(float(descent.values.min()) for descent in history.descents)
    highest = max(float(descent.values.max()) for descent in history.descents)
    if lowest <= 0.0:  # a log determinant
        return titled_axis(name)
    highest = max(
        min(highest, FAR * history.best.final_value), max(descent.final_value for descent in history.descents)
    )
    return log_axis(name, lowest, highest, range=[math.log10(0.93 * lowest), math.log10(1.07 * highest)])


def criterion_name(criterion: str) -> str:
    """Name of a criterion in words."""
    return NAMES.get(criterion, criterion)


def describe_search(history: SearchHistory, columns: int) -> str:
    """Text on what the figure of the search shows, and what may do better; columns: of the matrix W."""
    best, count = history.best, len(history.descents)
    ended = [descent for descent in history.descents if not descent.dropped]
    near = sum(
        criterion_ratio(descent.final_value, best.final_value, history.criterion, columns) <= NEAR
        for descent in ended
        if not descent.refused
    )
    said = []
    if count > len(ended):
        said.append(f"{count} starts were tried, of which the best {len(ended)} were followed to their end.")
    if len(ended) > 1:
        said.append(f"{near} of {len(ended)} starts ended within 10 % of the best, which is start {best.start + 1}.")
    if refused := sum(descent.refused for descent in history.descents):
        said.append(f"{refused} better ones were refused: their motions collide, or cannot be entered.")
    drop = final_decrease(best, history.criterion, columns)
    if history.stopped:
        ran = f", {count} of {history.planned} starts were run" if count < history.planned else ""
        said.append(f"The search was stopped early{ran}; more time (--time-budget) may do better.")
    elif drop > FALLING:
        said.append(
            f"The best start still fell by {percent_text(drop)} over the last tenth of its iterations; "
            f"a search with more starts (--starts {2 * history.planned}) may do better."
        )
    elif 2 * near < len(ended) or count == 1:
        tried = "Only one start was tried" if count == 1 else "Starts end far apart"
        said.append(f"{tried}; more of them (--starts {max(4, 2 * history.planned)}) may do better.")
    else:
        said.append("The best start had come to rest, and others ended near it: more starts would hardly help.")
    return " ".join(said)


def final_decrease(descent: Descent, criterion: str, columns: int) -> float:
    """Share by which the iterates fell over the last tenth of the iterations."""
    iterations, values = descent.iterations[:-1], descent.values[:-1]
    if len(values) < 2:
        return 0.0
    before = values[iterations <= LAST_PART * iterations[-1]]
    return (
        1.0 - 1.0 / max(criterion_ratio(float(before[-1]), float(values[-1]), criterion, columns), 1.0)
        if len(before)
        else 0.0
    )


def criterion_ratio(value: float, best: float, criterion: str, columns: int) -> float:
    """Ratio of a criterion to the best; a log determinant counts as the geometric mean of the variances."""
    if criterion == "d":
        return math.exp((value - best) / columns)
    return value / best


def _other_starts_label(history: SearchHistory) -> str:
    """Name of all starts but the chosen one."""
    return "other starts" if len(history.descents) > 2 else "the other start"


def _search_trace(descent: Descent, name: str, colour: str, **more: Any) -> Trace:
    """Criterion over the iterations of one start."""
    seconds = number_text(descent.seconds, 2)
    hover = f"start {descent.start + 1} ({seconds} s)<br>iteration %{{x}}: %{{y:.4g}}<extra></extra>"
    return line_trace(descent.iterations.astype(np.float64), descent.values, name, colour, hovertemplate=hover, **more)


_QUANTITIES = (("position", "q", ""), ("velocity", "v", "/s"), ("acceleration", "a", "/s^2"))
_SAMPLES, _INSTANTS = 800, 60
_UNITS = {"torque": ("N m", "N"), "energy": ("J", "J"), "momentum": ("N m s", "N s"), "reaction": ("N or N m",) * 2}
"""Of what a row measures: at a revolute and at a prismatic joint."""
_SPACE = "\N{NO-BREAK SPACE}"
LIMITED = ("position", "velocity", "acceleration", "jerk")
SMALLEST_MARGIN = 5e-4
"""A margin below this is called none: rounded to a tenth of a percent it is."""
LOOK_FIRST = "look first"
FAST, SLOW, REHEARSAL = 1.0, 0.25, 0.25
"""Tool speeds (m/s) above which a limit, and a rehearsal, is proposed; share of a rehearsal's speed."""
HOPELESS = 1e9
"""Condition numbers beyond this are those of too few rows, and not drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class DesignedMotion:
    """A motion with its samples, and the noise of each channel (channels,) for which errors are expected."""

    excitation: Excitation
    motion: Motion
    noise: Array
    file: Path


def write_page(excitation: Excitation, path: Path, *, noise: float | Sequence[float] | Array | None = None) -> None:
    """Write one HTML file with everything inside it; noise: of each channel, else that of the design, else 1."""
    sigma = excitation.assumed_noise if noise is None else noise_per_channel(noise, excitation.rows.rows_per_sample)
    design = DesignedMotion(excitation, excitation.motion(max(10.0, _SAMPLES / excitation.duration)), sigma, path)
    summary = (
        f"{excitation.duration:.1f} s from rest to rest; condition number {excitation.condition:.4g} of "
        f"{len(excitation.rows.names)} base columns ({excitation.rows.model} model); "
        f"{margin_text(excitation)}, proven over all time."
    )
    write_text(path, render_page(f"Exciting motion for {excitation.robot.name}", design, SECTIONS, lead=summary))


def before_run_lines(known: BeforeRun, excitation: Excitation, file: Path | None) -> list[tuple[str, str]]:
    """What to know before a motion is run, line by line: a heading and its text; file: where the motion is written."""
    plane = "floor" if excitation.clearance and excitation.clearance.cell.floor is not None else "mounting plane"
    limit = None if excitation.clearance is None else excitation.clearance.cell.tool_speed
    speed = f"up to {known.tool_speed:.2f} m/s"
    if limit is not None:
        speed += f" of {limit:g} m/s allowed"
    elif known.tool_speed > FAST:
        speed += f", not limited: --tool-speed {FAST:g} would limit it"
    lines = [("tool speed", speed)]
    if known.below:
        name, depth = max(known.below.items(), key=lambda item: item[1])
        others = f", {len(known.below) - 1} more links too" if len(known.below) > 1 else ""
        where = f"{plane} z = {known.base_plane:g} m"
        lines.append(("below", f"link {name} goes {1000 * depth:.0f} mm below the {where}{others}"))
    heights = ", ".join(f"{name} {z:.3f}" for name, z in known.lowest.items())
    lines.append(("lowest z in m", f"{heights} (by link)"))
    lines.append(("links taken as", known.shapes))
    if known.torques:
        shares = ", ".join(f"{name} {100 * peak / most:.0f} %" for name, (peak, most) in known.torques.items())
        lines.append(("torque / limit", shares))
    lines += [("checked", command_line_wording(text)) for text in known.checked]
    lines += [("not checked", command_line_wording(text)) for text in known.unchecked]
    lines.append((LOOK_FIRST, view_command(excitation, file)))
    if known.tool_speed > SLOW:
        quarter = f"{REHEARSAL * known.tool_speed:.2f} m/s"
        lines.append(("then run slowly", f"--speed {100 * REHEARSAL:.0f}% writes a rehearsal ({quarter}) next to it"))
    return lines


def is_fast_without_limit(excitation: Excitation) -> bool:
    """Whether the tool goes fast, and nobody said how fast it may go."""
    known, clearance = excitation.before_run, excitation.clearance
    return known is not None and known.tool_speed > FAST and (clearance is None or clearance.cell.tool_speed is None)


def view_command(excitation: Excitation, file: Path | None) -> str:
    """Command that shows the motion, in the shell's words."""
    robot, clearance = excitation.robot, excitation.clearance
    words = ["dynid", "view", robot.source if os.path.isfile(robot.source) else robot.name]  # a path may be too long
    words.append("traj.csv" if file is None else str(file.with_suffix(".csv")))
    if clearance is not None:
        words += ["--obstacles", clearance.cell.file] if clearance.cell.file else []
        words += [] if clearance.cell.floor is None else ["--floor", f"{clearance.cell.floor:g}"]
    return shlex.join(words)


@dataclass(frozen=True, slots=True)
class BeforeSection:
    """What to know before the motion is run."""

    name: str = "before"
    title: str = "Before you run it"

    def build_content(self, subject: DesignedMotion) -> Mapping[str, Any] | None:
        """Lines of the box; None where there is no motion to run."""
        known = subject.excitation.before_run
        if known is None:
            return None
        groups: dict[str, list[str]] = {}
        for name, text in before_run_lines(known, subject.excitation, subject.file):
            groups.setdefault(name, []).append(text)
        risky = known.below or is_fast_without_limit(subject.excitation)
        return {
            "groups": list(groups.items()), "command": LOOK_FIRST,
            "mark": "weak" if risky else "usable" if known.unchecked else "good",
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class MotionSection:
    """Joint curves, limits as thin dotted lines in the same colour, and how much of each limit is used."""

    name: str = "motion"
    title: str = "Motion"

    def build_content(self, subject: DesignedMotion) -> Mapping[str, Any]:
        """Table of the use of limits, and figures of positions, velocities and accelerations."""
        e = subject.excitation
        effort = [] if e.effort is None else [e.effort.use_of_limits(e.motion(200.0))[:, None]]
        use_of_motion = e.use if np.isfinite(e.limits.jerk).any() else e.use[:, :3]
        rows = [
            [
                Cell(name),
                *(number_cell(float(u), f"{100 * u:.1f} %", "soft", min(max(float(u), 0.0), 1.0)) for u in use),
            ]
            for name, use in zip(e.robot.joint_names, np.hstack([use_of_motion, *effort]), strict=True)
        ]
        head = ("joint", *LIMITED[: use_of_motion.shape[1]], *("effort" for _ in effort))
        table = Table("Use of limits: peak over limit", head, rows)
        return {
            "warnings": e.warnings,
            "table": table,
            "figures": [_joint_curves_figure(subject, *q) for q in _QUANTITIES],
        }


@dataclass(frozen=True, slots=True)
class PathSection:
    """Where the last link goes."""

    name: str = "path"
    title: str = "Path in space"

    def build_content(self, subject: DesignedMotion) -> Mapping[str, Any] | None:
        """Figure of the path in space; None where loops cannot be closed along the motion."""
        drawing = draw_path(subject.excitation.robot, subject.motion.t, subject.motion.q)
        return None if drawing is None else {"drawing": drawing}


@dataclass(frozen=True, slots=True)
class SearchSection:
    """How the search came to this motion."""

    name: str = "search"
    title: str = "Search"

    def build_content(self, subject: DesignedMotion) -> Mapping[str, Any] | None:
        """Figure of the search, with what it shows; None for a motion that was not searched here."""
        history = subject.excitation.history
        if history is None:
            return None
        told = describe_search(history, len(subject.excitation.rows.names))
        continued = isinstance(subject.excitation.shape, PointsShape)
        return {"drawing": draw_search(history), "told": told, "continued": continued}


@dataclass(frozen=True, slots=True)
class ProgressSection:
    """How the condition number falls while the exciting part goes on."""

    name: str = "progress"
    title: str = "Condition"

    def build_content(self, subject: DesignedMotion) -> Mapping[str, Any]:
        """Figure of the condition number over the rows so far, with start and end of the design."""
        e = subject.excitation
        share, condition = condition_numbers_of_first_rows(e.matrix)
        seen = condition < HOPELESS
        traces = [line_trace(100.0 * share[seen], condition[seen], "condition", COLOURS[0], width=2)]
        layout = {
            "xaxis": titled_axis("part of the exciting motion [%]"),
            "yaxis": log_axis("condition number", e.condition, max(condition[seen], default=2.0 * e.condition)),
            "showlegend": False,
        }
        return {
            "bound": bound_text(e),
            "criterion": e.criterion, "first": number_text(e.first_value, 4), "value": number_text(e.value, 4),
            "condition": number_text(e.condition, 4), "scaling": number_text(e.scaling, 4),
            "drawing": Figure("Condition number over the motion", traces, layout, 300),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExpectedSection:
    """Deviations to expect for white noise, relative where the robot file knows the values."""

    name: str = "expected"
    title: str = "Expected errors"

    def build_content(self, subject: DesignedMotion) -> Mapping[str, Any]:
        """Table of expected deviations, one row per parameter, the worst first."""
        e = subject.excitation
        errors, values = e.expected_errors(subject.noise), nominal_base_values(e)
        rows = []
        for (name, error), unit in zip(errors.items(), e.rows.units, strict=True):
            value = values.get(name, math.nan)
            share = error / abs(value) if value else math.inf
            known = (
                [number_cell(value, number_text(value, 4)), number_cell(share, percent_text(share))] if values else []
            )
            order = share if math.isfinite(share) else -1.0
            rows.append(
                (
                    order,
                    [Cell(name), Cell(raised(unit), mark="soft"), number_cell(error, number_text(error, 3)), *known],
                )
            )
        head = ("parameter", "unit", "deviation", *(("nominal", "relative") if values else ()))
        ranked = [row for _, row in sorted(rows, key=lambda pair: -pair[0])]
        return {"table": Table("Expected standard deviations", head, ranked, 2), "noise": _noise_text(subject)}


def margin_text(excitation: Excitation) -> str:
    """Words on how far a motion stays from its limits, or which of them it uses up."""
    if excitation.margin >= SMALLEST_MARGIN:
        return f"{100 * excitation.margin:.3g} % of every limit is left unused"
    joint, kind = np.unravel_index(int(np.argmax(excitation.use)), excitation.use.shape)
    return (
        f"no margin to the limits: joint '{excitation.robot.joint_names[joint]}' uses all of its {LIMITED[kind]} limit"
    )


def bound_text(excitation: Excitation) -> str | None:
    """Text on how far the motion is from the best one; None where no bound was asked for."""
    excess, least = excitation.excess_over_bound, excitation.least
    if excess is None or least is None:
        return None
    how = "proven" if least.is_proven else "estimated"
    return (
        f"criterion {excitation.criterion}: within {excess:.2g} of what any motion inside these limits can reach "
        f"({how}; duality gap {100 * least.gap:.2g} %)"
    )


def nominal_base_values(excitation: Excitation) -> dict[str, float]:
    """Nominal values of the base parameters by name, where they are known."""
    rotors = bool(excitation.rows.stage.columns.rotor_column_of_link)
    base = base_parameters(excitation.robot, model=excitation.rows.model, rotor_inertia=rotors)
    values = base.values(excitation.robot.parameters)
    return {name: float(x) for name, x in zip(base.names, values, strict=True) if np.isfinite(x) and x != 0.0}


def _noise_text(subject: DesignedMotion) -> str:
    """Text on the noise that is assumed, with its unit; of each channel where they differ."""
    sigma = subject.noise[:1] if (subject.noise == subject.noise[0]).all() else subject.noise
    unit = " or ".join(_joint_units(subject.excitation.robot, *_UNITS[subject.excitation.rows.model]))
    return f"{', '.join(number_text(float(s), 4) for s in sigma)} {unit}".replace(" ", _SPACE)


def _joint_units(robot: Robot, turning: str, sliding: str) -> list[str]:
    """Units of a robot's joints: that of revolute ones, of prismatic ones, or both."""
    kinds = {robot.links[k].kind for k in robot.active_links}
    used = [unit for kind, unit in (("revolute", turning), ("prismatic", sliding)) if kind in kinds]
    return list(dict.fromkeys(used))


def condition_numbers_of_first_rows(W: Array) -> tuple[Array, Array]:
    """Condition numbers of the first rows of W, and which share of all rows these are."""
    p = W.shape[1]
    ends = np.unique(np.linspace(min(p, len(W)), len(W), _INSTANTS).astype(int))
    R, start, found = np.zeros((0, p)), 0, []
    for end in ends:
        R = np.asarray(np.linalg.qr(np.concatenate([R, W[start:end]]))[1])
        s = np.linalg.svd(R, compute_uv=False)
        found.append(float(s[0] / s[-1]) if len(s) == p and s[-1] > 0.0 else math.inf)
        start = int(end)
    return ends / len(W), np.array(found)


def _joint_curves_figure(subject: DesignedMotion, quantity: str, letter: str, per: str) -> Figure:
    """Positions, velocities or accelerations of all joints with their limits."""
    e, motion = subject.excitation, subject.motion
    unit = ", ".join(_joint_units(e.robot, f"rad{per}", f"m{per}"))
    traces: list[Trace] = []
    for j, name in enumerate(e.robot.joint_names):
        colour, own = COLOURS[j % len(COLOURS)], escape_plot_text(name)
        traces.append(
            line_trace(motion.t, getattr(motion, letter)[:, j], own, colour, dash=joint_dash(j), legendgroup=own)
        )
        ends = motion.t[[0, -1]]
        hidden = {"legendgroup": own, "showlegend": False, "hoverinfo": "skip", "dash": "1px,4px", "width": 1}
        traces += [
            line_trace(ends, np.full(2, bound), own, colour, **hidden) for bound in _finite_limits(e, quantity, j)
        ]
    layout = {
        "title": corner_title(f"{quantity} [{raised(unit)}]"),
        "xaxis": titled_axis("t [s]", unifiedhovertitle={"text": "t = %{x:.3f} s"}),
        "yaxis": titled_axis("", fixedrange=True),
        "hovermode": "x unified",
    }
    return Figure(f"{quantity.capitalize()} of all joints with their limits", traces, layout, 360, clock=0)


def _finite_limits(excitation: Excitation, quantity: str, j: int) -> tuple[float, ...]:
    """Lower and upper limit of a joint, as far as there are any."""
    limits = excitation.limits
    if quantity == "position":
        bounds = tuple(float(x) for x in limits.position[j])
    else:
        bounds = (-float(getattr(limits, quantity)[j]), float(getattr(limits, quantity)[j]))
    return tuple(x for x in bounds if math.isfinite(x))


SECTIONS: tuple[Section[DesignedMotion], ...] = (
    BeforeSection(), MotionSection(), PathSection(), SearchSection(), ProgressSection(), ExpectedSection(),
)  # fmt: skip


def motion_figures(excitation: Excitation) -> Figures:
    """Figures of a motion's page."""
    motion = excitation.motion(max(10.0, _SAMPLES / excitation.duration))
    return plotly_figures(DesignedMotion(excitation, motion, excitation.assumed_noise, Path("motion.html")), SECTIONS)
