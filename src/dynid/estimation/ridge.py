"""Ridge towards nominal values: further rows that pull every parameter, as strongly as held-out data like it."""

from __future__ import annotations

import numpy as np

from dynid.estimation.folds import Folds
from dynid.estimation.least_squares import Solution
from dynid.estimation.state import State
from dynid.estimation.unknowns import Unknowns
from dynid.models.friction import FRICTION
from dynid.robot.transform import Array

STRENGTHS = np.concatenate([[0.0], np.logspace(-8.0, 8.0, 33)])
"""Tried ones: at 1 a nominal value is trusted to about the largest of its kind."""


def ridge_rows(state: State, unknowns: Unknowns, plain: Solution) -> tuple[Array, Array]:
    """Rows sqrt(strength) * (x - nominal) / size, the strength by blocked cross validation.

    The size is that of the kind of parameter, not of its column: what the motion hardly excites is pulled most.
    """
    nominal = nominal_values(state, unknowns)
    folds = Folds.of(unknowns, state.blocks, plain.noise)
    power = float((folds.squares.sum(axis=0) / plain.noise**2).sum())
    columns = np.diag(folds.normal[0].sum(axis=0))
    weight = 1.0 / _sizes(unknowns, nominal, columns, power) ** 2
    errors = [folds.nrmse(folds.errors_towards(strength * weight, nominal)).mean() for strength in STRENGTHS]
    scale = np.sqrt(float(STRENGTHS[int(np.argmin(errors))]) * weight)
    return np.diag(scale), scale * nominal


def _sizes(unknowns: Unknowns, nominal: Array, columns: Array, power: float) -> Array:
    """Largest nominal value of the same unit; where there is none, what would explain the whole torque."""
    sizes = np.array([max(abs(x) for x, u in zip(nominal, unknowns.units, strict=True) if u == unit)
                      for unit in unknowns.units])  # fmt: skip
    return np.where(sizes > 0.0, sizes, np.sqrt(power / np.maximum(columns, 1e-12 * columns.max())))


def nominal_values(state: State, unknowns: Unknowns) -> Array:
    """Nominal base values and friction of the robot, zero where unknown."""
    equation = state.equation
    robot = equation.robot
    base = equation.base.values(robot.parameters)
    values = dict(zip(equation.base.names, np.nan_to_num(base), strict=True))
    for k in robot.active_links:
        for kind, value in robot.links[k].friction:
            values[FRICTION[kind].symbols[0] + robot.links[k].label] = value
    return np.array([values.get(name, values.get(name.rpartition("@")[0], 0.0)) for name in unknowns.names])
