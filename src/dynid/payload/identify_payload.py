"""The payload of a link: from logs with and without it, or as the difference of two identifications.

Logs share the robot's parameters, not its friction; all that a difference sees are base parameters with covariances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np
import scipy.linalg

from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.errors import IdentificationError
from dynid.estimation.accumulate.one_pass import total_factors
from dynid.estimation.identification import Identification
from dynid.estimation.identify import Logs, identify
from dynid.estimation.inference.jackknife import sensitivity_shifts
from dynid.estimation.options import Options
from dynid.estimation.regression.equation import Unknowns
from dynid.estimation.solve.least_squares import Factors, Solution
from dynid.identifiability.numeric import find_by_qr
from dynid.logs.read import list_logs
from dynid.messages import Message, Option, Wording
from dynid.payload.bilinear import NOT_SETTLED, Bilinear, BilinearSolution, solve_bilinear
from dynid.payload.payload import Fit, Payload, build_payload, robot_reach
from dynid.payload.two_runs import (
    collect_two_runs,
    find_carrier,
    find_identifiable_payload,
    known_zeros_of_link,
    payload_names,
    poor_fit_warnings,
)
from dynid.robot.force_sensor import ForceSensor
from dynid.robot.inertia import SYMBOLS
from dynid.robot.io.toml_table import with_sensor_from_file
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

DISAGREE = 6.0
"""Standard deviations of a gain by which two of them differ by chance in one of some ten thousand pairs."""

GAIN_SIGMA = 0.1
"""Relative standard deviation of drive gains about which nothing is said: published ones are easily 10 % off."""


@one_blas_thread
def identify_payload(
    robot: Robot,
    loaded: Logs,
    unloaded: Logs | Identification,
    *,
    link: str | None = None,
    model: str = "torque",
    sensor: ForceSensor | str | Path | None = None,
    friction: str | Sequence[str] = "auto",
    rotor_inertia: bool = True,
    cutoff: float | None = None,
    on_progress: Callable[[str, float], None] | None = None,
    joints: Sequence[str] | None = None,
    offsets_per_log: bool = False,
    friction_per_log: bool = True,
    delay: float = 0.0,
    gain_sigma: float | None = None,
    physical: bool = True,
) -> Payload:
    """Estimate the payload of a link from loaded and unloaded runs, on any motions.

    Parameters
    ----------
    robot : Robot
        As `load_robot` returns it.
    loaded : Log, path, frame or mapping, or a sequence of them
        Logs with the payload.
    unloaded : logs or Identification
        Logs without it; or a result of the robot without it, or its file: then only the loaded logs are identified, and
        the difference is taken as in `payload_between`.
    link : str, optional
        Link that carries the payload. Default: the last one.
    model : str
        Measurement model: "torque", "power", "energy", "momentum", "reaction" or "torque+reaction".
    sensor : ForceSensor, str or Path, optional
        Force plate of the reaction models, or the file that describes it. Default: the robot's.
    friction : str or sequence of str
        "auto": blocks chosen by cross-validation; or names of blocks, such as ("viscous", "coulomb", "offset"); () for
        none.
    rotor_inertia : bool
        Whether the rotor inertias `Ia` (kg m^2) are among the parameters.
    cutoff : float, optional
        Cut-off frequency of the filter, Hz. Default: chosen from the data.
    on_progress : callable, optional
        Called with a text and the share of the work that is done, 0 to 1.
    joints : sequence of str, optional
        Joints whose torques are used. Default: all.
    offsets_per_log : bool
        Whether each log has its own torque offsets, where `friction_per_log` is False.
    friction_per_log : bool
        Whether each log has its own friction, offsets included, because friction that changes with temperature between
        the runs would look like a payload.
    delay : float
        How much later torques were recorded than positions, s.
    gain_sigma : float, optional
        Relative standard deviation of the drive gains, independent from joint to joint. Default: 0.1; 0 takes the
        torques as they are.
    physical : bool
        Whether to return the body nearest to the estimate where noise makes the estimate physically impossible.

    Returns
    -------
    Payload
        Mass, centre of mass and inertia in the frame of the link, with standard deviations.

    Raises
    ------
    IdentificationError
        If an option does not fit the robot or the data.
    LogError
        If a log cannot be used.

    Notes
    -----
    All logs share base parameters x; those with the payload depend on x + K p, where p are its ten parameters in the
    link's frame. Standard deviations come from the delete-block jackknife. Factors of the drives are estimated together
    with the payload, except that of the joint that shows it best (`.reference`): this joint weighs the payload, and the
    uncertainty of its gain is part of all intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Motion, identify_payload, load_robot, payload_parameters, simulate
    >>> robot = load_robot("gautier3")
    >>> values = robot.parameters.copy()
    >>> values[[robot.parameter_names.index(s + "3") for s in "XX XY XZ YY YZ ZZ MX MY MZ M".split()]] += (
    ...     payload_parameters(2.0, [0.0, 0.0, 0.1])
    ... )
    >>> t, w = np.arange(0.0, 10.0, 0.01), np.array([1.0, 1.7, 2.3])
    >>> x = np.outer(t, w)
    >>> motion = Motion(t, np.sin(x), w * np.cos(x), -(w**2) * np.sin(x))
    >>> loaded, unloaded = (simulate(r, motion, noise=0.01) for r in (robot.with_parameters(values), robot))
    >>> payload = identify_payload(robot, loaded, unloaded, friction=("viscous",), gain_sigma=0.0)
    >>> abs(payload.value("MX")) < 0.1
    True
    """
    sigma = _check_gain_sigma(gain_sigma, model)
    options = Options(
        model=model, sensor=sensor, friction=friction, rotor_inertia=rotor_inertia, cutoff=cutoff, joints=joints,
        offsets_per_log=offsets_per_log, friction_per_log=friction_per_log, delay=delay,
    )  # fmt: skip
    result = _result_of_unloaded(unloaded)
    if result is not None:
        check_same_robot(robot, result.robot)
        alone = identify(
            robot, loaded, model=model, sensor=sensor, friction=friction, rotor_inertia=rotor_inertia, cutoff=cutoff,
            joints=joints, offsets_per_log=offsets_per_log,
            friction_per_log=friction_per_log and _has_several_logs(loaded),
            delay=delay, on_progress=on_progress,
        )  # fmt: skip
        return payload_between(alone, result, link=link, gain_sigma=gain_sigma, physical=physical)
    assert not isinstance(unloaded, Identification)
    if sensor is not None:
        robot = robot.with_sensor(sensor) if isinstance(sensor, ForceSensor) else with_sensor_from_file(robot, sensor)
    runs = collect_two_runs(robot, loaded, unloaded, link, options, on_progress)
    if on_progress is not None:
        on_progress("solving", 1.0)
    friction_blocks = runs.choose_friction(options)
    options.refuse_offsets_without_block(friction_blocks)
    state, equation = runs.state, runs.state.equation
    unknowns = Unknowns.for_equation(
        equation, friction_blocks, state.logs, per_log=options.friction_blocks_per_log(friction_blocks),
        left_out=state.unseen_harmonics,
    )  # fmt: skip
    known = np.full((1, 10), np.nan)
    problem = Bilinear.for_runs(runs, unknowns, friction_blocks, known, spread=np.sqrt(2.0) * sigma if sigma else None)
    factors = total_factors(runs.blocks)
    drives = [c for c, channel in enumerate(equation.channels) if not channel.of_base]
    found, reference = _solve_with_drives(problem, factors, drives if sigma else [])
    solution, reduced = found.solution, found.unknowns
    deviations = found.deviations()
    before = problem.first_payload_index
    to_base = np.zeros((equation.base_column_count, before))
    place = unknowns.place[0, : equation.base_column_count]
    to_base[np.flatnonzero(place >= 0), place[place >= 0]] = 1.0
    names = problem.unknowns.names[: problem.first_factor_index]
    reading = find_identifiable_payload(names, found.regrouping, equation, to_base, runs.K, runs.mean_posture)
    chosen = [reduced.names.index(names[found.regrouping.kept[row]]) for row in reading.places]
    shifts = [sensitivity_shifts(equation, reduced, solution, factors)]
    if sigma:
        shifts.append(found.gain_shifts(factors, sigma, drives))
    systematic = np.concatenate(shifts)
    scatter = solution.covariance if deviations is None else deviations.covariance
    covariance = scatter + systematic.T @ systematic
    nrmse = found.nrmse(factors)
    fit = runs.fit_from_values(reading.names, solution.values[chosen], deviations, friction_blocks, nrmse)
    return build_payload(
        fit, "jointly from logs", reading, covariance[np.ix_(chosen, chosen)],
        scatter=scatter[np.ix_(chosen, chosen)], physical=physical, gain_sigma=sigma,
        reference=None if reference is None else equation.channel_names[reference],
        channels=equation.channel_names,
        reach=robot_reach(robot),
        doubts=(
            *(() if found.settled else (NOT_SETTLED,)),
            *_disagreement_warnings(found, reference, sigma),
            *(repeat.warning for repeat in state.repeats),
            *poor_fit_warnings(nrmse, jackknifed=deviations is not None),
        ),
    )  # fmt: skip


def _check_gain_sigma(gain_sigma: float | None, model: str) -> float:
    """Relative standard deviation of the drive gains, checked; 0 where no torques of drives are used."""
    if model == "reaction":
        if gain_sigma:
            raise IdentificationError(
                "gain_sigma_without_drives", "model 'reaction' uses no drives, but {option} is given",
                "declare uncertain sensitivities of the force plate in its file",
                option=Option("gain_sigma", gain_sigma),
            )  # fmt: skip
        return 0.0
    if gain_sigma is None:
        return GAIN_SIGMA
    if isinstance(gain_sigma, bool) or not isinstance(gain_sigma, int | float) or not 0.0 <= gain_sigma < 1.0:
        raise IdentificationError(
            "gain_sigma_out_of_range", "{option}: got {value!r}",
            "give the relative standard deviation of the drive gains, a number from 0 to below 1",
            option=Wording("gain_sigma", "--gain-sigma"), value=str(gain_sigma)[:60],
        )  # fmt: skip
    return float(gain_sigma)


def _result_of_unloaded(unloaded: object) -> Identification | None:
    """Identification that stands for the unloaded logs; None where these are logs."""
    if isinstance(unloaded, list | tuple) and len(unloaded) == 1:
        unloaded = unloaded[0]
    if isinstance(unloaded, Identification):
        return unloaded
    if isinstance(unloaded, str | PathLike) and Path(unloaded).suffix.lower() == ".json":
        return Identification.load(Path(unloaded))
    return None


def _has_several_logs(logs: Logs) -> bool:
    """Whether there are several logs, so that friction per log has a meaning."""
    return len(list_logs(logs)) > 1


def _solve_with_drives(
    problem: Bilinear, factors: Factors, drives: Sequence[int]
) -> tuple[BilinearSolution, int | None]:
    """Solve with factors of uncertain drives, relative to the one that shows the payload best; and which.

    It is chosen by the noise that is left once the factors fit: what wrong gains leave would prefer gains that agree.
    """
    channels = problem.runs.state.equation.channels
    ones, sought = np.ones(len(channels)), np.zeros(len(channels), dtype=np.bool_)
    if not drives or problem.runs.state.equation.options.is_scalar:
        return solve_bilinear(problem, factors, ones, sought), drives[0] if drives else None
    some, start = problem.solve_with_factors(factors, ones)
    reference = _find_best_payload_channel(problem, factors, drives, some, start)
    for _ in range(2):
        sought[drives] = True
        sought[reference] = False
        found = solve_bilinear(problem, factors, ones, sought)
        better = _find_best_payload_channel(problem, factors, drives, found.unknowns, found.solution)
        if better == reference:
            break
        before, reference = reference, better
    else:
        reference = before
    return found, reference


def _disagreement_warnings(found: BilinearSolution, reference: int | None, sigma: float) -> tuple[Message, ...]:
    """Warnings on drives whose gains differ by more than their uncertainty allows."""
    names = found.problem.runs.state.equation.channel_names
    return tuple(
        Message(
            "gains_disagree", "the torques of joint {joint} fit those of joint {reference} with a factor of "
            "{factor:.3g}, which gains known to {percent:.3g} % do not explain",
            "check gains, units and signs of the torques", joint=names[c],
            reference=names[reference or 0], factor=float(found.k[c]), percent=100.0 * sigma,
        )
        for c in np.flatnonzero(found.sought).tolist()
        if found.k[c] < 0.0 or abs(found.k[c] - 1.0) > DISAGREE * sigma
    )  # fmt: skip


def _find_best_payload_channel(
    problem: Bilinear, factors: Factors, drives: Sequence[int], unknowns: Unknowns, solution: Solution
) -> int:
    """Channel of the drive that shows the payload best: largest torque of it over the noise."""
    runs, power = problem.runs, np.zeros(len(drives))
    for row, c in enumerate(drives):
        channel = runs.state.equation.channels[c]
        K = runs.K[channel.columns[: channel.base]]
        for log, of_log in factors.items():
            if runs.is_loaded(log):
                payload = unknowns.values_of_channel(log, c, solution.values)[-11:-1]
                power[row] += float(np.sum((of_log[c].R[:, : channel.base] @ (K @ payload)) ** 2))
        power[row] /= solution.noise[c] ** 2
    return drives[int(np.argmax(power))]


@one_blas_thread
def payload_between(
    loaded: Identification,
    unloaded: Identification,
    *,
    link: str | None = None,
    gain_sigma: float | None = None,
    physical: bool = True,
) -> Payload:
    """Payload of a link as the difference of results with and without it, of any models (also read from files).

    Parameters
    ----------
    loaded : Identification
        Result with the payload.
    unloaded : Identification
        Result without it, of the same robot and, for forces on the base, the same plate.
    link : str, optional
        Link that carries the payload. Default: the last one.
    gain_sigma : float, optional
        Relative standard deviation of the drive gains, independent from joint to joint. Default: 0.1; 0 takes the
        torques as they are.
    physical : bool
        Whether to return the body nearest to the estimate where noise makes the estimate physically impossible.

    Returns
    -------
    Payload
        Mass, centre of mass and inertia in the frame of the link, with standard deviations.

    Raises
    ------
    IdentificationError
        If the results are not of the same robot, or do not show the payload.

    Notes
    -----
    Both depend on standard parameters X of the same robot: v0 = B0 X, v1 = B1 (X + E p), where B regroups X to what
    each result determines. Least squares, weighted by each result's information, gives p; its standard deviations
    follow from the sum of the covariances, except for uncertain sensitivities of a force plate and wrong gains of the
    same drives, which shift both results at once. Each result has its own friction.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Motion, identify, load_robot, payload_between, simulate
    >>> robot = load_robot("gautier3")
    >>> t, w = np.arange(0.0, 10.0, 0.01), np.array([1.0, 1.7, 2.3])
    >>> x = np.outer(t, w)
    >>> motion = Motion(t, np.sin(x), w * np.cos(x), -(w**2) * np.sin(x))
    >>> first, second = (
    ...     identify(robot, simulate(robot, motion, noise=0.1, seed=k), friction=("viscous",)) for k in (1, 2)
    ... )
    >>> payload_between(first, second).has_mass
    False
    """
    robot = unloaded.robot
    check_same_robot(loaded.robot, robot)
    sigmas = [_check_gain_sigma(gain_sigma, result.equation.options.model) for result in (unloaded, loaded)]
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
    drives = list(dict.fromkeys((*unloaded.channels, *loaded.channels)))
    pair = zip((unloaded, loaded), sigmas, strict=True)
    gains = [_gain_shifts_of_result(result, sigma, drives) for result, sigma in pair]
    common = np.concatenate([np.hstack(shifts), np.hstack(gains)]) @ G.T
    scatter = G @ scipy.linalg.block_diag(*covariances) @ G.T
    spread = scatter + common.T @ common
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
            "textbook_deviations", "one result has textbook standard deviations, which are too small where residuals "
            "are coloured",
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
    return build_payload(
        fit, "difference of two results", replace(reading, lost=lost), spread[np.ix_(reading.places, reading.places)],
        scatter=scatter[np.ix_(reading.places, reading.places)],
        physical=physical, gain_sigma=max(sigmas), reference=None, channels=loaded.channels, reach=robot_reach(robot),
        doubts=tuple(told),
    )  # fmt: skip


def _gain_shifts_of_result(result: Identification, sigma: float, drives: list[str]) -> Array:
    """Shifts (drives, base parameters) of base parameters by one standard deviation of each drive gain.

    A signal (1 + e) y of channel c shifts the values by e (A'A)^-1 A_c'y_c, A the weighted rows.
    """
    shifts = np.zeros((len(drives), len(result.names)))
    rows = {(log, c): f.R / result.noise[c] for log, of_log in enumerate(result.factors) for c, f in enumerate(of_log)}
    A = np.concatenate([R[:, :-1] for R in rows.values()])
    scale = np.linalg.norm(A, axis=0)
    scale[scale == 0.0] = 1.0
    R = np.linalg.qr(A / scale, mode="r")
    for (_, c), own in rows.items():
        if sigma and result.equation.channel_kinds[c] == "torque":
            pull = own[:, :-1].T @ own[:, -1] / scale
            half = scipy.linalg.solve_triangular(R, pull, trans="T")
            shifts[drives.index(result.channels[c])] += sigma * scipy.linalg.solve_triangular(R, half) / scale
    return shifts[:, [k for k, name in enumerate(result.names) if name in set(result.equation.base.names)]]


def is_same_robot(one: Robot, other: Robot) -> bool:
    """Whether two robots have the same joints, frames, known zeros and gravity; bodies may differ."""
    same = one.parameter_names == other.parameter_names and one.known_zeros == other.known_zeros
    same = same and np.allclose(one.gravity, other.gravity, rtol=1e-9, atol=1e-9)
    for a, b in zip(one.links, other.links, strict=False):
        same = same and a.kind == b.kind and np.allclose(a.axis, b.axis, atol=1e-9)
        same = same and np.allclose(a.placement.rotation, b.placement.rotation, atol=1e-9)
        same = same and np.allclose(a.placement.translation, b.placement.translation, atol=1e-9)
    return bool(same)


def check_same_robot(one: Robot, other: Robot) -> None:
    """Raise where two results are not of the same robot."""
    if not is_same_robot(one, other):
        raise IdentificationError(
            "results_of_different_robots", "the results are of different robots ('{robot}' with the payload, "
            "'{other_robot}' without it)", "identify both with the same robot file", robot=one.name,
            other_robot=other.name,
        )  # fmt: skip


def _base_parameter_regrouping(result: Identification) -> tuple[list[int], Array, Array]:
    """Places of the base parameters in a result, and B (places, standard parameters) that regroups into them.

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
    """Pseudo-inverse of a matrix of full column rank, its columns scaled first."""
    scale = np.linalg.norm(A, axis=0)
    Q, R = np.linalg.qr(A / scale)
    return np.asarray(scipy.linalg.solve_triangular(R, Q.T) / scale[:, None])
