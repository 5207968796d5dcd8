"""From a log to rows of the equation: prepared motion, friction states, parallel filter, decimation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dynid.data.findings import Findings
from dynid.data.log import Log
from dynid.data.survey import Survey
from dynid.data.treatment import Prepared, Treatment, decimated, kept_indices, prepare
from dynid.data.windows import Splitting, Window, windows
from dynid.estimation.balances import write_measured
from dynid.estimation.equation import Equation
from dynid.robot.transform import Array

LEAD = 0.5
"""Seconds by which a motion is continued backwards to settle the friction states."""

TRAVEL = 2e-3
"""Travel (rad) after which a joint's dry friction does not remember what was before the recording."""

STILL = 1e-3
"""Velocity (rad/s) below which a joint stands still."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Filtered, decimated rows of a log: t (K,), q, v (K, n), wide (K, width), settled (K, n).

    settled: the joint has travelled far enough since the segment began.
    """

    log: int
    segment: int
    t: Array
    q: Array
    v: Array
    wide: Array
    settled: NDArray[np.bool_]


def rows_of(
    equation: Equation, number: int, log: Log, seen: Survey, treatment: Treatment, found: Findings
) -> Iterator[Rows]:
    """Yield the rows of a log in order of time; where nothing is filtered they are valid until the next ones."""
    gap = max(5.0 / treatment.rate, 0.025)
    treatment = replace(treatment, stride=equation.measure.stride(treatment))
    half, beyond = equation.measure.half(treatment), equation.measure.context(treatment)
    context = treatment.context + beyond
    context += treatment.thinning * ("lag" in equation.friction)  # it looks one sample further
    regular, shortest = treatment.cutoff is not None, treatment.shortest + 2 * beyond
    cut = Splitting(context, gap, shortest, regular, treatment.thinning)
    begin, end = log.interval
    guard = (1.0 / treatment.cutoff if treatment.cutoff is not None else 0.0) + half / treatment.thin_rate
    standing, posture = seen.standing(equation.shapes.scale), seen.samples.q.mean(axis=0)
    friction: _FrictionState | None = None
    memory = np.empty((0, equation.width))
    for window in windows(log, seen, cut, found):
        assert window.samples.tau is not None
        prepared = held(prepare(window, treatment, window.samples.tau), standing, posture)
        if friction is None or window.starts:
            friction = _FrictionState(equation, prepared, treatment.thin_rate)
        stops = friction.run(prepared)
        core = _core(window, treatment, half)
        wanted = kept_indices(core, treatment)
        if not len(wanted):
            continue
        places = wanted - prepared.first
        t = prepared.motion.t[places]
        inside = (t >= begin + guard) & (t < end - guard)
        if not inside.any():
            continue
        if len(memory) < len(prepared.motion):
            memory = np.empty((len(prepared.motion), equation.width))
        first, wide = write_measured(equation, prepared, stops, treatment, memory[: len(prepared.motion)])
        rows = decimated(wide, first, core, (window.starts, window.ends), treatment)
        q, v = prepared.motion.q[places], prepared.motion.v[places]
        settled = wanted[:, None] - half > friction.reached
        step = treatment.decimation / treatment.thin_rate
        found.see(q[inside], float(inside.sum()) * step)
        still = (np.abs(v) < STILL * equation.shapes.scale).all(axis=1) & inside
        found.standstill += float(still.sum()) * step
        if inside.all():
            yield Rows(number, window.segment, t, q, v, rows, settled)
        else:
            yield Rows(number, window.segment, t[inside], q[inside], v[inside], rows[inside], settled[inside])


def held(prepared: Prepared, standing: NDArray[np.bool_], posture: Array) -> Prepared:
    """Joints that stand still, at their mean: noise of an encoder at rest is no motion."""
    if not standing.any():
        return prepared
    motion = prepared.motion
    q, v, a = motion.q.copy(), motion.v.copy(), motion.a.copy()
    q[:, standing], v[:, standing], a[:, standing] = posture[standing], 0.0, 0.0
    return replace(prepared, motion=replace(motion, q=q, v=v, a=a))


def _core(window: Window, treatment: Treatment, half: int) -> tuple[int, int]:
    """Thinned indices in the segment for which rows are wanted, without the filter's edges and half a balance's."""
    step = treatment.thinning
    trim = treatment.trim + half * step
    start, stop = window.first + window.core.start, window.first + window.core.stop
    if window.starts:
        start = max(start, trim)
    if window.ends:
        stop = min(stop, window.first + len(window.samples) - trim)
    first = -(-start // step)
    return first, max(first, -(-stop // step))


class _FrictionState:
    """Stop operators of one segment, carried from window to window."""

    def __init__(self, equation: Equation, prepared: Prepared, rate: float) -> None:
        self.equation = equation
        q = equation.motor(prepared.motion.q)
        self.state = equation.shapes.settle(q, int(LEAD * rate))
        self.first = prepared.first
        self.stops: Array | None = None
        self.last = q[-1:]
        self.origin = prepared.motion.q[0].copy()
        self.reached = np.full(q.shape[1], np.iinfo(np.int64).max)

    def run(self, prepared: Prepared) -> Array:
        """Values along the next window, which may overlap the one before."""
        q = self.equation.motor(prepared.motion.q)
        done = prepared.first - self.first
        if self.stops is None:
            self.stops = self.equation.shapes.run(q, self.state)
        elif done < len(self.stops):
            self.stops = self.equation.shapes.run(q, self.stops[done])
        else:
            self.stops = self.equation.shapes.run(np.concatenate([self.last, q]), self.stops[-1])[1:]
        self.first, self.last = prepared.first, q[-1:].copy()
        far = np.abs(prepared.motion.q - self.origin) > TRAVEL * self.equation.shapes.scale
        some = far.any(axis=0) & (self.reached == np.iinfo(np.int64).max)
        self.reached[some] = prepared.first + far.argmax(axis=0)[some]
        return self.stops
