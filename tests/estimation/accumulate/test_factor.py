"""Triangular factors say of rows all that least squares needs, in whatever order and pieces they come."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from dynid.estimation.accumulate.factor import ChannelFactor, merge_factors, triangularise
from dynid.robot.transform import Array
from frictions import PLAIN, log_of, torque, with_friction
from robots import random_motion, random_tree


def random_rows(rows: int, columns: int, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((rows, columns)) * np.logspace(-3.0, 3.0, columns)


def same(left: ChannelFactor, right: ChannelFactor, tolerance: float = 1e-12) -> None:
    """Equal up to the signs of rows: the same cross products, relative to the columns' sizes."""
    size = np.linalg.norm(right.R, axis=0)
    assert_allclose(
        left.R.T @ left.R / np.outer(size, size), right.R.T @ right.R / np.outer(size, size), atol=tolerance
    )
    assert left.count == right.count
    assert_allclose(left.total, right.total, rtol=1e-12, atol=1e-9 * abs(size[-1]))


@pytest.mark.parametrize("sizes", [(40, 50, 60), (1, 2, 3), (0, 30, 1), (500, 0, 0)])
def test_merging_is_associative_and_commutative(sizes: tuple[int, int, int]) -> None:
    a, b, c = (ChannelFactor.from_rows(random_rows(size, 8, seed)) for seed, size in enumerate(sizes))
    whole = ChannelFactor.from_rows(np.concatenate([random_rows(size, 8, seed) for seed, size in enumerate(sizes)]))
    for factor in (
        merge_factors([a, b, c]),
        merge_factors([merge_factors([a, b]), c]),
        merge_factors([a, merge_factors([b, c])]),
        merge_factors([c, b, a]),
    ):
        same(factor, whole)
        assert len(factor.R) <= 8 or len(factor.R) <= sum(sizes)


def test_a_hundred_pieces_are_the_whole() -> None:
    rows = random_rows(5000, 12)
    bounds = np.sort(np.random.default_rng(1).integers(0, len(rows), 99))
    same(
        merge_factors([ChannelFactor.from_rows(part) for part in np.split(rows, bounds)]), ChannelFactor.from_rows(rows)
    )


def test_squares_of_the_residual_are_the_sum_over_rows() -> None:
    rows = random_rows(300, 7, 3)
    factor = ChannelFactor.from_rows(rows)
    x = np.random.default_rng(4).standard_normal(6)
    W, y = rows[:, :-1], rows[:, -1]
    assert_allclose(factor.residual_squares(x), ((y - W @ x) ** 2).sum(), rtol=1e-12)
    assert_allclose(factor.sum_of_squares, (y**2).sum(), rtol=1e-12)
    assert_allclose(factor.sum_of_squares_about_mean, ((y - y.mean()) ** 2).sum(), rtol=1e-10)
    assert_allclose(ChannelFactor.empty(6).sum_of_squares_about_mean, 0.0)


def test_selected_columns_are_those_of_the_rows() -> None:
    rows = random_rows(300, 7, 5)
    chosen = np.array([4, 0, 2])
    same(ChannelFactor.from_rows(rows).select_columns(chosen), ChannelFactor.from_rows(rows[:, [4, 0, 2, 6]]))


@pytest.mark.parametrize("friction", [(), pytest.param(PLAIN, marks=pytest.mark.slow)])
def test_a_hundred_logs_give_the_result_of_one(friction: tuple[str, ...]) -> None:
    robot = with_friction(random_tree(3, joints=4), 3)
    motion = random_motion(robot, samples=3000, seed=1)
    tau = torque(robot, motion) + np.random.default_rng(0).standard_normal((3000, robot.n))
    parts = [motion[30 * k : 30 * (k + 1)] for k in range(100)]
    logs = [log_of(part, tau[30 * k : 30 * (k + 1)], f"log {k}") for k, part in enumerate(parts)]
    one = dynid.identify(robot, log_of(motion, tau), friction=friction, intervals="white")
    many = dynid.identify(robot, logs, friction=friction, intervals="white")
    assert many.names == one.names
    assert_allclose(many.values, one.values, rtol=1e-10, atol=1e-10)
    assert_allclose(many.sigma, one.sigma, rtol=1e-10)
    assert_allclose(many.nrmse, one.nrmse, rtol=1e-10)
    assert_allclose(many.condition, one.condition, rtol=1e-9)


def test_the_blocks_of_many_logs_stay_few() -> None:
    """Memory is bounded however many logs there are: beyond some number they keep one or two blocks each."""
    from dynid.estimation.accumulate.logs import collect_logs
    from dynid.estimation.accumulate.one_pass import MOST_BLOCKS
    from dynid.estimation.options import Options

    robot = random_tree(3, joints=2)
    motions = [random_motion(robot, samples=20, seed=seed) for seed in range(100)]
    logs = [log_of(motion, torque(robot, motion)) for motion in motions]  # 20 s each: 2000 blocks of a second
    state = collect_logs(robot, logs, Options(friction=()))
    assert len(state.blocks) <= 4 * MOST_BLOCKS
    assert sum(block.factors[0].count for block in state.blocks) == 100 * 20
    assert {block.log for block in state.blocks} == set(range(100))


@pytest.mark.parametrize("columns", [20, 31, 50])
@pytest.mark.parametrize("rows", [768, 1000, 2500])
def test_long_matrices_are_triangularised_in_chunks_like_whole_ones(rows: int, columns: int) -> None:
    """Also with a column of zeros and one that is the sum of two others; against numpy's QR, to 1e-12."""
    x = random_rows(rows, columns)
    x[:, 3], x[:, 7] = 0.0, x[:, 5] + x[:, 6]
    R = triangularise(x)
    assert R.shape == (columns, columns)
    assert not np.tril(R, -1).any()
    whole = np.asarray(np.linalg.qr(x, mode="r"))
    size = np.linalg.norm(x, axis=0) + (np.arange(columns) == 3)
    assert_allclose(R.T @ R / np.outer(size, size), whole.T @ whole / np.outer(size, size), atol=1e-13)
