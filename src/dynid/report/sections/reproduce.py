"""How to make the same again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dynid.estimation.identification import Identification
from dynid.estimation.origin import Origin
from dynid.report.table import Cell, Table, cell
from dynid.robot.files import InputFile


class HasOrigin(Protocol):
    """Whatever says where it came from."""

    @property
    def origin(self) -> Origin:
        """Of the page."""
        ...

    @property
    def results(self) -> Sequence[Identification]:
        """What the page is about."""
        ...


@dataclass(frozen=True, slots=True)
class ReproduceSection:
    """Commands, versions, hashes of the inputs."""

    name: str = "reproduce"
    title: str = "How to reproduce"

    def fill(self, subject: HasOrigin) -> Mapping[str, Any]:
        """Commands and versions of results and page, each once; tables of files."""
        origins = [*(result.origin for result in subject.results), subject.origin]
        once: dict[str, tuple[str, InputFile]] = {}
        for what, file in _files(subject):
            once.setdefault(file.sha256, (what, file))
        rows = [
            [Cell(file.name), Cell(what), Cell(file.sha256, mark="mono"), cell(file.size, f"{file.size:,}")]
            for what, file in once.values()
        ]
        return {
            "commands": list(dict.fromkeys(origin.command for origin in origins if origin.command)),
            "versions": list(dict.fromkeys(origin.versions for origin in origins if origin.versions)),
            "table": Table("Input files", ("file", "part", "SHA-256", "bytes"), rows, 3) if rows else None,
            "robots": [r.robot.name for r in subject.results if not r.robot.files],
            "logs": any(not result.origin.inputs for result in subject.results),
        }


def _files(subject: HasOrigin) -> Iterator[tuple[str, InputFile]]:
    for result in subject.results:
        yield from (("robot", file) for file in result.robot.files)
        yield from (("log", file) for file in result.origin.inputs)
    yield from (("given for this page", file) for file in subject.origin.inputs)
