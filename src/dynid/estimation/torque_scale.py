"""Do the torques have the size that the robot file's masses ask for? If not, they may be currents.

The inertial part of a joint's torque, as identified, is compared with that of the nominal parameters, on the factors
of the data: where both have one shape but not one size, the ratio is told. Nominal values may be wrong themselves, so
this is a doubt, never an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynid.estimation.equation import Equation
from dynid.estimation.least_squares import Factors
from dynid.estimation.unknowns import Unknowns
from dynid.robot.inertia import ROTOR
from dynid.robot.transform import Array

ALIKE = 0.9
"""Cosine between identified and nominal torques from which on they have one shape."""

FAR = 3.0
"""Ratio of sizes that no real robot has to its data sheet."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Identified over nominal inertial torque of a joint."""

    joint: str
    ratio: float


def find_scales(equation: Equation, unknowns: Unknowns, values: Array, factors: Factors) -> tuple[Scale, ...]:
    """Ratios of the joints whose torques have the nominal shape; none where these do not agree that the size is off."""
    nominal = _nominal(equation)
    if nominal is None or equation.measure.model not in ("torque", "torque+reaction"):
        return ()
    places = [unknowns.names.index(name) if name in unknowns.names else -1 for name in equation.base.names]
    shown = [(k, x) for k, x in zip(places, nominal, strict=True) if k >= 0]
    if not shown:
        return ()
    columns, expected = np.array([k for k, _ in shown]), np.array([x for _, x in shown])
    scales = []
    for c, channel in enumerate(equation.torque_channels):
        rows = np.vstack([unknowns.rows(log, c, of_log[c])[0][:, columns] for log, of_log in factors.items()])
        found, wanted = rows @ values[columns], rows @ expected
        product, size = float(found @ wanted), float(np.linalg.norm(found) * np.linalg.norm(wanted))
        if size > 0.0 and product > ALIKE * size:
            scales.append(Scale(equation.robot.joint_names[channel.joint], product / float(wanted @ wanted)))
    far = [scale for scale in scales if not 1.0 / FAR < scale.ratio < FAR]
    return tuple(scales) if 2 * len(far) > len(equation.torque_channels) else ()


def told(scales: Sequence[Scale]) -> str:
    """The ratios in words."""
    some = ", ".join(f"{scale.joint} {scale.ratio:.2g}" for scale in scales[:8])
    return (
        f"torques are not of the size that the masses of the robot file ask for (times {some}): currents or motor "
        "torques in place of joint torques?"
    )


def _nominal(equation: Equation) -> Array | None:
    """Base parameters of the robot file, rotors that it does not tell taken as zero; None where values are missing."""
    if equation.unknown is not None:
        return None
    robot = equation.robot
    X = np.array(robot.parameters)
    rotors = np.array([name.startswith(ROTOR) for name in robot.parameter_names])
    X[rotors & np.isnan(X)] = 0.0
    if np.isnan(X).any() or not np.any(X):
        return None
    return np.asarray(equation.base.values(X))
