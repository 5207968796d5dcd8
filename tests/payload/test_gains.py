"""Drive gains by a known payload: exact without noise, covered with it, and silent on joints that do not feel it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from dynid.cli.output.recordings import write_log
from dynid.robot.motion import Motion
from dynid.robot.transform import Array
from fourier import fourier_motion
from frictions import PLAIN, SYMBOL, plain_matrix, with_friction
from loads import LOAD, carrying, log_along, robot_with_friction, scaled, two_logs
from robots import random_tree

FACTORS = np.array([0.5, 2.0, 0.1, 3.0, 0.7, 0.02, 1.3])
"""Measured signal over true torque."""


def measured(robot: dynid.Robot, factors: Array, **options: float) -> tuple[dynid.Log, dynid.Log]:
    loaded, unloaded = two_logs(robot, LOAD, **options)  # type: ignore[arg-type]
    return scaled(loaded, factors), scaled(unloaded, factors)


def true_parameters(robot: dynid.Robot, names: tuple[str, ...]) -> Array:
    base = dynid.base_parameters(robot)
    values = dict(zip(base.names, base.values(robot.parameters), strict=True))
    for k in robot.active_links:
        for name, value in robot.links[k].friction:
            values[SYMBOL[name] + robot.links[k].label] = value
    return np.array([values[name.split("@")[0]] for name in names])  # friction is each log's own


@pytest.mark.parametrize("name", ["puma560", "panda", "gautier3"])
def test_gains_and_parameters_are_exact(name: str) -> None:
    robot = robot_with_friction(name)
    k = FACTORS[: robot.n]
    found = dynid.identify_gains(robot, *measured(robot, k), LOAD, friction=PLAIN)
    assert found.names == robot.joint_names
    assert_allclose(found.values, 1.0 / k, rtol=1e-8)
    assert_allclose(found.parameters, true_parameters(robot, found.parameter_names), rtol=1e-8, atol=1e-8)
    assert len(found.parameters) == dynid.base_parameters(robot).count + 2 * 3 * robot.n
    assert found.warnings == ()


def test_gains_of_a_scara_are_exact() -> None:
    robot = robot_with_friction("scara")
    k = FACTORS[:4]
    found = dynid.identify_gains(robot, *measured(robot, k), LOAD, friction=PLAIN)
    assert_allclose(found.values, 1.0 / k, rtol=1e-8)


def test_the_recipe_of_friction_serves_as_well() -> None:
    robot = robot_with_friction("puma560")
    k = FACTORS[:6]
    found = dynid.identify_gains(robot, *measured(robot, k), LOAD)
    assert_allclose(found.values, 1.0 / k, rtol=1e-8)


def test_one_arm_of_a_tree_does_not_tell_the_gains_of_the_other() -> None:
    """Joints that feel no load and share no parameter with those that do stay unknown."""
    for seed in range(40):
        robot = with_friction(random_tree(seed, joints=5, fixed_share=0.0), seed)
        parents = [link.parent for link in robot.links]
        roots = [k for k, parent in enumerate(parents) if parent < 0]
        if len(roots) > 1:
            break
    path, k = set(), 4
    while k >= 0:
        path.add(k)
        k = parents[k]
    factors = FACTORS[:5]
    logs = (
        scaled(log_along(carrying(robot, LOAD, 4), fourier_motion(robot, seed=2)), factors),
        scaled(log_along(robot, fourier_motion(robot, seed=1), seed=1), factors),
    )
    found = dynid.identify_gains(robot, *logs, LOAD, link=robot.links[4].name, friction=PLAIN)
    root = next(k for k in path if parents[k] < 0)
    elsewhere = [k for k in range(5) if _root(parents, k) != root]
    assert elsewhere
    assert np.isnan(found.values[elsewhere]).all()
    shown = np.isfinite(found.values)
    assert shown[sorted(path)].any()
    assert_allclose(found.values[shown], 1.0 / factors[shown], rtol=1e-8)
    assert any(
        text.startswith("the payload does not reveal the gain of joint") and robot.joint_names[elsewhere[0]] in text
        for text in found.warnings
    )
    assert not any(name.split("@")[0].endswith(robot.links[elsewhere[0]].label) for name in found.parameter_names)


def _root(parents: list[int], k: int) -> int:
    while parents[k] >= 0:
        k = parents[k]
    return k


def test_a_load_on_the_axis_of_the_only_joint_reveals_nothing() -> None:
    """One turning joint, a point mass on its axis: no torque changes, so the scale is free."""
    robot = dynid.Robot.from_mdh([{"alpha": 1.2}])
    robot = with_friction(robot.with_parameters(np.array([0, 0, 0, 0, 0, 0.4, 0.3, 0.1, 0.2, 2.0, 0.1])))
    load = dynid.payload_parameters(1.5, (0.0, 0.0, 0.3))
    loaded = log_along(carrying(robot, load), fourier_motion(robot, seed=2))
    unloaded = log_along(robot, fourier_motion(robot, seed=1), seed=1)
    found = dynid.identify_gains(robot, loaded, unloaded, load, friction=PLAIN)
    assert np.isnan(found.values).all()
    assert "off its axis" in found.warnings[0]
    off = dynid.payload_parameters(1.5, (0.2, 0.0, 0.3))
    loaded = log_along(carrying(robot, off), fourier_motion(robot, seed=2))
    assert_allclose(dynid.identify_gains(robot, loaded, unloaded, off, friction=PLAIN).values, 1.0, rtol=1e-8)


def test_a_negative_gain_is_found_and_told() -> None:
    robot = robot_with_friction("gautier3")
    k = np.array([1.0, -2.0, 0.5])
    found = dynid.identify_gains(robot, *measured(robot, k, noise=0.02), LOAD, friction=PLAIN)
    assert_allclose(found.values, 1.0 / k, rtol=0.05)
    assert found.warnings == (
        f"the gain of joint 2 is negative ({found.values[1]:.4g}): its signal has the opposite sign",
    )


@pytest.mark.parametrize("name", ["puma560", "panda", "scara"])
def test_errors_lie_within_three_deviations(name: str) -> None:
    """Noise on torques and positions."""
    robot = robot_with_friction(name)
    k, distances = FACTORS[: robot.n], []
    for seed in range(4):
        logs = measured(robot, k, seed=seed, noise=0.03, q_noise=1e-4, motion=seed)
        found = dynid.identify_gains(robot, *logs, LOAD, friction=PLAIN)
        distances.append(np.abs(found.values - 1.0 / k) / found.sigma)
        assert np.all(found.values * k > 0.8)
    x = np.concatenate(distances)
    assert np.mean(x < 3.0) >= 0.97
    assert np.sqrt(np.mean(x**2)) < 1.5


@pytest.mark.slow
def test_intervals_cover() -> None:
    """90 to 99 % of 100 runs, gains and parameters."""
    robot = robot_with_friction("gautier3")
    k, hits, parameters = FACTORS[:3], [], []
    for seed in range(100):
        logs = measured(robot, k, seed=seed, rate=25.0, noise=0.05)
        found = dynid.identify_gains(robot, *logs, LOAD, friction=PLAIN, cutoff=4.0)
        low, high = found.intervals.T
        hits.append((low <= 1.0 / k) & (high >= 1.0 / k))
        error = np.abs(found.parameters - true_parameters(robot, found.parameter_names))
        parameters.append(error <= found.quantile * found.parameter_sigma)
    assert 0.90 <= np.mean(hits) <= 0.99
    assert np.mean(hits, axis=0).min() >= 0.88
    assert 0.90 <= np.mean(parameters) <= 0.99


@pytest.mark.slow
def test_intervals_hold_between_many_pairs() -> None:
    """All robots and standards together; one of three joints, whose gains err alike, is more on the safe side."""
    found = [
        coverage_between_pairs(name, 40, known) for name in ("gautier3", "puma560") for known in ("payload", "mass")
    ]
    assert 0.93 <= np.mean([share for share, _ in found]) <= 0.985, found
    assert min(share for share, _ in found) >= 0.90, found
    assert max(error for _, error in found) < 0.05


def naive(robot: dynid.Robot, logs: tuple[dynid.Log, dynid.Log]) -> Array:
    """Gains with the noisy signal as a regressor: W x + f - g y = - [loaded] W K p."""
    base = dynid.base_parameters(robot)
    names = (*base.names, *(SYMBOL[name] + str(j) for name in PLAIN for j in (1, 2, 3)))
    rows, right = [], []
    for log, carries in zip(logs, (True, False), strict=True):
        assert log.v is not None
        assert log.a is not None
        assert log.tau is not None
        W = plain_matrix(robot, Motion(log.t, log.q, log.v, log.a), names)
        signal = -log.tau[:, :, None] * np.eye(3)
        rows.append(np.concatenate([W, signal], axis=2).reshape(-1, len(names) + 3))
        shift = base.matrix[:, 22:32] @ LOAD if carries else np.zeros(base.count)
        right.append(-(W[:, :, : base.count] @ shift).ravel())
    return np.asarray(np.linalg.lstsq(np.concatenate(rows), np.concatenate(right), rcond=None)[0][-3:])


def test_strong_noise_does_not_bias_the_gains() -> None:
    """Signals as regressors make gains too small, by as much as the noise; here they are right on average."""
    robot = robot_with_friction("gautier3")
    k, found, biased = FACTORS[:3], [], []
    for seed in range(12):
        logs = measured(robot, k, seed=seed, rate=25.0, noise=0.3)
        options = {"friction": PLAIN, "cutoff": 4.0, "friction_per_log": False}  # as the comparison has it
        found.append(1.0 / dynid.identify_gains(robot, *logs, LOAD, **options).values / k)  # type: ignore[arg-type]
        biased.append(naive(robot, logs) * k)
    assert np.all(np.abs(np.mean(found, axis=0) - 1.0) < 3.0 * np.std(found, axis=0) / np.sqrt(12))
    assert np.all(np.mean(biased, axis=0) < 0.6)


@pytest.mark.parametrize("name", ["puma560", "panda", "gautier3"])
def test_the_mass_alone_gives_gains_and_the_rest_of_the_payload(name: str) -> None:
    robot = robot_with_friction(name)
    k = FACTORS[: robot.n]
    found = dynid.identify_gains(robot, *measured(robot, k), mass=LOAD[9], friction=PLAIN)
    assert_allclose(found.values, 1.0 / k, rtol=1e-7)
    assert_allclose(found.payload, LOAD, rtol=1e-6, atol=1e-7)
    assert found.payload_sigma[9] == 0.0
    assert found.warnings == ()


@pytest.mark.slow
def test_several_payloads_of_known_mass_or_known_altogether() -> None:
    robot = robot_with_friction("puma560")
    k = FACTORS[:6]
    loaded, unloaded = measured(robot, k)
    other = dynid.payload_parameters(4.0, (-0.05, 0.02, 0.2), (0.01, 0.0, 0.001, 0.015, 0.0, 0.02))
    second = scaled(two_logs(robot, other, motion=5)[0], k)
    masses = dynid.identify_gains(robot, [loaded, second], unloaded, mass=[2.0, 4.0], friction=PLAIN)
    known = dynid.identify_gains(robot, [loaded, second], unloaded, [LOAD, other], friction=PLAIN)
    for found in (masses, known):
        assert_allclose(found.values, 1.0 / k, rtol=1e-7)
        assert_allclose(found.payload, [LOAD, other], rtol=1e-6, atol=1e-7)
    wrong = dynid.identify_gains(robot, [loaded, second], unloaded, mass=2.0, friction=PLAIN)  # as if it were one
    assert np.abs(wrong.values * k - 1.0).max() > 0.01


@pytest.mark.parametrize("loads", [0, 1])
def test_a_joint_of_known_gain_is_a_standard_too(loads: int) -> None:
    robot = robot_with_friction("puma560")
    k = FACTORS[:6]
    loaded, unloaded = measured(robot, k)
    found = dynid.identify_gains(robot, [loaded][:loads], unloaded, reference={"2": 1.0 / k[1]}, friction=PLAIN)
    assert_allclose(found.values, 1.0 / k, rtol=1e-7)
    assert found.sigma[1] == 0.0
    assert found.payload.shape == ((10,) if loads else (0, 10))
    if loads:
        assert_allclose(found.payload, LOAD, rtol=1e-6, atol=1e-7)
    loaded, unloaded = measured(robot, k / k[1])  # a torque sensor at joint 2
    assert_allclose(
        dynid.identify_gains(robot, loaded, unloaded, reference="2", friction=PLAIN).values, k[1] / k, rtol=1e-7
    )


def unmodelled(robot: dynid.Robot, p: Array, seed: int, rng: np.random.Generator) -> dynid.Log:
    """A recording with friction that plain friction lacks: temperature, Stribeck's, load-dependent and cogging."""
    warm = rng.uniform(0.8, 1.2)
    links = [replace(link, friction=tuple((name, warm * x) for name, x in link.friction)) for link in robot.links]
    motion = fourier_motion(robot, seed=seed, rate=50.0, duration=20.0)
    log = dynid.simulate(carrying(replace(robot, links=tuple(links)), p), motion)
    bare = replace(robot, links=tuple(replace(link, friction=()) for link in robot.links))
    rigid = dynid.simulate(carrying(bare, p), motion).tau
    assert log.tau is not None
    assert rigid is not None
    coulomb = np.array([dict(robot.links[k].friction)["coulomb"] for k in robot.active_links])
    tau = log.tau + 0.3 * coulomb * np.exp(-((motion.v / 0.1) ** 2)) * np.tanh(motion.v / 0.01)
    tau += 0.03 * np.abs(rigid) * np.tanh(motion.v / 0.02) + 0.1 * coulomb * np.sin(7.0 * motion.q + seed % 3)
    tau += 0.01 * rigid.std(axis=0) * rng.standard_normal(tau.shape)
    return dynid.Log(motion.t, motion.q, v=motion.v, a=motion.a, tau=tau, name=f"run {seed}")


