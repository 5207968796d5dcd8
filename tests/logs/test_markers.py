"""Joint positions from markers on the links: exact without noise, honest with it, and on to the forces on the base."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dynid import DynidError, Log, Robot, angles_from_markers, identify, load_robot, simulate
from dynid.dynamics.kernels.links import link_poses
from dynid.estimation.joint_parameters import joint_parameters
from dynid.robot.transform import Array, Transform, rotation_about
from robots import random_rotation, random_tree, smooth_path

NOISE = 5e-4


def see(robot: Robot, q: Array, links: list[str], offsets: Array, *, noise: float = 0.0, seed: int = 0) -> Array:
    """Markers in frame 0 as cameras would give them, (N, m, 3)."""
    poses = link_poses(robot, q)
    place = {"base": -1} | {link.joint: k for k, link in enumerate(robot.links)}
    x = np.stack(
        [poses.rotation[place[k]] @ o + poses.position[place[k]] for k, o in zip(links, offsets, strict=True)], axis=1
    )
    return np.asarray(x + noise * np.random.default_rng(seed).standard_normal(x.shape))


def markers_on(robot: Robot, count: int, seed: int = 0) -> tuple[list[str], Array]:
    """Some markers on every moving link."""
    links = [robot.links[k].joint for k in robot.tree_joints for _ in range(count)]
    return links, np.random.default_rng(seed).uniform(-0.2, 0.2, (len(links), 3))


@cache
def robot_named(name: str) -> Robot:
    kind, _, seed = name.partition(" ")
    if kind == "tree":
        return random_tree(int(seed), joints=6)
    if kind == "chain":
        return random_tree(int(seed), joints=5, serial=True, fixed_share=0.2)
    return load_robot(kind)


@pytest.mark.parametrize("name", ["puma560", "scara", "panda", "tree 3", "tree 12", "chain 5", "chain 8", "one_link"])
@pytest.mark.parametrize("count", [2, 3])
def test_exact_without_noise(name: str, count: int) -> None:
    robot = robot_named(name)
    t = np.arange(0.0, 4.0, 0.01)
    q = smooth_path(robot, t, scale=2.0, seed=count).q
    links, offsets = markers_on(robot, count, seed=count)
    found = angles_from_markers(robot, t, see(robot, q, links, offsets), links, start=q[0])
    assert_allclose(found.q, q, rtol=0, atol=1e-9)
    assert_allclose(found.offsets, offsets, rtol=0, atol=1e-9)
    assert found.residual < 1e-9
    assert found.warnings == ()


def test_a_known_posture_anywhere_and_links_by_name() -> None:
    robot = load_robot("panda")
    t = np.arange(0.0, 3.0, 0.01)
    q = smooth_path(robot, t, scale=2.0).q
    links, offsets = markers_on(robot, 2)
    names = [next(link.name for link in robot.links if link.joint == joint) for joint in links]
    found = angles_from_markers(robot, t, see(robot, q, links, offsets), names, start=q[150], at=150)
    assert_allclose(found.q, q, rtol=0, atol=1e-9)


def test_several_turns_and_fast_motion() -> None:
    """Positions go on beyond pi, 0.5 rad from frame to frame."""
    robot = load_robot("puma560")
    t = np.arange(0.0, 2.0, 0.01)
    q = np.outer(t, [10.0, -15.0, 20.0, 30.0, -40.0, 50.0])
    links, offsets = markers_on(robot, 3)
    found = angles_from_markers(robot, t, see(robot, q, links, offsets), links, start=q[0])
    assert_allclose(found.q, q, rtol=0, atol=1e-9)


def test_deviations_cover_the_errors() -> None:
    """Errors over stated deviations: mean square 1 over runs, joints and instants, the shared zero included."""
    robot = load_robot("puma560")
    t = np.arange(0.0, 2.0, 0.04)
    squares = []
    for seed in range(25):
        q = smooth_path(robot, t, scale=2.0, seed=seed).q
        links, offsets = markers_on(robot, 3, seed)
        x = see(robot, q, links, offsets, noise=NOISE, seed=seed)
        found = angles_from_markers(robot, t, x, links, start=q[0])
        z = (found.q - q)[5:] / found.sigma[5:]
        assert np.abs(z).max() < 6.0
        squares.append((z**2).mean(axis=0))
        assert 0.9 * NOISE < found.residual < 1.02 * NOISE
        assert found.warnings == ()
    assert 0.75 < np.mean(squares) < 1.25
    assert (np.mean(squares, axis=0) < 2.0).all()


def test_standing_still_sharpens_the_zero_of_the_last_joint() -> None:
    robot = load_robot("puma560")
    t = np.arange(0.0, 4.0, 0.01)
    q = smooth_path(robot, t, scale=2.0).q
    q[:200] = q[200]
    links, offsets = markers_on(robot, 3)
    x = see(robot, q, links, offsets, noise=NOISE)
    once = angles_from_markers(robot, t, x, links, start=q[0])
    long = angles_from_markers(robot, t, x, links, start=q[0], at=slice(0, 200))
    error = [abs((found.q - q)[200:, 5].mean()) for found in (once, long)]
    assert error[1] < 4.0 * NOISE / 0.1 / np.sqrt(50.0)
    assert long.sigma[300:, 5].mean() < 0.85 * once.sigma[300:, 5].mean()


def test_only_the_known_posture_fixes_the_zero_of_the_last_joint() -> None:
    """A wrong start of the last joint shifts it silently; one of an inner joint does not fit the motion."""
    robot = load_robot("puma560")
    t = np.arange(0.0, 3.0, 0.01)
    q = smooth_path(robot, t, scale=2.0).q
    links, offsets = markers_on(robot, 3)
    x = see(robot, q, links, offsets)
    last, third = np.eye(6)[[5, 2]] * 0.1
    shifted = angles_from_markers(robot, t, x, links, start=q[0] + last)
    assert_allclose(shifted.q, q + last, rtol=0, atol=1e-8)
    assert shifted.residual < 1e-8
    assert shifted.warnings == ()
    wrong = angles_from_markers(robot, t, x, links, start=q[0] + third)
    assert "is start right?" in wrong.warnings[0]
    assert_allclose(wrong.q[:, :3], q[:, :3], rtol=0, atol=0.01)


def test_hidden_markers() -> None:
    """A fifth of all hidden, one marker absent in the known posture: still exact."""
    robot = load_robot("puma560")
    t = np.arange(0.0, 4.0, 0.01)
    q = smooth_path(robot, t, scale=2.0).q
    links, offsets = markers_on(robot, 3)
    x = see(robot, q, links, offsets)
    x[np.random.default_rng(1).random(x.shape[:2]) < 0.2] = np.nan
    x[:1] = see(robot, q[:1], links, offsets)
    x[:20, 4] = np.nan
    found = angles_from_markers(robot, t, x, links, start=q[0])
    blind = np.isnan(x[:, 15:, 0]).all(axis=1)
    assert_array_equal(np.isnan(found.q[:, 5]), blind)
    assert not np.isnan(found.q[:, :5]).any()
    assert_allclose(found.q[~blind], q[~blind], rtol=0, atol=1e-9)
    assert_allclose(found.offsets, offsets, rtol=0, atol=1e-9)


@pytest.mark.parametrize("length", [20, 290])
def test_frames_that_show_too_little_are_nan(length: int) -> None:
    robot = load_robot("puma560")
    t = np.arange(0.0, 4.0, 0.01)
    q = smooth_path(robot, t, scale=2.0).q
    links, offsets = markers_on(robot, 3)
    x = see(robot, q, links, offsets)
    x[50:60] = np.nan
    x[100 : 100 + length, 15:] = np.nan
    found = angles_from_markers(robot, t, x, links, start=q[0])
    expected = np.zeros(q.shape, dtype=bool)
    expected[50:60] = True
    expected[100 : 100 + length, 5] = True
    assert_array_equal(np.isnan(found.q), expected)
    assert_allclose(found.q[~expected], q[~expected], rtol=0, atol=1e-9)
    assert np.isinf(found.sigma[expected]).all()
    assert f"{10 + length} of 400 frames" in found.warnings[0]


def test_joints_without_markers_stay_at_their_start() -> None:
    robot = load_robot("puma560")
    t = np.arange(0.0, 3.0, 0.01)
    q = smooth_path(robot, t, scale=2.0).q
    q[:, 4:] = [0.3, -0.2]
    links, offsets = markers_on(robot, 3)
    found = angles_from_markers(robot, t, see(robot, q, links, offsets)[:, :12], links[:12], start=q[0])
    assert_allclose(found.q, q, rtol=0, atol=1e-9)
    assert np.isinf(found.sigma[:, 4:]).all()
    assert found.warnings == ("no marker shows joint 5, 6: it is taken to stay at its start",)


def test_a_marker_farther_away_than_any_is_named_with_its_sample() -> None:
    robot = load_robot("puma560")
    t = np.arange(0.0, 1.0, 0.01)
    links, offsets = markers_on(robot, 3)
    x = see(robot, smooth_path(robot, t, scale=2.0).q, links, offsets)
    x[30, 4, 1] = -2.7e154
    with pytest.raises(DynidError, match=r"marker 5 is 2.7e\+154 m away in sample 31, at 0.3 s; correct it"):
        angles_from_markers(robot, t, x, links, start=np.zeros(6))


def test_too_few_markers_are_named() -> None:
    robot = load_robot("puma560")
    t = np.arange(0.0, 3.0, 0.01)
    q = smooth_path(robot, t, scale=2.0).q
    x = see(robot, q, ["6"], np.array([[0.05, 0.02, 0.1]]))
    with pytest.raises(DynidError, match=r"never distinguish joints .*4, 5, 6; put markers on more links"):
        angles_from_markers(robot, t, x, ["6"], start=q[0])


def test_a_marker_on_another_link_than_stated_is_named() -> None:
    robot = load_robot("puma560")
    t = np.arange(0.0, 3.0, 0.01)
    q = smooth_path(robot, t, scale=2.0).q
    links, offsets = markers_on(robot, 4)
    x = see(robot, q, links, offsets, noise=NOISE)
    found = angles_from_markers(robot, t, x, [*links[:2], "3", *links[3:]], start=q[0])
    assert any("marker 2 (" in warning and "is its link right?" in warning for warning in found.warnings)


def test_a_zero_that_nothing_fixes_is_refused() -> None:
    """Markers of the last link hidden in the known posture."""
    robot = load_robot("puma560")
    t = np.arange(0.0, 3.0, 0.01)
    q = smooth_path(robot, t, scale=2.0).q
    links, offsets = markers_on(robot, 3)
    x = see(robot, q, links, offsets)
    x[0, 15:] = np.nan
    with pytest.raises(DynidError, match="joint 6 is visible in the known posture"):
        angles_from_markers(robot, t, x, links, start=q[0])
    assert_allclose(angles_from_markers(robot, t, x, links, start=q[1], at=1).q[1:], q[1:], rtol=0, atol=1e-9)


def test_known_offsets_need_a_rough_start_only() -> None:
    robot = load_robot("puma560")
    t = np.arange(0.0, 3.0, 0.01)
    q = smooth_path(robot, t, scale=2.0).q
    links, offsets = markers_on(robot, 3)
    x = see(robot, q, links, offsets)
    found = angles_from_markers(robot, t, x, links, start=q[0] + 0.2, offsets=offsets)
    assert_allclose(found.q, q, rtol=0, atol=1e-9)
    noisy = angles_from_markers(
        robot, t, see(robot, q, links, offsets, noise=NOISE), links, start=q[0], offsets=offsets
    )
    assert 0.85 < np.mean(((noisy.q - q) / noisy.sigma) ** 2) < 1.15


def in_camera(x: Array, camera: Transform) -> Array:
    return np.asarray((x - camera.translation) @ camera.rotation)


def test_camera_pose() -> None:
    robot = load_robot("puma560")
    rng = np.random.default_rng(3)
    t = np.arange(0.0, 3.0, 0.01)
    q = smooth_path(robot, t, scale=2.0).q
    links, offsets = markers_on(robot, 3)
    camera = Transform(random_rotation(rng), rng.uniform(-2, 2, 3))
    x = in_camera(see(robot, q, links, offsets), camera)
    found = angles_from_markers(robot, t, x, links, start=q[0], camera=camera)
    assert_allclose(found.q, q, rtol=0, atol=1e-9)
    off = Transform(rotation_about(np.array([0.6, 0.0, 0.8]), 0.08), np.array([0.04, -0.03, 0.05]))
    rough = off @ camera
    assert angles_from_markers(robot, t, x, links, start=q[0], camera=rough).residual > 1e-3
    refined = angles_from_markers(robot, t, x, links, start=q[0], camera=rough, refine_camera=True)
    assert_allclose(refined.q, q, rtol=0, atol=1e-8)
    assert_allclose(refined.camera.rotation, camera.rotation, rtol=0, atol=1e-8)
    assert_allclose(refined.camera.translation, camera.translation, rtol=0, atol=1e-8)


def test_camera_height_over_parallel_axes_does_not_matter() -> None:
    """Nothing shows the height of the camera over a SCARA; its joints do not depend on it."""
    robot = load_robot("scara")
    t = np.arange(0.0, 3.0, 0.01)
    q = smooth_path(robot, t, scale=2.0).q
    links, offsets = markers_on(robot, 3)
    x = see(robot, q, links, offsets)
    rough = Transform(rotation_about(np.array([0.0, 1.0, 0.0]), 0.05), np.array([0.03, 0.02, 0.1]))
    found = angles_from_markers(robot, t, x, links, start=q[0], camera=rough, refine_camera=True)
    assert_allclose(found.q, q, rtol=0, atol=1e-8)


def test_noise_with_an_unknown_camera_is_covered() -> None:
    robot = load_robot("puma560")
    t = np.arange(0.0, 3.0, 0.02)
    squares = []
    for seed in range(8):
        q = smooth_path(robot, t, scale=2.0, seed=seed).q
        links, offsets = markers_on(robot, 3, seed)
        x = see(robot, q, links, offsets, noise=NOISE, seed=seed)
        found = angles_from_markers(robot, t, x, links, start=q[0], refine_camera=True)
        squares.append(np.mean(((found.q - q)[1:] / found.sigma[1:]) ** 2))
    assert 0.6 < np.mean(squares) < 1.5


def test_bad_input_is_refused() -> None:
    robot = load_robot("puma562")
    t, x = np.arange(5.0), np.zeros((5, 3, 3))
    links, start = ["1", "2", "3"], np.zeros(3)
    cases = [
        (robot, t, x, ["1", "2", "elbow"], {"start": start}, "no link or joint 'elbow'; they are base, 1, 2, 3"),
        (robot, t, x, ["1", "2"], {"start": start}, "each of the 3 markers"),
        (robot, t, x, "123", {"start": start}, "each of the 3 markers"),
        (robot, t, x[:4], links, {"start": start}, r"shape \(N, m, 3\)"),
        (robot, t, x[..., :2], links, {"start": start}, r"shape \(N, m, 3\)"),
        (robot, t, "x", links, {"start": start}, "not an array of numbers"),
        (robot, t, x + np.inf, links, {"start": start}, "finite"),
        (robot, t, x, links, {"start": start[:2]}, "3 joint positions"),
        (robot, t, x, links, {"start": start * np.nan}, "3 joint positions"),
        (robot, t, x, links, {"start": start, "at": 7}, "between 0 and 4"),
        (robot, t, x, links, {"start": start, "at": []}, "names no frame"),
        (robot, t, x, links, {"start": start, "offsets": np.zeros((2, 3))}, r"shape \(3, 3\)"),
        (robot, t, x * np.nan, links, {"start": start}, "no marker is visible"),
        (load_robot("slider_crank"), t, x, links, {"start": [0.0]}, "open trees"),
        (load_robot("puma562", floating_base=True), t, x, links, {"start": start}, "open trees"),
    ]
    for one, times, markers, carriers, options, words in cases:
        with pytest.raises(DynidError, match=words):
            angles_from_markers(one, times, markers, carriers, **options)  # type: ignore[arg-type]


def with_values(name: str) -> Robot:
    robot = load_robot(name)
    rng = np.random.default_rng(5)
    invented = [0.0 if name in robot.known_zeros else rng.uniform(0.3, 2.0) for name in robot.parameter_names]
    return robot.with_parameters(np.where(np.isnan(robot.parameters), invented, robot.parameters))


@pytest.mark.parametrize(("name", "cutoff", "seed"), [("puma560", None, 1), ("puma562", 3.0, 1), ("puma562", 3.0, 2)])
def test_from_markers_and_a_plate_to_the_parameters_of_the_torques(name: str, cutoff: float | None, seed: int) -> None:
    """The experiment of the paper, simulated: nothing measured inside the robot, theta_d within three deviations."""
    robot = with_values(name)
    t = np.arange(-0.5, 30.0, 0.005)
    motion = smooth_path(robot, t, scale=2.5, seed=seed)
    still = replace(motion, q=motion.q.copy(), v=motion.v.copy(), a=motion.a.copy())
    still.q[:100], still.v[:100], still.a[:100] = motion.q[100], 0.0, 0.0
    reaction = simulate(robot, still, plate_noise=[0.5, 0.5, 0.5, 0.2, 0.2, 0.2], seed=seed).reaction
    links, offsets = markers_on(robot, 3, seed)
    x = see(robot, still.q, links, offsets, noise=NOISE, seed=seed)
    found = angles_from_markers(robot, t, x, links, start=still.q[0], at=slice(0, 100))
    log = found.log(reaction=reaction)
    assert isinstance(log, Log)
    result = identify(robot, log.between(0.6), model="reaction", cutoff=cutoff)
    theta_d = joint_parameters(result)
    z = (theta_d.values - theta_d.base.values(robot.parameters)) / theta_d.sigma
    assert np.abs(z).max() < 3.0


def test_a_marker_that_no_camera_can_see_is_named() -> None:
    """A damaged cell of 2.7e154 m: the normal equations overflowed."""
    robot = robot_named("one_link")
    t = np.arange(0.0, 1.0, 0.01)
    links, offsets = markers_on(robot, 2)
    x = see(robot, smooth_path(robot, t).q, links, offsets)
    x[7, 1, 2] = -2.7e154
    with pytest.raises(DynidError, match=r"marker 2 is 2\.7e\+154 m away in sample 8, at 0\.07 s"):
        angles_from_markers(robot, t, x, links, start=[0.0])
