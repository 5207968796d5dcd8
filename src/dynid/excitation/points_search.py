"""The search for points from one random start: a homotopy of smooth problems, each descended by L-BFGS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from dynid.errors import DeadPointError, ExcitationError, LoopError
from dynid.excitation.clearance import BUFFER, Clearance, Violation
from dynid.excitation.criteria import BaseRows, Criterion, SmoothValue, condition_number, find_criterion
from dynid.excitation.points import PointLimits, PointsShape, PointVariables
from dynid.excitation.quintics import PathGradient, excess_over_bounds, hermite_values
from dynid.excitation.shape import check_limits
from dynid.excitation.starts import Recorder, SearchHistory, run_starts
from dynid.excitation.torque_limits import CONFINED, Effort
from dynid.messages import Message, Wording
from dynid.robot.robot import Limits
from dynid.robot.transform import Array, freeze

# A criterion on its way from soft to sharp: the homotopy that the search for points follows.


SHARPNESS = (2.0, 8.0, 32.0, 128.0, 512.0)
SOFTNESS = (0.02, 0.01, 0.005, 0.002, 0.001)
PENALTIES = (1.0, 1e4)
ITERATIONS = 320


@dataclass(frozen=True, slots=True)
class HomotopyStage:
    """One step of the homotopy: sharpness of the norms, softness of small entries, weight of broken limits.

    Softness is a part of the largest entry of W at the stage's start, kept as `size`.
    """

    sharpness: float
    softness: float
    penalty: float
    iterations: int = ITERATIONS
    size: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class SmoothedCriterion:
    """A criterion on its way from soft to sharp.

    Entries of W that change sign are walls to the scaling S = max|Wij| / min|Wij|: softened ones,
    sqrt(Wij^2 + e^2), let the points pass before the walls rise.
    """

    true: Criterion
    condition: Criterion
    scaling: Criterion
    weights: tuple[float, ...]

    @staticmethod
    def for_rows(
        name: str,
        weights: tuple[float, ...],
        rows: BaseRows,
        count: int,
        noise: Array | None,
        target: Array | None = None,
    ) -> SmoothedCriterion:
        """Smoothed criterion of this name for a matrix of `count` rows."""
        mask = rows.nonzero_entries(count)
        true, condition, scaling = (
            find_criterion(kind, weights=weights, mask=mask, noise=noise, target=target)
            for kind in (name, "condition", "scaling")
        )
        shares = {"scaling": (0.0, 1.0), "condition+scaling": weights}.get(name, (1.0, 0.0))
        return SmoothedCriterion(true, condition, scaling, shares)

    def stages(self) -> list[HomotopyStage]:
        """Stages of the homotopy, from a first smooth problem to one that is nearly the true figure."""
        soft = [(SHARPNESS[0], np.inf), *((SHARPNESS[0], e) for e in SOFTNESS)] if self.weights[1] > 0.0 else []
        steps = [*soft, *((p, 0.0) for p in SHARPNESS[1 if soft else 0 :])]
        penalties = np.geomspace(*PENALTIES, len(steps))
        return [
            HomotopyStage(p, e, float(w), ITERATIONS // 2 if e else ITERATIONS)
            for (p, e), w in zip(steps, penalties, strict=True)
        ]

    def smooth_value(self, W: Array, stage: HomotopyStage) -> SmoothValue:
        """Value and gradient at a stage; infinite softness stands for the condition number alone."""
        if stage.softness == 0.0:
            return self.true.smooth_value(W, stage.sharpness)
        c = self.condition.smooth_value(W, stage.sharpness)
        power = (*self.weights, 1.0)[2]
        figure = float(np.linalg.norm(np.array(self.weights[:2]) * [c.figure, self.scaling.value(W)], power))
        if not np.isfinite(stage.softness):
            return c._replace(figure=figure)
        softened = np.hypot(W, stage.softness * stage.size)
        s = self.scaling.smooth_value(softened, stage.sharpness)
        with np.errstate(divide="ignore"):
            logs = power * (np.log(self.weights[:2]) + np.array([c.value, s.value]))
        top = logs.max()
        shares = np.exp(logs - top)
        total = shares.sum()
        slope = (shares[0] * c.gradient + shares[1] * s.gradient * (W / softened)) / total
        return SmoothValue(float(top + np.log(total)) / power, slope, figure)


TIME_WEIGHT = 0.15
INSTANTS = 23
ROUNDS = 3
SHRINKINGS = 80
TORQUE_RATE, POSES_RATE = 200.0, 10.0
"""Samples per second at which torques are checked, and poses to shrink about are tried."""
COARSE, FINE, MOST_INSTANTS = 9, 0.25, 32
"""Instants of a segment at which torques are seen; angle (rad) between finer ones, and the most of them."""
RESTORATIONS, RESTORING, NEARLY = 4, 60, 1.01
"""How often, and by how many iterations, a motion is moved into its limits, and the use at which that is enough."""
SLOWER = (1.0, 1.01, 1.03, 1.1, 1.25, 1.5, 2.0)
"""Factors by which a motion is slowed down where torques exceed their limits."""
RESTORING_TIME, RESTORING_SHARE = 2.0, 0.25
"""Seconds, and share of what is left of a time budget, that are kept for that."""
CLOSE = 1.01
"""What making a motion valid may cost at the end of a search."""
CELL_WEIGHT = 0.1
"""Of the penalty of missing clearance beside squared relative excesses over the limits."""
DRAWN_TOGETHER, DRAWN_NEARER = 0.3, (0.15, 0.08, 0.04, 0.02)
"""Share of their distance to a free posture to which points of a start are drawn in a cell; shares that are tried where
torques hold few postures."""
WALL = 1e6
"""What the search sees where a closed loop cannot follow."""
BASIS = hermite_values(np.arange(1.0, INSTANTS + 1.0) / (INSTANTS + 1.0))
JERK_BASIS = hermite_values(np.linspace(0.0, 1.0, INSTANTS), 4)
"""Also both ends of a segment, where jerks jump."""


@dataclass(frozen=True, slots=True, eq=False)
class PointsSearch:
    """The problem that each start solves.

    tight (5, n) shrinks reach, speed, acceleration, jerk and torques at the instants tried; effort: None where no
    torque is limited or known; instants: of each segment at which torques are seen, both ends included; clearance: None
    without a cell, buffer: what is kept beyond it (m).
    """

    rows: BaseRows
    goal: SmoothedCriterion
    unknowns: PointVariables
    tight: Array
    effort: Effort | None = None
    clearance: Clearance | None = None
    buffer: float = BUFFER
    instants: int = COARSE

    def with_fine_instants(self) -> PointsSearch:
        """The search with as many instants at which torques are seen as joints may turn by FINE between two of them."""
        turns = float((self.unknowns.box.speed * self.unknowns.box.usual_segment_time).max())
        return replace(self, instants=int(np.clip(np.ceil(turns / FINE), COARSE, MOST_INSTANTS)) + 1)

    def value_and_gradient(
        self, z: Array, stage: HomotopyStage, recorder: Recorder | None = None
    ) -> tuple[float, Array]:
        """Value and gradient of the smooth problem at a stage; the recorder notes the true figure."""
        shape = self.unknowns.points_at(z)
        try:
            rows = self.rows.rows_along(shape.exciting_motion())
            over = self._excess_over_limits(shape)
        except (LoopError, DeadPointError):
            return WALL, np.zeros_like(z)
        value, by_W, figure = self.goal.smooth_value(rows.matrix(), stage)
        if recorder is not None:
            recorder.record_value(figure)
        gq, gv, ga = rows.adjoint(by_W)
        if shape.path is None or over is None:
            return value, self.unknowns.pull_back(z, (gq, gv, ga), gq, gq)
        inner, w = slice(1, -1), stage.penalty
        hurry = TIME_WEIGHT / (self.unknowns.box.usual_segment_time * len(shape.path.u))
        by = (gq + w * over.by_q[inner], gv + w * over.by_v[inner], ga + w * over.by_a[inner])
        slope = self.unknowns.pull_back(z, by, w * over.by_q[[0, -1]], w * over.by_u + hurry)
        return value + w * over.value + hurry * shape.path.duration, slope

    def _excess_over_limits(self, shape: PointsShape) -> PathGradient | None:
        """Squared excess of the path over its limits, torques included; None for points without a path."""
        if shape.path is None:
            return None
        box = self.unknowns.box
        bounds = self.tight[:4] * np.stack([box.reach, box.speed, box.acceleration, box.jerk])
        if np.isfinite(box.jerk).any():
            over = excess_over_bounds(shape.path, JERK_BASIS, (box.middle, *bounds))
        else:
            over = excess_over_bounds(shape.path, BASIS, (box.middle, *bounds[:3]))
        if self.effort is not None:
            over = over + self.effort.excess_over_limits(shape.path, self.tight[4], self.instants)
        if self.clearance is not None:
            over = over + self.clearance.penalty_along_path(shape.path, self.buffer).scaled(CELL_WEIGHT)
        return over

    def use_of_limits(self, shape: PointsShape) -> Array:
        """Exact peaks over limits at every instant: reach, speed, acceleration and jerk, (4, n)."""
        box, x = self.unknowns.box, shape.extremes()
        reach = np.maximum(x.highest - box.middle, box.middle - x.lowest) / box.reach
        return np.stack([reach, x.speed / box.speed, x.acceleration / box.acceleration, x.jerk / box.jerk])

    def tighten_limits(self, z: Array) -> PointsSearch:
        """Return the search with limits tightened by what the motion exceeds them between the sampled instants."""
        shape = self.unknowns.points_at(z)
        torque = np.clip(self.torque_use(shape), 1.0, 1.5)
        more = 0.0 if self.clearance is None or violation_of_path(shape, self.clearance) is None else BUFFER
        tight = self.tight / np.vstack([np.maximum(self.use_of_limits(shape), 1.0), torque])
        return replace(self, tight=tight, buffer=self.buffer + more)

    def start_near_refuge(self, z: Array, seed: int) -> Array:
        """The variables z of a start with its points drawn together about a posture where the robot can stay.

        In a cell that is a free one, else the easiest to hold where torques hold the robot still in few postures.
        """
        box = self.unknowns.box
        if self.clearance is not None:
            free = self.clearance.free_posture(box.position_limits(), seed, self.effort)
            return self._drawn_together(z, free, DRAWN_TOGETHER)
        held = None if self.effort is None else self.effort.held_postures(box.position_limits(), seed)
        if self.effort is None or held is None or held.share >= CONFINED:
            return z
        for share in (DRAWN_TOGETHER, *DRAWN_NEARER):
            found = self._drawn_together(z, held.easiest, share)
            shares = self.effort.holding_torque_shares(self.unknowns.points_at(found).exciting_motion().q)
            if (shares.max(axis=1) < 1.0).mean() > CONFINED:
                break
        return found

    def _drawn_together(self, z: Array, posture: Array, share: float) -> Array:
        """The variables z with points and poses of rest at a share of their distance to a posture (n,)."""
        box, z = self.unknowns.box, z.copy()
        about, size = (posture - box.middle) / box.reach, self.unknowns.points * len(box.reach)
        for part in (z[:size], z[3 * size : 3 * size + 2 * len(box.reach)]):
            x = np.sin(part).reshape(-1, len(box.reach))
            part[:] = np.arcsin(np.clip(about + share * (x - about), -0.98, 0.98)).ravel()
        return z

    def make_valid(self, z: Array, time_left: Callable[[], float]) -> tuple[float, PointsShape | None]:
        """The better one of the motion slowed down and the motion shrunk until all limits hold, with its criterion.

        Of a motion after `restore_limits` little is left to do. None, and infinity, where torque limits stop it however
        small it is.
        """
        z = self.restore_limits(z, time_left)
        shapes = [self.shrink_into_limits(z), *([self.slow_into_limits(z)] if self.unknowns.has_motion else [])]
        ranked = sorted(((self.criterion_value(shape), k) for k, shape in enumerate(shapes)))
        return ranked[0][0], shapes[ranked[0][1]]

    def slow_into_limits(self, z: Array) -> PointsShape | None:
        """Slow the motion down until no limit is broken at any instant; positions alone are shrunk about mid-range.

        Postures, and with them the torques against gravity, stay as they are. None where that is not enough.
        """
        shape = self.unknowns.points_at(z)
        reach = np.maximum(self.use_of_limits(shape)[0], 1.0)
        shape = shape.shrink_about((1.0 - 1e-12) / reach, self.unknowns.box.middle) if reach.max() > 1.0 else shape
        _, speed, acceleration, jerk = self.use_of_limits(shape).max(axis=1)
        least = max(1.0, speed, np.sqrt(acceleration), np.cbrt(jerk)) * (1.0 + 1e-12)
        for slower in SLOWER:
            found = shape.slowed(least * slower)
            if self.torques_and_cell_fit(found):
                return found
        return None

    def shrink_into_limits(self, z: Array) -> PointsShape | None:
        """Shrink each joint's motion about its mid-range until no limit is broken at any instant.

        Position, speed and acceleration of a joint shrink alike, so this always ends in a valid motion; after a
        search that ended near its limits it moves little. None where torque limits stop it however small it is.
        """
        shape, slack = self.unknowns.points_at(z), 1e-12
        middle = self.unknowns.box.middle
        while (use := self.use_of_limits(shape).max(axis=0)).max() > 1.0:
            shape = shape.shrink_about(np.where(use > 1.0, (1.0 - slack) / use, 1.0), middle)
            slack *= 4.0
        return (
            shape
            if self.effort is None and self.clearance is None
            else shrink_to_fit(shape, self.effort, self.clearance)
        )

    def restore_limits(self, z: Array, time_left: Callable[[], float]) -> Array:
        """Move the variables by little until nearly all limits hold: descend on what exceeds tightened ones.

        Only limits that were exceeded are tightened. Shrinking a motion as a whole would move its far points by much,
        to where gravity may ask for other torques.
        """
        search = self.with_fine_instants()

        def stop_in_time(intermediate_result: OptimizeResult) -> None:
            if time_left() <= 0.0:
                raise StopIteration

        for _ in range(RESTORATIONS):
            shape = self.unknowns.points_at(z)
            if shape.path is None or time_left() <= 0.0:
                break
            if self.use_of_limits(shape).max() <= NEARLY and self.torques_and_cell_fit(shape):
                break
            search = search.tighten_limits(z)
            z = np.asarray(minimize(
                search.excess_and_gradient, z, jac=True, method="L-BFGS-B", callback=stop_in_time,
                options={"maxiter": RESTORING, "maxcor": 20, "ftol": 1e-12},
            ).x)  # fmt: skip
        return z

    def torques_and_cell_fit(self, shape: PointsShape) -> bool:
        """Whether a motion keeps its torque limits, and clear of the cell where there is one."""
        fits = bool(self.torque_use(shape).max() <= 1.0)
        return fits and (self.clearance is None or violation_of_path(shape, self.clearance) is None)

    def torque_use(self, shape: PointsShape) -> Array:
        """Peak torques over their limits, (n,); 0 where none is limited."""
        if self.effort is None:
            return np.zeros(self.tight.shape[1])
        return self.effort.use_of_limits(shape.motion(TORQUE_RATE))

    def excess_and_gradient(self, z: Array) -> tuple[float, Array]:
        """Squared excess over the limits at the instants tried, and its gradient."""
        shape = self.unknowns.points_at(z)
        try:
            over = self._excess_over_limits(shape)
        except (LoopError, DeadPointError):
            return WALL, np.zeros_like(z)
        assert over is not None
        inner = slice(1, -1)
        by = (over.by_q[inner], over.by_v[inner], over.by_a[inner])
        return over.value, self.unknowns.pull_back(z, by, over.by_q[[0, -1]], over.by_u)

    def with_entry_scale(self, stage: HomotopyStage, z: Array) -> HomotopyStage:
        """Return the stage with the largest entry of W at its start as the scale of entries."""
        try:
            W = self.rows.matrix(self.unknowns.points_at(z).exciting_motion())
        except (LoopError, DeadPointError):
            return stage
        return replace(stage, size=float(np.abs(W).max()))

    def criterion_value(self, shape: PointsShape | None) -> float:
        """True criterion; infinite where there is no motion or a closed loop cannot follow."""
        if shape is None:
            return np.inf
        try:
            return self.goal.true.value(self.rows.matrix(shape.exciting_motion()))
        except (LoopError, DeadPointError):
            return np.inf

    def descend(
        self,
        z: Array,
        stage: HomotopyStage,
        time_left: Callable[[], float],
        keep: Callable[[Array], None],
        recorder: Recorder,
    ) -> Array:
        """Minimise by L-BFGS within the stage's iterations and the time left; `keep` is called with each iterate."""

        def record_iteration(intermediate_result: OptimizeResult) -> None:
            """Hand an iterate on, and stop when the time is over."""
            keep(intermediate_result.x)
            recorder.end_iteration()
            if time_left() <= 0.0:
                raise StopIteration

        found = minimize(
            self.value_and_gradient,
            z,
            (self.with_entry_scale(stage, z), recorder),
            "L-BFGS-B",
            jac=True,
            callback=record_iteration,
            options={"maxiter": stage.iterations, "maxfun": 4 * stage.iterations, "maxcor": 20, "ftol": 1e-9},
        )
        return np.asarray(found.x)


