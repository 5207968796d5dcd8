"""Exact numbers with symbolic forms, the coefficients of regrouping relations.

A form is a ratio of polynomials in the symbols of a robot's table and in the cosines and sines of its angles, sin^2
being written as 1 - cos^2 inside and as whatever is shorter in print. A number has a value with 120 digits and, in
symbolic work, its form.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from dynid.identifiability.exact_geometry import ZERO, cosine_sine, read_angle, read_length
from dynid.robot.expression import Expression, evaluate_expression, parse_expression, symbols_of
from dynid.robot.robot import Robot

if TYPE_CHECKING:
    from flint import arb, fmpq_mpoly

PAIR = re.compile(r"(cos|sin)\((.*)\)")
"""Generators that know of each other."""


@dataclass(frozen=True, slots=True)
class Form:
    """num / den in a ring of polynomials; den is 1 wherever nothing was divided."""

    num: fmpq_mpoly
    den: fmpq_mpoly
    ring: Ring

    def __bool__(self) -> bool:
        return bool(self.num)

    def __add__(self, other: Form) -> Form:
        if self.den == other.den:
            return self.ring.ratio(self.num + other.num, self.den)
        return self.ring.ratio(self.num * other.den + other.num * self.den, self.den * other.den)

    def __neg__(self) -> Form:
        return Form(-self.num, self.den, self.ring)

    def __mul__(self, other: Form) -> Form:
        return self.ring.ratio(self.num * other.num, self.den * other.den)

    def __truediv__(self, other: Form) -> Form:
        return self.ring.ratio(self.num * other.den, self.den * other.num)

    def __str__(self) -> str:
        from dynid.identifiability.relations import coefficient_text

        return coefficient_text(self)

    def evaluate(self, symbols: Mapping[str, float]) -> float:
        """Value of the form for values of the symbols (m; angles in rad, also where the table has degrees)."""
        values = [_generator_value(name, symbols) for name in self.ring.names]
        num, den = (
            math.fsum(
                float(Fraction(int(c.p), int(c.q))) * math.prod(map(pow, values, map(int, powers)))
                for powers, c in terms
            )
            for terms in (self.num.to_dict().items(), self.den.to_dict().items())
        )
        return num / den


def _generator_value(name: str, symbols: Mapping[str, float]) -> float:
    """Value of a generator: a symbol, an expression of some, or a cosine or sine of one."""
    if match := PAIR.fullmatch(name):
        angle = evaluate_expression(match[2], symbols)
        return math.cos(angle) if match[1] == "cos" else math.sin(angle)
    return evaluate_expression(name, symbols)


class Ring:
    """Polynomials in named generators; `cos(x)` and `sin(x)` of the same x know of each other."""

    def __init__(self, names: Sequence[str], constants: Mapping[str, Decimal] | None = None) -> None:
        from flint import Ordering, fmpq_mpoly_ctx

        self.names = tuple(names)
        self.constants = dict(constants or {})  # values of cosines and sines
        self.context = fmpq_mpoly_ctx.get(self.names, Ordering.lex)
        self.generators = dict(zip(self.names, self.context.gens(), strict=True))
        place = {name: k for k, name in enumerate(self.names)}
        self.pairs = tuple(
            (k, place[f"sin({m[2]})"]) for n, k in place.items() if (m := PAIR.match(n)) and m[1] == "cos"
        )
        self.unit = self.context.constant(1)

    def ratio(self, num: fmpq_mpoly, den: fmpq_mpoly) -> Form:
        """Form of a quotient, cancelled."""
        for c, s in self.pairs:
            num, den = self.without_square(num, s, c), self.without_square(den, s, c)
        if not den.is_constant():
            common = num.gcd(den)
            num, den = num / common, den / common
        lead = den.leading_coefficient()
        return Form(num / lead, den / lead, self) if lead != 1 else Form(num, den, self)

    def without_square(self, p: fmpq_mpoly, gone: int, stays: int) -> fmpq_mpoly:
        """Polynomial with gone^2 = 1 - stays^2 put in, until no square of it is left."""
        generators = self.context.gens()
        while p.degrees()[gone] > 1:
            total = self.context.constant(0)
            for powers, c in p.to_dict().items():
                halves, rest = divmod(powers[gone], 2)
                kept = tuple(rest if k == gone else n for k, n in enumerate(powers))
                total += self.context.from_dict({kept: c}) * (1 - generators[stays] ** 2) ** halves
            p = total
        return p

    def constant(self, number: Fraction | int) -> Form:
        """Form of a rational number."""
        from flint import fmpq

        number = Fraction(number)
        return Form(self.context.constant(fmpq(number.numerator, number.denominator)), self.unit, self)

    def generator(self, name: str) -> Form:
        """Form of a generator."""
        return Form(self.generators[name], self.unit, self)

    def length(self, expression: Expression) -> Form:
        """Form of a length."""
        if expression.text is None:
            return self.constant(Fraction(repr(expression.value)))
        if expression.text in self.generators:
            return self.generator(expression.text)
        return self._form_of_node(parse_expression(expression.text))

    def cos_sin(self, angle: Expression) -> tuple[Form, Form]:
        """Forms of the cosine and sine of an angle that is not a multiple of 90 degrees."""
        text, sign = split_leading_minus(angle)
        c, s = self.generator(f"cos({text})"), self.generator(f"sin({text})")
        return c, s if sign > 0 else -s

    def _form_of_node(self, node: ast.expr) -> Form:
        """Form of a syntax tree."""
        match node:
            case ast.Constant(value=int() | float() as value):
                return self.constant(Fraction(repr(value)))
            case ast.Name(id=name):
                return self.generator(name)
            case ast.UnaryOp(op=op, operand=operand):
                form = self._form_of_node(operand)
                return -form if isinstance(op, ast.USub) else form
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return self._form_of_power(self._form_of_node(left), _integer_value(right) or 0)
            case ast.BinOp(left=left, op=op, right=right):
                x, y = self._form_of_node(left), self._form_of_node(right)
                match op:
                    case ast.Add():
                        return x + y
                    case ast.Sub():
                        return x + -y
                    case ast.Mult():
                        return x * y
                    case ast.Div():
                        return x / y
        raise TypeError(type(node).__name__)

    def _form_of_power(self, base: Form, power: int) -> Form:
        """Form of a whole power, negative ones too."""
        result = self.constant(1)
        for _ in range(abs(power)):
            result = result * base
        return result if power >= 0 else self.constant(1) / result


def split_leading_minus(angle: Expression) -> tuple[str, int]:
    """Text of an angle without a leading minus, and its sign: cos(-A) is cos(A)."""
    text = angle.text if angle.text is not None else f"{angle.value:.12g}"
    match parse_expression(text):
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return ast.unparse(operand), -1
    return text, 1


def length_generators(expression: Expression) -> tuple[str, ...]:
    """Generators that a length needs: its symbols, or its whole text where it has a power that is not an integer."""
    if expression.text is None:
        return ()
    tree = parse_expression(expression.text)
    powers = (n.right for n in ast.walk(tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow))
    return symbols_of(tree) if all(_integer_value(p) is not None for p in powers) else (expression.text,)


def _integer_value(node: ast.expr) -> int | None:
    """Value of an integer that is written out, None for anything else."""
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
            return -value
    return None


@dataclass(frozen=True, slots=True)
class Number:
    """A coefficient or coordinate: its value to 120 digits and, in symbolic work, its form.

    Decimals and integers mix with numbers, so that what is written for decimals runs on numbers, too.
    """

    value: Decimal
    form: Form | None = None

    def of_plain(self, other: Number | Decimal | int) -> Number:
        """Return a decimal or integer as a number of the same kind; numbers as they are."""
        if isinstance(other, Number):
            return other
        form = None if self.form is None else self.form.ring.constant(_rational(Decimal(other)))
        return Number(Decimal(other), form)

    def __add__(self, other: Number | Decimal | int) -> Number:
        other = self.of_plain(other)
        if self.form is None or other.form is None:
            return Number(self.value + other.value)
        return Number(self.value + other.value, self.form + other.form)

    __radd__ = __add__

    def __neg__(self) -> Number:
        return Number(-self.value, None if self.form is None else -self.form)

    def __sub__(self, other: Number | Decimal | int) -> Number:
        return self + -other

    def __rsub__(self, other: Decimal | int) -> Number:
        return -self + other

    def __mul__(self, other: Number | Decimal | int) -> Number:
        other = self.of_plain(other)
        if self.form is None or other.form is None:
            return Number(self.value * other.value)
        return Number(self.value * other.value, self.form * other.form)

    __rmul__ = __mul__

    def __truediv__(self, other: Number | Decimal | int) -> Number:
        other = self.of_plain(other)
        if self.form is None or other.form is None:
            return Number(self.value / other.value)
        return Number(self.value / other.value, self.form / other.form)

    def __rtruediv__(self, other: Decimal | int) -> Number:
        return self.of_plain(other) / self

    def __abs__(self) -> Decimal:
        return abs(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __bool__(self) -> bool:
        """Whether there is anything to write down: a form may be zero only for these values of the symbols."""
        return abs(self.value) >= ZERO if self.form is None else bool(self.form)


def _rational(x: Decimal) -> Fraction:
    """Rational number that a decimal stands for: 41/13 where it is a quotient of components of gravity."""
    exact = Fraction(x)
    if exact.denominator < 10**60:
        return exact
    near = exact.limit_denominator(10**40)
    return near if abs(near - exact) <= abs(exact) / 10**100 else exact


Vector = tuple[Number, Number, Number]


def dot(u: Vector, v: Vector) -> Number:
    """Scalar product of two vectors of numbers."""
    return u[0] * v[0] + u[1] * v[1] + u[2] * v[2]


class Numbers:
    """Where numbers come from, and when they are zero; with a ring they carry their forms."""

    def __init__(self, ring: Ring | None = None, smallest: Decimal = ZERO) -> None:
        self.ring, self.smallest = ring, smallest
        self.zero, self.one, self.two = self.integer(0), self.integer(1), self.integer(2)
        self.null: Vector = (self.zero, self.zero, self.zero)
        self.z: Vector = (self.zero, self.zero, self.one)

    def integer(self, k: int) -> Number:
        """Number of an integer."""
        return Number(Decimal(k), None if self.ring is None else self.ring.constant(k))

    def is_zero(self, x: Number) -> bool:
        """Whether a coordinate (m, or a cosine) is zero for the values of the symbols."""
        return abs(x.value) < self.smallest

    def is_along_z(self, v: Vector) -> bool:
        """Whether a vector is parallel to z; the null vector is."""
        return self.is_zero(v[0]) and self.is_zero(v[1])

    def length(self, length: Expression) -> Number:
        """Number that a length (m) is written as; its form is 0 where it is 0."""
        value = read_length(length.value)
        if not value:
            return self.zero
        return Number(value, None if self.ring is None else self.ring.length(length))

    def cos_sin(self, angle: Expression) -> tuple[Number, Number]:
        """Cosine and sine; the floating-point multiples of 90 degrees are meant exactly."""
        exact = read_angle(angle.value)
        cosine, sine = cosine_sine(exact)
        if exact.is_right_angle:
            return self.integer(int(cosine)), self.integer(int(sine))
        if self.ring is None:
            return Number(cosine), Number(sine)
        forms = self.ring.cos_sin(angle)
        return Number(cosine, forms[0]), Number(sine, forms[1])


def closure_lengths(robot: Robot) -> list[Expression]:
    """Coordinates of the closures' points, six for each closure."""
    return [
        Expression(float(x), text or None)
        for c in robot.closures
        for x, text in zip((*c.points[0], *c.points[1]), c.texts or ("",) * 6, strict=True)
    ]


