"""Small tables for the rules, and what the rules make of them: kept names, relations in print."""

from __future__ import annotations

import math
from typing import Any

from sympy import expand, sympify  # type: ignore[import-untyped]

from dynid import Robot
from dynid.dynamics.scene import standard_columns
from dynid.identifiability.relations import relations
from dynid.identifiability.rules import find_by_rules

RIGHT = math.pi / 2
DOWN, NONE, ACROSS, TILTED = (0.0, 0.0, -9.81), (0.0, 0.0, 0.0), (9.81, 0.0, 0.0), (1.5, -2.5, -9.0)


def table(*rows: dict[str, Any], gravity: tuple[float, ...] = DOWN, **symbols: float) -> Robot:
    return Robot.from_mdh(rows, gravity=gravity, symbols=symbols)


def row(kind: str = "revolute", **letters: float | str) -> dict[str, Any]:
    return {"type": kind, **letters}


def slide(**letters: float | str) -> dict[str, Any]:
    return row("prismatic", **letters)


def fixed(**letters: float | str) -> dict[str, Any]:
    return row("fixed", **letters)


def kept_names(robot: Robot, *, rotor_inertia: bool = False) -> str:
    names = standard_columns(robot, rotor_inertia=rotor_inertia).names
    kept = find_by_rules(robot, rotor_inertia=rotor_inertia).regrouping.kept
    return " ".join(names[k] for k in kept)


def texts(robot: Robot, *, rotor_inertia: bool = False, symbolic: bool = False) -> tuple[str, ...]:
    names = standard_columns(robot, rotor_inertia=rotor_inertia).names
    found = find_by_rules(robot, rotor_inertia=rotor_inertia, symbolic=symbolic)
    return relations(found.regrouping.kept, found.coefficients, names)


def as_polynomial(relation: str) -> tuple[str, Any]:
    name, right = relation.split(" = ")
    return name, expand(sympify(right, locals={}))
