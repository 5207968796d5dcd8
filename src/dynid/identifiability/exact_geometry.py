"""Exact reading of a robot's geometry.

What a float stands for is decided here, once for every exact method:

- an angle that equals k pi/2 in floating point is that multiple of 90 degrees, one within two units in the last
  place of a whole number of millidegrees is that number; any other is the decimal that Python prints, in rad;
- a component of gravity is the decimal that Python prints (0.1 is 1/10), and so is a length, but for the rounding of
  0.1 + 0.2: one within 4e-16 m of twelve decimals is these;
- a link without a table row (URDF, MJCF) is read as roll, pitch and yaw of its rotation matrix and a translation,
  in the parent's axes or, where only there it has at most twelve decimals, in its own; its axis as azimuth and
  inclination. Angles within 4e-15 rad of whole millidegrees or twelve decimals, and lengths within 4e-16 m of
  twelve decimals, are these. `reads_exactly` says whether that was enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from typing import TypeAlias

from dynid.concurrency import flint_precision
from dynid.robot.robot import Link, MdhRow, Robot
from dynid.robot.transform import Array, cos_sin

FULL_TURN = 360_000
"""Millidegrees in a turn."""

_ROUNDING = 4e-15
"""Angles (rad) recovered from rotation matrices carry such errors."""

_DECIMALS = 12
"""More than these, nobody writes into a file by hand."""

Vector: TypeAlias = tuple[Decimal, Decimal, Decimal]

O = Decimal(0)  # noqa: E741
X, Y, Z = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Angle:
    """An exact angle: a whole number of millidegrees, or a decimal number of radians."""

    millidegrees: int | None
    radians: Decimal = O

    @property
    def is_right_angle(self) -> bool:
        """Whether it is a multiple of 90 degrees."""
        return self.millidegrees is not None and self.millidegrees % (FULL_TURN // 4) == 0


@dataclass(frozen=True, slots=True)
class Turn:
    """A rotation about x, y or z (0, 1, 2)."""

    axis: int
    angle: Angle


@dataclass(frozen=True, slots=True)
class Slide:
    """A translation (m)."""

    by: Vector


Motions: TypeAlias = tuple[Turn | Slide, ...]
"""A pose as a product of elementary motions, from left to right."""


def read_length(value: float) -> Decimal:
    """Exact decimal that a length stands for: the one that Python prints for the float."""
    return Decimal(repr(float(value)))


def read_gravity(gravity: Array) -> Vector:
    """Exact components of gravity as decimals; those below 1e-15 of the largest are zero but for rounding."""
    largest = max(abs(float(x)) for x in gravity)
    x, y, z = (read_length(float(x)) if abs(x) > 1e-15 * largest else O for x in gravity)
    return (x, y, z)


def read_angle(value: float, *, tolerance: float = 0.0) -> Angle:
    """Exact angle that a float (rad) stands for."""
    whole = round(value * (FULL_TURN / 2) / math.pi)
    distance = abs(value - whole * math.pi / (FULL_TURN / 2))
    if whole % (FULL_TURN // 4) == 0:
        exact = 0.0 in cos_sin(value)
    else:
        exact = distance <= 2.0 * math.ulp(value)
    if exact or distance <= tolerance:
        return Angle(whole % FULL_TURN)
    nearest = round(value, _DECIMALS)
    return Angle(None, read_length(nearest if nearest and abs(value - nearest) <= tolerance else value))


def read_placement(link: Link) -> Motions:
    """Pose of a link in its parent at q = 0, as exact elementary motions."""
    if link.mdh is not None:
        return _read_mdh_row(link.mdh)
    R, p = link.placement.rotation, link.placement.translation
    turns, before, after = _read_rotation(R), _read_translation(p), _read_translation(R.T @ p)
    return (*turns, after) if _is_written_briefly(after) and not _is_written_briefly(before) else (before, *turns)


def reads_exactly(robot: Robot) -> bool:
    """Whether no link's pose or axis is known to the precision of a float only.

    Where it is, coincidences (an axis through another, two parallel ones) may be lost to rounding, and an exact
    method then sees parameters that nobody can measure.
    """
    bare = [link for link in robot.links if link.mdh is None and link.kind != "floating"]
    return all(
        _is_written_briefly(motion)
        for x in bare
        for motion in (*read_placement(x), *(read_axis(x.axis) if x.moves else ()))
    )


def read_axis(axis: Array) -> Motions:
    """Turns that take z to a unit axis: Rz(azimuth) Ry(inclination)."""
    x, y, z = (float(u) for u in axis)
    across = math.hypot(x, y)
    return _nonzero_turns((Z, math.atan2(y, x) if across > _ROUNDING else 0.0), (Y, math.atan2(across, z)))


def _read_mdh_row(row: MdhRow) -> Motions:
    """Exact motions Rz(gamma) Tz(b) Rx(alpha) Tx(d) Rz(theta) Tz(r) of a row."""
    gamma, alpha, theta = (read_angle(angle.value) for angle in (row.gamma, row.alpha, row.theta))
    b, d, r = (clean_length(length.value) for length in (row.b, row.d, row.r))
    return (Turn(Z, gamma), Slide((O, O, b)), Turn(X, alpha), Slide((d, O, r)), Turn(Z, theta))


def _read_rotation(R: Array) -> Motions:
    """Exact turns Rz(yaw) Ry(pitch) Rx(roll) of a rotation; each angle is found from what the others leave."""
    across = math.hypot(R[2, 1], R[2, 2])
    roll = math.atan2(R[2, 1], R[2, 2]) if across > _ROUNDING else 0.0
    pitch = math.atan2(-R[2, 0], across)
    c, s = cos_sin(roll)
    yaw = math.atan2(s * R[0, 2] - c * R[0, 1], c * R[1, 1] - s * R[1, 2])
    return _nonzero_turns((Z, yaw), (Y, pitch), (X, roll))


def _nonzero_turns(*pairs: tuple[int, float]) -> tuple[Turn, ...]:
    """Exact turns of axes and angles, those by zero left out."""
    turns = (Turn(axis, read_angle(angle, tolerance=_ROUNDING)) for axis, angle in pairs)
    return tuple(turn for turn in turns if turn.angle.millidegrees != 0)


def _read_translation(p: Array) -> Slide:
    """Exact slide of a translation."""
    x, y, z = (clean_length(float(value)) for value in p)
    return Slide((x, y, z))


def clean_length(value: float) -> Decimal:
    """Decimal that a computed length (m) stands for: one with twelve decimals if rounding explains the rest."""
    nearest = round(value, _DECIMALS)
    if not nearest and abs(value) > math.ulp(1.0):
        return read_length(value)
    return read_length(nearest if abs(value - nearest) <= 2.0 * math.ulp(1.0) else value)


def _is_written_briefly(motion: Turn | Slide) -> bool:
    """Whether at most twelve decimals, or whole millidegrees, describe a motion."""
    if isinstance(motion, Turn):
        return motion.angle.millidegrees is not None or _has_few_decimals(motion.angle.radians)
    return all(_has_few_decimals(x) for x in motion.by)


_WHOLE = Decimal(10) ** 15
"""Numbers from which on a float has no decimals."""


def _has_few_decimals(x: Decimal) -> bool:
    """Whether a number has at most twelve decimals."""
    return x == (x.to_integral_value() if abs(x) >= _WHOLE else round(x, _DECIMALS))


# Cosines, rotations and poses in decimals with 120 digits.


DIGITS = 120
ZERO = Decimal("1e-60")
"""Numbers below this are zero (the papers' lengths and angles are far above it, rounding far below)."""

Matrix: TypeAlias = tuple[Vector, Vector, Vector]
I = Decimal(1)  # noqa: E741
UNIT_MATRIX: Matrix = ((I, O, O), (O, I, O), (O, O, I))


def many_digits(digits: int = DIGITS) -> AbstractContextManager[Context]:
    """Context in which decimals have 120 digits; it leaves the caller's context alone."""
    return localcontext(Context(prec=digits))


@lru_cache(maxsize=4096)
def cosine_sine(angle: Angle) -> tuple[Decimal, Decimal]:
    """Cosine and sine, exact at multiples of 90 degrees, else to 120 digits (flint's balls)."""
    if angle.millidegrees is not None and angle.is_right_angle:
        return ((I, O), (O, I), (-I, O), (O, -I))[angle.millidegrees // (FULL_TURN // 4) % 4]
    from flint import arb, fmpq

    with flint_precision(4 * DIGITS):  # bits: 144 digits
        if angle.millidegrees is None:
            s, c = arb(str(angle.radians)).sin_cos()
        else:
            s, c = arb.sin_cos_pi_fmpq(fmpq(2 * angle.millidegrees, FULL_TURN))
        return Decimal(c.mid().str(DIGITS + 15, radius=False)), Decimal(s.mid().str(DIGITS + 15, radius=False))


def rotation(axis: int, angle: Angle) -> Matrix:
    """Rotation matrix of decimals about x, y or z (0, 1, 2)."""
    c, s = cosine_sine(angle)
    if axis == X:
        return ((I, O, O), (O, c, -s), (O, s, c))
    if axis == Y:
        return ((c, O, s), (O, I, O), (-s, O, c))
    return ((c, -s, O), (s, c, O), (O, O, I))


def pose_of_motions(motions: Motions) -> tuple[Matrix, Vector]:
    """Rotation matrix and translation of a product of elementary motions."""
    R, p = UNIT_MATRIX, (O, O, O)
    for motion in motions:
        if isinstance(motion, Turn):
            if motion.angle.millidegrees != 0:
                R = multiply_matrices(R, rotation(motion.axis, motion.angle))
        elif any(motion.by):
            moved = multiply_vector(R, motion.by)
            p = (p[0] + moved[0], p[1] + moved[1], p[2] + moved[2])
    return R, p


def multiply_matrices(A: Matrix, B: Matrix) -> Matrix:
    """Matrix product (3, 3)."""
    columns = transpose(B)
    rows = [tuple(dot(row, column) for column in columns) for row in A]
    return (rows[0], rows[1], rows[2])  # type: ignore[return-value]


def multiply_vector(A: Matrix, x: Sequence[Decimal]) -> Vector:
    """Product A x of a matrix and a vector of decimals."""
    return (dot(A[0], x), dot(A[1], x), dot(A[2], x))


def transpose(A: Matrix) -> Matrix:
    """Transpose A' of a matrix of decimals."""
    (a, b, c), (d, e, f), (g, h, i) = A
    return ((a, d, g), (b, e, h), (c, f, i))


def dot(x: Sequence[Decimal], y: Sequence[Decimal]) -> Decimal:
    """Scalar product x'y of decimals, zeros skipped."""
    total = O
    for a, b in zip(x, y, strict=True):
        if a and b:
            total += a * b
    return total
