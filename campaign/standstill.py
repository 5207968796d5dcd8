"""What pauses cost: error of a prediction on a log with 30 % of standstill against the same motion without.

`python -m campaign.standstill [--robots NAMES] [--seeds N,N]`: simulated arms in closed loop whose friction sticks
(coulomb, stribeck: no presliding), or bends before it slips (lugre, maxwell), under three controllers and with three
encoders. The same samples are compared: those in motion with the same motion without pauses, those at rest with an
oracle that knows the true positions, the true parameters and the law of friction, and takes for a joint that sticks,
whose friction no position tells, the last direction times the factor that is best for these very rows.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.signal import butter, sosfiltfilt

from campaign.arms import ARMS, CACHE, STEP, Forward, reference, true_robot
from dynid import Identification, Log, identify
from dynid.robot.motion import Motion
from dynid.robot.transform import Array

HOLD, RAMP, SHARE, SECONDS, CUTOFF = 1.2, 0.25, 0.3, 12.0, 10.0
FRICTION = ("coulomb", "stribeck", "lugre", "maxwell")
CONTROLLERS = ("torque", "pd", "pid")
ENCODERS = (1e-5, 5e-5, 2e-4)
"""Standard deviation (rad) of the noise of positions: 19 bits, 17 bits, 15 bits."""

SIZES, WIDTHS = np.array([[0.4], [0.3], [0.2], [0.1]]), np.array([[0.5], [1.0], [2.0], [4.0]])
"""Maxwell-slip elements: their shares of dry friction, and their widths over the robot's own."""


@dataclass(frozen=True)
class Case:
    """One simulated recording."""

    robot: str
    friction: str
    controller: str
    encoder: float
    seed: int
    motion: int
    pauses: bool


@dataclass(frozen=True, eq=False)
class Recording:
    """Recorded log; q, v, friction (N, n): as they truly are; still (N,): the reference stands."""

    log: Log
    q: Array
    v: Array
    friction: Array
    still: NDArray[np.bool_]


def clock(pauses: bool) -> Array:
    """Progress s and its two derivatives (N, 3) along a path of SECONDS, with pauses of HOLD or without."""
    t = np.arange(0.0, 2.0 * SECONDS, STEP)
    moving = HOLD * (1.0 - SHARE) / SHARE - RAMP
    x = np.mod(t, moving + HOLD + 2.0 * RAMP) - moving
    rate = 0.5 + 0.5 * np.cos(np.pi * np.clip(x / RAMP, 0.0, 1.0))
    rate += 0.5 - 0.5 * np.cos(np.pi * np.clip((x - HOLD - RAMP) / RAMP, 0.0, 1.0))
    rate = rate if pauses else np.ones_like(t)
    s = np.concatenate([[0.0], np.cumsum(rate[:-1]) * STEP])
    return np.column_stack([s, rate, np.gradient(rate, STEP)])[s < SECONDS]


@numba.njit  # type: ignore[untyped-decorator]
def next_velocity(M: Array, push: Array, dry: Array) -> tuple[Array, Array]:
    """Solve M v = push - STEP f, f in dry * sign(v), by projected Gauss-Seidel: velocities and friction."""
    inverse = np.linalg.inv(M)
    free, f = inverse @ push, np.zeros(len(push))
    for _ in range(200):
        change = 0.0
        for j in range(len(f)):
            v = free[j] - STEP * (inverse[j] * f).sum()
            new = min(max(f[j] + v / (STEP * inverse[j, j]), -dry[j]), dry[j])
            change = max(change, abs(new - f[j]))
            f[j] = new
        if change < 1e-9:
            break
    return free - STEP * (inverse @ f), f


def recorded(case: Case) -> Recording:
    """Recording of a case, from the cache where it is there."""
    name = f"{case.robot}-{case.friction}-{case.controller}-{case.encoder:g}-{case.seed}-{case.motion}-{case.pauses}"
    file = CACHE / "standstill" / f"{name}-v1.npz"
    if not file.exists():
        arrays = _simulate(case)
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}.npz")
        np.savez(part, **arrays)  # type: ignore[arg-type]
        part.rename(file)
    with np.load(file) as x:
        return Recording(Log(x["t"], x["seen"], tau=x["tau"], name=name), x["q"], x["v"], x["friction"], x["still"])


