"""Base parameters of robots with loops in ball arithmetic: no tolerance decides a rank.

The rows are functions of the position alone. A change of parameters that no motion shows leaves the mass matrix on
the active joints and the gravity torques at zero in a whole neighbourhood, and with them everything that is derived
from them: torque, static, energy and power. Momenta see the mass matrix only; base reactions are the rates of the
total momentum, which is linear in the velocities, so they see its coefficients and the weight.

Positions follow the assembly in doubles (Newton along paths that stay away from dead points) and are then enclosed by
an interval Newton step in flint's `arb`. Every number is a ball that contains the true one, so a pivot whose ball
does not contain zero proves a column independent. What depends on the columns before it leaves balls around zero,
of 1e-90 and the like; the ratio of the two is the gap. Functions of the position are analytic on an assembly mode:
a fresh random position that adds no rank shows that none does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dynid.concurrency import flint_precision
from dynid.dynamics.scene import BASE_CHANNELS, Column, standard_columns
from dynid.errors import ModelError, UndecidedError
from dynid.identifiability.finite_field import PRIMES, find_over_finite_field
from dynid.identifiability.loop_geometry import (
    Mechanism,
    Numbers,
    Paths,
    ball_of_rational,
    cross,
    enclose_positions,
    find_assembly,
    zeros_of_kind,
)
from dynid.identifiability.numeric import Question
from dynid.identifiability.relations import Regrouping
from dynid.identifiability.symbolic_numbers import (
    Form,
    Ring,
    closure_lengths,
    length_generators,
    recognise_form,
    recognise_polynomial,
)
from dynid.messages import Message, Option
from dynid.robot.expression import Expression, evaluate_expression
from dynid.robot.mdh import mdh_transform
from dynid.robot.robot import Robot
from dynid.robot.transform import Array, freeze

if TYPE_CHECKING:
    from flint import arb

DIGITS = (100, 200, 400)
"""Tried in turn until the gap is wide enough."""
GAP = 1e50
"""Wide enough."""
NEARBY = 1e-4
"""By so much a geometry is changed to see whether a parameter hangs on a near coincidence."""
SMALL = 1e-3
"""Pivots above this share of the largest entry are not suspected of it."""
JUMP = 100.0
"""Growth of a pivot that says so."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What was shown about a robot with loops, and how.

    assembly: positions of the joints around which the loops were followed, empty without closures; count: independent
    columns, proven so in ball arithmetic at the positions; smallest: bound below the pivots of the kept columns;
    largest: bound above what was left of the others; fresh: positions that were added last and brought no rank;
    primes: moduli over which the same columns came out in exact arithmetic, where the loops are couplings only.
    """

    count: int
    assembly: tuple[tuple[str, float], ...]
    positions: int
    fresh: int
    digits: int
    smallest: float
    largest: float
    primes: tuple[int, ...] = ()

    @property
    def gap(self) -> float:
        """Ratio of the two bounds; infinite where every column is kept."""
        return self.smallest / self.largest if self.largest else math.inf

    def __str__(self) -> str:
        pose = ", ".join(f"{name} = {x:.6g}" for name, x in self.assembly)
        where = f"on the assembly mode through {pose}" if pose else "for the couplings"
        rest = "the others vanish" + (f" below {self.largest:.0e}" if self.largest else "")
        text = (
            f"{self.count} independent columns proven at {self.positions} positions {where}; {rest} with {self.digits} "
            f"digits (gap {self.gap:.0e}), and {self.fresh} fresh positions add none"
        )
        return f"{text}; the same columns modulo {len(self.primes)} primes" if self.primes else text


@dataclass(frozen=True, slots=True, eq=False)
class ExactResult:
    """Regrouping with its certificate and warnings."""

    regrouping: Regrouping
    certificate: Certificate
    warnings: tuple[Message, ...]


@lru_cache(maxsize=32)
def find_by_ball_arithmetic(robot: Robot, model: str, rotor_inertia: bool, tared: bool, seed: int = 0) -> ExactResult:
    """Kept columns and relations of a robot with couplings or closures, by ball arithmetic at random positions."""
    question = Question(robot, model, rotor_inertia, tared, ())
    for digits in DIGITS:
        with flint_precision(math.ceil(digits / math.log10(2.0))):
            writer = _RegressorWriter(question, seed)
            found = _eliminate_until_rank_settles(writer)
            if found.gap >= GAP:
                warnings = writer.warnings + _near_coincidence_warnings(writer, found, question.columns)
                return _result_with_certificate(question, writer, found, digits, warnings)
    raise UndecidedError(
        "rank_undecided", "the base parameters of '{robot}' are not decided with {digits} digits (gap {gap:.0e})",
        "give start and at of an assembly far from dead points, or use {qr}", robot=robot.name, digits=DIGITS[-1],
        gap=found.gap, qr=Option("method", "qr"),
    )  # fmt: skip


def _result_with_certificate(
    question: Question, writer: _RegressorWriter, found: _Echelon, digits: int, warnings: tuple[Message, ...]
) -> ExactResult:
    """Regrouping of an echelon form, with the certificate of its bounds."""
    robot, offsets = question.robot, writer.offsets
    kept = tuple(k - offsets for k in found.pivots if k >= offsets)
    matrix = np.zeros((len(kept), len(question.columns)))
    for row, pivot in zip(matrix, kept, strict=True):
        for column, x in found.relation(pivot + offsets).items():
            row[column - offsets] = float(x)
    primes: tuple[int, ...] = ()
    if not robot.closures:
        primes, problems = _check_over_primes(question, kept)
        warnings += problems
    certificate = Certificate(
        len(kept), writer.assembly, len(writer.positions), found.fresh, digits, found.smallest, found.largest, primes
    )
    return ExactResult(Regrouping(kept, matrix), certificate, warnings)


def _check_over_primes(question: Question, kept: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[Message, ...]]:
    """Primes over which the same columns are kept, and a warning where other columns are."""
    robot, model = question.robot, question.model
    if model == "momentum":
        robot = replace(robot, gravity=np.zeros(3))
    try:
        field = find_over_finite_field(
            robot, model=model if "reaction" in model else "torque", rotor_inertia=question.rotor_inertia,
            tared=question.tared, channels=question.channels,
        )  # fmt: skip
    except ModelError:  # an offset without a point in the field
        return (), ()
    if field.agree and field.kept == kept:
        return PRIMES, ()
    return (), (Message(
        "primes_disagree", "exact arithmetic modulo two primes keeps {by_primes} columns, ball arithmetic {by_balls}: "
        "the couplings' numbers are read in two ways", "write factors and offsets as short decimals or fractions",
        by_primes=field.count, by_balls=len(kept),
    ),)  # fmt: skip


class _RegressorWriter:
    """Rows of a model at positions: entries of the mass matrix, weights, momenta of the base."""

    def __init__(self, question: Question, seed: int) -> None:
        robot = self.robot = question.robot
        self.columns = standard_columns(robot, rotor_inertia=question.rotor_inertia)
        self.mechanism = Mechanism.of_robot(robot)
        self.positions = np.zeros((0, len(self.mechanism.C[0])))
        self.assembly: tuple[tuple[str, float], ...] = ()
        self.paths: Paths | None = None
        self.warnings: tuple[Message, ...] = ()
        self.rng = np.random.default_rng(seed)
        if robot.closures:
            rounded = self.mechanism.as_floats()
            start, self.warnings = find_assembly(rounded)
            names = [*robot.joint_names, *(name for c in robot.closures for name in c.passive)]
            self.assembly = tuple(zip(names, map(float, start), strict=True))
            self.paths = Paths(rounded, start, self.rng)
        model, n = question.model, robot.n
        reactions, torques = "reaction" in model, model != "reaction"
        self.base = 6 if robot.floating or reactions else 0
        measured = [BASE_CHANNELS.index(name) for name in question.channels or BASE_CHANNELS] if reactions else []
        if len(measured) == 6 or not reactions:
            measured = list(range(self.base))  # a sensor with six channels sees the whole wrench, wherever it sits
        joints = list(range(self.base, self.base + n))
        own = [*measured, *joints] if robot.floating else joints
        self.pairs = [(i, j) for i in own for j in own if i <= j] if torques else []
        self.pairs += [(i, j) for i in measured for j in joints] if reactions else []
        weighed = [*(measured if reactions else ()), *(joints if torques and not robot.floating else ())]
        self.weighed = [] if model == "momentum" or not any(robot.gravity) else weighed
        self.offsets = len(measured) if question.tared else 0
        self.rotors = {
            self.pairs.index((self.base + robot.active_links.index(k),) * 2): column
            for k, column in self.columns.rotor_column_of_link.items()
            if torques
        }
        self.left_out = list(question.known_zero_columns)
        self.written = np.empty((0, self.offsets + len(self.columns)), dtype=object)

    @property
    def rows_per_position(self) -> int:
        """Number of rows per position."""
        return len(self.pairs) + len(self.weighed)

    def rows_at_new_positions(self, count: int) -> Numbers:
        """Rows (count * height, offsets and columns) at new random positions."""
        if self.paths is None:
            y = self.rng.uniform(-3.0, 3.0, (count, len(self.mechanism.C[0])))
        else:
            y = self.paths.random_positions(count)
        self.positions = np.concatenate([self.positions, y])
        new = self.rows(self.mechanism, y)
        self.written = np.concatenate([self.written, new])
        return new

    def rows(self, mechanism: Mechanism, y: Array) -> Numbers:
        """Rows of the model at the exact positions near y."""
        balls = enclose_positions(mechanism, y)
        G = mechanism.tangent(balls)
        Rs, ts = mechanism.poses_in_parents(balls)
        N, robot, base = len(y), self.robot, self.base
        out = zeros_of_kind((N, self.rows_per_position, self.offsets + len(self.columns)), G)
        directions = base + robot.n
        still = zeros_of_kind((N, directions, 3), G)
        w, v, g = {-1: still.copy()}, {-1: still.copy()}, {-1: np.broadcast_to(mechanism.gravity, (N, 3))}
        for i in range(base // 2):
            v[-1][:, i, i] = w[-1][:, 3 + i, i] = ball_of_rational(1)
        joint = {k: j for j, k in enumerate(robot.tree_joints)}
        first, second = [i for i, _ in self.pairs], [j for _, j in self.pairs]
        for k in robot.topological_order:
            up, R = robot.links[k].parent, Rs[k]
            w[k], v[k] = w[up] @ R, (v[up] + cross(w[up], ts[k][:, None])) @ R
            g[k] = (g[up][:, None] @ R)[:, 0]
            if k in joint:
                moved = w[k] if robot.links[k].kind == "revolute" else v[k]
                moved[:, base:] = moved[:, base:] + G[:, joint[k], :, None] * mechanism.axis[k]
            place = self.offsets + self.columns.first_column_of_link[k]
            pairs = _kinetic_energy_row(w[k][:, first], v[k][:, first], w[k][:, second], v[k][:, second])
            out[:, : len(self.pairs), place : place + 10] = pairs
            if self.weighed:
                weights = _gravity_power_row(w[k][:, self.weighed], v[k][:, self.weighed], g[k][:, None])
                out[:, len(self.pairs) :, place + 6 : place + 10] = weights
        for row, column in self.rotors.items():
            out[:, row, self.offsets + column] = ball_of_rational(1)
        for i in range(self.offsets if self.weighed else 0):
            out[:, len(self.pairs) + i, i] = ball_of_rational(1)
        out[:, :, [self.offsets + k for k in self.left_out]] = ball_of_rational(0)
        return out.reshape(-1, out.shape[2])


def _kinetic_energy_row(wa: Numbers, va: Numbers, wb: Numbers, vb: Numbers) -> Numbers:
    """Kinetic energy (..., 10) between two twists: wa' J wb + MS (va x wb + vb x wa) + M va vb."""
    products = wa[..., :, None] * wb[..., None, :]
    J = [products[..., i, j] + (products[..., j, i] if i != j else 0) for i in range(3) for j in range(i, 3)]
    moments = cross(va, wb) + cross(vb, wa)
    return np.stack([*J, *(moments[..., i] for i in range(3)), (va * vb).sum(axis=-1)], axis=-1)