def numbers_of_robot(robot: Robot, *, symbolic: bool, smallest: Decimal = ZERO) -> Numbers:
    """Numbers for a robot's geometry: plain, or with forms in the symbols and angles of its table."""
    if not symbolic:
        return Numbers(smallest=smallest)
    lengths: dict[str, None] = {}
    angles: dict[str, Decimal] = {}
    for link in robot.links:
        if link.kind == "floating":
            continue
        assert link.mdh is not None
        for length in (link.mdh.d, link.mdh.r, link.mdh.b):
            lengths |= dict.fromkeys(length_generators(length))
        for angle in (link.mdh.gamma, link.mdh.alpha, link.mdh.theta):
            if not read_angle(angle.value).is_right_angle:
                text, sign = split_leading_minus(angle)
                cosine, sine = cosine_sine(read_angle(angle.value))
                angles |= {f"cos({text})": cosine, f"sin({text})": sign * sine}
    for length in closure_lengths(robot):
        lengths |= dict.fromkeys(length_generators(length))
    known = [name for name in robot.symbols if name in lengths]
    return Numbers(Ring([*dict.fromkeys([*known, *lengths]), *angles], angles), smallest)


# Forms that numbers with many digits stand for, by integer relations (LLL).


PRIMES = (2, 3, 5, 7)
"""Of the factor of a monomial."""
USED = 80
"""Digits of a number in which relations are looked for."""
SMALLEST = 30
"""Of them may be left over; digits to which a relation must hold, relative to its size, in the second geometry."""
SIMPLE = 30
"""Most digits of information in a relation: a longer one fits any number."""
MOST = 60
"""Terms of numerator and denominator together."""


