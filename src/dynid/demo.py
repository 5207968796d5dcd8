"""The main job on one robot, as far as it exists: it grows with every capability."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dynid.base.find import base_parameters
from dynid.excitation.design import design_excitation
from dynid.models.regressor import MODELS, regressor
from dynid.report.excitation import write_page
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


def excitation_figures(robot: Robot, folder: Path) -> Iterator[str]:
    """Design a motion that reveals them, write its files, and yield lines on it."""
    limits = robot.limits
    assumed = []
    velocity, acceleration = np.array(limits.velocity), np.array(limits.acceleration)
    for values, name, usual in ((velocity, "velocity", 1.5), (acceleration, "acceleration", 5.0)):
        if not np.isfinite(values).all():
            values[~np.isfinite(values)] = usual
            assumed.append(f"{name} {usual:g}")
    if assumed:
        yield f"no limits were published for some joints; assumed for this demo: {', '.join(assumed)} (rad, s)"
    found = design_excitation(
        robot,
        limits={
            "position": limits.position,
            "velocity": velocity,
            "acceleration": acceleration,
            "effort": limits.effort,
        },
        rotor_inertia=True,
        starts=4,
    )
    folder.mkdir(parents=True, exist_ok=True)
    found.save(folder / "motion.csv")
    write_page(found, folder / "motion.html")
    yield (
        f"exciting motion: {found.duration:.1f} s from rest to rest, condition number {found.first_value:.0f} for a "
        f"random motion, {found.condition:.1f} for this one; all limits hold at every instant"
    )
    yield f"look at {folder / 'motion.html'}; the robot's motion is {folder / 'motion.csv'}"
    yield f"next: dynid base {robot.name}; dynid excite {robot.name} --velocity 1.5 --acceleration 5 --out traj.csv"
