"""The adjoint of the rows: d(sum(weights * W))/d(q, qd, qdd), about three forward passes.

A link's contribution is a function of motions seen from its own frame: the channel's S_k, its velocity v_i and its
acceleration a_i. With all of them written in the base frame, motion of joint j changes them by products with S_j only:

    d(S_k)/dq_j = -S_j x S_k            for k before or at j, else 0
    d(v_i)/dq_j = -S_j x v_j            d(v_i)/dqd_j = S_j
    d(a_i)/dq_j = -S_j x a_j - (S_j x v_j) x (v_i - v_j)
    d(a_i)/dqd_j = 2 v_j x S_j + S_j x v_i,          d(a_i)/dqdd_j = S_j

so the gradients with respect to the motions, which are forces, are summed over the subtree beyond j.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynid.dynamics.kernels.compiled import compiled, inlined
from dynid.dynamics.kernels.links import (
    GRAVITY,
    LINK,
    A,
    Geometry,
    Gradient,
    RowLayout,
    Samples,
    V,
    base_motion,
    base_row_of_sample,
    bias_quadratic_form,
    body_terms,
    force_of_body,
    momentum_of_body,
    write_link_motions,
    write_link_poses,
)
from dynid.dynamics.kernels.rows import (
    POWER,
    REST,
    TORQUE,
    base_channel_motion,
    channel_at_position,
    channel_count,
    joint_axis,
)
from dynid.dynamics.kernels.spatial_algebra import (
    LINEAR,
    POSE,
    SPATIAL,
    Spatial,
    Vector,
    accumulate_spatial,
    add,
    cross,
    cross_force,
    cross_motion,
    dot,
    force_out_of_frame,
    load_pose,
    load_row_vector,
    load_spatial,
    load_vector,
    motion_into_frame,
    motion_out_of_frame,
    rotate_back,
    scale,
    spatial_dot,
    store_spatial,
)
from dynid.robot.transform import Array


class Workspace(NamedTuple):
    """Memory of one sample, all in the base frame but `links`.

    links (L * LINK,), world (L * POSE,); S and Sdot = v x S of the channels (width * SPATIAL,); v and a of the links
    (L * SPATIAL,), with gradients by_v, by_a, and swept, the sum of v x* by_a; by_g: momenta or forces that belong to
    gravity. f and weight (L * width * SPATIAL,): force and weight that a channel's row gives a link, and those beyond.
    """

    links: Array
    world: Array
    S: Array
    Sdot: Array
    v: Array
    a: Array
    by_v: Array
    by_a: Array
    by_g: Array
    swept: Array
    f: Array
    weight: Array
    channels: int
    width: int


@inlined
def allocate_workspace(geometry: Geometry, channels: int, joints: int) -> Workspace:
    """Allocate the memory that samples, one after the other, are worked on in."""
    L, width = geometry.parent.shape[0], channels + joints
    return Workspace(
        np.empty(L * LINK),
        np.empty(L * POSE),
        np.empty(width * SPATIAL),
        np.empty(width * SPATIAL),
        np.empty(L * SPATIAL),
        np.empty(L * SPATIAL),
        np.empty(L * SPATIAL),
        np.empty(L * SPATIAL),
        np.empty(L * SPATIAL),
        np.empty(L * SPATIAL),
        np.empty(L * width * SPATIAL),
        np.empty(L * width * SPATIAL),
        channels,
        width,
    )


@inlined
def write_motions_in_base_frame(geometry: Geometry, samples: Samples, n: int, work: Workspace) -> None:
    """Write links and world; S of the channels, and v and a of the links, in the base frame."""
    links, world, S, channels = work.links, work.world, work.S, work.channels
    v, a = work.v, work.a
    write_link_motions(geometry, samples, n, links)
    write_link_poses(geometry, links, world)
    for k in range(channels):
        store_spatial(S, k * SPATIAL, base_channel_motion(k))
    for i in range(geometry.parent.shape[0]):
        X = load_pose(world, i * POSE)
        if geometry.joint[i] >= 0:
            store_spatial(S, (channels + geometry.joint[i]) * SPATIAL, motion_out_of_frame(X, joint_axis(geometry, i)))
        v_i = load_spatial(links, i * LINK + V)
        store_spatial(v, i * SPATIAL, motion_out_of_frame(X, v_i))
        wd, acc = load_spatial(links, i * LINK + A)
        store_spatial(a, i * SPATIAL, motion_out_of_frame(X, (wd, add(acc, cross(v_i[1], v_i[0])))))


@inlined
def bias_gradient(diagonal: Vector, mixed: Vector, w: Vector) -> Vector:
    """Gradient Q w of the bias term w'Qw/2, Q symmetric by its diagonal and its mixed entries."""
    return (
        diagonal[0] * w[0] + mixed[2] * w[1] + mixed[1] * w[2],
        mixed[2] * w[0] + diagonal[1] * w[1] + mixed[0] * w[2],
        mixed[1] * w[0] + mixed[0] * w[1] + diagonal[2] * w[2],
    )