def recognise_form(
    values: Sequence[arb],
    lengths: Sequence[Mapping[str, float]],
    degree: int,
    ring: Ring,
    groups: Sequence[Collection[str]] = (),
    *,
    simple: bool = False,
) -> Form | None:
    """Form of this degree in the lengths whose values at two geometries are given; None where none is simple.

    Tried are rational numbers, monomials in all lengths and in the ring's cosines and sines (by their logarithms),
    homogeneous ratios with few terms in the lengths of each group, then products of a monomial in the lengths and a
    polynomial in the cosines and sines, then sums of such products; simple: no ratios. Lengths whose name is no
    generator of the ring are numbers and enter with that value.
    """
    names = (*lengths[0], *ring.constants)
    fixed = [_ball(x) for x in ring.constants.values()]
    draws = [[*(_ball(x) for x in draw.values()), *fixed] for draw in lengths]
    candidates = itertools.chain(
        _candidates(values[0], names, draws[0], degree, [] if simple else [*groups, lengths[0]]),
        _separated_candidates(values, draws, len(lengths[0])),
        _mixed_candidates(values[0], names, draws[0], degree, len(lengths[0]), groups[0] if groups else ()),
    )
    for candidate in candidates:
        if all(_ratio_holds(candidate, x, draw) for x, draw in zip(values, draws, strict=True)):
            return _form_of_ratio(candidate, names, ring)
    return None


