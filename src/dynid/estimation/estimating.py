"""From a state to a result: gate, solution, deviations, checks, verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dynid.data.read import IN_CURRENT
from dynid.errors import IdentificationError
from dynid.estimation.beside import Estimate, compare_with_batch
from dynid.estimation.constraints import constraints_of
from dynid.estimation.equation import Equation, Indices
from dynid.estimation.essential import eliminate
from dynid.estimation.factor import ChannelFactor
from dynid.estimation.folds import FOLDS, Folds, fold_groups
from dynid.estimation.gain import gain_shifts
from dynid.estimation.gate import DEFAULT, OPTIONAL, Trial, choose_blocks
from dynid.estimation.gathering import Gathered, total_factors
from dynid.estimation.identification import NORMAL, Bounds, Identification
from dynid.estimation.inertias import mean_inertias
from dynid.estimation.jackknife import Jackknife, jackknife
from dynid.estimation.least_squares import Constraints, Factors, Solution, channel_noise, solve, stacked
from dynid.estimation.lost import Lost, describe_lost
from dynid.estimation.placement import find_placement
from dynid.estimation.recursive import Levels, find_levels, jackknife_recursion, shifts_of, solve_recursively
from dynid.estimation.residuals import check_channels, estimate_delay
from dynid.estimation.ridge import ridge_rows
from dynid.estimation.score import Score, held_out_score, score
from dynid.estimation.state import State
from dynid.estimation.structure import standing_regrouping, structural_columns
from dynid.estimation.torque_scale import find_scales
from dynid.estimation.unknowns import Unknowns
from dynid.estimation.verdict import Evidence, judge
from dynid.models.friction import PLAIN
from dynid.robot.transform import Array
from dynid.version import VERSION

ESTIMATORS = ("ols", "wls", "ridge", "huber", "recursive")


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """How to solve: estimator, known and tied parameters, own offsets per log, which intervals."""

    estimator: str = "wls"
    known: Mapping[str, float] = field(default_factory=dict)
    tied: Sequence[tuple[str, str]] = ()
    offsets_per_log: bool = False
    intervals: str = "jackknife"

    def __post_init__(self) -> None:
        if self.estimator not in ESTIMATORS:
            raise IdentificationError(
                f"there is no estimator '{self.estimator}'; estimators are {', '.join(ESTIMATORS)}"
            )
        if self.intervals not in ("jackknife", "white"):
            raise IdentificationError(f"intervals are 'jackknife' or 'white', not '{self.intervals}'")


def estimate(state: State, method: Method, validation: tuple[Gathered, str] | None) -> Identification:
    """Solve a state; `validation`: other logs gathered in the same way, and what to call them."""
    equation = state.equation
    factors = total_factors(state.blocks)
    friction, trials = _choose(state, method, factors)
    unknowns = Unknowns.of(equation, friction, state.logs, offsets_per_log=method.offsets_per_log)
    independent, joined = structural_columns(equation, unknowns)
    same = tuple(
        f"{unknowns.names[k]} is the same as {_names(unknowns, independent, joined[:, k])} on every motion: left out"
        for k in range(len(unknowns))
        if k not in independent
    )
    sums = {unknowns.names[k] for k, row in zip(independent, joined, strict=True) if np.count_nonzero(row) > 1}
    unknowns = unknowns.without([k for k in range(len(unknowns)) if k not in independent])
    constraints, notes = constraints_of(equation, unknowns, method.known, method.tied)
    standing = standing_regrouping(state, unknowns, constraints)
    lost = describe_lost(equation, unknowns, standing, _posture(state))
    if standing is not None:
        unknowns = unknowns.without([k for k in range(len(unknowns)) if k not in standing.kept])
        constraints, notes = constraints_of(equation, unknowns, method.known, method.tied)
    levels = _levels(state, unknowns, method, constraints)
    if levels is None:
        solution = _solve(state, unknowns, factors, method, constraints)
    else:
        solution = solve_recursively(unknowns, factors, levels)
    deviations = _deviations(state, unknowns, solution, levels) if method.intervals == "jackknife" else None
    fit = score(
        unknowns, solution.values, factors, state.settling, cutoff=state.cutoff, source="the data used", fitted=True,
        kinds=equation.kinds,
    )  # fmt: skip
    checked = _validate(state, unknowns, solution, validation, levels)
    warnings: tuple[str, ...] = ()
    if levels is not None:
        note, warnings = _beside(state, unknowns, factors, method, validation, levels, (solution, deviations, checked))
        notes = (*notes, note)
    lost = (*lost, *describe_lost(equation, unknowns, solution.regrouping, _posture(state)))
    return _result(
        state, method, unknowns, solution, deviations, fit, checked, factors, friction, trials, lost, sums,
        (*same, *notes), warnings,
    )  # fmt: skip


def _names(unknowns: Unknowns, kept: tuple[int, ...], shares: Array) -> str:
    """Unknowns that a column joins."""
    some = [unknowns.names[k] for k, share in zip(kept, shares, strict=True) if abs(share) > 1e-9]
    return " and ".join(some) if some else "nothing"


def _choose(state: State, method: Method, factors: Factors) -> tuple[tuple[str, ...], tuple[Trial, ...]]:
    if not state.recipe:
        return state.equation.friction, ()
    first = Unknowns.of(state.equation, DEFAULT, state.logs, offsets_per_log=method.offsets_per_log)
    noise = solve(first, factors).noise
    return choose_blocks(
        state.equation, state.blocks, noise, logs=state.logs, offsets_per_log=method.offsets_per_log, optional=OPTIONAL
    )


def _levels(state: State, unknowns: Unknowns, method: Method, constraints: Constraints | None) -> Levels | None:
    """Blocks of the recursion, where it is asked for."""
    if method.estimator != "recursive":
        return None
    if constraints is not None and len(constraints.matrix):
        raise IdentificationError("the recursion takes no known or tied parameters; use estimator='wls'")
    return find_levels(state.equation, unknowns)


def _deviations(state: State, unknowns: Unknowns, solution: Solution, levels: Levels | None) -> Jackknife | None:
    if levels is None:
        return jackknife(unknowns, solution, state.blocks)
    return jackknife_recursion(unknowns, solution, levels, state.blocks)


def _beside(
    state: State,
    unknowns: Unknowns,
    factors: Factors,
    method: Method,
    validation: tuple[Gathered, str] | None,
    levels: Levels,
    found: tuple[Solution, Jackknife | None, Score],
) -> tuple[str, tuple[str, ...]]:
    """Compare the recursion with joint weighted least squares on the same factors."""
    batch = solve(unknowns, factors)
    spread = jackknife(unknowns, batch, state.blocks) if method.intervals == "jackknife" else None
    pair = [
        Estimate(s.values, np.sqrt(np.diag(s.covariance if d is None else d.covariance)), checked)
        for s, d, checked in (found, (batch, spread, _validate(state, unknowns, batch, validation, None)))
    ]
    return compare_with_batch(unknowns, levels, *pair)


def _solve(
    state: State, unknowns: Unknowns, factors: Factors, method: Method, constraints: Constraints | None
) -> Solution:
    if method.estimator == "ols":
        return solve(unknowns, factors, weighted=False, constraints=constraints)
    plain = solve(unknowns, factors, constraints=constraints)
    declared = _declared_noise(state.equation, plain.noise)
    if declared is not None:
        plain = solve(unknowns, factors, constraints=constraints, noise=declared)
    if method.estimator != "ridge":
        return plain
    prior = ridge_rows(state, unknowns, plain)
    return solve(unknowns, factors, constraints=constraints, prior=prior, noise=plain.noise)


def _declared_noise(equation: Equation, found: Array) -> Array | None:
    """Noise in which channels of the base stand to one another as declared; their common level is the data's."""
    declared = equation.sensor.noise if equation.base_channels else None
    if declared is None:
        return None
    noise, base = found.copy(), slice(len(found) - len(declared), None)
    noise[base] = declared * np.sqrt(np.mean((found[base] / declared) ** 2))
    return noise


