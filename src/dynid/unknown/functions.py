"""The functions of the model parameters as tables of exponents, and their rows for N samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dynid.errors import ModelError
from dynid.kernel.monomials import GRADIENT, MOMENTUM, TORQUE, Monomials, write_monomial_rows
from dynid.kernel.threads import share_samples
from dynid.robot.motion import Motion
from dynid.robot.transform import Array
from dynid.unknown.bilinear import Exponents
from dynid.unknown.lagrangian import Generators
from dynid.unknown.levels import joint_of

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

    def write(self, kind: str, motion: Motion, out: Array) -> None:
        """Fill out (N, n, functions) with U ("torque"), dF/dv ("momentum") or dF/dq ("lagrangian_gradient").

        U = d/dt dF/dv - dF/dq is the differential form (Ha, Ko & Kwon, eq. 2.20); the other two are the pieces of
        the integral form, [dF/dv] - integral of dF/dq. Accelerations are read for "torque" only.
        """
        if kind not in _MODES:
            raise ModelError(f"there are no rows '{kind}'; there are {', '.join(_MODES)}")
        if motion.q.shape[1] != self.n:
            raise ModelError(f"the functions have {self.n} joints, the motion has {motion.q.shape[1]}")
        shape = (len(motion), self.n, self.count)
        if out.shape != shape or out.dtype != np.float64 or not out.flags.c_contiguous:
            raise ModelError(f"rows go into a contiguous array of floats of shape {shape}, got {out.shape} {out.dtype}")
        mode, flat = _MODES[kind], out.reshape(-1)
        share_samples(
            len(motion),
            lambda start, stop: write_monomial_rows(
                self.tables, mode, motion.q, motion.v, motion.a, start, stop, self.count, flat
            ),
        )


def function_tables(
    names: Generators, motions: Sequence[Exponents], functions: Sequence[dict[int, Fraction]], n: int
) -> FunctionTables:
    """Tables of functions that are given by coefficients of motion products."""
    joints = [j - 1 for j in joint_of(names)]
    letters: dict[tuple[int, int, int, int], int] = {}
    products: dict[tuple[int, ...], list[tuple[int, int, int, float]]] = {}
    support = np.zeros((n, len(functions)), dtype=np.bool_)
    for r, function in enumerate(functions):
        for k, coefficient in function.items():
            rates, spelled = _split(names, motions[k], joints)
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


def _split(
    names: Generators, motion: Exponents, joints: Sequence[int]
) -> tuple[tuple[int, ...], list[tuple[int, int, int, int]]]:
    """Joints of a product's two velocities (or none), and its letters: joint, whether it turns, exponents."""
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
