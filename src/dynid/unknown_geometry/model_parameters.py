"""The model parameters X of a robot with unknown geometry: finding, counting and writing them; torque = U X.

The functions U are tables of exponents, from which rows for N samples are written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dynid.concurrency import cached_property
from dynid.dynamics.kernels.compiled import compiled, inlined
from dynid.dynamics.kernels.links import Integers
from dynid.dynamics.kernels.spatial_algebra import sine_cosine
from dynid.dynamics.kernels.threads import one_blas_thread, run_on_sample_ranges
from dynid.dynamics.regressor import Regressor
from dynid.errors import ModelError, UnknownGeometryError
from dynid.messages import Message
from dynid.robot.motion import Motion, check_motion
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.unknown_geometry.finite_field import ModelParameterCount, count_parameters, count_parameters_quickly
from dynid.unknown_geometry.geometry import PartlyKnownRobot, declare_unknowns, is_right_angle, split_unknown_words
from dynid.unknown_geometry.lagrangian import (
    BilinearForm,
    Exponents,
    Generators,
    ModelParameterChoice,
    UnknownProduct,
    bilinear_form,
    choose_model_parameters,
    find_lagrangian,
    joints_of_variables,
)

# Rows of functions that are sums of products of powers: tables of exponents, one kernel, no generated code.
#
# A function is F(q, v) = sum of coefficient * T(q) * v_a v_b (or without velocities), T a product of letters and a
# letter cos(q_j)^a sin(q_j)^b, or q_j^a of a prismatic joint.


TORQUE, MOMENTUM, GRADIENT = 0, 1, 2
"""Rows d/dt dF/dv - dF/dq, dF/dv and dF/dq."""


BLOCK = 16
"""Samples side by side."""


class Monomials(NamedTuple):
    """Functions as tables.

    letter (l, 4): joint, whether it turns, the two exponents. Product k is made of the letters
    factor[start[k]:start[k + 1]] and is used by the terms first[k] to first[k + 1]; term (t, 3): function, then the
    joints a and b of the velocities, -1 for none; coefficient (t,).
    """

    letter: Integers
    start: Integers
    factor: Integers
    first: Integers
    term: Integers
    coefficient: Array


class Workspace(NamedTuple):
    """Memory of a block of samples, side by side.

    value, slope (letters * BLOCK,) of the letters; vs, accelerations (n * BLOCK,). Of a product with f factors: before
    ((f + 1) * BLOCK,), of the factors before each, its value last; after (BLOCK,), of those behind; gradient
    (f * BLOCK,), its derivative by each factor's joint; rate (BLOCK,), dT/dt. rows (n * functions * BLOCK,).
    """

    value: Array
    slope: Array
    vs: Array
    accelerations: Array
    before: Array
    after: Array
    gradient: Array
    rate: Array
    rows: Array


@inlined
def integer_power(x: float, n: int) -> float:
    """Power x^n of a number for whole n >= 0."""
    y = 1.0
    for _ in range(n):
        y *= x
    return y


@inlined
def write_factor_values(letter: Integers, q: Array, first: int, last: int, value: Array, derivative: Array) -> None:
    """Write values and derivatives (letters * BLOCK,) of all factors at the samples from first on, at most last."""
    for i in range(len(letter)):
        a, b = letter[i, 2], letter[i, 3]
        for k in range(BLOCK):
            x = q[min(first + k, last), letter[i, 0]]
            if letter[i, 1] == 0:
                value[i * BLOCK + k] = integer_power(x, a)
                derivative[i * BLOCK + k] = a * integer_power(x, a - 1) if a > 0 else 0.0
            else:
                s, c = sine_cosine(x)
                value[i * BLOCK + k] = integer_power(c, a) * integer_power(s, b)
                down = b * integer_power(c, a + 1) * integer_power(s, b - 1) if b > 0 else 0.0
                derivative[i * BLOCK + k] = down - (
                    a * integer_power(c, a - 1) * integer_power(s, b + 1) if a > 0 else 0.0
                )


@inlined
def write_product_of_powers(tables: Monomials, product: int, work: Workspace) -> None:
    """Write a product T: before ends with its value, gradient has its derivative by each factor's joint, rate dT/dt."""
    value, slope, vs, _, before, after, gradient, rate, _ = work
    begin, factors = tables.start[product], tables.start[product + 1] - tables.start[product]
    for k in range(BLOCK):
        before[k], after[k], rate[k] = 1.0, 1.0, 0.0
    for f in range(factors):
        at = tables.factor[begin + f] * BLOCK
        for k in range(BLOCK):
            before[(f + 1) * BLOCK + k] = before[f * BLOCK + k] * value[at + k]
    for f in range(factors - 1, -1, -1):
        at = tables.factor[begin + f] * BLOCK
        joint = tables.letter[tables.factor[begin + f], 0] * BLOCK
        for k in range(BLOCK):
            x = before[f * BLOCK + k] * after[k] * slope[at + k]
            gradient[f * BLOCK + k] = x
            after[k] *= value[at + k]
            rate[k] += x * vs[joint + k]


