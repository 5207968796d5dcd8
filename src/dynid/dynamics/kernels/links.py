"""A robot's tree as plain arrays, so that one compiled kernel serves all robots, and the recursion over its links.

The recursion gives where every link is and how it moves, in its own frame, and what a body takes for that. The
package's docstring draws the memory that is filled here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dynid.dynamics.kernels.compiled import inlined
from dynid.dynamics.kernels.spatial_algebra import (
    LINEAR,
    POSE,
    POSITION,
    ROTATION,
    SPATIAL,
    Spatial,
    Vector,
    add,
    cross,
    dot,
    load_rotation,
    load_row_vector,
    load_spatial,
    load_vector,
    rotate,
    rotate_back,
    scale,
    sine_cosine,
    store_spatial,
    store_vector,
)
from dynid.robot.robot import Link, Robot
from dynid.robot.transform import Array, skew

FIXED, REVOLUTE, PRISMATIC = 0, 1, 2
_KINDS = {"fixed": FIXED, "floating": FIXED, "revolute": REVOLUTE, "prismatic": PRISMATIC}

Integers = NDArray[np.int64]


class Geometry(NamedTuple):
    """Links in an order where parents come first.

    parent (L,), -1 for the base; kind (L,); joint (L,): index of the tree joint, -1 where the link is fixed;
    rotation (L, 3, 9): R(q) = A + B sin q + C cos q, row by row; translation (L, 3) and axis (L, 3); link (L,):
    index in `robot.links`; chain (L + 1,) and chain_joint: joints on the way from the base to each link,
    chain_joint[chain[i]:chain[i + 1]], the link's own joint last.
    """

    parent: Integers
    kind: Integers
    joint: Integers
    rotation: Array
    translation: Array
    axis: Array
    link: Integers
    chain: Integers
    chain_joint: Integers


class Samples(NamedTuple):
    """Motion of N samples: of the base frame (N or 1, BASE_FRAME), and of the tree's joints, q, qd, qdd (N, joints)."""

    base_frame: Array
    q: Array
    qd: Array
    qdd: Array


class Gradient(NamedTuple):
    """Derivatives of a number by the tree's q, qd, qdd, (N, joints) each."""

    q: Array
    qd: Array
    qdd: Array

    def samples_between(self, start: int, stop: int) -> Gradient:
        """Return views of a range of samples."""
        return Gradient(*(x[start:stop] for x in self))


class RowLayout(NamedTuple):
    """What stands in a sample's rows, and where.

    kind: TORQUE, MOMENTUM, POWER or ENERGY; channels: rows of the base frame before the joints', 0 or 6; rows: all, or
    6 for the base frame alone; p: columns; inertial (L,): where a link's ten begin; rotor (joints,): where Ia stands,
    or -1.
    """

    kind: int
    channels: int
    rows: int
    p: int
    inertial: Integers
    rotor: Integers


def tree_arrays(robot: Robot) -> Geometry:
    """Convert a robot's open tree to plain arrays for the kernels."""
    order = robot.topological_order
    position = {k: i for i, k in enumerate(order)} | {-1: -1}
    joint_of = {k: j for j, k in enumerate(robot.tree_joints)}
    links = [robot.links[k] for k in order]
    parent = [position[link.parent] for link in links]
    joint = [joint_of.get(k, -1) for k in order]
    chains: list[list[int]] = []
    for i in range(len(links)):
        before = chains[parent[i]] if parent[i] >= 0 else []
        chains.append(before + ([joint[i]] if joint[i] >= 0 else []))
    return Geometry(
        parent=np.array(parent),
        kind=np.array([_KINDS[link.kind] for link in links]),
        joint=np.array(joint),
        rotation=np.array([_rotation_terms(link) for link in links]),
        translation=np.array([link.placement.translation for link in links]),
        axis=np.array([link.axis for link in links]),
        link=np.array(order),
        chain=np.cumsum([0, *map(len, chains)]),
        chain_joint=np.array([j for chain in chains for j in chain], dtype=np.int64),
    )


def _rotation_terms(link: Link) -> Array:
    """A, B, C of R(q) = A + B sin q + C cos q (Rodrigues); a joint that does not turn has B = C = 0."""
    R = link.placement.rotation
    if link.kind != "revolute":
        return np.stack([R.ravel(), np.zeros(9), np.zeros(9)])
    aa = np.outer(link.axis, link.axis)
    return np.stack([(R @ aa).ravel(), (R @ skew(link.axis)).ravel(), (R @ (np.eye(3) - aa)).ravel()])


