"""One way to write results to files and to read them: frozen dataclasses by their declared fields, as versioned JSON.

A field's type says what a file may hold; where that is not enough, `Annotated` adds a hook: `Bytes` and `Numbers` for
arrays, `Null` and `Limit` for single values, `Form` for how a class is laid out, `StoredAs` for one that is written as
another. Pydantic does the work, and is loaded with the first file. Nothing is ever executed.
"""

from __future__ import annotations

import base64
import errno
import json
import math
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import numpy as np

from dynid.concurrency import NEEDS_SPAWN, is_polars_without_threads
from dynid.errors import DynidError
from dynid.messages import Message

if TYPE_CHECKING:
    from polars import DataFrame

LARGEST = 500_000_000
"""Bytes of a file that is still read."""

HUGE = 1e15
"""No length, mass or other figure of a robot is larger."""

DAMAGE = (DynidError, ValueError, TypeError, KeyError, IndexError, OverflowError, AttributeError)
"""What building values again from a damaged file may raise; pydantic's ValidationError is a ValueError."""

Data = dict[str, Any]


@dataclass(frozen=True)
class Bytes:
    """An array as the bytes of little-endian doubles, base64: exact and compact; NaN only where it need not be finite.

    dims: how many, one or two where it is not said.
    """

    dims: int | None = None
    finite: bool = False

    def __get_pydantic_core_schema__(self, source: object, handler: Any) -> Any:
        from pydantic_core import core_schema as s

        low, high = (1, 2) if self.dims is None else (self.dims, self.dims)
        entries = {
            "shape": s.list_schema(s.int_schema(ge=0, lt=10**9), min_length=low, max_length=high),
            "float64": s.str_schema(),
        }
        form = s.typed_dict_schema({k: s.typed_dict_field(v) for k, v in entries.items()}, extra_behavior="forbid")
        written = s.plain_serializer_function_ser_schema(self.write)
        return s.no_info_after_validator_function(self.read, form, serialization=written)

    def read(self, data: Data) -> object:
        """Array from its base64 text."""
        raw = base64.b64decode(data["float64"], validate=True)
        array = np.frombuffer(raw, dtype="<f8").astype(np.float64).reshape(data["shape"])
        if self.finite and not np.isfinite(array).all():
            raise ValueError("an array holds numbers that are not finite")
        return array

    @staticmethod
    def write(array: Any) -> Data:
        """Base64 text of an array."""
        data = np.ascontiguousarray(array, dtype="<f8")
        return {"shape": list(data.shape), "float64": base64.b64encode(data.tobytes()).decode("ascii")}


@dataclass(frozen=True)
class Numbers:
    """A small array of this shape (None: any length) as numbers that people can read, `null` for NaN where allowed."""

    shape: tuple[int | None, ...]
    unknown: bool = False
    dtype: type = float

    def __get_pydantic_core_schema__(self, source: object, handler: Any) -> Any:
        from pydantic_core import core_schema as s

        item: Any = s.bool_schema() if self.dtype is bool else s.float_schema(allow_inf_nan=False, ge=-HUGE, le=HUGE)
        form = s.nullable_schema(item) if self.unknown else item
        for size in reversed(self.shape):
            form = s.list_schema(form, min_length=size, max_length=size)
        written = s.plain_serializer_function_ser_schema(self.write)
        return s.no_info_after_validator_function(self.read, form, serialization=written)

    def read(self, data: list[Any]) -> object:
        """Array from a list of numbers."""
        array: Any = np.array(data, dtype=self.dtype)
        array.flags.writeable = False
        return array

    def write(self, array: Any) -> list[Any]:
        """List of numbers of an array."""
        numbers: list[Any] = np.asarray(array).tolist()
        return [None if x != x else x for x in numbers] if self.unknown else numbers


@dataclass(frozen=True)
class Null:
    """A number that need not be finite: `null` in the file, which JSON has no number for, stands for this one."""

    value: float
    largest: float | None = None

    def __get_pydantic_core_schema__(self, source: object, handler: Any) -> Any:
        from pydantic_core import core_schema as s

        written = s.plain_serializer_function_ser_schema(lambda x: float(x) if math.isfinite(x) else None)
        low = None if self.largest is None else -self.largest
        number = s.nullable_schema(s.float_schema(allow_inf_nan=False, ge=low, le=self.largest))
        return s.no_info_after_validator_function(
            lambda x: self.value if x is None else x, number, serialization=written
        )


class Limit:
    """Bounds of a value in pydantic's words: ge, le, gt, pattern, min_length."""

    def __init__(self, **bounds: object) -> None:
        self.bounds = bounds

    def __get_pydantic_core_schema__(self, source: object, handler: Any) -> Any:
        return {**handler(source), **self.bounds}


