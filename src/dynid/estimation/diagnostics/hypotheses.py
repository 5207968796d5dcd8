"""What would explain the logs better: other signs, order, gravity, zeros, units, ...; each is tried and judged alike.

Blocks that depend on the position take no part, because sines absorb gravity and zeros, but where they explain much of
what is left whatever the reading. What is tried is in `alternatives`, how it is fitted in `refit`.
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
from dynid.estimation.diagnostics.alternatives import (
    COMPONENTS,
    FOLLOWED,
    LEAST_TILT,
    LEAST_ZERO,
    PROMISING,
    SAME_TILT,
    WORSE_ALONG_AXIS,
    Alternatives,
    are_changed_factors_round,
    changed_components,
    changed_entries,
    combine_changes,
    is_of_units,
    size_of_change,
    with_entry,
    without_zeros_of_gears,
    wrap_angle,
)
from dynid.estimation.diagnostics.refit import MOTOR_SPAN, KeptSamples, Reading, Refit
from dynid.logs.log import Log, Wiring
from dynid.messages import Message, Option
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

Progress = Callable[[str, float], None]
AS_IN_FILE = Wiring()

# How much better a change must be to be taken for a mistake: ratios of held-out errors.

FLOOR = 2e-3
"""NRMSE that is added to both: below it, rounding and filters decide."""

BETTER = 1.04
"""Held-out error over that of an alternative from which on it is named."""

BETTER_TIME, BETTER_GAIN, BETTER_SPRING, BETTER_MODEL, BETTER_LOAD = 1.03, 1.07, 1.06, 1.15, 1.25
"""The same for delays, for factors of torques that are not round, for springs, for what friction may imitate, and for
payloads: friction that changes from log to log lets a payload explain a little."""

SURE_DELAY, SURELY_BETTER, SURELY_EARLY = 3e-3, 1.02, 1.05
"""Smallest delay (s) that is named although friction with memory explains as much, and ratio of the joints' errors (of
their means, and in the geometric mean) from which on it is; more for torques that come before the positions: friction
that turns before the motion does, as presliding does, looks like them (by 10 ms on the UR10)."""

PUZZLING, BETTER_PAIR, BETTER_PAIR_BESIDE = 0.03, 1.5, 1.1
"""Error from which on pairs of changes are tried where no single one is named, and ratio from which on one is: many are
tried; ratio for a pair beside or in place of a mistake that is already there."""

NEARLY_AS_MUCH, BETTER_BESIDE_FRICTION = 1.03, 1.1
"""Error over that of the best reading up to which friction of any timing decides, and by which ratio it does."""

FIRST_OF_PAIRS = 3
"""Changes of every kind, the best, to which a second one is tried."""

BETTER_IF_INCOMPLETE = 1.3
"""Held-out error over that of an alternative from which on it is named although other single ones were not tried."""

BELIEVED = 0.3
"""Error from which on a reading that does not halve it is not a remedy."""

# What friction, sines, chance and small joints may imitate.

WORSE = 1.04
"""Error of a joint over that without the delay from which on much must speak for it: friction looks like a delay."""

AS_SINES = 1.05
"""Error with a spring over that with any position-dependent torques up to which it is the spring that explains."""

WORSE_WITHOUT_SINES = 1.05
"""Error without position-dependent torques over that before from which on a change is not believed."""

RULED_BY_SINES = 0.6
"""Error with position-dependent torques over that without up to which these rule the comparison."""

SURE_MOTION = 1.5
"""Error over that with other zeros or senses from which on these are sure, whatever depends on the position."""

NEEDS_SINES, MAY_NEED_SINES = 0.9, 0.7
"""Error with position-dependent torques over that without up to which they take part in every comparison: on held-out
data, and of fits to few samples, which more columns always fit better."""

UNSTABLE = 1.4
"""Error on held-out stretches over that of the fit from which on a recording does not predict itself."""

SHORT = 0.5
"""Seconds of motion per rigid column below which a recording is short: chance decides what predicts it best. Those of
several recordings count twice: what chance does in one it does not do in another."""

AGREE = 2.0
"""Mean logarithm, over its standard error, by which errors on several stretches must be lower in such a recording."""

MATTERS = 0.03
"""Standard deviation of a torque over the largest below which a joint alone proves nothing but a sign."""

# Physics, and the choice between what explains alike.

IMPOSSIBLE = 2.0
"""Error of a joint within the limits of physics over that without from which on its sign is suspected."""

POSSIBLE = 3.0
"""Error of a fit within the limits of physics over that without, up to which a reading is physically possible."""

AS_UNITS = 1.02
"""Error with units of positions over that with gears up to which it is the units that are wrong."""

AS_MUCH, ALIKE_LISTED = 1.005, 2
"""Error over that of the best one up to which another reading explains as much, and how many of these are listed. One
with both signs of a joint turned, which nothing but asymmetries of the links tell apart, must be clearly worse."""

# Samples and rounds.

FINALISTS = 6
ROUNDS, WAYS = 5, 3
FAST, CONFIRMED, SCREENED, FULL = 70, 180, 400, 1200
"""Samples that are refitted: quickly, to confirm what was found so, to compare alternatives, and to judge them."""


# The search: the best change, then the best beside it, to a fixed point.


@dataclass(frozen=True, slots=True)
class EvaluatedReading:
    """A reading with its held-out error: the lower of those with and without position-dependent torques.

    channels: NRMSE of each; sines: whether with position-dependent torques.
    """

    reading: Reading
    channels: tuple[float, ...]
    sines: bool = False

    @property
    def error(self) -> float:
        """Mean NRMSE over the channels."""
        return float(np.mean(self.channels))


class Search:
    """Looks for the reading that explains the samples best.

    Alternatives are compared on some of the samples (screen) and judged on all of them (refit). budget: work that a
    search which is not thorough may take; must_finish: all single changes are tried if they do not take many times it.
    wiring: what the logs were read with.
    """

    def __init__(
        self, samples: KeptSamples, *, thorough: bool, delay: float = 0.0, budget: float = np.inf,
        must_finish: bool = True, has_springs: bool = False, wiring: Wiring = AS_IN_FILE,
    ) -> None:  # fmt: skip
        self.refit, self.thorough, self.delay = Refit(samples), thorough, delay
        self.budget, self.must_finish, self.is_complete = budget, must_finish, True
        self.left_out_singles, self.wiring = False, wiring
        self.refit.work.limit = MOST_WORK * budget if must_finish else budget
        self.screen = self.refit
        if len(samples) > SCREENED:
            self.screen = Refit(samples.thin_out(SCREENED), self.refit.work)
        self.alternatives = Alternatives(self.screen, samples, thorough=thorough, delay=delay, has_springs=has_springs)
        self.judged: dict[Reading, EvaluatedReading] = {}
        self.first_round: tuple[Reading, list[Reading]] | None = None

    @property
    def is_exhausted(self) -> bool:
        """Whether the budget is used up."""
        return self.refit.work.done > self.budget

    @cached_property
    def is_short(self) -> bool:
        """Whether a thorough search is among so few seconds of motion that chance rules it."""
        samples = self.refit.samples
        seconds = sum(float(t[-1] - t[0]) for t, _, _ in samples.recorded) * (2.0 if np.ptp(samples.log) else 1.0)
        return self.thorough and seconds < SHORT * samples.equation.rigid_column_count

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
                errors = {x: self.refit.held_out_errors(replace(plain, sines=x)) for x in self.position_torques}
            except (DynidError, np.linalg.LinAlgError):
                errors = {False: np.array([np.inf])}
            sines = min(errors, key=lambda x: float(errors[x].mean()))
            self.judged[plain] = EvaluatedReading(plain, tuple(errors[sines].tolist()), sines)
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
            if self._is_over(FIRST_ROUND):
                self.is_complete, self.left_out_singles = False, True
                break
        good: list[tuple[float, Reading]] = []
        impossible = self._impossible_joints(reading)
        for other in sorted(found, key=lambda x: (not _turns_any(x, reading, impossible), found[x])):
            least = found[other]
            if least * promising > now or (not self.thorough and len(good) >= FOLLOWED and least > good[-1][0]):
                continue  # limits only add to the error
            if len(good) >= FINALISTS // 2 and self._is_over(LIMITED_FITS):
                self.is_complete, self.left_out_singles = False, True
                break
            with suppress(DynidError, np.linalg.LinAlgError):
                error = fitted(other, limited=True)
                good = sorted([*good, (error, other)] if error * promising < now else good, key=lambda pair: pair[0])
                good = good if self.thorough else good[:FOLLOWED]
        if self.first_round is None and not self.thorough:
            self.first_round = reading, [other for _, other in good]
        return good

    def _is_over(self, share: float) -> bool:
        """Whether a share of the budget is used up: of that which may be exceeded where all changes must be tried."""
        return self.refit.work.done > share * self.budget and (not self.must_finish or self.refit.work.is_exhausted)

    def _impossible_joints(self, reading: Reading) -> list[int]:
        """Joints whose torques a fit explains far worse within the limits of physics: their signs come first.

        Without limits, all signs may fit alike.
        """
        free, limited = (self.screen.squared_residuals(reading, limited=x) for x in (False, True))
        far = limited > IMPOSSIBLE**2 * (free + 1e-12 * free.max())
        return [j for j, x in zip(self.refit.samples.joints, far.tolist(), strict=True) if x]

    def find_best_reading(self, on_progress: Progress | None = None) -> EvaluatedReading:
        """Search for the best reading: that as recorded where no other is clearly better."""
        if on_progress is not None:
            on_progress("trying alternatives", 0.0)
        start = self.evaluate_reading(Reading.as_recorded(self.refit.n))
        clear = self._clear_changes(start) if np.isfinite(start.error) else []
        if self.thorough and np.isfinite(start.error):
            self._evaluate_best_of_each_kind(self._with_position_torques_if_needed(start.reading))
        ends = self._follow_ways(self._first_changes_to_follow(clear), start, on_progress)
        for led_astray in (True, False) if self.thorough and ends else ():  # by the first change, or by what it hides
            now = start if led_astray else min(ends, key=lambda x: x.error)
            pairs = self._first_changes_to_follow(sorted(self._clear_pairs(now), key=lambda x: x.error))
            ends += self._follow_ways(pairs[:1], start, on_progress)
        best = self._best_with_units_first(ends) if ends else start
        return self._best_with_free_friction(best) if ends and self.thorough else best

    def _best_with_free_friction(self, best: EvaluatedReading) -> EvaluatedReading:
        """Of readings that explain nearly as much, one that explains clearly more beside friction of any timing."""
        close = [x for x in self.judged.values() if x.error + FLOOR <= NEARLY_AS_MUCH * (best.error + FLOOR)]
        close = sorted((x for x in close if not x.reading.springs), key=lambda x: x.error)[:FINALISTS]
        if best.reading.springs or best not in close:
            return best
        least = min(close, key=lambda x: self.error_with_free_friction(x.reading))
        before, after = (self.error_with_free_friction(x.reading) + FLOOR for x in (best, least))
        return least if before > BETTER_BESIDE_FRICTION * after else best

    def error_with_free_friction(self, r: Reading) -> float:
        """Mean held-out error with friction of any timing, without position-dependent torques."""
        try:
            return float(self.alternatives.with_free_timing.held_out_errors(replace(r, sines=False)).mean())
        except (DynidError, np.linalg.LinAlgError):
            return float(np.inf)

    def _best_with_units_first(self, ends: Sequence[EvaluatedReading]) -> EvaluatedReading:
        """The best of several readings: with units before gears of any ratio, then the simplest of those as good.

        Units with a factor of torques beside them are no simpler than a gear.
        """
        if self.thorough:
            ends = [
                *ends,
                *(self.evaluate_reading(x) for x in map(self._with_degrees_for_gears, ends) if x is not None),
            ]
        least = min(ends, key=lambda x: x.error)
        units = [
            x for x in ends if all(map(is_of_units, x.reading.q_factor)) and all(abs(g) == 1.0 for g in x.reading.gain)
        ]
        some = [x for x in units if x.error + FLOOR < AS_UNITS * (least.error + FLOOR)] or ends
        return self._simplest_of_the_best(min(some, key=lambda x: x.error), some)

    def _with_degrees_for_gears(self, found: EvaluatedReading) -> Reading | None:
        """The reading with degrees in place of every gear; None where joints would move too far, or without gears."""
        r, degrees = found.reading, np.pi / 180.0
        geared = [j for j, x in enumerate(r.q_factor) if not is_of_units(x)]
        factor, gain = np.array(r.q_factor), np.array(r.gain)
        factor[geared], gain[geared] = np.sign(factor[geared]) * degrees, np.sign(gain[geared])
        other = replace(r, q_factor=tuple(factor.tolist()), gain=tuple(gain.tolist()))
        return other if geared and not self.alternatives.joints_that_move_too_far(other) else None

    def _follow_ways(
        self, ways: Sequence[EvaluatedReading], start: EvaluatedReading, on_progress: Progress | None
    ) -> list[EvaluatedReading]:
        """Where each of several first changes leads, without what turns out to be needless."""
        ends = []
        for number, first in enumerate(ways):
            if on_progress is not None:
                on_progress("trying alternatives", (1 + number) / (1 + len(ways)))
            end = self._follow_clear_changes(first)
            is_single = end is first and not self.thorough  # a change alone is not needless
            ends.append(end if is_single else self._drop_needless_changes(end, start.reading))
        return ends

    def _first_changes_to_follow(self, clear: Sequence[EvaluatedReading]) -> list[EvaluatedReading]:
        """The simplest of the best changes; thorough: the best of other kinds, too."""
        if not clear:
            return []
        first = self._simplest_of_the_best(clear[0], clear)
        kinds: dict[tuple[bool, ...], EvaluatedReading] = {}
        for x in (first, *clear):
            kinds.setdefault((*self._changed_parts(x.reading), all(map(is_of_units, x.reading.q_factor))), x)
        return list(kinds.values())[: WAYS if self.thorough else 1]

    def _changed_parts(self, reading: Reading) -> tuple[bool, ...]:
        """Whether each part of a reading differs from what was recorded."""
        return changed_components(reading, Reading.as_recorded(self.refit.n))

    def _follow_clear_changes(self, now: EvaluatedReading) -> EvaluatedReading:
        """Follow clear changes one at a time, until there is none."""
        for _ in range(ROUNDS - 1):
            if self.is_exhausted:
                self.is_complete = False
                break
            clear = self._clear_changes(now)
            if not clear:
                break
            now = self._best_with_units_first(clear)
            if self.thorough:
                now = self.evaluate_reading(self.alternatives.refine_gravity(now.reading))
        if self.thorough:
            for other in dict.fromkeys((now.reading, without_zeros_of_gears(now.reading))):
                with suppress(DynidError, np.linalg.LinAlgError):
                    found = self.evaluate_reading(self.alternatives.refine_reading(other))
                    now = min(now, found, key=lambda x: x.error)
        return now

    def _clear_changes(self, now: EvaluatedReading) -> list[EvaluatedReading]:
        """Single changes that are so much better that they are mistakes, the best first."""
        if self.refit.samples.are_velocities_wrong and not now.reading.derived:
            return [self.evaluate_reading(replace(now.reading, derived=True))]  # positions say so, whatever the torques
        basis = self._with_position_torques_if_needed(now.reading)
        better = self.better_single_changes(basis)[: FINALISTS if self.thorough else FINALISTS // 2]
        finalists = [self.evaluate_reading(other) for _, other in better]
        clear = [x for x in finalists if self.is_clearly_better(x, now)]
        if self.thorough:
            clear += self._clear_springs(now)
        clear = [x for x in clear if x.reading.derived and not now.reading.derived] or clear  # positions say so, too
        if not clear and now.reading.delay == 0.0 and (not self.is_exhausted or self.must_finish):
            clear = self.clear_delays(now)
        if not clear and self.thorough and now.error > PUZZLING:
            clear = self._clear_pairs(now)
        if not clear and self.thorough:
            clear = self._changes_into_limits(now)
        return sorted(clear, key=lambda x: x.error)

    def _changes_into_limits(self, now: EvaluatedReading) -> list[EvaluatedReading]:
        """Units or gears of positions that range far beyond their limits, unless they explain clearly less."""
        some = [self.evaluate_reading(x) for x in self.alternatives.changes_into_limits(now.reading)]
        return [x for x in some if x.error + FLOOR < BETTER * (now.error + FLOOR)]

    def _clear_pairs(self, now: EvaluatedReading) -> list[EvaluatedReading]:
        """Pairs of changes of which neither helps alone: the best changes of every kind, each with all others."""
        found = dict[Reading, float]()
        for first in self._best_of_each_kind(now.reading):
            seconds = self.alternatives.changes_without_size(first)
            found |= {second: self.alternatives.rough_fit_error(second) for second in seconds}
        before, good = self.screen.fitted_error(now.reading, limited=True), list[tuple[float, Reading]]()
        for other in sorted(found, key=lambda x: found[x])[: 2 * FOLLOWED]:
            with suppress(DynidError, np.linalg.LinAlgError):
                good.append((self.screen.fitted_error(other, limited=True), other))
        good = sorted((x for x in good if x[0] * PROMISING < before), key=lambda x: x[0])[:FINALISTS]
        pairs = [self.evaluate_reading(other) for _, other in good]
        is_mistaken = any(self._changed_parts(now.reading))
        least = (now.error + FLOOR) / (BETTER_PAIR_BESIDE if is_mistaken else BETTER_PAIR)
        before = (self.error_with_free_friction(now.reading) + FLOOR) / BETTER_PAIR
        return [
            x
            for x in pairs
            if self.is_clearly_better(x, now)
            and (x.error + FLOOR < least or self.error_with_free_friction(x.reading) + FLOOR < before)
        ]

    def _best_of_each_kind(self, reading: Reading) -> list[Reading]:
        """The best single changes of every kind, by fits without limits to some of the samples."""
        kinds: dict[tuple[bool, ...], list[Reading]] = {}
        for other in self.alternatives.changes_without_size(reading):
            kinds.setdefault(changed_components(other, reading), []).append(other)
        best = (sorted(some, key=self.alternatives.rough_fit_error)[:FIRST_OF_PAIRS] for some in kinds.values())
        return list(itertools.chain.from_iterable(best))

    def clear_delays(self, now: EvaluatedReading) -> list[EvaluatedReading]:
        """Delays that all but friction shows: with friction of any timing, held-out errors are clearly lower."""
        found = [x for x in self.alternatives.delay_changes(now.reading) if self._is_sure_delay(x)]
        if not found and self.thorough:  # one that suits the friction asked for may be too far from the best
            best = replace(now.reading, delay=self.alternatives.best_delays(now.reading)[1])
            found = [best] if self._is_sure_delay(best) else []
        return [self.evaluate_reading(x) for x in found]

    def _is_sure_delay(self, r: Reading) -> bool:
        """Whether held-out errors, with friction of any timing, are clearly lower with the delay than without."""
        if abs(r.delay) < SURE_DELAY:
            return False
        timed = self.alternatives.with_free_timing
        before, after = (timed.held_out_errors(replace(r, delay=x, sines=False)) + FLOOR for x in (0.0, r.delay))
        mean, typical = before.mean() / after.mean(), np.exp(np.log(before / after).mean())
        if self.is_short and r.delay < 0.0 and self._is_unstable(replace(r, delay=0.0)):
            without, plain = (replace(r, delay=x, sines=False) for x in (0.0, r.delay))
            if not _do_folds_agree(timed, without, plain):
                return False
        return bool(min(mean, typical) > (SURELY_BETTER if r.delay > 0.0 else SURELY_EARLY))

    def _clear_springs(self, now: EvaluatedReading) -> list[EvaluatedReading]:
        """Springs that explain much, and as much as anything that depends on the position could."""
        tried = self.alternatives.spring_changes(now.reading)
        fitted, plain = self.refit.fitted_error, now.reading
        best = min(tried, key=fitted, default=None)
        if best is None or fitted(best) * BETTER_SPRING > fitted(plain):
            return []
        found, before = self._evaluate_without_position_torques(best), self._evaluate_without_position_torques(plain)
        sines = float(self.refit.held_out_errors(replace(plain, sines=True)).mean())
        self.judged[best] = found
        least = min((before.error + FLOOR) / BETTER_SPRING, AS_SINES * (sines + FLOOR))
        own = self.refit.samples.joints.index(best.springs[-1])
        explains = 2.0 * (found.channels[own] + FLOOR) < before.channels[own] + FLOOR
        matters = explains or self._improves_joints_that_matter(found, before)
        matters = matters and (not self.is_short or self._is_supported_by_fit(found, before))
        return [found] if found.error + FLOOR < least and matters else []

    def _evaluate_best_of_each_kind(self, reading: Reading) -> None:
        """Evaluate the best single change of every kind, so that all are in the table."""
        best: dict[tuple[bool, ...], tuple[float, Reading]] = {}
        for other in self.alternatives.single_changes(reading):
            kind = changed_components(other, reading)
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

    def is_clearly_better(self, found: EvaluatedReading, now: EvaluatedReading) -> bool:
        """Whether a change is so much better that it is a mistake, beyond what models lack and their freedom gains."""
        r, before, least = found.reading, now.error, BETTER
        if r.gravity is not None and now.reading.gravity is None:  # the same columns on both sides
            same = tuple(self.alternatives.gravity.tolist())
            before = min(before, self.evaluate_reading(replace(now.reading, gravity=same)).error)
        if r.delay != now.reading.delay or r.derived != now.reading.derived:
            worst = max((x + FLOOR) / (y + FLOOR) for x, y in zip(found.channels, now.channels, strict=True))
            least = max(BETTER_MODEL if worst > WORSE else 1.0, self._least_for_delay(r, now.reading))
        if not np.allclose(np.sort(np.abs(r.gain)), np.sort(np.abs(now.reading.gain))):
            least = BETTER if are_changed_factors_round(r, now.reading) else BETTER_GAIN
        if not self._reverses_friction(r, now.reading) and not self._is_supported_by_fit(found, now):
            least = np.inf
        if r.loads != now.reading.loads:
            least = max(least, BETTER_LOAD)
        if self.thorough and np.isfinite(least) and self._needs_position_torques(r, now.reading):
            least = np.inf
        is_better = (found.error + FLOOR) * least < before + FLOOR
        return is_better and not (self.thorough and self._is_arbitrary_motion(found, now))

    def _is_arbitrary_motion(self, found: EvaluatedReading, now: EvaluatedReading) -> bool:
        """Whether zeros or senses of joints explain a little more, but as others would, or as position torques do.

        Beside torques that depend on the position, zeros that are really off matter even more than without; and where
        another right angle does as well, the data do not know the zero.
        """
        r, before = found.reading, now.reading
        is_motion = r.zero != before.zero or np.sign(r.q_factor).tolist() != np.sign(before.q_factor).tolist()
        is_sure = (found.error + FLOOR) * SURE_MOTION < now.error + FLOOR
        if not is_motion or is_sure or self._reverses_friction(r, before):
            return False
        errors = [float(self.refit.held_out_errors(replace(x, sines=True)).mean()) for x in (r, before)]
        if errors[0] >= errors[1]:
            return True
        most = PROMISING * (found.error + FLOOR)
        moved = [j for j in range(self.refit.n) if r.zero[j] != before.zero[j]]
        return any(self.evaluate_reading(x).error + FLOOR < most for x in self.alternatives.other_zeros(r, moved))

    def _needs_position_torques(self, r: Reading, before: Reading) -> bool:
        """Whether a change is better only beside position-dependent torques, which absorb gravity and zeros.

        Little can be said without them where they explain most of the error: there only gravity is asked.
        """
        plain, sines = (float(self.refit.held_out_errors(replace(before, sines=x)).mean()) for x in (False, True))
        if sines < RULED_BY_SINES * plain and r.gravity == before.gravity:
            return False
        fits = [self.screen.fitted_error(replace(x, sines=False), limited=True) + FLOOR for x in (r, before)]
        return fits[0] > WORSE_WITHOUT_SINES * fits[1]

    def _least_for_delay(self, r: Reading, before: Reading) -> float:
        """Least improvement that a delay needs: little where residuals of the whole model show it too, else more.

        Friction that comes later looks like a delay, and a delay must explain more than this could.
        """
        if r.delay == before.delay:
            return BETTER_TIME
        residuals_agree = 0.25 * self.delay**2 < r.delay * self.delay < 4.0 * self.delay**2
        if r.delay > 0.0 and residuals_agree and before == Reading.as_recorded(self.refit.n):
            return BETTER_TIME
        timed = self.alternatives.with_free_timing
        found, now = (float(timed.held_out_errors(x).mean()) + FLOOR for x in (r, replace(before, sines=False)))
        return BETTER_MODEL if found * (BETTER_TIME if r.delay > 0.0 else SURELY_EARLY) < now else np.inf

    def _reverses_friction(self, r: Reading, before: Reading) -> bool:
        """Whether nothing but signs changes, and friction's with them: there physics speaks in every joint."""
        turned = [np.sign(x.gain) * np.sign(x.q_factor) for x in (r, before)]
        alike = replace(before, gain=r.gain, q_factor=r.q_factor, zero=r.zero)
        sizes, sizes_before = (np.abs([x.gain, x.q_factor, x.zero]) for x in (r, before))
        return alike == r and bool((turned[0] != turned[1]).any()) and np.allclose(sizes, sizes_before)

    def _is_supported_by_fit(self, found: EvaluatedReading, now: EvaluatedReading) -> bool:
        """Whether a reading fits joints that matter better whatever depends on the position, where this must be asked.

        Too short a recording predicts its own stretches badly, and chance decides which reading does it best: there
        the other reading must predict better than is to be expected of this one, on all stretches alike.
        """
        fit = self.refit.fitted_error(now.reading, limited=True)
        if now.error + FLOOR < UNSTABLE * (fit + FLOOR) and not (self.is_short and self._is_unstable(now.reading)):
            return True
        if self.is_short and not self._is_beyond_chance(found, now):
            return False
        fits = [self.refit.fitted_error(replace(x.reading, sines=True), limited=True) for x in (found, now)]
        return fits[0] * PROMISING < fits[1] and self._improves_joints_that_matter(found, now)

    def _is_unstable(self, r: Reading) -> bool:
        """Whether stretches that were held out are predicted far worse than they are fitted, without sines."""
        plain = replace(r, sines=False)
        held, fit = self.refit.held_out_errors(plain).mean(), self.refit.fitted_error(plain, limited=True)
        return bool(held + FLOOR > UNSTABLE * (fit + FLOOR))

    def _is_beyond_chance(self, found: EvaluatedReading, now: EvaluatedReading) -> bool:
        """Whether a reading is better by more than the chance that rules short recordings.

        The error to be expected of a reading lies between those of its fit and of held-out stretches.
        """
        before, after = (replace(x.reading, sines=False) for x in (now, found))
        least, most, held = (
            self.refit.fitted_error(before, limited=True),
            *(float(self.refit.held_out_errors(x).mean()) for x in (before, after)),
        )
        judged = (replace(x.reading, sines=x.sines) for x in (now, found))
        return held < np.sqrt(least * most) and _do_folds_agree(self.refit, *judged)

    def _improves_joints_that_matter(self, found: EvaluatedReading, now: EvaluatedReading) -> bool:
        """Whether joints with large torques are predicted better, too: small torques show much else."""
        samples = self.refit.samples
        spread, revolute = samples.tau.std(axis=0), np.isin(samples.joints, self.alternatives.revolute)
        largest = np.array([spread[revolute == kind].max() for kind in revolute])
        some = spread > MATTERS * largest
        before, after = (float(np.mean(np.array(x.channels)[some])) + FLOOR for x in (now, found))
        return after * PROMISING < before

    def _simplest_of_the_best(self, best: EvaluatedReading, finalists: Sequence[EvaluatedReading]) -> EvaluatedReading:
        """The reading that changes least among those that are as good as the best, then that with fewest options."""
        close = [
            x
            for x in finalists
            if x.error + FLOOR <= (BETTER if _is_mirrored(x.reading, best.reading) else AS_MUCH) * (best.error + FLOOR)
        ]
        return min(close, key=lambda x: (size_of_change(x.reading), self._reversed_channels(x.reading), x.error))

    def _reversed_channels(self, reading: Reading) -> int:
        """Positions and torques of the file whose sign is turned."""
        wiring = self.wiring.then(_wiring_of(reading))
        return int(np.count_nonzero(np.concatenate([wiring.sign_q, wiring.sign_tau]) < 0.0))

    def is_confirmed(self, found: Reading, start: Reading) -> bool:
        """Whether these samples, more than those it was found on, name a reading too."""
        fitted, before = (self.refit.fitted_error(x, limited=True) + FLOOR for x in (found, start))
        if found == replace(start, delay=found.delay) and self._is_sure_delay(found):
            return True
        if found == replace(start, derived=True) and self.refit.samples.are_velocities_wrong:
            return True
        if not self.alternatives.are_factors_seen(found):
            return False
        fits = fitted * BETTER_TIME < before or self._reverses_friction(found, start)
        some, before_it = self.evaluate_reading(found), self.evaluate_reading(start)
        return fits and self.is_clearly_better(some, before_it) and not self._is_arbitrary_motion(some, before_it)

    def is_believed(self, best: EvaluatedReading) -> bool:
        """Whether the best reading that was found is named: it is a remedy, and all single changes were tried."""
        start = Reading.as_recorded(self.refit.n)
        before = self.evaluate_reading(start).error
        if best.reading == start or not self._is_supported(best.reading, start):
            return False
        if best.error >= max(BELIEVED, 0.5 * before):
            return False
        is_timing = self.refit.samples.are_velocities_wrong or best.reading == replace(start, delay=best.reading.delay)
        is_sure = not self.left_out_singles or is_timing  # positions alone name such a lag, residuals a delay
        return is_sure or best.error * BETTER_IF_INCOMPLETE < before

    def _is_supported(self, found: Reading, start: Reading) -> bool:
        """Whether a reading fits better or, where only physics speaks for it, is physically possible itself."""
        error = self.refit.fitted_error(found)
        if error * PROMISING < self.refit.fitted_error(start):
            return True
        return self.refit.fitted_error(found, limited=True) + FLOOR < POSSIBLE * (error + FLOOR)

    def _drop_needless_changes(self, found: EvaluatedReading, start: Reading) -> EvaluatedReading:
        """The reading without changes that do not matter."""
        for name in COMPONENTS:
            is_sure = name == "derived" and self.refit.samples.are_velocities_wrong
            is_sure = is_sure or (name == "delay" and self._is_sure_delay(found.reading))
            other = replace(found.reading, **{name: getattr(start, name)})
            if other == found.reading or is_sure or self._leaves_limits(other, found.reading):
                continue
            without = (
                self._evaluate_without_position_torques(other) if name == "springs" else self.evaluate_reading(other)
            )
            if self._does_as_well(without, found):
                found = without
        return self._drop_needless_entries(found, start) if self.thorough else found

    def _leaves_limits(self, other: Reading, found: Reading) -> bool:
        """Whether joints move too far for their limits with another reading's units and gears, but not with these."""
        if other.q_factor == found.q_factor:
            return False
        kept = self.alternatives.joints_that_move_too_far
        return not set(kept(other)) <= set(kept(found))

    def _drop_needless_entries(self, found: EvaluatedReading, start: Reading) -> EvaluatedReading:
        """The reading with gravity along an axis, and without single entries, where it does as well so."""
        if found.reading.gravity is not None:
            g = np.array(found.reading.gravity)
            axis = np.where(np.arange(3) == np.abs(g).argmax(), np.sign(g) * np.linalg.norm(g), 0.0)
            along = replace(found.reading, gravity=tuple(axis.tolist()))
            tilt = float(np.linalg.norm(g - axis) / np.linalg.norm(g))
            worse = np.inf if tilt < SAME_TILT else WORSE_ALONG_AXIS if tilt < LEAST_TILT else PROMISING
            found = self._simpler_if_as_good(found, along, worse)
        for name, j in itertools.product(("zero", "gain", "q_factor"), range(self.refit.n)):
            now, before = getattr(found.reading, name), getattr(start, name)
            if now[j] != before[j]:
                entries: dict[str, Any] = {name: with_entry(now, j, before[j])}
                is_small = name == "zero" and abs(wrap_angle(now[j] - before[j])) < LEAST_ZERO
                worse = WORSE_ALONG_AXIS if is_small else PROMISING
                if self._leaves_limits(replace(found.reading, **entries), found.reading):
                    continue
                found = self._simpler_if_as_good(found, replace(found.reading, **entries), worse)
                without = self.evaluate_reading(replace(found.reading, **entries))
                if name == "zero" and not found.reading.springs and self._is_arbitrary_motion(found, without):
                    found = without
        return found

    def _simpler_if_as_good(
        self, found: EvaluatedReading, simpler: Reading, worse: float = PROMISING
    ) -> EvaluatedReading:
        """The evaluated simpler reading where its error is at most so many times worse, else the one found."""
        if found.reading.springs:
            return found  # judged in another way
        other = self.evaluate_reading(simpler)
        return other if self._does_as_well(other, found, worse) else found

    def _does_as_well(self, simpler: EvaluatedReading, found: EvaluatedReading, worse: float = PROMISING) -> bool:
        """Whether a simpler reading's error is at most so many times worse, or worse by what may be chance."""
        if simpler.error + FLOOR <= worse * (found.error + FLOOR):
            return True
        is_chance = self.is_short and not self._is_supported_by_fit(found, simpler)
        return is_chance and not self._reverses_friction(found.reading, simpler.reading)


