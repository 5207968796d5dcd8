"""From a log to rows of the equation: prepared motion, friction states, parallel filter, decimation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dynid.dynamics.friction import HARMONICS, REST, REST_SPAN, SIGNED
from dynid.dynamics.kernels.rows import ENERGY
from dynid.dynamics.models import power_or_energy_rows
from dynid.estimation.regression.equation import ChannelColumns, Equation
from dynid.estimation.regression.quadrature import Cuts, integrate, merge_cuts, sign_changes
from dynid.logs.filtering import (
    PreparedWindow,
    Splitting,
    Treatment,
    Window,
    filter_and_decimate_rows,
    kept_indices,
    prepare_window,
    windows_of_log,
)
from dynid.logs.findings import Findings
from dynid.logs.log import Log, Samples
from dynid.logs.survey import Survey
from dynid.robot.motion import Motion
from dynid.robot.transform import Array

if TYPE_CHECKING:  # an outlier model is fitted to rows, which are written here
    from dynid.estimation.solve.robust import OutlierModel

# Rows of what is measured, at the thinned rate: torques, their power, or balances of energy and momentum.
#
# A balance over a window [t - T/2, t + T/2] is S(t + T/2) - S(t - T/2) plus the integral of I, without accelerations:
#
# - energy (Gautier & Khalil 1992, eq. 1, 2, 7-10): integral of tau' v = [h] + integral of v' f, h: energy functions;
# - momentum (Ha, Ko & Kwon, eq. 2.26): integral of tau_j = [dL/dqd_j] - integral of dL/dq_j + integral of f_j.
#
# Friction f acts at the motors, where its power is that of the motor's velocity. Load friction alone looks at the
# acceleration, through the size of a first estimate of the rigid torque.


CHUNK = 1024
"""Samples whose full regressor is held at once."""

SMOOTH = ("viscous", "offset", "tanh", "spring", *HARMONICS)
"""Friction blocks that do not jump or bend where the velocity changes its sign."""


def write_model_rows(
    equation: Equation, prepared: PreparedWindow, stops: Array, treatment: Treatment, out: Array
) -> tuple[int, Array]:
    """Rows of the model along a prepared motion, and the downsampled index of the first; out: memory to write in.

    Where balances are listed, the sums from the first sample on, whose differences they are.
    """
    options, motion = equation.options, prepared.motion
    if options.model == "torque" or options.has_reactions:
        return prepared.first, equation.write_torque_rows(motion, stops, prepared.measured, out=out)
    if options.model == "power":
        wide = equation.write_torque_rows(motion, stops, prepared.measured, out=out)
        return prepared.first, _sum_joint_rows(equation, wide, motion.v)
    if options.spans:
        return prepared.first, _cumulative_balances(equation, prepared, stops, treatment)
    half = options.half_window(treatment)
    if len(motion) <= 2 * half:
        return prepared.first + half, np.zeros((0, equation.channels[-1].stop))
    sums = _cumulative_balances(equation, prepared, stops, treatment)
    return prepared.first + half, np.asarray(sums[2 * half :] - sums[: -2 * half])


def write_sample_terms(equation: Equation, motion: Motion, measured: Array) -> tuple[Array, Array | None]:
    """What single samples tell of a row: rates (N, width), and for a balance states (N, width), else None.

    A row is a rate itself (torque, power, forces on the base), or the change of the state from one end of a balance to
    the other plus the integral of the rate. Friction must be without a memory.
    """
    stops = np.zeros((len(motion), len(equation.shapes.stop_widths), equation.robot.n))
    wide, model = equation.write_torque_rows(motion, stops, measured), equation.options.model
    if model == "momentum":
        pick, place = equation.rigid_entry_indices
        state = np.zeros_like(wide)
        state[:, place], slope = equation.columns.momentum_and_lagrangian_gradient(_without_accelerations(motion), pick)
        wide[:, place] = -slope
        return wide, state
    if not equation.options.is_scalar:
        return wide, None
    power = _sum_joint_rows(equation, wide, motion.v)
    if model == "power":
        return power, None
    state, base = np.zeros_like(power), slice(0, equation.channels[0].base)
    power[:, base], state[:, base] = 0.0, _energy_functions(equation, motion)
    return power, state


def _sum_joint_rows(equation: Equation, wide: Array, factors: Array | None) -> Array:
    """Rows of one channel for all joints: those of the joints, times factors (N, n), summed."""
    total = np.zeros((len(wide), len(equation.names) + 1))
    for channel in equation.torque_channels:
        own = channel.rows_in_wide(wide)
        places = np.append(channel.columns, len(equation.names))
        total[:, places] += own if factors is None else own * factors[:, channel.joint, None]
    return total[:, np.append(equation.channels[0].columns, len(equation.names))]


def _cumulative_balances(equation: Equation, prepared: PreparedWindow, stops: Array, treatment: Treatment) -> Array:
    """Balances S + integral of I from the first sample to every other, whose differences are rows."""
    motion, rule = prepared.motion, equation.options.quadrature
    noisy = treatment.cutoff is not None
    is_energy = equation.options.model == "energy"
    velocity = equation.to_motor_side(motion.v)
    signs = equation.shapes.velocity_signs(velocity)
    cuts = [sign_changes(motion.t, velocity[:, m], signs[:, m]) for m in range(equation.robot.n)]
    wide = np.zeros((len(motion), equation.row_width))
    friction = equation.friction_values(motion, stops)
    if is_energy:
        friction *= velocity[:, None, :]
    for m, own in enumerate(cuts):
        friction[:, :, m] = integrate(motion.t, friction[:, :, m], cuts=own, rule=rule, careful=noisy)
    if not is_energy:
        equation.write_friction(wide, friction)
    # torques that went through a low-pass do not jump; recorded ones do, if friction does
    jumps = not treatment.smooth and not set(equation.friction) <= set(SMOOTH)
    rotors = equation.known_torques(motion)
    measured = prepared.measured if rotors is None else prepared.measured[:, : rotors.shape[1]] - rotors
    for channel in equation.torque_channels:
        j = channel.joint
        own = merge_cuts([cuts[m] for m in channel.motors]) if jumps else Cuts.none()
        push = measured[:, [j]] * motion.v[:, [j]] if is_energy else measured[:, [j]]
        wide[:, channel.stop - 1] = integrate(motion.t, push, cuts=own, rule=rule, careful=noisy)[:, 0]
        _write_integrated_user_columns(equation, channel, motion, wide)
    if not is_energy:
        _write_momentum(equation, motion, wide, rule)
        return wide
    total = _sum_joint_rows(equation, wide, None)
    _replace_friction(equation, total, friction)  # its power was taken at the motors: it counts once, not per joint
    total[:, : equation.channels[0].base] = _energy_functions(equation, motion)
    return total


def _replace_friction(equation: Equation, total: Array, friction: Array) -> None:
    """Write friction (N, columns per motor, n) into rows of one channel, in place, column by column."""
    columns = equation.channels[0].columns
    places = np.flatnonzero(columns >= equation.rigid_column_count)
    total[:, places] = friction.reshape(len(friction), -1)[:, columns[places] - equation.rigid_column_count]


def _write_integrated_user_columns(equation: Equation, channel: ChannelColumns, motion: Motion, wide: Array) -> None:
    """Write integrals of the user columns, times velocity where energy is balanced."""
    for place, k in enumerate(channel.extra, start=channel.start + channel.base):
        values = equation.user_columns[k].values(equation.robot.joint_names, motion.q, motion.v)[:, None]
        values = values * motion.v[:, [channel.joint]] if equation.options.model == "energy" else values
        wide[:, place] = integrate(motion.t, values, rule=equation.options.quadrature)[:, 0]


def _energy_functions(equation: Equation, motion: Motion) -> Array:
    """Energy functions h (N, base columns that are seen)."""
    kept = np.array(equation.base.kept, dtype=np.int64)[equation.channels[0].columns[: equation.channels[0].base]]
    h = np.empty((len(motion), len(kept)))
    for start in range(0, len(motion), CHUNK):
        part = slice(start, start + CHUNK)
        h[part] = power_or_energy_rows(equation.stage.scene_along(_without_accelerations(motion[part])), ENERGY)[
            :, kept
        ]
    return h


def _write_momentum(equation: Equation, motion: Motion, wide: Array, rule: str) -> None:
    """Write the base columns of dL/dqd - integral of dL/dq into wide rows."""
    pick, place = equation.rigid_entry_indices
    slope = np.empty((len(motion), len(place)))
    for start in range(0, len(motion), CHUNK):
        part = slice(start, start + CHUNK)
        wide[part, place], slope[part] = equation.columns.momentum_and_lagrangian_gradient(
            _without_accelerations(motion[part]), pick
        )
    wide[:, place] -= integrate(motion.t, slope, rule=rule)


def _without_accelerations(motion: Motion) -> Motion:
    """The motion with zero accelerations, for functions of position and velocity only."""
    return Motion(motion.t, motion.q, motion.v, np.zeros_like(motion.v))


TRIED = 24
"""Rows per piece of the motion on which noise is tried."""

SWINGS = 0.25
"""Rows per period of the cut-off at which noise of the accelerations is put in: the motion is slower by far."""

LEAD = 0.5
"""Seconds by which a motion is continued backwards to settle the friction states."""

TRAVEL = 2e-3
"""Travel (rad) after which a joint's dry friction does not remember what was before the recording."""

