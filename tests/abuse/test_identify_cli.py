"""Mistakes at the command line of `identify`: a line or two, exit code 2, nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from command_line import CommandLine, write_simulated
from dynid import load_robot, read_log
from dynid.robot.transform import Array
from robots import smooth_path

PLAIN = ("--friction", "viscous,coulomb,offset")
HEADER = "t,q1,q2,q3,tau1,tau2,tau3"


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_simulated(tmp_path_factory.mktemp("logs") / "log.csv", seconds=6.0)


def rows_of(log: Path) -> Array:
    """t, q and tau of a log of gautier3."""
    samples = read_log(log, load_robot("gautier3"))
    assert samples.tau is not None
    return np.column_stack([samples.t, samples.q, samples.tau])


def save(path: Path, rows: Array, header: str = HEADER) -> Path:
    np.savetxt(path, rows, delimiter=",", header=header, comments="", fmt="%.17g")
    return path


def refuses(dynid: CommandLine, path: Path, *words: object, robot: str = "gautier3") -> str:
    """Return the message; neither result is written."""
    folder = path.parent / "out"
    folder.mkdir(exist_ok=True)
    error = dynid.fails("identify", robot, path, *words, "--out", folder / "r.json", "--json", folder / "s.json")
    assert list(folder.iterdir()) == []
    return error


def test_unknown_column(dynid: CommandLine, log: Path, tmp_path: Path) -> None:
    path = save(tmp_path / "log.csv", rows_of(log), "t,q1,q2,q3,x,y,z")
    assert "it has no joint torques; name the columns with --column tau=NAME,..." in refuses(dynid, path)
    error = refuses(dynid, path, "--column", "tau=x,y,w")
    assert "--column names 'w', which is not in the file; found 't', 'q1'" in error


def test_shuffled_rows_ask_to_be_sorted(dynid: CommandLine, log: Path, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).permutation(rows_of(log))
    assert "rows are not in the order of time; sort the file" in refuses(dynid, save(tmp_path / "log.csv", rows))


def test_wrong_number_of_joints(dynid: CommandLine, log: Path, tmp_path: Path) -> None:
    path = save(tmp_path / "log.csv", rows_of(log)[:, [0, 1, 2, 4, 5]], "t,q1,q2,tau1,tau2")
    assert "missing for the joints 3; say which with --column q=NAME,..." in refuses(dynid, path)


def test_text_in_a_number(dynid: CommandLine, log: Path, tmp_path: Path) -> None:
    path = save(tmp_path / "log.csv", rows_of(log))
    lines = path.read_text().splitlines()
    lines[99] = lines[99].replace(",", ",oops", 1)
    path.write_text("\n".join(lines))
    assert f"{path}: line 100, column 'q1'" in refuses(dynid, path)


def test_empty_missing_and_unreadable_files(dynid: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    assert "there is no such file" in refuses(dynid, path)
    path.write_text("")
    assert "the file is empty" in refuses(dynid, path)
    path.write_text(HEADER + "\n")
    assert "no samples" in refuses(dynid, path)
    path.write_bytes(bytes(range(256)) * 20)
    assert str(path) in refuses(dynid, path)
    assert "folder" in refuses(dynid, tmp_path)
    strange = tmp_path / "log.docx"
    strange.write_text("x")
    assert "not a known format" in refuses(dynid, strange)


def test_constant_time(dynid: CommandLine, log: Path, tmp_path: Path) -> None:
    rows = rows_of(log)
    rows[:, 0] = 5.0
    assert "time is constant (5 s)" in refuses(dynid, save(tmp_path / "log.csv", rows))


def test_torques_of_zero(dynid: CommandLine, log: Path, tmp_path: Path) -> None:
    rows = rows_of(log)
    rows[:, 5] = 0.0
    assert "torque of joint 2 is zero" in refuses(dynid, save(tmp_path / "log.csv", rows))
    rows[:, 4:] = 0.0
    error = refuses(dynid, save(tmp_path / "log.csv", rows))
    assert "all torques are zero; name the columns of the torques with --column tau=NAME,..." in error


def test_degrees_given_as_radians(dynid: CommandLine, log: Path, tmp_path: Path) -> None:
    robot = load_robot("panda")
    motion = smooth_path(robot, np.arange(0.0, 6.0, 0.01), scale=2.0)
    header = ",".join(["t", *(f"{letter}{j + 1}" for letter in ("q", "tau") for j in range(7))])
    rows = np.column_stack([motion.t, np.degrees(motion.q), motion.a])
    error = refuses(dynid, save(tmp_path / "panda.csv", rows, header), robot="panda")
    assert "looks like degrees or like positions of the motor; say --units q=deg" in error
    samples = read_log(log, load_robot("gautier3"))
    assert samples.v is not None
    rows = np.column_stack([rows_of(log), np.degrees(samples.v)])
    error = refuses(dynid, save(tmp_path / "log.csv", rows, HEADER + ",v1,v2,v3"))
    assert "one of them is in degrees (perhaps --units q=rad,v=deg/s)" in error


def test_a_log_shorter_than_the_filter(dynid: CommandLine, log: Path, tmp_path: Path) -> None:
    path = save(tmp_path / "log.csv", rows_of(log)[:20])
    error = refuses(dynid, path, "--cutoff", "2")
    assert str(path) in error
    assert "short" in error


def test_a_log_of_another_robot_is_not_trusted(dynid: CommandLine, log: Path, tmp_path: Path) -> None:
    rows, facts = rows_of(log), tmp_path / "facts.json"
    rows[:, 4:] = np.random.default_rng(0).standard_normal((len(rows), 3)).cumsum(axis=0)
    path = save(tmp_path / "log.csv", rows)
    done = dynid("identify", "gautier3", path, "--cutoff", "8", "--json", facts, code=1)
    assert "verdict: do not trust: " in done.out
    assert "warning: the residual is " in done.err
    assert json.loads(facts.read_text())["verdict"]["level"] == "do not trust"


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("--validate", "nowhere.csv"), "nowhere.csv: there is no such file"),
        (("--validate", "120%"), "--validate 120%"),
        (("--validate", "0"), "--validate 0"),
        (("--validate", "35%", "--validate", "20%"), "cannot be combined with logs"),
        (("--friction", "auto,viscous"), "cannot be combined"),
        (("--friction", ","), "--friction"),
        (("--friction", "magic"), "no friction block 'magic'"),
        (("--friction", "viscous,viscous"), "twice"),
        (("--estimator", "lasso"), "estimators are ols, wls, ridge"),
        (("--cutoff", "-3"), "cut-off"),
        (("--cutoff", "nan"), "cut-off"),
        (("--cutoff", "80"), "half the sampling rate"),
        (("--cutoff", "fast"), "--cutoff"),
        (("--delay", "inf"), "delay"),
        (("--joints", "1,elbow"), "no joint 'elbow'"),
        (("--joints", ","), "joint"),
        (("--known", "M3"), "NAME=VALUE"),
        (("--known", "ZZ1=heavy"), "NAME=VALUE"),
        (("--known", "ZZ1=1", "--known", "ZZ1=2"), "twice"),
        (("--known", "QQ9=1"), "no parameter 'QQ9'"),
        (("--equal", "Fv1"), "A=B"),
        (("--equal", "Fv1=Fv1"), "A=B"),
        (("--equal", "Fv1=Nope"), "no parameter 'Nope'"),
        (("--column", "q"), "CHANNEL=NAME"),
        (("--column", "speed=q1"), "--column has no key 'speed'"),
        (("--column", "q=a,b"), "2 columns for q"),
        (("--units", "deg"), "CHANNEL=UNIT"),
        (("--units", "q=furlong"), "furlong"),
        (("--units", "q=deg,deg"), "units of q are 2"),
        (("--units", "q=deg,q=rad"), "CHANNEL=UNIT"),
        (("--gear", "1,2"), "2 ratios for 3 joints"),
        (("--gear", "nowhere.txt"), "--gear nowhere.txt"),
        (("--gear", "0"), "zero ratio"),
        (("--gain", "x"), "--gain"),
        (("--gain", "1,2"), "2 numbers for 3 joints"),
        (("--topic", "/joint_states"), "--topic is for bags only"),
        (("--gravity", "9.81"), "three numbers"),
        (("--gravity", "a,b,c"), "three numbers"),
        (("--lock", "arm"), "NAME=POSITION"),
        (("--nonsense",), "--nonsense"),
    ],
)
def test_bad_options(
    dynid: CommandLine, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], answer: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert answer in dynid.fails("identify", "gautier3", log, *words, "--out", "r.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("part", "answer"),
    [
        ("@5:3", "nothing between"),
        ("@0%:150%", "beyond 100 %"),
        ("@30:40", "goes beyond the log"),
        ("@a:b", "'a:b' is not a range"),
        ("@:", "is not a range"),
        ("@", "is not a range"),
    ],
)
def test_bad_ranges(dynid: CommandLine, log: Path, part: str, answer: str) -> None:
    assert answer in dynid.fails("identify", "gautier3", f"{log}{part}", *PLAIN)


def test_bad_matrices(dynid: CommandLine, log: Path, tmp_path: Path) -> None:
    for text in ("1 2\n3 4\n", "", "a b c\n" * 3, "1 1 1\n" * 3):
        path = tmp_path / "gear.txt"
        path.write_text(text)
        assert "gear" in dynid.fails("identify", "gautier3", log, "--gear", path)


@pytest.mark.parametrize("option", ["--out", "--json"])
def test_places_where_nothing_can_be_written(dynid: CommandLine, log: Path, tmp_path: Path, option: str) -> None:
    words = ("identify", "nobody", log)  # seen before the robot is even loaded
    assert "there is no folder" in dynid.fails(*words, option, tmp_path / "no" / "r.json")
    folder = tmp_path / "folder.json"
    folder.mkdir()
    assert "this is a folder" in dynid.fails(*words, option, folder)
    used = tmp_path / "log.json"
    used.write_text("{}")
    assert "one of the inputs" in dynid.fails("identify", "nobody", used, option, used)


def test_results_need_names_of_their_own(dynid: CommandLine, log: Path, tmp_path: Path) -> None:
    same = tmp_path / "r.json"
    assert "both name" in dynid.fails("identify", "gautier3", log, "--out", same, "--json", same)
    assert "must end in .json" in dynid.fails("identify", "gautier3", log, "--out", tmp_path / "r.csv")
    assert "LOG" in dynid.fails("identify", "gautier3")
    assert "nobody" in dynid.fails("identify", "nobody", log)


def test_names_with_markup_are_printed_as_they_are(dynid: CommandLine, log: Path, tmp_path: Path) -> None:
    robot = tmp_path / "[red]arm[-red].toml"
    joint = '[[joint]]\nname = "{}"\nalpha = 90\nd = 0.3\n'
    robot.write_text(
        'name = "[bold]arm[/bold]"\nangles = "deg"\n' + joint.format("[red]a[/red]") + joint.format("[/b]")
    )
    path = tmp_path / "[blue]log[-blue].csv"
    save(path, rows_of(log)[:, [0, 1, 2, 4, 5]], "t,[red]x[/red],y,u,[/w]")
    words = ("--column", "t=t", "--column", "q=[red]x[/red],y", "--column", "tau=u,[/w]", *PLAIN, "--cutoff", "8")
    done = dynid("identify", robot, path, *words, code=1)
    for name in ("[red]a[/red]", "[/b]", "[bold]arm[/bold]", path.name):
        assert name in done.out, name
    assert "[red]zz[/red]" in dynid.fails("identify", robot, path, *words, "--joints", "[red]zz[/red]")
