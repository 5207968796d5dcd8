"""MuJoCo as the robot on a force plate: its own force and torque sensors, strong friction, wrong torque constants.

A site on a body that is fixed to the world, placed and turned anyhow, carries a force and a torque sensor: what the
world does to everything above it, in the site's axes about the site. Velocities and accelerations are MuJoCo's own.
A torque is held for a step of RK4; what is recorded belongs to the mean of the holds before and after the instant.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dynid import ForceSensor, Log, Robot, identify, joint_parameters, load_robot
from dynid.robot.transform import Array

mujoco = pytest.importorskip("mujoco")

STEP = 1e-3
SECONDS = 12.0
CONSTANT = 1.05
"""Recorded torque over true torque: error of the torque constants."""

PLACE, TURN = np.array([0.12, -0.07, -0.25]), np.array([0.4, -0.3, 1.1])

JOINT = '<joint name="j{k}" type="{kind}" axis="{axis}" damping="{damping}" frictionloss="{dry}" {hard}/>'
HARD = f'solreffriction="{2 * STEP} 1" solimpfriction="0.95 0.99 0.001 0.5 2"'
BODIES = {
    "arm": (
        (-1, "0 0 .3", "hinge", "0 0 1", 12, 9, 7, ".01 .02 -.05", ".06 .055 .04 .001 .002 -.001"),
        (0, ".05 0 .1", "hinge", "0 1 0", 14, 10, 9, ".02 .05 .2", ".25 .24 .04 .002 -.01 .004"),
        (1, "0 0 .45", "hinge", "0 1 0", 6, 5, 5, ".05 -.02 .05", ".03 .035 .025 .002 -.003 .001"),
        (2, ".2 0 .05", "hinge", "1 0 0", 2, 1, 2.5, ".1 .01 .005", ".005 .012 .012 .0005 -.001 .0003"),
    ),
    "slide": (
        (-1, "0 0 .3", "hinge", "0 0 1", 12, 9, 7, ".01 .02 -.05", ".06 .055 .04 .001 .002 -.001"),
        (0, ".05 0 .1", "hinge", "0 1 0", 14, 10, 9, ".02 .05 .2", ".25 .24 .04 .002 -.01 .004"),
        (1, "0 0 .45", "slide", "0 0 1", 40, 30, 3, ".18 -.01 .03", ".012 .05 .048 .002 -.004 .001"),
    ),
    "tree": (
        (-1, "0 0 .4", "hinge", "0 0 1", 9, 8, 9, ".01 .02 .15", ".15 .14 .05 .001 .002 -.001"),
        (0, "0 .2 .3", "hinge", "0 1 0", 4, 4, 3, ".02 .02 .15", ".04 .045 .01 .002 -.004 .003"),
        (0, "0 -.2 .3", "hinge", "1 0 0", 4, 4, 3, "-.02 .02 .14", ".04 .045 .01 .002 -.004 .003"),
    ),
}


@dataclass(frozen=True, eq=False)
class Run:
    """A recording on the plate, the robot with the parameters it was made with, and its friction (N, n)."""

    robot: Robot
    sensor: ForceSensor
    log: Log
    friction: Array


def mjcf(name: str, *, plate: bool) -> str:
    bodies = BODIES[name]

    def written(k: int) -> str:
        _, pos, kind, axis, damping, dry, mass, centre, inertia = bodies[k]
        joint = JOINT.format(k=k + 1, kind=kind, axis=axis, damping=damping, dry=dry, hard=HARD)
        beyond = "".join(written(c) for c in range(len(bodies)) if bodies[c][0] == k)
        return (
            f'<body name="b{k + 1}" pos="{pos}">{joint}'
            f'<inertial pos="{centre}" mass="{mass}" fullinertia="{inertia}"/>{beyond}</body>'
        )

    x, y, z, w = Rotation.from_euler("xyz", TURN).as_quat()
    place = " ".join(map(repr, PLACE.tolist()))
    site = f'<site name="s" pos="{place}" quat="{w} {x} {y} {z}"/>'
    inside = f'<body name="base">{site}{written(0)}</body>' if plate else written(0)
    sensors = '<sensor><force site="s"/><torque site="s"/></sensor>' if plate else ""
    return (
        f'<mujoco model="{name}"><option timestep="{STEP}" integrator="RK4"/>'
        f"<worldbody>{inside}</worldbody>{sensors}</mujoco>"
    )


@cache
def run(name: str) -> Run:
    model = mujoco.MjModel.from_xml_string(mjcf(name, plate=True))
    data = mujoco.MjData(model)
    n, rng = model.nv, np.random.default_rng(5)
    N = round(SECONDS / STEP)
    t: Array = np.arange(N, dtype=np.float64) * STEP
    w = 2.0 * np.pi * 0.25 * np.arange(1, 5)
    size = np.where(model.jnt_type == mujoco.mjtJoint.mjJNT_SLIDE, 0.2, 1.2)
    A, B = rng.standard_normal((2, 4, n))
    wanted = np.sin(np.outer(t, w)) @ A + np.cos(np.outer(t, w)) @ B
    scale = size / np.abs(wanted).max(axis=0)
    wanted, speed = wanted * scale, (np.cos(np.outer(t, w)) * w @ A - np.sin(np.outer(t, w)) * w @ B) * scale
    q, v, a, tau, wrench = np.empty((N, n)), np.empty((N, n)), np.empty((N, n)), np.empty((N, n)), np.empty((N, 6))
    data.qpos[:], data.qvel[:] = wanted[0], speed[0]
    push, friction = np.zeros(n), np.empty((N, n))
    for k in range(N):
        mujoco.mj_forward(model, data)
        mujoco.mj_mulM(model, data, push, 900.0 * (wanted[k] - data.qpos) + 60.0 * (speed[k] - data.qvel))
        held, after = data.qfrc_applied.copy(), push + data.qfrc_bias
        data.qfrc_applied[:] = 0.5 * (held + after) if k else after
        mujoco.mj_forward(model, data)
        q[k], v[k], a[k], tau[k], wrench[k] = data.qpos, data.qvel, data.qacc, data.qfrc_applied, data.sensordata
        friction[k] = -(data.qfrc_passive + data.qfrc_constraint)
        data.qfrc_applied[:] = after
        mujoco.mj_step(model, data)
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.xml"
        path.write_text(mjcf(name, plate=False))
        robot = load_robot(path)
    sensor = ForceSensor(position=PLACE, rotation=Rotation.from_euler("xyz", TURN).as_matrix())
    log = Log(t, q, v=v, a=a, tau=CONSTANT * tau, reaction=wrench, name=name)
    return Run(robot, sensor, log, friction)


@pytest.mark.parametrize("name", BODIES)
def test_the_base_does_not_feel_friction_and_torque_constants(name: str) -> None:
    r = run(name)
    result = identify(r.robot, r.log, model="reaction", sensor=r.sensor)
    found = joint_parameters(result)
    truth = found.base.values(r.robot.parameters)
    np.testing.assert_allclose(found.values, truth, rtol=0.0, atol=1e-9 * np.abs(truth).max())
    assert result.verdict.level == "good", result.verdict


@pytest.mark.parametrize("name", BODIES)
def test_joint_torques_without_friction_are_visibly_wrong(name: str) -> None:
    r = run(name)
    result = identify(r.robot, r.log, friction=(), rotor_inertia=False)
    truth = result.equation.base.values(r.robot.parameters)
    assert np.abs(result.values - truth).max() > 0.05 * np.abs(truth).max()
    assert result.verdict.level != "good"


@pytest.mark.parametrize("name", BODIES)
def test_both_together_give_inertias_and_friction(name: str) -> None:
    r = run(name)
    result = identify(
        r.robot, r.log, model="torque+reaction", sensor=r.sensor, friction=("viscous", "coulomb"), rotor_inertia=False
    )
    found = joint_parameters(result)
    truth = found.base.values(r.robot.parameters)
    assert np.abs(found.values - truth).max() < 1e-3 * np.abs(truth).max()
    names = [link.label for link in r.robot.links if link.moves]
    viscous = np.array([result.value(f"Fv{label}") for label in names])
    dry = np.array([result.value(f"Fc{label}") for label in names])
    v = r.log.v
    assert v is not None
    left = viscous * v + dry * np.sign(v) - CONSTANT * r.friction  # soft friction lags and sticks
    assert (left.std(axis=0) < 0.2 * CONSTANT * r.friction.std(axis=0)).all()


@pytest.mark.parametrize("seed", range(4))
def test_with_noise_errors_are_inside_the_deviations(seed: int) -> None:
    r = run("arm")
    rng = np.random.default_rng(seed)
    q = r.log.q + 2e-5 * rng.standard_normal(r.log.q.shape)
    assert r.log.reaction is not None
    wrench = r.log.reaction + rng.standard_normal(r.log.reaction.shape) * [1.0, 1.0, 1.0, 0.5, 0.5, 0.5]
    wrench += [20.0, -30.0, 50.0, 3.0, -4.0, 5.0]  # offsets of the amplifiers
    log = Log(r.log.t, q, reaction=wrench, name="noisy")
    found = joint_parameters(identify(r.robot, log, model="reaction", sensor=r.sensor))
    truth = found.base.values(r.robot.parameters)
    off = np.abs(found.values - truth) / found.sigma
    assert (off < 3.0).mean() >= 0.9, dict(zip(found.names, off, strict=True))
    assert (off < 5.0).all()