def coverage_between_pairs(name: str, pairs: int, known: str) -> tuple[float, float]:
    """Share of gains inside their intervals over pairs of recordings, and the median relative error."""
    robot, hits, errors = robot_with_friction(name), [], []
    for seed in range(pairs):
        rng = np.random.default_rng(seed)
        gains = np.exp(rng.uniform(-2.0, 2.0, robot.n))
        load = dynid.payload_parameters(
            rng.uniform(2.0, 6.0),
            rng.uniform(-0.1, 0.1, 3) + np.array([0.0, 0.0, 0.1]),
            (0.02, 0.001, -0.002, 0.03, 0.001, 0.015),
        )
        loaded = scaled(unmodelled(robot, load, 2 * seed + 1, rng), 1.0 / gains)
        unloaded = scaled(unmodelled(robot, np.zeros(10), 2 * seed, rng), 1.0 / gains)
        standard = {"payload": load} if known == "payload" else {"mass": load[9]}
        found = dynid.identify_gains(robot, loaded, unloaded, friction=PLAIN, cutoff=5.0, **standard)
        hits.append((found.intervals[:, 0] <= gains) & (gains <= found.intervals[:, 1]))
        errors.append(np.abs(found.values / gains - 1.0))
    return float(np.mean(hits)), float(np.median(errors))


