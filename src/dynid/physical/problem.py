"""The problem in well-scaled coordinates: what the data say, what bodies can be, what is believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from dynid.base.find import remembered_base_parameters
from dynid.errors import PhysicalError
from dynid.estimation.identification import Identification
from dynid.models.friction import PLAIN
from dynid.physical.cone import UNIT, link_basis
from dynid.physical.demands import Demands, LinearRows, rows_of
from dynid.physical.prior import Prior, is_massless
from dynid.physical.seen import Seen
from dynid.robot.inertia import ROTOR, SYMBOLS
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

LARGEST = 1e4
"""Singular values of the weighted data are brought below this: data without noise would have any size."""

SCALES = (0.05, 20.0)
"""How much lighter or heavier than their sizes say the links of a prior may be made to suit the data."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Parameters = basis @ x + constant, standard ones first; estimate ~ seen @ x, weighed by data (r, identified).

    x begins with ten coordinates per link of `links`, in which the prior is the unit matrix; centre is the prior in x,
    doubt (len(x),) how much a deviation of each coordinate counts. data: A (r, r), the cost being
    |A (seen x - estimate)|^2 in units of the noise's variance times unit^2; squares: what the estimate leaves, in the
    noise's variance.
    """

    names: tuple[str, ...]
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

    def values(self, x: Array) -> Array:
        """All parameters."""
        return np.asarray(self.basis @ x + self.constant)

    def cost(self, x: Array) -> float:
        """How much worse than the estimate, in squares of the noise."""
        return float(((self.data @ (self.seen @ x - self.estimate)) ** 2).sum()) / self.unit**2


def problem_of(result: Identification, seen: Seen, prior: Prior, demands: Demands) -> Problem:
    """Write down a result's problem."""
    robot, estimate = result.robot, np.asarray(result.values)
    names = seen.names
    links = tuple(k for k, link in enumerate(robot.links) if not is_massless(link))
    _refuse_flat_zeros(result)
    equal, below = rows_of(robot, names, demands)
    below = below.with_rows(_not_negative(result, names)).with_rows(_not_too_heavy(robot, names, prior, demands))
    A = weighted_rows(result)
    unit = min(1.0, LARGEST / max(float(np.linalg.norm(A, 2)), 1e-300))
    problem = Problem(
        names, links, np.zeros((0, 0)), np.zeros(0), np.zeros(0), np.zeros(0), seen.matrix, estimate,
        unit * A, unit, _squares(result), equal, below,
    )  # fmt: skip
    return _in_coordinates(result, seen, problem, prior)


def weighted_rows(result: Identification) -> Array:
    """Triangular factor of all rows, each over the noise of its channel."""
    noise = np.asarray(result.noise)
    if result.estimator == "ols":
        noise = np.full(len(noise), np.sqrt(np.mean(noise**2)))
    rows = [factor.R[:, :-1] / noise[c] for of_log in result.factors for c, factor in enumerate(of_log)]
    return np.asarray(np.linalg.qr(np.concatenate(rows), mode="r"))


def _squares(result: Identification) -> float:
    """Sum of squares that the estimate leaves, in the noise's variance."""
    left = 0.0
    for of_log in result.factors:
        for factor, noise in zip(of_log, result.noise, strict=True):
            left += factor.residual_squares(result.values) / float(noise) ** 2
    return left


def suited(result: Identification, seen: Seen, prior: Prior) -> Prior:
    """The prior with the links from sizes so heavy as the data want all of them together."""
    if not any(prior.from_sizes):
        return prior
    G, A = seen.matrix[:, : len(result.robot.parameter_names)], weighted_rows(result)
    light, fixed = np.zeros(G.shape[1]), np.zeros(G.shape[1])
    start = 0
    for k in range(len(result.robot.links)):
        (light if prior.from_sizes[k] else fixed)[start : start + 10] = prior.inertia[k]
        start += 10 + (k in result.robot.active_links)
    free = A[:, list(seen.others)]
    Q = scipy.linalg.orth(free) if free.shape[1] else np.zeros((len(A), 0))

    def apart(v: Array) -> Array:
        return np.asarray(v - Q @ (Q.T @ v))

    direction, target = apart(A @ (G @ light)), apart(A @ (result.values - G @ fixed))
    power = float(direction @ direction)
    factor = float(direction @ target) / power if power > 0.0 else 1.0
    return prior.scaled(float(np.clip(factor, *SCALES)) if factor > 0.0 else 1.0)


def rotors_are_free(result: Identification) -> bool:
    """Whether rotor inertias are among what the data were asked for."""
    return result.equation.base.question.rotor_inertia and result.equation.measure.has_torques