def _validate(
    state: State,
    unknowns: Unknowns,
    solution: Solution,
    validation: tuple[Gathered, str] | None,
    levels: Levels | None,
) -> Score:
    if validation is None:
        folds = Folds.of(unknowns, state.blocks, solution.noise)
        if levels is None:
            errors = folds.errors_within(solution.free, solution.fixed, solution.prior)
        else:
            groups = fold_groups(unknowns, state.blocks, FOLDS)
            errors = folds.errors_of(solution.values + shifts_of(unknowns, solution, levels, groups)[0])
        return held_out_score(folds, errors, cutoff=state.cutoff, kinds=state.equation.kinds)
    gathered, name = validation
    return score(
        unknowns, solution.values, total_factors(gathered.blocks), gathered.settling,
        cutoff=state.cutoff, source=name, fitted=False, kinds=state.equation.kinds,
    )  # fmt: skip


def _result(
    state: State,
    method: Method,
    unknowns: Unknowns,
    solution: Solution,
    deviations: Jackknife | None,
    fit: Score,
    validation: Score,
    factors: Factors,
    friction: tuple[str, ...],
    trials: tuple[Trial, ...],
    lost: tuple[Lost, ...],
    sums: set[str],
    notes: tuple[str, ...],
    blind: tuple[str, ...],
) -> Identification:
    equation = state.equation
    systematic = gain_shifts(equation, unknowns, solution, factors)
    white = solution.covariance
    covariance = (white if deviations is None else deviations.covariance) + systematic.T @ systematic
    kept = np.array(range(len(unknowns)) if solution.regrouping is None else solution.regrouping.kept, dtype=np.int64)
    sigma, white_sigma = np.sqrt(np.diag(covariance)), np.sqrt(np.diag(white))
    inflation = _inflation(sigma, white_sigma)
    groups = 0 if deviations is None else deviations.groups
    essential = eliminate(solution, inflation, groups or 1000)
    found_delay = estimate_delay(equation, unknowns, solution, state.kept, inflation)
    base = [int(k) for k in kept if unknowns.names[k] in equation.base.names]
    weak = [unknowns.names[k] for k in base if sigma[k] > 0.5 * _size_of(unknowns.units[k], unknowns, solution, base)]
    channels = equation.channel_names
    base_condition = _condition(unknowns, factors, solution.noise, base)
    half = sigma * (NORMAL if deviations is None else deviations.quantile)
    verdict = judge(
        Evidence(
            channels=channels, fit=fit, validation=validation, lost=lost, base_condition=base_condition,
            groups=None if deviations is None else deviations.groups,
            essential_groups=0 if deviations is None else deviations.essential_groups, delay=found_delay, weak=weak,
            impossible=[
                unknowns.names[k] for k in kept
                if solution.values[k] + 2.0 * half[k] < 0.0 and unknowns.names[k] not in sums
                and _cannot_be_negative(unknowns.names[k], friction)
            ],
            negative=_negative_inertias(equation, unknowns, solution.values, covariance, half, kept),
            placement=find_placement(equation, unknowns, solution, state.kept, inflation),
            is_plate=equation.measure.model == "reaction", motion_noise=state.motion_noise,
            joints=len(equation.torque_channels) or equation.robot.n,
            used_delay=state.delay, scales=find_scales(equation, unknowns, solution.values, factors),
            in_current=any(IN_CURRENT in found.notes for found in state.findings) and equation.measure.has_torques,
            seconds=sum(block.stop - block.start for block in state.blocks),
        )
    )  # fmt: skip
    warnings = (*equation.base.warnings, *blind, *map(str, lost), *(verdict.reasons if verdict.level != "good" else ()))
    if deviations is None and method.intervals == "jackknife":
        warnings = (*warnings, "there are too few blocks of time for the jackknife: deviations are the textbook ones")
    names = tuple(unknowns.names[k] for k in kept)
    return Identification(
        equation=equation.with_friction(friction),
        model=equation.measure.model,
        estimator=method.estimator,
        names=names,
        units=tuple(unknowns.units[k] for k in kept),
        values=solution.values[kept],
        sigma=sigma[kept],
        white_sigma=white_sigma[kept],
        covariance=covariance[np.ix_(kept, kept)],
        systematic=systematic[:, kept],
        quantile=NORMAL if deviations is None else deviations.quantile,
        groups=groups,
        rank=solution.rank,
        base_rank=len(base),
        condition=solution.condition,
        base_condition=base_condition,
        bounds=_bounds(solution, factors),
        noise=solution.noise if method.estimator != "ols" else channel_noise(solution),
        fit=fit,
        validation=validation,
        cutoff=state.cutoff,
        cutoff_reason=state.reason,
        delay=state.delay,
        found_delay=found_delay,
        friction=friction,
        trials=trials,
        essential=tuple(unknowns.names[k] for k in essential.kept if k in set(kept.tolist())),
        essential_values=essential.values[kept],
        lost=lost,
        checks=check_channels(equation, unknowns, solution.values, state.kept, state.cutoff),
        findings=tuple((found.log, found.sentences) for found in state.findings),
        notes=notes,
        verdict=verdict,
        warnings=warnings,
        factors=_factors(unknowns, factors, kept),
        version=VERSION,
    )


