"""The parameters: values with intervals, sorted and coloured by relative deviation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dynid.dynamics.friction import PLAIN
from dynid.errors import DynidError
from dynid.estimation.identification import Identification
from dynid.identifiability.explanation import Explanation, explain_all
from dynid.identifiability.parameters import BaseParameters
from dynid.messages import command_line_wording
from dynid.physical.check import describe_violations
from dynid.physical.parameters import SHOWN, BodyRanges, PhysicalParameters
from dynid.report.answer import MARKS
from dynid.report.page import (
    BLUE,
    GREEN,
    ORANGE,
    PLUS_MINUS,
    STAR,
    VERMILION,
    Cell,
    Figure,
    Figures,
    ReportSubject,
    Section,
    StandardValues,
    Table,
    Trace,
    draw_robot,
    escape_plot_text,
    line_trace,
    middle_posture,
    name_axis,
    number_cell,
    number_text,
    percent_text,
    plotly_figures,
    render_page,
    titled_axis,
    tree_poses,
    typed_array,
    unit_text,
    value_and_half_width_text,
)
from dynid.report.replay import nominal_friction_by_name
from dynid.robot.inertia import SYMBOLS, to_body
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Link, Robot
from dynid.robot.transform import Array
from dynid.storage.files import write_text

CERTAIN, FAIR = 0.1, 0.5
"""Half width of the 95 % interval over the value up to which a parameter is well known, and known at all."""


@dataclass(frozen=True, slots=True)
class ParametersSection:
    """One sortable table."""

    name: str = "parameters"
    title: str = "Parameters"

    def build_content(self, subject: ReportSubject) -> Mapping[str, Any]:
        """Table of the parameters, sorted by relative deviation."""
        result = subject.result
        how = f"jackknife over {result.groups} blocks of time" if result.groups else "textbook formula, white residuals"
        return {
            "table": _parameters_table(subject),
            "how": how,
            "word": subject.reference[0],
            "essential": len(result.essential),
            "count": len(result.names),
        }


def relative_half_width(result: Identification) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Half width of the 95 % interval over the value, infinite where that is zero."""
    half, size = result.quantile * result.sigma, np.abs(result.values)
    return np.divide(half, size, out=np.where(half > 0.0, np.inf, 0.0), where=size > 0.0)


def precision_colour(share: float) -> str:
    """Style class for a relative deviation: good, fair or bad."""
    return "good" if share <= CERTAIN else "fair" if share <= FAIR else "bad"


def _parameters_table(subject: ReportSubject) -> Table:
    """Table of the parameters with intervals, and nominal or true values where there are some."""
    result, (word, _), reference = subject.result, subject.reference, subject.reference_values
    relative = relative_half_width(result)
    has_reference = any(name in reference for name in result.names)
    head = [
        "parameter",
        "unit",
        "essential",
        "value",
        f"{PLUS_MINUS} 95 %",
        "relative (bars: logarithmic, 0.1 to 100 %)",
    ]
    head += [word, f"off {word}"] if has_reference else []
    half, essential = result.quantile * result.sigma, set(result.essential)
    order = [int(k) for k in np.argsort(relative, kind="stable")]
    rows = []
    for k in order:
        name, share, value = result.names[k], float(relative[k]), float(result.values[k])
        shown, width = value_and_half_width_text(value, float(half[k]))
        row = [
            Cell(name), Cell(unit_text(result.units[k]), mark="soft"), _essential_cell(name in essential),
            number_cell(value, shown), number_cell(float(half[k]), width, "near"),
            Cell("fixed", -1.0, "soft") if half[k] == 0.0
            else number_cell(share, percent_text(share), precision_colour(share), _bar_fill(share)),
        ]  # fmt: skip
        rows.append(row + (_reference_cells(result, k, reference.get(name)) if has_reference else []))
    groups = [group_of_parameter(result.robot, result.names[k]) for k in order]
    stars = [result.names[k] in essential for k in order]
    return Table("Identified parameters, best known first", head, rows, 3, groups, stars)


