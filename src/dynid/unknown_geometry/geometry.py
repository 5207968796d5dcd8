"""A robot's table in which some lengths and angles are unknowns, as every exact route reads it.

A length is a polynomial in unknowns, an angle a known angle plus whole multiples of unknown ones. What is known is
read as in `identifiability.exact_geometry`: lengths as decimals, angles in whole millidegrees or as decimals in rad.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from dynid.errors import FIX_THE_BASE, UnknownGeometryError
from dynid.identifiability.exact_geometry import Angle, read_angle, read_length
from dynid.robot.expression import Expression, parse_expression, symbols_of
from dynid.robot.robot import Robot

Powers: TypeAlias = tuple[tuple[str, int], ...]
"""A product of unknowns: names and positive exponents, sorted by name."""

ANGLES = ("gamma", "alpha", "theta")
LETTERS = ("gamma", "b", "alpha", "d", "theta", "r")


@dataclass(frozen=True, slots=True)
class PartlyKnownLength:
    """A polynomial in unknown lengths: its coefficients (m) by products of unknowns."""

    terms: tuple[tuple[Powers, Fraction], ...]


@dataclass(frozen=True, slots=True)
class PartlyKnownAngle:
    """An angle: a known one plus whole multiples of unknown ones."""

    known: Angle
    unknown: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PartlyKnownRow:
    """T = Rz(gamma) Tz(b) Rx(alpha) Tx(d) Rz(theta) Tz(r)."""

    gamma: PartlyKnownAngle
    b: PartlyKnownLength
    alpha: PartlyKnownAngle
    d: PartlyKnownLength
    theta: PartlyKnownAngle
    r: PartlyKnownLength


@dataclass(frozen=True, slots=True, eq=False)
class PartlyKnownRobot:
    """A robot in modified Denavit-Hartenberg frames, its rows, and its unknowns with their nominal values (m, rad)."""

    robot: Robot
    rows: tuple[PartlyKnownRow, ...]
    lengths: Mapping[str, float]
    angles: Mapping[str, float]

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of all unknown lengths and angles."""
        return (*self.lengths, *(name for name in self.angles if name not in self.lengths))

    @property
    def known_angles(self) -> tuple[Angle, ...]:
        """Known angles that are not multiples of 90 degrees, each once."""
        turnings = [getattr(row, letter).known for row in self.rows for letter in ANGLES]
        return tuple(dict.fromkeys(x for x in turnings if not is_right_angle(x)))


def is_right_angle(angle: Angle) -> bool:
    """Whether an angle is a multiple of 90 degrees."""
    return angle.millidegrees is not None and angle.millidegrees % 90_000 == 0


def rows_with_unknowns(robot: Robot, entries: frozenset[str], symbols: frozenset[str]) -> PartlyKnownRobot:
    """Rows of a robot in which the `entries` (`d3`) and the `symbols` are unknown; entries win over symbols."""
    table = robot.to_mdh()
    lengths: dict[str, float] = {}
    angles: dict[str, float] = {}
    rows = []
    for j, link in enumerate(table.links, 1):
        assert link.mdh is not None
        parts: dict[str, PartlyKnownLength | PartlyKnownAngle] = {}
        for letter in LETTERS:
            value: Expression = getattr(link.mdh, letter)
            name = f"{letter}{j}"
            if letter in ANGLES:
                parts[letter] = turning = _read_angle(name, value, entries, symbols, table.symbols)
                unit = math.pi / 180.0 if value.degrees else 1.0
                for unknown, _ in turning.unknown:
                    angles[unknown] = value.value if name in entries else table.symbols[unknown] * unit
            else:
                parts[letter] = length = _read_length(name, value, entries, symbols, table.symbols)
                for unknown in {unknown for powers, _ in length.terms for unknown, _ in powers}:
                    lengths[unknown] = value.value if name in entries else table.symbols[unknown]
        rows.append(PartlyKnownRow(**parts))  # type: ignore[arg-type]
    return PartlyKnownRobot(table, tuple(rows), dict(sorted(lengths.items())), dict(sorted(angles.items())))


