"""`dynid simulate` and `dynid identify` as a person uses them: output, files, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from command_line import CommandLine, write_motion, write_simulated
from dynid import Identification, base_parameters, load_robot, read_log
from dynid.cli.log_options import split_file_and_time_ranges
from dynid.errors import LogError
from dynid.excitation.excitation import ros_goal_text
from dynid.robot.motion import Motion
from robots import smooth_path

PLAIN = ("--friction", "viscous,coulomb,offset")


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of gautier3 with little noise: 12 s at 100 Hz."""
    return write_simulated(tmp_path_factory.mktemp("logs") / "log.csv", seconds=12.0)


@pytest.mark.parametrize("command", ["simulate", "identify"])
def test_help_has_an_example(dynid: CommandLine, command: str) -> None:
    assert f"Example: dynid {command} puma560" in dynid(command, "--help").out


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz", "NPZ"])
def test_simulate_writes_a_log(dynid: CommandLine, tmp_path: Path, suffix: str) -> None:
    motion, out, facts = write_motion(tmp_path / "m.csv", seconds=2.0), tmp_path / f"log.{suffix}", tmp_path / "f.json"
    done = dynid("simulate", "puma560", motion, "--noise", "0.1", "--seed", "3", "--out", out, "--json", facts)
    assert f"wrote {out}" in done.out
    robot = load_robot("puma560")
    log = read_log(out, robot)
    assert log.channels == {"v", "a", "tau"}
    assert_allclose(log.q, smooth_path(robot, log.t, scale=2.0).q, rtol=1e-14)
    assert json.loads(facts.read_text())["samples"] == len(log) == 200
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([motion.name, out.name, facts.name])


def test_simulate_gives_the_same_with_the_same_seed(dynid: CommandLine, tmp_path: Path) -> None:
    motion = write_motion(tmp_path / "m.csv", "gautier3", seconds=1.0)
    for name, seed in (("a.csv", 1), ("b.csv", 1), ("c.csv", 2)):
        dynid("simulate", "gautier3", motion, "--noise", "0.1,0.2,0.3", "--seed", seed, "--out", tmp_path / name)
    a, b, c = ((tmp_path / f"{name}.csv").read_text() for name in "abc")
    assert a == b != c


def test_simulate_without_out_writes_nothing(dynid: CommandLine, tmp_path: Path) -> None:
    motion = write_motion(tmp_path / "m.csv", "gautier3", seconds=1.0)
    assert "nothing was written" in dynid("simulate", "gautier3", motion).out
    assert list(tmp_path.iterdir()) == [motion]


def test_simulate_resamples_by_quintics(dynid: CommandLine, tmp_path: Path) -> None:
    motion, out = write_motion(tmp_path / "m.csv", "gautier3", seconds=1.0), tmp_path / "log.csv"
    dynid("simulate", "gautier3", motion, "--rate", "333", "--out", out)
    log = read_log(out, load_robot("gautier3"))
    exact = smooth_path(load_robot("gautier3"), log.t, scale=2.0)
    assert_allclose(np.diff(log.t), 1.0 / 333.0, rtol=1e-9)
    assert_allclose(log.q, exact.q, atol=1e-9)
    assert log.a is not None
    assert_allclose(log.a, exact.a, atol=1e-4)


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_simulate_reads_ros_trajectories_in_another_order(tmp_path: Path, suffix: str) -> None:
    robot = load_robot("ur10")
    path, out = tmp_path / f"m.{suffix}", tmp_path / "robot.toml"
    motion = smooth_path(robot, np.arange(0.0, 1.0, 0.05))
    turned = Motion(motion.t, motion.q[:, ::-1], motion.v[:, ::-1], motion.a[:, ::-1])
    names = robot.joint_names[::-1]
    path.write_text(ros_goal_text(turned, names, None if suffix == "json" else "a motion"))
    from dynid.cli.output.recordings import read_motion

    read = read_motion(path, robot)
    assert_allclose(read.t, motion.t, rtol=0.0, atol=1e-9)
    assert_allclose(read.q, motion.q, rtol=0.0, atol=1e-5)
    assert_allclose(read.v, motion.v, rtol=0.0, atol=1e-3)
    assert_allclose(read.a, motion.a, rtol=0.0, atol=1e-3)
    assert not out.exists()


