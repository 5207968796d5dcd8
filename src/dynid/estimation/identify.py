"""The front door: a robot and logs in, parameters with deviations out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from dynid.dynamics.friction import find_block
from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.errors import FIX_THE_BASE, IdentificationError
from dynid.estimation.accumulate.logs import Wishes, collect, collect_like, collect_torques_like, without_known
from dynid.estimation.accumulate.state import State, merge_states
from dynid.estimation.estimate import estimate
from dynid.estimation.identification import Identification, find_origin
from dynid.estimation.joint_parameters import refuse_hidden, refuse_lost
from dynid.estimation.regression.measurement import Measure, Method
from dynid.estimation.solve.robust import Judge, tell
from dynid.identifiability.base_reactions import relate_sensors
from dynid.logs.log import Log
from dynid.logs.read import read_log
from dynid.messages import ANYTHING, Message, Option
from dynid.robot.force_sensor import ForceSensor
from dynid.robot.io.force_sensor import put_on_plate
from dynid.robot.joint_column import JointColumn
from dynid.robot.robot import Robot

Logs = Log | str | Path | Sequence[Log | str | Path]


@one_blas_thread
def identify(
    robot: Robot,
    logs: Logs,
    *,
    model: str = "torque",
    window: float | None = None,
    quadrature: str = "smooth",
    sensor: ForceSensor | str | Path | None = None,
    partial: bool = False,
    unknown: Sequence[str] | None = None,
    friction: str | Sequence[str] = "auto",
    rotor_inertia: bool = True,
    estimator: str = "wls",
    cutoff: float | None = None,
    validate: Logs | float | None = None,
    on_progress: Callable[[str, float], None] | None = None,
    columns: Sequence[JointColumn] = (),
    joints: Sequence[str] | None = None,
    known: Mapping[str, float] | None = None,
    tied: Sequence[tuple[str, str]] = (),
    offsets_per_log: bool = False,
    delay: float = 0.0,
    intervals: str = "jackknife",
) -> Identification:
    """Estimate the base parameters and friction of a robot from one or several logs.

    model: what is compared: "torque", its "power", or balances of "energy" or "momentum" over overlapping windows of
    time, which need no accelerations; "reaction" (forces on the base, which do not feel friction) or "torque+reaction".
    window (s): length of the balances, by default a quarter of a period of the upper end of the motion's band;
    quadrature: "smooth" (order 8) or "trapezoid" (order 2).
    friction: "auto" is the recipe (stop operators and what cross validation admits); or block names, () for none,
    ("viscous", "coulomb", "offset") for the plain model. estimator: "wls" (noise of every channel found), "ols",
    "ridge" (towards nominal values), "huber" (logs with outliers and collisions, read twice), "recursive"
    (serial robots, joint by joint from the last). cutoff in Hz, chosen from the data where missing. validate: other
    logs, or the share of every log to hold out at its end; where missing, held-out stretches of time. columns: further
    torques of known shape. joints: whose torques to use. known: values of parameters; tied: pairs that are equal.
    delay (s): how much later torques were recorded than positions. intervals: "jackknife", or "white" for the
    textbook ones. sensor: the force plate of the models "reaction" (forces on the base, no friction) and
    "torque+reaction", or a file that describes it, where the robot does not say; partial: go on although its channels
    cannot tell all parameters of the joint torques. unknown: what of the geometry is unknown (see `model_parameters`),
    by default what the robot's table declares; then model parameters X are identified in place of base parameters.
    """
    measure = Measure(model, window, quadrature)
    robot = _on_plate(robot, measure, sensor, partial)
    wishes = check_wishes(robot, friction, rotor_inertia, cutoff, delay, joints, columns, measure)
    wishes = replace(wishes, robust=estimator == "huber", unknown=check_unknown(robot, unknown, measure))
    if wishes.robust and measure.has_reactions:
        raise IdentificationError(
            "huber_with_base_forces", "estimator 'huber' judges joint torques alone",
            "use {estimator} with forces on the base", estimator=Option("estimator", "wls"),
        )  # fmt: skip
    method = Method(estimator, dict(known or {}), tuple(tied), offsets_per_log, intervals)
    used, others, name = split_logs(robot, logs, validate)
    origin = find_origin((*used, *others))
    if wishes.robust and offsets_per_log and len(used) > 1:
        raise IdentificationError(
            "huber_with_log_offsets", "estimator 'huber' takes no own offsets per log", "identify the logs one by one",
        )  # fmt: skip
    state = collect(robot, used, wishes, on_progress=on_progress)
    judge, checked, torques = state.judge, None, None
    trained: tuple[Message, ...] = ()
    alike: Judge | None = None
    if others:  # the rest of a log is as bad as its beginning; logs of their own are taken as recorded
        alike = judge.anew() if judge is not None and isinstance(validate, float | int) else None
        name += ", judged alike" if alike is not None else ""
        unseen = collect_like(state, others, judge=alike, on_progress=on_progress)
        if not isinstance(validate, float | int):
            unseen, trained = without_known(unseen, state)
        checked = (unseen, name) if unseen.blocks else None
        torques = collect_torques_like(state, others, judge=alike) if checked else None
    if on_progress is not None:
        on_progress("solving", 1.0)
    result = replace(estimate(state, method, checked, torques), origin=origin)
    result = replace(result, warnings=(*result.warnings, *trained))
    if judge is None:
        return result
    if checked is None:
        result = replace(
            result, validation=replace(result.validation, source=result.validation.source + ", judged alike")
        )
    return replace(result, notes=(*result.notes, *tell(judge, used, judged=checked is None or alike is not None)))


@one_blas_thread
def collect_state(
    robot: Robot,
    logs: Logs,
    *,
    friction: str | Sequence[str] = "auto",
    rotor_inertia: bool = True,
    cutoff: float | None = None,
    columns: Sequence[JointColumn] = (),
    joints: Sequence[str] | None = None,
    delay: float = 0.0,
    model: str = "torque",
    window: float | None = None,
    quadrature: str = "smooth",
    unknown: Sequence[str] | None = None,
    like: State | None = None,
    on_progress: Callable[[str, float], None] | None = None,
) -> State:
    """Read logs into a state: small factors that can be saved, merged with others and solved later.

    like: a state whose columns, cut-off and first estimate are taken over, as states to be merged must share them.
    """
    used = open_logs(robot, logs)
    own = {
        "friction": friction != "auto", "rotor_inertia": not rotor_inertia, "cutoff": cutoff is not None,
        "columns": bool(columns), "joints": joints is not None, "delay": delay != 0.0, "model": model != "torque",
        "window": window is not None, "quadrature": quadrature != "smooth", "unknown": unknown is not None,
    }  # fmt: skip
    if like is None:
        measure = Measure(model, window, quadrature)
        wishes = check_wishes(robot, friction, rotor_inertia, cutoff, delay, joints, columns, measure)
        wishes = replace(wishes, unknown=check_unknown(robot, unknown, measure))
        return collect(robot, used, wishes, on_progress=on_progress)
    if any(own.values()):
        given = [name for name, here in own.items() if here]
        raise IdentificationError(
            "settings_given_with_like", "like= takes over all settings", "leave out {given}", given=given,
        )  # fmt: skip
    if robot.parameter_names != like.equation.robot.parameter_names:
        raise IdentificationError(
            "state_of_other_robot", "the state is one of '{other_robot}', not of '{robot}'", robot=robot.name,
            other_robot=like.equation.robot.name,
        )  # fmt: skip
    rows = collect_torques_like(like, used)
    found = collect_like(like, used, on_progress=on_progress, validate=False)
    return replace(like.holding(found), torques=() if rows is None else rows.blocks)


@one_blas_thread
def identify_states(
    states: State | Sequence[State],
    *,
    estimator: str = "wls",
    known: Mapping[str, float] | None = None,
    tied: Sequence[tuple[str, str]] = (),
    offsets_per_log: bool = False,
    intervals: str = "jackknife",
) -> Identification:
    """Solve one or several states together: the same result as if their logs had been read at once."""
    several = [states] if isinstance(states, State) else list(states)
    if not several:
        raise IdentificationError("no_states", "there is no state to identify from")
    if estimator == "huber":
        raise IdentificationError(
            "huber_from_states", "estimator 'huber' reads logs twice", "identify from logs, not from states",
        )  # fmt: skip
    method = Method(estimator, dict(known or {}), tuple(tied), offsets_per_log, intervals)
    return replace(estimate(merge_states(several), method, None), origin=find_origin(()))


def _on_plate(robot: Robot, measure: Measure, sensor: ForceSensor | str | Path | None, partial: bool) -> Robot:
    """The robot on its force plate, refused where the joint torques' parameters cannot be had from it."""
    if not measure.has_reactions:
        for name, given in (("sensor", sensor is not None), ("partial", partial)):
            if given:
                raise IdentificationError(
                    "model_without_base_forces", "model '{model}' uses no force plate; {option} goes with reaction "
                    "models", model=measure.model, option=Option(name, True if name == "partial" else ANYTHING),
                )  # fmt: skip
        return robot
    if sensor is not None and not robot.floating:
        robot = robot.with_sensor(sensor) if isinstance(sensor, ForceSensor) else put_on_plate(robot, sensor)
    if not partial and not robot.floating:
        refuse_hidden(robot)
        if measure.model == "reaction":
            refuse_lost(robot, relate_sensors(robot))
    return robot


