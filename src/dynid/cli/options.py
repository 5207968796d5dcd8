"""Arguments and options that several commands have, and what their words mean."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynid.errors import DynidError

if TYPE_CHECKING:
    from dynid.robot.robot import Robot

# What the shell offers after TAB; light, because it runs at every key.


def complete_robot_name(incomplete: str) -> list[str]:
    """Names of bundled robots; where none fits, the shell offers files."""
    folder = resources.files("dynid") / "robot" / "library"
    names = (file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))
    return sorted(name for name in names if name.startswith(incomplete))


RobotArgument = Annotated[
    str,
    typer.Argument(
        help="a .urdf, an MJCF .xml, a .toml table, or a bundled robot's name", autocompletion=complete_robot_name
    ),
]
JsonOption = Annotated[Path | None, typer.Option("--json", help="machine-readable output; - is standard output")]
LockOption = Annotated[list[str] | None, typer.Option(help="hold a joint: NAME=POSITION, repeatable")]
GravityOption = Annotated[str | None, typer.Option(help="acceleration of gravity in m/s^2: x,y,z")]
SignOption = Annotated[
    list[str] | None, typer.Option(help="a channel with the wrong sign: tau.JOINT, q.JOINT (v and a too), repeatable")
]
ZeroOption = Annotated[
    list[str] | None, typer.Option(help="added to positions: JOINT=-90deg; rad or m without a unit, repeatable")
]
OrderOption = Annotated[
    list[str] | None, typer.Option(help="joints in the order of the columns: NAME,NAME,...; tau=NAME,... of tau alone")
]
HeaderOption = Annotated[
    str | None, typer.Option(help="names of all columns of a table: 't,q*7,_*3,tau*7'; _ skips one")
]
RowsOption = Annotated[str | None, typer.Option(help="rows to use, FIRST:LAST, counted from 1; LOG@#200:4000 for one")]
PackagePathOption = Annotated[
    list[Path] | None, typer.Option(help="a ROS package, or a folder of packages, for package://; repeatable")
]
TotalMassOption = Annotated[float | None, typer.Option(help="mass of all moving links together, kg")]
GeometryOption = Annotated[str | None, typer.Option(help="a .urdf whose collision shapes contain the links' mass")]
BoundOption = Annotated[list[str] | None, typer.Option(help="NAME=LOW:HIGH of a parameter, repeatable")]
PriorWeightOption = Annotated[
    float | None,
    typer.Option(help="weight of the prior, in units of chi-square (default: as large as the fit allows); 0: no prior"),
]
SensorOption = Annotated[Path | None, typer.Option(help="a .toml file that describes the force plate")]
SnapOption = Annotated[bool, typer.Option(help="round almost-right angles of the robot file to right angles")]


# How URDF and xacro files are read, the same for all commands that load a robot.


_READING: ContextVar[dict[str, Any]] = ContextVar("reading", default={})  # noqa: B039 (never changed)
_URDF_OPTIONS: dict[str, Any] = {
    "xacro": Annotated[
        bool,
        typer.Option("--xacro", help="expand a .xacro: evaluates its expressions, so only files that you trust"),
    ],
    "xacro_arg": Annotated[list[str] | None, typer.Option(help="an argument of the .xacro: NAME:=VALUE, repeatable")],
    "package_path": PackagePathOption,
}


def with_urdf_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that loads a robot with the options for URDF and xacro files; others as they are."""
    signature = inspect.signature(command, eval_str=True)
    if not {"robot", "result"} & set(signature.parameters) or "package_path" in signature.parameters:
        return command

    @wraps(command)
    def run(*, xacro: bool, xacro_arg: list[str] | None, package_path: list[Path] | None, **options: Any) -> None:
        """Keep how files are read while the command runs."""
        pairs = [word.partition(":=") for word in xacro_arg or ()]
        for name, equals, _ in pairs:
            if not xacro or not name or not equals:
                raise DynidError(
                    "option_malformed", "--xacro-arg {word}:", "write NAME:=VALUE, together with --xacro", word=name,
                )  # fmt: skip
        arguments = {name: value for name, _, value in pairs}
        given = {"xacro": arguments or xacro, "package_path": tuple(map(str, package_path or ()))}
        token = _READING.set({key: value for key, value in given.items() if value})
        try:
            command(**options)
        finally:
            _READING.reset(token)

    defaults = {"xacro": False}
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name), annotation=kind)
        for name, kind in _URDF_OPTIONS.items()
    ]
    own = [x.replace(kind=inspect.Parameter.KEYWORD_ONLY) for x in signature.parameters.values()]
    last = next((k for k, x in enumerate(own) if x.name == "json"), len(own))
    run.__signature__ = signature.replace(parameters=[*own[:last], *more, *own[last:]])  # type: ignore[attr-defined]
    run.__annotations__ = {x.name: x.annotation for x in (*own, *more)}
    return run


