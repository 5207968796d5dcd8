"""First of all: whether to trust the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dynid.report.subject import Subject
from dynid.report.words import number, percent

MARKS = {"good": "good", "usable": "usable", "do not trust": "bad"}


@dataclass(frozen=True, slots=True)
class VerdictSection:
    """The verdict with its reasons, the next step, and the figures that a person asks for first."""

    name: str = "verdict"
    title: str = "Verdict"

    def fill(self, subject: Subject) -> Mapping[str, Any]:
        """Level, reasons, cards."""
        result = subject.result
        kind = "base" if result.equation.unknown is None else "model"
        others = len(result.names) - result.base_rank
        cards = [
            (str(result.base_rank), f"{kind} parameters, and {others} others"),
            (percent(result.validation.mean), "mean error in validation"),
            (percent(result.fit.mean), "mean error on the data used"),
            (number(result.base_condition, 3), f"condition of the {kind} columns"),
            (str(len(result.essential)), f"of {len(result.names)} parameters are essential"),
            (str(len(subject.warnings)), "warnings" if len(subject.warnings) != 1 else "warning"),
        ]
        return {
            "level": result.verdict.level,
            "mark": MARKS[result.verdict.level],
            "reasons": result.verdict.reasons,
            "next_step": result.verdict.next_step,
            "cards": cards,
        }
