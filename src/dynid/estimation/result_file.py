"""Results on disk: versioned JSON that gives back exactly what was written; nothing in it is ever executed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from dynid.errors import IdentificationError
from dynid.estimation.diagnostics.residuals import ChannelCheck, Delay
from dynid.estimation.diagnostics.unidentifiable import Unidentifiable
from dynid.estimation.diagnostics.verdict import Verdict
from dynid.estimation.identification import Bounds, Identification, Origin
from dynid.estimation.inference.score import Score
from dynid.estimation.inference.selection import Trial
from dynid.estimation.records import (
    DAMAGE,
    ArrayRecord,
    EquationRecord,
    FactorRecord,
    Record,
    describe_damage,
    finite_numbers,
    read_json,
    read_numbers,
    rebuild_equation,
    rebuild_factor,
    record_array,
    record_equation,
    record_factor,
)
from dynid.estimation.regression.equation import Equation
from dynid.robot.parameter import Parameter, by_name
from dynid.robot.record import FileRecord, RobotRecord, rebuild_files, rebuild_robot, record_files, record_robot
from dynid.storage.files import write_text

FORMAT: Literal["dynid identification"] = "dynid identification"
VERSION: Literal[1] = 1

Number = float | None
"""None stands for NaN and infinity, which JSON does not have; where it matters a word says which."""


class ScoreRecord(Record):
    """Errors per channel."""

    rmse: ArrayRecord
    nrmse: ArrayRecord
    settled: ArrayRecord
    unsettled: float
    cutoff: Number
    source: str
    samples: int
    quiet: list[bool] | None = None


class ParameterRecord(Record):
    """One parameter, for people and other software; the exact numbers are in the arrays."""

    name: str
    unit: str
    value: Number
    sigma: Number
    interval: tuple[Number, Number]


class OriginRecord(Record):
    """Where the result came from; the robot's files are with the robot."""

    command: str = ""
    inputs: list[FileRecord] = Field(default_factory=list)
    versions: list[tuple[str, str]] = Field(default_factory=list)


class IdentificationRecord(Record):
    """A whole result."""

    format: Literal["dynid identification"]
    version: Literal[1]
    dynid: str
    robot: RobotRecord
    equation: EquationRecord
    model: str
    estimator: str
    parameters: list[ParameterRecord]
    values: ArrayRecord
    sigma: ArrayRecord
    white_sigma: ArrayRecord
    covariance: ArrayRecord
    systematic: ArrayRecord | None = None
    quantile: float
    groups: int
    rank: int
    base_rank: int
    condition: Number
    base_condition: Number
    bounds: tuple[Number, Number]
    noise: ArrayRecord
    fit: ScoreRecord
    validation: ScoreRecord
    cutoff: Number
    cutoff_reason: str
    delay: float
    found_delay: tuple[float, float] | None
    friction: list[str]
    trials: list[tuple[str, float, float, bool]]
    essential: list[str]
    essential_values: ArrayRecord
    lost: list[tuple[str, str, str]]
    lost_shares: list[list[tuple[str, float]]] = Field(default_factory=list)
    checks: list[tuple[str, float, float, float]]
    findings: list[tuple[str, list[str]]]
    notes: list[str]
    verdict: tuple[Literal["good", "usable", "do not trust"], list[str], str]
    warnings: list[str]
    factors: list[list[FactorRecord]]
    origin: OriginRecord = OriginRecord()
    torques: ScoreRecord | None = None


