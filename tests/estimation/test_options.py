"""Options of identify: some joints, offsets per log, user columns, ridge, validation, bands; odd robots."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.interpolate import CubicSpline

import dynid
from dynid.cli.commands import identify as identify_command
from dynid.cli.commands import payload as payload_command
from dynid.errors import DynidError, IdentificationError
from dynid.estimation.options import Options
from dynid.robot.io.toml_writer import table_text
from dynid.robot.motion import Motion
from dynid.robot.robot import JointColumn, Robot
from dynid.robot.transform import Array
from fourier import fourier_motion
from frictions import PLAIN, log_of, plain_matrix, torque, truth, with_friction
from robots import random_tree


def noise(shape: tuple[int, ...], size: object, seed: int = 0) -> Array:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape) * np.asarray(size))


@pytest.mark.parametrize("joints", [["1"], ["6"], ["3", "2"], ["1", "4", "6"]])
def test_some_joints_are_exact(joints: list[str]) -> None:
    """Base parameters are those that the chosen torques reveal: as many as their rows have rank."""
    robot = with_friction(dynid.load_robot("puma560"))
    motion = fourier_motion(robot, rate=50.0)
    tau = torque(robot, motion)
    chosen = sorted(robot.joint_names.index(name) for name in joints)
    others = [j for j in range(robot.n) if j not in chosen]
    damaged = tau.copy()
    damaged[:, others] = noise((len(tau), len(others)), 1e3)
    result = dynid.identify(robot, log_of(motion, damaged), friction=PLAIN, joints=joints)
    W = dynid.regressor(robot, motion).matrix.reshape(len(motion), robot.n, -1)[:, chosen]
    W = W.reshape(-1, W.shape[2])
    assert result.base_rank == np.linalg.matrix_rank(W[:, np.abs(W).max(axis=0) > 0.0], tol=1e-8)
    assert result.channels == tuple(robot.joint_names[j] for j in chosen)
    assert_allclose(result.values, truth(robot, result), rtol=0.0, atol=1e-9)
    predicted = result.predict(motion)
    assert_allclose(predicted[:, chosen], tau[:, chosen], rtol=1e-9, atol=1e-8)
    assert np.isnan(predicted[:, others]).all()


@pytest.mark.parametrize("joints", [["7"], [], ["1", "nose"]])
def test_joints_that_do_not_exist_are_refused(joints: list[str]) -> None:
    robot = dynid.load_robot("puma560")
    with pytest.raises(IdentificationError, match="joints are 1, 2"):
        dynid.identify(robot, dynid.simulate(robot, fourier_motion(robot)), joints=joints)


OFFSETS = np.array([[50.0, -3.0, 1.0], [-20.0, 8.0, 2.0], [5.0, 0.0, -9.0], [0.0, 40.0, 4.0], [9.0, 9.0, 9.0]])


def test_offsets_of_every_log_are_exact() -> None:
    robot = with_friction(dynid.load_robot("gautier3"))
    logs = []
    for k, offset in enumerate(OFFSETS):
        motion = fourier_motion(robot, seed=k, rate=50.0)
        logs.append(log_of(motion, torque(robot, motion) + offset, f"log {k}"))
    result = dynid.identify(robot, logs, friction=PLAIN, offsets_per_log=True)
    own = [dict(robot.links[k].friction)["offset"] for k in robot.active_links]
    for k, offset in enumerate(OFFSETS):
        found = [result.value(f"Fo{j}@{k + 1}") for j in (1, 2, 3)]
        assert_allclose(found, offset + own, rtol=0.0, atol=1e-9)
    rest = [k for k, name in enumerate(result.names) if "@" not in name]
    assert_allclose(result.values[rest], truth(robot, result)[rest], rtol=0.0, atol=1e-9)
    motion = fourier_motion(robot, seed=9)
    assert_allclose(result.predict(motion), torque(robot, motion) + OFFSETS.mean(axis=0), rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("friction", [PLAIN, "auto"])
def test_offsets_of_every_log_leave_the_validation_honest(friction: str | tuple[str, ...]) -> None:
    """Held-out stretches lie inside logs, whose offsets the rest of the log tells."""
    robot = with_friction(dynid.load_robot("gautier3"))
    logs = []
    for k, offset in enumerate(OFFSETS):
        motion = fourier_motion(robot, seed=k, rate=50.0)
        tau = torque(robot, motion)
        logs.append(log_of(motion, tau + offset + noise(tau.shape, 0.3, k)))
    result = dynid.identify(robot, logs, friction=friction, offsets_per_log=True)
    assert_allclose(result.validation.rmse, result.rmse, rtol=0.1)
    assert result.verdict.level == "good"


def test_an_offset_that_joins_a_mass_is_averaged_over_all_logs() -> None:
    """A vertical slide: log 1's offset joins its weight, the others are relative to it."""
    robot = Robot.from_mdh([{"type": "prismatic"}]).with_parameters(np.array([0.0] * 9 + [3.0, 0.0]))
    logs, offsets = [], (4.0, 10.0, -2.0)
    for k, offset in enumerate(offsets):
        motion = fourier_motion(robot, seed=k)
        logs.append(log_of(motion, torque(robot, motion) + offset))
    result = dynid.identify(robot, logs, friction=("offset",), offsets_per_log=True, rotor_inertia=True)
    motion = fourier_motion(robot, seed=5)
    assert_allclose(result.predict(motion), torque(robot, motion) + np.mean(offsets), rtol=0.0, atol=1e-8)


