"""Topics of rosbag2 folders, .db3 and .mcap files as tables, without ROS.

Joint states of any kind become columns called `position.<joint>`, `effort.<joint>`; of every other message each number
and array of numbers is a field by its path: `.joint.position` is the field `position` of the field `joint`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np

from dynid.errors import LogError
from dynid.logs.read import TopicLike, format_hint_from_content
from dynid.logs.readers.table import Batch, Field, Numbers, Part, Wanted
from dynid.messages import Message, Option
from dynid.robot.transform import Array

JOINT_STATE = "sensor_msgs/msg/JointState"
DYNAMIC = "control_msgs/msg/DynamicJointState"
CONTROLLER = "control_msgs/msg/JointTrajectoryControllerState"
WRENCH = "geometry_msgs/msg/WrenchStamped"
IMU = "sensor_msgs/msg/Imu"

_POINT, _MANY = "trajectory_msgs/JointTrajectoryPoint", "trajectory_msgs/MultiDOFJointTrajectoryPoint"
_INTERFACE = "control_msgs/msg/InterfaceValue"
_VARIANTS = (
    ("reference feedback error output", True),
    ("reference feedback error output desired actual", True),
    ("desired actual error", False),
)
"""Points in a JointTrajectoryControllerState of ROS 2 Jazzy, Humble and Foxy, and whether those of bodies follow."""


# Definitions of messages, of the bag or known.


def _known_message_definitions(kind: str) -> list[dict[str, str]]:
    """Definitions of messages of control_msgs, for bags that do not hold them; several where they have changed."""
    head = "std_msgs/Header header\nstring[] joint_names\n"
    if kind == DYNAMIC:
        values = "string[] interface_names\nfloat64[] values\n"
        return [{kind: f"{head}control_msgs/InterfaceValue[] interface_values\n", _INTERFACE: values}]
    texts = []
    for names, bodies in _VARIANTS if kind == CONTROLLER else ():
        text = head + "".join(f"{_POINT} {name}\n" for name in names.split())
        if bodies:
            text += "string[] multi_dof_joint_names\n"
            text += "".join(f"{_MANY} multi_dof_{name}\n" for name in names.split())
        texts.append({kind: text})
    return texts


def _find_type_store(log: str, bag: Any, topic: str, kind: str) -> Any:
    """Type store with which the messages of a topic can be read."""
    from rosbags.interfaces import MessageDefinitionFormat
    from rosbags.typesys import Stores, get_types_from_idl, get_types_from_msg, get_typestore

    store = get_typestore(Stores.LATEST)
    if kind in store.fielddefs:
        return store
    connections = [one for one in bag.connections if one.topic == topic and one.msgtype == kind]
    definition = connections[0].msgdef
    if definition.format != MessageDefinitionFormat.NONE and definition.data:
        found = (
            get_types_from_msg(definition.data, kind)
            if definition.format == MessageDefinitionFormat.MSG
            else get_types_from_idl(definition.data)
        )
        own = get_typestore(Stores.EMPTY)
        own.register(found)
        return own
    for texts in _known_message_definitions(kind):
        store = get_typestore(Stores.LATEST)
        store.register(
            {key: value for name, text in texts.items() for key, value in get_types_from_msg(text, name).items()}
        )
        try:
            for _, _, data in islice(bag.messages(connections), _PROBE):
                store.deserialize_cdr(data, kind)
        except Exception:  # of another release
            continue
        return store
    raise LogError(
        log, "message_definition_missing", "{topic} has messages of {kind}, whose definition is not in the bag",
        "convert it to MCAP, which keeps definitions, or to JointState", topic=topic, kind=kind,
    )  # fmt: skip


def _read_messages(log: str, bag: Any, topic: str, kind: str) -> Iterator[tuple[int, Any]]:
    """Yield (time of recording in ns, message) of a topic of an open bag."""
    store = _find_type_store(log, bag, topic, kind)
    connections = [one for one in bag.connections if one.topic == topic and one.msgtype == kind]
    for _, recorded, data in bag.messages(connections):
        yield recorded, store.deserialize_cdr(data, kind)


def _message_stamp(message: Any) -> int | None:
    """The stamp in a message's header, or its own, in ns."""
    for holder in (getattr(message, "header", None), message):
        stamp: Any = getattr(holder, "stamp", None)
        if hasattr(stamp, "nanosec"):
            return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)
    return None


