"""The designed motion: its figures, its samples, its file."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.interpolate import make_interp_spline

from dynid.concurrency import cached_property
from dynid.errors import ExcitationError, MotionError
from dynid.excitation.bound import CriterionBound, excess_over_bound
from dynid.excitation.criteria import BaseRows, condition_number, scaling_number
from dynid.excitation.shape import Shape, use_of_limits
from dynid.messages import Message, html_summary, printable
from dynid.robot.motion import Motion
from dynid.robot.robot import Limits, Robot
from dynid.robot.transform import Array
from dynid.storage.files import write_text
from dynid.storage.records import polars_frame, read_text

if TYPE_CHECKING:
    from dynid.excitation.clearance import BeforeRun, Clearance
    from dynid.excitation.information import Information
    from dynid.excitation.starts import SearchHistory
    from dynid.excitation.torque_limits import Effort

_USED = ("position", "velocity", "acceleration", "jerk")
"""Limits of a joint, in the order of `Excitation.use`."""


@dataclass(frozen=True, eq=False)
class Excitation:
    """A motion that reveals the base parameters of a model; `motion` samples it and `save` writes it.

    Attributes
    ----------
    robot : Robot
        The robot.
    shape : Shape
        The parametrised motion.
    rows : BaseRows
        Model and base columns it was designed for.
    limits : Limits
        Limits it keeps.
    criterion : str
        Name of the criterion.
    value : float
        Value of the criterion.
    first_value : float
        Its value at the start of the search.
    warnings : tuple of Message
        What to know about the motion.
    effort : Effort or None
        Torques along the motion, if they are limited.
    history : SearchHistory or None
        Course of the search, if there was one.
    noise : (channels,) array or None
        Standard deviations it was designed for, N m or N.
    information : Information or None
        What was known before, and the parameters that matter.
    clearance : Clearance or None
        Distances to obstacles and between links.
    least : CriterionBound or None
        Bound on the criterion, if one was asked for.
    """

    robot: Robot
    shape: Shape
    rows: BaseRows
    limits: Limits
    criterion: str
    value: float
    first_value: float
    warnings: tuple[Message, ...]
    effort: Effort | None = None
    history: SearchHistory | None = None
    noise: Array | None = None
    information: Information | None = None
    clearance: Clearance | None = None
    least: CriterionBound | None = None

    def __repr__(self) -> str:
        kind = type(self.shape).__name__.removesuffix("Shape").lower()
        name = printable(self.robot.name)
        return (
            f"<Excitation of '{name}' ({kind}, {self.rows.model} model): {self.duration:.4g} s, condition "
            f"number {self.condition:.4g} of {len(self.rows.names)} columns, margin {100.0 * self.margin:.3g} %>"
        )

    def _repr_html_(self) -> str:
        """Figures of the motion and how much of the limits it uses, for notebooks."""
        facts = {
            "exciting motion": self.robot.name, "duration": f"{self.duration:.4g} s",
            "condition number": f"{self.condition:.4g} of {len(self.rows.names)} columns ({self.rows.model} model)",
            "criterion": f"{self.criterion}: {self.value:.4g}, {self.first_value:.4g} at the start",
            "margin to the limits": f"{100.0 * self.margin:.3g} %", "warnings": "; ".join(self.warnings),
        }  # fmt: skip
        share = [
            [name, *(f"{100.0 * x:.3g} %" for x in row)]
            for name, row in zip(self.robot.joint_names, self.use, strict=True)
        ]
        return html_summary(facts, ["joint", *_USED], share)

    def table(self) -> Any:
        """Peaks of the motion over the limits, per joint.

        Returns
        -------
        polars.DataFrame
            joint, and peak over limit (1: at the limit) of position from mid-range, velocity, acceleration and jerk.

        """
        return polars_frame({"joint": self.robot.joint_names, **dict(zip(_USED, self.use.T, strict=True))})

    def plot(self) -> Any:
        """Figures of the page that `dynid excite --page` writes, one by one.

        Returns
        -------
        dict of str to plotly.graph_objects.Figure
            By section of the page; needs the package plotly.

        """
        return import_module("dynid.report.excitation").motion_figures(self)

    def motion(self, rate: float, *, speed: float = 1.0) -> Motion:
        """Samples of the whole motion: entry, exciting part, exit.

        Parameters
        ----------
        rate : float
            Samples per second, Hz.
        speed : float
            Share of the designed speed, above 0 and up to 1, for a rehearsal: the same path, with velocities scaled by
            it and accelerations by its square.

        Returns
        -------
        Motion
            The samples.

        Raises
        ------
        ExcitationError
            If rate or speed is out of range, or torque limits do not allow a slower motion because at full speed
            momentum helps to carry the weight.
        """
        if not (np.isfinite(rate) and rate > 0.0):
            raise ExcitationError(
                "rate_not_positive", "the rate must be a positive number of Hz, got {rate}", rate=rate,
            )  # fmt: skip
        if not 0.0 < speed <= 1.0:
            raise ExcitationError(
                "speed_out_of_range", "the speed must be above 0 and at most 1 (100 %), got {speed}", speed=speed,
            )  # fmt: skip
        if self.duration * rate / speed > MOST:
            raise ExcitationError(
                "too_many_samples", "the motion of {length:.6g} s would have {count:.3g} samples", "lower the rate",
                length=self.duration / speed, count=self.duration * rate / speed,
            )  # fmt: skip
        if speed == 1.0:
            return self.shape.motion(rate)
        if self.effort is not None:
            _check_slow_torques(self.shape.motion(_TORQUE_RATE), speed, self.effort, self.robot.joint_names)
        full = self.shape.motion(rate / speed)
        return Motion(np.arange(float(len(full))) / rate, full.q, speed * full.v, speed**2 * full.a)

    @cached_property
    def matrix(self) -> Array:
        """W of the base columns over the exciting part."""
        return self.rows.matrix(self.shape.exciting_motion())

    @cached_property
    def condition(self) -> float:
        """2-norm condition number, nothing scaled."""
        return condition_number(self.matrix)

    @cached_property
    def scaling(self) -> float:
        """S = max|Wij| / min|Wij|."""
        return scaling_number(self.matrix, self.rows.nonzero_entries(len(self.matrix)))

    @cached_property
    def use(self) -> Array:
        """Peak over limit per joint, (n, 4): position from mid-range, speed, acceleration, jerk; exact for all time."""
        return use_of_limits(self.shape.extremes(), self.limits)

    @property
    def margin(self) -> float:
        """1 - largest use of a limit: >= 0 means valid at every instant."""
        return 1.0 - float(self.use.max())

    @property
    def samples(self) -> int:
        """Samples of the exciting part over which criterion and condition number are taken."""
        return len(self.matrix) // self.rows.rows_per_sample

    @property
    def bound(self) -> float | None:
        """Value of the criterion that no motion of as many samples inside the limits can beat; None: not asked for.

        In the units of `.value`: trace (a, v), log determinant (d) or largest eigenvalue (e) of the covariance, so that
        `.value >= .bound`. Torque limits and obstacles are not used: they can only make the true optimum worse.
        """
        return None if self.least is None else self.least.value

    @property
    def bound_is_proven(self) -> bool:
        """Whether the bound is proven; else it is estimated: the best of many local searches took its place."""
        return self.least is not None and self.least.is_proven

    @property
    def excess_over_bound(self) -> float | None:
        """Variance of the criterion over its bound, >= 1: value / bound, for d the root exp((value - bound) / p).

        None where no bound was asked for.
        """
        if self.least is None:
            return None
        return excess_over_bound(self.criterion, self.value, self.least.value, len(self.rows.names))

    @property
    def duration(self) -> float:
        """Length of the whole motion in s; NaN for points that no motion joins."""
        try:
            return self.shape.duration
        except ExcitationError:
            return np.nan

    @cached_property
    def before_run(self) -> BeforeRun | None:
        """What to know before it is run: lowest points, largest speeds and torques, checks; None for bare points."""
        from dynid.excitation.cell import Cell
        from dynid.excitation.clearance import RUN_RATE, BeforeRun, Clearance

        if not np.isfinite(self.duration) or self.robot.floating:
            return None
        known = self.clearance or replace(Clearance.for_robot(self.robot, self.limits, Cell()), proves=False)
        return BeforeRun.along(self.shape.motion(RUN_RATE), known, self.effort, self.limits)

    @property
    def assumed_noise(self) -> Array:
        """Noise of each channel, (channels,): that of the design, or 1 where none was given."""
        return np.ones(self.rows.rows_per_sample) if self.noise is None else self.noise

    def expected_errors(self, noise: float | Sequence[float] | Array | None = None) -> dict[str, float]:
        """Standard deviation of each base parameter by least squares, for white noise on every row.

        Parameters
        ----------
        noise : float or (channels,) array, optional
            Standard deviation of the noise, one number or one per channel, by which rows are then weighted. Default:
            that of the design, or 1.

        Returns
        -------
        dict of str to float
            Standard deviations by name, SI units.
        """
        sigma = self.assumed_noise if noise is None else noise_per_channel(noise, self.rows.rows_per_sample)
        A = self.matrix / np.tile(sigma, len(self.matrix) // len(sigma))[:, None]
        covariance = np.linalg.pinv(A.T @ A)
        return dict(zip(self.rows.names, np.sqrt(np.diag(covariance)).tolist(), strict=True))

    @cached_property
    def expected(self) -> dict[str, float]:
        """Standard deviation of each parameter by its name.

        After a result: of its logs together with one of this motion, recorded and filtered alike, with their coloured
        noise; else for the assumed noise on the samples of one period.
        """
        return (
            self.expected_errors() if self.information is None else self.information.expected(self.motion, self.matrix)
        )

    @property
    def targets(self) -> dict[str, tuple[float, float]]:
        """Standard deviations of targeted parameters by name, now (NaN where unknown) and expected; empty without."""
        known = self.information
        if known is None:
            return {}
        return {str(known.names[k]): (float(known.present[k]), self.expected[known.names[k]]) for k in known.targeted}

    def save(self, path: str | Path, *, rate: float | None = None, speed: float = 1.0) -> None:
        """Write the motion in the format of the file's suffix.

        Parameters
        ----------
        path : str or Path
            .csv has t, q, v, a; .json and .yaml are the goal of a ROS 2 `FollowJointTrajectory` action; .script is
            URScript with servoj.
        rate : float, optional
            Samples per second. Default: 100 (in the goal of a rehearsal as many points as at full speed), in URScript
            the rate of the controller.
        speed : float
            Share of the designed speed, for a rehearsal (see `motion`).

        Raises
        ------
        ExcitationError
            If the suffix is unknown, or as for `motion`.
        """
        write_motion(self, Path(path), rate, speed)


def noise_per_channel(noise: float | Sequence[float] | Array, channels: int) -> Array:
    """Noise (channels,) from one number or one per channel; ExcitationError where it is neither."""
    try:
        sigma = np.array(noise, dtype=np.float64)
    except (TypeError, ValueError):
        sigma = np.zeros(0)
    if sigma.ndim == 0:
        sigma = np.full(channels, float(sigma))
    if sigma.shape != (channels,) or not (np.isfinite(sigma) & (sigma > 0.0)).all():
        raise ExcitationError(
            "invalid_noise", "noise must be positive, one number or one for each of the {channels} channels",
            channels=channels,
        )  # fmt: skip
    return sigma


def find_limits(robot: Robot, given: Mapping[str, object] | None) -> Limits:
    """Limits to respect: the robot's, or those given, infinite where missing; raise for unknown ones."""
    if given is None:
        return robot.limits
    unknown = set(given) - {"position", "velocity", "acceleration", "effort", "jerk"}
    if unknown:
        raise ExcitationError(
            "unknown_limit", "limits have position, velocity, acceleration, effort and jerk, not '{limit}'",
            limit=sorted(unknown)[0],
        )  # fmt: skip
    n = robot.n
    values: dict[str, Array] = {}
    for key, shape, missing in (
        ("position", (n, 2), np.tile([-np.inf, np.inf], (n, 1))),
        ("velocity", (n,), np.full(n, np.inf)),
        ("acceleration", (n,), np.full(n, np.inf)),
        ("effort", (n,), np.full(n, np.inf)),
        ("jerk", (n,), np.full(n, np.inf)),
    ):
        try:
            value = np.array(given.get(key, missing), dtype=np.float64)
            value = np.broadcast_to(value, shape) if value.ndim < len(shape) or key != "position" else value
        except (TypeError, ValueError) as error:
            raise ExcitationError(
                "values_not_numeric", "limits: {limit} must be numbers of shape {expected}", limit=key, expected=shape,
            ) from error  # fmt: skip
        if value.shape == shape and np.isnan(value).any():
            joint = robot.joint_names[int(np.argwhere(np.isnan(value))[0, 0])]
            raise ExcitationError(
                "limit_not_a_number", "limits: the {limit} limit of joint '{joint}' is NaN",
                "give a number, inf where there is no limit", limit=key, joint=joint,
            )  # fmt: skip
        if value.shape != shape:
            raise ExcitationError(
                "wrong_shape", "limits: {limit} must be numbers of shape {expected}, got shape {shape}", limit=key,
                expected=shape, shape=value.shape,
            )  # fmt: skip
        values[key] = value
    return Limits(**values)


