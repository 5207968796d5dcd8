"""The main job on one robot, as far as it exists: it grows with every capability."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from dynid.base.find import base_parameters
from dynid.models.regressor import MODELS, regressor
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot

_SAMPLES = 20_000


def regressor_figures(robot: Robot, *, seed: int = 0) -> Iterator[str]:
    """Yield lines on every model's regressor along random samples: size, share of zeros, time per sample."""
    rng = np.random.default_rng(seed)
    q, v, a = (rng.uniform(-1.0, 1.0, (_SAMPLES, robot.n)) for _ in range(3))
    motion = Motion(np.arange(_SAMPLES, dtype=np.float64), q, v, a)
    yield (
        f"{robot.name}: {robot.n} active joints, {len(robot.parameter_names)} standard parameters; "
        f"regressors of {_SAMPLES} random samples:"
    )
    for name in MODELS:
        regressor(robot, motion[:2], model=name)
        start = time.perf_counter()
        W = regressor(robot, motion, model=name)
        seconds = time.perf_counter() - start
        rows, columns = W.matrix.shape
        zeros = 1.0 - W.support.mean()
        yield (
            f"  {name:20} {rows:7d} x {columns}, {len(W.channels)} channels, {zeros:4.0%} structural zeros, "
            f"{seconds / _SAMPLES * 1e6:6.2f} us per sample"
        )


def base_figures(robot: Robot) -> Iterator[str]:
    """Yield lines on what can be identified at all."""
    base = base_parameters(robot)
    yield (
        f"base parameters: {base.count} of {len(base.columns)}; {len(base.no_effect)} have no effect, "
        f"{len(base.regrouped)} show only in sums such as"
    )
    yield f"  {base.relations[0]}"
    yield f"next: dynid base {robot.name}"
