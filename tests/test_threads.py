"""Several threads at once get, bit for bit, what they get one after the other."""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import dynid
from bodies import blind, with_bodies
from callers import LIMIT, at_once, blas_threads, thread_count
from dynid.concurrency import cached_property, flint_precision
from dynid.dynamics.kernels import threads
from dynid.errors import LogError, RobotFileError
from dynid.messages import Message
from dynid.storage.files import write_text
from fourier import fourier_motion
from frictions import PLAIN
from log_writers import write_csv, write_gz, write_hdf5, write_mat, write_npz, write_parquet

T = TypeVar("T")
ARMS = ("puma560", "gautier3", "puma560", "scara", "puma560", "gautier3", "one_link", "puma560")
SMALL = ("gautier3", "scara", "gautier3", "one_link", "scara", "gautier3", "one_link", "gautier3")


def assert_same(jobs: Sequence[Callable[[], tuple[Any, ...]]]) -> None:
    """Threads first, so that caches are empty and kernels unused when they meet."""
    together = at_once(jobs)
    for k, job in enumerate(jobs):
        for one, other in zip(together[k], job(), strict=True):
            assert type(one) is type(other)
            assert_array_equal(one, other, strict=True) if isinstance(one, np.ndarray) else _assert_equal(one, other)


def _assert_equal(one: object, other: object) -> None:
    assert one == other


def identification(name: str, seed: int, rate: float) -> dynid.Identification:
    """20 s of a robot with bodies of its own."""
    robot = with_bodies(name, seed, friction=True)
    log = dynid.simulate(robot, fourier_motion(robot, duration=20.0, rate=rate, seed=seed), noise=0.1, seed=seed)
    return dynid.identify(blind(robot), log, friction=PLAIN)


@pytest.mark.parametrize(("count", "rate"), [(1, 100.0), (2, 100.0), pytest.param(1, 200.0, marks=pytest.mark.slow)])
def test_identify(count: int, rate: float) -> None:
    def job(name: str, seed: int) -> Callable[[], tuple[Any, ...]]:
        def run() -> tuple[Any, ...]:
            found = identification(name, seed, rate)
            shown = (found.rank, found.condition, found.names, str(found.verdict), found.warnings)
            return (found.values, found.sigma, found.rmse, found.validation.nrmse, *shown)

        return run

    with thread_count(count):
        assert_same([job(name, seed) for seed, name in enumerate(ARMS)])


def test_all_models_and_estimators() -> None:
    robot = with_bodies("gautier3", 5, friction=True)
    log = dynid.simulate(robot, fourier_motion(robot, duration=20.0, rate=50.0), noise=0.1)

    def job(options: dict[str, Any]) -> Callable[[], tuple[Any, ...]]:
        def run() -> tuple[Any, ...]:
            found = dynid.identify(blind(robot), log, friction=PLAIN, **options)
            return found.names, found.values, found.sigma, found.predict(fourier_motion(robot, rate=5.0))

        return run

    models = [{"model": model} for model in ("torque", "power", "energy", "momentum")]
    assert_same([job(x) for x in [*models, *({"estimator": name} for name in ("ols", "ridge", "huber", "recursive"))]])


def test_all_formats(tmp_path: Path) -> None:
    """Each through a library of its own: polars, NumPy, SciPy, h5py, rosbags."""
    robot = with_bodies("gautier3", 5)
    samples = dynid.simulate(robot, fourier_motion(robot, rate=50.0))._all_samples
    writers = (write_csv, write_gz, write_parquet, write_npz, write_mat, write_hdf5, write_csv, write_parquet)
    endings = ("csv", "csv.gz", "parquet", "npz", "mat", "h5", "csv", "parquet")
    files = [tmp_path / f"{k}.{ending}" for k, ending in enumerate(endings)]
    for write, file in zip(writers, files, strict=True):
        write(file, samples)

    def job(file: Path) -> Callable[[], tuple[Any, ...]]:
        def run() -> tuple[Any, ...]:
            log = dynid.read_log(file, robot)
            return log.t, log.q, log.v, log.tau, log.notes

        return run

    assert_same([job(file) for file in files])


@pytest.mark.parametrize("count", [1, 2])
def test_base_parameters_and_regressor(count: int) -> None:
    def job(name: str, seed: int) -> Callable[[], tuple[Any, ...]]:
        def run() -> tuple[Any, ...]:
            robot = dynid.load_robot(name)
            motion = fourier_motion(robot, duration=10.0, rate=200.0, seed=seed)
            exact, sampled = (dynid.base_parameters(robot, method=method, seed=seed) for method in (None, "qr"))
            models = ("torque", "energy", "momentum") if name != "slider_crank" else ("torque",)
            rows = [dynid.regressor(robot, motion, model=model).matrix for model in models]
            return (exact.names, exact.matrix, exact.relations, sampled.names, sampled.matrix, *rows)

        return run

    names = ("puma560", "gautier3", "sr400", "panda", "slider_crank", "puma560", "scara", "hpr")
    with thread_count(count):
        assert_same([job(name, seed) for seed, name in enumerate(names)])


