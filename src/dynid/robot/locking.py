"""Joints that are held still: they become fixed, and drop out of couplings."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np

from dynid.errors import DynidError
from dynid.messages import ANYTHING, Message, Option
from dynid.robot.expression import Expression
from dynid.robot.robot import Closure, Coupling, Link, Robot
from dynid.robot.transform import Transform, freeze, rotation_about

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
