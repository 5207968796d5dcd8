"""What would explain the logs better: other signs, order, gravity, zeros, units, ...; each is tried and judged alike.

An alternative changes how a recording is read, not what is fitted (see `refit`); blocks that depend on the position
take no part, because sines absorb gravity and zeros, but where they explain much of what is left whatever the reading.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynid.concurrency import cached_property
from dynid.errors import DynidError
from dynid.estimation.diagnostics.refit import KeptSamples, Reading, ReadingTask, Refit
from dynid.logs.log import Log, Wiring
from dynid.messages import Message, Option
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

Progress = Callable[[str, float], None]

# The alternatives: changes of a reading, one at a time.


STEPS = (0.5 * np.pi, np.pi, -0.5 * np.pi)
PROBE = 0.3
"""Angle (rad) by which zeros are moved to see where the error falls."""

SEEN = 1e-4
"""Relative change of the error from which on a zero can be seen."""

TILT_PROBE, MOST_TILT, TURNS, FAST_TURNS = 0.1, 1.0, 8, 1
"""Tangent by which gravity is turned to see where the error falls, at most in one step, and steps."""

LEAST_ZERO = LEAST_TILT = np.radians(4.0)
LEAST_GAIN = 1.3
TRIED_DELAY = 1.5e-3
"""Smaller changes are not tried: real robots and their models differ by as much."""

DELAY_PROBE, MOST_DELAY_OFF, SAME_DELAY = 2e-3, 3e-3, 0.02
"""Times (s) by which delays are moved to see the error rise, and at most; relative rise that tells nothing."""

NEAR_DELAY = 0.008
DELAYS = (-0.05, -0.02, -0.01, -0.005, 0.005, 0.01, 0.02, 0.05)
RATIOS = tuple(float(x) for x in np.geomspace(5.0, 320.0, 40))
"""Gear ratios that are tried, each a tenth from the next."""

COMMON_RATIOS = (30.0, 50.0, 51.0, 80.0, 81.0, 100.0, 101.0, 120.0, 121.0, 160.0, 161.0)
"""Of strain wave gears, which most arms have."""

MOTOR_SPAN, WIDE_SLIDE = 3.0 * np.pi, 5.0
"""Range of a position (rad; m) from which on it may be that of a motor."""

SUSPICIOUS = 0.05
"""Error from which on exchanged positions are tried quickly: where it is less, every joint is where it belongs."""

KNOWN_FACTORS = (1.0, np.pi / 180.0, 180.0 / np.pi)
"""Of positions, by units alone."""


def _is_of_units(factor: float) -> bool:
    """Whether a factor of positions is one of units alone, whatever its sign; others are gear ratios."""
    return bool(np.isclose(abs(factor), KNOWN_FACTORS).any())


HOPELESS = 1e3
STANDARD_GRAVITY = 9.81


ROUGH, AT_ONCE, RULED_OUT = 30, 12, 1.1
"""Samples of rough fits, readings that are fitted at once, and error over that as recorded that rules one out."""


def with_entry(values: tuple[float, ...], j: int, value: float) -> tuple[float, ...]:
    """The values with the entry at index j replaced."""
    return (*values[:j], value, *values[j + 1 :])


def _wrap_angle(angle: float) -> float:
    """The angle brought to the interval (-pi, pi]."""
    return float(np.pi - (np.pi - angle) % (2.0 * np.pi))


class Alternatives:
    """All single changes of a reading that are tried; thorough: those that need many refits, too.

    refit: of the samples on which they are compared; samples: all of them, for the timing of torques. delay (s): of the
    torques, as the residuals show it.
    """

    def __init__(self, refit: Refit, samples: KeptSamples, *, thorough: bool, delay: float = 0.0) -> None:
        equation = refit.samples.equation
        robot = equation.robot
        self.refit, self.n, self.joints, self.thorough = refit, refit.n, refit.samples.joints, thorough
        self.samples = samples
        kinds = [robot.links[k].kind for k in robot.active_links]
        self.revolute = [j for j in range(self.n) if kinds[j] == "revolute"]
        self.gravity = np.array(robot.gravity)
        self.promising = PROMISING if thorough else PROMISING_AT_ONCE
        self.knows_geometry = equation.unknown is None
        self.delay = delay
        self._gears: dict[tuple[Reading, tuple[tuple[int, float], ...], int], Reading] = {}

    @cached_property
    def with_free_timing(self) -> Refit:
        """Refits in which friction has a timing of its own."""
        return Refit(self.samples.with_free_timing(), self.refit.work)

    @cached_property
    def with_own_friction(self) -> Refit:
        """Refits with dry friction as it was asked for, without memory where none was."""
        return Refit(self.samples.with_own_friction(), self.refit.work)

    def fit_error(self, r: Reading) -> float:
        """Error of a fit to all samples, a large one where the mechanism cannot move so."""
        try:
            return self.refit.fitted_error(r)
        except (DynidError, np.linalg.LinAlgError):
            return HOPELESS

    def single_changes(self, r: Reading) -> Iterator[Reading]:
        """Every reading that differs by one change: those that are common and quickly tried come first."""
        is_late = not self.thorough and abs(self.delay) > TRIED_DELAY  # residuals say so: tried while there is time
        if is_late:
            yield from self.delay_changes(r)
        yield from self.torque_changes(r)
        if self.thorough:
            yield from self.sign_changes(r)
            yield from self.order_changes(r)
            yield from self.zero_steps(r)
            yield from self.zero_angles(r)
        else:
            yield from self._promising_motions(r)
        yield from self.unit_and_gear_changes(r)
        yield from self.gravity_axes(r)
        if not is_late:
            yield from self.delay_changes(r)
        yield from self.gravity_directions(r)
        if not self.refit.samples.equation.options.rotor_inertia and not r.rotors:
            yield replace(r, rotors=self.joints)
        if self.refit.samples.slopes is not None and not r.derived:
            yield replace(r, derived=True)
        logs = np.unique(self.refit.samples.log).tolist()
        if len(logs) > 1 and len(r.loads) + 1 < len(logs):
            yield from (replace(r, loads=(*r.loads, log)) for log in logs if log not in r.loads)

    def _promising_motions(self, r: Reading) -> Iterator[Reading]:
        """Other signs, order and zeros of positions that free fits to a few samples do not rule out, the best first."""
        changes = [*self.sign_changes(r), *self.zero_steps(r)]
        if self.fit_error(r) > SUSPICIOUS:
            changes += self.order_changes(r)
        probes = [self._with_zero(r, j, x) for j in self.revolute for x in (-PROBE, PROBE)]
        now, *errors = self._rough_errors([r, *probes, *changes])
        low, high = (np.array(errors[k : len(probes) : 2]) for k in (0, 1))
        least = RULED_OUT**2 * now
        ranked = sorted(zip(errors[len(probes) :], range(len(changes)), strict=True))
        yield from (changes[k] for error, k in ranked[:FOLLOWED] if error < least)
        for j, sides in zip(self.revolute, zip(low.tolist(), high.tolist(), strict=True), strict=True):
            step = self._zero_of_least_error(now, sides)
            if abs(step) > LEAST_ZERO:
                yield self._with_zero(r, j, step)

    def _rough_errors(self, readings: Sequence[Reading]) -> list[float]:
        """Squared errors of free fits to a few samples."""
        found: list[float] = []
        for k in range(0, len(readings), AT_ONCE):
            some = [replace(x, sines=False) for x in readings[k : k + AT_ONCE]]
            try:
                found += self.roughly.squared_errors_at_once(some).tolist()
            except (DynidError, np.linalg.LinAlgError):
                found += [self.fit_error(x) ** 2 for x in some]
        return found

    @cached_property
    def roughly(self) -> Refit:
        """Refits of a few samples."""
        return Refit(self.samples.thin_out(ROUGH), self.refit.work)

    def spring_changes(self, r: Reading) -> Iterator[Reading]:
        """Readings with a spring at one more joint, in place of position-dependent torques."""
        if "spring" not in self.refit.samples.equation.friction:
            for j in self.joints:
                if j not in r.springs:
                    yield replace(r, springs=(*r.springs, j), sines=False)

    def torque_changes(self, r: Reading) -> Iterator[Reading]:
        """Readings with other torques: reversed, of one joint or of all, exchanged, times a factor."""
        for j in self.joints:
            yield replace(r, gain=with_entry(r.gain, j, -r.gain[j]))
        if self.n > 1:
            yield replace(r, gain=tuple(-x for x in r.gain))
        for move in self._moves:
            yield replace(r, tau_order=tuple(r.tau_order[k] for k in move), gain=tuple(r.gain[k] for k in move))
        yield from self.gain_changes(r)

    def sign_changes(self, r: Reading) -> Iterator[Reading]:
        """Readings with positions reversed, or positions and torques: of one joint, or of all."""
        for j in range(self.n):
            turned = replace(
                r, q_factor=with_entry(r.q_factor, j, -r.q_factor[j]), zero=with_entry(r.zero, j, -r.zero[j])
            )
            yield turned
            if j in self.joints:
                yield replace(turned, gain=with_entry(r.gain, j, -r.gain[j]))
        if self.n > 1:
            torques = tuple(-x for x in r.gain)
            turned = replace(r, q_factor=tuple(-x for x in r.q_factor), zero=tuple(-x for x in r.zero))
            yield turned
            yield replace(turned, gain=torques)

    @cached_property
    def _moves(self) -> tuple[tuple[int, ...], ...]:
        """Orders of the joints that are tried: two exchanged, all in reverse, all moved on by one."""
        if len(self.joints) < self.n:
            return ()
        every, moves = tuple(range(self.n)), []
        for i, k in itertools.combinations(every, 2):
            swapped = list(every)
            swapped[i], swapped[k] = k, i
            moves.append(tuple(swapped))
        if self.n > 2:
            moves += [every[::-1], (*every[1:], every[0]), (every[-1], *every[:-1])]
        return tuple(dict.fromkeys(moves))

    def order_changes(self, r: Reading) -> Iterator[Reading]:
        """Readings with the positions of joints exchanged, or positions and torques."""
        for move in self._moves:
            tau, gain = tuple(r.tau_order[k] for k in move), tuple(r.gain[k] for k in move)
            factor, zero = (tuple(x[k] for k in move) for x in (r.q_factor, r.zero))
            moved = replace(r, q_order=tuple(r.q_order[k] for k in move), q_factor=factor, zero=zero)
            yield moved
            yield replace(moved, tau_order=tau, gain=gain)

    def zero_steps(self, r: Reading) -> Iterator[Reading]:
        """Readings with zeros shifted by multiples of 90 degrees."""
        for j in self.revolute:
            yield from (self._with_zero(r, j, step) for step in STEPS)

    def zero_angles(self, r: Reading) -> Iterator[Reading]:
        """Readings with a zero shifted by the angle of least error, where it falls."""
        now = self.fit_error(r) ** 2
        for j in self.revolute:
            sides = [self.fit_error(self._with_zero(r, j, x)) ** 2 for x in (-PROBE, PROBE)]
            step = self._zero_of_least_error(now, sides)
            found = self._with_best_zero(r, j, (-1.0, 0.0) if step < 0.0 else (0.0, 1.0)) if step else r
            if abs(_wrap_angle(found.zero[j] - r.zero[j])) > LEAST_ZERO:
                yield found

    def _zero_of_least_error(self, now: float, sides: Sequence[float]) -> float:
        """Angle at which a parabola through squared errors is least, at most 1 rad; 0 where that promises nothing."""
        bend, slope = sides[0] + sides[1] - 2.0 * now, sides[1] - sides[0]
        lowest = now - slope**2 / (8.0 * bend) if bend > 0.0 else min(sides)
        if max(abs(x - now) for x in sides) < SEEN * now or max(lowest, 0.0) * self.promising**2 > now:
            return 0.0
        return float(np.clip(-0.5 * PROBE * slope / bend if bend > 0.0 else -np.sign(slope), -1.0, 1.0))

    def _with_zero(self, r: Reading, j: int, angle: float) -> Reading:
        """The reading with the zero of a joint moved by an angle."""
        return replace(r, zero=with_entry(r.zero, j, _wrap_angle(r.zero[j] + angle)))

    def _with_best_zero(self, r: Reading, j: int, between: tuple[float, float]) -> Reading:
        """The zero moved by the angle at which the error is least."""
        from scipy.optimize import minimize_scalar

        def moved(angle: float) -> Reading:
            return replace(r, zero=with_entry(r.zero, j, _wrap_angle(r.zero[j] + angle)))

        found = minimize_scalar(
            lambda x: self.fit_error(moved(float(x))), bounds=between, method="bounded",
            options={"xatol": 1e-3, "maxiter": 16},
        )  # fmt: skip
        return moved(float(found.x))

    def gravity_axes(self, r: Reading) -> Iterator[Reading]:
        """Readings with gravity along the axes of the base."""
        if not self.knows_geometry:
            return
        now, size = self.gravity if r.gravity is None else np.array(r.gravity), self._gravity_size
        for g in (s * size * axis for axis in np.eye(3) for s in (1.0, -1.0)):
            if not np.allclose(g, now, atol=1e-3 * size):
                yield replace(r, gravity=tuple(g.tolist()))

    def gravity_directions(self, r: Reading) -> Iterator[Reading]:
        """Readings with gravity turned from where it is, or from an axis, to the direction of least error."""
        if not self.knows_geometry:
            return
        now = self.gravity if r.gravity is None else np.array(r.gravity)
        starts = sorted((replace(r, gravity=tuple(now.tolist())), *self.gravity_axes(r)), key=self.fit_error)
        for start in starts[: 2 if self.thorough else 1]:
            yield from self._gravity_of_least_error(start)

    @property
    def _gravity_size(self) -> float:
        """Size of gravity (m/s^2), that of the earth where the robot's is zero."""
        return float(np.linalg.norm(self.gravity)) or STANDARD_GRAVITY

    def _gravity_of_least_error(self, r: Reading, least_tilt: float = LEAST_TILT) -> Iterator[Reading]:
        """Reading with gravity turned to the direction of least error, by Newton's steps on the squared error."""
        start = np.array(r.gravity)
        size = float(np.linalg.norm(start))
        if not size > 0.5 * self._gravity_size:
            return
        g, least = start, self.fit_error(r)
        for _ in range(TURNS if self.thorough else FAST_TURNS):
            turned = self._turned_gravity(r, g / size)
            error = self.fit_error(replace(r, gravity=turned))
            if error * (1.005 if g is start else 1.0005) > least:
                break
            g, least = np.array(turned), error
        if np.arccos(np.clip(g @ start / size**2, -1.0, 1.0)) > least_tilt:
            yield replace(r, gravity=tuple(g.tolist()))

    def _turned_gravity(self, r: Reading, along: Array) -> tuple[float, ...]:
        """Gravity where a parabola through squared errors beside a direction is least, or the best of these."""
        size, across = float(np.linalg.norm(r.gravity or ())), np.linalg.svd(along[None])[2][1:]

        def turned(x: Sequence[float]) -> tuple[float, ...]:
            g = along + np.array(x) @ across
            return tuple((g * (size / np.linalg.norm(g))).tolist())

        def squared_error(*x: float) -> float:
            return self.fit_error(replace(r, gravity=turned(x))) ** 2

        h = TILT_PROBE
        places = [(0.0, 0.0), (h, 0.0), (-h, 0.0), (0.0, h), (0.0, -h)]
        E = [squared_error(*x) for x in places]
        if min(E[1:]) * 1.01 > E[0] and not self.thorough:
            return turned(places[0])
        slope = np.array([E[1] - E[2], E[3] - E[4]]) / (2.0 * h)
        bend = np.array([E[1] + E[2], E[3] + E[4]]) - 2.0 * E[0]
        both = squared_error(h, h) - E[1] - E[3] + E[0]
        H = np.array([[bend[0], both], [both, bend[1]]]) / h**2
        if np.linalg.eigvalsh(H)[0] <= 0.0:
            return turned(places[int(np.argmin(E))])
        step = -np.linalg.solve(H, slope)
        return turned((step * min(1.0, MOST_TILT / max(float(np.linalg.norm(step)), 1e-300))).tolist())

    def gain_changes(self, r: Reading) -> Iterator[Reading]:
        """Readings with one joint's torque times the factor that suits the other joints' parameters."""
        with suppress(np.linalg.LinAlgError):
            for j, gain in zip(self.joints, ReadingTask(self.refit, r).best_torque_factors().tolist(), strict=True):
                if 1e-3 < abs(r.gain[j]) * gain < 1e3 and max(gain, 1.0 / gain) > LEAST_GAIN:
                    yield replace(r, gain=with_entry(r.gain, j, r.gain[j] * gain))

    def unit_and_gear_changes(self, r: Reading) -> Iterator[Reading]:
        """Readings with degrees in place of radians or the reverse, or with positions of motors: all joints or one."""
        span = np.ptp(self.refit.samples.q, axis=0)[list(r.q_order)] * np.abs(r.q_factor)
        degrees = np.pi / 180.0
        for factor, low, high in ((degrees, 3.0, 1500.0), (1.0 / degrees, 1e-3, 0.2)):
            inside = [j for j in self.revolute if low < span[j] < high]
            for joints in ([inside] if len(inside) > 1 else []) + [[j] for j in inside]:
                yield self._with_scaled_positions(r, joints, factor)
        wide = [j for j in range(self.n) if span[j] > (MOTOR_SPAN if j in self.revolute else WIDE_SLIDE)]
        if not self.thorough or not wide:
            return
        for joints in ([wide] if len(wide) > 1 else []) + [[j] for j in wide]:
            widest = max(span[j] for j in joints)
            for power in (0, 1):  # torques of the joints, or of the motors
                some = [x for x in RATIOS if 0.1 < widest / x < 2.5 * np.pi]
                errors = {x: self.fit_error(self._with_gear_ratios(r, dict.fromkeys(joints, x), power)) for x in some}
                if errors:
                    near = min(errors, key=lambda x: errors[x])
                    yield self._with_best_gear_ratios(r, dict.fromkeys(joints, near), power)

    def _with_scaled_positions(self, r: Reading, joints: Sequence[int], factor: float) -> Reading:
        """Reading with the positions of some joints times a factor."""
        return replace(r, q_factor=tuple(x * (factor if j in joints else 1.0) for j, x in enumerate(r.q_factor)))

    def _with_gear_ratios(self, r: Reading, ratios: Mapping[int, float], power: int) -> Reading:
        """Reading in which positions, and with power 1 torques, are those of motors with gear ratios by joint."""
        gain = tuple(x * ratios.get(j, 1.0) ** power for j, x in enumerate(r.gain))
        return replace(r, q_factor=tuple(x / ratios.get(j, 1.0) for j, x in enumerate(r.q_factor)), gain=gain)

    def _with_best_gear_ratios(self, r: Reading, near: Mapping[int, float], power: int) -> Reading:
        """Reading with the gear ratios of least error, or usual ones or whole numbers where these do as well.

        Ratios of several joints depend on one another: first each is sought among all, then all together.
        """
        from scipy.optimize import minimize

        if (key := (r, tuple(near.items()), power)) in self._gears:
            return self._gears[key]
        joints, best = list(near), dict(near)
        for _ in range(2 if len(joints) > 1 else 0):
            for j in joints:
                tried = [{**best, j: x} for x in {best[j], *RATIOS}]
                best = min(tried, key=lambda x: self.fit_error(self._with_gear_ratios(r, x, power)))

        def reading(logarithms: Array) -> Reading:
            return self._with_gear_ratios(r, dict(zip(joints, np.exp(logarithms).tolist(), strict=True)), power)

        def error(logarithms: Array) -> float:
            return self.fit_error(reading(logarithms))

        found = minimize(
            error, np.log([best[j] for j in joints]), method="Powell",
            bounds=[(float(np.log(0.5 * RATIOS[0])), float(np.log(2.0 * RATIOS[-1])))] * len(joints),
            options={"xtol": 1e-3, "ftol": 1e-5, "maxfev": 100 * len(joints)},
        )  # fmt: skip
        ratios, common = np.exp(found.x), np.array(COMMON_RATIOS)
        usual = common[np.abs(np.log(common / ratios[:, None])).argmin(axis=1)]
        whole = np.maximum(np.round(ratios), 1.0)
        usual = np.where(np.abs(np.log(usual / ratios)) < 0.04, usual, whole)
        alike = [x for x in (usual, whole) if error(np.log(x)) <= 1.005 * found.fun]
        self._gears[key] = reading(np.log(alike[0]) if alike else found.x)
        return self._gears[key]

    def delay_changes(self, r: Reading) -> Iterator[Reading]:
        """Readings with torques recorded later or earlier: by what the residuals say, or by the best time."""
        if not self.thorough:
            found = self._quick_delay(r) if r.delay == 0.0 and abs(self.delay) > TRIED_DELAY else r.delay
            if abs(found - self.delay) < max(0.1 * abs(self.delay), 1e-3):
                found = self.delay  # from all rows, not from some
        else:
            found = self._best_delay(r, min((0.0, *DELAYS), key=lambda x: self._delayed_error(r, x)))
        for delay in (found, self.delay):
            if abs(delay - r.delay) > TRIED_DELAY and (self.thorough or r.delay == 0.0):
                yield replace(r, delay=delay)

    def _quick_delay(self, r: Reading) -> float:
        """The delay at which a parabola through three errors is least; near one of those tried, where it is far."""
        found = self._parabola_minimum(r, 0.0)
        if abs(found) < NEAR_DELAY:
            return found
        tried = [x for x in DELAYS if x * found > 0.0]
        return self._parabola_minimum(r, min(tried, key=lambda x: self._delayed_error(r, x)))

    def _parabola_minimum(self, r: Reading, near: float) -> float:
        """The delay at which a parabola through the errors at one and beside it is least."""
        low, now, high = (self._delayed_error(r, near + x) for x in (-NEAR_DELAY, 0.0, NEAR_DELAY))
        bend = low + high - 2.0 * now
        step = 0.5 * NEAR_DELAY * (low - high) / bend if bend > 0.0 else np.sign(low - high) * NEAR_DELAY
        return float(near + np.clip(step, -1.5 * NEAR_DELAY, 1.5 * NEAR_DELAY))

    def _delayed_error(self, r: Reading, delay: float) -> float:
        """Error with a delay, where friction has a timing of its own: its memory looks like a delay, too."""
        try:
            return self.with_free_timing.weighted_geometric_error(replace(r, delay=delay))
        except (DynidError, np.linalg.LinAlgError):
            return HOPELESS

    def _best_delay(self, r: Reading, near: float) -> float:
        """The delay at which the error is least, between those that are tried on both sides of one of them."""
        from scipy.optimize import minimize_scalar

        around = sorted({0.0, *DELAYS} - {near})
        low = max((x for x in around if x < near), default=near - 0.05)
        high = min((x for x in around if x > near), default=near + 0.05)
        found = minimize_scalar(
            lambda x: self._delayed_error(r, float(x)), bounds=(low, high), method="bounded",
            options={"xatol": 1e-4, "maxiter": 14},
        )  # fmt: skip
        return self._delay_for_own_friction(r, float(found.x), float(found.fun))

    def _delay_for_own_friction(self, r: Reading, best: float, least: float) -> float:
        """Delay that suits the friction asked for, among those hardly distinguishable from the best one."""
        sides = [self._delayed_error(r, best + side) for side in (-DELAY_PROBE, DELAY_PROBE)]
        bend = max(0.5 * sum(sides) - least, 1e-3 * least) / DELAY_PROBE**2
        reach = min(float(np.sqrt(SAME_DELAY * least / bend)), MOST_DELAY_OFF)
        own = self.with_own_friction
        return min((best - reach, best, best + reach), key=lambda x: own.fitted_error(replace(r, delay=x)))

    def refine_gravity(self, r: Reading) -> Reading:
        """The reading with gravity, where it was changed, in the direction of least error beside all other changes."""
        if r.gravity is None or r.loads:
            return r
        return min((r, *self._gravity_of_least_error(r, 0.0)), key=self.fit_error)

    def refine_reading(self, r: Reading) -> Reading:
        """The reading with every factor, angle and time where the error is least, beside all that was found later."""
        geared = {j: 1.0 / abs(x) for j, x in enumerate(r.q_factor) if not _is_of_units(x)}
        if geared:
            power = int(all(np.isclose(abs(r.gain[j]), x, rtol=0.2) for j, x in geared.items()))
            plain = self._with_gear_ratios(r, {j: 1.0 / x for j, x in geared.items()}, power)
            r = self._with_best_gear_ratios(plain, geared, power)
        for _ in range(2):
            gains = ReadingTask(self.refit, r).best_torque_factors().tolist()
            for j, gain in zip(self.joints, gains, strict=True):
                if abs(r.gain[j]) != 1.0 and abs(r.q_factor[j]) == 1.0 and 0.5 < gain < 2.0:
                    r = replace(r, gain=with_entry(r.gain, j, r.gain[j] * gain))
        for j, zero in enumerate(r.zero):
            if zero % (0.5 * np.pi) != 0.0:
                r = self._with_best_zero(replace(r, zero=with_entry(r.zero, j, 0.0)), j, (zero - 0.2, zero + 0.2))
        r = self.refine_gravity(r)
        return r if r.delay == 0.0 else replace(r, delay=self._best_delay(r, r.delay))


