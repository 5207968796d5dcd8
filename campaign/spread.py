"""Tasks of a campaign over the cores of this machine, or over the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Pool
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


def run_tasks(
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    processes: int | None = None,
    scheduler: str | None = None,
    chunk: int = 1,
) -> Iterator[Result]:
    """Yield work(task) of every task, in their order.

    processes: on this machine, one per core where missing; scheduler: address of a Dask scheduler, whose workers must
    be started in this folder, so that they find `campaign`; chunk: tasks that go to a process at once.
    """
    if scheduler is None:
        with Pool(processes) as pool:
            yield from pool.imap(work, tasks, chunksize=chunk)
        return
    from dynid.fleet.fleet import open_client

    parts = [tasks[k : k + chunk] for k in range(0, len(tasks), chunk)]
    with open_client(scheduler) as client:
        futures = client.map(_run_part, [work] * len(parts), parts, pure=False)
        for future in futures:
            yield from future.result()


def _run_part(work: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    """Run some tasks, one after the other."""
    return [work(task) for task in tasks]
