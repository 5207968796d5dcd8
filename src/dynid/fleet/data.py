"""The logs of a fleet: which files belong to which robot and period, on this machine or behind a URL."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from dynid.errors import DynidError
from dynid.messages import Option

SUFFIXES = (
    ".csv", ".csv.gz", ".txt", ".tsv", ".dat", ".parquet", ".pq", ".npz", ".npy", ".mat", ".h5", ".hdf5", ".mcap",
    ".db3",
)  # fmt: skip
"""Files of a folder that are logs."""

_KEY = re.compile(r"\{(\w+)\}")


@lru_cache(maxsize=100_000)
def natural_order(name: str) -> tuple[tuple[int, str], ...]:
    """Key that sorts names as people do: week 9 before week 10."""
    parts = re.split(r"([0-9]+)", name)
    numbers = [(len(part.lstrip("0")), part.lstrip("0")) for part in parts[1::2]]
    texts = [(0, part) for part in parts[::2]]
    return (*(x for pair in zip(texts, [*numbers, (0, "")], strict=True) for x in pair), (0, name))


@dataclass(frozen=True, slots=True)
class LogFile:
    """One log: its path or URL, bytes and time of change; keys: values of columns that pick its rows, if any."""

    path: str
    size: int
    stamp: str
    keys: tuple[tuple[str, str], ...] = ()

    @property
    def mark(self) -> str:
        """What tells a changed file from an unchanged one without reading it."""
        return f"{self.path}|{self.size}|{self.stamp}|{self.keys}"

    @property
    def is_remote(self) -> bool:
        """Whether the file is behind a URL."""
        return "://" in self.path

    @contextmanager
    def local(self) -> Iterator[Path]:
        """Context with the file on this machine; a copy that goes away where it is behind a URL."""
        if not self.is_remote:
            yield Path(self.path)
            return
        import fsspec

        with tempfile.TemporaryDirectory(prefix="dynid-") as folder:
            place = Path(folder) / Path(self.path.rsplit("/", 1)[-1])
            try:
                fs, name = fsspec.core.url_to_fs(self.path)
                fs.get_file(name, str(place))
            except (OSError, ValueError, ImportError) as error:
                raise DynidError(
                    "file_unreadable", "{path}: cannot be read: {reason}", path=self.path, reason=error,
                ) from error  # fmt: skip
            yield place


@dataclass(frozen=True, slots=True)
class PeriodLogs:
    """All logs of one robot in one period."""

    robot: str
    period: str
    logs: tuple[LogFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all logs."""
        return sum(log.size for log in self.logs)


def hash_log(log: LogFile, place: Path) -> str:
    """SHA-256 of a log's content, only of its rows where keys pick them; of a folder, of all files in it."""
    digest = hashlib.sha256(repr(log.keys).encode())
    if log.keys:
        for column in read_selected_rows(place, log):
            values = column.to_numpy() if column.dtype.is_numeric() else column.to_list()
            digest.update(f"{column.name} {column.dtype}".encode())
            digest.update(values.tobytes() if column.dtype.is_numeric() else repr(values).encode())
        return digest.hexdigest()
    files = [place] if place.is_file() else sorted(file for file in place.rglob("*") if file.is_file())
    try:
        for file in files:
            with file.open("rb") as data:
                digest.update(hashlib.file_digest(data, "sha256").digest())
    except OSError as error:
        raise DynidError(
            "file_unreadable", "{path}: cannot be read: {reason}", path=log.path, reason=error.strerror or error,
        ) from error  # fmt: skip
    return digest.hexdigest()


Listed = Sequence[tuple[str, str, LogFile | str | PathLike[str]]]
"""Logs named one by one: robot, period and file."""


def find_logs(data: str | PathLike[str] | Listed, by: Sequence[str]) -> tuple[PeriodLogs, ...]:
    """Find the logs of a fleet, sorted by robot and period.

    data: a folder in Hive layout (`robot=R07/week=2026-W31/*.parquet`), a pattern (`{robot}/{date}_*.mcap`), or a
    Parquet file, or a folder of them, with columns of these names; also behind a URL. by: names of robot and period; a
    `week` or `month` is made from a `date` where only that is there. data may also name the logs: (robot, period, file)
    for each.
    """
    by = check_names(by)
    if not isinstance(data, str | PathLike):
        return _group(
            (file if isinstance(file, LogFile) else _local_file(Path(file)), {by[0]: str(robot), by[1]: str(period)})
            for robot, period, file in data
        )
    source = fspath(data)
    if _KEY.search(source):
        found = list(_match_pattern(source))
    elif source.lower().endswith((".parquet", ".pq")):
        found = list(_split_by_columns(source, by))
    else:
        found = list(_walk_folder(source, by))
        if not any(by[0] in keys for _, keys in found):
            found = list(_split_dataset([file for file, _ in found], by)) or found
    keyed = [
        (file, {by[0]: robot, by[1]: period})
        for file, keys in found
        if (robot := _value_of_key(by[0], keys)) is not None and (period := _value_of_key(by[1], keys)) is not None
    ]
    if not keyed:
        raise DynidError(
            "no_fleet_logs", "{data}: no log with a {robot} and a {period} in its path{found}",
            "lay them out as {robot}=NAME/{period}=NAME/FILE, give a pattern such as {pattern}, or other names with "
            "{by}", data=source, robot=by[0], period=by[1], by=Option("by"), pattern="'logs/{robot}/{date}_*.csv'",
            found=f" ({len(found)} files were looked at)" if found else "",
        )  # fmt: skip
    return _group(keyed)


