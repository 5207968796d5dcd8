"""The load experiment on a force plate (paper 004, section 5.3): wrenches, the load, offsets, uncertain gains."""

from __future__ import annotations

import numpy as np
import pytest

from dynid import (
    ForceSensor,
    Identification,
    Log,
    Motion,
    Robot,
    identify,
    identify_payload,
    joint_parameters,
    payload_between,
    simulate,
)
from dynid.robot.transform import Array
from loads import carrying
from plates import arm, reaction


def load_experiment() -> tuple[Robot, Motion, Array]:
    """Paper 004, section 5.3: only the third joint of the PUMA 562 moves; 3.87 kg are fixed at 0.514 m."""
    t = np.arange(1200) / 100.0
    A, w, p = np.array([0.9, 0.35, 0.15]), np.array([1.9, 4.7, 8.3]), np.array([0.2, 1.0, 2.1])
    q, v, a = (np.zeros((1200, 3)) for _ in range(3))
    q[:, 1] = 0.3
    phase = np.outer(t, w) + p
    q[:, 2], v[:, 2], a[:, 2] = np.sin(phase) @ A, np.cos(phase) @ (A * w), -np.sin(phase) @ (A * w**2)
    return arm("puma562"), Motion(t, q, v, a), np.array([3.87, 0.514])


def with_load(robot: Robot, mass: float, length: float) -> Robot:
    """Add a point mass on the x axis of the last link's frame."""
    S = mass * np.diag([length**2, 0.0, 0.0])
    J = (np.trace(S) * np.eye(3) - S)[np.triu_indices(3)]
    return carrying(robot, np.array([*J, mass * length, 0.0, 0.0, mass]))


def paper_values(p: list[float]) -> list[float]:
    """Ten parameters m, m r (xyz), K (xx xy yy xz yz zz) in the paper's axes; its z, x, y are our x, y, z."""
    m, mx, my, mz, xx, xy, yy, xz, yz, zz = p
    return [zz, xz, yz, xx, xy, yy, mz, mx, my, m]


def test_the_paper_s_robot_stands_as_it_should() -> None:
    """Wrenches of an independent program for the load experiment, at three instants."""
    robot, _, (M, length) = load_experiment()
    p1 = [13.0, 0, -0.5, 0, 1.0, 0, 1.0, 0, 0, 1.2]
    p2 = [17.4, 0, 1.0, 1.2, 1.5, 0, 1.0, 0, -0.3, 0.6]
    p3 = [6.04, 0.0, 0.8, 0.802, 0.6, 0.0, 0.545, 0.0, -0.103, 0.1]
    m, mx, my, mz, xx, xy, yy, xz, yz, zz = p1
    first = [xx, xy, xz, yy, yz, zz, mx, my, mz, m]  # link 1 has the paper's axes
    X = np.array([*first, 0.0, *paper_values(p2), 0.0, *paper_values(p3), 0.0])
    bare = robot.with_parameters(X)
    bare = bare.with_sensor(ForceSensor(position=np.array([0.0, 0.0, 0.002])))  # its shoulder is 0.670 m high
    loaded = with_load(bare, M, length)
    for q3, v3, a3, unloaded, full in (
        (0.6027986473956499, 1.9361777410347902, -16.07128356506154,
         [-10.344061528968641, 0.0, 365.73292903844805, 13.813377170773249, -38.226408346006636, 1.3284767300296383],
         [-36.00017164392356, 0.0, 424.1760859370765, 13.813377170773249, -105.20870535048066, 1.3284767300296383]),
        (-0.8705076794746124, -0.09664655581442112, -1.4615233930401104,
         [-0.9824603912952128, 0.0, 356.837069095926, 12.670891417556575, -8.5692967724327, 0.12617633454290136],
         [-3.4192316645578207, 0.0, 393.2160530762676, 12.670891417556575, -6.8049761652088065, 0.12617633454290136]),
    ):  # fmt: skip
        rows = (np.array([row]) for row in ([0.0, 0.3, q3], [0.0, 0.0, v3], [0.0, 0.0, a3]))
        motion = Motion(np.zeros(1), *rows)
        assert reaction(bare, motion)[0] == pytest.approx(unloaded, rel=1e-9, abs=1e-9)
        assert reaction(loaded, motion)[0] == pytest.approx(full, rel=1e-9, abs=1e-9)


