"""The Lagrangian as exact polynomials: L = sum over links and standard parameters of (polynomial) * (parameter).

Outward recursion over the links. A link carries its twist (w, v at its frame's origin, in its frame) and ten
polynomials, the coefficients of its parameters in L,

    L = w'J w / 2 + MS.(v x w) + M v.v / 2 + g.(M p + R MS),

which a change of frame takes linearly to those of the next frame, and to which a joint adds what its velocity brings.
So large polynomials are only ever multiplied by small ones, and sin^2 q never appears.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dynid.identifiability.exact_geometry import Angle, read_gravity
from dynid.robot.inertia import ROTOR, SYMBOLS
from dynid.robot.parameter import Parameter
from dynid.unknown_geometry.geometry import (
    ANGLES,
    PartlyKnownAngle,
    PartlyKnownLength,
    PartlyKnownRobot,
    PartlyKnownRow,
    is_right_angle,
)

if TYPE_CHECKING:
    from flint import fmpq_mpoly

_XX, _XY, _XZ, _YY, _YZ, _ZZ, _MX, _MY, _MZ, _M = range(10)
_DIAGONAL = (_XX, _YY, _ZZ)
_MIXED = {frozenset((0, 1)): _XY, frozenset((0, 2)): _XZ, frozenset((1, 2)): _YZ}
_AXES = {"gamma": 2, "b": 2, "alpha": 0, "d": 0, "theta": 2, "r": 2}
_STEPS = ("gamma", "b", "alpha", "d", "theta", "r")


@dataclass(frozen=True, slots=True)
class Generators:
    """Names of the polynomials' variables: of the motion, of the unknown geometry, of known angles.

    A revolute joint i has `c i`, `s i` and `v i`, a prismatic one `q i` and `v i`; an unknown angle x has cos(x) and
    sin(x), and so has a known angle that is no multiple of 90 degrees.
    """

    motion: tuple[str, ...]
    geometry: tuple[str, ...]
    known: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all generators, in order."""
        return (*self.motion, *self.geometry, *self.known)


@dataclass(frozen=True, slots=True, eq=False)
class Lagrangian:
    """Coefficient polynomials by standard parameter (`ZZ3`), and the link (index) each belongs to."""

    shape: PartlyKnownRobot
    generators: Generators
    coefficients: dict[Parameter, fmpq_mpoly]


def find_lagrangian(shape: PartlyKnownRobot, *, rotor_inertia: bool = False) -> Lagrangian:
    """Exact Lagrangian of a robot; parameters known to be zero are left out."""
    return _LagrangianRecursion(shape).run(rotor_inertia)


def lagrangian_variables(shape: PartlyKnownRobot) -> Generators:
    """Variables (generators) that a robot's Lagrangian needs."""
    motion: list[str] = []
    for i, k in enumerate(shape.robot.tree_joints, 1):
        turns = shape.robot.links[k].kind == "revolute"
        motion += [f"c{i}", f"s{i}", f"v{i}"] if turns else [f"q{i}", f"v{i}"]
    geometry = [*shape.lengths, *(f"{f}({name})" for name in shape.angles for f in ("cos", "sin"))]
    known = [f"{f} {i}" for i in range(len(shape.known_angles)) for f in ("cos", "sin")]
    return Generators(tuple(motion), tuple(geometry), tuple(known))


@dataclass(slots=True)
class _LinkState:
    """Twist and coefficients of a link."""

    w: list[fmpq_mpoly]
    v: list[fmpq_mpoly]
    phi: list[fmpq_mpoly]


