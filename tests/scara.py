"""The SCARA of Ha, Ko & Kwon as it was recalculated from its equations."""

from __future__ import annotations

import numpy as np

from dynid import Identification, Motion
from dynid.robot.transform import Array

A = np.array([[1.1, -0.4], [0.8, 0.5], [0.09, -0.05], [1.3, -0.6]])
OMEGA = np.array([[1.7, 4.3], [2.3, 5.1], [2.9, 6.1], [3.1, 5.7]])
PHASE = np.array([[0.3, 1.1], [-0.7, 0.4], [0.9, -0.2], [1.7, 0.6]])
X = np.array([17.55, 7.55, 2.343, 0.176, 3.11, 0.35])
TORQUES = {
    0: (113.87069662801699, 36.83824821833804, -33.471450970586304, 0.6762442778294055),
    777: (-8.908627831384983, -28.427539097117148, -27.830624773084235, -3.3255596657442945),
    2000: (-272.09803084993877, -179.9549364523581, -34.96964311212193, -18.676654664803895),
}


def scara_motion(step: float = 0.002) -> Motion:
    """Motion of 4 s on which the SCARA of Ha, Ko & Kwon was recalculated from its equations."""
    t = np.linspace(0.0, 4.0, round(4.0 / step) + 1)
    x = OMEGA * t[:, None, None] + PHASE
    q, v, a = A * np.sin(x), A * OMEGA * np.cos(x), -A * OMEGA**2 * np.sin(x)
    return Motion(t, q.sum(axis=2), v.sum(axis=2), a.sum(axis=2))


def scara_unknowns(result: Identification) -> Array:
    """X of the paper from base parameters with links of 0.4 and 0.5 m."""
    zz1, zz2, mx2, my2, m3, zz4 = result.values
    x21 = zz2 + 0.25 * m3 + zz4
    return np.array([zz1 + 0.16 * m3 + x21, x21, 0.4 * mx2 + 0.2 * m3, 0.4 * my2, m3, zz4])
