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
from scipy.interpolate import BSpline
from scipy.linalg import solveh_banded

from dynid.actuators.controller import Controller, applied_command, limit_rate
from dynid.concurrency import cached_property
from dynid.dynamics.friction import FrictionShapes, joint_scales, stop_width_at_rest
from dynid.dynamics.kernels.compiled import compiled
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
    """Fit a quintic spline with evenly spaced knots by least squares.

    By banded normal equations: with even knots they are conditioned well, and take a thirtieth of the time of QR.
    """
    count = max(int((t[-1] - t[0]) / spacing), 2)
    inner = np.linspace(t[0], t[-1], count + 1)[1:-1]
    knots = np.r_[[t[0]] * (DEGREE + 1), inner, [t[-1]] * (DEGREE + 1)]
    B = BSpline.design_matrix(t, knots, DEGREE)
    G = (B.T @ B).tocsc()
    band = np.zeros((DEGREE + 1, G.shape[0]))
    for k in range(min(DEGREE + 1, G.shape[0])):
        band[DEGREE - k, k:] = G.diagonal(k)
    band[DEGREE] *= 1.0 + 1e-13  # a gap in time may leave a knot without samples
    return BSpline(knots, solveh_banded(band, np.asarray(B.T @ q)), DEGREE)


def fit_states(t: Array, q: Array, spacing: float) -> BSpline:
    """Fit a spline for positions and velocities at single instants: knots up to four times as wide where noise asks.

    By generalized cross-validation. Accelerations need closer knots.
    """
    best: tuple[float, BSpline] | None = None
    for factor in (0.7, 1.0, 1.4, 2.0, 2.8, 4.0):
        wide = max(factor * spacing, 2.2 * float(np.median(np.diff(t))))
        spline = fit_spline(t, q, wide)
        free = max(1.0 - len(spline.c) / len(t), 1e-3)
        score = float(np.log(np.mean((spline(t) - q) ** 2, axis=0) / free**2 + 1e-20).mean())
        if best is None or score < best[0]:
            best = score, spline
    assert best is not None
    return best[1]


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


def _new_commands(part: CommandedMotion) -> NDArray[np.bool_]:
    """Whether a command of a sample (N,) is another than the one before."""
    changes = np.zeros(len(part.t), dtype=np.bool_)
    for x in part.commands.values():
        changes[1:] |= (np.diff(x, axis=0) != 0.0).any(axis=1)
    return changes


def host_ticks(part: CommandedMotion, rate: float) -> NDArray[np.int64]:
    """Samples at which a host that is slower than the log computes torques: those at which its command is new."""
    count = len(part.t)
    if not rate < 0.8 / part.period or not part.commands:
        return np.arange(count)
    changes = _new_commands(part)
    phase = (part.t[changes] * rate) % 1.0 if changes.any() else np.zeros(1)
    first = float(np.angle(np.exp(2j * np.pi * phase).mean())) / (2.0 * np.pi)
    number = np.floor(part.t * rate - first + 0.5 * part.period * rate)
    return np.asarray(np.flatnonzero(np.r_[True, np.diff(number) > 0.0]))


def _with_lost_samples(t: Array, x: Array, period: float) -> tuple[Array, Array]:
    """Signals with samples that a log has lost, interpolated: a command would else be held for too long."""
    counts = np.maximum(np.round(np.diff(t) / period), 1.0).astype(np.int64)
    if counts.max(initial=1) == 1 or (counts > 1).mean() > 0.5:
        return t, x
    parts = np.concatenate([np.arange(m) / m for m in counts] + [np.zeros(1)])
    at = np.r_[np.repeat(np.arange(len(counts)), counts), len(t) - 1]
    after = np.minimum(at + 1, len(t) - 1)
    return t[at] + parts * (t[after] - t[at]), x[at] + parts[:, None] * (x[after] - x[at])


def command_rate(part: CommandedMotion) -> float:
    """How often per second commands change, where the log is clearly faster; NaN where it is not, or they seldom do."""
    changes = _new_commands(part)
    gaps = np.diff(np.flatnonzero(changes))
    if len(gaps) < 50:
        return float("nan")
    usual = float(np.median(gaps))
    regular = gaps[np.abs(gaps - usual) <= 1.0]
    if usual < 2.0 or usual * part.period > 0.06 or len(regular) < 0.8 * len(gaps):
        return float("nan")
    return float(1.0 / (regular.mean() * part.period))


