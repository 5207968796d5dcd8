"""Notes on angles that were taken for right ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_ONE_BY_ONE = 2
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Snapped:
    """An angle that was taken for a multiple of 90 degrees: where, by how much (rad), and the note on it alone."""

    where: str
    off: float
    note: str


def tell_snapped(snapped: Sequence[Snapped]) -> list[str]:
    """Return a note on each, or one on all where they are many."""
    if len(snapped) <= _ONE_BY_ONE:
        return [one.note for one in snapped]
    worst = max(snapped, key=lambda one: one.off)
    names = "; ".join(one.where for one in snapped[:_NAMED])
    more = "; ..." if len(snapped) > _NAMED else ""
    return [
        f"angles in {len(snapped)} places ({names}{more}) are taken for multiples of 90 degrees, at most "
        f"{worst.off:.1g} rad away ({worst.where}); snap=False keeps them"
    ]
