"""Samples shared among threads; the kernels hold no lock, so plain threads suffice. Linear algebra runs on one.

All that is shared between callers is in here, behind one lock (docs/decisions/0012-threads-and-forks.md).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from itertools import pairwise
from typing import Any, ParamSpec, TypeVar

from dynid.concurrency import hold_across_forks, run_after_fork

P = ParamSpec("P")
T = TypeVar("T")

_SMALLEST_SHARE = 500
"""Samples below which a thread of its own does not pay."""

_MOST_THREADS = 256

_lock = threading.RLock()
hold_across_forks(_lock)

_count: list[int] = []
_own_count: ContextVar[int | None] = ContextVar("threads of this caller", default=None)
_pool: dict[int, ThreadPoolExecutor] = {}
"""Threads that stay, by number: starting some for every call costs more than many calls themselves."""

_inside: set[int] = set()
"""Threads that are inside a function whose linear algebra is to run on one thread."""
_blas: dict[str, tuple[Any, int]] = {}
"""BLAS libraries that were limited, by file, and the threads they had: a setting of the whole process."""


def thread_count() -> int:
    """Threads in use: `DYNID_THREADS`, or as many as this process may run on."""
    own = _own_count.get()
    if own is not None:
        return own
    if not _count:
        wanted = os.environ.get("DYNID_THREADS", "")
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        given = wanted.isascii() and wanted.isdigit() and len(wanted) <= 4
        _count[:] = [min(max(1, int(wanted)), _MOST_THREADS) if given else available]
    return _count[0]


def use_threads(count: int) -> None:
    """Set the number of threads for this process."""
    _count[:] = [max(1, count)]


@contextmanager
def use_threads_inside_block(count: int) -> Iterator[None]:
    """Set the number of threads for what the caller does inside a `with` block."""
    before = _own_count.set(count)
    try:
        yield
    finally:
        _own_count.reset(before)


def run_on_sample_ranges(samples: int, work: Callable[[int, int], None]) -> None:
    """Call work(start, stop) on contiguous shares of range(samples), one per thread."""
    count = thread_count()
    shares = min(count, max(1, samples // _SMALLEST_SHARE))
    if shares == 1:
        work(0, samples)
        return
    edges = [samples * k // shares for k in range(shares + 1)]
    with _lock:  # a pool that another number replaces finishes what it was given
        if count not in _pool:
            _pool.clear()
            _pool[count] = ThreadPoolExecutor(count - 1, thread_name_prefix="dynid")
        others = [_pool[count].submit(work, start, stop) for start, stop in pairwise(edges[1:])]
    work(edges[0], edges[1])
    for other in others:
        other.result()


def one_blas_thread(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function so that its linear algebra runs on one thread.

    Our matrices have some hundred columns: on them, threads of BLAS wait for each other longer than they work, and on a
    busy machine an identification takes ten times as long. The number is one for the whole process: it is limited as
    long as any thread is inside such a function.
    """

    @wraps(function)
    def run_with_one_blas_thread(*args: P.args, **kwargs: P.kwargs) -> T:
        me = threading.get_ident()
        if me in _inside:
            return function(*args, **kwargs)
        try:
            _enter_one_blas_thread(me)
            return function(*args, **kwargs)
        finally:
            _leave_one_blas_thread(me)

    return run_with_one_blas_thread


def _enter_one_blas_thread(me: int) -> None:
    """Count a caller in; the first one sets BLAS to one thread."""
    from threadpoolctl import ThreadpoolController

    libraries = [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]
    with _lock:
        for library in libraries:  # SciPy may have loaded one since the thread before came in
            _blas.setdefault(library.filepath, (library, library.num_threads))
            _set_blas_threads(library, 1)
        _inside.add(me)


def _leave_one_blas_thread(me: int) -> None:
    """Count a caller out; the last one restores the number of BLAS threads."""
    with _lock:
        _inside.discard(me)
        if not _inside:
            for library, threads in _blas.values():
                _set_blas_threads(library, threads)
            _blas.clear()


def _set_blas_threads(library: Any, count: int) -> None:
    """Set the number of threads of a BLAS library; threadpoolctl 3.8 lets only one thread do so until released."""
    give_up = getattr(library, "clear_controlling_thread", lambda force=False: None)
    give_up(force=True)
    library.set_num_threads(count)
    give_up()


@contextmanager
def block_other_callers() -> Iterator[bool]:
    """Yield whether no other thread is inside a `one_blas_thread` function; none enters before the block ends."""
    with _lock:
        yield not set(_inside) - {threading.get_ident()}


def _reset_after_fork() -> None:
    """Release the lock and forget pool and callers in a forked child, which has none of these threads."""
    with suppress(RuntimeError):  # once more where `block_other_callers` forked
        while True:
            _lock.release()
    _pool.clear()
    me = threading.get_ident()
    _inside.intersection_update({me})
    if me not in _inside:
        _leave_one_blas_thread(me)


run_after_fork(_reset_after_fork)
