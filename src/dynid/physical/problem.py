"""The problem in well-scaled coordinates: what the data say, what bodies can be, what is believed.

Coordinates of a link in which its prior is the unit matrix: P = L S L', P0 = L L' being the prior's pseudo-inertia. A
body can have the ten parameters if and only if its pseudo-inertia P is positive definite, so if S is. S is written as
svec(S): upper triangle column by column, off-diagonal elements times sqrt(2), so that the Euclidean norm of svec(S -
1) is the Frobenius norm of L^-1 (P - P0) L^-T. That distance depends neither on units nor on the frame of the link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse as sparse

from dynid.dynamics.friction import PLAIN, find_friction_block
from dynid.errors import PhysicalError
from dynid.estimation.identification import Identification
from dynid.estimation.regression.equation import Unknowns
from dynid.estimation.solve.least_squares import structurally_independent_columns
from dynid.identifiability.base_parameters import cached_base_parameters
from dynid.physical.constraints import BodyConstraints, LinearRows, constraint_rows
from dynid.physical.prior import Prior, is_massless
from dynid.robot.inertia import ROTOR, SYMBOLS, from_pseudo_inertia, pseudo_inertia
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Robot
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
        try:
            found = clarabel.DefaultSolver(H, g, A, b, cones, _solver_settings(tolerance)).solve()
        except BaseException as error:  # a panic of its Rust code is no Exception
            if isinstance(error, Exception) or type(error).__name__ != "PanicException":
                raise
            status = "NumericalError"
            continue
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


# What identified parameters are made of: standard parameters, friction, and what hides in their sums.


HIDDEN_SHARE = 0.1
"""Doubt of an offset that hides in an identified sum, as a share of that sum."""


ROTOR_WEIGHT = 1e-3
"""How much a rotor's deviation by its size counts beside a link's: only where nothing else decides."""


@dataclass(frozen=True, slots=True, eq=False)
class IdentifiedCombinations:
    """Identified parameters = matrix @ parameters `names`: standard ones in order, others as identified, hidden ones.

    others: where the identified ones among them stand in the result. sizes, centre and doubt speak of all that are not
    standard: their size, where they are believed to be, and how much a deviation by their size counts. Hidden are
    columns that no data tell from others, such as an offset beside a mass that gravity pulls along its joint.
    """

    names: tuple[Parameter, ...]
    matrix: Array
    others: tuple[int, ...]
    sizes: Array
    centre: Array
    doubt: Array


def identified_combinations(result: Identification) -> IdentifiedCombinations:
    """Matrix by which the identified parameters of a result are sums of standard ones and friction."""
    base, standard = result.equation.base, result.robot.parameter_names
    own = dict(zip(base.names, base.matrix, strict=True))
    place = {name: k for k, name in enumerate(result.names)}
    others = tuple(k for k, name in enumerate(result.names) if name not in own)
    hidden = _unidentified_columns(result, set(own))
    names = (*standard, *(result.names[k] for k in others), *hidden)
    matrix = np.zeros((len(place), len(names)))
    for name, k in place.items():
        if name in own:
            matrix[k, : len(standard)] = own[name]
    for lost, shares in result.joined.items():
        for name, share in shares.items():
            if lost in own and name in place:
                matrix[place[name], : len(standard)] += share * own[lost]
    matrix[list(others), len(standard) + np.arange(len(others))] = 1.0
    values = np.asarray(result.values)
    deviation = np.where(np.isfinite(result.sigma), result.sigma, 0.0)
    sizes = [max(float(abs(values[k])), 10.0 * float(deviation[k]), 1e-9) for k in others]
    for column, shares in enumerate(hidden.values(), start=len(standard) + len(others)):
        reach = []
        for name, share in shares.items():
            matrix[place[name], column] = share
            reach.append((abs(values[place[name]]) + deviation[place[name]]) / abs(share))
        sizes.append(max(HIDDEN_SHARE * float(min(reach)), 1e-9))
    centre = np.concatenate([values[list(others)], np.zeros(len(hidden))])
    doubt = np.array([1e-3] * len(others) + [1.0] * len(hidden))
    return IdentifiedCombinations(names, matrix, others, np.array(sizes), centre, doubt)


def _unidentified_columns(result: Identification, base: set[Parameter]) -> dict[Parameter, dict[Parameter, float]]:
    """Columns of no link that are in the sums of others: unidentifiable in these data, or collinear on every motion."""
    found = {name: dict(shares) for name, shares in result.joined.items() if name not in base and shares}
    logs, equation = len(result.factors), result.equation
    own = {name.symbol for name in result.names if name.log is not None and name.kind == "friction"}
    per_log = [block for block in result.friction if own & set(find_friction_block(block).symbols)]
    unknowns = Unknowns.for_equation(equation, result.friction, logs, per_log=per_log)
    missing = set(unknowns.names) - set(result.names) - {item.name for item in result.unidentifiable}
    if not missing:
        return found
    kept, joined = structurally_independent_columns(equation, unknowns)
    for column, name in enumerate(unknowns.names):
        if name not in missing or column in kept:
            continue
        shares: dict[Parameter, float] = {}
        for k, share in zip(kept, joined[:, column], strict=True):
            if abs(share) > 1e-9:
                for last, more in result.joined.get(unknowns.names[k], {unknowns.names[k]: 1.0}).items():
                    shares[last] = shares.get(last, 0.0) + float(share) * more
        shares = {last: share for last, share in shares.items() if last in result.names and abs(share) > 1e-12}
        if shares:
            found[name] = shares
    return found


ROUNDING = 1e-16
"""Share of a channel's squares below which what is left of them is rounding."""

