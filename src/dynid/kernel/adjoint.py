"""The adjoint of rows per joint and base channel; see `gradients` for the formulas."""

from __future__ import annotations

import numpy as np

from dynid.kernel.body import bias_of, body_of, momentum_of, wrench_of
from dynid.kernel.compiled import add, compiled, cross, load, load_rotation
from dynid.kernel.geometry import Geometry, Integers
from dynid.kernel.gradients import (
    add_swept,
    add_wrench_out,
    bias_gradient,
    joint_gradient,
    pass_on,
    place_twists,
    twist_in,
    work,
)
from dynid.kernel.links import ACC, STATE, WD, V, W, move_links, pose_links
from dynid.kernel.rows import REST, TORQUE, channel_count, channel_of, crossed
from dynid.robot.transform import Array


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
