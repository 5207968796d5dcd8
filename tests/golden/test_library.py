"""The bundled tables against published numbers: counts of base parameters, values, closed forms."""

from __future__ import annotations

from collections.abc import Callable
from math import asin, cos, pi, sin

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid import Motion, Robot, bundled_robots, load_robot, regressor
from dynid.dynamics.kernels.loops import loop_map
from dynid.robot.inertia import to_body
from dynid.robot.transform import Array, Transform, rotation_about, rotation_x, rotation_z
from humanoid import HEIGHT, MASS, PELVIS, humanoid, quadruped
from pinocchio_twin import Twin
from robots import random_motion

ACTIVE_JOINTS = {
    "gautier3": 3,
    "hpr": 5,
    "iiwa": 7,
    "kr300": 6,
    "lwr4": 7,
    "one_link": 1,
    "panda": 7,
    "puma560": 6,
    "puma562": 3,
    "rx90": 6,
    "scara": 4,
    "slider_crank": 1,
    "sr400": 6,
    "tx40": 6,
    "ur10": 6,
    "ur10e": 6,
}

UP_DOWN = (0.0, 0.0, -9.81)

# Gautier 1991; Khalil & Bennis 1994; golden/*.json for the closed loops
BASE_COUNTS = [
    ("puma560", True, None, 40),
    ("puma560", False, None, 36),
    ("gautier3", False, None, 15),
    ("rx90", True, None, 40),
    ("panda", False, None, 43),
    ("iiwa", False, None, 43),
    ("lwr4", False, None, 43),
    ("ur10", False, None, 36),
    ("ur10e", False, None, 36),
    ("hpr", True, None, 35),
    ("hpr", False, None, 32),
    ("sr400", True, None, 42),
    ("slider_crank", True, None, 6),
    ("slider_crank", True, UP_DOWN, 4),
    ("scara", False, None, 6),
    ("one_link", False, None, 2),
    ("puma562", False, None, 9),
]


def count_independent(W: Array) -> int:
    """Rank of W, columns scaled to length 1; singular values near the bound of 1e-9 are no answer."""
    length = np.linalg.norm(W, axis=0)
    present = length > 1e-12 * length.max()
    s = np.linalg.svd(W[:, present] / length[present], compute_uv=False)
    s = s / s[0]
    assert not ((s > 1e-12) & (s < 1e-4)).any()
    return int((s > 1e-9).sum())


def free_columns(robot: Robot, *, model: str = "torque", rotor_inertia: bool = False, seed: int = 1) -> Array:
    """Regressor on random samples, three for each column, without the columns of known zeros."""
    motion = random_motion(robot, samples=3 * len(robot.parameter_names), seed=seed)
    W = regressor(robot, motion, model=model, rotor_inertia=rotor_inertia)
    return np.asarray(W.matrix[:, [c not in robot.known_zeros for c in W.columns]])


def end_frame(robot: Robot, q: Array) -> Transform:
    """Pose of the last link of a serial arm."""
    T = Transform.identity()
    for link, x in zip(robot.links, q, strict=True):
        T = T @ link.placement @ Transform(rotation_about(link.axis, float(x)), np.zeros(3))
    return T


def test_all_promised_tables_are_bundled() -> None:
    assert set(ACTIVE_JOINTS) <= set(bundled_robots())


@pytest.mark.parametrize("name", sorted(ACTIVE_JOINTS))
def test_a_table_loads_and_names_its_source(name: str) -> None:
    robot = load_robot(name)
    assert robot.name == name
    assert len(robot.source) > 40
    assert robot.n == ACTIVE_JOINTS[name]
    assert np.isfinite(robot.gravity).all()
    assert not robot.notes
    assert (robot.limits.position[:, 0] < robot.limits.position[:, 1]).all()


@pytest.mark.parametrize(("name", "rotor_inertia", "gravity", "count"), BASE_COUNTS)
@pytest.mark.parametrize("seed", [1, 2])
def test_base_counts(
    name: str, rotor_inertia: bool, gravity: tuple[float, float, float] | None, count: int, seed: int
) -> None:
    robot = load_robot(name, gravity=gravity)
    assert count_independent(free_columns(robot, rotor_inertia=rotor_inertia, seed=seed)) == count


