"""The number of model parameters over finite fields: no symbols, no Lagrangian, only numbers.

The Lagrangian is a function of motion and of parameters (inertias times geometry); m is the rank of its values at
random motions and random geometries. It is evaluated as in Ha, Ko & Kwon, eq. 2.2, from homogeneous matrices and
pseudo-inertias, which shares nothing with `dynid.unknown_geometry.lagrangian`. Functions of joints i to n are what is
left after subtracting the value with these joints at rest in one pose: their rank is m_i + ... + m_n.

In GF(p) with p = 1 mod 360000 whole millidegrees are exact points of the circle and other known angles powers of a
generic one. A rank can only come out too low, with a probability below 1e-6 per prime; two primes are asked.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dynid.errors import UnknownGeometryError
from dynid.identifiability.exact_geometry import read_gravity
from dynid.identifiability.finite_field import Field
from dynid.robot.inertia import ROTOR, SYMBOLS
from dynid.unknown_geometry.geometry import (
    ANGLES,
    PartlyKnownAngle,
    PartlyKnownLength,
    PartlyKnownRobot,
    PartlyKnownRow,
)

PRIMES = (2112840001, 2106360001)
"""p = 360000 m + 1 with m prime and 4 p^2 < 2^64: sums of four products fit into 64 bits."""

MANY = 2000
"""Counting stops here."""

MOST_JOINTS = 100
"""Above which a count would take hours: it takes seconds for 30, and grows with the cube."""

Numbers: TypeAlias = NDArray[np.int64]
"""Elements of the field, 0 to p - 1."""


@dataclass(frozen=True, slots=True)
class ModelParameterCount:
    """Number of model parameters.

    Attributes
    ----------
    count : int
        Their number.
    blocks : tuple of int
        Numbers m_1 .. m_n of each level.
    complete : bool
        False if counting stopped early.
    """

    count: int
    blocks: tuple[int, ...]
    complete: bool = True


def count_parameters(shape: PartlyKnownRobot, *, rotor_inertia: bool = False, seed: int = 0) -> ModelParameterCount:
    """Count the model parameters over two fields and take the larger number, as a field can only lower ranks.

    Where the blocks would take minutes, over one field and without them: for a chance of one in a million at most, the
    rank over a field of 2 10^9 elements is the rank.
    """
    joints = len(shape.robot.tree_joints)
    if joints > MOST_JOINTS:
        raise UnknownGeometryError(
            "too_many_joints_to_count", "'{robot}' has {joints} joints, and counting takes hours above {limit}",
            "lock some of them", robot=shape.robot.name, joints=joints, limit=MOST_JOINTS,
        )  # fmt: skip
    counts: list[ModelParameterCount] = []
    for p in PRIMES:
        evaluation = _Evaluation.in_field(p, shape, rotor_inertia, seed)
        rank, enough = _find_rank(evaluation, (counts[0].count if counts else _FIRST) + _SPARE, MANY)
        if enough is None:
            return ModelParameterCount(rank, (), complete=False)
        n = len(evaluation.joints)
        sample, geometries = enough
        if len(sample.qd[0]) * len(geometries) * len(shape.robot.links) * n > _MOST_WORK_FOR_BLOCKS:
            return ModelParameterCount(rank, ())
        above = [rank, *(evaluation.rank(evaluation.lagrangian_columns(*enough, i)) for i in range(1, n)), 0]
        counts.append(ModelParameterCount(rank, tuple(above[i] - above[i + 1] for i in range(n))))
    return max(counts, key=lambda found: found.count)


def count_parameters_quickly(
    shape: PartlyKnownRobot, *, rotor_inertia: bool = False, most: int = MANY
) -> ModelParameterCount:
    """Count over one field, without blocks, up to about `most`."""
    rank, enough = _find_rank(_Evaluation.in_field(PRIMES[0], shape, rotor_inertia, 0), _FIRST + _SPARE, most)
    return ModelParameterCount(rank, (), complete=enough is not None)


_MOST_WORK_FOR_BLOCKS = 10_000_000
"""Motions, geometries, links and joints multiplied, above which blocks would take minutes and are left out."""

_FIRST, _SPARE = 16, 16
"""Expected rank to begin with; motions and columns beyond a rank, which show that it is one."""


def _find_rank(evaluation: _Evaluation, motions: int, most: int) -> tuple[int, tuple[_Sample, list[_Geometry]] | None]:
    """Rank with motions and geometries added until neither raises it, and these; None beyond `most`."""
    while True:
        sample = evaluation.draw_motions(motions)
        geometries = evaluation.draw_geometries(motions + _SPARE)
        columns = evaluation.lagrangian_columns(sample, geometries, 0)
        rank = evaluation.rank(columns)
        if rank <= motions - _SPARE // 2:
            more = evaluation.draw_geometries(motions // 4 + _SPARE)
            others = evaluation.lagrangian_columns(sample, more, 0)
            if evaluation.rank(np.concatenate([columns, others], axis=1)) == rank:
                return rank, (sample, geometries)
        if rank > most:
            return rank, None
        motions *= 2


@dataclass(frozen=True, slots=True)
class _Sample:
    """Joint by joint its matrix Z(q) and the derivative Z'(q) qd, both (N, 4, 4), and qd (N,)."""

    Z: list[Numbers]
    Zd: list[Numbers]
    qd: list[Numbers]


