"""Tables: notations that must agree, units, snapping, known zeros, locking, writing back."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from dynid import DynidError, Robot, bundled_robots, load_robot, regressor
from dynid.errors import RobotFileError, UnknownRobotError
from dynid.robot.inertia import to_body
from dynid.robot.io.toml_writer import table_text
from dynid.robot.load import lock_joints
from dynid.robot.robot import StoredRobot
from dynid.storage.records import from_plain_data, json_text, to_plain_data
from robots import random_motion

MINIMAL = "[[joint]]\nalpha = 0.3\n[link.1]\nmass = 2.0\ncom = [0.1, 0, 0]\ninertia = [1, 0, 0, 2, 0, 2.5]\n"


def load_text(folder: Path, text: str, **options: object) -> Robot:
    file = folder / "robot.toml"
    file.write_text(text)
    return load_robot(file, **options)  # type: ignore[arg-type]


def torques(robot: Robot, seed: int = 0) -> np.ndarray:
    motion = random_motion(robot, seed=seed)
    return np.asarray(regressor(robot, motion).matrix @ np.nan_to_num(robot.parameters))


def test_defaults(tmp_path: Path) -> None:
    robot = load_text(tmp_path, MINIMAL)
    assert robot.name == "robot"
    assert robot.joint_names == ("1",)
    assert robot.parameter_names == ("XX1", "XY1", "XZ1", "YY1", "YZ1", "ZZ1", "MX1", "MY1", "MZ1", "M1", "Ia1")
    np.testing.assert_array_equal(robot.gravity, [0.0, 0.0, -9.81])
    np.testing.assert_allclose(robot.parameters[:10], [1, 0, 0, 2.02, 0, 2.52, 0.2, 0, 0, 2])
    assert math.isnan(robot.parameters[10])


def test_degrees_and_radians_agree(tmp_path: Path) -> None:
    degrees = load_text(
        tmp_path, 'angles = "deg"\n[[joint]]\nalpha = 30\nlimits = { position = [-90, 45], velocity = 180 }\n'
    )
    radians = load_text(tmp_path, "[[joint]]\nalpha = 0.5235987755982988\n")
    np.testing.assert_allclose(torques(degrees), torques(radians), atol=1e-14)
    np.testing.assert_allclose(degrees.limits.position, [[-math.pi / 2, math.pi / 4]])
    np.testing.assert_allclose(degrees.limits.velocity, [math.pi])
    assert np.isinf(degrees.limits.acceleration).all()


def test_standard_notation_gives_the_torques_of_the_modified_one(tmp_path: Path) -> None:
    """Link values refer to the file's frames: the same body, written in both notations."""
    links = "[link.1]\nmass = 2\ncom = {c1}\ninertia = {J}\n[link.2]\nmass = 1\ncom = {c2}\ninertia = {J}\n"
    J = "[0.1, 0, 0, 0.2, 0, 0.25]"
    standard = load_text(
        tmp_path,
        'convention = "standard"\n[[joint]]\na = 0.4\nalpha = 0\nd = 0.3\n[[joint]]\na = 0.5\nd = 0.1\ntheta = 0.2\n'
        + links.format(J=J, c1="[-0.1, 0, 0.02]", c2="[-0.2, 0.1, 0]"),
    )
    modified = load_text(
        tmp_path,
        "[[joint]]\nr = 0.3\n[[joint]]\nd = 0.4\nr = 0.1\ntheta = 0.2\n"
        + links.format(J=J, c1="[0.3, 0, 0.02]", c2="[0.3, 0.1, 0]"),
    )
    np.testing.assert_allclose(standard.parameters, modified.parameters, atol=1e-14)
    np.testing.assert_allclose(torques(standard), torques(modified), atol=1e-13)


def test_standard_notation_with_a_turned_last_frame(tmp_path: Path) -> None:
    text = (
        'convention = "standard"\nangles = "deg"\n[[joint]]\nalpha = 90\n[link.1]\nmass = 1\ncom = [0, 0, 0.5]\n'
        "inertia = [0.3, 0, 0, 0.2, 0, 0.1]\n"
    )
    robot = load_text(tmp_path, text)
    # the file's z axis is the modified frame's -y axis
    np.testing.assert_allclose(robot.parameters[6:10], [0, -0.5, 0, 1], atol=1e-15)


