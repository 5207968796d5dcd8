"""The next step is a command: it is taken from the terminal, run as it stands, and gives what it promises."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from command_line import CommandLine, Done, write_simulated
from dynid import identify, load_robot, read_log, simulate
from dynid.cli.output.recordings import write_log
from frictions import with_friction
from recordings import DATA
from robots import smooth_path


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine(monkeypatch, capsys)


def next_words(done: Done) -> list[str]:
    """The words of the command that the terminal names."""
    (line,) = [line for line in done.out.splitlines() if line.startswith("next: ")]
    words = shlex.split(line.removeprefix("next: "))
    assert words[0] == "dynid"
    return words[1:]


def level(done: Done) -> str:
    (line,) = [line for line in done.out.splitlines() if line.startswith("verdict: ")]
    return line.removeprefix("verdict: ").split(":")[0].split(" (")[0]


def test_rotor_inertias_that_the_panda_does_not_show_are_left_out(run: CommandLine) -> None:
    log = DATA / "panda_gaz2019" / "log.csv.gz"
    if not log.exists():
        pytest.skip("the recordings are not here")
    done = run("identify", "panda", f"{log}@0%:65%", "--validate", f"{log}@65%:", "--cutoff", "10", code=1)
    assert level(done) == "usable"
    words = next_words(done)
    assert words[-1] == "--no-rotor-inertia"
    assert "verdict good" in done.out
    assert level(run(*words)) == "good"


def test_a_good_result_is_saved_and_then_given_bodies(run: CommandLine, tmp_path: Path) -> None:
    write_simulated(tmp_path / "my log.csv", seconds=12.0)
    done = run("identify", "gautier3", "my log.csv", "--friction", "none")
    assert level(done) == "good"
    again = run(*next_words(done))
    assert (tmp_path / "result.json").is_file()
    words = next_words(again)
    assert words == ["physical", "result.json"]
    run(*words, code=None)


def test_friction_that_was_forbidden_is_chosen_by_the_data(run: CommandLine, tmp_path: Path) -> None:
    robot = with_friction(load_robot("gautier3"))
    motion = smooth_path(robot, np.arange(0.0, 12.0, 0.01), seed=1, scale=2.0)
    write_log(tmp_path / "log.csv", simulate(robot, motion, noise=0.02, seed=0))
    done = run("identify", "gautier3", "log.csv", "--friction", "none", code=1)
    assert level(done) != "good"
    words = next_words(done)
    assert words[-2:] == ["--friction", "auto"]
    assert level(run(*words, code=None)) == "good"


def test_a_short_recording_asks_for_a_motion_which_is_designed(run: CommandLine, tmp_path: Path) -> None:
    write_simulated(tmp_path / "log.csv", seconds=1.2)
    words = next_words(run("identify", "gautier3", "log.csv", code=1))
    assert words[:2] == ["excite", "gautier3"]
    run(*words, "--time-budget", "2", code=None)
    assert (tmp_path / "trajectory.csv").is_file()


def test_a_delay_is_given_as_an_option(run: CommandLine, tmp_path: Path) -> None:
    robot = load_robot("gautier3")
    motion = smooth_path(robot, np.arange(0.0, 12.0, 0.01), seed=1, scale=2.0)
    log = simulate(robot, motion, noise=0.02, seed=0)
    assert log.tau is not None
    late = np.column_stack([np.interp(log.t - 0.004, log.t, column) for column in log.tau.T])
    write_log(tmp_path / "log.csv", type(log)(log.t, log.q, v=log.v, a=log.a, tau=late))
    done = run("identify", "gautier3", "log.csv", "--friction", "none", code=1)
    words = next_words(done)
    assert words[-2] == "--delay"
    assert float(words[-1]) == pytest.approx(0.004, abs=5e-4)
    assert "torques_delayed" not in run(*words, code=None).out


def test_from_python_the_command_has_the_same_effect(run: CommandLine, tmp_path: Path) -> None:
    """Files, parts, options, units and gravity are in the command; what the command line cannot read is a call."""
    write_simulated(tmp_path / "a log.csv", seconds=12.0)
    robot = load_robot("gautier3", gravity=(0.0, 0.0, -9.8))
    log = read_log("a log.csv", robot).between(1.0, 11.0)
    result = identify(robot, log, friction=(), known={"ZZ1": 3.0}, validate=0.25)
    step = str(result.verdict.next_step)
    assert step.startswith("dynid identify gautier3 --gravity 0,0,-9.8 'a log.csv@1:10.99")
    out = run(*shlex.split(step)[1:], "--out", "same.json", code=None)
    assert f"{result.validation.mean:.4f}" in out.out
    odd = identify(robot, read_log("a log.csv", robot, units={"tau": "mNm"}, gain=[2, 3, 4]), friction=())
    assert "--units tau=mNm" in str(odd.verdict.next_step)
    words = shlex.split(str(odd.verdict.next_step))  # the size that the nominal masses ask for: gains in place of these
    assert [float(x) for x in words[-1].split(",")] == pytest.approx([1e3, 1e3, 1e3], rel=0.1)
    assert level(run(*words[1:], code=None)) == "good"
    for other, logs in (
        (replace(robot, links=robot.links[:2] + robot.links[2:]).with_parameters(2.0 * robot.parameters), log),
        (robot, read_log("a log.csv", robot, gear=np.eye(3))),
        (robot, simulate(robot, smooth_path(robot, np.arange(0.0, 8.0, 0.01), scale=2.0), noise=0.1)),
    ):
        text = str(identify(other, logs, friction=("viscous",), cutoff=5.0).verdict.next_step)
        assert not text.startswith("dynid")
        assert text.endswith(")")


def test_weak_parameters_ask_for_the_motion_that_adds_to_the_saved_result(run: CommandLine, tmp_path: Path) -> None:
    """Joint 3 stands still: its parameters are unidentifiable until the motion of the next command is recorded."""
    robot = with_friction(load_robot("gautier3"))
    motion = smooth_path(robot, np.arange(0.0, 20.0, 0.01), seed=1, scale=2.0)
    still = replace(motion, q=motion.q * [1, 1, 0], v=motion.v * [1, 1, 0], a=motion.a * [1, 1, 0])
    write_log(tmp_path / "log.csv", simulate(robot, still, noise=0.02, seed=0))
    first = ("identify", "gautier3", "log.csv", "--friction", "viscous,coulomb,offset")
    words = next_words(run(*first, code=1))
    assert words[:2] == ["excite", "gautier3"]
    assert "--after" not in words  # nothing was saved
    words = next_words(run(*first, "--out", "my result.json", code=1))
    assert words[:6] == ["excite", "gautier3", "--after", "my result.json", "--target", "unidentifiable"]
    done = run(*words, "--acceleration", "4", "--starts", "1", "--json", "design.json", code=None)
    assert "Fc3" in done.out
    design = json.loads((tmp_path / "design.json").read_text())
    targets = design["targets"]
    assert targets["Fv3"]["now"] is None
    assert targets["Fv3"]["expected"] > 0.0
    run("simulate", "gautier3", "trajectory.csv", "--noise", "0.02", "--out", "second.csv", code=None)
    other = read_log(tmp_path / "second.csv", robot)
    both = identify(robot, [read_log(tmp_path / "log.csv", robot), other], friction=("viscous", "coulomb", "offset"))
    assert not both.unidentifiable


def test_after_the_result_of_another_robot_nothing_is_designed(run: CommandLine, tmp_path: Path) -> None:
    write_simulated(tmp_path / "log.csv", seconds=12.0)
    run("identify", "gautier3", "log.csv", "--friction", "none", "--out", "result.json")
    done = run("excite", "scara", "--after", "result.json", code=2)
    assert "gautier3" in done.err
    run("excite", "gautier3", "--after", "missing.json", code=2)
    run("excite", "gautier3", "--after", "log.csv", code=2)
    run("excite", "gautier3", "--after", "result.json", "--target", "M17", "--velocity", "1", code=2)
    run("excite", "gautier3", "--after", "result.json", "--out", "t.csv", "--json", "result.json", code=2)
