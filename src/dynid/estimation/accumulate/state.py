"""All that an identification knows of its logs: factors per block, small, mergeable, and writable to a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np

from dynid.dynamics.friction import HARMONICS
from dynid.errors import IdentificationError
from dynid.estimation.accumulate.factor import Block, ChannelFactor
from dynid.estimation.records import StoredEquation, check_shape, move_robot_beside_equation, move_robot_into_equation
from dynid.estimation.regression.equation import Equation, Indices
from dynid.estimation.regression.rows import Rows
from dynid.estimation.solve.robust import OutlierModel
from dynid.logs.content import Content, find_recordings_alike
from dynid.logs.cutoff import UNSURE, LoopNoise
from dynid.logs.findings import Findings
from dynid.messages import Message
from dynid.robot.transform import Array, FiniteArray
from dynid.storage.files import write_text
from dynid.storage.records import Form, StoredAs, json_text, pick_fields, read_record, to_plain_data


@dataclass(frozen=True, slots=True)
class RepeatedSamples:
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
    def describe_repeated_share(self) -> str:
        """Text with the log's name and the share of it that is repeated."""
        return self.name if self.share == 1.0 else f"{100.0 * self.share:.0f} % of {self.name}"

    @property
    def warning(self) -> Message:
        """Warning that samples of this log are in an earlier one too."""
        facts = {"part": self.describe_repeated_share, "log": self.name, "other": self.other, "share": self.share}
        if self.name == self.other:
            return Message("log_given_twice", "{part} is given twice: it is used once", **facts)
        return Message("logs_share_samples", "{part} holds the same samples as {other}: they are used once", **facts)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class State:
    """Accumulated factors of one or more logs, from which `identify_states` solves.

    Attributes
    ----------
    equation : Equation
        Columns, channels and filter of the identification.
    cutoff : float or None
        Cut-off frequency, Hz; None: nothing was filtered.
    reason : str
        Why this cut-off frequency.
    delay : float
        Delay of the torques, s.
    recipe : bool
        Whether friction blocks are chosen by cross-validation.
    blocks : tuple of Block
        Triangular factors of blocks of time.
    settling : tuple of tuples of ChannelFactor
        Per log, factors of the rows before a joint's friction had settled, which are not part of the blocks.
    kept : tuple of Rows
        Rows for checks of the residual, at most 16 MB, spread over the logs; not written to files.
    findings : tuple of Findings
        What was noticed in each log.
    outliers : OutlierModel or None
        Model of the outliers, for the estimator "huber"; not written to files.
    motion_noise : float
        Noise of derived accelerations relative to their size, in the noisiest log.
    repeats : tuple of RepeatedSamples
        Samples that logs had in common, used once.
    torques : tuple of Block
        Blocks of the joint torques where the equation is about something else and the logs have them.
    floor : tuple of tuples of ChannelFactor
        Per log, factors of what noise of the motion alone gives; without rows where there is none, empty where it is
        unknown.
    loop : tuple of LoopNoise or None
        Per log, noise that the controller fed back; not written to files.
    kept_torques : tuple of Rows
        As `kept`, of the joint torques.
    noise_unsure : float
        Relative uncertainty of the noise, in the log that knows its noise least.
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
    repeats: tuple[RepeatedSamples, ...] = ()
    torques: tuple[Block, ...] = ()
    floor: tuple[tuple[ChannelFactor, ...], ...] = ()
    loop: tuple[LoopNoise | None, ...] = ()
    kept_torques: tuple[Rows, ...] = ()
    noise_unsure: float = UNSURE

    def __repr__(self) -> str:
        robot = self.equation.robot.name
        return (
            f"<State of '{robot}' ({self.equation.options.model}): {self.logs} logs, {len(self.blocks)} blocks of time>"
        )

    def items_of_remaining_logs(self, items: tuple[LoopNoise | None, ...]) -> tuple[LoopNoise | None, ...]:
        """Items of the logs that still have blocks after repeated samples were dropped.

        Parameters
        ----------
        items : tuple
            One item per log.

        Returns
        -------
        tuple
            The items of these logs.
        """
        gone = {repeat.log for repeat in self.repeats if repeat.gone}
        return tuple(item for log, item in enumerate(items) if log not in gone)

    def save(self, path: str | Path) -> None:
        """Write the factors as versioned JSON, to be merged elsewhere with `identify_states`.

        Parameters
        ----------
        path : str or Path
            The file.
        """
        record = StateRecord(**pick_fields(StateRecord, self))
        write_text(Path(path), json_text(to_plain_data(StoredState, record), indent=None))

    @staticmethod
    def load(path: str | Path) -> State:
        """Read a state that `save` wrote.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        State
            The state.

        Raises
        ------
        DynidError
            If the file is not such a state.
        """
        record = read_record(StoredState, Path(path), "write one with State.save", IdentificationError)
        return State(kept=(), **pick_fields(StateRecord, record))

    @property
    def logs(self) -> int:
        """Number of logs that were read."""
        return len(self.settling)

    @property
    def unseen_harmonics(self) -> Indices:
        """Columns of harmonics from the third on of joints that turned by less than a period; none without the gate.

        A joint that moves far admits a block for all. On a short way a high harmonic, beside lower ones, is a
        difference of large numbers: held-out stretches of time do not show it, a motion a little outside does. Power
        and energy, one equation for all joints, do not reveal them at all.
        """
        equation = self.equation
        short = [np.zeros(0, dtype=np.int64)]
        if self.recipe and self.findings:
            low, high = (np.array([getattr(found, end) for found in self.findings]) for end in ("lowest", "highest"))
            turned = np.abs(equation.transmission) @ (high.max(axis=0) - low.min(axis=0)) / equation.shapes.scale
            turned = np.zeros_like(turned) if equation.options.is_scalar else turned
            for name in set(HARMONICS) & set(equation.columns_by_friction_block):
                k = HARMONICS[name]
                short.append(equation.columns_by_friction_block[name][np.tile((k > 2) & (k * turned < 2.0 * np.pi), 2)])
        return np.concatenate(short)


def drop_repeated_samples(state: State, before: Sequence[Findings] = ()) -> State:
    """Return the state without samples that occur in it twice, or in `before` already.

    Blocks with samples that an earlier log holds, or one of those `before`, are left out; so is a log without any.
    """
    repeats: list[RepeatedSamples] = []
    blocks_of_log: dict[int, list[Block]] = {}
    for block in state.blocks:
        blocks_of_log.setdefault(block.log, []).append(block)
    recordings = (*before, *state.findings)
    gone: set[int] = set()
    for here, others in find_recordings_alike([found.content for found in recordings], first=len(before)):
        number, found = here - len(before), recordings[here]
        own = blocks_of_log.get(number, [])
        left_of_log = own
        for other in others:
            if not left_of_log:
                break
            a, b = found.content, recordings[other].content
            assert a is not None
            assert b is not None
            spans = a.shared_intervals(b)
            again = {id(x) for x in left_of_log if any(x.start < stop and x.stop > start for start, stop in spans)}
            if again:
                share, whole = len(again) / len(left_of_log), len(again) == len(left_of_log)
                left_of_log = [block for block in left_of_log if id(block) not in again]
                gone |= again
                place = other - len(before)
                repeats.append(RepeatedSamples(number, found.log, place, recordings[other].log, share, whole))
    if not repeats:
        return state
    blocks = [block for block in state.blocks if id(block) not in gone]
    count = Counter(block.log for block in blocks)
    shares = {log: count[log] / len(own) for log, own in blocks_of_log.items()}
    left = {log: k for k, log in enumerate(sorted(count))}
    return replace(
        state,
        blocks=tuple(replace(block, log=left[block.log]) for block in blocks),
        settling=tuple(state.settling[log] for log in left),
        kept=tuple(replace(rows, log=left[rows.log]) for rows in state.kept if rows.log in left),
        findings=tuple(state.findings[log] for log in left),
        floor=tuple(_scale_factors(f, shares[log]) for log, f in enumerate(state.floor) if log in left),
        repeats=tuple(repeats),
    )


def _scale_factors(factors: tuple[ChannelFactor, ...], share: float) -> tuple[ChannelFactor, ...]:
    """Factors scaled down to the share of a log's blocks that is left."""
    return tuple(replace(factor, R=np.sqrt(share) * factor.R) for factor in factors)


