"""Criteria: true figures against plain formulas, slopes against central differences, stand-ins that approach them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from dynid import Motion, load_robot, regressor
from dynid.errors import ExcitationError
from dynid.excitation.criteria import (
    NAMES,
    BaseRows,
    Prediction,
    condition_number,
    find_criterion,
    random_states,
    scaling_number,
    torque_scales,
)
from dynid.robot.robot import Limits
from dynid.robot.transform import Array


def matrix(seed: int) -> tuple[Array, NDArray[np.bool_]]:
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((40, 7)) * np.geomspace(1.0, 20.0, 7)
    mask = rng.random(W.shape) < 0.8
    W = np.where(mask, np.sign(W) * np.maximum(np.abs(W), 0.05), 0.0)
    return W, mask


TARGET = np.random.default_rng(9).standard_normal((11, 7)) * np.geomspace(0.1, 3.0, 7)


def truth(name: str, W: Array, mask: NDArray[np.bool_], noise: Array) -> float:
    covariance = np.linalg.inv((W / noise[:, None]).T @ (W / noise[:, None]))
    G = W.T @ W
    return float(
        {
            "condition": np.linalg.cond(W),
            "frobenius": np.linalg.norm(G) * np.linalg.norm(np.linalg.inv(G)),
            "scaling": np.abs(W[mask]).max() / np.abs(W[mask]).min(),
            "condition+scaling": 2.0 * np.linalg.cond(W) + 0.5 * np.abs(W[mask]).max() / np.abs(W[mask]).min(),
            "a": np.trace(covariance),
            "d": np.linalg.slogdet(covariance)[1],
            "e": np.linalg.eigvalsh(covariance)[-1],
            "v": np.mean([u @ covariance @ u for u in TARGET]) * len(TARGET),
        }[name]
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(5))
def test_true_figures(name: str, seed: int) -> None:
    W, mask = matrix(seed)
    noise = np.random.default_rng(seed).uniform(0.5, 2.0, len(W))
    found = find_criterion(name, weights=(2.0, 0.5), mask=mask, noise=noise, target=TARGET).value(W)
    assert found == pytest.approx(truth(name, W, mask, noise), rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sharpness", [2.0, 8.0, 64.0])
def test_slopes_equal_central_differences(name: str, sharpness: float) -> None:
    W, mask = matrix(1)
    noise = np.random.default_rng(1).uniform(0.5, 2.0, len(W))
    criterion = find_criterion(name, weights=(2.0, 0.5), mask=mask, noise=noise, target=TARGET)
    slope = criterion.smooth_value(W, sharpness).gradient
    rng = np.random.default_rng(2)
    for _ in range(5):
        D = rng.standard_normal(W.shape) * mask
        step = 1e-6
        numeric = (
            criterion.smooth_value(W + step * D, sharpness).value
            - criterion.smooth_value(W - step * D, sharpness).value
        ) / (2 * step)
        assert numeric == pytest.approx(float((slope * D).sum()), rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("name", ["condition", "scaling", "condition+scaling", "e"])
def test_stand_ins_approach_the_true_figure_from_above(name: str) -> None:
    W, mask = matrix(3)
    criterion = find_criterion(name, weights=(1.0, 1.0), mask=mask)
    values = [np.exp(criterion.smooth_value(W, p).value) for p in (2.0, 8.0, 64.0, 512.0)]
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(criterion.value(W), rel=0.02)


def test_a_lost_column_is_infinitely_bad() -> None:
    W, mask = matrix(4)
    W[:, 3] = W[:, 2]
    assert condition_number(W) > 1e14
    W[:, 3] = 0.0
    assert scaling_number(W, np.ones_like(mask)) == np.inf


def test_unknown_names_and_weights() -> None:
    _, mask = matrix(5)
    with pytest.raises(ExcitationError, match="criteria are"):
        find_criterion("beauty", weights=(1, 0), mask=mask)
    with pytest.raises(ExcitationError, match="weights"):
        find_criterion("condition+scaling", weights=(-1.0, 0.0), mask=mask)


def panda_prediction() -> tuple[BaseRows, Limits, Motion, Prediction]:
    robot = load_robot("panda")
    rows = BaseRows.for_robot(robot, model="torque", rotor_inertia=True, friction=("viscous", "coulomb", "offset"))
    states = random_states(robot, robot.limits, 10.0, 5)
    return rows, robot.limits, states, Prediction.for_states(rows, states, robot.limits.effort)


def test_v_is_the_mean_variance_of_predicted_torques() -> None:
    """Repeated least squares on noisy torques: mean squared errors over the states, joints weighted by their limits."""
    rows, limits, states, prediction = panda_prediction()
    rng = np.random.default_rng(3)
    W = rows.matrix(random_motion(rng, limits, 60))
    U = rows.matrix(states)
    noise = np.tile(0.1 * limits.effort, 60)
    value = find_criterion("v", weights=(1, 0), mask=W != 0, noise=noise, target=prediction.G).value(W)
    A = W / noise[:, None]
    errors = np.linalg.lstsq(A, rng.standard_normal((len(A), 2000)), rcond=None)[0]
    torque = (U @ errors).reshape(len(states), 7, -1) / limits.effort[:, None]
    assert value == pytest.approx(float((torque**2).mean()), rel=0.02)
    covariance = np.linalg.inv(A.T @ A)
    variance = np.einsum("ij,jk,ik->i", U, covariance, U).reshape(-1, 7) / limits.effort**2
    assert value == pytest.approx(float(variance.mean()), rel=1e-8)


def test_v_is_a_in_the_metric_of_its_target() -> None:
    rows, limits, _, prediction = panda_prediction()
    W = rows.matrix(random_motion(np.random.default_rng(4), limits, 60))
    noise = np.tile(limits.effort, 60)
    L = np.linalg.cholesky(prediction.G.T @ prediction.G)
    mask = W != 0
    a = find_criterion("a", weights=(1, 0), mask=mask, noise=noise)
    v = find_criterion("v", weights=(1, 0), mask=mask, noise=noise, target=prediction.G)
    in_metric = np.linalg.solve(L, W.T).T
    assert v.value(W) == pytest.approx(a.value(in_metric), rel=1e-8)
    slope = np.linalg.solve(L.T, a.smooth_value(in_metric, 4.0).gradient.T).T
    assert_allclose(v.smooth_value(W, 4.0).gradient, slope, rtol=1e-5, atol=1e-6 * np.abs(slope).max())


def test_v_asks_only_for_what_is_predicted() -> None:
    """A column that no prediction needs may be missing from W; one that is needed may not."""
    W, mask = matrix(6)
    W[:, 3] = 0.0
    needed = TARGET.copy()
    assert find_criterion("v", weights=(1, 0), mask=mask, target=needed).value(W) == np.inf
    needed[:, 3] = 0.0
    found = find_criterion("v", weights=(1, 0), mask=mask, target=needed)
    rest = np.delete(np.arange(7), 3)
    expected = find_criterion("v", weights=(1, 0), mask=mask, target=needed[:, rest]).value(W[:, rest])
    assert found.value(W) == pytest.approx(expected, rel=1e-9)
    smooth = found.smooth_value(W, 4.0)
    assert np.exp(smooth.value) == pytest.approx(expected, rel=1e-9)
    assert np.isfinite(smooth.gradient).all()
    few = W[:5]
    assert found.value(few) == np.inf  # fewer rows than columns


def test_states_are_uniform_inside_the_limits_and_always_the_same() -> None:
    robot = load_robot("panda")
    limits = robot.limits
    states = random_states(robot, limits, 10.0, 5)
    again = random_states(robot, limits, 10.0, 5)
    assert len(states) == 500
    middle = limits.position.mean(axis=1)
    half = 0.5 * (limits.position[:, 1] - limits.position[:, 0])
    for x, y, top in (
        (states.q - middle, again.q - middle, half),
        (states.v, again.v, limits.velocity),
        (states.a, again.a, limits.acceleration),
    ):
        assert (x == y).all()
        assert (np.abs(x) <= top).all()
        assert_allclose(x.std(axis=0), top / np.sqrt(3.0), rtol=0.15)


def test_states_without_limits_are_those_that_a_series_can_reach() -> None:
    robot = load_robot("scara")
    free = np.full(robot.n, np.inf)
    everywhere = np.tile([-np.inf, np.inf], (robot.n, 1))
    w = 2 * np.pi / 8.0
    by_speed = random_states(robot, Limits(everywhere, np.full(robot.n, 2.0), free, free), 8.0, 3)
    by_force = random_states(robot, Limits(everywhere, free, np.full(robot.n, 4.0), free), 8.0, 3)
    assert np.abs(by_speed.a).max() <= 3 * w * 2.0
    assert np.abs(by_force.v).max() <= 4.0 / w
    for states in (by_speed, by_force):
        assert np.abs(states.q).max() <= max(np.pi, 2.0 / w, 4.0 / w**2)
        assert np.isfinite(states.q).all()
        assert np.ptp(states.q, axis=0).min() > 1.0


def test_torques_are_measured_by_effort_limits_or_nominal_torques() -> None:
    robot = load_robot("puma560")
    limits = replace(robot.limits, velocity=np.full(6, 2.0), acceleration=np.full(6, 5.0))
    states = random_states(robot, limits, 10.0, 5)
    effort = np.array([np.inf, 50.0, np.inf, 5.0, np.inf, 2.0])
    scale = torque_scales(robot, states, effort)
    torque = regressor(robot, states).matrix @ robot.parameters
    rms = np.sqrt((torque.reshape(-1, 6) ** 2).mean(axis=0))
    assert_allclose(scale, np.where(np.isfinite(effort), effort, rms), rtol=1e-9)
    unknown = replace(robot, links=tuple(replace(link, inertia=np.full(10, np.nan)) for link in robot.links))
    alone = torque_scales(unknown, states, np.full(6, np.inf))
    assert (alone == 1.0).all()


def random_motion(rng: np.random.Generator, limits: Limits, samples: int) -> Motion:
    lower, upper = limits.position.T
    q = rng.uniform(lower, upper, (samples, len(lower)))
    v, a = (rng.uniform(-1.0, 1.0, q.shape) * top for top in (limits.velocity, limits.acceleration))
    return Motion(np.arange(float(samples)), q, v, a)


@pytest.mark.parametrize("power", [1.0, 3.0, 8.0])
def test_power_of_condition_and_scaling_goes_from_their_sum_to_the_larger_one(power: float) -> None:
    W, mask = matrix(3)
    criterion = find_criterion("condition+scaling", weights=(2.0, 0.5, power), mask=mask)
    parts = np.array([2.0 * np.linalg.cond(W), 0.5 * scaling_number(W, mask)])
    assert criterion.value(W) == pytest.approx((parts**power).sum() ** (1.0 / power))
    smooth = criterion.smooth_value(W, 8.0)
    assert smooth.figure == pytest.approx(criterion.value(W), rel=1e-9)
    D = np.random.default_rng(5).standard_normal(W.shape) * mask
    ends = [criterion.smooth_value(W + step * D, 8.0).value for step in (1e-6, -1e-6)]
    assert (smooth.gradient * D).sum() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5)