def test_puma560_has_the_values_of_gautier_1991() -> None:
    """Table III: eight of the 55 printed standard values, and a zero for what has no effect."""
    robot = load_robot("puma560")
    X = dict(zip(robot.parameter_names, robot.parameters, strict=True))
    assert np.isfinite(robot.parameters).all()
    printed = {
        "ZZ1": 0.5,
        "YY2": 1.5,
        "Ia2": 4.5,
        "M3": 4.8,
        "YZ3": -0.6,
        "MZ4": -0.2,
        "MZ5": 0.08,
        "M6": 0.1,
    }
    assert {name: X[name] for name in printed} == printed
    silent = ("XX1", "XY1", "XZ1", "YY1", "YZ1", "MX1", "MY1", "MZ1", "M1", "MZ2", "M2")
    assert all(X[name] == 0.0 for name in silent)


# Gautier 1991, Table III, last columns; the first 15 (without Ia) are Gautier & Khalil 1992, Table 6
PUMA_BASE = {
    "ZZ1": 5.01856, "XX2": -2.05, "XY2": 0.7, "XZ2": -1.07, "YZ2": 0.65, "ZZ2": 6.55, "MX2": 4.3, "MY2": 0.6,
    "XX3": 0.76344, "XY3": 0.6872, "XZ3": 0.55, "YZ3": -0.6, "ZZ3": 0.96456, "MX3": 0.528, "MY3": 1.14,
    "Ia3": 1.0, "XX4": -0.42, "XY4": 0.02, "XZ4": 0.02, "YZ4": 0.015, "ZZ4": 0.07, "MX4": 0.02, "MY4": -0.07,
    "Ia4": 0.3, "XX5": 0.02, "XY5": 0.01, "XZ5": 0.01, "YZ5": 0.01, "ZZ5": 0.06, "MX5": 0.02, "MY5": 0.03,
    "Ia5": 0.3, "XX6": 0.0, "XY6": 0.01, "XZ6": 0.01, "YZ6": 0.01, "ZZ6": 0.02, "MX6": 0.01, "MY6": 0.01,
    "Ia6": 0.3,
}  # fmt: skip


@pytest.mark.parametrize(("name", "kept"), [("puma560", 40), ("gautier3", 15)])
def test_nominal_torques_are_those_of_the_published_base_values(name: str, kept: int) -> None:
    robot = load_robot(name)
    W = regressor(robot, random_motion(robot, samples=40, seed=3))
    base = dict(list(PUMA_BASE.items())[:kept])
    tau = W.matrix @ robot.parameters
    columns = [W.columns.index(c) for c in base]
    assert_allclose(W.matrix[:, columns] @ np.array(list(base.values())), tau, atol=1e-12 * np.abs(tau).max())


def test_scara_has_the_six_model_parameters_of_the_paper() -> None:
    """Ha, Ko & Kwon, Table 2: torques along two sines per joint (golden/a_scara.json) to 1e-9."""
    amplitude = np.array([[1.1, -0.4], [0.8, 0.5], [0.09, -0.05], [1.3, -0.6]])
    omega = np.array([[1.7, 4.3], [2.3, 5.1], [2.9, 6.1], [3.1, 5.7]])
    phase = np.array([[0.3, 1.1], [-0.7, 0.4], [0.9, -0.2], [1.7, 0.6]])
    expected = {
        0: [113.87069662801699, 36.83824821833804, -33.471450970586304, 0.6762442778294055],
        250: [-119.0457187411906, -62.576971310460024, -30.489386763556308, -4.404632709195335],
        777: [-8.908627831384983, -28.427539097117148, -27.830624773084235, -3.3255596657442945],
        1500: [218.29047798500704, 96.89306511531323, -34.00982895553694, 1.656976590659563],
        2000: [-272.09803084993877, -179.9549364523581, -34.96964311212193, -18.676654664803895],
    }
    robot = load_robot("scara")
    assert np.isfinite(robot.parameters).all()
    assert set(robot.known_zeros) == {"MX4", "MY4", "MZ4"}
    t = 0.002 * np.array(list(expected))
    angle = omega * t[:, None, None] + phase
    q = (amplitude * np.sin(angle)).sum(axis=2)
    v = (amplitude * omega * np.cos(angle)).sum(axis=2)
    a = (-amplitude * omega**2 * np.sin(angle)).sum(axis=2)
    tau = regressor(robot, Motion(t, q, v, a)).matrix @ robot.parameters
    assert_allclose(tau.reshape(-1, 4), list(expected.values()), rtol=0.0, atol=1e-9)


