"""From a log to parameters: against a pinocchio loop with lstsq, against polars, with growing logs, and in memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from bench.kernel import with_threads
from bench.pinocchio_loop import PinocchioLoop
from bench.robots import robot_of
from bench.timing import Cell, Table, Verdict, best_of
from dynid.dynamics.kernels.threads import use_threads
from dynid.estimation.identification import Identification
from dynid.estimation.identify import identify
from dynid.estimation.solve.sequential import Sequential
from dynid.logs.log import Log
from dynid.logs.read import read_log
from dynid.logs.simulate import simulate
from dynid.robot.inertia import Body, from_body
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

PLAIN = ("viscous", "coulomb", "offset")
RATE = 1000.0
SAMPLES = 100_000
GROWTH = (10_000, 100_000, 1_000_000)
CSV_ROWS = 1_000_000
MEMORY = 0.4
LOGS = 100
ROUNDS = 3


def tables() -> Iterator[Table]:
    """Measure and return the tables, one by one."""
    yield against_pinocchio()
    yield growth()
    yield from_csv()
    yield merging()
    yield sequential()


def against_pinocchio() -> Table:
    """Plain weighted least squares and the whole recipe at 1e5 samples."""
    plain, jackknife, recipe, everything, base = in_own_process("pinocchio")
    rows = (
        ("dynid, plain weighted least squares", *_each(plain), 1.0, "-"),
        ("dynid, the same with jackknife intervals", *_each(jackknife), jackknife / plain, "-"),
        ("dynid, recipe with gate and jackknife", *_each(recipe), recipe / plain, Verdict(recipe / plain, 6.0)),
        ("pinocchio loop + lstsq, all columns", *_each(everything), everything / plain,
         Verdict(everything / plain, 8.0, least=True)),
        ("pinocchio loop + lstsq, base columns known", *_each(base), base / plain, "-"),
    )  # fmt: skip
    return Table(
        f"Identification of 7 joints from q, v, a and torques, {SAMPLES:,} samples",
        ("way", "us per sample", "s", "over plain", "target"),
        rows,
        f"CPU time on one core, best of {ROUNDS} interleaved rounds. lstsq: rigid columns and viscous, Coulomb and "
        "offset columns, unweighted, no deviations; 'all columns' is what the loop gives, 'base columns known' takes "
        "dynid's choice of 43.",
    )


def _each(seconds: float) -> tuple[float, float]:
    return seconds / SAMPLES * 1e6, seconds


def time_pinocchio() -> list[float]:
    """Seconds of CPU of every way in the table above."""
    robot, log = recorded(SAMPLES)
    loop = PinocchioLoop(robot)
    spent = best_of(
        ROUNDS,
        {
            "plain": with_threads(1, lambda: use_all(run_plain(robot, log))),
            "jackknife": with_threads(1, lambda: use_all(run_plain(robot, log, "jackknife"))),
            "recipe": with_threads(1, lambda: use_all(run_recipe(robot, log))),
            "all": with_threads(1, partial(run_lstsq, loop, log, None)),
            "base": with_threads(1, partial(run_lstsq, loop, log, base_columns(robot))),
        },
    )
    return [spent[name].cpu for name in ("plain", "jackknife", "recipe", "all", "base")]


def growth() -> Table:
    """Time and memory with the number of samples."""
    rows: list[tuple[Cell, ...]] = []
    per_sample = []
    for samples in GROWTH:
        seconds, peak = in_own_process("growth", str(samples))
        per_sample.append(seconds / samples * 1e6)
        limit = Verdict(peak, MEMORY) if samples == GROWTH[-1] else peak
        rows.append((f"{samples:,}", seconds, per_sample[-1], limit))
    rows.append(("1e6 over 1e5", "", Verdict(per_sample[-1] / per_sample[-2], 1.1), ""))
    return Table(
        "Plain weighted least squares, 7 joints, growing logs",
        ("samples", "s", "us per sample", "GB beyond imports and arrays"),
        tuple(rows),
        "Each in a process of its own, one thread; the second call is timed, the peak is that of the resident set.",
    )


def from_csv() -> Table:
    """A CSV file of a million rows and 22 columns, from file to result."""
    read, plain, recipe, megabytes = in_own_process("csv")
    rows = (
        ("polars reads the file", read, 1.0, "-"),
        ("dynid, file to plain result", plain, plain / read,
         Verdict(plain / read, 4.0)),
        ("dynid, file to recipe", recipe, recipe / read, "-"),
    )  # fmt: skip
    return Table(
        f"CSV of {CSV_ROWS:,} rows and 22 columns ({megabytes:.0f} MB)",
        ("way", "s", "over polars", "target"),
        rows,
        "Wall clock, best of 2 rounds, polars and dynid on all cores; accelerations are not in the file.",
    )


def time_csv() -> list[float]:
    """Seconds on the clock of every way in the table above, and the size of the file in MB."""
    import polars as pl

    robot, log = recorded(CSV_ROWS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        names = ["t", *(f"{c}{j}" for c in ("q", "v", "tau") for j in range(1, 8))]
        assert log.v is not None
        assert log.tau is not None
        data = np.column_stack([log.t, log.q, log.v, log.tau])
        pl.DataFrame({name: data[:, k] for k, name in enumerate(names)}).write_csv(path, float_precision=9)
        megabytes = path.stat().st_size / 1e6
        del data
        spent = best_of(
            2,
            {
                "polars": lambda: use_all(pl.read_csv(path)),
                "plain": with_threads(2, lambda: use_all(identify(robot, read_log(path, robot), friction=PLAIN))),
                "recipe": with_threads(2, lambda: use_all(identify(robot, read_log(path, robot)))),
            },
        )
    return [*(spent[name].wall for name in ("polars", "plain", "recipe")), megabytes]


def merging() -> Table:
    """The factors of a hundred logs against one log."""
    robot, log = recorded(SAMPLES)
    whole = run_plain(robot, log)
    size = SAMPLES // LOGS
    parts = [
        Log(log.t[k : k + size], log.q[k : k + size], v=_rows(log.v, k, size), a=_rows(log.a, k, size),
            tau=_rows(log.tau, k, size))
        for k in range(0, SAMPLES, size)
    ]  # fmt: skip
    joined = identify(robot, parts, friction=PLAIN, intervals="white")
    worst = float(np.abs(joined.values - whole.values).max() / np.abs(whole.values).max())
    return Table(
        f"{LOGS} logs merged against one log of the same {SAMPLES:,} samples",
        ("largest difference over largest parameter", "target"),
        ((worst, Verdict(worst, 1e-10)),),
        "Plain weighted least squares on given q, v, a.",
    )


def sequential() -> Table:
    """One sample after the other into the factors, 7 joints, 69 parameters."""
    robot, log = recorded(20_000)
    assert log.v is not None
    assert log.a is not None
    assert log.tau is not None
    samples = log.q, log.v, log.a, log.tau
    some = Sequential(robot, forgetting=0.999)
    some.update_many(*(x[:10] for x in samples))
    one_by_one = list(zip(*samples, strict=True))

    def single() -> None:
        for sample in one_by_one:
            some.update(*sample)

    def solving() -> None:
        some.reset()
        some.update_many(*samples)
        for sample in one_by_one[:20]:
            some.update(*sample)
            some.solve()

    ways = {"single": single, "chunks": lambda: some.update_many(*samples), "solving": solving}
    spent = best_of(ROUNDS, {name: with_threads(1, way) for name, way in ways.items()})
    count = len(one_by_one)
    single_us, chunks_us = (spent[name].cpu / count * 1e6 for name in ("single", "chunks"))
    solve_us = (spent["solving"].cpu - spent["chunks"].cpu) / 20 * 1e6
    return Table(
        "Sample by sample: 7 joints, q, v, a and torques, with forgetting",
        ("way", "us per sample", "target"),
        (
            ("update, one sample per call", single_us, Verdict(single_us, 50.0)),
            ("update_many, chunks", chunks_us, Verdict(chunks_us, 50.0)),
            ("solve, when values are wanted", solve_us, "-"),
        ),
        f"CPU time on one core, best of {ROUNDS} interleaved rounds of {count:,} samples.",
    )


def recorded(samples: int) -> tuple[Robot, Log]:
    """A Panda with invented bodies along a Fourier series of 10 s, at 1 kHz, with noise."""
    rng = np.random.default_rng(0)
    robot = robot_of(7)
    bodies = []
    for _ in range(7):
        A = rng.standard_normal((3, 3))
        S = 0.1 * A @ A.T
        body = Body(rng.uniform(0.5, 5.0), rng.uniform(-0.3, 0.3, 3), np.trace(S) * np.eye(3) - S)
        bodies.append(np.append(from_body(body), 0.1))
    robot = robot.with_parameters(np.concatenate(bodies))
    t = np.arange(samples) / RATE
    q, v, a = (np.zeros((samples, 7)) for _ in range(3))
    for k in range(1, 6):
        w = 2.0 * np.pi * k / 10.0
        A, B = 0.5 * rng.standard_normal((2, 7)) / np.sqrt(k)
        s, c = np.sin(w * t)[:, None], np.cos(w * t)[:, None]
        q += A * s + B * c
        v += w * (A * c - B * s)
        a -= w**2 * (A * s + B * c)
    return robot, simulate(robot, Motion(t, q, v, a), noise=0.1)


def run_plain(robot: Robot, log: Log, intervals: str = "white") -> Identification:
    """Plain weighted least squares."""
    return identify(robot, log, friction=PLAIN, intervals=intervals)


def run_recipe(robot: Robot, log: Log) -> Identification:
    """The default."""
    return identify(robot, log)


def base_columns(robot: Robot) -> Array:
    """Columns of pinocchio's regressor that lstsq keeps when it is told which ones are independent."""
    from dynid.identifiability.numeric import find_by_qr

    rng = np.random.default_rng(0)
    q, v, a = rng.standard_normal((3, 100, robot.n))
    W = np.empty((100, robot.n, 10 * robot.n))
    PinocchioLoop(robot).write_regressor(Motion(np.arange(100.0), q, v, a), W)
    return np.array(find_by_qr(W.reshape(-1, W.shape[2])).regrouping.kept)


