"""The linear equation of drives: torque of the controller = rigid body + armature + friction, all filtered alike.

Positions become splines, from which velocities and accelerations follow at any instant; the command is held between
its samples and shifted by a delay; every column passes the same zero-phase low-pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline, make_lsq_spline
from scipy.signal import firwin, oaconvolve

from dynid.actuators.controller import Controller, applied_command, limit_rate
from dynid.concurrency import cached_property
from dynid.dynamics.friction import FrictionShapes, joint_scales, stop_width_at_rest
from dynid.dynamics.regressor import regressor_chunks
from dynid.errors import LogError
from dynid.logs.commands import CommandedMotion
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

DEGREE = 5
GRID = 0.002
"""Time step (s) on which columns are evaluated before they are filtered."""

SLOWEST, FASTEST = 2.0, 25.0
"""Cut-off frequencies (Hz) that are considered."""

NOISE = 0.004
"""Largest share of noise in the power of filtered accelerations."""

SHORTEST = 1.5
"""Seconds of a stretch without gaps that is used."""

BLOCK = 1.0
"""Seconds of the blocks that the jackknife leaves out."""

LEAD = "lead"
RECIPE = ("coulomb", "tanh", "stop0.001", "stop0.01", LEAD)
"""Blocks of dry friction: their sum is what a sliding joint feels. LEAD turns before the velocity does."""

_LEAD_TIME, _LEAD_WIDTH = 0.0095, 0.01
"""Seconds by which MuJoCo's soft dry friction leads by default, and the velocity (rad/s) over which it turns."""


def fit_spline(t: Array, q: Array, spacing: float) -> BSpline:
    """Fit a quintic spline with evenly spaced knots by least squares."""
    count = max(int((t[-1] - t[0]) / spacing), 2)
    inner = np.linspace(t[0], t[-1], count + 1)[1:-1]
    knots = np.r_[[t[0]] * (DEGREE + 1), inner, [t[-1]] * (DEGREE + 1)]
    return make_lsq_spline(t, q, knots, DEGREE)


def knot_spacing(period: float, cutoff: float) -> float:
    """Time between knots (s) that keeps motion up to 2.5 times the cut-off frequency, and two samples each."""
    return max(0.2 / cutoff, 2.2 * period)


def split_at_gaps(logs: Sequence[CommandedMotion]) -> list[CommandedMotion]:
    """Parts of recordings without gaps in time; those that are too short are left out."""
    parts = []
    for log in logs:
        limit = max(5.0 * log.period, 0.02)
        cuts = np.flatnonzero(np.diff(log.t) > limit)
        edges = np.r_[log.t[0], 0.5 * (log.t[cuts] + log.t[cuts + 1]), log.t[-1] + log.period]
        parts += [log.between(a, b) for a, b in pairwise(edges)]
    long = [part for part in parts if len(part.t) > 20 and part.t[-1] - part.t[0] >= SHORTEST]
    if not long:
        raise LogError(
            logs[0].name, "log_too_short", "there is no stretch of {seconds} s without a gap in it",
            "record some seconds of motion", seconds=SHORTEST,
        )  # fmt: skip
    return long


@dataclass(frozen=True, eq=False)
class Bandwidth:
    """Cut-off frequency (Hz) of the equation, noise (n,) of the positions, rad, and by how much both were chosen."""

    cutoff: float
    noise: Array


