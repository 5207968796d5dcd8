"""Torques from forces on the base: how many parameters, theta_d = S theta_r, and which channels it takes."""

from __future__ import annotations

from dataclasses import replace
from math import pi

import numpy as np
import pytest
from campaign.robots import special_robot
from numpy.testing import assert_allclose

from dynid import Robot, base_parameters, load_robot, regressor
from dynid.identifiability.base_reactions import relate_sensors, sufficient_channels
from dynid.identifiability.numeric import random_samples
from dynid.robot.force_sensor import ForceSensor, Rotor
from dynid.robot.robot import Coupling
from dynid.robot.transform import Array
from robots import random_rotation, random_tree

QUARTER = pi / 2
GRAVITIES = {"vertical": (0.0, 0.0, -9.81), "tilted": (2.0, -3.0, -9.0), "none": (0.0, 0.0, 0.0)}
ARM = ({"parent": 1, "alpha": QUARTER, "r": 0.3}, {"d": 0.4, "alpha": QUARTER})  # the shoulder axis meets the waist
PLANAR: tuple[dict[str, float], ...] = ({}, {"d": 0.4})
ROWS = {
    "3R": ({}, {"alpha": QUARTER, "d": 0.1, "r": 0.2}, {"alpha": 0.4, "d": 0.3, "r": 0.1}),
    "PUMA 560": ({}, {"alpha": -QUARTER}, {"d": 0.5, "r": 0.2}, {"alpha": -QUARTER, "d": 0.02, "r": 0.6},
                 {"alpha": QUARTER}, {"alpha": -QUARTER}),
    "7R": tuple({"alpha": sign * QUARTER, "r": r} for sign, r in
                ((0, 0.36), (-1, 0.0), (1, 0.42), (1, 0.0), (-1, 0.4), (-1, 0.0), (1, 0.126))),
    "PRR": ({"type": "prismatic"}, {}, {"alpha": QUARTER, "d": 0.3}),
    "PPR gantry": ({"type": "prismatic", "alpha": QUARTER}, {"type": "prismatic", "alpha": QUARTER},
                   {"alpha": QUARTER, "d": 0.1}),
    "RPR": ({}, {"type": "prismatic", "alpha": QUARTER, "d": 0.2}, {"alpha": QUARTER, "d": 0.3}),
    "P": ({"type": "prismatic"},),
    "1R": ({},),
    "2R planar": PLANAR,
    "2R, axes horizontal": (PLANAR[0] | {"alpha": QUARTER}, PLANAR[1]),
    "3R, first axis horizontal": ({"alpha": QUARTER}, {"alpha": QUARTER, "d": 0.1, "r": 0.2},
                                  {"alpha": 0.4, "d": 0.3, "r": 0.1}),
    "torso with two arms": ({}, *ARM, ARM[0] | {"r": -0.3}, ARM[1]),
}  # fmt: skip
# N_d, N_r, tared: reference counts of these structures, found elsewhere by ranks of sampled models.
COUNTS = {
    "3R": {"vertical": (15, 20, 19), "tilted": (17, 21, 19), "none": (15, 19, 19)},
    "PUMA 560": {"vertical": (36, 41, 40), "tilted": (38, 42, 40), "none": (34, 40, 40)},
    "7R": {"vertical": (43, 48, 47), "tilted": (45, 49, 47), "none": (39, 47, 47)},
    "PRR": {"vertical": (9, 15, 15), "tilted": (11, 16, 15), "none": (9, 15, 15)},
    "PPR gantry": {"vertical": (5, 12, 11), "tilted": (5, 12, 11), "none": (5, 11, 11)},
    "RPR": {"vertical": (7, 15, 14), "tilted": (9, 16, 14), "none": (7, 14, 14)},
    "2R, axes horizontal": {"vertical": (6, 12, 10), "tilted": (6, 12, 10), "none": (4, 10, 10)},
    "3R, first axis horizontal": {"vertical": (17, 21, 19), "tilted": (17, 21, 19), "none": (15, 19, 19)},
    "P": {"vertical": (1, 3, 3), "tilted": (1, 4, 3), "none": (1, 3, 3)},
    "1R": {"vertical": (1, 6, 5), "tilted": (3, 7, 5), "none": (1, 5, 5)},
    "2R planar": {"vertical": (4, 11, 10), "tilted": (6, 12, 10), "none": (4, 10, 10)},
    "torso with two arms": {"vertical": (29, 34, 33), "tilted": (31, 35, 33), "none": (25, 33, 33)},
}
# How many combinations of theta_d the forces alone, and the moments alone, do not tell (vertical gravity, untared).
MISSING = {
    "3R": (11, 0), "PUMA 560": (26, 0), "7R": (31, 0), "PRR": (6, 1), "P": (0, 1), "1R": (1, 0), "2R planar": (2, 0),
    "torso with two arms": (21, 0), "PPR gantry": (1, 0), "RPR": (4, 0), "2R, axes horizontal": (2, 0),
    "3R, first axis horizontal": (11, 0),
}  # fmt: skip


