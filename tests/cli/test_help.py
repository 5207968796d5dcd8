"""Help that helps: every command has an example that is true, every option a text; TAB is light and right."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest

from commands_page import PAGE, commands, page

HEAVY = {"numba", "pinocchio", "sympy", "plotly", "polars", "scipy", "mujoco", "flint", "viser", "numpy"}
"""Not pydantic: typer itself loads it to read a command's words."""

NAMES = tuple(commands())


def examples(name: str) -> list[str]:
    return re.findall(r"Example: (dynid [^\n]+)", str(commands()[name].help))


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_command_can_be_typed(name: str) -> None:
    found = examples(name)
    assert found, f"dynid {name} --help has no example"
    for example in found:
        first, second, *words = shlex.split(example)
        assert (first, second) == ("dynid", name)
        context: Any = commands()[name].make_context(name, words)
        assert context.params


@pytest.mark.parametrize("name", NAMES)
def test_every_argument_and_option_is_explained(name: str) -> None:
    for parameter in commands()[name].params:
        if parameter.name != "help":
            assert parameter.help, f"dynid {name}: {parameter.name} has no help"
            assert len(parameter.help) > 5


@pytest.mark.parametrize("name", NAMES)
def test_a_command_says_in_one_sentence_what_it_does(name: str) -> None:
    first = str(commands()[name].help).split("\n\n")[0].strip()
    assert first.endswith(".")
    assert len(first) < 150


def complete(line: str) -> tuple[list[str], set[str]]:
    """What bash offers for a line, and the modules that this took."""
    words = line.split(" ")
    script = "import sys\nsys.argv = ['dynid']\ntry:\n from dynid.cli import main; main()\nfinally:\n"
    script += " print('MODULES', *sys.modules)"
    environment = {
        **os.environ, "_DYNID_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False, timeout=280
    )
    offered, _, modules = done.stdout.partition("MODULES")
    return offered.split(), set(modules.split())


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("dynid id", ["identify"]),
        ("dynid base pu", ["puma560", "puma562"]),
        ("dynid identify --es", ["--estimator"]),
        ("dynid view ./my", []),
    ],
)
def test_the_shell_completes_without_heavy_modules(line: str, offered: list[str]) -> None:
    found, modules = complete(line)
    assert found == offered
    assert modules
    assert not modules & HEAVY


def test_the_reference_in_the_docs_is_that_of_the_commands() -> None:
    assert PAGE.read_text() == page(), "run: python tests/commands_page.py"
