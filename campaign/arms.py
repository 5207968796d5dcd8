"""Simulated arms for the campaign of mistakes: bodies like real ones, a closed loop, friction with memory, noise.

Forward dynamics are pinocchio's, which knows nothing of dynid's; what comes out is cached by name and seed.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dynid import Log, Robot, load_robot
from dynid.robot.inertia import Body, from_body, to_body
from dynid.robot.robot import JointLimits
from dynid.robot.transform import Array

CACHE = Path(os.environ.get("DYNID_CAMPAIGN_CACHE", Path(tempfile.gettempdir()) / "mistakes-cache"))
VERSION = 2
"""Of the simulation: logs of another one are made again."""

STEP = 5e-4
"""Of the integrator (s); the controller runs every second step."""


@dataclass(frozen=True)
class Arm:
    """How one robot is made and recorded: `mass` (kg) of all links, `rate` (Hz) and `seconds` of every log.

    nominal: whether the robot file has masses (15 % off); velocity: whether velocities are recorded; maxwell:
    Maxwell-slip friction in place of LuGre; load: share of the torque that adds to dry friction; noise: of the torques,
    over their spread; bits: of the encoders; share: dry friction over the spread of the torque.
    """

    make: Callable[[], Robot]
    mass: float
    rate: int
    seconds: float
    nominal: bool
    velocity: bool
    maxwell: bool
    load: float = 0.0
    noise: float = 0.01
    bits: int = 18
    speed: float = 2.0


def _table(*rows: Mapping[str, object], name: str, gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)) -> Robot:
    return Robot.from_mdh([dict(row) for row in rows], gravity=gravity, name=name)


def _pendulum() -> Robot:
    return _table({"alpha": -math.pi / 2}, {"d": 0.45}, name="two_links")


def _general() -> Robot:
    """Four joints with axes at any angle, on a slanted wall."""
    rng = np.random.default_rng(41)
    rows = [
        {"alpha": float(rng.uniform(-2.0, 2.0)), "d": float(rng.uniform(0.1, 0.4)), "r": float(rng.uniform(0.0, 0.4))}
        for _ in range(4)
    ]
    return _table(*rows, name="general4", gravity=(0.0, 6.0, -7.761))


def _stanford() -> Robot:
    """Turning, turning, sliding, three of the wrist."""
    right = math.pi / 2
    return _table(
        {"r": 0.4}, {"alpha": -right, "r": 0.15}, {"alpha": right, "type": "prismatic", "r": 0.4}, {},
        {"alpha": -right}, {"alpha": right, "r": 0.1}, name="stanford",
    )  # fmt: skip


def _tree() -> Robot:
    """A turning trunk with two arms of two joints."""
    right = math.pi / 2
    return _table(
        {"r": 0.5}, {"parent": 1, "alpha": right, "d": 0.15, "r": 0.1}, {"parent": 2, "d": 0.35},
        {"parent": 1, "gamma": math.pi, "b": 0.05, "alpha": right, "d": 0.15, "r": 0.12}, {"parent": 4, "d": 0.3},
        name="tree5",
    )  # fmt: skip


def _hanging() -> Robot:
    """A TX40 under the ceiling."""
    return load_robot("tx40", gravity=(0.0, 0.0, 9.81))


ARMS: dict[str, Arm] = {
    "two_links": Arm(_pendulum, 12.0, 500, 20.0, True, True, False),
    "gautier3": Arm(lambda: load_robot("gautier3"), 30.0, 250, 30.0, False, False, True, noise=0.02, bits=16),
    "general4": Arm(_general, 25.0, 500, 24.0, True, False, False, load=0.03),
    "scara": Arm(lambda: load_robot("scara"), 30.0, 250, 30.0, True, True, True, bits=17),
    "tree5": Arm(_tree, 30.0, 200, 30.0, False, True, False, noise=0.02),
    "stanford": Arm(_stanford, 30.0, 250, 36.0, False, True, True, load=0.03),
    "puma560": Arm(lambda: load_robot("puma560"), 45.0, 500, 30.0, True, False, False, noise=0.015, bits=16),
    "tx40": Arm(_hanging, 27.0, 250, 40.0, False, True, True),
    "ur10e": Arm(lambda: load_robot("ur10e"), 33.0, 500, 30.0, True, True, False, load=0.05),
    "iiwa": Arm(lambda: load_robot("iiwa"), 29.0, 200, 40.0, True, False, True, load=0.02, bits=19),
}


@dataclass(frozen=True)
class Truth:
    """A robot as it is: with bodies, rotor inertias and friction per joint."""

    robot: Robot
    viscous: Array
    dry: Array
    width: Array


def true_robot(name: str, seed: int = 0) -> Truth:
    """Bodies along the links, lighter to the end; rotors and friction of a size that goes with the torques."""
    arm = ARMS[name]
    robot = arm.make()
    rng = np.random.default_rng([seed, *name.encode()])
    n = len(robot.links)
    depth = [0] * n
    for k, link in enumerate(robot.links):
        depth[k] = 1 + (depth[link.parent] if link.parent >= 0 else -1)
    weights = np.array([0.62 ** depth[k] for k in range(n)]) * rng.uniform(0.8, 1.2, n)
    masses = arm.mass * weights / weights.sum()
    links, parameters = [], []
    reach = np.zeros(n)
    for k, link in enumerate(robot.links):
        ends = [child.placement.translation for child in robot.links if child.parent == k]
        along = np.mean(ends, axis=0) if ends else np.array([0.02, 0.0, 0.08])
        along = along if np.linalg.norm(along) > 0.02 else np.array([0.0, -0.05, 0.04])
        com = 0.45 * along + 0.02 * rng.standard_normal(3)
        length, radius = np.linalg.norm(along), 0.05 * (masses[k] / 3.0) ** (1 / 3)
        direction = along / length
        rod = length**2 / 12.0 * (np.eye(3) - np.outer(direction, direction)) + 0.25 * radius**2 * (
            np.eye(3) + np.outer(direction, direction)
        )
        skew = 0.1 * radius**2 * rng.standard_normal((3, 3))
        inertia = masses[k] * (rod + 0.5 * radius**2 * np.eye(3) + 0.5 * (skew + skew.T))
        reach[k] = sum(
            masses[j] * (0.12 + 0.5 * float(np.linalg.norm(along))) for j in range(n) if _is_below(robot, j, k)
        )
        slides = link.kind == "prismatic"
        rotor = (4.0 if slides else 0.25) * rng.uniform(0.6, 1.4) * max(0.05, reach[k] / 5.0 if not slides else 1.0)
        parameters += [*from_body(Body(float(masses[k]), com, inertia)), rotor]
        speed = 0.4 if slides else arm.speed * rng.uniform(0.7, 1.1)
        centre = 0.0
        if not slides and math.isfinite(link.limits.lower) and link.limits.upper - link.limits.lower < 6.5:
            centre = 0.5 * (link.limits.lower + link.limits.upper)
        half = 0.2 if slides else 1.3
        if math.isfinite(link.limits.upper):
            half = min(half, 0.45 * (link.limits.upper - link.limits.lower))
        links.append(replace(link, limits=JointLimits(centre - half, centre + half, speed, 5.0 * speed)))
    size = np.where([link.kind == "prismatic" for link in robot.links], 25.0, np.maximum(9.81 * reach, 2.0))
    robot = replace(robot, links=tuple(links)).with_parameters(np.array(parameters))
    return Truth(
        robot,
        viscous=0.06 * size * rng.uniform(0.6, 1.5, n) * np.where(size == 25.0, 8.0, 1.0),
        dry=0.08 * size * rng.uniform(0.6, 1.5, n),
        width=np.where(size == 25.0, 2e-4, 10.0 ** rng.uniform(-3.6, -2.9, n)),
    )


def _is_below(robot: Robot, link: int, other: int) -> bool:
    """Whether a link is another one or carried by it."""
    while link >= 0:
        if link == other:
            return True
        link = robot.links[link].parent
    return False


def given_robot(name: str, seed: int = 0) -> Robot:
    """The robot file that the user has: no friction; masses 15 % off, or none at all; limits of the file if any."""
    truth = true_robot(name, seed).robot
    limits = [JointLimits(-0.3, 0.3) if link.kind == "prismatic" else link.limits for link in ARMS[name].make().links]
    links = tuple(replace(link, limits=own) for link, own in zip(truth.links, limits, strict=True))
    truth = replace(truth, links=links)
    rng = np.random.default_rng([seed + 1, *name.encode()])
    values = np.full(len(truth.parameters), np.nan)
    if ARMS[name].nominal:
        factors = 1.0 + 0.15 * rng.uniform(-1.0, 1.0, len(truth.links))
        values = truth.parameters * np.repeat(factors, 11)
        values[10::11] = np.nan  # a file has no rotor inertias
    return truth.with_parameters(values)


def simulated_logs(name: str, seed: int = 0, count: int = 2) -> tuple[Log, ...]:
    """Logs of different motions, from the cache where they are there."""
    logs = []
    for k in range(count):
        file = CACHE / f"{name}-{seed}-{k}-v{VERSION}.npz"
        if not file.exists():
            arrays = _simulate(name, seed, k)
            CACHE.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(f".{os.getpid()}.npz")
            np.savez(part, **arrays)  # type: ignore[arg-type]
            part.rename(file)
        with np.load(file) as stored:
            logs.append(Log(**{key: stored[key] for key in stored.files}, name=f"{name} {k + 1}"))
    return tuple(logs)


class Forward:
    """Pinocchio's forward dynamics of a tree whose links all move, in the robot's order of joints."""

    def __init__(self, robot: Robot) -> None:
        import pinocchio as pin

        self.pin, self.model = pin, pin.Model()
        self.model.gravity = pin.Motion(np.array(robot.gravity), np.zeros(3))
        joints: dict[int, int] = {-1: 0}
        for k, link in enumerate(robot.links):
            kind = pin.JointModelRevoluteUnaligned if link.kind == "revolute" else pin.JointModelPrismaticUnaligned
            place = pin.SE3(np.array(link.placement.rotation), np.array(link.placement.translation))
            joints[k] = self.model.addJoint(joints[link.parent], kind(np.array(link.axis)), place, link.joint)
            body = to_body(link.inertia)
            inertia = pin.Inertia(body.mass, body.com, body.inertia)
            self.model.appendBodyToJoint(joints[k], inertia, pin.SE3.Identity())
        order = [self.model.joints[joints[k]].idx_v for k in range(len(robot.links))]
        assert order == list(range(len(order)))  # links are listed depth first
        self.model.armature = np.array([link.rotor for link in robot.links])
        self.data = self.model.createData()

    def acceleration(self, q: Array, v: Array, tau: Array) -> Array:
        """Forward dynamics with rotors."""
        return np.asarray(self.pin.aba(self.model, self.data, q, v, tau))

    def torque(self, q: Array, v: Array, a: Array) -> Array:
        """Inverse dynamics with rotors."""
        return np.asarray(self.pin.rnea(self.model, self.data, q, v, a))


def reference(robot: Robot, t: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Random Fourier series of period 10 s within the limits: positions, velocities, accelerations."""
    lower, upper = (np.array([getattr(link.limits, end) for link in robot.links]) for end in ("lower", "upper"))
    fastest = np.array([link.limits.velocity for link in robot.links])
    k = np.arange(1, 7)
    w = 2.0 * np.pi * 0.1 * k
    A, B = rng.standard_normal((2, 6, len(robot.links))) / k[:, None] ** 0.3
    s, c = np.sin(np.outer(t, w)), np.cos(np.outer(t, w))
    q, v, a = s @ A + c @ B, (c * w) @ A - (s * w) @ B, -(s * w**2) @ A - (c * w**2) @ B
    scale = np.minimum(0.5 * (upper - lower) / np.abs(q).max(axis=0), fastest / np.abs(v).max(axis=0))
    return 0.5 * (lower + upper) + q * scale, v * scale, a * scale