def _gravity_power_row(w: Numbers, v: Numbers, g: Numbers) -> Numbers:
    """Power (..., 4) of gravity on MX MY MZ M in a twist: MS (g x w) + M g v."""
    moments = cross(g, w)
    return np.stack([*(moments[..., i] for i in range(3)), (g * v).sum(axis=-1)], axis=-1)


@dataclass(slots=True, eq=False)
class _Echelon:
    """Echelon form of balls: pivot columns and their rows, 1 at the pivot; sizes: bounds below the pivots.

    smallest: bound below the pivots; largest: bound above what the other columns left; fresh: see `Certificate`.
    """

    pivots: list[int]
    rows: list[Numbers]
    sizes: list[float]
    smallest: float = math.inf
    largest: float = 0.0
    fresh: int = 0

    @property
    def gap(self) -> float:
        """Ratio of the two bounds."""
        return self.smallest / self.largest if self.largest else math.inf

    def relation(self, pivot: int) -> dict[int, arb]:
        """Row of the reduced form, without the columns of the other pivots and without zeros."""
        row = self.rows[self.pivots.index(pivot)].copy()
        for other, reduced in zip(self.pivots, self.rows, strict=True):
            if other > pivot:
                row[other + 1 :] = row[other + 1 :] - row[other] * reduced[other + 1 :]
                row[other] = ball_of_rational(0)
        return {k: x for k, x in enumerate(row) if not x.contains(0)}


