"""From forces on the base to joint torques: theta_d = S theta_r with deviations (Raucent et al. 1992, eq. 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.deprecated import accept_old_names
from dynid.dynamics.kernels.threads import one_blas_thread
from dynid.dynamics.models import rotor_torques
from dynid.dynamics.regressor import regressor
from dynid.dynamics.scene import Stage, standard_columns
from dynid.errors import IdentificationError
from dynid.estimation.identification import Identification
from dynid.identifiability.base_reactions import SensorRelation, relate_sensors, sufficient_channels
from dynid.identifiability.parameters import BaseParameters
from dynid.messages import Option
from dynid.robot.motion import Motion
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


@accept_old_names
@dataclass(frozen=True, slots=True, eq=False)
class JointParameters:
    """Base parameters of the joint torques, without rotors, from forces on the base.

    Attributes
    ----------
    robot : Robot
        The robot.
    base : BaseParameters
        Base parameters of the torque model.
    values : (p,) array
        Values in SI units; NaN, with infinite sigma, where the data do not determine one.
    covariance : (p, p) array
        Covariance of the values.
    systematic : (channels, p) array
        Shifts by one standard deviation of each channel's uncertain sensitivity, which all results of one plate share.
    quantile : float
        Half width of the 95 % interval in standard deviations.
    """

    robot: Robot
    base: BaseParameters
    values: Array
    covariance: Array
    systematic: Array
    quantile: float

    @property
    def names(self) -> tuple[Parameter, ...]:
        """Names of the parameters."""
        return self.base.names

    @property
    def sigma(self) -> Array:
        """Standard deviations."""
        return np.where(np.isnan(self.values), np.inf, np.sqrt(np.maximum(np.diag(self.covariance), 0.0)))

    @property
    def covariance_without_sensitivities(self) -> Array:
        """Covariance without the share of uncertain sensitivities."""
        return np.asarray(self.covariance - self.systematic.T @ self.systematic)

    @property
    def intervals(self) -> Array:
        """95 % intervals, (parameters, 2)."""
        half = self.quantile * self.sigma
        return np.column_stack([self.values - half, self.values + half])

    def torque(self, motion: Motion) -> Array:
        """Joint torques of the links and of the declared rotors along a motion, without friction.

        Parameters
        ----------
        motion : Motion
            The motion, N samples.

        Returns
        -------
        (N, n) array
            Torques, N m or N.
        """
        if np.isnan(self.values).any():
            missing = [name for name, x in zip(self.names, self.values, strict=True) if np.isnan(x)]
            raise IdentificationError(
                "torque_parameters_lost", "torques need {parameters}, which the data did not show",
                "record a motion that shows them", parameters=missing,
            )  # fmt: skip
        W = regressor(self.robot, motion, rotor_inertia=False)
        tau = (W.matrix[:, list(self.base.kept)] @ self.values).reshape(len(motion.t), -1)
        for rotor in () if self.robot.sensor is None else self.robot.sensor.spinning_rotors:
            j = self.robot.joint_names.index(rotor.joint)
            tau[:, j] += rotor.ratio**2 * rotor.inertia * motion.a[:, j]
        return tau + rotor_torques(Stage.for_robot(self.robot, standard_columns(self.robot)).scene_along(motion))


@one_blas_thread
def joint_parameters(result: Identification) -> JointParameters:
    """Parameters of the joint torques from a result that used forces on the base.

    Parameters
    ----------
    result : Identification
        Result of the model "reaction" or "torque+reaction".

    Returns
    -------
    JointParameters
        Base parameters of the joint torques, with standard deviations.

    Raises
    ------
    IdentificationError
        If the result did not use forces on the base.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Motion, identify, joint_parameters, load_robot, simulate
    >>> robot = load_robot("gautier3")
    >>> t, w = np.arange(0.0, 10.0, 0.01), np.array([1.0, 1.7, 2.3])
    >>> x = np.outer(t, w)
    >>> motion = Motion(t, np.sin(x), w * np.cos(x), -(w**2) * np.sin(x))
    >>> log = simulate(robot, motion, noise=0.1, plate_noise=0.1)
    >>> joint_parameters(identify(robot, log, model="reaction")).torque(motion).shape
    (1000, 3)
    """
    if not result.equation.options.has_reactions:
        raise IdentificationError(
            "model_has_torque_parameters", "model '{model}' has torque parameters already; this is for reactions",
            model=result.model,
        )  # fmt: skip
    relation = relate_sensors(result.robot, tared=result.equation.is_tared)
    refuse_unidentifiable(result.robot, relation)
    S, known = _relation_on_result(result, relation)
    values = np.where(known, S @ result.values, np.nan)
    covariance, shifts = S @ result.covariance @ S.T, result.systematic @ S.T
    return JointParameters(result.robot, relation.torque, values, covariance, shifts, result.quantile)


def refuse_hidden_rotors(robot: Robot) -> None:
    """Raise where a declared rotor shows in the forces on the base and its inertia is not declared."""
    if robot.sensor is not None and robot.sensor.hidden_rotor_joints:
        raise IdentificationError(
            "rotor_inertia_undeclared", "the rotor inertia of joint {joints} is unknown and its gear ratio is not 1: "
            "torques contain ratio^2 J, forces on the base ratio J in sums with the links",
            "declare `inertia` of these rotors", joints=list(robot.sensor.hidden_rotor_joints),
        )  # fmt: skip


def refuse_unidentifiable(robot: Robot, relation: SensorRelation) -> None:
    """Raise where theta_d cannot be had from the sensor, with names and remedies."""
    refuse_hidden_rotors(robot)
    if relation.lost:
        sets = sufficient_channels(robot)
        some = "; ".join(" ".join(s) for s in sets[:6]) + (f" and {len(sets) - 6} more" if len(sets) > 6 else "")
        raise IdentificationError(
            "channels_insufficient", "the channels {channels} do not determine {parameters} of the joint torques; the "
            "smallest sufficient sets: {some}", "{partial} estimates what these channels show",
            channels=relation.reaction.question.channels or (), parameters=list(relation.lost), some=some, sets=sets,
            partial=Option("partial", True),
        )  # fmt: skip


def _relation_on_result(result: Identification, relation: SensorRelation) -> tuple[Array, NDArray[np.bool_]]:
    """S on the result's parameters, and which rows are known although the data do not determine some parameters."""
    place = {name: k for k, name in enumerate(result.names)}
    S, known = np.zeros((len(relation.S), len(result.names))), np.ones(len(relation.S), dtype=np.bool_)
    wanted = dict(zip(relation.reaction.names, relation.S.T, strict=True))
    for name, column in wanted.items():
        if name in place:
            S[:, place[name]] = column
    for name, joined in result.joined.items():  # also offsets, which parameters may hold a share of
        shares = np.zeros(len(result.names))
        for other, share in joined.items():
            shares[place[other]] = share
        column = wanted.get(name, np.zeros(len(S)))
        known &= np.abs(S @ shares - column) < 1e-6 * (1.0 + np.abs(column))
    return S, known