@inlined
def add_momentum(x: float, at: int, j: int, row: int, work: Workspace) -> None:
    """Add x T v_j to a row; T stands at `at` of before."""
    T, vs, rows = work.before, work.vs, work.rows
    for k in range(BLOCK):
        rows[row + k] += x * T[at + k] * vs[j * BLOCK + k]


@inlined
def add_momentum_rate(x: float, at: int, j: int, row: int, work: Workspace) -> None:
    """Add d/dt (x T v_j) to a row; T stands at `at` of before."""
    _, _, vs, accelerations, T, _, _, rate, rows = work
    for k in range(BLOCK):
        rows[row + k] += x * (T[at + k] * accelerations[j * BLOCK + k] + rate[k] * vs[j * BLOCK + k])


@compiled
def write_monomial_rows(tables: Monomials, mode: int, q: Array, v: Array, a: Array, out: Array) -> None:
    """Write rows into out (N, n, width), width functions; a is read for torques.

    Samples go in blocks side by side, so that every inner loop is a loop over a block.
    """
    N, n, width = out.shape
    flat, longest = out.reshape(-1), 1
    for product in range(len(tables.start) - 1):
        longest = max(longest, tables.start[product + 1] - tables.start[product])
    value, slope = np.empty(len(tables.letter) * BLOCK), np.empty(len(tables.letter) * BLOCK)
    before, gradient = np.empty((longest + 1) * BLOCK), np.empty(longest * BLOCK)
    after, rate, speed = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    vs, accelerations = np.empty(n * BLOCK), np.empty(n * BLOCK)
    rows = np.empty(n * width * BLOCK)
    work = Workspace(value, slope, vs, accelerations, before, after, gradient, rate, rows)
    sign = 1.0 if mode == GRADIENT else -1.0
    for first in range(0, N, BLOCK):
        rows[:] = 0.0
        for j in range(n):
            for k in range(BLOCK):
                vs[j * BLOCK + k] = v[min(first + k, N - 1), j]
                accelerations[j * BLOCK + k] = a[min(first + k, N - 1), j]
        write_factor_values(tables.letter, q, first, N - 1, value, slope)
        for product in range(len(tables.start) - 1):
            write_product_of_powers(tables, product, work)
            begin, factors = tables.start[product], tables.start[product + 1] - tables.start[product]
            for t in range(tables.first[product], tables.first[product + 1]):
                function, i, j = tables.term[t, 0], tables.term[t, 1], tables.term[t, 2]
                x, T = tables.coefficient[t], factors * BLOCK
                row_i, row_j = (i * width + function) * BLOCK, (j * width + function) * BLOCK
                if mode == MOMENTUM:
                    if i >= 0:
                        add_momentum(x, T, j, row_i, work)
                        add_momentum(x, T, i, row_j, work)
                    continue
                if mode == TORQUE and i >= 0:
                    add_momentum_rate(x, T, j, row_i, work)
                    add_momentum_rate(x, T, i, row_j, work)
                for k in range(BLOCK):
                    speed[k] = sign * x * (vs[i * BLOCK + k] * vs[j * BLOCK + k] if i >= 0 else 1.0)
                for f in range(factors):
                    at = (tables.letter[tables.factor[begin + f], 0] * width + function) * BLOCK
                    for k in range(BLOCK):
                        rows[at + k] += gradient[f * BLOCK + k] * speed[k]
        for k in range(min(BLOCK, N - first)):
            at = (first + k) * n * width
            for i in range(n * width):
                flat[at + i] = rows[i * BLOCK + k]


_MODES = {"torque": TORQUE, "momentum": MOMENTUM, "lagrangian_gradient": GRADIENT}