def _simulate(case: Case) -> dict[str, Array]:
    """Time stepping at 2 kHz; controller and recording at 1 kHz."""
    truth = true_robot(case.robot, case.seed)
    robot, n = truth.robot, truth.robot.n
    rng = np.random.default_rng([case.seed, case.motion, *case.robot.encode()])
    s, rate, change = clock(case.pauses).T
    q_ref, slope, bend = reference(robot, s, rng)
    v_ref, a_ref = slope * rate[:, None], bend * rate[:, None] ** 2 + slope * change[:, None]
    forward, believed = Forward(robot), Forward(robot.with_parameters(robot.parameters * 0.9))
    pin, model, data = forward.pin, forward.model, forward.data
    omega, share = 2.0 * np.pi * (5.0 if case.controller == "torque" else 8.0), 1.0 - np.exp(-2.0 * np.pi * 40.0 * 1e-3)
    q, v, tau, total = q_ref[0].copy(), v_ref[0].copy(), np.zeros(n), np.zeros(n)
    inertia = np.diag(pin.crba(model, data, q)) + 0.0
    z = np.zeros((4, n)) if case.friction == "maxwell" else np.zeros(n)
    stiffness, widths, slides = truth.dry / truth.width, truth.width * WIDTHS, case.friction in ("coulomb", "stribeck")
    seen, speed = q, v.copy()
    rows: list[tuple[Array, ...]] = []
    noise = np.random.default_rng([case.seed, case.motion, 7, int(case.pauses)])
    friction = np.zeros(n)
    for i in range(len(s)):
        if i % 2 == 0:
            before, seen = seen, q + case.encoder * noise.standard_normal(n)
            if i:
                speed = speed + share * ((seen - before) / (2.0 * STEP) - speed)
            error = q_ref[i] - seen
            total = total + 2.0 * STEP * error
            wanted = a_ref[i] + omega**2 * error + 2.0 * omega * (v_ref[i] - speed)
            if case.controller == "torque":
                tau = believed.torque(seen, v_ref[i], wanted) + 0.9 * truth.viscous * v_ref[i]
            else:
                wanted = wanted + (0.5 * omega**3 * total if case.controller == "pid" else 0.0)
                tau = inertia * wanted + believed.torque(q_ref[i], 0.0 * v, 0.0 * v) + truth.viscous * v_ref[i]
            rows.append((np.array([STEP * i]), seen, tau, q.copy(), v.copy(), rate[i : i + 1]))
        hump = 0.0 if case.friction in ("coulomb", "maxwell") else 0.3
        dry = truth.dry * (1.0 + hump * np.exp(-((v / 0.05) ** 2)))
        if slides:
            M = np.triu(pin.crba(model, data, q))
            M = M + np.triu(M, 1).T
            push = tau - pin.nonLinearEffects(model, data, q, v) - truth.viscous * v
            v, friction = next_velocity(M, M @ v + STEP * push, dry)
        else:
            if case.friction == "maxwell":
                z = np.clip(z + STEP * v / widths, -1.0, 1.0)
                friction = dry * (SIZES * z).sum(axis=0)
            else:
                z = (z + STEP * v) / (1.0 + STEP * stiffness * np.abs(v) / dry)
                friction = stiffness * z
            v = v + STEP * forward.acceleration(q, v, tau - friction - truth.viscous * v)
        q = q + STEP * v
        if i % 2 == 0:
            rows[-1] = (*rows[-1], friction.copy())
    t, positions, torques, true_q, true_v, rates, forces = (np.array(x) for x in zip(*rows, strict=True))
    torques = torques + 0.005 * torques.std(axis=0) * noise.standard_normal(torques.shape)
    return {
        "t": t[:, 0], "seen": positions, "tau": torques, "q": true_q, "v": true_v, "friction": forces,
        "still": rates[:, 0] < 1e-6,
    }  # fmt: skip


def low_pass(x: Array) -> Array:
    """Zero-phase low-pass of order 4, which knows nothing of dynid's."""
    return np.asarray(sosfiltfilt(butter(4, CUTOFF / 500.0, output="sos"), x, axis=0))


def errors(result: Identification, recording: Recording, scale: Array) -> Array:
    """RMSE over `scale` (n,), mean over the joints, of predictions from recorded positions: all, moving, at rest.

    `scale` is one for motions with pauses and without, so that ratios are those of RMSE in N m.
    """
    log = recording.log
    assert log.tau is not None
    q = low_pass(log.q)
    v = np.gradient(q, 1e-3, axis=0)
    predicted = low_pass(result.predict(Motion(log.t, q, v, np.gradient(v, 1e-3, axis=0))))
    return _split(low_pass(log.tau) - predicted, recording.still, scale)


def _split(left: Array, still: NDArray[np.bool_], scale: Array) -> Array:
    """RMSE over scale, mean over the joints, of all samples but the ends, of those in motion and of those at rest."""
    left, still = left[400:-400], still[400:-400]
    parts = (np.ones(len(still), dtype=np.bool_), ~still, still)
    return np.array([np.sqrt((left[p] ** 2).mean(axis=0) / scale**2).mean() if p.any() else np.nan for p in parts])


def _stop(q: Array, width: Array) -> Array:
    """Stop operator along positions, from zero."""
    z, out = np.zeros(q.shape[1]), np.zeros_like(q)
    for k in range(1, len(q)):
        z = out[k] = np.clip(z + (q[k] - q[k - 1]) / width, -1.0, 1.0)
    return out


