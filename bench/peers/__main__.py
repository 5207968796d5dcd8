"""The face of the peers' timings. As in `bench.__main__`, numpy may only be imported after the new start."""

from __future__ import annotations

import argparse
import sys

from bench.__main__ import THREADS, start_again_in


def main() -> None:
    """Make the peers' environment if need be, measure and print."""
    said = "Base parameters against FIGAROH; drives against mujoco.sysid and CMA-ES."
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=said)
    parser.add_argument("--only", choices=("base", "drives"), help="one of the two")
    only = parser.parse_args().only
    # Memory stays as the system hands it out: this is about what users of either package wait for.
    start_again_in(THREADS, "bench.peers")

    from rich.console import Console

    from bench.peers import drives, side_by_side

    console = Console(width=None if sys.stdout.isatty() else 160)
    parts = {"base": side_by_side.tables, "drives": drives.tables}
    for name, tables in parts.items():
        for table in tables() if only in (None, name) else ():
            console.print(table.rich(), "")


if __name__ == "__main__":
    main()
