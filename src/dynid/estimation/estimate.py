"""From a state to a result: gate, solution, deviations, checks, verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dynid.concurrency import cached_property
from dynid.dynamics.friction import FRICTION, PLAIN, SIGNED, STOP
from dynid.errors import IdentificationError
from dynid.estimation.accumulate.factor import Block, ChannelFactor
from dynid.estimation.accumulate.one_pass import WINDOWS_LEFT_OUT, total_factors
from dynid.estimation.accumulate.state import State
from dynid.estimation.diagnostics.alternatives import TRIED_DELAY, find_joints_that_move_too_far
from dynid.estimation.diagnostics.hypotheses import FULL, Diagnosis, Recorded, TriedData, find_mistakes
from dynid.estimation.diagnostics.plausibility import (
    describe_unprovable,
    find_plate_placement,
    find_torque_scales,
    mean_inertias,
)
from dynid.estimation.diagnostics.refit import KeptSamples
from dynid.estimation.diagnostics.residuals import (
    Delay,
    JudgedRows,
    ReplaySamples,
    Tremor,
    check_channels,
    coloured_score_covariance,
    estimate_delay,
    find_tremors,
    joint_errors,
    rows_of_folds,
    rows_of_other_logs,
)
from dynid.estimation.diagnostics.unidentifiable import Unidentifiable, describe_unidentifiable
from dynid.estimation.diagnostics.verdict import (
    FEW_BLOCKS,
    GOOD_MEAN,
    LEVELS,
    NOISY,
    SHORT,
    Evidence,
    ShakenJoint,
    Verdict,
    assess_evidence,
    assess_joints,
    propose_alternative,
    with_bad_channels,
)
from dynid.estimation.identification import (
    NORMAL,
    Bounds,
    Diagnostics,
    Estimate,
    Identification,
    Provenance,
)
from dynid.estimation.inference.between_logs import (
    Agreement,
    add_variance_between_logs,
    compare_logs,
    describe_agreement,
    describe_differences,
    describe_single_motion,
    group_logs_by_motion,
)
from dynid.estimation.inference.cross_validation import (
    DEFAULT,
    FOLDS,
    OPTIONAL,
    Folds,
    Trial,
    choose_friction_blocks,
    eliminate_insignificant,
    fold_groups,
)
from dynid.estimation.inference.jackknife import (
    Jackknife,
    factors_without_each_group,
    fade_out_ends,
    jackknife,
    jackknife_by_refits,
    sensitivity_shifts,
    torque_covariance,
)
from dynid.estimation.inference.score import Band, Score, TorqueCheck, held_out_score, score, slow_shares
from dynid.estimation.options import Options
from dynid.estimation.regression.equation import Equation, Indices, Unknowns
from dynid.estimation.regression.rows import Rows
from dynid.estimation.solve.least_squares import (
    Constraints,
    Estimator,
    Factors,
    NoisyRows,
    Solution,
    build_constraints,
    channel_noise,
    estimator_name,
    regroup_above_noise,
    regrouping_of_standing_joints,
    solve,
    solve_by_estimator,
    stack_weighted_rows,
    structurally_independent_columns,
)
from dynid.estimation.solve.recursive import (
    Candidate,
    Levels,
    attenuation_by_motion_noise,
    compare_with_batch,
    find_levels,
    jackknife_recursion,
    recursion_shifts,
    solve_recursively,
)
from dynid.identifiability.relations import Regrouping
from dynid.logs.findings import BEYOND_LIMITS, describe_saturation
from dynid.logs.log import Log
from dynid.logs.read import IN_CURRENT
from dynid.messages import Message, Option
from dynid.robot.parameter import Parameter
from dynid.robot.transform import Array
from dynid.version import VERSION

# From a solved state to a result: deviations, what they mean, the verdict.


SURE = 2.0
"""Half widths of an interval beyond which a value is certainly below zero."""


@dataclass(frozen=True, eq=False)
class SolvedState:
    """A solved state with all that was found on the way.

    sums: names of unknowns that stand for several; warnings: of the way of solving; deviations: None where the
    textbook ones are taken; shift (unknowns,): what noise of the motion may still pull the values by; judged: rows
    of validation data; left_out: rotor inertias, where it is tried whether the data need them. one_motion: said where
    all logs show the same one. batch: weighted least squares, where the solution is that of a user's estimator.
    """

    state: State
    options: Options
    unknowns: Unknowns
    factors: Factors
    solution: Solution
    deviations: Jackknife | None
    fit: Score
    validation: Score
    friction: tuple[str, ...]
    trials: tuple[Trial, ...]
    unidentifiable: tuple[Unidentifiable, ...]
    sums: set[Parameter]
    notes: tuple[Message, ...]
    warnings: tuple[Message, ...]
    torques: Score | None
    shift: Array
    judged: tuple[JudgedRows, ...]
    left_out: frozenset[Parameter]
    logs: tuple[Log, ...]
    agreement: Agreement | None = None
    levels: Levels | None = None
    one_motion: Message | None = None
    batch: Solution | None = None

    @property
    def least_squares(self) -> Solution:
        """Solution that tests of the data rest on: that of weighted least squares for an estimator of one's own."""
        return self.solution if self.batch is None else self.batch

    @cached_property
    def verdict(self) -> Verdict:
        """Verdict on how far to trust the result."""
        return with_bad_channels(assess_evidence(self.evidence), self.evidence)

    def identification(self, verdict: Verdict) -> Identification:
        """Result for the user, with a verdict."""
        equation, solution, state, kept = self.state.equation, self.solution, self.state, self.kept_unknowns
        reasons = verdict.reasons if verdict.level != "good" else ()
        warnings = (
            *equation.robot.warnings,
            *self._hidden_rotor_warnings(),
            *equation.base.warnings,
            *(repeat.warning for repeat in state.repeats),
            *(message for f in state.findings for message in f.notes if message.code == WINDOWS_LEFT_OUT),
            *self.warnings,
            *(item.message for item in self.unidentifiable),
            *reasons,
        )
        if self.deviations is None and self.options.intervals == "jackknife":
            warnings = (*warnings, FEW_BLOCKS)
        essential = eliminate_insignificant(self.least_squares, self.variance_inflation, self.jackknife_groups or 1000)
        checks = check_channels(equation, self.unknowns, solution.values, state.kept, state.cutoff)
        factors = self._factors_on_result_columns()
        scores = coloured_score_covariance(
            equation, self.unknowns, self.row_noise, state.kept, checks,
            [sum(of_log[c].count for of_log in factors) for c in range(len(equation.channels))],
        )  # fmt: skip
        found = Estimate(
            equation=equation.with_friction(self.friction),
            names=self._names_of_unknowns(kept),
            units=tuple(self.unknowns.units[k] for k in kept),
            values=solution.values[kept],
            sigma=self.sigma[kept],
            white_sigma=self.white_sigma[kept],
            covariance=self.covariance[np.ix_(kept, kept)],
            systematic=self.systematic_shifts[:, kept],
            quantile=self.interval_quantile,
            groups=self.jackknife_groups,
            rank=solution.rank,
            base_rank=len(self.kept_base_parameters),
            condition=solution.condition,
            base_condition=self.base_condition,
            bounds=self._perturbation_bounds(),
            noise=self.row_noise,
            fit=self.fit,
            friction=self.friction,
            essential=self._names_of_unknowns(k for k in essential.kept if k in set(kept.tolist())),
            essential_values=essential.values[kept],
            factors=factors,
            log_growth=None if self.sigma_growth_between_logs is None else self.sigma_growth_between_logs[kept],
            scores=None if scores is None else scores[np.ix_(kept, kept)],
        )
        diagnostics = Diagnostics(
            verdict=verdict,
            warnings=warnings,
            notes=self.notes,
            unidentifiable=self.unidentifiable,
            trials=self.trials,
            checks=checks,
            findings=tuple((found.log, found.sentences) for found in state.findings),
            found_delay=self.found_delay,
            torques=self.torques,
            diagnosis=self.diagnosis,
            joint_verdicts=assess_joints(self.evidence),
            joint_errors=joint_errors(equation, self.unknowns, solution.noise, state.kept, self.judged),
            agreement=self.agreement,
            replay=self._replay_samples(),
        )
        model, estimator = equation.options.model, estimator_name(self.options.estimator)
        provenance = Provenance(model, estimator, state.cutoff, state.reason, state.delay, VERSION)
        return Identification(found, self.validation, diagnostics, provenance, self.tried_samples)

    def _replay_samples(self) -> ReplaySamples | None:
        """Samples for replays of exported files: of validation logs, or of the data used where there are none."""
        if self.state.equation.options.model not in ("torque", "torque+reaction"):
            return None
        rows = [judged.rows for judged in self.judged]
        is_validation = not any(own is other for own in rows for other in self.state.kept)
        return ReplaySamples.from_rows(self.state.equation, rows, is_validation=is_validation)

    @property
    def recorded_seconds(self) -> float:
        """Length of the recordings that were used, in s."""
        return sum(block.stop - block.start for block in self.state.blocks)

    @cached_property
    def tried_samples(self) -> TriedData | None:
        """Samples on which other readings of the logs are tried; None where these or joint torques are too few."""
        state, equation, kept = self.state, self.state.equation, self.state.kept
        if equation.options.is_scalar or equation.options.is_integral or not equation.torque_channels:
            of_torques = equation.torque_equation() if state.kept_torques else None
            if of_torques is None:
                return None
            equation, kept = of_torques, state.kept_torques
        samples = KeptSamples.from_rows(equation, kept, FULL) if self.logs and self.recorded_seconds >= SHORT else None
        if samples is None:
            return None
        recorded = Recorded.from_logs(self.logs, state.delay, self.friction)
        delay = 0.0 if self.found_delay is None else self.found_delay.seconds
        may_be_good = not self.validation.mean > GOOD_MEAN
        return TriedData(samples, recorded, delay, sum(found.samples for found in state.findings), may_be_good)

    @cached_property
    def diagnosis(self) -> Diagnosis | None:
        """Diagnosis by those other readings of the logs that are tried quickly; None without samples for it."""
        data = self.tried_samples
        if data is not None and data.is_too_large:
            return Diagnosis(self.fit.mean, (), 0, is_partial=True)
        found = None if data is None else find_mistakes(data, thorough=False)
        return None if found is None or not np.isfinite(found.error) else found

    def _hidden_rotor_warnings(self) -> list[Message]:
        """Warnings on rotors that the base feels and the rows leave out."""
        equation = self.state.equation
        if not equation.base_channels or not equation.sensor.hidden_rotor_joints:
            return []
        return [Message(
            "rotor_spin_left_out", "the rotor inertia of joint {joints} is unknown: its spin is left out of the forces",
            "declare `inertia` of these rotors", joints=list(equation.sensor.hidden_rotor_joints),
        )]  # fmt: skip

    @cached_property
    def kept_unknowns(self) -> Indices:
        """Indices of the unknowns that the data determine."""
        regrouping = self.solution.regrouping
        return np.array(range(len(self.unknowns)) if regrouping is None else regrouping.kept, dtype=np.int64)

    @cached_property
    def kept_base_parameters(self) -> list[int]:
        """Indices of the determined unknowns that are base parameters."""
        return [int(k) for k in self.kept_unknowns if self.unknowns.names[k] in self.state.equation.base.names]

    @cached_property
    def systematic_shifts(self) -> Array:
        """Systematic shifts of the values: by gains, by noise of the motion and by noise through the controller."""
        gains = sensitivity_shifts(self.state.equation, self.unknowns, self.solution, self.factors)
        rows = [self.shift, *(tremor.shifts for tremor in self.tremors)]
        return np.concatenate([gains, *(row[None] for row in rows if row.any())])

    @cached_property
    def tremors(self) -> tuple[Tremor, ...]:
        """Joints that noise of the encoders shakes through the controller."""
        equation, kept = self.state.equation, self.kept_unknowns
        H = mean_inertias(equation, self._names_of_unknowns(kept), roughly=True)
        inertias = H @ self.solution.values[kept]
        if len(H) != len(equation.joints):
            return ()
        return find_tremors(equation, self.unknowns, self.solution, self.state, inertias)

    @cached_property
    def covariance(self) -> Array:
        """Covariance of the unknowns: by the jackknife or white residuals, with that of uncertain gains."""
        random = self.solution.covariance if self.deviations is None else self.deviations.covariance
        return np.asarray(random + self.systematic_shifts.T @ self.systematic_shifts)

    @cached_property
    def sigma(self) -> Array:
        """Standard deviations of all unknowns."""
        return np.sqrt(np.diag(self.covariance))

    @cached_property
    def torque_covariance(self) -> Array:
        """Covariance of the unknowns for torques and other sums of them."""
        return torque_covariance(self.covariance, self.systematic_shifts, self.sigma_growth_between_logs)

    @property
    def sigma_growth_between_logs(self) -> Array | None:
        """Growth of the standard deviations by the scatter between logs."""
        return None if self.deviations is None else self.deviations.growth

    @cached_property
    def white_sigma(self) -> Array:
        """Standard deviations of all unknowns if residuals were white."""
        return np.sqrt(np.diag(self.solution.covariance))

    @property
    def row_noise(self) -> Array:
        """Standard deviation (channels,) of the rows."""
        return self.solution.noise if self.options.estimator != "ols" else channel_noise(self.solution)

    @property
    def interval_quantile(self) -> float:
        """Half width of a 95 % interval over the standard deviation."""
        return NORMAL if self.deviations is None else self.deviations.quantile

    @property
    def jackknife_groups(self) -> int:
        """Number of groups of blocks behind the jackknife, 0 without."""
        return 0 if self.deviations is None else self.deviations.groups

    @cached_property
    def variance_inflation(self) -> float:
        """Variance of the jackknife over that of white residuals, at least 1."""
        sigma, white = self.sigma, self.white_sigma
        known = (white > 0.0) & np.isfinite(sigma)
        return float(max(1.0, np.median((sigma[known] / white[known]) ** 2))) if known.any() else 1.0

    @cached_property
    def found_delay(self) -> Delay | None:
        """Delay of the torques behind the positions that the residuals show."""
        return estimate_delay(
            self.state.equation, self.unknowns, self.least_squares, self.state.kept, self.variance_inflation
        )

    @property
    def _untried_delay(self) -> Delay | None:
        """Delay that the residuals show, unless refits tried it: then these decide."""
        found = self.found_delay
        tried = self.diagnosis is not None and found is not None and abs(found.seconds) > TRIED_DELAY
        return None if tried else found

    @cached_property
    def base_condition(self) -> float:
        """Condition number of the weighted base columns alone, of parameters in metres whatever the robot file has."""
        kept = self.kept_base_parameters
        if not kept:
            return 1.0
        rows = stack_weighted_rows(self.unknowns, self.factors, self.solution.noise)[0][:, kept]
        powers = np.array([_POWERS_OF_LENGTH.get(self.unknowns.names[k].unit, 0.0) for k in kept])
        scale = _lengths_per_metre(self.state.equation.robot.gravity) ** powers
        singular = np.linalg.svd(rows * scale, compute_uv=False)
        return float(singular[0] / max(singular[-1], 1e-300))

    def _names_of_unknowns(self, some: Iterable[int]) -> tuple[Parameter, ...]:
        """Names of some unknowns."""
        return tuple(self.unknowns.names[k] for k in some)

    @cached_property
    def evidence(self) -> Evidence:
        """The figures that the verdict rests on."""
        state, equation, unknowns, deviations = self.state, self.state.equation, self.unknowns, self.deviations
        return Evidence(
            channels=equation.channel_names, fit=self.fit, validation=self.validation,
            unidentifiable=self.unidentifiable,
            model=equation.options.model, torques=self.torques, torque_joints=self._torque_joints(),
            base_condition=self.base_condition, groups=None if deviations is None else deviations.groups,
            essential_groups=0 if deviations is None else deviations.essential_groups, delay=self._untried_delay,
            weak=self._uncertain_parameters(), impossible=self._impossible_parameters(),
            negative=self._negative_inertias(),
            placement=find_plate_placement(
                equation, unknowns, self.least_squares, state.kept, self.variance_inflation
            ),
            is_plate=equation.options.model == "reaction", motion_noise=state.motion_noise,
            joints=len(equation.torque_channels) or equation.robot.n, used_delay=state.delay,
            scales=find_torque_scales(equation, unknowns, self.solution.values, self.factors),
            in_current=any(IN_CURRENT in found.notes for found in state.findings) and equation.options.has_torques,
            seconds=self.recorded_seconds, shaken=self._shaken_joints(),
            bad_channels=[
                message if len(state.findings) == 1 else message.about(found.log)
                for found in state.findings for message in found.bad_channels
            ],
            kinds=_joint_kinds(equation), torque_kinds=_joint_kinds(equation, of_torques=True),
            mistake=None if self.diagnosis is None else self.diagnosis.best,
            can_diagnose=self.tried_samples is not None,
            condition=self.solution.scaled_condition, unidentifiable_share=self._unidentifiable_share(),
            recipe=state.recipe, has_bodies=equation.unknown is None, excitation=_excitation_options(state),
            unproven=(*describe_unprovable(equation), *(self.diagnosis.unproven if self.diagnosis else ())),
            one_motion=self.one_motion,
            saturated=describe_saturation(state.findings),
            beyond_limits=[message for f in state.findings for message in f.notes if message.code == BEYOND_LIMITS],
            moving_too_far=self._joints_that_move_too_far(),
        )  # fmt: skip

    def _joints_that_move_too_far(self) -> dict[str, tuple[float, float]]:
        """Joints that range more than a turn further than their limits, with both ranges (rad), the largest by log."""
        robot, found = self.state.equation.robot, dict[str, tuple[float, float]]()
        for spans in (np.subtract(f.highest, f.lowest) for f in self.state.findings if len(f.highest) == robot.n):
            for j in find_joints_that_move_too_far(robot, spans):
                before, room = found.get(robot.joint_names[j], (0.0, float(np.ptp(robot.limits.position[j]))))
                found[robot.joint_names[j]] = max(before, float(spans[j])), room
        return found

    def _unidentifiable_share(self) -> float:
        """Share of unidentifiable parameters, among all or among base parameters, whichever is larger."""
        names = [item.name for item in self.unidentifiable]
        base = sum(name in self.state.equation.base.names for name in names)
        return max(
            len(names) / (len(names) + len(self.kept_unknowns)), base / max(base + len(self.kept_base_parameters), 1)
        )

    def _torque_joints(self) -> tuple[str, ...]:
        """Joints whose torques were predicted in addition to what the model is about."""
        equation = self.state.equation
        return tuple(equation.robot.joint_names[j] for j in _torque_joint_indices(equation))

    def _shaken_joints(self) -> list[ShakenJoint]:
        """Joints whose friction is off by more than a standard deviation because encoder noise shakes them."""
        random = self.solution.covariance if self.deviations is None else self.deviations.covariance
        sigma, equation = np.sqrt(np.diag(random)), self.state.equation
        friction = [
            k for k in self.kept_unknowns if self.unknowns.names[k] in equation.names[equation.rigid_column_count :]
        ]
        found = []
        for tremor in self.tremors:
            off = {k: abs(tremor.shifts[k]) / sigma[k] for k in friction if abs(tremor.shifts[k]) > sigma[k] > 0.0}
            if off:
                names = self._names_of_unknowns(sorted(off, key=lambda k: -off[k]))
                found.append(
                    ShakenJoint(equation.robot.joint_names[tremor.joint], names, tremor.speed, max(off.values()))
                )
        return found

    def _uncertain_parameters(self) -> list[str]:
        """Base parameters that are not known to half of the largest of their kind (mass, first moment, inertia)."""
        units, values = self.unknowns.units, self.solution.values
        largest = {
            unit: max(abs(float(values[k])) for k in self.kept_base_parameters if units[k] == unit)
            for unit in {units[k] for k in self.kept_base_parameters}
        }
        return [self.unknowns.names[k] for k in self.kept_base_parameters if self.sigma[k] > 0.5 * largest[units[k]]]

    def _impossible_parameters(self) -> list[str]:
        """Parameters that are certainly below zero, which is physically impossible.

        These are rotor inertias, and viscous and Coulomb friction where no other block shares their shape.
        """
        plain = set(self.friction) <= set(PLAIN)
        surely = self.solution.values + SURE * self.interval_quantile * self.sigma < 0.0
        names = self.unknowns.names
        below = [names[k] for k in self.kept_unknowns if surely[k] and names[k] not in self.sums]
        return [name for name in below if name.kind == "rotor" or (plain and name.is_dissipation)]

    def _negative_inertias(self) -> list[str]:
        """Joints about which the inertia is certainly negative."""
        equation, kept = self.state.equation, self.kept_unknowns
        only_left_out = set(equation.base.names) - self.left_out <= {*self._names_of_unknowns(kept)}
        H = mean_inertias(equation, self._names_of_unknowns(kept), roughly=bool(self.left_out) and only_left_out)
        if not len(H):
            return []
        variance = np.einsum("jk,kl,jl->j", H, self.torque_covariance[np.ix_(kept, kept)], H)
        deviation = np.sqrt(np.maximum(variance, 0.0))
        bad = H @ self.solution.values[kept] + SURE * self.interval_quantile * deviation < 0.0
        joints = equation.joints if equation.torque_channels else range(equation.robot.n)
        return [equation.robot.joint_names[j] for j, negative in zip(joints, bad, strict=True) if negative]

    def _perturbation_bounds(self) -> Bounds:
        """Bounds on the relative error of the parameters by those of measurements and of the regressor."""
        solution = self.solution
        residual = float(np.sqrt((solution.residual_squares / solution.noise**2).sum()))
        channels = range(len(solution.noise))
        squares = np.array([sum(f[c].sum_of_squares for f in self.factors.values()) for c in channels])
        measured = float((squares / solution.noise**2).sum())
        explained = float(np.sqrt(max(measured - residual**2, 1e-300)))
        k = solution.condition
        return Bounds(k * residual / explained, k + k**2 * residual / explained)

    def _factors_on_result_columns(self) -> tuple[tuple[ChannelFactor, ...], ...]:
        """Factors of every log and channel on the columns of the result."""
        out = []
        for log in sorted(self.factors):
            of_log = []
            for c, factor in enumerate(self.factors[log]):
                rows, right = self.unknowns.rows_of_factor(log, c, factor)
                columns = np.column_stack([rows[:, self.kept_unknowns], right])
                of_log.append(ChannelFactor(columns, factor.count, factor.total))
            out.append(tuple(of_log))
        return tuple(out)


