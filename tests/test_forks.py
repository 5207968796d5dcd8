"""Forked processes work, or refuse in one line: they never wait for threads that they do not have."""

from __future__ import annotations

import gzip
import multiprocessing
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import dynid
from bodies import blind, with_bodies
from callers import blas_threads, thread_count
from dynid.concurrency import cached_property, flint_precision
from dynid.dynamics.kernels import threads
from dynid.errors import DynidError, LogError
from dynid.logs.readers import csv_text as text
from dynid.logs.readers.csv_text import open_text
from dynid.logs.readers.table import Wanted
from fourier import fourier_motion
from frictions import PLAIN
from log_writers import csv_text, write_csv, write_parquet

pytestmark = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system does not fork"
)
LIMIT = 60.0


def in_fork(job: Callable[[], Any], limit: float = LIMIT) -> Any:
    """What a job returns, or the text of its error, in a forked process; one that hangs is ended."""
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)

    def run() -> None:
        try:
            there.send(job())
        except BaseException as error:
            there.send(f"{type(error).__name__}: {error}")

    child = fork.Process(target=run, daemon=True)
    child.start()
    try:
        assert here.poll(limit), "the child hangs"
        return here.recv()
    finally:
        child.kill()
        child.join(limit)


def recorded(name: str = "gautier3", rate: float = 50.0) -> tuple[dynid.Robot, dynid.Log]:
    robot = with_bodies(name, 1, friction=True)
    return robot, dynid.simulate(robot, fourier_motion(robot, duration=20.0, rate=rate), noise=0.1)


def test_a_csv_file_is_read_before_and_after_the_fork(tmp_path: Path) -> None:
    robot, log = recorded()
    path = write_csv(tmp_path / "log.csv", log._all_samples)
    packed = tmp_path / "log.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    half_read = dynid.read_log(path, robot)
    before = dynid.read_log(path, robot)._all_samples
    for job in (
        lambda: dynid.read_log(path, robot)._all_samples,
        lambda: dynid.read_log(packed, robot)._all_samples,
        lambda: half_read._all_samples,
    ):
        after = in_fork(job)
        for name in ("t", "q", "v", "a", "tau"):
            assert_array_equal(getattr(after, name), getattr(before, name), strict=True)


def test_identification_after_a_fork(tmp_path: Path) -> None:
    robot, log = recorded(rate=100.0)
    path = write_csv(tmp_path / "log.csv", log._all_samples)

    def job(folder: Path) -> tuple[Any, ...]:
        folder.mkdir()
        found = dynid.identify(blind(robot), dynid.read_log(path, robot), friction=PLAIN)
        bodies = dynid.physical_parameters(found)
        dynid.export(bodies, folder / "robot.urdf")
        dynid.write_report(found, folder / "page.html")
        exact = dynid.base_parameters(robot)
        return found.values, found.sigma, bodies.values, exact.matrix, (folder / "robot.urdf").read_bytes()

    with thread_count(2):
        before = job(tmp_path / "before")
        after = in_fork(lambda: job(tmp_path / "after"))
    for one, other in zip(before, after, strict=True):
        assert_array_equal(one, other)


def test_parquet_files_are_refused_with_the_remedy(tmp_path: Path) -> None:
    robot, log = recorded()
    path = write_parquet(tmp_path / "log.parquet", log._all_samples)
    opened = dynid.read_log(path, robot)
    assert len(opened)
    again = dynid.read_log(path, robot)
    for job in (lambda: len(dynid.read_log(path, robot)), lambda: len(again)):
        said = in_fork(job)
        assert said.startswith(f"LogError: {path}: polars does not work in a process that was forked"), said
        assert said.endswith('start processes with multiprocessing.get_context("spawn")')
        assert "\n" not in said


