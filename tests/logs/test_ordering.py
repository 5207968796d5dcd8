"""Positions recorded modulo a turn are made continuous, whatever the chunks."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from dynid.logs.findings import Findings
from dynid.logs.ordering import Unwrapper
from fourier import fourier_motion


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_unwrapping_does_not_depend_on_chunks(chunk: int) -> None:
    q = np.column_stack([np.linspace(0.0, 40.0, 3000), 9.0 * np.sin(np.linspace(0.0, 20.0, 3000))])
    wrapped = (q + np.pi) % (2.0 * np.pi) - np.pi
    turns, found = Unwrapper(np.array([True, True]), 100.0), Findings("x", 100.0)
    parts = [turns.unwrap(wrapped[k : k + chunk], found) for k in range(0, len(q), chunk)]
    assert_allclose(np.concatenate(parts), q, rtol=0.0, atol=1e-12)
    assert found.unwrapped > 6


def test_sliding_joints_and_slow_logs_are_left_alone() -> None:
    q = np.array([[0.0, 0.0], [5.0, 5.0], [0.0, 0.0]])
    assert Unwrapper(np.array([False, False]), 100.0).unwrap(q) is q
    assert Unwrapper(np.array([True, True]), 1.0).unwrap(q) is q


def test_a_wrapped_log_gives_the_same_parameters() -> None:
    robot = dynid.load_robot("gautier3")
    motion = fourier_motion(robot, size=1.5)
    log = dynid.simulate(robot, motion)
    wrapped = dynid.Log(log.t, (log.q + np.pi) % (2.0 * np.pi) - np.pi, tau=log.tau)
    straight = dynid.identify(robot, dynid.Log(log.t, log.q, tau=log.tau), friction=())
    result = dynid.identify(robot, wrapped, friction=())
    assert any("modulo 2 pi" in sentence for _, told in result.findings for sentence in told)
    assert_allclose(result.values, straight.values, rtol=0.0, atol=1e-9)