@dataclass(frozen=True, slots=True)
class _Geometry:
    """Matrix of each row (4, 4), and sums of parameters (width, columns)."""

    C: list[Numbers]
    mix: Numbers


class _Evaluation:
    """Values of the Lagrangian's coefficients at random points of a field."""

    def __init__(self, shape: PartlyKnownRobot, field: Field, rotor_inertia: bool) -> None:
        self.shape, self.field, self.p = shape, field, field.p
        self.robot = shape.robot
        self.joints = self.robot.tree_joints
        self.rotors = [i for i, k in enumerate(self.joints) if rotor_inertia and ROTOR not in self.robot.links[k].zero]
        self.gravity = np.array([field.field_element(x) for x in read_gravity(self.robot.gravity)], dtype=np.int64)
        self.free = [
            np.array([k for k, symbol in enumerate(SYMBOLS) if symbol not in link.zero], dtype=np.int64)
            for link in self.robot.links
        ]

    @staticmethod
    def in_field(p: int, shape: PartlyKnownRobot, rotor_inertia: bool, seed: int) -> _Evaluation:
        """Evaluation of a robot's Lagrangian over GF(p)."""
        field = Field.for_angles(shape.known_angles, p, random.Random(f"{seed} {p}"))
        return _Evaluation(shape, field, rotor_inertia)

    @property
    def columns_per_geometry(self) -> int:
        """Number of columns per geometry."""
        return sum(map(len, self.free)) + len(self.rotors)

    def draw_motions(self, N: int) -> _Sample:
        """N random motions; a last one, at rest in a random pose, stands behind them."""
        Z, Zd, qds = [], [], []
        for k in self.joints:
            qd = self._random_elements(N + 1)
            qd[-1] = 0
            position, velocity = _identity_matrices(N + 1), np.zeros((N + 1, 4, 4), dtype=np.int64)
            if self.robot.links[k].kind == "revolute":
                c, s = self._cos_sin(self._random_elements(N + 1))
                for a, b, x in ((0, 0, c), (1, 1, c), (1, 0, s), (0, 1, -s % self.p)):
                    position[:, a, b] = x
                for a, b, x in ((0, 0, -s), (1, 1, -s), (1, 0, c), (0, 1, -c)):
                    velocity[:, a, b] = x % self.p * qd % self.p
            else:
                position[:, 2, 3], velocity[:, 2, 3] = self._random_elements(N + 1), qd
            Z.append(position)
            Zd.append(velocity)
            qds.append(qd)
        return _Sample(Z, Zd, qds)

    def draw_geometries(self, columns: int) -> list[_Geometry]:
        """Random geometries for so many columns: eight of each, random sums of its parameters' columns.

        Where nothing is unknown, there is one geometry with all of its columns.
        """
        if not self.shape.unknown:
            return [_Geometry(self._random_link_transforms(), np.eye(self.columns_per_geometry, dtype=np.int64))]
        mixes = [
            self._random_elements(self.columns_per_geometry * 8).reshape(self.columns_per_geometry, 8)
            for _ in range(-(-columns // 8))
        ]
        return [_Geometry(self._random_link_transforms(), mix) for mix in mixes]

    def lagrangian_columns(self, sample: _Sample, geometries: list[_Geometry], first: int) -> Numbers:
        """Columns (N, columns of all geometries) by which the joints from `first` (0 to n - 1) on change L."""
        held = _hold_joints(sample, first)
        parts = []
        for geometry in geometries:
            values = self._lagrangian_coefficients(sample, geometry.C) - self._lagrangian_coefficients(held, geometry.C)
            parts.append(self._mix_columns(values[:-1] % self.p, geometry.mix))
        return np.concatenate(parts, axis=1)

    def _mix_columns(self, values: Numbers, mix: Numbers) -> Numbers:
        """Random sums of the columns, over the field."""
        # Halves of 16 bits, whose sums of products floats of 53 bits hold without rounding for a million columns.
        many = np.vstack([values >> 16, values & 0xFFFF]).astype(np.float64)
        few = np.hstack([mix >> 16, mix & 0xFFFF]).astype(np.float64)
        products = (many @ few).astype(np.int64) % self.p
        (high, upper), (lower, low) = (np.hsplit(part, 2) for part in np.vsplit(products, 2))
        middle = (upper + lower) % self.p
        return np.asarray((high * (2**32 % self.p) % self.p + middle * 2**16 + low) % self.p)

    def rank(self, columns: Numbers) -> int:
        """Rank of columns over the field."""
        from flint import nmod_mat

        return int(nmod_mat(*columns.shape, columns.ravel().tolist(), self.p).rank())

    def _lagrangian_coefficients(self, sample: _Sample, C: list[Numbers]) -> Numbers:
        """Coefficients of all parameters in L, (N, width): trace(Td J Td') / 2 + g' T h."""
        N, p = len(sample.qd[0]), self.p
        place = {k: i for i, k in enumerate(self.joints)}
        T = {-1: _identity_matrices(N)}
        Td = {-1: np.zeros((N, 4, 4), dtype=np.int64)}
        found: dict[int, Numbers] = {}
        for k in self.robot.topological_order:
            parent = self.robot.links[k].parent
            T0, Td0 = self._multiply_matrices(T[parent], C[k][None]), self._multiply_matrices(Td[parent], C[k][None])
            if k in place:
                Z, Zd = sample.Z[place[k]], sample.Zd[place[k]]
                T[k] = self._multiply_matrices(T0, Z)
                Td[k] = (self._multiply_matrices(Td0, Z) + self._multiply_matrices(T0, Zd)) % p
            else:
                T[k], Td[k] = T0, Td0
            found[k] = self._link_coefficients(T[k], Td[k])[:, self.free[k]]
        half = pow(2, -1, p)
        rotors = [sample.qd[i] * sample.qd[i] % p * half % p for i in self.rotors]
        columns = [found[k] for k in range(len(self.robot.links))]
        return np.concatenate([*columns, *(x[:, None] for x in rotors)], axis=1)

    def _link_coefficients(self, T: Numbers, Td: Numbers) -> Numbers:
        """Coefficients of XX XY XZ YY YZ ZZ MX MY MZ M, (N, 10)."""
        p = self.p
        half, quarter = pow(2, -1, p), pow(4, -1, p)
        G = self._multiply_matrices(Td.transpose(0, 2, 1), Td)
        weight = (self.gravity[:, None] * T[:, :3, :] % p).sum(axis=1)
        out = np.empty((len(T), 10), dtype=np.int64)
        x, y, z = G[:, 0, 0], G[:, 1, 1], G[:, 2, 2]
        out[:, 0], out[:, 3], out[:, 5] = y + z - x, x + z - y, x + y - z
        out[:, [0, 3, 5]] = out[:, [0, 3, 5]] % p * quarter % p
        out[:, 1], out[:, 2], out[:, 4] = -G[:, 0, 1] % p, -G[:, 0, 2] % p, -G[:, 1, 2] % p
        for i in range(3):
            out[:, 6 + i] = (G[:, i, 3] + weight[:, i]) % p
        out[:, 9] = (G[:, 3, 3] * half + weight[:, 3]) % p
        return out

    def _random_link_transforms(self) -> list[Numbers]:
        """Matrix of each row at one random point of the unknowns, (4, 4)."""
        lengths = {name: int(self._random_elements(1)[0]) for name in self.shape.lengths}
        angles = {name: int(self._random_elements(1)[0]) for name in self.shape.angles}
        return [self._link_transform(row, lengths, angles) for row in self.shape.rows]

    def _link_transform(self, row: PartlyKnownRow, lengths: dict[str, int], angles: dict[str, int]) -> Numbers:
        """Matrix (1, 4, 4) of a row, with these values of the unknowns."""
        T = _identity_matrices(1)
        for letter, axis in (("gamma", 2), ("b", 2), ("alpha", 0), ("d", 0), ("theta", 2), ("r", 2)):
            step = _identity_matrices(1)
            if letter in ANGLES:
                z = self._circle_point(getattr(row, letter), angles)
                c, s = self._cos_sin(np.array([z], dtype=np.int64))
                a, b = (axis + 1) % 3, (axis + 2) % 3
                step[0, a, a] = step[0, b, b] = c[0]
                step[0, b, a], step[0, a, b] = s[0], -s[0] % self.p
            else:
                step[0, axis, 3] = self._evaluate_length(getattr(row, letter), lengths)
            T = self._multiply_matrices(T, step)
        return np.asarray(T[0])

    def _circle_point(self, angle: PartlyKnownAngle, angles: dict[str, int]) -> int:
        """Point of the circle at a partly known angle."""
        z = self.field.circle_point(angle.known, Fraction(1))
        for name, k in angle.unknown:
            z = z * pow(angles[name], k, self.p) % self.p
        return z

    def _evaluate_length(self, length: PartlyKnownLength, lengths: dict[str, int]) -> int:
        """Value of a partly known length."""
        total = 0
        for powers, c in length.terms:
            term = self.field.field_element(c)
            for name, n in powers:
                term = term * pow(lengths[name], n, self.p) % self.p
            total += term
        return total % self.p

    def _cos_sin(self, z: Numbers) -> tuple[Numbers, Numbers]:
        """Cosine and sine of points of the circle, as 64-bit residues."""
        c, s = self.field.cos_sin(z.astype(object))
        return c.astype(np.int64), s.astype(np.int64)

    def _multiply_matrices(self, A: Numbers, B: Numbers) -> Numbers:
        """Product of matrices; sums of four products of two residues fit into 64 bits without a sign."""
        product = np.matmul(A.view(np.uint64), B.view(np.uint64)) % np.uint64(self.p)
        return np.asarray(product.view(np.int64))

    def _random_elements(self, N: int) -> Numbers:
        """Random nonzero elements of the field, as 64-bit residues."""
        return self.field.random_elements(N).astype(np.int64)


def _hold_joints(sample: _Sample, first: int) -> _Sample:
    """The motions with the joints from `first` on at rest in one pose, that of the last motion."""

    def hold_from_first(x: Numbers) -> Numbers:
        """The last sample in place of every one."""
        return np.broadcast_to(x[-1:], x.shape)

    parts = [
        (hold_from_first(z), hold_from_first(zd), hold_from_first(v)) if i >= first else (z, zd, v)
        for i, (z, zd, v) in enumerate(zip(sample.Z, sample.Zd, sample.qd, strict=True))
    ]
    return _Sample([x[0] for x in parts], [x[1] for x in parts], [x[2] for x in parts])


def _identity_matrices(N: int) -> Numbers:
    """N identity matrices (N, 4, 4)."""
    return np.tile(np.eye(4, dtype=np.int64), (N, 1, 1))
