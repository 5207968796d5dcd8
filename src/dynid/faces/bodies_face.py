"""What `dynid identify` does after the estimate where bodies are wanted: physical parameters, and a URDF of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dynid.errors import DynidError
from dynid.estimation.identification import Identification
from dynid.exports.export import Export, export
from dynid.faces import physical_face, terminal
from dynid.faces.identification_face import line
from dynid.faces.terminal import Outputs
from dynid.physical.find import physical_parameters
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


class Bodies:
    """Physical parameters and a URDF of them, written where they are asked for; a failure is kept among the outputs."""

    def __init__(self, result: Identification, outputs: Outputs, physical: Path | None, urdf: Path | None) -> None:
        self.found: PhysicalParameters | None = None
        self.exported: Export | None = None
        self._outputs, self._physical, self._urdf = outputs, physical, urdf
        if physical is not None or urdf is not None:
            try:
                self.found = physical_parameters(result)
            except DynidError as error:
                outputs.failed.append(str(error))

    def write(self, lock: dict[str, float]) -> None:
        """Write what was found; lock: joints that were held."""
        found = self.found
        if found is not None:
            self._outputs.put(self._physical, found.save)
            self.exported = self._outputs.put(self._urdf, lambda place: export(found, place, lock=lock))

    def show(self, screen: Console) -> None:
        """Print the bodies, and what was found when the URDF was read again."""
        if self.found is not None:
            physical_face.show(self.found, screen)
        if self.exported is not None:
            line(screen, str(self.exported.verification))
            for note in self.exported.notes:
                line(screen, f"note: {note}")

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of both."""
        bodies = () if self.found is None else self.found.warnings
        return (*bodies, *(() if self.exported is None else self.exported.warnings))
