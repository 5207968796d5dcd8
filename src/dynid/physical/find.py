"""The front door: an identification in, parameters of real bodies out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.special import chdtrc

from dynid.dynamics.friction import PLAIN
from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.errors import PhysicalError
from dynid.estimation.identification import Identification
from dynid.estimation.inference.jackknife import covariance_within_logs
from dynid.messages import Message, Option, messages_in
from dynid.physical.check import describe_violations
from dynid.physical.constraints import (
    BodyConstraints,
    Ellipsoid,
    Interval,
    bounds_by_parameter,
    check_total_mass,
    link_ellipsoids,
)
from dynid.physical.parameters import UNLIKELY, Binding, PhysicalParameters, find_active_bounds, find_data_shares
from dynid.physical.prior import Prior, centre_is_outside, density_ratio, find_prior
from dynid.physical.problem import (
    Problem,
    build_problem,
    demand_rows,
    identified_combinations,
    scale_prior_to_data,
    smallest_relative_eigenvalue,
)
from dynid.physical.search import MARGIN, search_bodies
from dynid.robot.load import load_with_locks_of
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

WORSE = 0.05
"""Growth of a channel's NRMSE from which on the cost of physicality is a warning."""

LEAST_WEIGHT, MOST_WEIGHT = 1e-12, 1e12
"""Weights of the prior beyond which arithmetic ends; 0 leaves it out."""

FEWEST_TIMES, MOST_TIMES = 0.2, 3.0
"""Masses over their prior beyond which they are named."""


@one_blas_thread
def physical_parameters(
    identification: Identification,
    *,
    prior: Robot | str | Path | None = None,
    total_mass: float | None = None,
    bounds: Mapping[str, Interval] | None = None,
    centre_of_mass: Mapping[str, Sequence[Interval]] | None = None,
    within: Mapping[str, Ellipsoid] | None = None,
    geometry: str | Path | None = None,
    package_path: str | Path | Sequence[str | Path] = (),
    prior_weight: float | None = None,
) -> PhysicalParameters:
    """Find physically consistent standard parameters of all links that fit the data best.

    Parameters
    ----------
    identification : Identification
        What they are made from.
    prior : Robot, str or Path, optional
        A robot of the same geometry, or its file, to which bodies stay close where the data leave a choice. Default:
        the robot's nominal values, else bodies of the links' sizes.
    total_mass : float, optional
        Mass of all links, kg.
    bounds : mapping of str to (float, float), optional
        Lowest and highest value by parameter, SI units.
    centre_of_mass : mapping of str to three (float, float), optional
        Lowest and highest x, y, z of the centre of mass by link, m.
    within : mapping of str to Ellipsoid, optional
        Ellipsoid by link that contains its mass.
    geometry : str or Path, optional
        URDF of the robot; the smallest ellipsoids around its collision shapes contain the mass of their links.
    package_path : path or sequence of paths
        Where the meshes of `geometry` are, as for `load_robot`.
    prior_weight : float, optional
        Weight of the divergence from the prior, in units of the noise variance; 0: the best fit. Default: as large as
        possible while the weighted sum of squares grows by at most 1 %.

    Returns
    -------
    PhysicalParameters
        Bodies, how far they fit, and what the data determine of them.

    Raises
    ------
    PhysicalError
        If no bodies satisfy the constraints, or the result cannot be used.

    Notes
    -----
    Every pseudo-inertia is positive definite with a margin (Wensing, Kim & Slotine 2018); rotor inertias, viscous and
    Coulomb friction are not negative.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Motion, identify, load_robot, physical_parameters, simulate
    >>> robot = load_robot("gautier3")
    >>> t, w = np.arange(0.0, 10.0, 0.01), np.array([1.0, 1.7, 2.3])
    >>> x = np.outer(t, w)
    >>> log = simulate(robot, Motion(t, np.sin(x), w * np.cos(x), -(w**2) * np.sin(x)), noise=0.1)
    >>> bodies = physical_parameters(identify(robot, log, friction=("viscous",)))
    >>> bool((np.linalg.eigvalsh(bodies.pseudo_inertias()) > 0.0).all())
    True
    """
    result = identification
    if prior_weight is not None and prior_weight != 0.0 and not LEAST_WEIGHT <= prior_weight <= MOST_WEIGHT:
        raise PhysicalError(
            "prior_weight_invalid", "{option} must be 0 or between {least:g} and {most:g}, got {given}",
            option=Option("prior_weight"), given=str(prior_weight)[:60], least=LEAST_WEIGHT, most=MOST_WEIGHT,
        )  # fmt: skip
    if result.equation.unknown is not None:
        raise PhysicalError(
            "bodies_need_geometry", "bodies need the geometry: model parameters of unknown lengths cannot be taken "
            "apart", "use {unknown}", unknown=Option("unknown", ()),
        )  # fmt: skip
    if geometry is None and package_path not in ((), []):
        raise PhysicalError(
            "option_not_applicable", "{option} says where meshes are, and no {geometry} is given", "leave it out",
            option=Option("package_path"), geometry=Option("geometry"),
        )  # fmt: skip
    if not result.factors:
        raise PhysicalError("result_lacks_factors", "this result holds no factors of its data", "identify again")
    total_mass = None if total_mass is None else check_total_mass(total_mass)
    given = None if prior is None else prior if isinstance(prior, Robot) else load_with_locks_of(prior, result.robot)
    seen = identified_combinations(result)
    shapes, shape_notes = ({}, ()) if geometry is None else link_ellipsoids(geometry, result.robot, package_path)
    solids = {name: (shape.centre, shape.shape) for name, shape in shapes.items()}
    believed = scale_prior_to_data(result, seen, find_prior(result.robot, given, solids), total_mass)
    bounds = bounds_by_parameter(result.robot, bounds or {})
    demands = BodyConstraints(total_mass, bounds, centre_of_mass or {}, {**shapes, **(within or {})})
    problem = build_problem(result, seen, believed, demands)
    found = search_bodies(problem, prior_weight)
    values = _remove_rounding_errors(result, problem.values(found.x), problem.names)
    fitted = result.values + (problem.seen @ found.x - problem.estimate)
    best = result.values if found.best is None else result.values + (problem.seen @ found.best - problem.estimate)
    equations, inequalities = demand_rows(result, problem.names, demands)
    bindings = find_active_bounds(result.robot, problem, believed, found)
    shares = find_data_shares(result, seen, problem)
    before, after = _nrmse_per_channel(result, np.asarray(result.values)), _nrmse_per_channel(result, fitted)
    chance = _probability_of_step(result, best)
    return PhysicalParameters(
        identification=result,
        names=problem.names,
        units=_parameter_units(result, problem),
        values=values,
        prior=problem.values(problem.centre),
        prior_source=_prior_sources(believed, given),
        structural=shares.structural,
        from_data=shares.from_data,
        sigma=shares.sigma,
        fitted=fitted,
        nrmse_before=before,
        nrmse_after=after,
        cost=problem.cost_over_estimate(found.x),
        chance=chance,
        margin=MARGIN,
        eigenvalues=np.array([_smallest_eigenvalue(result.robot, k, values, problem, believed) for k in problem.links]),
        bindings=bindings,
        notes=(*believed.notes, *shape_notes, *_friction_notes(result)),
        warnings=(
            *_cost_warnings(result, bindings, before, after, chance),
            *_implausible_body_warnings(result.robot, problem, values, _prior_sources(believed, given)),
        ),
        prior_weight=found.weight,
        equations=equations,
        inequalities=inequalities,
    )


