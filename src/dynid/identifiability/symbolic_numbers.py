"""Exact numbers with symbolic forms, the coefficients of regrouping relations.

A form is a ratio of polynomials in the symbols of a robot's table and in the cosines and sines of its angles, sin^2
being written as 1 - cos^2 inside and as whatever is shorter in print. A number has a value with 120 digits and, in
symbolic work, its form.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from dynid.identifiability.exact_geometry import ZERO, cosine_sine, read_angle, read_length
from dynid.robot.expression import Expression, parse_expression, symbols_of
from dynid.robot.robot import Robot

if TYPE_CHECKING:
    from flint import fmpq_mpoly

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


class Ring:
    """Polynomials in named generators; `cos(x)` and `sin(x)` of the same x know of each other."""

    def __init__(self, names: Sequence[str]) -> None:
        from flint import Ordering, fmpq_mpoly_ctx

        self.names = tuple(names)
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
        """Forms of the cosine and sine of an angle that is no multiple of 90 degrees."""
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
    """Generators that a length needs: its symbols, or its whole text where it has a power that is no integer."""
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
    """A coefficient or coordinate: its value to 120 digits and, in symbolic work, its form."""

    value: Decimal
    form: Form | None = None

    def __add__(self, other: Number) -> Number:
        if self.form is None or other.form is None:
            return Number(self.value + other.value)
        return Number(self.value + other.value, self.form + other.form)

    def __neg__(self) -> Number:
        return Number(-self.value, None if self.form is None else -self.form)

    def __sub__(self, other: Number) -> Number:
        return self + -other

    def __mul__(self, other: Number) -> Number:
        if self.form is None or other.form is None:
            return Number(self.value * other.value)
        return Number(self.value * other.value, self.form * other.form)

    def __truediv__(self, other: Number) -> Number:
        if self.form is None or other.form is None:
            return Number(self.value / other.value)
        return Number(self.value / other.value, self.form / other.form)

    def __bool__(self) -> bool:
        """Whether there is anything to write down: a form may be zero only for these values of the symbols."""
        return abs(self.value) >= ZERO if self.form is None else bool(self.form)


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


def numbers_of_robot(robot: Robot, *, symbolic: bool, smallest: Decimal = ZERO) -> Numbers:
    """Numbers for a robot's geometry: plain, or with forms in the symbols and angles of its table."""
    if not symbolic:
        return Numbers(smallest=smallest)
    lengths: dict[str, None] = {}
    angles: dict[str, None] = {}
    for link in robot.links:
        assert link.mdh is not None
        for length in (link.mdh.d, link.mdh.r, link.mdh.b):
            lengths |= dict.fromkeys(length_generators(length))
        for angle in (link.mdh.gamma, link.mdh.alpha, link.mdh.theta):
            if not read_angle(angle.value).is_right_angle:
                text = split_leading_minus(angle)[0]
                angles |= dict.fromkeys((f"cos({text})", f"sin({text})"))
    known = [name for name in robot.symbols if name in lengths]
    return Numbers(Ring([*dict.fromkeys([*known, *lengths]), *angles]), smallest)