# Joint states of any kind: names, and values by their kind.


States = tuple[tuple[str, ...], Mapping[str, Any]]


def _read_joint_state(message: Any) -> States:
    """States of a JointState message."""
    return tuple(message.name), {kind: getattr(message, kind) for kind in ("position", "velocity", "effort")}


def _read_dynamic_joint_state(message: Any) -> States:
    """States of a DynamicJointState: interfaces such as position, velocity, effort; NaN where a joint lacks one."""
    names, values = tuple(message.joint_names), dict[str, Array]()
    for j, one in enumerate(message.interface_values):
        for interface, value in zip(one.interface_names, one.values, strict=False):
            values.setdefault(interface, np.full(len(names), np.nan))[j] = value
    return names, values


def _read_controller_state(message: Any) -> States:
    """States of a controller: what was measured, and its output by its own name."""
    measured = getattr(message, "feedback", None) or message.actual
    if not len(measured.positions) and hasattr(message, "actual"):
        measured = message.actual
    output = getattr(message, "output", None)
    spelled = {"position": "positions", "velocity": "velocities", "acceleration": "accelerations", "effort": "effort"}
    found = {kind: getattr(measured, name) for kind, name in spelled.items()}
    return tuple(message.joint_names), found | ({} if output is None else {"command_effort": output.effort})


_STATES: Mapping[str, Callable[[Any], States]] = {
    JOINT_STATE: _read_joint_state, DYNAMIC: _read_dynamic_joint_state, CONTROLLER: _read_controller_state,
}  # fmt: skip


class _JointBlock:
    """Joint states on their way into columns called `position.<joint>`, whatever order each message has."""

    def __init__(self, columns: Sequence[str], read: Callable[[Any], States]) -> None:
        self._columns, self._read = tuple(columns), read
        wanted = [tuple(column.split(".", 1)) for column in columns]
        self._joints = {joint for _, joint in wanted}
        kinds = dict.fromkeys(kind for kind, _ in wanted)
        self._wanted = {kind: [(k, joint) for k, (one, joint) in enumerate(wanted) if one == kind] for kind in kinds}
        self._complete: dict[tuple[str, ...], bool] = {}
        self._clear()

    def _clear(self) -> None:
        """Drop all collected messages and begin an empty block."""
        self._names: list[tuple[str, ...]] = []
        self._values: dict[str, list[Array]] = {kind: [] for kind in self._wanted}

    def add_message(self, message: Any) -> bool:
        """Add a message unless it lacks a wanted joint; returns whether it was added."""
        names, found = self._read(message)
        if names not in self._complete:
            self._complete[names] = self._joints.issubset(names)
        if not self._complete[names]:
            return False
        for kind, values in self._values.items():
            value = found.get(kind, ())
            values.append(value if len(value) == len(names) else np.full(len(names), np.nan))
        self._names.append(names)
        return True

    def take_columns(self) -> dict[str, Numbers]:
        """Return the collected columns and begin an empty block."""
        block = np.empty((len(self._columns), len(self._names)))
        start = 0
        for names, run in groupby(self._names):
            stop = start + sum(1 for _ in run)
            places = {name: k for k, name in enumerate(names)}
            for kind, wanted in self._wanted.items():
                part = np.array(self._values[kind][start:stop])
                for row, joint in wanted:
                    block[row, start:stop] = part[:, places[joint]]
            start = stop
        self._clear()
        return dict(zip(self._columns, block, strict=True))


# Other messages: every number and array of numbers in them by its path.


