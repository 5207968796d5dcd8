"""What commands write and print: files first, text after; each output is tried, and a closed pipe is no error."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import dynid as package
from command_line import CommandLine, make_full_device, write_motion, write_simulated
from dynid.cli import main
from dynid.cli.app import COMMANDS
from mistakes import arm_urdf

PLAIN = ("--friction", "viscous,coulomb,offset", "--cutoff", "20")


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a robot without limits, a motion, a log and a result."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "arm.urdf").write_text(arm_urdf(limits=False))
    write_motion(folder / "motion.csv", str(folder / "arm.urdf"), seconds=4.0)
    write_simulated(folder / "log.csv", str(folder / "arm.urdf"), seconds=5.0)
    robot = package.load_robot(folder / "arm.urdf")
    log = package.read_log(folder / "log.csv", robot)
    friction = ("viscous", "coulomb", "offset")
    package.identify(robot, log, friction=friction, cutoff=20.0).save(folder / "result.json")
    return folder


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A shell's line, `dynid` being this one; the exit code is that of the first program of a pipe."""
    script = f'dynid() {{ "{sys.executable}" -m dynid "$@"; }}; {command}\nexit ${{PIPESTATUS[0]}}'
    return subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=200, check=False)


def test_a_closed_pipe_ends_the_text_and_not_the_work(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of each command are there, and the exit code is that of the work."""
    commands = {
        "mdh arm.urdf --out a.toml --json a.json": ("a.toml", "a.json"),
        "physical result.json --out b.json --json c.json": ("b.json", "c.json"),
        "simulate arm.urdf motion.csv --out d.csv": ("d.csv",),
        f"identify arm.urdf log.csv {' '.join(PLAIN)} --urdf e.urdf --report e.html": ("e.urdf", "e.html"),
        "excite gautier3 --velocity 1 --acceleration 3 --starts 1 --duration 3 --time-budget 1 --out f.csv": (
            "f.csv", "f.yaml", "f.html",
        ),
        "report result.json --out g.html --json g.json": ("g.html", "g.json"),
        "export arm.urdf h.c --json h.json": ("h.c", "h.json"),
        "demo one_link --out demo --json i.json": ("i.json", "demo/report.html", "demo/robot.urdf"),
    }  # fmt: skip
    monkeypatch.chdir(place)
    for words, files in commands.items():
        read, write = os.pipe()
        os.close(read)
        with open(write, "w") as broken, monkeypatch.context() as patch:
            patch.setattr("sys.argv", ["dynid", *words.split()])
            patch.setattr("sys.stdout", broken)
            with pytest.raises(SystemExit) as left:
                main()
        assert left.value.code in (0, 1, None), words
        assert all((place / name).stat().st_size > 0 for name in files), words


def test_a_closed_pipe_is_not_mentioned(place: Path) -> None:
    done = run("dynid physical result.json --out quiet.json | true", place)
    assert done.returncode in (0, 1)
    assert all(line.startswith("warning:") for line in done.stderr.splitlines()), done.stderr
    assert (place / "quiet.json").stat().st_size > 0
    done = run("dynid robots --json quiet.json 2>&1 | true", place)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert run("dynid robots --json quiet.json >&- 2>&-", place).returncode == 0


def test_a_full_standard_output_is_reported_once(place: Path) -> None:
    for words in ("robots", "robots --json -"):
        done = run(f"dynid {words} > /dev/full", place)
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].endswith("No space left on device")
        assert "Traceback" not in done.stderr


def test_json_on_standard_output_stands_alone(place: Path) -> None:
    (place / "stdout").symlink_to("/proc/self/fd/1")  # as /dev/stdout, which we do not risk
    for name in ("-", "stdout"):
        done = run(f"dynid robots --json {name}", place)
        assert "panda" in json.loads(done.stdout)
        assert "panda" in done.stderr  # the table
    assert (place / "stdout").is_symlink()
    done = run("echo before > all.txt; dynid robots --json stdout >> all.txt 2> /dev/null", place)
    first, _, rest = (place / "all.txt").read_text().partition("\n")
    assert first == "before"
    assert "panda" in json.loads(rest)
    assert not (place / "-").exists()


def test_every_command_writes_json_to_standard_output(dynid: CommandLine, place: Path) -> None:
    names = {command.__name__ for command in COMMANDS}
    cases: dict[str, tuple[object, ...]] = {
        "robots": (),
        "mdh": ("panda",),
        "base": ("gautier3",),
        "excite": ("gautier3", "--velocity", 1, "--acceleration", 3, "--starts", 1, "--time-budget", 1),
        "simulate": (place / "arm.urdf", place / "motion.csv"),
        "identify": (place / "arm.urdf", place / "log.csv", *PLAIN),
        "inspect": (place / "arm.urdf", place / "log.csv"),
        "unknown": ("gautier3", "--count-only", "--unknown", "d"),
        "physical": (place / "result.json",),
        "check": (place / "arm.urdf",),
        "export": (place / "arm.urdf", place / "again.urdf"),
        "report": (place / "result.json", "--out", place / "page.html"),
        "view": ("gautier3", "--no-browser", "--port", 0, "--seconds", 0.1),
    }
    others = {
        "payload",
        "gains",
        "actuators",
        "markers",
        "demo",
        "init",
        "fleet",
        "watch",
    }  # those go through the same two functions
    assert cases.keys() | others == names
    for name, words in cases.items():
        if name == "view":
            pytest.importorskip("viser")
        done = dynid(name, *words, "--json", "-", code=None)
        assert done.code in (0, 1), done.err
        assert isinstance(json.loads(done.out), dict), name
        assert "wrote -" not in done.err


def test_what_is_no_file_is_refused_before_the_work(dynid: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere" / "x")
    for name, words in (("folder", "folder"), ("loop", "symbolic links"), ("dangling", "there is no folder")):
        assert words in dynid.fails("robots", "--json", tmp_path / name)


def test_one_output_that_fails_does_not_cost_the_others(dynid: CommandLine, place: Path, tmp_path: Path) -> None:
    """The URDF goes to a full device; the result, the report and the bodies are there."""
    full = make_full_device(tmp_path / "full.urdf")
    files = {"--out": "r.json", "--report": "r.html", "--physical": "p.json", "--json": "j.json"}
    words = [word for option, name in files.items() for word in (option, tmp_path / name)]
    done = dynid("identify", place / "arm.urdf", place / "log.csv", *PLAIN, "--urdf", full, *words, code=2)
    assert "cannot write" in done.err
    assert "No space left" in done.err
    assert str(full) not in done.out.splitlines()[-1]
    assert all((tmp_path / name).stat().st_size for name in files.values())
    assert stat.S_ISCHR(full.stat().st_mode)


def test_a_robot_without_limits_is_identified_and_exported(dynid: CommandLine, place: Path, tmp_path: Path) -> None:
    urdf, page = tmp_path / "new.urdf", tmp_path / "page.html"
    dynid("export", place / "arm.urdf", urdf)
    old, new = (package.load_robot(file).limits.position.tolist() for file in (place / "arm.urdf", urdf))
    assert new == old
    words = ("--urdf", tmp_path / "found.urdf", "--report", page)
    dynid("identify", place / "arm.urdf", place / "log.csv", *PLAIN, *words, code=None)
    assert page.stat().st_size
    assert (tmp_path / "found.urdf").stat().st_size


def test_the_demo_goes_on_where_a_file_cannot_be_written(dynid: CommandLine, tmp_path: Path) -> None:
    for name in ("motion.csv", "report.html", "log.csv"):
        (tmp_path / name).mkdir()
    done = dynid("demo", "one_link", "--out", tmp_path, code=2)
    assert done.err.count("this is a folder") == 3
    assert (tmp_path / "robot.urdf").is_file()
    assert (tmp_path / "physical.json").is_file()
