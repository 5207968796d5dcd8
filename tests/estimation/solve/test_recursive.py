"""Joint by joint from the last: exact where every joint's own block has rank, refused by name where it has not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad_vec

import dynid
from dynid.errors import IdentificationError
from dynid.estimation.accumulate.factor import ChannelFactor
from dynid.estimation.accumulate.one_pass import total_factors
from dynid.estimation.regression.equation import Unknowns
from dynid.estimation.solve.least_squares import solve
from dynid.estimation.solve.recursive import Levels, levels_from_rows, solve_recursively
from dynid.robot.motion import Motion
from dynid.robot.parameter import Parameter
from dynid.robot.transform import Array
from fourier import fourier_motion
from frictions import PLAIN, log_of, torque, truth, with_friction
from robots import coupled_tree, parameters, random_motion, random_tree


@pytest.mark.parametrize("name", ["puma560", "scara", "gautier3"])
@pytest.mark.parametrize("friction", [(), PLAIN, "auto"])
def test_without_noise_the_recursion_is_exact(name: str, friction: str | tuple[str, ...]) -> None:
    """The truth to 1e-8, as batch finds it."""
    robot = with_friction(dynid.load_robot(name)) if friction == PLAIN else dynid.load_robot(name)
    log = dynid.simulate(robot, fourier_motion(robot))
    recursion = dynid.identify(robot, log, friction=friction, estimator="recursive")
    batch = dynid.identify(robot, log, friction=friction)
    assert recursion.names == batch.names
    assert recursion.estimator == "recursive"
    assert_allclose(recursion.values, batch.values, rtol=0.0, atol=1e-8)
    if all(note.code != "collinear_parameter" for note in recursion.notes):
        assert_allclose(recursion.values, truth(robot, recursion), rtol=0.0, atol=1e-8)


@pytest.mark.parametrize("seed", range(8))
def test_serial_robots_about_any_axes_are_exact(seed: int) -> None:
    robot = with_friction(random_tree(seed, joints=5, serial=True), seed)
    motion = fourier_motion(robot, seed=seed, duration=20.0)
    result = dynid.identify(robot, dynid.simulate(robot, motion), friction=PLAIN, estimator="recursive")
    test = random_motion(robot, samples=50, seed=seed)
    assert_allclose(result.predict(test), torque(robot, test), rtol=1e-8, atol=1e-7)


def noisy(seed: int = 0) -> tuple[dynid.Robot, dynid.Log]:
    robot = with_friction(dynid.load_robot("gautier3"))
    return robot, dynid.simulate(robot, fourier_motion(robot, duration=20.0), noise=[2.0, 1.0, 0.1], seed=seed)


def test_it_is_eq_2_28_written_out() -> None:
    """Joint 3 alone by lstsq, then joint 2 with it known, then joint 1, to 1e-10."""
    robot, log = noisy()
    result = dynid.identify(robot, log, friction=PLAIN, estimator="recursive", intervals="white")
    assert log.v is not None
    assert log.a is not None
    assert log.tau is not None
    motion = Motion(log.t, log.q, log.v, log.a)
    W = dynid.regressor(robot, motion).matrix.reshape(len(motion), 3, -1)
    X: dict[Parameter, float] = {}
    for j in (2, 1, 0):
        own = [name for name in result.names if name.endswith(str(j + 1))]
        columns, y = {}, log.tau[:, j].copy()
        for name in result.names:
            if name in robot.parameter_names:
                columns[name] = W[:, j, robot.parameter_names.index(name)]
            else:
                shape = {"Fv": motion.v[:, j], "Fc": np.sign(motion.v[:, j]), "Fo": np.ones(len(motion))}[name.symbol]
                columns[name] = shape * (name.joint == str(j + 1))
        for known, value in X.items():
            y -= columns[known] * value
        found = np.linalg.lstsq(np.column_stack([columns[name] for name in own]), y)[0]
        X.update(zip(own, found.tolist(), strict=True))
    assert_allclose(result.values, [X[name] for name in result.names], rtol=1e-9, atol=1e-10)


@pytest.mark.slow
def test_deviations_are_those_of_the_recursion() -> None:
    """120 logs with other noise: scatter over textbook deviation within 15 % for the median, 30 % for all."""
    values, sigma = [], []
    for seed in range(120):
        robot, log = noisy(seed)
        result = dynid.identify(robot, log, friction=PLAIN, estimator="recursive", intervals="white")
        values.append(result.values)
        sigma.append(result.sigma)
    ratio = np.std(values, axis=0) / np.mean(sigma, axis=0)
    assert abs(np.median(ratio) - 1.0) < 0.15
    assert (np.abs(ratio - 1.0) < 0.3).all()


def test_leaving_out_a_block_is_a_recursion_without_it() -> None:
    """Shifts of the jackknife against refits from scratch, to 1e-8 of the largest value."""
    from dynid.estimation.solve.least_squares import structurally_independent_columns
    from dynid.estimation.solve.recursive import find_levels, recursion_shifts

    robot, log = noisy()
    state = dynid.collect_state(robot, log, friction=PLAIN)
    unknowns = Unknowns.for_equation(state.equation, PLAIN, 1)
    kept, _ = structurally_independent_columns(state.equation, unknowns)
    unknowns = unknowns.without_unknowns([k for k in range(len(unknowns)) if k not in kept])
    levels = find_levels(state.equation, unknowns)
    whole = solve_recursively(unknowns, total_factors(state.blocks), levels)
    shifts, essential = recursion_shifts(unknowns, whole, levels, [(block,) for block in state.blocks])
    assert essential == 0
    for k, shift in enumerate(shifts):
        rest = total_factors([block for j, block in enumerate(state.blocks) if j != k])
        again = solve_recursively(unknowns, rest, levels).values
        assert_allclose(whole.values + shift, again, rtol=0.0, atol=1e-8 * np.abs(again).max())


def test_weighting_all_joints_together_is_no_worse() -> None:
    """Batch uses what the recursion leaves: its textbook deviations are smaller or the same."""
    robot, log = noisy()
    recursion = dynid.identify(robot, log, friction=PLAIN, estimator="recursive")
    batch = dynid.identify(robot, log, friction=PLAIN)
    assert (batch.white_sigma < 1.02 * recursion.white_sigma).all()
    assert (np.abs(recursion.values - batch.values) < 5.0 * recursion.sigma).all()
    assert_allclose(recursion.validation.rmse, batch.validation.rmse, rtol=0.05)


def test_offsets_of_every_log() -> None:
    robot = with_friction(dynid.load_robot("gautier3"))
    logs = [
        log_of(motion, torque(robot, motion) + offset)
        for seed, offset in enumerate((np.array([5.0, -3.0, 1.0]), np.array([-2.0, 8.0, 2.0])))
        for motion in [fourier_motion(robot, seed=seed)]
    ]
    one, other = (
        dynid.identify(robot, logs, friction=PLAIN, offsets_per_log=True, estimator=estimator)
        for estimator in ("recursive", "wls")
    )
    assert one.names == other.names
    assert_allclose(one.values, other.values, rtol=0.0, atol=1e-8)


# Ha, Ko & Kwon's SCARA: six model parameters, momentum form (their second identification model, misprints mended).
X = np.array([17.55, 7.55, 2.343, 0.176, 3.11, 0.35])
NAMES = parameters("X11", "X21", "X22", "X23", "X31", "X41")
SETS = (
    ((0.0, 0.5), (0.5, 1.0), (1.0, 1.5)),
    ((1.0, 1.5), (1.5, 2.0), (2.5, 3.0)),
    ((2.5, 3.0), (3.0, 3.5), (3.5, 4.0)),
)
A = np.array([[1.1, -0.4], [0.8, 0.5], [0.09, -0.05], [1.3, -0.6]])
GENERAL = (A, np.array([[1.7, 4.3], [2.3, 5.1], [2.9, 6.1], [3.1, 5.7]]),
           np.array([[0.3, 1.1], [-0.7, 0.4], [0.9, -0.2], [1.7, 0.6]]))  # fmt: skip
SYMMETRIC = (A, np.tile([np.pi / 2.0, np.pi], (4, 1)), np.full((4, 2), -np.pi / 2.0))  # even about t = 2 s
COLUMNS = ((0, 1, 2, 3, 5), (1, 2, 3, 5), (4,), (5,))


def path(t: float, motion: tuple[Array, Array, Array]) -> tuple[Array, Array]:
    size, w, phase = motion
    return (size * np.sin(w * t + phase)).sum(axis=1), (size * w * np.cos(w * t + phase)).sum(axis=1)


def momentum(t: float, motion: tuple[Array, Array, Array]) -> Array:
    q, v = path(t, motion)
    s, c = np.sin(q[1]), np.cos(q[1])
    U = np.zeros((4, 6))
    U[0, [0, 1, 2, 3, 5]] = v[0], v[1], (2 * v[0] + v[1]) * c, -(2 * v[0] + v[1]) * s, v[3]
    U[1, [1, 2, 3, 5]] = v[0] + v[1], v[0] * c, -v[0] * s, v[3]
    U[2, 4] = v[2]
    U[3, 5] = v[0] + v[1] + v[3]
    return U


def pulled(t: float, motion: tuple[Array, Array, Array]) -> Array:
    q, v = path(t, motion)
    U = np.zeros((4, 6))
    both = v[0] * v[1] + v[0] ** 2
    U[1, 2], U[1, 3], U[2, 4] = both * np.sin(q[1]), both * np.cos(q[1]), -9.8
    return U


def rows_of(windows: tuple[tuple[float, float], ...], motion: tuple[Array, Array, Array]) -> Array:
    """Rows (windows, 4, 6): momentum gained plus what gravity and joint 2's own motion take, by exact quadrature."""
    return np.array([
        momentum(stop, motion) - momentum(start, motion)
        + quad_vec(pulled, start, stop, args=(motion,), epsabs=1e-13)[0]
        for start, stop in windows
    ])  # fmt: skip


