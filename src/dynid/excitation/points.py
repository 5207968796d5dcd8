"""Points (q, v) whose energy differences reveal the base parameters, and a motion through them.

Gautier & Khalil 1992: r + 1 points give r rows. Positions and velocities stay inside their limits by a change of
variables (section 4.2); with acceleration limits, segment times, accelerations at the points and two points of rest
become variables too, and fifth-order polynomials (section 5) carry the motion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from dynid.errors import DeadPointError, ExcitationError, LoopError
from dynid.excitation.base_rows import BaseRows
from dynid.excitation.criteria import condition_number
from dynid.excitation.goal import ITERATIONS, Goal, Stage
from dynid.excitation.history import Recorder, SearchHistory
from dynid.excitation.multistart import run_starts
from dynid.excitation.quintics import Quintics, find_excess, hermite_values
from dynid.excitation.shape import Extremes, check_limits
from dynid.excitation.walks import Box, slow_walk
from dynid.robot.limits import Limits
from dynid.robot.motion import Motion
from dynid.robot.transform import Array, freeze

STARTS = 8
WITHOUT_ACCELERATION = ("energy", "momentum")
TIME_WEIGHT = 0.15
SPREAD = 3.0
INSTANTS = 23
ROUNDS = 3
HOPELESS = 1e10
"""A condition number that stands for dependent columns."""
WALL = 1e6
"""What the search sees where a closed loop cannot follow."""
BASIS = hermite_values(np.arange(1.0, INSTANTS + 1.0) / (INSTANTS + 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class PointsShape:
    """The r + 1 points q, v, a (r + 1, n) at times (r + 1,), and the path from rest to rest where there is one.

    Without acceleration limits the times only number the points, and a is zero.
    """

    times: Array
    q: Array
    v: Array
    a: Array
    path: Quintics | None

    @property
    def segments(self) -> Array | None:
        """Durations in s: entry, the r segments between points, exit, (r + 2,); None without a motion."""
        return None if self.path is None else self.path.u

    @property
    def duration(self) -> float:
        """Seconds of motion from rest to rest."""
        return self._path().duration

    def motion(self, rate: float) -> Motion:
        """Samples at a rate in Hz, from rest to rest; the last one is at rest."""
        path = self._path()
        if not (np.isfinite(rate) and rate > 0.0):
            raise ExcitationError(f"the rate must be positive, got {rate:g} Hz")
        t = np.arange(int(np.ceil(path.duration * rate - 1e-9)) + 1, dtype=np.float64) / rate
        inside = path.sample(t[t < path.duration])
        rest = (path.q[-1:], path.v[-1:], path.a[-1:])
        q, v, a = (np.concatenate([x, y]) for x, y in zip((inside.q, inside.v, inside.a), rest, strict=True))
        return Motion(t, q[: len(t)], v[: len(t)], a[: len(t)])

    def exciting_motion(self) -> Motion:
        """The points, over which the condition number is taken; those of rest are left out."""
        return Motion(self.times, self.q, self.v, self.a)

    def extremes(self) -> Extremes:
        """Exact extremes over all time, or of the points alone where there is no motion."""
        if self.path is not None:
            return self.path.extremes()
        none = np.zeros(self.q.shape[1])
        return Extremes(self.q.min(axis=0), self.q.max(axis=0), np.abs(self.v).max(axis=0), none)

    def shrunk(self, factors: Array, middle: Array) -> PointsShape:
        """The same with each joint's motion shrunk by a factor about a position, (n,) each."""
        if self.path is None:
            return PointsShape(self.times, middle + factors * (self.q - middle), factors * self.v, self.a, None)
        path = self.path
        return of_path(Quintics(path.u, middle + factors * (path.q - middle), factors * path.v, factors * path.a))

    def _path(self) -> Quintics:
        if self.path is None:
            raise ExcitationError("a motion through the points needs acceleration limits; give limits['acceleration']")
        return self.path


