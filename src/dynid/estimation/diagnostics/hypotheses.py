"""What would explain the logs better: other signs, order, gravity, zeros, units, ...; each is refitted and judged alike.

An alternative changes how a recording is read, not what is fitted: rigid columns, viscous and dry friction and an
offset per joint, without blocks that depend on the position (sines would absorb gravity and zeros). Friction, rotor
inertias and the mean inertia about every joint must not be negative, so that one figure, the error on held-out
stretches of time, is evidence of torques and of physics: torques with the wrong sign may fit as well as right ones,
but not with friction that dissipates.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dynid.concurrency import cached_property
from dynid.dynamics.friction import STOP
from dynid.dynamics.regressor import regressor
from dynid.dynamics.scene import standard_columns
from dynid.errors import DynidError
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

LEAST_SAMPLES = 60
MOST_KEPT = 200

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Reading:
    """How recorded channels are read: q = q_factor * q[q_order] + zero, tau = gain * tau[tau_order].

    gravity (m/s^2): None for the robot's. delay (s): of the torques, beyond what was corrected. rotors: joints whose
    rotor inertia is fitted beside the columns of the identification; springs: joints with a spring; loads: logs
    whose last links have parameters of their own.
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
    sines: bool = False

    @staticmethod
    def as_recorded(n: int) -> Reading:
        """Read every channel as it is."""
        return Reading(tuple(range(n)), (1.0,) * n, (0.0,) * n, tuple(range(n)), (1.0,) * n)

    @property
    def columns_key(self) -> tuple[object, ...]:
        """What the columns depend on."""
        return self.q_order, self.q_factor, self.zero, self.gravity, self.rotors, self.springs, self.loads, self.sines

    @property
    def motion_key(self) -> tuple[object, ...]:
        """What the motion depends on."""
        return self.q_order, self.q_factor, self.zero


