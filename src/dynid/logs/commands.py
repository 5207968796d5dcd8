"""Commands of a controller beside the positions of a log: q_cmd, v_cmd, tau_ff and pwm, matched like all columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dynid.errors import LogError
from dynid.logs.column_names import (
    WORDS,
    ColumnNameReader,
    ColumnPlace,
    Meaning,
    read_mapping,
    si_factor,
    split_tokens,
    split_unit,
)
from dynid.logs.columns import assign_columns_to_joints
from dynid.logs.log import CHUNK, Log
from dynid.logs.read import FileSource, columns_of_batch
from dynid.logs.readers.table import Field, Wanted
from dynid.messages import ANYTHING, Message, Option
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

COMMANDS = ("q_cmd", "v_cmd", "tau_ff", "pwm")
_COMMAND_WORDS = frozenset(
    "cmd command commands commanded target targets desired des ref reference setpoint goal".split()
)
_FEED_FORWARD = frozenset({"ff", "feedforward"})
_PWM = frozenset({"pwm", "duty"})
_CHANNEL = {"q": "q_cmd", "v": "v_cmd", "tau": "tau_ff"}
_LIKE = {"q_cmd": "q", "v_cmd": "v", "tau_ff": "tau"}
"""The channel whose units, signs and gears a command shares."""


@dataclass(frozen=True, eq=False)
class CommandedMotion:
    """A recording of commands and positions in SI units, in the order of time, without rows that hold nothing.

    t (N,); q (N, n); v (N, n) or None; commands: (N, n) each, by the names of COMMANDS.
    """

    name: str
    t: Array
    q: Array
    v: Array | None
    commands: Mapping[str, Array]
    notes: tuple[Message, ...] = ()

    def between(self, start: float, stop: float) -> CommandedMotion:
        """Return the part from start to before stop, in s of the recording's own time."""
        inside = (self.t >= start) & (self.t < stop)
        return replace(
            self, t=self.t[inside], q=self.q[inside], v=None if self.v is None else self.v[inside],
            commands={key: x[inside] for key, x in self.commands.items()},
        )  # fmt: skip

    def with_joints(self, order: NDArray[np.int64], sign: Array) -> CommandedMotion:
        """Return the recording with the columns of joints in another order (n,), times signs (n,)."""
        return replace(
            self, q=self.q[:, order] * sign, v=None if self.v is None else self.v[:, order] * sign,
            commands={key: x[:, order] * sign for key, x in self.commands.items()},
        )  # fmt: skip

    @property
    def period(self) -> float:
        """Median time between samples, s."""
        return float(np.median(np.diff(self.t)))


def read_commands(log: Log, robot: Robot) -> CommandedMotion:
    """Return positions and commands of a log; LogError where there are no commands.

    A command that is missing in a row is the one before: it is held.
    """
    source = log._whole_source
    if not isinstance(source, FileSource):
        raise LogError(
            log.name, "missing_commands", "a Log in memory holds no commands",
            "give a file, a frame or a mapping with the columns t, q1, ..., q_cmd1, ...",
        )  # fmt: skip
    found, notes = _find_command_columns(source, robot)
    if not found:
        raise LogError(
            log.name, "missing_commands", "there are no commands for the joints {joints}; found {found:20}",
            "name them with {columns}", joints=robot.joint_names, found=[entry.name for entry in source.table.fields],
            columns=Option("columns", {"q_cmd": ANYTHING}),
        )  # fmt: skip
    t, q, v = log.t, log.q, log.v
    empty = [name for name, x in zip(robot.joint_names, q.T, strict=True) if not np.isfinite(x).any()]
    if empty and len(t):
        raise LogError(
            log.name, "position_without_numbers", "the positions of joints {joints:20} hold no number", "name their "
            "columns with {columns}", joints=empty, columns=Option("columns", {f"q.{empty[0]}": ANYTHING}),
        )  # fmt: skip
    commands = {key: _read_command(source, key, places, robot) for key, places in found.items()}
    start, stop = log.interval
    if np.isfinite(start) or np.isfinite(stop):
        whole = Log.from_source(source).t
        inside = (whole >= start) & (whole < stop)
        commands = {key: x[inside] for key, x in commands.items()}
    return _in_order_of_time(CommandedMotion(log.name, t, q, v, commands, (*log.notes, *notes)))