_POWERS_OF_LENGTH = {"kg m^2": 2.0, "kg m": 1.0}


def _lengths_per_metre(gravity: Array) -> float:
    """How many units of length of a robot file make a metre, by its gravity: 1, or 1000 where that is 9810."""
    size = float(np.linalg.norm(gravity))
    power = np.log10(size / 9.81) if size > 0.0 else 0.0
    return float(10.0 ** round(power)) if abs(power - round(power)) < 0.02 else 1.0


def _torque_joint_indices(equation: Equation) -> Sequence[int]:
    """Joints whose torques are predicted: those in use, or all."""
    return equation.joints if equation.options.has_torques else range(equation.robot.n)


def _joint_kinds(equation: Equation, *, of_torques: bool = False) -> list[str]:
    """Kind of joint of every channel (or of every torque), or what else the channel is."""
    links = [equation.robot.links[k] for k in equation.robot.active_links]
    if of_torques:
        return [links[j].kind for j in _torque_joint_indices(equation)]
    pairs = zip(equation.channels, equation.channel_kinds, strict=True)
    return [links[channel.joint].kind if channel.joint >= 0 else kind for channel, kind in pairs]


def _excitation_options(state: State) -> tuple[Option, ...]:
    """Options of a motion to record next: the columns of this equation, and limits that the robot file lacks."""
    equation, limits = state.equation, state.equation.robot.limits
    options = [Option("rotor_inertia", True)] if equation.base.question.rotor_inertia else []
    if not np.isfinite(limits.velocity).all() and state.kept:  # no faster than what was recorded, which was allowed
        fastest = np.max([np.abs(rows.v).max(axis=0) for rows in state.kept if len(rows.v)], axis=0)
        known = np.where(np.isfinite(limits.velocity), limits.velocity, np.maximum(fastest, 0.1))
        options.append(Option("velocity", [float(f"{x:.2g}") for x in known]))
    return tuple(options)