def _flatten_message(message: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, number, array of numbers or texts) of a message; of lists of messages, arrays over them."""
    for name in message.__dataclass_fields__:
        value, where = getattr(message, name), f"{path}.{name}"
        if name == "__msgtype__" or (not path and name == "header"):
            continue
        if hasattr(value, "__dataclass_fields__"):
            yield from _flatten_message(value, where)
        elif isinstance(value, list) and value and hasattr(value[0], "__dataclass_fields__"):
            rows = [dict(_flatten_message(one, where)) for one in value]
            for key, first in rows[0].items():
                if np.ndim(first) == 0 and not isinstance(first, str):
                    yield key, np.array([row.get(key, np.nan) for row in rows], dtype=np.float64)
        elif isinstance(value, list) and value and isinstance(value[0], str):
            yield where, tuple(value)
        elif isinstance(value, bool | int | float) or (isinstance(value, np.ndarray) and value.dtype.kind in "fiub"):
            yield where, value
        elif isinstance(value, list) and value and isinstance(value[0], bool | int | float):
            yield where, np.array(value, dtype=np.float64)


def _value_at(message: Any, path: str) -> Any:
    """The value at a path; of lists of messages, a list over them."""
    value = message
    for name in path[1:].split("."):
        value = [getattr(one, name) for one in value] if isinstance(value, list) else getattr(value, name)
    return value


class _FieldBlock:
    """Messages on their way into columns and arrays by the paths of their fields; widths: 0 for a number."""

    def __init__(self, columns: Sequence[str], widths: Mapping[str, int]) -> None:
        self._widths = {name: widths[name] for name in columns}
        self._rows: dict[str, list[Any]] = {name: [] for name in columns}

    def add_message(self, message: Any) -> bool:
        """Add a message; an array of another length than the first becomes NaN. Returns whether it was added."""
        for name, width in self._widths.items():
            value, shape = _value_at(message, name), (width,) if width else ()
            self._rows[name].append(value if np.shape(value) == shape else np.full(shape, np.nan))
        return True

    def take_columns(self) -> dict[str, Numbers]:
        """Return the collected columns and begin an empty block."""
        taken = {name: np.array(rows, dtype=np.float64) for name, rows in self._rows.items()}
        self._rows = {name: [] for name in taken}
        return taken


_PROBE = 500
_TIME = "t"


@dataclass(frozen=True, slots=True)
class BagTable:
    """A topic of a bag as columns: `position.<joint>` and so on of joint states, else the fields of its messages."""

    path: Path
    topic: str
    kind: str
    by_header: bool
    fields: tuple[Field, ...]
    notes: tuple[Message, ...]
    other_topics: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the file or folder."""
        return str(self.path)

    def batches(self, wanted: tuple[Wanted, ...], rows: int) -> Iterator[Batch]:
        """Yield messages in the order of recording; those that lack a wanted joint are left out."""
        names = [field.name for field in wanted if field.name != _TIME]
        widths = {field.name: field.shape[1] if len(field.shape) == 2 else 0 for field in self.fields}
        block = _JointBlock(names, _STATES[self.kind]) if self.kind in _STATES else _FieldBlock(names, widths)
        stamps: list[int] = []
        with _open_bag_reader(self.path) as bag:
            total = max(sum(one.msgcount for one in bag.connections if one.topic == self.topic), 1)
            for count, (recorded, message) in enumerate(_read_messages(self.name, bag, self.topic, self.kind), start=1):
                if not block.add_message(message):
                    continue
                stamps.append((_message_stamp(message) or 0) if self.by_header else recorded)
                if len(stamps) >= rows:
                    yield Part(
                        {_TIME: np.array(stamps, dtype=np.int64), **block.take_columns()}, min(count / total, 1.0)
                    )
                    stamps = []
            if stamps:
                yield Part({_TIME: np.array(stamps, dtype=np.int64), **block.take_columns()}, 1.0)


