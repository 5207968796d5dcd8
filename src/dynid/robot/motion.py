"""Motion of a robot at N instants, checked once at the door."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.errors import MotionError
from dynid.messages import Option
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


@dataclass(frozen=True, slots=True, eq=False)
class Motion:
    """Joint motion of N samples and n active joints; m in place of rad for prismatic joints.

    Parameters
    ----------
    t : (N,) array
        Time, s.
    q : (N, n) array
        Positions, rad.
    v : (N, n) array
        Velocities, rad/s.
    a : (N, n) array
        Accelerations, rad/s^2.
    base_pose : (N, 7) array, optional
        Pose of a floating base in the world: position (m) and quaternion x y z w.
    base_velocity : (N, 6) array, optional
        Its linear, then angular velocity, in its own frame, m/s and rad/s.
    base_acceleration : (N, 6) array, optional
        Time derivative of the base velocity in that frame: the spatial acceleration, as in pinocchio.

    Raises
    ------
    MotionError
        If the shapes disagree or a number is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Motion
    >>> t = np.arange(0.0, 1.0, 0.1)[:, None]
    >>> Motion(t[:, 0], np.sin(t), np.cos(t), -np.sin(t)).q.shape
    (10, 1)
    """

    t: Array
    q: Array
    v: Array
    a: Array
    base_pose: Array | None = None
    base_velocity: Array | None = None
    base_acceleration: Array | None = None

    def __post_init__(self) -> None:
        names = ("t", "q", "v", "a", "base_pose", "base_velocity", "base_acceleration")
        for name in names:
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _checked_array(name, value))
        if self.t.ndim != 1 or self.q.ndim != 2:
            raise MotionError(
                "wrong_shape", "a motion needs t (N,) and q (N, n), got {shape} and {q_shape}", shape=self.t.shape,
                q_shape=self.q.shape,
            )  # fmt: skip
        if not self.q.shape == self.v.shape == self.a.shape == (len(self.t), self.q.shape[1]):
            raise MotionError(
                "wrong_shape", "motion arrays disagree: t {shape}, q {q_shape}, v {v_shape}, a {a_shape}",
                shape=self.t.shape, q_shape=self.q.shape, v_shape=self.v.shape, a_shape=self.a.shape,
            )  # fmt: skip
        if len(self.t) == 0:
            raise MotionError("no_samples", "the motion has no samples")
        backwards = np.flatnonzero(np.diff(self.t) <= 0.0)
        if len(backwards):
            k = int(backwards[0]) + 1
            raise MotionError(
                "time_not_increasing", "time does not increase at sample {sample}: {before:.9g} s, then {time:.9g} s",
                sample=k, before=self.t[k - 1], time=self.t[k],
            )  # fmt: skip
        self._check_base_motion()

    def _check_base_motion(self) -> None:
        """Raise where pose, velocity and acceleration of the base are not all given or do not fit the samples."""
        base = {"base_pose": 7, "base_velocity": 6, "base_acceleration": 6}
        missing = [name for name in base if getattr(self, name) is None]
        if len(missing) == 3:
            return
        if missing:
            raise MotionError(
                "missing_base_motion", "the motion of a floating base also needs {missing}", missing=list(missing),
            )  # fmt: skip
        for name, width in base.items():
            shape = getattr(self, name).shape
            if shape != (len(self.t), width):
                raise MotionError(
                    "wrong_shape", "{array} must have shape ({samples}, {width}), got {shape}", array=name,
                    samples=len(self.t), width=width, shape=shape,
                )  # fmt: skip
        assert self.base_pose is not None
        norm = np.linalg.norm(self.base_pose[:, 3:], axis=1)
        bad = np.flatnonzero(np.abs(norm - 1.0) > 1e-6)
        if len(bad):
            raise MotionError(
                "quaternion_not_unit", "base_pose has a quaternion of length {length:.6g} at sample {sample}, not 1",
                length=norm[bad[0]], sample=bad[0],
            )  # fmt: skip

    def __len__(self) -> int:
        return len(self.t)

    def __getitem__(self, part: slice) -> Motion:
        """Return the motion of a range of samples."""
        base = (self.base_pose, self.base_velocity, self.base_acceleration)
        return Motion(
            self.t[part], self.q[part], self.v[part], self.a[part], *(None if x is None else x[part] for x in base)
        )


def _checked_array(name: str, value: object) -> Array:
    """Array of finite numbers, or MotionError with its name."""
    try:
        array = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise MotionError(
            "values_not_numeric", "{array} of the motion is not an array of numbers: {reason}", array=name,
            reason=error,
        ) from error  # fmt: skip
    if not np.isfinite(array).all():
        place = np.argwhere(~np.isfinite(array))[0]
        where = f"sample {place[0]}" + (f", column {place[1]}" if len(place) > 1 else "")
        raise MotionError(
            "sample_not_finite", "{array} of the motion has {value} at {where}", "leave such samples out", array=name,
            value=array[tuple(place)], where=where,
        )  # fmt: skip
    return array


def check_motion(robot: Robot, motion: Motion) -> None:
    """Raise MotionError where the motion is not one of this robot."""
    if motion.q.shape[1] != robot.n:
        raise MotionError(
            "joint_count_mismatch", "'{robot}' has {active} active joints ({joints}), the motion has {columns} columns",
            robot=robot.name, active=robot.n, joints=list(robot.joint_names), columns=motion.q.shape[1],
        )  # fmt: skip
    if robot.floating and motion.base_pose is None:
        raise MotionError(
            "missing_base_motion", "'{robot}' has a floating base: its motion needs base_pose, base_velocity, "
            "base_acceleration", robot=robot.name,
        )  # fmt: skip
    if not robot.floating and motion.base_pose is not None:
        raise MotionError(
            "unexpected_base_motion", "the motion moves the base, but '{robot}' was loaded without {floating_base}",
            robot=robot.name, floating_base=Option("floating_base", True),
        )  # fmt: skip
