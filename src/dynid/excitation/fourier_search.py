"""Coefficients of a Fourier series that make a criterion small, from one random start."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import scipy.optimize

from dynid.excitation.clearance import BUFFER, Clearance, Violation
from dynid.excitation.criteria import BaseRows, Criterion, criterion_of_repeated_rows, find_criterion
from dynid.excitation.fourier import Basis, derivative_peaks, series_extremes
from dynid.excitation.shape import Extremes, middle_and_half_range
from dynid.excitation.starts import Candidates, Recorder, run_starts
from dynid.excitation.torque_limits import Effort
from dynid.robot.motion import Motion
from dynid.robot.robot import Limits
from dynid.robot.transform import Array

if TYPE_CHECKING:
    from dynid.excitation.information import Information

# A smooth map from all coefficients to those that respect the limits at every checked instant.
#
# Limits are linear in a joint's coefficients and symmetric about its mid-range, so dividing them by the largest use of
# a limit makes them valid. The maximum is taken as a p-norm, which is never smaller: y = x / (1 + |use(x)|_p^p)^(1/p).


@dataclass(frozen=True, slots=True, eq=False)
class BoundedCoefficients:
    """The map for n joints; use[j] (instants of all limits, 2 H + 1) gives peak over limit of joint j."""

    use: Array

    @staticmethod
    def from_limits(basis: Basis, limits: Limits) -> BoundedCoefficients:
        """Collect the limits of all joints at the instants of a basis; unlimited ones weigh nothing."""
        _, half = middle_and_half_range(limits)
        parts = [
            basis.q[None] / half[:, None, None],
            basis.v[None] / limits.velocity[:, None, None],
            basis.a[None] / limits.acceleration[:, None, None],
        ]
        if np.isfinite(limits.jerk).any():
            parts.append(basis.jerk[None] / limits.jerk[:, None, None])
        return BoundedCoefficients(np.concatenate(parts, axis=1))

    def to_valid_coefficients(self, x: Array, p: float) -> tuple[Array, Callable[[Array], Array]]:
        """Valid coefficients y (n, 2 H + 1), and the map from a gradient by them to that by x."""
        divisor, slope = self._divisor(x, p)

        def pull_back(by_y: Array) -> Array:
            """Gradient by the free coefficients x from that by the valid ones y."""
            along = (by_y * x).sum(axis=1) / divisor**2
            return np.asarray(by_y / divisor[:, None] - along[:, None] * slope)

        return x / divisor[:, None], pull_back

    def _divisor(self, x: Array, p: float) -> tuple[Array, Array]:
        """(1 + sum |use|^p)^(1/p) and its gradient by x, without overflow."""
        u = np.matmul(self.use, x[:, :, None])[:, :, 0]
        size = np.abs(u)
        top = np.maximum(size.max(axis=1), 1.0)
        parts = (size / top[:, None]) ** p
        total = top**-p + parts.sum(axis=1)
        divisor = top * total ** (1.0 / p)
        weight = parts / np.maximum(size, 1e-300) * np.sign(u) / total[:, None]
        return divisor, np.matmul(weight[:, None], self.use)[:, 0] * divisor[:, None]


Stages: TypeAlias = tuple[tuple[float, float, int], ...]

STAGES: Stages = ((4.0, 20.0, 60), (8.0, 40.0, 80), (16.0, 80.0, 80), (40.0, 200.0, 120), (80.0, 600.0, 120))
"""Sharpness of the criterion, sharpness of the limits, iterations: the stand-ins approach the true figures."""
LAST_STAGES = ((200.0, 2000.0, 120), (600.0, 6000.0, 60))
GIVEN, REFINED = 2, 2
"""First stage of starts that are not random; how many of the best starts the last stages follow for."""
ROUNDS = ((1, 2, 0.4), (2, 8, 0.26), (len(STAGES), 0, 0.34))
"""Rounds of a search: up to which stage, of how many starts one goes on, share of the time. How good a start ends shows
after its first stages: of 15 for a Panda the two best after the second were the two best at the end."""
FINISHED = 3
"""So many starts go on at least; searches with no more than these are not divided."""

SAMPLES = 100
"""Samples of a period while searching; the true figures are taken over twice as many."""
INSTANTS = 40
"""Instants per harmonic at which the limits are smoothed; the exact peaks are settled afterwards."""

ROUNDED = 0.05
"""Share of a joint's fastest swing over which sign(v) is rounded while searching: a jump stops a line search."""