def _read_length(
    name: str, value: Expression, entries: frozenset[str], symbols: frozenset[str], values: Mapping[str, float]
) -> PartlyKnownLength:
    """Length of an entry, as a polynomial in the unknowns."""
    if name in entries:
        return PartlyKnownLength(((((name, 1),), Fraction(1)),))
    tree = _syntax_tree_with_unknowns(value, symbols)
    if tree is None:
        exact = Fraction(read_length(value.value))
        return PartlyKnownLength((((), exact),) if exact else ())
    terms = _expand_polynomial(tree, _ExpressionPlace(name, value, symbols, values))
    return PartlyKnownLength(tuple(sorted((powers, c) for powers, c in terms.items() if c)))


def _read_angle(
    name: str, value: Expression, entries: frozenset[str], symbols: frozenset[str], values: Mapping[str, float]
) -> PartlyKnownAngle:
    """Angle of an entry, as a known one plus multiples of unknown ones."""
    if name in entries:
        return PartlyKnownAngle(Angle(0), ((name, 1),))
    tree = _syntax_tree_with_unknowns(value, symbols)
    if tree is None:
        return PartlyKnownAngle(read_angle(value.value))
    place = _ExpressionPlace(name, value, symbols, values)
    terms = _expand_polynomial(tree, place)
    rest = float(terms.pop((), Fraction(0)))
    multiples = []
    for powers, c in terms.items():
        if len(powers) != 1 or powers[0][1] != 1 or c.denominator != 1:
            raise place.error("must be a sum of whole multiples of unknown angles")
        if c:
            multiples.append((powers[0][0], int(c)))
    quarter = rest / 90.0
    known = math.radians(rest) if value.degrees else rest
    if value.degrees and quarter == round(quarter):
        known = quarter * (math.pi / 2)
    return PartlyKnownAngle(read_angle(known), tuple(sorted(multiples)))


def _syntax_tree_with_unknowns(value: Expression, symbols: frozenset[str]) -> ast.expr | None:
    """Syntax tree of an expression that has unknown symbols, None for a known one."""
    if value.text is None:
        return None
    tree = parse_expression(value.text)
    return tree if symbols & set(symbols_of(tree)) else None


@dataclass(frozen=True, slots=True)
class _ExpressionPlace:
    """Where an expression stands."""

    name: str
    value: Expression
    symbols: frozenset[str]
    values: Mapping[str, float]

    def error(self, reason: str) -> UnknownGeometryError:
        """Error that names the entry of the table and the remedy."""
        return UnknownGeometryError(
            "expression_not_polynomial", "{entry} = '{expression}' {reason}", "declare {entry} itself unknown instead "
            "of its symbols", entry=self.name, expression=self.value.text, reason=reason,
        )  # fmt: skip


