"""Drive gains from logs without and with payloads of which something is known: the standard torques are measured by."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.errors import IdentificationError
from dynid.estimation.accumulate.one_pass import total_factors
from dynid.estimation.identify import Logs
from dynid.estimation.inference.cross_validation import DEFAULT
from dynid.estimation.options import Options
from dynid.estimation.regression.equation import Unknowns
from dynid.estimation.solve.least_squares import Factors
from dynid.messages import Message, Option
from dynid.payload.bilinear import (
    NOT_SETTLED,
    Bilinear,
    BilinearSolution,
    drive_factor_name,
    initial_drive_factors,
    solve_bilinear,
)
from dynid.payload.payload import (
    ResultWithFit,
    check_mass,
    check_payload_parameters,
    floats_for_json,
    implausible_mass_message,
    largest_plausible_mass,
    robot_reach,
)
from dynid.payload.two_runs import TwoRuns, collect_two_runs, poor_fit_warnings
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

ROUNDS = 4
"""Of choosing friction and finding gains in turn, at most."""

FAR = 100.0
"""Factor from the median of all gains beyond which one is in other units."""


@dataclass(frozen=True, eq=False)
class Gains(ResultWithFit):
    """Gains g of the joints `names`: true torque = g * measured signal, as `read_log(..., gain=...)` takes them.

    `values` and `sigma` are NaN where the payload does not reveal a gain.

    Attributes
    ----------
    fit : Fit
        Names, values and settings of the fit.
    payload : (10,) or (payloads, 10) array
        Standard parameters of the payloads; NaN where they cannot be known.
    payload_sigma : array
        Their standard deviations, 0 for what was given.
    sigma : (joints,) array
        Standard deviations of the gains.
    parameter_names : tuple of Parameter
        Base parameters and friction.
    parameter_units : tuple of str
        Their units.
    parameters : (p,) array
        Their values in true units, as far as the gains are known.
    parameter_sigma : (p,) array
        Their standard deviations.
    warnings : tuple of Message
        What to know about the result.
    """

    payload: Array
    payload_sigma: Array
    sigma: Array
    parameter_names: tuple[Parameter, ...]
    parameter_units: tuple[str, ...]
    parameters: Array
    parameter_sigma: Array
    warnings: tuple[Message, ...]

    @property
    def intervals(self) -> Array:
        """95 % intervals of the gains, (joints, 2)."""
        return self.fit.intervals(self.sigma)

    def value(self, name: str) -> float:
        """Gain of one joint.

        Parameters
        ----------
        name : str
            Name of the joint.

        Returns
        -------
        float
            The gain.

        Raises
        ------
        IdentificationError
            If there is no such joint.
        """
        if name not in self.names:
            raise IdentificationError(
                "unknown_joint", "there is no joint '{joint}' in these gains; joints are {joints}", joint=name,
                joints=list(self.names),
            )  # fmt: skip
        return float(self.values[self.names.index(name)])

    def facts(self) -> dict[str, object]:
        """The gains as JSON-ready data; None where a number is not known.

        Returns
        -------
        dict
            Facts by name.
        """
        return self.fit.facts(self.sigma) | {
            "payload": _rows_for_json(self.payload),
            "payload_sigma": _rows_for_json(self.payload_sigma),
            "parameters": {
                "names": list(self.parameter_names),
                "units": list(self.parameter_units),
                "values": floats_for_json(self.parameters),
                "sigma": floats_for_json(self.parameter_sigma),
            },
            "warnings": list(self.warnings),
        }

    def to_json(self) -> str:
        """The gains as JSON text.

        Returns
        -------
        str
            What `facts` returns, as JSON.
        """
        return json.dumps(self.facts(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def __str__(self) -> str:
        half = self.quantile * self.sigma
        rows = zip(self.names, self.values, half, strict=True)
        return "\n".join(
            ["drive gains (+-: 95 % interval)", *(f"  {name:<4} {g:.5g} +- {h:.2g}" for name, g, h in rows)]
        )


def _rows_for_json(x: Array) -> list[float | None] | list[list[float | None]]:
    """Ten numbers, or rows of ten, for JSON: None where one is not finite."""
    return floats_for_json(x) if x.ndim == 1 else [floats_for_json(row) for row in x]


@one_blas_thread
def identify_gains(
    robot: Robot,
    loaded: Logs,
    unloaded: Logs,
    payload: Sequence[float] | Sequence[Sequence[float]] | Sequence[Array] | Array | None = None,
    *,
    mass: float | Sequence[float] | None = None,
    reference: str | Mapping[str, float] | None = None,
    link: str | None = None,
    friction: str | Sequence[str] = "auto",
    rotor_inertia: bool = True,
    cutoff: float | None = None,
    on_progress: Callable[[str, float], None] | None = None,
    offsets_per_log: bool = False,
    friction_per_log: bool = True,
    delay: float = 0.0,
) -> Gains:
    """Estimate the gains of all drives: true torque = gain * measured signal (a current, or a torque in wrong units).

    At least one of `payload`, `mass` and `reference` is needed, which sets the scale of the torques.

    Parameters
    ----------
    robot : Robot
        As `load_robot` returns it.
    loaded : Log, path, frame or mapping, or a sequence of them
        Logs with the payload; may be empty with `reference`.
    unloaded : Log, path, frame or mapping, or a sequence of them
        Logs without it.
    payload : (10,) array_like or a sequence of them, optional
        Standard parameters of the known payload in the frame of its link, as `payload_parameters` gives them; or one
        per loaded log.
    mass : float or sequence of float, optional
        Mass of the payload, kg, or one per loaded log; its other nine parameters are estimated.
    reference : str or mapping of str to float, optional
        A joint whose signal is its true torque, or known gains by joint; then the payload may be unknown.
    link : str, optional
        Link that carries the payload. Default: the last one.
    friction : str or sequence of str
        "auto": blocks chosen by cross-validation; or names of blocks, such as ("viscous", "coulomb", "offset"); () for
        none.
    rotor_inertia : bool
        Whether the rotor inertias `Ia` (kg m^2) are among the parameters.
    cutoff : float, optional
        Cut-off frequency of the filter, Hz. Default: chosen from the data.
    on_progress : callable, optional
        Called with a text and the share of the work that is done, 0 to 1.
    offsets_per_log : bool
        Whether each log has its own torque offsets.
    friction_per_log : bool
        Whether each log has its own friction, offsets included, identified in measured units and given in true ones.
    delay : float
        How much later torques were recorded than positions, s.

    Returns
    -------
    Gains
        Gains with standard deviations, and the parameters in true units.

    Raises
    ------
    IdentificationError
        If nothing sets the scale, or an option does not fit the robot or the data.
    LogError
        If a log cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Log, Motion, identify_gains, load_robot, simulate
    >>> robot = load_robot("gautier3")
    >>> t, w = np.arange(0.0, 10.0, 0.01), np.array([1.0, 1.7, 2.3])
    >>> x = np.outer(t, w)
    >>> log = simulate(robot, Motion(t, np.sin(x), w * np.cos(x), -(w**2) * np.sin(x)), noise=0.01)
    >>> current = Log(log.t, log.q, v=log.v, a=log.a, tau=log.tau / [1.0, 2.0, 4.0])
    >>> gains = identify_gains(robot, (), current, reference="1", friction=("viscous",))
    >>> gains.values.round(1)
    array([1., 2., 4.])
    """
    known, several = _known_payload_parameters(payload, mass)
    if known is None and reference is None:
        raise IdentificationError(
            "nothing_to_measure_by", "drive gains need something that is known",
            "give {payload}, {mass}, or {reference}", payload=Option("payload"), mass=Option("mass"),
            reference=Option("reference"),
        )  # fmt: skip
    if robot.sensor is not None:  # the spin of declared rotors is known in N m, not in the drives' units
        robot = robot.with_sensor(replace(robot.sensor, rotors=()))
    options = Options(
        friction=friction, rotor_inertia=rotor_inertia, cutoff=cutoff, offsets_per_log=offsets_per_log,
        friction_per_log=friction_per_log, delay=delay,
    )  # fmt: skip
    fixed = _known_gains(robot, reference)
    runs = collect_two_runs(
        robot, loaded, unloaded, link, options, on_progress, several=several, optional=known is None
    )  # fmt: skip
    if known is None:
        known = np.full((len(set(runs.loads[runs.loads >= 0])), 10), np.nan)
    if not runs.state.equation.is_direct_drive:
        raise IdentificationError(
            "gains_of_coupled_motors", "gains of coupled motors (gear as a matrix) cannot be determined joint by joint",
        )  # fmt: skip
    if on_progress is not None:
        on_progress("solving", 1.0)
    options.refuse_offsets_without_block(DEFAULT if runs.state.recipe else runs.state.equation.friction)
    factors = total_factors(runs.blocks)
    chosen = DEFAULT if runs.state.recipe else runs.state.equation.friction
    solved = _solve_gains(runs, known, fixed, factors, chosen, options)
    for _ in range(ROUNDS if runs.state.recipe else 0):  # the gate needs torques in true units, hence the gains
        before, chosen = chosen, runs.choose_friction(options, 1.0 / solved.k)
        if set(chosen) == set(before):
            break
        solved = _solve_gains(runs, known, fixed, factors, chosen, options)
    return _gains_of_solution(solved, factors, fixed, robot_reach(robot), single=several is None)


def _known_payload_parameters(payload: object, mass: object) -> tuple[Array | None, int | None]:
    """Known parameters (payloads, 10), NaN elsewhere, None for nothing; number of payloads where it is a list."""
    if payload is not None and mass is not None:
        raise IdentificationError(
            "payload_and_mass", "both {payload} and {mass} are given", "give all ten parameters or the mass alone",
            payload=Option("payload"), mass=Option("mass"),
        )  # fmt: skip
    if payload is not None:
        is_list = isinstance(payload, Sequence) and any(np.ndim(one) for one in payload)
        is_list = is_list or (isinstance(payload, np.ndarray) and payload.ndim == 2)
        several = list(payload) if is_list else [payload]  # type: ignore[call-overload]
        return np.array([check_payload_parameters(one) for one in several]), len(several) if is_list else None
    if mass is None:
        return None, None
    one = np.ndim(mass) == 0  # type: ignore[arg-type]
    masses = [mass] if one else list(mass)  # type: ignore[call-overload]
    known = np.full((len(masses), 10), np.nan)
    for row, value in zip(known, masses, strict=True):
        row[9] = check_mass(value)
    return known, None if one else len(masses)


def _known_gains(robot: Robot, reference: str | Mapping[str, float] | None) -> dict[str, float]:
    """Known gains by joint, from a reference joint or values given; raise for unknown joints."""
    if reference is None:
        return {}
    if isinstance(reference, str):
        reference = {reference: 1.0}
    if not isinstance(reference, Mapping):
        raise IdentificationError(
            "reference_malformed", "the reference must be a joint's name or a mapping from names to gains, got {got!r}",
            got=str(reference)[:60],
        )  # fmt: skip
    gains = dict(reference)
    for joint, gain in gains.items():
        if joint not in robot.joint_names:
            raise IdentificationError(
                "unknown_joint", "there is no joint '{joint}' in '{robot}'; joints are {joints}", joint=joint,
                robot=robot.name, joints=list(robot.joint_names),
            )  # fmt: skip
        if isinstance(gain, bool) or not isinstance(gain, int | float) or not np.isfinite(gain) or gain == 0.0:
            raise IdentificationError(
                "reference_gain_invalid", "the known gain of joint '{joint}' must be a number other than 0, got "
                "{gain!r}", joint=joint, gain=str(gain)[:60],
            )  # fmt: skip
    if not gains:
        raise IdentificationError("reference_empty", "the reference names no joint", "name one, or leave it out")
    return gains


def _solve_gains(
    runs: TwoRuns, known: Array, fixed: Mapping[str, float], factors: Factors, friction: tuple[str, ...],
    options: Options,
) -> BilinearSolution:  # fmt: skip
    """Solve for gains, robot, payloads and friction blocks together: linear start, then Gauss-Newton."""
    equation = runs.state.equation
    unknowns = Unknowns.for_equation(
        equation, friction, runs.state.logs, per_log=options.friction_blocks_per_log(friction),
        left_out=runs.state.unseen_harmonics,
    )  # fmt: skip
    problem = Bilinear.for_runs(runs, unknowns, friction, known)
    k = np.array([1.0 / fixed.get(joint, 1.0) for joint in equation.channel_names])
    sought = np.array([joint not in fixed for joint in equation.channel_names])
    return solve_bilinear(problem, factors, initial_drive_factors(problem, factors, k, sought), sought)


def _gains_of_solution(
    found: BilinearSolution, factors: Factors, fixed: Mapping[str, float], reach: float, *, single: bool
) -> Gains:
    """`Gains` of a solution: gains are inverse drive factors."""
    problem, unknowns, k = found.problem, found.unknowns, found.k
    runs, solution = problem.runs, found.solution
    deviations = found.deviations()
    covariance = solution.covariance if deviations is None else deviations.covariance
    place, joints = found.index_of_unknown, runs.state.equation.channel_names
    own = np.array([place.get(drive_factor_name(joint), -1) for joint in joints])
    given = np.array([joint in fixed for joint in joints])
    revealed = given | (own >= 0)
    values = np.where(revealed, 1.0 / k, np.nan)
    sigma = np.where(given, 0.0, np.where(own >= 0, np.sqrt(np.diag(covariance)[own]) / k**2, np.nan))
    factor_names = {drive_factor_name(joint) for joint in joints}
    payload_names = problem.unknowns.names[problem.first_payload_index : problem.first_factor_index]
    channel = _channels_of_friction(problem, unknowns)
    numbers, deviation = {}, {}
    for name, j in place.items():
        row = np.zeros(len(unknowns))
        c = channel.get(j)
        if name in factor_names or (c is not None and not revealed[c]):
            continue
        row[j], numbers[name] = 1.0, solution.values[j]
        if c is not None:  # friction was found in measured units
            row[j], numbers[name] = 1.0 / k[c], solution.values[j] / k[c]
            if own[c] >= 0:
                row[own[c]] = -solution.values[j] / k[c] ** 2
        deviation[name] = float(np.sqrt(row @ covariance @ row))
    alone = {
        name for i, name in enumerate(problem.unknowns.names[: problem.first_factor_index]) if _is_known_alone(found, i)
    }
    shape = problem.known.shape[1:] if single and len(problem.known) == 1 else problem.known.shape
    payload, payload_sigma = (
        np.array([some.get(name, np.nan) if name in alone else np.nan for name in payload_names]).reshape(shape)
        for some in (numbers, deviation)
    )
    parameters = [name for name in numbers if name not in set(payload_names)]
    nrmse = found.nrmse(factors)
    gains = tuple(Parameter(joint, symbol="", kind="gain", unit="1", joint=joint) for joint in joints)
    fit = runs.fit_from_values(gains, values, deviations, problem.friction, nrmse)
    heaviest = np.nanmax(problem.known[:, 9], initial=0.0)
    warnings = (
        *((implausible_mass_message(float(heaviest), reach),) if heaviest > largest_plausible_mass(reach) else ()),
        *_gain_warnings(runs, values, fit.quantile * sigma),
        *_payload_warnings(payload.reshape(-1, 10), fit.quantile * payload_sigma.reshape(-1, 10)),
        *(() if found.settled else (NOT_SETTLED,)),
        *(repeat.warning for repeat in runs.state.repeats),
        *poor_fit_warnings(nrmse, jackknifed=deviations is not None),
    )
    return Gains(
        fit=fit,
        payload=payload,
        payload_sigma=payload_sigma,
        sigma=sigma,
        parameter_names=tuple(parameters),
        parameter_units=tuple(unknowns.units[place[name]] for name in parameters),
        parameters=np.array([numbers[name] for name in parameters]),
        parameter_sigma=np.array([deviation[name] for name in parameters]),
        warnings=warnings,
    )


def _is_known_alone(found: BilinearSolution, k: int) -> bool:
    """Whether an unknown is identified by itself, not in a sum with others that were dropped."""
    if k not in found.regrouping.kept:
        return False
    row = np.abs(found.regrouping.matrix[found.regrouping.kept.index(k)])
    return bool((np.delete(row, k) < 1e-6).all())


def _channels_of_friction(problem: Bilinear, unknowns: Unknowns) -> dict[int, int]:
    """Channel of every friction unknown, in whose units it was found."""
    channels: dict[int, int] = {}
    for c, channel in enumerate(problem.runs.state.equation.channels):
        own = channel.columns[channel.base + len(channel.extra) :]
        channels |= {int(j): c for j in unknowns.place[:, own].ravel() if j >= 0}
    return channels


def _gain_warnings(runs: TwoRuns, values: Array, half: Array) -> list[Message]:
    """Warnings on drive gains that are uncertain, negative, far from the others or not determined."""
    names, warnings = runs.state.equation.channel_names, []
    hidden = [name for name, g in zip(names, values, strict=True) if not np.isfinite(g)]
    middle = float(np.median(np.abs(values[np.isfinite(values)]))) if np.isfinite(values).any() else 1.0
    if hidden:
        warnings.append(Message(
            "gain_not_revealed", "the payload does not reveal the gain of joint {joints}:", "mount it where it loads "
            "this joint (off its axis, for a joint that turns) and move the joint in both logs", joints=hidden,
        ))  # fmt: skip
    if (
        len(values) > 1
        and np.all(values[np.isfinite(values)] + half[np.isfinite(values)] < 0.0)
        and len(hidden) < len(values)
    ):
        warnings.append(Message(
            "gains_all_negative", "all gains are negative ({gains})", "check whether the loaded and unloaded logs are "
            "exchanged", gains=[f"{g:.3g}" for g in values],
        ))  # fmt: skip
        return warnings
    for name, g, h in zip(names, values, half, strict=True):
        facts = {"joint": name, "gain": float(g), "half_width": float(h)}
        if np.isfinite(g) and h > 0.5 * abs(g):
            warnings.append(Message(
                "gain_hardly_known", "the gain of joint {joint} is hardly known ({gain:.3g} +- {half_width:.2g}):",
                "use a heavier payload, farther from its axis, or more exciting motions", **facts,
            ))  # fmt: skip
        elif g < 0.0:
            warnings.append(Message(
                "gain_negative", "the gain of joint {joint} is negative ({gain:.4g}): its signal has the opposite sign",
                **facts,
            ))  # fmt: skip
        elif g > FAR * middle or g < middle / FAR:
            warnings.append(Message(
                "gain_far_from_others", "the gain of joint {joint} ({gain:.3g}) is far from the median of all gains "
                "({median:.3g})", "check the unit of this signal (A, mA, N m)", median=middle, **facts,
            ))  # fmt: skip
    return warnings


def _payload_warnings(payloads: Array, half: Array) -> list[Message]:
    """Warnings on payloads that were estimated too and are physically impossible."""
    return [
        Message(
            "payload_negative", "the payload's {quantity} is negative ({value:.4g} +- {half_width:.2g}), which is "
            "physically impossible", "check whether the loaded and unloaded logs are exchanged, and which link carries",
            quantity=what, value=float(p[k]), half_width=float(h[k]),
        )
        for p, h in zip(payloads, half, strict=True)
        for k, what in ((9, "mass"), (0, "XX"), (3, "YY"), (5, "ZZ"))
        if p[k] + h[k] < -1e-9
    ]  # fmt: skip
