"""Lengths and angles as numbers or as expressions in named symbols.

The grammar is + - * / ** and parentheses over numbers and symbols, read with Python's own parser and
walked with a whitelist; nothing is ever evaluated as code.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass

from dynid.errors import ExpressionError
from dynid.storage.records import Finite

_MAX_LENGTH = 500
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}


@dataclass(frozen=True, slots=True)
class Expression:
    """A geometric value: its number (m or rad) and, where it has symbols, the text it was written as.

    `degrees` says that the text gives degrees; `value` is always in rad.
    """

    value: Finite
    text: str | None = None
    degrees: bool = False

    def __str__(self) -> str:
        return self.text if self.text is not None else f"{self.value:.12g}"


_ALLOWED = "use numbers, symbols, + - * / ** and ( )"


def parse_expression(text: str) -> ast.expr:
    """Return the checked syntax tree of an expression; raise ExpressionError for anything else."""
    if len(text) > _MAX_LENGTH:
        raise ExpressionError(
            text[:40] + "...", "expression_too_long", "longer than {limit} characters", limit=_MAX_LENGTH
        )
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(text, "not_an_expression", "not a formula", _ALLOWED) from error
    for node in ast.walk(tree):
        _check_node(text, node)
    return tree


def _check_node(text: str, node: ast.AST) -> None:
    """Raise ExpressionError for anything but numbers, names, signs and the allowed operators."""
    match node:
        case ast.Constant(value=value) if type(value) in (int, float):
            return
        case ast.BinOp(op=op) if type(op) in _OPERATORS:
            return
        case ast.UnaryOp(op=ast.UAdd() | ast.USub()) | ast.Name():
            return
        case ast.operator() | ast.unaryop() | ast.expr_context():
            return
    raise ExpressionError(text, "not_an_expression", "{node} is not allowed", _ALLOWED, node=type(node).__name__)


def symbols_of(tree: ast.expr) -> tuple[str, ...]:
    """Names of the symbols in an expression, each once, in order."""
    return tuple(dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name)))


def evaluate_expression(text: str, symbols: Mapping[str, float]) -> float:
    """Value of an expression, with the symbols' values given."""
    tree = parse_expression(text)
    unknown = [name for name in symbols_of(tree) if name not in symbols]
    if unknown:
        raise ExpressionError(
            text, "unknown_symbol", "unknown symbol {unknown}", "the file's [symbols] are: {symbols}",
            unknown=unknown, symbols=list(symbols) or "none",
        )  # fmt: skip
    try:
        value = _evaluate_node(tree, symbols)
    except (ArithmeticError, TypeError, RecursionError) as error:
        raise ExpressionError(text, "expression_not_finite", "it has no finite real value") from error
    if isinstance(value, complex) or not math.isfinite(value):
        raise ExpressionError(text, "expression_not_finite", "it has no finite real value")
    return value


def _evaluate_node(node: ast.expr, symbols: Mapping[str, float]) -> float:
    """Value of a checked syntax tree."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.Name(id=name):
            return float(symbols[name])
        case ast.UnaryOp(op=op, operand=operand):
            value = _evaluate_node(operand, symbols)
            return -value if isinstance(op, ast.USub) else value
        case ast.BinOp(left=left, op=op, right=right):
            x, y = _evaluate_node(left, symbols), _evaluate_node(right, symbols)
            match op:
                case ast.Add():
                    return x + y
                case ast.Sub():
                    return x - y
                case ast.Mult():
                    return x * y
                case ast.Div():
                    return x / y
                case ast.Pow():
                    return float(x**y)
    raise TypeError(type(node).__name__)
