"""`dynid payload` and `dynid gains` as a person uses them: output, files, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from command_line import CommandLine
from dynid.cli.output.recordings import write_log
from dynid.logs.simulate import simulate
from dynid.robot.inertia import SYMBOLS
from dynid.robot.io.toml_table import with_sensor_from_file
from dynid.robot.load import load_robot
from fourier import fourier_motion
from loads import LOAD, carrying, robot_with_friction, scaled, two_logs
from plates import complete

PLAIN = ("--friction", "viscous,coulomb,offset")
FACTORS = np.array([0.5, 2.0, 0.8])
KNOWN = ("--mass", "2.0", "--com", "0.05,-0.03,0.12", "--inertia", "0.02,0.001,-0.002,0.03,0.001,0.015")


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Logs of gautier3 with and without a payload, with little noise."""
    folder = tmp_path_factory.mktemp("logs")
    for name, log in zip(("with", "without"), two_logs(robot_with_friction("gautier3"), LOAD, noise=0.01), strict=True):
        write_log(folder / f"{name}.csv", log)
        write_log(folder / f"{name}_current.csv", scaled(log, FACTORS))
    return folder / "with.csv", folder / "without.csv"


@pytest.mark.parametrize("command", ["payload", "gains"])
def test_help_has_an_example(dynid: CommandLine, command: str) -> None:
    assert f"Example: dynid {command} puma560" in dynid(command, "--help").out


