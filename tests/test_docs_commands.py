"""The commands of the tutorial and of 'your own robot' are typed one after the other, and all succeed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import commands_page
from command_line import CommandLine, write_simulated
from mistakes import arm_urdf

DOCS = Path(__file__).parents[1] / "docs"
known = commands_page.commands()


def commands(page: str) -> list[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("dynid ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


@pytest.mark.parametrize("page", sorted(str(file.relative_to(DOCS)) for file in DOCS.rglob("*.md")))
def test_options_of_every_command_in_the_docs_exist(page: str) -> None:
    for name, *words in commands(page):
        known[name].make_context(name, list(words))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine(monkeypatch, capsys)


def test_the_tutorial(run: CommandLine) -> None:
    pytest.importorskip("viser")
    said = ""
    for words in commands("tutorial.md"):
        said += run(*words, *(("--port", "0") if words[0] == "view" else ())).out
    for part in (
        "16 base parameters",
        "MXR2 = MX2 + D3*M3",
        "limits hold at every instant",
        "verdict: good",
        "trust ",
        "verified: loaded again",
    ):
        assert part in said, part


def test_your_own_robot(run: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(arm_urdf())
    tables = re.findall(r"```toml\n(.*?)```", (DOCS / "own_robot.md").read_text(), re.DOTALL)
    (tmp_path / "my_arm.toml").write_text(tables[0])
    words = commands("own_robot.md")
    assert [w[0] for w in words] == ["mdh", "base", "mdh", "base", "excite", "identify"]
    said = "".join(run(*w).out for w in words[:-1])
    assert "UPPER" in said
    both = []
    for number, text in enumerate(tables):
        (tmp_path / f"{number}.toml").write_text(text)
        both.append(run("base", f"{number}.toml").out.splitlines()[0].split(":")[1])
    assert both[0] == both[1], "the two notations describe one arm"


def test_recording_and_filter(run: CommandLine, tmp_path: Path) -> None:
    write_simulated(tmp_path / "log.csv", "gautier3", seconds=20.0)
    typed = (*commands("recording.md"), *commands("filter.md"))
    assert typed
    for words in typed:
        assert "verdict: good" in run(*words).out


def test_unknown_prints_what_its_page_shows(run: CommandLine) -> None:
    shown = re.findall(r"^[XF]\d\d = .*$", (DOCS / "unknown.md").read_text(), re.MULTILINE)
    said = [line.strip() for line in run(*commands("unknown.md")[0]).out.splitlines()]
    assert len(shown) == 12
    assert set(shown) <= set(said)