def _do_folds_agree(refit: Refit, before: Reading, after: Reading) -> bool:
    """Whether errors are lower on all held-out stretches alike, so that it is not one of them that decides."""
    gains = np.log((refit.errors_of_folds(before) + FLOOR) / (refit.errors_of_folds(after) + FLOOR))
    return bool(gains.mean() > AGREE * gains.std(ddof=1) / np.sqrt(len(gains)))


def _turns_any(other: Reading, reading: Reading, joints: Sequence[int]) -> bool:
    """Whether a reading has another sign of torque or position than before at one of these joints."""
    return any(other.gain[j] * reading.gain[j] < 0.0 or other.q_factor[j] * reading.q_factor[j] < 0.0 for j in joints)


def _is_mirrored(r: Reading, other: Reading) -> bool:
    """Whether readings differ in nothing but both signs of some joints, so that friction does not tell them apart."""
    turned, turned_other = (np.sign(x.gain) * np.sign(x.q_factor) for x in (r, other))
    sizes, sizes_other = (np.abs([x.gain, x.q_factor]) for x in (r, other))
    same = replace(r, gain=other.gain, q_factor=other.q_factor) == other
    return same and np.array_equal(turned, turned_other) and np.array_equal(sizes, sizes_other)


def _wiring_of(r: Reading) -> Wiring:
    """Orders, signs and zeros of a reading, angles in tenths of a degree."""
    sign = np.sign(r.q_factor)
    zero = np.radians(np.round(np.degrees(r.zero), 1))
    return Wiring(np.array(r.q_order), np.array(r.tau_order), sign, sign, sign, np.sign(r.gain), zero)


