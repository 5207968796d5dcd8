"""Torques and base reactions on one robot: theta_d = S theta_r (Raucent et al. 1992, eq. 5), and when S exists.

theta_d are the base parameters of the joint torques, theta_r those of the forces on the base. Zero forces on the base
along all motions leave no momentum, hence no joint torque but those of a constant potential: with all six channels S
exists for every tree. With fewer it may not.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dynid.deprecated import accept_old_names
from dynid.errors import DynidError
from dynid.identifiability.base_parameters import base_parameters, cached_base_parameters
from dynid.identifiability.exact_geometry import many_digits
from dynid.identifiability.parameters import BaseParameters
from dynid.identifiability.relations import Coefficient, Coefficients, coefficient_text_and_sign
from dynid.identifiability.rules import M, link_pose, unit_parameter_in_parent
from dynid.identifiability.symbolic_numbers import Form, numbers_of_robot
from dynid.robot.force_sensor import CHANNELS, ForceSensor
from dynid.robot.inertia import SYMBOLS, change_of_frame
from dynid.robot.robot import Robot
from dynid.robot.transform import Array, Transform

# Barycentric parameters, the letters of Raucent et al. 1992, beside the standard ones.
#
# The augmented body of a link carries the masses of all links beyond it, each lumped at the joint that bears it. Its
# mass m, first moments mb and inertias K are linear in the standard parameters: b = B X with B unit triangular,
# parents first. So base parameters theta = M X are (M B^-1) b, often with fewer terms.


LETTERS = ("Kxx", "Kxy", "Kxz", "Kyy", "Kyz", "Kzz", "mbx", "mby", "mbz", "m")
SMALL = 1e-10


@accept_old_names
@dataclass(frozen=True, slots=True, eq=False)
class Barycentric:
    """Barycentric parameters of a robot: b = B X, with X in the order of `robot.parameter_names`.

    Rotor inertias keep their names. Prismatic joints are taken at q = 0.

    Attributes
    ----------
    robot : Robot
        The robot.
    names : tuple of str
        Names of the p barycentric parameters.
    matrix : (p, p) array
        The matrix B.
    """

    robot: Robot
    names: tuple[str, ...]
    matrix: Array

    def values(self, X: Array) -> Array:
        """Values of the barycentric parameters.

        Parameters
        ----------
        X : (p,) array
            Standard parameters, SI units.

        Returns
        -------
        (p,) array
            Barycentric parameters.
        """
        X = np.asarray(X, dtype=np.float64)
        if X.shape != (len(self.names),):
            raise DynidError(
                "parameter_count_mismatch", "'{robot}' has {expected} standard parameters, got {shape}",
                robot=self.robot.name, expected=len(self.names), shape=X.shape,
            )  # fmt: skip
        return np.asarray(self.matrix @ X)

    def base_parameter_matrix(self, base: BaseParameters) -> Array:
        """Matrix from barycentric to base parameters; friction columns follow unchanged.

        Parameters that are known to be zero make it one of several; it is the one that does without their columns.

        Parameters
        ----------
        base : BaseParameters
            Of the same robot.

        Returns
        -------
        (count, p) array
            Base parameters = matrix @ barycentric parameters.
        """
        if base.robot.parameter_names != self.robot.parameter_names:
            raise DynidError(
                "parameters_of_other_robot", "these base parameters belong to '{other_robot}', not to '{robot}'",
                other_robot=base.robot.name, robot=self.robot.name,
            )  # fmt: skip
        p = len(self.names)
        taken = np.linalg.solve(self.matrix.T, base.matrix[:, :p].T).T
        taken[np.abs(taken) < SMALL * np.maximum(np.abs(taken).max(axis=1, keepdims=True, initial=0.0), 1e-300)] = 0.0
        return np.hstack([taken, base.matrix[:, p:]])

    def base_parameter_relations(self, base: BaseParameters) -> tuple[str, ...]:
        """Base parameters in terms of barycentric ones: `XXR2 = Kxx2 - Kyy2`; left sides as in `base.relations`.

        Parameters
        ----------
        base : BaseParameters
            Of the same robot.

        Returns
        -------
        tuple of str
            One relation per base parameter.
        """
        extra = tuple(name for name in base.columns if name not in self.robot.parameter_names)
        names = (*self.names, *extra)
        lines = []
        rows = self.base_parameter_coefficients(base)
        for kept, name in zip(base.kept, base.names, strict=True):
            title = f"{name.symbol}R{name.label}" if len(base.coefficients[kept]) > 1 else name
            lines.append(f"{title} = {sum_text([(x, names[k]) for k, x in rows[kept].items()])}")
        return tuple(lines)

    def base_parameter_coefficients(self, base: BaseParameters) -> Coefficients:
        """Terms of each kept column in barycentric parameters, friction columns last.

        Parameters
        ----------
        base : BaseParameters
            Of the same robot.

        Returns
        -------
        mapping of int to mapping of int to coefficient
            Kept column to its terms, with the symbols of the table.
        """
        matrix = self.base_parameter_matrix(base)
        given = {k: {c: x for c, x in base.coefficients[k].items() if isinstance(x, Form)} for k in base.kept}
        if not base.robot.symbols or any(len(given[k]) < len(base.coefficients[k]) for k in base.kept):
            return {
                k: {int(c): float(row[c]) for c in np.flatnonzero(row)}
                for k, row in zip(base.kept, matrix, strict=True)
            }
        place = {name: k for k, name in enumerate(self.robot.parameter_names)}
        with many_digits():
            inverse = self._symbolic_inverse()
            found: dict[int, dict[int, Coefficient]] = {}
            for k, numbers in zip(base.kept, matrix, strict=True):
                row: dict[int, Form] = {}
                for c, x in given[k].items():
                    for i, y in inverse[place[base.columns[c]]].items():
                        row[i] = row[i] + x * y if i in row else x * y
                found[k] = {i: row[i] for i in sorted(row) if row[i] and numbers[i] != 0.0}
        return found

    def _symbolic_inverse(self) -> list[dict[int, Form]]:
        """Rows of B^-1 with forms: what a link's own parameters are without the bodies beyond it."""
        robot = self.robot
        place = {name: k for k, name in enumerate(robot.parameter_names)}
        own = [[place[link.parameter(symbol)] for symbol in SYMBOLS] for link in robot.links]
        numbers = numbers_of_robot(robot, symbolic=True)
        assert numbers.one.form is not None
        rows = [{k: numbers.one.form} for k in range(len(place))]
        for k, link in enumerate(robot.links):
            if link.parent < 0 or link.kind == "floating":
                continue
            for symbol in range(10) if link.kind == "fixed" else (M,):
                felt = unit_parameter_in_parent(link_pose(link, numbers), symbol, numbers)
                for i, x in enumerate(felt):
                    if x.form:
                        row = rows[own[link.parent][i]]
                        row[own[k][symbol]] = -x.form
        return rows


