"""Mistakes in recordings of commands and in what is said of controllers: those that are certain are errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from dynid.actuators.controller import COMMAND, Controller
from dynid.actuators.equation import Equation, command_rate
from dynid.actuators.estimate import COLLINEAR, LAGS, DriveFit, Estimator, JointRows, SharedColumns, parabola_vertices
from dynid.actuators.rollout import RolloutErrors
from dynid.dynamics.regressor import regressor_chunks
from dynid.errors import FIX_THE_BASE, IdentificationError, LogError
from dynid.estimation.diagnostics.verdict import Level, Verdict
from dynid.logs.commands import CommandedMotion
from dynid.messages import ANYTHING, Message, Option, Wording
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array, freeze

STILL = 5e-3
"""Travel (rad) of a joint below which nothing is learnt of its drive."""

WANDERS, UNRELATED = 0.1, 0.3
"""Travel (rad) of a joint that a command must cause, and the correlation with it below which it does not."""

FARTHER = 4.5
"""Ratio of the travels of commands and positions from which on they are of different units."""

POOR = 0.3
"""Error of the torques, as a share of their size, from which on a fit is doubted."""

DEGREES = 180.0 / np.pi


def check_robot(robot: Robot) -> tuple[Message, ...]:
    """Raise for robots that float, and links of unknown inertia; return a warning where links have none."""
    if robot.floating:
        raise IdentificationError(
            "floating_base", "'{robot}' floats: contacts would act on it, which commands do not show", "put the robot "
            "on a "
            "stand, and {fix}", robot=robot.name, fix=FIX_THE_BASE,
        )  # fmt: skip
    unknown = [name for name, x in zip(robot.parameter_names, robot.parameters, strict=True)
               if np.isnan(x) and name.symbol != "Ia"]  # fmt: skip
    if unknown:
        raise IdentificationError(
            "missing_parameter_values", "'{robot}' has no nominal value for {unknown:6}", "add them to the robot file: "
            "commands alone do not weigh links", robot=robot.name, unknown=unknown,
        )  # fmt: skip
    if any(x for name, x in zip(robot.parameter_names, robot.parameters, strict=True) if name.symbol != "Ia"):
        return ()
    return (Message(
        "links_without_mass", "'{robot}' has no masses and inertias: what its drives move is not known, and armatures "
        "hold all of it", "add them to the robot file", robot=robot.name,
    ),)  # fmt: skip


def check_recording(log: CommandedMotion, robot: Robot, controller: Controller) -> tuple[Message, ...]:
    """Raise for commands and positions that cannot belong together; return warnings on joints that stand still."""
    for kind in dict.fromkeys(controller.kind):
        wanted = COMMAND[kind]
        if wanted not in log.commands and not (kind == "servo" and "pwm" in log.commands):
            raise LogError(
                log.name, "missing_commands", "the controller is of kind '{kind}', but there is no {command}; found "
                "{found}", "name the columns with {columns}, or give another kind", kind=kind, command=wanted,
                found=list(log.commands), columns=Option("columns", {wanted: ANYTHING}),
            )  # fmt: skip
    if not 1e-5 < log.period < 0.06:
        raise LogError(
            log.name, "log_rate_unfit", "it has {rate:.3g} samples per second; 20 to 10,000 are needed to see a drive",
            "check the unit of time with {units}, or record faster", rate=1.0 / log.period,
            units=Option("units", {"t": ANYTHING}),
        )  # fmt: skip
    names = robot.joint_names
    travel = np.ptp(log.q, axis=0)
    _check_degrees(log, robot)
    if (travel < STILL).all():
        raise LogError(
            log.name, "no_motion", "no joint moves by more than {limit} rad in it", "record a motion",
            limit=STILL,
        )  # fmt: skip
    q_cmd = log.commands.get("q_cmd")
    follows = [j for j, kind in enumerate(controller.kind) if kind in ("position", "servo")]
    if q_cmd is not None and follows:
        _check_commands_follow(log, "q_cmd", q_cmd, log.q, follows, names)
    v_cmd = log.commands.get("v_cmd")
    follows = [j for j, kind in enumerate(controller.kind) if kind == "velocity"]
    if v_cmd is not None and follows:
        _check_commands_follow(log, "v_cmd", v_cmd, _rough_velocity(log), follows, names)
    said = []
    still = [names[j] for j in range(robot.n) if travel[j] < STILL]
    if still:
        said.append(Message(
            "joint_stands_still", "{log}: joints {joints} hardly move: their drives cannot be identified", "move them "
            "too", log=log.name, joints=still,
        ))  # fmt: skip
    follows = [j for j, kind in enumerate(controller.kind) if kind in ("position", "servo") and travel[j] > WANDERS]
    apart = [j for j in follows if q_cmd is not None and _correlation(q_cmd[:, j], log.q[:, j]) < UNRELATED]
    if apart:
        said.append(Message(
            "command_unrelated", "{log}: joints {joints} move, but not as their commands do", "name the columns with "
            "{columns}; do these commands belong to this run?", log=log.name, joints=[names[j] for j in apart],
            columns=Option("columns", {f"q_cmd.{names[apart[0]]}": ANYTHING}),
        ))  # fmt: skip
    return (*said, *_doubts_about_rate(log, controller))


def _correlation(x: Array, y: Array) -> float:
    """Correlation of two signals; 0 where one is constant."""
    x, y = x - x.mean(), y - y.mean()
    return float(x @ y / max(float(np.linalg.norm(x) * np.linalg.norm(y)), 1e-300)) if np.ptp(x) > 1e-9 else 0.0


def _doubts_about_rate(log: CommandedMotion, controller: Controller) -> list[Message]:
    """Warning on a rate of the controller that the recorded commands contradict, or cannot show."""
    told, sampled = controller.rate, 1.0 / log.period
    if np.isnan(told):
        return []
    seen = command_rate(log)
    changes = np.mean([(np.diff(x, axis=0) != 0.0).any(axis=1).mean() for x in log.commands.values()])
    if np.isnan(seen) and changes > 0.9:
        seen = sampled  # or more
    if not np.isnan(seen) and (told < 0.8 * seen or (seen < 0.8 * sampled and told > 1.25 * seen)):
        return [Message(
            "rate_wrong", "{log}: a rate of {told:.4g} Hz was given, but commands change {seen:.4g} times per second",
            "correct rate in {controller}, or leave it out", log=log.name, told=told, seen=seen,
            controller=Option("controller"),
        )]  # fmt: skip
    if told > 1.2 * sampled:
        less = 0.5e3 * (log.period - 1.0 / told)
        return [Message(
            "rate_not_visible", "{log}: it has {sampled:.4g} samples per second, the controller is declared to have "
            "{told:.4g}: the commands in between are not recorded, and if it has no more than the log the delay is "
            "{less:.2g} ms shorter", "record every command, or leave rate out if the log has them all", log=log.name,
            told=told, sampled=sampled, less=less,
        )]  # fmt: skip
    return []


def _check_degrees(log: CommandedMotion, robot: Robot) -> None:
    """Raise for angles in degrees."""
    revolute = np.array([robot.links[k].kind == "revolute" for k in robot.active_links])
    bound = np.abs(np.nan_to_num(robot.limits.position, posinf=7.0, neginf=-7.0)).max(axis=1)
    most = np.abs(log.q).max(axis=0)
    beyond = revolute & (most > np.maximum(3.0 * bound, 10.0))
    if (beyond & (most > DEGREES * np.maximum(3.0 * bound, 10.0))).any():
        j = int(np.argmax(np.where(beyond, most, 0.0)))
        raise LogError(
            log.name, "positions_in_other_units", "positions of joint '{joint}' reach {most:.4g}, its limits are at "
            "{limit:.3g} rad: are they steps of an encoder?", "turn them into radians: 2 pi / steps per turn",
            joint=robot.joint_names[j], most=float(most[j]), limit=float(bound[j]),
        )  # fmt: skip
    if beyond.any():
        raise LogError(
            log.name, "positions_in_degrees", "positions of joint '{joint}' reach {most:.3g}, its limits are at "
            "{limit:.3g} rad: are they in degrees?", "then use {units}",
            joint=robot.joint_names[int(np.argmax(beyond))], most=float(np.abs(log.q).max(axis=0)[beyond][0]),
            limit=float(bound[beyond][0]), units=Option("units", {"q": "deg"}),
        )  # fmt: skip
    q_cmd = log.commands.get("q_cmd")
    if q_cmd is None:
        return
    moving = revolute & (np.ptp(log.q, axis=0) > WANDERS) & (np.ptp(q_cmd, axis=0) > 1e-9)
    for k in np.flatnonzero(moving):
        j = int(k)
        ratio = float(np.std(q_cmd[:, j])) / max(float(np.std(log.q[:, j])), 1e-9)
        if 1.0 / FARTHER < ratio < FARTHER or abs(_correlation(q_cmd[:, j], log.q[:, j])) < 0.8:
            continue
        whose, other = ("commands", "positions") if ratio > 1.0 else ("positions", "commands")
        ratio = max(ratio, 1.0 / ratio)
        degrees = 0.6 < ratio / DEGREES < 1.6
        raise LogError(
            log.name, "commands_in_degrees" if degrees else "commands_in_other_units", "{whose} of joint '{joint}' "
            "move {ratio:.4g} times as far as {other}: are {whose} in " + ("degrees?" if degrees else
            "turns or steps of an encoder?"), "say so in the names of their columns, such as 'q_cmd1 [deg]'" if degrees
            else "turn both into radians", whose=whose, other=other, joint=robot.joint_names[j], ratio=ratio,
        )  # fmt: skip


def _rough_velocity(log: CommandedMotion) -> Array:
    """Velocity (N, n) by differences over some samples, for comparisons."""
    width = max(round(0.02 / log.period), 1)
    span = log.t[2 * width :] - log.t[: -2 * width]
    inner = (log.q[2 * width :] - log.q[: -2 * width]) / span[:, None]
    return np.pad(inner, ((width, width), (0, 0)), mode="edge")


def _check_commands_follow(
    log: CommandedMotion, command: str, sent: Array, seen: Array, follows: Sequence[int], names: Sequence[str]
) -> None:
    """Raise for commands that are what was measured, of other joints, reversed, in degrees, or never change."""
    columns = Option("columns", {command: ANYTHING})
    if np.allclose(sent[:, follows], seen[:, follows], rtol=0.0, atol=1e-12):
        raise LogError(
            log.name, "commands_are_positions", "commands and positions are the same numbers", "name the columns of "
            "the commands with {columns}", columns=columns,
        )  # fmt: skip
    moving = [j for j in follows if np.ptp(log.q[:, j]) > STILL]
    dead = [names[j] for j in moving if np.ptp(sent[:, j]) < 1e-9]
    if dead and len(dead) == len(moving):
        raise LogError(
            log.name, "commands_constant", "the commands of joints {joints} never change", "record a commanded motion, "
            "or name the columns with {columns}", joints=dead, columns=columns,
        )  # fmt: skip
    live = [j for j in moving if names[j] not in dead]
    if len(live) < 1:
        return
    x = sent[:, live] - sent[:, live].mean(axis=0)
    y = seen[:, live] - seen[:, live].mean(axis=0)
    ratio = float(np.median(np.std(x, axis=0) / np.maximum(np.std(y, axis=0), 1e-9)))
    if command == "v_cmd" and 0.5 < ratio / DEGREES < 2.0:
        raise LogError(
            log.name, "commands_in_degrees", "velocity commands are {ratio:.3g} times the velocities: are they in "
            "degrees per second?", "say so in the names of their columns, such as 'v_cmd1 [deg/s]'", ratio=ratio,
        )  # fmt: skip
    r = (x.T @ y) / np.outer(np.linalg.norm(x, axis=0), np.linalg.norm(y, axis=0))
    for k, j in enumerate(live):
        if r[k, k] < -0.5:
            raise LogError(
                log.name, "command_reversed", "joint '{joint}' moves against its command (correlation {r:.2f})",
                "turn the positions with {sign}, or the command in the file", joint=names[j], r=float(r[k, k]),
                sign=Option("sign", [f"q.{names[j]}"]),
            )  # fmt: skip
        best = int(np.argmax(r[:, k]))
        if best != k and r[best, k] > 0.9 and r[k, k] < 0.6:
            raise LogError(
                log.name, "command_of_other_joint", "joint '{joint}' follows the command of '{other}' (correlation "
                "{r:.2f}, with its own {own:.2f})", "name the columns with {columns}", joint=names[j],
                other=names[live[best]], r=float(r[best, k]), own=float(r[k, k]),
                columns=Option("columns", {f"{command}.{names[j]}": ANYTHING}),
            )  # fmt: skip


def check_delay(delay: object, option: str = "delay") -> float | None:
    """A given delay in s, checked; None for 'auto'."""
    if isinstance(delay, str) and delay == "auto":
        return None
    if isinstance(delay, bool) or not isinstance(delay, int | float | np.number) or not np.isfinite(float(delay)):
        raise IdentificationError(
            "invalid_delay", "{option} must be 'auto' or seconds, got {value!r}", "8 ms are 0.008",
            option=Option(option), value=str(delay)[:40],
        )  # fmt: skip
    seconds = float(delay)
    if not 0.0 <= seconds <= 0.5:
        raise IdentificationError(
            "invalid_delay", "{option}: {value:.4g} s is not a delay of a drive", "give seconds: 8 ms are 0.008"
            if seconds > 0.0 else "give 0 or more", value=seconds, option=Option(option),
        )  # fmt: skip
    return seconds


def doubts_about_fit(
    equation: Equation, fit: DriveFit, parts: Sequence[CommandedMotion], others: Sequence[DriveFit], sought: bool,
    loose: Sequence[int], given: Controller,
) -> list[Message]:  # fmt: skip
    """Warnings on what a fit shows of wrong gains, inertias, loops and time stamps; loose: joints with backlash.

    given: the controller without limits that were found, which wrong gains pretend.
    """
    robot, c = equation.robot, equation.controller
    warnings: list[Message] = []
    period = max(part.period for part in parts)
    if sought:
        warnings += _doubts_about_delay(fit, period)
    if sought and not warnings and (fit.nrmse > POOR).any():
        warnings += _doubts_about_clocks(parts, period)
    names = robot.joint_names
    still = [j for j in range(robot.n) if max(float(np.ptp(part.q[:, j])) for part in parts) < STILL]
    low = [j for j in range(robot.n) if _torque_beyond_limit(equation, fit, j) and j not in still]
    poor = [j for j in range(robot.n) if fit.nrmse[j] > POOR and j not in still]
    if low:
        warnings.append(Message(
            "torque_limit_too_low", "the motion of joints {joints} needs more than their max_torque",
            "check max_torque", joints=[names[j] for j in low],
        ))  # fmt: skip
    elif limits := doubts_about_limits(equation, fit, given, sought):
        warnings = limits  # they look like delays, too
    elif poor:
        said = _explain_poor_fit(equation.with_controller(given), fit, poor, sought)
        if said.code != "poor_fit":
            warnings = [said]  # it explains a strange delay, too
        elif not warnings and not set(poor) <= set(loose):
            warnings.append(said)
    negative = [names[j] for j in range(robot.n)
                if fit.values[j]["Ia"] + 3.0 * fit.sigma[j]["Ia"] < 0.0 and fit.nrmse[j] <= POOR]  # fmt: skip
    if negative:
        warnings.append(Message(
            "armature_negative", "the armature of joints {joints} is negative: the links of the file are too heavy, or "
            "the gains of the controller too small", "check masses and gains", joints=negative,
        ))  # fmt: skip
    brakes = [names[j] for j in range(robot.n)
              if fit.values[j]["Fv"] + 3.0 * fit.sigma[j]["Fv"] < 0.0 and fit.nrmse[j] <= POOR]  # fmt: skip
    if brakes:
        warnings.append(Message(
            "damping_negative", "the damping of joints {joints} is negative: kd of the controller may be too large, or "
            "its loop is closed with delayed positions", "check kd, and say loop = 'host' or 'drive'", joints=brakes,
        ))  # fmt: skip
    if sought and (late := _late_positions(equation, fit)) is not None:
        return [late]
    named = {warning.code for warning in warnings} & (GROSS - {"poor_fit"})
    if not named and (scaled := doubts_about_command_scale(equation.with_controller(given), fit)):
        warnings = [*scaled, *(warning for warning in warnings if warning.code != "poor_fit")]
    usual = float(np.median(fit.delays))
    spread = [names[j] for j in range(robot.n) if np.ptp(fit.delays) > 0.0 and fit.nrmse[j] < POOR
              and abs(fit.delays[j] - usual) > 3e-3 + fit.delay_sigma]  # fmt: skip
    if sought and spread and len(spread) <= max(1, robot.n // 3):
        warnings.append(Message(
            "delays_differ", "joints {joints} have different delays ({delays}) from the others ({delay:.2g} ms)",
            "record them separately, while the others stand still, held with {lock}", joints=spread, delay=1e3 * usual,
            delays=[f"{1e3 * fit.delays[names.index(name)]:.1f} ms" for name in spread], lock=Option("lock"),
        ))  # fmt: skip
    explained = {warning.code for warning in warnings} & (GROSS - {"poor_fit"})  # whose symptom it would be
    for other in others:
        if other.loop != fit.loop and c.loop == "auto" and not explained:
            change = np.median(np.abs([o["Ia"] / f["Ia"] - 1.0 for o, f in zip(other.values, fit.values, strict=True)]))
            if change > 0.05 and relative_squares(equation, other, fit) < 1.05:
                warnings.append(Message(
                    "loop_undecided", "the data do not show whether the drive or a host closes the loop; '{loop}' is "
                    "taken, with '{other}' armatures differ by {change:.0f} %", "say loop = 'drive' or 'host' in "
                    "{controller}", loop=fit.loop, other=other.loop, change=100.0 * float(change),
                    controller=Option("controller"),
                ))  # fmt: skip
    return warnings


def _late_positions(equation: Equation, fit: DriveFit) -> Message | None:
    """Message where positions of one joint are stamped later, or earlier, than those of the others.

    A drive with a delay of its own fits by itself at that delay; positions that are late do not fit the motion of the
    other joints either. Those of each joint are moved by whole samples.
    """
    n, period = equation.robot.n, max(part.period for part in equation.parts)
    if n < 2 or np.ptp(fit.delays) == 0.0:
        return None
    own = Estimator(equation, sensor_delay=fit.sensor_delay)
    apart = sum(float(own.score(float(fit.delays[j]), fit.loop)[1][j]) for j in range(n))

    def score_at(j: int, samples: int) -> float:
        """Likelihood with the positions of a joint so many samples earlier."""
        moved = equation.with_parts([_with_moved_positions(part, j, samples) for part in equation.parts])
        estimator = Estimator(moved, sensor_delay=fit.sensor_delay)
        return estimator.score(estimator.search_delay(fit.loop)[0], fit.loop)[0]

    others = np.array([np.median(np.delete(fit.delays, j)) for j in range(n)])
    shifts = np.round((fit.delays - others) / period).astype(np.int64)
    likely = [int(j) for j in np.argsort(-np.abs(shifts))[:LATE_TRIED] if shifts[j]]
    if not likely:
        return None
    _, j = min((score_at(j, int(shifts[j])), j) for j in likely)
    tried = {k * int(shifts[j]): score_at(j, k * int(shifts[j])) for k in range(3)}
    at = np.array(list(tried))
    vertex = round(float(parabola_vertices(at.astype(np.float64), np.array(list(tried.values()))[:, None])[0]))
    if vertex not in tried and abs(vertex) <= 3 * abs(shifts[j]):
        tried[vertex] = score_at(j, vertex)
    samples, score = min(tried.items(), key=lambda one: one[1])
    if score > apart - LATE_CLEAR * n * len(fit.residuals):
        return None
    return Message(
        "positions_late", "positions of joint '{joint}' are stamped about {late:.2g} ms " + ("later" if samples > 0 else
        "earlier") + " than those of the other joints", "move them in the file; all armatures are wrong with it",
        joint=equation.robot.joint_names[j], late=1e3 * abs(samples) * period,
    )  # fmt: skip


LATE_TRIED, LATE_CLEAR = 3, 0.1
"""Joints whose positions are tried at another time, and the gain in likelihood per row that speaks for one."""


def _with_moved_positions(part: CommandedMotion, j: int, samples: int) -> CommandedMotion:
    """A recording with the positions of a joint so many samples earlier; the ends hold still."""
    index = np.clip(np.arange(len(part.t)) + samples, 0, len(part.t) - 1)
    q, v = part.q.copy(), None if part.v is None else part.v.copy()
    q[:, j] = q[index, j]
    if v is not None:
        v[:, j] = v[index, j]
    return replace(part, q=q, v=v)


def relative_squares(equation: Equation, a: DriveFit, b: DriveFit) -> float:
    """Mean ratio of the squares that two fits leave."""
    return float(np.exp(2.0 * (a.score - b.score) / (len(a.residuals) * equation.robot.n)))


def choose_loop(equation: Equation, fits: Sequence[DriveFit]) -> DriveFit:
    """The fit that explains more by 5 %, else the one without negative damping, else the drive's own loop."""
    best = fits[0]
    if len(fits) == 1 or relative_squares(equation, fits[1], best) > 1.05:
        return best
    by_loop = {fit.loop: fit for fit in fits}

    def impossible(fit: DriveFit) -> int:
        return sum(v["Fv"] + 2.0 * s["Fv"] < 0.0 for v, s in zip(fit.values, fit.sigma, strict=True))

    drive, host = by_loop["drive"], by_loop["host"]
    return host if impossible(host) < impossible(drive) else drive