def _in_order_of_time(log: CommandedMotion) -> CommandedMotion:
    """The recording with commands held over missing ones, without rows that lack a time or a position."""
    commands = {key: _hold_missing(x) for key, x in log.commands.items()}
    empty = [key for key, x in commands.items() if not np.isfinite(x).all()]
    if empty:
        raise LogError(
            log.name, "command_without_numbers", "the command {command} of a joint holds no number", "name the columns "
            "with {columns}", command=empty[0], columns=Option("columns", {empty[0]: ANYTHING}),
        )  # fmt: skip
    keep = np.isfinite(log.t) & np.isfinite(log.q).all(axis=1)
    order = np.argsort(log.t[keep], kind="stable")
    t = log.t[keep][order]
    fresh = np.r_[True, np.diff(t) > 0.0] if len(t) else np.zeros(0, dtype=np.bool_)

    def pick(x: Array) -> Array:
        return np.ascontiguousarray(x[keep][order][fresh])

    v = None if log.v is None or not np.isfinite(log.v[keep]).all() else pick(log.v)
    found = {key: pick(x) for key, x in commands.items()}
    if len(t[fresh]) < 50:
        raise LogError(
            log.name, "log_too_short", "there are {count} samples with a time and all positions in it",
            "record some seconds of motion", count=int(fresh.sum()),
        )  # fmt: skip
    dropped = len(log.t) - int(fresh.sum())
    notes = log.notes
    if dropped:
        notes = (*notes, Message(
            "rows_left_out", "{log}: {count} rows without a time or a position were left out",
            log=log.name, count=dropped,
        ))  # fmt: skip
    return CommandedMotion(log.name, t[fresh], pick(log.q), v, found, notes)


def _hold_missing(x: Array) -> Array:
    """Values with the last one before in place of NaN, and the first one before that."""
    if np.isfinite(x).all():
        return x
    rows = np.where(np.isfinite(x), np.arange(len(x))[:, None], -1)
    last = np.maximum.accumulate(rows, axis=0)
    first = np.argmax(np.isfinite(x), axis=0)
    return np.take_along_axis(x, np.where(last < 0, first[None, :], last), axis=0)


def _find_command_columns(
    source: FileSource, robot: Robot
) -> tuple[dict[str, tuple[ColumnPlace, ...]], tuple[Message, ...]]:
    """Columns of each command, one per joint: by the user's mapping, else by their names."""
    fields = {entry.name: entry for entry in source.table.fields}
    given = source.given.get("columns")
    mapped = read_mapping(source.name, given if isinstance(given, Mapping) else None, robot, fields)
    meanings = _read_command_names(fields, robot)
    found: dict[str, tuple[ColumnPlace, ...]] = {}
    notes: list[Message] = []
    for command in COMMANDS:
        if command in mapped.absent:
            continue
        whole = mapped.whole.get(command)
        if whole is not None:
            found[command] = _places_of_field(source.name, fields[whole], robot) if isinstance(whole, str) else whole
            continue
        own = {j: place for (channel, j), place in mapped.single.items() if channel == command}
        columns = [m for m in meanings if m.channel == command]
        matrices = [m for m in columns if not fields[m.field].is_column and m.number is None and m.joint is None]
        if matrices and not own:
            found[command] = _places_of_field(source.name, fields[matrices[0].field], robot)
            continue
        rest = assign_columns_to_joints(
            source.name, command, [m for m in columns if fields[m.field].is_column], robot, frozenset(own)
        )  # fmt: skip
        places = own | {j: ColumnPlace(name) for j, name in rest.fields.items()}
        notes += rest.notes
        if not places:
            continue
        if missing := [name for j, name in enumerate(robot.joint_names) if j not in places]:
            raise LogError(
                source.name, "missing_command", "no column {command} for the joints {joints:20} (found {found:20})",
                "name them with {columns}, or hold the joints with {lock}", command=command, joints=missing,
                found=[place.field for place in places.values()],
                columns=Option("columns", {f"{command}.{missing[0]}": ANYTHING}),
                lock=Option("lock", {missing[0]: ANYTHING}),
            )  # fmt: skip
        found[command] = tuple(places[j] for j in range(robot.n))
    return found, tuple(notes)


