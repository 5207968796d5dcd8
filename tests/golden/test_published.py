"""Published masses of the bundled robots: the sources' numbers in the sources' frames give the same torques."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import numpy as np
import pinocchio as pin
import pytest
from numpy.testing import assert_allclose

from dynid import bundled_robots, load_robot, regressor
from dynid.physical.check import body_can_exist
from dynid.robot.inertia import Body, from_body
from dynid.robot.transform import Array
from robots import random_motion

Vector = tuple[float, float, float]
RIGHT = pi / 2
ORIGIN: Vector = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class SourceLink:
    """A link as its source states it: pose of the joint in the parent's frame, mass, centre, inertia about it."""

    xyz: Vector
    rpy: Vector
    mass: float
    com: Vector
    inertia: tuple[float, ...] = ()  # xx xy xz yy yz zz
    turned: Vector = ORIGIN  # rpy of the axes of the inertia
    axis: Vector = (0.0, 0.0, 1.0)


def links_of_standard_table(
    rows: list[tuple[float, float, float, float, float, Vector, tuple[float, ...]]],
) -> tuple[SourceLink, ...]:
    """Links of rows d, a, alpha, theta, mass, centre and inertia in the frames at the links' far ends."""
    links, before = [], (ORIGIN, pi)
    for d, a, alpha, theta, mass, com, inertia in rows:
        y, z = np.cos(alpha) * com[1] - np.sin(alpha) * com[2], np.sin(alpha) * com[1] + np.cos(alpha) * com[2]
        centre = (a + com[0], float(y), float(d + z))
        links.append(SourceLink(before[0], (before[1], 0.0, theta), mass, centre, inertia, (alpha, 0.0, 0.0)))
        before = ((a, 0.0, d), alpha)
    return tuple(links)


PANDA = (  # Franka Robotics, franka_description, robots/fr3
    SourceLink((0, 0, 0.333), ORIGIN, 2.9274653454, (0.0000004128, -0.0181251324, -0.0386035970),
               (0.0239273165, 1.33179e-05, -0.0001140477, 0.0224821613, -0.0019950321, 0.0063500983)),
    SourceLink(ORIGIN, (-RIGHT, 0, 0), 2.9355370338, (0.0031828864, -0.0743221644, 0.0088146084),
               (0.0419389463, 0.0002025733, 0.0040777842, 0.0251451489, -0.0042252158, 0.0617021447)),
    SourceLink((0, -0.316, 0), (RIGHT, 0, 0), 2.2449013699, (0.0407015686, -0.0048200565, -0.0289730823),
               (0.0241014255, 0.0024046946, -0.0028562693, 0.0197405327, -0.0021042127, 0.0190444945)),
    SourceLink((0.0825, 0, 0), (RIGHT, 0, 0), 2.6155955791, (-0.0459100965, 0.0630492960, -0.0085187868),
               (0.0345299832, 0.0132255227, 0.0101514300, 0.0288816219, -0.0009762834, 0.0412547117)),
    SourceLink((-0.0825, 0.384, 0), (-RIGHT, 0, 0), 2.3271207594, (-0.0016039605, 0.0292536262, -0.0972965990),
               (0.0516102785, -0.0057151734, -0.0035673168, 0.0478772971, 0.0106739851, 0.0164236256)),
    SourceLink(ORIGIN, (RIGHT, 0, 0), 1.8170376524, (0.0597131221, -0.0410294666, -0.0101692726),
               (0.0054123336, 0.0061934564, 0.0014219289, 0.0140583295, -0.0013140754, 0.0160808179)),
    SourceLink((0.088, 0, 0), (RIGHT, 0, 0), 0.6271432862, (0.0045225817, 0.0086261921, -0.0161633251)),
)  # fmt: skip

KR300 = links_of_standard_table([  # Weigand et al. 2021, model_KUKA_Quantec_Ultra_KR300.m: d, a, alpha, theta, ...
    (-0.675, 0.35, RIGHT, 0.0, 395.40, (-0.353, 0.174, -0.004),
     (16.733765, -1.703664, 4.404062, 29.799119, 0.129384, 32.814954)),
    (-0.189, 1.15, 0.0, 0.0, 339.12, (-0.709, -0.001, 0.023),
     (7.507819, 0.430046, -4.396607, 88.886691, 0.173157, 88.673761)),
    (0.189, 0.041, -RIGHT, RIGHT, 105.21, (-0.018, -0.018, -0.076),
     (10.783798, 0.118474, -0.101950, 10.186135, -0.606384, 1.943179)),
    (-1.0, 0.0, RIGHT, 0.0, 35.80, (0.0, 0.236, 0.001),
     (0.425035, -0.000004, -0.000027, 0.217993, -0.011353, 0.428465)),
    (0.0, 0.0, -RIGHT, 0.0, 31.46, (0.0, -0.080, -0.009),
     (0.283826, -0.000004, -0.000120, 0.229562, -0.019521, 0.258266)),
    (-0.24, 0.0, pi, 0.0, 17.78, (0.0, 0.0, -0.050),
     (0.060429, 0.000021, 0.000004, 0.060382, 0.000006, 0.090701)),
])  # fmt: skip