def test_identify_finds_the_parameters_of_puma560(dynid: CommandLine, tmp_path: Path) -> None:
    log, out, facts = (tmp_path / name for name in ("log.csv", "result.json", "facts.json"))
    motion = write_motion(tmp_path / "m.csv", seconds=12.0)
    dynid("simulate", "puma560", motion, "--noise", "0.02", "--out", log)
    words = ("identify", "puma560", log, *PLAIN, "--validate", "35%", "--out", out, "--json", facts)
    done = dynid(*words, "--details")
    assert done.out.startswith("verdict: good")
    for part in ("40 base parameters", "friction: viscous, coulomb, offset", "verdict: good", "next: ", f"wrote {out}"):
        assert part in done.out
    assert "\x1b" not in done.out
    assert done.err == ""
    result, data = Identification.load(out), json.loads(facts.read_text())
    base = base_parameters(load_robot("puma560"))
    true = base.values(load_robot("puma560").parameters)
    found = np.array([result.value(name) for name in base.names])
    sigma = np.array([result.sigma[result.names.index(name)] for name in base.names])
    assert np.mean(np.abs(found - true) < 4.0 * sigma) > 0.9
    assert data["names"] == list(result.names)
    assert_allclose(data["values"], result.values, rtol=0.0, atol=0.0)
    assert_allclose(data["intervals"], result.intervals)
    assert data["verdict"]["level"] == "good"
    assert data["warnings"] == []
    assert data["validation"]["source"] == "the last 35 % of every log"
    assert max(data["validation"]["nrmse"]) < 0.1


def test_identify_by_the_recipe_tells_what_the_gate_did(dynid: CommandLine, log: Path) -> None:
    done = dynid("identify", "gautier3", log, "--details")
    for part in ("filter: ", "friction: viscous, offset, stop1e-4", "refused", "Fs1e-3", "held-out stretches of time"):
        assert part in done.out


def test_identify_takes_parts_of_logs(dynid: CommandLine, log: Path, tmp_path: Path) -> None:
    facts = tmp_path / "facts.json"
    parts = {
        "@1.5:11": "1.5 s to 11 s", "@0%:75%": "0 s to 8.99", "@-9:": "2.99 s to 11.99", "@5%:-1": "0.5995 s to 10.99",
        "@1:-1@:90%": "1 s to 9.982",
    }  # fmt: skip
    for part, name in parts.items():
        dynid("identify", "gautier3", f"{log}{part}", *PLAIN, "--json", facts)
        assert name in json.loads(facts.read_text())["logs"][0]["name"], part
    dynid("identify", "gautier3", f"{log}@:65%", *PLAIN, "--validate", f"{log}@65%:", "--json", facts)
    by_hand = json.loads(facts.read_text())
    dynid("identify", "gautier3", log, *PLAIN, "--validate", "0.35", "--json", facts)
    assert json.loads(facts.read_text())["values"] == by_hand["values"]


def test_a_name_that_exists_is_no_range(tmp_path: Path) -> None:
    odd = tmp_path / "log@1:2"
    assert split_file_and_time_ranges(str(odd)) == (str(tmp_path / "log"), ("1:2",))
    odd.write_text("")
    assert split_file_and_time_ranges(str(odd)) == (str(odd), ())
    assert split_file_and_time_ranges(f"{odd}@3:") == (str(odd), ("3:",))


def test_identify_joins_logs_with_all_options(dynid: CommandLine, log: Path, tmp_path: Path) -> None:
    second, facts = write_simulated(tmp_path / "second.csv", seed=5), tmp_path / "facts.json"
    words = ("--offsets-per-log", "--joints", "1,2,3", "--no-rotor-inertia", "--estimator", "ols", "--cutoff", "8")
    more = ("--delay", "0.0", "--known", "Fv1=0", "--equal", "Fc2=Fc3", "--gravity", "0,0,-9.81", "--no-snap")
    done = dynid("identify", "gautier3", log, second, *PLAIN, *words, *more, "--json", facts, "--details")
    data = json.loads(facts.read_text())
    assert {"Fo1@1", "Fo1@2"} <= set(data["names"])
    assert "Fo@2" in done.out
    assert data["values"][data["names"].index("Fv1")] == 0.0
    assert data["cutoff"] == 8.0
    values = dict(zip(data["names"], data["values"], strict=True))
    assert values["Fc2"] == pytest.approx(values["Fc3"], abs=1e-12)


def test_identify_reads_motor_side_logs_in_other_units(dynid: CommandLine, log: Path, tmp_path: Path) -> None:
    samples = read_log(log, load_robot("gautier3"))
    assert samples.tau is not None
    motor, matrix, facts = tmp_path / "motor.csv", tmp_path / "gear.txt", tmp_path / "facts.json"
    ratios = np.array([100.0, 50.0, -80.0])
    table = np.column_stack([samples.t, np.degrees(samples.q) * ratios, 1e3 * samples.tau / ratios / 0.5])
    header = "clock,a1,a2,a3,x,y,z"
    np.savetxt(motor, table, delimiter=",", header=header, comments="", fmt="%.17g")
    columns = ("--column", "t=clock", "--column", "q=a1,a2,a3", "--column", "tau=x,y,z", "--column", "a=")
    units = ("--units", "q=deg,tau=mA", "--gain", "0.5")
    matrix.write_text("100 0 0\n0, 50, 0\n0 0 -80\n")
    for gear in ("100,50,-80", str(matrix)):
        words = ("--gear", gear, "--json", facts, "--cutoff", "8", *PLAIN)
        dynid("identify", "gautier3", motor, *columns, *units, *words)
        motor_side = json.loads(facts.read_text())
    dynid("identify", "gautier3", log, "--column", "v=", "--column", "a=", "--cutoff", "8", *PLAIN, "--json", facts)
    joint_side = json.loads(facts.read_text())
    assert motor_side["names"] == joint_side["names"]
    assert_allclose(motor_side["values"], joint_side["values"], rtol=1e-6, atol=1e-6)


