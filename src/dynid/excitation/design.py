"""The front door: design a motion that reveals the base parameters."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynid.dynamics.friction import PLAIN
from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.errors import ExcitationError, LoopError
from dynid.excitation.bound import StateBox, check_bound_available, find_bound
from dynid.excitation.cell import CAPSULES, Cell, read_cell, robot_solids
from dynid.excitation.clearance import Clearance, Violation, postures_that_hold
from dynid.excitation.criteria import NAMES, BaseRows, Prediction, find_criterion, random_states
from dynid.excitation.excitation import Excitation, find_limits, noise_per_channel, read_motion_csv
from dynid.excitation.fourier import FourierShape
from dynid.excitation.fourier_search import (
    FoundSeries,
    FourierProblem,
    random_coefficients,
    refine_best_series,
    scale_to_limits,
    search_series,
    torque_check_rate,
    violation_of_series,
)
from dynid.excitation.points import PointsShape
from dynid.excitation.points_search import TORQUE_RATE, design_points, violation_of_path
from dynid.excitation.quintics import Quintics
from dynid.excitation.shape import check_limits, limits_within_margin, middle_and_half_range
from dynid.excitation.starts import Candidates, SearchHistory, random_points, use_cluster_inside_block
from dynid.excitation.torque_limits import CONFINED, Effort
from dynid.messages import Message, Option, Wording
from dynid.robot.motion import Motion
from dynid.robot.robot import Limits, Robot
from dynid.robot.transform import Array

if TYPE_CHECKING:
    from dynid.estimation.identification import Identification
    from dynid.excitation.information import Information

SHORTEST, LONGEST = 1e-2, 1e5
"""Periods that can be asked for, s."""
MOST = {"harmonics": 50, "starts": 100_000, "periods": 100_000}
"""Counts that can be asked for; the instants of extreme values of a series cost the cube of its harmonics."""
PERIOD = 10.0
BALANCED = (1.0, 0.03)
"""Weights of condition and scaling where none are given."""
STARTS, DRAWN = 8, 24
"""Starts where none are given; those of a series without a cell, of which a few go to their end."""
NOISE_SHARE = 0.01
"""Noise of torques that criterion v assumes where none is given, as a share of each joint's effort limit."""
NOTABLE = 3.0
"""Seconds of preparation that are told where there is a time budget, which does not count them then."""
AFTERWARDS = 0.3
"""Seconds of a time budget that are kept for what follows the search, where the budget is not short itself."""
FIRST_POSTURES, FREE_POSTURES = 50, 1000
"""Random postures of which one has to be free of the cell: first so many are tried."""
SMALLEST_SWING = 1e-3
"""A joint whose slowest harmonic cannot swing by this (rad or m) within its limits cannot excite anything."""

Progress = Callable[[str, float], None]


