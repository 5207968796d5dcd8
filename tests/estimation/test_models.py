"""Power, energy and momentum: exact without noise, independent of how a log is read, honest with noise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from command_line import CommandLine
from dynid.errors import IdentificationError, LogError
from dynid.estimation.identification import Identification
from dynid.estimation.options import Options
from dynid.estimation.regression.equation import Equation
from dynid.estimation.regression.rows import rows_of_log
from dynid.logs import filtering as module
from dynid.logs.filtering import Treatment
from dynid.logs.findings import Findings
from dynid.logs.log import Log
from dynid.logs.survey import survey
from dynid.robot.motion import Motion
from dynid.robot.robot import JointColumn, Robot
from dynid.robot.transform import Array
from dynid.unknown_geometry.model_parameters import ModelParameters
from fourier import fourier_motion
from log_makers import arm, log_of, recording
from robots import coupled_tree, random_tree
from scara import TORQUES, X, scara_motion, scara_unknowns

PLAIN = ("viscous", "coulomb", "offset")
SYMBOLS = dict(zip(PLAIN, ("Fv", "Fc", "Fo"), strict=True))
EXACT = {"power": 1e-9, "energy": 1e-6, "momentum": 1e-6}


def with_friction(robot: Robot) -> Robot:
    """Plain friction, without an offset where gravity's pull on a mass is one."""
    rng = np.random.default_rng(1)
    values = [
        tuple((name, float(rng.uniform(0.2, 2.0))) for name in PLAIN if name != "offset" or link.kind == "revolute")
        for link in robot.links
    ]
    links = tuple(
        replace(link, friction=own) if link.moves else link for link, own in zip(robot.links, values, strict=True)
    )
    return replace(robot, links=links)


def truth(robot: Robot, result: Identification) -> Array:
    base = result.equation.base
    values = dict(zip(base.names, base.values(robot.parameters), strict=True))
    for k in robot.active_links:
        values |= {SYMBOLS[name] + robot.links[k].label: value for name, value in robot.links[k].friction}
    return np.array([values.get(name, 0.0) for name in result.names])


def known_robot(name: str) -> Robot:
    made = {"tree": random_tree(1, joints=5), "loop": coupled_tree(1)}
    return made[name] if name in made else dynid.load_robot(name)


@pytest.mark.parametrize("model", EXACT)
@pytest.mark.parametrize("friction", [(), PLAIN])
@pytest.mark.parametrize("name", ["puma560", "scara", "tree", "loop"])
def test_without_noise_the_parameters_are_exact(name: str, friction: tuple[str, ...], model: str) -> None:
    robot = with_friction(known_robot(name)) if friction else known_robot(name)
    duration, rate = (20.0, 200.0) if name == "loop" else (10.0, 100.0)
    motion = fourier_motion(robot, duration=duration, rate=rate)
    log = dynid.simulate(robot, motion)
    assert log.tau is not None
    result = dynid.identify(robot, log, model=model, friction=friction)
    assert_allclose(result.values, truth(robot, result), rtol=0.0, atol=EXACT[model])
    assert result.base_rank == result.equation.base.count
    assert result.model == model
    assert_allclose(result.predict(motion), log.tau, rtol=0.0, atol=EXACT[model] * np.abs(log.tau).max())


@pytest.mark.parametrize("model", EXACT)
@pytest.mark.parametrize("cutoff", [5.0, 15.0])
def test_the_same_filter_on_both_sides_keeps_the_truth(model: str, cutoff: float) -> None:
    robot = dynid.load_robot("puma560")
    result = dynid.identify(
        robot, dynid.simulate(robot, fourier_motion(robot)), model=model, cutoff=cutoff, friction=()
    )
    assert result.cutoff == cutoff
    assert_allclose(result.values, truth(robot, result), rtol=0.0, atol=EXACT[model])


@pytest.mark.parametrize("model", EXACT)
def test_friction_of_the_recipe(model: str) -> None:
    """Stops and the gate work on any factors; the truth has Coulomb friction, which a narrow stop is nearly."""
    robot = with_friction(dynid.load_robot("gautier3"))
    motion = fourier_motion(robot, duration=20.0)
    log = dynid.simulate(robot, motion)
    assert log.tau is not None
    result = dynid.identify(robot, log, model=model)
    assert (result.validation.nrmse < 0.02).all()
    error = (result.predict(motion) - log.tau).std(axis=0) / log.tau.std(axis=0)
    assert (error < 0.1).all()


