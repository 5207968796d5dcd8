"""The ledger of the rules: which columns are still there, and what each of them stands for."""

from __future__ import annotations

from collections.abc import Iterable

from dynid.base.axes import AxisFacts, Pose, axis_facts, link_pose
from dynid.base.exact_numbers import Number, Numbers, dot
from dynid.models.columns import ColumnSet
from dynid.robot.robot import Robot

XX, XY, XZ, YY, YZ, ZZ, MX, MY, MZ, M = range(10)
ELEMENTS = {XX: (0, 0), XY: (0, 1), XZ: (0, 2), YY: (1, 1), YZ: (1, 2), ZZ: (2, 2)}

Row = dict[int, Number]
"""Coefficients of the original columns."""


class Ledger:
    """What each column that is still there stands for: rows of coefficients of the original columns."""

    def __init__(self, robot: Robot, columns: ColumnSet, numbers: Numbers) -> None:
        self.robot, self.columns, self.numbers = robot, columns, numbers
        self.poses: dict[int, Pose] = {k: link_pose(link, numbers) for k, link in enumerate(robot.links)}
        self.facts: dict[int, AxisFacts] = axis_facts(robot, self.poses, numbers)
        self.rows: dict[int, Row] = {k: {k: numbers.one} for k in range(len(columns))}

    def column(self, link: int, symbol: int) -> int:
        """Index of a link's inertial column."""
        return self.columns.first_of_link[link] + symbol

    def eliminate(self, column: int, heirs: Iterable[tuple[int, Number]] = ()) -> None:
        """Remove a column; each heir takes it over with a coefficient (Khalil & Bennis 1994, relation 3)."""
        row = self.rows.pop(column)
        for heir, coefficient in heirs:
            add_multiple(self.rows[heir], coefficient, row)

    def drop(self, link: int, *symbols: int) -> None:
        """Eliminate parameters without effect."""
        for symbol in symbols:
            self.eliminate(self.column(link, symbol))

    def carried(self, link: int, *symbols: int) -> list[tuple[int, Number]]:
        """Columns of the parent that see the sum of some unit parameters of a link: none on the base."""
        parent = self.robot.links[link].parent
        if parent < 0:
            return []
        return [
            (self.column(parent, place), x)
            for symbol in symbols
            for place, x in enumerate(carried_unit(self.poses[link], symbol, self.numbers))
            if x
        ]


def add_multiple(row: Row, factor: Number, other: Row) -> None:
    """Row += factor * other."""
    for column, x in other.items():
        total = row[column] + factor * x if column in row else factor * x
        if total:
            row[column] = total
        else:
            row.pop(column, None)


def carried_unit(pose: Pose, symbol: int, numbers: Numbers) -> list[Number]:
    """Ten parameters in the parent's frame of a unit parameter in the link's frame.

    With R, p the pose: J' = R J R', MS' = R MS + p M, and J' += 2 (p.v) 1 - p v' - v p' for v = R MS, p M / 2.
    """
    zero = numbers.zero
    axes, p = (pose.x, pose.y, pose.z), pose.origin
    if symbol in ELEMENTS:
        u, v = (axes[k] for k in ELEMENTS[symbol])
        J = [u[a] * v[b] if symbol in (XX, YY, ZZ) else u[a] * v[b] + u[b] * v[a] for a, b in ELEMENTS.values()]
        return [*J, zero, zero, zero, zero]
    if symbol == M:
        J = [(dot(p, p) if a == b else zero) - p[a] * p[b] for a, b in ELEMENTS.values()]
        return [*J, *p, numbers.one]
    v = axes[symbol - MX]
    twice = numbers.two * dot(p, v)
    J = [(twice if a == b else zero) - p[a] * v[b] - p[b] * v[a] for a, b in ELEMENTS.values()]
    return [*J, *v, zero]
