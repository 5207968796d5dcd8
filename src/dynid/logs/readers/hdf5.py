"""HDF5 files, and MAT files of version 7.3, read slice by slice."""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dynid.errors import LogError, ParserDiedError, ParserFailedError
from dynid.logs.column_names import TIMES
from dynid.logs.read import format_hint_from_content
from dynid.logs.readers.table import (
    MOST_WORDS,
    ArrayTable,
    Batch,
    Field,
    Numbers,
    Part,
    Table,
    Wanted,
    squeeze_shape,
    why_not_numbers,
    why_not_table,
)
from dynid.messages import Message
from dynid.storage.files import run_isolated

_MOST_BYTES = 64 << 20
_MOST_GROUPS = 100
"""Depth of groups; the library's own way through them costs the square of it."""


@dataclass(frozen=True, slots=True)
class StoredDataset:
    """A data set, one member of a data set of records, or one column of either, as pandas keeps them.

    regular: first value and step of a column that is stored by these alone, as MATLAB's regular times are.
    """

    path: str
    member: str | None
    shape: tuple[int, ...]
    column: int | None = None
    regular: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Hdf5Table:
    """An HDF5 file; the names and shapes of its data sets were read. Groups give dotted names."""

    path: Path
    fields: tuple[Field, ...]
    stored: dict[str, StoredDataset]
    notes: tuple[Message, ...] = ()

    @property
    def name(self) -> str:
        """Name of the file."""
        return str(self.path)

    def batches(self, wanted: tuple[Wanted, ...], rows: int) -> Iterator[Batch]:
        """Yield slices of the wanted data sets."""
        with _open_hdf5_file(self.path) as file:
            stored = {field.name: self.stored[field.name] for field in wanted}
            turned = {(self.stored[field.name].path, self.stored[field.name].member): field.turned for field in wanted}
            readers = {
                (one.path, one.member): _slice_reader(file, one, turned[one.path, one.member])
                for one in stored.values()
            }
            shapes = [squeeze_shape(self.stored[field.name].shape) for field in wanted]
            length = shapes[0][1] if wanted[0].turned else shapes[0][0]
            widest = max(int(np.prod(shape)) // max(length, 1) for shape in shapes)
            rows = max(1, min(rows, _MOST_BYTES // (8 * max(widest, 1))))
            for start in range(0, length, rows):
                stop = min(start + rows, length)
                parts = {place: reader(start, stop) for place, reader in readers.items()}
                found = {name: parts[one.path, one.member] for name, one in stored.items()}
                for name, one in stored.items():
                    found[name] = (
                        found[name] if one.column is None else found[name].reshape(stop - start, -1)[:, one.column]
                    )
                yield Part(found, stop / length)


def _slice_reader(file: Any, stored: StoredDataset, turned: bool) -> Callable[[int, int], Numbers]:
    """Return a function that reads samples from start to stop of a data set."""
    if stored.regular is not None:
        first, step = stored.regular
        return lambda start, stop: first + step * np.arange(start, stop)
    data = file[stored.path]
    source = data if stored.member is None else data.fields(stored.member)
    shape = stored.shape
    long = [k for k, size in enumerate(shape) if size != 1] or [0]
    along = long[1 if turned and len(long) > 1 else 0]

    def read_slice(start: int, stop: int) -> Numbers:
        part = np.moveaxis(np.asarray(source[(slice(None),) * along + (slice(start, stop),)]), along, 0)
        return part.reshape((stop - start, -1) if len(long) > 1 else -1)

    return read_slice


@contextmanager
def _open_hdf5_file(path: Path) -> Iterator[Any]:
    """Open an HDF5 file; LogError where it is damaged or h5py is not installed."""
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
            str(path), "not_hdf5", "this is not an HDF5 file, or it is damaged ({reason}){content_hint}", reason=reason,
            content_hint=format_hint_from_content(path),
        ) from error  # fmt: skip


def open_hdf5(path: Path) -> Hdf5Table:
    """Open an HDF5 file and list its data sets; links to other files are not followed."""
    fields: list[Field] = []
    stored: dict[str, StoredDataset] = {}

    def add_field(
        name: str, where: StoredDataset, problem: str, words: tuple[str, ...] = (), unit: str | None = None
    ) -> None:
        """List a field and where it is stored."""
        shape = squeeze_shape(where.shape)
        problem = problem or why_not_table(where.shape)
        fields.append(Field(name, shape, unit, problem, words))
        stored[name] = where

    def add_frame(group: str, columns: list[_FrameColumn]) -> None:
        """List the columns of a frame of pandas."""
        for one in columns:
            name = f"{group}.{one.name}".lstrip(".")
            if name not in stored:
                fields.append(Field(name, (one.stored.shape[0],), one.unit, one.problem))
                stored[name] = one.stored

    def add_dataset(place: str, item: Any) -> None:
        """List a data set, or each member of one of records."""
        if place.count("/") > _MOST_GROUPS:
            raise LogError(
                str(path), "groups_too_deep", "groups are nested more than {most} deep", "save the arrays in one group",
                most=_MOST_GROUPS,
            )  # fmt: skip
        if not hasattr(item, "dtype") or not item.shape or place.startswith("#") or "/_i_" in f"/{place}":
            return
        name = place.replace("/", ".")
        frame = _columns_of_pandas(item, place)
        if frame is not None:
            add_frame(name.rpartition(".")[0], frame)
            return
        outside = "lies in another file, which is not read" if item.is_virtual or item.external else ""
        if item.size and not item.id.get_storage_size() and not outside:
            outside = "was never written"
        for member in item.dtype.names or ():
            kind = item.dtype[member]
            add_field(
                f"{name}.{member}",
                StoredDataset(place, member, item.shape + kind.shape),
                outside or why_not_numbers(kind.base),
            )
        if not item.dtype.names:
            words = () if outside else _read_text_list(item)
            if "MATLAB_object_decode" in item.attrs:
                variables = _variables_of_object(item, objects)
                for variable, where, unit, problem in variables:
                    add_field(name + variable, where, problem, unit=unit)
                if variables:
                    return
                kind = _attribute_text(item, "MATLAB_class")
                outside = f"is a MATLAB object ({kind}), which is not read; save its arrays in a struct"
            add_field(name, StoredDataset(place, None, item.shape), outside or why_not_numbers(item.dtype), words)

    with _open_hdf5_file(path) as file:
        objects = _read_matlab_objects(file)
        file.visititems(add_dataset)
    return Hdf5Table(path, tuple(fields), stored)


# Frames of pandas: blocks of columns whose names stand beside them, as arrays of text or pickled, never unpickled.


@dataclass(frozen=True, slots=True)
class _FrameColumn:
    """A column or the index of a frame."""

    name: str
    stored: StoredDataset
    unit: str | None = None
    problem: str = ""


def _columns_of_pandas(item: Any, place: str) -> list[_FrameColumn] | None:
    """Columns of a data set that pandas wrote; None where it did not, nothing where others hold the names."""
    group, name = item.parent, place.rpartition("/")[2]
    if not (kind := _attribute_text(group, "pandas_type")):
        return None
    if kind == "frame" and name.endswith("_values"):
        labels = group[f"{name.removesuffix('values')}items"]
        texts = [x.decode("utf-8", "replace") if isinstance(x, bytes) else str(x) for x in labels[()].ravel().tolist()]
        whole, problem = StoredDataset(place, None, item.shape), why_not_numbers(item.dtype)
        if item.ndim != 2 or item.shape[1] != len(texts):
            return []
        return [_FrameColumn(text, replace(whole, column=k), None, problem) for k, text in enumerate(texts)]
    if kind == "frame" and name == "axis1":
        index = _attribute_text(item, "name")
        return [_index_column(index, _attribute_text(item, "kind"), StoredDataset(place, None, item.shape))]
    if kind == "frame_table" and name == "table":
        found: list[_FrameColumn] = []
        for member in item.dtype.names or ():
            base, labels = item.dtype[member].base, _pickled_texts(item.attrs.get(f"{member}_kind", b""))
            stored = StoredDataset(place, member, item.shape)
            if member == "index":
                index = _pickled_value(group.attrs.get("info", b""), "index_name")
                found.append(_index_column(index, _attribute_text(item, "index_kind"), stored))
            else:
                found += [
                    _FrameColumn(text, replace(stored, column=k), None, why_not_numbers(base))
                    for k, text in enumerate(labels or [member])
                ]
        return found
    return []


def _index_column(name: str, kind: str, stored: StoredDataset) -> _FrameColumn:
    """The index of a frame: the time, where it holds instants and has no name."""
    is_time = kind.startswith(("datetime64", "timedelta64"))
    return _FrameColumn(name or ("t" if is_time else "index"), stored, "ns" if is_time else None)


def _attribute_text(item: Any, key: str) -> str:
    """A text among the attributes; '' where it is none, or pickled."""
    value = item.attrs.get(key, b"")
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value if isinstance(value, str) else ""
    return "" if text.endswith(".") or not text.isprintable() else text


def _pickle_steps(data: object) -> list[tuple[str, object]]:
    """Steps of a pickle with their values, read and not carried out; those that only store are left out."""
    try:
        steps = list(pickletools.genops(data)) if isinstance(data, bytes) else []
    except ValueError:
        return []
    return [(step.name, value) for step, value, _ in steps if "PUT" not in step.name and step.name != "MEMOIZE"]


def _pickled_texts(data: object) -> list[str]:
    """Texts and numbers of a pickled list, as texts."""
    return [str(value) for step, value in _pickle_steps(data) if "UNICODE" in step or "INT" in step]


def _pickled_value(data: object, key: str) -> str:
    """The text that follows a key in a pickled dict; '' where there is none."""
    steps = _pickle_steps(data)
    for (_, value), (step, following) in pairwise(steps):
        if value == key:
            return str(following) if "UNICODE" in step else ""
    return ""


def _read_text_list(item: Any) -> tuple[str, ...]:
    """Entries of a short list of texts."""
    import h5py

    if h5py.check_string_dtype(item.dtype) is None or len(squeeze_shape(item.shape)) != 1 or item.size > MOST_WORDS:
        return ()
    return tuple(item.asstr(errors="replace")[()].ravel().tolist())


# MAT files: version 5 and older by scipy, in memory; version 7.3 is HDF5.


_DEEP = 8


def _is_hdf5(path: Path) -> bool:
    """Whether a file begins as an HDF5 file does."""
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
    import scipy.io  # noqa: F401  (before the fork)

    try:
        facts, arrays = run_isolated(partial(_read_mat, path))
    except ParserDiedError as error:
        raise LogError(str(path), error.message) from error
    except ParserFailedError as error:
        reason = str(error).partition("\n")[0][:120]
        raise LogError(
            str(path), "not_mat", "this is not a MAT file, or it is damaged ({reason}){content_hint}", reason=reason,
            content_hint=format_hint_from_content(path),
        ) from error  # fmt: skip
    words = {name: tuple(texts) for name, texts in facts["words"].items()}
    named = dict(zip(facts["names"], arrays, strict=True))
    return ArrayTable(str(path), named, facts["units"], facts["problems"], words)


def _read_mat(path: Path) -> tuple[dict[str, Any], list[Numbers]]:
    """Names, units, problems and texts, and the arrays, of a MAT file of version 5 or older.

    scipy's reader is compiled code that some damaged files crash: this runs in a process of its own.
    """
    from scipy.io import loadmat

    content = loadmat(path, appendmat=False, squeeze_me=False, struct_as_record=True)
    found = ArrayTable(str(path), {})
    objects = _MatlabObjects.from_workspace(content.get("__function_workspace__"))
    for key, value in content.items():
        if isinstance(key, str) and not key.startswith("__"):
            _collect_arrays(key, value, found, objects, 0)
    facts = {"names": list(found.arrays), "units": found.units, "problems": found.problems, "words": found.words}
    return facts, list(found.arrays.values())


def _collect_arrays(name: str, value: object, found: ArrayTable, objects: _MatlabObjects, depth: int) -> None:
    """Collect arrays of numbers and lists of texts, descending into structs and cells."""
    if not isinstance(value, np.ndarray) or depth > _DEEP:
        return
    if value.dtype.names in _OPAQUE:
        _collect_timetable(name, value.reshape(-1)[0], found, objects)
    elif value.dtype.names:
        _collect_structs(name, value.reshape(-1), found, objects, depth + 1)
    elif value.dtype == object and 0 < value.size <= MOST_WORDS:
        texts = [_matlab_text(cell) for cell in value.reshape(-1)]
        if all(texts):
            found.arrays[name], found.words[name] = np.array(texts), tuple(texts)
            return
        for k, cell in enumerate(value.reshape(-1), start=1):
            _collect_arrays(f"{name}{{{k}}}", cell, found, objects, depth + 1)
    elif value.dtype.kind in "fiub" and value.ndim == 2:
        found.arrays[name] = value


def _collect_structs(name: str, records: Numbers, found: ArrayTable, objects: _MatlabObjects, depth: int) -> None:
    """Collect the members of a struct, or of an array of them: one row for each, or each under its label or number."""
    members = records.dtype.names or ()
    for member in members:
        values = [np.asarray(record[member]) for record in records]
        sizes = {value.size for value in values}
        if len(records) == 1:
            _collect_arrays(f"{name}.{member}", values[0], found, objects, depth)
        elif len(sizes) == 1 and 0 < min(sizes) < len(records) and all(value.dtype.kind in "fiub" for value in values):
            found.arrays[f"{name}.{member}"] = np.stack([value.reshape(-1) for value in values])
        else:
            for k, (record, value) in enumerate(zip(records, values, strict=True), start=1):
                label = _matlab_text(record["label"]) if "label" in members else ""
                where = f"{name}.{label}" if label and member == "values" else f"{name}({k}).{member}"
                _collect_arrays(where, value, found, objects, depth)


def _matlab_text(value: object) -> str:
    """The text of a row of characters, '' where it is none."""
    array = np.asarray(value)
    return str(array.reshape(-1)[0]).strip() if array.dtype.kind == "U" and array.size == 1 else ""


# Timetables and tables of MATLAB: objects, whose properties lie in a part of the file that MATLAB does not document.
# It is a cell array: names, classes and objects as bytes in the first cell, values of properties in those after it.


_OPAQUE = (("s0", "s1", "s2", "arr"), ("_TypeSystem", "_Class", "_ObjectMetadata"))
"""Members of an object as scipy up to 1.17, and from 1.18 on, returns it: class and reference come last."""
_REFERENCE = 0xDD000000


@dataclass(frozen=True, slots=True, eq=False)
class _MatlabObjects:
    """The objects of a file: `cells` hold the values of properties; `places` name those of every object's."""

    cells: tuple[Any, ...] = ()
    places: tuple[Mapping[str, int], ...] = ()

    @staticmethod
    def from_workspace(workspace: object) -> _MatlabObjects:
        """Read the objects of a MAT file; none where there are none, or in another form than is known."""
        from scipy.io import loadmat

        if not isinstance(workspace, np.ndarray):
            return _MatlabObjects()
        raw = workspace.tobytes()
        try:
            inside = io.BytesIO(b"MATLAB 5.0 MAT-file".ljust(124) + raw[:4] + raw[8:])
            inner = loadmat(inside)  # type: ignore[arg-type]
            cells = tuple(inner["__function_workspace__"]["MCOS"][0, 0].reshape(-1)[0][-1].reshape(-1))
            return _MatlabObjects(cells, _places_of_properties(cells[0].tobytes()))
        except (KeyError, IndexError, ValueError, TypeError, AttributeError):
            return _MatlabObjects()

    def properties(self, reference: Numbers) -> dict[str, Any]:
        """Properties of the object that some integers refer to; empty where it is not there."""
        words = np.asarray(reference).reshape(-1)
        if words.dtype != np.uint32 or len(words) < 6 or words[0] != _REFERENCE or not 0 < words[-2] < len(self.places):
            return {}
        return {name: self.cells[k] for name, k in self.places[words[-2]].items() if k < len(self.cells)}


def _places_of_properties(data: bytes) -> tuple[Mapping[str, int], ...]:
    """Cells of every object's properties by name; objects count from 1."""
    count, offsets = int.from_bytes(data[4:8], "little"), np.frombuffer(data[8:40], "<u4").tolist()
    names = [name.decode("utf-8", "replace") for name in data[40 : offsets[0]].split(b"\0")[:count]]
    saved, objects, plain = (np.frombuffer(data[offsets[k] : offsets[k + 1]], "<u4").tolist() for k in (1, 2, 3))

    def lists(words: list[int]) -> list[dict[str, int]]:
        found, at = list[dict[str, int]](), 0
        while at < len(words):
            triples = [words[at + 1 + 3 * k : at + 4 + 3 * k] for k in range(words[at])]
            found.append({names[name - 1]: value + 2 for name, kind, value in triples if kind == 1})
            at += 1 + 3 * words[at]
            at += at % 2  # in steps of 8 bytes
        return found

    by_save, by_name = lists(saved), lists(plain)
    of_objects = [objects[k : k + 6] for k in range(0, len(objects), 6)]
    return tuple(by_save[one[3]] if one[3] else by_name[one[4]] for one in of_objects)


def _collect_timetable(name: str, value: Any, found: ArrayTable, objects: _MatlabObjects) -> None:
    """Collect the variables of a timetable or a table, with their units and the times of the rows."""
    *_, kind, reference = value
    kind = kind.decode("utf-8", "replace") if isinstance(kind, bytes) else kind
    name = value["s0"].decode("utf-8", "replace") if name == "None" and "s0" in value.dtype.names else name
    if _collect_times(name, reference, found, objects):
        return
    content = objects.properties(reference)
    if "any" in content and getattr(content["any"].dtype, "names", None):
        record = content["any"].reshape(-1)[0]
        content = {member: record[member] for member in content["any"].dtype.names}
    names = [
        _matlab_text(cell) for cell in np.asarray(content.get("varNames", content.get("varnames", ()))).reshape(-1)
    ]
    values = list(np.asarray(content.get("data", ()), dtype=object).reshape(-1))
    if not names or len(names) != len(values):
        found.arrays[name] = np.zeros(0)
        found.problems[name] = f"is a MATLAB object ({kind}), which is not read; save its arrays in a struct"
        return
    props = content.get("props")
    given = props.reshape(-1)[0] if props is not None and "VariableUnits" in (props.dtype.names or ()) else {}
    cells = np.asarray(given["VariableUnits"] if len(given) else content.get("varUnits", ())).reshape(-1)
    units = [_matlab_text(cell) for cell in cells] or [""] * len(names)
    for variable, array, unit in zip(names, values, units, strict=True):
        if _collect_times(f"{name}.{variable}", array, found, objects):
            continue
        _collect_arrays(f"{name}.{variable}", array, found, objects, 1)
        if unit:
            found.units[f"{name}.{variable}"] = unit
    times = _row_times(content.get("rowTimes"), len(values[0]), objects)
    if times is not None:
        place = f"{name}.{_row_times_name(_matlab_text(np.asarray(content['dimNames']).reshape(-1)[0]), names)}"
        found.arrays[place], found.units[place] = times, "ms"


def _collect_times(name: str, value: Any, found: ArrayTable, objects: _MatlabObjects) -> bool:
    """Collect durations or dates; return whether it holds them."""
    times = _times_in_milliseconds(value, objects)
    if times is not None:
        found.arrays[name], found.units[name] = times, "ms"
    return times is not None


def _row_times_name(dimension: str, variables: list[str]) -> str:
    """Name of the column of row times: as in MATLAB if that is a name of time, else Time."""
    return dimension if dimension.lower() in TIMES or "Time" in variables else "Time"


def _row_times(value: Any, count: int, objects: _MatlabObjects) -> Numbers | None:
    """Times of a timetable's rows in ms, those of dates since 1970; None where there are none."""
    if value is None:
        return None
    if getattr(value.dtype, "names", None):  # regular times: where they begin, and the step
        record = value.reshape(-1)[0]
        origin, step = (_times_in_milliseconds(record[key], objects) for key in ("origin", "stepSize"))
        if step is None and "sampleRate" in value.dtype.names:
            step = 1000.0 / np.asarray(record["sampleRate"], dtype=np.float64).reshape(-1)
        return None if origin is None or step is None else origin[0] + step[0] * np.arange(count)
    return _times_in_milliseconds(value, objects)


def _times_in_milliseconds(value: Any, objects: _MatlabObjects) -> Numbers | None:
    """Times of a MATLAB duration or date in ms; None for anything else."""
    content = objects.properties(value)
    for key in ("millis", "data"):
        if key in content and content[key].dtype.kind in "fc":
            return np.asarray(np.real(content[key]), dtype=np.float64).reshape(-1)
    return None


# The same objects in files of version 7.3: the cells are data sets, which stay in the file until they are read.


def _read_matlab_objects(file: Any) -> _MatlabObjects:
    """Read the MATLAB objects of an HDF5 file; none where there are none, or in another form than is known."""
    try:
        cells = tuple(file[cell] for cell in file["#subsystem#/MCOS"][()].reshape(-1))
        return _MatlabObjects(cells, _places_of_properties(cells[0][()].tobytes()))
    except (KeyError, IndexError, ValueError, TypeError, AttributeError):
        return _MatlabObjects()


def _variables_of_object(item: Any, objects: _MatlabObjects) -> list[tuple[str, StoredDataset, str | None, str]]:
    """Endings of names, places, units and problems of the variables of a timetable, table or duration."""
    if times := _stored_times(item, objects):
        return [("", times, "ms", "")]
    content = objects.properties(item[()])
    content = dict(content.get("any", content).items())
    names = _texts_of_cells(content.get("varNames", content.get("varnames")))
    values = _items_of_cells(content.get("data"))
    units = _texts_of_cells(content.get("props", {}).get("VariableUnits", content.get("varUnits"))) or [""] * len(names)
    found: list[tuple[str, StoredDataset, str | None, str]] = []
    if not names or not len(names) == len(values) == len(units):
        return found
    for name, value, unit in zip(names, values, units, strict=True):
        times = _stored_times(value, objects)
        shape = getattr(value, "shape", ())
        problem = why_not_numbers(value.dtype) if shape else "holds no numbers but a struct"
        where = times or StoredDataset(value.name, None, shape)
        found.append((f".{name}", where, "ms" if times else unit or None, "" if times else problem))
    rows = content.get("rowTimes")
    if rows is not None and (times := _stored_times(rows, objects, max(found[0][1].shape))):
        dimension = (_texts_of_cells(content.get("dimNames")) or [""])[0]
        found.append((f".{_row_times_name(dimension, names)}", times, "ms", ""))
    return found


def _stored_times(item: Any, objects: _MatlabObjects, count: int = 0) -> StoredDataset | None:
    """Data set of durations or dates; count: of times that are stored as a beginning and a step."""
    if hasattr(item, "dtype"):
        content = objects.properties(item[()] if item.size < 100 else np.zeros(0))
        data = content.get("millis", content.get("data"))
        if data is None or not hasattr(data, "dtype") or data.dtype.kind not in "fV":
            return None
        return StoredDataset(data.name, "real" if data.dtype.names else None, data.shape)
    if not {"origin", "stepSize"} <= item.keys():
        return None
    ends = [_stored_times(item[key], objects) for key in ("origin", "stepSize")]
    first, step = (np.nan if x is None else float(_slice_reader(item.file, x, False)(0, 1)[0]) for x in ends)
    if not np.isfinite(step) and "sampleRate" in item:
        step = 1000.0 / float(item["sampleRate"][()].reshape(-1)[0])
    return StoredDataset("", None, (count,), None, (first, step)) if np.isfinite(first + step) else None


def _items_of_cells(item: Any) -> list[Any]:
    """Items that an array of cells refers to."""
    is_array = hasattr(item, "dtype") and item.dtype == object and "MATLAB_empty" not in item.attrs
    return [item.file[cell] for cell in item[()].reshape(-1)] if is_array else []


def _texts_of_cells(item: Any) -> list[str]:
    """Texts of an array of cells."""
    cells = _items_of_cells(item)
    raw = [b"" if "MATLAB_empty" in cell.attrs else cell[()].astype("<u2").tobytes() for cell in cells]
    return [text.decode("utf-16-le", "replace").strip() for text in raw]