def test_model_parameters() -> None:
    """They need 400 binary digits, which belong to the whole process in flint."""
    rows = [{"alpha": 0.3 * k, "d": 0.2, "r": 0.1 * k, "theta": 0.0} for k in range(3)]

    def run() -> tuple[Any, ...]:
        robot = dynid.Robot.from_mdh(rows)
        found = dynid.model_parameters(robot, unknown=("d2", "d3"))
        return found.count, found.expressions, found.regressor(fourier_motion(robot, rate=10.0)).matrix

    assert_same([run] * 4)


def test_physical_parameters_and_files(tmp_path: Path) -> None:
    found = {name: identification(name, 1, rate=50.0) for name in ("one_link", "gautier3", "scara")}
    logs = {name: dynid.simulate(with_bodies(name, 2), fourier_motion(dynid.load_robot(name))) for name in found}

    def job(name: str, number: int) -> Callable[[], tuple[Any, ...]]:
        folder = tmp_path / str(number)

        def run() -> tuple[Any, ...]:
            folder.mkdir(exist_ok=True)
            log = dynid.read_log(write_csv(folder / "log.csv", logs[name]._all_samples), dynid.load_robot(name))
            bodies = dynid.physical_parameters(found[name])
            for suffix in ("urdf", "toml", "json"):
                dynid.export(bodies, folder / f"robot.{suffix}")
            found[name].save(folder / "found.json")
            dynid.write_report(found[name], folder / "page.html")
            digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())]
            assert log.tau is not None
            return bodies.values, log.t, log.q, log.tau, digests

        return run

    assert_same([job(name, number) for number, name in enumerate(SMALL)])


@pytest.mark.parametrize("count", [1, 2])
def test_design_excitation(count: int) -> None:
    limits: dict[str, list[Any]] = {"position": [[-2.0, 2.0]], "velocity": [2.0], "acceleration": [8.0]}

    def job(name: str, seed: int) -> Callable[[], tuple[Any, ...]]:
        def run() -> tuple[Any, ...]:
            robot = dynid.load_robot(name)
            wide = {key: value * robot.n for key, value in limits.items()}
            found = dynid.design_excitation(robot, limits=wide, starts=count, harmonics=2, seed=seed)
            motion = found.motion(50.0)
            return found.condition, found.margin, motion.q, motion.v, motion.a

        return run

    with thread_count(count):
        assert_same([job(name, seed) for seed, name in enumerate(("gautier3", "one_link", "one_link", "gautier3"))])
        assert threads.thread_count() == count


def test_one_robot_and_one_log_for_all(tmp_path: Path) -> None:
    robot = with_bodies("gautier3", 3, friction=True)
    log = dynid.simulate(robot, fourier_motion(robot, duration=20.0, rate=200.0), noise=0.1)
    path = write_csv(tmp_path / "log.csv", log._all_samples)
    shared, known = dynid.read_log(path, robot), dynid.identify(robot, log, friction=PLAIN).values

    def run() -> tuple[Any, ...]:
        found = dynid.identify(robot, shared, friction=PLAIN)
        return found.values, found.sigma, shared.q

    for values, _, _ in at_once([run] * 8):
        assert_array_equal(values, known)


FIRST = """
import sys, threading
import dynid

barrier, errors = threading.Barrier(8, timeout=60), []
jobs = [
    lambda: dynid.base_parameters(dynid.load_robot("gautier3")).relations,
    lambda: dynid.load_robot(FOLDER + "/arm.urdf"),
    lambda: dynid.read_log(FOLDER + "/log.csv", dynid.load_robot("gautier3")).q,
    lambda: dynid.model_parameters(dynid.load_robot("gautier3"), unknown=("d3",)).count,
    lambda: dynid.identify(*recorded(), friction=()).values,
    lambda: dynid.simulate(dynid.load_robot("gautier3"), moved()).tau,
    lambda: dynid.physical_parameters,
    lambda: dynid.write_report,
]

def moved():
    import numpy as np
    t = np.arange(500) / 50.0
    q = np.sin(np.outer(t, [1.0, 1.7, 2.3]))
    return dynid.Motion(t, q, np.gradient(q, t, axis=0), np.gradient(np.gradient(q, t, axis=0), t, axis=0))

def recorded():
    robot = dynid.load_robot("gautier3")
    return robot, dynid.simulate(robot, moved(), noise=0.1)

def run(job):
    barrier.wait()
    try:
        job()
    except BaseException as error:
        errors.append(repr(error))

crew = [threading.Thread(target=run, args=(job,), daemon=True) for job in jobs]
[thread.start() for thread in crew]
[thread.join(100) for thread in crew]
hanging = [k for k, thread in enumerate(crew) if thread.is_alive()]
print(errors, hanging, flush=True)
import os
os._exit(bool(errors or hanging))
"""


