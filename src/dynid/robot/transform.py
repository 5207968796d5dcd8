"""Rigid transforms as a rotation (3, 3) and a translation (3,): T_a_b takes coordinates of b to a."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dynid.storage.records import Bytes, Numbers

Array: TypeAlias = Annotated[NDArray[np.float64], Bytes()]
FiniteArray: TypeAlias = Annotated[NDArray[np.float64], Bytes(finite=True)]
Vector: TypeAlias = Annotated[Array, Numbers((3,))]
Matrix: TypeAlias = Annotated[Array, Numbers((3, 3))]

SNAP_TOLERANCE = 1e-4
"""Angles this close to a multiple of 90 degrees (rad) are rounded to it."""


def freeze(values: object) -> Array:
    """Return a read-only float copy of an array."""
    array = np.array(values, dtype=np.float64)
    array.flags.writeable = False
    return array


def cos_sin(angle: float) -> tuple[float, float]:
    """Cosine and sine, exactly 0 or +-1 at the floating-point multiples of 90 degrees."""
    quarter = round(angle / (math.pi / 2))
    if angle == quarter * (math.pi / 2):
        return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[quarter % 4]
    return math.cos(angle), math.sin(angle)


def snap_angle(angle: float) -> float:
    """Return the multiple of 90 degrees within SNAP_TOLERANCE of the angle, else the angle."""
    nearest = round(angle / (math.pi / 2)) * (math.pi / 2)
    return nearest if abs(angle - nearest) <= SNAP_TOLERANCE else angle


def skew(x: Array) -> Array:
    """Matrix of the cross product: skew(x) @ y = x cross y."""
    return np.array([[0.0, -x[2], x[1]], [x[2], 0.0, -x[0]], [-x[1], x[0], 0.0]])


def rotation_x(angle: float) -> Array:
    """Rotation about x."""
    c, s = cos_sin(angle)
    return np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])


def rotation_z(angle: float) -> Array:
    """Rotation about z."""
    c, s = cos_sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def rotation_about(axis: Array, angle: float) -> Array:
    """Rotation about a unit axis (Rodrigues)."""
    c, s = cos_sin(angle)
    K = skew(axis)
    return np.asarray(np.eye(3) + s * K + (1.0 - c) * K @ K)


def rotation_from_rpy(roll: float, pitch: float, yaw: float) -> Array:
    """Return the rotation of URDF's angles, Rz(yaw) Ry(pitch) Rx(roll)."""
    (cr, sr), (cp, sp), (cy, sy) = map(cos_sin, (roll, pitch, yaw))
    return np.array([
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ])  # fmt: skip


def rpy_from_rotation(R: Array) -> tuple[float, float, float]:
    """Angles of URDF, R = Rz(yaw) Ry(pitch) Rx(roll); exact to rounding also where pitch is a right angle."""
    yaw = float(np.arctan2(R[1, 0], R[0, 0])) if np.hypot(R[0, 0], R[1, 0]) > 0.0 else 0.0
    c, s = np.cos(yaw), np.sin(yaw)
    pitch = np.arctan2(-R[2, 0], c * R[0, 0] + s * R[1, 0])
    roll = np.arctan2(s * R[0, 2] - c * R[1, 2], c * R[1, 1] - s * R[0, 1])
    return float(roll), float(pitch), yaw


def quaternion_from_rotation(R: Array) -> Array:
    """Unit quaternion w x y z of a rotation, from its largest component (Shepperd)."""
    K = np.array([
        [R[0, 0] + R[1, 1] + R[2, 2], R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]],
        [R[2, 1] - R[1, 2], R[0, 0] - R[1, 1] - R[2, 2], R[0, 1] + R[1, 0], R[0, 2] + R[2, 0]],
        [R[0, 2] - R[2, 0], R[0, 1] + R[1, 0], R[1, 1] - R[0, 0] - R[2, 2], R[1, 2] + R[2, 1]],
        [R[1, 0] - R[0, 1], R[0, 2] + R[2, 0], R[1, 2] + R[2, 1], R[2, 2] - R[0, 0] - R[1, 1]],
    ])  # fmt: skip
    k = int(np.argmax(np.diag(K)))
    column = K[:, k] + np.eye(4)[k]
    w = column / np.linalg.norm(column)
    return np.asarray(w if w[0] >= 0.0 else -w)


def clean_rotation(R: Array) -> Array:
    """Rotation with entries below 4e-15, which rounding left of zeros, set to zero."""
    return np.where(np.abs(R) < 4e-15, 0.0, R)


@dataclass(frozen=True, slots=True, eq=False)
class Transform:
    """Pose of one frame in another.

    Parameters
    ----------
    rotation : (3, 3) array
        Rotation matrix.
    translation : (3,) array
        Origin, m.

    Examples
    --------
    >>> from dynid import Transform
    >>> (Transform.identity() @ Transform.identity().inverse()).translation
    array([0., 0., 0.])
    """

    rotation: Matrix
    translation: Vector

    def __post_init__(self) -> None:
        object.__setattr__(self, "rotation", freeze(self.rotation))
        object.__setattr__(self, "translation", freeze(self.translation))

    @staticmethod
    def identity() -> Transform:
        """Transform between two frames that coincide.

        Returns
        -------
        Transform
            Identity rotation and zero translation.
        """
        return Transform(np.eye(3), np.zeros(3))

    def __matmul__(self, other: Transform) -> Transform:
        return Transform(
            clean_rotation(self.rotation @ other.rotation),
            self.rotation @ other.translation + self.translation,
        )

    def inverse(self) -> Transform:
        """Inverse transform: T_b_a of T_a_b.

        Returns
        -------
        Transform
            The inverse.
        """
        R = self.rotation.T
        return Transform(R, -R @ self.translation)
