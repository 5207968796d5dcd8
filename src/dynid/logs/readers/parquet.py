"""Parquet files, by polars, a few row groups at a time; frames of polars and pandas, and arrays, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynid.concurrency import NEEDS_SPAWN, is_polars_without_threads
from dynid.errors import LogError
from dynid.logs.read import format_hint_from_content
from dynid.logs.readers.table import (
    MOST_WORDS,
    NO_STAMP,
    ArrayTable,
    Batch,
    Field,
    Numbers,
    Part,
    Wanted,
    check_row_count,
)
from dynid.messages import Message

if TYPE_CHECKING:
    import polars as pl

_MOST_VALUES = 1 << 23
"""Numbers decoded at once."""


@dataclass(frozen=True, slots=True)
class ParquetTable:
    """A Parquet file; its schema was read."""

    path: Path
    fields: tuple[Field, ...]
    length: int
    notes: tuple[Message, ...] = ()

    @property
    def name(self) -> str:
        """Name of the file."""
        return str(self.path)

    def batches(self, wanted: tuple[Wanted, ...], rows: int) -> Iterator[Batch]:
        """Yield batches of the wanted columns; stamps as integers of ns, lists as rows, other numbers as they are."""
        import polars as pl

        names, done = [column.name for column in wanted], 0
        with _parquet_errors(self.path):
            scan = pl.scan_parquet(self.path, glob=False).select(names)
            step = max(rows, _MOST_VALUES // len(names))
            for start in range(0, self.length, step):  # a group of rows may be as long as the file
                for part in scan.slice(start, step).collect().iter_slices(rows):
                    done += len(part)
                    yield Part({column.name: _to_numbers(self.name, column) for column in part}, done / self.length)


def _to_numbers(log: str, column: pl.Series) -> Numbers:
    """A column as a NumPy array of numbers."""
    import polars as pl

    if isinstance(column.dtype, pl.List):
        lengths = column.list.len().drop_nulls().unique().to_list()
        if len(lengths) > 1:
            raise LogError(
                log, "lists_of_different_length", "'{column}' holds lists of {lengths} numbers; they must be of one "
                "length", column=column.name, lengths=sorted(lengths),
            )  # fmt: skip
        column = column.cast(pl.Array(pl.Float64, (lengths or [0])[0]))
    if isinstance(column.dtype, pl.Array):
        width = column.dtype.size
        whole = column.fill_null([None] * width) if column.null_count() else column
        return whole.explode().cast(pl.Float64).to_numpy().reshape(-1, width)
    if isinstance(column.dtype, pl.Datetime | pl.Duration):
        return _stamps_in_ns(column).fill_null(NO_STAMP).to_numpy()
    return (column.cast(pl.Float64) if column.dtype == pl.Boolean or column.dtype.is_decimal() else column).to_numpy()


def _stamps_in_ns(column: pl.Series) -> pl.Series:
    """Time stamps, or times since the start, as whole ns."""
    import polars as pl

    return column.dt.timestamp("ns") if isinstance(column.dtype, pl.Datetime) else column.dt.total_nanoseconds()


@contextmanager
def _parquet_errors(path: Path) -> Iterator[None]:
    """Context in which errors of a damaged file become a LogError."""
    import polars as pl

    if is_polars_without_threads():
        raise LogError(str(path), NEEDS_SPAWN)
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = str(error).partition("\n")[0][:120]
        raise LogError(
            str(path), "not_parquet", "this is not a Parquet file, or it is damaged ({reason}){content_hint}",
            reason=reason, content_hint=format_hint_from_content(path),
        ) from error  # fmt: skip


def open_parquet(path: Path) -> ParquetTable:
    """Open a Parquet file and read its schema."""
    import polars as pl

    with _parquet_errors(path):
        scan = pl.scan_parquet(path, glob=False)
        schema = scan.collect_schema()
        length = scan.select(pl.len()).collect().item()
        check_row_count(str(path), length)
        if not length:
            raise LogError(str(path), "no_samples", "there are no samples in it")
        lists = scan.select(pl.col(pl.List).drop_nulls().first()).collect()
    known = length if any(kind.is_nested() for kind in schema.values()) else 0
    fields = tuple(_describe_column(name, kind, known, lists) for name, kind in schema.items())
    return ParquetTable(path, fields, length)


def _describe_column(name: str, kind: pl.DataType, length: int, lists: pl.DataFrame) -> Field:
    """Field of a column, with its unit or why it cannot be used."""
    import polars as pl

    if isinstance(kind, pl.Datetime | pl.Duration):
        return Field(name, (length,) if length else (), unit="ns")
    inner, shape = kind, (length,) if length else ()
    if isinstance(kind, pl.List | pl.Array):
        inner = kind.inner  # type: ignore[assignment]
        width = kind.size if isinstance(kind, pl.Array) else (lists[name].list.len()[0] or 0)
        shape = (*shape, width)
    usable = inner.is_numeric() or inner == pl.Boolean
    return Field(name, shape, problem="" if usable else f"holds no numbers but {kind}")


# Frames of polars and pandas, and arrays by name.


def open_frame(log: str, frame: Any) -> ArrayTable:
    """Open a frame, a mapping of names to arrays, or an array; datetimes become whole ns."""
    columns = _columns_of_frame(frame)
    if columns is None:
        raise LogError(
            log, "not_a_log", "a {kind} is not a log", "give the name of a file, a frame of polars or pandas, or a "
            "mapping of names to arrays", kind=type(frame).__name__,
        )  # fmt: skip
    arrays: dict[str, Numbers] = {}
    units: dict[str, str] = {}
    words: dict[str, tuple[str, ...]] = {}
    for name, column in columns:
        if name in arrays:
            raise LogError(log, "column_name_twice", "there are two columns '{name}'", name=name)
        array = _array_of_column(log, column)
        if array.dtype.kind in "mM":
            array, units[name] = array.astype(f"{array.dtype.kind}8[ns]").astype(np.int64), "ns"
        if array.dtype.kind in "UO" and array.ndim == 1 and len(array) <= MOST_WORDS:
            words[name] = tuple(map(str, array))
        arrays[name] = array
    return ArrayTable(log, arrays, units, words=words)


def _columns_of_frame(frame: Any) -> list[tuple[str, Any]] | None:
    """Names and columns; the index of a pandas frame is a column where it has a name or holds times."""
    if isinstance(frame, np.ndarray):
        return [(name, frame[name]) for name in frame.dtype.names] if frame.dtype.names else [("array", frame)]
    if isinstance(frame, Mapping):
        found: list[tuple[str, Any]] = []
        for key, value in frame.items():
            inner = _columns_of_frame(value) if isinstance(value, Mapping) else [("", value)]
            found += [(f"{key}.{name}".removesuffix("."), column) for name, column in inner or ()]
        return found
    if not hasattr(type(frame), "columns"):
        return None
    frame = frame.collect() if hasattr(frame, "collect") else frame
    labels = [".".join(map(str, label)) if isinstance(label, tuple) else str(label) for label in frame.columns]
    index = getattr(frame, "index", None)
    if index is None:
        return list(zip(labels, frame.get_columns(), strict=True))
    columns = [(label, frame.iloc[:, k]) for k, label in enumerate(labels)]
    is_time = index.dtype.kind in "mM" and "t" not in labels
    return [(str(index.name or "t"), index), *columns] if index.name is not None or is_time else columns


def _array_of_column(log: str, column: Any) -> Numbers:
    """The numbers of a column as an array; lists as rows; texts and other objects as they are."""
    if type(column).__module__.startswith("polars"):
        array = _to_numbers(log, column)
        return array.astype("M8[ns]") if column.dtype.is_temporal() else array
    if getattr(getattr(column, "dtype", None), "tz", None) is not None:  # a column or index of pandas
        column = getattr(column, "dt", column).tz_convert(None)
    try:
        array = np.asarray(column.filled(np.nan) if isinstance(column, np.ma.MaskedArray) else column)
        if array.dtype == object and array.ndim == 1 and len(array) and not isinstance(array[0], str):
            array = np.array([np.asarray(one, dtype=np.float64) for one in array])
    except (TypeError, ValueError, OverflowError):
        array = np.array(column, dtype=object)
    return array
