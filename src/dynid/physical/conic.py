"""Clarabel behind one small function: a convex quadratic under linear rows and positive semidefinite blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sparse

from dynid.robot.transform import Array

Matrix: TypeAlias = Any
"""An array or any of scipy's sparse kinds."""

TOLERANCES = (1e-9, 1e-7)
"""Tried in turn, relative and absolute."""

ITERATIONS = 300


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Conditions on v: right - matrix @ v is zero (equal), not negative (below), or svec of PSD blocks of ten rows."""

    kind: str
    matrix: Matrix
    right: Array


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The minimum v and the multipliers of all rows; status: solved, infeasible (rows exclude one another), or why."""

    status: str
    v: Array
    multipliers: Array


def minimise(hessian: Matrix, gradient: Array, rows: list[Rows]) -> Answer:
    """Minimise v'Hv / 2 + g'v under rows."""
    import clarabel

    used = [row for row in rows if len(row.right)]
    cones = []
    for row in used:
        if row.kind == "equal":
            cones.append(clarabel.ZeroConeT(len(row.right)))
        elif row.kind == "below":
            cones.append(clarabel.NonnegativeConeT(len(row.right)))
        else:
            cones += [clarabel.PSDTriangleConeT(4)] * (len(row.right) // 10)
    H = sparse.csc_matrix(sparse.triu(sparse.csc_matrix(hessian)))
    A = sparse.csc_matrix(sparse.vstack([sparse.csc_matrix(row.matrix) for row in used]))
    b, g = np.concatenate([row.right for row in used]), np.asarray(gradient)
    status = ""
    for tolerance in TOLERANCES:
        found = clarabel.DefaultSolver(H, g, A, b, cones, _settings(tolerance)).solve()
        status = str(found.status)
        if status in ("Solved", "AlmostSolved"):
            return Answer("solved", np.array(found.x), np.array(found.z))
        if status in ("PrimalInfeasible", "AlmostPrimalInfeasible"):
            return Answer("infeasible", np.full(len(g), np.nan), np.full(len(b), np.nan))
    return Answer(status, np.full(len(g), np.nan), np.full(len(b), np.nan))


def _settings(tolerance: float) -> Any:
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_iter = ITERATIONS
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    settings.tol_infeas_abs = settings.tol_infeas_rel = 1e-9
    settings.max_threads = 1
    return settings