@dataclass(frozen=True, slots=True, eq=False)
class KeptSamples:
    """Filtered samples of the logs: q, v, a (N, n), tau (N, channels), friction (channels, N, columns), log (N,).

    joints: of the channels. odd (columns,): friction that turns its sign with the velocity. recorded: all times and
    torques of rows that follow one another, for torques at instants between.
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
    log: Indices
    piece: Indices
    recorded: tuple[tuple[Array, Array], ...]

    def __len__(self) -> int:
        return len(self.t)

    def torques_after(self, delay: float) -> Array:
        """Torques (N, channels) recorded `delay` seconds after each sample."""
        from scipy.interpolate import CubicSpline

        if delay == 0.0:
            return self.tau
        tau = self.tau.copy()
        for k, (t, values) in enumerate(self.recorded):
            inside = self.piece == k
            tau[inside] = CubicSpline(t, values)(np.clip(self.t[inside] + delay, t[0], t[-1]))
        return tau

    @staticmethod
    def of(equation: Equation, kept: Sequence[Rows], count: int) -> KeptSamples | None:
        """Take about `count` of the rows, where friction has settled; None where there are too few."""
        pieces = [rows for rows in kept if len(rows.t) > 3]
        channels = equation.torque_channels
        if not pieces or not channels:
            return None
        settled = np.concatenate([(rows.settled & rows.good).all(axis=1) for rows in pieces])
        usable = np.flatnonzero(settled) if settled.mean() > 0.5 else np.arange(len(settled))
        if len(usable) < LEAST_SAMPLES:
            return None
        places = usable[np.linspace(0, len(usable) - 1, min(count, len(usable)) // FOLDS * FOLDS).astype(np.int64)]
        wide = np.concatenate([rows.wide for rows in pieces])[places]
        t, q, v, a = (np.concatenate([getattr(rows, x) for rows in pieces])[places] for x in ("t", "q", "v", "a"))
        piece = np.concatenate([np.full(len(rows.t), k) for k, rows in enumerate(pieces)])[places]
        log = np.array([rows.log for rows in pieces])[piece]
        tau = np.column_stack([channel.row(wide)[:, -1] for channel in channels])
        recorded = tuple(
            (rows.t, np.column_stack([channel.row(rows.wide)[:, -1] for channel in channels])) for rows in pieces
        )
        friction, odd = _friction_columns(equation, wide, v)
        joints = tuple(channel.joint for channel in channels)
        return KeptSamples(equation, joints, t, q, v, a, tau, friction, odd, log, piece, recorded)


def _friction_columns(equation: Equation, wide: Array, v: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Viscous and dry friction and offsets of the joints (channels, N, columns), as the rows have them."""
    stops = [name for name in equation.friction if (m := STOP.fullmatch(name)) and float(m[1]) < WIDEST_STOP]
    dry = stops or [name for name in equation.friction if name in ("coulomb", "tanh")][:1]
    names = [name for name in equation.friction if name in ("viscous", "offset")] + dry
    odd = np.array([name != "offset" for name in names], dtype=np.bool_)
    found = []
    for channel in equation.torque_channels:
        place = {int(k): c for c, k in enumerate(channel.columns)}
        own = [int(equation.blocks_of[name][channel.joint]) for name in names]
        if not equation.is_direct or any(k not in place for k in own):  # motors drive several joints: joint side
            x = v[:, channel.joint] / equation.shapes.scale[channel.joint]
            shapes = {"viscous": x, "offset": np.ones_like(x)}
            found.append(np.column_stack([shapes.get(name, np.tanh(x / 0.02)) for name in names]))
        else:
            found.append(channel.row(wide)[:, [place[k] for k in own]])
    return np.array(found).reshape(len(found), len(v), len(names)), odd


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
        return self.limits.shape[1]

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
        q, v, a = (y[:, order] * factor for y in (x.q, x.v, x.a))
        return Motion(np.arange(float(len(x))), q + np.array(reading.zero), v, a)

    def normal_equations(self, reading: Reading) -> NormalEquations:
        """Rows of every channel under a reading."""
        key = (*reading.columns_key, reading.delay)
        if key not in self._equations:
            if len(self._equations) > MOST_KEPT:
                self._equations.clear()
            self._equations[key] = self._write_rows(reading)
        return self._equations[key]

    def _write_rows(self, reading: Reading) -> NormalEquations:
        samples, motion = self.samples, self.motion(reading)
        places, rigid = self._rigid_columns(reading, motion)
        limits, C = self._limits_of(reading), len(samples.joints)
        count = samples.friction.shape[2]
        more = [(reading.rotors, motion.a), (reading.springs, motion.q)]
        if reading.sines:
            more += [(samples.joints, f(k * motion.q)) for k in (1, 2, 3, 4, 5, 6) for f in (np.sin, np.cos)]
        width = max(map(len, places))
        columns = np.full((C, width + count + sum(bool(joints) for joints, _ in more)), limits.shape[1])
        rows = np.zeros((C, len(samples), columns.shape[1]))
        first = limits.shape[1] - sum(len(joints) for joints, _ in more) - C * count
        for c, j in enumerate(samples.joints):
            own = len(places[c])
            columns[c, :own], rows[c, :, :own] = places[c], rigid[c]
            columns[c, width : width + count] = first + c * count + np.arange(count)
            source = reading.q_order[j]
            if source in samples.joints:
                rows[c, :, width : width + count] = samples.friction[samples.joints.index(source)]
            if reading.q_factor[j] < 0.0:
                rows[c, :, width : width + count] *= np.where(samples.odd, -1.0, 1.0)
            place, after = width + count, first + C * count
            for joints, values in more:
                if j in joints:
                    columns[c, place], rows[c, :, place] = after + joints.index(j), values[:, j]
                place, after = place + bool(joints), after + len(joints)
        return NormalEquations(rows, columns, self.torques(reading.delay)[0], limits)

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
            matrix = regressor(
                replace(equation.robot, gravity=g), motion, rotor_inertia=equation.options.rotor_inertia
            ).matrix
            parts.append(matrix.reshape(len(motion), self.n, -1))
        return np.array([parts[0], *(part - parts[0] for part in parts[1:])])

    def _limits_of(self, reading: Reading) -> Array:
        """Rows (limits, unknowns) of what must not be negative; the unknowns: rigid, friction, rotors, springs."""
        key = (reading.gravity is None, len(reading.rotors), len(reading.springs), reading.sines)
        if key not in self._limits:
            rigid = self._rigid_limits if reading.gravity is None else self._standard_limits
            odd = np.tile(self.samples.odd, len(self.samples.joints))
            more = len(odd) + len(reading.rotors) + len(reading.springs)
            own = np.eye(more)[np.append(odd, np.ones(more - len(odd), dtype=np.bool_))]
            limits = np.asarray(scipy.linalg.block_diag(rigid, own))
            if reading.sines:
                limits = np.pad(limits, ((0, 0), (0, 12 * len(self.samples.joints))))
            self._limits[key] = limits
        return self._limits[key]

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
    def _standard_limits(self) -> Array:
        """The same of the standard columns."""
        equation = self.samples.equation
        names = standard_columns(equation.robot, rotor_inertia=equation.options.rotor_inertia).columns
        rotors = [k for k, column in enumerate(names) if column.name.kind == "rotor"]
        rigid = [k for k in range(len(names)) if k not in rotors]
        limits = np.zeros((self.n, len(names)))
        limits[:, rigid] = mean_inertias_of_standard(equation)
        return np.concatenate([limits, np.eye(len(names))[rotors]])

    def fitted_error(self, reading: Reading, *, limited: bool = False) -> float:
        """Mean NRMSE of a fit to all samples; without limits on its parameters a lower bound, and quick."""
        task = _Task(self, reading)
        x = _solve(*task.normal_equations(task.weights(None)), task.equations.limits if limited else None)
        return float(np.sqrt(task.squares_left(x) / task.spread).mean())

    def held_out_errors(self, reading: Reading) -> Array:
        """NRMSE (channels,) on held-out stretches of time, of fits within the limits of physics."""
        task = _Task(self, reading)
        limits = task.equations.limits
        x = _solve(*task.normal_equations(task.weights(None)), limits)
        weights = task.weights(task.squares_left(x))
        parts = [task.normal_equations(weights, fold) for fold in range(FOLDS)]
        G, b = sum(part[0] for part in parts), sum(part[1] for part in parts)
        left = np.zeros(len(task.spread))
        for fold, part in enumerate(parts):
            left += task.squares_left(_solve(G - part[0], b - part[1], limits), fold)
        return np.asarray(np.sqrt(left / task.spread))


