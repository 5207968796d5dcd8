"""What a regrouping of the unknowns tells of a payload: which parameters alone, which in sums, which not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynid.estimation.diagnostics.unidentifiable import Unidentifiable, describe_identified_sums, find_revealing_motion
from dynid.estimation.regression.equation import Equation
from dynid.identifiability.relations import Regrouping
from dynid.messages import Message
from dynid.robot.parameter import Parameter
from dynid.robot.transform import Array

SMALL = 1e-6
"""Share of the largest one of a parameter below which it joins another by rounding only."""


@dataclass(frozen=True, slots=True, eq=False)
class IdentifiablePayload:
    """Names, units and places (among the kept unknowns) of what the data determine; lost: the rest.

    shares (names, 10): of the payload's parameters in each of them, NaN where the robot's have a share too.
    """

    names: tuple[Parameter, ...]
    units: tuple[str, ...]
    places: list[int]
    lost: tuple[Unidentifiable, ...]
    shares: Array


def compose_regroupings(first: Regrouping, second: Regrouping | None) -> Regrouping:
    """Regrouping of two in succession: the second regroups what the first kept."""
    if second is None:
        return first
    return Regrouping(tuple(first.kept[k] for k in second.kept), second.matrix @ first.matrix)


def find_identifiable_payload(
    names: Sequence[Parameter],
    regrouping: Regrouping,
    equation: Equation,
    to_base: Array,
    K: Array,
    posture: Array | None,
) -> IdentifiablePayload:
    """Combinations of the payload's parameters that the data determine; to_base (base, robot's) maps the robot's.

    posture (n,): around which motions are tried, to name one that would show what is lost.
    """
    before = len(names) - 10
    kept, M = regrouping.kept, _drop_rounding_shares(regrouping.matrix)
    sums, units, places, lost = [], [], [], []
    for row, k in enumerate(kept):
        if k < before:
            continue
        text = str(names[k])
        for other in range(len(names)):
            share = M[row, other]
            if other != k and share != 0.0:
                factor = "" if abs(abs(share) - 1.0) < SMALL else f"{abs(share):.4g} "
                text += f" {'+' if share > 0 else '-'} {factor}{names[other]}"
        own = names[k]
        sums.append(Parameter(text, symbol=own.symbol, kind="inertial", unit=own.unit, link=own.link))
        units.append(own.unit)
        places.append(row)
    for k in range(before, len(names)):
        if k in kept:
            continue
        terms = [(float(share), names[i]) for i, share in zip(kept, M[:, k], strict=True) if share != 0.0]
        direction = np.zeros(len(names))
        direction[k] = 1.0
        direction[list(kept)] -= M[:, k]
        without = to_base @ direction[:before]
        remedy = _find_remedy(equation, without + K @ direction[before:], without, posture)
        shares = tuple((name, share) for share, name in terms)
        lost.append(Unidentifiable(names[k], describe_identified_sums(terms, names[k]), remedy, shares))
    told = M[places]
    of_payload = np.where(told[:, :before].any(axis=1, keepdims=True), np.nan, told[:, before:])
    return IdentifiablePayload(tuple(sums), tuple(units), places, tuple(lost), of_payload)


def _drop_rounding_shares(matrix: Array) -> Array:
    """Matrix with shares that are mere rounding set to zero."""
    largest = np.abs(matrix).max(axis=0, initial=0.0)
    return np.where(np.abs(matrix) > SMALL * largest, matrix, 0.0)


def _find_remedy(equation: Equation, loaded: Array, unloaded: Array, posture: Array | None) -> Message:
    """Message on a motion that shows a direction of the base parameters, with the payload or without it."""
    size = max(float(np.abs(loaded).max(initial=0.0)), float(np.abs(unloaded).max(initial=0.0)))
    if size < 1e-9:
        if len(equation.joints) < equation.robot.n:
            return Message(
                "no_motion_reveals_it", "no motion shows it in the torques of these joints", "use those of all joints"
            )
        return Message("no_motion_reveals_it", "no motion of this robot shows it in its torques")
    if posture is None:
        return Message("move_more_joints", "record motions that move more joints, with and without the payload")
    which, rigid = ("with", loaded) if np.abs(loaded).max() > 1e-9 * size else ("without", unloaded)
    padded = np.concatenate([rigid, np.zeros(equation.rigid_column_count - len(rigid))])
    motion = find_revealing_motion(equation, padded, posture)
    return Message(motion.code, "{motion} in the logs {which} the payload", **motion.facts, motion=motion, which=which)
