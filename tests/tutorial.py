"""What the commands of the tutorial print: run as a script it writes their outputs into docs/tutorial.md."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"
BLOCK = re.compile(r"```sh\n(?P<commands>.*?)```\n(?:\n```text\n(?P<output>.*?)```\n)?", re.DOTALL)
MOST, FIRST, LAST = 18, 11, 6
"""Lines of an output that the page shows, and which ones of a longer one."""


def shown(output: str) -> str:
    """An output as the page shows it: without blank lines, the middle of a long one left out."""
    lines = [re.sub(r"\u2500{9,}.*$", "\u2500" * 9, re.sub(r"\s+\u2502?$", "", line)) for line in output.splitlines()]
    lines = [line for line in lines if line.strip(" \u2502")]
    return "\n".join(lines if len(lines) <= MOST else [*lines[:FIRST], "...", *lines[-LAST:]]) + "\n"


def without_figures(text: str) -> str:
    """An output without what differs from machine to machine: figures, widths of columns, cut places, close choices."""
    text = re.sub(r"trust \w+ by \w+: .*", "trust one of them", text)
    return re.sub(r"\s+", " ", re.sub(r"[-+]?\d+(\.\d+)?(e[+-]\d+)?", "#", text))


def is_current(output: str) -> bool:
    """Whether the page shows what a command printed: the same first lines and the same last one, but for figures."""
    page, lines = without_figures(PAGE.read_text(encoding="utf-8")), shown(output).splitlines()
    return all(without_figures(line).strip() in page for line in (*lines[:3], lines[-1]))


def main() -> None:
    """Type every command and write the page anew."""
    with tempfile.TemporaryDirectory() as folder:

        def typed(found: re.Match[str]) -> str:
            printed = ""
            for line in found["commands"].splitlines():
                words = [sys.executable, "-m", *shlex.split(line, comments=True)]
                done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=280)
                printed += shown(done.stdout)
            return f"```sh\n{found['commands']}```\n\n```text\n{printed}```\n"

        PAGE.write_text(BLOCK.sub(typed, PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
