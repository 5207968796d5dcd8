"""Random starts of a search (uniform points, slow walks), many of them run over processes, and the course of each.

The processes are forks on this machine, or workers of a Dask cluster.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dynid.deprecated import accept_old_names
from dynid.dynamics.kernels.threads import block_other_callers, thread_count, use_threads_inside_block
from dynid.errors import DynidError, ExcitationError
from dynid.robot.robot import Limits
from dynid.robot.transform import Array
from dynid.storage.records import read_text

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

_cluster: ContextVar[Any] = ContextVar("Dask client of this caller", default=None)


@contextmanager
def use_cluster_inside_block(client: Any) -> Iterator[None]:
    """Run starts on a Dask cluster inside a `with` block; client: its client, or the address of its scheduler."""
    if client is None:
        yield
        return
    from dynid.fleet.fleet import open_client

    with open_client(client) as own:
        before = _cluster.set(own)
        try:
            yield
        finally:
            _cluster.reset(before)


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
    """Yield the results of all seeds in order, from a cluster, or from processes where there are several threads."""
    if (client := _cluster.get()) is not None:
        yield from _run_on_cluster(client, search, problem, seeds, deadline)
        return
    workers = min(thread_count(), len(seeds))
    pool = _fork_pool(workers) if workers > 1 else None
    if pool is not None:
        yield from _run_in_processes(pool, search, problem, seeds, deadline, workers)
        return
    for k, seed in enumerate(seeds):
        if k and time.monotonic() > deadline:
            return
        yield _run_start(search, problem, seed, deadline - time.monotonic())


def _run_start(search: Search[P, R], problem: P, seed: int, left: float) -> tuple[float, R]:
    """Run the search from one seed for `left` seconds, on one thread: the matrices are too small for more."""
    deadline = time.monotonic() + left
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
    """Run the starts in a pool of forks and yield their results in the order of the seeds."""
    pending: dict[Future[tuple[float, R]], int] = {}
    try:
        yield from _keep_busy(pool, search, problem, seeds, deadline, workers, pending)
    finally:
        for process in list(getattr(pool, "_processes", {}).values()) if pending else []:
            os.kill(process.pid, 15)
        pool.shutdown(wait=True, cancel_futures=True)


def _run_on_cluster(
    client: Any, search: Search[P, R], problem: P, seeds: list[int], deadline: float
) -> Iterator[tuple[float, R]]:
    """Run the starts on the workers of a Dask client and yield their results in the order of the seeds."""
    pool, pending = client.get_executor(pure=False), dict[Future[tuple[float, R]], int]()
    workers = max(1, sum(client.nthreads().values()))
    try:
        yield from _keep_busy(pool, search, problem, seeds, deadline, workers, pending)
    except DynidError:
        raise
    except Exception as error:  # of Dask: workers that died again and again, or without dynid; a lost scheduler
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ExcitationError("search_workers_failed", "the workers failed: {reason}", reason=reason) from error
    finally:
        with suppress(Exception):  # a cluster that is gone has nothing to cancel
            pool.shutdown(wait=False)


def _keep_busy(
    pool: Executor, search: Search[P, R], problem: P, seeds: list[int], deadline: float, workers: int,
    pending: dict[Future[tuple[float, R]], int],
) -> Iterator[tuple[float, R]]:  # fmt: skip
    """Give every worker of a pool one start after the other; pending: those that it works on, with their places."""
    waiting = list(enumerate(seeds))
    while waiting or pending:
        while waiting and len(pending) < workers and (not pending or time.monotonic() < deadline):
            place, seed = waiting.pop(0)
            pending[pool.submit(_run_start, search, problem, seed, deadline - time.monotonic())] = place
        done, _ = wait(pending, return_when=FIRST_COMPLETED)
        for future in sorted(done, key=lambda f: pending[f]):
            pending.pop(future)
            yield future.result()
        if time.monotonic() > deadline:
            waiting.clear()


MOST = 200
"""Points that are kept of a start."""


@dataclass(frozen=True, slots=True, eq=False)
class Descent:
    """One start: the criterion's values (k,) at iterations (k,), of which the last is that of its valid motion.

    The others are those of the iterates, before the last step to the limits. seconds: how long it took; refused: its
    motion could not be given, because links would collide or no entry into it was found; dropped: others were better
    after its first stages.
    """

    start: int
    iterations: NDArray[np.int64]
    values: Array
    seconds: float
    refused: bool = False
    dropped: bool = False

    @property
    def final_value(self) -> float:
        """Criterion of the valid motion at the end of the descent."""
        return float(self.values[-1])


@accept_old_names
@dataclass(frozen=True, slots=True, eq=False)
class SearchHistory:
    """Course of a search from several starts.

    Attributes
    ----------
    criterion : str
        Name of the criterion.
    descents : tuple of Descent
        Descents of all starts that ended, in their order.
    chosen : int
        Start of the motion that was returned.
    planned : int
        Starts that were asked for.
    stopped : bool
        Whether time or the user ended the search early.
    """

    criterion: str
    descents: tuple[Descent, ...]
    chosen: int
    planned: int
    stopped: bool

    @property
    def best(self) -> Descent:
        """The descent to the motion that is given."""
        return next(descent for descent in self.descents if descent.start == self.chosen)

    @property
    def best_so_far(self) -> Array:
        """Smallest criterion of the motions found by the first start, the first two, ...; refused ones left out."""
        return np.minimum.accumulate([descent.final_value for descent in self.descents if not descent.refused])

    def with_final_value(self, value: float) -> SearchHistory:
        """Return the history with the final criterion of the chosen motion.

        Parameters
        ----------
        value : float
            The criterion.

        Returns
        -------
        SearchHistory
            The new history.
        """
        changed = tuple(
            replace(one, values=np.append(one.values[:-1], value)) if one.start == self.chosen else one
            for one in self.descents
        )
        return replace(self, descents=changed)

    def facts(self) -> dict[str, object]:
        """The history as JSON-ready data.

        Returns
        -------
        dict
            Facts by name.
        """
        return {
            "criterion": self.criterion,
            "chosen": self.chosen,
            "planned": self.planned,
            "stopped": self.stopped,
            "starts": [
                {
                    "start": descent.start,
                    "seconds": descent.seconds,
                    "refused": descent.refused,
                    "dropped": descent.dropped,
                    "iterations": descent.iterations.tolist(),
                    "values": descent.values.tolist(),
                }
                for descent in self.descents
            ],
        }


def read_history(path: str | Path) -> SearchHistory | None:
    """Read the history in a file of `dynid excite --json`; None where the file has none, as older ones."""
    try:
        data = json.loads(read_text(Path(path)))
    except OSError as error:
        raise ExcitationError(
            "file_unreadable", "{path}: cannot be read: {reason}", path=path, reason=error.strerror or error,
        ) from error  # fmt: skip
    except (ValueError, RecursionError) as error:
        raise ExcitationError(
            "not_json", "{path}: this is not JSON", "use a file of dynid excite --json", path=path,
        ) from error  # fmt: skip
    given = data.get("history") if isinstance(data, Mapping) else None
    if given is None:
        return None
    try:
        return _history_from_fields(given)
    except (KeyError, TypeError, ValueError) as error:
        raise ExcitationError(
            "file_damaged", "{path}: its history is damaged: {reason}", "run dynid excite --json again", path=path,
            reason=repr(error),
        ) from error  # fmt: skip


def _history_from_fields(given: Any) -> SearchHistory:
    """History from the fields of a file, checked."""
    descents = []
    for one in given["starts"]:
        iterations = np.array(one["iterations"], dtype=np.int64)
        values = np.array(one["values"], dtype=np.float64)
        if iterations.ndim != 1 or iterations.shape != values.shape or not np.isfinite(values).all():
            raise ValueError("iterations and values must be lists of as many numbers")
        if not len(values) or (np.diff(iterations) < 0).any():
            raise ValueError("iterations must rise")
        seconds, dropped = float(one["seconds"]), bool(one.get("dropped", False))
        descents.append(Descent(int(one["start"]), iterations, values, seconds, bool(one["refused"]), dropped))
    chosen = int(given["chosen"])
    if chosen not in [descent.start for descent in descents]:
        raise ValueError("the chosen start is missing")
    return SearchHistory(
        str(given["criterion"]), tuple(descents), chosen, int(given["planned"]), bool(given["stopped"])
    )


@dataclass(slots=True)
class Recorder:
    """Notes the criterion of one start while it is searched, at every `stride`-th iteration.

    Where the points become too many, every second one is dropped and the stride doubled.
    """

    iterations: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    count: int = 0
    stride: int = 1
    seconds: float = 0.0
    latest: float = math.nan
    began: float = field(default_factory=time.monotonic)

    def record_value(self, value: float) -> None:
        """Record the criterion at the current iterate; the very first is iteration 0."""
        self.latest = value
        if not self.iterations and not self.count:
            self._append_latest()

    def end_iteration(self) -> None:
        """End an iteration: the criterion recorded last is its result."""
        self.count += 1
        if self.count % self.stride == 0:
            self._append_latest()

    def pause_clock(self) -> None:
        """Stop the clock of the search."""
        self.seconds += time.monotonic() - self.began

    def resume_clock(self) -> None:
        """Start the clock of the search again."""
        self.began = time.monotonic()

    def descent(self, start: int, end: float, *, refused: bool = False, dropped: bool = False) -> Descent:
        """Descent that was recorded, with the criterion of the valid motion last."""
        iterations = np.array([*self.iterations, self.count], dtype=np.int64)
        return Descent(start, iterations, np.array([*self.values, end]), self.seconds, refused, dropped)

    def _append_latest(self) -> None:
        """Store the latest value, thinning out what is too much."""
        if not math.isfinite(self.latest):  # a closed loop that cannot follow, or entries that vanish
            return
        self.iterations.append(self.count)
        self.values.append(self.latest)
        if len(self.iterations) == MOST:
            self.stride *= 2
            kept = [k for k, iteration in enumerate(self.iterations) if iteration % self.stride == 0]
            self.iterations = [self.iterations[k] for k in kept]
            self.values = [self.values[k] for k in kept]
