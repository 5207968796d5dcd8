"""Geometric conditions on joint axes that hold for every q, decided with 120 digits.

The walk goes from the base to the tips and carries, in the frame of each link, only what no joint so far can
change: the axis of the first revolute joint r1 as long as all revolute joints are parallel to it (r2 is the
first one that is not), the line it lies on, the slides, gravity, and without gravity the point where all axes
meet. A revolute joint's own theta only shifts its q and is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from functools import lru_cache

from dynid.base.symbols import Form, Ring, length_generators, signed_text
from dynid.robot.expression import Expression
from dynid.robot.robot import Link, Robot

DIGITS = 120
ZERO = Decimal("1e-60")
"""What is smaller than this (m, or a cosine) is zero."""

_ROUNDING = 1e-14
"""Parts of gravity below this share of it are rounding."""

_QUARTERS = ((1, 0), (0, 1), (-1, 0), (0, -1))


@contextmanager
def exact_digits() -> Iterator[None]:
    """Compute with 120 digits inside this block."""
    with localcontext() as context:
        context.prec = DIGITS
        yield


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


def quarter_turns(angle: float) -> int | None:
    """Multiple of 90 degrees that the angle (rad) stands for, None where it is another one."""
    quarter = round(angle / (math.pi / 2))
    return quarter % 4 if angle == quarter * (math.pi / 2) else None


@lru_cache(maxsize=1)
def _pi() -> Decimal:
    """Pi by Machin's formula, 16 atan(1/5) - 4 atan(1/239)."""
    with exact_digits():
        total = Decimal(0)
        for factor, n in ((16, 5), (-4, 239)):
            power, k = Decimal(factor) / n, 1
            while abs(power) > Decimal(10) ** -(DIGITS + 5):
                total += power / k if k % 4 == 1 else -power / k
                power, k = power / (n * n), k + 2
        return total


def exact_angle(angle: float) -> Decimal:
    """Angle (rad) that a float stands for: whole millidegrees within two units in the last place, else as printed."""
    whole = round(angle * 180_000 / math.pi)
    if abs(angle - whole * math.pi / 180_000) <= 2.0 * math.ulp(angle):
        return whole * _pi() / 180_000
    return Decimal(repr(float(angle)))


@lru_cache(maxsize=1024)
def _series_cos_sin(angle: float) -> tuple[Decimal, Decimal]:
    """Cosine and sine of the exact angle that a float (rad) stands for."""
    with exact_digits():
        x = exact_angle(angle)
        sums, term, k = [Decimal(1), Decimal(0)], Decimal(1), 0
        while abs(term) > Decimal(10) ** -(DIGITS + 5):
            k += 1
            term = term * x / k
            sums[k % 2] += term if k % 4 < 2 else -term
        return sums[0], sums[1]


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
        value = Decimal(repr(float(length.value)))
        if not value:
            return self.zero
        return Number(value, None if self.ring is None else self.ring.length(length))

    def cos_sin(self, angle: Expression) -> tuple[Number, Number]:
        """Cosine and sine; the floating-point multiples of 90 degrees are meant exactly."""
        quarter = quarter_turns(angle.value)
        if quarter is not None:
            c, s = _QUARTERS[quarter]
            return self.whole(c), self.whole(s)
        cosine, sine = _series_cos_sin(angle.value)
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
            if quarter_turns(angle.value) is None:
                text = signed_text(angle)[0]
                angles |= dict.fromkeys((f"cos({text})", f"sin({text})"))
    known = [name for name in robot.symbols if name in lengths]
    return Numbers(Ring([*dict.fromkeys([*known, *lengths]), *angles]), smallest)


@dataclass(frozen=True, slots=True)
class Pose:
    """Pose of a link in its parent: columns x, y, z of the rotation, and the origin."""

    x: Vector
    y: Vector
    z: Vector
    origin: Vector

    def turn_back(self, v: Vector) -> Vector:
        """Coordinates in the link of a direction given in the parent."""
        return dot(self.x, v), dot(self.y, v), dot(self.z, v)

    def take_back(self, p: Vector) -> Vector:
        """Coordinates in the link of a point given in the parent."""
        a, b = p, self.origin
        return self.turn_back((a[0] - b[0], a[1] - b[1], a[2] - b[2]))


