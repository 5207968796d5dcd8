"""Identification without geometry: the paper's SCARA, lengths that do not matter, friction, files, recordings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid import (
    DynidError,
    Identification,
    Log,
    Robot,
    State,
    collect_state,
    identify,
    identify_payload,
    identify_states,
    load_robot,
    model_parameters,
    simulate,
)
from dynid.robot.transform import Array
from fourier import fourier_motion
from recordings import CASES, PLAIN, logs
from scara import X, scara_motion, scara_unknowns

LENGTHS = ("A1", "A2")


@pytest.mark.parametrize("estimator", ["wls", "ols", "recursive"])
@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        ({"model": "torque"}, 1e-9),
        ({"model": "momentum", "window": 0.1, "quadrature": "smooth"}, 1e-6),
        ({"model": "momentum", "window": 0.1, "quadrature": "trapezoid"}, 1e-3),
    ],
    ids=["differential", "integral", "trapezoid"],
)
def test_scara_of_the_paper(estimator: str, options: dict[str, object], tolerance: float) -> None:
    robot = load_robot("scara")
    log = simulate(robot, scara_motion())
    result = identify(
        robot,
        log,
        unknown=LENGTHS,
        estimator=estimator,
        friction=(),
        rotor_inertia=False,
        **options,  # type: ignore[arg-type]
    )
    assert result.names == ("X11", "X21", "X22", "X23", "X31", "X41")
    assert result.units == ("kg m^2", "kg m^2", "kg m^2", "kg m^2", "kg", "kg m^2")
    np.testing.assert_allclose(result.values, X, rtol=0.0, atol=tolerance)


def stretched(robot: Robot) -> Robot:
    """The same robot as a person would describe it who measured all lengths wrongly."""
    table = robot.to_mdh()
    rng = np.random.default_rng(4)
    rows = []
    for link in table.links:
        assert link.mdh is not None
        wrong = {name: getattr(link.mdh, name).value for name in ("gamma", "b", "alpha", "d", "theta", "r")}
        wrong["d"] += rng.uniform(-0.3, 0.3)
        wrong["r"] += rng.uniform(-0.3, 0.3)
        rows.append({"type": link.kind, **wrong})
    return Robot.from_mdh(rows, gravity=robot.gravity, name="measured wrongly")


@pytest.mark.parametrize("name", ["puma560", "gautier3", "rx90"])
def test_lengths_do_not_matter(name: str) -> None:
    robot = load_robot(name)
    if np.isnan(robot.parameters).any():
        robot = robot.with_parameters(np.nan_to_num(robot.parameters, nan=0.2))
    log = simulate(robot, fourier_motion(robot, duration=20.0, rate=50.0), noise=0.05)
    fresh = fourier_motion(robot, seed=5)
    truth = simulate(robot, fresh).tau
    assert truth is not None
    wrong = stretched(robot)
    found = [identify(r, log, unknown=("d", "r"), friction=()) for r in (robot, wrong)]
    np.testing.assert_allclose(found[0].values, found[1].values, rtol=1e-6, atol=1e-9)
    errors = [(r.predict(fresh) - truth).std(axis=0) for r in (*found, identify(wrong, log, unknown=(), friction=()))]
    spread = truth.std(axis=0)
    assert (errors[0] < 0.02 * spread + 0.02).all()
    np.testing.assert_allclose(errors[0], errors[1], rtol=1e-6)
    assert (errors[2] / spread).mean() > 3.0 * (errors[0] / spread).mean()  # trusting wrong lengths is worse


def test_predictions_are_those_of_the_geometric_model() -> None:
    robot = load_robot("puma560")
    rough = replace(
        robot, links=tuple(replace(link, friction=(("viscous", 1.0), ("coulomb", 2.0))) for link in robot.links)
    )
    log = simulate(rough, fourier_motion(robot, duration=30.0, rate=200.0), noise=0.1)
    q = log.q + 2e-5 * np.random.default_rng(1).standard_normal(log.q.shape)
    noisy = Log(log.t, q, tau=log.tau)
    plain = ("viscous", "coulomb")
    other = simulate(rough, fourier_motion(robot, seed=3, rate=200.0), noise=0.1)
    known, free = (
        identify(robot, noisy, friction=plain, unknown=unknown, validate=other) for unknown in ((), ("d", "r"))
    )
    assert free.base_rank == 82
    assert free.validation.mean < 1.1 * known.validation.mean
    for label in "123456":
        k = free.names.index(f"Fc{label}")
        assert abs(free.values[k] - 2.0) < 5.0 * free.sigma[k] + 0.02


@pytest.mark.parametrize("seed", range(3))
def test_known_or_unknown_lengths_are_the_same_estimate_where_the_span_is(seed: int) -> None:
    """Six functions either way: X of noisy data follow from base parameters, so the noise study speaks of both."""
    robot = load_robot("scara")
    log = simulate(robot, scara_motion())
    assert log.tau is not None
    rng = np.random.default_rng(seed)
    q = log.q + 1e-4 * rng.standard_normal(log.q.shape)
    tau = log.tau + 0.02 * np.sqrt((log.tau**2).mean(axis=0)) * rng.standard_normal(log.tau.shape)
    noisy = Log(log.t, q, tau=tau)
    for estimator in ("wls", "recursive"):
        both = [
            identify(robot, noisy, model="momentum", friction=(), rotor_inertia=False, unknown=u, estimator=estimator)
            for u in ((), LENGTHS)
        ]
        np.testing.assert_allclose(both[1].values, scara_unknowns(both[0]), rtol=1e-6)


def test_a_table_that_declares_unknown_lengths() -> None:
    robot = replace(load_robot("scara"), unknown=LENGTHS)
    log = simulate(robot, scara_motion())
    assert identify(robot, log, friction=(), rotor_inertia=False).names[0] == "X11"
    assert identify(robot, log, friction=(), rotor_inertia=False, unknown=()).names[0] == "ZZ1"
    with pytest.raises(DynidError, match="payloads need the geometry"):
        identify_payload(robot, log, simulate(robot, scara_motion(0.004)), friction=())


def test_results_and_states_come_back_from_files(tmp_path: Path) -> None:
    robot = load_robot("puma560")
    motion = fourier_motion(robot)
    log = simulate(robot, motion, noise=0.1)
    state = collect_state(robot, log, unknown=("D3",), friction=("viscous",))
    state.save(tmp_path / "state.json")
    result = identify_states(State.load(tmp_path / "state.json"))
    expected = identify(robot, log, unknown=("D3",), friction=("viscous",))
    np.testing.assert_allclose(result.values, expected.values, rtol=1e-12)
    expected.save(tmp_path / "result.json")
    again = Identification.load(tmp_path / "result.json")
    np.testing.assert_array_equal(again.predict(motion), expected.predict(motion))
    assert again.equation.unknown == ("D3",)
    nominal: Array = model_parameters(robot, unknown=("D3",), rotor_inertia=True).values()
    np.testing.assert_allclose(
        identify(robot, log, unknown=("D3",), estimator="ridge").values[: len(nominal)], nominal, atol=0.5
    )


def test_what_cannot_be_is_said_in_one_line() -> None:
    robot = load_robot("puma560")
    log = simulate(robot, fourier_motion(robot, duration=2.0))
    for options, said in (
        ({"unknown": ("d",), "model": "energy"}, "'energy' needs the geometry"),
        ({"unknown": ("d",), "model": "reaction"}, "'reaction' needs the geometry"),
        ({"unknown": ("alpha", "d", "r")}, "too many to be identified"),
        ({"unknown": ("Q9",)}, "Q9"),
    ):
        with pytest.raises(DynidError, match=said):
            identify(robot, log, **options)


@pytest.mark.parametrize("friction", [PLAIN, pytest.param("auto", marks=pytest.mark.slow)], ids=["plain", "recipe"])
@pytest.mark.parametrize("name", ["panda", "lwr4"])
def test_recordings_without_geometry(name: str, friction: str | tuple[str, ...]) -> None:
    case = CASES[name]
    robot = load_robot(case.robot)
    fit, other = logs(case, robot, cut=False)
    known, free = (
        identify(
            robot, fit, friction=friction, rotor_inertia=case.rotor_inertia, cutoff=case.cutoff, validate=other,
            unknown=unknown,
        )
        for unknown in ((), ("r",))
    )  # fmt: skip
    assert free.base_rank > known.base_rank == 43
    assert free.validation.mean < 1.1 * known.validation.mean
