"""The adjoint against central differences, for every model and kind of robot: 1e-6 relative."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dynid import Robot, regressor, regressor_adjoint
from dynid.models.regressor import MODELS
from loops_in_space import four_bar, slider_crank
from robots import coupled_tree, random_motion, random_tree

ROBOTS: dict[str, Callable[[int], Robot]] = {
    "tree": lambda seed: random_tree(seed, joints=5, fixed_share=0.2),
    "shuffled tree": lambda seed: random_tree(seed, joints=5, shuffled=True),
    "floating": lambda seed: random_tree(seed, joints=4, floating=True),
    "coupled": coupled_tree,
    "slider-crank": slider_crank,
    "four-bar": four_bar,
}


@pytest.mark.parametrize("kind", ROBOTS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("seed", range(3))
def test_adjoint_equals_central_differences(kind: str, model: str, seed: int) -> None:
    robot = ROBOTS[kind](seed)
    if model == "reaction" and robot.floating:
        pytest.skip("a floating base has no reactions")
    motion = random_motion(robot, seed=seed, samples=3, spread=0.5)
    W = regressor(robot, motion, model=model).matrix
    weights = np.random.default_rng(seed).standard_normal(W.shape)
    gradients = regressor_adjoint(robot, motion, weights, model=model)
    step = 1e-5
    for name, gradient in zip("qva", gradients, strict=True):
        numeric = np.zeros_like(gradient)
        for k, j in np.ndindex(gradient.shape):
            values = []
            for sign in (1.0, -1.0):
                moved = getattr(motion, name).copy()
                moved[k, j] += sign * step
                values.append((weights * regressor(robot, replace(motion, **{name: moved}), model=model).matrix).sum())
            numeric[k, j] = (values[0] - values[1]) / (2 * step)
        np.testing.assert_allclose(gradient, numeric, rtol=0, atol=1e-6 * max(1.0, np.abs(numeric).max()))
