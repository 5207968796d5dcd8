"""Bags: rosbag2 folders, bare .db3 files and MCAP, without ROS; JointState messages as columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np

from dynid.errors import LogError
from dynid.logs.column_names import REACTION
from dynid.logs.read import format_hint_from_content
from dynid.logs.readers.table import Batch, Field, Numbers, Wanted
from dynid.messages import Message, Option
from dynid.robot.transform import Array

# Messages of a bag: joint states gathered into columns, wrenches interpolated in between.


JOINT_STATE = "sensor_msgs/msg/JointState"
WRENCH = "geometry_msgs/msg/WrenchStamped"


def read_messages(bag: Any, topic: str, kind: str) -> Iterator[tuple[int, Any]]:
    """Yield (time of recording in ns, message) of a topic of an open bag."""
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.LATEST)
    connections = [one for one in bag.connections if one.topic == topic and one.msgtype == kind]
    for _, recorded, data in bag.messages(connections):
        yield recorded, store.deserialize_cdr(data, kind)


def header_stamp(message: Any) -> int:
    """The stamp in a message's header, in ns."""
    stamp = message.header.stamp
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


def joint_names(message: Any) -> tuple[str, ...]:
    """The joints of a JointState, in its own order."""
    return tuple(message.name)


class JointBlock:
    """Joint states on their way into columns called `position.<joint>`, whatever order each message has."""

    def __init__(self, columns: tuple[str, ...], rows: int, by_header: bool) -> None:
        self._columns, self._rows, self._by_header = columns, rows, by_header
        wanted = [tuple(column.split(".", 1)) for column in columns]
        self._joints = {joint for _, joint in wanted}
        kinds = dict.fromkeys(kind for kind, _ in wanted)
        self._wanted = {kind: [(k, joint) for k, (one, joint) in enumerate(wanted) if one == kind] for kind in kinds}
        self._complete: dict[tuple[str, ...], bool] = {}
        self._clear()

    def _clear(self) -> None:
        self._stamps: list[int] = []
        self._names: list[tuple[str, ...]] = []
        self._values: dict[str, list[Array]] = {kind: [] for kind in self._wanted}

    def __len__(self) -> int:
        return len(self._stamps)

    def add_message(self, recorded: int, message: Any) -> bool:
        """Add a message unless it lacks a wanted joint; returns whether the block is full."""
        names = joint_names(message)
        if names not in self._complete:
            self._complete[names] = self._joints.issubset(names)
        if not self._complete[names]:
            return False
        for kind, values in self._values.items():
            value = getattr(message, kind)
            values.append(value if len(value) == len(names) else np.full(len(names), np.nan))
        self._stamps.append(header_stamp(message) if self._by_header else recorded)
        self._names.append(names)
        return len(self._stamps) >= self._rows

    def take_rows(self) -> tuple[Numbers, dict[str, Numbers]]:
        """Return stamps in ns and columns, and begin again."""
        block = np.empty((len(self._columns), len(self)))
        start = 0
        for names, run in groupby(self._names):
            stop = start + sum(1 for _ in run)
            places = {name: k for k, name in enumerate(names)}
            for kind, wanted in self._wanted.items():
                part = np.array(self._values[kind][start:stop])
                for row, joint in wanted:
                    block[row, start:stop] = part[:, places[joint]]
            start = stop
        stamps = np.array(self._stamps, dtype=np.int64)
        self._clear()
        return stamps, dict(zip(self._columns, block, strict=True))


class WrenchTrack:
    """A stream of wrenches that follows the joint states: only those around the block at hand are kept."""

    def __init__(self, messages: Iterator[tuple[int, Any]], by_header: bool) -> None:
        self._messages, self._by_header = messages, by_header
        self._stamps: list[int] = []
        self._values: list[list[float]] = []

    def wrenches_at(self, stamps: Numbers) -> Array:
        """Return wrenches (rows, 6) at the given stamps, NaN before the first and after the last wrench."""
        last = int(stamps.max())
        while not self._stamps or self._stamps[-1] < last:
            recorded, message = next(self._messages, (0, None))
            if message is None:
                break
            force, torque = message.wrench.force, message.wrench.torque
            self._stamps.append(header_stamp(message) if self._by_header else recorded)
            self._values.append([force.x, force.y, force.z, torque.x, torque.y, torque.z])
        if not self._stamps:
            return np.full((len(stamps), 6), np.nan)
        origin = self._stamps[0]
        known = np.array(self._stamps, dtype=np.int64) - origin
        values = np.array(self._values)
        times = (stamps - origin).astype(np.float64)
        found = [np.interp(times, known, values[:, k], left=np.nan, right=np.nan) for k in range(6)]
        keep = max(int(np.searchsorted(known, times[-1], side="right")) - 1, 0)
        del self._stamps[:keep], self._values[:keep]
        return np.stack(found, axis=1)


_PROBE = 500
_TIME = "t"
KINDS = ("position", "velocity", "effort")


