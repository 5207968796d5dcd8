"""Vectors, rotations and spatial vectors as tuples, which the compiler keeps in registers: Featherstone's algebra.

Views of arrays inside hot loops cost reference counts (a factor of two here), so kernels work on flat buffers with
offsets and on tuples. Arrays that belong together are handed over in named tuples, whose fields are read before a loop:
inside it each reading may cost a reference count (a quarter here); see docs/decisions/0002-kernel.md.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from dynid.dynamics.kernels.compiled import inlined
from dynid.robot.transform import Array

Vector: TypeAlias = tuple[float, float, float]
Rotation: TypeAlias = tuple[float, float, float, float, float, float, float, float, float]
Pose: TypeAlias = tuple[Rotation, Vector]
"""X = (R, p): axes and origin of a frame in another; Featherstone's E is R', his r is p."""
Spatial: TypeAlias = tuple[Vector, Vector]
"""A motion (angular; linear at the origin) or a force (moment about the origin; force)."""

ROTATION = POSITION = 9
POSE = 12
"""Numbers of R, row by row, which is where p begins; numbers of a pose."""
LINEAR, SPATIAL = 3, 6
"""Where the second half of a spatial vector begins; its numbers."""


@inlined
def sine_cosine(x: float) -> tuple[float, float]:
    """Sine and cosine together, within 3e-16: reduction by pi/2 in three parts, then Cephes' polynomials.

    Two calls of the C library cost a third of all link motion; beyond 1e5 rad they are taken all the same.
    """
    if abs(x) > 1e5:
        return math.sin(x), math.cos(x)
    k = np.rint(x * 0.6366197723675814)
    r = ((x - k * 1.5707963267341256) - k * 6.077100506303966e-11) - k * 2.0222662487959506e-21
    z = r * r
    p = 1.58962301576546568060e-10 * z - 2.50507477628578072866e-8
    p = ((p * z + 2.75573136213857245213e-6) * z - 1.98412698295895385996e-4) * z + 8.33333333332211858878e-3
    s = r + r * z * (p * z - 1.66666666666666307295e-1)
    p = -1.13585365213876817300e-11 * z + 2.08757008419747316778e-9
    p = ((p * z - 2.75573141792967388112e-7) * z + 2.48015872888517045348e-5) * z - 1.38888888888730564116e-3
    c = 1.0 - 0.5 * z + z * z * (p * z + 4.16666666666665929218e-2)
    quarter = int(k) & 3
    if quarter & 1:
        s, c = c, s
    return -s if quarter & 2 else s, -c if (quarter + 1) & 2 else c


@inlined
def load_vector(x: Array, at: int) -> Vector:
    """Vector stored at x[at:at + 3]."""
    return x[at], x[at + 1], x[at + 2]


@inlined
def load_row_vector(x: Array, i: int, at: int) -> Vector:
    """Vector stored at x[i, at:at + 3], in row i of a matrix."""
    return x[i, at], x[i, at + 1], x[i, at + 2]


@inlined
def store_vector(x: Array, at: int, a: Vector) -> None:
    """Store a vector at x[at:at + 3]."""
    x[at] = a[0]
    x[at + 1] = a[1]
    x[at + 2] = a[2]


@inlined
def accumulate_vector(x: Array, at: int, a: Vector) -> None:
    """Add a vector to x[at:at + 3]."""
    x[at] += a[0]
    x[at + 1] += a[1]
    x[at + 2] += a[2]


@inlined
def load_rotation(x: Array, at: int) -> Rotation:
    """Rotation stored row by row at x[at:at + 9]."""
    return x[at], x[at + 1], x[at + 2], x[at + 3], x[at + 4], x[at + 5], x[at + 6], x[at + 7], x[at + 8]


@inlined
def add(a: Vector, b: Vector) -> Vector:
    """Sum of two vectors."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@inlined
def scale(s: float, a: Vector) -> Vector:
    """Multiple of a vector."""
    return s * a[0], s * a[1], s * a[2]


@inlined
def dot(a: Vector, b: Vector) -> float:
    """Scalar product of two vectors."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@inlined
def cross(a: Vector, b: Vector) -> Vector:
    """Vector product of two vectors."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@inlined
def rotate(R: Rotation, a: Vector) -> Vector:
    """R a: from the link's frame outwards."""
    return (
        R[0] * a[0] + R[1] * a[1] + R[2] * a[2],
        R[3] * a[0] + R[4] * a[1] + R[5] * a[2],
        R[6] * a[0] + R[7] * a[1] + R[8] * a[2],
    )


@inlined
def rotate_back(R: Rotation, a: Vector) -> Vector:
    """R' a: into the link's frame."""
    return (
        R[0] * a[0] + R[3] * a[1] + R[6] * a[2],
        R[1] * a[0] + R[4] * a[1] + R[7] * a[2],
        R[2] * a[0] + R[5] * a[1] + R[8] * a[2],
    )


# Spatial algebra, Featherstone 2008, chapter 2.


@inlined
def load_pose(x: Array, at: int) -> Pose:
    """Pose stored at x[at:at + POSE]."""
    return load_rotation(x, at), load_vector(x, at + POSITION)


@inlined
def load_spatial(x: Array, at: int) -> Spatial:
    """Spatial vector stored at x[at:at + SPATIAL]."""
    return load_vector(x, at), load_vector(x, at + LINEAR)


@inlined
def store_spatial(x: Array, at: int, m: Spatial) -> None:
    """Store a spatial vector at x[at:at + SPATIAL]."""
    store_vector(x, at, m[0])
    store_vector(x, at + LINEAR, m[1])


@inlined
def accumulate_spatial(x: Array, at: int, m: Spatial) -> None:
    """Add a spatial vector to x[at:at + SPATIAL]."""
    accumulate_vector(x, at, m[0])
    accumulate_vector(x, at + LINEAR, m[1])


@inlined
def motion_into_frame(X: Pose, m: Spatial) -> Spatial:
    """X m: a motion, written in the frame of the pose."""
    R, p = X
    return rotate_back(R, m[0]), rotate_back(R, add(m[1], cross(m[0], p)))


@inlined
def motion_out_of_frame(X: Pose, m: Spatial) -> Spatial:
    """X^-1 m: a motion of the frame, written in the one that the pose is given in."""
    R, p = X
    w = rotate(R, m[0])
    return w, add(rotate(R, m[1]), cross(p, w))


@inlined
def force_out_of_frame(X: Pose, f: Spatial) -> Spatial:
    """X' f: a force of the frame, written in the one that the pose is given in."""
    R, p = X
    force = rotate(R, f[1])
    return add(rotate(R, f[0]), cross(p, force)), force


@inlined
def cross_motion(v: Spatial, m: Spatial) -> Spatial:
    """Rate of a motion that goes along with v: v x m = (w x m0; w x m1 + v x m0)."""
    return cross(v[0], m[0]), add(cross(v[0], m[1]), cross(v[1], m[0]))


@inlined
def cross_force(v: Spatial, f: Spatial) -> Spatial:
    """Rate of a force that goes along with v: v x* f = (w x f0 + v x f1; w x f1); m.(v x* f) = f.(m x v)."""
    return add(cross(v[0], f[0]), cross(v[1], f[1])), cross(v[0], f[1])


@inlined
def spatial_dot(m: Spatial, f: Spatial) -> float:
    """Work of a force on a motion."""
    return dot(m[0], f[0]) + dot(m[1], f[1])
