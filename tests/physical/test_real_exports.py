"""Recordings to files of simulators: bodies of real robots as URDF, loaded by pinocchio and MuJoCo, energy kept.

Plain friction makes wafers of the LWR4+'s links (and the result warns): they spin at 2,000 rad/s, where RK4 at 0.1 ms
loses 4 % of the energy. The default recipe is asked for.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid.robot.robot import UNLIMITED
from recordings import CASES, PLAIN, logs

mujoco = pytest.importorskip("mujoco")


@pytest.mark.parametrize(
    ("name", "friction"),
    [("panda", PLAIN), ("panda", "auto"), pytest.param("lwr4", "auto", marks=pytest.mark.slow)],
    ids=lambda x: str(x)[:5],
)
def test_the_urdf_of_a_recording_loads_and_swings(name: str, friction: str | tuple[str, ...], tmp_path: Path) -> None:
    case = CASES[name]
    robot = dynid.load_robot(case.robot)
    fit, _ = logs(case, robot, cut=False)
    result = dynid.identify(robot, fit, friction=friction, rotor_inertia=case.rotor_inertia, cutoff=case.cutoff)
    bodies = dynid.physical_parameters(result)
    file = tmp_path / "robot.urdf"
    done = dynid.export(bodies, file)
    checked = dynid.verify(file, done.subject)  # pinocchio's torques against ours
    assert checked.passed, checked
    free = replace(
        bodies.robot, links=tuple(replace(link, limits=UNLIMITED, friction=()) for link in bodies.robot.links)
    )
    for suffix in (".urdf", ".xml"):
        dynid.export(free, tmp_path / f"free{suffix}")
        exchanged, lost = _swing(str(tmp_path / f"free{suffix}"), robot.gravity)
        assert lost < 1e-6 * exchanged


def _swing(file: str, gravity: np.ndarray) -> tuple[float, float]:
    """Energy exchanged and lost in 2 s of free motion, RK4 at 0.1 ms."""
    model = mujoco.MjModel.from_xml_path(file)
    model.opt.gravity[:] = gravity
    model.opt.integrator, model.opt.timestep = mujoco.mjtIntegrator.mjINT_RK4, 1e-4
    model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    data = mujoco.MjData(model)
    data.qpos[:] = 0.3
    mujoco.mj_forward(model, data)
    first, exchanged = data.energy.copy(), 0.0
    for k in range(20_000):
        mujoco.mj_step(model, data)
        if k % 100 == 0:
            exchanged = max(exchanged, abs(data.energy[0] - first[0]), data.energy[1])
    mujoco.mj_forward(model, data)
    return exchanged, float(abs(data.energy.sum() - first.sum()))
