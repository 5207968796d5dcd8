"""Files: written so that nothing is ever half written, told apart by their hashes, and found where misspelt."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

from dynid.errors import DynidError, RobotFileError
from dynid.storage.records import Limit

_PATIENCE = 60.0
"""Seconds to wait for the reader of a named pipe."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that took part, by the name it was given, with its SHA-256 and bytes."""

    name: str
    sha256: Annotated[str, Limit(pattern="^[0-9a-f]{64}$")]
    size: Annotated[int, Limit(ge=0)]


def hash_file(path: Path, name: str | None = None) -> InputFile:
    """Read a file and return its name, SHA-256 and size."""
    try:
        with path.open("rb") as data:
            digest = hashlib.file_digest(data, "sha256").hexdigest()
            return InputFile(str(path) if name is None else name, digest, data.tell())
    except OSError as error:
        raise DynidError(
            "file_unreadable", "{path}: cannot be read: {reason}", path=path, reason=error.strerror or error,
        ) from error  # fmt: skip


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file of a robot."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # also of numbers with thousands of digits
        raise RobotFileError(str(path), "not_toml", "not a TOML file: {reason}", reason=error) from error
    except OSError as error:
        raise RobotFileError(
            str(path), "file_unreadable", "cannot be read: {reason}", reason=error.strerror or error,
        ) from error  # fmt: skip


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text to a temporary file, then rename it; bytes of file names that are no text become escapes."""
    write_bytes(path, text.encode("utf-8", errors="backslashreplace"))


def write_bytes(path: Path, data: bytes) -> None:
    """Write bytes to a temporary file, then rename it: never a half-written file."""
    with write_then_replace(path) as beside:
        beside.write_bytes(data)


@contextmanager
def write_then_replace(path: Path) -> Iterator[Path]:
    """Context with an empty temporary file of the same suffix, which replaces the path once it is written.

    A file is replaced in one step, also where links lead to it, and keeps its permissions; other names of it (hard
    links) keep the old content. Character devices, pipes and open descriptors are written to.
    """
    try:
        target, found = resolve_write_target(path)
        is_file = found is None or stat.S_ISREG(found.st_mode)
        place = target if isinstance(target, Path) and is_file else None
        folder = Path(tempfile.gettempdir()) if place is None else place.parent
        name = folder / f".{path.name[:40]}.{secrets.token_hex(4)}{path.suffix[:16]}"
        name.touch(exist_ok=False)  # as the umask allows, which could be asked for only by setting it for all threads
        try:
            yield name
            if place is not None:
                if found is not None:
                    _copy_owner_and_permissions(name, found)
                os.replace(name, place)
            else:
                _copy_to_device(name, target)
                os.unlink(name)
        except BaseException:  # also Ctrl-C: nothing stays behind
            with suppress(FileNotFoundError):
                os.unlink(name)
            raise
    except OSError as error:
        raise DynidError(
            "file_unwritable", "cannot write {path}: {reason}", path=path, reason=error.strerror or error,
        ) from error  # fmt: skip


def resolve_write_target(path: Path) -> tuple[Path | int, os.stat_result | None]:
    """Follow links to the file, device or pipe, or to an open descriptor's number; None: nothing is there yet.

    OSError where nothing can be written: a folder, a socket, a disk, a file that is read-only, a loop of links.
    """
    number = find_descriptor(path)
    if number is not None:
        return number, os.fstat(number)
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return Path(os.path.realpath(path)), None
    for test, kind in ((stat.S_ISDIR, "folder"), (stat.S_ISSOCK, "socket"), (stat.S_ISBLK, "disk")):
        if test(found.st_mode):
            raise OSError(errno.EINVAL, f"this is a {kind}; name a file{' in it' if kind == 'folder' else ''}")
    if not stat.S_ISREG(found.st_mode):
        return path, found
    if not os.access(path, os.W_OK) or not found.st_mode & 0o222:
        raise OSError(errno.EACCES, "no permission to write there, it is read-only; choose another name")
    return Path(os.path.realpath(path)), found


def find_descriptor(path: Path) -> int | None:
    """Number of the open descriptor that a path names, such as /dev/stdout or /dev/fd/3; None for other paths."""
    name = os.path.abspath(path)
    for _ in range(40):
        name = os.path.join(os.path.realpath(os.path.dirname(name)), os.path.basename(name))
        match = re.fullmatch(rf"(?:/dev|/proc/{os.getpid()})/fd/(\d+)", name)
        if match:
            return int(match[1])
        if not os.path.islink(name):
            return None
        name = os.path.join(os.path.dirname(name), os.readlink(name))
    return None


def _copy_owner_and_permissions(name: Path, old: os.stat_result) -> None:
    """Set owner and permissions of a new file to those of the one that it replaces."""
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        with suppress(PermissionError):
            os.chown(name, old.st_uid, old.st_gid)
    os.chmod(name, stat.S_IMODE(old.st_mode))


def _copy_to_device(source: Path, target: Path | int) -> None:
    """Copy into a device, a pipe or a descriptor; a reader that leaves early has what it wanted."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            handle = os.dup(target) if isinstance(target, int) else os.open(target, os.O_WRONLY | os.O_NONBLOCK)
            break
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            if time.monotonic() > end:
                raise OSError(errno.ENXIO, f"nobody has read from this pipe for {_PATIENCE:.0f} s") from error
            time.sleep(0.05)
    if not isinstance(target, int):
        os.set_blocking(handle, True)
    with suppress(BrokenPipeError), source.open("rb") as content, open(handle, "wb") as sink:
        shutil.copyfileobj(content, sink)


def suggest_similar_file(path: Path) -> str:
    """Text after 'there is no such file': a file called alike, or that the folder is missing."""
    try:
        if not path.parent.is_dir():
            return f" (nor a folder '{path.parent}')"
        names = sorted(file.name for file in path.parent.iterdir())
    except OSError:
        return ""
    found = get_close_matches(path.name, names, n=1, cutoff=0.7)
    return f" (did you mean '{path.parent / found[0]}'?)" if found else ""
