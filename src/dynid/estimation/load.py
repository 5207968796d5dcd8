"""A payload that is known: mass, centre of mass and inertia, checked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.errors import IdentificationError
from dynid.robot.inertia import Body, from_body, inertia_matrix, pseudo_inertia
from dynid.robot.transform import Array


def load_parameters(mass: float, com: Sequence[float] | Array, inertia: object = None) -> Array:
    """Ten standard parameters XX XY XZ YY YZ ZZ MX MY MZ M of a known body, in the frame of the link that carries it.

    mass in kg, com (3,) in m, inertia about the centre of mass in kg m^2: (3, 3), or the six ixx, ixy, ixz, iyy, iyz,
    izz (matrix elements); missing: a point mass.
    """
    m, c = _numbers("mass", mass, ()), _numbers("com", com, (3,))
    J = np.zeros((3, 3))
    if inertia is not None:
        J = _numbers("inertia", inertia, (3, 3), (6,))
        J = inertia_matrix(J) if J.ndim == 1 else J
        if not np.allclose(J, J.T, rtol=1e-9, atol=1e-12):
            raise IdentificationError("the inertia of the payload must be a symmetric matrix")
    return check_load(from_body(Body(float(m), c, J)))


def check_load(parameters: object) -> Array:
    """Ten standard parameters that a body can have."""
    p = _numbers("parameters", parameters, (10,))
    if p[9] <= 0.0:
        raise IdentificationError(f"the mass of the payload must be positive, got {p[9]:.6g} kg")
    P = pseudo_inertia(p)
    if np.linalg.eigvalsh(P).min() < -1e-6 * np.abs(P).max():
        raise IdentificationError(
            "no body has the inertia of this payload: about its centre of mass, each principal moment is at most the "
            "sum of the two others"
        )
    return p


def _numbers(what: str, value: object, *shapes: tuple[int, ...]) -> Array:
    try:
        x = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        x = np.array(np.nan)
    if x.shape not in shapes or not np.isfinite(x).all():
        counts = " or ".join(" x ".join(map(str, shape)) or "one" for shape in shapes)
        got = str(value)[:60]
        raise IdentificationError(f"{what} of the payload: give finite numbers ({counts} of them), got {got!r}")
    return x
