"""What every log format is to the rest: named columns and arrays that are read batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dynid.messages import Message

Numbers = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A column or an array of a file.

    `shape` is () for the column of a table of unknown length, (N,) for a vector and (N, k) or (k, N) for a
    matrix. `unit` is what the file's own type says (time stamps), `problem` why the field holds no numbers; `words`:
    a short list of texts, such as the names of a matrix's columns.
    """

    name: str
    shape: tuple[int, ...] = ()
    unit: str | None = None
    problem: str = ""
    words: tuple[str, ...] = ()

    @property
    def is_column(self) -> bool:
        """Whether it holds one number per sample."""
        return len(self.shape) < 2


@dataclass(frozen=True, slots=True)
class Wanted:
    """A field to be read, `turned` where its samples run along the second axis."""

    name: str
    turned: bool = False


Batch = Mapping[str, Numbers]


class Table(Protocol):
    """An open log file; `batches` may be called any number of times."""

    @property
    def name(self) -> str:
        """What messages call the file."""
        ...

    @property
    def fields(self) -> tuple[Field, ...]:
        """All columns and arrays."""
        ...

    @property
    def notes(self) -> tuple[Message, ...]:
        """What the reader decided by itself."""
        ...

    def batches(self, wanted: tuple[Wanted, ...], rows: int) -> Iterator[Batch]:
        """Yield the wanted fields, (rows,) or (rows, k), in order and at most `rows` samples at a time."""
        ...


MOST_WORDS = 500
"""Entries up to which an array of texts is read."""


def squeeze_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a vector for (N, 1) and (1, N), else the shape itself."""
    long = tuple(size for size in shape if size != 1)
    return (long or (1,)) if shape and len(long) < 2 else shape


def why_not_numbers(dtype: np.dtype[Any]) -> str:
    """Return why an array of this type cannot be a channel, '' where it can."""
    if dtype.hasobject:
        return "holds Python objects, which are never loaded; save plain numbers"
    return "" if dtype.kind in "fiub" else f"holds no real numbers ({dtype})"
