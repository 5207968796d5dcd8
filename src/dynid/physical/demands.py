"""What the user knows of the bodies beside the data, as linear rows on the parameters."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dynid.errors import PhysicalError
from dynid.physical.prior import is_massless
from dynid.robot.inertia import SYMBOLS, pseudo_inertia
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Ellipsoid:
    """A solid ellipsoid in a link's frame: centre c (3,) in m, shape E (3, 3) in m^2: (x - c)' E^-1 (x - c) <= 1."""

    centre: Array
    shape: Array


@dataclass(frozen=True, slots=True, eq=False)
class Demands:
    """total_mass (kg) of all links; bounds (low, high) by parameter; centre (3, 2) by link: a box for the mass centre.

    within: an ellipsoid by link, in which all of its mass lies (needed for that, and enough for its centre: the mean of
    1 - (x - c)' shape^-1 (x - c) over the mass is not negative).
    """

    total_mass: float | None = None
    bounds: Mapping[str, Interval] = field(default_factory=dict)
    centre: Mapping[str, Sequence[Interval]] = field(default_factory=dict)
    within: Mapping[str, Ellipsoid] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class LinearRows:
    """matrix @ values == right, or <= right; labels say in words what each row asks for."""

    matrix: Array
    right: Array
    labels: tuple[str, ...]

    @staticmethod
    def of(rows: list[tuple[Array, float, str]], width: int) -> LinearRows:
        """Stack single rows."""
        if not rows:
            return LinearRows(np.zeros((0, width)), np.zeros(0), ())
        return LinearRows(
            np.array([r for r, _, _ in rows]), np.array([b for _, b, _ in rows]), tuple(t for *_, t in rows)
        )

    def with_rows(self, other: LinearRows) -> LinearRows:
        """Both, one under the other."""
        matrix, right = np.concatenate([self.matrix, other.matrix]), np.concatenate([self.right, other.right])
        return LinearRows(matrix, right, (*self.labels, *other.labels))


def rows_of(robot: Robot, names: Sequence[str], demands: Demands) -> tuple[LinearRows, LinearRows]:
    """Equations and inequalities on the parameters `names`: the standard ones in order, then friction."""
    unit, place = np.eye(len(names)), {name: k for k, name in enumerate(names)}
    equal: list[tuple[Array, float, str]] = []
    below: list[tuple[Array, float, str]] = []
    for link in robot.links:
        for symbol in sorted(link.zero & {"XY", "XZ", "YZ", "MX", "MY", "MZ"}):
            if not is_massless(link):
                equal.append((unit[place[symbol + link.label]], 0.0, f"{symbol}{link.label} = 0 (known zero)"))
    if demands.total_mass is not None:
        mass = _positive("the total mass", demands.total_mass)
        total = np.sum([unit[place["M" + link.label]] for link in robot.links if not is_massless(link)], axis=0)
        equal.append((total, mass, f"total mass {mass:.6g} kg"))
    for name, interval in demands.bounds.items():
        low, high = _interval(f"the bounds of {name}", interval)
        row = unit[_place(name, place)]
        if low == high:
            equal.append((row, low, f"{name} = {low:.6g}"))
            continue
        if np.isfinite(high):
            below.append((row, high, f"{name} <= {high:.6g}"))
        if np.isfinite(low):
            below.append((-row, -low, f"{name} >= {low:.6g}"))
    for name, box in demands.centre.items():
        label = _label(robot, name)
        if len(box) != 3:
            raise PhysicalError(f"the box of the centre of mass of {name} needs (low, high) for x, y and z")
        m = unit[place["M" + label]]
        for axis, interval in zip("XYZ", box, strict=True):
            low, high = _interval(f"the centre of mass of {name}, {axis.lower()}", interval)
            h, where = unit[place[f"M{axis}{label}"]], f"centre of mass of {name}: {axis.lower()}"
            if np.isfinite(high):
                below.append((h - high * m, 0.0, f"{where} <= {high:.6g} m"))
            if np.isfinite(low):
                below.append((low * m - h, 0.0, f"{where} >= {low:.6g} m"))
    for name, ellipsoid in demands.within.items():
        first = place[SYMBOLS[0] + _label(robot, name)]
        row = np.zeros(len(names))
        row[first : first + 10] = -_inside(name, ellipsoid)
        below.append((row, 0.0, f"the mass of {name} inside its ellipsoid"))
    return LinearRows.of(equal, len(names)), LinearRows.of(below, len(names))


def _inside(name: str, ellipsoid: Ellipsoid) -> Array:
    """Row on ten parameters: the integral over the mass of 1 - (x - c)' shape^-1 (x - c)."""
    c, shape = np.asarray(ellipsoid.centre, dtype=np.float64), np.asarray(ellipsoid.shape, dtype=np.float64)
    if c.shape != (3,) or shape.shape != (3, 3) or not np.isfinite(c).all() or not np.isfinite(shape).all():
        raise PhysicalError(f"the ellipsoid of {name} needs a centre of 3 and a shape of 3 x 3 finite numbers")
    if np.linalg.eigvalsh(0.5 * (shape + shape.T)).min() <= 0.0:
        raise PhysicalError(f"the shape of the ellipsoid of {name} is not positive definite")
    K = np.linalg.inv(0.5 * (shape + shape.T))
    Q = np.zeros((4, 4))
    Q[:3, :3], Q[:3, 3], Q[3, :3], Q[3, 3] = -K, K @ c, c @ K, 1.0 - c @ K @ c
    return np.array([float(np.sum(Q * pseudo_inertia(unit))) for unit in np.eye(10)])


def _label(robot: Robot, name: str) -> str:
    found = [link for link in robot.links if name in (link.name, link.joint)]
    if not found or is_massless(found[0]):
        raise PhysicalError(f"there is no link '{name}' with mass; links are {', '.join(x.name for x in robot.links)}")
    return found[0].label


def _place(name: str, place: Mapping[str, int]) -> int:
    if name not in place:
        near = difflib.get_close_matches(name, list(place), n=3) or list(place)[:8]
        raise PhysicalError(f"there is no parameter '{name}' here to be bounded; near it are {', '.join(near)}")
    return place[name]


def _interval(what: str, interval: object) -> Interval:
    try:
        low, high = (float(x) for x in interval)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        low = high = np.nan
    if np.isnan(low) or np.isnan(high):
        raise PhysicalError(f"{what}: give two numbers (low, high), got {str(interval)[:60]}")
    if low > high or low == np.inf or high == -np.inf:
        raise PhysicalError(f"{what} contradict each other: {low:.6g} is above {high:.6g}")
    return low, high


def _positive(what: str, value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = np.nan
    if not (np.isfinite(number) and number > 0.0):
        raise PhysicalError(f"{what} must be a positive number of kg, got {str(value)[:60]}")
    return number