@dataclass(slots=True)
class BestShape:
    """The best shape so far, and where the search is now."""

    search: PointsSearch
    z: Array
    shape: PointsShape | None = None
    start: Array | None = None
    value: float = np.inf

    def set_current(self, z: Array) -> None:
        """Remember the variables z at which the search is now."""
        self.z = np.array(z)

    def accept_if_better(self, time_left: Callable[[], float] = lambda: np.inf) -> None:
        """Keep the shape at the current variables if it is better than the best so far."""
        value, shape = self.search.make_valid(self.z, time_left)
        if self.shape is None or value < self.value:
            self.shape, self.start, self.value = shape, self.z, value


def violation_of_path(shape: PointsShape, clearance: Clearance | None) -> Violation | None:
    """What the motion of a shape violates in the cell at any instant, if anything."""
    if clearance is None or shape.path is None:
        return None
    return clearance.first_violation(shape.path.sample, shape.path.duration, shape.path.extremes())


def shrink_to_fit(
    shape: PointsShape, effort: Effort | None, clearance: Clearance | None = None, box: PointLimits | None = None
) -> PointsShape | None:
    """The shape shrunk until torques and clearance fit, about the pose on its path that is freest or easiest to hold.

    The last resort: a search that ended within its torque limits and clear of the cell leaves nothing to shrink. None
    where it does not fit however small it is. box: where else free postures are sought.
    """

    def fits(shape: PointsShape) -> bool:
        """Whether a motion keeps its torque limits, and clear of the cell."""
        if effort is not None and effort.use_of_limits(shape.motion(TORQUE_RATE)).max() > 1.0:
            return False
        return violation_of_path(shape, clearance) is None

    if fits(shape):
        return shape
    q = shape.motion(POSES_RATE).q
    held = np.zeros(len(q)) if effort is None else effort.holding_torque_shares(q).max(axis=1)
    ease = -held if clearance is None else np.where(held < 1.0, clearance.slack(q)[0], -held)
    pose = q[np.argmax(ease)]
    if clearance is not None and box is not None and ease.max() <= 0.0:
        pose = clearance.free_posture(box.position_limits(), 0, effort)

    def shrink_repeatedly(times: int) -> PointsShape | None:
        """Shrunk so many times by 5 %, where it fits then."""
        smaller = shape.shrink_about(np.full(len(pose), 0.95**times), pose)
        return smaller if fits(smaller) else None

    too_large, enough = 0, SHRINKINGS
    kept = shrink_repeatedly(enough)
    while kept is not None and enough - too_large > 1:
        middle = (too_large + enough) // 2
        if (better := shrink_repeatedly(middle)) is None:
            too_large = middle
        else:
            kept, enough = better, middle
    return kept