def run_lstsq(loop: PinocchioLoop, log: Log, columns: Array | None) -> None:
    """What one writes today: the loop, three friction columns per joint, lstsq."""
    assert log.v is not None
    assert log.a is not None
    assert log.tau is not None
    N, n = log.q.shape
    W = np.empty((N, n, 10 * n))
    loop.write_regressor(Motion(log.t, log.q, log.v, log.a), W)
    if columns is not None:
        W = W[:, :, columns]
    friction = np.zeros((N, n, 3 * n))
    for j in range(n):
        friction[:, j, j], friction[:, j, n + j], friction[:, j, 2 * n + j] = log.v[:, j], np.sign(log.v[:, j]), 1.0
    np.linalg.lstsq(np.concatenate([W, friction], axis=2).reshape(N * n, -1), log.tau.reshape(-1))


def in_own_process(task: str, *arguments: str) -> list[float]:
    """Figures of a task in a process that gives memory back as usual: many small arrays come and go here."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    command = [sys.executable, "-m", "bench.identification", task, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=3600)
    return [float(word) for word in done.stdout.split()]


def time_growth(samples: int) -> list[float]:
    """Seconds of the second call and peak memory (GB) beyond imports and arrays."""
    use_threads(1)
    robot, small = recorded(3000)
    run_plain(robot, small)
    robot, log = recorded(samples)
    Path("/proc/self/clear_refs").write_text("5")  # the peak of the resident set begins again here
    before = _resident("VmRSS")
    run_plain(robot, log)
    peak = _resident("VmHWM")
    start = time.process_time()
    run_plain(robot, log)
    return [time.process_time() - start, (peak - before) / 1e9]


def _resident(what: str) -> float:
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(what))
    return float(line.split()[1]) * 1024.0


def use_all(result: object) -> None:
    """Take a result and forget it."""


def _rows(x: Array | None, start: int, size: int) -> Array | None:
    return None if x is None else x[start : start + size]


if __name__ == "__main__":
    tasks = {"pinocchio": time_pinocchio, "growth": lambda: time_growth(int(sys.argv[2])), "csv": time_csv}
    print(*tasks[sys.argv[1]]())