def _remove_rounding_errors(result: Identification, values: Array, names: tuple[Parameter, ...]) -> Array:
    """Values with known zeros exactly zero, and no negative zeros where values cannot be negative."""
    zeros = set(result.robot.known_zeros)
    plain = set(result.friction) <= set(PLAIN)
    tidy = values.copy()
    for k, name in enumerate(names):
        if name in zeros and name.symbol not in ("XX", "YY", "ZZ") and abs(values[k]) < 1e-9:
            tidy[k] = 0.0
        if name.kind == "rotor" or (plain and name.is_dissipation):
            tidy[k] = max(values[k], 0.0)
    return tidy


def _smallest_eigenvalue(robot: Robot, k: int, values: Array, problem: Problem, prior: Prior) -> float:
    """Smallest eigenvalue of a link's pseudo-inertia relative to its prior."""
    first = problem.names.index("XX" + robot.links[k].label)
    return smallest_relative_eigenvalue(values[first : first + 10], prior.inertia[k])[0]


def _nrmse_per_channel(result: Identification, values: Array) -> Array:
    """NRMSE per channel of values, from the factors of a result."""
    C = len(result.channels)
    squares, counts, total, power = (np.zeros(C) for _ in range(4))
    for of_log in result.factors:
        for c, factor in enumerate(of_log):
            squares[c] += factor.residual_squares(values)
            counts[c] += factor.count
            total[c] += factor.total
            power[c] += factor.sum_of_squares
    counts = np.maximum(counts, 1.0)
    spread = np.sqrt(np.maximum(power / counts - (total / counts) ** 2, 0.0))
    return np.asarray(np.sqrt(squares / counts) / np.where(spread > 0.0, spread, np.nan))


def _probability_of_step(result: Identification, fitted: Array) -> float:
    """Probability of so large a step from the estimate to the bodies, if the deviations are as stated."""
    step = fitted - result.values
    if not step.any():
        return 1.0
    covariance = covariance_within_logs(result.covariance, result.systematic, result.log_growth)
    size = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    C = covariance / np.outer(size, size)
    values, V = np.linalg.eigh(0.5 * (C + C.T))
    keep = values > 1e-10 * values[-1]
    along = (V.T @ (step / size))[keep]
    return float(chdtrc(int(keep.sum()), float((along**2 / values[keep]).sum())))


def _parameter_units(result: Identification, problem: Problem) -> tuple[str, ...]:
    """Units of the parameters of the problem."""
    return tuple(name.unit for name in problem.names)