def _group(found: Iterable[tuple[LogFile, Mapping[str, str]]]) -> tuple[PeriodLogs, ...]:
    """Logs by robot and period, which are the two values of the keys, sorted."""
    groups: dict[tuple[str, str], list[LogFile]] = {}
    for file, keys in found:
        robot, period = keys.values()
        whole = file if file.is_remote else replace(file, path=os.path.abspath(file.path))  # workers stand elsewhere
        groups.setdefault((robot, period), []).append(whole)
    return tuple(
        PeriodLogs(robot, period, tuple(sorted(files, key=lambda file: (file.path, file.keys))))
        for (robot, period), files in sorted(groups.items(), key=lambda item: tuple(map(natural_order, item[0])))
    )


def check_names(by: Sequence[str]) -> tuple[str, str]:
    """Names of robot and period."""
    names = tuple(by.split(",")) if isinstance(by, str) else tuple(by)
    if len(names) != 2 or not all(isinstance(name, str) and name.isidentifier() for name in names):
        raise DynidError(
            "invalid_fleet_names", "{by} takes two names, of the robot and of the period, got {given!r}",
            "such as robot,week", by=Option("by"), given=by,
        )  # fmt: skip
    return names[0], names[1]


def _value_of_key(name: str, keys: Mapping[str, str]) -> str | None:
    """Value of a key; a week or month from the date where only that is there."""
    if name in keys:
        return keys[name]
    text = keys.get("date", "").replace("-", "").replace("_", "")
    if name not in ("week", "month") or not re.fullmatch(r"\d{8}", text):
        return None
    try:
        day = date(int(text[:4]), int(text[4:6]), int(text[6:]))
    except ValueError:
        return None
    year, week, _ = day.isocalendar()
    return f"{year}-W{week:02d}" if name == "week" else f"{day:%Y-%m}"


def _file_system(source: str) -> tuple[Any, str]:
    """File system of a URL, and the path in it."""
    try:
        import fsspec
    except ImportError as error:
        raise DynidError(
            "missing_package", "{source}: URLs need the package fsspec", "pip install fsspec", source=source,
        ) from error  # fmt: skip
    try:
        fs, path = fsspec.core.url_to_fs(source)
    except (ValueError, ImportError, OSError) as error:
        raise DynidError(
            "url_not_supported", "{source}: {reason}", "install the package of this kind of URL, or copy the logs",
            source=source, reason=error,
        ) from error  # fmt: skip
    return fs, path


def _remote_file(fs: Any, name: str, info: Mapping[str, Any]) -> LogFile:
    """A file behind a URL."""
    stamp = next((str(info[key]) for key in ("ETag", "etag", "mtime", "LastModified", "created") if key in info), "")
    return LogFile(fs.unstrip_protocol(name), int(info.get("size") or 0), stamp)


def list_files(source: str) -> Iterator[LogFile]:
    """All logs in a folder or behind a URL; a rosbag2 folder is one log."""
    if "://" in source:
        fs, path = _file_system(source)
        try:
            for name, info in sorted(fs.find(path, detail=True).items()):
                if name.lower().endswith(SUFFIXES):
                    yield _remote_file(fs, name, info)
        except OSError as error:
            raise DynidError(
                "file_unreadable", "{path}: cannot be read: {reason}", path=source, reason=error,
            ) from error  # fmt: skip
        return
    folder = Path(source)
    if not folder.is_dir():
        what = "this is not a folder of logs" if folder.exists() else "there is no such folder"
        raise DynidError(
            "no_such_folder", "{path}: {what}", "name a folder, a pattern or a Parquet file", path=source, what=what,
        )  # fmt: skip
    for name, folders, files in os.walk(folder, onerror=_refuse_folder):
        place = Path(name)
        folders.sort()
        if "metadata.yaml" in files:
            folders.clear()
            yield _local_file(place)
            continue
        for file in sorted(files):
            if file.lower().endswith(SUFFIXES) and not file.startswith("."):
                yield _local_file(place / file)


def _refuse_folder(error: OSError) -> None:
    """Raise where a folder cannot be listed: its logs would be missing unnoticed."""
    raise DynidError(
        "file_unreadable", "{path}: cannot be read: {reason}", path=error.filename, reason=error.strerror or error,
    ) from error  # fmt: skip


