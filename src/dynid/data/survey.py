"""A first look at a log: sampling rate, ranges, saturation, and mistakes that can be seen at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.data.log import Log, Samples
from dynid.errors import LogError
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

ROWS = 131_072
DEGREES = 180.0 / np.pi


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """rate (Hz) by the median step; samples: what was looked at, finite and in order of time.

    saturation (n,): level at which a joint's torque is cut off, infinite where it is not.
    """

    rate: float
    samples: Samples
    saturation: Array


def survey(log: Log, robot: Robot, *, measured: str = "tau", joints: tuple[int, ...] | None = None) -> Survey:
    """Look at the first rows of a log; raise LogError for what no processing can repair.

    joints: those whose torque counts, all where missing.
    """
    first = _first_rows(log)
    if first.q.shape[1] != robot.n:
        raise LogError(log.name, f"it has {first.q.shape[1]} joints, '{robot.name}' has {robot.n}")
    if getattr(first, measured) is None:
        what = "joint torques" if measured == "tau" else "base reactions"
        raise LogError(log.name, f"it has no {what}; name the columns with columns={{'{measured}': [...]}}")
    clean = _in_order(log, first)
    steps = np.diff(clean.t)
    rate = float(1.0 / np.median(steps))
    near = steps[np.abs(steps * rate - 1.0) < 0.01]
    if len(near) > 0.9 * len(steps):
        rate = float(1.0 / near.mean())
    _check_angles(log, robot, clean)
    saturation = np.full(robot.n, np.inf)
    if measured == "tau":
        assert clean.tau is not None
        _check_torques(log, robot, clean.tau, tuple(range(robot.n)) if joints is None else joints)
        saturation = np.array([_saturation(clean.tau[:, j]) for j in range(robot.n)])
    return Survey(rate, clean, saturation)


def _first_rows(log: Log) -> Samples:
    pieces: list[Samples] = []
    for samples in log.surroundings():
        pieces.append(samples)
        if sum(map(len, pieces)) >= ROWS:
            break
    if sum(map(len, pieces)) < 2:
        raise LogError(log.name, "there are fewer than two samples in it")
    if len(pieces) == 1:
        return pieces[0]
    names = ("t", "q", *(name for name in ("v", "a", "tau", "reaction") if name in log.channels))
    return Samples(**{name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in names})


def _in_order(log: Log, samples: Samples) -> Samples:
    """Finite rows with increasing time."""
    keep = np.isfinite(samples.t)
    for x in (samples.q, samples.v, samples.a, samples.tau):
        if x is not None:
            keep &= np.isfinite(x).all(axis=1)
    if not keep.any():
        raise LogError(log.name, "every row has a missing value; leave out the column that is empty")
    order = np.flatnonzero(keep)
    if np.any(np.diff(samples.t[order]) <= 0.0):
        _, places = np.unique(samples.t[order], return_index=True)
        order = order[places]
    if len(order) < 2:
        raise LogError(log.name, f"time is constant ({samples.t[order[0]]:.9g} s); name the column of time")
    return samples.take(order) if len(order) < len(samples) or not keep.all() else samples


def _check_angles(log: Log, robot: Robot, samples: Samples) -> None:
    """Degrees given as radians: positions beyond all sense, or velocities that are 57 times too slow."""
    revolute = np.array([robot.links[k].kind == "revolute" for k in robot.active_links])
    if not revolute.any():
        return
    lower, upper = robot.limits.position.T
    q = samples.q[:, revolute]
    span, reach = q.max(axis=0) - q.min(axis=0), np.abs(q).max(axis=0)
    room = np.where(np.isfinite(upper - lower), upper - lower, 4.0 * np.pi)[revolute]
    fits = (span / DEGREES <= room) & (reach / DEGREES <= 4.0 * np.pi)
    if np.any((span > 2.0 * room) & (span > 10.0)) and fits.all():
        j = int(np.argmax(span / room))
        name = np.array(robot.joint_names)[revolute][j]
        raise LogError(
            log.name, f"joint {name} moves over {span[j]:.4g} rad, which looks like degrees; "
            "say units={'q': 'deg'} (--units q=deg) if it is, and the same for v"
        )  # fmt: skip
    if samples.v is not None and len(samples) > 20:
        ratio = _velocity_ratio(samples, revolute)
        for factor, q_unit, v_unit in ((DEGREES, "rad", "deg/s"), (1.0 / DEGREES, "deg", "rad/s")):
            if np.isfinite(ratio) and abs(np.log(ratio / factor)) < 0.1:
                raise LogError(
                    log.name, f"velocities are {ratio:.3g} times the slope of the positions: one of them is in "
                    f"degrees (perhaps units={{'q': '{q_unit}', 'v': '{v_unit}'}})"
                )  # fmt: skip


def _velocity_ratio(samples: Samples, chosen: Array) -> float:
    """How large measured velocities are compared with the slope of the positions."""
    assert samples.v is not None
    wide = max(1, len(samples) // 2000)  # a slope over several samples is not drowned by noise
    slope = (samples.q[wide:] - samples.q[:-wide]) / (samples.t[wide:] - samples.t[:-wide])[:, None]
    middle = 0.5 * (samples.v[wide:] + samples.v[:-wide])
    slope, middle = slope[:, chosen], middle[:, chosen]
    power = (slope * middle).sum()
    size = (slope**2).sum()
    if size == 0.0 or power <= 0.5 * np.sqrt(size * (middle**2).sum()):
        return float("nan")  # they do not go together: no statement
    return float(power / size)


def _check_torques(log: Log, robot: Robot, tau: Array, joints: tuple[int, ...]) -> None:
    if not np.any(tau):
        raise LogError(log.name, "all torques are zero; name the columns of the torques with columns={'tau': [...]}")
    silent = [robot.joint_names[j] for j in joints if not np.any(tau[:, j])]
    if silent:
        raise LogError(
            log.name, f"the torque of joint {', '.join(silent)} is zero throughout; leave the joint out "
            "(joints=[...], --joints) or name its column"
        )  # fmt: skip


def _saturation(tau: Array) -> float:
    """Level at which a torque is cut off: a long run of exactly the largest value, unlike the rest of the signal."""
    level = float(np.abs(tau).max())
    same = np.flatnonzero(np.diff(tau) != 0.0)
    runs = np.diff(np.concatenate([[-1], same, [len(tau) - 1]]))
    values = tau[np.concatenate([same, [len(tau) - 1]])]
    at_level = np.abs(values) == level
    others = runs[~at_level]
    if not len(others) or level == 0.0:
        return np.inf
    return level if runs[at_level].max() >= 5 and runs[at_level].max() > 10.0 * others.mean() else np.inf
