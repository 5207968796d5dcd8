"""`python -m campaign [robots [mechanisms [files [pairs [arms [cells [drives]]]]]]] [--scheduler ADDRESS]`: how many.

20,000 robots, 300 mechanisms, 20,000 files, 30 pairs per robot, 300 arms, 200 cells, 64 sets of drives where missing.
--scheduler: of a Dask cluster whose workers were started in this folder; without it the cores of this machine. Cells
and drives, whose times are measured, run in this process.

Exit 1 if one is wrong, or too many of the mistakes are not found.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

from campaign.spread import run_tasks  # noqa: E402  (after the environment is set)

FIRST = 10_000
"""The first seed."""


def _check(seed: int) -> str | None:
    from campaign.base import check

    try:
        return check(seed)
    except Exception as error:  # any crash of a random robot is a finding of the campaign
        return f"robot {seed}: {type(error).__name__}: {error}"


def _check_loops(seed: int) -> str | None:
    from campaign.loops import check

    try:
        return check(seed - FIRST)
    except Exception as error:  # as above
        return f"mechanism {seed}: {type(error).__name__}: {error}"


def _check_file(seed: int) -> str | None:
    from campaign.files import check

    with tempfile.TemporaryDirectory() as folder:
        return check(seed, Path(folder))


def main() -> None:
    """Run the campaigns and print every finding."""
    from campaign.actuators import main as run_actuators
    from campaign.bodies import main as run_bodies
    from campaign.cells import main as run_cells
    from campaign.mistakes import main as run_mistakes

    names = ("robots", "mechanisms", "files", "pairs", "arms", "cells", "drives")
    parser = argparse.ArgumentParser(prog="python -m campaign", description=(__doc__ or "").split("\n")[0])
    for name, usual in zip(names, (20_000, 300, 20_000, 30, 300, 200, 64), strict=True):
        parser.add_argument(name, nargs="?", type=int, default=usual)
    parser.add_argument("--scheduler", help="address of a Dask scheduler: tcp://head:8786")
    asked = parser.parse_args()
    elsewhere = [] if asked.scheduler is None else ["--scheduler", asked.scheduler]
    wrong = _run("base parameters", "robots", _check, asked.robots, asked.scheduler)
    wrong += _run("closed loops", "mechanisms", _check_loops, asked.mechanisms, asked.scheduler)
    wrong += _run("damaged files", "files", _check_file, asked.files, asked.scheduler)
    wrong += run_mistakes(["--doubles", str(asked.pairs), *elsewhere])
    wrong += run_bodies([str(asked.arms), *elsewhere])
    wrong += run_cells(["--short", str(asked.cells)])
    wrong += run_actuators([str(asked.drives)])
    sys.exit(1 if wrong else 0)


def _run(title: str, things: str, check: Callable[[int], str | None], count: int, scheduler: str | None) -> int:
    wrong, seeds = 0, range(FIRST, FIRST + count)
    for done, finding in enumerate(run_tasks(check, seeds, scheduler=scheduler, chunk=10), 1):
        if finding:
            wrong += 1
            sys.stdout.write(finding + "\n")
        if done % 1000 == 0:
            sys.stdout.write(f"{done} {things}, {wrong} findings\n")
            sys.stdout.flush()
    sys.stdout.write(f"{title}: {count} {things}, {wrong} findings\n")
    return wrong


if __name__ == "__main__":
    main()
