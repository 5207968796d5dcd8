"""U X gives the torques, and U spans what the regressor of known geometry spans."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dynid import Robot, base_parameters, load_robot, model_parameters, regressor
from dynid.robot.transform import Array
from random_tables import random_table
from robots import random_motion, random_tree, smooth_path

MODELS = ("torque", "momentum", "lagrangian_gradient")


def without_rotors(robot: Robot) -> Robot:
    values = [0.0 if name.startswith("Ia") else x
              for name, x in zip(robot.parameter_names, robot.parameters, strict=True)]  # fmt: skip
    return robot.with_parameters(np.array(values))


def outside(A: Array, B: Array) -> float:
    """How much of the columns of A, each of length 1, lies outside the span of B's."""
    A = A / np.linalg.norm(A, axis=0)
    return float(np.abs(A - B @ np.linalg.lstsq(B, A, rcond=None)[0]).max())


@pytest.mark.parametrize("block", range(4))
def test_model_parameters_reproduce_torques_momenta_and_gradients(block: int) -> None:
    """X of the true geometry and inertias, 60 random tables, to 1e-9."""
    for seed in range(15 * block, 15 * block + 15):
        robot, unknown = random_table(1000 + seed)
        rotor = bool(seed % 2)
        robot = robot if rotor else without_rotors(robot)
        found = model_parameters(robot, unknown=unknown, rotor_inertia=rotor)
        motion = random_motion(robot, samples=20, seed=seed)
        X = found.values()
        for model in MODELS:
            expected = regressor(robot, motion, model=model).matrix @ robot.parameters
            got = found.regressor(motion, model=model).matrix @ X
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("seed", range(6))
def test_robots_without_a_table_are_turned_into_one(seed: int) -> None:
    """Serial robots about arbitrary axes; parameters live in the frames of to_mdh()."""
    robot = without_rotors(random_tree(seed, joints=3, serial=True))
    found = model_parameters(robot, unknown=("d", "r"))
    motion = random_motion(robot, samples=10)
    expected = regressor(robot, motion).matrix @ robot.parameters
    np.testing.assert_allclose(found.regressor(motion).matrix @ found.values(), expected, rtol=1e-9, atol=1e-8)


def test_a_tree_of_links() -> None:
    robot = without_rotors(random_tree(3, joints=4))
    found = model_parameters(robot, unknown=("d",))
    motion = random_motion(robot, samples=10)
    expected = regressor(robot, motion).matrix @ robot.parameters
    np.testing.assert_allclose(found.regressor(motion).matrix @ found.values(), expected, rtol=1e-9, atol=1e-8)


def test_the_choice_writes_the_lagrangian_exactly() -> None:
    """Every row of B is the sum of chosen rows that the functions say, in rational numbers."""
    checked = 0
    for seed in range(40):
        robot, unknown = random_table(2000 + seed)
        found = model_parameters(robot, unknown=unknown)
        if not found.form.is_rational:
            continue
        checked += 1
        for k, row in enumerate(found.form.entries):
            total: dict[int, Fraction] = {}
            for function, chosen in zip(found.choice.functions, found.choice.rows, strict=True):
                for column, x in chosen.items() if k in function else ():
                    total[column] = total.get(column, Fraction(0)) + function[k] * x
            assert {c: x for c, x in total.items() if x} == {c: sum(entry.values()) for c, entry in row.items()}
    assert checked >= 15


def test_known_geometry_gives_the_base_parameters_span() -> None:
    """PUMA 560: 36 columns that span what 36 base columns span, and X = M V with M upper block triangular."""
    robot = load_robot("puma560")
    found = model_parameters(robot, unknown=())
    base = base_parameters(robot, rotor_inertia=False)
    motion = random_motion(robot, samples=60)
    U = found.regressor(motion).matrix
    W = regressor(robot, motion, rotor_inertia=False).matrix[:, list(base.kept)]
    assert U.shape == W.shape
    assert outside(U, W) < 1e-9
    assert outside(W, U) < 1e-9
    M = found.matrix()
    links = np.array([int(name[-1]) for name in robot.parameter_names])
    for level, row in zip(found.level, M, strict=True):
        assert not row[links < level].any()
    assert np.linalg.matrix_rank(M) == 36


