"""The search for points from one random start: a homotopy of smooth problems, each descended by L-BFGS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from dynid.errors import DeadPointError, LoopError
from dynid.excitation.base_rows import BaseRows
from dynid.excitation.effort import Effort
from dynid.excitation.goal import ITERATIONS, Goal, Stage
from dynid.excitation.history import Recorder
from dynid.excitation.points_shape import PointsShape
from dynid.excitation.points_unknowns import Unknowns
from dynid.excitation.quintics import Slopes, find_excess, hermite_values
from dynid.robot.transform import Array

TIME_WEIGHT = 0.15
INSTANTS = 23
ROUNDS = 3
SHRINKINGS = 60
TORQUE_RATE, POSES_RATE = 200.0, 10.0
"""Samples per second at which torques are checked, and poses to shrink about are tried."""
WALL = 1e6
"""What the search sees where a closed loop cannot follow."""
BASIS = hermite_values(np.arange(1.0, INSTANTS + 1.0) / (INSTANTS + 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """The problem that each start solves.

    tight (4, n) shrinks reach, speed, acceleration and torques at the instants tried; effort: None where no torque is
    limited or known.
    """

    rows: BaseRows
    goal: Goal
    unknowns: Unknowns
    tight: Array
    effort: Effort | None = None

    def slope(self, z: Array, stage: Stage, recorder: Recorder | None = None) -> tuple[float, Array]:
        """Value and slope of the smooth problem at a stage; a recorder sees the true figure."""
        shape = self.unknowns.place(z)
        try:
            rows = self.rows.along(shape.exciting_motion())
            over = self._excess(shape)
        except (LoopError, DeadPointError):
            return WALL, np.zeros_like(z)
        value, by_W, figure = self.goal.smooth(rows.matrix(), stage)
        if recorder is not None:
            recorder.see(figure)
        gq, gv, ga = rows.adjoint(by_W)
        if shape.path is None or over is None:
            return value, self.unknowns.pull(z, (gq, gv, ga), gq, gq)
        inner, w = slice(1, -1), stage.penalty
        hurry = TIME_WEIGHT / (self.unknowns.box.segment * len(shape.path.u))
        by = (gq + w * over.by_q[inner], gv + w * over.by_v[inner], ga + w * over.by_a[inner])
        slope = self.unknowns.pull(z, by, w * over.by_q[[0, -1]], w * over.by_u + hurry)
        return value + w * over.value + hurry * shape.path.duration, slope

    def _excess(self, shape: PointsShape) -> Slopes | None:
        """What the path has too much of, torques included; None for points without one."""
        if shape.path is None:
            return None
        box = self.unknowns.box
        reach, speed, acceleration = self.tight[:3] * np.stack([box.reach, box.speed, box.acceleration])
        over = find_excess(shape.path, BASIS, (box.middle, reach, speed, acceleration))
        return over if self.effort is None else over + self.effort.excess(shape.path, self.tight[3])

    def use(self, shape: PointsShape) -> Array:
        """Exact peaks over limits at every instant: reach, speed and acceleration, (3, n)."""
        box, x = self.unknowns.box, shape.extremes()
        reach = np.maximum(x.highest - box.middle, box.middle - x.lowest) / box.reach
        return np.stack([reach, x.speed / box.speed, x.acceleration / box.acceleration])

    def tighten(self, z: Array) -> Search:
        """Ask for as much less as the motion has too much between the instants that are tried."""
        shape = self.unknowns.place(z)
        torque = np.ones(self.tight.shape[1])
        if self.effort is not None:
            torque = np.clip(self.effort.use(shape.motion(TORQUE_RATE)), 1.0, 1.5)
        return replace(self, tight=self.tight / np.vstack([np.maximum(self.use(shape), 1.0), torque]))

    def finish(self, z: Array) -> PointsShape | None:
        """Shrink each joint's motion about its mid-range, or a given rest, until no limit is broken at any instant.

        Position, speed and acceleration of a joint shrink alike, so this always ends in a valid motion; after a
        search that ended near its limits it moves little. None where torque limits stop it however small it is.
        """
        shape, slack = self.unknowns.place(z), 1e-12
        box, rest = self.unknowns.box, self.unknowns.rest
        middle = box.middle if rest is None else rest
        while (use := self.use(shape).max(axis=0)).max() > 1.0:
            x = shape.extremes()
            ways = np.stack([x.highest - middle, middle - x.lowest])
            rooms = np.stack([box.middle + box.reach - middle, middle - box.middle + box.reach])
            use = np.maximum((ways / rooms).max(axis=0), self.use(shape)[1:].max(axis=0))
            shape = shape.shrunk(np.where(use > 1.0, (1.0 - slack) / use, 1.0), middle)
            slack *= 4.0
        return shape if self.effort is None else within_effort(shape, self.effort, rest)

    def sized(self, stage: Stage, z: Array) -> Stage:
        """The stage with the largest entry of W at its start."""
        try:
            W = self.rows.matrix(self.unknowns.place(z).exciting_motion())
        except (LoopError, DeadPointError):
            return stage
        return replace(stage, size=float(np.abs(W).max()))

    def value(self, shape: PointsShape | None) -> float:
        """The true figure; infinite where there is no motion or a closed loop cannot follow."""
        if shape is None:
            return np.inf
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


def within_effort(shape: PointsShape, effort: Effort, rest: Array | None = None) -> PointsShape | None:
    """The shape shrunk until its torques fit, about a given rest, else the pose on its path that is easiest to hold.

    The last resort: a search that ended within its torque limits leaves nothing to shrink.
    """
    q = shape.motion(POSES_RATE).q
    pose = q[np.argmin(effort.holding(q).max(axis=1))] if rest is None else rest

    def shrunk(times: int) -> PointsShape | None:
        """Shrunk so many times by 5 %, where torques fit then."""
        smaller = shape if times == 0 else shape.shrunk(np.full(len(pose), 0.95**times), pose)
        return smaller if effort.use(smaller.motion(TORQUE_RATE)).max() <= 1.0 else None

    if (whole := shrunk(0)) is not None:
        return whole
    too_large, enough = 0, SHRINKINGS
    held = shrunk(enough)
    while held is not None and enough - too_large > 1:
        middle = (too_large + enough) // 2
        if (better := shrunk(middle)) is None:
            too_large = middle
        else:
            held, enough = better, middle
    return held


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


def sharpen(best: Best, time_left: Callable[[], float], recorder: Recorder) -> None:
    """Descend once more from the best start, against limits tightened by what was broken between instants."""
    last = replace(best.search.goal.stages()[-1], iterations=2 * ITERATIONS)
    for _ in range(ROUNDS):
        if time_left() <= 0.0 or best.start is None:
            return
        best.search = best.search.tighten(best.start)
        best.keep(best.search.descend(best.start, last, time_left, best.keep, recorder))
        best.offer()