def group_of_parameter(robot: Robot, name: str) -> str:
    """Heading under which a parameter is listed: its joint, or that of its link."""
    if not isinstance(name, Parameter):
        return "others"
    joints = {link.name: link.joint for link in robot.links}
    joint = name.joint if name.joint is not None else joints.get(name.link or "")
    return "others" if joint is None else f"joint {joint}"


def _bar_fill(share: float) -> float:
    """Filled share of a bar for a relative half width from 0.1 % to 100 %, logarithmic."""
    return float(np.clip(1.0 + np.log10(max(share, 1e-3)) / 3.0, 0.02, 1.0))


def _essential_cell(essential: bool) -> Cell:
    """Cell with a star for an essential parameter."""
    return Cell(STAR, 0.0) if essential else Cell("", 1.0)


def _reference_cells(result: Identification, k: int, reference: float | None) -> list[Cell]:
    """Cells of the nominal or true value, and of how far it is from the estimate in standard deviations."""
    if reference is None:
        return [number_cell(math.nan, "-"), number_cell(math.nan, "-")]
    value, sigma = float(result.values[k]), float(result.sigma[k])
    off = abs(value - reference) / sigma if sigma > 0.0 else math.nan
    inside = off <= result.quantile
    mark = "" if not math.isfinite(off) else "soft" if inside else "fair"
    text = "inside" if inside else f"{number_text(off, 2)} sigma off" if math.isfinite(off) else "-"
    shown = value_and_half_width_text(reference, result.quantile * sigma)[0]
    return [number_cell(reference, shown), number_cell(off, text, mark)]


# Bodies that fit, beside nominal or true ones, where somebody found them.


@dataclass(frozen=True, slots=True)
class PhysicalSection:
    """Bodies of the links, then all standard parameters; left out as long as none were handed in."""

    name: str = "physical"
    title: str = "Bodies"

    def build_content(self, subject: ReportSubject) -> Mapping[str, Any] | None:
        """Table of the links' bodies, the total first, and of standard parameters; None where none were handed in."""
        found = subject.physical
        if found is None:
            return None
        known = found if isinstance(found, PhysicalParameters) else None
        with_ranges = None
        if known is not None:
            with suppress(DynidError):  # no range can be proven
                with_ranges = known.body_ranges
        return {
            "verdict": found.verdict,
            "mark": MARKS[found.verdict.level],
            "bodies": _bodies_table(subject, found, known, with_ranges),
            "table": _standard_table(subject, found, known, with_ranges),
            "word": subject.reference[0],
            "ranges": with_ranges is not None,
        }


