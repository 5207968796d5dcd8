"""Uncertain sensitivities of a force plate: how the values would shift, per channel, by one standard deviation.

A channel that reads (1 + e) y shifts the values by e (A'A)^-1 A_c'y_c, A the weighted rows and A_c those of the
channel. More data do not help: these shifts are the same for all logs of one plate.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from dynid.estimation.equation import Equation
from dynid.estimation.least_squares import Factors, Solution
from dynid.estimation.unknowns import Unknowns
from dynid.robot.transform import Array


def gain_shifts(equation: Equation, unknowns: Unknowns, solution: Solution, factors: Factors) -> Array:
    """Shifts (channels of the base, unknowns), no rows where no uncertainty is declared."""
    gain = equation.sensor.gain
    if gain is None or not equation.base_channels:
        return np.zeros((0, len(unknowns)))
    half = solution.free @ scipy.linalg.solve_triangular(solution.R, np.eye(solution.rank))
    first = len(equation.channels) - len(equation.base_channels)
    shifts = np.zeros((len(gain), len(unknowns)))
    for k, spread in enumerate(gain):
        pull = np.zeros(len(unknowns))
        for log, of_log in factors.items():
            rows, right = unknowns.rows(log, first + k, of_log[first + k])
            pull += rows.T @ right / solution.noise[first + k] ** 2
        shifts[k] = spread * (half @ (half.T @ pull))
    return shifts