LARGEST = 1e4
"""Singular values of the weighted data are brought below this: data without noise would have any size."""

SCALES = (0.3, 20.0)
"""How much lighter or heavier than their sizes say the links of a prior may be made to suit the data."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Parameters = basis @ x + constant, standard ones first; estimate ~ seen @ x, weighed by data (r, identified).

    x begins with ten coordinates per link of `links`, in which the prior is the unit matrix; centre is the prior in x,
    doubt (len(x),) how much a deviation of each coordinate counts. data: A (r, r), the cost being
    |A (seen x - estimate)|^2 in units of the noise's variance times unit^2; squares: what the estimate leaves, in the
    noise's variance; scatter: what the cost of the true values is expected to be, by the jackknife; channels: of each
    a factor, the residual of the estimate in its rows, and the sum of the measured squares.
    """

    names: tuple[Parameter, ...]
    links: tuple[int, ...]
    basis: Array
    constant: Array
    centre: Array
    doubt: Array
    seen: Array
    estimate: Array
    data: Array
    unit: float
    squares: float
    equal: LinearRows
    below: LinearRows
    scatter: float = 0.0
    channels: tuple[tuple[Array, Array, float], ...] = ()

    def values(self, x: Array) -> Array:
        """All parameters at coordinates x."""
        return np.asarray(self.basis @ x + self.constant)

    def cost_over_estimate(self, x: Array) -> float:
        """Cost of coordinates x above that of the estimate, in squares of the noise."""
        return float(((self.data @ (self.seen @ x - self.estimate)) ** 2).sum()) / self.unit**2

    def channel_squares(self, x: Array) -> Array:
        """Sums of squared residuals per channel, in its own unit; at least what rounding leaves."""
        step = self.seen @ x - self.estimate
        return np.array([max(float(((R @ step + r) ** 2).sum()), ROUNDING * power) for R, r, power in self.channels])


def build_problem(
    result: Identification, seen: IdentifiedCombinations, prior: Prior, demands: BodyConstraints
) -> Problem:
    """Set up the problem of a result: data, constraints and prior in scaled coordinates."""
    robot, names = result.robot, seen.names
    _refuse_unphysical_zeros(result)
    equal, below = demand_rows(result, names, demands)
    below = below.with_rows(_largest_mass_rows(robot, names, prior, demands))
    return build_problem_from_rows(result, seen, prior, (equal, below))


def build_problem_from_rows(
    result: Identification, seen: IdentifiedCombinations, prior: Prior, rows: tuple[LinearRows, LinearRows]
) -> Problem:
    """Problem in coordinates around a prior, with equations and inequalities on the parameters."""
    links = tuple(k for k, link in enumerate(result.robot.links) if not is_massless(link))
    A = weighted_regressor_factor(result)
    unit = min(1.0, LARGEST / max(float(np.linalg.norm(A, 2)), 1e-300))
    problem = Problem(
        seen.names, links, np.zeros((0, 0)), np.zeros(0), np.zeros(0), np.zeros(0), seen.matrix,
        np.asarray(result.values), unit * A, unit, _residual_squares(result), *rows,
        float(np.einsum("ij,jk,ik->", A, result.covariance, A, optimize=True)), _channel_misfit_terms(result),
    )  # fmt: skip
    return _change_to_prior_coordinates(result, seen, problem, prior)


