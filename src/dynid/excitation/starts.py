"""Random points inside the limits: uniform ones, and the slow walks that make good starts."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dynid.dynamics.kernels.threads import is_only_caller, thread_count, threads_inside_block
from dynid.errors import ExcitationError
from dynid.robot.robot import Limits, Robot
from dynid.robot.transform import Array

STEP = 0.2
"""Deviation of a walk's step, as a part of the half range."""


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """What points may use: mid-range, reach to both sides, speed, acceleration (inf where unlimited), (n,) each."""

    middle: Array
    reach: Array
    speed: Array
    acceleration: Array

    @staticmethod
    def of(robot: Robot, limits: Limits) -> Box:
        """Finite positions and speeds: a full turn where nothing limits a revolute joint, no speed beyond its reach."""
        prismatic = np.array([robot.links[k].kind == "prismatic" for k in robot.active_links])
        lower, upper = (np.array(side) for side in limits.position.T)
        free = ~(np.isfinite(lower) & np.isfinite(upper))
        _refuse_joints(robot, free & prismatic, "a prismatic joint needs both position limits")
        turn = np.pi
        lower = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper - 2.0 * turn, -turn))
        upper = np.where(np.isfinite(upper), upper, lower + 2.0 * turn)
        reachable = np.sqrt(limits.acceleration * (upper - lower))
        speed = np.minimum(limits.velocity, reachable)
        _refuse_joints(robot, ~np.isfinite(speed), "points need a velocity limit (or an acceleration limit)")
        return Box(0.5 * (lower + upper), 0.5 * (upper - lower), speed, np.array(limits.acceleration))

    @property
    def usual_segment_time(self) -> float:
        """A usual time from point to point in s: a walk's step at full speed, or reversing the speed twice."""
        return float(max((4.0 * self.speed / self.acceleration).max(), (2.0 * STEP * self.reach / self.speed).max()))

    def describe_narrowest(self, robot: Robot) -> str:
        """Say which joint can move least, and which limit stops it."""
        room = np.stack([self.reach, self.speed])
        kind, j = np.unravel_index(int(np.argmin(room)), room.shape)
        forced = self.speed[j] >= np.sqrt(2.0 * self.acceleration[j] * self.reach[j])
        limit = "position" if kind == 0 else ("acceleration" if forced else "velocity")
        unit = "m" if robot.links[robot.active_links[j]].kind == "prismatic" else "rad"
        size = f"{room[kind, j]:.3g} {unit}" + ("" if kind == 0 else "/s")
        return f"the least room has joint '{robot.joint_names[j]}', held to +-{size} by its {limit} limit"

    @property
    def has_motion(self) -> bool:
        """Whether any joint has an acceleration limit, so that there is a motion through the points."""
        return bool(np.isfinite(self.acceleration).any())


def _refuse_joints(robot: Robot, bad: NDArray[np.bool_], reason: str) -> None:
    """Raise ExcitationError on the first bad joint."""
    if bad.any():
        raise ExcitationError(
            "missing_joint_limits", "joint '{joint}': {reason}",
            joint=robot.joint_names[int(np.argmax(bad))], reason=reason,
        )  # fmt: skip


def random_points(limits: Limits, points: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Uniform q, v (points + 1, n) inside finite limits: the random sequences of Gautier & Khalil 1992, Table 2."""
    lower, upper = limits.position.T
    q = rng.uniform(lower, upper, (points + 1, len(lower)))
    return q, rng.uniform(-limits.velocity, limits.velocity, q.shape)


def bounded_random_walk(shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """A random walk in [-1, 1] that turns back at the walls, `shape` (points, joints)."""
    x = rng.uniform(-1.0, 1.0, (1, shape[1])) + np.cumsum(rng.normal(0.0, STEP, shape), axis=0)
    return np.asarray(np.abs((x + 1.0) % 4.0 - 2.0) - 1.0)


# Many starts over processes, the best so far at any time.


P = TypeVar("P")
R = TypeVar("R")

Search = Callable[[P, int, Callable[[], float]], tuple[float, R]]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates(Generic[R]):
    """What the starts found, best first: (criterion, result); interrupted: not all starts were run to their end."""

    found: tuple[tuple[float, R], ...]
    interrupted: bool


def run_starts(
    search: Search[P, R],
    problem: P,
    seeds: list[int],
    time_budget: float | None,
    on_progress: Callable[[str, float], None] | None,
) -> Candidates[R]:
    """Run a search from every seed; a time budget or Ctrl-C keeps what was found by then."""
    deadline = time.monotonic() + (time_budget if time_budget is not None else 1e9)
    found: list[tuple[float, R]] = []
    interrupted = False
    try:
        for value, result in _results_in_order(search, problem, seeds, deadline):
            found.append((value, result))
            if on_progress is not None:
                on_progress(f"best of {len(found)} starts: {min(v for v, _ in found):.4g}", len(found) / len(seeds))
    except KeyboardInterrupt:
        if not found:
            raise
        interrupted = True
    ranked = sorted(enumerate(found), key=lambda item: (item[1][0], item[0]))
    return Candidates(tuple(item for _, item in ranked), interrupted or time.monotonic() > deadline)


def _results_in_order(search: Search[P, R], problem: P, seeds: list[int], deadline: float) -> Iterator[tuple[float, R]]:
    """Results of all seeds in order, in processes where there are several threads."""
    workers = min(thread_count(), len(seeds))
    pool = _fork_pool(workers) if workers > 1 else None
    if pool is not None:
        yield from _run_in_processes(pool, search, problem, seeds, deadline, workers)
        return
    for k, seed in enumerate(seeds):
        if k and time.monotonic() > deadline:
            return
        yield _run_start(search, problem, seed, deadline)


def _run_start(search: Search[P, R], problem: P, seed: int, deadline: float) -> tuple[float, R]:
    """One start, on one thread: the matrices are too small for more."""
    with threads_inside_block(1):
        return search(problem, seed, lambda: deadline - time.monotonic())


def _fork_pool(workers: int) -> ProcessPoolExecutor | None:
    """Forked processes, which share the compiled kernels; none while other threads are at work in dynid.

    A fork would find their locks taken and their modules half loaded; one process finds the same, start after start.
    """
    if sys.platform != "linux" or multiprocessing.current_process().daemon:
        return None
    with is_only_caller() as alone:
        if not alone:
            return None
        pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork"))
        pool.submit(int)  # they start with the first task
    return pool


def _run_in_processes(
    pool: ProcessPoolExecutor, search: Search[P, R], problem: P, seeds: list[int], deadline: float, workers: int
) -> Iterator[tuple[float, R]]:
    """Run the starts; results come in the order of the seeds."""
    pending: dict[Future[tuple[float, R]], int] = {}
    waiting = list(enumerate(seeds))
    try:
        while waiting or pending:
            while waiting and len(pending) < workers and (not pending or time.monotonic() < deadline):
                place, seed = waiting.pop(0)
                pending[pool.submit(_run_start, search, problem, seed, deadline)] = place
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=lambda f: pending[f]):
                pending.pop(future)
                yield future.result()
            if time.monotonic() > deadline:
                waiting.clear()
    finally:
        for process in list(getattr(pool, "_processes", {}).values()) if pending else []:
            os.kill(process.pid, 15)
        pool.shutdown(wait=True, cancel_futures=True)
