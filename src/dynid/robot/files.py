"""Writing files so that nothing is ever half written, and names of files that were perhaps meant."""

from __future__ import annotations

import os
import tempfile
from difflib import get_close_matches
from pathlib import Path

from dynid.errors import DynidError


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 beside, then rename: never a half-written file."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, data: bytes) -> None:
    """Write beside, then rename: never a half-written file."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent or Path(), prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(name, 0o666 & ~umask)
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
