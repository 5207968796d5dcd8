"""Actuators of a robot from its commands and positions: one call, and the result that it gives."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dynid.actuators.controller import Controller, read_controller
from dynid.actuators.equation import RECIPE, Equation, choose_bandwidth, command_rate, split_at_gaps
from dynid.actuators.estimate import DriveFit, Estimator, add_method_spread, fit_drives, with_gains
from dynid.actuators.mistakes import (
    GAINS_OR_SIGNS,
    GROSS,
    backlash_of,
    check_delay,
    check_recording,
    check_robot,
    choose_loop,
    doubt_about_loop,
    doubt_about_sensor_delay,
    doubts_about_command_zeros,
    doubts_about_fit,
    doubts_about_weights,
    judge_drives,
    note_on_sensor_delay,
    notes_on_delay,
    rate_limits,
    refine_limits,
    torque_limits,
)
from dynid.actuators.polish import MOST, SHOOTING, Polished, polish
from dynid.actuators.rollout import (
    HORIZONS,
    Drives,
    RolloutErrors,
    Simulator,
    Windows,
    check_rollouts_possible,
    rollout_errors,
)
from dynid.dynamics.friction import friction_columns
from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.errors import DynidError, IdentificationError
from dynid.estimation.diagnostics.verdict import Verdict
from dynid.logs.commands import CommandedMotion, read_commands
from dynid.logs.log import Log
from dynid.logs.read import list_logs, read_log, robot_with_locks_of
from dynid.messages import Message, Option
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Robot, StoredRobot
from dynid.robot.transform import Array, freeze
from dynid.storage.files import write_text
from dynid.storage.records import DAMAGE, describe_damage, from_plain_data, json_text, read_json, to_plain_data

FORMAT, VERSION = "dynid-actuators", 1
SYMBOLS = ("Ia", "Fv", "Fc", "Fo", "Fl")
HELD_OUT = 0.25
"""Share of each recording that is kept for rollouts where no other motion is given."""

LOOSE, LOOSE_ERROR, LOOSER = 1.65, 0.12, 2.5
"""Ratio of errors around changes of the torque's sign to others, and share of the torque, that speak for backlash.