# Ridge towards nominal values: further rows that pull every parameter, as strongly as held-out data like it.


STRENGTHS = np.concatenate([[0.0], np.logspace(-8.0, 8.0, 33)])
"""Tried ones: at 1 a nominal value is trusted to about the largest of its kind."""


def ridge_rows(state: State, unknowns: Unknowns, plain: Solution) -> tuple[Array, Array]:
    """Ridge rows sqrt(strength) * (x - nominal) / size, the strength by blocked cross validation.

    The size is that of the kind of parameter, not of its column: what the motion hardly excites is pulled most.
    """
    nominal = nominal_values(state, unknowns)
    folds = Folds.from_blocks(unknowns, state.blocks, plain.noise)
    power = float((folds.squares.sum(axis=0) / plain.noise**2).sum())
    columns = np.diag(folds.normal_equations[0].sum(axis=0))
    weight = 1.0 / _typical_sizes(unknowns, nominal, columns, power) ** 2
    errors = [folds.nrmse(folds.errors_of_ridge_fits(strength * weight, nominal)).mean() for strength in STRENGTHS]
    scale = np.sqrt(float(STRENGTHS[int(np.argmin(errors))]) * weight)
    return np.diag(scale), scale * nominal


def _typical_sizes(unknowns: Unknowns, nominal: Array, columns: Array, power: float) -> Array:
    """Largest nominal value of the same unit; where there is none, what would explain the whole torque."""
    sizes = np.array([max(abs(x) for x, u in zip(nominal, unknowns.units, strict=True) if u == unit)
                      for unit in unknowns.units])  # fmt: skip
    return np.where(sizes > 0.0, sizes, np.sqrt(power / np.maximum(columns, 1e-12 * columns.max())))


