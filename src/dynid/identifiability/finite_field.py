"""Base parameters over two finite fields: random points, ordinary Newton-Euler rows, exact ranks.

In GF(p) with p = 1 mod 360000 any nonzero z is a point of the circle, cos = (z + 1/z)/2, sin = (z - 1/z)/2i with
i^2 = -1. Whole millidegrees are powers of a 360000th root of unity, other angles powers of one generic element,
lengths exact decimals. A rank can only come out too low, with a probability below 1e-6 per prime. Nothing is shared
with the exact recursion but the reading of the geometry.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dynid.dynamics.scene import ColumnSet, standard_columns
from dynid.errors import ModelError
from dynid.identifiability.exact_geometry import (
    FULL_TURN,
    Angle,
    Motions,
    Turn,
    read_angle,
    read_axis,
    read_gravity,
    read_length,
    read_placement,
)
from dynid.messages import Option
from dynid.robot.robot import Robot

# A finite field in which angles are points of the circle: GF(p) with p = 1 mod 360000.


Numbers: TypeAlias = NDArray[np.object_]
"""Elements of the field: Python integers in an array, the samples along its first axis."""


@dataclass(frozen=True, slots=True)
class Field:
    """GF(p) with a 360000th root of unity, i, and a generic element for angles in units of `unit` rad."""

    p: int
    chance: random.Random
    root: int
    generic: int
    unit: Fraction

    @staticmethod
    def for_robot(robot: Robot, p: int, chance: random.Random) -> Field:
        """Return a field whose unit divides every angle of the robot that is not in whole millidegrees."""
        motions = [m for link in robot.links for m in (*read_placement(link), *read_axis(link.axis))]
        angles = [m.angle for m in motions if isinstance(m, Turn)]
        angles += [read_angle(c.offset) for c in robot.couplings]
        return Field.for_angles(angles, p, chance)

    @staticmethod
    def for_angles(angles: Iterable[Angle], p: int, chance: random.Random) -> Field:
        """Return a field whose unit divides every one of these angles that is not in whole millidegrees."""
        values = [Fraction(a.radians) for a in angles if a.millidegrees is None]
        denominator = math.lcm(1, *(x.denominator for x in values))
        unit = Fraction(math.gcd(*(int(x * denominator) for x in values)) or 1, denominator)
        return Field(p, chance, _root_of_unity(p, chance), chance.randrange(2, p), unit)

    def circle_point(self, angle: Angle, factor: Fraction) -> int:
        """Point of the circle at factor * angle."""
        if angle.millidegrees is not None:
            steps = angle.millidegrees * factor
            if steps.denominator > 1:
                return self.circle_point(read_angle(float(steps) * math.pi / (FULL_TURN / 2)), Fraction(1))
            return pow(self.root, int(steps), self.p)
        steps = Fraction(angle.radians) * factor / self.unit
        if steps.denominator > 1:
            raise ModelError(
                "coupling_offset_not_whole", "the offset of a chain of couplings is not a whole multiple of the "
                "robot's angles", "use {qr}", qr=Option("method", "qr"),
            )  # fmt: skip
        return pow(self.generic, int(steps), self.p)

    def field_element(self, value: Fraction | Decimal) -> int:
        """Element of the field that a rational number is."""
        exact = Fraction(value)
        return exact.numerator * pow(exact.denominator, -1, self.p) % self.p

    def random_elements(self, *shape: int) -> Numbers:
        """Random nonzero elements."""
        values = [self.chance.randrange(1, self.p) for _ in range(math.prod(shape))]
        return np.array(values, dtype=object).reshape(shape)

    def cos_sin(self, z: Numbers) -> tuple[Numbers, Numbers]:
        """Cosine and sine of points z of the circle."""
        p = self.p
        half, i = pow(2, -1, p), pow(self.root, FULL_TURN // 4, p)
        inverse = np.array([pow(int(x), -1, p) for x in z], dtype=object)
        return (z + inverse) * half % p, (z - inverse) * half % p * pow(i, -1, p) % p

    def rotations_about(self, axis: int, z: Numbers) -> Numbers:
        """Rotations (N, 3, 3) about x, y or z."""
        c, s = self.cos_sin(z)
        R = np.zeros((len(z), 3, 3), dtype=object)
        b, d = (axis + 1) % 3, (axis + 2) % 3
        R[:, axis, axis] = 1
        R[:, b, b] = R[:, d, d] = c
        R[:, d, b], R[:, b, d] = s, -s % self.p
        return R

    def pose(self, motions: Motions) -> tuple[Numbers, Numbers]:
        """Rotation (3, 3) and translation (3,) of a product of elementary motions."""
        R, t = np.array(np.eye(3, dtype=int), dtype=object), np.zeros(3, dtype=object)
        for motion in motions:
            if isinstance(motion, Turn):
                z = np.array([self.circle_point(motion.angle, Fraction(1))], dtype=object)
                R = R @ self.rotations_about(motion.axis, z)[0] % self.p
            else:
                t = (t + R @ np.array([self.field_element(x) for x in motion.by], dtype=object)) % self.p
        return R, t


def _root_of_unity(p: int, chance: random.Random) -> int:
    """Element of order 360000: a root of unity in GF(p)."""
    while True:
        root = pow(chance.randrange(2, p), (p - 1) // FULL_TURN, p)
        if all(pow(root, FULL_TURN // factor, p) != 1 for factor in (2, 3, 5)):
            return root


# Linear couplings with exact fractions: every joint in terms of the active ones.


@dataclass(frozen=True, slots=True)
class Gear:
    """A joint in terms of the active ones: q = sum(factor * q_active) + sum(factor * offset)."""

    factors: dict[str, Fraction]
    offsets: tuple[tuple[Fraction, float], ...] = ()


def joints_by_active_joints(robot: Robot) -> dict[str, Gear]:
    """Every moving joint as a combination of the active ones and of those that closures make passive."""
    followers = (name for closure in robot.closures for name in closure.passive)
    found = {name: Gear({name: Fraction(1)}) for name in (*robot.joint_names, *followers)}
    waiting = list(robot.couplings)
    while waiting:
        coupling = next((c for c in waiting if all(name in found for name, _ in c.factors)), None)
        if coupling is None:
            raise ModelError("couplings_dependent", "the couplings of '{robot}' depend on each other", robot=robot.name)
        waiting.remove(coupling)
        factors: dict[str, Fraction] = {}
        offsets = [(Fraction(1), coupling.offset)] if coupling.offset else []
        for name, value in coupling.factors:
            k = _simple_fraction(value)
            for active, factor in found[name].factors.items():
                factors[active] = factors.get(active, Fraction(0)) + k * factor
            offsets += [(k * factor, offset) for factor, offset in found[name].offsets]
        found[coupling.passive] = Gear(factors, tuple(offsets))
    return found


def _simple_fraction(value: float) -> Fraction:
    """The fraction that a float stands for: 1/3 for 0.333..., else the decimal that Python prints."""
    simple = Fraction(value).limit_denominator(10_000)
    return simple if float(simple) == value else Fraction(repr(value))


PRIMES = (2305843009201080001, 2305843008991560001)
"""p = 360000 m + 1 below 2^61 with m prime, so that powers of ten leave the generic element's order large."""

