"""Which columns are solved for, and how those of each log map to them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.estimation.accumulate.factor import ChannelFactor
from dynid.estimation.regression.equation import Equation
from dynid.robot.parameter import Parameter
from dynid.robot.transform import Array


@dataclass(frozen=True, slots=True, eq=False)
class Unknowns:
    """Names and units of what is solved for; place (logs, columns): index of an equation's column, -1: left out."""

    names: tuple[Parameter, ...]
    units: tuple[str, ...]
    place: NDArray[np.int64]
    channels: tuple[NDArray[np.int64], ...]

    def __len__(self) -> int:
        return len(self.names)

    @staticmethod
    def for_equation(
        equation: Equation,
        blocks: tuple[str, ...],
        logs: int,
        *,
        per_log: Collection[str] = (),
        left_out: NDArray[np.int64] | None = None,
    ) -> Unknowns:
        """Unknowns of some friction blocks and of all base, user and offset columns that a channel can see.

        per_log: blocks of which every log has its own parameters. left_out: columns that are not used all the same.
        """
        present = np.zeros(len(equation.names), dtype=np.bool_)
        for channel in equation.channels:
            present[channel.columns] = True
        for name, columns in equation.columns_by_friction_block.items():
            if name not in blocks:
                present[columns] = False
        if left_out is not None:
            present[left_out] = False
        chosen = np.flatnonzero(present)
        place = np.full((logs, len(equation.names)), -1, dtype=np.int64)
        place[:, chosen] = np.arange(len(chosen))
        names = [equation.names[k] for k in chosen]
        units = [equation.units[k] for k in chosen]
        own = [k for k in equation.offset_columns if present[k]]  # of the base: every run has its own
        own += [
            k
            for name in equation.columns_by_friction_block
            if name in per_log
            for k in equation.columns_by_friction_block[name]
            if present[k]
        ]
        if logs > 1 and own:
            for log in range(1, logs):
                place[log, own] = len(names) + np.arange(len(own))
                names += [equation.names[k].of_log(log + 1) for k in own]
                units += [equation.units[k] for k in own]
            for k in own:
                names[place[0, k]] = equation.names[k].of_log(1)
        return Unknowns(tuple(names), tuple(units), place, tuple(c.columns for c in equation.channels))

    def without_unknowns(self, dropped: Sequence[int]) -> Unknowns:
        """Return the unknowns without those that are dropped."""
        gone = set(dropped)
        kept = [k for k in range(len(self)) if k not in gone]
        new = np.full(len(self) + 1, -1, dtype=np.int64)
        new[kept] = np.arange(len(kept))
        place = new[self.place]  # -1 stays -1: the last entry
        return Unknowns(tuple(self.names[k] for k in kept), tuple(self.units[k] for k in kept), place, self.channels)

    def rows_of_factor(self, log: int, channel: int, factor: ChannelFactor) -> tuple[Array, Array]:
        """Rows (k, unknowns) and right sides (k,) of one channel's factor."""
        place = self.place[log, self.channels[channel]]
        used = place >= 0
        rows = np.zeros((len(factor.R), len(self)))
        rows[:, place[used]] = factor.R[:, :-1][:, used]
        return rows, factor.R[:, -1]

    def values_of_channel(self, log: int, channel: int, values: Array) -> Array:
        """Values of one channel's own columns, 0 where a column is left out."""
        place = self.place[log, self.channels[channel]]
        return np.where(place >= 0, values[place], 0.0)
