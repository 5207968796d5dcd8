"""Base parameters without sampling: the reduced echelon form of the exact conditions for visibility.

Finite and linear in the number of links; ranks are decided with 120 digits (see `digits` for what the floats of
a robot's geometry stand for).
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

import numpy as np

from dynid.base.digits import EchelonForm, I, Row, combine, many_digits
from dynid.base.exact_reading import O
from dynid.base.recursion import CHANNELS, IA, Conditions, Sight, find_conditions, weight_rows
from dynid.base.regrouping import Regrouping
from dynid.errors import ModelError
from dynid.models.columns import ColumnSet, standard_columns
from dynid.robot.robot import Robot

TORQUE_LIKE = ("torque", "static", "energy", "power")
"""Models that see the same combinations of parameters (Gautier 1991)."""


def find_by_nullspace(
    robot: Robot,
    *,
    model: str = "torque",
    rotor_inertia: bool = True,
    tared: bool = False,
    channels: tuple[str, ...] | None = None,
) -> Regrouping:
    """Kept columns and regrouping matrix of an open tree, exactly.

    Models: torque (static, energy and power see the same), momentum (torque without gravity), reaction and
    torque+reaction. `channels`: which of Fx Fy Fz Mx My Mz are measured, None for all; `tared`: each with a free
    offset. Known zeros are never kept.
    """
    sight = _sight(robot, model, channels)
    columns = standard_columns(robot, rotor_inertia=rotor_inertia)
    known = frozenset(robot.known_zeros)
    left_out = frozenset(k for k, name in enumerate(columns.names) if name in known)
    with many_digits():
        conditions = find_conditions(robot, sight, rotors=frozenset(columns.rotor_of_link))
        weights = [] if tared else weight_rows(robot, sight)
        roots = [c for c in conditions if robot.links[c.link].parent < 0]
        if weights and len(roots) == 1:
            for f in weights:
                roots[0].rows.add(combine(f, roots[0].A))
            weights = []
        if not left_out and not weights and all(link.parent < k for k, link in enumerate(robot.links)):
            rows = _regroup_link_by_link(robot, conditions, columns)
        else:
            rows = _regroup_at_once(robot, conditions, columns, weights, left_out)
    return _regrouping(rows, len(columns))


def _sight(robot: Robot, model: str, channels: tuple[str, ...] | None) -> Sight:
    if robot.couplings or robot.closures:
        raise ModelError(
            f"'{robot.name}' has couplings or closed loops, to which the method nullspace does not apply; "
            "use method='exact'"
        )
    unknown = [name for name in channels or () if name not in CHANNELS]
    if unknown:
        raise ModelError(f"there is no channel {', '.join(unknown)}; channels are {', '.join(CHANNELS)}")
    measured = CHANNELS if channels is None else tuple(name for name in CHANNELS if name in channels)
    if model in TORQUE_LIKE:
        return Sight(torques=True)
    if model == "momentum":
        return Sight(torques=True, gravity=False)
    if model not in ("reaction", "torque+reaction"):
        raise ModelError(
            f"the method nullspace does not know the model '{model}'; it knows {', '.join(TORQUE_LIKE)}, momentum, "
            "reaction and torque+reaction"
        )
    if robot.floating:
        raise ModelError(f"'{robot.name}' has a floating base and no reactions; use the torque model")
    return Sight(torques=model != "reaction", channels=measured)


def _regroup_link_by_link(robot: Robot, conditions: tuple[Conditions, ...], columns: ColumnSet) -> dict[int, Row]:
    """Rows by kept column where parents stand before children: each link keeps the pivots of its own conditions.

    With G the link's echelon form, x = G P are its base parameters; what G leaves of the composite P (the
    entries y of the columns that are not kept) flows to the parent: A (P - S x) = T y.
    """
    kept: dict[int, Row] = {}
    inflow: dict[int, list[dict[int, Row]]] = {c.link: [] for c in conditions}
    for c in reversed(conditions):
        place = _places(columns, c.link)
        composite: dict[int, Row] = {i: {column: I} for i, column in place.items()}
        for flow in inflow.pop(c.link):
            for i, row in flow.items():
                _accumulate(composite[i], row)
        for pivot, g in c.rows.in_order():
            kept[place[pivot]] = combine(g, composite)
        parent = robot.links[c.link].parent
        if parent >= 0:
            inflow[parent].append(_flow(c, composite))
    return kept


def _flow(c: Conditions, composite: dict[int, Row]) -> dict[int, Row]:
    """Rows, by the parent's parameter, of what the link hands on."""
    rest = {i: row for i, row in composite.items() if i not in c.rows.rows}
    T: dict[int, Row] = {i: {} for i in range(10)}
    for i, a in enumerate(c.A):
        for k, x in a.items():
            for m, y in _hand_on(c.rows, k).items():
                T[i][m] = T[i].get(m, O) + x * y
    return {i: combine(t, rest) for i, t in T.items() if t}


def _hand_on(G: EchelonForm, k: int) -> Row:
    """Parameter k of P - S G P, on the columns that are not kept."""
    if k not in G.rows:
        return {k: I}
    return {m: -x for m, x in G.rows[k].items() if m != k}


def _regroup_at_once(
    robot: Robot,
    conditions: tuple[Conditions, ...],
    columns: ColumnSet,
    weights: Iterable[Row],
    left_out: frozenset[int],
) -> dict[int, Row]:
    """Rows by kept column, from one echelon form of all conditions."""
    children: dict[int, list[Conditions]] = {link: [] for link in (-1, *(c.link for c in conditions))}
    for c in conditions:
        children[robot.links[c.link].parent].append(c)
    form = EchelonForm()

    def spread(f: Row, link: int, total: Row) -> Row:
        """Add a row on the composite of a link, as a row on all columns."""
        if link >= 0:
            place = _places(columns, link)
            total.update((place[i], x) for i, x in f.items() if place[i] not in left_out)
        f = {i: x for i, x in f.items() if i != IA}
        for child in children[link]:
            spread(combine(f, child.A), child.link, total)
        return total

    for c in reversed(conditions):
        for f in c.rows.rows.values():
            form.add(spread(f, c.link, {}))
    for f in weights:
        form.add(spread(f, -1, {}))
    return form.rows


def _places(columns: ColumnSet, link: int) -> dict[int, int]:
    """Column of each of a link's ten or eleven parameters."""
    first = columns.first_of_link[link]
    place = {i: first + i for i in range(10)}
    rotor = columns.rotor_of_link.get(link)
    return place if rotor is None else place | {IA: rotor}


def _accumulate(total: Row, row: Row) -> None:
    for k, x in row.items():
        total[k] = total.get(k, Decimal(0)) + x


def _regrouping(rows: dict[int, Row], size: int) -> Regrouping:
    kept = tuple(sorted(rows))
    matrix = np.zeros((len(kept), size))
    for i, pivot in enumerate(kept):
        for column, x in rows[pivot].items():
            matrix[i, column] = float(x)
    return Regrouping(kept, matrix)