@dataclass(frozen=True, slots=True, eq=False)
class Unknowns:
    """Free variables z behind the points: every z gives points inside the box (Gautier & Khalil 1992, section 4.2)."""

    box: Box
    points: int

    @property
    def moving(self) -> bool:
        """Whether accelerations, points of rest and segment times are variables too."""
        return self.box.moving

    @property
    def scales(self) -> Array:
        """Half widths of position, velocity and acceleration, (3, 1, n)."""
        a = np.where(np.isfinite(self.box.acceleration), self.box.acceleration, 4.0 * self.box.speed / self.box.segment)
        return np.stack([self.box.reach, self.box.speed, a])[:, None, :]

    def start(self, rng: np.random.Generator) -> Array:
        """A slow walk with random velocities."""
        shape = (self.points, len(self.box.reach))
        x = np.stack([slow_walk(shape, rng), rng.uniform(-1.0, 1.0, shape)])
        z = np.arcsin(0.98 * x).ravel()
        if not self.moving:
            return z
        rest = np.arcsin(0.98 * x[0, [0, -1]]).ravel()
        return np.concatenate([z, np.zeros(x[0].size), rest, np.zeros(self.points + 1)])

    def place(self, z: Array) -> PointsShape:
        """Points, and the path through them where they move."""
        shape = (self.points, len(self.box.reach))
        size = shape[0] * shape[1]
        if not self.moving:
            q, v = self.scales[:2] * np.sin(z.reshape(2, *shape))
            return PointsShape(np.arange(float(self.points)), q + self.box.middle, v, np.zeros(shape), None)
        q, v, a = self.scales * np.sin(z[: 3 * size].reshape(3, *shape))
        rest = self.box.reach * np.sin(z[3 * size : -self.points - 1].reshape(2, -1))
        u = self.box.segment * np.exp(SPREAD * np.tanh(z[-self.points - 1 :] / SPREAD))
        still = np.zeros((1, shape[1]))
        q = np.concatenate([rest[:1], q, rest[1:]]) + self.box.middle
        return of_path(Quintics(u, q, *(np.concatenate([still, x, still]) for x in (v, a))))

    def pull(self, z: Array, by: tuple[Array, Array, Array], by_rest: Array, by_u: Array) -> Array:
        """Slope by z from slopes by q, v, a of the points, by both positions of rest and by the segment times."""
        size = by[0].size
        parts = 3 if self.moving else 2
        x = z[: parts * size].reshape(parts, *by[0].shape)
        slope = (self.scales[:parts] * np.cos(x) * np.stack(by[:parts])).ravel()
        if not self.moving:
            return slope
        rest = by_rest * self.box.reach * np.cos(z[3 * size : -self.points - 1].reshape(2, -1))
        y = np.tanh(z[-self.points - 1 :] / SPREAD)
        u = self.box.segment * np.exp(SPREAD * y)
        return np.concatenate([slope, rest.ravel(), by_u * u * (1.0 - y**2)])


