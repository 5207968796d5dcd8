"""Geometric conditions on joint axes that hold for every q, decided with 120 digits.

The walk goes from the base to the tips and carries, in the frame of each link, only what no joint so far can
change: the axis of the first revolute joint r1 as long as all revolute joints are parallel to it (r2 is the
first one that is not), the line it lies on, the slides, gravity, and without gravity the point where all axes
meet. A revolute joint's own theta only shifts its q and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dynid.identifiability.exact_geometry import read_gravity
from dynid.identifiability.symbolic_numbers import Number, Numbers, Vector, dot
from dynid.robot.expression import Expression
from dynid.robot.robot import Link, Robot


@dataclass(frozen=True, slots=True)
class Pose:
    """Pose of a link in its parent: columns x, y, z of the rotation, and the origin."""

    x: Vector
    y: Vector
    z: Vector
    origin: Vector

    def direction_in_link(self, v: Vector) -> Vector:
        """Coordinates in the link of a direction given in the parent."""
        return dot(self.x, v), dot(self.y, v), dot(self.z, v)

    def point_in_link(self, p: Vector) -> Vector:
        """Coordinates in the link of a point given in the parent."""
        a, b = p, self.origin
        return self.direction_in_link((a[0] - b[0], a[1] - b[1], a[2] - b[2]))


def link_pose(link: Link, numbers: Numbers) -> Pose:
    """Pose Rz(gamma) Tz(b) Rx(alpha) Tx(d) Rz(theta) Tz(r) of a link, without the theta of a revolute joint."""
    row = link.mdh
    assert row is not None
    cg, sg = numbers.cos_sin(row.gamma)
    ca, sa = numbers.cos_sin(row.alpha)
    ct, st = (numbers.one, numbers.zero) if link.kind == "revolute" else numbers.cos_sin(row.theta)
    b, d, r = (numbers.length(e) for e in (row.b, row.d, row.r))

    def turned(x: Number, y: Number, z: Number) -> Vector:
        """A vector after Rz(gamma)."""
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

    def is_along_z(self, v: Vector) -> bool:
        """Whether a vector is parallel to this link's z."""
        return self.numbers.is_along_z(v)

    def in_child_frame(self, pose: Pose) -> _Walk:
        """Return the same facts in a child's frame."""
        return replace(
            self,
            gravity=pose.direction_in_link(self.gravity),
            slides=tuple(pose.direction_in_link(s) for s in self.slides),
            axis=None if self.axis is None else pose.direction_in_link(self.axis),
            line=None if self.line is None else pose.point_in_link(self.line),
            centre=None if self.centre is None else pose.point_in_link(self.centre),
        )


def find_axis_facts(robot: Robot, poses: Mapping[int, Pose], numbers: Numbers) -> dict[int, AxisFacts]:
    """Facts for every moving link of a robot in modified Denavit-Hartenberg frames; call with `many_digits`."""
    walks, facts = {-1: _Walk(numbers, _gravity_in_base_frame(robot, numbers))}, {}
    for k in robot.topological_order:
        link = robot.links[k]
        walk = walks[link.parent].in_child_frame(poses[k])
        if link.kind == "revolute":
            facts[k], walk = _pass_revolute_joint(k, walk)
        elif link.kind == "prismatic":
            facts[k], walk = _pass_prismatic_joint(walk)
        walks[k] = walk
    return facts


def _gravity_in_base_frame(robot: Robot, numbers: Numbers) -> Vector:
    """Gravity in frame 0 without what rounding left of zeros."""
    x, y, z = (numbers.length(Expression(float(g))) for g in read_gravity(robot.gravity))
    return x, y, z


def _pass_revolute_joint(k: int, walk: _Walk) -> tuple[AxisFacts, _Walk]:
    """Facts about revolute joint k, and what is known of the links behind it."""
    if walk.axis is None:
        return _pass_first_revolute_joint(k, walk)
    if walk.passed_r2:
        return _pass_later_revolute_joint(k, walk)
    if not walk.is_along_z(walk.axis):
        return _pass_second_revolute_joint(k, walk)
    line = walk.line if walk.line is not None and walk.is_along_z(walk.line) else None
    facts = AxisFacts(
        between=True,
        parallel=True,
        on_still_line=line is not None and walk.is_along_z(walk.gravity),
        axis=walk.axis,
        revolute=walk.revolute,
    )
    return facts, replace(walk, line=line, revolute=k)


def _pass_first_revolute_joint(k: int, walk: _Walk) -> tuple[AxisFacts, _Walk]:
    """Facts about the first revolute joint r1, before which only slides lie, and what is known behind it."""
    z = walk.numbers.z
    line = walk.numbers.null if all(walk.is_along_z(s) for s in walk.slides) else None
    facts = AxisFacts(
        between=True,
        is_r1=True,
        parallel=True,
        on_still_line=line is not None and walk.is_along_z(walk.gravity),
        axis=z,
    )
    return facts, replace(walk, axis=z, line=line, revolute=k)


def _pass_second_revolute_joint(k: int, walk: _Walk) -> tuple[AxisFacts, _Walk]:
    """Facts about r2, the first revolute joint not parallel to r1, and what is known behind it."""
    assert walk.axis is not None
    centre = _intersection_with_first_axis(walk) if _has_only_rotated(walk) else None
    facts = AxisFacts(
        is_r2=True,
        perpendicular=walk.is_zero(walk.axis[2]),
        axis=walk.axis,
        revolute=walk.revolute,
        height=None if centre is None else -centre[2],
    )
    return facts, replace(walk, passed_r2=True, line=None, centre=centre, revolute=k)


def _pass_later_revolute_joint(k: int, walk: _Walk) -> tuple[AxisFacts, _Walk]:
    """Facts about a revolute joint after r2, and what is known behind it."""
    centre = walk.centre if walk.centre is not None and walk.is_along_z(walk.centre) else None
    facts = AxisFacts(revolute=walk.revolute, height=None if centre is None else -centre[2])
    return facts, replace(walk, centre=centre, revolute=k)


def _has_only_rotated(walk: _Walk) -> bool:
    """Whether nothing but rotations accelerates the link: no slide so far and no gravity."""
    return not walk.slides and all(walk.is_zero(g) for g in walk.gravity)


def _intersection_with_first_axis(walk: _Walk) -> Vector | None:
    """Point where r1's axis meets the z axis, which is not parallel to it; None where it does not."""
    if walk.line is None or walk.axis is None:
        return None
    p, a = walk.line, walk.axis
    if not walk.is_zero(p[0] * a[1] - p[1] * a[0]):
        return None
    t = -p[0] / a[0] if abs(a[0].value) > abs(a[1].value) else -p[1] / a[1]
    return walk.numbers.zero, walk.numbers.zero, p[2] + t * a[2]


def _pass_prismatic_joint(walk: _Walk) -> tuple[AxisFacts, _Walk]:
    """Facts about a prismatic joint, and what is known behind it."""
    after = replace(walk, slides=(*walk.slides, walk.numbers.z), centre=None)
    if walk.passed_r2:
        return AxisFacts(revolute=walk.revolute), after
    across = walk.is_zero(walk.gravity[2]) and all(walk.is_zero(s[2]) for s in walk.slides)
    if walk.axis is None:
        return AxisFacts(before_r1=True, still_slide=across), after
    parallel = walk.is_along_z(walk.axis)
    facts = AxisFacts(
        between=True,
        parallel=parallel,
        perpendicular=walk.is_zero(walk.axis[2]),
        still_slide=parallel and across,
        axis=walk.axis,
        revolute=walk.revolute,
    )
    return facts, after if parallel else replace(after, line=None)