BASE_CHANNELS = ("Fx", "Fy", "Fz", "Mx", "My", "Mz")


@dataclass(frozen=True, slots=True)
class FiniteFieldResult:
    """Kept columns (lexicographically first independent ones), their number, and whether both primes agree."""

    kept: tuple[int, ...]
    count: int
    primes: tuple[int, int]
    agree: bool


def find_over_finite_field(
    robot: Robot,
    *,
    model: str = "torque",
    rotor_inertia: bool = True,
    tared: bool = False,
    channels: tuple[str, ...] | None = None,
    seed: int = 0,
) -> FiniteFieldResult:
    """Kept columns of a tree, floating or not, with linear couplings; implicit closures are refused.

    Models: torque, reaction, torque+reaction; `channels`: the measured ones of Fx Fy Fz Mx My Mz, None for all;
    `tared`: six free offsets, which do not count.
    """
    _check_supported(robot, model)
    columns = standard_columns(robot, rotor_inertia=rotor_inertia)
    found = []
    for p in PRIMES:
        writer = _RegressorWriter(
            robot, columns, Field.for_robot(robot, p, random.Random(f"{seed} {p}")), model, channels, tared
        )
        found.append(_find_pivots(writer))
    best = max(found, key=len)
    return FiniteFieldResult(best, len(best), PRIMES, found[0] == found[1])


