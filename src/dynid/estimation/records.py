"""What files of results share: exact arrays, factors, equations, and how a file is read and refused."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dynid.errors import DynidError, IdentificationError
from dynid.estimation.accumulate.factor import ChannelFactor
from dynid.estimation.regression.equation import Equation
from dynid.estimation.regression.measurement import Measure
from dynid.messages import Message
from dynid.robot.record import ColumnRecord, rebuild_column, record_column
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

DAMAGE = (DynidError, ValueError, TypeError, KeyError, IndexError, OverflowError)
"""What building values again from a damaged record may raise; a ValidationError is a ValueError."""

LARGEST = 500_000_000
"""Bytes of a file that is still read."""


class Record(BaseModel):
    """What all records share: no unknown keys, no numbers that JSON does not have."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class ArrayRecord(Record):
    """Numbers as the bytes of little-endian doubles, base64: exact and compact."""

    shape: Annotated[list[Annotated[int, Field(ge=0, lt=10**9)]], Field(min_length=1, max_length=2)]
    float64: str


class FactorRecord(Record):
    """A channel's factor."""

    R: ArrayRecord
    count: Annotated[int, Field(ge=0)]
    total: float


class EquationRecord(Record):
    """What is needed to write the rows again."""

    rotor_inertia: bool
    friction: list[str]
    scale: ArrayRecord
    columns: list[ColumnRecord]
    transmission: ArrayRecord
    joints: list[int]
    rigid: ArrayRecord | None
    model: str = "torque"
    window: float | None = None
    quadrature: str = "smooth"
    unknown: list[str] | None = None


def read_json(path: Path, form: str, version: int, remedy: str) -> dict[str, Any]:
    """Read a file that says of itself to have this format and version."""
    try:
        if path.stat().st_size > LARGEST:
            raise IdentificationError(
                "file_too_large", "{path}: larger than {largest_mb} MB, which no such file is", path=path,
                largest_mb=LARGEST // 1000000,
            )  # fmt: skip
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise IdentificationError(
            "file_unreadable", "{path}: cannot be read: {reason}", path=path, reason=error.strerror or str(error),
        ) from error  # fmt: skip
    except (ValueError, RecursionError) as error:
        raise IdentificationError(
            "not_json", "{path}: this is no JSON file ({reason})", path=path, reason=str(error),
        ) from error  # fmt: skip
    if not isinstance(data, dict) or data.get("format") != form:
        raise IdentificationError(
            "wrong_record_format", "{path}: this is no file of the format '{format}'", "{how}", path=path, format=form,
            how=remedy,
        )  # fmt: skip
    if data.get("version") != version:
        found = str(data.get("version"))[:20]
        raise IdentificationError(
            "record_version_unsupported", "{path}: the file has version {version}, this dynid reads version "
            "{supported}", "update dynid", path=path, version=found, supported=version,
        )  # fmt: skip
    return data


def describe_damage(error: Exception, inside: str = "") -> Message:
    """Say what is wrong with a file's content; inside: where in the file the record stands."""
    if not isinstance(error, ValidationError):
        cause = error.code if isinstance(error, DynidError) else type(error).__name__
        return Message("file_damaged", "the file is damaged: {reason}", reason=str(error), cause=cause)
    first = error.errors(include_url=False, include_context=False)[0]
    place = inside + ".".join(str(p) for p in first["loc"])
    return Message("file_damaged", "{place}: {reason}; the file is damaged", place=place, reason=first["msg"])


def record_array(x: Array) -> ArrayRecord:
    """Write an array down."""
    data = np.ascontiguousarray(x, dtype="<f8")
    return ArrayRecord(shape=list(data.shape), float64=base64.b64encode(data.tobytes()).decode("ascii"))


def read_numbers(record: ArrayRecord, *shape: int) -> Array:
    """Numbers of an array that must have this shape."""
    if tuple(record.shape) != shape:
        raise IdentificationError(
            "wrong_shape", "an array has shape {shape!s}, not {expected_shape!s}", shape=tuple(record.shape),
            expected_shape=shape,
        )  # fmt: skip
    raw = base64.b64decode(record.float64, validate=True)
    return np.frombuffer(raw, dtype="<f8").astype(np.float64).reshape(shape)


def finite_numbers(record: ArrayRecord, *shape: int) -> Array:
    """The same, all finite."""
    numbers = read_numbers(record, *shape)
    if not np.isfinite(numbers).all():
        raise IdentificationError("array_not_finite", "an array holds numbers that are not finite")
    return numbers


def record_factor(factor: ChannelFactor) -> FactorRecord:
    """Write a factor down."""
    return FactorRecord(R=record_array(factor.R), count=factor.count, total=factor.total)


def rebuild_factor(record: FactorRecord) -> ChannelFactor:
    """Build a factor again, of whatever width was written."""
    if len(record.R.shape) != 2:
        raise IdentificationError("wrong_shape", "a factor must have rows and columns")
    return ChannelFactor(finite_numbers(record.R, *record.R.shape), record.count, record.total)


def record_equation(equation: Equation) -> EquationRecord:
    """Write an equation down; its robot is recorded apart."""
    return EquationRecord(
        rotor_inertia=equation.base.question.rotor_inertia,
        friction=list(equation.friction),
        scale=record_array(equation.shapes.scale),
        columns=[record_column(column) for column in equation.extra],
        transmission=record_array(equation.transmission),
        joints=list(equation.joints),
        rigid=None if equation.rigid is None else record_array(equation.rigid),
        model=equation.measure.model,
        window=equation.measure.window,
        quadrature=equation.measure.quadrature,
        unknown=None if equation.unknown is None else list(equation.unknown),
    )


def rebuild_equation(robot: Robot, e: EquationRecord) -> Equation:
    """Build an equation again."""
    if not e.joints or e.joints != sorted(set(e.joints)) or not set(e.joints) <= set(range(robot.n)):
        raise IdentificationError("record_joints_mismatch", "equation.joints are not joints of the robot in order")
    equation = Equation.of(
        robot,
        friction=tuple(e.friction),
        rotor_inertia=e.rotor_inertia,
        scale=finite_numbers(e.scale, robot.n),
        extra=tuple(rebuild_column(column) for column in e.columns),
        transmission=finite_numbers(e.transmission, robot.n, robot.n),
        joints=tuple(e.joints),
        measure=Measure(e.model, e.window, e.quadrature),
        unknown=None if e.unknown is None else tuple(e.unknown),
    )
    if (equation.shapes.scale <= 0.0).any():
        raise IdentificationError("record_scale_not_positive", "equation.scale must be positive")
    if e.rigid is not None:
        equation = equation.with_rigid(finite_numbers(e.rigid, equation.rigid_count))
    return equation
