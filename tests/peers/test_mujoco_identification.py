"""MuJoCo as the robot: tracked in closed loop, recorded as positions with encoder noise and torques, identified.

What was recorded: position before each step, and the torque acting on it. MuJoCo holds a torque for a step; with RK4
the mean of two holds is the torque at the instant between them, with implicitfast the torque of a step belongs to the
position before it, and damping D, implicit over the step h, adds D h / 2 to the inertia (both follow from the
second difference of the positions).

MuJoCo's dry friction is a soft constraint: it changes sign where v + T a does, T being about half the time constant of
`solreffriction` (0.02 s unless set, so it leads the velocity by 9 ms). "hard" is the hardest that a step allows (2 h).
The plain model has no word for such a lead, nor for sticking: its inertial parameters are biased by more than their
deviations tell (87 to 98 % within three of them); only its friction is asked for, on hard friction and slow motions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynid import Identification, Log, Motion, Robot, identify, load_robot
from dynid.robot.transform import Array

mujoco = pytest.importorskip("mujoco")

STEP = 5e-4
"""Of the integrator; every second sample is recorded."""

RECORDED = 2 * STEP
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
        Body(4, ".08 0 0", ("hinge", "1 0 0", 0.06, 0.4, 0.7), 1.2, ".07 .02 .03", ".003 .004 .0035 .0003 -.0005 2e-4"),
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
    t: Array = np.arange(round(SECONDS / STEP), dtype=np.float64) * STEP
    k = np.arange(1, 6)
    w = 2.0 * np.pi * case.frequency * k
    A, B = rng.standard_normal((2, 5, len(size))) / k[:, None] ** 0.25
    s, c = np.sin(np.outer(t, w)), np.cos(np.outer(t, w))
    q = s @ A + c @ B
    scale = size / np.abs(q).max(axis=0)
    return Motion(t, q * scale, ((c * w) @ A - (s * w) @ B) * scale, (-(s * w**2) @ A - (c * w**2) @ B) * scale)


@dataclass(frozen=True, eq=False)
class Recording:
    """A log, the robot it is of with the parameters it was made with, and its viscous and dry friction (n,)."""

    log: Log
    robot: Robot
    truth: Array
    viscous: Array
    dry: Array


@cache
def recorded(case: Case) -> Recording:
    model = mujoco.MjModel.from_xml_string(mjcf(case))
    path = fourier(case, np.where(model.jnt_type == mujoco.mjtJoint.mjJNT_SLIDE, 0.2, 1.3))
    q, tau = tracked(model, path, case.seed)
    if case.integrator == "RK4":
        tau[1:] = 0.5 * (tau[1:] + tau[:-1])
    robot = robot_of(case)
    truth = robot.parameters.copy()
    if case.integrator == "implicitfast":
        rotors = [k for k, name in enumerate(robot.parameter_names) if name.startswith("Ia")]
        truth[rotors] += 0.5 * STEP * model.dof_damping
    rng = np.random.default_rng(case.seed + 2000)
    measured = tau + TORQUE_NOISE * tau.std(axis=0) * rng.standard_normal(tau.shape)
    log = Log(path.t[::2], q[::2], tau=measured[::2])
    return Recording(log, robot, truth, model.dof_damping.copy(), model.dof_frictionloss.copy())


def tracked(model: Any, path: Motion, seed: int) -> tuple[Array, Array]:
    """Positions as the encoders give them, also to the controller, and torques held for each step.

    PD with a feed-forward of 80 % of the torque that the path needs.
    """
    real, thought = mujoco.MjData(model), mujoco.MjData(model)
    N, n = path.q.shape
    real.qpos[:], real.qvel[:] = path.q[0], path.v[0]
    mujoco.mj_forward(model, real)
    inertia = np.empty((n, n))
    mujoco.mj_fullM(model, real, inertia)
    stiffness, damping = 2000.0 * np.diag(inertia), 70.0 * np.diag(inertia)
    noise = ENCODER * np.random.default_rng(seed + 1000).standard_normal((N, n))
    q, tau, ahead = np.empty((N, n)), np.empty((N, n)), np.empty((N, n))
    for k in range(N):
        thought.qpos[:], thought.qvel[:], thought.qacc[:] = path.q[k], path.v[k], path.a[k]
        mujoco.mj_inverse(model, thought)
        ahead[k] = 0.8 * thought.qfrc_inverse
    for k in range(N):
        q[k] = real.qpos + noise[k]
        tau[k] = ahead[k] + stiffness * (path.q[k] - q[k]) + damping * (path.v[k] - real.qvel)
        real.qfrc_applied[:] = tau[k]
        mujoco.mj_step(model, real)
    assert np.abs(q - path.q).max() < 0.02
    return q, tau


def robot_of(case: Case) -> Robot:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "robot.xml"
        file.write_text(mjcf(case))
        return load_robot(file)


def cases(*, hard: bool) -> list[Case]:
    """Every robot with both integrators, slowly and fast; the motions repeat every 10 or 5 s."""
    return [Case(name, *kind, seed) for name in ROBOTS for seed, kind in enumerate(
        (("RK4", hard, 0.1), ("implicitfast", hard, 0.2)), start=1)]  # fmt: skip


@cache
def identified(case: Case, friction: str | tuple[str, ...]) -> Identification:
    recording = recorded(case)
    return identify(recording.robot, recording.log, friction=friction)


def distances(case: Case, friction: str | tuple[str, ...]) -> Array:
    """Errors of the base parameters in reported deviations."""
    result, truth = identified(case, friction), recorded(case).truth
    base = result.equation.base
    place = [result.names.index(name) for name in base.names]
    assert result.unidentifiable == ()
    return np.asarray((result.values[place] - base.values(truth)) / result.sigma[place])


@pytest.mark.slow
def test_base_parameters_lie_within_three_reported_deviations() -> None:
    soft = [case for case in cases(hard=False) if case.integrator == "RK4"]
    x = np.concatenate([distances(case, "auto") for case in (*cases(hard=True), *soft)])
    assert len(x) == 300
    assert np.mean(np.abs(x) <= 3.0) >= 0.97
    assert 0.7 < np.sqrt(np.mean(x**2)) < 1.4  # deviations neither too large nor too small


@pytest.mark.slow
def test_the_plain_model_finds_viscous_and_dry_friction() -> None:
    for case in cases(hard=True):
        if case.frequency > 0.1:
            continue
        recording, result = recorded(case), identified(case, PLAIN)
        viscous, dry = (np.array([v for v, k in zip(result.values, result.names, strict=True) if k.startswith(s)])
                        for s in ("Fv:", "Fc:"))  # fmt: skip
        np.testing.assert_allclose(viscous, recording.viscous, rtol=0.03)
        np.testing.assert_allclose(dry, recording.dry, rtol=0.01)


@pytest.mark.parametrize("name", ["three", pytest.param("six", marks=pytest.mark.slow)])
def test_another_trajectory_is_predicted_inside_the_band(name: str) -> None:
    first, second = Case(name, "RK4", True, 0.2, 1), Case(name, "RK4", True, 0.2, 11)
    recording, other = recorded(first), recorded(second).log
    result = identify(recording.robot, recording.log, validate=other)
    assert result.verdict.level == "good"
    assert result.validation.mean < 0.008
    assert result.validation.nrmse.max() < 0.015
    assert result.found_delay is not None
    assert abs(result.found_delay.seconds) < 0.25 * RECORDED
    assert result.cutoff is not None
    assert other.tau is not None
    motion = derived(other, 4.0 * result.cutoff)
    error = lowpass(other.tau - result.predict(motion), result.cutoff)
    trim = round(2.0 / (result.cutoff * RECORDED))
    inside = (np.abs(error) <= result.band(motion))[trim:-trim]
    assert 0.90 <= inside.mean() <= 0.99


def lowpass(x: Array, cutoff: float) -> Array:
    """Butterworth of order 4, forwards and backwards."""
    from scipy.signal import butter, sosfiltfilt

    return np.asarray(sosfiltfilt(butter(4, cutoff, fs=1.0 / RECORDED, output="sos"), x, axis=0))


def derived(log: Log, cutoff: float) -> Motion:
    q = lowpass(log.q, cutoff)
    v = np.gradient(q, RECORDED, axis=0)
    a = np.zeros_like(q)
    a[1:-1] = (q[2:] - 2.0 * q[1:-1] + q[:-2]) / RECORDED**2
    return Motion(log.t, q, v, a)
