"""Ten mistakes that a newcomer makes: each is answered with its remedy, and the page of the docs says the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from command_line import CommandLine, write_motion, write_simulated
from dynid import identify, load_robot, read_log
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
    assert run("identify", "gripper.urdf", "log.csv").out.count("locked at") == 2
    run("identify", "arm.urdf", "otherwise.csv", "--column", "q=angle.turn,angle.lift,angle.bend",
        "--column", "tau=load.turn,load.lift,load.bend")  # fmt: skip


def test_degrees_without_limits_are_told(run: CommandLine) -> None:
    done = run("identify", "no_limits.urdf", "degrees.csv", "--details", code=1)
    assert "25 turns" in done.out
    assert "--units q=deg" in done.out
    assert "do not trust" in done.out


def test_columns_called_currents_are_a_warning(run: CommandLine, folder: Path) -> None:
    log = folder / "called.csv"
    log.write_text((folder / "currents.csv").read_text().replace("effort", "current"))
    assert "the torques are currents" in run("identify", "arm.urdf", log, code=1).err
    assert "currents" not in run("identify", "arm.urdf", log, "--gain", "9.3,9.3,4.1").err


def test_wrong_paths_of_logs_and_folders(run: CommandLine, folder: Path) -> None:
    assert "did you mean 'arm.urdf'" in run.fails("identify", "arm.urfd", "log.csv")
    assert "did you mean 'log.csv'" in run.fails("identify", "arm.urdf", "lgo.csv")
    assert "nor a folder 'logs'" in run.fails("identify", "arm.urdf", "logs/log.csv")
    assert "the bundled robots are" in run.fails("identify", "zebra", "log.csv")


def test_logs_of_another_robot_and_of_a_robot_that_stands_still(run: CommandLine) -> None:
    said = run.fails("identify", "arm.urdf", "other.csv")
    assert all(words in said for words in ("another robot", "shoulder_pan", "turn, lift, bend"))
    said = run.fails("identify", "arm.urdf", "still.csv")
    assert all(words in said for words in ("no joint moves", "dynid excite"))


def test_the_three_commonest_mistakes_are_repaired_by_the_option_that_is_named(run: CommandLine) -> None:
    for name, option in (
        ("order", "--order bend,lift,turn"),
        ("sign", "--sign tau.lift"),
        ("zero", "--zero lift=-90deg"),
    ):
        assert "verdict: good" in run("identify", "arm.urdf", f"{name}.csv", *option.split()).out, name


def test_masses_that_are_a_little_off_are_no_mistake(run: CommandLine, folder: Path) -> None:
    (folder / "heavier.urdf").write_text(arm_urdf().replace('<mass value="', '<mass value="1'))
    done = run("identify", "heavier.urdf", "log.csv", code=1)
    assert "masses of the robot file" in done.out
    (folder / "double.urdf").write_text(arm_urdf().replace('<mass value="4"', '<mass value="6"'))
    assert "verdict: good" in run("identify", "double.urdf", "log.csv").out


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ("excite one_link --shape points --duration 3", "duration belongs to shape 'fourier'"),
        ("excite one_link --shape points --harmonics 3", "harmonics belongs to shape 'fourier'"),
        ("excite one_link --shape points --periods 3", "periods belongs to shape 'fourier'"),
        ("excite one_link --points 9", "points belongs to shape 'points'"),
        ("excite one_link --rate 50", "--rate: applies to the files of --out"),
        ("base gautier3 --tared", "belongs to the reaction model"),
        ("base gautier3 --tared --method all", "belongs to the reaction model"),
        (
            "simulate puma560 {motion} --plate-noise 0.1",
            "--plate-noise: no forces on the base are written; add --plate",
        ),
        ("identify puma560 {log} --partial", "--partial: --model torque uses no force plate"),
        ("identify puma560 {log} --sensor plate.toml", "--sensor: --model torque uses no force plate"),
        ("identify puma560 {log} --window 0.2", "has no window"),
        ("identify puma560 {log} --topic /joint_states", "--topic is for bags only"),
        ("identify puma560 {log} --offsets-per-log --friction viscous", "--offsets-per-log needs"),
        ("identify puma560 {log} --compare --physical p.json", "--physical: applies to a single result"),
        ("identify puma560 {log} --compare --urdf p.urdf", "--urdf: applies to a single result"),
        ("identify puma560 {log} --compare --unknown r", "--unknown: applies to a single result"),
        ("identify puma560 {log} --all", "--all needs --compare"),
        ("report {result} --units q=deg", "--units: says how to read logs; give some with --log"),
        ("report {result} --topic /joint_states --gear 50", "--gear, --topic: says how to read logs"),
        (
            "payload puma560 --loaded {result} --unloaded {other} --cutoff 5 --gain 2",
            "--cutoff, --gain: applies to logs",
        ),
        ("export {result} {folder}/out.c --lock 1=0.5", "--lock is for"),
        ("export puma560 {folder}/out.c --template {result}", "a template is for .urdf and .xml files"),
    ],
)
def test_options_that_would_change_nothing_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, words: str, match: str
) -> None:
    log = write_simulated(tmp_path / "log.csv", "puma560", seconds=4.0)
    places = {"motion": write_motion(tmp_path / "m.csv"), "log": log, "folder": tmp_path}
    for name in ("result", "other"):
        places[name] = tmp_path / f"{name}.json"
        if name in words:
            puma = load_robot("puma560")
            identify(puma, read_log(log, puma), friction=()).save(places[name])
    before = set(tmp_path.iterdir())
    assert match in CommandLine(monkeypatch, capsys).fails(*words.format(**places).split())
    assert set(tmp_path.iterdir()) == before
