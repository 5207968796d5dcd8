"""`dynid view` as a person uses it, in a real browser too."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import browser, find_browser
from command_line import CommandLine, write_motion, write_simulated
from dynid import identify, load_robot, read_log, simulate
from dynid.cli.log_options import LogReader
from dynid.cli.output import motions
from dynid.cli.output.recordings import write_log
from dynid.robot.transform import Array
from robots import smooth_path

pytest.importorskip("viser")


@contextmanager
def viewer(*words: object) -> Iterator[str]:
    """A running viewer's address."""
    with started(*words, "--seconds", "120") as process:
        assert process.stdout is not None
        found = next(match for line in process.stdout if (match := re.search(r"look at (\S+)", line)))
        yield found[1]


LAUNCHER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler if {heeds} else signal.SIG_IGN)
from dynid.cli import main
main()
"""


@contextmanager
def started(*words: object, heeds: bool = True) -> Iterator[subprocess.Popen[str]]:
    """A running viewer, which heeds Ctrl-C or ignores it, whatever the test's own process does; it ends with the test.

    In the background of a script, and under nohup, children inherit that SIGINT is ignored.
    """
    launcher = [sys.executable, "-c", LAUNCHER.format(heeds=heeds)]
    command = [*launcher, "view", *map(str, words), "--no-browser", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=30)


def pixels(png: bytes) -> Array:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), dtype=np.float64)


def robot_part(picture: Array) -> Array:
    """The left two thirds, below the notices: no controls."""
    height, width = picture.shape[:2]
    return picture[height // 4 :, : 2 * width // 3]


@pytest.mark.skipif(find_browser() is None, reason="there is no Chromium on this machine")
@pytest.mark.slow
def test_the_robot_moves_in_the_browser(tmp_path: Path) -> None:
    motion = write_motion(tmp_path / "traj.csv", "puma560")
    program = find_browser()
    assert program is not None
    with viewer("puma560", motion) as address, browser(program) as tab:
        tab.visit(address, width=640, height=480)
        tab.wait("document.body && document.body.innerText.includes('skeleton')")
        tab.wait("document.querySelector('canvas') !== null")
        orange = 0
        for _ in range(100):
            first = robot_part(pixels(tab.picture()))
            orange = int(((first[..., 0] > 180) & (first[..., 2] < 110)).sum())
            if orange > 20:
                break
            time.sleep(0.2)
        assert orange > 20, "no joint is to be seen"
        changed = 0
        for _ in range(50):
            second = robot_part(pixels(tab.picture()))
            changed = int((np.abs(second - first).max(axis=2) > 60).sum())
            if changed > 50:
                break
            time.sleep(0.2)
        assert changed > 50, "nothing moves"
        button = "[...document.querySelectorAll('button')].find(b => b.innerText === '{}')"
        tab.run(button.format("Pause") + ".click()")
        tab.wait("!!" + button.format("Play"))
        time.sleep(1.0)
        third = robot_part(pixels(tab.picture()))
        time.sleep(0.7)
        assert int((np.abs(robot_part(pixels(tab.picture())) - third).max(axis=2) > 60).sum()) < 20
        assert tab.complaints == []


def test_view_runs_without_a_browser_and_stops_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = CommandLine(monkeypatch, capsys)
    common = ("--no-browser", "--port", "0", "--seconds", "0.3")
    motion = write_motion(tmp_path / "traj.csv", "gautier3", seconds=1.0)
    done = run("view", "gautier3", motion, *common)
    assert done.out.startswith("look at http://127.0.0.1:")
    assert done.out.count("\n") == 1
    run("view", "slider_crank", *common, "--json", tmp_path / "view.json")
    facts = json.loads((tmp_path / "view.json").read_text())
    assert facts["address"].startswith("http://127.0.0.1:")
    assert (facts["joints"], facts["duration"], facts["shapes"]) == (["1"], None, 0)
    log = write_simulated(tmp_path / "log.parquet", "gautier3", seconds=1.0)
    run("view", "gautier3", log, *common, "--column", "q=q1,q2,q3")
    cell = tmp_path / "cell.toml"
    cell.write_text("[[box]]\nsize = [1, 1, 1]\n[tool]\nradius = 0.1\nlength = 0.2\n[[plane]]\nnormal = [0, 0, 1]\n")
    around = ("--obstacles", cell, "--floor", "-0.5")
    run("view", "gautier3", motion, *common, *around, "--json", tmp_path / "view.json")
    assert json.loads((tmp_path / "view.json").read_text())["shapes"] == 4
    pytest.importorskip("mujoco")
    body = '<body><joint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/><geom size="0.1"/></body>'
    (tmp_path / "arm.xml").write_text(f"<mujoco><worldbody>{body}</worldbody></mujoco>")
    run("view", tmp_path / "arm.xml", *common, "--json", tmp_path / "view.json")
    assert json.loads((tmp_path / "view.json").read_text())["shapes"] == 1


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("nobody",), "no robot 'nobody'"),
        (("gautier3", "nowhere.csv"), "nowhere.csv"),
        (("gautier3", "--port", "99999"), "65535"),
        (("gautier3", "--seconds", "0"), "positive"),
        (("gautier3", "--lock", "arm"), "NAME=POSITION"),
        (("gautier3", "--result", "r.json"), "needs the log of its torques"),
    ],
)
def test_mistakes(
    words: tuple[str, ...], answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer in CommandLine(monkeypatch, capsys).fails("view", *words, "--no-browser")


@pytest.fixture(scope="module")
def identified(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A log of gautier3 whose time begins late, and the result of it."""
    folder = tmp_path_factory.mktemp("identified")
    robot = load_robot("gautier3")
    motion = smooth_path(robot, 5.0 + np.arange(0.0, 8.0, 0.01), scale=2.0)
    write_log(folder / "log.csv", simulate(robot, motion, noise=0.05))
    log = read_log(folder / "log.csv", robot)
    identify(robot, log, friction=("viscous", "coulomb", "offset"), cutoff=20.0).save(folder / "result.json")
    return folder / "log.csv", folder / "result.json"