def test_known_zeros_survive_a_change_of_notation_or_are_refused(tmp_path: Path) -> None:
    head = 'convention = "standard"\n[[joint]]\na = 0.4\n'
    kept = load_text(tmp_path, head + '[link.1]\nzero = ["MY", "MZ"]\n')
    assert kept.known_zeros == ("MY1", "MZ1")
    with pytest.raises(RobotFileError, match="modified"):
        load_text(tmp_path, head + '[link.1]\nzero = ["MX"]\n')


def test_notes_and_mistakes_of_a_number_are_told_once(tmp_path: Path) -> None:
    standard = 'convention = "standard"\n[[joint]]\na = 0.1\nalpha = {}\n[[joint]]\n'
    assert len(load_text(tmp_path, standard.format("1.5707963")).notes) == 1
    for text in (
        standard.format('"Q"'),
        '[[joint]]\n[[joint]]\n[[coupling]]\npassive = "2"\nof = {"1" = 1.0}\noffset = "Q"\n',
    ):
        with pytest.raises(RobotFileError) as caught:
            load_text(tmp_path, text)
        assert [problem.code for problem in caught.value.problems] == ["unknown_symbol"]
        assert caught.value.problems[0].facts == {"text": "Q", "unknown": ["Q"], "symbols": "none"}


def test_almost_right_angles_are_snapped_with_a_note(tmp_path: Path) -> None:
    text = "[[joint]]\n[[joint]]\nalpha = 1.5708\n"
    robot = load_text(tmp_path, text)
    assert robot.links[1].mdh is not None
    assert robot.links[1].mdh.alpha.value == math.pi / 2
    assert robot.links[1].placement.rotation[1, 1] == 0.0
    assert "90 degrees" in robot.notes[0]
    note = from_plain_data(StoredRobot, to_plain_data(StoredRobot, robot)).notes[0]
    assert note == robot.notes[0]
    assert (note.code, note.facts["degrees"], note.remedy) == ("angle_snapped", 90.0, "snap=False keeps it")
    assert note.for_command_line.endswith("; --no-snap keeps it")
    older = to_plain_data(StoredRobot, robot) | {"notes": ["a sentence"]}
    assert from_plain_data(StoredRobot, older).notes == ("a sentence",)
    kept = load_text(tmp_path, text, snap=False)
    assert kept.links[1].placement.rotation[1, 1] != 0.0
    assert not kept.notes
    assert Robot.from_mdh([{"alpha": 1.5708}]).links[0].placement.rotation[1, 1] != 0.0


def test_rows_of_mappings() -> None:
    robot = Robot.from_mdh(
        [{"alpha": -np.pi / 2}, {"type": "prismatic", "d": "L/2", "r": np.float64(0.1)}, {"parent": 1}],
        gravity=np.array([0, 0, -9.8]),
        symbols={"L": 0.6},
        name="tree",
    )
    assert robot.n == 3
    assert [link.parent for link in robot.links] == [-1, 0, 0]
    assert robot.links[1].mdh is not None
    assert robot.links[1].mdh.d.value == 0.3
    assert robot.links[1].mdh.d.text == "L/2"


@pytest.mark.parametrize("name", bundled_robots())
def test_bundled_tables_can_be_written_and_read_back(name: str, tmp_path: Path) -> None:
    robot = load_robot(name)
    again = load_text(tmp_path, table_text(robot))
    assert again.parameter_names == robot.parameter_names
    assert again.known_zeros == robot.known_zeros
    np.testing.assert_allclose(again.limits.position, robot.limits.position, atol=1e-14)
    motion = random_motion(robot, spread=0.3)
    np.testing.assert_allclose(regressor(again, motion).matrix, regressor(robot, motion).matrix, atol=1e-12, rtol=0)