def choose_bandwidth(parts: Sequence[CommandedMotion], cutoff: float | None) -> Bandwidth:
    """Largest cut-off at which noise is a small share of the accelerations, not beyond what the motion holds."""
    n = parts[0].q.shape[1]
    frequencies = np.geomspace(SLOWEST, FASTEST, 40)
    signal, noise, variance, seconds = np.zeros((40, n)), np.zeros((40, n)), np.zeros(n), 0.0
    total = np.zeros(n)
    for part in parts:
        spacing = max(0.012, 2.2 * part.period)
        spline = fit_spline(part.t, part.q, spacing)
        length = part.t[-1] - part.t[0]
        free = max(1.0 - length / spacing / len(part.t), 0.1)
        s2 = np.maximum(((spline(part.t) - part.q) ** 2).mean(axis=0) / free, 1e-18)
        grid = np.arange(part.t[0], part.t[-1], 0.25 * spacing)
        a = spline(grid, 2)
        window = np.hanning(len(grid))[:, None]
        power = np.abs(np.fft.rfft((a - a.mean(axis=0)) * window, axis=0)) ** 2
        power /= (window**2).sum() * len(grid) / 2.0
        f = np.fft.rfftfreq(len(grid), 0.25 * spacing)
        below = np.array([power[f <= x].sum(axis=0) for x in frequencies])
        own = 2.0 * s2 * part.period * (2.0 * np.pi) ** 4 * frequencies[:, None] ** 5 / 5.0
        signal, noise, variance = signal + length * below, noise + length * own, variance + length * s2
        total = total + length * below[-1]
        seconds += length
    clean = np.maximum(signal - noise, 1e-12)
    share = np.median(noise / clean, axis=1)
    held = np.median(clean / clean.max(axis=0), axis=1)
    by_noise = frequencies[np.flatnonzero(share <= NOISE)[-1]] if (share <= NOISE).any() else SLOWEST
    by_motion = frequencies[int(np.argmax(held >= 0.97))]
    chosen = min(by_noise, max(1.3 * by_motion, 5.0), 0.2 / max(part.period for part in parts))
    return Bandwidth(float(chosen if cutoff is None else cutoff), np.sqrt(variance / seconds))


def encoder_steps(q: Array) -> Array:
    """Resolution (n,) of encoders, where positions are multiples of one; 0 where none is visible."""
    found = np.zeros(q.shape[1])
    for j, x in enumerate(q.T):
        gaps = np.diff(np.unique(x))
        gaps = gaps[gaps > 1e-9 * max(np.ptp(x), 1e-9)]
        if not len(gaps) or len(gaps) > 0.9 * len(x):
            continue
        step = float(np.median(gaps[gaps < 1.5 * gaps.min()]))
        multiples = gaps / step
        if np.abs(multiples - np.round(multiples)).max() < 0.1 and step > 1e-7:
            found[j] = step
    return found


class HeldSignals:
    """Signals (N, k) that are held from each of their instants to the next, or interpolated; their means over cells."""

    def __init__(self, t: Array, x: Array, rate: float) -> None:
        period = float(np.median(np.diff(t)))
        self._edges = np.r_[t, t[-1] + period]
        self._x = x
        steps = np.diff(self._edges)[:, None]
        self._is_held = not rate > 1.2 / period
        self._lag = 0.0 if self._is_held else 0.5 / rate
        following = np.vstack([x[1:], x[-1:]])
        self._rise = np.zeros_like(x) if self._is_held else (following - x) / steps
        self._integral = np.vstack([np.zeros(x.shape[1]), np.cumsum(steps * x + 0.5 * steps**2 * self._rise, axis=0)])

    def means(self, at: Array, width: float, delay: float) -> Array:
        """Means over cells of a width (s) about instants, of the signals delayed by some seconds."""
        edges = np.r_[at - 0.5 * width, at[-1] + 0.5 * width] - delay - self._lag
        return np.asarray(np.diff(self._integrals(edges), axis=0) / np.diff(edges)[:, None])

    def values(self, at: Array, delay: float) -> Array:
        """Values at instants of the signals delayed by some seconds."""
        index, after = self._cell(at - delay - self._lag)
        return np.asarray(self._x[index] + after[:, None] * self._rise[index])

    def _cell(self, x: Array) -> tuple[Any, Array]:
        index = np.clip(np.searchsorted(self._edges, x, side="right") - 1, 0, len(self._x) - 1)
        return index, np.maximum(x - self._edges[index], 0.0)

    def _integrals(self, x: Array) -> Array:
        """Integrals from the first instant; before it the first value held."""
        index = np.clip(np.searchsorted(self._edges, x, side="right") - 1, 0, len(self._x) - 1)
        after = (x - self._edges[index])[:, None]
        rise = np.where(after > 0.0, self._rise[index], 0.0)
        return np.asarray(self._integral[index] + after * self._x[index] + 0.5 * after**2 * rise)


