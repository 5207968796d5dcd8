"""The torque regressor and its adjoint: against pinocchio, against memory, and with growing N."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from bench.pinocchio_loop import PinocchioLoop
from bench.robots import random_motion, robot_of
from bench.timing import ROUNDS, Spent, Table, Verdict, best_of, on_one_core
from dynid.dynamics.kernels.threads import use_threads
from dynid.dynamics.regressor import regressor, regressor_adjoint, regressor_chunks
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

JOINTS = (3, 6, 7, 30)
SAMPLES = (10_000, 100_000)
GROWTH = (10_000, 100_000, 1_000_000)
LARGEST_MATRIX = 2.5e9
"""Bytes; a larger matrix is written, filled and differentiated in chunks."""
CHUNK = 8192
LARGEST_LOOP = 10_000
"""Samples of the pinocchio loop; its time per sample does not depend on their number."""

Run = Callable[[], None]


def tables() -> Iterator[Table]:
    """Measure and return the tables, one by one."""
    yield side_by_side()
    yield growth()


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One robot and motion with all that is prepared before the clock starts; chunk is in samples."""

    robot: Robot
    motion: Motion
    chunk: int

    @staticmethod
    def of(joints: int, samples: int) -> Task:
        """Choose the chunk so that the matrix stays below its limit."""
        robot = robot_of(joints)
        size = samples * robot.n * 11 * robot.n * 8
        return Task(robot, random_motion(robot, samples), samples if size <= LARGEST_MATRIX else CHUNK)

    @property
    def whole(self) -> bool:
        """Whether the matrix is written at once."""
        return self.chunk == len(self.motion)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the largest chunk's matrix."""
        return self.chunk * self.robot.n, 11 * self.robot.n


def side_by_side() -> Table:
    """All contenders for all robots."""
    rows = []
    for joints in JOINTS:
        for samples in SAMPLES:
            task = Task.of(joints, samples)
            spent = best_of(ROUNDS, contenders(task), before=partial(touch_memory, task))
            rows.append(row_of(task, spent))
    return Table(
        "Torque regressor with rotor inertia, microseconds per sample",
        (
            "n", "N", "dynid 1 thread", "dynid 2 threads", "pinocchio loop", "fill", "adjoint",
            "pinocchio / dynid", "dynid / fill", "adjoint / dynid",
        ),
        tuple(rows),
        f"Best of {ROUNDS} interleaved rounds, every matrix on fresh pages. CPU time on one core; 2 threads: "
        f"wall clock. pinocchio: at most {LARGEST_LOOP} samples, scaled. 'chunks': matrices above "
        f"{LARGEST_MATRIX / 1e9:g} GB are written, filled and differentiated by {CHUNK} samples at a time.",
    )  # fmt: skip


def row_of(task: Task, spent: dict[str, Spent]) -> tuple[str | int | float | Verdict, ...]:
    """Figures of one robot and motion."""
    N, n = len(task.motion), task.robot.n
    one, fill, adjoint = (spent[name].cpu / N * 1e6 for name in ("dynid 1", "fill", "adjoint"))
    two = spent["dynid 2"].wall / N * 1e6
    pinocchio = spent["pinocchio"].cpu / min(N, LARGEST_LOOP) * 1e6
    return (
        n, str(N) if task.whole else f"{N} chunks", one, two, pinocchio, fill, adjoint,
        Verdict(pinocchio / one, 4.0 if n in (6, 7) else None, least=True),
        Verdict(one / fill, 4.0), Verdict(adjoint / one, 4.0),
    )  # fmt: skip


def contenders(task: Task) -> dict[str, Run]:
    """What is compared, under the names that row_of reads."""
    weights = np.random.default_rng(1).standard_normal(task.shape)
    return {
        "dynid 1": with_threads(1, partial(write, task)),
        "dynid 2": with_threads(2, partial(write, task)),
        "pinocchio": with_threads(1, pinocchio_run(task)),
        "fill": with_threads(1, partial(fill, task)),
        "adjoint": with_threads(1, partial(differentiate, task, weights)),
    }


def with_threads(count: int, run: Run) -> Run:
    """Return the same run on one thread of one core, or on more threads and all cores."""

    def threaded() -> None:
        use_threads(count)
        if count > 1:
            run()
        else:
            with on_one_core():
                run()

    return threaded


def write(task: Task) -> None:
    """Write the regressor."""
    if task.whole:
        regressor(task.robot, task.motion)
    else:
        write_chunks(task)


def write_chunks(task: Task) -> None:
    """Write the regressor chunk by chunk, whatever its size."""
    for _ in regressor_chunks(task.robot, task.motion, size=task.chunk):
        pass


def fill(task: Task) -> None:
    """Fill fresh matrices of the same size: allocation, page faults and the writing itself."""
    rows, columns = task.shape
    for start in range(0, len(task.motion), task.chunk):
        samples = min(task.chunk, len(task.motion) - start)
        np.empty((rows * samples // task.chunk, columns)).fill(1.0)


def differentiate(task: Task, weights: Array) -> None:
    """Differentiate sum(weights * W) by q, v, a; chunks share their weights."""
    for start in range(0, len(task.motion), task.chunk):
        part = task.motion if task.whole else task.motion[start : start + task.chunk]
        regressor_adjoint(task.robot, part, weights[: len(part) * task.robot.n])


def touch_memory(task: Task) -> None:
    """Fill and free as much memory as a run needs.

    A virtual machine may give memory that is free for a second or so back to its host, and pays for it again
    (here up to three times the cost of a page fault). That would hit the contender after the longest pause.
    """
    copies = 1 if task.whole else 2  # the last chunk lives until the next is there
    np.empty((copies, *task.shape)).fill(0.0)


def pinocchio_run(task: Task) -> Run:
    """Prepare the pinocchio loop and its matrix (N, n, 10 n)."""
    loop = PinocchioLoop(task.robot)
    loop.check_against_dynid(task.motion[:3])
    motion = task.motion[:LARGEST_LOOP]
    out = np.ones((len(motion), task.robot.n, 10 * task.robot.n))
    return partial(loop.write_regressor, motion, out)


def growth() -> Table:
    """Time per sample as the motion grows, in bounded memory."""
    tasks = [Task(robot, random_motion(robot, N), CHUNK) for robot in (robot_of(7),) for N in GROWTH]
    runs = {str(len(task.motion)): with_threads(1, partial(write_chunks, task)) for task in tasks}
    spent = best_of(ROUNDS, runs, before=partial(touch_memory, tasks[-1]))
    times = {N: spent[str(N)].cpu / N * 1e6 for N in GROWTH}
    spread = max(times.values()) / min(times.values())
    last = GROWTH[-1]
    rows = tuple((N, times[N], Verdict(spread, 1.3) if N == last else "") for N in GROWTH)
    return Table(
        "Growth with N: torque regressor, n = 7, by chunks, microseconds per sample",
        ("N", "dynid 1 thread", "slowest / fastest"),
        rows,
        f"regressor_chunks of {CHUNK} samples; CPU time on one core; best of {ROUNDS} interleaved rounds.",
    )
