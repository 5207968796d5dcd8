"""Regressor rows of N samples: one row per channel, ten columns per link.

A channel is a twist: a joint's axis, a unit motion of the base, or the link's own velocity. Its row holds,
for every link that the twist moves, the coefficients of twist times wrench.
"""

from __future__ import annotations

import numpy as np

from dynid.dynamics.kernels.compiled import (
    Rotation,
    Vector,
    add,
    compiled,
    cross,
    dot,
    inlined,
    load,
    load_rotation,
    scale,
    store,
    turn_back,
)
from dynid.dynamics.kernels.geometry import REVOLUTE, Geometry, Integers
from dynid.dynamics.kernels.links import (
    ACC,
    GRAVITY,
    HEIGHT,
    PLACE,
    STATE,
    WD,
    V,
    W,
    add_row_of_weight,
    body_of,
    motion_before,
    move_links,
    pose_links,
    write_row,
)
from dynid.robot.transform import Array

TORQUE, MOMENTUM, POWER, ENERGY = 0, 1, 2, 3
REST = (0.0, 0.0, 0.0)


@inlined
def moved_twist(u: Vector, y: Vector, R: Rotation, p: Vector) -> tuple[Vector, Vector]:
    """Bring a twist from the parent's frame to a link's."""
    return turn_back(R, u), turn_back(R, add(y, cross(u, p)))


@inlined
def base_twist(k: int) -> tuple[Vector, Vector]:
    """Unit twist of the base for channel k of Fx Fy Fz Mx My Mz."""
    y = (1.0 if k == 0 else 0.0, 1.0 if k == 1 else 0.0, 1.0 if k == 2 else 0.0)
    u = (1.0 if k == 3 else 0.0, 1.0 if k == 4 else 0.0, 1.0 if k == 5 else 0.0)
    return u, y


@inlined
def joint_twist(geometry: Geometry, i: int) -> tuple[Vector, Vector]:
    """Unit twist of link i's own joint, in its frame."""
    turns = 1.0 if geometry.kind[i] == REVOLUTE else 0.0
    e = (geometry.axis[i, 0], geometry.axis[i, 1], geometry.axis[i, 2])
    return scale(turns, e), scale(1.0 - turns, e)


@inlined
def channel_twist(
    geometry: Geometry, i: int, k: int, channels: int, width: int, state: Array, twist: Array
) -> tuple[Vector, Vector]:
    """Twist of channel k in link i's frame, from its parent's; twist (L * width * 6,)."""
    if k >= channels and k - channels == geometry.joint[i]:
        return joint_twist(geometry, i)
    parent = geometry.parent[i]
    R = load_rotation(state, i * STATE)
    p = load(state, i * STATE + PLACE)
    if parent < 0:
        u, y = base_twist(k)
    else:
        at = (parent * width + k) * 6
        u, y = load(twist, at), load(twist, at + 3)
    return moved_twist(u, y, R, p)


@inlined
def channel_of(geometry: Geometry, i: int, position: int, channels: int) -> int:
    """Channel at a position of link i's list: the base's, then the joints on the way to the link."""
    if position < channels:
        return position
    return int(channels + geometry.chain_joint[geometry.chain[i] + position - channels])


@inlined
def channel_count(geometry: Geometry, i: int, channels: int) -> int:
    """How many channels move link i."""
    return int(channels + geometry.chain[i + 1] - geometry.chain[i])


@compiled
def write_joint_rows(
    geometry: Geometry,
    mode: int,
    channels: int,
    column: Integers,
    rotor: Integers,
    base: Array,
    q: Array,
    v: Array,
    a: Array,
    out: Array,
) -> None:
    """Rows of torque (wrench of inertia and gravity) or momentum, per base channel and joint.

    channels is 0, or 6 for the wrench on the base before the joints' rows. out (N, rows, p), with rows =
    channels + joints, or 6 for the base alone, must hold zeros; only what depends on the motion is written.
    column (L,) is where a link's ten begin, rotor (joints,) where Ia stands or -1; base (N or 1, BASE).
    """
    L = geometry.parent.shape[0]
    rows, p = out.shape[1], out.shape[2]
    flat = out.reshape(-1)
    state = np.empty(L * STATE)
    twist = np.empty(L * (channels + q.shape[1]) * 6)
    for n in range(q.shape[0]):
        write_sample(
            geometry, mode, channels, column, rotor, base, q, v, a, n, rows, p, state, twist, flat, n * rows * p
        )