def merge_states(states: list[State]) -> State:
    """Merge states of the same equation: the same result as if one had read all logs."""
    first = states[0]
    for other in states[1:]:
        alike = (other.cutoff, other.delay, other.recipe) == (first.cutoff, first.delay, first.recipe)
        a, b = first.equation.options, other.equation.options
        alike = alike and (a.model, a.window, a.spans, a.quadrature) == (b.model, b.window, b.spans, b.quadrature)
        if other.equation.names != first.equation.names or not alike:
            raise IdentificationError(
                "states_not_mergeable", "only states of the same robot, columns, cut-off, delay and model can be "
                "merged", "collect the others with like=",
            )  # fmt: skip
        x, y = first.equation.rigid, other.equation.rigid
        if (x is None) != (y is None) or (x is not None and y is not None and not np.array_equal(x, y)):
            raise IdentificationError(
                "states_first_estimate_differs", "states to be merged must share the first estimate behind the load "
                "friction", "collect the others with like=",
            )  # fmt: skip
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
    merged = drop_repeated_samples(replace(
        first, blocks=tuple(blocks), settling=settling, kept=tuple(kept), findings=findings, floor=floor, repeats=(),
    ))  # fmt: skip
    earlier = tuple(repeat for state in states for repeat in state.repeats)
    return replace(
        merged, motion_noise=noise, noise_unsure=max(state.noise_unsure for state in states),
        repeats=(*earlier, *merged.repeats), torques=tuple(torques) if all(state.torques for state in states) else (),
        loop=merged.items_of_remaining_logs(loop) if len(loop) == before else (),
    )  # fmt: skip