IIWA = (  # Drake, iiwa14_no_collision.urdf
    SourceLink((0, 0, 0.1575), ORIGIN, 5.76, (0, -0.03, 0.12), (0.033, 0, 0, 0.0333, 0, 0.0123)),
    SourceLink((0, 0, 0.2025), (RIGHT, 0, pi), 6.35, (0.0003, 0.059, 0.042), (0.0305, 0, 0, 0.0304, 0, 0.011)),
    SourceLink((0, 0.2045, 0), (RIGHT, 0, pi), 3.5, (0, 0.03, 0.13), (0.025, 0, 0, 0.0238, 0, 0.0076)),
    SourceLink((0, 0, 0.2155), (RIGHT, 0, 0), 3.5, (0, 0.067, 0.034), (0.017, 0, 0, 0.0164, 0, 0.006)),
    SourceLink((0, 0.1845, 0), (-RIGHT, pi, 0), 3.5, (0.0001, 0.021, 0.076), (0.01, 0, 0, 0.0087, 0, 0.00449)),
    SourceLink((0, 0, 0.2155), (RIGHT, 0, 0), 1.8, (0, 0.0006, 0.0004), (0.0049, 0, 0, 0.0047, 0, 0.0036)),
    SourceLink((0, 0.081, 0), (-RIGHT, pi, 0), 1.2, (0, 0, 0.02), (0.001, 0, 0, 0.001, 0, 0.001)),
)

LWR4 = (  # masses of FloBaRoID, kuka_lwr4.urdf; centres of the drawings in ISIR's lwr_description
    SourceLink((0, 0, 0.102), ORIGIN, 2.7, (0, 0.02333, 0.11815)),
    SourceLink((0, 0, 0.2085), ORIGIN, 2.7, (0, -0.03275, 0.07366), axis=(0, -1, 0)),
    SourceLink((0, 0, 0.1915), ORIGIN, 2.7, (0, -0.02333, 0.11815)),
    SourceLink((0, 0, 0.2085), ORIGIN, 2.7, (0, 0.03274, 0.07366), axis=(0, 1, 0)),
    SourceLink((0, 0, 0.1915), ORIGIN, 1.7, (0, 0.02078, 0.08621)),
    SourceLink((0, 0, 0.1985), ORIGIN, 1.6, (0, -0.00452, -0.00295), axis=(0, -1, 0)),
    SourceLink((0, 0, 0.078), ORIGIN, 0.3, (0, 0, -0.01581)),
)

TX40 = (  # FIGAROH, tx40_mdh_modified.urdf, from axis 2 on; joint 6 without its turn of 180 degrees
    SourceLink(ORIGIN, ORIGIN, 10.5, (0, 0.020, -0.043)),
    SourceLink(ORIGIN, (-RIGHT, 0, 0), 3.6, (0.109, -0.002, 0.134)),
    SourceLink((0.225, 0, 0.035), ORIGIN, 4.07, (0.008, 0.006, 0.041)),
    SourceLink((0, -0.225, 0), (RIGHT, 0, 0), 3.62, (-0.004, 0.002, -0.107)),
    SourceLink(ORIGIN, (-RIGHT, 0, 0), 1.02, (-0.004, -0.003, -0.001)),
    SourceLink(ORIGIN, (RIGHT, 0, 0), 0.2, (0, 0, 0.042)),
)

_UR_WRIST = (0.00296, -0.00001, 0, 0.00222, -0.00024, 0.00258)
_UR_SHOULDER = (0.03408, 0.00002, -0.00425, 0.03529, 0.00008, 0.02156)
_UR_UPPER_ARM = (0.02814, 0.00005, -0.01561, 0.77068, 0.00002, 0.76943)
_UR_FOREARM = (0.01014, 0.00008, 0.00916, 0.30928, 0.0, 0.30646)
_UR_FLANGE = (0.00040, 0, 0, 0.00041, 0, 0.00034)

