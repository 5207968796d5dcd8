"""A page from sections and what they show: figures, tables, the robot's skeleton; one file that needs nothing else.

Each section fills its own template. Figures are Plotly's own JSON with numbers as compact bytes, drawn by the page's
script when it is opened; the skeleton (links as lines, joints with their axes) is drawn on a canvas.
"""

from __future__ import annotations

import base64
import html
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from dynid.concurrency import run_after_fork
from dynid.dynamics.friction import PLAIN
from dynid.dynamics.kernels.links import Poses, link_poses, tree_arrays
from dynid.dynamics.kernels.loops import loop_map
from dynid.errors import DynidError
from dynid.estimation.diagnostics.verdict import Verdict
from dynid.estimation.identification import Identification, Origin
from dynid.messages import Message
from dynid.report.replay import Replay, nominal_values_by_name
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

if TYPE_CHECKING:
    from jinja2 import Environment


# Numbers and names as a page shows them.


PLUS_MINUS, STAR, ARROW = "\N{PLUS-MINUS SIGN}", "\N{BLACK STAR}", "\N{RIGHTWARDS ARROW}"

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
"""Colours of Okabe and Ito that can be told apart by colour-blind people, on light and on dark ground."""

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""One per joint beside its colour, so that curves differ without colours as well."""

LONGEST = 36
"""Characters of a name that a figure has room for."""

STEERING = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
"""Controls and formats of Unicode (Cc, Cf) but line ends and tabulators: they could make a name read as another."""


def joint_dash(joint: int) -> str:
    """Dash pattern of a joint's curve."""
    return DASHES[joint % len(DASHES)]


def number_text(value: float, digits: int = 4) -> str:
    """A number with some digits, without an exponent where it is of usual size."""
    if not math.isfinite(value):
        return "-"
    if value == 0.0 or not 1e-5 < abs(value) < 1e7:
        return f"{value:.{digits}g}"
    return np.format_float_positional(value, precision=digits, fractional=False, trim="-", unique=False)


def value_and_half_width_text(value: float, half: float, digits: int = 5) -> tuple[str, str]:
    """Value and half width of its interval as texts: the half width with two digits, the value down to its last one.

    Without a finite half width the value has `digits` digits and the half width is a dash.
    """
    if not (math.isfinite(value) and math.isfinite(half) and half > 0.0):
        return number_text(value, digits), "0" if half == 0.0 else "-"
    place = math.floor(math.log10(half)) - 1
    if round(half / 10.0**place) >= 100:  # 0.0996 becomes 0.10
        place += 1
    size = max(abs(value), half)
    if 1e-4 < size < 1e7 and place < 5:
        shown = max(0, -place)
        return f"{round(value, -place) + 0.0:.{shown}f}", f"{round(half, -place):.{shown}f}"  # never -0
    power = math.floor(math.log10(size))
    shown = max(0, power - place)
    return f"{value / 10.0**power:.{shown}f}e{power:+03d}", f"{half / 10.0**power:.{shown}f}e{power:+03d}"


def percent_text(share: float) -> str:
    """A share in percent, two digits."""
    if not math.isfinite(share):
        return "-"
    return f"{100.0 * share:.2g} %" if share < 0.995 else f"{100.0 * share:.0f} %" if share < 10.0 else "> 1000 %"


def escape_plot_text(text: str) -> str:
    """Name for a figure with tags escaped, which Plotly would read; long ones lose their middle."""
    half = LONGEST // 2
    shown = text if len(text) <= LONGEST else f"{text[:half]}\N{HORIZONTAL ELLIPSIS}{text[1 - half :]}"
    return html.escape("".join(c if c.isprintable() else " " for c in shown), quote=False)


def escape_control_characters(content: str) -> str:
    """Text with blanks in place of control, direction and joiner characters."""
    return STEERING.sub(" ", content)


def short_log_name(text: str) -> str:
    """Name of a log without the folders of an absolute path; other names are kept."""
    return PurePath(text).name if PurePath(text).is_absolute() else text


def unit_text(text: str) -> str:
    """Unit with raised exponents and without line breaks."""
    raised = text.replace("^2", "\N{SUPERSCRIPT TWO}").replace("^3", "\N{SUPERSCRIPT THREE}")
    return raised.replace(" ", "\N{NO-BREAK SPACE}")


