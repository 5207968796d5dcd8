"""The same optimum as cvxpy finds on the problem as one would write it: standard parameters, no coordinates of ours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bodies import blind, identified
from dynid.estimation.identification import Identification
from dynid.physical.constraints import BodyConstraints, LinearRows
from dynid.physical.prior import Prior, find_prior
from dynid.physical.problem import ROTOR_WEIGHT, build_problem, identified_combinations, symmetric_from_svec
from dynid.physical.search import (
    GROWTH,
    MARGIN,
    MASS_WEIGHT,
    TIE,
    find_bodies_with_estimate,
    fit_bodies_to_data,
    search_bodies,
)
from dynid.robot.inertia import from_pseudo_inertia, pseudo_inertia
from dynid.robot.robot import Robot
from frictions import with_friction
from robots import random_tree

cp: Any = pytest.importorskip("cvxpy")


def pseudo_inertia_of(x: Any) -> Any:
    """Pseudo-inertia (4, 4) of ten cvxpy expressions."""
    xx, xy, xz, yy, yz, zz, mx, my, mz, m = (x[k] for k in range(10))
    rows = [
        [(yy + zz - xx) / 2, -xy, -xz, mx],
        [-xy, (xx + zz - yy) / 2, -yz, my],
        [-xz, -yz, (xx + yy - zz) / 2, mz],
        [mx, my, mz, m],
    ]
    return cp.bmat([[cp.reshape(e, (1, 1), order="C") for e in row] for row in rows])


def _wrong_by_half(robot: Robot, seed: int) -> Robot:
    """The robot with bodies that are lighter, heavier, thinner or wider than its own."""
    rng, links = np.random.default_rng(seed), []
    for link in robot.links:
        A = np.eye(4) + 0.25 * rng.standard_normal((4, 4)) / np.array([1.0, 1.0, 1.0, 3.0])
        links.append(replace(link, inertia=from_pseudo_inertia(A @ pseudo_inertia(link.inertia) @ A.T)))
    return replace(robot, links=tuple(links))


class Oracle:
    """Variables X and z, the sum of squares on all rows of the factors, and the conditions."""

    def __init__(self, result: Identification, prior: Prior) -> None:
        robot, base = result.robot, result.equation.base
        names = robot.parameter_names
        self.X, self.z = cp.Variable(len(names)), cp.Variable(len(result.names) - base.count)
        theta = cp.hstack([base.matrix @ self.X, self.z])
        assert result.names[: base.count] == base.names
        A = np.concatenate([f.R[:, :-1] / s for log in result.factors for f, s in zip(log, result.noise, strict=True)])
        b = np.concatenate([f.R[:, -1] / s for log in result.factors for f, s in zip(log, result.noise, strict=True)])
        self.theta, self.squares = theta, cp.sum_squares(A @ theta - b)
        self.conditions, self.distance, self.divergence = [], 0.0, 0.0
        for k, link in enumerate(robot.links):
            first = names.index("XX" + link.label)
            P0 = pseudo_inertia(prior.inertia[k])
            P = pseudo_inertia_of(self.X[first : first + 10])
            Li = np.linalg.inv(np.linalg.cholesky(P0))
            S = Li @ P @ Li.T
            self.distance += cp.sum_squares(S - np.eye(4))
            T = (0.5 * (S + S.T) - MARGIN * np.eye(4)) / (1.0 - MARGIN)
            ratio = self.X[first + 9] / prior.inertia[k, 9]
            self.divergence += cp.trace(T) - cp.log_det(T) - 4.0 + MASS_WEIGHT * (ratio - cp.log(ratio) - 1.0)
            self.conditions += [(S + S.T) / 2 >> MARGIN * np.eye(4), self.X[first + 9] <= prior.heaviest[k]]
            if "Ia" + link.label in names:
                Ia = self.X[names.index("Ia" + link.label)]
                self.distance += cp.square(ROTOR_WEIGHT * (Ia - prior.rotor[k]) / prior.rotor_scale[k])
                self.conditions.append(Ia >= 0)
        self.conditions.append(self.z >= 0)

    def solve(self, goal: Any, *conditions: Any, bounded: bool = True) -> float:
        problem = cp.Problem(cp.Minimize(goal), [*(self.conditions if bounded else ()), *conditions])
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10, max_iter=500)
        assert problem.status in ("optimal", "optimal_inaccurate")
        return float(problem.value)


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("seed", range(20))
def test_same_optimum(seed: int) -> None:
    robot = with_friction(random_tree(seed + 100, joints=2 + seed % 3))
    braked = tuple(replace(link, friction=link.friction[:2]) for link in robot.links)  # offsets may hide in masses
    robot = replace(robot, links=braked)
    noise = (0.02, 0.5, 3.0, 10.0)[seed % 4]
    result = identified(robot, noise=noise, seed=seed, friction=("viscous", "coulomb"))
    assert not result.unidentifiable
    prior = find_prior(blind(robot), _wrong_by_half(robot, seed))
    problem = build_problem(result, identified_combinations(result), prior, BodyConstraints())
    oracle = Oracle(result, prior)
    ours = problem.squares + problem.cost_over_estimate(fit_bodies_to_data(problem, TIE).x)
    assert_allclose(ours, oracle.solve(oracle.squares), rtol=1e-6, atol=0.01)  # of one square of the noise
    found = search_bodies(problem)
    assert problem.squares + problem.cost_over_estimate(found.x) <= ours * (1.0 + GROWTH + 1e-6)
    if found.best is None:  # the estimate is physical: bodies nearest to the prior among those that have it
        nearest = find_bodies_with_estimate(problem)
        assert nearest is not None
        mine = float(((problem.doubt * (nearest - problem.centre))[: -oracle.z.size] ** 2).sum())
        assert_allclose(mine, oracle.solve(oracle.distance, oracle.theta == result.values), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("seed", range(8))
def test_same_minimum_of_squares_and_divergence(seed: int) -> None:
    robot = random_tree(seed + 100, joints=2 + seed % 3)
    robot = replace(robot, links=tuple(replace(link, rotor=0.0) for link in robot.links))
    result = identified(robot, noise=(0.5, 3.0)[seed % 2], seed=seed, friction=(), rotor_inertia=False)
    prior = find_prior(blind(robot), _wrong_by_half(robot, seed))
    problem = build_problem(result, identified_combinations(result), prior, BodyConstraints())
    problem = replace(problem, below=LinearRows.from_rows([], problem.below.matrix.shape[1]))
    oracle = Oracle(result, prior)
    for weight in (0.01, 1.0, 100.0):
        found = search_bodies(problem, weight)
        T = [(S - MARGIN * np.eye(4)) / (1.0 - MARGIN) for S in map(symmetric_from_svec, found.x.reshape(-1, 10))]
        values, names = problem.values(found.x), robot.parameter_names
        ratios = np.array([values[names.index("M" + link.label)] for link in robot.links]) / prior.inertia[:, 9]
        divergence = sum(np.trace(t) - np.linalg.slogdet(t)[1] - 4.0 for t in T)
        divergence += MASS_WEIGHT * float((ratios - np.log(ratios) - 1.0).sum())
        mine = problem.squares + problem.cost_over_estimate(found.x) + weight * divergence
        best = oracle.solve(oracle.squares + weight * oracle.divergence, bounded=False)
        assert_allclose(mine, best, rtol=1e-6, atol=1e-4 * weight)
