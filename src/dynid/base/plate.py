"""Torques and base reactions on one robot: theta_d = S theta_r (Raucent et al. 1992, eq. 5), and when S exists.

theta_d are the base parameters of the joint torques, theta_r those of the forces on the base. Zero forces on the base
along all motions leave no momentum, hence no joint torque but those of a constant potential: with all six channels S
exists for every tree. With fewer it may not.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dynid.base.barycentric import sum_text
from dynid.base.find import base_parameters, remembered_base_parameters
from dynid.base.parameters import BaseParameters
from dynid.robot.force_sensor import CHANNELS, ForceSensor
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

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
        """Text, one line per parameter of the torques, in those of the reactions: `ZZ1 (torque) = ZZ1 (reaction)`."""
        lines = []
        for name, row in zip(self.torque.names, self.S, strict=True):
            if name in self.lost:
                lines.append(f"{name}: cannot be had from these channels")
                continue
            terms = [(x, other) for x, other in zip(row, self.reaction.names, strict=True) if abs(x) > EXACT]
            text = sum_text(terms)
            lines.append(f"{name} (torque) = {text if len(terms) < 2 else f'({text})'} (reaction)")
        return tuple(lines)


@lru_cache(maxsize=32)
def relate_sensors(robot: Robot, *, tared: bool = True) -> SensorRelation:
    """Relate the parameters of the torques to those that the robot's force sensor (all channels where none) shows."""
    return _relation(remembered_base_parameters(robot, model="torque", rotor_inertia=False), robot, tared)


def _relation(torque: BaseParameters, robot: Robot, tared: bool) -> SensorRelation:
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
    if sensor.hidden:
        return ()
    torque = base_parameters(robot, rotor_inertia=False)
    for count in range(1, len(CHANNELS) + 1):
        good = tuple(
            some
            for some in itertools.combinations(CHANNELS, count)
            if not _relation(torque, robot.with_sensor(_with_channels(sensor, some)), True).lost
        )
        if good:
            return good
    return ()


def _with_channels(sensor: ForceSensor, channels: tuple[str, ...]) -> ForceSensor:
    return replace(sensor, channels=channels, offsets="free", offset=None, noise=None, gain=None)
