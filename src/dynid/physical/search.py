"""Two steps, one after the other: the best fit that bodies can have, then the bodies nearest to the prior with it.

Where bodies can have the estimate as it is, the second step alone is needed: it moves only in directions that leave
every identified parameter as it is, so the fit stays what it was. Otherwise the best fit is sought first. The second
step then weighs the prior with w = TOLERATED * (sum of squares) / d, where d is the first answer's distance squared: as
its minimum is no larger than at the first answer, the sum of squares grows by at most w d, the share TOLERATED.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sparse

from dynid.errors import PhysicalError
from dynid.physical.cone import UNIT, ConeRows, Matrix, minimise_over_cones, symmetric_from_svec
from dynid.physical.problem import Problem
from dynid.robot.transform import Array

MARGIN = 1e-3
"""Smallest eigenvalue of S = L^-1 P L^-T: every body keeps this share of its prior's mass in every direction."""

SOFTER = 0.01
"""Data that make the solver take a problem for infeasible that is none are weighed down by this."""

RANK = 1e-9
SLACK = 1e-9
TIE = 1e-10
"""Weight of the prior in the first step: it only keeps what no data show from drifting."""

TOLERATED = 1e-3
"""Share by which the prior may raise the sum of squares of the best fit: 0.05 % of its NRMSE."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundBodies:
    """Coordinates x; fit: x where the estimate had to give way (None: it is physical); pressure per link and row."""

    x: Array
    fit: Array | None
    link_pressure: Array
    row_pressure: Array


def search_bodies(problem: Problem) -> FoundBodies:
    """Find the bodies; raise PhysicalError where demands exclude one another."""
    links, rows = len(problem.links), len(problem.below.right)
    x = find_bodies_with_estimate(problem)
    if x is not None:
        return FoundBodies(_check_solution(problem, x), None, np.zeros(links), np.zeros(rows))
    first = fit_bodies_to_data(problem, TIE)
    distance = float(((problem.doubt * (first.x - problem.centre)) ** 2).sum())
    squares = (problem.squares + problem.cost_over_estimate(first.x)) * problem.unit**2
    weight = TOLERATED * squares / max(distance, 1e-300)
    found = fit_bodies_to_data(problem, weight) if weight > TIE else first
    return replace(found, x=_check_solution(problem, found.x))


def fit_bodies_to_data(problem: Problem, weight: float) -> FoundBodies:
    """Minimum of the cost plus weight times the squared distance from the prior, and how hard links and rows press."""
    residuals = len(problem.data)
    x0, Z = _solve_equations(problem)
    A = problem.data @ problem.seen
    w = weight * problem.doubt**2
    # x = x0 + Z y; residual r = A x - b, a variable of its own: squaring A would lose half the digits
    hessian = sparse.block_diag([sparse.csc_matrix((Z.T * (2.0 * w)) @ Z), 2.0 * sparse.eye(residuals)])
    gradient = np.concatenate([2.0 * Z.T @ (w * (x0 - problem.centre)), np.zeros(residuals)])
    b = problem.data @ problem.estimate - A @ x0
    rows = [
        ConeRows("equal", sparse.hstack([sparse.csc_matrix(A @ Z), -sparse.eye(residuals)]), b),
        ConeRows(
            "below",
            _append_zero_columns(problem.below.matrix @ Z, residuals),
            problem.below.right - problem.below.matrix @ x0,
        ),
        _pseudo_inertia_cones(problem, x0, Z, MARGIN, residuals),
    ]
    answer = minimise_over_cones(hessian, gradient, rows)
    if answer.status == "infeasible":
        broken = _find_conflicting_constraints(problem)
        if broken or problem.unit < 1e-12 * SOFTER:
            raise PhysicalError(
                "constraints_infeasible", "no real bodies satisfy all that is asked for; in the way: {constraints}",
                "loosen these, or what stands against them", constraints=broken[:5] or "everything",
            )  # fmt: skip
        softer = replace(problem, data=SOFTER * problem.data, unit=SOFTER * problem.unit)
        return fit_bodies_to_data(softer, weight * SOFTER**2)
    if answer.status != "solved":
        raise PhysicalError(
            "body_search_not_converged", "the search for real bodies did not converge ({status}): the data or what is "
            "asked for are of extreme scale", "check the total mass and the bounds, and the units of the log",
            status=answer.status,
        )  # fmt: skip
    x = x0 + Z @ answer.v[: Z.shape[1]]
    after = residuals + len(problem.below.right)
    on_links = answer.multipliers[after:].reshape(len(problem.links), 10) @ UNIT
    return FoundBodies(x, x, np.asarray(on_links), np.asarray(answer.multipliers[residuals:after]))


def find_bodies_with_estimate(problem: Problem) -> Array | None:
    """Bodies nearest to the prior among those that have the estimate exactly; None where there are none."""
    start, N = _nearest_to_prior_with_estimate(problem), _unidentified_directions(problem)
    if start is None:
        return None
    if not N.shape[1]:
        return (
            start
            if _smallest_eigenvalue(problem, start) >= MARGIN and _largest_violation(problem, start) <= SLACK
            else None
        )
    D = problem.doubt[:, None] * N
    away = problem.doubt * (start - problem.centre)
    rows = [
        ConeRows("below", problem.below.matrix @ N, problem.below.right - problem.below.matrix @ start + SLACK),
        _pseudo_inertia_cones(problem, start, N, MARGIN, 0),
    ]
    answer = minimise_over_cones(D.T @ D, D.T @ away, rows)
    if answer.status != "solved":
        return None
    x = start + N @ answer.v
    return x if _smallest_eigenvalue(problem, x) > 0.9 * MARGIN and _largest_violation(problem, x) < 1e-6 else None


def _pseudo_inertia_cones(problem: Problem, x0: Array, Z: Array, margin: float, more: int) -> ConeRows:
    """Svec of S - margin for every link, S being those of x0 + Z v."""
    size = 10 * len(problem.links)
    return ConeRows(
        "psd", _append_zero_columns(-Z[:size], more), x0[:size] - margin * np.tile(UNIT, len(problem.links))
    )


def _append_zero_columns(matrix: Array, more: int) -> Matrix:
    """Sparse matrix with further columns of zeros."""
    return sparse.hstack([sparse.csc_matrix(matrix), sparse.csc_matrix((len(matrix), more))])


def _solve_equations(problem: Problem) -> tuple[Array, Array]:
    """One x that satisfies the equations, and directions that keep them."""
    E, e = problem.equal.matrix, problem.equal.right
    if not len(e):
        return problem.centre, np.eye(len(problem.centre))
    x0 = problem.centre + np.linalg.lstsq(E, e - E @ problem.centre, rcond=None)[0]
    if np.abs(E @ x0 - e).max() > 1e-8 * (1.0 + np.abs(e).max()):
        raise PhysicalError(
            "constraints_contradictory", "these contradict each other: {constraints}",
            constraints=list(problem.equal.labels),
        )  # fmt: skip
    return np.asarray(x0), _null_space(E)


def _nearest_to_prior_with_estimate(problem: Problem) -> Array | None:
    """The point nearest to the prior that has the estimate and satisfies the equations, bodies or not."""
    C = np.concatenate([problem.seen, problem.equal.matrix])
    d = np.concatenate([problem.estimate, problem.equal.right])
    size = np.maximum(np.linalg.norm(C, axis=1), 1e-300)
    C, d = C / size[:, None], d / size
    x = problem.centre.copy()
    for _ in range(2):  # once more for the last digits
        x = x + np.linalg.lstsq(C, d - C @ x, rcond=RANK)[0]
    return x if np.abs(C @ x - d).max() < 1e-9 * (1.0 + np.abs(d).max()) else None


def _unidentified_directions(problem: Problem) -> Array:
    """Directions that leave identified parameters and equations as they are."""
    C = np.concatenate([problem.seen, problem.equal.matrix])
    return _null_space(C / np.maximum(np.linalg.norm(C, axis=1), 1e-300)[:, None])


def _null_space(C: Array) -> Array:
    """Orthonormal basis of the null space of a matrix, as columns."""
    _, s, Vt = np.linalg.svd(C)
    rank = int((s > RANK * max(float(s[0]), 1e-300)).sum()) if len(s) else 0
    return np.asarray(Vt[rank:].T)


def _smallest_eigenvalue(problem: Problem, x: Array) -> float:
    """Smallest eigenvalue of S over all links."""
    return min(
        float(np.linalg.eigvalsh(symmetric_from_svec(x[10 * i : 10 * i + 10]))[0]) for i in range(len(problem.links))
    )


def _largest_violation(problem: Problem, x: Array) -> float:
    """How far rows are violated at most, over their size."""
    over = problem.below.matrix @ x - problem.below.right
    off = problem.equal.matrix @ x - problem.equal.right
    return float(np.max([0.0, *over, *np.abs(off)]))


def _check_solution(problem: Problem, x: Array) -> Array:
    """Verify eigenvalues and rows of what is handed out."""
    smallest, excess = _smallest_eigenvalue(problem, x), _largest_violation(problem, x)
    if smallest < 0.5 * MARGIN or excess > 1e-6:
        raise PhysicalError(
            "body_search_outside_bounds", "the search for real bodies ended outside its bounds (eigenvalue "
            "{eigenvalue:.2g}, excess {excess:.2g})", "the data or the prior may be of extreme scale",
            eigenvalue=smallest, excess=excess,
        )  # fmt: skip
    return x


def _find_conflicting_constraints(problem: Problem) -> list[str]:
    """Demands that exclude one another: those that must give way if as few as possible do; none: nothing does."""
    labels = [*problem.equal.labels, *problem.below.labels]
    C = np.concatenate([problem.equal.matrix, problem.below.matrix])
    right = np.concatenate([problem.equal.right, problem.below.right])
    n, k, e = C.shape[1], len(C), len(problem.equal.right)
    eye = sparse.eye(k)
    both = ConeRows("below", sparse.hstack([sparse.csc_matrix(C), -eye]), right)
    back = ConeRows("below", sparse.hstack([sparse.csc_matrix(-C[:e]), -eye.tocsr()[:e]]), -right[:e])
    sign = ConeRows("below", sparse.hstack([sparse.csc_matrix((k, n)), -eye]), np.zeros(k))
    bodies = _pseudo_inertia_cones(problem, np.zeros(n), np.eye(n), 2.0 * MARGIN, k)
    near = sparse.diags(np.concatenate([np.full(n, 1e-6), np.zeros(k)]))
    gradient = np.concatenate([-1e-6 * problem.centre, np.ones(k)])
    answer = minimise_over_cones(near, gradient, [both, back, sign, bodies])
    give = answer.v[n:]
    return [label for label, slack in zip(labels, give, strict=True) if slack > 1e-6 * max(1.0, give.max())]
