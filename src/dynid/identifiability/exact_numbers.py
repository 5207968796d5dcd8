"""Numbers with 120 digits that carry, in symbolic work, their forms in the symbols of a robot's table."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from dynid.identifiability.digits import ZERO, cosine_sine
from dynid.identifiability.exact_geometry import read_angle, read_length
from dynid.identifiability.symbols import Form, Ring, length_generators, split_leading_minus
from dynid.robot.expression import Expression
from dynid.robot.robot import Robot


@dataclass(frozen=True, slots=True)
class Number:
    """A coefficient or coordinate: its value to 120 digits and, in symbolic work, its form."""

    value: Decimal
    form: Form | None = None

    def __add__(self, other: Number) -> Number:
        if self.form is None or other.form is None:
            return Number(self.value + other.value)
        return Number(self.value + other.value, self.form + other.form)

    def __neg__(self) -> Number:
        return Number(-self.value, None if self.form is None else -self.form)

    def __sub__(self, other: Number) -> Number:
        return self + -other

    def __mul__(self, other: Number) -> Number:
        if self.form is None or other.form is None:
            return Number(self.value * other.value)
        return Number(self.value * other.value, self.form * other.form)

    def __truediv__(self, other: Number) -> Number:
        if self.form is None or other.form is None:
            return Number(self.value / other.value)
        return Number(self.value / other.value, self.form / other.form)

    def __bool__(self) -> bool:
        """Whether there is anything to write down: a form may be zero only for these values of the symbols."""
        return abs(self.value) >= ZERO if self.form is None else bool(self.form)


Vector = tuple[Number, Number, Number]


def dot(u: Vector, v: Vector) -> Number:
    """Scalar product."""
    return u[0] * v[0] + u[1] * v[1] + u[2] * v[2]


class Numbers:
    """Where numbers come from, and when they are zero; with a ring they carry their forms."""

    def __init__(self, ring: Ring | None = None, smallest: Decimal = ZERO) -> None:
        self.ring, self.smallest = ring, smallest
        self.zero, self.one, self.two = self.whole(0), self.whole(1), self.whole(2)
        self.null: Vector = (self.zero, self.zero, self.zero)
        self.z: Vector = (self.zero, self.zero, self.one)

    def whole(self, k: int) -> Number:
        """Return an integer."""
        return Number(Decimal(k), None if self.ring is None else self.ring.constant(k))

    def is_zero(self, x: Number) -> bool:
        """Whether a coordinate (m, or a cosine) is zero for the values of the symbols."""
        return abs(x.value) < self.smallest

    def along_z(self, v: Vector) -> bool:
        """Whether a vector is parallel to z; the null vector is."""
        return self.is_zero(v[0]) and self.is_zero(v[1])

    def length(self, length: Expression) -> Number:
        """Return the decimal number that a length (m) is written as; one that is 0 is 0 in its form, too."""
        value = read_length(length.value)
        if not value:
            return self.zero
        return Number(value, None if self.ring is None else self.ring.length(length))

    def cos_sin(self, angle: Expression) -> tuple[Number, Number]:
        """Cosine and sine; the floating-point multiples of 90 degrees are meant exactly."""
        exact = read_angle(angle.value)
        cosine, sine = cosine_sine(exact)
        if exact.is_right:
            return self.whole(int(cosine)), self.whole(int(sine))
        if self.ring is None:
            return Number(cosine), Number(sine)
        forms = self.ring.cos_sin(angle)
        return Number(cosine, forms[0]), Number(sine, forms[1])


def numbers_for(robot: Robot, *, symbolic: bool, smallest: Decimal = ZERO) -> Numbers:
    """Return plain numbers, or numbers with forms in the symbols and angles of the robot's table."""
    if not symbolic:
        return Numbers(smallest=smallest)
    lengths: dict[str, None] = {}
    angles: dict[str, None] = {}
    for link in robot.links:
        assert link.mdh is not None
        for length in (link.mdh.d, link.mdh.r, link.mdh.b):
            lengths |= dict.fromkeys(length_generators(length))
        for angle in (link.mdh.gamma, link.mdh.alpha, link.mdh.theta):
            if not read_angle(angle.value).is_right:
                text = split_leading_minus(angle)[0]
                angles |= dict.fromkeys((f"cos({text})", f"sin({text})"))
    known = [name for name in robot.symbols if name in lengths]
    return Numbers(Ring([*dict.fromkeys([*known, *lengths]), *angles]), smallest)
