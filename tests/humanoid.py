"""Two walking machines from published numbers: a person of 30 joints and a four-legged robot of 12.

The person has the male segment masses, centres of mass and radii of gyration of de Leva 1996, 'Adjustments to
Zatsiorsky-Seluyanov's segment inertia parameters' (J. Biomechanics 29(9), Table 4), scaled to 1.75 m and 75 kg.
The quadruped has the main dimensions and masses of the Unitree A1 as in its maker's published description.
These numbers were written from memory and only partly compared with public code; the tests that use them ask for
agreement between two programs on the same machine, not for the anatomy.
In both, the base (pelvis, trunk) is fixed and carries frame 0: x forward, y left, z up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np

from dynid.robot.inertia import Body, from_body
from dynid.robot.robot import Robot
from dynid.robot.transform import Array, Transform

QUARTER = pi / 2
HEIGHT, MASS = 1.75, 75.0
SCALE = HEIGHT / 1.741  # de Leva's lengths belong to a mean height of 1.741 m

# Not in the table; typical of an adult, approximate: half distances of the joint centres (m), the height of
# the shoulders above the chest joint, and where the ankle stands over the foot.
HIP, SHOULDER, SHOULDER_HEIGHT = 0.085, 0.19, 0.155
HEEL_TO_ANKLE, SOLE_DEPTH = 0.25, 0.04

# A joint with several axes in one place needs small bodies between them: each takes this share of the segment's
# mass as a ball of this radius (m). A modelling choice, not a published number.
SHARE, BALL = 0.02, 0.03


@dataclass(frozen=True, slots=True)
class Segment:
    """A row of de Leva's Table 4: fraction of the body's mass, length (m), where the centre of mass lies along
    it (from the first end), radii of gyration about the forward, left and long axes (fractions of length).
    """

    mass: float
    length: float
    centre: float
    radii: tuple[float, float, float]

    @property
    def size(self) -> float:
        """Length in m, scaled to the person."""
        return self.length * SCALE


HEAD = Segment(0.0694, 0.2429, 0.5002, (0.303, 0.315, 0.261))  # vertex to cervicale
CHEST = Segment(0.1596, 0.1707, 0.2999, (0.716, 0.454, 0.659))  # suprasternale to xiphion
ABDOMEN = Segment(0.1633, 0.2155, 0.4502, (0.482, 0.383, 0.468))  # xiphion to omphalion
PELVIS = Segment(0.1117, 0.1457, 0.6115, (0.615, 0.551, 0.587))  # omphalion to mid-hip; the fixed base
UPPER_ARM = Segment(0.0271, 0.2817, 0.5772, (0.285, 0.269, 0.158))
FOREARM = Segment(0.0162, 0.2689, 0.4574, (0.276, 0.265, 0.121))
HAND = Segment(0.0061, 0.0862, 0.7900, (0.628, 0.513, 0.401))
THIGH = Segment(0.1416, 0.4222, 0.4095, (0.329, 0.329, 0.149))
SHANK = Segment(0.0433, 0.4403, 0.4395, (0.251, 0.246, 0.102))  # to the ankle's centre
FOOT = Segment(0.0137, 0.2581, 0.4415, (0.257, 0.245, 0.124))  # heel to toe
NECK = 0.0714 * SCALE  # suprasternale to cervicale (difference of the two trunk lengths)

Bodies = Mapping[str, Body]
"""Bodies by joint name: centre of mass from the link's origin and inertia, in the axes of frame 0 at q = 0."""


def humanoid() -> Robot:
    """A person with 30 revolute joints: legs 6 each, waist and chest, arms 7 each, neck 2; zero is upright."""
    rows: list[dict[str, Any]] = []
    bodies: dict[str, Body] = {}
    for side, sign in (("left", 1.0), ("right", -1.0)):
        _add_leg(rows, bodies, side, sign)
    rows.append({"name": "waist_yaw", "parent": 0, "r": PELVIS.size})
    rows.append({"name": "chest_pitch", "b": ABDOMEN.size, "alpha": -QUARTER, "theta": -QUARTER})
    chest = len(rows)
    bodies["waist_yaw"] = _standing(ABDOMEN, up=(1.0 - ABDOMEN.centre) * ABDOMEN.size)
    bodies["chest_pitch"] = _standing(CHEST, up=(1.0 - CHEST.centre) * CHEST.size)
    for side, sign in (("left", 1.0), ("right", -1.0)):
        _add_arm(rows, bodies, side, sign, chest)
    neck_height = CHEST.size + NECK
    rows.append({"name": "neck_yaw", "parent": chest, "gamma": QUARTER, "alpha": QUARTER, "r": neck_height})
    rows.append({"name": "neck_pitch", "alpha": -QUARTER})
    bodies["neck_yaw"] = _ball(HEAD)
    bodies["neck_pitch"] = _standing(HEAD, up=(1.0 - HEAD.centre) * HEAD.size, balls=1)
    return _with_bodies(Robot.from_mdh(rows, name="humanoid"), bodies)


