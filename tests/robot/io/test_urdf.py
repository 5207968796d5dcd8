"""URDF and MJCF files against pinocchio's and MuJoCo's own reading of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from dynid import Robot, load_robot, regressor
from dynid.errors import RobotFileError
from robots import random_motion

INERTIAL = (
    '<inertial><origin xyz="0.1 -0.05 0.2" rpy="0.3 0 0.1"/><mass value="{m}"/>'
    '<inertia ixx="0.2" ixy="0.01" ixz="-0.02" iyy="0.3" iyz="0.03" izz="0.25"/></inertial>'
)
MESH = '<visual><geometry><mesh filename="package://nowhere/part.stl"/></geometry></visual>'


def link(name: str, mass: float) -> str:
    return f'<link name="{name}">{INERTIAL.format(m=mass)}{MESH}</link>'


def joint(
    name: str, kind: str, parent: str, child: str, *, axis: str = "0 0 1", rest: str = "", rpy: str = "0 0 0"
) -> str:
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="0.1 0.2 0.3" rpy="{rpy}"/><axis xyz="{axis}"/>{rest}</joint>'
    )


LIMIT = '<limit lower="-1" upper="2" effort="30" velocity="1.5"/>'
ARM = "".join(
    [
        '<robot name="arm">',
        link("base", 5),
        link("upper", 3),
        link("fore", 2),
        link("tool", 0.5),
        link("finger_left", 0.1),
        link("finger_right", 0.1),
        link("head", 1),
        joint("shoulder", "continuous", "base", "upper", axis="0 1 0", rpy="1.5708 0 -3.14159"),
        joint(
            "elbow",
            "revolute",
            "upper",
            "fore",
            axis="0.6 0 0.8",
            rest=LIMIT + '<dynamics damping="0.7" friction="0.2"/>',
        ),
        joint("flange", "fixed", "fore", "tool", rpy="0.4 0.2 0"),
        joint("left", "prismatic", "tool", "finger_left", axis="1 0 0", rest=LIMIT),
        joint(
            "right",
            "prismatic",
            "tool",
            "finger_right",
            axis="1 0 0",
            rest=LIMIT + '<mimic joint="left" multiplier="-1" offset="0.01"/>',
        ),
        joint("neck", "revolute", "base", "head", rest=LIMIT),
        "</robot>",
    ]
)


def write(folder: Path, text: str, name: str = "robot.urdf") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def torque(robot: Robot, seed: int = 0) -> np.ndarray:
    motion = random_motion(robot, seed=seed)
    return np.asarray((regressor(robot, motion).matrix @ robot.parameters).reshape(len(motion), robot.n))


def test_arm_with_everything(tmp_path: Path) -> None:
    robot = load_robot(write(tmp_path, ARM), snap=False)
    model = pin.buildModelFromXML(ARM)
    names = [str(name) for name in model.names][1:]
    assert [robot.links[k].joint for k in robot.tree_joints] == names
    assert robot.joint_names == tuple(name for name in names if name != "right")
    assert "M:fore" in robot.parameter_names
    assert "M:tool" not in robot.parameter_names
    motion = random_motion(robot)
    data = model.createData()
    place = {name: model.joints[model.getJointId(name)] for name in names}
    found = torque(robot)
    for n in range(len(motion)):
        q, v, a = pin.neutral(model), np.zeros(model.nv), np.zeros(model.nv)
        for j, name in enumerate(robot.joint_names):
            _set(place[name], q, v, a, motion.q[n, j], motion.v[n, j], motion.a[n, j])
        left = robot.joint_names.index("left")
        _set(place["right"], q, v, a, 0.01 - motion.q[n, left], -motion.v[n, left], -motion.a[n, left])
        tau = pin.rnea(model, data, q, v, a)
        expected = [tau[place[name].idx_v] for name in robot.joint_names]
        expected[left] -= tau[place["right"].idx_v]
        np.testing.assert_allclose(found[n], expected, rtol=0, atol=1e-12 * np.abs(tau).max())


def _set(joint: object, q: np.ndarray, v: np.ndarray, a: np.ndarray, qj: float, vj: float, aj: float) -> None:
    at, iv = joint.idx_q, joint.idx_v  # type: ignore[attr-defined]
    if joint.nq == 2:  # type: ignore[attr-defined]
        q[at : at + 2] = np.cos(qj), np.sin(qj)
    else:
        q[at] = qj
    v[iv], a[iv] = vj, aj


def test_many_rounded_angles_are_one_note(tmp_path: Path) -> None:
    joints = "".join(
        f'<link name="l{k + 1}"/><joint name="j{k + 1}" type="revolute"><parent link="l{k}"/><child link="l{k + 1}"/>'
        f'<origin rpy="{1.5708 if k != 2 else 1.5707} 0 0"/><axis xyz="0 0 1"/>'
        '<limit lower="-1" upper="2" effort="1" velocity="1"/></joint>'
        for k in range(5)
    )
    robot = load_robot(write(tmp_path, f'<robot name="r"><link name="l0"/>{joints}</robot>'))
    assert len(robot.notes) == 1
    assert "angles in 5 places (joint 'j1'; joint 'j2'; joint 'j3'; ...)" in robot.notes[0]
    assert "at most 0.0001 rad (joint 'j3'); snap=False" in robot.notes[0]


def test_mimic_of_fixed_joints(tmp_path: Path) -> None:
    """A fixed joint follows nothing; a moving one cannot follow a fixed one."""
    joint = '<joint name="{}" type="{}"><parent link="{}"/><child link="{}"/><axis xyz="0 0 1"/>{}{}</joint>'
    limit = '<limit lower="-1" upper="1" effort="1" velocity="1"/>'
    for kinds in (("revolute", "fixed"), ("fixed", "revolute")):
        joints = joint.format("a", kinds[0], "l0", "l1", limit, "")
        joints += joint.format("b", kinds[1], "l1", "l2", limit, '<mimic joint="a"/>')
        joints += joint.format("c", "revolute", "l2", "l3", limit, "")
        links = "".join(f'<link name="l{k}"/>' for k in range(4))
        path = write(tmp_path, f'<robot name="r">{links}{joints}</robot>')
        if kinds[0] == "revolute":
            assert load_robot(path).joint_names == ("a", "c")
        else:
            with pytest.raises(RobotFileError, match="joint 'b', mimic: it follows 'a', which is fixed"):
                load_robot(path)


def test_a_joint_held_outside_its_limits_is_noted(tmp_path: Path) -> None:
    path = write(tmp_path, ARM)
    assert not any("is held at" in note for note in load_robot(path, lock={"elbow": 2.0, "shoulder": 90.0}).notes)
    noted = [note for note in load_robot(path, lock={"elbow": 90.0}).notes if "is held at" in note]
    assert noted == ["'elbow' is held at 90 rad, outside its limits of -1 to 2 rad; is the position in rad?"]


def test_limits_friction_and_notes(tmp_path: Path) -> None:
    robot = load_robot(write(tmp_path, ARM))
    elbow, shoulder = robot.joint_names.index("elbow"), robot.joint_names.index("shoulder")
    np.testing.assert_array_equal(robot.limits.position[elbow], [-1, 2])
    assert robot.limits.effort[elbow] == 30
    assert np.isinf(robot.limits.position[shoulder]).all()
    assert robot.links[robot.active_links[elbow]].friction == (("viscous", 0.7), ("coulomb", 0.2))
    assert any("shoulder" in note and "90" in note for note in robot.notes)
    shoulder_link = robot.links[robot.active_links[shoulder]]
    assert set(np.abs(shoulder_link.placement.rotation).ravel()) == {0.0, 1.0}


def test_locked_gripper_equals_joints_at_rest(tmp_path: Path) -> None:
    robot = load_robot(write(tmp_path, ARM), lock={"left": 0.02})
    assert set(robot.joint_names) == {"shoulder", "elbow", "neck"}
    assert not robot.couplings
    whole = load_robot(write(tmp_path, ARM))
    motion = random_motion(robot)
    pick = [whole.joint_names.index(name) for name in robot.joint_names]
    q, v, a = (np.zeros((len(motion), whole.n)) for _ in range(3))
    q[:, whole.joint_names.index("left")] = 0.02
    q[:, pick], v[:, pick], a[:, pick] = motion.q, motion.v, motion.a
    tau = (regressor(whole, type(motion)(motion.t, q, v, a)).matrix @ whole.parameters).reshape(len(motion), -1)
    np.testing.assert_allclose(torque(robot), tau[:, pick], atol=1e-12)


def test_to_mdh_keeps_the_torques(tmp_path: Path) -> None:
    robot = load_robot(write(tmp_path, ARM))
    np.testing.assert_allclose(torque(robot.to_mdh()), torque(robot), atol=1e-12)


def test_floating_base_carries_the_root_link(tmp_path: Path) -> None:
    robot = load_robot(write(tmp_path, ARM), floating_base=True)
    assert robot.parameter_names[9] == "M:base"
    assert robot.parameters[9] == 5.0


def data_folder() -> Path | None:
    candidates = [os.environ.get("DYNID_DATA", ""), str(Path(__file__).parents[4] / "shared" / "data")]
    return next((Path(c) for c in candidates if c and Path(c).is_dir()), None)


@pytest.mark.skipif(data_folder() is None, reason="no recordings here: set DYNID_DATA")
def test_a_makers_urdf() -> None:
    folder = data_folder()
    assert folder is not None
    file = folder / "kuka_lwr4_flobaroid" / "kuka_lwr4.urdf"
    robot = load_robot(file, snap=False)
    model = pin.buildModelFromUrdf(str(file))
    motion = random_motion(robot)
    expected = [pin.rnea(model, model.createData(), *x) for x in zip(motion.q, motion.v, motion.a, strict=True)]
    np.testing.assert_allclose(torque(robot), expected, atol=1e-12)


MJCF = """
<mujoco model="crane">
  <compiler angle="radian"/>
  <option gravity="0.5 0 -9"><flag constraint="disable"/></option>
  <include file="part.xml"/>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body name="cart">
      <joint name="along" type="slide" axis="1 0 0" armature="0.4" range="-1 1" limited="true"/>
      <geom type="box" size="0.1 0.2 0.3" mass="4"/>
      <body name="boom" pos="0 0 0.5" euler="1.5708 0 0">
        <joint name="roll" type="hinge" axis="0 0 1"/>
        <joint name="pitch" type="hinge" axis="0 1 0" pos="0 0 0.1" damping="0.3"/>
        <geom type="capsule" size="0.05 0.3" mass="2" pos="0.1 0 0"/>
        <body name="hook" pos="0.3 0 0"><geom type="sphere" size="0.1" mass="1"/></body>
      </body>
    </body>
    <body name="ball" pos="3 0 0"><freejoint/><geom size="0.1" mass="1"/></body>
  </worldbody>
