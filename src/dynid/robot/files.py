"""Files: written so that nothing is ever half written, told apart by their hashes, and found where misspelt."""

from __future__ import annotations

import hashlib
import os
import secrets
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from dynid.errors import DynidError, RobotFileError


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that took part, by the name it was given, with its SHA-256 and bytes."""

    name: str
    sha256: str
    size: int


def hash_file(path: Path, name: str | None = None) -> InputFile:
    """Read a file for its SHA-256."""
    try:
        with path.open("rb") as data:
            digest = hashlib.file_digest(data, "sha256").hexdigest()
            return InputFile(str(path) if name is None else name, digest, data.tell())
    except OSError as error:
        raise DynidError(f"{path}: cannot be read: {error.strerror or error}") from error


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file of a robot."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RobotFileError(str(path), [f"not a TOML file: {error}"]) from error
    except OSError as error:
        raise RobotFileError(str(path), [f"cannot be read: {error.strerror or error}"]) from error


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 beside, then rename; names of files may hold bytes that are no text, which become escapes."""
    write_bytes(path, text.encode("utf-8", errors="backslashreplace"))


def write_bytes(path: Path, data: bytes) -> None:
    """Write beside, then rename: never a half-written file."""
    with written_beside(path) as beside:
        beside.write_bytes(data)


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """Give an empty file beside, with the same suffix, that takes the path's place once it is written."""
    try:
        name = path.parent / f".{path.name}.{secrets.token_hex(4)}{path.suffix}"
        name.touch(exist_ok=False)  # as the umask allows, which could be asked for only by setting it for all threads
        try:
            yield name
            os.replace(name, path)
        except BaseException:  # also Ctrl-C: nothing stays behind
            os.unlink(name)
            raise
    except OSError as error:
        raise DynidError(f"cannot write {path}: {error.strerror or error}") from error


def near(path: Path) -> str:
    """What to say after 'there is no such file': a file called alike, or that the folder is missing."""
    try:
        if not path.parent.is_dir():
            return f" (nor a folder '{path.parent}')"
        names = sorted(file.name for file in path.parent.iterdir())
    except OSError:
        return ""
    found = get_close_matches(path.name, names, n=1, cutoff=0.7)
    return f" (did you mean '{path.parent / found[0]}'?)" if found else ""
