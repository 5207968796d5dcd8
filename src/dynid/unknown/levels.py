"""The choice of model parameters: independent rows of B from the last joint's level to the first.

The level of a motion product is its highest joint. Taking rows greedily from level n down to 1 leaves as many at
level i as rank B[levels >= i] - rank B[levels > i] = m_i, and writes every other row by chosen ones of its own level
or above (Ha, Ko & Kwon, eq. 2.24): U stays upper block triangular. Each chosen row of B is a model parameter, the
motion products that contain it are its function.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dynid.base.field import Field
from dynid.base.finite_field import PRIMES
from dynid.concurrency import flint_precision
from dynid.unknown.bilinear import BITS, BilinearForm, Exponents, in_field, numbers
from dynid.unknown.lagrangian import Generators


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Model parameters in order of level, each with its function.

    level (1..n); rows: coefficients by column of B; functions: coefficients by row of B. L = sum function * row.
    Coefficients are exact where B is rational, else right to far more digits than a float holds.
    """

    levels: tuple[int, ...]
    rows: tuple[dict[int, Fraction], ...]
    functions: tuple[dict[int, Fraction], ...]


def choose(form: BilinearForm, *, seed: int = 0) -> Choice:
    """Choose readable rows: few factors first, then few terms."""
    joints = joint_of(form.generators)
    order = sorted(range(len(form.motions)), key=lambda k: _key(form, k, joints))
    found = [_pivots(form, order, p, seed) for p in PRIMES]
    pivots, columns, pattern = max(found, key=lambda x: len(x[0]))
    values = numbers(form)
    functions = _functions(form, values, pivots, columns, pattern)
    rows, scaled = [], []
    for row, function in zip((values[k] for k in pivots), functions, strict=True):
        kept = {column: row[column] for column in sorted(row) if abs(row[column]) > _ROUNDING}
        lead = next(iter(kept.values()))
        rows.append({column: x / lead for column, x in kept.items()})
        scaled.append({k: x * lead for k, x in function.items()})
    levels = [level(form.motions[k], joints) for k in pivots]
    by_level = sorted(range(len(levels)), key=lambda r: levels[r])
    return Choice(
        tuple(levels[r] for r in by_level), tuple(rows[r] for r in by_level), tuple(scaled[r] for r in by_level)
    )


_ROUNDING = Fraction(1, 10**40)
"""Below this, a number of 60 digits is zero."""


def joint_of(names: Generators) -> tuple[int, ...]:
    """Number of the joint that each variable of the motion belongs to."""
    return tuple(int(name[1:]) for name in names.motion)


def level(motion: Exponents, joints: Sequence[int]) -> int:
    """Highest joint in a product."""
    return max(j for j, n in zip(joints, motion, strict=True) if n)


def _key(form: BilinearForm, k: int, joints: Sequence[int]) -> tuple[object, ...]:
    """Order of choice: the highest level, then few factors of q, then few terms, then the last joints' velocities."""
    motion = form.motions[k]
    shape = sum(n for name, n in zip(form.generators.motion, motion, strict=True) if name[0] != "v")
    sines = sum(n for name, n in zip(form.generators.motion, motion, strict=True) if name[0] == "s")
    rates = tuple(-j for j, n, name in zip(joints, motion, form.generators.motion, strict=True) if name[0] == "v" and n)
    return (-level(motion, joints), shape, sines, len(form.entries[k]), rates[::-1], motion)


def _pivots(
    form: BilinearForm, order: Sequence[int], p: int, seed: int
) -> tuple[list[int], list[int], list[list[int]]]:
    """First independent rows in order, columns that show it, and per pivot the rows that contain it."""
    from flint import nmod_mat

    field = Field.for_angles(form.shape.known_angles, p, random.Random(f"{seed} {p}"))
    B = in_field(form, field)
    alike: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for k in order:
        if B[k]:
            alike.setdefault(_direction(B[k], p), []).append(k)
    classes = list(alike.values())
    width, height = len(form.unknowns), len(classes)
    dense = [0] * (width * height)
    for i, members in enumerate(classes):
        for column, x in B[members[0]].items():
            dense[column * height + i] = x
    reduced, rank = nmod_mat(width, height, dense, p).rref()
    entries = [int(x) for x in reduced.entries()[: rank * height]]
    pattern = [[i for i in range(height) if entries[r * height + i]] for r in range(rank)]
    pivots = [classes[where[0]][0] for where in pattern]
    small, _ = nmod_mat(rank, width, [B[k].get(c, 0) for k in pivots for c in range(width)], p).rref()
    entries = [int(x) for x in small.entries()]
    columns = [next(c for c in range(width) if entries[r * width + c]) for r in range(rank)]
    return pivots, columns, [[k for i in where for k in classes[i]] for where in pattern]


def _direction(row: dict[int, int], p: int) -> tuple[tuple[int, int], ...]:
    """A row without its size: most rows of B are multiples of a few."""
    first = min(row)
    scale = pow(row[first], -1, p)
    return tuple(sorted((column, x * scale % p) for column, x in row.items()))


def _functions(
    form: BilinearForm,
    values: list[dict[int, Fraction]],
    pivots: list[int],
    columns: list[int],
    pattern: list[list[int]],
) -> list[dict[int, Fraction]]:
    """Coefficients K of all rows by the chosen ones, from B[:, columns] = K B[pivots, columns]."""
    place = {c: i for i, c in enumerate(columns)}
    chosen = [[values[k].get(c, Fraction(0)) for c in columns] for k in pivots]
    back = _inverse(chosen) if form.rational else _inverse_to_many_digits(chosen)
    parts = [[(place[c], x) for c, x in row.items() if c in place] for row in values]
    return [
        {k: sum((x * back[c][r] for c, x in parts[k]), Fraction(0)) for k in where} for r, where in enumerate(pattern)
    ]


def _inverse(A: list[list[Fraction]]) -> list[list[Fraction]]:
    """Exact inverse."""
    from flint import fmpq, fmpq_mat

    inverse = fmpq_mat([[fmpq(x.numerator, x.denominator) for x in row] for row in A]).inv()
    return [[Fraction(int(x.p), int(x.q)) for x in row] for row in inverse.tolist()]


def _inverse_to_many_digits(A: list[list[Fraction]]) -> list[list[Fraction]]:
    """Inverse by interval arithmetic with twice the digits of the entries."""
    from flint import arb, arb_mat, fmpq

    with flint_precision(2 * BITS):
        inverse = arb_mat([[arb(fmpq(x.numerator, x.denominator)) for x in row] for row in A]).inv()
        pairs = [[x.mid().man_exp() for x in row] for row in inverse.tolist()]
    return [[Fraction(int(man)) * Fraction(2) ** int(exp) for man, exp in row] for row in pairs]