class _Task:
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
        G = np.bincount(at, (weights[:, None, None] * gram).ravel(), (u + 1) ** 2).reshape(u + 1, u + 1)
        return G[:u, :u], np.bincount(right, (weights[:, None] * pull).ravel(), u + 1)[:u]

    def squares_left(self, x: Array, fold: int | None = None) -> Array:
        """Sums of squared residuals (channels,)."""
        gram, pull, power = self.products(fold)
        own = np.append(x, 0.0)[self.equations.columns]
        left = power - 2.0 * (own * pull).sum(axis=1) + ((gram @ own[:, :, None])[:, :, 0] * own).sum(axis=1)
        return np.asarray(np.maximum(left, 0.0))


def _solve(G: Array, b: Array, limits: Array | None) -> Array:
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
            u = u + M @ nnls(M, -u, maxiter=30 * M.shape[1])[0]
    return np.asarray(scale * scipy.linalg.solve_triangular(L, u, lower=True, trans="T", check_finite=False))


# The alternatives: changes of a reading, one at a time.


BETTER = 1.04
"""Held-out error over that of an alternative from which on it is named."""

PROMISING = 1.02
"""The same for fits to all samples: what is tried on held-out data."""

STEPS = (0.5 * np.pi, np.pi, -0.5 * np.pi)
PROBE = 0.3
"""Angle (rad) by which zeros are moved to see where the error falls."""

LEAST_ZERO, LEAST_TILT, LEAST_GAIN = np.radians(4.0), np.radians(4.0), 1.15
"""Smaller changes are not named: real robots and models differ by as much."""

SEEN = 1e-4
"""Relative change of the error from which on a zero can be seen."""

STANDARD_GRAVITY = 9.81


@dataclass(frozen=True, slots=True)
class Change:
    """A reading that was changed, in one way of a `kind`, at these joints."""

    kind: str
    joints: tuple[int, ...]
    reading: Reading


def put(values: tuple[float, ...], j: int, value: float) -> tuple[float, ...]:
    """The values with another one at place j."""
    return (*values[:j], value, *values[j + 1 :])


def exchange(order: tuple[int, ...], i: int, k: int) -> tuple[int, ...]:
    """The order with two entries exchanged."""
    new = list(order)
    new[i], new[k] = new[k], new[i]
    return tuple(new)


