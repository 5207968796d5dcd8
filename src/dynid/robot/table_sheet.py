"""A checked table under way to a robot: its numbers in SI, and the mistakes that only the whole table shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from dynid.concurrency import cached_property
from dynid.errors import ExpressionError
from dynid.robot.expression import Expression, evaluate, parse_expression, symbols_of
from dynid.robot.schema import RobotTable
from dynid.robot.snapping import Snapped, tell_snapped
from dynid.robot.transform import snap_angle

LARGEST_TURN = 8 * math.pi
"""A revolute joint's limit beyond this (rad) was surely meant in degrees."""


@dataclass
class Sheet:
    """A table with the names of its joints; readers of its parts add to problems and notes."""

    table: RobotTable
    snap: bool
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    snapped: list[Snapped] = field(default_factory=list)

    @cached_property
    def names(self) -> list[str]:
        """Names of the joints, numbers where the file gives none."""
        return [joint.name or str(j) for j, joint in enumerate(self.table.joint, 1)]

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Notes for the user, those on snapped angles last."""
        return (*self.notes, *tell_snapped(self.snapped))

    @property
    def turn(self) -> float:
        """What an angle of the file is multiplied with to be in rad."""
        return math.pi / 180 if self.table.angles == "deg" else 1.0

    @cached_property
    def active(self) -> list[str]:
        """Joints that move by themselves."""
        passive = {c.passive for c in self.table.coupling}.union(*(c.passive for c in self.table.closure))
        pairs = zip(self.names, self.table.joint, strict=True)
        return [name for name, joint in pairs if joint.type != "fixed" and name not in passive]

    def joint_type(self, name: str) -> str:
        """Kind of the joint with this name, revolute where there is none."""
        return self.table.joint[self.names.index(name)].type if name in self.names else "revolute"

    def number(self, where: str, value: float | str) -> Expression:
        """Value of a number or expression of the file, as it is."""
        if isinstance(value, float):
            return Expression(value)
        try:
            number = evaluate(value, self.table.symbols)
            text = value.strip() if symbols_of(parse_expression(value)) else None
        except ExpressionError as error:
            self.problems.append(f"{where}: {error}")
            return Expression(0.0)
        return Expression(number, text)

    def angle(self, where: str, value: float | str, *, largest: float = 2 * math.pi + 1e-9) -> Expression:
        """Angle in rad; near multiples of 90 degrees it is snapped, with a note."""
        number = self.number(where, value)
        degrees = self.table.angles == "deg"
        if not degrees and abs(number.value) > largest:
            self.problems.append(
                f'{where}: {number.value:g} rad is more than a turn, surely degrees; write angles = "deg" in the file'
            )
        angle = _radians(number.value) if degrees else number.value
        if self.snap and (snapped := snap_angle(angle)) != angle:
            if abs(snapped - angle) > 1e-12:
                note = f"{where}: {angle:.9g} rad taken for {math.degrees(snapped):g} degrees; snap=False keeps it"
                self.snapped.append(Snapped(where, abs(snapped - angle), note))
            angle = snapped
        return Expression(angle, number.text, degrees and number.text is not None)

    def positions(
        self, where: str, values: list[float | str] | None, joints: Sequence[str], key: str
    ) -> list[float] | None:
        """Joint positions, angles in the file's unit."""
        if values is None:
            return None
        if len(values) != len(joints):
            self.problems.append(f"{where}, {key}: {len(values)} values for {len(joints)} joints ({', '.join(joints)})")
            return None
        return [
            self.number(f"{where}, {key}", x).value * (self.turn if self.joint_type(name) == "revolute" else 1.0)
            for x, name in zip(values, joints, strict=True)
        ]


def _radians(degrees: float) -> float:
    """Convert to rad, exact at multiples of 90 degrees."""
    quarter = degrees / 90.0
    return quarter * (math.pi / 2) if quarter == round(quarter) else math.radians(degrees)
