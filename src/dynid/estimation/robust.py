"""Logs with outliers and collisions: Huber's weights, found and applied in further streaming passes.

Two kinds of trouble need two places. A single wrong sample of a torque is smeared over a whole stretch of rows by the
low-pass, and with one sample in five wrong no row is left clean. So it is judged before the filter, at the log's own
rate (these passes do not thin): its residual against the fit so far, beside the running median of residuals within
half a period of the cut-off. What a model lacks is slow and stays in the median; beyond 4 robust deviations
(1.4826 times the median of |residual|) a sample is unknown, and the mean residual of the good samples around takes its
place. Where the running median itself is beyond 10 of its deviations, and a quarter of the
usual torque, the robot touches something. A row weighs as much
as the share of good samples around it, and nothing where that is below a half.

What is left are rows that disagree more than others (light or slow contacts): every filtered row of channel c has
Huber's weight min(1, k s_c / |e|), k = 1.345, s_c from the median of |e|. Rows are multiplied by the square root of
both weights. Where nothing is filtered a row is a sample, and weighs nothing beyond 4 deviations.

Hard judgements need a good start: blocks of friction that differ at a few samples only (stops of several widths) take
opposite, large values on bad data, and then the good samples there look wrong. So fits begin with viscous, one dry
block and offset, and take all blocks (the gate's, in the recipe) once the scales stand. Known limits: with the recipe's
many blocks, logs of few samples per period of the cut-off (125 Hz at 10 Hz) or with long contacts can still end badly;
the plain friction model does not.

Fit, scales and weights follow each other until the scales stand twice, for up to 12 passes; memory stays that of one
pass. The factors that remain are those of the weighted rows, so that solution, jackknife and errors are what they are
for estimator="wls". Only the deviations grow: they rest on sum(w W'W), Huber's information on the rows with full weight
alone, so they are multiplied by sum(w) over the sum of w of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.data.cutoff import choose_cutoff
from dynid.data.log import Log
from dynid.data.survey import ROWS, Survey, survey
from dynid.data.treatment import Treatment
from dynid.estimation.collecting import block_length, measured_channels
from dynid.estimation.equation import Equation
from dynid.estimation.gate import DEFAULT, OPTIONAL, choose_blocks
from dynid.estimation.gathering import gather, total_factors
from dynid.estimation.identification import Identification
from dynid.estimation.least_squares import solve
from dynid.estimation.outliers import FLOOR, LIMIT, NORMAL, Cleaned, FullRate, Tally
from dynid.estimation.rows import Rows
from dynid.estimation.state import State
from dynid.estimation.unknowns import Unknowns
from dynid.robot.transform import Array

K = 1.345
"""Huber's constant: 95 % efficient where noise is normal."""

GOOD = 0.5
"""Share of good samples around a row below which it weighs nothing."""

PASSES = 12
STEADY = 0.02
"""Relative change of the scales below which another pass would change nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Weighing:
    """State of the weighted rows, growth of the deviations, and notes on how many rows were weighted down."""

    state: State
    growth: float
    notes: tuple[str, ...]

    def widened(self, result: Identification) -> Identification:
        """Return a result with deviations for Huber's information, and the notes."""
        g = self.growth
        return replace(
            result, sigma=g * result.sigma, white_sigma=g * result.white_sigma, covariance=g**2 * result.covariance,
            notes=(*result.notes, *self.notes),
        )  # fmt: skip


