"""Logs with outliers and collisions: Huber's weights, found and applied in further streaming passes.

Two kinds of trouble need two places. A single wrong sample of a torque is smeared over a whole stretch of rows by the
low-pass, and with one sample in five wrong no row is left clean. So it is judged before the filter, at the log's own
rate (these passes do not thin): its residual against the fit so far, beyond 4 robust deviations (1.4826 times the
median of |residual| over the samples kept), makes it unknown, and the mean residual of the good samples within half a
period of the cut-off takes its place. A row weighs as much as the share of good samples there, and nothing where that
is below a half: a collision.

What is left are rows that disagree more than others (light or slow contacts): every filtered row of channel c has
Huber's weight min(1, k s_c / |e|), k = 1.345, s_c from the median of |e|. Rows are multiplied by the square root of
both weights. Where nothing is filtered a row is a sample, and weighs nothing beyond 4 deviations.

Fit, scales and weights follow each other until the scales stand twice, for up to 12 passes; memory stays that of one. The
factors that remain are those of the weighted rows, so that solution, jackknife and errors are what they are for
estimator="wls". Only the deviations grow: they rest on sum(w W'W), Huber's information on the rows with full weight
alone, so they are multiplied by sum(w) over the sum of w of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dynid.data.cutoff import choose_cutoff
from dynid.data.log import Log
from dynid.data.survey import ROWS, Survey, survey
from dynid.data.treatment import Treatment
from dynid.estimation.collecting import block_length
from dynid.estimation.equation import Equation
from dynid.estimation.gate import DEFAULT
from dynid.estimation.gathering import gather, total_factors
from dynid.estimation.identification import Identification
from dynid.estimation.least_squares import solve
from dynid.estimation.rows import Rows
from dynid.estimation.state import State
from dynid.estimation.unknowns import Unknowns
from dynid.robot.motion import Motion
from dynid.robot.transform import Array

K = 1.345
"""Huber's constant: 95 % efficient where noise is normal."""

LIMIT = 4.0
"""Robust deviations beyond which a raw sample is unknown."""

NORMAL = 1.4826
"""Standard deviation over median of |e|, where noise is normal."""

GOOD = 0.5
"""Share of good samples around a row below which it weighs nothing."""

PASSES = 12
STEADY = 0.02
"""Relative change of the scales below which another pass would change nothing."""

FLOOR = 1e-9
"""Scales are at least this share of a channel's torque: rounding is no outlier."""

REMEMBERED = 16_000_000
"""Bytes of raw rows from which medians are taken."""


@dataclass(eq=False)
class Sampled:
    """Raw rows spread over the logs, in bounded memory: residuals of any fit can be looked at without another pass."""

    rows: list[Array] = field(default_factory=list)
    every: int = 1

    def add(self, wide: Array) -> None:
        """Remember some rows."""
        self.rows.append(wide[:: self.every].copy())
        if sum(rows.nbytes for rows in self.rows) > REMEMBERED:
            self.rows, self.every = [np.concatenate(self.rows)[::2].copy()], 2 * self.every

    def limits(self, equation: Equation, fit: tuple[Array, ...]) -> Array:
        """Between which residuals (channels, 2) raw samples are good: 4 robust deviations about the median.

        The median counts while outliers of one sign pull at the fit; a second look at the good ones alone takes the
        outliers out of the deviation.
        """
        limits = []
        for c, channel in enumerate(equation.channels):
            own = np.concatenate([channel.row(rows) for rows in self.rows])
            e, floor = own[:, -1] - own[:, :-1] @ fit[c], FLOOR * float(np.abs(own[:, -1]).max()) + 1e-300
            centre, scale = _centre(e, floor)
            inside = e[np.abs(e - centre) <= LIMIT * scale]
            centre, scale = _centre(inside, floor)
            limits.append((centre - LIMIT * scale, centre + LIMIT * scale))
        return np.array(limits)


def _centre(e: Array, floor: float) -> tuple[float, float]:
    """Median and robust standard deviation."""
    centre = float(np.median(e))
    return centre, max(NORMAL * float(np.median(np.abs(e - centre))), floor)


@dataclass(eq=False)
class Tally:
    """What a pass put aside of one channel; weight: sum of all rows' weights, full: of those that Huber leaves alone.

    t, share: instants of the window under way, and the shares of good samples around them.
    """

    samples: int = 0
    unknown: int = 0
    rows: int = 0
    light: int = 0
    lightest: int = 0
    weight: float = 0.0
    full: float = 0.0
    t: Array = field(default_factory=lambda: np.zeros(0))
    share: Array = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, eq=False)
