"""The Lagrangian as exact polynomials, and as a bilinear form L = sum B[F, P] F P in motion F and unknowns P.

Outward recursion over the links. A link carries its twist (w, v at its frame's origin, in its frame) and ten
polynomials, the coefficients of its parameters in L,

    L = w'J w / 2 + MS.(v x w) + M v.v / 2 + g.(M p + R MS),

which a change of frame takes linearly to those of the next frame, and to which a joint adds what its velocity brings.
So large polynomials are only ever multiplied by small ones, and sin^2 q never appears.

In the bilinear form F is a product of powers of cosines, sines, positions and velocities of the joints, with sin^2
written as 1 - cos^2; P a standard parameter times a product of unknown lengths, cosines and sines of unknown angles,
likewise reduced. The F are linearly independent functions, and so are the P, so that ranks of B are ranks of
functions. The constant F = 1 is dropped: it moves nothing.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dynid.concurrency import flint_precision
from dynid.identifiability.exact_geometry import Angle, cosine_sine, read_gravity
from dynid.identifiability.finite_field import PRIMES, Field
from dynid.robot.inertia import ROTOR, SYMBOLS
from dynid.robot.parameter import Parameter
from dynid.unknown_geometry.geometry import (
    ANGLES,
    PartlyKnownAngle,
    PartlyKnownLength,
    PartlyKnownRobot,
    PartlyKnownRow,
    is_right_angle,
)

if TYPE_CHECKING:
    from flint import fmpq_mpoly


_XX, _XY, _XZ, _YY, _YZ, _ZZ, _MX, _MY, _MZ, _M = range(10)
_DIAGONAL = (_XX, _YY, _ZZ)
_MIXED = {frozenset((0, 1)): _XY, frozenset((0, 2)): _XZ, frozenset((1, 2)): _YZ}
_AXES = {"gamma": 2, "b": 2, "alpha": 0, "d": 0, "theta": 2, "r": 2}
_STEPS = ("gamma", "b", "alpha", "d", "theta", "r")


@dataclass(frozen=True, slots=True)
class Generators:
    """Names of the polynomials' variables: of the motion, of the unknown geometry, of known angles.

    A revolute joint i has `c i`, `s i` and `v i`, a prismatic one `q i` and `v i`; an unknown angle x has cos(x) and
    sin(x), and so has a known angle that is not a multiple of 90 degrees.
    """

    motion: tuple[str, ...]
    geometry: tuple[str, ...]
    known: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all generators, in order."""
        return (*self.motion, *self.geometry, *self.known)


@dataclass(frozen=True, slots=True, eq=False)
class Lagrangian:
    """Coefficient polynomials by standard parameter (`ZZ3`), and the link (index) each belongs to."""

    shape: PartlyKnownRobot
    generators: Generators
    coefficients: dict[Parameter, fmpq_mpoly]


def find_lagrangian(shape: PartlyKnownRobot, *, rotor_inertia: bool = False) -> Lagrangian:
    """Exact Lagrangian of a robot; parameters known to be zero are left out."""
    return _LagrangianRecursion(shape).run(rotor_inertia)


def lagrangian_variables(shape: PartlyKnownRobot) -> Generators:
    """Variables (generators) that a robot's Lagrangian needs."""
    motion: list[str] = []
    for i, k in enumerate(shape.robot.tree_joints, 1):
        turns = shape.robot.links[k].kind == "revolute"
        motion += [f"c{i}", f"s{i}", f"v{i}"] if turns else [f"q{i}", f"v{i}"]
    geometry = [*shape.lengths, *(f"{f}({name})" for name in shape.angles for f in ("cos", "sin"))]
    known = [f"{f} {i}" for i in range(len(shape.known_angles)) for f in ("cos", "sin")]
    return Generators(tuple(motion), tuple(geometry), tuple(known))


@dataclass(slots=True)
class _LinkState:
    """Twist and coefficients of a link."""

    w: list[fmpq_mpoly]
    v: list[fmpq_mpoly]
    phi: list[fmpq_mpoly]


