"""Base parameters without sampling: the reduced echelon form of the exact conditions for visibility.

Finite and linear in the number of links; ranks are decided with 120 digits (see `exact_geometry` for what
the floats of a robot's geometry stand for).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeAlias

import numpy as np

from dynid.dynamics.scene import ColumnSet, standard_columns
from dynid.errors import ModelError
from dynid.identifiability.exact_geometry import (
    UNIT_MATRIX,
    ZERO,
    I,
    Matrix,
    O,
    Vector,
    dot,
    many_digits,
    multiply_matrices,
    multiply_vector,
    pose_of_motions,
    read_axis,
    read_gravity,
    read_placement,
    transpose,
)
from dynid.identifiability.relations import Regrouping
from dynid.messages import Option
from dynid.robot.force_sensor import is_force_channel
from dynid.robot.robot import JointKind, Link, Robot

Row: TypeAlias = dict[int, Decimal]
"""A sparse row: column and nonzero entry."""
Poses: TypeAlias = Mapping[int, tuple[Matrix, Vector]]
"""Pose of each link in its parent at q = 0, where it is not read from the robot's floats: entries may be numbers with
forms, which mix with decimals."""

# Sparse rows for rank decisions.


def sparse_row(values: Iterable[Decimal]) -> Row:
    """Sparse row without the entries below ZERO."""
    return {k: x for k, x in enumerate(values) if x and abs(x) >= ZERO}


def combine_rows(row: Row, rows: Sequence[Row] | dict[int, Row]) -> Row:
    """Sum of row[k] * rows[k]."""
    total: Row = {}
    for k, x in row.items():
        for column, y in rows[k].items():
            total[column] = total[column] + x * y if column in total else x * y
    return {k: x for k, x in total.items() if abs(x) >= ZERO}


class EchelonForm:
    """Reduced row echelon form that grows row by row; `rows` maps a pivot's column to its row."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.rows: dict[int, Row] = {}
        for row in rows:
            self.add(row)

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, row: Row) -> bool:
        """Add a row, reduced by those so far; return False if it depends on them."""
        rest = dict(row)
        for pivot in [k for k in row if k in self.rows]:
            _subtract_multiple(rest, rest[pivot], self.rows[pivot])
        rest = {k: x for k, x in rest.items() if abs(x) >= ZERO}
        if not rest:
            return False
        lead = min(rest)
        scale = rest[lead]
        fresh = {k: x / scale for k, x in rest.items()}
        fresh[lead] = I
        for pivot, other in self.rows.items():
            if lead in other:
                _subtract_multiple(other, other[lead], fresh)
                self.rows[pivot] = {k: x for k, x in other.items() if abs(x) >= ZERO}
        self.rows[lead] = fresh
        return True

    def rows_in_order(self) -> list[tuple[int, Row]]:
        """Pivots and their rows from left to right."""
        return sorted(self.rows.items())


def _subtract_multiple(row: Row, factor: Decimal, other: Row) -> None:
    """Subtract factor times another row, in place."""
    for k, x in other.items():
        row[k] = row[k] - factor * x if k in row else -factor * x


# The exact recursion for the changes of parameters that no measurement sees, link by link.
#
# After Wensing, Niemeyer & Slotine, 'A geometric characterization of observability in inertial parameter
# identification' (2024), with the rotor inertia on the joint side and with base reactions. A change is invisible iff,
# for every joint j and all q, s_j' I_j v = 0 for all v that gravity or the motion of j's ancestors can produce and
# s_j' I_j s_j + Ia_j = 0, where I_j is the composite inertia of j's subtree. Hence every link carries two spaces of
# rows on its ten parameters: Z_j must vanish on the composite, K_j must stay constant over the descendants' q. The
# recursion runs in frames whose z is the joint's axis; its result is in the links' own frames.


CHANNELS = ("Fx", "Fy", "Fz", "Mx", "My", "Mz")
XX, XY, XZ, YY, YZ, ZZ, MX, MY, MZ, M, IA = range(11)
WX, WY, WZ, VX, VY, VZ = range(6)