@contextmanager
def _open_bag_reader(path: Path) -> Iterator[Any]:
    """Open a bag or an MCAP file; LogError where it is damaged or rosbags is not installed."""
    try:
        from rosbags.rosbag2 import Reader
    except ImportError as error:
        raise LogError(
            str(path), "needs_extra_package", "bags need rosbags", "install it with: pip install rosbags",
        ) from error  # fmt: skip
    if any(mark in str(path) for mark in "?#%"):
        raise LogError(
            str(path), "bag_path_not_allowed", "the path of a bag must not contain '?', '#' or '%'", "rename it",
        )  # fmt: skip
    try:
        reader: Any = Reader.STORAGE_PLUGINS["dir" if path.is_dir() else path.suffix.lower()](path)
        reader.open()
    except Exception as error:
        raise _damage_error(path, error) from error
    try:
        yield reader
    except LogError:
        raise
    except Exception as error:  # three libraries below, each with its own errors
        raise _damage_error(path, error) from error
    finally:
        reader.close()


def _damage_error(path: Path, error: Exception) -> LogError:
    """Error on a bag that cannot be read."""
    reason = str(error).partition("\n")[0][:160]
    return LogError(
        str(path), "not_rosbag", "this is not a bag, or it is damaged ({reason}){content_hint}", reason=reason,
        content_hint=format_hint_from_content(path) if path.is_file() else '',
    )  # fmt: skip


def open_bag(path: Path, topic: TopicLike | None = None) -> tuple[BagTable, ...]:
    """Open a bag, pick its topics and look at their first messages: one table per topic."""
    log = str(path)
    with _open_bag_reader(path) as bag:
        kinds = {one.topic: one.msgtype for one in bag.connections}
        chosen = _pick_topics(log, bag.connections, topic)
        first = {name: list(islice(_read_messages(log, bag, name, kinds[name]), _PROBE)) for name in chosen}
        for name, messages in first.items():
            if not messages:
                raise LogError(log, "topic_without_messages", "there are no messages on {topic}", topic=name)
        by_header = all(_are_stamps_usable(_message_stamp(message) for _, message in some) for some in first.values())
        notes = [] if topic is not None else list(_describe_imus(log, bag, kinds))
        counts = {name: sum(one.msgcount for one in bag.connections if one.topic == name) for name in chosen}
    unused = (
        [] if topic is not None else [name for name, kind in kinds.items() if kind == WRENCH and name not in chosen]
    )
    if unused:
        notes.append(Message(
            "wrench_topics_not_used", "the wrenches of {topics} are not used: there is more than one", "{topic} takes "
            "one", topics=unused, topic=Option("topic", f"{chosen[0]}+{unused[0]}"),
        ))  # fmt: skip
    notes.append(
        Message("times_of_stamps", "times are the messages' own stamps")
        if by_header
        else Message("times_of_recording", "times are those of recording: the stamps are missing, unset or disordered"),
    )
    tables: list[BagTable] = []
    others = tuple(f"{name} ({kind})" for name, kind in kinds.items() if name not in chosen)
    for name, messages in first.items():
        fields = _list_fields(kinds[name], [message for _, message in messages], counts[name])
        about = [_describe_topic(name, kinds[name]), *(notes if not tables else ())]
        tables.append(BagTable(path, name, kinds[name], by_header, fields, tuple(about), others))
    return tuple(tables)


def _describe_topic(topic: str, kind: str) -> Message:
    """Note on what a topic is used for."""
    if kind in _STATES:
        return Message("joint_state_topic", "joint states are those of {topic}", topic=topic)
    if kind == WRENCH:
        return Message(
            "wrench_topic_joined", "the reaction of the base is {topic}", "{columns} leaves it out", topic=topic,
            columns=Option("columns", {"reaction": None}),
        )  # fmt: skip
    return Message("topic_read", "{topic} ({kind}) is read by its fields", topic=topic, kind=kind)


