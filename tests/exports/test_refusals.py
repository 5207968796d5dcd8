"""What cannot be exported is refused in one clear sentence, and nothing is left behind."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import dynid
from bodies import with_bodies
from dynid.exports.subject import read_robot_json
from robots import coupled_tree, random_tree, smooth_path


@pytest.mark.parametrize(
    ("robot", "name", "text"),
    [
        (dynid.load_robot("panda"), "robot.c", "no value for XX1, XY1, .* and 65 more"),
        (with_bodies("scara"), "robot.txt", "must end in one of .urdf, .xml"),
        (random_tree(2, floating=True), "robot.c", "floats"),
        (coupled_tree(1), "robot.urdf", "follows 2 joints"),
        (with_bodies("slider_crank"), "robot.c", "closed numerically"),
        (with_bodies("slider_crank"), "robot.urdf", "closed mechanism"),
        (dynid.load_robot("puma560"), "robot.urdf", "no real body has these parameters"),
        (with_bodies("scara"), "nowhere/robot.c", "cannot write"),
        ("scara", "robot.c", "cannot export str"),
    ],
)
def test_refused(robot: object, name: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(dynid.DynidError, match=text):
        dynid.export(robot, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_closed_mechanisms_go_into_tables_and_json(tmp_path: Path) -> None:
    for suffix in (".toml", ".json"):
        for robot in (with_bodies("sr400"), coupled_tree(1)):
            file = tmp_path / f"robot{suffix}"
            dynid.export(robot, file)
            assert dynid.verify(file, robot).passed


def test_a_table_that_would_not_load_is_not_written(tmp_path: Path) -> None:
    robot = with_bodies("scara")
    values = robot.parameters.copy()
    values[robot.parameter_names.index("Ia3")] = -0.1
    with pytest.raises(dynid.DynidError, match="rotor_inertia: must not be negative"):
        dynid.export(robot.with_parameters(values), tmp_path / "robot.toml")
    assert list(tmp_path.iterdir()) == []
    dynid.export(robot.with_parameters(values), tmp_path / "robot.c")


def test_json_gives_the_robot_back_exactly(tmp_path: Path) -> None:
    robot = with_bodies("scara", friction=True)
    dynid.export(robot, tmp_path / "robot.json")
    again = read_robot_json(tmp_path / "robot.json")
    assert again.parameter_names == robot.parameter_names
    assert np.array_equal(again.parameters, robot.parameters)
    assert [link.friction for link in again.links] == [link.friction for link in robot.links]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o500)
    if os.access(folder, os.W_OK):  # root may write there
        folder = Path("/proc/self")
    if not folder.is_dir():
        pytest.skip("root may write everywhere")
    with pytest.raises(dynid.DynidError, match="cannot write"):
        dynid.export(with_bodies("scara"), folder / "robot.c")


def test_what_an_identification_does_not_know_is_said(tmp_path: Path) -> None:
    robot = with_bodies("gautier3")
    log = dynid.simulate(robot, smooth_path(robot, np.arange(0.0, 6.0, 0.01), scale=2.0), noise=0.01)
    plain = {"friction": ("viscous", "coulomb", "offset"), "cutoff": 10.0}
    some = dynid.identify(robot, log, joints=["2", "3"], **plain)  # type: ignore[arg-type]
    with pytest.raises(dynid.DynidError, match="no torques of the joints 1"):
        dynid.export(some, tmp_path / "robot.c")
    forces = dynid.identify(robot, log, model="reaction", cutoff=10.0)
    with pytest.raises(dynid.DynidError, match="neither rotor inertias nor friction"):
        dynid.export(forces, tmp_path / "robot.c")
    whole = dynid.identify(robot, log, **plain)  # type: ignore[arg-type]
    done = dynid.export(whole, tmp_path / "robot.urdf")
    name, value = done.subject.robot.links[1].friction[0]
    assert name == "viscous"
    # what was found, refitted where no body can have it
    assert value == pytest.approx(max(whole.value("Fv2"), 0.0), abs=1e-9 if whole.value("Fv2") >= 0.0 else 1e-4)
    assert dynid.verify(tmp_path / "robot.urdf", done.subject).passed
