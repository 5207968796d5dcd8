"""The payload of a link: from logs with and without it, or as the difference of two identifications.

Logs share the robot's parameters, not its friction; all that a difference sees are base parameters with covariances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy.linalg

from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.errors import IdentificationError
from dynid.estimation.accumulate.one_pass import total_factors
from dynid.estimation.diagnostics.verdict import FEW_BLOCKS, WEAK_MEAN
from dynid.estimation.identification import Identification
from dynid.estimation.identify import Logs
from dynid.estimation.inference.jackknife import jackknife, sensitivity_shifts
from dynid.estimation.options import Options
from dynid.estimation.regression.unknowns import Unknowns
from dynid.estimation.solve.least_squares import Constraints, Factors, solve
from dynid.identifiability.numeric import find_by_qr
from dynid.identifiability.relations import Regrouping
from dynid.messages import Message, Wording
from dynid.payload.payload import Fit, Payload
from dynid.payload.regrouping import compose_regroupings, find_identifiable_payload
from dynid.payload.two_runs import (
    TwoRuns,
    add_unknowns,
    collect_two_runs,
    find_carrier,
    known_zeros_of_link,
    payload_names,
    rewrite_blocks,
)
from dynid.robot.inertia import SYMBOLS
from dynid.robot.parameter import Parameter
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
    unknowns = _unknowns_with_payload(runs, blocks_of_friction, options.friction_blocks_per_log(blocks_of_friction))
    constraints = runs.zero_constraints(unknowns)
    blocks = rewrite_blocks(runs.blocks, lambda log, c, R: _payload_columns(runs, log, c, R))
    factors = total_factors(blocks)
    structure = _structural_regrouping(runs, unknowns, constraints)
    reduced = unknowns.without_unknowns([k for k in range(len(unknowns)) if k not in structure.kept])
    if constraints is not None:
        constraints = Constraints(constraints.matrix[:, list(structure.kept)], constraints.right)
    solution = solve(reduced, factors, constraints=constraints)
    deviations = jackknife(reduced, solution, blocks)
    equation = runs.state.equation
    regrouping = compose_regroupings(structure, solution.regrouping)
    to_base = np.zeros((equation.base_column_count, len(unknowns) - 10))
    place = unknowns.place[0, : equation.base_column_count]
    to_base[np.flatnonzero(place >= 0), place[place >= 0]] = 1.0
    reading = find_identifiable_payload(unknowns.names, regrouping, equation, to_base, runs.K, runs.mean_posture)
    kept = range(len(reduced)) if solution.regrouping is None else solution.regrouping.kept
    chosen = [list(kept)[row] for row in reading.places]
    shifts = sensitivity_shifts(equation, reduced, solution, factors)
    covariance = (solution.covariance if deviations is None else deviations.covariance) + shifts.T @ shifts
    nrmse = nrmse_per_channel(reduced, solution.values, factors)
    fit = runs.fit_from_values(reading.names, solution.values[chosen], deviations, blocks_of_friction, nrmse)
    return Payload(
        fit=fit,
        method="jointly from logs",
        units=reading.units,
        covariance=covariance[np.ix_(chosen, chosen)],
        unidentifiable=reading.lost,
        channels=equation.channel_names,
        doubts=(
            *(repeat.warning for repeat in runs.state.repeats),
            *poor_fit_warnings(nrmse, jackknifed=deviations is not None),
        ),
    )


def nrmse_per_channel(unknowns: Unknowns, values: Array, factors: Factors) -> Array:
    """NRMSE per channel over all logs, NaN where no torque was used."""
    channels = len(unknowns.channels)
    squares, spread = np.zeros(channels), np.zeros(channels)
    for log, of_log in factors.items():
        for c, factor in enumerate(of_log):
            squares[c] += factor.residual_squares(unknowns.values_of_channel(log, c, values))
            spread[c] += factor.sum_of_squares_about_mean
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
    unknowns = Unknowns.for_equation(
        state.equation, friction, state.logs, per_log=per_log, left_out=state.unseen_harmonics
    )
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
    place, payload = unknowns.place[0, : runs.state.equation.base_column_count], len(unknowns) - 10
    seen = place >= 0
    for log, _, own in rows:
        if runs.is_loaded(log):
            own[:, payload:] = own[:, place[seen]] @ runs.K[seen]
    A = np.concatenate([own for _, _, own in rows])
    if constraints is not None:
        A = np.concatenate([A, constraints.matrix * np.abs(A).max()])
    return find_by_qr(A).regrouping


@one_blas_thread
def payload_between(loaded: Identification, unloaded: Identification, *, link: str | None = None) -> Payload:
    """What a link carries, from results with it and without it, of any models (also read from files).

    Both see standard parameters X of the same robot: v0 = B0 X, v1 = B1 (X + E p), B regrouping X to what each result
    could tell. Least squares, weighted by each result's information, gives p, a linear function of both values; its
    deviations follow from the sum of their covariances, but for uncertain sensitivities of a force plate, which shift
    both results at once: both must come from one plate. Friction is each result's own.
    """
    robot = unloaded.robot
    _check_same_robot(loaded.robot, robot)
    logs = {file.sha256 for file in unloaded.origin.inputs}
    if loaded.origin.inputs and logs.issuperset(file.sha256 for file in loaded.origin.inputs):
        raise IdentificationError(
            "loaded_equals_unloaded", "both results are from the same logs",
            "use a run with the payload and one without",
        )  # fmt: skip
    carrier = find_carrier(robot, link)
    zeros = [name.symbol for name in known_zeros_of_link(robot, carrier)]
    E = np.zeros((len(robot.parameter_names), 10))
    for k, symbol in enumerate(SYMBOLS):
        if symbol not in zeros:
            E[robot.parameter_names.index(robot.links[carrier].parameter(symbol)), k] = 1.0
    rows, weights, values, covariances, shifts = [], [], [], [], []
    without, with_it = (hidden_offsets(result) for result in (unloaded, loaded))
    for result, carries in ((unloaded, False), (loaded, True)):
        chosen, B, C = _base_parameter_regrouping(result)  # a plate's offsets are each run's own
        nothing = np.zeros((len(B), len(without if carries else with_it)))
        own = [nothing, C] if carries else [C, nothing]
        rows.append(np.column_stack([B, *own, B @ E if carries else np.zeros((len(B), 10))]))
        weights.append(_square_root_information(result, chosen))
        values.append(result.values[chosen])
        scatter = result.covariance - result.systematic.T @ result.systematic
        covariances.append(scatter[np.ix_(chosen, chosen)])
        shifts.append(result.systematic[:, chosen])
    runs = (*((name, "without") for name in without), *((name, "with") for name in with_it))
    offsets = (Parameter(f"{name}@{run}", symbol=name.symbol, kind="offset", unit=name.unit) for name, run in runs)
    names = (*robot.parameter_names, *offsets, *payload_names(robot.links[carrier]))
    regrouping = find_by_qr(np.concatenate(rows)).regrouping
    A = np.concatenate([U @ own[:, list(regrouping.kept)] for U, own in zip(weights, rows, strict=True)])
    G = _pseudo_inverse(A) @ scipy.linalg.block_diag(*weights)
    solved = G @ np.concatenate(values)
    if len(shifts[0]) != len(shifts[1]):
        raise IdentificationError(
            "sensitivities_declared_once", "one result declares uncertain sensitivities of its force plate, the other "
            "does not",
        )  # fmt: skip
    common = np.hstack(shifts) @ G.T
    spread = G @ scipy.linalg.block_diag(*covariances) @ G.T + common.T @ common
    M = loaded.equation.base.matrix[:, : len(E)]
    to_base = np.column_stack([M, np.zeros((len(M), len(runs)))])
    reading = find_identifiable_payload(names, regrouping, loaded.equation, to_base, M @ E, None)
    lost = tuple(item for item in reading.lost if item.name not in zeros)
    told = [Message(
        "payload_zeros_assumed", "taken to be 0 of the payload, because '{robot}' says so of link {link}: {parameters}",
        "{command} finds them from the logs", robot=robot.name, link=robot.links[carrier].name, parameters=zeros,
        command=Wording("identify_payload", "dynid payload"),
    )] if zeros else []  # fmt: skip
    few = [result for result in (loaded, unloaded) if not result.groups]
    if few:
        told.append(Message(
            "textbook_deviations", "a result has textbook deviations, which are too small where residuals are coloured",
            "record longer",
        ))  # fmt: skip
    for which, result in (("with", loaded), ("without", unloaded)):
        if result.verdict.level in ("weak", "do not trust"):
            level = "weak" if result.verdict.level == "weak" else "not to be trusted"
            told.append(Message(
                "untrusted_result", "the result {which} the payload is {level}: {reason}", which=which, level=level,
                reason=result.verdict.reasons[0],
            ))  # fmt: skip
    fit = Fit(
        robot=robot.name,
        link=robot.links[carrier].name,
        names=reading.names,
        values=solved[reading.places],
        quantile=max(loaded.quantile, unloaded.quantile),
        groups=min(loaded.groups, unloaded.groups),
        friction=loaded.friction,
        cutoff=loaded.cutoff,
        nrmse=loaded.nrmse,
        findings=(*unloaded.findings, *loaded.findings),
        notes=(),
    )
    return Payload(
        fit=fit,
        method="difference of two results",
        units=reading.units,
        covariance=spread[np.ix_(reading.places, reading.places)],
        unidentifiable=lost,
        channels=loaded.channels,
        doubts=tuple(told),
    )


def _check_same_robot(one: Robot, other: Robot) -> None:
    """Raise where two results are not of the same robot."""
    same = one.parameter_names == other.parameter_names and one.known_zeros == other.known_zeros
    same = same and np.allclose(one.gravity, other.gravity, rtol=1e-9, atol=1e-9)
    for a, b in zip(one.links, other.links, strict=False):
        same = same and a.kind == b.kind and np.allclose(a.axis, b.axis, atol=1e-9)
        same = same and np.allclose(a.placement.rotation, b.placement.rotation, atol=1e-9)
        same = same and np.allclose(a.placement.translation, b.placement.translation, atol=1e-9)
    if not same:
        raise IdentificationError(
            "results_of_different_robots", "the results are of different robots ('{robot}' with the payload, "
            "'{other_robot}' without it)", "identify both with the same robot file", robot=one.name,
            other_robot=other.name,
        )  # fmt: skip


def _base_parameter_regrouping(result: Identification) -> tuple[list[int], Array, Array]:
    """Places of the base parameters in a result, and B (places, standard parameters): what each of them stands for.

    And C (places, lost offsets): what they hold of a force plate's offsets.
    """
    base, names = result.equation.base, set(result.equation.base.names)
    chosen = [k for k, name in enumerate(result.names) if name in names]
    for item in result.unidentifiable:
        if item.shares is None:
            raise IdentificationError(
                "result_lacks_lost_shares", "this result does not say what it holds of '{parameter}', which was lost",
                "identify again with this version of dynid", parameter=item.name,
            )  # fmt: skip

    def coefficients_of(name: Parameter) -> Array:
        """How the chosen parameters hold a base parameter or an offset."""
        shares = result.joined.get(name, {name: 1.0})
        return np.array([shares.get(result.names[k], 0.0) for k in chosen])

    H = np.column_stack([coefficients_of(name) for name in base.names])
    C = np.array([coefficients_of(name) for name in hidden_offsets(result)]).reshape(-1, len(chosen)).T
    return chosen, H @ base.matrix[:, : len(result.robot.parameter_names)], C


def hidden_offsets(result: Identification) -> tuple[Parameter, ...]:
    """Offsets of a force plate (of one of several logs: `OFx@2`) that hide in other parameters."""
    return tuple(name for name in result.joined if name.kind == "offset")


def _square_root_information(result: Identification, chosen: list[int]) -> Array:
    """U with U'U the inverse of the white covariance of some parameters; scaled identity where it is singular.

    The jackknife's own covariance has at most as many directions as there were blocks: it weighs nothing.
    """
    rows = [f.R[:, :-1] / result.noise[c] for of_log in result.factors for c, f in enumerate(of_log)]
    A = np.concatenate(rows)
    scale = np.linalg.norm(A, axis=0)
    scale[scale == 0.0] = 1.0
    others = [k for k in range(A.shape[1]) if k not in set(chosen)]
    R = np.asarray(np.linalg.qr((A / scale)[:, [*others, *chosen]], mode="r"))
    U = R[len(others) :, len(others) :] * scale[chosen]
    if U.shape != (len(chosen), len(chosen)) or np.abs(np.diag(U) / scale[chosen]).min(initial=1.0) < 1e-12:
        return np.eye(len(chosen))
    return np.asarray(U)


def _pseudo_inverse(A: Array) -> Array:
    """Of a matrix of full column rank, its columns scaled first."""
    scale = np.linalg.norm(A, axis=0)
    Q, R = np.linalg.qr(A / scale)
    return np.asarray(scipy.linalg.solve_triangular(R, Q.T) / scale[:, None])