def dot(u: Vector, v: Vector) -> Number:
    """Scalar product."""
    return u[0] * v[0] + u[1] * v[1] + u[2] * v[2]


def link_pose(link: Link, numbers: Numbers) -> Pose:
    """Pose Rz(gamma) Tz(b) Rx(alpha) Tx(d) Rz(theta) Tz(r) of a link, without the theta of a revolute joint."""
    row = link.mdh
    assert row is not None
    cg, sg = numbers.cos_sin(row.gamma)
    ca, sa = numbers.cos_sin(row.alpha)
    ct, st = (numbers.one, numbers.zero) if link.kind == "revolute" else numbers.cos_sin(row.theta)
    b, d, r = (numbers.length(e) for e in (row.b, row.d, row.r))

    def turned(x: Number, y: Number, z: Number) -> Vector:
        return cg * x - sg * y, sg * x + cg * y, z

    foot = turned(d, -r * sa, r * ca)
    return Pose(
        turned(ct, st * ca, st * sa),
        turned(-st, ct * ca, ct * sa),
        turned(numbers.zero, -sa, ca),
        (foot[0], foot[1], foot[2] + b),
    )


@dataclass(frozen=True, slots=True)
class AxisFacts:
    """What the rules ask about joint j, for every q.

    before_r1: j < r1 (no revolute joint up to j); between: r1 <= j < r2; is_r1, is_r2: j itself is that joint.
    parallel, perpendicular: a_j to a_r1 (where a_r1 still has a fixed direction in link j).
    on_still_line: a_j is along a_r1, all joints before it are parallel to a_r1, and gravity too.
    still_slide: a prismatic a_j of fixed direction, perpendicular to gravity and to all prismatic axes before it.
    axis: a_r1 in frame j. revolute: the nearest revolute link on the base side.
    height: without gravity, all axes up to j meet in O, and O_j = O + height z_j; else None.
    """

    before_r1: bool = False
    between: bool = False
    is_r1: bool = False
    is_r2: bool = False
    parallel: bool = False
    perpendicular: bool = False
    on_still_line: bool = False
    still_slide: bool = False
    axis: Vector | None = None
    revolute: int = -1
    height: Number | None = None


@dataclass(frozen=True, slots=True)
class _Walk:
    """What is known at a link, in its frame at q = 0."""

    numbers: Numbers
    gravity: Vector
    slides: tuple[Vector, ...] = ()
    axis: Vector | None = None  # a_r1
    passed_r2: bool = False
    line: Vector | None = None  # a point of r1's axis, while every joint keeps that line where it is
    centre: Vector | None = None  # the point that all axes pass through, from r2 on
    revolute: int = -1

    def is_zero(self, x: Number) -> bool:
        """Whether a coordinate is zero."""
        return self.numbers.is_zero(x)

    def along_z(self, v: Vector) -> bool:
        """Whether a vector is parallel to this link's z."""
        return self.numbers.along_z(v)

    def into(self, pose: Pose) -> _Walk:
        """Return the same in a child's frame."""
        return replace(
            self,
            gravity=pose.turn_back(self.gravity),
            slides=tuple(pose.turn_back(s) for s in self.slides),
            axis=None if self.axis is None else pose.turn_back(self.axis),
            line=None if self.line is None else pose.take_back(self.line),
            centre=None if self.centre is None else pose.take_back(self.centre),
        )


def axis_facts(robot: Robot, poses: Mapping[int, Pose], numbers: Numbers) -> dict[int, AxisFacts]:
    """Facts for every moving link of a robot in modified Denavit-Hartenberg frames; call with `exact_digits`."""
    walks, facts = {-1: _Walk(numbers, _gravity(robot, numbers))}, {}
    for k in robot.topological_order:
        link = robot.links[k]
        walk = walks[link.parent].into(poses[k])
        if link.kind == "revolute":
            facts[k], walk = _turn(k, walk)
        elif link.kind == "prismatic":
            facts[k], walk = _slide(walk)
        walks[k] = walk
    return facts


