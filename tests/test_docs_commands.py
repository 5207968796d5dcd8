"""The commands of the tutorial and of 'your own robot' are typed one after the other, and all succeed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import commands_page
import tutorial
from command_line import CommandLine, write_simulated
from dynid import Wiring, load_robot
from dynid.cli.project import forget_values_in_use
from mistakes import arm_urdf, recorded

DOCS = Path(__file__).parents[1] / "docs"
known = commands_page.commands()


def commands(page: str) -> list[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("dynid ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


@pytest.mark.parametrize("page", sorted(str(file.relative_to(DOCS)) for file in DOCS.rglob("*.md")))
def test_options_of_every_command_in_the_docs_exist(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if page == "project.md":
        write_project(tmp_path)
    for name, *words in commands(page):
        known[name].make_context(name, list(words))
    forget_values_in_use()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine(monkeypatch, capsys)


def test_the_tutorial(run: CommandLine) -> None:
    pytest.importorskip("viser")
    said = ""
    for words in commands("tutorial.md"):
        printed = run(*words, *(("--port", "0") if words[0] == "view" else ())).out
        assert tutorial.is_current(printed), "run python tests/tutorial.py"
        said += printed
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


def write_project(place: Path) -> None:
    """The project file of its page, with an arm and logs that need it."""
    text = re.findall(r"```toml\n(.*?)```", (DOCS / "project.md").read_text(), re.DOTALL)[0]
    (place / "dynid.toml").write_text(text)
    (place / "my_robot.urdf").write_text(arm_urdf(gripper=True))
    robot = load_robot(place / "my_robot.urdf", lock={"finger_left": 0.0, "finger_right": 0.0})
    mistakes = Wiring(sign_tau=np.array([1.0, 1.0, -1.0]), zero=np.array([0.0, np.pi / 2, 0.0]))
    for k in range(1, 5):
        log = recorded(robot, seconds=25.0, seed=k).rewired(mistakes)
        assert log.tau is not None
        table = np.column_stack([log.t, np.degrees(log.q), 1e3 * log.tau])
        np.savetxt(place / f"run{k}.csv", table, delimiter=",", header="clock,a,b,c,tau1,tau2,tau3", comments="")


def test_the_project_of_its_page(run: CommandLine, tmp_path: Path) -> None:
    write_project(tmp_path)
    typed = [words for words in commands("project.md") if words[0] != "init"]
    assert [words[0] for words in typed] == ["identify", "identify", "base", "identify"]
    said = [run(*words).out for words in typed]
    assert all("note: from dynid.toml: " in text for text in said)
    assert all("verdict: good" in text for text in (said[0], said[1], said[3]))
    assert "filtered at 20 Hz" in said[1]
    assert "run4.csv" in said[3]


def test_unknown_prints_what_its_page_shows(run: CommandLine) -> None:
    shown = re.findall(r"^[XF]\d\d = .*$", (DOCS / "unknown.md").read_text(), re.MULTILINE)
    said = [line.strip() for line in run(*commands("unknown.md")[0]).out.splitlines()]
    assert len(shown) == 12
    assert set(shown) <= set(said)
