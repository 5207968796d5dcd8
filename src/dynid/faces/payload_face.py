"""Payloads and drive gains as a person sees them in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynid.estimation.gains import Gains
from dynid.estimation.payload import ELEMENTS, Payload
from dynid.faces.identification_face import number
from dynid.faces.terminal import escaped, spoken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table


def show_payload(found: Payload, screen: Console) -> None:
    """Print the logs, the parameters, the body, and what cannot be known."""
    _line(screen, f"{found.robot}: payload of link {found.link}, in its frame ({found.way})", style="bold")
    _show_logs(found.findings, found.friction, found.cutoff, found.notes, screen)
    screen.print(_table("parameter", found.names, found.values, found.quantile * found.sigma, found.units))
    names = ["mass", *(f"centre of mass {axis}" for axis in "xyz"), *(f"inertia {e} about it" for e in ELEMENTS)]
    upper = np.triu_indices(3)
    values = np.concatenate([[found.mass], found.com, found.inertia[upper]])
    sigma = np.concatenate([[found.mass_sigma], found.com_sigma, found.inertia_sigma[upper]])
    screen.print(_table("body", names, values, found.quantile * sigma, ["kg", *["m"] * 3, *["kg m^2"] * 6]))
    _line(screen, _about(found.groups))


def show_gains(found: Gains, screen: Console) -> None:
    """Print the logs, the gains and the robot's parameters in true units."""
    _line(screen, f"{found.robot}: drive gains by a known payload at link {found.link}", style="bold")
    _show_logs(found.findings, found.friction, found.cutoff, found.notes, screen)
    half = found.quantile * found.sigma
    screen.print(_table("gain of joint", found.names, found.values, half, ["true / measured"] * len(half)))
    half = found.quantile * found.parameter_sigma
    screen.print(_table("parameter", found.parameter_names, found.parameters, half, found.parameter_units))
    _line(screen, _about(found.groups))
    if np.isfinite(found.values).all():
        _line(screen, f"use them: --gain {','.join(f'{g:.6g}' for g in found.values)}")


def _show_logs(
    findings: Sequence[tuple[str, tuple[str, ...]]],
    friction: Sequence[str],
    cutoff: float | None,
    notes: Sequence[str],
    screen: Console,
) -> None:
    for log, sentences in findings:
        _line(screen, f"{log}: {'nothing to repair' if not sentences else '; '.join(sentences)}")
    _line(
        screen, f"filter: {'none' if cutoff is None else f'{cutoff:.4g} Hz'}; friction: {', '.join(friction) or 'none'}"
    )
    for note in notes:
        _line(screen, f"note: {note}")


def _table(
    title: str, names: Sequence[str], values: Sequence[float] | np.ndarray, half: np.ndarray, units: Sequence[str]
) -> Table:
    """Values with the half widths of their intervals; `not known` where they are NaN."""
    from rich.table import Table

    table = Table(title, box=None)
    for column in ("value", "+- 95 %"):
        table.add_column(column, justify="right")
    table.add_column("unit")
    for name, value, h, unit in zip(names, values, half, units, strict=True):
        known = bool(np.isfinite(value))
        cells = (number(value, 5), number(h, 2)) if known else ("not known", "")
        table.add_row(escaped(name), *cells, escaped(unit))
    return table


def _about(groups: int) -> str:
    how = f"jackknife over {groups} blocks of time" if groups else "textbook formula, white residuals"
    return f"+-: half width of the 95 % interval ({how})"


def _line(screen: Console, text: str, style: str | None = None) -> None:
    screen.print(escaped(spoken(text)), highlight=False, soft_wrap=not screen.is_terminal, style=style)
