"""`dynid excite` on the way to the robot: files for controllers, a rehearsal, the posture to start from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from command_line import CommandLine

QUICK = ("--velocity", 1, "--acceleration", 4, "--position", 1.5, "--starts", 1, "--time-budget", 1)
REST = (0.5, -0.5, 0.25)


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def test_a_rehearsal_takes_the_name_given_and_full_speed_goes_beside_it(dynid: CommandLine, tmp_path: Path) -> None:
    out, facts = tmp_path / "traj.csv", tmp_path / "facts.json"
    rest = ("--rest", ",".join(map(str, REST)))
    done = dynid("excite", "gautier3", *QUICK, *rest, "--out", out, "--speed", "25%", "--json", facts, code=None)
    for part in ("rehearsal: traj.csv", "25 %", "friction", "traj_full_speed.csv"):
        assert part in done.out
    slow, fast = (np.loadtxt(file, delimiter=",", skiprows=1) for file in (out, tmp_path / "traj_full_speed.csv"))
    assert slow[-1, 0] == pytest.approx(4.0 * fast[-1, 0], abs=0.05)
    assert_allclose(slow[[0, -1], 1:4], [REST, REST], atol=1e-12)
    count = min(len(slow[::4]), len(fast)) - 1
    for columns, factor in ((slice(1, 4), 1.0), (slice(4, 7), 0.25), (slice(7, 10), 0.0625)):
        assert_allclose(slow[::4][:count, columns], factor * fast[:count, columns], rtol=0.0, atol=1e-9)
    assert "25 %" in out.with_suffix(".yaml").read_text().splitlines()[0]
    assert "25 %" not in (tmp_path / "traj_full_speed.yaml").read_text().splitlines()[0]
    data = json.loads(facts.read_text())
    assert data["speed"] == 0.25
    assert {Path(file).name for file in data["files"]} | {"facts.json"} == names(tmp_path)


def test_files_for_controllers_are_shown_and_simulated(dynid: CommandLine, tmp_path: Path) -> None:
    script, goal, table = (tmp_path / name for name in ("m.script", "n.json", "o.csv"))
    facts, shown = tmp_path / "facts.json", tmp_path / "view.json"
    for out, more, speed in ((script, (), 1.0), (goal, ("--speed", 0.5), 0.5), (table, ("--rate", 1000), 1.0)):
        dynid("excite", "ur10", *QUICK, "--duration", 3, "--out", out, *more, "--json", facts, code=None)
        dynid("view", "ur10", out, "--no-browser", "--port", 0, "--seconds", 0.1, "--json", shown)
        duration = json.loads(facts.read_text())["duration"]
        assert json.loads(shown.read_text())["duration"] == pytest.approx(duration / speed, abs=0.02)
    assert len(table.read_text().splitlines()) == pytest.approx(1000 * duration, abs=3)
    assert names(tmp_path) == {
        "m.script", "m.html", "n.json", "n_full_speed.json", "n.html", "o.csv", "o.yaml", "o.html",
        "view.json", "facts.json",
    }  # fmt: skip
    for out in (goal, table):
        dynid("simulate", "ur10", out, "--out", tmp_path / "log.csv", code=None)
    assert "velocities" in dynid.fails("simulate", "ur10", script, "--out", tmp_path / "other.csv")
    assert "6 joints" in dynid.fails("view", "gautier3", script, "--no-browser")
    assert not (tmp_path / "other.csv").exists()


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("--out", "x.txt"), ".csv or .json or .yaml or .yml or .script"),
        (("--out", "x.script"), "URScript is for arms of six revolute joints"),
        (("--out", "x.json", "--json", "x.json"), "both name"),
        (("--speed", "25%"), "--speed: applies to the files of --out"),
        (("--out", "x.csv", "--speed", "25"), "25% or 0.25"),
        (("--out", "x.csv", "--speed", "fast"), "25% or 0.25"),
        (("--out", "x.csv", "--speed", "nan%"), "25% or 0.25"),
        (("--out", "x.csv", "--speed", "0%"), "25% or 0.25"),
        (("--rest", "home"), "--rest home"),
        (("--rest", "0,0"), "3 finite numbers"),
        (("--rest", "0,0,2"), "outside its limits"),
    ],
)
def test_mistakes_cost_no_search(
    dynid: CommandLine, words: tuple[str, ...], answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dynid.excitation.design._design_fourier", None)
    assert answer in dynid.fails("excite", "gautier3", *QUICK, *words)
    assert not names(tmp_path)
