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

from dynid.kernel.compiled import (
    Rotation,
    Vector,
    accumulate,
    add,
    cross,
    dot,
    inlined,
    load,
    load_rotation,
    store,
    turn,
    turn_back,
)
from dynid.kernel.geometry import Geometry
from dynid.kernel.links import ACC, STATE, WD, V, W
from dynid.kernel.rows import base_twist, crossed, joint_twist
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