Terms: TypeAlias = Mapping[tuple[int, ...], Fraction]


Sample: TypeAlias = "tuple[Mapping[str, float], arb]"


def recognise_polynomial(first: Sample, others: Sequence[Sample], last: Sample, degree: int, ring: Ring) -> Form | None:
    """Form of this degree: powers of some lengths times a polynomial in the rest; None where it is no such.

    Samples are lengths, always the same ones in the same order, and a value: in the others one length after the other
    differs from the first; the last one confirms. Coefficients solve linear equations, and each is recognised as a
    polynomial in the ring's cosines and sines.
    """
    names = tuple(first[0])
    powers = {
        name: p for name, (lengths, x) in zip(names, others, strict=True)
        if (p := _power(x / first[1], lengths[name], first[0][name]))
    }  # fmt: skip
    rest = tuple(name for name in names if name not in powers)
    some = [first, *(sample for name, sample in zip(names, others, strict=True) if name in rest), last]
    rows = [[_ball(lengths[name]) for name in rest] for lengths, _ in some]
    values = [
        math.prod((_ball(lengths[name]) ** -p for name, p in powers.items()), start=x) for lengths, x in some
    ]  # fmt: skip
    factor = ring.constant(1)
    for name, p in powers.items():
        one = _form_of_ratio(({(abs(p),): Fraction(1)}, _one([name])), [name], ring)
        factor = factor * one if p > 0 else factor / one
    for extra in range(3):
        terms = monomials(len(rest), degree - sum(powers.values()) + extra)
        if not 0 < len(terms) < len(some):
            continue
        for below in monomials(len(rest), extra):
            right = [x * _power_product(row, below) for x, row in zip(values, rows, strict=True)]
            left = [[_power_product(row, p) for p in terms] for row in rows]
            if (total := _polynomial_through(left, right, terms, rest, ring)) is not None:
                return factor * total / _form_of_ratio(({below: Fraction(1)}, _one(rest)), rest, ring)
    return None