@one_blas_thread
def design_excitation(
    robot: Robot,
    *,
    shape: str = "fourier",
    model: str | None = None,
    criterion: str | None = None,
    weights: tuple[float, ...] = (1.0, 0.0),
    rotor_inertia: bool | None = None,
    friction: tuple[str, ...] | None = None,
    limits: Mapping[str, object] | None = None,
    duration: float | None = None,
    harmonics: int | None = None,
    points: int | None = None,
    starts: int | None = None,
    seed: int = 0,
    time_budget: float | None = None,
    on_progress: Progress | None = None,
    noise: float | Sequence[float] | None = None,
    periods: int = 1,
    rest: Sequence[float] | None = None,
    after: Identification | str | Path | None = None,
    target: str | Sequence[str] | None = None,
    task: Motion | Excitation | str | Path | None = None,
    obstacles: Mapping[str, object] | str | Path | None = None,
    floor: float | None = None,
    clearance: float = 0.0,
    tool_speed: float | None = None,
    margin: float = 0.05,
    bound: bool = False,
    begin: Sequence[Excitation] = (),
    purpose: str | None = None,
    client: Any = None,
) -> Excitation:
    """Design a motion from rest to rest, valid at every instant, that makes the base parameters well known.

    Parameters
    ----------
    robot : Robot
        As `load_robot` returns it.
    shape : {"fourier", "points"}
        "fourier": a Fourier series, for models of torques; "points": fifth-order polynomials between points, for the
        energy model, as long as they need.
    model : str, optional
        Measurement model. Default: "torque" for fourier, "energy" for points.
    criterion : str, optional
        "condition", "frobenius", "scaling", "condition+scaling", "a", "d", "e" or "v". Default: "v" for fourier, the
        mean variance of predicted torques over their effort limits squared, at states drawn uniformly inside the limits
        or along `task`; else "condition".
    weights : tuple of float
        Weights (l1, l2) of "condition+scaling", or (l1, l2, k) for the k-norm of l1 Cond and l2 S.
    rotor_inertia : bool, optional
        Whether rotor inertias are among the parameters. Default: as `identify` has them; for points and models without
        torques, not.
    friction : tuple of str, optional
        Friction blocks among the parameters. Default: viscous, Coulomb and offset, as `identify` has them; for points
        and models without torques, none.
    limits : mapping, optional
        Limits in place of the robot's: position (n, 2), velocity, acceleration, effort, jerk (n,), SI units; missing
        ones are unlimited.
    duration : float, optional
        Period of the Fourier series, s.
    harmonics : int, optional
        Number of its harmonics. Default: 8 for criterion v, else 5.
    points : int, optional
        Number of points.
    starts : int, optional
        Number of random starts of the search.
    seed : int
        Seed of the starts.
    time_budget : float, optional
        Time for the search, s; it returns the best motion so far, as after Ctrl-C.
    on_progress : callable, optional
        Called with a text and the share of the work that is done, 0 to 1.
    noise : float or (channels,) sequence, optional
        Standard deviation of each channel, N m or N, for criteria a, d, e, v. Default for v: 1 % of each effort limit.
    periods : int
        How often the period is repeated.
    rest : (n,) sequence, optional
        Pose in which the robot stands, rad or m: the motion starts and ends there, with an approach and a return at a
        quarter of the speed limits.
    after : Identification, str or Path, optional
        A result or its file, to whose data the motion adds; its columns and noise are those of the design.
    target : str or sequence of str, optional
        What is to become known: parameters by name (`["M6", "Fv3"]` or "M6,Fv3"), "payload" (what the last link
        carries), or "unidentifiable" (what the result reports as unidentifiable or weak). `.expected` gives the
        standard deviations to expect.
    task : Motion, Excitation, str or Path, optional
        Motion along which criterion v predicts torques, or its CSV file.
    obstacles : mapping, str or Path, optional
        Boxes, planes, meshes, workspace, tool and payload, or the TOML file that describes them; the motion avoids
        them, and links avoid one another.
    floor : float, optional
        Height of the floor in frame 0, m.
    clearance : float
        Distance to keep from obstacles and floor, m.
    tool_speed : float, optional
        Largest speed of the tool, m/s.
    margin : float
        Share of the limits that is left unused (of half the range for positions; efforts excepted).
    bound : bool
        Whether to compute `.bound`, a value of the criterion that no motion inside the limits can beat (criteria a, d,
        e, v). It takes seconds for 2 joints and a minute for 7, beyond the budget.
    begin : sequence of Excitation
        Designs of the same robot and shape, with as many harmonics or points, from which the search starts as well.
    purpose : str, optional
        "actuators" adds chirps and steps inside the same limits, for `identify_actuators`.
    client : dask.distributed.Client or str, optional
        Client, or the address of its scheduler, whose workers run the starts in place of this machine.

    Returns
    -------
    Excitation
        The motion, its criterion and condition number, and what to know before it is run.

    Raises
    ------
    ExcitationError
        If an option does not apply, or no motion inside the limits is found.

    Notes
    -----
    Condition number of the base regressor and scaling S = max|Wij| / min|Wij|: Gautier & Khalil 1992. Criteria a, d, e,
    v: trace, log determinant, largest eigenvalue of the covariance of the parameters, and mean variance of predicted
    torques.

    Examples
    --------
    >>> from dynid import design_excitation, load_robot
    >>> limits = {"position": [[-1.0, 1.0]], "velocity": [2.0], "acceleration": [5.0]}
    >>> motion = design_excitation(load_robot("one_link"), limits=limits, criterion="condition", starts=1, harmonics=2)
    >>> motion.margin >= 0.0, motion.condition < 100.0
    (True, True)
    """
    if purpose not in (None, "actuators"):
        raise ExcitationError(
            "unknown_purpose", "there is no purpose {purpose!r}", "the only one is 'actuators'", purpose=str(purpose),
        )  # fmt: skip
    if purpose is not None and shape != "fourier":
        raise ExcitationError(
            "option_not_applicable", "purpose 'actuators' belongs to shape 'fourier'", "leave out the shape",
        )  # fmt: skip
    _check_information_arguments(
        after, target,
        {"shape": shape != "fourier", "model": model not in (None, "torque"), "task": None not in (task, target)},
        {"rotor_inertia": rotor_inertia is not None, "friction": friction is not None, "noise": noise is not None},
        criterion,
    )  # fmt: skip
    chosen = model or ("energy" if shape == "points" else "torque")
    as_identify = shape == "fourier" and chosen == "torque"
    if criterion is None:
        criterion = "v" if as_identify else "condition"
    rotor_inertia = as_identify if rotor_inertia is None else rotor_inertia
    friction = (PLAIN if as_identify else ()) if friction is None else tuple(friction)
    multiples = (8 if criterion == "v" else 5) if harmonics is None else harmonics
    if bound:
        check_bound_available(criterion, after=after, target=target)
    _check_arguments(
        shape,
        criterion,
        duration=duration,
        harmonics=multiples,
        starts=starts,
        time_budget=time_budget,
        periods=periods,
    )
    _refuse_unused_arguments(
        shape, criterion, tuple(weights), duration=duration, harmonics=harmonics, periods=periods, points=points
    )
    _check_prediction_arguments(criterion, chosen, task, margin)
    whole = find_limits(robot, limits)
    check_limits(whole, robot.joint_names)
    bounds = limits_within_margin(robot, whole, margin)
    if criterion == "condition+scaling" and tuple(weights) == (1.0, 0.0):
        weights = BALANCED  # the default weights would leave the scaling out
    cell = read_cell(robot, obstacles, floor=floor, clearance=clearance, tool_speed=tool_speed)
    began = time.monotonic()
    if after is not None:
        from dynid.excitation.information import columns_of_result, read_result

        after = read_result(after, robot)
        rotor_inertia, friction = columns_of_result(after)
    rows = BaseRows.for_robot(robot, model=chosen, rotor_inertia=rotor_inertia, friction=friction)
    moving = shape == "fourier" or bool(np.isfinite(bounds.acceleration).any())
    effort = Effort.for_robot(robot if cell is None else cell.loaded_robot(robot), bounds) if moving else None
    for part in (rows, *(() if effort is None else (effort.rows,))):
        part.warm_up()
    prepared = time.monotonic() - began
    sigma = None if noise is None else noise_per_channel(noise, rows.rows_per_sample)
    predicted = None
    if criterion == "v":
        _check_room_to_move(bounds, duration or PERIOD, robot.joint_names)
        states = random_states(robot, whole, duration or PERIOD, multiples) if task is None else _motion_of(task, robot)
        prediction = Prediction.for_states(rows, states, whole.effort)
        predicted = prediction.G
        sigma = NOISE_SHARE * prediction.scale if sigma is None else sigma
    information = None
    if after is not None or target is not None:
        from dynid.excitation.information import TARGET, find_information

        information = find_information(after, rows, target, sigma, (duration or PERIOD) * periods)
        criterion = criterion if target is None else TARGET
        sigma = np.where(np.isfinite(information.noise), information.noise, 1.0) if after is not None else sigma
    box = StateBox.for_rows(rows, whole, sigma) if bound else None
    left = None if time_budget is None else _time_for_search(time_budget, time.monotonic() - began, prepared)
    search = _Search(
        rows, bounds, effort, criterion, weights, starts, seed, sigma, left, on_progress,
        _checked_rest_pose(rest, whole, bounds, robot, effort), predicted, information, cell, tuple(begin),
    )  # fmt: skip
    with use_cluster_inside_block(client):
        if shape == "points":
            if not moving:
                _refuse_rest_without_motion(limits, rest, cell)
            found = _design_by_points(search, points)
        else:
            try:
                found = _design_fourier(search, duration or PERIOD, multiples, periods)
            except LoopError as error:
                raise ExcitationError(
                    "limits_cross_singularity", "the position limits allow what a closed loop does not",
                    "narrow them ({limits}, or in the robot file) to one side of its singular positions: {reason}",
                    limits=_limit_option_wording("position"), reason=error.message.what,
                ) from None  # fmt: skip
    if purpose == "actuators":
        from dynid.excitation.chirps import add_chirps_and_steps

        found = add_chirps_and_steps(found, bounds)
    held = None if effort is None else effort.held_postures(bounds)
    if held is not None and held.share < CONFINED:
        found = replace(found, warnings=(*found.warnings, held.warning()))
    found = replace(found, limits=whole)
    if box is not None:
        try:
            least = find_bound(box, criterion, found.samples, metric=predicted, seed=seed, on_progress=on_progress)
            found = replace(found, least=least)
        except KeyboardInterrupt:
            stopped = Message("bound_stopped_early", "stopped before the bound was found; the motion is given without")
            found = replace(found, warnings=(*found.warnings, stopped))
    if time_budget is None or prepared < NOTABLE:
        return found
    said = Message(
        "preparation_slow", "preparing took {seconds:.0f} s on top of the time budget (kernels are compiled once on "
        "each "
        "machine)", seconds=prepared,
    )  # fmt: skip
    return replace(found, warnings=(*found.warnings, said))


