"""Writing files so that nothing is ever half written."""

from __future__ import annotations

import os
import tempfile
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