def nominal_values(state: State, unknowns: Unknowns) -> Array:
    """Nominal base values and friction of the robot, zero where unknown."""
    equation = state.equation
    robot = equation.robot
    base = equation.base.values(robot.parameters)
    values = dict(zip(equation.base.names, np.nan_to_num(base), strict=True))
    for k in robot.active_links:
        for kind, value in robot.links[k].friction:
            values[FRICTION[kind].symbols[0] + robot.links[k].label] = value
    return np.array([values.get(name.of_all_logs, 0.0) for name in unknowns.names])


def estimate(
    state: State,
    options: Options,
    validation: tuple[State, str] | None,
    torques: State | None = None,
    logs: tuple[Log, ...] = (),
) -> Identification:
    """Solve a state and return the result; validation: other logs with their name; torques: of these logs.

    logs: those that the state was read from, where other readings of them are to be tried.
    """
    factors = total_factors(state.blocks)
    friction = choose_friction(state, options, factors)
    options.refuse_offsets_without_block(friction[0])
    options.refuse_friction_per_log_without_block(friction[0])
    solved = _solve_state(state, options, factors, friction, (validation, torques), logs=logs)
    assert solved is not None
    result = solved.identification(_try_without_rotors(solved, friction, (validation, torques)))
    band = _calibrate_band(solved)
    notes = (*result.notes, *_describe_motion_beyond_data(solved, band, (validation, torques)))
    return result.replace(calibration=band, notes=notes)