def barycentric(robot: Robot) -> Barycentric:
    """Barycentric parameters of a robot.

    Parameters
    ----------
    robot : Robot
        As `load_robot` returns it.

    Returns
    -------
    Barycentric
        Their names and the matrix from standard parameters.

    Examples
    --------
    >>> from dynid import barycentric, load_robot
    >>> barycentric(load_robot("gautier3")).matrix.shape
    (33, 33)
    """
    place = {name: k for k, name in enumerate(robot.parameter_names)}
    rows = [[place[link.parameter(symbol)] for symbol in SYMBOLS] for link in robot.links]
    B = np.eye(len(place))
    for k in reversed(robot.topological_order):
        link = robot.links[k]
        if link.parent < 0:
            continue
        if link.kind == "fixed":  # one body with its parent
            B[rows[link.parent]] += change_of_frame(link.placement) @ B[rows[k]]
        else:
            lumped = change_of_frame(Transform(np.eye(3), link.placement.translation))[:, 9]
            B[rows[link.parent]] += np.outer(lumped, B[rows[k][9]])
    names: list[str] = list(robot.parameter_names)
    for link, own in zip(robot.links, rows, strict=True):
        for letter, index in zip(LETTERS, own, strict=True):
            names[index] = letter + link.label
    return Barycentric(robot, tuple(names), B)