@compiled
def write_picked_rows(
    geometry: Geometry,
    column: Integers,
    rotor: Integers,
    p: int,
    base: Array,
    q: Array,
    v: Array,
    a: Array,
    pick: Integers,
    place: Integers,
    out: Array,
) -> None:
    """Torque rows of which only some entries are wanted: out[n, place[e]] = row[pick[e]], row (joints * p,).

    A sample is written to a small sheet that stays in the cache; what nobody picks never reaches memory.
    """
    L = geometry.parent.shape[0]
    joints = q.shape[1]
    state = np.empty(L * STATE)
    twist = np.empty(L * joints * 6)
    sheet = np.zeros(joints * p)
    flat = out.reshape(-1)
    for n in range(q.shape[0]):
        write_sample(geometry, TORQUE, 0, column, rotor, base, q, v, a, n, joints, p, state, twist, sheet, 0)
        row = n * out.shape[1]
        for e in range(pick.shape[0]):
            flat[row + place[e]] = sheet[pick[e]]


@inlined
def write_sample(
    geometry: Geometry,
    mode: int,
    channels: int,
    column: Integers,
    rotor: Integers,
    base: Array,
    q: Array,
    v: Array,
    a: Array,
    n: int,
    rows: int,
    p: int,
    state: Array,
    twist: Array,
    flat: Array,
    sheet: int,
) -> None:
    """Write the rows of sample n into flat from `sheet` on."""
    joints = q.shape[1]
    width = channels + joints
    with_joints = rows > channels
    move_links(geometry, base, n if base.shape[0] > 1 else 0, q, v, a, n, state)
    for i in range(geometry.parent.shape[0]):
        o = i * STATE
        if mode == TORQUE:
            body = body_of(load(state, o + W), load(state, o + WD), load(state, o + ACC))
        else:
            body = body_of(REST, load(state, o + W), load(state, o + V))
        count = channel_count(geometry, i, channels) if with_joints else channels
        for position in range(count):
            k = channel_of(geometry, i, position, channels)
            u, y = channel_twist(geometry, i, k, channels, width, state, twist)
            at = (i * width + k) * 6
            store(twist, at, u)
            store(twist, at + 3, y)
            write_row(body, u, y, flat, sheet + k * p + column[i])
    if with_joints:
        for j in range(joints):
            if rotor[j] >= 0:
                flat[sheet + (channels + j) * p + rotor[j]] = a[n, j] if mode == TORQUE else v[n, j]


@inlined
def crossed(w: Vector, v: Vector, u: Vector, y: Vector) -> tuple[Vector, Vector]:
    """Vector product of twists: (w; v) x (u; y) = (w x u; w x y + v x u)."""
    return cross(w, u), add(cross(w, y), cross(v, u))


