"""Standard inertial parameters of a link and their other forms.

A link has ten: XX XY XZ YY YZ ZZ (inertia matrix about the frame's origin, kg m^2, XY being the matrix
element itself), MX MY MZ (first moments, kg m) and M (kg), all in the link frame (Gautier 1991, eq. 1-3);
a moving joint adds Ia, the rotor's inertia on the joint side (kg m^2, or kg for a prismatic joint).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.robot.transform import Array, Transform, skew

SYMBOLS = ("XX", "XY", "XZ", "YY", "YZ", "ZZ", "MX", "MY", "MZ", "M")
ROTOR = "Ia"
UNITS = ("kg m^2",) * 6 + ("kg m",) * 3 + ("kg",)

_FROM_PINOCCHIO = (4, 5, 7, 6, 8, 9, 1, 2, 3, 0)
"""Where XX XY XZ YY YZ ZZ MX MY MZ M stand in m mx my mz Ixx Ixy Iyy Ixz Iyz Izz."""

ROUNDING = 1e-12
"""Share of a pseudo-inertia's largest eigenvalue that is rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """Mass (kg), centre of mass (3,) in m, inertia about it (3, 3) in kg m^2, in the link frame."""

    mass: float
    com: Array
    inertia: Array


def inertia_matrix(x: Array) -> Array:
    """Inertia matrix (3, 3) about the frame's origin, from ten standard parameters."""
    xx, xy, xz, yy, yz, zz = x[:6]
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _inertia_elements(J: Array) -> Array:
    """Elements XX XY XZ YY YZ ZZ of an inertia matrix."""
    return np.array([J[0, 0], J[0, 1], J[0, 2], J[1, 1], J[1, 2], J[2, 2]])


def from_body(body: Body) -> Array:
    """Ten standard parameters of a body (parallel axes: J = Jc - m [c][c])."""
    C = skew(np.asarray(body.com))
    J = np.asarray(body.inertia) - body.mass * C @ C
    return np.concatenate([_inertia_elements(J), body.mass * np.asarray(body.com), [body.mass]])


def to_body(x: Array) -> Body:
    """Body of ten standard parameters: mass, centre of mass (the origin without mass), inertia about it."""
    mass = float(x[9])
    com = np.array(x[6:9]) / mass if mass != 0.0 else np.zeros(3)
    C = skew(com)
    return Body(mass, com, inertia_matrix(x) + mass * C @ C)


def from_pinocchio(p: Array) -> Array:
    """Ten standard parameters from pinocchio's order m mx my mz Ixx Ixy Iyy Ixz Iyz Izz."""
    return np.asarray(p)[..., _FROM_PINOCCHIO]


def pseudo_inertia(x: Array) -> Array:
    """Pseudo-inertia matrix (4, 4): [[tr(J)/2 - J, MS], [MS', M]]; positive definite iff a body can have it."""
    J = inertia_matrix(x)
    P = np.empty((4, 4))
    P[:3, :3] = 0.5 * np.trace(J) * np.eye(3) - J
    P[:3, 3] = P[3, :3] = x[6:9]
    P[3, 3] = x[9]
    return P


def is_possible_body(x: Array, *, strictly: bool = False, part_of: Array | None = None) -> bool:
    """Whether ten parameters can be those of a body: its pseudo-inertia is not negative (or positive, strictly).

    part_of: parameters from which these were subtracted, whose rounding they have.
    """
    eigenvalues = np.linalg.eigvalsh(pseudo_inertia(x))
    whole = eigenvalues if part_of is None else np.linalg.eigvalsh(pseudo_inertia(part_of))
    bound = ROUNDING * float(np.abs(whole).max())
    return bool(eigenvalues[0] > bound) if strictly else bool(eigenvalues[0] >= -bound)


def from_pseudo_inertia(P: Array) -> Array:
    """Ten standard parameters from the pseudo-inertia matrix."""
    S = P[:3, :3]
    return np.concatenate([_inertia_elements(np.trace(S) * np.eye(3) - S), P[:3, 3], [P[3, 3]]])


def change_of_frame(T: Transform) -> Array:
    """Matrix (10, 10) that takes standard parameters in frame b to frame a, T = T_a_b.

    The pseudo-inertia changes as P_a = T P_b T', with T the homogeneous (4, 4) matrix.
    """
    H = np.eye(4)
    H[:3, :3], H[:3, 3] = T.rotation, T.translation
    A = np.empty((10, 10))
    for k, unit in enumerate(np.eye(10)):
        A[:, k] = from_pseudo_inertia(H @ pseudo_inertia(unit) @ H.T)
    return A
