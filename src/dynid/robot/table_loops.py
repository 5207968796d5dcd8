"""Couplings and closures of a robot table."""

from __future__ import annotations

from collections.abc import Sequence

from dynid.robot.loops import Closure, Coupling
from dynid.robot.schema import ClosureTable, CouplingTable
from dynid.robot.table_sheet import LARGEST_TURN, Sheet
from dynid.robot.transform import freeze


def read_coupling(sheet: Sheet, k: int, coupling: CouplingTable) -> Coupling:
    """Coupling k of the table, from 1."""
    where = f"coupling {k}"
    _check_moving(sheet, f"{where}, passive", coupling.passive)
    for name in coupling.of:
        _check_moving(sheet, f"{where}, of", name)
    if coupling.passive in coupling.of:
        sheet.problems.append(f"{where}: joint '{coupling.passive}' is coupled with itself; leave it out of 'of'")
    turns = sheet.joint_type(coupling.passive) == "revolute"
    where += ", offset"
    value = coupling.offset
    offset = sheet.angle(where, value, largest=LARGEST_TURN) if turns else sheet.number(where, value)
    return Coupling(coupling.passive, tuple((n, f) for n, f in coupling.of.items()), offset.value)


def read_closure(sheet: Sheet, k: int, closure: ClosureTable) -> Closure:
    """Closure k of the table, from 1."""
    where = f"closure {k}"
    for name in closure.frames:
        if name not in sheet.names:
            sheet.problems.append(f"{where}, frames: there is no joint '{name}'; joints are {', '.join(sheet.names)}")
    for name in closure.passive:
        _check_moving(sheet, f"{where}, passive", name)
    if len(set(closure.keep)) != len(closure.passive) or len(closure.keep) != len(closure.passive):
        sheet.problems.append(
            f"{where}: keeps {len(set(closure.keep))} directions with {len(closure.passive)} passive joints; "
            "give as many of one as of the other"
        )
    points = [[sheet.number(f"{where}, points", x).value for x in p] for p in closure.points or [[0.0] * 3] * 2]
    if any(len(point) != 3 for point in points):
        sheet.problems.append(f"{where}, points: each point needs three coordinates")
        points = [[0.0] * 3] * 2
    start = sheet.positions(where, closure.start, closure.passive, "start") or [0.0] * len(closure.passive)
    at = sheet.positions(where, closure.at, sheet.active, "at")
    return Closure(
        (closure.frames[0], closure.frames[1]),
        tuple(closure.keep),
        tuple(closure.passive),
        (freeze(points[0]), freeze(points[1])),
        freeze(start),
        None if at is None else freeze(at),
    )


def check_passive(sheet: Sheet, couplings: Sequence[Coupling], closures: Sequence[Closure]) -> None:
    """No joint is passive twice, some are active, and no coupling depends on itself."""
    passive = [c.passive for c in couplings] + [name for c in closures for name in c.passive]
    for name in dict.fromkeys(n for n in passive if passive.count(n) > 1):
        sheet.problems.append(f"joint '{name}' is made passive twice; one coupling or closure is enough")
    moving = [n for n, joint in zip(sheet.names, sheet.table.joint, strict=True) if joint.type != "fixed"]
    if moving and set(moving) <= set(passive):
        sheet.problems.append("every joint is passive; leave at least one active")
    coupled = {c.passive: [name for name, _ in c.factors] for c in couplings}
    for name in coupled:
        seen, todo = set(), list(coupled[name])
        while todo:
            other = todo.pop()
            if other not in seen:
                seen.add(other)
                todo += coupled.get(other, [])
        if name in seen and name not in coupled[name]:
            sheet.problems.append(
                f"coupling: joint '{name}' depends on itself through {', '.join(sorted(seen - {name}))}"
            )


def _check_moving(sheet: Sheet, where: str, name: str) -> None:
    if name not in sheet.names:
        sheet.problems.append(f"{where}: there is no joint '{name}'; joints are {', '.join(sheet.names)}")
    elif sheet.table.joint[sheet.names.index(name)].type == "fixed":
        sheet.problems.append(f"{where}: joint '{name}' is fixed and cannot be coupled")
