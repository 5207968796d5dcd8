"""Markers in images: exact without noise, covariances as wide as the scatter, degenerate views named."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import least_squares

from command_line import CommandLine
from dynid import (
    Camera,
    DynidError,
    Triangulation,
    angles_from_markers,
    load_robot,
    read_cameras,
    read_log,
    triangulate,
)
from dynid.dynamics.kernels.links import link_poses
from dynid.robot.transform import Array
from robots import smooth_path

K = np.array([[1200.0, 0.0, 640.0], [0.0, 1180.0, 480.0], [0.0, 0.0, 1.0]])
LENS = (-0.2, 0.05, 1e-3, -5e-4, 0.01)


def camera_at(name: str, at: list[float], *, noise: float = 0.5, lens: tuple[float, ...] = ()) -> Camera:
    """A camera that looks at a point half a metre above the origin."""
    place = np.array(at)
    z = np.array([0.0, 0.0, 0.5]) - place
    z /= np.linalg.norm(z)
    x = np.cross(z, [0.0, 0.1, 1.0])
    x /= np.linalg.norm(x)
    R = np.stack([x, np.cross(z, x), z])
    return Camera(name, 3.7 * K @ np.column_stack([R, -R @ place]), lens, noise)  # a matrix has no scale


def views(lens: tuple[float, ...] = ()) -> list[Camera]:
    return [
        camera_at("a", [3.0, 0.2, 1.0], lens=lens), camera_at("b", [2.0, 2.5, 1.5], noise=1.0, lens=lens),
        camera_at("c", [-1.0, 3.0, 1.0], lens=lens),
    ]  # fmt: skip


def image(camera: Camera, X: Array) -> Array:
    """Image points (..., 2), by the formulas of a pinhole and of OpenCV's lens, written out."""
    Y = X @ camera.matrix[:, :3].T + camera.matrix[:, 3]
    k1, k2, p1, p2, k3 = camera.distortion
    x, y, _ = np.moveaxis((Y / Y[..., 2:]) @ np.linalg.inv(K).T, -1, 0)
    r = x**2 + y**2
    radial = 1 + k1 * r + k2 * r**2 + k3 * r**3
    u = x * radial + 2 * p1 * x * y + p2 * (r + 2 * x**2)
    v = y * radial + p1 * (r + 2 * y**2) + 2 * p2 * x * y
    return np.stack([K[0, 0] * u + K[0, 2], K[1, 1] * v + K[1, 2]], axis=-1)


def images(cameras: list[Camera], X: Array) -> Array:
    return np.stack([image(camera, X) for camera in cameras], axis=-2)


def some_points(count: int, seed: int = 0) -> Array:
    return np.asarray(np.random.default_rng(seed).uniform([-0.5, -0.5, 0.0], [0.5, 0.5, 1.0], (count, 2, 3)))


@pytest.mark.parametrize("lens", [(), LENS, (0.1,), (-0.3, 0.1)])
@pytest.mark.parametrize("count", [2, 3])
def test_exact_without_noise(lens: tuple[float, ...], count: int) -> None:
    cameras, X = views(lens)[:count], some_points(200)
    found = triangulate(cameras, images(cameras, X))
    assert_allclose(found.points, X, rtol=0, atol=1e-11)
    assert found.warnings == ()
    assert (found.views == count).all()
    assert not any(found.dropped.values())
    assert_allclose(cameras[0].intrinsics, K, rtol=1e-9, atol=1e-6)


def test_the_covariance_is_as_wide_as_the_scatter() -> None:
    """Whitened errors of 4000 noisy views have unit covariance: a Monte Carlo beside the formula."""
    cameras, X = views(LENS), some_points(1)[:, :1]
    clean = images(cameras, X)
    rng = np.random.default_rng(1)
    noise = np.array([camera.noise for camera in cameras])[:, None] * rng.standard_normal((4000, 1, 3, 2))
    found = triangulate(cameras, clean + noise)
    away = np.linalg.solve(np.linalg.cholesky(found.covariance[:, 0]), (found.points - X)[:, 0, :, None])[..., 0]
    assert_allclose(np.cov(away.T), np.eye(3), atol=0.1)
    assert_allclose(away.mean(axis=0), 0.0, atol=0.1)
    depth = np.linalg.svd(found.covariance[0, 0])[1]
    assert depth[0] > 2.0 * depth[2]  # it has a shape, not only a size


