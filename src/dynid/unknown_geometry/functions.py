"""The functions of the model parameters as tables of exponents, and their rows for N samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynid.dynamics.kernels.compiled import compiled, inlined
from dynid.dynamics.kernels.geometry import Integers
from dynid.dynamics.kernels.spatial_algebra import sine_cosine
from dynid.dynamics.kernels.threads import run_on_sample_ranges
from dynid.errors import ModelError
from dynid.robot.motion import Motion
from dynid.robot.transform import Array
from dynid.unknown_geometry.bilinear import Exponents, joints_of_variables
from dynid.unknown_geometry.lagrangian import Generators

# Rows of functions that are sums of products of powers: tables of exponents, one kernel, no generated code.
#
# A function is F(q, v) = sum of coefficient * T(q) * v_a v_b (or without velocities), T a product of letters and a
# letter cos(q_j)^a sin(q_j)^b, or q_j^a of a prismatic joint.


TORQUE, MOMENTUM, GRADIENT = 0, 1, 2
"""Rows d/dt dF/dv - dF/dq, dF/dv and dF/dq."""


BLOCK = 16
"""Samples side by side."""


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


class Workspace(NamedTuple):
    """Memory of a block of samples, side by side.

    value, slope (letters * BLOCK,) of the letters; vs, accelerations (n * BLOCK,). Of a product with f factors: before
    ((f + 1) * BLOCK,), of the factors before each, its value last; after (BLOCK,), of those behind; gradient
    (f * BLOCK,), its derivative by each factor's joint; rate (BLOCK,), dT/dt. rows (n * functions * BLOCK,).
    """

    value: Array
    slope: Array
    vs: Array
    accelerations: Array
    before: Array
    after: Array
    gradient: Array
    rate: Array
    rows: Array


@inlined
def integer_power(x: float, n: int) -> float:
    """Power x^n of a number for whole n >= 0."""
    y = 1.0
    for _ in range(n):
        y *= x
    return y


@inlined
def write_factor_values(letter: Integers, q: Array, first: int, last: int, value: Array, derivative: Array) -> None:
    """Write values and derivatives (letters * BLOCK,) of all factors at the samples from first on, at most last."""
    for i in range(len(letter)):
        a, b = letter[i, 2], letter[i, 3]
        for k in range(BLOCK):
            x = q[min(first + k, last), letter[i, 0]]
            if letter[i, 1] == 0:
                value[i * BLOCK + k] = integer_power(x, a)
                derivative[i * BLOCK + k] = a * integer_power(x, a - 1) if a > 0 else 0.0
            else:
                s, c = sine_cosine(x)
                value[i * BLOCK + k] = integer_power(c, a) * integer_power(s, b)
                down = b * integer_power(c, a + 1) * integer_power(s, b - 1) if b > 0 else 0.0
                derivative[i * BLOCK + k] = down - (
                    a * integer_power(c, a - 1) * integer_power(s, b + 1) if a > 0 else 0.0
                )


@inlined
def write_product_of_powers(tables: Monomials, product: int, work: Workspace) -> None:
    """Write a product T: before ends with its value, gradient has its derivative by each factor's joint, rate dT/dt."""
    value, slope, vs, _, before, after, gradient, rate, _ = work
    begin, factors = tables.start[product], tables.start[product + 1] - tables.start[product]
    for k in range(BLOCK):
        before[k], after[k], rate[k] = 1.0, 1.0, 0.0
    for f in range(factors):
        at = tables.factor[begin + f] * BLOCK
        for k in range(BLOCK):
            before[(f + 1) * BLOCK + k] = before[f * BLOCK + k] * value[at + k]
    for f in range(factors - 1, -1, -1):
        at = tables.factor[begin + f] * BLOCK
        joint = tables.letter[tables.factor[begin + f], 0] * BLOCK
        for k in range(BLOCK):
            x = before[f * BLOCK + k] * after[k] * slope[at + k]
            gradient[f * BLOCK + k] = x
            after[k] *= value[at + k]
            rate[k] += x * vs[joint + k]