def load_robot_for_command(source: str, **options: Any) -> Robot:
    """Load a robot with --xacro, --xacro-arg and --package-path of the running command."""
    from dynid.robot.load import load_robot

    return load_robot(source, **options, **_READING.get())


def robot_file_options() -> dict[str, Any]:
    """Keywords of `load_robot` that the running command's options give: xacro and package_path."""
    return dict(_READING.get())


def urdf_options_as_arguments() -> list[str]:
    """--xacro, --xacro-arg and --package-path of the command that runs, as arguments of a command line."""
    given = _READING.get()
    xacro = given.get("xacro", {})
    words = ["--xacro"] * bool(xacro)
    for name, value in xacro.items() if isinstance(xacro, dict) else ():
        words += ["--xacro-arg", f"{name}:={value}"]
    return words + [word for folder in given.get("package_path", ()) for word in ("--package-path", folder)]


BESIDE_LOG = "<beside the log>"
"""In place of a name: a file beside the first log."""

_WITHOUT_NAME = ("--report", "--urdf")


def name_outputs(words: Sequence[str]) -> list[str]:
    """Return the words of a command line, options for outputs without a name completed by `BESIDE_LOG`.

    Such an option stands last or before another option.
    """
    end = words.index("--") if "--" in words else len(words)
    named = []
    for k, word in enumerate(words):
        is_bare = k < end and word in _WITHOUT_NAME and (k + 1 >= end or words[k + 1].startswith("-"))
        named.append(f"{word}={BESIDE_LOG}" if is_bare else word)
    return named


def path_beside_log(path: Path | None, logs: Sequence[Path], ending: str) -> Path | None:
    """Path of an output as it was given, or one beside the first log: run.csv.gz gives run + ending."""
    if path is None or str(path) != BESIDE_LOG:
        return path
    log = logs[0] if logs[0].name else logs[0].resolve()  # a bag may be this folder
    stem = log.name.removesuffix(".gz").removesuffix(".GZ")
    return log.parent / ((Path(stem).stem or "log") + ending)


def parse_locks(words: Sequence[str]) -> dict[str, float]:
    """Parse --lock: joints to hold from NAME=POSITION words."""
    locks = {}
    for word in words:
        name, _, value = word.rpartition("=")
        try:
            locks[name] = float(value)
        except ValueError:
            locks[name] = math.nan
        if not name or not math.isfinite(locks[name]):
            raise DynidError("option_malformed", "--lock {word}:", "write NAME=POSITION, in rad or m", word=word)
    return locks


def parse_numbers(text: str, option: str, what: str) -> list[float]:
    """Parse finite numbers separated by commas; raise with the option's name for others."""
    try:
        values = [float(word) for word in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(map(math.isfinite, values)):
        raise DynidError(
            "option_malformed", "{option} {text}:", "give {what}, separated by commas", option=option, text=text,
            what=what,
        )  # fmt: skip
    return values


def parse_names(option: str, text: str | None) -> tuple[str, ...]:
    """Parse names separated by commas; none where the option is left out."""
    if text is None:
        return ()
    names = tuple(word.strip() for word in text.split(",") if word.strip())
    if not names:
        raise DynidError("option_malformed", "{option}:", "give names separated by commas", option=option)
    return names


def refuse_unused_options(given: Mapping[str, object], why: str) -> None:
    """Raise for options that would change nothing; given: value by option, None or empty where left out."""
    idle = [option for option, value in given.items() if value not in (None, [], (), "", False)]
    if idle:
        raise DynidError("option_not_applicable", "{options}: {why}", options=idle, why=why)