def _time_for_search(budget: float, spent: float, compiling: float) -> float:
    """Seconds of a budget that the search may take: less what was spent before and what entry and checks take after.

    Kernels that are compiled once on a machine (`compiling` beyond NOTABLE) are not counted, but reported.
    """
    before = spent - compiling if compiling >= NOTABLE else spent
    return max(0.5 * budget, budget - before - min(AFTERWARDS, 0.15 * budget))


RATIOS = (0.003, 0.01, 0.03, 0.1, 0.3)
"""Weights of the scaling, beside 1 of the condition number, with which a front is begun."""
PARETO_SECONDS, SHORTEST_SEARCH = 50.0, 0.5
"""Time for a front where none is given, and the least for one of its designs."""
FILLED, POWER = 4, 8.0
"""Gaps of a front that are filled, and the power that stands for the larger one of two figures."""


@dataclass(frozen=True, slots=True, eq=False)
class ParetoPoint:
    """A design on the front of condition against scaling, and the weights (l1, l2, power) that gave it."""

    weights: tuple[float, ...]
    excitation: Excitation


def pareto_front(
    design: Callable[..., Excitation], *, time_budget: float | None = None, on_progress: Progress | None = None
) -> tuple[ParetoPoint, ...]:
    """Front of condition number against scaling: designs of which none is better in both, by condition number.

    design: `design_excitation` with everything but criterion, weights, time and progress. First the condition number
    alone, from whose motion the others begin, but which is not on the front; then weighted sums; then, in the widest
    gaps between neighbours, the smallest maximum of both figures over their geometric means there, which also finds
    pairs that no weighted sum prefers (a constraint on either figure, met half-way). Every design may take an equal
    share of what is left of time_budget (s; PARETO_SECONDS where missing).
    """
    found: list[ParetoPoint] = []
    count = 1 + len(RATIOS) + FILLED
    deadline = time.monotonic() + (PARETO_SECONDS if time_budget is None else time_budget)
    for k in range(count):
        weights = _weights_of_front(k, found)
        if weights is None:
            break

        def report(text: str, part: float, done: int = k) -> None:
            """Report the progress of one design as that of all."""
            if on_progress is not None:
                on_progress(f"front of condition and scaling: design {done + 1} of {count}", (done + part) / count)

        report("", 0.0)
        share = max(SHORTEST_SEARCH, (deadline - time.monotonic()) / (count - k))
        begin = [point.excitation for point in _non_dominated(found)]
        aim = [e for e in begin if k <= len(RATIOS)] or sorted(begin, key=lambda e: _distance_to_aim(e, weights))[:2]
        chosen = {"criterion": "condition+scaling", "weights": weights} if weights[1] else {"criterion": "condition"}
        excitation = design(**chosen, time_budget=share, on_progress=report, begin=aim)
        found.append(ParetoPoint(weights, excitation))
    return _non_dominated([point for point in found if point.weights[1] > 0.0])


