"""C code that follows samples: its factors and values are those of `Sequential`, to 1e-12, in every model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from dynid.errors import ExportError
from dynid.exports.verify import SequentialInC
from dynid.robot.robot import JointColumn, Robot
from dynid.robot.transform import Array
from fourier import fourier_motion
from frictions import with_friction
from robots import coupled_tree, random_tree

MODELS = ("torque", "power", "energy", "momentum", "reaction", "torque+reaction")
ROBOTS = {
    "serial": lambda: random_tree(3, joints=3, serial=True),
    "tree": lambda: random_tree(7, joints=4),
    "shuffled": lambda: random_tree(8, joints=5, shuffled=True),
    "coupled": lambda: coupled_tree(1),
    "puma560": lambda: dynid.load_robot("puma560"),
}


def follow(tracker: dynid.Sequential, code: SequentialInC, robot: Robot, samples: int = 700) -> None:
    """Give both the same samples, with a pause after which balances begin anew."""
    log = dynid.simulate(robot, fourier_motion(robot, duration=samples / 100, harmonics=10), noise=0.1, plate_noise=0.1)
    options = tracker.equation.options
    assert log.v is not None
    assert log.a is not None
    assert log.tau is not None
    for k in range(samples):
        given: dict[str, Array | float] = {"tau": log.tau[k]} if options.has_torques else {}
        given |= {"t": log.t[k] + 1.0 * (k > samples // 2)} if options.is_integral else {"a": log.a[k]}
        if options.has_reactions:
            assert log.reaction is not None
            given["reaction"] = log.reaction[k]
        tracker.update(log.q[k], log.v[k], **given)  # type: ignore[arg-type]
        assert code.update(log.q[k], log.v[k], **given)  # type: ignore[arg-type]


def exported(tracker: dynid.Sequential, folder: Path) -> SequentialInC:
    """C code as a user writes it, compiled with all warnings as errors."""
    found = dynid.export(tracker, folder / "follow.c")
    assert found.verification is not None
    assert found.verification.passed
    return SequentialInC(folder / "follow.c", tracker)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        pytest.param(name, model, marks=() if name == "coupled" or model == "torque" else pytest.mark.slow)
        for name in ROBOTS
        for model in MODELS
    ],
)
def test_factors_and_values_are_those_of_python(name: str, model: str, tmp_path: Path) -> None:
    """Normal equations of all samples to 1e-12; values as far as their condition allows."""
    robot = with_friction(ROBOTS[name]())
    tracker = dynid.Sequential(robot, model=model, noise=1.0, forgetting=0.999)
    code = exported(tracker, tmp_path)
    follow(tracker, code, robot)
    assert code.difference(tracker) < 1e-12
    found = code.solve()
    assert found is not None
    assert_allclose(found, tracker.values, rtol=0.0, atol=1e-9 * np.abs(tracker.values).max())


@pytest.mark.parametrize("model", ["torque", "power", "momentum"])
def test_unknown_geometry_in_c(model: str, tmp_path: Path) -> None:
    robot = with_friction(dynid.load_robot("scara"))
    tracker = dynid.Sequential(robot, model=model, unknown=("d", "r"), friction=("viscous",), noise=1.0)
    code = exported(tracker, tmp_path)
    follow(tracker, code, robot)
    assert code.difference(tracker) < 1e-12


@pytest.mark.parametrize("model", ["torque", "momentum"])
def test_the_last_joint_first_in_c(model: str, tmp_path: Path) -> None:
    """Paper 001, eq. 2.28, in C as in Python."""
    robot = with_friction(ROBOTS["serial"]())
    tracker = dynid.Sequential(robot, model=model)
    code = exported(tracker, tmp_path)
    follow(tracker, code, robot)
    found, expected = code.solve_joint_by_joint(), tracker.solve_joint_by_joint().values
    assert found is not None
    assert_allclose(found, expected, rtol=0.0, atol=1e-9 * np.abs(expected).max())


def test_wrong_samples_are_not_taken_and_too_few_give_no_values(tmp_path: Path) -> None:
    robot = with_friction(ROBOTS["serial"]())
    tracker = dynid.Sequential(robot, model="momentum", noise=1.0)
    code = exported(tracker, tmp_path)
    zero, bad = np.zeros(3), np.array([0.0, np.nan, 0.0])
    assert code.solve() is None
    assert code.update(zero, zero, tau=zero, t=0.0)
    before = code.state.copy()
    assert not code.update(bad, zero, tau=zero, t=0.01)
    assert not code.update(zero, zero, tau=bad, t=0.01)
    assert not code.update(zero, zero, tau=zero, t=0.0)  # time must go on
    assert not code.update(zero, zero, tau=zero, t=np.nan)
    assert not code.update(zero, zero, t=0.01)  # no torques
    assert (code.state == before).all()
    assert code.update(zero, zero, tau=zero, t=0.01)


def test_code_allocates_nothing(tmp_path: Path) -> None:
    dynid.export(dynid.Sequential(dynid.load_robot("panda"), model="momentum"), tmp_path / "follow.c")
    text = (tmp_path / "follow.c").read_text(encoding="utf-8")
    assert not any(word in text for word in ("malloc", "calloc", "alloca(", "free("))


def test_what_c_code_cannot_have_is_refused_in_one_line(tmp_path: Path) -> None:
    robot = random_tree(3, joints=3, serial=True)
    gas = JointColumn("gas", robot.joint_names[1], positions=np.linspace(-6.0, 6.0, 9), torque=np.sin(np.arange(9.0)))
    with pytest.raises(ExportError, match="the column 'gas'"):
        dynid.export(dynid.Sequential(replace(robot, columns=(gas,))), tmp_path / "follow.c")
    with pytest.raises(ExportError, match="is written as C code"):
        dynid.export(dynid.Sequential(robot), tmp_path / "follow.urdf")
    assert not [*tmp_path.iterdir()]
