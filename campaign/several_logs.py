"""Coverage of 95 % intervals from a few logs of different motions, of robots whose friction the model lacks.

`python -m campaign.several_logs [--robots NAMES] [--draws N] [--plain]`: share of intervals that hold the true values,
by robot, friction and kind of parameter (inertial, gravity, friction). Inertial and gravity parameters have true
values: those of the simulated bodies. Parameters of friction that the model lacks have none: theirs are pseudo-true,
those to which the same friction blocks lead on all logs together. With --plain all are pseudo-true: what three terms
of friction lack is partly taken for inertia, of rotors above all, in every log alike, which no scatter shows.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import cache

import numpy as np

from campaign.arms import ARMS, Truth, true_robot
from dynid import Log, Robot, collect_state, identify_states, simulate
from dynid.estimation.accumulate.one_pass import total_factors
from dynid.estimation.accumulate.state import State, merge_states
from dynid.estimation.regression.equation import Unknowns
from dynid.estimation.solve.least_squares import solve
from dynid.robot.motion import Motion
from dynid.robot.parameter import Parameter
from dynid.robot.transform import Array

PLAIN = ("viscous", "coulomb", "offset")
FRICTION = ("lugre", "position", "load")
MANY, CUTOFF, RATE = 24, 8.0, 100.0
LEAST = 0.93


def random_motion(robot: Robot, seed: int, seconds: float = 12.0) -> Motion:
    """A Fourier series of random period, size and centre, at 1 kHz."""
    rng = np.random.default_rng([seed, 55])
    t, k = np.arange(int(seconds * 1000.0)) / 1000.0, np.arange(1, 6)
    low, high = robot.limits.position.T
    base, size = 2.0 * np.pi * rng.uniform(0.08, 0.12), rng.uniform(0.25, 0.45, robot.n) * (high - low) / 2.0
    centre = 0.5 * (low + high) + rng.uniform(-0.3, 0.3, robot.n) * (high - low) / 2.0
    A, B = rng.standard_normal((2, 5, robot.n)) / np.sqrt(k)[:, None]
    scale = size / np.sqrt((A**2 + B**2).sum(axis=0) / 2.0)
    w, s, c = base * k, np.sin(np.outer(t, base * k)), np.cos(np.outer(t, base * k))
    q, v = centre + (s @ A + c @ B) * scale, ((c * w) @ A - (s * w) @ B) * scale
    return Motion(t, q, v, -((s * w**2) @ A + (c * w**2) @ B) * scale)


def friction_torque(kind: str, truth: Truth, motion: Motion, rigid: Array) -> Array:
    """Friction (N, n): LuGre with Stribeck's hump, dry friction that depends on the position, or on the load.

    The bristles' state is integrated implicitly in their own stiffness, which knows nothing of dynid's stop operators.
    """
    v, dt = motion.v, motion.t[1] - motion.t[0]
    dry = truth.dry * (1.0 + (0.6 if kind == "lugre" else 0.2) * np.exp(-((v / 0.15) ** 2)))
    if kind == "position":
        dry = dry * (1.0 + 0.3 * np.sin(3.0 * motion.q + 1.0))
    if kind == "load":
        dry = dry + 0.04 * np.abs(rigid)
    z, bristle = np.zeros(v.shape[1]), np.zeros_like(v)
    for k, (speed, limit) in enumerate(zip(v, dry, strict=True)):
        z = (z + dt * speed) / (1.0 + dt * np.abs(speed) / truth.width)
        bristle[k] = z / truth.width * limit
    return np.asarray(bristle + truth.viscous * np.sign(v) * np.abs(v) ** (0.8 if kind == "lugre" else 1.0))


def simulated_log(name: str, kind: str, seed: int, robot_seed: int = 0) -> Log:
    """A log of one motion; noise is half a percent of the spread of every torque."""
    truth = true_robot(name, robot_seed)
    motion = random_motion(truth.robot, seed)
    rigid = simulate(truth.robot, motion).tau
    assert rigid is not None
    tau = rigid + friction_torque(kind, truth, motion, rigid)
    tau += 0.005 * tau.std(axis=0) * np.random.default_rng([seed, 99]).standard_normal(tau.shape)
    some = slice(None, None, int(1000.0 / RATE))
    return Log(motion.t[some], motion.q[some], v=motion.v[some], a=motion.a[some], tau=tau[some], name=f"log {seed}")


@cache
def states(name: str, kind: str, *, plain: bool, many: int = MANY, robot_seed: int = 0) -> tuple[State, ...]:
    """States of many logs, to be taken a few at a time."""
    robot = true_robot(name, robot_seed).robot
    robot = robot.with_parameters(np.full(len(robot.parameters), np.nan))
    logs = [simulated_log(name, kind, seed, robot_seed) for seed in range(many)]
    first = collect_state(robot, logs[0], friction=PLAIN if plain else "auto", cutoff=CUTOFF)
    return first, *(collect_state(robot, log, like=first) for log in logs[1:])


def kind_of(name: Parameter) -> str:
    """Which kind of parameter one is."""
    if name.kind == "friction":
        return "friction"
    return "gravity" if name.unit in ("kg", "kg m") else "inertial"


def coverage(
    name: str, kind: str, few: int, *, plain: bool, draws: int, many: int = MANY, robot_seed: int = 0
) -> dict[str, tuple[float, int]]:
    """Share of the 95 % intervals from a few logs that hold the true values, and how many there were, by kind."""
    several, rng = states(name, kind, plain=plain, many=many, robot_seed=robot_seed), np.random.default_rng([few, 3])
    merged = merge_states(list(several))
    factors, base = total_factors(merged.blocks), merged.equation.base
    true_base = dict(zip(base.names, base.values(true_robot(name, robot_seed).robot.parameters), strict=True))

    @cache
    def pseudo_true(blocks: tuple[str, ...]) -> dict[Parameter, float]:
        unknowns = Unknowns.for_equation(merged.equation, blocks, merged.logs, left_out=merged.unseen_harmonics)
        return dict(zip(unknowns.names, solve(unknowns, factors).values, strict=True))

    hits: dict[str, list[bool]] = defaultdict(list)
    for _ in range(draws):
        found = identify_states([several[k] for k in rng.choice(many, few, replace=False)])
        if found.unidentifiable:
            continue  # what is left stands for sums
        for parameter, (low, high) in zip(found.names, found.intervals, strict=True):
            value = pseudo_true(found.friction).get(parameter, np.nan)
            value = value if plain else true_base.get(parameter, value)
            if np.isfinite(value):
                hits[kind_of(parameter)].append(bool(low <= value <= high))
    return {group: (float(np.mean(some)), len(some)) for group, some in sorted(hits.items())}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; how many kinds of parameters are below the limit, all robots taken together."""
    parser = argparse.ArgumentParser(prog="campaign.several_logs")
    parser.add_argument("--robots", default="gautier3,general4,puma560,ur10e")
    parser.add_argument("--few", default="2,3,5")
    parser.add_argument("--draws", type=int, default=15)
    parser.add_argument("--plain", action="store_true", help="viscous, Coulomb and offset in place of the recipe")
    parser.add_argument("--seed", type=int, default=0, help="of the robots")
    options = parser.parse_args(arguments)
    total: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for name in options.robots.split(","):
        if name not in ARMS:
            parser.error(f"no robot {name} (there are {', '.join(ARMS)})")
        for kind in FRICTION:
            for few in map(int, options.few.split(",")):
                shares = coverage(name, kind, few, plain=options.plain, draws=options.draws, robot_seed=options.seed)
                for group, share in shares.items():
                    total[group].append(share)
                text = "  ".join(f"{group} {share:.3f} ({count})" for group, (share, count) in shares.items())
                sys.stdout.write(f"{name:10s} {kind:9s} {few} logs  {text}\n")
                sys.stdout.flush()
        states.cache_clear()
    low = 0
    for group, figures in sorted(total.items()):
        every = sum(count for _, count in figures)
        mean = sum(share * count for share, count in figures) / max(every, 1)
        low += mean < LEAST
        sys.stdout.write(f"{group}: {mean:.3f} of {every} intervals\n")
    return low


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
