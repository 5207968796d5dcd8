"""The recursion over the links: where every link is and how it moves, in its own frame.

Twists are (angular; linear at the frame's origin), wrenches (moment about the origin; force).
"""

from __future__ import annotations

from dynid.kernel.compiled import (
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
from dynid.kernel.geometry import PRISMATIC, REVOLUTE, Geometry
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
