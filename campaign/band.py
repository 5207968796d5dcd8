"""Share of held-out samples inside the 95 % band, over many splits of recordings and of simulated robots.

`python -m campaign.band [panda ur10 kr300 lwr4 simulated]`. Splits marked with * were used for choosing the rule; the
figures to read are those of the others. `beyond`: the validation motion leaves what was seen, as a note says.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.signal import butter, sosfiltfilt

from campaign.arms import ARMS, true_robot
from campaign.mistakes import DATA
from campaign.several_logs import FRICTION, simulated_log
from dynid import Identification, Log, Robot, identify, load_robot, read_log
from dynid.robot.motion import Motion
from dynid.robot.transform import Array

Parts = list[tuple[float, float]]
PARTS: dict[str, tuple[Parts, Parts]] = {
    "65 %": ([(0.0, 0.65)], [(0.65, 1)]),
    "half 1": ([(0, 0.5)], [(0.5, 1)]),
    "half 2": ([(0.5, 1)], [(0, 0.5)]),
    "middle": ([(0.25, 0.75)], [(0, 0.25), (0.75, 1)]),
    "ends": ([(0, 0.25), (0.75, 1)], [(0.25, 0.75)]),
    "thirds 1, 2": ([(0, 0.667)], [(0.667, 1)]),
    "thirds 2, 3": ([(0.333, 1)], [(0, 0.333)]),
    "thirds 1, 3": ([(0, 0.333), (0.667, 1)], [(0.333, 0.667)]),
    "first 80 %": ([(0, 0.8)], [(0.8, 1)]),
    "last 80 %": ([(0.2, 1)], [(0, 0.2)]),
    "last 65 %": ([(0.35, 1)], [(0, 0.35)]),
    "without 40 to 60 %": ([(0, 0.4), (0.6, 1)], [(0.4, 0.6)]),
    "third 1": ([(0, 0.333)], [(0.333, 1)]),
    "third 2": ([(0.333, 0.667)], [(0, 0.333), (0.667, 1)]),
    "third 3": ([(0.667, 1)], [(0, 0.667)]),
}
CHOSEN = {
    *(f"{robot} {name}" for robot in ("panda", "ur10") for name in (
        "65 %", "half 1", "ends", "thirds 1, 2", "thirds 1, 3", "first 80 %", "third 1", "last 80 %")),
    *(f"kr300 {name}" for name in ("AB -> C", "A -> B", "B -> C", "C -> A", "half 1", "half 2", "middle")),
    *(f"lwr4 {name}" for name in (
        "13 -> 2", "1 -> 2", "3 -> 1", "1 and 3, 65 %", "1 and 3, half 1", "3, 65 %", "3, half 1", "2, 65 %",
        "2, half 1")),
}  # fmt: skip
"""Splits that were used for choosing the rule, and those of simulated robots with seed 0."""


@dataclass(frozen=True)
class Split:
    """Logs to identify from and to predict; rate and cut-off (Hz), samples left out at both ends."""

    name: str
    robot: Robot
    used: list[Log]
    held_out: list[Log]
    rate: float
    cutoff: float
    trim: int
    rotors: bool
    velocity: bool


def inside(split: Split, result: Identification, log: Log) -> Array:
    """Which samples (N, n) of a log lie inside the band; filters are scipy's."""
    t, places = np.unique(log.t, return_index=True)
    grid = np.arange(t[0], t[-1], 1.0 / split.rate)
    sos = butter(4, split.cutoff / (0.5 * split.rate), output="sos")

    def low(x: Array) -> Array:
        even = np.column_stack([np.interp(grid, t, column) for column in x[places].T])
        return np.asarray(sosfiltfilt(sos, even, axis=0, padlen=int(3 * split.rate / split.cutoff)))

    q = low(log.q)
    v = low(log.v) if split.velocity and log.v is not None else np.gradient(q, 1.0 / split.rate, axis=0)
    motion = Motion(grid, q, v, np.gradient(v, 1.0 / split.rate, axis=0))
    assert log.tau is not None
    error = low(log.tau) - np.asarray(sosfiltfilt(sos, result.predict(motion), axis=0))
    return np.asarray(np.abs(error) <= result.band(motion))[split.trim : -split.trim]


