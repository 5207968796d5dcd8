"""All that an identification knows of its logs: factors per block, small, mergeable, and writable to a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from dynid.errors import IdentificationError
from dynid.estimation.accumulate.factor import Block, ChannelFactor
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
from dynid.estimation.solve.robust import OutlierModel
from dynid.logs.content import Content
from dynid.logs.cutoff import LoopNoise
from dynid.logs.findings import Findings
from dynid.robot.record import RobotRecord, rebuild_robot, record_robot
from dynid.storage.files import write_text


@dataclass(frozen=True, slots=True)
class Repeat:
    """Samples of a log that are in an earlier one too: by number (before zero: of other data) and by name.

    share: of the blocks that the log had left; gone: whether it has none now.
    """

    log: int
    name: str
    of: int
    other: str
    share: float
    gone: bool

    @property
    def part(self) -> str:
        """What of the log it is."""
        return self.name if self.share == 1.0 else f"{100.0 * self.share:.0f} % of {self.name}"

    def __str__(self) -> str:
        if self.name == self.other:
            return f"{self.part} is given twice: it is used once"
        return f"{self.part} holds the same samples as {self.other}: they are used once"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class State:
    """One equation and the factors that logs left in it, if any were read yet.

    cutoff in Hz (None: nothing was filtered) with its reason; delay of the torques in s; recipe: the gate chooses among
    the friction blocks; settling: factors per log of the rows before a joint's friction had settled, which are no part
    of the blocks; kept: rows for checks of the residual, at most 16 MB of them, spread over the logs (not written to
    files); findings per log; outliers: their model, for estimator "huber" (not written to files either). repeats: what
    logs had in common, used once. motion_noise: noise of derived accelerations as a share of them, in the noisiest log.
    torques: blocks of the joint torques where the equation is about something else and the logs have them. floor:
    factors per log of what noise of the motion alone gives, as large as for all rows; no rows where there is none,
    nothing where it is unknown. loop: noise that the controller fed back, per log (see `loop_noise`; not written to
    files, as `kept`).
    """

    equation: Equation
    cutoff: float | None
    reason: str
    delay: float
    recipe: bool
    blocks: tuple[Block, ...] = ()
    settling: tuple[tuple[ChannelFactor, ...], ...] = ()
    kept: tuple[Rows, ...] = ()
    findings: tuple[Findings, ...] = ()
    outliers: OutlierModel | None = None
    motion_noise: float = 0.0
    repeats: tuple[Repeat, ...] = ()
    torques: tuple[Block, ...] = ()
    floor: tuple[tuple[ChannelFactor, ...], ...] = ()
    loop: tuple[LoopNoise | None, ...] = ()

    def __repr__(self) -> str:
        robot = self.equation.robot.name
        return (
            f"<State of '{robot}' ({self.equation.options.model}): {self.logs} logs, {len(self.blocks)} blocks of time>"
        )

    def of_logs_left(self, items: tuple[LoopNoise | None, ...]) -> tuple[LoopNoise | None, ...]:
        """Of one item per log those of the logs that still have blocks after `without_repeats`."""
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


def without_repeats(state: State, before: Sequence[Findings] = ()) -> State:
    """The same state with each sample once.

    Blocks with samples that an earlier log holds, or one of those `before`, are left out; so is a log without any.
    """
    repeats: list[Repeat] = []
    blocks = list(state.blocks)
    for number, found in enumerate(state.findings):
        for place, other in enumerate((*before, *state.findings[:number]), start=-len(before)):
            own = [block for block in blocks if block.log == number]
            if found.content is None or other.content is None or not own:
                continue
            spans = found.content.shared(other.content)
            again = {id(b) for b in own if any(b.start < stop and b.stop > start for start, stop in spans)}
            if again:
                blocks = [block for block in blocks if id(block) not in again]
                share, gone = len(again) / len(own), len(again) == len(own)
                repeats.append(Repeat(number, found.log, place, other.log, share, gone))
    if not repeats:
        return state
    left = {log: k for k, log in enumerate(sorted({block.log for block in blocks}))}
    return replace(
        state,
        blocks=tuple(replace(block, log=left[block.log]) for block in blocks),
        settling=tuple(state.settling[log] for log in left),
        kept=tuple(replace(rows, log=left[rows.log]) for rows in state.kept if rows.log in left),
        findings=tuple(state.findings[log] for log in left),
        floor=tuple(_shrunk(f, state.blocks, blocks, log) for log, f in enumerate(state.floor) if log in left),
        repeats=tuple(repeats),
    )


def _shrunk(
    factors: tuple[ChannelFactor, ...], before: Sequence[Block], after: Sequence[Block], log: int
) -> tuple[ChannelFactor, ...]:
    """Factors as large as for the share of a log's blocks that is left."""
    share = sum(block.log == log for block in after) / sum(block.log == log for block in before)
    return tuple(replace(factor, R=np.sqrt(share) * factor.R) for factor in factors)


def merge_states(states: list[State]) -> State:
    """One state from several of the same equation: the same result as if one had read all logs."""
    first = states[0]
    for other in states[1:]:
        alike = (other.cutoff, other.delay, other.recipe) == (first.cutoff, first.delay, first.recipe)
        a, b = first.equation.options, other.equation.options
        alike = alike and (a.model, a.window, a.quadrature) == (b.model, b.window, b.quadrature)
        if other.equation.names != first.equation.names or not alike:
            raise IdentificationError("only states of the same robot, columns, cut-off, delay and model can be merged")
        x, y = first.equation.rigid, other.equation.rigid
        if (x is None) != (y is None) or (x is not None and y is not None and not np.array_equal(x, y)):
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
    merged = without_repeats(replace(
        first, blocks=tuple(blocks), settling=settling, kept=tuple(kept), findings=findings, floor=floor, repeats=(),
    ))  # fmt: skip
    earlier = tuple(repeat for state in states for repeat in state.repeats)
    return replace(
        merged, motion_noise=noise, repeats=(*earlier, *merged.repeats),
        torques=tuple(torques) if all(state.torques for state in states) else (),
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
        other = equation.torque_equation() if record.torques else None
        torques: tuple[Block, ...] = ()
        if other is not None:
            torques = tuple(Block(b.log, b.start, b.stop, _factors(other, b.factors)) for b in record.torques)
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
