"""The designed motion: its figures, its samples, its file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.interpolate import make_interp_spline

from dynid.concurrency import cached_property
from dynid.errors import ExcitationError, MotionError
from dynid.excitation.bound import CriterionBound, excess_over_bound
from dynid.excitation.criteria import condition_number, scaling_number
from dynid.excitation.regressor_rows import BaseRows
from dynid.excitation.shape import Shape, use_of_limits
from dynid.messages import Message
from dynid.robot.motion import Motion
from dynid.robot.robot import Limits, Robot
from dynid.robot.transform import Array
from dynid.storage.files import write_text

if TYPE_CHECKING:
    from dynid.excitation.feasibility import Effort
    from dynid.excitation.history import SearchHistory
    from dynid.excitation.information import Information


@dataclass(frozen=True, eq=False)
class Excitation:
    """A motion that reveals the base parameters of a model.

    condition: 2-norm condition number of the raw base columns over one period, or over the rows of the points;
    scaling: S over entries that are not structurally zero; margin: 1 - largest use of a limit over all time.
    history: the course of the search, where one was made; noise (channels,): the deviations it was designed for.
    information: what was known before, and the parameters that matter.
    least: bound on the criterion, where one was asked for.
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
    least: CriterionBound | None = None

    def motion(self, rate: float) -> Motion:
        """Samples at a rate in Hz: entry, exciting part, exit."""
        if not (np.isfinite(rate) and rate > 0.0):
            raise ExcitationError(
                "rate_not_positive", "the rate must be a positive number of Hz, got {rate}", rate=rate,
            )  # fmt: skip
        return self.shape.motion(rate)

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

    @property
    def assumed_noise(self) -> Array:
        """Noise of each channel, (channels,): that of the design, or 1 where none was given."""
        return np.ones(self.rows.rows_per_sample) if self.noise is None else self.noise

    def expected_errors(self, noise: float | Sequence[float] | Array | None = None) -> dict[str, float]:
        """Standard deviation of each base parameter for white noise on every row, by least squares.

        noise: its deviation, one number or one per channel (rows are then weighted by it); None takes that of the
        design, or 1.
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

    def save(self, path: str | Path, *, rate: float = 100.0) -> None:
        """Write the motion: .csv (t, q, v, a), or .json / .yaml as a ROS trajectory_msgs/JointTrajectory."""
        write_motion(self, Path(path), rate)


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
        if value.shape != shape or np.isnan(value).any():
            raise ExcitationError(
                "wrong_shape", "limits: {limit} must be numbers of shape {expected}, got shape {shape}", limit=key,
                expected=shape, shape=value.shape,
            )  # fmt: skip
        values[key] = value
    return Limits(**values)


# A designed motion as files: CSV, and ROS trajectory_msgs/JointTrajectory as JSON or YAML.


def write_motion(excitation: Excitation, path: Path, rate: float) -> None:
    """Write the samples of a motion to a file by its suffix: .csv, .json, .yaml or .yml."""
    names = excitation.robot.joint_names
    match path.suffix.lower():
        case ".csv":
            write_text(path, motion_csv_text(excitation.motion(rate)))
        case ".json":
            write_text(path, json.dumps(ros_trajectory(excitation.motion(rate), names)) + "\n")
        case ".yaml" | ".yml":
            write_text(path, ros_trajectory_yaml(excitation.motion(rate), names))
        case other:
            raise ExcitationError(
                "unsupported_suffix", "cannot write a motion as '{suffix}'", "use .csv, .json or .yaml", suffix=other,
            )  # fmt: skip


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
        lines = [line.split(",") for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
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
            "missing_columns", "{path} is no motion", "it needs columns t, q1.., v1.., a1.., and four rows", path=path,
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


def ros_trajectory(motion: Motion, names: tuple[str, ...]) -> dict[str, object]:
    """Fields of trajectory_msgs/JointTrajectory."""
    points = [
        {
            "positions": q.tolist(),
            "velocities": v.tolist(),
            "accelerations": a.tolist(),
            "time_from_start": dict(zip(("sec", "nanosec"), _ros_duration(float(t)), strict=True)),
        }
        for t, q, v, a in zip(motion.t, motion.q, motion.v, motion.a, strict=True)
    ]
    return {"joint_names": list(names), "points": points}


def ros_trajectory_yaml(motion: Motion, names: tuple[str, ...]) -> str:
    """The trajectory_msgs/JointTrajectory in YAML; names are quoted, whatever they contain."""
    lines = ["joint_names:", *(f"  - {json.dumps(name)}" for name in names), "points:"]
    for t, q, v, a in zip(motion.t, motion.q, motion.v, motion.a, strict=True):
        sec, nanosec = _ros_duration(float(t))
        for first, (key, values) in enumerate((("positions", q), ("velocities", v), ("accelerations", a))):
            lines.append(f"  {' ' if first else '-'} {key}: [{', '.join(repr(float(x)) for x in values)}]")
        lines.append(f"    time_from_start: {{sec: {sec}, nanosec: {nanosec}}}")
    return "\n".join(lines) + "\n"


def _ros_duration(t: float) -> tuple[int, int]:
    """Seconds and nanoseconds of a time."""
    nanoseconds = round(t * 1e9)
    return nanoseconds // 1_000_000_000, nanoseconds % 1_000_000_000
