"""Ten mistakes that a newcomer makes: each is answered with its remedy, and the page of the docs says the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from command_line import CommandLine
from mistakes import MISTAKES, PAGE, Mistake, answer, arm_urdf, page, write_files


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("mistakes")
    write_files(made)
    return made


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    monkeypatch.chdir(folder)
    return CommandLine(monkeypatch, capsys)


def shown(text: str) -> str:
    """A page without the figures that differ from machine to machine."""
    return re.sub(r"\d+(\.\d+)?(e[+-]\d+)?", "#", text)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.title)
def test_a_mistake_is_answered_with_its_remedy(mistake: Mistake, run: CommandLine) -> None:
    done = run(*mistake.command.split(), code=mistake.code)
    if mistake.code == 2:
        assert done.err.count("\n") <= 2
    said = answer(mistake, done.out, done.err)
    for words in mistake.words:
        assert words in said, said
    assert f"$ dynid {mistake.command}\n{shown(said)}\n```" in re.sub(
        r"(?<=\n)(?!\$)(.*)", lambda line: shown(line[0]), PAGE.read_text()
    )


def test_the_page_has_all_mistakes_and_nothing_else() -> None:
    text = PAGE.read_text()
    answers = {m.title: text.split(f"$ dynid {m.command}\n")[1].split("\n```")[0] for m in MISTAKES}
    assert text == page(answers)


def test_the_same_log_is_good_without_mistakes(run: CommandLine) -> None:
    assert "verdict: good" in run("identify", "arm.urdf", "log.csv").out
    run("identify", "arm.urdf", "degrees.csv", "--units", "q=deg")
    run("identify", "arm.urdf", "currents.csv", "--gain", "9.3,9.3,4.1")
    run("identify", "gripper.urdf", "log.csv", "--lock", "finger_left=0", "--lock", "finger_right=0")
    run("identify", "arm.urdf", "otherwise.csv", "--column", "q=angle.turn,angle.lift,angle.bend",
        "--column", "tau=load.turn,load.lift,load.bend")  # fmt: skip


def test_degrees_without_limits_are_told(run: CommandLine) -> None:
    done = run("identify", "no_limits.urdf", "degrees.csv", code=1)
    assert "25 turns" in done.out
    assert "--units q=deg" in done.out
    assert "do not trust" in done.out


def test_columns_called_currents_are_a_warning(run: CommandLine, folder: Path) -> None:
    log = folder / "called.csv"
    log.write_text((folder / "currents.csv").read_text().replace("effort", "current"))
    assert "the torques are currents" in run("identify", "arm.urdf", log, code=1).err
    assert "currents" not in run("identify", "arm.urdf", log, "--gain", "9.3,9.3,4.1").err


def test_wrong_paths_of_logs_and_folders(run: CommandLine, folder: Path) -> None:
    assert "did you mean 'log.csv'" in run.fails("identify", "arm.urdf", "lgo.csv")
    assert "nor a folder 'logs'" in run.fails("identify", "arm.urdf", "logs/log.csv")
    assert "the bundled robots are" in run.fails("identify", "zebra", "log.csv")


def test_masses_that_are_a_little_off_are_no_mistake(run: CommandLine, folder: Path) -> None:
    (folder / "heavier.urdf").write_text(arm_urdf().replace('<mass value="', '<mass value="1'))
    done = run("identify", "heavier.urdf", "log.csv", code=1)
    assert "masses of the robot file" in done.out
    (folder / "double.urdf").write_text(arm_urdf().replace('<mass value="4"', '<mass value="6"'))
    assert "verdict: good" in run("identify", "double.urdf", "log.csv").out
