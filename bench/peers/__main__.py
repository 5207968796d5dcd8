"""The face of the peers' timings. As in `bench.__main__`, numpy may only be imported after the new start."""

from __future__ import annotations

import argparse
import sys

from bench.__main__ import THREADS, start_again_in


def main() -> None:
    """Make the peers' environment if need be, measure and print."""
    argparse.ArgumentParser(prog="python -m bench.peers", description="Base parameters against FIGAROH.").parse_args()
    # Memory stays as the system hands it out: this is about what users of either package wait for.
    start_again_in(THREADS, "bench.peers")

    from rich.console import Console

    from bench.peers.side_by_side import tables

    console = Console(width=None if sys.stdout.isatty() else 160)
    for table in tables():
        console.print(table.rich(), "")


if __name__ == "__main__":
    main()
