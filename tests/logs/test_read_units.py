from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dynid.errors import LogError
from dynid.logs.log import Log
from dynid.logs.read import read_log
from dynid.robot.load import load_robot
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from log_writers import as_columns, channel, csv_text, random_samples, write_csv

G3 = load_robot("gautier3")


def three(tmp_path: Path, **options: object) -> Log:
    return read_log(write_csv(tmp_path / "log.csv", random_samples(3)), G3, **options)  # type: ignore[arg-type]


def array(value: Array | None) -> Array:
    assert value is not None
    return value


@pytest.mark.parametrize(
    ("key", "unit", "factor"),
    [
        ("q", "deg", np.pi / 180), ("q", "rad", 1.0), ("v", "deg/s", np.pi / 180), ("v", "rpm", np.pi / 30),
        ("a", "deg/s^2", np.pi / 180), ("a", "rad/s2", 1.0), ("tau", "mNm", 1e-3), ("tau", "kNm", 1e3),
        ("tau", "N.m", 1.0),
    ],
)  # fmt: skip
def test_units_are_brought_to_si(key: str, unit: str, factor: float, tmp_path: Path) -> None:
    log = three(tmp_path, units={key: unit})
    assert_allclose(getattr(log, key), channel(random_samples(3), key) * factor, rtol=1e-15)


def test_units_may_differ_by_joint(tmp_path: Path) -> None:
    q = three(tmp_path, units={"q": ["deg", "rad", "deg"]}).q
    assert_allclose(q, random_samples(3).q * [np.pi / 180, 1.0, np.pi / 180], rtol=1e-15)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_time_in_other_units(unit: str, tmp_path: Path) -> None:
    factor = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit]
    assert_allclose(three(tmp_path, units={"t": unit}).t, random_samples(3).t * factor)


@pytest.mark.parametrize("style", ["q{}_deg", "q{} [deg]", "q{}(deg)", "pos_deg_{}", "q{} [°]"])
def test_a_unit_in_the_header_is_used_and_noted(style: str, tmp_path: Path) -> None:
    samples = random_samples(3)
    columns = {"time_ms": samples.t, **{style.format(j + 1): samples.q[:, j] for j in range(3)}}
    (tmp_path / "log.csv").write_text(csv_text(columns))
    log = read_log(tmp_path / "log.csv", G3)
    assert_allclose(log.q, np.deg2rad(samples.q))
    assert_allclose(log.t, samples.t * 1e-3)
    assert "q is in deg, by the names of its columns" in log.notes
    assert_allclose(read_log(tmp_path / "log.csv", G3, units={"q": "rad"}).q, samples.q)


@pytest.mark.parametrize(
    ("units", "problem"),
    [
        ({"q": "turns"}, "'turns' is not a unit of q; use .*rad, deg, m, mm"),
        ({"q": "Nm"}, "'Nm' is not a unit of q"),
        ({"x": "rad"}, "no channel 'x'"),
        ({"q": ["deg", "rad"]}, "units of q are 2, the robot has 3"),
        ({"q": 3}, "3 is not a unit of q"),
    ],
)
def test_wrong_units_are_errors(units: object, problem: str, tmp_path: Path) -> None:
    with pytest.raises(LogError, match=problem):
        three(tmp_path, units=units)


def test_a_sliding_joint_is_not_measured_in_degrees(tmp_path: Path) -> None:
    scara = load_robot("scara")
    kinds = [scara.links[k].kind for k in scara.active_links]
    path = write_csv(tmp_path / "log.csv", random_samples(scara.n))
    with pytest.raises(LogError, match="deg is not a unit of the prismatic joint"):
        read_log(path, scara, units={"q": "deg"})
    units = ["deg" if kind == "revolute" else "mm" for kind in kinds]
    factors = [np.pi / 180 if kind == "revolute" else 1e-3 for kind in kinds]
    assert_allclose(read_log(path, scara, units={"q": units}).q, random_samples(scara.n).q * factors)


COUPLED: list[list[float]] = [[100.0, 0.0, 0.0], [0.0, -80.0, 0.0], [0.0, 20.0, 50.0]]


@pytest.mark.parametrize("gear", [120.0, [100.0, -80.0, 50.0], COUPLED])
def test_the_power_is_the_same_on_both_sides_of_the_gears(gear: list[float], tmp_path: Path) -> None:
    motor, log = random_samples(3), three(tmp_path, gear=gear)
    expected = np.sum(channel(motor, "tau") * channel(motor, "v"), axis=1)
    assert_allclose(np.sum(array(log.tau) * array(log.v), axis=1), expected, rtol=1e-9, atol=1e-12)
    matrix = np.array(gear) if np.ndim(gear) == 2 else np.diag(np.broadcast_to(np.array(gear), 3))
    for name in ("q", "v", "a"):
        assert_allclose(getattr(log, name) @ matrix.T, channel(motor, name), rtol=1e-12, atol=1e-12)
        assert getattr(log, name).flags.c_contiguous


def test_a_coupling_is_kept_scaled_to_the_joint_side(tmp_path: Path) -> None:
    assert_allclose(array(three(tmp_path, gear=COUPLED).coupling), np.array([[1, 0, 0], [0, 1, 0], [0, 0.4, 1]]))
    assert three(tmp_path, gear=[100, 80, 50]).coupling is None
    assert three(tmp_path, gear=np.diag([100, 80, 50])).coupling is None


def test_units_then_gain_then_gear(tmp_path: Path) -> None:
    log = three(tmp_path, units={"tau": "mA"}, gain=[0.1, 0.2, 0.3], gear=[10, 20, 30])
    assert_allclose(array(log.tau), channel(random_samples(3), "tau") * [1e-3, 4e-3, 9e-3])


def test_currents_without_a_gain_are_noted(tmp_path: Path) -> None:
    columns = {name.replace("tau", "current"): values for name, values in as_columns(random_samples(3)).items()}
    (tmp_path / "log.csv").write_text(csv_text(columns))
    assert any("units of current" in note for note in read_log(tmp_path / "log.csv", G3).notes)
    log = read_log(tmp_path / "log.csv", G3, gain=2.0)
    assert not any("units of current" in note for note in log.notes)
    assert_array_equal(array(log.tau), 2.0 * channel(random_samples(3), "tau"))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"gear": [1.0, 2.0]}, "gear must be a finite number, 3 numbers or a .3, 3. matrix"),
        ({"gear": "fast"}, "gear must be"),
        ({"gear": [1.0, np.nan, 1.0]}, "gear must be"),
        ({"gear": [1.0, 0.0, 1.0]}, "zero ratio on the diagonal, at joint 2"),
        ({"gear": [[0, 1, 0], [1, 0, 0], [0, 0, 1]]}, "zero ratio on the diagonal, at joint 1"),
        ({"gear": np.ones((3, 3))}, "gear is singular"),
        ({"gain": [1, 2]}, "gain must be a finite number, 3 numbers, got"),
        ({"gain": 0.0}, "gain has a zero"),
    ],
)
def test_wrong_gears_and_gains_are_errors(options: dict[str, object], problem: str, tmp_path: Path) -> None:
    with pytest.raises(LogError, match=problem):
        three(tmp_path, **options)


def test_gear_and_units_work_together_on_a_sliding_joint(tmp_path: Path) -> None:
    scara: Robot = load_robot("scara")
    path = write_csv(tmp_path / "log.csv", random_samples(scara.n))
    log = read_log(path, scara, units={"q": "deg"}, gear=2.0)
    assert_allclose(log.q, np.deg2rad(random_samples(scara.n).q) / 2.0)