@pytest.mark.parametrize("name", ["puma560", "gautier3", "scara", "iiwa"])
def test_unknown_geometry_spans_every_geometry(name: str) -> None:
    """One U contains the regressors of the robot with other lengths."""
    robot = load_robot(name)
    unknown = tuple(robot.symbols) or ("d", "r")
    found = model_parameters(robot, unknown=unknown)
    motion = random_motion(robot, samples=60)
    U = found.regressor(motion).matrix
    assert np.linalg.matrix_rank(U) == found.count
    rng = np.random.default_rng(0)
    for scale in (1.0, rng.uniform(0.2, 3.0)):
        other = scaled(robot, scale)
        kept = list(base_parameters(other, rotor_inertia=False).kept)
        W = regressor(other, motion, rotor_inertia=False).matrix[:, kept]
        assert outside(W, U) < 1e-9


def scaled(robot: Robot, factor: float) -> Robot:
    """All lengths longer."""
    rows = []
    for link in robot.links:
        assert link.mdh is not None
        letters = {x: getattr(link.mdh, x).value for x in ("gamma", "alpha", "theta")}
        lengths = {x: factor * getattr(link.mdh, x).value for x in ("b", "d", "r")}
        rows.append({"type": link.kind, "parent": link.parent + 1, **letters, **lengths})
    bare = Robot.from_mdh(rows, gravity=robot.gravity)
    links = tuple(replace(a, zero=b.zero) for a, b in zip(bare.links, robot.links, strict=True))
    return replace(bare, links=links)


def test_u_is_upper_block_triangular_and_its_support_says_so() -> None:
    found = model_parameters(load_robot("puma560"), unknown=("d", "r"))
    result = found.regressor(random_motion(found.robot, samples=20))
    rows = result.matrix.reshape(20, 6, found.count)
    assert result.columns == found.names
    assert result.channels == found.robot.joint_names
    assert not rows[:, ~result.support].any()
    for i in range(6):
        assert not result.support[i, np.array(found.level) <= i].any()
    assert found.names[-1] == f"X6_{found.blocks[-1]}"


def test_the_integral_form_closes_along_a_path() -> None:
    """[dF/dqd] - integral of dF/dq = integral of U, by Simpson's rule, to 1e-8."""
    found = model_parameters(load_robot("puma560"), unknown=("D3", "R3", "D4", "R4"))
    t = np.linspace(0.0, 1.0, 2001)
    path = smooth_path(found.robot, t)
    weights = np.ones(len(t))
    weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
    weights *= (t[1] - t[0]) / 3.0
    shape = (len(t), 6, found.count)
    U, p, s = (found.regressor(path, model=model).matrix.reshape(shape) for model in MODELS)
    left = p[-1] - p[0] - np.einsum("k,kij->ij", weights, s)
    np.testing.assert_allclose(left, np.einsum("k,kij->ij", weights, U), atol=1e-8)


def test_chunks_and_given_arrays_hold_the_same_rows() -> None:
    found = model_parameters(load_robot("scara"), unknown=("A1", "A2"))
    motion = random_motion(found.robot, samples=50)
    whole = found.regressor(motion).matrix
    parts = [chunk.matrix for chunk in found.chunks(motion, size=7)]
    np.testing.assert_array_equal(np.vstack(parts), whole)
    out = np.full((50, 4, 6), np.nan)
    found.write(motion, out)
    np.testing.assert_array_equal(out.reshape(-1, 6), whole)


def test_columns_are_well_conditioned_on_random_motions() -> None:
    """Readable functions are also usable ones: columns of length 1 have a condition number below 100."""
    for name in ("puma560", "ur10", "rx90"):
        robot = load_robot(name)
        U = model_parameters(robot, unknown=("d", "r")).regressor(random_motion(robot, samples=100)).matrix
        assert np.linalg.cond(U / np.linalg.norm(U, axis=0)) < 100.0
