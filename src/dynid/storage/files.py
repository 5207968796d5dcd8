"""Files: written whole or not at all, told apart by hashes, found where misspelt; limits of what they may ask for.

A parser written in C trusts lengths that it reads: a damaged file may end the process that parses it. `run_isolated`
forks, sets limits of memory and processor time, and hands back plain data and arrays, so that only the child dies. A
fork costs some milliseconds, whatever is loaded (docs/reliability.md).
"""

from __future__ import annotations

import errno
import gc
import hashlib
import json
import os
import re
import secrets
import select
import shutil
import signal
import stat
import struct
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from dynid.errors import DynidError, ParserDiedError, ParserFailedError, RobotFileError
from dynid.messages import Message
from dynid.storage.records import Limit, read_text

Arrays = Sequence[npt.NDArray[Any]]

_WALL_OVER_CPU = 10
"""A child that waits, and does not compute, is ended after so many times the limit of processor time."""


@dataclass(frozen=True, slots=True)
class FileLimit:
    """A limit of what is read, in its unit; the environment variable `DYNID_MAX_<NAME>` raises or lowers it."""

    name: str
    default: int
    unit: str

    @property
    def variable(self) -> str:
        """Name of the environment variable that sets it."""
        return f"DYNID_MAX_{self.name}"

    @property
    def value(self) -> int:
        """The limit in force; DynidError where the variable is no whole number."""
        given = os.environ.get(self.variable, "").strip()
        if not given:
            return self.default
        if not (given.isascii() and given.isdigit() and len(given) <= 15 and int(given)):
            raise DynidError(
                "limit_malformed", "{variable}={given:.20}: must be a whole number of {unit}, at least 1",
                variable=self.variable, given=given, unit=self.unit,
            )  # fmt: skip
        return int(given)

    def exceeded(self, what: str, figure: int) -> Message | None:
        """Message that something is larger than this limit, None where it is not; what: '{figure}' is its figure."""
        limit = self.value
        if figure <= limit:
            return None
        return Message(
            "limit_exceeded", what + ", above the limit of {limit}", "set {variable} to raise it", figure=figure,
            limit=limit, variable=self.variable,
        )  # fmt: skip


MEMORY = FileLimit("MEMORY", 4096, "MiB")
SECONDS = FileLimit("SECONDS", 60, "seconds")
JOINTS = FileLimit("JOINTS", 1000, "joints")
COLUMNS = FileLimit("COLUMNS", 10_000, "columns")
ELEMENTS = FileLimit("ELEMENTS", 200_000, "elements")
ROWS = FileLimit("ROWS", 1_000_000_000, "rows")
SYMBOLS = FileLimit("SYMBOLS", 1000, "symbols")
LIMITS = (MEMORY, SECONDS, JOINTS, COLUMNS, ROWS, ELEMENTS, SYMBOLS)
"""All limits that an environment variable raises; docs/reliability.md has them in a table."""


def check_regular_file(path: Path) -> Message | None:
    """Why a path is not a file whose content can be read to its end: a pipe, a device; None where it is one."""
    mode = path.stat().st_mode
    if stat.S_ISREG(mode):
        return None
    kinds = ((stat.S_ISFIFO, "a pipe"), (stat.S_ISDIR, "a folder"), (stat.S_ISSOCK, "a socket"))
    kind = next((name for test, name in kinds if test(mode)), "a device")
    return Message("not_a_regular_file", "this is {kind}, not a file", kind=kind)


def run_isolated(work: Callable[[], tuple[Any, Arrays]]) -> tuple[Any, list[npt.NDArray[Any]]]:
    """Run a function in a forked process with limits and return what it returns: data as JSON holds them, and arrays.

    The function must keep to libraries without threads of their own, imported before. ParserDiedError where the process
    was ended by a signal or a limit; ParserFailedError with the text of any exception that the function raised. What
    libraries write to standard output and error is discarded.
    """
    seconds, memory = SECONDS.value, MEMORY.value
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _work_in_child(work, writer, seconds, memory)  # never returns
    os.close(writer)
    done = False
    try:
        answer = _Answer(reader, time.monotonic() + _WALL_OVER_CPU * seconds)
        result = answer.read(memory << 20)
        done = result is not None
    finally:
        os.close(reader)
        if not done:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if result is None or code:
        raise ParserDiedError(_describe_death(code, answer.late, seconds, memory))
    data, arrays = result
    if "error" in data:
        raise ParserFailedError(data["error"])
    return data["data"], arrays


def _describe_death(code: int, late: bool, seconds: int, memory: int) -> Message:
    """Message on why the process ended."""
    if code == _OUT_OF_MEMORY:
        return Message(
            "parser_out_of_memory", "parsing it needs more than {memory} MiB of memory", "if the file is sound, set "
            "{variable} to raise this limit", memory=memory, variable=MEMORY.variable,
        )  # fmt: skip
    if late or code in (-signal.SIGXCPU, -signal.SIGKILL):
        return Message(
            "parser_too_slow", "parsing it takes more than {seconds} s", "if the file is sound, set {variable} to "
            "raise this limit", seconds=seconds, variable=SECONDS.variable,
        )  # fmt: skip
    name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return Message(
        "parser_crashed", "the file is damaged: its parser crashed ({name})", "write the file again", name=name
    )


