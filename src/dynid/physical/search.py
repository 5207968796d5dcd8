"""Two steps, one after the other: the best fit that bodies can have, then the bodies nearest to the prior with it.

The first is a cone programme (or the estimate itself, where bodies can have it). The second minimises the cost plus a
weight times the divergence from the prior. The weight is the largest by which the sum of squares grows by no more than
GROWTH over the first step: it never vanishes, however far the prior is, and never costs more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import scipy.sparse as sparse

from dynid.errors import PhysicalError
from dynid.physical.problem import (
    UNIT,
    ConeRows,
    Matrix,
    Problem,
    log_det_divergence,
    log_det_roots,
    minimise_over_cones,
    symmetric_from_svec,
)
from dynid.robot.transform import Array

MARGIN = 1e-3
"""Smallest eigenvalue of S = L^-1 P L^-T: every body keeps this share of its prior's mass in every direction."""

SOFTER = 0.01
"""Data that make the solver take a problem for infeasible that is none are weighed down by this."""

RANK = 1e-9
SLACK = 1e-9
TIE = 1e-12
"""Weight of the prior in the first step: it only keeps what no data show from drifting."""

GROWTH = 0.01
"""Share by which the prior may raise the sum of squares of the best fit of bodies: 0.5 % of its NRMSE."""

CHANNEL_GROWTH = 0.03
"""The same of a single channel: 1.5 % of its NRMSE; the mean over all grows by 0.5 %, as GROWTH says."""

NOISE_SHARE = 0.03
"""The same over what noise (by the jackknife) or the misfit of the best bodies adds to them, where that is less."""

NEAR = 0.9
"""Share of that growth from which on the prior's weight counts as found."""

BARRIER = 0.01
"""Weight of the divergence of the room that bounds leave from what they leave the prior: a barrier that keeps them."""

SHRINK = 0.3
"""From one weight to the next: larger steps lose the path where data are precise and the prior is far."""

MASS_WEIGHT = 10
"""Weight of the masses' own divergence, m/m0 - log(m/m0) - 1, beside that of the pseudo-inertias."""

IDLE = 12
"""Weights in turn that do not improve the fit before it counts as the best one."""

