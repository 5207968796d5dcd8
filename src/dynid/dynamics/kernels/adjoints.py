"""The adjoint of the rows: d(sum(weights * W))/d(q, v, a), about three forward passes.

A link's contribution is a function of twists seen from its own frame: the channel's s_k, its velocity V_i
and its acceleration A_i. With all twists written in the base's frame, motion of joint j changes them by
products with J_j only:

    d(s_k)/dq_j = -J_j x s_k            for k before or at j, else 0
    d(V_i)/dq_j = -J_j x V_j            d(V_i)/dv_j = J_j
    d(A_i)/dq_j = -J_j x A_j - (J_j x V_j) x (V_i - V_j)
    d(A_i)/dv_j = 2 V_j x J_j + J_j x V_i,           d(A_i)/da_j = J_j

so the gradients with respect to the twists, which are wrenches, are summed over the subtree beyond j.
"""

from __future__ import annotations

import numpy as np

from dynid.dynamics.kernels.compiled import (
    Rotation,
    Vector,
    accumulate,
    add,
    compiled,
    cross,
    dot,
    inlined,
    load,
    load_rotation,
    scale,
    store,
    turn,
    turn_back,
)
from dynid.dynamics.kernels.geometry import Geometry, Integers
from dynid.dynamics.kernels.links import (
    ACC,
    GRAVITY,
    STATE,
    WD,
    V,
    W,
    bias_of,
    body_of,
    momentum_of,
    move_links,
    pose_links,
    wrench_of,
)
from dynid.dynamics.kernels.rows import POWER, REST, TORQUE, base_twist, channel_count, channel_of, crossed, joint_twist
from dynid.robot.transform import Array


@inlined
def twist_out(R: Rotation, p: Vector, u: Vector, y: Vector) -> tuple[Vector, Vector]:
    """Twist of a link's frame, written in the base's frame (linear part at the base's origin)."""
    u = turn(R, u)
    return u, add(turn(R, y), cross(p, u))


@inlined
def twist_in(R: Rotation, p: Vector, u: Vector, y: Vector) -> tuple[Vector, Vector]:
    """Twist of the base's frame, written in a link's."""
    return turn_back(R, u), turn_back(R, add(y, cross(u, p)))


@inlined
def add_wrench_out(R: Rotation, p: Vector, moment: Vector, force: Vector, x: Array, at: int) -> None:
    """Add a wrench of a link's frame, written in the base's, to x[at:at + 6]."""
    force = turn(R, force)
    accumulate(x, at, add(turn(R, moment), cross(p, force)))
    accumulate(x, at + 3, force)


@inlined
def add_swept(u: Vector, y: Vector, G: Array, g: int, x: Array, at: int) -> None:
    """Add D with m.D = G.(m x (u; y)) for every twist m, G the wrench at G[g:g + 6], to x[at:at + 6]."""
    moment, force = load(G, g), load(G, g + 3)
    accumulate(x, at, add(cross(u, moment), cross(y, force)))
    accumulate(x, at + 3, cross(u, force))


@inlined
def work(u: Vector, y: Vector, F: Array, at: int) -> float:
    """Twist (u; y) times the wrench at F[at:at + 6]."""
    return dot(u, load(F, at)) + dot(y, load(F, at + 3))


@inlined
def place_twists(geometry: Geometry, channels: int, state: Array, world: Array, J: Array, V_: Array, A: Array) -> None:
    """Channels' twists J and the links' V and A, all in the base's frame, six numbers each."""
    for k in range(channels):
        u, y = base_twist(k)
        store(J, k * 6, u)
        store(J, k * 6 + 3, y)
    for i in range(geometry.parent.shape[0]):
        R, p = load_rotation(world, i * 12), load(world, i * 12 + 9)
        o = i * STATE
        if geometry.joint[i] >= 0:
            u, y = joint_twist(geometry, i)
            u, y = twist_out(R, p, u, y)
            at = (channels + geometry.joint[i]) * 6
            store(J, at, u)
            store(J, at + 3, y)
        w, v = load(state, o + W), load(state, o + V)
        u, y = twist_out(R, p, w, v)
        store(V_, i * 6, u)
        store(V_, i * 6 + 3, y)
        spatial = add(load(state, o + ACC), cross(v, w))
        u, y = twist_out(R, p, load(state, o + WD), spatial)
        store(A, i * 6, u)
        store(A, i * 6 + 3, y)


@inlined
def bias_gradient(diagonal: Vector, mixed: Vector, w: Vector) -> Vector:
    """Q w of a symmetric Q."""
    return (
        diagonal[0] * w[0] + mixed[2] * w[1] + mixed[1] * w[2],
        mixed[2] * w[0] + diagonal[1] * w[1] + mixed[0] * w[2],
        mixed[1] * w[0] + mixed[0] * w[1] + diagonal[2] * w[2],
    )


@inlined
def pass_on(x: Array, i: int, parent: int) -> None:
    """Add the six numbers of entry i to entry parent."""
    for c in range(6):
        x[parent * 6 + c] += x[i * 6 + c]