The last: the ratio where gains or zeros are doubted, too, which leave errors of their own.
"""

SCALE = 0.03
"""Share of the known torque that other columns must leave for it to fix the scale of unknown gains."""

FIELDS_OF_SYMBOLS = (("armature", "Ia"), ("damping", "Fv"), ("frictionloss", "Fc"), ("offset", "Fo"))
GAINS = ("kp", "kd", "gain", "torque_constant")


@dataclass(frozen=True, eq=False)
class DriveGains:
    """Gains of the controllers, given or estimated; NaN where the data do not determine one.

    Attributes
    ----------
    kp : (n,) array
        Position gains, N m/rad or N/m.
    kd : (n,) array
        Velocity gains, N m s/rad or N s/m.
    gain : (n,) array
        Factors of the command.
    torque_constant : (n,) array
        Torque constants.
    max_torque : (n,) array
        Torque limits, N m or N.
    rate_limit : (n,) array
        Limits of the rate of commands.
    sigma : mapping of str to (n,) array
        Standard deviations by name, 0 for what was given.
    """

    kp: Array
    kd: Array
    gain: Array
    torque_constant: Array
    max_torque: Array
    rate_limit: Array
    sigma: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Actuators:
    """Drives of a robot: armature, friction, delay and gains, with errors of rollouts on held-out motion.

    Attributes
    ----------
    robot : Robot
        The robot with these values, for `export`.
    controller : Controller
        Description of the controller.
    names : tuple of Parameter
        Armature `Ia` (kg m^2), damping `Fv`, dry friction `Fc`, constant torque `Fo` and, where the data show it,
        load-dependent friction `Fl` of each joint; masses `M` of links that were asked for.
    values : (p,) array
        Their values, NaN where the data do not determine one.
    sigma : (p,) array
        Their standard deviations.
    quantile : float
        Half width of the 95 % interval in standard deviations.
    delay : float
        Delay of commands, s, together with how late positions are stamped, as only their sum is visible.
    delay_sigma : float
        Its standard deviation, s.
    sensor_delay : float
        Age of the positions with which a drive closes its loop, s, given or estimated.
    sensor_delay_sigma : float
        Its standard deviation, s; 0 if it was given.
    loop : {"drive", "host"}
        Who closes the control loop.
    gains : DriveGains
        Gains of the controllers.
    nrmse : (n,) array
        Error of the torques over their size.
    cutoff : float
        Cut-off frequency of the equation, Hz.
    recipe : tuple of mappings of str to float
        Coefficients of all friction blocks, of which `Fv` and `Fc` are the reduction to what a simulator has.
    zero_offsets : (n,) array
        Offsets of the positions, rad or m.
    rollout : RolloutErrors or None
        Errors of rollouts on held-out motion.
    rollouts : int
        Rollouts that were used for polishing.
    polished : bool
        Whether polishing improved the estimate.
    unidentifiable : tuple of Message
        What the data do not determine.
    warnings : tuple of Message
        What to know about the result.
    notes : tuple of Message
        How it was found.
    """

    robot: Robot
    controller: Controller
    names: tuple[Parameter, ...]
    values: Array
    sigma: Array
    quantile: float
    delay: float
    delay_sigma: float
    sensor_delay: float
    sensor_delay_sigma: float
    loop: str
    gains: DriveGains
    nrmse: Array
    cutoff: float
    recipe: tuple[Mapping[str, float], ...]
    zero_offsets: Array
    rollout: RolloutErrors | None
    rollouts: int
    polished: bool
    unidentifiable: tuple[Message, ...]
    warnings: tuple[Message, ...]
    notes: tuple[Message, ...] = field(default=())

    @property
    def intervals(self) -> Array:
        """95 % intervals of the values, (parameters, 2)."""
        half = self.quantile * self.sigma
        return np.column_stack([self.values - half, self.values + half])

    @property
    def delay_interval(self) -> tuple[float, float]:
        """95 % interval of the delay, s."""
        half = self.quantile * self.delay_sigma
        return self.delay - half, self.delay + half

    @property
    def verdict(self) -> Verdict:
        """How far to trust the result, why, and what comes next."""
        return judge_drives(self.warnings, self.notes, self.rollout, self._armature_shares)

    @property
    def _armature_shares(self) -> dict[str, float]:
        """Half widths of the 95 % intervals of armatures as shares of them, by joint."""
        rows = zip(self.names, self.values, self.sigma, strict=True)
        return {str(p.joint): self.quantile * s / max(abs(x), 1e-12) for p, x, s in rows
                if p.symbol == "Ia" and np.isfinite(x)}  # fmt: skip

    def value(self, name: str) -> float:
        """Value of one parameter.

        Parameters
        ----------
        name : str
            Name of the parameter.

        Returns
        -------
        float
            Value in SI units.

        Raises
        ------
        IdentificationError
            If there is no parameter of this name.
        """
        if name not in self.names:
            raise IdentificationError(
                "unknown_parameter", "there is no parameter '{name}'", "names are {names:20}", name=name,
                names=list(self.names),
            )  # fmt: skip
        return float(self.values[self.names.index(name)])

    def of(self, symbol: str) -> Array:
        """Values of one symbol for all joints.

        Parameters
        ----------
        symbol : {"Ia", "Fv", "Fc", "Fo", "Fl"}
            The symbol.

        Returns
        -------
        (n,) array
            Values in the order of the joints, NaN where there is none.
        """
        by_joint = {p.joint: x for p, x in zip(self.names, self.values, strict=True) if p.symbol == symbol}
        return np.array([by_joint.get(name, math.nan) for name in self.robot.joint_names])

    def facts(self) -> dict[str, Any]:
        """The result as JSON-ready data; None where a number is not known.

        Returns
        -------
        dict
            Facts by name.
        """
        r = self.rollout
        return {
            "joints": list(self.robot.joint_names),
            "parameters": [
                {"name": str(p), "unit": p.unit, "value": _plain(x), "sigma": _plain(s), "interval": _plain(i)}
                for p, x, s, i in zip(self.names, self.values, self.sigma, self.intervals, strict=True)
            ],
            "delay": self.delay, "delay_sigma": self.delay_sigma, "sensor_delay": self.sensor_delay,
            "sensor_delay_sigma": self.sensor_delay_sigma, "loop": self.loop,
            "verdict": {"level": self.verdict.level, "text": str(self.verdict), "next": self.verdict.next_step},
            "gains": {key: _plain(getattr(self.gains, key)) for key in (*GAINS, "max_torque", "rate_limit")},
            "gains_sigma": {key: _plain(x) for key, x in self.gains.sigma.items()},
            "nrmse": _plain(self.nrmse), "cutoff": self.cutoff, "zero_offsets": _plain(self.zero_offsets),
            "rollout": None if r is None else {
                key: _plain(getattr(r, key))
                for key in ("horizons", "nominal", "before", "after", "by_joint", "windows")
            },
            "rollouts": self.rollouts, "polished": self.polished,
            "unidentifiable": list(self.unidentifiable), "warnings": list(self.warnings), "notes": list(self.notes),
        }  # fmt: skip

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to a JSON file, which `load` reads again.

        Parameters
        ----------
        path : str or path
            The file.
        """
        c, r = self.controller, self.rollout
        data = {
            "format": FORMAT, "version": VERSION, **self.facts(), "robot": to_plain_data(StoredRobot, self.robot),
            "quantile": self.quantile, "recipe": [dict(x) for x in self.recipe],
            "controller": {"kind": list(c.kind), "rate": _plain(c.rate), "loop": c.loop, "source": c.source}
            | {key: _plain(getattr(c, key)) for key in _CONTROLLER},
            "curves": None if r is None else {
                key: _plain(getattr(r, key)) for key in ("curve_t", "curve_measured", "curve_nominal", "curve_after")
            },
        }  # fmt: skip
        for key in ("unidentifiable", "warnings", "notes"):
            data[key] = [message.record() for message in getattr(self, key)]
        write_text(Path(path), json_text(data))

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Actuators:
        """Read a result that `save` wrote.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        Actuators
            The result.

        Raises
        ------
        DynidError
            If the file is not such a result.
        """
        path = Path(path)
        remedy = "dynid actuators --out writes such files"
        data = read_json(path, FORMAT, VERSION, remedy, IdentificationError)
        try:
            return _from_record(data)
        except (*DAMAGE, KeyError, TypeError, AttributeError) as reason:
            raise IdentificationError(describe_damage(reason).about(str(path))) from reason

    def __str__(self) -> str:
        half = self.quantile * self.sigma
        rows = [f"  {p:<16} {x:.5g} +- {h:.2g} {p.unit}" for p, x, h in zip(self.names, self.values, half, strict=True)]
        head = f"drives of '{self.robot.name}' (+-: 95 % interval), delay {1e3 * self.delay:.2f} +- "
        return "\n".join([head + f"{1e3 * self.quantile * self.delay_sigma:.2f} ms", *rows])