def _gravity(robot: Robot, numbers: Numbers) -> Vector:
    """Gravity in frame 0 without what rounding left of zeros."""
    largest = max(abs(float(x)) for x in robot.gravity)
    x, y, z = (0.0 if abs(g) <= _ROUNDING * largest else float(g) for g in robot.gravity)
    return numbers.length(Expression(x)), numbers.length(Expression(y)), numbers.length(Expression(z))


def _turn(k: int, walk: _Walk) -> tuple[AxisFacts, _Walk]:
    """Pass a revolute joint."""
    if walk.axis is None:
        return _first_turn(k, walk)
    if walk.passed_r2:
        return _later_turn(k, walk)
    if not walk.along_z(walk.axis):
        return _second_turn(k, walk)
    line = walk.line if walk.line is not None and walk.along_z(walk.line) else None
    facts = AxisFacts(
        between=True,
        parallel=True,
        on_still_line=line is not None and walk.along_z(walk.gravity),
        axis=walk.axis,
        revolute=walk.revolute,
    )
    return facts, replace(walk, line=line, revolute=k)


def _first_turn(k: int, walk: _Walk) -> tuple[AxisFacts, _Walk]:
    """Pass r1: only slides lie before it."""
    z = walk.numbers.z
    line = walk.numbers.null if all(walk.along_z(s) for s in walk.slides) else None
    facts = AxisFacts(
        between=True,
        is_r1=True,
        parallel=True,
        on_still_line=line is not None and walk.along_z(walk.gravity),
        axis=z,
    )
    return facts, replace(walk, axis=z, line=line, revolute=k)


def _second_turn(k: int, walk: _Walk) -> tuple[AxisFacts, _Walk]:
    """Pass r2."""
    assert walk.axis is not None
    centre = _meeting_point(walk) if _only_turned(walk) else None
    facts = AxisFacts(
        is_r2=True,
        perpendicular=walk.is_zero(walk.axis[2]),
        axis=walk.axis,
        revolute=walk.revolute,
        height=None if centre is None else -centre[2],
    )
    return facts, replace(walk, passed_r2=True, line=None, centre=centre, revolute=k)


def _later_turn(k: int, walk: _Walk) -> tuple[AxisFacts, _Walk]:
    """Pass a revolute joint after r2."""
    centre = walk.centre if walk.centre is not None and walk.along_z(walk.centre) else None
    facts = AxisFacts(revolute=walk.revolute, height=None if centre is None else -centre[2])
    return facts, replace(walk, centre=centre, revolute=k)


def _only_turned(walk: _Walk) -> bool:
    """Whether nothing but rotations accelerates the link: no slide so far and no gravity."""
    return not walk.slides and all(walk.is_zero(g) for g in walk.gravity)


def _meeting_point(walk: _Walk) -> Vector | None:
    """Where r1's axis meets the z axis that is not parallel to it; None where it does not."""
    if walk.line is None or walk.axis is None:
        return None
    p, a = walk.line, walk.axis
    if not walk.is_zero(p[0] * a[1] - p[1] * a[0]):
        return None
    t = -p[0] / a[0] if abs(a[0].value) > abs(a[1].value) else -p[1] / a[1]
    return walk.numbers.zero, walk.numbers.zero, p[2] + t * a[2]


def _slide(walk: _Walk) -> tuple[AxisFacts, _Walk]:
    """Pass a prismatic joint."""
    after = replace(walk, slides=(*walk.slides, walk.numbers.z), centre=None)
    if walk.passed_r2:
        return AxisFacts(revolute=walk.revolute), after
    across = walk.is_zero(walk.gravity[2]) and all(walk.is_zero(s[2]) for s in walk.slides)
    if walk.axis is None:
        return AxisFacts(before_r1=True, still_slide=across), after
    parallel = walk.along_z(walk.axis)
    facts = AxisFacts(
        between=True,
        parallel=parallel,
        perpendicular=walk.is_zero(walk.axis[2]),
        still_slide=parallel and across,
        axis=walk.axis,
        revolute=walk.revolute,
    )
    return facts, after if parallel else replace(after, line=None)