def _weights_of_front(k: int, found: Sequence[ParetoPoint]) -> tuple[float, ...] | None:
    """Weights of design k of a front; None where no gap is left."""
    if k <= len(RATIOS):
        return (1.0, (0.0, *RATIOS)[k])
    return _widest_gap(found)


def _distance_to_aim(excitation: Excitation, weights: tuple[float, ...]) -> float:
    """How far a design is from the ratio of both figures that weights aim at, in logarithms."""
    return abs(float(np.log(weights[0] * excitation.condition) - np.log(weights[1] * excitation.scaling)))


def _figures(point: ParetoPoint) -> tuple[float, float]:
    """Condition number and scaling of a design."""
    return point.excitation.condition, point.excitation.scaling


def _non_dominated(points: Sequence[ParetoPoint]) -> tuple[ParetoPoint, ...]:
    """Points of which no other is as good in both figures and better in one, by condition number."""
    kept: list[ParetoPoint] = []
    for point in sorted(points, key=_figures):
        if not kept or _figures(point)[1] < _figures(kept[-1])[1]:
            kept.append(point)
    return tuple(kept)


def _widest_gap(points: Sequence[ParetoPoint]) -> tuple[float, ...] | None:
    """Weights that aim between the neighbours on the front that are farthest apart; None where that was done.

    Designs for the condition number alone have no neighbours.
    """
    weighed = [point for point in points if point.weights[1] > 0.0]  # the scaling of the others is whatever it is
    front = [np.array(_figures(point)) for point in _non_dominated(weighed)]
    gaps = sorted(pairwise(front), key=lambda pair: -float(np.abs(np.log(pair[0] / pair[1])).sum()))
    tried = {point.weights for point in points}
    for first, second in gaps:
        aim = 1.0 / np.sqrt(first * second)
        weights = (1.0, float(aim[1] / aim[0]), POWER)
        if weights not in tried:
            return weights
    return None


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """What the search for a motion of any shape needs; effort is None where torques do not show."""

    rows: BaseRows
    limits: Limits
    effort: Effort | None
    criterion: str
    weights: tuple[float, ...]
    starts: int | None
    seed: int
    noise: Array | None
    time_budget: float | None
    on_progress: Progress | None
    rest: Array | None
    target: Array | None = None
    information: Information | None = None
    cell: Cell | None = None
    begin: tuple[Excitation, ...] = ()


def _check_information_arguments(
    after: object, target: object, others: Mapping[str, bool], decided: Mapping[str, object], criterion: str | None
) -> None:
    """Raise where `after` and `target` do not apply or contradict other arguments.

    others: arguments with values that do not go with either; decided: by a result.
    """
    if after is None and target is None:
        return
    which = "after" if target is None else "target"
    for name, given in (*others.items(), *(decided.items() if after is not None else ())):
        if given:
            raise ExcitationError(
                "option_not_applicable", "{option} cannot be combined with {which}: {reason}", option=name,
                which=which if name in others else "after",
                reason="the result decides" if name in decided else "it belongs to criterion 'v'" if name == "task" else
                "joint torques along a fourier motion are designed",
            )  # fmt: skip
    if target is not None and criterion is not None:
        raise ExcitationError(
            "option_not_applicable", "criterion cannot be combined with target, which is one itself", "give one of "
            "the two",
        )  # fmt: skip
    if target == "unidentifiable" and after is None:
        raise ExcitationError(
            "target_needs_result", "target 'unidentifiable' needs a result", "give {after}",
            after=Option("after", "result.json"),
        )  # fmt: skip
    if criterion not in (None, "a", "d", "e", "v"):
        raise ExcitationError(
            "option_not_applicable", "criterion '{criterion}' ignores existing data: it cannot be combined with "
            "after", "choose a, d, e or v", criterion=criterion,
        )  # fmt: skip


def _limit_option_wording(kind: str) -> Wording:
    """Names of the option for a limit in Python and on the command line."""
    return Wording(f"limits={{'{kind}': ...}}", f"--{kind}")


def _check_arguments(
    shape: str,
    criterion: str,
    *,
    duration: float | None,
    harmonics: int,
    starts: int | None,
    time_budget: float | None,
    periods: int,
) -> None:
    """Raise ExcitationError for unknown names and numbers out of range, before any work."""
    if shape not in ("fourier", "points"):
        raise ExcitationError(
            "unknown_shape", "there is no shape '{shape}'", "shapes are fourier and points", shape=shape,
        )  # fmt: skip
    if criterion not in NAMES:
        raise ExcitationError(
            "unknown_criterion", "there is no criterion '{criterion}'", "criteria are {criteria}", criterion=criterion,
            criteria=list(NAMES),
        )  # fmt: skip
    if duration is not None and not (np.isfinite(duration) and duration > 0.0):
        raise ExcitationError(
            "duration_not_positive", "the duration must be a positive number of seconds, got {duration}",
            duration=duration,
        )  # fmt: skip
    if duration is not None and not SHORTEST <= duration <= LONGEST:
        raise ExcitationError(
            "duration_out_of_range", "a duration of {duration:g} s is outside of {shortest:g} to {longest:g} s",
            duration=duration, shortest=SHORTEST, longest=LONGEST,
        )  # fmt: skip
    for name, value in (("harmonics", harmonics), ("starts", 1 if starts is None else starts), ("periods", periods)):
        if value < 1:
            raise ExcitationError(
                "count_below_one", "{option} must be at least 1, got {value}", option=name, value=value,
            )  # fmt: skip
        if value > MOST[name]:
            raise ExcitationError(
                "count_too_large", "{option} must be at most {most}, got {value}", option=name, most=MOST[name],
                value=value,
            )  # fmt: skip
    if time_budget is not None and not time_budget > 0.0:
        raise ExcitationError(
            "time_budget_not_positive", "the time budget must be a positive number of seconds, got {time_budget}",
            time_budget=time_budget,
        )  # fmt: skip