def _prior_sources(prior: Prior, given: Robot | None) -> tuple[str, ...]:
    """Text on where the prior of every link comes from."""
    named = {} if given is None else {"nominal values": f"the prior '{given.name}'"}
    return tuple(named.get(source, source) for source in prior.sources)


def _friction_notes(result: Identification) -> tuple[Message, ...]:
    """Notes on friction that the robot cannot hold."""
    notes = []
    if not set(result.friction) <= set(PLAIN):
        notes.append(Message(
            "friction_terms_left_out", "friction is a sum of several terms over velocity: their signs are left as "
            "identified, and the robot, which can hold viscous, Coulomb and offset only, has none of them; "
            "predict() has all",
        ))  # fmt: skip
    elif not result.equation.is_direct_drive:
        notes.append(Message(
            "coupled_friction_left_out", "friction acts on coupled motors: the robot is without it, predict() has it",
        ))  # fmt: skip
    if not result.equation.has_rotor_inertias and result.equation.options.has_torques:
        notes.append(Message(
            "rotor_inertia_not_identified", "rotor inertias were not identified: they are part of the links, and Ia "
            "is 0",
        ))  # fmt: skip
    elif not result.equation.has_rotor_inertias:
        notes.append(Message(
            "rotor_inertia_from_robot", "forces on the base do not show rotors: Ia is the declared or nominal one, "
            "else 0",
        ))  # fmt: skip
    notes += [
        Message(note.code, "{note}; here the prior distinguishes them", **note.facts, note=note)
        for note in messages_in(result.notes)
        if note.code == "collinear_parameter"
    ]
    if result.equation.user_columns:
        columns = [column.name for column in result.equation.user_columns]
        notes.append(Message(
            "column_torques_left_out", "torques of the columns {columns} are in predict(), not in the robot",
            columns=columns,
        ))  # fmt: skip
    if result.unidentifiable:
        names = [item.name for item in result.unidentifiable]
        notes.append(Message(
            "unidentifiable_from_prior", "{parameters}: unidentifiable from the data, so they are those of bodies near "
            "the prior",
            parameters=names,
        ))  # fmt: skip
    return tuple(notes)


def _implausible_body_warnings(
    robot: Robot, problem: Problem, values: Array, sources: tuple[str, ...]
) -> tuple[Message, ...]:
    """Warnings on bodies that can exist and nobody would build: far from their prior, outside their link, dense."""
    warnings, prior = [], problem.values(problem.centre)
    for k in problem.links:
        first, name = problem.names.index("XX" + robot.links[k].label), robot.links[k].name
        x, ratio = values[first : first + 10], float(values[first + 9] / prior[first + 9])
        if not FEWEST_TIMES < ratio < MOST_TIMES:
            warnings.append(Message(
                "mass_far_from_prior", "link {link}: the data suggest {mass:.3g} kg, {ratio:.2g} times its prior "
                "({prior:.3g} kg by {source})", link=name, mass=float(x[9]), ratio=ratio, source=sources[k],
                prior=float(prior[first + 9]),
            ))  # fmt: skip
        if centre_is_outside(robot, k, x, prior[first : first + 10]):
            warnings.append(Message(
                "centre_outside_link", "link {link}: its centre of mass ({centre[0]:.3g}, {centre[1]:.3g}, "
                "{centre[2]:.3g}) m is outside of it", link=name, centre=(x[6:9] / x[9]).tolist(),
            ))  # fmt: skip
        if not 0.3 < density_ratio(x, prior[first : first + 10]) < 3.0:  # else it was known
            warnings += [found.about(f"link {name}") for found in describe_violations(x)]
    return tuple(warnings)


def _cost_warnings(
    result: Identification, bindings: tuple[Binding, ...], before: Array, after: Array, chance: float
) -> tuple[Message, ...]:
    """Warnings on what the cost of physical consistency says about the data or the model."""
    warnings = []
    with np.errstate(invalid="ignore", divide="ignore"):
        growth = after / before - 1.0
    worse = [(growth[c], name) for c, name in enumerate(result.channels) if growth[c] > WORSE and after[c] > 1e-6]
    if worse and bindings:
        where = [f"{name} by {100.0 * g:.0f} %" for g, name in sorted(worse, reverse=True)[:4]]
        first = "; ".join(str(binding) for binding in bindings[:3])
        why = (
            "noise does not explain it: a torque that is not modelled (friction, spring, cables, a payload), wrong "
            "gains or signs of sensors, or a wrong geometry does"
            if chance < UNLIKELY
            else "noise alone can explain it: the motion shows too little of these links"
        )
        warnings.append(Message(
            "bodies_fit_worse", "bodies fit worse than the estimate ({channels}): {bindings}; " + why, channels=where,
            bindings=first, chance=chance,
        ))  # fmt: skip
    elif bindings and chance < UNLIKELY:
        warnings.append(Message(
            "estimate_not_physical", "the identified parameters are physically impossible, and noise does not explain "
            "it "
            "({binding}); the fit hardly suffers, so a small effect that is not modelled is the likely cause",
            binding=bindings[0].reason, chance=chance,
        ))  # fmt: skip
    return tuple(warnings)
