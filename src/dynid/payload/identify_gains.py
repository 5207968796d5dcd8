"""Drive gains from logs without and with a payload that is known: it is the standard that torques are measured by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.errors import IdentificationError
from dynid.estimation.accumulate.one_pass import total_factors
from dynid.estimation.identify import Logs
from dynid.estimation.inference.selection import DEFAULT
from dynid.estimation.options import Options
from dynid.estimation.regression.unknowns import Unknowns
from dynid.estimation.solve.least_squares import Constraints, Factors
from dynid.identifiability.numeric import find_by_qr
from dynid.identifiability.relations import Regrouping
from dynid.payload.bilinear import (
    Bilinear,
    GainSolution,
    drive_factor_names,
    gains_from_solution,
    initial_drive_factors,
    solve_bilinear,
    solve_robot_with_factors,
)
from dynid.payload.gains import Gains
from dynid.payload.payload import check_payload_parameters
from dynid.payload.regrouping import SMALL
from dynid.payload.two_runs import TwoRuns, add_unknowns, collect_two_runs
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

ROUNDS = 4
"""Of choosing friction and finding gains in turn, at most."""


@one_blas_thread
def identify_gains(
    robot: Robot,
    loaded: Logs,
    unloaded: Logs,
    payload: Sequence[float] | Array,
    *,
    link: str | None = None,
    friction: str | Sequence[str] = "auto",
    rotor_inertia: bool = True,
    cutoff: float | None = None,
    on_progress: Callable[[str, float], None] | None = None,
    offsets_per_log: bool = False,
    friction_per_log: bool = False,
    delay: float = 0.0,
) -> Gains:
    """Estimate the gains of all drives: true torque = gain * measured signal (a current, or a torque in wrong units).

    payload: ten standard parameters of the known load in the frame of the link that carries it (the last where link is
    missing), as `payload_parameters(mass, com, inertia)` gives them. Friction is identified in measured units and given
    in true ones; with friction_per_log every log has its own, offsets included. The other arguments are those of
    `identify`.
    """
    p = check_payload_parameters(payload)
    if robot.sensor is not None:  # the spin of declared rotors is known in N m, not in the drives' units
        robot = robot.with_sensor(replace(robot.sensor, rotors=()))
    options = Options(
        friction=friction, rotor_inertia=rotor_inertia, cutoff=cutoff, offsets_per_log=offsets_per_log,
        friction_per_log=friction_per_log, delay=delay,
    )  # fmt: skip
    runs = collect_two_runs(robot, loaded, unloaded, link, options, on_progress)
    if not runs.state.equation.is_direct_drive:
        raise IdentificationError(
            "gains_of_coupled_motors", "gains of coupled motors (gear as a matrix) cannot be told joint by joint",
        )  # fmt: skip
    if on_progress is not None:
        on_progress("solving", 1.0)
    options.refuse_offsets_without_block(DEFAULT if runs.state.recipe else runs.state.equation.friction)
    factors = total_factors(runs.blocks)
    if not runs.state.recipe:
        return gains_from_solution(p, _solve_gains(runs, p, factors, runs.state.equation.friction, options))
    chosen: tuple[str, ...] = DEFAULT
    for _ in range(ROUNDS):  # the gate needs torques in true units, hence the gains, which need friction
        solved = _solve_gains(runs, p, factors, chosen, options)
        before, chosen = chosen, runs.choose_friction(options, 1.0 / solved.found.k)
        if set(chosen) == set(before):
            break
    else:
        solved = _solve_gains(runs, p, factors, chosen, options)
    return gains_from_solution(p, solved)


def _solve_gains(
    runs: TwoRuns, p: Array, factors: Factors, friction: tuple[str, ...], options: Options
) -> GainSolution:
    """Gains, robot and some friction blocks together: linear start, identifiable unknowns, Gauss-Newton."""
    problem = _build_bilinear_problem(runs, p, friction, options)
    k = initial_drive_factors(problem, factors)
    start = solve_robot_with_factors(problem, factors, k)
    place = problem.unknowns.place[0, : len(problem.load)]
    x = np.where(place >= 0, start.values[np.maximum(place, 0)], 0.0)
    unknowns = _unknowns_with_factors(problem)
    constraints = runs.zero_constraints(unknowns)
    structure = _structural_regrouping(problem, unknowns, x, k, constraints)
    reduced = unknowns.without_unknowns([j for j in range(len(unknowns)) if j not in structure.kept])
    if constraints is not None:
        constraints = Constraints(constraints.matrix[:, list(structure.kept)], constraints.right)
    hidden = frozenset(unknowns.names[j] for j in _hidden_unknowns(structure, len(problem.unknowns)))
    fixed = np.array([len(problem.unknowns) + c not in structure.kept for c in range(len(k))])
    found = solve_bilinear(problem, factors, reduced, (x, k), fixed, constraints)
    return GainSolution(problem, found, reduced, fixed, hidden)


def _build_bilinear_problem(runs: TwoRuns, p: Array, friction: tuple[str, ...], options: Options) -> Bilinear:
    """The bilinear problem of the runs with a known payload p and some blocks of friction."""
    equation = runs.state.equation
    load = np.zeros(equation.rigid_column_count)
    load[: equation.base_column_count] = runs.K @ p
    unknowns = Unknowns.for_equation(
        equation,
        friction,
        runs.state.logs,
        per_log=options.friction_blocks_per_log(friction),
        left_out=runs.state.unseen_harmonics,
    )
    return Bilinear(runs, load, unknowns, friction)


def _unknowns_with_factors(problem: Bilinear) -> Unknowns:
    """Unknowns of robot and friction, then one factor per channel."""
    names, logs = drive_factor_names(problem), problem.runs.state.logs
    place = np.tile(np.arange(len(names)), (logs, 1))
    return add_unknowns(problem.unknowns, names, place, [[c] for c in range(len(names))])


def _structural_regrouping(
    problem: Bilinear, unknowns: Unknowns, x: Array, k: Array, constraints: Constraints | None
) -> Regrouping:
    """How robot, friction and factors regroup on any motion of the joints that moved."""
    rows = problem.runs.random_rows(unknowns)
    if rows is None:
        return Regrouping(tuple(range(len(unknowns))), np.eye(len(unknowns)))
    place, before = unknowns.place[0, : len(x)], len(problem.unknowns)
    seen = place >= 0
    for log, c, own in rows:
        own[:, before + c] = own[:, place[seen]] @ problem.loaded_rigid_parameters(log, x)[seen]
        own[:, place[seen]] *= k[c]
    A = np.concatenate([own for _, _, own in rows])
    if constraints is not None:
        A = np.concatenate([A, constraints.matrix * np.abs(A).max()])
    return find_by_qr(A).regrouping


def _hidden_unknowns(structure: Regrouping, before: int) -> set[int]:
    """Unknowns that share a direction with a factor that is not revealed."""
    hidden: set[int] = set()
    for k in range(before, structure.matrix.shape[1]):
        if k not in structure.kept:
            shares = np.abs(structure.matrix[:, k])
            joined = np.flatnonzero(shares > SMALL * max(float(shares.max(initial=0.0)), 1e-12))
            hidden |= {k, *(structure.kept[i] for i in joined)}
    return hidden