def test_simulated_logs_are_written_or_refused(tmp_path: Path) -> None:
    from dynid.cli.output.recordings import write_log

    robot, log = recorded()
    write_log(tmp_path / "before.csv", log)
    for suffix in ("csv", "parquet"):
        said = in_fork(partial(write_log, tmp_path / f"after.{suffix}", log))
        assert "get_context" in said, said
    assert in_fork(lambda: write_log(tmp_path / "after.npz", log)) is None
    assert sorted(file.name for file in tmp_path.iterdir()) == ["after.npz", "before.csv"]
    assert robot.n == dynid.read_log(tmp_path / "after.npz", robot).q.shape[1]


SCRIPT = """
import multiprocessing, sys
FOLDER = {folder!r}
import polars as pl
{before}

def job():
    import dynid
    robot = dynid.load_robot("gautier3")
    print(len(dynid.read_log(FOLDER + "/log.csv", robot)), end=" ")
    try:
        print(len(dynid.read_log(FOLDER + "/log.parquet", robot)), flush=True)
    except dynid.DynidError as error:
        print("refused", flush=True)

child = multiprocessing.get_context("fork").Process(target=job, daemon=True)
child.start()
child.join({limit})
hangs = child.is_alive()
child.kill()
sys.exit("hangs" if hangs else 0)
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="whether polars was used shows in /proc alone")
@pytest.mark.parametrize(
    ("before", "answer"),
    [
        ("", "1000 1000"),
        ("import dynid", "1000 1000"),
        ("pl.read_csv(b'1,2', has_header=False)", "1000 refused"),
        ("import dynid; pl.read_csv(b'1,2', has_header=False)", "1000 refused"),
    ],
)
def test_polars_of_the_parent(tmp_path: Path, before: str, answer: str) -> None:
    """Loaded, it is of use to a child; used, it is not, also where the child is the first to load dynid."""
    _, log = recorded()
    write_csv(tmp_path / "log.csv", log._all_samples)
    write_parquet(tmp_path / "log.parquet", log._all_samples)
    script = SCRIPT.format(folder=str(tmp_path), before=before, limit=LIMIT)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=2 * LIMIT)
    assert (done.stdout.strip(), done.returncode) == (answer, 0), done.stderr


def both_parsers(path: Path, names: list[str], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Columns of a text file, or what is said of it, with polars and without."""
    found: list[Any] = []
    for lost in (False, True):
        monkeypatch.setattr(text, "is_polars_without_threads", lambda lost=lost: lost)
        try:
            batches = list(open_text(path).batches(tuple(Wanted(name) for name in names), 70))
            found.append({name: np.concatenate([batch[name] for batch in batches]) for name in names})
        except LogError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_text_is_parsed_alike_without_polars(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    delimiter = rng.choice([",", ";", "\t", " "])
    holes, comma = delimiter != " " and rng.random() < 0.5, delimiter == ";" and rng.random() < 0.5
    forms = ("{!r}", "{:.3f}", "{:.17g}", "{:+.5e}", "{:.0f}")
    lines = [delimiter.join(["stamp", "note", "a", "b", "c"])]
    for k in range(200):
        cells = [str(1_700_000_000_123_456_789 + 1_000_003 * k), rng.choice(["x", "fast", "-"])]
        for _ in range(3):
            cell = str(rng.choice(forms)).format(float(rng.standard_normal() * 10.0 ** rng.integers(-300, 300)))
            cells.append(cell.replace(".", ",") if comma else cell)
        if holes and rng.random() < 0.1:
            cells[rng.integers(2, 5)] = str(rng.choice(["", "nan", "NA", "null", "NaN", "inf", "-inf", "#N/A"]))
        pad = " " if rng.random() < 0.2 else ""
        lines.append((pad + delimiter + pad).join(cells) + pad)
        lines += rng.choice(["", "# a comment", "  "], 1).tolist() if rng.random() < 0.1 else []
    end = str(rng.choice(["\n", "\r\n"]))
    path = tmp_path / "log.csv"
    path.write_text(end.join(lines) + (end if seed % 2 else ""), newline="")
    one, other = both_parsers(path, ["stamp", "a", "b", "c"], monkeypatch)
    assert not isinstance(one, str), one
    for name, values in one.items():
        assert_array_equal(values.view(np.uint64), other[name].view(np.uint64), strict=True)
        assert values.dtype == other[name].dtype == (np.int64 if name == "stamp" else np.float64)


def test_missing_stamps_and_quoted_cells_without_polars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.csv"
    path.write_text('stamp,a,note\n"1700000000123456789","1.5","x, y"\n,"",z\n1700000000123456790,2,"""q"""\n')
    one, other = both_parsers(path, ["stamp", "a"], monkeypatch)
    for name, values in one.items():
        assert_array_equal(values, other[name], strict=True)


@pytest.mark.parametrize(
    "line", ["1,2,3", "1,2", "1,x", "1,1_000", "1,2 3", "1,0x1F", ",", "1,--2", "1,1e5e", "x", '"1,2"', "1,+-2"]
)
def test_faults_are_told_alike_without_polars(tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.csv"
    path.write_text(csv_text({"a": np.arange(20.0), "b": np.arange(20.0)}) + f"{line}\n7,8\n")
    one, other = both_parsers(path, ["a", "b"], monkeypatch)
    assert type(one) is type(other), (one, other)
    if isinstance(one, str):
        assert one == other
    else:
        assert_array_equal(one["b"], other["b"])


def test_the_child_has_its_own_threads_and_blas_setting() -> None:
    """Forked while another thread is inside a function that limits BLAS, and while the pool is at work."""
    inside, done = threading.Event(), threading.Event()

    @threads.one_blas_thread
    def wait() -> None:
        inside.set()
        assert done.wait(LIMIT)

    def job() -> tuple[set[int], float]:
        out = np.zeros(5000)

        def work(start: int, stop: int) -> None:
            out[start:stop] = 1.0

        threads.run_on_sample_ranges(len(out), work)
        return blas_threads(), float(out.sum())

    with thread_count(2):
        other = threading.Thread(target=wait, daemon=True)
        other.start()
        assert inside.wait(LIMIT)
        assert job() == ({1}, 5000.0)
        assert in_fork(job) == ({2}, 5000.0)
        assert threads.one_blas_thread(lambda: in_fork(job))() == ({1}, 5000.0)
        done.set()
        other.join(LIMIT)
        assert blas_threads() == {2}


class Slow:
    """A value that takes its time."""

    @cached_property
    def value(self) -> int:
        """The answer."""
        started.set()
        time.sleep(0.3)
        return 42


started = threading.Event()


def test_locks_that_other_threads_hold_during_a_fork() -> None:
    """Of numba's compiler, of flint's precision, of a property that is being computed."""
    from numba.core.compiler_lock import global_compiler_lock

    def compile_something() -> None:
        with global_compiler_lock:
            started.set()
            time.sleep(0.3)

    def invert() -> None:
        with flint_precision(300):
            started.set()
            time.sleep(0.3)

    def child() -> tuple[int, int, int]:
        from flint import ctx

        with global_compiler_lock, flint_precision(100):
            inner = int(ctx.prec)
        return Slow().value, inner, int(ctx.prec)

    for hold in (compile_something, invert, lambda: Slow().value):
        started.clear()
        other = threading.Thread(target=hold, daemon=True)
        other.start()
        assert started.wait(LIMIT)
        assert in_fork(child, limit=20.0) == (42, 100, 53)
        other.join(LIMIT)


def _fail(path: str) -> int:
    return len(dynid.read_log(path, dynid.load_robot("gautier3")))


def test_errors_come_back_from_a_pool_of_processes(tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("t,q1\n0,1\n")
    with multiprocessing.get_context("fork").Pool(1) as pool, pytest.raises(DynidError, match=r"bad.csv: "):
        pool.apply_async(_fail, (str(bad),)).get(timeout=LIMIT)