def write_identification(result: Identification, path: Path) -> None:
    """Write beside, then rename."""
    data = record_identification(result).model_dump()
    write_text(path, json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_identification(path: Path) -> Identification:
    """Read and check; raise IdentificationError with place and remedy."""
    data = read_json(path, FORMAT, VERSION, "`dynid identify` writes one with --out result.json")
    try:
        return rebuild_identification(IdentificationRecord.model_validate(data))
    except DAMAGE as error:
        raise IdentificationError(f"{path}: {describe_damage(error)}") from error


def record_identification(x: Identification) -> IdentificationRecord:
    """Write a result down."""
    return IdentificationRecord(
        format=FORMAT,
        version=VERSION,
        dynid=x.version,
        robot=record_robot(x.robot),
        equation=record_equation(x.equation),
        model=x.model,
        estimator=x.estimator,
        parameters=[
            ParameterRecord(name=n, unit=u, value=_finite(v), sigma=_finite(s), interval=(_finite(i[0]), _finite(i[1])))
            for n, u, v, s, i in zip(x.names, x.units, x.values, x.sigma, x.intervals, strict=True)
        ],
        values=record_array(x.values),
        sigma=record_array(x.sigma),
        white_sigma=record_array(x.white_sigma),
        covariance=record_array(x.covariance),
        systematic=record_array(x.systematic),
        quantile=x.quantile,
        groups=x.groups,
        rank=x.rank,
        base_rank=x.base_rank,
        condition=_finite(x.condition),
        base_condition=_finite(x.base_condition),
        bounds=(_finite(x.bounds.of_measurement), _finite(x.bounds.per_matrix_error)),
        noise=record_array(x.noise),
        fit=_record_score(x.fit),
        validation=_record_score(x.validation),
        torques=None if x.torques is None else _record_score(x.torques),
        cutoff=x.cutoff,
        cutoff_reason=x.cutoff_reason,
        delay=x.delay,
        found_delay=None if x.found_delay is None else (x.found_delay.seconds, x.found_delay.sigma),
        friction=list(x.friction),
        trials=[(t.block, t.error, t.before, t.admitted) for t in x.trials],
        essential=list(x.essential),
        essential_values=record_array(x.essential_values),
        lost=[(item.name, item.seen, item.remedy) for item in x.unidentifiable],
        lost_shares=[list(item.shares) for item in x.unidentifiable],
        checks=[(c.channel, c.colour, c.velocity, c.position) for c in x.checks],
        findings=[(name, list(sentences)) for name, sentences in x.findings],
        notes=list(x.notes),
        verdict=(x.verdict.level, list(x.verdict.reasons), x.verdict.next_step),
        warnings=list(x.warnings),
        factors=[[record_factor(f) for f in of_log] for of_log in x.factors],
        origin=OriginRecord(
            command=x.origin.command, inputs=record_files(x.origin.inputs), versions=list(x.origin.versions)
        ),
    )


def rebuild_identification(r: IdentificationRecord) -> Identification:
    """Build a result again, checked."""
    equation = rebuild_equation(rebuild_robot(r.robot), r.equation)
    nan, p, c = math.nan, len(r.parameters), len(equation.channels)
    factors = tuple(tuple(rebuild_factor(f) for f in of_log) for of_log in r.factors)
    if any(factor.R.shape[1] != p + 1 for of_log in factors for factor in of_log):
        raise IdentificationError("a factor does not have the columns of the parameters")
    known = by_name(equation.names, len(r.factors))
    _check_names(r, equation, known)
    return Identification(
        equation=equation,
        model=r.model,
        estimator=r.estimator,
        names=tuple(known[p.name] for p in r.parameters),
        units=tuple(p.unit for p in r.parameters),
        values=finite_numbers(r.values, p),
        sigma=read_numbers(r.sigma, p),
        white_sigma=read_numbers(r.white_sigma, p),
        covariance=finite_numbers(r.covariance, p, p),
        systematic=np.zeros((0, p)) if r.systematic is None else finite_numbers(r.systematic, r.systematic.shape[0], p),
        quantile=r.quantile,
        groups=r.groups,
        rank=r.rank,
        base_rank=r.base_rank,
        condition=math.inf if r.condition is None else r.condition,
        base_condition=math.inf if r.base_condition is None else r.base_condition,
        bounds=Bounds(*(nan if b is None else b for b in r.bounds)),
        noise=read_numbers(r.noise, c),
        fit=_rebuild_score(r.fit, c),
        validation=_rebuild_score(r.validation, c),
        torques=None if r.torques is None else _rebuild_score(r.torques, len(equation.joints)),
        cutoff=r.cutoff,
        cutoff_reason=r.cutoff_reason,
        delay=r.delay,
        found_delay=None if r.found_delay is None else Delay(*r.found_delay),
        friction=tuple(r.friction),
        trials=tuple(Trial(*t) for t in r.trials),
        essential=tuple(known[name] for name in r.essential),
        essential_values=read_numbers(r.essential_values, p),
        unidentifiable=_rebuild_lost(r, known),
        checks=tuple(ChannelCheck(*check) for check in r.checks),
        findings=tuple((name, tuple(sentences)) for name, sentences in r.findings),
        notes=tuple(r.notes),
        verdict=Verdict(r.verdict[0], tuple(r.verdict[1]), r.verdict[2]),
        warnings=tuple(r.warnings),
        factors=factors,
        version=r.dynid,
        origin=Origin(r.origin.command, rebuild_files(r.origin.inputs), tuple(r.origin.versions)),
    )


def _rebuild_lost(r: IdentificationRecord, known: Mapping[str, Parameter]) -> tuple[Unidentifiable, ...]:
    """What was lost; files of old do not say which share went where."""
    shares = r.lost_shares or [[] for _ in r.lost]
    if len(shares) != len(r.lost):
        raise IdentificationError("lost_shares must be given for every lost parameter")
    waiting = {item[0]: {name for name, _ in own} for item, own in zip(r.lost, shares, strict=True)}
    while waiting:
        found = [name for name, others in waiting.items() if not others & waiting.keys()]
        if not found:
            raise IdentificationError("lost_shares of lost parameters lead in a circle")
        for name in found:
            del waiting[name]
    foreign = {name for name in (*(item[0] for item in r.lost), *(n for own in shares for n, _ in own))} - known.keys()
    if foreign:
        raise IdentificationError(f"lost parameter '{min(foreign)}' is not one of the equation's")
    return tuple(
        Unidentifiable(known[name], seen, remedy, tuple((known[n], share) for n, share in own))
        for (name, seen, remedy), own in zip(r.lost, shares, strict=True)
    )


def _record_score(x: Score) -> ScoreRecord:
    return ScoreRecord(
        rmse=record_array(x.rmse), nrmse=record_array(x.nrmse), settled=record_array(x.settled), unsettled=x.unsettled,
        cutoff=x.cutoff, source=x.source, samples=x.samples,
        quiet=None if x.quiet is None else [bool(q) for q in x.quiet],
    )  # fmt: skip


def _rebuild_score(r: ScoreRecord, c: int) -> Score:
    rmse, nrmse, settled = read_numbers(r.rmse, c), read_numbers(r.nrmse, c), read_numbers(r.settled, c)
    if r.quiet is not None and len(r.quiet) != c:
        raise IdentificationError("a score does not speak of every channel")
    quiet = None if r.quiet is None else np.array(r.quiet, dtype=np.bool_)
    return Score(rmse, nrmse, settled, r.unsettled, r.cutoff, r.source, r.samples, quiet)


def _check_names(r: IdentificationRecord, equation: Equation, known: Mapping[str, Parameter]) -> None:
    """What is stated of parameters and channels must be about those of the equation."""
    names = [p.name for p in r.parameters]
    foreign = [name for name in names if name not in known]
    if foreign or len(set(names)) < len(names):
        raise IdentificationError(f"parameter '{(foreign or names)[0]}' is not one of the equation's, or named twice")
    if not set(r.essential) <= set(names):
        raise IdentificationError("essential parameters are not among the parameters")
    if r.model != equation.measure.model:
        raise IdentificationError(f"model '{r.model}' is not the equation's '{equation.measure.model}'")
    if not r.factors or any(len(of_log) != len(equation.channels) for of_log in r.factors):
        raise IdentificationError("factors must be given for every log and channel")


def _finite(x: Any) -> float | None:
    number = float(x)
    return number if math.isfinite(number) else None