# Where the links are: poses along a motion of the open tree, all samples at once.


@dataclass(frozen=True, slots=True, eq=False)
class Poses:
    """Of every link: rotation (N, 3, 3) and position (N, 3) of its frame in frame 0; entry -1 is frame 0 itself."""

    rotation: dict[int, Array]
    position: dict[int, Array]


def link_poses(robot: Robot, q: Array) -> Poses:
    """Poses of all links; q (N, joints of the tree) in the order of `robot.tree_joints`."""
    N = len(q)
    rotation = {-1: np.broadcast_to(np.eye(3), (N, 3, 3))}
    position = {-1: np.zeros((N, 3))}
    column = {k: j for j, k in enumerate(robot.tree_joints)}
    for k in robot.topological_order:
        link = robot.links[k]
        R, p = rotation[link.parent], position[link.parent]
        p = p + R @ link.placement.translation
        R = R @ link.placement.rotation
        if link.kind == "prismatic":
            p = p + (R @ link.axis) * q[:, column[k], None]
        elif link.kind == "revolute":
            R = R @ _rotations_about_axis(link.axis, q[:, column[k]])
        rotation[k], position[k] = R, p
    return Poses(rotation, position)


def _rotations_about_axis(axis: Array, angle: Array) -> Array:
    """Rotations (N, 3, 3) about a unit axis (Rodrigues)."""
    K = skew(axis)
    return np.asarray(np.eye(3) + np.sin(angle)[:, None, None] * K + (1.0 - np.cos(angle))[:, None, None] * (K @ K))


def angular_motion(robot: Robot, poses: Poses, v: Array, a: Array) -> tuple[dict[int, Array], dict[int, Array]]:
    """Angular velocity and acceleration (N, 3) of every link in frame 0; v, a (N, joints of the tree)."""
    omega, alpha = {-1: np.zeros((len(v), 3))}, {-1: np.zeros((len(v), 3))}
    column = {k: j for j, k in enumerate(robot.tree_joints)}
    for k in robot.topological_order:
        link = robot.links[k]
        before = omega[k] = omega[link.parent]
        alpha[k] = alpha[link.parent]
        if link.kind == "revolute":
            z, j = poses.rotation[k] @ link.axis, column[k]
            omega[k] = before + z * v[:, j, None]
            alpha[k] = alpha[k] + z * a[:, j, None] + np.cross(before, z) * v[:, j, None]
    return omega, alpha


V, A, LINK = POSE, POSE + SPATIAL, POSE + 2 * SPATIAL
"""Of a link, after its pose in the parent's frame: v and a in its own; numbers of a link."""

GRAVITY, HEIGHT, BASE_FRAME = 2 * SPATIAL, 2 * SPATIAL + 3, 2 * SPATIAL + 4
"""Of the base frame, after its v and a: gravity in its axes, minus gravity times its position; numbers of it all."""

XX, XY, XZ, YY, YZ, ZZ, MX, MY, MZ, M = range(10)
"""Standard parameters of a body: inertia about its frame's origin, first moments, mass."""


@inlined
def write_link_rotation(geometry: Geometry, i: int, q: float, out: Array, at: int) -> None:
    """Write R(q) of link i in its parent's axes."""
    if geometry.kind[i] == REVOLUTE:
        sine, cosine = sine_cosine(q)
        for k in range(ROTATION):
            out[at + k] = (
                geometry.rotation[i, 0, k] + sine * geometry.rotation[i, 1, k] + cosine * geometry.rotation[i, 2, k]
            )
    else:
        for k in range(ROTATION):
            out[at + k] = geometry.rotation[i, 0, k]


