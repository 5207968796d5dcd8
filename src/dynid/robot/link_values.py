"""Nominal values of a link as a table gives them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dynid.robot.inertia import ROTOR, SYMBOLS, Body, change_of_frame, from_body
from dynid.robot.mdh import moved_zeros, transformed
from dynid.robot.schema import LinkTable
from dynid.robot.transform import Array, Transform


@dataclass(frozen=True, slots=True, eq=False)
class LinkValues:
    """Ten standard parameters (NaN where unknown), rotor inertia, known zeros and friction of a link."""

    inertia: Array
    rotor: float
    zero: frozenset[str]
    friction: tuple[tuple[str, float], ...]

    def moved(self, T: Transform, where: str, problems: list[str]) -> LinkValues:
        """Return the values in another frame, T the pose of the present one in it; known zeros must stay zeros."""
        A = change_of_frame(T)
        zero, complete = moved_zeros(A, self.zero)
        if not complete:
            problems.append(
                f"{where}, zero: {', '.join(sorted(self.zero))} are not all zeros in the modified frame of this joint; "
                'write the table with convention = "modified"'
            )
        return replace(self, inertia=transformed(A, self.inertia), zero=zero)


def read_link_values(where: str, table: LinkTable, problems: list[str]) -> LinkValues:
    """Values of a link in the file's frame; mistakes are added to problems."""
    inertia = _read_inertia(where, table, problems)
    rotor = table.rotor_inertia if table.rotor_inertia is not None else table.Ia
    if rotor is None:
        rotor = math.nan
    elif rotor < 0.0:
        problems.append(f"{where}, rotor_inertia: must not be negative, got {rotor:g}")
    zero: frozenset[str] = frozenset(table.zero)
    for symbol in zero:
        value = rotor if symbol == ROTOR else inertia[SYMBOLS.index(symbol)]
        if value != 0.0 and not math.isnan(value):
            problems.append(f"{where}: {symbol} is {value:g} and in zero; remove one of the two")
        if symbol == ROTOR:
            rotor = 0.0
        else:
            inertia[SYMBOLS.index(symbol)] = 0.0
    friction = tuple((k, float(v)) for k, v in table.friction.model_dump().items() if v is not None)
    return LinkValues(inertia, rotor, zero, friction)


def _read_inertia(where: str, table: LinkTable, problems: list[str]) -> Array:
    """Ten parameters from mass, centre of mass and inertia, or by symbol."""
    inertia = np.full(10, math.nan)
    if table.mass is not None:
        inertia = _read_body(where, table, table.mass, problems)
    elif table.com is not None or table.inertia is not None:
        problems.append(f"{where}: com and inertia need mass beside them")
    for i, symbol in enumerate(SYMBOLS):
        value = getattr(table, symbol)
        if value is not None:
            if table.mass is not None:
                problems.append(f"{where}: give either mass, com, inertia or {symbol}, not both")
            inertia[i] = value
    if inertia[9] < 0.0:
        problems.append(f"{where}: the mass must not be negative, got {inertia[9]:g}")
    return inertia


def _read_body(where: str, table: LinkTable, mass: float, problems: list[str]) -> Array:
    """Ten parameters of mass, com and inertia about it, NaN for what is not given."""
    inertia = np.full(10, math.nan)
    inertia[9] = mass
    if table.com is None:
        return inertia
    inertia[6:9] = mass * np.array(table.com)
    if table.inertia is None:
        return inertia
    J = np.array(table.inertia, dtype=np.float64)
    if J.shape == (6,):
        xx, xy, xz, yy, yz, zz = J
        J = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    if J.shape != (3, 3) or not np.array_equal(J, J.T):
        problems.append(f"{where}, inertia: give six numbers xx xy xz yy yz zz, or a symmetric 3 x 3 matrix")
        return inertia
    return from_body(Body(mass, np.array(table.com), J))
