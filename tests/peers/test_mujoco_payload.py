"""MuJoCo as the robot, a body of known mass welded to its last link: what is identified is that body.

Torques are MuJoCo's inverse dynamics along Fourier motions, with armature and damping; positions and torques get noise.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid import Log, identify_gains, identify_payload, load_robot, payload_parameters
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from fourier import fourier_motion

mujoco = pytest.importorskip("mujoco")

MASS, COM = 1.7, (0.06, -0.02, 0.11)
INERTIA = (0.012, 0.001, -0.002, 0.015, 0.0015, 0.009)
"""ixx ixy ixz iyy iyz izz about the centre of mass, in the axes of the last link."""

ARM = (
    (".0 0 .3", "0 0 1", 7, ".01 .02 -.05", ".06 .055 .04 .001 .002 -.001"),
    (".05 0 .1", "0 1 0", 9, ".02 .05 .2", ".25 .24 .04 .002 -.01 .004"),
    ("0 0 .45", "0 1 0", 5, ".05 -.02 .05", ".03 .035 .025 .002 -.003 .001"),
    (".2 0 .05", "1 0 0", 2.5, ".1 .01 .005", ".005 .012 .012 .0005 -.001 .0003"),
    (".2 0 0", "0 1 0", 1.6, ".02 .01 -.01", ".003 .0035 .003 .0002 -.0002 .0001"),
    (".08 0 0", "1 0 0", 1.2, ".07 .02 .03", ".003 .004 .0035 .0003 -.0005 2e-4"),
)
"""Place, axis, mass, centre and inertia (MuJoCo's order xx yy zz xy xz yz) of every link."""


def mjcf(loaded: bool) -> str:
    text = ""
    if loaded:
        xx, xy, xz, yy, yz, zz = INERTIA
        centre = " ".join(map(str, COM))
        text = f'<body><inertial pos="{centre}" mass="{MASS}" fullinertia="{xx} {yy} {zz} {xy} {xz} {yz}"/></body>'
    for k, (pos, axis, mass, centre, inertia) in reversed(list(enumerate(ARM))):
        text = (
            f'<body name="b{k}" pos="{pos}"><joint name="j{k}" axis="{axis}" armature="0.1" damping="1.5"/>'
            f'<inertial pos="{centre}" mass="{mass}" fullinertia="{inertia}"/>{text}</body>'
        )
    return f'<mujoco><compiler angle="radian"/><worldbody>{text}</worldbody></mujoco>'


def recorded(robot: Robot, loaded: bool, seed: int) -> Log:
    model = mujoco.MjModel.from_xml_string(mjcf(loaded))
    data = mujoco.MjData(model)
    motion = fourier_motion(robot, seed=seed, duration=20.0)
    tau = np.empty_like(motion.q)
    for k in range(len(tau)):
        data.qpos[:], data.qvel[:], data.qacc[:] = motion.q[k], motion.v[k], motion.a[k]
        mujoco.mj_inverse(model, data)
        tau[k] = data.qfrc_inverse
    rng = np.random.default_rng(seed)
    noisy = tau + 0.02 * tau.std(axis=0) * rng.standard_normal(tau.shape)
    return Log(motion.t, motion.q + 5e-5 * rng.standard_normal(tau.shape), tau=noisy, name=f"mujoco {seed}")


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> Robot:
    file = tmp_path_factory.mktemp("robot") / "arm.xml"
    Path(file).write_text(mjcf(False))
    return load_robot(file)


@pytest.mark.parametrize("friction", ["auto", ("viscous", "offset")])
def test_the_body_is_found(robot: Robot, friction: str | tuple[str, ...]) -> None:
    distances: list[Array] = []
    for seed in (1, 3, 5):
        loaded, unloaded = recorded(robot, True, seed), recorded(robot, False, seed + 1)
        found = identify_payload(robot, loaded, unloaded, friction=friction)
        assert found.warnings == ()
        xx, xy, xz, yy, yz, zz = INERTIA
        J = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        distances.append(np.array([(found.mass - MASS) / found.mass_sigma]))
        distances.append((found.com - COM) / found.com_sigma)
        distances.append(((found.inertia - J) / found.inertia_sigma)[np.triu_indices(3)])
        assert abs(found.mass - MASS) < 0.05
        assert np.abs(found.com - COM).max() < 0.01
    x = np.abs(np.concatenate(distances))
    assert np.mean(x < 3.0) >= 0.96
    assert np.sqrt(np.mean(x**2)) < 1.5


def test_the_gains_are_found(robot: Robot) -> None:
    k = np.array([0.5, 2.0, 0.1, 3.0, 0.7, 0.02])
    logs = [recorded(robot, carries, seed) for carries, seed in ((True, 1), (False, 2))]
    currents = [Log(log.t, log.q, tau=np.asarray(log.tau) * k, name=log.name) for log in logs]
    load = payload_parameters(MASS, COM, INERTIA)
    found = identify_gains(robot, currents[0], currents[1], load, friction=("viscous", "offset"))
    assert np.all(np.abs(found.values - 1.0 / k) < 3.0 * found.sigma)
    assert np.all(found.sigma * k < 0.05)
