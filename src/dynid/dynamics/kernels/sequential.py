"""Square-root information factors fed sample by sample: rows are written and rotated in at once, nothing is allocated.

Bierman's square-root information form: a new row w of channel c is turned into the triangular factor [R | z] by
Givens rotations, with exponential forgetting by g = sqrt(lambda) inside the rotation,

    R[i, j] <- c g R[i, j] + s w[j],    w[j] <- c w[j] - s g R[i, j],    c = g R[i, i] / h,    s = w[i] / h.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dynid.dynamics.kernels.compiled import compiled, inlined
from dynid.dynamics.kernels.geometry import Geometry, Integers, RowLayout, Samples
from dynid.dynamics.kernels.rows import TORQUE, Workspace, write_rows_of_sample
from dynid.robot.transform import Array

VISCOUS, COULOMB, OFFSET, TANH, QUADRATIC, ASYMMETRY, STRIBECK, SPRING = range(8)
STILL = 1e-8
"""Velocity (rad/s) without a direction, as in `models.friction`."""


@inlined
def sign_of_velocity(v: float) -> float:
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
        value = sign_of_velocity(turned)
    elif code == TANH:
        value = math.tanh(turned / 0.1)
    elif code == QUADRATIC:
        value = v * abs(v)
    elif code == ASYMMETRY:
        value = abs(v)
    elif code == STRIBECK:
        value = math.exp(-((turned / 0.5) ** 2)) * sign_of_velocity(turned)
    elif code == SPRING:
        value = q
    return value


@inlined
def add_row_by_rotations(R: Array, at: int, size: int, row: Array, root: float) -> None:
    """Add a row (size,) by Givens rotations to the triangular factor at R[at:], after scaling that by root."""
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


class Factors(NamedTuple):
    """Memory of the factors of all channels, and what a sample's row is made in.

    p: columns of the sheet; inertial, rotor: see `RowLayout`; base_frame (1, BASE_FRAME); scale (n,): as friction_value
    takes it; pick[start[c]:start[c + 1]]: columns of channel c, an entry of the sheet (n * p,) or -1 - code of a
    friction column; corner (n,): where its factor begins in R; root: of the forgetting factor; links, S: see
    `Workspace`; row: the longest; sums (n + 1,): weighted sum of y per channel, and of ones.
    """

    p: int
    inertial: Integers
    rotor: Integers
    base_frame: Array
    scale: Array
    start: Integers
    pick: Integers
    corner: Integers
    root: float
    links: Array
    S: Array
    sheet: Array
    row: Array
    R: Array
    sums: Array


GEOMETRY = len(Geometry._fields)


@compiled
def feed_samples(q: Array, qd: Array, qdd: Array, tau: Array, *fields: Any) -> int:
    """Feed samples q, qd, qdd, tau (N, n) to the factors of all channels; return how many were used.

    It stops at a sample that is not finite, of which nothing is used. fields: those of a `Geometry`, then those of
    `Factors`, one by one: handing over a named tuple costs 0.1 us per field, as much as a fifth of an update in all.
    """
    geometry = Geometry(*fields[:GEOMETRY])
    factors = Factors(*fields[GEOMETRY:])
    joints, scale, start, pick, corner = q.shape[1], factors.scale, factors.start, factors.pick, factors.corner
    root, sheet, row, R, sums = factors.root, factors.sheet, factors.row, factors.R, factors.sums
    samples = Samples(factors.base_frame, q, qd, qdd)
    layout = RowLayout(TORQUE, 0, joints, factors.p, factors.inertial, factors.rotor)
    work = Workspace(factors.links, factors.links, factors.S, factors.S, 0, joints)
    for k in range(q.shape[0]):
        total = 0.0
        for j in range(joints):
            total += q[k, j] + qd[k, j] + qdd[k, j] + tau[k, j]
        if not np.isfinite(total):
            return k
        write_rows_of_sample(geometry, layout, samples, k, work, sheet)
        for c in range(joints):
            first = start[c]
            size = start[c + 1] - first
            for e in range(size):
                place = pick[first + e]
                if place >= 0:
                    row[e] = sheet[place]
                else:
                    row[e] = friction_value(-1 - place, q[k, c], qd[k, c], scale[c])
            row[size] = tau[k, c]
            add_row_by_rotations(R, corner[c], size + 1, row, root)
            sums[c] = sums[c] * root * root + tau[k, c]
        sums[joints] = sums[joints] * root * root + 1.0
    return int(q.shape[0])