@dataclass(frozen=True, slots=True, eq=False)
class FoundPoints:
    """The variables z that a start ended with, how it came to them, and the valid shape there, if there is one."""

    start: int
    z: Array
    recorder: Recorder
    shape: PointsShape | None


def search_points_from_start(
    problem: tuple[PointsSearch, int, tuple[Array, ...]], k: int, time_left: Callable[[], float]
) -> tuple[float, FoundPoints]:
    """Run all stages from start k: variables that were handed in, then random ones of a seed.

    Return the true criterion and what was found; what was handed in is not led away by the softest stage.
    """
    search, seed, given = problem
    recorder = Recorder()
    descent_left = _time_for_descent(search, time_left)
    stages, drawn = search.goal.stages(), k - len(given)
    if drawn < 0:
        best = BestShape(search, given[k])
        stages = stages[1:]
    else:
        rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(drawn + 1)[drawn])
        z = search.unknowns.random_start(rng)
        best = BestShape(search, search.start_near_refuge(z, seed + drawn))
    for number, stage in enumerate(stages):
        if number == len(stages) - 1:
            search = search.with_fine_instants()
        if descent_left() > 0.0:
            best.set_current(search.descend(best.z, stage, descent_left, best.set_current, recorder))
    value, shape = search.make_valid(best.z, time_left)
    recorder.pause_clock()
    return value, FoundPoints(k, best.z, recorder, shape)


