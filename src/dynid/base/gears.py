"""Linear couplings with exact fractions: every joint in terms of the active ones."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dynid.errors import ModelError
from dynid.robot.robot import Robot


@dataclass(frozen=True, slots=True)
class Gear:
    """A joint in terms of the active ones: q = sum(factor * q_active) + sum(factor * offset)."""

    factors: dict[str, Fraction]
    offsets: tuple[tuple[Fraction, float], ...] = ()


def find_gears(robot: Robot) -> dict[str, Gear]:
    """Every moving joint in terms of the active ones, and of those that closures make passive."""
    followers = (name for closure in robot.closures for name in closure.passive)
    found = {name: Gear({name: Fraction(1)}) for name in (*robot.joint_names, *followers)}
    waiting = list(robot.couplings)
    while waiting:
        coupling = next((c for c in waiting if all(name in found for name, _ in c.factors)), None)
        if coupling is None:
            raise ModelError(f"the couplings of '{robot.name}' depend on each other")
        waiting.remove(coupling)
        factors: dict[str, Fraction] = {}
        offsets = [(Fraction(1), coupling.offset)] if coupling.offset else []
        for name, value in coupling.factors:
            k = _simple_fraction(value)
            for active, factor in found[name].factors.items():
                factors[active] = factors.get(active, Fraction(0)) + k * factor
            offsets += [(k * factor, offset) for factor, offset in found[name].offsets]
        found[coupling.passive] = Gear(factors, tuple(offsets))
    return found


def _simple_fraction(value: float) -> Fraction:
    """The fraction that a float stands for: 1/3 for 0.333..., else the decimal that Python prints."""
    simple = Fraction(value).limit_denominator(10_000)
    return simple if float(simple) == value else Fraction(repr(value))