_ELEMENT = ((XX, XY, XZ), (XY, YY, YZ), (XZ, YZ, ZZ))
_ALL_ROWS: list[Row] = [{k: I} for k in range(10)]
_ALL_TWISTS: list[Row] = [{k: I} for k in range(6)]


@dataclass(frozen=True, slots=True)
class Measurements:
    """What is measured: the robot's own torques or not, wrench directions at the base, gravity felt or not."""

    torques: bool
    channels: tuple[str, ...] = ()
    gravity: bool = True


@dataclass(frozen=True, slots=True)
class Conditions:
    """Rows on the eleven parameters of link k (composite, Ia last) that vanish for invisible changes.

    A[i] is row i of the (10, 10) matrix that takes the link's parameters to its parent's frame.
    """

    link: int
    rows: EchelonForm
    A: tuple[Row, ...]


@dataclass(slots=True)
class _Spaces:
    """Twists V that reach a link and rows K that must stay constant, in a frame with z on the joint's axis."""

    V: list[Row]
    K: list[Row]
    turn: Matrix = field(default=UNIT_MATRIX)


def find_conditions(
    robot: Robot, measured: Measurements, *, rotors: frozenset[int], poses: Poses | None = None
) -> tuple[Conditions, ...]:
    """Conditions of every link, parents first; `rotors` are the links whose joint has an Ia column."""
    root = _spaces_of_base(robot, measured)
    spaces: dict[int, _Spaces] = {}
    found: list[Conditions] = []
    for k in robot.topological_order:
        link = robot.links[k]
        if link.kind == "floating":
            spaces[k] = _Spaces(_ALL_TWISTS, _ALL_ROWS)
            found.append(Conditions(k, EchelonForm(_ALL_ROWS), tuple(_ALL_ROWS)))
            continue
        parent = root if link.parent < 0 else spaces[link.parent]
        R, p = pose_of_motions(read_placement(link)) if poses is None else poses[k]
        turn, straight = _rotation_to_joint_axis(link)
        A = parameter_map(R, p)
        if straight and parent.turn is UNIT_MATRIX:
            R_z, p_z, A_z = R, p, A
        else:
            back = transpose(parent.turn)
            R_z, p_z = multiply_matrices(back, multiply_matrices(R, turn)), multiply_vector(back, p)
            A_z = parameter_map(R_z, p_z)
        spaces[k], Z = _spaces_behind_joint(
            link.kind, measured, _twists_in_child_frame(parent.V, R_z, p_z), _rows_in_child_frame(parent.K, A_z)
        )
        spaces[k].turn = turn
        if measured.torques and link.moves:
            Z = [*Z, _joint_inertia_row(link.kind)]
        to_axis = None if straight else parameter_map(transpose(turn), (O, O, O))
        found.append(Conditions(k, _conditions_in_link_frame(Z, to_axis, k in rotors and measured.torques), A))
    return tuple(found)


def weight_rows(robot: Robot, measured: Measurements) -> list[Row]:
    """U' I(.) a_g: rows of the weight's wrench in the measured directions, on ten parameters in frame 0."""
    g = read_gravity(robot.gravity)
    rows: list[Row] = []
    for channel in measured.channels:
        i = CHANNELS.index(channel) % 3
        if is_force_channel(channel):
            rows.append(sparse_row([O] * 9 + [g[i]]))
        else:  # (MS x g)_i
            moment = [O] * 10
            moment[MX + (i + 1) % 3], moment[MX + (i + 2) % 3] = g[(i + 2) % 3], -g[(i + 1) % 3]
            rows.append(sparse_row(moment))
    return [row for _, row in EchelonForm(rows).rows_in_order()]


