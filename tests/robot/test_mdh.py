"""Any tree as a modified Denavit-Hartenberg table: the same torques to 1e-12."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid import Robot, load_robot, regressor
from dynid.robot.io.toml_writer import table_text
from dynid.robot.mdh import mdh_transform
from dynid.robot.transform import Transform, freeze
from robots import random_motion, random_tree

AXES = [(0, 0, 1), (0, 0, -1), (1, 0, 0), (0, -1, 0), (0.6, 0.8, 0)]


def special_tree(seed: int) -> Robot:
    """Axes parallel, opposite, intersecting, skew; offsets zero or not: where frames are ambiguous."""
    rng = np.random.default_rng(seed)
    robot = random_tree(seed, joints=6, fixed_share=0.0)
    turns = [np.eye(3), np.diag([1.0, -1, -1]), np.array([[0.0, 0, 1], [0, 1, 0], [-1, 0, 0]])]
    links = tuple(
        replace(
            link,
            placement=Transform(turns[rng.integers(3)], freeze(rng.integers(-1, 2, 3) * 0.25)),
            axis=freeze(AXES[rng.integers(len(AXES))]),
        )
        for link in robot.links
    )
    return replace(robot, links=links)


def check_same_torques(robot: Robot, table: Robot, *, models: tuple[str, ...] = ("torque", "reaction")) -> None:
    motion = random_motion(robot, seed=3)
    for model in models:
        mine = regressor(robot, motion, model=model).matrix @ robot.parameters
        theirs = regressor(table, motion, model=model).matrix @ table.parameters
        np.testing.assert_allclose(theirs, mine, rtol=0, atol=1e-12 * max(1.0, np.abs(mine).max()))


@pytest.mark.parametrize("seed", range(60))
def test_random_trees(seed: int) -> None:
    robot = random_tree(seed, fixed_share=0.0, shuffled=seed % 2 == 0)
    table = robot.to_mdh()
    assert all(link.mdh is not None for link in table.links)
    assert table.joint_names == robot.joint_names
    check_same_torques(robot, table)


@pytest.mark.parametrize("seed", range(100))
def test_special_geometry(seed: int) -> None:
    robot = special_tree(seed)
    check_same_torques(robot, robot.to_mdh())


@pytest.mark.parametrize("seed", range(40))
def test_the_first_child_needs_no_gamma_and_b(seed: int) -> None:
    table = special_tree(seed).to_mdh()
    for k in range(len(table.links)):
        first = next((link for link in table.links if link.parent == k), None)
        if first is not None:
            assert first.mdh is not None
            assert abs(first.mdh.gamma.value) <= 1e-9
            assert abs(first.mdh.b.value) <= 1e-9


@pytest.mark.parametrize("seed", range(10))
def test_floating_base(seed: int) -> None:
    robot = random_tree(seed, floating=True, fixed_share=0.0)
    check_same_torques(robot, robot.to_mdh(), models=("torque",))


@pytest.mark.parametrize("seed", range(10))
def test_written_table_gives_the_same_torques(seed: int, tmp_path: Path) -> None:
    robot = random_tree(seed, fixed_share=0.0)
    file = tmp_path / "tree.toml"
    file.write_text(table_text(robot))
    check_same_torques(robot, load_robot(file, snap=False))


def test_a_table_is_its_own_table() -> None:
    robot = load_robot("puma560")
    assert robot.to_mdh() is robot
    for link in robot.links:
        assert link.mdh is not None
        np.testing.assert_array_equal(mdh_transform(link.mdh).rotation, link.placement.rotation)


@pytest.mark.parametrize("angle", [1e-12, 1e-10, 1e-9, 1e-7, 1e-5])
def test_almost_parallel_axes(angle: float) -> None:
    """Their common normal is as far away as 1 / angle: near ones are taken for parallel, with a note."""
    robot = random_tree(3, joints=3, serial=True, fixed_share=0.0)
    tilt = np.array([[1.0, 0, 0], [0, np.cos(angle), -np.sin(angle)], [0, np.sin(angle), np.cos(angle)]])
    second = replace(robot.links[1], placement=Transform(tilt, np.array([0.3, 0.2, 0.1])), axis=freeze([0, 0, 1.0]))
    first = replace(robot.links[0], axis=freeze([0, 0, 1.0]))
    robot = replace(robot, links=(first, second, robot.links[2]))
    table = robot.to_mdh()
    motion = random_motion(robot, seed=3)
    mine, theirs = (regressor(r, motion).matrix @ r.parameters for r in (robot, table))
    bound = angle if angle <= 1e-8 else 1e-15 / angle
    assert np.abs(mine - theirs).max() <= 10 * max(bound, 1e-13) * np.abs(mine).max()
    assert any("treated as parallel" in note for note in table.notes) == (1e-12 < angle <= 1e-8)
