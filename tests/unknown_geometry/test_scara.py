"""The four-joint SCARA arm of Ha, Ko & Kwon, with the misprints of its Lagrangian put right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp  # type: ignore[import-untyped]

from dynid import Motion, load_robot, model_parameters
from dynid.unknown_geometry.model_parameters import ModelParameters
from robots import random_motion

T = sp.Symbol("t")
Q = [sp.Function(f"q{i}")(T) for i in range(1, 5)]
V = [x.diff(T) for x in Q]
A = [x.diff(T) for x in V]
C2, S2 = sp.cos(Q[1]), sp.sin(Q[1])
G = sp.Rational(49, 5)


@pytest.fixture(scope="module")
def scara() -> ModelParameters:
    return model_parameters(load_robot("scara"), unknown=("A1", "A2"))


def functions(found: ModelParameters) -> list[sp.Expr]:
    names = {f"q{i + 1}": sp.Symbol(f"q{i + 1}") for i in range(4)} | {
        f"qd{i + 1}": sp.Symbol(f"v{i + 1}") for i in range(4)
    }
    return [sp.sympify(text.split(" = ")[1], locals=names) for text in found.functions]


def derivative(F: sp.Expr, letter: str, i: int) -> sp.Expr:
    """dF/dq_i or dF/dqd_i, along a motion."""
    slope = F.diff(sp.Symbol(f"{letter}{i + 1}"))
    places = {sp.Symbol(f"q{k + 1}"): Q[k] for k in range(4)} | {sp.Symbol(f"v{k + 1}"): V[k] for k in range(4)}
    return slope.subs(places)


def same(rows: Sequence[sp.Expr], expected: Sequence[sp.Expr]) -> bool:
    return all(sp.simplify(a - b) == 0 for a, b in zip(rows, expected, strict=True))


def test_the_functions_are_the_paper_s_with_3_7_corrected(scara: ModelParameters) -> None:
    assert scara.functions == (
        "F11 = 1/2*qd1**2",
        "F21 = 1/2*qd2**2 + qd1*qd2",
        "F22 = cos(q2)*qd1*qd2 + cos(q2)*qd1**2",
        "F23 = -sin(q2)*qd1*qd2 - sin(q2)*qd1**2",
        "F31 = 1/2*qd3**2 + 49/5*q3",
        "F41 = 1/2*qd4**2 + qd2*qd4 + qd1*qd4",
    )


def test_the_differential_form(scara: ModelParameters) -> None:
    F = functions(scara)
    U = [[derivative(f, "v", i).diff(T) - derivative(f, "q", i) for f in F] for i in range(4)]
    bend = 2 * A[0] + A[1]
    swing = 2 * V[0] * V[1] + V[1] ** 2
    assert same(U[0], [A[0], A[1], bend * C2 - swing * S2, -bend * S2 - swing * C2, sp.S(0), A[3]])
    row = [sp.S(0), A[0] + A[1], A[0] * C2 + V[0] ** 2 * S2, -A[0] * S2 + V[0] ** 2 * C2, sp.S(0), A[3]]
    assert same(U[1], row)
    assert same(U[2], [sp.S(0)] * 4 + [A[2] - G, sp.S(0)])
    assert same(U[3], [sp.S(0)] * 5 + [A[0] + A[1] + A[3]])


def test_the_integral_form(scara: ModelParameters) -> None:
    """[dF/dqd] less the integral of dF/dq."""
    F = functions(scara)
    ends = [[derivative(f, "v", i) for f in F] for i in range(4)]
    inside = [[derivative(f, "q", i) for f in F] for i in range(4)]
    bend = 2 * V[0] + V[1]
    assert same(ends[0], [V[0], V[1], bend * C2, -bend * S2, sp.S(0), V[3]])
    assert same(ends[1], [sp.S(0), V[0] + V[1], V[0] * C2, -V[0] * S2, sp.S(0), V[3]])
    assert same(ends[2], [sp.S(0)] * 4 + [V[2], sp.S(0)])
    assert same(ends[3], [sp.S(0)] * 5 + [V[0] + V[1] + V[3]])
    turn = V[0] * V[1] + V[0] ** 2
    assert same(inside[1], [sp.S(0), sp.S(0), -turn * S2, -turn * C2, sp.S(0), sp.S(0)])
    assert same(inside[2], [sp.S(0)] * 4 + [G, sp.S(0)])
    assert same(inside[0], [sp.S(0)] * 6)
    assert same(inside[3], [sp.S(0)] * 6)


def test_the_expressions_in_modified_frames(scara: ModelParameters) -> None:
    """The paper's frames sit at the far ends; at the near ends A1 and A2 move to the links after them."""
    assert scara.expressions == (
        "X11 = ZZ1 + ZZ2 + ZZ3 + ZZ4 + 2*A2*MX3 + A1**2*(M2 + M3 + M4) + A2**2*(M3 + M4)",
        "X21 = ZZ2 + ZZ3 + ZZ4 + 2*A2*MX3 + A2**2*(M3 + M4)",
        "X22 = A1*(MX2 + MX3) + A1*A2*(M3 + M4)",
        "X23 = A1*(MY2 + MY3)",
        "X31 = M3 + M4",
        "X41 = ZZ4",
    )
    assert scara.names == ("X11", "X21", "X22", "X23", "X31", "X41")
    assert scara.level == (1, 2, 2, 2, 3, 4)


def test_table_2_of_the_paper(scara: ModelParameters) -> None:
    np.testing.assert_allclose(scara.values(), [17.55, 7.55, 2.343, 0.176, 3.11, 0.35], rtol=1e-12)


def test_a_last_link_without_symmetry() -> None:
    robot = load_robot("scara")
    links = (*robot.links[:3], replace(robot.links[3], zero=frozenset()))
    assert model_parameters(replace(robot, links=links), unknown="d").blocks == (1, 3, 1, 5)
    assert model_parameters(replace(robot, links=links), unknown=()).blocks == (1, 3, 1, 3)


@pytest.mark.parametrize("model", ["torque", "momentum", "lagrangian_gradient"])
def test_the_kernel_writes_what_the_formulas_say(scara: ModelParameters, model: str) -> None:
    motion: Motion = random_motion(load_robot("scara"), samples=3)
    rows = scara.regressor(motion, model=model).matrix.reshape(3, 4, 6)
    F = functions(scara)
    for k in range(3):
        at = {A[i]: motion.a[k, i] for i in range(4)} | {V[i]: motion.v[k, i] for i in range(4)}
        still = {Q[i]: motion.q[k, i] for i in range(4)}
        for i in range(4):
            momentum = [derivative(f, "v", i) for f in F]
            slope = [derivative(f, "q", i) for f in F]
            exact = {
                "torque": [p.diff(T) - s for p, s in zip(momentum, slope, strict=True)],
                "momentum": momentum,
                "lagrangian_gradient": slope,
            }[model]
            values = [float(sp.sympify(x).subs(at).subs(still)) for x in exact]
            np.testing.assert_allclose(rows[k, i], values, atol=1e-12)