class _LagrangianRecursion:
    """Twists and coefficients of the links, from the base outwards."""

    def __init__(self, shape: PartlyKnownRobot) -> None:
        from flint import Ordering, fmpq_mpoly_ctx

        self.shape = shape
        self.generators = lagrangian_variables(shape)
        names = tuple(f"x{i}" for i in range(len(self.generators.names)))
        self.ring = fmpq_mpoly_ctx.get(names, Ordering.lex)
        self.variable = dict(zip(self.generators.names, self.ring.gens(), strict=True))
        self.known = {angle: i for i, angle in enumerate(shape.known_angles)}

    def run(self, rotor_inertia: bool) -> Lagrangian:
        """Run the recursion over all links and return the Lagrangian's coefficients."""
        robot = self.shape.robot
        joint = {k: i for i, k in enumerate(robot.tree_joints, 1)}
        states = {-1: self._base_state()}
        found: dict[int, dict[Parameter, fmpq_mpoly]] = {}
        for k in robot.topological_order:
            link = robot.links[k]
            state = states[k] = self._state_in_row_frame(states[link.parent], self.shape.rows[k])
            if link.kind == "revolute":
                self._rotate_frame(state, 2, self.variable[f"c{joint[k]}"], self.variable[f"s{joint[k]}"])
                self._add_revolute_velocity(state, self.variable[f"v{joint[k]}"])
            elif link.kind == "prismatic":
                self._translate_frame(state, 2, self.variable[f"q{joint[k]}"])
                self._add_prismatic_velocity(state, self.variable[f"v{joint[k]}"])
            terms = zip(SYMBOLS, state.phi, strict=True)
            found[k] = {link.parameter(s): x for s, x in terms if s not in link.zero and x}
            if rotor_inertia and k in joint and ROTOR not in link.zero:
                found[k][link.parameter(ROTOR)] = self.variable[f"v{joint[k]}"] ** 2 / 2
        ordered = {name: x for k in range(len(robot.links)) for name, x in found[k].items()}
        return Lagrangian(self.shape, self.generators, ordered)

    def _base_state(self) -> _LinkState:
        """State of the base at rest, under gravity."""
        nought = [self._constant_polynomial(Fraction(0)) for _ in range(10)]
        for i, g in enumerate(read_gravity(self.shape.robot.gravity)):
            nought[_MX + i] = self._constant_polynomial(Fraction(g))
        return _LinkState(nought[:3], nought[:3], nought)

    def _state_in_row_frame(self, parent: _LinkState, row: PartlyKnownRow) -> _LinkState:
        """State in the frame that a row leads to, before the joint moves."""
        state = _LinkState(list(parent.w), list(parent.v), list(parent.phi))
        for letter in _STEPS:
            if letter in ANGLES:
                angle: PartlyKnownAngle = getattr(row, letter)
                if angle != PartlyKnownAngle(Angle(0)):
                    self._rotate_frame(state, _AXES[letter], *self._cos_sin(angle))
            else:
                length: PartlyKnownLength = getattr(row, letter)
                if length.terms:
                    self._translate_frame(state, _AXES[letter], self._length_polynomial(length))
        return state

    def _rotate_frame(self, state: _LinkState, axis: int, c: fmpq_mpoly, s: fmpq_mpoly) -> None:
        """Turn the frame about an axis: J' = R J R', MS' = R MS for what the parent sees."""
        a, b = (axis + 1) % 3, (axis + 2) % 3
        for x in (state.w, state.v):
            x[a], x[b] = c * x[a] + s * x[b], c * x[b] - s * x[a]
        f = state.phi
        aa, bb, ab = _DIAGONAL[a], _DIAGONAL[b], _MIXED[frozenset((a, b))]
        az, bz = _MIXED[frozenset((a, axis))], _MIXED[frozenset((b, axis))]
        difference, cc, cs = f[aa] - f[bb], c * c, c * s
        change = cc * difference + cs * f[ab]
        f[ab] = (2 * cc - 1) * f[ab] - 2 * cs * difference
        f[aa], f[bb] = f[bb] + change, f[aa] - change
        f[az], f[bz] = c * f[az] + s * f[bz], c * f[bz] - s * f[az]
        ma, mb = _MX + a, _MX + b
        f[ma], f[mb] = c * f[ma] + s * f[mb], c * f[mb] - s * f[ma]

    def _translate_frame(self, state: _LinkState, axis: int, length: fmpq_mpoly) -> None:
        """Move the frame along an axis: MS' = MS + M t, J' by the parallel-axis theorem."""
        a, b = (axis + 1) % 3, (axis + 2) % 3
        w, v, f = state.w, state.v, state.phi
        v[a], v[b] = v[a] + w[b] * length, v[b] - w[a] * length
        across = f[_DIAGONAL[a]] + f[_DIAGONAL[b]]
        f[_M] = f[_M] + length * (f[_MX + axis] + length * across)
        f[_MX + axis] = f[_MX + axis] + 2 * length * across
        for other in (a, b):
            f[_MX + other] = f[_MX + other] - length * f[_MIXED[frozenset((axis, other))]]

    def _add_revolute_velocity(self, state: _LinkState, rate: fmpq_mpoly) -> None:
        """Add the velocity of a revolute joint about z."""
        w, v, f = state.w, state.v, state.phi
        f[_XZ], f[_YZ] = f[_XZ] + rate * w[0], f[_YZ] + rate * w[1]
        f[_ZZ] = f[_ZZ] + rate * (w[2] + rate / 2)
        f[_MX], f[_MY] = f[_MX] + rate * v[1], f[_MY] - rate * v[0]
        w[2] = w[2] + rate

    def _add_prismatic_velocity(self, state: _LinkState, rate: fmpq_mpoly) -> None:
        """Add the velocity of a prismatic joint along z."""
        w, v, f = state.w, state.v, state.phi
        f[_MX], f[_MY] = f[_MX] - rate * w[1], f[_MY] + rate * w[0]
        f[_M] = f[_M] + rate * (v[2] + rate / 2)
        v[2] = v[2] + rate

    def _constant_polynomial(self, value: Fraction) -> fmpq_mpoly:
        """A rational number as a polynomial."""
        from flint import fmpq

        return self.ring.constant(fmpq(value.numerator, value.denominator))

    def _length_polynomial(self, length: PartlyKnownLength) -> fmpq_mpoly:
        """A partly known length as a polynomial in the unknowns."""
        total = self._constant_polynomial(Fraction(0))
        for powers, c in length.terms:
            term = self._constant_polynomial(c)
            for name, n in powers:
                term = term * self.variable[name] ** n
            total = total + term
        return total

    def _cos_sin(self, angle: PartlyKnownAngle) -> tuple[fmpq_mpoly, fmpq_mpoly]:
        """Cosine and sine of a sum of angles."""
        if is_right_angle(angle.known):
            assert angle.known.millidegrees is not None
            quarter = angle.known.millidegrees // 90_000 % 4
            right = ((1, 0), (0, 1), (-1, 0), (0, -1))[quarter]
            c, s = (self._constant_polynomial(Fraction(x)) for x in right)
        else:
            i = self.known[angle.known]
            c, s = self.variable[f"cos {i}"], self.variable[f"sin {i}"]
        for name, k in angle.unknown:
            x, y = self.variable[f"cos({name})"], self.variable[f"sin({name})"]
            y = y if k > 0 else -y
            for _ in range(abs(k)):
                c, s = c * x - s * y, s * x + c * y
        return c, s