@inlined
def add_to_parent(x: Array, i: int, parent: int) -> None:
    """Add row i of spatial vectors to row parent."""
    for c in range(SPATIAL):
        x[parent * SPATIAL + c] += x[i * SPATIAL + c]


@inlined
def joint_gradient(S_j: Spatial, work: Workspace, i: int) -> tuple[float, float, float]:
    """Derivatives by q, qd, qdd of link i's joint through the v and a of its subtree, whose sums stand at i."""
    at = i * SPATIAL
    v_i = load_spatial(work.v, at)
    b = cross_motion(S_j, v_i)
    c = cross_motion(S_j, load_spatial(work.a, at))
    by_v, by_a, swept = load_spatial(work.by_v, at), load_spatial(work.by_a, at), load_spatial(work.swept, at)
    own = spatial_dot(b, cross_force(v_i, by_a))  # (S_j x v_j) x (v_i - v_j), with the sum over i in swept
    gq = -spatial_dot(b, by_v) - spatial_dot(c, by_a) - spatial_dot(b, swept) + own
    gv = spatial_dot(S_j, by_v) - 2.0 * spatial_dot(b, by_a) + spatial_dot(S_j, swept)
    return gq, gv, spatial_dot(S_j, by_a)


@compiled
def joint_rows_adjoint(
    geometry: Geometry, layout: RowLayout, samples: Samples, weights: Array, gradient: Gradient
) -> None:
    """Adjoint of write_joint_rows: weights (N, rows, p) in, gradient out."""
    L = geometry.parent.shape[0]
    kind, channels, rows, p, inertial, rotor = layout
    gq, gv, ga = gradient
    flat = weights.reshape(-1)
    work = allocate_workspace(geometry, channels, gq.shape[1])
    links, world, S, v, width = work.links, work.world, work.S, work.v, work.width
    by_v, by_a, swept, f = work.by_v, work.by_a, work.swept, work.f
    for n in range(gq.shape[0]):
        write_motions_in_base_frame(geometry, samples, n, work)
        by_v[:] = 0.0
        by_a[:] = 0.0
        swept[:] = 0.0
        f[:] = 0.0
        for i in range(L):
            here = i * SPATIAL
            X = load_pose(world, i * POSE)
            v_i = load_spatial(links, i * LINK + V)
            if kind == TORQUE:
                body = body_terms(v_i[0], load_spatial(links, i * LINK + A))
            else:
                body = body_terms(REST, v_i)
            angular, linear = REST, REST
            diagonal, mixed = REST, REST
            for position in range(channel_count(geometry, i, layout)):
                k = channel_at_position(geometry, i, position, channels)
                at = (n * rows + k) * p + inertial[i]
                S_k = motion_into_frame(X, load_spatial(S, k * SPATIAL))
                accumulate_spatial(f, (i * width + k) * SPATIAL, force_out_of_frame(X, force_of_body(body, flat, at)))
                h = momentum_of_body(flat, at, S_k)
                angular, linear = add(angular, h[0]), add(linear, h[1])
                if kind == TORQUE:
                    d, m = bias_quadratic_form(flat, at, S_k)
                    diagonal, mixed = add(diagonal, d), add(mixed, m)
            if kind == TORQUE:
                moment = add(bias_gradient(diagonal, mixed, v_i[0]), cross(v_i[1], linear))
                accumulate_spatial(by_a, here, force_out_of_frame(X, (angular, linear)))
                accumulate_spatial(by_v, here, force_out_of_frame(X, (moment, cross(linear, v_i[0]))))
                accumulate_spatial(swept, here, cross_force(load_spatial(v, here), load_spatial(by_a, here)))
            else:
                accumulate_spatial(by_v, here, force_out_of_frame(X, (angular, linear)))
        for i in range(L - 1, -1, -1):
            j = geometry.joint[i]
            if j >= 0:
                S_j = load_spatial(S, (channels + j) * SPATIAL)
                gq[n, j], gv[n, j], ga[n, j] = joint_gradient(S_j, work, i)
                for position in range(channel_count(geometry, i, layout)):
                    k = channel_at_position(geometry, i, position, channels)
                    turned = cross_motion(S_j, load_spatial(S, k * SPATIAL))
                    gq[n, j] -= spatial_dot(turned, load_spatial(f, (i * width + k) * SPATIAL))
                if rows > channels and rotor[j] >= 0:
                    weight = flat[(n * rows + channels + j) * p + rotor[j]]
                    if kind == TORQUE:
                        ga[n, j] += weight
                    else:
                        gv[n, j] += weight
            parent = geometry.parent[i]
            if parent >= 0:
                add_to_parent(by_v, i, parent)
                add_to_parent(by_a, i, parent)
                add_to_parent(swept, i, parent)
                for position in range(channel_count(geometry, parent, layout)):
                    k = channel_at_position(geometry, parent, position, channels)
                    add_to_parent(f, i * width + k, parent * width + k)