@pytest.mark.parametrize("known", ["payload", "mass"])
def test_intervals_hold_between_pairs_with_friction_that_the_model_lacks(known: str) -> None:
    """Fixed seeds; the slow test counts."""
    share, error = coverage_between_pairs("gautier3", 10, known)
    assert share >= 0.8
    assert error < 0.05


def test_gains_go_into_read_log(tmp_path: Path) -> None:
    robot = robot_with_friction("gautier3")
    k = FACTORS[:3]
    loaded, unloaded = measured(robot, k)
    found = dynid.identify_gains(robot, loaded, unloaded, LOAD, friction=PLAIN, friction_per_log=False)
    file = tmp_path / "log.csv"
    write_log(file, unloaded)
    result = dynid.identify(robot, dynid.read_log(file, robot, gain=found.values), friction=PLAIN)
    place = [found.parameter_names.index(name) for name in result.names]
    assert_allclose(result.values, found.parameters[place], rtol=1e-6, atol=1e-6)


def test_facts_are_json() -> None:
    robot = robot_with_friction("gautier3")
    found = dynid.identify_gains(robot, *measured(robot, FACTORS[:3]), LOAD, friction=PLAIN)
    data = json.loads(found.to_json())
    assert_allclose(data["values"], found.values)
    assert data["names"] == ["1", "2", "3"]
    assert found.value("2") == found.values[1]
    assert "drive gains" in str(found)
    with pytest.raises(dynid.DynidError, match="no joint 'x'"):
        found.value("x")


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (lambda: dynid.payload_parameters(-1.0, (0.0, 0.0, 0.1)), "mass of the payload must be positive"),
        (lambda: dynid.payload_parameters(1.0, (0.0, 0.1)), "com of the payload"),
        (lambda: dynid.payload_parameters(1.0, (0, 0, 0), (1.0, 0, 0, 1.0, 0, 3.0)), "physically impossible"),
        (lambda: dynid.payload_parameters(1.0, (0, 0, 0), [[1, 2, 0], [0, 1, 0], [0, 0, 1]]), "symmetric"),
        (lambda: [np.nan] * 10, "parameters of the payload"),
        (lambda: [0.0] * 9, "parameters of the payload"),
    ],
)
def test_impossible_payloads_are_refused(load: object, words: str) -> None:
    robot = robot_with_friction("gautier3")
    loaded, unloaded = measured(robot, np.ones(3), rate=25.0)
    with pytest.raises(dynid.DynidError, match=words):
        dynid.identify_gains(robot, loaded, unloaded, load(), friction=PLAIN)  # type: ignore[operator]