# What was found, in words and options.


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another reading of the logs, and how well it fits.

    Attributes
    ----------
    kind : str
        Kind of mistake.
    what : Message
        What would be wrong.
    error : float
        Mean NRMSE on held-out stretches of time, of a fit that is physically possible.
    before : float
        The same for the logs as they were read.
    options : tuple of Option
        Options that apply it.
    is_named : bool
        Whether it is so much better that it is reported as a mistake.
    """

    kind: str
    what: Message
    error: float
    before: float
    options: tuple[Option, ...]
    is_named: bool

    def __str__(self) -> str:
        return f"{self.what.what} ({self.error:.3f})"


NOT_ALIKE = ("several", "payload", "spring", "rotor_inertia")
"""Kinds of alternatives that are not single, or have parameters that the logs as they were read do not have."""

UNTRIED, UNDECIDED = "alternatives_untried", "alternatives_undecided"
"""Codes of what a diagnosis leaves unproven."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Other readings of the logs that were tried, best first.

    All errors are those of one model on downsampled data, without position-dependent friction unless it explains much:
    compare them with one another, not with the validation error of the result.

    Attributes
    ----------
    error : float
        Mean NRMSE of the logs as they were read.
    alternatives : tuple of Alternative
        Other readings, best first.
    tried : int
        How many were tried.
    is_partial : bool
        Whether alternatives were left out to save time; `diagnose` tries all.
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
    def undecided(self) -> tuple[Message, ...]:
        """Message on other readings that explain the logs as well as they were read; empty where a mistake is named.

        Those with more parameters, which always explain a little more, do not count.
        """
        alike = [x for x in self.alternatives if x.kind not in NOT_ALIKE and x.error <= self.error]
        if self.best is not None or not alike:
            return ()
        return (Message(
            UNDECIDED, "other readings of the logs that explain them as well, though not clearly better (NRMSE "
            "{before:.4f} as recorded): {some}", "check them at the robot", before=self.error,
            some=[f"{x.what.what} ({x.error:.4f})" for x in alike[:UNDECIDED_LISTED]],
        ),)  # fmt: skip

    @property
    def unproven(self) -> tuple[Message, ...]:
        """Messages on what the alternatives leave open: those that were not tried, and those that explain as much."""
        return (*self.left_out, *self.undecided)

    @property
    def best(self) -> Alternative | None:
        """The alternative that is taken for a mistake; None where the logs are best as they were read."""
        return next((x for x in self.alternatives if x.is_named), None)

    def table(self) -> str:
        """The alternatives as text: error, ratio to the error as recorded, what would be wrong, and the options.

        Returns
        -------
        str
            A line per alternative.
        """
        lines = [f"{'error':>7} {'ratio':>6}  alternative", f"{self.error:7.4f} {1.0:6.2f}  as recorded"]
        for x in self.alternatives:
            mark = "*" if x.is_named else " "
            options = " ".join(option.render("command line") for option in x.options)
            lines.append(f"{x.error:7.4f} {x.error / max(x.before, 1e-300):6.2f} {mark}{x.what.what}: {options}")
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
    def is_too_large(self) -> bool:
        """Whether the robot has too many joints for a quick search: its products alone would take gigabytes."""
        channels, _, own = self.samples.friction.shape
        return bool(channels * (own + self.samples.equation.rigid_column_count) ** 2 > MOST_ENTRIES)

    @property
    def budget(self) -> float:
        """Work that every identification may spend on alternatives: less than half of its own, as measured.

        Its own is at least this, whatever the options: a part that is always there, and one for every row and joint.
        """
        n = len(self.samples.joints)
        return BUDGET * (OWN_WORK[0] + OWN_WORK[1] * n + OWN_WORK[2] * n * self.rows + OWN_WORK[3] * n**3)


