"""Geometry and kinematics of a robot with loops in ball arithmetic (flint's `arb`) or in floats, by the same code.

A ball contains the true number, so what is computed with balls is proven up to their radii.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dynid.dynamics.kernels.loops import loop_map
from dynid.errors import DeadPointError, LoopError, ModelError, UndecidedError
from dynid.identifiability.exact_geometry import (
    FULL_TURN,
    Angle,
    Motions,
    Turn,
    clean_length,
    read_angle,
    read_axis,
    read_gravity,
    read_length,
    read_placement,
)
from dynid.identifiability.finite_field import joints_by_active_joints
from dynid.messages import Message, Option
from dynid.robot.robot import DIRECTIONS, Robot
from dynid.robot.transform import Array

if TYPE_CHECKING:
    from flint import arb

Numbers: TypeAlias = NDArray[Any]
"""Floats, or balls in an array of objects; positions along the first axis."""


@dataclass(frozen=True, slots=True, eq=False)
class Mechanism:
    """Geometry in balls or floats: poses of the links, and q = C y + offset with y = (active joints, followers)."""

    robot: Robot
    R: Numbers
    t: Numbers
    axis: Numbers
    C: Numbers
    offset: Numbers
    points: Numbers
    gravity: Numbers

    @staticmethod
    def of_robot(robot: Robot) -> Mechanism:
        """Mechanism of balls around the numbers that the robot's floats stand for (see `exact_geometry`)."""
        gears = joints_by_active_joints(robot)
        names = [*robot.joint_names, *(name for c in robot.closures for name in c.passive)]
        place = {name: i for i, name in enumerate(names)}
        C = np.full((len(robot.tree_joints), len(names)), ball_of_rational(0), dtype=object)
        offset = np.full(len(C), ball_of_rational(0), dtype=object)
        for row, k in enumerate(robot.tree_joints):
            gear, turns = gears[robot.links[k].joint], robot.links[k].kind == "revolute"
            for name, factor in gear.factors.items():
                C[row, place[name]] = ball_of_rational(factor)
            for factor, value in gear.offsets:
                exact = _angle_as_ball(read_angle(value)) if turns else ball_of_rational(Fraction(read_length(value)))
                offset[row] += ball_of_rational(factor) * exact
        poses = [_pose_of_motions(() if x.kind == "floating" else read_placement(x)) for x in robot.links]
        axes = [_pose_of_motions(read_axis(x.axis) if x.moves else ())[0][:, 2] for x in robot.links]
        points = [[[clean_length(float(x)) for x in point] for point in c.points] for c in robot.closures]
        gravity = read_gravity(robot.gravity)
        largest = max(map(abs, gravity)) or 1
        return Mechanism(
            robot, np.array([R for R, _ in poses]), np.array([t for _, t in poses]), np.array(axes), C, offset,
            balls_around(points, (len(points), 2, 3)),
            balls_around([Fraction(x) / Fraction(largest) for x in gravity], (3,)),
        )  # fmt: skip

    def as_floats(self) -> Mechanism:
        """The mechanism in floats."""
        parts = (self.R, self.t, self.axis, self.C, self.offset, self.points, self.gravity)
        return Mechanism(self.robot, *(x.astype(np.float64) for x in parts))

    def perturbed(self, share: float) -> Mechanism:
        """Return the mechanism with every length, angle, coupling and the vertical changed by about this share."""
        rng = np.random.default_rng(1)

        def random_change(shape: tuple[int, ...], size: float) -> Numbers:
            """Random balls of this shape, up to the share of a size."""
            return balls_around(share * size * rng.uniform(-1.0, 1.0, shape), shape)

        size = self.size
        R = np.array([A @ _rotation_xyz(random_change((3,), 1.0)) for A in self.R])
        passive = {c.passive for c in self.robot.couplings}
        coupled = np.array([[self.robot.links[k].joint in passive] for k in self.robot.tree_joints])
        return replace(
            self, R=R, t=self.t + random_change(self.t.shape, size),
            points=self.points + random_change(self.points.shape, size),
            C=np.where(coupled, self.C * (1 + random_change(self.C.shape, 1.0)), self.C),
            gravity=self.gravity + random_change((3,), 1.0),
        )  # fmt: skip

    @property
    def n(self) -> int:
        """Number of active joints."""
        return self.robot.n

    @property
    def size(self) -> float:
        """A length of the mechanism (m), 1 where it has none."""
        largest = max(np.abs(x.astype(np.float64)).max(initial=0.0) for x in (self.t, self.points))
        return float(largest) or 1.0

    @property
    def units(self) -> Array:
        """Size that counts as 1 for each of y: a radian, or the mechanism's length."""
        kinds = {link.joint: link.kind for link in self.robot.links}
        names = [*self.robot.joint_names, *(name for c in self.robot.closures for name in c.passive)]
        return np.array([1.0 if kinds[name] == "revolute" else self.size for name in names])

    def poses_in_parents(self, y: Numbers) -> tuple[list[Numbers], list[Numbers]]:
        """Rotation (N, 3, 3) and translation (N, 3) of every link in its parent."""
        q = y @ self.C.T + self.offset
        joint = {k: j for j, k in enumerate(self.robot.tree_joints)}
        Rs, ts = [], []
        for k, link in enumerate(self.robot.links):
            R, t = np.broadcast_to(self.R[k], (len(y), 3, 3)), np.broadcast_to(self.t[k], (len(y), 3))
            if link.kind == "revolute":
                R = R @ _rotations_about(self.axis[k], q[:, joint[k]])
            elif link.kind == "prismatic":
                t = t + q[:, joint[k], None] * (self.R[k] @ self.axis[k])
            Rs.append(R)
            ts.append(t)
        return Rs, ts

    def closures(self, y: Numbers) -> tuple[Numbers, Numbers]:
        """Equations (N, m) of the closures, and their derivatives by y (N, m, len(y))."""
        robot = self.robot
        Rs, ts = self.poses_in_parents(y)
        R: dict[int, Numbers] = {}
        p: dict[int, Numbers] = {}
        chain: dict[int, set[int]] = {}
        for k in robot.topological_order:
            up = robot.links[k].parent
            R[k], p[k] = (R[up] @ Rs[k], p[up] + rotate_vectors(R[up], ts[k])) if up >= 0 else (Rs[k], ts[k])
            chain[k] = {*chain.get(up, ()), k}
        index = {link.joint: k for k, link in enumerate(robot.links)}
        values, slopes = [], []
        for closure, (point1, point2) in zip(robot.closures, self.points, strict=True):
            one, two = (index[name] for name in closure.links)
            back = R[one].swapaxes(1, 2)
            tip = p[two] + rotate_vectors(R[two], point2)
            E = back @ R[two]
            value = [rotate_vectors(back, tip - p[one]) - point1, _half_skew(E)]
            slope = zeros_of_kind((len(y), 6, len(robot.tree_joints)), y)
            for j, k in enumerate(robot.tree_joints):
                side = (k in chain[two]) - (k in chain[one])
                if not side:
                    continue
                w = rotate_vectors(back, rotate_vectors(R[k], self.axis[k]))
                if robot.links[k].kind == "prismatic":
                    slope[:, :3, j] = side * w
                    continue
                slope[:, :3, j] = side * cross(w, rotate_vectors(back, tip - p[k]))
                slope[:, 3:, j] = side * _half_skew(cross(w[:, None], E.swapaxes(1, 2)).swapaxes(1, 2))
            picks = [DIRECTIONS.index(name) for name in closure.keep]
            values.append(np.concatenate(value, axis=1)[:, picks])
            slopes.append(slope[:, picks] @ self.C)
        return np.concatenate(values, axis=1), np.concatenate(slopes, axis=1)

    def tangent(self, y: Numbers) -> Numbers:
        """Derivatives dq/dq_active (N, joints, n) of all joints of the tree."""
        if not self.robot.closures:
            return np.broadcast_to(self.C, (len(y), *self.C.shape))
        J = self.closures(y)[1]
        follow = -solve_at_positions(J[:, :, self.n :], J[:, :, : self.n])
        return np.asarray(self.C[:, : self.n] + self.C[:, self.n :] @ follow)


