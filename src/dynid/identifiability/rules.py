"""Base parameters in closed form: the direct rules of Khalil & Bennis 1994.

Links are taken from the tips to the base. Each rule eliminates columns of one link and says which columns take
them over (Khalil & Bennis 1994, relation 3). Beyond the paper: trees, fixed joints, rotor inertias, no gravity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np

from dynid.dynamics.scene import ColumnSet, standard_columns
from dynid.errors import ModelError
from dynid.identifiability.exact_geometry import ZERO, many_digits, read_gravity
from dynid.identifiability.relations import Coefficient, Regrouping
from dynid.identifiability.symbolic_numbers import Number, Numbers, Vector, dot, numbers_of_robot
from dynid.messages import Option
from dynid.robot.expression import Expression
from dynid.robot.inertia import change_of_frame
from dynid.robot.mdh import mdh_transform
from dynid.robot.robot import Link, Robot
from dynid.robot.transform import Transform, freeze

# Geometric conditions on joint axes that hold for every q, decided with 120 digits.
#
# The walk goes from the base to the tips and carries, in the frame of each link, only what no joint so far can
# change: the axis of the first revolute joint r1 as long as all revolute joints are parallel to it (r2 is the
# first one that is not), the line it lies on, the slides, gravity, and without gravity the point where all axes
# meet. A revolute joint's own theta only shifts its q and is left out.


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


# The rules themselves.


XX, XY, XZ, YY, YZ, ZZ, MX, MY, MZ, M = range(10)
ELEMENTS = {XX: (0, 0), XY: (0, 1), XZ: (0, 2), YY: (1, 1), YZ: (1, 2), ZZ: (2, 2)}

Row = dict[int, Number]
"""Coefficients of the original columns."""

FRAME_ROUNDING = Decimal("1e-12")
"""Zero for a robot that is not given as a table: its frames come from floating-point poses."""


@dataclass(frozen=True, slots=True, eq=False)
class RuleResult:
    """Regrouping by rules over `standard_columns`, and what became of the columns that were not kept.

    coefficients: by kept column, the coefficient of every column in it (its own is 1): floats, or forms in the
    symbols of the table. Known zeros are neither without effect nor regrouped.
    """

    regrouping: Regrouping
    no_effect: tuple[int, ...]
    regrouped: tuple[int, ...]
    coefficients: dict[int, dict[int, Coefficient]]


# The ledger of the rules: which columns are still there, and what each of them stands for.


class Ledger:
    """What each column that is still there stands for: rows of coefficients of the original columns."""

    def __init__(self, robot: Robot, columns: ColumnSet, numbers: Numbers) -> None:
        self.robot, self.columns, self.numbers = robot, columns, numbers
        self.poses: dict[int, Pose] = {k: link_pose(link, numbers) for k, link in enumerate(robot.links)}
        self.facts: dict[int, AxisFacts] = find_axis_facts(robot, self.poses, numbers)
        self.rows: dict[int, Row] = {k: {k: numbers.one} for k in range(len(columns))}
        self.rule = ""
        self.eliminated: dict[int, str] = {}  # column to the rule that removed it

    def column_index(self, link: int, symbol: int) -> int:
        """Index of a link's inertial column."""
        return self.columns.first_column_of_link[link] + symbol

    def eliminate_column(self, column: int, heirs: Iterable[tuple[int, Number]] = ()) -> None:
        """Remove a column; each heir takes it over with a coefficient (Khalil & Bennis 1994, relation 3)."""
        row = self.rows.pop(column)
        self.eliminated[column] = self.rule
        for heir, coefficient in heirs:
            add_multiple(self.rows[heir], coefficient, row)

    def drop_parameters(self, link: int, *symbols: int) -> None:
        """Eliminate parameters of a link that have no effect."""
        for symbol in symbols:
            self.eliminate_column(self.column_index(link, symbol))

    def in_parent_columns(self, link: int, *symbols: int) -> list[tuple[int, Number]]:
        """Columns of the parent that see the sum of some unit parameters of a link: none on the base."""
        parent = self.robot.links[link].parent
        if parent < 0:
            return []
        return [
            (self.column_index(parent, place), x)
            for symbol in symbols
            for place, x in enumerate(unit_parameter_in_parent(self.poses[link], symbol, self.numbers))
            if x
        ]


def add_multiple(row: Row, factor: Number, other: Row) -> None:
    """Add factor * other to row."""
    for column, x in other.items():
        total = row[column] + factor * x if column in row else factor * x
        if total:
            row[column] = total
        else:
            row.pop(column, None)


