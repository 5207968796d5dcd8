"""Base parameters: every method on one robot, a humanoid, robots with loops, and the growth of the recursion with n."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from campaign.loops import hpr_closure, spatial_loop, sr400_closure

from bench.robots import chain_of, robot_of
from bench.timing import ROUNDS, Table, Verdict, best_of, on_one_core
from dynid.identifiability.base_parameters import base_parameters
from dynid.identifiability.exact_geometry import many_digits
from dynid.identifiability.loops import find_by_ball_arithmetic
from dynid.identifiability.nullspace import Measurements, find_conditions
from dynid.identifiability.relations import relations
from dynid.identifiability.rules import find_by_rules
from dynid.robot.load import load_robot
from dynid.robot.robot import Robot

GROWTH = (6, 12, 24, 48)
EVEN = 1.5
"""Time per joint of the longest over that of the shortest chain that still passes for linear."""
REPEATS = 5
"""Calls per timing of the growth: the shortest chain alone would be near the clock's jitter."""

Run = Callable[[], int]
"""One call; returns how many base parameters it found."""


def tables() -> Iterator[Table]:
    """Measure and return the tables, one by one."""
    yield methods()
    yield growth()


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A row of the table: whose, how, the call, and its limit in ms where one was set."""

    robot: str
    what: str
    run: Run
    limit: float | None = None


def methods() -> Table:
    """All methods for PUMA 560, the recursion for a humanoid, the exact method for robots with loops."""
    every = [*puma_tasks(load_robot("puma560")), humanoid_task(), *loop_tasks()]
    tasks = {f"{task.robot} {task.what}": task for task in every}
    spent = best_of(ROUNDS, {name: pinned(task.run) for name, task in tasks.items()})
    rows = tuple(
        (task.robot, task.what, task.run(), Verdict(spent[name].cpu * 1e3, task.limit)) for name, task in tasks.items()
    )
    return Table(
        "Base parameters, milliseconds",
        ("robot", "method", "found", "CPU"),
        rows,
        f"With rotor inertias, warm; robots loaded beforehand. CPU time on one core; best of {ROUNDS} interleaved "
        "rounds.",
    )


def puma_tasks(robot: Robot) -> list[Task]:
    """Everything that a small arm is asked for."""
    name = robot.name
    sampled = [Task(name, f"qr, {m}", found(robot, "qr", model=m), 20.0) for m in ("torque", "static", "energy")]
    return [
        *sampled,
        Task(name, "svd, torque", found(robot, "svd")),
        Task(name, "nullspace", found(robot, "nullspace")),
        Task(name, "nullspace with relations", found(robot, "nullspace", relations=True), 40.0),
        Task(name, "rules, numeric", found(robot, "rules"), 30.0),
        Task(name, "rules, symbolic with text", lambda: symbolic_rules(robot), 1000.0),
    ]


def humanoid_task() -> Task:
    """A tree of 30 joints."""
    return Task("tree of 30 joints", "nullspace", found(robot_of(30), "nullspace"), 500.0)


def loop_tasks() -> list[Task]:
    """Robots with loops, as couplings and as closures."""
    coupled = [load_robot(name) for name in ("hpr", "sr400")]
    implicit = [load_robot("slider_crank"), hpr_closure(), sr400_closure(), spatial_loop(4)]
    tasks = [Task(robot.name, "exact, couplings", exact(robot), 1000.0) for robot in coupled]
    return tasks + [Task(robot.name, "exact, closure", exact(robot), 1000.0) for robot in implicit]


def exact(robot: Robot) -> Run:
    """Return a call of the exact method that remembers nothing."""

    def run() -> int:
        find_by_ball_arithmetic.cache_clear()
        return base_parameters(robot, method="exact").count

    return run


def found(robot: Robot, method: str, *, model: str = "torque", relations: bool = False) -> Run:
    """Return a call of the front door, with the relations in words if asked for."""

    def run() -> int:
        base = base_parameters(robot, method=method, model=model, rotor_inertia=True)
        if relations and not base.relations:
            raise RuntimeError(f"'{robot.name}' has no relations: their time would say nothing")
        return base.count

    return run


def symbolic_rules(robot: Robot) -> int:
    """Find the relations in the symbols of the table, and write them down."""
    result = find_by_rules(robot, rotor_inertia=True, symbolic=True)
    if not relations(result.regrouping.kept, result.coefficients, robot.parameter_names):
        raise RuntimeError(f"'{robot.name}' has no relations: their time would say nothing")
    return len(result.regrouping.kept)


def pinned(run: Run, repeats: int = 1) -> Callable[[], None]:
    """Return so many calls on one core."""

    def on_core() -> None:
        with on_one_core():
            for _ in range(repeats):
                run()

    return on_core


def growth() -> Table:
    """Time per joint of the recursion as a chain grows, without and with the matrix of its relations.

    The recursion itself is linear. Its relations are not: the masses of all links beyond stand in every link's
    sums, so a chain's matrix has of the order of n^2 entries, whoever writes them.
    """
    robots = {n: chain_of(n) for n in GROWTH}
    tasks: dict[str, Run] = {}
    for n, robot in robots.items():
        tasks[f"ranks {n}"] = ranks(robot)
        tasks[f"whole {n}"] = found(robot, "nullspace")
    spent = best_of(ROUNDS, {name: pinned(run, REPEATS) for name, run in tasks.items()})
    ms = {name: time.cpu / REPEATS * 1e3 for name, time in spent.items()}
    first, last = GROWTH[0], GROWTH[-1]
    ratio = ms[f"ranks {last}"] / last / (ms[f"ranks {first}"] / first)
    rows = tuple(
        (
            n,
            tasks[f"ranks {n}"](),
            ms[f"ranks {n}"],
            ms[f"ranks {n}"] / n,
            ms[f"whole {n}"],
            entries(robots[n]),
            Verdict(ratio, EVEN) if n == last else "",
        )
        for n in GROWTH
    )
    return Table(
        "Growth with n: nullspace, serial chains, milliseconds",
        ("n", "found", "ranks", "ranks per joint", "with matrix", "nonzero entries", "ranks per joint, last / first"),
        rows,
        f"Alternating right angles, all lengths nonzero, with rotor inertias. CPU time on one core; best of {ROUNDS} "
        f"interleaved rounds of {REPEATS} calls. Linear growth gives 1 in the last column, quadratic {last // first}.",
    )


def ranks(robot: Robot) -> Run:
    """Return the recursion alone: every link's conditions and how many parameters it keeps."""
    rotors = frozenset(robot.active_links)

    def run() -> int:
        with many_digits():
            return sum(len(c.rows.rows) for c in find_conditions(robot, Measurements(torques=True), rotors=rotors))

    return run


def entries(robot: Robot) -> int:
    """Nonzero entries of the regrouping matrix."""
    return int((base_parameters(robot, method="nullspace").matrix != 0.0).sum())