def demand_rows(
    result: Identification, names: tuple[Parameter, ...], demands: BodyConstraints
) -> tuple[LinearRows, LinearRows]:
    """Rows of equations and inequalities that bodies satisfy whatever the prior: the user's, zeros, signs."""
    equal, below = constraint_rows(result.robot, names, demands)
    return equal, below.with_rows(_nonnegativity_rows(result, names))


def weighted_regressor_factor(result: Identification) -> Array:
    """Triangular factor of all rows of a result, each over the noise of its channel."""
    noise = np.asarray(result.noise)
    if result.estimator == "ols":
        noise = np.full(len(noise), np.sqrt(np.mean(noise**2)))
    rows = [factor.R[:, :-1] / noise[c] for of_log in result.factors for c, factor in enumerate(of_log)]
    return np.asarray(np.linalg.qr(np.concatenate(rows), mode="r"))


def _channel_misfit_terms(result: Identification) -> tuple[tuple[Array, Array, float], ...]:
    """Triangular factor, the estimate's residual and the measured squares of all rows of every channel."""
    found = []
    for c in range(len(result.channels)):
        R = np.asarray(np.linalg.qr(np.concatenate([of_log[c].R for of_log in result.factors]), mode="r"))
        power = sum(of_log[c].sum_of_squares for of_log in result.factors)
        found.append((R[:, :-1], R[:, :-1] @ result.values - R[:, -1], float(power)))
    return tuple(found)


def _residual_squares(result: Identification) -> float:
    """Sum of squares that the estimate leaves, in the noise's variance."""
    left = 0.0
    for of_log in result.factors:
        for factor, noise in zip(of_log, result.noise, strict=True):
            left += factor.residual_squares(result.values) / float(noise) ** 2
    return left


def scale_prior_to_data(
    result: Identification, seen: IdentifiedCombinations, prior: Prior, total_mass: float | None = None
) -> Prior:
    """The prior with the links from sizes so heavy as the total mass, or else the data, want all of them together."""
    if not any(prior.from_sizes):
        return prior
    sized, massless = np.array(prior.from_sizes), [is_massless(link) for link in result.robot.links]
    masses = np.where(massless, 0.0, prior.inertia[:, 9])
    total_mass = result.robot.published_moving_mass if total_mass is None else total_mass
    if total_mass is not None and total_mass > masses[~sized].sum():
        return prior.with_scaled_mass(float((total_mass - masses[~sized].sum()) / masses[sized].sum()))
    G, A = seen.matrix[:, : len(result.robot.parameter_names)], weighted_regressor_factor(result)
    light, fixed = np.zeros(G.shape[1]), np.zeros(G.shape[1])
    start = 0
    for k in range(len(result.robot.links)):
        (light if prior.from_sizes[k] else fixed)[start : start + 10] = prior.inertia[k]
        start += 10 + (k in result.robot.active_links)
    rotors = [k for k, name in enumerate(result.robot.parameter_names) if name.kind == "rotor"]
    free = np.column_stack([A[:, list(seen.others)], A @ G[:, rotors]])
    Q = scipy.linalg.orth(free) if free.shape[1] else np.zeros((len(A), 0))

    def without_free_columns(v: Array) -> Array:
        """Project out what friction, rotors and other columns of no link explain."""
        return np.asarray(v - Q @ (Q.T @ v))

    direction, target = without_free_columns(A @ (G @ light)), without_free_columns(A @ (result.values - G @ fixed))
    # 1 +- 1 is what sizes say by themselves; the data weigh by their noise, as the jackknife sees it
    trust = max(float(np.einsum("ij,jk,ik->", A, result.covariance, A, optimize=True)) / max(len(A), 1), 1.0)
    factor = (float(direction @ target) + trust) / (float(direction @ direction) + trust)
    return prior.with_scaled_mass(float(np.clip(factor, *SCALES)))


def link_coordinate_columns(robot: Robot, names: Sequence[str], k: int, prior: Prior) -> list[Array]:
    """Ten columns (names,) of a link's coordinates around its prior."""
    first = names.index(SYMBOLS[0] + robot.links[k].label)
    block = np.zeros((len(names), 10))
    block[first : first + 10] = link_coordinate_basis(prior.inertia[k])
    return list(block.T)