def quadruped() -> Robot:
    """Four legs of three revolute joints; masses and lengths of the Unitree A1, products of inertia left out."""
    rows: list[dict[str, Any]] = []
    bodies: dict[str, Body] = {}
    for leg, front, left in (("FR", 1.0, -1.0), ("FL", 1.0, 1.0), ("RR", -1.0, -1.0), ("RL", -1.0, 1.0)):
        hip, thigh, calf = (f"{leg}_{part}_joint" for part in ("hip", "thigh", "calf"))
        place = {"d": 0.047 * left, "r": 0.183 * front}
        rows.append({"name": hip, "parent": 0, "gamma": QUARTER, "alpha": QUARTER, "theta": -QUARTER} | place)
        rows.append({"name": thigh, "alpha": -QUARTER, "r": 0.0838 * left})
        rows.append({"name": calf, "d": 0.2})
        bodies[hip] = _box(0.696, (-0.0033 * front, 0.0006 * left, 0.0), (0.00047, 0.00081, 0.00055))
        bodies[thigh] = _box(1.013, (-0.0032, -0.0223 * left, -0.0273), (0.00553, 0.00514, 0.00137))
        bodies[calf] = _box(0.226, (0.0047, 0.0, -0.132), (0.00340, 0.00340, 0.00004))
    return _with_bodies(Robot.from_mdh(rows, name="quadruped"), bodies)


def _add_leg(rows: list[dict[str, Any]], bodies: dict[str, Body], side: str, sign: float) -> None:
    rows += [
        {"name": f"{side}_hip_yaw", "parent": 0, "gamma": QUARTER, "d": HIP * sign},
        {"name": f"{side}_hip_roll", "alpha": QUARTER, "theta": -QUARTER},
        {"name": f"{side}_hip_pitch", "alpha": -QUARTER},
        {"name": f"{side}_knee", "d": THIGH.size},
        {"name": f"{side}_ankle_pitch", "d": SHANK.size},
        {"name": f"{side}_ankle_roll", "alpha": QUARTER},
    ]
    bodies[f"{side}_hip_yaw"] = bodies[f"{side}_hip_roll"] = _ball(THIGH)
    bodies[f"{side}_hip_pitch"] = _standing(THIGH, up=-THIGH.centre * THIGH.size, balls=2)
    bodies[f"{side}_knee"] = _standing(SHANK, up=-SHANK.centre * SHANK.size)
    bodies[f"{side}_ankle_pitch"] = _ball(FOOT)
    bodies[f"{side}_ankle_roll"] = _foot()


def _add_arm(rows: list[dict[str, Any]], bodies: dict[str, Body], side: str, sign: float, chest: int) -> None:
    shoulder = {"parent": chest, "d": SHOULDER_HEIGHT, "theta": pi, "r": SHOULDER * sign}
    rows += [
        {"name": f"{side}_shoulder_pitch"} | shoulder,
        {"name": f"{side}_shoulder_roll", "alpha": QUARTER, "theta": QUARTER},
        {"name": f"{side}_shoulder_yaw", "alpha": QUARTER, "theta": QUARTER, "r": UPPER_ARM.size},
        {"name": f"{side}_elbow", "alpha": QUARTER},
        {"name": f"{side}_forearm_yaw", "alpha": -QUARTER, "r": FOREARM.size},
        {"name": f"{side}_wrist_pitch", "alpha": QUARTER, "theta": QUARTER},
        {"name": f"{side}_wrist_roll", "alpha": QUARTER},
    ]
    bodies[f"{side}_shoulder_pitch"] = bodies[f"{side}_shoulder_roll"] = _ball(UPPER_ARM)
    bodies[f"{side}_shoulder_yaw"] = _standing(UPPER_ARM, up=(1.0 - UPPER_ARM.centre) * UPPER_ARM.size, balls=2)
    bodies[f"{side}_elbow"] = _ball(FOREARM)
    bodies[f"{side}_forearm_yaw"] = _standing(FOREARM, up=(1.0 - FOREARM.centre) * FOREARM.size, balls=1)
    bodies[f"{side}_wrist_pitch"] = _ball(HAND)
    bodies[f"{side}_wrist_roll"] = _standing(HAND, up=-HAND.centre * HAND.size, balls=1)


def _standing(segment: Segment, *, up: float, balls: int = 0) -> Body:
    """A segment along z, its centre of mass `up` metres above the link's origin, less the mass of its balls."""
    mass = segment.mass * MASS * (1.0 - SHARE * balls)
    return _box(mass, (0.0, 0.0, up), [mass * (radius * segment.size) ** 2 for radius in segment.radii])


def _foot() -> Body:
    """The foot lies forward: its long axis is x, its two others z and y."""
    mass = FOOT.mass * MASS * (1.0 - SHARE)
    sagittal, transverse, long = (mass * (radius * FOOT.size) ** 2 for radius in FOOT.radii)
    forward = (FOOT.centre - HEEL_TO_ANKLE) * FOOT.size
    return _box(mass, (forward, 0.0, -SOLE_DEPTH), (long, transverse, sagittal))


def _ball(segment: Segment) -> Body:
    mass = SHARE * segment.mass * MASS
    return _box(mass, (0.0, 0.0, 0.0), [0.4 * mass * BALL**2] * 3)


def _box(mass: float, com: Sequence[float], moments: Sequence[float]) -> Body:
    return Body(mass, np.array(com), np.diag(moments))


def _with_bodies(robot: Robot, bodies: Bodies) -> Robot:
    """Return the robot with these bodies, turned into the link frames; no rotor inertia."""
    values: list[Array] = []
    pose: dict[int, Transform] = {-1: Transform.identity()}
    for k, link in enumerate(robot.links):
        pose[k] = pose[link.parent] @ link.placement
        R, body = pose[k].rotation, bodies[link.joint]
        values += [from_body(Body(body.mass, R.T @ body.com, R.T @ body.inertia @ R)), np.zeros(1)]
    return robot.with_parameters(np.concatenate(values))