def splits(name: str) -> Iterator[Split]:
    """Splits of a recording, or of simulated robots whose friction the model lacks."""
    if name == "simulated":
        yield from _simulated_splits()
        return
    robot = load_robot(name)
    if name in ("panda", "ur10"):
        file = "panda_gaz2019/log.csv.gz" if name == "panda" else "ur10_unisa/ur10_exciting_trajectory.db3"
        log = read_log(DATA / file, robot)
        setting = (1000.0, 10.0, 200, False, True) if name == "panda" else (125.0, 10.0, 25, True, True)
        for part, (used, held_out) in PARTS.items():
            yield Split(f"{name} {part}", robot, _cut([log], used), _cut([log], held_out), *setting)
        return
    folder, keys = ("kr300_weigand", "ABC") if name == "kr300" else ("kuka_lwr4_flobaroid", "123")
    setting = (250.0, 10.0, 50, True, False) if name == "kr300" else (200.0, 8.0, 50, False, False)
    logs = {key: read_log(DATA / folder / f"log_{key}.csv.gz", robot) for key in keys}
    logs = {key: Log(log.t, log.q, tau=log.tau, name=log.name) for key, log in logs.items()}
    if name == "lwr4":
        logs = {key: log.between(2.5, -2.5) for key, log in logs.items()}
    for other in keys:
        rest = keys.replace(other, "")
        for some in (rest, *rest):
            yield Split(f"{name} {some} -> {other}", robot, [logs[k] for k in some], [logs[other]], *setting)
    for part in ("65 %", "last 65 %", "half 1", "half 2", "middle"):
        used, held_out = PARTS[part]
        if name == "kr300":
            every = list(logs.values())
            yield Split(f"{name} {part}", robot, _cut(every, used), _cut(every, held_out), *setting)
            continue
        for label, beside, own in (("1 and 3", [logs["1"]], logs["3"]), ("3", [], logs["3"]), ("2", [], logs["2"])):
            logs_used = [*beside, *_cut([own], used)]
            yield Split(f"{name} {label}, {part}", robot, logs_used, _cut([own], held_out), *setting)


def _cut(logs: list[Log], parts: Parts) -> list[Log]:
    """Parts of logs."""
    return [log.part(*part) for log in logs for part in parts]


def _simulated_splits() -> Iterator[Split]:
    """Ten robots with two sets of bodies: one to three logs of other motions, four to predict."""
    for seed in (0, 1):
        for k, name in enumerate(sorted(ARMS)):
            robot = true_robot(name, seed).robot
            robot = robot.with_parameters(np.full(len(robot.parameters), np.nan))
            kind, few = FRICTION[(k + seed) % 3], 1 + (k // 3 + seed) % 3
            used, held_out = (
                [simulated_log(name, kind, number, seed) for number in numbers]
                for numbers in (range(few), range(10, 14))
            )
            label = f"simulated {name} {seed}, {kind}, {few} logs"
            yield Split(label, robot, used, held_out, 100.0, 8.0, 50, True, True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the shares; return how many groups of splits not used for choosing have a mean outside 0.93 to 0.97."""
    parser = argparse.ArgumentParser(prog="campaign.band")
    everything = ["panda", "ur10", "kr300", "lwr4", "simulated"]
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(everything))
    names = parser.parse_args(arguments).names or everything
    if not set(names) <= set(everything):
        parser.error(f"there are {', '.join(everything)}")
    wrong = 0
    for name in names:
        shares: dict[tuple[bool, bool], list[float]] = defaultdict(list)
        for split in splits(name):
            result = identify(
                split.robot, split.used, validate=split.held_out, rotor_inertia=split.rotors, cutoff=split.cutoff
            )
            share = float(np.concatenate([inside(split, result, log) for log in split.held_out]).mean())
            is_beyond = any(note.code == "validation_beyond_data" for note in result.notes)
            is_chosen = split.name in CHOSEN or ("simulated" in split.name and " 0, " in split.name)
            shares[is_chosen, is_beyond].append(share)
            marks = "*" * is_chosen + " beyond" * is_beyond
            print(f"{split.name:40} {share:.3f}{marks}  NRMSE {result.validation.mean:.3f}", flush=True)
        for (is_chosen, is_beyond), some in sorted(shares.items()):
            kind = ("chosen" if is_chosen else "others") + (", beyond" if is_beyond else "")
            print(
                f"{name}, {kind}: {len(some)} splits, mean {np.mean(some):.3f}, median {np.median(some):.3f}, "
                f"{min(some):.3f} to {max(some):.3f}"
            )
        others = shares[False, False]
        wrong += bool(others) and not 0.93 <= np.mean(others) <= 0.97
    return wrong


if __name__ == "__main__":
    sys.exit(main())