def parameter_map(R: Matrix, p: Vector) -> tuple[Row, ...]:
    """Rows of A (10, 10): parameters in frame b to frame a, T_a_b = (R, p).

    J_a = R J R' + 2 (p.h) 1 - p h' - h p' + M (p.p 1 - p p') with h = R MS; MS_a = h + M p.
    """
    rows: list[Row] = []
    pp = dot(p, p)
    Rt = transpose(R)
    moments = [dot(p, Rt[c]) * 2 for c in range(3)]
    for i in range(3):
        for k in range(i, 3):
            row = _rotated_inertia_element(R, i, k)
            for c in range(3):
                h = (moments[c] if i == k else O) - p[i] * R[k][c] - R[i][c] * p[k]
                _set_unless_zero(row, MX + c, h)
            _set_unless_zero(row, M, (pp if i == k else O) - p[i] * p[k])
            rows.append(row)
    for i in range(3):
        rows.append(sparse_row([O] * 6 + [*R[i], p[i]]))
    rows.append({M: I})
    return tuple(rows)


def _rotated_inertia_element(R: Matrix, i: int, k: int) -> Row:
    """Row of element (i, k) of R J R' on XX XY XZ YY YZ ZZ."""
    row: Row = {}
    for a in range(3):
        if R[i][a] and R[k][a]:
            _set_unless_zero(row, _ELEMENT[a][a], R[i][a] * R[k][a])
        for b in range(a + 1, 3):
            if (R[i][a] and R[k][b]) or (R[i][b] and R[k][a]):
                _set_unless_zero(row, _ELEMENT[a][b], R[i][a] * R[k][b] + R[i][b] * R[k][a])
    return row


def _set_unless_zero(row: Row, column: int, value: Decimal) -> None:
    """Set an entry unless it is zero."""
    if abs(value) >= ZERO:
        row[column] = value


def _spaces_of_base(robot: Robot, measured: Measurements) -> _Spaces:
    """V of the base: gravity for torques, the measured directions for reactions; K: the weight's wrench."""
    V: list[Row] = []
    if measured.torques and measured.gravity:
        V.append(sparse_row([O, O, O, *read_gravity(robot.gravity)]))
    for channel in measured.channels:
        V.append({(VX if is_force_channel(channel) else WX) + CHANNELS.index(channel) % 3: I})
    return _Spaces(_echelon_basis(V, 6, _ALL_TWISTS), weight_rows(robot, measured))


def _rotation_to_joint_axis(link: Link) -> tuple[Matrix, bool]:
    """Rotation Q with Q z on the joint's axis, and whether it is the identity."""
    turns = read_axis(link.axis) if link.moves else ()
    return (pose_of_motions(turns)[0], False) if turns else (UNIT_MATRIX, True)


def _echelon_basis(rows: Iterable[Row], size: int, everything: list[Row]) -> list[Row]:
    """Echelon basis; a full space becomes the unit rows, which ends all rounding."""
    form = EchelonForm()
    for row in rows:
        if form.add(row) and len(form) == size:
            return everything
    return list(form.rows.values())


def _twists_in_child_frame(V: list[Row], R: Matrix, p: Vector) -> list[Row]:
    """Twists [w; v] of the parent in the child's frame: R' w, R' (v + w x p)."""
    if len(V) == 6:
        return _ALL_TWISTS
    Rt = transpose(R)
    moved: list[Row] = []
    for twist in V:
        x = [twist.get(k, O) for k in range(6)]
        w, v = x[:3], x[3:]
        swept = [v[i] + w[(i + 1) % 3] * p[(i + 2) % 3] - w[(i + 2) % 3] * p[(i + 1) % 3] for i in range(3)]
        moved.append(sparse_row([*multiply_vector(Rt, w), *multiply_vector(Rt, swept)]))
    return moved


def _rows_in_child_frame(K: list[Row], A: Sequence[Row]) -> list[Row]:
    """Rows K after a change of frame A."""
    return _ALL_ROWS if len(K) == 10 else [combine_rows(f, A) for f in K]