# States on disk: versioned JSON with exact factors.


@dataclass(frozen=True, slots=True)
class FindingsRecord:
    """What was found in one log, as sentences."""

    log: str
    rate: float
    samples: int
    sentences: tuple[Message, ...]
    lowest: tuple[float, ...]
    highest: tuple[float, ...]
    mean: tuple[float, ...]
    content: StoredContent | None = None


def rebuild_findings(f: FindingsRecord) -> Findings:
    """Findings of a log from its record."""
    return Findings(
        f.log, f.rate, samples=f.samples, notes=list(f.sentences), lowest=f.lowest, highest=f.highest, mean=f.mean,
        content=f.content,
    )  # fmt: skip


def _record_content(content: Content) -> Array:
    """Content of a log as numbers for a file: marks in two halves, which doubles hold exactly, and times."""
    upper, lower = np.divmod(content.marks, np.uint64(1 << 32))
    return np.column_stack([upper.astype(np.float64), lower.astype(np.float64), content.times])


def _rebuild_content(rows: Array) -> Content:
    """Content marks of a log from the rows of its record."""
    check_shape("content", rows, len(rows), 3)
    if np.any(rows[:, :2] < 0.0) or np.any(rows[:, :2] >= 1 << 32):
        raise IdentificationError("record_content_marks_damaged", "the fingerprint of a log's content is damaged")
    upper, lower = rows[:, :2].T.astype(np.uint64)
    return Content(upper * np.uint64(1 << 32) + lower, rows[:, 2])


StoredContent = Annotated[Content, StoredAs(FiniteArray, _record_content, _rebuild_content)]
StoredFindings = Annotated[
    Findings, StoredAs(FindingsRecord, lambda f: FindingsRecord(**pick_fields(FindingsRecord, f)), rebuild_findings)
]


@dataclass(frozen=True, slots=True, eq=False)
class StateRecord:
    """What of a state is written: not the rows for checks, nor what is needed to read the logs once more."""

    equation: StoredEquation
    cutoff: float | None
    reason: str
    delay: float
    recipe: bool
    blocks: tuple[Block, ...]
    settling: tuple[tuple[ChannelFactor, ...], ...]
    findings: tuple[StoredFindings, ...]
    motion_noise: float = 0.0
    repeats: tuple[RepeatedSamples, ...] = ()
    torques: tuple[Block, ...] = ()
    floor: tuple[tuple[ChannelFactor, ...], ...] = ()
    noise_unsure: float = UNSURE

    def check(self) -> None:
        """Raise where blocks and factors are not those of the logs and of the equation."""
        logs = len(self.settling)
        alike = len(self.findings) == logs and len(self.floor) in (0, logs)
        if not alike or any(not 0 <= block.log < logs for block in (*self.blocks, *self.torques)):
            raise IdentificationError("record_blocks_mismatch", "blocks and logs do not belong together")
        for factors in (*self.settling, *self.floor):
            _check_columns(self.equation, factors)
        for block in self.blocks:
            _check_block_columns(self.equation, block)
        beside = self.equation.torque_equation() if self.torques else None
        for block in self.torques:
            if beside is None:
                raise IdentificationError(
                    "model_without_torques", "model '{model}' has no torques beside it",
                    model=self.equation.options.model,
                )  # fmt: skip
            _check_block_columns(beside, block)


StoredState = Annotated[
    StateRecord,
    Form(
        ("dynid state", 1),
        read=move_robot_into_equation,
        write=lambda _, data: move_robot_beside_equation(data),
        check=StateRecord.check,
    ),
]


def _check_block_columns(equation: Equation, block: Block) -> None:
    """Raise where a factor of a block does not have the equation's columns."""
    _check_columns(equation, block.factors)
    for factors in (block.head, block.tail, block.noise, block.unsettled):
        if factors:
            _check_columns(equation, factors)


def _check_columns(equation: Equation, factors: tuple[ChannelFactor, ...]) -> None:
    """Raise where factors do not have the equation's columns, channel by channel."""
    widths = [len(channel.columns) + 1 for channel in equation.channels]
    if [factor.R.shape[1] for factor in factors] != widths:
        raise IdentificationError("record_factor_mismatch", "factors do not have the equation's columns")
