"""Exciting motions: an exact gradient against differences, a search against SLSQP, whole designs, and the command."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
from campaign.loops import hpr_closure, sr400_closure
from campaign.robots import ur5, with_share_of_effort

from bench.__main__ import ENVIRONMENT
from bench.pinocchio_loop import PinocchioLoop
from bench.startup import children_cpu, find_help
from bench.timing import ROUNDS, Cell, Table, Verdict, best_of, on_one_core
from dynid.dynamics.kernels.threads import use_threads
from dynid.excitation.criteria import BaseRows, SpectralCriterion
from dynid.excitation.design import PERIOD, design_excitation, pareto_front
from dynid.excitation.excitation import Excitation
from dynid.excitation.fourier import Basis
from dynid.excitation.fourier_search import (
    INSTANTS,
    SAMPLES,
    STAGES,
    BoundedCoefficients,
    FourierProblem,
    SearchRound,
    random_coefficients,
    scale_to_limits,
    search_series_from_start,
)
from dynid.robot.inertia import from_pinocchio
from dynid.robot.load import load_robot
from dynid.robot.motion import Motion
from dynid.robot.transform import Array

ROBOT = "panda"
HARMONICS = 5
SEED = 0
"""Of the start; the default of the command."""

GRADIENT_SAMPLES = 200
SHARPNESS = 16.0
STEP = 1e-6
DIFFERENCED = 7
"""Coefficients differenced in a timed round, one per joint; the time for all is scaled from theirs."""

SEARCH_ROUNDS = 3
BUDGET = 30.0
"""CPU seconds after which an SLSQP run ends, converged or not."""
PATIENCE = 1000
"""Iterations of SLSQP on one objective; the same stages as dynid's have dynid's numbers of iterations."""
TOLERANCE = 1e-9
ALONE = 8.0
"""Sharpness of a single smooth objective: SLSQP's quickest way to a fair, not a good, condition number."""
GRID = 50
"""Instants at which SLSQP is given the limits."""

PROCESSES = 2


def tables() -> Iterator[Table]:
    """Measure and return the tables, one by one."""
    use_threads(1)
    for measure in (gradient, search, designs, closures, budgets, command):
        with kept_memory():
            table = measure()
        yield table


