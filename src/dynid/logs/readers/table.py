"""What every log format is to the rest: named columns and arrays that are read batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dynid.errors import LogError
from dynid.messages import Message, Option
from dynid.storage.files import COLUMNS, ROWS

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


class Part(dict[str, Numbers]):
    """A batch that knows which share of its file has been read, 0 to 1, by bytes or rows."""

    def __init__(self, fields: Mapping[str, Numbers], done: float) -> None:
        super().__init__(fields)
        self.done = done


class Table(Protocol):
    """An open log file; `batches` may be called any number of times."""

    @property
    def name(self) -> str:
        """Name of the file in messages."""
        ...

    @property
    def fields(self) -> tuple[Field, ...]:
        """Fields of the table: all columns and arrays."""
        ...

    @property
    def notes(self) -> tuple[Message, ...]:
        """Notes on what the reader decided by itself."""
        ...

    def batches(self, wanted: tuple[Wanted, ...], rows: int) -> Iterator[Batch]:
        """Yield the wanted fields, (rows,) or (rows, k), in order and at most `rows` samples at a time."""
        ...


NO_STAMP = -(2**63)
"""A time stamp that is missing, as integers know no NaN."""

MOST_WORDS = 500
"""Entries up to which an array of texts is read."""


LONGEST_NAME = 1000
"""Characters of a column's name; a longer one is not a name but a damaged file."""


def check_field_names(log: str, names: Sequence[str]) -> None:
    """Raise LogError for more columns than the limit, or a name of more than LONGEST_NAME characters."""
    if problem := COLUMNS.exceeded("there are {figure} columns in it", len(names)):
        raise LogError(log, problem)
    if long := next((name for name in names if len(name) > LONGEST_NAME), ""):
        raise LogError(
            log, "column_name_too_long", "the name of a column, '{start}...', has {count} characters, more than {most}",
            "mend the header", start=long[:40], count=len(long), most=LONGEST_NAME,
        )  # fmt: skip


def check_row_count(log: str, rows: int) -> None:
    """Raise LogError for more rows than the limit: a few bytes of a header can claim any number."""
    if problem := ROWS.exceeded("there are {figure} rows in it", rows):
        raise LogError(log, problem)


def squeeze_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a vector for (N, 1) and (1, N), of a matrix for (N, 1, k), else the shape itself."""
    long = tuple(size for size in shape if size != 1)
    return (long or (1,)) if shape and (len(long) < 2 or len(long) < len(shape)) else shape


def why_not_numbers(dtype: np.dtype[Any]) -> str:
    """Return why an array of this type cannot be a channel, '' where it can."""
    if dtype.hasobject:
        return "holds Python objects, which are never loaded; save plain numbers"
    return "" if dtype.kind in "fiub" else f"holds no real numbers ({dtype})"


# Tables made from others: arrays in memory, columns named by the user, some of the rows.


@dataclass(frozen=True, slots=True, eq=False)
class ArrayTable:
    """Arrays in memory by name: of a MAT file, a frame, or the user's own."""

    name: str
    arrays: dict[str, Numbers]
    units: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[Message, ...] = ()

    @property
    def fields(self) -> tuple[Field, ...]:
        """Fields of all arrays, and of what holds no numbers."""
        return tuple(
            Field(
                name, squeeze_shape(array.shape), self.units.get(name),
                self.problems.get(name) or why_not_numbers(array.dtype) or why_not_table(array.shape),
                self.words.get(name, ()),
            )
            for name, array in self.arrays.items()
        )  # fmt: skip

    def batches(self, wanted: tuple[Wanted, ...], rows: int) -> Iterator[Batch]:
        """Yield parts of the wanted arrays, at most `rows` samples at a time."""
        views: dict[str, Numbers] = {}
        for one in wanted:
            array = self.arrays[one.name]
            array = array.reshape(squeeze_shape(array.shape))
            views[one.name] = array.T if one.turned else array
        length = len(next(iter(views.values())))
        for start in range(0, length, rows):
            part = {name: view[start : start + rows] for name, view in views.items()}
            yield Part(part, min(start + rows, length) / length)


def why_not_table(shape: tuple[int, ...]) -> str:
    """Return why an array of this shape is neither a column nor a matrix, '' where it is."""
    return "" if 1 <= len(squeeze_shape(shape)) <= 2 else f"has {len(shape)} dimensions"


