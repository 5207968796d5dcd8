"""What `dynid identify` does after the estimate where bodies are wanted: physical parameters, and a URDF of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dynid.errors import DynidError
from dynid.estimation.identification import Identification
from dynid.faces import physical_face, terminal
from dynid.physical.physical import PhysicalParameters

if TYPE_CHECKING:
    from rich.console import Console


def check_places(physical: Path | None, urdf: Path | None, others: list[Path], keep: list[Path]) -> None:
    """See before any work that the files can be written, each to its own place."""
    terminal.check_place("--physical", physical, suffixes=(".json",), keep=keep)
    terminal.check_place("--urdf", urdf, suffixes=(".urdf",), keep=keep)
    places = [path.resolve() for path in (*others, physical, urdf) if path is not None]
    if len(set(places)) < len(places):
        raise DynidError("two outputs name the same file; give them different names")


def run(
    result: Identification,
    screen: Console,
    *,
    physical: Path | None,
    urdf: Path | None,
    template: str,
    lock: dict[str, float],
) -> tuple[PhysicalParameters | None, list[str], list[str]]:
    """Find bodies, show and write them; return them, the files written and warnings."""
    if physical is None and urdf is None:
        return None, [], []
    found = physical_face.run(result, screen, out=physical)
    written, warnings = ([str(physical)] if physical else []), list(found.warnings)
    if urdf is None:
        return found, written, warnings
    from dynid.exports.export import export
    from dynid.exports.verify import verify

    is_file = template.lower().endswith(".urdf") and Path(template).is_file()
    done = export(found, urdf, template=template if is_file else None, lock=lock)
    checked = verify(urdf, done.subject, lock=lock)
    screen.print(terminal.escaped(str(checked)), highlight=False, soft_wrap=True)
    wrong = [] if checked.passed or checked.skipped else [f"{urdf}: {checked}; do not use it"]
    for note in done.notes:
        screen.print(f"note: {terminal.escaped(note)}", highlight=False, soft_wrap=True)
    return found, [*written, str(urdf)], [*warnings, *wrong, *done.warnings]