@inlined
def add_momentum(x: float, at: int, j: int, row: int, work: Workspace) -> None:
    """Add x T v_j to a row; T stands at `at` of before."""
    T, vs, rows = work.before, work.vs, work.rows
    for k in range(BLOCK):
        rows[row + k] += x * T[at + k] * vs[j * BLOCK + k]


@inlined
def add_momentum_rate(x: float, at: int, j: int, row: int, work: Workspace) -> None:
    """Add d/dt (x T v_j) to a row; T stands at `at` of before."""
    _, _, vs, accelerations, T, _, _, rate, rows = work
    for k in range(BLOCK):
        rows[row + k] += x * (T[at + k] * accelerations[j * BLOCK + k] + rate[k] * vs[j * BLOCK + k])


@compiled
def write_monomial_rows(tables: Monomials, mode: int, q: Array, v: Array, a: Array, out: Array) -> None:
    """Write rows into out (N, n, width), width functions; a is read for torques.

    Samples go in blocks side by side, so that every inner loop is a loop over a block.
    """
    N, n, width = out.shape
    flat, longest = out.reshape(-1), 1
    for product in range(len(tables.start) - 1):
        longest = max(longest, tables.start[product + 1] - tables.start[product])
    value, slope = np.empty(len(tables.letter) * BLOCK), np.empty(len(tables.letter) * BLOCK)
    before, gradient = np.empty((longest + 1) * BLOCK), np.empty(longest * BLOCK)
    after, rate, speed = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    vs, accelerations = np.empty(n * BLOCK), np.empty(n * BLOCK)
    rows = np.empty(n * width * BLOCK)
    work = Workspace(value, slope, vs, accelerations, before, after, gradient, rate, rows)
    sign = 1.0 if mode == GRADIENT else -1.0
    for first in range(0, N, BLOCK):
        rows[:] = 0.0
        for j in range(n):
            for k in range(BLOCK):
                vs[j * BLOCK + k] = v[min(first + k, N - 1), j]
                accelerations[j * BLOCK + k] = a[min(first + k, N - 1), j]
        write_factor_values(tables.letter, q, first, N - 1, value, slope)
        for product in range(len(tables.start) - 1):
            write_product_of_powers(tables, product, work)
            begin, factors = tables.start[product], tables.start[product + 1] - tables.start[product]
            for t in range(tables.first[product], tables.first[product + 1]):
                function, i, j = tables.term[t, 0], tables.term[t, 1], tables.term[t, 2]
                x, T = tables.coefficient[t], factors * BLOCK
                row_i, row_j = (i * width + function) * BLOCK, (j * width + function) * BLOCK
                if mode == MOMENTUM:
                    if i >= 0:
                        add_momentum(x, T, j, row_i, work)
                        add_momentum(x, T, i, row_j, work)
                    continue
                if mode == TORQUE and i >= 0:
                    add_momentum_rate(x, T, j, row_i, work)
                    add_momentum_rate(x, T, i, row_j, work)
                for k in range(BLOCK):
                    speed[k] = sign * x * (vs[i * BLOCK + k] * vs[j * BLOCK + k] if i >= 0 else 1.0)
                for f in range(factors):
                    at = (tables.letter[tables.factor[begin + f], 0] * width + function) * BLOCK
                    for k in range(BLOCK):
                        rows[at + k] += gradient[f * BLOCK + k] * speed[k]
        for k in range(min(BLOCK, N - first)):
            at = (first + k) * n * width
            for i in range(n * width):
                flat[at + i] = rows[i * BLOCK + k]


_MODES = {"torque": TORQUE, "momentum": MOMENTUM, "lagrangian_gradient": GRADIENT}