def test_payload_is_found_shown_and_written(dynid: CommandLine, logs: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "payload.json"
    done = dynid("payload", "gautier3", "--loaded", logs[0], "--unloaded", logs[1], *PLAIN, "--json", out)
    for part in ("payload of link 3", "mass", "centre of mass x", "inertia zz about it", "jackknife", f"wrote {out}"):
        assert part in done.out
    assert done.err == ""
    data = json.loads(out.read_text())
    assert np.all(np.abs(np.array(data["values"]) - LOAD) < 4.0 * np.array(data["sigma"]))
    assert abs(data["mass"] - 2.0) < 4.0 * data["mass_sigma"]
    assert_allclose(data["com"], (0.05, -0.03, 0.12), atol=0.05)


def test_payload_of_two_results(dynid: CommandLine, logs: tuple[Path, Path], tmp_path: Path) -> None:
    files = [tmp_path / f"{log.stem}.json" for log in logs]
    for log, file in zip(logs, files, strict=True):
        dynid("identify", "gautier3", log, *PLAIN, "--out", file)
    out = tmp_path / "payload.json"
    done = dynid("payload", "gautier3", "--loaded", files[0], "--unloaded", files[1], "--json", out)
    assert "difference of two results" in done.out
    assert abs(json.loads(out.read_text())["mass"] - 2.0) < 0.1
    done = dynid("payload", "gautier3", "--loaded", logs[0], "--unloaded", files[1], *PLAIN, "--json", out)
    assert "difference of two results" in done.out
    assert abs(json.loads(out.read_text())["mass"] - 2.0) < 0.1
    assert "one result for --unloaded" in dynid.fails(
        "payload", "gautier3", "--loaded", files[0], "--unloaded", logs[1]
    )
    assert "not of 'scara'" in dynid.fails("payload", "scara", "--loaded", files[0], "--unloaded", files[1])


def test_what_cannot_be_known_is_a_warning(dynid: CommandLine, tmp_path: Path) -> None:
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for file, log in zip(files, two_logs(robot_with_friction("scara"), LOAD, noise=0.01), strict=True):
        write_log(file, log)
    done = dynid("payload", "scara", "--loaded", files[0], "--unloaded", files[1], *PLAIN, code=1)
    assert "warning: XX, XY, XZ, YY, YZ, MZ of the payload cannot be known" in done.err
    assert "not known" in done.out


def test_gains_are_found_shown_and_written(dynid: CommandLine, logs: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "gains.json"
    files = [log.with_name(f"{log.stem}_current.csv") for log in logs]
    words = ("gains", "gautier3", "--loaded", files[0], "--unloaded", files[1], *PLAIN)
    done = dynid(*words, *KNOWN, "--json", out)
    assert "gain of joint" in done.out
    assert "use them: --gain " in done.out
    data = json.loads(out.read_text())
    assert np.all(np.abs(np.array(data["values"]) - 1.0 / FACTORS) < 4.0 * np.array(data["sigma"]))
    gain = done.out.split("--gain ")[1].split()[0]
    result = tmp_path / "result.json"
    dynid("identify", "gautier3", files[1], *PLAIN, "--gain", gain, "--json", result)
    identified = json.loads(result.read_text())
    found = dict(zip(data["parameters"]["names"], data["parameters"]["values"], strict=True))
    assert {name.split("@")[0] for name in found} == set(identified["names"])
    again = np.array([found.get(name, found.get(f"{name}@1")) for name in identified["names"]])  # the first is unloaded
    assert np.all(np.abs(again - identified["values"]) < 5.0 * np.array(identified["sigma"]))


def test_wrong_input_is_refused_in_one_line(dynid: CommandLine, logs: tuple[Path, Path], tmp_path: Path) -> None:
    loaded, unloaded = ("--loaded", logs[0]), ("--unloaded", logs[1])
    pair = ("gautier3", *loaded, *unloaded)
    assert "no link 'hand'" in dynid.fails("payload", *pair, "--link", "hand")
    assert "--unloaded" in dynid("payload", "gautier3", *loaded, code=2).err
    assert "both as --loaded and as --unloaded" in dynid.fails("payload", "gautier3", *loaded, "--unloaded", logs[0])
    assert "must be positive" in dynid.fails("gains", *pair, "--mass", "-1", "--com", "0,0,0.1")
    assert "--com 0,0" in dynid.fails("gains", *pair, "--mass", "1", "--com", "0,0")
    assert "six numbers" in dynid.fails("gains", *pair, "--mass", "1", "--com", "0,0,0", "--inertia", "1,2,3")
    assert "there is no folder" in dynid.fails("payload", *pair, "--json", tmp_path / "x" / "y.json")
    assert "one of the inputs" in dynid.fails("payload", *pair, "--json", logs[0])
    robot, words = tmp_path / "arm.toml", (*loaded, *unloaded, "--json")
    robot.write_text("[[joint]]\nd = 1.0\n")
    assert "one of the inputs" in dynid.fails("payload", robot, *words, robot)
    assert "one of the inputs" in dynid.fails("gains", robot, *words, robot, "--mass", "1", "--com", "0,0,0")
    assert robot.read_text().startswith("[[joint]]")
    assert "missing.csv" in dynid.fails("payload", "gautier3", *loaded, "--unloaded", tmp_path / "missing.csv")


def test_gains_by_a_mass_alone_by_several_or_by_a_joint(
    dynid: CommandLine, logs: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "gains.json"
    files = [log.with_name(f"{log.stem}_current.csv") for log in logs]
    second = tmp_path / "second.csv"
    write_log(second, scaled(two_logs(robot_with_friction("gautier3"), 2.0 * LOAD, noise=0.01, motion=7)[0], FACTORS))
    pair = ("gains", "gautier3", "--loaded", files[0], "--unloaded", files[1], *PLAIN)
    reference = ("--reference", f"2={1.0 / FACTORS[1]}")
    for words in (
        (*pair, "--mass", "2"),
        (*pair, "--mass", "2", "--loaded", second, "--mass", "4"),
        (*pair, *reference),
        ("gains", "gautier3", "--unloaded", files[1], *PLAIN, *reference),
    ):
        dynid(*words, "--json", out)
        data = json.loads(out.read_text())
        assert_allclose(data["values"], 1.0 / FACTORS, rtol=0.1)
    exchanged = dynid("gains", "gautier3", "--loaded", files[1], "--unloaded", files[0], *PLAIN, "--mass", "2", code=1)
    assert exchanged.err.count("warning") == 1
    assert "exchanged" in exchanged.err
    assert "kg (not g)" in dynid(*pair, "--mass", "2000", code=1).err
    assert "no joint 'elbow'" in dynid.fails(*pair, "--reference", "elbow")
    assert "--reference" in dynid.fails(*pair, "--reference", "2=much")
    assert "something that is known" in dynid.fails(*pair)
    assert "2 payloads for 1 loaded" in dynid.fails(*pair, "--mass", "2", "--mass", "3")
    assert "--com" in dynid.fails(*pair, "--mass", "2", "--inertia", "0,0,0,0,0,0")
    assert "with the payload" in dynid.fails("gains", "gautier3", "--unloaded", files[1], *PLAIN, "--mass", "2")


def test_intervals_hold_the_gains_as_far_as_said(dynid: CommandLine, logs: tuple[Path, Path], tmp_path: Path) -> None:
    out, widths = tmp_path / "payload.json", []
    pair = ("payload", "gautier3", "--loaded", logs[0], "--unloaded", logs[1], *PLAIN)
    for words in ((), ("--gain-sigma", "0.02"), ("--gain-sigma", "0", "--no-physical")):
        dynid(*pair, *words, "--json", out)
        widths.append(json.loads(out.read_text())["mass_sigma"])
    assert widths[0] > 3.0 * widths[1] > 3.0 * widths[2]
    assert json.loads(out.read_text())["physical"] is False
    assert "--gain-sigma" in dynid.fails(*pair, "--gain-sigma", "10")
    assert "--sensor" in dynid.fails(*pair, "--sensor", tmp_path / "plate.toml")
    exchanged = dynid("payload", "gautier3", "--loaded", logs[1], "--unloaded", logs[0], *PLAIN, code=1)
    assert exchanged.err.count("warning") == 1
    assert "exchanged" in exchanged.err


def test_payload_on_a_force_plate(dynid: CommandLine, tmp_path: Path) -> None:
    """A plate that is declared in a file of its own; two logs, or one and a result."""
    robot, plate, files = complete(load_robot("puma560")), tmp_path / "plate.toml", []
    plate.write_text("[sensor]\nposition = [0.0, 0.0, -0.1]\n")
    on_plate = with_sensor_from_file(robot, plate)
    for seed, body in enumerate((LOAD, np.zeros(10))):
        log = simulate(carrying(on_plate, body), fourier_motion(robot, seed=seed, rate=50.0))
        files.append(tmp_path / f"{seed}.csv")
        write_log(files[-1], log, on_plate)
    out, result, plated = (
        tmp_path / "payload.json",
        tmp_path / "result.json",
        ("--model", "reaction", "--sensor", plate),
    )
    dynid("identify", "puma560", files[1], *plated, "--out", result, code=None)
    for unloaded in (files[1], result):
        dynid("payload", "puma560", "--loaded", files[0], "--unloaded", unloaded, *plated, "--json", out, code=None)
        data = json.loads(out.read_text())
        found = dict(zip(data["names"], data["values"], strict=True))
        for name in ("MX", "MY", "MZ", "ZZ"):
            assert_allclose(found[name], LOAD[SYMBOLS.index(name)], rtol=1e-3, atol=1e-3)
        assert data["gain_sigma"] == 0.0
    assert "gain" in dynid.fails(
        "payload", "puma560", "--loaded", files[0], "--unloaded", files[1], *plated, "--gain-sigma", "0.1"
    )
