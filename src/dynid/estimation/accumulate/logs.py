"""From logs to a state: how they are treated, a first look, and one pass over everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.dynamics.friction import HARMONICS, PLAIN, REST, joint_scales, stop_width_at_rest
from dynid.errors import IdentificationError, LogError
from dynid.estimation.accumulate.one_pass import BLOCK, accumulate, total_factors
from dynid.estimation.accumulate.state import State, drop_repeated_samples
from dynid.estimation.inference.cross_validation import DEFAULT, OPTIONAL
from dynid.estimation.options import PERIODS, Options
from dynid.estimation.regression.equation import Equation, Unknowns
from dynid.estimation.solve.least_squares import solve
from dynid.estimation.solve.robust import OutlierModel, fit_outlier_model, survey_without_glitches
from dynid.logs.cutoff import LEAST, CutoffChoice, LoopNoise, choose_cutoff, control_loop_noise
from dynid.logs.filtering import Treatment
from dynid.logs.log import ArraySource, Log, Progress, logs_with_common_progress
from dynid.logs.read import IN_CURRENT
from dynid.logs.survey import ROWS, Survey, survey
from dynid.messages import Message, Option
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

# Whether recorded velocities and accelerations are exact: then nothing must be filtered.
#
# A simulator's accelerations belong to its equations of motion at the instant, not to differences of its velocities,
# and jump where friction does: they look like noisy ones. That they explain what was measured but for rounding shows
# that they are not.


EXACT = 1e-7
"""Residual over spread of every channel, at most."""

EXACT_ROWS = 8
"""Samples per unknown of a channel that are looked at."""

MEMORYLESS = ("viscous", "coulomb", "offset", "tanh", "quadratic", "asymmetry", "spring", *HARMONICS)


def is_explained_exactly(equation: Equation, surveys: tuple[Survey, ...]) -> bool:
    """Whether the equation explains the measured torques of every log without noise, by some of its samples."""
    if equation.options.is_integral or equation.options.model == "power":
        return False
    if not set(equation.friction) <= set(MEMORYLESS):
        return False
    return all(_is_log_explained_exactly(equation, s) for s in surveys)


def _is_log_explained_exactly(equation: Equation, seen: Survey) -> bool:
    """Whether least squares on samples spread over a log's survey leaves no residual."""
    x = seen.samples
    if x.v is None or x.a is None:
        return False
    widest = max(len(channel.columns) for channel in equation.channels)
    if len(x) < EXACT_ROWS * widest:
        return False
    some = x.select_rows(np.unique(np.linspace(0, len(x) - 1, EXACT_ROWS * widest).astype(np.int64)))
    assert some.v is not None
    assert some.a is not None
    motion = Motion(some.t, some.q, some.v, some.a)
    stops = np.zeros((len(motion), 0, equation.robot.n))
    wide = equation.write_torque_rows(motion, stops, equation.measured_channels(some))
    for channel in equation.channels:
        own = channel.rows_in_wide(wide)
        W, y = own[:, :-1], own[:, -1]
        left = y - W @ np.linalg.lstsq(W, y, rcond=None)[0]
        if not left.std() <= EXACT * y.std():
            return False
    return True


