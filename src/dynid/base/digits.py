"""Exact reading of a robot's geometry, and arithmetic with 120 digits for rank decisions.

What a float stands for is decided here, once for every exact method:

- an angle that equals k pi/2 in floating point is that multiple of 90 degrees, one within two units in the last
  place of a whole number of millidegrees is that number; any other is the decimal that Python prints, in rad;
- a length or a component of gravity is the decimal that Python prints (0.1 is 1/10);
- a link without a table row (URDF, MJCF) is read as roll, pitch and yaw of its rotation matrix and a translation,
  in the parent's axes or, where only there it has at most twelve decimals, in its own; its axis as azimuth and
  inclination. Angles within 4e-15 rad of whole millidegrees or twelve decimals, and lengths within 4e-16 m of
  twelve decimals, are these. `reads_exactly` says whether that was enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from typing import TypeAlias

from dynid.robot.robot import Link, MdhRow, Robot
from dynid.robot.transform import Array, cos_sin

DIGITS = 120
ZERO = Decimal("1e-60")
"""Numbers below this are zero (the papers' lengths and angles are far above it, rounding far below)."""

FULL_TURN = 360_000
"""Millidegrees in a turn."""

Vector: TypeAlias = tuple[Decimal, Decimal, Decimal]
Matrix: TypeAlias = tuple[Vector, Vector, Vector]
Row: TypeAlias = dict[int, Decimal]
"""A sparse row: column and nonzero entry."""

O, I = Decimal(0), Decimal(1)  # noqa: E741
UNIT_MATRIX: Matrix = ((I, O, O), (O, I, O), (O, O, I))
X, Y, Z = 0, 1, 2


def many_digits(digits: int = DIGITS) -> AbstractContextManager[Context]:
    """Context in which decimals have 120 digits; it leaves the caller's context alone."""
    return localcontext(Context(prec=digits))


@dataclass(frozen=True, slots=True)
class Angle:
    """An exact angle: a whole number of millidegrees, or a decimal number of radians."""

    millidegrees: int | None
    radians: Decimal = O


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
    """Decimal that Python prints for the float."""
    return Decimal(repr(float(value)))


def read_gravity(gravity: Array) -> Vector:
    """Components as decimals; those below 1e-15 of the largest are what rounding left of zero."""
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
        return _read_row(link.mdh)
    R, p = link.placement.rotation, link.placement.translation
    turns, before, after = _read_rotation(R), _read_translation(p), _read_translation(R.T @ p)
    return (*turns, after) if _is_short(after) and not _is_short(before) else (before, *turns)


def reads_exactly(robot: Robot) -> bool:
    """Whether no link's pose or axis is known to the precision of a float only.

    Where it is, coincidences (an axis through another, two parallel ones) may be lost to rounding, and an exact
    method then sees parameters that nobody can measure.
    """
    bare = [link for link in robot.links if link.mdh is None and link.kind != "floating"]
    return all(
        _is_short(motion) for x in bare for motion in (*read_placement(x), *(read_axis(x.axis) if x.moves else ()))
    )


def read_axis(axis: Array) -> Motions:
    """Turns that take z to a unit axis: Rz(azimuth) Ry(inclination)."""
    x, y, z = (float(u) for u in axis)
    across = math.hypot(x, y)
    return _turns((Z, math.atan2(y, x) if across > _ROUNDING else 0.0), (Y, math.atan2(across, z)))


_ROUNDING = 4e-15
"""Angles (rad) recovered from rotation matrices carry such errors."""

_DECIMALS = 12
"""More than these, nobody writes into a file by hand."""


def _read_row(row: MdhRow) -> Motions:
    """Rz(gamma) Tz(b) Rx(alpha) Tx(d) Rz(theta) Tz(r)."""
    gamma, alpha, theta = (read_angle(angle.value) for angle in (row.gamma, row.alpha, row.theta))
    b, d, r = (read_length(length.value) for length in (row.b, row.d, row.r))
    return (Turn(Z, gamma), Slide((O, O, b)), Turn(X, alpha), Slide((d, O, r)), Turn(Z, theta))


def _read_rotation(R: Array) -> Motions:
    """Rz(yaw) Ry(pitch) Rx(roll); each angle is taken from what the later ones leave, so errors do not add up."""
    across = math.hypot(R[2, 1], R[2, 2])
    roll = math.atan2(R[2, 1], R[2, 2]) if across > _ROUNDING else 0.0
    pitch = math.atan2(-R[2, 0], across)
    c, s = cos_sin(roll)
    yaw = math.atan2(s * R[0, 2] - c * R[0, 1], c * R[1, 1] - s * R[1, 2])
    return _turns((Z, yaw), (Y, pitch), (X, roll))


def _turns(*pairs: tuple[int, float]) -> tuple[Turn, ...]:
    turns = (Turn(axis, read_angle(angle, tolerance=_ROUNDING)) for axis, angle in pairs)
    return tuple(turn for turn in turns if turn.angle.millidegrees != 0)


def _read_translation(p: Array) -> Slide:
    x, y, z = (_clean_length(float(value)) for value in p)
    return Slide((x, y, z))


def _clean_length(value: float) -> Decimal:
    nearest = round(value, _DECIMALS)
    if not nearest and abs(value) > math.ulp(1.0):
        return read_length(value)
    return read_length(nearest if abs(value - nearest) <= 2.0 * math.ulp(1.0) else value)


def _is_short(motion: Turn | Slide) -> bool:
    """Whether at most twelve decimals, or whole millidegrees, describe a motion."""
    if isinstance(motion, Turn):
        return motion.angle.millidegrees is not None or _has_few_decimals(motion.angle.radians)
    return all(_has_few_decimals(x) for x in motion.by)


def _has_few_decimals(x: Decimal) -> bool:
    return x == round(x, _DECIMALS)


@lru_cache(maxsize=4096)
def cosine_sine(angle: Angle) -> tuple[Decimal, Decimal]:
    """Cosine and sine, exact at multiples of 90 degrees, else to 120 digits."""
    quarter = FULL_TURN // 4
    with many_digits(DIGITS + 15):
        if angle.millidegrees is None:
            turns = (angle.radians / (_pi() / 2)).to_integral_value()
            quarters, rest = int(turns), angle.radians - turns * (_pi() / 2)
        else:
            quarters, part = divmod(angle.millidegrees, quarter)
            rest = _pi() / 2 * part / quarter
        c, s = _series(rest) if rest else (I, O)
        return ((c, s), (-s, c), (-c, -s), (s, -c))[quarters % 4]


def _series(x: Decimal) -> tuple[Decimal, Decimal]:
    """Taylor series of cosine and sine."""
    sums = [O, O, O, O]
    term, k = I, 0
    while abs(term) > Decimal(10) ** -(DIGITS + 12):
        sums[k % 4] += term
        k += 1
        term = term * x / k
    return sums[0] - sums[2], sums[1] - sums[3]


@lru_cache(maxsize=1)
def _pi() -> Decimal:
    """Machin: pi = 16 atan(1/5) - 4 atan(1/239)."""
    with many_digits(DIGITS + 25):
        return 16 * _arctangent_of_inverse(5) - 4 * _arctangent_of_inverse(239)


def _arctangent_of_inverse(n: int) -> Decimal:
    total, power, k = O, I / n, 1
    while power > Decimal(10) ** -(DIGITS + 22):
        total += power / k if k % 4 == 1 else -power / k
        power /= n * n
        k += 2
    return total


def rotation(axis: int, angle: Angle) -> Matrix:
    """Rotation matrix about x, y or z."""
    c, s = cosine_sine(angle)
    if axis == X:
        return ((I, O, O), (O, c, -s), (O, s, c))
    if axis == Y:
        return ((c, O, s), (O, I, O), (-s, O, c))
    return ((c, -s, O), (s, c, O), (O, O, I))


def pose(motions: Motions) -> tuple[Matrix, Vector]:
    """Rotation matrix and translation of a product of elementary motions."""
    R, p = UNIT_MATRIX, (O, O, O)
    for motion in motions:
        if isinstance(motion, Turn):
            if motion.angle.millidegrees != 0:
                R = multiply(R, rotation(motion.axis, motion.angle))
        elif any(motion.by):
            moved = apply(R, motion.by)
            p = (p[0] + moved[0], p[1] + moved[1], p[2] + moved[2])
    return R, p


def multiply(A: Matrix, B: Matrix) -> Matrix:
    """Matrix product (3, 3)."""
    columns = transpose(B)
    rows = [tuple(dot(row, column) for column in columns) for row in A]
    return (rows[0], rows[1], rows[2])  # type: ignore[return-value]


def apply(A: Matrix, x: Sequence[Decimal]) -> Vector:
    """A x."""
    return (dot(A[0], x), dot(A[1], x), dot(A[2], x))


def transpose(A: Matrix) -> Matrix:
    """A'."""
    (a, b, c), (d, e, f), (g, h, i) = A
    return ((a, d, g), (b, e, h), (c, f, i))


def dot(x: Sequence[Decimal], y: Sequence[Decimal]) -> Decimal:
    """X' y, skipping zeros."""
    total = O
    for a, b in zip(x, y, strict=True):
        if a and b:
            total += a * b
    return total


def sparse(values: Iterable[Decimal]) -> Row:
    """Sparse row without the entries below ZERO."""
    return {k: x for k, x in enumerate(values) if x and abs(x) >= ZERO}


def combine(row: Row, rows: Sequence[Row] | dict[int, Row]) -> Row:
    """Sum of row[k] * rows[k]."""
    total: Row = {}
    for k, x in row.items():
        for column, y in rows[k].items():
            total[column] = total[column] + x * y if column in total else x * y
    return {k: x for k, x in total.items() if abs(x) >= ZERO}


class EchelonForm:
    """Reduced row echelon form that grows row by row; `rows` maps a pivot's column to its row."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.rows: dict[int, Row] = {}
        for row in rows:
            self.add(row)

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, row: Row) -> bool:
        """Add a row; False if it depends on the rows so far. It is tested for zero before it is normalised."""
        rest = dict(row)
        for pivot in [k for k in row if k in self.rows]:
            _subtract(rest, rest[pivot], self.rows[pivot])
        rest = {k: x for k, x in rest.items() if abs(x) >= ZERO}
        if not rest:
            return False
        lead = min(rest)
        scale = rest[lead]
        fresh = {k: x / scale for k, x in rest.items()}
        fresh[lead] = I
        for pivot, other in self.rows.items():
            if lead in other:
                _subtract(other, other[lead], fresh)
                self.rows[pivot] = {k: x for k, x in other.items() if abs(x) >= ZERO}
        self.rows[lead] = fresh
        return True

    def in_order(self) -> list[tuple[int, Row]]:
        """Pivots and their rows from left to right."""
        return sorted(self.rows.items())


def _subtract(row: Row, factor: Decimal, other: Row) -> None:
    for k, x in other.items():
        row[k] = row[k] - factor * x if k in row else -factor * x
