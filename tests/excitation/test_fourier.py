"""Fourier motions: figures reached, limits that hold for all time, rest at both ends, requests that make no sense."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid import DynidError, Excitation, Motion, Robot, design_excitation, identify, load_robot, simulate
from dynid.excitation.criteria import Prediction, random_states
from dynid.excitation.excitation import motion_csv_text, read_motion_csv
from dynid.excitation.fourier import Basis, FourierShape, series_extremes
from dynid.robot.load import lock_joints
from humanoid import humanoid

PUMA = {
    "position": [[-2.7, 2.7]] * 6,
    "velocity": [1.5] * 3 + [3.0] * 3,
    "acceleration": [5.0] * 3 + [15.0] * 3,
}


GAUTIER3 = {"position": [[-1.5, 1.5]] * 3, "velocity": [1.0] * 3, "acceleration": [4.0] * 3}


RIGID: dict[str, Any] = {"criterion": "condition", "rotor_inertia": False, "friction": (), "margin": 0.0}
"""The papers' criterion of the rigid columns, up to the limits."""


def check_all_time(found: Excitation) -> None:
    """Independent of the code under test: roots of the derivative as a polynomial in z, written out anew."""
    shape, limits = found.shape, found.limits
    assert isinstance(shape, FourierShape)
    H, w = shape.harmonics, 2 * math.pi / shape.period
    for j, x in enumerate(shape.coefficients):
        c = np.zeros(2 * H + 1, dtype=complex)  # q = sum over k = -H..H of c_k z^k
        c[H] = x[0]
        for k in range(1, H + 1):
            c[H + k] = (x[H + k] - 1j * x[k]) / 2
            c[H - k] = np.conj(c[H + k])
        orders = np.arange(-H, H + 1)
        middle = limits.position[j].mean()
        ranges = (np.ptp(limits.position[j]) / 2, limits.velocity[j], limits.acceleration[j], limits.jerk[j])
        for order, bound in enumerate(ranges):
            series = c * (1j * orders * w) ** order
            roots = np.roots((series * 1j * orders)[::-1])
            phases = np.concatenate([np.angle(roots), np.linspace(0, 2 * math.pi, 2000)])
            values = np.real(np.exp(1j * np.outer(phases, orders)) @ series) - (middle if order == 0 else 0.0)
            assert np.abs(values).max() <= bound * (1 + 1e-9)
    motion = found.motion(1000.0)  # entry and exit on a fine grid
    assert (motion.q >= limits.position[:, 0] - 1e-9).all()
    assert (motion.q <= limits.position[:, 1] + 1e-9).all()
    assert (np.abs(motion.v) <= limits.velocity * (1 + 1e-9)).all()
    assert (np.abs(motion.a) <= limits.acceleration * (1 + 1e-9)).all()
    jerk = np.abs(np.diff(motion.a, axis=0)).max(axis=0) / np.diff(motion.t).min()
    assert (jerk <= limits.jerk * (1 + 1e-6)).all()


def check_motion(found: Excitation) -> None:
    """Rest at both ends, and positions, velocities, accelerations that belong together."""
    motion = found.motion(500.0)
    for end in (0, -1):
        assert_allclose(motion.v[end], 0.0, atol=1e-9)
        assert_allclose(motion.a[end], 0.0, atol=1e-9)
    dt = motion.t[1] - motion.t[0]
    middle = slice(1, -3)
    step = motion.q[2:] - motion.q[:-2]
    assert_allclose((step / (2 * dt))[middle], motion.v[1:-1][middle], atol=1e-2 * np.abs(motion.v).max())


def small(seed: int) -> Excitation:
    return design_excitation(load_robot("gautier3"), seed=seed, starts=2, limits=GAUTIER3)


@pytest.mark.slow
def test_panda_by_its_data_sheet() -> None:
    found = design_excitation(load_robot("panda"), **RIGID)
    assert len(found.rows.names) == 43
    assert found.condition <= 7.9
    assert found.margin >= 0.0
    check_all_time(found)
    check_motion(found)


@pytest.mark.slow
def test_puma_560_with_rotors() -> None:
    found = design_excitation(load_robot("puma560"), limits=PUMA, **{**RIGID, "rotor_inertia": True})
    assert len(found.rows.names) == 40
    assert found.condition <= 10.3
    assert found.margin >= 0.0
    check_all_time(found)
    check_motion(found)