UR10 = (  # Universal Robots, ur_description, config/ur10: its own frames, not those of Denavit and Hartenberg
    SourceLink((0, 0, 0.1273), ORIGIN, 7.1, (0.021, -0.027, 0), _UR_SHOULDER, (RIGHT, 0, 0)),
    SourceLink(ORIGIN, (RIGHT, 0, 0), 12.7, (-0.232, 0, 0.158), _UR_UPPER_ARM),
    SourceLink((-0.612, 0, 0), ORIGIN, 4.27, (-0.3323, 0, 0.068), _UR_FOREARM),
    SourceLink((-0.5723, 0, 0.163941), ORIGIN, 2.0, (0, -0.018, 0.007), _UR_WRIST, (RIGHT, 0, 0)),
    SourceLink((0, -0.1157, 0), (RIGHT, 0, 0), 2.0, (0, 0.018, -0.007), _UR_WRIST, (-RIGHT, 0, 0)),
    SourceLink((0, 0.0922, 0), (RIGHT, pi, pi), 0.365, (0, 0, -0.026), _UR_FLANGE),
)

UR10E = (  # Universal Robots, ur_description, config/ur10e
    SourceLink((0, 0, 0.1807), ORIGIN, 7.369, (0.021, -0.027, 0), _UR_SHOULDER, (RIGHT, 0, 0)),
    SourceLink(ORIGIN, (RIGHT, 0, 0), 13.051, (-0.2327, 0, 0.158), _UR_UPPER_ARM),
    SourceLink((-0.6127, 0, 0), ORIGIN, 3.989, (-0.33155, 0, 0.068), _UR_FOREARM),
    SourceLink((-0.57155, 0, 0.17415), ORIGIN, 2.1, (0, -0.018, 0.007), _UR_WRIST, (RIGHT, 0, 0)),
    SourceLink((0, -0.11985, 0), (RIGHT, 0, 0), 1.98, (0, 0.018, -0.007), _UR_WRIST, (-RIGHT, 0, 0)),
    SourceLink((0, 0.11655, 0), (RIGHT, pi, pi), 0.615, (0, 0, -0.026), _UR_FLANGE),
)

SOURCES = {"iiwa": IIWA, "kr300": KR300, "lwr4": LWR4, "panda": PANDA, "tx40": TX40, "ur10": UR10, "ur10e": UR10E}


def source_model(links: tuple[SourceLink, ...], gravity: Array) -> pin.Model:
    """The source's links in pinocchio; without an inertia, a link is its mass in its centre."""
    model, joint = pin.Model(), 0
    model.gravity = pin.Motion(np.array(gravity), np.zeros(3))
    for k, link in enumerate(links):
        pose = pin.SE3(pin.rpy.rpyToMatrix(*map(float, link.rpy)), np.array(link.xyz, dtype=float))
        joint = model.addJoint(joint, pin.JointModelRevoluteUnaligned(np.array(link.axis, dtype=float)), pose, str(k))
        R, J = pin.rpy.rpyToMatrix(*map(float, link.turned)), np.zeros((3, 3))
        J[np.triu_indices(3)] = link.inertia or np.zeros(6)
        J = R @ (J + np.triu(J, 1).T) @ R.T
        model.appendBodyToJoint(joint, pin.Inertia(link.mass, np.array(link.com, dtype=float), J), pin.SE3.Identity())
    return model


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_published_bodies_give_the_torques_of_their_source(name: str) -> None:
    robot = load_robot(name)
    assert robot.published is not None
    values = []
    for link, source in zip(robot.links, SOURCES[name], strict=True):
        x = robot.published.links[link.name]
        assert np.isnan(x[:6]).all() == (not source.inertia)
        assert not np.isnan(x[6:]).any()
        values += [*(x if source.inertia else from_body(Body(x[9], x[6:9] / x[9], np.zeros((3, 3))))), 0.0]
    motion = random_motion(robot)
    tau = regressor(robot, motion).matrix @ np.array(values)
    model = source_model(SOURCES[name], robot.gravity)
    data = model.createData()
    expected = [pin.rnea(model, data, q, v, a) for q, v, a in zip(motion.q, motion.v, motion.a, strict=True)]
    scale = np.abs(expected).max()
    assert_allclose(tau, np.concatenate(expected), atol=1e-4 * scale)  # the tables round to 0.1 g, 0.1 mm


@pytest.mark.parametrize("name", bundled_robots())
def test_published_bodies_can_exist_and_make_no_more_than_the_total(name: str) -> None:
    robot = load_robot(name)
    published = robot.published
    assert published is not None
    assert published.source
    for x in published.links.values():
        assert x[9] > 0.0
        assert np.isnan(x[:6]).any() or body_can_exist(x)
    if published.total is not None and published.links:
        assert sum(published.masses.values()) <= published.total
    nothing = published.total is None and not published.links
    assert nothing == published.source.startswith("none")
    if len(published.links) == len(robot.links):
        assert robot.published_moving_mass == pytest.approx(sum(published.masses.values()))
    else:
        assert robot.published_moving_mass is None
