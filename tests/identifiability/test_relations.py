"""Symbolic coefficients have the values of the numbers, and relations read as in the papers, plain and in LaTeX."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sympy import simplify  # type: ignore[import-untyped]

from dynid import Robot, load_robot
from dynid.identifiability.relations import Regrouping, coefficients_by_kept_column, relations, relations_latex
from dynid.identifiability.rules import find_by_rules
from dynid.identifiability.symbolic_numbers import Form
from dynid.robot.transform import freeze
from robots import parameters
from rule_tables import NONE, RIGHT, TILTED, as_polynomial, row, table, texts


def value_of(form: Form, values: dict[str, float]) -> float:
    """Value of a form from its text."""
    return float(eval(str(form), {"__builtins__": {}, "cos": math.cos, "sin": math.sin, **values}))


def test_forms_have_the_values_of_the_numbers() -> None:
    rng = np.random.default_rng(23)
    for _ in range(25):
        rows, values = [], {}
        for k in range(int(rng.integers(2, 6))):
            line: dict[str, Any] = {"type": str(rng.choice(["revolute", "prismatic", "fixed"], p=[0.5, 0.3, 0.2]))}
            for letter in ("gamma", "b", "alpha", "d", "theta", "r"):
                if rng.random() < 0.4:
                    line[letter] = f"{'-' if rng.random() < 0.3 else ''}{letter[0].upper()}{k}"
                    values[f"{letter[0].upper()}{k}"] = round(rng.uniform(0.2, 1.2), 2)
            rows.append(line)
        rows[0]["type"] = "revolute"
        robot = Robot.from_mdh(rows, gravity=NONE if rng.random() < 0.4 else TILTED, symbols=values)
        plain, symbolic = find_by_rules(robot), find_by_rules(robot, symbolic=True)
        assert plain.regrouping.kept == symbolic.regrouping.kept
        assert_allclose(symbolic.regrouping.matrix, plain.regrouping.matrix, rtol=1e-12, atol=1e-14)
        for kept, coefficients in symbolic.coefficients.items():
            for column, form in coefficients.items():
                assert isinstance(form, Form)
                expected = plain.coefficients[kept].get(column, 0.0)
                assert value_of(form, values) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_expressions_of_a_table_become_polynomials() -> None:
    robot = table(row(), row(alpha=RIGHT, d="(L1 - 2*L2)/3", r="L1**-1"), L1=0.9, L2=0.1)
    text = next(t for t in texts(robot, symbolic=True) if t.startswith("ZZR1"))
    name, right = as_polynomial(text)
    expected = as_polynomial("ZZR1 = ZZ1 + YY2 + 2*MZ2/L1 + (1/L1**2 + (L1 - 2*L2)**2/9)*M2")[1]
    assert name == "ZZR1"
    assert simplify(right - expected) == 0


def test_powers_that_are_no_integers_stay_as_they_are_written() -> None:
    robot = table(row(), row(alpha=RIGHT, d="L1**0.5"), L1=0.9)
    assert "ZZR1 = ZZ1 + YY2 + (L1**0.5)**2*M2" in texts(robot, symbolic=True)


def test_a_cosine_keeps_its_square_where_that_is_shorter() -> None:
    robot = table(row(), row(alpha="A2"), A2=0.4)
    assert texts(robot, symbolic=True)[0] == "ZZR1 = ZZ1 + sin(A2)**2*YY2"


def test_numbers_in_a_symbolic_table_print_as_numbers() -> None:
    robot = table(row(), row(alpha=0.4, d=0.5))
    assert texts(robot, symbolic=True)[0] == "ZZR1 = ZZ1 + sin(0.4)**2*YY2 + 0.25*M2"


def test_float_coefficients_print_with_six_digits() -> None:
    kept, names = (0, 1), parameters("ZZ1", "ZZ:link1", "YY2", "M4", "M:arm_2")
    rows: dict[int, dict[int, float]] = {0: {0: 1.0, 2: -1.0, 3: 0.49}, 1: {1: 1.0, 2: 1.0, 3: -1 / 3, 4: -1 / 3}}
    assert relations(kept, rows, names) == (
        "ZZR1 = ZZ1 - YY2 + 0.49*M4",
        "ZZR:link1 = ZZ:link1 + YY2 - 0.333333*(M4 + M:arm_2)",
    )


def test_a_plain_regrouping_prints_without_rounding_dust() -> None:
    matrix = np.array([[1.0, 0.5, 1e-14], [0.0, 0.0, 1.0]])
    regrouping = Regrouping((0, 2), freeze(matrix))
    names = parameters("ZZ1", "YY2", "ZZ2")
    assert relations(regrouping.kept, coefficients_by_kept_column(regrouping), names) == ("ZZR1 = ZZ1 + 0.5*YY2",)


def test_latex_has_indices_and_powers() -> None:
    robot = load_robot("puma560")
    found = find_by_rules(robot, symbolic=True)
    latex = relations_latex(found.regrouping.kept, found.coefficients, robot.parameter_names)
    assert latex[1] == (
        r"\mathit{XXR}_{2} = \mathit{XX}_{2} - \mathit{YY}_{2} - D_{3}^{2} "
        r"(\mathit{M}_{3} + \mathit{M}_{4} + \mathit{M}_{5} + \mathit{M}_{6})"
    )
    plain = relations_latex((0,), {0: {0: 1.0, 1: 2e-7}}, parameters("ZZ:link_1", "M:arm"))
    assert plain == (
        r"\mathit{ZZR}_{\mathrm{link\_1}} = \mathit{ZZ}_{\mathrm{link\_1}} + 2 \cdot 10^{-7} \mathit{M}_{\mathrm{arm}}",
    )


def test_fractions_print_as_fractions() -> None:
    robot = table(row(), row(alpha=RIGHT, r="L/3"), L=0.9)
    assert "ZZR1 = ZZ1 + YY2 + 2/3*L*MZ2 + 1/9*L**2*M2" in texts(robot, symbolic=True)
