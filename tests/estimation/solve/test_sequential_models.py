"""Sample by sample with every model: the rows are those of the definitions, stacked and solved by numpy.lstsq."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from dynid.errors import IdentificationError
from dynid.robot.motion import Motion
from dynid.robot.robot import JointColumn, Robot
from dynid.robot.transform import Array
from fourier import fourier_motion
from frictions import PLAIN, truth, with_friction
from robots import coupled_tree, random_tree

SPAN, STRIDE = 16, 2

MODELS = ("torque", "power", "energy", "momentum", "reaction", "torque+reaction")

ROBOTS: dict[str, Callable[[], Robot]] = {
    "serial": lambda: random_tree(3, joints=3, serial=True),
    "tree": lambda: random_tree(7, joints=4),
    "coupled": lambda: coupled_tree(1),
}


def recorded(robot: Robot, *, noise: float = 0.1, samples: int = 1000) -> dynid.Log:
    """Some seconds of a periodic motion, with forces on the base."""
    motion = fourier_motion(robot, duration=samples / 100.0, harmonics=10)
    return dynid.simulate(robot, motion, noise=noise, plate_noise=noise)


def feed(some: dynid.Sequential, log: dynid.Log) -> None:
    """Give it all that its model takes, and nothing else."""
    options = some.equation.options
    assert log.v is not None
    some.update_many(
        log.q, log.v, None if options.is_integral else log.a, log.tau if options.has_torques else None,
        t=log.t if options.is_integral else None, reaction=log.reaction if options.has_reactions else None,
    )  # fmt: skip


def friction_rows(robot: Robot, motion: Motion, names: tuple[str, ...]) -> Array:
    """(N, n, len(names)): plain friction by its definition, 0 in the columns of other parameters."""
    labels = [robot.links[k].label for k in robot.active_links]
    rows = np.zeros((*motion.q.shape, len(names)))
    shapes = {"Fv": motion.v, "Fc": np.sign(motion.v), "Fo": np.ones_like(motion.v)}
    for k, name in enumerate(names):
        if name[:2] in shapes and name[2:] in labels:
            j = labels.index(name[2:])
            rows[:, j, k] = shapes[name[:2]][:, j]
    return rows


def rigid_rows(robot: Robot, motion: Motion, names: tuple[str, ...], model: str) -> Array:
    """(N, channels, len(names)): columns of the regressor, 0 in those of other parameters."""
    found = dynid.regressor(robot, motion, model=model)
    W = found.matrix.reshape(-1, len(found.channels), len(found.columns))
    rows = np.zeros((*W.shape[:2], len(names)))
    for k, name in enumerate(names):
        if name in found.columns:
            rows[:, :, k] = W[:, :, found.columns.index(name)]
        elif name[1:] in found.channels:  # offset of a channel of the base
            rows[:, found.channels.index(name[1:]), k] = 1.0
    return rows


def balances(t: Array, change: Array, rate: Array) -> Array:
    """Change of a state over SPAN steps plus the integral of a rate, every STRIDE steps; change: from step to step."""
    h = np.diff(t).reshape(-1, *[1] * (rate.ndim - 1))
    steps = change + 0.5 * h * (rate[1:] + rate[:-1])
    return np.array([steps[k - SPAN : k].sum(axis=0) for k in range(SPAN, len(t), STRIDE)])


def batch_rows(robot: Robot, log: dynid.Log, names: tuple[str, ...], model: str) -> tuple[Array, Array]:
    """Rows (K, channels, len(names)) and right sides (K, channels) by the definitions of the models."""
    assert log.v is not None
    assert log.a is not None
    assert log.tau is not None
    motion, tau = Motion(log.t, log.q, log.v, log.a), log.tau
    friction = friction_rows(robot, motion, names)
    if model in ("torque", "reaction", "torque+reaction"):
        torque, base = rigid_rows(robot, motion, names, "torque") + friction, np.zeros((len(tau), 0, len(names)))
        y = [tau, np.zeros((len(tau), 0))]
        if model != "torque":
            assert log.reaction is not None
            base, y[1] = rigid_rows(robot, motion, names, "reaction"), log.reaction
        if model == "reaction":
            return base, y[1]
        return np.concatenate([torque, base], axis=1), np.concatenate(y, axis=1)
    work, power = (friction * motion.v[:, :, None]).sum(axis=1, keepdims=True), (tau * motion.v).sum(axis=1)[:, None]
    if model == "power":
        torque = rigid_rows(robot, motion, names, "torque")
        return (torque * motion.v[:, :, None]).sum(axis=1, keepdims=True) + work, power
    if model == "energy":
        change = rigid_rows(robot, motion, names, "energy")
        return balances(log.t, change, work), balances(log.t, np.zeros((len(tau) - 1, 1)), power)
    change = np.diff(rigid_rows(robot, motion, names, "momentum"), axis=0)
    rate = friction - rigid_rows(robot, motion, names, "lagrangian_gradient")
    return balances(log.t, change, rate), balances(log.t, np.zeros((len(tau) - 1, robot.n)), tau)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ROBOTS)
def test_every_model_equals_lstsq(name: str, model: str) -> None:
    robot = with_friction(ROBOTS[name]())
    log = recorded(robot)
    span = SPAN if model in ("energy", "momentum") else None
    some = dynid.Sequential(robot, model=model, noise=1.0, span=span)
    feed(some, log)
    A, y = batch_rows(robot, log, some.names, model)
    expected, _, rank, _ = np.linalg.lstsq(A.reshape(-1, A.shape[-1]), y.reshape(-1))
    assert rank == len(some.names)
    assert_allclose(some.values, expected, rtol=0.0, atol=1e-10 * np.abs(expected).max())


def test_forgetting_counts_rows_of_balances() -> None:
    robot = with_friction(ROBOTS["serial"]())
    log = recorded(robot)
    some = dynid.Sequential(robot, model="momentum", noise=1.0, span=SPAN, forgetting=0.99)
    feed(some, log)
    A, y = batch_rows(robot, log, some.names, "momentum")
    weight = 0.99 ** (np.arange(len(A) - 1, -1, -1)[:, None] / 2.0)
    expected = np.linalg.lstsq((A * weight[:, :, None]).reshape(-1, A.shape[-1]), (y * weight).reshape(-1))[0]
    assert_allclose(some.values, expected, rtol=0.0, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("model", ["torque", "power", "momentum"])
def test_unknown_geometry_equals_lstsq(model: str) -> None:
    """Model parameters: the SCARA without its lengths, rows by `ModelParameters.regressor`."""
    robot = with_friction(dynid.load_robot("scara"))
    log = recorded(robot)
    assert log.v is not None
    assert log.a is not None
    assert log.tau is not None
    some = dynid.Sequential(robot, model=model, unknown=("d", "r"), friction=("viscous",), noise=1.0,
                            span=SPAN if model == "momentum" else None)  # fmt: skip
    feed(some, log)
    motion = Motion(log.t, log.q, log.v, log.a)
    found = dynid.model_parameters(robot, unknown=("d", "r"), rotor_inertia=True)
    assert some.names[: found.count] == found.names

    def rigid(kind: str) -> Array:
        W = found.regressor(motion, model=kind).matrix.reshape(len(log.t), robot.n, -1)
        return np.concatenate([W, np.zeros((*W.shape[:2], robot.n))], axis=2)

    friction, tau = friction_rows(robot, motion, some.names), log.tau
    if model == "momentum":
        A = balances(log.t, np.diff(rigid("momentum"), axis=0), friction - rigid("lagrangian_gradient"))
        y = balances(log.t, np.zeros((len(tau) - 1, robot.n)), tau)
    else:
        A, y = rigid("torque") + friction, tau
    if model == "power":
        A, y = (A * log.v[:, :, None]).sum(axis=1), (y * log.v).sum(axis=1)
    expected, _, rank, _ = np.linalg.lstsq(A.reshape(-1, A.shape[-1]), y.reshape(-1))
    assert rank == len(some.names)
    assert_allclose(some.values, expected, rtol=0.0, atol=1e-10 * np.abs(expected).max())


def trapezoidal_torques(robot: Robot, log: dynid.Log, names: tuple[str, ...], values: Array) -> Array:
    """Torques whose trapezoidal integrals balance the momentum of these values exactly, step by step."""
    assert log.v is not None
    assert log.a is not None
    assert log.tau is not None
    motion, h = Motion(log.t, log.q, log.v, log.a), np.diff(log.t)[:, None]
    momentum = rigid_rows(robot, motion, names, "momentum") @ values
    rate = (friction_rows(robot, motion, names) - rigid_rows(robot, motion, names, "lagrangian_gradient")) @ values
    twice = 2.0 * np.diff(momentum, axis=0) / h + rate[1:] + rate[:-1]
    tau = log.tau.copy()
    for k in range(1, len(tau)):
        tau[k] = twice[k - 1] - tau[k - 1]
    return tau


@pytest.mark.parametrize(
    ("seed", "model", "unknown"),
    [
        (3, "torque", None),
        (4, "torque", None),
        (None, "torque", ("d", "r")),
        (3, "momentum", None),
        (4, "momentum", None),
    ],
)
def test_joint_by_joint_equals_all_joints_on_exact_data(
    seed: int | None, model: str, unknown: tuple[str, ...] | None
) -> None:
    """Paper 001, eq. 2.28: without noise, the last joint first gives what all joints together give."""
    robot = dynid.load_robot("scara") if seed is None else random_tree(seed, joints=3, serial=True)
    robot = with_friction(robot)
    log = recorded(robot, noise=0.0)
    some = dynid.Sequential(robot, model=model, unknown=unknown)
    if model == "momentum":
        nominal = truth(robot, some)
        log = dynid.Log(log.t, log.q, v=log.v, tau=trapezoidal_torques(robot, log, some.names, nominal))
    feed(some, log)
    together, one_by_one = some.values, some.solve_joint_by_joint().values
    assert_allclose(one_by_one, together, rtol=0.0, atol=1e-9 * np.abs(together).max())
    if not unknown:
        assert_allclose(together, truth(robot, some), rtol=0.0, atol=1e-8 * np.abs(together).max())


def test_joint_by_joint_is_refused_where_rows_are_not_triangular() -> None:
    for robot, model, words in (
        (random_tree(7, joints=4), "torque", "branches"),
        (random_tree(3, joints=3, serial=True), "energy", "adds up all joints"),
        (random_tree(3, joints=3, serial=True), "torque+reaction", "not with forces on the base"),
    ):
        some = dynid.Sequential(robot, model=model)
        feed(some, recorded(robot, samples=200))
        with pytest.raises(IdentificationError, match=words):
            some.solve_joint_by_joint()


@pytest.mark.parametrize("model", ["energy", "momentum", "torque+reaction"])
def test_samples_and_chunks_are_the_same_in_every_model(model: str) -> None:
    """A chunk or one sample after the other; a pause begins the balances anew in both."""
    robot = with_friction(ROBOTS["tree"]())
    log = recorded(robot, samples=200)
    assert log.v is not None
    assert log.a is not None
    assert log.tau is not None
    assert log.reaction is not None
    t = log.t + 1.0 * (np.arange(200) > 120)
    single, chunked = (dynid.Sequential(robot, model=model) for _ in range(2))
    is_integral, has_plate = single.equation.options.is_integral, single.equation.options.has_reactions
    feed(chunked, dynid.Log(t, log.q, v=log.v, a=log.a, tau=log.tau, reaction=log.reaction))
    for k in range(200):
        single.update(
            log.q[k], log.v[k], None if is_integral else log.a[k], log.tau[k], t=t[k] if is_integral else None,
            reaction=log.reaction[k] if has_plate else None,
        )  # fmt: skip
    assert single.count == chunked.count == 200
    for x, y in zip(single.factors, chunked.factors, strict=True):
        assert x.count == y.count == ((120 - 32) // 4 + 1 + (78 - 32) // 4 + 1 if is_integral else 200)
        assert_allclose(x.R, y.R, rtol=0.0, atol=1e-13 * np.abs(y.R).max())


def test_columns_of_the_user_are_followed() -> None:
    """A gas spring beside the links: what `identify` finds."""
    robot = with_friction(random_tree(3, joints=3, serial=True))
    gas = JointColumn("gas", robot.joint_names[1], positions=np.linspace(-6.0, 6.0, 9), torque=np.sin(np.arange(9.0)))
    robot, log = replace(robot, columns=(gas,)), recorded(robot)
    some = dynid.Sequential(robot)
    feed(some, log)
    batch = dynid.identify(robot, log, friction=PLAIN, intervals="white")
    assert some.names == batch.names
    assert "gas" in some.names
    assert_allclose(some.values, batch.values, rtol=0.0, atol=1e-10 * np.abs(batch.values).max())


def test_bad_samples_are_refused_in_one_line() -> None:
    robot = ROBOTS["serial"]()
    log = recorded(robot, samples=100)
    assert log.v is not None
    assert log.tau is not None
    some = dynid.Sequential(robot, model="momentum")
    feed(some, log)
    before = [factor.R.copy() for factor in some.factors]
    zero, nan = np.zeros(3), np.array([0.0, np.nan, 0.0])
    cases: list[tuple[tuple[Array | None, ...], dict[str, object], str]] = [
        ((zero, zero, None, zero), {}, "takes q, v, tau, t of every sample; t is missing"),
        ((zero, zero), {"t": 2.0}, "tau is missing"),
        ((zero, zero, None, zero), {"t": 0.99}, "time is not after that of the one before"),
        ((zero, zero, None, zero), {"t": np.nan}, "is not finite"),
        ((zero, nan, None, zero), {"t": 2.0}, "sample 100 is not finite"),
        ((zero, zero, None, np.zeros(2)), {"t": 2.0}, "disagree"),
    ]
    for arrays, more, words in cases:
        with pytest.raises(IdentificationError, match=words) as caught:
            some.update(*arrays, **more)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)
    assert some.count == 100
    assert all((x.R == y).all() for x, y in zip(some.factors, before, strict=True))
    plate = dynid.Sequential(robot, model="reaction")
    with pytest.raises(IdentificationError, match="reaction is missing"):
        plate.update(zero, zero, zero)
    with pytest.raises(IdentificationError, match="disagree"):
        plate.update(zero, zero, zero, reaction=zero)