def test_one_link_reactions() -> None:
    """Raucent et al. 1992, section 4 (golden/b_ranks.json): Fx Fy Fz Cx Cy Cz by m, mb_y, mb_z, K_yy, K_yz."""
    expected = [
        [0.0, 0.0, -1.1159388899954867, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.0],
        [9.81, 0.0, -0.8418909631274358, 0.0, 0.0],
        [0.0, 9.81, 0.0, 0.0, 0.8418909631274358],
        [0.0, 0.0, -4.601351161044702, -0.7, 0.0],
        [0.0, 0.0, 0.0, 0.0, -1.1159388899954867],
    ]
    motion = Motion(np.zeros(1), np.array([[0.4]]), np.array([[1.1]]), np.array([[-0.7]]))
    W = regressor(load_robot("one_link"), motion, model="reaction", rotor_inertia=False)
    ours = {"M1": 1.0, "MZ1": 1.0, "MY1": -1.0, "ZZ1": 1.0, "YZ1": -1.0}
    R = np.stack([sign * W.matrix[:, W.columns.index(c)] for c, sign in ours.items()], axis=1)
    assert_allclose(R, expected, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "count", "tared"),
    [("one_link", 5, 3), ("puma562", 11, 10), ("puma560", 41, 40), ("iiwa", 48, 47)],
)
def test_reaction_counts(name: str, count: int, tared: int) -> None:
    """Raucent et al. 1992 and golden/b_ranks.json; a tared plate adds six free offsets."""
    W = free_columns(load_robot(name), model="reaction")
    offsets = np.tile(np.eye(6), (len(W) // 6, 1))
    assert count_independent(W) == count
    assert count_independent(np.hstack([W, offsets])) - 6 == tared


def test_panda_limits() -> None:
    limits = load_robot("panda").limits
    assert_allclose(limits.position[:, 1], [2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973])
    assert_allclose(limits.position[:, 0], [-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973])
    assert_allclose(limits.velocity, [2.175] * 4 + [2.61] * 3)
    assert_allclose(limits.acceleration, [15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0])
    assert_allclose(limits.effort, [87.0] * 4 + [12.0] * 3)


def test_lwr4_is_the_arm_of_its_urdf() -> None:
    """Steps along z and axes of FloBaRoID's kuka_lwr4.urdf, joint by joint, in the same joint angles."""
    steps = (0.11, 0.2005, 0.2, 0.2, 0.2, 0.19, 0.078)
    axes = [(0, 0, 1), (0, -1, 0), (0, 0, 1), (0, 1, 0), (0, 0, 1), (0, -1, 0), (0, 0, 1)]
    robot = load_robot("lwr4")
    for q in np.random.default_rng(5).uniform(-2.0, 2.0, (10, 7)):
        T = Transform.identity()
        for step, axis, x in zip(steps, axes, q, strict=True):
            rotation = rotation_about(np.array(axis, dtype=np.float64), float(x))
            T = T @ Transform(rotation, np.array([0.0, 0.0, step]))
        ours = end_frame(robot, q)
        assert_allclose(ours.translation, T.translation, atol=1e-14)
        assert_allclose(ours.rotation, T.rotation, atol=1e-14)
    assert_allclose(robot.limits.velocity[[0, 2, 4, 5]], [1.91986217719, 2.23402144255, 3.56047167407, 3.21140582367])


def standard_chain(a: list[float], alpha: list[float], d: list[float], q: Array, base: Transform) -> Transform:
    """Paul's convention, written out here: Rz(q) Tz(d) Tx(a) Rx(alpha) for each joint, degrees and m."""
    T = base
    for length, twist, offset, x in zip(a, alpha, d, q, strict=True):
        T = T @ Transform(rotation_z(float(x)), np.array([0.0, 0.0, offset]))
        T = T @ Transform(rotation_x(twist * pi / 180), np.array([length, 0.0, 0.0]))
    return T


def test_kr300_is_the_published_standard_table() -> None:
    """Weigand et al. 2021: base turned about x, joint 3 offset by 90 degrees; last frame without its twist."""
    d, a = [-0.675, -0.189, 0.189, -1.0, 0.0, -0.24], [0.35, 1.15, 0.041, 0.0, 0.0, 0.0]
    alpha = [90.0, 0.0, -90.0, 90.0, -90.0, 0.0]
    offset = np.array([0.0, 0.0, pi / 2, 0.0, 0.0, 0.0])
    base = Transform(rotation_x(pi), np.zeros(3))
    robot = load_robot("kr300")
    for q in np.random.default_rng(6).uniform(-2.0, 2.0, (10, 6)):
        T, ours = standard_chain(a, alpha, d, q + offset, base), end_frame(robot, q)
        assert_allclose(ours.translation, T.translation, atol=1e-14)
        assert_allclose(ours.rotation, T.rotation, atol=1e-14)
    transport = np.array([0.0, -pi / 2, pi / 2, 0.0, 0.0, 0.0])
    tip = [0.35 + 1.0 + 0.24, 0.0, 0.675 + 1.15 - 0.041]  # forearm forward, the wrist 41 mm below the elbow
    assert_allclose(end_frame(robot, transport).translation, tip, atol=1e-14)


def test_tx40_stands_upright_at_the_zero_of_its_data_sheet() -> None:
    """The ranges of joints 2 and 3 are centred there: forearm above upper arm above shoulder."""
    robot = load_robot("tx40")
    q = robot.limits.position.mean(axis=1) * np.array([0.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    assert_allclose(end_frame(robot, q).translation, [0.0, 0.035, 0.45], atol=1e-14)


def test_ur10_is_the_published_standard_table() -> None:
    """The converted table carries the last frame where Paul's convention, written out here, puts it."""
    robot = load_robot("ur10")
    d, a = [0.1273, 0.0, 0.0, 0.163941, 0.1157, 0.0922], [0.0, -0.612, -0.5723, 0.0, 0.0, 0.0]
    alpha = [90.0, 0.0, 0.0, 90.0, -90.0, 0.0]
    for q in np.random.default_rng(7).uniform(-3.0, 3.0, (5, 6)):
        T, ours = standard_chain(a, alpha, d, q, Transform.identity()), end_frame(robot, q)
        assert_allclose(ours.translation, T.translation, atol=1e-14)
        assert_allclose(ours.rotation, T.rotation, atol=1e-14)


# rows of (constant, factors of the tree's joints) that vanish: theta2 = theta3 - theta4, ...
PARALLELOGRAMS: dict[str, list[tuple[float, tuple[int, ...]]]] = {
    "hpr": [(0.0, (0, 1, -1, 1, 0, 0, 0)), (-3 * pi, (0, 0, 0, 1, 1, 0, 0))],
    "sr400": [(pi / 2, (0, 1, 1, 0, 0, 0, -1, 0)), (0.0, (0, -1, 0, 0, 0, 0, 1, 1))],
}


@pytest.mark.parametrize("name", sorted(PARALLELOGRAMS))
def test_parallelograms_follow_their_relations(name: str) -> None:
    robot = load_robot(name)
    loops = loop_map(robot)
    assert loops is not None
    motion = random_motion(robot, samples=4, seed=8)
    tree = loops.tree_motion(motion.q, motion.v, motion.a)
    for constant, factors in PARALLELOGRAMS[name]:
        assert_allclose(tree.q @ np.array(factors) + constant, 0.0, atol=1e-14)


def test_slider_crank_has_its_closed_form() -> None:
    """Rod angle phi = asin(a sin q1 / l) against the slider's path; velocities by differentiation of it."""
    crank, rod = 0.3, 0.8
    q1, v1 = np.linspace(-pi, pi, 41), 1.3
    loops = loop_map(load_robot("slider_crank"))
    assert loops is not None
    tree = loops.tree_motion(q1[:, None], np.full((41, 1), v1), np.zeros((41, 1)))
    for k, x in enumerate(q1):
        phi = asin(crank * sin(x) / rod)
        assert_allclose(tree.q[k], [x, -x - phi, crank * cos(x) + rod * cos(phi)], atol=1e-11)
        rate = crank * cos(x) * v1 / (rod * cos(phi))
        slide = -crank * sin(x) * v1 - rod * sin(phi) * rate
        assert_allclose(tree.v[k], [v1, -v1 - rate, slide], atol=1e-10)


@pytest.mark.parametrize(("build", "joints"), [(humanoid, 30), (quadruped, 12)])
def test_walking_machines_agree_with_pinocchio(build: Callable[[], Robot], joints: int) -> None:
    robot = build()
    assert robot.n == joints
    motion = random_motion(robot, samples=5, seed=9)
    W = regressor(robot, motion, rotor_inertia=False).matrix.reshape(5, joints, -1)
    tau = regressor(robot, motion).matrix @ robot.parameters
    twin = Twin(robot)
    for n in range(5):
        state = motion.q[n], motion.v[n], motion.a[n]
        expected = twin.regressor(*state)
        assert np.abs(W[n] - expected).max() <= 1e-12 * np.abs(expected).max()
        torque = twin.torque(*state)
        assert_allclose(tau.reshape(5, -1)[n], torque, atol=1e-12 * np.abs(torque).max())


def test_the_person_has_a_persons_size() -> None:
    """Hands below the hips, feet on the ground, all bodies possible, masses of the whole less the pelvis."""
    robot = humanoid()
    T = {-1: Transform.identity()}
    height = {}
    for k, link in enumerate(robot.links):
        T[k] = T[link.parent] @ link.placement
        height[link.joint] = T[k].translation[2]
        body = to_body(link.inertia)
        moments = np.linalg.eigvalsh(body.inertia)
        assert moments[0] > 0.0
        assert moments[2] < moments[0] + moments[1]
    ground = height["left_ankle_roll"] - 0.08
    top = height["neck_pitch"] + 0.2429 * HEIGHT / 1.741
    assert top - ground == pytest.approx(HEIGHT, abs=0.06)
    assert -0.2 < height["right_wrist_roll"] < 0.1
    assert sum(to_body(link.inertia).mass for link in robot.links) == pytest.approx(MASS * (1.0 - PELVIS.mass))


# parent, b, alpha in quarter turns, d, r (golden/hpr_like.json and golden/sr400.json)
LOOP_ROWS = {
    "hpr": [
        (0, 0.0, 0, 0.0, 0.0),
        (1, 0.0, -1, 0.0, 0.0),
        (1, 0.0, -1, 0.0, 0.0),
        (2, 0.0, 0, 0.7, 0.0),
        (3, 0.0, 0, 0.25, 0.0),
        (4, 0.0, -1, 0.1, 0.9),
        (6, 0.0, 1, 0.0, 0.0),
    ],
    "sr400": [
        (0, 1.0, 0, 0.0, 0.0),
        (1, 0.0, -1, 0.3, 0.0),
        (2, 0.0, 0, 0.9, 0.0),
        (3, 0.0, -1, 0.1, 1.2),
        (4, 0.0, 1, 0.0, 0.0),
        (5, 0.0, -1, 0.0, 0.0),
        (1, 0.0, -1, 0.3, 0.0),
        (7, 0.0, 0, -0.45, 0.0),
    ],
}


@pytest.mark.parametrize("name", sorted(LOOP_ROWS))
def test_loop_robots_have_the_rows_of_the_golden_files(name: str) -> None:
    for link, (parent, b, turns, d, r) in zip(load_robot(name).links, LOOP_ROWS[name], strict=True):
        assert link.mdh is not None
        row = link.mdh
        assert link.parent + 1 == parent
        assert (row.gamma.value, row.b.value, row.alpha.value) == (0.0, b, turns * pi / 2)
        assert (row.d.value, row.theta.value, row.r.value) == (d, 0.0, r)
