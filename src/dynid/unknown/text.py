"""Model parameters and their functions in words: `X21 = ZZ2 + ZZ3 + A2**2*(M3 + M4) + 2*A2*MX3`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from dynid.unknown.bilinear import Exponents, Unknown
from dynid.unknown.lagrangian import Generators


def expression_text(row: Mapping[int, Fraction], unknowns: Sequence[Unknown], names: Sequence[str]) -> str:
    """Sum of standard parameters with their factors; parameters with equal factors share them."""
    groups: dict[tuple[Fraction, Exponents], list[str]] = {}
    for column, c in row.items():
        unknown = unknowns[column]
        groups.setdefault((c, unknown.powers), []).append(unknown.parameter)
    parts = []
    for (c, powers), parameters in sorted(groups.items(), key=lambda item: (sum(item[0][1]), item[0][0] < 0)):
        factors = _powers(powers, names)
        if len(parameters) > 1 and (factors or abs(c) != 1):
            factors.append(f"({' + '.join(parameters)})")
            parts.append((c, factors))
        else:
            parts += [(c, [*factors, name]) for name in parameters]
    return _sum(parts)


def function_text(function: Mapping[int, Fraction], motions: Sequence[Exponents], names: Generators) -> str:
    """Sum of products of the motion."""
    words = [_word(name) for name in names.motion]
    return _sum((c, sorted(_powers(motions[k], words), key=_is_rate)) for k, c in function.items())


def _is_rate(word: str) -> bool:
    return word.startswith("qd")


def _word(name: str) -> str:
    """Variable of the motion as a person writes it: cos(q2), sin(q2), q3, qd1."""
    letter, joint = name[0], name[1:]
    return {"c": f"cos(q{joint})", "s": f"sin(q{joint})", "q": f"q{joint}", "v": f"qd{joint}"}[letter]


def _powers(powers: Exponents, names: Sequence[str]) -> list[str]:
    return [name if n == 1 else f"{name}**{n}" for name, n in zip(names, powers, strict=True) if n]


def _sum(parts: Iterable[tuple[Fraction, list[str]]]) -> str:
    text = ""
    for c, factors in parts:
        size = [] if abs(c) == 1 and factors else [number_text(abs(c))]
        sign = ("-" if c < 0 else "") if not text else (" - " if c < 0 else " + ")
        text += sign + "*".join([*size, *factors])
    return text or "0"


def number_text(x: Fraction) -> str:
    """Non-negative number: simple fractions and short decimals as they are, others with 12 digits."""
    if x.denominator <= 12:
        return str(x)
    return f"{float(x):.12g}"