def collect_logs(
    robot: Robot,
    logs: Sequence[Log],
    options: Options,
    *,
    torques: bool = True,
    on_progress: Progress | None = None,
) -> State:
    """Read the logs once into a state, and their beginnings once more where load friction needs a first estimate.

    torques: where the model is about something else, read joint torques too, in a second pass, to judge predictions.
    options: resolved for the robot.
    """
    joints = options.joint_indices(robot)
    surveys = tuple(survey(log, robot, measured=options.required_channels, joints=joints) for log in logs)
    if options.is_robust:
        surveys = tuple(map(survey_without_glitches, surveys))
    _refuse_standstill(robot, logs, surveys)
    choices = [choose_cutoff(s) for s in surveys]
    treatments, reason = choose_treatments(surveys, choices, options)
    options = _with_default_window(options, choices, treatments)
    span = np.max([s.samples.q.max(axis=0) - s.samples.q.min(axis=0) for s in surveys], axis=0)
    equation = Equation.for_robot(
        robot,
        options,
        friction=DEFAULT if options.friction_blocks is None else options.friction_blocks,
        scale=joint_scales(robot, span),
        transmission=_common_transmission(logs, robot),
    )
    if options.cutoff is None and treatments[0].cutoff is not None and is_explained_exactly(equation, surveys):
        reason = "the recorded motion explains the measurements up to rounding: nothing is filtered"
        treatments = tuple(_unfiltered_treatment(s, options.delay) for s in surveys)
    noises = [_motion_noise_of(x, equation.shapes.scale) for x in treatments if x.smooth and x.cutoff is not None]
    if noises:
        position, filtered, velocity = np.max(noises, axis=0)
        held = stop_width_at_rest(float(position))
        if velocity < REST[0] / 3.0 and filtered < held / 10.0:  # else rest looks like motion
            equation = replace(equation, shapes=replace(equation.shapes, held=held))
    length = block_seconds(surveys, options)
    outliers = None
    if options.is_robust:
        nominal = [choice.cutoff if choice.series else 0.0 for choice in choices]
        outliers = fit_outlier_model(equation, logs, surveys, treatments, nominal)
    noise = _motion_noise(options, surveys, choices, treatments)
    state = State(
        equation, treatments[0].cutoff, reason, options.delay, options.friction_blocks is None, motion_noise=noise
    )
    if options.friction_blocks is None or "load" in equation.friction:
        equation = _with_first_estimate(state, logs, surveys, treatments, block=length, outliers=outliers)
        outliers = None if outliers is None else outliers.with_empty_tally()
    state = replace(state, equation=equation, outliers=outliers)
    watched = logs_with_common_progress(logs, on_progress, "reading")
    state = accumulate(state, watched, surveys, treatments, block=length, outliers=outliers)
    state = drop_repeated_samples(state)
    unsure = max(choice.unsure for choice in choices)
    state = replace(
        state, loop=state.items_of_remaining_logs(_control_loop_noise(surveys, treatments)), noise_unsure=unsure
    )
    of_torques = equation.torque_equation() if torques and all(map(_has_torques, logs, surveys)) else None
    if of_torques is None:
        return state
    watched = logs_with_common_progress(logs, on_progress, "reading torques")
    outliers = None if outliers is None else outliers.with_empty_tally()
    rows = accumulate(
        replace(state, equation=of_torques), watched, surveys, treatments, block=length, outliers=outliers
    )
    return replace(state, torques=rows.blocks, kept_torques=rows.kept)


def _has_torques(log: Log, seen: Survey) -> bool:
    """Whether joint torques were recorded, in N m."""
    tau = seen.samples.tau
    return tau is not None and bool(np.any(tau, axis=0).all()) and IN_CURRENT not in log.notes


def _refuse_standstill(robot: Robot, logs: Sequence[Log], surveys: Sequence[Survey]) -> None:
    """Raise LogError where no joint moves in any log: nothing can be identified then."""
    spans = [s.samples.q.max(axis=0) - s.samples.q.min(axis=0) for s in surveys]
    if all(s.standing_joints(joint_scales(robot, span)).all() for s, span in zip(surveys, spans, strict=True)):
        raise LogError(
            ', '.join(log.name for log in logs), "no_joint_moves", "no joint moves, so nothing can be identified",
            "record the robot in motion (dynid excite designs one), or check that these are measured positions",
        )  # fmt: skip


def collect_torques_like(state: State, logs: Sequence[Log], *, outliers: OutlierModel | None = None) -> State | None:
    """State of the joint torques of other logs, where the given state has such; None where it has not."""
    of_torques = state.equation.torque_equation() if state.torques else None
    if of_torques is None:
        return None
    surveys = [survey(log, state.equation.robot, measured=(), joints=state.equation.joints) for log in logs]
    if not all(map(_has_torques, logs, surveys)):
        return None
    return collect_logs_like(
        replace(state, equation=of_torques), logs, outliers=None if outliers is None else outliers.with_empty_tally()
    )


def collect_logs_like(
    state: State,
    logs: Sequence[Log],
    *,
    outliers: OutlierModel | None = None,
    on_progress: Progress | None = None,
    validate: bool = True,
) -> State:
    """Read other logs with the equation and treatment of a state; outliers: where they are parts of its logs.

    validate: they are predicted only, so that it does not matter what noise of their motion would show.
    """
    equation = state.equation
    surveys = tuple(
        survey(log, equation.robot, measured=equation.options.required_channels, joints=equation.joints) for log in logs
    )
    treatments = tuple(treatment_of_further_log(s, state.cutoff, state.delay) for s in surveys)
    if validate:
        treatments = tuple(replace(treatment, noise=None) for treatment in treatments)
    watched = logs_with_common_progress(logs, on_progress, "validating")
    length = block_seconds(surveys, equation.options)
    return accumulate(state, watched, surveys, treatments, block=length, outliers=outliers)