def _check_prediction_arguments(criterion: str, model: str, task: object, margin: float) -> None:
    """Raise where criterion v or its task do not apply, and for margins out of range."""
    if criterion == "v" and model != "torque":
        raise ExcitationError(
            "criterion_needs_torque_model", "criterion 'v' is about predicted torques, and the model is '{model}'",
            "choose model 'torque', or another criterion", model=model,
        )  # fmt: skip
    if criterion != "v" and task is not None:
        raise ExcitationError(
            "option_not_applicable", "task belongs to criterion 'v'; criterion '{criterion}' predicts nothing",
            criterion=criterion,
        )  # fmt: skip
    if not 0.0 <= margin < 1.0:
        raise ExcitationError(
            "invalid_margin", "the margin must be a share of the limits, at least 0 and below 1, got {margin:g}",
            margin=margin,
        )  # fmt: skip


def _motion_of(task: Motion | Excitation | str | Path, robot: Robot) -> Motion:
    """Motion of a task: of a designed motion, of a CSV file, or itself; raise where it is of another robot."""
    if isinstance(task, Excitation):
        motion = task.motion(100.0)
    else:
        motion = read_motion_csv(Path(task)) if isinstance(task, (str, Path)) else task
    if motion.q.shape[1] != robot.n:
        raise ExcitationError(
            "joint_count_mismatch", "the task has {count} joints, '{robot}' has {n}", count=motion.q.shape[1],
            robot=robot.name, n=robot.n,
        )  # fmt: skip
    return motion


def _refuse_unused_arguments(
    shape: str,
    criterion: str,
    weights: tuple[float, ...],
    *,
    duration: float | None,
    harmonics: int | None,
    periods: int,
    points: int | None,
) -> None:
    """Raise ExcitationError on arguments that would change nothing."""
    if shape == "points":
        for name, given in (
            ("duration", duration is not None),
            ("harmonics", harmonics not in (None, 5)),
            ("periods", periods != 1),
        ):
            if given:
                raise ExcitationError(
                    "option_not_applicable", "{option} belongs to shape 'fourier'; a motion through points takes the "
                    "time it needs", option=name,
                )  # fmt: skip
    elif points is not None:
        raise ExcitationError(
            "option_not_applicable", "points belongs to shape 'points'; shape 'fourier' has harmonics and periods",
        )  # fmt: skip
    if len(weights) not in (2, 3) or not np.isfinite(weights).all() or min(weights[2:], default=1.0) < 1.0:
        raise ExcitationError(
            "invalid_criterion_weights", "weights must be two numbers and, if wanted, a power of at least 1, "
            "got {weights!s}", weights=weights,
        )  # fmt: skip
    if weights != (1.0, 0.0) and criterion != "condition+scaling":
        raise ExcitationError(
            "option_not_applicable", "weights belongs to criterion 'condition+scaling'; criterion '{criterion}' has "
            "none", criterion=criterion,
        )  # fmt: skip


def _refuse_rest_without_motion(
    limits: Mapping[str, object] | None, rest: Sequence[float] | None, cell: Cell | None
) -> None:
    """Raise where a rest pose, a cell or effort limits are given for points that no motion joins."""
    bounds = {kind: np.array((limits or {}).get(kind, np.inf), dtype=np.float64) for kind in ("effort", "jerk")}
    kinds = ((f"limits['{kind}']", np.isfinite(bound).any()) for kind, bound in bounds.items())
    for name, given in (("rest", rest is not None), ("a cell", cell is not None), *kinds):
        if given:
            raise ExcitationError(
                "missing_acceleration_limits", "{option} needs a motion through the points:",
                "give {limits} too", option=name, limits=_limit_option_wording("acceleration"),
            )  # fmt: skip