def _eliminate_until_rank_settles(writer: _RegressorWriter) -> _Echelon:
    """Echelon form of enough rows: positions are added until two of them bring no rank."""
    width = writer.offsets + len(writer.columns)
    count = 2 + width // (2 * max(writer.rows_per_position, 1))
    found: _Echelon | None = None
    while True:
        new = writer.rows_at_new_positions(count)
        if found is None:
            found, count = _eliminate(new), 2
            continue
        grown = _eliminate(np.concatenate([np.array(found.rows).reshape(-1, width), new]))
        grown.smallest = min(grown.smallest, found.smallest)
        grown.largest = max(grown.largest, found.largest)
        if len(grown.pivots) == len(found.pivots):
            grown.fresh = count
            return grown
        found = grown


def _eliminate(A: Numbers) -> _Echelon:
    """Left-to-right elimination with the largest pivot of each column; a pivot is a ball without zero in it."""
    A, found = A.copy(), _Echelon([], [], [])
    for c in range(A.shape[1]):
        r = len(found.rows)
        active = [i for i in range(r, len(A)) if not A[i, c].is_zero()]
        if not active:
            continue
        lower = [float(A[i, c].abs_lower()) for i in active]
        best = active[int(np.argmax(lower))]
        if A[best, c].contains(0):
            found.largest = max(found.largest, *(float(A[i, c].abs_upper()) for i in active))
            A[active, c] = ball_of_rational(0)
            continue
        found.smallest = min(found.smallest, max(lower))
        A[[r, best]] = A[[best, r]]
        A[r, c + 1 :] = A[r, c + 1 :] / A[r, c]
        below = [i for i in range(r + 1, len(A)) if not A[i, c].is_zero()]
        A[below, c + 1 :] = A[below, c + 1 :] - A[below, c, None] * A[r, c + 1 :]
        A[r, c] = ball_of_rational(1)
        A[below, c] = ball_of_rational(0)
        found.pivots.append(c)
        found.rows.append(A[r])
        found.sizes.append(max(lower))
    return found