Validation = tuple[tuple[State, str] | None, State | None]
"""Other logs with what to call them, and their torques where the model is about something else."""

AS_GOOD = 1.05
"""Ratio of errors up to which a model with fewer parameters predicts as well."""


def _try_without_rotors(
    solved: SolvedState, friction: tuple[tuple[str, ...], tuple[Trial, ...]], others: Validation
) -> Verdict:
    """Verdict, which proposes to leave rotor inertias out where that gives a better one on the same data."""
    verdict, evidence, options = solved.verdict, solved.evidence, solved.options
    rotors = frozenset(name for name in solved.unknowns.names if name.kind == "rotor")
    given = {*options.known, *(name for pair in options.equal for name in pair)}
    is_free = rotors and not rotors & given and not _declared_rotors(solved.state.equation, options)
    mistaken = evidence.are_signs_reversed or (evidence.mistake is not None and evidence.mistake.is_named)
    if verdict.level == evidence.level_by_errors or not is_free or mistaken or options.estimator == "recursive":
        return verdict  # nothing to gain: errors decide, and fewer parameters do not lower them
    most = AS_GOOD * solved.validation.mean
    other = _solve_state(solved.state, options, solved.factors, friction, others, left_out=rotors, most=most)
    if other is None or not LEVELS.index(other.verdict.level) < LEVELS.index(verdict.level):
        return verdict
    option = Option("rotor_inertia", False)
    return propose_alternative(
        verdict, evidence.deciding_errors[1], other.verdict, other.evidence.deciding_errors[1], option
    )