def sum_text(terms: Sequence[tuple[Coefficient, str]]) -> str:
    """Sum of named terms with their factors, `Kxx2 - D3*mbz3`."""
    parts: list[str] = []
    for x, name in terms:
        factor, minus = coefficient_text_and_sign(x)
        sign = ("-" if minus else "") if not parts else (" - " if minus else " + ")
        parts.append(f"{sign}{factor}{'*' if factor else ''}{name}")
    return "".join(parts) or "0"


EXACT = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class SensorRelation:
    """Base parameters of the torques and of the reactions, S (N_d, N_r), and what of theta_d is lost.

    residual: largest entry of S M_r - M_d over that of M_d, on the parameters that are not lost. Rotor inertias, which
    the base does not feel, are left out.
    """

    torque: BaseParameters
    reaction: BaseParameters
    S: Array
    residual: float
    lost: tuple[str, ...]

    @property
    def relations(self) -> tuple[str, ...]:
        """Text of each torque parameter in parameters of the reactions: `ZZR1 (torque) = ZZR1 (reaction)`."""
        lines = []
        for label, name, k, row in zip(self.torque.labels, self.torque.names, self.torque.kept, self.S, strict=True):
            if name in self.lost:
                lines.append(f"{label}: not determined by these channels")
                continue
            forms = self.torque.coefficients[k]
            others = zip(self.reaction.kept, self.reaction.labels, row, strict=True)
            terms = [(forms.get(c, float(x)), other) for c, other, x in others if abs(x) > EXACT]
            text = sum_text(terms)
            lines.append(f"{label} (torque) = {text if len(terms) < 2 else f'({text})'} (reaction)")
        return tuple(lines)


@lru_cache(maxsize=32)
def relate_sensors(robot: Robot, *, tared: bool = True) -> SensorRelation:
    """Relate the parameters of the torques to those that the robot's force sensor (all channels where none) shows."""
    return _relation_of_sensors(cached_base_parameters(robot, model="torque", rotor_inertia=False), robot, tared)


def _relation_of_sensors(torque: BaseParameters, robot: Robot, tared: bool) -> SensorRelation:
    """Relation of the torques' base parameters to those of the robot's sensor."""
    reaction = base_parameters(robot, model="reaction", rotor_inertia=False, tared=tared)
    M_d, M_r = torque.regrouping.matrix, reaction.regrouping.matrix
    S = M_d[:, list(reaction.kept)]  # M_r is the identity there
    off = np.abs(S @ M_r - M_d).max(axis=1, initial=0.0)
    size = max(float(np.abs(M_d).max(initial=0.0)), 1e-300)
    lost = tuple(name for name, x in zip(torque.names, off, strict=True) if x > EXACT * size)
    residual = float(max((x for x in off if x <= EXACT * size), default=0.0)) / size
    return SensorRelation(torque, reaction, S, residual, lost)


def sufficient_channels(robot: Robot) -> tuple[tuple[str, ...], ...]:
    """Smallest sets of channels, of the robot's sensor as it sits, from which all of theta_d can be had."""
    sensor = robot.sensor or ForceSensor()
    if sensor.hidden_rotor_joints:
        return ()
    torque = base_parameters(robot, rotor_inertia=False)
    for count in range(1, len(CHANNELS) + 1):
        good = tuple(
            some
            for some in itertools.combinations(CHANNELS, count)
            if not _relation_of_sensors(torque, robot.with_sensor(_sensor_with_channels(sensor, some)), True).lost
        )
        if good:
            return good
    return ()


def _sensor_with_channels(sensor: ForceSensor, channels: tuple[str, ...]) -> ForceSensor:
    """The sensor with these channels alone, each with a free offset."""
    return replace(sensor, channels=channels, offsets="free", offset=None, noise=None, sensitivity_sigma=None)