class _LagrangianRecursion:
    """Twists and coefficients of the links, from the base outwards."""

    def __init__(self, shape: PartlyKnownRobot) -> None:
        from flint import Ordering, fmpq_mpoly_ctx

        self.shape = shape
        self.generators = lagrangian_variables(shape)
        names = tuple(f"x{i}" for i in range(len(self.generators.names)))
        self.ring = fmpq_mpoly_ctx.get(names, Ordering.lex)
        self.variable = dict(zip(self.generators.names, self.ring.gens(), strict=True))
        self.known = {angle: i for i, angle in enumerate(shape.known_angles)}

    def run(self, rotor_inertia: bool) -> Lagrangian:
        """Run the recursion over all links and return the Lagrangian's coefficients."""
        robot = self.shape.robot
        joint = {k: i for i, k in enumerate(robot.tree_joints, 1)}
        states = {-1: self._base_state()}
        found: dict[int, dict[Parameter, fmpq_mpoly]] = {}
        for k in robot.topological_order:
            link = robot.links[k]
            state = states[k] = self._state_in_row_frame(states[link.parent], self.shape.rows[k])
            if link.kind == "revolute":
                self._rotate_frame(state, 2, self.variable[f"c{joint[k]}"], self.variable[f"s{joint[k]}"])
                self._add_revolute_velocity(state, self.variable[f"v{joint[k]}"])
            elif link.kind == "prismatic":
                self._translate_frame(state, 2, self.variable[f"q{joint[k]}"])
                self._add_prismatic_velocity(state, self.variable[f"v{joint[k]}"])
            terms = zip(SYMBOLS, state.phi, strict=True)
            found[k] = {link.parameter(s): x for s, x in terms if s not in link.zero and x}
            if rotor_inertia and k in joint and ROTOR not in link.zero:
                found[k][link.parameter(ROTOR)] = self.variable[f"v{joint[k]}"] ** 2 / 2
        ordered = {name: x for k in range(len(robot.links)) for name, x in found[k].items()}
        return Lagrangian(self.shape, self.generators, ordered)

    def _base_state(self) -> _LinkState:
        """State of the base at rest, under gravity."""
        nought = [self._constant_polynomial(Fraction(0)) for _ in range(10)]
        for i, g in enumerate(read_gravity(self.shape.robot.gravity)):
            nought[_MX + i] = self._constant_polynomial(Fraction(g))
        return _LinkState(nought[:3], nought[:3], nought)

    def _state_in_row_frame(self, parent: _LinkState, row: PartlyKnownRow) -> _LinkState:
        """State in the frame that a row leads to, before the joint moves."""
        state = _LinkState(list(parent.w), list(parent.v), list(parent.phi))
        for letter in _STEPS:
            if letter in ANGLES:
                angle: PartlyKnownAngle = getattr(row, letter)
                if angle != PartlyKnownAngle(Angle(0)):
                    self._rotate_frame(state, _AXES[letter], *self._cos_sin(angle))
            else:
                length: PartlyKnownLength = getattr(row, letter)
                if length.terms:
                    self._translate_frame(state, _AXES[letter], self._length_polynomial(length))
        return state

    def _rotate_frame(self, state: _LinkState, axis: int, c: fmpq_mpoly, s: fmpq_mpoly) -> None:
        """Turn the frame about an axis: J' = R J R', MS' = R MS for what the parent sees."""
        a, b = (axis + 1) % 3, (axis + 2) % 3
        for x in (state.w, state.v):
            x[a], x[b] = c * x[a] + s * x[b], c * x[b] - s * x[a]
        f = state.phi
        aa, bb, ab = _DIAGONAL[a], _DIAGONAL[b], _MIXED[frozenset((a, b))]
        az, bz = _MIXED[frozenset((a, axis))], _MIXED[frozenset((b, axis))]
        difference, cc, cs = f[aa] - f[bb], c * c, c * s
        change = cc * difference + cs * f[ab]
        f[ab] = (2 * cc - 1) * f[ab] - 2 * cs * difference
        f[aa], f[bb] = f[bb] + change, f[aa] - change
        f[az], f[bz] = c * f[az] + s * f[bz], c * f[bz] - s * f[az]
        ma, mb = _MX + a, _MX + b
        f[ma], f[mb] = c * f[ma] + s * f[mb], c * f[mb] - s * f[ma]

    def _translate_frame(self, state: _LinkState, axis: int, length: fmpq_mpoly) -> None:
        """Move the frame along an axis: MS' = MS + M t, J' by the parallel-axis theorem."""
        a, b = (axis + 1) % 3, (axis + 2) % 3
        w, v, f = state.w, state.v, state.phi
        v[a], v[b] = v[a] + w[b] * length, v[b] - w[a] * length
        across = f[_DIAGONAL[a]] + f[_DIAGONAL[b]]
        f[_M] = f[_M] + length * (f[_MX + axis] + length * across)
        f[_MX + axis] = f[_MX + axis] + 2 * length * across
        for other in (a, b):
            f[_MX + other] = f[_MX + other] - length * f[_MIXED[frozenset((axis, other))]]

    def _add_revolute_velocity(self, state: _LinkState, rate: fmpq_mpoly) -> None:
        """Add the velocity of a revolute joint about z."""
        w, v, f = state.w, state.v, state.phi
        f[_XZ], f[_YZ] = f[_XZ] + rate * w[0], f[_YZ] + rate * w[1]
        f[_ZZ] = f[_ZZ] + rate * (w[2] + rate / 2)
        f[_MX], f[_MY] = f[_MX] + rate * v[1], f[_MY] - rate * v[0]
        w[2] = w[2] + rate

    def _add_prismatic_velocity(self, state: _LinkState, rate: fmpq_mpoly) -> None:
        """Add the velocity of a prismatic joint along z."""
        w, v, f = state.w, state.v, state.phi
        f[_MX], f[_MY] = f[_MX] - rate * w[1], f[_MY] + rate * w[0]
        f[_M] = f[_M] + rate * (v[2] + rate / 2)
        v[2] = v[2] + rate

    def _constant_polynomial(self, value: Fraction) -> fmpq_mpoly:
        """A rational number as a polynomial."""
        from flint import fmpq

        return self.ring.constant(fmpq(value.numerator, value.denominator))

    def _length_polynomial(self, length: PartlyKnownLength) -> fmpq_mpoly:
        """A partly known length as a polynomial in the unknowns."""
        total = self._constant_polynomial(Fraction(0))
        for powers, c in length.terms:
            term = self._constant_polynomial(c)
            for name, n in powers:
                term = term * self.variable[name] ** n
            total = total + term
        return total

    def _cos_sin(self, angle: PartlyKnownAngle) -> tuple[fmpq_mpoly, fmpq_mpoly]:
        """Cosine and sine of a sum of angles."""
        if is_right_angle(angle.known):
            assert angle.known.millidegrees is not None
            quarter = angle.known.millidegrees // 90_000 % 4
            right = ((1, 0), (0, 1), (-1, 0), (0, -1))[quarter]
            c, s = (self._constant_polynomial(Fraction(x)) for x in right)
        else:
            i = self.known[angle.known]
            c, s = self.variable[f"cos {i}"], self.variable[f"sin {i}"]
        for name, k in angle.unknown:
            x, y = self.variable[f"cos({name})"], self.variable[f"sin({name})"]
            y = y if k > 0 else -y
            for _ in range(abs(k)):
                c, s = c * x - s * y, s * x + c * y
        return c, s
