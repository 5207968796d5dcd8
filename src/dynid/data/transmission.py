"""Motor-side logs: drive gains, gear ratios and couplings between motors and joints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.errors import LogError
from dynid.robot.transform import Array


@dataclass(frozen=True, slots=True, eq=False)
class Transmission:
    """Motor positions = gear @ joint positions, so joint torques = gear' @ motor torques: the power is the same.

    `gear` (n, n) and `gain` (n,) in Nm/A, None where the log is on the joint side or in torques already.
    """

    gear: Array | None = None
    gain: Array | None = None

    @property
    def coupling(self) -> Array | None:
        """The transmission scaled to the joint side, diag(1/d) gear; None where every motor moves one joint."""
        if self.gear is None or np.array_equal(self.gear, np.diag(np.diag(self.gear))):
            return None
        return self.gear / np.diag(self.gear)[:, None]

    def motion(self, motor: Array) -> Array:
        """Positions, velocities or accelerations (N, n) of the joints."""
        if self.gear is None:
            return motor
        if self.coupling is None:
            return motor / np.diag(self.gear)
        return np.ascontiguousarray(np.linalg.solve(self.gear, motor.T).T)

    def torque(self, motor: Array) -> Array:
        """Joint torques (N, n) of drive signals."""
        if self.gain is not None:
            motor = motor * self.gain
        if self.gear is None:
            return motor
        return motor * np.diag(self.gear) if self.coupling is None else motor @ self.gear


def _numbers(log: str, key: str, value: object, shapes: tuple[tuple[int, ...], ...]) -> Array:
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    n = shapes[-1][0]
    if array.shape not in shapes or not np.isfinite(array).all():
        matrix = f" or a ({n}, {n}) matrix" if len(shapes) == 3 else ""
        raise LogError(log, f"{key} must be a finite number, {n} numbers{matrix}, got {str(value)[:60]!r}")
    return array


def read_transmission(log: str, gear: object, gain: object, n: int) -> Transmission:
    """Return the transmission of `gear` (number, n ratios or (n, n) matrix) and `gain` (number or n)."""
    ratios, gains = None, None
    if gain is not None:
        gains = np.broadcast_to(_numbers(log, "gain", gain, ((), (n,))), (n,))
        if not gains.all():
            raise LogError(log, "gain has a zero; give Nm per A")
    if gear is not None:
        value = _numbers(log, "gear", gear, ((), (n,), (n, n)))
        ratios = value if value.ndim == 2 else np.diag(np.broadcast_to(value, (n,)))
        if not np.diag(ratios).all():
            place = int(np.flatnonzero(np.diag(ratios) == 0)[0]) + 1
            raise LogError(log, f"gear has a zero ratio on the diagonal, at joint {place}; motor k must move joint k")
        scaled = ratios / np.diag(ratios)[:, None]
        if np.linalg.cond(scaled) > 1e12:
            raise LogError(log, "gear is singular: the motors' positions do not determine the joints'")
    return Transmission(ratios, gains)
