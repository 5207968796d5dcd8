"""C code: compiled without a warning, its torques are the model's to 1e-9, and base parameters cost less."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dynid
from bodies import with_bodies
from dynid.dynamics.friction import HARMONICS
from dynid.estimation.regression.rows import LEAD
from dynid.exports.c_code import write_c_code
from dynid.exports.subject import make_export_subject
from dynid.exports.verify import find_compiler, friction_steps_of_c_code, torques_of_c_code
from dynid.robot.motion import Motion
from dynid.robot.robot import Robot
from robots import coupled_tree, random_motion, random_tree, smooth_path

try:
    GCC = find_compiler()
except FileNotFoundError:
    GCC = ""
needs_gcc = pytest.mark.skipif(not GCC, reason="there is no C compiler here")

ROBOTS = {
    "puma560": lambda: dynid.load_robot("puma560"),
    "puma560 bodies": lambda: with_bodies("puma560", friction=True),
    "panda": lambda: with_bodies("panda", 1, friction=True),
    "scara": lambda: with_bodies("scara", 2, friction=True),
    "ur10": lambda: with_bodies("ur10", 3),
    "sr400, couplings": lambda: with_bodies("sr400", 4),
    "tree": lambda: random_tree(11, joints=9, shuffled=True),
    "tree with fixed links": lambda: random_tree(5, joints=8, fixed_share=0.4),
    "gears": lambda: coupled_tree(2),
    "one joint": lambda: random_tree(1, joints=1),
}


def close(theirs: np.ndarray, ours: np.ndarray, scale: float) -> None:
    assert_allclose(theirs, ours, rtol=0, atol=1e-9 * scale)


@needs_gcc
@pytest.mark.parametrize("name", ROBOTS)
def test_all_functions_give_the_models_torques(name: str, tmp_path: Path) -> None:
    robot = ROBOTS[name]()
    file = tmp_path / "robot.c"
    dynid.export(robot, file)
    motion = random_motion(robot, samples=10, seed=3)
    still = Motion(motion.t, motion.q, 0.0 * motion.v, 0.0 * motion.a)
    torque = torques_of_c_code(file, robot, motion)
    rigid = (dynid.regressor(robot, motion).matrix @ robot.parameters).reshape(-1, robot.n)
    gravity = (dynid.regressor(robot, still).matrix @ robot.parameters).reshape(-1, robot.n)
    whole = dynid.simulate(robot, motion).tau
    assert whole is not None
    scale = float(np.abs(whole).max())
    close(torque["inverse_dynamics"], rigid, scale)
    close(torque["regressor_times"], rigid, scale)
    close(torque["gravity"], gravity, scale)
    close(torque["inverse_dynamics"] + torque["friction"], whole, scale)
    assert dynid.verify(file, robot).passed


@pytest.mark.parametrize("name", ["puma560", "puma560 bodies", "panda", "sr400, couplings", "tree"])
def test_base_parameters_cost_less_than_standard_ones(name: str) -> None:
    operations = write_c_code(make_export_subject(ROBOTS[name]())).operations
    base, standard = operations.functions["inverse_dynamics"], operations.standard
    assert base.multiplications < standard.multiplications
    assert base.additions < standard.additions
    assert operations.functions["gravity"].total < base.total


def test_operations_are_those_of_the_text() -> None:
    code = write_c_code(make_export_subject(with_bodies("puma560")))
    body = code.text.split("void puma560_inverse_dynamics")[-1].split("\n}")[0]
    cost = code.operations.functions["inverse_dynamics"]
    assert body.count(" * ") == cost.multiplications
    assert body.count(" + ") + body.count(" - ") == cost.additions
    assert f"{cost.multiplications} multiplications" in code.text


def test_the_text_is_reproducible() -> None:
    assert (
        write_c_code(make_export_subject(with_bodies("panda"))).text
        == write_c_code(make_export_subject(with_bodies("panda"))).text
    )


@needs_gcc
@pytest.mark.parametrize(
    "name", ["*/ int main(void){} /*", "??/\n#error", "int", "7axis", 'a"<>&b', "ünïcödé", "", "\\"]
)
def test_hostile_names_do_no_harm(name: str, tmp_path: Path) -> None:
    robot = with_bodies("scara")
    links = tuple(replace(k, name=name + k.name, joint=name + k.joint, label=k.label + name) for k in robot.links)
    file = tmp_path / "robot.c"
    hostile = Robot(name, links, robot.gravity)
    dynid.export(hostile, file)
    assert dynid.verify(file, hostile).passed
    assert "#error" not in file.read_text()
    assert file.read_text().isascii()


@needs_gcc
def test_coulomb_friction_can_be_smooth(tmp_path: Path) -> None:
    file = tmp_path / "robot.c"
    dynid.export(with_bodies("scara", friction=True), file)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-DDYNID_SMOOTH=0.01", "-c"]
    subprocess.run([GCC, *flags, str(file), "-o", str(tmp_path / "robot.o")], check=True, timeout=280)


@needs_gcc
def test_an_identification_needs_no_bodies(tmp_path: Path) -> None:
    robot = with_bodies("gautier3", friction=True)
    motion = smooth_path(robot, np.arange(0.0, 8.0, 0.01), scale=2.0)
    log = dynid.simulate(robot, motion, noise=0.05)
    blocks = ("viscous", "coulomb", "offset", "tanh", "quadratic", "asymmetry", "stribeck", "spring", *HARMONICS)
    for friction in (blocks[:3], blocks):
        result = dynid.identify(robot, log, friction=friction)
        file = tmp_path / "robot.c"
        done = dynid.export(result, file)
        states = random_motion(robot, samples=10)
        torque = torques_of_c_code(file, robot, states)
        predicted = result.predict(states)
        close(torque["inverse_dynamics"] + torque["friction"], predicted, float(np.abs(predicted).max()))
        assert dynid.verify(file, result).passed
        assert not done.warnings
    plain = dynid.export(dynid.identify(robot, log, friction=blocks[:3]), tmp_path / "robot.json").subject.robot
    assert [name for name, _ in plain.links[0].friction] == list(blocks[:3])
    again = dynid.export(result, tmp_path / "robot.json")
    assert [name for name, _ in again.subject.robot.links[0].friction] == list(blocks[:3])
    assert [warning.code for warning in again.warnings] == ["position_torques_left_out", "export_replays_poorly"]
    assert again.warnings[0].facts["blocks"] == ["spring", *HARMONICS]
    assert "physically impossible bodies" in again.notes[-1]
    assert dynid.verify(tmp_path / "robot.json", result).passed


BLOCKS = ("viscous", "coulomb", "offset", "stop1e-4", "stop1e-2", "stop1e-1", "tanh", "quadratic", "stribeck")
MORE = ("asymmetry", "spring", "load", "sine3")


@needs_gcc
@pytest.mark.parametrize(
    ("name", "blocks", "coupled"),
    [("gautier3", (*BLOCKS, *MORE), False), ("scara", BLOCKS, True), ("scara", ("viscous", "load"), True)],
)
def test_friction_with_a_memory_is_that_of_predict(
    name: str, blocks: tuple[str, ...], coupled: bool, tmp_path: Path
) -> None:
    """The state that the caller keeps gives the prediction to 1e-12, along a motion with reversals."""
    robot = with_bodies(name, friction=True)
    log = dynid.simulate(robot, smooth_path(robot, np.arange(0.0, 8.0, 0.01), scale=2.0), noise=0.05)
    if coupled:
        log.coupling = np.eye(4) + np.diag([0.2, -0.4, 0.3], -1)
    result = dynid.identify(robot, log, friction=blocks)
    done = dynid.export(result, tmp_path / "robot.c")
    assert done.verification.error < 1e-12
    assert not done.warnings
    t = np.arange(0.0, 6.0, 0.01)
    motion = smooth_path(robot, t, scale=1.5)
    rigid = torques_of_c_code(tmp_path / "robot.c", robot, motion)["inverse_dynamics"]
    shapes = result.equation.shapes
    assert shapes.held == 0.0
    start = shapes.initial_stop_states(result.equation.to_motor_side(motion.q), round(LEAD / 0.01))
    found = rigid + friction_steps_of_c_code(tmp_path / "robot.c", done.subject, motion, start)
    assert_allclose(found, result.predict(motion), atol=1e-12 * float(np.abs(found).max()), rtol=1e-12)


@needs_gcc
def test_friction_that_lags_and_holds_at_rest(tmp_path: Path) -> None:
    """Noisy positions: signs and narrow stops are held at rest; `lag` looks back in the code, to both sides here."""
    robot = with_bodies("gautier3", friction=True)
    log = dynid.simulate(robot, smooth_path(robot, np.arange(0.0, 8.0, 0.01), scale=2.0), noise=0.05)
    noisy = dynid.Log(log.t, log.q + 1e-5 * np.random.default_rng(0).standard_normal(log.q.shape), tau=log.tau)
    result = dynid.identify(robot, noisy, friction=("viscous", "coulomb", "stop1e-4", "offset", "lag", "load"))
    assert result.equation.shapes.held > 0.0
    done = dynid.export(result, tmp_path / "robot.c")
    assert done.verification.error < 1e-12
    assert not done.warnings
    motion = smooth_path(robot, np.arange(0.0, 6.0, 0.001), scale=1.5)
    rigid = torques_of_c_code(tmp_path / "robot.c", robot, motion)["inverse_dynamics"]
    start = result.equation.shapes.initial_stop_states(motion.q, round(LEAD / 0.001))
    found = rigid + friction_steps_of_c_code(tmp_path / "robot.c", done.subject, motion, start)
    near = np.abs(motion.v) < 0.05  # where the directions change and joints may rest
    assert_allclose(found[~near], result.predict(motion)[~near], rtol=1e-6, atol=1e-6 * np.abs(found).max())


@needs_gcc
def test_friction_at_rest_with_a_level_of_its_own(tmp_path: Path) -> None:
    """A motion with pauses: the code has the same friction at rest as `predict`, and 0 of that block in motion."""
    robot = with_bodies("gautier3", friction=True)
    t = np.arange(0.0, 20.0, 0.002)
    rate = np.clip(np.abs(np.mod(t, 4.0) - 2.0) * 4.0 - 2.0, 0.0, 1.0)  # stands for 1 s in 4
    w = np.array([1.1, 1.7, 2.3])
    phase = np.cumsum(rate)[:, None] * 0.002 * w
    v = w * np.cos(phase) * rate[:, None]
    motion = Motion(t, np.sin(phase), v, np.gradient(v, t, axis=0))
    log = dynid.simulate(robot, motion, noise=0.05)
    noisy = dynid.Log(t, motion.q + 1e-5 * np.random.default_rng(0).standard_normal(motion.q.shape), tau=log.tau)
    result = dynid.identify(robot, noisy, friction=("viscous", "stop1e-3", "offset", "rest"), cutoff=10.0)
    assert sum(name.symbol == "Fr" for name in result.names) == 3
    done = dynid.export(result.replace(values=np.where([n.symbol == "Fr" for n in result.names], 7.0, result.values)),
                        tmp_path / "robot.c")  # fmt: skip
    assert done.verification.error < 1e-12
    assert "all * held" in (tmp_path / "robot.c").read_text()


@needs_gcc
def test_friction_of_coupled_motors_and_sliding_joints(tmp_path: Path) -> None:
    robot = with_bodies("scara", friction=True)
    log = dynid.simulate(robot, smooth_path(robot, np.arange(0.0, 8.0, 0.01), scale=2.0), noise=0.05)
    log.coupling = np.eye(4) + np.diag([0.2, -0.4, 0.3], -1)
    result = dynid.identify(robot, log, friction=("viscous", "coulomb", "offset", "tanh", "sine"))
    file = tmp_path / "robot.c"
    dynid.export(result, file)
    states = random_motion(robot, samples=10)
    torque, predicted = torques_of_c_code(file, robot, states), result.predict(states)
    close(torque["inverse_dynamics"] + torque["friction"], predicted, float(np.abs(predicted).max()))
