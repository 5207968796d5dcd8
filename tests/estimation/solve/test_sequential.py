"""Sample by sample: the same factors and values as in one batch, in constant memory; forgetting follows."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from dynid.errors import DynidError, IdentificationError
from dynid.robot.robot import Robot
from dynid.robot.transform import Array
from fourier import fourier_motion
from frictions import PLAIN, plain_matrix, torque, with_friction
from robots import random_motion, random_tree

NOISE = np.array([0.5, 1.0, 0.4, 0.1, 0.1, 0.05])


def puma(samples: int = 2000) -> tuple[Robot, dynid.Log]:
    robot = with_friction(dynid.load_robot("puma560"))
    return robot, dynid.simulate(robot, fourier_motion(robot, duration=samples / 100.0), noise=list(NOISE))


def arrays(log: dynid.Log) -> tuple[Array, Array, Array, Array]:
    assert log.v is not None
    assert log.a is not None
    assert log.tau is not None
    return log.q, log.v, log.a, log.tau


def close(x: Array, y: Array, tolerance: float) -> None:
    """Equal within a share of the largest entry."""
    assert_allclose(x, y, rtol=0.0, atol=tolerance * np.abs(y).max())


@pytest.mark.parametrize("forgetting", [1.0, 0.995])
def test_factors_are_those_of_all_rows(forgetting: float) -> None:
    """R'R = sum of lambda^(K - k) [w y]'[w y] for every channel, to 1e-10 of its largest entry."""
    robot, log = puma()
    some = dynid.Sequential(robot, forgetting=forgetting)
    some.update_many(*arrays(log))
    q, v, a, tau = arrays(log)
    W = plain_matrix(robot, dynid.Motion(log.t, q, v, a), some.names)
    weight = np.sqrt(forgetting) ** np.arange(len(q) - 1, -1, -1)
    equation = dynid.identify(robot, log, friction=PLAIN, intervals="white").equation
    for c, (factor, channel) in enumerate(zip(some.factors, equation.channels, strict=True)):
        columns = [some.names.index(equation.names[k]) for k in channel.columns]
        rows = weight[:, None] * np.column_stack([W[:, c, columns], tau[:, c]])
        close(factor.R.T @ factor.R, rows.T @ rows, 1e-10)
        assert_allclose(factor.total, (weight**2 * tau[:, c]).sum(), rtol=1e-10, atol=1e-8)


def test_it_equals_batch_weighted_least_squares() -> None:
    robot, log = puma()
    batch = dynid.identify(robot, log, friction=PLAIN, intervals="white")
    some = dynid.Sequential(robot)
    some.update_many(*arrays(log))
    assert batch.cutoff is None
    assert some.names == batch.names
    assert some.units == batch.units
    close(some.values, batch.values, 1e-10)
    assert_allclose(some.sigma, batch.white_sigma, rtol=1e-10)


def test_it_equals_batch_ordinary_least_squares_and_lstsq() -> None:
    robot, log = puma()
    batch = dynid.identify(robot, log, friction=PLAIN, intervals="white", estimator="ols")
    some = dynid.Sequential(robot, noise=1.0)
    some.update_many(*arrays(log))
    q, v, a, tau = arrays(log)
    W = plain_matrix(robot, dynid.Motion(log.t, q, v, a), some.names)
    close(some.values, np.asarray(np.linalg.lstsq(W.reshape(-1, W.shape[2]), tau.reshape(-1))[0]), 1e-10)
    close(some.values, batch.values, 1e-10)


def test_weights_and_forgetting_are_those_of_weighted_lstsq() -> None:
    robot, log = puma()
    some = dynid.Sequential(robot, noise=NOISE, forgetting=0.998)
    some.update_many(*arrays(log))
    q, v, a, tau = arrays(log)
    weight = 0.998 ** (np.arange(len(q) - 1, -1, -1)[:, None] / 2.0) / NOISE
    W = plain_matrix(robot, dynid.Motion(log.t, q, v, a), some.names) * weight[:, :, None]
    A = W.reshape(-1, W.shape[2])
    close(some.values, np.asarray(np.linalg.lstsq(A, (tau * weight).reshape(-1))[0]), 1e-10)
    assert_allclose(some.sigma, np.sqrt(np.diag(np.linalg.inv(A.T @ A))), rtol=1e-6)


def test_samples_and_chunks_are_the_same() -> None:
    """Bit by bit: one kernel serves both."""
    robot, log = puma(300)
    single, chunked = dynid.Sequential(robot, forgetting=0.99), dynid.Sequential(robot, forgetting=0.99)
    q, v, a, tau = arrays(log)
    for sample in zip(q, v, a, tau, strict=True):
        single.update(*sample)
    for part in (slice(0, 7), slice(7, 8), slice(8, 8), slice(8, 300)):
        chunked.update_many(q[part], v[part], a[part], tau[part])
    assert single.count == chunked.count == 300
    assert all((x.R == y.R).all() for x, y in zip(single.factors, chunked.factors, strict=True))
    assert (single.values == chunked.values).all()


@pytest.mark.parametrize("seed", range(4))
def test_trees_are_exact_without_noise(seed: int) -> None:
    robot = with_friction(random_tree(seed, joints=5), seed)
    log = dynid.simulate(robot, fourier_motion(robot, seed=seed))
    some = dynid.Sequential(robot)
    some.update_many(*arrays(log))
    batch = dynid.identify(robot, log, friction=PLAIN, intervals="white")
    assert some.names == batch.names
    close(some.values, batch.values, 1e-9)


@pytest.mark.parametrize("name", ["tanh", "quadratic", "asymmetry", "stribeck", "spring"])
def test_other_friction_is_that_of_identify(name: str) -> None:
    """Prismatic joints too: limits of the random robot give their scale."""
    robot = with_friction(random_tree(3, joints=4, serial=True))
    motion = fourier_motion(robot)
    tau = torque(robot, motion)
    tau += np.random.default_rng(0).standard_normal(tau.shape) * 0.1
    log = dynid.Log(motion.t, motion.q, v=motion.v, a=motion.a, tau=tau)
    some = dynid.Sequential(robot, friction=(*PLAIN, name))
    some.update_many(*arrays(log))
    batch = dynid.identify(robot, log, friction=(*PLAIN, name), intervals="white")
    assert some.names == batch.names
    close(some.values, batch.values, 1e-10)


def test_the_steady_state_allocates_nothing() -> None:
    """A thousand updates: what python holds does not grow, and is never 4 kB above the start."""
    robot, log = puma(1100)
    some = dynid.Sequential(robot, forgetting=0.999)
    samples = list(zip(*arrays(log), strict=True))
    first, rest = samples[:100], samples[100:]
    for sample in first:
        some.update(*sample)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for sample in rest:
        some.update(*sample)
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 1024
    assert peak - before < 4096


LOADED = 1.5


def carrying(forgetting: float, seconds: float) -> tuple[float, float, float]:
    """Mass on the SCARA's slide some time after its tool took up a load: found, before, after (kg)."""
    robot = dynid.load_robot("scara")
    X = robot.parameters.copy()
    X[robot.parameter_names.index("M4")] += LOADED
    heavy = robot.with_parameters(X)
    motion = fourier_motion(robot, rate=500.0, duration=10.0 + seconds, size=0.3)
    change = 5000
    tau = np.concatenate([torque(robot, motion[:change]), torque(heavy, motion[change:])])
    tau += np.random.default_rng(0).standard_normal(tau.shape) * np.array([1.0, 0.5, 0.5, 0.02])
    some = dynid.Sequential(robot, friction=("viscous",), rotor_inertia=False, forgetting=forgetting)
    some.update_many(motion.q, motion.v, motion.a, tau)
    k = some.names.index("M3")
    base = dynid.base_parameters(robot, rotor_inertia=False)
    before, after = (base.values(r.parameters)[base.names.index("M3")] for r in (robot, heavy))
    return float(some.values[k]), float(before), float(after)