BUDGET, OWN_WORK = 0.22, (45e3, 5e3, 0.7, 15.0)
"""Share of the work of an identification, in the units of refits: once, per joint, per joint and row, per cube."""

MOST_ENTRIES = 6_000_000
"""Entries of the products of all channels up to which alternatives are tried quickly: robots of about 45 joints."""

MOST_WORK = 4.0
"""Times the budget after which a search that should finish ends, too: robots of many joints."""

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
        must_finish=data.may_be_good, has_springs="spring" in data.recorded.friction, wiring=data.recorded.wiring,
    )  # fmt: skip
    best = search.find_best_reading(on_progress)
    named = best if search.is_believed(best) else None
    if not thorough:
        named = _confirm_on_more_samples(data, search, named)
    return _list_alternatives(data, search, named)


def _confirm_on_more_samples(
    data: TriedData, search: Search, named: EvaluatedReading | None
) -> EvaluatedReading | None:
    """What more samples than those of a quick search confirm; a delay, which few samples do not show, where none did.

    That is looked for while the errors allow the best verdict and the residuals show a delay.
    """
    shows_delay = named is None and data.may_be_good and abs(data.delay) > SURE_DELAY
    if named is None and not shows_delay:
        return None
    more = Search(data.samples.thin_out(CONFIRMED), thorough=False, delay=data.delay)
    more.position_torques = search.position_torques
    start = Reading.as_recorded(search.refit.n)
    if named is not None:
        return named if more.is_confirmed(named.reading, start) else None
    delays = sorted(more.clear_delays(more.evaluate_reading(start)), key=lambda x: x.error)
    return search.evaluate_reading(delays[0].reading) if delays else None