@pytest.mark.parametrize("model", EXACT)
def test_motors_that_drive_several_joints_and_torques_of_known_shape(model: str) -> None:
    robot = dynid.load_robot("gautier3")
    motion = fourier_motion(robot, duration=20.0)
    T = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.5, 1.0]])
    motor = motion.v @ T.T
    spring = JointColumn("K", joint="2", function=lambda q, v: np.sin(q[:, 2]))
    torque = dynid.simulate(robot, motion).tau
    assert torque is not None
    torque = torque + (0.7 * motor + 1.3 * np.sign(motor)) @ T
    torque[:, 1] += 2.0 * np.sin(motion.q[:, 2])
    log = Log.from_source(Log(motion.t, motion.q, v=motion.v, a=motion.a, tau=torque).source, coupling=T)
    result = dynid.identify(robot, log, model=model, friction=("viscous", "coulomb"), columns=(spring,))
    assert_allclose([result.value(f"Fv{j}") for j in "123"], 0.7, atol=1e-6)
    assert_allclose([result.value(f"Fc{j}") for j in "123"], 1.3, atol=1e-6)
    assert result.value("K") == pytest.approx(2.0, abs=1e-6)


@pytest.mark.parametrize(("quadrature", "tolerance"), [("trapezoid", 1e-3), ("smooth", 1e-6)])
def test_scara_of_the_paper(quadrature: str, tolerance: float) -> None:
    robot = dynid.load_robot("scara")
    log = dynid.simulate(robot, scara_motion())
    assert log.tau is not None
    assert_allclose(log.tau[list(TORQUES)], list(TORQUES.values()), atol=1e-9)
    result = dynid.identify(
        robot, log, model="momentum", quadrature=quadrature, friction=(), rotor_inertia=False, window=0.1
    )
    assert_allclose(scara_unknowns(result), X, rtol=0.0, atol=tolerance)
    if quadrature == "trapezoid":
        assert np.abs(scara_unknowns(result) - X).max() > 1e-6


INTERVALS = {  # Ha, Ko & Kwon, Table 2
    1: [(0.0, 0.5), (0.5, 1.0), (1.0, 1.5)],
    2: [(1.0, 1.5), (1.5, 2.0), (2.5, 3.0)],
    3: [(3.0, 3.5), (2.5, 3.0), (3.5, 4.0)],  # in any order
}


def listed_balances(found: ModelParameters, log: Log, spans: list[tuple[float, float]]) -> tuple[Any, Any]:
    """U and Y of eq. 2.26, joint by joint, by the trapezoid rule."""
    assert log.v is not None
    assert log.tau is not None
    motion, n = Motion(log.t, log.q, log.v, np.zeros_like(log.v)), log.q.shape[1]
    state, slope = (
        found.regressor(motion, model=model).matrix.reshape(len(log.t), n, -1)
        for model in ("momentum", "lagrangian_gradient")
    )
    U, Y = [], []
    for begin, end in spans:
        i, k = (round(x / 0.002) for x in (begin, end))
        part = slice(i, k + 1)
        U.append(state[k] - state[i] - np.trapezoid(slope[part], log.t[part], axis=0))
        Y.append(np.trapezoid(log.tau[part], log.t[part], axis=0))
    return np.array(U), np.array(Y)


@pytest.mark.parametrize("spans", INTERVALS.values(), ids=INTERVALS)
def test_listed_windows_are_those_of_table_2(spans: list[tuple[float, float]], tmp_path: Path) -> None:
    robot = dynid.load_robot("scara")
    log = dynid.simulate(robot, scara_motion())
    unknown = {"unknown": ("A1", "A2"), "friction": (), "rotor_inertia": False, "model": "momentum"}
    rough = {**unknown, "quadrature": "trapezoid", "window": spans}
    U, Y = listed_balances(dynid.model_parameters(robot, unknown=("A1", "A2")), log, spans)

    batch = dynid.identify(robot, log, estimator="ols", **rough)  # type: ignore[arg-type]
    expected = np.linalg.lstsq(U.reshape(-1, 6), Y.ravel(), rcond=None)[0]
    assert_allclose(batch.values, expected, rtol=1e-9, atol=0.0)  # eq. 2.25
    assert_allclose(batch.values, X, rtol=0.0, atol=8e-4)  # the paper's own errors
    back = dynid.identify(robot, log, estimator="recursive", **rough)  # type: ignore[arg-type]
    for joint, block in reversed(list(enumerate([slice(0, 1), slice(1, 4), slice(4, 5), slice(5, 6)]))):  # eq. 2.28
        left = Y[:, joint] - U[:, joint, block.stop :] @ expected[block.stop :]
        expected[block] = np.linalg.lstsq(U[:, joint, block], left, rcond=None)[0]
    assert_allclose(back.values, expected, rtol=1e-8, atol=0.0)

    smooth = dynid.identify(robot, log, window=spans, **unknown)  # type: ignore[arg-type]
    assert_allclose(smooth.values, X, rtol=1e-8, atol=0.0)
    smooth.save(tmp_path / "result.json")
    assert dynid.Identification.load(tmp_path / "result.json").equation.options.spans == tuple(spans)


