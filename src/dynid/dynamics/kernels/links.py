"""The recursion over the links: where every link is and how it moves, in its own frame.

Twists are (angular; linear at the frame's origin), wrenches (moment about the origin; force).
"""

from __future__ import annotations

from typing import TypeAlias

from dynid.dynamics.kernels.compiled import (
    Vector,
    add,
    cross,
    dot,
    inlined,
    load,
    load_rotation,
    scale,
    sine_cosine,
    store,
    turn,
    turn_back,
)
from dynid.dynamics.kernels.geometry import PRISMATIC, REVOLUTE, Geometry
from dynid.robot.transform import Array

PLACE, W, WD, ACC, V, STATE = 9, 12, 15, 18, 21, 24
"""Of a link: R (9, row by row) and p (3) in the parent's frame; w, wd, acc, v (3 each) in its own."""

GRAVITY, HEIGHT, BASE = 12, 15, 16
"""Of the base, in its own frame: w, wd, acc, v, gravity (3 each), and minus gravity times its position.

acc, here and in the links' states, is the acceleration of the frame's origin minus gravity.
"""


@inlined
def move_links(geometry: Geometry, base: Array, b: int, q: Array, v: Array, a: Array, n: int, state: Array) -> None:
    """Fill the state (L * STATE,) of all links at sample n; q, v, a (N, joints), base (N or 1, BASE), row b."""
    for i in range(geometry.parent.shape[0]):
        o = i * STATE
        j = geometry.joint[i]
        kind = geometry.kind[i]
        qj = vj = aj = 0.0
        if j >= 0:
            qj, vj, aj = q[n, j], v[n, j], a[n, j]
        if kind == REVOLUTE:
            sine, cosine = sine_cosine(qj)
            for k in range(9):
                state[o + k] = (
                    geometry.rotation[i, 0, k] + sine * geometry.rotation[i, 1, k] + cosine * geometry.rotation[i, 2, k]
                )
        else:
            for k in range(9):
                state[o + k] = geometry.rotation[i, 0, k]
        R = load_rotation(state, o)
        e = (geometry.axis[i, 0], geometry.axis[i, 1], geometry.axis[i, 2])
        p = (geometry.translation[i, 0], geometry.translation[i, 1], geometry.translation[i, 2])
        if kind == PRISMATIC:
            p = add(p, scale(qj, turn(R, e)))
        store(state, o + PLACE, p)
        w, wd, acc, vel = motion_before(geometry, base, b, state, i)
        wp = cross(w, p)
        acc = turn_back(R, add(acc, add(cross(wd, p), cross(w, wp))))
        vel = turn_back(R, add(vel, wp))
        w = turn_back(R, w)
        wd = turn_back(R, wd)
        if kind == REVOLUTE:
            wd = add(wd, add(scale(aj, e), scale(vj, cross(w, e))))
            w = add(w, scale(vj, e))
        elif kind == PRISMATIC:
            acc = add(acc, add(scale(aj, e), scale(2.0 * vj, cross(w, e))))
            vel = add(vel, scale(vj, e))
        store(state, o + W, w)
        store(state, o + WD, wd)
        store(state, o + ACC, acc)
        store(state, o + V, vel)


@inlined
def motion_before(
    geometry: Geometry, base: Array, b: int, state: Array, i: int
) -> tuple[Vector, Vector, Vector, Vector]:
    """w, wd, acc, v of link i's parent, in the parent's frame."""
    if geometry.parent[i] < 0:
        return (
            (base[b, 0], base[b, 1], base[b, 2]),
            (base[b, 3], base[b, 4], base[b, 5]),
            (base[b, 6], base[b, 7], base[b, 8]),
            (base[b, 9], base[b, 10], base[b, 11]),
        )
    m = geometry.parent[i] * STATE
    return load(state, m + W), load(state, m + WD), load(state, m + ACC), load(state, m + V)


@inlined
def pose_links(geometry: Geometry, state: Array, world: Array) -> None:
    """Fill world (L * 12,): R row by row and p of every link, in the base's frame."""
    for i in range(geometry.parent.shape[0]):
        parent = geometry.parent[i]
        if parent < 0:
            for k in range(12):
                world[i * 12 + k] = state[i * STATE + k]
            continue
        R = load_rotation(state, i * STATE)
        p = load(state, i * STATE + PLACE)
        for r in range(3):
            m = load(world, parent * 12 + 3 * r)
            store(world, i * 12 + 3 * r, turn_back(R, m))
            world[i * 12 + 9 + r] = world[parent * 12 + 9 + r] + dot(m, p)


# What one rigid body contributes: its wrench, linear in its ten standard parameters.
#
# A body with angular velocity w, angular acceleration wd and acceleration acc of its frame's origin takes the
# wrench  moment = J wd + w x J w + MS x acc,  force = M acc + wd x MS + w x (w x MS). The same formulas with
# (0, w, v) instead of (w, wd, acc) give its momentum, with (0, 0, -g) its weight.


Body: TypeAlias = tuple[Vector, Vector, Vector, Vector, tuple[Vector, Vector, Vector]]
"""wd, acc, the squares of w, its products (w1 w2, w0 w2, w0 w1), and S = [wd] + [w][w]."""


