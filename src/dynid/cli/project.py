"""The project file: `dynid.toml` of the current folder, or `--project FILE`, gives what is not typed.

`complete_words` puts its values as words before those of the command line, so that one parser reads both and the
command of a result can be typed again without the file. Nothing in the file is evaluated.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from dynid.errors import DynidError
from dynid.messages import Message

if TYPE_CHECKING:
    from dynid.logs.log import Log
    from dynid.robot.robot import Robot

FILE = "dynid.toml"
NONE = "none"
"""In place of a file: no project file is read."""

WITHOUT = ("robots", "physical", "export", "demo", "init")
"""Commands that take nothing from it: what they work on is a result, or always typed."""

KEYS = {
    "robot": 'robot = "arm.urdf"',
    "lock": "lock = { finger = 0.0 }",
    "logs": 'logs = ["run1.csv", "run2.csv@2:20"]',
    "validate": 'validate = ["run3.csv"], or the share "30%"',
    "loaded": 'loaded = ["with.csv"]',
    "unloaded": 'unloaded = ["without.csv"]',
    "column": 'column = { t = "clock", q = ["a", "b"], v = "" }',
    "header": 'header = "t,q*7,_*3,tau*7"',
    "rows": 'rows = "200:4000"',
    "units": 'units = { q = "deg", tau = "Nmm" }',
    "gear": "gear = 100, gear = [100, 50], or a file with a matrix",
    "gain": "gain = 0.5, or gain = [0.5, 0.4]",
    "sign": 'sign = ["tau.elbow"]',
    "zero": 'zero = { elbow = "-90deg" }',
    "order": 'order = ["pan", "lift", "elbow"]',
    "sensor": 'sensor = "plate.toml"',
    "topic": 'topic = "/joint_states"',
    "controller": '[controller] with kind, kp, kd, ... below it, or controller = "drives.toml"',
    "options": "[options] with options of dynid identify below it",
}
"""What a project file may hold, as it is written."""

_LOGS = ("logs", "validate", "loaded", "unloaded")
_TABLES = ("lock", "column", "units", "zero", "order")
_SINGLE = ("robot", "sensor", "controller")
_NUMBERS = ("validate", "gear", "gain")
_JOINED = {"header": ",", "rows": ":", "gear": ",", "gain": ",", "order": ",", "topic": "+"}
"""Keys whose list is a single word, with what stands between."""

_OF_ROBOT = ("lock", "gravity", "snap", "package_path")
"""They go with the robot of the file, and every command takes them that has them."""

_WITH_OPTIONS = ("identify", "payload", "gains", "fleet", "watch")
"""Commands that take [options]."""

_TYPED = ("json", "xacro", "xacro_arg")
"""Options that are always typed: xacro evaluates expressions, which no file that is found may ask for."""

_OF_BODIES = {"total_mass", "geometry", "bound", "prior_weight"}
_OUTPUTS = ("out", "report", "urdf", "physical")
_LARGEST = 1_000_000
"""Bytes of a file that is still read."""

_KINDS: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    Path: ((str,), "the name of a file"),
    str: ((str, int, float, list), "a text, a number or a list"),
}
"""What TOML may hold for options of a type, all but lists."""


@dataclass(frozen=True, slots=True)
class ProjectValues:
    """What a command took from a project file: the values by key, the words that say so, and the whole command."""

    file: Path
    sha256: str
    values: Mapping[str, Any]
    words: tuple[str, ...]
    command: str

    @property
    def note(self) -> Message:
        """Note on the words that came from the project file."""
        return Message("values_from_project_file", "from {file}: {words}", file=self.file, words=shlex.join(self.words))

    @property
    def origin(self) -> str:
        """Text on where values come from, to be put behind an error that may be about them."""
        return f" (from {self.file}: {', '.join(self.values)})"

    def facts(self) -> dict[str, Any]:
        """Data on the project file and its values for `--json`."""
        return {"file": str(self.file), "sha256": self.sha256, "values": dict(self.values)}


_in_use: ContextVar[ProjectValues | None] = ContextVar("project", default=None)


def values_in_use() -> ProjectValues | None:
    """Values that the running command took from a project file; None without one."""
    return _in_use.get()


def forget_values_in_use() -> None:
    """Forget the values of the command that ran."""
    _in_use.set(None)


def complete_words(command: Any, ctx: Any, words: Sequence[str]) -> list[str]:
    """Return the words of a command line, those of the project file before them."""
    forget_values_in_use()
    if command.name in WITHOUT:
        return list(words)
    parsed, _, _ = command.make_parser(ctx).parse_args(args=list(words))
    typed: dict[str, Any] = {k: value for k, value in parsed.items() if isinstance(value, str | bool | list | tuple)}
    named = typed.get("project")
    path = Path(named or FILE)
    without_logs = command.name == "report" and not {"log", "validate"} & typed.keys()
    is_there = path.is_file() and not (
        typed.get("robot") and Path(str(typed["robot"])) == path
    )  # a robot may be called so
    if named == NONE or "help" in typed or not (named or is_there) or (without_logs and not named):
        return list(words)
    if without_logs:
        raise DynidError("option_not_applicable", "--project says how logs are read", "give some with --log")
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    given = [typed[p.name] for p in arguments if p.name in typed]
    count = sum(1 if isinstance(value, str) else len(value) for value in given)
    options = [
        p for p in command.params if p not in arguments and p.name not in typed and _takes_option(command.name, p.name)
    ]
    if not named and not options and count >= sum(p.required for p in arguments):
        return list(words)
    project = read_project(path)
    if _is_log_in_place_of_robot(project, arguments, typed, count):
        left_out = arguments[:1]
        typed, _, _ = command.make_parser(ctx).parse_args(args=["robot", *words])
    else:
        left_out = _arguments_left_out(project, command.name, arguments, count)
    if not (named or left_out) and "robot" in typed and not _is_same_robot(project, typed["robot"]):
        options = [p for p in options if p.name not in _OF_ROBOT]
    idle = _unused_option_names(command.name, project.words | typed)
    taken = [p for p in (*left_out, *options) if p.name in project.values and p.name not in idle]
    added = [word for p in taken for word in _words_of_parameter(project, p)]
    if added:
        values = {p.name: project.values[p.name] for p in taken}
        whole = ["dynid", command.name, *added, *([] if named else ["--project", str(path)]), *words]
        _in_use.set(ProjectValues(path, project.sha256, values, tuple(added), shlex.join(whole)))
    return [*added, *words]


def _unused_option_names(command: str, said: Mapping[str, Any]) -> set[str]:
    """Options that a command would refuse beside what else is said: the file holds them for other runs."""
    if command == "identify" and said.get("compare"):
        single = "model estimator unknown partial sensor diagnose details physical urdf force out report"
        return {*single.split(), *_OF_BODIES}
    if command == "identify":
        idle = {"every"} | (set() if said.get("urdf") else {"force"})
        idle |= set() if said.get("urdf") or said.get("physical") else _OF_BODIES
        return idle | (set() if "reaction" in str(said.get("model")) else {"sensor", "partial"})
    if command in ("fleet", "watch"):
        return {"out", "report", "every"}  # of a single identification
    reading = {"column", "header", "rows", "units", "gear", "gain", "sign", "zero", "order", "topic"}
    if command == "view" and Path(str(said.get("trajectory", "no.json"))).suffix.lower() in (".json", ".yaml", ".yml"):
        return reading
    if command == "payload" and any(str(word).lower().endswith(".json") for word in said.get("loaded", ())):
        return reading | _identify_options().keys() - {*_OF_ROBOT}
    return set()


def _takes_option(command: str, name: str) -> bool:
    """Whether a command takes an option from a project file."""
    if command == "report" and name == "validate":
        return False
    return name in KEYS or name in _OF_ROBOT or command in _WITH_OPTIONS


def _arguments_left_out(project: Project, command: str, arguments: Sequence[Any], count: int) -> list[Any]:
    """Arguments that the file gives; all that it has, or none where so many are typed that these are meant."""
    ours = [p for p in arguments if p.name in project.values]
    needed = [p for p in arguments if p.required]
    others = [p for p in needed if p not in ours]
    if count == len(others):
        return ours
    if count >= len(needed):
        return []
    names = [p.metavar or p.name.upper() for p in needed]
    if count:
        raise DynidError(
            "arguments_incomplete", "dynid {command} takes {names}: where some are typed, none of them is taken from "
            "{file}", "give all or none", command=command, names=" ".join(names), file=project.path,
        )  # fmt: skip
    raise DynidError(
        "project_key_missing", "{file}: there is no key '{key}', which dynid {command} needs", "write {example}, or "
        "type {names}", file=project.path, key=others[0].name, command=command, names=" ".join(names),
        example=KEYS.get(others[0].name, others[0].name),
    )  # fmt: skip


def _is_log_in_place_of_robot(project: Project, arguments: Sequence[Any], typed: Mapping[str, Any], count: int) -> bool:
    """Whether only logs are typed, where ROBOT comes first, and the project file gives the robot."""
    has_place = len(arguments) > 1 and (count < len(arguments) or arguments[-1].nargs == -1)
    return "robot" in project.values and has_place and _looks_like_log(str(typed.get("robot", "")))


def _is_same_robot(project: Project, typed: str) -> bool:
    """Whether a robot that is typed is that of the file."""
    own = str(project.values.get("robot", typed))
    return typed == own or Path(typed).resolve() == (project.path.parent / own).resolve()


def _words_of_parameter(project: Project, parameter: Any) -> list[str]:
    """Words that would be typed for a parameter, paths as seen from the current folder."""
    key, value = parameter.name, project.words[parameter.name]
    if isinstance(value, bool):
        names = parameter.opts if value else parameter.secondary_opts
        return list(names[:1])
    words = [_resolve_word(project, key, word) for word in value]
    if parameter.param_type_name == "argument":
        return [f"./{word}" if word.startswith("-") else word for word in words]
    return [part for word in words for part in (parameter.opts[0], word)]


def _resolve_word(project: Project, key: str, word: str) -> str:
    """A word with its path as seen from the current folder; raise where there is no such file."""
    place = project.path.parent / word
    if key == "robot":
        return _find_robot(project, word)
    if key in _LOGS:
        return _find_logs(project, key, word)
    is_file = key in ("sensor", "controller")
    if is_file and not place.is_file():
        raise project.missing_file_error(key, place)
    return str(place) if is_file or key in project.paths or (key == "gear" and place.is_file()) else word


def _find_robot(project: Project, word: str) -> str:
    """Path of a robot file beside the project file, or the name of a bundled robot."""
    place = project.path.parent / word
    if place.is_file():
        return str(place)
    if Path(word).suffix or len(Path(word).parts) > 1:
        raise project.missing_file_error("robot", place)
    return word


def _find_logs(project: Project, key: str, word: str) -> str:
    """LOG word with its files as seen from the current folder, or a share to hold out."""
    from dynid.cli.log_options import split_recording

    folder = project.path.parent
    if key == "validate" and re.fullmatch(r"[\d.]+%?", word) and not (folder / word).exists():
        return word
    parts = split_recording(word, folder)
    for part in parts:
        if not (folder / part.source).exists():
            raise project.missing_file_error(key, folder / part.source)
    return "+".join(f"{folder / part.source}{part.suffix}" for part in parts)


@dataclass(frozen=True, slots=True)
class Project:
    """A project file: values by key, options of identify among them, and what would be typed for each.

    paths: options that are names of files.
    """

    path: Path
    text: str
    values: dict[str, Any]
    words: dict[str, list[str] | bool]
    paths: set[str]
    sha256: str = ""

    def error_at_key(
        self, key: str, code: str, what: str, remedy: str = "", *, table: str = "", **facts: Any
    ) -> DynidError:
        """An error with the file and the line of a key."""
        line = self._find_line(key, table)
        where = f"{self.path}, line {line}" if line else str(self.path)
        return DynidError(code, "{where}: " + what, remedy, where=where, key=key, **facts)

    def missing_file_error(self, key: str, place: Path) -> DynidError:
        """An error on a file that is named but not there."""
        from dynid.storage.files import suggest_similar_file

        near = suggest_similar_file(place)
        return self.error_at_key(
            key, "file_not_found", "{key}: there is no file {place!r}{near}", place=str(place), near=near
        )

    def _find_line(self, key: str, table: str) -> int:
        """The line on which a key stands, 0 where it cannot be found."""
        inside = ""
        for number, line in enumerate(self.text.split("\n"), 1):
            if header := re.match(r"\s*\[+\s*([^\[\]]+?)\s*\]", line):
                inside = header[1].replace('"', "").replace("'", "")
                if not table and inside.partition(".")[0] == key:
                    return number
            elif inside == table and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[.=]", line):
                return number
        return 0


def read_project(path: Path) -> Project:
    """Read and check a project file; DynidError names the first mistake, with its line."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except OSError as error:
        raise DynidError(
            "file_unreadable", "{path}: cannot be read: {reason}", "dynid init writes a project file", path=path,
            reason=error.strerror or error,
        ) from error  # fmt: skip
    if len(content) > _LARGEST:
        raise DynidError("file_too_large", "{path}: larger than 1 MB; this is not a project file", path=path)
    try:
        return parse_project(path, content)
    except RecursionError as error:
        raise DynidError("not_toml", "{path}: tables are nested too deeply", path=path) from error


