"""MJCF: MuJoCo finds the model's torques, conserves its energy, and dynid reads the file back."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from bodies import with_bodies
from dynid.robot.load import load_robot
from dynid.robot.robot import UNLIMITED, Robot
from dynid.robot.transform import freeze, quaternion_from_rotation
from loops_in_space import four_bar, slider_crank
from robots import coupled_tree, random_motion, random_rotation, random_tree
from urdf_texts import URDF

mujoco = pytest.importorskip("mujoco")


@pytest.mark.parametrize("seed", range(20))
def test_quaternions_give_the_rotation_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    turns = [random_rotation(rng), np.diag([1.0, -1.0, -1.0]), np.diag([-1.0, -1.0, 1.0]), np.eye(3)]
    for R in (*turns, turns[1] @ turns[0]):
        out = np.empty(9)
        mujoco.mju_quat2Mat(out, quaternion_from_rotation(R))
        assert_allclose(out.reshape(3, 3), R, atol=4e-16 * 4)


def has_the_torques_of(robot: Robot, again: Robot, motion: dynid.Motion) -> None:
    """The robot read again may have its joints in another order."""
    order = [again.joint_names.index(name) for name in robot.joint_names]
    back = np.argsort(order)
    turned = dynid.Motion(motion.t, motion.q[:, back], motion.v[:, back], motion.a[:, back])
    theirs = (dynid.regressor(again, turned).matrix @ again.parameters).reshape(-1, again.n)[:, order]
    ours = (dynid.regressor(robot, motion).matrix @ robot.parameters).reshape(-1, robot.n)
    assert_allclose(theirs, ours, rtol=0, atol=1e-9 * np.abs(ours).max())


@pytest.mark.parametrize(
    "robot",
    [
        with_bodies("puma560", friction=True), with_bodies("panda", 1, friction=True), with_bodies("scara", 2),
        random_tree(11, joints=9, shuffled=True), random_tree(5, joints=8, fixed_share=0.4),
    ],
    ids=lambda robot: robot.name,
)  # fmt: skip
def test_mujoco_has_the_models_torques_and_dynid_reads_them_back(robot: Robot, tmp_path: Path) -> None:
    file = tmp_path / "robot.xml"
    dynid.export(robot, file)
    checked = dynid.verify(file, robot)
    assert checked.reader == "MuJoCo"
    assert checked.error < 1e-12
    again = load_robot(file, snap=False)
    assert_allclose(again.gravity, robot.gravity, rtol=0, atol=0)
    has_the_torques_of(robot, again, random_motion(robot, samples=10))
    for link in again.links:
        old = next(k for k in robot.links if k.joint == link.joint)
        assert link.rotor == old.rotor
        assert dict(link.friction) == {k: x for k, x in old.friction if k != "offset"}
        assert (link.limits.lower, link.limits.upper) == (old.limits.lower, old.limits.upper)


def test_from_urdf_to_mjcf_and_back(tmp_path: Path) -> None:
    (tmp_path / "robot.urdf").write_text(URDF)
    robot = load_robot(tmp_path / "robot.urdf")
    robot = replace(
        robot, links=(*robot.links[:-1], replace(robot.links[-1], inertia=with_bodies(robot).links[-1].inertia))
    )
    dynid.export(robot, tmp_path / "robot.xml")
    assert dynid.verify(tmp_path / "robot.xml", robot).error < 1e-12
    again = load_robot(tmp_path / "robot.xml")
    assert again.parameter_names == robot.parameter_names
    assert_allclose(again.parameters, robot.parameters, rtol=0, atol=1e-13)


@pytest.mark.parametrize("suffix", [".xml", ".urdf"])
@pytest.mark.parametrize("name", ["panda", "scara", "tree"])
def test_free_motion_conserves_energy(name: str, suffix: str, tmp_path: Path) -> None:
    robot = random_tree(4, joints=5) if name == "tree" else with_bodies(name, 7)
    robot = replace(robot, links=tuple(replace(link, limits=UNLIMITED) for link in robot.links))
    file = tmp_path / f"robot{suffix}"
    dynid.export(robot, file)
    model = mujoco.MjModel.from_xml_path(str(file))
    model.opt.gravity[:] = robot.gravity
    model.opt.integrator, model.opt.timestep = mujoco.mjtIntegrator.mjINT_RK4, 1e-4
    model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    data = mujoco.MjData(model)
    data.qvel[:] = np.random.default_rng(1).uniform(-0.5, 0.5, model.nv)
    mujoco.mj_forward(model, data)
    first = data.energy.copy()
    exchanged = 0.0
    for k in range(20_000):
        mujoco.mj_step(model, data)
        if k % 100 == 0:
            exchanged = max(exchanged, abs(data.energy[0] - first[0]), data.energy[1])
    mujoco.mj_forward(model, data)
    assert data.time == pytest.approx(2.0)
    assert abs(data.energy.sum() - first.sum()) < 1e-6 * exchanged


@pytest.mark.parametrize(
    "robot",
    [with_bodies("puma560"), with_bodies("scara", 2), random_tree(5, joints=8, fixed_share=0.4)],
    ids=lambda robot: robot.name,
)
def test_mujoco_reads_the_urdf_too(robot: Robot, tmp_path: Path) -> None:
    robot = replace(robot, links=tuple(replace(link, rotor=0.0) for link in robot.links))
    dynid.export(robot, tmp_path / "robot.urdf")
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.urdf"))
    model.opt.gravity[:] = robot.gravity
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    data, motion = mujoco.MjData(model), random_motion(robot, samples=5)
    ids = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name) for name in robot.joint_names]
    at = model.jnt_dofadr[ids]
    ours = (dynid.regressor(robot, motion).matrix @ robot.parameters).reshape(-1, robot.n)
    for n in range(len(motion)):
        data.qpos[at], data.qvel[at], data.qacc[at] = motion.q[n], motion.v[n], motion.a[n]
        mujoco.mj_inverse(model, data)
        assert_allclose(data.qfrc_inverse[at], ours[n], rtol=0, atol=1e-9 * np.abs(ours).max())


def test_couplings_become_equalities(tmp_path: Path) -> None:
    robot = random_tree(3, joints=4, fixed_share=0.0)
    coupling = replace(
        coupled_tree(1).couplings[0], passive=robot.joint_names[2], factors=((robot.joint_names[0], -1.5),)
    )
    links = tuple(replace(link, friction=(("viscous", 0.3), ("coulomb", 0.2))) for link in robot.links)
    robot = replace(robot, links=links, couplings=(coupling,))
    file = tmp_path / "robot.xml"
    assert f"friction of the passive joints {coupling.passive} is left out" in dynid.export(robot, file).notes[-1]
    assert dynid.verify(file, robot).passed
    assert load_robot(file, snap=False).couplings == robot.couplings


@pytest.mark.parametrize("compiler", ["", '<compiler inertiafromgeom="false"/>', '<compiler inertiafromgeom="auto"/>'])
def test_the_pose_of_a_root_without_joint_counts(compiler: str, tmp_path: Path) -> None:
    body = '<inertial pos="0.1 0.2 0.3" mass="2" diaginertia="0.1 0.2 0.25"/>'
    file = tmp_path / "robot.xml"
    file.write_text(
        f'<mujoco>{compiler}<worldbody><body name="mount" pos="1 2 3" quat="1 0.5 0 0.2">{body}'
        f'<body name="arm" pos="0 1 0"><joint name="j" axis="0 1 0"/>{body}</body></body></worldbody></mujoco>'
    )
    robot = load_robot(file)
    assert dynid.verify(file, robot).error < 1e-12


@pytest.mark.parametrize("robot", [with_bodies("sr400"), with_bodies("hpr", 1), coupled_tree(2)], ids=lambda r: r.name)
def test_joints_that_follow_several_hang_on_tendons(robot: Robot, tmp_path: Path) -> None:
    file = tmp_path / "robot.xml"
    dynid.export(robot, file)
    assert dynid.verify(file, robot).error < 1e-12
    again = load_robot(file, snap=False)
    assert {c.passive: c for c in again.couplings} == {c.passive: c for c in robot.couplings}
    has_the_torques_of(robot, again, random_motion(robot, samples=5))
    text = file.read_text()
    file.write_text(text.replace('coef="1"', 'coef="1.01"'))
    assert not dynid.verify(file, robot).passed
    file.write_text(text.replace('<tendon tendon1="coupling', '<tendon tendon1="other'))
    with pytest.raises(dynid.DynidError, match="only fixed tendons of constant length"):
        load_robot(file)


@pytest.mark.parametrize("make", [slider_crank, four_bar, lambda seed: with_bodies("slider_crank", seed)])
def test_loops_that_points_close_become_connections(make: Callable[[int], Robot], tmp_path: Path) -> None:
    robot = make(3)
    file = tmp_path / "robot.xml"
    dynid.export(robot, file)
    assert dynid.verify(file, robot).error < 1e-9
    model = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    for _ in range(100):
        mujoco.mj_step(model, data)
    sites = [data.site("loop1a").xpos, data.site("loop1b").xpos]
    assert np.abs(sites[0] - sites[1]).max() < 1e-3
    assert np.abs(data.qvel).max() > 0.01, "it moved"
    file.write_text(re.sub(r'(name="loop1a" pos=")[^"]*', r"\g<1>0.5 0.1 0.0", file.read_text()))
    assert not dynid.verify(file, robot).passed


def test_loops_that_points_do_not_close_are_refused(tmp_path: Path) -> None:
    robot = four_bar(3)
    closure = robot.closures[0]
    lifted = replace(closure, points=(freeze(closure.points[0] + [0.0, 0.0, 0.1]), closure.points[1]))
    for other, text in ((lifted, "0.1 m apart"), (replace(closure, keep=("x", "rz")), "keeps directions")):
        with pytest.raises(dynid.DynidError, match=text):
            dynid.export(replace(robot, closures=(other,)), tmp_path / "robot.xml")
    assert list(tmp_path.iterdir()) == []


def test_links_that_no_body_can_be_are_named(tmp_path: Path) -> None:
    robot = with_bodies("scara")
    x = np.array(robot.links[2].inertia)
    x[0] = -1.0
    robot = replace(robot, links=(*robot.links[:2], replace(robot.links[2], inertia=freeze(x)), robot.links[3]))
    for suffix in (".xml", ".urdf"):
        with pytest.raises(dynid.DynidError, match="link '3' of 'scara': no real body"):
            dynid.export(robot, tmp_path / f"robot{suffix}")
