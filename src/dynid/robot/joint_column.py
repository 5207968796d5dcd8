"""A torque of known shape and unknown size at one joint: a gas spring, a counterbalance, a cable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynid.errors import DynidError
from dynid.robot.parameter import Parameter
from dynid.robot.transform import Array, freeze


@dataclass(frozen=True, slots=True, eq=False)
class JointColumn:
    """A column named `name` in the torque of `joint`: `torque` over `positions` of the joint `of`, or a function.

    The table is joined by a cubic spline; beyond its ends the end values hold. function(q, v) gets arrays (N, n) of
    all active joints and returns (N,); it belongs to Python and cannot be written into a file.
    """

    name: str
    joint: str
    of: str = ""
    positions: Array | None = None
    torque: Array | None = None
    function: Callable[[Array, Array], Array] | None = None

    def __post_init__(self) -> None:
        if not self.of:
            object.__setattr__(self, "of", self.joint)
        if self.function is not None:
            if self.positions is not None or self.torque is not None or self.of != self.joint:
                raise DynidError(
                    f"column '{self.name}' has a function of all joints: leave out of, positions and torque"
                )
            return
        if self.positions is None or self.torque is None:
            raise DynidError(f"column '{self.name}' needs positions and torque, or a function of q and v")
        x, y = np.array(self.positions, dtype=np.float64), np.array(self.torque, dtype=np.float64)
        if x.ndim != 1 or x.shape != y.shape or len(x) < 2 or not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise DynidError(
                f"column '{self.name}' needs two lists of the same length, at least two finite numbers each"
            )
        if np.any(np.diff(x) <= 0.0):
            raise DynidError(f"column '{self.name}': positions must increase")
        object.__setattr__(self, "positions", freeze(x))
        object.__setattr__(self, "torque", freeze(y))

    @property
    def parameter(self) -> Parameter:
        """Its size, which is identified."""
        return Parameter(self.name, symbol=self.name, kind="column", unit="1", joint=self.joint)

    def values(self, joint_names: tuple[str, ...], q: Array, v: Array) -> Array:
        """The column (N,) along a motion."""
        if self.function is not None:
            try:
                column = np.asarray(self.function(q, v), dtype=np.float64)
            except (TypeError, ValueError, IndexError) as error:
                raise DynidError(f"column '{self.name}': its function failed: {error}") from error
            if column.shape != (len(q),) or not np.isfinite(column).all():
                raise DynidError(f"column '{self.name}': its function must return {len(q)} finite numbers (N,)")
            return column
        from scipy.interpolate import CubicSpline

        assert self.positions is not None
        x = np.clip(q[:, joint_names.index(self.of)], self.positions[0], self.positions[-1])
        return np.asarray(CubicSpline(self.positions, np.asarray(self.torque))(x))
