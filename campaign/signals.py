"""Ctrl-C and SIGKILL at random times of commands that work and write; `python -m campaign.signals --kills 1000`.

An interrupt must be one line and exit code 130 (or the exit code of the work, where that was done), a killed writer
must leave whole files or none, and the next run in the folder must remove what the killed ones left. Most commands run
in forks of this process, which has all modules loaded; every fifth interrupt meets a process of its own, start-up and
exit included. What comes before the first line of dynid (the start of Python itself) is counted apart.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from campaign import files, fuzz

EXCITE = ["excite", "arm.toml", "--duration", "2", "--starts", "2", "--acceleration", "5", "--velocity", "1"]
COMMANDS: tuple[list[str], ...] = (
    ["identify", "arm.toml", "log.csv", "--friction", "viscous", "--out", "a.json", "--report", "a.html"],
    ["simulate", "robot.urdf", "motion.json", "--out", "b.parquet", "--rate", "2000"],
    ["simulate", "robot.urdf", "motion.json", "--out", "b.csv", "--rate", "2000"],
    [*EXCITE, "--time-budget", "0.3", "--rate", "1000", "--out", "c.csv", "--json", "c.json"],
    ["export", "result.json", "d.urdf", "--force"],
    ["report", "result.json", "--out", "e.html"],
    ["base", "puma560", "--json", "f.json"],
)
SPAN = 0.6
"""Seconds within which a forked command is met."""


def _fill(folder: Path) -> None:
    """Write what the commands read."""
    (folder / "arm.toml").write_text(files.TABLE)
    (folder / "robot.urdf").write_text(files.URDF)
    (folder / "log.csv").write_bytes(files.text(files.columns(np.random.default_rng(1))))
    for name, raw in fuzz._seeds().items():
        if name != "dynid.toml":
            (folder / name).write_bytes(raw)


def _run_until_signal(words: Sequence[str], folder: Path, number: int, delay: float) -> tuple[int, str, float]:
    """Run a command in a fork and send it a signal: exit code, standard error, seconds from the signal to the end."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            fuzz._run_child(words, folder, out.fileno(), err.fileno(), 60)
        time.sleep(delay)
        os.kill(child, number)  # not yet waited for: the number is still its own
        start = time.monotonic()
        _, status = os.waitpid(child, 0)
        err.seek(0)
        return os.waitstatus_to_exitcode(status), err.read().decode(), time.monotonic() - start


def _damaged(folder: Path) -> list[str]:
    """Files that are not whole."""
    ends = {".html": "</html>", ".urdf": "</robot>"}
    bad = []
    for path in folder.iterdir():
        raw = b"" if path.name.startswith(".") else path.read_bytes()
        if path.name.startswith("."):
            continue
        whole = bool(raw)
        if path.suffix == ".json":
            try:
                json.loads(raw)
            except ValueError:
                whole = False
        elif path.suffix == ".parquet":
            whole = raw[:4] == raw[-4:] == b"PAR1"
        elif path.suffix in ends:
            whole = raw.decode().rstrip().endswith(ends[path.suffix])
        else:
            whole = raw.endswith(b"\n")
        if not whole:
            bad.append(path.name)
    return bad


def interrupt_fork(rng: np.random.Generator, folder: Path) -> str:
    """Ctrl-C of a command in a fork: what happened."""
    words = COMMANDS[int(rng.integers(len(COMMANDS)))]
    code, errors, seconds = _run_until_signal(words, folder, signal.SIGINT, float(rng.uniform(0.01, SPAN)))
    if seconds > 5.0:
        return f"WRONG: {words[0]} went on for {seconds:.0f} s"
    if code == -signal.SIGINT and not errors:
        return "ended before dynid's first line"
    return _judge(words, code, errors)


def _judge(words: Sequence[str], code: int, errors: str) -> str:
    """Whether an interrupted command ended as it should."""
    if "Traceback" in errors or code not in (0, 1, 130):
        print(f"{words[0]}: exit code {code}\n{errors[-3000:]}", file=sys.stderr, flush=True)
    if "Traceback" in errors:
        return f"WRONG: {words[0]}: traceback, {errors.strip().splitlines()[-1][:80]}"
    if code == 130:
        said = errors.strip().splitlines()[-1:] == ["dynid: interrupted"]
        return "interrupted: one line, 130" if said else f"WRONG: {words[0]}: 130 and {errors[-80:]!r}"
    return "work was done" if code in (0, 1) else f"WRONG: {words[0]}: exit code {code}, {errors[-80:]!r}"


def interrupt_process(rng: np.random.Generator, folder: Path) -> str:
    """Ctrl-C of a process of its own, from its first millisecond on."""
    words = (["robots"], ["mdh", "arm.toml"], ["check", "arm.toml"])[int(rng.integers(3))]
    script = "import sys; sys.argv[0] = 'dynid'; from dynid.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", script, *words], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    time.sleep(float(rng.uniform(0.0, 0.8)))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    if process.returncode == -signal.SIGINT and not errors:
        return "ended before dynid's first line"
    if "Traceback" in errors and "/dynid/" not in errors:
        return "Python's own traceback before dynid's first line"
    return _judge(words, process.returncode, errors)


def kill(rng: np.random.Generator, folder: Path) -> str:
    """SIGKILL of a command that writes: what happened."""
    words = COMMANDS[int(rng.integers(len(COMMANDS)))]
    _run_until_signal(words, folder, signal.SIGKILL, float(rng.uniform(0.01, SPAN)))
    bad = _damaged(folder)
    return f"WRONG: {words[0]}: {bad[0]} is not whole" if bad else "killed: files whole"


def main() -> None:
    """Run the campaign from the command line; exit code 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--interrupts", type=int, default=0)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process ignores it, and its children would
    fuzz.warm_up()
    rng = np.random.default_rng([26, given.seed])
    found: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _fill(folder)
        for k in range(given.interrupts):
            found[(interrupt_process if k % 5 == 0 else interrupt_fork)(rng, folder)] += 1
        left = [path.name for path in folder.glob(".*")] + _damaged(folder)
        found["WRONG: an interrupted command left a file"] += len(left)
        found.update(kill(rng, folder) for _ in range(given.kills))
        before = len(list(folder.glob(".*")))
        fuzz.run(["base", "arm.toml", "--json", "last.json"], folder)
        after = len(list(folder.glob(".*")))
        found["WRONG: not removed by the next run"] += after
    for what, count in sorted(found.items()):
        if count:
            print(f"{count:6d}  {what}")
    print(f"{before} temporary files of killed writers, {after} after the next run")
    sys.exit(any(what.startswith("WRONG") and count for what, count in found.items()))


if __name__ == "__main__":
    main()
