"""From a state to a result: gate, solution, deviations, checks, verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dynid.base.regrouping import Regrouping
from dynid.errors import IdentificationError
from dynid.estimation.beside import Estimate, compare_with_batch
from dynid.estimation.constraints import constraints_of
from dynid.estimation.equation import Equation
from dynid.estimation.folds import FOLDS, Folds, fold_groups
from dynid.estimation.gate import DEFAULT, OPTIONAL, Trial, choose_blocks
from dynid.estimation.gathering import Gathered, total_factors
from dynid.estimation.identification import Identification
from dynid.estimation.jackknife import Jackknife, jackknife
from dynid.estimation.least_squares import Constraints, Factors, NoisyRows, Solution, regroup_above_noise, solve
from dynid.estimation.lost import Lost, describe_lost
from dynid.estimation.method import Method, refuse_idle_offsets
from dynid.estimation.outcome import UNSURE, Outcome
from dynid.estimation.recursive import (
    Levels,
    attenuation,
    find_levels,
    jackknife_recursion,
    shifts_of,
    solve_recursively,
)
from dynid.estimation.ridge import ridge_rows
from dynid.estimation.score import Score, held_out_score, score
from dynid.estimation.state import State
from dynid.estimation.structure import standing_regrouping, structural_columns
from dynid.estimation.torque_check import TorqueCheck
from dynid.estimation.unknowns import Unknowns
from dynid.estimation.verdict import NOISY
from dynid.models.friction import PLAIN, STOP
from dynid.robot.transform import Array


def estimate(
    state: State, method: Method, validation: tuple[Gathered, str] | None, torques: Gathered | None = None
) -> Identification:
    """Solve a state; validation: other logs gathered in the same way, and what to call them; torques: of these logs."""
    equation = state.equation
    factors = total_factors(state.blocks)
    friction, trials = _choose(state, method, factors)
    refuse_idle_offsets(method.offsets_per_log, friction)
    unknowns = Unknowns.of(equation, friction, state.logs, offsets_per_log=method.offsets_per_log)
    independent, joined = structural_columns(equation, unknowns)
    same = tuple(
        f"{unknowns.names[k]} is the same as {_names(unknowns, independent, joined[:, k])} on every motion: left out"
        for k in range(len(unknowns))
        if k not in independent
    )
    sums = {unknowns.names[k] for k, row in zip(independent, joined, strict=True) if np.count_nonzero(row) > 1}
    unknowns = unknowns.without([k for k in range(len(unknowns)) if k not in independent])
    declared = _declared_rotors(equation, method)
    constraints, notes = constraints_of(equation, unknowns, method.known, method.tied, declared)
    standing = standing_regrouping(state, unknowns, constraints)
    lost = describe_lost(equation, unknowns, standing, _posture(state))
    if standing is not None:
        unknowns = unknowns.without([k for k in range(len(unknowns)) if k not in standing.kept])
        constraints, notes = constraints_of(equation, unknowns, method.known, method.tied, declared)
    levels = _levels(state, unknowns, method, constraints)
    plain = solve(unknowns, factors, constraints=constraints)
    by_noise = _above_noise(state, unknowns, factors, plain, constraints)
    found = list[Lost]()
    for regrouping in (plain.regrouping, by_noise) if by_noise is not None or levels is not None else ():
        if regrouping is not None:
            found += describe_lost(
                equation, unknowns, regrouping, _posture(state), by_noise=regrouping is by_noise,
                is_noisy=state.motion_noise > NOISY,
            )  # fmt: skip
            unknowns = unknowns.without([k for k in range(len(unknowns)) if k not in regrouping.kept])
    if found and levels is not None:
        raise IdentificationError(f"the recursion needs every joint's own parameters: {found[-1]}")
    if by_noise is not None:
        lost = (*lost, *found)
        constraints, notes = constraints_of(equation, unknowns, method.known, method.tied, declared)
        plain = solve(unknowns, factors, constraints=constraints)
    if levels is None:
        solution = _solve(state, unknowns, factors, method, constraints, plain)
    else:
        solution = solve_recursively(unknowns, factors, levels, dict(enumerate(state.floor)))
    floor = dict(enumerate(state.floor)) if state.motion_noise <= NOISY else {}  # else the first order is not enough
    shift = attenuation(unknowns, solution, floor, _minor(state, unknowns), levels)
    if not equation.measure.is_scalar:  # power and work may go with the noise of velocities: there it stays unsure
        solution, shift = replace(solution, values=solution.values - shift), UNSURE * shift
    deviations = None
    if method.intervals == "jackknife":
        deviations = _deviations(state, unknowns, solution, levels, _is_derived(state, unknowns, solution))
    fit = score(
        unknowns, solution.values, factors, state.settling, cutoff=state.cutoff, source="the data used", fitted=True,
        kinds=equation.kinds,
    )  # fmt: skip
    checked, predicted = _validate(state, unknowns, solution, validation, levels, torques)
    warnings = _contradicted(state, unknowns, factors, method, declared)
    if levels is not None:
        note, warnings = _beside(state, unknowns, factors, method, validation, levels, (solution, deviations, checked))
        notes = (*notes, note)
    lost = (*lost, *describe_lost(equation, unknowns, solution.regrouping, _posture(state)))
    return Outcome(
        state=state, method=method, unknowns=unknowns, factors=factors, solution=solution, deviations=deviations,
        fit=fit, validation=checked, friction=friction, trials=trials, lost=lost, sums=sums, notes=(*same, *notes),
        blind=warnings, torques=predicted, shift=shift,
    ).judged()  # fmt: skip


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


def _declared_rotors(equation: Equation, method: Method) -> dict[str, float]:
    """Ia that the robot's sensor declares, where torques hold rotors; the recursion takes no known parameters."""
    has_rotors = equation.measure.has_torques and equation.base.question.rotor_inertia and equation.unknown is None
    return equation.robot.declared_rotors if has_rotors and method.estimator != "recursive" else {}


