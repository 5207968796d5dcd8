"""What README and docs show is true: their Python runs, their tables load, their commands exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from dynid import load_robot

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language: str) -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        found += [(page.name, code) for code in re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)]
    return found


@pytest.mark.parametrize(("page", "code"), blocks("python"))
def test_python_of_the_docs_runs(page: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, page, "exec"), {})


@pytest.mark.parametrize(("page", "code"), [b for b in blocks("toml") if "[[joint]]" in b[1]])
def test_tables_of_the_docs_load(page: str, code: str, tmp_path: Path) -> None:
    file = tmp_path / "robot.toml"
    file.write_text(code)
    assert load_robot(file).n == len(tomllib.loads(code)["joint"])


def test_make_targets_of_the_docs_exist() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        wanted = set(re.findall(r"^make (\w+)", page.read_text(), re.MULTILINE))
        assert wanted <= targets, page


def test_commands_of_the_docs_exist() -> None:
    from dynid.cli import app

    commands = {command.callback.__name__ for command in app.registered_commands if command.callback}
    for page in PAGES:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL):
            assert set(re.findall(r"^dynid (\w+)", block, re.MULTILINE)) <= commands, page
