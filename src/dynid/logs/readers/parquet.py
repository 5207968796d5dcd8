"""Parquet files, by polars, a few row groups at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dynid.concurrency import NEEDS_SPAWN, has_polars_lost_its_threads
from dynid.errors import LogError
from dynid.logs.read import format_hint_from_content
from dynid.logs.readers.table import Batch, Field, Numbers, Wanted
from dynid.messages import Message

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class ParquetTable:
    """A Parquet file; its schema was read."""

    path: Path
    fields: tuple[Field, ...]
    notes: tuple[Message, ...] = ()

    @property
    def name(self) -> str:
        """The file."""
        return str(self.path)

    def batches(self, wanted: tuple[Wanted, ...], rows: int) -> Iterator[Batch]:
        """Stream the wanted columns; time stamps come as integers of ns, other numbers as they are."""
        import polars as pl

        names = [column.name for column in wanted]
        stamps = [field.name for field in self.fields if field.unit is not None and field.name in names]
        with _parquet_errors(self.path):
            scan = pl.scan_parquet(self.path, glob=False).select(names)
            scan = scan.with_columns(pl.col(name).dt.timestamp("ns") for name in stamps)
            for frame in scan.collect_batches(chunk_size=rows, maintain_order=True):
                for part in frame.iter_slices(rows):
                    yield {column.name: _to_numbers(column) for column in part}


def _to_numbers(column: pl.Series) -> Numbers:
    import polars as pl

    return (column.cast(pl.Float64) if column.dtype == pl.Boolean or column.dtype.is_decimal() else column).to_numpy()


@contextmanager
def _parquet_errors(path: Path) -> Iterator[None]:
    import polars as pl

    if has_polars_lost_its_threads():
        raise LogError(str(path), NEEDS_SPAWN)
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = str(error).partition("\n")[0][:120]
        raise LogError(
            str(path), "not_parquet", "this is no Parquet file, or a damaged one ({reason}){content_hint}",
            reason=reason, content_hint=format_hint_from_content(path),
        ) from error  # fmt: skip


def open_parquet(path: Path) -> ParquetTable:
    """Open a Parquet file and read its schema."""
    import polars as pl

    with _parquet_errors(path):
        schema = pl.scan_parquet(path, glob=False).collect_schema()
    return ParquetTable(path, tuple(_describe_column(name, kind) for name, kind in schema.items()))


def _describe_column(name: str, kind: pl.DataType) -> Field:
    import polars as pl

    if isinstance(kind, pl.Datetime):
        return Field(name, unit="ns")
    usable = kind.is_numeric() or kind == pl.Boolean
    return Field(name, problem="" if usable else f"holds no numbers but {kind}")