def check_unknown(robot: Robot, unknown: Sequence[str] | None, measure: Measure) -> tuple[str, ...] | None:
    """What of the geometry is unknown, None where nothing is."""
    if unknown is None:
        unknown = robot.unknown
    words = (unknown,) if isinstance(unknown, str) else tuple(unknown)
    if words and (measure.has_reactions or measure.model == "energy"):
        raise IdentificationError(
            "model_needs_geometry", "model '{model}' needs the geometry, of which {unknown} is unknown", "use torque, "
            "power or momentum", model=measure.model, unknown=words,
        )  # fmt: skip
    return words or None


def check_wishes(
    robot: Robot,
    friction: str | Sequence[str],
    rotor_inertia: bool,
    cutoff: float | None,
    delay: float,
    joints: Sequence[str] | None,
    columns: Sequence[JointColumn],
    measure: Measure,
) -> Wishes:
    """What was asked for, checked."""
    if robot.floating:
        raise IdentificationError(
            "floating_base", "'{robot}' floats; logs of joint torques are identified on a fixed base", "{fix}",
            robot=robot.name, fix=FIX_THE_BASE,
        )  # fmt: skip
    blocks: tuple[str, ...] | None
    if not measure.has_torques:
        if friction != "auto" and tuple(friction):
            raise IdentificationError(
                "friction_with_reaction_model", "the base does not feel friction:",
                "leave friction out with {model}", model=Option("model", "reaction"),
            )  # fmt: skip
        if columns:
            raise IdentificationError(
                "columns_with_reaction_model", "columns are torques of joints:",
                "leave columns out with {model}", model=Option("model", "reaction"),
            )  # fmt: skip
        blocks = ()
    elif friction == "auto":
        blocks = None
    else:
        blocks = (friction,) if isinstance(friction, str) else tuple(friction)
        for name in blocks:
            find_block(name)
        if len(set(blocks)) < len(blocks):
            raise IdentificationError(
                "friction_block_twice", "a friction block is named twice: {blocks}", blocks=list(blocks),
            )  # fmt: skip
    if cutoff is not None and not (np.isfinite(cutoff) and cutoff > 0.0):
        raise IdentificationError(
            "cutoff_not_positive", "the cut-off must be a positive number of Hz, got {cutoff}", cutoff=cutoff,
        )  # fmt: skip
    if not np.isfinite(delay):
        raise IdentificationError("delay_not_finite", "the delay must be a number of seconds, got {delay}", delay=delay)
    chosen = tuple(range(robot.n)) if joints is None else _joints(robot, joints)
    if (measure.is_scalar or measure.has_reactions) and len(chosen) < robot.n:
        raise IdentificationError(
            "joints_with_summed_model", "model '{model}' adds up all joints; {option} goes with torque and momentum",
            model=measure.model, option=Option("joints"),
        )  # fmt: skip
    own = (*robot.columns, *columns) if measure.has_torques else ()
    if len({column.name for column in own}) < len(own):
        raise IdentificationError("column_name_twice", "two columns have the same name", "rename one")
    names = [robot.joint_names[j] for j in chosen]
    own = tuple(column for column in own if column.joint in names or column.joint not in robot.joint_names)
    return Wishes(blocks, rotor_inertia, cutoff, delay, chosen, own, measure)


