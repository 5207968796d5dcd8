"""Figures as Plotly's own JSON, with numbers as compact bytes; drawn by the page's script when it is opened."""

from __future__ import annotations

import base64
import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np

from dynid.robot.transform import Array

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