def test_torques_are_those_of_the_log_and_of_the_result(identified: tuple[Path, Path]) -> None:
    log, result = identified
    robot = load_robot("gautier3")
    reader = LogReader.from_options(robot, (), (), None, None, None)
    path = motions.read_joint_path(log, robot, reader)
    torques = motions.read_torque_traces(result, log, robot, reader, path)
    exact = smooth_path(robot, 5.0 + path.t, scale=2.0)
    true = simulate(robot, exact).tau
    assert true is not None
    middle = (path.t > 0.5) & (path.t < 7.4)
    assert np.isfinite(torques.measured[middle]).all()
    for found in (torques.measured, torques.predicted):
        assert np.abs(found - true)[middle].max() < 0.05 * np.abs(true).max()
    assert (0.0 < torques.rmse).all()
    assert (torques.rmse < 0.1).all()
    measured, predicted = torques.at(4.0)
    k = int(np.argmin(np.abs(path.t - 4.0)))
    assert np.abs(measured - true[k]).max() < 0.05 * np.abs(true).max() > np.abs(predicted - true[k]).max()


def test_a_result_of_another_robot_or_kind_is_refused(
    identified: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = CommandLine(monkeypatch, capsys)
    other = write_simulated(tmp_path / "log.csv", "puma560", seconds=1.0)
    assert "not of 'puma560'" in run.fails("view", "puma560", other, "--result", identified[1], "--no-browser")
    error = run.fails("view", "gautier3", identified[0], "--result", tmp_path / "none.json", "--no-browser")
    assert "none.json" in error


@pytest.mark.slow
@pytest.mark.skipif(find_browser() is None, reason="there is no Chromium on this machine")
def test_torques_follow_the_time_and_nothing_can_be_shared(identified: tuple[Path, Path]) -> None:
    program = find_browser()
    assert program is not None
    log, result = identified
    with viewer("gautier3", log, "--result", result, "--floor", "-0.3") as address, browser(program) as tab:
        tab.visit(address, width=900, height=900)
        tab.wait("document.body && document.body.innerText.includes('path of the tool')")
        tab.wait("document.body.innerText.includes('identified')")
        fields = "[...document.querySelectorAll('input')].map((x) => x.value).filter((x) => x.includes('x RMSE'))"
        tab.wait(f"{fields}.length === 1")
        before = tab.run(f"{fields}[0]")
        tab.wait(f"{fields}[0] !== {json.dumps(before)}")
        assert tab.run("document.querySelectorAll('[class*=share i]').length") == 0
        assert tab.complaints == []


def test_a_port_in_use_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        error = CommandLine(monkeypatch, capsys).fails("view", "gautier3", "--port", port, "--no-browser")
    assert "choose another" in error


@pytest.mark.parametrize("here", [signal.default_int_handler, signal.SIG_IGN])
def test_ctrl_c_ends_it_without_a_complaint(here: Any) -> None:
    before = signal.signal(signal.SIGINT, here)
    try:
        check_ctrl_c()
    finally:
        signal.signal(signal.SIGINT, before)


def check_ctrl_c() -> None:
    with started("gautier3") as process:
        assert process.stdout is not None
        assert "look at" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")


def test_where_ctrl_c_is_ignored_it_serves_on_and_a_termination_ends_it() -> None:
    with started("gautier3", heeds=False) as process:
        assert process.stdout is not None
        assert "look at" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1.0)
        process.terminate()
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (-signal.SIGTERM, "")


def test_without_viser_the_install_command_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "viser", None)
    assert "pip install viser" in CommandLine(monkeypatch, capsys).fails("view", "gautier3")


def test_pages_of_other_sites_are_refused() -> None:
    """A browser lets any page open a WebSocket to this machine, and says where the page comes from."""
    import asyncio

    viser = pytest.importorskip("viser")
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidStatus
    from websockets.typing import Origin, Subprotocol

    from dynid.viewer.server import _start_server

    server = _start_server(0, "arm")
    try:
        port = server.get_port()

        async def knock(origin: str | None) -> None:
            version = Subprotocol(f"viser-v{viser.__version__}")
            asked = None if origin is None else Origin(origin)
            async with connect(f"ws://127.0.0.1:{port}", origin=asked, subprotocols=[version]):
                pass

        for origin in (None, f"http://localhost:{port}", f"http://127.0.0.1:{port}"):
            asyncio.run(knock(origin))
        with pytest.raises(InvalidStatus):
            asyncio.run(knock("http://elsewhere.example"))
    finally:
        server.stop()