def test_warnings_exit_1_and_results_are_kept(dynid: CommandLine, tmp_path: Path) -> None:
    """A motion of one joint loses parameters of the others."""
    robot = load_robot("gautier3")
    path, out = tmp_path / "log.csv", tmp_path / "result.json"
    samples = read_log(write_simulated(path, seconds=6.0), robot)
    assert samples.tau is not None
    q = samples.q * [1.0, 1e-9, 1e-9]
    table = np.column_stack([samples.t, q, samples.tau])
    np.savetxt(path, table, delimiter=",", header="t,q1,q2,q3,tau1,tau2,tau3", comments="")
    done = dynid("identify", "gautier3", path, *PLAIN, "--cutoff", "5", "--out", out, code=1)
    assert "warning: " in done.err
    assert "verdict: " in done.out
    assert Identification.load(out).warnings


def test_piped_output_is_plain(log: Path) -> None:
    command = [sys.executable, "-m", "dynid", "identify", "gautier3", str(log), *PLAIN]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_ctrl_c_is_quiet_and_leaves_nothing(
    dynid: CommandLine, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dynid.estimation.identify.collect_logs", interrupted)
    done = dynid("identify", "gautier3", log, "--out", tmp_path / "result.json", code=130)
    assert done.err == "dynid: interrupted\n"
    assert list(tmp_path.iterdir()) == []


def cut(log: Path, path: Path, names: str) -> Path:
    """A log whose header has other names."""
    path.write_text("\n".join([names, *log.read_text().splitlines()[1:]]) + "\n")
    return path


def test_remedies_name_options(dynid: CommandLine, log: Path, tmp_path: Path) -> None:
    """Python and the command line get the same code and facts, each in its own words."""
    header = log.read_text().splitlines()[0]
    other = cut(log, tmp_path / "other.csv", header.replace("q3", "x"))
    with pytest.raises(LogError) as caught:
        read_log(other, load_robot("gautier3"))
    python = caught.value
    assert (python.code, python.facts["channel"], python.facts["joints"]) == ("channel_missing_for_joints", "q", ["3"])
    assert python.remedy == "say which with columns={'q': ...}, or hold them, if they stood still, with lock={'3': 0.0}"
    done = dynid("identify", "gautier3", other, "--json", "-", code=2)
    said = json.loads(done.out)["error"]
    assert said["code"] == python.code
    assert said["facts"]["found"] == python.facts["found"]
    assert said["remedy"] == "say which with --column q=NAME,..., or hold them, if they stood still, with --lock 3=0"
    assert done.err == f"dynid: {said['text']}\n"
    assert said["text"].endswith(said["remedy"])


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("identify", "gautier3", "missing.csv", "--json", "-"), "file_not_found"),
        (("identify", "gautier3", "--json=-"), "wrong_usage"),
        (("base", "gautier3", "--json", "/dev/stdout", "--nonsense"), "wrong_usage"),
        (("mdh", "nobody", "--json", "-"), "unknown_robot"),
    ],
)
def test_failures_are_machine_readable(dynid: CommandLine, words: tuple[str, ...], code: str) -> None:
    done = dynid(*words, code=2)
    assert set(json.loads(done.out)) == {"error"}
    assert set(json.loads(done.out)["error"]) == {"code", "text", "facts", "remedy"}
    assert (json.loads(done.out)["error"]["code"], done.err.count("\n")) == (code, 1)


def test_failures_leave_no_file(dynid: CommandLine, tmp_path: Path) -> None:
    done = dynid("identify", "gautier3", "missing.csv", "--json", tmp_path / "facts.json", code=2)
    assert (done.out, list(tmp_path.iterdir())) == ("", [])


def test_json_holds_every_message_with_its_code(dynid: CommandLine, log: Path, tmp_path: Path) -> None:
    header = log.read_text().splitlines()[0]
    other = cut(log, tmp_path / "other.csv", header.replace("tau", "current"))
    done = dynid("identify", "gautier3", other, *PLAIN, "--json", tmp_path / "facts.json", "--details", code=None)
    facts = json.loads((tmp_path / "facts.json").read_text())
    messages = {message["text"]: message for message in facts["messages"]}
    assert len(messages) == len(facts["messages"]) > 0
    assert all(set(message) == {"code", "text", "facts", "remedy"} for message in messages.values())
    assert all(message["code"] for message in messages.values())
    sentences = [*facts["notes"], *facts["warnings"], *(text for one in facts["logs"] for text in one["findings"])]
    assert set(sentences) <= set(messages)
    assert [m["remedy"] for m in messages.values() if m["code"] == "torques_in_current"] == ["--gain gives Nm per A"]
    assert "--gain gives Nm per A" in done.out
    assert "gain=" not in done.out + done.err + (tmp_path / "facts.json").read_text()