@inlined
def write_link_motions(geometry: Geometry, samples: Samples, n: int, links: Array) -> None:
    """Write links (L * LINK,): pose, velocity and acceleration of every link at sample n."""
    for i in range(geometry.parent.shape[0]):
        at = i * LINK
        j = geometry.joint[i]
        kind = geometry.kind[i]
        q = qd = qdd = 0.0
        if j >= 0:
            q, qd, qdd = samples.q[n, j], samples.qd[n, j], samples.qdd[n, j]
        write_link_rotation(geometry, i, q, links, at)
        R = load_rotation(links, at)
        e = load_row_vector(geometry.axis, i, 0)
        p = load_row_vector(geometry.translation, i, 0)
        if kind == PRISMATIC:
            p = add(p, scale(q, rotate(R, e)))
        store_vector(links, at + POSITION, p)
        (w, v), (wd, acc) = parent_motion(geometry, samples, n, links, i)
        wp = cross(w, p)
        acc = rotate_back(R, add(acc, add(cross(wd, p), cross(w, wp))))
        v = rotate_back(R, add(v, wp))
        w = rotate_back(R, w)
        wd = rotate_back(R, wd)
        if kind == REVOLUTE:
            wd = add(wd, add(scale(qdd, e), scale(qd, cross(w, e))))
            w = add(w, scale(qd, e))
        elif kind == PRISMATIC:
            acc = add(acc, add(scale(qdd, e), scale(2.0 * qd, cross(w, e))))
            v = add(v, scale(qd, e))
        store_spatial(links, at + V, (w, v))
        store_spatial(links, at + A, (wd, acc))


@inlined
def parent_motion(geometry: Geometry, samples: Samples, n: int, links: Array, i: int) -> tuple[Spatial, Spatial]:
    """Return v and a of link i's parent, in the parent's frame."""
    if geometry.parent[i] < 0:
        return base_motion(samples, n)
    at = geometry.parent[i] * LINK
    return load_spatial(links, at + V), load_spatial(links, at + A)


@inlined
def base_row_of_sample(samples: Samples, n: int) -> int:
    """Row of the base frame's motion at sample n: there is one for all samples if it rests."""
    return n if samples.base_frame.shape[0] > 1 else 0


@inlined
def base_motion(samples: Samples, n: int) -> tuple[Spatial, Spatial]:
    """Return v and a of the base frame, in its own axes."""
    b, x = base_row_of_sample(samples, n), samples.base_frame
    v = load_row_vector(x, b, 0), load_row_vector(x, b, LINEAR)
    return v, (load_row_vector(x, b, SPATIAL), load_row_vector(x, b, SPATIAL + LINEAR))


@inlined
def write_link_poses(geometry: Geometry, links: Array, world: Array) -> None:
    """Write world (L * POSE,): the poses of all links in the base frame."""
    for i in range(geometry.parent.shape[0]):
        at, own, before = i * POSE, i * LINK, geometry.parent[i] * POSE
        if before < 0:
            for k in range(POSE):
                world[at + k] = links[own + k]
            continue
        R = load_rotation(links, own)
        p = load_vector(links, own + POSITION)
        for r in range(3):
            row = load_vector(world, before + 3 * r)
            store_vector(world, at + 3 * r, rotate_back(R, row))
            world[at + POSITION + r] = world[before + POSITION + r] + dot(row, p)


# What one rigid body contributes: the force f = I a + v x* I v, linear in its ten standard parameters.
#
# A body with angular velocity w, angular acceleration wd and acceleration acc of its frame's origin takes the
# force  moment = J wd + w x J w + MS x acc,  force = M acc + wd x MS + w x (w x MS). The same formulas with
# (0, w, v) instead of (w, wd, acc) give its momentum I v, with (0, 0, -g) its weight.


Body: TypeAlias = tuple[Vector, Vector, Vector, Vector, tuple[Vector, Vector, Vector]]
"""wd, acc, the squares of w, its products (w1 w2, w0 w2, w0 w1), and D = [wd] + [w][w]."""


@inlined
def body_terms(w: Vector, a: Spatial) -> Body:
    """Terms of a link's angular velocity w and acceleration a = (wd; acc) that the row of its body needs."""
    wd, acc = a
    w00, w11, w22 = w[0] * w[0], w[1] * w[1], w[2] * w[2]
    w01, w02, w12 = w[0] * w[1], w[0] * w[2], w[1] * w[2]
    D = (
        (-w11 - w22, w01 - wd[2], w02 + wd[1]),
        (w01 + wd[2], -w00 - w22, w12 - wd[0]),
        (w02 - wd[1], w12 + wd[0], -w00 - w11),
    )
    return wd, acc, (w00, w11, w22), (w12, w02, w01), D


