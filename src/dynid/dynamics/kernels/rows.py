"""Regressor rows of N samples: one row per channel, ten columns per link.

A channel is a motion S: a joint's axis, a unit motion of the base frame, or the link's own velocity. Its row holds, for
every link that it moves, the coefficients of S.f, f the force on the link.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynid.dynamics.kernels.compiled import compiled, inlined
from dynid.dynamics.kernels.links import (
    GRAVITY,
    HEIGHT,
    LINK,
    MX,
    MY,
    MZ,
    REVOLUTE,
    A,
    Geometry,
    Integers,
    M,
    RowLayout,
    Samples,
    V,
    add_gravity_row,
    base_motion,
    base_row_of_sample,
    body_terms,
    write_body_row,
    write_link_motions,
    write_link_poses,
)
from dynid.dynamics.kernels.spatial_algebra import (
    POSE,
    POSITION,
    SPATIAL,
    Spatial,
    cross_motion,
    dot,
    load_pose,
    load_rotation,
    load_row_vector,
    load_spatial,
    load_vector,
    motion_into_frame,
    rotate_back,
    scale,
    store_spatial,
)
from dynid.robot.transform import Array

TORQUE, MOMENTUM, POWER, ENERGY = 0, 1, 2, 3
REST = (0.0, 0.0, 0.0)


class Workspace(NamedTuple):
    """Memory that a sample's rows are made in.

    links (L * LINK,), world (L * POSE,); S and its rate Sdot = v x S of every channel in every link's frame,
    (L * width * SPATIAL,); channels of the base frame, and width: these and the joints of the tree.
    """

    links: Array
    world: Array
    S: Array
    Sdot: Array
    channels: int
    width: int


@inlined
def allocate_workspace(geometry: Geometry, channels: int, joints: int) -> Workspace:
    """Allocate the memory that samples, one after the other, are worked on in."""
    L, width = geometry.parent.shape[0], channels + joints
    size = L * width * SPATIAL
    return Workspace(np.empty(L * LINK), np.empty(L * POSE), np.empty(size), np.empty(size), channels, width)


@inlined
def base_channel_motion(k: int) -> Spatial:
    """Unit motion of the base frame for channel k of Fx Fy Fz Mx My Mz."""
    y = (1.0 if k == 0 else 0.0, 1.0 if k == 1 else 0.0, 1.0 if k == 2 else 0.0)
    u = (1.0 if k == 3 else 0.0, 1.0 if k == 4 else 0.0, 1.0 if k == 5 else 0.0)
    return u, y


@inlined
def joint_axis(geometry: Geometry, i: int) -> Spatial:
    """S of link i's own joint, in its frame."""
    turns = 1.0 if geometry.kind[i] == REVOLUTE else 0.0
    e = load_row_vector(geometry.axis, i, 0)
    return scale(turns, e), scale(1.0 - turns, e)


@inlined
def channel_motion(geometry: Geometry, work: Workspace, i: int, k: int) -> Spatial:
    """S of channel k in link i's frame, from its parent's."""
    if k >= work.channels and k - work.channels == geometry.joint[i]:
        return joint_axis(geometry, i)
    parent = geometry.parent[i]
    X = load_pose(work.links, i * LINK)
    if parent < 0:
        u, y = base_channel_motion(k)
    else:
        u, y = load_spatial(work.S, (parent * work.width + k) * SPATIAL)
    return motion_into_frame(X, (u, y))


@inlined
def channel_at_position(geometry: Geometry, i: int, position: int, channels: int) -> int:
    """Channel at a position of link i's list: the base frame's, then the joints on the way to the link."""
    if position < channels:
        return position
    return int(channels + geometry.chain_joint[geometry.chain[i] + position - channels])


@inlined
def channel_count(geometry: Geometry, i: int, layout: RowLayout) -> int:
    """Number of channels that move link i; of the base frame alone, where the joints have no rows."""
    if layout.rows <= layout.channels:
        return layout.channels
    return int(layout.channels + geometry.chain[i + 1] - geometry.chain[i])


@compiled
def write_joint_rows(geometry: Geometry, layout: RowLayout, samples: Samples, out: Array) -> None:
    """Write rows of torque (force of inertia and gravity) or momentum, per channel of the base frame and joint.

    out (N, rows, p) must hold zeros; only what depends on the motion is written.
    """
    flat = out.reshape(-1)
    work = allocate_workspace(geometry, layout.channels, samples.q.shape[1])
    for n in range(samples.q.shape[0]):
        write_rows_of_sample(geometry, layout, samples, n, work, flat)


@compiled
def write_picked_rows(
    geometry: Geometry, layout: RowLayout, samples: Samples, pick: Integers, place: Integers, out: Array
) -> None:
    """Write rows of which only some entries are wanted: out[n, place[e]] = sheet[pick[e]], sheet (rows * p,).

    A sample is written to a small sheet that stays in the cache; what nobody picks never reaches memory.
    """
    work = allocate_workspace(geometry, layout.channels, samples.q.shape[1])
    sheet = np.zeros(layout.rows * layout.p)
    flat = out.reshape(-1)
    for n in range(samples.q.shape[0]):
        write_rows_of_sample(geometry, layout, samples, n, work, sheet)
        row = n * out.shape[1]
        for e in range(pick.shape[0]):
            flat[row + place[e]] = sheet[pick[e]]


