"""Rows of functions that are sums of products of powers: tables of exponents, one kernel, no generated code.

A function is F(q, v) = sum of coefficient * T(q) * v_a v_b (or without velocities), T a product of letters and a letter
cos(q_j)^a sin(q_j)^b, or q_j^a of a prismatic joint.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynid.kernel.compiled import compiled, inlined, sine_cosine
from dynid.kernel.geometry import Integers
from dynid.robot.transform import Array

TORQUE, MOMENTUM, GRADIENT = 0, 1, 2
"""Rows d/dt dF/dv - dF/dq, dF/dv and dF/dq."""


class Monomials(NamedTuple):
    """Functions as tables.

    letter (l, 4): joint, whether it turns, the two exponents. Product k is made of the letters
    factor[start[k]:start[k + 1]] and is used by the terms first[k] to first[k + 1]; term (t, 3): function, then the
    joints a and b of the velocities, -1 for none; coefficient (t,).
    """

    letter: Integers
    start: Integers
    factor: Integers
    first: Integers
    term: Integers
    coefficient: Array


@inlined
def power(x: float, n: int) -> float:
    """x^n for n >= 0."""
    y = 1.0
    for _ in range(n):
        y *= x
    return y


@inlined
def write_letters(letter: Integers, q: Array, k: int, value: Array, slope: Array) -> None:
    """Values and derivatives of all letters at sample k."""
    for i in range(len(letter)):
        x = q[k, letter[i, 0]]
        a, b = letter[i, 2], letter[i, 3]
        if letter[i, 1] == 0:
            value[i] = power(x, a)
            slope[i] = a * power(x, a - 1) if a > 0 else 0.0
        else:
            s, c = sine_cosine(x)
            value[i] = power(c, a) * power(s, b)
            down = b * power(c, a + 1) * power(s, b - 1) if b > 0 else 0.0
            slope[i] = down - (a * power(c, a - 1) * power(s, b + 1) if a > 0 else 0.0)


@compiled
def write_monomial_rows(
    tables: Monomials, mode: int, q: Array, v: Array, a: Array, start: int, stop: int, out: Array
) -> None:
    """Write rows of the samples start to stop into out (N, n, functions); a is read for torques only."""
    letters, longest = len(tables.letter), 1
    for k in range(len(tables.start) - 1):
        longest = max(longest, tables.start[k + 1] - tables.start[k])
    value, slope = np.empty(letters), np.empty(letters)
    before, gradient = np.empty(longest + 1), np.empty(longest)
    joint = np.empty(longest, dtype=np.int64)
    for sample in range(start, stop):
        out[sample] = 0.0
        write_letters(tables.letter, q, sample, value, slope)
        for k in range(len(tables.start) - 1):
            first, width = tables.start[k], tables.start[k + 1] - tables.start[k]
            before[0] = 1.0
            for f in range(width):
                before[f + 1] = before[f] * value[tables.factor[first + f]]
            T, after, rate = before[width], 1.0, 0.0
            for f in range(width - 1, -1, -1):
                i = tables.factor[first + f]
                gradient[f] = before[f] * after * slope[i]
                after *= value[i]
                joint[f] = tables.letter[i, 0]
                rate += gradient[f] * v[sample, joint[f]]
            for t in range(tables.first[k], tables.first[k + 1]):
                function, i, j = tables.term[t, 0], tables.term[t, 1], tables.term[t, 2]
                x = tables.coefficient[t]
                speed = 1.0 if i < 0 else v[sample, i] * v[sample, j]
                if mode == MOMENTUM and i >= 0:
                    out[sample, i, function] += x * T * v[sample, j]
                    out[sample, j, function] += x * T * v[sample, i]
                elif mode == TORQUE and i >= 0:
                    out[sample, i, function] += x * (T * a[sample, j] + rate * v[sample, j])
                    out[sample, j, function] += x * (T * a[sample, i] + rate * v[sample, i])
                if mode == MOMENTUM:
                    continue
                sign = x if mode == GRADIENT else -x
                for f in range(width):
                    out[sample, joint[f], function] += sign * gradient[f] * speed
