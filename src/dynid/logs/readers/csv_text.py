"""CSV files, plain or gzipped: blocks of whole lines that polars parses, two at a time."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from gzip import BadGzipFile
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np

from dynid.concurrency import is_polars_without_threads
from dynid.errors import LogError
from dynid.logs.column_names import find_unit
from dynid.logs.read import format_hint_from_content
from dynid.logs.readers.table import (
    ALL_ROWS,
    NO_STAMP,
    Batch,
    Field,
    Numbers,
    Part,
    RowRange,
    Wanted,
    check_field_names,
    header_count_error,
)
from dynid.messages import Message, Option, Wording

if TYPE_CHECKING:
    import polars as pl
    from _typeshed import WriteableBuffer

# Gzip files as streams, in larger steps than Python's own reader takes: a fifth less time for a large log.


_STEP = 1 << 18
_BUFFER = 1 << 20
_GZIP = 16 + zlib.MAX_WBITS


class _GzipStream(io.RawIOBase):
    """The content of a gzip file of one or several members; no more is inflated than is asked for."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("rb")
        self._inflate = zlib.decompressobj(_GZIP)
        self._rest = b""
        self._begun = False

    def readable(self) -> bool:
        """Return True: the stream can be read."""
        return True

    def position(self) -> int:
        """Number of bytes of the file that were inflated."""
        return self._file.tell() - len(self._rest)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Inflate into a buffer; EOFError for a file that ends too early, zlib.error for a damaged one."""
        view = memoryview(buffer).cast("B")
        while True:
            data = self._rest or self._file.read(_STEP)
            if self._inflate.eof:
                data = data.lstrip(b"\x00")
                self._begun = False
                if data:
                    self._inflate = zlib.decompressobj(_GZIP)
            if not data:
                if self._begun:
                    raise EOFError("the gzip data end too early")
                return 0
            if not self._begun and not data.startswith(b"\x1f"):
                raise BadGzipFile("no gzip file")
            self._begun = True
            part = self._inflate.decompress(data, len(view))
            self._rest = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
            if part:
                view[: len(part)] = part
                return len(part)


def open_gzip(path: Path) -> BinaryIO:
    """Open a gzip file for reading."""
    make = cast(Callable[[io.RawIOBase, int], BinaryIO], io.BufferedReader)
    return make(_GzipStream(path), _BUFFER)


# The beginning of a CSV file: comments, delimiter, header, and how its numbers are written.


HEAD = 1 << 20
_PREAMBLE = 200
# What stands for a missing number, besides nan and an empty cell.
MISSING = ("null", "NULL", "Null", "None", "NA", "N/A", "n/a", "#N/A", "-nan(ind)", "nan(ind)")
_STAMP = re.compile(rb"^[+-]?\d{17,19}$")


@dataclass(frozen=True, slots=True)
class TextHeader:
    """The columns of a text file; `delimiter` ' ' is any white space. `lines` come before the first sample.

    `stamps` are the columns most of whose first numbers are integers too long for a float. `units` come from a line of
    their own, '' where there is none; `texts` are the first two of columns of text; `twice` names that come twice.
    """

    columns: tuple[str, ...]
    delimiter: str
    lines: int
    decimal_comma: bool = False
    quoted: bool = False
    stamps: frozenset[int] = frozenset()
    notes: tuple[Message, ...] = ()
    units: tuple[str, ...] = ()
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    twice: frozenset[str] = frozenset()
    clocks: frozenset[int] = frozenset()
    """Columns of dates, or of times that are written as such."""


def is_number(text: str) -> bool:
    """Whether a cell is a number, or stands for a missing one."""
    text = text.strip()
    if not text or text in MISSING:
        return True
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def read_header(
    log: str, file: BinaryIO, hint: str, names: tuple[str, ...] = (), numbers: frozenset[int] = frozenset()
) -> TextHeader:
    """Read the header and look at the first sample; leaves the file somewhere after them.

    names: those of the columns where the user gives them ('': not to be used), which replace the header; numbers: of
    columns that are called so, counted from 1, so that a file may have no header.
    """
    head = file.read(HEAD)
    if not head:
        raise LogError(log, "file_empty", "the file is empty")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise LogError(
            log, "unsupported_text_encoding", "this text is in UTF-16", "save it as UTF-8 (iconv -f UTF-16 -t UTF-8 "
            "does it)",
        )  # fmt: skip
    if b"\x00" in head:
        raise LogError(log, "not_text", "this is binary data, not text{hint}", hint=hint)
    if b"\n" not in head and len(head) == HEAD:
        raise LogError(
            log, "not_text_table", "there is no line end in the first megabyte: this is not a text "
                "table{hint}", hint=hint,
        )  # fmt: skip
    lines = head.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    columns, delimiter, used, notes = (
        _columns_as_named(log, lines, names) if names else _columns_of_header(log, lines, numbers)
    )
    columns += [""] * _ends_in_delimiter(lines[used:], delimiter, len(columns))
    check_field_names(log, columns)
    numbered, seen = {*columns}, set[str]()
    again = []
    for name in columns:
        again.append("" if name in seen else name)
        seen.add(name)
    twice = frozenset(name for name, first in zip(columns, again, strict=True) if name and not first)
    columns = [name or ("" if str(k) in numbered else str(k)) for k, name in enumerate(again, start=1)]
    units = () if names else _read_units(lines, used, delimiter, len(columns))
    if units:
        used += 1 + next(k for k, line in enumerate(lines[used:]) if line.strip())
        notes.append(Message("units_in_line", "line {line} gives the units of the columns", line=used))
    sample = next((line for line in lines[used:] if line.strip() and not line.startswith(b"#")), b"")
    comma = delimiter != "," and b"," in sample and b"." not in sample
    if comma:
        notes.append(Message("decimal_commas", "decimal commas"))
    mark = delimiter.encode() if delimiter != " " else None
    quoted = b'"' in sample
    samples = [
        _cells_of_quoted_line(line, delimiter) if quoted else line.strip().split(mark)
        for line in lines[used : used + _PREAMBLE]
        if not line.startswith(b"#")
    ]
    whole = [cells for cells in samples if len(cells) == len(columns)]
    long = [sum(bool(_STAMP.match(cells[k].strip())) for cells in whole) for k in range(len(columns))]
    stamps = frozenset(k for k, count in enumerate(long) if count and 2 * count >= len(whole))
    texts = _texts_of_columns(columns, whole)
    shown = [[cells[k].decode("utf-8", "replace") for cells in whole[:20]] for k in range(len(columns))]
    likely = [sum(parse_clock_time(word) is not None for word in words) for words in shown]
    clocks = frozenset(k for k, count in enumerate(likely) if 2 * count > len(whole[:20]))
    return TextHeader(
        tuple(columns), delimiter, used, comma, quoted, stamps, tuple(notes), units, texts, twice & {*columns},
        clocks,
    )  # fmt: skip


_LONGEST_TIME = 100
_DAY_AND_TIME = re.compile(
    r"(\d{4})[-/](\d\d?)[-/](\d\d?)[ T](\d\d?):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\s?(Z|UTC|[+-]\d\d:?\d\d)?"
)
_ELAPSED = re.compile(r"(?:(\d+):)?(\d+):(\d\d)(?:[.,](\d{1,9}))?")
_SECONDS = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?) ?(?:s|sec|seconds)")


def parse_clock_time(cell: str) -> int | None:
    """Return the whole ns of `2024-05-01 12:00:00.25` (since 1970), `0:01:30.25` or `90.25 sec`; None for others."""
    text = cell.strip().strip('"').strip()
    if len(text) > _LONGEST_TIME:
        return None
    if match := _SECONDS.fullmatch(text):
        return round(1e9 * float(match[1]))
    if match := _ELAPSED.fullmatch(text):
        hours, minutes, seconds = (int(part or 0) for part in match.groups()[:3])
        return (3600 * hours + 60 * minutes + seconds) * 10**9 + int((match[4] or "").ljust(9, "0"))
    if not (match := _DAY_AND_TIME.fullmatch(text)):
        return None
    try:
        moment = datetime(*(int(part) for part in match.groups()[:6]), tzinfo=UTC)  # type: ignore[arg-type, misc]
    except ValueError:
        return None
    zone = match[8] if match[8] and match[8][0] in "+-" else "+0000"
    ahead = int(zone[0] + "60") * int(zone[1:3]) + int(zone[0] + zone[-2:])  # minutes
    return (round(moment.timestamp()) - 60 * ahead) * 10**9 + int((match[7] or "").ljust(9, "0"))


def _read_units(lines: list[bytes], used: int, delimiter: str, count: int) -> tuple[str, ...]:
    """Units in the first line after the header, where most of its cells are some and none is a number; else none."""
    text = next((line for line in lines[used:] if line.strip()), b"").decode("utf-8", "replace").strip("\r\n ")
    cells = [cell.strip("[]() ") for cell in split_line(text, delimiter)]
    given = [cell for cell in cells if cell not in ("", "-", "1")]
    known = [cell for cell in given if find_unit(cell)]
    if len(cells) != count or any(map(is_number, given)) or not known or 2 * len(known) < len(given):
        return ()
    return tuple(cell if cell in given else "" for cell in cells)


def _texts_of_columns(columns: Sequence[str], samples: Sequence[Sequence[bytes]]) -> dict[str, tuple[str, ...]]:
    """Up to two different texts of the columns that hold no numbers: names of joints, frames, states."""
    found: dict[str, tuple[str, ...]] = {}
    for k, name in enumerate(columns):
        cells = dict.fromkeys(row[k] for row in samples)
        texts = [cell.decode("utf-8", "replace").strip().strip('"') for cell in islice(cells, 2)]
        if texts and not any(map(is_number, texts)):
            found[name] = tuple(texts)
    return found


def _cells_of_quoted_line(line: bytes, delimiter: str) -> list[bytes]:
    """Cells of a line some of which are quoted."""
    return [cell.encode() for cell in split_line(line.decode("utf-8", "replace").strip("\r\n "), delimiter)]


def _why_lists_are_no_numbers(texts: Sequence[str]) -> str:
    """Text on why a column of lists holds no numbers; '' where its texts are not lists."""
    is_list = any(text.startswith(("[", "(")) and text.endswith(("]", ")")) for text in texts)
    return "holds lists as text; write a column for each joint, or a Parquet file" if is_list else ""


def _ends_in_delimiter(lines: Sequence[bytes], delimiter: str, count: int) -> bool:
    """Whether the first rows have one more cell than the header, an empty one at the end."""
    rows = [line for line in lines[:_PREAMBLE] if line.strip() and not line.startswith(b"#")]
    cells = [split_line(line.decode("utf-8", "replace").strip("\r\n "), delimiter) for line in rows[:-1] or rows]
    return delimiter != " " and bool(cells) and all(len(row) == count + 1 and not row[-1] for row in cells)


def _columns_of_header(
    log: str, lines: list[bytes], numbers: frozenset[int]
) -> tuple[list[str], str, int, list[Message]]:
    """Names of the columns by the file's own header, the delimiter, the lines before the first sample, and notes."""
    skipped = 0
    while skipped < len(lines) and (not lines[skipped].strip() or lines[skipped].startswith((b"#", b"%"))):
        skipped += 1
    if found := _header_from_comments(log, lines[:skipped], lines[skipped] if skipped < len(lines) else b""):
        note = Message("header_in_comment", "the header is the last line of comment before the numbers")
        return *found, skipped, [note]
    if skipped == len(lines):
        raise LogError(log, "no_samples", "there is no header and no sample in it")
    skipped = _header_line_after_preamble(lines, skipped)
    first = _decode_line(log, lines[skipped])
    delimiter = find_delimiter(first)
    columns = split_line(first, delimiter)
    if not all(is_number(name) for name in columns):
        chosen = [columns[number - 1] for number in numbers if number <= len(columns)]
        if (
            not any(chosen)
            or not all(map(is_number, chosen))
            or _is_header_with_numbers(columns, lines[skipped + 1 :], delimiter)
        ):
            return columns, delimiter, skipped + 1, []
    if not numbers:
        raise LogError(
            log, "missing_header", "the first line is all numbers: the columns have no names", "name them with "
            "{header}, or number them with {columns}", header=Wording("header='t,q*6,tau*6'", "--header 't,q*6,tau*6'"),
            columns=Wording("columns={'t': 1, 'q': '2:7', ...}", "--column t=1 --column q=2:7 ..."),
        )  # fmt: skip
    delimiter = next((mark for mark in _MARKS if _is_data_line(first, mark, len(split_line(first, mark)))), delimiter)
    return [""] * len(split_line(first, delimiter)), delimiter, skipped, []


