"""Whether a force plate sits where it was declared: small shifts and turns as further unknowns.

With F and M the readings that the parameters predict, a plate whose reference point lies rho further and whose axes are
turned by phi (both small, in its own axes) reads F - phi x F and M - phi x M - rho x F. These are six further columns;
constant parts go into the offsets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.estimation.equation import Equation
from dynid.estimation.least_squares import Solution
from dynid.estimation.rows import Rows
from dynid.estimation.unknowns import Unknowns
from dynid.robot.force_sensor import CHANNELS
from dynid.robot.transform import Array

LEAST = np.array([2e-3] * 3 + [3e-3] * 3)
"""Shift (m) and turn (rad) below which nothing is said."""

SURE = 5.0
"""Standard deviations beyond which a shift is no chance."""


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Shift (3,) of the reference point in m and turn (3,) of the axes in rad, in the plate's axes, with deviations."""

    shift: Array
    turn: Array
    shift_sigma: Array
    turn_sigma: Array

    @property
    def is_off(self) -> bool:
        """Whether the plate sits elsewhere, beyond doubt."""
        found = np.concatenate([self.shift, self.turn])
        sigma = np.concatenate([self.shift_sigma, self.turn_sigma])
        return bool(np.any((np.abs(found) > LEAST) & (np.abs(found) > SURE * sigma)))

    def __str__(self) -> str:
        shift = ", ".join(f"{x:.0f}" for x in np.round(1e3 * self.shift) + 0.0)  # no -0
        turn = ", ".join(f"{x:.1f}" for x in np.round(np.degrees(self.turn), 1) + 0.0)
        return f"{shift} mm away and turned by {turn} degrees (in its own axes)"


def find_placement(
    equation: Equation, unknowns: Unknowns, solution: Solution, kept: tuple[Rows, ...], inflation: float
) -> Placement | None:
    """Let the data choose shift and turn; None where not all six channels are there or nothing moves."""
    if set(equation.sensor.channels) != set(CHANNELS) or not equation.base_channels or not kept:
        return None
    first = len(equation.channels) - 6
    order = [equation.sensor.channels.index(name) for name in CHANNELS]
    A, C, e = [], [], []
    for rows in kept:
        predicted = np.zeros((len(rows.t), 6))
        for c, channel in enumerate(equation.channels[first:]):
            own = unknowns.of_channel(rows.log, first + c, solution.values)
            predicted[:, c] = channel.row(rows.wide)[:, : channel.base] @ own[: channel.base]
        columns = _columns(predicted[:, order])
        for k, c in enumerate(order):
            channel, noise = equation.channels[first + c], solution.noise[first + c]
            own = channel.row(rows.wide)
            place = unknowns.place[rows.log, channel.columns]
            W = np.zeros((len(own), len(unknowns)))
            W[:, place[place >= 0]] = own[:, :-1][:, place >= 0]
            A.append(W @ solution.free / noise)
            C.append(columns[:, k] / noise)
            e.append((own[:, -1] - W @ solution.values) / noise)
    return _solved(np.concatenate(A), np.concatenate(C), np.concatenate(e), inflation)


def _columns(readings: Array) -> Array:
    """Readings (N, 6) as they change per unit of shift and turn: (N, 6 readings, 6)."""
    F, M = readings[:, :3], readings[:, 3:]
    columns = np.zeros((len(readings), 6, 6))
    for k, axis in enumerate(np.eye(3)):
        columns[:, 3:, k] = -np.cross(axis, F)
        columns[:, :3, 3 + k] = -np.cross(axis, F)
        columns[:, 3:, 3 + k] = -np.cross(axis, M)
    return columns


def _solved(A: Array, C: Array, e: Array, inflation: float) -> Placement | None:
    """Least squares for the columns C beside A; what A or the other columns can mimic stays zero."""
    size = np.linalg.norm(A, axis=0)
    Q = np.linalg.qr(A[:, size > 0.0] / size[size > 0.0])[0]
    rest = C - Q @ (Q.T @ C)
    length, left = np.linalg.norm(C, axis=0), np.linalg.norm(rest, axis=0)
    seen = np.flatnonzero(left > 1e-6 * np.maximum(length, 1e-300))
    if not len(seen):
        return None
    U, s, Vt = np.linalg.svd(rest[:, seen] / left[seen], full_matrices=False)
    good = s > 1e-6 * s[0]
    inverse = Vt[good].T / s[good]
    found, sigma = np.zeros(6), np.zeros(6)
    found[seen] = inverse @ (U[:, good].T @ e) / left[seen]
    sigma[seen] = np.sqrt(inflation * (inverse**2).sum(axis=1)) / left[seen]
    return Placement(found[:3], found[3:], sigma[:3], sigma[3:])
