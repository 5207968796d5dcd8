"""The front door: a robot and logs in, parameters with deviations out."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dynid.concurrency import start_in_thread
from dynid.deprecated import accept_old_names
from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.errors import DynidError, IdentificationError
from dynid.estimation.accumulate.logs import collect_logs, collect_logs_like, collect_torques_like, drop_logs_in_state
from dynid.estimation.accumulate.state import State, drop_repeated_samples, merge_states
from dynid.estimation.diagnostics.verdict import Call, shell_text
from dynid.estimation.estimate import estimate
from dynid.estimation.identification import Identification, find_origin, log_files
from dynid.estimation.inference.score import describe_same_motion
from dynid.estimation.joint_parameters import refuse_hidden_rotors, refuse_unidentifiable
from dynid.estimation.options import Options
from dynid.estimation.solve.least_squares import Estimator
from dynid.estimation.solve.robust import OutlierModel, describe_outliers
from dynid.identifiability.base_parameters import base_parameters
from dynid.identifiability.base_reactions import relate_sensors
from dynid.logs.log import Log
from dynid.logs.read import FileSource, LogLike, list_logs, read_log, robot_with_locks_of
from dynid.logs.readers.table import ALL_ROWS
from dynid.messages import Message, Option
from dynid.robot.force_sensor import ForceSensor
from dynid.robot.io.toml_table import with_sensor_from_file
from dynid.robot.load import load_robot
from dynid.robot.robot import JointColumn, Robot

Logs = Log | LogLike | Sequence[Log | LogLike]


@accept_old_names
@one_blas_thread
def identify(
    robot: Robot,
    logs: Logs,
    *,
    model: str = "torque",
    window: float | Sequence[tuple[float, float]] | None = None,
    quadrature: str = "smooth",
    sensor: ForceSensor | str | Path | None = None,
    partial: bool = False,
    unknown: Sequence[str] | None = None,
    friction: str | Sequence[str] = "auto",
    rotor_inertia: bool = True,
    estimator: str | Estimator = "wls",
    cutoff: float | None = None,
    validate: Logs | float | None = None,
    on_progress: Callable[[str, float], None] | None = None,
    columns: Sequence[JointColumn] = (),
    joints: Sequence[str] | None = None,
    known: Mapping[str, float] | None = None,
    equal: Sequence[tuple[str, str]] = (),
    offsets_per_log: bool = False,
    friction_per_log: bool = False,
    delay: float = 0.0,
    intervals: str = "jackknife",
    prefer: str | Sequence[str] | None = None,
) -> Identification:
    """Estimate the base parameters and friction of a robot from one or several logs.

    Parameters
    ----------
    robot : Robot
        As `load_robot` returns it.
    logs : Log, path, frame or mapping, or a sequence of them
        Recordings with positions and what the model measures, as `read_log` takes them.
    model : str
        What is compared: "torque", its "power", balances of "energy" or "momentum" over overlapping windows of time,
        which need no accelerations, "reaction" (forces on the base, which do not depend on friction) or
        "torque+reaction".
    window : float or sequence of (float, float), optional
        Length of the energy or momentum balance, s, or a list of their (begin, end), each of which gives one unfiltered
        row per channel (Ha, Ko & Kwon, Table 2). Default: a quarter of a period at the upper end of the motion's
        frequency band.
    quadrature : {"smooth", "trapezoid"}
        Rule by which balances are integrated: of order 8 or of order 2.
    sensor : ForceSensor, str or Path, optional
        Force plate of the reaction models, or the file that describes it. Default: the robot's.
    partial : bool
        Whether to continue although the force plate's channels do not determine all parameters of the joint torques.
    unknown : sequence of str, optional
        Unknown lengths and angles of the geometry (see `model_parameters`); model parameters are then identified in
        place of base parameters. Default: those that the robot's table declares.
    friction : str or sequence of str
        "auto": blocks chosen by cross-validation; or names of blocks, such as ("viscous", "coulomb", "offset"); () for
        none.
    rotor_inertia : bool
        Whether the rotor inertias `Ia` (kg m^2) are among the parameters.
    estimator : str or callable
        "wls" (weighted by the noise of each channel, which is estimated), "ols", "ridge" (towards nominal values),
        "huber" (logs with outliers and collisions; read twice), "recursive" (serial robots, joint by joint from the
        last), or a function of a `LinearProblem` that returns values, and optionally their covariance (used for
        intervals="white"). Validation and the jackknife call it again without each stretch of time; its values are not
        corrected for noise of the positions, which is in their intervals instead.
    cutoff : float, optional
        Cut-off frequency of the filter, Hz. Default: chosen from the data.
    validate : logs or float, optional
        Other logs, or the share of every log to hold out at its end, 0 to 1. Default: cross-validation on held-out
        stretches of time.
    on_progress : callable, optional
        Called with a text and the share of the work that is done, 0 to 1.
    columns : sequence of JointColumn
        Further torques of known shape and unknown size.
    joints : sequence of str, optional
        Joints whose torques are used. Default: all.
    known : mapping of str to float, optional
        Parameters that are known, with their values in SI units.
    equal : sequence of (str, str)
        Pairs of parameters that are equal.
    offsets_per_log : bool
        Whether each log has its own torque offsets; predictions take their mean.
    friction_per_log : bool
        Whether each log has its own friction (temperature changes it), except torques that depend on position (spring,
        sine); predictions take the mean.
    delay : float
        How much later torques were recorded than positions, s.
    intervals : {"jackknife", "white"}
        How standard deviations are estimated: by the delete-block jackknife, or as if the residuals were white.
    prefer : str or sequence of str, optional
        Standard parameters to keep first (see `base_parameters`), or "data" for the set that is best conditioned along
        the first log; predictions do not depend on it.

    Returns
    -------
    Identification
        Values with standard deviations, validation errors, warnings and a verdict.

    Raises
    ------
    IdentificationError
        If an option does not fit the robot, the model or the data.
    LogError
        If a log cannot be used.

    Notes
    -----
    y = W(q, v, a) X + friction, by least squares on filtered samples, weighted by the noise of each channel;
    perturbation bounds are in `.bounds`.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Motion, identify, load_robot, simulate
    >>> robot = load_robot("gautier3")
    >>> t, w = np.arange(0.0, 10.0, 0.01), np.array([1.0, 1.7, 2.3])
    >>> x = np.outer(t, w)
    >>> log = simulate(robot, Motion(t, np.sin(x), w * np.cos(x), -(w**2) * np.sin(x)), noise=0.1)
    >>> result = identify(robot, log, friction=("viscous", "coulomb", "offset"))
    >>> result.verdict.level
    'good'
    >>> len(result.values), result.names[0], result.units[0]
    (25, 'ZZ1', 'kg m^2')
    """
    options = Options(
        model=model, window=window, quadrature=quadrature, sensor=sensor, partial=partial, unknown=unknown,
        friction=friction, rotor_inertia=rotor_inertia, estimator=estimator, cutoff=cutoff, columns=columns,
        joints=joints, known=known or {}, equal=equal, offsets_per_log=offsets_per_log,
        friction_per_log=friction_per_log, delay=delay, intervals=intervals, prefer=prefer,
    )  # fmt: skip
    asked, loaded = options, robot
    robot = _check_plate(robot, options)
    used, others, name = split_logs(robot, logs, validate)
    robot = robot_with_locks_of(robot, (*used, *others))
    options = _choose_by_data(robot, used[0], options.resolve_for_robot(robot))
    origin = start_in_thread(lambda: find_origin((*used, *others)))
    options.refuse_own_friction_with_outliers(len(used))
    state = collect_logs(robot, used, options, on_progress=on_progress)
    outliers, checked, torques = state.outliers, None, None
    trained: tuple[Message, ...] = ()
    alike: OutlierModel | None = None
    if others:  # the rest of a log is as bad as its beginning; logs of their own are taken as recorded
        alike = outliers.with_empty_tally() if outliers is not None and isinstance(validate, float | int) else None
        name += ", judged alike" if alike is not None else ""
        unseen = collect_logs_like(state, others, outliers=alike, on_progress=on_progress)
        if not isinstance(validate, float | int):
            unseen, trained = drop_logs_in_state(unseen, state)
        checked = (unseen, name) if unseen.blocks else None
        torques = collect_torques_like(state, others, outliers=alike) if checked else None
    if on_progress is not None:
        on_progress("solving", 1.0)
    result = estimate(state, options, checked, torques, used).replace(origin=origin())
    verdict = result.verdict.with_next_command(_describe_call(loaded, asked, used, others, validate, robot))
    notes = result.notes
    if checked is None or _shares_recording(used, others):
        notes = (*notes, describe_same_motion(result.validation))
    seen = {joint for log in (*used, *others) for joint in log.standing_joints}
    assumed = sorted(set(robot.locks) - set(loaded.locks) - seen)
    if assumed and verdict.level != "good":
        trained = (*trained, Message(
            "locked_joint_may_have_moved", "joints {joints:20} are not in the log and taken to stand still; if they "
            "moved, this explains the error", "record them", joints=assumed,
        ))  # fmt: skip
    result = result.replace(warnings=(*result.warnings, *trained), verdict=verdict, notes=notes)
    if outliers is None:
        return result
    if checked is None:
        source = result.validation.source + ", judged alike"
        result = result.replace(validation=replace(result.validation, source=source))
    notes = describe_outliers(outliers, used, in_validation=checked is None or alike is not None)
    return result.replace(notes=(*result.notes, *notes))


@one_blas_thread
def collect_state(
    robot: Robot,
    logs: Logs,
    *,
    model: str = "torque",
    window: float | Sequence[tuple[float, float]] | None = None,
    quadrature: str = "smooth",
    unknown: Sequence[str] | None = None,
    friction: str | Sequence[str] = "auto",
    rotor_inertia: bool = True,
    cutoff: float | None = None,
    on_progress: Callable[[str, float], None] | None = None,
    columns: Sequence[JointColumn] = (),
    joints: Sequence[str] | None = None,
    delay: float = 0.0,
    prefer: str | Sequence[str] | None = None,
    like: State | None = None,
) -> State:
    """Read logs into a state: small factors that can be saved, merged with others and solved later.

    Parameters
    ----------
    robot : Robot
        As `load_robot` returns it.
    logs : Log, path, frame or mapping, or a sequence of them
        Recordings with positions and what the model measures, as `read_log` takes them.
    model : str
        Measurement model: "torque", "power", "energy", "momentum", "reaction" or "torque+reaction".
    window : float or sequence of (float, float), optional
        Length of the energy or momentum balance, s, or a list of their (begin, end), each of which gives one unfiltered
        row per channel (Ha, Ko & Kwon, Table 2). Default: a quarter of a period at the upper end of the motion's
        frequency band.
    quadrature : {"smooth", "trapezoid"}
        Rule by which balances are integrated: of order 8 or of order 2.
    unknown : sequence of str, optional
        Unknown lengths and angles of the geometry (see `model_parameters`); model parameters are then identified in
        place of base parameters. Default: those that the robot's table declares.
    friction : str or sequence of str
        "auto": blocks chosen by cross-validation; or names of blocks, such as ("viscous", "coulomb", "offset"); () for
        none.
    rotor_inertia : bool
        Whether the rotor inertias `Ia` (kg m^2) are among the parameters.
    cutoff : float, optional
        Cut-off frequency of the filter, Hz. Default: chosen from the data.
    on_progress : callable, optional
        Called with a text and the share of the work that is done, 0 to 1.
    columns : sequence of JointColumn
        Further torques of known shape and unknown size.
    joints : sequence of str, optional
        Joints whose torques are used. Default: all.
    delay : float
        How much later torques were recorded than positions, s.
    prefer : str or sequence of str, optional
        Standard parameters to keep first (see `base_parameters`), or "data" for the set that is best conditioned along
        the first log; predictions do not depend on it.
    like : State, optional
        A state whose columns, cut-off frequency and first estimate are used, because states to be merged must share
        them.

    Returns
    -------
    State
        The state, for `identify_states` or `State.save`.

    Raises
    ------
    IdentificationError
        If an option does not fit the robot, the model or the data.
    LogError
        If a log cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Motion, collect_state, load_robot, simulate
    >>> robot = load_robot("one_link")
    >>> t = np.arange(0.0, 10.0, 0.01)
    >>> x = t[:, None]
    >>> log = simulate(robot, Motion(t, np.sin(x), np.cos(x), -np.sin(x)), noise=0.01)
    >>> collect_state(robot, log, friction=("viscous",)).logs
    1
    """
    used = open_logs(robot, logs)
    robot = robot_with_locks_of(robot, used)
    asked: dict[str, Any] = {
        "model": model, "window": window, "quadrature": quadrature, "unknown": unknown, "friction": friction,
        "rotor_inertia": rotor_inertia, "cutoff": cutoff, "columns": tuple(columns), "joints": joints, "delay": delay,
        "prefer": prefer,
    }  # fmt: skip
    if like is None:
        options = _choose_by_data(robot, used[0], Options(**asked).resolve_for_robot(robot))
        return collect_logs(robot, used, options, on_progress=on_progress)
    default = Options()
    given = [name for name, value in asked.items() if value != getattr(default, name)]
    if given:
        raise IdentificationError(
            "settings_given_with_like", "like= takes over all settings", "leave out {given}", given=given,
        )  # fmt: skip
    if robot.parameter_names != like.equation.robot.parameter_names:
        raise IdentificationError(
            "state_of_other_robot", "the state is one of '{other_robot}' with the joints {others:8}, not of '{robot}' "
            "with {joints:8}", robot=robot.name, other_robot=like.equation.robot.name, joints=robot.joint_names,
            others=like.equation.robot.joint_names,
        )  # fmt: skip
    rows = collect_torques_like(like, used)
    state = drop_repeated_samples(collect_logs_like(like, used, on_progress=on_progress, validate=False))
    return replace(state, torques=() if rows is None else rows.blocks)


@accept_old_names
@one_blas_thread
def identify_states(
    states: State | Sequence[State],
    *,
    estimator: str | Estimator = "wls",
    known: Mapping[str, float] | None = None,
    equal: Sequence[tuple[str, str]] = (),
    offsets_per_log: bool = False,
    friction_per_log: bool = False,
    intervals: str = "jackknife",
) -> Identification:
    """Solve one or several states together: the same result as if their logs had been read at once.

    Parameters
    ----------
    states : State or sequence of State
        States of the same columns and cut-off frequency.
    estimator : str or callable
        "wls" (weighted by the noise of each channel, which is estimated), "ols", "ridge" (towards nominal values),
        "huber" (logs with outliers and collisions) or "recursive" (serial robots, joint by joint from the last).
    known : mapping of str to float, optional
        Parameters that are known, with their values in SI units.
    equal : sequence of (str, str)
        Pairs of parameters that are equal.
    offsets_per_log : bool
        Whether each log has its own torque offsets.
    friction_per_log : bool
        Whether each log has its own friction, because temperature changes it.
    intervals : {"jackknife", "white"}
        How standard deviations are estimated: by the delete-block jackknife, or as if the residuals were white.

    Returns
    -------
    Identification
        The result of all logs.

    Raises
    ------
    IdentificationError
        If there is no state, or the states do not belong together.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Motion, collect_state, identify_states, load_robot, simulate
    >>> robot = load_robot("one_link")
    >>> t = np.arange(0.0, 20.0, 0.01)
    >>> x = t[:, None]
    >>> logs = [simulate(robot, Motion(t, np.sin(x), np.cos(x), -np.sin(x)), noise=0.01, seed=k) for k in (1, 2)]
    >>> first = collect_state(robot, logs[0], friction=("viscous",))
    >>> second = collect_state(robot, logs[1], like=first)
    >>> len(identify_states([first, second]).values)
    3
    """
    several = [states] if isinstance(states, State) else list(states)
    if not several:
        raise IdentificationError("no_states", "there is no state to identify from")
    if estimator == "huber":
        raise IdentificationError(
            "huber_from_states", "estimator 'huber' reads logs twice", "identify from logs, not from states",
        )  # fmt: skip
    options = replace(
        several[0].equation.options, estimator=estimator, known=known or {}, equal=equal,
        offsets_per_log=offsets_per_log, friction_per_log=friction_per_log, intervals=intervals,
    )  # fmt: skip
    result = estimate(merge_states(several), options, None).replace(origin=find_origin(()))
    return result.replace(notes=(*result.notes, describe_same_motion(result.validation)))


def _choose_by_data(robot: Robot, log: Log, options: Options) -> Options:
    """Options with the names of the best-conditioned set along a log in place of "data"."""
    if options.prefer != "data":
        return options
    tared = options.has_reactions and (robot.sensor is None or robot.sensor.is_tared)
    model = options.model if options.has_reactions else "torque"
    base = base_parameters(
        robot, model=model, rotor_inertia=options.rotor_inertia, tared=tared, prefer="data", log=log
    )  # fmt: skip
    return replace(options, prefer=tuple(map(str, base.names)))


# The call as a command, so that the next one can be named: where robot and logs are files that read alike.


def _describe_call(
    robot: Robot, options: Options, used: Sequence[Log], others: Sequence[Log], validate: Logs | float | None,
    locked: Robot,
) -> Call:  # fmt: skip
    """Call from Python, with the command to the same effect where there is one.

    locked: the robot without the joints that its logs do not have.
    """
    share = validate if isinstance(validate, float | int) else None
    given = (*options.options_off_default(), *(() if share is None else (Option("validate", share),)))
    typed, place = options.command_line_options(), _robot_command_words(robot)
    if typed is None or not place:
        return Call(options=given)
    ends = used if share is None else others  # with a share, what was held out is the rest of every log
    logs = [_log_command_word(log, end) for log, end in zip(used, ends, strict=True)]
    checks = [_log_command_word(log, log) for log in others] if share is None else [f"{100.0 * share:g}%"]
    reading = [_reading_options(log, locked) for log in (*used, *others)]
    if not all((*logs, *checks)) or reading[0] is None or any(options != reading[0] for options in reading):
        return Call(options=given)
    words = [*place, *logs, *(word for name in checks for word in ("--validate", name))]
    command = " ".join(["dynid identify", shlex.join(words), *map(shell_text, (*reading[0], *typed))])
    held = [f"--lock {shlex.quote(f'{joint}={x!r}')}" for joint, x in locked.locks.items()]
    unloaded = " --unloaded ".join(map(shlex.quote, logs))
    return Call(command, " ".join([shlex.quote(place[0]), *held]), unloaded, options=given)


@cache
def _load_bundled(name: str) -> Robot:
    """Load a robot of this package, cached: its files do not change."""
    return load_robot(name)


def _robot_command_words(robot: Robot) -> list[str]:
    """Words that load the robot on the command line, none where it is not a file or was changed since."""
    if len(robot.files) != 1:
        return []
    name = robot.files[0].name.removesuffix(".toml (bundled)")
    try:
        is_file = name == robot.files[0].name or Path(name).is_file()
        again = load_robot(name, lock=robot.locks) if is_file or robot.locks else _load_bundled(name)
    except DynidError:
        return []
    alike = again.joint_names == robot.joint_names and (again.sensor is None) == (robot.sensor is None)
    alike = alike and np.array_equal(again.parameters, robot.parameters, equal_nan=True)
    for link, other in zip(robot.links, again.links, strict=False):
        alike = alike and link.kind == other.kind and np.allclose(link.placement.rotation, other.placement.rotation)
        alike = alike and np.allclose(link.placement.translation, other.placement.translation)
    if not alike:
        return []
    changed = not np.array_equal(again.gravity, robot.gravity)
    words = ["--gravity", ",".join(f"{x:.9g}" for x in robot.gravity)] if changed else []
    return [name, *words, *(word for joint, x in robot.locks.items() for word in ("--lock", f"{joint}={x!r}"))]


def _log_command_word(log: Log, end: Log) -> str:
    """FILE or FILE@START:STOP of a log that is a file, up to the end of another part of it; else nothing."""
    whole = getattr(log.source, "whole", log.source)
    if not isinstance(whole, FileSource) or not whole.paths:
        return ""
    name = whole.name if whole.part == ALL_ROWS else f"{whole.name}@#{whole.part}"
    origin = getattr(log.source, "origin", None)
    if origin is None:
        return name
    begin, finish = log.interval[0], end.interval[1]
    goes_on = any((samples.t >= finish).any() for samples in end.chunks_of_whole_recording())
    start = f"{begin - origin:.9g}" if begin > origin else ""
    stop = f"{np.ceil(1e6 * (finish - origin)) / 1e6:.9g}" if goes_on else ""
    return f"{name}@{start}:{stop}" if start or stop else name


def _reading_options(log: Log, robot: Robot) -> list[Option] | None:
    """Options with which the command line reads a log in the same way, None where it cannot."""
    whole = getattr(log.source, "whole", log.source)
    options = list[Option]()
    for key, value in getattr(whole, "given", {}).items():
        if key == "rows":  # in the word of the log
            continue
        if key == "header":
            value = value if isinstance(value, str) else ",".join(value)
        number = np.asarray(value) if key in ("gear", "gain") else np.zeros(())
        if (
            key not in ("columns", "units", "gear", "gain", "topic", "header")
            or number.ndim > 1
            or number.dtype.kind not in "if"
        ):
            return None
        if key == "units" and not all(isinstance(unit, str) for unit in value.values()):
            return None
        options.append(Option(key, number.tolist() if key in ("gear", "gain") else value))
    return [*options, *log.wiring.options(robot)]


def _shares_recording(used: Sequence[Log], others: Sequence[Log]) -> bool:
    """Whether some of the validation logs are parts of recordings that were used."""
    whole, rest = ({id(getattr(log.source, "whole", log.source)) for log in some} for some in (used, others))
    names, more = ({str(file.resolve()) for log in some for file in log_files(log)} for some in (used, others))
    return bool(whole & rest or names & more)


def _check_plate(robot: Robot, options: Options) -> Robot:
    """Return the robot on its force plate; raise where the plate cannot determine the joint torques' parameters."""
    sensor = options.sensor
    if not options.has_reactions or robot.floating:
        return robot
    if sensor is not None:
        robot = robot.with_sensor(sensor) if isinstance(sensor, ForceSensor) else with_sensor_from_file(robot, sensor)
    if not options.partial:
        refuse_hidden_rotors(robot)
        if options.model == "reaction":
            refuse_unidentifiable(robot, relate_sensors(robot))
    return robot