def _cannot_be_negative(name: str, friction: tuple[str, ...]) -> bool:
    """Rotor inertias never; viscous and Coulomb friction where they are not one of several terms over velocity."""
    return name.startswith("Ia") or (name.startswith(("Fv", "Fc")) and set(friction) <= set(PLAIN))


def _negative_inertias(
    equation: Equation, unknowns: Unknowns, values: Array, covariance: Array, half: Array, kept: Indices
) -> list[str]:
    """Joints about which the inertia is negative beyond doubt."""
    H = mean_inertias(equation, tuple(unknowns.names[k] for k in kept))
    if not len(H):
        return []
    variance = np.einsum("jk,kl,jl->j", H, covariance[np.ix_(kept, kept)], H)
    sigma = np.sqrt(np.diag(covariance))[kept]
    quantile = float(np.median(half[kept][sigma > 0.0] / sigma[sigma > 0.0])) if (sigma > 0.0).any() else 2.0
    bad = H @ values[kept] + 2.0 * quantile * np.sqrt(np.maximum(variance, 0.0)) < 0.0
    joints = equation.joints if equation.torque_channels else range(equation.robot.n)
    return [equation.robot.joint_names[j] for j, negative in zip(joints, bad, strict=True) if negative]


def _inflation(sigma: Array, white: Array) -> float:
    """How much larger real variances are than those of white residuals, at least 1."""
    known = (white > 0.0) & np.isfinite(sigma)
    return float(max(1.0, np.median((sigma[known] / white[known]) ** 2))) if known.any() else 1.0


