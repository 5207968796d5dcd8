"""MuJoCo as the robot: the wrench at the base of an arm, measured by its own sensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid import Motion, load_robot, regressor

mujoco = pytest.importorskip("mujoco")

ARM = """
<mujoco model="arm">
  <option gravity="1.5 -2 -9.81"><flag constraint="disable"/></option>
  <worldbody>
    <body name="foot">
      <site name="plate"/>
      <inertial pos="0 0 0" mass="1e-12" diaginertia="1e-12 1e-12 1e-12"/>
      <body name="shoulder" pos="0.1 0.2 0.4">
        <joint name="j1" type="hinge" axis="0 0 1"/>
        <inertial pos="0.01 0.03 -0.02" mass="3" fullinertia="0.03 0.025 0.02 0.001 0.002 -0.001"/>
        <body name="arm" pos="0.02 0 0.1" euler="90 0 0">
          <joint name="j2" type="hinge" axis="0 1 0.5" armature="0.2"/>
          <inertial pos="0.2 0 0.02" mass="2" diaginertia="0.01 0.05 0.06"/>
          <body name="slide" pos="0.4 0 0" quat="1 0.5 -0.2 0.3">
            <joint name="j3" type="slide" axis="1 0 1"/>
            <inertial pos="0.05 0.1 0" mass="1.2" diaginertia="0.004 0.005 0.006"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <sensor><force site="plate"/><torque site="plate"/></sensor>
</mujoco>
"""


def test_base_reactions_equal_mujocos_force_and_torque_sensors(tmp_path: Path) -> None:
    file = tmp_path / "arm.xml"
    file.write_text(ARM)
    robot = load_robot(file)
    assert robot.joint_names == ("j1", "j2", "j3")
    model = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(model)
    rng = np.random.default_rng(1)
    q, v, a = (rng.standard_normal((20, 3)) for _ in range(3))
    reaction = regressor(robot, Motion(np.arange(20.0), q, v, a), model="reaction").matrix @ robot.parameters
    torque = regressor(robot, Motion(np.arange(20.0), q, v, a)).matrix @ robot.parameters
    for n in range(20):
        data.qpos[:], data.qvel[:], data.qacc[:] = q[n], v[n], a[n]
        mujoco.mj_inverse(model, data)
        np.testing.assert_allclose(torque.reshape(20, 3)[n], data.qfrc_inverse, atol=1e-9, rtol=0)
        mujoco.mj_rnePostConstraint(model, data)
        mujoco.mj_sensorAcc(model, data)
        np.testing.assert_allclose(reaction.reshape(20, 6)[n], data.sensordata, atol=1e-9, rtol=0)