def of_path(path: Quintics) -> PointsShape:
    """The shape of a path: its inner nodes are the points."""
    inner = slice(1, -1)
    return PointsShape(path.times[inner], path.q[inner], path.v[inner], path.a[inner], path)


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """The problem that each start solves; tight (3, n) shrinks reach, speed and acceleration at the instants tried."""

    rows: BaseRows
    goal: Goal
    unknowns: Unknowns
    tight: Array

    def slope(self, z: Array, stage: Stage, recorder: Recorder | None = None) -> tuple[float, Array]:
        """Value and slope of the smooth problem at a stage; a recorder sees the true figure."""
        shape = self.unknowns.place(z)
        motion = shape.exciting_motion()
        try:
            W = self.rows.matrix(motion)
        except (LoopError, DeadPointError):
            return WALL, np.zeros_like(z)
        value, by_W, figure = self.goal.smooth(W, stage)
        if recorder is not None:
            recorder.see(figure)
        gq, gv, ga = self.rows.adjoint(motion, by_W)
        if shape.path is None:
            return value, self.unknowns.pull(z, (gq, gv, ga), gq, gq)
        box = self.unknowns.box
        reach, speed, acceleration = self.tight * np.stack([box.reach, box.speed, box.acceleration])
        over = find_excess(shape.path, BASIS, (box.middle, reach, speed, acceleration))
        inner, w = slice(1, -1), stage.penalty
        hurry = TIME_WEIGHT / (box.segment * len(shape.path.u))
        by = (gq + w * over.by_q[inner], gv + w * over.by_v[inner], ga + w * over.by_a[inner])
        slope = self.unknowns.pull(z, by, w * over.by_q[[0, -1]], w * over.by_u + hurry)
        return value + w * over.value + hurry * shape.path.duration, slope

    def use(self, shape: PointsShape) -> Array:
        """Exact peaks over limits at every instant: reach, speed and acceleration, (3, n)."""
        box, x = self.unknowns.box, shape.extremes()
        reach = np.maximum(x.highest - box.middle, box.middle - x.lowest) / box.reach
        return np.stack([reach, x.speed / box.speed, x.acceleration / box.acceleration])

    def tighten(self, z: Array) -> Search:
        """Ask for as much less as the motion has too much between the instants that are tried."""
        return replace(self, tight=self.tight / np.maximum(self.use(self.unknowns.place(z)), 1.0))

    def finish(self, z: Array) -> PointsShape:
        """Shrink each joint's motion about its mid-range until no limit is broken at any instant.

        Position, speed and acceleration of a joint shrink alike, so this always ends in a valid motion; after a
        search that ended near its limits it moves little.
        """
        shape, slack = self.unknowns.place(z), 1e-12
        while (use := self.use(shape).max(axis=0)).max() > 1.0:
            shape = shape.shrunk(np.where(use > 1.0, (1.0 - slack) / use, 1.0), self.unknowns.box.middle)
            slack *= 4.0
        return shape

    def sized(self, stage: Stage, z: Array) -> Stage:
        """The stage with the largest entry of W at its start."""
        try:
            W = self.rows.matrix(self.unknowns.place(z).exciting_motion())
        except (LoopError, DeadPointError):
            return stage
        return replace(stage, size=float(np.abs(W).max()))

    def value(self, shape: PointsShape) -> float:
        """The true figure; infinite where a closed loop cannot follow."""
        try:
            return self.goal.true.value(self.rows.matrix(shape.exciting_motion()))
        except (LoopError, DeadPointError):
            return np.inf

    def descend(
        self,
        z: Array,
        stage: Stage,
        time_left: Callable[[], float],
        keep: Callable[[Array], None],
        recorder: Recorder,
    ) -> Array:
        """L-BFGS until the stage's iterations or the time are over; `keep` sees each iterate."""

        def note(intermediate_result: OptimizeResult) -> None:
            keep(intermediate_result.x)
            recorder.step()
            if time_left() <= 0.0:
                raise StopIteration

        found = minimize(
            self.slope,
            z,
            (self.sized(stage, z), recorder),
            "L-BFGS-B",
            jac=True,
            callback=note,
            options={"maxiter": stage.iterations, "maxfun": 4 * stage.iterations, "maxcor": 20, "ftol": 1e-9},
        )
        return np.asarray(found.x)


@dataclass(slots=True)
class Best:
    """The best shape so far, and where the search is now."""

    search: Search
    z: Array
    shape: PointsShape | None = None
    start: Array | None = None
    value: float = np.inf

    def keep(self, z: Array) -> None:
        """Remember where the search is."""
        self.z = np.array(z)

    def offer(self) -> None:
        """Take the shape at hand if it is better."""
        shape = self.search.finish(self.z)
        value = self.search.value(shape)
        if self.shape is None or value < self.value:
            self.shape, self.start, self.value = shape, self.z, value