_CONTROLLER = (
    "kp", "kd", "max_torque", "gain", "voltage", "resistance", "torque_constant", "dead_band", "rate_limit",
)  # fmt: skip


def _plain(x: Any) -> Any:
    """Numbers for JSON: None where one is not a number, 1e999 has no place in it."""
    if isinstance(x, np.ndarray):
        return [_plain(part) for part in x]
    number = float(x)
    if math.isinf(number):
        return "inf" if number > 0.0 else "-inf"
    return None if math.isnan(number) else (int(x) if isinstance(x, np.integer) else number)


def _numbers(x: Any) -> Array:
    """Numbers that `_plain` wrote."""
    if isinstance(x, list):
        return np.array([_numbers(part) for part in x], dtype=np.float64)
    return np.float64(math.nan if x is None else float(x))  # type: ignore[return-value]


def _from_record(data: Mapping[str, Any]) -> Actuators:
    """Result of the data of a file."""
    robot: Robot = from_plain_data(StoredRobot, data["robot"])
    names = _parameter_names(robot)
    rows = data["parameters"]
    c, r, curves = data["controller"], data["rollout"], data["curves"]
    controller = Controller(
        robot.joint_names, tuple(c["kind"]), **_controller_numbers(c),
        rate=float(_numbers(c["rate"])), loop=c["loop"], source=str(c["source"]),
    )  # fmt: skip
    if {len(_numbers(c[key])) for key in _CONTROLLER} != {robot.n} or len(controller.kind) != robot.n:
        raise ValueError("controller: its numbers are not one per joint")
    rollout = None
    if r is not None:
        table = {key: _numbers(x) for key, x in (r | curves).items()}
        rollout = RolloutErrors(**table)
    messages = {key: tuple(map(Message.load, data[key])) for key in ("unidentifiable", "warnings", "notes")}
    sigma = {key: _numbers(x) for key, x in data["gains_sigma"].items()}
    shown = {"rate_limit": c["rate_limit"]} | data["gains"]
    gains = DriveGains(**{key: _numbers(x) for key, x in shown.items()}, sigma=sigma)
    return Actuators(
        robot, controller, tuple(names[row["name"]] for row in rows), _numbers([row["value"] for row in rows]),
        _numbers([row["sigma"] for row in rows]), float(data["quantile"]), float(data["delay"]),
        float(data["delay_sigma"]), float(data["sensor_delay"]), float(data.get("sensor_delay_sigma", 0.0)),
        str(data["loop"]), gains, _numbers(data["nrmse"]),
        float(data["cutoff"]), tuple(data["recipe"]), _numbers(data["zero_offsets"]), rollout, int(data["rollouts"]),
        bool(data["polished"]), **messages,
    )  # fmt: skip