class StretchColumns:
    """Unfiltered columns of one stretch on a fine grid."""

    def __init__(
        self, robot: Robot, part: CommandedMotion, bandwidth: Bandwidth, controller: Controller,
        friction: tuple[str, ...], links: tuple[int, ...],
    ) -> None:  # fmt: skip
        self.part = part
        spacing = knot_spacing(part.period, bandwidth.cutoff)
        self.spline = fit_spline(part.t, part.q, spacing)
        self.t = np.arange(part.t[0] + 0.5 * spacing, part.t[-1] - 0.5 * spacing, GRID)
        self.q, self.v, self.a = (self.spline(self.t, k) for k in range(3))
        motion = Motion(self.t, self.q, self.v, self.a)
        X = robot.parameters.copy()
        X[[k for k, name in enumerate(robot.parameter_names) if name.symbol == "Ia"]] = 0.0
        owners = [[k for k, p in enumerate(robot.parameter_names) if p.link == robot.links[i].name] for i in links]
        rigid, by_link = [], []
        for W in regressor_chunks(robot, motion):
            rigid.append((W.matrix @ X).reshape(-1, robot.n))
            by_link.append(
                np.stack([(W.matrix[:, own] @ X[own]).reshape(-1, robot.n) for own in owners], axis=2)
                if owners else np.zeros((len(rigid[-1]), robot.n, 0))
            )  # fmt: skip
        self.rigid, self.by_link = np.concatenate(rigid), np.concatenate(by_link)
        smoothed = float(np.median(bandwidth.noise)) * min(1.0, np.sqrt(part.period / spacing))
        scale = joint_scales(robot, np.ptp(part.q, axis=0))
        known = tuple(name for name in friction if name != LEAD)
        shapes = FrictionShapes(known, scale, stop_width_at_rest(smoothed))
        stops = shapes.stop_values_along(self.q, shapes.initial_stop_states(self.q, 0))
        self.friction = shapes.column_values(self.t, self.q, self.v, stops, self.rigid)
        if LEAD in friction:
            lead = np.tanh((self.v + _LEAD_TIME * self.a) / (_LEAD_WIDTH * scale))
            self.friction = np.insert(self.friction, friction.index(LEAD), lead, axis=1)
        rate = controller.rate
        shape = part.q.shape
        commands = {key: part.commands.get(key) for key in ("q_cmd", "v_cmd", "tau_ff", "pwm")}
        if commands["q_cmd"] is not None:
            commands["q_cmd"] = limit_rate(part.t, commands["q_cmd"], controller.rate_limit)
        self.has = {key for key, x in commands.items() if x is not None}
        filled = [np.zeros(shape) if x is None else x for x in commands.values()]
        self._held = HeldSignals(part.t, np.hstack(filled), rate)
        v = part.v if part.v is not None else self.spline(part.t, 1)
        self._measured = HeldSignals(part.t, np.hstack([part.q, v]), rate)

    def drive(
        self, c: Controller, delay: float, loop: str, sensor_delay: float
    ) -> tuple[Array, dict[str, Array], Array]:
        """Torque of the known gains (N, n), what unknown ones multiply, and the torque without its limit."""
        n = self.q.shape[1]
        held = self._held.means(self.t, GRID, delay).reshape(-1, 4, n)
        q_cmd, v_cmd, forward, pwm = (held[:, k] for k in range(4))
        if loop == "host":
            seen = self._measured.means(self.t, GRID, delay).reshape(-1, 2, n)
            q, v = seen[:, 0], seen[:, 1]
        elif sensor_delay:
            q, v = (self.spline(np.clip(self.t - sensor_delay, *self.part.t[[0, -1]]), k) for k in range(2))
        else:
            q, v = self.q, self.v
        position = np.array([kind in ("position", "servo") for kind in c.kind])
        feedback = np.array([kind in ("position", "velocity", "servo") for kind in c.kind])
        e, rate = np.where(position, q_cmd - q, 0.0), np.where(feedback, v_cmd - v, 0.0)
        servo = np.array([kind == "servo" for kind in c.kind])
        current = np.array([kind == "current" for kind in c.kind])
        kp, kd, gain = (np.nan_to_num(x) for x in (c.kp, c.kd, c.gain))
        tau = np.where(servo, 0.0, kp * e + kd * rate + np.where(current, gain * forward, forward))
        bases = {"kp": e, "kd": rate, "gain": forward, "torque_constant": np.zeros_like(e)}
        if servo.any():
            duty = applied_command(pwm if "pwm" in self.has else kp * e + kd * rate, c.dead_band)
            kt = np.nan_to_num(c.torque_constant)
            tau = np.where(servo, kt / c.resistance * (c.voltage * duty - kt * self.v), tau)
            bases["torque_constant"] = np.where(servo, c.voltage / c.resistance * duty, 0.0)
        unknown = np.array([bool(c.unknown(j)) for j in range(n)])
        limit = np.where(np.isnan(c.max_torque) | unknown, np.inf, c.max_torque)
        return np.clip(tau, -limit, limit), bases, tau


