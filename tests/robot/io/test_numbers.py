"""Numbers of URDF and MJCF files: what is loaded is what the file states, link by link, or the file is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
from numpy.testing import assert_allclose

from dynid import load_robot
from dynid.errors import RobotFileError
from dynid.physical.check import check_robot
from dynid.robot.inertia import Body, change_of_frame, from_body, from_pinocchio, inertia_matrix
from dynid.robot.transform import Transform
from urdf_texts import random_urdf

TENSOR = 'ixx="0.3" ixy="0.01" ixz="-0.02" iyy="0.4" iyz="0.03" izz="0.5"'
URDF = f"""<robot name="r">
<link name="base"/>
<link name="arm">
  <inertial>
    <origin xyz="0.1 0 0.2" rpy="0.3 0 0"/>
    <mass value="2"/>
    <inertia {TENSOR}/>
  </inertial>
</link>
<link name="tool"><inertial><origin xyz="0.05 0 0"/><mass value="0.5"/><inertia {TENSOR}/></inertial></link>
<link name="tip"><inertial><mass value="0.25"/><inertia {TENSOR}/></inertial></link>
<joint name="j" type="revolute">
  <origin xyz="0 0 1" rpy="0 0.4 0"/>
  <parent link="base"/><child link="arm"/>
  <axis xyz="0 2 0"/>
  <limit lower="-1" upper="1" effort="5" velocity="3"/>
  <dynamics damping="0.5" friction="0.25"/>
</joint>
<joint name="bolt" type="fixed"><origin xyz="0.3 0 0"/><parent link="arm"/><child link="tool"/></joint>
<joint name="k" type="continuous"><parent link="tool"/><child link="tip"/><axis xyz="0 0 1"/>
<mimic joint="j" multiplier="2" offset="0.5"/></joint>
</robot>
"""
NUMBERS = (
    'value="2"', 'ixx="0.3"', 'izz="0.5"', 'xyz="0.1 0 0.2"', 'rpy="0.3 0 0"', 'xyz="0 0 1"', 'rpy="0 0.4 0"',
    'xyz="0 2 0"', 'lower="-1"', 'upper="1"', 'effort="5"', 'velocity="3"', 'damping="0.5"', 'friction="0.25"',
    'multiplier="2"', 'offset="0.5"',
)  # fmt: skip
WORDS = (
    "2_0",
    "\u0662",
    "nan",
    "-inf",
    "0x10",
    "1,5",
    "1e400",
    "1.0m",
    "",
    "1 2 3 4",
    "\u00a02",
    "1e",
    "${mass}",
    "1d0",
)


def write(folder: Path, text: str, name: str = "robot.urdf") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


@pytest.mark.parametrize("number", NUMBERS)
def test_what_is_no_number_is_refused_with_its_line(number: str, tmp_path: Path) -> None:
    assert load_robot(write(tmp_path, URDF)).n == 1
    name, _, value = number.partition("=")
    line = URDF[: URDF.index(number)].count("\n") + 1
    for word in WORDS:
        bad = " ".join([word, *value.strip('"').split()[1:]]) if word and word != "1 2 3 4" else word
        file = write(tmp_path, URDF.replace(number, f'{name}="{bad}"', 1))
        with pytest.raises(RobotFileError, match=rf"robot.urdf: line {line}: (link 'arm'|joint '[jk]').*: {name} "):
            load_robot(file)


@pytest.mark.parametrize("word", ["2", "+2", "2.", "2.0e0", " 2 ", "0.2E+1", "\n2\t"])
def test_all_spellings_of_a_number_are_the_same(word: str, tmp_path: Path) -> None:
    expected = load_robot(write(tmp_path, URDF)).parameters
    found = load_robot(write(tmp_path, URDF.replace('value="2"', f'value="{word}"'))).parameters
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        *((f'{key}="', f'{key}_="', 7, f"link 'arm', inertial, inertia: {key} missing") for key in ("ixx", "ixy")),
        ('iyy="0.4"', "", 7, "link 'arm', inertial, inertia: iyy missing"),
        ('    <mass value="2"/>\n', "\n", 4, "link 'arm', inertial: <mass> missing"),
        ('value="2"', "", 6, "link 'arm', inertial, mass: value missing"),
        (f"    <inertia {TENSOR}/>\n", "\n", 4, "link 'arm', inertial: <inertia> missing"),
        ("<inertial>", "<inertial/><inertial>", 4, "link 'arm' has two <inertial>"),
        ('<mass value="2"/>', '<mass value="2"/><mass value="3"/>', 6, "link 'arm' has two <mass>"),
        ('<axis xyz="0 2 0"/>', "<axis/>", 15, "joint 'j', axis: xyz missing"),
        ('<axis xyz="0 2 0"/>', '<axis xyz="0 2 0"/><axis xyz="1 0 0"/>', 15, "joint 'j' has two <axis>"),
        ('<limit lower="-1"', '<limit effort="1" velocity="1"/><limit lower="-1"', 16, "joint 'j' has two <limit>"),
        ('lower="-1"', 'lower="4"', 12, "joint 'j': the lower limit 4 is not below the upper 1"),
    ],
)  # fmt: skip
def test_what_is_missing_or_twice_there_is_refused_with_its_line(
    old: str, new: str, line: int, words: str, tmp_path: Path
) -> None:
    file = write(tmp_path, URDF.replace(old, new, 1))
    for read in (load_robot, check_robot):
        with pytest.raises(RobotFileError, match=f"robot.urdf: line {line}: {words}"):
            read(file)


def test_two_origins_of_a_joint_are_noted(tmp_path: Path) -> None:
    """As in a maker's file; all parsers take the first."""
    twice = URDF.replace('<origin xyz="0.3 0 0"/>', '<origin xyz="0.3 0 0"/><origin xyz="9 9 9"/>')
    robot = load_robot(write(tmp_path, twice))
    assert any("joint 'bolt' has two <origin>; the first one counts" in note for note in robot.notes)
    assert np.array_equal(robot.parameters, load_robot(write(tmp_path, URDF)).parameters)