def _near_coincidence_warnings(
    writer: _RegressorWriter, found: _Echelon, columns: Sequence[Column]
) -> tuple[Message, ...]:
    """Warning on parameters that are kept only because the geometry, or the couplings, are not quite special.

    A pivot that is small because two lengths are equal but for 1e-9 grows when all lengths are changed by 1e-4; one
    that is small because the positions are close together does not.
    """
    kept = [k for k in found.pivots if k >= writer.offsets]
    units = [columns[k - writer.offsets].name.unit for k in kept]
    before = _pivot_sizes(writer.written[:, kept], units)
    if min(before, default=1.0) > SMALL:
        return ()
    try:
        changed = writer.rows(writer.mechanism.perturbed(NEARBY), writer.positions)
    except UndecidedError:  # a fold of the loop lies closer than the change
        return ()
    after = _pivot_sizes(changed[:, kept], units)
    pivots = zip(kept, before, after, strict=True)
    only = [columns[k - writer.offsets].name for k, x, y in pivots if x < SMALL and y > JUMP * x]
    if not only:
        return ()
    return (Message(
        "geometry_almost_special", "{parameters} {verb} kept only because the geometry or a coupling misses a special "
        "one by very little (lengths almost equal, axes almost parallel or almost meeting)",
        "if that is rounding, write equal lengths and angles alike", parameters=only,
        verb="is" if len(only) == 1 else "are",
    ),)  # fmt: skip


