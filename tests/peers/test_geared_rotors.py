"""Declared rotors against pinocchio, where each is a body of its own, geared to its joint."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid import (
    ForceSensor,
    Rotor,
    Sequential,
    export,
    identify,
    joint_parameters,
    load_robot,
    physical_parameters,
    simulate,
    verify,
)
from dynid.dynamics.kernels.links import angular_motion, link_poses
from dynid.dynamics.models import rotor_torques
from dynid.dynamics.scene import Stage, standard_columns
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from fourier import fourier_motion
from plates import ANY, arm
from robots import coupled_tree, random_tree

pinocchio = pytest.importorskip("pinocchio")


def geared_torques(robot: Robot, motion: Motion) -> tuple[Array, Array]:
    """Torques (N, n) and moment of the base (N, 3): every rotor a body on its carrier that turns n times as fast.

    A rotor that does not spin is part of its carrier, so its inertia about its axis is taken from there. Links are
    without Ia; the tree's torques are projected with G, d(all joints)/d(robot's joints).
    """
    assert robot.sensor is not None
    model, placed = pinocchio.Model(), {-1: 0}
    model.gravity.linear = robot.gravity
    parent = {link.joint: link.parent for link in robot.links}
    for k in robot.topological_order:
        link = robot.links[k]
        kind = (
            pinocchio.JointModelRevoluteUnaligned if link.kind == "revolute" else pinocchio.JointModelPrismaticUnaligned
        )
        where = pinocchio.SE3(link.placement.rotation, link.placement.translation)
        placed[k] = model.addJoint(placed[link.parent], kind(np.array(link.axis)), where, link.joint)
        x = link.inertia
        c = x[6:9] / x[9]
        S = pinocchio.skew(c)
        about = np.array([[x[0], x[1], x[2]], [x[1], x[3], x[4]], [x[2], x[4], x[5]]]) + x[9] * S @ S
        carried = [r for r in robot.sensor.rotors if parent[r.joint] == k]
        about -= sum((r.inertia * np.outer(r.axis, r.axis) for r in carried), np.zeros((3, 3)))
        model.appendBodyToJoint(placed[k], pinocchio.Inertia(x[9], c, about), pinocchio.SE3.Identity())
    place = {robot.links[k].joint: placed[k] - 1 for k in robot.active_links}
    G = np.zeros((model.nv + len(robot.sensor.rotors), robot.n))
    for j, name in enumerate(robot.joint_names):
        G[place[name], j] = 1.0
    for rotor in robot.sensor.rotors:
        axis = np.asarray(rotor.axis)
        kind = pinocchio.JointModelRevoluteUnaligned(axis)
        new = model.addJoint(placed[parent[rotor.joint]], kind, pinocchio.SE3.Identity(), f"rotor {rotor.joint}")
        needle = pinocchio.Inertia(0.0, np.zeros(3), rotor.inertia * np.outer(axis, axis))
        model.appendBodyToJoint(new, needle, pinocchio.SE3.Identity())
        G[model.joints[new].idx_v, robot.joint_names.index(rotor.joint)] = rotor.ratio
    data = model.createData()
    tau, moment = np.zeros(motion.q.shape), np.zeros((len(motion), 3))
    for n, (q, v, a) in enumerate(zip(motion.q, motion.v, motion.a, strict=True)):
        tau[n] = G.T @ pinocchio.rnea(model, data, G @ q, G @ v, G @ a)
        on_base = [i for i in range(1, model.njoints) if model.parents[i] == 0]
        moment[n] = sum(data.liMi[i].act(data.f[i]).angular for i in on_base)
    return tau, moment


def torques(robot: Robot, motion: Motion) -> Array:
    """Simulated, without noise."""
    tau = simulate(robot, motion).tau
    assert tau is not None
    return tau


def with_rotors(robot: Robot, sensor: ForceSensor | None = None) -> Robot:
    """Every joint with a motor behind a gear of its own, on any axis."""
    rng = np.random.default_rng(4)
    rotors = [
        Rotor(
            name, float(rng.choice([-1, 1]) * rng.uniform(20, 120)), float(rng.uniform(1e-5, 3e-4)), rng.normal(size=3)
        )
        for name in robot.joint_names
    ]
    own = sensor or ForceSensor()
    return robot.with_sensor(
        ForceSensor(own.position, own.rotation, own.reference, own.sense, own.channels, rotors=tuple(rotors))
    )


@pytest.mark.parametrize("name", ["rx90", "panda", 3, 5])
def test_torques_and_moments_are_those_of_geared_bodies(name: str | int) -> None:
    robot = with_rotors(arm(name) if isinstance(name, str) else random_tree(name, joints=5))
    motion = fourier_motion(robot)
    log, (tau, moment) = simulate(robot, motion), geared_torques(robot, motion)
    np.testing.assert_allclose(torques(robot, motion), tau, atol=1e-10 * np.abs(tau).max())
    assert log.reaction is not None
    np.testing.assert_allclose(log.reaction[:, 3:], moment, atol=1e-10 * np.abs(moment).max())


@pytest.mark.parametrize("model", ["torque", "reaction", "torque+reaction", "power", "energy", "momentum"])
def test_all_models_predict_the_torques_of_geared_bodies(model: str) -> None:
    robot = with_rotors(arm("rx90"), ANY)
    fresh = fourier_motion(robot, seed=9)
    expected = geared_torques(robot, fresh)[0]
    result = identify(robot, simulate(robot, fourier_motion(robot)), model=model, friction=())
    found = joint_parameters(result).torque(fresh) if model == "reaction" else result.predict(fresh)
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())
    bodies = physical_parameters(result).robot
    np.testing.assert_allclose(torques(bodies, fresh), expected, atol=1e-8 * np.abs(expected).max())
    assert not bodies.warnings
    assert bodies.declared_rotors == robot.declared_rotors


def test_a_table_keeps_the_rotors_and_other_files_say_what_they_leave_out(tmp_path: Path) -> None:
    robot = with_rotors(arm("rx90"))
    fresh = fourier_motion(robot, seed=9)
    result = identify(robot, simulate(robot, fourier_motion(robot)), model="torque+reaction", friction=())
    assert not export(physical_parameters(result), tmp_path / "a.toml").warnings
    expected = geared_torques(robot, fresh)[0]
    again = torques(load_robot(tmp_path / "a.toml", snap=False), fresh)
    np.testing.assert_allclose(again, expected, atol=1e-8 * np.abs(expected).max())
    for subject, name in ((physical_parameters(result), "a.xml"), (result, "b.toml"), (result, "b.c")):
        done = export(subject, tmp_path / name)
        assert any("spin of the rotors of 1, 2, 3, 4, 5, 6 is left out" in text for text in done.warnings)
        assert not name.endswith(".toml") or verify(done.path, subject).error < 1e-9
        spin = rotor_torques(Stage.for_robot(robot, standard_columns(robot)).scene_along(fresh))  # all that is left out
        np.testing.assert_allclose(
            done.subject.rigid_torques(fresh) + spin, expected, atol=1e-8 * np.abs(expected).max()
        )


def test_online_and_robust_estimates_know_the_spin() -> None:
    robot = with_rotors(arm("rx90"))
    motion, fresh = fourier_motion(robot), fourier_motion(robot, seed=9)
    log, expected = simulate(robot, motion), geared_torques(robot, fresh)[0]
    online = Sequential(robot, friction=())
    assert log.tau is not None
    online.update_many(motion.q, motion.v, motion.a, log.tau)
    batch = identify(robot, log, friction=(), estimator="recursive")
    np.testing.assert_allclose(online.values, batch.values, atol=1e-9)
    for estimator in ("recursive", "huber"):
        found = identify(robot, log, friction=(), estimator=estimator).predict(fresh)
        np.testing.assert_allclose(found, expected, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("seed", [1, 2])
def test_power_of_the_spin_is_the_change_of_its_energy(seed: int) -> None:
    """Also where joints follow others: v.tau = d/dt (n J qd u.w), by differences along a smooth motion."""
    robot = with_rotors(coupled_tree(seed))
    motion = fourier_motion(robot, rate=2000.0, duration=1.0)
    scene = Stage.for_robot(robot, standard_columns(robot)).scene_along(motion)
    poses = link_poses(robot, scene.q)
    omega = angular_motion(robot, poses, scene.v, scene.a)[0]
    energy = np.zeros(len(motion))
    assert robot.sensor is not None
    for rotor in robot.sensor.rotors:
        carrier = next(link.parent for link in robot.links if link.joint == rotor.joint)
        spin = rotor.inertia * rotor.ratio * motion.v[:, robot.joint_names.index(rotor.joint)]
        energy += spin * ((poses.rotation[carrier] @ rotor.axis) * omega[carrier]).sum(axis=1)
    power = (motion.v * rotor_torques(scene)).sum(axis=1)
    rate = np.gradient(energy, motion.t, edge_order=2)
    np.testing.assert_allclose(power[2:-2], rate[2:-2], atol=1e-4 * np.abs(rate).max())