Trace = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """traces and layout in Plotly's words; label: what a person who cannot see it is told; height in px.

    columns: arrays that several traces share; a trace names one in place of an array. clock: number of the recording
    over whose time it is drawn, -1 for other figures; channel: which of its channels. heading: shown above it.
    """

    label: str
    traces: Sequence[Trace]
    layout: Mapping[str, Any]
    height: int = 320
    note: str = ""
    columns: Mapping[str, Any] = field(default_factory=dict)
    clock: int = -1
    channel: int = -1
    heading: Sequence[tuple[str, str]] = ()

    @property
    def json(self) -> str:
        """Figure as JSON for a script element."""
        return script_json({"data": list(self.traces), "layout": dict(self.layout), "columns": dict(self.columns)})


LIGHT = {
    "measured": "#4d4d4d", "identified": "#D55E00", "nominal": "#0072B2", "residual": "#00805d",
    "band": "rgba(77,77,77,0.14)",
}  # fmt: skip
"""Colours of what a curve is, on light ground, as in the page's script."""


class Figures(dict[str, Any]):
    """Figures of plotly by section and label, in the order of the page."""

    def __repr__(self) -> str:
        return "\n".join(["Figures:", *(f"  {name!r}" for name in self)])


def plotly_figures(subject: T, sections: Sequence[Section[T]]) -> Figures:
    """Figures of some sections as those of the package plotly, by the section's name and, if it has several, label."""
    found = Figures()
    for section in sections:
        own = list(_figures_within(section.build_content(subject)))
        for figure in own:
            name = section.name if len(own) == 1 else f"{section.name}: {figure.label}"
            found[name] = _to_plotly(figure)
    return found


def _figures_within(content: Any) -> Iterator[Figure]:
    """Yield all figures in the values of a template."""
    if isinstance(content, Figure):
        yield content
    elif isinstance(content, Mapping):
        for part in content.values():
            yield from _figures_within(part)
    elif isinstance(content, list | tuple):
        for part in content:
            yield from _figures_within(part)


def _to_plotly(figure: Figure) -> Any:
    """Figure of the package plotly, on light ground."""
    try:
        from plotly.graph_objects import Figure as Drawing
    except ImportError as error:
        raise DynidError("needs_extra_package", "figures need plotly", "pip install plotly") from error
    columns = {name: _unpacked(data) for name, data in figure.columns.items()}
    if {"measured", "identified"} <= set(columns):
        columns["residual"] = columns["measured"] - columns["identified"]

    def plain(part: Any) -> Any:
        """Part of a figure with arrays and colours in place of their names."""
        if isinstance(part, Mapping):
            if "bdata" in part:
                return _unpacked(part)
            return {
                key: LIGHT.get(x, x) if key in ("color", "fillcolor") and isinstance(x, str)
                else columns[x] if key in ("x", "y") and isinstance(x, str) else plain(x) for key, x in part.items()
            }  # fmt: skip
        return [plain(x) for x in part] if isinstance(part, list | tuple) else part

    layout = {"title": {"text": escape_plot_text(figure.label)}, "template": "plotly_white", **plain(figure.layout)}
    return Drawing(data=plain(list(figure.traces)), layout={"height": figure.height, **layout})


def _unpacked(packed: Mapping[str, Any]) -> Array:
    """Numbers of a typed array."""
    data = np.frombuffer(base64.b64decode(packed["bdata"]), dtype=packed["dtype"]).astype(np.float64)
    return data.reshape([int(n) for n in packed["shape"].split(",")]) if "shape" in packed else data