def test_the_points_are_those_of_a_general_optimiser() -> None:
    cameras, X = views(LENS), some_points(6)
    noisy = images(cameras, X) + 2.0 * np.random.default_rng(2).standard_normal((6, 2, 3, 2))
    found = triangulate(cameras, noisy)
    noise = np.array([camera.noise for camera in cameras])[:, None]
    for n, k in np.ndindex(6, 2):
        one = noisy[n, k]

        def misses(x: Array, one: Array = one) -> Array:
            return np.asarray(((images(cameras, x) - one) / noise).ravel())

        best = least_squares(misses, X[n, k], xtol=1e-14, ftol=1e-14)
        jacobian = np.asarray(best.jac, dtype=np.float64)
        assert_allclose(found.points[n, k], best.x, rtol=0, atol=2e-5)  # one lens, linearised where it was seen
        assert_allclose(found.covariance[n, k], np.linalg.inv(jacobian.T @ jacobian), rtol=0.02, atol=1e-9)


def test_opencv_agrees() -> None:
    cv2 = pytest.importorskip("cv2")
    cameras, X = views(LENS)[:2], some_points(50).reshape(-1, 1, 3)
    seen = images(cameras, X)
    plain = [cv2.undistortPoints(seen[:, 0, c][:, None], K, np.array(LENS), P=K)[:, 0] for c in range(2)]
    P = [camera.matrix for camera in cameras]
    Y = cv2.triangulatePoints(P[0], P[1], plain[0].T, plain[1].T)
    assert_allclose((Y[:3] / Y[3]).T, triangulate(cameras, seen).points[:, 0], rtol=0, atol=1e-3)
    for c, camera in enumerate(cameras):
        rvec, t = cv2.Rodrigues(np.linalg.solve(K, camera.matrix[:, :3]))[0], np.linalg.solve(K, camera.matrix[:, 3])
        assert_allclose(cv2.projectPoints(X[:, 0], rvec, t, K, np.array(LENS))[0][:, 0], seen[:, 0, c], atol=1e-6)


def test_what_is_not_determined_is_dropped_and_counted() -> None:
    cameras, X = views(), some_points(10)
    seen = images(cameras, X)
    seen[0, 0, 1:] = np.nan  # one camera
    seen[1, 0] = np.nan  # none
    seen[2, 0, 0, 0] = np.nan  # half an image point is none
    found = triangulate(cameras, seen)
    assert np.isnan(found.points[:2, 0]).all()
    assert np.isnan(found.covariance[:2, 0]).all()
    assert_allclose(found.points[2:], X[2:], atol=1e-11)
    assert found.dropped["seen by one camera"] == 1
    assert [warning.code for warning in found.warnings] == ["image_points_dropped"]
    assert found.warnings[0].facts["total"] == 19
    behind = triangulate(cameras, images(cameras, np.array([[[30.0, 0.0, 0.5]]])))  # beyond camera a, looking away
    assert behind.dropped["behind a camera"] == 1


def test_parallel_rays_are_named() -> None:
    """Two cameras side by side and a marker a kilometre away; two that face each other, the marker between them."""
    pair = [camera_at("a", [3.0, 0.0, 0.5]), camera_at("b", [3.0, 0.1, 0.5])]
    far = triangulate(pair, images(pair, np.array([[[-1000.0, 0.0, 0.5]], [[0.0, 0.0, 0.5]]])))
    assert far.dropped["parallel rays"] == 1
    assert np.isnan(far.points[0]).all()
    assert np.isfinite(far.points[1]).all()
    facing = [camera_at("a", [3.0, 0.0, 0.5]), camera_at("b", [-3.0, 0.0, 0.5])]
    assert triangulate(facing, images(facing, np.array([[[0.1, 0.0, 0.5]]]))).dropped["parallel rays"] == 1


def test_points_beyond_the_lens_model_are_dropped() -> None:
    cameras = [camera_at("a", [3.0, 0.0, 0.5], lens=(-0.4,)), camera_at("b", [2.0, 2.0, 0.5], lens=(-0.4,))]
    found = triangulate(cameras, np.full((1, 1, 2, 2), 9000.0))
    assert found.dropped["beyond the lens model"] == 1


def test_wrong_calibration_is_a_warning() -> None:
    cameras, X = views(), some_points(20)
    seen = images(cameras, X)
    seen[:, :, 1] += 40.0
    assert [warning.code for warning in triangulate(cameras, seen).warnings] == ["reprojection_error"]