def _power(ratio: arb, length: float, before: float) -> int:
    """The power of a length by which a value grows, 0 where it is none up to 4."""
    if not ratio > 0:
        return 0
    power = ratio.log() / (_ball(length) / _ball(before)).log()
    p = round(float(power.mid()))
    return p if abs(p) <= 4 and abs((power - p).mid()) < _ball(10) ** -SMALLEST else 0


def _polynomial_through(
    left: Sequence[Sequence[arb]],
    right: Sequence[arb],
    terms: Sequence[tuple[int, ...]],
    names: Sequence[str],
    ring: Ring,
) -> Form | None:
    """Polynomial whose coefficients solve the first equations, if all the others and the last one hold, too."""
    from flint import arb_mat

    size = len(terms)
    try:
        x = arb_mat([list(row) for row in left[:size]]).solve(arb_mat([[y] for y in right[:size]])).table()
    except ZeroDivisionError:  # these geometries do not determine so many coefficients
        return None
    total = ring.constant(0)
    for row, y in zip(left[size:], right[size:], strict=True):
        off = sum((a * z[0] for a, z in zip(row, x, strict=True)), start=-y)
        if abs(off.mid()) > abs(y.mid()) * _ball(10) ** -SMALLEST:
            return None
    for (coefficient,), powers in zip(x, terms, strict=True):
        form = _recognise_constant(coefficient, ring)
        if form is None:
            return None
        total = total + form * _form_of_ratio(({powers: Fraction(1)}, _one(names)), names, ring)
    return total


def _one(names: Sequence[str]) -> Terms:
    """The polynomial 1 in so many generators."""
    return {(0,) * len(names): Fraction(1)}


def _power_product(balls: Sequence[arb], powers: Sequence[int]) -> arb:
    """Monomial of balls."""
    return math.prod((b**n for b, n in zip(balls, powers, strict=True)), start=_ball(1))


def _recognise_constant(x: arb, ring: Ring) -> Form | None:
    """Form of a number that is a simple polynomial in the ring's cosines and sines; None where it is none."""
    names, fixed = tuple(ring.constants), [_ball(y) for y in ring.constants.values()]
    if abs(x.mid()) < _ball(10) ** -USED:
        return ring.constant(0)
    for degree in range(5):
        terms = [p for d in range(degree + 1) for p in monomials(len(fixed), d)]
        if len(terms) > MOST:
            break
        for candidate in _ratio_candidates(x, fixed, terms, [(0,) * len(fixed)]):
            if _ratio_holds(candidate, x, fixed):
                return _form_of_ratio(candidate, names, ring)
    return None


