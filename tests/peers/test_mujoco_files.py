"""MJCF files with what MuJoCo expands: the torques of the robot that we read are MuJoCo's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid import DynidError, Motion, load_robot, regressor

mujoco = pytest.importorskip("mujoco")

INERTIA = 'pos="0.1 0.02 0.03" mass="2" diaginertia="0.01 0.02 0.025"'
CLASSES = f"""
<mujoco><compiler angle="radian"/>
  <default><joint pos="0.01 0 0.02" axis="0 1 0" armature="0.1"/>
    <default class="outer"><joint pos="0.003 0 -0.003"/><default class="inner"><joint axis="1 0 1"/></default></default>
    <default class="other"><joint ref="0.3" type="slide"/></default></default>
  <worldbody><body name="a" pos="0.1 0.2 0.3"><joint name="j1"/><inertial {INERTIA}/>
    <body name="b" pos="0.3 0 0" childclass="inner"><joint name="j2"/><joint name="j3" class="other"/>
      <joint name="j4" class="outer" axis="0 0 1"/><inertial {INERTIA}/></body></body></worldbody></mujoco>
"""
REFERENCES = f"""
<mujoco><worldbody><body name="a" pos="0.1 0.2 0.3"><joint name="j1" axis="0 1 0" pos="-0.02 0.01 0.05" ref="20"/>
  <joint name="j2" axis="1 0 0" pos="0 0.1 0" ref="-50"/><joint name="j3" type="slide" axis="0 0 1" ref="0.2"/>
  <inertial {INERTIA}/></body></worldbody></mujoco>
"""
FRAMES = f"""
<mujoco><worldbody><frame pos="0 0.1 1" euler="10 20 0"><body name="a" pos="0.1 0.2 0.3"><joint name="j1" axis="0 1 0"/>
  <inertial {INERTIA}/><frame euler="0 30 0" pos="0 0.1 0"><geom size="0.1" mass="5"/><frame pos="0.2 0 0">
  <body name="b" pos="0.3 0 0"><joint name="j2" axis="0 0 1"/><inertial {INERTIA}/></body></frame></frame></body>
  </frame></worldbody></mujoco>
"""
WEIGHTLESS = f"""
<mujoco><option><flag gravity="disable"/></option><worldbody><body name="a"><joint name="j1" axis="0 1 0"/>
  <inertial {INERTIA}/></body></worldbody></mujoco>
"""

TURNED = f"""
<mujoco><compiler eulerseq="XzY" angle="radian"/><worldbody><body name="a" pos="0.1 0.2 0.3" euler="0.3 -0.4 0.2">
  <joint name="j1" axis="0 1 0"/><inertial {INERTIA} axisangle="0.3 0.4 0.2 0.7"/><frame axisangle="0 0.5 0.2 1.1">
  <body name="b" pos="0.3 0 0" axisangle="3 -1 0.2 0.4"><joint name="j2" axis="0 0 1"/>
  <inertial {INERTIA} euler="1 2 3"/></body></frame></body></worldbody></mujoco>
"""
SHAPES = f"""
<mujoco><compiler inertiafromgeom="true"/><worldbody><body name="a"><joint name="j1" axis="0 1 0"/><inertial {INERTIA}/>
  <geom size="0.1" mass="2"/><frame pos="0.2 0 0.1"><geom type="box" size="0.1 0.2 0.3" mass="3"/></frame></body>
  </worldbody></mujoco>
"""
FILES = {
    "classes": CLASSES, "ref": REFERENCES, "frames": FRAMES, "no g": WEIGHTLESS, "turned": TURNED, "shapes": SHAPES,
}  # fmt: skip


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_torques_are_mujocos(text: str, tmp_path: Path) -> None:
    file = tmp_path / "robot.xml"
    file.write_text(text)
    robot = load_robot(file)
    model = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(model)
    q, v, a = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 20, robot.n))
    torques = []
    for k in range(20):
        data.qpos[:], data.qvel[:], data.qacc[:] = q[k], v[k], a[k]
        mujoco.mj_inverse(model, data)
        torques.append(data.qfrc_inverse.copy())
    ours = regressor(robot, Motion(np.arange(20.0), q, v, a)).matrix @ robot.parameters
    assert np.abs(ours.reshape(20, -1) - torques).max() < 1e-11


def test_couplings_count_from_the_positions_as_drawn(tmp_path: Path) -> None:
    file = tmp_path / "robot.xml"
    ties = """<tendon><fixed name="t"><joint joint="j3" coef="2"/><joint joint="j2" coef="0.5"/></fixed></tendon>
      <equality><joint joint1="j2" joint2="j1" polycoef="0.1 -0.7"/><tendon tendon1="t" polycoef="0.05"/></equality>"""
    file.write_text(REFERENCES.replace("</mujoco>", ties + "</mujoco>"))
    robot = load_robot(file)
    assert robot.joint_names == ("j1",)
    (second, third), q1 = robot.couplings, 0.4
    q2 = second.factors[0][1] * q1 + second.offset
    q3 = third.factors[0][1] * q2 + third.offset
    model = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(model)
    data.qpos[:] = q1, q2, q3
    mujoco.mj_forward(model, data)
    assert data.ne == 2
    assert np.abs(data.efc_pos[:2]).max() < 1e-12


def test_what_is_multiplied_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "robot.xml"
    file.write_text(FRAMES.replace('<frame pos="0 0.1 1" euler="10 20 0">', '<replicate count="2" offset="1 0 0">', 1)
                    .replace("</frame></worldbody>", "</replicate></worldbody>"))  # fmt: skip
    with pytest.raises(DynidError, match="<replicate> is not read"):
        load_robot(file)