def _solve_state(
    state: State,
    options: Options,
    factors: Factors,
    chosen: tuple[tuple[str, ...], tuple[Trial, ...]],
    others: Validation,
    *,
    left_out: frozenset[Parameter] = frozenset(),
    logs: tuple[Log, ...] = (),
    most: float | None = None,
) -> SolvedState | None:
    """Solve with the chosen friction blocks; left_out: unknowns that are dropped; logs: see `estimate`.

    None where the mean error on validation data is not at most `most`.
    """
    equation, (friction, trials), (validation, torques) = state.equation, chosen, others
    unknowns = Unknowns.for_equation(
        equation,
        friction,
        state.logs,
        per_log=options.friction_blocks_per_log(friction),
        left_out=state.unseen_harmonics,
    )
    unknowns = unknowns.without_unknowns([k for k, name in enumerate(unknowns.names) if name in left_out])
    independent, joined = structurally_independent_columns(equation, unknowns)
    same = tuple(
        _describe_collinear(unknowns, k, independent, joined[:, k])
        for k in range(len(unknowns))
        if k not in independent
    )
    sums = {unknowns.names[k] for k, row in zip(independent, joined, strict=True) if np.count_nonzero(row) > 1}
    unknowns = unknowns.without_unknowns([k for k in range(len(unknowns)) if k not in independent])
    declared = _declared_rotors(equation, options)
    constraints, notes = build_constraints(equation, unknowns, options.known, options.equal, declared)
    standing = regrouping_of_standing_joints(state, unknowns, constraints)
    unidentifiable = describe_unidentifiable(equation, unknowns, standing, _mean_posture(state))
    if standing is not None:
        unknowns = unknowns.without_unknowns([k for k in range(len(unknowns)) if k not in standing.kept])
        constraints, notes = build_constraints(equation, unknowns, options.known, options.equal, declared)
    levels = _recursion_levels(state, unknowns, options, constraints)
    plain = solve(unknowns, factors, constraints=constraints)
    by_noise = _regroup_above_motion_noise(state, unknowns, factors, plain, constraints)
    found = list[Unidentifiable]()
    for regrouping in (plain.regrouping, by_noise) if by_noise is not None or levels is not None else ():
        if regrouping is not None:
            found += describe_unidentifiable(
                equation, unknowns, regrouping, _mean_posture(state), by_noise=regrouping is by_noise,
                is_noisy=state.motion_noise > NOISY,
            )  # fmt: skip
            unknowns = unknowns.without_unknowns([k for k in range(len(unknowns)) if k not in regrouping.kept])
    if found and levels is not None:
        raise IdentificationError(
            "recursion_parameters_lost", "the recursion needs every joint's own parameters: {reason}", "{advice}",
            reason=found[-1].message.what, advice=found[-1].remedy, parameter=found[-1].name,
        )  # fmt: skip
    if by_noise is not None:
        unidentifiable = (*unidentifiable, *found)
        constraints, notes = build_constraints(equation, unknowns, options.known, options.equal, declared)
        plain = solve(unknowns, factors, constraints=constraints)
    own = options.estimator if callable(options.estimator) else None
    if levels is None:
        solution = _solve_with_options(state, unknowns, factors, options, constraints, plain)
    else:
        solution = solve_recursively(unknowns, factors, levels, dict(enumerate(state.floor)))
    derived = _motion_noise_dominates(state, unknowns, solution)
    if derived and levels is None and own is None:
        solution = fade_out_ends(unknowns, solution, state.blocks)
    floor = dict(enumerate(state.floor)) if state.motion_noise <= NOISY else {}  # else the first order is not enough
    shift = attenuation_by_motion_noise(unknowns, solution, floor, _is_minor_friction(state, unknowns), levels)
    is_corrected = not equation.options.is_scalar and own is None  # a user's values stay what they are
    if is_corrected:  # power and work may go with the noise of velocities: there it stays unsure
        solution, shift = replace(solution, values=solution.values - shift), state.noise_unsure * shift
    checked, predicted, judged = _validation_errors(state, unknowns, solution, validation, levels, torques, own)
    if most is not None and not checked.mean <= most:
        return None
    deviations, agreement, groups = None, None, group_logs_by_motion(state)
    one_motion = describe_single_motion(groups)
    notes = notes if one_motion is None else (*notes, one_motion)
    if options.intervals == "jackknife":
        spread = {"derived": derived, "noise_corrected": bool(floor) and is_corrected}
        if own is not None:
            deviations = jackknife_by_refits(own, unknowns, solution, state.blocks)
        elif levels is None:
            deviations = jackknife(unknowns, solution, state.blocks, **spread)
        else:
            deviations = jackknife_recursion(unknowns, solution, levels, state.blocks, **spread)
        deviations, contrasts = add_variance_between_logs(
            state, unknowns, solution, deviations, by_batch=levels is not None or own is not None, groups=groups,
            **spread,
        )  # fmt: skip
        if contrasts is not None and levels is None:
            agreement = compare_logs(
                state, unknowns, solution if own is None else plain, contrasts, constraints=constraints
            )
            notes = (*notes, *describe_agreement(agreement))
    fit = score(
        unknowns, solution.values, factors, state.settling, cutoff=state.cutoff, source="the data used", fitted=True,
        kinds=equation.channel_kinds,
    )  # fmt: skip
    warnings = _find_contradicted_rotors(state, unknowns, factors, options, declared)
    warnings = (*warnings, *describe_differences(state, agreement))
    if levels is not None:
        note, warnings = _compare_with_batch(
            state, unknowns, factors, levels, (solution, deviations, checked), options=options, validation=validation
        )
        notes = (*notes, note)
    unidentifiable = (
        *unidentifiable,
        *describe_unidentifiable(equation, unknowns, solution.regrouping, _mean_posture(state)),
    )
    return SolvedState(
        state=state, options=options, unknowns=unknowns, factors=factors, solution=solution, deviations=deviations,
        fit=fit, validation=checked, friction=friction, trials=trials,
        unidentifiable=unidentifiable, sums=sums, notes=(*same, *notes),
        warnings=warnings, torques=predicted, shift=shift, judged=judged, left_out=left_out, logs=logs,
        agreement=agreement, levels=levels, one_motion=one_motion, batch=None if own is None else plain,
    )  # fmt: skip


def _describe_collinear(unknowns: Unknowns, dropped: int, kept: tuple[int, ...], shares: Array) -> Message:
    """Message on which unknowns a dropped collinear column joins."""
    others = [unknowns.names[k] for k, share in zip(kept, shares, strict=True) if abs(share) > 1e-9]
    what = "{parameter} is collinear with {joined} on every motion; dropped"
    return Message(
        "collinear_parameter", what if others else "{parameter} has no effect on any motion; dropped",
        parameter=unknowns.names[dropped], others=others, joined=" and ".join(others),
    )  # fmt: skip


def choose_friction(state: State, options: Options, factors: Factors) -> tuple[tuple[str, ...], tuple[Trial, ...]]:
    """Friction blocks by cross validation, and its trials; those of the equation where no recipe is asked for."""
    if not state.recipe:
        return state.equation.friction, ()
    per_log = options.friction_blocks_per_log((*DEFAULT, *OPTIONAL))
    first = Unknowns.for_equation(state.equation, DEFAULT, state.logs, per_log=per_log)
    noise = solve(first, factors).noise
    return choose_friction_blocks(
        state.equation, state.blocks, noise, logs=state.logs, per_log=per_log, left_out=state.unseen_harmonics,
        optional=OPTIONAL,
    )  # fmt: skip


def _declared_rotors(equation: Equation, options: Options) -> dict[str, float]:
    """Ia that the robot's sensor declares, where torques hold rotors; the recursion takes no known parameters."""
    has_rotors = equation.options.has_torques and equation.base.question.rotor_inertia and equation.unknown is None
    return equation.robot.declared_rotors if has_rotors and options.estimator != "recursive" else {}


