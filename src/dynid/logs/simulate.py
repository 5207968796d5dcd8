"""A recording that the nominal parameters would give: torques along a motion, with noise where asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np

from dynid.dynamics.friction import PLAIN, FrictionShapes
from dynid.dynamics.models import rotor_moments, rotor_torques
from dynid.dynamics.regressor import regressor_chunks
from dynid.dynamics.scene import Stage, standard_columns
from dynid.errors import FIX_THE_BASE, DynidError
from dynid.logs.log import Log
from dynid.messages import Option, Wording
from dynid.robot.force_sensor import ForceSensor
from dynid.robot.motion import Motion, check_motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array


@runtime_checkable
class Sampled(Protocol):
    """A motion that can be sampled at any rate: an `Excitation`."""

    def motion(self, rate: float) -> Motion:
        """Samples at a rate in Hz."""
        ...


def simulate(
    robot: Robot,
    motion: Motion | Sampled,
    *,
    noise: float | Sequence[float] | None = None,
    plate_noise: float | Sequence[float] | None = None,
    seed: int = 0,
    rate: float = 1000.0,
) -> Log:
    """Return the log of a motion: positions, velocities and accelerations as given, torques of the nominal parameters.

    Parameters
    ----------
    robot : Robot
        With nominal values of all standard parameters.
    motion : Motion or Excitation
        The motion.
    noise : float or (n,) sequence, optional
        Standard deviation of the torques, N m or N. Default: no noise.
    plate_noise : float or (channels,) sequence, optional
        Standard deviation of the forces and moments on the base, N and N m. Default: no noise.
    seed : int
        Seed of the noise.
    rate : float
        Samples per second of an excitation, Hz.

    Returns
    -------
    Log
        The log. Nominal viscous, Coulomb and offset friction is included where the robot has some.

    Raises
    ------
    DynidError
        If a nominal value is missing, or the motion does not fit the robot.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Motion, load_robot, simulate
    >>> t = np.arange(0.0, 1.0, 0.1)
    >>> x = t[:, None]
    >>> simulate(load_robot("one_link"), Motion(t, np.sin(x), np.cos(x), -np.sin(x))).tau.shape
    (10, 1)
    """
    if isinstance(motion, Sampled):
        motion = motion.motion(rate)
    elif rate != 1000.0:
        what = "{option} samples an excitation; a Motion has its own samples"
        raise DynidError("option_not_applicable", what, option=Option("rate"))
    if robot.floating:
        raise DynidError(
            "floating_base", "'{robot}' floats; logs of joint torques are simulated on a fixed base", "{fix}",
            robot=robot.name, fix=FIX_THE_BASE,
        )  # fmt: skip
    check_motion(robot, motion)
    X = robot.parameters
    unknown = [name for name, value in zip(robot.parameter_names, X, strict=True) if np.isnan(value)]
    if unknown:
        some = ", ".join(unknown[:12]) + (f" and {len(unknown) - 12} more" if len(unknown) > 12 else "")
        demo = "; dynid demo ROBOT runs the whole job with invented ones"
        raise DynidError(
            "missing_parameter_values", "'{robot}' has no nominal value for {some}",
            "add them to the robot file{or_else}", robot=robot.name, some=some, parameters=unknown,
            or_else=Wording(", or use robot.with_parameters(values)", demo),
        )  # fmt: skip
    tau = np.concatenate([(W.matrix @ X).reshape(-1, robot.n) for W in regressor_chunks(robot, motion)])
    tau += _nominal_friction(robot, motion)
    if robot.sensor is not None and robot.sensor.rotors:
        robot = _with_all_rotors(robot, robot.sensor)
        tau += rotor_torques(Stage.for_robot(robot, standard_columns(robot)).scene_along(motion))
    rng = np.random.default_rng(seed)
    tau += rng.standard_normal(tau.shape) * _check_noise("noise", noise, robot.n)
    reaction = _plate_readings(robot, motion)
    reaction += rng.standard_normal(reaction.shape) * _check_noise("plate_noise", plate_noise, reaction.shape[1])
    name = f"simulated {robot.name}"
    log = Log(motion.t, motion.q, v=motion.v, a=motion.a, tau=tau, reaction=reaction, name=name)
    log.notes = robot.warnings
    return log


def _with_all_rotors(robot: Robot, sensor: ForceSensor) -> Robot:
    """Return the robot with inertias Ia / ratio^2 for the rotors whose inertia is not declared."""
    Ia = {robot.links[k].joint: robot.links[k].rotor for k in robot.active_links}
    rotors = (replace(r, inertia=Ia[r.joint] / r.ratio**2) if r.is_hidden else r for r in sensor.rotors)
    return replace(robot, sensor=replace(sensor, rotors=tuple(rotors)))


def _plate_readings(robot: Robot, motion: Motion) -> Array:
    """Readings of the force plate, constants and rotors included."""
    sensor = robot.sensor or ForceSensor()
    chunks = regressor_chunks(robot, motion, model="reaction")
    X, k = robot.parameters, len(sensor.channels)
    readings = np.concatenate([(W.matrix @ X).reshape(-1, k) for W in chunks]) + sensor.constant_readings(robot.gravity)
    if sensor.rotors:
        scene = Stage.for_robot(robot, standard_columns(robot)).scene_along(motion)
        readings += rotor_moments(scene) @ sensor.wrench_to_readings[:, 3:].T
    return np.asarray(readings)


def _nominal_friction(robot: Robot, motion: Motion) -> Array:
    """Friction torques (N, n) along a motion by the robot's nominal values."""
    values = np.array([[dict(robot.links[k].friction).get(name, 0.0) for k in robot.active_links] for name in PLAIN])
    shapes = FrictionShapes(PLAIN, np.ones(robot.n))
    stops = np.zeros((len(motion), 0, robot.n))
    return np.asarray((shapes.column_values(motion.t, motion.q, motion.v, stops, None) * values).sum(axis=1))


def _check_noise(name: str, noise: float | Sequence[float] | None, channels: int) -> Array:
    """Standard deviations (channels,) from one number or one per channel; DynidError for anything else."""
    try:
        sigma = np.broadcast_to(np.asarray(0.0 if noise is None else noise, dtype=np.float64), (channels,))
    except (TypeError, ValueError) as error:
        raise DynidError(
            "invalid_noise", "{option} must be one number or {channels} numbers, got {noise!r}", option=name,
            channels=channels, noise=noise,
        ) from error  # fmt: skip
    if not np.isfinite(sigma).all() or (sigma < 0.0).any():
        raise DynidError(
            "invalid_noise", "{option} must be finite and not negative, got {noise!r}", option=name, noise=noise,
        )  # fmt: skip
    return sigma