def weigh_down(state: State, logs: Sequence[Log], on_progress: Callable[[str, float], None] | None) -> Weighing:
    """Weigh the rows of logs, of which `state` is what plain least squares saw; reads the logs several times."""
    equation = state.equation
    wanted = measured_channels(equation.measure)
    surveys = tuple(survey(log, equation.robot, measured=wanted, joints=equation.joints) for log in logs)
    treatments = tuple(_treatment(seen, state) for seen in surveys)
    length = block_length(surveys, equation.measure)
    reach = 0 if state.cutoff is None else max(1, int(0.5 * surveys[0].rate / state.cutoff))
    blocks, last = _first_blocks(equation), False
    known, fit = _fit(state, blocks)
    looking = _cleaned(known.equation, fit, np.full((len(fit), 2), np.inf), reach)
    gather(looking, tuple(logs), surveys, treatments, block=length, most=ROWS)
    tallies = looking.tallies
    limits = np.array([tally.limits for tally in tallies])
    steady = 0
    for number in range(PASSES):
        if on_progress is not None:
            on_progress(f"weighing, pass {number + 1}", number / PASSES)
        cleaned = _cleaned(known.equation, fit, limits, reach)
        weights = _Weights(equation, fit, _row_scales(known, fit), cleaned.tallies, single=state.cutoff is None)
        state = known.holding(gather(cleaned, tuple(logs), surveys, treatments, block=length, weigh=weights.apply))
        known, fit = _fit(state, _all_blocks(state) if last else blocks, last=last)
        before, tallies = limits, cleaned.tallies
        limits = np.array([tally.limits for tally in tallies])
        stands = (np.abs(limits - before) <= STEADY * before).all()
        steady = steady + 1 if stands else 0
        if last and steady >= 2:
            break
        if not last and (steady or number >= PASSES // 2):
            last, steady = True, 0
    growth = sum(tally.weight for tally in tallies) / max(sum(tally.full for tally in tallies), 1e-300)
    return Weighing(state, growth, tuple(_note(equation, c, tally) for c, tally in enumerate(tallies)))


def _treatment(seen: Survey, state: State) -> Treatment:
    if state.cutoff is None:
        return Treatment(seen.rate, None, False, state.delay)
    choice = choose_cutoff(seen)
    return FullRate(seen.rate, state.cutoff, not choice.clean, state.delay, choice.motion_cutoff(state.cutoff))


def _first_blocks(equation: Equation) -> tuple[str, ...]:
    """Friction of the first fits: viscous, one dry block, offset, as far as there are columns for them."""
    there = equation.friction
    dry = [b for b in ("coulomb", "tanh", *there) if b in there and (b in ("coulomb", "tanh") or "stop" in b)]
    return tuple(b for b in there if b in ("viscous", "offset") or b in dry[:1])


def _all_blocks(state: State) -> tuple[str, ...]:
    """Friction of the last fits."""
    if not state.recipe:
        return state.equation.friction
    noise = solve(Unknowns.of(state.equation, DEFAULT, state.logs), total_factors(state.blocks)).noise
    return choose_blocks(
        state.equation, state.blocks, noise, logs=state.logs, offsets_per_log=False, optional=OPTIONAL
    )[0]


def _fit(state: State, blocks: tuple[str, ...], *, last: bool = False) -> tuple[State, tuple[Array, ...]]:
    """Values of every channel's columns by weighted least squares.

    The rigid torque behind `load` follows the first fits; with all blocks it would feed back on itself.
    """
    unknowns = Unknowns.of(state.equation, blocks, state.logs)
    values = solve(unknowns, total_factors(state.blocks)).values
    if state.equation.rigid is not None and not last:
        place = unknowns.place[0, : state.equation.rigid_count]
        state = replace(state, equation=state.equation.with_rigid(np.where(place >= 0, values[place], 0.0)))
    return state, tuple(unknowns.of_channel(0, c, values) for c in range(len(unknowns.channels)))


def _cleaned(equation: Equation, fit: tuple[Array, ...], limits: Array, reach: int) -> Cleaned:
    e = equation
    return Cleaned(
        e.robot, e.base, e.shapes, e.extra, e.transmission, e.joints, e.rigid,
        fit=fit, limits=limits, reach=reach, tallies=tuple(Tally() for _ in fit),
    )  # fmt: skip


def _row_scales(state: State, fit: tuple[Array, ...]) -> Array:
    """Robust standard deviation (channels,) of the rows that were kept for checks; weights do not move a median."""
    scales = []
    for c, channel in enumerate(state.equation.channels):
        rows = np.concatenate([channel.row(kept.wide) for kept in state.kept])
        rows = rows[rows.any(axis=1)]  # without those that weigh nothing
        e, torque = rows[:, -1] - rows[:, :-1] @ fit[c], np.abs(rows[:, -1]).max(initial=0.0)
        scales.append(max(NORMAL * float(np.median(np.abs(e))) if len(e) else 0.0, FLOOR * float(torque), 1e-300))
    return np.array(scales)


@dataclass(frozen=True, slots=True, eq=False)
class _Weights:
    """Huber's weights of rows; single: rows are samples, and those beyond the limit weigh nothing."""

    equation: Equation
    fit: tuple[Array, ...]
    scales: Array
    tallies: tuple[Tally, ...]
    single: bool

    def apply(self, rows: Rows) -> Rows:
        """Multiply rows by the square roots of their weights."""
        wide = rows.wide.copy()
        for c, channel in enumerate(self.equation.channels):
            own = channel.row(wide)
            u = np.abs(own[:, -1] - own[:, :-1] @ self.fit[c]) / self.scales[c]
            tally = self.tallies[c]
            share = tally.share[np.searchsorted(tally.t, rows.t)]
            weight = K / np.maximum(u, K) * np.where(share < GOOD, 0.0, share)
            if self.single:
                weight[u > LIMIT] = 0.0
                tally.unknown += int((u > LIMIT).sum())
            own *= np.sqrt(weight)[:, None]
            tally.rows += len(own)
            tally.weight += float(weight.sum())
            tally.full += float(weight[u <= K].sum())
            tally.light += int(((u > K) | (weight == 0.0)).sum())
            tally.lightest += int((weight < 0.5).sum())
        return replace(rows, wide=wide)


def _note(equation: Equation, c: int, tally: Tally) -> str:
    joint = equation.robot.joint_names[equation.channels[c].joint]
    unknown = 100.0 * tally.unknown / max(tally.samples, 1)
    return (
        f"joint '{joint}': {tally.light:,} of {tally.rows:,} rows weighted down, {tally.lightest:,} of them to less "
        f"than half; {unknown:.1f} % of the raw torques are outliers"
    )
