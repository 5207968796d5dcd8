"""What a page is about: a result, logs read again, and where all of it came from."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Protocol

from dynid.data.log import ArraySource, Log
from dynid.errors import DynidError
from dynid.estimation.identification import Identification
from dynid.report.replay import Replay
from dynid.robot.transform import Array

PACKAGES = ("dynid", "numpy", "scipy", "numba", "pin", "plotly")


class StandardValues(Protocol):
    """Values of standard parameters, such as physically consistent ones (`PhysicalParameters`)."""

    @property
    def names(self) -> tuple[str, ...]:
        """Standard names."""
        ...

    @property
    def values(self) -> Array:
        """One per name."""
        ...


@dataclass(frozen=True, slots=True)
class Input:
    """A file that took part, with its SHA-256."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class Origin:
    """How to make the same again: the command, the files behind it, the versions of the software."""

    command: str
    inputs: tuple[Input, ...]
    versions: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A result with its logs: those it was made from, and others that it had to predict."""

    result: Identification
    origin: Origin
    used: tuple[Replay, ...] = ()
    held_out: tuple[Replay, ...] = ()
    physical: StandardValues | None = None

    @property
    def replays(self) -> tuple[Replay, ...]:
        """All logs."""
        return (*self.used, *self.held_out)


def find_origin(command: str, files: Iterable[Path]) -> Origin:
    """Hash the files, each once, and ask for the versions."""
    once = {file.resolve(): file for file in files}
    return Origin(command, tuple(_input(file) for file in once.values()), tuple(_versions()))


def file_of(log: Log) -> Path | None:
    """The file that a log is read from, None where it is in memory."""
    source = getattr(log.source, "whole", log.source)
    if isinstance(source, ArraySource):
        return None
    file = Path(source.name)
    return file if file.is_file() else None


def _input(file: Path) -> Input:
    try:
        with file.open("rb") as data:
            return Input(str(file), hashlib.file_digest(data, "sha256").hexdigest(), file.stat().st_size)
    except OSError as error:
        raise DynidError(f"{file}: cannot be read: {error.strerror or error}") from error


def _versions() -> Iterable[tuple[str, str]]:
    yield "Python", platform.python_version()
    for package in PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            continue
    yield "system", f"{platform.system()} {platform.machine()}"