def design_points(
    rows: BaseRows,
    *,
    criterion: str,
    weights: tuple[float, float],
    limits: Limits,
    points: int,
    starts: int = STARTS,
    seed: int = 0,
    noise: float | Array | None = None,
    time_left: Callable[[], float] = lambda: np.inf,
    on_progress: Callable[[str, float], None] | None = None,
    on_history: Callable[[SearchHistory], None] | None = None,
) -> PointsShape:
    """Find `points` + 1 points that make the criterion small, with a motion where accelerations are limited.

    The best of several starts by the true figure; over time, or interrupted, the best so far. `noise` is the
    deviation of the rows: one number, one per channel or one per row. `on_history` is told how the search went.
    """
    box = _check(rows, limits, points, starts)
    count = (points if rows.model == "energy" else points + 1) * rows.channels
    if count < len(rows.names):
        raise ExcitationError(
            f"{points} points give {count} rows, too few for {len(rows.names)} base parameters; ask for more points"
        )
    goal = Goal.of(criterion, weights, rows, count, _per_row(noise, count))
    search = Search(rows, goal, Unknowns(box, points + 1), np.full((3, rows.robot.n), 0.999))
    left = time_left()
    budget = left if np.isfinite(left) else None
    candidates = run_starts(search_start, (search, seed), list(range(starts)), budget, on_progress)
    taken = candidates.found[0][1]
    best = Best(search, taken.z)
    best.offer()
    stopped = candidates.interrupted
    if not stopped:
        taken.recorder.resume()
        try:
            _sharpen(best, time_left, taken.recorder)
        except KeyboardInterrupt:
            best.offer()
            stopped = True
        taken.recorder.pause()
    if best.shape is None or not _reveals(rows, best.shape):
        raise ExcitationError(
            f"no points found that reveal all {len(rows.names)} base parameters; {box.narrowest(rows.robot)}"
        )
    if on_history is not None:
        descents = sorted(
            (found.recorder.descent(found.start, best.value if found is taken else value)
             for value, found in candidates.found if np.isfinite(value)),
            key=lambda descent: descent.start,
        )  # fmt: skip
        on_history(SearchHistory(criterion, tuple(descents), taken.start, starts, stopped))
    return best.shape


def _reveals(rows: BaseRows, shape: PointsShape) -> bool:
    try:
        return condition_number(rows.matrix(shape.exciting_motion())) < HOPELESS
    except (LoopError, DeadPointError):
        return False


@dataclass(frozen=True, slots=True, eq=False)
class FoundPoints:
    """The variables z that a start ended with, and how it came to them."""

    start: int
    z: Array
    recorder: Recorder


def search_start(problem: tuple[Search, int], k: int, time_left: Callable[[], float]) -> tuple[float, FoundPoints]:
    """Run all stages from start k of a seed; return the true figure and what was found."""
    search, seed = problem
    recorder = Recorder()
    best = Best(search, search.unknowns.start(np.random.default_rng(np.random.SeedSequence(seed).spawn(k + 1)[k])))
    for stage in search.goal.stages():
        if time_left() > 0.0:
            best.keep(search.descend(best.z, stage, time_left, best.keep, recorder))
    value = search.value(search.finish(best.z))
    recorder.pause()
    return value, FoundPoints(k, best.z, recorder)


def _sharpen(best: Best, time_left: Callable[[], float], recorder: Recorder) -> None:
    """Descend once more from the best start, against limits tightened by what was broken between instants."""
    last = replace(best.search.goal.stages()[-1], iterations=2 * ITERATIONS)
    for _ in range(ROUNDS):
        if time_left() <= 0.0 or best.start is None:
            return
        best.search = best.search.tighten(best.start)
        best.keep(best.search.descend(best.start, last, time_left, best.keep, recorder))
        best.offer()


def _check(rows: BaseRows, limits: Limits, points: int, starts: int) -> Box:
    """What the points may use; raise ExcitationError where the request makes no sense."""
    if points < 1 or starts < 1:
        raise ExcitationError(f"points and starts must be at least 1, got {points} and {starts}")
    check_limits(limits, rows.robot.joint_names)
    box = Box.of(rows.robot, limits)
    if rows.model not in WITHOUT_ACCELERATION and not box.moving:
        raise ExcitationError(
            f"rows of the {rows.model} model need accelerations, which points have only under acceleration limits; "
            "give limits['acceleration'], or use model 'energy'"
        )
    return box


def _per_row(noise: float | Array | None, count: int) -> Array | None:
    """Deviation of each row."""
    if noise is None:
        return None
    values = np.atleast_1d(np.asarray(noise, dtype=np.float64))
    if values.ndim != 1 or count % len(values) or not (np.isfinite(values) & (values > 0.0)).all():
        raise ExcitationError(f"noise must be positive, one number, one per channel or one per row ({count})")
    return freeze(np.tile(values, count // len(values)))
