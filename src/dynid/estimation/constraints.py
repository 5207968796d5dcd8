"""Known and tied parameters as equations of the unknowns, also where they are standard parameters that regroup."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

import numpy as np
import scipy.linalg

from dynid.errors import IdentificationError
from dynid.estimation.equation import Equation
from dynid.estimation.least_squares import Constraints
from dynid.estimation.unknowns import Unknowns
from dynid.robot.transform import Array


def constraints_of(
    equation: Equation,
    unknowns: Unknowns,
    known: Mapping[str, float],
    tied: Sequence[tuple[str, str]],
    declared: Mapping[str, float],
) -> tuple[Constraints | None, tuple[str, ...]]:
    """Equations of the unknowns, and notes on what says nothing about them; declared: known where nothing else is said.

    Everything is first written on standard parameters X (and friction). Data see XB = M X only, so a statement
    C X = d counts as far as it is free of the null space N of M: combinations l'C with l'C N = 0.
    """
    mute = [name for name in declared if name not in known]
    known = {**known, **{name: declared[name] for name in mute}}
    if not known and not tied:
        return None, ()
    base = equation.base
    columns = list(base.columns)
    others = [name for name in unknowns.names if name not in base.names]
    everything = [*columns, *others]
    C = np.zeros((len(known) + len(tied), len(everything)))
    d = np.zeros(len(C))
    for row, (name, value) in enumerate(known.items()):
        C[row, _place(name, everything)] = 1.0
        d[row] = _finite(name, value)
    for row, (left, right) in enumerate(tied, start=len(known)):
        C[row, _place(left, everything)] += 1.0
        C[row, _place(right, everything)] -= 1.0
    M = np.zeros((len(unknowns), len(everything)))
    index = {name: k for k, name in enumerate(unknowns.names)}
    for row, name in enumerate(base.names):
        if name in index:
            M[index[name], : len(columns)] = base.regrouping.matrix[row]
    for name in others:
        M[index[name], everything.index(name)] = 1.0
    spoken = ["" if name in mute else name for name in known]
    return _visible(C, d, M, [*spoken, *(f"{a} = {b}" for a, b in tied)])


def _visible(C: Array, d: Array, M: Array, spoken: list[str]) -> tuple[Constraints | None, tuple[str, ...]]:
    silent = tuple(
        f"'{text}' alone says nothing about what the data can tell: the parameter shows only in sums with others"
        for text, row in zip(spoken, C, strict=True)
        if text and not _in_row_space(row, M)
    )
    N = scipy.linalg.null_space(M)
    hidden = C @ N
    hidden[np.abs(hidden) < 1e-10] = 0.0  # rounding: a null space is sought relative to the largest entry
    combine = scipy.linalg.null_space(hidden.T).T if hidden.any() else np.eye(len(C))
    if not len(combine):
        return None, silent
    gamma = np.linalg.lstsq(M.T, (combine @ C).T, rcond=None)[0].T
    return Constraints(np.asarray(gamma), np.asarray(combine @ d)), silent


def _in_row_space(row: Array, M: Array) -> bool:
    coefficients, *_ = np.linalg.lstsq(M.T, row, rcond=None)
    return bool(np.linalg.norm(M.T @ coefficients - row) < 1e-8)


def _place(name: str, everything: list[str]) -> int:
    if name not in everything:
        near = difflib.get_close_matches(name, everything, n=3) or everything[:8]
        raise IdentificationError(f"there is no parameter '{name}' here; near it are {', '.join(near)}")
    return everything.index(name)


def _finite(name: str, value: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise IdentificationError(f"the known value of '{name}' must be a finite number, got {value!r}")
    return number