class Cleaned(Equation):
    """The same equation, but torques beyond 4 deviations of a fit are unknown.

    fit: values of every channel's columns; limits (channels, 2): between which raw residuals are good; reach: samples
    on each side from which an unknown one is filled, 0 where nothing is; sampled: raw rows; tallies per channel.
    """

    fit: tuple[Array, ...] = ()
    limits: Array = field(default_factory=lambda: np.zeros((0, 2)))
    reach: int = 0
    sampled: Sampled = field(default_factory=Sampled)
    tallies: tuple[Tally, ...] = ()

    def write(self, motion: Motion, stops: Array, measured: Array | None, *, out: Array | None = None) -> Array:
        """Wide rows, with unknown torques filled in."""
        wide = super().write(motion, stops, measured, out=out)
        self.sampled.add(wide)
        for c, channel in enumerate(self.channels):
            rows = channel.row(wide)
            e = rows[:, -1] - rows[:, :-1] @ self.fit[c]
            good = (e >= self.limits[c, 0]) & (e <= self.limits[c, 1])
            tally = self.tallies[c]
            tally.samples += len(e)
            tally.unknown += len(e) - int(good.sum())
            tally.t, tally.share = motion.t, np.ones(len(e))
            if self.reach and not good.all():
                mean, tally.share = _around(e, good, self.reach)
                rows[~good, -1] += (mean - e)[~good]
        return wide


def _around(e: Array, good: NDArray[np.bool_], reach: int) -> tuple[Array, Array]:
    """Mean of the good residuals around every sample, 0 where there are none, and their share."""
    sums = np.concatenate([[0.0], np.cumsum(np.where(good, e, 0.0))])
    counts = np.concatenate([[0], np.cumsum(good)])
    k = np.arange(len(e))
    start, stop = np.maximum(k - reach, 0), np.minimum(k + reach + 1, len(e))
    some = counts[stop] - counts[start]
    return (sums[stop] - sums[start]) / np.maximum(some, 1), some / (stop - start)


@dataclass(frozen=True)
class FullRate(Treatment):
    """A treatment that writes rows at the log's own rate: there a wrong sample is still one sample."""

    @cached_property
    def thinning(self) -> int:
        """Every sample."""
        return 1


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
    surveys = tuple(survey(log, equation.robot, joints=equation.joints) for log in logs)
    treatments = tuple(_treatment(seen, state) for seen in surveys)
    length = block_length(surveys)
    reach = 0 if state.cutoff is None else max(1, int(0.5 * surveys[0].rate / state.cutoff))
    fit = _fit(state)
    looking = _cleaned(equation, fit, np.array([[-np.inf, np.inf]] * len(fit)), 0)
    gather(looking, tuple(logs), surveys, treatments, block=length, most=ROWS)
    limits, tallies = looking.sampled.limits(equation, fit), looking.tallies
    steady = 0
    for number in range(PASSES):
        if on_progress is not None:
            on_progress(f"weighing, pass {number + 1}", number / PASSES)
        cleaned = _cleaned(equation, fit, limits, reach)
        weights = _Weights(equation, fit, _row_scales(state, fit), cleaned.tallies, single=state.cutoff is None)
        state = state.holding(gather(cleaned, tuple(logs), surveys, treatments, block=length, weigh=weights.apply))
        fit, before, tallies = _fit(state), limits, cleaned.tallies
        limits = cleaned.sampled.limits(equation, fit)
        stands = (np.abs(limits - before) < STEADY * np.ptp(before, axis=1)[:, None]).all()
        steady = steady + 1 if stands else 0
        if steady == 2:
            break
    growth = sum(tally.weight for tally in tallies) / max(sum(tally.full for tally in tallies), 1e-300)
    return Weighing(state, growth, tuple(_note(equation, c, tally) for c, tally in enumerate(tallies)))


def _treatment(seen: Survey, state: State) -> Treatment:
    if state.cutoff is None:
        return Treatment(seen.rate, None, False, state.delay)
    choice = choose_cutoff(seen)
    return FullRate(seen.rate, state.cutoff, not choice.clean, state.delay, choice.motion_cutoff(state.cutoff))


def _fit(state: State) -> tuple[Array, ...]:
    """Values of every channel's columns by weighted least squares."""
    blocks = DEFAULT if state.recipe else state.equation.friction
    unknowns = Unknowns.of(state.equation, blocks, state.logs)
    values = solve(unknowns, total_factors(state.blocks)).values
    return tuple(unknowns.of_channel(0, c, values) for c in range(len(unknowns.channels)))


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
