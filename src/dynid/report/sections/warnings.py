"""Everything that was warned about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dynid.report.subject import Subject


@dataclass(frozen=True, slots=True)
class WarningsSection:
    """Warnings of the result, its bodies and this page, and notes on the way."""

    name: str = "warnings"
    title: str = "Warnings and notes"

    def fill(self, subject: Subject) -> Mapping[str, Any]:
        """All sentences, once each."""
        result, bodies = subject.result, subject.physical
        notes = [*result.notes, *result.robot.notes, *result.equation.base.warnings, *(bodies.notes if bodies else ())]
        return {
            "warnings": subject.warnings,
            "notes": tuple(x for x in dict.fromkeys(notes) if x not in subject.warnings),
        }