def test_first_use_by_all_threads_at_once(tmp_path: Path) -> None:
    """Everything loads when first used: modules, kernels, caches."""
    robot = with_bodies("gautier3", 3)
    write_csv(tmp_path / "log.csv", dynid.simulate(robot, fourier_motion(robot, rate=20.0))._all_samples)
    dynid.export(dynid.physical_parameters(identification("gautier3", 1, rate=50.0)), tmp_path / "arm.urdf")
    script = f"FOLDER = {str(tmp_path)!r}\n{FIRST}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_blas_stays_limited_until_the_last_thread_leaves() -> None:
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))
    seen: list[set[int]] = []

    @threads.one_blas_thread
    def first() -> None:
        first_is_in.set()
        assert second_is_in.wait(LIMIT)

    @threads.one_blas_thread
    def second() -> None:
        second_is_in.set()
        assert first_is_out.wait(LIMIT)
        seen.append(blas_threads())

    def lead() -> None:
        first()
        first_is_out.set()

    def follow() -> None:
        assert first_is_in.wait(LIMIT)
        second()

    with thread_count(2):
        at_once([lead, follow])
        assert seen == [{1}]
        assert blas_threads() == {2}


def test_pools_of_several_sizes_at_once() -> None:
    def job(count: int) -> Callable[[], None]:
        def run() -> None:
            for _ in range(50):
                out = np.zeros(4000)

                def work(start: int, stop: int, out: Any = out) -> None:
                    out[start:stop] = np.arange(start, stop)

                with threads.use_threads_inside_block(count):
                    threads.run_on_sample_ranges(len(out), work)
                assert_array_equal(out, np.arange(4000))

        return run

    at_once([job(count) for count in (2, 3, 4, 2, 3, 4, 5, 6)])


def test_precision_of_flint_is_kept_by_each_thread() -> None:
    from flint import arb, ctx

    def job(bits: int) -> Callable[[], None]:
        def run() -> None:
            for _ in range(200):
                with flint_precision(bits):
                    time.sleep(0.0)  # others go on
                    third = arb(1) / 3
                    mantissa, exponent = (int(x) for x in third.mid().man_exp())
                error = abs(Fraction(mantissa) * Fraction(2) ** exponent - Fraction(1, 3))
                assert Fraction(1, 2 ** (bits + 8)) < error < Fraction(1, 2**bits)

        return run

    before = ctx.prec
    at_once([job(bits) for bits in (60, 100, 200, 400)])
    assert ctx.prec == before


def test_cached_properties_of_two_objects_do_not_wait_for_each_other() -> None:
    meet = threading.Barrier(2, timeout=5.0)

    class Node:
        def __init__(self, next_one: Node | None = None) -> None:
            self.next_one = next_one

        @cached_property
        def left(self) -> int:
            return 1 if self.next_one is None else meet.wait() * 0 + self.next_one.right

        @cached_property
        def right(self) -> int:
            return 2 if self.next_one is None else meet.wait() * 0 + self.next_one.left

    one, two = Node(Node()), Node(Node())
    assert at_once([lambda: one.left, lambda: two.right], limit=10.0) == [2, 1]


def test_a_cached_property_is_one_object_for_all_threads() -> None:
    class Slow:
        @cached_property
        def value(self) -> object:
            time.sleep(0.01)
            return object()

    slow = Slow()
    assert len(set(map(id, at_once([lambda: slow.value] * 8)))) == 1


def write_often(path: Path) -> None:
    for _ in range(20):
        write_text(path, "text")


def test_files_written_at_once_leave_the_umask_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_mask = os.umask

    def slow(mask: int) -> int:
        before = set_mask(mask)
        time.sleep(0.001)
        return before

    monkeypatch.setattr(os, "umask", slow)
    before = set_mask(0o027)
    try:
        at_once([partial(write_often, tmp_path / str(k)) for k in range(8)])
        modes = {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    finally:
        left = set_mask(before)
    assert (left, modes) == (0o027, {0o640})
    assert len(list(tmp_path.iterdir())) == 8


@pytest.mark.parametrize(
    "error",
    [
        LogError("a.csv", "empty_log", "is empty"),
        RobotFileError("a.toml", [Message("one", "first {k}", k=1), Message("two", "second", "mend it")]),
    ],
)
def test_errors_cross_to_other_processes(error: Exception) -> None:
    """An error that cannot be unpickled stops the pool of `multiprocessing` for ever."""
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.__dict__) == (type(error), str(error), error.__dict__)