def _candidates(
    x: arb, names: Sequence[str], draw: Sequence[arb], degree: int, groups: Sequence[Collection[str]]
) -> Iterator[tuple[Terms, Terms]]:
    """Numerators and denominators that a number may be the ratio of, simple ones first."""
    none = (0,) * len(names)
    simple = Fraction(float(x)).limit_denominator(1000)
    yield {none: simple}, {none: Fraction(1)}
    yield from _monomial_candidates(x, draw)
    for group in groups:
        some = [k for k, name in enumerate(names) if name in group]
        for extra in range(3):
            dens, nums = monomials(len(some), extra), monomials(len(some), degree + extra)
            if nums and len(dens) + len(nums) <= MOST:
                for num, den in _ratio_candidates(x, [draw[k] for k in some], nums, dens):
                    yield _in_all_names(num, some, len(names)), _in_all_names(den, some, len(names))


def _separated_candidates(
    values: Sequence[arb], draws: Sequence[Sequence[arb]], count: int
) -> Iterator[tuple[Terms, Terms]]:
    """Monomials in the first `count` generators, the lengths, times polynomials in the others, which do not change."""
    one, two = values
    if count == len(draws[0]) or not one / two > 0:
        return
    logs = [(one / two).log(), *((a / b).log() for a, b in zip(draws[0][:count], draws[1][:count], strict=True))]
    fixed = draws[0][count:]
    for row in integer_relations(logs):
        if abs(row[0]) != 1 or max(map(abs, row)) > 8:
            continue
        powers = [-row[0] * n for n in row[1:]]
        rest = one
        for s, n in zip(draws[0], powers, strict=False):
            rest = rest / s**n
        for degree in range(1, 5):
            terms = [p for d in range(degree + 1) for p in monomials(len(fixed), d)]
            if len(terms) > MOST:
                break
            for num, den in _ratio_candidates(rest, fixed, terms, [(0,) * len(fixed)]):
                top, below = tuple(max(n, 0) for n in powers), tuple(max(-n, 0) for n in powers)
                yield {(*top, *p): c for p, c in num.items()}, {(*below, *p): c for p, c in den.items()}


def _mixed_candidates(
    x: arb, names: Sequence[str], draw: Sequence[arb], degree: int, count: int, loop: Collection[str]
) -> Iterator[tuple[Terms, Terms]]:
    """Sums of lengths times cosines and sines, times a quotient of two lengths of the loop; and their reciprocals."""
    angles = [p for d in range(3) for p in monomials(len(names) - count, d) if all(n < 2 for n in p[1::2])]
    terms = [(*p, *a) for p in monomials(count, 1) for a in angles]
    if abs(degree) != 1 or len(angles) == 1 or len(terms) > MOST:
        return
    for i, j in ((-1, -1), *itertools.permutations([k for k in range(count) if names[k] in loop], 2)):
        y = x if i < 0 else x * draw[j] / draw[i]
        for num, den in _ratio_candidates(y if degree > 0 else 1 / y, draw, terms, [(0,) * len(names)]):
            top, below = (num, den) if degree > 0 else (den, num)
            yield (top, below) if i < 0 else (_times(top, i), _times(below, j))


def _times(terms: Terms, k: int) -> Terms:
    """Terms times generator k."""
    return {tuple(n + (i == k) for i, n in enumerate(powers)): c for powers, c in terms.items()}


def _in_all_names(terms: Terms, some: Sequence[int], size: int) -> Terms:
    """Terms in some generators as terms in all of them."""
    total = {}
    for powers, c in terms.items():
        row = [0] * size
        for k, n in zip(some, powers, strict=True):
            row[k] = n
        total[tuple(row)] = c
    return total


