"""Without noise the estimate is the truth, whatever the robot, the columns and the filter."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from fourier import fourier_motion
from frictions import PLAIN, torque, truth, with_friction
from robots import coupled_tree, random_motion, random_tree


@pytest.mark.parametrize("name", ["puma560", "scara", "gautier3"])
@pytest.mark.parametrize("friction", [(), PLAIN, "auto"])
def test_published_robots_are_exact(name: str, friction: str | tuple[str, ...]) -> None:
    robot = dynid.load_robot(name)
    result = dynid.identify(robot, dynid.simulate(robot, fourier_motion(robot)), friction=friction)
    assert_allclose(result.values, truth(robot, result), rtol=0.0, atol=1e-9)
    assert result.base_rank == result.equation.base.count
    assert result.verdict.level == "good"
    assert result.warnings == ()


@pytest.mark.parametrize("seed", range(8))
def test_trees_with_friction_are_exact(seed: int) -> None:
    robot = with_friction(random_tree(seed, joints=5), seed)
    result = dynid.identify(robot, dynid.simulate(robot, fourier_motion(robot, seed=seed)), friction=PLAIN)
    lost = {note.facts["parameter"] for note in result.notes if note.code == "collinear_parameter"}
    if not lost:  # an offset may join a mass; then the values are those of the sum
        assert_allclose(result.values, truth(robot, result), rtol=0.0, atol=1e-9)
    motion = random_motion(robot, samples=50, seed=seed)
    assert_allclose(result.predict(motion), torque(robot, motion), rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_closed_trees_are_exact(seed: int) -> None:
    robot = with_friction(coupled_tree(seed), seed)
    motion = fourier_motion(robot, seed=seed, duration=20.0)
    result = dynid.identify(robot, dynid.simulate(robot, motion), friction=PLAIN)
    assert_allclose(result.predict(motion), torque(robot, motion), rtol=1e-9, atol=1e-8)
    if all(note.code == "validation_same_motion" for note in result.notes):
        assert_allclose(result.values, truth(robot, result), rtol=0.0, atol=1e-8)


@pytest.mark.parametrize("name", ["sr400", "slider_crank", "hpr"])
def test_bundled_loops_are_exact(name: str) -> None:
    robot = dynid.load_robot(name)
    rng = np.random.default_rng(1)
    robot = robot.with_parameters(rng.uniform(0.2, 2.0, len(robot.parameter_names)))
    zeros = [robot.parameter_names.index(zero) for zero in robot.known_zeros]
    X = robot.parameters.copy()
    X[zeros] = 0.0
    robot = robot.with_parameters(X)
    motion = fourier_motion(robot, size=0.1 if name == "slider_crank" else 0.3, duration=20.0)
    result = dynid.identify(robot, dynid.simulate(robot, motion), friction=())
    base = result.equation.base
    expected = dict(zip(base.names, base.values(robot.parameters), strict=True))
    assert_allclose(result.values, [expected[name] for name in result.names], rtol=0.0, atol=1e-8)


def test_independent_postures_need_no_time_series() -> None:
    """Rows of random postures, q, v and a given, are used as they are."""
    robot = dynid.load_robot("puma560")
    log = dynid.simulate(robot, random_motion(robot, samples=300))
    result = dynid.identify(robot, log, friction=())
    assert result.cutoff is None
    assert_allclose(result.values, truth(robot, result), rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("cutoff", [5.0, 15.0])
def test_the_same_filter_on_both_sides_keeps_the_truth(cutoff: float) -> None:
    robot = with_friction(dynid.load_robot("puma560"))
    log = dynid.simulate(robot, fourier_motion(robot))
    result = dynid.identify(robot, log, friction=PLAIN, cutoff=cutoff)
    assert result.cutoff == cutoff
    assert_allclose(result.values, truth(robot, result), rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("estimator", ["ols", "wls", "ridge"])
def test_estimators_agree_without_noise(estimator: str) -> None:
    robot = with_friction(dynid.load_robot("gautier3"))
    log = dynid.simulate(robot, fourier_motion(robot))
    result = dynid.identify(robot, log, friction=PLAIN, estimator=estimator)
    assert_allclose(result.values, truth(robot, result), rtol=0.0, atol=1e-7)