def _doubts_about_clocks(parts: Sequence[CommandedMotion], period: float) -> list[Message]:
    """Warning where positions follow position commands by a time that no search for delays covers."""
    step, most = max(period, 0.004), 0.6
    lags = np.arange(-most, most + step, step)
    total = np.zeros(len(lags))
    for part in parts:
        if "q_cmd" not in part.commands or part.t[-1] - part.t[0] < 3.0 * most:
            return []
        t = np.arange(part.t[0] + most, part.t[-1] - most, step)
        for x, y in zip(part.commands["q_cmd"].T, part.q.T, strict=True):
            if np.ptp(y) > STILL:
                seen = np.interp(t, part.t, y)
                total += [_correlation(np.interp(t - lag, part.t, x), seen) for lag in lags]
    lag = float(lags[int(np.argmax(total))])
    if lag > 0.15:
        return [Message(
            "delay_beyond_search", "positions follow their commands only after {delay:.2f} s: both are stamped by "
            "different clocks", "check the columns and their time", delay=lag,
        )]  # fmt: skip
    return [_early(lag)] if lag < -0.02 else []


def _early(lag: float) -> Message:
    """Warning on positions before their commands, by more than a period; lag in s."""
    return Message(
        "delay_negative", "joints move {early:.0f} ms before their command: both are stamped by different clocks",
        "check the columns and their time", early=-1e3 * lag,
    )  # fmt: skip