@compiled
def write_lagrangian_rows(
    geometry: Geometry,
    channels: int,
    column: Integers,
    base: Array,
    q: Array,
    v: Array,
    out: Array,
) -> None:
    """Rows of dL/dq, L the kinetic minus the potential energy; out (N, channels + joints, p) must hold zeros.

    dT/dq_k is the momentum of the links beyond joint k times the twist V_k x s_k, -dU/dq_k their weight times
    s_k. For a base channel the same formula includes the turning of the base's frame.
    """
    L = geometry.parent.shape[0]
    width = channels + q.shape[1]
    rows, p = out.shape[1], out.shape[2]
    flat = out.reshape(-1)
    state = np.empty(L * STATE)
    world = np.empty(L * 12)
    twist = np.empty(L * width * 6)
    bent = np.empty(L * width * 6)
    for n in range(q.shape[0]):
        b = n if base.shape[0] > 1 else 0
        move_links(geometry, base, b, q, v, v, n, state)
        pose_links(geometry, state, world)
        gravity = (base[b, GRAVITY], base[b, GRAVITY + 1], base[b, GRAVITY + 2])
        for i in range(L):
            o = i * STATE
            w, vel = load(state, o + W), load(state, o + V)
            body = body_of(REST, w, vel)
            g = turn_back(load_rotation(world, i * 12), gravity)
            for position in range(channel_count(geometry, i, channels)):
                k = channel_of(geometry, i, position, channels)
                u, y = channel_twist(geometry, i, k, channels, width, state, twist)
                bu, by = bent_twist(geometry, i, k, channels, width, base, b, state, u, y, bent)
                at = (i * width + k) * 6
                store(twist, at, u)
                store(twist, at + 3, y)
                store(bent, at, bu)
                store(bent, at + 3, by)
                row = (n * rows + k) * p + column[i]
                write_row(body, bu, by, flat, row)
                add_row_of_weight(g, u, y, flat, row)


@inlined
def bent_twist(
    geometry: Geometry,
    i: int,
    k: int,
    channels: int,
    width: int,
    base: Array,
    b: int,
    state: Array,
    u: Vector,
    y: Vector,
    bent: Array,
) -> tuple[Vector, Vector]:
    """V_k x s_k of channel k in link i's frame; (u; y) is s_k there."""
    R = load_rotation(state, i * STATE)
    p = load(state, i * STATE + PLACE)
    if k >= channels and k - channels == geometry.joint[i]:
        return crossed(load(state, i * STATE + W), load(state, i * STATE + V), u, y)
    if geometry.parent[i] < 0:
        w, _, _, vel = motion_before(geometry, base, b, state, i)
        w, vel = moved_twist(w, vel, R, p)
        return crossed(w, vel, u, y)
    at = (geometry.parent[i] * width + k) * 6
    return moved_twist(load(bent, at), load(bent, at + 3), R, p)


@compiled
def write_scalar_rows(
    geometry: Geometry,
    mode: int,
    column: Integers,
    rotor: Integers,
    base: Array,
    q: Array,
    v: Array,
    a: Array,
    out: Array,
) -> None:
    """Rows of power (POWER) or of total energy (ENERGY), one per sample; out (N, p) must hold zeros.

    Energy functions of Gautier 1991, eq. 10: V'(I V)/2 - g.(M p + R MS), and Ia qd^2/2.
    """
    L = geometry.parent.shape[0]
    p = out.shape[1]
    flat = out.reshape(-1)
    state = np.empty(L * STATE)
    world = np.empty(L * 12)
    for n in range(q.shape[0]):
        b = n if base.shape[0] > 1 else 0
        move_links(geometry, base, b, q, v, a, n, state)
        if mode == ENERGY:
            pose_links(geometry, state, world)
        g = (base[b, GRAVITY], base[b, GRAVITY + 1], base[b, GRAVITY + 2])
        for i in range(L):
            o = i * STATE
            row = n * p + column[i]
            w, vel = load(state, o + W), load(state, o + V)
            if mode == POWER:
                body = body_of(w, load(state, o + WD), load(state, o + ACC))
                write_row(body, w, vel, flat, row)
            else:
                write_row(body_of(REST, w, vel), scale(0.5, w), scale(0.5, vel), flat, row)
                lift = turn_back(load_rotation(world, i * 12), g)
                flat[row + 6] -= lift[0]
                flat[row + 7] -= lift[1]
                flat[row + 8] -= lift[2]
                flat[row + 9] += base[b, HEIGHT] - dot(load(world, i * 12 + 9), g)
        for j in range(q.shape[1]):
            if rotor[j] >= 0:
                flat[n * p + rotor[j]] = v[n, j] * (a[n, j] if mode == POWER else 0.5 * v[n, j])
