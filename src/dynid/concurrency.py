"""What threads and forked processes share, made safe (docs/decisions/0012-threads-and-forks.md)."""

from __future__ import annotations

import functools
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dynid.messages import Message

T = TypeVar("T")


class ReentrantLock(Protocol):
    """A lock that the thread that holds it may take again."""

    def acquire(self) -> Any:
        """Acquire the lock, once more if this thread holds it."""

    def release(self) -> None:
        """Release the lock, once for every time that it was acquired."""


def hold_across_forks(lock: ReentrantLock) -> None:
    """Make every fork wait for a lock: the child has none of the threads that could release it."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def run_after_fork(work: Callable[[], None]) -> None:
    """Run a function in every forked child."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=work)


if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801
        """Value computed when first asked for; threads that ask at once may each compute it, and get one object.

        Python 3.11's has a lock per class, held while a value is computed: it holds up all other objects, and a process
        that is forked meanwhile waits for ever.
        """

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            known = instance.__dict__
            if self.attrname not in known:
                known.setdefault(self.attrname, self.func(instance))
            return known[self.attrname]


def start_in_thread(work: Callable[[], T]) -> Callable[[], T]:
    """Start a function in a thread that no exit waits for; return a function that waits for its value, or its error."""
    done: Future[T] = Future()

    def run() -> None:
        """Do the work and hand over what came of it."""
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="dynid works beside", daemon=True).start()
    return done.result


_precision = threading.RLock()
hold_across_forks(_precision)


@contextmanager
def flint_precision(bits: int) -> Iterator[None]:
    """Set the precision of flint's balls (arb, acb, their matrices) inside a block, for one thread at a time.

    `flint.ctx` belongs to the whole process: the first thread to leave would take the digits from the others. Keep to
    flint's own arithmetic in the block, take nothing else that locks; rational and modular numbers need none of this.
    """
    from flint import ctx

    with _precision, ctx.workprec(bits):
        yield


NEEDS_SPAWN = Message(
    "process_needs_spawn",
    "polars does not work in a process that was forked after its first use",
    'start processes with multiprocessing.get_context("spawn")',
)
_loaded_before_fork = [False]


def is_polars_without_threads() -> bool:
    """Whether this process was forked after polars started its threads: polars would wait for them for ever."""
    if _loaded_before_fork[0] and _polars_has_threads():
        _loaded_before_fork[0] = False
    return _loaded_before_fork[0]


def _polars_has_threads() -> bool:
    """Whether polars has threads in this process, or starts them only now, when first used."""
    tasks = Path("/proc/self/task")
    if not tasks.is_dir():
        return False
    names = [(task / "comm").read_text() for task in tasks.iterdir()]
    if any(re.match(r"polars-\d", name) for name in names):
        return True
    sys.modules["polars"].thread_pool_size()
    return len(list(tasks.iterdir())) > len(names)


def _record_polars_loaded() -> None:
    """Store, in a forked child, whether polars was loaded at the fork."""
    _loaded_before_fork[0] = "polars" in sys.modules


def _is_forked_worker() -> bool:
    """Whether `multiprocessing` forked this process, which loads dynid only now."""
    loaded = sys.modules.get("multiprocessing")
    if loaded is None or loaded.parent_process() is None:
        return False
    method = getattr(loaded.current_process(), "_start_method", None) or loaded.get_start_method()
    return bool(method == "fork")


run_after_fork(_record_polars_loaded)
if _is_forked_worker():
    _record_polars_loaded()
