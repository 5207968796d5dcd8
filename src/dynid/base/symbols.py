"""Symbolic coefficients, and the text of regrouping relations as in Gautier 1991, Table V.

A coefficient is a ratio of polynomials in the symbols of a robot's table and in the cosines and sines of its
angles, sin^2 being written as 1 - cos^2 inside and as whatever is shorter in print.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dynid.base.regrouping import Regrouping
from dynid.robot.expression import Expression, parse_expression, symbols_of

if TYPE_CHECKING:
    from flint import fmpq_mpoly

    from dynid.base.rules import RuleResult

_PAIR = re.compile(r"(cos|sin)\((.*)\)")
_NAME = re.compile(r"([A-Za-z]+)(.*)", re.DOTALL)


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
            (k, place[f"sin({m[2]})"]) for n, k in place.items() if (m := _PAIR.match(n)) and m[1] == "cos"
        )
        self.unit = self.context.constant(1)

    def ratio(self, num: fmpq_mpoly, den: fmpq_mpoly) -> Form:
        """Cancelled quotient."""
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
        return self._walk(parse_expression(expression.text))

    def cos_sin(self, angle: Expression) -> tuple[Form, Form]:
        """Forms of the cosine and sine of an angle that is no multiple of 90 degrees."""
        text, sign = signed_text(angle)
        c, s = self.generator(f"cos({text})"), self.generator(f"sin({text})")
        return c, s if sign > 0 else -s

    def _walk(self, node: ast.expr) -> Form:
        match node:
            case ast.Constant(value=int() | float() as value):
                return self.constant(Fraction(repr(value)))
            case ast.Name(id=name):
                return self.generator(name)
            case ast.UnaryOp(op=op, operand=operand):
                form = self._walk(operand)
                return -form if isinstance(op, ast.USub) else form
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return self._power(self._walk(left), _whole(right) or 0)
            case ast.BinOp(left=left, op=op, right=right):
                x, y = self._walk(left), self._walk(right)
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

    def _power(self, base: Form, power: int) -> Form:
        result = self.constant(1)
        for _ in range(abs(power)):
            result = result * base
        return result if power >= 0 else self.constant(1) / result


def signed_text(angle: Expression) -> tuple[str, int]:
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
    return symbols_of(tree) if all(_whole(p) is not None for p in powers) else (expression.text,)


def _whole(node: ast.expr) -> int | None:
    """Value of an integer that is written out, None for anything else."""
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
            return -value
    return None


Coefficient: TypeAlias = Form | float
Coefficients: TypeAlias = Mapping[int, Mapping[int, Coefficient]]


def coefficients_of(regrouping: Regrouping, *, tolerance: float = 1e-9) -> dict[int, dict[int, Coefficient]]:
    """Rows of a plain regrouping as mappings, without what rounding left of zeros."""
    return {
        k: {int(c): float(row[c]) for c in np.flatnonzero(np.abs(row) > tolerance)}
        for k, row in zip(regrouping.kept, regrouping.matrix, strict=True)
    }


@dataclass(frozen=True, slots=True)
class _Notation:
    """How products, powers and names are written: plain text or LaTeX."""

    latex: bool

    def number(self, x: Fraction | float) -> str:
        """Non-negative number: whole numbers and thirds as they are, others with up to 6 digits."""
        if isinstance(x, Fraction) and (x.denominator == 1 or _endless(x.denominator)):
            return rf"\frac{{{x.numerator}}}{{{x.denominator}}}" if self.latex and x.denominator > 1 else str(x)
        text = f"{float(x):.6g}"
        mantissa, e, exponent = text.partition("e")
        return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if self.latex and e else text

    def symbol(self, name: str) -> str:
        """Symbol of the table: D3 becomes D_{3} in LaTeX."""
        if not self.latex:
            return name
        if pair := _PAIR.fullmatch(name):
            return rf"\{pair[1]} {self.symbol(pair[2])}"
        match = re.fullmatch(r"([A-Za-z]+)_?(\w+)", name)
        return f"{match[1]}_{{{_escaped(match[2])}}}" if match else _escaped(name)

    def parameter(self, name: str, mark: str = "") -> str:
        """Parameter: ZZ1, with a mark ZZR1; ZZ:arm, ZZR:arm."""
        match = _NAME.fullmatch(name)
        symbol, label = (match[1], match[2]) if match else (name, "")
        if not self.latex:
            return symbol + mark + label
        label = label.removeprefix(":")
        label = label if label.isdigit() or not label else rf"\mathrm{{{_escaped(label)}}}"
        return rf"\mathit{{{symbol}{mark}}}" + (f"_{{{label}}}" if label else "")

    def power(self, name: str, n: int) -> str:
        """Return name^n."""
        if self.latex and n > 1 and (pair := _PAIR.fullmatch(name)):
            return rf"\{pair[1]}^{{{n}}} {self.symbol(pair[2])}"
        text = self.symbol(name) if self.latex or not re.search(r"[+\-*/ ]", name) or _PAIR.match(name) else f"({name})"
        return text if n == 1 else (f"{text}^{{{n}}}" if self.latex else f"{text}**{n}")

    def product(self, factors: Iterable[str]) -> str:
        """Product of factors."""
        return (" " if self.latex else "*").join(factors)


_TEXT, _LATEX = _Notation(latex=False), _Notation(latex=True)


def _endless(denominator: int) -> bool:
    """Whether a fraction with this denominator has no finite decimal form."""
    while denominator % 2 == 0:
        denominator //= 2
    while denominator % 5 == 0:
        denominator //= 5
    return denominator != 1


def _escaped(text: str) -> str:
    return re.sub(r"([_%&#$])", r"\\\1", text)


def _shortest(p: fmpq_mpoly, ring: Ring) -> dict[tuple[int, ...], Fraction]:
    """Terms of a polynomial, each sin^2 or cos^2 written by the one that needs fewer terms."""
    for c, s in ring.pairs:
        p = min((p, ring.without_square(p, c, s)), key=lambda x: len(x.to_dict()))
    return {k: Fraction(int(c.p), int(c.q)) for k, c in p.to_dict().items()}


def _sum_text(p: fmpq_mpoly, ring: Ring, notation: _Notation) -> tuple[str, bool, int]:
    """Text of a polynomial without its common sign, whether that is minus, and its number of terms."""
    terms = _shortest(p, ring)
    minus = all(c < 0 for c in terms.values())
    order = sorted(terms, key=lambda powers: (terms[powers] < 0, -sum(powers), tuple(-n for n in powers)))
    parts: list[str] = []
    for powers in order:
        c = -terms[powers] if minus else terms[powers]
        factors = [notation.power(name, n) for name, n in zip(ring.names, powers, strict=True) if n]
        if abs(c) != 1 or not factors:
            factors.insert(0, notation.number(abs(c)))
        parts.append((("- " if c < 0 else "+ ") if parts else ("-" if c < 0 else "")) + notation.product(factors))
    return " ".join(parts), minus, len(order)


def _coefficient_parts(x: Coefficient, notation: _Notation) -> tuple[str, bool]:
    """Factor to write before a parameter (empty for 1) and whether it is negative."""
    if not isinstance(x, Form):
        text = notation.number(abs(float(x)))
        return ("" if text == "1" else text), x < 0
    text, minus, count = _sum_text(x.num, x.ring, notation)
    if x.den != x.ring.unit:
        below, _, terms = _sum_text(x.den, x.ring, notation)
        if notation.latex:
            return rf"\frac{{{text}}}{{{below}}}", minus
        text = f"({text})" if count > 1 else text
        simple = terms == 1 and not re.search(r"[*/ ]", below)
        return f"{text}/{below}" if simple else f"{text}/({below})", minus
    return ("" if text == "1" else f"({text})" if count > 1 else text), minus


def coefficient_text(x: Coefficient) -> str:
    """Text of one coefficient."""
    text, minus = _coefficient_parts(x, _TEXT)
    if text.startswith("(") and text.endswith(")") and not minus:
        inside = text[1:-1]
        return inside if isinstance(x, Form) and x.den == x.ring.unit else text
    return ("-" if minus else "") + (text or "1")


def _relation(kept: int, row: Mapping[int, Coefficient], names: Sequence[str], notation: _Notation) -> str:
    """One relation; parameters with equal coefficients share them, as in (M4 + M5 + M6)."""
    groups: dict[tuple[str, bool], list[int]] = {}
    for column in sorted(row):
        if column != kept:
            groups.setdefault(_coefficient_parts(row[column], notation), []).append(column)
    text = f"{notation.parameter(names[kept], 'R')} = {notation.parameter(names[kept])}"
    for (factor, minus), columns in groups.items():
        words = [notation.parameter(names[c]) for c in columns]
        sign = " - " if minus else " + "
        if not factor:
            text += "".join(sign + word for word in words)
            continue
        total = words[0] if len(words) == 1 else f"({' + '.join(words)})"
        text += sign + notation.product([factor, total])
    return text


def relations(kept: Sequence[int], coefficients: Coefficients, names: Sequence[str]) -> tuple[str, ...]:
    """Relations of the kept parameters that absorb others: `ZZR1 = ZZ1 + YY2 + 2*R3*MZ3 + ...`.

    coefficients: by kept column, what each column (named by `names`) brings in; see `coefficients_of`.
    """
    return _all_relations(kept, coefficients, names, _TEXT)


def relations_latex(kept: Sequence[int], coefficients: Coefficients, names: Sequence[str]) -> tuple[str, ...]:
    """Return the same relations in LaTeX, without dollar signs."""
    return _all_relations(kept, coefficients, names, _LATEX)


def relation_texts(result: RuleResult, names: Sequence[str]) -> tuple[str, ...]:
    """Relations that the rules found, symbolic where their coefficients are."""
    return relations(result.regrouping.kept, result.coefficients, names)


def relation_latex(result: RuleResult, names: Sequence[str]) -> tuple[str, ...]:
    """Return the same relations in LaTeX."""
    return relations_latex(result.regrouping.kept, result.coefficients, names)


def _all_relations(
    kept: Sequence[int], coefficients: Coefficients, names: Sequence[str], notation: _Notation
) -> tuple[str, ...]:
    absorbing = [k for k in kept if any(c != k for c in coefficients.get(k, {}))]
    return tuple(_relation(k, coefficients[k], names, notation) for k in absorbing)