def link_columns(robot: Robot, names: Sequence[str], k: int, prior: Prior) -> list[Array]:
    """Ten columns (names,) of a link's coordinates around its prior."""
    first = names.index(SYMBOLS[0] + robot.links[k].label)
    block = np.zeros((len(names), 10))
    block[first : first + 10] = link_basis(prior.inertia[k])
    return list(block.T)


def _in_coordinates(result: Identification, seen: Seen, problem: Problem, prior: Prior) -> Problem:
    """Replace standard parameters by coordinates around the prior, friction by multiples of its size."""
    robot, names = result.robot, problem.names
    place = {name: k for k, name in enumerate(names)}
    columns: list[Array] = []
    centre: list[float] = []
    doubt: list[float] = []
    constant = np.zeros(len(names))
    for k in problem.links:
        columns += link_columns(robot, names, k, prior)
        centre += UNIT.tolist()
        doubt += [1.0] * 10
    free = rotors_are_free(result)
    for k in robot.active_links:
        row = place[ROTOR + robot.links[k].label]
        if ROTOR in robot.links[k].zero or not free or names[row] in robot.declared_rotors:
            constant[row] = 0.0 if ROTOR in robot.links[k].zero else _rotor_beside(result, robot, k)
            continue
        column = np.zeros(len(names))
        column[row] = prior.rotor_scale[k]
        columns.append(column)
        centre.append(prior.rotor[k] / prior.rotor_scale[k])
        doubt.append(1.0)
    for k, row in enumerate(range(len(robot.parameter_names), len(names))):
        columns.append(seen.sizes[k] * np.eye(len(names))[row])
    centre += (seen.centre / seen.sizes).tolist()
    doubt += seen.doubt.tolist()
    basis = np.array(columns).T

    def scaled(rows: LinearRows) -> LinearRows:
        matrix, right = rows.matrix @ basis, rows.right - rows.matrix @ constant
        size = np.maximum(np.linalg.norm(matrix, axis=1), 1e-300)
        return LinearRows(matrix / size[:, None], right / size, rows.labels)

    return replace(
        problem,
        basis=basis, constant=constant, centre=np.array(centre), doubt=np.array(doubt), seen=problem.seen @ basis,
        estimate=problem.estimate - problem.seen @ constant, equal=scaled(problem.equal), below=scaled(problem.below),
    )  # fmt: skip


def _rotor_beside(result: Identification, robot: Robot, k: int) -> float:
    """Rotor inertia that the data do not know: the declared one; none where links hold it, else the nominal one."""
    nominal = robot.links[k].rotor
    if ROTOR + robot.links[k].label in robot.declared_rotors:
        return nominal
    return nominal if nominal > 0.0 and not result.equation.measure.has_torques else 0.0


def _not_negative(result: Identification, names: tuple[str, ...]) -> LinearRows:
    """Rotor inertias; viscous and Coulomb friction where they are all there is over velocity."""
    rows = []
    plain = set(result.friction) <= set(PLAIN)
    for k, name in enumerate(names):
        rotor = k < len(result.robot.parameter_names) and name.startswith(ROTOR) and rotors_are_free(result)
        friction = k >= len(result.robot.parameter_names) and plain and name.startswith(("Fv", "Fc"))
        rotor = rotor and name not in (*result.robot.known_zeros, *result.robot.declared_rotors)
        if rotor or (friction and name not in {column.name for column in result.equation.extra}):
            rows.append((-np.eye(len(names))[k], 0.0, f"{name} >= 0"))
    return LinearRows.of(rows, len(names))


def _not_too_heavy(robot: Robot, names: tuple[str, ...], prior: Prior, demands: Demands) -> LinearRows:
    """No link outweighs solid steel of its size, unless the user gives bounds for its mass."""
    rows = []
    for link, most in zip(robot.links, prior.heaviest, strict=True):
        name = "M" + link.label
        if not is_massless(link) and name not in demands.bounds and demands.total_mass is None:
            rows.append((np.eye(len(names))[names.index(name)], float(most), f"{name} <= {most:.3g} kg (size)"))
    return LinearRows.of(rows, len(names))


def _refuse_flat_zeros(result: Identification) -> None:
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
    base = remembered_base_parameters(without, model="torque", rotor_inertia=True)
    shown = [name for name in declared if name not in base.no_effect]
    if shown:
        raise PhysicalError(
            f"the robot file declares {', '.join(shown)} to be zero, which no body has, and joint torques would show "
            "it; take it out of `zero` and identify again"
        )
