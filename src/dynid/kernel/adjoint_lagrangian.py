"""The adjoint of dL/dq rows; see `gradients` for the formulas."""

from __future__ import annotations

import numpy as np

from dynid.kernel.body import momentum_of
from dynid.kernel.compiled import compiled, cross, dot, inlined, load, load_rotation, store, turn_back
from dynid.kernel.geometry import Geometry, Integers
from dynid.kernel.gradients import (
    add_swept,
    add_wrench_out,
    pass_on,
    place_twists,
    twist_in,
    work,
)
from dynid.kernel.links import GRAVITY, STATE, V, W, move_links, pose_links
from dynid.kernel.rows import REST, channel_count, channel_of, crossed
from dynid.robot.transform import Array


@compiled
def lagrangian_rows_adjoint(
    geometry: Geometry,
    channels: int,
    column: Integers,
    base: Array,
    q: Array,
    v: Array,
    weights: Array,
    gq: Array,
    gv: Array,
) -> None:
    """Adjoint of write_lagrangian_rows: weights (N, channels + joints, p) in, gq, gv (N, joints) out.

    Beside the above, with b_k = V_k x s_k: d(b_k)/dq_j = -J_j x b_k for k before or at j and
    -(J_j x V_j) x J_k for k beyond j; d(b_k)/dv_j = J_j x J_k for k beyond j; gravity g changes by -J_j x g.
    """
    L = geometry.parent.shape[0]
    joints = q.shape[1]
    width = channels + joints
    p = weights.shape[2]
    flat = weights.reshape(-1)
    state, world = np.empty(L * STATE), np.empty(L * 12)
    J, B = np.empty(width * 6), np.empty(width * 6)
    V_, A = np.empty(L * 6), np.empty(L * 6)
    GV, GG, swept = np.empty(L * 6), np.empty(L * 6), np.empty(L * 6)
    F, weight = np.empty(L * width * 6), np.empty(L * width * 6)
    for n in range(q.shape[0]):
        b = n if base.shape[0] > 1 else 0
        move_links(geometry, base, b, q, v, v, n, state)
        pose_links(geometry, state, world)
        place_twists(geometry, channels, state, world, J, V_, A)
        gravity = (base[b, GRAVITY], base[b, GRAVITY + 1], base[b, GRAVITY + 2])
        bend_channels(geometry, channels, base, b, J, V_, B)
        GV[:] = 0.0
        GG[:] = 0.0
        swept[:] = 0.0
        F[:] = 0.0
        weight[:] = 0.0
        for i in range(L):
            R, place = load_rotation(world, i * 12), load(world, i * 12 + 9)
            w, vel = load(state, i * STATE + W), load(state, i * STATE + V)
            g = turn_back(R, gravity)
            for position in range(channel_count(geometry, i, channels)):
                k = channel_of(geometry, i, position, channels)
                at, entry = (n * width + k) * p + column[i], (i * width + k) * 6
                moment, force = momentum_of(flat, at, w, vel)
                add_wrench_out(R, place, moment, force, F, entry)
                moment, force = momentum_of(flat, at, REST, g)
                add_wrench_out(R, place, moment, force, weight, entry)
                u, y = twist_in(R, place, load(B, k * 6), load(B, k * 6 + 3))
                moment, force = momentum_of(flat, at, u, y)
                add_wrench_out(R, place, moment, force, GV, i * 6)
                u, y = twist_in(R, place, load(J, k * 6), load(J, k * 6 + 3))
                moment, force = momentum_of(flat, at, u, y)
                add_wrench_out(R, place, moment, force, GG, i * 6)
        for i in range(L - 1, -1, -1):
            j = geometry.joint[i]
            if j >= 0:
                at = (channels + j) * 6
                u, y = load(J, at), load(J, at + 3)
                bu, by = crossed(u, y, load(V_, i * 6), load(V_, i * 6 + 3))
                gq[n, j] = -work(bu, by, GV, i * 6) - work(bu, by, swept, i * 6)
                gq[n, j] -= dot(cross(u, gravity), load(GG, i * 6 + 3))
                gv[n, j] = work(u, y, GV, i * 6) + work(u, y, swept, i * 6)
                for position in range(channel_count(geometry, i, channels)):
                    k = channel_of(geometry, i, position, channels)
                    cu, cy = crossed(u, y, load(B, k * 6), load(B, k * 6 + 3))
                    gq[n, j] -= work(cu, cy, F, (i * width + k) * 6)
                    cu, cy = crossed(u, y, load(J, k * 6), load(J, k * 6 + 3))
                    gq[n, j] -= work(cu, cy, weight, (i * width + k) * 6)
                add_swept(u, y, F, (i * width + channels + j) * 6, swept, i * 6)
            parent = geometry.parent[i]
            if parent >= 0:
                pass_on(GV, i, parent)
                pass_on(GG, i, parent)
                pass_on(swept, i, parent)
                for position in range(channel_count(geometry, parent, channels)):
                    k = channel_of(geometry, parent, position, channels)
                    pass_on(F, i * width + k, parent * width + k)
                    pass_on(weight, i * width + k, parent * width + k)


@inlined
def bend_channels(geometry: Geometry, channels: int, base: Array, b: int, J: Array, V_: Array, B: Array) -> None:
    """V_k x s_k of every channel, in the base's frame."""
    for k in range(channels):
        w, vel = (base[b, 0], base[b, 1], base[b, 2]), (base[b, 9], base[b, 10], base[b, 11])
        u, y = crossed(w, vel, load(J, k * 6), load(J, k * 6 + 3))
        store(B, k * 6, u)
        store(B, k * 6 + 3, y)
    for i in range(geometry.parent.shape[0]):
        if geometry.joint[i] >= 0:
            at = (channels + geometry.joint[i]) * 6
            u, y = crossed(load(V_, i * 6), load(V_, i * 6 + 3), load(J, at), load(J, at + 3))
            store(B, at, u)
            store(B, at + 3, y)
