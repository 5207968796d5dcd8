"""Laws of the drawing: bones join the frames, whatever the robot does."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid import bundled_robots, load_robot
from dynid.dynamics.kernels.links import link_poses
from dynid.dynamics.kernels.loops import loop_map
from dynid.errors import DynidError
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from dynid.viewer.scene import LARGE_RESIDUAL, SMALL_RESIDUAL, find_tool_link, make_skeleton, residual_colour
from dynid.viewer.server import initial_positions, limit_texts, make_joint_path, tree_positions
from robots import random_tree


def in_base(robot: Robot, q: Array, link: int, points: Array) -> Array:
    poses = link_poses(robot, q)
    return np.asarray(points @ poses.rotation[link][0].T + poses.position[link][0])


@pytest.mark.parametrize("seed", range(6))
def test_bones_join_frames_of_revolute_joints_and_rails_hold_slides(seed: int) -> None:
    robot = random_tree(seed)
    q = np.random.default_rng(seed).uniform(-1.0, 1.0, (40, len(robot.tree_joints)))
    skeleton = make_skeleton(robot, q)
    for sample in q[:3]:
        poses = link_poses(robot, sample[None])
        for k, link in enumerate(robot.links):
            bones = in_base(robot, sample[None], link.parent, skeleton.bones[link.parent].reshape(-1, 3))
            segments = bones.reshape(-1, 2, 3)
            along = segments[:, 1] - segments[:, 0]
            share = np.einsum("si,si->s", poses.position[k][0] - segments[:, 0], along) / (along**2).sum(axis=1)
            nearest = segments[:, 0] + np.clip(share, 0.0, 1.0)[:, None] * along
            assert np.linalg.norm(nearest - poses.position[k][0], axis=1).min() < 1e-9, link.joint


@pytest.mark.parametrize("name", bundled_robots())
def test_every_bundled_robot_can_be_drawn_at_rest(name: str) -> None:
    robot = load_robot(name)
    q = tree_positions(initial_positions(robot)[None], loop_map(robot))
    skeleton = make_skeleton(robot, q)
    assert 0.1 <= skeleton.reach < 20.0
    assert all(np.isfinite(segments).all() for segments in (*skeleton.bones.values(), *skeleton.axes.values()))
    assert set(skeleton.axes) == set(robot.tree_joints)


def test_the_rod_of_a_closed_loop_ends_on_the_slider() -> None:
    robot = load_robot("slider_crank")
    q = np.linspace(0.0, 6.0, 50)[:, None]
    path = make_joint_path(robot, np.linspace(0.0, 1.0, 50), q)
    skeleton = make_skeleton(robot, path.q)
    for time in (0.0, 0.37, 1.0):
        rod = in_base(robot, path.positions_at(time), 1, skeleton.bones[1][0])
        assert_allclose(rod[1, :2], link_poses(robot, path.positions_at(time)).position[2][0, :2], atol=2e-3)


def test_a_path_is_thinned_but_keeps_its_ends() -> None:
    robot = load_robot("one_link")
    t = np.linspace(3.0, 5.0, 20_001)
    path = make_joint_path(robot, t, np.sin(t)[:, None])
    assert len(path.t) == 101
    assert path.duration == pytest.approx(2.0)
    assert_allclose(path.q[[0, -1], 0], np.sin([3.0, 5.0]))
    assert_allclose(path.positions_at(1.0), [[np.sin(4.0)]], atol=1e-4)


def test_samples_that_are_none_are_passed_over() -> None:
    t = np.array([0.0, 1.0, np.nan, 1.0, 0.5, 2.0, 3.0])
    q = np.array([0.0, 1.0, 9.0, 9.0, 9.0, np.nan, 3.0])
    path = make_joint_path(load_robot("one_link"), t, q[:, None])
    assert_allclose(path.q[:, 0], path.t, atol=1e-12)
    assert path.duration == 3.0


def test_a_path_of_nothing_is_refused() -> None:
    with pytest.raises(DynidError, match="two samples"):
        make_joint_path(load_robot("one_link"), np.zeros(1), np.zeros((1, 1)))


def test_joints_are_coloured_by_their_residual() -> None:
    assert residual_colour(0.0) == SMALL_RESIDUAL
    assert residual_colour(3.0) == residual_colour(-99.0) == LARGE_RESIDUAL
    assert len({residual_colour(x) for x in (0.0, 1.0, 2.0, 3.0, np.nan)}) == 5


def test_joints_at_and_beyond_their_limits_are_named() -> None:
    robot = load_robot("panda")
    low, high = robot.limits.position.T
    q = 0.5 * (low + high)
    assert limit_texts(robot, q) == {}
    q[1], q[3] = high[1] - 1e-3, low[3] - 0.1
    links = robot.active_links
    assert limit_texts(robot, q) == {links[1]: "at its upper limit", links[3]: "beyond its lower limit"}


def test_the_tool_is_at_the_end_of_the_longest_chain() -> None:
    assert find_tool_link(load_robot("panda")) == 6
    for seed in range(5):
        robot = random_tree(seed)
        depths = []
        for k in range(len(robot.links)):
            depth, link = 0, k
            while link >= 0:
                depth, link = depth + 1, robot.links[link].parent
            depths.append(depth)
        assert depths[find_tool_link(robot)] == max(depths)
