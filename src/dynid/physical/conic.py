"""Clarabel behind one small function: a convex quadratic under linear rows and positive semidefinite blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse

from dynid.errors import PhysicalError
from dynid.robot.transform import Array

TOLERANCE = 1e-10
ITERATIONS = 300


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Conditions on v: right - matrix @ v is zero (equal), not negative (below), or svec of PSD blocks of ten rows."""

    kind: str
    matrix: Array | sparse.sparray
    right: Array


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The minimum v and the multipliers of all rows; feasible: False where the rows exclude one another."""

    feasible: bool
    v: Array
    multipliers: Array


def minimise(hessian: Array | sparse.sparray, gradient: Array, rows: list[Rows]) -> Answer:
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
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_iter = ITERATIONS
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = TOLERANCE
    settings.tol_infeas_abs = settings.tol_infeas_rel = 1e-9
    settings.max_threads = 1
    H = sparse.csc_matrix(sparse.triu(sparse.csc_matrix(hessian)))
    A = sparse.csc_matrix(sparse.vstack([sparse.csc_matrix(row.matrix) for row in used]))
    b = np.concatenate([row.right for row in used])
    found = clarabel.DefaultSolver(H, np.asarray(gradient), A, b, cones, settings).solve()
    status = str(found.status)
    if status in ("PrimalInfeasible", "AlmostPrimalInfeasible"):
        return Answer(False, np.full(len(gradient), np.nan), np.full(len(b), np.nan))
    v = np.array(found.x)
    if status not in ("Solved", "AlmostSolved", "InsufficientProgress") or not np.isfinite(v).all():
        raise PhysicalError(f"the search for real bodies did not converge ({status}); the data may be of extreme scale")
    return Answer(True, v, np.array(found.z))