def _doubts_about_delay(fit: DriveFit, period: float) -> list[Message]:
    """Warnings on delays that no drive has."""
    if fit.delay > 0.095:
        return [Message(
            "delay_beyond_search", "the delay is at the end of what is searched, {delay:.3g} s: stamps of commands and "
            "positions are of different clocks, or the command is of another joint", "check the columns and their time",
            delay=fit.delay,
        )]  # fmt: skip
    if fit.delay < -max(1.5 * period, 3.0 * fit.delay_sigma):
        return [_early(fit.delay)]
    if fit.delay < -max(1e-3, 3.0 * fit.delay_sigma):
        return [Message(
            "delay_negative", "joints move {early:.2g} ms before their command: positions are stamped late by a "
            "period, or the controller is faster than the log", "give its rate in {controller}",
            early=-1e3 * fit.delay, controller=Option("controller"),
        )]  # fmt: skip
    return []


def notes_on_delay(fit: DriveFit, period: float, sought: bool) -> tuple[Message, ...]:
    """Notes on what a found delay is a sum of, and on one of more than one period of the log."""
    said = []
    if sought:
        said.append(Message(
            "delay_is_a_sum", "the delay includes that of commands and that of recorded positions: only their sum is "
            "visible" if fit.loop == "drive" else "the delay is that of commands, of torques and of the positions that "
            "the host uses: only their sum is visible",
        ))  # fmt: skip
    if fit.delay > period + 3.0 * fit.delay_sigma:
        said.append(Message(
            "delay_beyond_period", "the delay of {delay:.2f} ms is {count:.1f} periods of the log ({period:.2f} ms): "
            "a simulation must keep commands for so long", delay=1e3 * fit.delay, count=fit.delay / period,
            period=1e3 * period,
        ))  # fmt: skip
    return tuple(said)


