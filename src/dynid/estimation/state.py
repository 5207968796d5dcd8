"""All that an identification knows of its logs: factors per block, small, mergeable, and writable to a file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dynid.data.cutoff import LoopNoise
from dynid.data.findings import Findings
from dynid.errors import IdentificationError
from dynid.estimation.equation import Equation
from dynid.estimation.factor import ChannelFactor
from dynid.estimation.gathering import Block, Gathered, Repeat, without_repeats
from dynid.estimation.robust import Judge
from dynid.estimation.rows import Rows


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class State:
    """One equation and the factors that logs left in it.

    cutoff in Hz (None: nothing was filtered) with its reason; delay of the torques in s; recipe: the gate chooses among
    the friction blocks; settling: rows before friction settled, per log; kept: some rows for checks of the residual
    (not written to files); findings per log; judge: who looked at the raw torques, for estimator "huber" (not written
    to files either). repeats: what logs had in common, used once. motion_noise: noise of derived accelerations as a
    share of them, in the noisiest log. torques: blocks of the joint torques where the equation is about something else
    and the logs have them. floor: what noise of the motion alone gives (see `Gathered`), nothing where it is unknown.
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
        from dynid.estimation.state_files import write_state

        write_state(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> State:
        """Read what `save` wrote."""
        from dynid.estimation.state_files import read_state

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
        merged, motion_noise=noise, repeats=(*earlier, *merged.repeats), torques=beside,
        loop=merged.of_logs_left(loop) if len(loop) == before else (),
    )  # fmt: skip
