"""Closing loops sample by sample, against the Taylor polynomials of the same equations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid import Robot
from dynid.kernel.closing import _equations, _place_links, closings_of
from dynid.kernel.geometry import geometry_of
from dynid.kernel.loops import loop_map
from dynid.robot.loops import DIRECTIONS, Closure
from dynid.robot.transform import freeze
from loops_in_space import four_bar, slider_crank
from robots import random_tree


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
    geometry = geometry_of(closed)
    A, J, pose = np.empty((6, 7)), np.empty((6, len(names))), np.empty(12 * len(geometry.parent))
    _place_links(geometry, q, pose)
    _equations(geometry, closings_of(closed, geometry), pose, J, A)
    loop = loop_map(closed)
    assert loop is not None
    assert np.abs(J - loop._jacobian(q[None])[0]).max() < 1e-12
    assert np.abs(A[:, 6] - loop._series(q[None], np.zeros((1, len(q))), 0)[0][0]).max() < 1e-12


@pytest.mark.parametrize("robot", [slider_crank(0), four_bar(1)], ids=lambda robot: robot.name)
def test_every_sample_closes_whatever_its_neighbours(robot: Robot) -> None:
    loop = loop_map(robot)
    assert loop is not None
    q = np.random.default_rng(3).uniform(-2.5, 2.5, (40, robot.n))
    y = loop._close(q)
    left = loop._series(y @ loop.C.T + loop.offset, np.zeros((40, len(loop.C))), 0)[0]
    assert np.abs(left).max() < 1e-11
    assert np.array_equal(y[:, : robot.n], q)
    assert np.array_equal(np.concatenate([loop._close(q[k : k + 1]) for k in range(40)]), y)
