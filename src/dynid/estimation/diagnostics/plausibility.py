"""A law of nature as a check: the inertia that every joint feels is positive.

H_jj(q), the torque of joint j per acceleration of its own, is linear in the parameters; so is its mean over postures,
and a deviation comes with it. Reversed signs of torques or forces make it negative while the fit stays perfect.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.dynamics.models import Torque
from dynid.dynamics.scene import Stage, standard_columns
from dynid.errors import LoopError
from dynid.estimation.regression.equation import Equation, Unknowns
from dynid.estimation.regression.rows import Rows
from dynid.estimation.solve.least_squares import Factors, Solution
from dynid.identifiability.base_reactions import relate_sensors
from dynid.identifiability.numeric import random_samples
from dynid.messages import Message, Option
from dynid.robot.force_sensor import CHANNELS
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

POSTURES = 24


def mean_inertias(equation: Equation, names: tuple[str, ...], *, roughly: bool = False) -> Array:
    """Matrix (n, names) from parameters to mean inertias about the joints; no rows where they do not follow.

    roughly: although some parameters are unidentifiable and others stand for sums with them.
    """
    try:
        if equation.options.model == "reaction":
            relation = relate_sensors(equation.robot, tared=equation.is_tared)
            if relation.lost:
                return np.zeros((0, len(names)))
            on_base = mean_inertias_of_standard(equation)[:, list(relation.torque.kept)] @ relation.S
            base_names = relation.reaction.names
        else:
            on_base, base_names = mean_inertias_of_base(equation), equation.base.names
    except LoopError:
        return np.zeros((0, len(names)))
    place: dict[str, int] = {name: k for k, name in enumerate(base_names)}
    if not roughly and not set(base_names) <= set(
        names
    ):  # something is unidentifiable: sums of parameters are not inertias
        return np.zeros((0, len(names)))
    return np.array([[row[place[name]] if name in place else 0.0 for name in names] for row in on_base])


def mean_inertias_of_base(equation: Equation) -> Array:
    """Mean over postures of H_jj, (joints in use, base columns)."""
    q = random_samples(equation.robot, POSTURES, 0).q
    zero, t = np.zeros_like(q), np.arange(float(POSTURES))
    still = equation.rigid_rows(Motion(t, q, zero, zero))
    inertias = np.zeros((len(equation.torque_channels), equation.base_column_count))
    for k, channel in enumerate(equation.torque_channels):
        a = zero.copy()
        a[:, channel.joint] = 1.0
        rows = (channel.rows_in_wide(equation.rigid_rows(Motion(t, q, zero, a))) - channel.rows_in_wide(still)).mean(
            axis=0
        )
        inertias[k, channel.columns[: channel.base]] = rows[: channel.base]
    return inertias


def mean_inertias_of_standard(equation: Equation) -> Array:
    """Mean over postures of H_jj, (n, standard columns without rotors)."""
    robot, n = equation.robot, equation.robot.n
    q = random_samples(robot, POSTURES, 0).q
    zero, t = np.zeros_like(q), np.arange(float(POSTURES))
    stage = Stage.for_robot(robot, standard_columns(robot, rotor_inertia=False))
    still = Torque().rows(stage.scene_along(Motion(t, q, zero, zero)))
    inertias = []
    for j in range(n):
        a = zero.copy()
        a[:, j] = 1.0
        inertias.append((Torque().rows(stage.scene_along(Motion(t, q, zero, a))) - still)[:, j].mean(axis=0))
    return np.array(inertias)


# Do the torques have the size that the robot file's masses ask for? If not, they may be currents.
#
# The inertial part of a joint's torque, as identified, is compared with that of the nominal parameters, on the factors
# of the data: where both have one shape but not one size, the ratio is reported. Nominal values may be wrong
# themselves, so this is a warning, never an error.


ALIKE = 0.9
"""Cosine between identified and nominal torques from which on they have one shape."""

FAR = 3.0
"""Ratio of sizes that no real robot has to its data sheet."""


@dataclass(frozen=True, slots=True)
class TorqueScale:
    """Identified over nominal inertial torque of a joint."""

    joint: str
    ratio: float


def find_torque_scales(
    equation: Equation, unknowns: Unknowns, values: Array, factors: Factors
) -> tuple[TorqueScale, ...]:
    """Ratios of identified to nominal inertial torques; empty where joints do not agree that the size is off."""
    nominal = _nominal_base_values(equation)
    if nominal is None or equation.options.model not in ("torque", "torque+reaction"):
        return ()
    places = [unknowns.names.index(name) if name in unknowns.names else -1 for name in equation.base.names]
    shown = [(k, x) for k, x in zip(places, nominal, strict=True) if k >= 0]
    if not shown:
        return ()
    columns, expected = np.array([k for k, _ in shown]), np.array([x for _, x in shown])
    scales = []
    for c, channel in enumerate(equation.torque_channels):
        rows = np.vstack([unknowns.rows_of_factor(log, c, of_log[c])[0][:, columns] for log, of_log in factors.items()])
        found, wanted = rows @ values[columns], rows @ expected
        product, size = float(found @ wanted), float(np.linalg.norm(found) * np.linalg.norm(wanted))
        if size > 0.0 and product > ALIKE * size:
            scales.append(TorqueScale(equation.robot.joint_names[channel.joint], product / float(wanted @ wanted)))
    far = [scale for scale in scales if not 1.0 / FAR < scale.ratio < FAR]
    return tuple(scales) if 2 * len(far) > len(equation.torque_channels) else ()


def _nominal_base_values(equation: Equation) -> Array | None:
    """Base parameters by the robot file, unstated rotor inertias taken as zero; None where values are missing."""
    if equation.unknown is not None:
        return None
    robot = equation.robot
    X = np.array(robot.parameters)
    rotors = np.array([name.kind == "rotor" for name in robot.parameter_names])
    X[rotors & np.isnan(X)] = 0.0
    if np.isnan(X).any() or not np.any(X):
        return None
    return np.asarray(equation.base.values(X))


# What no torques can show, whatever the fit.


def describe_unprovable(equation: Equation) -> tuple[Message, ...]:
    """Messages on errors that data of this kind cannot show, so that no verdict excludes them."""
    found = []
    if not equation.options.has_reactions:
        far = FAR if _nominal_base_values(equation) is not None else None
        beyond = "; nominal masses exclude only factors beyond {factor:g}" if far else ""
        found.append(Message(
            "common_factor_unproven", "a common factor of all torques, which scales all parameters alike" + beyond,
            "weigh a link, lift a known payload, or use a force plate", factor=far,
        ))  # fmt: skip
    if equation.unknown is None:
        found.append(Message(
            "lengths_unproven", "many lengths of the robot file, whose errors other parameters absorb",
            "measure them, or identify with {unknown}", unknown=Option("unknown"),
        ))  # fmt: skip
    joints = _joints_without_visible_zero(equation)
    if joints:
        found.append(Message(
            "zero_unproven", "the zero of joint {some}, with which parameters turn or shift", joints=joints,
            some=joints,
        ))  # fmt: skip
    return tuple(found)


def _joints_without_visible_zero(equation: Equation) -> list[str]:
    """First joints that gravity does not see (about the vertical, or sliding) and last joints of an open tree."""
    robot = equation.robot
    if robot.couplings or robot.closures:
        return []
    joints = []
    carriers = {k for other in robot.active_links for k in _links_carrying(robot, other)}
    for k in robot.active_links:
        link, before = robot.links[k], _links_carrying(robot, k)
        R = np.eye(3)
        for other in (*reversed(before), k):
            R = R @ robot.links[other].placement.rotation
        across = np.linalg.norm(np.cross(R @ link.axis, robot.gravity)) > 1e-6 * np.linalg.norm(robot.gravity)
        first = not any(robot.links[other].moves for other in before) and not equation.options.has_reactions
        if (first and (link.kind == "prismatic" or not across)) or k not in carriers:
            joints.append(link.joint)
    return joints


def _links_carrying(robot: Robot, link: int) -> list[int]:
    """Links that carry a link, from the nearest to the base."""
    before, parent = list[int](), robot.links[link].parent
    while parent >= 0:
        before.append(parent)
        parent = robot.links[parent].parent
    return before


# Whether a force plate sits where it was declared: small shifts and turns as further unknowns.
#
# With F and M the readings that the parameters predict, a plate whose reference point lies rho further and whose axes
# are turned by phi (both small, in its own axes) reads F - phi x F and M - phi x M - rho x F. These are six further
# columns; constant parts go into the offsets.


LEAST = np.array([2e-3] * 3 + [3e-3] * 3)
"""Shift (m) and turn (rad) below which nothing is said."""

SURE = 5.0
"""Standard deviations beyond which a shift is no chance."""


@dataclass(frozen=True, slots=True, eq=False)
class PlatePlacement:
    """Shift (3,) of the reference point in m and turn (3,) of the axes in rad, in the plate's axes, with deviations."""

    shift: Array
    turn: Array
    shift_sigma: Array
    turn_sigma: Array

    @property
    def is_off(self) -> bool:
        """Whether the plate certainly sits elsewhere."""
        found = np.concatenate([self.shift, self.turn])
        sigma = np.concatenate([self.shift_sigma, self.turn_sigma])
        return bool(np.any((np.abs(found) > LEAST) & (np.abs(found) > SURE * sigma)))

    def __str__(self) -> str:
        shift = ", ".join(f"{x:.0f}" for x in np.round(1e3 * self.shift) + 0.0)  # no -0
        turn = ", ".join(f"{x:.1f}" for x in np.round(np.degrees(self.turn), 1) + 0.0)
        return f"{shift} mm away and turned by {turn} degrees (in its own axes)"


