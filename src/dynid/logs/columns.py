"""Matching of a file's columns to the channels of a log: by name, or by the user's mapping; never by guess."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dynid.errors import LogError
from dynid.logs.column_names import (
    REACTION,
    ColumnMapping,
    ColumnNameReader,
    ColumnPlace,
    Meaning,
    reaction_channels,
    read_field_names,
    read_mapping,
    split_unit,
)
from dynid.logs.readers.table import Field, Wanted
from dynid.messages import ANYTHING, Message, Option, Wording
from dynid.robot.load import may_be_locked_unseen, may_lack_last_joints
from dynid.robot.robot import Robot

# Which of the columns of one channel belongs to which joint.


@dataclass(frozen=True, slots=True)
class JointColumns:
    """The column of each joint that has one, by the joint's place, and what was decided on the way."""

    fields: Mapping[int, str] = field(default_factory=dict)
    notes: tuple[Message, ...] = ()


def assign_columns_to_joints(
    log: str, channel: str, columns: Sequence[Meaning], robot: Robot, taken: frozenset[int] = frozenset()
) -> JointColumns:
    """Assign every column of a channel to its joint: by name, else by number, else by number after a label.

    Joints that are `taken` by a mapping get none; two columns for one joint are an error.
    """
    notes: list[Message] = []
    named = [m for m in columns if m.joint is not None]
    numbered = [m for m in columns if m.number is not None and not m.words and not (named and m.label)]
    found = [(m.joint, m) for m in named if m.joint is not None]
    found += _columns_by_joint_number(log, channel, numbered, robot, notes)
    if robot.n == 1 and not found:
        found = [(0, m) for m in columns if m.number is None and not m.words]
    if not found:
        found = _columns_by_joint_label(log, channel, columns, robot, notes)
    slots: dict[int, str] = {}
    for place, meaning in found:
        if place in taken:
            continue
        if place in slots:
            raise LogError(
                log, "ambiguous_column", "{channel} of joint '{joint}' could be any of {found:20}",
                "say which with {columns}", channel=channel, joint=robot.joint_names[place],
                found=[slots[place], meaning.field], columns=Option("columns", {f"{channel}{place + 1}": ANYTHING}),
            )  # fmt: skip
        slots[place] = meaning.field
    used = {meaning.field for _, meaning in found}
    extra = [m.field for m in columns if m.field not in used and (m.number is not None or m.words)]
    if slots and extra:
        notes.append(Message(
            "columns_ignored", "ignored for {channel}, being of no joint of the robot: {ignored:20}", channel=channel,
            ignored=extra,
        ))  # fmt: skip
    return JointColumns(slots, tuple(notes))


def _columns_by_joint_number(
    log: str, channel: str, numbered: Sequence[Meaning], robot: Robot, notes: list[Message]
) -> list[tuple[int, Meaning]]:
    """Columns with bare numbers and their joints: counted from 1, or from 0 where there is a 0."""
    numbers = {m.number for m in numbered}
    first = 0 if 0 in numbers else 1
    counted = set(range(first, first + robot.n))
    if first == 0:
        notes.append(Message(
            "joints_counted_from_zero", "the numbers of {channel} count the joints from 0", channel=channel,
        ))  # fmt: skip
    names = {int(name): place for place, name in enumerate(robot.joint_names) if name.isdigit()}
    if len(names) == robot.n and set(names) != counted and numbers >= set(names):
        if numbers >= counted:
            raise LogError(
                log, "ambiguous_joint_numbers", "the numbers of {channel} could count the joints or be the names "
                "{joints}", "say which with {columns}", channel=channel, joints=robot.joint_names,
                columns=Option("columns", {channel: [ANYTHING]}),
            )  # fmt: skip
        notes.append(Message(
            "column_numbers_are_names", "the numbers of {channel} are the names of the joints: {joints}",
            channel=channel, joints=robot.joint_names,
        ))  # fmt: skip
        return [(names[m.number], m) for m in numbered if m.number in names]
    return [(m.number - first, m) for m in numbered if m.number is not None and m.number in counted]