def unit_parameter_in_parent(pose: Pose, symbol: int, numbers: Numbers) -> list[Number]:
    """Ten parameters in the parent's frame of a unit parameter in the link's frame.

    With R, p the pose: J' = R J R', MS' = R MS + p M, and J' += 2 (p.v) 1 - p v' - v p' for v = R MS, p M / 2.
    """
    zero = numbers.zero
    axes, p = (pose.x, pose.y, pose.z), pose.origin
    if symbol in ELEMENTS:
        u, v = (axes[k] for k in ELEMENTS[symbol])
        J = [u[a] * v[b] if symbol in (XX, YY, ZZ) else u[a] * v[b] + u[b] * v[a] for a, b in ELEMENTS.values()]
        return [*J, zero, zero, zero, zero]
    if symbol == M:
        J = [(dot(p, p) if a == b else zero) - p[a] * p[b] for a, b in ELEMENTS.values()]
        return [*J, *p, numbers.one]
    v = axes[symbol - MX]
    twice = numbers.two * dot(p, v)
    J = [(twice if a == b else zero) - p[a] * v[b] - p[b] * v[a] for a, b in ELEMENTS.values()]
    return [*J, *v, zero]


def find_by_rules(
    robot: Robot, *, rotor_inertia: bool = True, symbolic: bool = False, prefer: tuple[int, ...] = ()
) -> RuleResult:
    """Regroup the standard parameters of the open tree; couplings and closures are left to the caller.

    Kept are the first independent columns, those of `prefer` before all others.
    """
    if robot.floating:
        raise ModelError(
            "floating_base", "the rules need a fixed base, and '{robot}' floats", "use {nullspace}",
            nullspace=Option("method", "nullspace"), robot=robot.name,
        )  # fmt: skip
    columns = standard_columns(robot, rotor_inertia=rotor_inertia)
    known = {k for k, name in enumerate(columns.names) if name in robot.known_zeros}
    with many_digits():
        rows = choose_first_columns(find_rows_by_rules(robot, columns, symbolic=symbolic), _zero_of(robot), prefer)
    return _result_of_rows(rows, len(columns), known)


def _zero_of(robot: Robot) -> Decimal:
    """Size below which a number is zero: frames that are not the table's own come with rounding."""
    return ZERO if robot.to_mdh() is robot else FRAME_ROUNDING


def find_rows_by_rules(robot: Robot, columns: ColumnSet, *, symbolic: bool) -> dict[int, Row]:
    """What each column that the rules keep stands for, without known zeros; call with `many_digits`."""
    table = robot.to_mdh()
    ledger = Ledger(table, columns, numbers_of_robot(table, symbolic=symbolic, smallest=_zero_of(robot)))
    apply_rules(ledger)
    rows = ledger.rows if table is robot else _rows_in_own_frames(robot, table, ledger)
    known = {k for k, name in enumerate(columns.names) if name in robot.known_zeros}
    return {k: _without_columns(row, known) for k, row in rows.items()}


def apply_rules(ledger: Ledger, names: frozenset[str] | None = None) -> None:
    """Apply all rules in place, link by link from the tips to the base, inside a link rule 2 before rule 3.

    names: of the rules to apply, None for all.
    """
    for j in reversed(ledger.robot.topological_order):
        for rule in _RULES[ledger.robot.links[j].kind]:
            if names is None or rule.__name__ in names:
                ledger.rule = rule.__name__
                rule(ledger, j)


JOINT_RULES = frozenset({"rule_fixed", "rule_1a", "rule_1b"})
"""What they move from a link to its parent moves in the same way on both: no sensor of any kind sees it."""


def find_eliminations(
    robot: Robot, *, rotor_inertia: bool = True, names: frozenset[str] | None = None
) -> dict[int, str]:
    """Name of the rule that removed each column of an open tree whose links stand in its table's own frames."""
    columns = standard_columns(robot, rotor_inertia=rotor_inertia)
    if robot.to_mdh() is not robot:
        return {}
    with many_digits():
        ledger = Ledger(robot, columns, numbers_of_robot(robot, symbolic=False))
        apply_rules(ledger, names)
    return ledger.eliminated


def rule_fixed(ledger: Ledger, j: int) -> None:
    """A fixed link is part of its parent: all ten parameters join it."""
    for symbol in range(10):
        ledger.eliminate_column(ledger.column_index(j, symbol), ledger.in_parent_columns(j, symbol))


def rule_rotor_revolute(ledger: Ledger, j: int) -> None:
    """Ia joins ZZ at r1, and at r2 where a_r2 is perpendicular to a_r1 (not in the paper)."""
    facts, rotor = ledger.facts[j], ledger.columns.rotor_column_of_link.get(j)
    if rotor is not None and (facts.is_r1 or (facts.is_r2 and facts.perpendicular)):
        ledger.eliminate_column(rotor, [(ledger.column_index(j, ZZ), ledger.numbers.one)])


