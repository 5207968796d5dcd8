"""Synthetic recordings: Fourier motions with torques, and sources that hand them out in chunks of any size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dynid.logs.log import ArraySource, Log, Samples
from dynid.robot.robot import JointKind, JointLimits, Robot
from dynid.robot.transform import Array
from robots import random_tree


def arm(joints: int, limit: float = np.inf, *, prismatic: bool = False) -> Robot:
    """A serial robot of revolute (or prismatic) joints with limits of +- limit."""
    robot = random_tree(5, joints=joints, serial=True, fixed_share=0.0)
    kind: JointKind = "prismatic" if prismatic else "revolute"
    limits = JointLimits(-limit, limit)
    return replace(robot, links=tuple(replace(link, kind=kind, limits=limits) for link in robot.links))


def fourier(t: Array, joints: int, *, base: float = 0.1, harmonics: int = 5, seed: int = 0) -> tuple[Array, ...]:
    """Positions, velocities and accelerations (N, n)."""
    rng = np.random.default_rng(seed)
    q, v, a = (np.zeros((len(t), joints)) for _ in range(3))
    for k in range(1, harmonics + 1):
        w = 2.0 * np.pi * base * k
        S, C = np.sin(w * t)[:, None], np.cos(w * t)[:, None]
        A, B = rng.standard_normal((2, joints)) / k
        q += A * S + B * C
        v += w * (A * C - B * S)
        a -= w * w * (A * S + B * C)
    return q, v, a


def recording(t: Array, joints: int = 2, *, only: str = "v a", seed: int = 0, **options: float) -> Samples:
    """Samples of a Fourier motion at instants t, with smooth torques; `only` names the derivatives recorded."""
    q, v, a = fourier(t - t[0], joints, seed=seed, **options)  # type: ignore[arg-type]
    tau = 3.0 * np.cos(q) + 0.5 * a
    return Samples(t, q, v if "v" in only else None, a if "a" in only else None, tau)


@dataclass(frozen=True)
class Pieces:
    """Samples handed out in chunks of one size, whatever is asked for; some empty chunks among them."""

    samples: Samples
    rows: int
    name: str = "pieces"
    empty: bool = False

    @property
    def channels(self) -> frozenset[str]:
        return ArraySource("", self.samples).channels

    def chunks(self, rows: int) -> Iterator[Samples]:
        for chunk in ArraySource("", self.samples).chunks(self.rows):
            if self.empty:
                yield chunk.select_rows(slice(0, 0))
            yield chunk


def log_of(samples: Samples, rows: int = 65_536, *, empty: bool = False) -> Log:
    return Log.from_source(Pieces(samples, rows, empty=empty))