# The search: the best change, then the best beside it, to a fixed point.


BETTER = 1.04
"""Held-out error over that of an alternative from which on it is named."""

SURE_DELAY, SURELY_BETTER = 3e-3, (1.025, 1.035)
"""Smallest delay (s) that is named although friction with memory explains as much, and ratios of the joints' errors
(of their means, and in the geometric mean) from which on it is."""

BETTER_TIME, BETTER_GAIN, BETTER_MODEL, BETTER_LOAD = 1.03, 1.07, 1.15, 1.25
"""The same for delays, for factors of torques, for springs and for payloads: friction that changes from log to log
lets a payload explain a little."""

AS_UNITS = 1.02
"""Error with units of positions over that with gears up to which it is the units that are wrong."""

AS_SINES = 1.05
"""Error with a spring over that with any position-dependent torques up to which it is the spring that explains."""

WORSE_WITHOUT_SINES = 1.05
"""Error without position-dependent torques over that before from which on a change is not believed."""

WORSE = 1.04
"""Error of a joint over that without the delay from which on much must speak for it: friction looks like a delay."""

PROMISING = 1.015
"""Error of a fit to all samples over that of an alternative from which on this is tried on held-out data."""

PROMISING_AT_ONCE = 1.025
"""The same where time is short: what is named must be better by more on held-out data."""