def drop_logs_in_state(others: State, state: State) -> tuple[State, tuple[Message, ...]]:
    """Drop from `others` the samples that a state was made from, with warnings; all, where these are most."""
    unseen = drop_repeated_samples(others, state.findings)
    known = "{part} does not count as validation: the parameters were identified from these samples"
    warnings = [
        Message(
            "validation_data_already_used", known + ("" if repeat.name == repeat.other else ", which {other} holds"),
            part=repeat.describe_repeated_share, log=repeat.name, other=repeat.other, share=repeat.share,
        )
        for repeat in unseen.repeats
        if repeat.of < 0
    ]  # fmt: skip
    if warnings and 2 * len(unseen.blocks) < len(others.blocks):
        unseen = replace(unseen, blocks=(), settling=(), kept=(), findings=())
        warnings.append(Message(
            "validation_on_held_out_parts", "held-out stretches of the logs validate instead",
            "validate on another recording",
        ))  # fmt: skip
    return unseen, tuple(warnings)


def choose_treatments(
    surveys: tuple[Survey, ...], choices: Sequence[CutoffChoice], options: Options
) -> tuple[tuple[Treatment, ...], str]:
    """Treatments of all logs with one cut-off, given or chosen from the data, and the reason in words."""
    complete = all(choice.clean for choice in choices)
    if options.cutoff is not None:
        cutoff, reason = options.cutoff, "given"
        for s in surveys:
            if cutoff >= 0.5 * s.rate:
                raise IdentificationError(
                    "cutoff_above_nyquist", "a cut-off of {cutoff:.4g} Hz is not below half the sampling rate of "
                    "{rate:.4g} Hz", "give a lower one", cutoff=cutoff, rate=s.rate,
                )  # fmt: skip
    elif not all(choice.series for choice in choices):
        return tuple(_unfiltered_treatment(s, options.delay) for s in surveys), choices[0].reason
    elif complete and options.friction_blocks is not None:
        return tuple(_unfiltered_treatment(s, options.delay) for s in surveys), (
            "velocities and accelerations are recorded and free of noise: nothing is filtered"
        )
    else:
        best = min(choices, key=lambda choice: choice.cutoff)
        cutoff, reason = best.cutoff, best.reason
    pairs = zip(surveys, choices, strict=True)
    return tuple(_filtered_treatment(s, choice, cutoff, options.delay) for s, choice in pairs), reason


def treatment_of_further_log(seen: Survey, cutoff: float | None, delay: float) -> Treatment:
    """Treatment of a further log with the cut-off and the delay of those before it."""
    return (
        _unfiltered_treatment(seen, delay)
        if cutoff is None
        else _filtered_treatment(seen, choose_cutoff(seen), cutoff, delay)
    )


def _filtered_treatment(seen: Survey, choice: CutoffChoice, cutoff: float, delay: float) -> Treatment:
    """Treatment that filters a log with this cut-off (Hz)."""
    return Treatment(seen.rate, cutoff, not choice.clean, delay, choice.motion_cutoff(cutoff), noise=choice.sigma)


def _unfiltered_treatment(seen: Survey, delay: float) -> Treatment:
    """Treatment of a log as recorded, which needs velocities and accelerations."""
    if seen.samples.v is None or seen.samples.a is None:
        raise IdentificationError(
            "positions_too_rough", "positions jump about from row to row, so velocities and accelerations cannot be "
            "found from them", "check the columns of time and positions, or record more samples per second, or "
            "velocities and accelerations too",
        )  # fmt: skip
    return Treatment(seen.rate, None, False, delay)


def _motion_noise_of(treatment: Treatment, scale: Array) -> tuple[float, float, float]:
    """Largest standard deviations of white noise in recorded and filtered positions (rad), and filtered velocities.

    scale (n,): what stands for one rad. Velocities that are not recorded are derivatives of the positions.
    """
    if treatment.noise is None or treatment.cutoff is None:
        return 0.0, 0.0, 0.0
    position, recorded, _ = treatment.noise / scale
    derived = 2.0 * np.pi * treatment.cutoff * position / np.sqrt(3.0)
    passed = np.sqrt(2.0 * treatment.cutoff / treatment.rate)
    largest, velocity = (
        float(np.nanmax(np.append(x, 0.0))) for x in (position, np.where(np.isnan(recorded), derived, recorded))
    )
    return largest, passed * largest, passed * velocity