@dataclass(frozen=True, slots=True)
class BagTable:
    """A JointState topic of a bag, as columns called `position.<joint>` and so on, and the wrench if there is one."""

    path: Path
    topic: str
    wrench: str | None
    by_header: bool
    fields: tuple[Field, ...]
    notes: tuple[Message, ...]

    @property
    def name(self) -> str:
        """The file or folder."""
        return str(self.path)

    def batches(self, wanted: tuple[Wanted, ...], rows: int) -> Iterator[Batch]:
        """Read messages in the order of recording; those that lack a wanted joint are left out."""
        names = [field.name for field in wanted]
        block = JointBlock(tuple(name for name in names if name not in (_TIME, *REACTION)), rows, self.by_header)
        with ExitStack() as stack:
            bag, track = stack.enter_context(_open_bag_reader(self.path)), None
            if self.wrench is not None and any(name in REACTION for name in names):
                other = stack.enter_context(_open_bag_reader(self.path))
                track = WrenchTrack(read_messages(other, self.wrench, WRENCH), self.by_header)
            for recorded, message in read_messages(bag, self.topic, JOINT_STATE):
                if block.add_message(recorded, message):
                    yield _take_batch(block, track)
            if len(block):
                yield _take_batch(block, track)


def _take_batch(block: JointBlock, track: WrenchTrack | None) -> Batch:
    """Columns of the joint states read so far, with the wrenches at their stamps."""
    stamps, columns = block.take_rows()
    batch = {_TIME: stamps, **columns}
    if track is not None:
        batch |= dict(zip(REACTION, track.wrenches_at(stamps).T, strict=True))
    return batch


@contextmanager
def _open_bag_reader(path: Path) -> Iterator[Any]:
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
    reason = str(error).partition("\n")[0][:160]
    return LogError(
        str(path), "not_rosbag", "this is no bag, or a damaged one ({reason}){content_hint}", reason=reason,
        content_hint=format_hint_from_content(path) if path.is_file() else '',
    )  # fmt: skip


def open_bag(path: Path, topic: str | None = None) -> BagTable:
    """Open a bag, pick its JointState topic and look at the first messages."""
    with _open_bag_reader(path) as bag:
        chosen = _pick_joint_state_topic(str(path), bag.connections, topic)
        wrenches = list(dict.fromkeys(one.topic for one in bag.connections if one.msgtype == WRENCH and one.msgcount))
        wrench = wrenches[0] if len(wrenches) == 1 else None
        first = list(islice(read_messages(bag, chosen, JOINT_STATE), _PROBE))
        if not first:
            raise LogError(str(path), "topic_without_messages", "there are no messages on {topic}", topic=chosen)
        by_header = _usable_stamps(header_stamp(message) for _, message in first)
        if by_header and wrench is not None:
            by_header = _usable_stamps(
                header_stamp(message) for _, message in islice(read_messages(bag, wrench, WRENCH), _PROBE)
            )
    notes = [
        Message("joint_state_topic", "joint states are those of {topic}", topic=chosen),
        Message("times_of_stamps", "times are the messages' own stamps")
        if by_header
        else Message("times_of_recording", "times are those of recording: the stamps are unset or disordered"),
    ]
    if wrench is not None:
        notes.append(Message(
            "wrench_topic_interpolated", "the reaction of the base is {topic}, interpolated", "{columns} leaves it out",
            topic=wrench, columns=Option("columns", {"reaction": None}),
        ))  # fmt: skip
    elif wrenches:
        notes.append(Message(
            "wrench_topics_not_used", "the wrenches of {topics} are not used: there is more than one", topics=wrenches,
        ))  # fmt: skip
    fields = _list_fields([message for _, message in first], wrench is not None)
    return BagTable(path, chosen, wrench, by_header, fields, tuple(notes))


def _pick_joint_state_topic(log: str, connections: list[Any], topic: str | None) -> str:
    """The topic asked for, or the only one of joint states."""
    kinds = {one.topic: one.msgtype for one in connections}
    states = [name for name, kind in kinds.items() if kind == JOINT_STATE]
    listed = [f"{name} ({kind})" for name, kind in kinds.items()]
    if topic is not None:
        if topic not in states:
            raise LogError(
                log, "unknown_topic", "there is no JointState topic '{topic}'; the bag has {found:20}", topic=topic,
                found=listed,
            )  # fmt: skip
        return topic
    if not states:
        raise LogError(
            log, "no_joint_state_topic", "there is no topic of sensor_msgs/JointState; the bag has {found:20}",
            found=listed,
        )  # fmt: skip
    full = [name for name in states if any(one.msgcount for one in connections if one.topic == name)] or states
    if len(full) > 1:
        raise LogError(
            log, "ambiguous_topic", "there are several JointState topics, {found:20}", "say which with {topic}",
            found=full, topic=Option("topic"),
        )  # fmt: skip
    return str(full[0])


def _usable_stamps(stamps: Iterator[int]) -> bool:
    """Whether stamps are set and never fall: one message may carry the stamp 0, as simulated time begins there."""
    values = np.fromiter(stamps, dtype=np.int64)
    return bool(
        len(values) and (np.diff(values) >= 0).all() and (values[-1] > values[0] or (len(values) == 1 and values[0]))
    )


def _list_fields(messages: list[Any], has_wrench: bool) -> tuple[Field, ...]:
    names: dict[str, None] = {_TIME: None}
    for kind in KINDS:
        for message in messages:
            if len(getattr(message, kind)):
                names |= dict.fromkeys(f"{kind}.{joint}" for joint in joint_names(message))
    if has_wrench:
        names |= dict.fromkeys(REACTION)
    return tuple(Field(name, unit="ns" if name == _TIME else None) for name in names)