def _is_header_with_numbers(columns: Sequence[str], following: Sequence[bytes], delimiter: str) -> bool:
    """Whether a line with numbers among its cells is a header: the next line has numbers below its texts, too."""
    row = next((line for line in following if line.strip() and not line.startswith(b"#")), b"")
    cells = split_line(row.decode("utf-8", "replace").strip("\r\n "), delimiter)
    return any(cell and is_number(cell) and not is_number(name) for name, cell in zip(columns, cells, strict=False))


_MARKS = (";", "\t", ",", " ")


def _is_data_line(line: str, delimiter: str, count: int, used: Sequence[int] | None = None) -> bool:
    """Whether a line has so many cells, which are numbers; used: places of those that must be."""
    cells = split_line(line, delimiter)
    chosen = [cells[k] for k in (range(count) if used is None else used)] if len(cells) == count else []
    if delimiter != ",":
        chosen = [cell.replace(",", ".") for cell in chosen]
    return count > 1 and any(chosen) and all(map(is_number, chosen))


def _columns_as_named(
    log: str, lines: list[bytes], names: tuple[str, ...]
) -> tuple[list[str], str, int, list[Message]]:
    """Columns that the user names: names, delimiter, lines before the first sample, and notes."""
    used = [k for k, name in enumerate(names) if name]
    count, seen = 0, 0
    for number, line in enumerate(lines[:_PREAMBLE]):
        if not line.strip() or line.startswith(b"#"):
            continue
        text = line.decode("utf-8", "replace").strip("\r\n ")
        for mark in _MARKS:
            if mark != " " and text.endswith(mark) and text.count(mark) == len(names):
                text = text.removesuffix(mark)
            if _is_data_line(text, mark, len(names), used) and not _is_index_header(text, mark):
                note = Message(
                    "lines_before_data", "the first {count} lines are not used: line {line} is the first one with the "
                    "columns that {header} names", count=number, line=number + 1, header=Option("header"),
                )  # fmt: skip
                return list(names), mark, number, [note] if number else []
            cells = len(split_line(text, mark))
            if not count and cells > 1 and _is_data_line(text, mark, cells):
                count, seen = cells, number + 1
    if count:
        raise header_count_error(log, len(names), count, seen)
    raise LogError(
        log, "no_samples", "no line has {names} cells with numbers where {header} names columns", "name all columns, "
        "with _ for those to be skipped", names=len(names), header=Option("header"),
    )  # fmt: skip


