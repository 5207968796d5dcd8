"""Equations and results in files: flat, the robot beside the equation, parameters once more for people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import numpy as np

from dynid.errors import IdentificationError
from dynid.estimation.diagnostics.unidentifiable import NO_EFFECT, Unidentifiable
from dynid.estimation.options import Options
from dynid.estimation.regression.equation import Equation
from dynid.robot.parameter import Parameter, parameters_by_name
from dynid.robot.robot import StoredColumn, StoredRobot
from dynid.robot.transform import Array, FiniteArray
from dynid.storage.records import Bytes, Data, Null, StoredAs, describe_first_mistake, from_plain_data, to_plain_data

if TYPE_CHECKING:
    from dynid.estimation.identification import Identification
    from dynid.estimation.inference.score import Score


@dataclass(frozen=True, slots=True, eq=False)
class EquationRecord:
    """What an equation is made from."""

    robot: StoredRobot
    rotor_inertia: bool
    friction: tuple[str, ...]
    scale: FiniteArray
    columns: tuple[StoredColumn, ...]
    transmission: FiniteArray
    joints: tuple[int, ...]
    rigid: FiniteArray | None
    model: str = "torque"
    window: float | None = None
    quadrature: str = "smooth"
    unknown: tuple[str, ...] | None = None
    holds: bool = False
    held: float = 0.0
    prefer: tuple[str, ...] | None = None
    spans: tuple[tuple[float, float], ...] = ()


def record_equation(equation: Equation) -> EquationRecord:
    """Convert an equation to its record for a file."""
    return EquationRecord(
        equation.robot, equation.base.question.rotor_inertia, equation.friction, equation.shapes.scale,
        equation.user_columns,
        equation.transmission, equation.joints, equation.rigid, equation.options.model,
        equation.options.window_seconds if equation.options.is_integral else None,
        equation.options.quadrature, equation.unknown, held=equation.shapes.held,
        prefer=None if equation.options.prefer is None else tuple(equation.options.prefer),
        spans=equation.options.spans,
    )  # fmt: skip


def rebuild_equation(e: EquationRecord) -> Equation:
    """Build an equation again from its record."""
    robot, n = e.robot, e.robot.n
    if not e.joints or list(e.joints) != sorted(set(e.joints)) or not set(e.joints) <= set(range(n)):
        raise IdentificationError("record_joints_mismatch", "equation.joints are not joints of the robot in order")
    check_shape("equation.scale", e.scale, n)
    check_shape("equation.transmission", e.transmission, n, n)
    if (e.scale <= 0.0).any():
        raise IdentificationError("record_scale_not_positive", "equation.scale must be positive")
    options = Options(
        model=e.model, window=e.window, quadrature=e.quadrature, unknown=e.unknown or (), rotor_inertia=e.rotor_inertia,
        columns=list(e.columns), joints=[robot.joint_names[j] for j in e.joints], prefer=e.prefer, spans=e.spans,
    )  # fmt: skip
    equation = Equation.for_robot(robot, options, friction=e.friction, scale=e.scale, transmission=e.transmission)
    equation = replace(equation, shapes=replace(equation.shapes, held=e.held or 1e-4 * e.holds))
    if e.rigid is None:
        return equation
    check_shape("equation.rigid", e.rigid, equation.rigid_column_count)
    return equation.with_rigid_estimate(e.rigid)


StoredEquation = Annotated[Equation, StoredAs(EquationRecord, record_equation, rebuild_equation)]


def move_robot_into_equation(data: Data) -> Data:
    """Data of a file, in which the robot stands beside the equation, with the robot in the equation."""
    robot, equation = data.pop("robot", None), data.get("equation")
    if not isinstance(equation, dict) or "robot" in equation:
        raise IdentificationError("record_robot_misplaced", "equation must be an object without its own robot")
    return {**data, "equation": {**equation, "robot": robot}}


def move_robot_beside_equation(data: Data) -> Data:
    """Data of a file with the robot beside the equation; `holds` and `prefer` only where there are some (newer)."""
    del data["equation"]["holds"]
    if not data["equation"]["held"]:
        del data["equation"]["held"]
    if data["equation"]["prefer"] is None:
        del data["equation"]["prefer"]
    return {"robot": data["equation"].pop("robot"), **data}


def check_shape(what: str, array: Array, *shape: int) -> None:
    """Raise IdentificationError for an array of another shape."""
    if array.shape != shape:
        raise IdentificationError(
            "wrong_shape", "{what} has shape {shape}, not {expected_shape}", what=what, shape=array.shape,
            expected_shape=shape,
        )  # fmt: skip


# Results: how their file differs from their parts.


Known = Annotated[float, Null(math.nan)]


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """One parameter, for people and other software; the exact numbers are in the arrays."""

    name: str
    unit: str
    value: Known
    sigma: Known
    interval: tuple[Known, Known]


def identification_to_file_layout(x: Identification, data: Data) -> Data:
    """Data of a result in the layout of its file, from the data of its fields."""
    lost, names, units = data.pop("lost"), data.pop("names"), data.pop("units")
    newer = (
        "joint_verdicts",
        "joint_errors",
        "diagnosis",
        "agreement",
        "band_factor",
        "calibration",
        "log_growth",
        "replay",
        "scores",
    )
    for name in newer:
        if data[name] in (None, {}, [], ()):  # as in files of dynid before there were any
            del data[name]
    rows = zip(names, units, x.values, x.sigma, map(tuple, x.intervals), strict=True)
    parameters = to_plain_data(tuple[ParameterRow, ...], tuple(ParameterRow(*row) for row in rows))
    return {
        "dynid": data.pop("version"), **move_robot_beside_equation(data), "parameters": parameters,
        "lost": [item[:3] for item in lost],
        "lost_shares": [item[3] for item in lost] if all(item[3] is not None for item in lost) else [],
    }  # fmt: skip


def identification_from_file_layout(data: Data) -> Data:
    """Data of the fields from the layout of a result file, of any version."""
    version = data.pop("dynid", None)
    data = split_parameter_rows(move_robot_into_equation(data)) | {"version": version}
    if data.get("systematic") is None:
        data["systematic"] = Bytes.write(np.zeros((0, len(data["names"]))))
    lost, shares = data.get("lost"), data.pop("lost_shares", [])
    if not isinstance(lost, list) or not isinstance(shares, list) or len(shares) not in (0, len(lost)):
        raise IdentificationError(
            "record_lost_shares_missing", "lost_shares must be given for every lost parameter",
        )  # fmt: skip
    unsaid: list[object] = [[] if isinstance(item, list) and item[1:2] == [NO_EFFECT] else None for item in lost]
    return data | {"lost": [[*item, own] for item, own in zip(lost, shares or unsaid, strict=True)]}


def split_parameter_rows(data: Data, kind: type = ParameterRow) -> Data:
    """Data with names and units of parameters taken from the rows that people read."""
    try:
        rows = from_plain_data(tuple[kind, ...], data.pop("parameters", None))  # type: ignore[valid-type]
    except ValueError as error:
        raise IdentificationError(
            "record_parameters_malformed", "{mistake}", mistake=describe_first_mistake(error, "parameters.")
        ) from error
    return {**data, "names": [row.name for row in rows], "units": [row.unit for row in rows]}


def check_identification(x: Identification) -> Identification:
    """Raise where a file's parameters and channels are not the equation's; return it with names as parameters."""
    equation, p, c = x.equation, len(x.names), len(x.equation.channels)
    for name in ("values", "sigma", "white_sigma", "essential_values"):
        check_shape(name, getattr(x, name), p)
    check_shape("covariance", x.covariance, p, p)
    check_shape("systematic", x.systematic, len(x.systematic), p)
    check_shape("noise", x.noise, c)
    if x.band_factor is not None:
        check_shape("band_factor", x.band_factor, c)
    if x.calibration is not None:
        check_shape("calibration.floor", x.calibration.floor, c)
        check_shape("calibration.slow", x.calibration.slow, c)
    if x.log_growth is not None:
        check_shape("log_growth", x.log_growth, p)
    if x.scores is not None:
        check_shape("scores", x.scores, p, p)
    _check_score("fit", x.fit, c)
    _check_score("validation", x.validation, c)
    if x.torques is not None:
        _check_score("torques", x.torques, len(equation.joints))
    if x.replay is not None:
        check_shape("replay", x.replay.table, len(x.replay.table), 2 + 4 * equation.robot.n)
    known = parameters_by_name(equation.names, len(x.factors))
    shares = [name for item in x.unidentifiable for name, _ in item.shares or ()]
    foreign = [name for name in (*x.names, *(item.name for item in x.unidentifiable), *shares) if name not in known]
    if foreign or len(set(x.names)) < p:
        raise IdentificationError(
            "record_parameters_mismatch", "parameter '{foreign}' is not in the equation, or is named twice",
            foreign=(foreign or x.names)[0],
        )  # fmt: skip
    if not set(x.essential) <= set(x.names):
        raise IdentificationError("record_essentials_mismatch", "essential parameters are not among the parameters")
    if x.model != equation.options.model:
        raise IdentificationError(
            "record_model_mismatch", "model '{model}' is not the equation's '{other_model}'", model=x.model,
            other_model=equation.options.model,
        )  # fmt: skip
    if not x.factors or any(len(of_log) != c for of_log in x.factors):
        raise IdentificationError("record_factors_missing", "factors must be given for every log and channel")
    if any(factor.R.shape[1] != p + 1 for of_log in x.factors for factor in of_log):
        raise IdentificationError("record_factor_mismatch", "a factor does not have the columns of the parameters")
    _check_shares(x.unidentifiable)
    found = tuple(
        replace(
            item,
            name=known[item.name],
            shares=None if item.shares is None else _shares_by_parameter(item.shares, known),
        )
        for item in x.unidentifiable
    )
    names, essential = tuple(known[name] for name in x.names), tuple(known[name] for name in x.essential)
    return x.replace(names=names, essential=essential, unidentifiable=found)


def _shares_by_parameter(
    shares: tuple[tuple[str, float], ...], known: Mapping[str, Parameter]
) -> tuple[tuple[Parameter, float], ...]:
    """Shares with parameters in place of their names."""
    return tuple((known[name], share) for name, share in shares)


def _check_score(what: str, score: Score, channels: int) -> None:
    """Raise where the arrays of a score do not have one entry per channel."""
    for name in ("rmse", "nrmse", "settled", *(() if score.quiet is None else ("quiet",))):
        check_shape(f"{what}.{name}", getattr(score, name), channels)


def _check_shares(lost: tuple[Unidentifiable, ...]) -> None:
    """Raise where the shares of an unidentifiable parameter are of others that are unidentifiable."""
    waiting = {item.name: {name for name, _ in item.shares or ()} for item in lost}
    while waiting:
        found = [name for name, others in waiting.items() if not others & waiting.keys()]
        if not found:
            raise IdentificationError("record_lost_shares_cyclic", "lost_shares of lost parameters are circular")
        for name in found:
            del waiting[name]
