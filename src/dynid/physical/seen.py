"""What identified parameters are made of: standard parameters, friction, and what hides in their sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.estimation.identification import Identification
from dynid.estimation.structure import structural_columns
from dynid.estimation.unknowns import Unknowns
from dynid.robot.transform import Array

HIDDEN_SHARE = 0.1
"""Doubt of an offset that hides in an identified sum, as a share of that sum."""


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """Identified parameters = matrix @ parameters `names`: standard ones in order, others as identified, hidden ones.

    others: where the identified ones among them stand in the result. sizes, centre and doubt speak of all that are not
    standard: their size, where they are believed to be, and how much a deviation by their size counts. Hidden are
    columns that no data tell from others, such as an offset beside a mass that gravity pulls along its joint.
    """

    names: tuple[str, ...]
    matrix: Array
    others: tuple[int, ...]
    sizes: Array
    centre: Array
    doubt: Array


def seen_by(result: Identification) -> Seen:
    """Take a result's parameters apart."""
    base, standard = result.equation.base, result.robot.parameter_names
    own = dict(zip(base.names, base.matrix, strict=True))
    place = {name: k for k, name in enumerate(result.names)}
    others = tuple(k for k, name in enumerate(result.names) if name not in own)
    hidden = _hidden(result, set(own))
    names = (*standard, *(result.names[k] for k in others), *hidden)
    matrix = np.zeros((len(place), len(names)))
    for name, k in place.items():
        if name in own:
            matrix[k, : len(standard)] = own[name]
    for lost, shares in result.joined.items():
        for name, share in shares.items():
            if lost in own and name in place:
                matrix[place[name], : len(standard)] += share * own[lost]
    matrix[list(others), len(standard) + np.arange(len(others))] = 1.0
    values = np.asarray(result.values)
    deviation = np.where(np.isfinite(result.sigma), result.sigma, 0.0)
    sizes = [max(float(abs(values[k])), 10.0 * float(deviation[k]), 1e-9) for k in others]
    for column, shares in enumerate(hidden.values(), start=len(standard) + len(others)):
        reach = []
        for name, share in shares.items():
            matrix[place[name], column] = share
            reach.append((abs(values[place[name]]) + deviation[place[name]]) / abs(share))
        sizes.append(max(HIDDEN_SHARE * float(min(reach)), 1e-9))
    centre = np.concatenate([values[list(others)], np.zeros(len(hidden))])
    doubt = np.array([1e-3] * len(others) + [1.0] * len(hidden))
    return Seen(names, matrix, others, np.array(sizes), centre, doubt)


def _hidden(result: Identification, base: set[str]) -> dict[str, dict[str, float]]:
    """Columns of no link that are in the sums of others: lost in these data, or the same on every motion."""
    found = {name: dict(shares) for name, shares in result.joined.items() if name not in base and shares}
    logs, equation = len(result.factors), result.equation
    per_log = any("@" in name and name.startswith("Fo") for name in result.names)
    unknowns = Unknowns.of(equation, result.friction, logs, offsets_per_log=per_log)
    missing = set(unknowns.names) - set(result.names) - {item.name for item in result.lost}
    if not missing:
        return found
    kept, joined = structural_columns(equation, unknowns)
    for column, name in enumerate(unknowns.names):
        if name not in missing or column in kept:
            continue
        shares: dict[str, float] = {}
        for k, share in zip(kept, joined[:, column], strict=True):
            if abs(share) > 1e-9:
                for last, more in result.joined.get(unknowns.names[k], {unknowns.names[k]: 1.0}).items():
                    shares[last] = shares.get(last, 0.0) + float(share) * more
        shares = {last: share for last, share in shares.items() if last in result.names and abs(share) > 1e-12}
        if shares:
            found[name] = shares
    return found
