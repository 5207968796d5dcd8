"""Tables of a page: cells with a text, a value to sort by, and a mark for colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """value: what is sorted by, the text where missing; mark: a class of the style sheet; bar: filled share (0..1)."""

    text: str
    value: float | str | None = None
    mark: str = ""
    bar: float | None = None

    @property
    def key(self) -> str:
        """What the page's script sorts by."""
        return self.text if self.value is None else str(self.value)


@dataclass(frozen=True, slots=True)
class Table:
    """head: titles of the columns; words: how many columns at the left are texts, all others are numbers."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    words: int = 1


def cell(value: float, text: str, mark: str = "", bar: float | None = None) -> Cell:
    """A number; one that is not finite comes last whatever the order."""
    return Cell(text, value, mark, bar)