RESTART = 5e-3
"""Travel (rad) after which a joint's dry friction does not remember a rest: its state there is far from known."""

STILL = 1e-3
"""Velocity (rad/s) below which a joint stands still."""

SLOW = 0.02
"""Velocity of a joint at rest over its usual one, at most: a slow motion is none."""

AT_REST = 0.001
"""How much a row counts in a fit where all joints rest: dry friction is anything up to its limits there."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Filtered, decimated rows of a log: t (K,), q, v, a (K, n), wide (K, width), settled (K, n).

    a is filtered as the rows are; q and v are those of the motion.
    settled: the joint has travelled far enough since the segment began; good: its torque counts. share (K, n): how
    much of the torque counts in a fit, little where the robot rests. noise (K', width): how noise of the motion as
    large as that of the sensors changes some of the rows, where it was tried.
    trials: accelerations whose noise is tried on some of the rows; noise is without that, except in balances, which
    hold no accelerations. is_kept: whether `wide` stays as it is when the next rows are written.
    """

    log: int
    segment: int
    t: Array
    q: Array
    v: Array
    a: Array
    wide: Array
    settled: NDArray[np.bool_]
    good: NDArray[np.bool_]
    share: Array
    noise: Array | None = None
    trials: AccelerationTrials | None = None
    is_kept: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class AccelerationTrials:
    """How one standard deviation sigma (n,) of noise in the acceleration of each joint changes some rows of a window.

    places (K,): of the rows in the window; instants (K,): of the samples in `prepared`, with stops (K, w, n).
    """

    equation: Equation
    treatment: Treatment
    sigma: Array
    places: NDArray[np.int64]
    prepared: PreparedWindow
    stops: Array

    def __len__(self) -> int:
        return len(self.places)

    def select_rows(self, part: slice) -> AccelerationTrials | None:
        """Those of a part of the window's rows, None where there are none."""
        inside = np.flatnonzero((self.places >= part.start) & (self.places < part.stop))
        if not len(inside):
            return None
        some = slice(int(inside[0]), int(inside[-1]) + 1)
        prepared = PreparedWindow(0, self.prepared.motion[some], self.prepared.measured[some])
        return replace(self, places=self.places[some], prepared=prepared, stops=self.stops[some])

    def row_changes(self) -> Array:
        """Changes (K n, width) of the rows, joint by joint; exact, as rows are linear in accelerations."""
        equation, true = self.equation, self.prepared
        if equation.only_rigid_rows_change_with_acceleration:  # all at once
            x, n = true.motion, len(self.sigma)
            a = x.a + np.concatenate([np.zeros((1, n)), np.diag(self.sigma)])[:, None]
            q, v = (np.concatenate([y] * (n + 1)) for y in (x.q, x.v))
            rows = equation.rigid_rows(Motion(np.arange(float(len(q))), q, v, a.reshape(-1, n)))
            rows = rows.reshape(n + 1, len(x), -1)
            return np.asarray((rows[1:] - rows[0]).reshape(n * len(x), -1))
        n, x, K = len(self.sigma), true.motion, len(self)
        t = (x.t + (x.t[-1] - x.t[0] + 1.0) * np.arange(n)[:, None]).ravel()
        q, v, a, measured = (np.concatenate([y] * n) for y in (x.q, x.v, x.a, true.measured))
        push, stops = np.repeat(np.diag(self.sigma), K, axis=0), np.concatenate([self.stops] * n)
        memory = np.empty((2, n * K, equation.row_width))
        plain, noisy = (
            write_model_rows(equation, PreparedWindow(0, Motion(t, q, v, y), measured), stops, self.treatment, out)[1]
            for y, out in zip((a, a + push), memory, strict=True)
        )
        return np.asarray(noisy - plain)