@inlined
def joint_gradient(
    u: Vector, y: Vector, V_: Array, A: Array, GV: Array, GA: Array, swept: Array, at: int
) -> tuple[float, float, float]:
    """Derivatives by q, v, a of joint (u; y) through the V and A of its subtree; the sums stand at `at`."""
    vu, vy = load(V_, at), load(V_, at + 3)
    bu, by = crossed(u, y, vu, vy)
    au, ay = crossed(u, y, load(A, at), load(A, at + 3))
    # (J_j x V_j) x (V_i - V_j), with the sum over i in swept
    moment, force = load(GA, at), load(GA, at + 3)
    own = dot(bu, add(cross(vu, moment), cross(vy, force))) + dot(by, cross(vu, force))
    gq = -work(bu, by, GV, at) - work(au, ay, GA, at) - work(bu, by, swept, at) + own
    gv = work(u, y, GV, at) - 2.0 * work(bu, by, GA, at) + work(u, y, swept, at)
    return gq, gv, work(u, y, GA, at)


# The adjoint of rows per joint and base channel; see `gradients` for the formulas.


@compiled
def joint_rows_adjoint(
    geometry: Geometry,
    mode: int,
    channels: int,
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
    """Adjoint of write_joint_rows: weights (N, rows, p) in, gq, gv, ga (N, joints) out."""
    L = geometry.parent.shape[0]
    joints = q.shape[1]
    width = channels + joints
    rows, p = weights.shape[1], weights.shape[2]
    with_joints = rows > channels
    flat = weights.reshape(-1)
    state, world = np.empty(L * STATE), np.empty(L * 12)
    J, V_, A = np.empty(width * 6), np.empty(L * 6), np.empty(L * 6)
    GV, GA, swept = np.empty(L * 6), np.empty(L * 6), np.empty(L * 6)
    F = np.empty(L * width * 6)
    for n in range(q.shape[0]):
        move_links(geometry, base, n if base.shape[0] > 1 else 0, q, v, a, n, state)
        pose_links(geometry, state, world)
        place_twists(geometry, channels, state, world, J, V_, A)
        GV[:] = 0.0
        GA[:] = 0.0
        swept[:] = 0.0
        F[:] = 0.0
        for i in range(L):
            R, place = load_rotation(world, i * 12), load(world, i * 12 + 9)
            o = i * STATE
            w, vel = load(state, o + W), load(state, o + V)
            if mode == TORQUE:
                body = body_of(w, load(state, o + WD), load(state, o + ACC))
            else:
                body = body_of(REST, w, vel)
            angular, linear = REST, REST
            diagonal, mixed = REST, REST
            count = channel_count(geometry, i, channels) if with_joints else channels
            for position in range(count):
                k = channel_of(geometry, i, position, channels)
                at = (n * rows + k) * p + column[i]
                u, y = twist_in(R, place, load(J, k * 6), load(J, k * 6 + 3))
                moment, force = wrench_of(body, flat, at)
                add_wrench_out(R, place, moment, force, F, (i * width + k) * 6)
                moment, force = momentum_of(flat, at, u, y)
                angular, linear = add(angular, moment), add(linear, force)
                if mode == TORQUE:
                    d, m = bias_of(flat, at, u, y)
                    diagonal, mixed = add(diagonal, d), add(mixed, m)
            if mode == TORQUE:
                bias = bias_gradient(diagonal, mixed, w)
                add_wrench_out(R, place, angular, linear, GA, i * 6)
                add_wrench_out(R, place, add(bias, cross(vel, linear)), cross(linear, w), GV, i * 6)
                add_swept(load(V_, i * 6), load(V_, i * 6 + 3), GA, i * 6, swept, i * 6)
            else:
                add_wrench_out(R, place, angular, linear, GV, i * 6)
        for i in range(L - 1, -1, -1):
            j = geometry.joint[i]
            if j >= 0:
                u, y = load(J, (channels + j) * 6), load(J, (channels + j) * 6 + 3)
                gq[n, j], gv[n, j], ga[n, j] = joint_gradient(u, y, V_, A, GV, GA, swept, i * 6)
                count = channel_count(geometry, i, channels) if with_joints else channels
                for position in range(count):
                    k = channel_of(geometry, i, position, channels)
                    cu, cy = crossed(u, y, load(J, k * 6), load(J, k * 6 + 3))
                    gq[n, j] -= work(cu, cy, F, (i * width + k) * 6)
                if with_joints and rotor[j] >= 0:
                    weight = flat[(n * rows + channels + j) * p + rotor[j]]
                    if mode == TORQUE:
                        ga[n, j] += weight
                    else:
                        gv[n, j] += weight
            parent = geometry.parent[i]
            if parent >= 0:
                pass_on(GV, i, parent)
                pass_on(GA, i, parent)
                pass_on(swept, i, parent)
                count = channel_count(geometry, parent, channels) if with_joints else channels
                for position in range(count):
                    k = channel_of(geometry, parent, position, channels)
                    pass_on(F, i * width + k, parent * width + k)


# The adjoint of dL/dq rows; see `gradients` for the formulas.


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


# The adjoint of power and energy rows; see `gradients` for the formulas.


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
