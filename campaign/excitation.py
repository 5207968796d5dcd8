"""Torque errors after a second motion: more of the same, one by the condition number, one by predicted torques.

`python -m campaign.excitation [--robots NAMES] [--draws N] [--starts N]`: a simulated arm does 60 s of pick-and-place
and 12 s of a second motion; the model identified from both predicts torques at random states inside the limits. Printed
are the errors (root mean square over that of the torques, mean over joints) and their ratios to the old default, the
condition number of the rigid columns up to the limits. Friction is viscous, Coulomb and offset; noise is white, 2 % of
each joint's torques.

`python -m campaign.excitation --bounds N`: N random robots of two joints (every fiftieth of three) with random limits,
columns and criteria; a motion is designed for each, and none may be better than its bound. For criterion d, the best
weights of a grid of states have to be above the bound, too, and not far from it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from campaign.arms import ARMS, Arm, true_robot
from dynid import Log, Robot, design_excitation, identify, load_robot, simulate
from dynid.excitation.bound import StateBox, excess_over_bound
from dynid.excitation.criteria import random_states
from dynid.excitation.excitation import Excitation
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


CRITERIA = ("d", "a", "e", "v")
NEAR = 1.15
"""Variance of the best weights of a coarse grid of states over that of the bound and its duality gap, at most."""


def random_robot(seed: int) -> tuple[Robot, dict[str, Any]]:
    """A robot of two or three joints, one of them sliding now and then, and limits for it."""
    rng = np.random.default_rng([seed, 21])
    n = 3 if seed % 50 == 49 else 2
    rows = [
        {
            "alpha": float(rng.choice([0.0, np.pi / 2, -np.pi / 2, rng.uniform(-1.5, 1.5)])),
            "d": float(rng.choice([0.0, rng.uniform(0.1, 0.8)])),
            "r": float(rng.choice([0.0, rng.uniform(0.1, 0.5)])),
            "type": "prismatic" if n == 2 and rng.random() < 0.15 else "revolute",
        }
        for _ in range(n)
    ]
    gravity = (0.0, 0.0, -9.81) if rng.random() < 0.7 else tuple(float(x) for x in rng.uniform(-7.0, 7.0, 3))
    middle, half = rng.uniform(-0.5, 0.5, n), rng.uniform(0.4, 2.5, n)
    return Robot.from_mdh(rows, gravity=gravity, name=f"random {seed}"), {
        "position": np.column_stack([middle - half, middle + half]),
        "velocity": rng.uniform(0.5, 4.0, n),
        "acceleration": rng.uniform(2.0, 20.0, n),
    }


def check_bound(seed: int) -> tuple[str | None, float, float, bool]:
    """What is wrong with the bound of random design `seed`, its excess, duality gap, and whether it is proven."""
    robot, limits = random_robot(seed)
    criterion = CRITERIA[seed % 4]
    rigid = {"rotor_inertia": False, "friction": ()} if seed % 3 == 0 and criterion != "v" else {}
    found = design_excitation(
        robot, criterion=criterion, limits=limits, margin=0.0, starts=1, time_budget=0.5, bound=True, seed=seed,
        **rigid,  # type: ignore[arg-type]
    )  # fmt: skip
    assert found.least is not None
    assert found.excess_over_bound is not None
    wrong = []
    if found.excess_over_bound < 1.0:
        wrong.append(f"the motion is better than its bound: {found.value:g}, {found.least.value:g}")
    if found.least.gap < -1e-9:
        wrong.append(f"duality gap {found.least.gap:g}")
    if criterion == "d" and robot.n == 2:
        ratio = grid_over_bound(found)
        if not 1.0 <= ratio < NEAR * (1.0 + found.least.gap):
            wrong.append(f"the best weights of a grid have {ratio:g} of the bound's variance")
    text = f"{robot.name}, {criterion}: {'; '.join(wrong)}" if wrong else None
    return text, found.excess_over_bound, found.least.gap, found.bound_is_proven


def grid_over_bound(found: Excitation) -> float:
    """Variance (geometric mean) of the D-optimal weights of a grid of states over that of the bound."""
    assert found.least is not None
    box = StateBox.for_rows(found.rows, found.limits, found.noise)
    line, ends = np.linspace(-1.0, 1.0, 9), np.array([-1.0, 1.0])
    speeds = np.array([-1.0, -0.5, -1e-6, 1e-6, 0.5, 1.0])
    axes = np.meshgrid(line, line, speeds, speeds, ends, ends, indexing="ij")
    W = box.matrix(np.stack([axis.ravel() for axis in axes], axis=1).reshape(-1, 3, 1, 2))
    p, w = W.shape[2], np.full(len(W), 1.0 / len(W))
    for _ in range(200):
        A = (W * np.sqrt(w)[:, None, None]).reshape(-1, p)
        M = A.T @ A
        w *= ((W @ np.linalg.inv(np.linalg.cholesky(M)).T) ** 2).sum(axis=(1, 2)) / p
    return excess_over_bound("d", -float(np.linalg.slogdet(found.samples * M)[1]), found.least.value, p)


def run_bounds(count: int) -> int:
    """Check the bounds of random designs; print every finding and a summary, return the number of findings."""
    wrong, excesses, gaps, proven = 0, [], [], 0
    for seed in range(count):
        text, excess, gap, is_proven = check_bound(seed)
        wrong += text is not None
        excesses.append(excess)
        gaps.append(gap)
        proven += is_proven
        if text is not None or (seed + 1) % 20 == 0:
            print(text or f"{seed + 1} designs", flush=True)
    print(
        f"bounds: {count} designs, {wrong} findings, {proven} proven; variance over the bound's {min(excesses):.3g} to "
        f"{max(excesses):.3g} (median {np.median(excesses):.3g}), duality gaps up to {max(gaps):.1%}"
    )
    return wrong


def main() -> int:
    """Print errors and ratios per robot; 1 where criterion v is not better by enough."""
    parser = argparse.ArgumentParser(prog="campaign.excitation", description=__doc__)
    parser.add_argument("--robots", default="panda,puma560,tx40,ur10e,iiwa")
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("--bounds", type=int, default=0)
    given = parser.parse_args()
    if given.bounds:
        return int(run_bounds(given.bounds) > 0)
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