Finite = Annotated[float, Limit(ge=-HUGE, le=HUGE)]


_parts: set[str] = set()
"""Names of parts that stand flat in files, which places in files do not show."""


@dataclass(frozen=True)
class Form:
    """How a class is laid out in files, where it is not an object with its fields.

    file: the format and version that the file says of itself; row: a list of the fields in order, not an object; flat:
    fields whose own fields stand in their place; drop: fields that are not written; names: of fields that have another
    name in files; read, write: what else to do to the data after reading and before writing; check: what the value that
    was built must satisfy, or another in its place; optional: fields that a file may lack, by default those that have a
    default; of a row the last ones, which are not written either where they are empty.
    """

    file: tuple[str, int] | None = None
    row: bool = False
    flat: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    names: tuple[tuple[str, str], ...] = ()
    read: Callable[[Data], Data] | None = None
    write: Callable[[Any, Data], Data] | None = None
    check: Callable[[Any], Any] | None = None
    optional: tuple[str, ...] | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema as s

        names = [field.name for field in fields(source) if field.name not in self.drop]
        fewest = len(names) - (len(self.optional or ()) if self.row else 0)
        types = get_type_hints(source) if self.flat else {}
        _parts.update(self.flat)
        groups = {name: [field.name for field in fields(types[name])] for name in self.flat}

        def read(data: Any) -> Any:
            """Fields of the class from data as laid out in the file."""
            if self.row and isinstance(data, list) and fewest <= len(data) <= len(names):
                return dict(zip(names, data, strict=False))
            if not isinstance(data, dict) or self.row:
                return data
            if strangers := data.keys() & {*self.drop, *self.flat}:
                raise ValueError(f"there is no '{min(strangers)}' in such files")
            data = dict(data)
            if self.file is not None and (data.pop("format", None), data.pop("version", None)) != self.file:
                raise ValueError("this is no '{}' of version {}".format(*self.file))
            data = data if self.read is None else self.read(data)
            for name, stored in self.names:
                if name in data:
                    raise ValueError(f"there is no '{name}' in such files")
                if stored in data:
                    data[name] = data.pop(stored)
            needed = [] if self.optional is None else [name for name in names if name not in (*groups, *self.optional)]
            if missing := [name for name in needed if name not in data]:
                raise ValueError(f"there is no '{missing[0]}'")
            for group, own in groups.items():
                data[group] = {name: data.pop(name) for name in own if name in data}
            return data

        def write(value: Any, serialise: Callable[[Any], Data]) -> Any:
            """Data as laid out in the file from the fields of the class."""
            data = serialise(value)
            if self.row:
                last = max([fewest, *(k + 1 for k, name in enumerate(names) if data[name])])
                return [data[name] for name in names[:last]]
            flat = [{key: item} if key not in groups else item for key, item in data.items() if key not in self.drop]
            data = {dict(self.names).get(key, key): item for part in flat for key, item in part.items()}
            data = data if self.write is None else self.write(value, data)
            return data if self.file is None else {"format": self.file[0], "version": self.file[1], **data}

        def check(value: Any) -> Any:
            """The value after the class's own check."""
            other = None if self.check is None else self.check(value)
            return value if other is None else other

        own = handler(source)
        written = s.wrap_serializer_function_ser_schema(write, schema=own)
        form = s.no_info_before_validator_function(read, own)
        return s.no_info_after_validator_function(check, form, serialization=written)


class NotStored:
    """A field that no file holds: it is None in what was read."""

    def __get_pydantic_core_schema__(self, source: object, handler: Any) -> Any:
        from pydantic_core import core_schema as s

        return s.none_schema(serialization=s.plain_serializer_function_ser_schema(lambda x: None))


ROW = Form(row=True)
COMPLETE = Form(optional=())


@dataclass(frozen=True)
class StoredAs:
    """A class that is written as another one, made from it by `write`; `read` makes it again."""

    form: Any
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: object, handler: Any) -> Any:
        from pydantic_core import core_schema as s

        written = s.plain_serializer_function_ser_schema(lambda x: to_plain_data(self.form, self.write(x)))
        form = handler.generate_schema(self.form)
        return s.no_info_after_validator_function(self.read, form, serialization=written)


@cache
def _type_adapter(kind: Any) -> Any:
    """Pydantic's validator and serialiser of a class, cached."""
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(tuple[kind], config=ConfigDict(extra="forbid", allow_inf_nan=False))


def to_plain_data(kind: Any, value: object) -> Any:
    """Convert a value to plain data: objects, lists, numbers and text."""
    return _type_adapter(kind).dump_python((value,), warnings=False)[0]


