"""The user's own mapping of channels to columns, which overrides all matching by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dynid.errors import LogError
from dynid.logs.column_names import LABELS, ColumnNameReader, Meaning, reaction_channels, split_tokens, split_unit
from dynid.logs.readers.table import Field, numbered_columns
from dynid.messages import ANYTHING, Option, Wording
from dynid.robot.locking import may_lack_last_joints
from dynid.robot.robot import Robot

OPTION = Wording("columns", "--column")
KEYS = ("t", "q", "v", "a", "tau", "reaction", "q_cmd", "v_cmd", "tau_ff", "pwm")
_SINGLE = re.compile(r"^(?P<channel>q_cmd|v_cmd|tau_ff|pwm|q|v|a|tau)(?:(?P<number>\d+)|[._\[](?P<name>[^\]]+)\]?)$")
_REPEATED = re.compile(r"(?P<name>[^*]*[^*\s][^*]*?)\s*(?:\*\s*(?P<count>\d{1,6}))?")
_NUMBERS = re.compile(r"(?P<first>\d{1,6})(?::(?P<last>\d{1,6}))?")
_BRACKETS = re.compile(r"[\[(]([^\])]*)[\])]$")
MOST_COLUMNS = 100_000
_SLICE = re.compile(r"^(?P<name>.+)\[(?:\s*:\s*,\s*(?P<column>\d+)|\s*(?P<row>\d+)\s*,\s*:)\s*\]$")
_SLICES = re.compile(r"^(?P<name>.+)\[\s*:\s*,\s*(?P<first>\d{1,6})?\s*:\s*(?P<last>\d{1,6})?\s*\]$")


@dataclass(frozen=True, slots=True)
class ColumnPlace:
    """Where the numbers of one slot are: a field, and the column of it where it is a matrix."""

    field: str
    column: int | None = None


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """The mapping, checked: whole channels (a field or one place per joint), single slots, and what is left out."""

    whole: Mapping[str, str | tuple[ColumnPlace, ...]] = field(default_factory=dict)
    single: Mapping[tuple[str, int], ColumnPlace] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()


def parse_header(log: str, header: object, robot: Robot) -> tuple[str, ...]:
    """Return the names of columns that `t,q*7,_*3,tau*7` or a sequence of such names means; `_` becomes ''."""
    option = Wording("header", "--header")
    parts = header.split(",") if isinstance(header, str) else list(header) if isinstance(header, Sequence) else [header]
    reader, names = ColumnNameReader(robot), list[str]()
    for part in parts:
        match = _REPEATED.fullmatch(part.strip()) if isinstance(part, str) else None
        if match is None or not 1 <= int(match["count"] or 1) <= MOST_COLUMNS:
            raise LogError(
                log, "header_malformed", "{option}: cannot read {part!r}", "write the columns' names, such as "
                "t,q*7,_*3,tau*7: name*7 numbers seven of them, _ skips one", option=option, part=str(part)[:60],
            )  # fmt: skip
        name, count = match["name"].strip(), int(match["count"] or 1)
        plain, unit = split_unit(name)
        meaning = reader.read_name(name)
        bare = meaning is not None and meaning.joint is None and meaning.number is None and not meaning.words
        if meaning and bare and match["count"] and meaning.channel in ("q", "v", "a", "tau") and count > robot.n:
            raise LogError(
                log, "joint_count_mismatch", "{option}: {part!r} names {count} columns, the robot '{robot}' has {n} "
                "joints", "write {name}*{n}, and _ for columns of other joints", option=option, part=match[0],
                count=count, robot=robot.name, n=robot.n, name=name,
            )  # fmt: skip
        if unit is None and count > 1 and (strange := _BRACKETS.search(name)):
            raise LogError(
                log, "unknown_unit", "{option}: {part!r}: '{unit}' is no known unit", "write a unit such as deg or "
                "Nmm, or leave it out", option=option, part=match[0], unit=strange[1],
            )  # fmt: skip
        end = "" if unit is None else f" [{unit}]"
        numbered = [f"{plain}{k}{end}" for k in range(1, count + 1)] if count > 1 else [name]
        names += [""] * count if name == "_" else numbered
    twice = [name for k, name in enumerate(names) if name and name in names[:k]]
    if twice:
        raise LogError(
            log, "column_name_twice", "{option} names '{name}' twice", "write _ for columns to be skipped",
            option=option, name=twice[0],
        )  # fmt: skip
    return tuple(names)


def column_numbers(value: object) -> tuple[int, ...]:
    """Return the numbers, counted from 1, that `3`, `"2:8"` or a list with such means; nothing for names."""
    if isinstance(value, (list, tuple, range)):
        return tuple(number for part in value for number in column_numbers(part))
    if isinstance(value, str) and (match := _NUMBERS.fullmatch(value.strip())):
        first = int(match["first"])
        return tuple(range(first, int(match["last"] or first) + 1))
    return (value,) if isinstance(value, int) and not isinstance(value, bool) else ()


def mapped_column_numbers(columns: object) -> dict[int, str]:
    """Numbers of all columns in a mapping, with the channel that each is for."""
    found: dict[int, str] = {}
    for key, value in columns.items() if isinstance(columns, Mapping) else ():
        found |= {number: found.get(number, str(key)) for number in column_numbers(value)}
    return found


def distinguishing_prefixes(stems: Sequence[str]) -> list[str]:
    """Prefixes of column names where several files of a recording have them: state.q1 and drives.q1."""
    return [x if stems.count(x) == 1 else f"{x}{1 + stems[:k].count(x)}" for k, x in enumerate(stems)]


def column_numbers_of_file(columns: object, prefix: str) -> dict[str, list[str]]:
    """Numbers that a mapping gives for one file: `2:8` of `state.2:8`, and a time `1`, which counts in each."""
    found: dict[str, list[str]] = {}
    for key, value in columns.items() if isinstance(columns, Mapping) else ():
        words = [str(word) for word in (value if isinstance(value, (list, tuple)) else [value])]
        own = [text for word in words if (text := _number_in_file(word, prefix, key))]
        found |= {str(key): own} if own else {}
    return found


def _number_in_file(word: object, prefix: str, key: str) -> str:
    """Number or range after the name of a file, `2:8` of `state.2:8`; else ''."""
    text = str(word)
    own = text.removeprefix(f"{prefix}.")
    return own if (own != text or key == "t") and _NUMBERS.fullmatch(own) else ""


def name_numbers_in_files(
    log: str, columns: Mapping[str, object], files: Sequence[tuple[str, str, Sequence[Field]]]
) -> dict[str, object]:
    """Return a mapping for several files (prefix, name, fields of each) with names in place of numbers."""
    tables = [(prefix, name, {one.name: one for one in fields}) for prefix, name, fields in files]
    for prefix, name, fields in tables:
        _check_numbers(name, column_numbers_of_file(columns, prefix), fields)
    found: dict[str, object] = {}
    for key, value in columns.items():
        named: list[object] = []
        for word in value if isinstance(value, (list, tuple)) else [value]:
            counts = [(x, name, fields, own) for x, name, fields in tables if (own := _number_in_file(word, x, key))]
            if any(word in fields for _, _, fields in tables) or (not counts and not column_numbers(word)):
                named.append(word)
            elif not counts:
                raise LogError(
                    log, "numbers_not_applicable", "{option}: {number} could count the columns of any of the files "
                    "{files}", "say which with {columns}", option=OPTION, number=str(word),
                    files=[name for _, name, _ in tables], columns=Option("columns", {key: f"{tables[0][0]}.{word}"}),
                )  # fmt: skip
            for prefix, name, fields, own in counts:
                names = _expand_numbers(name, own, fields)
                named += [f"{prefix}.{x}" for x in (names if isinstance(names, list) else [names])]
        found[key] = named if isinstance(value, (list, tuple)) or len(named) != 1 else named[0]
    return found


def _check_numbers(log: str, columns: Mapping[str, Any], fields: Mapping[str, Field]) -> None:
    """Raise for a number that is given to two channels."""
    for key, value in columns.items():
        if isinstance(value, str) and value in fields:
            continue
        for number in column_numbers(value):
            if (other := mapped_column_numbers(columns)[number]) != key:
                raise LogError(
                    log, "columns_overlap", "{option}: column {number} is given to {other} and to {key}",
                    "count the columns from 1, the last one included", option=OPTION, number=number, other=other,
                    key=key,
                )  # fmt: skip


def _expand_numbers(log: str, value: object, fields: Mapping[str, Field]) -> object:
    """A value of the mapping with names in place of numbers; a column that is called so comes before its number."""
    if isinstance(value, (list, tuple, range)):
        parts = [_expand_numbers(log, part, fields) for part in value]
        return [name for part in parts for name in (part if isinstance(part, list) else [part])]
    if isinstance(value, str) and value not in fields and (part := _SLICES.match(value)) and part["name"] in fields:
        shape = fields[part["name"]].shape
        return [f"{part['name']}[:, {k}]" for k in range(int(part["first"] or 0), int(part["last"] or min(shape)))]
    if isinstance(value, str) and (value in fields or not _NUMBERS.fullmatch(value.strip())):
        return value
    if not isinstance(value, int | str) or isinstance(value, bool):
        return value
    numbers, columns = column_numbers(value), numbered_columns(tuple(fields.values()))
    strange = [one.name for k, (one, _) in enumerate(columns, 1) if one.name.isdigit() and one.name != str(k)]
    if strange:
        raise LogError(
            log, "ambiguous_column", "{option}: {value!r} could count the columns or be their names, {found:20}",
            "name the columns with {header}", option=OPTION, value=value, found=strange, header=Option("header"),
        )  # fmt: skip
    if not columns:
        raise LogError(
            log, "numbers_not_applicable", "{option}: {value!r} counts the columns of one table, but the file holds "
            "arrays: {found:20}", "name them, as NAME or NAME[:, 0]", option=OPTION, value=value, found=list(fields),
        )  # fmt: skip
    if not numbers or not 1 <= min(numbers) <= max(numbers) <= len(columns):
        raise LogError(
            log, "unknown_column", "{option}: {value!r} is no range of columns; the file has {count}, counted from 1",
            "write FIRST:LAST, both included", option=OPTION, value=value, count=len(columns),
        )  # fmt: skip
    places = [columns[number - 1] for number in numbers]
    names: list[object] = [one.name if column is None else f"{one.name}[:, {column}]" for one, column in places]
    return names if len(names) > 1 else names[0]


def find_column_place(log: str, name: object, fields: Mapping[str, Field]) -> ColumnPlace:
    """Return the place that a name in a mapping means: a column, `array`, `array[:, 2]` or `array[2, :]`."""
    if not isinstance(name, str):
        raise LogError(log, "column_name_not_text", "columns must map to names of columns, got {value!r}", value=name)
    dotted = name.strip("/").replace("/", ".")
    for spelling in (name, dotted):
        if spelling in fields:
            return ColumnPlace(_check_field_usable(log, fields[spelling]).name)
    part = _SLICE.match(name)
    if part and (part["name"] in fields):
        shape = _check_field_usable(log, fields[part["name"]]).shape
        axis = 1 if part["row"] is None else 0
        index = int(part["column"] if part["row"] is None else part["row"])
        if len(shape) == 2 and index < shape[axis]:
            return ColumnPlace(part["name"], index)
    raise LogError(
        log, "unknown_column", "{option} names '{column}', which is not in the file; found {found:20}", column=name,
        option=OPTION, found=list(fields),
    )  # fmt: skip


def _check_field_usable(log: str, found: Field) -> Field:
    """Return the field; raise where it holds no numbers."""
    if found.problem:
        raise LogError(log, "column_unusable", "'{column}' {reason}", column=found.name, reason=found.problem)
    return found


def read_mapping(
    log: str, columns: Mapping[str, object] | None, robot: Robot, fields: Mapping[str, Field]
) -> ColumnMapping:
    """Check a mapping such as {"t": "time", "q": "rec.pos", "tau": ["i1", "i2"], "q3": "x", "v.elbow": "y"}."""
    if columns is not None and not isinstance(columns, Mapping):
        raise LogError(
            log, "columns_not_a_mapping", "columns must be a mapping from channels to names of columns, such as "
            "{{'t': 'clock'}}",
        )  # fmt: skip
    whole: dict[str, str | tuple[ColumnPlace, ...]] = {}
    single: dict[tuple[str, int], ColumnPlace] = {}
    absent: set[str] = set()
    _check_numbers(log, columns or {}, fields)
    for key, value in (columns or {}).items():
        value = _expand_numbers(log, value, fields)
        if key in KEYS:
            if value is None and key not in ("t", "q"):
                absent.add(key)
            elif isinstance(value, (list, tuple)):
                whole[key] = _find_places(log, key, value, robot, fields)
            else:
                place = find_column_place(log, value, fields)
                whole[key] = place.field if place.column is None else (place,)
        else:
            single[_find_channel_and_joint(log, key, robot)] = find_column_place(log, value, fields)
    return ColumnMapping(whole, single, frozenset(absent))


def _find_places(
    log: str, key: str, names: list[object] | tuple[object, ...], robot: Robot, fields: Mapping[str, Field]
) -> tuple[ColumnPlace, ...]:
    """Places of the columns that a mapping lists for a channel, one per joint."""
    count = {"t": 1, "reaction": len(reaction_channels(robot))}.get(key, robot.n)
    if len(names) != count and not (key in ("q", "v", "a", "tau") and may_lack_last_joints(robot, len(names))):
        raise LogError(
            log, "column_count_mismatch", "{option} gives {given} columns for {channel}, which needs {needed}",
            option=OPTION, given=len(names), channel=key, needed=count,
        )  # fmt: skip
    return tuple(find_column_place(log, name, fields) for name in names)


def _find_channel_and_joint(log: str, key: object, robot: Robot) -> tuple[str, int]:
    """Channel and joint index of a key such as q3 or v.elbow."""
    match = _SINGLE.match(key) if isinstance(key, str) else None
    if match is not None:
        if match["name"] in robot.joint_names:
            return match["channel"], robot.joint_names.index(match["name"])
        text = match["number"] or match["name"]
        if text.isdigit() and 1 <= int(text) <= robot.n:
            return match["channel"], int(text) - 1
    raise LogError(
        log, "unknown_column_key", "{option} has no key {key!r}", "use {keys}, q1 to q{n}, or q.<joint> with the "
        "joints {joints}", option=OPTION, key=key, keys=KEYS, n=robot.n, joints=robot.joint_names,
    )  # fmt: skip


# Recordings in a folder of their file: a group of HDF5, a struct of MAT, a common beginning of the names.


def read_field_names(log: str, fields: Iterable[str], names: ColumnNameReader, given: str | None) -> dict[str, Meaning]:
    """Return what the names of fields say, those in the folder of the time as if they stood outside.

    given: the time, where the user names it; it decides between recordings where a file holds several.
    """
    fields = tuple(fields)
    plain = {entry: meaning for entry in fields if (meaning := names.read_name(entry)) is not None}
    if given is None:
        if any(meaning.channel == "t" for meaning in plain.values()):
            return plain
        times = [entry for entry in fields if _time_folder(entry, names)]
        if len(times) > 1:
            raise LogError(
                log, "ambiguous_recording", "there are several recordings in it, with the times {found:20}",
                "say which with {columns}", found=times, columns=Option("columns", {"t": ANYTHING}),
            )  # fmt: skip
        given = times[0] if times else ""
    folder = _time_folder(given, names) or folder_of_field(given)
    return _meanings_in_folder(plain, fields, names, folder) if folder else plain


def folder_of_field(name: str) -> str:
    """Part of a name before its last dot or slash, with it; '' where there is but one part."""
    return name[: len(name) - len(_name_endings(name)[-1])]


def _name_endings(name: str) -> list[str]:
    """Endings of a name that begin after a dot or a slash, and the name itself, longest first."""
    return [name, *(name[place.end() :] for place in re.finditer(r"[./]+(?=[^./])", name) if place.start())]


def _time_folder(name: str, names: ColumnNameReader) -> str:
    """The folder in which a field is the time, '' where it is none."""
    for part in _name_endings(name)[1:]:
        meaning = names.read_name(part)
        if meaning is not None and meaning.channel == "t":
            return name[: len(name) - len(part)]
    return ""


def _meanings_in_folder(
    plain: Mapping[str, Meaning], fields: tuple[str, ...], names: ColumnNameReader, folder: str
) -> dict[str, Meaning]:
    """Meanings with those of a folder read without its name; they hide the same channels outside of it."""
    found: dict[str, Meaning] = {}
    if not LABELS.isdisjoint(split_tokens(folder)):  # the folder of one joint
        return dict(plain)
    for entry in fields:
        whole = plain.get(entry)
        if not entry.startswith(folder) or (whole is not None and whole.joint is not None):
            continue
        short = names.read_name(entry[len(folder) :], entry)
        if short is not None:
            found[entry] = short
    hidden = {meaning.channel for meaning in found.values()}
    return found | {
        entry: meaning for entry, meaning in plain.items() if entry not in found and meaning.channel not in hidden
    }
