"""What a fresh process costs: the first call with kernels cached on disk, `import dynid`, `dynid --help`."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from bench.timing import ROUNDS, Cell, Table, Verdict


def tables() -> Iterator[Table]:
    """Measure and return the table."""
    yield startup()


def startup() -> Table:
    """Seconds of CPU in fresh processes."""
    bare = [sys.executable, "-c", "pass"]
    commands = {"bare": bare, "import dynid": [sys.executable, "-c", "import dynid"]}
    help_command = find_help()
    if help_command is not None:
        commands["dynid --help"] = help_command
    spent = best_of_processes(ROUNDS, commands)
    rows: list[tuple[Cell, ...]] = [("first call of regressor", Verdict(first_call(ROUNDS), 0.6))]
    rows += [(name, Verdict(s - spent["bare"], 0.4)) for name, s in spent.items() if name != "bare"]
    if help_command is None:
        rows.append(("dynid --help", "skipped: there is no dynid.cli"))
    return Table(
        "A fresh process, seconds of CPU",
        ("what", "CPU"),
        tuple(rows),
        f"Best of {ROUNDS} processes. First call: beyond imports, kernels cached on disk by an earlier one. "
        "Others: user and system time minus that of `python -c pass`.",
    )


def find_help() -> list[str] | None:
    """Command that prints the help, None where there is no command line yet."""
    script = Path(sys.executable).with_name("dynid")
    if script.exists():
        return [str(script), "--help"]
    if find_spec("dynid.cli") is not None:
        return [sys.executable, "-m", "dynid.cli", "--help"]
    return None


def best_of_processes(rounds: int, commands: dict[str, list[str]]) -> dict[str, float]:
    """CPU seconds of each command, interleaved as in `timing.best_of`, after one run that is not counted."""
    spent: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds + 1):
        for name, command in commands.items():
            before = children_cpu()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=3600)
            spent[name].append(children_cpu() - before)
    return {name: min(every[1:]) for name, every in spent.items()}


def children_cpu() -> float:
    """User and system seconds of all processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def first_call(rounds: int) -> float:
    """CPU seconds of the first call; a process before the first round fills the cache."""
    command = [sys.executable, "-m", "bench.first_call"]
    spent = [
        float(subprocess.run(command, check=True, capture_output=True, text=True, timeout=3600).stdout)
        for _ in range(rounds + 1)
    ]
    return min(spent[1:])
