"""A first look at a log: sampling rate, ranges, saturation, and mistakes that can be seen at once."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynid.errors import LogError
from dynid.logs.findings import ChannelScale, ChannelWatch, Findings, StrayValues, velocity_of_certain_motion
from dynid.logs.log import Log, Samples, Wiring
from dynid.logs.ordering import (
    Unwrapper,
    concatenate_samples,
    finite_rows,
    resolve_duplicate_stamps,
    split_at_restarts,
    zero_missing_torques,
)
from dynid.logs.stray_times import StrayTimes, usual_step
from dynid.messages import ANYTHING, Message, Option
from dynid.robot.force_sensor import CHANNELS
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

# Mistakes that a log's motion shows at once: wrong units of time and angles, velocities that are none.


SLOWEST_STEP = 1.0
"""Time (s) between samples from which on a motion cannot be seen; ms taken for s are longer."""

DEGREES = 180.0 / np.pi
LEAST_TORQUE = 1e-100
"""Torque (N m) below which numbers stand for zero: their squares are none."""

STANDING = 5e-3
"""A joint that moves less than this (rad, or as much of a prismatic joint's range) stands still."""

STANDING_LENGTH = 2e-4
"""The same for prismatic joints without limits, m."""

FEWEST = 50
"""Rows that tell what is usual in a channel."""

TURNS = 4.0 * np.pi
"""Room (rad) from which on a joint may be one that turns and turns."""


def check_time_steps(log: Log, samples: Samples) -> None:
    """Raise for time steps of a second or more in a motion: most often the time is in ms, us or ns."""
    step = float(np.median(np.diff(samples.t)))
    if step < SLOWEST_STEP or not _is_continuous_motion(samples):
        return
    unit = next(unit for unit, least in (("ns", 1e5), ("us", 1e2), ("ms", 0.0)) if step >= least)
    raise LogError(
        log.name, "sampling_too_slow", "the samples are {step:.3g} s apart, too far to see a motion between them",
        "if the time is in {unit}, say {units}, else record 50 samples per second or more", step=step, unit=unit,
        units=Option("units", {"t": unit}),
    )  # fmt: skip


def _is_continuous_motion(samples: Samples) -> bool:
    """Whether positions change little from row to row; rows of single postures jump about."""
    spread = samples.q.var(axis=0)
    moving = spread > 0.0
    if len(samples) < 4 or not moving.any():
        return False
    return bool(np.median((np.diff(samples.q, axis=0) ** 2).mean(axis=0)[moving] / spread[moving]) < 1.0)


def check_angle_units(log: Log, robot: Robot, samples: Samples) -> tuple[Message, ...]:
    """Raise for degrees given as radians; return notes on velocities that do not follow the positions.

    Degrees show where positions leave the limits by far and would fit as degrees, in most of the joints that have
    limits (a joint that may turn twice or more says nothing alone: it may be free to go on), or where velocities
    are 57 times the slope of the positions, or the other way round.
    """
    revolute = np.array([robot.links[k].kind == "revolute" for k in robot.active_links])
    q = samples.q
    span, reach = q.max(axis=0) - q.min(axis=0), np.abs(q).max(axis=0)
    room = robot.limits.position[:, 1] - robot.limits.position[:, 0]
    judged = revolute & np.isfinite(room) & (span > 0.0)
    beyond = judged & (span > np.maximum(2.0 * np.where(judged, room, 0.0), 10.0))
    fits = (span <= 1.1 * DEGREES * room) & (reach <= DEGREES * TURNS)
    certain = beyond.sum() > 1 or bool(np.any(beyond & (room < 0.99 * TURNS)))
    if certain and 2 * beyond.sum() > judged.sum() and fits[judged].all():
        j = int(np.argmax(np.where(beyond, span / room, 0.0)))
        raise LogError(
            log.name, "positions_look_like_degrees", "joint {joint} moves over {span:.4g} rad, which looks like "
            "degrees or like positions of the motor", "say {units} (and the same for v) or {gear}",
            joint=robot.joint_names[j], span=float(span[j]), units=Option("units", {"q": "deg"}), gear=Option("gear"),
        )  # fmt: skip
    if certain and 2 * beyond.sum() > judged.sum():
        j = int(np.argmax(np.where(beyond, span / room, 0.0)))
        raise LogError(
            log.name, "positions_beyond_limits", "joint {joint} moves over {span:.4g} rad, but its limits leave it "
            "{room:.3g}: motor positions ({gear}), or counts of an encoder?", "then convert them to rad",
            joint=robot.joint_names[j], span=float(span[j]), room=float(room[j]), gear=Option("gear"),
        )  # fmt: skip
    free = revolute & ~np.isfinite(room)
    wide = free & (span > TURNS)
    notes: tuple[Message, ...] = ()
    if wide.any() and 2 * wide.sum() > revolute.sum():
        notes = (
            Message(
                "many_turns_without_limits", "the joints {joints} make {turns:.2g} turns and have no limits:",
                "if these are degrees, say {units}", joints=[robot.joint_names[j] for j in np.flatnonzero(wide)[:6]],
                turns=float(span[wide].max() / (2.0 * np.pi)), units=Option("units", {"q": "deg"}),
            ),
        )  # fmt: skip
    return (*notes, *_check_velocities(log, robot, samples, revolute))


def flicker_range(q: Array) -> Array:
    """Range (n,) of positions (N, n) within which an encoder at standstill may flicker: five steps of it, not wide."""
    steps = np.abs(np.diff(q, axis=0))
    return np.asarray(np.minimum(5.0 * np.where(steps > 0.0, steps, np.inf).min(axis=0), 6.0 * STANDING))


def _typical_speeds(samples: Samples, revolute: NDArray[np.bool_]) -> Array:
    """Typical speed (n,) of every joint that moves: by means over stretches of time, 0 where it stands.

    An encoder that flickers at standstill moves no joint.
    """
    starts = np.arange(0, len(samples), max(1, len(samples) // 200))
    counts = np.diff(np.append(starts, len(samples)))
    q, t = (np.add.reduceat(x, starts, axis=0) for x in (samples.q, samples.t))
    q, t = q / counts[:, None], t / counts
    least = np.maximum(flicker_range(samples.q), np.where(revolute, STANDING, STANDING_LENGTH))
    speeds = np.abs(np.diff(q, axis=0)) / np.diff(t)[:, None]
    return np.asarray(np.where(np.ptp(q, axis=0) > least, np.quantile(speeds, 0.9, axis=0), 0.0))


def _check_velocities(log: Log, robot: Robot, samples: Samples, revolute: NDArray[np.bool_]) -> tuple[Message, ...]:
    """Raise where velocities are not the derivatives of positions; return notes on lesser differences."""
    if samples.v is None or len(samples) <= 20:
        return ()
    v, steps = samples.v, np.diff(samples.q, axis=0, prepend=samples.q[:1])
    jumps = revolute & (np.abs(np.abs(steps) / (2.0 * np.pi) - 1.0) < 0.1)
    if jumps.any():  # a counter that begins anew, now and then; degrees may make such steps all the time
        turns = np.where(jumps & (jumps.mean(axis=0) < 0.05), np.sign(steps), 0.0)
        samples = replace(samples, q=samples.q - 2.0 * np.pi * np.cumsum(turns, axis=0))
    speeds = _typical_speeds(samples, revolute)
    sizes = np.abs(v)
    sizes = sizes if sizes.all() else sizes[sizes > 0.0]
    coarse = float(sizes.min()) if sizes.size else 0.0  # velocities may be rounded; smaller ones are zero then
    wide = max(1, len(samples) // 2000)  # a slope over several samples is not drowned by noise
    slope = (samples.q[wide:] - samples.q[:-wide]) / (samples.t[wide:] - samples.t[:-wide])[:, None]
    middle = 0.5 * (v[wide:] + v[:-wide])
    power, size = (slope * middle).sum(axis=0), (slope**2).sum(axis=0)
    norm = np.sqrt(size * (middle**2).sum(axis=0))
    alike = np.divide(power, norm, out=np.zeros(robot.n), where=norm > 0.0)
    moving = (speeds > 0.0) & (np.ptp(samples.q, axis=0) > 10.0 * np.abs(np.diff(samples.q, axis=0)).mean(axis=0))
    silent = moving & (norm == 0.0) & (speeds > 2.0 * coarse)
    _raise_velocity_error(log, robot, silent, "velocity_all_zero", "zero throughout while the joint moves")
    opposite = moving & (alike < -0.95)
    if opposite.any():
        right = log.wiring.then(Wiring(sign_v=np.where(opposite, -1.0, 1.0))).options(robot)
        sign = [option for option in right if option.keyword == "sign"]
        remedy = "turn it with {sign}, " if sign else ""
        what = "the slope of its position with the other sign"
        _raise_velocity_error(log, robot, opposite, "velocity_sign", what, remedy, sign=sign)
    together = revolute & (speeds > 0.0) & (alike > 0.8)
    if together.any():
        ratio = float(np.median(power[together] / size[together]))
        for factor, q_unit, v_unit in ((DEGREES, "rad", "deg/s"), (1.0 / DEGREES, "deg", "rad/s")):
            if abs(np.log(ratio / factor)) < 0.1:
                raise LogError(
                    log.name, "velocity_units_differ", "velocities are {ratio:.3g} times the slope of the positions: "
                    "one of them is in degrees (perhaps {units})", ratio=ratio,
                    units=Option("units", {"q": q_unit, "v": v_unit}),
                )  # fmt: skip
    sure = moving & (alike > 0.95)
    ratio = float(np.median(power[sure] / size[sure])) if sure.any() else 1.0
    if abs(np.log(ratio)) > np.log(2.0):
        what = "{ratio:.3g} times the slope of the positions (units of q, v or t?)"
        _raise_velocity_error(log, robot, sure, "velocity_scale", what, ratio=ratio)
    strange = [robot.joint_names[j] for j in np.flatnonzero((speeds > 0.0) & (alike < 0.3) & (norm > 0.0))]
    if not strange:
        return ()
    smooth = (np.diff(samples.q, axis=0) ** 2).sum(axis=0) < 0.5 * samples.q.var(axis=0) * len(samples)
    if not smooth.any():
        return ()
    what = "velocities of {joints} do not follow the positions (sign, or order of the joints?)"
    return (Message("velocities_unlike_positions", what, joints=strange),)


def _raise_velocity_error(
    log: Log, robot: Robot, which: NDArray[np.bool_], code: str, what: str, remedy: str = "", **facts: Any
) -> None:
    """Raise LogError on the recorded velocities of some joints."""
    if which.any():
        raise LogError(
            log.name, code, "the velocity of {joints} is " + what, remedy + "leave velocities out with {columns}, or "
            "correct it",
            joints=[robot.joint_names[j] for j in np.flatnonzero(which)[:6]], columns=Option("columns", {"v": None}),
            **facts,
        )  # fmt: skip


ROWS = 65_536


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """rate (Hz) by the usual step; samples: what was looked at, finite and in order of time.

    saturation (n,): level at which a joint's torque is cut off, infinite where it is not. turning (n,): which joints
    are revolute, whose positions may have been recorded modulo a turn. notes: what a person should know. names: of the
    joints; scales: what is usual in each channel; joints: those whose torque counts. frozen_times (k, 2): intervals in
    which the recorder repeats a value. seconds: length of the whole recording, estimated from the share of it that was
    read; 0 where that is not known.
    """

    rate: float
    samples: Samples
    saturation: Array
    turning: NDArray[np.bool_]
    notes: tuple[Message, ...] = ()
    complete: bool = True
    names: tuple[str, ...] = ()
    scales: Mapping[str, ChannelScale] = field(default_factory=dict)
    joints: tuple[int, ...] = ()
    frozen_times: Array = field(default_factory=lambda: np.zeros((0, 2)))
    seconds: float = 0.0

    @property
    def speed(self) -> Array:
        """Usual velocity (n,): rms of differences over a tenth of a second, per second."""
        t, q = self.samples.t, self.samples.q
        step = min(max(1, round(0.1 * self.rate)), max(len(q) - 1, 0))
        moved = (q[step:] - q[: len(q) - step]) / np.maximum(t[step:] - t[: len(t) - step], 1e-9)[:, None]
        return np.asarray(np.sqrt((moved**2).mean(axis=0)))

    def standing_joints(self, scale: Array) -> NDArray[np.bool_]:
        """Mask (n,) of joints that stand still in the whole log, as far as it was seen to its end.

        scale (n,): what stands for one rad. Noise is averaged away before the range is measured. A joint that only
        flickers between two or three neighbouring steps of its encoder stands still, however coarse they are.
        """
        q = self.samples.q
        if not self.complete or len(q) < 4:
            return np.zeros(q.shape[1], dtype=np.bool_)
        starts = np.arange(0, len(q), max(1, len(q) // 200))
        means = np.add.reduceat(q, starts, axis=0) / np.diff(np.append(starts, len(q)))[:, None]
        return np.asarray(np.ptp(means, axis=0) < np.maximum(standing_range(scale), flicker_range(q)))


def standing_range(scale: Array) -> Array:
    """Range (n,) below which a joint stands still; scale (n,): what stands for one rad."""
    return np.maximum(STANDING * scale, STANDING_LENGTH)


def survey(
    log: Log, robot: Robot, *, measured: tuple[str, ...] = ("tau",), joints: tuple[int, ...] | None = None
) -> Survey:
    """Survey the first rows of a log; raise LogError for what no processing can repair.

    measured: channels that must be there, tau or reaction; joints: those whose torque counts, all where missing.
    """
    used = (tuple(range(robot.n)) if joints is None else joints) if "tau" in measured else ()
    turning = np.array([robot.links[k].kind == "revolute" for k in robot.active_links], dtype=np.bool_)
    first, complete, rows_in_all = _first_rows(log, robot, measured, used)
    scales = _channel_scales(first, complete, used)
    bad = {row for _, _, rows in StrayValues(scales, turning).find_corrupt_rows(first) for row in rows.tolist()}
    if bad and len(bad) < len(first):
        first = first.select_rows(np.setdiff1d(np.arange(len(first)), list(bad)))
    samples = _longest_ordered_run(log, first)
    check_time_steps(log, samples)
    notes = check_angle_units(log, robot, samples)
    saturation = np.full(robot.n, np.inf)
    if "reaction" in measured:
        assert samples.reaction is not None
        _check_reactions(log, robot, samples.reaction)
    if "tau" in measured:
        assert samples.tau is not None
        _check_torques(log, robot, samples.tau, used)
        levels = [_saturation_level(column, samples.q) for column in np.ascontiguousarray(samples.tau.T)]
        saturation = np.where(scales["tau"].is_coarse, np.inf, levels) if scales else np.array(levels)
    if scales:
        _find_clipping_levels(samples, saturation, scales)
    rate = _sampling_rate(samples.t)
    frozen_times = np.zeros((0, 2))
    if scales:
        watch = ChannelWatch(robot.joint_names, rate, scales, turning, used)
        watch.add_usable_rows(samples, np.arange(len(samples)))
        watch.close_log()
        watch.frozen_times = frozen_times = watch.find_frozen_times()
        samples = samples.select_rows(np.flatnonzero(~watch.are_frozen(samples.t))) if len(frozen_times) else samples
    samples = replace(samples, q=Unwrapper(turning, rate).unwrap(samples.q))
    return Survey(
        rate, samples, saturation, turning, notes, complete, robot.joint_names, scales, used, frozen_times,
        rows_in_all / rate,
    )  # fmt: skip


def _channel_scales(first: Samples, complete: bool, used: tuple[int, ...]) -> dict[str, ChannelScale]:
    """Usual values of the channels in the first rows, if these are enough; later ones may go further."""
    if len(first) < FEWEST:
        return {}
    channels = {name: getattr(first, name) for name in ("q", "v", "a", "tau", "reaction")}
    margin = 1.0 if complete else 5.0
    scales = {name: ChannelScale.from_values(x, margin) for name, x in channels.items() if x is not None}
    if "tau" in scales:
        unused = np.setdiff1d(np.arange(first.q.shape[1]), used)
        scales["tau"].step[unused], scales["tau"].low[unused], scales["tau"].high[unused] = np.inf, -np.inf, np.inf
    return scales


def _sampling_rate(t: Array) -> float:
    """Samples per second: by the mean of the steps within 1 % of the median one where these are most, else by it."""
    steps = np.diff(t)
    usual = float(np.median(steps))
    near = steps[np.abs(steps - usual) < 0.01 * usual]
    return float(1.0 / near.mean()) if len(near) > 0.5 * len(steps) else 1.0 / usual


def _first_rows(
    log: Log, robot: Robot, measured: tuple[str, ...], used: tuple[int, ...]
) -> tuple[Samples, bool, float]:
    """Finite rows from the beginning of the log, whether these are all of it, and an estimate of how many it has."""
    pieces: list[Samples] = []
    empty: Samples | None = None
    count = rows = 0
    done = np.nan
    complete = True
    for samples in log.chunks_of_whole_recording():
        if samples.q.shape[1] != robot.n:
            raise LogError(
                log.name, "joint_count_mismatch", "it has {given} joints, '{robot}' has {n}", given=samples.q.shape[1],
                robot=robot.name, n=robot.n,
            )  # fmt: skip
        missing = [name for name in measured if getattr(samples, name) is None]
        if missing:
            others = log.unused_columns
            beside = "; in addition to those in use it has {others}" if others else ""
            more = [f"... ({len(others)} in all)"] if len(others) > 20 else []
            topics = log.other_topics
            beside += "; it also has the topics {topics:12}, which {topic} joins" if topics else ""
            raise LogError(
                log.name, "missing_measured_channel", "it has no {quantity}",
                "name the columns with {columns}" + beside, channel=missing[0], topics=topics, topic=Option("topic"),
                quantity="joint torques" if missing[0] == "tau" else "forces on the base",
                columns=Option("columns", {missing[0]: [ANYTHING]}), others=[*others[:20], *more],
            )  # fmt: skip
        samples = zero_missing_torques(samples, used)
        good = finite_rows(samples)
        rows += len(samples)
        done = samples.done
        if good.any():
            pieces.append(samples if good.all() else samples.select_rows(np.flatnonzero(good)))
        elif len(samples):
            empty = samples
        count += int(good.sum())
        if count >= ROWS:
            complete = False
            if _any_joint_moves(pieces):
                break
            pieces = pieces[-1:]  # a robot that stands tells nothing: look further
            count = len(pieces[0])
    if rows < 2:
        raise LogError(log.name, "too_few_samples", "there are fewer than two samples in it")
    if not pieces:
        assert empty is not None
        raise _no_complete_row_error(log, empty, robot)
    return concatenate_samples(pieces), complete, rows / done if done > 0.0 else 0.0


def _any_joint_moves(pieces: list[Samples]) -> bool:
    """Whether any joint has left its place (by more than 0.01 rad or m)."""
    low = np.min([piece.q.min(axis=0) for piece in pieces], axis=0)
    high = np.max([piece.q.max(axis=0) for piece in pieces], axis=0)
    return bool((high - low).max() > 0.01)


def _no_complete_row_error(log: Log, samples: Samples, robot: Robot) -> LogError:
    """Return the error that names the columns without any value."""
    column, facts = "the column that is empty", dict[str, Any]()
    if not np.isfinite(samples.t).any():
        column, facts = "the column of time, which is empty", {"channel": "t"}
    else:
        for name in ("q", "v", "a", "tau", "reaction"):
            x = getattr(samples, name)
            gone = [] if x is None else np.flatnonzero(~np.isfinite(x).any(axis=0)).tolist()
            if gone:
                plate = CHANNELS if robot.sensor is None else robot.sensor.channels
                who = robot.joint_names if name != "reaction" else plate
                column = "the column of {channel} of {empty}, which is empty"
                facts = {"channel": name, "empty": [who[j] for j in gone]}
                break
    return LogError(log.name, "no_complete_row", "every row has a missing value", "leave out " + column, **facts)


def _longest_ordered_run(log: Log, samples: Samples) -> Samples:
    """Rows with increasing time: the longest run between two restarts of the clock."""
    usual = usual_step(samples.t)
    samples = samples.select_rows(np.flatnonzero(StrayTimes(usual).find_belonging(samples.t, final=True)))
    parts = [part for _, part in split_at_restarts(samples, -np.inf, usual)]
    longest = max(parts, key=len)
    if np.any(np.diff(longest.t) <= 0.0):
        longest = longest.select_rows(np.argsort(longest.t, kind="stable"))
    if longest.t[0] == longest.t[-1]:
        if len(samples) == 1:
            raise LogError(log.name, "too_few_samples", "only one row of it has no missing value")
        raise LogError(
            log.name, "time_constant", "time is constant ({time:.9g} s)", "name the column of time",
            time=float(longest.t[0]),
        )  # fmt: skip
    return resolve_duplicate_stamps(longest, np.inf, usual, Findings(log.name, 0.0))


def _check_reactions(log: Log, robot: Robot, reaction: Array) -> None:
    """Raise for forces on the base that do not fit the sensor or are all zero."""
    names = CHANNELS if robot.sensor is None else robot.sensor.channels
    if reaction.shape[1] != len(names):
        raise LogError(
            log.name, "force_channel_count_mismatch", "it has {given} channels of forces on the base, the sensor has "
            "{needed} ({channels})", "declare the sensor's channels in their order", given=reaction.shape[1],
            needed=len(names), channels=list(names),
        )  # fmt: skip
    silent = [name for name, column in zip(names, reaction.T, strict=True) if not np.any(column)]
    if len(silent) == len(names):
        raise LogError(
            log.name, "base_forces_all_zero", "all forces on the base are zero", "name their columns with {columns}",
            columns=Option("columns", {"reaction": [ANYTHING]}),
        )  # fmt: skip


def _check_torques(log: Log, robot: Robot, tau: Array, joints: tuple[int, ...]) -> None:
    """Raise where all torques are zero, or those of a joint in use."""
    acts = np.abs(tau).max(axis=0) > LEAST_TORQUE
    if not acts.any():
        raise LogError(
            log.name, "torques_all_zero", "all torques are zero", "name the columns of the torques with {columns}",
            columns=Option("columns", {"tau": [ANYTHING]}),
        )  # fmt: skip
    silent = [robot.joint_names[j] for j in joints if not acts[j]]
    if silent:
        others = [robot.joint_names[j] for j in joints if acts[j]]
        raise LogError(
            log.name, "joint_torque_zero", "the torque of joint {silent} is zero throughout",
            "leave the joint out ({joints}) or name its column", silent=silent, joints=Option("joints", others),
        )  # fmt: skip


def _saturation_level(tau: Array, q: Array) -> float:
    """Level at which a torque is cut off: a long run of exactly the largest value while the robot moves.

    Moving: the runs at the level make up 1 % of a joint's range, which standstill does not.
    """
    level = plateau_level(tau)
    if np.isinf(level):
        return level
    inside = np.flatnonzero(np.abs(tau) == level)
    inside = inside[1:][np.diff(inside) == 1]
    travel = np.abs(q[inside] - q[inside - 1]).sum(axis=0)
    return level if np.any(travel > 0.01 * (q.max(axis=0) - q.min(axis=0))) else np.inf


def plateau_level(x: Array) -> float:
    """Largest absolute value (N,) if it is held exactly for long: 5 rows, and 10 times the runs before and after.

    Those are long too where values are coarsely rounded.
    """
    level = float(np.abs(x).max())
    if np.count_nonzero(np.abs(x) == level) < 5:
        return np.inf
    last = np.append(np.flatnonzero(np.diff(x) != 0.0), len(x) - 1)  # of every run of equal values
    runs = np.diff(last, prepend=-1)
    at_level = np.flatnonzero(np.abs(x[last]) == level)
    longest = at_level[np.argmax(runs[at_level])]
    around = runs[[k for k in (longest - 1, longest + 1) if 0 <= k < len(runs)]]
    return np.inf if level == 0.0 or not len(around) or runs[longest] < max(5.0, 10.0 * around.mean()) else level


def _find_clipping_levels(samples: Samples, saturation: Array, scales: Mapping[str, ChannelScale]) -> None:
    """Store in `scales` the levels at which torques, velocities and positions are clipped, on one side or both."""
    step = scales["q"].step
    columns = {
        name: np.ascontiguousarray(x.T) for name in ("q", "v", "tau") if (x := getattr(samples, name)) is not None
    }
    extremes = {name: np.column_stack([x.min(axis=1), x.max(axis=1)]) for name, x in columns.items()}
    for j, side in itertools.product(range(len(step)), (0, 1)):
        sign, q = 2.0 * side - 1.0, columns["q"][j]
        if np.isfinite(saturation[j]):
            scales["tau"].limits[j, side] = sign * saturation[j]
        elif samples.tau is not None and np.isfinite(scales["tau"].step[j]) and not scales["tau"].is_coarse[j]:
            level, height = _extreme_value_and_range(columns["tau"][j], extremes["tau"][j], side)
            if level != 0.0 and height is not None and np.isfinite(_saturation_level(height, q[:, None])):
                scales["tau"].limits[j, side] = level
        if samples.v is not None and not scales["v"].is_coarse[j]:
            level, height = _extreme_value_and_range(columns["v"][j], extremes["v"][j], side)
            if height is not None and np.isfinite(plateau_level(height)):
                cut = np.flatnonzero(samples.v[1:, j] == level)
                slope = (q[cut + 1] - q[cut]) / (samples.t[cut + 1] - samples.t[cut])
                if slope.mean() * sign > 1.03 * abs(level):
                    scales["v"].limits[j, side] = level
        level, height = _extreme_value_and_range(q, extremes["q"][j], side)
        if height is None or np.isinf(plateau_level(height)):
            continue
        at_level = q == level
        begins = np.flatnonzero(at_level[2:] & ~at_level[1:-1])  # the steps before and after
        ends = np.flatnonzero(at_level[:-2] & ~at_level[1:-1]) + 1
        if not len(begins) or not len(ends):
            continue
        steps, abrupt = np.abs(np.diff(q)), max(0.05 * step[j], 5.0 * scales["q"].bend[j])
        moves = samples.v is not None and np.sqrt((samples.v[at_level, j] ** 2).mean()) > velocity_of_certain_motion(
            scales
        )
        if moves or min(steps[begins].mean(), steps[ends].mean()) > abrupt:
            scales["q"].limits[j, side] = level


def _extreme_value_and_range(x: Array, ends: Array, side: int) -> tuple[float, Array | None]:
    """Largest value (sign 1) or smallest (-1), and the distance (n,) of all values from it; None where it is rare."""
    level, other = float(ends[side]), float(ends[1 - side])
    return level, x - other if np.count_nonzero(x == level) >= 5 else None
