"""HDF5 files, and MAT files of version 7.3, read slice by slice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dynid.errors import LogError
from dynid.logs.read import format_hint_from_content
from dynid.logs.readers.table import MOST_WORDS, Batch, Field, Numbers, Table, Wanted, squeeze_shape, why_not_numbers
from dynid.messages import Message

_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class StoredDataset:
    """A data set, or one member of a data set of records."""

    path: str
    member: str | None
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Hdf5Table:
    """An HDF5 file; the names and shapes of its data sets were read. Groups give dotted names."""

    path: Path
    fields: tuple[Field, ...]
    stored: dict[str, StoredDataset]
    notes: tuple[Message, ...] = ()

    @property
    def name(self) -> str:
        """The file."""
        return str(self.path)

    def batches(self, wanted: tuple[Wanted, ...], rows: int) -> Iterator[Batch]:
        """Read slices of the wanted data sets."""
        with _open_hdf5_file(self.path) as file:
            readers = {field.name: _slice_reader(file, self.stored[field.name], field.turned) for field in wanted}
            shapes = [squeeze_shape(self.stored[field.name].shape) for field in wanted]
            length = shapes[0][1] if wanted[0].turned else shapes[0][0]
            widest = max(int(np.prod(shape)) // max(length, 1) for shape in shapes)
            rows = max(1, min(rows, _MOST_BYTES // (8 * max(widest, 1))))
            for start in range(0, length, rows):
                stop = min(start + rows, length)
                yield {name: reader(start, stop) for name, reader in readers.items()}


def _slice_reader(file: Any, stored: StoredDataset, turned: bool) -> Callable[[int, int], Numbers]:
    """Return what reads samples from start to stop of a data set."""
    data = file[stored.path]
    source = data if stored.member is None else data.fields(stored.member)
    shape = stored.shape
    along = 1 if turned or (len(shape) == 2 and shape[0] == 1 and shape[1] != 1) else 0

    def read_slice(start: int, stop: int) -> Numbers:
        part = np.asarray(source[:, start:stop].T if along else source[start:stop])
        return part.reshape(-1) if len(squeeze_shape(shape)) == 1 else part

    return read_slice


@contextmanager
def _open_hdf5_file(path: Path) -> Iterator[Any]:
    try:
        import h5py  # type: ignore[import-untyped]
    except ImportError as error:
        raise LogError(
            str(path), "needs_extra_package", "HDF5 files need h5py", "install it with: pip install h5py",
        ) from error  # fmt: skip
    try:
        with h5py.File(path, "r") as file:
            yield file
    except LogError:
        raise
    except Exception as error:  # h5py raises whatever a damaged byte leads HDF5 to
        reason = str(error).partition("\n")[0][:120]
        raise LogError(
            str(path), "not_hdf5", "this is no HDF5 file, or a damaged one ({reason}){content_hint}", reason=reason,
            content_hint=format_hint_from_content(path),
        ) from error  # fmt: skip


def open_hdf5(path: Path) -> Hdf5Table:
    """Open an HDF5 file and list its data sets; links to other files are not followed."""
    fields: list[Field] = []
    stored: dict[str, StoredDataset] = {}

    def add_field(name: str, where: StoredDataset, problem: str, words: tuple[str, ...] = ()) -> None:
        """List a field and where it is stored."""
        shape = squeeze_shape(where.shape)
        problem = problem or ("" if 1 <= len(shape) <= 2 else f"has {len(shape)} dimensions")
        fields.append(Field(name, shape, problem=problem, words=words))
        stored[name] = where

    def add_dataset(place: str, item: Any) -> None:
        """List a data set, or each member of one of records."""
        if not hasattr(item, "dtype") or not item.shape or place.startswith("#"):
            return
        name = place.replace("/", ".")
        outside = "lies in another file, which is not read" if item.is_virtual or item.external else ""
        for member in item.dtype.names or ():
            kind = item.dtype[member]
            add_field(
                f"{name}.{member}",
                StoredDataset(place, member, item.shape + kind.shape),
                outside or why_not_numbers(kind.base),
            )
        if not item.dtype.names:
            words = () if outside else _read_text_list(item)
            add_field(name, StoredDataset(place, None, item.shape), outside or why_not_numbers(item.dtype), words)

    with _open_hdf5_file(path) as file:
        file.visititems(add_dataset)
    return Hdf5Table(path, tuple(fields), stored)


def _read_text_list(item: Any) -> tuple[str, ...]:
    """Entries of a short list of texts."""
    import h5py

    if h5py.check_string_dtype(item.dtype) is None or len(squeeze_shape(item.shape)) != 1 or item.size > MOST_WORDS:
        return ()
    return tuple(item.asstr(errors="replace")[()].ravel().tolist())


# MAT files: version 5 and older by scipy, in memory; version 7.3 is HDF5.


_DEEP = 8


@dataclass(frozen=True, slots=True, eq=False)
class MatTable:
    """The arrays of a MAT file of version 5, in memory, members of structs with dotted names."""

    path: Path
    arrays: Mapping[str, Numbers]
    notes: tuple[Message, ...] = ()

    @property
    def name(self) -> str:
        """The file."""
        return str(self.path)

    @property
    def fields(self) -> tuple[Field, ...]:
        """All arrays of numbers."""
        return tuple(
            Field(name, squeeze_shape(array.shape), problem=why_not_numbers(array.dtype))
            for name, array in self.arrays.items()
        )

    def batches(self, wanted: tuple[Wanted, ...], rows: int) -> Iterator[Batch]:
        """Parts of the arrays."""
        views: dict[str, Numbers] = {}
        for field in wanted:
            array = self.arrays[field.name]
            array = array.reshape(squeeze_shape(array.shape))
            views[field.name] = array.T if field.turned else array
        for start in range(0, len(next(iter(views.values()))), rows):
            yield {name: view[start : start + rows] for name, view in views.items()}


def _is_hdf5(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(520)
    except OSError:
        return False
    return b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:520])


def open_mat(path: Path) -> Table:
    """Open a MAT file of any version."""
    if _is_hdf5(path):
        return open_hdf5(path)
    from scipy.io import loadmat

    try:
        content = loadmat(path, appendmat=False, squeeze_me=False, struct_as_record=True)
    except Exception as error:  # scipy's reader raises whatever a damaged byte leads it to
        reason = str(error).partition("\n")[0][:120]
        raise LogError(
            str(path), "not_mat", "this is no MAT file, or a damaged one ({reason}){content_hint}", reason=reason,
            content_hint=format_hint_from_content(path),
        ) from error  # fmt: skip
    arrays: dict[str, Numbers] = {}
    for key, value in content.items():
        if isinstance(key, str) and not key.startswith("__"):
            _collect_arrays(key, value, arrays, 0)
    return MatTable(path, arrays)


def _collect_arrays(name: str, value: object, arrays: dict[str, Numbers], depth: int) -> None:
    """Collect arrays of numbers, descending into structs of one element."""
    if not isinstance(value, np.ndarray) or depth > _DEEP:
        return
    if value.dtype.names:
        if value.size == 1:
            for member in value.dtype.names:
                _collect_arrays(f"{name}.{member}", value.reshape(-1)[0][member], arrays, depth + 1)
    elif value.dtype.kind in "fiub" and value.ndim == 2:
        arrays[name] = value
