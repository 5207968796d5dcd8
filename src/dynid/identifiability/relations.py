"""The text of regrouping relations as in Gautier 1991, Table V, plain or in LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dynid.identifiability.symbolic_numbers import PAIR, Form, Ring
from dynid.robot.parameter import Parameter
from dynid.robot.transform import Array

if TYPE_CHECKING:
    from flint import fmpq_mpoly

# What every method of finding base parameters ends in: the kept columns and how the others join them.


@dataclass(frozen=True, slots=True, eq=False)
class Regrouping:
    """The lexicographically first independent columns, and XB = matrix @ X (Gautier 1991, eq. 20).

    kept: indices into the p columns; matrix (len(kept), p): the identity on the kept columns, beta on the
    others, zero where a parameter has no effect or was left out (known zeros).
    """

    kept: tuple[int, ...]
    matrix: Array


Coefficient: TypeAlias = Form | float
Coefficients: TypeAlias = Mapping[int, Mapping[int, Coefficient]]


def coefficients_by_kept_column(
    regrouping: Regrouping, *, tolerance: float = 1e-9
) -> dict[int, dict[int, Coefficient]]:
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
        """Text of a non-negative number: whole numbers and thirds as they are, others with up to 6 digits."""
        if isinstance(x, Fraction) and (x.denominator == 1 or _has_no_finite_decimal(x.denominator)):
            return rf"\frac{{{x.numerator}}}{{{x.denominator}}}" if self.latex and x.denominator > 1 else str(x)
        text = f"{float(x):.6g}"
        mantissa, e, exponent = text.partition("e")
        return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if self.latex and e else text

    def symbol(self, name: str) -> str:
        """Text of a symbol of the table: D3 is D_{3} in LaTeX."""
        if not self.latex:
            return name
        if pair := PAIR.fullmatch(name):
            return rf"\{pair[1]} {self.symbol(pair[2])}"
        match = re.fullmatch(r"([A-Za-z]+)_?(\w+)", name)
        return f"{match[1]}_{{{_escape_latex(match[2])}}}" if match else _escape_latex(name)

    def parameter(self, name: Parameter, mark: str = "") -> str:
        """Text of a parameter: ZZ1, with a mark ZZR1; ZZ:arm, ZZR:arm."""
        if not self.latex:
            return name.symbol + mark + name.label
        label = name.label.removeprefix(":").removeprefix("_")
        label = label if label.isdigit() or not label else rf"\mathrm{{{_escape_latex(label)}}}"
        return rf"\mathit{{{_escape_latex(name.symbol)}{mark}}}" + (f"_{{{label}}}" if label else "")

    def power(self, name: str, n: int) -> str:
        """Return name^n."""
        if self.latex and n > 1 and (pair := PAIR.fullmatch(name)):
            return rf"\{pair[1]}^{{{n}}} {self.symbol(pair[2])}"
        text = self.symbol(name) if self.latex or not re.search(r"[+\-*/ ]", name) or PAIR.match(name) else f"({name})"
        return text if n == 1 else (f"{text}^{{{n}}}" if self.latex else f"{text}**{n}")

    def product(self, factors: Iterable[str]) -> str:
        """Text of a product of factors."""
        return (" " if self.latex else "*").join(factors)


_TEXT, _LATEX = _Notation(latex=False), _Notation(latex=True)


def _has_no_finite_decimal(denominator: int) -> bool:
    """Whether a fraction with this denominator has no finite decimal form."""
    while denominator % 2 == 0:
        denominator //= 2
    while denominator % 5 == 0:
        denominator //= 5
    return denominator != 1


def _escape_latex(name: str) -> str:
    """A name with LaTeX's special characters escaped."""
    return re.sub(r"([_%&#$])", r"\\\1", name)


def _shortest_terms(p: fmpq_mpoly, ring: Ring) -> dict[tuple[int, ...], Fraction]:
    """Terms of a polynomial, each sin^2 or cos^2 written by the one that needs fewer terms."""
    for c, s in ring.pairs:
        p = min((p, ring.without_square(p, c, s)), key=lambda x: len(x.to_dict()))
    return {k: Fraction(int(c.p), int(c.q)) for k, c in p.to_dict().items()}


def _sum_text(p: fmpq_mpoly, ring: Ring, notation: _Notation) -> tuple[str, bool, int]:
    """Text of a polynomial without its common sign, whether that is minus, and its number of terms."""
    terms = _shortest_terms(p, ring)
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


def coefficient_text_and_sign(x: Coefficient, notation: _Notation = _TEXT) -> tuple[str, bool]:
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
    text, minus = coefficient_text_and_sign(x, _TEXT)
    if text.startswith("(") and text.endswith(")") and not minus:
        inside = text[1:-1]
        return inside if isinstance(x, Form) and x.den == x.ring.unit else text
    return ("-" if minus else "") + (text or "1")


def _relation_text(kept: int, row: Mapping[int, Coefficient], names: Sequence[Parameter], notation: _Notation) -> str:
    """Text of one relation; parameters with equal coefficients share them, as in (M4 + M5 + M6)."""
    groups: dict[tuple[str, bool], list[int]] = {}
    for column in sorted(row):
        if column != kept:
            groups.setdefault(coefficient_text_and_sign(row[column], notation), []).append(column)
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


def relations(kept: Sequence[int], coefficients: Coefficients, names: Sequence[Parameter]) -> tuple[str, ...]:
    """Relations of the kept parameters that absorb others: `ZZR1 = ZZ1 + YY2 + 2*R3*MZ3 + ...`.

    coefficients: by kept column, what each column (named by `names`) brings in; see `coefficients_of`.
    """
    return _all_relations(kept, coefficients, names, _TEXT)


def relations_latex(kept: Sequence[int], coefficients: Coefficients, names: Sequence[Parameter]) -> tuple[str, ...]:
    """Return the relations in LaTeX, without dollar signs."""
    return _all_relations(kept, coefficients, names, _LATEX)


def _all_relations(
    kept: Sequence[int], coefficients: Coefficients, names: Sequence[Parameter], notation: _Notation
) -> tuple[str, ...]:
    """Relations of the kept parameters that absorb others, in a notation."""
    absorbing = [k for k in kept if any(c != k for c in coefficients.get(k, {}))]
    return tuple(_relation_text(k, coefficients[k], names, notation) for k in absorbing)
