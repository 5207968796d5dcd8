"""A fleet as a person sees it in the terminal: how many robots and periods, ranked alarms, refused logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dynid.cli.terminal import escape_markup, print_line, show_note
from dynid.fleet.fleet import Fleet
from dynid.storage.files import write_then_replace

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console

MOST = 20
"""Alarms and refused logs that are printed."""


def show_fleet(found: Fleet, screen: Console, alpha: float) -> None:
    """Print what was read, then the alarms, the most certain first."""
    from rich.table import Table

    count = len(found.results)
    text = f"{found.robot.name}: {len(found.robots)} robots, {count} periods ({found.computed} computed in this run)"
    print_line(screen, text, style="bold")
    alarms = found.alarms(alpha)
    if alarms:
        table = Table("robot", "since", "until", "what", box=None)
        for title in ("size", "+-", "p", "periods"):
            table.add_column(title, justify="right")
        for alarm in alarms[:MOST]:
            size, sigma = size_texts(alarm.kind, alarm.size, alarm.sigma)
            cells = (alarm.robot, alarm.since, alarm.until, alarm.what)
            table.add_row(*map(escape_markup, cells), size, sigma, f"{alarm.p:.1g}", str(alarm.periods))
        screen.print(table)
        if len(alarms) > MOST:
            print_line(screen, f"and {len(alarms) - MOST} more (--changes FILE writes all)")
    elif found.findings:
        print_line(screen, f"no period differs from the baseline (false discovery rate {alpha:g})")
    else:
        print_line(screen, "nothing to compare: no robot has a period after its baseline")
    for note in found.notes:
        show_note(note, screen)


def size_texts(kind: str, size: float, sigma: float) -> tuple[str, str]:
    """Size of a change and its deviation, with their unit."""
    if kind == "not explained":
        return "", ""
    if kind == "payload":
        return f"{size:.3g} kg", f"{sigma:.1g} kg"
    return f"{100.0 * size:+.3g} %", f"{100.0 * sigma:.2g} %"


def write_frame(frame: pl.DataFrame, path: Path) -> None:
    """Write a table as CSV or Parquet, by the suffix."""
    with write_then_replace(path) as place:
        if path.suffix.lower() == ".csv":
            frame.write_csv(place)
        else:
            frame.write_parquet(place)