def _time_for_descent(search: PointsSearch, time_left: Callable[[], float]) -> Callable[[], float]:
    """Time that descents may take: less what is kept to make a motion valid, where torques are limited."""
    kept = (
        0.0
        if search.effort is None and search.clearance is None
        else min(RESTORING_TIME, RESTORING_SHARE * max(0.0, time_left()))
    )
    return lambda: time_left() - kept


def refine_best_start(best: BestShape, time_left: Callable[[], float], recorder: Recorder) -> None:
    """Descend once more from the best start, in place, with limits tightened by what was exceeded before."""
    last = replace(best.search.goal.stages()[-1], iterations=2 * ITERATIONS)
    best.search = best.search.with_fine_instants()
    for _ in range(ROUNDS):
        descent_left = _time_for_descent(best.search, time_left)
        if descent_left() <= 0.0 or best.start is None:
            return
        best.search = best.search.tighten_limits(best.start)
        best.set_current(best.search.descend(best.start, last, descent_left, best.set_current, recorder))
        best.accept_if_better(time_left)
        if best.value <= CLOSE * best.search.criterion_value(best.search.unknowns.points_at(best.z)):
            return


# Points (q, v) whose energy differences reveal the base parameters, and a motion through them.
#
# Gautier & Khalil 1992: r + 1 points give r rows. Positions and velocities stay inside their limits by a change of
# variables (section 4.2); with acceleration limits, segment times, accelerations at the points and two points of rest
# become variables too, and fifth-order polynomials (section 5) carry the motion.


