"""Arithmetic with 120 digits: cosines, poses, and sparse rows for rank decisions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from typing import TypeAlias

from dynid.concurrency import flint_precision
from dynid.identifiability.exact_geometry import FULL_TURN, Angle, Motions, O, Turn, Vector, X, Y

DIGITS = 120
ZERO = Decimal("1e-60")
"""Numbers below this are zero (the papers' lengths and angles are far above it, rounding far below)."""

Matrix: TypeAlias = tuple[Vector, Vector, Vector]
Row: TypeAlias = dict[int, Decimal]
"""A sparse row: column and nonzero entry."""

I = Decimal(1)  # noqa: E741
UNIT_MATRIX: Matrix = ((I, O, O), (O, I, O), (O, O, I))


def many_digits(digits: int = DIGITS) -> AbstractContextManager[Context]:
    """Context in which decimals have 120 digits; it leaves the caller's context alone."""
    return localcontext(Context(prec=digits))


@lru_cache(maxsize=4096)
def cosine_sine(angle: Angle) -> tuple[Decimal, Decimal]:
    """Cosine and sine, exact at multiples of 90 degrees, else to 120 digits (flint's balls)."""
    if angle.millidegrees is not None and angle.is_right:
        return ((I, O), (O, I), (-I, O), (O, -I))[angle.millidegrees // (FULL_TURN // 4) % 4]
    from flint import arb, fmpq

    with flint_precision(4 * DIGITS):  # bits: 144 digits
        if angle.millidegrees is None:
            s, c = arb(str(angle.radians)).sin_cos()
        else:
            s, c = arb.sin_cos_pi_fmpq(fmpq(2 * angle.millidegrees, FULL_TURN))
        return Decimal(c.mid().str(DIGITS + 15, radius=False)), Decimal(s.mid().str(DIGITS + 15, radius=False))


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


def sparse_row(values: Iterable[Decimal]) -> Row:
    """Sparse row without the entries below ZERO."""
    return {k: x for k, x in enumerate(values) if x and abs(x) >= ZERO}


def combine_rows(row: Row, rows: Sequence[Row] | dict[int, Row]) -> Row:
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
            _subtract_multiple(rest, rest[pivot], self.rows[pivot])
        rest = {k: x for k, x in rest.items() if abs(x) >= ZERO}
        if not rest:
            return False
        lead = min(rest)
        scale = rest[lead]
        fresh = {k: x / scale for k, x in rest.items()}
        fresh[lead] = I
        for pivot, other in self.rows.items():
            if lead in other:
                _subtract_multiple(other, other[lead], fresh)
                self.rows[pivot] = {k: x for k, x in other.items() if abs(x) >= ZERO}
        self.rows[lead] = fresh
        return True

    def rows_in_order(self) -> list[tuple[int, Row]]:
        """Pivots and their rows from left to right."""
        return sorted(self.rows.items())


def _subtract_multiple(row: Row, factor: Decimal, other: Row) -> None:
    """Subtract factor times another row, in place."""
    for k, x in other.items():
        row[k] = row[k] - factor * x if k in row else -factor * x
