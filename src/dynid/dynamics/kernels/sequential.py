"""Square-root information factors fed sample by sample: rows are written and rotated in at once, nothing is allocated.

Bierman's square-root information form: a new row w of channel c is turned into the triangular factor [R | z] by
Givens rotations, with exponential forgetting by g = sqrt(lambda) inside the rotation,

    R[i, j] <- c g R[i, j] + s w[j],    w[j] <- c w[j] - s g R[i, j],    c = g R[i, i] / h,    s = w[i] / h.
"""

from __future__ import annotations

import math

import numpy as np

from dynid.dynamics.kernels.compiled import compiled, inlined
from dynid.dynamics.kernels.geometry import Geometry, Integers
from dynid.dynamics.kernels.rows import TORQUE, write_sample
from dynid.robot.transform import Array

VISCOUS, COULOMB, OFFSET, TANH, QUADRATIC, ASYMMETRY, STRIBECK, SPRING = range(8)
STILL = 1e-8
"""Velocity (rad/s) without a direction, as in `models.friction`."""


@inlined
def direction(v: float) -> float:
    """Sign of a velocity, 0 at standstill."""
    return 0.0 if abs(v) < STILL else (1.0 if v > 0.0 else -1.0)


@inlined
def friction_value(code: int, q: float, v: float, scale: float) -> float:
    """Value of one friction column of a joint; scale: how much of its position stands for one rad."""
    turned = v / scale
    value = 1.0  # OFFSET
    if code == VISCOUS:
        value = v
    elif code == COULOMB:
        value = direction(turned)
    elif code == TANH:
        value = math.tanh(turned / 0.1)
    elif code == QUADRATIC:
        value = v * abs(v)
    elif code == ASYMMETRY:
        value = abs(v)
    elif code == STRIBECK:
        value = math.exp(-((turned / 0.5) ** 2)) * direction(turned)
    elif code == SPRING:
        value = q
    return value


@inlined
def rotate_in(R: Array, at: int, size: int, row: Array, root: float) -> None:
    """Turn row (size,) into the triangular factor stored row by row at R[at:at + size * size]."""
    for i in range(size):
        diagonal = at + i * (size + 1)
        x = row[i]
        g = R[diagonal] * root
        h = math.sqrt(g * g + x * x)
        if h == 0.0:
            for j in range(1, size - i):
                R[diagonal + j] *= root
            continue
        c, s = g / h, x / h
        cg, sg = c * root, s * root
        R[diagonal] = h
        for j in range(1, size - i):
            r = R[diagonal + j]
            y = row[i + j]
            R[diagonal + j] = cg * r + s * y
            row[i + j] = c * y - sg * r


@compiled
def take_samples(
    parent: Integers,
    kind: Integers,
    joint: Integers,
    rotation: Array,
    translation: Array,
    axis: Array,
    link: Integers,
    chain: Integers,
    chain_joint: Integers,
    column: Integers,
    rotor: Integers,
    p: int,
    base: Array,
    q: Array,
    v: Array,
    a: Array,
    tau: Array,
    scale: Array,
    start: Integers,
    pick: Integers,
    corner: Integers,
    root: float,
    state: Array,
    twist: Array,
    sheet: Array,
    row: Array,
    R: Array,
    sums: Array,
) -> int:
    """Feed samples q, v, a, tau (N, n) to the factors of all channels; return how many were taken.

    It stops at a sample that is not finite, of which nothing is used. pick[start[c]:start[c + 1]]: columns of channel
    c, an entry of the sheet (n * p,) or -1 - code of a friction column; corner (n,): where its factor begins in R;
    sums (n + 1,): weighted sum of y per channel, and of ones. The geometry comes in parts, because handing over a
    named tuple makes objects at every call.
    """
    geometry = Geometry(parent, kind, joint, rotation, translation, axis, link, chain, chain_joint)
    joints = q.shape[1]
    for k in range(q.shape[0]):
        total = 0.0
        for j in range(joints):
            total += q[k, j] + v[k, j] + a[k, j] + tau[k, j]
        if not np.isfinite(total):
            return k
        write_sample(geometry, TORQUE, 0, column, rotor, base, q, v, a, k, joints, p, state, twist, sheet, 0)
        for c in range(joints):
            first = start[c]
            size = start[c + 1] - first
            for e in range(size):
                place = pick[first + e]
                if place >= 0:
                    row[e] = sheet[place]
                else:
                    row[e] = friction_value(-1 - place, q[k, c], v[k, c], scale[c])
            row[size] = tau[k, c]
            rotate_in(R, corner[c], size + 1, row, root)
            sums[c] = sums[c] * root * root + tau[k, c]
        sums[joints] = sums[joints] * root * root + 1.0
    return int(q.shape[0])