</mujoco>
"""
PART = """
<mujoco><worldbody><body name="mast" pos="0 2 0"><joint name="turn" type="hinge" axis="0 0 1"/>
<inertial pos="0.1 0 0" mass="3" diaginertia="0.1 0.2 0.25"/>
<geom type="mesh" mesh="lost"/></body></worldbody></mujoco>
"""


def test_mjcf_equals_mujoco(tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco")
    file = write(tmp_path, MJCF, "crane.xml")
    write(tmp_path, PART, "part.xml")
    robot = load_robot(file, snap=False)
    assert robot.name == "crane"
    assert any("ball" in note for note in robot.notes)
    assert set(robot.joint_names) == {"along", "roll", "pitch", "turn"}
    write(tmp_path, PART.replace('<geom type="mesh" mesh="lost"/>', ""), "part.xml")
    model = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(model)
    motion = random_motion(robot)
    found = torque(robot)
    at = {name: int(model.joint(name).dofadr[0]) for name in robot.joint_names}
    at_q = {name: int(model.joint(name).qposadr[0]) for name in robot.joint_names}
    for n in range(len(motion)):
        mujoco.mj_resetData(model, data)
        for j, name in enumerate(robot.joint_names):
            data.qpos[at_q[name]], data.qvel[at[name]], data.qacc[at[name]] = (
                motion.q[n, j], motion.v[n, j], motion.a[n, j]
            )  # fmt: skip
        mujoco.mj_inverse(model, data)
        expected = np.array([data.qfrc_inverse[at[name]] for name in robot.joint_names])
        damping = np.array(
            [0.3 * motion.v[n, robot.joint_names.index("pitch")] if x == "pitch" else 0.0 for x in robot.joint_names]
        )
        np.testing.assert_allclose(found[n] + damping, expected, atol=1e-9)


def test_mjcf_body_with_two_joints_has_a_massless_link_between(tmp_path: Path) -> None:
    file = write(tmp_path, MJCF, "crane.xml")
    write(tmp_path, PART, "part.xml")
    robot = load_robot(file)
    assert "M:boom/roll" in robot.known_zeros
    assert "Ia:boom/roll" in robot.parameter_names
    assert set(np.abs(robot.links[[k.joint for k in robot.links].index("roll")].placement.rotation).ravel()) == {
        0.0,
        1.0,
    }


def test_mjcf_includes_stay_inside_the_folder(tmp_path: Path) -> None:
    (tmp_path / "robots").mkdir()
    write(tmp_path, PART, "secret.xml")
    file = write(tmp_path / "robots", MJCF.replace("part.xml", "../secret.xml"), "crane.xml")
    with pytest.raises(RobotFileError, match="in the folder"):
        load_robot(file)


def test_mjcf_joint_equality_is_a_coupling(tmp_path: Path) -> None:
    text = MJCF.replace('<include file="part.xml"/>', "").replace(
        "</mujoco>", '<equality><joint joint1="roll" joint2="pitch" polycoef="0.1 2 0 0 0"/></equality></mujoco>'
    )
    robot = load_robot(write(tmp_path, text, "crane.xml"))
    assert robot.joint_names == ("along", "pitch")
    assert robot.couplings[0].factors == (("pitch", 2.0),)


@pytest.mark.parametrize("missing", ["effort", "velocity"])
def test_a_limit_may_lack_an_attribute(missing: str, tmp_path: Path) -> None:
    text = ARM.replace(f'{missing}="', f'no_{missing}="')
    assert load_robot(write(tmp_path, text)).joint_names == load_robot(write(tmp_path, ARM, "whole.urdf")).joint_names


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('xyz="0.1 0.2 0.3"', 'xyz="0.1, 0.2, 0.3"', "origin: xyz needs 3 numbers, got '0.1, 0.2, 0.3'"),
        (
            '<mass value="5"/>',
            '<mass value="heavy"/>',
            "link 'base', inertial, mass: value needs 1 number, got 'heavy'",
        ),
        ('ixx="0.2"', 'ixx="${i}"', "ixx is '\\$.i.', which xacro must fill in"),
        ('axis xyz="0 0 1"', 'axis xyz="z"', "axis: xyz needs 3 numbers, got 'z'"),
    ],
)
def test_what_is_no_number_is_named_with_its_place(old: str, new: str, problem: str, tmp_path: Path) -> None:
    assert old in ARM
    with pytest.raises(RobotFileError, match=problem):
        load_robot(write(tmp_path, ARM.replace(old, new)))


ONE_BODY = """<mujoco><compiler settotalmass="3"/><worldbody><body name="arm" pos="0 0 1"><joint name="j" axis="0 1 0"/>
<inertial pos="0.1 0 0" mass="2" diaginertia="1 1 1"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('axis="0 1 0"', 'axis="0 0 0"', "joint 'j': its axis has no direction"),
        ('axis="0 1 0"', 'axis="a b c"', "joint 'j': axis needs 3 numbers, got 'a b c'"),
        ('pos="0 0 1"', 'pos="0 0 x"', "body 'arm': pos needs 3 numbers, got '0 0 x'"),
        ('pos="0 0 1"', 'pos="0 0 nan"', "body 'arm': pos must be finite"),
        ('mass="2"', 'mass="two"', "body 'arm', inertial: mass needs 1 number, got 'two'"),
        ('settotalmass="3"', 'settotalmass=""', "compiler: settotalmass needs 1 numbers?, got ''"),
    ],
)
def test_mjcf_what_is_no_number_is_named_with_its_place(old: str, new: str, problem: str, tmp_path: Path) -> None:
    assert load_robot(write(tmp_path, ONE_BODY, "arm.xml")).n == 1
    with pytest.raises(RobotFileError, match=problem):
        load_robot(write(tmp_path, ONE_BODY.replace(old, new), "arm.xml"))