@pytest.mark.parametrize("seed", range(10))
def test_every_joint_holds_what_pinocchio_holds(seed: int, tmp_path: Path) -> None:
    """Pinocchio's own reading of a file that it reads rightly: inertias of what moves with each joint, and places."""
    text = random_urdf(seed)
    robot, model = load_robot(write(tmp_path, text), snap=False), pin.buildModelFromXML(text)
    for link in robot.links:
        k = model.getJointId(link.joint)
        theirs = from_pinocchio(np.array(model.inertias[k].toDynamicParameters()))
        assert_allclose(link.inertia, theirs, rtol=0, atol=1e-13 * max(1.0, np.abs(theirs).max()))
        assert_allclose(link.placement.translation, model.jointPlacements[k].translation, atol=1e-14)
        assert_allclose(link.placement.rotation, model.jointPlacements[k].rotation, atol=1e-14)


def test_a_reading_of_pinocchio_that_differs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a parser that takes 0.5 for 0 because of the locale."""
    read = pin.buildModelFromXML
    file = write(tmp_path, URDF)
    for old, new, words in (
        ('value="2.0"', 'value="2.001"', "link 'arm': pinocchio reads other masses"),
        ('xyz="0.0 0.0 1.0"', 'xyz="0.0 0.0 1.1"', "joint 'j': pinocchio puts it elsewhere"),
        ('xyz="0.0 2.0 0.0"', 'xyz="0.0 2.0 0.1"', "joint 'j': pinocchio puts it elsewhere"),
    ):
        monkeypatch.setattr(pin, "buildModelFromXML", lambda text, old=old, new=new: read(text.replace(old, new, 1)))
        with pytest.raises(RobotFileError, match=words):
            load_robot(file)


@pytest.mark.parametrize("value", ["-2", "0", "-0.5"])
def test_masses_that_cannot_be_are_loaded_as_stated_and_found_by_the_check(value: str, tmp_path: Path) -> None:
    """With a link on a fixed joint, whose sum pinocchio divides by (almost) nothing."""
    file = write(tmp_path, URDF.replace('value="2"', f'value="{value}"'))
    arm = load_robot(file, snap=False).links[0]
    about = inertia_matrix(np.array([0.3, 0.01, -0.02, 0.4, 0.03, 0.5]))
    c, s = np.cos(0.3), np.sin(0.3)
    R = np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
    own = from_body(Body(float(value), np.array([0.1, 0.0, 0.2]), R @ about @ R.T))
    tool = from_body(Body(0.5, np.array([0.05, 0.0, 0.0]), about))
    bolt = Transform(np.eye(3), np.array([0.3, 0.0, 0.0]))
    assert_allclose(arm.inertia, own + change_of_frame(bolt) @ tool, rtol=1e-12, atol=1e-14)
    assert any("mass" in fault.problem and fault.link == "arm" for fault in check_robot(file).faults)


MJCF = """<mujoco>
<compiler angle="radian"/>
<worldbody>
<body name="a" pos="0 0 1">
  <joint name="j" axis="0 1 0" pos="0.1 0 0"/>
  {}
  <body name="b" pos="0.2 0 0" quat="2 0 0 1"><inertial pos="0 0.1 0" mass="0.5" diaginertia="0.1 0.12 0.15"/></body>