class HeldSignals:
    """Signals (N, k) that are held from each of their instants to the next, or interpolated; their means over cells."""

    def __init__(self, t: Array, x: Array, rate: float) -> None:
        period = float(np.median(np.diff(t)))
        t, x = _with_lost_samples(t, x, period)
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
        return _means_between(edges, self._edges, self._x, self._rise, self._integral)

    def values(self, at: Array, delay: float) -> Array:
        """Values at instants of the signals delayed by some seconds."""
        index, after = self._cell(at - delay - self._lag)
        return np.asarray(self._x[index] + after[:, None] * self._rise[index])

    def _cell(self, x: Array) -> tuple[Any, Array]:
        index = np.clip(np.searchsorted(self._edges, x, side="right") - 1, 0, len(self._x) - 1)
        return index, np.maximum(x - self._edges[index], 0.0)


@compiled
def _means_between(at: Array, edges: Array, x: Array, rise: Array, integral: Array) -> Array:
    """Means of signals between instants `at`, which increase; before its first edge a signal has its first value.

    Signal k is x[i, k] + rise[i, k] (t - edges[i]) after edges[i], and its integral up to there integral[i, k].
    """
    count, signals = len(at) - 1, x.shape[1]
    means = np.empty((count, signals))
    last = np.empty(signals)
    i = 0
    for m in range(count + 1):
        while i < len(x) - 1 and edges[i + 1] <= at[m]:
            i += 1
        after = at[m] - edges[i]
        bend = 0.5 * after**2 if after > 0.0 else 0.0
        for k in range(signals):
            now = integral[i, k] + after * x[i, k] + bend * rise[i, k]
            if m > 0:
                means[m - 1, k] = (now - last[k]) / (at[m] - at[m - 1])
            last[k] = now
    return means


