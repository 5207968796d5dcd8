"""The payload of a link from logs with and without it: they share the robot's parameters, not its friction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.estimation.accumulate.one_pass import total_factors
from dynid.estimation.diagnostics.verdict import FEW_BLOCKS, WEAK_MEAN
from dynid.estimation.identify import Logs
from dynid.estimation.inference.jackknife import jackknife, sensitivity_shifts
from dynid.estimation.options import Options
from dynid.estimation.regression.unknowns import Unknowns
from dynid.estimation.solve.least_squares import Constraints, Factors, solve
from dynid.identifiability.numeric import find_by_qr
from dynid.identifiability.relations import Regrouping
from dynid.messages import Message
from dynid.payload.payload import Payload
from dynid.payload.regrouping import compose_regroupings, find_identifiable_payload
from dynid.payload.two_runs import TwoRuns, add_unknowns, collect_two_runs, payload_names, rewrite_blocks
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


@one_blas_thread
def identify_payload(
    robot: Robot,
    loaded: Logs,
    unloaded: Logs,
    *,
    link: str | None = None,
    model: str = "torque",
    friction: str | Sequence[str] = "auto",
    rotor_inertia: bool = True,
    cutoff: float | None = None,
    on_progress: Callable[[str, float], None] | None = None,
    joints: Sequence[str] | None = None,
    offsets_per_log: bool = False,
    friction_per_log: bool = True,
    delay: float = 0.0,
) -> Payload:
    """Estimate what a link carries, from logs with it (`loaded`) and without it, on any motions.

    All logs share base parameters x; those with the payload see x + K p, p being its ten parameters in the link's
    frame. link: which one carries, the last where missing. The other arguments are those of `identify`;
    friction_per_log: every log has its own friction, offsets included, because friction that changes with temperature
    between the runs would read as a payload; without it only offsets are free, with offsets_per_log. Deviations come
    from the delete-block jackknife.
    """
    options = Options(
        model=model, friction=friction, rotor_inertia=rotor_inertia, cutoff=cutoff, joints=joints,
        offsets_per_log=offsets_per_log, friction_per_log=friction_per_log, delay=delay,
    )  # fmt: skip
    runs = collect_two_runs(robot, loaded, unloaded, link, options, on_progress)
    if on_progress is not None:
        on_progress("solving", 1.0)
    blocks_of_friction = runs.choose_friction(options)
    options.refuse_offsets_without_block(blocks_of_friction)
    unknowns = _unknowns_with_payload(runs, blocks_of_friction, options.per_log(blocks_of_friction))
    constraints = runs.zero_constraints(unknowns)
    blocks = rewrite_blocks(runs.blocks, lambda log, c, R: _payload_columns(runs, log, c, R))
    factors = total_factors(blocks)
    structure = _structural_regrouping(runs, unknowns, constraints)
    reduced = unknowns.without([k for k in range(len(unknowns)) if k not in structure.kept])
    if constraints is not None:
        constraints = Constraints(constraints.matrix[:, list(structure.kept)], constraints.right)
    solution = solve(reduced, factors, constraints=constraints)
    deviations = jackknife(reduced, solution, blocks)
    equation = runs.state.equation
    regrouping = compose_regroupings(structure, solution.regrouping)
    to_base = np.zeros((equation.base_count, len(unknowns) - 10))
    place = unknowns.place[0, : equation.base_count]
    to_base[np.flatnonzero(place >= 0), place[place >= 0]] = 1.0
    reading = find_identifiable_payload(unknowns.names, regrouping, equation, to_base, runs.K, runs.posture)
    kept = range(len(reduced)) if solution.regrouping is None else solution.regrouping.kept
    chosen = [list(kept)[row] for row in reading.places]
    shifts = sensitivity_shifts(equation, reduced, solution, factors)
    covariance = (solution.covariance if deviations is None else deviations.covariance) + shifts.T @ shifts
    nrmse = nrmse_per_channel(reduced, solution.values, factors)
    fit = runs.common_fit(reading.names, solution.values[chosen], deviations, blocks_of_friction, nrmse)
    return Payload(
        fit=fit,
        method="jointly from logs",
        units=reading.units,
        covariance=covariance[np.ix_(chosen, chosen)],
        unidentifiable=reading.lost,
        channels=equation.channel_names,
        doubts=(
            *(repeat.message for repeat in runs.state.repeats),
            *poor_fit_warnings(nrmse, jackknifed=deviations is not None),
        ),
    )


def nrmse_per_channel(unknowns: Unknowns, values: Array, factors: Factors) -> Array:
    """NRMSE per channel over all logs, NaN where no torque was used."""
    channels = len(unknowns.channels)
    squares, spread = np.zeros(channels), np.zeros(channels)
    for log, of_log in factors.items():
        for c, factor in enumerate(of_log):
            squares[c] += factor.residual_squares(unknowns.of_channel(log, c, values))
            spread[c] += factor.spread
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt(squares / spread))


def poor_fit_warnings(nrmse: Array, *, jackknifed: bool) -> tuple[Message, ...]:
    """Reasons not to believe a result."""
    warnings = [] if jackknifed else [FEW_BLOCKS]
    finite = nrmse[np.isfinite(nrmse)]
    if len(finite) and finite.mean() > WEAK_MEAN:
        warnings.append(Message(
            "torques_not_explained", "the residual is as large as {percent:.0f} % of the signal: is this the right "
            "robot, are units, signs and the order of joints right?", percent=100.0 * float(finite.mean()),
        ))  # fmt: skip
    return tuple(warnings)


def _unknowns_with_payload(runs: TwoRuns, friction: tuple[str, ...], per_log: tuple[str, ...]) -> Unknowns:
    """Unknowns of the robot, then the payload's ten, which only loaded logs have."""
    state = runs.state
    unknowns = Unknowns.of(state.equation, friction, state.logs, per_log=per_log, left_out=state.unseen_harmonics)
    place = np.full((state.logs, 10), -1, dtype=np.int64)
    place[runs.unloaded :] = np.arange(10)
    names = payload_names(state.equation.robot.links[runs.carrier])
    return add_unknowns(unknowns, names, place, [range(10)] * len(unknowns.channels))


def _payload_columns(runs: TwoRuns, log: int, c: int, R: Array) -> Array:
    """Rows with ten further columns: base columns times K in loaded logs."""
    channel = runs.state.equation.channels[c]
    seen = channel.columns[: channel.base]
    own = R[:, : channel.base] @ runs.K[seen] if runs.is_loaded(log) else np.zeros((len(R), 10))
    return np.column_stack([R[:, :-1], own, R[:, -1]])


def _structural_regrouping(runs: TwoRuns, unknowns: Unknowns, constraints: Constraints | None) -> Regrouping:
    """How the unknowns regroup on any motion of the joints that moved."""
    rows = runs.random_rows(unknowns)
    if rows is None:
        return Regrouping(tuple(range(len(unknowns))), np.eye(len(unknowns)))
    place, payload = unknowns.place[0, : runs.state.equation.base_count], len(unknowns) - 10
    seen = place >= 0
    for log, _, own in rows:
        if runs.is_loaded(log):
            own[:, payload:] = own[:, place[seen]] @ runs.K[seen]
    A = np.concatenate([own for _, _, own in rows])
    if constraints is not None:
        A = np.concatenate([A, constraints.matrix * np.abs(A).max()])
    return find_by_qr(A).regrouping