def rule_rotor_prismatic(ledger: Ledger, j: int) -> None:
    """Ia joins M, less a point mass on the parent, where nothing else pulls along a still axis (not in the paper)."""
    facts, rotor = ledger.facts[j], ledger.columns.rotor_column_of_link.get(j)
    if rotor is not None and facts.still_slide:
        mass = [(column, -x) for column, x in ledger.in_parent_columns(j, M)]
        ledger.eliminate_column(rotor, [(ledger.column_index(j, M), ledger.numbers.one), *mass])


def rule_1a(ledger: Ledger, j: int) -> None:
    """YY, MZ, M of a revolute link join its parent (Khalil & Bennis 1994, rule 1a; Gautier & Khalil 1990, 15)."""
    minus = -ledger.numbers.one
    ledger.eliminate_column(
        ledger.column_index(j, YY), [(ledger.column_index(j, XX), minus), *ledger.in_parent_columns(j, XX, YY)]
    )
    ledger.eliminate_column(ledger.column_index(j, MZ), ledger.in_parent_columns(j, MZ))
    ledger.eliminate_column(ledger.column_index(j, M), ledger.in_parent_columns(j, M))


def rule_1b(ledger: Ledger, j: int) -> None:
    """The inertia of a prismatic link joins its parent (Khalil & Bennis 1994, rule 1b; Gautier & Khalil 1990, 16)."""
    for symbol in ELEMENTS:
        ledger.eliminate_column(ledger.column_index(j, symbol), ledger.in_parent_columns(j, symbol))


def rule_2(ledger: Ledger, j: int) -> None:
    """A slide parallel to a_r1: MZ goes, MX and MY join parent and ZZ_i (Khalil & Bennis 1994, rule 2)."""
    facts = ledger.facts[j]
    if not (facts.between and facts.parallel):
        return
    ledger.drop_parameters(j, MZ)
    pose, i = ledger.poses[j], facts.revolute
    for symbol, axis in ((MX, pose.x), (MY, pose.y)):
        ledger.eliminate_column(ledger.column_index(j, symbol), _relation_6(ledger, j, i, axis, pose.origin))


def _relation_6(ledger: Ledger, j: int, i: int, axis: Vector, origin: Vector) -> list[tuple[int, Number]]:
    """First moment along an axis of link j: the same on the parent, 2 p.axis on ZZ_i (relation 6, for trees)."""
    parent = ledger.robot.links[j].parent
    moments = [(ledger.column_index(parent, MX + k), x) for k, x in enumerate(axis) if x]
    return [*moments, (ledger.column_index(i, ZZ), ledger.numbers.two * dot(origin, axis))]


def rule_3(ledger: Ledger, j: int) -> None:
    """A slide not parallel to a_r1: the last moment that has a part along a_r1 goes (rule 3, Table 1)."""
    facts = ledger.facts[j]
    if not facts.between or facts.parallel or facts.axis is None:
        return
    axis = facts.axis
    last = max(k for k in range(3) if not ledger.numbers.is_zero(axis[k]))
    heirs = [(ledger.column_index(j, MX + k), -(axis[k] / axis[last])) for k in range(last) if axis[k]]
    ledger.eliminate_column(ledger.column_index(j, MX + last), heirs)


def rule_4(ledger: Ledger, j: int) -> None:
    """A revolute link parallel to r1 turns about z only (Khalil & Bennis 1994, rule 4); YY went by rule 1."""
    if ledger.facts[j].between:
        ledger.drop_parameters(j, XX, XY, XZ, YZ)


def rule_5(ledger: Ledger, j: int) -> None:
    """MX, MY of a revolute link on a line that stays, along gravity (Khalil & Bennis 1994, rule 5)."""
    if ledger.facts[j].on_still_line:
        ledger.drop_parameters(j, MX, MY)


def rule_6(ledger: Ledger, j: int) -> None:
    """First moments of a link that never turns (Khalil & Bennis 1994, rule 6)."""
    if ledger.facts[j].before_r1:
        ledger.drop_parameters(j, MX, MY, MZ)


def rule_concurrent(ledger: Ledger, j: int) -> None:
    """Without gravity, all axes through one point: MX, MY join XZ, YZ (not in the paper)."""
    height = ledger.facts[j].height
    if height is not None:
        ledger.eliminate_column(ledger.column_index(j, MX), [(ledger.column_index(j, XZ), -height)])
        ledger.eliminate_column(ledger.column_index(j, MY), [(ledger.column_index(j, YZ), -height)])


