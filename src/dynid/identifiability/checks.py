"""When a count of base parameters cannot be trusted: in words, with the names of the parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.identifiability.numeric import UNCERTAIN, NumericResult
from dynid.identifiability.samples import Question
from dynid.messages import Message, Option, Wording
from dynid.robot.expression import Expression
from dynid.robot.mdh import mdh_transform
from dynid.robot.robot import Link, MdhRow, Robot

REMEDY = "Use {exact}, or state start and at farther from singular positions"
EXACT = Option("method", "exact")

SMALL_GAP = 1e4
SMALL_RESIDUAL, SMALL_IN_LOOPS = 1e-3, 1e-5
"""Unit-column residuals of suspect parameters; in closed loops, whose noise is known, 1e-4 is common and sound."""
SMALL_ANGLE = 1e-3
"""Angles (rad) this close to a multiple of 90 degrees, but not there, are suspect."""
SMALL_LENGTH = 1e-5
"""Lengths below this share of the robot's largest are suspect."""


def find_rank_warnings(
    result: NumericResult, names: tuple[str, ...], others: Sequence[NumericResult] = ()
) -> tuple[Message, ...]:
    """Warnings on a numerical result: a small gap, columns that are almost dependent, other draws that disagree."""
    columns = result.diagnostics.columns
    residual = result.residual
    accepted = np.isin(columns, result.regrouping.kept)
    warnings = []
    if result.gap < SMALL_GAP:
        weakest = names[columns[int(np.argmin(np.where(accepted, residual, np.inf)))]]
        dropped = np.where(accepted, -np.inf, residual)
        strongest = None if accepted.all() else names[columns[int(np.argmax(dropped))]]
        compared = "{kept} was kept" if strongest is None else "{kept} was kept and {dropped} as dependent"
        warnings.append(Message(
            "rank_gap_small", "the gap between kept and dropped columns is only {gap:.2g}: " + compared
            + ", but this may be rounding; axes almost parallel or almost meeting do this.",
            "Compare with an exact method (nullspace for open trees, exact for closed loops)", gap=result.gap,
            kept=weakest, dropped=strongest,
        ))  # fmt: skip
    small = np.flatnonzero(accepted & (residual < (SMALL_RESIDUAL if result.uncertain is None else SMALL_IN_LOOPS)))
    doubtful = [names[columns[k]] for k in small]
    if doubtful:
        least = float(residual[small].min())
        warnings.append(Message(
            "parameters_hardly_distinct", "{parameters} can hardly be distinguished from others (unit-column residual "
            "down to {residual:.1g}): a rounded angle such as 1.5708, nearly parallel axes or a tiny offset make such "
            "false base parameters, in closed loops also lengths that are nearly equal; a narrow range of motion "
            "makes such weak ones", parameters=list(doubtful), residual=least,
        ))  # fmt: skip
    if result.uncertain:
        warnings.append(Message(
            "rank_limited_by_rounding", "rounding may decide whether {parameters} can be identified: loops close to "
            "rounding only, and what is left of these columns is below {share:.0e} times its effect.",
            REMEDY, parameters=[names[k] for k in result.uncertain], share=UNCERTAIN, exact=EXACT,
        ))  # fmt: skip
    kept = set(result.regrouping.kept)
    differing = sorted(set().union(*(kept ^ set(other.regrouping.kept) for other in others)))
    if differing:
        counts = [len(x.regrouping.kept) for x in (result, *others)]
        warnings.append(Message(
            "sample_draws_disagree", "independent draws of samples disagree on {parameters} ({counts} base "
            "parameters).", REMEDY, parameters=[names[k] for k in differing], counts=counts, exact=EXACT,
        ))  # fmt: skip
    return tuple(warnings)


def find_geometry_warnings(question: Question) -> tuple[Message, ...]:
    """Warnings on a geometry that is almost special: what the count would be if it were, and which names hang on it."""
    robot = question.robot.to_mdh()
    places, special = _make_special(robot)
    if not places:
        return ()
    lost = _names_lost_by_special_geometry(question, robot, special)
    if lost is None:
        what = "{places}: base parameters that exist only because of this cannot be trusted"
        return (Message("geometry_almost_special", what, places="; ".join(places)),)
    if not lost:
        return ()
    return (Message(
        "geometry_almost_special", "{places}: only because of this there are the base parameters {parameters}, which "
        "no experiment can distinguish from others", "if it is rounding, correct the geometry (angles: {snap})",
        places="; ".join(places), parameters=list(lost),
        snap=Wording("load with snap=True", "leave out --no-snap"),
    ),)  # fmt: skip


def _make_special(robot: Robot) -> tuple[list[str], Robot]:
    """Places where the geometry is almost special, and the robot with them made special."""
    rows = [link.mdh for link in robot.links if link.mdh is not None]
    largest = max((abs(x.value) for row in rows for x in (row.b, row.d, row.r)), default=0.0)
    places: list[str] = []
    links = tuple(
        link if link.mdh is None else _make_link_special(link, link.mdh, largest, places) for link in robot.links
    )
    return places, replace(robot, links=links)


def _make_link_special(link: Link, row: MdhRow, largest: float, places: list[str]) -> Link:
    """The link with almost special angles and lengths made special; their places are added."""
    changes: dict[str, Expression] = {}
    for letter in ("gamma", "alpha", "theta"):
        angle = getattr(row, letter).value
        nearest = round(angle / (math.pi / 2)) * (math.pi / 2)
        if 0.0 < abs(angle - nearest) < SMALL_ANGLE:
            places.append(
                f"joint {link.joint}: {letter} is {abs(angle - nearest):.1g} rad off a multiple of 90 degrees"
            )
            changes[letter] = Expression(nearest)
    for letter in ("b", "d", "r"):
        length = getattr(row, letter).value
        if 0.0 < abs(length) < SMALL_LENGTH * largest:
            places.append(f"joint {link.joint}: {letter} is only {length:.1g} m")
            changes[letter] = Expression(0.0)
    if not changes:
        return link
    special = replace(row, **changes)
    return replace(link, mdh=special, placement=mdh_transform(special))


def _names_lost_by_special_geometry(question: Question, robot: Robot, special: Robot) -> tuple[str, ...] | None:
    """Names kept for the given geometry and not for the special one; None where no exact method applies."""
    from dynid.identifiability.nullspace import find_by_nullspace

    if robot.couplings or robot.closures or not question.sees_plain_directions:
        return None
    kept = [
        set(
            find_by_nullspace(
                r, model=question.model, rotor_inertia=question.rotor_inertia, tared=question.tared,
                channels=question.channels,
            ).kept
        )
        for r in (robot, special)
    ]  # fmt: skip
    names = [column.name for column in question.columns]
    return tuple(names[k] for k in sorted(kept[0] - kept[1]))