STARTS = 8
WITHOUT_ACCELERATION = ("energy", "momentum")
HOPELESS = 1e10
"""A condition number that stands for dependent columns."""


def design_points(
    rows: BaseRows,
    *,
    criterion: str,
    weights: tuple[float, ...],
    limits: Limits,
    points: int,
    effort: Effort | None = None,
    starts: int = STARTS,
    seed: int = 0,
    noise: float | Array | None = None,
    time_left: Callable[[], float] = lambda: np.inf,
    on_progress: Callable[[str, float], None] | None = None,
    on_history: Callable[[SearchHistory], None] | None = None,
    target: Array | None = None,
    clearance: Clearance | None = None,
    begin: Sequence[PointsShape] = (),
) -> PointsShape:
    """Find `points` + 1 points that make the criterion small, with a motion where accelerations are limited.

    The best of several starts by the true figure; over time, or interrupted, the best so far. `noise` is the
    deviation of the rows: one number, one per channel or one per row. `effort` holds the motion within torque limits.
    `on_history` is told how the search went. target (k, b): rows of criterion v. clearance: of the motion in a cell.
    begin: shapes of as many points to start from beside the random ones.
    """
    box = _checked_point_limits(rows, limits, points, starts)
    count = (points if rows.model == "energy" else points + 1) * rows.rows_per_sample
    if count < len(rows.names):
        raise ExcitationError(
            "too_few_points", "{points} points give {rows} rows, too few for {parameters} base parameters",
            "ask for more points", points=points, rows=count, parameters=len(rows.names),
        )  # fmt: skip
    goal = SmoothedCriterion.for_rows(criterion, weights, rows, count, _noise_per_row(noise, count), target)
    effort = effort if box.has_motion else None
    tight = np.full((5, rows.robot.n), 0.999)
    search = PointsSearch(rows, goal, PointVariables(box, points + 1), tight, effort, clearance)
    left = time_left()
    budget = left if np.isfinite(left) else None
    given = tuple(search.unknowns.variables_of(shape) for shape in begin)
    numbers = list(range(len(given) + starts))
    candidates = run_starts(search_points_from_start, (search, seed, given), numbers, budget, on_progress)
    taken = candidates.found[0][1]
    best = BestShape(search, taken.z, taken.shape, taken.z, candidates.found[0][0])
    stopped = candidates.interrupted
    if not stopped:
        taken.recorder.resume_clock()
        try:
            refine_best_start(best, time_left, taken.recorder)
        except KeyboardInterrupt:
            best.accept_if_better(time_left)
            stopped = True
        taken.recorder.pause_clock()
    if best.shape is None and clearance is not None:
        refuge = clearance.free_posture(limits, 0, effort)
        small = search.unknowns.points_at(best.z).shrink_about(np.full(rows.robot.n, 0.95**SHRINKINGS), refuge)
        hit = violation_of_path(small, clearance)
        if hit is not None:
            raise ExcitationError(clearance.no_room_message(hit, limits, effort))
    if best.shape is None and effort is not None:
        raise ExcitationError(_describe_effort_failure(search, best.z, effort))
    if best.shape is None or not _all_parameters_identifiable(rows, best.shape):
        raise ExcitationError(
            "no_revealing_points", "no points found that reveal all {parameters} base parameters; {narrowest}",
            parameters=len(rows.names), narrowest=box.describe_narrowest(rows.robot),
        )  # fmt: skip
    if on_history is not None:
        descents = sorted(
            (found.recorder.descent(found.start, best.value if found is taken else value)
             for value, found in candidates.found if np.isfinite(value)),
            key=lambda descent: descent.start,
        )  # fmt: skip
        on_history(SearchHistory(criterion, tuple(descents), taken.start, len(numbers), stopped))
    return best.shape


