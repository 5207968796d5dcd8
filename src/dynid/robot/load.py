"""The front door for robots: a file or the name of a bundled table; joints that are held still become fixed."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dynid.errors import DynidError, RobotFileError, UnknownRobotError
from dynid.messages import ANYTHING, Message, Option, Wording
from dynid.robot.expression import Expression
from dynid.robot.io.xml import CONVERT_SDF, expand_xacro
from dynid.robot.robot import Closure, Coupling, Link, Robot
from dynid.robot.transform import Transform, freeze, rotation_about
from dynid.storage.files import JOINTS, check_regular_file, hash_file, suggest_similar_file

SLACK = 1e-3
"""How far beyond its limits a joint may be held without a note, rad or m: limits are rounded."""


def lock_joints(robot: Robot, lock: Mapping[str, float]) -> Robot:
    """Return the robot with some joints held at a position: they become fixed, and drop out of couplings."""
    if not lock:
        return robot
    moving = [robot.links[k].joint for k in robot.tree_joints]
    for name, value in lock.items():
        if name not in moving:
            raise DynidError(
                "unknown_joint", "cannot lock '{joint}': the joints of '{robot}' are {joints}", joint=name,
                robot=robot.name, joints=list(moving),
            )  # fmt: skip
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise DynidError(
                "lock_position_not_finite", "cannot lock '{joint}' at {position!r}", "give a finite position in rad "
                "or m", joint=name, position=value,
            )  # fmt: skip
    held = dict(lock)
    couplings = _reduce_couplings(robot.couplings, held)
    closures = tuple(_check_closure(robot, closure, held) for closure in robot.closures)
    links = tuple(_lock_link(link, held[link.joint]) if link.joint in held else link for link in robot.links)
    if not any(link.moves for link in links):
        raise DynidError(
            "no_moving_joint", "locking {locked} leaves '{robot}' without a moving joint", locked=list(held),
            robot=robot.name,
        )  # fmt: skip
    columns = tuple(column for column in robot.columns if not {column.joint, column.of} & set(held))
    sensor = robot.sensor
    if sensor is not None:
        sensor = replace(sensor, rotors=tuple(rotor for rotor in sensor.rotors if rotor.joint not in held))
    notes = (*robot.notes, *_describe_outside_limits(robot, lock))
    return replace(
        robot, links=links, couplings=couplings, closures=closures, columns=columns, sensor=sensor, notes=notes,
        locks={**robot.locks, **{name: float(value) for name, value in lock.items()}},
    )  # fmt: skip


def lock_loaded_robot(robot: Robot, lock: Mapping[str, float]) -> Robot:
    """Return a robot with further joints held, as if it had been loaded so: links of a URDF or MJCF are merged."""
    from dynid.robot.io.pinocchio_tree import merge_fixed_links

    locked = lock_joints(robot, lock)
    return locked if not lock or any(link.mdh is not None for link in robot.links) else merge_fixed_links(locked)


def may_lack_last_joints(robot: Robot, count: int) -> bool:
    """Whether a recording with `count` joints, not named, can be of a robot without its gripper.

    The first joints must be an arm, one after the other from the base, and the rest something else: leaders of mimic
    joints, or several branches, all of them on the arm where they are more than half. An arm with a joint more than
    the recording is another robot.
    """
    links, above = robot.active_links, _joints_above(robot)
    if not 0 < count < robot.n or any(
        above[k][-1:] != ([links[i - 1]] if i else []) for i, k in enumerate(links[:count])
    ):
        return False
    rest = links[count:]
    if 2 * count < robot.n and not all(links[count - 1] in above[k] for k in rest):
        return False
    leaders = {name for coupling in robot.couplings for name, _ in coupling.factors}
    is_chain = all(above[k][-1:] == [before] for before, k in pairwise(rest))
    return not is_chain or any(robot.links[k].joint in leaders for k in rest)


def may_lack_joints(robot: Robot, count: int) -> bool:
    """Whether a recording may have only `count` joints of a robot: some of those that have a name."""
    named = not all(name.isdigit() for name in robot.joint_names)
    return may_lack_last_joints(robot, count) or (named and 0 < count < robot.n)


def may_be_locked_unseen(robot: Robot, joints: Collection[str]) -> bool:
    """Whether joints that a log lacks can be taken as held: none of them is between two others that it has."""
    above = _joints_above(robot)
    others = {k for k in robot.active_links if robot.links[k].joint not in joints}
    before = [k for k in robot.active_links if k not in others and any(k in above[x] for x in others)]
    return not before or not (robot.floating or robot.sensor is not None or any(others & set(above[k]) for k in before))


def joints_whose_position_matters(robot: Robot, joints: Collection[str]) -> list[str]:
    """Joints of some that turn gravity for the others: before these, and not about the direction of gravity.

    Wherever the rest stands, torques of the others are the same model: beyond them their bodies take it up, and before
    them a slide or a turn about the vertical changes nothing.
    """
    above, found = _joints_above(robot), list[str]()
    others = {k for k in robot.active_links if robot.links[k].joint not in joints}
    for k in (k for k in robot.active_links if k not in others and any(k in above[x] for x in others)):
        axis, at = robot.links[k].axis, k
        while at >= 0:
            axis, at = robot.links[at].placement.rotation @ axis, robot.links[at].parent
        turned = np.linalg.norm(np.cross(axis, robot.gravity)) > 1e-6 * np.linalg.norm(robot.gravity)
        found += [robot.links[k].joint] if robot.links[k].kind == "revolute" and turned else []
    return found


def hold_missing_joints(robot: Robot, held: Mapping[str, float], recorded: Collection[str]) -> Robot:
    """Return a robot with the joints locked that its logs do not have, with a note that says so.

    held: their positions (rad or m); recorded: those of them whose position is known from a log.
    """
    if not held:
        return robot
    note = Message(
        "joints_locked", "not in the log, or without torques there: {joints}", "set other positions with {lock}",
        joints=[f"'{name}' locked at {held[name]:.6g}{' as recorded' * (name in recorded)}" for name in held],
        positions=dict(held), lock=Option("lock"),
    )  # fmt: skip
    unseen = joints_whose_position_matters(robot, [name for name in held if name not in recorded])
    warning = Message(
        "position_of_locked_joint_unknown", "where {joints} stood turns gravity for the others and is not in the log: "
        "taken as 0", "give it with {lock}", joints=unseen, lock=Option("lock", dict.fromkeys(unseen, ANYTHING)),
    )  # fmt: skip
    locked = lock_loaded_robot(robot, held)
    warnings = (*locked.warnings, warning) if unseen else locked.warnings
    return replace(locked, notes=(*locked.notes, note), warnings=warnings)


def _joints_above(robot: Robot) -> dict[int, list[int]]:
    """Links of the active joints between the base and each active joint's link, from the base on."""
    found: dict[int, list[int]] = {}
    for k in robot.active_links:
        chain, at = list[int](), robot.links[k].parent
        while at >= 0:
            chain.insert(0, at)
            at = robot.links[at].parent
        found[k] = [x for x in chain if x in robot.active_links]
    return found


