"""A torque of known shape and unknown size at one joint: a gas spring, a counterbalance, a cable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from dynid.errors import DynidError
from dynid.robot.parameter import Parameter
from dynid.robot.transform import Array, freeze
from dynid.storage.records import Data, Form, Numbers

Table = Annotated[Array, Numbers((None,))]


@dataclass(frozen=True, slots=True, eq=False)
class JointColumn:
    """A column named `name` in the torque of `joint`: `torque` over `positions` of the joint `of`, or a function.

    The table is joined by a cubic spline; beyond its ends the end values hold. function(q, v) gets arrays (N, n) of
    all active joints and returns (N,); it belongs to Python and cannot be written into a file.
    """

    name: str
    joint: str
    of: str = ""
    positions: Table | None = None
    torque: Table | None = None
    function: Callable[[Array, Array], Array] | None = None

    def __post_init__(self) -> None:
        if not self.of:
            object.__setattr__(self, "of", self.joint)
        if self.function is not None:
            if self.positions is not None or self.torque is not None or self.of != self.joint:
                raise DynidError(
                    "column_function_with_table", "column '{column}' has a function of all joints:",
                    "leave out of, positions and torque", column=self.name,
                )  # fmt: skip
            return
        if self.positions is None or self.torque is None:
            raise DynidError(
                "column_incomplete", "column '{column}' needs positions and torque, or a function of q and v",
                column=self.name,
            )  # fmt: skip
        x, y = np.array(self.positions, dtype=np.float64), np.array(self.torque, dtype=np.float64)
        if x.ndim != 1 or x.shape != y.shape or len(x) < 2 or not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise DynidError(
                "column_table_mismatch", "column '{column}' needs two lists of the same length, at least two finite "
                "numbers each", column=self.name,
            )  # fmt: skip
        if np.any(np.diff(x) <= 0.0):
            raise DynidError(
                "column_positions_not_increasing", "column '{column}': positions must increase", column=self.name,
            )  # fmt: skip
        object.__setattr__(self, "positions", freeze(x))
        object.__setattr__(self, "torque", freeze(y))

    @property
    def parameter(self) -> Parameter:
        """Parameter of the column: its size, which is identified."""
        return Parameter(self.name, symbol=self.name, kind="column", unit="1", joint=self.joint)

    def values(self, joint_names: tuple[str, ...], q: Array, v: Array) -> Array:
        """The column (N,) along a motion."""
        if self.function is not None:
            try:
                column = np.asarray(self.function(q, v), dtype=np.float64)
            except (TypeError, ValueError, IndexError) as error:
                raise DynidError(
                    "column_function_failed", "column '{column}': its function failed: {reason}", column=self.name,
                    reason=error,
                ) from error  # fmt: skip
            if column.shape != (len(q),) or not np.isfinite(column).all():
                raise DynidError(
                    "column_function_wrong_result", "column '{column}': its function must return {samples} finite "
                    "numbers (N,)", column=self.name, samples=len(q),
                )  # fmt: skip
            return column
        from scipy.interpolate import CubicSpline

        assert self.positions is not None
        x = np.clip(q[:, joint_names.index(self.of)], self.positions[0], self.positions[-1])
        return np.asarray(CubicSpline(self.positions, np.asarray(self.torque))(x))


def _restore_column(data: Data) -> Data:
    """Data of a column; where it was a function, using it is an error that says so."""

    def refuse_missing_function(q: object, v: object) -> object:
        """Stand in for a function that was not stored."""
        raise DynidError(
            "column_function_not_stored", "column '{column}' was a Python function, which no file holds",
            "pass it again with columns=[...]", column=data["name"],
        )  # fmt: skip

    positions, torque = data.pop("positions", None), data.pop("torque", None)
    is_table = positions is not None and torque is not None
    return data | ({"positions": positions, "torque": torque} if is_table else {"function": refuse_missing_function})


StoredColumn = Annotated[JointColumn, Form(drop=("function",), read=_restore_column)]