def test_listed_windows_that_are_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    robot = dynid.load_robot("scara")
    log = dynid.simulate(robot, scara_motion())
    options = {"model": "momentum", "friction": (), "rotor_inertia": False}
    result = dynid.identify(robot, log, window=[*INTERVALS[1], *INTERVALS[2], (0.0, 4.0), (3.8, 4.2)], **options)  # type: ignore[arg-type]
    (left_out,) = (message for message in result.warnings if message.code == "windows_left_out")
    assert left_out.facts["out"] == 1
    with pytest.raises(LogError, match="none of the windows lies inside it"):
        dynid.identify(robot, log, window=[(5.0, 6.0)], **options)  # type: ignore[arg-type]
    for wrong in ([(1.0, 0.5)], [(0.0,)], [(0.0, np.inf)], [3.0, 4.0]):
        with pytest.raises(IdentificationError, match="pairs \\(begin, end\\)"):
            dynid.identify(robot, log, window=wrong, **options)  # type: ignore[arg-type]
    with pytest.raises(IdentificationError, match="list of windows is empty"):
        dynid.identify(robot, log, window=[], **options)  # type: ignore[arg-type]

    place = tmp_path / "log.npz"
    assert log.v is not None
    assert log.tau is not None
    np.savez(place, t=log.t, q=log.q, v=log.v, tau=log.tau)
    command = ("identify", "scara", str(place), "--model", "momentum", "--friction", "none", "--no-rotor-inertia")
    run = CommandLine(monkeypatch, capsys)
    done = run(*command, "--quadrature", "trapezoid", "--window", "0:0.5,0.5:1,1:1.5", "--details", code=1)
    assert "balanced over 3 windows of the list given" in done.out
    assert "--window 0:0.5,0.5:1x:" in run.fails(*command, "--window", "0:0.5,0.5:1x")


def test_the_trapezoid_converges_with_the_square_of_the_step() -> None:
    robot, errors = dynid.load_robot("scara"), []
    for step in (0.008, 0.004, 0.002):
        log = dynid.simulate(robot, scara_motion(step))
        options = {"model": "momentum", "quadrature": "trapezoid", "window": 0.16}
        result = dynid.identify(robot, log, friction=(), rotor_inertia=False, **options)  # type: ignore[arg-type]
        errors.append(np.linalg.norm(scara_unknowns(result) - X))
    assert_allclose(np.log2(np.array(errors[:-1]) / errors[1:]), 2.0, atol=0.1)


TREATMENTS = [
    Treatment(200.0, 8.0),
    Treatment(200.0, 8.0, delay=0.0123),
    Treatment(200.0, 2.0),
    Treatment(200.0, 8.0, smooth=False),
    Treatment(200.0, None, smooth=False),
]


LISTED = [(6.3, 8.9), (2.0, 2.4), (2.2, 2.3), (9.8, 10.7)]