def test_forgetting_follows_a_payload() -> None:
    """Memory of 0.4 s (lambda = 0.995 at 500 Hz): 2.5 s after the change the mass is within 2 % of the load."""
    found, before, after = carrying(0.995, 2.5)
    assert_allclose(after - before, LOADED, rtol=1e-12)
    assert abs(found - after) < 0.02 * LOADED


def test_without_forgetting_a_payload_is_averaged_away() -> None:
    """2.5 s of 12.5 s carry the load: about a fifth of it is found."""
    found, before, after = carrying(1.0, 2.5)
    assert abs(found - after) > 0.7 * LOADED
    assert_allclose(found - before, 0.2 * LOADED, atol=0.02 * LOADED)


def test_what_samples_do_not_tell_has_no_deviation() -> None:
    robot = dynid.load_robot("gautier3")
    some = dynid.Sequential(robot)
    with pytest.raises(IdentificationError, match="no rows"):
        some.solve()
    log = dynid.simulate(robot, random_motion(robot, samples=3), noise=0.01)
    some.update_many(*arrays(log))
    lost = np.isinf(some.sigma)
    assert lost.any()
    assert (some.values[lost] == 0.0).all()
    some.reset()
    assert some.count == 0


def test_a_prior_fills_in_and_data_take_over() -> None:
    robot = with_friction(dynid.load_robot("gautier3"))
    log = dynid.simulate(robot, fourier_motion(robot), noise=0.1)
    batch = dynid.identify(robot, log, friction=PLAIN)
    some = dynid.Sequential(robot, prior=batch, noise=0.1)
    q, v, a, tau = arrays(log)
    some.update(q[0], v[0], a[0], tau[0])
    assert (np.abs(some.values - batch.values) < batch.sigma).all()
    assert (some.sigma < batch.sigma * 1.0001).all()
    held = dynid.Sequential(robot, prior={"Fc1": (7.0, 1e-6)}, noise=0.1)
    held.update_many(q, v, a, tau)
    assert_allclose(held.values[held.names.index("Fc1")], 7.0, atol=1e-5)
    loose = dynid.Sequential(robot, prior={"Fc1": (7.0, 1e6)}, noise=0.1)
    loose.update_many(q, v, a, tau)
    free = dynid.Sequential(robot, noise=0.1)
    free.update_many(q, v, a, tau)
    close(loose.values, free.values, 1e-9)


