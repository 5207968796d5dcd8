"""Solutions equal those of the full matrix; weights, ranks and constraints are what textbooks say."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

import dynid
from dynid.errors import IdentificationError
from dynid.estimation.identification import Identification
from dynid.estimation.solve.least_squares import MANY, NoisyRows, Solution, regroup_above_noise, stack_rows
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from fourier import fourier_motion
from frictions import PLAIN, log_of, plain_matrix, torque, truth, with_friction
from robots import random_tree

Case = tuple[Robot, Motion, Array]


def noisy(name: str = "gautier3", *, size: float = 0.5, seed: int = 0) -> Case:
    """A robot with friction, a motion, and torques with the same relative noise at every joint."""
    robot = with_friction(dynid.load_robot(name))
    motion = fourier_motion(robot, duration=6.0, rate=50.0)
    tau = torque(robot, motion)
    return robot, motion, tau + size * np.random.default_rng(seed).standard_normal(tau.shape)


def full(result: Identification, case: Case) -> tuple[Array, Array]:
    robot, motion, tau = case
    W = plain_matrix(robot, motion, result.names)
    return W.reshape(-1, W.shape[2]), tau.ravel()


def test_ordinary_least_squares_is_that_of_the_full_matrix() -> None:
    case = noisy()
    result = dynid.identify(case[0], log_of(*case[1:]), friction=PLAIN, estimator="ols", intervals="white")
    W, y = full(result, case)
    expected, *_ = np.linalg.lstsq(W, y, rcond=None)
    assert_allclose(result.values, expected, rtol=1e-9, atol=1e-9)
    sigma2 = ((y - W @ expected) ** 2).sum() / (len(y) - len(expected))
    assert_allclose(result.covariance, sigma2 * np.linalg.inv(W.T @ W), rtol=1e-7, atol=1e-12)
    singular = np.linalg.svd(W, compute_uv=False)
    assert_allclose(result.condition, singular[0] / singular[-1], rtol=1e-9)
    assert result.rank == len(expected)


@pytest.mark.parametrize("known", [0, 2])
def test_the_scaled_condition_number_depends_on_no_units(known: int) -> None:
    """That of the columns that are solved for, of length one, in whatever units; some values are known."""
    A = np.random.default_rng(3).standard_normal((30, 6)) @ np.diag([1.0, 1e5, 1.0, 1.0, 1e-4, 1.0])
    A[:, 3] += 50.0 * A[:, 5]
    rest, nothing = A[:, known:], np.zeros(0)
    turned = np.linalg.qr(np.random.default_rng(4).standard_normal((6 - known, 6 - known)))[0]
    for basis in (np.eye(6 - known), turned):
        free = np.concatenate([np.zeros((known, 6 - known)), basis])
        R = np.linalg.qr(rest @ basis)[1]
        solution = Solution(nothing, nothing, free, nothing, R, None, nothing, nothing)
        expected = np.linalg.cond(rest / np.linalg.norm(rest, axis=0))
        assert_allclose(solution.scaled_condition, expected, rtol=1e-6)
        assert np.linalg.cond(rest) > 1e3 * expected


def test_the_noise_of_an_ordinary_fit_is_told_per_channel() -> None:
    robot, motion, tau = noisy(size=0.0)
    tau = tau + np.random.default_rng(1).standard_normal(tau.shape) * [0.01, 0.1, 1.0]
    result = dynid.identify(robot, log_of(motion, tau), friction=PLAIN, estimator="ols")
    freedom = 1.0 - len(result.names) / tau.size
    assert_allclose(result.noise, result.rmse / np.sqrt(freedom), rtol=1e-9)
    assert_allclose(result.noise[2], 1.0, rtol=0.1)


def test_weights_settle_where_the_noise_is_the_deviation_of_the_residual() -> None:
    robot, motion, tau = noisy(size=0.0)
    tau = tau + np.random.default_rng(1).standard_normal(tau.shape) * [0.01, 0.1, 1.0]
    case = robot, motion, tau
    result = dynid.identify(robot, log_of(motion, tau), friction=PLAIN, intervals="white")
    W, y = full(result, case)
    scale = np.tile(1.0 / result.noise, len(motion))
    expected, *_ = np.linalg.lstsq(W * scale[:, None], y * scale, rcond=None)
    assert_allclose(result.values, expected, rtol=1e-8, atol=1e-9)
    residual = (y - W @ result.values).reshape(len(motion), -1)
    freedom = len(motion) - len(expected) / robot.n
    assert_allclose(result.noise, np.sqrt((residual**2).sum(axis=0) / freedom), rtol=3e-4)
    assert_allclose(result.rmse, np.sqrt((residual**2).mean(axis=0)), rtol=1e-9)
    assert_allclose(result.nrmse, np.sqrt((residual**2).mean(axis=0)) / tau.std(axis=0), rtol=1e-9)
    V = W * scale[:, None]
    assert_allclose(result.covariance, np.linalg.inv(V.T @ V), rtol=1e-7, atol=1e-14)


def test_weights_beat_equal_ones_where_channels_differ_a_hundredfold() -> None:
    robot, motion, clean = noisy(size=0.0)
    wins, errors = 0, {"ols": 0.0, "wls": 0.0}
    for seed in range(10):
        tau = clean + np.random.default_rng(seed).standard_normal(clean.shape) * [0.05, 0.5, 5.0]
        squares = {}
        for estimator in errors:
            result = dynid.identify(robot, log_of(motion, tau), friction=PLAIN, estimator=estimator)
            squares[estimator] = float(((result.values - truth(robot, result)) ** 2).sum())
            errors[estimator] += squares[estimator]
        wins += squares["wls"] < squares["ols"]
    assert wins >= 9
    assert errors["wls"] < 0.5 * errors["ols"]


def kkt(W: Array, y: Array, noise: Array, C: Array, d: Array) -> Array:
    """Weighted least squares under C x = d, by its optimality conditions."""
    V, b = W / noise[:, None], y / noise
    p, k = W.shape[1], len(C)
    A = np.block([[V.T @ V, C.T], [C, np.zeros((k, k))]])
    return np.asarray(np.linalg.lstsq(A, np.concatenate([V.T @ b, d]), rcond=None)[0][:p])


@pytest.mark.parametrize(
    ("known", "equal"),
    [
        ({"Fv1": 7.0}, []),
        ({}, [("Fv1", "Fv2")]),
        ({"Fc3": 0.0, "Fv1": 0.5}, [("Fv1", "Fv2"), ("Fo1", "Fo3")]),
        ({"Fv1": 1.0, "Fv2": 1.0}, [("Fv1", "Fv2")]),  # the third follows from the others
        ({"XY3": 0.1, "MY3": -0.2}, [("MX3", "MY2")]),
    ],
)
def test_constraints_hold_and_the_rest_is_optimal(known: dict[str, float], equal: list[tuple[str, str]]) -> None:
    case = noisy()
    result = dynid.identify(case[0], log_of(*case[1:]), friction=PLAIN, known=known, equal=equal)
    for name, value in known.items():
        assert_allclose(result.value(name), value, rtol=0.0, atol=1e-10)
    for left, right in equal:
        assert_allclose(result.value(left), result.value(right), rtol=0.0, atol=1e-10)
    assert [note.code for note in result.notes] == ["one_log", "validation_same_motion"]
    W, y = full(result, case)
    C, d = np.zeros((len(known) + len(equal), len(result.names))), np.zeros(len(known) + len(equal))
    for row, (name, value) in enumerate(known.items()):
        C[row, result.names.index(name)], d[row] = 1.0, value
    for row, (left, right) in enumerate(equal, start=len(known)):
        C[row, result.names.index(left)], C[row, result.names.index(right)] = 1.0, -1.0
    expected = kkt(W, y, np.tile(result.noise, len(case[1])), C, d)
    assert_allclose(result.values, expected, rtol=1e-7, atol=1e-7)


def test_what_is_known_has_no_deviation() -> None:
    case = noisy()
    result = dynid.identify(case[0], log_of(*case[1:]), friction=PLAIN, known={"Fv1": 1.0})
    assert result.sigma[result.names.index("Fv1")] < 1e-12
    assert result.rank == len(result.names) - 1


def test_known_parameters_that_regroup_count_together() -> None:
    """Known ZZ1 alone shows in a sum only; with all the others of the sum, the sum is known."""
    case = robot, motion, tau = noisy()
    free = dynid.identify(robot, log_of(motion, tau), friction=PLAIN)
    base = free.equation.base
    row = base.matrix[base.names.index("ZZ1")]
    terms = [robot.parameter_names[k] for k in np.flatnonzero(row)]
    assert len(terms) > 2
    nominal = dict(zip(robot.parameter_names, robot.parameters, strict=True))
    alone = dynid.identify(robot, log_of(motion, tau), friction=PLAIN, known={"ZZ1": 1e3})
    assert_allclose(alone.values, free.values, rtol=1e-9, atol=1e-9)
    assert any("ZZ1" in note and "alone does not help" in note for note in alone.notes)
    together = dynid.identify(robot, log_of(motion, tau), friction=PLAIN, known={name: nominal[name] for name in terms})
    expected = base.values(robot.parameters)[base.names.index("ZZ1")]
    assert_allclose(together.value("ZZ1"), expected, rtol=0.0, atol=1e-9)
    C = np.zeros((1, len(free.names)))
    C[0, free.names.index("ZZ1")] = 1.0
    W, y = full(together, case)
    oracle = kkt(W, y, np.tile(together.noise, len(motion)), C, np.array([expected]))
    assert_allclose(together.values, oracle, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_true_standard_parameters_never_hurt(seed: int) -> None:
    """Any set of true standard values, regrouped or not, keeps an exact result exact."""
    robot = with_friction(random_tree(seed, joints=4, fixed_share=0.0), seed)
    motion = fourier_motion(robot, seed=seed)
    rng = np.random.default_rng(seed)
    names = rng.choice(robot.parameter_names, 12, replace=False)
    known = {str(name): float(robot.parameters[robot.parameter_names.index(str(name))]) for name in names}
    result = dynid.identify(robot, log_of(motion, torque(robot, motion)), friction=PLAIN, known=known)
    assert_allclose(result.predict(motion), torque(robot, motion), rtol=1e-9, atol=1e-8)


def test_wrong_knowledge_shows_in_the_validation() -> None:
    """Held-out stretches are predicted under the same constraints."""
    case = noisy()
    names = {"XX3": 50.0, "XY3": 50.0, "ZZ3": 50.0, "MY3": -80.0, "MX3": 90.0}
    result = dynid.identify(case[0], log_of(*case[1:]), friction=PLAIN, known=names)
    assert result.validation.mean > 0.5 * np.nanmean(result.nrmse)
    assert result.verdict.level != "good"


def test_held_out_errors_are_those_of_refits_under_the_constraints() -> None:
    from dynid.estimation.inference.jackknife import group_blocks

    robot, motion, tau = noisy()
    result = dynid.identify(robot, log_of(motion, tau), friction=PLAIN, known={"Fv1": 4.0})
    W = plain_matrix(robot, motion, result.names)
    from dynid.estimation.accumulate.logs import collect_logs
    from dynid.estimation.options import Options

    state = collect_logs(robot, [log_of(motion, tau)], Options(friction=PLAIN))
    C = np.zeros((1, len(result.names)))
    C[0, result.names.index("Fv1")] = 1.0
    squares = np.zeros(robot.n)
    for group in group_blocks(state.blocks, 5):
        out = (motion.t >= group[0].start - 1e-9) & (motion.t <= group[-1].stop + 1e-9)
        rows = W[~out].reshape(-1, W.shape[2])
        x = kkt(rows, tau[~out].ravel(), np.tile(result.noise, int((~out).sum())), C, np.array([4.0]))
        squares += ((tau[out] - W[out] @ x) ** 2).sum(axis=0)
    assert_allclose(result.validation.rmse, np.sqrt(squares / len(motion)), rtol=1e-5)


@pytest.mark.parametrize(
    ("known", "equal"),
    [({"Fv1": 1.0, "Fv2": 2.0}, [("Fv1", "Fv2")]), ({"XY3": 0.0, "MY3": 1.0}, [("XY3", "MY3")])],
)
def test_contradictions_are_refused(known: dict[str, float], equal: list[tuple[str, str]]) -> None:
    case = noisy()
    with pytest.raises(IdentificationError, match="contradict"):
        dynid.identify(case[0], log_of(*case[1:]), friction=PLAIN, known=known, equal=equal)


@pytest.mark.parametrize("options", [{"known": {"Fv11": 1.0}}, {"equal": [("Fv1", "Fv11")]}])
def test_unknown_names_are_answered_with_near_ones(options: dict[str, object]) -> None:
    case = noisy()
    with pytest.raises(IdentificationError, match=r"'Fv11'.*Fv1"):
        dynid.identify(case[0], log_of(*case[1:]), friction=PLAIN, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "much", None])
def test_known_values_must_be_numbers(value: object) -> None:
    case = noisy()
    with pytest.raises(IdentificationError, match="finite number"):
        dynid.identify(case[0], log_of(*case[1:]), friction=PLAIN, known={"Fv1": value})  # type: ignore[dict-item]


def test_everything_may_be_known() -> None:
    robot, motion, tau = noisy()
    nominal: dict[str, float] = dict(zip(robot.parameter_names, map(float, robot.parameters), strict=True))
    result = dynid.identify(robot, log_of(motion, tau), friction=(), known=nominal)
    assert_allclose(result.values, truth(robot, result), atol=1e-9)
    assert_allclose(result.sigma, 0.0, atol=1e-12)


def test_rank_and_null_space_are_those_of_the_singular_values() -> None:
    """Two joints that move identically: as many unknowns are lost as singular values vanish."""
    robot = with_friction(dynid.load_robot("gautier3"))
    motion = fourier_motion(robot, duration=6.0, rate=50.0)
    twins = [motion.q.copy(), motion.v.copy(), motion.a.copy()]
    for x in twins:
        x[:, 2] = x[:, 1]
    motion = Motion(motion.t, *twins)
    result = dynid.identify(robot, log_of(motion, torque(robot, motion)), friction=PLAIN)
    names = tuple(dict.fromkeys([*result.equation.base.names, *result.names]))
    W = plain_matrix(robot, motion, names).reshape(-1, len(names))
    singular = scipy.linalg.svdvals(W / np.linalg.norm(W, axis=0))
    assert result.rank == int((singular > 1e-9 * singular[0]).sum())
    assert len(result.unidentifiable) == len(names) - result.rank


def test_friction_that_noise_tells_apart_costs_no_other_parameter() -> None:
    """Overlapping friction comes in pairs that differ by noise of the motion alone; columns beside it stand clear."""
    rng = np.random.default_rng(0)
    shapes, others, noise = (rng.standard_normal((100, k)) for k in (30, 5, 30))
    A = np.hstack([shapes, shapes + 1e-3 * noise, others])
    D = np.hstack([np.zeros((100, 30)), 1e-3 * rng.standard_normal((100, 30)), 1e-3 * rng.standard_normal((100, 5))])
    minor = np.arange(65) < 60
    assert regroup_above_noise([NoisyRows(np.arange(A.shape[1]), A, D, 100)], minor) is None
    copied = np.hstack([A, others[:, :1] + 1e-3 * rng.standard_normal((100, 1))])  # while one that is noise is found
    more = np.hstack([D, 1e-3 * rng.standard_normal((100, 1))])
    found = regroup_above_noise([NoisyRows(np.arange(copied.shape[1]), copied, more, 100)], np.append(minor, False))
    assert found is not None
    assert found.kept == tuple(range(65))
    assert_allclose(found.matrix[60, 65], 1.0, atol=0.01)


@pytest.mark.parametrize("seed", range(4))
def test_rows_of_many_channels_merge_to_the_factor_of_all_of_them(seed: int) -> None:
    """Parts with few and many rows, on columns of their own and on shared ones, some of which none has."""
    rng = np.random.default_rng(seed)
    count = 230
    parts, wide = [], []
    for _ in range(12):
        columns = np.sort(rng.choice(count - 5, int(rng.integers(1, count - 5)), replace=False))
        rows = rng.standard_normal((int(rng.integers(0, 2 * len(columns))), len(columns)))
        rng.shuffle(columns)
        parts.append((columns, rows))
        wide.append(np.zeros((len(rows), count)))
        wide[-1][:, columns] = rows
    A, R = np.concatenate(wide), stack_rows(parts, count)
    assert len(R) <= count
    assert_allclose(R.T @ R, A.T @ A, rtol=1e-12, atol=1e-11)


def test_a_chain_of_many_joints_is_solved_as_by_stacked_rows() -> None:
    """More columns than those from which on factors are merged as triangles: the solution is that of all rows."""
    robot = random_tree(5, joints=24)
    motion = fourier_motion(robot, duration=6.0, rate=100.0)
    tau = torque(robot, motion)
    tau = tau + 1e-3 * np.random.default_rng(5).standard_normal(tau.shape)
    result = dynid.identify(robot, log_of(motion, tau), friction=PLAIN, estimator="ols", intervals="white")
    assert len(result.names) > MANY
    W, y = full(result, (robot, motion, tau))
    assert_allclose(W @ result.values, W @ np.linalg.lstsq(W, y, rcond=None)[0], rtol=0, atol=1e-10 * abs(y).max())
