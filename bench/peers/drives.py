"""Drives of a leg by dynid, mujoco.sysid and CMA-ES: the same recording, rollouts of another motion."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from campaign.drives import Drive, columns, leg_text, random_command, random_drive, record

from bench.peers.environment import peers_python
from bench.timing import Cell, Table
from dynid import identify_actuators, load_robot, read_log
from dynid.actuators.controller import read_controller
from dynid.actuators.equation import split_at_gaps
from dynid.actuators.rollout import Drives, Simulator, Windows
from dynid.logs.commands import read_commands
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

CASES = ({"rate": 500.0, "bits": 16, "delay": 0.0085}, {"rate": 100.0, "bits": 12, "delay": 0.0085})
POLISH = 60
THOUSANDS = 1000
"""Rollouts of a patient CMA-ES, beside one of as many as dynid."""


def tables() -> Iterator[Table]:
    """Measure and return the table."""
    python = peers_python()
    rows = []
    with TemporaryDirectory() as folder:
        for options in CASES:
            rows += _rows_of_case(python, Path(folder), options)
    yield Table(
        "Drives of a leg of three joints from commands: rollouts of another motion",
        (
            "recording",
            "by",
            "rollouts",
            "CPU s",
            "delay ms",
            "armature %",
            "friction %",
            "error at 0.5 s, mrad",
            "at 10 s",
        ),
        tuple(rows),
        "One process each, one core. mujoco.sysid is given the delay, the others find it; all start from the same "
        "file. Delay, armature, friction: largest errors; rollouts of 0.5 s and 10 s on another motion, "
        "against true positions, by the same simulator.",
    )


def _rows_of_case(python: Path, folder: Path, options: dict[str, Any]) -> list[tuple[Cell | str, ...]]:
    """Rows of all routes on one recording."""
    text = leg_text()
    rng = np.random.default_rng(22)
    drive = random_drive(rng, text, **options)
    log = record(text, drive, random_command(rng, text, 15.0), 15.0)
    check = record(text, drive, random_command(rng, text, 12.0), 12.0, seed=1)
    path = folder / "leg.xml"
    path.write_text(text, encoding="utf-8")
    robot = load_robot(path)
    gains = {"kp": drive.kp, "kd": drive.kd}
    name = f"{options['rate']:.0f} Hz, {options['bits']} bit"
    rows, n = [], len(drive.kp)
    nominal = {
        "armature": np.full(n, 0.01),
        "damping": np.full(n, 0.05),
        "frictionloss": np.full(n, 0.02),
        "delay": 0.0,
    }
    rows.append(_row(name, "start of all", nominal | {"rollouts": 0, "seconds": 0.0}, drive, robot, gains, check))
    for polish in (0, POLISH):
        begin = time.process_time()
        found = identify_actuators(robot, columns(log), controller=gains, polish=polish, validate=columns(check))
        answer = {
            "armature": found.of("Ia"), "damping": found.of("Fv"), "frictionloss": found.of("Fc"), "delay": found.delay,
            "rollouts": found.rollouts, "seconds": time.process_time() - begin,
        }  # fmt: skip
        rows.append(_row(name, "dynid, polished" if polish else "dynid, linear", answer, drive, robot, gains, check))
        used = found.rollouts or POLISH
    data = folder / "recording.npz"
    np.savez(data, t=log["t"], q=log["q"], q_cmd=log["q_cmd"])
    model = _with_actuators(text, drive)
    script = Path(__file__).with_name("mujoco_route.py")
    with subprocess.Popen(
        [str(python), "-W", "ignore", str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as peer:
        assert peer.stdin is not None
        assert peer.stdout is not None
        for route, count, label in (
            ("sysid", 0, "mujoco.sysid, delay given"), ("cma", used, "CMA-ES, as many rollouts"),
            ("cma", THOUSANDS, "CMA-ES"),
        ):  # fmt: skip
            request = {"data": str(data), "model": model, "route": route, "rollouts": count, "delay": drive.delay}
            peer.stdin.write(json.dumps(request) + "\n")
            peer.stdin.flush()
            line = peer.stdout.readline()
            if not line:
                raise RuntimeError("the peer ended; its own words are above")
            rows.append(_row(name, label, json.loads(line), drive, robot, gains, check))
        peer.stdin.close()
    return rows


def _with_actuators(text: str, drive: Drive) -> str:
    """The leg with position servos of known gains and sensors, as the peers need it."""
    names = ("abduction", "hip", "knee")
    servos = "".join(
        f'<position name="{name}" joint="{name}" kp="{kp!r}" kv="{kd!r}"/>'
        for name, kp, kd in zip(names, drive.kp.tolist(), drive.kd.tolist(), strict=True)
    )
    sensors = "".join(f'<jointpos name="{name}_q" joint="{name}"/>' for name in names)
    text = text.replace('timestep="0.001"', 'timestep="0.001" integrator="implicitfast"')
    return text.replace("</mujoco>", f"<actuator>{servos}</actuator><sensor>{sensors}</sensor></mujoco>")


def _row(
    case: str,
    label: str,
    answer: dict[str, Any],
    drive: Drive,
    robot: Robot,
    gains: dict[str, Array],
    check: dict[str, Array],
) -> tuple[Cell | str, ...]:
    """Errors of an answer: of its numbers, and of rollouts."""
    found = {key: np.asarray(answer[key]) for key in ("armature", "damping", "frictionloss")}
    delay = float(answer["delay"])
    errors = [1e3 * _rollout(found, delay, robot, gains, check, horizon) for horizon in (0.5, 10.0)]
    armature = 100.0 * float(np.abs(found["armature"] / drive.armature - 1.0).max())
    friction = 100.0 * float(np.abs(found["frictionloss"] / drive.friction - 1.0).max())
    return (
        case, label, str(answer["rollouts"]), f"{answer['seconds']:.1f}", f"{1e3 * (delay - drive.delay):+.2f}",
        f"{armature:.1f}", f"{friction:.1f}", f"{errors[0]:.2f}", f"{errors[1]:.2f}",
    )  # fmt: skip


def _rollout(
    found: dict[str, Array],
    delay: float,
    robot: Robot,
    gains: dict[str, Array],
    check: dict[str, Array],
    horizon: float,
) -> float:
    """Root mean square error of rollouts against true positions, rad."""
    controller = read_controller(gains, robot)
    parts = split_at_gaps([read_commands(read_log(columns(check), robot), robot)])
    windows = Windows(parts, controller, horizon, 20.0)
    drives = Drives(found["armature"], found["damping"], found["frictionloss"], np.zeros(robot.n), controller, delay)
    q = Simulator(robot).rollout(drives, windows)
    grid = np.arange(windows.samples + 1) * windows.period
    true = np.stack([
        np.column_stack([np.interp(t + grid, check["t"], x) for x in check["q_true"].T]) for _, t in windows.starts
    ])  # fmt: skip
    return float(np.sqrt(np.mean((q[:, 1:] - true[:, 1:]) ** 2)))
