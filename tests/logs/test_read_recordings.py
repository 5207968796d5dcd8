"""Real recordings, where they are: ../shared/data beside the repository, or $DYNID_DATA."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid.logs.log import Log
from dynid.logs.read import read_log
from dynid.robot.load import load_robot

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