def spring(kind: str) -> JointColumn:
    x = np.linspace(-4.0, 4.0, 41)
    y = np.sin(1.3 * x) * x
    if kind == "table":
        return JointColumn("gas", "2", positions=x, torque=y)
    if kind == "of another":
        return JointColumn("gas", "2", of="3", positions=x, torque=y)
    return JointColumn("gas", "2", function=lambda q, v: q[:, 0] * v[:, 2] + np.cos(3.0 * q[:, 1]))


@pytest.mark.parametrize("kind", ["table", "of another", "function"])
def test_user_columns_are_exact(kind: str) -> None:
    robot = with_friction(dynid.load_robot("gautier3"))
    motion = fourier_motion(robot, rate=50.0)
    column = spring(kind)
    if kind == "function":
        shape = motion.q[:, 0] * motion.v[:, 2] + np.cos(3.0 * motion.q[:, 1])
    else:
        assert column.positions is not None
        assert column.torque is not None
        x = np.clip(motion.q[:, 1 if kind == "table" else 2], -4.0, 4.0)
        shape = CubicSpline(column.positions, column.torque)(x)
    tau = torque(robot, motion)
    tau[:, 1] += 7.5 * shape
    result = dynid.identify(robot, log_of(motion, tau), friction=PLAIN, columns=[column])
    assert_allclose(result.value("gas"), 7.5, rtol=0.0, atol=1e-8)
    expected = truth(robot, result)
    expected[result.names.index("gas")] = 7.5
    assert_allclose(result.values, expected, rtol=0.0, atol=1e-8)
    assert_allclose(result.predict(motion), tau, rtol=1e-9, atol=1e-7)


def test_columns_of_a_robot_file_come_back_from_its_text(tmp_path: Path) -> None:
    robot = replace(with_friction(dynid.load_robot("gautier3")), columns=(spring("table"), spring("of another")))
    robot = replace(robot, columns=(robot.columns[0], replace(robot.columns[1], name="other")))
    file = tmp_path / "robot.toml"
    file.write_text(table_text(robot))
    again = dynid.load_robot(file)
    assert len(again.columns) == 2
    for ours, theirs in zip(robot.columns, again.columns, strict=True):
        assert (theirs.name, theirs.joint, theirs.of) == (ours.name, ours.joint, ours.of)
        assert_array_equal(theirs.positions, ours.positions)
        assert_array_equal(theirs.torque, ours.torque)
    motion = fourier_motion(robot, rate=50.0)
    tau = torque(robot, motion)
    tau[:, 1] += 2.0 * robot.columns[0].values(robot.joint_names, motion.q, motion.v)
    result = dynid.identify(again, log_of(motion, tau), friction=PLAIN)
    assert_allclose([result.value("gas"), result.value("other")], [2.0, 0.0], rtol=0.0, atol=1e-8)