@contextmanager
def kept_memory() -> Iterator[None]:
    """Let glibc hand freed blocks out again, as it does for users; elsewhere nothing changes.

    Fresh pages for every array, as the other topics want them, are not what a search of many small matrices meets.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        yield
        return
    mmap_threshold, trim_threshold = -3, -1  # malloc.h
    mallopt(mmap_threshold, 32 << 20)
    mallopt(trim_threshold, 64 << 20)
    try:
        yield
    finally:
        mallopt(mmap_threshold, int(ENVIRONMENT["MALLOC_MMAP_THRESHOLD_"]))
        mallopt(trim_threshold, int(ENVIRONMENT["MALLOC_TRIM_THRESHOLD_"]))


def panda() -> FourierProblem:
    """Return the problem that `dynid excite panda` solves: 43 base columns, 77 coefficients."""
    robot = load_robot(ROBOT)
    rows = BaseRows.for_robot(robot, model="torque", rotor_inertia=False, friction=())
    return FourierProblem(rows, "condition", (1.0, 0.0), None, robot.limits, None, PERIOD, HARMONICS)


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """The smooth logarithm of the condition number over instants t of a period, as a function of coefficients."""

    problem: FourierProblem
    t: Array
    basis: Basis
    judge: SpectralCriterion

    @staticmethod
    def of(problem: FourierProblem, samples: int) -> Objective:
        """Prepare what does not depend on the coefficients."""
        judge = problem.criterion_for(samples * problem.rows.rows_per_sample)
        if not isinstance(judge, SpectralCriterion):
            raise TypeError(f"'{problem.criterion}' is not a function of singular values")
        return Objective(problem, *problem.sample_instants(samples), judge)

    def motion(self, y: Array) -> Motion:
        """Motion of coefficients y (n, 2 H + 1)."""
        return self.problem.motion_of_coefficients(y, self.basis, self.t)

    def value(self, W: Array, sharpness: float) -> float:
        """The value alone, at the least cost: contenders without gradients are not to pay for slopes."""
        if np.isinf(sharpness):
            return float(np.log(self.judge.value(W)))
        lam = np.linalg.eigvalsh(W.T @ W)
        return self.judge.stand_in(np.maximum(lam, lam[-1] * 1e-15), sharpness)[0]

    def gradient(self, y: Array) -> Array:
        """Exact gradient (n, 2 H + 1)."""
        motion, rows = self.motion(y), self.problem.rows
        slope = self.judge.smooth_value(rows.matrix(motion), SHARPNESS).gradient
        by_q, by_v, by_a = rows.adjoint(motion, slope)
        return np.asarray(by_q.T @ self.basis.q + by_v.T @ self.basis.v + by_a.T @ self.basis.a)


class Differences:
    """Central differences of the same value, each through a loop over pinocchio's regressor."""

    def __init__(self, objective: Objective) -> None:
        robot = objective.problem.rows.robot
        self.objective = objective
        self.loop = PinocchioLoop(robot)
        self.out = np.empty((len(objective.t), robot.n, 10 * robot.n))
        # where each base column stands in pinocchio's order: the place that from_pinocchio takes it from
        places = from_pinocchio(np.arange(10.0 * robot.n).reshape(robot.n, 10)).ravel()
        self.columns = places.astype(np.int64)[objective.problem.rows.kept]

    def matrix(self, y: Array) -> Array:
        """Base columns (rows, b)."""
        self.loop.write_regressor(self.objective.motion(y), self.out)
        W: Array = self.out.reshape(-1, self.out.shape[2])[:, self.columns]
        return W

    def gradient(self, y: Array, entries: range) -> Array:
        """Derivatives by some of the coefficients."""
        slopes = []
        for k in entries:
            above, below = y.copy(), y.copy()
            above.flat[k] += STEP
            below.flat[k] -= STEP
            up, down = (self.objective.value(self.matrix(x), SHARPNESS) for x in (above, below))
            slopes.append((up - down) / (2.0 * STEP))
        return np.array(slopes)

    def check(self, y: Array) -> None:
        """Raise unless both compute the same: a timing of different work would say nothing."""
        value = self.objective.judge.value
        ours, theirs = value(self.objective.problem.rows.matrix(self.objective.motion(y))), value(self.matrix(y))
        np.testing.assert_allclose(theirs, ours, rtol=1e-9)
        np.testing.assert_allclose(self.gradient(y, range(y.size)), self.objective.gradient(y).ravel(), atol=1e-5)