@pytest.mark.parametrize("treatment", TREATMENTS)
@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("power", None),
        ("energy", 0.3),
        ("momentum", 0.3),
        ("momentum", [(6.3, 8.9), (2.0, 2.4), (2.2, 2.3), (9.8, 10.7)]),
    ],
)
def test_rows_do_not_depend_on_windows_and_chunks(
    model: str, window: float | list[tuple[float, float]] | None, treatment: Treatment, monkeypatch: pytest.MonkeyPatch
) -> None:
    robot = arm(2)
    blocks = (*PLAIN, "stop1e-3", "lag")
    equation = Equation.for_robot(robot, Options(model=model, window=window), friction=blocks, scale=np.ones(2))
    t = np.arange(3000) / 200.0
    t[1000:1400] += np.random.default_rng(0).uniform(-1e-3, 1e-3, 400)
    t[2000:] += 0.5
    samples = recording(t, base=0.3)

    def rows(log: Log) -> Array:
        found = Findings("x", 200.0)
        parts = rows_of_log(equation, log, number=0, seen=survey(log, robot), treatment=treatment, found=found)
        return np.concatenate([np.column_stack([p.t, p.settled, p.wide]) for p in parts])

    monkeypatch.setattr(module, "SIZE", 1_000_000)
    whole = rows(log_of(samples))
    assert not isinstance(window, list) or len(whole) == 3  # one spans the gap
    for size, chunk in ((128, 1_000_000), (257, 11)):
        monkeypatch.setattr(module, "SIZE", size)
        assert_allclose(rows(log_of(samples, chunk)), whole, rtol=0.0, atol=1e-9 * np.abs(whole).max())


def noisy(robot: Robot, motion: Motion, seed: int, *, position: float, torque: float) -> Log:
    """Positions and torques only, with white noise; that of the torques as a share of their deviation."""
    rng = np.random.default_rng(seed)
    tau = dynid.simulate(robot, motion).tau
    assert tau is not None
    q = motion.q + position * rng.standard_normal(motion.q.shape)
    return dynid.Log(motion.t, q, tau=tau + torque * tau.std(axis=0) * rng.standard_normal(tau.shape))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["puma560", "scara"])
def test_momentum_does_not_need_the_right_filter(name: str) -> None:
    """1e-4 rad and 2 %: with little filtering it is far better than torques; with the chosen filter both are good.

    A parameter that noise of the motion hides, and that is therefore unidentifiable, counts as infinitely wrong.
    """
    robot = dynid.load_robot(name)
    motion = fourier_motion(robot, duration=20.0, rate=200.0)

    def deviation(model: str, cutoff: float | None) -> Array:
        errors = []
        for seed in range(4):
            log = noisy(robot, motion, seed, position=1e-4, torque=0.02)
            result = dynid.identify(robot, log, model=model, friction=(), cutoff=cutoff)
            found = dict(zip(result.names, np.abs(result.values - truth(robot, result)), strict=True))
            errors.append([found.get(name, np.inf) for name in base.names])
        return np.asarray(np.sqrt(np.mean(np.square(errors), axis=0)))

    base = dynid.base_parameters(robot)
    assert np.isfinite([deviation("momentum", cutoff) for cutoff in (20.0, 50.0, None)]).all()
    for cutoff in (20.0, 50.0):
        assert np.median(deviation("torque", cutoff) / deviation("momentum", cutoff)) > 5.0
    assert np.median(deviation("torque", None) / deviation("momentum", None)) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("model", ["energy", "momentum"])
@pytest.mark.parametrize("position", [1e-4, pytest.param(0.0, marks=pytest.mark.slow)])
def test_intervals_cover(model: str, position: float) -> None:
    """95 % intervals in 60 runs, overlapping windows or not; position: noise (rad), exact motion where 0."""
    robot = dynid.load_robot("gautier3")
    robot = robot.with_parameters(np.where([n.startswith("Ia") for n in robot.parameter_names], 0.0, robot.parameters))
    motion = fourier_motion(robot, duration=20.0)
    hits = []
    for run in range(60):
        log = noisy(robot, motion, run, position=position, torque=0.05)
        if position == 0.0:
            log = dynid.Log(motion.t, motion.q, v=motion.v, a=motion.a, tau=log.tau)
        result = dynid.identify(robot, log, model=model, friction=PLAIN, rotor_inertia=False, cutoff=10.0)
        true = truth(robot, result)
        hits.append((result.intervals[:, 0] <= true) & (true <= result.intervals[:, 1]))
    shares = np.mean(hits, axis=0)
    assert 0.93 <= shares.mean() <= 0.98
    assert shares.min() >= 0.80