@dataclass(frozen=True, eq=False)
class Rows:
    """Filtered and decimated rows: fixed (M, n, p) columns that no delay moves, target (M, n), links (M, n, L)."""

    fixed: Array
    rigid: Array
    links: Array


class Equation:
    """Filtered columns of all stretches, and the drive's torque for any delay.

    friction: blocks beside `viscous` and `offset`; links: those whose masses are sought.
    """

    def __init__(
        self, robot: Robot, parts: Sequence[CommandedMotion], bandwidth: Bandwidth, controller: Controller, *,
        friction: tuple[str, ...] = RECIPE, links: tuple[int, ...] = (), stretches: list[StretchColumns] | None = None,
        built_for: float = 0.0,
    ) -> None:  # fmt: skip
        self.robot, self.parts, self.bandwidth, self.controller = robot, tuple(parts), bandwidth, controller
        self.blocks = ("viscous", "offset", *friction)
        self.links = links
        self.built_for = built_for or bandwidth.cutoff
        self.stretches = stretches or [
            StretchColumns(robot, part, bandwidth, controller, self.blocks, links) for part in parts
        ]
        half = max(round(0.9 / bandwidth.cutoff / GRID), 2)
        self._taps = firwin(2 * half + 1, bandwidth.cutoff, fs=1.0 / GRID)
        self._half = half
        self._step = max(int(0.25 / bandwidth.cutoff / GRID), 1)
        self.stretches = [s for s in self.stretches if len(s.t) > 2 * half + 10 * self._step]
        if not self.stretches:
            raise LogError(
                parts[0].name, "log_too_short", "no stretch is long enough for a cut-off frequency of {cutoff:.3g} Hz",
                "record a longer motion", cutoff=bandwidth.cutoff,
            )  # fmt: skip

    def with_cutoff(self, cutoff: float) -> Equation:
        """Return the same columns behind another filter."""
        own = Bandwidth(cutoff, self.bandwidth.noise)
        return Equation(
            self.robot, self.parts, own, self.controller, friction=self.blocks[2:], links=self.links,
            stretches=self.stretches, built_for=self.built_for,
        )  # fmt: skip

    def without_block(self, name: str) -> Equation:
        """Return the equation without one of its friction blocks."""
        place = self.blocks.index(name)
        stretches = []
        for s in self.stretches:
            other = copy(s)
            other.friction = np.delete(s.friction, place, axis=1)
            stretches.append(other)
        return Equation(
            self.robot, self.parts, self.bandwidth, self.controller, links=self.links, stretches=stretches,
            friction=tuple(block for block in self.blocks[2:] if block != name), built_for=self.built_for,
        )  # fmt: skip

    def with_controller(self, controller: Controller) -> Equation:
        """Return the same motion behind a controller with other gains and limits."""
        return Equation(
            self.robot, self.parts, self.bandwidth, controller, friction=self.blocks[2:], links=self.links,
            stretches=self.stretches, built_for=self.built_for,
        )  # fmt: skip

    def filter(self, x: Array) -> Array:
        """Low-pass and decimate along the first axis; the ends, where the filter sees too little, are left out."""
        count = -(-(len(x) - 2 * self._half) // self._step)
        if not x.size:
            return np.zeros((count, *x.shape[1:]))
        flat = np.ascontiguousarray(x.reshape(len(x), -1))
        y = oaconvolve(flat, self._taps[:, None], mode="valid", axes=0)[:: self._step]
        return np.asarray(y.reshape(count, *x.shape[1:]))

    @cached_property
    def rows(self) -> Rows:
        """Columns in the order armature, then the friction blocks; the rigid torque; that of single links."""
        fixed = [
            self.filter(np.concatenate([s.a[:, None], s.friction], axis=1)).transpose(0, 2, 1) for s in self.stretches
        ]
        return Rows(
            np.concatenate(fixed),
            np.concatenate([self.filter(s.rigid) for s in self.stretches]),
            np.concatenate([self.filter(s.by_link) for s in self.stretches]),
        )

    @cached_property
    def block_numbers(self) -> NDArray[np.int64]:
        """Number of the block of about a second to which each row belongs."""
        numbers, first = [], 0
        for s in self.stretches:
            t = s.t[self._half : len(s.t) - self._half : self._step]
            count = max(round((t[-1] - t[0]) / BLOCK), 1)
            own = np.minimum(((t - t[0]) / (t[-1] - t[0]) * count).astype(np.int64), count - 1)
            numbers.append(first + own)
            first += count
        return np.concatenate(numbers)

    def drive(self, delay: float, loop: str, sensor_delay: float = 0.0) -> tuple[Array, dict[str, Array]]:
        """Filtered torque of the known gains (M, n), and what unknown ones multiply."""
        made = [s.drive(self.controller, delay, loop, sensor_delay) for s in self.stretches]
        known = np.concatenate([self.filter(tau) for tau, _, _ in made])
        sought = {key for j in range(self.robot.n) for key in self.controller.unknown(j)}
        bases = {key: np.concatenate([self.filter(b[key]) for _, b, _ in made]) for key in sought}
        return known, bases

    @cached_property
    def motion_noise(self) -> Array:
        """Covariance (n, 3, 3) that noise of the recorded positions leaves in filtered positions and derivatives.

        Of encoders with visible steps it is found by rounding the smooth motion again: at rest and at high rates their
        noise is not white. Other noise is taken as white.
        """
        rng = np.random.default_rng(0)
        total, count = np.zeros((self.robot.n, 3, 3)), 0
        for s in self.stretches:
            smooth, step = 1.07 * s.spline(s.part.t), encoder_steps(s.part.q)  # not the codes that were recorded
            phase = rng.uniform(0.0, 1.0, self.robot.n)
            with np.errstate(divide="ignore", invalid="ignore"):
                rounded = (np.floor(smooth / step + phase) - phase + 0.5) * step - smooth
            white = self.bandwidth.noise * rng.standard_normal(smooth.shape)
            noise = np.where(step > 0.0, rounded - np.nan_to_num(rounded).mean(axis=0), white)
            spline = fit_spline(s.part.t, noise, knot_spacing(s.part.period, self.built_for))
            x = np.stack([self.filter(spline(s.t, k)) for k in range(3)], axis=2)
            total += np.einsum("mja,mjb->jab", x, x)
            count += len(x)
        return total / count

    @cached_property
    def link_inertias(self) -> Array:
        """Mean inertia (n,) of the links about each joint, kg m^2, without armature."""
        n = self.robot.n
        q = np.concatenate([s.q[:: max(len(s.q) // 16, 1)][:16] for s in self.stretches])
        X = self.robot.parameters.copy()
        X[[k for k, name in enumerate(self.robot.parameter_names) if name.symbol == "Ia"]] = 0.0
        still, unit = np.zeros((len(q), n)), []
        for j in range(-1, n):
            a = np.zeros((len(q), n))
            if j >= 0:
                a[:, j] = 1.0
            motion = Motion(np.arange(float(len(q))), q, still, a)
            chunks = regressor_chunks(self.robot, motion)
            unit.append(np.concatenate([(W.matrix @ X).reshape(-1, n) for W in chunks]))
        return np.array([(unit[j + 1] - unit[0])[:, j].mean() for j in range(n)])

    def saturated(self, delay: float, loop: str, limit: Array) -> Array:
        """Share (M, n) of the time around each row at which the torque without its limit exceeds one."""
        ones = np.abs(self._taps) / np.abs(self._taps).sum()
        shares = []
        for s in self.stretches:
            beyond = (np.abs(s.drive(self.controller, delay, loop, 0.0)[2]) >= limit).astype(np.float64)
            shares.append(oaconvolve(beyond, ones[:, None], mode="valid", axes=0)[:: self._step])
        return np.concatenate(shares)
