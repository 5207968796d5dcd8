"""All that an identification knows of its logs: factors per block, small, mergeable, and writable to a file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from dynid.errors import IdentificationError
from dynid.estimation.accumulate.factor import ChannelFactor
from dynid.estimation.accumulate.one_pass import Block, Gathered, Repeat, without_repeats
from dynid.estimation.diagnostics.torque_check import torque_equation
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
from dynid.estimation.regression.equation import Equation
from dynid.estimation.regression.rows import Rows
from dynid.estimation.solve.robust import Judge
from dynid.logs.content import Content
from dynid.logs.cutoff import UNSURE, LoopNoise
from dynid.logs.findings import Findings
from dynid.robot.record import RobotRecord, rebuild_robot, record_robot
from dynid.storage.files import write_text


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class State:
    """One equation and the factors that logs left in it.

    cutoff in Hz (None: nothing was filtered) with its reason; delay of the torques in s; recipe: the gate chooses among
    the friction blocks; settling: rows before friction settled, per log; kept: some rows for checks of the residual
    (not written to files); findings per log; judge: who looked at the raw torques, for estimator "huber" (not written
    to files either). repeats: what logs had in common, used once. motion_noise: noise of derived accelerations as a
    share of them, in the noisiest log; noise_unsure: of the log that knows its noise least (see `Choice`). torques:
    blocks of the joint torques where the equation is about something else and the logs have them. floor: what noise of
    the motion alone gives (see `Gathered`), nothing where it is unknown.
    loop: noise that the controller fed back, per log (see `loop_noise`; not written to files, as `kept`).
    """

    equation: Equation
    cutoff: float | None
    reason: str
    delay: float
    recipe: bool
    blocks: tuple[Block, ...]
    settling: tuple[tuple[ChannelFactor, ...], ...]
    kept: tuple[Rows, ...]
    findings: tuple[Findings, ...]
    judge: Judge | None = None
    motion_noise: float = 0.0
    repeats: tuple[Repeat, ...] = ()
    torques: tuple[Block, ...] = ()
    floor: tuple[tuple[ChannelFactor, ...], ...] = ()
    loop: tuple[LoopNoise | None, ...] = ()
    noise_unsure: float = UNSURE

    def __repr__(self) -> str:
        robot = self.equation.robot.name
        return (
            f"<State of '{robot}' ({self.equation.measure.model}): {self.logs} logs, {len(self.blocks)} blocks of time>"
        )

    def holding(self, gathered: Gathered) -> State:
        """Return a state of the same equation with what was gathered, each sample once."""
        some, repeats = without_repeats(gathered)
        return replace(
            self,
            blocks=some.blocks,
            settling=some.settling,
            kept=some.kept,
            findings=some.findings,
            repeats=repeats,
            torques=(),
            floor=some.floor,
        )

    def of_logs_left(self, items: tuple[LoopNoise | None, ...]) -> tuple[LoopNoise | None, ...]:
        """Of one item per log those of the logs that still have blocks after `holding`."""
        gone = {repeat.log for repeat in self.repeats if repeat.gone}
        return tuple(item for log, item in enumerate(items) if log not in gone)

    def save(self, path: str | Path) -> None:
        """Write the factors as versioned JSON, to be merged elsewhere with `identify_states`."""
        write_state(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> State:
        """Read what `save` wrote."""
        return read_state(Path(path))

    @property
    def logs(self) -> int:
        """How many logs took part."""
        return len(self.settling)


def merge_states(states: list[State]) -> State:
    """One state from several of the same equation: the same result as if one had read all logs."""
    first = states[0]
    for other in states[1:]:
        alike = (other.cutoff, other.delay, other.recipe) == (first.cutoff, first.delay, first.recipe)
        alike = alike and other.equation.measure == first.equation.measure
        if other.equation.names != first.equation.names or not alike:
            raise IdentificationError("only states of the same robot, columns, cut-off, delay and model can be merged")
        a, b = first.equation.rigid, other.equation.rigid
        if (a is None) != (b is None) or (a is not None and b is not None and not np.array_equal(a, b)):
            raise IdentificationError("states to be merged must share the first estimate behind the load friction")
    blocks: list[Block] = []
    kept: list[Rows] = []
    torques: list[Block] = []
    before = 0
    for state in states:
        torques += [replace(block, log=block.log + before) for block in state.torques]
        blocks += [replace(block, log=block.log + before) for block in state.blocks]
        kept += [replace(rows, log=rows.log + before) for rows in state.kept]
        before += state.logs
    settling = tuple(factors for state in states for factors in state.settling)
    findings = tuple(found for state in states for found in state.findings)
    noise = max(state.motion_noise for state in states)
    floor = tuple(factors for state in states for factors in state.floor)
    loop = tuple(noise for state in states for noise in state.loop)
    floor = floor if len(floor) == before else ()
    merged = first.holding(Gathered(tuple(blocks), settling, tuple(kept), findings, floor))
    earlier = tuple(repeat for state in states for repeat in state.repeats)
    beside = tuple(torques) if all(state.torques for state in states) else ()
    return replace(
        merged, motion_noise=noise, noise_unsure=max(state.noise_unsure for state in states),
        repeats=(*earlier, *merged.repeats), torques=beside,
        loop=merged.of_logs_left(loop) if len(loop) == before else (),
    )  # fmt: skip


# States on disk: versioned JSON with exact factors.


FORMAT: Literal["dynid state"] = "dynid state"
VERSION: Literal[1] = 1


class BlockRecord(Record):
    """A stretch of one log."""

    log: Annotated[int, Field(ge=0)]
    start: float
    stop: float
    factors: list[FactorRecord]
    head: list[FactorRecord] = Field(default_factory=list)
    tail: list[FactorRecord] = Field(default_factory=list)
    noise: list[FactorRecord] = Field(default_factory=list)


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
    noise_unsure: float = UNSURE
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
        noise_unsure=state.noise_unsure,
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
        BlockRecord(
            log=b.log, start=b.start, stop=b.stop, factors=[record_factor(f) for f in b.factors],
            head=[record_factor(f) for f in b.head], tail=[record_factor(f) for f in b.tail],
            noise=[record_factor(f) for f in b.noise],
        )
        for b in blocks
    ]  # fmt: skip


def _rebuild_blocks(equation: Equation, records: list[BlockRecord]) -> tuple[Block, ...]:
    return tuple(
        Block(b.log, b.start, b.stop, _factors(equation, b.factors),
              *(_factors(equation, some) if some else () for some in (b.head, b.tail, b.noise)))
        for b in records
    )  # fmt: skip


def read_state(path: Path) -> State:
    """Read and check; raise IdentificationError with place and remedy."""
    data = read_json(path, FORMAT, VERSION, "write one with State.save")
    try:
        record = StateRecord.model_validate(data)
        equation = rebuild_equation(rebuild_robot(record.robot), record.equation)
        blocks = _rebuild_blocks(equation, record.blocks)
        settling = tuple(_factors(equation, of_log) for of_log in record.settling)
        beside = torque_equation(equation) if record.torques else None
        torques: tuple[Block, ...] = ()
        if beside is not None:
            torques = _rebuild_blocks(beside, record.torques)
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
        torques=torques, floor=floor, noise_unsure=record.noise_unsure,
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