def _spaces_behind_joint(
    kind: JointKind, measured: Measurements, V: list[Row], K: list[Row]
) -> tuple[_Spaces, list[Row]]:
    """V_j, K_j and Z_j from the parent's spaces as the joint's frame sees them at q_j = 0."""
    if kind == "fixed":
        return _Spaces(V, K), []
    swept, constant = (
        (_twists_over_revolute, _row_derivatives_revolute)
        if kind == "revolute"
        else (_twists_over_prismatic, _row_derivatives_prismatic)
    )
    Va = _echelon_basis((x for v in V for x in swept(v)), 6, _ALL_TWISTS)
    out = _angular_momentum_row if kind == "revolute" else _linear_momentum_row
    form = EchelonForm()
    most = 7 if kind == "revolute" else 4
    for row in (*(out(v) for v in Va), *(x for f in K for x in constant(f))):
        if form.add(row) and len(form) == most:
            break
    Z = list(form.rows.values())
    own: list[Row] = [_joint_inertia_row(kind)] if measured.torques else []
    twist: list[Row] = [{WZ if kind == "revolute" else VZ: I}] if measured.torques else []
    V_j = _echelon_basis((*Va, *twist), 6, _ALL_TWISTS)
    return _Spaces(V_j, _echelon_basis((*Z, *own, *K), 10, _ALL_ROWS)), Z


def _joint_inertia_row(kind: JointKind) -> Row:
    """e_j: the parameter that the joint's own motion meets."""
    return {ZZ if kind == "revolute" else M: I}


def _twists_over_revolute(v: Row) -> tuple[Row, ...]:
    """Span of v, ad v, ad^2 v for a turn about z: what stays, and what turns, in both phases."""
    still = {k: x for k, x in v.items() if k in (WZ, VZ)}
    turning = {k: x for k, x in v.items() if k not in (WZ, VZ)}
    ahead = {WX: WY, WY: WX, VX: VY, VY: VX}
    return still, turning, {ahead[k]: x if k in (WX, VX) else -x for k, x in turning.items()}


def _twists_over_prismatic(v: Row) -> tuple[Row, ...]:
    """V and ad v = (0; wy, -wx, 0) for a slide along z."""
    return v, {k: x for k, x in ((VX, v.get(WY, O)), (VY, -v.get(WX, O))) if x}


def _angular_momentum_row(v: Row) -> Row:
    """Z' of the angular momentum: XZ wx + YZ wy + ZZ wz - MY vx + MX vy."""
    pairs = ((XZ, v.get(WX)), (YZ, v.get(WY)), (ZZ, v.get(WZ)), (MX, v.get(VY)))
    row = {k: x for k, x in pairs if x is not None}
    return row | ({MY: -v[VX]} if VX in v else {})


def _linear_momentum_row(v: Row) -> Row:
    """Z' of the linear momentum: MY wx - MX wy + M vz."""
    row = {k: x for k, x in ((MY, v.get(WX)), (M, v.get(VZ))) if x is not None}
    return row | ({MX: -v[WY]} if WY in v else {})


def _row_derivatives_revolute(f: Row) -> tuple[Row, ...]:
    """Span of f D^k, k = 1..4, for a turn: D has the frequencies 0, 1 and 2, and each part spans by itself."""
    ahead = {XZ: YZ, YZ: XZ, MX: MY, MY: MX}
    once = {k: f[k] for k in ahead if k in f}
    shifted = {ahead[k]: -x if k in (XZ, MX) else x for k, x in once.items()}
    if abs(f.get(XX, O) - f.get(YY, O)) >= ZERO or XY in f:
        return once, shifted, {XX: I, YY: -I}, {XY: I}
    return once, shifted


def _row_derivatives_prismatic(f: Row) -> tuple[Row, ...]:
    """F D and f D^2 for a slide: MX -XZ, MY -YZ, MZ 2(XX + YY), M MZ; then M 2(XX + YY)."""
    trace = 2 * (f.get(XX, O) + f.get(YY, O))
    first = {MX: -f.get(XZ, O), MY: -f.get(YZ, O), MZ: trace, M: f.get(MZ, O)}
    return {k: x for k, x in first.items() if abs(x) >= ZERO}, ({M: trace} if abs(trace) >= ZERO else {})


def _conditions_in_link_frame(Z: list[Row], to_axis: Sequence[Row] | None, rotor: bool) -> EchelonForm:
    """Echelon form of [Z 0; e 1] on the link's own parameters; e is the last row where torques are seen."""
    rows = Z if to_axis is None else [combine_rows(f, to_axis) for f in Z]
    if rotor:
        rows = [*rows[:-1], rows[-1] | {IA: I}]
    return EchelonForm(rows)


