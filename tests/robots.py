"""Random robots, motions and parameters; the same seed gives the same robot everywhere."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from dynid.robot.inertia import Body, from_body
from dynid.robot.motion import Motion
from dynid.robot.parameter import Parameter
from dynid.robot.robot import Coupling, JointKind, JointLimits, Link, Robot
from dynid.robot.transform import Array, Transform, freeze


def random_rotation(rng: np.random.Generator) -> Array:
    Q, R = np.linalg.qr(rng.standard_normal((3, 3)))
    Q = Q * np.sign(np.diag(R))
    return np.asarray(Q * np.sign(np.linalg.det(Q)))


def random_inertia(rng: np.random.Generator) -> Array:
    """Ten parameters of a body that could exist."""
    A = rng.standard_normal((3, 3))
    S = A @ A.T * 0.1
    return from_body(Body(rng.uniform(0.5, 5.0), rng.uniform(-0.3, 0.3, 3), np.trace(S) * np.eye(3) - S))


def random_tree(
    seed: int,
    *,
    joints: int | None = None,
    serial: bool = False,
    floating: bool = False,
    fixed_share: float = 0.1,
    shuffled: bool = False,
) -> Robot:
    """A tree of revolute, prismatic and some fixed joints about arbitrary axes, with arbitrary gravity."""
    rng = np.random.default_rng(seed)
    n = joints or int(rng.integers(1, 13))
    links: list[Link] = []
    if floating:
        links.append(_link(rng, "base", "0", -1, "floating"))
    moving = 0
    while moving < n:
        k = len(links)
        kinds: tuple[JointKind, ...] = ("revolute", "prismatic", "fixed")
        kind = kinds[rng.choice(3, p=[0.7 - fixed_share / 2, 0.3 - fixed_share / 2, fixed_share])]
        first = 0 if floating else -1
        parent = k - 1 if serial or k == 0 else int(rng.integers(max(first, k - 4), k))
        links.append(_link(rng, f"j{k}", str(k if floating else k + 1), max(parent, first), kind))
        moving += kind != "fixed"
    robot = Robot(f"random-{seed}", tuple(links), freeze(rng.standard_normal(3) * 6.0))
    return _shuffle(robot, rng) if shuffled else robot


def _link(rng: np.random.Generator, name: str, label: str, parent: int, kind: JointKind) -> Link:
    axis = rng.standard_normal(3)
    still = kind == "floating"
    placement = Transform.identity() if still else Transform(random_rotation(rng), rng.uniform(-0.5, 0.5, 3))
    return Link(
        name=name,
        joint=name,
        label=label,
        parent=parent,
        kind=kind,
        placement=placement,
        axis=freeze(axis / np.linalg.norm(axis)),
        inertia=freeze(random_inertia(rng)),
        rotor=float(rng.uniform(0.01, 0.5)),
        limits=JointLimits(-2.0, 2.0, 3.0, 10.0, 100.0),
    )


def _shuffle(robot: Robot, rng: np.random.Generator) -> Robot:
    """The same tree with its links in another order, so that parents may come after children."""
    order = rng.permutation(len(robot.links))
    place = {int(old): new for new, old in enumerate(order)} | {-1: -1}
    links = tuple(replace(robot.links[old], parent=place[robot.links[old].parent]) for old in order)
    return replace(robot, links=links)


def coupled_tree(seed: int) -> Robot:
    """A tree in which some joints follow others through gears."""
    robot = random_tree(seed, joints=7)
    rng = np.random.default_rng(seed + 1)
    names = robot.joint_names
    couplings = (
        Coupling(names[2], ((names[0], float(rng.normal())), (names[1], float(rng.normal()))), 0.3),
        Coupling(names[5], ((names[2], -1.0), (names[4], 0.5)), -0.1),
    )
    return replace(robot, couplings=couplings)


def random_motion(robot: Robot, *, samples: int = 5, seed: int = 0, spread: float = 1.0) -> Motion:
    """Independent random samples of the active joints (and of a floating base)."""
    rng = np.random.default_rng(seed + 1000)
    q, v, a = (spread * rng.standard_normal((samples, robot.n)) for _ in range(3))
    t = np.arange(samples, dtype=np.float64)
    if not robot.floating:
        return Motion(t, q, v, a)
    quaternion = rng.standard_normal((samples, 4))
    pose = np.hstack([rng.standard_normal((samples, 3)), quaternion / np.linalg.norm(quaternion, axis=1)[:, None]])
    return Motion(t, q, v, a, pose, rng.standard_normal((samples, 6)), rng.standard_normal((samples, 6)))


def smooth_path(robot: Robot, t: Array, *, seed: int = 0, scale: float = 0.6) -> Motion:
    """Sines with exact derivatives, (N, n)."""
    rng = np.random.default_rng(seed + 2000)
    A, w, phase = (rng.uniform(low, high, (3, robot.n)) for low, high in ((0.1, 1.0), (0.5, 3.0), (0.0, 6.3)))
    A = A * scale / 3.0
    angle = w[None] * t[:, None, None] + phase[None]
    q = (A * np.sin(angle)).sum(axis=1)
    v = (A * w * np.cos(angle)).sum(axis=1)
    a = (-A * w**2 * np.sin(angle)).sum(axis=1)
    return Motion(t, q, v, a)


def parameters(*names: str) -> tuple[Parameter, ...]:
    """Parameters of names alone: ZZ1, M:arm."""
    symbols = (re.match("[A-Za-z]+", name) for name in names)
    pairs = [(name, symbol[0]) for name, symbol in zip(names, symbols, strict=True) if symbol]
    return tuple(Parameter(name, symbol=symbol, kind="inertial", unit="") for name, symbol in pairs)
