"""The adjoint against central differences, for every model and kind of robot: 1e-6 relative."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dynid import Robot, regressor, regressor_adjoint
from dynid.dynamics.regressor import MODELS
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
    rng = np.random.default_rng(seed + 1)
    for name, gradient in zip("qva", gradients, strict=True):
        x = getattr(motion, name)
        for _ in range(4):  # a wrong element shows in every random direction
            direction = rng.standard_normal(x.shape)
            there, back = (
                (
                    weights
                    * regressor(robot, replace(motion, **{name: x + sign * step * direction}), model=model).matrix
                ).sum()
                for sign in (1.0, -1.0)
            )
            found, numeric = float((gradient * direction).sum()), (there - back) / (2 * step)
            scale = max(1.0, float(np.abs(gradient * direction).sum()))
            assert abs(found - numeric) <= 1e-6 * scale