TORQUE_LIKE = ("torque", "static", "energy", "power")
"""Models that see the same combinations of parameters (Gautier 1991)."""


def find_by_nullspace(
    robot: Robot,
    *,
    model: str = "torque",
    rotor_inertia: bool = True,
    tared: bool = False,
    channels: tuple[str, ...] | None = None,
) -> Regrouping:
    """Kept columns and regrouping matrix of an open tree, exactly.

    Models: torque (static, energy and power see the same), momentum (torque without gravity), reaction and
    torque+reaction. `channels`: which of Fx Fy Fz Mx My Mz are measured, None for all; `tared`: each with a free
    offset. Known zeros are never kept.
    """
    if robot.couplings or robot.closures:
        raise ModelError(
            "closed_loops_or_couplings", "'{robot}' has couplings or closed loops, to which the method nullspace does "
            "not apply", "use {exact}", robot=robot.name, exact=Option("method", "exact"),
        )  # fmt: skip
    columns = standard_columns(robot, rotor_inertia=rotor_inertia)
    rows = find_rows_of_tree(robot, columns, model, tared=tared, channels=channels)
    return _regrouping_of_rows(rows, len(columns))


def find_kept_by_nullspace(
    robot: Robot, *, model: str, rotor_inertia: bool, tared: bool, channels: tuple[str, ...] | None
) -> frozenset[int]:
    """Kept columns of an open tree alone, as `find_by_nullspace` finds them: rows would cost the square of a chain."""
    columns = standard_columns(robot, rotor_inertia=rotor_inertia)
    rows = find_rows_of_tree(robot, columns, model, tared=tared, channels=channels, kept_alone=True)
    return frozenset(rows)


def find_rows_of_tree(
    robot: Robot,
    columns: ColumnSet,
    model: str,
    *,
    tared: bool,
    channels: tuple[str, ...] | None,
    poses: Poses | None = None,
    kept_alone: bool = False,
) -> dict[int, Row]:
    """Rows by kept column of the open tree, couplings and closures left aside; see `find_by_nullspace`.

    kept_alone: rows may be empty.
    """
    measured = _measurements_of_model(robot, model, channels)
    known = frozenset(robot.known_zeros)
    left_out = frozenset(k for k, name in enumerate(columns.names) if name in known)
    with many_digits():
        conditions = find_conditions(robot, measured, rotors=frozenset(columns.rotor_column_of_link), poses=poses)
        weights = [] if tared else weight_rows(robot, measured)
        roots = [c for c in conditions if robot.links[c.link].parent < 0]
        if weights and len(roots) == 1:
            for f in weights:
                roots[0].rows.add(combine_rows(f, roots[0].A))
            weights = []
        if not left_out and not weights and all(link.parent < k for k, link in enumerate(robot.links)):
            if kept_alone:
                return {_columns_of_link(columns, c.link)[pivot]: {} for c in conditions for pivot in c.rows.rows}
            return _regroup_link_by_link(robot, conditions, columns)
        return _regroup_all_links(robot, conditions, columns, weights, left_out)


def _measurements_of_model(robot: Robot, model: str, channels: tuple[str, ...] | None) -> Measurements:
    """Measurements of a model; raise where the null space method does not apply."""
    unknown = [name for name in channels or () if name not in CHANNELS]
    if unknown:
        raise ModelError(
            "unknown_channel", "there is no channel {given}", "channels are {channels}", given=list(unknown),
            channels=list(CHANNELS),
        )  # fmt: skip
    directions = CHANNELS if channels is None else tuple(name for name in CHANNELS if name in channels)
    if model in TORQUE_LIKE:
        return Measurements(torques=True)
    if model == "momentum":
        return Measurements(torques=True, gravity=False)
    if model not in ("reaction", "torque+reaction"):
        raise ModelError(
            "method_without_model", "the method nullspace does not know the model '{model}'", "it knows {models}, "
            "momentum, reaction and torque+reaction", model=model, models=list(TORQUE_LIKE),
        )  # fmt: skip
    if robot.floating:
        raise ModelError(
            "floating_base", "'{robot}' has a floating base and no reactions", "use the torque model", robot=robot.name,
        )  # fmt: skip
    return Measurements(torques=model != "reaction", channels=directions)


