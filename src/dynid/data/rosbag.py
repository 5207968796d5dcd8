"""Bags: rosbag2 folders, bare .db3 files and MCAP, without ROS; JointState messages as columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from dynid.data.bag_messages import JOINT_STATE, WRENCH, JointBlock, WrenchTrack, joint_names, read_messages, stamp_of
from dynid.data.formats import content_hint
from dynid.data.naming import REACTION
from dynid.data.table import Batch, Field, Wanted, shortened
from dynid.errors import LogError

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
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        """The file or folder."""
        return str(self.path)

    def batches(self, wanted: tuple[Wanted, ...], rows: int) -> Iterator[Batch]:
        """Read messages in the order of recording; those that lack a wanted joint are left out."""
        names = [field.name for field in wanted]
        block = JointBlock(tuple(name for name in names if name not in (_TIME, *REACTION)), rows, self.by_header)
        with ExitStack() as stack:
            bag, track = stack.enter_context(_opened(self.path)), None
            if self.wrench is not None and any(name in REACTION for name in names):
                other = stack.enter_context(_opened(self.path))
                track = WrenchTrack(read_messages(other, self.wrench, WRENCH), self.by_header)
            for recorded, message in read_messages(bag, self.topic, JOINT_STATE):
                if block.add(recorded, message):
                    yield _batch(block, track)
            if len(block):
                yield _batch(block, track)


def _batch(block: JointBlock, track: WrenchTrack | None) -> Batch:
    stamps, columns = block.take()
    batch = {_TIME: stamps, **columns}
    if track is not None:
        batch |= dict(zip(REACTION, track.at(stamps).T, strict=True))
    return batch


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        from rosbags.rosbag2 import Reader
    except ImportError as error:
        raise LogError(str(path), 'bags need rosbags; install it with: pip install "dynid[ros]"') from error
    if any(mark in str(path) for mark in "?#%"):
        raise LogError(str(path), "the path of a bag must not contain '?', '#' or '%'; rename it")
    try:
        reader: Any = Reader.STORAGE_PLUGINS["dir" if path.is_dir() else path.suffix.lower()](path)
        reader.open()
    except Exception as error:
        raise _damaged(path, error) from error
    try:
        yield reader
    except LogError:
        raise
    except Exception as error:  # three libraries below, each with its own errors
        raise _damaged(path, error) from error
    finally:
        reader.close()


def _damaged(path: Path, error: Exception) -> LogError:
    reason = str(error).partition("\n")[0].replace(str(path), path.name)[:160]
    return LogError(
        str(path), f"this is no bag, or a damaged one ({reason}){content_hint(path) if path.is_file() else ''}"
    )


def open_bag(path: Path, topic: str | None = None) -> BagTable:
    """Open a bag, pick its JointState topic and look at the first messages."""
    with _opened(path) as bag:
        chosen = _pick_topic(str(path), bag.connections, topic)
        wrenches = list(dict.fromkeys(one.topic for one in bag.connections if one.msgtype == WRENCH and one.msgcount))
        wrench = wrenches[0] if len(wrenches) == 1 else None
        first = list(islice(read_messages(bag, chosen, JOINT_STATE), _PROBE))
        if not first:
            raise LogError(str(path), f"there are no messages on {chosen}")
        by_header = _usable_stamps(stamp_of(message) for _, message in first)
        if by_header and wrench is not None:
            by_header = _usable_stamps(
                stamp_of(message) for _, message in islice(read_messages(bag, wrench, WRENCH), _PROBE)
            )
    notes = [f"joint states are those of {chosen}"]
    notes.append(
        "times are the messages' own stamps"
        if by_header
        else "times are those of recording: the stamps are unset or disordered"
    )
    if wrench is not None:
        notes.append(f"the reaction of the base is {wrench}, interpolated; columns={{'reaction': None}} leaves it out")
    elif wrenches:
        notes.append(f"the wrenches of {', '.join(wrenches)} are not used: there is more than one")
    fields = _fields([message for _, message in first], wrench is not None)
    return BagTable(path, chosen, wrench, by_header, fields, tuple(notes))


def _pick_topic(log: str, connections: list[Any], topic: str | None) -> str:
    kinds = {one.topic: one.msgtype for one in connections}
    states = [name for name, kind in kinds.items() if kind == JOINT_STATE]
    listed = shortened([f"{name} ({kind})" for name, kind in kinds.items()])
    if topic is not None:
        if topic not in states:
            raise LogError(log, f"there is no JointState topic '{topic}'; the bag has {listed}")
        return topic
    if not states:
        raise LogError(log, f"there is no topic of sensor_msgs/JointState; the bag has {listed}")
    full = [name for name in states if any(one.msgcount for one in connections if one.topic == name)] or states
    if len(full) > 1:
        raise LogError(log, f"there are several JointState topics, {shortened(full)}; say which with topic=")
    return str(full[0])


def _usable_stamps(stamps: Iterator[int]) -> bool:
    """Whether stamps are set and never fall: one message may carry the stamp 0, as simulated time begins there."""
    values = np.fromiter(stamps, dtype=np.int64)
    return bool(
        len(values) and (np.diff(values) >= 0).all() and (values[-1] > values[0] or (len(values) == 1 and values[0]))
    )


def _fields(messages: list[Any], has_wrench: bool) -> tuple[Field, ...]:
    names: dict[str, None] = {_TIME: None}
    for kind in KINDS:
        for message in messages:
            if len(getattr(message, kind)):
                names |= dict.fromkeys(f"{kind}.{joint}" for joint in joint_names(message))
    if has_wrench:
        names |= dict.fromkeys(REACTION)
    return tuple(Field(name, unit="ns" if name == _TIME else None) for name in names)