def _contradicted(
    state: State, unknowns: Unknowns, factors: Factors, method: Method, declared: Mapping[str, float]
) -> tuple[str, ...]:
    """Name declared rotors whose Ia the data, left free, find elsewhere: by 5 deviations and a twentieth."""
    own = {name: x for name, x in declared.items() if name in unknowns.names and name not in method.known}
    if not own:
        return ()
    free = solve(
        unknowns, factors, constraints=constraints_of(state.equation, unknowns, method.known, method.tied, {})[0]
    )
    spread = jackknife(unknowns, free, state.blocks)
    sigma = np.sqrt(np.diag(free.covariance if spread is None else spread.covariance))
    warnings = []
    for name, Ia in own.items():
        k = unknowns.names.index(name)
        off = abs(float(free.values[k]) - Ia)
        if off > max(5.0 * sigma[k], 0.05 * Ia):
            warnings.append(
                f"{name} = {Ia:.5g} was declared by the rotor's ratio^2 J, but the data alone say {free.values[k]:.5g} "
                f"(+- {sigma[k]:.1g}); check ratio and inertia of this rotor"
            )
    return tuple(warnings)


def _levels(state: State, unknowns: Unknowns, method: Method, constraints: Constraints | None) -> Levels | None:
    """Blocks of the recursion, where it is asked for."""
    if method.estimator != "recursive":
        return None
    if constraints is not None and len(constraints.matrix):
        raise IdentificationError("the recursion takes no known or tied parameters; use estimator='wls'")
    return find_levels(state.equation, unknowns)