def script_json(content: Mapping[str, Any]) -> str:
    """Content as JSON for a script element, which no character of it can end."""
    text = json.dumps(content, ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def typed_array(x: Array) -> dict[str, Any]:
    """Numbers as Plotly's typed array, in single precision."""
    data = np.ascontiguousarray(x, dtype="<f4")
    packed: dict[str, Any] = {"dtype": "f4", "bdata": base64.b64encode(data.tobytes()).decode("ascii")}
    return packed if data.ndim == 1 else packed | {"shape": ", ".join(map(str, data.shape))}


def line_trace(x: Array | str, y: Array | str, name: str, colour: str, **more: Any) -> Trace:
    """Trace of a curve, x and y arrays or names of the figure's columns.

    `name` must have gone through `escape_plot_text` if it comes from a file. A colour may be the name of one that the
    page chooses by its ground.
    """
    width, dash = more.pop("width", 1.4), more.pop("dash", "solid")
    of_x, of_y = (data if isinstance(data, str) else typed_array(data) for data in (x, y))
    return {
        "type": "scatter", "mode": "lines", "x": of_x, "y": of_y, "name": name,
        "line": {"color": colour, "width": width, "dash": dash}, **more,
    }  # fmt: skip


def corner_title(text: str) -> dict[str, Any]:
    """Layout of a title in the upper left corner, beside the legend."""
    return {"text": text, "font": {"size": 13}, "x": 0, "xanchor": "left", "y": 0.99, "yanchor": "top"}


def log_axis(title: str, lowest: float, highest: float, **more: Any) -> dict[str, Any]:
    """Layout of a logarithmic axis: powers of ten over a wide range, else plain numbers."""
    decades = math.log10(highest / lowest)
    if decades > 2.5:
        ticks: dict[str, Any] = {"dtick": math.ceil(decades / 6.0), "exponentformat": "power"}
    else:  # 1, 2, 5, 10, 20, ...; where these are too few, as many as fit
        ticks = {"tickformat": "~g", **({"dtick": "D2"} if decades > 0.8 else {"nticks": 6})}
    return titled_axis(title, type="log", **ticks, **more)


def name_axis(names: Sequence[str]) -> dict[str, Any]:
    """Layout of an axis of numbers 0, 1, ... that shows names, which need not differ."""
    return {
        "tickvals": list(range(len(names))),
        "ticktext": [escape_plot_text(name) for name in names],
        "automargin": True,
    }


def titled_axis(title: str, **more: Any) -> dict[str, Any]:
    """Layout of an axis with a title."""
    return {"title": {"text": title}, "automargin": True, **more}


# Tables of a page: cells with a text, a value to sort by, and a mark for colours.


@dataclass(frozen=True, slots=True)
class Cell:
    """value: what is sorted by, the text where missing; mark: a class of the style sheet; bar: filled share (0..1).

    moment: recording, instant (s) and channel to which a click on the cell takes all figures.
    """

    text: str
    value: float | str | None = None
    mark: str = ""
    bar: float | None = None
    moment: tuple[int, float, int] | None = None

    @property
    def sort_key(self) -> str:
        """Text that the page's script sorts the cell by."""
        return self.text if self.value is None else str(self.value)


@dataclass(frozen=True, slots=True)
class Table:
    """head: titles of the columns; words: how many columns at the left are texts, all others are numbers.

    groups: of each row, by joint or link, where rows can be grouped; essential: whether each row is, where that can be
    asked for.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    words: int = 1
    groups: Sequence[str] = ()
    essential: Sequence[bool] = ()


def number_cell(value: float, text: str, mark: str = "", bar: float | None = None) -> Cell:
    """Cell of a number; one that is not finite is sorted last in any order."""
    return Cell(text, value, mark, bar)


HINT = (
    "Drag to turn, arrow keys too. Orange: axes of revolute joints; purple: of prismatic ones; red, green, blue: x, y, "
    "z of the base and of the last link."
)


@dataclass(frozen=True, slots=True, eq=False)
class Skeleton:
    """A robot that the page poses and draws; label: what a person who cannot see it is told; clocks: see `poses`.

    poses: of every recording that it can replay, instants (K,) and positions (K, joints of the tree), else one posture.
    """

    robot: Robot
    poses: Sequence[tuple[Array, Array]]
    label: str
    note: str = HINT
    shows_path: bool = False

    @property
    def json(self) -> str:
        """Geometry and poses as JSON for a script element."""
        return script_json({**geometry(self.robot), **self._bounds(), "poses": [
            {"t": typed_array(t), "q": typed_array(q)} for t, q in self.poses
        ], "path": self.shows_path})  # fmt: skip

    def _bounds(self) -> dict[str, Any]:
        """Centre and radius of a ball that holds the robot in all poses, in m."""
        some = [q[:: max(1, len(q) // 50)] for _, q in self.poses]
        points = np.concatenate([p for q in some for p in link_poses(self.robot, q).position.values()])
        centre = 0.5 * (points.min(axis=0) + points.max(axis=0))
        return {"centre": centre.tolist(), "size": max(float(np.linalg.norm(points - centre, axis=1).max()), 0.05)}


def geometry(robot: Robot) -> dict[str, Any]:
    """Links of a robot in an order where parents come first, for a script that poses them.

    Of each link: parent, kind (0 fixed, 1 revolute, 2 prismatic), place of its joint among those of the tree, rotation
    A + B sin q + C cos q (27 numbers), translation, axis and the joint's name; loops: link and point where one closes.
    """
    tree = tree_arrays(robot)
    place = {int(k): i for i, k in enumerate(tree.link)}
    number = {link.name: k for k, link in enumerate(robot.links)}
    links = [
        {
            "parent": int(tree.parent[i]), "kind": int(tree.kind[i]), "joint": int(tree.joint[i]),
            "rotation": np.asarray(tree.rotation[i]).ravel().tolist(), "translation": tree.translation[i].tolist(),
            "axis": tree.axis[i].tolist(), "name": escape_control_characters(robot.links[int(tree.link[i])].joint),
        }
        for i in range(len(tree.link))
    ]  # fmt: skip
    loops = [
        {"link": place.get(number.get(name, -1), -1), "point": np.asarray(point).tolist()}
        for closure in robot.closures
        for name, point in zip(closure.links, closure.points, strict=True)
    ]
    return {"links": links, "loops": loops}


def tree_positions(robot: Robot, q: Array) -> Array:
    """Positions (N, joints of the tree) for those of the active joints (N, n); loops are closed."""
    loops = loop_map(robot)
    return np.asarray(q if loops is None else loops.tree_motion(q, np.zeros_like(q), np.zeros_like(q)).q)


def tree_poses(robot: Robot, q: Array) -> Poses:
    """Poses of all links for positions (N, n) of the active joints; loops are closed."""
    return link_poses(robot, tree_positions(robot, q))


def middle_posture(robot: Robot) -> Array:
    """Posture (n,) in the middle of the limits, 0 for joints without; with closures where these are assembled."""
    if robot.closures and (loops := loop_map(robot)) is not None:
        return np.asarray(loops.at)
    limited = np.asarray(np.isfinite(robot.limits.position).all(axis=1))
    return np.asarray(np.where(limited[:, None], robot.limits.position, 0.0).mean(axis=1))


def draw_robot(robot: Robot, posture: Array) -> Skeleton | None:
    """Skeleton at a posture (n,); None where loops cannot be closed there."""
    return draw_recordings(robot, [(np.zeros(1), posture[None])], f"Skeleton of {robot.name}, to be turned")


def draw_recordings(
    robot: Robot, recordings: Sequence[tuple[Array, Array]], label: str, *, shows_path: bool = False
) -> Skeleton | None:
    """Skeleton that replays recordings: instants (K,) and positions (K, n); None where loops cannot be closed."""
    try:
        poses = [(t, tree_positions(robot, q)) for t, q in recordings]
    except DynidError:
        return None
    note = HINT
    if shows_path:
        last = robot.links[robot.topological_order[-1]].name
        note = f"Blue: path of the frame of {last}. {HINT}"
    return Skeleton(robot, poses, label, note, shows_path)


def draw_path(robot: Robot, t: Array, q: Array) -> Skeleton | None:
    """Skeleton that replays a motion, with the last link's path along positions (N, n)."""
    return draw_recordings(robot, [(t, q)], f"Skeleton of {robot.name} and the path of its last link", shows_path=True)


T = TypeVar("T", contravariant=True)


class Section(Protocol, Generic[T]):
    """One part of a page: `name` is its anchor and, unless it has a `template`, its template; `title` its heading."""

    @property
    def name(self) -> str:
        """Anchor and template of the section."""
        ...

    @property
    def title(self) -> str:
        """Heading of the section."""
        ...

    def build_content(self, subject: T) -> Mapping[str, Any] | None:
        """Values for the section's template; None where the section makes no sense."""
        ...


def render_page(title: str, subject: T, sections: Sequence[Section[T]], *, lead: str = "") -> str:
    """Render the whole HTML page; all texts are escaped by the templates."""
    from markupsafe import Markup

    parts = []
    for section in sections:
        filled = section.build_content(subject)
        if filled is not None:
            body = escape_control_characters(
                template_environment()
                .get_template(f"{getattr(section, 'template', section.name)}.html")
                .render(**filled)
            )
            parts.append({"name": section.name, "title": section.title, "body": Markup(body)})  # escaped: autoescape
    return (
        template_environment()
        .get_template("page.html")
        .render(
            title=escape_control_characters(title),
            lead=escape_control_characters(lead),
            parts=parts,
            plotly=plotly_script(),
        )
    )


@cache
def template_environment() -> Environment:
    """Jinja environment with the templates of this package, escaping everywhere."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    return Environment(
        loader=FunctionLoader(_load_template), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=StrictUndefined,
    )  # fmt: skip


run_after_fork(template_environment.cache_clear)  # its cache of templates has a lock, which another thread may hold


@cache
def plotly_script() -> str:
    """Plotly's JavaScript (npm package `plotly.js-cartesian-dist-min`), which holds no end of a script element."""
    text = (resources.files("dynid.report") / "plotly" / "plotly-cartesian.min.js").read_text(encoding="utf-8")
    return text.replace("</script", "<\\/script")


def _load_template(name: str) -> str:
    """Text of a template."""
    return (resources.files("dynid.report") / "templates" / name).read_text(encoding="utf-8")


# What a page is about: a result, logs read again, and where all of it came from.


class StandardValues(Protocol):
    """Values of standard parameters, such as physically consistent ones (`PhysicalParameters`)."""

    @property
    def names(self) -> tuple[str, ...]:
        """Standard names."""
        ...

    @property
    def values(self) -> Array:
        """Values of the parameters, one per name."""
        ...

    @property
    def verdict(self) -> Verdict:
        """Verdict on the values, the total mass first."""
        ...

    @property
    def warnings(self) -> tuple[Message, ...]:
        """Warnings on the values."""
        ...

    @property
    def notes(self) -> tuple[Message, ...]:
        """Notes on decisions behind the values."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ReportSubject:
    """A result with its logs: those it was made from, and others that it had to predict.

    origin: of the page; page_warnings: warnings that are the page's own; further: those of what was done beside it.
    truth: the robot that was simulated, where the logs are not recordings; it is shown in place of nominal values.
    """

    result: Identification
    origin: Origin
    used: tuple[Replay, ...] = ()
    held_out: tuple[Replay, ...] = ()
    physical: StandardValues | None = None
    page_warnings: tuple[Message, ...] = ()
    further: tuple[Message, ...] = ()
    truth: Robot | None = None

    @property
    def reference(self) -> tuple[str, Robot]:
        """What identified values are compared with, in a word, and the robot that has it."""
        return ("nominal", self.result.robot) if self.truth is None else ("true", self.truth)

    @property
    def reference_values(self) -> dict[str, float]:
        """Values to compare the result's with, by name; friction only where no other terms share it."""
        values = nominal_values_by_name(self.result, self.reference[1])
        if set(self.result.friction) <= set(PLAIN):
            return values
        return {name: value for name, value in values.items() if name in self.result.equation.base.names}

    @property
    def warnings(self) -> tuple[Message, ...]:
        """Warnings of the page, the result and its bodies, once each."""
        bodies = self.physical.warnings if self.physical else ()
        return tuple(dict.fromkeys((*self.page_warnings, *self.result.warnings, *bodies, *self.further)))

    @property
    def replays(self) -> tuple[Replay, ...]:
        """Replays of all logs, read again once: those of the result, then the others."""
        return (*self.used, *self.held_out)

    @property
    def nominal_nrmse(self) -> Array | None:
        """NRMSE per channel of the nominal values, the mean over the logs not used, else over those used; or None."""
        found = [replay.nominal_nrmse for replay in self.held_out or self.used if replay.nominal_nrmse is not None]
        return np.mean(found, axis=0) if found else None

    @property
    def identified_nrmse(self) -> Array | None:
        """NRMSE per channel of the result on the same logs as `nominal_nrmse`; None without logs."""
        replays = self.held_out or self.used
        return np.mean([replay.nrmse for replay in replays], axis=0) if replays else None

    @property
    def results(self) -> tuple[Identification, ...]:
        """Results that the page is about: this one."""
        return (self.result,)
