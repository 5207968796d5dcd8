"""Coordinates of a link in which its prior is the unit matrix: P = L S L', P0 = L L' being the prior's pseudo-inertia.

A body can have the ten parameters if and only if its pseudo-inertia P is positive definite, so if S is. S is written as
svec(S): upper triangle column by column, off-diagonal elements times sqrt(2), so that the Euclidean norm of svec(S - 1)
is the Frobenius norm of L^-1 (P - P0) L^-T. That distance depends neither on units nor on the frame of the link.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sparse

from dynid.robot.inertia import from_pseudo_inertia, pseudo_inertia
from dynid.robot.transform import Array, freeze

UPPER = tuple((i, j) for j in range(4) for i in range(j + 1))
"""Elements of a symmetric (4, 4) matrix in the order of svec, which is Clarabel's."""

UNIT = np.array([1.0 if i == j else 0.0 for i, j in UPPER])
"""svec of the unit matrix."""


def symmetric_from_svec(x: Array) -> Array:
    """Symmetric (4, 4) matrix from its svec of ten numbers."""
    S = np.empty((4, 4))
    for value, (i, j) in zip(x, UPPER, strict=True):
        S[i, j] = S[j, i] = value if i == j else value / np.sqrt(2.0)
    return S


def link_coordinate_basis(prior: Array) -> Array:
    """Matrix T (10, 10): standard parameters = T svec(S), around a prior's ten parameters that a body can have."""
    L = np.linalg.cholesky(pseudo_inertia(prior))
    return np.asarray(_parameters_of_pseudo_inertia() @ np.kron(L, L) @ _matrix_of_svec())


def smallest_relative_eigenvalue(x: Array, prior: Array) -> tuple[float, Array]:
    """Smallest eigenvalue of S for ten parameters x, and the direction w (4,) with w'Pw / w'P0w equal to it."""
    L = np.linalg.cholesky(pseudo_inertia(prior))
    S = np.linalg.solve(L, np.linalg.solve(L, pseudo_inertia(x)).T)
    values, vectors = np.linalg.eigh(0.5 * (S + S.T))
    return float(values[0]), np.asarray(np.linalg.solve(L.T, vectors[:, 0]))


@cache
def _matrix_of_svec() -> Array:
    """Matrix (16, 10) from svec to the symmetric (4, 4) matrix."""
    return freeze(np.column_stack([symmetric_from_svec(unit).ravel() for unit in np.eye(10)]))


def log_det_divergence(x: Array, margin: float) -> float:
    """Sum of tr(T) - log det(T) - 4 over links, T = (S - margin) / (1 - margin); inf where an S is no body's.

    It is 0 at the prior and grows without bounds both for light or thin bodies and for heavy or wide ones.
    """
    T = _scaled_matrices(x, margin)
    try:
        L = np.linalg.cholesky(T)
    except np.linalg.LinAlgError:
        return float("inf")
    return float(
        np.trace(T, axis1=1, axis2=2).sum() - 2.0 * np.log(np.diagonal(L, axis1=1, axis2=2)).sum() - x.size / 2.5
    )


def log_det_roots(x: Array, margin: float) -> tuple[Array, Array]:
    """Blocks K (links, 10, 10) and q (10 links,) of `log_det_divergence`: its Hessian is K'K, its gradient K'q.

    With T = L L' these are svec of L^-1 X L^-T for any X, and svec(L'L - 1).
    """
    Q, L = _matrix_of_svec(), np.linalg.cholesky(_scaled_matrices(x, margin))
    inverse = np.linalg.inv(L)
    products = np.einsum("nij,nkl->nikjl", inverse, inverse).reshape(-1, 16, 16)
    q = (np.swapaxes(L, 1, 2) @ L - np.eye(4)).reshape(-1, 16) @ Q
    return np.asarray(Q.T @ products @ Q / (1.0 - margin)), np.asarray(q.ravel())


def _scaled_matrices(x: Array, margin: float) -> Array:
    """Matrices (S - margin) / (1 - margin) of all links, (links, 4, 4)."""
    S = (x.reshape(-1, 10) @ _matrix_of_svec().T).reshape(-1, 4, 4)
    return np.asarray((S - margin * np.eye(4)) / (1.0 - margin))


@cache
def _parameters_of_pseudo_inertia() -> Array:
    """Matrix (10, 16) from a symmetric pseudo-inertia, row by row, to standard parameters."""
    symmetric = [0.5 * (unit.reshape(4, 4) + unit.reshape(4, 4).T) for unit in np.eye(16)]
    return freeze(np.column_stack([from_pseudo_inertia(P) for P in symmetric]))


# Clarabel behind one small function: a convex quadratic under linear rows and positive semidefinite blocks.


Matrix: TypeAlias = Any
"""An array or any of scipy's sparse kinds."""

TOLERANCES = (1e-9, 1e-7)
"""Tried in turn, relative and absolute."""

ITERATIONS = 300


@dataclass(frozen=True, slots=True, eq=False)
class ConeRows:
    """Conditions on v: right - matrix @ v is zero (equal), not negative (below), or svec of PSD blocks of ten rows.

    ball: its first element is at least the norm of the others.
    """

    kind: str
    matrix: Matrix
    right: Array


@dataclass(frozen=True, slots=True, eq=False)
class ConeSolution:
    """The minimum v and the multipliers of all rows; status: solved, infeasible (rows exclude one another), or why."""

    status: str
    v: Array
    multipliers: Array


def minimise_over_cones(
    hessian: Matrix, gradient: Array, rows: list[ConeRows], tolerances: tuple[float, ...] = TOLERANCES
) -> ConeSolution:
    """Minimise v'Hv / 2 + g'v under linear rows and cones."""
    import clarabel

    used = [row for row in rows if len(row.right)]
    cones = []
    for row in used:
        if row.kind == "equal":
            cones.append(clarabel.ZeroConeT(len(row.right)))
        elif row.kind == "below":
            cones.append(clarabel.NonnegativeConeT(len(row.right)))
        elif row.kind == "ball":
            cones.append(clarabel.SecondOrderConeT(len(row.right)))
        else:
            cones += [clarabel.PSDTriangleConeT(4)] * (len(row.right) // 10)
    H = sparse.csc_matrix(sparse.triu(sparse.csc_matrix(hessian)))
    A = sparse.csc_matrix(sparse.vstack([sparse.csc_matrix(row.matrix) for row in used]))
    b, g = np.concatenate([row.right for row in used]), np.asarray(gradient)
    status = ""
    for tolerance in tolerances:
        found = clarabel.DefaultSolver(H, g, A, b, cones, _solver_settings(tolerance)).solve()
        status = str(found.status)
        if status in ("Solved", "AlmostSolved"):
            return ConeSolution("solved", np.array(found.x), np.array(found.z))
        if status in ("PrimalInfeasible", "AlmostPrimalInfeasible"):
            return ConeSolution("infeasible", np.full(len(g), np.nan), np.full(len(b), np.nan))
    return ConeSolution(status, np.full(len(g), np.nan), np.full(len(b), np.nan))


def _solver_settings(tolerance: float) -> Any:
    """Tolerances of the cone solver."""
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_iter = ITERATIONS
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    settings.tol_infeas_abs = settings.tol_infeas_rel = 1e-9
    settings.max_threads = 1
    return settings
