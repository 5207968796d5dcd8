"""Recordings in several files on the command line and in `identify`: the figures of one file, and lags by name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid as library
from command_line import CommandLine
from dynid import Log
from dynid.cli import log_options
from fourier import fourier_motion
from loads import log_along, robot_with_friction
from log_writers import csv_text, joint_state, type_store, write_bag

PLAIN = ("viscous", "coulomb", "offset")
ROBOT = robot_with_friction("gautier3")


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


def write_part(path: Path, log: Log, channel: str, every: slice = slice(None), later: float = 0.0) -> str:
    x = getattr(log, channel)[every]
    path.write_text(csv_text({"t": log.t[every] + later, **{f"{channel}{j + 1}": x[:, j] for j in range(x.shape[1])}}))
    return str(path)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> tuple[Log, Path]:
    """A run of gautier3 at 100 Hz, in one file and in two."""
    folder = tmp_path_factory.mktemp("recording")
    log = log_along(ROBOT, fourier_motion(ROBOT, seed=1, rate=100.0), noise=0.01)
    write_part(folder / "q.csv", log, "q")
    write_part(folder / "tau.csv", log, "tau")
    assert log.tau is not None
    names = [f"{x}{j}" for x in ("q", "tau") for j in (1, 2, 3)]
    values = np.column_stack([log.q, log.tau]).T
    (folder / "all.csv").write_text(csv_text({"t": log.t, **dict(zip(names, values, strict=True))}))
    return log, folder


def test_two_files_give_the_figures_of_one(
    dynid: CommandLine, recording: tuple[Log, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(recording[1])
    facts = []
    for word in ("all.csv", "q.csv+tau.csv"):
        dynid("identify", "gautier3", word, "--friction", ",".join(PLAIN), "--json", tmp_path / "x.json", code=None)
        facts.append(json.loads((tmp_path / "x.json").read_text()))
    assert_allclose(facts[1]["values"], facts[0]["values"], rtol=1e-12)
    result = library.identify(ROBOT, [["q.csv", "tau.csv"]], friction=PLAIN)
    assert_allclose(result.values, facts[0]["values"], rtol=1e-9)
    assert [file.name for file in result.origin.inputs] == ["q.csv", "tau.csv"]
    dynid.fails("identify", "gautier3", "q.csv+tau.csv", "--json", "tau.csv")
    assert (recording[1] / "tau.csv").read_text().startswith("t,tau1")


def test_a_project_file_names_recordings_in_several_files(
    dynid: CommandLine, recording: tuple[Log, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, folder = recording
    write_part(folder / "t+au.csv", log, "tau", later=2.0)
    (folder / "dynid.toml").write_text(
        'robot = "gautier3"\nlogs = ["q.csv@1:9+t+au.csv@-2"]\noptions.friction = "viscous,coulomb,offset"\n'
    )
    monkeypatch.chdir(tmp_path)
    dynid("identify", "--project", folder / "dynid.toml", "--json", tmp_path / "x.json", code=None)
    found = json.loads((tmp_path / "x.json").read_text())
    reader = log_options.LogReader.from_options(ROBOT, (), (), None, None, None)
    same = reader.read_log(f"{folder / 'q.csv'}@1:9+{folder / 'tau.csv'}")
    assert_allclose(found["values"], library.identify(ROBOT, same, friction=PLAIN).values, rtol=1e-6)


def test_a_bag_of_two_topics_gives_the_figures_of_the_file(recording: tuple[Log, Path], tmp_path: Path) -> None:
    pytest.importorskip("rosbags.rosbag2")
    log, folder = recording
    assert log.tau is not None
    store = type_store(my_msgs__Drive="builtin_interfaces/Time stamp\nfloat64[] torque\n")
    messages = []
    for t, q, tau in zip(log.t, log.q, log.tau, strict=True):
        at = 10**18 + round(1e9 * t)
        stamp = store.types["builtin_interfaces/msg/Time"](*divmod(at, 10**9))
        messages.append(("/js", at, joint_state(at, ROBOT.joint_names, q)))
        messages.append(("/drive", at + 7 * 10**6, store.types["my_msgs/msg/Drive"](stamp, tau)))
    bag = write_bag(tmp_path / "bag", messages, store=store)
    read = library.read_log(bag, ROBOT, topic="/js+/drive", columns={"tau": ".torque"})
    found = library.identify(ROBOT, read, friction=PLAIN)
    right = library.identify(ROBOT, folder / "all.csv", friction=PLAIN)
    assert_allclose(found.values, right.values, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("lag", [-0.015, 0.0, 0.012, 0.03])
def test_a_lag_between_the_files_is_named_with_its_remedy(lag: float, tmp_path: Path) -> None:
    log = log_along(ROBOT, fourier_motion(ROBOT, seed=1, rate=1000.0), noise=0.01)
    q = write_part(tmp_path / "q.csv", log, "q", slice(0, None, 5))
    tau = write_part(tmp_path / "tau.csv", log, "tau", slice(2, None, 3), later=lag)
    result = library.identify(ROBOT, [[q, tau]], friction=PLAIN)
    best = library.diagnose(result).best
    if lag == 0.0:
        assert best is None
        return
    assert best is not None
    (option,) = best.options
    assert option.keyword == "delay"
    assert option.value == pytest.approx(lag, abs=5e-4)
    mended = library.identify(ROBOT, [[q, tau]], friction=PLAIN, delay=option.value)
    assert np.mean(mended.validation.nrmse) < 0.3 * np.mean(result.validation.nrmse)
