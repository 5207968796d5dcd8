"""MuJoCo as the robot: tracked in closed loop, recorded as positions with encoder noise and torques, identified.

What was recorded: position before each step, and the torque acting on it. MuJoCo holds a torque for a step; with RK4
the mean of two holds is the torque at the instant between them, with implicitfast the torque of a step belongs to the
position before it, and damping D, implicit over the step h, adds D h / 2 to the inertia (both follow from the
second difference of the positions).

MuJoCo's dry friction is a soft constraint: it changes sign where v + T a does, T being about half the time constant of
`solreffriction` (0.02 s unless set: it leads the velocity by 9 ms). "hard" is the hardest that a step allows (2 h).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dynid import Identification, Log, Motion, Robot, identify, load_robot
from dynid.data.lowpass import Lowpass, extend
from dynid.robot.transform import Array

mujoco = pytest.importorskip("mujoco")

STEP = 1e-3
SECONDS = 20.0
PLAIN = ("viscous", "coulomb", "offset")
ENCODER = 2e-5
TORQUE_NOISE = 0.02
"""Share of the spread of every joint's torque."""


@dataclass(frozen=True)
class Body:
    """A body of a tree: parent, place in it, joint (kind, axis, armature, damping, dry friction), mass, inertia."""

    parent: int
    pos: str
    joint: tuple[str, str, float, float, float]
    mass: float
    centre: str
    inertia: str