def test_reproducible_by_seed() -> None:
    one, two, other = (small(seed) for seed in (3, 3, 4))
    assert_allclose(one.motion(50.0).q, two.motion(50.0).q, rtol=0, atol=0)
    assert one.condition != other.condition


def test_scara_with_its_prismatic_joint() -> None:
    limits = {
        "position": [[-2, 2], [-2, 2], [-0.1, 0.1], [-3, 3]],
        "velocity": [1, 1, 0.3, 2],
        "acceleration": [5, 5, 2, 10],
    }
    found = design_excitation(load_robot("scara"), limits=limits, starts=2, **RIGID)
    assert found.condition < 100
    assert found.margin >= 0.0
    check_all_time(found)


@pytest.mark.slow
def test_a_humanoids_pair_of_arms() -> None:
    robot = humanoid()
    arms = [
        name for name in robot.joint_names if "arm" in name or "shoulder" in name or "elbow" in name or "wrist" in name
    ]
    others = {name: 0.0 for name in robot.joint_names if name not in arms}
    pair = lock_joints(robot, others)
    assert pair.n >= 10
    limits = {"position": [[-1.5, 1.5]] * pair.n, "velocity": [2.0] * pair.n, "acceleration": [10.0] * pair.n}
    found = design_excitation(pair, limits=limits, starts=1, time_budget=40.0, **RIGID)
    assert np.isfinite(found.condition)
    assert found.margin >= 0.0
    check_all_time(found)


@pytest.mark.parametrize(
    ("criterion", "model", "friction"),
    [
        ("a", "torque", ()),
        ("d", "torque", ("viscous", "coulomb", "offset")),
        ("e", "reaction", ()),
        ("frobenius", "momentum", ()),
        ("condition+scaling", "energy", ()),
    ],
)
def test_other_criteria_and_models(criterion: str, model: str, friction: tuple[str, ...]) -> None:
    robot = load_robot("gautier3")
    found = design_excitation(
        robot,
        criterion=criterion,
        model=model,
        friction=friction,
        limits=GAUTIER3,
        starts=1,
        weights=(1.0, 0.01) if criterion == "condition+scaling" else (1.0, 0.0),
        noise=0.5,
    )
    assert found.margin >= 0.0
    assert found.value < found.first_value


@pytest.mark.slow
def test_torque_limits_hold_where_the_robot_is_known() -> None:
    robot = load_robot("puma560")
    free = design_excitation(robot, limits=PUMA, starts=1, **RIGID)
    tau = _torques(robot, free)
    effort = 0.8 * np.abs(tau).max(axis=0) + 1e-3
    held = design_excitation(robot, limits={**PUMA, "effort": effort}, starts=1, **RIGID)
    assert (np.abs(_torques(robot, held)) <= effort).all()
    with pytest.raises(DynidError, match=r"effort limit of joint .* cannot even hold"):
        design_excitation(robot, limits={**PUMA, "effort": [1.0] * 6}, starts=1, time_budget=5.0)


def _torques(robot: Robot, found: Excitation) -> np.ndarray:
    from dynid import regressor

    motion = found.motion(500.0)
    return np.asarray((regressor(robot, motion).matrix @ robot.parameters).reshape(len(motion), -1))


def test_periods_repeat_and_a_rest_pose_is_kept() -> None:
    rest = [0.1, -0.5, 0.3, 0.0, 0.2, 0.0]
    found = design_excitation(load_robot("puma560"), limits=PUMA, starts=1, periods=3, rest=rest)
    motion = found.motion(100.0)
    assert_allclose(motion.q[0], rest, atol=1e-12)
    assert_allclose(motion.q[-1], rest, atol=1e-9)
    assert found.duration > 30.0
    assert found.margin >= 0.0


def test_a_time_budget_is_kept() -> None:
    import time

    start = time.monotonic()
    found = design_excitation(load_robot("panda"), starts=50, time_budget=3.0)
    assert time.monotonic() - start < 20.0
    assert found.margin >= 0.0
    assert any("stopped early" in warning for warning in found.warnings)


