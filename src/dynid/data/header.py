"""The beginning of a CSV file: comments, delimiter, header, and how its numbers are written."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from typing import BinaryIO

from dynid.errors import LogError

HEAD = 1 << 20
_PREAMBLE = 200
# What stands for a missing number, besides nan and an empty cell.
MISSING = ("null", "NULL", "Null", "None", "NA", "N/A", "n/a", "#N/A", "-nan(ind)", "nan(ind)")
_STAMP = re.compile(rb"^[+-]?\d{17,19}$")


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a text file; `delimiter` ' ' is any white space. `lines` come before the first sample.

    `stamps` are the columns most of whose first numbers are integers too long for a float.
    """

    columns: tuple[str, ...]
    delimiter: str
    lines: int
    decimal_comma: bool = False
    quoted: bool = False
    stamps: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()


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


def read_header(log: str, file: BinaryIO, hint: str) -> Header:
    """Read the header and look at the first sample; leaves the file somewhere after them."""
    head = file.read(HEAD)
    if not head:
        raise LogError(log, "the file is empty")
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise LogError(log, "this text is in UTF-16; save it as UTF-8 (iconv -f UTF-16 -t UTF-8 does it)")
    if b"\x00" in head:
        raise LogError(log, f"this is no text but binary data{hint}")
    if b"\n" not in head and len(head) == HEAD:
        raise LogError(log, f"there is no end of a line in the first megabyte: no table of text{hint}")
    lines = head.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    skipped = 0
    while skipped < len(lines) and (not lines[skipped].strip() or lines[skipped].startswith(b"#")):
        skipped += 1
    if skipped == len(lines):
        raise LogError(log, "there is no header and no sample in it")
    skipped = _after_preamble(lines, skipped)
    first = _decode(log, lines[skipped])
    delimiter = find_delimiter(first)
    columns = split_line(first, delimiter)
    used, notes = skipped + 1, []
    if all(is_number(name) for name in columns):
        columns = _commented_header(log, lines[:skipped], len(columns))
        used, notes = skipped, ["the header is the last line of comment before the numbers"]
    _check_unique(log, columns)
    sample = next((line for line in lines[used:] if line.strip() and not line.startswith(b"#")), b"")
    comma = delimiter == ";" and b"," in sample and b"." not in sample
    if comma:
        notes.append("decimal commas")
    mark = delimiter.encode() if delimiter != " " else None
    samples = [line.strip().split(mark) for line in lines[used : used + _PREAMBLE] if not line.startswith(b"#")]
    whole = [cells for cells in samples if len(cells) == len(columns)]
    long = [sum(bool(_STAMP.match(cells[k].strip())) for cells in whole) for k in range(len(columns))]
    stamps = frozenset(k for k, count in enumerate(long) if count and 2 * count >= len(whole))
    return Header(tuple(columns), delimiter, used, comma, b'"' in sample, stamps, tuple(notes))


def _after_preamble(lines: list[bytes], first: int) -> int:
    """Return the line of the header: the first one, or the last before the numbers where lines of text come before it.

    These are told from a header by their number of cells, which is not that of the numbers.
    """
    before = first
    for k in range(first + 1, min(first + _PREAMBLE, len(lines))):
        if not lines[k].strip() or lines[k].startswith(b"#"):
            continue
        top, names, row = (lines[i].decode("latin-1").replace("\r", " ").strip() for i in (first, before, k))
        delimiter = find_delimiter(names)
        cells = split_line(row, delimiter)
        if len(cells) > 1 and all(is_number(cell.replace(",", ".")) for cell in cells):
            counts = [len(split_line(text, delimiter)) for text in (names, top)]
            return before if counts[0] == len(cells) != counts[1] else first
        before = k
    return first


def _decode(log: str, line: bytes) -> str:
    for encoding in ("utf-8", "latin-1"):
        try:
            text = line.decode(encoding).strip("\r\n ")
        except UnicodeDecodeError:
            continue
        if all(letter.isprintable() or letter == "\t" for letter in text):
            return text
    raise LogError(log, "the first line is no text: this is no CSV file, or not in UTF-8")


def find_delimiter(line: str) -> str:
    """Return the most frequent of comma, semicolon and tab, else a space for any white space."""
    counts = {mark: line.count(mark) for mark in (",", ";", "\t")}
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] else " "


def split_line(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line without their quotes."""
    cells = line.split() if delimiter == " " else next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
    return [cell.strip().strip('"').strip() for cell in cells]


def _commented_header(log: str, comments: list[bytes], count: int) -> list[str]:
    for line in reversed(comments):
        if line.strip():
            text = _decode(log, line).lstrip("# ")
            names = split_line(text, find_delimiter(text))
            if len(names) == count and not any(is_number(name) for name in names):
                return names
            break
    raise LogError(log, "the first line is all numbers: the columns have no names; write a header such as t,q1,q2,...")


def _check_unique(log: str, columns: list[str]) -> None:
    seen: set[str] = set()
    for name in columns:
        if name in seen and name:
            raise LogError(log, f"the header names the column '{name}' twice")
        seen.add(name)
