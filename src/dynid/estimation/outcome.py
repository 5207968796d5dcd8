"""From a solved state to a result: deviations, what they tell, the verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dynid.concurrency import cached_property
from dynid.data.read import IN_CURRENT
from dynid.estimation.essential import eliminate
from dynid.estimation.factor import ChannelFactor
from dynid.estimation.gain import gain_shifts
from dynid.estimation.gate import Trial
from dynid.estimation.identification import NORMAL, Bounds, Identification
from dynid.estimation.inertias import mean_inertias
from dynid.estimation.jackknife import Jackknife
from dynid.estimation.layout import Indices
from dynid.estimation.least_squares import Factors, Solution, channel_noise, stacked
from dynid.estimation.lost import Lost
from dynid.estimation.method import Method
from dynid.estimation.placement import find_placement
from dynid.estimation.residuals import Delay, Tremor, check_channels, estimate_delay, find_tremors
from dynid.estimation.score import Score
from dynid.estimation.state import State
from dynid.estimation.torque_scale import find_scales
from dynid.estimation.unknowns import Unknowns
from dynid.estimation.verdict import Evidence, Shaken, judge
from dynid.models.friction import PLAIN
from dynid.robot.transform import Array
from dynid.version import VERSION

SURE = 2.0
"""Half widths of an interval beyond which a value is below zero without doubt."""

UNSURE = 0.25
"""Standard deviation of what noise of the motion pulls the values by, as a share: its size is an estimate."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """A solved state with all that was found on the way.

    sums: names of unknowns that stand for several; blind: warnings of the way of solving; deviations: None where the
    textbook ones are taken; shift (unknowns,): what noise of the motion may still pull the values by.
    """

    state: State
    method: Method
    unknowns: Unknowns
    factors: Factors
    solution: Solution
    deviations: Jackknife | None
    fit: Score
    validation: Score
    friction: tuple[str, ...]
    trials: tuple[Trial, ...]
    lost: tuple[Lost, ...]
    sums: set[str]
    notes: tuple[str, ...]
    blind: tuple[str, ...]
    torques: Score | None
    shift: Array

    def judged(self) -> Identification:
        """Weigh it, and keep what a user needs."""
        equation, solution, state, kept = self.state.equation, self.solution, self.state, self.kept
        verdict = judge(self._evidence())
        doubts = verdict.reasons if verdict.level != "good" else ()
        warnings = (
            *equation.robot.warnings,
            *self._hidden_rotors(),
            *equation.base.warnings,
            *map(str, state.repeats),
            *self.blind,
            *map(str, self.lost),
            *doubts,
        )
        if self.deviations is None and self.method.intervals == "jackknife":
            few = "there are too few blocks of time for the jackknife: deviations are the textbook ones"
            warnings = (*warnings, few)
        essential = eliminate(solution, self.inflation, self.groups or 1000)
        return Identification(
            equation=equation.with_friction(self.friction),
            model=equation.measure.model,
            estimator=self.method.estimator,
            names=self._named(kept),
            units=tuple(self.unknowns.units[k] for k in kept),
            values=solution.values[kept],
            sigma=self.sigma[kept],
            white_sigma=self.white_sigma[kept],
            covariance=self.covariance[np.ix_(kept, kept)],
            systematic=self.systematic[:, kept],
            quantile=self.quantile,
            groups=self.groups,
            rank=solution.rank,
            base_rank=len(self.base),
            condition=solution.condition,
            base_condition=self.base_condition,
            bounds=self._bounds(),
            noise=solution.noise if self.method.estimator != "ols" else channel_noise(solution),
            fit=self.fit,
            validation=self.validation,
            torques=self.torques,
            cutoff=state.cutoff,
            cutoff_reason=state.reason,
            delay=state.delay,
            found_delay=self.found_delay,
            friction=self.friction,
            trials=self.trials,
            essential=self._named(k for k in essential.kept if k in set(kept.tolist())),
            essential_values=essential.values[kept],
            lost=self.lost,
            checks=check_channels(equation, self.unknowns, solution.values, state.kept, state.cutoff),
            findings=tuple((found.log, found.sentences) for found in state.findings),
            notes=self.notes,
            verdict=verdict,
            warnings=warnings,
            factors=self._factors(),
            version=VERSION,
        )

    def _hidden_rotors(self) -> list[str]:
        """Rotors that the base feels and the rows leave out."""
        equation = self.state.equation
        joints = ", ".join(equation.sensor.hidden) if equation.base_channels else ""
        return [f"the rotor inertia of joint {joints} is unknown: its spin is left out of the forces"] if joints else []

    @cached_property
    def kept(self) -> Indices:
        """Unknowns that the data determine."""
        regrouping = self.solution.regrouping
        return np.array(range(len(self.unknowns)) if regrouping is None else regrouping.kept, dtype=np.int64)

    @cached_property
    def base(self) -> list[int]:
        """Those of them that are base parameters."""
        return [int(k) for k in self.kept if self.unknowns.names[k] in self.state.equation.base.names]

    @cached_property
    def systematic(self) -> Array:
        """Shifts by gains, by noise of the motion and by its way through the controller, a row each."""
        gains = gain_shifts(self.state.equation, self.unknowns, self.solution, self.factors)
        rows = [self.shift, *(tremor.shifts for tremor in self.tremors)]
        return np.concatenate([gains, *(row[None] for row in rows if row.any())])

    @cached_property
    def tremors(self) -> tuple[Tremor, ...]:
        """Joints that noise of the encoders shakes through the controller."""
        equation, kept = self.state.equation, self.kept
        H = mean_inertias(equation, self._named(kept), roughly=True)
        inertias = H @ self.solution.values[kept]
        if len(H) != len(equation.joints):
            return ()
        return find_tremors(equation, self.unknowns, self.solution, self.state, inertias)

    @cached_property
    def covariance(self) -> Array:
        """Of the jackknife, or of white residuals, and of uncertain gains."""
        random = self.solution.covariance if self.deviations is None else self.deviations.covariance
        return np.asarray(random + self.systematic.T @ self.systematic)

    @cached_property
    def sigma(self) -> Array:
        """Deviations of all unknowns."""
        return np.sqrt(np.diag(self.covariance))

    @cached_property
    def white_sigma(self) -> Array:
        """The same if residuals were white."""
        return np.sqrt(np.diag(self.solution.covariance))

    @property
    def quantile(self) -> float:
        """Half width of a 95 % interval over its deviation."""
        return NORMAL if self.deviations is None else self.deviations.quantile

    @property
    def groups(self) -> int:
        """Blocks behind the jackknife, 0 without."""
        return 0 if self.deviations is None else self.deviations.groups

    @cached_property
    def inflation(self) -> float:
        """How much larger real variances are than those of white residuals, at least 1."""
        sigma, white = self.sigma, self.white_sigma
        known = (white > 0.0) & np.isfinite(sigma)
        return float(max(1.0, np.median((sigma[known] / white[known]) ** 2))) if known.any() else 1.0

    @cached_property
    def found_delay(self) -> Delay | None:
        """By how much torques seem to be recorded after positions."""
        return estimate_delay(self.state.equation, self.unknowns, self.solution, self.state.kept, self.inflation)

    @cached_property
    def base_condition(self) -> float:
        """Of the base columns alone, weighted."""
        if not self.base:
            return 1.0
        rows = stacked(self.unknowns, self.factors, self.solution.noise)[0][:, self.base]
        singular = np.linalg.svd(rows, compute_uv=False)
        return float(singular[0] / max(singular[-1], 1e-300))

    def _named(self, some: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.unknowns.names[k] for k in some)

    def _evidence(self) -> Evidence:
        """The figures that the verdict rests on."""
        state, equation, unknowns, deviations = self.state, self.state.equation, self.unknowns, self.deviations
        return Evidence(
            channels=equation.channel_names, fit=self.fit, validation=self.validation, lost=self.lost,
            model=equation.measure.model, torques=self.torques, torque_joints=self._torque_joints(),
            base_condition=self.base_condition, groups=None if deviations is None else deviations.groups,
            essential_groups=0 if deviations is None else deviations.essential_groups, delay=self.found_delay,
            weak=self._weak(), impossible=self._impossible(), negative=self._negative_inertias(),
            placement=find_placement(equation, unknowns, self.solution, state.kept, self.inflation),
            is_plate=equation.measure.model == "reaction", motion_noise=state.motion_noise,
            joints=len(equation.torque_channels) or equation.robot.n, used_delay=state.delay,
            scales=find_scales(equation, unknowns, self.solution.values, self.factors),
            in_current=any(IN_CURRENT in found.notes for found in state.findings) and equation.measure.has_torques,
            seconds=sum(block.stop - block.start for block in state.blocks), shaken=self._shaken(),
        )  # fmt: skip

    def _torque_joints(self) -> tuple[str, ...]:
        """Joints of the torques that were predicted beside what the model is about."""
        equation = self.state.equation
        joints = equation.joints if equation.measure.has_torques else range(equation.robot.n)
        return tuple(equation.robot.joint_names[j] for j in joints)

    def _shaken(self) -> list[Shaken]:
        """Joints whose friction is off by more than a standard deviation because encoder noise shakes them."""
        random = self.solution.covariance if self.deviations is None else self.deviations.covariance
        sigma, equation = np.sqrt(np.diag(random)), self.state.equation
        friction = [k for k in self.kept if self.unknowns.names[k] in equation.names[equation.rigid_count :]]
        found = []
        for tremor in self.tremors:
            off = {k: abs(tremor.shifts[k]) / sigma[k] for k in friction if abs(tremor.shifts[k]) > sigma[k] > 0.0}
            if off:
                names = self._named(sorted(off, key=lambda k: -off[k]))
                found.append(Shaken(equation.robot.joint_names[tremor.joint], names, tremor.speed, max(off.values())))
        return found

    def _weak(self) -> list[str]:
        """Base parameters that are not known to half of the largest of their kind (mass, first moment, inertia)."""
        units, values = self.unknowns.units, self.solution.values
        largest = {
            unit: max(abs(float(values[k])) for k in self.base if units[k] == unit)
            for unit in {units[k] for k in self.base}
        }
        return [self.unknowns.names[k] for k in self.base if self.sigma[k] > 0.5 * largest[units[k]]]

    def _impossible(self) -> list[str]:
        """Parameters below zero beyond doubt although nature does not allow it.

        These are rotor inertias, and viscous and Coulomb friction where no other block shares their shape.
        """
        starts = ("Ia", "Fv", "Fc") if set(self.friction) <= set(PLAIN) else ("Ia",)
        surely = self.solution.values + SURE * self.quantile * self.sigma < 0.0
        names = self.unknowns.names
        return [names[k] for k in self.kept if surely[k] and names[k] not in self.sums and names[k].startswith(starts)]

    def _negative_inertias(self) -> list[str]:
        """Joints about which the inertia is negative beyond doubt."""
        equation, kept = self.state.equation, self.kept
        H = mean_inertias(equation, self._named(kept))
        if not len(H):
            return []
        variance = np.einsum("jk,kl,jl->j", H, self.covariance[np.ix_(kept, kept)], H)
        deviation = np.sqrt(np.maximum(variance, 0.0))
        bad = H @ self.solution.values[kept] + SURE * self.quantile * deviation < 0.0
        joints = equation.joints if equation.torque_channels else range(equation.robot.n)
        return [equation.robot.joint_names[j] for j, negative in zip(joints, bad, strict=True) if negative]

    def _bounds(self) -> Bounds:
        """Of the relative error of parameters by that of the measurements and of the regressor."""
        solution = self.solution
        residual = float(np.sqrt((solution.residual_squares / solution.noise**2).sum()))
        channels = range(len(solution.noise))
        squares = np.array([sum(f[c].squares for f in self.factors.values()) for c in channels])
        measured = float((squares / solution.noise**2).sum())
        explained = float(np.sqrt(max(measured - residual**2, 1e-300)))
        k = solution.condition
        return Bounds(k * residual / explained, k + k**2 * residual / explained)

    def _factors(self) -> tuple[tuple[ChannelFactor, ...], ...]:
        """Factors of every log and channel on the columns of the result."""
        out = []
        for log in sorted(self.factors):
            of_log = []
            for c, factor in enumerate(self.factors[log]):
                rows, right = self.unknowns.rows(log, c, factor)
                columns = np.column_stack([rows[:, self.kept], right])
                of_log.append(ChannelFactor(columns, factor.count, factor.total))
            out.append(tuple(of_log))
        return tuple(out)
