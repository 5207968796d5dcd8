"""The model parameters X of a robot with unknown geometry: finding, counting and writing them; torque = U X."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dynid.concurrency import cached_property
from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.dynamics.regressor import Regressor
from dynid.errors import ModelError, UnknownGeometryError
from dynid.messages import Message
from dynid.robot.motion import Motion, check_motion
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.unknown_geometry.bilinear import (
    BilinearForm,
    Exponents,
    ModelParameterChoice,
    UnknownProduct,
    bilinear_form,
    choose_model_parameters,
)
from dynid.unknown_geometry.finite_field import ModelParameterCount, count_parameters, count_parameters_quickly
from dynid.unknown_geometry.functions import FunctionTables, build_function_tables
from dynid.unknown_geometry.geometry import PartlyKnownRobot, declare_unknowns, is_right_angle, split_unknown_words
from dynid.unknown_geometry.lagrangian import Generators, find_lagrangian

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

    unknown: symbols of the table (`D3`), letters of it (`r`: of every joint, also where it is 0) or entries (`d3`);
    None takes what the table declares unknown, () nothing: then X = M V are base parameters.
    rotor_inertia: whether the rotors' inertias Ia count; not by default, as in the paper's counts (`identify` has them,
    since drives do).
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
    """Count the model parameters over finite fields, without finding them; any number of them, up to about 2000."""
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


@dataclass(frozen=True, eq=False)
class ModelParameters:
    """Model parameters of a robot whose geometry is partly unknown (Ha, Ko & Kwon).

    L = sum of F_ij(q, qd) X_ij, so torque = U X with U = d/dt dF/dqd - dF/dq upper block triangular: X_ij of level i
    has an effect on joints 1 to i only. The number of parameters and of those of each level belong to the robot, a
    single X_ij does not: it is one choice among many that span the same.
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
        """Matrix (N n, m) of a motion, a column per parameter.

        model: "torque" is U of the differential form; "momentum" (dF/dqd) and "lagrangian_gradient" (dF/dq) are the
        pieces of the integral form, [dF/dqd] - integral of dF/dq dt = integral of the torques.
        """
        check_motion(self.robot, motion)
        rows = np.empty((len(motion), self.robot.n, self.count))
        self.write(motion, rows, model=model)
        return self._regressor_of_rows(rows)

    def chunks(self, motion: Motion, *, model: str = "torque", size: int = 8192) -> Iterator[Regressor]:
        """Yield the same rows in chunks of at most `size` samples, in bounded memory."""
        if size < 1:
            raise ModelError("chunk_size_not_positive", "a chunk needs at least one sample, got {size}", size=size)
        for start in range(0, len(motion), size):
            yield self.regressor(motion[start : start + size], model=model)

    def write(self, motion: Motion, out: Array, *, model: str = "torque") -> None:
        """Fill out (N, n, m) with the rows of `regressor`."""
        self.tables.write_rows(model, motion, out)

    def values(self, robot: Robot | None = None) -> Array:
        """Model parameters (m,) of nominal geometry and inertias, NaN where one that they need is not known.

        `robot`: another robot with the same table but for its unknowns and inertias; this one where missing.
        """
        shape = self._nominal_geometry(robot)
        V = shape.robot.parameters
        M = self._parameter_matrix(shape)
        missing = np.isnan(V)
        X = M @ np.where(missing, 0.0, V)
        X[(M[:, missing] != 0.0).any(axis=1)] = np.nan
        return X

    def matrix(self, robot: Robot | None = None) -> Array:
        """M (m, standard parameters) with X = M V at nominal geometry, in the order of `robot.parameter_names`.

        Upper block triangular: parameters of level i hold links i to n (the paper's remark after eq. 2.23).
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
                factor = np.prod([x**n for x, n in zip(values, unknown.powers, strict=True) if n])
                M[r, place[unknown.parameter]] += float(c) * factor
        return M

    def _regressor_of_rows(self, rows: Array) -> Regressor:
        """Regressor of rows (N, n, m)."""
        return Regressor(
            rows.reshape(len(rows) * self.robot.n, self.count), self.names, self.robot.joint_names, self.tables.support
        )