def _find_contradicted_rotors(
    state: State, unknowns: Unknowns, factors: Factors, options: Options, declared: Mapping[str, float]
) -> tuple[Message, ...]:
    """Warnings on declared rotors whose Ia the data, left free, find elsewhere: by 5 deviations and a twentieth."""
    own = {name: x for name, x in declared.items() if name in unknowns.names and name not in options.known}
    if not own:
        return ()
    free = solve(
        unknowns, factors, constraints=build_constraints(state.equation, unknowns, options.known, options.equal, {})[0]
    )
    spread = jackknife(unknowns, free, state.blocks)
    sigma = np.sqrt(np.diag(free.covariance if spread is None else spread.covariance))
    warnings = []
    for name, Ia in own.items():
        k = unknowns.names.index(name)
        off = abs(float(free.values[k]) - Ia)
        if off > max(5.0 * sigma[k], 0.05 * Ia):
            warnings.append(Message(
                "rotor_inertia_contradicts_data", "{parameter} = {declared:.5g} was declared by the rotor's ratio^2 "
                "J, but the data alone say {identified:.5g} (+- {sigma:.1g})", "check ratio and inertia of this rotor",
                parameter=name, declared=Ia, identified=float(free.values[k]), sigma=float(sigma[k]),
            ))  # fmt: skip
    return tuple(warnings)


def _recursion_levels(
    state: State, unknowns: Unknowns, options: Options, constraints: Constraints | None
) -> Levels | None:
    """Blocks of the recursion, where it is asked for."""
    if options.estimator != "recursive" and not callable(options.estimator):
        return None
    if constraints is not None and len(constraints.matrix):
        raise IdentificationError(
            "estimator_with_constraints", "{what} takes no known or equal parameters", "use {estimator}",
            what="an estimator of your own" if callable(options.estimator) else "the recursion",
            estimator=Option("estimator", "wls"),
        )  # fmt: skip
    return None if callable(options.estimator) else find_levels(state.equation, unknowns)


def _motion_noise_dominates(state: State, unknowns: Unknowns, solution: Solution) -> bool:
    """Whether most of the residual is noise of the motion, that of derivatives above all."""
    power = np.zeros(len(solution.noise))
    for log, of_log in enumerate(state.floor):
        power += [f.residual_squares(unknowns.values_of_channel(log, c, solution.values)) for c, f in enumerate(of_log)]
    return bool((power / solution.noise**2).sum() > 0.5 * (solution.residual_squares / solution.noise**2).sum())


def _compare_with_batch(
    state: State,
    unknowns: Unknowns,
    factors: Factors,
    levels: Levels,
    found: tuple[Solution, Jackknife | None, Score],
    *,
    options: Options,
    validation: tuple[State, str] | None,
) -> tuple[Message, tuple[Message, ...]]:
    """Compare the recursion with joint weighted least squares on the same factors."""
    batch = solve(unknowns, factors)
    spread = jackknife(unknowns, batch, state.blocks) if options.intervals == "jackknife" else None
    pair = [
        Candidate(s.values, np.sqrt(np.diag(s.covariance if d is None else d.covariance)), checked)
        for s, d, checked in (found, (batch, spread, _validation_errors(state, unknowns, batch, validation, None)[0]))
    ]
    return compare_with_batch(unknowns, levels, *pair)


def _regroup_above_motion_noise(
    state: State, unknowns: Unknowns, factors: Factors, plain: Solution, constraints: Constraints | None
) -> Regrouping | None:
    """Regrouping of unknowns that only noise of the motion separates; None where there are none.

    How friction is made up of stop operators and the like is not tested: they overlap, and their sum counts.
    """
    floor = dict(enumerate(state.floor))
    if not floor:
        return None
    kept = list(range(len(unknowns)) if plain.regrouping is None else plain.regrouping.kept)
    minor = _is_minor_friction(state, unknowns)[kept]
    if constraints is not None:
        constraints = Constraints(constraints.matrix[:, kept], constraints.right)
    parts, some = [], unknowns.without_unknowns([k for k in range(len(unknowns)) if k not in set(kept)])
    for log, of_log in factors.items():
        for c, noise in enumerate(plain.noise):
            place = some.place[log, some.channels[c]]
            A, D = (x[log][c].R[:, :-1][:, place >= 0] / noise for x in (factors, floor))
            parts.append(NoisyRows(place[place >= 0], A, D, of_log[c].count))
    return regroup_above_noise(parts, minor, constraints)


def _is_minor_friction(state: State, unknowns: Unknowns) -> NDArray[np.bool_]:
    """Mask of unknowns that are friction beyond viscous, offset and (without a stop operator) Coulomb.

    Viscous friction overlaps with the others too, once Stribeck's curve is among them.
    """
    blocks = state.equation.columns_by_friction_block
    used = [name for name in blocks if (unknowns.place[:, blocks[name]] >= 0).any()]
    plain = ("viscous", "offset") if any(STOP.fullmatch(name) for name in used) else PLAIN
    tested = [name for name in plain if name != "viscous" or "stribeck" not in used]
    columns = [k for name in used if name not in tested for k in blocks[name]]
    return np.isin(np.arange(len(unknowns)), unknowns.place[:, columns])


def _solve_with_options(
    state: State,
    unknowns: Unknowns,
    factors: Factors,
    options: Options,
    constraints: Constraints | None,
    plain: Solution,
) -> Solution:
    """Solve as the options ask; plain: the solution of weighted least squares."""
    if options.estimator == "ols":
        return solve(unknowns, factors, weighted=False, constraints=constraints)
    declared = _declared_noise(state.equation, plain.noise)
    if declared is not None:
        plain = solve(unknowns, factors, constraints=constraints, noise=declared)
    if callable(options.estimator):
        return solve_by_estimator(options.estimator, unknowns, factors, plain)
    if options.estimator != "ridge":
        return plain
    prior = ridge_rows(state, unknowns, plain)
    return solve(unknowns, factors, constraints=constraints, prior=prior, noise=plain.noise)


def _declared_noise(equation: Equation, found: Array) -> Array | None:
    """Noise of the base's channels in the ratios that are declared, at the common level of the data."""
    declared = equation.sensor.noise if equation.base_channels else None
    if declared is None:
        return None
    noise, base = found.copy(), slice(len(found) - len(declared), None)
    noise[base] = declared * np.sqrt(np.mean((found[base] / declared) ** 2))
    return noise


