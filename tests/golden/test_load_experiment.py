"""The load experiment of Raucent et al. 1992, section 5.1, by joint torques: M l = 1.98918, M l^2 = 1.02244.

Only joint 3 of the PUMA 562 moves, by three sines, joint 2 stands at 0.3 rad. Links and load are given in the paper's
frames as m, m x, m y, m z, Ixx, Ixy, Iyy, Ixz, Iyz, Izz about the origin; the paper's x, y, z are our y, z, x. The load
is a point of M = 3.87 kg at l = 0.514 m.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from dynid.robot.inertia import SYMBOLS
from dynid.robot.motion import Motion
from dynid.robot.transform import Array

AMPLITUDES, FREQUENCIES, PHASES = (0.9, 0.35, 0.15), (1.9, 4.7, 8.3), (0.2, 1.0, 2.1)
Q2, RATE, SECONDS = 0.3, 100.0, 12.0
LINK_3 = (6.04, 0.0, 0.8, 0.802, 0.6, 0.0, 0.545, 0.0, -0.103, 0.1)
MASS, LENGTH = 3.87, 0.514
LOAD = (MASS, 0.0, 0.0, MASS * LENGTH, MASS * LENGTH**2, 0.0, MASS * LENGTH**2, 0.0, 0.0, 0.0)
FIRST_MOMENT, MOMENT = 1.98918, 1.02243852
OTHERS = ((13.0, 0, -0.5, 0, 1.0, 0, 1.0, 0, 0, 1.2), (17.4, 0, 1.0, 1.2, 1.5, 0, 1.0, 0, -0.3, 0.6))


def ours(p: tuple[float, ...]) -> Array:
    """Standard parameters in our frames, without rotor."""
    m, mx, my, mz, ixx, ixy, iyy, ixz, iyz, izz = p
    return np.array([izz, ixz, iyz, ixx, ixy, iyy, mz, mx, my, m, 0.0])


def experiment(friction: bool, noise: float = 0.0) -> tuple[dynid.Robot, dynid.Log, dynid.Log]:
    """The robot, and logs with and without the load; friction: Coulomb and viscous at every joint."""
    robot = dynid.load_robot("puma562")
    t = np.arange(int(RATE * SECONDS)) / RATE
    w, angle = np.array(FREQUENCIES), t[:, None] * FREQUENCIES + PHASES
    q, v, a = np.zeros((3, len(t), 3))
    q[:, 1] = Q2
    A = np.array(AMPLITUDES)
    q[:, 2], v[:, 2], a[:, 2] = np.sin(angle) @ A, (np.cos(angle) * w) @ A, -(np.sin(angle) * w**2) @ A
    assert_allclose((q[0, 2], v[0, 2], a[0, 2]), (0.6027986474, 1.936177741, -16.07128357), rtol=1e-9)
    W = dynid.regressor(robot, Motion(t, q, v, a)).matrix
    bare = np.concatenate([ours(p) for p in (*OTHERS, LINK_3)])
    full = bare + np.concatenate([np.zeros(22), ours(LOAD)])
    logs = []
    for seed, X in enumerate((full, bare)):
        tau = (W @ X).reshape(-1, 3) + (2.0 * np.sign(v) + 1.5 * v if friction else 0.0)
        tau += noise * tau.std(axis=0) * np.random.default_rng(seed).standard_normal(tau.shape)
        logs.append(dynid.Log(t, q, v=v, a=a, tau=tau, name=("loaded", "unloaded")[seed]))
    return robot, logs[0], logs[1]


@pytest.mark.parametrize("joints", [["3"], None])
@pytest.mark.parametrize("friction", [(), ("viscous", "coulomb"), "auto"])
def test_first_moment_and_moment_of_inertia_of_the_load(
    friction: str | tuple[str, ...], joints: list[str] | None
) -> None:
    robot, loaded, unloaded = experiment(friction=bool(friction))
    found = dynid.identify_payload(robot, loaded, unloaded, friction=friction, joints=joints)
    assert_allclose((found.value("MX"), found.value("ZZ")), (FIRST_MOMENT, MOMENT), rtol=1e-8)
    assert_allclose(found.value("MY"), 0.0, atol=1e-9)


@pytest.mark.parametrize(("friction", "joints"), [((), ["3"]), (("viscous", "coulomb"), ["3"]), ("auto", None)])
def test_the_rest_of_the_load_is_said_to_be_unknown(friction: str | tuple[str, ...], joints: list[str] | None) -> None:
    robot, loaded, unloaded = experiment(friction=bool(friction))
    found = dynid.identify_payload(robot, loaded, unloaded, friction=friction, joints=joints)
    assert found.names == ("ZZ", "MX", "MY")
    assert {item.name for item in found.unidentifiable} == set(SYMBOLS) - {"ZZ", "MX", "MY"}
    assert np.isnan(found.mass)
    assert np.isnan(found.com).all()
    assert np.isnan(found.inertia).all()
    for item in found.unidentifiable:
        assert any(item.name in text.split(" of the payload")[0].split(", ") for text in found.warnings)
        assert "move joint" in item.remedy or "use those of all joints" in item.remedy
    if joints is None:  # joints 1 and 2 stand: their torques would hold any static friction
        assert all("joint 1, 2 stands still" in note for note in found.notes)
        assert len(found.notes) == 2


def test_torques_of_standing_joints_without_friction_show_the_mass() -> None:
    """Gravity at joint 2 pulls at the mass; that its torque holds no friction must be stated."""
    robot, loaded, unloaded = experiment(friction=False)
    found = dynid.identify_payload(robot, loaded, unloaded, friction=())
    assert_allclose((found.mass, found.com[0]), (MASS, LENGTH), rtol=1e-8)


@pytest.mark.parametrize("friction", [(), ("viscous", "coulomb")])
def test_the_difference_of_two_results_tells_the_same(friction: tuple[str, ...]) -> None:
    robot, loaded, unloaded = experiment(friction=bool(friction))
    results = [dynid.identify(robot, log, friction=friction, joints=["3"]) for log in (loaded, unloaded)]
    assert_allclose(results[1].value("MX3"), 0.802, rtol=1e-8)
    assert_allclose(results[1].value("ZZ3"), 0.545, rtol=1e-8)
    found = dynid.payload_between(*results)
    assert_allclose((found.value("MX"), found.value("ZZ")), (FIRST_MOMENT, MOMENT), rtol=1e-8)
    assert found.names == ("ZZ", "MX")
    assert any("taken to be 0 of the payload" in text for text in found.warnings)


def test_the_load_gives_the_gain_of_joint_3() -> None:
    """Drives of wrong constants: joints 1 and 2 stand and stay unknown, joint 3 is found."""
    robot, loaded, unloaded = experiment(friction=True)
    wrong = [
        dynid.Log(log.t, log.q, v=log.v, a=log.a, tau=np.asarray(log.tau) / (1.0, 1.0, 1.05), name=log.name)
        for log in (loaded, unloaded)
    ]
    found = dynid.identify_gains(robot, wrong[0], wrong[1], ours(LOAD)[:10], friction=("viscous", "coulomb"))
    assert_allclose(found.value("3"), 1.05, rtol=1e-8)
    assert np.isnan(found.values[:2]).all()
    assert "does not reveal the gain of joint 1, 2" in found.warnings[0]


def test_with_noise_the_load_lies_within_three_deviations() -> None:
    robot, loaded, unloaded = experiment(friction=True, noise=0.01)
    found = dynid.identify_payload(robot, loaded, unloaded, friction=("viscous", "coulomb"), joints=["3"], gain_sigma=0)
    error = np.abs(found.values - (MOMENT, FIRST_MOMENT, 0.0))
    assert found.names == ("ZZ", "MX", "MY")
    assert np.all(error < 3.0 * found.sigma)
    assert np.all(found.sigma < 0.01)
