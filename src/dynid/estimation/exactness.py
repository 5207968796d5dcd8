"""Whether recorded velocities and accelerations are exact: then nothing must be filtered.

A simulator's accelerations belong to its equations of motion at the instant, not to differences of its velocities, and
jump where friction does: they look like noisy ones. That they explain what was measured but for rounding shows that
they are not.
"""

from __future__ import annotations

import numpy as np

from dynid.data.survey import Survey
from dynid.estimation.equation import Equation
from dynid.robot.motion import Motion

EXACT = 1e-7
"""Residual over spread of every channel, at most."""

ROWS = 8
"""Samples per unknown of a channel that are looked at."""

MEMORYLESS = ("viscous", "coulomb", "offset", "tanh", "quadratic", "asymmetry", "spring", "sine", "sine2")


def explained_exactly(equation: Equation, surveys: tuple[Survey, ...]) -> bool:
    """Look at some samples of every log, spread over what was seen of it."""
    if equation.measure.is_integral or equation.measure.model == "power":
        return False
    if not set(equation.friction) <= set(MEMORYLESS):
        return False
    return all(_explains(equation, s) for s in surveys)


def _explains(equation: Equation, seen: Survey) -> bool:
    x = seen.samples
    if x.v is None or x.a is None:
        return False
    widest = max(len(channel.columns) for channel in equation.channels)
    if len(x) < ROWS * widest:
        return False
    some = x.take(np.unique(np.linspace(0, len(x) - 1, ROWS * widest).astype(np.int64)))
    assert some.v is not None
    assert some.a is not None
    motion = Motion(some.t, some.q, some.v, some.a)
    stops = np.zeros((len(motion), 0, equation.robot.n))
    wide = equation.write(motion, stops, equation.measured(some))
    for channel in equation.channels:
        own = channel.row(wide)
        W, y = own[:, :-1], own[:, -1]
        left = y - W @ np.linalg.lstsq(W, y, rcond=None)[0]
        if not left.std() <= EXACT * y.std():
            return False
    return True
