"""Workers of Dask: the same bits as one process, also where one is killed, and only the rest after a stop."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from campaign.fleet import Made, given_robot, write_fleet

import dynid

pytest.importorskip("distributed")

MADE = Made("gautier3", 15.0)
LIMITS = {"position": [[-1.5, 1.5]] * 3, "velocity": [1.0] * 3, "acceleration": [4.0] * 3}
OPTIONS: dict[str, Any] = {"baseline": 2, "friction": ("viscous", "coulomb", "offset"), "cutoff": 10.0}
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "DYNID_THREADS": "1"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    assert len(list(write_fleet(folder, 6, 3, None, MADE))) == 18
    return folder


@pytest.fixture(scope="module")
def alone(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dynid.Fleet:
    out = tmp_path_factory.mktemp("alone")
    return dynid.identify_fleet(given_robot("gautier3"), data, out=out, workers=1, **OPTIONS)


def states(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*.state"))}


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and workers as programs of their own on the loopback; yields its address, and them in this order."""
    folder.mkdir(exist_ok=True)
    address = folder / "scheduler.json"
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": ENVIRONMENT}
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0",
               "--no-dashboard", "--scheduler-file", str(address)]  # fmt: skip
    started = [subprocess.Popen(command, **quiet)]
    try:
        for _ in range(600):
            if address.is_file():
                break
            time.sleep(0.1)
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(address), "--nthreads",
                  "1", "--no-dashboard", "--memory-limit", "0", "--local-directory", str(folder)]  # fmt: skip
        started += [subprocess.Popen(worker, **quiet) for _ in range(workers)]
        import json

        yield json.loads(address.read_text())["address"], started
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def children(pid: int) -> list[int]:
    """Processes that a nanny started: its worker."""
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in found.read_text().split()] if found.is_file() else []


def test_workers_give_the_bits_of_one_process(
    data: Path, alone: dynid.Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a robot's periods are split over workers, as there are few robots."""
    monkeypatch.setattr("dynid.fleet.fleet.FEWEST_PERIODS", 1)
    found = dynid.identify_fleet(given_robot("gautier3"), data, out=tmp_path, workers=2, **OPTIONS)
    assert found.computed == 18
    assert states(tmp_path) == states(alone.folder)
    assert found.table().equals(alone.table())
    assert found.tests().equals(alone.tests())


def test_workers_that_cannot_start_are_a_line(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the user's that hides one of Python's: workers, which have the same paths, end at once."""
    (tmp_path / "distributed.py").write_text("raise ImportError('not this one')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(dynid.DynidError, match=r"ended at their start: .*(not this one|distributed)"):
        dynid.identify_fleet(given_robot("gautier3"), data, out=tmp_path / "out", workers=2, **OPTIONS)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc to find a nanny's worker")
def test_a_killed_worker_changes_no_bit(data: Path, alone: dynid.Fleet, tmp_path: Path) -> None:
    """SIGKILL at ten random times, on a scheduler and two workers that are processes of their own."""
    rng, killed, usual = random.Random(5), list[int](), 0.0
    with cluster(tmp_path, 2) as (address, (_, *nannies)):

        def kill() -> None:
            for pid in children(rng.choice(nannies).pid):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

        for turn in range(12):  # the first two show how long a run takes
            timer = threading.Timer(rng.uniform(0.1, 0.9) * usual, kill)
            if turn > 1:
                timer.start()
            start = time.monotonic()
            out = tmp_path / f"out{turn}"
            found = dynid.identify_fleet(given_robot("gautier3"), data, out=out, client=address, **OPTIONS)
            usual = time.monotonic() - start if turn < 2 else usual
            timer.cancel()
            assert states(out) == states(alone.folder)
            assert found.tests().equals(alone.tests())
    assert len(killed) >= 8


@pytest.mark.slow
def test_a_scheduler_that_is_killed_is_a_line_and_the_next_run_computes_the_rest(
    data: Path, alone: dynid.Fleet, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with cluster(tmp_path, 2) as (address, (scheduler, *_)):

        def kill_scheduler() -> None:
            for _ in range(3000):
                if len(list(out.rglob("*.state"))) >= 4:
                    break
                time.sleep(0.01)
            scheduler.kill()

        thread = threading.Thread(target=kill_scheduler)
        thread.start()
        with pytest.raises(dynid.DynidError, match="workers failed"):
            dynid.identify_fleet(given_robot("gautier3"), data, out=out, client=address, **OPTIONS)
        thread.join()
    time.sleep(1.0)
    before = len(list(out.rglob("*.state")))
    assert 4 <= before < 18
    with cluster(tmp_path / "again", 2) as (address, _):
        found = dynid.identify_fleet(given_robot("gautier3"), data, out=out, client=address, **OPTIONS)
    assert found.computed == 18 - before
    assert states(out) == states(alone.folder)
    assert found.tests().equals(alone.tests())


@pytest.mark.slow
def test_a_run_that_was_killed_computes_only_the_rest(data: Path, alone: dynid.Fleet, tmp_path: Path) -> None:
    """Client, scheduler and workers are killed together; the second run computes what is missing."""
    code = f"""
from campaign.fleet import given_robot
import dynid
dynid.identify_fleet(given_robot("gautier3"), {str(data)!r}, out={str(tmp_path / "out")!r}, workers=2, **{OPTIONS!r})
"""
    started = subprocess.Popen([sys.executable, "-c", code], env=ENVIRONMENT, start_new_session=True)
    for _ in range(3000):
        if len(list((tmp_path / "out").rglob("*.state"))) >= 4:
            break
        time.sleep(0.02)
    os.killpg(started.pid, signal.SIGKILL)
    started.wait(20)
    time.sleep(1.0)
    before = len(list((tmp_path / "out").rglob("*.state")))
    found = dynid.identify_fleet(given_robot("gautier3"), data, out=tmp_path / "out", workers=1, **OPTIONS)
    assert before >= 4
    assert found.computed == 18 - before
    assert states(tmp_path / "out") == states(alone.folder)
    assert found.tests().equals(alone.tests())


def test_starts_of_a_design_and_tasks_of_a_campaign_run_on_a_client() -> None:
    """On workers in this process: the motion that this machine finds, and results in the order of the tasks."""
    from campaign.spread import run_tasks
    from distributed import Client

    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
        usual: dict[str, Any] = {"limits": LIMITS, "starts": 3, "harmonics": 2, "criterion": "condition"}
        there = dynid.design_excitation(given_robot("gautier3"), client=client, **usual)
        here = dynid.design_excitation(given_robot("gautier3"), **usual)
        assert there.value == here.value
        assert (there.motion(50.0).q == here.motion(50.0).q).all()
        done = run_tasks(abs, range(-23, 0), scheduler=client.scheduler.address, chunk=5)
        assert list(done) == list(range(23, 0, -1))
    with pytest.raises(dynid.DynidError, match="is not an address of a Dask scheduler"):
        dynid.design_excitation(given_robot("gautier3"), client="head:8786", **usual)