def law(case: Case, q: Array, recording: Recording) -> Array:
    """Friction at rest (N, n) by the true law and parameters along positions, recorded or true.

    What sticks has the last direction in which it went 0.2 mrad, times what is best for each joint at rest.
    """
    truth = true_robot(case.robot, case.seed)
    if case.friction == "maxwell":
        parts = zip(SIZES[:, 0], WIDTHS[:, 0], strict=True)
        return np.asarray(truth.dry * sum(share * _stop(q, width * truth.width) for share, width in parts))
    if case.friction == "lugre":
        z, out, stiffness = np.zeros(q.shape[1]), np.zeros_like(q), truth.dry / truth.width
        for k in range(1, len(q)):
            d = q[k] - q[k - 1]
            dry = truth.dry * (1.0 + 0.3 * np.exp(-((d / 1e-3 / 0.05) ** 2)))
            z = (z + d) / (1.0 + stiffness * np.abs(d) / dry)
            out[k] = stiffness * z
        return out
    last, still = np.sign(_stop(q, 2e-4 * np.ones(q.shape[1]))), recording.still
    f = recording.friction
    return np.asarray(last * (last[still] * f[still]).sum(axis=0) / np.maximum((last[still] ** 2).sum(axis=0), 1.0))


COLUMNS = (
    "without", "motion", "moving", "rest", "moving without pauses seen", "rest without pauses seen", "oracle", "law",
)  # fmt: skip
"""What `evaluate` gives."""


def evaluate(robot: str, friction: str, controller: str, encoder: float, seed: int) -> Array:
    """Errors, over the spread of the torques, mean over the joints, on another motion.

    Of what a log without pauses and one with pauses of the same motion gave: of the former on the other motion
    without pauses, of the latter on that (motion), then on the other motion with pauses, samples in motion and at rest
    apart; the same of the former; at rest, of the oracle and of the true law along recorded positions.
    """
    given = true_robot(robot, seed).robot
    given = given.with_parameters(np.full(len(given.parameters), np.nan))
    (plain, paused), (other, other_paused) = (
        [recorded(Case(robot, friction, controller, encoder, seed, motion, pauses)) for pauses in (False, True)]
        for motion in (0, 1)
    )
    assert other.log.tau is not None
    scale = low_pass(other.log.tau).std(axis=0)
    by_plain, by_paused = (identify(given, x.log, cutoff=CUTOFF) for x in (plain, paused))
    found = [errors(by_plain, other, scale)[0], errors(by_paused, other, scale)[0]]
    for result in (by_paused, by_plain):
        found += errors(result, other_paused, scale)[1:].tolist()
    case = Case(robot, friction, controller, encoder, seed, 1, True)
    for q in (other_paused.q, low_pass(other_paused.log.q)):
        left = low_pass(other_paused.friction - law(case, q, other_paused))
        found.append(float(np.hypot(_split(left, other_paused.still, scale)[2], found[0])))
    return np.array(found)


def settings(robots: Sequence[str], seeds: Sequence[int]) -> list[tuple[str, str, str, float, int]]:
    """Robot, friction, controller, encoder and seed of all cases: two of each robot and friction."""
    found = []
    for seed in seeds:
        for r, robot in enumerate(robots):
            for f, friction in enumerate(FRICTION):
                for second in range(2):
                    i = 4 * r + f + 5 * second + seed
                    found.append((robot, friction, CONTROLLERS[i % 3], ENCODERS[(i // 3 + i) % 3], seed))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return how many frictions cost more than 10 % in motion, in the median."""
    parser = argparse.ArgumentParser(prog="campaign.standstill")
    parser.add_argument("--robots", default="two_links,gautier3,general4,puma560")
    parser.add_argument("--seeds", default="1", help="of the robots; seed 0 was used for choosing")
    options = parser.parse_args(arguments)
    robots, seeds = options.robots.split(","), [int(seed) for seed in options.seeds.split(",")]
    if not set(robots) <= set(ARMS):
        parser.error(f"there are {', '.join(ARMS)}")
    table: dict[str, list[Array]] = defaultdict(list)
    for case in settings(robots, seeds):
        found = evaluate(*case)
        table[case[1]].append(found / found[0])
        print(*case, " ".join(f"{name} {x:.4f}" for name, x in zip(COLUMNS, found, strict=True)), flush=True)
    print("\nover the error without pauses: median, worst")
    for friction, rows in table.items():
        cells = (f"{name} {np.median(x):.2f}, {x.max():.2f}" for name, x in zip(COLUMNS, np.array(rows).T, strict=True))
        print(f"{friction:9}", "; ".join(list(cells)[1:]))
    return sum(float(np.median([row[1] for row in rows])) > 1.1 for rows in table.values())


if __name__ == "__main__":
    sys.exit(main())