def _checked_rest_pose(
    rest: Sequence[float] | None, limits: Limits, within_margin: Limits, robot: Robot, effort: Effort | None
) -> Array | None:
    """Rest pose as an array, None where it is free; raise where it is outside the limits or margin, or not held."""
    if rest is None:
        return None
    pose = np.array(rest, dtype=np.float64)
    if pose.shape != (robot.n,) or not np.isfinite(pose).all():
        raise ExcitationError(
            "invalid_rest_pose", "the rest pose needs {n} finite numbers, got {rest!r}", n=robot.n, rest=rest,
        )  # fmt: skip
    for j, name in enumerate(robot.joint_names):
        lower, upper = limits.position[j]
        if not lower <= pose[j] <= upper:
            raise ExcitationError(
                "rest_pose_outside_limits", "the rest pose has joint '{joint}' at {position:g}, outside its limits "
                "{lower:g} to {upper:g}", joint=name, position=pose[j], lower=lower, upper=upper,
            )  # fmt: skip
        lower, upper = within_margin.position[j]
        if not lower <= pose[j] <= upper:
            raise ExcitationError(
                "rest_pose_in_margin", "the rest pose has joint '{joint}' at {position:g}, nearer to its limits than "
                "the margin allows ({lower:.6g} to {upper:.6g})", "choose another pose or a smaller {option}",
                joint=name, position=pose[j], lower=lower, upper=upper, option=Wording("margin", "--margin"),
            )  # fmt: skip
    held = np.zeros(1) if effort is None else effort.holding_torque_shares(pose[None])[0]
    if held.max() > 1.0:
        raise ExcitationError(
            "rest_pose_exceeds_effort", "holding the rest pose takes {percent:.0f} % of the effort limit of joint "
            "'{joint}'", "choose another rest pose", joint=robot.joint_names[int(np.argmax(held))],
            percent=100.0 * held.max(),
        )  # fmt: skip
    return pose


def _check_room_to_move(limits: Limits, period: float, names: tuple[str, ...]) -> None:
    """Raise where a joint has no limit of velocity or acceleration, or hardly any room within its limits."""
    w = 2.0 * np.pi / period
    for j, name in enumerate(names):
        swing = min(limits.velocity[j] / w, limits.acceleration[j] / w**2, limits.jerk[j] / w**3)
        if np.isinf(swing):
            raise ExcitationError(
                "missing_motion_limits", "joint '{joint}' has neither a velocity nor an acceleration limit",
                "give {limits}, or put them into the robot file", joint=name, limits=_limit_option_wording("velocity"),
            )  # fmt: skip
        swing = min(swing, 0.5 * (limits.position[j, 1] - limits.position[j, 0]))
        if swing < SMALLEST_SWING:
            raise ExcitationError(
                "swing_too_small", "joint '{joint}' can swing by {swing:.1g} only at {frequency:.3g} Hz within its "
                "limits", "choose a longer duration or wider limits", joint=name, swing=swing, frequency=1 / period,
            )  # fmt: skip


def _design_fourier(search: _Search, period: float, harmonics: int, periods: int) -> Excitation:
    """Search a Fourier series, and add entry and exit."""
    rows, limits, effort, criterion = search.rows, search.limits, search.effort, search.criterion
    names = rows.robot.joint_names
    _check_room_to_move(limits, period, names)
    _check_holding_torques(effort, limits, names)
    clearance, warnings = _find_clearance(search)
    problem = FourierProblem(
        rows, criterion, search.weights, search.noise, limits, effort, period, harmonics, search.target,
        search.information, clearance,
    )  # fmt: skip
    problem = replace(problem, begin=_coefficients_to_begin_with(problem, search.begin))
    starts = search.starts or (DRAWN if clearance is None else STARTS)
    seeds = [*range(-1, -1 - len(problem.begin), -1), *(1000 * search.seed + k for k in range(starts))]
    deadline = time.monotonic() + (np.inf if search.time_budget is None else search.time_budget)
    candidates = search_series(problem, seeds, search.time_budget, search.on_progress)
    if not candidates.interrupted:
        candidates = refine_best_series(problem, candidates, lambda: deadline - time.monotonic())
    if candidates.interrupted:
        warnings.append(Message(
            "search_stopped_early", "stopped early: the best of {finished} of {starts} starts is given",
            finished=len(candidates.found), starts=len(seeds),
        ))  # fmt: skip
    first = scale_to_limits(problem, random_coefficients(problem, 1000 * search.seed) * 0.1)[0]
    refused = Message("no_starts", "no start was tried")
    for place, (value, series) in enumerate(candidates.found):
        try:
            shape = _motion_from_rest_to_rest(problem, value, series.y, periods, search.rest)
        except ExcitationError as error:
            refused = error.message
            continue
        history = _search_history(criterion, seeds, candidates, place)
        return Excitation(
            rows.robot, shape, rows, limits, criterion, value, first, tuple(warnings), effort, history, search.noise,
            search.information, clearance,
        )  # fmt: skip
    raise ExcitationError(
        "no_valid_motion", "none of {starts} starts gives a valid motion: {reason}", "{remedy}",
        **(dict(refused.facts) | {
            "starts": len(candidates.found), "reason": refused.what, "remedy": refused.remedy, "cause": refused.code,
        }),
    )  # fmt: skip


def _coefficients_to_begin_with(problem: FourierProblem, begin: Sequence[Excitation]) -> tuple[Array, ...]:
    """Coefficients of earlier designs, counted from mid-range; ExcitationError where they are of another kind."""
    found = []
    for number, earlier in enumerate(begin):
        shape = earlier.shape
        size = problem.rows.robot.n, 2 * problem.harmonics + 1
        if not isinstance(shape, FourierShape) or shape.period != problem.period or shape.coefficients.shape != size:
            raise _other_design(number)
        coefficients = shape.coefficients.copy()
        coefficients[:, 0] -= problem.mid_range
        found.append(coefficients)
    return tuple(found)


def _other_design(number: int) -> ExcitationError:
    """Error on a design to begin with that is not of the same kind."""
    return ExcitationError(
        "begin_differs", "begin[{number}] is of another shape, robot or number of harmonics or points",
        "begin with designs of the same kind, or without", number=number,
    )  # fmt: skip