@pytest.mark.slow
def test_the_pandas_condition_number_is_found_with_any_seed() -> None:
    """At most 7.4 with the limits of its data sheet at margin 0; the papers' figures by others are 7.85 to 8.32."""
    robot = load_robot("panda")
    found = [design_excitation(robot, seed=seed, **RIGID).condition for seed in range(4)]
    assert max(found) <= 7.4


def folding(reach: float) -> str:
    inertial = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'
    box = '<collision><origin xyz="0 0 0.2"/><geometry><box size="0.1 0.1 0.3"/></geometry></collision>'
    links = "".join(f'<link name="{name}">{inertial}{box}</link>' for name in "abcd")
    limit = f'<limit lower="-{reach}" upper="{reach}" effort="100" velocity="2"/>'
    joints = "".join(
        f'<joint name="{first}{second}" type="revolute"><parent link="{first}"/><child link="{second}"/>'
        f'<origin xyz="0 0 0.5"/><axis xyz="0 1 0"/>{limit}</joint>'
        for first, second in ("ab", "bc", "cd")
    )
    return f'<robot name="folding">{links}{joints}</robot>'


def test_links_are_kept_apart_in_the_search(tmp_path: Path) -> None:
    """Pinocchio's own model and distances at 200 Hz are the other route."""
    import pinocchio as pin

    file = tmp_path / "folding.urdf"
    file.write_text(folding(3.1))
    found = design_excitation(load_robot(file), starts=1, harmonics=2, **RIGID)
    assert found.clearance is not None
    model = pin.buildModelFromUrdf(str(file))
    geometry = pin.buildGeomFromUrdf(model, str(file), pin.GeometryType.COLLISION)
    for i, j in ((0, 2), (0, 3), (1, 3)):
        geometry.addCollisionPair(pin.CollisionPair(i, j))
    data, distances = model.createData(), pin.GeometryData(geometry)
    for q in found.motion(200.0).q:
        pin.computeDistances(model, data, geometry, distances, q)
        assert min(result.min_distance for result in distances.distanceResults) >= 0.01 - 1e-6
    assert found.margin >= 0.0
    file.write_text(folding(0.7))
    alone = design_excitation(load_robot(file), starts=1)
    assert alone.margin >= 0.0
    assert alone.clearance is not None
    assert alone.clearance.proves


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"limits": {"position": [[1, -1]] * 6, "velocity": [1] * 6}}, "not below"),
        ({"limits": {"position": [[-1, 1]] * 6}}, "neither a velocity nor an acceleration"),
        ({"limits": {"velocity": [1] * 5}}, "shape"),
        ({"limits": {"velocity": [-1] * 6}}, "positive"),
        ({"limits": {"speed": [1] * 6}}, "not 'speed'"),
        ({"limits": {"velocity": ["a"] * 6}}, "numbers"),
        ({"limits": PUMA, "duration": 0.0}, "duration"),
        ({"limits": PUMA, "duration": -1.0}, "duration"),
        ({"limits": PUMA, "duration": 0.001}, "duration of 0.001 s is outside"),
        ({"limits": PUMA, "harmonics": 0}, "harmonics"),
        ({"limits": PUMA, "rest": [9.0] * 6}, "outside its limits"),
        ({"limits": PUMA, "rest": [0.0]}, "6 finite numbers"),
        ({"limits": PUMA, "shape": "spline"}, "shapes are"),
        ({"limits": PUMA, "criterion": "beauty"}, "criteria are"),
        ({"limits": PUMA, "model": "heat"}, "designed for"),
        ({"limits": PUMA, "friction": ("sticky",)}, "friction block"),
        ({"limits": PUMA, "noise": [1.0]}, "channels"),
        ({"limits": PUMA, "time_budget": -1.0}, "time budget"),
        ({}, "neither a velocity"),
    ],
)
def test_requests_that_make_no_sense(options: dict[str, object], words: str) -> None:
    with pytest.raises(DynidError, match=words):
        design_excitation(load_robot("puma560"), **options)  # type: ignore[arg-type]