def _motion_noise(
    options: Options, surveys: tuple[Survey, ...], choices: Sequence[CutoffChoice], treatments: tuple[Treatment, ...]
) -> float:
    """Noise of derived accelerations, as a share of them, in the noisiest log."""
    logs = zip(surveys, choices, treatments, strict=True)
    derived = [(choice, t.cutoff) for s, choice, t in logs if s.samples.a is None and t.cutoff is not None]
    if options.is_integral or not derived:
        return 0.0
    return max(choice.noise_share(cutoff) for choice, cutoff in derived)


def _control_loop_noise(surveys: tuple[Survey, ...], treatments: tuple[Treatment, ...]) -> tuple[LoopNoise | None, ...]:
    """Noise of the encoders that the controller feeds back into the torques, per log."""
    return tuple(
        control_loop_noise(s, treatment.cutoff) if treatment.cutoff is not None and treatment.smooth else None
        for s, treatment in zip(surveys, treatments, strict=True)
    )


def block_seconds(surveys: tuple[Survey, ...], options: Options) -> float:
    """Seconds per block: a twelfth of the recordings, at least 0.1, at most one or two windows of a balance."""
    total = sum(len(s.samples) / s.rate for s in surveys)
    return float(np.clip(total / 12.0, 0.1, max(BLOCK, 2.0 * (options.window_seconds if options.is_integral else 0.0))))


def _with_default_window(
    options: Options, choices: Sequence[CutoffChoice], treatments: tuple[Treatment, ...]
) -> Options:
    """Options with a window from the band of the motion, where none was given, in whole steps of the first log."""
    if not options.is_integral:
        return options
    if not all(choice.series for choice in choices):
        raise IdentificationError(
            "model_needs_time_order", "model '{model}' integrates over time, but the rows are postures that are not "
            "ordered in time",
            "use {torque} or {power}", model=options.model, torque=Option("model", "torque"),
            power=Option("model", "power"),
        )  # fmt: skip
    if options.window is None:
        band = max(choice.band for choice in choices) or max(choice.cutoff for choice in choices) / LEAST
        options = replace(options, window=PERIODS / band)
    if options.spans:
        return options
    return replace(options, window=2 * options.half_window(treatments[0]) / treatments[0].row_writing_rate)


def _with_first_estimate(
    state: State,
    logs: Sequence[Log],
    surveys: tuple[Survey, ...],
    treatments: tuple[Treatment, ...],
    *,
    block: float,
    outliers: OutlierModel | None,
) -> Equation:
    """Equation with the rigid torque estimated from the beginning of every log, for the load block."""
    equation = state.equation
    first = tuple(b for b in equation.friction if b != "load") or PLAIN
    simple = equation.with_friction(first)
    seen = tuple(
        log if np.isfinite(log.interval).any() else Log.from_source(ArraySource(log.name, s.samples))  # not read again
        for log, s in zip(logs, surveys, strict=True)
    )
    treatments = tuple(replace(treatment, noise=None) for treatment in treatments)
    simple_state = replace(state, equation=simple)
    blocks = accumulate(simple_state, seen, surveys, treatments, block=block, most=ROWS, outliers=outliers).blocks
    unknowns = Unknowns.for_equation(simple, first, len(logs))
    solution = solve(unknowns, total_factors(blocks))
    place = unknowns.place[0, : simple.rigid_column_count]
    values = np.where(place >= 0, solution.values[place], 0.0)
    everything = (*DEFAULT, *OPTIONAL) if state.recipe else equation.friction
    return equation.with_friction(everything).with_rigid_estimate(values)


def _common_transmission(logs: Sequence[Log], robot: Robot) -> Array | None:
    """The transmission that all logs share, None where there is none; raise where they differ."""
    couplings = [log.coupling for log in logs if log.coupling is not None]
    if not couplings:
        return None
    if len(couplings) != len(logs) or any(not np.allclose(c, couplings[0]) for c in couplings):
        raise LogError(
            logs[0].name, "transmissions_differ", "the logs have different transmissions", "give all the same "
            "{gear}", gear=Option("gear"),
        )  # fmt: skip
    if couplings[0].shape != (robot.n, robot.n):
        raise LogError(
            logs[0].name, "wrong_shape", "its transmission has shape {shape!s}, not ({n}, {n})",
            shape=couplings[0].shape, n=robot.n,
        )  # fmt: skip
    return couplings[0]
