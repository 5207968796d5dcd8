"""The Lagrangian as a bilinear form: L = sum B[F, P] F P, F products of the motion, P products of the unknowns.

F is a product of powers of cosines, sines, positions and velocities of the joints, with sin^2 written as 1 - cos^2;
P a standard parameter times a product of unknown lengths, cosines and sines of unknown angles, likewise reduced. In
this form the F are linearly independent functions, and so are the P, so that ranks of B are ranks of functions. The
constant F = 1 is dropped: it moves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TypeAlias

import numpy as np

from dynid.base.digits import cosine_sine
from dynid.base.field import Field
from dynid.unknown.geometry import PartlyKnown
from dynid.unknown.lagrangian import Generators, Lagrangian

Exponents: TypeAlias = tuple[int, ...]
Entry: TypeAlias = dict[Exponents, Fraction]
"""A number: a polynomial in the cosines and sines of known angles, by exponents."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A column of B: a standard parameter times powers of the geometric unknowns."""

    parameter: str
    powers: Exponents


@dataclass(frozen=True, slots=True, eq=False)
class BilinearForm:
    """B by rows: its motion products, its unknown products and its entries (row -> column -> entry)."""

    shape: PartlyKnown
    generators: Generators
    motions: tuple[Exponents, ...]
    unknowns: tuple[Unknown, ...]
    entries: tuple[dict[int, Entry], ...]

    @property
    def rational(self) -> bool:
        """Whether every entry is a rational number: all known angles are multiples of 90 degrees."""
        return not self.generators.known


def bilinear_form(lagrangian: Lagrangian) -> BilinearForm:
    """Collect the terms of a Lagrangian."""
    names = lagrangian.generators
    a, b = len(names.motion), len(names.motion) + len(names.geometry)
    pairs = _angle_pairs(names)
    rows: dict[Exponents, dict[int, Entry]] = {}
    columns: dict[Unknown, int] = {}
    for parameter, polynomial in lagrangian.coefficients.items():
        for raw, value in polynomial.to_dict().items():
            exponents = tuple(map(int, raw))
            motion = exponents[:a]
            if not any(motion):
                continue
            coefficient = Fraction(int(value.p), int(value.q))
            for powers, factor in _without_squares(exponents[a:b], pairs):
                column = columns.setdefault(Unknown(parameter, powers), len(columns))
                entry = rows.setdefault(motion, {}).setdefault(column, {})
                known = exponents[b:]
                entry[known] = entry.get(known, Fraction(0)) + coefficient * factor
    order = sorted(rows)
    entries = tuple(_without_zeros(rows[motion]) for motion in order)
    return BilinearForm(lagrangian.shape, names, tuple(order), tuple(columns), entries)


def _angle_pairs(names: Generators) -> tuple[tuple[int, int], ...]:
    """Places of the cosine and the sine of each unknown angle among the geometric unknowns."""
    return tuple((i, i + 1) for i, name in enumerate(names.geometry) if name.startswith("cos("))


def _without_squares(powers: Exponents, pairs: tuple[tuple[int, int], ...]) -> Iterator[tuple[Exponents, int]]:
    """Terms of a product with sin^2 = 1 - cos^2 put in."""
    for c, s in pairs:
        halves, rest = divmod(powers[s], 2)
        if halves:
            for k in range(halves + 1):
                lowered = list(powers)
                lowered[s], lowered[c] = rest, powers[c] + 2 * k
                for term, factor in _without_squares(tuple(lowered), pairs):
                    yield term, (-1) ** k * math.comb(halves, k) * factor
            return
    yield powers, 1


def _without_zeros(row: dict[int, Entry]) -> dict[int, Entry]:
    lean = {column: {k: x for k, x in entry.items() if x} for column, entry in row.items()}
    return {column: entry for column, entry in lean.items() if entry}


def in_field(form: BilinearForm, field: Field) -> list[dict[int, int]]:
    """B over a finite field in which the known angles are points of the circle."""
    points: list[int] = []
    for angle in form.shape.known_angles:
        c, s = field.cos_sin(np.array([field.circle(angle, Fraction(1))], dtype=object))
        points += [int(c[0]), int(s[0])]

    @cache
    def product(powers: Exponents) -> int:
        return math.prod(pow(x, n, field.p) for x, n in zip(points, powers, strict=True)) % field.p

    number = cache(field.number)

    def value(entry: Entry) -> int:
        return sum(number(c) * product(powers) for powers, c in entry.items()) % field.p

    return [{column: x for column, entry in row.items() if (x := value(entry))} for row in form.entries]


def numbers(form: BilinearForm) -> list[dict[int, Fraction]]:
    """B in rational numbers: exact, or to 60 digits where known angles are no multiples of 90 degrees."""
    points = [Fraction(x) for angle in form.shape.known_angles for x in cosine_sine(angle)]

    @cache
    def product(powers: Exponents) -> Fraction:
        if not any(powers):
            return Fraction(1)
        return Fraction(round(math.prod(x**n for x, n in zip(points, powers, strict=True)) * 2**BITS), 2**BITS)

    def value(entry: Entry) -> Fraction:
        return sum((c * product(powers) for powers, c in entry.items()), Fraction(0))

    return [{column: value(entry) for column, entry in row.items()} for row in form.entries]


BITS = 200
"""Binary digits of numbers that are not rational."""
