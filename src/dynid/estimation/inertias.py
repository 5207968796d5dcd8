"""A law of nature as a check: the inertia that every joint feels is positive.

H_jj(q), the torque of joint j per acceleration of its own, is linear in the parameters; so is its mean over postures,
and a deviation comes with it. Reversed signs of torques or forces make it negative while the fit stays perfect.
"""

from __future__ import annotations

import numpy as np

from dynid.base.plate import relate_sensors
from dynid.base.sampling import random_samples
from dynid.errors import LoopError
from dynid.estimation.equation import Equation
from dynid.models.regressor import regressor
from dynid.robot.motion import Motion
from dynid.robot.transform import Array

POSTURES = 24


def mean_inertias(equation: Equation, names: tuple[str, ...], *, roughly: bool = False) -> Array:
    """Matrix (n, names): mean inertias about the joints from parameters; no rows where they cannot be had.

    roughly: although some parameters are unidentifiable and others stand for sums with them.
    """
    try:
        if equation.measure.model == "reaction":
            relation = relate_sensors(equation.robot, tared=equation.is_tared)
            if relation.lost:
                return np.zeros((0, len(names)))
            on_base = _of_columns(equation)[:, list(relation.torque.kept)] @ relation.S
            base_names = relation.reaction.names
        else:
            on_base, base_names = _of_rows(equation), equation.base.names
    except LoopError:
        return np.zeros((0, len(names)))
    place = {name: k for k, name in enumerate(base_names)}
    if not roughly and not set(base_names) <= set(
        names
    ):  # something is lost in the data: sums of parameters are no inertias
        return np.zeros((0, len(names)))
    return np.array([[row[place[name]] if name in place else 0.0 for name in names] for row in on_base])


def _of_rows(equation: Equation) -> Array:
    """Mean over postures of H_jj, (joints in use, base columns)."""
    q = random_samples(equation.robot, POSTURES, 0).q
    zero, t = np.zeros_like(q), np.arange(float(POSTURES))
    still = equation.rigid_rows(Motion(t, q, zero, zero))
    inertias = np.zeros((len(equation.torque_channels), equation.base_count))
    for k, channel in enumerate(equation.torque_channels):
        a = zero.copy()
        a[:, channel.joint] = 1.0
        rows = (channel.row(equation.rigid_rows(Motion(t, q, zero, a))) - channel.row(still)).mean(axis=0)
        inertias[k, channel.columns[: channel.base]] = rows[: channel.base]
    return inertias


def _of_columns(equation: Equation) -> Array:
    """Mean over postures of H_jj, (n, standard columns without rotors)."""
    robot, n = equation.robot, equation.robot.n
    q = random_samples(robot, POSTURES, 0).q
    zero, t = np.zeros_like(q), np.arange(float(POSTURES))
    still = regressor(robot, Motion(t, q, zero, zero), rotor_inertia=False).matrix
    inertias = []
    for j in range(n):
        a = zero.copy()
        a[:, j] = 1.0
        rows = regressor(robot, Motion(t, q, zero, a), rotor_inertia=False).matrix - still
        inertias.append(rows.reshape(POSTURES, n, -1)[:, j].mean(axis=0))
    return np.array(inertias)
