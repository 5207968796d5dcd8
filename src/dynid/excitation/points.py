"""Points (q, v, a), their free variables, the motion through them (Gautier & Khalil 1992, sections 4.2 and 4.3)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dynid.errors import ExcitationError
from dynid.excitation.quintics import Quintics
from dynid.excitation.shape import Extremes
from dynid.excitation.starts import STEP, bounded_random_walk
from dynid.messages import Wording
from dynid.robot.motion import Motion
from dynid.robot.robot import Limits, Robot
from dynid.robot.transform import Array


@dataclass(frozen=True, slots=True, eq=False)
class PointLimits:
    """What points may use: mid-range, reach to both sides, speed, acceleration, jerk (inf if unlimited), (n,) each."""

    middle: Array
    reach: Array
    speed: Array
    acceleration: Array
    jerk: Array

    @staticmethod
    def for_robot(robot: Robot, limits: Limits) -> PointLimits:
        """Finite limits of positions and speeds: a full turn for unlimited joints, no speed beyond their reach."""
        prismatic = np.array([robot.links[k].kind == "prismatic" for k in robot.active_links])
        lower, upper = (np.array(side) for side in limits.position.T)
        free = ~(np.isfinite(lower) & np.isfinite(upper))
        _refuse_joints(robot, free & prismatic, "a prismatic joint needs both position limits")
        turn = np.pi
        lower = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper - 2.0 * turn, -turn))
        upper = np.where(np.isfinite(upper), upper, lower + 2.0 * turn)
        reachable = np.sqrt(limits.acceleration * (upper - lower))
        speed = np.minimum(limits.velocity, reachable)
        _refuse_joints(robot, ~np.isfinite(speed), "points need a velocity limit (or an acceleration limit)")
        middle, reach = 0.5 * (lower + upper), 0.5 * (upper - lower)
        return PointLimits(middle, reach, speed, np.array(limits.acceleration), np.array(limits.jerk))

    @property
    def usual_segment_time(self) -> float:
        """Usual time (s) from point to point: a step of the random walk at full speed, or two reversals of it.

        Under jerk limits at least that of a quintic from rest to rest over such a step, whose jerk is 60 way / time^3.
        """
        smooth = (60.0 * 2.0 * STEP * self.reach / self.jerk) ** (1.0 / 3.0)
        usual = max((4.0 * self.speed / self.acceleration).max(), (2.0 * STEP * self.reach / self.speed).max())
        return float(max(usual, smooth.max()))

    def describe_narrowest(self, robot: Robot) -> str:
        """Text on which joint can move least, and which limit stops it."""
        room = np.stack([self.reach, self.speed])
        kind, j = np.unravel_index(int(np.argmin(room)), room.shape)
        forced = self.speed[j] >= np.sqrt(2.0 * self.acceleration[j] * self.reach[j])
        limit = "position" if kind == 0 else ("acceleration" if forced else "velocity")
        unit = "m" if robot.links[robot.active_links[j]].kind == "prismatic" else "rad"
        size = f"{room[kind, j]:.3g} {unit}" + ("" if kind == 0 else "/s")
        return f"the least room has joint '{robot.joint_names[j]}', held to +-{size} by its {limit} limit"

    def position_limits(self) -> Limits:
        """Limits of positions, all of them finite, with nothing else limited."""
        free = np.full(len(self.middle), np.inf)
        return Limits(np.column_stack([self.middle - self.reach, self.middle + self.reach]), free, free, free)

    @property
    def has_motion(self) -> bool:
        """Whether any joint has an acceleration limit, so that there is a motion through the points."""
        return bool(np.isfinite(self.acceleration).any())


def _refuse_joints(robot: Robot, bad: NDArray[np.bool_], reason: str) -> None:
    """Raise ExcitationError, with this reason, on the first of the joints in the mask `bad`."""
    if bad.any():
        raise ExcitationError(
            "missing_joint_limits", "joint '{joint}': {reason}",
            joint=robot.joint_names[int(np.argmax(bad))], reason=reason,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class PointsShape:
    """The r + 1 points q, v, a (r + 1, n) at times (r + 1,), and the path from rest to rest where there is one.

    Without acceleration limits the times only number the points, and a is zero.
    """

    times: Array
    q: Array
    v: Array
    a: Array
    path: Quintics | None

    @property
    def segments(self) -> Array | None:
        """Durations in s: entry, the r segments between points, exit, any approach; None without a motion."""
        return None if self.path is None else self.path.u

    @property
    def duration(self) -> float:
        """Seconds of motion from rest to rest."""
        return self._require_path().duration

    def motion(self, rate: float) -> Motion:
        """Samples at a rate in Hz, from rest to rest; the last one is at rest."""
        path = self._require_path()
        if not (np.isfinite(rate) and rate > 0.0):
            raise ExcitationError("rate_not_positive", "the rate must be positive, got {rate:g} Hz", rate=rate)
        t = np.arange(int(np.ceil(path.duration * rate - 1e-9)) + 1, dtype=np.float64) / rate
        inside = path.sample(t[t < path.duration])
        rest = (path.q[-1:], path.v[-1:], path.a[-1:])
        q, v, a = (np.concatenate([x, y]) for x, y in zip((inside.q, inside.v, inside.a), rest, strict=True))
        return Motion(t, q[: len(t)], v[: len(t)], a[: len(t)])

    def exciting_motion(self) -> Motion:
        """The points alone, over which the condition number is taken, without those of rest."""
        return Motion(self.times, self.q, self.v, self.a)

    def extremes(self) -> Extremes:
        """Exact extremes over all time, or of the points alone where there is no motion."""
        if self.path is not None:
            return self.path.extremes()
        none = np.zeros(self.q.shape[1])
        return Extremes(self.q.min(axis=0), self.q.max(axis=0), np.abs(self.v).max(axis=0), none, none)

    def shrink_about(self, factors: Array, middle: Array) -> PointsShape:
        """The shape with each joint's motion shrunk by a factor about a position, (n,) each."""
        if self.path is None:
            return PointsShape(self.times, middle + factors * (self.q - middle), factors * self.v, self.a, None)
        path = self.path
        return shape_of_path(Quintics(path.u, middle + factors * (path.q - middle), factors * path.v, factors * path.a))

    def slowed(self, factor: float) -> PointsShape:
        """The shape with all of its motion slowed down by a factor."""
        path = self._require_path()
        return shape_of_path(Quintics(factor * path.u, path.q, path.v / factor, path.a / factor**2))

    def with_approach(self, pose: Array, limits: Limits) -> PointsShape:
        """The shape with a slow way from a pose (n,) to its first posture, and back to it from its last one."""
        path = self._require_path().with_approach(pose, limits)
        later = path.duration - self.duration
        return replace(self, times=self.times + later, path=path.backwards().with_approach(pose, limits).backwards())

    def _require_path(self) -> Quintics:
        """The path; ExcitationError where points have none."""
        if self.path is None:
            raise ExcitationError(
                "missing_acceleration_limits", "a motion through the points needs acceleration limits",
                "give {limits}", limits=Wording("limits['acceleration']", "--acceleration"),
            )  # fmt: skip
        return self.path