def ball_of_rational(x: Fraction | int) -> arb:
    """Ball around a rational number."""
    from flint import arb

    return arb(x.numerator) / x.denominator


def balls_around(values: Any, shape: tuple[int, ...]) -> Numbers:
    """Balls around floats, decimals or fractions."""
    flat = np.array(values, dtype=object).ravel()
    out = np.empty(len(flat), dtype=object)
    out[:] = [ball_of_rational(Fraction(x)) for x in flat]
    return out.reshape(shape)


def zeros_of_kind(shape: tuple[int, ...], like: Numbers) -> Numbers:
    """Array of zeros, of balls or floats as `like` is."""
    return np.full(shape, ball_of_rational(0) if like.dtype == object else 0.0)


def _angle_as_ball(angle: Angle) -> arb:
    """Ball around an exact angle in rad."""
    from flint import arb

    if angle.millidegrees is None:
        return ball_of_rational(Fraction(angle.radians))
    return arb.pi() * angle.millidegrees / (FULL_TURN // 2)


def _pose_of_motions(motions: Motions) -> tuple[Numbers, Numbers]:
    """Rotation (3, 3) and translation (3,) of a product of elementary motions; right angles are exact."""
    from flint import arb, fmpq

    R, t = balls_around(np.eye(3, dtype=int), (3, 3)), balls_around([0, 0, 0], (3,))
    for motion in motions:
        if isinstance(motion, Turn):
            angle = motion.angle
            if angle.millidegrees is None:
                s, c = _angle_as_ball(angle).sin_cos()
            else:
                s, c = arb.sin_cos_pi_fmpq(fmpq(angle.millidegrees, FULL_TURN // 2))
            b, d = (motion.axis + 1) % 3, (motion.axis + 2) % 3
            turn = balls_around(np.eye(3, dtype=int), (3, 3))
            turn[b, b] = turn[d, d] = c
            turn[d, b], turn[b, d] = s, -s
            R = R @ turn
        else:
            t = t + R @ balls_around([Fraction(x) for x in motion.by], (3,))
    return R, t


def _rotation_xyz(angles: Numbers) -> Numbers:
    """Rotation (3, 3) about x, y and z in turn."""
    axes = balls_around(np.eye(3, dtype=int), (3, 3))
    Rx, Ry, Rz = (_rotations_about(axes[i], angles[i : i + 1])[0] for i in range(3))
    return np.asarray(Rx @ Ry @ Rz)


def _rotations_about(axis: Numbers, angle: Numbers) -> Numbers:
    """Rotations (N, 3, 3) about a unit axis (Rodrigues)."""
    if angle.dtype == object:
        s, c = np.array([x.sin_cos() for x in angle], dtype=object).reshape(-1, 2).T
    else:
        s, c = np.sin(angle), np.cos(angle)
    K = zeros_of_kind((3, 3), axis)
    for i in range(3):
        K[(i + 2) % 3, (i + 1) % 3], K[(i + 1) % 3, (i + 2) % 3] = axis[i], -axis[i]
    unit = np.eye(3, dtype=int if axis.dtype == object else float)
    return np.asarray(unit + s[:, None, None] * K + (1 - c)[:, None, None] * (K @ K))


def rotate_vectors(R: Numbers, x: Numbers) -> Numbers:
    """R x for every position."""
    return np.asarray((R @ x[..., None])[..., 0])


def cross(x: Numbers, y: Numbers) -> Numbers:
    """Cross products."""
    parts = [x[..., (i + 1) % 3] * y[..., (i + 2) % 3] - x[..., (i + 2) % 3] * y[..., (i + 1) % 3] for i in range(3)]
    return np.stack(parts, axis=-1)


def _half_skew(E: Numbers) -> Numbers:
    """Half the skew part of matrices (N, 3, 3), as vectors."""
    return np.stack([E[:, (i + 2) % 3, (i + 1) % 3] - E[:, (i + 1) % 3, (i + 2) % 3] for i in range(3)], axis=1) / 2


def solve_at_positions(A: Numbers, b: Numbers) -> Numbers:
    """Solve for every position, b (N, m, k)."""
    if A.dtype != object:
        return np.linalg.solve(A, b)
    from flint import arb_mat

    try:
        x = [arb_mat(M.tolist()).solve(arb_mat(y.tolist())).tolist() for M, y in zip(A, b, strict=True)]
    except ZeroDivisionError as error:
        raise UndecidedError(
            "loop_singular", "a loop is singular to all digits", "use {qr}", qr=Option("method", "qr")
        ) from error
    return np.array(x, dtype=object)


def ball_midpoints(x: Numbers) -> Numbers:
    """Midpoints of balls."""
    return np.array([v.mid() for v in x.ravel()], dtype=object).reshape(x.shape)


# Positions on one assembly mode of a robot's loops: followed in floats, then enclosed in balls.


DEAD = 1e-6
"""Ratio of the extreme singular values of the passive joints' Jacobian below which an assembly is at a dead point."""
STEP = 0.1
"""Of a path (rad, or share of the mechanism's size)."""
FAR = 1.0
"""Way (the same units) from a closure's start to the assembly that is worth a warning."""


def find_assembly(mechanism: Mechanism) -> tuple[Array, tuple[Message, ...]]:
    """Positions y (floats) of the assembly nearest to the declared one, and warnings; raise at a dead point."""
    robot, n = mechanism.robot, mechanism.n
    loop = loop_map(robot)
    assert loop is not None
    frames = " and ".join("-".join(c.links) for c in robot.closures)
    declared = np.concatenate([loop.at, loop.start])
    ends = [_close_loops(mechanism, declared, damping) for damping in (0.0, 1.0)]
    y = min(ends, key=lambda x: (not _is_closed(mechanism, x), np.abs((x - declared) / mechanism.units).max()))
    value, J = mechanism.closures(y[None])
    if not _is_closed(mechanism, y):
        left = float(np.abs(value).max())
        raise ModelError(
            "loop_does_not_close", "'{robot}': the loop {frames} does not close near its declared assembly "
            "({residual:.2g} m or rad are left)", "correct start, at and points of the closure", robot=robot.name,
            frames=frames, residual=left,
        )  # fmt: skip
    if _regularity(J[:, :, n:])[0] <= DEAD:
        followers = [name for c in robot.closures for name in c.passive]
        raise ModelError(
            "loop_at_dead_point", "'{robot}': the loop {frames} is at a dead point in its declared assembly, where the "
            "passive joints {joints} are not determined", "give start and at of a position away from it, which "
            "also selects the assembly mode", robot=robot.name, frames=frames, joints=followers,
        )  # fmt: skip
    found = ", ".join(f"{x:.6g}" for x in y[n:])
    if np.abs((y - declared) / mechanism.units).max() > FAR:
        return y, (Message(
            "loop_start_far", "the loop {frames} closes far from its start",
            "if start = [{start}] (rad, m) is meant, write that", frames=frames, start=found,
        ),)  # fmt: skip
    try:
        tree = loop.tree_motion(loop.at[None], np.zeros((1, n)), np.zeros((1, n))).q
    except (LoopError, DeadPointError):
        tree = np.full((1, len(robot.tree_joints)), np.nan)
    joints = [robot.links[k].joint for k in robot.tree_joints]
    other = tree[0, [joints.index(name) for c in robot.closures for name in c.passive]]
    if not np.abs(mechanism.closures(np.concatenate([y[:n], other])[None])[1] - J).max() <= 1e-6 * np.abs(J).max():
        return y, (Message(
            "loop_start_too_rough", "start of the loop {frames} is too rough for the models to find this assembly:",
            "write [{start}]", frames=frames, start=found,
        ),)  # fmt: skip
    return y, ()


def _close_loops(mechanism: Mechanism, y: Array, damping: float) -> Array:
    """Close the loops by short steps, which do not jump to another assembly as full Newton steps do.

    Without damping they are Gauss-Newton's, which never pass a singular position; with it, Levenberg and Marquardt's.
    """
    n, y, units = mechanism.n, y.copy(), mechanism.units[mechanism.n :]
    for _ in range(300):
        value, J = mechanism.closures(y[None])
        A = J[0][:, n:] * units
        extra = math.sqrt(damping * mechanism.size * float(np.abs(value).max())) * np.eye(len(A))
        step = np.linalg.lstsq(np.concatenate([A, extra]), np.concatenate([-value[0], 0 * value[0]]), rcond=1e-12)[0]
        size = float(np.abs(step).max())
        y[n:] += units * step * min(1.0, STEP / max(size, 1e-300))
        if size < 1e-15:
            break
    return y


def _is_closed(mechanism: Mechanism, y: Array) -> bool:
    """Whether the closures hold at y."""
    return float(np.abs(mechanism.closures(y[None])[0]).max()) <= 1e-9 * max(1.0, mechanism.size)


class Paths:
    """Random positions on the assembly mode, each reached from the assembly along a regular path."""

    def __init__(self, mechanism: Mechanism, start: Array, rng: np.random.Generator) -> None:
        self.mechanism, self.start, self.rng = mechanism, start, rng
        self.radius = 1.0
        self.pool = np.zeros((0, len(start)))
        J = mechanism.closures(start[None])[1][:, :, mechanism.n :]
        self.sign = float(np.sign(np.linalg.det(J))[0])
        self.least = min(0.02, 0.3 * float(_regularity(J)[0]))

    def random_positions(self, count: int) -> Array:
        """Return so many positions y; the neighbourhood shrinks where few paths get through."""
        n, robot = self.mechanism.n, self.mechanism.robot
        while self.radius > 1e-3:
            if len(self.pool) < count:
                away = self.radius * self.rng.uniform(-1.0, 1.0, (2 * count + 5, n)) * self.mechanism.units[:n]
                self.pool = np.concatenate([self.pool, self._follow_lines(away)])
            if len(self.pool) >= count:
                taken, self.pool = self.pool[:count], self.pool[count:]
                return taken
            self.radius *= 0.6
        frames = " and ".join("-".join(c.links) for c in robot.closures)
        raise ModelError(
            "loop_near_dead_point", "'{robot}': the loop {frames} is too close to a dead point in its declared "
            "assembly", "give start and at of a position farther from it", robot=robot.name, frames=frames,
        )  # fmt: skip

    def _follow_lines(self, away: Array) -> Array:
        """Positions at the ends of those straight lines of active positions along which the loops stay regular."""
        mechanism, n, units = self.mechanism, self.mechanism.n, self.mechanism.units
        closed = 1e-10 * max(1.0, mechanism.size)
        steps = max(3, math.ceil(self.radius / STEP))
        y = np.tile(self.start, (len(away), 1))
        J = mechanism.closures(y)[1]
        for _ in range(steps):
            part = away / steps
            y = np.concatenate(
                [y[:, :n] + part, y[:, n:] - _follower_step(J, rotate_vectors(J[:, :, :n], part), n)], axis=1
            )
            begin = y
            for _ in range(6):
                value, J = mechanism.closures(y)
                left = np.abs(value).max(axis=1)
                if (left <= closed).all():
                    break
                y = np.concatenate([y[:, :n], y[:, n:] - _follower_step(J, value, n)], axis=1)
            passive = J[:, :, n:]
            fine = (
                (left <= closed)
                & (np.abs((y - begin) / units).max(axis=1) <= min(STEP, self.radius / 3))
                & (np.sign(np.linalg.det(passive)) == self.sign)
                & (_regularity(passive) >= self.least)
            )
            y, J, away, value = y[fine], J[fine], away[fine], value[fine]
            if not len(y):
                break
        return np.concatenate([y[:, :n], y[:, n:] - _follower_step(J, value, n)], axis=1)


def _follower_step(J: Array, right: Array, n: int) -> Array:
    """Step of the followers for a change of the equations; huge where they are singular, so that the path ends."""
    passive = J[:, :, n:]
    dead = np.linalg.det(passive) == 0.0
    step = np.linalg.solve(np.where(dead[:, None, None], np.eye(passive.shape[1]), passive), right[..., None])[..., 0]
    return np.asarray(np.where(dead[:, None], 1e3, np.clip(step, -1e3, 1e3)))


def _regularity(J: Array) -> Array:
    """Smallest over largest singular value of the followers' derivatives."""
    sigma = np.linalg.svd(J, compute_uv=False)
    return np.asarray(sigma[:, -1] / sigma[:, 0])


def enclose_positions(mechanism: Mechanism, y: Array) -> Numbers:
    """Balls around the positions that the followers take exactly at the active positions of y.

    Newton's method in long arithmetic, then one Krawczyk step: it maps a box around the approximation into itself, so
    there is one and only one solution inside.
    """
    from flint import arb, ctx  # noqa: TID251  (read only, inside flint_precision)

    n = mechanism.n
    balls = balls_around(y, y.shape)
    if not mechanism.robot.closures:
        return balls
    for _ in range(math.ceil(math.log2(ctx.dps / 12))):
        value, J = mechanism.closures(balls)
        balls[:, n:] = ball_midpoints(balls[:, n:] - solve_at_positions(J[:, :, n:], value[..., None])[..., 0])
    value, J = mechanism.closures(balls)
    unit = np.broadcast_to(np.eye(J.shape[1], dtype=int), (len(y), J.shape[1], J.shape[1]))
    inverse = ball_midpoints(solve_at_positions(J[:, :, n:], unit))
    shift = rotate_vectors(inverse, value)
    size = max(float(x.abs_upper()) for x in shift.ravel())
    box = np.full(shift.shape, arb(0, 4.0 * max(size, 10.0 ** (5 - ctx.dps))), dtype=object)
    wide = balls.copy()
    wide[:, n:] = balls[:, n:] + box
    rest = rotate_vectors(unit - inverse @ mechanism.closures(wide)[1][:, :, n:], box) - shift
    if not all(b.contains_interior(x) for b, x in zip(box.ravel(), rest.ravel(), strict=True)):
        raise UndecidedError(
            "loop_positions_unverified", "'{robot}': the positions of its loops could not be verified", "use {qr}",
            robot=mechanism.robot.name, qr=Option("method", "qr"),
        )  # fmt: skip
    balls[:, n:] = balls[:, n:] + rest
    return balls
