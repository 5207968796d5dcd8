"""How the kernels are compiled, and vectors of three as tuples, which the compiler keeps in registers.

Views of arrays inside hot loops cost reference counts (a factor of two here), so kernels work on flat
buffers with offsets and on tuples; see docs/decisions/0002-kernel.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeAlias, TypeVar

import numba

from dynid.robot.transform import Array

P = ParamSpec("P")
T = TypeVar("T")

Vector: TypeAlias = tuple[float, float, float]
Rotation: TypeAlias = tuple[float, float, float, float, float, float, float, float, float]

_OPTIONS = {"cache": True, "nogil": True, "fastmath": {"contract"}, "error_model": "numpy"}


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a kernel: cached on disk, without the GIL, multiply-adds fused."""
    jit: Callable[[Callable[P, T]], Callable[P, T]] = numba.njit(**_OPTIONS)
    return jit(function)


def inlined(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a small function into its callers."""
    jit: Callable[[Callable[P, T]], Callable[P, T]] = numba.njit(forceinline=True, **_OPTIONS)
    return jit(function)


@inlined
def load(x: Array, at: int) -> Vector:
    """Vector stored at x[at:at + 3]."""
    return x[at], x[at + 1], x[at + 2]


@inlined
def store(x: Array, at: int, a: Vector) -> None:
    """Store a vector at x[at:at + 3]."""
    x[at] = a[0]
    x[at + 1] = a[1]
    x[at + 2] = a[2]


@inlined
def accumulate(x: Array, at: int, a: Vector) -> None:
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
    """Sum."""
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@inlined
def scale(s: float, a: Vector) -> Vector:
    """Multiple."""
    return s * a[0], s * a[1], s * a[2]


@inlined
def dot(a: Vector, b: Vector) -> float:
    """Scalar product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@inlined
def cross(a: Vector, b: Vector) -> Vector:
    """Vector product."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@inlined
def turn(R: Rotation, a: Vector) -> Vector:
    """R a: from the link's frame outwards."""
    return (
        R[0] * a[0] + R[1] * a[1] + R[2] * a[2],
        R[3] * a[0] + R[4] * a[1] + R[5] * a[2],
        R[6] * a[0] + R[7] * a[1] + R[8] * a[2],
    )


@inlined
def turn_back(R: Rotation, a: Vector) -> Vector:
    """R' a: into the link's frame."""
    return (
        R[0] * a[0] + R[3] * a[1] + R[6] * a[2],
        R[1] * a[0] + R[4] * a[1] + R[7] * a[2],
        R[2] * a[0] + R[5] * a[1] + R[8] * a[2],
    )
