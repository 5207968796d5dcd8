"""What all topics share: interleaved timing on chosen cores, verdicts, and tables."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from rich.table import Table as RichTable

ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of one call: on the wall's clock, and of CPU over all threads of the process."""

    wall: float
    cpu: float


def best_of(
    rounds: int, contenders: Mapping[str, Callable[[], None]], *, before: Callable[[], None] = lambda: None
) -> dict[str, Spent]:
    """Time every contender once per round, so that drift hits all alike; keep each one's best.

    One call of each beforehand is not timed: it compiles, or loads what was compiled. Nor is `before`, which
    runs ahead of every timed call to give each the same start.
    """
    for run in contenders.values():
        run()
    spent: dict[str, list[Spent]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            before()
            spent[name].append(time_once(run))
    return {name: Spent(min(s.wall for s in every), min(s.cpu for s in every)) for name, every in spent.items()}


def time_once(run: Callable[[], None]) -> Spent:
    """Time one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return Spent(time.perf_counter() - wall, time.process_time() - cpu)


@contextmanager
def on_one_core() -> Iterator[None]:
    """Keep this thread, and those it starts, on one core; does nothing where the system cannot."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A figure and its target: at least `limit` if `least`, else at most; no limit, no verdict."""

    value: float
    limit: float | None
    least: bool = False

    @property
    def met(self) -> bool:
        """Whether the target was met; without one, yes."""
        if self.limit is None:
            return True
        return self.value >= self.limit if self.least else self.value <= self.limit

    def __str__(self) -> str:
        if self.limit is None:
            return f"{self.value:.3g}"
        target, mark = ">=" if self.least else "<=", "ok" if self.met else "MISSED"
        return f"{self.value:.3g} ({target} {self.limit:g}) {mark}"


Cell: TypeAlias = str | int | float | Verdict


@dataclass(frozen=True, slots=True)
class Table:
    """Figures under headings; the note says how they were measured."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str

    def rich(self) -> RichTable:
        """For people."""
        table = RichTable(title=self.title, caption=self.note, min_width=len(self.title))
        table.title_justify = table.caption_justify = "left"
        for heading in self.headings:
            table.add_column(heading, justify="right")
        for row in self.rows:
            missed = any(isinstance(cell, Verdict) and not cell.met for cell in row)
            table.add_row(*map(_text, row), style="red" if missed else None)
        return table

    def plain(self) -> dict[str, object]:
        """For a JSON file: full precision, verdicts as mappings."""
        rows = [dict(zip(self.headings, map(_plain, row), strict=True)) for row in self.rows]
        return {"title": self.title, "note": self.note, "rows": rows}


def _text(cell: Cell) -> str:
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)


def _plain(cell: Cell) -> object:
    if not isinstance(cell, Verdict):
        return cell
    return {"value": cell.value, "limit": cell.limit, "least": cell.least, "met": cell.met}
