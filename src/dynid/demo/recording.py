"""The recording of the demo: MuJoCo as the robot, tracked in closed loop, where it is installed; else inverse dynamics.

MuJoCo holds a torque for a step of RK4; what is recorded belongs to the mean of the holds before and after the instant.
Its dry friction is a soft constraint, here as hard as the step allows; constant torques of the drives, which it does
not have, are added to what is recorded.
"""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from dynid.data.log import Log
from dynid.data.simulate import simulate
from dynid.errors import DynidError
from dynid.excitation.excitation import Excitation
from dynid.exports.export import export
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

RATE = 500.0
STEPS = 4
"""Of the simulator per sample that is recorded."""

ENCODER = 2e-5
"""Deviation of recorded positions, rad."""

TORQUE_NOISE = 0.02
"""Deviation of recorded torques, as a share of their own."""

STIFFNESS, DAMPING = 2000.0, 70.0
"""Gains of the controller per inertia, 1/s^2 and 1/s."""


def record(real: Robot, excitation: Excitation, seed: int) -> tuple[Log, str]:
    """What encoders and torque sensors would give, positions and torques with noise; and by which simulator."""
    try:
        t, q, tau = _by_mujoco(real, excitation.motion(RATE * STEPS))
        by = "MuJoCo, tracked by a controller"
    except DynidError:
        log = simulate(real, excitation.motion(RATE))
        assert log.tau is not None
        t, q, tau, by = log.t, log.q, log.tau, "inverse dynamics"
    rng = np.random.default_rng(seed)
    q = q + ENCODER * rng.standard_normal(q.shape)
    tau = tau + TORQUE_NOISE * tau.std(axis=0) * rng.standard_normal(tau.shape)
    return Log(t, q, tau=tau, name=f"simulated {real.name}"), by


def _by_mujoco(real: Robot, path: Motion) -> tuple[Array, Array, Array]:
    """Times, positions and torques at the recorded rate; DynidError where MuJoCo cannot be the robot."""
    if find_spec("mujoco") is None:
        raise DynidError("MuJoCo is not installed")
    import mujoco

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "robot.xml"
        export(real, file)
        model = mujoco.MjModel.from_xml_path(str(file))
    step = 1.0 / (RATE * STEPS)
    model.opt.timestep, model.opt.integrator = step, mujoco.mjtIntegrator.mjINT_RK4
    model.dof_solref[:], model.dof_solimp[:] = (2.0 * step, 1.0), (0.95, 0.99, 1e-3, 0.5, 2.0)
    at = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name) for name in real.joint_names]
    if model.nv != real.n or min(at) < 0:
        raise DynidError("MuJoCo has other joints")
    order = np.array([model.jnt_dofadr[k] for k in at])
    q, tau = _track(mujoco, model, path, order)
    offsets = np.array([dict(real.links[k].friction).get("offset", 0.0) for k in real.active_links])
    some = slice(None, None, STEPS)
    return path.t[some], q[some], tau[some] + offsets


def _track(mujoco: Any, model: Any, path: Motion, order: Array) -> tuple[Array, Array]:
    """Follow a path with feed-forward and feedback; positions, and torques as means of the holds around an instant."""
    real, thought = mujoco.MjData(model), mujoco.MjData(model)
    N, n = path.q.shape
    real.qpos[order], real.qvel[order] = path.q[0], path.v[0]
    mujoco.mj_forward(model, real)
    inertia = np.empty((n, n))
    mujoco.mj_fullM(model, real, inertia)
    size = np.diag(inertia)[order]
    q, held = np.empty((N, n)), np.empty((N, n))
    for k in range(N):
        thought.qpos[order], thought.qvel[order], thought.qacc[order] = path.q[k], path.v[k], path.a[k]
        mujoco.mj_inverse(model, thought)
        q[k] = real.qpos[order]
        back = STIFFNESS * (path.q[k] - q[k]) + DAMPING * (path.v[k] - real.qvel[order])
        held[k] = thought.qfrc_inverse[order] + size * back
        real.qfrc_applied[order] = held[k]
        mujoco.mj_step(model, real)
    if not np.abs(q - path.q).max() < 0.1:
        raise DynidError("the simulated robot does not follow")
    tau = held.copy()
    tau[1:] = 0.5 * (held[1:] + held[:-1])
    return q, tau