def _describe_effort_failure(search: PointsSearch, z: Array, effort: Effort) -> Message:
    """Message on the joint that cannot hold the robot in the easiest of the poses that were tried."""
    holding = effort.holding_torque_shares(search.unknowns.points_at(z).exciting_motion().q)
    easiest = holding[np.argmin(holding.max(axis=1))]
    joint = search.rows.robot.joint_names[int(np.argmax(easiest))]
    return Message(
        "effort_limit_stops_motion", "the effort limit of joint '{joint}' stops every motion, even a small one: "
        "holding still takes {percent:.3g} % of it in the easiest pose tried", "raise it", joint=joint,
        percent=100 * easiest.max(), needed=float((easiest * effort.limit)[int(np.argmax(easiest))]),
    )  # fmt: skip


def _all_parameters_identifiable(rows: BaseRows, shape: PointsShape) -> bool:
    """Whether the condition number at the points is below HOPELESS."""
    try:
        return condition_number(rows.matrix(shape.exciting_motion())) < HOPELESS
    except (LoopError, DeadPointError):
        return False


def _checked_point_limits(rows: BaseRows, limits: Limits, points: int, starts: int) -> PointLimits:
    """Limits of the points; raise ExcitationError where these or the numbers of points and starts make no sense."""
    if points < 1 or starts < 1:
        raise ExcitationError(
            "count_below_one", "points and starts must be at least 1, got {points} and {starts}", points=points,
            starts=starts,
        )  # fmt: skip
    check_limits(limits, rows.robot.joint_names)
    box = PointLimits.for_robot(rows.robot, limits)
    if rows.model not in WITHOUT_ACCELERATION and not box.has_motion:
        raise ExcitationError(
            "missing_acceleration_limits", "rows of the {model} model need accelerations, which points have only "
            "under acceleration limits", "give {limits}, or use model 'energy'", model=rows.model,
            limits=Wording("limits['acceleration']", "--acceleration"),
        )  # fmt: skip
    return box


def _noise_per_row(noise: float | Array | None, count: int) -> Array | None:
    """Standard deviation of each of `count` rows, from one, one per channel or all; None where not given."""
    if noise is None:
        return None
    values = np.atleast_1d(np.asarray(noise, dtype=np.float64))
    if values.ndim != 1 or count % len(values) or not (np.isfinite(values) & (values > 0.0)).all():
        raise ExcitationError(
            "invalid_noise", "noise must be positive, one number, one per channel or one per row ({rows})",
            rows=count,
        )  # fmt: skip
    return freeze(np.tile(values, count // len(values)))