@compiled
def lagrangian_rows_adjoint(
    geometry: Geometry, layout: RowLayout, samples: Samples, weights: Array, gradient: Gradient
) -> None:
    """Adjoint of write_lagrangian_rows: weights (N, rows, p) in, gradient by q and qd out.

    Beside the above: d(Sdot_k)/dq_j = -S_j x Sdot_k for k before or at j and -(S_j x v_j) x S_k for k beyond j;
    d(Sdot_k)/dqd_j = S_j x S_k for k beyond j; gravity g changes by -S_j x g.
    """
    L = geometry.parent.shape[0]
    _, channels, rows, p, inertial, _ = layout
    samples = Samples(samples.base_frame, samples.q, samples.qd, samples.qd)  # no acceleration shows: one array less
    gq, gv, _ = gradient
    flat = weights.reshape(-1)
    work = allocate_workspace(geometry, channels, gq.shape[1])
    links, world, S, Sdot, v, width = work.links, work.world, work.S, work.Sdot, work.v, work.width
    by_v, by_g, swept, f, weight = work.by_v, work.by_g, work.swept, work.f, work.weight
    for n in range(gq.shape[0]):
        write_motions_in_base_frame(geometry, samples, n, work)
        gravity = load_row_vector(samples.base_frame, base_row_of_sample(samples, n), GRAVITY)
        write_channel_rates(geometry, samples, n, work)
        by_v[:] = 0.0
        by_g[:] = 0.0
        swept[:] = 0.0
        f[:] = 0.0
        weight[:] = 0.0
        for i in range(L):
            here = i * SPATIAL
            X = load_pose(world, i * POSE)
            v_i = load_spatial(links, i * LINK + V)
            g = rotate_back(X[0], gravity)
            for position in range(channel_count(geometry, i, layout)):
                k = channel_at_position(geometry, i, position, channels)
                at, entry = (n * rows + k) * p + inertial[i], (i * width + k) * SPATIAL
                accumulate_spatial(f, entry, force_out_of_frame(X, momentum_of_body(flat, at, v_i)))
                accumulate_spatial(weight, entry, force_out_of_frame(X, momentum_of_body(flat, at, (REST, g))))
                rate = motion_into_frame(X, load_spatial(Sdot, k * SPATIAL))
                accumulate_spatial(by_v, here, force_out_of_frame(X, momentum_of_body(flat, at, rate)))
                S_k = motion_into_frame(X, load_spatial(S, k * SPATIAL))
                accumulate_spatial(by_g, here, force_out_of_frame(X, momentum_of_body(flat, at, S_k)))
        for i in range(L - 1, -1, -1):
            here = i * SPATIAL
            j = geometry.joint[i]
            if j >= 0:
                S_j = load_spatial(S, (channels + j) * SPATIAL)
                b = cross_motion(S_j, load_spatial(v, here))
                gq[n, j] = -spatial_dot(b, load_spatial(by_v, here)) - spatial_dot(b, load_spatial(swept, here))
                gq[n, j] -= dot(cross(S_j[0], gravity), load_vector(by_g, here + LINEAR))
                gv[n, j] = spatial_dot(S_j, load_spatial(by_v, here)) + spatial_dot(S_j, load_spatial(swept, here))
                for position in range(channel_count(geometry, i, layout)):
                    k = channel_at_position(geometry, i, position, channels)
                    entry = (i * width + k) * SPATIAL
                    turned = cross_motion(S_j, load_spatial(Sdot, k * SPATIAL))
                    gq[n, j] -= spatial_dot(turned, load_spatial(f, entry))
                    turned = cross_motion(S_j, load_spatial(S, k * SPATIAL))
                    gq[n, j] -= spatial_dot(turned, load_spatial(weight, entry))
                own = load_spatial(f, (i * width + channels + j) * SPATIAL)
                accumulate_spatial(swept, here, cross_force(S_j, own))
            parent = geometry.parent[i]
            if parent >= 0:
                add_to_parent(by_v, i, parent)
                add_to_parent(by_g, i, parent)
                add_to_parent(swept, i, parent)
                for position in range(channel_count(geometry, parent, layout)):
                    k = channel_at_position(geometry, parent, position, channels)
                    add_to_parent(f, i * width + k, parent * width + k)
                    add_to_parent(weight, i * width + k, parent * width + k)