FLOOR = 2e-3
"""NRMSE that is added to both: below it, rounding and filters decide."""

MATTERS = 0.03
"""Standard deviation of a torque over the largest below which a joint alone proves nothing but a sign."""

UNSTABLE = 1.4
"""Error on held-out stretches over that of the fit from which on a recording does not predict itself."""

POSSIBLE = 3.0
"""Error of a fit within the limits of physics over that without, up to which a reading is physically possible."""

FINALISTS = 6
COMPONENTS = (
    "springs",
    "delay",
    "zero",
    "gain",
    "gravity",
    "q_factor",
    "loads",
    "rotors",
    "derived",
    "tau_order",
    "q_order",
)
"""Parts of a reading, in the order in which they are taken back where they do not matter."""

ROUNDS, WAYS, FOLLOWED = 5, 3, 12
FAST, CONFIRMED, SCREENED, FULL = 70, 180, 400, 1200
"""Samples that are refitted: quickly, to confirm what was found so, to compare alternatives, and to judge them."""

NEEDS_SINES, MAY_NEED_SINES = 0.9, 0.7
"""Error with position-dependent torques over that without up to which they take part in every comparison: on held-out
data, and of fits to few samples, which more columns always fit better."""


@dataclass(frozen=True, slots=True)
class EvaluatedReading:
    """A reading with its held-out error: the lower of those with and without position-dependent torques.

    channels: NRMSE of each.
    """

    reading: Reading
    channels: tuple[float, ...]

    @property
    def error(self) -> float:
        """Mean NRMSE over the channels."""
        return float(np.mean(self.channels))