def _pivot_sizes(A: Numbers, units: Sequence[str]) -> list[float]:
    """Pivots of the columns, each relative to the largest entry of the columns with its unit."""
    largest: dict[str, float] = {}
    for column, unit in zip(A.T, units, strict=True):
        largest[unit] = max(largest.get(unit, 0.0), *(float(x.abs_upper()) for x in column))
    found = _eliminate(A)
    sizes = dict(zip(found.pivots, found.sizes, strict=True))
    return [sizes.get(k, 0.0) / (largest[unit] or 1.0) for k, unit in enumerate(units)]


# Coefficients with symbols: the geometry is changed at random, and what a coefficient then is tells its form.


CHANGE = 0.03
"""Share by which lengths are changed: loops still close, and no two lengths stay related by chance."""
FEW = 5
"""Lengths on which a coefficient may depend for its form to be sought in these alone."""


@dataclass(frozen=True, slots=True, eq=False)
class _Lengths:
    """Independent lengths of a robot by name: symbols, and numbers without a symbol by their text.

    root: name of the length that a symbol or a number (its text) stands for.
    """

    values: dict[str, float]
    root: dict[str, str]

    @staticmethod
    def of_robot(robot: Robot, tied: bool) -> _Lengths:
        """Lengths of a robot; tied: equal values are one length, named by the first symbol that has it."""
        written = [*_row_lengths(robot), *closure_lengths(robot)]
        used = {name for x in written for name in length_generators(x) if name in robot.symbols}
        lengths = {name: robot.symbols[name] for name in robot.symbols if name in used and robot.symbols[name]}
        lengths |= {repr(abs(x.value)): abs(x.value) for x in written if x.text is None and x.value}
        values: dict[str, float] = {}
        root: dict[str, str] = {}
        for name, value in lengths.items():
            twin = next((other for other, x in values.items() if x == abs(value)), None) if tied else None
            root[name] = twin or name
            if twin is None:
                values[name] = abs(value)
        return _Lengths(values, root)

    def changed(self, robot: Robot, values: dict[str, float]) -> Robot:
        """The robot with other values of the lengths."""
        symbols = dict(robot.symbols) | {
            name: math.copysign(values[self.root[name]], x) for name, x in robot.symbols.items() if name in self.root
        }

        def length(x: Expression) -> Expression:
            """Length after the change."""
            if not x.value:
                return x
            if x.text is None:
                return Expression(math.copysign(values[self.root[repr(abs(x.value))]], x.value))
            return replace(x, value=evaluate_expression(x.text, symbols))

        links = []
        for link in robot.links:
            row = link.mdh
            if row is not None:
                row = replace(row, b=length(row.b), d=length(row.d), r=length(row.r))
                link = replace(link, mdh=row, placement=mdh_transform(row))
            links.append(link)
        closures = []
        for closure in robot.closures:
            x = [length(e).value for e in closure_lengths(replace(robot, closures=(closure,)))]
            closures.append(replace(closure, points=(freeze(x[:3]), freeze(x[3:]))))
        return replace(robot, links=tuple(links), closures=tuple(closures), symbols=symbols, warnings=())


def _row_lengths(robot: Robot) -> list[Expression]:
    """Lengths of the table's rows."""
    rows = [link.mdh for link in robot.links if link.mdh is not None]
    return [x for row in rows for x in (row.b, row.d, row.r)]


