"""Samples shared among threads; the kernels hold no lock, so plain threads suffice. Linear algebra runs on one."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from itertools import pairwise
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_SMALLEST_SHARE = 500
"""Samples below which a thread of its own does not pay."""

_count: list[int] = []
_pool: dict[tuple[int, int], ThreadPoolExecutor] = {}
"""Threads that stay, by process and number: starting some for every call costs more than many calls themselves."""

_limited: list[bool] = []


def thread_count() -> int:
    """Threads in use: `DYNID_THREADS`, or as many as this process may run on."""
    if not _count:
        wanted = os.environ.get("DYNID_THREADS", "")
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        _count.append(max(1, int(wanted)) if wanted.isdecimal() else available)
    return _count[0]


def use_threads(count: int) -> None:
    """Set the number of threads for this process."""
    _count[:] = [max(1, count)]


def share_samples(samples: int, work: Callable[[int, int], None]) -> None:
    """Call work(start, stop) on contiguous shares of range(samples), one per thread."""
    shares = min(thread_count(), max(1, samples // _SMALLEST_SHARE))
    if shares == 1:
        work(0, samples)
        return
    edges = [samples * k // shares for k in range(shares + 1)]
    key = (os.getpid(), thread_count())  # a forked process has none of its parent's threads
    if key not in _pool:
        _pool.clear()
        _pool[key] = ThreadPoolExecutor(key[1] - 1, thread_name_prefix="dynid")
    others = [_pool[key].submit(work, start, stop) for start, stop in pairwise(edges[1:])]
    work(edges[0], edges[1])
    for other in others:
        other.result()


def one_blas_thread(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function's linear algebra run on one thread.

    Our matrices have some hundred columns: on them, threads of BLAS wait for each other longer than they work, and on a
    busy machine an identification takes ten times as long.
    """

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> T:
        if _limited:
            return function(*args, **kwargs)
        from threadpoolctl import threadpool_limits

        _limited.append(True)
        try:
            with threadpool_limits(limits=1, user_api="blas"):
                return function(*args, **kwargs)
        finally:
            _limited.clear()

    return limited