def _is_derived(state: State, unknowns: Unknowns, solution: Solution) -> bool:
    """Whether most of the residual is noise of the motion, that of derivatives above all."""
    power = np.zeros(len(solution.noise))
    for log, of_log in enumerate(state.floor):
        power += [f.residual_squares(unknowns.of_channel(log, c, solution.values)) for c, f in enumerate(of_log)]
    return bool((power / solution.noise**2).sum() > 0.5 * (solution.residual_squares / solution.noise**2).sum())


def _deviations(
    state: State, unknowns: Unknowns, solution: Solution, levels: Levels | None, derived: bool
) -> Jackknife | None:
    if levels is None:
        return jackknife(unknowns, solution, state.blocks, derived=derived)
    return jackknife_recursion(unknowns, solution, levels, state.blocks, derived=derived)


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
        for s, d, checked in (found, (batch, spread, _validate(state, unknowns, batch, validation, None)[0]))
    ]
    return compare_with_batch(unknowns, levels, *pair)


def _above_noise(
    state: State, unknowns: Unknowns, factors: Factors, plain: Solution, constraints: Constraints | None
) -> Regrouping | None:
    """How those unknowns regroup that the data tell apart by noise of the motion only; None where there are none.

    How friction is made up of stop operators and the like is not tested: they overlap, and their sum counts.
    """
    floor = dict(enumerate(state.floor))
    if not floor:
        return None
    kept = list(range(len(unknowns)) if plain.regrouping is None else plain.regrouping.kept)
    minor = _minor(state, unknowns)[kept]
    if constraints is not None:
        constraints = Constraints(constraints.matrix[:, kept], constraints.right)
    parts = []
    for log, of_log in factors.items():
        for c, noise in enumerate(plain.noise):
            A, D = (unknowns.rows(log, c, some[log][c])[0][:, kept] / noise for some in (factors, floor))
            parts.append(NoisyRows(A, D, of_log[c].count))
    return regroup_above_noise(parts, minor, constraints)


def _minor(state: State, unknowns: Unknowns) -> NDArray[np.bool_]:
    """Unknowns that are friction beyond viscous, offset and, where no stop operator is beside it, Coulomb."""
    blocks = state.equation.blocks_of
    used = [name for name in blocks if (unknowns.place[:, blocks[name]] >= 0).any()]
    tested = ("viscous", "offset") if any(STOP.fullmatch(name) for name in used) else PLAIN
    columns = [k for name in used if name not in tested for k in blocks[name]]
    return np.isin(np.arange(len(unknowns)), unknowns.place[:, columns])


def _solve(
    state: State,
    unknowns: Unknowns,
    factors: Factors,
    method: Method,
    constraints: Constraints | None,
    plain: Solution,
) -> Solution:
    """Solve as the method asks; plain: the solution of weighted least squares."""
    if method.estimator == "ols":
        return solve(unknowns, factors, weighted=False, constraints=constraints)
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
    torques: Gathered | None = None,
) -> tuple[Score, Score | None]:
    """Errors of what the model is about, and of the joint torques where it is about something else."""
    check = TorqueCheck(state.equation, unknowns, state.torques, state.cutoff)
    if validation is None:
        folds, groups = Folds.of(unknowns, state.blocks, solution.noise), fold_groups(unknowns, state.blocks, FOLDS)
        if levels is None:
            fits = folds.fits_within(solution.free, solution.fixed, solution.prior)
        else:
            fits = solution.values + shifts_of(unknowns, solution, levels, groups)[0]
        own = held_out_score(folds, folds.errors_of(fits), cutoff=state.cutoff, kinds=state.equation.kinds)
        return own, check.held_out(groups, fits, own.source)
    gathered, name = validation
    own = score(
        unknowns, solution.values, total_factors(gathered.blocks), gathered.settling,
        cutoff=state.cutoff, source=name, fitted=False, kinds=state.equation.kinds,
    )  # fmt: skip
    return own, None if torques is None else check.on_logs(torques, solution.values, name)


def _posture(state: State) -> Array:
    return np.asarray(np.mean([found.mean for found in state.findings], axis=0))
