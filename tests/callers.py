"""Several callers at once, and the settings of threads that they share."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from threadpoolctl import ThreadpoolController, threadpool_info

from dynid.dynamics.kernels import threads

T = TypeVar("T")
LIMIT = 120.0
"""Seconds after which threads that should be done are taken to hang."""


def at_once(jobs: Sequence[Callable[[], T]], limit: float = LIMIT) -> list[T]:
    """Run jobs in a thread each, all beginning together and switched often; their errors are raised."""
    barrier = threading.Barrier(len(jobs), timeout=limit)
    done: dict[int, T | BaseException] = {}

    def run(k: int) -> None:
        try:
            barrier.wait()
            done[k] = jobs[k]()
        except BaseException as error:
            done[k] = error

    crew = [threading.Thread(target=run, args=(k,), daemon=True) for k in range(len(jobs))]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        for thread in crew:
            thread.start()
        end = time.monotonic() + limit
        for thread in crew:
            thread.join(max(0.0, end - time.monotonic()))
            assert not thread.is_alive(), "a thread hangs"
    finally:
        sys.setswitchinterval(before)
    results = [done[k] for k in range(len(jobs))]
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results  # type: ignore[return-value]


@contextmanager
def thread_count(count: int) -> Iterator[None]:
    """Threads of dynid's own, and of BLAS."""
    before = threads.thread_count()
    threads.use_threads(count)
    try:
        with ThreadpoolController().limit(limits=count, user_api="blas"):
            yield
    finally:
        threads.use_threads(before)


def blas_threads() -> set[int]:
    """Numbers of threads of the BLAS libraries that can have several (that of SCS cannot)."""
    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return {library["num_threads"] for library in libraries if library.get("threading_layer") != "disabled"}