def find_loop_forms(
    question: Question,
    found: Regrouping,
    entries: Sequence[tuple[int, int]],
    tree: Mapping[int, Mapping[int, Form | None]],
    ring: Ring,
    seed: int = 0,
) -> dict[tuple[int, int], Form]:
    """Forms of entries (kept column, column) of the regrouping in the table's symbols, where there are some.

    The rows are found again for lengths changed at random; a form is what LLL finds for one such geometry and a second
    one confirms. Equal lengths stay equal only where the count of base parameters asks for it. tree: rows with forms of
    the open tree, whose sums the rows are.
    """
    rng = np.random.default_rng(seed + 1)
    for tied in (False, True):
        lengths = _Lengths.of_robot(question.robot, tied)
        draws = [
            {k: round(x * (1.0 + CHANGE * rng.uniform(-1.0, 1.0)), 12) for k, x in lengths.values.items()}
            for _ in range(2)
        ]  # twelve decimals: sums of lengths are read exactly
        try:
            with flint_precision(math.ceil(DIGITS[0] / math.log10(2.0))):
                rows = [_rows_of_changed_robot(question, lengths.changed(question.robot, x), found.kept) for x in draws]
                if all(row is not None for row in rows):
                    forms = _recognise_entries(question, entries, tree, rows, draws, ring)  # type: ignore[arg-type]
                    if left := [entry for entry in entries if entry not in forms]:
                        forms |= _forms_in_few_lengths(question, left, lengths, rows, draws, ring, found.kept)  # type: ignore[arg-type]
                    return forms
        except (ModelError, UndecidedError):  # does not close, or not far from a dead point
            continue
    return {}


def _forms_in_few_lengths(
    question: Question,
    entries: Sequence[tuple[int, int]],
    lengths: _Lengths,
    rows: Sequence[dict[int, dict[int, arb]]],
    draws: Sequence[dict[str, float]],
    ring: Ring,
    kept: tuple[int, ...],
) -> dict[tuple[int, int], Form]:
    """Forms of the entries that depend on few lengths only: each length is changed by itself to see which matter.

    In these a form is looked for again; then lengths of which it has a power are taken out, and what is left may be a
    polynomial in the others, whose coefficients are cosines and sines of any angles of the robot.
    """
    units = _degrees(question)
    alone: dict[str, tuple[dict[str, float], dict[int, dict[int, arb]]]] = {}
    for name, x in draws[0].items():
        draw = {**draws[0], name: round(x * (1.0 + CHANGE), 12)}
        try:
            found = _rows_of_changed_robot(question, lengths.changed(question.robot, draw), kept)
        except (ModelError, UndecidedError):
            return {}
        if found is None:
            return {}
        alone[name] = draw, found
    forms = {}
    for k, c in entries:
        if any(c not in row[k] for row in (*rows, *(row for _, row in alone.values()))):
            continue
        values, degree = [row[k][c] for row in rows], units[k] - units[c]
        moved = {name: row[k][c] for name, (_, row) in alone.items() if not (row[k][c] - values[0]).contains(0)}
        if not 0 < len(moved) <= FEW:
            continue
        some = [{name: draw[name] for name in moved} for draw in draws]
        form = recognise_form(values, some, degree, ring, [moved])
        if form is None:
            samples = [({**some[0], name: alone[name][0][name]}, x) for name, x in moved.items()]
            form = recognise_polynomial((some[0], values[0]), samples, (some[1], values[1]), degree, ring)
        if form is not None:
            forms[k, c] = form
    return forms


def _degrees(question: Question) -> list[int]:
    """Power of the length in the unit of each column."""
    degree = {"kg m^2": 2, "kg m": 1, "kg": 0}
    return [degree.get(column.name.unit, 0) for column in question.columns]


def _rows_of_changed_robot(question: Question, robot: Robot, kept: tuple[int, ...]) -> dict[int, dict[int, arb]] | None:
    """Rows by kept column of a changed robot; None where it keeps other columns."""
    writer = _RegressorWriter(replace(question, robot=robot), 0)
    found = _eliminate_until_rank_settles(writer)
    offsets = writer.offsets
    if found.gap < GAP or tuple(k - offsets for k in found.pivots if k >= offsets) != kept:
        return None
    return {k: {c - offsets: x for c, x in found.relation(k + offsets).items()} for k in kept}


