"""Friction blocks: shapes, memory, widths and names; friction that acts on motors behind a coupled transmission."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from dynid.dynamics.friction import (
    FRICTION,
    HARMONICS,
    FrictionShapes,
    find_friction_block,
    friction_columns,
    joint_scales,
)
from dynid.errors import ModelError
from dynid.estimation.inference.cross_validation import DEFAULT, OPTIONAL
from dynid.robot.robot import JointLimits, Robot
from dynid.robot.transform import Array
from fourier import fourier_motion
from frictions import PLAIN, log_of, torque
from log_makers import arm
from robots import random_tree

EVERY = (*FRICTION, "stop1e-4", "stop1e-3", "stop1e-2", "stop1e-1", "stop1", "stop0.5")


def walk(n: int, samples: int = 400, seed: int = 0) -> Array:
    """Positions that creep, turn back and stand."""
    rng = np.random.default_rng(seed)
    steps = rng.standard_normal((samples, n)) * 10.0 ** rng.uniform(-6.0, -1.0, (samples, n))
    steps[rng.uniform(size=steps.shape) < 0.2] = 0.0
    return np.cumsum(steps, axis=0)


def plain_loop(q: Array, width: float, start: float) -> list[float]:
    z, out = start, [start]
    for before, now in itertools.pairwise(q):
        z = min(1.0, max(-1.0, z + (now - before) / width))
        out.append(z)
    return out


@pytest.mark.parametrize("width", [1e-4, 1e-2, 1.0])
def test_stops_are_those_of_a_plain_loop(width: float) -> None:
    q = walk(3)
    shapes = FrictionShapes((f"stop{width:g}",), np.array([1.0, 0.2, 3.0]))
    start = np.array([[0.5, -1.0, 0.0]])
    found = shapes.stop_values_along(q, start)
    for j, scale in enumerate(shapes.scale):
        assert_allclose(found[:, 0, j], plain_loop(q[:, j], width * scale, start[0, j]), rtol=0.0, atol=1e-9)


def test_stops_go_on_from_piece_to_piece() -> None:
    q, shapes = walk(2), FrictionShapes(DEFAULT, np.ones(2))
    whole = shapes.stop_values_along(q, np.zeros((3, 2)))
    first = shapes.stop_values_along(q[:150], np.zeros((3, 2)))
    assert_allclose(shapes.stop_values_along(q[149:], first[-1])[1:], whole[150:], atol=1e-12)


@pytest.mark.parametrize("lead", [0, 1, 50, 10_000])
def test_the_lead_in_is_the_odd_reflection(lead: int) -> None:
    """The motion comes from its point reflection at the first sample, started at 0."""
    q, shapes = walk(2), FrictionShapes(("stop1e-3",), np.ones(2))
    state = shapes.initial_stop_states(q, lead)
    some = q[: lead + 1]
    for j in range(2):
        before = 2.0 * q[0, j] - some[::-1, j]
        assert_allclose(state[0, j], plain_loop(before, 1e-3, 0.0)[-1], atol=1e-9)
    if lead == 0:
        assert_allclose(state, 0.0)


def test_a_motion_in_one_direction_is_settled_by_its_lead_in() -> None:
    t = np.linspace(0.0, 1.0, 200)
    q = np.column_stack([t, -t])
    assert_allclose(FrictionShapes(("stop1e-2",), np.ones(2)).initial_stop_states(q, 100), [[1.0, -1.0]])


def test_widths_of_sliding_joints_scale_with_their_range() -> None:
    free, limited = arm(2, prismatic=True), arm(2, 0.3, prismatic=True)
    assert_allclose(joint_scales(limited), 0.6 / (2.0 * np.pi))
    assert_allclose(joint_scales(free), 1.0 / (2.0 * np.pi))
    assert_allclose(joint_scales(free, np.array([0.4, 0.0])), np.array([0.4, 1.0]) / (2.0 * np.pi))
    assert_allclose(joint_scales(limited, np.array([9.0, 9.0])), 0.6 / (2.0 * np.pi))
    assert_allclose(joint_scales(arm(2, 0.3)), 1.0)
    half = replace(free.links[0], limits=JointLimits(0.0, np.inf))
    assert_allclose(joint_scales(replace(free, links=(half, free.links[1]))), 1.0 / (2.0 * np.pi))


def test_shapes_of_sliding_joints_are_those_of_turning_ones_in_other_lengths() -> None:
    """A joint of 0.1 / 2 pi m per rad: shapes are the same, plain blocks stay in SI."""
    q = walk(1, 100)
    v = np.gradient(q, axis=0) * 100.0
    scale = np.array([0.1 / (2.0 * np.pi)])
    blocks = tuple(name for name in EVERY if name != "load")
    turning, sliding = FrictionShapes(blocks, np.ones(1)), FrictionShapes(blocks, scale)
    t = np.linspace(0.0, 1.0, 100)
    ours = sliding.column_values(t, q * scale, v * scale, sliding.stop_values_along(q * scale, np.zeros((6, 1))), None)
    theirs = turning.column_values(t, q, v, turning.stop_values_along(q, np.zeros((6, 1))), None)
    factor = []
    for name in blocks:
        power = {"viscous": 1, "asymmetry": 1, "spring": 1, "quadratic": 2}.get(name, 0)
        factor += [float(scale[0]) ** power] * len(find_friction_block(name).symbols)
    assert_allclose(ours[:, :, 0], theirs[:, :, 0] * factor, rtol=1e-9, atol=1e-12)


def test_blocks_are_their_formulas() -> None:
    q, v = np.array([[0.3], [-2.0]]), np.array([[0.7], [-0.2]])
    names = ("viscous", "coulomb", "offset", "tanh", "quadratic", "asymmetry", "stribeck", "spring", *HARMONICS)
    shapes = FrictionShapes(names, np.ones(1))
    values = shapes.column_values(np.arange(2.0), q, v, np.zeros((2, 0, 1)), None)[:, :, 0]
    x, w = q[:, 0], v[:, 0]
    dry = np.exp(-((w / 0.5) ** 2)) * np.sign(w)
    expected = [
        w, np.sign(w), np.ones(2), np.tanh(w / 0.1), w * np.abs(w), np.abs(w), dry, x,
        *(wave(k * x) for k in range(1, 7) for wave in (np.sin, np.cos)),
    ]  # fmt: skip
    assert_allclose(values.T, expected, atol=1e-14)


def test_load_friction_is_the_size_of_the_rigid_torque_times_a_stop() -> None:
    shapes, rigid = FrictionShapes(("load",), np.ones(1)), np.array([[-3.0], [2.0]])
    stops = np.array([[[0.5]], [[-1.0]]])
    t, still = np.arange(2.0), np.zeros((2, 1))
    values = shapes.column_values(t, still, still, stops, rigid)
    assert_allclose(values[:, 0, 0], [1.5, -2.0])
    with pytest.raises(ModelError, match="first estimate"):
        shapes.column_values(t, still, still, stops, None)


URDF = """<robot name="two"><link name="world"/>
<link name="1"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
<link name="4_1"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
<joint name="a" type="continuous"><parent link="world"/><child link="1"/><axis xyz="0 0 1"/></joint>
<joint name="b" type="continuous"><parent link="1"/><child link="4_1"/><axis xyz="1 0 0"/></joint>
</robot>"""


def table_of_12() -> Robot:
    return Robot.from_mdh([{"alpha": 0.3, "d": 0.1} for _ in range(12)])


@pytest.mark.parametrize("which", ["table", "urdf", "tree"])
def test_names_are_unique_over_all_blocks(which: str, tmp_path: Path) -> None:
    file = tmp_path / "two.urdf"
    file.write_text(URDF)
    robot = table_of_12() if which == "table" else dynid.load_robot(file) if which == "urdf" else random_tree(2)
    names = [*robot.parameter_names, *(column.name for column in friction_columns(robot, EVERY))]
    assert len(set(names)) == len(names)
    assert len(names) == len(robot.parameter_names) + robot.n * sum(len(find_friction_block(b).symbols) for b in EVERY)


@pytest.mark.parametrize("name", ["stop0", "stop", "stop-1", "stop1e999", "stopp", "Viscous", "stop1e-400", ""])
def test_unknown_blocks_are_refused(name: str) -> None:
    with pytest.raises(ModelError, match="no friction block"):
        find_friction_block(name)


COUPLING = np.array([[1.0, 0.0, 0.0], [0.4, 1.0, 0.0], [-0.3, 0.7, 1.0]])


@pytest.mark.parametrize("friction", [PLAIN, (*PLAIN, "load"), "auto"])
def test_friction_behind_a_coupled_transmission_is_exact(friction: str | tuple[str, ...]) -> None:
    """Motor positions m = C q; friction f(m') at the motors is C' f at the joints."""
    robot = dynid.load_robot("gautier3")
    motion = fourier_motion(robot)
    speed = motion.v @ COUPLING.T
    at_motors = np.array([1.5, 0.7, 0.3]) * speed + np.array([0.9, 0.4, 1.1]) * np.sign(speed) + [0.2, -0.3, 0.5]
    log = log_of(motion, torque(robot, motion) + at_motors @ COUPLING)
    log.coupling = COUPLING
    result = dynid.identify(robot, log, friction=friction)
    for symbol, values in (("Fv", [1.5, 0.7, 0.3]), ("Fc", [0.9, 0.4, 1.1]), ("Fo", [0.2, -0.3, 0.5])):
        assert_allclose([result.value(f"{symbol}{j}") for j in (1, 2, 3)], values, rtol=0.0, atol=1e-9)
    base = result.equation.base
    expected = dict(zip(base.names, base.values(robot.parameters), strict=True))
    found = [name for name in result.names if name in expected]
    assert_allclose([result.value(name) for name in found], [expected[name] for name in found], atol=1e-8)
    assert log.tau is not None
    assert_allclose(result.predict(motion), log.tau, rtol=1e-9, atol=1e-8)


def test_a_stop_is_identified_exactly() -> None:
    """Torque of a stop operator started by the same lead-in, beside the plain model."""
    robot = dynid.load_robot("gautier3")
    motion = fourier_motion(robot)
    shapes = FrictionShapes(("stop1e-2",), np.ones(3))
    stops = shapes.stop_values_along(motion.q, shapes.initial_stop_states(motion.q, 50))[:, 0]
    tau = torque(robot, motion) + stops * [3.0, -1.0, 2.0]
    result = dynid.identify(robot, log_of(motion, tau), friction=("viscous", "stop1e-2"))
    assert_allclose([result.value(f"Fs1e-2_{j}") for j in (1, 2, 3)], [3.0, -1.0, 2.0], rtol=0.0, atol=1e-9)
    assert_allclose(result.predict(motion), tau, rtol=1e-9, atol=1e-8)


def test_every_block_can_be_asked_for_at_once() -> None:
    robot = dynid.load_robot("gautier3")
    motion = fourier_motion(robot, duration=30.0)
    tau = torque(robot, motion)
    result = dynid.identify(robot, log_of(motion, tau), friction=(*DEFAULT, *OPTIONAL))
    assert_allclose(result.predict(motion), tau, rtol=1e-9, atol=1e-7)
    assert result.friction == (*DEFAULT, *OPTIONAL)


def test_a_motor_side_log_of_coupled_motors_is_exact(tmp_path: Path) -> None:
    """Everything recorded at the motors, m = G q and tau = G' tau_m, friction there: read with gear=G."""
    robot = dynid.load_robot("gautier3")
    motion = fourier_motion(robot)
    G = np.diag([100.0, 80.0, -50.0]) @ COUPLING
    speed = motion.v @ COUPLING.T
    tau = torque(robot, motion) + (2.0 * speed + 0.7 * np.sign(speed) + 0.3) @ COUPLING
    motors = [motion.q @ G.T, motion.v @ G.T, motion.a @ G.T, np.linalg.solve(G.T, tau.T).T]
    header = ",".join(["t", *(f"{symbol}{j}" for symbol in ("q", "v", "a", "tau") for j in (1, 2, 3))])
    file = tmp_path / "motors.csv"
    np.savetxt(file, np.column_stack([motion.t, *motors]), delimiter=",", header=header, comments="", fmt="%.17g")
    result = dynid.identify(robot, dynid.read_log(file, robot, gear=G), friction=PLAIN)
    for symbol, value in (("Fv", 2.0), ("Fc", 0.7), ("Fo", 0.3)):
        assert_allclose([result.value(f"{symbol}{j}") for j in (1, 2, 3)], value, rtol=0.0, atol=1e-8)
    assert_allclose(result.predict(motion), tau, rtol=1e-9, atol=1e-7)
