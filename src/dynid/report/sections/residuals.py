"""What the residual still knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dynid.estimation.residuals import ChannelCheck
from dynid.report.subject import Subject
from dynid.report.table import Cell, Table, cell
from dynid.report.words import percent

TELLING, COLOURED = 0.1, 0.3
"""Share of a residual's variance, and autocorrelation, from which on a person should know of it."""


@dataclass(frozen=True, slots=True)
class ResidualsSection:
    """Colour, and dependence on velocity and position, per channel."""

    name: str = "residuals"
    title: str = "Residual checks"

    def fill(self, subject: Subject) -> Mapping[str, Any] | None:
        """None where nothing was checked."""
        result = subject.result
        if not result.checks:
            return None
        joints = set(result.joints)
        rows = [
            _row(check, check.channel in joints and not result.equation.measure.is_scalar) for check in result.checks
        ]
        head = ("channel", "in words", "autocorrelation", "goes with velocity", "goes with position")
        delay = result.found_delay
        return {
            "table": Table("Residuals per channel", head, rows, 2),
            "delay": None if delay is None else (f"{1e3 * delay.seconds:.3g}", f"{1e3 * delay.sigma:.2g}"),
        }


def _row(check: ChannelCheck, of_joint: bool) -> list[Cell]:
    told = []
    if check.velocity > TELLING:
        told.append("friction is not fully explained")
    if check.position > TELLING:
        told.append("something depends on position (gears, cables, geometry)")
    if abs(check.colour) > COLOURED:
        told.append("coloured: the model misses something slow, intervals account for it")
    shares = [
        cell(x, percent(x) if of_joint else "-", "fair" if x > TELLING else "")
        for x in (check.velocity, check.position)
    ]
    colour = cell(check.colour, f"{check.colour:+.2f}", "fair" if abs(check.colour) > COLOURED else "")
    words = Cell("; ".join(told) or "nothing to be seen", mark="" if told else "soft")
    return [Cell(check.channel), words, colour, *shares]