@dataclass(frozen=True, slots=True, eq=False)
class FunctionTables:
    """Functions F(q, v) of n joints, and the rows that they make.

    support (n, functions): where rows can be nonzero, the same for all kinds of rows.
    """

    n: int
    count: int
    tables: Monomials
    support: NDArray[np.bool_]

    def write_rows(self, kind: str, motion: Motion, out: Array) -> None:
        """Write U ("torque"), dF/dv ("momentum") or dF/dq ("lagrangian_gradient") into out (N, n, functions).

        U = d/dt dF/dv - dF/dq is the differential form (Ha, Ko & Kwon, eq. 2.20); the other two are the pieces of
        the integral form, [dF/dv] - integral of dF/dq. Accelerations are read for "torque" only.
        """
        if kind not in _MODES:
            raise ModelError(
                "unknown_rows", "there are no rows '{rows}'", "there are {kinds}", rows=kind, kinds=list(_MODES),
            )  # fmt: skip
        if motion.q.shape[1] != self.n:
            raise ModelError(
                "joint_count_mismatch", "the functions have {expected} joints, the motion has {columns}",
                expected=self.n, columns=motion.q.shape[1],
            )  # fmt: skip
        shape = (len(motion), self.n, self.count)
        if out.shape != shape or out.dtype != np.float64 or not out.flags.c_contiguous:
            raise ModelError(
                "wrong_shape", "rows need a contiguous array of floats of shape {expected}, got {shape} {dtype}",
                expected=shape, shape=out.shape, dtype=out.dtype,
            )  # fmt: skip
        mode, q, v, a = _MODES[kind], motion.q, motion.v, motion.a
        run_on_sample_ranges(
            len(motion),
            lambda i, k: write_monomial_rows(self.tables, mode, q[i:k], v[i:k], a[i:k], out[i:k]),
        )


def build_function_tables(
    names: Generators, motions: Sequence[Exponents], functions: Sequence[dict[int, Fraction]], n: int
) -> FunctionTables:
    """Tables of functions that are given by coefficients of motion products."""
    joints = [j - 1 for j in joints_of_variables(names)]
    letters: dict[tuple[int, int, int, int], int] = {}
    products: dict[tuple[int, ...], list[tuple[int, int, int, float]]] = {}
    support = np.zeros((n, len(functions)), dtype=np.bool_)
    for r, function in enumerate(functions):
        for k, coefficient in function.items():
            rates, spelled = _split_product(names, motions[k], joints)
            word = tuple(letters.setdefault(letter, len(letters)) for letter in spelled)
            a, b = rates if rates else (-1, -1)
            products.setdefault(word, []).append((r, a, b, float(coefficient)))
            for i in (*rates, *(letter[0] for letter in spelled)):
                support[i, r] = True
    words = list(products)
    terms = [term for word in words for term in products[word]]
    tables = Monomials(
        letter=np.array(list(letters), dtype=np.int64).reshape(-1, 4),
        start=np.cumsum([0, *map(len, words)]).astype(np.int64),
        factor=np.array([i for word in words for i in word], dtype=np.int64),
        first=np.cumsum([0, *(len(products[word]) for word in words)]).astype(np.int64),
        term=np.array([term[:3] for term in terms], dtype=np.int64).reshape(-1, 3),
        coefficient=np.array([term[3] for term in terms]),
    )
    return FunctionTables(n, len(functions), tables, support)


def _split_product(
    names: Generators, motion: Exponents, joints: Sequence[int]
) -> tuple[tuple[int, ...], list[tuple[int, int, int, int]]]:
    """Joints of a product's two velocities (or none), and its factors: joint, whether it turns, exponents."""
    rates: list[int] = []
    powers: dict[int, list[int]] = {}
    turns: dict[int, int] = {}
    for name, joint, n in zip(names.motion, joints, motion, strict=True):
        if not n:
            continue
        if name[0] == "v":
            rates += [joint] * n
        else:
            turns[joint] = int(name[0] != "q")
            powers.setdefault(joint, [0, 0])[int(name[0] == "s")] = n
    return tuple(rates), [(joint, turns[joint], a, b) for joint, (a, b) in powers.items()]


LIMIT = 300
"""More model parameters than this no experiment identifies."""

_COUNTED_TO = 500
_SMALL = 7
"""Robots with so many joints and known angles stay below LIMIT: they are not counted before."""

_MANY_PRODUCTS = 50_000
_BY_A_RIGHT_ANGLE, _BY_ANY_ANGLE, _BY_A_SLIDE = 2.6, 5.0, 1.5
"""Factors, measured, by which a joint makes the products of the Lagrangian more."""