def _joints(robot: Robot, joints: Sequence[str]) -> tuple[int, ...]:
    unknown = [str(name) for name in joints if str(name) not in robot.joint_names]
    if unknown or not joints:
        raise IdentificationError(
            "unknown_joint", ("no joint '{unknown[0]}'" if unknown else "no joint named") + "; joints are {joints}",
            unknown=unknown, joints=list(robot.joint_names),
        )  # fmt: skip
    wanted = {str(name) for name in joints}
    return tuple(j for j, name in enumerate(robot.joint_names) if name in wanted)


def open_logs(robot: Robot, logs: Logs) -> tuple[Log, ...]:
    """Logs, where files are named opened."""
    several = [logs] if isinstance(logs, Log | str | Path) else list(logs)
    if not several:
        raise IdentificationError("no_logs", "there is no log to identify from")
    return tuple(log if isinstance(log, Log) else read_log(log, robot) for log in several)


def split_logs(robot: Robot, logs: Logs, validate: Logs | float | None) -> tuple[tuple[Log, ...], tuple[Log, ...], str]:
    """Logs to identify from, those to validate on, and what to call these; validate: see `identify`."""
    used = open_logs(robot, logs)
    if validate is None:
        return used, (), ""
    if isinstance(validate, float | int):
        return hold_back(used, float(validate))
    others = open_logs(robot, validate)
    return used, others, ", ".join(log.name for log in others)


def hold_back(logs: tuple[Log, ...], share: float) -> tuple[tuple[Log, ...], tuple[Log, ...], str]:
    """The first part of every log, the rest, and what to call it."""
    if not 0.0 < share < 1.0:
        raise IdentificationError(
            "share_out_of_range", "the share of the logs to hold out must lie between 0 and 1, got {share}",
            share=share,
        )  # fmt: skip
    first, rest = tuple(log.part(0.0, 1.0 - share) for log in logs), tuple(log.part(1.0 - share) for log in logs)
    return first, rest, f"the last {100.0 * share:.3g} % of every log"
