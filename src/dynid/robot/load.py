"""The front door for robots: a file or the name of a bundled table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from dynid.errors import DynidError, RobotFileError, UnknownRobotError
from dynid.robot.locking import lock_joints, lock_loaded_robot
from dynid.robot.robot import Link, Robot
from dynid.robot.transform import Transform, freeze
from dynid.storage.files import hash_file, suggest_similar_file

_LARGEST_FILE = 64 * 1024 * 1024


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
) -> Robot:
    """Load a robot from a `.urdf`, an MJCF `.xml`, a `.toml` table, or by the name of a bundled robot.

    `gravity` (3,) in m/s^2 replaces the file's; `floating_base` frees the base; `lock` holds joints at a
    position (rad or m); `snap=False` keeps angles that are almost multiples of 90 degrees.
    """
    robot = _find_and_load(Path(source), str(source), floating_base, lock or {}, snap)
    if gravity is not None:
        robot = replace(robot, gravity=gravity)
    return robot


def load_with_locks_of(source: str | os.PathLike[str], other: Robot) -> Robot:
    """Load a robot with the joints held that another one, such as that of a result, holds."""
    robot = load_robot(source)
    return lock_loaded_robot(robot, {name: x for name, x in other.locks.items() if name in robot.joint_names})


def _find_and_load(path: Path, source: str, floating_base: bool, lock: Mapping[str, float], snap: bool) -> Robot:
    """Load an existing file or a bundled robot of this name."""
    if not path.is_file():
        if source not in bundled_robots():
            if path.is_dir():
                raise DynidError(
                    "path_is_folder", "'{source}' is a folder", "name the .urdf, .xml or .toml file in it",
                    source=source,
                )  # fmt: skip
            raise UnknownRobotError(source, bundled_robots(), suggest_similar_file(path))
        with resources.as_file(resources.files("dynid.robot") / "library" / f"{source}.toml") as file:
            own = hash_file(file, f"{source}.toml (bundled)")
            return replace(_load_table(file, floating_base, lock, snap), files=(own,))
    if path.stat().st_size > _LARGEST_FILE:
        raise RobotFileError(source, "file_too_large", "larger than 64 MiB; this is not a robot description")
    robot = _load_file(path, source, floating_base, lock, snap)
    return replace(robot, files=(hash_file(path),))


def _load_file(path: Path, source: str, floating_base: bool, lock: Mapping[str, float], snap: bool) -> Robot:
    """Load a file by its suffix."""
    match path.suffix.lower():
        case ".toml":
            return _load_table(path, floating_base, lock, snap)
        case ".urdf" | ".xml":
            from dynid.robot.io.mjcf import read_mjcf
            from dynid.robot.io.urdf import read_urdf

            reader = read_urdf if path.suffix.lower() == ".urdf" else read_mjcf
            return reader(path, floating_base=floating_base, lock=lock, snap=snap)
        case ".xacro":
            raise RobotFileError(
                source, "xacro_not_expanded", "a xacro file must be expanded first: xacro robot.xacro > robot.urdf",
            )  # fmt: skip
    raise RobotFileError(
        source, "unsupported_suffix", "unknown kind of file '{suffix}'", "use .urdf, .xml (MJCF) or .toml",
        suffix=path.suffix,
    )  # fmt: skip


def _load_table(path: Path, floating_base: bool, lock: Mapping[str, float], snap: bool) -> Robot:
    """Load a TOML table, its joints locked and its base freed as asked."""
    from dynid.robot.io.toml_table import read_table

    robot = lock_joints(read_table(path, snap=snap), lock)
    return _with_floating_base(robot) if floating_base else robot


def _with_floating_base(robot: Robot) -> Robot:
    """The robot with a free link of unknown inertia as its base."""
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
