"""Which of the columns of one channel belongs to which joint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dynid.data.naming import Meaning
from dynid.data.table import shortened
from dynid.errors import LogError
from dynid.robot.robot import Robot


@dataclass(frozen=True, slots=True)
class Choice:
    """The column of each joint that has one, by the joint's place, and what was decided on the way."""

    fields: Mapping[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def choose_joints(
    log: str, channel: str, columns: Sequence[Meaning], robot: Robot, taken: frozenset[int] = frozenset()
) -> Choice:
    """Give every column of a channel to its joint: by name, else by number, else by number after a common label.

    Joints that are `taken` by a mapping get none; two columns for one joint are an error.
    """
    notes: list[str] = []
    named = [m for m in columns if m.joint is not None]
    numbered = [m for m in columns if m.number is not None and not m.words and not (named and m.label)]
    found = [(m.joint, m) for m in named if m.joint is not None]
    found += _count(log, channel, numbered, robot, notes)
    if robot.n == 1 and not found:
        found = [(0, m) for m in columns if m.number is None and not m.words]
    if not found:
        found = _labelled(log, channel, columns, robot, notes)
    slots: dict[int, str] = {}
    for place, meaning in found:
        if place in taken:
            continue
        if place in slots:
            both = shortened([slots[place], meaning.field])
            key = f"{channel}{place + 1}"
            raise LogError(
                log, f"{channel} of joint '{robot.joint_names[place]}' could be any of {both}; "
                f"say which with columns={{'{key}': ...}}"
            )  # fmt: skip
        slots[place] = meaning.field
    used = {meaning.field for _, meaning in found}
    extra = [m.field for m in columns if m.field not in used and (m.number is not None or m.words)]
    if slots and extra:
        notes.append(f"ignored for {channel}, being of no joint of the robot: {shortened(extra)}")
    return Choice(slots, tuple(notes))


def _count(
    log: str, channel: str, numbered: Sequence[Meaning], robot: Robot, notes: list[str]
) -> list[tuple[int, Meaning]]:
    """Places of bare numbers: they count the robot's joints from 1, or from 0 where there is a 0."""
    numbers = {m.number for m in numbered}
    first = 0 if 0 in numbers else 1
    counted = set(range(first, first + robot.n))
    if first == 0:
        notes.append(f"the numbers of {channel} count the joints from 0")
    names = {int(name): place for place, name in enumerate(robot.joint_names) if name.isdigit()}
    if len(names) == robot.n and set(names) != counted and numbers >= set(names):
        if numbers >= counted:
            raise LogError(
                log, f"the numbers of {channel} could count the joints or be the names {', '.join(robot.joint_names)}; "
                f"say which with columns={{'{channel}': [...]}}"
            )  # fmt: skip
        notes.append(f"the numbers of {channel} are the names of the joints: {', '.join(robot.joint_names)}")
        return [(names[m.number], m) for m in numbered if m.number in names]
    return [(m.number - first, m) for m in numbered if m.number is not None and m.number in counted]


def _labelled(
    log: str, channel: str, columns: Sequence[Meaning], robot: Robot, notes: list[str]
) -> list[tuple[int, Meaning]]:
    """Places of names like `fer_joint1`, whose label is not the robot's: the one label that counts all joints."""
    groups: dict[tuple[str, ...], list[Meaning]] = {}
    for m in columns:
        if m.words and m.label and m.number is not None:
            groups.setdefault(m.words, []).append(m)
    whole = {}
    for words, group in groups.items():
        numbers = {m.number for m in group}
        if numbers >= set(range(1, robot.n + 1)) or numbers >= set(range(robot.n)):
            whole[words] = group
    if len(whole) > 1:
        firsts = shortened([group[0].field for group in whole.values()])
        raise LogError(
            log, f"{channel} could be that of any of {firsts}; say which with columns={{'{channel}': [...]}}"
        )  # fmt: skip
    for group in whole.values():
        notes.append(f"the joints of {channel} are taken by their numbers: '{group[0].field}', ...")
        return _count(log, channel, group, robot, notes)
    return []
