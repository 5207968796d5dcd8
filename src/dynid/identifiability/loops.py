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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

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
from dynid.identifiability.relations import Regrouping
from dynid.identifiability.samples import Question
from dynid.messages import Message, Option
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

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
            row[column - offsets] = x
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

    def relation(self, pivot: int) -> dict[int, float]:
        """Row of the reduced form, without the columns of the other pivots and without zeros."""
        row = self.rows[self.pivots.index(pivot)].copy()
        for other, reduced in zip(self.pivots, self.rows, strict=True):
            if other > pivot:
                row[other + 1 :] = row[other + 1 :] - row[other] * reduced[other + 1 :]
                row[other] = ball_of_rational(0)
        return {k: float(x) for k, x in enumerate(row) if not x.contains(0)}


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
