"""`dynid markers`: from a marker file to a log, and what it says about bad files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from command_line import CommandLine
from dynid import load_robot, read_log
from dynid.dynamics.kernels.links import link_poses
from dynid.robot.transform import Array
from robots import smooth_path

NAMES = {"a": "1", "b": "2", "c": "2", "d": "3", "e": "3"}
OPTIONS = [word for name, link in NAMES.items() for word in ("--marker", f"{name}={link}")]


@pytest.fixture
def dynid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(monkeypatch, capsys)


def write_markers(path: Path, *, hidden: slice = slice(0), unit: float = 1.0) -> Array:
    """Markers on the PUMA 562 with a plate beside them; returns the joint positions."""
    robot = load_robot("puma562")
    t = np.arange(0.0, 2.0, 0.01)
    q = smooth_path(robot, t, scale=2.0).q
    q[:50] = q[50]
    poses = link_poses(robot, q)
    rng = np.random.default_rng(0)
    columns = {"time": t}
    for name, link in NAMES.items():
        k = int(link) - 1
        x = poses.rotation[k] @ rng.uniform(-0.2, 0.2, 3) + poses.position[k]
        x[hidden] = np.nan
        columns |= {f"{name}_{axis}": x[:, j] / unit for j, axis in enumerate("xyz")}
    columns["Fz"] = 100.0 + t
    rows = [",".join("" if np.isnan(x) else repr(float(x)) for x in row) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join([",".join(columns), *rows]) + "\n")
    return q


def start_of(q: Array) -> str:
    return ",".join(map(repr, q[0].tolist()))


@pytest.mark.parametrize(("unit", "length"), [("m", 1.0), ("mm", 1e-3)])
def test_a_log_that_can_be_read(dynid: CommandLine, tmp_path: Path, unit: str, length: float) -> None:
    file, out, facts = tmp_path / "seen.csv", tmp_path / "log.csv", tmp_path / "facts.json"
    q = write_markers(file, unit=length)
    text = dynid("markers", "puma562", file, *OPTIONS, f"--start={start_of(q)}", "--still", 0.5, "--unit", unit,
                 "--out", out, "--json", facts).out  # fmt: skip
    assert "200 frames, 5 markers" in text
    log = read_log(out, load_robot("puma562"))
    assert_allclose(log.q, q, rtol=0, atol=1e-9)
    assert "Fz" in out.read_text().splitlines()[0]
    assert json.loads(facts.read_text())["residual"] < 1e-9


def test_hidden_frames_are_empty_and_a_warning(dynid: CommandLine, tmp_path: Path) -> None:
    file, out = tmp_path / "seen.csv", tmp_path / "log.csv"
    q = write_markers(file, hidden=slice(100, 103))
    done = dynid("markers", "puma562", file, *OPTIONS, f"--start={start_of(q)}", "--out", out, code=1)
    assert "3 of 200 frames show too few markers" in done.err
    assert out.read_text().splitlines()[101].startswith("1.0,,,,")


def test_mistakes_are_named(dynid: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "seen.csv"
    start = f"--start={start_of(write_markers(file))}"
    base = ["markers", "puma562", file]
    assert "NAME=LINK" in dynid.fails(*base, start)
    assert "give NAME=LINK" in dynid.fails(*base, start, "--marker", "a")
    assert "no column 'z_x'" in dynid.fails(*base, start, "--marker", "z=1")
    assert "no link or joint '9'" in dynid.fails(*base, start, "--marker", "a=9")
    assert "--start" in dynid.fails(*base, *OPTIONS)
    assert "--still 9" in dynid.fails(*base, start, *OPTIONS, "--still", 9)
    assert "--unit ft" in dynid.fails(*base, start, *OPTIONS, "--unit", "ft")
    assert "3 joint positions" in dynid.fails(*base, "--start=0,0", *OPTIONS)
    for text, words in (
        ("", "distinct names"),
        ("time,a_x\n1,x\n", "line 2"),
        ("time,a_x\n1\n", "line 2 has 1 entries"),
    ):
        file.write_text(text)
        assert words in dynid.fails(*base, start, *OPTIONS)
    assert "cannot be read" in dynid.fails("markers", "puma562", tmp_path / "none.csv", start, *OPTIONS)
    assert "Example: dynid markers" in dynid("markers", "--help").out