Exponents: TypeAlias = tuple[int, ...]
Entry: TypeAlias = dict[Exponents, Fraction]
"""A number: a polynomial in the cosines and sines of known angles, by exponents."""


@dataclass(frozen=True, slots=True)
class UnknownProduct:
    """A column of B: a standard parameter times powers of the geometric unknowns."""

    parameter: Parameter
    powers: Exponents


@dataclass(frozen=True, slots=True, eq=False)
class BilinearForm:
    """B by rows: its motion products, its unknown products and its entries (row -> column -> entry)."""

    shape: PartlyKnownRobot
    generators: Generators
    motions: tuple[Exponents, ...]
    unknowns: tuple[UnknownProduct, ...]
    entries: tuple[dict[int, Entry], ...]

    @property
    def is_rational(self) -> bool:
        """Whether every entry is a rational number: all known angles are multiples of 90 degrees."""
        return not self.generators.known


def bilinear_form(lagrangian: Lagrangian) -> BilinearForm:
    """Bilinear form B of a Lagrangian: its terms by motion product and unknown product."""
    names = lagrangian.generators
    a, b = len(names.motion), len(names.motion) + len(names.geometry)
    pairs = _angle_pairs(names)
    rows: dict[Exponents, dict[int, Entry]] = {}
    columns: dict[UnknownProduct, int] = {}
    for parameter, polynomial in lagrangian.coefficients.items():
        for raw, value in polynomial.to_dict().items():
            exponents = tuple(map(int, raw))
            motion = exponents[:a]
            if not any(motion):
                continue
            coefficient = Fraction(int(value.p), int(value.q))
            for powers, factor in _eliminate_sine_squares(exponents[a:b], pairs):
                column = columns.setdefault(UnknownProduct(parameter, powers), len(columns))
                entry = rows.setdefault(motion, {}).setdefault(column, {})
                known = exponents[b:]
                entry[known] = entry.get(known, Fraction(0)) + coefficient * factor
    order = sorted(rows)
    entries = tuple(_drop_zero_terms(rows[motion]) for motion in order)
    return BilinearForm(lagrangian.shape, names, tuple(order), tuple(columns), entries)


