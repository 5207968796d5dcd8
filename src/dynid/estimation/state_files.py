"""States on disk: versioned JSON with exact factors."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from dynid.data.content import Content
from dynid.data.findings import Findings
from dynid.errors import IdentificationError
from dynid.estimation.equation import Equation
from dynid.estimation.factor import ChannelFactor
from dynid.estimation.gathering import Block, Repeat
from dynid.estimation.records import (
    DAMAGE,
    ArrayRecord,
    EquationRecord,
    FactorRecord,
    Record,
    describe_damage,
    finite_numbers,
    read_json,
    rebuild_equation,
    rebuild_factor,
    record_array,
    record_equation,
    record_factor,
)
from dynid.estimation.state import State
from dynid.estimation.torque_check import torque_equation
from dynid.robot.files import write_text
from dynid.robot.record import RobotRecord, rebuild_robot, record_robot

FORMAT: Literal["dynid state"] = "dynid state"
VERSION: Literal[1] = 1


class BlockRecord(Record):
    """A stretch of one log."""

    log: Annotated[int, Field(ge=0)]
    start: float
    stop: float
    factors: list[FactorRecord]


class FindingsRecord(Record):
    """What was found in one log, as sentences."""

    log: str
    rate: float
    samples: int
    sentences: list[str]
    lowest: list[float]
    highest: list[float]
    mean: list[float]
    content: ArrayRecord | None = None


class RepeatRecord(Record):
    """Samples that two logs had in common."""

    log: int
    name: str
    of: int
    other: str
    share: float
    gone: bool


class StateRecord(Record):
    """A whole state."""

    format: Literal["dynid state"]
    version: Literal[1]
    robot: RobotRecord
    equation: EquationRecord
    cutoff: float | None
    reason: str
    motion_noise: float = 0.0
    delay: float
    recipe: bool
    blocks: list[BlockRecord]
    settling: list[list[FactorRecord]]
    floor: list[list[FactorRecord]] = Field(default_factory=list)
    findings: list[FindingsRecord]
    repeats: list[RepeatRecord] = Field(default_factory=list)
    torques: list[BlockRecord] = Field(default_factory=list)


def write_state(state: State, path: Path) -> None:
    """Write beside, then rename."""
    record = StateRecord(
        format=FORMAT,
        version=VERSION,
        robot=record_robot(state.equation.robot),
        equation=record_equation(state.equation),
        cutoff=state.cutoff,
        reason=state.reason,
        motion_noise=state.motion_noise,
        delay=state.delay,
        recipe=state.recipe,
        blocks=_record_blocks(state.blocks),
        torques=_record_blocks(state.torques),
        settling=[[record_factor(f) for f in of_log] for of_log in state.settling],
        floor=[[record_factor(f) for f in of_log] for of_log in state.floor],
        findings=[
            FindingsRecord(
                log=f.log,
                rate=f.rate,
                samples=f.samples,
                sentences=list(f.sentences),
                lowest=list(f.lowest),
                highest=list(f.highest),
                mean=list(f.mean),
                content=None if f.content is None else _record_content(f.content),
            )
            for f in state.findings
        ],
        repeats=[RepeatRecord(**asdict(repeat)) for repeat in state.repeats],
    )
    write_text(path, json.dumps(record.model_dump(), ensure_ascii=False, allow_nan=False) + "\n")


def _record_blocks(blocks: tuple[Block, ...]) -> list[BlockRecord]:
    return [
        BlockRecord(log=b.log, start=b.start, stop=b.stop, factors=[record_factor(f) for f in b.factors])
        for b in blocks
    ]


def read_state(path: Path) -> State:
    """Read and check; raise IdentificationError with place and remedy."""
    data = read_json(path, FORMAT, VERSION, "write one with State.save")
    try:
        record = StateRecord.model_validate(data)
        equation = rebuild_equation(rebuild_robot(record.robot), record.equation)
        blocks = tuple(Block(b.log, b.start, b.stop, _factors(equation, b.factors)) for b in record.blocks)
        settling = tuple(_factors(equation, of_log) for of_log in record.settling)
        beside = torque_equation(equation) if record.torques else None
        torques: tuple[Block, ...] = ()
        if beside is not None:
            torques = tuple(Block(b.log, b.start, b.stop, _factors(beside, b.factors)) for b in record.torques)
        floor = tuple(_factors(equation, of_log) for of_log in record.floor)
        alike = len(record.findings) == len(settling) and len(floor) in (0, len(settling))
        if any(block.log >= len(settling) for block in (*blocks, *torques)) or not alike:
            raise IdentificationError("blocks and logs do not belong together")
        contents = [None if f.content is None else _rebuild_content(f.content) for f in record.findings]
    except DAMAGE as error:
        raise IdentificationError(f"{path}: {describe_damage(error)}") from error
    findings = tuple(
        Findings(
            f.log, f.rate, samples=f.samples, notes=list(f.sentences),
            lowest=tuple(f.lowest), highest=tuple(f.highest), mean=tuple(f.mean), content=content,
        )
        for f, content in zip(record.findings, contents, strict=True)
    )  # fmt: skip
    return State(
        equation, record.cutoff, record.reason, record.delay, record.recipe, blocks, settling, (), findings,
        motion_noise=record.motion_noise, repeats=tuple(Repeat(**repeat.model_dump()) for repeat in record.repeats),
        torques=torques, floor=floor,
    )  # fmt: skip


def _record_content(content: Content) -> ArrayRecord:
    """Marks in two halves, which doubles hold exactly, and their times."""
    upper, lower = np.divmod(content.marks, np.uint64(1 << 32))
    return record_array(np.column_stack([upper.astype(np.float64), lower.astype(np.float64), content.times]))


def _rebuild_content(record: ArrayRecord) -> Content:
    rows = finite_numbers(record, record.shape[0], 3)
    if np.any(rows[:, :2] < 0.0) or np.any(rows[:, :2] >= 1 << 32):
        raise IdentificationError("the marks of a log's content are none")
    upper, lower = rows[:, :2].T.astype(np.uint64)
    return Content(upper * np.uint64(1 << 32) + lower, rows[:, 2])


def _factors(equation: Equation, records: list[FactorRecord]) -> tuple[ChannelFactor, ...]:
    factors = tuple(rebuild_factor(record) for record in records)
    widths = [len(channel.columns) + 1 for channel in equation.channels]
    if len(factors) != len(widths) or any(
        f.R.ndim != 2 or f.R.shape[1] != w for f, w in zip(factors, widths, strict=True)
    ):
        raise IdentificationError("factors do not have the equation's columns")
    return factors
