"""Sample by sample: square-root information factors for control loops, with exponential forgetting.

Bierman's square-root information form: rows are written and rotated in at once. A new row w of channel c is turned
into the triangular factor [R | z] by Givens rotations, with forgetting by g = sqrt(lambda) inside the rotation,

    R[i, j] <- c g R[i, j] + s w[j],    w[j] <- c w[j] - s g R[i, j],    c = g R[i, i] / h,    s = w[i] / h.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from dynid.concurrency import cached_property
from dynid.dynamics.friction import PLAIN, find_friction_block, joint_scales
from dynid.dynamics.kernels.compiled import compiled, inlined
from dynid.dynamics.kernels.links import LINK, Geometry, Integers, RowLayout, Samples
from dynid.dynamics.kernels.rows import TORQUE, Workspace, write_rows_of_sample
from dynid.dynamics.kernels.spatial_algebra import SPATIAL
from dynid.dynamics.scene import motion_of_resting_base
from dynid.errors import IdentificationError
from dynid.estimation.accumulate.factor import ChannelFactor
from dynid.estimation.identification import Identification
from dynid.estimation.options import STRIDES, Options
from dynid.estimation.regression.equation import Equation, Unknowns
from dynid.estimation.regression.rows import write_sample_terms
from dynid.estimation.solve.least_squares import Solution, solve, structurally_independent_columns
from dynid.estimation.solve.recursive import Levels, find_levels, solve_recursively
from dynid.robot.motion import Motion
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

SPAN = 32
"""Steps of a balance where nothing else is asked for."""

LATE = 5.0
"""Step over the one before from which on a balance begins anew: what happened in between is not known."""

CHUNK = 1024
"""Samples whose rows are held at once."""

VISCOUS, COULOMB, OFFSET, TANH, QUADRATIC, ASYMMETRY, STRIBECK, SPRING = range(8)
STILL = 1e-8
"""Velocity (rad/s) without a direction, as in `models.friction`."""


@inlined
def sign_of_velocity(v: float) -> float:
    """Sign of a velocity, 0 at standstill."""
    return 0.0 if abs(v) < STILL else (1.0 if v > 0.0 else -1.0)


@inlined
def friction_value(code: int, q: float, v: float, scale: float) -> float:
    """Value of one friction column of a joint; scale: how much of its position stands for one rad."""
    turned = v / scale
    value = 1.0  # OFFSET
    if code == VISCOUS:
        value = v
    elif code == COULOMB:
        value = sign_of_velocity(turned)
    elif code == TANH:
        value = math.tanh(turned / 0.1)
    elif code == QUADRATIC:
        value = v * abs(v)
    elif code == ASYMMETRY:
        value = abs(v)
    elif code == STRIBECK:
        value = math.exp(-((turned / 0.5) ** 2)) * sign_of_velocity(turned)
    elif code == SPRING:
        value = q
    return value


@inlined
def add_row_by_rotations(R: Array, at: int, size: int, row: Array, first: int, root: float) -> None:
    """Add row[first:first + size] by Givens rotations to the triangular factor at R[at:], after scaling that by root.

    The row is overwritten.
    """
    for i in range(size):
        diagonal = at + i * (size + 1)
        x = row[first + i]
        g = R[diagonal] * root
        h = math.sqrt(g * g + x * x)
        if h == 0.0:
            for j in range(1, size - i):
                R[diagonal + j] *= root
            continue
        c, s = g / h, x / h
        cg, sg = c * root, s * root
        R[diagonal] = h
        for j in range(1, size - i):
            r = R[diagonal + j]
            y = row[first + i + j]
            R[diagonal + j] = cg * r + s * y
            row[first + i + j] = c * y - sg * r


class Factors(NamedTuple):
    """Memory of the factors of all channels.

    Channel c's row is packed[start[c]:start[c + 1]], its columns and y; its factor begins in R at corner[c]; root: of
    the forgetting factor; sums (channels + 1,): weighted sum of y per channel, and of ones.
    """

    start: Integers
    corner: Integers
    root: float
    packed: Array
    R: Array
    sums: Array


@inlined
def add_packed_rows(factors: Factors) -> None:
    """Add the packed rows of all channels to their factors; they are overwritten."""
    start, corner, root, packed, R, sums = factors
    channels = start.shape[0] - 1
    for c in range(channels):
        sums[c] = sums[c] * root * root + packed[start[c + 1] - 1]
        add_row_by_rotations(R, corner[c], start[c + 1] - start[c], packed, start[c], root)
    sums[channels] = sums[channels] * root * root + 1.0


class Sheet(NamedTuple):
    """What torque rows of an open robot are made in.

    p: columns of the sheet; inertial, rotor: see `RowLayout`; base_frame (1, BASE_FRAME); scale (n,): as friction_value
    takes it; pick, as long as packed rows: an entry of the sheet (n * p,) or -1 - code of a friction column; links, S:
    see `Workspace`.
    """

    p: int
    inertial: Integers
    rotor: Integers
    base_frame: Array
    scale: Array
    pick: Integers
    links: Array
    S: Array
    sheet: Array


GEOMETRY = len(Geometry._fields)
SHEET_END = GEOMETRY + len(Sheet._fields)


@compiled
def feed_samples(q: Array, qd: Array, qdd: Array, tau: Array, *fields: Any) -> int:
    """Feed samples q, qd, qdd, tau (N, n) to the factors of all channels; return how many were used.

    It stops at a sample that is not finite, of which nothing is used. fields: those of a `Geometry`, a `Sheet` and
    `Factors`, one by one: handing over a named tuple costs 0.1 us per field, as much as a fifth of an update in all.
    """
    geometry = Geometry(*fields[:GEOMETRY])
    own = Sheet(*fields[GEOMETRY:SHEET_END])
    factors = Factors(*fields[SHEET_END:])
    joints, scale, pick, sheet = q.shape[1], own.scale, own.pick, own.sheet
    start, packed = factors.start, factors.packed
    samples = Samples(own.base_frame, q, qd, qdd)
    layout = RowLayout(TORQUE, 0, joints, own.p, own.inertial, own.rotor)
    work = Workspace(own.links, own.links, own.S, own.S, 0, joints)
    for k in range(q.shape[0]):
        total = 0.0
        for j in range(joints):
            total += q[k, j] + qd[k, j] + qdd[k, j] + tau[k, j]
        if not np.isfinite(total):
            return k
        write_rows_of_sample(geometry, layout, samples, k, work, sheet)
        for c in range(joints):
            last = start[c + 1] - 1
            for e in range(start[c], last):
                place = pick[e]
                if place >= 0:
                    packed[e] = sheet[place]
                else:
                    packed[e] = friction_value(-1 - place, q[k, c], qd[k, c], scale[c])
            packed[last] = tau[k, c]
        add_packed_rows(factors)
    return int(q.shape[0])


@compiled
def feed_rows(rates: Array, *fields: Any) -> None:
    """Feed packed rows (N, width) to the factors of all channels; fields: those of `Factors`."""
    factors = Factors(*fields)
    for k in range(rates.shape[0]):
        for e in range(rates.shape[1]):
            factors.packed[e] = rates[k, e]
        add_packed_rows(factors)


class Balances(NamedTuple):
    """Memory of balances over the last `slots` blocks of `stride` steps each.

    clock (2,): instant and step of the sample before; counts (4,): samples since the beginning (2: or more), steps of
    the block, complete blocks, slot of the next; before (2, width): state and rate of the sample before; block
    (width,): balance of the block so far; ring (slots, width): those of the last blocks.
    """

    stride: int
    clock: Array
    counts: Integers
    before: Array
    block: Array
    ring: Array


BALANCES = len(Balances._fields)


@compiled
def feed_balances(t: Array, states: Array, rates: Array, *fields: Any) -> None:
    """Feed samples at t (N,) to the factors: a row is the change of the state plus the integral of the rate.

    states, rates (N, width): of packed rows. Blocks, not sums since the beginning, so that no digits are lost in the
    course of days. A step LATE times as long as the one before begins anew. fields: of `Balances`, then `Factors`.
    """
    own, factors = Balances(*fields[:BALANCES]), Factors(*fields[BALANCES:])
    clock, counts, before, block, ring = own.clock, own.counts, own.before, own.block, own.ring
    width = rates.shape[1]
    for k in range(t.shape[0]):
        step = t[k] - clock[0]
        if counts[0] > 1 and step > LATE * clock[1]:
            counts[:], block[:] = 0, 0.0
        if counts[0] > 0:
            for e in range(width):
                block[e] += (states[k, e] - before[0, e]) + 0.5 * step * (rates[k, e] + before[1, e])
            counts[1] += 1
        clock[0], clock[1] = t[k], step
        counts[0] = min(counts[0] + 1, 2)
        for e in range(width):
            before[0, e], before[1, e] = states[k, e], rates[k, e]
        if counts[1] < own.stride:
            continue
        for e in range(width):
            ring[counts[3], e], block[e] = block[e], 0.0
        counts[1], counts[3] = 0, (counts[3] + 1) % ring.shape[0]
        counts[2] = min(counts[2] + 1, ring.shape[0])
        if counts[2] < ring.shape[0]:
            continue
        for e in range(width):
            total = 0.0
            for slot in range(ring.shape[0]):
                total += ring[slot, e]
            factors.packed[e] = total
        add_packed_rows(factors)


CODES = {
    "viscous": VISCOUS,
    "coulomb": COULOMB,
    "offset": OFFSET,
    "tanh": TANH,
    "quadratic": QUADRATIC,
    "asymmetry": ASYMMETRY,
    "stribeck": STRIBECK,
    "spring": SPRING,
}
"""Friction that one sample tells: blocks with a memory or a second pass are left to `identify`."""


class Sequential:
    """Parameters that follow the measurements of a control loop: `update` per sample, `solve` when they are wanted.

    After the same rows, `solve` equals the batch estimate on rows that are not filtered.

    Parameters
    ----------
    robot : Robot
        Open or with coupled joints, on a fixed base.
    model : str
        As for `identify`: "torque", "power", "energy", "momentum", "reaction" or "torque+reaction".
    unknown : sequence of str, optional
        Unknown lengths and angles of the geometry, whose model parameters are then followed (torque, power, momentum).
    span : int, optional
        Steps of a balance of energy or momentum; a row is made every eighth of it, and integrals follow the trapezoidal
        rule from sample to sample. Default: 32.
    friction : sequence of str, optional
        Blocks without memory. Default: viscous, Coulomb and offset where torques are measured.
    rotor_inertia : bool
        Whether the rotor inertias `Ia` (kg m^2) are among the parameters.
    forgetting : float
        lambda in (0, 1]; about 1 / (1 - lambda) rows are remembered.
    noise : float or (channels,) array, optional
        Standard deviation of the rows of every channel. Default: estimated from the residuals, as estimator="wls" does.
    prior : Identification or mapping, optional
        An earlier result, or (value, standard deviation) by name; it is not forgotten.

    Raises
    ------
    IdentificationError
        If the model, a block or an option does not fit the robot.

    Notes
    -----
    Every channel c keeps a triangular factor with R_c'R_c = sum over rows k of lambda^(K - k) [w y]'[w y] (Bierman's
    square-root information form), updated by Givens rotations in constant time. Only the rows depend on the model.
    `solve` stacks the factors, each divided by its channel's noise.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Sequential, load_robot
    >>> follower = Sequential(load_robot("one_link"), friction=("viscous",))
    >>> for k in range(200):
    ...     q, v, a = np.sin([0.1 * k]), np.cos([0.1 * k]), -np.sin([0.1 * k])
    ...     follower.update(q, v, a, tau=2.0 * a + 0.5 * v)
    >>> float(follower.values[follower.names.index("Fv1")].round(6))
    0.5
    """

    def __init__(
        self,
        robot: Robot,
        *,
        model: str = "torque",
        unknown: Sequence[str] | None = None,
        span: int | None = None,
        friction: Sequence[str] | None = None,
        rotor_inertia: bool = True,
        forgetting: float = 1.0,
        noise: float | Sequence[float] | Array | None = None,
        prior: Identification | Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        plain = PLAIN if model != "reaction" else ()
        blocks = _check_arguments(robot, plain if friction is None else friction, forgetting)
        options = Options(model=model, unknown=unknown, friction=blocks, rotor_inertia=rotor_inertia)
        options = options.resolve_for_robot(robot)
        equation = Equation.for_robot(robot, options, friction=blocks, scale=joint_scales(robot))
        unknowns = Unknowns.for_equation(equation, blocks, 1)
        kept, _ = structurally_independent_columns(equation, unknowns)
        self.robot, self.friction, self.forgetting, self.equation = robot, blocks, forgetting, equation
        self.unknowns = unknowns.without_unknowns([k for k in range(len(unknowns)) if k not in kept])
        self.noise = _check_noise(equation, noise)
        self.prior = _prior_rows(self.names, prior)
        self._solution: Solution | None = None
        self.stride, self.span = _check_span(equation, span)
        self._allocate_memory()
        self.reset()

    def _allocate_memory(self) -> None:
        """Allocate all memory that an update works on."""
        equation, n = self.equation, self.robot.n
        self._places = [self.unknowns.place[0, channel.columns] >= 0 for channel in equation.channels]
        own = [np.append(places, True) for places in self._places]
        self.entries = np.concatenate(
            [c.start + np.flatnonzero(used) for c, used in zip(equation.channels, own, strict=True)]
        )
        sizes = np.array([used.sum() for used in own])
        self.corner = np.concatenate([[0], np.cumsum(sizes**2)]).astype(np.int64)
        self.start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        width, slots = int(self.start[-1]), self.span // self.stride
        self._R, self._sums = np.zeros(self.corner[-1]), np.zeros(len(sizes) + 1)
        factors = Factors(
            self.start, self.corner, float(np.sqrt(self.forgetting)), np.empty(width), self._R, self._sums
        )
        self._balances = Balances(
            self.stride, np.zeros(2), np.zeros(4, dtype=np.int64), np.zeros((2, width)), np.zeros(width),
            np.zeros((slots, width)),
        )  # fmt: skip
        self._sheet: tuple[Any, ...] | None = None
        self._q, self._v, self._a, self._tau = (np.zeros((1, n)) for _ in range(4))
        self._factors = tuple(factors)
        plain = not (equation.unknown or equation.user_columns or self.robot.couplings)
        if equation.options.model == "torque" and plain:
            self._sheet = self._allocate_sheet()

    def _allocate_sheet(self) -> tuple[Any, ...]:
        """Memory in which the torque rows of an open robot are written without Python."""
        equation, stage, p = self.equation, self.equation.stage, len(self.equation.stage.columns)
        codes, pick = [CODES[name] for name in self.friction], list[int]()
        for channel, used in zip(equation.channels, self._places, strict=True):
            entries = [channel.joint * p + equation.base.kept[k] for k in channel.columns[: channel.base]]
            entries += [-1 - code for code in codes]
            pick += [*np.array(entries, dtype=np.int64)[used], 0]  # the last is what is measured
        links = len(stage.geometry.parent)
        sheet = Sheet(
            p, stage.column, stage.rotor, motion_of_resting_base(self.robot), joint_scales(self.robot),
            np.array(pick, dtype=np.int64), np.empty(links * LINK), np.empty(links * self.robot.n * SPATIAL),
            np.zeros(self.robot.n * p),
        )  # fmt: skip
        return (*stage.geometry, *sheet, *self._factors)

    def reset(self) -> None:
        """Forget all samples."""
        for memory in (self._R, self._sums, *self._balances[1:]):
            memory[...] = 0
        self.count, self._solution = 0, None

    def update(
        self, q: Array, v: Array, a: Array | None = None, tau: Array | None = None, *, t: float | None = None,
        reaction: Array | None = None,
    ) -> None:  # fmt: skip
        """Add one sample.

        Parameters
        ----------
        q : (n,) array
            Positions, rad or m.
        v : (n,) array
            Velocities, rad/s or m/s.
        a : (n,) array, optional
            Accelerations, rad/s^2 or m/s^2; not used by balances of energy and momentum.
        tau : (n,) array, optional
            Torques, N m or N, if the model measures them.
        t : float, optional
            Time, s, for balances of energy and momentum.
        reaction : (channels,) array, optional
            Readings of the force plate, N and N m, if the model measures them.

        Raises
        ------
        IdentificationError
            If what the model needs is missing or has another shape.
        """
        if self._sheet is None or a is None or tau is None or t is not None or reaction is not None:
            samples = [None if x is None else np.asarray(x, dtype=np.float64)[None] for x in (q, v, a, tau, reaction)]
            instants = None if t is None else np.array([t], dtype=np.float64)
            self._feed_checked(samples, instants)
            return
        n = self.robot.n
        if not len(q) == len(v) == len(a) == len(tau) == n:
            raise IdentificationError("sample_incomplete", "a sample needs q, v, a and tau of {n} joints", n=n)
        self._q[0], self._v[0], self._a[0], self._tau[0] = q, v, a, tau
        self._feed_torques(self._q, self._v, self._a, self._tau)

    def update_many(
        self, q: Array, v: Array, a: Array | None = None, tau: Array | None = None, *, t: Array | None = None,
        reaction: Array | None = None,
    ) -> None:  # fmt: skip
        """Add samples in order.

        Parameters
        ----------
        q : (N, n) array
            Positions, rad or m.
        v : (N, n) array
            Velocities, rad/s or m/s.
        a : (N, n) array, optional
            Accelerations, rad/s^2 or m/s^2.
        tau : (N, n) array, optional
            Torques, N m or N.
        t : (N,) array, optional
            Time, s.
        reaction : (N, channels) array, optional
            Readings of the force plate, N and N m.

        Raises
        ------
        IdentificationError
            If what the model needs is missing or has another shape.
        """
        samples = [None if x is None else np.ascontiguousarray(x, dtype=np.float64) for x in (q, v, a, tau, reaction)]
        self._feed_checked(samples, None if t is None else np.asarray(t, dtype=np.float64))

    def _feed_checked(self, samples: Sequence[Array | None], t: Array | None) -> None:
        """Check samples q, v, a, tau, reaction for what the model takes and feed them in chunks."""
        q, v, a, tau, reaction = samples
        options, sensor, n = self.equation.options, self.equation.sensor, self.robot.n
        needs_a = not options.is_integral or bool(sensor.spinning_rotors)
        wanted = {"q": (q, n), "v": (v, n)} | ({"a": (a, n)} if needs_a else {})
        wanted |= {"tau": (tau, n)} if options.has_torques else {}
        wanted |= {"reaction": (reaction, len(sensor.channels))} if options.has_reactions else {}
        takes = [*wanted, *(["t"] if options.is_integral else [])]
        offered = dict(zip(("q", "v", "a", "tau", "reaction", "t"), (*samples, t), strict=True))
        what = "model '{model}' takes {takes} of every sample"
        for name, x in offered.items():
            if (x is None) == (name not in takes):
                continue
            code, more = (
                ("sample_incomplete", "; {name} is missing") if x is None else ("sample_too_wide", ", not {name}")
            )
            raise IdentificationError(code, what + more, model=options.model, takes=takes, name=name)
        given = {name: x for name, (x, _) in wanted.items() if x is not None}
        shapes = {name: x.shape for name, x in given.items()} | ({} if t is None else {"t": t.shape})
        count = len(given["q"])
        right = {name: (count, width) for name, (_, width) in wanted.items()} | ({} if t is None else {"t": (count,)})
        if shapes != right:
            raise IdentificationError(
                "wrong_shape", "samples of {n} joints disagree: {shapes}", n=n,
                shapes=", ".join(f"{name} {shape}" for name, shape in shapes.items()),
            )  # fmt: skip
        if self._sheet is not None:
            self._feed_torques(given["q"], given["v"], given["a"], given["tau"])
            return
        for first in range(0, count, CHUNK):
            part = slice(first, first + CHUNK)
            self._feed_terms({name: x[part] for name, x in given.items()}, None if t is None else t[part])

    def _feed_torques(self, q: Array, v: Array, a: Array, tau: Array) -> None:
        """Feed checked samples to the factors, torques of declared rotors taken off."""
        if self.equation.sensor.spinning_rotors and np.isfinite([q, v, a]).all():  # else the kernel says which is not
            rotors = self.equation.known_torques(Motion(np.arange(float(len(q))), q, v, a))
            tau = tau if rotors is None else tau - rotors
        assert self._sheet is not None
        self._count_samples(feed_samples(q, v, a, tau, *self._sheet), len(q))

    def _feed_terms(self, given: dict[str, Array], t: Array | None) -> None:
        """Feed checked samples of any model, by the rows of its equation, up to the first that cannot be used."""
        usable = np.all([np.isfinite(x).all(axis=1) for x in given.values()], axis=0)
        late = np.ones(len(usable), dtype=np.bool_)
        if t is not None:
            before = self._balances.clock[0] if self._balances.counts[0] else -np.inf
            late = np.diff(t, prepend=before) > 0.0
            usable &= np.isfinite(t)
        good = usable & late
        taken = int(np.argmin(good)) if not good.all() else len(good)
        if taken:
            q, v, a = (given[name][:taken] if name in given else np.zeros((taken, self.robot.n)) for name in "qva")
            measured = np.concatenate([given[name][:taken] for name in ("tau", "reaction") if name in given], axis=1)
            motion = Motion(np.arange(float(taken)), q, v, a)
            rates, states = (
                None if x is None else np.ascontiguousarray(x[:, self.entries])
                for x in write_sample_terms(self.equation, motion, measured)
            )
            assert rates is not None
            if states is None:
                feed_rows(rates, *self._factors)
            else:
                assert t is not None
                feed_balances(np.ascontiguousarray(t[:taken]), states, rates, *self._balances, *self._factors)
        if taken < len(good) and usable[taken]:
            self._count_samples(taken, taken)
            raise IdentificationError(
                "time_not_increasing", "sample {sample}: its time is not after that of the one before; earlier samples "
                "were used, this one was not", sample=self.count,
            )  # fmt: skip
        self._count_samples(taken, len(good))

    def _count_samples(self, taken: int, given: int) -> None:
        """Count samples that were taken; raise where one was not."""
        self.count += taken
        self._solution = None
        if taken < given:
            raise IdentificationError(
                "sample_not_finite", "sample {sample} is not finite; earlier samples were used, this one was not:",
                "leave it out", sample=self.count,
            )  # fmt: skip

    def without_samples(self) -> Sequential:
        """Return a copy with the same settings and no samples.

        Returns
        -------
        Sequential
            Independent of this one.
        """
        twin = copy(self)
        twin._allocate_memory()
        twin.reset()
        return twin

    @property
    def packed_factors(self) -> Array:
        """Triangular factors [R | z] of all channels in one piece of memory; `corner` says where each begins."""
        return self._R

    @property
    def names(self) -> tuple[Parameter, ...]:
        """Names of the parameters: base (or model) parameters, friction and offsets."""
        return self.unknowns.names

    @property
    def units(self) -> tuple[str, ...]:
        """Units of the parameters."""
        return self.unknowns.units

    @property
    def values(self) -> Array:
        """Current values, 0 where the samples do not tell yet."""
        return self.solve().values

    @property
    def sigma(self) -> Array:
        """Standard deviations as of white residuals, infinite where the samples do not tell yet.

        Balances overlap, so that their residuals are not white: eight rows share a span.
        """
        return deviations(self.solve())

    @property
    def factors(self) -> tuple[ChannelFactor, ...]:
        """Triangular factor [R | z] of every channel, on the columns that it can see; count: rows remembered."""
        remembered = round(float(self._sums[-1]))
        factors = []
        for c, (at, stop) in enumerate(zip(self.corner[:-1], self.corner[1:], strict=True)):
            size = round((stop - at) ** 0.5)
            R = self._R[at:stop].reshape(size, size)
            wide = np.zeros((size, len(self._places[c]) + 1))
            wide[:, [*np.flatnonzero(self._places[c]), -1]] = R
            factors.append(ChannelFactor(wide, remembered, float(self._sums[c])))
        return tuple(factors)

    def solve(self) -> Solution:
        """Solve for the parameters, all joints together; the result is kept until the next sample.

        Returns
        -------
        Solution
            Values, standard deviations and rank.
        """
        if self._solution is None:
            self._solution = solve(self.unknowns, {0: self.factors}, prior=self.prior, noise=self.noise)
        return self._solution

    @cached_property
    def _levels(self) -> Levels:
        """Which parameters belong to which joint of a serial robot, for `solve_joint_by_joint`."""
        return find_levels(self.equation, self.unknowns)

    def solve_joint_by_joint(self) -> Solution:
        """Solve the last joint first, then proceed towards the base (Ha, Ko & Kwon, eq. 2.28).

        It needs neither weights nor a matrix of all parameters, but each joint's own block must have full rank (eq.
        2.30), which is checked.

        Returns
        -------
        Solution
            Values, standard deviations and rank.

        Raises
        ------
        IdentificationError
            If the rows are not block triangular (only torques and momenta of serial robots are), or a block lacks full
            rank.
        """
        return solve_recursively(self.unknowns, {0: self.factors}, self._levels)


def deviations(solution: Solution) -> Array:
    """Standard deviations as of white residuals, infinite where the rows do not tell."""
    sigma = np.full(len(solution.values), np.inf)
    kept = slice(None) if solution.regrouping is None else list(solution.regrouping.kept)
    sigma[kept] = np.sqrt(np.diag(solution.covariance))[kept]
    return sigma


def _check_arguments(robot: Robot, friction: Sequence[str], forgetting: float) -> tuple[str, ...]:
    """Friction blocks as a tuple; raise for robots, blocks and forgetting factors that do not work here."""
    if robot.floating or robot.closures:
        what = "floats" if robot.floating else "has closed loops"
        raise IdentificationError(
            "needs_open_fixed_robot", "'{robot}' {what}; sequential identification needs an open robot on a fixed base",
            robot=robot.name, what=what,
        )  # fmt: skip
    blocks = (friction,) if isinstance(friction, str) else tuple(friction)
    for name in blocks:
        find_friction_block(name)
        if name not in CODES:
            raise IdentificationError(
                "friction_block_not_sequential", "friction block '{block}' needs more than one sample; sample by "
                "sample there are {blocks}", block=name, blocks=list(CODES),
            )  # fmt: skip
    if not 0.0 < forgetting <= 1.0:
        raise IdentificationError(
            "forgetting_out_of_range", "forgetting must lie above 0 and not above 1, got {forgetting}",
            forgetting=forgetting,
        )  # fmt: skip
    return blocks


def _check_span(equation: Equation, span: int | None) -> tuple[int, int]:
    """Steps from row to row and of a balance, the latter a multiple of the former."""
    if span is not None and not equation.options.is_integral:
        raise IdentificationError(
            "model_without_window", "model '{model}' has no span; models energy and momentum have one",
            model=equation.options.model,
        )  # fmt: skip
    steps = SPAN if span is None else span
    if not isinstance(steps, int) or steps < 1:
        raise IdentificationError(
            "span_not_positive", "the span of a balance is a positive whole number of steps, got {span!r}", span=span,
        )  # fmt: skip
    stride = max(1, steps // STRIDES)
    return stride, -(-steps // stride) * stride


def _check_noise(equation: Equation, noise: float | Sequence[float] | Array | None) -> Array | None:
    """Noise (channels,) of the rows from one number or one per channel; None where it is not given."""
    if noise is None:
        return None
    values, channels = np.asarray(noise, dtype=np.float64), len(equation.channels)
    if values.shape not in ((), (channels,)) or not (np.isfinite(values) & (values > 0.0)).all():
        raise IdentificationError(
            "invalid_noise", "noise must be one positive number or {n} of them, got {noise!r}", n=channels, noise=noise,
        )  # fmt: skip
    return np.broadcast_to(values, (channels,)).copy()


def _prior_rows(
    names: tuple[Parameter, ...], prior: Identification | Mapping[str, tuple[float, float]] | None
) -> tuple[Array, Array] | None:
    """Rows A x = A x0 of a prior with information A'A.

    Of a result these are its factors over its noise, whose textbook deviations are widened to the result's own.
    """
    if prior is None:
        return None
    known = prior.names if isinstance(prior, Identification) else tuple(prior)
    unknown = [name for name in known if name not in names]
    if unknown:
        raise IdentificationError(
            "unknown_parameter", "the prior has '{parameter}', which is not a parameter here; parameters are "
            "{parameters}",
            parameter=unknown[0], parameters=list(names),
        )  # fmt: skip
    if isinstance(prior, Identification):
        values = prior.values
        parts = [f.R[:, :-1] / s for of_log in prior.factors for f, s in zip(of_log, prior.noise, strict=True)]
        A: Array = np.asarray(np.linalg.qr(np.concatenate(parts))[1]) * (prior.white_sigma / prior.sigma)
    else:
        values, sigma = (np.array([prior[name][k] for name in known], dtype=np.float64) for k in (0, 1))
        if not (sigma > 0.0).all():
            raise IdentificationError(
                "prior_deviations_not_positive", "the prior's standard deviations must be positive"
            )
        A = np.diag(1.0 / sigma)
    rows = np.zeros((len(A), len(names)))
    rows[:, [names.index(name) for name in known]] = A
    return rows, np.asarray(A @ values)
