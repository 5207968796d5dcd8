"""Lengths from model parameters: what follows, exactly without noise, inside its intervals with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from command_line import CommandLine
from dynid import DynidError, Robot, load_robot, model_parameters
from dynid.estimation.regression.unknown_geometry import recover_geometry, recover_geometry_of_result
from dynid.robot.transform import Array
from dynid.unknown_geometry.model_parameters import ModelParameters
from fourier import fourier_motion
from recordings import CASES, logs

LENGTHS = ("D3", "R3", "D4", "R4")


@pytest.fixture(scope="module")
def scara() -> ModelParameters:
    return model_parameters(load_robot("scara"), unknown=("A1", "A2"))


@pytest.fixture(scope="module")
def puma() -> ModelParameters:
    return model_parameters(load_robot("puma560"), unknown=LENGTHS)


def started_elsewhere(found: ModelParameters, factor: float) -> ModelParameters:
    """The same model parameters with other nominal lengths."""
    shape = found.form.shape
    other = replace(shape, lengths={name: factor * x for name, x in shape.lengths.items()})
    return replace(found, form=replace(found.form, shape=other))


@pytest.mark.parametrize(
    ("known", "follow", "hidden"),
    [
        ({}, (), ("A1", "A2")),
        ({"MX2": 0.0, "MX3": 0.0}, ("A1*A2",), ()),  # X22 = A1*A2*X31
        ({"MY2": 0.1, "MY3": 0.0}, ("A1",), ("A2",)),  # X23 = A1*(MY2 + MY3)
        ({"MX2": 0.1, "MX3": 0.1, "MY2": 0.1, "MY3": 0.0}, ("A1", "A2"), ()),
    ],
)
def test_what_follows_for_the_scara(
    scara: ModelParameters, known: dict[str, float], follow: tuple[str, ...], hidden: tuple[str, ...]
) -> None:
    found = scara.recoverable_lengths(known=known)
    assert (found.texts, found.hidden, found.others) == (follow, hidden, 0)


def test_a_function_that_is_no_product_is_counted(scara: ModelParameters) -> None:
    """A1*(MX2 + MX3) + A1*A2*X31 with a moment that is not zero."""
    found = scara.recoverable_lengths(known={"MX2": 0.3, "MX3": 0.0})
    assert (found.texts, found.others) == ((), 1)


def test_the_lengths_of_the_scara_come_back(scara: ModelParameters) -> None:
    """Inverted by hand: A1 = X23 / MY, A2 = (X22 / A1 - MX) / X31."""
    V = dict(zip(scara.form.shape.robot.parameter_names, np.random.default_rng(1).uniform(0.2, 1.0, 44), strict=True))
    robot = scara.form.shape.robot.with_parameters(np.array(list(V.values())))
    X = scara.matrix() @ robot.parameters
    known = {name: V[name] for name in ("MX2", "MX3", "MY2", "MY3")}
    C = np.diag((1e-3 * np.abs(X)) ** 2)
    found = recover_geometry(started_elsewhere(scara, 1.7), X, C, known=known)
    values = dict(zip(scara.names, X, strict=True))
    A1 = values["X23"] / (V["MY2"] + V["MY3"])
    A2 = (values["X22"] / A1 - V["MX2"] - V["MX3"]) / values["X31"]
    assert found.names == ("A1", "A2")
    assert_allclose(found.values, [A1, A2], rtol=1e-9)
    assert_allclose(found.values, list(scara.form.shape.lengths.values()), rtol=1e-9)
    product = recover_geometry(scara, scara.matrix() @ _without(robot, "MX2", "MX3"), C, known={"MX2": 0.0, "MX3": 0.0})
    assert product.names == ("A1*A2",)
    assert_allclose(product.values, [np.prod(list(scara.form.shape.lengths.values()))], rtol=1e-9)


def _without(robot: Robot, *names: str) -> Array:
    X = robot.parameters.copy()
    X[[robot.parameter_names.index(name) for name in names]] = 0.0
    return X


@pytest.mark.parametrize("factor", [0.6, 1.6])
def test_all_lengths_of_the_puma_follow_from_torques(puma: ModelParameters, factor: float) -> None:
    assert puma.recoverable_lengths().texts == ("D3", "D4", "R3", "R4")
    X = puma.values(load_robot("puma560"))
    found = recover_geometry(started_elsewhere(puma, factor), X, np.diag(1e-6 * (1.0 + X**2)))
    assert_allclose(found.values, [0.5, 0.02, 0.2, 0.6], rtol=1e-6)
    assert found.misfit < 1e-6


def test_intervals_hold_the_lengths(puma: ModelParameters) -> None:
    X, rng = puma.values(load_robot("puma560")), np.random.default_rng(3)
    sigma = 2e-4 * (0.1 + np.abs(X))
    inside = []
    for _ in range(40):
        found = recover_geometry(puma, X + sigma * rng.standard_normal(len(X)), np.diag(sigma**2))
        low, high = found.intervals.T
        inside += list((low <= [0.5, 0.02, 0.2, 0.6]) & ([0.5, 0.02, 0.2, 0.6] <= high))
    assert 0.9 <= np.mean(inside) <= 0.995


def test_a_simulated_arm_tells_its_lengths(tmp_path: Path) -> None:
    robot = load_robot("gautier3")
    log = dynid.simulate(robot, fourier_motion(robot), noise=0.02, seed=2)
    result = dynid.identify(robot, log, unknown=("d", "r"), friction=())
    found = recover_geometry_of_result(result)
    truth = {
        f"{letter}{k + 1}": getattr(link.mdh, letter).value for k, link in enumerate(robot.links) for letter in "dr"
    }
    for name, (low, high) in zip(found.names, found.intervals, strict=True):
        assert low <= truth[name] <= high
    assert found.names == ("d2", "d3")


def test_wrong_uses_are_told(scara: ModelParameters) -> None:
    with pytest.raises(DynidError, match="'XX9' is not a parameter"):
        scara.recoverable_lengths(known={"XX9": 0.0})
    robot = load_robot("gautier3")
    result = dynid.identify(robot, dynid.simulate(robot, fourier_motion(robot)), friction=())
    with pytest.raises(DynidError, match="was known to this identification"):
        recover_geometry_of_result(result)


def test_the_command_tells_lengths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = CommandLine(monkeypatch, capsys)
    out = command("unknown", "scara", "--unknown", "A1,A2", "--known", "MX2=0", "--known", "MX3=0").out
    assert "These parameters determine A1*A2 (" in out
    robot = load_robot("gautier3")
    result = dynid.identify(
        robot, dynid.simulate(robot, fourier_motion(robot), noise=0.02, seed=2), unknown=("d", "r"), friction=()
    )
    result.save(tmp_path / "result.json")
    assert "d3" in command("unknown", "gautier3", "--result", tmp_path / "result.json").out
    command("unknown", "scara", "--result", tmp_path / "result.json", code=2)
    command("unknown", "gautier3", "--result", tmp_path / "result.json", "--unknown", "d", code=2)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "inside"), [("panda", ("r2", "r3", "r4", "r5", "r6")), ("lwr4", ("r2", "r5"))])
def test_public_recordings_with_all_r_unknown(name: str, inside: tuple[str, ...]) -> None:
    """Published r, also those that are 0: inside the intervals, or (r3, r4 of the LWR4+) close to their ends."""
    robot = load_robot(name)
    fit, _ = logs(CASES[name], robot, cut=False)
    found = recover_geometry_of_result(dynid.identify(robot, fit, unknown=("r",)))
    assert found.hidden == ("r1", "r7")  # along the first axis, and beyond the last: no torque shows them
    for text, value, (low, high) in zip(found.names, found.values, found.intervals, strict=True):
        row = robot.links[int(text[1:]) - 1].mdh
        assert row is not None
        assert (low <= row.r.value <= high) == (text in inside)
        assert abs(value - row.r.value) < 1.2 * (high - low) / 2.0
    if name == "panda":
        r3, r5 = (found.names.index(text) for text in ("r3", "r5"))
        assert_allclose(found.values[[r3, r5]], [0.316, 0.384], atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "widest"), [("panda", 0.1), ("lwr4", 10.0)])
def test_public_recordings_tell_the_published_lengths(name: str, widest: float) -> None:
    """The Panda's R3 and R5 from torques alone, to 8 and 17 %; the LWR4+ recordings do not tell them."""
    robot = load_robot(name)
    fit, _ = logs(CASES[name], robot, cut=False)
    result = dynid.identify(robot, fit, unknown=("R3", "R5"))
    found = recover_geometry_of_result(result)
    assert found.names == ("R3", "R5")
    for text, (low, high) in zip(found.names, found.intervals, strict=True):
        assert low <= robot.symbols[text] <= high
        assert high - low < 2.0 * widest
    if name == "panda":
        base: Any = result.equation.base
        wrong = replace(base.question, found=started_elsewhere(base.found, 1.6))
        other = result.replace(equation=replace(result.equation, base=replace(base, question=wrong)))
        assert_allclose(recover_geometry_of_result(other).values, found.values, rtol=1e-6)