@inlined
def write_body_row(body: Body, S: Spatial, out: Array, at: int) -> None:
    """Write the ten coefficients of S.f, f the body's force, at out[at:at + 10]."""
    wd, acc, square, product, D = body
    u, y = S
    w12, w02, w01 = product
    out[at + XX] = u[0] * wd[0] + u[1] * w02 - u[2] * w01
    out[at + XY] = u[0] * (wd[1] - w02) + u[1] * (wd[0] + w12) + u[2] * (square[0] - square[1])
    out[at + XZ] = u[0] * (wd[2] + w01) + u[1] * (square[2] - square[0]) + u[2] * (wd[0] - w12)
    out[at + YY] = u[1] * wd[1] + u[2] * w01 - u[0] * w12
    out[at + YZ] = u[0] * (square[1] - square[2]) + u[1] * (wd[2] - w01) + u[2] * (wd[1] + w02)
    out[at + ZZ] = u[0] * w12 - u[1] * w02 + u[2] * wd[2]
    moment = cross(acc, u)
    out[at + MX] = y[0] * D[0][0] + y[1] * D[1][0] + y[2] * D[2][0] + moment[0]
    out[at + MY] = y[0] * D[0][1] + y[1] * D[1][1] + y[2] * D[2][1] + moment[1]
    out[at + MZ] = y[0] * D[0][2] + y[1] * D[1][2] + y[2] * D[2][2] + moment[2]
    out[at + M] = dot(y, acc)


@inlined
def add_gravity_row(g: Vector, S: Spatial, out: Array, at: int) -> None:
    """Add the coefficients of S.f, f the force that acc = g alone takes, at out[at:at + 10]."""
    moment = cross(g, S[0])
    out[at + MX] += moment[0]
    out[at + MY] += moment[1]
    out[at + MZ] += moment[2]
    out[at + M] += dot(S[1], g)


@inlined
def force_of_body(body: Body, I: Array, at: int) -> Spatial:
    """Force that a body with the ten parameters I[at:at + 10] takes."""
    wd, acc, square, product, D = body
    w12, w02, w01 = product
    ms = load_vector(I, at + MX)
    m = I[at + M]
    xx, xy, xz, yy, yz, zz = I[at + XX], I[at + XY], I[at + XZ], I[at + YY], I[at + YZ], I[at + ZZ]
    moment = (
        xx * wd[0] + xy * (wd[1] - w02) + xz * (wd[2] + w01) - yy * w12 + yz * (square[1] - square[2]) + zz * w12,
        xx * w02 + xy * (wd[0] + w12) + xz * (square[2] - square[0]) + yy * wd[1] + yz * (wd[2] - w01) - zz * w02,
        -xx * w01 + xy * (square[0] - square[1]) + xz * (wd[0] - w12) + yy * w01 + yz * (wd[1] + w02) + zz * wd[2],
    )
    force = (
        dot(D[0], ms) + m * acc[0],
        dot(D[1], ms) + m * acc[1],
        dot(D[2], ms) + m * acc[2],
    )
    return add(moment, cross(ms, acc)), force


@inlined
def momentum_of_body(I: Array, at: int, v: Spatial) -> Spatial:
    """I v: momentum of a body with the ten parameters I[at:at + 10]."""
    ms = load_vector(I, at + MX)
    m = I[at + M]
    u, y = v
    turned = (
        I[at + XX] * u[0] + I[at + XY] * u[1] + I[at + XZ] * u[2],
        I[at + XY] * u[0] + I[at + YY] * u[1] + I[at + YZ] * u[2],
        I[at + XZ] * u[0] + I[at + YZ] * u[1] + I[at + ZZ] * u[2],
    )
    return add(turned, cross(ms, y)), add(cross(u, ms), (m * y[0], m * y[1], m * y[2]))


@inlined
def bias_quadratic_form(I: Array, at: int, S: Spatial) -> tuple[Vector, Vector]:
    """Diagonal and off-diagonal (12, 02, 01) of the symmetric Q with S.(w x J w; w x (w x MS)) = w'Qw/2."""
    u, y = S
    xx, xy, xz, yy, yz, zz = I[at + XX], I[at + XY], I[at + XZ], I[at + YY], I[at + YZ], I[at + ZZ]
    m0, m1, m2 = load_vector(I, at + MX)
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