def test_files(tmp_path: Path) -> None:
    import json

    found = small(0)
    for name in ("m.csv", "m.json", "m.yaml"):
        found.save(tmp_path / name, rate=50.0)
    table = np.loadtxt(tmp_path / "m.csv", delimiter=",", skiprows=1)
    motion = found.motion(50.0)
    assert_allclose(table, np.column_stack([motion.t, motion.q, motion.v, motion.a]), atol=0)
    message = json.loads((tmp_path / "m.json").read_text())["trajectory"]
    assert message["joint_names"] == list(found.robot.joint_names)
    assert len(message["points"]) == len(motion)
    assert message["points"][50]["time_from_start"] == {"sec": 1, "nanosec": 0}
    assert '"time_from_start":{"sec":1,"nanosec":0}' in (tmp_path / "m.yaml").read_text()
    with pytest.raises(DynidError, match="cannot write"):
        found.save(tmp_path / "m.txt")
    with pytest.raises(DynidError, match="rate"):
        found.motion(0.0)


@pytest.mark.parametrize("seed", range(20))
def test_extremes_of_series_against_a_fine_grid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((3, 11)) * rng.choice([0.0, 1.0], (3, 11), p=[0.3, 0.7])
    lowest, highest = series_extremes(x, 4.0)
    values = Basis.at_instants(np.linspace(0.0, 4.0, 20001), 4.0, 5).q @ x.T
    assert_allclose(values.max(axis=0), highest, atol=1e-5)
    assert_allclose(values.min(axis=0), lowest, atol=1e-5)
    assert (values.max(axis=0) <= highest + 1e-12).all()
    assert (values.min(axis=0) >= lowest - 1e-12).all()


def test_processes_find_what_one_process_finds() -> None:
    from dynid.dynamics.kernels import threads

    before = threads.thread_count()
    found = []
    for count in (1, 2):
        threads.use_threads(count)
        found.append(design_excitation(load_robot("gautier3"), starts=2, limits=GAUTIER3).motion(20.0).q)
    threads.use_threads(before)
    assert_allclose(found[0], found[1], atol=0)


