"""Recordings in groups, structs and columns of lists; arrays whose columns have names; arrays of no numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from dynid import load_robot, read_log
from dynid.errors import LogError
from dynid.logs.columns import ColumnPlan, match_columns
from dynid.logs.readers.table import Field

ROBOT = load_robot("gautier3")
UR10 = load_robot("ur10")
N = 50
T = np.arange(N) * 0.01
Q = np.random.default_rng(1).standard_normal((N, 3))


def match(shapes: Mapping[str, tuple[int, ...]], **columns: str) -> ColumnPlan:
    return match_columns("log", [Field(name, shape) for name, shape in shapes.items()], ROBOT, columns)


@pytest.mark.parametrize("folder", ["run.", "my.exp.", "experiment_1.", "/robot/run7/", "log1.", "a."])
@pytest.mark.parametrize("names", ["t q tau", "time joints.position joints.torque", "header.stamp position effort"])
def test_a_folder_is_no_part_of_the_names_in_it(folder: str, names: str) -> None:
    t, q, tau = (folder + name for name in names.split())
    plan = match({"info.rate": (1,), t: (N,), q: (N, 3), tau: (N, 3)})
    assert plan.t.field == t
    assert {place.field for place in plan.channels["q"]} == {q}
    assert {place.field for place in plan.channels["tau"]} == {tau}


def test_the_time_decides_between_several_recordings() -> None:
    shapes = {f"{run}.{name}": size for run in ("log1", "log2") for name, size in (("t", (N,)), ("q", (N, 3)))}
    with pytest.raises(LogError, match=r"several recordings in it, with the times 'log1\.t', 'log2\.t'; say which"):
        match(shapes)
    assert {place.field for place in match(shapes, t="/log2/t").channels["q"]} == {"log2.q"}


def test_the_folder_of_a_joint_names_the_joint() -> None:
    shapes = {f"joint{k}.{name}": (N,) for k in (1, 2, 3) for name in ("t", "q")}
    assert [place.field for place in match(shapes, t="joint2.t").channels["q"]] == ["joint1.q", "joint2.q", "joint3.q"]


@pytest.mark.parametrize(
    ("array", "problem"),
    [
        (Q.astype(complex), r"'q' holds no real numbers \(complex128\)"),
        (Q.astype(str), "'q' holds no real numbers"),
        (Q.astype(object), "'q' holds Python objects, which are never loaded"),
        (np.stack([Q, Q], axis=2), "'q' has 3 dimensions"),
    ],
    ids=["complex", "text", "objects", "3-D"],
)
def test_an_array_of_no_numbers_says_why(array: np.ndarray, problem: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", t=T, q=array, tau=Q)
    with pytest.raises(LogError, match=problem):
        read_log(tmp_path / "log.npz", ROBOT)
    np.savez(tmp_path / "log.npz", t=T, q=Q, tau=array)
    log = read_log(tmp_path / "log.npz", ROBOT)
    assert any(re.search(problem.replace("'q'", "'tau'"), note) for note in log.notes)
    assert log.between(0.1).unused_columns[0].startswith("'tau' (h")


@pytest.mark.parametrize("suffix", [".npz", ".h5"])
def test_a_list_of_names_orders_the_columns_of_arrays(suffix: str, tmp_path: Path) -> None:
    """Also with more joints than the robot has; a list of other names says nothing."""
    file = tmp_path / f"log{suffix}"
    names = ["gripper", *reversed(UR10.joint_names)]
    q = np.random.default_rng(2).standard_normal((N, 7))
    arrays = {"t": T, "q": q, "tau": 2.0 * q}
    write_arrays(file, {**arrays, "joint_names": np.array(names)})
    log = read_log(file, UR10)
    assert np.array_equal(log.q, q[:, :0:-1])
    assert log.tau is not None
    assert np.array_equal(log.tau, 2.0 * q[:, :0:-1])
    write_arrays(file, {**arrays, "joint_names": np.array([f"other {k}" for k in range(7)])})
    with pytest.raises(LogError, match="'q' has 7 columns, q needs 6"):
        read_log(file, UR10)


def write_arrays(file: Path, arrays: Mapping[str, np.ndarray]) -> None:
    if file.suffix == ".npz":
        np.savez(file, **arrays)  # type: ignore[arg-type]
        return
    h5py = pytest.importorskip("h5py")
    with h5py.File(file, "w") as h5:
        for name, array in arrays.items():
            h5[name] = array.astype("S") if array.dtype.kind == "U" else array
