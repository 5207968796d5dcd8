"""Numbers and names as a page shows them."""

from __future__ import annotations

import html
import math
import re
from pathlib import PurePath

import numpy as np

PLUS_MINUS, STAR, ARROW = "\N{PLUS-MINUS SIGN}", "\N{BLACK STAR}", "\N{RIGHTWARDS ARROW}"

COLOURS = ("#3b82c4", "#d1495b", "#3a9d5d", "#9a6bb0", "#e08a00", "#0e9594", "#a0703c", "#7b8494")
"""One per joint, readable on light and on dark ground."""

LONGEST = 36
"""Characters of a name that a figure has room for."""

STEERING = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
"""Controls and formats of Unicode (Cc, Cf) but line ends and tabulators: they could make a name read as another."""


def number(value: float, digits: int = 4) -> str:
    """A number with some digits, without an exponent where it is of usual size."""
    if not math.isfinite(value):
        return "-"
    if value == 0.0 or not 1e-5 < abs(value) < 1e7:
        return f"{value:.{digits}g}"
    return np.format_float_positional(value, precision=digits, fractional=False, trim="-", unique=False)


def percent(share: float) -> str:
    """A share in percent, two digits."""
    if not math.isfinite(share):
        return "-"
    return f"{100.0 * share:.2g} %" if share < 0.995 else f"{100.0 * share:.0f} %" if share < 10.0 else "> 1000 %"


def plot_text(text: str) -> str:
    """A name inside a figure: Plotly reads tags in texts, so these become entities; long ones lose their middle."""
    half = LONGEST // 2
    shown = text if len(text) <= LONGEST else f"{text[:half]}\N{HORIZONTAL ELLIPSIS}{text[1 - half :]}"
    return html.escape("".join(c if c.isprintable() else " " for c in shown), quote=False)


def visible(text: str) -> str:
    """A text without characters that steer how others are shown (directions, joiners, controls): blanks instead."""
    return STEERING.sub(" ", text)


def short_name(text: str) -> str:
    """A log's name, without the folders of a whole path; other names may hold slashes, too."""
    return PurePath(text).name if PurePath(text).is_absolute() else text


def unit(text: str) -> str:
    """A unit with raised exponents, which no line break divides."""
    raised = text.replace("^2", "\N{SUPERSCRIPT TWO}").replace("^3", "\N{SUPERSCRIPT THREE}")
    return raised.replace(" ", "\N{NO-BREAK SPACE}")