def _simulate(name: str, seed: int, k: int) -> dict[str, Array]:
    """Time stepping; the torque that is recorded is the controller's, with noise."""
    arm, truth = ARMS[name], true_robot(name, seed)
    robot, n = truth.robot, len(truth.robot.links)
    rng = np.random.default_rng([seed, k, *name.encode()])
    t: Array = np.arange(round(arm.seconds / STEP), dtype=np.float64) * STEP
    q_ref, v_ref, a_ref = reference(robot, t, rng)
    forward = Forward(robot)
    model = Forward(robot.with_parameters(robot.parameters * 0.9))  # what the controller believes
    slides = np.array([link.kind == "prismatic" for link in robot.links])
    tick = np.where(slides, 0.5, 2.0 * np.pi) / 2**arm.bits
    rate, share = 2.0 * np.pi * 5.0, 1.0 - math.exp(-2.0 * np.pi * 40.0 * 2.0 * STEP)
    every = round(1.0 / (arm.rate * STEP))
    q, v, tau = q_ref[0].copy(), v_ref[0].copy(), np.zeros(n)
    seen, speed = q, v.copy()
    sizes, widths = np.array([[0.4], [0.3], [0.2], [0.1]]), truth.width * np.array([[0.5], [1.0], [2.0], [4.0]])
    z = np.zeros((4, n)) if arm.maxwell else np.zeros(n)
    stiffness = truth.dry / truth.width
    rows: list[tuple[Array, ...]] = []
    for i in range(len(t)):
        if i % 2 == 0:
            before, seen = seen, np.round((q + 0.3 * tick * rng.standard_normal(n)) / tick) * tick
            if i:
                speed = speed + share * ((seen - before) / (2.0 * STEP) - speed)
            wanted = a_ref[i] + rate**2 * (q_ref[i] - seen) + 2.0 * rate * (v_ref[i] - speed)
            tau = model.torque(seen, v_ref[i], wanted) + 0.9 * truth.viscous * v_ref[i]
        dry = truth.dry + arm.load * np.abs(tau)
        if arm.maxwell:
            z = np.clip(z + STEP * v / widths, -1.0, 1.0)
            friction = dry * (sizes * z).sum(axis=0)
        else:
            g = dry * (1.0 + 0.25 * np.exp(-((v / 0.05) ** 2)))
            z = (z + STEP * v) / (1.0 + STEP * stiffness * np.abs(v) / g)
            friction = stiffness * z + 0.5 * np.sqrt(stiffness) * 0.02 * v
        if i % every == 0:
            rows.append((t[i : i + 1], seen, v.copy(), tau))
        v = v + STEP * forward.acceleration(q, v, tau - friction - truth.viscous * v)
        q = q + STEP * v
    times, positions, velocities, torques = (np.array(x) for x in zip(*rows, strict=True))
    torques += arm.noise * torques.std(axis=0) * rng.standard_normal(torques.shape)
    arrays = {"t": times[:, 0], "q": positions, "tau": torques}
    if arm.velocity:
        arrays["v"] = velocities + 0.003 * velocities.std(axis=0) * rng.standard_normal(velocities.shape)
    return arrays
