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
from dynid.estimation.options import Options
from dynid.estimation.regression.equation import Equation
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
            raise IdentificationError(f"{path}: larger than {LARGEST // 1_000_000} MB, which no such file is")
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise IdentificationError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise IdentificationError(f"{path}: this is no JSON file ({error})") from error
    if not isinstance(data, dict) or data.get("format") != form:
        raise IdentificationError(f"{path}: this is no file of the format '{form}'; {remedy}")
    if data.get("version") != version:
        found = str(data.get("version"))[:20]
        raise IdentificationError(
            f"{path}: the file has version {found}, this dynid reads version {version}; update dynid"
        )
    return data


def describe_damage(error: Exception, inside: str = "") -> str:
    """Say in words what is wrong with a file's content; inside: where in the file the record stands."""
    if not isinstance(error, ValidationError):
        return f"the file is damaged: {error}"
    first = error.errors(include_url=False, include_context=False)[0]
    place = ".".join(str(p) for p in first["loc"])
    return f"{inside}{place}: {first['msg']}; the file is damaged"


def record_array(x: Array) -> ArrayRecord:
    """Write an array down."""
    data = np.ascontiguousarray(x, dtype="<f8")
    return ArrayRecord(shape=list(data.shape), float64=base64.b64encode(data.tobytes()).decode("ascii"))


def read_numbers(record: ArrayRecord, *shape: int) -> Array:
    """Numbers of an array that must have this shape."""
    if tuple(record.shape) != shape:
        raise IdentificationError(f"an array has shape {tuple(record.shape)}, not {shape}")
    raw = base64.b64decode(record.float64, validate=True)
    return np.frombuffer(raw, dtype="<f8").astype(np.float64).reshape(shape)


def finite_numbers(record: ArrayRecord, *shape: int) -> Array:
    """The same, all finite."""
    numbers = read_numbers(record, *shape)
    if not np.isfinite(numbers).all():
        raise IdentificationError("an array holds numbers that are not finite")
    return numbers


def record_factor(factor: ChannelFactor) -> FactorRecord:
    """Write a factor down."""
    return FactorRecord(R=record_array(factor.R), count=factor.count, total=factor.total)


def rebuild_factor(record: FactorRecord) -> ChannelFactor:
    """Build a factor again, of whatever width was written."""
    if len(record.R.shape) != 2:
        raise IdentificationError("a factor must have rows and columns")
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
        model=equation.options.model,
        window=equation.options.window,
        quadrature=equation.options.quadrature,
        unknown=None if equation.unknown is None else list(equation.unknown),
    )


def rebuild_equation(robot: Robot, e: EquationRecord) -> Equation:
    """Build an equation again."""
    if not e.joints or e.joints != sorted(set(e.joints)) or not set(e.joints) <= set(range(robot.n)):
        raise IdentificationError("equation.joints are not joints of the robot in order")
    equation = Equation.of(
        robot,
        Options(
            model=e.model,
            window=e.window,
            quadrature=e.quadrature,
            unknown=e.unknown or (),
            rotor_inertia=e.rotor_inertia,
            columns=[rebuild_column(column) for column in e.columns],
            joints=[robot.joint_names[j] for j in e.joints],
        ),
        friction=tuple(e.friction),
        scale=finite_numbers(e.scale, robot.n),
        transmission=finite_numbers(e.transmission, robot.n, robot.n),
    )
    if (equation.shapes.scale <= 0.0).any():
        raise IdentificationError("equation.scale must be positive")
    if e.rigid is not None:
        equation = equation.with_rigid(finite_numbers(e.rigid, equation.rigid_count))
    return equation