def _list_alternatives(data: TriedData, search: Search, named: EvaluatedReading | None) -> Diagnosis:
    """What is named, and the best of all other readings that were evaluated, in words."""
    start, robot = Reading.as_recorded(search.refit.n), data.samples.equation.robot
    error = search.evaluate_reading(start).error
    lag, foreign = data.samples.velocity_lag, data.samples.foreign
    words = ReadingWords(robot, data.recorded, error, lag, search.alternatives.alike_ratios, foreign)
    g = np.array(robot.gravity)
    near = LEAST_TILT * float(np.linalg.norm(g))  # gravities that are the robot's but for an angle that is not named
    others = [
        x
        for x in sorted(search.judged.values(), key=lambda x: x.error)
        if x.reading != start
        and (named is None or x.reading != named.reading)
        and np.isfinite(x.error)
        and (x.reading.gravity is None or np.linalg.norm(np.array(x.reading.gravity) - g) >= near)
    ]
    first = []
    if named is not None:
        first = [words.describe_alternative(named, is_named=True, alike=_readings_alike(search, named, others))]
        if named.error >= error and named.reading == replace(start, delay=named.reading.delay):
            before, after = _errors_with_free_friction(data.samples, named.reading)
            first = [replace(first[0], before=before, error=after)]
    rest = [words.describe_alternative(x, is_named=False) for x in others]
    several = [x for x in rest if x.kind == "several"][SEVERAL_LISTED:]
    fitted = {replace(reading, sines=False) for reading, _ in search.screen.fits} - {start}
    shown = (*first, *[x for x in rest if x not in several][:LISTED])
    return Diagnosis(error, shown, len(fitted), not search.is_complete)


