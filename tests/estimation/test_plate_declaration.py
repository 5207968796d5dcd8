"""How a force plate is declared: invariance, wrong declarations, what stands on it, files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dynid import (
    DynidError,
    ForceSensor,
    Identification,
    Log,
    Rotor,
    identify,
    joint_parameters,
    load_robot,
    simulate,
)
from dynid.identifiability.base_reactions import relate_sensors
from dynid.robot.io.toml_table import read_sensor
from dynid.robot.io.toml_writer import table_text
from dynid.robot.transform import Array
from fourier import fourier_motion
from plates import ANY, arm, reaction, theta_d


def moved(sensor: ForceSensor, reading: Array) -> dict[str, tuple[ForceSensor, Array]]:
    """The same wrench as other plates would read it: by the rules of statics, written here anew."""
    F, M = reading[:, :3], reading[:, 3:]  # plate on robot, frame 0, about its origin
    P, R = np.array([0.3, -0.1, -0.4]), Rotation.from_euler("zyx", [0.7, 0.2, -0.4]).as_matrix()
    about = M - np.cross(P, F)
    order = [5, 0, 3, 1, 4, 2]
    names = ("Fx", "Fy", "Fz", "Mx", "My", "Mz")
    return {
        "moved": (replace(sensor, position=P), np.hstack([F, about])),
        "reference": (replace(sensor, reference=P), np.hstack([F, about])),
        "turned": (replace(sensor, rotation=R), np.hstack([F @ R, M @ R])),
        "both": (replace(sensor, position=P, rotation=R), np.hstack([F @ R, about @ R])),
        "sense": (replace(sensor, sense="robot_on_plate"), -reading),
        "order": (replace(sensor, channels=tuple(names[k] for k in order)), reading[:, order]),
        "offsets": (sensor, reading + np.array([10.0, -20.0, 30.0, 4.0, -5.0, 6.0])),
        "known": (replace(sensor, offsets="known", offset=np.full(6, 2.0)), reading + 2.0),
    }


@pytest.mark.parametrize("case", moved(ForceSensor(), np.zeros((1, 6))))
def test_a_plate_that_is_declared_as_it_is_changes_nothing(case: str) -> None:
    robot = arm("puma560")
    log = simulate(robot, fourier_motion(robot))
    assert log.reaction is not None
    before, truth, _ = theta_d(robot, log)
    sensor, reading = moved(ForceSensor(), log.reaction)[case]
    other = Log(log.t, log.q, v=log.v, a=log.a, reaction=reading)
    after, _, result = theta_d(robot, other, sensor=sensor)
    np.testing.assert_allclose(after, before, rtol=0.0, atol=1e-9 * np.abs(truth).max())
    assert result.verdict.level == "good"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (replace(ANY, sense="plate_on_robot"), "negative"),
        (replace(ANY, position=ANY.position + np.array([0.0, 0.0, 0.02])), "mm away"),
        (replace(ANY, reference=ANY.reference - np.array([0.0, 0.0, 0.1])), "mm away"),
        (replace(ANY, rotation=np.eye(3)), "residual|NRMSE"),
        (replace(ANY, channels=("Mz", "Fy", "Fx", "Mx", "My", "Fz")), "residual|NRMSE"),
        (replace(ANY, offsets="known", offset=np.array([0.0, 15.0, 0.0, 0.0, 0.0, 0.0])), "residual|NRMSE|away"),
    ],
    ids=["sense", "position", "reference", "rotation", "order", "offset"],
)
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_a_wrong_declaration_is_noticed(wrong: ForceSensor, said: str, noise: float) -> None:
    robot = arm("puma560").with_sensor(ANY)
    log = simulate(robot, fourier_motion(robot, duration=20.0), plate_noise=noise)
    right = identify(robot, log, model="reaction")
    assert right.verdict.level == "good", right.verdict
    result = identify(robot, log, model="reaction", sensor=wrong)
    assert result.verdict.level != "good"
    assert any(word in str(result.verdict) for word in said.split("|")), result.verdict
    assert any(word in " ".join(result.warnings) for word in said.split("|"))


def test_what_stands_on_the_plate_and_known_offsets() -> None:
    robot = arm("puma560")
    sensor = replace(
        ANY, offsets="known", offset=np.arange(6.0), mass=12.0, com=np.array([0.2, -0.1, 0.05]), sense="plate_on_robot"
    )
    log = simulate(robot.with_sensor(sensor), fourier_motion(robot))
    bare = simulate(robot.with_sensor(replace(sensor, mass=0.0)), fourier_motion(robot))
    assert log.reaction is not None
    assert bare.reaction is not None
    weight = -12.0 * robot.gravity
    P = sensor.position + sensor.rotation @ sensor.reference
    F, M = sensor.rotation.T @ weight, sensor.rotation.T @ np.cross(sensor.com - P, weight)
    np.testing.assert_allclose((log.reaction - bare.reaction)[0], [M[2], F[0], F[1], M[0], M[1], F[2]], atol=1e-10)
    found, truth, result = theta_d(robot.with_sensor(sensor), log)
    np.testing.assert_allclose(found, truth, atol=1e-9 * np.abs(truth).max())
    assert result.rank == relate_sensors(robot, tared=False).reaction.count == 41  # and the total mass
    assert not any(name.startswith("O") for name in result.names)


def test_results_and_sensors_come_back_from_files(tmp_path: Path) -> None:
    sensor = replace(
        ANY, sensitivity_sigma=np.full(6, 0.01), noise=np.arange(1.0, 7.0), rotors=(Rotor("1", 50.0, 1e-4),), mass=3.0,
        com=np.array([0.1, 0.2, 0.3]),
    )  # fmt: skip
    robot = arm("puma560").with_sensor(sensor)
    motion = fourier_motion(robot)
    log = simulate(robot, motion, plate_noise=0.1)
    result = identify(robot, log, model="reaction")
    result.save(tmp_path / "result.json")
    again = Identification.load(tmp_path / "result.json")
    np.testing.assert_array_equal(again.predict(motion), result.predict(motion))
    np.testing.assert_array_equal(joint_parameters(again).sigma, joint_parameters(result).sigma)
    np.testing.assert_array_equal(again.systematic, result.systematic)
    (tmp_path / "robot.toml").write_text(table_text(robot))
    loaded = load_robot(tmp_path / "robot.toml")
    assert loaded.sensor is not None
    np.testing.assert_allclose(loaded.sensor.wrench_to_readings, sensor.wrench_to_readings, atol=1e-12)
    np.testing.assert_allclose(
        loaded.sensor.constant_readings(robot.gravity), sensor.constant_readings(robot.gravity), atol=1e-12
    )
    np.testing.assert_allclose(reaction(loaded, motion), reaction(robot, motion), atol=1e-8)


SENSOR = """
position = [0.1, 0.0, -0.2]
rpy = [0, 0, 90]
angles = "deg"
sense = "robot_on_plate"
channels = ["fx", "Fz", "cy"]
noise = [1, 1, 0.1]
sensitivity_sigma = 0.02
offsets = "tared"
[[rotor]]
joint = "1"
ratio = 100
inertia = 1e-4
"""


def test_a_sensor_file_is_read_with_all_its_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "plate.toml"
    path.write_text(SENSOR)
    sensor = read_sensor(path)
    assert sensor.channels == ("Fx", "Fz", "My")
    assert sensor.sensitivity_sigma is not None
    np.testing.assert_allclose(sensor.sensitivity_sigma, 0.02)
    np.testing.assert_allclose(sensor.rotation @ [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], atol=1e-15)
    for wrong, said in (
        ('sense = "up"', "sense"),
        ('channels = ["Fq"]', "no channel 'Fq'"),
        ('channels = ["Fx", "Fx"]', "each once"),
        ("position = [1, 2]", "position"),
        ("hight = 3", "unknown key 'hight'"),
        ("noise = [1, 2]", "noise"),
        ("sensitivity_sigma = -1", "sensitivity_sigma"),
        ("mass = -2", "mass"),
        ("offsets = [1]", "offset"),
        ("= 3", "TOML"),
        ("sensor = 3", "write a table"),
    ):
        path.write_text(wrong)
        with pytest.raises(DynidError, match=said):
            read_sensor(path)
    with pytest.raises(DynidError, match="cannot be read"):
        read_sensor(tmp_path / "none.toml")