def parse_project(path: Path, content: bytes) -> Project:
    """Check what a project file holds."""
    try:
        text = content.decode("utf-8-sig")
        data = tomllib.loads(f"{text}\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DynidError("not_utf8", "{path}, line {line}: not UTF-8 text", path=path, line=line) from error
    except ValueError as error:  # also of numbers with thousands of digits
        raise DynidError("not_toml", "{path}: not a TOML file: {reason}", path=path, reason=error) from error
    project = Project(path, text, {}, {}, set(), hashlib.sha256(content).hexdigest())
    for key, value in data.items():
        if key not in KEYS:
            near = get_close_matches(key, KEYS, n=1, cutoff=0.5)
            remedy = "did you mean {near:1}?" if near else "the keys are {keys}"
            if key.replace("-", "_") in _identify_options():
                remedy = "write it below [options]"
            raise project.error_at_key(
                key, "unknown_project_key", "there is no key {key!r}", remedy, near=near, keys=list(KEYS),
            )  # fmt: skip
        if key != "options":
            project.values[key] = value
            project.words[key] = _check_value(project, key, value)
    options = data.get("options", {})
    if not isinstance(options, dict):
        raise _Entry(project, "options", KEYS["options"]).wrong_kind_error(options)
    for key, value in options.items():
        _add_option(project, key, value)
    return project


@dataclass(frozen=True, slots=True)
class _Entry:
    """A key of a file, in a table or not, with how it is written."""

    project: Project
    key: str
    form: str
    table: str = ""

    def wrong_kind_error(self, value: Any) -> DynidError:
        """The error on a value of the wrong kind."""
        what, text = "{key}: cannot use {value}", value if isinstance(value, str) else json.dumps(value, default=str)
        return self.project.error_at_key(
            self.key, "project_value_malformed", what, "write {form}", table=self.table, form=self.form,
            value=repr(text) if isinstance(value, str) else text[:60],
        )  # fmt: skip

    def command_line_words(self, value: Any, separator: str | None = None) -> Iterator[str]:
        """Words of a text or number, of a list (one where there is a separator), or of a table: NAME=VALUE."""
        match value:
            case dict():
                yield from (
                    f"{name}={self._command_line_word(part, ',') if part != '' else ''}"
                    for name, part in _flat_items(value)
                )
            case list() if separator is None:
                yield from (self._command_line_word(part, "+" if self.key in _LOGS else None) for part in value)
            case _:
                yield self._command_line_word(value, separator)

    def _command_line_word(self, value: Any, separator: str | None) -> str:
        """Word of a text or number, or of a list with a separator between its items."""
        if isinstance(value, list) and value and separator:
            parts = [self._command_line_word(part, None) for part in value]
            if any(re.search(rf"{re.escape(separator)}(?![^\[]*\])", part) for part in parts):
                what = "{key}: a name in a list holds '{separator}', which no option can distinguish from the next name"
                raise self.project.error_at_key(
                    self.key, "separator_in_name", what, table=self.table, separator=separator
                )
            return separator.join(parts)
        if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
            raise self.wrong_kind_error(value)
        return value if isinstance(value, str) else repr(value)


def _check_value(project: Project, key: str, value: Any) -> list[str]:
    """The words of a value, which must be of the kind that its key asks for."""
    entry = _Entry(project, key, KEYS[key])
    if key == "controller" and isinstance(value, dict) and value:
        return [project.path.name]  # the command reads that table from the file itself, and checks it
    kinds: tuple[type, ...] = (str,)
    kinds += () if key in _SINGLE else (list,)
    kinds += (dict,) if key in _TABLES else ()
    kinds += (int, float) if key in _NUMBERS else ()
    if not isinstance(value, kinds) or isinstance(value, bool) or value in ([], {}):
        raise entry.wrong_kind_error(value)
    return list(entry.command_line_words(value, _JOINED.get(key)))


def _flat_items(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Entries of a table; those of tables within, as TOML reads v.elbow, by their whole name."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat_items(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


@cache
def _identify_options() -> dict[str, tuple[str, Any]]:
    """Options of identify that stand below [options]: parameter and type of each."""
    import typer.main

    from dynid.cli.app import app
    from dynid.cli.commands.identify import identify
    from dynid.cli.options import with_urdf_options

    group: Any = typer.main.get_command(app)
    hints = get_type_hints(with_urdf_options(identify))
    return {
        p.opts[0][2:].replace("-", "_"): (p.name, hints[p.name])
        for p in group.commands["identify"].params
        if p.param_type_name == "option" and p.name in hints and p.name not in (*KEYS, *_TYPED)
    }


def _add_option(project: Project, key: str, value: Any) -> None:
    """Check an entry of [options] and add it to the project."""
    known = _identify_options()
    name, kind = known.get(key.replace("-", "_"), ("", None))
    if not name and key in KEYS:
        what, remedy = "{key!r} is not an entry of [options]", "write it above, as a separate key"
        raise project.error_at_key(key, "unknown_project_key", what, remedy, table="options")
    if not name:
        near = get_close_matches(key.replace("-", "_"), known, n=1, cutoff=0.5)
        raise project.error_at_key(
            key, "unknown_project_key", "[options] has no {key!r}", "did you mean {near:1}?" if near else
            "the options are {known}", table="options", near=near, known=list(known),
        )  # fmt: skip
    only = next((part for part in get_args(kind) if part is not type(None)), kind)
    fits, form = _KINDS.get(only, ((str, int, float, list, dict), "a list or a table"))
    if not isinstance(value, fits) or isinstance(value, bool) != (only is bool):
        raise _Entry(project, key, form, "options").wrong_kind_error(value)
    if Path in (only, *get_args(only)):
        project.paths.add(name)
    if name in _OUTPUTS and (Path(str(value)).is_absolute() or ".." in Path(str(value)).parts):
        what = "{key}: a project file names outputs in its own folder only"
        raise project.error_at_key(key, "output_outside_project", what, "type --{key} for others", table="options")
    project.values[name] = value
    words = _Entry(project, key, form, "options").command_line_words(value, "," if only in _KINDS else None)
    project.words[name] = value if isinstance(value, bool) else list(words)


# dynid init: a project file from what is in a folder.

_SUFFIXES = (".csv", ".txt", ".tsv", ".gz", ".parquet", ".pq", ".npz", ".npy", ".mat", ".h5", ".hdf5", ".db3", ".mcap",
             ".dat", ".log")  # fmt: skip
_SMALL = 64 * 1024 * 1024
"""Bytes of a log that is read to its end for its duration."""

_SI = {"q": "rad or m", "v": "rad/s or m/s", "a": "rad/s^2 or m/s^2", "tau": "N m or N", "reaction": "N and N m"}

_HELD_OUT = re.compile(r"(?:^|[^a-z])(?:val|test)", re.IGNORECASE)
"""Names of logs that are meant for validation."""


@dataclass(frozen=True, slots=True, eq=False)
class LogLook:
    """What was found in a log: options that it takes, the reasons by key, and what else is worth a comment.

    measured: its first torques or forces; unused: columns of no channel of the robot; problem: why it cannot be used,
    empty where it can.
    """

    word: str
    options: Mapping[str, Mapping[str, Any]]
    reasons: tuple[tuple[str, str], ...] = ()
    comments: tuple[str, ...] = ()
    summary: str = ""
    unused: int = 0
    in_current: bool = False
    problem: str = ""
    measured: Any = None

    def is_copy_of(self, other: LogLook) -> bool:
        """Whether two logs hold the same samples, perhaps rounded in another format: no noise comes twice."""
        mine, others = self.measured, other.measured
        return bool(mine.shape == others.shape and (abs(mine - others) <= 1e-3 * abs(others).max()).all())


def _mark_unused_logs(looks: Sequence[LogLook]) -> tuple[LogLook, ...]:
    """Logs with the reason why they are not used; those that have none are copies, or take options of their own."""
    done: list[LogLook] = []
    good = [look for look in looks if not look.problem]
    counts = [sum(other.options == look.options for other in good) for look in good]
    usual = good[counts.index(max(counts))].options if good else {}
    for look in looks:
        copied = [other.word for other in done if not (look.problem or other.problem) and look.is_copy_of(other)]
        if copied:
            look = replace(look, problem=f"{look.word}: the same samples as {copied[0]}")
        elif not look.problem and look.options != usual:
            look = replace(look, problem=f"{look.word}: takes other locks or units than most: {look.options}")
        done.append(look)
    return tuple(done)


@dataclass(frozen=True, slots=True)
class Sketch:
    """A project as far as robot and logs tell; are_given: the logs were named, and not all of a folder."""

    robot: str
    joints: tuple[str, ...]
    looks: tuple[LogLook, ...]
    left_out: tuple[LogLook, ...]
    are_given: bool
    others: tuple[str, ...] = ()

    @property
    def fit_of_robot(self) -> tuple[int, int]:
        """Numbers to rank robots by: usable logs, and joints and columns without a partner."""
        locks = len(self.options.get("lock", {}))
        return len(self.looks), -locks - sum(look.unused for look in self.looks)

    @property
    def options(self) -> Mapping[str, Mapping[str, Any]]:
        """Locks and units that all logs take."""
        return self.looks[0].options if self.looks else {}

    @property
    def split_logs(self) -> tuple[list[str], list[str] | str]:
        """Logs to fit, and to validate: by their names, else one in four, or a share where there is one."""
        words = [look.word for look in self.looks]
        if len(words) < 2:
            return words, "30%"
        named = [word for word in words if _HELD_OUT.search(Path(word).name)]
        held = named if 0 < len(named) < len(words) else words[-max(1, len(words) // 4) :]
        return [word for word in words if word not in held], held

    @property
    def warnings(self) -> list[Message]:
        """Logs that were given but cannot be used as they are."""
        return [Message("log_left_out", "{problem}", problem=look.problem) for look in self.left_out if self.are_given]

    def summary_lines(self) -> list[str]:
        """Lines for a person on what was found."""
        fit, held = self.split_logs
        lines = [f"{self.robot}: {len(self.joints)} joints"]
        for look in self.looks:
            lines.append(f"{look.word}: {look.summary}, to {'validate' if look.word in held else 'fit'}")
        for key, entries in self.options.items():
            lines += [f"{key}: {', '.join(f'{name}={value}' for name, value in entries.items())}"] if entries else []
        lines += [] if self.are_given else [f"left out: {look.problem}" for look in self.left_out]
        return [*lines, "next: dynid identify" if fit else f"next: add logs to {FILE}"]

    def facts(self) -> dict[str, Any]:
        """Data on the project for `--json`."""
        fit, held = self.split_logs
        facts = {"file": FILE, "robot": self.robot, "logs": fit, "validate": held, **self.options}
        return facts | {"left_out": {look.word: look.problem for look in self.left_out}, "warnings": self.warnings}

    def project_file_text(self) -> str:
        """Text of the project file."""
        fit, held = self.split_logs
        lines = [
            "# A project of dynid: commands take from this file what is not typed, so that dynid identify is enough.",
            "# What is typed wins. Paths are relative to this file; nothing in it is evaluated.",
            "", f"robot = {_toml_string(self.robot)}",
            *_comment_lines(f"its joints: {', '.join(map(_toml_string, self.joints))}"),
        ]  # fmt: skip
        if self.others:
            lines += _comment_lines(f"other robot files here: {', '.join(map(_toml_string, self.others))}")
        for key, entries in self.options.items():
            if entries:
                reasons = dict.fromkeys(why for look in self.looks for name, why in look.reasons if name == key)
                lines += ["", *(line for why in reasons for line in _comment_lines(f"{key}: {why}"))]
                inside = ", ".join(f"{_toml_string(name)} = {_toml_value(value)}" for name, value in entries.items())
                lines.append(f"{key} = {{ {inside} }}")
        if fit:
            lines += ["", "# Logs to fit, and to validate (logs, or a share of each to hold out).", "logs = ["]
            notes = {look.word: look.summary for look in self.looks}
            lines += [f"  {_toml_string(word)},  # {notes[word]}" for word in fit] + ["]"]
            lines.append(f"validate = {_toml_value(held)}")
        else:
            lines += ["", "# No log was found that can be used.", '# logs = ["log.csv"]']
        for text in dict.fromkeys(text for look in self.looks for text in look.comments):
            of = [_toml_string(look.word) for look in self.looks if text in look.comments]
            lines += _comment_lines(text if len(of) == len(self.looks) else f"{', '.join(of)}: {text}")
        lines += [line for look in self.left_out for line in _comment_lines(f"left out: {look.problem}")]
        if any(look.in_current for look in self.looks):
            lines += [
                "",
                "# Torques are currents: give the gains of the drives, one or one per joint.",
                "# gain = 1.0  # N m/A",
            ]
        lines += [
            "", "# Where columns are named otherwise, in other units, or wired wrongly:",
            '# column = { t = "clock", q = ["a", "b"], v = "" }', '# units = { q = "deg", v = "deg/s", tau = "Nmm" }',
            '# sign = ["tau.JOINT"]', '# zero = { JOINT = "-90deg" }', '# order = ["JOINT", "JOINT"]',
            "", "[options]", "# Options of dynid identify, such as", "# cutoff = 10.0  # Hz; automatic if missing",
            '# friction = "auto"', '# model = "torque"', "",
        ]  # fmt: skip
        return "\n".join(lines)


def sketch_project(robot: str | None, logs: Sequence[str], folder: Path, load: Callable[..., Robot]) -> Sketch:
    """Sketch a project from a robot and its logs, or from what a folder holds; load: as `load_robot`."""
    if robot is not None and _looks_like_log(robot):
        logs, robot = [robot, *logs], None
    robots = _find_robot_files(folder) if robot is None else [robot]
    words = list(logs) or _find_log_files(folder)
    for word in (*robots, *words):
        if not _is_plain_text(word):
            raise DynidError("name_not_text", "{word!r}: a name that is not text", "rename the file", word=word)
    if not robots:
        raise DynidError(
            "no_robot_found", "there is no robot file (.urdf, MJCF .xml, .toml table) here",
            "name one: dynid init ROBOT; dynid robots lists bundled ones",
        )  # fmt: skip
    best: Sketch | None = None
    failed: list[DynidError] = []
    for name in robots:
        try:
            joints = load(name).joint_names
        except DynidError as error:
            failed.append(error)
            continue
        looks = _mark_unused_logs([_look_at_log(partial(load, name), word, is_given=bool(logs)) for word in words])
        used, rest = (tuple(look for look in looks if bool(look.problem) == out) for out in (False, True))
        sketch = Sketch(name, tuple(joints), used, rest, bool(logs))
        best = sketch if best is None or sketch.fit_of_robot > best.fit_of_robot else best
    if best is None:
        raise failed[0]
    return replace(best, others=tuple(name for name in robots if name != best.robot))


def _find_robot_files(folder: Path) -> list[str]:
    """URDF and MJCF files, and tables, by their content where the suffix does not say it."""
    found = []
    for path in sorted(folder.iterdir()):
        suffix = path.suffix.lower()
        if path.name.startswith(".") or path.name == FILE or not path.is_file() or not _is_plain_text(path.name):
            continue
        with suppress(OSError, ValueError, RecursionError):
            if suffix == ".urdf" or (suffix == ".xml" and "<mujoco" in path.read_text(encoding="utf-8")[:100_000]):
                found.append(path.name)
            elif suffix == ".toml" and "joint" in tomllib.loads(path.read_text(encoding="utf-8")):
                found.append(path.name)
    return found


def _find_log_files(folder: Path) -> list[str]:
    """Files and folders of bags that look like logs."""
    paths = (path for path in sorted(folder.iterdir()) if not path.name.startswith(".") and _is_plain_text(path.name))
    return [path.name for path in paths if _looks_like_log(str(path))]


def _looks_like_log(word: str) -> bool:
    """Whether a word names a log by its suffix, or the folder of a bag."""
    path = Path(word if Path(word).exists() else re.split("[@+]", word)[0])
    return (path / "metadata.yaml").is_file() or (path.suffix.lower() in _SUFFIXES and not path.is_dir())


def _look_at_log(load: Callable[..., Robot], word: str, *, is_given: bool) -> LogLook:
    """Read the beginning of a log; what its errors propose in locks and units is tried."""
    from dynid.cli.log_options import LogReader, files_of_log_arguments
    from dynid.logs.inspection import proposed_options
    from dynid.logs.survey import survey

    options: dict[str, dict[str, Any]] = {"lock": {}, "units": {}}
    reasons: list[tuple[str, str]] = []
    while True:
        try:
            loaded = load(lock=options["lock"])
            units = [
                f"{name}={unit if isinstance(unit, str) else ','.join(unit)}" for name, unit in options["units"].items()
            ]
            reader = LogReader.from_options(loaded, (), units, None, None, None)
            log = reader.read_log(word)
            loaded = reader.robot_with_locks()
            channels = tuple(name for name in ("tau", "reaction") if name in log.channels)
            seen = survey(log, loaded, measured=channels[:1] or ("tau",))
            break
        except DynidError as error:
            if is_given and error.code == "file_not_found":
                raise
            new = proposed_options(error, options)
            if not new:
                return LogLook(word, options, problem=error.message.for_command_line)
            for key, entries in new.items():
                options[key] |= entries
                reasons.append((key, error.message.what))
    summary = f"{seen.rate:.4g} Hz"
    if sum(path.stat().st_size for path in files_of_log_arguments([word]) if path.is_file()) < _SMALL:
        summary += f", {log.span[1] - log.span[0]:.4g} s"
    for channel in ("q", *channels):
        summary += f", {channel} up to {abs(getattr(seen.samples, channel)).max():.3g}"
    notes = [note.for_command_line for note in (*log.notes, *seen.notes)]
    return LogLook(
        word, options, tuple(reasons), (*_recognised_columns(log), *notes), summary, len(log.unused_columns),
        any(note.code == "torques_in_current" for note in log.notes), "", getattr(seen.samples, (*channels, "q")[0]),
    )  # fmt: skip


def _recognised_columns(log: Log) -> Iterator[str]:
    """The columns of each channel, by the names that the file has."""
    plan = getattr(log.source, "plan", None)
    if plan is None:
        return
    yield f"t (s): {_toml_string(plan.t.field)}"
    for channel, places in plan.channels.items():
        columns = [_toml_string(p.field if p.column is None else f"{p.field}[:, {p.column}]") for p in places]
        shown = columns if places[0].column is None else [columns[0], "...", columns[-1]]
        yield f"{channel} ({_SI[channel]}): {', '.join(shown)}"
    if log.unused_columns:
        yield f"not used: {', '.join(log.unused_columns[:12])}{', ...' if len(log.unused_columns) > 12 else ''}"


def _is_plain_text(name: str) -> bool:
    """Whether a name can stand in a file of text."""
    try:
        return bool(name.encode("utf-8"))
    except UnicodeEncodeError:
        return False


def _toml_string(text: str) -> str:
    """A TOML basic string, whatever the text holds."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_value(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, str):
        return _toml_string(value)
    return f"[{', '.join(map(_toml_value, value))}]" if isinstance(value, list | tuple) else repr(float(value))


def _comment_lines(text: str) -> list[str]:
    """A text as lines of a comment."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return textwrap.wrap(plain, 110, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False)
