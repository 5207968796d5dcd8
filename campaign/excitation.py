"""Torque errors after a second motion: more of the same, one by the condition number, one by predicted torques.

`python -m campaign.excitation [--robots NAMES] [--draws N] [--starts N]`: a simulated arm does 60 s of pick-and-place
and 12 s of a second motion; the model identified from both predicts torques at random states inside the limits. Printed
are the errors (root mean square over that of the torques, mean over joints) and their ratios to the old default, the
condition number of the rigid columns up to the limits. Friction is viscous, Coulomb and offset; noise is white, 2 % of
each joint's torques. Also printed: 95 % intervals after both logs over those after the first, in the median over all
parameters, and over the three weakest for which a further motion was designed; figures of several draws are medians.
One pair of recordings says little: its noise alone lets the ratio of two errors vary by a sixth (a standard deviation).
Errors are therefore root mean squares over repetitions with other noise; with `--repetitions 0` they are those that the
covariance of least squares expects, which repetitions agree with.

`python -m campaign.excitation --bounds N`: N random robots of two joints (every fiftieth of three) with random limits,
columns and criteria; a motion is designed for each, and none may be better than its bound. For criterion d, the best
weights of a grid of states have to be above the bound, too, and not far from it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from campaign.arms import ARMS, Arm, true_robot
from dynid import Identification, Log, Robot, design_excitation, identify, load_robot, simulate
from dynid.excitation.bound import StateBox, excess_over_bound
from dynid.excitation.criteria import BaseRows, random_states
from dynid.excitation.excitation import Excitation
from dynid.excitation.quintics import Quintics
from dynid.robot.motion import Motion
from dynid.robot.transform import Array

RATE, NOISE = 200.0, 0.02
PLAIN = ("viscous", "coulomb", "offset")
OLD = {"criterion": "condition", "rotor_inertia": False, "friction": (), "margin": 0.0}
TRAINED_ON = ("more of the same", "condition, rigid columns", "d, all columns", "v, all columns")
LARGEST, WIDEST, TARGETED = 0.75, 0.45, 0.3
"""At most: error after a motion by criterion v over that after one by the condition number; intervals over those of the
first log; intervals of targeted parameters."""
WEAKEST = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """Torque errors after each second motion; intervals over those of the first log, of all and of targeted ones.

    scatter: standard deviation over repetitions of the error after the last motion over that after the old default.
    """

    errors: tuple[float, ...]
    scatter: float
    widths: float
    targeted: float


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


def torque_error(robot: Robot, result: Identification, states: Motion) -> float:
    """Error of torques predicted at the states by a result, over their size."""
    true = simulate(robot, states).tau
    assert true is not None
    predicted = result.predict(states)
    return float((np.sqrt(((predicted - true) ** 2).mean(axis=0)) / true.std(axis=0)).mean())


def expected_error(robot: Robot, motions: Sequence[Motion], states: Motion, noise: Array) -> float:
    """Error that least squares on recordings of motions with white noise (n,) expects, by its covariance.

    Root mean square of torques at the states over their size, mean over joints, as `torque_error` has it.
    """
    rows = BaseRows.for_robot(robot, model="torque", rotor_inertia=True, friction=PLAIN)

    def matrix(motion: Motion) -> Array:
        return rows.matrix(motion).reshape(len(motion), robot.n, -1)

    M = sum(np.einsum("tjb,tjc,j->bc", W, W, noise**-2.0) for W in map(matrix, motions))
    U, tau = matrix(states), simulate(robot, states).tau
    assert tau is not None
    variance = np.einsum("tjb,bc,tjc->j", U, np.linalg.inv(M), U, optimize=True) / len(states)
    return float((np.sqrt(variance) / tau.std(axis=0)).mean())


def width_ratios(after: Identification, before: Identification) -> dict[str, float]:
    """Widths of intervals over those of a result before, by the names of parameters that both have."""
    widths = [
        {str(name): float(high - low) for name, (low, high) in zip(result.names, result.intervals, strict=True)}
        for result in (after, before)
    ]
    return {name: widths[0][name] / width for name, width in widths[1].items() if name in widths[0]}


def outcome_of_second_motions(name: str, seed: int, starts: int, repetitions: int) -> Outcome:
    """Torque errors of an arm after each of the second motions, and what became of the intervals."""
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
        return simulate(robot, motion, noise=noise, seed=10 * (repetitions * seed + repetition) + number)

    daily = pick_and_place(robot, 60.0, seed)
    designs: tuple[dict[str, Any], ...] = (OLD, {"criterion": "d"}, {})
    found = [design_excitation(robot, seed=seed, starts=starts, **options) for options in designs]
    seconds = [pick_and_place(robot, 12.0, seed, first=2), *(one.motion(RATE) for one in found)]
    errors = np.zeros((max(1, repetitions), len(seconds)))
    errors[0] = [expected_error(robot, [daily, motion], states, noise) for motion in seconds]
    for r in range(repetitions):
        first = record(daily, r, 0)
        results = [identify(robot, [first, record(motion, r, 1)], friction=PLAIN) for motion in seconds]
        errors[r] = [torque_error(robot, result, states) for result in results]
    first = record(daily, 0, 0)
    alone, both = (identify(robot, logs, friction=PLAIN) for logs in (first, [first, record(seconds[-1], 0, 1)]))
    widths = float(np.median(list(width_ratios(both, alone).values())))
    weakest = [str(alone.names[k]) for k in np.argsort(-alone.relative_sigma)[:WEAKEST]]
    aimed = design_excitation(robot, seed=seed, starts=1, after=alone, target=weakest).motion(RATE)
    ratios = width_ratios(identify(robot, [first, record(aimed, 0, 2)], friction=PLAIN), alone)
    return Outcome(
        tuple(np.sqrt((errors**2).mean(axis=0)).tolist()), float((errors[:, -1] / errors[:, 1]).std()), widths,
        float(np.median([ratios[x] for x in weakest])),
    )  # fmt: skip


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
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("--bounds", type=int, default=0)
    parser.add_argument("--repetitions", type=int, default=10, help="of every pair of recordings, with other noise")
    given = parser.parse_args()
    if given.bounds:
        return int(run_bounds(given.bounds) > 0)
    ARMS.setdefault("panda", Arm(lambda: load_robot("panda"), 18.0, 250, 30.0, True, False, True))
    bad = 0
    for name in given.robots.split(","):
        found = [outcome_of_second_motions(name, k, given.starts, given.repetitions) for k in range(given.draws)]
        errors = np.array([one.errors for one in found])
        middle = np.median(errors, axis=0)
        ratios = np.median(errors / errors[:, 1:2], axis=0)
        widths, targeted = (float(np.median([getattr(one, key) for one in found])) for key in ("widths", "targeted"))
        said = (f"{x} {100 * e:.3f} %" for x, e in zip(TRAINED_ON, middle, strict=True))
        each = ", ".join(f"{e[-1] / e[1]:.2f}" for e in errors)
        print(f"{name}: {', '.join(said)}", flush=True)
        scatter = np.mean([one.scatter for one in found])
        print(
            f"  over the condition number's: {', '.join(f'{e:.2f}' for e in ratios)} (v by draw: {each}; one "
            f"repetition +- {scatter:.2f})", flush=True,
        )  # fmt: skip
        print(f"  intervals over the first log's: {widths:.3f}, targeted {targeted:.3f}", flush=True)
        bad += ratios[-1] > LARGEST or widths > WIDEST or targeted > TARGETED
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