def pick_fields(kind: Any, source: object) -> Data:
    """Values of a dataclass's fields, taken from another object that has them."""
    return {item.name: getattr(source, item.name) for item in fields(kind)}


def from_plain_data(kind: Any, data: object) -> Any:
    """Build a value from plain data and check it; raise one of DAMAGE where that cannot be done."""
    return _type_adapter(kind).validate_python((data,))[0]


def json_text(data: object, indent: int | None = 1) -> str:
    """JSON text of data: no numbers that JSON lacks, sets as sorted lists, numpy's numbers as plain ones."""

    def to_json_type(x: Any) -> object:
        """Plain number of a numpy scalar, sorted list of a set."""
        return x.item() if isinstance(x, np.generic) else sorted(x)

    return json.dumps(data, indent=indent, ensure_ascii=False, allow_nan=False, default=to_json_type) + "\n"


def read_record(kind: Any, path: Path, remedy: str, error: type[DynidError]) -> Any:
    """Read a file of a class that has a `Form` with a format; raise `error` with file, place and remedy."""
    form, version = kind.__metadata__[0].file
    data = read_json(path, form, version, remedy, error)
    try:
        return from_plain_data(kind, data)
    except DAMAGE as reason:
        raise error(describe_damage(reason).about(str(path))) from reason


def read_text(path: Path, *, encoding: str = "utf-8") -> str:
    """Read a text file; OSError also for a device, which may never end, and for more than LARGEST bytes."""
    if stat.S_ISCHR(mode := path.stat().st_mode) or stat.S_ISBLK(mode):
        raise OSError(errno.EINVAL, "this is a device, not a file")
    with path.open("rb") as file:
        raw = file.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise OSError(errno.EFBIG, f"it is larger than {LARGEST // 1_000_000} MB")
    return raw.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path, form: str, version: int, remedy: str, error: type[DynidError]) -> Data:
    """Read a file that says of itself to have this format and version."""
    try:
        data = json.loads(read_text(path))
    except OSError as reason:
        text = reason.strerror or str(reason)
        raise error("file_unreadable", "{path}: cannot be read: {reason}", path=path, reason=text) from reason
    except (ValueError, RecursionError) as reason:
        raise error("not_json", "{path}: this is not a JSON file ({reason})", path=path, reason=reason) from reason
    if not isinstance(data, dict) or data.get("format") != form:
        raise error(
            "wrong_record_format", "{path}: not a file of the format '{format}'", "{how}", path=path, format=form,
            how=remedy,
        )  # fmt: skip
    if data.get("version") != version:
        found = str(data.get("version"))[:20]
        raise error(
            "record_version_unsupported", "{path}: the file has version {version}, this dynid reads version "
            "{supported}", "update dynid", path=path, version=found, supported=version,
        )  # fmt: skip
    return data


def read_format_name(path: Path) -> str:
    """Entry `format` at the beginning of a result file, which says what the file holds; empty if there is none."""
    try:
        with path.open("rb") as file:
            start = file.read(4096)
    except OSError as error:
        raise DynidError(
            "file_unreadable", "cannot read {path}: {strerror}", path=path, strerror=error.strerror or error,
        ) from error  # fmt: skip
    found = re.search(rb'"format"\s*:\s*"([^"]*)"', start)
    return found[1].decode(errors="replace") if found else ""


def describe_damage(error: Exception, inside: str = "") -> Message:
    """Message on what is wrong with a file's content; inside: where in the file the record stands."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        cause = error.code if isinstance(error, DynidError) else type(error).__name__
        reason = " ".join(str(error).split())[:300]  # it may quote any text of the file
        return Message("file_damaged", "the file is damaged: {reason}", reason=reason, cause=cause)
    return Message("file_damaged", "{mistake}; the file is damaged", mistake=describe_first_mistake(error, inside))


def describe_first_mistake(error: Any, inside: str) -> str:
    """Text on place and reason of the first thing that pydantic refuses."""
    first = error.errors(include_url=False, include_context=False)[0]
    place = ".".join(str(p) for p in first["loc"][1:] if p not in _parts)
    return f"{inside}{place}: {first['msg']}"


def polars_frame(columns: Mapping[str, object]) -> DataFrame:
    """Columns as a polars frame; names of parameters become plain text."""
    import polars as pl

    if is_polars_without_threads():
        raise DynidError(NEEDS_SPAWN)
    plain = {
        name: [str(x) for x in values] if isinstance(values, tuple | list) and values and isinstance(values[0], str)
        else values for name, values in columns.items()
    }  # fmt: skip
    return pl.DataFrame(plain)