def mean_variance(found: Excitation, W: np.ndarray) -> float:
    """Variance of predicted torques over effort limits squared, by the plain formula."""
    states = random_states(found.robot, found.limits, 10.0, found.shape.harmonics)  # type: ignore[attr-defined]
    covariance = np.linalg.inv(W.T @ (W / np.tile(found.assumed_noise**2, len(W) // found.robot.n)[:, None]))
    U = found.rows.matrix(states)
    variance = np.einsum("ij,jk,ik->i", U, covariance, U).reshape(-1, found.robot.n)
    return float((variance / (found.assumed_noise / 0.01) ** 2).mean())


def test_the_default_predicts_torques_within_a_margin() -> None:
    """Columns as `identify` takes them, a variance that the plain formula confirms, 5 % of all limits unused."""
    robot = load_robot("gautier3")
    found = design_excitation(robot, limits={**GAUTIER3, "effort": [30.0, 60.0, 15.0]}, starts=2)
    log = simulate(robot, found, rate=200.0)
    identified = identify(robot, log, friction=("viscous", "coulomb", "offset"))
    assert found.criterion == "v"
    assert set(found.rows.names) == set(identified.names)
    assert found.margin >= 0.05
    assert found.margin == pytest.approx(0.05, abs=1e-6)
    assert_allclose(found.assumed_noise, 0.01 * np.array([30.0, 60.0, 15.0]))
    assert found.expected == found.expected_errors()
    assert found.value == pytest.approx(mean_variance(found, found.matrix), rel=1e-6)
    rigid = design_excitation(robot, limits={**GAUTIER3, "effort": [30.0, 60.0, 15.0]}, starts=2, **RIGID)
    assert found.value < 0.8 * mean_variance(found, found.rows.matrix(rigid.shape.exciting_motion()))
    check_all_time(found)


def test_a_margin_is_measured_against_the_limits() -> None:
    robot = load_robot("gautier3")
    rest = [1.4, 0.0, 0.0]
    for margin in (0.0, 0.2):
        found = design_excitation(robot, limits=GAUTIER3, starts=1, harmonics=2, margin=margin)
        assert margin <= found.margin <= margin + 1e-6
        assert_allclose(found.limits.position, np.tile([-1.5, 1.5], (3, 1)))
    with pytest.raises(DynidError, match="margin"):
        design_excitation(robot, limits=GAUTIER3, margin=0.2, rest=rest)
    for bad in (-0.1, 1.0, math.nan):
        with pytest.raises(DynidError, match="margin"):
            design_excitation(robot, limits=GAUTIER3, margin=bad)


@pytest.mark.parametrize(
    ("shape", "budget"), [("fourier", None), ("points", 4.0), pytest.param("points", None, marks=pytest.mark.slow)]
)
def test_jerk_limits_hold_at_every_instant(shape: str, budget: float | None) -> None:
    limits = {**GAUTIER3, "jerk": [3.0, 4.0, 5.0]}
    options = {"harmonics": 3} if shape == "fourier" else {"points": 16, "time_budget": budget}
    found = design_excitation(load_robot("gautier3"), shape=shape, limits=limits, starts=1, **options)
    motion = found.motion(2000.0)
    jerk = np.abs(np.diff(motion.a, axis=0)).max(axis=0) / np.diff(motion.t).min()
    assert (jerk <= 0.95 * np.array([3.0, 4.0, 5.0]) * (1 + 1e-6)).all()
    assert found.margin >= 0.05
    if budget is None:  # what a search finds in seconds by the clock depends on the machine
        assert found.use[:, 3].max() > 0.9  # they did bind
    if shape == "fourier":
        check_all_time(found)


def test_a_task_of_its_own(tmp_path: Path) -> None:
    """A motion near one pose asks for other states than the whole range; its file says the same as the motion."""
    robot = load_robot("gautier3")
    t = np.linspace(0.0, 6.0, 200)
    x = 0.3 * np.sin(np.outer(t, [1.0, 2.0, 1.5]))
    v = 0.3 * np.cos(np.outer(t, [1.0, 2.0, 1.5])) * [1.0, 2.0, 1.5]
    task = Motion(t, x + np.array([0.9, 0.5, -0.5]), v, -x * np.square([1.0, 2.0, 1.5]))
    options: dict[str, Any] = {"limits": {**GAUTIER3, "effort": 80.0}, "starts": 1, "harmonics": 3}
    own = design_excitation(robot, task=task, **options)
    (tmp_path / "task.csv").write_text(motion_csv_text(task))
    read = design_excitation(robot, task=tmp_path / "task.csv", **options)
    assert_allclose(own.motion(50.0).q, read.motion(50.0).q, atol=0)
    anywhere = design_excitation(robot, **options)
    goal = Prediction.for_states(own.rows, task, own.limits.effort).G

    def variance(found: Excitation) -> float:
        A = found.matrix / np.tile(found.assumed_noise, len(found.matrix) // 3)[:, None]
        return float(np.trace(goal @ np.linalg.inv(A.T @ A) @ goal.T))

    assert own.value == pytest.approx(variance(own), rel=1e-6)
    assert variance(own) < 0.9 * variance(anywhere)
    bare = "\n".join(",".join(line.split(",")[:4]) for line in motion_csv_text(task).splitlines())
    (tmp_path / "bare.csv").write_text(bare)
    spline = read_motion_csv(tmp_path / "bare.csv")
    assert_allclose(spline.v, task.v, atol=1e-3)
    assert_allclose(spline.a[5:-5], task.a[5:-5], atol=1e-2)
    (tmp_path / "no.csv").write_text("time,angle\n0,1\n")
    for bad, words in ((tmp_path / "no.csv", "columns t"), (tmp_path / "none.csv", "cannot be read")):
        with pytest.raises(DynidError, match=words):
            design_excitation(robot, task=bad, **options)
    with pytest.raises(DynidError, match="3"):
        design_excitation(load_robot("puma560"), task=task, limits=PUMA)


def test_one_position_limit_is_kept_too() -> None:
    limits = {**GAUTIER3, "position": [[0.5, np.inf], [-np.inf, 0.2], [-1.5, 1.5]]}
    found = design_excitation(load_robot("gautier3"), limits=limits, starts=1, harmonics=2)
    q = found.motion(200.0).q
    assert q[:, 0].min() > 0.5
    assert q[:, 1].max() < 0.2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"criterion": "v", "model": "reaction"}, "predicted torques"),
        ({"criterion": "v", "shape": "points"}, "model 'torque'"),
        ({"criterion": "d", "task": "traj.csv"}, "task belongs to"),
        ({"limits": {**GAUTIER3, "jerk": -1.0}}, "jerk limit must be positive"),
    ],
)
def test_what_criterion_v_and_jerks_refuse(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DynidError, match=words):
        design_excitation(load_robot("gautier3"), **{"limits": GAUTIER3, **options})