def _describe_imus(log: str, bag: Any, kinds: Mapping[str, str]) -> Iterator[Message]:
    """Yield notes on inertial sensors: they could show the direction of gravity, if they stand still."""
    for topic in (topic for topic, kind in kinds.items() if kind == IMU):
        found = [message.linear_acceleration for _, message in islice(_read_messages(log, bag, topic, IMU), _PROBE)]
        if found:
            mean = np.mean([[one.x, one.y, one.z] for one in found], axis=0)
            yield Message(
                "imu_not_used", "the inertial sensor of {topic} is not used for the fit", "if it is fixed to the mount "
                "and has the axes of the base frame, gravity is {gravity}", topic=topic,
                gravity=Option("gravity", [float(f"{-x:.4g}") for x in mean]),
            )  # fmt: skip


def _pick_topics(log: str, connections: list[Any], topic: TopicLike | None) -> list[str]:
    """The topics asked for, or the only one of joint states; the only wrench is read beside one of joint states."""
    kinds = {one.topic: one.msgtype for one in connections}
    full = {one.topic for one in connections if one.msgcount}
    listed = [f"{name} ({kind})" for name, kind in kinds.items()]
    asked = [] if topic is None else topic.split("+") if isinstance(topic, str) else topic
    if topic is not None and not (asked and isinstance(asked, list | tuple) and all(isinstance(x, str) for x in asked)):
        raise LogError(
            log, "topic_malformed", "{topic} must be the name of a topic or a list of some, got {value!r}",
            topic=Option("topic"), value=str(topic)[:60],
        )  # fmt: skip
    asked = list(asked)
    for name in asked:
        if name not in kinds:
            raise LogError(
                log, "unknown_topic", "there is no topic '{topic}'; the bag has {found:20}", topic=name, found=listed,
            )  # fmt: skip
        if asked.count(name) > 1:
            raise LogError(log, "topic_twice", "the topic '{topic}' is there twice", "name it once", topic=name)
    wrenches = [name for name, kind in kinds.items() if kind == WRENCH and name in full]
    beside = wrenches if len(wrenches) == 1 else []
    if asked:
        return asked if len(asked) > 1 or kinds[asked[0]] not in _STATES else [*asked, *beside]
    for kind in _STATES:
        states = [name for name, one in kinds.items() if one == kind]
        states = [name for name in states if name in full] or states
        if len(states) > 1:
            raise LogError(
                log, "ambiguous_topic", "there are several {kind} topics, {found:20}", "say which with {topic}",
                kind=kind.rpartition("/")[2], found=states, topic=Option("topic"),
            )  # fmt: skip
        if states:
            return [*states, *beside]
    raise LogError(
        log, "no_joint_state_topic", "there is no topic of sensor_msgs/JointState; the bag has {found:20}",
        "name topics with {topic} and their fields with {columns}", found=listed, topic=Option("topic"),
        columns=Option("columns", {"q": ".FIELD"}),
    )  # fmt: skip


def _are_stamps_usable(stamps: Iterator[int | None]) -> bool:
    """Whether stamps are set and never fall: one message may carry the stamp 0, as simulated time begins there."""
    given = list(stamps)
    if None in given:
        return False
    values = np.array(given, dtype=np.int64)
    return bool(
        len(values) and (np.diff(values) >= 0).all() and (values[-1] > values[0] or (len(values) == 1 and values[0]))
    )


def _list_fields(kind: str, messages: Sequence[Any], count: int) -> tuple[Field, ...]:
    """Time, the joints' columns and the wrench, as fields."""
    fields = {_TIME: Field(_TIME, (count,), unit="ns")}
    if kind in _STATES:
        fields[_TIME] = Field(_TIME, unit="ns")
        states = [_STATES[kind](message) for message in messages]
        for one in dict.fromkeys(one for _, values in states for one in values):
            for names, values in states:
                if len(values.get(one, ())) == len(names):
                    fields |= {f"{one}.{joint}": Field(f"{one}.{joint}") for joint in names}
        return tuple(fields.values())
    for name, value in _flatten_message(messages[0]):
        if isinstance(value, tuple):
            fields[name] = Field(name, (len(value),), problem="holds texts", words=value)
        elif np.ndim(value) == 0 or len(value):
            fields[name] = Field(name, (count, *np.shape(value)))
    return tuple(fields.values())