# A designed motion as files: CSV, goals of ROS 2 actions as JSON or YAML, and URScript.


SUFFIXES = (".csv", ".json", ".yaml", ".yml", ".script")
"""Of files that hold a motion."""
RATE = 100.0
"""Samples per second where none are asked for."""
MOST = 10_000_000
"""Samples of a motion; more is a mistake in the rate."""
_TORQUE_RATE = 200.0
_ROUNDING = 0.01
"""What rounding may change of the accelerations (rad/s^2, m/s^2) of quintics through the points of a goal."""
SCRIPT_STEP = "dynid_step"
"""Function of a script that goes to one sample."""


def _check_slow_torques(motion: Motion, speed: float, effort: Effort, names: tuple[str, ...]) -> None:
    """Raise ExcitationError where a motion that keeps its torque limits does not keep them at a share of its speed."""
    slow = Motion(motion.t / speed, motion.q, speed * motion.v, speed**2 * motion.a)
    use = effort.use_of_limits(slow)
    if (use > np.maximum(effort.use_of_limits(motion), 1.0)).any():
        raise ExcitationError(
            "slow_motion_exceeds_effort", "at {percent:.3g} % of its speed the motion takes {use:.0f} % of the effort "
            "limit of joint '{joint}'", "momentum carries the weight at full speed; narrow the position limits",
            percent=100.0 * speed, use=100.0 * use.max(), joint=names[int(np.argmax(use))],
        )  # fmt: skip