def shape_of_path(path: Quintics) -> PointsShape:
    """The shape of a path: its inner nodes are the points."""
    inner = slice(1, -1)
    return PointsShape(path.times[inner], path.q[inner], path.v[inner], path.a[inner], path)


# The free variables behind points inside their limits (Gautier & Khalil 1992, section 4.2).


NEAR_LIMIT = 0.999
"""Share of a limit within which points that a search begins with are taken: at the limit itself it has no slope."""
SPREAD = 3.0
"""Segment times stay within exp(+-SPREAD) of the usual one."""


@dataclass(frozen=True, slots=True, eq=False)
class PointVariables:
    """Free variables z behind the points: every z gives points inside the box (Gautier & Khalil 1992, section 4.2)."""

    box: PointLimits
    points: int

    @property
    def has_motion(self) -> bool:
        """Whether accelerations, points of rest and segment times are variables too."""
        return self.box.has_motion

    @property
    def half_widths(self) -> Array:
        """Half widths of position, velocity and acceleration, (3, 1, n)."""
        a = np.where(
            np.isfinite(self.box.acceleration),
            self.box.acceleration,
            4.0 * self.box.speed / self.box.usual_segment_time,
        )
        return np.stack([self.box.reach, self.box.speed, a])[:, None, :]

    def random_start(self, rng: np.random.Generator) -> Array:
        """Random variables to start with: a slow walk with random velocities."""
        shape = (self.points, len(self.box.reach))
        x = np.stack([bounded_random_walk(shape, rng), rng.uniform(-1.0, 1.0, shape)])
        z = np.arcsin(0.98 * x).ravel()
        if not self.has_motion:
            return z
        rest = np.arcsin(0.98 * x[0, [0, -1]]).ravel()
        return np.concatenate([z, np.zeros(x[0].size), rest, np.zeros(self.points + 1)])

    def variables_of(self, shape: PointsShape) -> Array:
        """Variables z whose points are those of a shape, as far as they are inside the box."""

        def inverse(x: Array, half: Array) -> Array:
            return np.asarray(np.arcsin(np.clip(x / half, -NEAR_LIMIT, NEAR_LIMIT)).ravel())

        reach, speed, acceleration = self.half_widths[:, 0]
        z = [inverse(shape.q - self.box.middle, reach), inverse(shape.v, speed)]
        if shape.path is not None:
            rest = shape.path.q[[0, -1]] - self.box.middle
            times = np.log(shape.path.u / self.box.usual_segment_time) / SPREAD
            times = SPREAD * np.arctanh(np.clip(times, -NEAR_LIMIT, NEAR_LIMIT))
            z += [inverse(shape.a, acceleration), inverse(rest, reach), times]
        return np.concatenate(z)

    def points_at(self, z: Array) -> PointsShape:
        """Points of variables z, and the path through them where they have one."""
        shape = (self.points, len(self.box.reach))
        size = shape[0] * shape[1]
        if not self.has_motion:
            q, v = self.half_widths[:2] * np.sin(z.reshape(2, *shape))
            return PointsShape(np.arange(float(self.points)), q + self.box.middle, v, np.zeros(shape), None)
        q, v, a = self.half_widths * np.sin(z[: 3 * size].reshape(3, *shape))
        rest = self.box.reach * np.sin(z[3 * size : -self.points - 1].reshape(2, -1))
        u = self.box.usual_segment_time * np.exp(SPREAD * np.tanh(z[-self.points - 1 :] / SPREAD))
        still = np.zeros((1, shape[1]))
        q = np.concatenate([rest[:1], q, rest[1:]]) + self.box.middle
        return shape_of_path(Quintics(u, q, *(np.concatenate([still, x, still]) for x in (v, a))))

    def pull_back(self, z: Array, by: tuple[Array, Array, Array], by_rest: Array, by_u: Array) -> Array:
        """Gradient by z from gradients by q, v, a of the points, by both positions of rest and by the segment times."""
        size = by[0].size
        parts = 3 if self.has_motion else 2
        x = z[: parts * size].reshape(parts, *by[0].shape)
        slope = (self.half_widths[:parts] * np.cos(x) * np.stack(by[:parts])).ravel()
        if not self.has_motion:
            return slope
        rest = by_rest * self.box.reach * np.cos(z[3 * size : -self.points - 1].reshape(2, -1))
        y = np.tanh(z[-self.points - 1 :] / SPREAD)
        u = self.box.usual_segment_time * np.exp(SPREAD * y)
        return np.concatenate([slope, rest.ravel(), by_u * u * (1.0 - y**2)])
