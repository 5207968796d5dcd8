"""Coordinates of a link in which its prior is the unit matrix: P = L S L', P0 = L L' being the prior's pseudo-inertia.

A body can have the ten parameters if and only if its pseudo-inertia P is positive definite, so if S is. S is written as
svec(S): upper triangle column by column, off-diagonal elements times sqrt(2), so that the Euclidean norm of svec(S - 1)
is the Frobenius norm of L^-1 (P - P0) L^-T. That distance depends neither on units nor on the frame of the link.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from dynid.robot.inertia import from_pseudo_inertia, pseudo_inertia
from dynid.robot.transform import Array, freeze

UPPER = tuple((i, j) for j in range(4) for i in range(j + 1))
"""Elements of a symmetric (4, 4) matrix in the order of svec, which is Clarabel's."""

UNIT = np.array([1.0 if i == j else 0.0 for i, j in UPPER])
"""svec of the unit matrix."""


def svec(S: Array) -> Array:
    """Ten numbers of a symmetric (4, 4) matrix."""
    return np.array([S[i, j] * (1.0 if i == j else np.sqrt(2.0)) for i, j in UPPER])


def smat(x: Array) -> Array:
    """Symmetric (4, 4) matrix of its ten numbers."""
    S = np.empty((4, 4))
    for value, (i, j) in zip(x, UPPER, strict=True):
        S[i, j] = S[j, i] = value if i == j else value / np.sqrt(2.0)
    return S


def link_basis(prior: Array) -> Array:
    """Matrix T (10, 10): standard parameters = T svec(S), around a prior's ten parameters that a body can have."""
    L = np.linalg.cholesky(pseudo_inertia(prior))
    return np.asarray(_parameters_of_matrix() @ np.kron(L, L) @ _matrix_of_svec())


def smallest_share(x: Array, prior: Array) -> tuple[float, Array]:
    """Smallest eigenvalue of S for ten parameters x, and the direction w (4,) with w'Pw / w'P0w equal to it."""
    L = np.linalg.cholesky(pseudo_inertia(prior))
    S = np.linalg.solve(L, np.linalg.solve(L, pseudo_inertia(x)).T)
    values, vectors = np.linalg.eigh(0.5 * (S + S.T))
    return float(values[0]), np.asarray(np.linalg.solve(L.T, vectors[:, 0]))


@cache
def _matrix_of_svec() -> Array:
    return freeze(np.column_stack([smat(unit).ravel() for unit in np.eye(10)]))


@cache
def _parameters_of_matrix() -> Array:
    """Linear map (10, 16) from a symmetric pseudo-inertia, row by row, to standard parameters."""
    symmetric = [0.5 * (unit.reshape(4, 4) + unit.reshape(4, 4).T) for unit in np.eye(16)]
    return freeze(np.column_stack([from_pseudo_inertia(P) for P in symmetric]))
