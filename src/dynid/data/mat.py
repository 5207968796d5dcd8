"""MAT files: version 5 and older by scipy, in memory; version 7.3 is HDF5."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dynid.data.formats import content_hint
from dynid.data.table import Batch, Field, Numbers, Table, Wanted, squeezed, why_not_numbers
from dynid.errors import LogError

_DEEP = 8


@dataclass(frozen=True, slots=True, eq=False)
class MatTable:
    """The arrays of a MAT file of version 5, in memory, members of structs with dotted names."""

    path: Path
    arrays: Mapping[str, Numbers]
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The file."""
        return str(self.path)

    @property
    def fields(self) -> tuple[Field, ...]:
        """All arrays of numbers."""
        return tuple(
            Field(name, squeezed(array.shape), problem=why_not_numbers(array.dtype))
            for name, array in self.arrays.items()
        )

    def batches(self, wanted: tuple[Wanted, ...], rows: int) -> Iterator[Batch]:
        """Parts of the arrays."""
        views: dict[str, Numbers] = {}
        for field in wanted:
            array = self.arrays[field.name]
            array = array.reshape(squeezed(array.shape))
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
    from dynid.data.hdf5 import open_hdf5

    if _is_hdf5(path):
        return open_hdf5(path)
    from scipy.io import loadmat

    try:
        content = loadmat(path, appendmat=False, squeeze_me=False, struct_as_record=True)
    except Exception as error:  # scipy's reader raises whatever a damaged byte leads it to
        reason = str(error).partition("\n")[0][:120]
        raise LogError(str(path), f"this is no MAT file, or a damaged one ({reason}){content_hint(path)}") from error
    arrays: dict[str, Numbers] = {}
    for key, value in content.items():
        if isinstance(key, str) and not key.startswith("__"):
            _walk(key, value, arrays, 0)
    return MatTable(path, arrays)


def _walk(name: str, value: object, arrays: dict[str, Numbers], depth: int) -> None:
    """Collect arrays of numbers, descending into structs of one element."""
    if not isinstance(value, np.ndarray) or depth > _DEEP:
        return
    if value.dtype.names:
        if value.size == 1:
            for member in value.dtype.names:
                _walk(f"{name}.{member}", value.reshape(-1)[0][member], arrays, depth + 1)
    elif value.dtype.kind in "fiub" and value.ndim == 2:
        arrays[name] = value