def numbered_columns(fields: Sequence[Field]) -> list[tuple[Field, int | None]]:
    """Columns that numbers count: those of a table, or of the only matrix of a file of arrays; else none.

    A matrix gives (field, column) with columns counted from 0.
    """
    if all(one.is_column for one in fields):
        return [(one, None) for one in fields]
    matrices = [one for one in fields if len(one.shape) == 2 and not one.problem]
    beside = [one for one in fields if one.is_column and not one.problem and one.shape and one.shape[0] > 1]
    if len(matrices) != 1 or any(one.shape[0] in matrices[0].shape for one in beside):
        return []
    return [(matrices[0], column) for column in range(min(matrices[0].shape))]


@dataclass(frozen=True, slots=True, eq=False)
class RenamedTable:
    """A table or a single matrix whose columns the user names; `names` are '' for those that are not to be used."""

    table: Table
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        columns = numbered_columns(self.table.fields)
        if not columns:
            raise LogError(
                self.name, "header_not_applicable", "{header} names the columns of one table, but the file holds "
                "arrays: {found:20}", "map them with {columns}", header=Option("header"), columns=Option("columns"),
                found=[one.name for one in self.table.fields],
            )  # fmt: skip
        if len(columns) != len(self.names):
            raise header_count_error(self.name, len(self.names), len(columns))

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.table.name

    @property
    def notes(self) -> tuple[Message, ...]:
        """Notes of the table that is renamed."""
        return self.table.notes

    @property
    def places(self) -> dict[str, tuple[Field, int | None]]:
        """Field and column behind each new name; columns that are not to be used are called by their number."""
        columns = numbered_columns(self.table.fields)
        return {name or str(k): column for k, (name, column) in enumerate(zip(self.names, columns, strict=True), 1)}

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns under their new names."""
        return tuple(
            Field(name, one.shape[:1] if column is None else (max(one.shape),), one.unit, one.problem)
            for name, (one, column) in self.places.items()
        )

    def batches(self, wanted: tuple[Wanted, ...], rows: int) -> Iterator[Batch]:
        """Yield batches of the columns under their new names."""
        places = {one.name: self.places[one.name] for one in wanted}
        turned = {one.name: len(one.shape) == 2 and one.shape[0] < one.shape[1] for one, _ in places.values()}
        for batch in self.table.batches(tuple(Wanted(name, turn) for name, turn in turned.items()), rows):
            named = {
                name: batch[one.name] if column is None else batch[one.name][:, column]
                for name, (one, column) in places.items()
            }
            yield Part(named, getattr(batch, "done", np.nan))


def header_count_error(log: str, names: int, columns: int, line: int | None = None) -> LogError:
    """Error on a header that names more or fewer columns than there are."""
    return LogError(
        log, "header_count_mismatch", "{header} names {names} columns, " + ("the file" if line is None else "line "
        "{line}") + " has {columns}", "name them all, with _ for those to be skipped", header=Option("header"),
        names=names, columns=columns, line=line,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class RowRange:
    """Rows from `first` to `last`, both counted from 1 and included; None: to the end."""

    first: int = 1
    last: int | None = None

    def __str__(self) -> str:
        return f"{self.first if self.first > 1 else ''}:{'' if self.last is None else self.last}"

    def check_end(self, log: str, rows: int) -> None:
        """Raise where a file ends before the range does; rows: of the file, as far as it was read."""
        if rows < self.first or (self.last is not None and rows < self.last):
            raise LogError(
                log, "rows_beyond_end", "the rows {asked} go beyond the end: the file has {rows} rows",
                "leave the end open as {open}", asked=str(self), rows=rows,
                open=Option("rows", (1 if rows < self.first else self.first, None)),
            )  # fmt: skip


ALL_ROWS = RowRange()


@dataclass(frozen=True, slots=True, eq=False)
class TableRows:
    """Some rows of a table; those before them are skipped while it is read."""

    table: Table
    part: RowRange

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.table.name

    @property
    def fields(self) -> tuple[Field, ...]:
        """Fields of the table."""
        return self.table.fields

    @property
    def notes(self) -> tuple[Message, ...]:
        """Notes of the table."""
        return self.table.notes

    def batches(self, wanted: tuple[Wanted, ...], rows: int) -> Iterator[Batch]:
        """Yield the parts of the batches that lie in the range of rows."""
        seen, last = 0, self.part.last
        for batch in self.table.batches(wanted, rows):
            count = len(next(iter(batch.values())))
            start, stop = max(self.part.first - 1 - seen, 0), count if last is None else min(last - seen, count)
            if start < stop:
                inside = {name: values[start:stop] for name, values in batch.items()}
                yield Part(inside, getattr(batch, "done", np.nan))
            seen += count
            if last is not None and seen >= last:
                return
        self.part.check_end(self.name, seen)