_RULES: Mapping[str, tuple[Callable[[Ledger, int], None], ...]] = {
    "fixed": (rule_fixed,),
    "revolute": (rule_rotor_revolute, rule_1a, rule_concurrent, rule_4, rule_5),
    "prismatic": (rule_rotor_prismatic, rule_1b, rule_2, rule_3, rule_6),
}


def _rows_in_own_frames(robot: Robot, table: Robot, ledger: Ledger) -> dict[int, Row]:
    """Rows over the columns in the robot's own link frames: X_mdh = A X_own, link by link."""
    images: dict[int, Row] = {k: {k: ledger.numbers.one} for k in ledger.columns.rotor_column_of_link.values()}
    for k, T in _poses_of_own_frames(robot, table).items():
        A = change_of_frame(T)
        first = ledger.columns.first_column_of_link[k]
        for i in range(10):
            images[first + i] = {
                first + int(c): _number_of_float(A[i, c], ledger.numbers) for c in np.flatnonzero(A[i])
            }
    rows: dict[int, Row] = {}
    for kept, row in ledger.rows.items():
        rows[kept] = {}
        for column, x in row.items():
            add_multiple(rows[kept], x, images[column])
    return rows


def _number_of_float(x: float, numbers: Numbers) -> Number:
    """Number of a float, cleaned of the rounding of frames."""
    return numbers.length(Expression(0.0 if abs(x) < float(FRAME_ROUNDING) else float(x)))


def _poses_of_own_frames(robot: Robot, table: Robot) -> dict[int, Transform]:
    """Pose T_mdh_own of every link's own frame in its modified Denavit-Hartenberg frame."""
    T_mdh_own = {-1: Transform.identity()}
    for k in robot.topological_order:
        row, parent = table.links[k].mdh, robot.links[k].parent
        assert row is not None
        T_mdh_own[k] = mdh_transform(row).inverse() @ T_mdh_own[parent] @ robot.links[k].placement
    del T_mdh_own[-1]
    return T_mdh_own


def _without_columns(row: Row, gone: set[int]) -> Row:
    """Row without the columns in `gone`."""
    return {column: x for column, x in row.items() if column not in gone} if gone else row


def choose_first_columns(rows: dict[int, Row], zero: Decimal, prefer: tuple[int, ...] = ()) -> dict[int, Row]:
    """Reduced echelon form: the lexicographically first columns of the same span, by kept column, preferred ones first.

    Where every row already starts with its own column (parents before children, no known zeros), nothing is done.
    """
    if rows.keys() >= set(prefer) and all(_is_reduced_row(kept, row, rows) for kept, row in rows.items()):
        return dict(sorted(rows.items()))
    waiting, chosen = list(map(dict, rows.values())), dict[int, Row]()
    columns = {c for row in waiting for c in row}
    for column in (*(c for c in prefer if c in columns), *sorted(columns - set(prefer))):
        sizes = [abs(row[column].value) if column in row else Decimal(0) for row in waiting]
        largest = max(sizes, default=Decimal(0))
        if largest <= zero:
            for row in waiting:
                row.pop(column, None)
            continue
        pivot = waiting.pop(sizes.index(largest))
        scale = pivot[column]
        chosen[column] = {c: x / scale for c, x in pivot.items()}
        for row in (*waiting, *(chosen[c] for c in chosen if c != column)):
            if column in row:
                add_multiple(row, -row[column], chosen[column])
                row.pop(column, None)
    return {kept: {c: x for c, x in row.items() if abs(x.value) > zero} for kept, row in chosen.items()}


def _is_reduced_row(kept: int, row: Row, rows: Mapping[int, Row]) -> bool:
    """Whether a row begins with 1 in its own column and has no other row's column."""
    return bool(row) and min(row) == kept and row[kept].value == 1 and sum(c in rows for c in row) == 1


def _result_of_rows(rows: dict[int, Row], p: int, known: set[int]) -> RuleResult:
    """Rule result of the final rows by kept column."""
    matrix = np.zeros((len(rows), p))
    for i, row in enumerate(rows.values()):
        for column, x in row.items():
            matrix[i, column] = float(x.value)
    seen = set(np.flatnonzero(matrix.any(axis=0)).tolist())
    free = [k for k in range(p) if k not in known and k not in rows]
    return RuleResult(
        Regrouping(tuple(rows), freeze(matrix)),
        tuple(k for k in free if k not in seen),
        tuple(k for k in free if k in seen),
        {
            kept: {c: x.form if x.form is not None else float(x.value) for c, x in sorted(row.items())}
            for kept, row in rows.items()
        },
    )
