"""Random starts of a search (uniform points, slow walks), and running many of them over processes."""

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

from dynid.dynamics.kernels.threads import block_other_callers, thread_count, use_threads_inside_block
from dynid.robot.robot import Limits
from dynid.robot.transform import Array

STEP = 0.2
"""Deviation of a walk's step, as a part of the half range."""


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
        for value, result in _results_in_seed_order(search, problem, seeds, deadline):
            found.append((value, result))
            if on_progress is not None:
                on_progress(f"best of {len(found)} starts: {min(v for v, _ in found):.4g}", len(found) / len(seeds))
    except KeyboardInterrupt:
        if not found:
            raise
        interrupted = True
    ranked = sorted(enumerate(found), key=lambda item: (item[1][0], item[0]))
    return Candidates(tuple(item for _, item in ranked), interrupted or time.monotonic() > deadline)


def _results_in_seed_order(
    search: Search[P, R], problem: P, seeds: list[int], deadline: float
) -> Iterator[tuple[float, R]]:
    """Yield the results of all seeds in order, from processes where there are several threads."""
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
    """Run the search from one seed on one thread: the matrices are too small for more."""
    with use_threads_inside_block(1):
        return search(problem, seed, lambda: deadline - time.monotonic())


def _fork_pool(workers: int) -> ProcessPoolExecutor | None:
    """Pool of forked processes, which share the compiled kernels; None while other threads are at work in dynid.

    A fork would find their locks taken and their modules half loaded; one process finds the same, start after start.
    """
    if sys.platform != "linux" or multiprocessing.current_process().daemon:
        return None
    with block_other_callers() as alone:
        if not alone:
            return None
        pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork"))
        pool.submit(int)  # they start with the first task
    return pool


def _run_in_processes(
    pool: ProcessPoolExecutor, search: Search[P, R], problem: P, seeds: list[int], deadline: float, workers: int
) -> Iterator[tuple[float, R]]:
    """Run the starts in a pool and yield their results in the order of the seeds."""
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