def test_locking_a_joint_holds_it_still() -> None:
    robot = load_robot("puma560")
    locked = load_robot("puma560", lock={"3": 0.7})
    assert locked.joint_names == ("1", "2", "4", "5", "6")
    assert "XX3" in locked.parameter_names
    assert "Ia3" not in locked.parameter_names
    motion = random_motion(locked)
    full = np.insert(motion.q, 2, 0.7, axis=1), np.insert(motion.v, 2, 0, axis=1), np.insert(motion.a, 2, 0, axis=1)
    whole = regressor(robot, type(motion)(motion.t, *full)).matrix @ robot.parameters
    part = regressor(locked, motion).matrix @ locked.parameters
    np.testing.assert_allclose(part.reshape(-1, 5), np.delete(whole.reshape(-1, 6), 2, axis=1), atol=1e-12)


def test_locking_a_leader_locks_its_follower() -> None:
    robot = load_robot("sr400", lock={"2": 0.1, "7": 0.2})
    assert robot.joint_names == ("1", "4", "5", "6")
    assert not robot.couplings


def test_locking_what_is_not_there() -> None:
    with pytest.raises(DynidError, match="cannot lock 'gripper'"):
        load_robot("puma560", lock={"gripper": 0.0})


def test_gravity_and_floating_base_by_argument() -> None:
    robot = load_robot("puma560", gravity=(1, 2, 3), floating_base=True)
    np.testing.assert_array_equal(robot.gravity, [1, 2, 3])
    assert robot.floating
    assert robot.n == 6
    assert robot.parameter_names[:2] == ("XX0", "XY0")
    assert robot.parameter_names[10] == "XX1"


def test_an_unknown_name_lists_the_bundled_ones() -> None:
    with pytest.raises(UnknownRobotError, match="puma560"):
        load_robot("puma")


PUBLISHED = """[[joint]]
[[joint]]
d = 0.3
alpha = 0.7
[published]
source = "a \\"scale\\""
total = 20
base = 6.5
[published.link.1]
mass = 4.5
[published.link.2]
mass = 3
com = [0.1, 0.2, -0.1]
inertia = [0.3, 0.01, 0.02, 0.2, 0.03, 0.25]
"""


def test_published_masses_are_no_nominal_values_and_survive_every_file(tmp_path: Path) -> None:
    robot = load_text(tmp_path, PUBLISHED)
    assert np.isnan(robot.parameters).all()
    table = load_text(tmp_path, table_text(robot))
    record = from_plain_data(StoredRobot, json.loads(json_text(to_plain_data(StoredRobot, robot))))
    for again in (robot, table, record, lock_joints(robot, {"2": 0.4}), robot.with_sensor(None)):
        known = again.published
        assert known is not None
        assert (known.source, known.total, known.includes_base, known.base) == ('a "scale"', 20.0, True, 6.5)
        assert known.masses == {"1": 4.5, "2": 3.0}
        assert np.isnan(known.links["1"][:9]).all()
        body = to_body(known.links["2"])
        np.testing.assert_allclose(body.com, [0.1, 0.2, -0.1], atol=1e-15)
        np.testing.assert_allclose(body.inertia[np.triu_indices(3)], [0.3, 0.01, 0.02, 0.2, 0.03, 0.25], atol=1e-15)
    assert "published" not in to_plain_data(StoredRobot, load_text(tmp_path, MINIMAL))


def test_published_values_of_a_standard_table_refer_to_its_frames(tmp_path: Path) -> None:
    head = 'convention = "standard"\n[[joint]]\na = 0.4\nalpha = 0.7\nd = 0.3\n'
    values = ".1]\nmass = 2\ncom = [-0.1, 0, 0.02]\ninertia = [0.1, 0, 0, 0.2, 0, 0.25]\n"
    nominal = load_text(tmp_path, head + "[link" + values)
    other = load_text(tmp_path, head + '[published]\nsource = "s"\n[published.link' + values)
    assert other.published is not None
    np.testing.assert_array_equal(other.published.links["1"], nominal.links[0].inertia)