@pytest.mark.parametrize(
    "column",
    [
        JointColumn("x", "nose", positions=np.arange(3.0), torque=np.arange(3.0)),
        JointColumn("x", "1", of="nose", positions=np.arange(3.0), torque=np.arange(3.0)),
        JointColumn("ZZ1", "1", positions=np.arange(3.0), torque=np.arange(3.0)),
        JointColumn("M2", "1", positions=np.arange(3.0), torque=np.arange(3.0)),
        JointColumn("Fv1", "1", positions=np.arange(3.0), torque=np.arange(3.0)),
        JointColumn("x", "1", function=lambda q, v: np.zeros(3)),
        JointColumn("x", "1", function=lambda q, v: np.full(len(q), np.nan)),
        JointColumn("x", "1", function=lambda q, v: q[:, 77]),
    ],
)
@pytest.mark.parametrize("joints", [None, ["1", "2"]])
def test_columns_that_cannot_be_are_refused(column: JointColumn, joints: list[str] | None) -> None:
    robot = dynid.load_robot("gautier3")
    log = dynid.simulate(robot, fourier_motion(robot))
    with pytest.raises(DynidError, match="column '"):
        dynid.identify(robot, log, friction=PLAIN, columns=[column], joints=joints)


def test_ridge_trusts_nominal_values_where_data_are_poor_and_data_where_they_are_good() -> None:
    robot = with_friction(dynid.load_robot("puma560"))
    nominal = robot.with_parameters(robot.parameters * 1.2)
    good = fourier_motion(robot, duration=20.0, rate=50.0)
    tau = torque(robot, good)
    clean = dynid.identify(nominal, log_of(good, tau), friction=PLAIN, estimator="ridge")
    assert_allclose(clean.values, truth(robot, clean), atol=1e-5)
    noisy = log_of(good, tau + noise(tau.shape, 0.02 * tau.std(axis=0)))
    plain, ridge = (dynid.identify(nominal, noisy, friction=PLAIN, estimator=e) for e in ("wls", "ridge"))
    assert (np.abs(plain.values - ridge.values) < 3.0 * plain.sigma).mean() > 0.9
    poor = fourier_motion(robot, duration=6.0, rate=20.0, size=0.02)
    tau = torque(robot, poor)
    noisy = log_of(poor, tau + noise(tau.shape, tau.std(axis=0)))
    plain, ridge = (dynid.identify(nominal, noisy, friction=PLAIN, estimator=e) for e in ("wls", "ridge"))
    towards = truth(nominal, ridge)
    assert np.linalg.norm(ridge.values - towards) < 0.2 * np.linalg.norm(plain.values - towards)
    assert ridge.validation.mean < plain.validation.mean


def test_unknown_nominal_values_do_not_spoil_the_others() -> None:
    """One NaN makes the base values unknown that it joins, not all of them."""
    robot = with_friction(dynid.load_robot("gautier3"))
    motion = fourier_motion(robot, rate=50.0)
    tau = torque(robot, motion)
    X = robot.parameters.copy()
    X[robot.parameter_names.index("XY3")] = np.nan
    hazy = robot.with_parameters(X)
    result = dynid.identify(hazy, log_of(motion, tau), friction=PLAIN, estimator="ridge")
    assert_allclose(result.values, truth(robot, result), atol=1e-6)


def test_a_held_back_share_is_predicted_not_fitted() -> None:
    robot = with_friction(dynid.load_robot("gautier3"))
    motion = fourier_motion(robot, duration=20.0, rate=50.0)
    tau = torque(robot, motion)
    tau = tau + noise(tau.shape, 0.5)
    result = dynid.identify(robot, log_of(motion, tau), friction=PLAIN, validate=0.25)
    first, last = slice(0, 750), slice(750, None)
    alone = dynid.identify(robot, log_of(motion[first], tau[first]), friction=PLAIN)
    assert_allclose(result.values, alone.values, rtol=1e-6, atol=1e-6)
    W = plain_matrix(robot, motion[last], result.names)
    error = np.sqrt(((tau[last] - W @ result.values) ** 2).mean(axis=0))
    assert_allclose(result.validation.rmse, error, rtol=1e-6)
    assert_allclose(result.validation.nrmse, error / tau[last].std(axis=0), rtol=1e-6)
    assert "25 %" in result.validation.source