def rows_of_log(
    equation: Equation,
    log: Log,
    *,
    number: int,
    seen: Survey,
    treatment: Treatment,
    found: Findings,
    outliers: OutlierModel | None = None,
) -> Iterator[Rows]:
    """Yield the rows of a log in order of time; where nothing is filtered they are valid until the next ones."""
    tasks = prepare_row_tasks(
        equation, log, number=number, seen=seen, treatment=treatment, found=found, outliers=outliers
    )
    for task in tasks:
        yield task.write_rows()


@dataclass(frozen=True, slots=True, eq=False)
class RowTask:
    """All that is needed to write the rows of one window: `where` are those that count, at thinned indices.

    ends (K, 2): thinned indices between which listed balances lie, which are not filtered.
    """

    equation: Equation
    treatment: Treatment
    log: int
    window: Window
    prepared: PreparedWindow
    stops: Array
    half: int
    where: NDArray[np.int64]
    inside: NDArray[np.bool_]
    settled: NDArray[np.bool_]
    good: NDArray[np.bool_]
    share: Array
    memory: list[Array]
    trials: int = 0
    number: int = 0
    acceleration_sigma: Array | None = None
    ends: NDArray[np.int64] | None = None

    def write_rows(self) -> Rows:
        """Write the rows of the window, filter and decimate them."""
        motion, treatment = self.prepared.motion, self.treatment
        if len(self.memory[0]) < len(motion):
            self.memory[0] = np.empty((len(motion), self.equation.row_width))
        memory = self.memory[0][: len(motion)]
        first, wide = write_model_rows(self.equation, self.prepared, self.stops, treatment, memory)
        noise = self._row_changes_by_noise() if self.trials else None
        ends = (self.window.starts, self.window.ends)
        places = self.where[self.inside] - self.prepared.first
        if self.ends is not None:
            begin, end = (self.ends - first).T
            rows, a = wide[end] - wide[begin], motion.a[places]
        else:
            core = _core_indices(self.window, treatment, self.half)
            rows = filter_and_decimate_rows(wide, first, core, ends, treatment)
            a = filter_and_decimate_rows(motion.a, self.prepared.first, core, ends, treatment)
            if not self.inside.all():
                rows, a = rows[self.inside], a[self.inside]
        return Rows(
            self.log, self.window.segment, motion.t[places], motion.q[places], motion.v[places], a, rows,
            self.settled[self.inside], self.good[self.inside], self.share[self.inside], noise,
            self._acceleration_trials(places), self.ends is not None or treatment.row_filter is not None,
        )  # fmt: skip

    def _acceleration_trials(self, places: NDArray[np.int64]) -> AccelerationTrials | None:
        """Rows on which noise of the accelerations is tried."""
        cutoff = self.treatment.cutoff
        if self.acceleration_sigma is None or cutoff is None or not len(places):
            return None
        step = max(1, int(self.treatment.row_writing_rate / (SWINGS * cutoff * self.treatment.decimation)))
        changed_rows = np.arange(min(step // 2, len(places) - 1), len(places), step)
        some = slice(int(places[changed_rows[0]]), int(places[changed_rows[-1]]) + 1, step * self.treatment.decimation)
        true = PreparedWindow(0, self.prepared.motion[some], self.prepared.measured[some])
        return AccelerationTrials(
            self.equation, self.treatment, self.acceleration_sigma, changed_rows, true, self.stops[some]
        )

    def _row_changes_by_noise(self) -> Array:
        """Changes of rows by further noise, along pieces of the window."""
        treatment, motion = self.treatment, self.prepared.motion
        assert treatment.noise is not None
        assert treatment.row_filter is not None
        step, edge = treatment.decimation, treatment.row_filter.half_length
        rng = np.random.default_rng(self.number)
        length = min(2 * (self.half + edge) + step * TRIED + 1, len(motion))
        equation = self.equation
        if equation.options.is_integral:  # an order of 2 is enough here, and cheap
            equation = replace(equation, options=replace(equation.options, quadrature="trapezoid"))
        found = [np.zeros((0, equation.channels[-1].stop))]
        shares = (np.arange(self.trials) + rng.uniform(size=self.trials)) / self.trials
        for start in (shares * (len(motion) - length + 1)).astype(np.int64).tolist():
            part = slice(start, start + length)
            true = PreparedWindow(0, motion[part], self.prepared.measured[part])
            noisy = replace(true, motion=_with_sensor_noise(true.motion, treatment, rng))
            if self.acceleration_sigma is not None:
                noisy = replace(noisy, motion=replace(noisy.motion, a=true.motion.a))
            stops = equation.shapes.stop_values_along(equation.to_motor_side(noisy.motion.q), self.stops[start])
            memory = np.empty((2, length, equation.row_width))
            first, wide = write_model_rows(equation, noisy, stops, treatment, memory[0])
            wide = wide - write_model_rows(equation, true, self.stops[part], treatment, memory[1])[1]
            core = (first + edge, first + len(wide) - edge)
            found.append(filter_and_decimate_rows(wide, first, core, (False, False), treatment))
        return np.concatenate(found)


def _with_sensor_noise(motion: Motion, treatment: Treatment, rng: np.random.Generator) -> Motion:
    """The motion as it would be with white noise of the sensors, filtered and differentiated alike."""
    assert treatment.noise is not None
    assert treatment.motion_filter is not None
    thin = (
        0
        if treatment.downsampling_filter is None
        else 2 * (treatment.downsampling_filter.half_length + treatment.downsampling_step)
    )
    count = (len(motion) + 2 * treatment.motion_filter.half_length) * treatment.downsampling_step + thin
    t = np.arange(count) / treatment.rate
    q, v, a = (
        None if np.isnan(sigma).any() else sigma * rng.standard_normal((count, len(sigma))) for sigma in treatment.noise
    )
    assert q is not None
    window = Window(0, 0, slice(0, count), False, False, Samples(t, q, v, a))
    e = prepare_window(window, replace(treatment, delay=0.0), np.zeros((count, 0))).motion[: len(motion)]
    return Motion(motion.t, motion.q + e.q, motion.v + e.v, motion.a + e.a)


def acceleration_noise(treatment: Treatment) -> Array:
    """Standard deviation (n,) of the noise of accelerations in filtered rows.

    By impulses at every place between two instants of the thinned rate, in what accelerations are derived from.
    """
    assert treatment.noise is not None
    assert treatment.motion_filter is not None
    assert treatment.row_filter is not None
    recorded = np.asarray(~np.isnan(treatment.noise).any(axis=1))
    last = int(np.flatnonzero(recorded).max())
    edge, step = treatment.motion_filter.half_length + treatment.row_filter.half_length, treatment.downsampling_step
    thin = 0 if treatment.downsampling_filter is None else treatment.downsampling_filter.half_length + step
    middle = 2 * (edge * step + thin)
    x = np.zeros((3, 2 * middle + step, step))
    x[last, middle + np.arange(step), np.arange(step)] = 1.0
    t = np.arange(2 * middle + step) / treatment.rate
    samples = Samples(t, x[0], x[1] if recorded[1] else None, x[2] if recorded[2] else None)
    window = Window(0, 0, slice(0, len(t)), False, False, samples)
    e = prepare_window(window, replace(treatment, delay=0.0), np.zeros((len(t), 0))).motion.a
    return np.asarray(treatment.noise[last] * np.sqrt((treatment.row_filter.decimate(e, 1) ** 2).sum()))


def prepare_row_tasks(
    equation: Equation,
    log: Log,
    *,
    number: int,
    seen: Survey,
    treatment: Treatment,
    found: Findings,
    outliers: OutlierModel | None = None,
    clean: bool = True,
) -> Iterator[RowTask]:
    """Yield tasks window after window: motion, friction states, which rows count; counted in `found`.

    clean: outliers are detected in the torques too, not in the positions only.
    """
    gap = max(5.0 / treatment.rate, 0.025)
    treatment = replace(treatment, stride=equation.options.row_stride(treatment))
    half, beyond = equation.options.half_window(treatment), equation.options.context_samples(treatment)
    context = treatment.context_samples + beyond
    rests = equation.shapes.is_uncertain_at_rest and not half
    edge = 1.0 / treatment.cutoff if treatment.cutoff is not None else 0.0
    if set(SIGNED) & set(equation.friction) or rests:  # they look at neighbours
        context += 2 * treatment.downsampling_step + math.ceil((REST_SPAN + edge) * treatment.rate)
    detector = None if outliers is None else outliers.detector(number, treatment, half)
    context += 0 if detector is None else detector.context
    spans = equation.options.spans
    regular, shortest = treatment.cutoff is not None, treatment.shortest_segment + 2 * beyond * (not spans)
    cut = Splitting(context, gap, shortest, regular, treatment.downsampling_step, nearest=detector is not None)
    begin, end = log.interval
    guard = (1.0 / treatment.cutoff if treatment.cutoff is not None else 0.0) + half / treatment.row_writing_rate
    standing, posture = seen.standing_joints(equation.shapes.scale), seen.samples.q.mean(axis=0)
    speed = np.clip(SLOW * seen.speed / equation.shapes.scale, STILL, REST[0])
    friction: FrictionState | None = None
    memory = [np.empty((0, equation.row_width))]  # used again by every window
    has_noise = treatment.noise is not None and treatment.smooth and treatment.cutoff is not None and not spans
    if treatment.noise is not None:
        treatment = replace(treatment, noise=np.where(standing, 0.0, treatment.noise))
    acceleration_sigma = acceleration_noise(treatment) if has_noise and not equation.options.is_integral else None
    count = -1
    for window in windows_of_log(log, seen, cut, found):
        if detector is not None:
            window = detector.interpolate_glitches(window)
        prepared = hold_standing_joints(
            prepare_window(window, treatment, equation.measured_channels(window.samples)), standing, posture
        )
        share = None
        if detector is not None and clean:
            window, share = detector.replace_outliers(window, prepared)
            prepared = hold_standing_joints(
                prepare_window(window, treatment, equation.measured_channels(window.samples)), standing, posture
            )
        if friction is None or window.starts:
            friction = FrictionState(equation, prepared, treatment.row_writing_rate)
        stops = friction.stops_along_window(prepared)
        ends = _ends_of_spans(spans, window, prepared, treatment, (begin, end)) if spans else None
        where = (
            kept_indices(_core_indices(window, treatment, half), treatment) if ends is None else ends.sum(axis=1) // 2
        )
        if not len(where):
            continue
        t = prepared.motion.t[where - prepared.first]
        inside = (t >= begin + guard) & (t < end - guard) if ends is None else np.ones(len(t), dtype=np.bool_)
        if not inside.any():
            continue
        _count_used_rows(found, prepared, where[inside], treatment, equation, half)
        settled = (where[:, None] - half if ends is None else ends[:, :1]) > friction.reached
        in_fit = np.ones(settled.shape)
        if rests:
            known = friction.is_known_after_rest(prepared.motion, speed, int(edge * treatment.row_writing_rate))
            in_fit[~known[where - prepared.first]] = AT_REST
        good = np.ones(settled.shape, dtype=np.bool_)
        if detector is not None and share is not None:
            good[inside] = detector.rows_without_outliers(
                t[inside], share[where[inside] * treatment.downsampling_step - window.first]
            )
        count += 1
        yield RowTask(
            equation, treatment, number, window, prepared, stops, half, where, inside, settled, good, in_fit,
            memory, _noise_trial_pieces(count) if has_noise else 0, count, acceleration_sigma,
            ends,
        )  # fmt: skip


def _noise_trial_pieces(window: int) -> int:
    """Number of pieces of a window on which noise is tried: fewer in later windows."""
    return 8 if window == 0 else 4 if window == 1 else 2 * int(window & (window - 1) == 0)


def _count_used_rows(
    found: Findings,
    prepared: PreparedWindow,
    where: NDArray[np.int64],
    treatment: Treatment,
    equation: Equation,
    half: int,
) -> None:
    """Count in the findings what is used of a window; a balance sees all positions between its ends."""
    places = where - prepared.first
    step = treatment.decimation / treatment.row_writing_rate
    seen = prepared.motion.q[max(0, places[0] - half) : places[-1] + half + 1] if half else prepared.motion.q[places]
    found.add_positions(seen, len(places) * step)
    found.add_positions_beyond_limits(seen, len(places) * step, equation.robot.limits.position)
    v, scale = prepared.motion.v[places], equation.shapes.scale
    still = np.flatnonzero(np.abs(v[:, 0]) < STILL * scale[0])  # few, as a rule
    found.standstill += float((np.abs(v[still]) < STILL * scale).all(axis=1).sum()) * step


def hold_standing_joints(prepared: PreparedWindow, standing: NDArray[np.bool_], posture: Array) -> PreparedWindow:
    """Window with joints that stand still held at their mean: noise of an encoder at rest is no motion."""
    if not standing.any():
        return prepared
    motion = prepared.motion
    q, v, a = motion.q.copy(), motion.v.copy(), motion.a.copy()
    q[:, standing], v[:, standing], a[:, standing] = posture[standing], 0.0, 0.0
    return replace(prepared, motion=replace(motion, q=q, v=v, a=a))


def _core_indices(window: Window, treatment: Treatment, half: int) -> tuple[int, int]:
    """Downsampled indices for which rows are wanted, without the filter's edges and half a balance's."""
    step = treatment.downsampling_step
    trim = treatment.trimmed_samples + half * step
    start, stop = window.first + window.core.start, window.first + window.core.stop
    if window.starts:
        start = max(start, trim)
    if window.ends:
        stop = min(stop, window.first + len(window.samples) - trim)
    first = -(-start // step)
    return first, max(first, -(-stop // step))


def _ends_of_spans(
    spans: Sequence[tuple[float, float]],
    window: Window,
    prepared: PreparedWindow,
    treatment: Treatment,
    within: tuple[float, float],
) -> NDArray[np.int64]:
    """Thinned indices (K, 2) of the samples nearest to the ends of those spans whose middle lies in the window's core.

    Spans that reach into the filter's edges of a recording, or beyond it, are left out.
    """
    t, half = prepared.motion.t, 0.5 / treatment.row_writing_rate
    pairs = np.array(spans)
    places = prepared.first + np.clip(np.searchsorted(t, pairs - half), 0, len(t) - 1)
    first, last = _core_indices(window, treatment, 0)
    middle = places.sum(axis=1) // 2
    edge = window.first // treatment.downsampling_step, prepared.first + len(t)
    trim = -(-treatment.trimmed_samples // treatment.downsampling_step)
    low, high = edge[0] + trim * window.starts, edge[1] - trim * window.ends
    good = (middle >= first) & (middle < last) & (places[:, 0] >= low) & (places[:, 1] < high)
    good &= (pairs[:, 0] >= within[0] - half) & (pairs[:, 1] <= within[1] + half)
    good &= np.abs(t[places - prepared.first] - pairs).max(axis=1) <= 2.0 * half
    return np.asarray(places[good][np.argsort(middle[good], kind="stable")])


class FrictionState:
    """Stop operators of one segment, carried from window to window."""

    def __init__(self, equation: Equation, prepared: PreparedWindow, rate: float) -> None:
        self.equation = equation
        q = equation.to_motor_side(prepared.motion.q)
        self.state = equation.shapes.initial_stop_states(q, int(LEAD * rate))
        self.first = prepared.first
        self.stops: Array | None = None
        self.last = q[-1:]
        self.origin = prepared.motion.q[0].copy()
        self.reached = np.full(q.shape[1], np.iinfo(np.int64).max)
        self.rested = np.full(q.shape[1], np.nan)

    def is_known_after_rest(self, motion: Motion, speed: Array, beside: int) -> NDArray[np.bool_]:
        """Mask (N, n) of where dry friction follows the motion: not at rest, nor shortly after; remembers rests.

        speed (n,): velocities (rad/s) of joints at rest; beside: samples around a rest that the filter spoils.
        """
        q, far = motion.q, RESTART * self.equation.shapes.scale
        resting = np.asarray((self.equation.shapes.rest_fractions(motion.t, motion.v, speed) > 0.5).all(axis=1))
        if not resting.any() and np.isnan(self.rested).all():
            return np.ones(q.shape, dtype=np.bool_)
        near = np.convolve(resting, np.ones(2 * beside + 1))[beside : beside + len(q)]
        known = np.tile(near.reshape(-1, 1) < 0.5, q.shape[1])
        ends = np.flatnonzero(resting & ~np.append(resting[1:], False))
        for start, origin in ((0, self.rested), *((int(k), q[k].copy()) for k in ends)):
            moved = np.abs(q[start:] - origin) > far
            known[start:] &= np.maximum.accumulate(moved, axis=0) | np.isnan(origin)
            self.rested = np.where(moved.any(axis=0), np.nan, origin)
        return known

    def stops_along_window(self, prepared: PreparedWindow) -> Array:
        """Values of the stops along the next window, which may overlap the one before; the state moves on."""
        q = self.equation.to_motor_side(prepared.motion.q)
        done = prepared.first - self.first
        if self.stops is None:
            self.stops = self.equation.shapes.stop_values_along(q, self.state)
        elif done < len(self.stops):
            self.stops = self.equation.shapes.stop_values_along(q, self.stops[done])
        else:
            self.stops = self.equation.shapes.stop_values_along(np.concatenate([self.last, q]), self.stops[-1])[1:]
        self.first, self.last = prepared.first, q[-1:].copy()
        far = np.abs(prepared.motion.q - self.origin) > TRAVEL * self.equation.shapes.scale
        some = far.any(axis=0) & (self.reached == np.iinfo(np.int64).max)
        self.reached[some] = prepared.first + far.argmax(axis=0)[some]
        return self.stops