@inlined
def write_rows_of_sample(
    geometry: Geometry, layout: RowLayout, samples: Samples, n: int, work: Workspace, flat: Array
) -> None:
    """Write the rows of sample n into flat (N * rows * p,), or (rows * p,) for one sample alone."""
    kind, channels, rows, p, inertial, rotor = layout
    _, q, qd, qdd = samples
    joints = q.shape[1] if rows > channels else 0
    links, motions, width = work.links, work.S, work.width
    start = n * rows * p if flat.shape[0] > rows * p else 0
    write_link_motions(geometry, samples, n, links)
    for i in range(geometry.parent.shape[0]):
        v = load_spatial(links, i * LINK + V)
        if kind == TORQUE:
            body = body_terms(v[0], load_spatial(links, i * LINK + A))
        else:
            body = body_terms(REST, v)
        for position in range(channel_count(geometry, i, layout)):
            k = channel_at_position(geometry, i, position, channels)
            S = channel_motion(geometry, work, i, k)
            store_spatial(motions, (i * width + k) * SPATIAL, S)
            write_body_row(body, S, flat, start + k * p + inertial[i])
    for j in range(joints):
        if rotor[j] >= 0:
            flat[start + (channels + j) * p + rotor[j]] = qdd[n, j] if kind == TORQUE else qd[n, j]


@compiled
def write_lagrangian_rows(geometry: Geometry, layout: RowLayout, samples: Samples, out: Array) -> None:
    """Write rows of dL/dq, L the kinetic minus the potential energy; out (N, rows, p) must hold zeros.

    dT/dq_k is the momentum of the links beyond joint k times Sdot_k = v_k x S_k, -dU/dq_k their weight times S_k. For a
    channel of the base frame the same formula includes the turning of this frame.
    """
    channels, rows, p = layout.channels, layout.rows, layout.p
    samples = Samples(samples.base_frame, samples.q, samples.qd, samples.qd)  # no acceleration shows: one array less
    flat = out.reshape(-1)
    work = allocate_workspace(geometry, layout.channels, samples.q.shape[1])
    for n in range(samples.q.shape[0]):
        write_link_motions(geometry, samples, n, work.links)
        write_link_poses(geometry, work.links, work.world)
        gravity = load_row_vector(samples.base_frame, base_row_of_sample(samples, n), GRAVITY)
        for i in range(geometry.parent.shape[0]):
            body = body_terms(REST, load_spatial(work.links, i * LINK + V))
            g = rotate_back(load_rotation(work.world, i * POSE), gravity)
            for position in range(channel_count(geometry, i, layout)):
                k = channel_at_position(geometry, i, position, channels)
                S = channel_motion(geometry, work, i, k)
                at = (i * work.width + k) * SPATIAL
                store_spatial(work.S, at, S)
                Sdot = channel_rate(geometry, samples, n, work, i, k)
                store_spatial(work.Sdot, at, Sdot)
                row = (n * rows + k) * p + layout.inertial[i]
                write_body_row(body, Sdot, flat, row)
                add_gravity_row(g, S, flat, row)


@inlined
def channel_rate(geometry: Geometry, samples: Samples, n: int, work: Workspace, i: int, k: int) -> Spatial:
    """Sdot of channel k in link i's frame, where its S stands already: v x S, v of what the channel moves first."""
    S = load_spatial(work.S, (i * work.width + k) * SPATIAL)
    X = load_pose(work.links, i * LINK)
    if k >= work.channels and k - work.channels == geometry.joint[i]:
        return cross_motion(load_spatial(work.links, i * LINK + V), S)
    if geometry.parent[i] < 0:
        return cross_motion(motion_into_frame(X, base_motion(samples, n)[0]), S)
    return motion_into_frame(X, load_spatial(work.Sdot, (geometry.parent[i] * work.width + k) * SPATIAL))


@compiled
def write_scalar_rows(geometry: Geometry, layout: RowLayout, samples: Samples, out: Array) -> None:
    """Write rows of power (POWER) or of total energy (ENERGY), one per sample; out (N, p) must hold zeros.

    Energy functions of Gautier 1991, eq. 10: v.(I v)/2 - g.(M p + R MS), and Ia qd^2/2.
    """
    p = layout.p
    flat = out.reshape(-1)
    work = allocate_workspace(geometry, 0, 0)
    for n in range(samples.q.shape[0]):
        b = base_row_of_sample(samples, n)
        write_link_motions(geometry, samples, n, work.links)
        if layout.kind == ENERGY:
            write_link_poses(geometry, work.links, work.world)
        g = load_row_vector(samples.base_frame, b, GRAVITY)
        for i in range(geometry.parent.shape[0]):
            row = n * p + layout.inertial[i]
            v = load_spatial(work.links, i * LINK + V)
            if layout.kind == POWER:
                write_body_row(body_terms(v[0], load_spatial(work.links, i * LINK + A)), v, flat, row)
            else:
                write_body_row(body_terms(REST, v), (scale(0.5, v[0]), scale(0.5, v[1])), flat, row)
                lift = rotate_back(load_rotation(work.world, i * POSE), g)
                flat[row + MX] -= lift[0]
                flat[row + MY] -= lift[1]
                flat[row + MZ] -= lift[2]
                flat[row + M] += samples.base_frame[b, HEIGHT] - dot(load_vector(work.world, i * POSE + POSITION), g)
        for j in range(samples.q.shape[1]):
            if layout.rotor[j] >= 0:
                rate = samples.qdd[n, j] if layout.kind == POWER else 0.5 * samples.qd[n, j]
                flat[n * p + layout.rotor[j]] = samples.qd[n, j] * rate