_OUT_OF_MEMORY = 5


def _work_in_child(work: Callable[[], tuple[Any, Arrays]], writer: int, seconds: int, memory: int) -> None:
    """Set limits, run the function, write what it returns, and end the process."""
    code = 1
    try:
        gc.disable()  # objects of the parent are not finalised here
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        _set_limits(seconds, memory)
        arrays: Arrays = ()
        try:
            data, arrays = work()
            answer = {"data": data}
        except MemoryError:
            os._exit(_OUT_OF_MEMORY)
        except Exception as error:  # a parser raises whatever a damaged byte leads it to
            answer = {"error": str(error)[:2000] or type(error).__name__}
        arrays = [np.ascontiguousarray(array) for array in arrays]
        kinds = [(array.dtype.str, array.shape) for array in arrays]
        head = json.dumps(answer | {"arrays": kinds}).encode()
        flat = (array.reshape(-1).view(np.uint8).data for array in arrays)
        for part in (memoryview(struct.pack("<Q", len(head))), memoryview(head), *flat):
            view = part
            while view:
                view = view[os.write(writer, view) :]
        code = 0
    except MemoryError:
        code = _OUT_OF_MEMORY
    finally:
        os._exit(code)


def _set_limits(seconds: int, memory: int) -> None:
    """Limit memory beyond what the process has, processor time, and files: none is written, no core either."""
    import resource

    with suppress(OSError):
        memory = (memory << 20) + int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = (("AS", memory), ("CPU", seconds), ("CORE", 0), ("FSIZE", 0))
    for name, value in limits:
        with suppress(AttributeError, OSError, ValueError):
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))


class _Answer:
    """What a child writes into its pipe, read until a deadline."""

    def __init__(self, reader: int, deadline: float) -> None:
        self._reader, self._deadline, self.late = reader, deadline, False

    def read(self, most: int) -> tuple[dict[str, Any], list[npt.NDArray[Any]]] | None:
        """Data and arrays; None where the child ended before it wrote them, or took too long."""
        head = self._take(8)
        text = None if head is None else self._take(min(struct.unpack("<Q", head)[0], most))
        if text is None:
            return None
        data = json.loads(bytes(text))
        arrays = []
        for kind, shape in data.pop("arrays"):
            raw = self._take(int(np.dtype(kind).itemsize * np.prod(shape, dtype=np.int64)))
            if raw is None:
                return None
            arrays.append(np.frombuffer(raw, np.dtype(kind)).reshape(shape))
        return data, arrays

    def _take(self, count: int) -> bytearray | None:
        """Next bytes; None where the pipe ends before."""
        data = bytearray(count)
        view = memoryview(data)
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        while view:
            rest = self._deadline - time.monotonic()
            if rest <= 0.0 or not poll.poll(1000.0 * rest):
                self.late = True
                return None
            got = os.readv(self._reader, [view])
            if not got:
                return None
            view = view[got:]
        return data


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
        return tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:  # also of numbers with thousands of digits
        raise RobotFileError(str(path), "not_toml", "not a TOML file: {reason}", reason=error) from error
    except OSError as error:
        raise RobotFileError(
            str(path), "file_unreadable", "cannot be read: {reason}", reason=error.strerror or error,
        ) from error  # fmt: skip


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text to a temporary file, then rename it; bytes of file names that are not text become escapes."""
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
        _sweep_leftovers(folder)
        mark = f"dynid-{_host_mark()}-{os.getpid()}-{secrets.token_hex(4)}"
        name = folder / f".{_short_name(path.name)}.{mark}{_short_name(path.suffix)}"
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


_LEFTOVER = re.compile(r"\..*\.dynid-(?P<host>[0-9a-f]{8})-(?P<writer>[0-9]{1,10})-[0-9a-f]{8}(?:\..*)?", re.DOTALL)
_swept: set[tuple[int, Path]] = set()


def _short_name(name: str) -> str:
    """Beginning of a name, of at most 80 bytes."""
    return os.fsdecode(os.fsencode(name)[:80]).encode("utf-8", "surrogateescape").decode("utf-8", "ignore")


def _host_mark() -> str:
    """Mark of this machine, so that only its own processes are asked whether they still write."""
    return hashlib.sha256(f"{os.uname().nodename}{os.getuid()}".encode()).hexdigest()[:8]


def _sweep_leftovers(folder: Path) -> None:
    """Remove temporary files in a folder whose writer, a process of this machine, was killed; once per process."""
    if (os.getpid(), folder) in _swept:
        return
    _swept.add((os.getpid(), folder))
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _LEFTOVER.fullmatch(entry.name)
            if match is None or match["host"] != _host_mark() or not entry.is_file(follow_symlinks=False):
                continue
            try:
                os.kill(int(match["writer"]), 0)
            except ProcessLookupError:
                with suppress(OSError):
                    os.unlink(entry.path)
            except (OSError, OverflowError):  # a process of another user
                pass


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