def _find_clearance(search: _Search) -> tuple[Clearance | None, list[Message]]:
    """What has to stay apart, with warnings: the cell, and links from one another where a file gives their shapes.

    None without a cell for links that would be capsules: how thick they are is a guess. ExcitationError where no
    posture is free.
    """
    robot, limits = search.rows.robot, search.limits
    own = robot_solids(robot, limits)
    if search.cell is None and own.kind == CAPSULES:
        return None, [] if own.unread is None else [own.unread]
    clearance = Clearance.for_robot(robot, limits, search.cell or Cell(), own)
    _check_free_postures(clearance, limits, search.rest, search.effort)
    return clearance, [*clearance.cell.warnings, *clearance.notes]


def _check_free_postures(clearance: Clearance, limits: Limits, rest: Array | None, effort: Effort | None) -> None:
    """Raise where no posture is free, or a given rest pose is not, naming what is nearest to being so."""
    if rest is None:
        few, many = (
            postures_that_hold(clearance.random_postures(limits, count), effort)
            for count in (FIRST_POSTURES, FREE_POSTURES)
        )
        if (clearance.slack(few)[0] > 0.0).any():
            return
        q = many
    else:
        q = rest[None]
    slack, nearest = clearance.slack(q)
    best = nearest[int(np.argmax(slack))]
    if slack.max() > 0.0:
        return
    repair = clearance.repair(q)
    facts = {
        "link": best.link, "other": best.other, "distance": best.value, "need": best.limit, "count": len(q),
        "moves": {name: way.tolist() for name, way in repair.moves.items()}, "enough": repair.clearance,
        "remedy": repair.remedy(), "held": "" if effort is None else " and can be held",
    }  # fmt: skip
    if rest is not None:
        raise ExcitationError(
            "rest_pose_not_free", "the rest pose has link '{link}' {distance:.3f} m from '{other}', not {need:.3g} m",
            "choose another rest pose; {remedy}", **facts,
        )  # fmt: skip
    raise ExcitationError(
        "no_free_posture", "none of {count} postures is free{held}: in the best one link '{link}' is {distance:.3f} m "
        "from '{other}', nearer than {need:.3g} m", "{remedy}", **facts,
    )  # fmt: skip


def _check_holding_torques(effort: Effort | None, limits: Limits, names: tuple[str, ...]) -> None:
    """Raise where effort limits are too low to hold the robot still at mid-range, before the search."""
    if effort is None:
        return
    middle = middle_and_half_range(limits)[0][None]
    still = effort.use_of_limits(Motion(np.zeros(1), middle, 0.0 * middle, 0.0 * middle))
    if still.max() > 1.0:
        worst = names[int(np.argmax(still))]
        raise ExcitationError(
            "effort_limit_below_gravity", "the effort limit of joint '{joint}' cannot even hold the robot still at "
            "mid-range", "raise it above {needed:.3g}, or choose position limits about a posture easier to hold",
            joint=worst, needed=float((still * effort.limit)[int(np.argmax(still))]),
        )  # fmt: skip


def _search_history(criterion: str, seeds: list[int], candidates: Candidates[FoundSeries], place: int) -> SearchHistory:
    """History of all starts; that at `place` of the ranking was chosen, those before it were refused."""
    descents = {
        seeds.index(series.seed): series.recorder.descent(
            seeds.index(series.seed), value, refused=k < place, dropped=series.dropped
        )
        for k, (value, series) in enumerate(candidates.found)
        if np.isfinite(value)
    }
    chosen = seeds.index(candidates.found[place][1].seed)
    ordered = tuple(descents[start] for start in sorted(descents))
    return SearchHistory(criterion, ordered, chosen, len(seeds), candidates.interrupted)


def _describe_failure(problem: FourierProblem, y: Array) -> Message:
    """Message on what stops every motion with the directions of y, however small: torques, or the cell."""
    effort, clearance, names = problem.effort, problem.clearance, problem.rows.robot.joint_names
    about = np.zeros_like(y)
    if clearance is not None:
        about[:, 0] = clearance.free_posture(problem.limits, 0, effort) - problem.mid_range
    small = 0.02 * y + 0.98 * about
    if effort is not None:
        t, basis = problem.sample_instants(round(torque_check_rate(problem) * problem.period))
        use = effort.use_of_limits(problem.motion_of_coefficients(small, basis, t))
        if use.max() > 1.0 or clearance is None:
            j = int(np.argmax(use))
            where = "about mid-range" if clearance is None else "about a free posture"
            return Message(
                "effort_limit_stops_motion", "the effort limit of joint '{joint}' stops every motion, even a small one "
                "{where}, which takes {needed:.3g}", "raise it, or choose position limits about a posture that is "
                "easier to hold", joint=names[j], where=where, needed=float(use[j] * effort.limit[j]),
            )  # fmt: skip
    hit = None if clearance is None else violation_of_series(problem, clearance, small)
    if hit is None or clearance is None:
        return Message("no_free_motion", "the search ended in collisions", "try another seed, or more starts")
    return clearance.no_room_message(hit, problem.limits, effort)


