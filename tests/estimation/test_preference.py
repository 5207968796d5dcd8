"""`identify(prefer=...)`: another choice of base parameters, the same predictions, intervals that belong to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from command_line import CommandLine
from dynid import DynidError, Identification, Robot, load_robot
from dynid.cli.output.recordings import write_log
from dynid.estimation.identify import collect_state, identify_states
from dynid.robot.force_sensor import ForceSensor
from fourier import fourier_motion
from frictions import PLAIN, truth, with_friction

PREFER = ("M3", "YY2", "MZ3")


@pytest.fixture
def robot() -> Robot:
    return with_friction(load_robot("gautier3"))


def run(robot: Robot, noise: float = 0.2, **options: object) -> Identification:
    log = dynid.simulate(robot, fourier_motion(robot), noise=noise, seed=1)
    return dynid.identify(robot, log, friction=PLAIN, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("model", ["torque", "power", "energy", "momentum"])
def test_any_choice_predicts_the_same(robot: Robot, model: str) -> None:
    plain, chosen = run(robot, model=model), run(robot, model=model, prefer=PREFER)
    base, other = chosen.equation.base, plain.equation.base
    assert chosen.names[:3] == ("M3", "YY2", "MZ3")
    motion = fourier_motion(robot, seed=3)
    assert_allclose(chosen.predict(motion), plain.predict(motion), rtol=1e-6, atol=1e-6)
    T, n = base.change_of_basis(other), base.count
    assert_allclose(chosen.values[:n], T @ plain.values[:n], rtol=1e-6, atol=1e-6)
    assert_allclose(chosen.covariance[:n, :n], T @ plain.covariance[:n, :n] @ T.T, rtol=1e-3, atol=1e-8)


def test_without_noise_the_values_are_those_of_the_choice(robot: Robot) -> None:
    result = run(robot, noise=0.0, prefer=PREFER)
    assert_allclose(result.values, truth(robot, result), rtol=0.0, atol=1e-8)


def test_reactions_and_some_joints_take_it_too(robot: Robot) -> None:
    motion = fourier_motion(robot)
    log = dynid.simulate(robot.with_sensor(ForceSensor()), motion)
    result = dynid.identify(robot, log, model="reaction", sensor=ForceSensor(), prefer=("M3",))
    base = result.equation.base
    assert result.names[0] == "M3"
    assert_allclose(result.values[: base.count], base.values(np.nan_to_num(robot.parameters)), atol=1e-7)
    some = run(robot, noise=0.0, joints=("2", "3"), prefer=("YY3",))
    assert some.names[0] == "YY3"


def test_the_best_conditioned_set_of_the_log(robot: Robot) -> None:
    plain, chosen = run(robot), run(robot, prefer="data")
    motion = fourier_motion(robot)
    expected = dynid.base_parameters(robot, prefer="data", log=motion)
    assert set(chosen.names[: chosen.equation.base.count]) == set(expected.names)
    assert_allclose(chosen.predict(motion), plain.predict(motion), rtol=1e-6, atol=1e-6)


def test_files_and_states_keep_the_choice(robot: Robot, tmp_path: Path) -> None:
    result = run(robot, prefer=PREFER)
    result.save(tmp_path / "result.json")
    again = Identification.load(tmp_path / "result.json")
    assert again.names == result.names
    assert_allclose(again.predict(fourier_motion(robot)), result.predict(fourier_motion(robot)), rtol=1e-12)
    log = dynid.simulate(robot, fourier_motion(robot), noise=0.2, seed=1)
    state = collect_state(robot, log, friction=PLAIN, prefer=PREFER)
    assert identify_states(state).names == result.names


def test_wrong_choices_are_one_line(robot: Robot) -> None:
    with pytest.raises(DynidError, match="'XX9' is not a parameter"):
        run(robot, prefer=("XX9",))
    with pytest.raises(DynidError, match="standard order"):
        run(robot, prefer=("M3",), estimator="recursive")
    with pytest.raises(DynidError, match="model parameters"):
        run(robot, prefer=("M3",), unknown=("d",))
    silent = run(robot, prefer=("M1", "M3"))
    assert "preferred_without_effect" in {message.code for message in silent.warnings}


def test_the_command_takes_it(
    robot: Robot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = CommandLine(monkeypatch, capsys)
    log = tmp_path / "log.csv"
    write_log(log, dynid.simulate(robot, fourier_motion(robot), noise=0.2, seed=1))
    out = tmp_path / "result.json"
    command("identify", "gautier3", log, "--friction", "viscous,coulomb,offset", "--prefer", "M3,YY2", "--out", out)
    assert Identification.load(out).names[:2] == ("M3", "YY2")
    assert "XX9" in command("identify", "gautier3", log, "--prefer", "XX9", code=2).err


def test_the_command_takes_a_quadrature(
    robot: Robot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The trapezoid rule of Ha, Ko & Kwon's Table 2 leaves errors of discretisation, order 8 leaves none."""
    command = CommandLine(monkeypatch, capsys)
    log, out = tmp_path / "log.csv", tmp_path / "result.json"
    write_log(log, dynid.simulate(robot, fourier_motion(robot)))
    errors = {}
    for rule in ("smooth", "trapezoid"):
        words = ("--model", "momentum", "--friction", "viscous,coulomb,offset", "--quadrature", rule, "--out", out)
        command("identify", "gautier3", log, *words, code=None)
        result = Identification.load(out)
        assert result.equation.options.quadrature == rule
        errors[rule] = np.abs(result.values - truth(robot, result)).max()
    assert errors["smooth"] < 0.1 * errors["trapezoid"]
    assert (
        "no quadrature 'simpson'"
        in command("identify", "gautier3", log, "--model", "momentum", "--quadrature", "simpson", code=2).err
    )
    assert "no quadrature" in command("identify", "gautier3", log, "--quadrature", "trapezoid", code=2).err