def _is_index_header(line: str, delimiter: str) -> bool:
    """Whether a line is 0,1,2,...: the header that pandas writes for columns without names."""
    cells = split_line(line, delimiter)
    cells = cells[1:] if cells[:1] == [""] else cells
    return len(cells) > 1 and cells == [str(k) for k in range(len(cells))]


def _header_line_after_preamble(lines: list[bytes], first: int) -> int:
    """Return the line of the header: the first one, or the last before the numbers where lines of text come before it.

    These are told from a header by their number of cells, which is not that of the numbers.
    """
    before = above = first
    for k in range(first + 1, min(first + _PREAMBLE, len(lines))):
        if not lines[k].strip() or lines[k].startswith(b"#"):
            continue
        top, names, row = (lines[i].decode("latin-1").replace("\r", " ").strip() for i in (first, before, k))
        delimiter = find_delimiter(names)
        cells = split_line(row, delimiter)
        if len(cells) > 1 and all(is_number(cell.replace(",", ".")) for cell in cells):
            counts = [len(split_line(text, delimiter)) for text in (names, top)]
            if counts[0] != len(cells) or counts[1] == len(cells):
                return first
            return above if _read_units(lines, before, delimiter, len(cells)) else before
        before, above = k, before
    return first


def _decode_line(log: str, line: bytes) -> str:
    """Text of a line in UTF-8, else Latin-1; LogError for binary content."""
    for encoding in ("utf-8", "latin-1"):
        try:
            text = line.decode(encoding).strip("\r\n ")
        except UnicodeDecodeError:
            continue
        if all(letter.isprintable() or letter == "\t" for letter in text):
            return text
    raise LogError(log, "not_csv", "the first line is not text: this is not a CSV file, or not in UTF-8")


