"""Alternatives to how logs were read: readings that differ by one change, such as a sign, an order, a zero or a delay.

An alternative changes how a recording is read, not what is fitted (see `refit`). Which of them are tried and believed
is the matter of `hypotheses`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from dynid.concurrency import cached_property
from dynid.errors import DynidError
from dynid.estimation.diagnostics.refit import MOTOR_SPAN, KeptSamples, Reading, ReadingTask, Refit
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

# What is tried of each kind, and how small a change is not: real robots and their models differ by as much.

STEPS, LEAST_ZERO = (0.5 * np.pi, np.pi, -0.5 * np.pi), np.radians(4.0)
PROBE, SEEN = 0.3, 1e-4
"""Angle (rad) by which zeros are moved to see where the error falls, and its relative change that can be seen."""

LEAST_TILT, SAME_TILT, WORSE_ALONG_AXIS = np.radians(4.0), np.radians(1.5), 1.1
"""A gravity as near to an axis as SAME_TILT is taken for one along it, and one within LEAST_TILT where the error along
the axis is not worse than this."""

TILT_PROBE, MOST_TILT, TURNS, FAST_TURNS = 0.1, 1.0, 8, 1
"""Tangent by which gravity is turned to see where the error falls, at most in one step, and steps."""

STANDARD_GRAVITY = 9.81

DELAYS, NEAR_DELAY, TRIED_DELAY = (-0.05, -0.02, -0.01, -0.005, 0.005, 0.01, 0.02, 0.05), 0.008, 1.5e-3
DELAY_PROBE, MOST_DELAY_OFF, SAME_DELAY = 2e-3, 3e-3, 0.02
"""Times (s) by which delays are moved to see the error rise, and at most; relative rise that tells nothing."""

LEAST_GAIN, MOST_GAIN, LEAST_DIP = 1.3, 1e4, 1e-3
"""Least and largest factor of a torque, and by how much the error must be less than with those next to it."""

FACTORS = tuple(float(x) for x in np.geomspace(1.0 / MOST_GAIN, MOST_GAIN, 25))
"""Factors of a torque that are tried: N mm for N m is one of 1000, which lies well inside."""

LARGE_FACTOR, BEGIN_FACTOR, FACTOR_ROUNDS = 2.0, 100.0, 6
"""Factor from which on it is sought anew beside itself, one beside which very large ones are sought, and how often."""

NEARLY_ROUND = 0.02
"""Logarithm by which a factor may differ from a round one that is taken for it."""

KNOWN_FACTORS = (1.0, np.pi / 180.0, 180.0 / np.pi)
"""Of positions, by units alone."""

WIDE_SLIDE = 5.0
"""Range of a position (m) from which on it may be that of a motor."""

TOO_FAR = 2.0 * np.pi
"""Range of a position (rad) beyond that of its limits from which on units or a gear are wrong, not limits or zeros."""

FEW_WIDE = 2
"""Joints with so wide positions, at most, up to which each is tried with a gear and the other sense, too."""

RATIOS = tuple(float(x) for x in np.geomspace(5.0, 320.0, 40))
"""Gear ratios that are tried, each a tenth from the next."""

COMMON_RATIOS = (30.0, 50.0, 51.0, 80.0, 81.0, 100.0, 101.0, 120.0, 121.0, 160.0, 161.0)
"""Of strain wave gears, which most arms have."""

FLAT, AS_USUAL, SAME_HELD_OUT, AS_GOOD, ALIKE = 1.03, 1.015, 1.005, 1.02, 0.03
"""Error over the least one up to which a fit does not choose between gear ratios; of held-out errors up to which usual
ones are preferred, those in the middle of others, and as good for all that matters; logarithm of ratios that are too
alike to be chosen between so."""

# Which of them deserve a closer look.

PROMISING = 1.015
"""Error of a fit to all samples over that of an alternative from which on this is tried on held-out data."""

PROMISING_AT_ONCE = 1.025
"""The same where time is short: what is named must be better by more on held-out data."""

FOLLOWED = 12
"""Changes that are looked at more closely where time is short."""

ROUGH, COARSE, AT_ONCE, RULED_OUT = 30, 100, 12, 1.1
"""Samples of rough fits, and of those that choose between pairs of changes; readings that are fitted at once, and error
over that as recorded that rules one out."""

AT_ONCE_ENTRIES = 4_000_000
"""Entries of the products of readings that are fitted at once."""

SUSPICIOUS = 0.05
"""Error from which on exchanged positions are tried quickly: where it is less, every joint is where it belongs."""

HOPELESS = 1e3
"""Error of a motion that the mechanism cannot make."""

COMPONENTS = (
    "springs", "delay", "zero", "gain", "gravity", "q_factor", "loads", "rotors", "derived", "tau_order", "q_order",
)  # fmt: skip
"""Parts of a reading, in the order in which they are taken back where they do not matter."""


# Readings and how they differ.


def with_entry(values: tuple[float, ...], j: int, value: float) -> tuple[float, ...]:
    """The values with the entry at index j replaced."""
    return (*values[:j], value, *values[j + 1 :])


def is_of_units(factor: float) -> bool:
    """Whether a factor of positions is one of units alone, whatever its sign; others are gear ratios."""
    return bool(np.isclose(abs(factor), KNOWN_FACTORS).any())


def without_zeros_of_gears(r: Reading) -> Reading:
    """The reading without zeros of joints with a gear: a zero hides a wrong ratio."""
    each = zip(r.zero, r.q_factor, strict=True)
    return replace(r, zero=tuple(zero if is_of_units(factor) else 0.0 for zero, factor in each))


def _nearest_round(factor: float) -> float:
    """The nearest of the numbers 1, 2 and 5 times a power of ten, by their ratio."""
    power = 10.0 ** np.floor(np.log10(factor))
    return float(min(power * np.array([1.0, 2.0, 5.0, 10.0]), key=lambda x: abs(np.log(x / factor))))


def are_changed_factors_round(r: Reading, before: Reading) -> bool:
    """Whether every torque that has another size than before has a round factor: chance hardly finds one."""
    pairs = zip(np.abs(r.gain).tolist(), np.abs(before.gain).tolist(), strict=True)
    return all(bool(np.isclose(x, _nearest_round(x))) for x, y in pairs if not np.isclose(x, y))


def find_valleys(errors: Sequence[float]) -> list[tuple[int, int]]:
    """Places on both sides of every minimum where errors are larger by a dip; a valley may be wide and flat."""
    found = dict[tuple[int, int], None]()
    for least in errors:
        k = errors.index(least)
        sides = []
        for others in (range(k - 1, -1, -1), range(k + 1, len(errors))):
            ends = (i for i in others if errors[i] < least or errors[i] * (1.0 - LEAST_DIP) > least)
            sides.append(next((i for i in ends), k))
        low, high = sides
        if low < k < high and min(errors[low], errors[high]) > least:
            found[low, high] = None
    return list(found)


def wrap_angle(angle: float) -> float:
    """The angle brought to the interval (-pi, pi]."""
    return float(np.pi - (np.pi - angle) % (2.0 * np.pi))


def changed_components(other: Reading, reading: Reading) -> tuple[bool, ...]:
    """Whether each part of a reading differs from that of another."""
    return tuple(getattr(other, name) != getattr(reading, name) for name in COMPONENTS)


def changed_entries(r: Reading) -> frozenset[tuple[str, object]]:
    """What a reading changes, whatever by how much: names of its parts, with joints or logs where they have entries."""
    plain, found = Reading.as_recorded(len(r.zero)), set[tuple[str, object]]()
    for name in COMPONENTS:
        now, before = getattr(r, name), getattr(plain, name)
        if name in ("loads", "rotors", "springs"):
            found |= {(name, x) for x in now}
        elif isinstance(before, tuple):
            found |= {(name, k) for k in range(len(before)) if now[k] != before[k]}
        elif now != before:
            found.add((name, None))
    return frozenset(found)


def combine_changes(start: Reading, other: Reading, now: Reading) -> Reading | None:
    """Reading `now` with what `other` changes of `start`; None where both change the same order, or alike a factor."""
    if any(getattr(other, x) != getattr(start, x) != getattr(now, x) for x in ("q_order", "tau_order")):
        return None
    changed = [x for x in COMPONENTS if getattr(other, x) != getattr(start, x)]
    parts = {x: getattr(other, x) for x in changed}
    for x in {"gain", "q_factor"} & set(changed):
        factors = list(zip(getattr(start, x), getattr(other, x), getattr(now, x), strict=True))
        if any(a != b == c for a, b, c in factors):
            return None  # it is there already: twice would be its square
        parts[x] = tuple(c * b / a for a, b, c in factors)
    if "zero" in changed:
        each = zip(start.zero, other.zero, now.zero, strict=True)
        parts["zero"] = tuple(wrap_angle(c + b - a) if b != a else c for a, b, c in each)
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
        0.5 if is_of_units(x) else 2.0 for x in (*r.gain, *r.q_factor) if abs(x) != 1.0
    )
    rare = 1.5 * (r.gravity is not None) + 2.0 * (r.delay != 0.0) + 3.0 * (len(r.loads) + bool(r.rotors)) + r.derived
    return float(count + signs + odd + rare)


# The alternatives.


def _usual_together(ratios: Array) -> list[Array]:
    """Gear ratios of several joints that are all usual, and to one another nearly as those given, which are not.

    Where all positions are too large by much the same factor, torques hardly tell it.
    """
    common, found = np.array(COMMON_RATIOS), dict[tuple[float, ...], Array]()
    if len(ratios) == 1 or np.isin(ratios, common).all():
        return []
    for first in common:
        wanted = ratios * first / ratios[0]
        usual = common[np.abs(np.log(common / wanted[:, None])).argmin(axis=1)]
        if np.abs(np.log(usual / wanted)).max() < 2.0 * ALIKE:
            found[tuple(usual.tolist())] = usual
    return list(found.values())


def find_joints_that_move_too_far(robot: Robot, spans: Array) -> list[int]:
    """Revolute joints whose positions range over `spans` (n,), more than a turn further than their limits."""
    room = np.ptp(robot.limits.position, axis=1)
    kinds = [robot.links[k].kind for k in robot.active_links]
    return [j for j, kind in enumerate(kinds) if kind == "revolute" and room[j] + TOO_FAR < spans[j] < np.inf]


def _fitted_error(refit: Refit, r: Reading) -> float:
    """Error of a fit to the samples of refits, a large one where the mechanism cannot move so."""
    try:
        return refit.fitted_error(r)
    except (DynidError, np.linalg.LinAlgError):
        return HOPELESS


class Alternatives:
    """All single changes of a reading that are tried; thorough: those that need many refits, too.

    refit: of the samples on which they are compared; samples: all of them, for the timing of torques. delay (s): of the
    torques, as the residuals show it. has_springs: the friction that was fitted has springs. alike_ratios: by joint and
    gear ratio, the range of those that explain as much.
    """

    def __init__(
        self, refit: Refit, samples: KeptSamples, *, thorough: bool, delay: float = 0.0, has_springs: bool = False
    ) -> None:
        equation = refit.samples.equation
        robot = equation.robot
        self.refit, self.n, self.joints, self.thorough = refit, refit.n, refit.samples.joints, thorough
        self.samples = samples
        kinds = [robot.links[k].kind for k in robot.active_links]
        self.revolute = [j for j in range(self.n) if kinds[j] == "revolute"]
        self.gravity = np.array(robot.gravity)
        self.promising = PROMISING if thorough else PROMISING_AT_ONCE
        self.knows_geometry = equation.unknown is None
        self.delay, self.has_springs = delay, has_springs
        self._gears: dict[tuple[Reading, tuple[tuple[int, float], ...], int], Reading] = {}
        self.alike_ratios: dict[tuple[int, float], tuple[float, float]] = {}

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
        return _fitted_error(self.refit, r)

    def rough_fit_error(self, r: Reading) -> float:
        """The same of a fit to some samples, for the choice between very many."""
        return _fitted_error(self._coarsely, r)

    @cached_property
    def _coarsely(self) -> Refit:
        """Refits of some samples."""
        return Refit(self.samples.thin_out(COARSE), self.refit.work)

    def single_changes(self, r: Reading) -> Iterator[Reading]:
        """Every reading that differs by one change: those that are common and quickly tried come first.

        Where time is short, so do units and a delay that the data show by themselves.
        """
        is_wide = not self.thorough and np.ptp(self.samples.q, axis=0)[self.revolute].max(initial=0.0) > MOTOR_SPAN
        is_late = not self.thorough and abs(self.delay) > TRIED_DELAY
        if is_wide:
            yield from self.unit_and_gear_changes(r)
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
        if not is_wide:
            yield from self.unit_and_gear_changes(r)
        yield from self.gravity_axes(r)
        yield from self.torque_sign_patterns(r)
        if not is_late:
            yield from self.delay_changes(r)
        yield from self.gravity_directions(r)
        if not self.refit.samples.equation.options.rotor_inertia and not r.rotors:
            yield replace(r, rotors=self.joints)
        if self.refit.samples.slopes is not None and not r.derived:
            yield replace(r, derived=True)
        yield from self.payload_changes(r)
        if not self.thorough:
            yield from self._far_too_small_torques(r)

    def payload_changes(self, r: Reading) -> Iterator[Reading]:
        """Readings with a payload in one more of the logs."""
        logs = np.unique(self.refit.samples.log).tolist()
        if len(logs) > 1 and len(r.loads) + 1 < len(logs):
            yield from (replace(r, loads=(*r.loads, log)) for log in logs if log not in r.loads)

    def changes_without_size(self, r: Reading) -> Iterator[Reading]:
        """Single changes of which no size is sought: signs, orders, zeros by right angles, gravity, payloads."""
        yield from self.torque_signs_and_orders(r)
        yield from self.sign_changes(r)
        yield from self.order_changes(r)
        yield from self.zero_steps(r)
        yield from self.gravity_axes(r)
        yield from self.payload_changes(r)

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
            step = self._zero_of_least_error(now, sides) if np.isfinite(sides).all() else 0.0
            if abs(step) > LEAST_ZERO:
                yield self._with_zero(r, j, step)

    def _rough_errors(self, readings: Sequence[Reading]) -> list[float]:
        """Squared errors of free fits to a few samples, infinite of those for which there is no time."""
        found: list[float] = []
        channels, _, own = self.samples.friction.shape
        columns = own + self.samples.equation.rigid_column_count
        size = max(1, min(AT_ONCE, AT_ONCE_ENTRIES // (channels * columns**2)))
        for k in range(0, len(readings), size):
            some = [replace(x, sines=False) for x in readings[k : k + size]]
            if found and self.refit.work.is_exhausted:
                return found + [np.inf] * (len(readings) - k)
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
        if not self.has_springs:
            for j in self.joints:
                if j not in r.springs:
                    yield replace(r, springs=(*r.springs, j), sines=False)

    def torque_changes(self, r: Reading) -> Iterator[Reading]:
        """Readings with other torques: reversed, of one joint or of all, exchanged, times a factor."""
        yield from self.torque_signs_and_orders(r)
        yield from self.gain_changes(r)

    def torque_signs_and_orders(self, r: Reading) -> Iterator[Reading]:
        """Readings with torques reversed, of one joint or of all, or exchanged."""
        for j in self.joints:
            yield replace(r, gain=with_entry(r.gain, j, -r.gain[j]))
        if self.n > 1:
            yield replace(r, gain=tuple(-x for x in r.gain))
        for move in self._moves:
            yield replace(r, tau_order=tuple(r.tau_order[k] for k in move), gain=tuple(r.gain[k] for k in move))

    def torque_sign_patterns(self, r: Reading) -> Iterator[Reading]:
        """Readings with the torques of several joints reversed: the signs that fit best, as physics would have them.

        Opposite signs fit alike but for physics, and a free fit hardly knows the sign of a joint that no other one
        shares parameters with: such signs are turned while that lowers the error within the limits of physics.
        """
        with suppress(DynidError, np.linalg.LinAlgError):
            best = ReadingTask(self.refit, r).best_torque_signs()
            if self.fit_error(self._with_torque_signs(r, best)) * self.promising > self.fit_error(r):
                return
            for signs in (best, -best):
                found = self._physical_signs(r, signs)
                if 1 < np.count_nonzero(found < 0.0) < len(found):
                    yield self._with_torque_signs(r, found)

    def _with_torque_signs(self, r: Reading, signs: Array) -> Reading:
        """The reading with the torques of all channels times signs (channels,)."""
        turned = dict(zip(self.joints, signs.tolist(), strict=True))
        return replace(r, gain=tuple(x * turned.get(j, 1.0) for j, x in enumerate(r.gain)))

    def _physical_signs(self, r: Reading, signs: Array) -> Array:
        """Signs near those given at which no single one can be turned to a lower error within the limits of physics."""

        def error(signs: Array) -> float:
            return self.refit.fitted_error(self._with_torque_signs(r, signs), limited=True)

        now, least = signs, error(signs)
        for _ in signs:
            others = [now * np.where(np.arange(len(now)) == k, -1.0, 1.0) for k in range(len(now))]
            errors = [error(x) for x in others]
            if min(errors) >= least:
                break
            now, least = others[int(np.argmin(errors))], min(errors)
        return now

    def sign_changes(self, r: Reading) -> Iterator[Reading]:
        """Readings with positions reversed, or positions and torques: of one joint, or of all."""
        for j in range(self.n):
            yield from self._with_other_sense(r, j)
        if self.n > 1:
            torques = tuple(-x for x in r.gain)
            turned = replace(r, q_factor=tuple(-x for x in r.q_factor), zero=tuple(-x for x in r.zero))
            yield turned
            yield replace(turned, gain=torques)

    def _with_other_sense(self, r: Reading, j: int) -> Iterator[Reading]:
        """Readings with a joint's position reversed, and with its torque beside it."""
        turned = replace(r, q_factor=with_entry(r.q_factor, j, -r.q_factor[j]), zero=with_entry(r.zero, j, -r.zero[j]))
        yield turned
        if j in self.joints:
            yield replace(turned, gain=with_entry(r.gain, j, -r.gain[j]))

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
        yield from self.other_zeros(r, self.revolute)

    def other_zeros(self, r: Reading, joints: Sequence[int]) -> Iterator[Reading]:
        """Readings with the zero of one of some joints shifted by multiples of 90 degrees."""
        for j in joints:
            yield from (self._with_zero(r, j, step) for step in STEPS)

    def zero_angles(self, r: Reading) -> Iterator[Reading]:
        """Readings with a zero shifted by the angle of least error, where it falls."""
        now = self.fit_error(r) ** 2
        for j in self.revolute:
            sides = [self.fit_error(self._with_zero(r, j, x)) ** 2 for x in (-PROBE, PROBE)]
            step = self._zero_of_least_error(now, sides)
            found = self._with_best_zero(r, j, (-1.0, 0.0) if step < 0.0 else (0.0, 1.0)) if step else r
            if abs(wrap_angle(found.zero[j] - r.zero[j])) > LEAST_ZERO:
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
        return replace(r, zero=with_entry(r.zero, j, wrap_angle(r.zero[j] + angle)))

    def _with_best_zero(self, r: Reading, j: int, between: tuple[float, float]) -> Reading:
        """The zero moved by the angle at which the error is least."""
        from scipy.optimize import minimize_scalar

        def moved(angle: float) -> Reading:
            return replace(r, zero=with_entry(r.zero, j, wrap_angle(r.zero[j] + angle)))

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
        if self.thorough:
            yield from (x for j in self.joints for x in self._gains_of_least_error(r, j))
            return
        with suppress(np.linalg.LinAlgError):
            factors = ReadingTask(self.refit, r).best_torque_factors().tolist()
            for j, gain in [(j, self._settled_factor(r, j, x)) for j, x in zip(self.joints, factors, strict=True)]:
                if 1.0 / MOST_GAIN < abs(r.gain[j]) * gain < MOST_GAIN and max(gain, 1.0 / gain) > LEAST_GAIN:
                    yield replace(r, gain=with_entry(r.gain, j, r.gain[j] * gain))

    def _settled_factor(self, r: Reading, j: int, factor: float) -> float:
        """The factor of a joint's torque, sought anew beside itself where it is large.

        Torques are weighed by their size, so that one that is far too small rules the parameters and looks right.
        """
        for _ in range(FACTOR_ROUNDS):
            if not LARGE_FACTOR < factor < MOST_GAIN or not (more := self._factor_beside(r, j, factor)) > LEAST_GAIN:
                break
            factor *= more
        return factor

    def _factor_beside(self, r: Reading, j: int, factor: float) -> float:
        """The further factor of a joint's torque that suits the others' parameters, beside one that is given."""
        self.refit.add_fits(1, limited=False)
        task = ReadingTask(self.refit, self._with_gain(r, j, factor))
        return float(task.best_torque_factors()[self.joints.index(j)])

    def _far_too_small_torques(self, r: Reading) -> Iterator[Reading]:
        """Readings with one joint's torque times a factor that is seen only beside a large one."""
        for j in self.joints:
            with suppress(np.linalg.LinAlgError):
                more = self._factor_beside(r, j, BEGIN_FACTOR)
                factor = self._settled_factor(r, j, BEGIN_FACTOR * more) if more > 1.0 / LARGE_FACTOR else 1.0
                if factor > LARGE_FACTOR and abs(r.gain[j]) * factor < MOST_GAIN:
                    yield self._with_gain(r, j, factor)

    def _gains_of_least_error(self, r: Reading, j: int) -> Iterator[Reading]:
        """Readings with a joint's torque times factors at which the error is less than with others near by.

        A regression of the torque on the others' parameters would take noise for a smaller factor.
        """
        tried = [self._with_gain(r, j, factor) for factor in FACTORS]
        errors = [self.fit_error(x) for x in tried]
        for low, high in find_valleys(errors):
            found = self._with_best_gain(r, j, (FACTORS[low], FACTORS[high]))
            gain = found.gain[j] / r.gain[j]
            if 1.0 / MOST_GAIN < abs(found.gain[j]) < MOST_GAIN and max(gain, 1.0 / gain) > LEAST_GAIN:
                yield found

    def are_factors_seen(self, r: Reading) -> bool:
        """Whether half and double of every factor of a torque alone fit worse.

        Noise and friction of a joint whose motion hardly shows in the others' torques ask for any smaller factor.
        """
        alone = [j for j in self.joints if abs(r.gain[j]) != 1.0 and abs(r.q_factor[j]) == 1.0]
        most = (1.0 + LEAST_DIP) * self.fit_error(r)
        return all(self.fit_error(self._with_gain(r, j, x)) > most for j in alone for x in (0.5, 2.0))

    def _with_gain(self, r: Reading, j: int, factor: float) -> Reading:
        """The reading with a joint's torque times a factor."""
        return replace(r, gain=with_entry(r.gain, j, r.gain[j] * factor))

    def _with_best_gain(self, r: Reading, j: int, between: tuple[float, float]) -> Reading:
        """The reading with a joint's torque times the factor, between two, at which samples are likeliest.

        Or a round one where they are hardly less likely.
        """
        from scipy.optimize import minimize_scalar

        def error(logarithm: float) -> float:
            try:
                return self.refit.weighted_geometric_error(self._with_gain(r, j, float(np.exp(logarithm))))
            except (DynidError, np.linalg.LinAlgError):
                return HOPELESS

        found = minimize_scalar(
            error, bounds=tuple(np.log(between).tolist()), method="bounded", options={"xatol": 2e-3, "maxiter": 16}
        )
        round_gain = _nearest_round(abs(r.gain[j]) * float(np.exp(found.x)))
        rounded = float(np.log(round_gain / abs(r.gain[j])))
        is_as_good = abs(rounded - found.x) < NEARLY_ROUND and error(rounded) <= SAME_HELD_OUT * found.fun
        return self._with_gain(r, j, float(np.exp(rounded if is_as_good else found.x)))

    def unit_and_gear_changes(self, r: Reading) -> Iterator[Reading]:
        """Readings with degrees in place of radians or the reverse, or with positions of motors: all joints or one."""
        span = np.ptp(self.refit.samples.q, axis=0)[list(r.q_order)] * np.abs(r.q_factor)
        degrees = np.pi / 180.0
        for factor, low, high in ((degrees, 3.0, 1500.0), (1.0 / degrees, 1e-3, 0.2)):
            inside = [j for j in self.revolute if low < span[j] < high]
            for joints in ([inside] if len(inside) > 1 else []) + [[j] for j in inside]:
                yield self._with_scaled_positions(r, joints, factor)
        wide = [j for j in range(self.n) if span[j] > (MOTOR_SPAN if j in self.revolute else WIDE_SLIDE)]
        if not self.thorough:
            return
        for joints in ([wide] if len(wide) > 1 else []) + [[j] for j in wide]:
            yield from self._gear_changes(r, joints, max(span[j] for j in joints))
        if len(wide) <= FEW_WIDE:  # motors that turn the other way: neither the gear nor the sign helps alone
            for j in wide:
                for turned in self._with_other_sense(r, j):
                    yield from self._gear_changes(turned, [j], span[j])
        yield from self._other_sides_of_gears(r)
        scaled = {j: x for j, x in enumerate(r.q_factor) if abs(x) != 1.0}
        if len({is_of_units(x) for x in scaled.values()}) > 1:  # units at some joints and gears at others: rarely both
            unscaled = self._with_unscaled_joints(r, list(scaled))
            yield from self._gear_changes(unscaled, list(scaled), max(span[j] / abs(x) for j, x in scaled.items()))
        for j in range(self.n):  # what was taken for units, or for a position alone, beside what was found since
            if abs(factor := r.q_factor[j]) != 1.0 and changed_entries(r) - {("q_factor", j), ("gain", j)}:
                unscaled = self._with_unscaled_joints(r, [j])
                yield from (x for x in self._gear_changes(unscaled, [j], span[j] / abs(factor)) if x != r)

    def joints_that_move_too_far(self, r: Reading) -> list[int]:
        """Revolute joints whose positions as read range more than a turn further than their limits."""
        spans = np.ptp(self.refit.samples.q, axis=0)[list(r.q_order)] * np.abs(r.q_factor)
        return find_joints_that_move_too_far(self.refit.samples.equation.robot, spans)

    def changes_into_limits(self, r: Reading) -> Iterator[Reading]:
        """Readings in which all positions that range too far are degrees, or those of motors, and so do not."""
        far = self.joints_that_move_too_far(r)
        if far:
            widest = float(np.ptp(self.refit.motion_as_read(r).q[:, far], axis=0).max())
            changes = [self._with_scaled_positions(r, far, np.pi / 180.0), *self._gear_changes(r, far, widest)]
            yield from (x for x in changes if not self.joints_that_move_too_far(x))

    def _with_unscaled_joints(self, r: Reading, joints: Sequence[int]) -> Reading:
        """The reading with positions and torques of some joints as large as they were recorded."""
        factor, gain = (
            tuple(float(np.sign(x)) if j in joints else x for j, x in enumerate(values))
            for values in (r.q_factor, r.gain)
        )
        return replace(r, q_factor=factor, gain=gain)

    def _other_sides_of_gears(self, r: Reading) -> Iterator[Reading]:
        """Readings with the torques of all motors, or of all joints, where several positions are those of motors."""
        geared = [j for j in self.joints if not is_of_units(r.q_factor[j])]
        for power in (0, 1) if len(geared) > 1 else ():
            gains = {j: abs(r.q_factor[j]) ** -power for j in geared}
            other = replace(r, gain=tuple(float(np.sign(x)) * gains.get(j, abs(x)) for j, x in enumerate(r.gain)))
            if other != r:
                yield other

    def _gear_changes(self, r: Reading, joints: Sequence[int], widest: float) -> Iterator[Reading]:
        """Readings in which the positions of joints, or positions and torques, are those of motors."""
        for power in (0, 1):
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

        low, high = float(np.log(0.5 * RATIOS[0])), float(np.log(2.0 * RATIOS[-1]))
        found = minimize(
            error, np.clip(np.log([best[j] for j in joints]), low, high), method="Powell",
            bounds=[(low, high)] * len(joints),
            options={"xtol": 1e-3, "ftol": 1e-5, "maxfev": 100 * len(joints)},
        )  # fmt: skip
        ratios, common = np.exp(found.x), np.array(COMMON_RATIOS)
        usual = common[np.abs(np.log(common / ratios[:, None])).argmin(axis=1)]
        whole = np.maximum(np.round(ratios), 1.0)
        usual = np.where(np.abs(np.log(usual / ratios)) < 0.04, usual, whole)
        alike = [x for x in (usual, whole) if error(np.log(x)) <= 1.005 * found.fun]
        best_ratios = alike[0] if alike else ratios
        together = [x for x in _usual_together(best_ratios) if error(np.log(x)) <= FLAT * found.fun]
        if together:
            some = [best_ratios, *together]
            held = [self._own_held_out_error(reading(np.log(x))) for x in some]
            nearest = int(np.argmin(held[1:])) + 1
            best_ratios = some[nearest] if held[nearest] <= AS_USUAL * held[0] else best_ratios
        for k in range(len(joints)):
            others = common[np.abs(np.log(common / best_ratios[k])) > ALIKE].tolist()
            some = [np.where(np.arange(len(joints)) == k, x, best_ratios) for x in others]
            flat = [best_ratios, *(x for x in some if error(np.log(x)) <= FLAT * found.fun)]
            best_ratios, alike_ratios = self._choose_among_alike(flat, [reading(np.log(x)) for x in flat], k)
            if len(alike_ratios) > 1:
                self.alike_ratios[joints[k], float(best_ratios[k])] = min(alike_ratios), max(alike_ratios)
        self._gears[key] = reading(np.log(best_ratios))
        return self._gears[key]

    def _choose_among_alike(
        self, ratios: Sequence[Array], readings: Sequence[Reading], k: int
    ) -> tuple[Array, list[float]]:
        """The gear ratios to take of those between which a fit does not choose, and those of joint k that do as well.

        What is held out decides, with the friction that was asked for; where that hardly differs either, the middle.
        """
        if len(ratios) == 1:
            return ratios[0], [float(ratios[0][k])]
        own, held = np.array([x[k] for x in ratios]), np.array([self._own_held_out_error(x) for x in readings])
        usual = np.isin(own, COMMON_RATIOS)
        usual |= not (held[usual].min(initial=np.inf) <= AS_USUAL * held.min())  # others only where these are worse
        close = usual & (held <= SAME_HELD_OUT * held[usual].min())
        off = np.abs(np.log(own**2 / (own[close].min() * own[close].max())))
        chosen = min(np.flatnonzero(close).tolist(), key=lambda i: (round(float(off[i]), 6), held[i]))
        return ratios[chosen], own[held <= AS_GOOD * held.min()].tolist()

    def _own_held_out_error(self, r: Reading) -> float:
        """Mean error on held-out stretches with the friction asked for; a large one if the mechanism cannot move so."""
        try:
            return float(self.with_own_friction.held_out_errors(r).mean())
        except (DynidError, np.linalg.LinAlgError):
            return HOPELESS

    def delay_changes(self, r: Reading) -> Iterator[Reading]:
        """Readings with torques recorded later or earlier: by what the residuals say, or by the best time."""
        if self.thorough:
            tried = self.best_delays(r)[:1]
        elif r.delay == 0.0:
            found = self._quick_delay(r) if abs(self.delay) > TRIED_DELAY else 0.0
            is_same = abs(found - self.delay) < max(0.1 * abs(self.delay), 1e-3)
            tried = () if is_same else (found,)  # that of the residuals is from all rows, not from some
        else:
            return
        yield from (replace(r, delay=x) for x in dict.fromkeys((*tried, self.delay)) if abs(x - r.delay) > TRIED_DELAY)

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

    def best_delays(self, r: Reading, near: float | None = None) -> tuple[float, ...]:
        """The delay that suits the friction asked for, and that of least error with friction of any timing.

        It is sought between those that are tried on both sides of one of them, by default the best.
        """
        from scipy.optimize import minimize_scalar

        if near is None:
            near = min((0.0, *DELAYS), key=lambda x: self._delayed_error(r, x))
        around = sorted({0.0, *DELAYS} - {near})
        low = max((x for x in around if x < near), default=near - 0.05)
        high = min((x for x in around if x > near), default=near + 0.05)
        found = minimize_scalar(
            lambda x: self._delayed_error(r, float(x)), bounds=(low, high), method="bounded",
            options={"xatol": 1e-4, "maxiter": 14},
        )  # fmt: skip
        best = float(found.x)
        return self._delay_for_own_friction(r, best, float(found.fun)), best

    def _delay_for_own_friction(self, r: Reading, best: float, least: float) -> float:
        """Delay that suits the friction asked for, among those hardly distinguishable from the best one."""
        from scipy.optimize import minimize_scalar

        sides = [self._delayed_error(r, best + side) for side in (-DELAY_PROBE, DELAY_PROBE)]
        bend = max(0.5 * sum(sides) - least, 1e-3 * least) / DELAY_PROBE**2
        reach = min(float(np.sqrt(SAME_DELAY * least / bend)), MOST_DELAY_OFF)
        own = self.with_own_friction
        found = minimize_scalar(
            lambda x: own.fitted_error(replace(r, delay=float(x))), bounds=(best - reach, best + reach),
            method="bounded", options={"xatol": 2e-4, "maxiter": 10},
        )  # fmt: skip
        return float(found.x)

    def _with_best_gains(self, r: Reading) -> Reading:
        """The reading with every factor of a torque alone where samples are likeliest."""
        for j in self.joints:
            if abs(r.gain[j]) != 1.0 and abs(r.q_factor[j]) == 1.0:
                r = self._with_best_gain(r, j, (0.7, 1.4))
        return r

    def refine_gravity(self, r: Reading) -> Reading:
        """The reading with gravity, where it was changed, in the direction of least error beside all other changes."""
        if r.gravity is None or r.loads:
            return r
        return min((r, *self._gravity_of_least_error(r, 0.0)), key=self.fit_error)

    def refine_reading(self, r: Reading) -> Reading:
        """The reading with every factor, angle and time where the error is least, beside all that was found later."""
        geared = {j: 1.0 / abs(x) for j, x in enumerate(r.q_factor) if not is_of_units(x)}
        if geared:
            power = int(all(np.isclose(abs(r.gain[j]), x, rtol=0.2) for j, x in geared.items()))
            plain = self._with_gear_ratios(r, {j: 1.0 / x for j, x in geared.items()}, power)
            r = self._with_best_gear_ratios(plain, geared, power)
        r = self._with_best_gains(r)
        for j, zero in enumerate(r.zero):
            if zero % (0.5 * np.pi) != 0.0:
                r = self._with_best_zero(replace(r, zero=with_entry(r.zero, j, 0.0)), j, (zero - 0.2, zero + 0.2))
        r = r if r.gravity is None else self._with_best_gains(self.refine_gravity(r))
        return r if r.delay == 0.0 else replace(r, delay=self.best_delays(r, r.delay)[0])