def _validation_errors(
    state: State,
    unknowns: Unknowns,
    solution: Solution,
    validation: tuple[State, str] | None,
    levels: Levels | None,
    torques: State | None = None,
    estimator: Estimator | None = None,
) -> tuple[Score, Score | None, tuple[JudgedRows, ...]]:
    """Errors on validation data of the model's channels and of the joint torques, and the rows to check."""
    check = TorqueCheck(state.equation, unknowns, state.torques, state.cutoff)
    if validation is None:
        folds, groups, fits = _fits_without_each_fold(state, unknowns, solution, levels, estimator)
        own = held_out_score(
            folds, folds.errors_of_values(fits), cutoff=state.cutoff, kinds=state.equation.channel_kinds
        )
        return own, check.held_out_errors(groups, fits, own.source), rows_of_folds(state.kept, groups, fits)
    others, name = validation
    own = score(
        unknowns, solution.values, total_factors(others.blocks), others.settling,
        cutoff=state.cutoff, source=name, fitted=False, kinds=state.equation.channel_kinds,
    )  # fmt: skip
    of_torques = None
    if torques is not None:
        of_torques = check.errors_on_logs(torques.blocks, torques.settling, solution.values, name)
    return own, of_torques, rows_of_other_logs(others.kept, solution.values)


def _fits_without_each_fold(
    state: State, unknowns: Unknowns, solution: Solution, levels: Levels | None, own: Estimator | None
) -> tuple[Folds, list[tuple[Block, ...]], Array]:
    """Folds, their groups of blocks, and the values (folds, unknowns) fitted without each."""
    folds, groups = (
        Folds.from_blocks(unknowns, state.blocks, solution.noise),
        fold_groups(unknowns, state.blocks, FOLDS),
    )
    if own is not None:
        refits = [solve_by_estimator(own, unknowns, f, solution).values for f in factors_without_each_group(groups)]
        return folds, groups, np.array(refits)
    if levels is None:
        return folds, groups, folds.fits_under_constraints(solution.free, solution.fixed, solution.prior)
    return folds, groups, solution.values + recursion_shifts(unknowns, solution, levels, groups)[0]


def _calibrate_band(solved: SolvedState) -> Band | None:
    """Parts of the 95 % band of torques beside that of the parameters; None for models without single torques.

    Rows at rest and shortly after, where friction is unknown, do not count.
    """
    state, unknowns = solved.state, solved.unknowns
    if state.equation.options.model != "torque":
        return None
    dry = _dry_friction_levels(solved)
    residual, slow = [np.zeros((0, len(dry)))], [np.zeros((0, len(dry)))]
    for rows in state.kept:
        left = np.empty((len(rows.t), len(dry)))
        for c, channel in enumerate(state.equation.channels):
            own = channel.rows_in_wide(rows.wide)
            left[:, c] = own[:, -1] - own[:, :-1] @ unknowns.values_of_channel(rows.log, c, solved.solution.values)
            known = channel.are_rows_settled(rows.good & rows.settled) & (channel.row_weights(rows.share) == 1.0)
            left[~known, c] = np.nan
        residual.append(left)
        slow.append(slow_shares(state.equation, rows.v))
    return Band.from_residuals(
        np.concatenate(residual), np.concatenate(slow), dry, NORMAL * solved.row_noise,
        of_several_logs=solved.sigma_growth_between_logs is not None,
    )  # fmt: skip


def _dry_friction_levels(solved: SolvedState) -> Array:
    """Dry friction (channels,) of sliding joints, N m or N, without that of `load`; the first log's, if they differ."""
    equation, unknowns = solved.state.equation, solved.unknowns
    level = np.zeros(equation.robot.n)
    for name, columns in equation.columns_by_friction_block.items():
        if STOP.fullmatch(name) or (name in SIGNED and name != "lag"):
            place = unknowns.place[0, columns]
            level += np.where(place >= 0, solved.solution.values[place], 0.0)
    of_joints = np.abs(equation.transmission).T @ np.abs(level)
    return np.array([of_joints[channel.joint] for channel in equation.torque_channels])


BEYOND = 2.0
"""Uncertainty by the parameters along a validation motion, over that along the data used, from which it is said."""


def _describe_motion_beyond_data(solved: SolvedState, band: Band | None, others: Validation) -> tuple[Message, ...]:
    """Note on joints whose torques the parameters leave far more uncertain along the validation motion."""
    kept = others[0][0].kept if others[0] is not None else ()
    if band is None or not kept or not solved.state.kept:
        return ()
    used, unseen = (
        np.quantile(np.concatenate([_parameter_widths(solved, rows, log) for rows, log in some]), 0.9, axis=0)
        for some in ([(rows, rows.log) for rows in solved.state.kept], [(rows, 0) for rows in kept])
    )
    ratio = unseen / np.maximum(used, 1e-300)
    beyond = np.flatnonzero((ratio > BEYOND) & (unseen > BEYOND * band.floor))
    if not len(beyond):
        return ()
    names = [solved.state.equation.channel_names[c] for c in beyond]
    return (Message(
        "validation_beyond_data", "the validation motion goes beyond the data used: the parameters leave the torques "
        "of "
        "{joints:5} uncertain by up to {ratio:.0f} times as much as along the data used", "read these errors as "
        "extrapolation, or identify from such a motion as well", joints=names, ratio=float(ratio[beyond].max()),
    ),)  # fmt: skip


def _parameter_widths(solved: SolvedState, rows: Rows, log: int) -> Array:
    """Half widths (rows, channels) of the 95 % band of the parameters alone; log: whose offsets count."""
    width = []
    for channel in solved.state.equation.channels:
        place = solved.unknowns.place[log, channel.columns]
        own = channel.rows_in_wide(rows.wide)[:, :-1][:, place >= 0]
        covariance = solved.torque_covariance[np.ix_(place[place >= 0], place[place >= 0])]
        variance = ((own @ covariance) * own).sum(axis=1)
        width.append(solved.interval_quantile * np.sqrt(np.maximum(variance, 0.0)))
    return np.column_stack(width)


def _mean_posture(state: State) -> Array:
    """Mean posture (n,) over all logs."""
    return np.asarray(np.mean([found.mean for found in state.findings], axis=0))