@one_blas_thread
def model_parameters(
    robot: Robot, *, unknown: Iterable[str] | None = None, rotor_inertia: bool = False
) -> ModelParameters:
    """Model parameters of an open robot with unknown geometry (Ha, Ko & Kwon), exactly.

    Parameters
    ----------
    robot : Robot
        Of a modified Denavit-Hartenberg table.
    unknown : sequence of str, optional
        Symbols of the table (`D3`), letters (`r`: of every joint, also where it is 0) or entries (`d3`); (): none, then
        X = M V are base parameters. Default: what the table declares unknown.
    rotor_inertia : bool
        Whether the rotor inertias `Ia` (kg m^2) count; not by default, as in the paper's counts.

    Returns
    -------
    ModelParameters
        The parameters and their functions.

    Raises
    ------
    UnknownGeometryError
        If the robot has no such table, or too many parameters.

    Examples
    --------
    >>> from dynid import load_robot, model_parameters
    >>> model_parameters(load_robot("one_link"), unknown=()).count
    2
    """
    words = split_unknown_words(robot, unknown)
    shape = declare_unknowns(robot, words)
    _refuse_too_many_parameters(shape, rotor_inertia)
    _refuse_long_chains(shape)
    form = bilinear_form(find_lagrangian(shape, rotor_inertia=rotor_inertia))
    return ModelParameters(robot, words, rotor_inertia, form, choose_model_parameters(form))


def count_model_parameters(
    robot: Robot, *, unknown: Iterable[str] | None = None, rotor_inertia: bool = False, seed: int = 0
) -> ModelParameterCount:
    """Count the model parameters over finite fields, without finding them; up to about 2000.

    Parameters
    ----------
    robot : Robot
        Of a modified Denavit-Hartenberg table.
    unknown : sequence of str, optional
        As for `model_parameters`.
    rotor_inertia : bool
        Whether the rotor inertias count.
    seed : int
        Seed of the random points.

    Returns
    -------
    ModelParameterCount
        Their number, in all and by level.

    Raises
    ------
    UnknownGeometryError
        If the robot has no such table.

    Examples
    --------
    >>> from dynid import count_model_parameters, load_robot
    >>> count_model_parameters(load_robot("gautier3"), unknown=("D3",)).count
    17
    """
    return count_parameters(declare_unknowns(robot, unknown), rotor_inertia=rotor_inertia, seed=seed)


def _refuse_long_chains(shape: PartlyKnownRobot) -> None:
    """Raise, before the work, where the Lagrangian has too many products to be written down."""
    products = {-1: 1.0}
    for k in shape.robot.topological_order:
        link, row = shape.robot.links[k], shape.rows[k]
        oblique = any(x.unknown or not is_right_angle(x.known) for x in (row.gamma, row.alpha))
        factor = _BY_ANY_ANGLE if oblique else _BY_A_RIGHT_ANGLE
        factor = {"revolute": factor, "prismatic": _BY_A_SLIDE}.get(link.kind, 1.0)
        products[k] = products[link.parent] * factor
    most = max(products.values())
    if most > _MANY_PRODUCTS:
        raise UnknownGeometryError(
            "chain_too_long", "'{robot}' has a chain of too many joints: its Lagrangian has some {most:.0e} products",
            "lock joints, or use base_parameters where the geometry is known", robot=shape.robot.name, most=most,
        )  # fmt: skip


def _refuse_too_many_parameters(shape: PartlyKnownRobot, rotor_inertia: bool) -> None:
    """Raise, before the work, where the parameters are too many to be identified."""
    joints = len(shape.robot.tree_joints)
    if not shape.unknown or (joints <= _SMALL and not shape.angles) or joints <= 2:
        return
    found = count_parameters_quickly(shape, rotor_inertia=rotor_inertia, most=_COUNTED_TO)
    if found.count <= LIMIT:
        return
    number = str(found.count) if found.complete else f"more than {found.count}"
    remedy = "declare the angles {angles} known" if shape.angles else "declare some lengths known"
    raise UnknownGeometryError(
        "too_many_model_parameters", "'{robot}' has {number} model parameters with {unknown} unknown, too many to be "
        "identified (over {limit})", remedy, robot=shape.robot.name, number=number, unknown=list(shape.unknown),
        limit=LIMIT, angles=list(shape.angles),
    )  # fmt: skip