def _places_of_field(log: str, field: Field, robot: Robot) -> tuple[ColumnPlace, ...]:
    """Columns of a matrix, one per joint; a single column of a robot with one joint."""
    if robot.n == 1 and field.is_column:
        return (ColumnPlace(field.name),)
    if len(field.shape) != 2 or robot.n not in field.shape:
        raise LogError(
            log, "column_count_mismatch", "'{column}' has shape {shape!s}, the robot has {n} joints", column=field.name,
            shape=field.shape, n=robot.n,
        )  # fmt: skip
    return tuple(ColumnPlace(field.name, j) for j in range(robot.n))


def _read_command_names(fields: Mapping[str, Field], robot: Robot) -> list[Meaning]:
    """What the names of commands say: `q_cmd1`, `position_command.knee`, `target_3`, `/cmd/joint2`, `pwm4`."""
    reader = ColumnNameReader(robot)
    found = []
    for entry in fields.values():
        name, unit = split_unit(entry.name)
        tokens = [word for word in split_tokens(name) if word]
        command = any(word in _COMMAND_WORDS for word in tokens)
        forward, pwm = any(word in _FEED_FORWARD for word in tokens), any(word in _PWM for word in tokens)
        if not (command or forward or pwm) or entry.problem:
            continue
        rest = [word for word in tokens if word not in _COMMAND_WORDS | _FEED_FORWARD | _PWM]
        if pwm or not any(word in WORDS for word in rest):
            rest = ["tau" if forward or pwm else "q", *rest]
        joined = re.sub(r"_(?=\d)", "", "_".join(rest))
        meaning = reader.read_name(joined if unit is None else f"{joined} [{unit}]", entry.name)
        if meaning is None or meaning.channel not in _CHANNEL:
            continue
        if meaning.channel == "tau" and command and not forward and not pwm:
            meaning = replace(meaning, channel="tau")
        found.append(replace(meaning, channel="pwm" if pwm else _CHANNEL[meaning.channel]))
    return found


def _read_command(source: FileSource, command: str, places: tuple[ColumnPlace, ...], robot: Robot) -> Array:
    """A command (N, n) in SI units and with the wiring of the channel that it is like."""
    length = len(places)
    fields = {entry.name: entry for entry in source.table.fields}
    turned = frozenset(
        place.field for place in places
        if place.column is not None and fields[place.field].shape[0] == length != fields[place.field].shape[-1]
    )  # fmt: skip
    like = _LIKE.get(command)
    if like is None:
        wanted = tuple(Wanted(name, name in turned) for name in dict.fromkeys(place.field for place in places))
        return np.concatenate([columns_of_batch(batch, places) for batch in source.table.batches(wanted, CHUNK)])
    asked = source.scale.channels.get(like) if like in source.scale.by_joint else None
    units = [split_unit(place.field)[1] for place in places]
    if asked is None and any(units):
        asked = np.array([1.0 if u is None else si_factor(source.name, like, u, p.field)
                          for u, p in zip(units, places, strict=True)])  # fmt: skip
    plan = replace(source.plan, channels={like: places}, turned=source.plan.turned | turned)
    scale = replace(source.scale, channels={like: asked})
    reading = replace(source, plan=plan, scale=scale)
    return np.concatenate([getattr(samples, like) for samples in reading.chunks(CHUNK)])