def check_motion_file(robot: Robot, path: Path, rate: float | None) -> float:
    """Rate in Hz of a motion's file; ExcitationError where its suffix is unknown, or URScript does not suit."""
    if path.suffix.lower() not in SUFFIXES:
        raise ExcitationError(
            "unsupported_suffix", "cannot write a motion as '{suffix}'", "use {suffixes}", suffix=path.suffix,
            suffixes=list(SUFFIXES),
        )  # fmt: skip
    if path.suffix.lower() == ".script":
        return _script_rate(robot, rate)
    return RATE if rate is None else rate


def write_motion(excitation: Excitation, path: Path, rate: float | None, speed: float = 1.0) -> None:
    """Write the samples of a motion to a file by its suffix, one of SUFFIXES."""
    robot, suffix = excitation.robot, path.suffix.lower()
    chosen = check_motion_file(robot, path, rate)
    if rate is None and suffix not in (".csv", ".script"):
        chosen *= speed  # as many points as at full speed: quintics through them are as accurate
    motion = excitation.motion(chosen, speed=speed)
    remark = f"{_printable(robot.name)}: {motion.t[-1]:.4g} s at {chosen:g} Hz, " + (
        "at the designed speed" if speed == 1.0 else f"a rehearsal at {100.0 * speed:.4g} % of the designed speed"
    )
    if suffix == ".csv":
        write_text(path, motion_csv_text(motion))
    elif suffix == ".script":
        write_text(path, script_text(motion, chosen, excitation.limits, remark))
    else:
        write_text(path, ros_goal_text(motion, robot.joint_names, None if suffix == ".json" else remark))


