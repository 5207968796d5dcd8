"""Torques that are not of the size of the nominal ones are told with their ratio; those that are, are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid import Log, Robot, State, collect_state, identify, identify_states, load_robot, simulate
from robots import random_tree, smooth_path

T = np.arange(0.0, 20.0, 0.01)


def recorded(robot: Robot, gains: object) -> Log:
    log = simulate(robot, smooth_path(robot, T, seed=1, scale=2.0), noise=1e-3)
    assert log.tau is not None
    return Log(log.t, log.q, v=log.v, a=log.a, tau=log.tau * np.asarray(gains))


def sentence(robot: Robot, gains: object) -> str:
    reasons = identify(robot, recorded(robot, gains), friction=()).verdict.reasons
    return next((text for text in reasons if "masses of the robot file" in text), "")


@pytest.mark.parametrize("seed", range(4))
def test_one_gain_for_all_joints_is_told(seed: int) -> None:
    robot = random_tree(seed, joints=3, serial=True, fixed_share=0.0)
    text = sentence(robot, 0.1)
    ratios = [float(word.split()[-1]) for word in text.split("(by a factor of ")[1].split(")")[0].split(", ")]
    assert_allclose(ratios, 0.1, atol=0.005)


@pytest.mark.parametrize("gain", [0.5, 1.0, 2.0])
def test_masses_that_are_somewhat_off_are_not(gain: float) -> None:
    for seed in range(3):
        assert sentence(random_tree(seed, joints=3, serial=True, fixed_share=0.0), gain) == ""


def test_a_single_joint_that_differs_is_not() -> None:
    robot = load_robot("gautier3")
    assert sentence(robot, [1.0, 1.0, 0.05]) == ""


def test_unknown_nominal_values_say_nothing() -> None:
    robot = load_robot("gautier3")
    log = recorded(robot, 0.1)
    unknown = replace(robot, links=tuple(replace(link, inertia=np.full(10, np.nan)) for link in robot.links))
    assert not any("masses" in text for text in identify(unknown, log, friction=()).verdict.reasons)


def test_currents_are_told_also_from_a_state_on_disk(tmp_path: Path) -> None:
    robot = load_robot("gautier3")
    log = recorded(robot, 1.0)
    assert log.tau is not None
    names = ["t", *(f"q{j}" for j in (1, 2, 3)), *(f"current{j}" for j in (1, 2, 3))]
    file = tmp_path / "log.csv"
    np.savetxt(file, np.column_stack([log.t, log.q, log.tau]), delimiter=",", header=",".join(names), comments="")
    collect_state(robot, file, friction=()).save(tmp_path / "state.json")
    result = identify_states(State.load(tmp_path / "state.json"))
    assert any("the torques are currents" in text for text in result.warnings)
