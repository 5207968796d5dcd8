"""What can be identified at all, and how the other parameters join."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dynid.report.subject import Subject

FEW = 8
"""Relations that are shown at once."""


@dataclass(frozen=True, slots=True)
class IdentifiableSection:
    """Base parameters (or model parameters of unknown geometry) with their relations, and what the data lost."""

    name: str = "identifiable"
    title: str = "What is identifiable"

    def fill(self, subject: Subject) -> Mapping[str, Any]:
        """Counts, names, relations."""
        result = subject.result
        base, free = result.equation.base, result.equation.unknown is not None
        return {
            "model": result.model,
            "free": free,
            "count": base.count,
            "rank": result.base_rank,
            "columns": len(base.columns),
            "groups": []
            if free
            else [
                ("have no effect on the measurement", base.no_effect),
                ("show only in sums with others", base.regrouped),
                ("are known to be zero", base.known),
            ],
            "relations": base.relations[:FEW],
            "more_relations": base.relations[FEW:],
            "lost": result.lost,
        }
