"""The user's choice of kept parameters: laws over random robots, methods, loops and reactions; the best for a log."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dynid import DynidError, Motion, Robot, base_parameters, load_robot, simulate
from dynid.identifiability.base_parameters import condition_number, log_factor
from dynid.identifiability.numeric import Question, model_matrix, random_samples
from dynid.robot.transform import Array
from random_tables import random_table


def rows_of(robot: Robot, model: str = "torque", samples: int = 60, friction: tuple[str, ...] = ()) -> Array:
    """Rows of a model at random samples, over all columns."""
    question = Question(robot, model, True, False, friction)
    return model_matrix(question, random_samples(robot, samples, seed=3))


def first_independent(W: Array, order: list[int], left_out: set[int]) -> list[int]:
    """Brute force: a column is kept where it raises the rank of those before it."""
    size = np.linalg.norm(W, axis=0)
    kept: list[int] = []
    for k in order:
        if k in left_out or size[k] < 1e-10 * size.max():
            continue
        A = W[:, [*kept, k]] / size[[*kept, k]]
        if np.linalg.svd(A, compute_uv=False)[-1] > 1e-8:
            kept.append(k)
    return kept


@pytest.mark.parametrize("model", ["torque", "reaction", "momentum", "torque+reaction"])
@pytest.mark.parametrize("seed", range(6))
def test_kept_are_the_first_independent_columns_in_the_preferred_order(seed: int, model: str) -> None:
    robot, _ = random_table(seed)
    rng = np.random.default_rng(seed)
    names = robot.parameter_names
    chosen = rng.permutation(len(names))[: rng.integers(1, len(names) + 1)].tolist()
    base = base_parameters(robot, model=model, prefer=tuple(names[k] for k in chosen))
    W = rows_of(robot, model)
    if not W.any():
        assert base.kept == ()
        return
    order = chosen + [k for k in range(len(names)) if k not in chosen]
    known = {k for k, name in enumerate(names) if name in robot.known_zeros}
    assert list(base.kept) == first_independent(W, order, known)
    X = np.where(np.isin(names, list(robot.known_zeros)), 0.0, robot.parameters)
    np.testing.assert_allclose(W[:, base.kept] @ base.values(X), W @ X, rtol=1e-10, atol=1e-10 * abs(W @ X).max())


@pytest.mark.parametrize("seed", range(8))
def test_change_of_basis_between_any_two_choices(seed: int) -> None:
    robot, _ = random_table(seed + 100)
    rng = np.random.default_rng(seed)
    names, X = robot.parameter_names, robot.parameters
    one, two = (base_parameters(robot, prefer=tuple(rng.permutation(names))) for _ in range(2))
    T, back = one.change_of_basis(two), two.change_of_basis(one)
    np.testing.assert_allclose(T @ two.values(X), one.values(X), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(T @ two.matrix, one.matrix, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(T @ back, np.eye(one.count), atol=1e-11)
    plain = base_parameters(robot)
    np.testing.assert_allclose(one.minimum_norm(one.values(X)), plain.minimum_norm(plain.values(X)), atol=1e-10)


@pytest.mark.parametrize("method", ["qr", "svd", "nullspace", "rules", "exact"])
def test_every_method_makes_the_same_choice(method: str) -> None:
    robot = load_robot("puma560")
    prefer = ("M6", "YY2", "MZ3", "Ia1", "ZZ1")
    base = base_parameters(robot, method=method, prefer=prefer)
    assert base.names[:4] == ("M6", "YY2", "MZ3", "Ia1")
    assert "ZZ1" in base.regrouped  # it shows in sums with Ia1 only, which is preferred
    assert base.count == 40
    X = np.where(np.isnan(robot.parameters), 0.0, robot.parameters)
    W = rows_of(robot, samples=30)
    np.testing.assert_allclose(W[:, base.kept] @ base.values(X), W @ X, rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(base.matrix, base_parameters(robot, prefer=prefer).matrix, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "model"), [("hpr", "torque"), ("slider_crank", "torque"), ("slider_crank", "reaction")]
)
def test_loops_and_their_reactions(name: str, model: str) -> None:
    robot = load_robot(name)
    plain = base_parameters(robot, model=model)
    prefer = plain.regrouped[::-1]
    base = base_parameters(robot, model=model, prefer=prefer)
    assert base.names[0] == prefer[0]
    assert base.count == plain.count
    assert base.certificate is not None
    W = rows_of(robot, model)
    X = np.where(np.isnan(robot.parameters), 0.3, robot.parameters)
    X = np.where(np.isin(robot.parameter_names, list(robot.known_zeros)), 0.0, X)
    known = {k for k, column in enumerate(robot.parameter_names) if column in robot.known_zeros}
    order = [base.columns.index(column) for column in prefer]
    assert list(base.kept) == first_independent(W, order + [k for k in range(W.shape[1]) if k not in order], known)
    np.testing.assert_allclose(W[:, base.kept] @ base.values(X), W @ X, rtol=1e-9, atol=1e-9 * abs(W @ X).max())


def test_symbols_stay_in_the_relations() -> None:
    base = base_parameters(load_robot("puma560"), prefer=("M6", "MZ4"))
    assert base.relations[0] == "MR6 = M6 + 1/D4*MX3 + M4 + M5"
    assert base.relations[1] == "MZR4 = MZ4 - R4/D4*MX3 + MY3"
    loop = base_parameters(load_robot("hpr"), prefer=("M6",))
    assert loop.relations[0] == "MR6 = M6 + 1/R6*(MY4 + MZ6) + M7"


def test_minimum_norm_is_the_projection_on_the_row_space() -> None:
    """X_M = V1 V1' X, V1 from the SVD of sampled rows (Gautier 1991): 1e-9."""
    robot, _ = random_table(2)
    X = np.array(robot.parameters)
    base = base_parameters(robot)
    W = rows_of(robot)
    W[:, [base.columns.index(name) for name in base.known]] = 0.0
    V1 = np.linalg.svd(W)[2][: base.count].T
    np.testing.assert_allclose(base.minimum_norm(base.values(X)), V1 @ (V1.T @ X), atol=1e-9)