def _regroup_link_by_link(robot: Robot, conditions: tuple[Conditions, ...], columns: ColumnSet) -> dict[int, Row]:
    """Rows by kept column where parents stand before children: each link keeps the pivots of its own conditions.

    With G the link's echelon form, x = G P are its base parameters; what G leaves of the composite P (the
    entries y of the columns that are not kept) flows to the parent: A (P - S x) = T y.
    """
    kept: dict[int, Row] = {}
    inflow: dict[int, list[dict[int, Row]]] = {c.link: [] for c in conditions}
    for c in reversed(conditions):
        place = _columns_of_link(columns, c.link)
        composite: dict[int, Row] = {i: {column: I} for i, column in place.items()}
        for flow in inflow.pop(c.link):
            for i, row in flow.items():
                _add_row(composite[i], row)
        for pivot, g in c.rows.rows_in_order():
            kept[place[pivot]] = combine_rows(g, composite)
        parent = robot.links[c.link].parent
        if parent >= 0:
            inflow[parent].append(_rows_passed_to_parent(c, composite))
    return kept


def _rows_passed_to_parent(c: Conditions, composite: dict[int, Row]) -> dict[int, Row]:
    """Rows, by the parent's parameter, of what the link hands on."""
    rest = {i: row for i, row in composite.items() if i not in c.rows.rows}
    T: dict[int, Row] = {i: {} for i in range(10)}
    for i, a in enumerate(c.A):
        for k, x in a.items():
            for m, y in _rest_of_parameter(c.rows, k).items():
                T[i][m] = T[i].get(m, O) + x * y
    return {i: combine_rows(t, rest) for i, t in T.items() if t}


def _rest_of_parameter(G: EchelonForm, k: int) -> Row:
    """Parameter k of P - S G P, on the columns that are not kept."""
    if k not in G.rows:
        return {k: I}
    return {m: -x for m, x in G.rows[k].items() if m != k}


def _regroup_all_links(
    robot: Robot,
    conditions: tuple[Conditions, ...],
    columns: ColumnSet,
    weights: Iterable[Row],
    left_out: frozenset[int],
) -> dict[int, Row]:
    """Rows by kept column, from one echelon form of all conditions."""
    children: dict[int, list[Conditions]] = {link: [] for link in (-1, *(c.link for c in conditions))}
    for c in conditions:
        children[robot.links[c.link].parent].append(c)
    form = EchelonForm()

    def row_on_all_columns(f: Row, link: int, total: Row) -> Row:
        """Add a row on the composite of a link, as a row on all columns."""
        if link >= 0:
            place = _columns_of_link(columns, link)
            total.update((place[i], x) for i, x in f.items() if place[i] not in left_out)
        f = {i: x for i, x in f.items() if i != IA}
        for child in children[link]:
            row_on_all_columns(combine_rows(f, child.A), child.link, total)
        return total

    for c in reversed(conditions):
        for f in c.rows.rows.values():
            form.add(row_on_all_columns(f, c.link, {}))
    for f in weights:
        form.add(row_on_all_columns(f, -1, {}))
    return form.rows


def _columns_of_link(columns: ColumnSet, link: int) -> dict[int, int]:
    """Column of each of a link's ten or eleven parameters."""
    first = columns.first_column_of_link[link]
    place = {i: first + i for i in range(10)}
    rotor = columns.rotor_column_of_link.get(link)
    return place if rotor is None else place | {IA: rotor}


def _add_row(total: Row, row: Row) -> None:
    """Add a row to a total, in place."""
    for k, x in row.items():
        total[k] = total.get(k, Decimal(0)) + x


def _regrouping_of_rows(rows: dict[int, Row], size: int) -> Regrouping:
    """Regrouping matrix of rows by kept column."""
    kept = tuple(sorted(rows))
    matrix = np.zeros((len(kept), size))
    for i, pivot in enumerate(kept):
        for column, x in rows[pivot].items():
            matrix[i, column] = float(x)
    return Regrouping(kept, matrix)