def _local_file(path: Path) -> LogFile:
    """A file, or the folder of a bag, on this machine."""
    parts = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    looks = [file.stat() for file in parts]
    return LogFile(str(path), sum(s.st_size for s in looks), str(max((s.st_mtime_ns for s in looks), default=0)))


def _walk_folder(source: str, by: tuple[str, str]) -> Iterator[tuple[LogFile, dict[str, str]]]:
    """Logs of a folder in Hive layout, with the keys of their paths."""
    for file in list_files(source):
        keys = dict(part.split("=", 1) for part in re.split(r"[/\\]", file.path)[:-1] if "=" in part)
        name = re.split(r"[/\\]", file.path)[-1]
        keys |= dict(part.split("=", 1) for part in [name] if part.count("=") == 1 and part.split("=")[0] in by)
        yield file, keys


def _match_pattern(pattern: str) -> Iterator[tuple[LogFile, dict[str, str]]]:
    """Logs whose path matches a pattern, with the keys in it; `*` stands for anything but a slash."""
    first = pattern[: _KEY.search(pattern).start()]  # type: ignore[union-attr]
    folder = first.rpartition("/")[0] or ("/" if first.startswith("/") else ".")
    expression, seen = "", set[str]()
    rest = pattern[len(folder) + 1 :] if folder not in (".", "/") else pattern.removeprefix("/")
    for part in re.split(r"(\{\w+\}|\*\*/|\*)", rest):
        if match := _KEY.fullmatch(part):
            name = match[1]
            expression += f"(?P={name})" if name in seen else f"(?P<{name}>[^/]+?)"
            seen.add(name)
        else:
            expression += {"*": "[^/]*", "**/": "(?:.*/)?"}.get(part, re.escape(part))
    regex = re.compile(expression)
    for file in list_files(folder):
        path = file.path.replace("\\", "/")
        tail = path.partition(folder.rstrip("/") + "/")[2] if folder not in (".", "/") else path.lstrip("/")
        if match := regex.fullmatch(tail):
            yield file, match.groupdict()


def _split_by_columns(source: str, by: tuple[str, str]) -> Iterator[tuple[LogFile, dict[str, str]]]:
    """Rows of one Parquet file by the values of two columns."""
    import polars as pl

    if "://" in source:
        fs, path = _file_system(source)
        try:
            file = _remote_file(fs, path, fs.info(path))
        except OSError as error:
            raise DynidError(
                "file_unreadable", "{path}: cannot be read: {reason}", path=source, reason=type(error).__name__,
            ) from error  # fmt: skip
    else:
        if not Path(source).is_file():
            raise DynidError("file_not_found", "{path}: there is no such file", path=source)
        file = _local_file(Path(source))
    try:
        with file.local() as place:
            frame = pl.scan_parquet(place)
            names = frame.collect_schema().names()
            missing = [name for name in by if name not in names]
            rows = [] if missing else frame.select(by).unique().collect().rows()
    except pl.exceptions.PolarsError as error:
        raise DynidError(
            "file_unreadable", "{path}: cannot be read: {reason}", path=source, reason=str(error).split("\n")[0],
        ) from error  # fmt: skip
    if missing:
        raise DynidError(
            "no_fleet_columns", "{path}: no column {missing} (found: {found:12})", "name the columns of robot and "
            "period with {by}", path=source, missing=missing[0], found=names, by=Option("by"),
        )  # fmt: skip
    for values in rows:
        keys = {name: str(value) for name, value in zip(by, values, strict=True)}
        yield LogFile(file.path, file.size // max(len(rows), 1), file.stamp, tuple(keys.items())), keys


def _split_dataset(files: Iterable[LogFile], by: tuple[str, str]) -> Iterator[tuple[LogFile, dict[str, str]]]:
    """Rows of Parquet files by the values of two columns, where they have these."""
    for file in files:
        if file.path.lower().endswith((".parquet", ".pq")):
            try:
                yield from _split_by_columns(file.path, by)
            except DynidError as error:
                if error.code != "no_fleet_columns":
                    raise


def read_selected_rows(place: Path, log: LogFile) -> Any:
    """Rows of a Parquet file that belong to one robot and period, as a frame without the columns of the keys."""
    import polars as pl

    try:
        frame = pl.scan_parquet(place)
        types = frame.collect_schema()
        for name, value in log.keys:
            exact = types[name].is_integer() or types[name] == pl.String  # then row groups without it are not read
            frame = frame.filter(
                pl.col(name) == pl.lit(value).cast(types[name]) if exact else pl.col(name).cast(pl.String) == value
            )
        return frame.drop([name for name, _ in log.keys]).collect()
    except pl.exceptions.PolarsError as error:
        raise DynidError(
            "file_unreadable", "{path}: cannot be read: {reason}", path=log.path, reason=str(error).split("\n")[0],
        ) from error  # fmt: skip
