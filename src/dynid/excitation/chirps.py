"""Chirps and steps after a designed motion, for drives: what shows delays, armature and dry friction.

All joints sweep over frequencies at once, every other one downwards, as far as their limits allow at each frequency;
then each makes steps, as fast as its limits allow. Both begin and end at rest in the posture where the motion ended.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline, make_interp_spline

from dynid.errors import ExcitationError
from dynid.excitation.excitation import Excitation
from dynid.excitation.shape import Extremes, Shape, middle_and_half_range
from dynid.messages import Message, Option
from dynid.robot.motion import Motion
from dynid.robot.robot import Limits
from dynid.robot.transform import Array

SWEEP = (0.4, 6.0)
"""Lowest and highest frequency (Hz) of chirps."""

CHIRP, STEPS = 12.0, 4
"""Seconds of the chirps, and steps of each joint."""

LARGEST = 0.35
"""Largest amplitude (rad, m) of chirps and steps, and the share of the half range that they use."""

TORQUE_RATE = 200.0
"""Samples per second at which torques are checked."""

_FINE = 500.0
"""Samples per second through which the curves are laid."""

HALVINGS = 6


@dataclass(frozen=True, eq=False)
class ChirpShape:
    """A designed motion, and a curve (chirps and steps) from where it ends at rest, back to there."""

    base: Shape
    curve: BSpline
    length: float

    @property
    def duration(self) -> float:
        """Seconds from rest to rest."""
        return self.base.duration + self.length

    def sample(self, t: Array) -> Motion:
        """Samples of the curve alone."""
        return Motion(t, *(self.curve(t, k) for k in range(3)))

    def motion(self, rate: float) -> Motion:
        """Samples of the whole: the designed motion, then chirps and steps."""
        first = self.base.motion(rate)
        after = self.sample(np.arange(1, int(self.length * rate) + 1) / rate)
        return Motion(
            np.concatenate([first.t, first.t[-1] + after.t]), np.vstack([first.q, after.q]),
            np.vstack([first.v, after.v]), np.vstack([first.a, after.a]),
        )  # fmt: skip

    def exciting_motion(self) -> Motion:
        """Samples of the designed part, over which the condition number is taken."""
        return self.base.exciting_motion()

    def extremes(self) -> Extremes:
        """Extremes of both parts; those of the curve are bounded between its samples by the derivative above."""
        first, own = self.base.extremes(), curve_extremes(self.curve, self.length)
        return Extremes(
            np.minimum(first.lowest, own.lowest), np.maximum(first.highest, own.highest),
            np.maximum(first.speed, own.speed), np.maximum(first.acceleration, own.acceleration),
            np.maximum(first.jerk, own.jerk),
        )  # fmt: skip


def curve_extremes(curve: BSpline, length: float) -> Extremes:
    """Bounds on a spline of fifth order at every instant: extremes of samples, and what may happen between them."""
    t = np.linspace(0.0, length, int(8 * _FINE * length) + 1)
    half = 0.5 * (t[1] - t[0])
    d = [np.abs(curve(t, k)).max(axis=0) for k in range(1, 5)]
    q = curve(t)
    return Extremes(
        q.min(axis=0) - half * d[0], q.max(axis=0) + half * d[0], d[0] + half * d[1], d[1] + half * d[2],
        d[2] + half * d[3],
    )  # fmt: skip


def add_chirps_and_steps(found: Excitation, bounds: Limits) -> Excitation:
    """The motion followed by chirps and steps inside limits, torques and the cell; bounds: limits less their margin.

    Amplitudes are halved until all is kept; ExcitationError where even small ones are not.
    """
    start = found.shape.motion(TORQUE_RATE).q[-1]
    share, shift = np.full(len(start), 1.0), 1.0
    reason: Message | None = None
    for attempt in range(HALVINGS):
        shift = 1.0 if attempt < HALVINGS - 2 else 0.0  # the middle may not be free, where the motion ends is
        center = start + shift * (_center(start, bounds) - start)
        there = _move(start, center, bounds)
        q = np.vstack([there, _chirps(center, bounds, share)[1:], _steps(center, bounds, share)[1:], there[-2::-1]])
        t = np.arange(len(q)) / _FINE
        ends: Any = ([(1, np.zeros(len(start))), (2, np.zeros(len(start)))],) * 2
        curve = make_interp_spline(t, q, k=5, bc_type=ends)
        shape = ChirpShape(found.shape, curve, float(t[-1]))
        reason, worst = _violation(found, shape, bounds)
        if reason is None:
            notes = found.warnings
            if share.min() < 0.3:
                notes = (*notes, Message(
                    "chirps_small", "chirps and steps are {share:.0f} % of what the limits of joints allow, to keep "
                    "clear of the cell and of torque limits", "start elsewhere with {rest}",
                    share=100.0 * float(share.min()), rest=Option("rest"),
                ))  # fmt: skip
            return replace(found, shape=shape, warnings=notes)
        share = np.where(worst, 0.5 * share, share)
    raise ExcitationError(
        "no_room_for_chirps", "there is no room for chirps and steps: {reason}", "choose another rest pose, or wider "
        "limits", reason="" if reason is None else reason.what,
    )  # fmt: skip


def _violation(found: Excitation, shape: ChirpShape, bounds: Limits) -> tuple[Message | None, NDArray[np.bool_]]:
    """What a curve violates first, and the joints whose amplitude is to be halved."""
    n = len(bounds.velocity)
    everywhere = np.ones(n, dtype=np.bool_)
    e = curve_extremes(shape.curve, shape.length)
    over = (
        (e.lowest < bounds.position[:, 0]) | (e.highest > bounds.position[:, 1]) | (e.speed > bounds.velocity)
        | (e.acceleration > bounds.acceleration) | (e.jerk > bounds.jerk)
    )  # fmt: skip
    if over.any():
        names = [name for name, x in zip(found.robot.joint_names, over, strict=True) if x]
        return Message("limits_exceeded", "joints {joints} exceed their limits", joints=names), over
    t = np.arange(0.0, shape.length, 1.0 / TORQUE_RATE)
    if found.effort is not None:
        use = np.asarray(found.effort.use_of_limits(shape.sample(t)))
        if use.max() > 1.0:
            name = found.robot.joint_names[int(np.argmax(use))]
            what = "torques of joint '{joint}' exceed their limit"
            return Message("effort_exceeded", what, joint=name), everywhere
    if found.clearance is not None:
        hit = found.clearance.first_violation(shape.sample, shape.length, e)
        if hit is not None:
            return hit.message(), everywhere
    return None, everywhere


def _available_amplitude(start: Array, bounds: Limits) -> Array:
    """Amplitude (n,) that positions allow about the start."""
    middle, half = middle_and_half_range(bounds)
    room = np.where(np.isfinite(half), half - np.abs(start - np.where(np.isfinite(half), middle, start)), LARGEST)
    return np.minimum(0.9 * np.maximum(room, 0.0), LARGEST)


def _center(start: Array, bounds: Limits) -> Array:
    """Posture nearest to the start with room for chirps on both sides."""
    middle, half = middle_and_half_range(bounds)
    free = np.where(np.isfinite(half), np.maximum(half - LARGEST / 0.9, 0.0), np.inf)
    return np.where(np.isfinite(half), np.clip(start, middle - free, middle + free), start)


def _duration(size: float, bounds: Limits, j: int) -> float:
    """Seconds of a quintic from rest to rest over a size, by 90 % of the limits.

    Its peaks over s in T are 1.875 s / T, 5.774 s / T^2 and 60 s / T^3.
    """
    return float(max(1.9 * size / (0.9 * bounds.velocity[j]), np.sqrt(5.9 * size / (0.9 * bounds.acceleration[j])),
                     np.cbrt(61.0 * size / (0.9 * bounds.jerk[j])), 0.04))  # fmt: skip


def _rise(length: float) -> Array:
    """Samples of a quintic from 0 to 1 at rest, the first left out."""
    count = max(int(np.ceil(length * _FINE)), 8)
    s = np.arange(1, count + 1) / count
    return np.asarray(s**3 * (10.0 - 15.0 * s + 6.0 * s**2))


def _move(start: Array, end: Array, bounds: Limits) -> Array:
    """Positions (N, n) of a straight move at a quarter of the speed."""
    size = np.abs(end - start)
    length = 4.0 * max(_duration(float(size[j]), bounds, j) for j in range(len(start)))
    return np.vstack([start[None], start + _rise(length)[:, None] * (end - start)])


def _fade(t: Array, length: float, ramp: float) -> Array:
    """Smooth window, 0 with its first derivatives at both ends."""
    x = np.clip(np.minimum(t, length - t) / ramp, 0.0, 1.0)
    return x**3 * (10.0 - 15.0 * x + 6.0 * x**2)


def _chirps(start: Array, bounds: Limits, share: Array) -> Array:
    """Positions (N, n) of all joints while they sweep."""
    t = np.arange(0.0, CHIRP + 0.5 / _FINE, 1.0 / _FINE)
    low, high = SWEEP
    ratio = np.log(high / low)
    out = np.tile(start, (len(t), 1))
    for j in range(len(start)):
        x = t / CHIRP if j % 2 == 0 else 1.0 - t / CHIRP
        f = low * np.exp(ratio * x)
        phase = 2.0 * np.pi * np.cumsum(f) / _FINE + 0.7 * j
        w = 2.0 * np.pi * f
        most = (_available_amplitude(start, bounds)[j] + 0.0 * w, bounds.velocity[j] / w, bounds.acceleration[j] / w**2,
                bounds.jerk[j] / w**3)  # fmt: skip
        amplitude = 0.9 * np.sum([np.maximum(x, 1e-9) ** -4.0 for x in most], axis=0) ** -0.25  # the least, smoothly
        out[:, j] += share[j] * amplitude * _fade(t, CHIRP, 1.0) * np.sin(phase)
    return out


def _steps(start: Array, bounds: Limits, share: Array) -> Array:
    """Positions (N, n) of steps to and fro, joint after joint, each as fast as its limits allow."""
    rows = [start[None]]
    pause = np.zeros(int(0.25 * _FINE))
    signs = [1.0 if k % 2 == 0 else -1.0 for k in range(STEPS)]
    for j in range(len(start)):
        size = 0.6 * share[j] * _available_amplitude(start, bounds)[j]
        rise = _rise(_duration(size, bounds, j))
        for sign in signs:
            wave = np.concatenate([rise, np.ones_like(pause), 1.0 - rise, pause])
            part = np.tile(start, (len(wave), 1))
            part[:, j] += sign * size * wave
            rows.append(part)
    return np.vstack(rows)