def test_a_sample_that_is_not_finite_changes_nothing() -> None:
    robot, log = puma(50)
    q, v, a, tau = arrays(log)
    some = dynid.Sequential(robot)
    some.update_many(q, v, a, tau)
    before = [factor.R.copy() for factor in some.factors]
    bad = tau[0].copy()
    bad[3] = np.nan
    with pytest.raises(IdentificationError, match="sample 50 is not finite"):
        some.update(q[0], v[0], a[0], bad)
    assert all((x.R == y).all() for x, y in zip(some.factors, before, strict=True))


def test_what_cannot_go_sample_by_sample_is_refused() -> None:
    robot = dynid.load_robot("gautier3")
    cases: list[tuple[Robot, dict[str, object], str]] = [
        (dynid.load_robot("slider_crank"), {}, "has closed loops"),
        (random_tree(1, joints=3, floating=True), {}, "floats"),
        (robot, {"friction": ("stop1e-3",)}, "needs more than one sample"),
        (robot, {"friction": ("nose",)}, "no friction block 'nose'"),
        (robot, {"friction": ("viscous", "viscous")}, "named twice"),
        (robot, {"forgetting": 0.0}, "forgetting"),
        (robot, {"forgetting": 1.1}, "forgetting"),
        (robot, {"noise": [1.0, 2.0]}, "noise"),
        (robot, {"noise": -1.0}, "noise"),
        (robot, {"prior": {"nose": (1.0, 1.0)}}, "prior has 'nose'"),
        (robot, {"prior": {"Fc1": (1.0, 0.0)}}, "deviations must be positive"),
        (robot, {"model": "work"}, "no model 'work'"),
        (robot, {"model": "reaction", "friction": PLAIN}, "do not depend on friction"),
        (robot, {"span": 16}, "model 'torque' has no span"),
        (robot, {"model": "energy", "span": 0}, "positive whole number"),
        (robot, {"model": "energy", "unknown": ("r",)}, "needs the geometry"),
    ]
    for case, options, words in cases:
        with pytest.raises(DynidError, match=words):
            dynid.Sequential(case, **options)  # type: ignore[arg-type]
    some = dynid.Sequential(robot)
    one, two = np.zeros(3), np.zeros(2)
    with pytest.raises(IdentificationError, match="3 joints"):
        some.update(one, one, two, one)
    with pytest.raises(IdentificationError, match="takes q, v, a, tau of every sample; a is missing"):
        some.update(one, one, tau=one)
    with pytest.raises(IdentificationError, match="disagree"):
        some.update_many(np.zeros((4, 3)), np.zeros((4, 3)), np.zeros((3, 3)), np.zeros((4, 3)))
