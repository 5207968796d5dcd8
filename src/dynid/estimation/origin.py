"""Where a result came from: what somebody needs who wants to make it again."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from dynid.data.log import ArraySource, Log
from dynid.robot.files import InputFile, hash_file

PACKAGES = ("dynid", "numpy", "scipy", "numba", "pin")


@dataclass(frozen=True, slots=True)
class Origin:
    """The command (empty from Python), the logs' files, the versions of the software; a robot knows its own files."""

    command: str = ""
    inputs: tuple[InputFile, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()


UNKNOWN_ORIGIN = Origin()


def find_origin(logs: Iterable[Log], command: str = "", files: Iterable[Path] = ()) -> Origin:
    """Hash files and those behind logs, each once, and ask for the versions.

    Hashes stand for the samples that are read before and after: a file that changes on the way is an error.
    """
    logs = tuple(logs)
    once = {file.resolve(): file for file in (*files, *(file for log in logs for file in files_of(log)))}
    inputs = tuple(hash_file(file) for file in once.values())
    for log in logs:
        log.check_unchanged()
    return Origin(command, inputs, _versions())


def files_of(log: Log) -> list[Path]:
    """The file that a log is read from, or those in the folder of a bag; nothing where it is in memory."""
    source = getattr(log.source, "whole", log.source)
    if isinstance(source, ArraySource):
        return []
    path = Path(source.name)
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.is_file())
    return [path] if path.is_file() else []


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    """Of Python, the packages that decide the figures, and the system; reading them takes longer than a small log."""
    found = [("Python", platform.python_version())]
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found.append((package, version(package)))
    return (*found, ("system", f"{platform.system()} {platform.machine()}"))