def test_validation_logs_are_predicted() -> None:
    robot = with_friction(dynid.load_robot("gautier3"))
    motion, other = fourier_motion(robot, rate=50.0), fourier_motion(robot, rate=50.0, seed=3)
    tau, fresh = torque(robot, motion), torque(robot, other)
    tau, fresh = tau + noise(tau.shape, 0.5), fresh + noise(fresh.shape, 0.5, 1)
    result = dynid.identify(robot, log_of(motion, tau), friction=PLAIN, validate=log_of(other, fresh, "fresh"))
    W = plain_matrix(robot, other, result.names)
    error = np.sqrt(((fresh - W @ result.values) ** 2).mean(axis=0))
    assert_allclose(result.validation.rmse, error, rtol=1e-9)
    assert result.validation.source == "fresh"
    assert_allclose(result.predict(other), W @ result.values, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 2, float("nan")])
def test_impossible_shares_are_refused(share: float) -> None:
    robot = dynid.load_robot("gautier3")
    with pytest.raises(IdentificationError, match="share"):
        dynid.identify(robot, dynid.simulate(robot, fourier_motion(robot)), validate=share)


@pytest.mark.parametrize("estimator", ["wls", "ols"])
def test_the_band_covers_fresh_torques(estimator: str) -> None:
    robot = with_friction(dynid.load_robot("gautier3"))
    inside = []
    size = [0.2, 2.0, 1.0]
    for seed in range(4):
        motion, fresh = (fourier_motion(robot, duration=20.0, rate=50.0, seed=2 * seed + k) for k in range(2))
        tau = torque(robot, motion)
        log = log_of(motion, tau + noise(tau.shape, size, seed))
        result = dynid.identify(robot, log, friction=PLAIN, estimator=estimator)
        new = torque(robot, fresh)
        new = new + noise(new.shape, size, 100 + seed)
        inside.append((np.abs(new - result.predict(fresh)) <= result.band(fresh)).mean(axis=0))
    assert (np.mean(inside, axis=0) >= 0.93).all()
    assert (np.mean(inside, axis=0) <= 0.98).all()


def odd_robots() -> dict[str, Robot]:
    tree = random_tree(3, joints=4, fixed_share=0.0)
    sliding = replace(tree, links=tuple(replace(link, kind="prismatic") for link in tree.links))
    pendulum = Robot.from_mdh([{"alpha": np.pi / 2}])
    return {
        "all prismatic": sliding,
        "pendulum": pendulum.with_parameters(np.random.default_rng(0).uniform(0.2, 1.0, 11)),
        "no gravity": replace(tree, gravity=np.zeros(3)),
        "sliding without gravity": replace(sliding, gravity=np.zeros(3)),
        "tree of 12": random_tree(1, joints=12),
    }


@pytest.mark.parametrize("friction", [(), PLAIN, "auto"])
@pytest.mark.parametrize("name", odd_robots())
def test_odd_robots_are_exact(name: str, friction: str | tuple[str, ...]) -> None:
    robot = odd_robots()[name]
    robot = robot if friction == () else with_friction(robot)
    motion = fourier_motion(robot, duration=20.0 if robot.n > 4 else 10.0, rate=50.0)
    result = dynid.identify(robot, log_of(motion, torque(robot, motion)), friction=friction)
    assert result.verdict.level in ("good", "usable")
    assert result.unidentifiable == ()
    assert_allclose(result.predict(motion), torque(robot, motion), rtol=1e-9, atol=1e-8)
    other = fourier_motion(robot, seed=5, rate=50.0)
    assert_allclose(result.predict(other), torque(robot, other), rtol=1e-7, atol=1e-7)
    joined = any(note.code == "collinear_parameter" for note in result.notes)
    if not joined:
        assert_allclose(result.values, truth(robot, result), rtol=0.0, atol=1e-8)


