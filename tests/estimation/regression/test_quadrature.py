"""Integrals of samples: orders of convergence, uneven instants, and signals that jump with the sign of a velocity."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid.estimation.regression.quadrature import Cuts, integrate, merge_cuts, sign_changes
from dynid.robot.transform import Array


def grid(samples: int, uneven: float = 0.0) -> Array:
    t = np.linspace(0.0, 3.0, samples)
    t[1:-1] += uneven * (t[1] - t[0]) * np.random.default_rng(0).uniform(-1.0, 1.0, samples - 2)
    return t


def error(rule: str, samples: int, uneven: float = 0.0) -> float:
    t = grid(samples, uneven)
    return float(np.abs(integrate(t, np.cos(5.0 * t)[:, None], rule=rule)[:, 0] - np.sin(5.0 * t) / 5.0).max())


@pytest.mark.parametrize(("rule", "order"), [("trapezoid", 2.0), ("smooth", 8.0)])
@pytest.mark.parametrize("uneven", [0.0, 0.005])
def test_orders(rule: str, order: float, uneven: float) -> None:
    coarse, fine = error(rule, 61, uneven), error(rule, 121, uneven)
    assert np.log2(coarse / fine) == pytest.approx(order, abs=0.6)


def jumping(samples: int) -> tuple[Array, Array, Array, Cuts]:
    """The velocity v = cos 5t with its integral q; signs change at odd multiples of pi / 10."""
    t = grid(samples)
    v = np.cos(5.0 * t)
    return t, v, np.sin(5.0 * t) / 5.0, sign_changes(t, v, np.sign(v))


@pytest.mark.parametrize("samples", [151, 301, 1001])
def test_signs_and_sizes_of_velocities(samples: int) -> None:
    t, v, _, cuts = jumping(samples)
    turns = np.pi / 10.0 * np.arange(1, 10, 2)
    assert_allclose(cuts.when, turns, atol=0.2 * (15.0 / samples) ** 4)
    crossed = (t[:, None] > turns).sum(axis=1)
    since = t - np.where(crossed > 0, turns[crossed - 1], 0.0)
    full = np.cumsum([0, *(-1.0) ** np.arange(1, 6)])
    whole = np.where(crossed > 0, turns[0] + (np.pi / 5.0) * full[crossed - 1], 0.0)
    expected = whole + since * (-1.0) ** crossed
    got = integrate(t, np.sign(v)[:, None], cuts=cuts)[:, 0]
    assert_allclose(got, expected, atol=2.0 * (15.0 / samples) ** 4)
    size = integrate(t, np.abs(v)[:, None], cuts=cuts)[:, 0]
    phase = 5.0 * t + np.pi / 2.0
    expected_size = (2.0 * np.floor(phase / np.pi) + 1.0 - np.cos(phase % np.pi) - 1.0) / 5.0
    assert_allclose(size - size[0], expected_size - expected_size[0], atol=1e-8 * (301.0 / samples) ** 8 + 1e-12)


def test_a_sample_on_the_change_of_sign_belongs_to_neither_side() -> None:
    t = np.linspace(-1.0, 1.0, 21)
    v = t.copy()
    v[10] = 0.0
    sign = np.sign(v)
    cuts = sign_changes(t, v, sign)
    assert_allclose(cuts.when, [0.0, 0.0], atol=1e-15)
    assert_allclose(integrate(t, sign[:, None], cuts=cuts)[:, 0], np.abs(t) - 1.0, atol=1e-13)


def test_pieces_of_few_samples() -> None:
    """A velocity that flickers: every sample is a piece of its own."""
    t = np.linspace(0.0, 1.0, 11)
    v = np.tile([1.0, -1.0], 6)[:11]
    total = integrate(t, v[:, None], cuts=sign_changes(t, v, np.sign(v)))
    assert_allclose(total[:, 0], 0.0, atol=0.1)
    assert_allclose(integrate(t[:2], v[:2, None], cuts=Cuts.none()), [[0.0], [0.0]], atol=1e-15)
    assert integrate(t[:1], v[:1, None]).shape == (1, 1)


def test_cuts_of_several_joints() -> None:
    one = Cuts(np.array([2, 5]), np.array([2.5, 5.5]))
    two = Cuts(np.array([5, 7]), np.array([5.25, 7.5]))
    both = merge_cuts([one, two])
    assert both.after.tolist() == [2, 5, 7]
    assert both.when.tolist() == [2.5, 5.25, 7.5]