def motion_csv_text(motion: Motion) -> str:
    """CSV text of a motion: columns t, q1.., v1.., a1.. in s, rad and m, with all digits."""
    n = motion.q.shape[1]
    header = ["t", *(f"{letter}{j + 1}" for letter in "qva" for j in range(n))]
    lines = [",".join(header)]
    for t, q, v, a in zip(motion.t, motion.q, motion.v, motion.a, strict=True):
        lines.append(",".join(repr(float(x)) for x in (t, *q, *v, *a)))
    return "\n".join(lines) + "\n"


def read_motion_csv(path: Path) -> Motion:
    """Read a motion from columns t, q1.., v1.., a1.. of a CSV file; missing ones by a spline of the positions."""
    try:
        lines = [line.split(",") for line in read_text(path, encoding="utf-8-sig").splitlines() if line.strip()]
        names = [name.strip() for name in lines[0]]
        table = np.array([[float(x) for x in line] for line in lines[1:]]).reshape(-1, len(names))
    except (OSError, UnicodeDecodeError, ValueError, IndexError) as error:
        raise ExcitationError(
            "file_unreadable", "{path} cannot be read as a motion: {reason}", "it needs columns t, q1.., v1.., a1..",
            path=path, reason=getattr(error, "strerror", None) or error,
        ) from None  # fmt: skip
    columns = {name: table[:, k] for k, name in enumerate(names)}
    n = next(j for j in range(len(names) + 1) if f"q{j + 1}" not in columns)
    if "t" not in columns or n == 0 or len(table) < 4:
        raise ExcitationError(
            "missing_columns", "{path} is not a motion", "it needs columns t, q1.., v1.., a1.., and four "
            "rows", path=path,
        )  # fmt: skip
    t, q = columns["t"], np.column_stack([columns[f"q{j + 1}"] for j in range(n)])
    try:
        still = Motion(t, q, 0.0 * q, 0.0 * q)
    except MotionError as error:
        raise ExcitationError("invalid_motion", "{path}: {reason}", path=path, reason=error.message.what) from None
    known = {letter: all(f"{letter}{j + 1}" in columns for j in range(n)) for letter in "va"}
    spline = make_interp_spline(t, q, k=3) if not all(known.values()) else None
    states = [
        np.column_stack([columns[f"{letter}{j + 1}"] for j in range(n)])
        if known[letter] or spline is None
        else spline.derivative(order)(t)
        for order, letter in enumerate("va", 1)
    ]
    return replace(still, v=states[0], a=states[1])