def published(windows: tuple[tuple[float, float], ...], motion: tuple[Array, Array, Array]) -> tuple[
    Unknowns, dict[int, tuple[ChannelFactor, ...]], Levels
]:  # fmt: skip
    rows = rows_of(windows, motion)
    channels = tuple(np.array(columns) for columns in COLUMNS)
    unknowns = Unknowns(NAMES, ("",) * 6, np.arange(6)[None], channels)
    factors = tuple(
        ChannelFactor.from_rows(np.column_stack([rows[:, c][:, columns], rows[:, c] @ X]))
        for c, columns in enumerate(COLUMNS)
    )
    seen = rows_of(tuple((0.3 * k, 0.3 * k + 0.2) for k in range(12)), GENERAL)
    levels = levels_from_rows(NAMES, ("1", "2", "3", "4"), (0, 1, 2, 3), [seen[:, c] for c in range(4)])
    return unknowns, {0: factors}, levels


@pytest.mark.parametrize("windows", SETS)
def test_published_intervals_are_exact(windows: tuple[tuple[float, float], ...]) -> None:
    unknowns, factors, levels = published(windows, GENERAL)
    assert levels.names == NAMES
    assert [own.stop - own.start for own in levels.own] == [1, 3, 1, 1]
    assert_allclose(solve_recursively(unknowns, factors, levels).values, X, rtol=0.0, atol=1e-9)
    assert_allclose(solve(unknowns, factors).values, X, rtol=0.0, atol=1e-9)