@pytest.mark.parametrize(
    ("rest", "mass"),
    [
        ("total = 20\n", None),
        ("total = 20\nbase = 6\n", 14.0),
        ("total = 20\nincludes_base = false\n", 20.0),
        ("total = 20\n[published.link.2]\nmass = 3\n", None),
        ("total = 20\nbase = 6\n[published.link.2]\nmass = 3\n", 14.0),
        ("[published.link.1]\nmass = 4\n[published.link.2]\nmass = 3\n", 7.0),
        ("base = 6\n", None),
    ],
)
def test_the_moving_mass_is_that_of_the_links_or_the_total_without_the_base(
    rest: str, mass: float | None, tmp_path: Path
) -> None:
    text = '[[joint]]\n[[joint]]\nd = 1\n[published]\nsource = "s"\n' + rest
    assert load_text(tmp_path, text).published_moving_mass == mass
    held = load_text(tmp_path, text, lock={"1": 0.0})
    assert held.published_moving_mass == (3.0 if "link.2" in rest else mass)
    free = load_text(tmp_path, text, floating_base=True).published_moving_mass
    assert free == (20.0 if "total = 20" in rest and "false" not in rest else None)


@pytest.mark.parametrize(
    ("rest", "code", "where"),
    [
        ("total = -1", "invalid_value", "published.total"),
        ("total = 0", "invalid_value", "published.total"),
        ("total = nan", "invalid_value", "published.total"),
        ("total = '16 kg'", "invalid_value", "published.total"),
        ("base = true", "invalid_value", "published.base"),
        ("includes_base = 'no'", "invalid_value", "published.includes_base"),
        ("masses = [1, 2]", "unknown_key", "published.masses"),
        ("link = { 9 = { mass = 1 } }", "unknown_joint", None),
        ("link = { 1 = { mass = -1 } }", "invalid_value", "published.link.1.mass"),
        ("link = { 1 = 3.0 }", "invalid_value", "published.link.1"),
        ("link = { 1 = { mass = 1, rotor_inertia = 2 } }", "unknown_key", "published.link.1.rotor_inertia"),
        ("link = { 1 = { com = [0, 0, 0] } }", "missing_key", "published.link.1.mass"),
        ("link = { 1 = { mass = 1, inertia = [1, 0, 0, 1, 0, 1] } }", "missing_com", "published.link.1"),
        ("total = 5\nlink = { 1 = { mass = 6 } }", "published_masses_exceed_total", None),
        ("total = 5\nbase = 3\nlink = { 1 = { mass = 3 } }", "published_masses_exceed_total", None),
    ],
)
def test_wrong_published_masses_are_refused_in_one_line(
    rest: str, code: str, where: str | None, tmp_path: Path
) -> None:
    with pytest.raises(RobotFileError) as caught:
        load_text(tmp_path, f"[[joint]]\n[published]\nsource = 's'\n{rest}\n")
    (problem,) = caught.value.problems
    assert problem.code == code
    assert problem.facts.get("where") == where
    assert "\n" not in str(caught.value)


def test_published_masses_need_a_source(tmp_path: Path) -> None:
    for source, code in (("", "missing_key"), ("source = ''", "invalid_value")):
        with pytest.raises(RobotFileError) as caught:
            load_text(tmp_path, f"[[joint]]\n[published]\ntotal = 5\n{source}\n")
        assert [problem.code for problem in caught.value.problems] == [code]


@pytest.mark.parametrize("change", [{"9": [None] * 9 + [1.0]}, {"1": [None] * 9 + [-1.0]}, {"1": [None] * 10}])
def test_damaged_published_masses_of_a_record_are_refused(change: dict[str, object], tmp_path: Path) -> None:
    data = to_plain_data(StoredRobot, load_text(tmp_path, PUBLISHED))
    data["published"]["links"] = change
    with pytest.raises(DynidError) as caught:
        from_plain_data(StoredRobot, data)
    assert caught.value.message.code == "record_published_damaged"


def test_an_inertia_without_a_centre_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RobotFileError) as caught:
        load_text(tmp_path, "[[joint]]\n[link.1]\nmass = 1\ninertia = [1, 0, 0, 1, 0, 1]\n")
    assert [problem.code for problem in caught.value.problems] == ["missing_com"]
