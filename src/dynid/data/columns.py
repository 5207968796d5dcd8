"""Matching of a file's columns to the channels of a log: by name, or by the user's mapping; never by guess."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dynid.data.folders import read_names
from dynid.data.joints import Choice, choose_joints
from dynid.data.mapping import Mapped, Place, read_mapping
from dynid.data.naming import REACTION, Meaning, Names, reaction_channels
from dynid.data.table import Field, Wanted, shortened
from dynid.data.units import split_unit
from dynid.errors import LogError
from dynid.robot.robot import Robot

CHANNELS = ("q", "v", "a", "tau")
_NANOSECONDS = re.compile(r"^(.*?)(?:nanosecs?|nsecs?)$")


@dataclass(frozen=True, slots=True)
class Plan:
    """Where each channel is in the file: places per joint, units that the header gives (None: not said).

    nanoseconds: the column to be added to t, which is in s, where a stamp has two columns as in ROS.
    """

    t: Place
    t_unit: str | None
    nanoseconds: str | None
    channels: Mapping[str, tuple[Place, ...]]
    units: Mapping[str, tuple[str | None, ...]]
    turned: frozenset[str]
    in_current: bool
    notes: tuple[str, ...]

    @property
    def wanted(self) -> tuple[Wanted, ...]:
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
) -> Plan:
    """Find the channels of a robot's log among the fields of a file.

    Joint names decide where they are given, a bare number counts the robot's joints from 1; what is missing or
    ambiguous is an error that lists what was found.
    """
    return _Matching(log, fields, robot, columns, motor_side).plan()


class _Matching:
    """One matching: the fields by name, what their names say, the user's mapping, and the notes on the way."""

    def __init__(
        self, log: str, fields: Sequence[Field], robot: Robot, columns: Mapping[str, object] | None, motor_side: bool
    ) -> None:
        self.log, self.robot, self.fields = log, robot, {field.name: field for field in fields}
        self.mapped: Mapped = read_mapping(log, columns, robot, self.fields)
        given = self.mapped.whole.get("t")
        time = given if given is None or isinstance(given, str) else given[0].field
        self.meanings = read_names(log, self.fields, Names(robot, motor_side=motor_side), time)
        self.notes: list[str] = []
        self.turned: set[str] = set()
        self.nanoseconds: str | None = None

    def plan(self) -> Plan:
        t = self._time()
        length = self._length(t)
        channels: dict[str, tuple[Place, ...]] = {}
        for channel in CHANNELS:
            places = self._joint_channel(channel, length)
            if places:
                channels[channel] = places
        if "q" not in channels:
            useless = [self.fields[m.field] for m in self._of("q") if not m.words and self.fields[m.field].problem]
            if useless:
                raise LogError(self.log, f"there are no positions: '{useless[0].name}' {useless[0].problem}")
            columns = [m for m in self._of("q") if self.fields[m.field].is_column]
            strange = [m.field for m in columns if m.words or m.number is not None]
            if strange:
                raise LogError(
                    self.log, f"its positions are of other joints ({shortened(strange, 6)}) than those of "
                    f"'{self.robot.name}' ({', '.join(self.robot.joint_names)}): is this the log of another robot? "
                    "if not, name them with columns={'q': ...}"
                )  # fmt: skip
            raise LogError(
                self.log, f"there are no positions for the joints {', '.join(self.robot.joint_names)}; "
                f"found {shortened(list(self.fields))}; name them with columns={{'q': ...}}"
            )  # fmt: skip
        reaction = self._reaction(length)
        if reaction:
            channels["reaction"] = reaction
        for places in channels.values():
            for place in places:
                self._check(place, length)
        units = {name: tuple(self._unit(place) for place in places) for name, places in channels.items()}
        current = any(self._is_current(place) for place in channels.get("tau", ()))
        notes = tuple(dict.fromkeys(self.notes))
        return Plan(t, self._unit(t), self.nanoseconds, channels, units, frozenset(self.turned), current, notes)

    def _fail(self, problem: str, key: str) -> LogError:
        return LogError(self.log, f"{problem}; say which with columns={{'{key}': ...}}")

    def _of(self, channel: str) -> list[Meaning]:
        return [meaning for meaning in self.meanings.values() if meaning.channel == channel]

    def _unit(self, place: Place) -> str | None:
        return self.fields[place.field].unit or split_unit(place.field)[1]

    def _is_current(self, place: Place) -> bool:
        meaning = self.meanings.get(place.field)
        return meaning is not None and (meaning.is_current or meaning.unit in ("A", "mA"))

    def _time(self) -> Place:
        given = self.mapped.whole.get("t")
        if given is not None:
            return Place(given) if isinstance(given, str) else given[0]
        found = self._of("t")
        if len(found) > 1:
            bare = [meaning for meaning in found if not meaning.words]
            if len(bare) != 1:
                names = shortened([meaning.field for meaning in found])
                raise self._fail(f"the time could be any of {names}", "t")
            self.notes.append(f"the time is '{bare[0].field}'")
            found = bare
        pairs = [] if found else self._stamps()
        if len(pairs) == 1:
            seconds, self.nanoseconds = pairs[0]
            self.notes.append(f"the time is '{seconds}' and '{self.nanoseconds}' together, from the first sample on")
            return Place(seconds)
        if not found:
            raise LogError(
                self.log, "there is no column of time; name it with columns={'t': ...}; "
                f"found {shortened(list(self.fields))}"
            )  # fmt: skip
        return Place(found[0].field)

    def _stamps(self) -> list[tuple[str, str]]:
        """Pairs of columns with seconds and nanoseconds, such as header.stamp.sec and header.stamp.nanosec."""
        pairs = []
        for name in self.fields:
            match = _NANOSECONDS.match(name)
            if match:
                pairs += [(match[1] + end, name) for end in ("sec", "secs") if match[1] + end in self.fields]
        return pairs

    def _length(self, t: Place) -> int | None:
        """Samples of the file where the format tells, from the time."""
        field = self.fields[t.field]
        self._check_numbers(field)
        if len(field.shape) == 2 and t.column is None:
            raise self._fail(f"the time '{t.field}' has shape {field.shape}", "t")
        if len(field.shape) == 2 and field.shape[0] < field.shape[1]:
            self.turned.add(field.name)
        return max(field.shape) if field.shape else None

    def _joint_channel(self, channel: str, length: int | None) -> tuple[Place, ...]:
        if channel in self.mapped.absent:
            return ()
        given = self.mapped.whole.get(channel)
        n = self.robot.n
        single = {place: where for (name, place), where in self.mapped.single.items() if name == channel}
        if isinstance(given, str):
            return self._spread(given, n, length, channel)
        if given is not None:
            if len(given) != n:
                raise self._fail(f"{channel} needs {n} columns, got {len(given)}", channel)
            return given
        if len(single) == n:
            return tuple(single[place] for place in range(n))
        candidates = [m for m in self._of(channel) if not self.fields[m.field].problem]
        columns = [m for m in candidates if self.fields[m.field].is_column]
        arrays = [
            m.field for m in candidates if not self.fields[m.field].is_column and m.number is None and not m.words
        ]
        choice = choose_joints(self.log, channel, columns, self.robot, frozenset(single))
        self.notes += choice.notes
        if len(arrays) > 1 or (arrays and (choice.fields or single)):
            names = shortened([*arrays, *choice.fields.values()])
            raise self._fail(f"{channel} could be any of {names}", channel)
        if arrays:
            return self._spread(arrays[0], n, length, channel)
        return self._slots(channel, choice, single)

    def _slots(self, channel: str, choice: Choice, single: Mapping[int, Place]) -> tuple[Place, ...]:
        found = {**{place: Place(field) for place, field in choice.fields.items()}, **single}
        if not found:
            alike = [meaning.field for meaning in self._of(channel)]
            if alike:
                self.notes.append(f"no {channel} was found, though these look alike: {shortened(alike, 5)}")
            self.notes += [f"'{name}' {self.fields[name].problem}" for name in alike if self.fields[name].problem][:1]
            return ()
        missing = [name for place, name in enumerate(self.robot.joint_names) if place not in found]
        if missing:
            names = shortened([place.field for _, place in sorted(found.items())])
            problem = f"{channel} is there as {names}, but missing for the joints {', '.join(missing)}"
            remedy = f"leave {channel} out with columns={{'{channel}': None}}"
            if channel in ("q", "tau"):
                held = ", ".join(f"'{name}': 0.0" for name in missing)
                words = " ".join(f"--lock {name}=0" for name in missing)
                remedy = f"hold them, if they stood still, with lock={{{held}}} ({words})"
            raise LogError(self.log, f"{problem}; say which with columns={{'{channel}': ...}}, or {remedy}")
        return tuple(found[place] for place in range(self.robot.n))

    def _spread(self, name: str, count: int, length: int | None, channel: str) -> tuple[Place, ...]:
        """One place per column of a matrix, turned where the samples run along its second axis."""
        shape = self.fields[name].shape
        if len(shape) < 2:
            if count == 1:
                return (Place(name),)
            raise self._fail(f"{channel} needs {count} columns, '{name}' is one", channel)
        if len(shape) == 2 and shape[0] != length and shape[1] == length:
            self.turned.add(name)
            self.notes.append(f"'{name}' was transposed: its samples run along the second axis")
            shape = (shape[1], shape[0])
        if len(shape) != 2 or shape[0] != length:
            raise self._fail(f"'{name}' has shape {self.fields[name].shape}, the time has {length} samples", channel)
        named = self._named_columns(shape[1]) if channel in CHANNELS else None
        if named is not None:
            return tuple(Place(name, column) for column in named)
        if shape[1] != count:
            raise LogError(
                self.log, f"'{name}' has {shape[1]} columns, {channel} needs {count}; pick them with "
                f"columns={{'{channel}': ['{name}[:, 0]', ...]}}"
            )  # fmt: skip
        return tuple(Place(name, column) for column in range(count))

    def _named_columns(self, width: int) -> list[int] | None:
        """Columns of the robot's joints in matrices so wide, where the file lists the names of these columns."""
        for field in self.fields.values():
            if len(field.words) == width and set(self.robot.joint_names) <= set(field.words):
                columns = [field.words.index(joint) for joint in self.robot.joint_names]
                if columns != list(range(width)):
                    self.notes.append(f"the columns of arrays are taken by the names in '{field.name}'")
                return columns
        return None

    def _reaction(self, length: int | None) -> tuple[Place, ...]:
        if "reaction" in self.mapped.absent:
            return ()
        wanted = reaction_channels(self.robot)
        given = self.mapped.whole.get("reaction")
        if given is not None:
            return self._spread(given, len(wanted), length, "reaction") if isinstance(given, str) else given
        found: dict[int, str] = {}
        for meaning in self._of("reaction"):
            if meaning.number in found:
                both = shortened([found[meaning.number], meaning.field])
                raise self._fail(f"{REACTION[meaning.number]} of the force plate could be any of {both}", "reaction")
            found[meaning.number or 0] = meaning.field
        missing = [name for name in wanted if REACTION.index(name) not in found]
        if found and missing:
            self.notes.append(
                f"the force plate lacks {', '.join(missing)}: its other columns are not used (a sensor may be declared "
                "with fewer channels)"
            )
        return () if missing else tuple(Place(found[REACTION.index(name)]) for name in wanted)

    def _check_numbers(self, field: Field) -> None:
        if field.problem:
            raise LogError(self.log, f"'{field.name}' {field.problem}")

    def _check(self, place: Place, length: int | None) -> None:
        """The field of a place holds numbers, as many as the time has samples."""
        field = self.fields[place.field]
        self._check_numbers(field)
        if not field.shape:
            return
        if place.column is None and not field.is_column:
            raise LogError(
                self.log, f"'{field.name}' has shape {field.shape}; pick a column of it as '{field.name}[:, 0]'"
            )
        if len(field.shape) == 2 and field.shape[0] != length and field.shape[1] == length:
            self.turned.add(field.name)
        elif field.shape[0] != length:
            raise LogError(self.log, f"'{field.name}' has shape {field.shape}, the time has {length} samples")