def test_a_time_symmetric_motion_is_refused_and_solved_by_batch() -> None:
    """Set 2 holds an interval and its mirror image about 2 s: rank U_22 = 2 of 3, all joints together 6 of 6."""
    unknowns, factors, levels = published(SETS[1], SYMMETRIC)
    assert_allclose(solve(unknowns, factors).values, X, rtol=0.0, atol=1e-8)
    with pytest.raises(
        IdentificationError, match=r"joint '2'.*distinguish X21 and X22 and X23 \(rank 2 of 3.*all joints to"
    ):
        solve_recursively(unknowns, factors, levels)


def test_torques_that_lose_a_block_are_refused_by_name() -> None:
    """Joint 1 turns round whenever joint 2 is at 0.7 rad or opposite: its own torque has rank 2 of 3, both have all."""
    robot = dynid.load_robot("scara")
    motion = random_motion(robot, samples=60)
    q, v = motion.q.copy(), motion.v.copy()
    q[:, 1], v[:, 0] = 0.7 + np.pi * (np.arange(60) % 2), 0.0
    log = dynid.simulate(robot, Motion(motion.t, q, v, motion.a))
    batch = dynid.identify(robot, log, friction=(), rotor_inertia=False)
    assert_allclose(batch.values, truth(robot, batch), rtol=0.0, atol=1e-8)
    with pytest.raises(IdentificationError, match=r"stops at joint '2'.* and .*rank 2 of 3.*use estimator='wls'"):
        dynid.identify(robot, log, friction=(), rotor_inertia=False, estimator="recursive")


def test_what_is_not_serial_is_refused() -> None:
    for seed, words in ((0, "branches"), (1, "closed loops or coupled")):
        robot = coupled_tree(seed) if seed else random_tree(2, joints=5)
        log = dynid.simulate(robot, fourier_motion(robot))
        with pytest.raises(IdentificationError, match=f"{words}.*serial robots.*wls"):
            dynid.identify(robot, log, friction=(), estimator="recursive")


def test_known_parameters_are_refused() -> None:
    robot, log = noisy()
    with pytest.raises(IdentificationError, match="no known or equal"):
        dynid.identify(robot, log, friction=PLAIN, estimator="recursive", known={"Fc1": 1.0})


def test_fixed_bodies_at_the_side_do_not_make_a_tree() -> None:
    robot = dynid.load_robot("gautier3")
    camera = replace(robot.links[-1], name="camera", joint="camera", label="9", parent=0, kind="fixed")
    robot = replace(robot, links=(*robot.links, camera))
    result = dynid.identify(robot, dynid.simulate(robot, fourier_motion(robot)), friction=(), estimator="recursive")
    assert_allclose(result.values, truth(robot, result), rtol=0.0, atol=1e-8)