def _motion_from_rest_to_rest(
    problem: FourierProblem, value: float, y: Array, periods: int, rest: Array | None
) -> FourierShape:
    """Motion of coefficients y with entry and exit whose torques keep their limits too."""
    names = problem.rows.robot.joint_names
    effort = problem.effort
    clearance, hits = problem.clearance, list[Violation]()
    if not np.isfinite(value) and (clearance is not None or effort is not None):
        raise ExcitationError(_describe_failure(problem, y))

    def is_valid(entry: Quintics) -> bool:
        """Whether an entry keeps the limits of torques, and clear of the cell."""
        if clearance is not None:
            hit = clearance.first_violation(entry.sample, entry.duration, entry.extremes())
            hits.extend([hit] if hit else [])
            if hit is not None:
                return False
        if effort is None:
            return True
        t = np.linspace(0.0, entry.duration, max(20, round(torque_check_rate(problem) * entry.duration)))
        return bool(effort.use_of_limits(entry.sample(t)).max() <= 1.0)

    coefficients = np.array(y)
    coefficients[:, 0] += problem.mid_range
    try:
        return FourierShape.with_entry_and_exit(
            coefficients, problem.period, periods, limits=problem.limits, rest=rest, names=names, accept=is_valid
        )
    except ExcitationError:
        if hits:
            raise ExcitationError(hits[-1].message().about("entry from rest")) from None
        raise


SLOWER = (1.0, 0.7, 0.5, 0.3, 0.2)
"""Shares of the speed limits at which a way from rest is tried, where torques are limited."""
FINER = 10.0
"""Factor of the rate of samples where the bound on torques between them, not the samples, exceeds the limits."""


def _design_by_points(search: _Search, points: int | None) -> Excitation:
    """Design a motion through points."""
    rows, limits, criterion, weights, noise = search.rows, search.limits, search.criterion, search.weights, search.noise
    r = points or 2 * len(rows.names)
    if r < len(rows.names):
        raise ExcitationError(
            "too_few_points", "{rows} rows cannot reveal {parameters} base parameters", "take at least as many points",
            rows=r, parameters=len(rows.names),
        )  # fmt: skip
    deadline = time.monotonic() + (search.time_budget if search.time_budget is not None else 1e9)
    moves = bool(np.isfinite(limits.acceleration).any())
    clearance, warnings = _find_clearance(search) if moves else (None, [])
    courses: list[SearchHistory] = []
    for number, earlier in enumerate(search.begin):
        given = earlier.shape
        if not isinstance(given, PointsShape) or given.q.shape != (r + 1, rows.robot.n):
            raise _other_design(number)
        if moves != (given.path is not None):
            raise _other_design(number)
    shape = design_points(
        rows, criterion=criterion, weights=weights, limits=limits, points=r, effort=search.effort,
        starts=search.starts or STARTS, seed=search.seed, noise=noise, time_left=lambda: deadline - time.monotonic(),
        on_progress=search.on_progress, on_history=courses.append, target=search.target,
        begin=[earlier.shape for earlier in search.begin],  # type: ignore[misc]
        clearance=clearance,
    )  # fmt: skip
    if search.rest is not None:
        shape = _approach_within_efforts(search, shape, search.rest)
        _check_approach(search, clearance, shape)
    stopped = courses[0].stopped or time.monotonic() > deadline
    warnings += [Message("search_stopped_early", "stopped early: the best so far is given")] if stopped else []
    W = rows.matrix(shape.exciting_motion())
    sigma = None if noise is None else np.tile(noise, len(W) // rows.rows_per_sample)
    judge = find_criterion(
        criterion, weights=weights, mask=rows.nonzero_entries(len(W)), noise=sigma, target=search.target
    )
    box = Limits(
        np.clip(limits.position, -np.pi, np.pi), np.minimum(limits.velocity, 2.0), limits.acceleration, limits.effort
    )
    q, v = random_points(box, r, np.random.default_rng(search.seed))
    at_random = rows.matrix(Motion(np.arange(r + 1.0), q, v, np.zeros_like(q)))
    value, first = judge.value(W), judge.value(at_random)
    history = replace(courses[0].with_final_value(value), stopped=stopped)
    return Excitation(
        rows.robot, shape, rows, limits, criterion, value, first, tuple(warnings), search.effort, history, noise,
        clearance=clearance,
    )  # fmt: skip


def _approach_within_efforts(search: _Search, shape: PointsShape, rest: Array) -> PointsShape:
    """The motion with a way from and to a pose of rest, slow enough for its torques to keep their limits."""
    for share in SLOWER:
        slow = replace(
            search.limits, velocity=share * search.limits.velocity, acceleration=share**2 * search.limits.acceleration
        )
        found = shape.with_approach(rest, slow)
        if _use_of_efforts(search, found).max() <= 1.0:
            return found
    return found


def _use_of_efforts(search: _Search, shape: PointsShape) -> Array:
    """Bound on the share of the effort limits that a motion takes, (n,); finer where samples are what exceeds them."""
    if search.effort is None:
        return np.zeros(1)
    use = search.effort.use_of_limits(shape.motion(TORQUE_RATE))
    return use if use.max() <= 1.0 else search.effort.use_of_limits(shape.motion(FINER * TORQUE_RATE))


def _check_approach(search: _Search, clearance: Clearance | None, shape: PointsShape) -> None:
    """Raise where torques exceed their limits, or clearance is missing, on the way from or to a given pose of rest."""
    if (hit := violation_of_path(shape, clearance)) is not None:
        raise ExcitationError(hit.message().about("entry from rest"))
    use = _use_of_efforts(search, shape)
    if use.max() > 1.0:
        raise ExcitationError(
            "no_entry_from_rest", "no way from the rest pose keeps the effort limit of joint '{joint}'",
            "choose another rest pose", joint=search.rows.robot.joint_names[int(np.argmax(use))],
        )  # fmt: skip
