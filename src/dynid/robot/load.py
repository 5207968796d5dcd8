"""The front door for robots: a file or the name of a bundled table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from dynid.errors import DynidError, RobotFileError, UnknownRobotError
from dynid.messages import Option, Wording
from dynid.robot.io.xml import CONVERT_SDF, expand_xacro
from dynid.robot.locking import lock_joints, lock_loaded_robot
from dynid.robot.robot import Link, Robot
from dynid.robot.transform import Transform, freeze
from dynid.storage.files import hash_file, suggest_similar_file

_LARGEST_FILE = 64 * 1024 * 1024


BUNDLED_MJCF = ("leg",)
"""Bundled MJCF files, beside the tables of `bundled_robots`: a leg on a stand, for `identify_actuators`."""


def bundled_robots() -> tuple[str, ...]:
    """Names of the bundled robots."""
    folder = resources.files("dynid.robot") / "library"
    return tuple(sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")))


def load_robot(
    source: str | os.PathLike[str],
    *,
    gravity: Any = None,
    floating_base: bool = False,
    lock: Mapping[str, float] | None = None,
    snap: bool = True,
    xacro: bool | Mapping[str, str] = False,
    package_path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
) -> Robot:
    """Load a robot from a `.urdf`, an MJCF `.xml`, a `.toml` table, or by the name of a bundled robot.

    `gravity` (3,) in m/s^2 replaces the file's; `floating_base` frees the base; `lock` holds joints at a
    position (rad or m); `snap=False` keeps angles that are almost multiples of 90 degrees.

    `xacro=True`, or a mapping with values of its arguments, expands a `.xacro` file first. The package xacro evaluates
    Python expressions of the file, in a restricted way and in a process with limits of time and memory: give it only
    files that you trust. `package_path`: folders that are ROS packages or hold some, in which `package://` of meshes
    and `$(find package)` are looked for, before those of ROS_PACKAGE_PATH, AMENT_PREFIX_PATH and COLCON_PREFIX_PATH.
    """
    folders = [package_path] if isinstance(package_path, str | os.PathLike) else list(package_path)
    reading = _Reading(floating_base, lock or {}, snap, xacro, _check_package_path(folders))
    robot = _find_and_load(Path(source), str(source), reading)
    if gravity is not None:
        robot = replace(robot, gravity=gravity)
    return robot


@dataclass(frozen=True, slots=True)
class _Reading:
    """How a robot is to be read: the keywords of `load_robot`."""

    floating_base: bool
    lock: Mapping[str, float]
    snap: bool
    xacro: bool | Mapping[str, str]
    package_path: tuple[str, ...]


def _check_package_path(folders: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """Absolute folders; DynidError where one does not exist."""
    for folder in folders:
        if not isinstance(folder, str | os.PathLike) or not Path(folder).is_dir():
            raise DynidError(
                "folder_not_found", "{option} '{folder}': there is no such folder", "name a ROS package, or a folder "
                "that holds packages", option=Wording("package_path:", "--package-path"), folder=str(folder),
            )  # fmt: skip
    return tuple(str(Path(folder).absolute()) for folder in folders)


def load_with_locks_of(source: str | os.PathLike[str], other: Robot, **options: Any) -> Robot:
    """Load a robot with the joints held that another one, such as that of a result, holds."""
    robot = load_robot(source, **options)
    return lock_loaded_robot(robot, {name: x for name, x in other.locks.items() if name in robot.joint_names})


def _find_and_load(path: Path, source: str, reading: _Reading) -> Robot:
    """Load an existing file or a bundled robot of this name."""
    if not path.is_file():
        if source in BUNDLED_MJCF:
            with resources.as_file(resources.files("dynid.robot") / "library" / f"{source}.xml") as file:
                return _find_and_load(file, str(file), reading)
        if source not in bundled_robots():
            if path.is_dir():
                raise DynidError(
                    "path_is_folder", "'{source}' is a folder", "name the .urdf, .xml or .toml file in it",
                    source=source,
                )  # fmt: skip
            raise UnknownRobotError(source, bundled_robots(), suggest_similar_file(path))
        with resources.as_file(resources.files("dynid.robot") / "library" / f"{source}.toml") as file:
            own = hash_file(file, f"{source}.toml (bundled)")
            return replace(_load_table(file, source, reading), files=(own,))
    if path.stat().st_size > _LARGEST_FILE:
        raise RobotFileError(source, "file_too_large", "larger than 64 MiB; this is not a robot description")
    robot = _load_file(path, source, reading)
    return replace(robot, files=(hash_file(path),), package_path=reading.package_path)


def _load_file(path: Path, source: str, reading: _Reading) -> Robot:
    """Load a file by its suffix."""
    how: dict[str, Any] = {"floating_base": reading.floating_base, "lock": reading.lock, "snap": reading.snap}
    match path.suffix.lower():
        case ".toml":
            return _load_table(path, source, reading)
        case ".xml":
            from dynid.robot.io.mjcf import read_mjcf

            _refuse_urdf_options(source, reading)
            return read_mjcf(path, **how)
        case ".urdf" | ".xacro":
            from dynid.robot.io.urdf import read_urdf

            if path.suffix.lower() == ".xacro" and reading.xacro is False:
                raise RobotFileError(
                    source, "xacro_not_expanded", "a xacro file must be expanded first",
                    "use {option}, which evaluates expressions of the file and is for files that you trust, or run "
                    "xacro robot.xacro > robot.urdf", option=Option("xacro", True),
                )  # fmt: skip
            return read_urdf(path, **how, text="" if reading.xacro is False else _expand_xacro_file(path, reading))
        case ".sdf" | ".world":
            raise RobotFileError(source, "sdf_not_read", "SDF is not read", CONVERT_SDF)
    raise RobotFileError(
        source, "unsupported_suffix", "unknown kind of file '{suffix}'", "use .urdf, .xml (MJCF) or .toml",
        suffix=path.suffix,
    )  # fmt: skip


def _expand_xacro_file(path: Path, reading: _Reading) -> str:
    """URDF text of a xacro file, expanded with the folders and arguments given."""
    from dynid.robot.io.meshes import LEVELS, MeshFolders

    values = {} if isinstance(reading.xacro, bool) else reading.xacro
    if not isinstance(values, Mapping) or not all(isinstance(x, str) for pair in values.items() for x in pair):
        raise DynidError(
            "xacro_arguments_malformed", "{option} must be true, or a mapping from names to texts, got {value!r:.60}",
            option=Wording("xacro", "--xacro-arg"), value=str(reading.xacro),
        )  # fmt: skip
    folders = MeshFolders.for_urdf(path, levels=LEVELS, package_path=reading.package_path)
    beside = (*folders.folders, *(folder.parent for folder in folders.folders))
    return expand_xacro(path, values, (*folders.packages, *beside), folders.prefixes, (folders.home, *folders.folders))


def _refuse_urdf_options(source: str, reading: _Reading) -> None:
    """Raise where options for URDF files are given with another robot."""
    for name, given in (("xacro", reading.xacro is not False), ("package_path", reading.package_path != ())):
        if given:
            raise RobotFileError(
                source, "option_not_applicable", "{option} is for .xacro and .urdf files", "leave it out",
                option=Option(name),
            )  # fmt: skip


def _load_table(path: Path, source: str, reading: _Reading) -> Robot:
    """Load a TOML table, its joints locked and its base freed as asked."""
    from dynid.robot.io.toml_table import read_table

    _refuse_urdf_options(source, reading)
    robot = lock_joints(read_table(path, snap=reading.snap), reading.lock)
    return _with_floating_base(robot) if reading.floating_base else robot


def _with_floating_base(robot: Robot) -> Robot:
    """Robot with a free link of unknown inertia as its base."""
    base = Link(
        name="0",
        joint="base",
        label="0",
        parent=-1,
        kind="floating",
        placement=Transform.identity(),
        axis=freeze(np.zeros(3)),
        inertia=freeze(np.full(10, np.nan)),
    )
    links = tuple(replace(link, parent=link.parent + 1) for link in robot.links)
    return replace(robot, links=(base, *links))