@dataclass(frozen=True, slots=True, eq=False)
class FunctionTables:
    """Functions F(q, v) of n joints, and the rows that they make.

    support (n, functions): where rows can be nonzero, the same for all kinds of rows.
    """

    n: int
    count: int
    tables: Monomials
    support: NDArray[np.bool_]

    def write_rows(self, kind: str, motion: Motion, out: Array) -> None:
        """Write U ("torque"), dF/dv ("momentum") or dF/dq ("lagrangian_gradient") into out (N, n, functions).

        U = d/dt dF/dv - dF/dq is the differential form (Ha, Ko & Kwon, eq. 2.20); the other two are the pieces of
        the integral form, [dF/dv] - integral of dF/dq. Accelerations are read for "torque" only.
        """
        if kind not in _MODES:
            raise ModelError(
                "unknown_rows", "there are no rows '{rows}'", "there are {kinds}", rows=kind, kinds=list(_MODES),
            )  # fmt: skip
        if motion.q.shape[1] != self.n:
            raise ModelError(
                "joint_count_mismatch", "the functions have {expected} joints, the motion has {columns}",
                expected=self.n, columns=motion.q.shape[1],
            )  # fmt: skip
        shape = (len(motion), self.n, self.count)
        if out.shape != shape or out.dtype != np.float64 or not out.flags.c_contiguous:
            raise ModelError(
                "wrong_shape", "rows go into a contiguous array of floats of shape {expected}, got {shape} {dtype}",
                expected=shape, shape=out.shape, dtype=out.dtype,
            )  # fmt: skip
        mode, q, v, a = _MODES[kind], motion.q, motion.v, motion.a
        run_on_sample_ranges(
            len(motion),
            lambda i, k: write_monomial_rows(self.tables, mode, q[i:k], v[i:k], a[i:k], out[i:k]),
        )


def build_function_tables(
    names: Generators, motions: Sequence[Exponents], functions: Sequence[dict[int, Fraction]], n: int
) -> FunctionTables:
    """Tables of functions that are given by coefficients of motion products."""
    joints = [j - 1 for j in joints_of_variables(names)]
    letters: dict[tuple[int, int, int, int], int] = {}
    products: dict[tuple[int, ...], list[tuple[int, int, int, float]]] = {}
    support = np.zeros((n, len(functions)), dtype=np.bool_)
    for r, function in enumerate(functions):
        for k, coefficient in function.items():
            rates, spelled = _split_product(names, motions[k], joints)
            word = tuple(letters.setdefault(letter, len(letters)) for letter in spelled)
            a, b = rates if rates else (-1, -1)
            products.setdefault(word, []).append((r, a, b, float(coefficient)))
            for i in (*rates, *(letter[0] for letter in spelled)):
                support[i, r] = True
    words = list(products)
    terms = [term for word in words for term in products[word]]
    tables = Monomials(
        letter=np.array(list(letters), dtype=np.int64).reshape(-1, 4),
        start=np.cumsum([0, *map(len, words)]).astype(np.int64),
        factor=np.array([i for word in words for i in word], dtype=np.int64),
        first=np.cumsum([0, *(len(products[word]) for word in words)]).astype(np.int64),
        term=np.array([term[:3] for term in terms], dtype=np.int64).reshape(-1, 3),
        coefficient=np.array([term[3] for term in terms]),
    )
    return FunctionTables(n, len(functions), tables, support)


def _split_product(
    names: Generators, motion: Exponents, joints: Sequence[int]
) -> tuple[tuple[int, ...], list[tuple[int, int, int, int]]]:
    """Joints of a product's two velocities (or none), and its factors: joint, whether it turns, exponents."""
    rates: list[int] = []
    powers: dict[int, list[int]] = {}
    turns: dict[int, int] = {}
    for name, joint, n in zip(names.motion, joints, motion, strict=True):
        if not n:
            continue
        if name[0] == "v":
            rates += [joint] * n
        else:
            turns[joint] = int(name[0] != "q")
            powers.setdefault(joint, [0, 0])[int(name[0] == "s")] = n
    return tuple(rates), [(joint, turns[joint], a, b) for joint, (a, b) in powers.items()]