@pytest.mark.parametrize("kind", ["revolute", "continuous", "prismatic"])
def test_an_axis_of_zeros_is_refused(kind: str, tmp_path: Path) -> None:
    text = ARM.replace('axis xyz="0 0 1"', 'axis xyz="0 0 0"').replace('type="revolute"', f'type="{kind}"')
    with pytest.raises(RobotFileError, match="its axis has no direction"):
        load_robot(write(tmp_path, text))


def test_a_file_that_may_not_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    files = [write(tmp_path, ARM), write(tmp_path, "[[joint]]\n", "table.toml")]
    monkeypatch.setattr("defusedxml.ElementTree.parse", refuse)
    monkeypatch.setattr(Path, "read_text", refuse)
    monkeypatch.setattr(Path, "open", refuse)
    for file in files:
        with pytest.raises(RobotFileError, match="cannot be read: Permission denied"):
            load_robot(file)


def test_mjcf_included_parts_may_have_their_own_defaults(tmp_path: Path) -> None:
    write(tmp_path, '<mujocoinclude><default><joint damping="3"/></default></mujocoinclude>', "part.xml")
    inertial = '<inertial pos="0 0 0.1" mass="2" diaginertia="1 1 1"/><geom type="mesh" mesh="nowhere" pos="0 0 0"/>'
    text = (
        '<mujoco><include file="part.xml"/><default><joint armature="0.5"/><default class="a"/></default><worldbody>'
        f'<body name="b"><joint name="j" class="a"/>{inertial}</body></worldbody></mujoco>'
    )
    robot = load_robot(write(tmp_path, text, "two.xml"))
    assert robot.parameters[[robot.parameter_names.index(name) for name in ("M:b", "Ia:b")]].tolist() == [2.0, 0.5]
    assert robot.links[0].friction == (("viscous", 3.0),)