def find_delimiter(line: str) -> str:
    """Return the most frequent of comma, semicolon and tab, else a space for any white space."""
    counts = {mark: line.count(mark) for mark in (",", ";", "\t")}
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] else " "


def split_line(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line without their quotes."""
    try:
        cells = (
            line.split() if delimiter == " " else next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
        )
    except csv.Error:  # a stray carriage return, or a cell without an end
        cells = line.split(delimiter)
    return [cell.strip().strip('"').strip() for cell in cells]


def _header_from_comments(log: str, comments: list[bytes], first: bytes) -> tuple[list[str], str] | None:
    """Column names and delimiter from the last comment line, where the first line after it has numbers."""
    line = next((line for line in reversed(comments) if line.strip()), None)
    if line is None or not first.strip():
        return None
    text, row = _decode_line(log, line).lstrip("#% "), _decode_line(log, first)
    delimiter = find_delimiter(text)
    names, cells = split_line(text, delimiter), split_line(row, delimiter)
    if len(cells) == 1 and delimiter == " ":
        delimiter = find_delimiter(row)
        cells = split_line(row, delimiter)
    has_numbers = any(cell and is_number(cell.replace(",", ".")) for cell in cells)
    if len(names) != len(cells) or len(names) < 2 or not has_numbers or any(is_number(name) for name in names):
        return None
    return names, delimiter


BLOCK = 8 << 20
NEWLINE = b"\n"
_DATE = re.compile(r"\d{1,4}[-:/]\d{1,2}[-:/ T]")
_ROW_BYTES = 512
_WORKERS = 2


@dataclass(frozen=True, slots=True)
class TextTable:
    """A CSV file; its header was read, its samples are read again for every call of `batches`.

    part: the rows that count; what stands in other lines does not matter.
    """

    path: Path
    header: TextHeader
    part: RowRange = ALL_ROWS
    left_out: list[Message] = field(default_factory=list, compare=False)

    @property
    def name(self) -> str:
        """Name of the file."""
        return str(self.path)

    @property
    def fields(self) -> tuple[Field, ...]:
        """Fields of the table: its named columns."""
        header = self.header
        units = dict(zip(header.columns, header.units, strict=True)) if header.units else {}
        units |= {header.columns[k]: "ns" for k in header.clocks}
        return tuple(
            Field(
                name,
                (),
                units.get(name) or None,
                _why_lists_are_no_numbers(header.texts.get(name, ())),
                header.texts.get(name, ()),
            )
            for name in header.columns
            if name
        )

    @property
    def twice(self) -> frozenset[str]:
        """Names that the header gives to more than one column."""
        return self.header.twice

    @property
    def notes(self) -> tuple[Message, ...]:
        """Notes on how the header was read."""
        return self.header.notes

    def batches(self, wanted: tuple[Wanted, ...], rows: int) -> Iterator[Batch]:
        """Yield the file block by block: at most four blocks of 8 MiB are in memory."""
        size = min(max(rows * _ROW_BYTES, HEAD), BLOCK)
        parser = _parse_without_polars if is_polars_without_threads() else _parse_block
        parse = partial(parser, self, tuple(column.name for column in wanted), size)
        waiting: deque[tuple[Future[pl.DataFrame | Batch], float]] = deque()
        with _open_binary(self.path) as file, ThreadPoolExecutor(_WORKERS) as pool:
            blocks = self._blocks_in_range(_blocks_of_whole_lines(self.name, file, self.header, size))
            for number, (block, done) in enumerate(blocks):
                if done == 1.0:
                    block = self._drop_truncated_line(block, size, number)
                if not block or block.isspace():
                    continue
                waiting.append((pool.submit(parse, number, block), done))
                if len(waiting) > _WORKERS:
                    yield from _next_batches(waiting, rows)
            while waiting:
                yield from _next_batches(waiting, rows)

    def _blocks_in_range(self, blocks: Iterator[tuple[bytes, float]]) -> Iterator[tuple[bytes, float]]:
        """Yield blocks in which lines outside of the range are blank."""
        if self.part == ALL_ROWS:
            yield from blocks
            return
        seen, first, last = 0, self.part.first - 1, self.part.last
        for block, done in blocks:
            count = _count_rows(block)
            if first >= seen + count:
                yield b"", done
            elif first <= seen and (last is None or last >= seen + count):
                yield block, done
            else:
                yield _blank_rows(block, first - seen, None if last is None else last - seen), done
            seen += count
            if last is not None and seen >= last:
                return
        self.part.check_end(self.name, seen)

    def first_line(self, size: int, number: int) -> int:
        """Number of the line that a block begins with, counting from 1; only errors need it."""
        with _open_binary(self.path) as file:
            before = islice(_blocks_of_whole_lines(self.name, file, self.header, size), number)
            return self.header.lines + 1 + sum(block.count(NEWLINE) for block, _ in before)

    def lines(self, rows: Sequence[int]) -> str:
        """Text on the lines of rows, both in increasing order; rows count from 0."""
        return f"line {', '.join(map(str, self.line_numbers(rows)))}"

    def line_numbers(self, rows: Sequence[int]) -> list[int]:
        """Numbers of the lines of rows, both in increasing order; rows count from 0, lines from 1."""
        found: list[int] = []
        with _open_binary(self.path) as file:
            row = -self.part.first
            for number, line in enumerate(file, start=1):
                row += number > self.header.lines and bool(line.strip()) and not line.startswith(b"#")
                if row == rows[len(found)]:
                    found.append(number)
                if len(found) == len(rows):
                    break
        return found

    def _drop_truncated_line(self, block: bytes, size: int, number: int) -> bytes:
        """Block without a last line that was cut off: too few cells, or a number that is none or short."""
        before, newline, last = block.rpartition(NEWLINE)
        header, count = self.header, len(self.header.columns)
        cells = _split_cells(last, header)
        if not last.strip() or last.startswith(b"#") or len(cells) > count:
            return block
        lines = (_split_cells(line, header) for line in before[-64 * len(last) :].split(NEWLINE)[1:])
        above = [line for line in lines if len(line) == count]
        is_cut = above and _is_number_cell(above[-1][-1], header) and not _is_number_cell(cells[-1], header)
        is_short = len(above) > 9 and len(cells[-1]) < min(len(line[-1]) for line in above)
        if len(cells) == count and not is_cut and not is_short:
            return block
        line = self.first_line(size, number) + block.count(NEWLINE)
        what = "line {line}, the last one, is incomplete (cut off while writing?): left out"
        self.left_out[:] = [Message("last_line_incomplete", what, line=line)]
        return before + newline


def _count_rows(block: bytes) -> int:
    """Number of lines of a block that are neither blank nor comments."""
    indented = b"\n " in block or b"\n\t" in block
    if any(mark in block for mark in (b"#", b"\n\n", b"\n\r")) or block[:1].isspace() or indented:
        return sum(bool(line.strip()) and not line.startswith(b"#") for line in block.split(NEWLINE))
    return block.count(NEWLINE) + (not block.endswith(NEWLINE))


def _blank_rows(block: bytes, first: int, last: int | None) -> bytes:
    """The block with blank lines in place of the rows before `first` and from `last` on, both counted from 0."""
    lines, row = block.split(NEWLINE), -1
    for k, line in enumerate(lines):
        if line.strip() and not line.startswith(b"#"):
            row += 1
            if row < first or (last is not None and row >= last):
                lines[k] = b""
    return NEWLINE.join(lines)


def open_text(
    path: Path, names: tuple[str, ...] = (), numbers: frozenset[int] = frozenset(), part: RowRange | None = None
) -> TextTable:
    """Open a CSV file and read its header, or take the user's names or numbers of columns."""
    with _open_binary(path) as file:
        try:
            header = read_header(str(path), file, format_hint_from_content(path), names, numbers)
            return TextTable(path, header, part or ALL_ROWS)
        except (OSError, EOFError, zlib.error) as error:
            raise _damage_error(str(path), error, format_hint_from_content(path)) from error


def _open_binary(path: Path) -> BinaryIO:
    """Open a plain or gzipped file for reading bytes."""
    try:
        return open_gzip(path) if path.suffix.lower() == ".gz" else path.open("rb")
    except OSError as error:
        raise LogError(
            str(path), "file_unreadable", "cannot be opened: {strerror}", strerror=error.strerror or error,
        ) from error  # fmt: skip


def _damage_error(log: str, error: Exception, hint: str = "") -> LogError:
    """Error on a file that cannot be read or inflated."""
    if isinstance(error, gzip.BadGzipFile):
        return LogError(log, "not_gzip", "this is not a gzip file, or it is damaged{hint}", hint=hint)
    if isinstance(error, (EOFError, zlib.error)):
        return LogError(log, "gzip_damaged", "the gzip data are cut off or damaged", "copy the file again")
    return LogError(log, "file_unreadable", "cannot be read: {reason}", reason=str(error))


def _blocks_of_whole_lines(log: str, file: BinaryIO, header: TextHeader, size: int) -> Iterator[tuple[bytes, float]]:
    """Yield blocks of whole lines, and the share of the file's bytes that was read: 1 with the last block alone."""
    try:
        for _ in range(header.lines):
            file.readline()
        block = file.read(size)
        while block:
            if not block.endswith(NEWLINE):
                rest = file.readline(HEAD)
                if len(rest) == HEAD and not rest.endswith(NEWLINE):
                    raise LogError(log, "not_text_table", "a line is longer than a megabyte: this is not a text table")
                block += rest
            done = _share_read(log, file)
            following = file.read(size)
            yield block, 1.0 if not following else min(done, np.nextafter(1.0, 0.0))
            block = following
    except (OSError, EOFError, zlib.error) as error:
        raise _damage_error(log, error) from error


def _share_read(log: str, file: BinaryIO) -> float:
    """Bytes that were read over the size of the file, as it is packed."""
    raw = getattr(file, "raw", None)
    position = raw.position() if isinstance(raw, _GzipStream) else file.tell()
    return float(position / max(Path(log).stat().st_size, 1))


def _next_batches(waiting: deque[tuple[Future[pl.DataFrame | Batch], float]], rows: int) -> Iterator[Batch]:
    """Yield the batches of the block that was read first."""
    block, done = waiting.popleft()
    for batch in _batches_from_frame(block.result(), rows):
        yield Part(batch, done)


def _batches_from_frame(frame: pl.DataFrame | Batch, rows: int) -> Iterator[Batch]:
    """Yield a parsed block in batches; missing integer stamps become the number that stands for none."""
    if isinstance(frame, Mapping):
        for start in range(0, len(next(iter(frame.values()))), rows):
            yield {name: values[start : start + rows] for name, values in frame.items()}
        return
    for part in frame.iter_slices(rows):
        yield {c.name: (c.fill_null(NO_STAMP) if c.dtype.is_integer() else c).to_numpy() for c in part}


def _drop_blank_lines(block: bytes) -> bytes:
    """Block without blank lines, which polars does not skip."""
    return re.sub(rb"\n(?:[ \t]*\r?\n)+", b"\n", block).lstrip(b"\r\n")


def _strip_cells(block: bytes, delimiter: str) -> bytes:
    """Block without blanks and tabs around cells; where white space is the delimiter, any of it becomes one blank."""
    if delimiter == " ":
        return re.sub(rb" ?\r?\n ?", b"\n", re.sub(rb"[ \t]+", b" ", block)).strip(b" ")
    blank = b" " if delimiter == "\t" or b"\t" not in block else b" \t"
    if blank == b" " and b" " not in block:
        return block
    mark = re.escape(delimiter.encode())
    # A run of blanks is looked at once, from its first: else a long one would cost the square of its length.
    around = rb"(?<![%b])[%b]++(?=[\r\n%b])|(?<=[\n%b])[%b]++" % (blank, blank, mark, mark, blank)
    return re.sub(around, b"", block).strip(blank)


def _parse_block(table: TextTable, names: tuple[str, ...], size: int, number: int, block: bytes) -> pl.DataFrame:
    """Parse a block to the named columns; a cell that is not a number is an error with its line.

    A block is taken to be clean first. Where it does not parse, or the last column has holes, as it does for short
    and blank lines, it is cleaned, parsed again and checked line by line.
    """
    import polars as pl

    header = table.header
    places = [header.columns.index(name) for name in names]
    last = f"column_{len(header.columns)}"
    if (empty := _read_empty_rows(header, places, block)) is not None:
        return empty
    spaced = _strip_cells(block, header.delimiter)
    try:
        frame = _parse_cells(header, places, spaced, ())
        whole = not frame[last].null_count()
    except pl.exceptions.PolarsError:
        whole = False
    if not whole:
        try:
            filled = _drop_blank_lines(spaced)
            frame = _cells_with_missing_stamps(header, places, filled)
            doubtful = bool(frame[last].null_count()) and not _has_all_cells(header, filled)
        except pl.exceptions.PolarsError as error:
            line = table.first_line(size, number)
            _raise_first_fault(table.name, header, places, line, block)
            reason = str(error).partition("\n")[0]
            raise LogError(
                table.name, "line_unreadable", "a line after line {line} cannot be read: {reason:.200}", line=line - 1,
                reason=reason,
            ) from error  # fmt: skip
        if doubtful:
            _raise_first_fault(table.name, header, [], table.first_line(size, number), block)
    found = frame.select(pl.col(f"column_{k + 1}").alias(header.columns[k]) for k in places)
    clocks = [header.columns[k] for k in places if k in header.clocks]
    try:
        return found.with_columns(pl.Series(name, _parse_clock_times(found[name].to_list())) for name in clocks)
    except ValueError:
        _raise_first_fault(table.name, header, places, table.first_line(size, number), block)
        raise


def _read_empty_rows(header: TextHeader, places: list[int], block: bytes) -> pl.DataFrame | None:
    """Rows of a block in which every cell is empty, as megabytes of commas in a small gzip file; None for others."""
    import polars as pl

    nothing = header.delimiter.encode() + b" \r\n"
    if header.delimiter == " " or block[:64].strip(nothing) or block.translate(None, nothing):
        return None
    filled = _drop_blank_lines(block.replace(b" ", b""))
    if not _has_all_cells(header, filled):
        return None
    rows = filled.count(NEWLINE) + (not filled.endswith(NEWLINE))
    kinds = {k: pl.Int64 if k in header.stamps or k in header.clocks else pl.Float64 for k in places}
    return pl.DataFrame([pl.repeat(None, rows, dtype=kinds[k], eager=True).alias(header.columns[k]) for k in places])


def _has_all_cells(header: TextHeader, block: bytes) -> bool:
    """Whether every line has as many cells as the header; False also where quotes or comments leave it open."""
    if header.quoted or b"#" in block:
        return False
    data = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(data == ord(NEWLINE))
    ends = ends if block.endswith(NEWLINE) else np.append(ends, len(data))
    marks = np.searchsorted(np.flatnonzero(data == ord(header.delimiter)), ends)
    return bool((np.diff(marks, prepend=0) == len(header.columns) - 1).all())


def _parse_clock_times(words: Sequence[str | None]) -> Numbers:
    """Whole ns of texts; raises ValueError where one is not a time."""
    stamps = [NO_STAMP if not word or word in MISSING else parse_clock_time(word) for word in words]
    if None in stamps:
        raise ValueError("a cell is not a time")
    return np.array(stamps, dtype=np.int64)


def _cells_with_missing_stamps(header: TextHeader, places: list[int], block: bytes) -> pl.DataFrame:
    """Cells of a block in which some are missing; a stamp may be a number that is not an integer."""
    import polars as pl

    try:
        return _parse_cells(header, places, block, MISSING)
    except pl.exceptions.PolarsError:
        if header.stamps.isdisjoint(places):
            raise
    frame = _parse_cells(header, places, block, MISSING, pl.Float64)
    exact = _parse_cells(header, places, block, MISSING, pl.String)
    stamps = [f"column_{k + 1}" for k in header.stamps.intersection(places)]
    whole = [pl.coalesce(exact[c].cast(pl.Int64, strict=False), frame[c].cast(pl.Int64, strict=False)) for c in stamps]
    return frame.with_columns(column.alias(name) for name, column in zip(stamps, whole, strict=True))


def _parse_cells(
    header: TextHeader,
    places: list[int],
    block: bytes,
    missing: tuple[str, ...],
    stamps: type[pl.DataType] | None = None,
) -> pl.DataFrame:
    """Parse the given columns of a block by polars; missing: words for missing cells; stamps: type of the time."""
    import polars as pl

    count = len(header.columns)
    kinds = {k: (stamps or pl.Int64) if k in header.stamps else pl.Float64 for k in {*places} - header.clocks}
    return pl.read_csv(
        block,
        has_header=False,
        schema={f"column_{k + 1}": kinds.get(k, pl.String) for k in range(count)},
        columns=[f"column_{k + 1}" for k in sorted({*places, count - 1})],
        separator=header.delimiter,
        quote_char='"' if header.quoted else None,
        comment_prefix="#" if b"#" in block else None,
        null_values=list(missing) or None,
        decimal_comma=header.decimal_comma,
    )


def _parse_without_polars(table: TextTable, names: tuple[str, ...], size: int, number: int, block: bytes) -> Batch:
    """Parse a block to the same numbers cell by cell, for a process that lacks polars' threads; some times slower."""
    header = table.header
    places = [header.columns.index(name) for name in names]
    text = _drop_blank_lines(_strip_cells(block, header.delimiter)).decode("utf-8", "replace")
    lines = [line for line in text.replace("\r", "").split("\n") if line.strip(" ") and not line.startswith("#")]
    cells = [split_line(line, header.delimiter) if header.quoted else line.split(header.delimiter) for line in lines]
    try:
        if any(len(row) != len(header.columns) for row in cells):
            raise ValueError("a line with too few or too many cells")
        words = {k: [row[k] for row in cells] for k in places}
        return {
            header.columns[k]: _parse_clock_times(words[k]) if k in header.clocks
            else _parse_words(words[k], header, k in header.stamps)
            for k in places
        }  # fmt: skip
    except (ValueError, OverflowError) as error:
        line = table.first_line(size, number)
        _raise_first_fault(table.name, header, places, line, block)
        raise LogError(
            table.name, "line_unreadable", "a line after line {line} cannot be read: {reason:.200}", line=line - 1,
            reason=str(error),
        ) from error  # fmt: skip


def _parse_words(words: list[str], header: TextHeader, is_stamp: bool) -> Numbers:
    """Numbers of cells as an array; stamps as integers."""
    if header.decimal_comma:
        words = [word.replace(",", ".") for word in words]
    if not all(map(is_number, words)):
        raise ValueError("a cell is not a number")
    holes = [not word or word in MISSING for word in words]
    if is_stamp:
        stamps = [NO_STAMP if hole else _parse_stamp(word) for word, hole in zip(words, holes, strict=True)]
        return np.array(stamps, dtype=np.int64)
    return np.array([np.nan if hole else float(word) for word, hole in zip(words, holes, strict=True)])


def _parse_stamp(word: str) -> int:
    """A stamp as polars casts it: a number that is not an integer loses its fraction, one out of range is none."""
    try:
        value = int(word)
    except ValueError:
        number = float(word)
        value = int(number) if np.isfinite(number) else NO_STAMP
    return value if -(2**63) <= value < 2**63 else NO_STAMP


def _split_cells(line: bytes, header: TextHeader) -> list[str]:
    """Cells of a line, as the header is delimited and quoted."""
    text = line.decode("utf-8", "replace").strip("\r" if header.delimiter == "\t" else "\r ")
    if header.quoted:
        return split_line(text, header.delimiter)
    return text.split() if header.delimiter == " " else text.split(header.delimiter)


def _is_number_cell(cell: str, header: TextHeader) -> bool:
    """Whether a cell is a number in the file's notation (decimal comma or point)."""
    return is_number(cell.replace(",", ".") if header.decimal_comma else cell)


def _raise_first_fault(log: str, header: TextHeader, places: list[int], line: int, block: bytes) -> None:
    """Raise for the first line with too few or too many cells, or a cell of the given columns that is not a number."""
    count = len(header.columns)
    for number, raw in enumerate(block.split(NEWLINE), start=line):
        if not raw.strip() or raw.startswith(b"#"):
            continue
        cells = _split_cells(raw, header)
        if len(cells) != count:
            raise LogError(
                log, "cell_count_mismatch", "line {line} has {cells} cells, the header has {columns} columns",
                _guess_cell_mistake(len(cells), count, header.delimiter) or _OTHER_ROWS, line=number, cells=len(cells),
                columns=count, rows=Option("rows"),
            )  # fmt: skip
        for place in places:
            cell = cells[place].strip()
            if not (parse_clock_time(cell) is not None if place in header.clocks else _is_number_cell(cell, header)):
                shown = cell if len(cell) <= 40 else cell[:37] + "..."
                units = "if this line gives the units, delete it and write them as 'q1 [deg]' in the header"
                dates = "write times as seconds" if _DATE.match(cell) else ""
                told = units if number == header.lines + 1 and not any(map(is_number, filter(None, cells))) else ""
                raise LogError(
                    log, "values_not_numeric", "line {line}, column '{column}': {cell!r} is not a number",
                    dates or told or _OTHER_ROWS, line=number, column=header.columns[place], cell=shown,
                    rows=Option("rows"),
                )  # fmt: skip


_OTHER_ROWS = "correct it, or use other rows with {rows}"


def _guess_cell_mistake(cells: int, count: int, delimiter: str) -> str:
    """Text on what may be wrong with a line of too few or too many cells."""
    if delimiter == "," and count < cells <= 2 * count:
        return "decimal commas need another mark between the cells, such as ;"
    return ""
