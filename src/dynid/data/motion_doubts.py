"""Mistakes that a log's motion shows at once: wrong units of time and angles, velocities that are none."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dynid.data.log import Log, Samples
from dynid.errors import LogError
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

SLOWEST_STEP = 1.0
"""Time (s) between samples from which on a motion cannot be seen; ms taken for s are longer."""

DEGREES = 180.0 / np.pi
STANDING = 5e-3
"""A joint that moves less than this (rad, or as much of a prismatic joint's range) stands still."""

STANDING_LENGTH = 2e-4
"""The same for prismatic joints without limits, m."""

TURNS = 4.0 * np.pi
"""Room (rad) from which on a joint may be one that turns and turns."""


def check_steps(log: Log, samples: Samples) -> None:
    """Raise for time steps of a second or more in a motion: most often the time is in ms, us or ns."""
    step = float(np.median(np.diff(samples.t)))
    if step < SLOWEST_STEP or not _follows_time(samples):
        return
    unit = next(unit for unit, least in (("ns", 1e5), ("us", 1e2), ("ms", 0.0)) if step >= least)
    raise LogError(
        log.name, f"the samples are {step:.3g} s apart, too far to see a motion between them; if the time is in "
        f"{unit}, say units={{'t': '{unit}'}} (--units t={unit}), else record 50 samples per second or more"
    )  # fmt: skip


def _follows_time(samples: Samples) -> bool:
    """Whether positions change little from row to row; rows of single postures jump about, at any time."""
    spread = samples.q.var(axis=0)
    moving = spread > 0.0
    if len(samples) < 4 or not moving.any():
        return False
    return bool(np.median((np.diff(samples.q, axis=0) ** 2).mean(axis=0)[moving] / spread[moving]) < 1.0)


def check_angles(log: Log, robot: Robot, samples: Samples) -> tuple[str, ...]:
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
            log.name, f"joint {robot.joint_names[j]} moves over {span[j]:.4g} rad, which looks like degrees; "
            "say units={'q': 'deg'} (--units q=deg) if it is, and the same for v"
        )  # fmt: skip
    if certain and 2 * beyond.sum() > judged.sum():
        j = int(np.argmax(np.where(beyond, span / room, 0.0)))
        raise LogError(
            log.name, f"joint {robot.joint_names[j]} moves over {span[j]:.4g} rad, but its limits leave it "
            f"{room[j]:.3g}: motor positions (gear=, --gear), or counts of an encoder? then convert them to rad"
        )  # fmt: skip
    free = revolute & ~np.isfinite(room)
    wide = free & (span > TURNS)
    notes: tuple[str, ...] = ()
    if wide.any() and 2 * wide.sum() > revolute.sum():
        names = ", ".join(robot.joint_names[j] for j in np.flatnonzero(wide)[:6])
        notes = (
            f"the joints {names} make {span[wide].max() / (2.0 * np.pi):.2g} turns and have no limits: if these are "
            "degrees, say units={'q': 'deg'} (--units q=deg)",
        )
    return (*notes, *_check_velocities(log, robot, samples, revolute))


def flicker_range(q: Array) -> Array:
    """Range (n,) of positions (N, n) within which an encoder at standstill may flicker: five steps of it, not wide."""
    steps = np.abs(np.diff(q, axis=0))
    return np.asarray(np.minimum(5.0 * np.where(steps > 0.0, steps, np.inf).min(axis=0), 6.0 * STANDING))


def _speeds(samples: Samples, revolute: NDArray[np.bool_]) -> Array:
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


def _check_velocities(log: Log, robot: Robot, samples: Samples, revolute: NDArray[np.bool_]) -> tuple[str, ...]:
    """Compare recorded velocities with the slopes of the positions, in joints that move."""
    if samples.v is None or len(samples) <= 20:
        return ()
    speeds = _speeds(samples, revolute)
    sizes = np.abs(samples.v[samples.v != 0.0])
    coarse = float(sizes.min()) if len(sizes) else 0.0  # velocities may be rounded; smaller ones are zero then
    wide = max(1, len(samples) // 2000)  # a slope over several samples is not drowned by noise
    slope = (samples.q[wide:] - samples.q[:-wide]) / (samples.t[wide:] - samples.t[:-wide])[:, None]
    middle = 0.5 * (samples.v[wide:] + samples.v[:-wide])
    power, size = (slope * middle).sum(axis=0), (slope**2).sum(axis=0)
    norm = np.sqrt(size * (middle**2).sum(axis=0))
    alike = np.divide(power, norm, out=np.zeros(robot.n), where=norm > 0.0)
    moving = (speeds > 0.0) & (np.ptp(samples.q, axis=0) > 10.0 * np.abs(np.diff(samples.q, axis=0)).mean(axis=0))
    silent = moving & (norm == 0.0) & (speeds > 2.0 * coarse)
    _refuse_velocities(log, robot, silent, "zero throughout while the joint moves")
    _refuse_velocities(log, robot, moving & (alike < -0.95), "the slope of its position with the other sign")
    together = revolute & (speeds > 0.0) & (alike > 0.8)
    if together.any():
        ratio = float(np.median(power[together] / size[together]))
        for factor, q_unit, v_unit in ((DEGREES, "rad", "deg/s"), (1.0 / DEGREES, "deg", "rad/s")):
            if abs(np.log(ratio / factor)) < 0.1:
                raise LogError(
                    log.name, f"velocities are {ratio:.3g} times the slope of the positions: one of them is in "
                    f"degrees (perhaps units={{'q': '{q_unit}', 'v': '{v_unit}'}})"
                )  # fmt: skip
    sure = moving & (alike > 0.95)
    ratio = float(np.median(power[sure] / size[sure])) if sure.any() else 1.0
    if abs(np.log(ratio)) > np.log(2.0):
        _refuse_velocities(log, robot, sure, f"{ratio:.3g} times the slope of the positions (units of q, v or t?)")
    strange = [robot.joint_names[j] for j in np.flatnonzero((speeds > 0.0) & (alike < 0.3) & (norm > 0.0))]
    smooth = (np.diff(samples.q, axis=0) ** 2).sum(axis=0) < 0.5 * samples.q.var(axis=0) * len(samples)
    if not strange or not smooth.any():
        return ()
    return (f"velocities of {', '.join(strange)} do not follow the positions (sign, or order of the joints?)",)


def _refuse_velocities(log: Log, robot: Robot, which: NDArray[np.bool_], problem: str) -> None:
    if which.any():
        names = ", ".join(robot.joint_names[j] for j in np.flatnonzero(which)[:6])
        raise LogError(
            log.name,
            f"the velocity of {names} is {problem}; leave velocities out with columns={{'v': None}}, or mend it",
        )
