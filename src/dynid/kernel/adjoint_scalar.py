"""The adjoint of power and energy rows; see `gradients` for the formulas."""

from __future__ import annotations

import numpy as np

from dynid.kernel.body import bias_of, body_of, momentum_of, wrench_of
from dynid.kernel.compiled import add, compiled, cross, load, load_rotation, scale, turn_back
from dynid.kernel.geometry import Geometry, Integers
from dynid.kernel.gradients import (
    add_swept,
    add_wrench_out,
    bias_gradient,
    joint_gradient,
    pass_on,
    place_twists,
    work,
)
from dynid.kernel.links import ACC, GRAVITY, STATE, WD, V, W, move_links, pose_links
from dynid.kernel.rows import POWER, REST
from dynid.robot.transform import Array


@compiled
def scalar_rows_adjoint(
    geometry: Geometry,
    mode: int,
    column: Integers,
    rotor: Integers,
    base: Array,
    q: Array,
    v: Array,
    a: Array,
    weights: Array,
    gq: Array,
    gv: Array,
    ga: Array,
) -> None:
    """Adjoint of write_scalar_rows: weights (N, p) in, gq, gv, ga (N, joints) out."""
    L = geometry.parent.shape[0]
    p = weights.shape[1]
    flat = weights.reshape(-1)
    state, world = np.empty(L * STATE), np.empty(L * 12)
    J, V_, A = np.empty(q.shape[1] * 6), np.empty(L * 6), np.empty(L * 6)
    GV, GA, swept, lift = np.empty(L * 6), np.empty(L * 6), np.empty(L * 6), np.empty(L * 6)
    for n in range(q.shape[0]):
        b = n if base.shape[0] > 1 else 0
        move_links(geometry, base, b, q, v, a, n, state)
        pose_links(geometry, state, world)
        place_twists(geometry, 0, state, world, J, V_, A)
        gravity = (base[b, GRAVITY], base[b, GRAVITY + 1], base[b, GRAVITY + 2])
        GV[:] = 0.0
        GA[:] = 0.0
        swept[:] = 0.0
        lift[:] = 0.0
        for i in range(L):
            R, place = load_rotation(world, i * 12), load(world, i * 12 + 9)
            o, at = i * STATE, n * p + column[i]
            w, vel = load(state, o + W), load(state, o + V)
            moment, force = momentum_of(flat, at, w, vel)
            if mode == POWER:
                diagonal, mixed = bias_of(flat, at, w, vel)
                bias = bias_gradient(diagonal, mixed, w)
                add_wrench_out(R, place, moment, force, GA, i * 6)
                add_wrench_out(R, place, add(bias, cross(vel, force)), cross(force, w), GV, i * 6)
                body = body_of(w, load(state, o + WD), load(state, o + ACC))
                moment, force = wrench_of(body, flat, at)
                add_wrench_out(R, place, moment, force, GV, i * 6)
                add_swept(load(V_, i * 6), load(V_, i * 6 + 3), GA, i * 6, swept, i * 6)
            else:
                add_wrench_out(R, place, moment, force, GV, i * 6)
                moment, force = momentum_of(flat, at, REST, scale(-1.0, turn_back(R, gravity)))
                add_wrench_out(R, place, moment, force, lift, i * 6)
        for i in range(L - 1, -1, -1):
            j = geometry.joint[i]
            if j >= 0:
                u, y = load(J, j * 6), load(J, j * 6 + 3)
                gq[n, j], gv[n, j], ga[n, j] = joint_gradient(u, y, V_, A, GV, GA, swept, i * 6)
                gq[n, j] += work(u, y, lift, i * 6)
                if rotor[j] >= 0:
                    weight = flat[n * p + rotor[j]]
                    if mode == POWER:
                        gv[n, j] += weight * a[n, j]
                        ga[n, j] += weight * v[n, j]
                    else:
                        gv[n, j] += weight * v[n, j]
            if geometry.parent[i] >= 0:
                pass_on(GV, i, geometry.parent[i])
                pass_on(GA, i, geometry.parent[i])
                pass_on(swept, i, geometry.parent[i])
                pass_on(lift, i, geometry.parent[i])