def _expand_polynomial(node: ast.expr, place: _ExpressionPlace) -> dict[Powers, Fraction]:
    """Expand an expression; known symbols become their decimals."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return {(): Fraction(repr(number))}
        case ast.Name(id=name) if name in place.symbols:
            return {((name, 1),): Fraction(1)}
        case ast.Name(id=name):
            return {(): Fraction(read_length(place.values[name]))}
        case ast.UnaryOp(op=op, operand=operand):
            sign = -1 if isinstance(op, ast.USub) else 1
            return {powers: sign * c for powers, c in _expand_polynomial(operand, place).items()}
        case ast.BinOp(left=left, op=op, right=right):
            return _combine_polynomials(_expand_polynomial(left, place), op, _expand_polynomial(right, place), place)
    raise place.error("is not a polynomial in the unknowns")


def _combine_polynomials(
    x: dict[Powers, Fraction], op: ast.operator, y: dict[Powers, Fraction], place: _ExpressionPlace
) -> dict[Powers, Fraction]:
    """Polynomial of an operator on two polynomials; error where it is none."""
    if isinstance(op, ast.Add | ast.Sub):
        sign = 1 if isinstance(op, ast.Add) else -1
        return {k: x.get(k, Fraction(0)) + sign * y.get(k, Fraction(0)) for k in {**x, **y}}
    if isinstance(op, ast.Mult):
        return _multiply_polynomials(x, y)
    number = y.get((), Fraction(0)) if set(y) <= {()} else None
    if isinstance(op, ast.Div) and number:
        return {powers: c / number for powers, c in x.items()}
    if isinstance(op, ast.Pow) and number is not None:
        if number.denominator == 1 and 0 <= number <= 8:
            total: dict[Powers, Fraction] = {(): Fraction(1)}
            for _ in range(int(number)):
                total = _multiply_polynomials(total, x)
            return total
        if set(x) <= {()}:
            return {(): Fraction(read_length(float(x.get((), Fraction(0))) ** float(number)))}
    raise place.error("is not a polynomial in the unknowns")


def _multiply_polynomials(x: dict[Powers, Fraction], y: dict[Powers, Fraction]) -> dict[Powers, Fraction]:
    """Product of two polynomials in the unknowns."""
    total: dict[Powers, Fraction] = {}
    for left, a in x.items():
        for right, b in y.items():
            powers = dict(left)
            for name, n in right:
                powers[name] = powers.get(name, 0) + n
            key = tuple(sorted(powers.items()))
            total[key] = total.get(key, Fraction(0)) + a * b
    return total


# What of a robot's geometry is unknown: names of symbols, letters of the table, or single entries.


_ENTRY = re.compile(rf"({'|'.join(LETTERS)})([0-9]*)")

_OF_THE_BASE = ("gamma", "alpha")
"""Of a joint on the base they say how frame 0, in which gravity is given, was laid: known unless named as `alpha1`."""


def declare_unknowns(robot: Robot, unknown: Iterable[str] | None) -> PartlyKnownRobot:
    """Read a robot's table with these lengths and angles as unknowns.

    A word is a symbol of the table (`D3`), a letter (`r`: that of every joint, also where it is 0) or one entry
    (`d3`); a symbol of that name wins. The letters alpha and gamma leave out joints on the base, whose tilt against
    gravity is meant only by `alpha1`. None takes what the table declares, () declares everything known.
    """
    check_open_robot(robot)
    entries: set[str] = set()
    symbols: set[str] = set()
    for word in split_unknown_words(robot, unknown):
        if word in robot.symbols:
            symbols.add(word)
        else:
            entries.update(_table_entries_named_by(robot, word))
    return rows_with_unknowns(robot, frozenset(entries), frozenset(symbols))


def check_open_robot(robot: Robot) -> None:
    """Raise for robots without a Lagrangian in their own joints alone: floating bases and closed loops."""
    if robot.floating:
        raise UnknownGeometryError(
            "floating_base", "'{robot}' has a floating base", "{fixed_base}", robot=robot.name, fixed_base=FIX_THE_BASE,
        )  # fmt: skip
    if robot.couplings or robot.closures:
        raise UnknownGeometryError(
            "closed_loops_or_couplings", "'{robot}' has couplings or closed loops; model parameters without geometry "
            "need an open chain", robot=robot.name,
        )  # fmt: skip


def split_unknown_words(robot: Robot, unknown: Iterable[str] | None) -> tuple[str, ...]:
    """Words for the unknowns of a robot, from a sequence, a text with commas, or its table."""
    if unknown is None:
        return robot.unknown
    if isinstance(unknown, str):
        return tuple(word.strip() for word in unknown.split(",") if word.strip())
    words = tuple(unknown) if isinstance(unknown, Iterable) else (unknown,)
    for word in words:
        if not isinstance(word, str):
            raise UnknownGeometryError(
                "unknown_geometry_letter", "unknown takes names such as 'r', 'd3' or a table's symbol, got {word!r}",
                word=word,
            )  # fmt: skip
    return words


def _table_entries_named_by(robot: Robot, word: str) -> list[str]:
    """Entries of the table that a letter or a single entry names."""
    match = _ENTRY.fullmatch(word)
    joints = len(robot.links)
    if match and match[2] and str(int(match[2])) == match[2] and 1 <= int(match[2]) <= joints:
        return [word]
    if match and not match[2]:
        first = [link.parent >= 0 or word not in _OF_THE_BASE for link in robot.links]
        return [f"{word}{j}" for j, taken in enumerate(first, 1) if taken]
    symbols = f", or a symbol of the table ({', '.join(robot.symbols)})" if robot.symbols else ""
    hint = "; a and d of the standard convention are d and r here" if re.fullmatch(r"a[0-9]*", word) else ""
    raise UnknownGeometryError(
        "unknown_geometry_letter", "'{robot}' has no '{word}' that could be unknown",
        "give letters of {letters} (d: all of them), with the joint's number 1 to {joints} (d3: one){symbols}{hint}",
        robot=robot.name, word=word, letters=list(LETTERS), joints=joints, symbols=symbols, hint=hint,
    )  # fmt: skip
