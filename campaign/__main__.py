"""`python -m campaign [robots [mechanisms [files [pairs [arms [cells [drives]]]]]]]`: how many of each.

20,000 robots, 300 mechanisms, 20,000 files, 30 pairs per robot, 300 arms, 200 cells, 64 sets of drives where missing.

Exit 1 if one is wrong, or too many of the mistakes are not found.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from multiprocessing import Pool
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

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

    counts = (20_000, 300, 20_000, 30, 300, 200, 64)
    robots, mechanisms, files, pairs, arms, cells, drives = (
        int(sys.argv[k]) if len(sys.argv) > k else n for k, n in enumerate(counts, 1)
    )
    wrong = _run("base parameters", "robots", _check, robots)
    wrong += _run("closed loops", "mechanisms", _check_loops, mechanisms)
    wrong += _run("damaged files", "files", _check_file, files)
    wrong += run_mistakes(["--doubles", str(pairs)])
    wrong += run_bodies([str(arms)])
    wrong += run_cells(["--short", str(cells)])
    wrong += run_actuators([str(drives)])
    sys.exit(1 if wrong else 0)


def _run(title: str, things: str, check: Callable[[int], str | None], count: int) -> int:
    wrong = 0
    with Pool() as pool:
        for done, finding in enumerate(pool.imap_unordered(check, range(FIRST, FIRST + count), chunksize=10), 1):
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
