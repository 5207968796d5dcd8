"""Physical parameters: warm calls on 7 and 30 links, and cvxpy on the problem as one writes it, sample by sample."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bench.identification import recorded
from bench.robots import robot_of
from bench.timing import Table, Verdict, best_of, on_one_core
from dynid.dynamics.friction import PLAIN
from dynid.dynamics.regressor import regressor
from dynid.estimation.identification import Identification
from dynid.estimation.identify import identify
from dynid.logs.log import Log
from dynid.logs.simulate import simulate
from dynid.physical.find import physical_parameters
from dynid.physical.prior import bodies_from_sizes, find_prior
from dynid.physical.problem import identified_combinations, scale_prior_to_data
from dynid.physical.search import MARGIN
from dynid.robot.inertia import pseudo_inertia
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot

ROUNDS = 5
SAMPLES = 10_000


def tables() -> Iterator[Table]:
    """Table of warm calls, table of cvxpy."""
    yield warm()
    yield beside_cvxpy()


def warm() -> Table:
    """Calls on results that are there; quiet data leave the estimate physical, noisy ones do not."""
    rows = []
    for joints, limit in ((7, 400.0), (30, 4000.0)):
        for noise in (1e-4, 5.0):
            result = identified(joints, noise)
            found = physical_parameters(result)
            with on_one_core():
                spent = best_of(ROUNDS, {"call": partial(call, result)})["call"]
            what = "bodies had to give way" if found.is_changed else "estimate is physical"
            rows.append((joints, len(result.names), what, Verdict(spent.wall * 1e3, limit)))
    return Table(
        "Physical parameters from a result",
        ("links", "identified", "data", "ms"),
        tuple(rows),
        f"Wall time on one core, best of {ROUNDS}.",
    )


def beside_cvxpy() -> Table:
    """The best fit of bodies from 1e4 samples of 7 joints: from the result's factors, and by cvxpy from all rows."""
    robot, log = recorded(SAMPLES)
    assert log.tau is not None
    noisy = log.tau + 3.0 * np.random.default_rng(0).standard_normal(log.q.shape)
    log = Log(log.t, log.q, v=log.v, a=log.a, tau=noisy)
    blind = robot.with_parameters(np.full(len(robot.parameter_names), np.nan))

    def run() -> Identification:
        return identify(blind, log, friction=PLAIN, intervals="white")

    result = run()
    ways = {
        "physical": lambda: use(physical_parameters(result)),
        "both": lambda: use(physical_parameters(run())),
        "cvxpy": lambda: use(solve_all_rows(result, log)),
    }
    with on_one_core():
        spent = best_of(1, ways)
    ratios = {name: spent["cvxpy"].wall / spent[name].wall for name in ("physical", "both")}
    return Table(
        f"Physical parameters of 7 links, {SAMPLES:,} samples",
        ("way", "s", "cvxpy takes so many times as long"),
        (
            ("dynid, from the factors of a result", spent["physical"].wall, Verdict(ratios["physical"], 20.0, True)),
            ("dynid, identification from the log included", spent["both"].wall, Verdict(ratios["both"], None)),
            ("cvxpy with Clarabel, all rows", spent["cvxpy"].wall, "1"),
        ),
        "Wall time on one core. cvxpy's includes its own compiling of the problem, not writing the regressor's rows.",
    )


def identified(joints: int, noise: float) -> Identification:
    """Bodies of the links' sizes, a Fourier series of 10 s at 100 Hz, plain friction."""
    rng, robot = np.random.default_rng(0), robot_of(joints)
    bodies = [np.append(x * rng.uniform(0.5, 2.0), 0.1) for x in bodies_from_sizes(robot)]
    known, t = robot.with_parameters(np.concatenate(bodies)), np.arange(1000) / 100.0
    braked = (("viscous", 1.0), ("coulomb", 1.0), ("offset", 0.1))
    known = replace(known, links=tuple(replace(link, friction=braked) for link in known.links))
    q, v, a = (np.zeros((len(t), joints)) for _ in range(3))
    for k in range(1, 6):
        w = 2.0 * np.pi * k / 10.0
        A, B = 0.5 * rng.standard_normal((2, joints)) / np.sqrt(k)
        s, c = np.sin(w * t)[:, None], np.cos(w * t)[:, None]
        q, v, a = q + A * s + B * c, v + w * (A * c - B * s), a - w**2 * (A * s + B * c)
    log = simulate(known, Motion(t, q, v, a), noise=noise)
    return identify(robot, log, friction=PLAIN, intervals="white")


_ROWS: dict[int, Any] = {}


def solve_all_rows(result: Identification, log: Log) -> float:
    """What one writes today: every sample's row, standard parameters, pseudo-inertias positive definite."""
    import cvxpy as cp

    robot: Robot = result.robot
    assert log.v is not None
    assert log.a is not None
    assert log.tau is not None
    N, n = log.q.shape
    if N not in _ROWS:
        W = regressor(robot, Motion(log.t, log.q, log.v, log.a)).matrix.reshape(N, n, -1)
        F = np.zeros((N, n, 3 * n))
        for j in range(n):
            F[:, j, j], F[:, j, n + j], F[:, j, 2 * n + j] = log.v[:, j], np.sign(log.v[:, j]), 1.0
        weight = 1.0 / result.noise[:, None]
        _ROWS[N] = (np.concatenate([W, F], axis=2) * weight).reshape(N * n, -1), (log.tau / result.noise).ravel()
    A, b = _ROWS[N]
    x, prior, conditions = (
        cp.Variable(A.shape[1]),
        scale_prior_to_data(result, identified_combinations(result), find_prior(robot, None)),
        [],
    )
    for k, link in enumerate(robot.links):
        first = robot.parameter_names.index("XX" + link.label)
        basis = [pseudo_inertia(unit) for unit in np.eye(10)]
        P = sum(x[first + i] * basis[i] for i in range(10))
        conditions += [P >> MARGIN * pseudo_inertia(prior.inertia[k]), x[first + 9] <= prior.heaviest[k]]
        conditions.append(x[robot.parameter_names.index("Ia" + link.label)] >= 0)
    rotors = len(robot.parameter_names)
    conditions.append(x[rotors : rotors + 2 * n] >= 0)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(A @ x - b)), conditions)
    problem.solve(solver="CLARABEL")
    return float(problem.value)


def call(result: Identification) -> None:
    """One warm call."""
    physical_parameters(result)


def use(result: object) -> None:
    """Take a result and forget it."""
