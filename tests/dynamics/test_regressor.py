"""The front door to the models: shapes, chunks, threads, structure."""

from __future__ import annotations

import numpy as np
import pytest

from dynid import Motion, Robot, load_robot, regressor, regressor_adjoint, regressor_chunks
from dynid.dynamics.kernels import threads
from dynid.dynamics.regressor import MODELS
from dynid.dynamics.scene import standard_columns
from loops_in_space import slider_crank
from robots import coupled_tree, random_motion, random_tree

CHANNELS = {"torque": 6, "static": 6, "energy": 1, "power": 1, "momentum": 6, "lagrangian_gradient": 6, "reaction": 6}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("rotor_inertia", [True, False])
def test_shapes_and_names(model: str, rotor_inertia: bool) -> None:
    robot = load_robot("puma560")
    W = regressor(robot, random_motion(robot, samples=7), model=model, rotor_inertia=rotor_inertia)
    samples = 6 if model == "energy" else 7
    assert len(W.channels) == CHANNELS[model]
    assert W.matrix.shape == (samples * CHANNELS[model], 66 if rotor_inertia else 60)
    names = tuple(n for n in robot.parameter_names if rotor_inertia or not n.startswith("Ia"))
    assert W.columns == names == standard_columns(robot, rotor_inertia=rotor_inertia).names


def test_rotors_add_to_their_own_row_only() -> None:
    robot = load_robot("puma560")
    motion = random_motion(robot)
    W = regressor(robot, motion)
    rows = W.matrix.reshape(len(motion), 6, 66)
    for j in range(6):
        expected = np.zeros((len(motion), 6))
        expected[:, j] = motion.a[:, j]
        np.testing.assert_array_equal(rows[:, :, W.columns.index(f"Ia{j + 1}")], expected)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("size", [1, 7, 20, 1000])
def test_chunks_are_the_whole(model: str, size: int) -> None:
    robot = random_tree(4)
    motion = random_motion(robot, samples=20)
    parts = [part.matrix for part in regressor_chunks(robot, motion, model=model, size=size)]
    np.testing.assert_array_equal(np.vstack(parts), regressor(robot, motion, model=model).matrix)
    assert max(map(len, parts)) <= size * len(regressor(robot, motion, model=model).channels)


@pytest.mark.parametrize("model", MODELS)
def test_threads_change_nothing(model: str) -> None:
    robot = random_tree(5, joints=4)
    motion = random_motion(robot, samples=3000)
    before = threads.thread_count()
    found = []
    for count in (1, 3):
        threads.use_threads(count)
        W = regressor(robot, motion, model=model).matrix
        found.append((W, *regressor_adjoint(robot, motion, W, model=model)))
    threads.use_threads(before)
    for one, three in zip(*found, strict=True):
        np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", ["tree", "coupled", "closed", "floating"])
def test_outside_the_support_there_are_zeros_and_inside_there_are_none_too_many(model: str, kind: str) -> None:
    robots: dict[str, Robot] = {
        "tree": random_tree(6),
        "coupled": coupled_tree(6),
        "closed": slider_crank(1),
        "floating": random_tree(6, floating=True),
    }
    robot = robots[kind]
    if model == "reaction" and robot.floating:
        pytest.skip("a floating base has no reactions")
    W = regressor(robot, random_motion(robot, samples=20, spread=0.5), model=model)
    nonzero = (W.matrix.reshape(-1, len(W.channels), len(W.columns)) != 0.0).any(axis=0)
    assert not (nonzero & ~W.support).any()
    if kind in ("tree", "floating") and model == "torque":
        inertial = [not name.startswith("Ia") for name in W.columns]
        blocks = nonzero[:, inertial].reshape(len(W.channels), -1, 10).any(axis=2)
        assert (blocks == W.support[:, inertial].reshape(len(W.channels), -1, 10).any(axis=2)).all()


def test_samples_are_independent_of_their_neighbours() -> None:
    robot = load_robot("slider_crank")
    q = np.linspace(-3.0, 3.0, 30)[:, None]
    motion = Motion(np.arange(30.0), q, np.ones_like(q), np.zeros_like(q))
    whole = regressor(robot, motion).matrix
    for n in (0, 7, 29):
        alone = regressor(robot, motion[n : n + 1]).matrix
        np.testing.assert_allclose(alone[0], whole[n], rtol=0, atol=1e-9)
