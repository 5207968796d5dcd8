"""Equalities of an MJCF that tie joints: gears, and fixed tendons of constant length."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dynid.errors import RobotFileError
from dynid.robot.loops import Coupling
from dynid.robot.xml import numbers, place_of

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


def read_couplings(path: Path, root: Element, zeros: Mapping[str, float]) -> tuple[Coupling, ...]:
    """Linear joint equalities, joint1 = polycoef[0] + polycoef[1] joint2, and fixed tendons of constant length.

    Both count from the positions `zeros` that joints have as they are drawn.
    """
    couplings: list[Coupling] = []
    for part in (p for equality in root.findall("equality") for p in equality):
        if part.tag == "tendon":
            couplings.append(_tied(path, root, part, zeros))
        elif part.tag == "joint":
            name, leader = part.get("joint1", ""), part.get("joint2")
            offset, factor, *higher = _polynomial(path, part, f"equality of joint '{name}'")
            if leader is None or any(higher):
                raise RobotFileError(
                    str(path), [f"equality of joint '{name}': only linear couplings of two joints are read"]
                )
            offset += zeros.get(name, 0.0) - factor * zeros.get(leader, 0.0)
            couplings.append(Coupling(name, ((leader, factor),), offset))
    return tuple(couplings)


def _tied(path: Path, root: Element, part: Element, zeros: Mapping[str, float]) -> Coupling:
    """Joints on a fixed tendon of constant length: the first one follows the others."""
    name = part.get("tendon1", "")
    where = f"equality of tendon '{name}'"
    fixed = [f for tendon in root.findall("tendon") for f in tendon.findall("fixed") if f.get("name") == name]
    length, _, *higher = _polynomial(path, part, where)
    if len(fixed) != 1 or part.get("tendon2") is not None or any(higher):
        raise RobotFileError(str(path), [f"{where}: only fixed tendons of constant length are read"])
    try:
        terms = [(j.get("joint", ""), numbers(j, "coef", (0.0,))[0]) for j in fixed[0].findall("joint")]
    except ValueError as error:
        raise RobotFileError(str(path), [f"{where}: {error}"]) from error
    if len(terms) < 2 or terms[0][1] == 0.0:
        raise RobotFileError(str(path), [f"{where}: it needs two joints or more, the first with a coef"])
    (passive, own), *others = terms
    length += sum(coef * zeros.get(joint, 0.0) for joint, coef in terms)
    return Coupling(passive, tuple((joint, -coef / own) for joint, coef in others), length / own)


def _polynomial(path: Path, part: Element, where: str) -> list[float]:
    default = (0.0, 1.0, 0.0, 0.0, 0.0)
    count = min(max(len(part.get("polycoef", "").split()), 1), 5)
    try:
        return [*numbers(part, "polycoef", default[:count]), *default[count:]]
    except ValueError as error:
        raise RobotFileError(str(path), [f"{place_of(part)}{where}: {error}"]) from error
