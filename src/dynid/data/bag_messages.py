"""Messages of a bag: joint states gathered into columns, wrenches interpolated in between."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np

from dynid.data.table import Numbers
from dynid.robot.transform import Array

JOINT_STATE = "sensor_msgs/msg/JointState"
WRENCH = "geometry_msgs/msg/WrenchStamped"


def read_messages(bag: Any, topic: str, kind: str) -> Iterator[tuple[int, Any]]:
    """Yield (time of recording in ns, message) of a topic of an open bag."""
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.LATEST)
    connections = [one for one in bag.connections if one.topic == topic and one.msgtype == kind]
    for _, recorded, data in bag.messages(connections):
        yield recorded, store.deserialize_cdr(data, kind)


def stamp_of(message: Any) -> int:
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
        self._begin()

    def _begin(self) -> None:
        self._stamps: list[int] = []
        self._names: list[tuple[str, ...]] = []
        self._values: dict[str, list[Array]] = {kind: [] for kind in self._wanted}

    def __len__(self) -> int:
        return len(self._stamps)

    def add(self, recorded: int, message: Any) -> bool:
        """Add a message unless it lacks a wanted joint; returns whether the block is full."""
        names = joint_names(message)
        if names not in self._complete:
            self._complete[names] = self._joints.issubset(names)
        if not self._complete[names]:
            return False
        for kind, values in self._values.items():
            value = getattr(message, kind)
            values.append(value if len(value) == len(names) else np.full(len(names), np.nan))
        self._stamps.append(stamp_of(message) if self._by_header else recorded)
        self._names.append(names)
        return len(self._stamps) >= self._rows

    def take(self) -> tuple[Numbers, dict[str, Numbers]]:
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
        self._begin()
        return stamps, dict(zip(self._columns, block, strict=True))


class WrenchTrack:
    """A stream of wrenches that follows the joint states: only those around the block at hand are kept."""

    def __init__(self, messages: Iterator[tuple[int, Any]], by_header: bool) -> None:
        self._messages, self._by_header = messages, by_header
        self._stamps: list[int] = []
        self._values: list[list[float]] = []

    def at(self, stamps: Numbers) -> Array:
        """Return wrenches (rows, 6) at the given stamps, NaN before the first and after the last wrench."""
        last = int(stamps.max())
        while not self._stamps or self._stamps[-1] < last:
            recorded, message = next(self._messages, (0, None))
            if message is None:
                break
            force, torque = message.wrench.force, message.wrench.torque
            self._stamps.append(stamp_of(message) if self._by_header else recorded)
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
