"""What of a robot's geometry is unknown: names of symbols, letters of the table, or single entries."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dynid.errors import FIX_THE_BASE, UnknownGeometryError
from dynid.robot.robot import Robot
from dynid.unknown.geometry import LETTERS, PartlyKnown, with_unknowns

_ENTRY = re.compile(rf"({'|'.join(LETTERS)})([0-9]*)")

_OF_THE_BASE = ("gamma", "alpha")
"""Of a joint on the base they say how frame 0, in which gravity is given, was laid: known unless named as `alpha1`."""


def declare(robot: Robot, unknown: Iterable[str] | None) -> PartlyKnown:
    """Read a robot with these unknowns.

    A word is a symbol of the table (`D3`), a letter (`r`: that of every joint, also where it is 0) or one entry
    (`d3`); a symbol of that name wins. The letters alpha and gamma leave out joints on the base, whose tilt against
    gravity is meant only by `alpha1`. None takes what the table declares, () declares everything known.
    """
    check_open(robot)
    entries: set[str] = set()
    symbols: set[str] = set()
    for word in declared_words(robot, unknown):
        if word in robot.symbols:
            symbols.add(word)
        else:
            entries.update(_entries(robot, word))
    return with_unknowns(robot, frozenset(entries), frozenset(symbols))


def check_open(robot: Robot) -> None:
    """Refuse what has no Lagrangian in its own joints alone."""
    if robot.floating:
        raise UnknownGeometryError(f"'{robot.name}' has a floating base; {FIX_THE_BASE}")
    if robot.couplings or robot.closures:
        raise UnknownGeometryError(
            f"'{robot.name}' has couplings or closed loops; model parameters without geometry need an open chain"
        )


def declared_words(robot: Robot, unknown: Iterable[str] | None) -> tuple[str, ...]:
    """Words that say what is unknown; a single text may hold several, separated by commas."""
    if unknown is None:
        return robot.unknown
    if isinstance(unknown, str):
        return tuple(word.strip() for word in unknown.split(",") if word.strip())
    words = tuple(unknown) if isinstance(unknown, Iterable) else (unknown,)
    for word in words:
        if not isinstance(word, str):
            raise UnknownGeometryError(f"unknown takes names such as 'r', 'd3' or a table's symbol, got {word!r}")
    return words


def _entries(robot: Robot, word: str) -> list[str]:
    """Entries of the table that a letter or a single entry names."""
    match = _ENTRY.fullmatch(word)
    joints = len(robot.links)
    if match and match[2] and str(int(match[2])) == match[2] and 1 <= int(match[2]) <= joints:
        return [word]
    if match and not match[2]:
        first = [link.parent >= 0 or word not in _OF_THE_BASE for link in robot.links]
        return [f"{word}{j}" for j, taken in enumerate(first, 1) if taken]
    symbols = f", or a symbol of the table ({', '.join(robot.symbols)})" if robot.symbols else ""
    hint = "; a and d of the standard convention are d and r here" if re.fullmatch(r"a[0-9]*", word) else ""
    raise UnknownGeometryError(
        f"'{robot.name}' has no '{word}' that could be unknown; give letters of {', '.join(LETTERS)} "
        f"(d: all of them), with the joint's number 1 to {joints} (d3: one){symbols}{hint}"
    )