def _describe_outside_limits(robot: Robot, lock: Mapping[str, float]) -> list[Message]:
    """Notes on joints that are held where they cannot be: the position may be in degrees."""
    notes = []
    for link in robot.links:
        at, limits = lock.get(link.joint), link.limits
        if link.moves and at is not None and not limits.lower - SLACK <= at <= limits.upper + SLACK:
            unit = "rad" if link.kind == "revolute" else "m"
            notes.append(Message(
                "lock_outside_limits", "'{joint}' is held at {position:g} {unit}, outside its limits of {lower:.4g} to "
                "{upper:.4g} {unit}", "is the position in {unit}?", joint=link.joint, position=at, unit=unit,
                lower=limits.lower, upper=limits.upper,
            ))  # fmt: skip
    return notes


def _reduce_couplings(couplings: tuple[Coupling, ...], held: dict[str, float]) -> tuple[Coupling, ...]:
    """Couplings of what still moves; a joint whose leaders are all held is added to held."""
    left: list[Coupling] = []
    for coupling in couplings:
        if coupling.passive in held:
            continue
        free = tuple((name, k) for name, k in coupling.factors if name not in held)
        offset = coupling.offset + sum(k * held[name] for name, k in coupling.factors if name in held)
        left.append(Coupling(coupling.passive, free, offset))
    settled = {c.passive: c.offset for c in left if not c.factors}
    if not settled:
        return tuple(left)
    held.update(settled)
    return _reduce_couplings(tuple(left), held)


def _check_closure(robot: Robot, closure: Closure, held: Mapping[str, float]) -> Closure:
    """The closure without locked joints; refused where its own passive joint is locked."""
    both = [name for name in closure.passive if name in held]
    if both:
        raise DynidError(
            "lock_breaks_closure", "cannot lock '{joint}' of '{robot}': a closure needs it to close its loop",
            joint=both[0], robot=robot.name,
        )  # fmt: skip
    if closure.at is None:
        return closure
    at = [x for x, name in zip(closure.at, robot.joint_names, strict=True) if name not in held]
    return replace(closure, at=freeze(at))


