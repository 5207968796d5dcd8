"""Drives from commands: what simulated robots have is found, and said to be unknown where nothing tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco")

from campaign.drives import Drive, columns, leg_text, quadruped_text, random_command, random_drive, record

from command_line import CommandLine
from dynid import Actuators, export, identify_actuators, load_robot, simulate_actuators
from dynid.actuators.equation import HeldSignals, encoder_steps
from dynid.actuators.polish import branches
from dynid.actuators.rollout import Drives, Simulator, Windows
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

SECONDS = 12.0
Recording = tuple[Drive, dict[str, Array]]


def robot_of(text: str, folder: Path) -> Robot:
    path = folder / "robot.xml"
    path.write_text(text, encoding="utf-8")
    return load_robot(path)


def recording(text: str, seed: int = 3, **options: Any) -> Recording:
    rng = np.random.default_rng(seed)
    drive = random_drive(rng, text, **options)
    return drive, columns(record(text, drive, random_command(rng, text, SECONDS), SECONDS))


@pytest.fixture(scope="module")
def leg(tmp_path_factory: pytest.TempPathFactory) -> Robot:
    return robot_of(leg_text(), tmp_path_factory.mktemp("leg"))


@pytest.fixture(scope="module")
def plain() -> Recording:
    return recording(leg_text(), delay=0.0085, rate=200.0, bits=14)


@pytest.fixture(scope="module")
def linear(leg: Robot, plain: Recording) -> Actuators:
    return identify_actuators(leg, plain[1], controller=gains(plain[0]))


def gains(drive: Drive) -> dict[str, Any]:
    return {"kp": drive.kp, "kd": drive.kd, "max_torque": drive.max_torque, "loop": drive.loop}


def test_the_linear_route_finds_what_the_simulator_has(linear: Actuators, plain: Recording) -> None:
    drive = plain[0]
    assert abs(linear.delay - drive.delay) < 0.6e-3
    np.testing.assert_allclose(linear.of("Ia"), drive.armature, rtol=0.06)
    np.testing.assert_allclose(linear.of("Fv"), drive.damping, rtol=0.1)
    np.testing.assert_allclose(linear.of("Fc"), drive.friction, rtol=0.15)
    assert linear.loop == "drive"
    assert linear.rollout is not None
    assert linear.rollout.at(0.5) < 1e-3
    assert (linear.rollout.nominal > 5.0 * linear.rollout.after).all()
    assert linear.warnings == ()


@pytest.mark.parametrize(
    "options",
    [
        {"rate": 500.0, "bits": 16, "delay": 0.012, "memory": 2e-3},
        {"rate": 100.0, "bits": 12, "delay": 0.005},
        {"rate": 200.0, "bits": 16, "delay": 0.004, "loop": "host"},
    ],
)
def test_other_drives(leg: Robot, options: dict[str, Any]) -> None:
    drive, log = recording(leg_text(), seed=7, **options)
    found = identify_actuators(leg, log, controller=gains(drive))
    assert abs(found.delay - drive.delay) < (1e-3 if drive.rate <= 100.0 else 0.6e-3)
    assert np.abs(found.of("Ia") / drive.armature - 1.0).max() < 0.1
    assert found.rollout is not None
    assert found.rollout.at(0.5) < 3e-3


def test_polish_ends_at_the_true_values_of_the_simulators_class(leg: Robot, plain: Recording) -> None:
    drive, log = plain
    found = identify_actuators(leg, log, controller=gains(drive), polish=40)
    assert found.rollouts <= 40
    assert abs(found.delay - drive.delay) < 0.1e-3
    np.testing.assert_allclose(found.of("Ia"), drive.armature, rtol=0.02)
    np.testing.assert_allclose(found.of("Fc"), drive.friction, rtol=0.03)
    assert found.rollout is not None
    assert (found.rollout.after <= 1.05 * found.rollout.before).all()


def test_a_torque_limit_is_kept_and_found(leg: Robot) -> None:
    text = leg_text()
    drive, log = recording(text, seed=5, rate=500.0, bits=16, delay=0.004)
    need = np.array([np.abs(k * (log[f"q_cmd{j}"] - log[f"q{j}"])).max() for j, k in enumerate(drive.kp, 1)])
    drive, log = recording(text, seed=5, rate=500.0, bits=16, delay=0.004, max_torque=0.5 * need)
    given = identify_actuators(leg, log, controller=gains(drive))
    np.testing.assert_allclose(given.of("Ia"), drive.armature, rtol=0.1)
    sought = identify_actuators(leg, log, controller={"kp": drive.kp, "kd": drive.kd, "max_torque": "unknown"})
    found = np.isfinite(sought.gains.max_torque)
    assert found.any()
    np.testing.assert_allclose(sought.gains.max_torque[found], drive.max_torque[found], rtol=0.15)


def test_gravity_fixes_unknown_gains(leg: Robot, plain: Recording) -> None:
    drive, log = plain
    found = identify_actuators(leg, log, controller={"kp": "unknown", "kd": drive.kd})
    np.testing.assert_allclose(found.gains.kp, drive.kp, rtol=0.05)
    assert (found.gains.sigma["kp"] > 0.0).all()
    assert (found.gains.sigma["kd"] == 0.0).all()


def test_what_cannot_be_told_is_named(tmp_path: Path) -> None:
    text = (
        '<mujoco model="turntable"><compiler angle="radian" autolimits="true"/><worldbody><body name="table">'
        '<joint name="yaw" axis="0 0 1" range="-2 2"/><inertial pos="0 0 0" mass="1" diaginertia="0.02 0.02 0.03"/>'
        "</body></worldbody></mujoco>"
    )
    robot = robot_of(text, tmp_path)
    drive, log = recording(text, rate=500.0, bits=16, delay=0.004)
    found = identify_actuators(robot, log, controller={"kp": "unknown", "kd": "unknown"})
    assert {m.code for m in found.unidentifiable} == {"gain_against_inertia", "kd_against_damping"}
    assert np.isnan(found.of("Ia")).all()
    assert np.isnan(found.gains.kp).all()
    known = identify_actuators(robot, log, controller=gains(drive))
    np.testing.assert_allclose(known.of("Ia"), drive.armature, rtol=0.05)
    assert known.warnings == (), "neither gravity nor the links weigh its gains"


def test_masses_of_links_are_found_where_asked_for(tmp_path: Path, plain: Recording) -> None:
    drive, log = plain
    heavy = leg_text().replace('mass="1.3"', 'mass="1.56"').replace("0.0075 0.0072 0.0016", "0.009 0.00864 0.00192")
    found = identify_actuators(robot_of(heavy, tmp_path), log, controller=gains(drive), links=["thigh"])
    assert found.value("M:thigh") == pytest.approx(1.3, rel=0.03)


def test_a_result_survives_its_file(
    linear: Actuators, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "drives.json"
    linear.save(path)
    again = Actuators.load(path)
    assert str(again) == str(linear)
    np.testing.assert_array_equal(again.values, linear.values)
    assert again.rollout is not None
    assert linear.rollout is not None
    np.testing.assert_allclose(again.rollout.after, linear.rollout.after)
    assert again.notes == linear.notes
    dynid = CommandLine(monkeypatch, capsys)
    dynid("report", path, "--out", tmp_path / "drives.html")
    assert "Rollouts on held-out motion" in (tmp_path / "drives.html").read_text(encoding="utf-8")
    dynid("export", path, tmp_path / "drives.urdf")
    assert "<dynamics" in (tmp_path / "drives.urdf").read_text(encoding="utf-8")


def error_in_plain_mujoco(file: str, log: dict[str, Array], delay: float, step: float) -> float:
    """Error (rad) of the last quarter of a log, simulated in windows of 0.5 s."""
    import mujoco

    model = mujoco.MjModel.from_xml_path(file)
    data, model.opt.timestep = mujoco.MjData(model), step
    t, q, sent = log["t"], *(np.column_stack([log[f"{key}{j}"] for j in (1, 2, 3)]) for key in ("q", "q_cmd"))
    every, errors = round((t[1] - t[0]) / step), []
    for first in range(int(0.75 * len(t)), len(t) - 110, 100):
        near = np.arange(first - 4, first + 5)
        fit = np.polyfit(t[near] - t[first], q[near], 3)
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:] = fit[-1], fit[-2]
        for i in range(100 * every):
            at = np.searchsorted(t, t[first] + i * step - delay + 1e-9, side="right") - 1
            data.ctrl[:] = sent[at]
            mujoco.mj_step(model, data)
            if (i + 1) % every == 0:
                errors.append(data.qpos - q[first + (i + 1) // every])
    return float(np.sqrt(np.mean(np.square(errors))))


def test_files_of_simulators(tmp_path: Path) -> None:
    import mujoco

    leg = load_robot("leg")
    t = np.arange(0.0, 10.0, 0.005)
    q = np.column_stack([0.3 * np.sin(3.0 * t), 0.1 + 0.5 * np.sin(4.0 * t), -1.2 + 0.5 * np.sin(5.0 * t)])
    from dynid import Motion

    motion = Motion(t, q, np.gradient(q, t, axis=0), np.zeros_like(q))
    log = simulate_actuators(leg, motion, delay=0.006, armature=0.02, damping=0.3, frictionloss=0.15, bits=16)
    found = identify_actuators(leg, log)
    np.testing.assert_allclose(found.of("Ia"), 0.02, rtol=0.05)
    made = export(found, tmp_path / "leg.xml")
    assert made.verification.passed
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "leg.xml"))
    np.testing.assert_allclose(model.dof_armature, found.of("Ia"))
    np.testing.assert_allclose(model.dof_frictionloss, found.of("Fc"))
    np.testing.assert_allclose(model.actuator_gainprm[:, 0], found.gains.kp)
    old, new = (Path(p).read_text(encoding="utf-8") for p in (leg.source, tmp_path / "leg.xml"))
    changed = [b for a, b in zip(old.splitlines(), new.splitlines(), strict=True) if a != b]
    assert all("<joint" in line for line in changed), "gains that were given stay as they are written"
    assert found.rollout is not None
    assert error_in_plain_mujoco(leg.source, log, found.delay, 2.5e-4) > 5e-3
    patched = str(tmp_path / "leg.xml")
    assert error_in_plain_mujoco(patched, log, found.delay, 2.5e-4) < found.rollout.at(0.5) + 0.2e-3
    assert error_in_plain_mujoco(patched, log, found.delay, 1e-3) < 1e-3, "half a step of damping is inertia"
    export(found, tmp_path / "leg.urdf")
    np.testing.assert_allclose(
        [dict(k.friction)["coulomb"] for k in load_robot(tmp_path / "leg.urdf").links], found.of("Fc")
    )
    lab = export(found, tmp_path / "leg.py")
    assert [note.code for note in lab.notes] == ["isaac_lab_syntax_only"]
    compile((tmp_path / "leg.py").read_text(encoding="utf-8"), "leg.py", "exec")


def test_a_step_of_friction_and_damping_is_simulated_as_in_continuous_time(leg: Robot) -> None:
    """One rollout at half the step is the same motion: the half step of damping is made up for."""
    drive, log = recording(leg_text(), rate=250.0, bits=19, delay=0.004)
    from dynid import read_log
    from dynid.actuators import rollout
    from dynid.actuators.controller import read_controller
    from dynid.logs.commands import read_commands

    controller = read_controller(gains(drive), leg)
    drives = Drives(drive.armature, drive.damping, 0.0 * drive.friction, np.zeros(3), controller, drive.delay)
    motion = read_commands(read_log(log, leg), leg)
    found = []
    for step in (5e-4, 1.25e-4):
        rollout.STEP, before = step, rollout.STEP
        try:
            windows = Windows([motion], controller, 1.0, 20.0)
        finally:
            rollout.STEP = before
        found.append(Simulator(leg).rollout(drives, windows))
    assert np.abs(found[0] - found[1]).max() < 5e-5


def test_a_held_command_is_no_delay() -> None:
    t = np.arange(0.0, 1.0, 0.01)
    held = HeldSignals(t, np.sin(6.0 * t)[:, None], np.nan)
    at = np.array([0.1049, 0.1051, 0.1149])
    np.testing.assert_allclose(held.values(at, 0.0)[:, 0], np.sin(6.0 * np.array([0.10, 0.10, 0.11])))
    np.testing.assert_allclose(held.values(at + 0.0023, 0.0023), held.values(at, 0.0))
    fine = np.arange(0.2, 0.8, 1e-4)
    mean = held.means(np.arange(0.2, 0.8, 0.002), 0.002, 0.0)[:, 0]
    direct = held.values(fine, 0.0)[:, 0]
    assert mean.mean() == pytest.approx(direct.mean(), abs=2e-3)


@pytest.mark.parametrize("rate", [np.nan, 500.0], ids=["held", "interpolated"])
def test_means_over_cells_are_those_of_the_values(rate: float) -> None:
    t = np.arange(0.0, 1.0, 0.01)
    signals = HeldSignals(t, np.column_stack([np.sin(6.0 * t), np.cos(9.0 * t)]), rate)
    at: Array = np.arange(0.02, 1.02, 0.004)
    inside = (np.arange(4000) + 0.5) / 4000 * 0.004 - 0.002
    direct = signals.values((at[:, None] + inside).ravel(), 0.0031).reshape(len(at), -1, 2).mean(axis=1)
    np.testing.assert_allclose(signals.means(at, 0.004, 0.0031), direct, atol=2e-5)


def test_steps_of_encoders_are_seen() -> None:
    rng = np.random.default_rng(0)
    smooth = np.cumsum(rng.standard_normal((4000, 2)), axis=0) * 1e-3
    step = 2.0 * np.pi / 2**12
    q = np.column_stack([np.round(smooth[:, 0] / step) * step, smooth[:, 1]])
    found = encoder_steps(q)
    assert found[0] == pytest.approx(step)
    assert found[1] == 0.0


def test_legs_of_a_quadruped_do_not_feel_each_other(tmp_path: Path) -> None:
    assert branches(robot_of(quadruped_text(), tmp_path)) == [k for k in range(4) for _ in range(3)]