def test_prediction_does_not_depend_on_where_a_motion_is_cut() -> None:
    """Long motions are predicted piece by piece; the memory of friction goes on."""
    from dynid.estimation import identification

    robot = with_friction(dynid.load_robot("gautier3"))
    motion = fourier_motion(robot)
    result = dynid.identify(robot, log_of(motion, torque(robot, motion) + noise((1000, 3), 0.5)))
    whole = result.predict(motion), result.band(motion)
    before = identification.CHUNK
    try:
        identification.CHUNK = 37
        assert_allclose(result.predict(motion), whole[0], rtol=1e-12, atol=1e-10)
        assert_allclose(result.band(motion), whole[1], rtol=1e-12)
    finally:
        identification.CHUNK = before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "gravity"}, "no model 'gravity'"),
        ({"estimator": "best"}, "estimators are ols, wls"),
        ({"intervals": "wide"}, "jackknife"),
        ({"cutoff": -1.0}, "positive number of Hz"),
        ({"cutoff": float("nan")}, "positive number of Hz"),
        ({"cutoff": 1e6}, "half the sampling rate"),
        ({"delay": float("inf")}, "number of seconds"),
        ({"friction": ("viscous", "viscous")}, "twice"),
        ({"friction": "viscos"}, "no friction block 'viscos'"),
    ],
)
def test_wrong_options_are_one_clear_line(options: dict[str, object], words: str) -> None:
    robot = dynid.load_robot("gautier3")
    with pytest.raises(DynidError, match=words) as caught:
        dynid.identify(robot, dynid.simulate(robot, fourier_motion(robot)), **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_one_sample_can_be_predicted() -> None:
    robot = with_friction(dynid.load_robot("gautier3"))
    motion = fourier_motion(robot)
    result = dynid.identify(robot, log_of(motion, torque(robot, motion)), friction=PLAIN)
    one = Motion(motion.t[:1], motion.q[:1], motion.v[:1], motion.a[:1])
    assert_allclose(result.predict(one), torque(robot, one), atol=1e-8)


def keywords(function: Callable[..., object]) -> dict[str, object]:
    return {name: p.default for name, p in inspect.signature(function).parameters.items()}


FRONT = keywords(dynid.identify)


def test_options_are_the_keywords_of_identify() -> None:
    derived = ("spans",)  # of a list of windows
    own = {field.name: getattr(Options(), field.name) for field in fields(Options) if field.name not in derived}
    asked = {name: x for name, x in FRONT.items() if name not in ("robot", "logs", "validate", "on_progress")}
    assert list(own) == list(asked)
    assert {**own, "known": None} == asked  # no mapping is a default of a function


@pytest.mark.parametrize(
    "function",
    [
        dynid.collect_state,
        dynid.identify_states,
        dynid.compare_estimators,
        dynid.identify_payload,
        dynid.identify_gains,
        identify_command.identify,
        payload_command.payload,
        payload_command.gains,
    ],
)
def test_options_have_the_same_order_and_defaults_everywhere(function: Callable[..., object]) -> None:
    found = keywords(function)
    shared = [name for name in found if name in FRONT]
    assert shared == [name for name in FRONT if name in found]
    different = {"validate"}  # a comparison always holds something out
    if function in (
        dynid.identify_payload,
        payload_command.payload,
        dynid.identify_gains,
        payload_command.gains,
    ):
        different.add("friction_per_log")  # what differs between two runs would read as a payload
    for name in shared:
        if name not in different:
            empty = found[name] is None and FRONT[name] == ()  # as the command line writes an empty list
            assert found[name] == FRONT[name] or empty


def test_options_are_checked_when_they_are_made_and_stay() -> None:
    given = {"Fv1": 1.0}
    options = Options(friction=["viscous"], joints=["1"], known=given)
    given["Fv2"] = 2.0
    assert options.friction_blocks == ("viscous",)
    assert options.known == {"Fv1": 1.0}
    with pytest.raises(FrozenInstanceError):
        options.delay = 1.0  # type: ignore[misc]
    for wrong in ({"model": "x"}, {"estimator": "x"}, {"friction": ("viscous", "viscous")}, {"cutoff": -1.0}):
        with pytest.raises(IdentificationError):
            Options(**wrong)
        with pytest.raises(IdentificationError):
            replace(options, **wrong)


def test_options_of_a_robot_name_its_joints_and_columns() -> None:
    robot = replace(
        dynid.load_robot("gautier3"), columns=(JointColumn("spring", "2", positions=np.arange(2.0), torque=np.ones(2)),)
    )
    assert Options().resolve_for_robot(robot).joints == robot.joint_names
    assert Options(joints=["3", "2"]).resolve_for_robot(robot).joints == ("2", "3")
    assert [column.name for column in Options().resolve_for_robot(robot).columns] == ["spring"]
    assert Options(joints=["1"]).resolve_for_robot(robot).columns == ()
    with pytest.raises(IdentificationError, match="joints are"):
        Options(joints=["7"]).resolve_for_robot(robot)
