"""Drives identified from commands: legs, an arm and a quadruped on a stand, simulated with what logs do not tell.

`python -m campaign.actuators [COUNT] [--seed N] [--no-polish] [--json FILE]`: every run draws a robot, gains,
armatures, friction (MuJoCo's or one with memory), a delay up to 20 ms, a controller of 100 to 1000 Hz, encoders of 12
to 19 bit, and in every fourth run a torque limit that is reached. FILE holds a run per line; those in it are not run
again. CPU seconds are those of a process that has compiled its kernels. Exit 1 if a limit below is missed.
"""

from __future__ import annotations

import argparse
import json
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
ROBUST = 0.95
"""Share of the runs that must hold what depends on the draw."""


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
    if (seed + seed // 4 + seed // 16) % 4 == 3 and drive.loop == "drive":  # every robot at every rate
        need = np.abs(drive.kp * (log["q_cmd"] - log["q_true"])).max(axis=0)
        drive = random_drive(np.random.default_rng([seed, 22, 1]), text, **options)
        drive = Drive(**(vars(drive) | {"max_torque": need * rng.uniform(0.55, 0.75, len(need))}))
        log = record(text, drive, learn, 25.0, seed=seed)
    known = {"kp": drive.kp, "kd": drive.kd, "max_torque": drive.max_torque, "loop": drive.loop}
    return name, drive, log, record(text, drive, check, 12.0, seed=seed + 1), known


def drives_of(result: Actuators) -> Drives:
    """What a simulator needs of a result."""
    Ia, Fv, Fc, Fo = map(result.of, ("Ia", "Fv", "Fc", "Fo"))
    return Drives(Ia, np.maximum(Fv, 0.0), np.maximum(Fc, 0.0), Fo, result.controller, result.delay, result.loop)


def true_rollout_error(drives: Drives, cutoff: float, robot: Robot, check: dict[str, Array]) -> float:
    """Error at 0.5 s against the true positions, from states that the recording tells, rad."""
    parts = split_at_gaps([read_commands(read_log(columns(check), robot), robot)])
    windows = Windows(parts, drives.controller, HORIZON, cutoff)
    q = Simulator(robot).rollout(drives, windows)
    grid = np.arange(windows.samples + 1) * windows.period
    true = np.stack([
        np.column_stack([np.interp(t + grid, check["t"], x) for x in check["q_true"].T]) for _, t in windows.starts
    ])  # fmt: skip
    return float(np.sqrt(np.mean((q[:, 1:] - true[:, 1:]) ** 2)))


def run_case(seed: int, *, polish: bool) -> dict[str, Any]:
    """Figures of one run: errors, errors over standard deviations, CPU seconds; plain data."""
    name, drive, log, check, known = draw_case(seed)
    found: dict[str, Any] = {
        "seed": seed, "robot": name, "rate": drive.rate, "bits": drive.bits, "loop": drive.loop,
        "memory": drive.memory, "limited": bool(drive.max_torque.max() < 999.0), "delay": drive.delay,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "robot.xml"
        path.write_text(ROBOTS[name], encoding="utf-8")
        robot = load_robot(path)
        for way, rollouts in (("linear", 0), ("polished", 100)):
            if rollouts and (drive.memory or not polish):
                continue
            start = time.process_time()
            try:
                result = identify_actuators(
                    robot, columns(log), controller=known, validate=columns(check), polish=rollouts
                )
            except DynidError as error:
                return found | {"failed": str(error)}
            seconds = time.process_time() - start
            found[way] = figures(result, drive) | {
                "seconds": seconds, "rollout": true_rollout_error(drives_of(result), result.cutoff, robot, check)
            }  # fmt: skip
            if rollouts:  # what states of coarse encoders leave, whatever is identified
                true = Drives(drive.armature, drive.damping, drive.friction, drive.offset, result.controller,
                              drive.delay, drive.loop)  # fmt: skip
                found["floor"] = true_rollout_error(true, result.cutoff, robot, check)
    return found


def figures(result: Actuators, drive: Drive) -> dict[str, Any]:
    """Errors of a result, and those over half the width of their intervals: beyond 1 the true value is outside."""
    true = {"Ia": drive.armature, "Fv": drive.damping, "Fc": drive.friction}
    half = {symbol: result.quantile * result.sigma[k * len(x) : (k + 1) * len(x)]
            for k, (symbol, x) in enumerate(true.items())}  # fmt: skip
    late, width = result.delay - drive.delay, result.quantile * result.delay_sigma
    return {
        "delay": late, "delay_z": late / width, "rollouts": result.rollouts, "verdict": result.verdict.level,
        "error": {s: (result.of(s) / x - 1.0).tolist() for s, x in true.items()},
        "z": {s: ((result.of(s) - x) / half[s]).tolist() for s, x in true.items()},
        "warnings": [w.code for w in result.warnings],
    }  # fmt: skip


def inside(found: dict[str, Any]) -> tuple[int, int]:
    """Count true armatures, dampings, dry frictions and delays inside their 95 % intervals, and all of them."""
    z = np.abs(np.concatenate([[found["delay_z"]], *found["z"].values()]))
    return int((z <= 1.0).sum()), len(z)


def line_of(run: dict[str, Any]) -> str:
    """One run in a line."""
    what = (
        f"{run['seed']:4d} {run['robot']:9s} {run['rate']:5.0f} Hz {run['bits']} bit {run['loop']:5s} "
        f"{'memory' if run['memory'] else 'plain '} {'limit' if run['limited'] else '     '} "
    )
    if "failed" in run:
        return f"{what}{run['failed']}"
    for way in ("linear", "polished"):
        if way in run:
            x = run[way]
            what += (
                f"{way}: delay {1e3 * x['delay']:+.2f} ms, armature {100 * max(map(abs, x['error']['Ia'])):5.1f} %, "
                f"rollout {1e3 * x['rollout']:.2f} mrad, {x['seconds']:.1f} s, {x['rollouts']} rollouts, inside "
                f"{'/'.join(map(str, inside(x)))}, {x['verdict']}; "
            )
    if "floor" in run:
        what += f"true drives {1e3 * run['floor']:.2f} mrad; "
    return what + ", ".join(run["linear"]["warnings"])


def table(runs: list[dict[str, Any]]) -> int:
    """Print what holds in which share of the runs; return how many limits are missed."""
    done = [run for run in runs if "linear" in run]
    linear, polished = [run["linear"] for run in done], [run["polished"] for run in done if "polished" in run]
    limits = [DELAY_100 if run["rate"] <= 100.0 else DELAY for run in done]
    armatures = np.abs(np.concatenate([x["error"]["Ia"] for x in linear]))
    rows: list[tuple[str, float, float]] = [
        ("delay within its limit", float(np.mean([abs(x["delay"]) <= m for x, m in zip(linear, limits, strict=True)])),
         ROBUST),
        ("armatures within 5 %", float(np.mean(armatures <= ARMATURE)), ROBUST),
        ("rollouts within 3 mrad at 0.5 s", float(np.mean([x["rollout"] <= ROLLOUT for x in linear])), 1.0),
        ("runs within 5 CPU s", float(np.mean([x["seconds"] <= SECONDS for x in linear])), 1.0),
    ]  # fmt: skip
    groups = [("", linear)]
    groups += [(f", {robot}", [r["linear"] for r in done if r["robot"] == robot]) for robot in ROBOTS]
    groups += [(", friction with memory", [r["linear"] for r in done if r["memory"]]),
               (", torque limits", [r["linear"] for r in done if r["limited"]]), (", polished", polished)]  # fmt: skip
    for which, of in groups:
        if of:
            hits, total = np.sum([inside(x) for x in of], axis=0)
            rows.append((f"inside 95 % intervals{which} ({hits} of {total})", hits / total, COVERED))
    if polished:
        rows += [
            ("polished rollouts within 0.5 mrad", float(np.mean([x["rollout"] <= POLISHED for x in polished])), ROBUST),
            ("at most 100 rollouts", float(np.mean([x["rollouts"] <= 100 for x in polished])), 1.0),
        ]
    missed = len(runs) - len(done)
    for what, share, least in rows:
        missed += share < least
        sys.stdout.write(f"{what}: {100 * share:.1f} % (at least {100 * least:.0f} %)\n")
    for what, x, factor in (
        ("delay error, ms", [abs(y["delay"]) for y in linear], 1e3), ("armature error, %", armatures, 100.0),
        ("rollout, mrad", [y["rollout"] for y in linear], 1e3), ("CPU s", [y["seconds"] for y in linear], 1.0),
        ("polished rollout, mrad", [y["rollout"] for y in polished], 1e3),
        ("polished armature error, %", [abs(e) for y in polished for e in y["error"]["Ia"]], 100.0),
        ("polished CPU s", [y["seconds"] for y in polished], 1.0),
    ):  # fmt: skip
        if len(x):
            q = np.quantile(x, (0.5, 0.9, 1.0)) * factor
            sys.stdout.write(f"{what}: median {q[0]:.2f}, 90 % below {q[1]:.2f}, largest {q[2]:.2f}\n")
    sys.stdout.write(f"actuators: {len(runs)} runs, {missed} limits missed, {len(runs) - len(done)} failed\n")
    return missed


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign; return how many limits are missed."""
    parser = argparse.ArgumentParser(prog="python -m campaign.actuators")
    parser.add_argument("count", nargs="?", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-polish", action="store_true")
    parser.add_argument("--json", type=Path, help="file of runs, one per line; those that it holds are not run again")
    asked = parser.parse_args(arguments)
    kept = asked.json.read_text().splitlines() if asked.json is not None and asked.json.exists() else []
    known = {run["seed"]: run for run in map(json.loads, kept)}
    seeds = range(asked.seed, asked.seed + asked.count)
    if not set(seeds) <= set(known):
        run_case(asked.seed, polish=False)  # compiles kernels
    runs = []
    for seed in seeds:
        run = known.get(seed) or run_case(seed, polish=not asked.no_polish)
        runs.append(run)
        if asked.json is not None and seed not in known:
            with asked.json.open("a") as file:
                file.write(json.dumps(run) + "\n")
        sys.stdout.write(line_of(run) + "\n")
        sys.stdout.flush()
    return table(runs)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
