"""Expressions in symbols: values, and everything that must not be one."""

from __future__ import annotations

import pytest

from dynid.errors import ExpressionError
from dynid.robot.expression import evaluate_expression


@pytest.mark.parametrize(
    ("text", "value"),
    [("D3", 0.5), ("-D3", -0.5), ("2*(D3 + R3)/4", 0.35), ("D3**2 - 1", -0.75), (" 1.5e-1 ", 0.15), ("+D3", 0.5)],
)
def test_values(text: str, value: float) -> None:
    assert evaluate_expression(text, {"D3": 0.5, "R3": 0.2}) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "D3.real",
        "D3[0]",
        "lambda: 1",
        "[1, 2]",
        "'a'",
        "1j",
        "True",
        "D3 if D3 else 1",
        "D3 < 1",
        "D3 // 2",
        "D3 % 2",
        "D3 @ D3",
        "~D3",
        "not D3",
        "(yield)",
        "a := 1",
        "f'{D3}'",
        "",
        "D3 +",
        "(" * 300 + "1" + ")" * 300,
        "1" * 600,
        "D3 / 0",
        "(-D3) ** 0.5",
        "9**9**9**9",
        "1e400",
        "X9",
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        evaluate_expression(text, {"D3": 0.5})