class Search:
    """Looks for the reading that explains the samples best.

    Alternatives are compared on some of the samples (screen) and judged on all of them (refit). budget: work that a
    search which is not thorough may take; must_finish: all single changes are tried whatever they take.
    """

    def __init__(
        self, samples: KeptSamples, *, thorough: bool, delay: float = 0.0, budget: float = np.inf,
        must_finish: bool = True,
    ) -> None:  # fmt: skip
        self.refit, self.thorough, self.delay = Refit(samples), thorough, delay
        self.budget, self.must_finish, self.is_complete = budget, must_finish, True
        self.screen = self.refit
        if len(samples) > SCREENED:
            self.screen = Refit(samples.thin_out(SCREENED), self.refit.work)
        self.alternatives = Alternatives(self.screen, samples, thorough=thorough, delay=delay)
        self.judged: dict[Reading, EvaluatedReading] = {}
        self.first_round: tuple[Reading, list[Reading]] | None = None

    @property
    def is_exhausted(self) -> bool:
        """Whether the budget is used up."""
        return self.refit.work.done > self.budget

    @cached_property
    def position_torques(self) -> tuple[bool, ...]:
        """Whether readings are judged with position-dependent torques, without, or both where there is time for it."""
        if self.thorough:
            return False, True
        start = Reading.as_recorded(self.refit.n)
        fits = [self.refit.fitted_error(replace(start, sines=x)) for x in (False, True)]
        if fits[1] > MAY_NEED_SINES * fits[0]:
            return (False,)
        plain, sines = (float(self.refit.held_out_errors(replace(start, sines=x)).mean()) for x in (False, True))
        return (sines < NEEDS_SINES * plain,)

    def evaluate_reading(self, reading: Reading) -> EvaluatedReading:
        """Evaluate a reading by its held-out error; infinite where the mechanism cannot move so."""
        plain = replace(reading, sines=False)
        if plain not in self.judged:
            try:
                errors = [self.refit.held_out_errors(replace(plain, sines=x)) for x in self.position_torques]
            except (DynidError, np.linalg.LinAlgError):
                errors = [np.array([np.inf])]
            self.judged[plain] = EvaluatedReading(plain, tuple(min(errors, key=lambda x: float(x.mean())).tolist()))
        return self.judged[plain]

    def _evaluate_without_position_torques(self, reading: Reading) -> EvaluatedReading:
        """Evaluate a reading without position-dependent torques."""
        return EvaluatedReading(reading, tuple(self.refit.held_out_errors(replace(reading, sines=False)).tolist()))

    def better_single_changes(self, reading: Reading) -> list[tuple[float, Reading]]:
        """Single changes that fit the samples better than the reading, the best first, with their errors.

        All are tried only once where the search is not thorough: further mistakes are among the changes that looked
        promising then.
        """
        fitted, found = self.screen.fitted_error, dict[Reading, float]()
        now, promising = fitted(reading, limited=True), self.alternatives.promising
        changes: Iterable[Reading] = self.alternatives.single_changes(reading)
        if self.first_round is not None:
            start, followed = self.first_round
            changes = [x for other in followed if (x := combine_changes(start, other, reading)) is not None]
        for other in changes:
            with suppress(DynidError, np.linalg.LinAlgError):
                found[other] = fitted(other)
            if self.first_round is not None and self.is_exhausted:
                break
            if self.refit.work.done > FIRST_ROUND * self.budget and not (
                self.must_finish and min(found.values(), default=np.inf) * SURELY_WRONG > now
            ):
                self.is_complete = False
                break
        good: list[tuple[float, Reading]] = []
        for other, least in sorted(found.items(), key=lambda pair: pair[1]):
            if least * promising > now or (not self.thorough and len(good) >= FOLLOWED and least > good[-1][0]):
                break  # limits only add to the error
            if len(good) >= FINALISTS // 2 and self.refit.work.done > LIMITED_FITS * self.budget:
                self.is_complete = False
                break
            with suppress(DynidError, np.linalg.LinAlgError):
                error = fitted(other, limited=True)
                good = sorted([*good, (error, other)] if error * promising < now else good, key=lambda pair: pair[0])
                good = good if self.thorough else good[:FOLLOWED]
        if self.first_round is None and not self.thorough:
            self.first_round = reading, [other for _, other in good]
        return good

    def find_best_reading(self, on_progress: Progress | None = None) -> tuple[EvaluatedReading, list[EvaluatedReading]]:
        """Search; return the best reading, and all that were evaluated."""
        if on_progress is not None:
            on_progress("trying alternatives", 0.0)
        start = self.evaluate_reading(Reading.as_recorded(self.refit.n))
        clear = self._clear_changes(start) if np.isfinite(start.error) else []
        if self.thorough and np.isfinite(start.error):
            self._evaluate_best_of_each_kind(self._with_position_torques_if_needed(start.reading))
        ends, ways = [], self._first_changes_to_follow(clear)
        for number, first in enumerate(ways):
            if on_progress is not None:
                on_progress("trying alternatives", (1 + number) / (1 + len(ways)))
            end = self._follow_clear_changes(first)
            is_single = end is first and not self.thorough  # a change alone is not needless
            ends.append(end if is_single else self._drop_needless_changes(end, start.reading))
        units = [x for x in ends if all(map(_is_of_units, x.reading.q_factor))]
        least = min((x.error for x in ends), default=np.inf) + FLOOR
        ends = [x for x in units if x.error + FLOOR < AS_UNITS * least] or ends  # units before gears of any ratio
        best = self._simplest_of_the_best(min(ends, key=lambda x: x.error), ends) if ends else start
        return best, list(self.judged.values())

    def _first_changes_to_follow(self, clear: Sequence[EvaluatedReading]) -> list[EvaluatedReading]:
        """The simplest of the best changes; thorough: the best of other kinds, too."""
        if not clear:
            return []
        first = self._simplest_of_the_best(clear[0], clear)
        kinds: dict[tuple[bool, ...], EvaluatedReading] = {}
        for x in (first, *clear):
            kinds.setdefault((*self._changed_parts(x.reading), all(map(_is_of_units, x.reading.q_factor))), x)
        return list(kinds.values())[: WAYS if self.thorough else 1]

    def _changed_parts(self, reading: Reading) -> tuple[bool, ...]:
        """Whether each part of a reading differs from what was recorded."""
        start = Reading.as_recorded(self.refit.n)
        return tuple(getattr(reading, name) != getattr(start, name) for name in COMPONENTS)

    def _follow_clear_changes(self, now: EvaluatedReading) -> EvaluatedReading:
        """Follow clear changes one at a time, until there is none."""
        for _ in range(ROUNDS - 1):
            if self.is_exhausted:
                self.is_complete = False
                break
            clear = self._clear_changes(now)
            if not clear:
                break
            now = self._simplest_of_the_best(clear[0], clear)
            if self.thorough:
                now = self.evaluate_reading(self.alternatives.refine_gravity(now.reading))
        if self.thorough:
            with suppress(DynidError, np.linalg.LinAlgError):
                now = min(
                    now, self.evaluate_reading(self.alternatives.refine_reading(now.reading)), key=lambda x: x.error
                )
        return now

    def _clear_changes(self, now: EvaluatedReading) -> list[EvaluatedReading]:
        """Single changes that are so much better that they are mistakes, the best first."""
        if self.refit.samples.velocity_lag and not now.reading.derived:
            return [self.evaluate_reading(replace(now.reading, derived=True))]  # positions say so, whatever the torques
        basis = self._with_position_torques_if_needed(now.reading)
        better = self.better_single_changes(basis)[: FINALISTS if self.thorough else FINALISTS // 2]
        finalists = [self.evaluate_reading(other) for _, other in better]
        clear = [x for x in finalists if self._is_clearly_better(x, now)]
        if self.thorough:
            clear += self._clear_springs(now)
        clear = [x for x in clear if x.reading.derived and not now.reading.derived] or clear  # positions say so, too
        if not clear and now.reading.delay == 0.0 and (not self.is_exhausted or self.must_finish):
            clear = self._clear_delays(now)
        return sorted(clear, key=lambda x: x.error)

    def _clear_delays(self, now: EvaluatedReading) -> list[EvaluatedReading]:
        """Delays that all but friction shows: with friction of any timing, held-out errors are clearly lower."""
        found = [x for x in self.alternatives.delay_changes(now.reading) if self._is_sure_delay(x)]
        return [self.evaluate_reading(x) for x in found]

    def _is_sure_delay(self, r: Reading) -> bool:
        """Whether held-out errors, with friction of any timing, are clearly lower with the delay than without."""
        if abs(r.delay) < SURE_DELAY:
            return False
        timed = self.alternatives.with_free_timing
        before, after = (timed.held_out_errors(replace(r, delay=x, sines=False)) + FLOOR for x in (0.0, r.delay))
        mean, typical = before.mean() / after.mean(), np.exp(np.log(before / after).mean())
        return bool(mean > SURELY_BETTER[0] and typical > SURELY_BETTER[1])

    def _clear_springs(self, now: EvaluatedReading) -> list[EvaluatedReading]:
        """Springs that explain much, and as much as anything that depends on the position could."""
        tried = self.alternatives.spring_changes(now.reading)
        fitted, plain = self.refit.fitted_error, now.reading
        best = min(tried, key=fitted, default=None)
        if best is None or fitted(best) * BETTER_MODEL > fitted(plain):
            return []
        found, before = self._evaluate_without_position_torques(best), self._evaluate_without_position_torques(plain)
        sines = float(self.refit.held_out_errors(replace(plain, sines=True)).mean())
        self.judged[best] = found
        least = min((before.error + FLOOR) / BETTER_MODEL, AS_SINES * (sines + FLOOR))
        own = self.refit.samples.joints.index(best.springs[-1])
        explains = 2.0 * (found.channels[own] + FLOOR) < before.channels[own] + FLOOR
        matters = explains or self._improves_joints_that_matter(found, before)
        return [found] if found.error + FLOOR < least and matters else []

    def _evaluate_best_of_each_kind(self, reading: Reading) -> None:
        """Evaluate the best single change of every kind, so that all are in the table."""
        best: dict[tuple[bool, ...], tuple[float, Reading]] = {}
        for other in self.alternatives.single_changes(reading):
            kind = tuple(getattr(other, name) != getattr(reading, name) for name in COMPONENTS)
            with suppress(DynidError, np.linalg.LinAlgError):
                best[kind] = min(
                    best.get(kind, (np.inf, other)),
                    (self.screen.fitted_error(other, limited=True), other),
                    key=lambda x: x[0],
                )
        for _, other in best.values():
            self.evaluate_reading(other)

    def _with_position_torques_if_needed(self, reading: Reading) -> Reading:
        """The reading, with position-dependent torques as further columns where these predict clearly better."""
        if not self.thorough:
            return replace(reading, sines=self.position_torques[0])
        plain, sines = (float(self.refit.held_out_errors(replace(reading, sines=x)).mean()) for x in (False, True))
        return replace(reading, sines=sines < NEEDS_SINES * plain)

    def _is_clearly_better(self, found: EvaluatedReading, now: EvaluatedReading) -> bool:
        """Whether a change is so much better that it is a mistake, beyond what models lack and their freedom gains."""
        r, before, least = found.reading, now.error, BETTER
        if r.gravity is not None and now.reading.gravity is None:  # the same columns on both sides
            same = tuple(self.alternatives.gravity.tolist())
            before = min(before, self.evaluate_reading(replace(now.reading, gravity=same)).error)
        if r.delay != now.reading.delay or r.derived != now.reading.derived:
            worst = max((x + FLOOR) / (y + FLOOR) for x, y in zip(found.channels, now.channels, strict=True))
            least = max(BETTER_MODEL if worst > WORSE else 1.0, self._least_for_delay(r, now.reading))
        if not np.allclose(np.sort(np.abs(r.gain)), np.sort(np.abs(now.reading.gain))):
            least = BETTER_GAIN
        if not self._reverses_friction(r, now.reading) and not self._is_supported_by_fit(found, now):
            least = np.inf
        if r.loads != now.reading.loads:
            least = max(least, BETTER_LOAD)
        if self.thorough and np.isfinite(least) and self._needs_position_torques(r, now.reading):
            least = np.inf
        return (found.error + FLOOR) * least < before + FLOOR

    def _needs_position_torques(self, r: Reading, before: Reading) -> bool:
        """Whether a change is better only beside position-dependent torques, which absorb gravity and zeros."""
        fits = [self.screen.fitted_error(replace(x, sines=False), limited=True) + FLOOR for x in (r, before)]
        return fits[0] > WORSE_WITHOUT_SINES * fits[1]

    def _least_for_delay(self, r: Reading, before: Reading) -> float:
        """Least improvement that a delay needs: little where residuals of the whole model show it too, else more.

        Friction that comes later looks like a delay, and a delay must explain more than this could.
        """
        residuals_agree = 0.25 * self.delay**2 < r.delay * self.delay < 4.0 * self.delay**2
        if r.delay == before.delay or (residuals_agree and before == Reading.as_recorded(self.refit.n)):
            return BETTER_TIME
        timed = self.alternatives.with_free_timing
        found, now = (float(timed.held_out_errors(x).mean()) + FLOOR for x in (r, replace(before, sines=False)))
        return BETTER_MODEL if found * BETTER_TIME < now else np.inf

    def _reverses_friction(self, r: Reading, before: Reading) -> bool:
        """Whether nothing but signs changes, and friction's with them: there physics speaks in every joint."""
        turned = [np.sign(x.gain) * np.sign(x.q_factor) for x in (r, before)]
        alike = replace(before, gain=r.gain, q_factor=r.q_factor, zero=r.zero)
        sizes, sizes_before = (np.abs([x.gain, x.q_factor, x.zero]) for x in (r, before))
        return alike == r and bool((turned[0] != turned[1]).any()) and np.allclose(sizes, sizes_before)

    def _is_supported_by_fit(self, found: EvaluatedReading, now: EvaluatedReading) -> bool:
        """Whether a reading fits joints that matter better whatever depends on the position, where this must be asked.

        Too short a recording predicts its own stretches badly, and chance decides which reading does it best.
        """
        if now.error + FLOOR < UNSTABLE * (self.refit.fitted_error(now.reading, limited=True) + FLOOR):
            return True
        fits = (self.refit.fitted_error(replace(x.reading, sines=True), limited=True) for x in (found, now))
        return next(fits) * PROMISING < next(fits) and self._improves_joints_that_matter(found, now)

    def _improves_joints_that_matter(self, found: EvaluatedReading, now: EvaluatedReading) -> bool:
        """Whether joints with large torques are predicted better, too: small torques show much else."""
        samples = self.refit.samples
        spread, revolute = samples.tau.std(axis=0), np.isin(samples.joints, self.alternatives.revolute)
        largest = np.array([spread[revolute == kind].max() for kind in revolute])
        some = spread > MATTERS * largest
        before, after = (float(np.mean(np.array(x.channels)[some])) + FLOOR for x in (now, found))
        return after * PROMISING < before

    def _simplest_of_the_best(self, best: EvaluatedReading, finalists: Sequence[EvaluatedReading]) -> EvaluatedReading:
        """The reading that changes least among those that are as good as the best."""
        close = [x for x in finalists if x.error + FLOOR <= 1.005 * (best.error + FLOOR)]
        return min(close, key=lambda x: (size_of_change(x.reading), x.error))

    def is_confirmed(self, found: Reading, start: Reading) -> bool:
        """Whether these samples, more than those it was found on, name a reading too."""
        fitted, before = (self.refit.fitted_error(x, limited=True) + FLOOR for x in (found, start))
        if found == replace(start, delay=found.delay) and self._is_sure_delay(found):
            return True
        if found == replace(start, derived=True) and self.refit.samples.velocity_lag:
            return True
        fits = fitted * BETTER_TIME < before or self._reverses_friction(found, start)
        return fits and self._is_clearly_better(self.evaluate_reading(found), self.evaluate_reading(start))

    def is_supported(self, found: Reading, start: Reading) -> bool:
        """Whether a reading fits better or, where only physics speaks for it, is physically possible itself."""
        error = self.refit.fitted_error(found)
        if error * PROMISING < self.refit.fitted_error(start):
            return True
        return self.refit.fitted_error(found, limited=True) + FLOOR < POSSIBLE * (error + FLOOR)

    def _drop_needless_changes(self, found: EvaluatedReading, start: Reading) -> EvaluatedReading:
        """The reading without changes that do not matter."""
        for name in COMPONENTS:
            is_sure = name == "derived" and bool(self.refit.samples.velocity_lag)
            is_sure = is_sure or (name == "delay" and self._is_sure_delay(found.reading))
            if getattr(found.reading, name) == getattr(start, name) or is_sure:
                continue
            other = replace(found.reading, **{name: getattr(start, name)})
            without = (
                self._evaluate_without_position_torques(other) if name == "springs" else self.evaluate_reading(other)
            )
            if without.error + FLOOR <= PROMISING * (found.error + FLOOR):
                found = without
        return self._drop_needless_entries(found, start) if self.thorough else found

    def _drop_needless_entries(self, found: EvaluatedReading, start: Reading) -> EvaluatedReading:
        """The reading with gravity along an axis, and without single entries, where it does as well so."""
        if found.reading.gravity is not None:
            g = np.array(found.reading.gravity)
            axis = np.where(np.arange(3) == np.abs(g).argmax(), np.sign(g) * np.linalg.norm(g), 0.0)
            found = self._simpler_if_as_good(found, replace(found.reading, gravity=tuple(axis.tolist())))
        for name, j in itertools.product(("zero", "gain", "q_factor"), range(self.refit.n)):
            now, before = getattr(found.reading, name), getattr(start, name)
            if now[j] != before[j]:
                entries: dict[str, Any] = {name: with_entry(now, j, before[j])}
                found = self._simpler_if_as_good(found, replace(found.reading, **entries))
        return found

    def _simpler_if_as_good(self, found: EvaluatedReading, simpler: Reading) -> EvaluatedReading:
        """The evaluated simpler reading where its error is as good, else the one that was found."""
        if found.reading.springs:
            return found  # judged in another way
        other = self.evaluate_reading(simpler)
        return other if other.error + FLOOR <= PROMISING * (found.error + FLOOR) else found


def combine_changes(start: Reading, other: Reading, now: Reading) -> Reading | None:
    """Reading `now` with what `other` changes of `start`; None where both change the order of the same channels."""
    if any(getattr(other, x) != getattr(start, x) != getattr(now, x) for x in ("q_order", "tau_order")):
        return None
    changed = [x for x in COMPONENTS if getattr(other, x) != getattr(start, x)]
    parts = {x: getattr(other, x) for x in changed}
    for x in {"gain", "q_factor"} & set(changed):
        each = zip(getattr(start, x), getattr(other, x), getattr(now, x), strict=True)
        parts[x] = tuple(c * b / a for a, b, c in each)
    if "zero" in changed:
        each = zip(start.zero, other.zero, now.zero, strict=True)
        parts["zero"] = tuple(_wrap_angle(c + b - a) if b != a else c for a, b, c in each)
    for x in {"loads", "rotors", "springs"} & set(changed):
        parts[x] = tuple(dict.fromkeys((*getattr(now, x), *getattr(other, x))))
    return replace(now, **parts)


def size_of_change(r: Reading) -> float:
    """Size of a reading's change, for the choice between those that explain alike."""
    plain = Reading.as_recorded(len(r.zero))
    count = sum(
        x != y for name in ("q_order", "tau_order") for x, y in zip(getattr(r, name), getattr(plain, name), strict=True)
    )
    signs = sum(x < 0.0 for x in (*r.gain, *r.q_factor))
    odd = sum(0.5 + (x % (0.5 * np.pi) != 0.0) for x in r.zero if x) + sum(
        0.5 if _is_of_units(x) else 2.0 for x in (*r.gain, *r.q_factor) if abs(x) != 1.0
    )
    rare = 1.5 * (r.gravity is not None) + 2.0 * (r.delay != 0.0) + 3.0 * (len(r.loads) + bool(r.rotors)) + r.derived
    return float(count + signs + odd + rare)


# What was found, in words and options.


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another reading of the logs: its kind, what would be wrong, its error, and the options that apply it.

    error: mean NRMSE on held-out stretches of time, of a fit that is physically possible; before: that of the logs as
    they were read. is_named: so much better that it is taken for a mistake.
    """

    kind: str
    what: Message
    error: float
    before: float
    options: tuple[Option, ...]
    is_named: bool

    def __str__(self) -> str:
        return f"{self.what.what} ({self.error:.3f})"


UNTRIED = "alternatives_untried"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Alternatives to how the logs were read, best first; error: of the logs as they were read; tried: how many.

    is_partial: alternatives were left out to save time; `diagnose` tries all. All errors are of one model, without
    position-dependent friction but where it explains much, on thinned samples: they compare with one another, not with
    the validation error of the result.
    """

    error: float
    alternatives: tuple[Alternative, ...]
    tried: int
    is_partial: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether no alternative was left out."""
        return not self.is_partial

    @property
    def left_out(self) -> tuple[Message, ...]:
        """Message on alternatives that were not tried, with the option that tries them; empty where all were."""
        if self.is_complete:
            return ()
        return (Message(
            UNTRIED, "mistakes in the recording beyond the {tried} alternatives that there was time for",
            "try all of them with {diagnose}", tried=self.tried, diagnose=Option("diagnose", True),
        ),)  # fmt: skip

    @property
    def best(self) -> Alternative | None:
        """The alternative that is taken for a mistake; None where the logs are best as they were read."""
        return next((x for x in self.alternatives if x.is_named), None)

    def table(self) -> str:
        """The alternatives as text: error, over that as recorded, what would be wrong, and the options."""
        lines = [f"{'error':>7} {'ratio':>6}  alternative", f"{self.error:7.4f} {1.0:6.2f}  as recorded"]
        for x in self.alternatives:
            mark = "*" if x.is_named else " "
            options = " ".join(option.render("command line") for option in x.options)
            lines.append(f"{x.error:7.4f} {x.error / max(self.error, 1e-300):6.2f} {mark}{x.what.what}: {options}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the logs were read with: wiring, gear (n, n) and gain (n,) of the drives, delay (s), friction blocks.

    has_velocity: velocities were recorded; logs: their names.
    """

    wiring: Wiring
    gear: Array | None
    gain: Array | None
    delay: float
    friction: tuple[str, ...]
    has_velocity: bool
    logs: tuple[str, ...]

    @staticmethod
    def from_logs(logs: Sequence[Log], delay: float, friction: tuple[str, ...]) -> Recorded:
        """Record of how the logs were read, by the first of them."""
        first, names = logs[0], tuple(log.name for log in logs)
        return Recorded(first.wiring, *first.drives, delay, friction, "v" in first.channels, names)


@dataclass(frozen=True, slots=True, eq=False)
class TriedData:
    """What alternatives are tried on: samples, how they were read, and the delay (s) that the residuals show.

    rows: samples of the logs in all; may_be_good: errors on validation data allow the best verdict.
    """

    samples: KeptSamples
    recorded: Recorded
    delay: float
    rows: int
    may_be_good: bool

    @property
    def budget(self) -> float:
        """Work that every identification may spend on alternatives: less than half of its own, as measured.

        Its own is at least this, whatever the options: a part that is always there, and one for every row and joint.
        """
        n = len(self.samples.joints)
        return BUDGET * (OWN_WORK[0] + OWN_WORK[1] * n + OWN_WORK[2] * n * self.rows)


BUDGET, OWN_WORK = 0.22, (45e3, 5e3, 0.7)
"""Share of the work of an identification, in the units of refits: once, per joint, per joint and row."""

SURELY_WRONG = 1.2
"""Error within the limits of physics over that of an alternative from which on the logs are not good as they are."""

FIRST_ROUND, LIMITED_FITS = 0.7, 0.75
"""Shares of the budget that trying the single changes may take, and with fits within the limits of physics: the rest is
for judging what they show."""


def find_mistakes(data: TriedData, *, thorough: bool, on_progress: Progress | None = None) -> Diagnosis:
    """Find mistakes in how the logs were read by trying alternatives; thorough: all of them on all samples."""
    samples = data.samples if thorough else data.samples.thin_out(FAST)
    if thorough and np.ptp(samples.q, axis=0).max() > MOTOR_SPAN:
        samples = samples.with_free_timing()  # dry friction of any width: else it would choose the gear ratios
    search = Search(
        samples, thorough=thorough, delay=data.delay, budget=np.inf if thorough else data.budget,
        must_finish=data.may_be_good,
    )  # fmt: skip
    best, judged = search.find_best_reading(on_progress)
    start = Reading.as_recorded(search.refit.n)
    error = search.evaluate_reading(start).error
    words = _ReadingWords(samples.equation.robot, data.recorded, error, data.samples.velocity_lag)
    describe = words.describe_alternative
    g = np.array(samples.equation.robot.gravity)
    tried = [x for x in judged if x.reading != start and np.isfinite(x.error)]
    near = LEAST_TILT * float(np.linalg.norm(g))  # gravities that are the robot's but for an angle that is not named
    others = [x for x in tried if x.reading.gravity is None or np.linalg.norm(np.array(x.reading.gravity) - g) >= near]
    others.sort(key=lambda x: x.error)
    is_named = best.reading != start and search.is_supported(best.reading, start)
    is_named = is_named and best.error < max(BELIEVED, 0.5 * error)
    if not search.is_complete and not samples.velocity_lag:  # positions alone name such a lag
        is_named = is_named and best.error * BETTER_IF_INCOMPLETE < error
    if is_named and not thorough:
        confirmation = Search(data.samples.thin_out(CONFIRMED), thorough=False, delay=data.delay)
        confirmation.position_torques = search.position_torques
        is_named = confirmation.is_confirmed(best.reading, start)
    named = [describe(best, is_named=True)] if is_named else []
    rest = [describe(x, is_named=False) for x in others if x.reading != best.reading or not named]
    several = [x for x in rest if x.kind == "several"][SEVERAL_LISTED:]
    fitted = {replace(reading, sines=False) for reading, _ in search.screen.fits} - {start}
    shown = (*named, *[x for x in rest if x not in several][:LISTED])
    return Diagnosis(error, shown, len(fitted), not search.is_complete)


BETTER_IF_INCOMPLETE = 1.3
"""Held-out error over that of an alternative from which on it is named although not all others were tried."""

BELIEVED = 0.3
"""Error from which on a reading that does not halve it is no remedy."""

LISTED, SEVERAL_LISTED = 12, 3
"""Alternatives that are listed, at most, and those of several changes among them."""


class _ReadingWords:
    """Turns readings into words and options."""

    def __init__(self, robot: Robot, recorded: Recorded, before: float, lag: float) -> None:
        self.robot, self.recorded, self.names, self.before = robot, recorded, robot.joint_names, before
        self.lag = lag

    def describe_alternative(self, judged: EvaluatedReading, *, is_named: bool) -> Alternative:
        """An `Alternative` for the user from a reading: kinds, clauses, errors and options."""
        r = judged.reading
        parts = [part for part in self._change_clauses(r)]
        kind = parts[0][0] if len(parts) == 1 else "several"
        facts = {"changes": [text for _, text in parts], "kinds": [k for k, _ in parts], "error": judged.error}
        what = Message(
            "mistaken_" + kind, "{changes}", "{options}", options=list(options := self.options_for_reading(r)), **facts
        )
        return Alternative(kind, what, judged.error, self.before, tuple(options), is_named)

    def _change_clauses(self, r: Reading) -> Iterator[tuple[str, str]]:
        """Kind of every change in a reading, with a clause on it."""
        n, names = self.robot.n, self.names
        moved_q, moved_tau = ([names[j] for j in range(n) if x[j] != j] for x in (r.q_order, r.tau_order))
        if moved_q and r.q_order == r.tau_order:
            yield "order", f"the columns of {_joint_list_text(moved_q)} are exchanged"
        else:
            if moved_q:
                yield "order", f"the positions of {_joint_list_text(moved_q)} are exchanged"
            if moved_tau:
                yield "order", f"the torques of {_joint_list_text(moved_tau)} are exchanged"
        q, tau = ([names[j] for j in range(n) if x[j] < 0.0] for x in (r.q_factor, r.gain))
        if tau and q == tau:
            yield "sign", f"positions and torques of {_joint_list_text(tau)} have the wrong sign"
        else:
            if tau:
                yield "sign", f"the torque of {_joint_list_text(tau)} has the wrong sign"
            if q:
                yield "sign", f"the position of {_joint_list_text(q)} has the wrong sign"
        zeros = [f"{names[j]} by {-np.degrees(x):.0f} deg" for j, x in enumerate(r.zero) if x]
        if zeros:
            yield "zero", f"the zero is off of {_joint_list_text(zeros)}"
        if r.gravity is not None:
            g, now = np.array(r.gravity), np.array(self.robot.gravity)
            size = float(np.linalg.norm(now))
            turn = np.degrees(np.arccos(np.clip(g @ now / (size * np.linalg.norm(g)), -1.0, 1.0))) if size else np.nan
            by = f", {turn:.0f} deg from the robot's" if size else ""
            yield "gravity", f"gravity is ({g[0]:.2f}, {g[1]:.2f}, {g[2]:.2f}) m/s^2{by}"
        yield from self._factor_clauses(r)
        if r.delay:
            when = "after" if r.delay > 0.0 else "before"
            yield "delay", f"torques are recorded {1e3 * abs(r.delay):.1f} ms {when} positions"
        if r.derived:
            when = "after" if self.lag > 0.0 else "before"
            by = f": they come {1e3 * abs(self.lag):.0f} ms {when} the positions' slopes" if self.lag else ""
            yield "delay", f"recorded velocities do not belong to the positions{by}"
        if r.rotors:
            yield "rotor_inertia", "rotor inertias are missing"
        if r.springs:
            yield "spring", f"there is a spring at {_joint_list_text([names[j] for j in r.springs])}"
        if r.loads:
            logs = [self.recorded.logs[k] if k < len(self.recorded.logs) else str(k + 1) for k in r.loads]
            yield (
                "payload",
                f"the last link is another one in {_shortened_list_text(logs)}: a payload that nobody declared",
            )

    def _factor_clauses(self, r: Reading) -> Iterator[tuple[str, str]]:
        """Kind and clause of changed units, gears and gains."""
        degrees, radians = (
            [self.names[j] for j, x in enumerate(r.q_factor) if np.isclose(abs(x), unit)]
            for unit in (np.pi / 180.0, 180.0 / np.pi)
        )
        if degrees:
            yield "units", f"positions of {_joint_list_text(degrees)} are degrees, not radians"
        if radians:
            yield "units", f"positions of {_joint_list_text(radians)} are radians that were taken for degrees"
        ratios = self._gear_ratios(r)
        if ratios:
            geared = [f"{name} (gear ratio {x:.4g})" for name, x in ratios.items()]
            yield "gear", f"positions are those of the motor at {_joint_list_text(geared)}"
        gains = [(self.names[j], abs(x), ratios.get(self.names[j], 1.0)) for j, x in enumerate(r.gain)]
        motors = [name for name, x, ratio in gains if ratio != 1.0 and np.isclose(x, ratio)]
        if motors:
            yield "gear", f"torques are those of the motor at {_joint_list_text(motors)}"
        large = [f"{name} by {1.0 / x:.3g}" for name, x, ratio in gains if not np.isclose(x, (1.0, ratio)).any()]
        if large:
            yield "gain", f"torques are too large by a factor at {_joint_list_text(large)}"

    def _gear_ratios(self, r: Reading) -> dict[str, float]:
        """Gear ratios of the joints whose positions are those of motors."""
        return {self.names[j]: 1.0 / abs(x) for j, x in enumerate(r.q_factor) if not _is_of_units(x)}

    def options_for_reading(self, r: Reading) -> list[Option]:
        """Options that apply a reading, together with those that the logs were read with."""
        now, joints = self.recorded, range(self.robot.n)
        wiring = Wiring(
            np.array(r.q_order), np.array(r.tau_order), np.sign(r.q_factor), np.sign(r.q_factor), np.sign(r.q_factor),
            np.sign(r.gain), np.array(r.zero),
        )  # fmt: skip
        found = list(now.wiring.then(wiring, now.gear).options(self.robot))
        kept = {option.keyword for option in found}
        found += [Option(o.keyword, ()) for o in now.wiring.options(self.robot) if o.keyword not in kept]
        factor, gain = np.abs(r.q_factor), np.abs(r.gain)
        degrees = np.isclose(factor, np.pi / 180.0)
        if degrees.any():
            unit = "deg" if degrees.all() else ["deg" if x else "rad" for x in degrees]
            units: dict[str, object] = {"q": unit}
            if now.has_velocity:
                units["v"] = "deg/s" if degrees.all() else ["deg/s" if x else "rad/s" for x in degrees]
            found.append(Option("units", units))
        if np.isclose(factor, 180.0 / np.pi).any():
            found.append(Option("units", {"q": "rad"}))
        ratios = np.array([self._gear_ratios(r).get(self.names[j], 1.0) for j in joints])
        if (ratios != 1.0).any():
            gear = ratios if now.gear is None else ratios * np.diag(now.gear)
            found.append(Option("gear", _round_to_four_digits(gear)))
            gain = gain / ratios
        if not np.allclose(gain, 1.0, atol=1e-9):
            found.append(Option("gain", _round_to_four_digits(gain if now.gain is None else gain * now.gain)))
        if r.gravity is not None:
            found.append(Option("gravity", _round_to_four_digits(np.array(r.gravity))))
        if r.delay:
            found.append(Option("delay", round(now.delay + r.delay, 5)))
        if r.derived:
            found.append(Option("columns", {"v": None}))
        if r.rotors:
            found.append(Option("rotor_inertia", True))
        if r.springs:
            found.append(Option("friction", [*now.friction, "spring"]))
        return found


def _round_to_four_digits(values: Array) -> list[float]:
    """Numbers rounded to four digits."""
    return [float(f"{x:.4g}") + 0.0 for x in values]


def _joint_list_text(names: Sequence[str]) -> str:
    """Names of joints in a clause: joint 2, joints 2, 3."""
    return f"joint{'s' if len(names) > 1 else ''} {_shortened_list_text(names)}"


def _shortened_list_text(names: Sequence[str]) -> str:
    """Names separated by commas, six at most and how many more."""
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