def _change_to_prior_coordinates(
    result: Identification, seen: IdentifiedCombinations, problem: Problem, prior: Prior
) -> Problem:
    """Replace standard parameters by coordinates around the prior, friction by multiples of its size."""
    robot, names = result.robot, problem.names
    place = {name: k for k, name in enumerate(names)}
    columns: list[Array] = []
    centre: list[float] = []
    doubt: list[float] = []
    constant = np.zeros(len(names))
    for k in problem.links:
        columns += link_coordinate_columns(robot, names, k, prior)
        centre += UNIT.tolist()
        doubt += [1.0] * 10
    free = result.equation.has_rotor_inertias
    for k in robot.active_links:
        row = place[robot.links[k].parameter(ROTOR)]
        if ROTOR in robot.links[k].zero or not free or names[row] in robot.declared_rotors:
            constant[row] = 0.0 if ROTOR in robot.links[k].zero else _assumed_rotor_inertia(result, robot, k)
            continue
        column = np.zeros(len(names))
        column[row] = prior.rotor_scale[k]
        columns.append(column)
        centre.append(prior.rotor[k] / prior.rotor_scale[k])
        doubt.append(ROTOR_WEIGHT)
    for k, row in enumerate(range(len(robot.parameter_names), len(names))):
        columns.append(seen.sizes[k] * np.eye(len(names))[row])
    centre += (seen.centre / seen.sizes).tolist()
    doubt += seen.doubt.tolist()
    basis = np.array(columns).T

    def normalise_rows(rows: LinearRows) -> LinearRows:
        """Rows on the coordinates, each of norm 1."""
        matrix, right = rows.matrix @ basis, rows.right - rows.matrix @ constant
        size = np.maximum(np.linalg.norm(matrix, axis=1), 1e-300)
        return LinearRows(matrix / size[:, None], right / size, rows.labels)

    return replace(
        problem,
        basis=basis, constant=constant, centre=np.array(centre), doubt=np.array(doubt), seen=problem.seen @ basis,
        estimate=problem.estimate - problem.seen @ constant, equal=normalise_rows(problem.equal),
        below=normalise_rows(problem.below),
    )  # fmt: skip


def _assumed_rotor_inertia(result: Identification, robot: Robot, k: int) -> float:
    """Rotor inertia that the data do not know: the declared one; none where links hold it, else the nominal one."""
    nominal = robot.links[k].rotor
    if ROTOR + robot.links[k].label in robot.declared_rotors:
        return nominal
    return nominal if nominal > 0.0 and not result.equation.options.has_torques else 0.0


def _nonnegativity_rows(result: Identification, names: tuple[Parameter, ...]) -> LinearRows:
    """Rows that keep rotor inertias, and friction where it is all there is over velocity, from being negative."""
    rows = []
    plain = set(result.friction) <= set(PLAIN)
    for k, name in enumerate(names):
        rotor = name.kind == "rotor" and result.equation.has_rotor_inertias
        rotor = rotor and name not in (*result.robot.known_zeros, *result.robot.declared_rotors)
        if rotor or (plain and name.is_dissipation):
            rows.append((-np.eye(len(names))[k], 0.0, f"{name} >= 0"))
    return LinearRows.from_rows(rows, len(names))


def _largest_mass_rows(robot: Robot, names: tuple[str, ...], prior: Prior, demands: BodyConstraints) -> LinearRows:
    """Rows that no link outweighs solid steel of its size, unless the user gives bounds for its mass."""
    rows = []
    for link, most in zip(robot.links, prior.heaviest, strict=True):
        name = "M" + link.label
        if not is_massless(link) and name not in demands.bounds and demands.total_mass is None:
            rows.append((np.eye(len(names))[names.index(name)], float(most), f"{name} <= {most:.3g} kg (size)"))
    return LinearRows.from_rows(rows, len(names))


def _refuse_unphysical_zeros(result: Identification) -> None:
    """Raise where a table declares moments or masses to be zero that no body can do without and that torques show."""
    robot = result.robot
    declared = [
        symbol + link.label
        for link in robot.links
        if not is_massless(link)
        for symbol in ("XX", "YY", "ZZ", "M")
        if symbol in link.zero
    ]
    if not declared:
        return
    without = replace(robot, links=tuple(replace(link, zero=frozenset()) for link in robot.links))
    base = cached_base_parameters(without, model="torque", rotor_inertia=True)
    shown = [name for name in declared if name not in base.no_effect]
    if shown:
        raise PhysicalError(
            "declared_zero_not_physical", "the robot file declares {parameters} to be zero, which no body has, and "
            "joint torques would show it", "take it out of `zero` and identify again", parameters=list(shown),
        )  # fmt: skip