class Alternatives:
    """All changes of a reading that are tried."""

    def __init__(self, refit: Refit) -> None:
        robot = refit.samples.equation.robot
        self.refit, self.n, self.joints = refit, refit.n, refit.samples.joints
        kinds = [robot.links[k].kind for k in robot.active_links]
        self.revolute = [j for j in range(self.n) if kinds[j] == "revolute"]
        self.gravity = np.array(robot.gravity)

    def signs(self, r: Reading) -> Iterator[Change]:
        """Torques and positions reversed: of one joint, or of all."""
        for j in self.joints:
            tau = put(r.gain, j, -r.gain[j])
            yield Change("sign", (j,), replace(r, gain=tau))
        for j in range(self.n):
            q, zero = put(r.q_factor, j, -r.q_factor[j]), put(r.zero, j, -r.zero[j])
            yield Change("sign", (j,), replace(r, q_factor=q, zero=zero))
            if j in self.joints:
                yield Change("sign", (j,), replace(r, q_factor=q, zero=zero, gain=put(r.gain, j, -r.gain[j])))
        every = tuple(range(self.n))
        if self.n > 1:
            yield Change("sign", every, replace(r, gain=tuple(-x for x in r.gain)))
            turned = replace(r, q_factor=tuple(-x for x in r.q_factor), zero=tuple(-x for x in r.zero))
            yield Change("sign", every, turned)
            yield Change("sign", every, replace(turned, gain=tuple(-x for x in r.gain)))

    def orders(self, r: Reading) -> Iterator[Change]:
        """Joints exchanged: torques, positions or both; all in reverse, or moved on by one."""
        if len(self.joints) < self.n:
            return
        every = tuple(range(self.n))
        moves = [((i, k), exchange(every, i, k)) for i, k in itertools.combinations(every, 2)]
        if self.n > 2:
            moves += [(every, every[::-1]), (every, (*every[1:], every[0])), (every, (every[-1], *every[:-1]))]
        for joints, move in moves:
            tau, q = (tuple(order[k] for k in move) for order in (r.tau_order, r.q_order))
            gain, factor, zero = (tuple(x[k] for k in move) for x in (r.gain, r.q_factor, r.zero))
            yield Change("order", joints, replace(r, tau_order=tau, gain=gain))
            positions = replace(r, q_order=q, q_factor=factor, zero=zero)
            yield Change("order", joints, positions)
            yield Change("order", joints, replace(positions, tau_order=tau, gain=gain))

    def zeros(self, r: Reading) -> Iterator[Change]:
        """Zeros off by multiples of 90 degrees."""
        for j in self.revolute:
            for step in STEPS:
                yield Change("zero", (j,), replace(r, zero=put(r.zero, j, _wrap(r.zero[j] + step))))

    def free_zeros(self, r: Reading) -> Iterator[Change]:
        """Zeros off by any angle: the lowest point of the error over the zero of each joint, where it falls."""
        from scipy.optimize import minimize_scalar

        now = self.refit.fitted_error(r)
        for j in self.revolute:

            def error(angle: float, j: int = j) -> float:
                return self.refit.fitted_error(replace(r, zero=put(r.zero, j, r.zero[j] + angle)))

            if abs(error(np.pi) - now) < SEEN * now and abs(error(1.0) - now) < SEEN * now:
                continue
            sides = error(-PROBE), error(PROBE)
            bend = sides[0] + sides[1] - 2.0 * now
            lowest = now - (sides[1] - sides[0]) ** 2 / (8.0 * bend) if bend > 0.0 else min(sides)
            if lowest * PROMISING > now:
                continue
            towards = (-np.pi / 2, 0.0) if sides[0] < sides[1] else (0.0, np.pi / 2)
            found = minimize_scalar(error, bounds=towards, method="bounded", options={"xatol": 2e-3, "maxiter": 14})
            if abs(found.x) > LEAST_ZERO:
                yield Change("zero", (j,), replace(r, zero=put(r.zero, j, _wrap(r.zero[j] + float(found.x)))))

    def gravities(self, r: Reading) -> Iterator[Change]:
        """Gravity along the axes of the base, and where it leads from the best of them."""
        size = float(np.linalg.norm(self.gravity)) or STANDARD_GRAVITY
        now = self.gravity if r.gravity is None else np.array(r.gravity)
        tried = [s * size * axis for axis in np.eye(3) for s in (1.0, -1.0)]
        tried = [g for g in tried if not np.allclose(g, now, atol=1e-3 * size)]
        found = [Change("gravity", (), replace(r, gravity=tuple(g.tolist()))) for g in tried]
        yield from found
        start = min((r, *(change.reading for change in found)), key=self.refit.fitted_error)
        tilted = self._tilt(start, size)
        if tilted is not None:
            yield Change("gravity", (), tilted)

    def _tilt(self, r: Reading, size: float) -> Reading | None:
        """Turn gravity to where the error is least."""
        from scipy.optimize import minimize

        start = (self.gravity if r.gravity is None else np.array(r.gravity)) / size
        if not np.linalg.norm(start) > 0.5:
            return None
        across = np.linalg.svd(start[None])[2][1:]

        def direction(x: Array) -> Array:
            g = start + x @ across
            return g * (size / np.linalg.norm(g))

        def error(x: Array) -> float:
            return self.refit.fitted_error(replace(r, gravity=tuple(direction(x).tolist())))

        now = error(np.zeros(2))
        if min(error(np.array(x)) for x in ((0.1, 0.0), (-0.1, 0.0), (0.0, 0.1), (0.0, -0.1))) > now:
            return None
        options = {"xatol": 2e-3, "fatol": 1e-5, "maxfev": 60}
        found = minimize(error, np.zeros(2), method="Nelder-Mead", options=options)
        g = direction(found.x)
        if np.arccos(np.clip(g @ start / size, -1.0, 1.0)) < LEAST_TILT:
            return None
        return replace(r, gravity=tuple(g.tolist()))

    def gains(self, r: Reading) -> Iterator[Change]:
        """One joint's torque times a factor: the one that suits the other joints' parameters."""
        for c, j in enumerate(self.joints):
            gain = self._best_gain(r, c)
            if gain is not None and max(gain, 1.0 / gain) > LEAST_GAIN:
                yield Change("gain", (j,), replace(r, gain=put(r.gain, j, r.gain[j] * gain)))

    def _best_gain(self, r: Reading, c: int) -> float | None:
        """The factor of one channel's torque as a further unknown; None where it is not positive."""
        task = _Task(self.refit, r)
        weights, columns, u = task.weights(None), task.equations.columns[c], task.equations.unknowns
        G, b = task.normal_equations(weights)
        _, pull, power = task.products(None)
        across = np.bincount(columns, weights[c] * pull[c], u + 1)[:u]
        wide, right = np.pad(G, (0, 1)), np.append(b - across, 0.0)
        wide[:-1, -1] = wide[-1, :-1] = -across
        wide[-1, -1] = weights[c] * power[c]
        gain = float(_solve(wide, right, None)[-1])
        return gain if gain > 0.0 else None

    def units(self, r: Reading) -> Iterator[Change]:
        """Degrees in place of radians, or the other way round: all revolute joints, or one of them."""
        span = np.ptp(self.refit.samples.q, axis=0)
        for factor, low, high in ((np.pi / 180.0, 3.0, 1500.0), (180.0 / np.pi, 1e-3, 0.2)):
            inside = [j for j in self.revolute if low < span[r.q_order[j]] < high]
            for joints in ([inside] if len(inside) > 1 else []) + [[j] for j in inside]:
                scaled = [x * (factor if j in joints else 1.0) for j, x in enumerate(r.q_factor)]
                yield Change("units", tuple(joints), replace(r, q_factor=tuple(scaled)))

    def rotors(self, r: Reading) -> Iterator[Change]:
        """Rotor inertia where it was not to be identified."""
        if not self.refit.samples.equation.options.rotor_inertia and not r.rotors:
            yield Change("rotor_inertia", self.joints, replace(r, rotors=self.joints))

    def springs(self, r: Reading) -> Iterator[Change]:
        """A spring at a joint."""
        for j in self.joints:
            if j not in r.springs:
                yield Change("spring", (j,), replace(r, springs=(*r.springs, j)))

    def all_changes(self, r: Reading) -> Iterator[Change]:
        """Every single change."""
        for kind in (self.signs, self.orders, self.zeros, self.free_zeros, self.gravities, self.gains, self.units,
                     self.rotors, self.springs):  # fmt: skip
            yield from kind(r)


def _wrap(angle: float) -> float:
    """The angle between -pi and pi."""
    return float((angle + np.pi) % (2.0 * np.pi) - np.pi)


def search(refit, *, rounds=6, most=8, kinds=None):
    """Greedy: the best change, then the best beside it, as long as the held-out error falls clearly."""
    reading = Reading.as_recorded(refit.n)
    steps = []
    error = float(refit.held_out_errors(reading).mean())
    tried = []
    for _ in range(rounds):
        fitted = refit.fitted_error(reading, limited=True)
        scored = []
        for change in Alternatives(refit).all_changes(reading):
            try:
                if refit.fitted_error(change.reading) * PROMISING < fitted:
                    scored.append((refit.fitted_error(change.reading, limited=True), change))
            except DynidError:
                continue
        scored.sort(key=lambda pair: pair[0])
        held = []
        for x, change in scored[:most]:
            if x * PROMISING > fitted:
                break
            held.append((float(refit.held_out_errors(change.reading).mean()), change))
        held.sort(key=lambda pair: pair[0])
        if not steps:
            tried = held
        if not held or held[0][0] * BETTER > error:
            break
        error, best = held[0]
        reading = best.reading
        steps.append((error, best))
    return steps, tried