def ros_goal_text(motion: Motion, names: tuple[str, ...], remark: str | None) -> str:
    """Goal of a ROS 2 control_msgs/action/FollowJointTrajectory: YAML below a remark, JSON without one.

    Numbers are rounded as far as the quintics through the points bear it: positions wrong by e bend quintics of
    duration h by up to 10 / sqrt(3) e / h^2, velocities by 4 e / h. YAML 1.1 takes `1e-07` for text, so there are no
    exponents.
    """
    rate = 1.0 / float(np.diff(motion.t).min(initial=1.0))
    digits = [max(3, math.ceil(math.log10(x / _ROUNDING))) for x in (5.8 * rate**2, 4.0 * rate, 1.0)]
    parts = [
        [f"[{','.join(_decimal_text(x, places) for x in row)}]" for row in rows.tolist()]
        for rows, places in zip((motion.q, motion.v, motion.a), digits, strict=True)
    ]
    points = []
    for t, q, v, a in zip(motion.t, *parts, strict=True):
        sec, nanosec = divmod(round(float(t) * 1e9), 1_000_000_000)
        stamp = f'{{"sec":{sec},"nanosec":{nanosec}}}'
        points.append(f'{{"positions":{q},"velocities":{v},"accelerations":{a},"time_from_start":{stamp}}}')
    joints = f"[{', '.join(_printable(json.dumps(name, ensure_ascii=False)) for name in names)}]"
    if remark is None:
        return f'{{"trajectory": {{"joint_names": {joints}, "points": [\n' + ",\n".join(points) + "\n]}}\n"
    lines = [f"# {remark}", "trajectory:", f"  joint_names: {joints}", "  points:", *(f"  - {x}" for x in points)]
    return "\n".join(lines) + "\n"


