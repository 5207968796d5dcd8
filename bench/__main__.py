"""The face of the timings: prepares the process, runs the topics and prints their tables.

Nothing here may import numpy before the process has been started again with a fixed environment.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib import import_module
from pathlib import Path

TOPICS = {
    "kernel": "bench.kernel",
    "base": "bench.base",
    "startup": "bench.startup",
    "excitation": "bench.excitation",
    "identification": "bench.identification",
    "unknown": "bench.unknown",
    "export": "bench.export",
    "physical": "bench.physical",
}
"""Modules with a function tables() -> Iterator[Table]."""

# One thread per library: only dynid's own threads are compared.
THREADS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
}
# glibc hands freed blocks below its mmap threshold out again, and raises that threshold by itself up to
# 32 MiB. A matrix would then land on pages that an earlier round has already touched, and whoever comes
# second would not pay for page faults. A fixed low threshold makes every large array a mapping of its own,
# with pages fresh from the operating system, for every contender alike. glibc reads it only at the start.
ENVIRONMENT = THREADS | {
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
}


def main() -> None:
    """Run the chosen topics (all, unless named)."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Timings, side by side, from one run.")
    parser.add_argument("topics", nargs="*", metavar="topic", help=f"any of: {', '.join(TOPICS)} (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    chosen = parser.parse_args()
    unknown = [topic for topic in chosen.topics if topic not in TOPICS]
    if unknown:
        parser.error(f"there is no topic {', '.join(unknown)}; topics are {', '.join(TOPICS)}")
    start_again_in(ENVIRONMENT, "bench")
    run(chosen.topics or list(TOPICS), chosen.json)


def start_again_in(environment: dict[str, str], module: str) -> None:
    """Replace this process by one of this module with these variables, unless it already has them."""
    if any(os.environ.get(name) != value for name, value in environment.items()):
        command = [sys.executable, "-m", module, *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **environment})


def run(topics: list[str], file: Path | None) -> None:
    """Print each table as soon as it is measured."""
    from rich.console import Console

    # A pipe or file has no width of its own; the tables need about 150 characters.
    console = Console(width=None if sys.stdout.isatty() else 160)
    figures = []
    for topic in topics:
        for table in import_module(TOPICS[topic]).tables():
            console.print(table.rich(), "")
            figures.append(table.plain())
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