# Model parameters and their functions in words: `X21 = ZZ2 + ZZ3 + A2**2*(M3 + M4) + 2*A2*MX3`.


def expression_text(row: Mapping[int, Fraction], unknowns: Sequence[UnknownProduct], names: Sequence[str]) -> str:
    """Text of a parameter as a sum of standard parameters with factors; those with equal factors share them."""
    groups: dict[tuple[Fraction, Exponents], list[str]] = {}
    for column, c in row.items():
        unknown = unknowns[column]
        groups.setdefault((c, unknown.powers), []).append(unknown.parameter)
    parts = []
    for (c, powers), parameters in sorted(groups.items(), key=lambda item: (sum(item[0][1]), item[0][0] < 0)):
        factors = _product_text(powers, names)
        if len(parameters) > 1 and (factors or abs(c) != 1):
            factors.append(f"({' + '.join(parameters)})")
            parts.append((c, factors))
        else:
            parts += [(c, [*factors, name]) for name in parameters]
    return _sum_text(parts)


def function_text(function: Mapping[int, Fraction], motions: Sequence[Exponents], names: Generators) -> str:
    """Text of a function as a sum of products of the motion."""
    words = [_variable_text(name) for name in names.motion]
    return _sum_text((c, sorted(_product_text(motions[k], words), key=_is_joint_velocity)) for k, c in function.items())


def _is_joint_velocity(word: str) -> bool:
    """Whether a variable of the motion is a velocity."""
    return word.startswith("qd")


def _variable_text(name: str) -> str:
    """Variable of the motion as a person writes it: cos(q2), sin(q2), q3, qd1."""
    letter, joint = name[0], name[1:]
    return {"c": f"cos(q{joint})", "s": f"sin(q{joint})", "q": f"q{joint}", "v": f"qd{joint}"}[letter]


def _product_text(powers: Exponents, names: Sequence[str]) -> list[str]:
    """Texts of the factors of a product of powers."""
    return [name if n == 1 else f"{name}**{n}" for name, n in zip(names, powers, strict=True) if n]


def _sum_text(parts: Iterable[tuple[Fraction, list[str]]]) -> str:
    """Text of a sum of products with their coefficients."""
    text = ""
    for c, factors in parts:
        size = [] if abs(c) == 1 and factors else [number_text(abs(c))]
        sign = ("-" if c < 0 else "") if not text else (" - " if c < 0 else " + ")
        text += sign + "*".join([*size, *factors])
    return text or "0"


def number_text(x: Fraction) -> str:
    """Non-negative number: simple fractions and short decimals as they are, others with 12 digits."""
    if x.denominator <= 12:
        return str(x)
    return f"{float(x):.12g}"


_LENGTHS = (
    dict.fromkeys(("XX", "XY", "XZ", "YY", "YZ", "ZZ", "Ia"), 2) | dict.fromkeys(("MX", "MY", "MZ"), 1) | {"M": 0}
)
"""Lengths in the unit of a standard parameter."""


def _power_product(values: Sequence[float], powers: Exponents) -> float:
    """Product of powers."""
    return float(np.prod([x**n for x, n in zip(values, powers, strict=True) if n]))


@dataclass(frozen=True, slots=True)
class Recoverable:
    """What of the unknown lengths `names` follows from the model parameters.

    products: exponents, one tuple per product of powers; others: how many functions beyond these are no such products.
    """

    names: tuple[str, ...]
    products: tuple[tuple[int, ...], ...]
    others: int

    @property
    def texts(self) -> tuple[str, ...]:
        """The products in words: A1, A1*A2, R3/R5."""
        return tuple(_ratio_text(powers, self.names) for powers in self.products)

    @property
    def hidden(self) -> tuple[str, ...]:
        """Lengths of which nothing follows."""
        seen = {k for powers in self.products for k, n in enumerate(powers) if n}
        return () if self.others else tuple(name for k, name in enumerate(self.names) if k not in seen)


def _ratio_text(powers: Sequence[int], names: Sequence[str]) -> str:
    """Text of a product of powers, negative ones below a line."""
    above = _product_text(tuple(max(n, 0) for n in powers), names)
    below = _product_text(tuple(max(-n, 0) for n in powers), names)
    text = "*".join(above) or "1"
    return text if not below else f"{text}/{below[0] if len(below) == 1 else '(' + '*'.join(below) + ')'}"


