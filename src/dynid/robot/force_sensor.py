"""A force plate under the robot: where it sits, what it measures, in which sense, and what it carries besides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np

from dynid.deprecated import accept_old_names
from dynid.errors import DynidError
from dynid.robot.parameter import Parameter
from dynid.robot.transform import Array, Matrix, Vector, freeze, skew
from dynid.storage.records import COMPLETE, HUGE, Finite, Null, Numbers

CHANNELS = ("Fx", "Fy", "Fz", "Mx", "My", "Mz")

Sense = Literal["plate_on_robot", "robot_on_plate"]
SENSES: tuple[Sense, ...] = ("plate_on_robot", "robot_on_plate")

Offsets = Literal["free", "tared", "known"]

PerChannel = Annotated[Array, Numbers((None,))]


@dataclass(frozen=True, slots=True, eq=False)
class Rotor:
    """Rotor of a motor.

    With ratio 1 and the joint's own axis it turns with the joint's link and is part of it.

    Parameters
    ----------
    joint : str
        The joint that the motor drives.
    ratio : float
        How many times faster than its joint it turns.
    inertia : float
        Inertia about its axis, kg m^2, NaN where unknown.
    axis : (3,) array
        Unit vector in the frame of the link that carries the motor, which is the link before the joint.
    """

    joint: str
    ratio: Finite = 1.0
    inertia: Annotated[float, Null(np.nan, HUGE)] = np.nan
    axis: Vector = field(default_factory=lambda: freeze([0.0, 0.0, 1.0]))

    def __post_init__(self) -> None:
        axis = _check_numbers(self.axis, 3, f"axis of the rotor of joint '{self.joint}'")
        if not np.linalg.norm(axis) > 0.0 or not np.isfinite(self.ratio) or self.ratio == 0.0:
            raise DynidError(
                "invalid_rotor_geometry", "the rotor of joint '{joint}' needs an axis other than zero and a finite "
                "ratio other than 0", joint=self.joint,
            )  # fmt: skip
        if self.inertia < 0.0:
            raise DynidError(
                "rotor_inertia_negative", "the inertia of the rotor of joint '{joint}' is negative", joint=self.joint,
            )  # fmt: skip
        object.__setattr__(self, "axis", freeze(axis / np.linalg.norm(axis)))

    @property
    def is_hidden(self) -> bool:
        """Whether the plate shows ratio J where torques need ratio^2 J, and J is not known."""
        return bool(np.isnan(self.inertia)) and self.ratio != 1.0


@accept_old_names
@dataclass(frozen=True, slots=True, eq=False)
class ForceSensor:
    """Six-axis force plate, or part of one, between the ground and the robot's mount.

    Parameters
    ----------
    position : (3,) array
        Origin of its frame in the robot's frame 0, m.
    rotation : (3, 3) array
        Axes of its frame in frame 0.
    reference : (3,) array
        Point in its own frame about which moments are given, m.
    sense : {"plate_on_robot", "robot_on_plate"}
        Which of the two forces is recorded.
    channels : tuple of str
        Recorded channels in their order, among Fx, Fy, Fz, Mx, My, Mz.
    offsets : {"free", "tared", "known"} or (channels,) array
        "free" or "tared": an unknown constant per channel and run; "known": they are in `offset`, where the values of
        an array go as well, N and N m.
    offset : (channels,) array, optional
        Known offsets, N and N m.
    mass : float
        Mass of what stands on the plate without moving, kg.
    com : (3,) array
        Its centre of mass in frame 0, m.
    noise : (channels,) array, optional
        Standard deviations, N and N m, which weight the channels relative to one another.
    sensitivity_sigma : (channels,) array, optional
        Relative standard deviation of each channel's sensitivity, which is part of the standard deviations of the
        parameters.
    rotors : tuple of Rotor
        Rotors of motors that turn faster than their joint.

    Examples
    --------
    >>> from dynid import ForceSensor
    >>> ForceSensor(channels=("Fz", "Mx", "My")).wrench_to_readings.shape
    (3, 6)
    """

    position: Vector = field(default_factory=lambda: freeze(np.zeros(3)))
    rotation: Matrix = field(default_factory=lambda: freeze(np.eye(3)))
    reference: Vector = field(default_factory=lambda: freeze(np.zeros(3)))
    sense: Sense = "plate_on_robot"
    channels: tuple[str, ...] = CHANNELS
    offsets: Offsets = "free"
    offset: PerChannel | None = None
    mass: Finite = 0.0
    com: Vector = field(default_factory=lambda: freeze(np.zeros(3)))
    noise: PerChannel | None = None
    sensitivity_sigma: PerChannel | None = None
    rotors: tuple[Annotated[Rotor, COMPLETE], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.offsets, str):  # the known values, as in files
            object.__setattr__(self, "offset", self.offsets)
            object.__setattr__(self, "offsets", "known")
        for name in ("position", "reference", "com"):
            object.__setattr__(self, name, freeze(_check_numbers(getattr(self, name), 3, name)))
        R = np.array(self.rotation, dtype=np.float64)
        if R.shape != (3, 3) or np.abs(R @ R.T - np.eye(3)).max() > 1e-9 or np.linalg.det(R) < 0.0:
            raise DynidError("not_a_rotation", "rotation of the force sensor must be a rotation matrix (3, 3)")
        object.__setattr__(self, "rotation", freeze(R))
        object.__setattr__(self, "channels", checked_channels(self.channels))
        if self.sense not in SENSES:
            raise DynidError(
                "unknown_sensor_sense", "sense of the force sensor is {senses}, not '{sense}'",
                senses=' or '.join(SENSES), sense=self.sense,
            )  # fmt: skip
        if self.offsets not in ("free", "tared", "known"):
            raise DynidError(
                "unknown_offset_choice", "offsets of the force sensor are free, tared or known, not '{offsets}'",
                offsets=self.offsets,
            )  # fmt: skip
        if (self.offsets == "known") != (self.offset is not None):
            raise DynidError(
                "known_offsets_incomplete", "offsets 'known' of the force sensor and their values in `offset` belong "
                "together",
            )  # fmt: skip
        if not (np.isfinite(self.mass) and self.mass >= 0.0):
            raise DynidError(
                "plate_mass_negative", "mass of what stands on the plate must be a number that is not negative, got "
                "{mass}", mass=self.mass,
            )  # fmt: skip
        self._check_per_channel()
        object.__setattr__(self, "rotors", tuple(self.rotors))
        joints = [rotor.joint for rotor in self.rotors]
        if len(set(joints)) < len(joints):
            raise DynidError("rotor_named_twice", "the force sensor names the rotor of a joint twice")

    def _check_per_channel(self) -> None:
        """Raise where offsets, noise or sensitivities do not have a number per channel."""
        for name, lowest in (("offset", -np.inf), ("noise", 1e-300), ("sensitivity_sigma", 0.0)):
            given = getattr(self, name)
            if given is None:
                continue
            given = (
                np.broadcast_to(given, len(self.channels))
                if name == "sensitivity_sigma" and np.ndim(given) == 0
                else given
            )
            values = _check_numbers(given, len(self.channels), name)
            if (values < lowest).any():
                raise DynidError(
                    "sensor_value_too_small", "{key} of the force sensor must be {condition}", key=name,
                    condition='positive' if lowest else 'at least 0',
                )  # fmt: skip
            object.__setattr__(self, name, freeze(values))

    @property
    def spinning_rotors(self) -> tuple[Rotor, ...]:
        """Rotors of known inertia that turn at a speed of their own."""
        return tuple(rotor for rotor in self.rotors if np.isfinite(rotor.inertia) and rotor.ratio != 1.0)

    @property
    def hidden_rotor_joints(self) -> tuple[str, ...]:
        """Joints whose rotor shows in the forces on the base by an unknown amount."""
        return tuple(rotor.joint for rotor in self.rotors if rotor.is_hidden)

    @property
    def offset_parameters(self) -> tuple[Parameter, ...]:
        """The unknown constant of every channel."""
        units = ("N" if is_force_channel(name) else "N m" for name in self.channels)
        names = ((f"O{name}", unit) for name, unit in zip(self.channels, units, strict=True))
        return tuple(Parameter(name, symbol=name, kind="offset", unit=unit) for name, unit in names)

    @property
    def is_tared(self) -> bool:
        """Whether every channel has an unknown constant."""
        return self.offsets != "known"

    @property
    def is_in_base_frame(self) -> bool:
        """Whether it sits in frame 0, the base frame, with moments about its origin."""
        origin = self.position + self.rotation @ self.reference
        return not origin.any() and bool(np.array_equal(self.rotation, np.eye(3)))

    @property
    def wrench_to_readings(self) -> Array:
        """Matrix (channels, 6) from the base's wrench on the robot, in frame 0 about its origin, to the readings."""
        P = self.position + self.rotation @ self.reference
        R = self.rotation.T
        T = np.zeros((6, 6))
        T[:3, :3], T[3:, 3:] = R, R
        T[3:, :3] = -R @ skew(P)
        sign = 1.0 if self.sense == "plate_on_robot" else -1.0
        return np.asarray(sign * T[[CHANNELS.index(name) for name in self.channels]])

    def constant_readings(self, gravity: Array) -> Array:
        """Readings without the robot: known offsets and the weight of what stands on the plate.

        Parameters
        ----------
        gravity : (3,) array
            Gravity in frame 0, m/s^2.

        Returns
        -------
        (channels,) array
            Readings, N and N m.
        """
        force = -self.mass * gravity
        weight = self.wrench_to_readings @ np.concatenate([force, np.cross(self.com, force)])
        return np.asarray(weight if self.offset is None else weight + self.offset)