def _range_text(low: float, high: float) -> str:
    """Text of a range, with digits that tell its ends apart."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return " to ".join(number_text(end, 3) if math.isfinite(end) else "any" for end in (low, high))
    width = max(0.5 * (high - low), 0.0)
    ends = [value_and_half_width_text(end, width)[0] if width > 1e-9 * abs(high) else number_text(end, 4)
            for end in (low, high)]  # fmt: skip
    return " to ".join(ends)


def _bodies_table(
    subject: ReportSubject, found: StandardValues, known: PhysicalParameters | None, ranges: BodyRanges | None
) -> Table:
    """Table of mass, centre and principal inertias of every link, all links together first."""
    robot, (word, other) = subject.result.robot, subject.reference
    value = dict(zip(map(str, found.names), map(float, found.values), strict=True))
    names = [[str(link.parameter(symbol)) for symbol in SYMBOLS] for link in robot.links]
    every = [np.array([value.get(name, math.nan) for name in own]) for own in names]
    links = [k for k, x in enumerate(every) if x[9] != 0.0]  # the others are frames, not bodies
    bodies, unknown = [every[k] for k in links], np.full(3, math.nan)
    spread = [unknown if ranges is None else 0.5 * np.diff(ranges.centres[k], axis=1)[:, 0] for k in links]
    ends = [
        (math.nan, math.nan) if ranges is None else ranges.parameters[robot.parameter_names.index(names[k][9])]
        for k in links
    ]
    columns = [  # title, cell of all links, cells of the links
        ("link", Cell("all links"), [Cell(robot.links[k].name) for k in links]),
        ("remarks", Cell(""), [_remarks_cell(found, robot.links[k].name, every[k]) for k in links]),
        ("mass [kg]", _total_cell(bodies), [
            number_cell(float(x[9]), value_and_half_width_text(float(x[9]), float(0.5 * (high - low)), 4)[0])
            for x, (low, high) in zip(bodies, ends, strict=True)
        ]),
    ]  # fmt: skip
    blank = Cell("", math.nan)
    if ranges is not None:
        texts = [number_cell(float(high - low), _range_text(float(low), float(high))) for low, high in ends]
        columns.append(("range of mass [kg]", blank, texts))
    share = {} if known is None else dict(zip(map(str, known.names), map(float, known.from_data), strict=True))
    if share:
        columns.append(("mass from data", blank, [_share_cell(share[names[k][9]]) for k in links]))
    columns.append(("centre x, y, z [m]", blank, [_centre_cell(x, h) for x, h in zip(bodies, spread, strict=True)]))
    if share:
        mean = [float(np.mean([share[name] for name in names[k][6:9]])) for k in links]
        columns.append(("centre from data", blank, [_share_cell(x) for x in mean]))
    unit = unit_text("kg m^2")
    columns.append((f"principal inertias [{unit}]", blank, [_principal_cell(x) for x in bodies]))
    theirs = [np.asarray(other.links[k].inertia) for k in links]
    if any(np.isfinite(x).all() for x in theirs):
        masses = [number_cell(float(x[9]), number_text(float(x[9]), 4)) for x in theirs]
        columns += [
            (f"{word} mass [kg]", _total_cell(theirs), masses),
            (f"{word} centre [m]", blank, [_centre_cell(x, unknown) for x in theirs]),
            (f"{word} inertias [{unit}]", blank, [_principal_cell(x) for x in theirs]),
        ]
    rows = [[total for _, total, _ in columns], *([cells[i] for _, _, cells in columns] for i in range(len(links)))]
    return Table("Bodies of the links, in their frames", [title for title, _, _ in columns], rows, 2)


def _total_cell(bodies: Sequence[Array]) -> Cell:
    """Cell of the mass of all bodies."""
    total = float(sum(x[9] for x in bodies))
    return number_cell(total, number_text(total, 4))


def _remarks_cell(found: StandardValues, name: str, x: Array) -> Cell:
    """Cell on what is impossible or absurd about a body: outside its link, far from its prior, denser than metal."""
    words = {"mass_far_from_prior": "mass far from its prior", "centre_outside_link": "centre outside the link"}
    said = [words[w.code] for w in found.warnings if w.code in words and w.facts.get("link") == name]
    said += [message.what for message in describe_violations(x)]
    return Cell("; ".join(said) or "plausible", mark="bad" if said else "soft")


def _share_cell(share: float) -> Cell:
    """Cell of the share of a value that comes from the data."""
    return number_cell(share, f"{100.0 * share:.0f} %", "soft" if share >= SHOWN else "fair")


def _centre_cell(x: Array, half: Array) -> Cell:
    """Cell of a centre of mass; digits follow the ranges where these are known."""
    centre = x[6:9] / x[9] if x[9] else np.full(3, math.nan)
    texts = [value_and_half_width_text(float(c), float(h), 3)[0] for c, h in zip(centre, half, strict=True)]
    return number_cell(float(np.linalg.norm(centre)), ", ".join(texts) if np.isfinite(centre).all() else "-")


def _principal_cell(x: Array) -> Cell:
    """Cell of the principal inertias about the centre of mass."""
    if not np.isfinite(x).all() or not x[9]:
        return number_cell(math.nan, "-")
    moments = np.linalg.eigvalsh(to_body(x).inertia)
    return number_cell(float(moments[-1]), ", ".join(number_text(float(m), 3) for m in moments))


def _standard_table(
    subject: ReportSubject, found: StandardValues, known: PhysicalParameters | None, ranges: BodyRanges | None
) -> Table:
    """Table of all standard parameters and friction."""
    robot, (word, other) = subject.result.robot, subject.reference
    stated = dict(zip(map(str, other.parameter_names), map(float, other.parameters), strict=True))
    stated |= nominal_friction_by_name(other) if set(subject.result.friction) <= set(PLAIN) else {}
    units = {str(name): name.unit for name in (*robot.parameter_names, *subject.result.names)}
    place = {str(name): k for k, name in enumerate(robot.parameter_names)}
    head = ["parameter", "unit", "value", *(["range"] if ranges is not None else [])]
    head += [*(["from data"] if known is not None else []), word, "difference"]
    rows, groups = [], []
    for k, (name, value) in enumerate(zip(found.names, map(float, found.values), strict=True)):
        reference, half, low, high = stated.get(name, math.nan), math.nan, math.nan, math.nan
        if ranges is not None and name in place:
            low, high = (float(end) for end in ranges.parameters[place[name]])
            half = 0.5 * (high - low)
        row = [Cell(name), Cell(unit_text(units.get(str(name), "")), mark="soft")]
        row.append(number_cell(value, value_and_half_width_text(value, half)[0]))
        if ranges is not None:
            row.append(number_cell(high - low, _range_text(low, high) if name in place else "-"))
        if known is not None:
            row.append(_share_cell(float(known.from_data[k])))
        row += [number_cell(reference, number_text(reference, 5)),
                number_cell(value - reference, number_text(value - reference, 3))]  # fmt: skip
        rows.append(row)
        groups.append(group_of_parameter(robot, name))
    return Table("Standard parameters of the bodies, and friction", head, rows, 2, groups)


# The robot: a drawing and its table.


@dataclass(frozen=True, slots=True)
class RobotSection:
    """Skeleton, modified Denavit-Hartenberg table, gravity."""

    name: str = "robot"
    title: str = "Robot"

    def build_content(self, subject: ReportSubject) -> Mapping[str, Any]:
        """Table of the robot, and its skeleton in the middle of its limits where no log is replayed."""
        return _robot_content(subject.result.robot, bool(subject.replays), subject.result.equation.unknown or ())


def _robot_content(robot: Robot, replays: bool = False, unknown: Sequence[str] = ()) -> Mapping[str, Any]:
    """Values for the template of a robot: its table, and its skeleton where no log is replayed."""
    try:
        table = _mdh_table(robot.to_mdh())
    except DynidError:  # frames that the notation does not have; the drawing needs none
        table = None
    return {
        "robot": robot,
        "gravity": ", ".join(number_text(float(x), 4) for x in robot.gravity),
        "drawing": None if replays else draw_robot(robot, middle_posture(robot)),
        "replays": replays,
        "table": table,
        "unknown": ", ".join(unknown),
    }


def _mdh_table(robot: Robot) -> Table:
    """Modified Denavit-Hartenberg table of a robot, with its limits."""
    head = ("joint", "parent", "type", "gamma", "b", "alpha", "d", "theta", "r", "from", "to", "speed", "effort")
    rows = [_mdh_row(robot, link) for link in robot.links if link.mdh is not None]
    return Table("Modified Denavit-Hartenberg table: degrees and m, limits in the same units, N m or N", head, rows, 3)


def _mdh_row(robot: Robot, link: Link) -> list[Cell]:
    """Row of a link in the modified Denavit-Hartenberg table."""
    assert link.mdh is not None
    parent = robot.links[link.parent].joint if link.parent >= 0 else "base"
    row = [Cell(link.joint), Cell(parent), Cell(link.kind)]
    for letter in ("gamma", "b", "alpha", "d", "theta", "r"):
        entry = getattr(link.mdh, letter)
        value = math.degrees(entry.value) if letter in ("gamma", "alpha", "theta") else entry.value
        row.append(number_cell(value, f"{entry.text} = {value:.5g}" if entry.text else f"{value:.5g}"))
    turns = math.degrees(1.0) if link.kind == "revolute" else 1.0
    limits = link.limits
    for value in (turns * limits.lower, turns * limits.upper, turns * limits.velocity, limits.effort):
        row.append(number_cell(value, f"{value:.4g}" if math.isfinite(value) else "-"))
    return row


# What can be identified at all, and how the other parameters join.


FEW = 8
"""Relations that are shown at once."""


@dataclass(frozen=True, slots=True)
class IdentifiableSection:
    """Base parameters (or model parameters of unknown geometry) with their relations, and what the data lost."""

    name: str = "identifiable"
    title: str = "What is identifiable"

    def build_content(self, subject: ReportSubject) -> Mapping[str, Any]:
        """Counts, names and relations of the base parameters, and what the data do not determine."""
        result = subject.result
        base, free = result.equation.base, result.equation.unknown is not None
        content = _identifiable_content(base, result.base_rank)
        return {
            **content, "model": result.model, "free": free, "groups": [] if free else content["groups"],
            "lost": result.unidentifiable,
        }  # fmt: skip


def _identifiable_content(base: BaseParameters, rank: int) -> dict[str, Any]:
    """Values for the template of what is identifiable: counts, groups and relations."""
    return {
        "model": base.question.model,
        "free": False,
        "count": base.count,
        "rank": rank,
        "columns": len(base.columns),
        "groups": [
            ("have no effect on the measurement", base.no_effect),
            ("show only in sums with others", base.regrouped),
            ("are known to be zero", base.known),
        ],
        "relations": base.relations[:FEW],
        "more_relations": base.relations[FEW:],
        "lost": (),
    }


# How well the motion excites: singular values of the weighted matrix, and its weakest direction.


TERMS = 6


@dataclass(frozen=True, slots=True)
class ConditionSection:
    """Condition numbers, singular values, and what the smallest of them is about."""

    name: str = "condition"
    title: str = "Condition"

    def build_content(self, subject: ReportSubject) -> Mapping[str, Any]:
        """Singular values and condition number, from the factors of the result."""
        result = subject.result
        values, directions = weighted_singular_values(result)
        weakest = directions[-1] if len(directions) else np.zeros(0)
        largest = np.argsort(-np.abs(weakest), kind="stable")[:TERMS]
        rows = [[Cell(result.names[k]), number_cell(float(weakest[k]), f"{weakest[k]:+.2f}")] for k in largest]
        trace = {
            "type": "bar", "y": typed_array(np.maximum(values, 1e-16 * values.max(initial=1.0))),
            "x": typed_array(np.arange(1.0, len(values) + 1.0)), "marker": {"color": BLUE},
            "hovertemplate": "%{x}: %{y:.3g}<extra></extra>",
        }  # fmt: skip
        layout = {
            "xaxis": titled_axis("number"),
            "yaxis": titled_axis("singular value (logarithmic)", type="log", exponentformat="power", nticks=6),
            "bargap": 0.25, "showlegend": False,
        }  # fmt: skip
        return {
            "condition": number_text(result.condition, 4),
            "base_condition": number_text(result.base_condition, 4),
            "rank": result.rank,
            "count": len(result.names),
            "bound": number_text(result.bounds.of_measurement, 3),
            "drawing": Figure("Singular values of the weighted matrix", [trace], layout, 300),
            "table": Table("Weakest direction", ("parameter", "share"), rows),
        }


def weighted_singular_values(result: Identification) -> tuple[Array, Array]:
    """Singular values of W of all logs and channels, each divided by its noise, and their directions (k, p)."""
    noise = np.where(np.isfinite(result.noise) & (result.noise > 0.0), result.noise, 1.0)
    stacked = np.concatenate([f.R[:, :-1] / noise[c] for of_log in result.factors for c, f in enumerate(of_log)])
    values, directions = np.linalg.svd(stacked, full_matrices=False)[1:]
    return np.asarray(values), np.asarray(directions)


# Which parameters the data hardly tell apart.


PAIRS, READABLE, ROW = 10, 130, 11
"""Pairs that are listed, names that can be read along an axis, and px of one of them."""

SCALE = [[0.0, VERMILION], [0.5, "rgba(160,160,160,0.04)"], [1.0, BLUE]]


@dataclass(frozen=True, slots=True)
class CorrelationSection:
    """The correlation matrix and its largest entries."""

    name: str = "correlation"
    title: str = "Correlation"

    def build_content(self, subject: ReportSubject) -> Mapping[str, Any] | None:
        """Correlations of the parameters; None where there are no two uncertain ones."""
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
            pairs.append([Cell(names[i]), Cell(names[j]), number_cell(float(R[i, j]), f"{R[i, j]:+.3f}")])
        n = len(names)
        ticks = {
            **name_axis(names), "showticklabels": n <= READABLE, "tickfont": {"size": 9 if n <= 60 else 8},
            "ticks": "", "showgrid": False, "zeroline": False,
        }  # fmt: skip
        places = list(range(n))
        trace = {
            "type": "heatmap", "x": places, "y": places, "z": typed_array(R), "zmin": -1, "zmax": 1,
            "colorscale": SCALE, "hovertemplate": "%{y}, %{x}: %{z:.2f}<extra></extra>",
            "colorbar": {"thickness": 12, "len": 0.6},
        }  # fmt: skip
        layout = {
            "xaxis": {**ticks, "tickangle": -90},
            "yaxis": {**ticks, "autorange": "reversed"},
            "hovermode": "closest",
            "meta": "matrix",
        }
        height = 560 if n > READABLE else max(560, 100 + ROW * n)
        figure = Figure("Correlation matrix of the parameters", [trace], layout, height)
        table = Table("Most correlated pairs", ("one", "other", "correlation"), pairs, 2)
        return {"drawing": figure, "table": table, "count": n}


# Base parameters of a robot without data: the whole story on one page (`dynid base --report`).


PICTURES = 6
"""Changes that are drawn, one for each rule at first."""

STATUSES = {
    "identifiable by itself": (BLUE, "circle"),
    "carries others": (GREEN, "circle-dot"),
    "regrouped": (ORANGE, "diamond"),
    "no effect": (VERMILION, "x"),
    "known zero": ("#7b8494", "line-ew-open"),
}
"""Colour and symbol of what becomes of a parameter."""


@dataclass(frozen=True, slots=True, eq=False)
class BaseSubject:
    """Base parameters, why the others are none, and warnings."""

    base: BaseParameters
    explanations: tuple[Explanation, ...]
    warnings: Sequence[Any] = field(default_factory=tuple)


class BaseAnswerSection:
    """Counts, groups and relations."""

    name, title = "identifiable", "What is identifiable"

    def build_content(self, subject: BaseSubject) -> Mapping[str, Any]:
        """Values for the template of what is identifiable."""
        return _identifiable_content(subject.base, subject.base.count)


class BaseMapSection:
    """Every parameter of every link in a picture."""

    name, title, template = "map", "Kept, regrouped, without effect", "base_figures"

    def build_content(self, subject: BaseSubject) -> Mapping[str, Any]:
        """Figure of what becomes of each parameter."""
        base = subject.base
        rows = [link.name for link in base.robot.links]
        place = {name: k for k, link in enumerate(base.robot.links) for name in (link.name, link.joint)}
        symbols = list(dict.fromkeys(name.symbol for name in base.columns))
        points: dict[str, list[tuple[int, int, str]]] = {title: [] for title in STATUSES}
        for name in base.columns:
            where = symbols.index(name.symbol), place[name.link or name.joint or ""]
            points[_status_title(base, name)].append((*where, str(name)))
        traces: list[Trace] = [
            {
                "type": "scatter", "mode": "markers", "name": title, "x": [x for x, _, _ in some],
                "y": [y for _, y, _ in some], "text": [escape_plot_text(name) for _, _, name in some],
                "hovertemplate": "%{text}<extra>" + title + "</extra>",
                "marker": {"color": STATUSES[title][0], "symbol": STATUSES[title][1], "size": 13},
            }
            for title, some in points.items()
            if some
        ]  # fmt: skip
        layout = {
            "xaxis": name_axis(symbols) | {"side": "top", "showgrid": False},
            "yaxis": titled_axis("link") | name_axis(rows) | {"autorange": "reversed"},
            "legend": {"orientation": "h", "y": -0.1},
        }
        figure = Figure("Parameters by link and what becomes of them", traces, layout, 130 + 30 * len(rows))
        return {"text": "", "figures": [figure], "table": None}


def _status_title(base: BaseParameters, name: Parameter) -> str:
    """What becomes of a parameter."""
    if name in base.known:
        return "known zero"
    if name in base.names:
        alone = len(base.coefficients[base.columns.index(name)]) == 1
        return "identifiable by itself" if alone else "carries others"
    return "regrouped" if name in base.regrouped else "no effect"


class BaseWhySection:
    """Why each of the others is none: rule, what it joins, what would reveal it, and pictures of invisible changes."""

    name, title, template = "why", "Why not, and what would reveal it", "base_figures"

    def build_content(self, subject: BaseSubject) -> Mapping[str, Any] | None:
        """Table of all parameters that are not kept, and pictures of some changes; None where all are kept."""
        if not subject.explanations:
            return None
        head = ("parameter", "link", "what", "because", "joins", "base tilted", "force plate", "channels", "geometry")
        rows = []
        for one in subject.explanations:
            name = one.parameter
            column = subject.base.regrouping.matrix[:, subject.base.columns.index(name)]
            joins = " ".join(subject.base.names[i] for i in np.flatnonzero(column))
            rows.append([
                Cell(str(name)), Cell(name.link or name.joint or ""), Cell(one.status), Cell(one.reason or "-"),
                Cell(joins or "-"), *_remedy_cells(one),
            ])  # fmt: skip
        text = (
            "Each remedy is computed: the base parameters of the tilted robot, of the robot on a force plate (in "
            "addition to the torques) and of the changed table are determined anew."
        )
        if figures := _pictures(subject):
            text += " The pictures show changes that no sensor of this model sees: what one link gains, "
            text += "others lose."
        return {
            "text": text, "figures": figures,
            "table": Table("Parameters that are not kept", head, rows, words=len(head)),
        }  # fmt: skip


def _remedy_cells(one: Explanation) -> list[Cell]:
    """Cells on what reveals a parameter: tilted base, plate, channels, geometry; a dash where nothing was tried."""
    cells = []
    for kind, single in (("mounting", False), ("sensor", False), ("sensor", True)):
        tried = [t for t in one.trials if t.kind == kind and bool(t.channel) == single]
        good = [t for t in tried if t.revealed]
        text = " ".join(t.channel for t in good) if single else "reveals it" if good else ""
        cells.append(Cell(text or ("no" if tried else "-")))
    tried = [t for t in one.trials if t.kind == "geometry"]
    causes = ", ".join(t.cause for t in tried if t.revealed)
    return [*cells, Cell(causes or ("no" if tried else "-"))]


def _pictures(subject: BaseSubject) -> list[Figure]:
    """Pictures of some invisible changes between links: one for each rule, then others."""
    shared = [x for x in subject.explanations if x.changes and len({_link_of(p) for p in x.changes[0]}) > 1]
    first = {x.rule: x for x in reversed(shared)}
    chosen = [x for x in shared if first[x.rule] is x] + [x for x in shared if first[x.rule] is not x]
    return [figure for one in chosen[:PICTURES] if (figure := _picture(subject.base.robot, one)) is not None]


def _link_of(name: Parameter) -> str:
    """Link of a parameter, joint of a rotor."""
    return name.link or name.joint or ""


def _picture(robot: Robot, one: Explanation) -> Figure | None:
    """The robot seen from the side with what each link gains and loses in a change that no measurement shows."""
    bent = middle_posture(robot) + 0.6 * (-1.0) ** np.arange(robot.n)  # no two links in line
    bent = np.clip(bent, *robot.limits.position.T)
    try:
        poses = tree_poses(robot, (middle_posture(robot) if robot.closures else bent)[None])
    except DynidError:  # loops that do not close there
        return None
    view = np.array([[math.cos(0.5), math.sin(0.5), 0.0], [-0.35 * math.sin(0.5), 0.35 * math.cos(0.5), 0.94]])
    flat = {k: view @ p[0] for k, p in poses.position.items()}
    ends = [np.array([flat[link.parent], flat[k], [np.nan, np.nan]]) for k, link in enumerate(robot.links)]
    index = {link.joint: k for k, link in enumerate(robot.links)}
    for closure in robot.closures:
        for k, point in zip((index[name] for name in closure.links), closure.points, strict=True):
            tip = view @ (poses.position[k][0] + poses.rotation[k][0] @ point)
            ends.append(np.array([flat[k], tip, [np.nan, np.nan]]))
    lines = np.concatenate(ends)
    traces = [line_trace(lines[:, 0], lines[:, 1], "links", "#7b8494", width=4, hoverinfo="skip", showlegend=False)]
    span = float(np.ptp(np.array(list(flat.values())), axis=0).max()) or 1.0
    for k in sorted(flat):  # frames with a common origin stand side by side
        while any(np.linalg.norm(flat[k] - flat[other]) < 0.05 * span for other in flat if -1 < other < k):
            flat[k] = flat[k] + np.array([0.12 * span, 0.0])
    by_link: dict[str, list[str]] = {}
    totals: dict[str, float] = {}
    change = one.changes[0]
    for name, x in change.items():
        by_link.setdefault(_link_of(name), []).append(f"{name} {x:+.3g} {name.unit}")
        totals[_link_of(name)] = totals.get(_link_of(name), 0.0) + x
    place = {name: k for k, link in enumerate(robot.links) for name in (link.name, link.joint)}
    for title, sign, colour, symbol in (("gains", 1, BLUE, "circle"), ("loses", -1, VERMILION, "square")):
        some = [link for link in by_link if (totals[link] >= 0) == (sign > 0)]
        if some:
            traces.append({
                "type": "scatter", "mode": "markers+text", "name": title,
                "textposition": [("top center", "bottom center")[place[link] % 2] for link in some],
                "x": [float(flat[place[link]][0]) for link in some],
                "y": [float(flat[place[link]][1]) for link in some],
                "text": [escape_plot_text(", ".join(p.split(" ")[0] for p in by_link[link])) for link in some],
                "hovertext": [escape_plot_text("; ".join(by_link[link])) for link in some], "hoverinfo": "text",
                "marker": {"color": colour, "symbol": symbol, "size": 16},
            })  # fmt: skip
    low = np.min(list(flat.values()), axis=0) - 0.25 * span
    high = np.max(list(flat.values()), axis=0) + 0.25 * span
    layout = {
        "xaxis": {"visible": False, "range": [float(low[0]), float(high[0])]},
        "yaxis": {"visible": False, "range": [float(low[1]), float(high[1])], "scaleanchor": "x"},
    }
    words = ", ".join(f"{name} {x:+.3g} {unit_text(name.unit)}" for name, x in change.items())
    label = f"Change of {one.parameter} that no measurement shows: {words}"
    return Figure(label, traces, layout, 320, note=f"Invisible change: {words}.")


class BaseRobotSection:
    """Skeleton and table of the robot."""

    name, title = "robot", "Robot"

    def build_content(self, subject: BaseSubject) -> Mapping[str, Any]:
        """Values for the template of a robot."""
        return _robot_content(subject.base.robot)


class BaseWarningsSection:
    """What was warned about."""

    name, title = "warnings", "Warnings"

    def build_content(self, subject: BaseSubject) -> Mapping[str, Any]:
        """Warnings in the words of the command line."""
        return {"warnings": list(map(command_line_wording, subject.warnings)), "notes": ()}


BASE_SECTIONS: tuple[Section[BaseSubject], ...] = (
    BaseAnswerSection(), BaseMapSection(), BaseRobotSection(), BaseWhySection(), BaseWarningsSection(),
)  # fmt: skip


def write_base_page(base: BaseParameters, path: Path, *, warnings: Sequence[Any] = ()) -> None:
    """Write the page on a robot's base parameters: one HTML file that needs nothing else."""
    subject = BaseSubject(base, explain_all(base), warnings)
    total = len(base.columns) - len(base.known)
    lead = (
        f"Of {total} parameters, {base.count} combinations can be identified with the {base.question.model} model, "
        f"whatever the motion ({base.method}{'' if base.certificate is None else f'; {base.certificate}'})."
    )
    write_text(path, render_page(f"Base parameters of {base.robot.name}", subject, BASE_SECTIONS, lead=lead))


def base_figures(base: BaseParameters, why: bool) -> Figures:
    """Figures of the page on a robot's base parameters; why: with those of the explanations, which take seconds."""
    return plotly_figures(
        BaseSubject(base, explain_all(base) if why else ()), BASE_SECTIONS if why else BASE_SECTIONS[1:2]
    )