def script_text(motion: Motion, rate: float, limits: Limits, remark: str) -> str:
    """URScript of a motion: slowly to its first posture by movej, then one servoj per sample.

    One call per sample, as no controller limits these: only new ones have lists of lists.
    """
    speed, acceleration = (
        min(most, 0.25 * float(x.min())) for most, x in ((0.5, limits.velocity), (0.5, limits.acceleration))
    )
    rows = [f"[{','.join(_decimal_text(x, 7) for x in row)}]" for row in motion.q.tolist()]
    lines = [
        f"# {remark.encode('ascii', errors='backslashreplace').decode()}",
        "def dynid_motion():",
        f"  def {SCRIPT_STEP}(q):",
        f"    servoj(q, t={1.0 / rate:.9g}, lookahead_time=0.1, gain=300)",
        "  end",
        f"  movej({rows[0]}, a={acceleration:.4g}, v={speed:.4g})",
        *(f"  {SCRIPT_STEP}({row})" for row in rows),
        "  stopj(1.0)",
        "end",
        "dynid_motion()",
    ]
    return "\n".join(lines) + "\n"


def _script_rate(robot: Robot, rate: float | None) -> float:
    """Rate of a script in Hz; ExcitationError for robots other than arms of six revolute joints, and for other rates.

    A servoj of anything but whole control cycles would stretch the motion; 125 Hz suits every controller.
    """
    chain = [robot.tree_joints[-1]]
    while chain[-1] >= 0:
        chain.append(robot.links[chain[-1]].parent)
    serial = tuple(k for k in reversed(chain[:-1]) if robot.links[k].moves) == robot.tree_joints == robot.active_links
    kinds = [robot.links[k].kind for k in robot.active_links]
    if kinds != ["revolute"] * 6 or not serial or robot.floating:
        raise ExcitationError(
            "no_six_joint_arm", "URScript is for arms of six revolute joints, which '{robot}' is not",
            "use {suffixes}", robot=robot.name, suffixes=list(SUFFIXES[:-1]),
        )  # fmt: skip
    cycles = 500.0 if re.search(r"ur(\d+e|15|20|30)(?![0-9])", robot.name.lower()) else 125.0
    chosen = cycles if rate is None else rate
    if not (chosen > 0.0 and abs(cycles / chosen - max(1, round(cycles / chosen))) < 1e-9):
        raise ExcitationError(
            "script_rate", "the controller of '{robot}' takes a servoj at {cycles:g} Hz or a whole part of it, not at "
            "{rate:g} Hz", "leave out the rate", robot=robot.name, cycles=cycles, rate=chosen,
        )  # fmt: skip
    return chosen


def _decimal_text(x: float, places: int) -> str:
    """A number with at most so many decimal places, without an exponent."""
    text = f"{x:.{places}f}".rstrip("0")
    text += "0" if text.endswith(".") else ""
    return "0.0" if text == "-0.0" else text


def _printable(text: str) -> str:
    """Text of a stranger as one line: what does not print becomes an escape, as JSON and YAML both read it."""
    return "".join(c if c.isprintable() or ord(c) > 0xFFFF else f"\\u{ord(c):04x}" for c in text)