def _check_supported(robot: Robot, model: str) -> None:
    """Raise for robots and models that have no points in a finite field."""
    if robot.closures:
        raise ModelError(
            "implicit_closures", "'{robot}' has implicit closures, which have no points in a finite field", "use "
            "{exact}", exact=Option("method", "exact"), robot=robot.name,
        )  # fmt: skip
    if model not in ("torque", "reaction", "torque+reaction"):
        raise ModelError(
            "method_without_model", "the finite field handles the models torque, reaction and torque+reaction, not "
            "'{model}'", model=model,
        )  # fmt: skip
    if robot.floating and model != "torque":
        raise ModelError(
            "floating_base", "'{robot}' has a floating base and no reactions", "use the torque model", robot=robot.name,
        )  # fmt: skip


def _find_pivots(writer: _RegressorWriter) -> tuple[int, ...]:
    """Pivot columns from left to right; points are added until two of them bring no new rank."""
    from flint import nmod_mat

    p, offsets = writer.field.p, 6 if writer.tared else 0
    width = offsets + len(writer.columns)
    rows: list[int] = []
    rank, points = -1, 4 + 3 * width // (2 * writer.rows_per_point)
    while True:
        fresh = writer.rows(points).reshape(-1, width)
        rows += fresh.ravel().tolist()
        matrix, new_rank = nmod_mat(len(rows) // width, width, rows, p).rref()
        entries = [int(x) for x in matrix.entries()[: new_rank * width]]
        if new_rank == rank:
            break
        rows, rank, points = entries, new_rank, 2
    leads = (next(k for k in range(width) if entries[i * width + k]) for i in range(rank))
    return tuple(k - offsets for k in leads if k >= offsets)


@dataclass(frozen=True, slots=True)
class _JointMotion:
    """Motion of a joint at N points: its position as a number q and as a point z of the circle, v and a."""

    q: Numbers
    z: Numbers
    v: Numbers
    a: Numbers


@dataclass(slots=True)
class _LinkMotion:
    """Angular velocity and acceleration, acceleration less gravity (N, 3), and channels' twists (N, m, 3)."""

    w: Numbers
    wd: Numbers
    a: Numbers
    seen: list[int]
    angular: Numbers
    linear: Numbers


class _RegressorWriter:
    """Rows of the regressor at random points of the field."""

    def __init__(
        self, robot: Robot, columns: ColumnSet, field: Field, model: str, channels: tuple[str, ...] | None, tared: bool
    ) -> None:
        self.robot, self.columns, self.field = robot, columns, field
        self.torques, self.reactions = "torque" in model, "reaction" in model
        self.tared = tared and self.reactions
        measured = BASE_CHANNELS if channels is None or not self.reactions else channels
        self.blind = [i for i, name in enumerate(BASE_CHANNELS) if name not in measured]
        self.known = [k for k, name in enumerate(columns.names) if name in robot.known_zeros]
        self.gears = joints_by_active_joints(robot)
        self.poses = [(*field.pose(read_placement(x)), field.pose(read_axis(x.axis))[0]) for x in robot.links]

    @property
    def base_row_count(self) -> int:
        """Number of rows of the base, which come first: six where it floats or its reactions are measured, else 0."""
        return 6 if self.robot.floating or self.reactions else 0

    @property
    def rows_per_point(self) -> int:
        """Rows per point."""
        return self.base_row_count + (self.robot.n if self.torques else 0)

    def rows(self, N: int) -> Numbers:
        """Rows (N, channels, offsets and columns) at N fresh random points."""
        drives = self._joint_motions(N)
        base = self.base_row_count
        joints = {k: base + i for i, k in enumerate(self.robot.tree_joints)} if self.torques else {}
        out = np.zeros((N, base + len(joints), len(self.columns)), dtype=object)
        states = {-1: self._resting_base_motion(N)}
        for k in self.robot.topological_order:
            link = self.robot.links[k]
            if link.kind == "floating":
                states[k] = self._floating_base_motion(N)
            else:
                states[k] = self._link_motion(k, states[link.parent], drives.get(link.joint))
                if k in joints:
                    self._add_channel(k, states[k], joints[k])
            first = self.columns.first_column_of_link[k]
            out[:, states[k].seen, first : first + 10] = _link_rows(states[k], self.field.p)
        active = self._project_to_active(out, joints)
        for k, column in self.columns.rotor_column_of_link.items():
            if joints:
                active[:, base + self.robot.active_links.index(k), column] = drives[self.robot.links[k].joint].a
        return self._with_offsets(active)

    def _joint_motions(self, N: int) -> dict[str, _JointMotion]:
        """Motion of every moving joint, from random motions of the active ones."""
        p, names = self.field.p, self.robot.joint_names
        active = {name: _JointMotion(*(self.field.random_elements(N) for _ in range(4))) for name in names}
        common = {
            name: math.lcm(*(g.factors[name].denominator for g in self.gears.values() if name in g.factors))
            for name in names
        }
        drives: dict[str, _JointMotion] = {}
        for joint, gear in self.gears.items():
            q, v, a = (np.zeros(N, dtype=object) for _ in range(3))
            z = np.ones(N, dtype=object)
            for name, k in gear.factors.items():
                x, factor, steps = active[name], self.field.field_element(k), int(k * common[name])
                q, v, a = q + factor * x.q, v + factor * x.v, a + factor * x.a
                z = z * np.array([pow(int(y), steps, p) for y in x.z], dtype=object) % p
            for k, offset in gear.offsets:
                q = q + self.field.field_element(k * Fraction(read_length(offset)))
                z = z * self._circle_point_of_offset(joint, k, offset) % p
            drives[joint] = _JointMotion(q % p, z, v % p, a % p)
        return drives

    def _circle_point_of_offset(self, joint: str, factor: Fraction, offset: float) -> int:
        """Point of the circle at a coupling's offset, 1 for a joint that does not turn."""
        turns = any(link.joint == joint and link.kind == "revolute" for link in self.robot.links)
        return self.field.circle_point(read_angle(offset), factor) if turns else 1

    def _resting_base_motion(self, N: int) -> _LinkMotion:
        """Motion of a base at rest, with six twists where its reactions are measured."""
        p = self.field.p
        g = np.array([-self.field.field_element(x) % p for x in read_gravity(self.robot.gravity)], dtype=object)
        still = np.zeros((N, 3), dtype=object)
        return _LinkMotion(still, still, np.tile(g, (N, 1)), *_base_twists(N, 6 if self.reactions else 0))

    def _floating_base_motion(self, N: int) -> _LinkMotion:
        """Random motion of a floating base, gravity included in its acceleration."""
        w, wd, a = (self.field.random_elements(N, 3) for _ in range(3))
        return _LinkMotion(w, wd, a, *_base_twists(N, 6))

    def _link_motion(self, k: int, parent: _LinkMotion, drive: _JointMotion | None) -> _LinkMotion:
        """Motion of link k from its parent's (Luh, Walker & Paul), with the channels that its parent has."""
        p = self.field.p
        revolute = self.robot.links[k].kind == "revolute"
        R0, t0, Q = self.poses[k]
        axis = Q[:, 2]
        R, t = R0[None], t0[None]
        if drive is not None and revolute:
            R = R0 @ (Q @ self.field.rotations_about(2, drive.z) % p @ Q.T % p) % p
        elif drive is not None:
            t = (t0 + drive.q[:, None] * (R0 @ axis % p)) % p
        w, wd = _rotate_back(R, parent.w, p), _rotate_back(R, parent.wd, p)
        swept = parent.a + _cross(parent.wd, t, p) + _cross(parent.w, _cross(parent.w, t, p), p)
        a = _rotate_back(R, swept % p, p)
        if drive is not None:
            v, push = drive.v[:, None] * axis % p, drive.a[:, None] * axis % p
            if revolute:
                w, wd = (w + v) % p, (wd + _cross(w, v, p) + push) % p
            else:
                a = (a + 2 * _cross(w, v, p) + push) % p
        linear = (parent.linear + _cross(parent.angular, t[:, None], p)) @ R % p
        return _LinkMotion(w, wd, a, parent.seen, parent.angular @ R % p, linear)

    def _add_channel(self, k: int, state: _LinkMotion, row: int) -> None:
        """Add the channel of joint k, its unit twist, to the state of its link."""
        own = np.tile(self.poses[k][2][:, 2], (len(state.w), 1, 1))
        nothing = np.zeros_like(own)
        angular, linear = (own, nothing) if self.robot.links[k].kind == "revolute" else (nothing, own)
        state.seen = [*state.seen, row]
        state.angular = np.concatenate([state.angular, angular], axis=1)
        state.linear = np.concatenate([state.linear, linear], axis=1)

    def _project_to_active(self, out: Numbers, joints: dict[int, int]) -> Numbers:
        """Project the tree's rows to the active joints: Gamma_a = (dq/dq_a)' Gamma."""
        if not self.robot.couplings or not joints:
            return out
        base = self.base_row_count
        G = np.zeros((base + len(joints), base + self.robot.n), dtype=object)
        G[range(base), range(base)] = 1
        for k, row in joints.items():
            for name, factor in self.gears[self.robot.links[k].joint].factors.items():
                G[row, base + self.robot.joint_names.index(name)] = self.field.field_element(factor)
        return np.asarray(G.T @ out % self.field.p)

    def _with_offsets(self, rows: Numbers) -> Numbers:
        """Rows with offset columns first where channels are tared; channels that are not measured become zero."""
        if self.reactions:
            rows[:, self.blind] = 0
        rows[:, :, self.known] = 0
        if not self.tared:
            return rows
        offsets = np.zeros((*rows.shape[:2], 6), dtype=object)
        offsets[:, range(6), range(6)] = 1
        return np.concatenate([offsets, rows], axis=2)


def _base_twists(N: int, m: int) -> tuple[list[int], Numbers, Numbers]:
    """Channels 0..m-1 of the base (Fx Fy Fz Mx My Mz), and their angular and linear unit twists."""
    angular, linear = (np.zeros((N, m, 3), dtype=object) for _ in range(2))
    for i in range(m // 2):
        linear[:, i, i] = 1
        angular[:, 3 + i, i] = 1
    return list(range(m)), angular, linear


def _cross(x: Numbers, y: Numbers, p: int) -> Numbers:
    """Cross products over the field."""
    out = [x[..., (i + 1) % 3] * y[..., (i + 2) % 3] - x[..., (i + 2) % 3] * y[..., (i + 1) % 3] for i in range(3)]
    return np.asarray(np.stack(np.broadcast_arrays(*out), axis=-1) % p)


def _rotate_back(R: Numbers, x: Numbers, p: int) -> Numbers:
    """R' x for every sample."""
    return np.asarray((x[:, None, :] @ R)[:, 0] % p)


def _skew(x: Numbers) -> Numbers:
    """Matrices of the cross product."""
    out = np.zeros((len(x), 3, 3), dtype=object)
    for i in range(3):
        out[:, (i + 2) % 3, (i + 1) % 3], out[:, (i + 1) % 3, (i + 2) % 3] = x[:, i], -x[:, i]
    return out


def _inertia_product_matrix(x: Numbers) -> Numbers:
    """Matrix (N, 3, 6) with J x = matrix @ (XX XY XZ YY YZ ZZ)."""
    out = np.zeros((len(x), 3, 6), dtype=object)
    for column, (i, k) in enumerate(((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))):
        out[:, i, column] = x[:, k]
        out[:, k, column] = x[:, i]
    return out


def _link_rows(state: _LinkMotion, p: int) -> Numbers:
    """Rows (N, m, 10): the link's Newton-Euler wrench along the channels' twists.

    f = M a + (wd x + w x w x) MS; n = J wd + w x J w + MS x a.
    """
    W = _skew(state.w)
    force = np.zeros((len(state.w), 3, 10), dtype=object)
    moment = np.zeros_like(force)
    force[:, :, 6:9] = _skew(state.wd) + W @ W
    force[:, :, 9] = state.a
    moment[:, :, :6] = _inertia_product_matrix(state.wd) + W @ _inertia_product_matrix(state.w)
    moment[:, :, 6:9] = -_skew(state.a)
    return np.asarray((state.angular @ (moment % p) + state.linear @ (force % p)) % p)
