"""Drives identified from commands: legs, an arm and a quadruped on a stand, simulated with what logs do not tell.

`python -m campaign.actuators [COUNT] [--seed N] [--no-polish]`: every run draws a robot, gains, armatures, friction
(MuJoCo's or one with memory), a delay up to 20 ms, a controller of 100 to 1000 Hz, encoders of 12 to 19 bit, and in
every fourth run a torque limit that is reached. Exit 1 if a limit below is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from campaign.drives import (
    Drive,
    arm_text,
    columns,
    leg_text,
    quadruped_text,
    random_command,
    random_drive,
    record,
)
from dynid import Actuators, DynidError, identify_actuators, load_robot, read_log
from dynid.actuators.equation import split_at_gaps
from dynid.actuators.rollout import Drives, Simulator, Windows
from dynid.logs.commands import read_commands
from dynid.robot.robot import Robot
from dynid.robot.transform import Array

ROBOTS = {"leg2": leg_text(2), "leg3": leg_text(3), "arm": arm_text(), "quadruped": quadruped_text()}
RATES, BITS = (100.0, 200.0, 500.0, 1000.0), (12, 14, 16, 19)
DELAY, DELAY_100 = 0.6e-3, 1.0e-3
ARMATURE, ROLLOUT, POLISHED, COVERED, SECONDS = 0.05, 3e-3, 0.5e-3, 0.90, 5.0
HORIZON = 0.5


def draw_case(seed: int) -> tuple[str, Drive, dict[str, Array], dict[str, Array], dict[str, Any]]:
    """A robot, its drives, a recording to learn from, one to check by, and what is known of the controller."""
    rng = np.random.default_rng([seed, 22])
    name = list(ROBOTS)[seed % len(ROBOTS)]
    text = ROBOTS[name]
    options: dict[str, Any] = {
        "rate": RATES[(seed // 4) % 4], "bits": BITS[int(rng.integers(4))], "delay": float(rng.uniform(0.0, 0.02)),
        "memory": float(rng.uniform(5e-4, 3e-3)) if rng.uniform() < 0.5 else 0.0,
        "loop": "host" if rng.uniform() < 0.25 else "drive",
    }  # fmt: skip
    if options["loop"] == "host":  # held torques and a delay inside the loop: more would make it unstable
        options["delay"] = min(options["delay"], 0.008)
    drive = random_drive(rng, text, **options)
    learn, check = random_command(rng, text, 25.0, fastest=4.0), random_command(rng, text, 12.0, fastest=4.0)
    log = record(text, drive, learn, 25.0, seed=seed)
    if seed % 4 == 3 and drive.loop == "drive":
        need = np.abs(drive.kp * (log["q_cmd"] - log["q_true"])).max(axis=0)
        drive = random_drive(np.random.default_rng([seed, 22, 1]), text, **options)
        drive = Drive(**(vars(drive) | {"max_torque": need * rng.uniform(0.55, 0.75, len(need))}))
        log = record(text, drive, learn, 25.0, seed=seed)
    known = {"kp": drive.kp, "kd": drive.kd, "max_torque": drive.max_torque, "loop": drive.loop}
    return name, drive, log, record(text, drive, check, 12.0, seed=seed + 1), known


def true_rollout_error(result: Actuators, robot: Robot, check: dict[str, Array]) -> float:
    """Error at 0.5 s against the true positions, from states that the recording tells, rad."""
    parts = split_at_gaps([read_commands(read_log(columns(check), robot), robot)])
    windows = Windows(parts, result.controller, HORIZON, result.cutoff)
    offset = result.of("Fo")
    drives = Drives(
        result.of("Ia"), np.maximum(result.of("Fv"), 0.0), np.maximum(result.of("Fc"), 0.0), offset, result.controller,
        result.delay, result.loop,
    )  # fmt: skip
    q = Simulator(robot).rollout(drives, windows)
    grid = np.arange(windows.samples + 1) * windows.period
    true = np.stack([
        np.column_stack([np.interp(t + grid, check["t"], x) for x in check["q_true"].T]) for _, t in windows.starts
    ])  # fmt: skip
    return float(np.sqrt(np.mean((q[:, 1:] - true[:, 1:]) ** 2)))


def run_case(seed: int, *, polish: bool) -> dict[str, Any]:
    """Figures of one run: errors, coverage, CPU seconds."""
    name, drive, log, check, known = draw_case(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "robot.xml"
        path.write_text(ROBOTS[name], encoding="utf-8")
        robot = load_robot(path)
        start = time.process_time()
        result = identify_actuators(robot, columns(log), controller=known, validate=columns(check))
        seconds = time.process_time() - start
        found = {"seed": seed, "robot": name, "drive": drive, "seconds": seconds, "linear": result}
        found["rollout"] = true_rollout_error(result, robot, check)
        if polish and not drive.memory:
            better = identify_actuators(robot, columns(log), controller=known, validate=columns(check), polish=100)
            found |= {"polished": better, "after": true_rollout_error(better, robot, check)}
    return found


def inside_intervals(result: Actuators, drive: Drive) -> tuple[int, int]:
    """Count true armatures, dampings, dry frictions and delays inside their 95 % intervals, and all of them."""
    true = np.concatenate([drive.armature, drive.damping, drive.friction])
    n = 3 * len(drive.armature)
    low, high = result.intervals[:n].T
    a, b = result.delay_interval
    return int(((true >= low) & (true <= high)).sum()) + int(a <= drive.delay <= b), n + 1


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign; return how many limits are missed."""
    parser = argparse.ArgumentParser(prog="python -m campaign.actuators")
    parser.add_argument("count", nargs="?", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-polish", action="store_true")
    asked = parser.parse_args(arguments)
    delays, armatures, rollouts, after, seconds, used = [], [], [], [], [], []
    hits, total, hits_after, total_after, failed = 0, 0, 0, 0, 0
    for seed in range(asked.seed, asked.seed + asked.count):
        try:
            r = run_case(seed, polish=not asked.no_polish)
        except DynidError as error:
            failed += 1
            sys.stdout.write(f"{seed}: {error}\n")
            continue
        drive, result = r["drive"], r["linear"]
        limit = DELAY_100 if drive.rate <= 100.0 else DELAY
        delays.append(abs(result.delay - drive.delay) / limit)
        off = np.abs(result.of("Ia") / drive.armature - 1.0)
        armatures += off.tolist()
        rollouts.append(r["rollout"])
        seconds.append(r["seconds"])
        inside, of = inside_intervals(result, drive)
        hits, total = hits + inside, total + of
        line = (
            f"{seed:4d} {r['robot']:9s} {drive.rate:5.0f} Hz {drive.bits} bit {drive.loop:5s} "
            f"{'memory' if drive.memory else 'plain '} {'limit' if drive.max_torque.max() < 999.0 else '     '} "
            f"delay {1e3 * (result.delay - drive.delay):+.2f} ms, armature {100 * off.max():5.1f} %, rollout "
            f"{1e3 * r['rollout']:.2f} mrad, {r['seconds']:.1f} s, inside {inside}/{of}"
        )  # fmt: skip
        if "polished" in r:
            after.append(r["after"])
            used.append(r["polished"].rollouts)
            inside, of = inside_intervals(r["polished"], drive)
            hits_after, total_after = hits_after + inside, total_after + of
            line += f"; polished {1e3 * r['after']:.2f} mrad, {used[-1]} rollouts, inside {inside}/{of}"
        sys.stdout.write(line + (f" [{', '.join(w.code for w in result.warnings)}]" if result.warnings else "") + "\n")
        sys.stdout.flush()
    rows: list[tuple[str, float, float]] = [
        ("delay within its limit", float(np.mean(np.array(delays) <= 1.0)), 0.95),
        ("armatures within 5 %", float(np.mean(np.array(armatures) <= ARMATURE)), 0.90),
        ("rollouts within 3 mrad at 0.5 s", float(np.mean(np.array(rollouts) <= ROLLOUT)), 1.0),
        ("runs within 5 CPU s", float(np.mean(np.array(seconds) <= SECONDS)), 0.95),
        ("true values inside 95 % intervals", hits / max(total, 1), COVERED),
    ]
    if after:
        rows += [
            ("polished rollouts within 0.5 mrad", float(np.mean(np.array(after) <= POLISHED)), 0.95),
            ("at most 100 rollouts", float(np.mean(np.array(used) <= 100)), 1.0),
            ("inside intervals after polishing", hits_after / max(total_after, 1), COVERED),
        ]
    missed = failed
    for what, share, least in rows:
        missed += share < least
        sys.stdout.write(f"{what}: {100 * share:.1f} % (at least {100 * least:.0f} %)\n")
    for what, x, factor in (("armature error, %", armatures, 100), ("rollout, mrad", rollouts, 1e3), ("s", seconds, 1)):
        q = np.quantile(x, (0.5, 0.9, 1.0)) * factor
        sys.stdout.write(f"{what}: median {q[0]:.2f}, 90 % below {q[1]:.2f}, largest {q[2]:.2f}\n")
    sys.stdout.write(f"actuators: {asked.count} runs, {missed} limits missed, {failed} failed\n")
    return missed


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