def note_on_sensor_delay(equation: Equation, fit: DriveFit) -> tuple[Message, ...]:
    """Note on what a sensor delay inside the drive's loop would change, where it was taken as given."""
    c = equation.controller
    kd = np.where([kind in ("position", "velocity") for kind in c.kind], np.nan_to_num(c.kd), 0.0)
    share = np.array([1e-3 * k / max(abs(v["Ia"]), 1e-12) for k, v in zip(kd, fit.values, strict=True)])
    if fit.loop != "drive" or fit.sensor_delay_sigma > 0.0 or not (share > 0.02).any():
        return ()
    worst = int(np.argmax(share))
    return (Message(
        "sensor_delay_assumed", "positions inside the drives' loops are taken to be {lag:.2g} ms old; each ms more "
        "would raise armatures by up to {share:.0f} % (joint '{joint}'), and simulate alike", "give {option} if it is "
        "known, or 'auto'", lag=1e3 * fit.sensor_delay, share=100.0 * float(share[worst]),
        joint=equation.robot.joint_names[worst], option=Option("sensor_delay", "0.001"),
    ),)  # fmt: skip


DOUBTED_LOOP, WRONG_LOOP = 1.03, 1.1
"""Ratios of squares from which on the loop that was not given explains the data so much better that it is named.

With the true one the ratio was at most 0.99 in 20 simulated recordings.
"""


def doubt_about_loop(equation: Equation, fit: DriveFit) -> list[Message]:
    """Warning where a loop that was given explains the torques clearly worse than the other."""
    c = equation.controller
    if c.loop == "auto" or set(c.kind) - {"position", "velocity"} or (fit.nrmse > POOR).all():
        return []
    loop = "host" if fit.loop == "drive" else "drive"
    estimator = Estimator(equation)
    start = estimator.search_delay(loop, step=0.008)[0] if fit.delay_sigma > 0.0 else fit.delay
    other = estimator.solve(start, loop, seek_delay=fit.delay_sigma > 0.0)
    ratio = relative_squares(equation, fit, other)
    if ratio < DOUBTED_LOOP:
        return []
    change = max(abs(o["Ia"] / f["Ia"] - 1.0) for o, f in zip(other.values, fit.values, strict=True))
    return [Message(
        "loop_wrong" if ratio > WRONG_LOOP else "loop_doubted",
        "the data favour loop = '{loop}', with which armatures differ by up to {change:.0f} %",
        "leave loop out of {controller}", loop=loop, change=100.0 * change, controller=Option("controller"),
    )]  # fmt: skip


OTHER_AGE, OTHER_AGE_SHARE, OTHER_AGE_PERIOD = 12.0, 0.01, 0.2
"""Gain in likelihood from which on another age of positions is reported; per row, where none was given.

The last: share of the log's period that splines through its samples leave uncertain.
"""


def doubt_about_sensor_delay(equation: Equation, fit: DriveFit, sought: bool) -> list[Message]:
    """Warning where positions of another age inside the drive's loop explain the torques clearly better."""
    c = equation.controller
    known = not any(c.unknown(j) for j in range(equation.robot.n))
    if fit.loop != "drive" or not known or not set(c.kind) - {"current"} or (fit.nrmse > POOR).all():
        return []
    if equation.jump_weights is not None:
        return []  # a log that is slower than the controller does not show it
    lags = np.unique([fit.sensor_delay, 0.0, 0.0015, 0.004])
    lags = np.r_[fit.sensor_delay, lags[lags != fit.sensor_delay]]  # what is gained is against the first
    lag, sigma, gain = Estimator(equation).find_sensor_delay(fit.delay, fit.loop, seek_delay=sought, lags=lags)
    half = fit.quantile * sigma
    apart = abs(lag - fit.sensor_delay)
    least = OTHER_AGE if fit.sensor_delay else max(OTHER_AGE, OTHER_AGE_SHARE * fit.residuals.size)
    clear = max(2e-4, OTHER_AGE_PERIOD * max(part.period for part in equation.parts))
    if gain < least or apart < 2e-4 or (apart - half < clear and not fit.sensor_delay):
        return []
    closer = np.r_[fit.sensor_delay, LAGS[LAGS != fit.sensor_delay]]
    variants = equation, equation.with_cutoff(0.65 * equation.bandwidth.cutoff), equation.without_block("tanh")
    found = [Estimator(one).find_sensor_delay(fit.delay, fit.loop, seek_delay=sought, lags=closer) for one in variants]
    lag, apart = found[0][0], abs(found[0][0] - fit.sensor_delay)
    half = fit.quantile * float(np.hypot(found[0][1], np.sqrt(np.mean([(x[0] - lag) ** 2 for x in found[1:]]))))
    if apart < 2e-4 or (apart - half < clear and not fit.sensor_delay):
        return []  # filters and the shapes of friction decide it
    other = Estimator(equation, sensor_delay=lag).solve(fit.delay, fit.loop, seek_delay=sought)
    change = max(abs(o["Ia"] / f["Ia"] - 1.0) for o, f in zip(other.values, fit.values, strict=True))
    return [Message(
        "sensor_delay_seen", "the drives seem to close their loops with positions that are {lag:.2f} +- {half:.2f} ms "
        "old; with that armatures differ by up to {change:.0f} %", "use {option}", lag=1e3 * lag, half=1e3 * half,
        change=100.0 * change, option=Option("sensor_delay", "auto"),
    )]  # fmt: skip


OTHER_SCALE, SCALE_CERTAIN = 0.04, 5.0
"""Share by which gravity must weigh torques otherwise than the gains to be reported, and standard deviations."""


def doubts_about_weights(equation: Equation, fit: DriveFit) -> list[Message]:
    """Warning on gains or on zeros of encoders, by which of them explains more of what gravity does."""
    gains, by_gains = _doubts_about_gains(equation, fit)
    zeros, by_zeros = _doubts_about_zeros(equation, fit)
    return gains if by_gains > by_zeros else zeros


def _doubts_about_gains(equation: Equation, fit: DriveFit) -> tuple[list[Message], float]:
    """Warning on gains that gravity and the known inertia of the links weigh otherwise, and what they explain."""
    if (fit.nrmse > POOR).any():
        return [], 0.0  # something else is wrong
    scale, sigma, gain = Estimator(equation, sensor_delay=fit.sensor_delay).torque_scales(fit)
    off = np.abs(scale - 1.0)
    clear = np.flatnonzero((off > OTHER_SCALE) & (off > SCALE_CERTAIN * sigma) & (gain > 1.05))
    if not len(clear):
        return [], 0.0
    c = equation.controller
    kp, alone = scale * c.kp, all(c.kind[j] == "position" for j in clear)
    return [Message(
        "gains_doubted", "gravity and inertia of the links weigh the torques of joints {joints} at {scales} of what "
        "the gains make of the commands" + (", as if kp were {kp}" if alone else ""),
        "check kp and kd, gears and their play, the masses of the file, and the unit of time",
        joints=[equation.robot.joint_names[j] for j in clear],
        scales=[f"{scale[j]:.2f} +- {2.0 * sigma[j]:.2g}" for j in clear], kp=[f"{x:.3g}" for x in kp[clear]],
    )], float(np.log(gain[clear]).sum())  # fmt: skip