@inlined
def write_channel_rates(geometry: Geometry, samples: Samples, n: int, work: Workspace) -> None:
    """Write Sdot = v x S of every channel, in the base frame."""
    S, Sdot, v, channels = work.S, work.Sdot, work.v, work.channels
    v_base, _ = base_motion(samples, n)
    for k in range(channels):
        store_spatial(Sdot, k * SPATIAL, cross_motion(v_base, load_spatial(S, k * SPATIAL)))
    for i in range(geometry.parent.shape[0]):
        if geometry.joint[i] >= 0:
            at = (channels + geometry.joint[i]) * SPATIAL
            store_spatial(Sdot, at, cross_motion(load_spatial(v, i * SPATIAL), load_spatial(S, at)))


@compiled
def scalar_rows_adjoint(
    geometry: Geometry, layout: RowLayout, samples: Samples, weights: Array, gradient: Gradient
) -> None:
    """Adjoint of write_scalar_rows: weights (N, p) in, gradient out."""
    L = geometry.parent.shape[0]
    kind, _, _, p, inertial, rotor = layout
    base_frame, _, qd, qdd = samples
    gq, gv, ga = gradient
    flat = weights.reshape(-1)
    work = allocate_workspace(geometry, 0, gq.shape[1])
    links, world, S, v = work.links, work.world, work.S, work.v
    by_v, by_a, by_g, swept = work.by_v, work.by_a, work.by_g, work.swept
    for n in range(gq.shape[0]):
        write_motions_in_base_frame(geometry, samples, n, work)
        gravity = load_row_vector(base_frame, base_row_of_sample(samples, n), GRAVITY)
        by_v[:] = 0.0
        by_a[:] = 0.0
        swept[:] = 0.0
        by_g[:] = 0.0
        for i in range(L):
            here, at = i * SPATIAL, n * p + inertial[i]
            X = load_pose(world, i * POSE)
            v_i = load_spatial(links, i * LINK + V)
            h = momentum_of_body(flat, at, v_i)
            if kind == POWER:
                diagonal, mixed = bias_quadratic_form(flat, at, v_i)
                moment = add(bias_gradient(diagonal, mixed, v_i[0]), cross(v_i[1], h[1]))
                accumulate_spatial(by_a, here, force_out_of_frame(X, h))
                accumulate_spatial(by_v, here, force_out_of_frame(X, (moment, cross(h[1], v_i[0]))))
                body = body_terms(v_i[0], load_spatial(links, i * LINK + A))
                accumulate_spatial(by_v, here, force_out_of_frame(X, force_of_body(body, flat, at)))
                accumulate_spatial(swept, here, cross_force(load_spatial(v, here), load_spatial(by_a, here)))
            else:
                accumulate_spatial(by_v, here, force_out_of_frame(X, h))
                lift = momentum_of_body(flat, at, (REST, scale(-1.0, rotate_back(X[0], gravity))))
                accumulate_spatial(by_g, here, force_out_of_frame(X, lift))
        for i in range(L - 1, -1, -1):
            j = geometry.joint[i]
            if j >= 0:
                S_j = load_spatial(S, j * SPATIAL)
                gq[n, j], gv[n, j], ga[n, j] = joint_gradient(S_j, work, i)
                gq[n, j] += spatial_dot(S_j, load_spatial(by_g, i * SPATIAL))
                if rotor[j] >= 0:
                    weight = flat[n * p + rotor[j]]
                    if kind == POWER:
                        gv[n, j] += weight * qdd[n, j]
                        ga[n, j] += weight * qd[n, j]
                    else:
                        gv[n, j] += weight * qd[n, j]
            parent = geometry.parent[i]
            if parent >= 0:
                add_to_parent(by_v, i, parent)
                add_to_parent(by_a, i, parent)
                add_to_parent(swept, i, parent)
                add_to_parent(by_g, i, parent)