def _angle_pairs(names: Generators) -> tuple[tuple[int, int], ...]:
    """Places of the cosine and the sine of each unknown angle among the geometric unknowns."""
    return tuple((i, i + 1) for i, name in enumerate(names.geometry) if name.startswith("cos("))


def _eliminate_sine_squares(powers: Exponents, pairs: tuple[tuple[int, int], ...]) -> Iterator[tuple[Exponents, int]]:
    """Terms of a product with sin^2 = 1 - cos^2 put in."""
    for c, s in pairs:
        halves, rest = divmod(powers[s], 2)
        if halves:
            for k in range(halves + 1):
                lowered = list(powers)
                lowered[s], lowered[c] = rest, powers[c] + 2 * k
                for term, factor in _eliminate_sine_squares(tuple(lowered), pairs):
                    yield term, (-1) ** k * math.comb(halves, k) * factor
            return
    yield powers, 1


def _drop_zero_terms(row: dict[int, Entry]) -> dict[int, Entry]:
    """Row without zero terms and empty entries."""
    lean = {column: {k: x for k, x in entry.items() if x} for column, entry in row.items()}
    return {column: entry for column, entry in lean.items() if entry}


def evaluate_in_field(form: BilinearForm, field: Field) -> list[dict[int, int]]:
    """B over a finite field in which the known angles are points of the circle."""
    points: list[int] = []
    for angle in form.shape.known_angles:
        c, s = field.cos_sin(np.array([field.circle_point(angle, Fraction(1))], dtype=object))
        points += [int(c[0]), int(s[0])]

    @cache
    def angle_product(powers: Exponents) -> int:
        """Product of powers of the known angles' cosines and sines."""
        return math.prod(pow(x, n, field.p) for x, n in zip(points, powers, strict=True)) % field.p

    number = cache(field.field_element)

    def entry_value(entry: Entry) -> int:
        """Value of an entry of B."""
        return sum(number(c) * angle_product(powers) for powers, c in entry.items()) % field.p

    return [{column: x for column, entry in row.items() if (x := entry_value(entry))} for row in form.entries]


def evaluate_exactly(form: BilinearForm) -> list[dict[int, Fraction]]:
    """B in rational numbers: exact, or to 60 digits where known angles are not multiples of 90 degrees."""
    points = [Fraction(x) for angle in form.shape.known_angles for x in cosine_sine(angle)]

    @cache
    def angle_product(powers: Exponents) -> Fraction:
        """Product of powers of the known angles' cosines and sines."""
        if not any(powers):
            return Fraction(1)
        return Fraction(round(math.prod(x**n for x, n in zip(points, powers, strict=True)) * 2**BITS), 2**BITS)

    def entry_value(entry: Entry) -> Fraction:
        """Value of an entry of B."""
        return sum((c * angle_product(powers) for powers, c in entry.items()), Fraction(0))

    return [{column: entry_value(entry) for column, entry in row.items()} for row in form.entries]


BITS = 200
"""Binary digits of numbers that are not rational."""


# The choice of model parameters: independent rows of B from the last joint's level to the first.
#
# The level of a motion product is its highest joint. Taking rows greedily from level n down to 1 leaves as many at
# level i as rank B[levels >= i] - rank B[levels > i] = m_i, and writes every other row by chosen ones of its own level
# or above (Ha, Ko & Kwon, eq. 2.24): U stays upper block triangular. Each chosen row of B is a model parameter, the
# motion products that contain it are its function.


@dataclass(frozen=True, slots=True, eq=False)
class ModelParameterChoice:
    """Model parameters in order of level, each with its function.

    level (1..n); rows: coefficients by column of B; functions: coefficients by row of B. L = sum function * row.
    Coefficients are exact where B is rational, else right to far more digits than a float holds.
    """

    levels: tuple[int, ...]
    rows: tuple[dict[int, Fraction], ...]
    functions: tuple[dict[int, Fraction], ...]