FAR_ZERO = 0.15
"""Angle (rad) between the zeros of command and encoder from which on it is reported."""


def doubts_about_command_zeros(equation: Equation, fit: DriveFit) -> list[Message]:
    """Warning on commands whose zeros are far from those of the encoders."""
    c, names = equation.controller, equation.robot.joint_names
    off = {
        names[j]: -v["Fo"] / float(c.kp[j])
        for j, v in enumerate(fit.values)
        if c.kind[j] == "position" and c.kp[j] > 0.0 and abs(v["Fo"]) > FAR_ZERO * c.kp[j] and fit.nrmse[j] <= POOR
    }
    if not off:
        return []
    return [Message(
        "command_zero_seen", "the zeros of commands and encoders of joints {joints} are {angles} rad apart, or a "
        "constant torque acts on them", "check both zeros; a simulation needs the shift as well", joints=list(off),
        angles=[f"{x:+.3f}" for x in off.values()],
    )]  # fmt: skip


ZERO, ZERO_CERTAIN = 0.02, 5.0
"""Angle (rad) by which a zero must be off to be reported, and by how many standard deviations."""


def _doubts_about_zeros(equation: Equation, fit: DriveFit) -> tuple[list[Message], float]:
    """Warning on encoders whose zeros are not those of the robot file, by gravity, and what they explain."""
    robot, n = equation.robot, equation.robot.n
    if np.median(fit.nrmse) > POOR:
        return [], 0.0  # something else is wrong
    revolute = np.array([robot.links[k].kind == "revolute" for k in robot.active_links])
    slopes = np.stack([
        (gravity_torques(equation, robot, 0.01 * unit) - gravity_torques(equation, robot, -0.01 * unit)) / 0.02
        for unit in np.eye(n)
    ], axis=2)[:, :, revolute]  # fmt: skip
    seen = np.flatnonzero(np.abs(slopes).max(axis=(0, 1)) > 1e-3)
    if not len(seen) or any(equation.controller.unknown(j) for j in range(n)):
        return [], 0.0
    names = [name for name, turns in zip(robot.joint_names, revolute, strict=True) if turns]
    columns = SharedColumns(
        [JointRows(equation.rows.fixed[:, j], slopes[:, j], fit.residuals[:, j]) for j in range(n)],
        equation.block_numbers,
    )
    off: dict[str, float] = {}
    chosen: list[int] = []
    while len(chosen) < len(seen):  # one after the other: zeros of parallel joints are hard to distinguish
        best: tuple[float, int, Array] | None = None
        for k in seen:
            if k in chosen:
                continue
            sizes, sigma = columns.solve([*chosen, int(k)], ZERO)
            certain = float(np.abs(sizes[-1]) / max(sigma[-1], 1e-12))
            if abs(sizes[-1]) > ZERO and certain > ZERO_CERTAIN and (best is None or certain > best[0]):
                best = certain, int(k), sizes
        if best is None:
            break
        chosen.append(best[1])
        off = {names[k]: float(x) for k, x in zip(chosen, best[2], strict=True)}
    if not off:
        return [], 0.0
    shifts = np.array(list(off.values()))
    explained = 0.0
    for j in range(n):
        W, b = equation.rows.fixed[:, j], fit.residuals[:, j]
        rest = [x - W @ np.linalg.lstsq(W, x, rcond=COLLINEAR)[0] for x in (b, b - slopes[:, j, chosen] @ shifts)]
        explained += float(np.log((rest[0] @ rest[0]) / max(float(rest[1] @ rest[1]), 1e-300)))
    return [Message(
        "zero_offset_seen", "gravity fits better with the zeros of joints {joints} moved by {angles} rad", "check the "
        "encoders' zeros, or use {zero}", joints=list(off), angles=[f"{x:+.3f}" for x in off.values()],
        zero=Option("zero", {name: round(x, 3) for name, x in off.items()}),
    )], explained  # fmt: skip


GROSS = frozenset(
    "gravity_reversed gravity_missing gravity_elsewhere gravity_absent joint_reversed joints_exchanged "
    "gains_swapped gains_per_degree gains_in_degrees delay_wrong poor_fit delay_beyond_search delay_negative "
    "torque_limit_too_low torque_limit_too_high gains_scaled kp_wrong gains_of_other_joint loop_wrong "
    "command_unrelated command_scaled rate_wrong positions_late".split()
)
"""Warnings after which no number of a result is to be trusted."""

GAINS_OR_SIGNS = frozenset(
    "gravity_reversed gravity_missing gravity_elsewhere gravity_absent joint_reversed joints_exchanged "
    "gains_swapped gains_per_degree gains_in_degrees gains_scaled kp_wrong gains_of_other_joint "
    "torque_limit_too_low torque_limit_too_high".split()
)
"""Warnings that explain why gravity seems to weigh joints otherwise, or to fit better with other zeros."""

MILD = frozenset({"kd_against_damping", "joint_stands_still", "rate_not_visible", "command_zero_seen"})
"""Warnings that leave the other numbers as they are."""


WIDE, TOO_WIDE = 0.05, 0.1
"""Half width of the 95 % interval of an armature, as a share of it, from which on it is named, and is not good."""

SHOWN = 6
"""Joints with wide intervals that a verdict names (`{joints:6}`), the widest first."""


def _weakly_determined(shares: Mapping[str, float]) -> list[Message]:
    """Reason on armatures with wide intervals: these joints hardly accelerate, or their encoders are coarse."""
    wide = sorted((joint for joint, share in shares.items() if share > WIDE), key=lambda joint: -shares[joint])
    if not wide:
        return []
    said = ", ".join(f"{100.0 * shares[joint]:.0f}" for joint in wide[:SHOWN])
    return [Message(
        "armature_weakly_determined", "the armature of joints {joints:6} is known to +- {shares} % "
        "only", "move these joints with larger accelerations, with {design}, or for longer", joints=wide, shares=said,
        design=Wording("design_excitation(purpose='actuators')", "dynid excite --for actuators"),
    )]  # fmt: skip


MATCHED = 5e-4
"""Error of rollouts of 0.5 s (rad) below which torques that nothing explains are noise of stick and slip."""


def judge_drives(
    warnings: Sequence[Message], notes: Sequence[Message], rollout: RolloutErrors | None, armatures: Mapping[str, float]
) -> Verdict:
    """Verdict from warnings, the errors of rollouts on held-out motion, and the widths of the armatures' intervals."""
    matched = rollout is not None and rollout.at(0.5) < MATCHED
    gross = [w for w in warnings if w.code in GROSS and not (w.code == "poor_fit" and matched)]
    others = [w for w in warnings if w not in gross and w.code not in MILD]
    others.sort(key=lambda w: w.code == "loop_undecided")  # often but a symptom
    reasons: list[Message] = []
    worse = share = False
    if rollout is not None:
        k = int(np.argmin(np.abs(rollout.horizons - 0.5)))
        error, moves = float(rollout.after[k]), float(np.std(rollout.curve_measured, axis=0).mean())
        worse, share = error > max(0.25 * moves, 5e-3), error > max(0.05 * moves, 3e-3)
        reasons.append(Message(
            "rollout_error", "rollouts of {horizon:g} s on held-out motion miss by {error:.3g} mrad",
            horizon=float(rollout.horizons[k]), error=1e3 * error,
        ))  # fmt: skip
    else:
        reasons.append(Message("no_rollouts", "no rollout was compared with held-out motion"))
    reasons += _weakly_determined(armatures)
    wide = max(armatures.values(), default=0.0) > TOO_WIDE
    if gross or worse:
        level: Level = "do not trust"
    elif others:
        level = "weak"
    elif warnings or share or rollout is None or wide or any(n.code == "nothing_held_out" for n in notes):
        level = "usable"
    else:
        level = "good"
    ordered = [*gross, *others, *(w for w in warnings if w.code in MILD), *reasons]
    first = next((w for w in ordered if w.remedy), None)
    remedy = "" if first is None else Wording(first.remedy, first.record("command line")["remedy"])
    if level == "good" or first is None:
        step = Message(
            "export_drives", "write them into the simulator's file: {call}" + ("; if their armatures matter, {remedy}"
            if first is not None else ""), why="", remedy=remedy, call=Wording(
                "export(result, 'robot.xml')", "--mjcf robot.xml, or dynid export RESULT robot.xml"),
        )  # fmt: skip
    else:
        step = Message("repair", "{remedy}", why=first.what, remedy=remedy)
    return Verdict(level, tuple(ordered), step, tuple(n for n in notes if n.code == "sensor_delay_assumed"))