def _recognise_entries(
    question: Question,
    entries: Sequence[tuple[int, int]],
    tree: Mapping[int, Mapping[int, Form | None]],
    rows: Sequence[dict[int, dict[int, arb]]],
    draws: Sequence[dict[str, float]],
    ring: Ring,
) -> dict[tuple[int, int], Form]:
    """Forms of entries that LLL finds in the first draw of lengths and the second one confirms.

    What has no simple form itself may differ by one from another coefficient of the row, of a parameter with its unit.
    """
    units = _degrees(question)
    forms: dict[tuple[int, int], Form] = {}
    near = _lengths_near_links(question.robot)
    place = [_link_of_column(question, c) for c in range(len(units))]
    missing = []
    for k, c in entries:
        values = [row[k].get(c) for row in rows]
        if any(x is None for x in values):
            continue
        groups = [near[place[c]], near[place[k]] | near[place[c]]]
        form = recognise_form(values, draws, units[k] - units[c], ring, groups)
        if form is not None:
            forms[k, c] = form
        else:
            missing.append((k, c))
    for k, c in missing:
        alike = [d for d in rows[0][k] if units[d] == units[c] and all(d in row[k] for row in rows)]
        for d in sorted(alike, key=lambda d: abs(place[d] - place[c])):
            known = _form_by_tree(k, d, entries, tree, forms, ring)
            off = [row[k][c] - row[k][d] for row in rows]
            if known is None or any(x.contains(0) for x in off):
                continue
            form = recognise_form(off, draws, units[k] - units[c], ring, simple=True)
            if form is not None:
                forms[k, c] = known + form
                break
    return forms


def _form_by_tree(
    k: int,
    d: int,
    entries: Sequence[tuple[int, int]],
    tree: Mapping[int, Mapping[int, Form | None]],
    forms: Mapping[tuple[int, int], Form],
    ring: Ring,
) -> Form | None:
    """Form of column d in row k, the sum of the tree's rows by their shares; None while one of them is a number."""
    total = ring.constant(0)
    for c, row in tree.items():
        if d not in row or (c != k and (k, c) not in entries):
            continue
        share, own = ring.constant(1) if c == k else forms.get((k, c)), row[d]
        if share is None or own is None:
            return None
        total = total + share * own
    return total


def _link_of_column(question: Question, c: int) -> int:
    """Link of a column, of its joint for a rotor."""
    name = question.columns[c].name
    return next(k for k, link in enumerate(question.robot.links) if name == link.parameter(name.symbol))


def _lengths_near_links(robot: Robot) -> dict[int, set[str]]:
    """Names of the lengths of the loops that each link takes part in; of its own row where it is in none."""
    index = {link.joint: k for k, link in enumerate(robot.links)}
    loops: list[tuple[set[int], list[Expression]]] = []
    for coupling in robot.couplings:
        loops.append(({index[coupling.passive], *(index[name] for name, _ in coupling.factors)}, []))
    for closure in robot.closures:
        chains = [_links_up_to_base(robot, index[name]) for name in closure.links]
        loops.append((set(chains[0]) ^ set(chains[1]), closure_lengths(replace(robot, closures=(closure,)))))
    near: dict[int, set[str]] = {}
    for k in range(len(robot.links)):
        members, extra = {k}, list[Expression]()
        for links, lengths in loops:
            if k in links:
                members |= links
                extra += lengths
        for links, lengths in loops:  # loops of couplings share a joint
            if not lengths and members & links:
                members |= links
        rows = [robot.links[m].mdh for m in members]
        written = [*(x for row in rows if row for x in (row.b, row.d, row.r)), *extra]
        near[k] = {name for x in written for name in (length_generators(x) or (repr(abs(x.value)),)) if x.value}
    return near


def _links_up_to_base(robot: Robot, k: int) -> list[int]:
    """The link and all that carry it."""
    chain = []
    while k >= 0:
        chain.append(k)
        k = robot.links[k].parent
    return chain