@inlined
def body_of(w: Vector, wd: Vector, acc: Vector) -> Body:
    """Collect what the rows of a body need."""
    w00, w11, w22 = w[0] * w[0], w[1] * w[1], w[2] * w[2]
    w01, w02, w12 = w[0] * w[1], w[0] * w[2], w[1] * w[2]
    S = (
        (-w11 - w22, w01 - wd[2], w02 + wd[1]),
        (w01 + wd[2], -w00 - w22, w12 - wd[0]),
        (w02 - wd[1], w12 + wd[0], -w00 - w11),
    )
    return wd, acc, (w00, w11, w22), (w12, w02, w01), S


@inlined
def write_row(body: Body, u: Vector, y: Vector, out: Array, at: int) -> None:
    """Write the ten coefficients of twist (u; y) times the body's wrench, at out[at:at + 10]."""
    wd, acc, square, product, S = body
    w12, w02, w01 = product
    out[at] = u[0] * wd[0] + u[1] * w02 - u[2] * w01
    out[at + 1] = u[0] * (wd[1] - w02) + u[1] * (wd[0] + w12) + u[2] * (square[0] - square[1])
    out[at + 2] = u[0] * (wd[2] + w01) + u[1] * (square[2] - square[0]) + u[2] * (wd[0] - w12)
    out[at + 3] = u[1] * wd[1] + u[2] * w01 - u[0] * w12
    out[at + 4] = u[0] * (square[1] - square[2]) + u[1] * (wd[2] - w01) + u[2] * (wd[1] + w02)
    out[at + 5] = u[0] * w12 - u[1] * w02 + u[2] * wd[2]
    moment = cross(acc, u)
    out[at + 6] = y[0] * S[0][0] + y[1] * S[1][0] + y[2] * S[2][0] + moment[0]
    out[at + 7] = y[0] * S[0][1] + y[1] * S[1][1] + y[2] * S[2][1] + moment[1]
    out[at + 8] = y[0] * S[0][2] + y[1] * S[1][2] + y[2] * S[2][2] + moment[2]
    out[at + 9] = dot(y, acc)


@inlined
def add_row_of_weight(g: Vector, u: Vector, y: Vector, out: Array, at: int) -> None:
    """Add the coefficients of twist (u; y) times the wrench that acc = g alone gives, at out[at:at + 10]."""
    moment = cross(g, u)
    out[at + 6] += moment[0]
    out[at + 7] += moment[1]
    out[at + 8] += moment[2]
    out[at + 9] += dot(y, g)


@inlined
def wrench_of(body: Body, x: Array, at: int) -> tuple[Vector, Vector]:
    """Moment and force of a body with the ten parameters x[at:at + 10]."""
    wd, acc, square, product, S = body
    w12, w02, w01 = product
    ms = (x[at + 6], x[at + 7], x[at + 8])
    m = x[at + 9]
    xx, xy, xz, yy, yz, zz = x[at], x[at + 1], x[at + 2], x[at + 3], x[at + 4], x[at + 5]
    moment = (
        xx * wd[0] + xy * (wd[1] - w02) + xz * (wd[2] + w01) - yy * w12 + yz * (square[1] - square[2]) + zz * w12,
        xx * w02 + xy * (wd[0] + w12) + xz * (square[2] - square[0]) + yy * wd[1] + yz * (wd[2] - w01) - zz * w02,
        -xx * w01 + xy * (square[0] - square[1]) + xz * (wd[0] - w12) + yy * w01 + yz * (wd[1] + w02) + zz * wd[2],
    )
    force = (
        dot(S[0], ms) + m * acc[0],
        dot(S[1], ms) + m * acc[1],
        dot(S[2], ms) + m * acc[2],
    )
    return add(moment, cross(ms, acc)), force


@inlined
def momentum_of(x: Array, at: int, u: Vector, y: Vector) -> tuple[Vector, Vector]:
    """Angular and linear momentum of a body with parameters x[at:at + 10] and twist (u; y)."""
    ms = (x[at + 6], x[at + 7], x[at + 8])
    m = x[at + 9]
    turned = (
        x[at] * u[0] + x[at + 1] * u[1] + x[at + 2] * u[2],
        x[at + 1] * u[0] + x[at + 3] * u[1] + x[at + 4] * u[2],
        x[at + 2] * u[0] + x[at + 4] * u[1] + x[at + 5] * u[2],
    )
    return add(turned, cross(ms, y)), add(cross(u, ms), (m * y[0], m * y[1], m * y[2]))


@inlined
def bias_of(x: Array, at: int, u: Vector, y: Vector) -> tuple[Vector, Vector]:
    """Diagonal and off-diagonal (12, 02, 01) of the symmetric Q with u.(w x J w) + y.(w x (w x MS)) = w'Qw/2."""
    xx, xy, xz, yy, yz, zz = x[at], x[at + 1], x[at + 2], x[at + 3], x[at + 4], x[at + 5]
    m0, m1, m2 = x[at + 6], x[at + 7], x[at + 8]
    diagonal = (
        2.0 * (u[2] * xy - u[1] * xz - y[1] * m1 - y[2] * m2),
        2.0 * (u[0] * yz - u[2] * xy - y[0] * m0 - y[2] * m2),
        2.0 * (u[1] * xz - u[0] * yz - y[0] * m0 - y[1] * m1),
    )
    mixed = (
        u[0] * (zz - yy) + u[1] * xy - u[2] * xz + y[1] * m2 + y[2] * m1,
        u[1] * (xx - zz) + u[2] * yz - u[0] * xy + y[0] * m2 + y[2] * m0,
        u[2] * (yy - xx) + u[0] * xz - u[1] * yz + y[0] * m1 + y[1] * m0,
    )
    return diagonal, mixed