def find_plate_placement(
    equation: Equation, unknowns: Unknowns, solution: Solution, kept: tuple[Rows, ...], inflation: float
) -> PlatePlacement | None:
    """Shift and turn of the force plate that fit the data; None where not all channels are there or nothing moves."""
    if set(equation.sensor.channels) != set(CHANNELS) or not equation.base_channels or not kept:
        return None
    first = len(equation.channels) - 6
    order = [equation.sensor.channels.index(name) for name in CHANNELS]
    A, C, e = [], [], []
    for rows in kept:
        predicted = np.zeros((len(rows.t), 6))
        for c, channel in enumerate(equation.channels[first:]):
            own = unknowns.values_of_channel(rows.log, first + c, solution.values)
            predicted[:, c] = channel.rows_in_wide(rows.wide)[:, : channel.base] @ own[: channel.base]
        columns = _placement_columns(predicted[:, order])
        for k, c in enumerate(order):
            channel, noise = equation.channels[first + c], solution.noise[first + c]
            own = channel.rows_in_wide(rows.wide)
            place = unknowns.place[rows.log, channel.columns]
            W = np.zeros((len(own), len(unknowns)))
            W[:, place[place >= 0]] = own[:, :-1][:, place >= 0]
            A.append(W @ solution.free / noise)
            C.append(columns[:, k] / noise)
            e.append((own[:, -1] - W @ solution.values) / noise)
    return _solve_placement(np.concatenate(A), np.concatenate(C), np.concatenate(e), inflation)