class _OutOfTimeError(Exception):
    """The time budget is used up; the search stops where it is."""


@dataclass(frozen=True, slots=True, eq=False)
class FourierProblem:
    """What is to be minimised: base rows of a model over one period, inside the limits; target: of criterion v.

    information: what is known before, to which the rows add; criterion `target` is that of its targeted parameters.
    begin: coefficients (n, 2 H + 1) counted from mid-range, from which the starts -1, -2, ... go on.
    """

    rows: BaseRows
    criterion: str
    weights: tuple[float, ...]
    noise: Array | None
    limits: Limits
    effort: Effort | None
    period: float
    harmonics: int
    target: Array | None = None
    information: Information | None = None
    clearance: Clearance | None = None
    begin: tuple[Array, ...] = ()

    @property
    def mid_range(self) -> Array:
        """Middle of each joint's range, 0 where it has none, (n,)."""
        return middle_and_half_range(self.limits)[0]

    def criterion_for(self, rows: int) -> Criterion:
        """Return the criterion for a matrix of so many rows."""
        if self.information is not None:
            return self.information.criterion(rows, self.criterion, self.target)
        noise = None if self.noise is None else np.tile(self.noise, rows // self.rows.rows_per_sample)
        return find_criterion(
            self.criterion, weights=self.weights, mask=self.rows.nonzero_entries(rows), noise=noise, target=self.target
        )

    def motion_of_coefficients(self, y: Array, basis: Basis, t: Array) -> Motion:
        """Motion of coefficients y at instants t, positions counted from mid-range."""
        return Motion(t, basis.q @ y.T + self.mid_range, basis.v @ y.T, basis.a @ y.T)

    def sample_instants(self, count: int) -> tuple[Array, Basis]:
        """Equidistant instants of a period, and the basis there."""
        t = np.arange(count, dtype=np.float64) * (self.period / count)
        return t, Basis.at_instants(t, self.period, self.harmonics)

    def criterion_value(self, y: Array) -> float:
        """True criterion of the motion of coefficients y."""
        t, basis = self.sample_instants(2 * SAMPLES)
        W = self.rows.matrix(self.motion_of_coefficients(y, basis, t))
        return self.criterion_for(len(W)).value(W)

    def use_of_limits(self, y: Array) -> Array:
        """Exact peak over limit of each joint over all time, (n,)."""
        q_peak = np.abs(series_extremes(y, self.period)).max(axis=0)
        v_peak, a_peak, j_peak = derivative_peaks(y, self.period)
        use = np.maximum(q_peak / middle_and_half_range(self.limits)[1], v_peak / self.limits.velocity)
        use = np.maximum(use, a_peak / self.limits.acceleration)
        return np.asarray(np.maximum(use, j_peak / self.limits.jerk))


@dataclass(frozen=True, slots=True, eq=False)
class FoundSeries:
    """Valid coefficients y (n, 2 H + 1), positions counted from mid-range, and how the search came to them.

    x: the free coefficients behind them, before any shrinking; dropped: others were better after its first stages.
    """

    seed: int
    y: Array
    recorder: Recorder
    x: Array
    dropped: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class SearchRound:
    """Stages through which starts go; known: what earlier rounds found, by seed, from which they go on."""

    problem: FourierProblem
    stages: Stages = STAGES
    known: Mapping[int, FoundSeries] = field(default_factory=dict)


def search_series_from_start(part: SearchRound, seed: int, time_left: Callable[[], float]) -> tuple[float, FoundSeries]:
    """Search coefficients from one start, random where its seed is not negative, else from what the problem holds.

    Return the true criterion, infinite where torque limits stop it.
    """
    problem, known = part.problem, part.known.get(seed)
    if known is not None:
        known.recorder.resume_clock()
        return _search_series(problem, seed, known.x, part.stages, known.recorder, time_left)
    if seed < 0:
        return _search_series(problem, seed, problem.begin[-1 - seed], STAGES[GIVEN:], Recorder(), time_left)
    x = random_coefficients(problem, seed)
    if problem.clearance is not None:
        x[:, 0] = problem.clearance.free_posture(problem.limits, seed, problem.effort) - problem.mid_range
    return _search_series(problem, seed, x, part.stages, Recorder(), time_left)


def search_series(
    problem: FourierProblem,
    seeds: list[int],
    time_budget: float | None,
    on_progress: Callable[[str, float], None] | None,
) -> Candidates[FoundSeries]:
    """Search from starts in rounds, after each of which the better ones go on; seeds below 0 join in the last.

    Where there is a cell all starts go to their end: what they are worth shows when its limits are kept.
    """
    drawn, given = [seed for seed in seeds if seed >= 0], [seed for seed in seeds if seed < 0]
    rounds = ROUNDS if problem.clearance is None and len(drawn) > FINISHED else ((len(STAGES), 0, 1.0),)
    deadline = time.monotonic() + (np.inf if time_budget is None else time_budget)
    found: dict[int, tuple[float, FoundSeries]] = {}
    going, first, done, stopped = drawn, 0, 0.0, False
    for last, divisor, share in rounds:
        ahead, done = done, done + share

        def report(text: str, part: float, ahead: float = ahead, share: float = share) -> None:
            """Report the progress of a round as that of all."""
            if on_progress is not None:
                on_progress(text, ahead + share * part)

        left = deadline - time.monotonic()
        budget = None if time_budget is None else max(left * share / (1.0 - ahead), 0.0)
        known = {seed: found[seed][1] for seed in going if seed in found}
        round_seeds = going if divisor else [*given, *going]
        part = SearchRound(problem, STAGES[first:last], known)
        began = time.monotonic()
        candidates = run_starts(search_series_from_start, part, round_seeds, budget, report)
        found |= {series.seed: (value, series) for value, series in candidates.found}
        stopped |= candidates.interrupted
        if candidates.interrupted and (budget is None or time.monotonic() < began + budget):
            break  # by the user
        ended = [series.seed for _, series in candidates.found]
        going, first = ended[: max(FINISHED, len(drawn) // divisor)] if divisor else ended, last
    ranked = [(value, replace(one, dropped=one.seed not in going)) for value, one in found.values()]
    return Candidates(tuple(sorted(ranked, key=lambda item: item[0])), stopped)


def refine_best_series(
    problem: FourierProblem, candidates: Candidates[FoundSeries], time_left: Callable[[], float]
) -> Candidates[FoundSeries]:
    """Go on from the best starts with sharper stages; starts that do not gain by it stay as they are."""
    found = list(candidates.found)
    for k, (value, series) in enumerate(found[:REFINED]):
        if not np.isfinite(value) or time_left() <= 0.0:
            break
        series.recorder.resume_clock()
        better, refined = _search_series(problem, series.seed, series.x, LAST_STAGES, series.recorder, time_left)
        if better < value:
            found[k] = better, refined
    return Candidates(tuple(sorted(found, key=lambda item: item[0])), candidates.interrupted)


def _search_series(
    problem: FourierProblem, seed: int, x: Array, stages: Stages, recorder: Recorder, time_left: Callable[[], float]
) -> tuple[float, FoundSeries]:
    """Descend from free coefficients x through stages, and make the end valid."""
    # zero crossings make S depend on the samples themselves: there the search uses those of the report
    t, basis = problem.sample_instants(2 * SAMPLES if "scaling" in problem.criterion else SAMPLES)
    bounded = BoundedCoefficients.from_limits(problem.sample_instants(INSTANTS * problem.harmonics)[1], problem.limits)
    W = problem.rows.matrix(
        problem.motion_of_coefficients(np.zeros((problem.rows.robot.n, 2 * problem.harmonics + 1)), basis, t)
    )
    judge, columns = problem.criterion_for(len(W)), W.shape[1]
    shape = x.shape
    smooth_rows = _differentiable_rows(problem)

    def objective(flat: Array, sharp: float, tight: float) -> tuple[float, Array]:
        """Smooth criterion with the torque penalty, and its gradient by x."""
        if time_left() <= 0.0:
            raise _OutOfTimeError
        x = flat.reshape(shape)
        y, pull_back = bounded.to_valid_coefficients(x, tight)
        motion = problem.motion_of_coefficients(y, basis, t)
        rows = smooth_rows.rows_along(motion)
        value, slope, figure = judge.smooth_value(rows.matrix(), sharp)
        times = 2 * SAMPLES / len(t) if problem.information is None else 1.0  # whose rows stand for the whole motion
        recorder.record_value(criterion_of_repeated_rows(problem.criterion, figure, columns, times))
        gradient = rows.adjoint(slope)
        if problem.effort is not None:
            extra, more = problem.effort.torque_penalty(motion)
            value += 100.0 * extra
            gradient = tuple(g + 100.0 * m for g, m in zip(gradient, more, strict=True))  # type: ignore[assignment]
        by_y = sum(g.T @ B for g, B in zip(gradient, (basis.q, basis.v, basis.a), strict=True))
        if problem.clearance is not None:
            extra, more_y = _cell_penalty(problem, problem.clearance, y, sharp, buffer)
            value, by_y = value + extra, by_y + more_y
        return value, pull_back(np.asarray(by_y)).ravel()

    def keep_iterate(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        """Keep the iterate, so that a search out of time ends there."""
        nonlocal x
        x = np.array(intermediate_result.x).reshape(shape)
        recorder.end_iteration()

    def descend(sharp: float, tight: float, steps: int) -> bool:
        """Go on from the last iterate; whether there was time to end."""
        nonlocal x
        try:
            found = scipy.optimize.minimize(
                objective, x.ravel(), args=(sharp, tight), jac=True, method="L-BFGS-B",
                callback=keep_iterate, options={"maxiter": steps, "maxcor": 20},
            )  # fmt: skip
        except _OutOfTimeError:
            return False
        x = found.x.reshape(shape)
        return True

    tight, buffer = stages[0][1], BUFFER
    for sharp, tight, steps in stages:
        if not descend(sharp, tight, steps):
            break
    for _ in range(0 if problem.clearance is None else TIGHTENINGS):
        if cell_is_kept(problem, scale_to_limits(problem, bounded.to_valid_coefficients(x, tight)[0])[1]):
            break
        buffer += BUFFER
        if not descend(sharp, tight, TIGHTENED_STEPS):
            break
    value, y = scale_to_limits(problem, bounded.to_valid_coefficients(x, tight)[0])
    if problem.clearance is not None:
        value, y = _shrink_to_cell(problem, problem.clearance, value, y)
    elif problem.effort is not None:
        value, y = _shrink_to_effort(problem, problem.effort, value, y)
    recorder.pause_clock()
    return value, FoundSeries(seed, y, recorder, x)


def _differentiable_rows(problem: FourierProblem) -> BaseRows:
    """Rows in which sign(v) is rounded so that gradients exist; unchanged for criteria of the scaling."""
    if "scaling" in problem.criterion:
        return problem.rows
    w, limits = 2.0 * np.pi / problem.period, problem.limits
    fastest = np.minimum(np.minimum(limits.velocity, limits.acceleration / w), limits.jerk / w**2)
    return problem.rows.with_rounded_signs(ROUNDED * fastest)


def torque_check_rate(problem: FourierProblem) -> float:
    """Samples per second at which torques are checked."""
    return max(200.0, 100.0 * problem.harmonics / problem.period)


def _shrink_to_effort(problem: FourierProblem, effort: Effort, value: float, y: Array) -> tuple[float, Array]:
    """Shrink y by the largest factor of 1, 0.95, 0.95^2, ... by which the periodic motion keeps the torque limits."""
    t, basis = problem.sample_instants(round(torque_check_rate(problem) * problem.period))
    if effort.use_of_limits(problem.motion_of_coefficients(y, basis, t)).max() <= 1.0:
        return value, y
    scale = 0.95
    while scale > 0.02:
        if effort.use_of_limits(problem.motion_of_coefficients(scale * y, basis, t)).max() <= 1.0:
            return problem.criterion_value(scale * y), scale * y
        scale *= 0.95
    return np.inf, y


# Clearance and the speed of the tool: a penalty at samples while searching, and a proof at the end.


TIGHTENINGS, TIGHTENED_STEPS = 3, 40
"""How often a search goes on with more clearance where the proof failed, and its iterations."""
SCALES = (0.98, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02)
"""Factors by which a motion that is not proven is shrunk."""


def _cell_penalty(
    problem: FourierProblem, clearance: Clearance, y: Array, sharp: float, buffer: float
) -> tuple[float, Array]:
    """Penalty of missing clearance, and its gradient by y; at more instants towards the end of a search."""
    t, basis = problem.sample_instants(SAMPLES if sharp < STAGES[-1][0] else 2 * SAMPLES)
    extra, slopes = clearance.penalty(problem.motion_of_coefficients(y, basis, t), buffer)
    by_y = sum(g.T @ B for g, B in zip(slopes, (basis.q, basis.v, basis.a), strict=True))
    return 100.0 * extra, 100.0 * np.asarray(by_y)


def violation_of_series(problem: FourierProblem, clearance: Clearance, y: Array) -> Violation | None:
    """What a series violates in the cell at any instant, if anything."""

    def sample(t: Array) -> Motion:
        """Motion at instants."""
        return problem.motion_of_coefficients(y, Basis.at_instants(t, problem.period, problem.harmonics), t)

    lowest, highest = series_extremes(y, problem.period)
    extremes = Extremes(lowest + problem.mid_range, highest + problem.mid_range, *derivative_peaks(y, problem.period))
    return clearance.first_violation(sample, problem.period, extremes)


def _shrink_to_cell(problem: FourierProblem, clearance: Clearance, value: float, y: Array) -> tuple[float, Array]:
    """Shrink y until it keeps its clearance and torques, by the largest of some factors about one of some postures.

    These are the freest on its way, the mean one, and a free one from elsewhere.
    """
    if cell_is_kept(problem, y) and _torques_fit(problem, y):
        return value, y
    t, basis = problem.sample_instants(SAMPLES)
    q = problem.motion_of_coefficients(y, basis, t).q
    held = np.zeros(len(q)) if problem.effort is None else problem.effort.holding_torque_shares(q).max(axis=1)
    slack = np.where(held < 1.0, clearance.slack(q)[0], -np.inf)
    refuge = clearance.free_posture(problem.limits, 0, problem.effort) - problem.mid_range
    postures = (q[int(np.argmax(slack))] - problem.mid_range, y[:, 0], refuge)
    for scale in SCALES:
        for about in postures[:2] if scale > SCALES[-1] else postures:
            z = scale * y
            z[:, 0] += (1.0 - scale) * about
            if _torques_fit(problem, z) and cell_is_kept(problem, z):
                return problem.criterion_value(z), z
    return np.inf, y


def cell_is_kept(problem: FourierProblem, y: Array) -> bool:
    """Whether a series is proven to keep its clearance and the speed of the tool."""
    return problem.clearance is None or violation_of_series(problem, problem.clearance, y) is None


def _torques_fit(problem: FourierProblem, y: Array) -> bool:
    """Whether the torques of a periodic motion keep their limits."""
    t, basis = problem.sample_instants(round(torque_check_rate(problem) * problem.period))
    motion = problem.motion_of_coefficients(y, basis, t)
    return problem.effort is None or bool(problem.effort.use_of_limits(motion).max() <= 1.0)


def random_coefficients(problem: FourierProblem, seed: int) -> Array:
    """Random series with falling amplitudes, around a random pose of the inner half of the range."""
    rng = np.random.default_rng(seed)
    H = problem.harmonics
    falling = 1.0 / np.concatenate([[1.0], np.arange(1, H + 1), np.arange(1, H + 1)])
    x = rng.standard_normal((problem.rows.robot.n, 2 * H + 1)) * falling
    half = middle_and_half_range(problem.limits)[1]
    x[:, 0] *= 0.25 * np.where(np.isfinite(half), half, np.pi)
    return np.asarray(x)


def scale_to_limits(problem: FourierProblem, y: Array) -> tuple[float, Array]:
    """Scale coefficients so that peaks meet the limits: down where exceeded, up where that helps; criterion and y."""
    use = problem.use_of_limits(y)
    y = y / np.maximum(use, 1.0)[:, None] * (1.0 - 1e-12)
    value = problem.criterion_value(y)
    full = y / np.maximum(problem.use_of_limits(y), 1e-9)[:, None] * (1.0 - 1e-12)
    better = problem.criterion_value(full)
    return (better, full) if better < value else (value, y)