def _size_of(unit: str, unknowns: Unknowns, solution: Solution, base: list[int]) -> float:
    """Largest value of a kind of parameter (mass, first moment, inertia): what small is compared with."""
    alike = [abs(float(solution.values[k])) for k in base if unknowns.units[k] == unit]
    return max(alike, default=np.inf)


def _posture(state: State) -> Array:
    return np.asarray(np.mean([found.mean for found in state.findings], axis=0))


def _condition(unknowns: Unknowns, factors: Factors, noise: Array, columns: list[int]) -> float:
    if not columns:
        return 1.0
    singular = np.linalg.svd(stacked(unknowns, factors, noise)[0][:, columns], compute_uv=False)
    return float(singular[0] / max(singular[-1], 1e-300))


def _bounds(solution: Solution, factors: Factors) -> Bounds:
    residual = float(np.sqrt((solution.residual_squares / solution.noise**2).sum()))
    squares = np.array([sum(f[c].squares for f in factors.values()) for c in range(len(solution.noise))])
    measured = float((squares / solution.noise**2).sum())
    explained = float(np.sqrt(max(measured - residual**2, 1e-300)))
    k = solution.condition
    return Bounds(k * residual / explained, k + k**2 * residual / explained)


def _factors(unknowns: Unknowns, factors: Factors, kept: Indices) -> tuple[tuple[ChannelFactor, ...], ...]:
    """Factors of every log and channel on the columns of the result."""
    out = []
    for log in sorted(factors):
        of_log = []
        for c, factor in enumerate(factors[log]):
            rows, right = unknowns.rows(log, c, factor)
            of_log.append(ChannelFactor(np.column_stack([rows[:, kept], right]), factor.count, factor.total))
        out.append(tuple(of_log))
    return tuple(out)
