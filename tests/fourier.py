"""Periodic motions with exact derivatives, as an excitation would be."""

from __future__ import annotations

import numpy as np

from dynid.robot.motion import Motion
from dynid.robot.robot import Robot


def fourier_motion(
    robot: Robot, *, duration: float = 10.0, rate: float = 100.0, seed: int = 0, size: float = 0.5, harmonics: int = 5
) -> Motion:
    """A finite Fourier series of period 10 s per joint."""
    rng = np.random.default_rng(seed + 4000)
    t = np.arange(int(duration * rate)) / rate
    q, v, a = (np.zeros((len(t), robot.n)) for _ in range(3))
    for k in range(1, harmonics + 1):
        w = 2.0 * np.pi * k / 10.0
        A, B = size * rng.standard_normal((2, robot.n)) / np.sqrt(k)
        s, c = np.sin(w * t)[:, None], np.cos(w * t)[:, None]
        q += A * s + B * c
        v += w * (A * c - B * s)
        a -= w**2 * (A * s + B * c)
    return Motion(t, q, v, a)