def gradient() -> Table:
    """One gradient by all coefficients."""
    problem = panda()
    y = scale_to_limits(problem, random_coefficients(problem, SEED))[1]
    objective = Objective.of(problem, GRADIENT_SAMPLES)
    differences = Differences(objective)
    differences.check(y)
    some = range(0, y.size, y.size // DIFFERENCED)
    runs: dict[str, Callable[[], object]] = {
        "matrix": lambda: problem.rows.matrix(objective.motion(y)),
        "exact": lambda: objective.gradient(y),
        "differences": lambda: differences.gradient(y, some),
    }
    spent = best_of(ROUNDS, {name: partial(pinned, run) for name, run in runs.items()})
    exact, differenced = spent["exact"].cpu * 1e3, spent["differences"].cpu * 1e3 * y.size / len(some)
    rows: tuple[tuple[Cell, ...], ...] = (
        ("dynid, matrix alone", 1, spent["matrix"].cpu * 1e3, ""),
        ("dynid, exact gradient", 1, exact, ""),
        ("differences of a pinocchio loop", 2 * y.size, differenced, Verdict(differenced / exact, 40.0, least=True)),
    )
    return Table(
        f"Gradient of the condition number: {ROBOT}, {y.size} coefficients, {GRADIENT_SAMPLES} samples, "
        f"{len(problem.rows.names)} base columns, milliseconds",
        ("how", "evaluations", "CPU", "differences / exact"),
        rows,
        f"Smooth condition number of sharpness {SHARPNESS:g}; checked beforehand: the same condition number to 1e-9, "
        f"the same gradient to 1e-5. One core, one thread; best of {ROUNDS} interleaved rounds. "
        f"Differences: central, {len(some)} of {y.size} coefficients per round, scaled.",
    )


def pinned(run: Callable[[], object]) -> None:
    """Call on one core."""
    with on_one_core():
        run()


@dataclass(frozen=True, slots=True)
class Course:
    """CPU seconds since the start, and the condition number of the valid motion there."""

    points: tuple[tuple[float, float], ...]

    @property
    def best(self) -> float:
        """Lowest condition number on the way."""
        return min(condition for _, condition in self.points)

    @property
    def end(self) -> float:
        """Seconds until the search ended."""
        return self.points[-1][0]

    def time_to(self, condition: float) -> float:
        """Seconds until it is first reached."""
        return next(seconds for seconds, reached in self.points if reached <= condition)

    @staticmethod
    def of(problem: FourierProblem, visited: list[tuple[float, Array]], start: float) -> Course:
        """Judge what was visited after the clock has stopped: exact peaks taken to the limits, true value."""
        return Course(tuple((seconds - start, scale_to_limits(problem, y)[0]) for seconds, y in visited))


class RecordedProblem(FourierProblem):
    """A problem that remembers when which coefficients were tried."""

    __slots__ = ("visited",)
    visited: list[tuple[float, Array]]

    @staticmethod
    def of(p: FourierProblem) -> RecordedProblem:
        """Copy a problem."""
        copy = RecordedProblem(p.rows, p.criterion, p.weights, p.noise, p.limits, p.effort, p.period, p.harmonics)
        object.__setattr__(copy, "visited", [])
        return copy

    def motion_of_coefficients(self, y: Array, basis: Basis, t: Array) -> Motion:
        """Motion of coefficients y; takes about a microsecond more."""
        self.visited.append((time.process_time(), y))
        return FourierProblem.motion_of_coefficients(self, y, basis, t)


def search_by_dynid(problem: FourierProblem) -> Course:
    """The search of the command, one start."""
    recorded = RecordedProblem.of(problem)
    start = time.process_time()
    with on_one_core():
        search_series_from_start(SearchRound(recorded), SEED, lambda: np.inf)
    # The first motion, of zeros, only sizes the matrix. An evaluation is over when the next begins.
    tried = recorded.visited[1:]
    over = [seconds for seconds, _ in tried[1:]] + [time.process_time()]
    return Course.of(problem, [(seconds, y) for seconds, (_, y) in zip(over, tried, strict=True)], start)


class OutOfBudgetError(Exception):
    """An SLSQP run has used its CPU time."""


@dataclass(frozen=True, slots=True, eq=False)
class Slsqp:
    """A way to use SLSQP: stages as dynid's, limits as constraints or by dynid's map, and the target where one is set.

    Stages are (sharpness of the criterion, sharpness of the map, iterations); infinite: the condition number itself.
    """

    objective: str
    stages: tuple[tuple[float, float, int], ...]
    constrained: bool
    target: float | None

    @property
    def limits(self) -> str:
        """How it keeps the limits, in words."""
        return f"constraints, {GRID} instants" if self.constrained else "dynid's map"

    def run(self, problem: FourierProblem) -> Course:
        """Search from dynid's start."""
        objective = Objective.of(problem, SAMPLES)
        bounded = BoundedCoefficients.from_limits(
            problem.sample_instants(INSTANTS * problem.harmonics)[1], problem.limits
        )
        constraints = limits_on_grid(problem) if self.constrained else ()
        visited: list[tuple[float, Array]] = []
        start = time.process_time()
        x = random_coefficients(problem, SEED)
        shape = x.shape
        if self.constrained:
            x = bounded.to_valid_coefficients(x, STAGES[0][1])[0]

        def coefficients(flat: Array, tight: float) -> Array:
            y = flat.reshape(shape)
            return y.copy() if self.constrained else bounded.to_valid_coefficients(y, tight)[0]

        def value(flat: Array, sharp: float, tight: float) -> float:
            return objective.value(problem.rows.matrix(objective.motion(coefficients(flat, tight))), sharp)

        def remember(tight: float, flat: Array) -> None:
            visited.append((time.process_time(), coefficients(flat, tight)))
            if visited[-1][0] - start > BUDGET:
                raise OutOfBudgetError

        try:
            with on_one_core():
                for sharp, tight, steps in self.stages:
                    found = scipy.optimize.minimize(
                        value, x.ravel(), args=(sharp, tight), method="SLSQP", constraints=constraints,
                        callback=partial(remember, tight), options={"maxiter": steps, "ftol": TOLERANCE},
                    )  # fmt: skip
                    x = found.x
        except OutOfBudgetError:
            pass
        return Course.of(problem, visited, start)


def limits_on_grid(problem: FourierProblem) -> tuple[Any, ...]:
    """Linear constraints 1 -+ use >= 0 with their exact, constant jacobian."""
    use = scipy.linalg.block_diag(
        *BoundedCoefficients.from_limits(problem.sample_instants(GRID)[1], problem.limits).use
    )
    both = np.vstack([use, -use])
    return ({"type": "ineq", "fun": lambda flat: 1.0 - both @ flat, "jac": lambda flat: -both},)


def search() -> Table:
    """Time to the same condition number, from the same start."""
    problem = panda()
    search_by_dynid(problem)
    ours = sorted((search_by_dynid(problem) for _ in range(SEARCH_ROUNDS)), key=lambda c: c.end)[SEARCH_ROUNDS // 2]
    ways = (
        Slsqp("the same stages", STAGES, True, 12.0),
        Slsqp("the same stages", STAGES, False, 12.0),
        Slsqp("condition number itself", ((np.inf, np.inf, PATIENCE),), True, 12.0),
        Slsqp(f"sharpness {ALONE:g} alone", ((ALONE, np.inf, PATIENCE),), True, None),
    )
    rows: list[tuple[Cell, ...]] = [("dynid", "stages", "dynid's map", ours.best, ours.end, "", "", "", "")]
    for way in ways:
        theirs = way.run(problem)
        same = max(ours.best, theirs.best)
        mine, other = ours.time_to(same), theirs.time_to(same)
        verdict = Verdict(other / mine, way.target, least=True)
        rows.append(("SLSQP", way.objective, way.limits, theirs.best, theirs.end, round(same, 3), mine, other, verdict))
    return Table(
        f"Time to the same condition number: {ROBOT}, {SAMPLES} samples, one start, seconds",
        ("who", "objective", "limits", "best", "end", "same", "dynid to it", "SLSQP to it", "SLSQP / dynid"),
        tuple(rows),
        f"'same': the worse of the two best condition numbers, each of the motion with its exact peaks taken to the "
        f"limits, judged after the clock stopped. SLSQP: from dynid's start, 2-point differences through dynid's "
        f"matrix, exact jacobians of the limits, at most {BUDGET:g} s. CPU time on one core; dynid the median "
        f"of {SEARCH_ROUNDS} runs, SLSQP one run. No target for a single sharpness: dynid does not end with it.",
    )


PAPERS: dict[str, Any] = {"criterion": "condition", "rotor_inertia": False, "friction": (), "margin": 0.0}
"""What the papers' figures are taken with."""


def designs() -> Table:
    """Whole designs, what they reach and what they cost."""
    rows: list[tuple[Cell, ...]] = []

    def measure(name: str, figure: Callable[[], float], best: float | None, seconds: float) -> None:
        """Add a design: its figure and the CPU seconds that it takes."""
        start = time.process_time()
        with on_one_core():
            reached = figure()
        rows.append((name, Verdict(reached, best), Verdict(time.process_time() - start, seconds)))

    arm = load_robot(ROBOT)
    measure("Panda, condition", lambda: design_excitation(arm, **PAPERS).condition, 7.4, 8.0)
    start = time.process_time()
    bounded = design_excitation(arm, bound=True, seed=SEED)
    whole = time.process_time() - start
    start = time.process_time()
    design_excitation(arm, seed=SEED)
    plain = time.process_time() - start
    rows.append(("Panda, v: variance over the bound's", Verdict(bounded.excess_over_bound or np.inf, 4.6), plain))
    rows.append(("Panda, bound of v: duality gap", Verdict(bounded.least.gap if bounded.least else np.inf, 0.05),
                 Verdict(whole - plain, 60.0)))  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        robot = ur5(Path(folder))
        for share in (1.0, 0.3):
            design = partial(
                design_excitation, robot, shape="points", limits=with_share_of_effort(robot, share), starts=1
            )

            def condition(design: Callable[[], Excitation] = design) -> float:
                return design().condition

            measure(f"UR5, points, {share:.0%} of its efforts: condition", condition, 4.0, 60.0)
    narrow = {"position": [[-np.pi / 2, np.pi / 2]] * 3, "velocity": 0.8}
    three = partial(design_excitation, load_robot("gautier3"), shape="points", points=30, margin=0.0, limits=narrow)
    measure("front of condition and scaling, 3 joints: condition at S <= 175", lambda: min(
        (p.excitation.condition for p in pareto_front(three) if p.excitation.scaling <= 175.0), default=np.inf
    ), 11.16, 60.0)  # fmt: skip
    return Table(
        "Whole designs: what is reached, CPU seconds of one core",
        ("design", "figure", "CPU"),
        tuple(rows),
        "One run each, default starts but for the UR5 (1), seed 0; kernels compiled before. The front has its own time "
        "budget; its limits are 90 degrees and 0.8 rad/s, 30 rows.",
    )


def closures() -> Table:
    """One gradient of robots with loops that are solved numerically."""
    rows: list[tuple[Cell, ...]] = []
    for robot, target in ((load_robot("slider_crank"), 2.0), (hpr_closure(), 14.0), (sr400_closure(), 14.0)):
        base = BaseRows.for_robot(robot, model="torque", rotor_inertia=True, friction=())
        rng = np.random.default_rng(0)
        at = robot.closures[0].at
        q = (np.zeros(robot.n) if at is None else at) + rng.uniform(-0.1, 0.1, (SAMPLES, robot.n))
        motion = Motion(np.arange(float(SAMPLES)), q, *rng.uniform(-1.0, 1.0, (2, SAMPLES, robot.n)))
        weights = rng.standard_normal(base.matrix(motion).shape)

        def once(base: BaseRows = base, motion: Motion = motion, weights: Array = weights) -> object:
            along = base.rows_along(motion)
            return along.matrix(), along.adjoint(weights)

        spent = best_of(ROUNDS, {"gradient": partial(pinned, once)})["gradient"].cpu * 1e3
        rows.append((robot.name, robot.n, Verdict(spent, target)))
    return Table(
        f"Matrix and gradient of robots with closures, {SAMPLES} samples, milliseconds",
        ("robot", "active joints", "CPU"),
        tuple(rows),
        f"Best of {ROUNDS} rounds on one core. Targets: a fifth of what they took with Taylor polynomials.",
    )


def budgets() -> Table:
    """How well time budgets are kept."""
    limits = {"position": [[-2.0, 2.0]] * 6, "velocity": 2.0, "acceleration": 8.0}
    arm, puma = load_robot(ROBOT), load_robot("puma560")
    cases: tuple[tuple[str, Callable[..., object]], ...] = (
        ("Panda, v", partial(design_excitation, arm)),
        ("Panda, condition", partial(design_excitation, arm, **PAPERS)),
        ("PUMA 560, e", partial(design_excitation, puma, criterion="e", limits=limits)),
        ("PUMA 560, points", partial(design_excitation, puma, shape="points", limits=limits)),
    )
    rows: list[tuple[Cell, ...]] = []
    for name, design in cases:
        for budget in (2.0, 5.0):
            start = time.monotonic()
            design(time_budget=budget)
            rows.append((name, budget, Verdict((time.monotonic() - start) / budget, 1.1)))
    return Table(
        "Time budgets: seconds on the wall's clock over the budget",
        ("design", "budget", "taken / budget"),
        tuple(rows),
        "One run each, kernels compiled before. Means something on an idle machine only.",
    )


def command() -> Table:
    """The command as a whole."""
    script = find_help()
    if script is None:
        raise RuntimeError("there is no command line")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "traj.csv"
        run = [*script[:-1], "excite", ROBOT, "--out", str(out)]
        spent = [process_cpu(run) for _ in range(PROCESSES + 1)]
        if not out.exists():
            raise RuntimeError(f"'{' '.join(run)}' wrote no file")
    best = min(cpu for cpu, _ in spent[1:]), min(wall for _, wall in spent[1:])
    return Table(
        "A fresh process, seconds",
        ("what", "CPU", "wall clock"),
        ((f"dynid excite {ROBOT} --out traj.csv", Verdict(best[0], 20.0), best[1]),),
        f"Best of {PROCESSES} processes after one that fills the cache of kernels: user and system time of the process "
        "and all of its children, in the user's environment (all threads and cores).",
    )


def process_cpu(run: list[str]) -> tuple[float, float]:
    """CPU of a command with its children and seconds on the wall's clock, without this process's settings."""
    environment = {name: value for name, value in os.environ.items() if name not in ENVIRONMENT}
    cpu, wall = children_cpu(), time.perf_counter()
    subprocess.run(run, check=True, stdout=subprocess.DEVNULL, env=environment, timeout=3600)
    return children_cpu() - cpu, time.perf_counter() - wall
