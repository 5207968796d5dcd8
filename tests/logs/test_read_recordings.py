"""Real recordings, where they are: ../shared/data beside the repository, or $DYNID_DATA."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.io import loadmat

import dynid
from command_line import CommandLine
from dynid.logs.log import Log
from dynid.logs.read import read_log
from dynid.robot.load import load_robot
from dynid.robot.transform import Array
from logs.test_layouts import read_by_words

DATA = Path(os.environ.get("DYNID_DATA", Path(__file__).parents[3] / "shared" / "data"))
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"no recordings in {DATA}")
RATIOS = np.array([1798 / 7, 1872 / 7, 757 / 3, 221, 5032 / 21, 206793 / 1340])


def recording(file: str, robot: str, **options: object) -> Log:
    path = DATA / file
    if not path.exists():
        pytest.skip(f"no recording {path}")
    return read_log(path, load_robot(robot), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("file", "robot", "shape", "rate"),
    [
        ("panda_gaz2019/log.csv.gz", "panda", (20544, 7), 1000.0),
        ("kr300_weigand/log_A.csv.gz", "kr300", (2501, 6), 250.0),
        ("kuka_lwr4_flobaroid/log_3.csv.gz", "lwr4", (5027, 7), 200.0),
        ("kuka_lwr4_flobaroid/measurements_3.npz", "lwr4", (5027, 7), 200.0),
        ("ur10_unisa/ur10_exciting_trajectory.db3", "ur10", (3441, 6), 125.0),
        ("panda_unisa/panda_exciting_trajectory.db3", "panda", (727, 7), 30.0),
    ],
)
def test_recordings_have_their_size_and_rate(file: str, robot: str, shape: tuple[int, int], rate: float) -> None:
    log = recording(file, robot)
    assert log.q.shape == shape
    assert log.v is not None
    assert log.tau is not None
    assert log.v.shape == log.tau.shape == shape
    assert_allclose(1.0 / np.median(np.diff(log.t)), rate, rtol=0.01)
    assert np.isfinite(log.tau).all()


def test_csv_and_npz_of_one_recording_agree() -> None:
    npz, text = (recording(f"kuka_lwr4_flobaroid/{file}", "lwr4") for file in ("measurements_1.npz", "log_1.csv.gz"))
    assert npz.channels == {"v", "a", "tau"}
    assert_allclose(npz.q, text.q, rtol=1e-7)
    assert_allclose(npz.t - npz.t[0], text.t, atol=1e-6)


def test_velocities_of_the_ur10_are_those_of_its_positions() -> None:
    log = recording("ur10_unisa/ur10_exciting_trajectory.db3", "ur10")
    assert log.v is not None
    slopes = np.gradient(log.q, log.t, axis=0)
    for j in range(6):
        assert np.corrcoef(slopes[:, j], log.v[:, j])[0, 1] > 0.99


def test_matlab_structs_by_a_mapping_with_gears_give_the_prepared_log() -> None:
    columns = {
        "t": "rec.time_cont",
        "q": "rec.act_pos_mot_deg",
        "v": "rec.act_vel_mot_deg_per_s",
        "tau": "rec.act_torque_abs_nm",
    }
    log = recording("kr300_weigand/A.mat", "kr300", columns=columns)
    ready = recording("kr300_weigand/log_A.csv.gz", "kr300")
    assert_allclose(log.q + np.deg2rad([0, -90, 90, 0, 0, 0]), ready.q, atol=1e-6)
    assert ready.tau is not None
    assert log.tau is not None
    assert_allclose(log.tau * RATIOS, ready.tau, rtol=1e-6)
    assert any("transposed" in note for note in log.notes)


def test_one_command_reads_the_published_matlab_files_as_the_prepared_logs() -> None:
    columns = {"t": "time_cont", "q": "act_pos_mot_deg", "v": "act_vel_mot_deg_per_s", "tau": "act_torque_abs_nm"}
    words = [word for key, name in columns.items() for word in ("--column", f"{key}=rec.{name}")]
    words += ["--gain", ",".join(map(repr, RATIOS.tolist())), "--zero", "2=-90deg", "--zero", "3=90deg"]
    robot = load_robot("kr300")
    for run in "ABC":
        ready = recording(f"kr300_weigand/log_{run}.csv.gz", "kr300")
        raw = read_by_words(robot, str(DATA / f"kr300_weigand/{run}.mat"), words)
        assert_allclose(raw.t, ready.t, atol=1e-9)
        for channel in ("q", "v", "tau"):
            assert_allclose(getattr(raw, channel), getattr(ready, channel), rtol=1e-6, atol=1e-6)


# The commands of docs/logs.md on the files as published, and logs made by hand from the same files.


def joint_states_by_hand(file: Path) -> dict[str, Array]:
    """Joint states of a bag, decoded from its database byte by byte, with the joints by name."""

    def aligned(at: int, size: int) -> int:
        return at + (size - (at - 4) % size) % size

    rows = []
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as base:
        (topic,) = base.execute("SELECT id FROM topics WHERE type = 'sensor_msgs/msg/JointState'").fetchone()
        messages = base.execute("SELECT data FROM messages WHERE topic_id = ? ORDER BY timestamp", (topic,)).fetchall()
    for (data,) in messages:
        seconds, nanoseconds, length = struct.unpack_from("<iII", data, 4)
        at = aligned(16 + length, 4)
        (count,), at = struct.unpack_from("<I", data, at), at + 4
        names, found = [], dict[str, float]()
        for _ in range(count):
            at = aligned(at, 4)
            (length,) = struct.unpack_from("<I", data, at)
            names.append(data[at + 4 : at + 3 + length].decode())
            at += 4 + length
        for channel in ("q", "v", "tau"):
            at = aligned(at, 4)
            (count,) = struct.unpack_from("<I", data, at)
            at = aligned(at + 4, 8) if count else at + 4
            values = struct.unpack_from(f"<{count}d", data, at)
            found |= {f"{channel}.{name}": x for name, x in zip(names, values, strict=True)}
            at += 8 * count
        rows.append({"t": seconds * 10**9 + nanoseconds, **found})
    first = rows[0]["t"]
    return {key: np.array([(row[key] - first) / 1e9 if key == "t" else row[key] for row in rows]) for key in rows[0]}


def arrays_by_hand(file: Path) -> dict[str, Array]:
    """Arrays of FloBaRoID as columns."""
    with np.load(file) as data:
        found = {"t": data["times"] - data["times"][0]}
        for key, name in (("q", "positions"), ("v", "velocities"), ("a", "accelerations"), ("tau", "torques")):
            found |= {f"{key}{j + 1}": column for j, column in enumerate(data[name].T)}
    return found


def motors_by_hand(file: Path) -> dict[str, Array]:
    """Motor positions and torques of Weigand et al. at the joints."""
    record = loadmat(file)["rec"][0, 0]
    q, v = (np.deg2rad(record[name]) for name in ("act_pos_mot_deg", "act_vel_mot_deg_per_s"))
    q = q + np.deg2rad([0.0, -90.0, 90.0, 0.0, 0.0, 0.0])[:, None]
    blocks = {"q": q, "v": v, "tau": record["act_torque_abs_nm"] * RATIOS[:, None]}
    t = record["time_cont"].ravel()
    return {"t": t, **{f"{key}{j + 1}": x[j] for key, x in blocks.items() for j in range(6)}}


def by_hand(word: str, folder: Path, place: Path) -> str:
    """A log made by hand for a file of a command, with its range."""
    file, _, rest = word.partition("@")
    if file.endswith(".mat"):
        table = motors_by_hand(folder / file)
    elif file.endswith(".npz"):
        table = arrays_by_hand(folder / file)
    elif file.endswith(".db3"):
        table = joint_states_by_hand(folder / file)
    else:
        with gzip.open(folder / file, "rt") as text:
            names = text.readline().strip().split(",")
            table = dict(zip(names, np.loadtxt(text, delimiter=",").T, strict=True))
    made = place / f"{Path(file).name.partition('.')[0]}.csv"
    rows = np.column_stack(list(table.values()))
    np.savetxt(made, rows, delimiter=",", header=",".join(table), comments="", fmt="%.17g")
    return f"{made}@{rest}" if rest else str(made)


FOLDERS = {"lwr4": "kuka_lwr4_flobaroid", "ur10": "ur10_unisa", "panda panda": "panda_unisa",
           "panda log": "panda_gaz2019", "kr300": "kr300_weigand"}  # fmt: skip


@pytest.mark.parametrize("start", FOLDERS)
def test_the_command_of_the_docs_gives_the_result_of_a_log_made_by_hand(
    start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = DATA / FOLDERS[start]
    if not folder.is_dir():
        pytest.skip(f"no recordings in {folder}")
    page = (Path(__file__).parents[2] / "docs" / "logs.md").read_text()
    block = page.partition("Public recordings, as they are published")[2].partition("```sh\n")[2].partition("```")[0]
    (line,) = [line for line in block.splitlines() if line.startswith(f"dynid identify {start}")]
    words = shlex.split(line)[1:]
    monkeypatch.chdir(folder)
    files = {word: by_hand(word, folder, tmp_path) for word in words if (folder / word.partition("@")[0]).is_file()}
    assert files
    end = next((k for k, word in enumerate(words) if word == "--column"), len(words))  # what follows maps raw columns
    found = []
    for some in (words, [files.get(word, word) for word in words[:end]]):
        out = tmp_path / "found.json"
        CommandLine(monkeypatch, capsys)(
            *some, "--friction", "viscous,coulomb,offset", "--cutoff", "8", "--json", out, code=None
        )
        found.append(json.loads(out.read_text()))
    raw, ready = found
    assert raw["names"] == ready["names"]
    sigma = np.maximum(ready["sigma"], 1e-12)
    assert np.abs((np.array(raw["values"]) - ready["values"]) / sigma).max() < 1e-3
    assert_allclose(raw["validation"]["nrmse"], ready["validation"]["nrmse"], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("run", ["npz", "mat"])
def test_published_files_give_the_parameters_of_the_prepared_logs(run: str) -> None:
    options: dict[str, Any] = {"friction": ("viscous", "coulomb", "offset"), "cutoff": 8.0}
    if run == "npz":
        robot, folder = load_robot("lwr4"), DATA / "kuka_lwr4_flobaroid"
        leave = {"columns": {"a": None}}
        raw = read_log(folder / "measurements_1.npz", robot, **leave)  # type: ignore[arg-type]
        ready = recording("kuka_lwr4_flobaroid/log_1.csv.gz", "lwr4")
    else:
        robot = load_robot("kr300")
        names = {"t": "time_cont", "q": "act_pos_mot_deg", "v": "act_vel_mot_deg_per_s", "tau": "act_torque_abs_nm"}
        raw = recording(
            "kr300_weigand/A.mat", "kr300", columns={key: f"rec.{name}" for key, name in names.items()}, gain=RATIOS,
            zero={"2": "-90deg", "3": "90deg"},
        )  # fmt: skip
        ready = recording("kr300_weigand/log_A.csv.gz", "kr300")
    found, same = (dynid.identify(robot, log, **options) for log in (raw, ready))
    assert found.names == same.names
    assert_allclose(found.values, same.values, rtol=1e-3, atol=0.02 * np.max(same.sigma))
