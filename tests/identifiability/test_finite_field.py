"""The finite field: its primes, published counts with couplings, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from math import pi

import numpy as np
import pytest
from flint import fmpz

from dynid import Motion, Robot, load_robot, regressor
from dynid.errors import DynidError
from dynid.identifiability.finite_field import PRIMES, find_over_finite_field
from dynid.robot.robot import Coupling
from dynid.robot.transform import Array
from robots import random_tree


def rank_of(W: Array) -> int:
    norms = np.linalg.norm(W, axis=0)
    sigma = np.linalg.svd(W[:, norms > 1e-12] / norms[norms > 1e-12], compute_uv=False)
    return int((sigma > 1e-9 * sigma[0]).sum())


def sampled_count(robot: Robot) -> int:
    """Rank of the torque regressor over many random samples."""
    rng = np.random.default_rng(5)
    q, v, a = rng.uniform(-3.0, 3.0, (3, 400, robot.n))
    return rank_of(regressor(robot, Motion(np.arange(400.0), q, v, a)).matrix)


@pytest.mark.parametrize("p", PRIMES)
def test_primes_carry_whole_millidegrees(p: int) -> None:
    assert fmpz(p).is_prime()
    assert p % 360_000 == 1
    assert fmpz((p - 1) // 360_000).is_prime()


@pytest.mark.parametrize(
    ("name", "rotor_inertia", "count"),
    [("sr400", True, 42), ("hpr", True, 35), ("hpr", False, 32), ("puma560", True, 40), ("rx90", True, 40)],
)
def test_published_counts(name: str, rotor_inertia: bool, count: int) -> None:
    found = find_over_finite_field(load_robot(name), rotor_inertia=rotor_inertia)
    assert found.agree
    assert found.count == len(found.kept) == count


@pytest.mark.parametrize(("name", "count"), [("sr400", 55), ("hpr", 47)])
def test_open_trees_of_the_parallelogram_robots(name: str, count: int) -> None:
    assert find_over_finite_field(replace(load_robot(name), couplings=())).count == count


@pytest.mark.parametrize("factor", [0.5, -1.0, 1.0 / 3.0, 2.0, 1.5])
def test_gears_with_rational_ratios(factor: float) -> None:
    rows = [{"alpha": 0.0}, {"alpha": pi / 2, "d": 0.3}, {"alpha": -pi / 2, "d": 0.2, "r": 0.1}, {"d": 0.4}]
    robot = Robot.from_mdh(rows)
    names = robot.joint_names
    couplings = (
        Coupling(names[2], ((names[0], factor), (names[1], 1.0)), 0.3),
        Coupling(names[3], ((names[2], -1.0),)),
    )
    geared = replace(robot, couplings=couplings)
    found = find_over_finite_field(geared)
    assert found.agree
    assert found.count == sampled_count(geared)


def test_a_rack_drives_a_pinion() -> None:
    robot = Robot.from_mdh([{"type": "prismatic"}, {"alpha": pi / 2, "d": 0.3}, {"alpha": 0.4, "d": 0.2}])
    names = robot.joint_names
    geared = replace(robot, couplings=(Coupling(names[1], ((names[0], 4.0),)),))
    assert find_over_finite_field(geared).count == sampled_count(geared)


@pytest.mark.parametrize("seed", range(6))
def test_arbitrary_axes_and_floating_bases_agree_with_sampling(seed: int) -> None:
    robot = random_tree(seed, joints=4, shuffled=True)
    assert find_over_finite_field(robot).count == sampled_count(robot)
    floating = find_over_finite_field(random_tree(seed, joints=3, floating=True))
    assert floating.agree
    assert floating.kept[:10] == tuple(range(10))


def test_another_seed_gives_the_same_columns() -> None:
    robot = load_robot("panda")
    assert find_over_finite_field(robot, seed=1).kept == find_over_finite_field(robot, seed=2).kept


def test_refusals_name_the_remedy() -> None:
    with pytest.raises(DynidError, match="use method='exact'"):
        find_over_finite_field(load_robot("slider_crank"))
    with pytest.raises(DynidError, match="'energy'"):
        find_over_finite_field(load_robot("puma560"), model="energy")
    with pytest.raises(DynidError, match="floating"):
        find_over_finite_field(load_robot("puma560", floating_base=True), model="reaction")
