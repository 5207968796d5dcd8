"""Markers in images of calibrated cameras, triangulated with their uncertainty.

A camera with the projection matrix P (3, 4) sees X at u = P [X; 1] up to scale. Two or more rays start from the linear
solution and end where the image points fit best: Gauss-Newton on reprojection errors, weighted by the noise in pixels
(Hartley and Zisserman, Multiple View Geometry, 12.2). The inverse of its normal matrix is the covariance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynid.errors import DynidError
from dynid.messages import Message
from dynid.robot.transform import Array
from dynid.storage.files import read_toml

PARALLEL = 1e-3
"""Largest angle (rad) between the rays of a point below which its depth is not determined."""

STEPS = 20
CHUNK = 20_000
ODD = 3.0
"""Reprojection errors this many times larger than the noise are named."""


@dataclass(frozen=True, slots=True, eq=False)
class Camera:
    """A calibrated camera: projection from lengths to pixels, and lens distortion.

    Parameters
    ----------
    name : str
        What its columns begin with: `cam1.m3.u`.
    matrix : (3, 4) array
        P = K [R t] of the image without distortion, from m (or another length) to pixels.
    distortion : tuple of up to 5 floats
        k1, k2, p1, p2, k3 as in OpenCV, in coordinates of K, which P holds.
    noise : float
        Standard deviation of an image point, pixels.
    """

    name: str
    matrix: Array
    distortion: tuple[float, ...] = ()
    noise: float = 1.0
    intrinsics: Array = field(init=False)

    def __post_init__(self) -> None:
        P = _to_numbers(self.name, "matrix", self.matrix)
        if P.shape != (3, 4) or np.linalg.matrix_rank(P[:, :3]) < 3:
            raise DynidError(
                "camera_matrix_malformed", "camera '{camera}': its matrix must be 3 rows of 4 numbers, of a camera "
                "at a finite place, got shape {shape!s}", camera=self.name, shape=P.shape,
            )  # fmt: skip
        lens = _to_numbers(self.name, "distortion", self.distortion)
        if lens.ndim != 1 or len(lens) > 5:
            raise DynidError(
                "camera_distortion_malformed", "camera '{camera}': distortion is k1, k2, p1, p2, k3, the last ones 0 "
                "where missing, got {count} numbers", camera=self.name, count=lens.size,
            )  # fmt: skip
        if not (isinstance(self.noise, int | float) and 0.0 < self.noise < np.inf):
            raise DynidError(
                "camera_noise_not_positive", "camera '{camera}': noise must be positive pixels, got {noise!r}",
                camera=self.name, noise=self.noise,
            )  # fmt: skip
        P = P * (np.sign(np.linalg.det(P[:, :3])) / np.linalg.norm(P[2, :3]))  # depths in front are positive
        object.__setattr__(self, "matrix", P)
        object.__setattr__(self, "distortion", (*map(float, lens), *(0.0,) * (5 - len(lens))))
        object.__setattr__(self, "intrinsics", _intrinsic_matrix(P))

    @property
    def centre(self) -> Array:
        """Centre of projection (3,), where the camera is."""
        return np.asarray(-np.linalg.solve(self.matrix[:, :3], self.matrix[:, 3]))

    def undistort(self, points: Array) -> tuple[Array, Array]:
        """Remove the lens distortion of image points.

        Newton's method on the distortion in normalised coordinates.

        Parameters
        ----------
        points : (N, 2) array
            Image points as recorded, pixels.

        Returns
        -------
        tuple of (N, 2) array and (N, 2, 2) array
            Points without distortion, NaN where there is none, and the derivatives d(distorted) / d(undistorted), by
            which errors become those of the measured pixels.
        """
        K = self.intrinsics
        D = np.broadcast_to(np.eye(2), (len(points), 2, 2)).copy()
        if not any(self.distortion):
            return points, D
        A = K[:2, :2]
        seen: Array = np.asarray(np.linalg.solve(A, (np.nan_to_num(points) - K[:2, 2]).T).T, dtype=np.float64)
        x = seen.copy()
        for _ in range(STEPS):
            distorted, D = self._distort(x)
            away = seen - distorted
            det = D[:, 0, 0] * D[:, 1, 1] - D[:, 0, 1] * D[:, 1, 0]
            det = np.where(np.abs(det) > 1e-6, det, 1e-6)
            step = np.stack([
                D[:, 1, 1] * away[:, 0] - D[:, 0, 1] * away[:, 1], D[:, 0, 0] * away[:, 1] - D[:, 1, 0] * away[:, 0],
            ], axis=1) / det[:, None]  # fmt: skip
            x += np.clip(step, -0.2, 0.2)
        distorted, D = self._distort(x)
        found = (np.abs(distorted - seen).max(axis=1) < 1e-9) & (np.linalg.det(D) > 0.0)
        x[~found | ~np.isfinite(points).all(axis=1)] = np.nan
        return x @ A.T + K[:2, 2], np.asarray(A @ D @ np.linalg.inv(A))

    def _distort(self, x: Array) -> tuple[Array, Array]:
        """Distorted coordinates of x (N, 2), and their derivative (N, 2, 2)."""
        k1, k2, p1, p2, k3 = self.distortion
        a, b = x.T
        r = a * a + b * b
        radial, slope = 1.0 + r * (k1 + r * (k2 + r * k3)), k1 + r * (2.0 * k2 + 3.0 * r * k3)
        y = np.stack([
            a * radial + 2.0 * p1 * a * b + p2 * (r + 2.0 * a * a),
            b * radial + p1 * (r + 2.0 * b * b) + 2.0 * p2 * a * b,
        ], axis=1)  # fmt: skip
        cross = 2.0 * a * b * slope + 2.0 * p1 * a + 2.0 * p2 * b
        D = np.stack([
            radial + 2.0 * a * a * slope + 2.0 * p1 * b + 6.0 * p2 * a, cross,
            cross, radial + 2.0 * b * b * slope + 6.0 * p1 * b + 2.0 * p2 * a,
        ], axis=1).reshape(-1, 2, 2)  # fmt: skip
        return y, D


@dataclass(frozen=True, slots=True, eq=False)
class Triangulation:
    """Points found from their images.

    Attributes
    ----------
    points : (N, m, 3) array
        Points in the unit of length of the cameras' matrices, NaN where they are not determined.
    covariance : (N, m, 3, 3) array
        Covariances due to the noise of the cameras.
    views : (N, m) array of int
        Number of cameras that show each point.
    error : (cameras,) array
        Root mean square reprojection error, pixels.
    dropped : mapping of str to int
        Number of points that some camera shows and that are not determined, by reason.
    warnings : tuple of Message
        What to know about the points.
    """

    points: Array
    covariance: Array
    views: NDArray[np.int64]
    error: Array
    dropped: Mapping[str, int]
    warnings: tuple[Message, ...]

    def scaled(self, factor: float) -> Triangulation:
        """Return the triangulation in another unit of length.

        Parameters
        ----------
        factor : float
            New unit over old one.

        Returns
        -------
        Triangulation
            The scaled points and covariances.
        """
        return Triangulation(
            factor * self.points, factor**2 * self.covariance, self.views, self.error, self.dropped, self.warnings
        )


def read_cameras(path: str | Path) -> tuple[Camera, ...]:
    r"""Read calibrated cameras from a TOML file.

    Parameters
    ----------
    path : str or Path
        File with a table [[camera]] for each: name, matrix, and distortion and noise where known.

    Returns
    -------
    tuple of Camera
        The cameras.

    Raises
    ------
    DynidError
        If the file has mistakes.

    Examples
    --------
    >>> from pathlib import Path
    >>> from dynid import read_cameras
    >>> file = Path("cameras.toml")
    >>> _ = file.write_text('[[camera]]\nname = "left"\nmatrix = [[800, 0, 320, 0], [0, 800, 240, 0], [0, 0, 1, 2]]')
    >>> read_cameras(file)[0].name
    'left'
    """
    data = read_toml(Path(path))
    tables = data.get("camera")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables) or len(data) != 1:
        raise DynidError(
            "cameras_malformed", "{path}: a file of cameras has tables [[camera]] and nothing else", path=str(path),
        )  # fmt: skip
    cameras = []
    for number, table in enumerate(tables, 1):
        unknown = sorted(set(table) - {"name", "matrix", "distortion", "noise"})
        if unknown or not isinstance(table.get("name"), str) or "matrix" not in table:
            raise DynidError(
                "cameras_malformed", "{path}: camera {number} needs name and matrix, and may have distortion and noise"
                + (", not {unknown}" if unknown else ""), path=str(path), number=number, unknown=unknown,
            )  # fmt: skip
        try:
            cameras.append(Camera(**table))
        except DynidError as error:
            raise DynidError(error.message.about(str(path))) from error
    return tuple(cameras)


def triangulate(cameras: Sequence[Camera], points: ArrayLike) -> Triangulation:
    """Find points from their images in two or more calibrated cameras, with the covariance due to pixel noise.

    Parameters
    ----------
    cameras : sequence of Camera
        At least two, not all at one place.
    points : (N, m, cameras, 2) array_like
        u and v, pixels, of m markers in N frames as recorded (distorted); NaN where a camera does not show one.

    Returns
    -------
    Triangulation
        Points that fewer than two cameras show, whose rays are parallel, or that lie behind a camera are NaN and
        counted.

    Raises
    ------
    DynidError
        If the arrays do not fit the cameras.

    Examples
    --------
    >>> import numpy as np
    >>> from dynid import Camera, triangulate
    >>> K = np.diag([800.0, 800.0, 1.0])
    >>> left = Camera("left", K @ np.hstack([np.eye(3), [[0.0], [0.0], [2.0]]]))
    >>> right = Camera("right", K @ np.hstack([np.eye(3), [[-0.5], [0.0], [2.0]]]))
    >>> images = [[[[40.0, 0.0], [-160.0, 0.0]]]]
    >>> triangulate([left, right], images).points.round(6) + 0.0
    array([[[0.1, 0. , 0. ]]])
    """
    cameras = tuple(cameras)
    seen = _to_numbers("", "points", points)
    if seen.ndim != 4 or seen.shape[2:] != (len(cameras), 2):
        raise DynidError(
            "wrong_shape", "points must have shape (N, m, {cameras}, 2), u and v of every camera, got {shape!s}",
            cameras=len(cameras), shape=seen.shape,
        )  # fmt: skip
    _check_cameras(cameras)
    N, m = seen.shape[:2]
    flat = seen.reshape(N * m, len(cameras), 2)
    X, C, e = np.full((N * m, 3), np.nan), np.full((N * m, 3, 3), np.nan), np.full(flat.shape, np.nan)
    reason = np.zeros(N * m, dtype=np.int64)
    for start in range(0, N * m, CHUNK):
        part = slice(start, start + CHUNK)
        X[part], C[part], e[part], reason[part] = _triangulate_points(cameras, flat[part])
    shown = np.asarray(np.isfinite(flat).all(axis=2))
    counts = {name: int((reason == k).sum()) for k, name in enumerate(REASONS) if k}
    squares = np.array([np.nanmean(x**2) if np.isfinite(x).any() else np.nan for x in e.transpose(1, 0, 2)])
    error = np.sqrt(squares)
    return Triangulation(
        X.reshape(N, m, 3), C.reshape(N, m, 3, 3), shown.sum(axis=1).reshape(N, m), error, counts,
        _camera_warnings(cameras, counts, int((shown.sum(axis=1) > 0).sum()), error),
    )  # fmt: skip


REASONS = ("", "seen by one camera", "parallel rays", "behind a camera", "beyond the lens model")
"""Why points are dropped."""


def _triangulate_points(cameras: Sequence[Camera], flat: Array) -> tuple[Array, Array, Array, NDArray[np.int64]]:
    """Points (B, 3), covariances (B, 3, 3), reprojection errors (B, cameras, 2) in pixels, and reasons (B,)."""
    B = len(flat)
    shown = np.isfinite(flat).all(axis=2)
    plain, D = np.empty_like(flat), np.empty((B, len(cameras), 2, 2))
    for c, camera in enumerate(cameras):
        plain[:, c], D[:, c] = camera.undistort(flat[:, c])
    valid = np.isfinite(plain).all(axis=2) & shown
    reason = np.where(shown.sum(axis=1) == 1, 1, 0)
    reason[(shown.sum(axis=1) > 1) & (valid.sum(axis=1) < 2)] = 4
    P = np.stack([camera.matrix for camera in cameras])
    few = valid.sum(axis=1) < 2
    used = valid & ~few[:, None]
    u = np.where(used[..., None], plain, 0.0)
    angle = _largest_ray_angle(P, u, used)
    reason[~few & (angle < PARALLEL)] = 2
    used &= (reason == 0)[:, None]
    has: NDArray[np.bool_] = np.asarray(used.any(axis=1))
    X = _linear_start(cameras, P, u, used)
    W = D / np.array([camera.noise for camera in cameras])[:, None, None] * used[..., None, None]
    for _ in range(STEPS):
        e, J, depth = _reprojection_residuals(P, u, X)
        J, e = W @ J, (W @ e[..., None])[..., 0]
        A = np.einsum("bcik,bcil->bkl", J, J) + np.eye(3) * (~has)[:, None, None]
        A = A + 1e-14 * np.einsum("bkk->b", A)[:, None, None] * np.eye(3)
        step = np.linalg.solve(A, np.einsum("bcik,bci->bk", J, e)[..., None])[..., 0]
        X = X + step
        if np.abs(step).max(initial=0.0) < 1e-13 * (1.0 + np.abs(X).max(initial=0.0)):
            break
    e, J, depth = _reprojection_residuals(P, u, X)
    J = W @ J
    A = np.einsum("bcik,bcil->bkl", J, J)
    good = (reason == 0) & has & np.isfinite(X).all(axis=1)
    behind = good & np.asarray(((depth <= 0.0) & used).any(axis=1))
    reason[behind] = 3
    good &= ~behind
    X[~good] = np.nan
    C = np.full((B, 3, 3), np.nan)
    C[good] = np.linalg.inv(A[good])
    errors = (D @ e[..., None])[..., 0]
    errors[~(used & good[:, None])] = np.nan
    return X, 0.5 * (C + C.transpose(0, 2, 1)), errors, reason


def _reprojection_residuals(P: Array, u: Array, X: Array) -> tuple[Array, Array, Array]:
    """Residuals u - u(X) (B, C, 2) of image points, derivatives du/dX (B, C, 2, 3), and depths (B, C)."""
    Y = np.einsum("cik,bk->bci", P[..., :3], X) + P[..., 3]
    depth = np.where(np.abs(Y[..., 2]) > 1e-12, Y[..., 2], 1e-12)
    image = Y[..., :2] / depth[..., None]
    J = (P[:, :2, :3] - image[..., None] * P[:, 2:, :3]) / depth[..., None, None]
    return u - image, J, depth


def _linear_start(cameras: Sequence[Camera], P: Array, u: Array, used: NDArray[np.bool_]) -> Array:
    """Start of the iteration: least singular vector of the rows u P3 - P1, v P3 - P2, scaled and centred."""
    centre = np.mean([camera.centre for camera in cameras], axis=0)
    size = max(float(np.linalg.norm([camera.centre - centre for camera in cameras], axis=1).max()), 1e-12)
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = size * np.eye(3), centre
    Q = P @ T
    focal = np.array([abs(camera.intrinsics[0, 0]) + abs(camera.intrinsics[1, 1]) for camera in cameras])
    rows = (u[..., None] * Q[:, 2:] - Q[:, :2]) / focal[:, None, None] * used[..., None, None]
    V = np.linalg.svd(rows.reshape(len(u), -1, 4), full_matrices=True)[2][:, -1]
    w = np.where(np.abs(V[:, 3:]) > 1e-12, V[:, 3:], 1e-12)
    return np.asarray(np.where(np.asarray(used.any(axis=1))[:, None], size * V[:, :3] / w + centre, centre))


def _largest_ray_angle(P: Array, u: Array, used: NDArray[np.bool_]) -> Array:
    """Largest angle (B,), up to 90 degrees, between the lines of sight of the cameras that show a point."""
    one = np.concatenate([u, np.ones((*u.shape[:2], 1))], axis=2)
    rays = np.linalg.solve(P[None, :, :, :3], one[..., None])[..., 0]
    rays /= np.linalg.norm(rays, axis=2, keepdims=True)
    largest = np.zeros(len(u))
    for a in range(u.shape[1]):
        for b in range(a):
            both = used[:, a] & used[:, b]
            sine = np.linalg.norm(np.cross(rays[:, a], rays[:, b]), axis=1)
            largest = np.where(both, np.maximum(largest, np.arcsin(np.minimum(sine, 1.0))), largest)
    return largest


def _check_cameras(cameras: Sequence[Camera]) -> None:
    """Raise where fewer than two cameras, or cameras at one place, give no depth."""
    names = [camera.name for camera in cameras]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DynidError("camera_name_twice", "two cameras are called '{camera}'", "rename one", camera=twice[0])
    if len(cameras) < 2:
        raise DynidError("too_few_cameras", "points need two cameras or more, got {count}", count=len(cameras))
    centres = np.array([camera.centre for camera in cameras])
    spread = np.linalg.norm(centres - centres[0], axis=1).max()
    if spread <= 1e-9 * (1.0 + np.abs(centres).max()):
        raise DynidError(
            "cameras_at_one_place", "cameras {cameras} are at one place: their rays show no depth",
            "move one, or check their matrices", cameras=names,
        )  # fmt: skip


def _camera_warnings(
    cameras: Sequence[Camera], counts: Mapping[str, int], total: int, error: Array
) -> tuple[Message, ...]:
    """Warnings on dropped points and on cameras that do not fit the others."""
    warnings = []
    dropped = {name: count for name, count in counts.items() if count}
    if dropped:
        warnings.append(Message(
            "image_points_dropped", "{dropped} of {total} markers in frames are not determined and left out: {reasons}",
            dropped=sum(dropped.values()), total=total, reasons=[f"{n} {name}" for name, n in dropped.items()],
        ))  # fmt: skip
    odd = [f"{c.name} ({x:.3g} px)" for c, x in zip(cameras, error, strict=True) if x > ODD * c.noise]
    if odd:
        warnings.append(Message(
            "reprojection_error", "image points miss the triangulated markers in {cameras}, more than their noise",
            "check calibration, synchronisation and the names of markers, or give the noise", cameras=odd,
        ))  # fmt: skip
    return tuple(warnings)


def _intrinsic_matrix(P: Array) -> Array:
    """K (3, 3) of P = K [R t], with positive focal lengths and K33 = 1."""
    from scipy.linalg import rq

    K, _ = rq(P[:, :3])
    K = K * np.sign(np.diag(K))
    return np.asarray(K / K[2, 2])


def _to_numbers(camera: str, what: str, values: Any) -> Array:
    """Array of numbers of a camera's entry `what`; DynidError where it is none."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(np.inf)
    if np.isinf(array).any() or (camera and not np.isfinite(array).all()):
        raise DynidError(
            "values_not_numeric", "{where}{what} is not an array of finite numbers",
            where=f"camera '{camera}': " if camera else "", what=what,
        )  # fmt: skip
    return array