def _controller_numbers(c: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers of a controller, by the names of its fields."""
    return {key: _numbers(c[key]) for key in _CONTROLLER}


def _parameter_names(robot: Robot) -> dict[str, Parameter]:
    """Parameters of drives and masses of links, by their names."""
    columns = friction_columns(robot, ("viscous", "coulomb", "offset", "load"))
    own = [robot.links[k].parameter("Ia") for k in robot.active_links] + [column.name for column in columns]
    return {str(p): p for p in (*own, *(link.parameter("M") for link in robot.links))}


Progress = Callable[[str, float], None]


@one_blas_thread
def identify_actuators(
    robot: Robot,
    logs: Any,
    *,
    controller: Controller | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    delay: float | str = "auto",
    polish: int = 0,
    validate: Any = None,
    sensor_delay: float | str = 0.0,
    links: str | Sequence[str] = (),
    cutoff: float | None = None,
    on_progress: Progress | None = None,
) -> Actuators:
    """Identify armature, friction, delay and gains of a robot's drives from commands and positions, without torques.

    Parameters
    ----------
    robot : Robot
        On a fixed base; its links are taken as they are in the file.
    logs : Log, path, frame or mapping, or a sequence of them
        Recordings with the columns q (perhaps v) and commands: `q_cmd`, `v_cmd`, `tau_ff` or `pwm`.
    controller : Controller, mapping or path, optional
        `kind`, `kp`, `kd`, `max_torque`, ...: a number, one per joint, or "unknown"; or the TOML file that has them.
        Default: actuators of the MJCF file.
    delay : float or "auto"
        Seconds from the record of a command to its effect; that a command holds until the next is not a delay.
    polish : int
        Rollouts in MuJoCo that Gauss-Newton may use to improve the linear estimate; 0: none.
    validate : logs, optional
        Motion for the errors of rollouts. Default: the last quarter of each log, which is then not used otherwise.
    sensor_delay : float or "auto"
        Seconds by which the drive's own positions are older than its torque. "auto": estimated, with wider intervals:
        to first order it cannot be distinguished from damping, to second order from armature.
    links : str or sequence of str
        Links whose masses are identified too, with their inertias scaled alike; or "all".
    cutoff : float, optional
        Cut-off frequency of the equation, Hz. Default: chosen from noise and motion.
    on_progress : callable, optional
        Called with a text and the share of the work that is done, 0 to 1.

    Returns
    -------
    Actuators
        `.names .values .sigma .delay .gains .rollout .warnings`, and `.robot` for `export`.

    Raises
    ------
    ControllerError
        If the description of the controller is wrong or does not fit.
    IdentificationError
        If the robot or an option does not fit.
    LogError
        If a log cannot be used.

    Notes
    -----
    kp (q_cmd(t - d) - q) - kd v = rigid body + Ia a + Fv v + dry friction + offset, every column filtered alike; dry
    friction has the shapes sign(v), tanh(v / 0.1) and two stop operators, whose sum is Fc.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Motion, identify_actuators, load_robot, simulate_actuators
    >>> robot, controller = load_robot("one_link"), {"kind": "position", "kp": 200.0, "kd": 5.0}
    >>> t = np.arange(0.0, 20.0, 0.005)
    >>> x = np.outer(t, [1.0, 7.0]) + 1.3 * np.sin(0.9 * t)[:, None]
    >>> q = (np.sin(x) * [0.8, 0.1]).sum(1, keepdims=True)
    >>> v = np.gradient(q, t, axis=0)
    >>> motion = Motion(t, q, v, np.gradient(v, t, axis=0))
    >>> log = simulate_actuators(robot, motion, controller=controller, armature=0.5, damping=1.0, frictionloss=0.5)
    >>> found = identify_actuators(robot, log, controller=controller, delay=0.0)
    >>> abs(found.value("Fv1") - 1.0) < 0.2
    True
    """
    warnings = list(check_robot(robot))
    given_delay = check_delay(delay)
    if isinstance(polish, bool) or not isinstance(polish, int | np.integer) or polish < 0:
        raise IdentificationError(
            "invalid_polish", "{option} must be a number of rollouts, 0 for none, got {value!r}", "60 are enough",
            option=Option("polish"), value=str(polish),
        )  # fmt: skip
    if polish:
        check_rollouts_possible(robot)
    lag = check_delay(sensor_delay, "sensor_delay")
    if cutoff is not None and not (isinstance(cutoff, int | float) and 0.5 <= cutoff <= 200.0):
        raise IdentificationError(
            "invalid_cutoff", "a cut-off frequency of {cutoff!r} Hz is not possible for "
            "drives", "give 2 to 50", cutoff=cutoff,
        )  # fmt: skip
    opened = [_open_log(log, robot) for log in list_logs(logs)]
    extra = [] if validate is None else [_open_log(log, robot) for log in list_logs(validate)]
    if not opened:
        raise IdentificationError("no_logs", "there are no logs")
    robot = robot_with_locks_of(robot, [*opened, *extra])
    drives = read_controller(controller, robot)
    recordings, held = [read_commands(log, robot) for log in opened], [read_commands(log, robot) for log in extra]
    notes = [*drives.notes, *(note for log in (*recordings, *held) for note in log.notes)]
    for log in (*recordings, *held):
        warnings += check_recording(log, robot, drives)
    if validate is None:
        recordings, held = _hold_out(recordings, notes)
    tell = on_progress or (lambda text, share: None)
    return _Job(robot, drives, recordings, held, given_delay, lag, _link_numbers(robot, links), cutoff, int(polish),
                tell, warnings, notes).run()  # fmt: skip


def _open_log(log: Any, robot: Robot) -> Log:
    """A log as it is, or read from a file, a frame or a mapping."""
    return log if isinstance(log, Log) else read_log(log, robot)


def _link_numbers(robot: Robot, links: str | Sequence[str]) -> tuple[int, ...]:
    """Numbers of the links whose masses are sought."""
    names = [link.name for link in robot.links]
    if isinstance(links, str):
        links = names if links == "all" else (links,)
    for name in links:
        if name not in names:
            raise IdentificationError(
                "unknown_link", "'{robot}' has no link {name!r}", "its links are {names:20}", robot=robot.name,
                name=name, names=names,
            )  # fmt: skip
    return tuple(names.index(name) for name in links)


def _hold_out(
    logs: Sequence[CommandedMotion], notes: list[Message]
) -> tuple[list[CommandedMotion], list[CommandedMotion]]:
    """Split recordings into a part to learn from and a last part to check by."""
    first, last = [], []
    for log in logs:
        length = log.t[-1] - log.t[0]
        if length < 6.0:
            first.append(log)
            continue
        cut = log.t[-1] - HELD_OUT * length
        first.append(log.between(-np.inf, cut))
        last.append(log.between(cut, np.inf))
    if not last:
        notes.append(Message(
            "nothing_held_out", "recordings are shorter than 6 s: rollouts are compared with the motion that was "
            "learnt from", "record longer, or give another recording with {validate}", validate=Option("validate"),
        ))  # fmt: skip
        return first, list(first)
    return first, last


@dataclass(frozen=True, eq=False)
class _Job:
    """One identification, with all that was checked."""

    robot: Robot
    controller: Controller
    recordings: Sequence[CommandedMotion]
    held: Sequence[CommandedMotion]
    delay: float | None
    sensor_delay: float | None
    links: tuple[int, ...]
    cutoff: float | None
    polish: int
    tell: Progress
    warnings: list[Message]
    notes: list[Message]

    def run(self) -> Actuators:
        """Linear estimate, rollouts, polishing, result."""
        parts = split_at_gaps(self.recordings)
        bandwidth = choose_bandwidth(parts, self.cutoff)
        unknown = [j for j in range(self.robot.n) if self.controller.unknown(j)]
        if unknown and self.links:
            raise IdentificationError(
                "masses_and_gains_unknown", "masses of links and gains of joints {joints} cannot both be unknown: each "
                "scales the other", "give one of them", joints=[self.robot.joint_names[j] for j in unknown],
            )  # fmt: skip
        self.tell("smoothing positions", 0.05)
        loaded = Equation(
            self.robot, parts, bandwidth, self._controller_without_limits(), friction=(*RECIPE, "load"),
            links=self.links,
        )  # fmt: skip
        fit, others, equation = self._fit(loaded.without_block("load"))
        fit, equation, loads = self._with_load_friction(loaded.with_controller(equation.controller), equation, fit)
        fit = add_method_spread(fit, self._variants(equation, fit))
        fit = _with_mean_load(fit, equation, loads)
        ratio = np.where(fit.nrmse > LOOSE_ERROR, backlash_of(equation, fit), 1.0)
        loose = [int(j) for j in np.flatnonzero(ratio > LOOSE)]
        doubts = doubts_about_fit(equation, fit, parts, others, self.delay is None, loose, loaded.controller)
        self.warnings.extend(doubts)
        named = {doubt.code for doubt in (*doubts, *self.warnings)} & (GROSS - {"poor_fit"})
        weights = doubts_about_weights(equation, fit)
        if not named:  # else what was named explains it
            self.warnings.extend((*weights, *self._say_backlash(ratio, LOOSER if weights else LOOSE)))
        elif not named & GAINS_OR_SIGNS:
            self.warnings.extend(doubt for doubt in weights if doubt.code != "gains_doubted")
        if self.sensor_delay == 0.0:
            self.warnings.extend(doubt_about_loop(equation, fit))
        if self.sensor_delay is not None:
            self.warnings.extend(doubt_about_sensor_delay(equation, fit, self.delay is None))
        self.warnings.extend(doubts_about_command_zeros(equation, fit))
        unidentifiable, hidden = self._unidentifiable(fit)
        before = _drives_of_fit(equation, fit)
        polished, errors, rollouts = self._rollouts(equation, fit, before, hidden)
        last = fit if polished is None else replace(fit, delay=polished.drives.delay)
        self.notes.extend(notes_on_delay(last, max(part.period for part in parts), self.delay is None))
        self.notes.extend(note_on_sensor_delay(equation, fit))
        return self._result(equation, fit, polished, errors, rollouts, unidentifiable, hidden)

    def _controller_without_limits(self) -> Controller:
        """The controller with infinite limits of torque and rate where they are unknown."""
        c = self.controller
        known = {key: np.nan_to_num(getattr(c, key), nan=np.inf, posinf=np.inf) for key in ("max_torque", "rate_limit")}
        rates = [command_rate(log) for log in self.recordings]
        if math.isnan(c.rate) and np.isfinite(rates).all():
            self.notes.append(Message(
                "rate_from_commands", "the controller has {rate:.4g} Hz: commands of the faster log change that often",
                rate=float(np.median(rates)),
            ))  # fmt: skip
            return replace(c.with_values(**known), rate=float(np.median(rates)))
        return c.with_values(**known)

    def _fit(self, equation: Equation) -> tuple[DriveFit, list[DriveFit], Equation]:
        """The best fit, the others, and the equation with torque limits that were found."""
        c = equation.controller
        loops = ("drive", "host") if c.loop == "auto" else (c.loop,)
        if c.loop == "auto" and (
            self.sensor_delay != 0.0 or "servo" in c.kind or not set(c.kind) & {"position", "velocity"}
        ):
            loops = ("drive",)
        if self.sensor_delay is None and (loops == ("host",) or not set(c.kind) - {"current"}):
            raise IdentificationError(
                "sensor_delay_not_visible", "{option} 'auto': only a drive that closes its own loop has its own "
                "sensor delay; else it is part of the delay", "leave it out", option=Option("sensor_delay"),
            )  # fmt: skip
        self.tell("searching for the delay", 0.1)
        fits = fit_drives(equation, delay=self.delay, loops=loops, sensor_delay=self.sensor_delay,
                          tell=lambda share: self.tell("searching for the delay", 0.1 + 0.3 * share))  # fmt: skip
        fit = choose_loop(equation, fits)
        known = not any(c.unknown(j) for j in range(self.robot.n))
        if known and (fit.nrmse > 0.08).any():
            fit, fits, equation = self._with_limits(equation, fit, fits, loops)
        return fit, [other for other in fits if other is not fit], equation

    def _with_limits(
        self, equation: Equation, fit: DriveFit, fits: list[DriveFit], loops: Sequence[str]
    ) -> tuple[DriveFit, list[DriveFit], Equation]:
        """The fit with limits of torque or of the command's rate that nobody gave, where they halve the error."""
        c = equation.controller
        tries = [
            (name, seek(equation, fit))
            for name, seek in (("max_torque", torque_limits), ("rate_limit", rate_limits))
            if not np.isfinite(getattr(c, name)).all()
        ]  # fmt: skip
        for name, (limits, _) in sorted(tries, key=lambda one: -float(one[1][1].sum())):
            sought = ~np.isfinite(getattr(c, name)) & np.isfinite(limits)
            if not sought.any():
                continue
            new = c.with_values(**{name: np.where(sought, limits, getattr(c, name))})
            other = equation.with_controller(new)
            others = fit_drives(other, delay=self.delay, loops=loops, sensor_delay=self.sensor_delay)
            best = choose_loop(other, others)
            helped = sought & (best.nrmse < 0.5 * fit.nrmse)
            if not helped.any():
                continue
            limits = np.where(helped, limits, np.inf)
            limits = refine_limits(equation, best, name, limits)
            helped = np.isfinite(limits) & ~np.isfinite(getattr(c, name))
            new = c.with_values(**{name: np.where(helped, limits, getattr(c, name))})
            other = equation.with_controller(new)
            others = fit_drives(other, delay=self.delay, loops=loops, sensor_delay=self.sensor_delay)
            best = choose_loop(other, others)
            what = "torques of joints {joints} are limited to {limits} N m" if name == "max_torque" else (
                "drives of joints {joints} slew their commands at {limits} rad/s")  # fmt: skip
            self.notes.append(Message(
                "torque_limit_found" if name == "max_torque" else "rate_limit_found", what,
                joints=[self.robot.joint_names[j] for j in np.flatnonzero(helped)],
                limits=[f"{x:.3g}" for x in limits[helped]],
            ))  # fmt: skip
            return best, others, other
        return fit, fits, equation

    def _variants(self, equation: Equation, fit: DriveFit) -> list[DriveFit]:
        """Fits by other cut-off frequencies and without one of the friction blocks: what the method decides."""
        seek = self.delay is None
        made = []
        for factor in (0.65, 1.4):
            try:
                other = equation.with_cutoff(factor * equation.bandwidth.cutoff)
                made.append(self._estimator(other, fit).solve(fit.delay, fit.loop, seek_delay=seek))
            except DynidError:
                continue  # a stretch too short for the lower one
        plain = equation.without_block("tanh")
        made.append(self._estimator(plain, fit).solve(fit.delay, fit.loop, seek_delay=seek))
        return made

    def _estimator(self, equation: Equation, fit: DriveFit) -> Estimator:
        """Estimator of another equation that starts at a fit; it has a sensor delay of its own if that is sought."""
        if self.sensor_delay is not None or fit.loop != "drive":
            return Estimator(equation, sensor_delay=fit.sensor_delay)
        near = np.maximum(fit.sensor_delay + np.array([-0.001, 0.0, 0.001]), (0.0, 0.0005, 0.001))
        lag, _, _ = Estimator(equation).find_sensor_delay(
            fit.delay, fit.loop, seek_delay=self.delay is None, lags=near
        )  # fmt: skip
        return Estimator(equation, sensor_delay=lag)

    def _with_load_friction(
        self, loaded: Equation, equation: Equation, fit: DriveFit
    ) -> tuple[DriveFit, Equation, list[int]]:
        """The fit and equation with load-dependent friction, where that explains a tenth of the squares surely."""
        other = self._estimator(loaded, fit).solve(fit.delay, fit.loop, seek_delay=self.delay is None)
        gain = (fit.residuals**2).sum(axis=0) / (other.residuals**2).sum(axis=0)
        clear = [j for j in range(self.robot.n) if gain[j] > 1.1 and other.values[j]["Fl"] > 5.0 * other.sigma[j]["Fl"]]
        other = replace(other, delays=fit.delays, sensor_delay_sigma=fit.sensor_delay_sigma)
        return (other, loaded, clear) if clear else (fit, equation, [])

    def _unidentifiable(self, fit: DriveFit) -> tuple[tuple[Message, ...], NDArray[np.bool_]]:
        """Messages on what the data cannot tell, and a mask of joints of which nothing is known."""
        names, c = self.robot.joint_names, self.controller
        hidden = np.zeros(self.robot.n, dtype=np.bool_)
        said = []
        for j, name in enumerate(names):
            unknown = c.unknown(j)
            travel = max(float(np.ptp(log.q[:, j])) for log in self.recordings)
            if travel < 5e-3:
                hidden[j] = True
                continue
            scaling = [key for key in unknown if key != "kd" or c.kind[j] == "velocity"]
            if scaling:
                key = scaling[0]
                uncertain = fit.sigma[j][key] > 0.3 * abs(fit.values[j][key]) or fit.values[j][key] <= 0.0
                if fit.scale_share[j] < SCALE or uncertain:
                    hidden[j] = True
                    said.append(Message(
                        "gain_against_inertia", "joint '{joint}': {gain} cannot be distinguished from inertia and "
                        "friction, which scale with it: neither gravity nor a known inertia fixes them", "give {gain}, "
                        "or move the joint where gravity acts on it", joint=name, gain=key,
                    ))  # fmt: skip
            if "kd" in unknown and "kd" not in fit.values[j]:
                said.append(Message(
                    "kd_against_damping", "joint '{joint}': kd cannot be distinguished from damping without a velocity "
                    "command; {damping} is their sum, and kd is taken as 0", joint=name,
                    damping=f"Fv{self.robot.links[self.robot.active_links[j]].label}",
                ))  # fmt: skip
        half = fit.quantile * fit.sensor_delay_sigma
        if self.sensor_delay is None and half > 1e-3:
            said.append(Message(
                "sensor_delay_against_damping", "the sensor delay, {lag:.2f} +- {half:.2f} ms, cannot be distinguished "
                "from damping and armature, whose intervals are therefore wide", "give {option}, or move faster",
                lag=1e3 * fit.sensor_delay, half=1e3 * half, option=Option("sensor_delay", "0.001"),
            ))  # fmt: skip
        return tuple(said), hidden

    def _say_backlash(self, ratio: Array, least: float) -> list[Message]:
        """Warning on joints with backlash, whose torques (n,) are missed more while they change their sign."""
        loose = np.flatnonzero(ratio > least)
        if not len(loose):
            return []
        servo = any(self.controller.kind[j] == "servo" for j in loose)
        return [Message(
            "backlash", ("joints" if least == LOOSE else "or joints") + " {joints} seem to have backlash"
            + (", or another dead band" if servo else "") + ": their torques are missed {ratios} times as much while "
            "they change their sign", ("check dead_band and" if servo else "check")
            + " the gears; armature and friction of these joints make up for it",
            joints=[self.robot.joint_names[j] for j in loose], ratios=[f"{x:.2g}" for x in ratio[loose]],
        )]  # fmt: skip

    def _rollouts(
        self, equation: Equation, fit: DriveFit, before: Drives, hidden: NDArray[np.bool_]
    ) -> tuple[Polished | None, RolloutErrors | None, int]:
        """Polish, if asked for, and errors on held-out motion."""
        try:
            simulator = Simulator(self.robot)
        except DynidError as error:
            self.notes.append(Message("rollouts_left_out", "no rollouts: {reason}", reason=error))
            return None, None, 0
        cutoff = equation.bandwidth.cutoff
        polished, used = None, 0
        if self.polish:
            windows = Windows(equation.parts, before.controller, SHOOTING, cutoff, most=MOST)
            if windows.count:
                sigma = {
                    field: np.where(hidden, np.nan, [s[symbol] for s in fit.sigma])
                    for field, symbol in FIELDS_OF_SYMBOLS
                }  # fmt: skip
                for key in ("kp", "kd", "gain"):
                    own = np.array([s.get(key, np.nan) for s in fit.sigma])
                    sigma |= {key: np.where(hidden, np.nan, own)} if np.isfinite(own).any() else {}
                polished = polish(
                    simulator, windows, before, sigma, fit.delay_sigma, rollouts=self.polish,
                    seek_delay=self.delay is None, noise=equation.bandwidth.noise,
                    tell=lambda share: self.tell("polishing on rollouts", 0.5 + 0.4 * share),
                )  # fmt: skip
                used = polished.rollouts
                self._compare_with_linear(fit, polished, sigma)
        self.tell("rollouts on held-out motion", 0.92)
        nominal = replace(Drives.nominal(self.robot, before.controller), loop=before.loop)
        after = before if polished is None else polished.drives
        parts = split_at_gaps(self.held)
        errors = rollout_errors(simulator, parts, cutoff, nominal=nominal, before=before, after=after)
        if errors is None:
            self.notes.append(Message("held_out_too_short", "the held-out motion is too short for a rollout"))
        elif longer := [horizon for horizon in HORIZONS if horizon not in errors.horizons]:
            self.notes.append(Message(
                "horizon_left_out", "the held-out motion has no stretch for rollouts of {horizons} s", "give a longer "
                "recording with {validate}", horizons=[f"{x:g}" for x in longer], validate=Option("validate"),
            ))  # fmt: skip
        return polished, errors, used

    def _compare_with_linear(self, fit: DriveFit, polished: Polished, sigma: Mapping[str, Array]) -> None:
        """Warn where polishing moved armatures far from the linear estimate: the simulator lacks something."""
        linear = np.array([v["Ia"] for v in fit.values])
        spread = np.hypot(sigma["armature"], polished.sigma.get("armature", np.zeros(self.robot.n)))
        far = np.abs(polished.drives.armature - linear) > np.maximum(5.0 * spread, 0.1 * np.abs(linear))
        if far.any():
            self.warnings.append(Message(
                "simulator_lacks_friction", "polishing moved the armature of joints {joints} far from the linear "
                "estimate ({linear}): the simulator's friction is not theirs, and its parameters make up for it",
                "use them for this simulator only", joints=[self.robot.joint_names[j] for j in np.flatnonzero(far)],
                linear=[f"{x:.3g}" for x in linear[far]],
            ))  # fmt: skip

    def _result(
        self, equation: Equation, fit: DriveFit, polished: Polished | None, errors: RolloutErrors | None, rollouts: int,
        unidentifiable: tuple[Message, ...], hidden: NDArray[np.bool_],
    ) -> Actuators:  # fmt: skip
        """Result with the values of the last step."""
        robot, n = self.robot, self.robot.n
        drives = _drives_of_fit(equation, fit) if polished is None else polished.drives
        delay_sigma = fit.delay_sigma
        table = {s: np.array([v.get(s, np.nan) for v in fit.values]) for s in SYMBOLS}
        spread = {s: np.array([v.get(s, np.nan) for v in fit.sigma]) for s in SYMBOLS}
        gains_sigma = {key: np.zeros(n) for key in GAINS}
        for key in GAINS:
            for j in range(n):
                if key in fit.sigma[j]:
                    gains_sigma[key][j] = fit.sigma[j][key]
        if polished is not None:
            for field_name, symbol in FIELDS_OF_SYMBOLS:
                own = polished.sigma.get(field_name, np.full(n, np.nan))
                table[symbol] = np.where(np.isfinite(own), getattr(drives, field_name), table[symbol])
                spread[symbol] = np.where(np.isfinite(own), own, spread[symbol])
            delay_sigma = polished.delay_sigma if np.isfinite(polished.delay_sigma) else delay_sigma
            for key in GAINS:
                own = polished.sigma.get(key, np.full(n, np.nan))
                gains_sigma[key] = np.where(np.isfinite(own), own, gains_sigma[key])
        for symbol in SYMBOLS:
            table[symbol] = np.where(hidden, np.nan, table[symbol])
        by_name = _parameter_names(robot)
        labels = [robot.links[k].label for k in robot.active_links]
        names, values, sigma = [], [], []
        for symbol in SYMBOLS:
            for j in range(n):
                if symbol == "Fl" and not np.isfinite(table["Fl"][j]):
                    continue
                names.append(by_name[symbol + labels[j]])
                values.append(table[symbol][j])
                sigma.append(np.nan if hidden[j] else spread[symbol][j])
        for i, k in enumerate(self.links):
            mass = float(robot.links[k].inertia[9])
            names.append(robot.links[k].parameter("M"))
            values.append(mass * (1.0 + fit.masses[i]))
            sigma.append(mass * fit.masses_sigma[i])
        c = drives.controller
        kp = np.where(np.isnan(c.kp), 0.0, c.kp)
        zero = np.where(kp > 0.0, -table["Fo"] / np.maximum(kp, 1e-12), np.nan)
        shown = {key: np.where(hidden & (gains_sigma[key] > 0.0), np.nan, getattr(c, key)) for key in GAINS}
        gains = DriveGains(**shown, max_torque=c.max_torque, rate_limit=c.rate_limit, sigma=gains_sigma)
        return Actuators(
            robot=_identified_robot(robot, table, self.links, fit.masses), controller=c, names=tuple(names),
            values=np.array(values), sigma=np.array(sigma), quantile=fit.quantile, delay=drives.delay,
            delay_sigma=delay_sigma, sensor_delay=fit.sensor_delay, sensor_delay_sigma=fit.sensor_delay_sigma,
            loop=fit.loop, gains=gains, nrmse=fit.nrmse,
            cutoff=equation.bandwidth.cutoff, recipe=tuple(fit.recipe), zero_offsets=zero, rollout=errors,
            rollouts=rollouts, polished=polished is not None, unidentifiable=unidentifiable,
            warnings=tuple(dict.fromkeys((*self.warnings, *unidentifiable))), notes=tuple(dict.fromkeys(self.notes)),
        )  # fmt: skip


def _with_mean_load(fit: DriveFit, equation: Equation, loads: Sequence[int]) -> DriveFit:
    """The fit with dry friction as a simulator without load-dependent friction needs it on average.

    loads: joints that have such a friction for certain; only theirs is kept as a parameter.
    """
    mean = np.abs(equation.rows.rigid).mean(axis=0)
    values, sigma = [dict(x) for x in fit.values], [dict(x) for x in fit.sigma]
    for j, v in enumerate(values):
        if "Fl" in v:
            v["Fc"] += v["Fl"] * mean[j]
            if j not in loads:
                del v["Fl"], sigma[j]["Fl"]
    return replace(fit, values=values, sigma=sigma)


def _drives_of_fit(equation: Equation, fit: DriveFit) -> Drives:
    """What a simulator needs of a fit."""

    def values(symbol: str) -> Array:
        return np.array([v[symbol] for v in fit.values])

    robot = equation.robot
    masses = None
    if equation.links:
        factors = dict(zip(equation.links, fit.masses, strict=True))
        masses = np.array([1.0 + factors.get(k, 0.0) for k in robot.tree_joints])
    return Drives(
        np.maximum(values("Ia"), 1e-6), np.maximum(values("Fv"), 0.0), np.maximum(values("Fc"), 0.0), values("Fo"),
        with_gains(equation.controller, fit), fit.delay, fit.loop, masses, fit.sensor_delay,
    )  # fmt: skip


def _identified_robot(robot: Robot, table: Mapping[str, Array], links: Sequence[int], masses: Array) -> Robot:
    """The robot with armature, damping and dry friction of the result; what is unknown stays."""
    new = list(robot.links)
    for j, k in enumerate(robot.active_links):
        if not np.isfinite(table["Ia"][j]):
            continue
        friction = (("viscous", max(float(table["Fv"][j]), 0.0)), ("coulomb", max(float(table["Fc"][j]), 0.0)))
        new[k] = replace(new[k], rotor=max(float(table["Ia"][j]), 0.0), friction=friction)
    for i, k in enumerate(links):
        new[k] = replace(new[k], inertia=freeze(np.asarray(new[k].inertia) * max(1.0 + float(masses[i]), 0.01)))
    return replace(robot, links=tuple(new), warnings=())