</body>
</worldbody>
</mujoco>
"""
GOOD = '<inertial pos="0 0 0.1" quat="1 0.5 0 0" mass="2" diaginertia="1 1.1 1.2"/>'


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('mass="2"', "", "mass missing"),
        ('pos="0 0 0.1"', "", "pos missing"),
        ("/>", ' fullinertia="1 1 1 0 0 0"/>', "remove one"),
        ("/>", "/>" + GOOD, "has two <inertial>"),
        *(('mass="2"', f'mass="{word}"', "mass") for word in WORDS),
        *(('diaginertia="1 1.1 1.2"', f'diaginertia="1 {word} 1"', "diaginertia") for word in WORDS),
    ],
)
def test_mjcf_bodies_with_mistakes(old: str, new: str, words: str, tmp_path: Path) -> None:
    file = write(tmp_path, MJCF.format(GOOD.replace(old, new)), "robot.xml")
    with pytest.raises(RobotFileError, match=f"robot.xml: line 6: body 'a'.*{words}"):
        load_robot(file)


@pytest.mark.parametrize(
    ("inertial", "compiler"),
    [
        (GOOD, ""),
        ('<inertial pos="0 0 0.1" mass="2" fullinertia="1 1.1 1.2 0.1 0 -0.1"/>', ""),
        (GOOD.replace('quat="1 0.5 0 0"', 'euler="0.3 0.2 0.1"'), ""),
        (GOOD.replace("1.2", "3.2"), ' balanceinertia="true"'),
        (GOOD, ' boundmass="3" boundinertia="1.15"'),
    ],
)
def test_mjcf_bodies_are_those_of_mujoco(inertial: str, compiler: str, tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    text = MJCF.format(inertial).replace('"radian"', f'"radian"{compiler}')
    robot, model = load_robot(write(tmp_path, text, "robot.xml"), snap=False), mujoco.MjModel.from_xml_string(text)
    total = np.zeros(10)
    for k, T in (
        (1, Transform(np.eye(3), np.array([-0.1, 0.0, 0.0]))),
        (2, Transform(np.eye(3), np.array([0.1, 0, 0]))),
    ):
        R, turned = np.zeros(9), np.zeros(9)
        mujoco.mju_quat2Mat(R, model.body_iquat[k])
        mujoco.mju_quat2Mat(turned, model.body_quat[k])
        axes = R.reshape(3, 3)
        own = Body(float(model.body_mass[k]), model.body_ipos[k], axes @ np.diag(model.body_inertia[k]) @ axes.T)
        total += change_of_frame(Transform(turned.reshape(3, 3), T.translation)) @ from_body(own)
    assert_allclose(robot.links[0].inertia, total, rtol=0, atol=1e-12)


def test_mjcf_bodies_that_mujoco_refuses_are_loaded_as_stated(tmp_path: Path) -> None:
    negative = load_robot(write(tmp_path, MJCF.format(GOOD.replace('"2"', '"-2"')), "robot.xml")).links[0].inertia
    assert negative[9] == -1.5
    point = MJCF.format('<inertial pos="0 0 0.1" mass="2"/>')
    one = load_robot(write(tmp_path, point, "robot.xml")).links[0].inertia
    zero = point.replace('mass="2"', 'mass="2" diaginertia="0 0 0"')
    assert np.array_equal(one, load_robot(write(tmp_path, zero, "robot.xml")).links[0].inertia)


def test_couplings_of_an_mjcf_are_numbers(tmp_path: Path) -> None:
    body = f'<body name="a"><joint name="j"/>{GOOD}<body name="b"><joint name="k"/>{GOOD}</body></body>'
    tie = '<equality><joint joint1="k" joint2="j" polycoef="{}"/></equality>'
    text = f"<mujoco><worldbody>{body}</worldbody>{tie}</mujoco>"
    for word, factor in (("0 2", 2.0), ("0.5", 1.0), ("0.5 3 0 0 0", 3.0)):  # as MuJoCo fills up what is missing
        assert load_robot(write(tmp_path, text.format(word), "robot.xml")).couplings[0].factors == (("j", factor),)
    for word in ("0 2_0", "0 nan", "0 1 0 0 0 0", "0 0x2", ""):
        with pytest.raises(RobotFileError, match="polycoef"):
            load_robot(write(tmp_path, text.format(word), "robot.xml"))