def is_force_channel(channel: str) -> bool:
    """Whether a channel is a force; the others are moments."""
    return CHANNELS.index(channel) < 3


def checked_channels(channels: Sequence[str]) -> tuple[str, ...]:
    """Standard names of channels from those of a data sheet (Cx for Mx, any case); raise for others."""
    names = []
    for given in channels:
        name = str(given)[:1].upper() + str(given)[1:].lower()
        name = name.replace("C", "M", 1) if name.startswith("C") else name
        if name not in CHANNELS:
            raise DynidError(
                "unknown_channel", "there is no channel '{channel}' of a force sensor", "channels are {channels}",
                channel=given, channels=list(CHANNELS),
            )  # fmt: skip
        names.append(name)
    if not names or len(set(names)) < len(names):
        raise DynidError("sensor_channels_not_distinct", "channels of the force sensor must be named, each once")
    return tuple(names)


def _check_numbers(values: object, count: int, name: str) -> Array:
    """Array of `count` finite numbers; raise with their name where they are others."""
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.zeros(0)
    if numbers.shape != (count,) or not np.isfinite(numbers).all():
        raise DynidError(
            "invalid_sensor_numbers", "{key} of the force sensor must be {count} finite numbers, got {values!r:.60}",
            key=name, count=count, values=values,
        )  # fmt: skip
    return numbers