def choose_model_parameters(form: BilinearForm, *, seed: int = 0) -> ModelParameterChoice:
    """Choose independent rows as model parameters: readable ones, with few factors, then few terms."""
    joints = joints_of_variables(form.generators)
    order = sorted(range(len(form.motions)), key=lambda k: _choice_order(form, k, joints))
    found = [_find_pivots(form, order, p, seed) for p in PRIMES]
    pivots, columns, pattern = max(found, key=lambda x: len(x[0]))
    values = evaluate_exactly(form)
    functions = _solve_functions(form, values, pivots, columns, pattern)
    rows, scaled = [], []
    for row, function in zip((values[k] for k in pivots), functions, strict=True):
        kept = {column: row[column] for column in sorted(row) if abs(row[column]) > _ROUNDING}
        lead = next(iter(kept.values()))
        rows.append({column: x / lead for column, x in kept.items()})
        scaled.append({k: x * lead for k, x in function.items()})
    levels = [product_level(form.motions[k], joints) for k in pivots]
    by_level = sorted(range(len(levels)), key=lambda r: levels[r])
    return ModelParameterChoice(
        tuple(levels[r] for r in by_level), tuple(rows[r] for r in by_level), tuple(scaled[r] for r in by_level)
    )


_ROUNDING = Fraction(1, 10**40)
"""Below this, a number of 60 digits is zero."""


def joints_of_variables(names: Generators) -> tuple[int, ...]:
    """Number of the joint that each variable of the motion belongs to."""
    return tuple(int(name[1:]) for name in names.motion)


def product_level(motion: Exponents, joints: Sequence[int]) -> int:
    """Highest joint in a product."""
    return max(j for j, n in zip(joints, motion, strict=True) if n)


def _choice_order(form: BilinearForm, k: int, joints: Sequence[int]) -> tuple[object, ...]:
    """Order of choice: the highest level, then few factors of q, then few terms, then the last joints' velocities."""
    motion = form.motions[k]
    shape = sum(n for name, n in zip(form.generators.motion, motion, strict=True) if name[0] != "v")
    sines = sum(n for name, n in zip(form.generators.motion, motion, strict=True) if name[0] == "s")
    rates = tuple(-j for j, n, name in zip(joints, motion, form.generators.motion, strict=True) if name[0] == "v" and n)
    return (-product_level(motion, joints), shape, sines, len(form.entries[k]), rates[::-1], motion)


def _find_pivots(
    form: BilinearForm, order: Sequence[int], p: int, seed: int
) -> tuple[list[int], list[int], list[list[int]]]:
    """First independent rows in order, columns that show it, and per pivot the rows that contain it."""
    from flint import nmod_mat

    field = Field.for_angles(form.shape.known_angles, p, random.Random(f"{seed} {p}"))
    B = evaluate_in_field(form, field)
    alike: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for k in order:
        if B[k]:
            alike.setdefault(_normalise_row(B[k], p), []).append(k)
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


def _normalise_row(row: dict[int, int], p: int) -> tuple[tuple[int, int], ...]:
    """A row divided by its first entry, modulo p: most rows of B are multiples of a few."""
    first = min(row)
    scale = pow(row[first], -1, p)
    return tuple(sorted((column, x * scale % p) for column, x in row.items()))


def _solve_functions(
    form: BilinearForm,
    values: list[dict[int, Fraction]],
    pivots: list[int],
    columns: list[int],
    pattern: list[list[int]],
) -> list[dict[int, Fraction]]:
    """Coefficients K of all rows by the chosen ones, from B[:, columns] = K B[pivots, columns]."""
    place = {c: i for i, c in enumerate(columns)}
    chosen = [[values[k].get(c, Fraction(0)) for c in columns] for k in pivots]
    back = _exact_inverse(chosen) if form.is_rational else _inverse_to_many_digits(chosen)
    parts = [[(place[c], x) for c, x in row.items() if c in place] for row in values]
    return [
        {k: sum((x * back[c][r] for c, x in parts[k]), Fraction(0)) for k in where} for r, where in enumerate(pattern)
    ]


def _exact_inverse(A: list[list[Fraction]]) -> list[list[Fraction]]:
    """Inverse of a matrix of fractions, exactly."""
    from flint import fmpq, fmpq_mat

    inverse = fmpq_mat([[fmpq(x.numerator, x.denominator) for x in row] for row in A]).inv()
    return [[Fraction(int(x.p), int(x.q)) for x in row] for row in inverse.tolist()]


def _inverse_to_many_digits(A: list[list[Fraction]]) -> list[list[Fraction]]:
    """Inverse of a matrix of fractions by interval arithmetic with twice the digits of the entries."""
    from flint import arb, arb_mat, fmpq

    with flint_precision(2 * BITS):
        inverse = arb_mat([[arb(fmpq(x.numerator, x.denominator)) for x in row] for row in A]).inv()
        pairs = [[x.mid().man_exp() for x in row] for row in inverse.tolist()]
    return [[Fraction(int(man)) * Fraction(2) ** int(exp) for man, exp in row] for row in pairs]
