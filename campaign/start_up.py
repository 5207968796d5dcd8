"""Ctrl-C at every step of a command, from dynid's first line to Python's end: `python -m campaign.start_up robots`.

The command runs in a process that follows itself (`sys.settrace`) and forks at each line of dynid's functions, at each
import, and at one of `--every` calls of and returns from other functions and lines of modules, the first time that it
comes there. The fork gets SIGINT in that place: it must end with one line and exit code 130, or as the work does.
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
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

FINE = "interrupted: one line, 130"
DONE = "work was done"


class _Everything(set[Any]):
    """Holds whatever is asked for."""

    def __contains__(self, _item: object) -> bool:
        return True


class Follower:
    """Trace function that forks at new places: all in functions of dynid and at imports, else one of `every`."""

    def __init__(self, results: Path, every: int) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        self.results, self.error, self.output = (os.open(f"{results}{end}", flags) for end in ("", ".err", ".out"))
        os.dup2(self.output, 1)
        os.dup2(self.error, 2)
        self.every, self.count, self.active, self.seen = every, 0, False, set[Any]()
        # At the end of Python the names of modules are gone.
        self.needs = (os.fork, os.waitpid, os.waitstatus_to_exitcode, os.ftruncate, os.pread, os.write, json.dumps)

    def follow(self, frame: FrameType, event: str, _argument: object) -> Any:
        """Fork at what is new."""
        code = frame.f_code
        name = code.co_filename
        if not self.active:  # until dynid catches Ctrl-C
            self.active = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
            return self.follow if name.endswith("dynid/__init__.py") else None
        own, every = "/dynid/" in name, 1
        if own:
            place: Any = (code, frame.f_lineno, event)
            every = self.every if code.co_name == "<module>" else 1
        elif name == "<frozen importlib._bootstrap>" and code.co_name == "_load_unlocked":
            place = (code, event, frame.f_locals["spec"].name)
        else:
            place, every = (code, event), self.every
        if event != "line" or own:
            if place not in self.seen:
                self.seen.add(place)
                self.count += 1
                if self.count % every == 0:
                    self._interrupt_fork(frame, event)
            elif not own:
                return None
        return self.follow

    def _interrupt_fork(self, frame: FrameType, event: str, stop: Any = sys.settrace, press: Any = os.kill) -> None:
        """Fork, and press Ctrl-C in the fork; note how it ends."""
        fork, wait, exit_code, truncate, read, write, dumps = self.needs
        truncate(self.error, 0)
        child = fork()
        if child == 0:
            stop(None)
            self.every, self.seen = 10**9, _Everything()
            at: FrameType | None = frame
            while at is not None:
                at.f_trace = None
                at = at.f_back
            signal.alarm(60)
            press(os.getpid(), 2)
            return
        code, errors = exit_code(wait(child, 0)[1]), read(self.error, 100_000, 0).decode()
        place = f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name} {event}"
        write(self.results, (dumps([_judge(code, errors), place, code, errors]) + "\n").encode())


def _judge(code: int, errors: str) -> str:
    """What happened to a fork."""
    if (code, errors) == (130, "dynid: interrupted\n"):
        return FINE
    if code in (0, 1) and "Traceback" not in errors and "interrupted" not in errors:
        return DONE
    return f"WRONG: exit code {code}, {errors[-200:]!r}"


def interrupt_everywhere(words: Sequence[str], folder: Path, every: int = 1) -> list[tuple[str, str]]:
    """Run a command that is interrupted in forks: what happened, and where."""
    with tempfile.TemporaryDirectory() as name:
        results = Path(name) / "results"
        process = [sys.executable, __file__, "--inside", str(results), "--every", str(every), *words]
        subprocess.run(process, cwd=folder, check=False, stdin=subprocess.DEVNULL)
        lines = [json.loads(line) for line in results.read_text().splitlines()]
    return [(what, place) for what, place, _code, _errors in lines]


def _run_inside(results: Path, every: int, words: list[str]) -> None:
    """Run the command of `interrupt_everywhere`."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["dynid", *words]
    sys.settrace(Follower(results, every).follow)
    from dynid.cli import main as command

    command()


def main() -> None:
    """Run the campaign from the command line; exit code 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs=argparse.REMAINDER)
    parser.add_argument("--inside", type=Path)
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    if given.inside is not None:
        _run_inside(given.inside, given.every, given.words)
    found = interrupt_everywhere(given.words or ["robots"], Path.cwd(), given.every)
    wrong = [(what, place) for what, place in found if what.startswith("WRONG")]
    for what, place in wrong[:50]:
        print(f"{place}\n  {what}")
    for what, count in sorted(collections.Counter(what[:5] if "WRONG" in what else what for what, _ in found).items()):
        print(f"{count:6d}  {what}")
    sys.exit(bool(wrong) or not found)


if __name__ == "__main__":
    main()