def _errors_with_free_friction(samples: KeptSamples, delayed: Reading) -> tuple[float, float]:
    """Errors before and after a delay by the fits that show it, those with friction of any timing."""
    search = Search(samples.thin_out(CONFIRMED), thorough=False)
    without = replace(delayed, delay=0.0)
    return search.error_with_free_friction(without), search.error_with_free_friction(delayed)


def _readings_alike(search: Search, named: EvaluatedReading, others: Sequence[EvaluatedReading]) -> list[Reading]:
    """Readings, best first, that explain as much as the one named by other changes, and are not much less simple."""
    start = search.evaluate_reading(Reading.as_recorded(search.refit.n))
    entries, most = changed_entries(named.reading), size_of_change(named.reading) + 1.0
    found: dict[frozenset[tuple[str, object]], Reading] = {}
    for x in others:
        own = changed_entries(x.reading)
        is_as_good = x.error + FLOOR <= AS_MUCH * (named.error + FLOOR) and size_of_change(x.reading) <= most
        if is_as_good and own not in found and not entries <= own and search.is_clearly_better(x, start):
            found[own] = x.reading
    return list(found.values())[:ALIKE_LISTED]


LISTED, SEVERAL_LISTED, UNDECIDED_LISTED = 12, 3, 3
"""Alternatives that are listed, at most, those of several changes among them, and those left undecided."""