def test_friction_columns_take_part() -> None:
    robot = load_robot("puma560")
    base = base_parameters(robot, method="qr", friction=("viscous",), prefer=("Fv2", "YY3"))
    assert base.names[:2] == ("Fv2", "YY3")


def periodic_motion(robot: Robot) -> Motion:
    """Sines of several frequencies."""
    t = np.linspace(0.0, 10.0, 400)
    w = np.asarray(0.2 * np.pi * (1.0 + np.arange(robot.n) % 4), dtype=np.float64)
    angle = t[:, None] * w + np.arange(robot.n)
    return Motion(t, np.sin(angle), w * np.cos(angle), -(w**2) * np.sin(angle))


@pytest.mark.parametrize("seed", [5, 7])
def test_set_for_a_log_is_the_best_conditioned_of_all(seed: int) -> None:
    """Against all independent sets of small robots: within 10 % of the best, and never worse than standard order."""
    robot, _ = random_table(seed, joints=2)
    motion = periodic_motion(robot)
    plain, base = base_parameters(robot), base_parameters(robot, prefer="data", log=motion)
    R = log_factor(base.question, motion)
    effect = [k for k in range(R.shape[1]) if plain.regrouping.matrix[:, k].any()]
    best = min(
        (condition_number(R, some) for some in itertools.combinations(effect, plain.count)), default=np.inf
    )  # fmt: skip
    reached = condition_number(R, base.kept)
    assert reached <= condition_number(R, plain.kept) * (1 + 1e-12)
    assert reached <= 1.1 * best
    base.change_of_basis(plain)


def test_log_without_velocities_gives_nearly_the_motion() -> None:
    robot = load_robot("scara")
    motion = periodic_motion(robot)
    log = simulate(robot, motion, seed=0)
    log_base = base_parameters(robot, prefer="data", log=log)
    R = log_factor(log_base.question, motion)
    best = condition_number(R, base_parameters(robot, prefer="data", log=motion).kept)
    assert condition_number(R, log_base.kept) < 1.05 * best


def test_mistakes_are_told_in_one_line() -> None:
    robot = load_robot("puma560")
    with pytest.raises(DynidError, match="'MX9' is not a parameter of 'puma560'"):
        base_parameters(robot, prefer=("MX9",))
    with pytest.raises(DynidError, match="belong together"):
        base_parameters(robot, prefer="data")
    with pytest.raises(DynidError, match="belong together"):
        base_parameters(robot, prefer=("MX5",), log=periodic_motion(robot))
    with pytest.raises(DynidError, match="the log has 4 joints"):
        base_parameters(robot, prefer="data", log=periodic_motion(load_robot("scara")))
    with pytest.raises(DynidError, match="do not span"):
        base_parameters(robot).change_of_basis(base_parameters(robot, model="momentum"))
    with pytest.raises(DynidError, match="40 base parameters"):
        base_parameters(robot).minimum_norm(np.zeros(66))
    silent = base_parameters(robot, prefer=("XX1", "YY2"))
    assert [w.code for w in silent.warnings] == ["preferred_without_effect"]
    assert silent.names[0] == "YY2"
    assert base_parameters(robot, prefer=("YY2", "XX2", "YY2")).names[0] == "YY2"
    assert base_parameters(robot, prefer="YY2").names[0] == "YY2"