class StretchColumns:
    """Unfiltered columns of one stretch on a fine grid."""

    def __init__(
        self, robot: Robot, part: CommandedMotion, bandwidth: Bandwidth, controller: Controller,
        friction: tuple[str, ...], links: tuple[int, ...],
    ) -> None:  # fmt: skip
        self.part = part
        self.noise: Array | None = None
        """What noise of the recorded positions adds to q, v, a (N, 3 n), once it is known."""
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
        self._hold(controller)

    def with_commands_of(self, controller: Controller) -> StretchColumns:
        """Return the columns with commands as a controller of another rate or other rate limits holds them."""
        other = copy(self)
        other._hold(controller)
        return other

    def _hold(self, controller: Controller) -> None:
        """Hold commands, and the positions of which a host makes torques."""
        part, commands = self.part, dict(self.part.commands)
        if "q_cmd" in commands:
            commands["q_cmd"] = limit_rate(part.t, commands["q_cmd"], controller.rate_limit)
        self.has = tuple(commands)
        self._held = HeldSignals(part.t, np.hstack(list(commands.values())), controller.rate)
        v = part.v if part.v is not None else self.spline(part.t, 1)
        seen, ticks = np.hstack([part.q, v]), host_ticks(part, controller.rate)
        self._measured = HeldSignals(part.t[ticks], seen[ticks], controller.rate)

    def drive(
        self, c: Controller, delay: float, loop: str, sensor_delay: float
    ) -> tuple[Array, dict[str, Array], Array]:
        """Torque of the known gains (N, n), what unknown ones multiply, and the torque without its limit."""
        n = self.q.shape[1]
        means = self._held.means(self.t, GRID, delay)
        held = {key: means[:, k * n : (k + 1) * n] for k, key in enumerate(self.has)}
        nothing = np.zeros_like(self.q)
        q_cmd, v_cmd, forward, pwm = (held.get(key, nothing) for key in ("q_cmd", "v_cmd", "tau_ff", "pwm"))
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
        from scipy.signal import firwin

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
        found = copy(self)
        found.blocks, found.stretches = tuple(block for block in self.blocks if block != name), stretches
        found.__dict__.pop("span", None)
        found.rows = Rows(np.delete(self.rows.fixed, 1 + place, axis=2), self.rows.rigid, self.rows.links)
        return found

    def with_controller(self, controller: Controller) -> Equation:
        """Return the same motion behind a controller with other gains and limits; its columns are the same."""
        found = copy(self)
        found.controller = controller
        other_rate = not np.array_equal(controller.rate, self.controller.rate, equal_nan=True)
        if other_rate:
            found.__dict__.pop("jump_weights", None)
        if other_rate or not np.array_equal(controller.rate_limit, self.controller.rate_limit):
            found.stretches = [s.with_commands_of(controller) for s in self.stretches]
        return found

    def with_rigid(self, rigid: Array) -> Equation:
        """Return the equation with other torques (M, n) of the links."""
        found = copy(self)
        found.rows = Rows(self.rows.fixed, rigid, self.rows.links)
        return found

    def with_parts(self, parts: Sequence[CommandedMotion]) -> Equation:
        """Return the equation of other recordings, by the same filter."""
        return Equation(
            self.robot, parts, self.bandwidth, self.controller, friction=self.blocks[2:], links=self.links
        )  # fmt: skip

    def filter(self, x: Array) -> Array:
        """Low-pass and decimate along the first axis; the ends, where the filter sees too little, are left out."""
        from scipy.signal import oaconvolve

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
    def span(self) -> list[Array]:
        """Orthonormal columns (M, p) of each joint that span what no delay moves."""
        found = []
        for j in range(self.robot.n):
            W = np.column_stack([self.rows.fixed[:, j], self.rows.links[:, j]])
            W = W / np.maximum(np.linalg.norm(W, axis=0), 1e-300)
            U, size, _ = np.linalg.svd(W, full_matrices=False)
            found.append(np.ascontiguousarray(U[:, size > 1e-9 * size[0]]))
        return found

    @property
    def row_step(self) -> float:
        """Time (s) between rows of a stretch."""
        return self._step * GRID

    @cached_property
    def jump_weights(self) -> Array | None:
        """Weights (M, n) that leave out jumps of commands where the log is slower than the controller; else None.

        When a command jumped between two samples is not known, and what it did weighs more than all else.
        """
        from scipy.signal import oaconvolve

        period = max(s.part.period for s in self.stretches)
        if not self.controller.rate > 1.2 / period:
            return None
        made = []
        for s in self.stretches:
            jumps = np.zeros((len(s.part.t), self.robot.n))
            for key in ("q_cmd", "v_cmd"):
                if key in s.has:
                    steps = np.abs(np.diff(s.part.commands[key], axis=0))
                    usual = np.median(steps, axis=0) + 1e-12
                    jumps[1:] += steps > 8.0 * np.maximum(usual, 0.02 * steps.max(axis=0))
            at = np.clip(np.searchsorted(s.part.t, s.t), 0, len(s.part.t) - 1)
            near = np.column_stack([
                np.convolve(x, np.ones(2 * round(0.03 / s.part.period) + 1), mode="same")[at] > 0.0 for x in jumps.T
            ])  # fmt: skip
            taps = np.abs(self._taps) / np.abs(self._taps).sum()
            share = oaconvolve(near.astype(np.float64), taps[:, None], mode="valid", axes=0)[:: self._step]
            made.append(share < 0.3)
        weights = np.concatenate(made).astype(np.float64)
        return weights if (weights.mean(axis=0) > 0.3).all() else None

    @cached_property
    def row_positions(self) -> tuple[Array, Array]:
        """A running time (M,) and positions (M, n) at the rows, not filtered."""
        parts = [s.q[self._half : len(s.q) - self._half : self._step] for s in self.stretches]
        q = np.concatenate(parts)
        return np.arange(float(len(q))), q

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
            if s.noise is None:
                smooth, step = 1.07 * s.spline(s.part.t), encoder_steps(s.part.q)  # not the codes that were recorded
                phase = rng.uniform(0.0, 1.0, self.robot.n)
                with np.errstate(divide="ignore", invalid="ignore"):
                    rounded = (np.floor(smooth / step + phase) - phase + 0.5) * step - smooth
                white = self.bandwidth.noise * rng.standard_normal(smooth.shape)
                noise = np.where(step > 0.0, rounded - np.nan_to_num(rounded).mean(axis=0), white)
                spline = fit_spline(s.part.t, noise, knot_spacing(s.part.period, self.built_for))
                s.noise = np.concatenate([spline(s.t, k) for k in range(3)], axis=1)
            x = self.filter(s.noise).reshape(-1, 3, self.robot.n).transpose(0, 2, 1)
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
        from scipy.signal import oaconvolve

        ones = np.abs(self._taps) / np.abs(self._taps).sum()
        shares = []
        for s in self.stretches:
            beyond = (np.abs(s.drive(self.controller, delay, loop, 0.0)[2]) >= limit).astype(np.float64)
            shares.append(oaconvolve(beyond, ones[:, None], mode="valid", axes=0)[:: self._step])
        return np.concatenate(shares)