def _placement_columns(readings: Array) -> Array:
    """Changes (N, 6 readings, 6) of readings (N, 6) per unit of shift and turn of the plate."""
    F, M = readings[:, :3], readings[:, 3:]
    columns = np.zeros((len(readings), 6, 6))
    for k, axis in enumerate(np.eye(3)):
        columns[:, 3:, k] = -np.cross(axis, F)
        columns[:, :3, 3 + k] = -np.cross(axis, F)
        columns[:, 3:, 3 + k] = -np.cross(axis, M)
    return columns


def _solve_placement(A: Array, C: Array, e: Array, inflation: float) -> PlatePlacement | None:
    """Least squares for the columns C beside A; zero for what A or the other columns can mimic."""
    size = np.linalg.norm(A, axis=0)
    Q = np.linalg.qr(A[:, size > 0.0] / size[size > 0.0])[0]
    rest = C - Q @ (Q.T @ C)
    length, left = np.linalg.norm(C, axis=0), np.linalg.norm(rest, axis=0)
    seen = np.flatnonzero(left > 1e-6 * np.maximum(length, 1e-300))
    if not len(seen):
        return None
    U, s, Vt = np.linalg.svd(rest[:, seen] / left[seen], full_matrices=False)
    good = s > 1e-6 * s[0]
    inverse = Vt[good].T / s[good]
    found, sigma = np.zeros(6), np.zeros(6)
    found[seen] = inverse @ (U[:, good].T @ e) / left[seen]
    sigma[seen] = np.sqrt(inflation * (inverse**2).sum(axis=1)) / left[seen]
    return PlatePlacement(found[:3], found[3:], sigma[:3], sigma[3:])