def open_logs(robot: Robot, logs: Logs) -> tuple[Log, ...]:
    """Return logs as `Log`; files that are named are opened."""
    several = list_logs(logs)
    if not several:
        raise IdentificationError("no_logs", "there is no log to identify from")
    return tuple(log if isinstance(log, Log) else read_log(log, robot) for log in several)


def split_logs(robot: Robot, logs: Logs, validate: Logs | float | None) -> tuple[tuple[Log, ...], tuple[Log, ...], str]:
    """Split logs into those to identify from and those to validate on, with a name for the latter."""
    used = open_logs(robot, logs)
    if validate is None:
        return used, (), ""
    if isinstance(validate, float | int):
        return hold_out_share(used, float(validate))
    others = open_logs(robot, validate)
    return used, others, ", ".join(log.name for log in others)


def hold_out_share(logs: tuple[Log, ...], share: float) -> tuple[tuple[Log, ...], tuple[Log, ...], str]:
    """Split every log in two by a share; return first parts, rests, and a name for the rests."""
    if not 0.0 < share < 1.0:
        raise IdentificationError(
            "share_out_of_range", "the share of the logs to hold out must lie between 0 and 1, got {share}",
            share=share,
        )  # fmt: skip
    first, rest = tuple(log.part(0.0, 1.0 - share) for log in logs), tuple(log.part(1.0 - share) for log in logs)
    return first, rest, f"the last {100.0 * share:.3g} % of every log"