@pytest.mark.parametrize("model", EXACT)
def test_results_and_states_come_back_from_files(model: str, tmp_path: Path) -> None:
    robot = with_friction(dynid.load_robot("gautier3"))
    motion = fourier_motion(robot, duration=20.0)
    log = dynid.simulate(robot, motion, noise=0.1)
    result = dynid.identify(robot, log, model=model, friction=PLAIN, cutoff=10.0)
    result.save(tmp_path / "result.json")
    again = Identification.load(tmp_path / "result.json")
    for name in ("model", "window", "quadrature", "rotor_inertia", "joints"):
        assert getattr(again.equation.options, name) == getattr(result.equation.options, name)
    assert again.channels == result.channels
    assert_allclose(again.predict(motion), result.predict(motion), rtol=0.0, atol=0.0)
    state = dynid.collect_state(robot, log, model=model, friction=PLAIN, cutoff=10.0)
    state.save(tmp_path / "state.json")
    merged = dynid.identify_states(type(state).load(tmp_path / "state.json"))
    assert_allclose(merged.values, result.values, rtol=1e-9, atol=1e-9)
    other = dynid.collect_state(robot, log, friction=PLAIN, cutoff=10.0)
    with pytest.raises(IdentificationError, match="model"):
        dynid.identify_states([state, other])


@pytest.mark.parametrize("model", ["momentum", "energy"])
def test_validation_on_held_out_time(model: str) -> None:
    robot = dynid.load_robot("gautier3")
    log = dynid.simulate(robot, fourier_motion(robot, duration=20.0), noise=0.1)
    result = dynid.identify(robot, log, model=model, friction=(), cutoff=10.0, validate=0.3)
    assert result.validation.nrmse.shape == (len(result.channels),)
    assert (result.validation.nrmse < 0.05).all()


def test_what_cannot_be_is_said_in_one_line() -> None:
    robot = dynid.load_robot("gautier3")
    log = dynid.simulate(robot, fourier_motion(robot))
    with pytest.raises(IdentificationError, match="no model 'work'; models are torque, power, energy, momentum"):
        dynid.identify(robot, log, model="work")
    with pytest.raises(IdentificationError, match="adds up all joints"):
        dynid.identify(robot, log, model="energy", joints=["1"])
    with pytest.raises(IdentificationError, match="model 'power' has no window"):
        dynid.identify(robot, log, model="power", window=0.1)
    with pytest.raises(IdentificationError, match="positive number of seconds"):
        dynid.identify(robot, log, model="energy", window=-1.0)
    with pytest.raises(IdentificationError, match="no quadrature 'simpson'"):
        dynid.identify(robot, log, model="energy", quadrature="simpson")
    with pytest.raises(LogError, match="as long as a window of 30 s"):
        dynid.identify(robot, log, model="momentum", window=30.0)
    rng = np.random.default_rng(0)
    q, v, a = rng.standard_normal((3, 200, robot.n))
    postures = dynid.simulate(robot, Motion(np.arange(200.0), q, v, a))
    with pytest.raises(IdentificationError, match="not ordered in time"):
        dynid.identify(robot, postures, model="momentum", friction=())


def test_a_motion_that_runs_back_in_time_is_solved_in_one_batch() -> None:
    """The recursion joint by joint fails here (Ha, Ko & Kwon, condition 2.30); all windows together do not."""
    robot, t = dynid.load_robot("scara"), np.linspace(0.0, 4.0, 2001)
    rng = np.random.default_rng(2)
    q, v, a = np.zeros((3, len(t), 4))
    for k in (1, 2, 3):
        w, size = 0.5 * np.pi * k, rng.standard_normal(4) / k
        q += size * (1.0 - np.cos(w * t))[:, None]
        v += size * w * np.sin(w * t)[:, None]
        a += size * w * w * np.cos(w * t)[:, None]
    log = dynid.simulate(robot, Motion(t, q, v, a))
    result = dynid.identify(robot, log, model="momentum", friction=(), rotor_inertia=False)
    assert_allclose(scara_unknowns(result), X, rtol=0.0, atol=1e-8)


@pytest.mark.parametrize("model", ["energy", "momentum"])
def test_a_tool_that_does_not_turn_hides_its_inertia(model: str) -> None:
    robot, motion = dynid.load_robot("scara"), scara_motion()
    q, v, a = motion.q.copy(), motion.v.copy(), motion.a.copy()
    for x in (q, v, a):
        x[:, 3] = -(x[:, 0] + x[:, 1])
    log = dynid.simulate(robot, Motion(motion.t, q, v, a), noise=1e-3)
    result = dynid.identify(robot, log, model=model, friction=(), rotor_inertia=False)
    assert result.rank == 5
    assert [lost.name for lost in result.unidentifiable] == ["ZZ4"]
