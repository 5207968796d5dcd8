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
        warnings = [*subject.doubts, *result.warnings, *(bodies.warnings if bodies else ())]
        notes = [*result.notes, *result.robot.notes, *result.equation.base.warnings, *(bodies.notes if bodies else ())]
        return {"warnings": tuple(dict.fromkeys(warnings)), "notes": tuple(dict.fromkeys(notes))}
