"""How to make the same again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dynid.report.subject import Origin
from dynid.report.table import Cell, Table, cell


class HasOrigin(Protocol):
    """Whatever says where it came from."""

    @property
    def origin(self) -> Origin:
        """Command, files and versions."""
        ...


@dataclass(frozen=True, slots=True)
class ReproduceSection:
    """Command, versions, hashes of the inputs."""

    name: str = "reproduce"
    title: str = "How to reproduce"

    def fill(self, subject: HasOrigin) -> Mapping[str, Any]:
        """Tables of files and versions."""
        origin = subject.origin
        files = [
            [Cell(file.name), Cell(file.sha256, mark="mono"), cell(file.size, f"{file.size:,}")]
            for file in origin.inputs
        ]
        return {
            "command": origin.command,
            "versions": origin.versions,
            "table": Table("Input files", ("file", "SHA-256", "bytes"), files, 2) if files else None,
        }
