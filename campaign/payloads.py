"""Coverage of the 95 % intervals of payloads and drive gains, of arms whose friction the model lacks.

`python -m campaign.payloads [--robots NAMES] [--draws N] [--plain] [--seed N]`: every draw is a pair of recordings,
with and without a random tool, on random motions and at other temperatures, by drives with wrong gains. Payloads are
identified with gains drawn from `gain_sigma`, for every joint alone and for all alike; gains, which are anything, from
the payload, its mass, or the gain of a joint. Exit 1 if a share is below the limit, all robots taken together.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from campaign.arms import ARMS, Truth, true_robot
from campaign.several_logs import CUTOFF, FRICTION, PLAIN, RATE, friction_torque, random_motion
from dynid import Log, Payload, identify_gains, identify_payload, payload_parameters, simulate
from dynid.robot.inertia import SYMBOLS
from dynid.robot.transform import Array

GAIN_SIGMA = 0.1
LEAST = 0.93


def random_tool(rng: np.random.Generator, mass: float) -> Array:
    """Ten parameters of a solid box of 0.1 to 0.3 m, its centre within 0.15 m of the link's origin."""
    size = rng.uniform(0.1, 0.3, 3)
    J = mass / 12.0 * (np.sum(size**2) - size**2)
    return payload_parameters(mass, rng.uniform(-0.15, 0.15, 3), (J[0], 0.0, 0.0, J[1], 0.0, J[2]))


def recording(truth: Truth, kind: str, p: Array, seed: int, gains: Array) -> Log:
    """A log with a tool p on the last link, friction of some temperature, signals of drives with gains."""
    rng = np.random.default_rng([seed, 77])
    robot, X = truth.robot, truth.robot.parameters.copy()
    X[[robot.parameter_names.index(robot.links[-1].parameter(symbol)) for symbol in SYMBOLS]] += p
    motion = random_motion(robot, seed)
    rigid = simulate(robot.with_parameters(X), motion).tau
    assert rigid is not None
    warm = rng.uniform(0.8, 1.2)
    now = replace(truth, dry=warm * truth.dry, viscous=warm * truth.viscous)
    tau = rigid + friction_torque(kind, now, motion, rigid)
    tau += 0.005 * tau.std(axis=0) * rng.standard_normal(tau.shape)
    some = slice(None, None, int(1000.0 / RATE))
    parts = (motion.q[some], motion.v[some], motion.a[some])
    return Log(motion.t[some], parts[0], v=parts[1], a=parts[2], tau=tau[some] / gains, name=f"log {seed}")


def payload_hits(found: Payload, p: Array) -> list[bool]:
    """Whether the intervals of parameters that are known alone hold the true ones."""
    known = [
        (SYMBOLS.index(name), pair) for name, pair in zip(found.names, found.intervals, strict=True) if name in SYMBOLS
    ]
    return [bool(low <= p[k] <= high) for k, (low, high) in known]


def coverage(name: str, kind: str, draws: int, *, plain: bool, seed: int = 0) -> dict[str, list[bool]]:
    """Whether each interval held the true value, by what was identified."""
    truth, hits = true_robot(name, seed), defaultdict[str, list[bool]](list)
    robot = truth.robot.with_parameters(np.full(len(truth.robot.parameters), np.nan))
    friction = PLAIN if plain else "auto"
    for draw in range(draws):
        number = 1000 * seed + 100 * FRICTION.index(kind) + draw
        rng = np.random.default_rng([number, 5])
        p, first = random_tool(rng, rng.uniform(0.03, 0.15) * ARMS[name].mass), 2 * number
        for case in ("payload", "payload, gains alike", "gains"):
            wrong = GAIN_SIGMA * rng.standard_normal(1 if "alike" in case else robot.n)
            gains = np.exp(rng.uniform(-1.0, 1.0, robot.n)) if case == "gains" else 1.0 + wrong * np.ones(robot.n)
            loaded, unloaded = (
                recording(truth, kind, body, first + k, gains) for k, body in enumerate((p, np.zeros(10)))
            )
            if case != "gains":
                found = identify_payload(
                    robot, loaded, unloaded, friction=friction, cutoff=CUTOFF, gain_sigma=GAIN_SIGMA
                )  # fmt: skip
                hits[case] += payload_hits(found, p)
                if "M" in found.names:
                    hits[f"mass of {case}"].append(payload_hits(found, p)[found.names.index("M")])
                continue
            joint = robot.joint_names[robot.n // 2]
            for what, standard in (
                ("payload", {"payload": p}), ("mass", {"mass": p[9]}),
                ("joint", {"reference": {joint: float(gains[robot.n // 2])}}),
            ):  # fmt: skip
                some = identify_gains(robot, loaded, unloaded, friction=friction, cutoff=CUTOFF, **standard)
                used = np.isfinite(some.values) & (some.sigma > 0.0)
                low, high = some.intervals[used].T
                hits[f"gains by {what}"] += ((low <= gains[used]) & (gains[used] <= high)).tolist()
    return dict(hits)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; how many shares are below the limit, all robots taken together."""
    parser = argparse.ArgumentParser(prog="campaign.payloads")
    parser.add_argument("--robots", default="gautier3,general4,puma560,ur10e")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--plain", action="store_true", help="viscous, Coulomb and offset in place of the recipe")
    parser.add_argument("--seed", type=int, default=0, help="of the robots")
    options = parser.parse_args(arguments)
    total: dict[str, list[bool]] = defaultdict(list)
    for name in options.robots.split(","):
        if name not in ARMS:
            parser.error(f"no robot {name} (there are {', '.join(ARMS)})")
        for kind in FRICTION:
            for what, some in coverage(name, kind, options.draws, plain=options.plain, seed=options.seed).items():
                print(f"{name} {kind:8} {what:28} {np.mean(some):.3f} ({len(some)})", flush=True)
                total[what] += some
    for what, some in total.items():
        print(f"all robots {what:30} {np.mean(some):.3f} ({len(some)})")
    return sum(bool(np.mean(some) < LEAST) for some in total.values())


if __name__ == "__main__":
    sys.exit(min(main(), 1))
