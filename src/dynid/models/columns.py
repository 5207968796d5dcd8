"""The columns of a regressor, described once for base parameters, excitation and estimation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dynid.concurrency import cached_property
from dynid.robot.inertia import ROTOR, SYMBOLS, UNITS
from dynid.robot.robot import Robot

ColumnKind = Literal["inertial", "rotor", "friction"]


@dataclass(frozen=True, slots=True)
class Column:
    """One parameter: its name, unit, kind, and the index of its link in `robot.links`."""

    name: str
    unit: str
    kind: ColumnKind
    link: int


@dataclass(frozen=True, eq=False)
class ColumnSet:
    """Columns in order; a link's ten inertial ones stand side by side, its rotor's after them."""

    columns: tuple[Column, ...]

    def __len__(self) -> int:
        return len(self.columns)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def first_of_link(self) -> dict[int, int]:
        """Where each link's ten inertial columns begin."""
        places: dict[int, int] = {}
        for k, column in enumerate(self.columns):
            if column.kind == "inertial":
                places.setdefault(column.link, k)
        return places

    @cached_property
    def rotor_of_link(self) -> dict[int, int]:
        """Where each link's rotor column stands."""
        return {column.link: k for k, column in enumerate(self.columns) if column.kind == "rotor"}

    def of_links(self, links: set[int]) -> NDArray[np.bool_]:
        """Mask of the inertial columns of some links."""
        return np.array([c.kind == "inertial" and c.link in links for c in self.columns], dtype=np.bool_)


def standard_columns(robot: Robot, *, rotor_inertia: bool = True) -> ColumnSet:
    """Columns of the standard parameters, in the order of `robot.parameter_names`."""
    columns: list[Column] = []
    for k, link in enumerate(robot.links):
        columns += [Column(s + link.label, unit, "inertial", k) for s, unit in zip(SYMBOLS, UNITS, strict=True)]
        if rotor_inertia and k in robot.active_links:
            unit = "kg m^2" if link.kind == "revolute" else "kg"
            columns.append(Column(ROTOR + link.label, unit, "rotor", k))
    return ColumnSet(tuple(columns))