def same_place() -> list[Camera]:
    turned = np.column_stack([np.eye(3), [-3.0, 0.0, -0.5]])
    return [camera_at("a", [3.0, 0.0, 0.5]), Camera("b", K @ turned)]


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: Camera("a", np.eye(3)), "camera_matrix_malformed"),
        (lambda: Camera("a", np.ones((3, 4))), "camera_matrix_malformed"),
        (lambda: Camera("a", "nothing"), "values_not_numeric"),  # type: ignore[arg-type]
        (lambda: Camera("a", np.eye(3, 4), (0.0,) * 8), "camera_distortion_malformed"),
        (lambda: Camera("a", np.eye(3, 4), noise=0.0), "camera_noise_not_positive"),
        (lambda: triangulate(views()[:1], np.zeros((1, 1, 1, 2))), "too_few_cameras"),
        (lambda: triangulate([*views(), views()[0]], np.zeros((1, 1, 4, 2))), "camera_name_twice"),
        (lambda: triangulate(views(), np.zeros((1, 1, 2, 2))), "wrong_shape"),
        (lambda: triangulate(views(), np.full((1, 1, 3, 2), np.inf)), "values_not_numeric"),
        (lambda: triangulate(same_place(), np.zeros((1, 1, 2, 2))), "cameras_at_one_place"),
    ],
)
def test_mistakes(make: object, code: str) -> None:
    with pytest.raises(DynidError) as caught:
        make()  # type: ignore[operator]
    assert caught.value.code == code


@dataclass(frozen=True)
class Recording:
    """A PUMA 562 with two markers on each link, standing for half a second, in the images of three cameras."""

    t: Array
    q: Array
    links: list[str]
    seen: Array
    cameras: list[Camera]

    @staticmethod
    def of(lens: tuple[float, ...] = (), noise: float = 0.0, seed: int = 0) -> Recording:
        robot = load_robot("puma562")
        t = np.arange(0.0, 2.0, 0.02)
        q = smooth_path(robot, t, scale=2.0, seed=seed).q
        q[:25] = q[25]
        poses, rng = link_poses(robot, q), np.random.default_rng(seed)
        ks = [k for k in robot.tree_joints for _ in range(2)]
        X = np.stack([poses.rotation[k] @ rng.uniform(-0.2, 0.2, 3) + poses.position[k] for k in ks], axis=1)
        seen = images(views(lens), X)
        seen += noise * rng.standard_normal(seen.shape)
        return Recording(t, q, [robot.links[k].joint for k in ks], seen, views(lens))


def test_images_give_joint_positions() -> None:
    r = Recording.of(LENS)
    fit = angles_from_markers(
        load_robot("puma562"), r.t, triangulate(r.cameras, r.seen), r.links, start=r.q[0], at=slice(0, 25)
    )
    assert_allclose(fit.q, r.q, rtol=0, atol=1e-8)


def test_covariances_weigh_the_markers() -> None:
    """Weighted fits are nearer to the truth than unweighted ones, and their deviations are honest."""
    squares: list[float] = []
    errors: dict[str, list[float]] = {"weighted": [], "plain": []}
    robot = load_robot("puma562")
    for seed in range(12):
        r = Recording.of(seed=seed)
        far = [*r.cameras[:2], camera_at("c", [2.6, 0.9, 1.2], noise=3.0)]
        X = triangulate(r.cameras, r.seen).points
        rng = np.random.default_rng(seed)
        noise = np.array([camera.noise for camera in far])[:, None]
        points = images(far, X) + noise * rng.standard_normal((*X.shape[:2], 3, 2))
        points[:, ::2, 0] = np.nan  # every other marker is hidden from the best camera
        found = triangulate(far, points)
        fits = {
            "weighted": angles_from_markers(robot, r.t, found, r.links, start=r.q[0], at=slice(0, 25)),
            "plain": angles_from_markers(robot, r.t, found.points, r.links, start=r.q[0], at=slice(0, 25)),
        }
        for name, fit in fits.items():
            errors[name].append(np.sqrt(((fit.q - r.q)[25:] ** 2).mean()))
        squares.append((((fits["weighted"].q - r.q) / fits["weighted"].sigma)[25:] ** 2).mean())
    assert np.mean(errors["weighted"]) < 0.85 * np.mean(errors["plain"])
    assert 0.7 < np.mean(squares) < 1.4