def robot_of(name: str, gravity: str = "vertical") -> Robot:
    return Robot.from_mdh(ROWS[name], gravity=GRAVITIES[gravity])


def rank(M: Array) -> int:
    return int(np.linalg.matrix_rank(M, tol=1e-9 * np.abs(M).max()))


@pytest.mark.parametrize("gravity", GRAVITIES)
@pytest.mark.parametrize("name", COUNTS)
def test_counts(name: str, gravity: str) -> None:
    robot = robot_of(name, gravity)
    fixed, tared = (relate_sensors(robot, tared=choice) for choice in (False, True))
    assert (len(fixed.S), fixed.S.shape[1], tared.S.shape[1]) == COUNTS[name][gravity]
    for found in (fixed, tared):
        assert not found.lost
        assert found.residual <= 1e-10
        assert rank(found.S) == len(found.S)


@pytest.mark.parametrize("name", MISSING)
def test_forces_or_moments_alone(name: str) -> None:
    robot = robot_of(name)
    for channels, missing in zip((("Fx", "Fy", "Fz"), ("Mx", "My", "Mz")), MISSING[name], strict=True):
        found = relate_sensors(robot.with_sensor(ForceSensor(channels=channels)), tared=False)
        M_d, M_r = found.torque.regrouping.matrix, found.reaction.regrouping.matrix
        assert rank(np.vstack([M_r, M_d])) - len(M_r) == missing
        assert bool(found.lost) == (missing > 0)