@dataclass(frozen=True, eq=False)
class _Alternative:
    """A mistake that may explain a poor fit: the equation without it, in words, and what to do."""

    code: str
    equation: Equation
    how: str
    fix: str | Option
    handicap: float = 1.0
    """Factor of its error in comparisons, where it is free to choose numbers that others have not."""


MOST_JOINTS = 12
"""Joints up to which reversed axes are tried; a third of them for exchanged joints."""


def _alternatives(equation: Equation, fit: DriveFit, poor: Sequence[int], sought: bool) -> list[_Alternative]:
    """Mistakes in gains, delay, gravity, signs and order of joints that are worth a try."""
    robot, c = equation.robot, equation.controller

    def gains(code: str, kp: Array, kd: Array, how: str, fix: str) -> _Alternative:
        return _Alternative(code, equation.with_controller(replace(c, kp=kp, kd=kd)), how, fix)

    made = [
        gains("gains_swapped", c.kd, c.kp, "with kp and kd exchanged", "exchange them"),
        gains("gains_per_degree", c.kp * DEGREES, c.kd * DEGREES, "with gains per degree in place of per radian",
              "multiply kp and kd by 57.3"),
        gains("gains_per_degree", c.kp * DEGREES, c.kd, "with kp per degree in place of per radian",
              "multiply kp by 57.3"),
        gains("gains_in_degrees", c.kp / DEGREES, c.kd / DEGREES, "with gains divided by 57.3",
              "divide kp and kd by 57.3"),
    ]  # fmt: skip
    scale = _best_gain_scale(equation, fit)
    if not 0.8 < scale < 1.25:
        how = f"with gains {scale:.2g} times as large, or masses {1.0 / scale:.2g} times"
        units = "check the units of gains and masses, and gears between motor and joint"
        made.append(gains("gains_scaled", c.kp * scale, c.kd * scale, how, units))
    made += _alternative_kp(equation, fit, poor)
    for i, j in combinations(poor if 1 < len(poor) <= MOST_JOINTS // 2 else (), 2):
        order = np.arange(robot.n)
        order[[i, j]] = j, i
        if c.kind[i] == c.kind[j]:
            names = robot.joint_names
            for which, kd in (("the gains", c.kd[order]), ("kp", c.kd)):
                how = f"with {which} of '{names[i]}' and '{names[j]}' exchanged"
                made.append(gains("gains_of_other_joint", c.kp[order], kd, how, "check the order of kp and kd"))
    if np.isfinite(c.max_torque).any():
        free = equation.with_controller(c.with_values(max_torque=np.full(robot.n, np.inf)))
        made.append(_Alternative("torque_limit_too_low", free, "without limits of torque", "check max_torque"))
    if not sought:
        made.append(_Alternative("delay_wrong", equation, "with a delay by the data",
                                 "leave out the delay that was given"))  # fmt: skip
    down = robot.gravity if np.any(robot.gravity) else np.array([0.0, 0.0, -9.81])
    other = -np.asarray(robot.gravity) if np.any(robot.gravity) else down
    code, how = ("gravity_reversed", "with gravity reversed") if np.any(robot.gravity) else (
        "gravity_missing", "with gravity along -z")  # fmt: skip
    change = gravity_torques(equation, replace(robot, gravity=freeze(np.asarray(other)))) - gravity_torques(
        equation, robot
    )
    fix = Option("gravity", [float(x) + 0.0 for x in other])
    made.append(_Alternative(code, equation.with_rigid(equation.rows.rigid + change), how, fix))
    made += _alternative_gravity(equation, fit)
    if robot.n <= MOST_JOINTS:
        for j, name in enumerate(robot.joint_names):
            sign = np.where(np.arange(robot.n) == j, -1.0, 1.0)
            parts = [part.with_joints(np.arange(robot.n), sign) for part in equation.parts]
            made.append(_Alternative("joint_reversed", equation.with_parts(parts), f"with joint '{name}' reversed",
                                     Option("sign", [f"q.{name}"])))  # fmt: skip
    if robot.n <= MOST_JOINTS // 3:
        for i, j in combinations(range(robot.n), 2):
            order = np.arange(robot.n)
            order[[i, j]] = j, i
            parts = [part.with_joints(order, np.ones(robot.n)) for part in equation.parts]
            names = robot.joint_names
            made.append(_Alternative(
                "joints_exchanged", equation.with_parts(parts), f"with joints '{names[i]}' and '{names[j]}' exchanged",
                Option("order", [names[k] for k in order]),
            ))  # fmt: skip
    return made


def _explain_poor_fit(equation: Equation, fit: DriveFit, poor: Sequence[int], sought: bool) -> Message:
    """Message on torques that are not explained, with the mistake that would explain them, if one does."""
    names, c = equation.robot.joint_names, equation.controller
    found = {"joints": [names[j] for j in poor], "error": 100.0 * float(fit.nrmse[list(poor)].max())}
    what = "torques of joints {joints} are explained poorly (up to {error:.0f} % are left)"
    best: tuple[float, _Alternative] | None = None
    if not any(c.unknown(j) for j in range(len(names))):
        for one in _alternatives(equation, fit, poor, sought):
            estimator = Estimator(one.equation)
            start, _ = estimator.search_delay(fit.loop, step=0.008)
            other = estimator.solve(start, fit.loop, seek_delay=True)
            error = one.handicap * float(np.median(other.nrmse[list(poor)]))
            impossible = np.median(other.nrmse) > 1.2 * np.median(fit.nrmse) or any(
                other.values[j][key] + 2.0 * other.sigma[j][key] < 0.0 for j in poor for key in ("Ia", "Fv", "Fc")
            )
            if not impossible and (best is None or error < best[0]):
                best = error, one
    if best is not None and best[0] < 0.5 * float(np.median(fit.nrmse[list(poor)])) and best[0] < POOR:
        return Message(
            best[1].code, what + "; {how} only {better:.0f} %", "{fix}" if isinstance(best[1].fix, str) else
            "use {fix}, or correct the robot file", **found, how=best[1].how, fix=best[1].fix,
            better=100.0 * best[0] / best[1].handicap,
        )  # fmt: skip
    return Message(
        "poor_fit", what, "check gains, units, the order of joints, contacts of the robot with its surroundings, "
        "loose gears, and the masses of the file", **found,
    )  # fmt: skip


def gravity_torques(equation: Equation, robot: Robot, shift: Array | float = 0.0) -> Array:
    """Torques (M, n) of gravity at the rows, not filtered, with positions shifted (n,)."""
    t, q = equation.row_positions
    X = robot.parameters.copy()
    X[[k for k, name in enumerate(robot.parameter_names) if name.symbol == "Ia"]] = 0.0
    still = np.zeros_like(q)
    chunks = regressor_chunks(robot, Motion(t, q + shift, still, still), model="static")
    return np.concatenate([(W.matrix @ X).reshape(-1, robot.n) for W in chunks])


LIKE_GRAVITY, UPRIGHT = 0.15, 0.2
"""Share by which the size of a gravity that is found may differ from that of the file (or from none), and the angle
(rad) below which it is the same."""


def _alternative_gravity(equation: Equation, fit: DriveFit) -> list[_Alternative]:
    """Gravity from another side, or none, where that is what the torques show: its three components are linear."""
    robot, n = equation.robot, equation.robot.n
    known = np.asarray(robot.gravity, dtype=np.float64)
    size = float(np.linalg.norm(known))
    if not size:
        return []
    none = gravity_torques(equation, replace(robot, gravity=freeze(np.zeros(3))))
    slopes = np.stack([
        gravity_torques(equation, replace(robot, gravity=freeze(unit))) - none for unit in np.eye(3)
    ], axis=2)  # fmt: skip
    b = equation.drive(fit.delay, fit.loop, fit.sensor_delay)[0] - equation.rows.rigid
    seen = [k for k in range(3) if np.abs(slopes[:, :, k]).max() > 1e-6]
    if not seen:
        return []
    rows = [JointRows(equation.rows.fixed[:, j], slopes[:, j], b[:, j]) for j in range(n)]
    found = known.copy()
    found[seen] += SharedColumns(rows, equation.block_numbers).solve(seen)[0]
    share = float(np.linalg.norm(found)) / size
    found = np.zeros(3) if share < LIKE_GRAVITY else np.round(found / share, 2) + 0.0
    turned = float(np.arccos(np.clip(found @ known / size**2, -1.0, 1.0))) if found.any() else np.pi
    if (found.any() and abs(share - 1.0) > LIKE_GRAVITY) or turned < UPRIGHT:
        return []
    rigid = equation.rows.rigid + slopes @ (found - known)
    how = f"with gravity ({', '.join(f'{x:.3g}' for x in found)}) m/s^2" if found.any() else "without gravity"
    code = "gravity_elsewhere" if found.any() else "gravity_absent"
    fix = Option("gravity", [float(x) for x in found])
    return [_Alternative(code, equation.with_rigid(rigid), how, fix, 1.1)]


def _best_gain_scale(equation: Equation, fit: DriveFit) -> float:
    """Factor of all gains that explains the torques best at the delay of a fit; 1 where none is inside the search."""
    c = equation.controller
    factors = np.geomspace(1e-4, 1e4, 73)
    made = [
        _score_per_torque(equation.with_controller(replace(c, kp=c.kp * factor, kd=c.kd * factor)), fit).sum()
        for factor in factors
    ]
    k = int(np.argmin(made))
    return float(factors[k]) if 0 < k < len(factors) - 1 else 1.0


def _score_per_torque(equation: Equation, fit: DriveFit) -> Array:
    """Logarithm (n,) of the errors at the delay of a fit as shares of the torque, which limits keep from growing."""
    own = Estimator(equation, sensor_delay=fit.sensor_delay).score(fit.delay, fit.loop)[1]
    torque = equation.drive(fit.delay, fit.loop, fit.sensor_delay)[0]
    return np.asarray(own / len(torque) - 0.5 * np.log(np.maximum((torque**2).mean(axis=0), 1e-300)))


CLEARER = 0.2
"""Logarithm of the errors' ratio from which on another kp is proposed for a joint that is not explained badly."""


def _alternative_kp(equation: Equation, fit: DriveFit, poor: Sequence[int]) -> list[_Alternative]:
    """Other kp, each joint by itself, where one explains its torque best; some joint that is explained badly is one."""
    c = equation.controller
    factors = np.geomspace(0.1, 10.0, 61)
    sought = [j for j in range(equation.robot.n) if c.kind[j] == "position" and c.kp[j] > 0.0]
    scores = []
    for factor in factors:
        kp = c.kp.copy()
        kp[sought] *= factor
        scores.append(_score_per_torque(equation.with_controller(replace(c, kp=kp)), fit))
    best, gain = np.argmin(scores, axis=0), scores[len(factors) // 2] - np.min(scores, axis=0)
    changed = [
        j for j in sought if 0 < best[j] < len(factors) - 1 and not 0.85 < factors[best[j]] < 1.18
        and (j in poor or gain[j] > CLEARER)
    ]  # fmt: skip
    if not set(changed) & set(poor):
        return []
    kp = c.kp.copy()
    kp[changed] *= factors[best[changed]]
    names = equation.robot.joint_names
    said = ", ".join(f"{kp[j]:.3g} in place of {c.kp[j]:.3g} ('{names[j]}')" for j in changed)
    other = equation.with_controller(replace(c, kp=kp))
    return [_Alternative("kp_wrong", other, f"with a kp of {said}", "check kp, and the masses of the file", 1.25)]


def _torque_beyond_limit(equation: Equation, fit: DriveFit, j: int) -> bool:
    """Whether the motion needs much more torque than the limit allows, friction included, for a share of the time."""
    limit = equation.controller.max_torque[j]
    if not np.isfinite(limit):
        return False
    rows = equation.rows
    friction = rows.fixed[:, j, 1:] @ np.array([fit.recipe[j][name] for name in equation.blocks])
    need = rows.rigid[:, j] + rows.fixed[:, j, 0] * max(fit.values[j]["Ia"], 0.0) + friction
    return bool(np.mean(np.abs(need) > 1.2 * limit) > 0.03)


SCALED, SCALED_SQUARES = 0.15, 2.0
"""Share by which commands must be larger or smaller than angles to be named, and the ratio of squares that shows it."""


def doubts_about_command_scale(equation: Equation, fit: DriveFit) -> list[Message]:
    """Warning on position commands that are a multiple of what the drive follows: of another unit or gear."""
    c, n = equation.controller, equation.robot.n
    asked = [j for j in range(n) if fit.nrmse[j] > LIMITED and c.kind[j] == "position" and c.kp[j] > 0.0]
    if not asked:
        return []
    torque, _ = equation.drive(fit.delay, fit.loop, fit.sensor_delay)
    parts = [s.drive(c, fit.delay, fit.loop, fit.sensor_delay)[1]["kp"] + s.q for s in equation.stretches]
    sent = np.concatenate([equation.filter(x) for x in parts])
    found: dict[str, float] = {}
    for j in asked:
        W, S, b = equation.rows.fixed[:, j], c.kp[j] * sent[:, j, None], torque[:, j] - equation.rows.rigid[:, j]
        size, sigma = SharedColumns([JointRows(W, S, -b)], equation.block_numbers).solve([0])
        rest = [x - W @ np.linalg.lstsq(W, x, rcond=COLLINEAR)[0] for x in (b, b + S[:, 0] * size[0])]
        ratio = float(rest[0] @ rest[0]) / max(float(rest[1] @ rest[1]), 1e-300)
        if ratio > SCALED_SQUARES and abs(size[0]) > max(SCALED, SCALE_CERTAIN * sigma[0]):
            found[equation.robot.joint_names[j]] = 1.0 + float(size[0])
    if not found:
        return []
    return [Message(
        "command_scaled", "drives of joints {joints} follow {scales} times their commands", "check the units of these "
        "commands, and gears", joints=list(found), scales=[f"{x:.2g}" for x in found.values()],
    )]  # fmt: skip


OTHER_LIMIT, OTHER_SQUARES, LIMITED, EXPLAINED = 0.1, 1.1, 0.08, 0.1
"""Share by which another limit of torque differs, and ratio of squares, from which on it is named; error of the torques
(as a share) from which on one below the given limit is looked for, and below which it must bring that: wrong gains
pretend limits, too."""


def doubts_about_limits(equation: Equation, fit: DriveFit, given: Controller, sought: bool) -> list[Message]:
    """Warning on limits of torque that were given, where another one, or none at all, explains the data better."""
    n, c, names = equation.robot.n, equation.controller, equation.robot.joint_names
    known = np.isfinite(given.max_torque) & ~np.array([bool(c.unknown(j)) for j in range(n)])
    reached = np.any([
        (np.abs(s.drive(c, fit.delay, fit.loop, fit.sensor_delay)[2]) > c.max_torque).any(axis=0)
        for s in equation.stretches
    ], axis=0)  # fmt: skip
    asked = known & (reached | (fit.nrmse > LIMITED))
    if not asked.any():
        return []
    free = equation.with_controller(c.with_values(max_torque=np.where(known, np.inf, c.max_torque)))
    near = _best_limits(free, fit, "max_torque", np.where(known, c.max_torque, 1.0), np.geomspace(0.3, 3.0, 15))
    far = torque_limits(free, fit)
    seen = np.where(near[1] > far[1], near[0], far[0])
    seen = np.where(~reached & (seen > c.max_torque), c.max_torque, seen)
    differs = asked & ~(np.abs(seen - c.max_torque) <= OTHER_LIMIT * c.max_torque)
    if not differs.any():
        return []
    limit = np.where(differs, seen, c.max_torque)
    estimator = Estimator(equation.with_controller(c.with_values(max_torque=limit)), sensor_delay=fit.sensor_delay)
    start = estimator.search_delay(fit.loop, step=0.008)[0] if sought else fit.delay
    best = estimator.solve(start, fit.loop, seek_delay=sought)
    ratio = (fit.residuals**2).mean(axis=0) / np.maximum((best.residuals**2).mean(axis=0), 1e-300)
    wrong = [int(j) for j in np.flatnonzero(differs & (ratio > OTHER_SQUARES) & (best.nrmse < EXPLAINED))]
    if not wrong or relative_squares(equation, fit, best) < 1.0:
        return []
    low, free_of_limits = any(limit[j] > c.max_torque[j] for j in wrong), not np.isfinite(limit[wrong]).any()
    return [Message(
        "torque_limit_too_low" if low else "torque_limit_too_high", "the max_torque of joints {joints} does not fit: "
        + ("without limits" if free_of_limits else "with {limits}") + " errors are {ratios} times smaller",
        "check max_torque, or give 'unknown' to have it found", joints=[names[j] for j in wrong],
        ratios=[f"{np.sqrt(ratio[j]):.2g}" for j in wrong],
        limits=[f"{limit[j]:.3g} N m" if np.isfinite(limit[j]) else "no limit" for j in wrong],
    )]  # fmt: skip


def _best_limits(
    equation: Equation, fit: DriveFit, field: str, largest: Array, shares: Array, earlier: Sequence[float] = (0.0,)
) -> tuple[Array, Array]:
    """Limit (n,) of a field of the controller that explains each joint best, and by how much; infinite where none.

    earlier: by how much (s) the delay may be shorter, since a limit looks like a delay.
    """
    c, n = equation.controller, equation.robot.n

    def scores(limit: Array) -> Array:
        own = Estimator(equation.with_controller(c.with_values(**{field: limit})), sensor_delay=fit.sensor_delay)
        return np.asarray(np.min([own.score(fit.delay - x, fit.loop)[1] for x in earlier], axis=0))

    base = scores(np.full(n, np.inf))
    table = np.array([scores(share * largest) for share in shares])
    rows = len(fit.residuals)
    found, gained = np.full(n, np.inf), np.zeros(n)
    best = table.argmin(axis=0)
    clear = base - table.min(axis=0) > max(0.05 * rows, 10.0)  # a tenth of the squares
    if not clear.any():
        return found, gained
    low, high = shares[np.maximum(best - 1, 0)], shares[np.minimum(best + 1, len(shares) - 1)]
    steps = np.linspace(0.0, 1.0, 9)
    for _ in range(2):
        fine = np.array([scores(np.where(clear, (low + (high - low) * x) * largest, np.inf)) for x in steps])
        k = fine.argmin(axis=0)
        width = high - low
        low, high = low + width * steps[np.maximum(k - 1, 0)], low + width * steps[np.minimum(k + 1, 8)]
    place = 0.5 * (low + high)
    found[clear], gained[clear] = (place * largest)[clear], (base - fine.min(axis=0))[clear]
    return found, gained


def torque_limits(equation: Equation, fit: DriveFit) -> tuple[Array, Array]:
    """Torque (n,) at which a drive saturates, where the data show one below the largest torque; else infinite.

    And what each explains, as a gain in likelihood.
    """
    largest = np.max([np.abs(s.drive(equation.controller, fit.delay, fit.loop, 0.0)[2]).max(axis=0)
                      for s in equation.stretches], axis=0)  # fmt: skip
    return _best_limits(equation, fit, "max_torque", largest, np.geomspace(0.25, 0.97, 14))


def refine_limits(equation: Equation, fit: DriveFit, field: str, limits: Array) -> Array:
    """Limits again, about those that were found, now that delay and gains are known with them."""
    found, _ = _best_limits(equation, fit, field, limits, np.geomspace(0.8, 1.25, 9))
    limits = np.where(np.isfinite(found), found, limits)
    if field == "rate_limit" and np.isfinite(limits).any():  # often one for all drives: a few jumps show it then

        def scores(limit: Array) -> Array:
            own = equation.with_controller(equation.controller.with_values(rate_limit=limit))
            return Estimator(own, sensor_delay=fit.sensor_delay).score(fit.delay, fit.loop)[1]

        alike = np.where(np.isfinite(limits), limits, np.median(limits[np.isfinite(limits)]))
        limits = np.where(scores(alike) < scores(limits) - 10.0, alike, limits)
    return limits


def rate_limits(equation: Equation, fit: DriveFit) -> tuple[Array, Array]:
    """Speed (n,) at which drives slew their commands, where the data show one below the commands' own; else infinite.

    Commands that jump are as fast as the log's rate allows: the search begins at the speed of the motion.
    """
    parts = [s.part for s in equation.stretches if "q_cmd" in s.has]
    none = np.full(equation.robot.n, np.inf)
    if not parts or not {"position", "servo"} & set(equation.controller.kind):
        return none, np.zeros(equation.robot.n)
    fastest = np.max([np.abs(s.v).max(axis=0) for s in equation.stretches], axis=0)
    sent = np.max([np.abs(np.diff(p.commands["q_cmd"], axis=0)).max(axis=0) / p.period for p in parts], axis=0)
    if (sent < 1.05 * fastest).all():
        return none, np.zeros(equation.robot.n)
    return _best_limits(equation, fit, "rate_limit", np.maximum(fastest, 1e-6), np.geomspace(0.2, 4.0, 14),
                        (0.0, 2e-3, 4e-3, 8e-3))  # fmt: skip


NEAR, NEAR_TIME = 0.15, 0.06
"""Share of a torque's size, and seconds, within which it counts as changing its sign."""


def backlash_of(equation: Equation, fit: DriveFit) -> Array:
    """How many times larger (n,) what is left of the torque is while the drive's torque changes its sign.

    Behind a gear with play, links are loose for a moment after each change, and collide afterwards. The drives are
    fitted again without these moments. 1 where the fit is good, or the torque seldom changes its sign.
    """
    n = equation.robot.n
    ratio = np.ones(n)
    if (fit.nrmse < 0.04).all() or any(equation.controller.unknown(j) for j in range(n)):
        return ratio
    torque, _ = equation.drive(fit.delay, fit.loop, fit.sensor_delay)
    numbers = equation.block_numbers
    width = 2 * int(np.ceil(NEAR_TIME / equation.row_step)) + 1
    near = np.abs(torque) < NEAR * np.sqrt((torque**2).mean(axis=0))
    near[1:] |= np.diff(np.sign(torque), axis=0) != 0.0
    near = np.column_stack([np.convolve(x, np.ones(width), mode="same") > 0.0 for x in near.T])
    known = np.ones_like(torque) if equation.jump_weights is None else equation.jump_weights
    enough = (near.sum(axis=0) > 15) & (near.mean(axis=0) < 0.7) & (len(np.unique(numbers)) > 3)
    if not enough.any():
        return ratio
    weights = known * np.where(enough, ~near, True)
    other = Estimator(equation, sensor_delay=fit.sensor_delay, weights=weights).solve(
        fit.delay, fit.loop, seek_delay=fit.delay_sigma > 0.0
    )
    for j in np.flatnonzero(enough & (fit.nrmse > 0.04)):
        used = known[:, j] > 0.0
        masks = near[:, j] & used, ~near[:, j] & used
        if min(mask.sum() for mask in masks) < 15:
            continue
        inside, outside = (float(np.mean(other.residuals[mask, j] ** 2)) for mask in masks)
        if outside < 0.95 * float(np.mean(fit.residuals[used, j] ** 2)):
            ratio[j] = np.sqrt(inside / max(outside, 1e-30))
    return ratio