SHOULDER = (
    Body(-1, "0 0 .3", ("hinge", "0 0 1", 0.8, 5, 6), 7, ".01 .02 -.05", ".06 .055 .04 .001 .002 -.001"),
    Body(0, ".05 0 .1", ("hinge", "0 1 0", 0.9, 6, 7), 9, ".02 .05 .2", ".25 .24 .04 .002 -.01 .004"),
)
ROBOTS: dict[str, tuple[Body, ...]] = {
    "three": (
        *SHOULDER,
        Body(1, "0 0 .45", ("hinge", "0 1 0", 0.15, 1, 1.5), 3, ".18 -.01 .03", ".012 .05 .048 .002 -.004 .001"),
    ),
    "six": (
        *SHOULDER,
        Body(1, "0 0 .45", ("hinge", "0 1 0", 0.4, 3, 4), 5, ".05 -.02 .05", ".03 .035 .025 .002 -.003 .001"),
        Body(2, ".2 0 .05", ("hinge", "1 0 0", 0.12, 0.8, 1.2), 2.5, ".1 .01 .005", ".005 .012 .012 .0005 -.001 .0003"),
        Body(3, ".2 0 0", ("hinge", "0 1 0", 0.1, 0.6, 1), 1.6, ".02 .01 -.01", ".003 .0035 .003 .0002 -.0002 .0001"),
        Body(4, ".08 0 0", ("hinge", "1 0 0", 0.06, 0.4, 0.7), 1.2, ".07 .02 .03", ".003 .004 .0035 .0003 -.0005 .0002"),
    ),
    "slide": (
        *SHOULDER,
        Body(1, "0 0 .45", ("slide", "0 0 1", 2, 20, 15), 3, ".18 -.01 .03", ".012 .05 .048 .002 -.004 .001"),
    ),
    "tree": (
        Body(-1, "0 0 .4", ("hinge", "0 0 1", 0.4, 3, 4), 9, ".01 .02 .15", ".15 .14 .05 .001 .002 -.001"),
        Body(0, "0 .2 .3", ("hinge", "0 1 0", 0.3, 2, 3), 3, ".02 .02 .15", ".04 .045 .01 .002 -.004 .003"),
        Body(1, "0 0 .3", ("hinge", "1 0 0", 0.1, 0.8, 1), 2, ".03 -.02 .12", ".02 .025 .006 .001 -.002 .001"),
        Body(0, "0 -.2 .3", ("hinge", "1 0 0", 0.3, 2, 3), 3, "-.02 .02 .14", ".04 .045 .01 .002 -.004 .003"),
        Body(3, "0 0 .3", ("hinge", "0 1 0", 0.1, 0.8, 1), 2.2, ".06 -.02 .1", ".02 .025 .006 .001 -.002 .001"),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A robot, MuJoCo's integrator, how hard its dry friction is, and which trajectory: base frequency in Hz, seed."""

    robot: str
    integrator: str
    hard: bool
    frequency: float
    seed: int


def mjcf(case: Case) -> str:
    bodies = ROBOTS[case.robot]
    hard = f'solreffriction="{2 * STEP} 1" solimpfriction="0.95 0.99 0.001 0.5 2"' if case.hard else ""

    def written(k: int) -> str:
        body = bodies[k]
        kind, axis, armature, damping, friction = body.joint
        return (
            f'<body name="b{k + 1}" pos="{body.pos}"><joint name="j{k + 1}" type="{kind}" axis="{axis}" '
            f'armature="{armature}" damping="{damping}" frictionloss="{friction}" {hard}/>'
            f'<inertial pos="{body.centre}" mass="{body.mass}" fullinertia="{body.inertia}"/>'
            + "".join(written(c) for c in range(len(bodies)) if bodies[c].parent == k)
            + "</body>"
        )

    return (
        f'<mujoco model="{case.robot}"><option timestep="{STEP}" integrator="{case.integrator}"/>'
        f"<worldbody>{written(0)}</worldbody></mujoco>"
    )


def fourier(case: Case, size: Array) -> Motion:
    """Five harmonics with random amplitudes; the largest excursion of every joint is `size`."""
    rng = np.random.default_rng(case.seed)
    t = np.arange(round(SECONDS / STEP)) * STEP
    k = np.arange(1, 6)
    w = 2.0 * np.pi * case.frequency * k
    A, B = rng.standard_normal((2, 5, len(size))) / k[:, None] ** 0.25
    s, c = np.sin(np.outer(t, w)), np.cos(np.outer(t, w))
    q = s @ A + c @ B
    scale = size / np.abs(q).max(axis=0)
    return Motion(t, q * scale, ((c * w) @ A - (s * w) @ B) * scale, (-(s * w**2) @ A - (c * w**2) @ B) * scale)


@cache
def recorded(case: Case) -> tuple[Robot, Array, Log, Motion, Array]:
    """Robot, its true base parameters by name order of `robot.parameters`, the log, true motion and friction."""
    model = mujoco.MjModel.from_xml_string(mjcf(case))
    real, thought = mujoco.MjData(model), mujoco.MjData(model)
    rng = np.random.default_rng(case.seed + 1000)
    path = fourier(case, np.where(model.jnt_type == mujoco.mjtJoint.mjJNT_SLIDE, 0.2, 1.3))
    N, n = path.q.shape
    assert path.v is not None
    assert path.a is not None
    real.qpos[:], real.qvel[:] = path.q[0], path.v[0]
    mujoco.mj_forward(model, real)
    inertia = np.empty((n, n))
    mujoco.mj_fullM(model, real, inertia)
    stiffness, damping = 2000.0 * np.diag(inertia), 70.0 * np.diag(inertia)
    q, v, tau, rigid = np.empty((N, n)), np.empty((N, n)), np.empty((N, n)), np.empty(n)
    encoder = ENCODER * rng.standard_normal((N, n))
    for k in range(N):
        q[k], v[k] = real.qpos, real.qvel
        thought.qpos[:], thought.qvel[:], thought.qacc[:] = path.q[k], path.v[k], path.a[k]
        mujoco.mj_kinematics(model, thought)
        mujoco.mj_comPos(model, thought)
        mujoco.mj_comVel(model, thought)
        mujoco.mj_rne(model, thought, 1, rigid)
        ahead = 0.85 * (rigid + model.dof_armature * path.a[k] + model.dof_damping * path.v[k])
        ahead += 0.7 * model.dof_frictionloss * np.tanh(path.v[k] / 0.05)
        tau[k] = ahead + stiffness * (path.q[k] - q[k] - encoder[k]) + damping * (path.v[k] - v[k])
        real.qfrc_applied[:] = tau[k]
        mujoco.mj_step(model, real)
    if case.integrator == "RK4":
        tau[1:] = 0.5 * (tau[1:] + tau[:-1])
    measured = tau + TORQUE_NOISE * tau.std(axis=0) * rng.standard_normal((N, n))
    robot = robot_of(case)
    truth = robot.parameters.copy()
    if case.integrator == "implicitfast":
        rotors = [k for k, name in enumerate(robot.parameter_names) if name.startswith("Ia")]
        assert len(rotors) == n
        truth[rotors] += 0.5 * STEP * model.dof_damping
    log = Log(path.t, q + encoder, tau=measured)
    return robot, truth, log, Motion(path.t, q, v, np.zeros_like(q)), np.array([model.dof_damping, model.dof_frictionloss])


def robot_of(case: Case) -> Robot:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "robot.xml"
        file.write_text(mjcf(case))
        return load_robot(file)
