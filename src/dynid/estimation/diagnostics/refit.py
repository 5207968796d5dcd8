"""Refits of thinned rows under another reading of the logs: other signs, order, zeros, gravity, units or delays.

What is fitted is always the same: rigid columns, viscous and dry friction and an offset per joint. Friction, rotor
inertias and the mean inertia about every joint must not be negative, so that one figure, the error on held-out
stretches of time, is evidence of torques and of physics: torques with the wrong sign may fit as well as right ones,
but not with friction that dissipates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dynid.concurrency import cached_property
from dynid.dynamics.friction import STOP, FrictionShapes, stop_width
from dynid.dynamics.scene import Stage
from dynid.dynamics.torque import Torque
from dynid.estimation.diagnostics.plausibility import mean_inertias_of_base, mean_inertias_of_standard
from dynid.estimation.regression.equation import Equation
from dynid.estimation.regression.rows import Rows
from dynid.robot.motion import Motion
from dynid.robot.transform import Array

FOLDS = 5
RIDGE = 1e-9
"""Added to normal equations with a diagonal of one: parameters that rows do not determine stay small."""

WIDEST_STOP = 0.05
"""Width (rad) from which on a stop operator is a spring for the most part."""

LEAST_SAMPLES, SAMPLES_PER_COLUMN = 60, 3
"""Samples below which nothing is refitted: in all, and per rigid column of a channel."""

MOST_KEPT = 200

FINE_STOPS = ("stop3e-4", "stop1e-3", "stop3e-3", "stop1e-2", "stop3e-2")
TURNING = (0.05, 0.2)
"""Shares of the typical velocity below which dry friction turns."""

VELOCITY_OFF = 0.03
"""Difference between recorded velocities and slopes of the positions (relative, rms) that is looked into."""

HARMONICS = (1, 2, 3, 4, 5, 6)
"""Of the joint angle: torques that depend on the position, as those of sensors that are not round."""

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Reading:
    """How recorded channels are read: q = q_factor * q[q_order] + zero, tau = gain * tau[tau_order].

    gravity (m/s^2): None for the robot's. delay (s): of the torques, beyond what was corrected. rotors: joints whose
    rotor inertia is fitted beside the columns of the identification; springs: joints with a spring; loads: logs
    whose last links have parameters of their own; derived: velocities and accelerations are those of the positions.
    sines: position-dependent torques beside everything else.
    """

    q_order: tuple[int, ...]
    q_factor: tuple[float, ...]
    zero: tuple[float, ...]
    tau_order: tuple[int, ...]
    gain: tuple[float, ...]
    gravity: tuple[float, ...] | None = None
    delay: float = 0.0
    rotors: tuple[int, ...] = ()
    springs: tuple[int, ...] = ()
    loads: tuple[int, ...] = ()
    derived: bool = False
    sines: bool = False

    @staticmethod
    def as_recorded(n: int) -> Reading:
        """Read every channel as it is."""
        return Reading(tuple(range(n)), (1.0,) * n, (0.0,) * n, tuple(range(n)), (1.0,) * n)

    @property
    def columns_key(self) -> tuple[object, ...]:
        """What the columns depend on."""
        return *self.motion_key, self.gravity, self.rotors, self.springs, self.loads, self.sines, self.delay

    @property
    def motion_key(self) -> tuple[object, ...]:
        """What the motion depends on."""
        return self.q_order, self.q_factor, self.zero, self.derived


@dataclass(frozen=True, slots=True, eq=False)
class KeptSamples:
    """Filtered samples of the logs: q, v, a (N, n), tau (N, channels), friction (channels, N, columns), log (N,).

    joints: of the channels. odd (columns,): friction that turns its sign with the velocity; stops: names of its columns
    from the third on. recorded: all times, torques and positions of rows that follow one another, for torques at
    instants between and friction with memory. slopes: velocities and accelerations of the positions, where other
    velocities were recorded.
    """

    equation: Equation
    joints: tuple[int, ...]
    t: Array
    q: Array
    v: Array
    a: Array
    tau: Array
    friction: Array
    odd: NDArray[np.bool_]
    stops: tuple[str, ...]
    log: Indices
    piece: Indices
    recorded: tuple[tuple[Array, Array, Array], ...]
    slopes: tuple[Array, Array] | None

    def __len__(self) -> int:
        return len(self.t)

    def torques_after(self, delay: float) -> Array:
        """Torques (N, channels) recorded `delay` seconds after each sample."""
        from scipy.interpolate import CubicSpline

        if delay == 0.0:
            return self.tau
        tau = self.tau.copy()
        for k, (t, values, _) in enumerate(self.recorded):
            inside = self.piece == k
            tau[inside] = CubicSpline(t, values)(np.clip(self.t[inside] + delay, t[0], t[-1]))
        return tau

    def with_free_timing(self) -> KeptSamples:
        """The samples with friction that may also come earlier or later: what then speaks for a delay is the rest.

        Its memory is given more widths, and a column for its turning.
        """
        stops = tuple(
            name for _, name in sorted({stop_width(name): name for name in (*self.stops, *FINE_STOPS)}.items())
        )
        first, found = 2 + len(self.stops), []
        for c, j in enumerate(self.joints):
            slow = np.array(TURNING) * self.v[:, j].std() + 1e-12
            turning = self.a[:, [j]] / slow / np.cosh(np.clip(self.v[:, [j]] / slow, -50.0, 50.0)) ** 2
            own = self.friction[c]
            found.append(np.hstack([own[:, :2], self._stops_along(j, 1.0, stops), own[:, first:], turning]))
        odd = np.append(np.ones(found[0].shape[1] - len(TURNING)), np.zeros(len(TURNING))).astype(np.bool_)
        odd[1] = False
        return replace(self, friction=np.array(found), odd=odd, stops=stops)

    def scaled_friction(self, channel: int, factor: float) -> Array:
        """Friction columns (N, columns) of a channel whose positions are `factor` times the recorded ones.

        Its memory is a matter of distance; all else changes at most in size.
        """
        own = self.friction[channel].copy()
        own[:, 2 : 2 + len(self.stops)] = self._stops_along(self.joints[channel], factor, self.stops)
        return np.asarray(own)

    def _stops_along(self, joint: int, factor: float, names: tuple[str, ...]) -> Array:
        """Values (N, stops) of stop operators along the positions of a joint, times a factor."""
        shapes = FrictionShapes(names, self.equation.shapes.scale[[joint]])
        found = np.empty((len(self), len(names)))
        for k, (t, _, q) in enumerate(self.recorded):
            inside, path = self.piece == k, np.ascontiguousarray(factor * q[:, [joint]])
            along = _smoothed(shapes.stops_along(path, shapes.initial_stops(path, len(path))))[:, :, 0]
            found[inside] = along[np.searchsorted(t, self.t[inside])]
        return found

    def thinned(self, count: int) -> KeptSamples:
        """About `count` of the samples, spread over all."""
        places = np.linspace(0, len(self) - 1, min(count, len(self)) // FOLDS * FOLDS).astype(np.int64)
        some = {name: getattr(self, name)[places] for name in ("t", "q", "v", "a", "tau", "log", "piece")}
        slopes = None if self.slopes is None else (self.slopes[0][places], self.slopes[1][places])
        return replace(self, friction=self.friction[:, places], slopes=slopes, **some)

    @staticmethod
    def of(equation: Equation, kept: Sequence[Rows], count: int) -> KeptSamples | None:
        """Take about `count` of the rows, where friction has settled; None where there are too few."""
        pieces = [rows for rows in kept if len(rows.t) > 3]
        channels = equation.torque_channels
        if not pieces or not channels:
            return None
        settled = np.concatenate([(rows.settled & rows.good).all(axis=1) for rows in pieces])
        usable = np.flatnonzero(settled) if settled.mean() > 0.5 else np.arange(len(settled))
        width = max(channel.base + len(channel.extra) for channel in channels)
        if len(usable) < max(LEAST_SAMPLES, SAMPLES_PER_COLUMN * width):
            return None
        places = usable[np.linspace(0, len(usable) - 1, min(count, len(usable)) // FOLDS * FOLDS).astype(np.int64)]
        wide = np.concatenate([rows.wide for rows in pieces])[places]
        t, q, v, a = (np.concatenate([getattr(rows, x) for rows in pieces])[places] for x in ("t", "q", "v", "a"))
        piece = np.concatenate([np.full(len(rows.t), k) for k, rows in enumerate(pieces)])[places]
        log = np.array([rows.log for rows in pieces])[piece]
        tau = np.column_stack([channel.row(wide)[:, -1] for channel in channels])
        recorded = tuple(
            (rows.t, np.column_stack([channel.row(rows.wide)[:, -1] for channel in channels]), rows.q)
            for rows in pieces
        )
        slopes = _slopes_of_positions(pieces)
        slopes = None if slopes is None else (slopes[0][places], slopes[1][places])
        friction, odd, stops = _friction_columns(equation, pieces, places)
        joints = tuple(channel.joint for channel in channels)
        return KeptSamples(equation, joints, t, q, v, a, tau, friction, odd, stops, log, piece, recorded, slopes)


def _slopes_of_positions(pieces: Sequence[Rows]) -> tuple[Array, Array] | None:
    """First and second derivatives of the positions, None where the velocities are these for all that can be seen."""
    from scipy.interpolate import CubicSpline

    splines = [CubicSpline(rows.t, rows.q) for rows in pieces]
    v, a = (np.concatenate([f(rows.t, k) for f, rows in zip(splines, pieces, strict=True)]) for k in (1, 2))
    recorded = np.concatenate([rows.v for rows in pieces])
    off = np.sqrt(((v - recorded) ** 2).mean(axis=0) / np.maximum((recorded**2).mean(axis=0), 1e-300))
    return (v, a) if off.max() > VELOCITY_OFF else None


def _friction_columns(
    equation: Equation, pieces: Sequence[Rows], places: Indices
) -> tuple[Array, NDArray[np.bool_], tuple[str, ...]]:
    """Viscous friction, an offset, dry friction with its memory, (channels, N, columns); which are odd; the stops.

    Dry friction is that of the rows; rows without stop operators get some along their positions.
    """
    v = np.concatenate([rows.v for rows in pieces])[places]
    wide = np.concatenate([rows.wide for rows in pieces])[places]
    widths = {stop_width(name): name for name in equation.friction if STOP.fullmatch(name)}
    stops = [name for width, name in sorted(widths.items()) if 0.0 < width < WIDEST_STOP]
    names = (stops or [name for name in equation.friction if name == "coulomb"]) if equation.is_direct else []
    along = None
    if not stops or not names:
        names = [name for name in names if name not in stops]
        stops = ["stop1e-3", "stop1e-2"]
        shapes = FrictionShapes(tuple(stops), equation.shapes.scale)
        along = np.concatenate(
            [_smoothed(shapes.stops_along(x.q, shapes.initial_stops(x.q, len(x.q)))) for x in pieces]
        )
    found = []
    for channel in equation.torque_channels:
        j = channel.joint
        place = {int(k): c for c, k in enumerate(channel.columns)}
        own = [v[:, j], np.ones(len(v))] + ([] if along is None else list(along[places][:, :, j].T))
        own += [channel.row(wide)[:, place[int(equation.blocks_of[name][j])]] for name in names]
        found.append(np.column_stack(own))
    odd = np.ones(found[0].shape[1], dtype=np.bool_)
    odd[1] = False
    return np.array(found), odd, tuple(stops)


def _smoothed(x: Array) -> Array:
    """Means over three samples: what a filter makes of jumps."""
    ends = np.concatenate([x[:1], x, x[-1:]])
    return np.asarray(0.25 * ends[:-2] + 0.5 * ends[1:-1] + 0.25 * ends[2:])


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """Rows (channels, N, k) of all channels, each on its own columns (channels, k) of the unknowns.

    Columns that a channel does not have are zero and stand for an unknown beyond the last. tau (N, channels): torques
    as recorded. limits @ unknowns >= 0 by physics.
    """

    rows: Array
    columns: Indices
    tau: Array
    limits: Array

    @property
    def unknowns(self) -> int:
        """How many there are."""
        return int(self.limits.shape[1])

    @cached_property
    def products(self) -> tuple[Array, Array]:
        """Products of the rows with themselves (channels, k, k) and with all torques (channels, k, torques)."""
        turned = self.rows.transpose(0, 2, 1)
        return turned @ self.rows, turned @ self.tau

    @cached_property
    def fold_products(self) -> tuple[Array, Array]:
        """The same of every fold: (folds, channels, k, k) and (folds, channels, k, torques)."""
        C, N, k = self.rows.shape
        rows = self.rows.reshape(C, FOLDS, N // FOLDS, k).transpose(1, 0, 2, 3)
        turned = rows.transpose(0, 1, 3, 2)
        return turned @ rows, turned @ self.tau.reshape(FOLDS, 1, N // FOLDS, -1)

    @cached_property
    def places(self) -> tuple[Indices, Indices]:
        """Where the products go in the matrix and in the right side, one unknown too many."""
        wide = self.unknowns + 1
        return (self.columns[:, :, None] * wide + self.columns[:, None, :]).ravel(), self.columns.ravel()


class Refit:
    """Refits samples under other readings, and says how well they predict what was held out."""

    def __init__(self, samples: KeptSamples) -> None:
        self.samples = samples
        self.n = samples.equation.robot.n
        self._equations: dict[tuple[object, ...], NormalEquations] = {}
        self._limits: dict[tuple[object, ...], Array] = {}
        self._standard: dict[tuple[object, ...], Array] = {}
        self._torques: dict[float, tuple[Array, Array, Array]] = {}
        self._friction: dict[tuple[int, float], Array] = {}

    def torques(self, delay: float) -> tuple[Array, Array, Array]:
        """Torques (N, channels) with so much less delay, their squares (folds, channels), and those about the mean."""
        if delay not in self._torques:
            tau = self.samples.torques_after(delay)
            power = (tau**2).reshape(FOLDS, -1, tau.shape[1]).sum(axis=1)
            self._torques[delay] = tau, power, ((tau - tau.mean(axis=0)) ** 2).sum(axis=0)
        return self._torques[delay]

    def motion(self, reading: Reading) -> Motion:
        """The motion as it is read; its times do not matter."""
        x, order, factor = self.samples, list(reading.q_order), np.array(reading.q_factor)
        slopes = x.slopes if reading.derived and x.slopes is not None else (x.v, x.a)
        q, v, a = (y[:, order] * factor for y in (x.q, *slopes))
        return Motion(np.arange(float(len(x))), q + np.array(reading.zero), v, a)

    def normal_equations(self, reading: Reading) -> NormalEquations:
        """Rows of every channel under a reading."""
        key = reading.columns_key
        if key not in self._equations:
            if len(self._equations) > MOST_KEPT:
                self._equations.clear()
            self._equations[key] = self._write_rows(reading)
        return self._equations[key]

    def _write_rows(self, reading: Reading) -> NormalEquations:
        samples, motion = self.samples, self.motion(reading)
        places, rigid = self._rigid_columns(reading, motion)
        loads = self._load_columns if reading.gravity is None else self._standard_load_columns
        with_loads = [(samples.log == log)[:, None] for log in reading.loads]
        after = self._rigid_count(reading) + np.arange(len(with_loads) * loads.shape[1])
        if with_loads:  # what the last links' own parameters change, as far as base columns show it
            changes = [rows @ loads[own] for rows, own in zip(rigid, places, strict=True)]
            rigid = [
                np.hstack([x, *(y * inside for inside in with_loads)]) for x, y in zip(rigid, changes, strict=True)
            ]
            places = [np.append(own, after) for own in places]
        limits, C = self._limits_of(reading), len(samples.joints)
        count = samples.friction.shape[2]
        more = [(reading.rotors, motion.a), (reading.springs, motion.q)]
        if reading.sines:
            more += [(samples.joints, f(k * motion.q)) for k in HARMONICS for f in (np.sin, np.cos)]
        width = max(map(len, places))
        columns = np.full((C, width + count + sum(bool(joints) for joints, _ in more)), limits.shape[1])
        rows = np.zeros((C, len(samples), columns.shape[1]))
        first = limits.shape[1] - sum(len(joints) for joints, _ in more) - C * count
        for c, j in enumerate(samples.joints):
            last = len(places[c])
            columns[c, :last], rows[c, :, :last] = places[c], rigid[c]
            columns[c, width : width + count] = first + c * count + np.arange(count)
            source = reading.q_order[j]
            if source in samples.joints:
                own = self._friction_of(samples.joints.index(source), abs(reading.q_factor[j]))
                rows[c, :, width : width + count] = own
            if reading.q_factor[j] < 0.0:
                rows[c, :, width : width + count] *= np.where(samples.odd, -1.0, 1.0)
            place, after = width + count, first + C * count
            for joints, values in more:
                if j in joints:
                    columns[c, place], rows[c, :, place] = after + joints.index(j), values[:, j]
                place, after = place + bool(joints), after + len(joints)
        return NormalEquations(rows, columns, self.torques(reading.delay)[0], limits)

    def _friction_of(self, channel: int, factor: float) -> Array:
        """Friction columns (N, columns) of a channel whose positions are `factor` times the recorded ones."""
        if factor == 1.0:
            return np.asarray(self.samples.friction[channel])
        if (channel, factor) not in self._friction:
            if len(self._friction) > MOST_KEPT:
                self._friction.clear()
            self._friction[channel, factor] = self.samples.scaled_friction(channel, factor)
        return self._friction[channel, factor]

    def _rigid_columns(self, reading: Reading, motion: Motion) -> tuple[list[Indices], list[Array]]:
        """Places and values of every channel's rigid columns."""
        equation = self.samples.equation
        channels = equation.torque_channels
        if reading.gravity is None:
            wide, widths = equation.rigid_rows(motion), [c.base + len(c.extra) for c in channels]
            places = [c.columns[:width] for c, width in zip(channels, widths, strict=True)]
            return places, [wide[:, c.start : c.start + width] for c, width in zip(channels, widths, strict=True)]
        if reading.motion_key not in self._standard:
            self._standard = {reading.motion_key: self._standard_columns(motion)}
        parts = self._standard[reading.motion_key]
        W = parts[0] + np.tensordot(np.array(reading.gravity), parts[1:], axes=1)
        return [np.arange(W.shape[2])] * len(channels), [W[:, c.joint] for c in channels]

    def _standard_columns(self, motion: Motion) -> Array:
        """Standard columns (4, N, n, columns) without gravity, and per unit of it along x, y, z."""
        equation, parts = self.samples.equation, []
        for g in np.vstack([np.zeros(3), np.eye(3)]):
            stage = Stage.of(replace(equation.robot, gravity=g), equation.stage.columns)
            parts.append(Torque().rows(stage.scene(motion))[:, :, self._free_columns])
        return np.array([parts[0], *(part - parts[0] for part in parts[1:])])

    def _limits_of(self, reading: Reading) -> Array:
        """Rows (limits, unknowns) of what must not be negative; the unknowns: rigid, friction, rotors, springs."""
        key = (reading.gravity is None, len(reading.rotors), len(reading.springs), len(reading.loads), reading.sines)
        if key not in self._limits:
            rigid = self._rigid_limits if reading.gravity is None else self._standard_limits
            loads = self._load_columns if reading.gravity is None else self._standard_load_columns
            rigid = np.pad(rigid, ((0, 0), (0, len(reading.loads) * loads.shape[1])))
            odd = np.tile(self.samples.odd, len(self.samples.joints))
            more = len(odd) + len(reading.rotors) + len(reading.springs)
            own = np.eye(more)[np.append(odd, np.ones(more - len(odd), dtype=np.bool_))]
            limits = np.asarray(scipy.linalg.block_diag(rigid, own))
            if reading.sines:
                limits = np.pad(limits, ((0, 0), (0, 2 * len(HARMONICS) * len(self.samples.joints))))
            self._limits[key] = limits
        return self._limits[key]

    def _rigid_count(self, reading: Reading) -> int:
        return int((self._rigid_limits if reading.gravity is None else self._standard_limits).shape[1])

    @cached_property
    def _last_columns(self) -> list[int]:
        """Numbers of the standard columns of links that carry no other."""
        equation = self.samples.equation
        links, last = equation.robot.links, set(equation.robot.active_links)
        for k in equation.robot.active_links:  # all before it, through links that are fixed to it
            while (k := links[k].parent) >= 0:
                last.discard(k)
        names = {links[k].name for k in last}
        return [k for k, column in enumerate(equation.base.question.columns) if column.name.link in names]

    @cached_property
    def _load_columns(self) -> Array:
        """Matrix (rigid columns, r): base parameters that a payload on the links that carry no other changes."""
        equation = self.samples.equation
        U, s, _ = np.linalg.svd(equation.base.regrouping.matrix[:, self._last_columns], full_matrices=False)
        basis = U[:, s > 1e-9 * max(float(s.max(initial=0.0)), 1e-300)]
        return np.pad(basis, ((0, equation.rigid_count - len(basis)), (0, 0)))

    @cached_property
    def _standard_load_columns(self) -> Array:
        """The same among the standard columns."""
        return np.eye(len(self._free_columns))[:, np.isin(self._free_columns, self._last_columns)]

    @cached_property
    def _rigid_limits(self) -> Array:
        """Of the columns of the equation: mean inertias, and rotor inertias that stand alone."""
        equation = self.samples.equation
        p = equation.rigid_count
        limits = [np.zeros((0, p))]
        if equation.unknown is None:
            inertias = mean_inertias_of_base(equation)
            limits.append(np.pad(inertias, ((0, 0), (0, p - inertias.shape[1]))))
            alone = np.count_nonzero(equation.base.regrouping.matrix, axis=1) == 1
            rotors = [k for k, name in enumerate(equation.base.names) if name.kind == "rotor" and alone[k]]
            limits.append(np.eye(p)[rotors])
        return np.concatenate(limits)

    @cached_property
    def _free_columns(self) -> Indices:
        """Standard columns of parameters that are not known to be zero."""
        question = self.samples.equation.base.question
        return np.array([k for k in range(len(question.columns)) if k not in question.known], dtype=np.int64)

    @cached_property
    def _standard_limits(self) -> Array:
        """The same of the standard columns."""
        equation = self.samples.equation
        names = equation.stage.columns.columns
        rotors = [k for k, column in enumerate(names) if column.name.kind == "rotor"]
        rigid = [k for k in range(len(names)) if k not in rotors]
        limits = np.zeros((self.n, len(names)))
        limits[:, rigid] = mean_inertias_of_standard(equation)
        return np.concatenate([limits, np.eye(len(names))[rotors]])[:, self._free_columns]

    def fitted_error(self, reading: Reading, *, limited: bool = False) -> float:
        """Mean NRMSE of a fit to all samples; without limits on its parameters a lower bound, and quick."""
        task = ReadingTask(self, reading)
        x = solve_limited(*task.normal_equations(task.weights(None)), task.equations.limits if limited else None)
        return float(np.sqrt(task.squares_left(x) / task.spread).mean())

    def likeliest_error(self, reading: Reading) -> float:
        """Geometric mean NRMSE of a fit to all samples, weighted by what is left: least where they are likeliest."""
        task = ReadingTask(self, reading)
        x = solve_limited(*task.normal_equations(task.weights(None)), None)
        x = solve_limited(*task.normal_equations(task.weights(task.squares_left(x))), None)
        return float(np.exp(0.5 * np.log(np.maximum(task.squares_left(x) / task.spread, 1e-12)).mean()))

    def held_out_errors(self, reading: Reading) -> Array:
        """NRMSE (channels,) on held-out stretches of time, of fits within the limits of physics."""
        task = ReadingTask(self, reading)
        limits = task.equations.limits
        x = solve_limited(*task.normal_equations(task.weights(None)), limits)
        weights = task.weights(task.squares_left(x))
        parts = [task.normal_equations(weights, fold) for fold in range(FOLDS)]
        G, b = sum(part[0] for part in parts), sum(part[1] for part in parts)
        left = np.zeros(len(task.spread))
        for fold, part in enumerate(parts):
            left += task.squares_left(solve_limited(G - part[0], b - part[1], limits), fold)
        return np.asarray(np.sqrt(left / task.spread))


