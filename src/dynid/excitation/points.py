"""Points (q, v) whose energy differences reveal the base parameters, and a motion through them.

Gautier & Khalil 1992: r + 1 points give r rows. Positions and velocities stay inside their limits by a change of
variables (section 4.2); with acceleration limits, segment times, accelerations at the points and two points of rest
become variables too, and fifth-order polynomials (section 5) carry the motion.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dynid.errors import DeadPointError, ExcitationError, LoopError
from dynid.excitation.base_rows import BaseRows
from dynid.excitation.criteria import condition_number
from dynid.excitation.effort import Effort
from dynid.excitation.goal import Goal
from dynid.excitation.history import SearchHistory
from dynid.excitation.multistart import run_starts
from dynid.excitation.points_search import Best, Search, search_start, sharpen
from dynid.excitation.points_shape import PointsShape
from dynid.excitation.points_unknowns import Unknowns
from dynid.excitation.shape import check_limits
from dynid.excitation.walks import Box
from dynid.robot.limits import Limits
from dynid.robot.transform import Array, freeze

STARTS = 8
WITHOUT_ACCELERATION = ("energy", "momentum")
ROOM = 1e-3
"""Least distance of a rest pose from a position limit, over half the range."""
HOPELESS = 1e10
"""A condition number that stands for dependent columns."""


def design_points(
    rows: BaseRows,
    *,
    criterion: str,
    weights: tuple[float, float],
    limits: Limits,
    points: int,
    effort: Effort | None = None,
    starts: int = STARTS,
    seed: int = 0,
    noise: float | Array | None = None,
    time_left: Callable[[], float] = lambda: np.inf,
    on_progress: Callable[[str, float], None] | None = None,
    on_history: Callable[[SearchHistory], None] | None = None,
    rest: Array | None = None,
) -> PointsShape:
    """Find `points` + 1 points that make the criterion small, with a motion where accelerations are limited.

    The best of several starts by the true figure; over time, or interrupted, the best so far. `noise` is the
    deviation of the rows: one number, one per channel or one per row. `effort` holds the motion within torque limits.
    `on_history` is told how the search went. rest (n,): where the motion starts and ends, chosen where missing.
    """
    box = _check(rows, limits, points, starts)
    count = (points if rows.model == "energy" else points + 1) * rows.channels
    if count < len(rows.names):
        raise ExcitationError(
            f"{points} points give {count} rows, too few for {len(rows.names)} base parameters; ask for more points"
        )
    goal = Goal.of(criterion, weights, rows, count, _per_row(noise, count))
    effort = effort if box.moving else None
    if rest is not None:
        _check_rest(rest, box, rows.robot.joint_names)
    search = Search(rows, goal, Unknowns(box, points + 1, rest), np.full((4, rows.robot.n), 0.999), effort)
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
            sharpen(best, time_left, taken.recorder)
        except KeyboardInterrupt:
            best.offer()
            stopped = True
        taken.recorder.pause()
    if best.shape is None and effort is not None:
        raise ExcitationError(_stopped_by_effort(search, best.z, effort))
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


def _stopped_by_effort(search: Search, z: Array, effort: Effort) -> str:
    """Say which joint cannot hold the robot in the easiest of the poses that were tried."""
    holding = effort.holding(search.unknowns.place(z).exciting_motion().q)
    easiest = holding[np.argmin(holding.max(axis=1))]
    joint = search.rows.robot.joint_names[int(np.argmax(easiest))]
    return (
        f"the effort limit of joint '{joint}' stops every motion, even a small one: "
        f"holding still takes {100 * easiest.max():.3g} % of it in the easiest pose tried"
    )


def _reveals(rows: BaseRows, shape: PointsShape) -> bool:
    try:
        return condition_number(rows.matrix(shape.exciting_motion())) < HOPELESS
    except (LoopError, DeadPointError):
        return False


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


def _check_rest(rest: Array, box: Box, names: tuple[str, ...]) -> None:
    """A joint that rests at its limit cannot be kept inside by a smaller motion."""
    room = box.reach - np.abs(rest - box.middle)
    if room.min() < ROOM * box.reach[int(np.argmin(room))]:
        name = names[int(np.argmin(room))]
        raise ExcitationError(f"the rest pose has joint '{name}' at its position limit; a motion needs some room there")


def _per_row(noise: float | Array | None, count: int) -> Array | None:
    """Deviation of each row."""
    if noise is None:
        return None
    values = np.atleast_1d(np.asarray(noise, dtype=np.float64))
    if values.ndim != 1 or count % len(values) or not (np.isfinite(values) & (values > 0.0)).all():
        raise ExcitationError(f"noise must be positive, one number, one per channel or one per row ({count})")
    return freeze(np.tile(values, count // len(values)))
