"""A finite field in which angles are points of the circle: GF(p) with p = 1 mod 360000."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dynid.errors import ModelError
from dynid.identifiability.exact_geometry import FULL_TURN, Angle, Motions, Turn, read_angle, read_axis, read_placement
from dynid.messages import Option
from dynid.robot.robot import Robot

Numbers: TypeAlias = NDArray[np.object_]
"""Elements of the field: Python integers in an array, the samples along its first axis."""


@dataclass(frozen=True, slots=True)
class Field:
    """GF(p) with a 360000th root of unity, i, and a generic element for angles in units of `unit` rad."""

    p: int
    chance: random.Random
    root: int
    generic: int
    unit: Fraction

    @staticmethod
    def for_robot(robot: Robot, p: int, chance: random.Random) -> Field:
        """Return a field whose unit divides every angle of the robot that is not in whole millidegrees."""
        motions = [m for link in robot.links for m in (*read_placement(link), *read_axis(link.axis))]
        angles = [m.angle for m in motions if isinstance(m, Turn)]
        angles += [read_angle(c.offset) for c in robot.couplings]
        return Field.for_angles(angles, p, chance)

    @staticmethod
    def for_angles(angles: Iterable[Angle], p: int, chance: random.Random) -> Field:
        """Return a field whose unit divides every one of these angles that is not in whole millidegrees."""
        values = [Fraction(a.radians) for a in angles if a.millidegrees is None]
        denominator = math.lcm(1, *(x.denominator for x in values))
        unit = Fraction(math.gcd(*(int(x * denominator) for x in values)) or 1, denominator)
        return Field(p, chance, _root_of_unity(p, chance), chance.randrange(2, p), unit)

    def circle_point(self, angle: Angle, factor: Fraction) -> int:
        """Point of the circle at factor * angle."""
        if angle.millidegrees is not None:
            steps = angle.millidegrees * factor
            if steps.denominator > 1:
                return self.circle_point(read_angle(float(steps) * math.pi / (FULL_TURN / 2)), Fraction(1))
            return pow(self.root, int(steps), self.p)
        steps = Fraction(angle.radians) * factor / self.unit
        if steps.denominator > 1:
            raise ModelError(
                "coupling_offset_not_whole", "the offset of a chain of couplings is not a whole multiple of the "
                "robot's angles", "use {qr}", qr=Option("method", "qr"),
            )  # fmt: skip
        return pow(self.generic, int(steps), self.p)

    def field_element(self, value: Fraction | Decimal) -> int:
        """Element of the field that a rational number is."""
        exact = Fraction(value)
        return exact.numerator * pow(exact.denominator, -1, self.p) % self.p

    def random_elements(self, *shape: int) -> Numbers:
        """Random nonzero elements."""
        values = [self.chance.randrange(1, self.p) for _ in range(math.prod(shape))]
        return np.array(values, dtype=object).reshape(shape)

    def cos_sin(self, z: Numbers) -> tuple[Numbers, Numbers]:
        """Cosine and sine of points z of the circle."""
        p = self.p
        half, i = pow(2, -1, p), pow(self.root, FULL_TURN // 4, p)
        inverse = np.array([pow(int(x), -1, p) for x in z], dtype=object)
        return (z + inverse) * half % p, (z - inverse) * half % p * pow(i, -1, p) % p

    def rotations_about(self, axis: int, z: Numbers) -> Numbers:
        """Rotations (N, 3, 3) about x, y or z."""
        c, s = self.cos_sin(z)
        R = np.zeros((len(z), 3, 3), dtype=object)
        b, d = (axis + 1) % 3, (axis + 2) % 3
        R[:, axis, axis] = 1
        R[:, b, b] = R[:, d, d] = c
        R[:, d, b], R[:, b, d] = s, -s % self.p
        return R

    def pose(self, motions: Motions) -> tuple[Numbers, Numbers]:
        """Rotation (3, 3) and translation (3,) of a product of elementary motions."""
        R, t = np.array(np.eye(3, dtype=int), dtype=object), np.zeros(3, dtype=object)
        for motion in motions:
            if isinstance(motion, Turn):
                z = np.array([self.circle_point(motion.angle, Fraction(1))], dtype=object)
                R = R @ self.rotations_about(motion.axis, z)[0] % self.p
            else:
                t = (t + R @ np.array([self.field_element(x) for x in motion.by], dtype=object)) % self.p
        return R, t


def _root_of_unity(p: int, chance: random.Random) -> int:
    """Element of order 360000: a root of unity in GF(p)."""
    while True:
        root = pow(chance.randrange(2, p), (p - 1) // FULL_TURN, p)
        if all(pow(root, FULL_TURN // factor, p) != 1 for factor in (2, 3, 5)):
            return root