SHAPES = (
    '<mujoco><default><geom density="700"/></default><worldbody><body name="a" pos="0 0 1">'
    '<joint name="i" axis="0 1 0"/>'
    '<geom type="capsule" fromto="0 0 0 0.1 0.2 -0.5" size="0.04"/><body name="tip" pos="0.1 0.2 -0.5">'
    '<geom type="ellipsoid" size="0.1 0.05 0.02" euler="10 20 30"/></body><body name="b" pos="0.1 0 -0.5">'
    '<joint name="j" axis="1 0 0"/><geom type="cylinder" size="0.05 0.2" mass="2" pos="0 0.1 0"/></body></body>'
    "</worldbody></mujoco>"
)


@pytest.mark.parametrize("compiler", ["", '<compiler settotalmass="3"/>'])
def test_mjcf_inertias_of_shapes_are_mujocos(compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mujoco = pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path, SHAPES.replace("<mujoco>", f"<mujoco>{compiler}"), "shapes.xml")
    robot = load_robot(file)
    assert [path.name for path in tmp_path.iterdir()] == ["shapes.xml"]
    model = mujoco.MjModel.from_xml_path(str(file))
    motion, data = random_motion(robot), mujoco.MjData(model)
    found = (regressor(robot, motion).matrix @ robot.parameters).reshape(len(motion), -1)
    for n in range(len(motion)):
        data.qpos[:], data.qvel[:], data.qacc[:] = motion.q[n], motion.v[n], motion.a[n]
        mujoco.mj_inverse(model, data)
        np.testing.assert_allclose(found[n], data.qfrc_inverse, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("reason", ["mesh", "MuJoCo is not installed"])
def test_mjcf_inertias_of_shapes_are_unknown_without_mujoco(
    reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SHAPES
    if reason == "mesh":
        pytest.importorskip("mujoco")
        asset = '<asset><mesh name="m" file="nowhere.stl"/></asset>'
        text = text.replace("<worldbody>", f"{asset}<worldbody>").replace('"ellipsoid"', '"mesh" mesh="m"')
    else:
        monkeypatch.setitem(sys.modules, "mujoco", None)
    robot = load_robot(write(tmp_path, text, "shapes.xml"))
    assert np.isnan(robot.parameters[[robot.parameter_names.index(name) for name in ("M:a", "XX:b")]]).all()
    assert "follow from their shapes and are unknown" in robot.notes[0]
    assert reason in robot.notes[0] or "nowhere.stl" in robot.notes[0]


def test_mjcf_parts_without_a_name_get_one(tmp_path: Path) -> None:
    inertial = '<inertial pos="0 0 0.1" mass="2" diaginertia="1 1 1"/>'
    text = (
        f'<mujoco><worldbody><body name="body2"><joint/>{inertial}<body><joint/><joint axis="1 0 0"/>{inertial}</body>'
        "</body></worldbody></mujoco>"
    )
    robot = load_robot(write(tmp_path, text, "nameless.xml"))
    assert robot.joint_names == ("body2_joint", "body2_2_joint", "body2_2_joint_2")
