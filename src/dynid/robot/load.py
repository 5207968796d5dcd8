"""The front door for robots: a file or the name of a bundled table."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from dynid.errors import DynidError, RobotFileError, UnknownRobotError
from dynid.robot.expression import Expression
from dynid.robot.loops import Closure, Coupling
from dynid.robot.robot import Link, Robot
from dynid.robot.transform import Transform, freeze, rotation_about

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
    robot = _read(Path(source), str(source), floating_base, lock or {}, snap)
    if gravity is not None:
        robot = replace(robot, gravity=gravity)
    return robot


def _read(path: Path, source: str, floating_base: bool, lock: Mapping[str, float], snap: bool) -> Robot:
    if not path.is_file():
        if source not in bundled_robots():
            if path.is_dir():
                raise DynidError(f"'{source}' is a folder; name the .urdf, .xml or .toml file in it")
            raise UnknownRobotError(source, bundled_robots())
        with resources.as_file(resources.files("dynid.robot") / "library" / f"{source}.toml") as file:
            return _from_table(file, floating_base, lock, snap)
    if path.stat().st_size > _LARGEST_FILE:
        raise RobotFileError(source, ["larger than 64 MiB; this is not a robot description"])
    match path.suffix.lower():
        case ".toml":
            return _from_table(path, floating_base, lock, snap)
        case ".urdf" | ".xml":
            from dynid.robot.urdf import read_mjcf, read_urdf

            reader = read_urdf if path.suffix.lower() == ".urdf" else read_mjcf
            return reader(path, floating_base=floating_base, lock=lock, snap=snap)
        case ".xacro":
            raise RobotFileError(source, ["a xacro file must be expanded first: xacro robot.xacro > robot.urdf"])
    raise RobotFileError(source, [f"unknown kind of file '{path.suffix}'; use .urdf, .xml (MJCF) or .toml"])


def _from_table(path: Path, floating_base: bool, lock: Mapping[str, float], snap: bool) -> Robot:
    from dynid.robot.table import read_table

    robot = lock_joints(read_table(path, snap=snap), lock)
    return _with_floating_base(robot) if floating_base else robot


def _with_floating_base(robot: Robot) -> Robot:
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


def lock_joints(robot: Robot, lock: Mapping[str, float]) -> Robot:
    """Return the robot with some joints held at a position: they become fixed, and drop out of couplings."""
    if not lock:
        return robot
    moving = [robot.links[k].joint for k in robot.tree_joints]
    for name, value in lock.items():
        if name not in moving:
            raise DynidError(f"cannot lock '{name}': the joints of '{robot.name}' are {', '.join(moving)}")
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise DynidError(f"cannot lock '{name}' at {value!r}: give a finite position in rad or m")
    held = dict(lock)
    couplings: list[Coupling] = []
    for coupling in robot.couplings:
        free = tuple((n, k) for n, k in coupling.factors if n not in held)
        offset = coupling.offset + sum(k * held[n] for n, k in coupling.factors if n in held)
        if coupling.passive in held:
            continue
        if free:
            couplings.append(Coupling(coupling.passive, free, offset))
        else:
            held[coupling.passive] = offset
    closures = tuple(_check_closure(robot, closure, held) for closure in robot.closures)
    links = tuple(_locked(link, held[link.joint]) if link.joint in held else link for link in robot.links)
    if not any(link.moves for link in links):
        raise DynidError(f"locking {', '.join(held)} leaves '{robot.name}' without a moving joint")
    return replace(robot, links=links, couplings=tuple(couplings), closures=closures)


def _check_closure(robot: Robot, closure: Closure, held: Mapping[str, float]) -> Closure:
    both = [name for name in closure.passive if name in held]
    if both:
        raise DynidError(f"cannot lock '{both[0]}' of '{robot.name}': a closure needs it to close its loop")
    if closure.at is None:
        return closure
    at = [x for x, name in zip(closure.at, robot.joint_names, strict=True) if name not in held]
    return replace(closure, at=freeze(at))


def _locked(link: Link, position: float) -> Link:
    if link.kind == "revolute":
        motion = Transform(rotation_about(link.axis, position), np.zeros(3))
    else:
        motion = Transform(np.eye(3), position * link.axis)
    row = link.mdh
    if row is not None and position != 0.0:
        letter = "theta" if link.kind == "revolute" else "r"
        row = replace(row, **{letter: _added(getattr(row, letter), position)})
    return replace(link, kind="fixed", placement=link.placement @ motion, mdh=row, rotor=np.nan)


def _added(value: Expression, position: float) -> Expression:
    if value.text is None:
        return Expression(value.value + position)
    shown = math.degrees(position) if value.degrees else position
    return Expression(value.value + position, f"{value.text} + {shown!r}", value.degrees)


