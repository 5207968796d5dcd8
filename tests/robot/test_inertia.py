"""Standard parameters and their other forms: round trips over random values, to 1e-12."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest

from dynid.robot.inertia import (
    Body,
    change_of_frame,
    from_body,
    from_pinocchio,
    from_pseudo_inertia,
    pseudo_inertia,
    to_body,
)
from dynid.robot.transform import Transform
from robots import random_inertia, random_rotation

SEEDS = range(20)


@pytest.mark.parametrize("seed", SEEDS)
def test_body_round_trip(seed: int) -> None:
    x = random_inertia(np.random.default_rng(seed))
    np.testing.assert_allclose(from_body(to_body(x)), x, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("seed", SEEDS)
def test_pseudo_inertia_round_trip_and_definiteness(seed: int) -> None:
    x = random_inertia(np.random.default_rng(seed))
    np.testing.assert_allclose(from_pseudo_inertia(pseudo_inertia(x)), x, rtol=1e-12, atol=1e-14)
    assert np.linalg.eigvalsh(pseudo_inertia(x)).min() > 0.0


@pytest.mark.parametrize("seed", SEEDS)
def test_pinocchio_order(seed: int) -> None:
    x = random_inertia(np.random.default_rng(seed))
    body = to_body(x)
    inertia = pin.Inertia(body.mass, body.com, body.inertia)
    np.testing.assert_allclose(from_pinocchio(inertia.toDynamicParameters()), x, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("seed", SEEDS)
def test_change_of_frame_round_trip_and_meaning(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = random_inertia(rng)
    T = Transform(random_rotation(rng), rng.standard_normal(3))
    there = change_of_frame(T) @ x
    np.testing.assert_allclose(change_of_frame(T.inverse()) @ there, x, rtol=1e-10, atol=1e-12)
    body, moved = to_body(x), to_body(there)
    np.testing.assert_allclose(moved.com, T.rotation @ body.com + T.translation, atol=1e-12)
    np.testing.assert_allclose(moved.inertia, T.rotation @ body.inertia @ T.rotation.T, atol=1e-12)


def test_a_body_without_mass_keeps_its_inertia() -> None:
    body = to_body(from_body(Body(0.0, np.zeros(3), np.diag([1.0, 2.0, 2.5]))))
    np.testing.assert_array_equal(body.inertia, np.diag([1.0, 2.0, 2.5]))