def _reduced_rows(A: Array) -> list[Array]:
    """Reduced row echelon form of independent rows."""
    A, rows = A.copy(), 0
    for c in range(A.shape[1]):
        if rows == len(A):
            break
        best = rows + int(np.argmax(np.abs(A[rows:, c])))
        if abs(A[best, c]) < 1e-7:
            continue
        A[[rows, best]] = A[[best, rows]]
        A[rows] /= A[rows, c]
        for k in range(len(A)):
            if k != rows:
                A[k] -= A[k, c] * A[rows]
        rows += 1
    return list(A)


def _integer_multiple(row: Array) -> tuple[int, ...] | None:
    """Smallest integers in the proportions of a row, None where there are no small ones."""
    for factor in (1, 2, 3, 4):
        near = np.round(factor * row)
        if np.abs(factor * row - near).max() < 1e-5 * factor:
            return tuple(int(x) for x in near)
    return None


@dataclass(frozen=True, eq=False)
class ModelParameters:
    """Model parameters of a robot whose geometry is partly unknown (Ha, Ko & Kwon).

    Attributes
    ----------
    robot : Robot
        The robot.
    declared : tuple of str
        What is unknown, as it was asked for.
    rotor_inertia : bool
        Whether the rotor inertias count.
    form : BilinearForm
        The Lagrangian as a sum of functions times parameters.
    choice : ModelParameterChoice
        Which of its products are the parameters.
    warnings : tuple of Message
        What to know about them.

    Notes
    -----
    L = sum of F_ij(q, qd) X_ij, so torque = U X with U = d/dt dF/dqd - dF/dq upper block triangular: X_ij of level i
    affects only joints 1 to i. The number of parameters of each level belongs to the robot, a single X_ij does not: it
    is one choice among many that span the same space.
    """

    robot: Robot
    declared: tuple[str, ...]
    rotor_inertia: bool
    form: BilinearForm
    choice: ModelParameterChoice
    warnings: tuple[Message, ...] = ()

    @property
    def count(self) -> int:
        """Number m of model parameters, the smallest that determines the torques."""
        return len(self.choice.levels)

    @property
    def level(self) -> tuple[int, ...]:
        """Level of each parameter: the highest joint (1 to n) in its function."""
        return self.choice.levels

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """Numbers m_1 .. m_n of parameters of each level."""
        return tuple(self.level.count(i) for i in range(1, self.robot.n + 1))

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of the lengths and angles that are unknown."""
        return self.form.shape.unknown

    @cached_property
    def names(self) -> tuple[Parameter, ...]:
        """X11, X21, X22, ...: level, then number; with an underscore between them from ten on (X6_11)."""
        seen: dict[int, int] = {}
        names = []
        for i, unit in zip(self.level, self.units, strict=True):
            j = seen[i] = seen.get(i, 0) + 1
            name = f"X{i}{j}" if i < 10 and j < 10 else f"X{i}_{j}"
            names.append(Parameter(name, symbol="X", kind="model", unit=unit))
        return tuple(names)

    @cached_property
    def units(self) -> tuple[str, ...]:
        """Unit of each parameter: kg, kg m, kg m^2, ...; known lengths are numbers and hide in factors."""
        units = []
        for row in self.choice.rows:
            terms = [self.form.unknowns[column] for column in row]
            power = max(_LENGTHS[x.parameter.symbol] + sum(x.powers[: len(self.form.shape.lengths)]) for x in terms)
            units.append("kg" + (f" m^{power}" if power > 1 else " m" * power))
        return tuple(units)

    @cached_property
    def expressions(self) -> tuple[str, ...]:
        """Each parameter in standard parameters and unknowns, `X21 = ZZ2 + ...`.

        Standard parameters refer to the modified Denavit-Hartenberg frames of `robot.to_mdh()`.
        """
        words = self.form.generators.geometry
        return tuple(
            f"{name} = {expression_text(row, self.form.unknowns, words)}"
            for name, row in zip(self.names, self.choice.rows, strict=True)
        )

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """Function of each parameter in the Lagrangian, `F21 = 1/2*qd2**2 + qd1*qd2`; joints that move are counted."""
        return tuple(
            f"F{name.label} = {function_text(function, self.form.motions, self.form.generators)}"
            for name, function in zip(self.names, self.choice.functions, strict=True)
        )

    @cached_property
    def tables(self) -> FunctionTables:
        """The functions as tables of exponents, ready for the kernel."""
        return build_function_tables(self.form.generators, self.form.motions, self.choice.functions, self.robot.n)

    def regressor(self, motion: Motion, *, model: str = "torque") -> Regressor:
        """Matrix of a motion, a column per parameter.

        Parameters
        ----------
        motion : Motion
            The motion, N samples.
        model : {"torque", "momentum", "lagrangian_gradient"}
            "torque" is U of the differential form; "momentum" (dF/dqd) and "lagrangian_gradient" (dF/dq) are the pieces
            of the integral form, [dF/dqd] - integral of dF/dq dt = integral of the torques.

        Returns
        -------
        Regressor
            Matrix (N n, m).
        """
        check_motion(self.robot, motion)
        rows = np.empty((len(motion), self.robot.n, self.count))
        self.write(motion, rows, model=model)
        return self._regressor_of_rows(rows)

    def chunks(self, motion: Motion, *, model: str = "torque", size: int = 8192) -> Iterator[Regressor]:
        """Yield the rows of `regressor` in chunks, in bounded memory.

        Parameters
        ----------
        motion : Motion
            The motion, N samples.
        model : str
            As for `regressor`.
        size : int
            Samples per chunk, at most.

        Yields
        ------
        Regressor
            The rows of up to `size` samples.
        """
        if size < 1:
            raise ModelError("chunk_size_not_positive", "a chunk needs at least one sample, got {size}", size=size)
        for start in range(0, len(motion), size):
            yield self.regressor(motion[start : start + size], model=model)

    def write(self, motion: Motion, out: Array, *, model: str = "torque") -> None:
        """Fill an array with the rows of `regressor`.

        Parameters
        ----------
        motion : Motion
            The motion, N samples.
        out : (N, n, m) array
            Where to write.
        model : str
            As for `regressor`.
        """
        self.tables.write_rows(model, motion, out)

    def values(self, robot: Robot | None = None) -> Array:
        """Model parameters of nominal geometry and inertias.

        Parameters
        ----------
        robot : Robot, optional
            Another robot with the same table except for its unknowns and inertias. Default: this one.

        Returns
        -------
        (m,) array
            Values, NaN where a number that they need is unknown.
        """
        shape = self._nominal_geometry(robot)
        V = shape.robot.parameters
        M = self._parameter_matrix(shape)
        missing = np.isnan(V)
        X = M @ np.where(missing, 0.0, V)
        X[(M[:, missing] != 0.0).any(axis=1)] = np.nan
        return X

    def matrix(self, robot: Robot | None = None) -> Array:
        """Matrix M with X = M V at nominal geometry, for standard parameters V.

        Upper block triangular: parameters of level i contain links i to n (the paper's remark after eq. 2.23).

        Parameters
        ----------
        robot : Robot, optional
            As for `values`.

        Returns
        -------
        (m, p) array
            M, with columns in the order of `robot.parameter_names`.
        """
        return self._parameter_matrix(self._nominal_geometry(robot))

    def _nominal_geometry(self, robot: Robot | None) -> PartlyKnownRobot:
        """Rows and nominal unknowns of this robot, or of the one the parameters were found for."""
        if robot is None:
            return self.form.shape
        mine = self.form.shape
        try:
            shape = declare_unknowns(robot, self.declared)
        except UnknownGeometryError:
            shape = None
        if shape is None or shape.rows != mine.rows or shape.robot.parameter_names != mine.robot.parameter_names:
            raise UnknownGeometryError(
                "parameters_of_other_robot", "'{other_robot}' differs from '{robot}' in more than its unknowns",
                "find its own model parameters", other_robot=robot.name, robot=self.robot.name,
            )  # fmt: skip
        return shape

    def _parameter_matrix(self, shape: PartlyKnownRobot) -> Array:
        """M (m, standard parameters) at the nominal values of the unknowns."""
        place = {name: k for k, name in enumerate(shape.robot.parameter_names)}
        values = [
            *shape.lengths.values(), *(f(x) for x in shape.angles.values() for f in (np.cos, np.sin))
        ]  # fmt: skip
        M = np.zeros((self.count, len(place)))
        for r, row in enumerate(self.choice.rows):
            for column, c in row.items():
                unknown = self.form.unknowns[column]
                M[r, place[unknown.parameter]] += float(c) * _power_product(values, unknown.powers)
        return M

    def recoverable_lengths(self, *, known: Mapping[str, float] | None = None) -> Recoverable:
        """Functions of the unknown lengths that the model parameters determine, whatever the inertias.

        Parameters
        ----------
        known : mapping of str to float, optional
            Standard parameters that are known besides, in the frames of `robot.to_mdh()`, SI units.

        Returns
        -------
        Recoverable
            Lengths and products of powers that follow.

        Notes
        -----
        X = M(l) V is differentiated with respect to the lengths l and the inertias V at random points; a function of l
        follows from X if its gradient vanishes on all changes of (l, V) that leave X unchanged. Where these gradients
        are constant in log(l), the function is a product of powers.
        """
        shape = self.form.shape
        place = {str(name): k for k, name in enumerate(shape.robot.parameter_names)}
        known = dict(known or {})
        strange = [name for name in known if name not in place]
        if strange:
            raise UnknownGeometryError(
                "unknown_parameter", "'{name}' is not a parameter of '{robot}'", "names look like {example}",
                name=strange[0], robot=self.robot.name, example=shape.robot.parameter_names[0],
            )  # fmt: skip
        given = {place[name]: float(x) for name, x in known.items()}
        names = tuple(shape.lengths)
        drawn = [self._identifiable_directions(seed, given) for seed in range(4)]
        if not names or min(len(E) for E in drawn) != max(len(E) for E in drawn):
            return Recoverable(names, (), 0)
        products, others = [], 0
        for rows in zip(*drawn, strict=True):
            scaled = _integer_multiple(rows[0])
            if scaled is None or max(float(np.abs(row - rows[0]).max()) for row in rows) > 1e-5:
                others += 1
            else:
                products.append(scaled)
        return Recoverable(names, tuple(products), others)

    def _identifiable_directions(self, seed: int, known: Mapping[int, float]) -> list[Array]:
        """Reduced echelon form of the gradients, by the logarithms of the lengths, of what follows from X."""
        rng = np.random.default_rng(seed)
        lengths = rng.uniform(0.4, 1.6, len(self.form.shape.lengths))
        V = rng.standard_normal(len(self.form.shape.robot.parameter_names))
        V[list(known)] = list(known.values())
        free = [k for k in range(len(V)) if k not in known]
        M, dM = self.matrix_and_slopes(lengths)
        J = np.hstack([M[:, free], np.stack([d @ V for d in dM], axis=1) * lengths]) if len(lengths) else M
        scale = np.linalg.norm(J, axis=0)
        J = J / np.where(scale > 0.0, scale, 1.0)
        _, sigma, Vt = np.linalg.svd(J)
        Z = Vt[int((sigma > 1e-9 * sigma[0]).sum()) :].T / np.where(scale > 0.0, scale, 1.0)[:, None]
        N = Z[len(free) :]
        if not len(N):
            return []
        Q, tau, _ = np.linalg.svd(N)
        rank = int((tau > 1e-8 * np.abs(Z).max()).sum()) if N.size else 0
        return _reduced_rows(Q[:, rank:].T)

    def matrix_and_slopes(self, lengths: Array) -> tuple[Array, list[Array]]:
        """Matrix M of X = M V at values of the unknown lengths (angles nominal), and its derivatives.

        Parameters
        ----------
        lengths : (unknown lengths,) array
            Lengths, m.

        Returns
        -------
        tuple of (m, p) array and list of (m, p) arrays
            M, and its derivative with respect to each length.
        """
        shape = self.form.shape
        place = {name: k for k, name in enumerate(shape.robot.parameter_names)}
        values = [*map(float, lengths), *(f(x) for x in shape.angles.values() for f in (np.cos, np.sin))]
        M = np.zeros((self.count, len(place)))
        slopes = [np.zeros_like(M) for _ in lengths]
        for r, row in enumerate(self.choice.rows):
            for column, c in row.items():
                unknown = self.form.unknowns[column]
                k = place[unknown.parameter]
                M[r, k] += float(c) * _power_product(values, unknown.powers)
                for i, slope in enumerate(slopes):
                    if n := unknown.powers[i]:
                        lower = (*unknown.powers[:i], n - 1, *unknown.powers[i + 1 :])
                        slope[r, k] += float(c) * n * _power_product(values, lower)
        return M, slopes

    def _regressor_of_rows(self, rows: Array) -> Regressor:
        """Regressor of rows (N, n, m)."""
        return Regressor(
            rows.reshape(len(rows) * self.robot.n, self.count), self.names, self.robot.joint_names, self.tables.support
        )