class ReadingWords:
    """Turns readings into words and options."""

    def __init__(
        self, robot: Robot, recorded: Recorded, before: float, lag: float,
        alike_ratios: Mapping[tuple[int, float], tuple[float, float]], foreign: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self.robot, self.recorded, self.names, self.before = robot, recorded, robot.joint_names, before
        self.lag, self.foreign = lag, [self.names[j] for j in foreign]
        self.alike_ratios = {(self.names[j], f"{x:.4g}"): ends for (j, x), ends in alike_ratios.items()}

    def describe_alternative(
        self, judged: EvaluatedReading, *, is_named: bool, alike: Sequence[Reading] = ()
    ) -> Alternative:
        """An `Alternative` for the user from a reading: kinds, clauses, errors and options.

        alike: readings that these data do not tell from it.
        """
        r = judged.reading
        parts = [part for part in self._change_clauses(r)]
        kind = parts[0][0] if len(parts) == 1 else "several"
        facts = {"changes": [text for _, text in parts], "kinds": [k for k, _ in parts], "error": judged.error}
        text = "{changes}"
        if alike:
            text += " (explained as well by: {alike})"
            facts["alike"] = [" and ".join(clause for _, clause in self._change_clauses(x)) for x in alike]
        if r.loads:
            facts["loaded"] = self._loaded_logs(r)
        what = Message(
            "mistaken_" + kind, text, "{options}", options=list(options := self.options_for_reading(r)), **facts
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
            yield "zero", f"the zero is wrong at {_joint_list_text(zeros)}"
        if r.gravity is not None:
            g, now = np.round(r.gravity, 4) + 0.0, np.array(self.robot.gravity)
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
            which = f" of {_joint_list_text(self.foreign)}" if self.foreign and not self.lag else ""
            yield "delay", f"recorded velocities{which} do not belong to the positions{by}"
        if r.rotors:
            yield "rotor_inertia", "rotor inertias are missing"
        if r.springs:
            yield "spring", f"there is a spring at {_joint_list_text([names[j] for j in r.springs])}"
        if r.loads:
            logs = _shortened_list_text(self._loaded_logs(r))
            yield "payload", f"the last link differs in {logs}: an undeclared payload"

    def _loaded_logs(self, r: Reading) -> list[str]:
        """Names of the logs whose last link is another one."""
        return [self.recorded.logs[k] if k < len(self.recorded.logs) else str(k + 1) for k in r.loads]

    def _factor_clauses(self, r: Reading) -> Iterator[tuple[str, str]]:
        """Kind and clause of changed units, gears and gains."""
        degrees, radians = (
            [self.names[j] for j, x in enumerate(r.q_factor) if np.isclose(abs(x), unit)]
            for unit in (np.pi / 180.0, 180.0 / np.pi)
        )
        if degrees:
            yield "units", f"positions of {_joint_list_text(degrees)} are degrees, not radians"
        if radians:
            yield "units", f"positions of {_joint_list_text(radians)} are radians that were read as degrees"
        ratios = self._gear_ratios(r)
        if ratios:
            geared = [f"{name} (gear ratio {self._ratio_text(name, x)})" for name, x in ratios.items()]
            yield "gear", f"positions are those of the motor at {_joint_list_text(geared)}"
        gains = [(self.names[j], abs(x), ratios.get(self.names[j], 1.0)) for j, x in enumerate(r.gain)]
        motors = [name for name, x, ratio in gains if ratio != 1.0 and np.isclose(x, ratio)]
        if motors:
            yield "gear", f"torques are those of the motor at {_joint_list_text(motors)}"
        large = [f"{name} by {1.0 / x:.3g}" for name, x, ratio in gains if not np.isclose(x, (1.0, ratio)).any()]
        if large:
            yield "gain", f"torques are too large by a factor at {_joint_list_text(large)}"

    def _ratio_text(self, joint: str, ratio: float) -> str:
        """A gear ratio, with the range of those that explain as much where there is one."""
        text = f"{ratio:.4g}"
        low, high = self.alike_ratios.get((joint, text), (ratio, ratio))
        return text if low == high else f"{text}, though {low:.4g} to {high:.4g} explain as much: see the data sheet"

    def _gear_ratios(self, r: Reading) -> dict[str, float]:
        """Gear ratios of the joints whose positions are those of motors."""
        return {self.names[j]: 1.0 / abs(x) for j, x in enumerate(r.q_factor) if not is_of_units(x)}

    def options_for_reading(self, r: Reading) -> list[Option]:
        """Options that apply a reading, together with those that the logs were read with."""
        now, joints = self.recorded, range(self.robot.n)
        found = list(now.wiring.then(_wiring_of(r), now.gear).options(self.robot))
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