STEPS = 150
"""Newton steps for one weight, and weights that are tried."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundBodies:
    """Coordinates x; best: those that fit best, None where the estimate itself is of bodies; pressure per link and row.

    weight: of the prior, in squares of the noise per unit of divergence.
    """

    x: Array
    best: Array | None
    link_pressure: Array
    row_pressure: Array
    weight: float = 0.0


def search_bodies(problem: Problem, weight: float | None = None) -> FoundBodies:
    """Find the bodies; raise PhysicalError where demands exclude one another.

    weight: of the prior, in squares of the noise; None: as much as the data allow, see `DivergencePath.choose_weight`.
    """
    x = find_bodies_with_estimate(problem)
    if x is None:
        first = fit_bodies_to_data(problem, TIE)
    else:
        first = FoundBodies(x, None, np.zeros(len(problem.links)), np.zeros(len(problem.below.right)))
    if weight != 0.0 and (start := _find_interior(problem)) is not None:
        path = DivergencePath(problem, start)
        x, used = path.choose_weight(first) if weight is None else path.solve_for_weight(weight)
        first = replace(first, x=x, weight=used)
    return replace(first, x=_check_solution(problem, first.x))


class DivergencePath:
    """Bodies that minimise cost + weight * (divergence from the prior), from large weights to small ones.

    The divergence is the log-determinant one of the links' pseudo-inertias, which keeps them positive definite by
    itself; bounds have a weak barrier. Coordinates y: x = origin + basis @ y keeps the equations, and the cost is
    |gain * (y - target)|^2 + least, so that data of any precision, and directions that no data show, are well scaled.
    """

    def __init__(self, problem: Problem, interior: Array) -> None:
        _, Z = _solve_equations(problem)
        C = problem.seen @ Z
        _, s, Vt = np.linalg.svd(C / np.maximum(np.linalg.norm(C, axis=1), 1e-300)[:, None])
        rank = int((s > RANK * max(float(s[0]), 1e-300)).sum())
        U, gain, W = np.linalg.svd(problem.data @ C @ Vt[:rank].T, full_matrices=False)
        residual = problem.data @ (problem.seen @ interior - problem.estimate)
        explained = U.T @ residual
        unseen = np.zeros(len(Vt) - rank)
        self.problem, self.origin, self.links = problem, interior, 10 * len(problem.links)
        self.basis = Z @ np.concatenate([Vt[:rank].T @ W.T, Vt[rank:].T], axis=1)
        self.gain = np.concatenate([gain, unseen])
        self.target = np.concatenate([-explained / np.maximum(gain, 1e-300), unseen])
        self.least = float(((residual - U @ explained) ** 2).sum())
        masses = problem.basis[[k for k, name in enumerate(problem.names) if name.symbol == "M"]]
        masses = masses[np.abs(masses).max(axis=1) > 0.0]
        matrix = np.concatenate([problem.below.matrix, -masses])
        right = np.concatenate([problem.below.right, np.zeros(len(masses))])
        usual = right - matrix @ problem.centre
        self.rows, self.room = matrix @ self.basis, np.maximum(right - matrix @ interior, SLACK)
        self.usual_room = np.where((usual > 1e-3) | (np.arange(len(usual)) >= len(problem.below.right)), usual, 1.0)
        self.barrier = np.repeat([BARRIER, MASS_WEIGHT], [len(problem.below.right), len(masses)])
        self.y, self.multipliers = np.zeros(self.basis.shape[1]), self.barrier / self.room

    @property
    def x(self) -> Array:
        """Coordinates of the problem at the current point of the path."""
        return np.asarray(self.origin + self.basis @ self.y)

    @property
    def cost(self) -> float:
        """Cost at the current point of the path, in squares of the noise."""
        return (float(((self.gain * (self.y - self.target)) ** 2).sum()) + self.least) / self.problem.unit**2

    def choose_weight(self, first: FoundBodies) -> tuple[Array, float]:
        """Bodies with the largest weight by which the squares of the best fit grow by no more than GROWTH.

        Those of no channel grow by more than CHANNEL_GROWTH, and all by no more than NOISE_SHARE says.
        """
        problem, best = self.problem, first.x if first.best is None else first.best
        least, channels = problem.cost_over_estimate(best), problem.channel_squares(best)
        allowed = min(GROWTH * (problem.squares + least), NOISE_SHARE * max(problem.scatter, least))
        weight, lowest, idle = max(self.cost, allowed), float("inf"), 0
        tried: list[tuple[float, Array, float, Array]] = []
        below = None

        def growth_over_allowed(cost: float, squares: Array) -> float:
            """Largest growth over the best fit, 1 being what is allowed."""
            grown = float((squares / channels - 1.0).max(initial=0.0))
            return max((cost - least) / allowed, grown / CHANNEL_GROWTH, 1e-6)

        for _ in range(STEPS):
            self.minimise(weight)
            tried.append((weight, self.y, self.cost, problem.channel_squares(self.x)))
            idle = 0 if self.cost < lowest - 0.01 * allowed else idle + 1
            lowest = min(lowest, self.cost)
            if idle > IDLE:
                if self.cost > least + 0.1 * GROWTH * (problem.squares + least):
                    break  # the path is lost
                least, channels = tried[-1][2:]  # the cone solver's best fit was a little outside of its bounds
            growths = [(w, y, growth_over_allowed(cost, squares)) for w, y, cost, squares in tried]
            below = max((t for t in growths if t[2] <= 1.0), key=lambda t: t[0], default=None)
            above = min((t for t in growths if t[2] > 1.0), key=lambda t: t[0], default=None)
            if below is not None and (above is None or below[2] >= NEAR or above[0] < 1.01 * below[0]):
                break
            weight = SHRINK * weight if below is None or above is None else _interpolate_weight(below, above)
        if below is None:  # exact data, and a prior far from all that they allow
            distance = float(((problem.doubt * (best - problem.centre)) ** 2).sum())
            weight = 0.0 if first.best is None else allowed / max(distance, 1e-300)  # it costs no more than is allowed
            return first.x if weight * problem.unit**2 <= TIE else fit_bodies_to_data(
                problem, weight * problem.unit**2
            ).x, weight
        self.y = below[1]
        return self.x, below[0]

    def solve_for_weight(self, last: float) -> tuple[Array, float]:
        """Bodies, and their weight, for a given weight of the divergence from the prior."""
        weight = max(self.cost, last)
        while weight > last:
            self.minimise(weight)
            weight = max(SHRINK * weight, last)
        self.minimise(last)
        return self.x, last

    def minimise(self, weight: float, tolerance: float = 1e-4) -> None:
        """Move the current point to the minimum for a weight, by Newton's method with backtracking.

        The Hessian is J'J and the gradient J'q: where squaring J leaves too few digits, least squares find the step.
        """
        w, n, B, rows = weight * self.problem.unit**2, self.links, self.basis, self.rows
        data, others = np.sqrt(2.0 / w) * self.gain, self.problem.doubt[n:]
        for _ in range(STEPS):
            x, room = self.x, self.room - rows @ self.y
            blocks, pull = log_det_roots(x[:n], MARGIN)
            curved = (blocks @ B[:n].reshape(-1, 10, len(self.y))).reshape(n, -1)
            stiff = np.sqrt(self.multipliers / room)
            J = np.concatenate([curved, others[:, None] * B[n:], stiff[:, None] * rows])
            away = others * (x - self.problem.centre)[n:]
            q = np.concatenate([pull, away, self.barrier * (1.0 / room - 1.0 / self.usual_room) / stiff])
            g = J.T @ q + data**2 * (self.y - self.target)
            H = J.T @ J + np.diag(data**2)
            size = 1.0 / np.sqrt(np.diag(H))
            try:
                factor = scipy.linalg.cho_factor(H * np.outer(size, size))
                step = -size * scipy.linalg.cho_solve(factor, size * g)
            except np.linalg.LinAlgError:
                whole, right = np.concatenate([J, np.diag(data)]), np.concatenate([q, data * (self.y - self.target)])
                step = -size * np.linalg.lstsq(whole * size, right, rcond=1e-15)[0]
            decrease = -float(g @ step)
            along = rows @ step
            now, share = (
                self._objective(self.y, w),
                min(1.0, 0.99 / max(float((along / room).max(initial=0.0)), 1e-300)),
            )
            while not self._objective(self.y + share * step, w) <= now - 0.1 * share * decrease + 1e-13 * abs(now):
                share *= 0.5
                if share < 1e-9:
                    return
            self.y = self.y + share * step
            change = self.barrier / room - self.multipliers * (1.0 - along / room)
            full = min(1.0, 0.99 / max(float((-change / self.multipliers).max(initial=0.0)), 1e-300))
            usual = self.barrier / (room - share * along)
            self.multipliers = np.clip(self.multipliers + full * change, 1e-6 * usual, 1e6 * usual)
            if not decrease > tolerance:
                return

    def _objective(self, y: Array, w: float) -> float:
        """Function that `minimise` minimises, over w; infinite outside of the bounds."""
        room, x, n = self.room - self.rows @ y, self.origin + self.basis @ y, self.links
        if room.size and room.min() <= 0.0:
            return float("inf")
        away = self.problem.doubt[n:] * (x - self.problem.centre)[n:]
        squares = float(((self.gain * (y - self.target)) ** 2).sum()) / w
        bounds = float(self.barrier @ (room / self.usual_room - np.log(room)))
        return squares + log_det_divergence(x[:n], MARGIN) + 0.5 * float(away @ away) + bounds


def _interpolate_weight(below: tuple[float, Array, float], above: tuple[float, Array, float]) -> float:
    """Weight between two at which the growth is likely a little less than what is allowed, by a power law."""
    (low, _, less), (high, _, more) = below, above
    share = np.log(0.5 * (1.0 + NEAR) / less) / np.log(more / less)
    return float(low * (high / low) ** np.clip(share, 0.1, 0.9))


def _find_interior(problem: Problem) -> Array | None:
    """Bodies near the prior that satisfy the equations and are inside of all bounds; None where there are none."""
    centre, (E, e) = problem.centre, (problem.equal.matrix, problem.equal.right)
    inside = (problem.below.right - problem.below.matrix @ centre).min(initial=1.0) > 1e-3
    if inside and np.abs(E @ centre - e).max(initial=0.0) < 1e-12:
        return centre
    x0, Z = _solve_equations(problem)
    k = Z.shape[1]  # v = (y, t): x = x0 + Z y, every bound is kept with room t
    near = 1e-3 * sparse.diags(np.concatenate([np.ones(k), [0.0]]))
    gradient = np.concatenate([1e-3 * Z.T @ (x0 - centre), [-1.0]])
    room = problem.below.right - problem.below.matrix @ x0
    rows = [
        ConeRows("below", np.column_stack([problem.below.matrix @ Z, np.ones(len(room))]), room),
        ConeRows("below", np.eye(k + 1)[k:], np.array([0.1])),
        _pseudo_inertia_cones(problem, x0, Z, 3.0 * MARGIN, 1),
    ]
    answer = minimise_over_cones(near, gradient, rows)
    if answer.status != "solved" or answer.v[k] < -1e-7:
        return None
    return np.asarray(x0 + Z @ answer.v[:k])


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
    if answer.status != "solved" and problem.unit >= 1e-12 * SOFTER:
        broken = _find_conflicting_constraints(problem) if answer.status == "infeasible" else []
        if broken:
            raise PhysicalError(
                "constraints_infeasible", "no physically possible bodies satisfy all constraints; in conflict: "
                "{constraints}",
                "relax these, or what conflicts with them", constraints=broken[:5],
            )  # fmt: skip
        softer = replace(problem, data=SOFTER * problem.data, unit=SOFTER * problem.unit)
        return fit_bodies_to_data(softer, weight * SOFTER**2)
    if answer.status != "solved":
        raise PhysicalError(
            "body_search_not_converged", "the search for real bodies did not converge ({status}): the data or the "
            "constraints have an extreme scale", "check the total mass and the bounds, and the units of the log",
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
    """Cone rows svec(S - margin) of every link, S being those of x0 + Z v."""
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
    """Largest violation of the rows at x, over their size."""
    over = problem.below.matrix @ x - problem.below.right
    off = problem.equal.matrix @ x - problem.equal.right
    return float(np.max([0.0, *over, *np.abs(off)]))


def _check_solution(problem: Problem, x: Array) -> Array:
    """Return x; raise where its eigenvalues or rows are not satisfied."""
    smallest, excess = _smallest_eigenvalue(problem, x), _largest_violation(problem, x)
    if smallest < 0.5 * MARGIN or excess > 1e-6:
        raise PhysicalError(
            "body_search_outside_bounds", "the search for bodies ended outside its bounds (eigenvalue "
            "{eigenvalue:.2g}, excess {excess:.2g})", "the data or the prior may have an extreme scale",
            eigenvalue=smallest, excess=excess,
        )  # fmt: skip
    return x


def _find_conflicting_constraints(problem: Problem) -> list[str]:
    """Labels of the fewest constraints that must give way for the others to hold; none where nothing helps."""
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