def small_robot(seed: int) -> Robot:
    """Half of them with right angles and zeros, half about arbitrary axes."""
    if seed % 2:
        return special_robot(seed, most=4)
    return random_tree(seed, joints=1 + seed // 2 % 4, serial=seed % 4 == 0)


@pytest.mark.parametrize("block", [*range(4), *(pytest.param(k, marks=pytest.mark.slow) for k in range(4, 10))])
def test_s_exists_for_every_tree(block: int) -> None:
    """500 robots: all of theta_d, full row rank, residual 1e-10, and the torques of random parameters."""
    for seed in range(50 * block, 50 * block + 50):
        robot = small_robot(seed)
        found = relate_sensors(robot, tared=seed % 3 == 0)
        assert not found.lost, seed
        assert found.residual <= 1e-10, seed
        assert rank(found.S) == len(found.S), seed
        X = np.random.default_rng(seed).standard_normal(len(robot.parameter_names))
        theta_d = found.S @ found.reaction.values(X)
        assert_allclose(theta_d, found.torque.values(X), rtol=0, atol=1e-9 * max(1.0, np.abs(theta_d).max()))
        W = regressor(robot, random_samples(robot, 3, seed), rotor_inertia=False)
        inside = [robot.parameter_names.index(name) for name in W.columns]
        tau = W.matrix @ X[inside]
        assert_allclose(
            W.matrix[:, list(found.torque.kept)] @ theta_d, tau, rtol=0, atol=1e-9 * max(1.0, np.abs(tau).max())
        )


@pytest.mark.parametrize("seed", range(40))
def test_parameters_that_give_the_forces_give_the_torques(seed: int) -> None:
    """Without any base parameters: the smallest X that explains the forces on the base explains the torques."""
    robot = small_robot(seed)
    motion = random_samples(robot, 8 * len(robot.links), seed)
    R = regressor(robot, motion, model="reaction", rotor_inertia=False).matrix
    D = regressor(robot, motion, rotor_inertia=False).matrix
    X = np.random.default_rng(seed).standard_normal(R.shape[1])
    fitted = np.linalg.lstsq(R, R @ X, rcond=1e-11)[0]
    assert_allclose(D @ fitted, D @ X, rtol=0, atol=1e-7 * np.abs(D @ X).max())


def test_s_is_not_a_selection_in_general() -> None:
    """Known zeros that hide a pivot of the torques make rows with several terms, in text too."""
    robots = [special_robot(seed, most=4) for seed in range(1, 200, 2)]
    texts = [line for robot in robots for line in relate_sensors(robot).relations]
    assert any("(reaction)" in line and (" + " in line or " - " in line or "*" in line) for line in texts)
    assert all("(torque) = " in line and line.endswith("(reaction)") for line in texts)


@pytest.mark.parametrize("seed", range(30))
def test_forces_alone_fail_for_every_robot_that_turns(seed: int) -> None:
    robot = small_robot(seed)
    found = relate_sensors(robot.with_sensor(ForceSensor(channels=("Fx", "Fy", "Fz"))))
    turns = any(robot.links[k].kind == "revolute" for k in robot.tree_joints)
    assert bool(found.lost) == turns


@pytest.mark.parametrize("name", ["puma560", "puma562", "rx90"])
def test_two_moments_suffice_for_puma_like_arms(name: str) -> None:
    assert sufficient_channels(load_robot(name)) == (("Mx", "Mz"), ("My", "Mz"))


def test_channels_of_one_joint() -> None:
    assert sufficient_channels(robot_of("1R")) == (("Mz",),)
    assert sufficient_channels(robot_of("P")) == (("Fz",),)


@pytest.mark.parametrize("seed", range(6))
def test_a_moved_and_turned_sensor_with_all_channels_tells_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    robot = small_robot(seed + 1)
    sensor = ForceSensor(position=rng.uniform(-1, 1, 3), rotation=random_rotation(rng), reference=rng.uniform(-1, 1, 3))
    plain, moved = relate_sensors(robot), relate_sensors(robot.with_sensor(sensor))
    assert moved.reaction.names == plain.reaction.names
    assert_allclose(moved.S, plain.S, rtol=0, atol=1e-10)
    sampled = base_parameters(robot.with_sensor(sensor), model="reaction", rotor_inertia=False, tared=True, method="qr")
    assert sampled.names == plain.reaction.names


def test_part_of_a_turned_sensor_goes_by_samples() -> None:
    """A sensor with its z along the first axis' x: what is Mz of frame 0 is its Mx."""
    robot = load_robot("puma560")
    turned = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]).T
    sensor = ForceSensor(rotation=turned, channels=("Mx", "My"))
    found = relate_sensors(robot.with_sensor(sensor))
    assert found.reaction.method == "qr"
    axes = [tuple(np.flatnonzero(np.round(row))) for row in sensor.wrench_to_readings]
    same = relate_sensors(
        robot.with_sensor(ForceSensor(channels=tuple("Fx Fy Fz Mx My Mz".split()[k] for (k,) in axes)))
    )
    assert same.reaction.method == "nullspace"
    assert found.reaction.names == same.reaction.names
    assert found.lost == same.lost


def test_a_moved_sensor_needs_other_channels() -> None:
    """Moments about a point off the first axis mix in forces; all three still tell everything."""
    robot = load_robot("puma562")
    sensor = ForceSensor(position=np.array([0.4, 0.3, -0.2]))
    moments = replace(sensor, channels=("Mx", "My", "Mz"))
    assert not relate_sensors(robot.with_sensor(moments)).lost
    for some in sufficient_channels(robot.with_sensor(sensor)):
        assert not relate_sensors(robot.with_sensor(replace(sensor, channels=some))).lost


def test_counter_rotating_discs_hide_from_the_base() -> None:
    """A gear that turns a disc the other way: no momentum at the base, yet a torque; loops are not covered by S."""
    robot = Robot.from_mdh([{}, {"parent": 0, "d": 0.5}], gravity=(0, 0, 0))
    geared = replace(robot, couplings=(Coupling("2", (("1", -1.0),), 0.0),))
    found = relate_sensors(geared)
    assert found.lost == ("ZZ1",)
    assert sufficient_channels(geared) == ()
    assert found.relations == ("ZZR1: not determined by these channels",)


def test_an_unknown_geared_rotor_leaves_no_set_of_channels() -> None:
    robot = load_robot("puma562").with_sensor(ForceSensor(rotors=(Rotor("2", 60.0),)))
    assert sufficient_channels(robot) == ()
    assert sufficient_channels(load_robot("puma562").with_sensor(ForceSensor(rotors=(Rotor("2", 60.0, 1e-4),))))