def load_of(loaded: Identification, bare: Identification) -> tuple[Array, Array]:
    """M l and M l^2 with deviations, by the difference of two results on one plate."""
    a, b = joint_parameters(loaded), joint_parameters(bare)
    k = [a.names.index("MX3"), a.names.index("ZZ3")]
    common = a.systematic - b.systematic
    C = a.covariance_without_sensitivities + b.covariance_without_sensitivities + common.T @ common
    return (a.values - b.values)[k], np.sqrt(np.diag(C))[k]


def test_the_load_experiment() -> None:
    robot, motion, (M, length) = load_experiment()
    loaded = with_load(robot, M, length)
    results = [identify(r, simulate(r, motion), model="reaction") for r in (loaded, robot)]
    found, _ = load_of(*results)
    np.testing.assert_allclose(found, [1.98918, 1.02243852], atol=1e-9)
    both = [simulate(r, motion) for r in (loaded, robot)]
    for payload in (payload_between(*results), identify_payload(robot, *both, model="reaction")):
        assert payload.value("MX") == pytest.approx(1.98918, abs=1e-9)
        assert payload.value("ZZ") == pytest.approx(1.02243852, abs=1e-9)
        assert {"M", "MZ", "XX", "YY"} <= {item.name for item in payload.unidentifiable}  # one joint, tared plate
        assert np.isnan(payload.mass)


def test_offsets_of_the_plate_do_not_become_a_load() -> None:
    robot, motion, (M, length) = load_experiment()
    loaded = with_load(robot, M, length)
    logs = []
    for r, offset in ((loaded, 7.0), (robot, -20.0)):
        log = simulate(r, motion)
        assert log.reaction is not None
        logs.append(Log(log.t, log.q, v=log.v, a=log.a, reaction=log.reaction + offset))
    results = [identify(robot, log, model="reaction") for log in logs]
    np.testing.assert_allclose(load_of(*results)[0], [1.98918, 1.02243852], atol=1e-9)
    for payload in (payload_between(*results), identify_payload(robot, *logs, model="reaction")):
        assert payload.value("MX") == pytest.approx(1.98918, abs=1e-9)
        assert payload.value("ZZ") == pytest.approx(1.02243852, abs=1e-9)
    found = joint_parameters(results[0])
    assert np.isnan(found.values[found.names.index("MX2")])  # it holds the offset of a moment


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runs", "least", "most"), [(80, 0.87, 1.0), pytest.param(200, 0.90, 0.99, marks=pytest.mark.slow)]
)
def test_uncertain_gains_are_covered_by_the_deviations(runs: int, least: float, most: float) -> None:
    """Bounds that 95 % intervals miss in one of some hundred sets of runs."""
    robot, motion, (M, length) = load_experiment()
    loaded = with_load(robot, M, length)
    clean = [simulate(r, motion) for r in (loaded, robot)]
    on_plate = robot.with_sensor(ForceSensor(sensitivity_sigma=np.full(6, 0.01)))
    inside = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        gain = 1.0 + 0.01 * rng.standard_normal(6)  # one plate, both runs
        results = []
        for log in clean:
            assert log.reaction is not None
            peak = np.abs(log.reaction - log.reaction.mean(axis=0)).max()
            reading = gain * (log.reaction + 0.002 * peak * rng.standard_normal(log.reaction.shape))
            noisy = Log(log.t, log.q, v=log.v, a=log.a, reaction=reading)
            results.append(identify(on_plate, noisy, model="reaction"))
        payload = payload_between(*results)
        found = np.array([payload.value("MX"), payload.value("ZZ")])
        sigma = payload.sigma[[payload.names.index("MX"), payload.names.index("ZZ")]]
        inside.append(np.abs(found - [1.98918, 1.02243852]) < 1.96 * sigma)
    share = np.mean(inside, axis=0)
    assert (share >= least).all(), share
    assert (share <= most).all(), share