def _lock_link(link: Link, position: float) -> Link:
    """The link, fixed at a position of its joint."""
    if link.kind == "revolute":
        motion = Transform(rotation_about(link.axis, position), np.zeros(3))
    else:
        motion = Transform(np.eye(3), position * link.axis)
    row = link.mdh
    if row is not None and position != 0.0:
        letter = "theta" if link.kind == "revolute" else "r"
        row = replace(row, **{letter: _add_position(getattr(row, letter), position)})
    return replace(link, kind="fixed", placement=link.placement @ motion, mdh=row, rotor=np.nan)


def _add_position(value: Expression, position: float) -> Expression:
    """Expression plus a number, in the expression's unit."""
    if value.text is None:
        return Expression(value.value + position)
    shown = math.degrees(position) if value.degrees else position
    return Expression(value.value + position, f"{value.text} + {shown!r}", value.degrees)


_LARGEST_FILE = 64 * 1024 * 1024


BUNDLED_MJCF = ("leg",)
"""Bundled MJCF files, beside the tables of `bundled_robots`: a leg on a stand, for `identify_actuators`."""


def bundled_robots() -> tuple[str, ...]:
    """Names of the bundled robots.

    Returns
    -------
    tuple of str
        Names that `load_robot` takes.

    Examples
    --------
    >>> from dynid import bundled_robots
    >>> "puma560" in bundled_robots()
    True
    """
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

    Parameters
    ----------
    source : str or path
        File, or the name of a bundled robot (see `bundled_robots`).
    gravity : (3,) array_like, optional
        Gravity in frame 0, m/s^2. Default: the file's.
    floating_base : bool
        Whether the base moves freely.
    lock : mapping of str to float, optional
        Joints to hold, with their positions, rad or m.
    snap : bool
        Whether angles that are almost multiples of 90 degrees become exact multiples.
    xacro : bool or mapping of str to str
        Expand a `.xacro` file first; a mapping gives the values of its arguments.
    package_path : path or sequence of paths
        Folders that are ROS packages or contain some, searched for `package://` of meshes and `$(find package)` before
        ROS_PACKAGE_PATH, AMENT_PREFIX_PATH and COLCON_PREFIX_PATH.

    Returns
    -------
    Robot
        The robot, with its nominal parameters where the file has them.

    Raises
    ------
    UnknownRobotError
        If there is no such file or bundled robot.
    RobotFileError
        If the file has mistakes; `.problems` lists all of them.
    DynidError
        If `lock` names a joint that the robot does not have, or `gravity` is not three finite numbers.

    Notes
    -----
    The package xacro evaluates Python expressions of the file, in a restricted way and in a process with limits on time
    and memory: give it only files that you trust.

    Examples
    --------
    >>> from dynid import load_robot
    >>> robot = load_robot("gautier3")
    >>> robot.joint_names
    ('1', '2', '3')
    >>> load_robot("gautier3", lock={"3": 0.5}).n
    2
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
            if path.exists():
                raise RobotFileError(source, check_regular_file(path) or "not_a_file", "this is not a file")
            raise UnknownRobotError(source, bundled_robots(), suggest_similar_file(path))
        with resources.as_file(resources.files("dynid.robot") / "library" / f"{source}.toml") as file:
            own = hash_file(file, f"{source}.toml (bundled)")
            return replace(_load_table(file, source, reading), files=(own,))
    if path.stat().st_size > _LARGEST_FILE:
        raise RobotFileError(source, "file_too_large", "larger than 64 MiB; this is not a robot description")
    robot = _load_file(path, source, reading)
    _check_extent(robot, source)
    return replace(robot, files=(hash_file(path),), package_path=reading.package_path)


LARGEST_NUMBER = 1e15
"""Largest length, mass or moment of a robot file, in SI units; result files hold no larger ones."""


def _check_extent(robot: Robot, source: str) -> None:
    """Raise RobotFileError for more joints than the limit, and for lengths and masses that no robot has."""
    if problem := JOINTS.exceeded("there are {figure} joints in it", len(robot.links)):
        raise RobotFileError(source, [problem])
    for link in robot.links:
        values = np.concatenate([link.inertia, link.placement.translation])
        largest = np.abs(values[np.isfinite(values)]).max(initial=0.0)
        if largest > LARGEST_NUMBER:
            raise RobotFileError(
                source, "value_too_large", "link '{link}': {value:g} is larger than any length, mass or moment of a "
                "robot ({most:g} in SI units)", link=link.name, value=largest, most=LARGEST_NUMBER,
            )  # fmt: skip


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
