"""A robot as plain data for result files: everything needed to build it again, exactly."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from dynid.errors import DynidError
from dynid.messages import Message
from dynid.robot.expression import Expression
from dynid.robot.force_sensor import ForceSensor, Rotor
from dynid.robot.joint_column import JointColumn
from dynid.robot.robot import Closure, Coupling, JointLimits, Link, MdhRow, Robot
from dynid.robot.transform import Transform, freeze
from dynid.storage.files import InputFile

Finite = Annotated[float, Field(allow_inf_nan=False, ge=-1e15, le=1e15)]
Three = Annotated[list[Finite], Field(min_length=3, max_length=3)]
Unknown = Finite | None
"""None stands for a number that is not known (NaN) or not limited (infinite)."""


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")


class LengthRecord(_Record):
    """An expression of the geometry."""

    value: Finite
    text: str | None = None
    degrees: bool = False


class LinkRecord(_Record):
    """One link with its joint."""

    name: str
    joint: str
    label: str
    parent: int
    kind: Literal["revolute", "prismatic", "fixed", "floating"]
    rotation: Annotated[list[Three], Field(min_length=3, max_length=3)]
    translation: Three
    axis: Three
    inertia: Annotated[list[Unknown], Field(min_length=10, max_length=10)]
    rotor: Unknown
    zero: list[str]
    limits: Annotated[list[Unknown], Field(min_length=5, max_length=5)]
    mdh: Annotated[list[LengthRecord], Field(min_length=6, max_length=6)] | None = None
    friction: list[tuple[str, Finite]]


class CouplingRecord(_Record):
    """A coupling of joints."""

    passive: str
    factors: list[tuple[str, Finite]]
    offset: Finite


class ClosureRecord(_Record):
    """A loop that closes."""

    links: tuple[str, str]
    keep: list[str]
    passive: list[str]
    points: tuple[Three, Three]
    start: list[Finite]
    at: list[Finite] | None


class ColumnRecord(_Record):
    """A user column; a Python function is not kept, only that there was one."""

    name: str
    joint: str
    of: str
    positions: list[Finite] | None
    torque: list[Finite] | None


class RotorRecord(_Record):
    """A rotor of a motor."""

    joint: str
    ratio: Finite
    inertia: Unknown
    axis: Three


class SensorRecord(_Record):
    """A force plate."""

    position: Three
    rotation: Annotated[list[Three], Field(min_length=3, max_length=3)]
    reference: Three
    sense: Literal["plate_on_robot", "robot_on_plate"]
    channels: list[str]
    offsets: Literal["free", "tared", "known"]
    offset: list[Finite] | None
    mass: Finite
    com: Three
    noise: list[Finite] | None
    gain: list[Finite] | None
    rotors: list[RotorRecord]


class FileRecord(_Record):
    """A file that took part."""

    name: str
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    size: Annotated[int, Field(ge=0)]


class RobotRecord(_Record):
    """A whole robot."""

    name: str
    source: str
    gravity: Three
    links: Annotated[list[LinkRecord], Field(min_length=1)]
    couplings: list[CouplingRecord]
    closures: list[ClosureRecord]
    columns: list[ColumnRecord]
    symbols: dict[str, Finite]
    notes: list[Message] = []
    sensor: SensorRecord | None = None
    unknown: list[str] = []
    files: list[FileRecord] = []


def record_robot(robot: Robot) -> RobotRecord:
    """Write a robot down."""
    return RobotRecord(
        name=robot.name,
        source=robot.source,
        gravity=robot.gravity.tolist(),
        links=[_record_link(link) for link in robot.links],
        couplings=[
            CouplingRecord(passive=c.passive, factors=list(c.factors), offset=c.offset) for c in robot.couplings
        ],
        closures=[_record_closure(c) for c in robot.closures],
        columns=[record_column(c) for c in robot.columns],
        symbols=dict(robot.symbols),
        notes=list(robot.notes),
        sensor=None if robot.sensor is None else _record_sensor(robot.sensor),
        unknown=list(robot.unknown),
        files=record_files(robot.files),
    )


def record_files(files: tuple[InputFile, ...]) -> list[FileRecord]:
    """Write hashed files down."""
    return [FileRecord(name=f.name, sha256=f.sha256, size=f.size) for f in files]


def rebuild_files(records: list[FileRecord]) -> tuple[InputFile, ...]:
    """Build hashed files again."""
    return tuple(InputFile(r.name, r.sha256, r.size) for r in records)


def _record_sensor(sensor: ForceSensor) -> SensorRecord:
    return SensorRecord(
        position=sensor.position.tolist(),
        rotation=sensor.rotation.tolist(),
        reference=sensor.reference.tolist(),
        sense=sensor.sense,
        channels=list(sensor.channels),
        offsets=sensor.offsets,
        offset=None if sensor.offset is None else sensor.offset.tolist(),
        mass=sensor.mass,
        com=sensor.com.tolist(),
        noise=None if sensor.noise is None else sensor.noise.tolist(),
        gain=None if sensor.gain is None else sensor.gain.tolist(),
        rotors=[
            RotorRecord(joint=r.joint, ratio=r.ratio, inertia=_known(r.inertia), axis=r.axis.tolist())
            for r in sensor.rotors
        ],
    )


def _rebuild_sensor(r: SensorRecord) -> ForceSensor:
    return ForceSensor(
        freeze(r.position), freeze(r.rotation), freeze(r.reference), r.sense, tuple(r.channels), r.offsets,
        None if r.offset is None else freeze(r.offset), r.mass, freeze(r.com),
        None if r.noise is None else freeze(r.noise), None if r.gain is None else freeze(r.gain),
        tuple(Rotor(x.joint, x.ratio, math.nan if x.inertia is None else x.inertia, freeze(x.axis)) for x in r.rotors),
    )  # fmt: skip


def _record_link(link: Link) -> LinkRecord:
    limits = link.limits
    row = link.mdh
    return LinkRecord(
        name=link.name,
        joint=link.joint,
        label=link.label,
        parent=link.parent,
        kind=link.kind,
        rotation=link.placement.rotation.tolist(),
        translation=link.placement.translation.tolist(),
        axis=link.axis.tolist(),
        inertia=[_known(float(x)) for x in link.inertia],
        rotor=_known(link.rotor),
        zero=sorted(link.zero),
        limits=[_known(x) for x in (limits.lower, limits.upper, limits.velocity, limits.acceleration, limits.effort)],
        mdh=None if row is None else [
            LengthRecord(value=x.value, text=x.text, degrees=x.degrees)
            for x in (row.gamma, row.b, row.alpha, row.d, row.theta, row.r)
        ],
        friction=list(link.friction),
    )  # fmt: skip


def _record_closure(closure: Closure) -> ClosureRecord:
    return ClosureRecord(
        links=closure.links,
        keep=list(closure.keep),
        passive=list(closure.passive),
        points=(closure.points[0].tolist(), closure.points[1].tolist()),
        start=closure.start.tolist(),
        at=None if closure.at is None else closure.at.tolist(),
    )


def record_column(column: JointColumn) -> ColumnRecord:
    """Write a user column down."""
    return ColumnRecord(
        name=column.name,
        joint=column.joint,
        of=column.of,
        positions=None if column.positions is None else column.positions.tolist(),
        torque=None if column.torque is None else column.torque.tolist(),
    )


def rebuild_column(record: ColumnRecord) -> JointColumn:
    """Build a user column again; where it was a function, using it is an error that says so."""
    if record.positions is not None and record.torque is not None:
        return JointColumn(record.name, record.joint, record.of, np.array(record.positions), np.array(record.torque))
    name = record.name

    def missing(q: object, v: object) -> object:
        raise DynidError(
            "column_function_not_saved", "column '{column}' was a Python function, which no file holds",
            "pass it again with columns=[...]", column=name,
        )  # fmt: skip

    return JointColumn(record.name, record.joint, record.of, function=missing)  # type: ignore[arg-type]


def rebuild_robot(record: RobotRecord) -> Robot:
    """Build a robot from what was written."""
    if any(not -1 <= link.parent < len(record.links) for link in record.links):
        raise DynidError("record_parent_unknown", "a link's parent is no link of the robot")
    for link in record.links:
        R, axis = np.array(link.rotation), np.array(link.axis)
        if np.abs(R @ R.T - np.eye(3)).max() > 1e-6 or abs(np.linalg.norm(axis) - 1.0) > 1e-6:
            raise DynidError(
                "record_link_frame_damaged", "link '{link}': its rotation is none, or its axis has not length 1",
                link=link.name,
            )  # fmt: skip
    return Robot(
        record.name,
        tuple(_rebuild_link(link) for link in record.links),
        freeze(record.gravity),
        tuple(Coupling(c.passive, tuple(c.factors), c.offset) for c in record.couplings),
        tuple(
            Closure(
                c.links, tuple(c.keep), tuple(c.passive), (freeze(c.points[0]), freeze(c.points[1])), freeze(c.start),
                None if c.at is None else freeze(c.at),
            )
            for c in record.closures
        ),
        dict(record.symbols),
        record.source,
        tuple(record.notes),
        columns=tuple(rebuild_column(c) for c in record.columns),
        sensor=None if record.sensor is None else _rebuild_sensor(record.sensor),
        unknown=tuple(record.unknown),
        files=rebuild_files(record.files),
    )  # fmt: skip


def _rebuild_link(record: LinkRecord) -> Link:
    unlimited = (-math.inf, math.inf, math.inf, math.inf, math.inf)
    limits = [default if x is None else x for x, default in zip(record.limits, unlimited, strict=True)]
    return Link(
        record.name,
        record.joint,
        record.label,
        record.parent,
        record.kind,
        Transform(freeze(record.rotation), freeze(record.translation)),
        freeze(record.axis),
        freeze([math.nan if x is None else x for x in record.inertia]),
        math.nan if record.rotor is None else record.rotor,
        frozenset(record.zero),
        JointLimits(*limits),
        None if record.mdh is None else MdhRow(*(Expression(x.value, x.text, x.degrees) for x in record.mdh)),
        tuple(record.friction),
    )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
