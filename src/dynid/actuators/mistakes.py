"""Mistakes in recordings of commands and in what is said of controllers: those that are certain are errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.actuators.controller import COMMAND, Controller
from dynid.actuators.equation import Equation
from dynid.actuators.estimate import DriveFit, Estimator
from dynid.errors import FIX_THE_BASE, IdentificationError, LogError
from dynid.logs.commands import CommandedMotion
from dynid.messages import ANYTHING, Message, Option
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

STILL = 5e-3
"""Travel (rad) of a joint below which nothing is learnt of its drive."""

POOR = 0.3
"""Error of the torques, as a share of their size, from which on a fit is doubted."""

DEGREES = 180.0 / np.pi


def check_robot(robot: Robot) -> None:
    """Raise for robots that float, and links of unknown inertia."""
    if robot.floating:
        raise IdentificationError(
            "floating_base", "'{robot}' floats: contacts would act on it, which no command tells", "put the robot on a "
            "stand, and {fix}", robot=robot.name, fix=FIX_THE_BASE,
        )  # fmt: skip
    unknown = [name for name, x in zip(robot.parameter_names, robot.parameters, strict=True)
               if np.isnan(x) and name.symbol != "Ia"]  # fmt: skip
    if unknown:
        raise IdentificationError(
            "missing_parameter_values", "'{robot}' has no nominal value for {unknown:6}", "add them to the robot file: "
            "commands alone do not weigh links", robot=robot.name, unknown=unknown,
        )  # fmt: skip


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
        _check_commands_follow(log, q_cmd, follows, names)
    still = [names[j] for j in range(robot.n) if travel[j] < STILL]
    if still:
        return (Message(
            "joint_stands_still", "{log}: joints {joints} hardly move: their drives cannot be identified", "move them "
            "too", log=log.name, joints=still,
        ),)  # fmt: skip
    return ()


def _check_degrees(log: CommandedMotion, robot: Robot) -> None:
    """Raise for angles in degrees."""
    revolute = np.array([robot.links[k].kind == "revolute" for k in robot.active_links])
    bound = np.abs(np.nan_to_num(robot.limits.position, posinf=7.0, neginf=-7.0)).max(axis=1)
    beyond = revolute & (np.abs(log.q).max(axis=0) > np.maximum(3.0 * bound, 10.0))
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
    moving = revolute & (np.ptp(log.q, axis=0) > STILL)
    if not moving.any():
        return
    ratio = float(np.median((np.std(q_cmd, axis=0) / np.maximum(np.std(log.q, axis=0), 1e-9))[moving]))
    for factor, whose, other in ((DEGREES, "commands", "positions"), (1.0 / DEGREES, "positions", "commands")):
        if 0.6 < ratio / factor < 1.6:
            raise LogError(
                log.name, "commands_in_degrees", "{whose} move {ratio:.3g} times as far as {other}: are {whose} in "
                "degrees?", "say so in the names of their columns, such as 'q_cmd1 [deg]'", whose=whose, other=other,
                ratio=max(ratio, 1.0 / ratio),
            )  # fmt: skip


def _check_commands_follow(log: CommandedMotion, q_cmd: Array, follows: Sequence[int], names: Sequence[str]) -> None:
    """Raise for commands that are the positions themselves, of other joints, reversed, or never change."""
    if np.allclose(q_cmd[:, follows], log.q[:, follows], rtol=0.0, atol=1e-12):
        raise LogError(
            log.name, "commands_are_positions", "commands and positions are the same numbers", "name the columns of "
            "the commands with {columns}", columns=Option("columns", {"q_cmd": ANYTHING}),
        )  # fmt: skip
    moving = [j for j in follows if np.ptp(log.q[:, j]) > STILL]
    dead = [names[j] for j in moving if np.ptp(q_cmd[:, j]) < 1e-9]
    if dead and len(dead) == len(moving):
        raise LogError(
            log.name, "commands_constant", "the commands of joints {joints} never change", "record a commanded motion, "
            "or name the columns with {columns}", joints=dead, columns=Option("columns", {"q_cmd": ANYTHING}),
        )  # fmt: skip
    live = [j for j in moving if names[j] not in dead]
    if len(live) < 1:
        return
    x = q_cmd[:, live] - q_cmd[:, live].mean(axis=0)
    y = log.q[:, live] - log.q[:, live].mean(axis=0)
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
                columns=Option("columns", {f"q_cmd.{names[j]}": ANYTHING}),
            )  # fmt: skip


def check_delay(delay: object) -> float | None:
    """A given delay in s, checked; None for 'auto'."""
    if isinstance(delay, str) and delay == "auto":
        return None
    if isinstance(delay, bool) or not isinstance(delay, int | float | np.number) or not np.isfinite(float(delay)):
        raise IdentificationError(
            "invalid_delay", "{option} must be 'auto' or seconds, got {value!r}", option=Option("delay"),
            value=str(delay)[:40],
        )  # fmt: skip
    seconds = float(delay)
    if not 0.0 <= seconds <= 0.5:
        raise IdentificationError(
            "invalid_delay", "a delay of {value:.4g} s is none of a drive", "give seconds: 8 ms are 0.008"
            if seconds > 0.0 else "give 0 or more", value=seconds,
        )  # fmt: skip
    return seconds


def doubts_about_fit(
    equation: Equation, fit: DriveFit, parts: Sequence[CommandedMotion], others: Sequence[DriveFit], sought: bool
) -> list[Message]:
    """Warnings on what a fit shows of wrong gains, inertias, loops and time stamps."""
    robot, c = equation.robot, equation.controller
    warnings: list[Message] = []
    period = max(part.period for part in parts)
    if sought:
        warnings += _doubts_about_delay(fit, period)
    names = robot.joint_names
    still = [j for j in range(robot.n) if max(float(np.ptp(part.q[:, j])) for part in parts) < STILL]
    low = [j for j in range(robot.n) if _torque_beyond_limit(equation, fit, j) and j not in still]
    poor = [j for j in range(robot.n) if fit.nrmse[j] > POOR and j not in still]
    if low:
        warnings.append(Message(
            "torque_limit_too_low", "the motion of joints {joints} needs more than their max_torque",
            "check max_torque", joints=[names[j] for j in low],
        ))  # fmt: skip
    elif poor:
        warnings.append(_explain_poor_fit(equation, fit, poor, sought))
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
    spread = [names[j] for j in range(robot.n) if np.ptp(fit.delays) > 0.0 and fit.nrmse[j] < POOR
              and abs(fit.delays[j] - fit.delay) > max(3e-3, 6.0 * fit.delay_sigma)]  # fmt: skip
    if sought and spread and len(spread) <= max(1, robot.n // 3):
        warnings.append(Message(
            "delays_differ", "joints {joints} have a delay of their own ({delays}), that of all is {delay:.2g} ms",
            "identify them apart, the others held with {lock}", joints=spread, delay=1e3 * fit.delay,
            delays=[f"{1e3 * fit.delays[names.index(name)]:.1f} ms" for name in spread], lock=Option("lock"),
        ))  # fmt: skip
    for other in others:
        if other.loop != fit.loop and c.loop == "auto":
            change = np.median(np.abs([o["Ia"] / f["Ia"] - 1.0 for o, f in zip(other.values, fit.values, strict=True)]))
            if change > 0.05 and relative_squares(equation, other, fit) < 1.05:
                warnings.append(Message(
                    "loop_undecided", "the data do not tell whether the drive or a host closes the loop; '{loop}' is "
                    "taken, with '{other}' armatures differ by {change:.0f} %", "say loop = 'drive' or 'host' in "
                    "{controller}", loop=fit.loop, other=other.loop, change=100.0 * float(change),
                    controller=Option("controller"),
                ))  # fmt: skip
    return warnings


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


def _doubts_about_delay(fit: DriveFit, period: float) -> list[Message]:
    """Warnings on delays that no drive has."""
    if fit.delay > 0.095:
        return [Message(
            "delay_beyond_search", "the delay is at the end of what is searched, {delay:.3g} s: stamps of commands and "
            "positions are of different clocks, or the command is of another joint", "check the columns and their time",
            delay=fit.delay,
        )]  # fmt: skip
    if fit.delay < -max(1e-3, 3.0 * fit.delay_sigma):
        return [Message(
            "delay_negative", "joints move {early:.2g} ms before their command: positions are stamped late by a "
            "period, or the controller is faster than the log", "give its rate in {controller}",
            early=-1e3 * fit.delay, controller=Option("controller"),
        )]  # fmt: skip
    return []


def note_on_periods(fit: DriveFit, period: float) -> tuple[Message, ...]:
    """Note on a delay of more than one period of the log."""
    if fit.delay <= period + 3.0 * fit.delay_sigma:
        return ()
    return (Message(
        "delay_beyond_period", "the delay of {delay:.2f} ms is {count:.1f} periods of the log ({period:.2f} ms): "
        "a simulation must keep commands for so long", delay=1e3 * fit.delay, count=fit.delay / period,
        period=1e3 * period,
    ),)  # fmt: skip


def _explain_poor_fit(equation: Equation, fit: DriveFit, poor: Sequence[int], sought: bool) -> Message:
    """Message on torques that are not explained, with the mistake that would explain them, if one does."""
    names, c = equation.robot.joint_names, equation.controller
    known = not any(c.unknown(j) for j in range(len(names)))
    found = {"joints": [names[j] for j in poor], "error": 100.0 * float(fit.nrmse[list(poor)].max())}
    what = "torques of joints {joints} are explained badly (up to {error:.0f} % are left)"
    if known:
        tries = {
            "gains_swapped": (replace(c, kp=c.kd, kd=c.kp), "with kp and kd exchanged", "exchange them"),
            "gains_per_degree": (
                replace(c, kp=c.kp * DEGREES, kd=c.kd * DEGREES), "with gains per degree in place of per radian",
                "multiply kp and kd by 57.3",
            ),
            "gains_in_degrees": (
                replace(c, kp=c.kp / DEGREES, kd=c.kd / DEGREES), "with gains divided by 57.3",
                "divide kp and kd by 57.3",
            ),
        }  # fmt: skip
        errors = {}
        if not sought:
            tries["delay_wrong"] = (c, "with a delay by the data", "leave out the delay that was given")
        for code, (controller, _, _) in tries.items():
            estimator = Estimator(equation.with_controller(controller))
            start, _ = estimator.search_delay(fit.loop)
            errors[code] = float(np.median(estimator.solve(start, fit.loop, seek_delay=True).nrmse[list(poor)]))
        best = min(errors, key=errors.__getitem__)
        if errors[best] < 0.5 * float(np.median(fit.nrmse[list(poor)])) and errors[best] < POOR:
            return Message(
                best, what + "; {how} only {better:.0f} %", "{fix}", **found, how=tries[best][1],
                better=100.0 * errors[best], fix=tries[best][2],
            )  # fmt: skip
    return Message(
        "poor_fit", what, "check gains, units, the order of joints, contacts of the robot with its surroundings, and "
        "the masses of the file", **found,
    )  # fmt: skip


def _torque_beyond_limit(equation: Equation, fit: DriveFit, j: int) -> bool:
    """Whether the rigid body and armature need much more torque than the limit allows, for a share of the time."""
    limit = equation.controller.max_torque[j]
    if not np.isfinite(limit):
        return False
    rows = equation.rows
    need = rows.rigid[:, j] + rows.fixed[:, j, 0] * max(fit.values[j]["Ia"], 0.0)
    return bool(np.mean(np.abs(need) > 1.2 * limit) > 0.03)


def torque_limits(equation: Equation, fit: DriveFit) -> Array:
    """Torque (n,) at which a drive saturates, where the data show one below the largest torque; else infinite."""
    n = equation.robot.n
    largest = np.max([np.abs(s.drive(equation.controller, fit.delay, fit.loop, 0.0)[2]).max(axis=0)
                      for s in equation.stretches], axis=0)  # fmt: skip
    open_ended = equation.with_controller(equation.controller.with_values(max_torque=np.full(n, np.inf)))
    base = Estimator(open_ended).score(fit.delay, fit.loop)[1]
    shares = np.geomspace(0.25, 0.97, 14)
    table = np.array([
        Estimator(equation.with_controller(equation.controller.with_values(max_torque=share * largest)))
        .score(fit.delay, fit.loop)[1]
        for share in shares
    ])  # fmt: skip
    rows = len(fit.residuals)
    found = np.full(n, np.inf)
    for j in range(n):
        k = int(np.argmin(table[:, j]))
        if base[j] - table[k, j] > max(0.05 * rows, 10.0):  # a tenth of the squares
            inner = shares[max(k - 1, 0)], shares[min(k + 1, len(shares) - 1)]
            fine = np.linspace(*inner, 9)
            scores = []
            for share in fine:
                limit = np.full(n, np.inf)
                limit[j] = share * largest[j]
                own = equation.with_controller(equation.controller.with_values(max_torque=limit))
                scores.append(Estimator(own).score(fit.delay, fit.loop)[1][j])
            found[j] = float(fine[int(np.argmin(scores))] * largest[j])
    return found


def backlash_of(equation: Equation, fit: DriveFit) -> Array:
    """Share (n,) of the known torque that is missing while the torque changes its sign; NaN where that is seldom.

    Behind a gear with backlash the links are loose for a moment after each reversal of the torque, and the drive turns
    alone.
    """
    rows = equation.rows
    found = np.full(equation.robot.n, np.nan)
    for j in range(equation.robot.n):
        y = rows.rigid[:, j]
        small = np.abs(y) < 0.15 * np.abs(y).max()
        turning = small & np.r_[False, np.diff(np.sign(y)) != 0]
        near = np.convolve(turning, np.ones(3), mode="same") > 0
        if near.sum() < 20 or y[near].std() == 0.0:
            continue
        slope = float(np.polyfit(y[near], fit.residuals[near, j], 1)[0])
        error = fit.residuals[near, j].std() / (y[near].std() * np.sqrt(near.sum()))
        found[j] = -slope if abs(slope) > 5.0 * error else 0.0
    return found