def code_of(**standard: object) -> str:
    """Code of the error that this standard of the torques gives."""
    robot = robot_with_friction("gautier3")
    loaded, unloaded = measured(robot, np.ones(3), rate=25.0)
    with pytest.raises(dynid.DynidError) as error:
        dynid.identify_gains(robot, loaded, unloaded, friction=PLAIN, **standard)  # type: ignore[arg-type]
    return error.value.code


def test_standards_that_are_none_are_refused() -> None:
    assert code_of() == "nothing_to_measure_by"
    assert code_of(payload=LOAD, mass=2.0) == "payload_and_mass"
    assert code_of(mass=-1.0) == "payload_mass_not_positive"
    assert code_of(mass="two") == code_of(mass=np.nan) == code_of(mass=True) == "invalid_payload_values"
    assert code_of(mass=[1.0, 2.0]) == code_of(payload=[LOAD, LOAD]) == code_of(mass=[]) == "payloads_per_log"
    assert code_of(reference="elbow") == "unknown_joint"
    assert code_of(reference={"2": 0.0}) == "reference_gain_invalid"
    assert code_of(reference=["2"]) == "reference_malformed"


def test_gains_that_cannot_be_are_named() -> None:
    robot = robot_with_friction("gautier3")
    loaded, unloaded = measured(robot, np.ones(3), rate=25.0, noise=0.01)

    def codes(loaded: dynid.Log, unloaded: dynid.Log, mass: float = 2.0) -> list[str]:
        found = dynid.identify_gains(robot, loaded, unloaded, mass=mass, friction=PLAIN)
        assert all(warning.remedy for warning in found.warnings)
        return [warning.code for warning in found.warnings]

    assert codes(loaded, unloaded) == []
    assert codes(unloaded, loaded) == ["gains_all_negative"]
    assert codes(loaded, unloaded, mass=2000.0) == ["payload_mass_implausible"]  # in grams
    milliamperes = np.array([1.0, 1.0, 1000.0])
    assert codes(scaled(loaded, milliamperes), scaled(unloaded, milliamperes)) == ["gain_far_from_others"]
    nothing = two_logs(robot, np.zeros(10), rate=25.0, noise=0.01)
    assert set(codes(*nothing)) & {"gain_hardly_known", "gain_not_revealed"}
