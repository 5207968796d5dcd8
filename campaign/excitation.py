"""Torque errors after a second motion: more of the same, one by the condition number, one by predicted torques.

`python -m campaign.excitation [--robots NAMES] [--draws N] [--starts N]`: a simulated arm does 60 s of pick-and-place
and 12 s of a second motion; the model identified from both predicts torques at random states inside the limits. Printed
are the errors (root mean square over that of the torques, mean over joints) and their ratios to the old default, the
condition number of the rigid columns up to the limits. Friction is viscous, Coulomb and offset; noise is white, 2 % of
each joint's torques.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from campaign.arms import ARMS, Arm, true_robot
from dynid import Log, Robot, design_excitation, identify, load_robot, simulate
from dynid.excitation.criteria import random_states
from dynid.excitation.quintics import Quintics
from dynid.robot.motion import Motion

RATE, NOISE = 200.0, 0.02
PLAIN = ("viscous", "coulomb", "offset")
OLD = {"criterion": "condition", "rotor_inertia": False, "friction": (), "margin": 0.0}
TRAINED_ON = ("more of the same", "condition, rigid columns", "d, all columns", "v, all columns")
REPETITIONS = 3
"""Of every pair of recordings with other noise."""
LARGEST = 0.75
"""Error after a motion by criterion v over that after one by the condition number, at most."""


def pick_and_place(robot: Robot, seconds: float, seed: int, *, first: int = 0) -> Motion:
    """Moves between four poses near each other, at a third of the speed limits, with a short rest at each."""
    rng = np.random.default_rng([seed, 77])
    low, high = robot.limits.position.T
    poses = 0.5 * (low + high) + 0.5 * (high - low) * (
        rng.uniform(-0.4, 0.4, robot.n) + rng.uniform(-0.15, 0.15, (4, robot.n))
    )
    q, place = [poses[first % 4]], first
    u: list[float] = []
    while sum(u) < seconds:
        place += 1
        way = np.abs(poses[place % 4] - q[-1])
        u += [float(max((way / (0.3 * robot.limits.velocity)).max() * 1.9, 0.5)), 0.3]
        q += [poses[place % 4]] * 2
    still = np.zeros((len(q), robot.n))
    t = np.arange(int(seconds * RATE)) / RATE
    return Quintics(np.array(u), np.array(q), still, still).sample(t)


def torque_error(robot: Robot, logs: Sequence[Log], states: Motion) -> float:
    """Error of torques predicted at the states after an identification from logs, over their size."""
    true = simulate(robot, states).tau
    predicted = identify(robot, logs, friction=PLAIN).predict(states)
    assert true is not None
    return float((np.sqrt(((predicted - true) ** 2).mean(axis=0)) / true.std(axis=0)).mean())


def errors_after_second_motions(name: str, seed: int, starts: int) -> list[float]:
    """Torque errors of an arm after each of the second motions."""
    truth = true_robot(name, seed)
    rng = np.random.default_rng([seed, 5])
    links = [
        replace(link, friction=(("viscous", v), ("coulomb", c), ("offset", float(0.3 * c * rng.standard_normal()))))
        for link, v, c in zip(truth.robot.links, truth.viscous.tolist(), truth.dry.tolist(), strict=True)
    ]
    robot = replace(truth.robot, links=tuple(links))
    drawn = random_states(robot, robot.limits, 10.0, 5)
    order = np.random.default_rng(seed + 1).permutation(
        len(drawn)
    )  # not the very states of the design: mixed by joints
    states = Motion(drawn.t, drawn.q[order], drawn.v[np.roll(order, 7)], drawn.a[np.roll(order, 19)])
    tau = simulate(robot, states).tau
    assert tau is not None
    noise = NOISE * tau.std(axis=0)

    def record(motion: Motion, repetition: int, number: int) -> Log:
        return simulate(robot, motion, noise=noise, seed=10 * (REPETITIONS * seed + repetition) + number)

    daily = pick_and_place(robot, 60.0, seed)
    designs: tuple[dict[str, Any], ...] = (OLD, {"criterion": "d"}, {})
    found = [design_excitation(robot, seed=seed, starts=starts, **options) for options in designs]
    seconds = [pick_and_place(robot, 12.0, seed, first=2), *(one.motion(RATE) for one in found)]
    errors = [
        [torque_error(robot, [record(daily, r, 0), record(motion, r, 1)], states) for motion in seconds]
        for r in range(REPETITIONS)
    ]
    return [float(x) for x in np.sqrt(np.square(errors).mean(axis=0))]


def main() -> int:
    """Print errors and ratios per robot; 1 where criterion v is not better by enough."""
    parser = argparse.ArgumentParser(prog="campaign.excitation", description=__doc__)
    parser.add_argument("--robots", default="panda,puma560,tx40,ur10e,iiwa")
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--starts", type=int, default=8)
    given = parser.parse_args()
    ARMS.setdefault("panda", Arm(lambda: load_robot("panda"), 18.0, 250, 30.0, True, False, True))
    ratios = []
    for name in given.robots.split(","):
        errors = [errors_after_second_motions(name, seed, given.starts) for seed in range(given.draws)]
        mean = np.exp(np.log(errors).mean(axis=0))
        ratios.append(float(mean[3] / mean[1]))
        print(
            f"{name}: " + ", ".join(f"{x} {100 * e:.2f} %" for x, e in zip(TRAINED_ON, mean, strict=True)), flush=True
        )
        print(f"  over the condition number's: {', '.join(f'{e / mean[1]:.2f}' for e in mean)}", flush=True)
    return int(max(ratios) > LARGEST)


if __name__ == "__main__":
    raise SystemExit(main())
