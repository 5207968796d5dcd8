"""Closing loops sample by sample, against the Taylor polynomials of the same equations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid import Motion, Robot, load_robot, regressor
from dynid.dynamics.kernels.closing import BEYOND, REACHED, closure_arrays, write_closure_equations, write_link_poses
from dynid.dynamics.kernels.links import tree_arrays
from dynid.dynamics.kernels.loops import Ways, _add_bend, _add_twist, _write_ways, loop_map
from dynid.dynamics.kernels.threads import thread_count, use_threads
from dynid.dynamics.regressor import regressor_chunks
from dynid.errors import DeadPointError, LoopError, SingularPathError
from dynid.identifiability.numeric import random_samples
from dynid.robot.robot import DIRECTIONS, Closure
from dynid.robot.transform import Transform, freeze
from loops_in_space import four_bar, slider_crank
from random_loops import double_parallelogram, random_loop, robot_of
from random_loops import four_bar as four_bar_table
from robots import random_tree
from taylor_loops import closure_taylor_derivatives


@pytest.mark.parametrize("seed", range(10))
def test_equations_and_their_derivatives(seed: int) -> None:
    rng = np.random.default_rng(seed)
    robot = random_tree(seed, joints=9, fixed_share=0.0)
    names = [robot.links[k].joint for k in robot.tree_joints]
    first, second = rng.choice(names, 2, replace=False)
    points = (freeze(rng.standard_normal(3)), freeze(rng.standard_normal(3)))
    passive = tuple(rng.choice(names, 6, replace=False))
    closure = Closure((str(first), str(second)), DIRECTIONS, passive, points, freeze(np.zeros(6)))
    closed = replace(robot, closures=(closure,))
    q = rng.uniform(-3.0, 3.0, len(names))
    geometry = tree_arrays(closed)
    A, J, pose = np.empty((6, 7)), np.empty((6, len(names))), np.empty(12 * len(geometry.parent))
    write_link_poses(geometry, q, pose)
    write_closure_equations(geometry, closure_arrays(closed, geometry), pose, J, A)
    along = [closure_taylor_derivatives(closed, q[None], e[None], 1)[1][0] for e in np.eye(len(q))]
    assert np.abs(J - np.transpose(along)).max() < 1e-12
    assert np.abs(A[:, 6] - closure_taylor_derivatives(closed, q[None], np.zeros((1, len(q))), 0)[0][0]).max() < 1e-12

    closings = closure_arrays(closed, geometry)
    count = len(closings.way)
    ways = Ways(np.empty((count, 3)), np.empty((4, count, 3)), np.empty((count, 3)), np.empty((count, 3)))
    _write_ways(geometry, closings, pose, ways)
    dual, x, y = rng.standard_normal(6), *rng.standard_normal((2, len(q)))
    bend, twist = np.zeros(len(q)), np.zeros(len(q))
    _add_bend(closings, ways, dual, x, 1.0, bend)
    _add_twist(closings, ways, dual, x, 1.0, twist)
    (_, _, H, T), (_, _, H_back, T_back), (_, _, _, T_y) = (
        [part[0] for part in closure_taylor_derivatives(closed, q[None], way[None], 3)] for way in (x + y, x - y, y)
    )
    assert bend @ y == pytest.approx(dual @ (H - H_back) / 4.0, rel=1e-11, abs=1e-11)
    assert twist @ y == pytest.approx(dual @ (T - T_back - 2.0 * T_y) / 6.0, rel=1e-11, abs=1e-10)


@pytest.mark.parametrize("robot", [slider_crank(0), four_bar(1)], ids=lambda robot: robot.name)
def test_every_sample_closes_whatever_its_neighbours(robot: Robot) -> None:
    loop = loop_map(robot)
    assert loop is not None
    q = np.random.default_rng(3).uniform(-2.5, 2.5, (40, robot.n))
    y = loop._follow_to_closed_loops(q).y
    left = closure_taylor_derivatives(robot, y @ loop.C.T + loop.offset, np.zeros((40, len(loop.C))), 0)[0]
    assert np.abs(left).max() < 1e-11
    assert np.array_equal(y[:, : robot.n], q)
    assert np.array_equal(np.concatenate([loop._follow_to_closed_loops(q[k : k + 1]).y for k in range(40)]), y)


@pytest.mark.parametrize("size", [1e-3, 1.0, 10.0])
@pytest.mark.parametrize("seed", range(9))
def test_loops_close_to_rounding_whatever_their_size(seed: int, size: float) -> None:
    robot = random_loop(seed).robot
    links = tuple(
        replace(link, placement=Transform(link.placement.rotation, size * link.placement.translation))
        for link in robot.links
    )
    slides = {link.joint for link in robot.links if link.kind == "prismatic"}
    closures = tuple(
        replace(
            c,
            points=(freeze(size * c.points[0]), freeze(size * c.points[1])),
            start=freeze(c.start * [size if name in slides else 1.0 for name in c.passive]),
        )
        for c in robot.closures
    )
    scaled = replace(robot, links=links, closures=closures)
    loop = loop_map(scaled)
    assert loop is not None
    y = loop.follow_paths(random_samples(scaled, 100, seed).q).y
    left = np.abs(closure_taylor_derivatives(scaled, y @ loop.C.T + loop.offset, np.zeros((100, len(loop.C))), 0)[0])
    total = sum(float(np.linalg.norm(link.placement.translation)) for link in links) + float(
        np.abs([p for c in closures for p in c.points]).sum()
    )
    places = np.array([name in "xyz" for c in closures for name in c.keep])
    assert left[:, places].max() < 8 * np.finfo(float).eps * (total + np.abs(y[:, scaled.n :]).max() * bool(slides))
    assert left[:, ~places].max(initial=0.0) < 1e-14


PARALLELOGRAM = four_bar_table((0.7, 0.4, 0.7, 0.4), np.pi / 2, 1, [0.0, -9.81, 0.0])


@pytest.mark.parametrize(("there", "error"), [
    (1e-3, None), (0.0, DeadPointError), (1e-8, DeadPointError), (-0.01, SingularPathError), (-2.0, SingularPathError),
    (3.14, None), (np.pi, DeadPointError), (3.3, SingularPathError),
])  # fmt: skip
def test_a_motion_through_a_singular_position_is_refused(there: float, error: type[LoopError] | None) -> None:
    robot = robot_of(PARALLELOGRAM)
    q = np.array([[1.5], [0.8], [there]])
    motion = Motion(np.array([0.0, 0.1, 0.2]), q, np.ones((3, 1)), np.ones((3, 1)))
    if error is None:
        assert np.isfinite(regressor(robot, motion).matrix).all()
        return
    with pytest.raises(error, match=r"sample 2 \(t = 0.2 s\)") as raised:
        regressor(robot, motion)
    assert raised.type is error


def test_two_parallelograms_that_fold_at_once_are_refused() -> None:
    """The determinant of both has the same sign again."""
    robot = double_parallelogram(np.random.default_rng(3)).robot
    loop = loop_map(robot)
    assert loop is not None
    both = -loop.at
    assert loop.follow_paths(both[None]).end[0] == BEYOND
    assert loop.follow_paths(0.9 * loop.at[None]).end[0] == REACHED


def test_outside_the_workspace_is_said_so() -> None:
    robot = robot_of(four_bar_table((1.0, 0.9, 0.4, 0.3), 0.1, 1, [0.0, -9.81, 0.0]))
    q = np.array([[0.1], [2.0]])
    with pytest.raises(LoopError, match="cannot close at sample 1") as raised:
        regressor(robot, Motion(np.arange(2.0), q, q, q))
    assert raised.type is LoopError


def test_a_crank_may_turn_for_long() -> None:
    robot = load_robot("slider_crank")
    turns = np.array([[0.3], [2.0], [5.0]])
    still = np.ones_like(turns)
    near, far = (
        regressor(robot, Motion(np.arange(3.0), turns + shift, still, still)).matrix for shift in (0.0, -200 * np.pi)
    )
    np.testing.assert_allclose(near, far, atol=1e-12)


@pytest.mark.parametrize("seed", [3, 6, 7, 8])
def test_rows_do_not_depend_on_chunks_or_threads(seed: int) -> None:
    robot = random_loop(seed).robot
    motion = random_samples(robot, 2100, 2)
    whole = regressor(robot, motion).matrix
    parts = np.concatenate([part.matrix for part in regressor_chunks(robot, motion, size=177)])
    assert np.array_equal(whole, parts)
    before = thread_count()
    use_threads(3)
    try:
        assert np.array_equal(whole, regressor(robot, motion).matrix)
    finally:
        use_threads(before)