class ReadingTask:
    """Normal equations of one reading, with its torques."""

    def __init__(self, refit: Refit, reading: Reading) -> None:
        joints, self.equations = refit.samples.joints, refit.normal_equations(reading)
        self.count, self.channels = len(refit.samples), np.arange(len(joints))
        self.source = [joints.index(reading.tau_order[j]) for j in joints]
        self.gain = np.array([reading.gain[j] for j in joints])
        _, power, spread = refit.torques(reading.delay)
        self.power, self.spread = power[:, self.source] * self.gain**2, spread[self.source] * self.gain**2
        self.spread = np.maximum(self.spread, 1e-12 * max(float(self.spread.max()), 1e-300))

    def weights(self, left: Array | None) -> Array:
        """Weights of the channels: one over the variance of the torque, or of what was left of it."""
        return np.asarray(self.count / (self.spread if left is None else np.maximum(left, 1e-8 * self.spread)))

    def products(self, fold: int | None) -> tuple[Array, Array, Array]:
        """Products of rows (channels, k, k), of rows and torque (channels, k), and the torque's squares (channels,)."""
        whole = self.equations.products if fold is None else self.equations.fold_products
        gram, pull = whole if fold is None else (whole[0][fold], whole[1][fold])
        power = self.power.sum(axis=0) if fold is None else self.power[fold]
        return gram, pull[self.channels, :, self.source] * self.gain[:, None], power

    def normal_equations(self, weights: Array, fold: int | None = None) -> tuple[Array, Array]:
        """Weighted normal equations of all channels."""
        gram, pull, _ = self.products(fold)
        u = self.equations.unknowns
        at, right = self.equations.places
        G: Array = np.bincount(at, (weights[:, None, None] * gram).ravel(), (u + 1) ** 2).astype(np.float64)
        b: Array = np.bincount(right, (weights[:, None] * pull).ravel(), u + 1).astype(np.float64)
        return G.reshape(u + 1, u + 1)[:u, :u], b[:u]

    def squares_left(self, x: Array, fold: int | None = None) -> Array:
        """Sums of squared residuals (channels,)."""
        gram, pull, power = self.products(fold)
        own = np.append(x, 0.0)[self.equations.columns]
        left = power - 2.0 * (own * pull).sum(axis=1) + ((gram @ own[:, :, None])[:, :, 0] * own).sum(axis=1)
        return np.asarray(np.maximum(left, 0.0))


def solve_limited(G: Array, b: Array, limits: Array | None) -> Array:
    """Least squares from normal equations, with limits @ x >= 0 (by non-negative least squares on the dual)."""
    from scipy.optimize import nnls

    diagonal = np.diag(G)
    scale = np.where(diagonal > 0.0, 1.0 / np.sqrt(np.maximum(diagonal, 1e-300)), 0.0)
    A = G * scale[:, None] * scale
    A[np.diag_indices_from(A)] += RIDGE
    L = scipy.linalg.cholesky(A, lower=True, check_finite=False)
    u = scipy.linalg.solve_triangular(L, scale * b, lower=True, check_finite=False)
    if limits is not None and len(limits):
        M = scipy.linalg.solve_triangular(L, (limits * scale).T, lower=True, check_finite=False)
        M /= np.maximum(np.linalg.norm(M, axis=0), 1e-300)
        if (M.T @ u).min() < 0.0:
            u = u + M @ nnls(M, -u, maxiter=30 * len(limits))[0]
    return np.asarray(scale * scipy.linalg.solve_triangular(L, u, lower=True, trans="T", check_finite=False))