def _columns_by_joint_label(
    log: str, channel: str, columns: Sequence[Meaning], robot: Robot, notes: list[Message]
) -> list[tuple[int, Meaning]]:
    """Columns named like `fer_joint1`, whose label is not the robot's, and their joints: one label counts all."""
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
        raise LogError(
            log, "ambiguous_column", "{channel} could be that of any of {found:20}", "say which with {columns}",
            channel=channel, found=[group[0].field for group in whole.values()],
            columns=Option("columns", {channel: [ANYTHING]}),
        )  # fmt: skip
    for group in whole.values():
        notes.append(Message(
            "joints_taken_by_number", "the joints of {channel} are taken by their numbers: '{column}', ...",
            channel=channel, column=group[0].field,
        ))  # fmt: skip
        return _columns_by_joint_number(log, channel, group, robot, notes)
    return []


CHANNELS = ("q", "v", "a", "tau")
_NAME = re.compile(r"(.*?)names?[._\[]?(\d+)\]?")
_NANOSECONDS = re.compile(r"^(.*?)(?:nanosecs?|nsecs?)$")


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """Where each channel is in the file: places per joint, units that the header gives (None: not said).

    nanoseconds: the column to be added to t, which is in s, where a stamp has two columns as in ROS.
    """

    t: ColumnPlace
    t_unit: str | None
    nanoseconds: str | None
    channels: Mapping[str, tuple[ColumnPlace, ...]]
    units: Mapping[str, tuple[str | None, ...]]
    turned: frozenset[str]
    in_current: bool
    notes: tuple[Message, ...]
    named: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Of channels whose columns name their joints: these joints, in the order of the file."""
    held: Mapping[str, ColumnPlace | None] = field(default_factory=dict)
    """Joints that the file does not have: the column of their positions where they lack torques alone."""

    @property
    def wanted_fields(self) -> tuple[Wanted, ...]:
        """The fields to read, each once."""
        fine = [] if self.nanoseconds is None else [self.nanoseconds]
        names = [self.t.field, *fine, *(place.field for places in self.channels.values() for place in places)]
        return tuple(Wanted(name, name in self.turned) for name in dict.fromkeys(names))


def match_columns(
    log: str,
    fields: Sequence[Field],
    robot: Robot,
    columns: Mapping[str, object] | None = None,
    *,
    motor_side: bool = False,
) -> ColumnPlan:
    """Find the channels of a robot's log among the fields of a file.

    Joint names decide where they are given, a bare number counts the robot's joints from 1; what is missing or
    ambiguous is an error that lists what was found.
    """
    return _ColumnMatching(log, fields, robot, columns, motor_side).make_plan()


def match_time(
    log: str, fields: Sequence[Field], robot: Robot, columns: Mapping[str, object] | None = None
) -> ColumnPlan:
    """Find the time alone among the fields of a file, which may hold any of the channels."""
    matching = _ColumnMatching(log, fields, robot, columns, motor_side=False)
    t = matching._time_place()
    matching._sample_count(t)
    notes, turned = tuple(matching.notes), frozenset(matching.turned)
    return ColumnPlan(t, matching._unit_at(t), matching.nanoseconds, {}, {}, turned, False, notes)


class _ColumnMatching:
    """One matching: the fields by name, what their names say, the user's mapping, and the notes on the way."""

    def __init__(
        self, log: str, fields: Sequence[Field], robot: Robot, columns: Mapping[str, object] | None, motor_side: bool
    ) -> None:
        self.log, self.robot, self.fields = log, robot, {entry.name: entry for entry in fields}
        self.mapped: ColumnMapping = read_mapping(log, columns, robot, self.fields)
        given = self.mapped.whole.get("t")
        time = given if given is None or isinstance(given, str) else given[0].field
        self.meanings = read_field_names(log, self.fields, ColumnNameReader(robot, motor_side=motor_side), time)
        self.notes: list[Message] = []
        self._take_names_from_texts()
        self.turned: set[str] = set()
        self.nanoseconds: str | None = None
        self.motor_side = motor_side
        self.lacking: dict[str, LogError] = {}

    def make_plan(self) -> ColumnPlan:
        """Match time, joint channels and forces on the base to columns."""
        t = self._time_place()
        length = self._sample_count(t)
        partial: dict[str, tuple[ColumnPlace | None, ...]] = {}
        for channel in CHANNELS:
            if found := self._joint_channel_places(channel, length):
                partial[channel] = found
        if "q" not in partial:
            useless = [
                self.fields[m.field]
                for m in self._meanings_of_channel("q")
                if not m.words and self.fields[m.field].problem
            ]
            if useless:
                raise LogError(
                    self.log, "missing_positions", "there are no positions: '{column}' {reason}",
                    column=useless[0].name, reason=useless[0].problem,
                )  # fmt: skip
            if strange := self._columns_of_other_joints():
                raise self._other_robot_error(strange)
            raise LogError(
                self.log, "missing_positions", "there are no positions for the joints {joints}; found {found:20}",
                "name them with {columns}", joints=self.robot.joint_names, found=list(self.fields),
                columns=Option("columns", {"q": ANYTHING}),
            )  # fmt: skip
        held = self._joints_to_hold(partial)
        kept = [j for j, name in enumerate(self.robot.joint_names) if name not in held]
        channels = {name: tuple(x for j in kept if (x := places[j])) for name, places in partial.items()}
        reaction = self._reaction_places(length)
        if reaction:
            channels["reaction"] = reaction
        for places in channels.values():
            for place in places:
                self._check_place(place, length)
        units = {name: tuple(self._unit_at(place) for place in places) for name, places in channels.items()}
        current = any(self._is_current(place) for place in channels.get("tau", ()))
        notes = tuple(dict.fromkeys(self.notes))
        named = {
            name: self._joints_by_column(places) for name, places in channels.items() if self._is_named(name, places)
        }
        return ColumnPlan(
            t, self._unit_at(t), self.nanoseconds, channels, units, frozenset(self.turned), current, notes, named, held
        )

    def _joints_to_hold(self, channels: Mapping[str, tuple[ColumnPlace | None, ...]]) -> dict[str, ColumnPlace | None]:
        """Joints without positions or torques in the file, with the column of their positions, if any.

        Raised is what is missing where fewer than half of the joints are there beside more that the robot has not, or
        all of them, most without torques, where a joint has torques but no positions, where one lies
        between others that the file has, and where loops would not close.
        """
        if not self.lacking:
            return {}
        q = channels["q"]
        tau = channels.get("tau", q)
        kept = {j for j in range(self.robot.n) if q[j] and tau[j]}
        blind = "tau" in channels and any(tau[j] and not q[j] for j in range(self.robot.n))
        moved = self.motor_side and any(q[j] and not tau[j] for j in range(self.robot.n))
        unknown = {name for j, name in enumerate(self.robot.joint_names) if not q[j]}
        strange = [name for name in self._columns_of_other_joints() if name not in {x.field for x in q if x}]
        minority = 2 * len(kept) < self.robot.n
        if minority and len(strange) > self.robot.n - len(unknown):
            raise self._other_robot_error(strange)
        few = blind or moved or (minority and not unknown) or bool(self.robot.closures)
        few = few or not may_be_locked_unseen(self.robot, unknown)
        for channel, error in self.lacking.items():
            if few or any(channels[channel][j] is None for j in kept):
                raise error
        return {name: q[j] for j, name in enumerate(self.robot.joint_names) if j not in kept}

    def _columns_of_other_joints(self) -> list[str]:
        """Columns of positions that name joints which the robot does not have."""
        columns = [m for m in self._meanings_of_channel("q") if self.fields[m.field].is_column and m.joint is None]
        return [m.field for m in columns if m.words or m.number is not None]

    def _other_robot_error(self, found: Sequence[str]) -> LogError:
        """Error on positions that are of other joints than those of the robot."""
        return LogError(
            self.log, "log_of_other_robot", "its positions are of other joints ({found:6}) than those of "
            "'{robot}' ({joints}): is this the log of another robot?", "if not, name them with {columns}",
            found=found, robot=self.robot.name, joints=self.robot.joint_names,
            columns=Option("columns", {"q": ANYTHING}),
        )  # fmt: skip

    def _joint_names_in(self, entry: Field) -> tuple[str, ...]:
        """Texts of a field that lists joints, empty where it lists other things."""
        known = set(entry.words) & set(self.robot.joint_names)
        return entry.words if known and (2 * len(known) >= self.robot.n or known == set(entry.words)) else ()

    def _take_names_from_texts(self) -> None:
        """Assign numbered columns to joints by columns of text with names, as ROS exports them.

        field.name0 holds elbow: field.position0, field.velocity0 and field.effort0 are the elbow's.
        """
        found = [(_NAME.fullmatch(entry.name), entry.words) for entry in self.fields.values() if entry.words]
        names = {(match[1], int(match[2])): words[0] for match, words in found if match}
        listed = {word for match, words in found if match for word in words}
        known = listed & set(self.robot.joint_names)
        if not known or (2 * len(known) < self.robot.n and known != listed):
            return
        for match, words in found:
            if match and len(words) > 1:
                raise LogError(
                    self.log, "joint_names_vary", "the names of joints change from row to row: '{column}' is {names:2}",
                    "read the recording itself, or export one publisher alone", column=match[0], names=words,
                )  # fmt: skip
        for entry, meaning in list(self.meanings.items()):
            start = next((k for k in range(len(entry)) if (entry[:k], meaning.number) in names), None)
            if start is None or meaning.channel not in CHANNELS or meaning.joint is not None:
                continue
            joint = names[entry[:start], meaning.number or 0]
            if joint in self.robot.joint_names:
                self.meanings[entry] = replace(meaning, joint=self.robot.joint_names.index(joint), number=None)
            else:
                del self.meanings[entry]
        column = next(iter(names))
        self.notes.append(Message(
            "columns_taken_by_names", "the columns are taken by the names in '{column}'",
            column=f"{column[0]}name{column[1]}",
        ))  # fmt: skip

    def _is_named(self, channel: str, places: tuple[ColumnPlace, ...]) -> bool:
        """Whether names of joints decided which column is whose, and not numbers or the user's mapping."""
        if channel not in CHANNELS or channel in self.mapped.whole or channel in {key for key, _ in self.mapped.single}:
            return False
        by_name = (m is not None and m.joint is not None for m in (self.meanings.get(place.field) for place in places))
        return places[0].column is not None or any(by_name)

    def _joints_by_column(self, places: tuple[ColumnPlace, ...]) -> tuple[int, ...]:
        """The joints of some columns, in the order of the file."""
        where = {name: k for k, name in enumerate(self.fields)}
        return tuple(sorted(range(len(places)), key=lambda j: (where[places[j].field], places[j].column or 0)))

    def _channel_error(self, channel: str, code: str, what: str, **facts: Any) -> LogError:
        """Error on a channel, with the option that names its columns as the remedy."""
        option = Option("columns", {channel: ANYTHING})
        return LogError(self.log, code, what, "say which with {columns}", channel=channel, columns=option, **facts)

    def _meanings_of_channel(self, channel: str) -> list[Meaning]:
        """Meanings of the columns whose names say this channel."""
        return [meaning for meaning in self.meanings.values() if meaning.channel == channel]

    def _unit_at(self, place: ColumnPlace) -> str | None:
        """Unit of a column by the file or its name."""
        return self.fields[place.field].unit or split_unit(place.field)[1]

    def _is_current(self, place: ColumnPlace) -> bool:
        """Whether a column is a motor current by its name or unit."""
        meaning = self.meanings.get(place.field)
        return meaning is not None and (meaning.is_current or meaning.unit in ("A", "mA"))

    def _time_place(self) -> ColumnPlace:
        """Column of time; raise where there is none or several."""
        given = self.mapped.whole.get("t")
        if given is not None:
            return ColumnPlace(given) if isinstance(given, str) else given[0]
        found = self._meanings_of_channel("t")
        if len(found) > 1:
            bare = [meaning for meaning in found if not meaning.words]
            if len(bare) != 1:
                names = [meaning.field for meaning in found]
                raise self._channel_error("t", "ambiguous_column", "the time could be any of {found:20}", found=names)
            self.notes.append(Message("time_column_chosen", "the time is '{column}'", column=bare[0].field))
            found = bare
        pairs = [] if found else self._split_stamp_columns()
        if len(pairs) == 1:
            seconds, self.nanoseconds = pairs[0]
            self.notes.append(Message(
                "time_columns_combined", "the time is '{seconds}' and '{nanoseconds}' together, from the first sample "
                "on", seconds=seconds, nanoseconds=self.nanoseconds,
            ))  # fmt: skip
            return ColumnPlace(seconds)
        if not found:
            if self.fields and all(entry.problem for entry in self.fields.values()):
                self._check_holds_numbers(next(iter(self.fields.values())))
            raise LogError(
                self.log, "missing_time", "there is no column of time", "name it with {columns}; found {found:20}",
                columns=Option("columns", {"t": ANYTHING}), found=list(self.fields),
            )  # fmt: skip
        return ColumnPlace(found[0].field)

    def _split_stamp_columns(self) -> list[tuple[str, str]]:
        """Pairs of columns with seconds and nanoseconds, such as header.stamp.sec and header.stamp.nanosec."""
        pairs = []
        for name in self.fields:
            match = _NANOSECONDS.match(name)
            if match:
                pairs += [(match[1] + end, name) for end in ("sec", "secs") if match[1] + end in self.fields]
        return pairs

    def _sample_count(self, t: ColumnPlace) -> int | None:
        """Number of samples of the file, from the shape of the time; None where the format does not state it."""
        entry = self.fields[t.field]
        self._check_holds_numbers(entry)
        if len(entry.shape) == 2 and t.column is None:
            raise self._channel_error(
                "t", "column_not_single", "the time '{column}' has shape {shape!s}", column=t.field, shape=entry.shape
            )
        if len(entry.shape) == 2 and entry.shape[0] < entry.shape[1]:
            self.turned.add(entry.name)
        return max(entry.shape) if entry.shape else None

    def _first_joints(
        self, channel: str, error: LogError, places: Sequence[ColumnPlace]
    ) -> tuple[ColumnPlace | None, ...]:
        """Columns that are counted, not named, of the joints before a gripper; other counts raise the error."""
        if channel not in CHANNELS or not may_lack_last_joints(self.robot, len(places)):
            raise error
        self.lacking[channel] = error
        return (*places, *(None,) * (self.robot.n - len(places)))

    def _joint_channel_places(self, channel: str, length: int | None) -> tuple[ColumnPlace | None, ...]:
        """Columns of a channel, one per joint, None for joints that lack one, empty where it was not recorded."""
        if channel in self.mapped.absent:
            return ()
        given = self.mapped.whole.get(channel)
        n = self.robot.n
        single = {place: where for (name, place), where in self.mapped.single.items() if name == channel}
        if isinstance(given, str):
            return self._matrix_places(given, n, length, channel)
        if given is not None:
            if len(given) != n:
                what = "{channel} needs {needed} columns, got {given}"
                error = self._channel_error(channel, "column_count_mismatch", what, needed=n, given=len(given))
                return self._first_joints(channel, error, given)
            return given
        if len(single) == n:
            return tuple(single[place] for place in range(n))
        candidates = [m for m in self._meanings_of_channel(channel) if not self.fields[m.field].problem]
        columns = [m for m in candidates if self.fields[m.field].is_column]
        arrays = [
            m.field for m in candidates if not self.fields[m.field].is_column and m.number is None and not m.words
        ]
        choice = assign_columns_to_joints(self.log, channel, columns, self.robot, frozenset(single))
        self.notes += choice.notes
        if len(arrays) > 1 or (arrays and (choice.fields or single)):
            names = [*arrays, *choice.fields.values()]
            raise self._channel_error(channel, "ambiguous_column", "{channel} could be any of {found:20}", found=names)
        if arrays:
            return self._matrix_places(arrays[0], n, length, channel)
        return self._places_of_matched_columns(channel, choice, single)

    def _places_of_matched_columns(
        self, channel: str, choice: JointColumns, single: Mapping[int, ColumnPlace]
    ) -> tuple[ColumnPlace | None, ...]:
        """Columns matched to joints by name, with those that the user mapped; None for joints that lack one."""
        found = {**{place: ColumnPlace(entry) for place, entry in choice.fields.items()}, **single}
        if not found:
            alike = [meaning.field for meaning in self._meanings_of_channel(channel)]
            if alike:
                self.notes.append(Message(
                    "channel_not_found", "no {channel} was found, though these look alike: {found:5}",
                    channel=channel, found=alike,
                ))  # fmt: skip
            useless = [self.fields[name] for name in alike if self.fields[name].problem][:1]
            self.notes += [
                Message("column_unusable", "'{column}' {reason}", column=entry.name, reason=entry.problem)
                for entry in useless
            ]
            return ()
        missing = [name for place, name in enumerate(self.robot.joint_names) if place not in found]
        if missing:
            names = [place.field for _, place in sorted(found.items())]
            remedy, option = "leave {channel} out with {option}", Option("columns", {channel: None})
            if channel in ("q", "tau"):
                remedy = "hold them, if they stood still, with {option}"
                option = Option("lock", dict.fromkeys(missing, 0.0))
            self.lacking[channel] = LogError(
                self.log, "channel_missing_for_joints", "{channel} is there as {found:20}, but missing for the joints "
                "{joints}", "say which with {columns}, or " + remedy, channel=channel, found=names, joints=missing,
                columns=Option("columns", {channel: ANYTHING}), option=option,
            )  # fmt: skip
            counted = any(self.meanings[entry].joint is None for entry in choice.fields.values())
            is_start = set(found) == set(range(len(found))) and may_lack_last_joints(self.robot, len(found))
            if counted and not is_start and (channel == "q" or "q" in self.lacking):
                raise self.lacking[channel]
        return tuple(found.get(place) for place in range(self.robot.n))

    def _matrix_places(self, name: str, count: int, length: int | None, channel: str) -> tuple[ColumnPlace | None, ...]:
        """Places of a matrix's columns, turned where the samples run along its second axis."""
        shape = self.fields[name].shape
        if len(shape) < 2:
            if count == 1:
                return (ColumnPlace(name),)
            what = "{channel} needs {needed} columns, '{column}' is one"
            raise self._channel_error(channel, "column_count_mismatch", what, needed=count, column=name)
        if len(shape) == 2 and shape[0] != length and shape[1] == length:
            self.turned.add(name)
            self.notes.append(Message(
                "column_transposed", "'{column}' was transposed: its samples run along the second axis",
                column=name,
            ))  # fmt: skip
            shape = (shape[1], shape[0])
        if len(shape) != 2 or shape[0] != length:
            raise self._channel_error(
                channel, "sample_count_mismatch", "'{column}' has shape {shape!s}, the time has {samples} samples",
                column=name, shape=self.fields[name].shape, samples=length,
            )  # fmt: skip
        named = self._named_columns(shape[1]) if channel in CHANNELS else None
        if named is not None:
            if None in named:
                missing = [joint for joint, column in zip(self.robot.joint_names, named, strict=True) if column is None]
                what = "{channel} is missing for the joints {joints}"
                self.lacking[channel] = self._channel_error(channel, "channel_missing_for_joints", what, joints=missing)
            return tuple(None if column is None else ColumnPlace(name, column) for column in named)
        if shape[1] != count:
            error = LogError(
                self.log, "column_count_mismatch", "'{column}' has {width} columns, {channel} needs {needed}",
                "pick them with {columns}", column=name, width=shape[1], channel=channel, needed=count,
                columns=Wording(
                    f"columns={{'{channel}': '{name}[:, 0:{count}]'}}", f"--column '{channel}={name}[:, 0:{count}]'"
                ),
            )  # fmt: skip
            return self._first_joints(channel, error, [ColumnPlace(name, column) for column in range(shape[1])])
        return tuple(ColumnPlace(name, column) for column in range(count))

    def _named_columns(self, width: int) -> list[int | None] | None:
        """Columns of the robot's joints in matrices so wide, where the file lists the names of these columns."""
        for entry in self.fields.values():
            listed = self._joint_names_in(entry)
            if len(listed) == width:
                columns = [listed.index(joint) if joint in listed else None for joint in self.robot.joint_names]
                if columns != list(range(width)):
                    self.notes.append(Message(
                        "columns_taken_by_names", "the columns of arrays are taken by the names in '{column}'",
                        column=entry.name,
                    ))  # fmt: skip
                return columns
        return None

    def _reaction_places(self, length: int | None) -> tuple[ColumnPlace, ...]:
        """Columns of the forces and moments on the base, empty where they were not recorded."""
        if "reaction" in self.mapped.absent:
            return ()
        wanted = reaction_channels(self.robot)
        given = self.mapped.whole.get("reaction")
        if given is not None:
            whole = self._matrix_places(given, len(wanted), length, "reaction") if isinstance(given, str) else given
            return tuple(place for place in whole if place is not None)
        found: dict[int, str] = {}
        for meaning in self._meanings_of_channel("reaction"):
            if meaning.number in found:
                raise self._channel_error(
                    "reaction", "ambiguous_column", "{component} of the force plate could be any of {found:20}",
                    component=REACTION[meaning.number], found=[found[meaning.number], meaning.field],
                )  # fmt: skip
            found[meaning.number or 0] = meaning.field
        missing = [name for name in wanted if REACTION.index(name) not in found]
        if found and missing:
            self.notes.append(Message(
                "force_plate_incomplete", "the force plate lacks {missing}: its other columns are not used (a sensor "
                "may be declared with fewer channels)", missing=missing,
            ))  # fmt: skip
        return () if missing else tuple(ColumnPlace(found[REACTION.index(name)]) for name in wanted)

    def _check_holds_numbers(self, entry: Field) -> None:
        """Raise where a field holds no numbers."""
        if entry.problem:
            raise LogError(self.log, "column_unusable", "'{column}' {reason}", column=entry.name, reason=entry.problem)

    def _check_place(self, place: ColumnPlace, length: int | None) -> None:
        """Raise where the field of a place holds no numbers, or not as many as the time has samples."""
        entry = self.fields[place.field]
        self._check_holds_numbers(entry)
        if not entry.shape:
            return
        if place.column is None and not entry.is_column:
            raise LogError(
                self.log, "column_not_single", "'{column}' has shape {shape!s}",
                "pick a column of it as '{column}[:, 0]'", column=entry.name, shape=entry.shape,
            )  # fmt: skip
        if len(entry.shape) == 2 and entry.shape[0] != length and entry.shape[1] == length:
            self.turned.add(entry.name)
        elif entry.shape[0] != length:
            raise LogError(
                self.log, "sample_count_mismatch", "'{column}' has shape {shape!s}, the time has {samples} samples",
                column=entry.name, shape=entry.shape, samples=length,
            )  # fmt: skip
