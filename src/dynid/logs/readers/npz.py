"""NPZ files, read member by member as streams: nothing is unpickled, and no member is ever whole in memory."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from dynid.errors import LogError
from dynid.logs.read import content_hint
from dynid.logs.readers.table import MOST_WORDS, Batch, Field, Numbers, Wanted, squeezed, why_not_numbers
from dynid.messages import Message

# Rows read at once, whatever is asked for: a small compressed file can claim any shape.
_MOST_BYTES = 64 << 20
_SKIP = 1 << 16


@dataclass(frozen=True, slots=True)
class Member:
    """An array of the archive, as its header tells."""

    file: str
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int


@dataclass(frozen=True, slots=True)
class NpzTable:
    """An NPZ file; the headers of its arrays were read."""

    path: Path
    members: dict[str, Member]
    words: dict[str, tuple[str, ...]]
    notes: tuple[Message, ...] = ()

    @property
    def name(self) -> str:
        """The file."""
        return str(self.path)

    @property
    def fields(self) -> tuple[Field, ...]:
        """All arrays, those of objects with their problem."""
        return tuple(
            Field(
                name, squeezed(member.shape), problem=why_not_numbers(member.dtype) or _dimensions(member.shape),
                words=self.words.get(name, ()),
            )
            for name, member in self.members.items()
        )  # fmt: skip

    def batches(self, wanted: tuple[Wanted, ...], rows: int) -> Iterator[Batch]:
        """Read the wanted arrays side by side."""
        first = squeezed(self.members[wanted[0].name].shape)
        length = first[1] if wanted[0].turned else first[0]
        widest = max(_width(self.members[field.name], field.turned) for field in wanted)
        rows = max(1, min(rows, _MOST_BYTES // (8 * widest)))
        with _read(self.path), zipfile.ZipFile(self.path) as archive, ExitStack() as stack:
            readers = {
                field.name: _reader(archive, self.members[field.name], field.turned, stack) for field in wanted
            }  # fmt: skip
            for start in range(0, length, rows):
                count = min(rows, length - start)
                yield {name: reader(count) for name, reader in readers.items()}


def _dimensions(shape: tuple[int, ...]) -> str:
    return "" if 1 <= len(squeezed(shape)) <= 2 else f"has {len(shape)} dimensions"


def _width(member: Member, turned: bool) -> int:
    shape = squeezed(member.shape)
    return 1 if len(shape) == 1 else shape[0 if turned else 1]


def _reader(archive: zipfile.ZipFile, member: Member, turned: bool, stack: ExitStack) -> Callable[[int], Numbers]:
    """Return what reads the next samples: one stream where they lie together, else one stream per column."""
    shape = squeezed(member.shape)
    size = member.dtype.itemsize
    width = _width(member, turned)
    if len(shape) == 1 or turned == member.fortran:
        stream = _stream(archive, member, member.offset, stack)

        def together(count: int) -> Numbers:
            values = np.frombuffer(_exactly(stream, count * width * size), member.dtype)
            return values if len(shape) == 1 else values.reshape(count, width)

        return together
    length = shape[1] if turned else shape[0]
    streams = [_stream(archive, member, member.offset + k * length * size, stack) for k in range(width)]

    def apart(count: int) -> Numbers:
        return np.stack([np.frombuffer(_exactly(one, count * size), member.dtype) for one in streams], axis=1)

    return apart


def _stream(archive: zipfile.ZipFile, member: Member, offset: int, stack: ExitStack) -> IO[bytes]:
    stream = stack.enter_context(archive.open(member.file))
    while offset > 0:
        offset -= len(_exactly(stream, min(offset, _SKIP)))
    return stream


def _exactly(stream: IO[bytes], count: int) -> bytes:
    data = stream.read(count)
    if len(data) != count:
        raise EOFError("an array is shorter than its header says")
    return data


@contextmanager
def _read(path: Path) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0][:120]
        raise LogError(
            str(path), "not_npz", "this is no NPZ file, or a damaged one ({reason}){content_hint}", reason=reason,
            content_hint=content_hint(path),
        ) from error  # fmt: skip


def open_npz(path: Path) -> NpzTable:
    """Open an NPZ file and read the headers of its arrays."""
    with _read(path), zipfile.ZipFile(path) as archive:
        files = [info.filename for info in archive.infolist() if info.filename.endswith(".npy")]
        members = {file.removesuffix(".npy"): _member(archive, file) for file in files}
        return NpzTable(path, members, {name: _words(archive, member) for name, member in members.items()})


def _words(archive: zipfile.ZipFile, member: Member) -> tuple[str, ...]:
    """Entries of a short list of texts."""
    shape = squeezed(member.shape)
    if member.dtype.kind not in "US" or len(shape) != 1 or shape[0] > MOST_WORDS or member.dtype.itemsize > _SKIP:
        return ()
    with ExitStack() as stack:
        data = _exactly(_stream(archive, member, member.offset, stack), shape[0] * member.dtype.itemsize)
    texts = np.frombuffer(data, member.dtype).tolist()
    return tuple(text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in texts)


def _member(archive: zipfile.ZipFile, file: str) -> Member:
    if archive.getinfo(file).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"'{file}' is packed in a way that NPZ files are not")
    with archive.open(file) as stream:
        try:
            version = np.lib.format.read_magic(stream)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            shape, fortran, dtype = read(stream)
        except Exception as error:  # numpy parses the header as Python text, which fails in many ways
            raise ValueError(f"the header of '{file}' is no array's") from error
        return Member(file, shape, fortran, dtype, stream.tell())
