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
from dynid.logs.read import format_hint_from_content
from dynid.logs.readers.table import (
    MOST_WORDS,
    ArrayTable,
    Batch,
    Field,
    Numbers,
    Part,
    Wanted,
    squeeze_shape,
    why_not_numbers,
    why_not_table,
)
from dynid.messages import Message

# Rows read at once, whatever is asked for: a small compressed file can claim any shape.
_MOST_BYTES = 64 << 20
_SKIP = 1 << 16


@dataclass(frozen=True, slots=True)
class ArchiveMember:
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
    members: dict[str, ArchiveMember]
    words: dict[str, tuple[str, ...]]
    notes: tuple[Message, ...] = ()

    @property
    def name(self) -> str:
        """Name of the file."""
        return str(self.path)

    @property
    def fields(self) -> tuple[Field, ...]:
        """Fields of all arrays, those of objects with why they cannot be used."""
        return tuple(
            Field(
                name, squeeze_shape(member.shape),
                problem=why_not_numbers(member.dtype) or why_not_table(member.shape),
                words=self.words.get(name, ()),
            )
            for name, member in self.members.items()
        )  # fmt: skip

    def batches(self, wanted: tuple[Wanted, ...], rows: int) -> Iterator[Batch]:
        """Yield batches of the wanted arrays side by side."""
        first = squeeze_shape(self.members[wanted[0].name].shape)
        length = first[1] if wanted[0].turned else first[0]
        widest = max(_member_width(self.members[field.name], field.turned) for field in wanted)
        rows = max(1, min(rows, _MOST_BYTES // (8 * widest)))
        with _npz_errors(self.path), zipfile.ZipFile(self.path) as archive, ExitStack() as stack:
            readers = {
                field.name: _sample_reader(archive, self.members[field.name], field.turned, stack) for field in wanted
            }  # fmt: skip
            for start in range(0, length, rows):
                count = min(rows, length - start)
                yield Part({name: reader(count) for name, reader in readers.items()}, (start + count) / length)


def _member_width(member: ArchiveMember, turned: bool) -> int:
    """Number of columns of an array."""
    shape = squeeze_shape(member.shape)
    return 1 if len(shape) == 1 else shape[0 if turned else 1]


def _sample_reader(
    archive: zipfile.ZipFile, member: ArchiveMember, turned: bool, stack: ExitStack
) -> Callable[[int], Numbers]:
    """Return a function that reads the next samples: from one stream, or one per column."""
    shape = squeeze_shape(member.shape)
    size = member.dtype.itemsize
    width = _member_width(member, turned)
    if len(shape) == 1 or turned == member.fortran:
        stream = _open_at_offset(archive, member, member.offset, stack)

        def read_interleaved(count: int) -> Numbers:
            """Next samples of an array stored sample by sample."""
            values = np.frombuffer(_read_exactly(stream, count * width * size), member.dtype)
            return values if len(shape) == 1 else values.reshape(count, width)

        return read_interleaved
    length = shape[1] if turned else shape[0]
    streams = [_open_at_offset(archive, member, member.offset + k * length * size, stack) for k in range(width)]

    def read_column_by_column(count: int) -> Numbers:
        """Next samples of an array stored column by column."""
        return np.stack([np.frombuffer(_read_exactly(one, count * size), member.dtype) for one in streams], axis=1)

    return read_column_by_column


def _open_at_offset(archive: zipfile.ZipFile, member: ArchiveMember, offset: int, stack: ExitStack) -> IO[bytes]:
    """Stream of an array's bytes from an offset on."""
    stream = stack.enter_context(archive.open(member.file))
    while offset > 0:
        offset -= len(_read_exactly(stream, min(offset, _SKIP)))
    return stream


def _read_exactly(stream: IO[bytes], count: int) -> bytes:
    """Read exactly `count` bytes of a stream; EOFError where it ends before."""
    data = stream.read(count)
    if len(data) != count:
        raise EOFError("an array is shorter than its header says")
    return data


@contextmanager
def _npz_errors(path: Path) -> Iterator[None]:
    """Context in which errors of a damaged archive become a LogError."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0][:120]
        raise LogError(
            str(path), "not_npz", "this is not a {kind} file, or it is damaged ({reason}){content_hint}",
            kind=path.suffix[1:].upper(), reason=reason, content_hint=format_hint_from_content(path),
        ) from error  # fmt: skip


def open_npz(path: Path) -> NpzTable:
    """Open an NPZ file and read the headers of its arrays."""
    with _npz_errors(path), zipfile.ZipFile(path) as archive:
        files = [info.filename for info in archive.infolist() if info.filename.endswith(".npy")]
        members = {file.removesuffix(".npy"): _read_member_header(archive, file) for file in files}
        return NpzTable(path, members, {name: _read_text_list(archive, member) for name, member in members.items()})


def open_npy(path: Path) -> ArrayTable:
    """Open an NPY file, whose array stays in the file; records give a column each."""
    with _npz_errors(path):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    names = array.dtype.names
    return ArrayTable(str(path), {name: array[name] for name in names} if names else {"array": array})


def _read_text_list(archive: zipfile.ZipFile, member: ArchiveMember) -> tuple[str, ...]:
    """Entries of a short list of texts."""
    shape = squeeze_shape(member.shape)
    if member.dtype.kind not in "US" or len(shape) != 1 or shape[0] > MOST_WORDS or member.dtype.itemsize > _SKIP:
        return ()
    with ExitStack() as stack:
        data = _read_exactly(_open_at_offset(archive, member, member.offset, stack), shape[0] * member.dtype.itemsize)
    texts = np.frombuffer(data, member.dtype).tolist()
    return tuple(text.decode("utf-8", "replace") if isinstance(text, bytes) else text for text in texts)


def _read_member_header(archive: zipfile.ZipFile, file: str) -> ArchiveMember:
    """Shape and type of an array of the archive, from its header."""
    if archive.getinfo(file).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"'{file}' is packed in a way that NPZ files are not")
    with archive.open(file) as stream:
        try:
            version = np.lib.format.read_magic(stream)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            shape, fortran, dtype = read(stream)
        except Exception as error:  # numpy parses the header as Python text, which fails in many ways
            raise ValueError(f"the header of '{file}' is no array's") from error
        return ArchiveMember(file, shape, fortran, dtype, stream.tell())