def _monomial_candidates(x: arb, draw: Sequence[arb]) -> Iterator[tuple[Terms, Terms]]:
    """Monomials with a rational factor, by an integer relation of logarithms."""
    from flint import arb

    logs = [abs(x).log(), *(arb(p).log() for p in PRIMES), *(abs(s).log() for s in draw)]
    for row in integer_relations(logs):
        if abs(row[0]) != 1 or max(map(abs, row)) > 8:
            continue
        powers = [-row[0] * n for n in row[1:]]
        factor = math.prod((Fraction(p) ** n for p, n in zip(PRIMES, powers, strict=False)), start=Fraction(1))
        top = tuple(max(n, 0) for n in powers[len(PRIMES) :])
        below = tuple(max(-n, 0) for n in powers[len(PRIMES) :])
        minus = (x < 0) ^ (sum(n for n, s in zip(powers[len(PRIMES) :], draw, strict=True) if s < 0) % 2 == 1)
        yield {top: -factor if minus else factor}, {below: Fraction(1)}


def _ratio_candidates(
    x: arb, balls: Sequence[arb], nums: Sequence[tuple[int, ...]], dens: Sequence[tuple[int, ...]]
) -> Iterator[tuple[Terms, Terms]]:
    """Ratios of polynomials, by an integer relation of x times the denominator's terms and the numerator's."""
    terms = [_power_product(balls, powers) for powers in (*dens, *nums)]
    for row in integer_relations([x * t for t in terms[: len(dens)]] + terms[len(dens) :]):
        den = {powers: Fraction(n) for powers, n in zip(dens, row, strict=False) if n}
        num = {powers: Fraction(-n) for powers, n in zip(nums, row[len(dens) :], strict=True) if n}
        if den and num:
            yield num, den


def integer_relations(values: Sequence[arb]) -> Iterator[tuple[int, ...]]:
    """Yield small integer vectors n with n . values = 0 to many digits, shortest first, of numbers with many digits."""
    from flint import fmpz_mat

    scaled = [int(Decimal(x.mid().str(USED + 20, radius=False)).scaleb(USED)) for x in values]
    size = len(values)
    lattice = fmpz_mat([[int(i == j) for j in range(size)] + [scaled[i]] for i in range(size)]).lll()
    for i in range(size):
        row = [int(lattice[i, j]) for j in range(size + 1)]
        digits = sum(math.log10(size * (2 * abs(n) + 1)) for n in row[:-1] if n)
        if abs(row[-1]) < 10**SMALLEST and 0.0 < digits <= SIMPLE:
            yield tuple(row[:-1])


def monomials(count: int, degree: int) -> list[tuple[int, ...]]:
    """Powers of all monomials of a degree in so many symbols."""
    if degree < 0:
        return []
    chosen = itertools.combinations_with_replacement(range(count), degree)
    return [tuple(some.count(k) for k in range(count)) for some in chosen]


def _ball(x: float | Decimal) -> arb:
    """Ball around a decimal, or the one that Python prints for a float."""
    from flint import arb

    exact = Fraction(x if isinstance(x, Decimal) else repr(float(x)))
    return arb(exact.numerator) / exact.denominator


def _ratio_holds(candidate: tuple[Terms, Terms], x: arb, balls: Sequence[arb]) -> bool:
    """Whether a number is the ratio of two polynomials to many digits."""
    from flint import arb

    num, den = (
        sum(
            (
                math.prod((b**n for b, n in zip(balls, powers, strict=True)), start=arb(c.numerator) / c.denominator)
                for powers, c in terms.items()
            ),
            start=arb(0),
        )
        for terms in candidate
    )
    off, size = abs(num - x * den), abs(num) + abs(x * den)
    return bool(off.mid() <= size.mid() * arb(10) ** -SMALLEST)


def _form_of_ratio(candidate: tuple[Terms, Terms], names: Sequence[str], ring: Ring) -> Form:
    """Form of a ratio of polynomials in lengths; those that are not symbols are the numbers they are named by."""
    known = [ring.generator(n) if n in ring.generators else ring.constant(Fraction(n)) for n in names]
    num, den = ring.constant(0), ring.constant(0)
    parts = []
    for terms, total in zip(candidate, (num, den), strict=True):
        for powers, c in terms.items():
            term = ring.constant(c)
            for form, n in zip(known, powers, strict=True):
                for _ in range(n):
                    term = term * form
            total = total + term
        parts.append(total)
    return parts[0] / parts[1]