def test_equal_covariances_change_nothing() -> None:
    robot = load_robot("puma562")
    r = Recording.of(noise=0.5)
    X = triangulate(r.cameras, r.seen).points
    same = np.broadcast_to(1e-6 * np.eye(3), (*X.shape, 3))
    fits = [angles_from_markers(robot, r.t, X, r.links, start=r.q[0], covariance=C) for C in (None, same)]
    for name in ("q", "sigma", "offsets", "marker_residual"):
        assert_allclose(getattr(fits[0], name), getattr(fits[1], name), rtol=1e-6, atol=1e-9)


def test_bad_covariances_are_refused() -> None:
    robot = load_robot("puma562")
    r = Recording.of()
    found = triangulate(r.cameras, r.seen)
    for bad, code in (
        (np.eye(3), "wrong_shape"), (-found.covariance, "covariance_not_positive"),
        (0.0 * found.covariance, "covariance_not_positive"), (np.nan * found.covariance, "covariance_not_positive"),
    ):  # fmt: skip
        with pytest.raises(DynidError) as caught:
            angles_from_markers(robot, r.t, found.points, r.links, start=r.q[0], covariance=bad)
        assert caught.value.code == code
    with pytest.raises(DynidError) as caught:
        angles_from_markers(robot, r.t, found, r.links, start=r.q[0], covariance=found.covariance)
    assert caught.value.code == "covariance_given_twice"
    assert isinstance(found, Triangulation)


def write_cameras(path: Path, cameras: list[Camera], unit: float = 1.0) -> Path:
    text = ""
    for camera in cameras:
        P = camera.matrix.copy()
        P[:, :3] *= unit
        text += f'[[camera]]\nname = "{camera.name}"\nmatrix = {P.tolist()}\ndistortion = {list(camera.distortion)}\n'
        text += f"noise = {camera.noise}\n"
    path.write_text(text)
    return path


@pytest.mark.parametrize(("unit", "length"), [("m", 1.0), ("mm", 1e-3)])
def test_the_command_line(
    unit: str, length: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = CommandLine(monkeypatch, capsys)
    r = Recording.of(LENS)
    r.seen[50, 0, 1:] = np.nan
    columns = {"time": r.t}
    for k in range(len(r.links)):
        for c, camera in enumerate(r.cameras):
            columns |= {f"{camera.name}.m{k}.{x}": r.seen[:, k, c, j] for j, x in enumerate("uv")}
    columns["Fz"] = 100.0 + r.t
    lines = [",".join("" if x != x else repr(x) for x in row) for row in np.column_stack([*columns.values()]).tolist()]
    (tmp_path / "seen.csv").write_text("\n".join([",".join(columns), *lines]) + "\n")
    file = write_cameras(tmp_path / "cameras.toml", r.cameras, length)
    assert_allclose(read_cameras(file)[1].centre, r.cameras[1].centre / length, rtol=1e-9)
    markers = [word for k, link in enumerate(r.links) for word in ("--marker", f"m{k}={link}")]
    base = [
        "markers",
        "puma562",
        tmp_path / "seen.csv",
        f"--start={','.join(map(repr, r.q[0].tolist()))}",
        "--still",
        0.4,
    ]
    out, facts = tmp_path / "log.csv", tmp_path / "facts.json"
    given = [*base, *markers, "--cameras", file, "--unit", unit, "--out", out, "--json", facts]
    assert "1 seen by one camera" in run(*given, code=1).err
    assert_allclose(read_log(out, load_robot("puma562")).q, r.q, rtol=0, atol=1e-7)
    assert "Fz" in out.read_text().splitlines()[0]
    said = json.loads(facts.read_text())["cameras"]
    assert said["dropped"]["seen by one camera"] == 1
    assert 1e-4 < max(said["sigma"]) < 1e-2
    assert "m9" in run.fails(*base, *markers, "--marker", "m9=1", "--cameras", file)
    file.write_text('[[camera]]\nname = "a"\nmatrix = [[1, 0], [0, 1]]\n')
    assert "3 rows of 4" in run.fails(*base, *markers, "--cameras", file)
    file.write_text('[[camera]]\nname = "a"\nmatrx = 1\n')
    assert "camera 1 needs name and matrix" in run.fails(*base, *markers, "--cameras", file)
