"""Expressions: zeros vanish, equal parts are shared, and the sum of operations is that of the code."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dynid.exports.c_functions import Graph, Node

OPERATIONS = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}


def value(g: Graph, node: Node, known: dict[str, float]) -> float:
    operation, operands, content = g.nodes[node]
    below = [value(g, x, known) for x in operands]
    if operation == "constant":
        return float(content)
    if operation == "variable":
        return known[str(content)]
    if operation == "neg":
        return -below[0]
    if operation == "sign":
        return float(np.sign(below[0]))
    return float(OPERATIONS[operation](*below) if operation in OPERATIONS else getattr(math, operation)(*below))


@pytest.mark.parametrize("seed", range(20))
def test_random_expressions_keep_their_value(seed: int) -> None:
    rng = np.random.default_rng(seed)
    g, known = Graph(), {"x": 0.7, "y": -1.3, "z": 0.2}
    pool = [(g.variable(name), x) for name, x in known.items()]
    pool += [(g.constant(c), c) for c in (0.0, 1.0, -1.0, 2.5, -0.3)]
    for _ in range(60):
        (a, x), (b, y) = (pool[int(rng.integers(len(pool)))] for _ in range(2))
        match int(rng.integers(5)):
            case 0:
                pool.append((g.add(a, b), x + y))
            case 1:
                pool.append((g.sub(a, b), x - y))
            case 2:
                pool.append((g.mul(a, b), x * y) if abs(x * y) < 1e3 else (g.neg(a), -x))
            case 3:
                pool.append((g.neg(a), -x))
            case _:
                name = str(rng.choice(["sin", "cos", "tanh", "fabs"]))
                pool.append((g.call_function(name, a), getattr(math, name)(x)))
    for node, expected in pool:
        assert value(g, node, known) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_zeros_ones_and_equal_parts_cost_nothing() -> None:
    g = Graph()
    x, y, zero, one = g.variable("x"), g.variable("y"), g.constant(0.0), g.constant(1.0)
    assert g.mul(x, zero) == zero
    assert g.mul(x, one) == g.add(x, zero) == g.neg(g.neg(x)) == x
    assert g.sub(x, x) == zero
    assert g.add(x, y) == g.add(y, x)
    assert g.mul(g.neg(x), g.neg(y)) == g.mul(y, x)
    assert g.neg(g.sub(x, y)) == g.sub(y, x)
    assert g.mul(g.constant(2.0), g.mul(g.constant(3.0), x)) == g.mul(g.constant(6.0), x)
    assert g.call_function("sin", g.neg(x)) == g.neg(g.call_function("sin", x))
    shared = g.mul(x, y)
    cost = g.cost([g.add(shared, x), g.sub(y, shared)])
    assert (cost.multiplications, cost.additions, cost.calls) == (1, 2, 0)


def test_what_is_no_number_is_no_constant() -> None:
    with pytest.raises(ValueError, match="not a finite constant"):
        Graph().constant(math.nan)
